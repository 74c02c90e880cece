/* tapir: ONNX models from the command line. Each command is a file of its own, cmd_NAME.c. */
#include "cli.h"

#include <errno.h>
#include <string.h>

static const command *const commands[] = {&cli_run,   &cli_test,    &cli_show,
                                          &cli_bench, &cli_profile, &cli_compile};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const command *find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void put_overview(FILE *out)
{
    fputs("usage: tapir COMMAND [OPTION]... FILE\n\ncommands:\n", out);
    for (int i = 0; i < N_COMMANDS; i++) {
        const command *c = commands[i];
        fprintf(out, "  %-8s%.*s\n", c->name, (int)strcspn(c->about, "."), c->about);
    }
    fputs(
        "  help    Explains a command: tapir help run\n"
        "\n"
        "Models are ONNX files, or graphs saved by tp_graph_save. A first look at one, and "
        "what it\n"
        "needs to run:\n"
        "\n"
        "    tapir show model.onnx\n"
        "    tapir run model.onnx\n"
        "    tapir run model.onnx --input x=photo.npy --output results\n"
        "\n"
        "Exit codes: 0 good, 1 a result differs or a test failed, 2 bad usage or bad input.\n"
        "Messages go to stderr as \"tapir: FILE: what is wrong\".\n"
        "Environment: TAPIR_CC is the C compiler (cc), TAPIR_CACHE the folder of compiled "
        "programs,\n"
        "TAPIR_LOG=compile logs each compilation, capture what becomes of captured functions,\n"
        "program the figures of each program, threads why there is one only, error each "
        "error,\n"
        "all everything.\n"
        "TAPIR_THREADS says how many threads compute (1). TAPIR_TRAP=nan stops at the op that\n"
        "makes the first NaN.\n"
        "TAPIR_EAGER=1 switches capture off in programs that use it.\n",
        out);
}

static int refuse_command(const char *name)
{
    const char *names[N_COMMANDS + 1];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    names[N_COMMANDS] = "help";
    const char *near = cli_nearest(name, N_COMMANDS + 1, names);
    if (near)
        return cli_refuse(NULL, "there is no command %s; did you mean %s?", name, near);
    return cli_refuse(NULL, "there is no command %s (tapir help)", name);
}

static int help(int argc, char **argv)
{
    const command *c = argc > 1 ? find_command(argv[1]) : NULL;
    if (argc > 1 && !c && strcmp(argv[1], "help") != 0)
        return refuse_command(argv[1]);
    if (c)
        cli_help(c, stdout);
    else
        put_overview(stdout);
    return CLI_GOOD;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        put_overview(stderr);
        return CLI_BAD;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("tapir %s\n", tp_version());
        return CLI_GOOD;
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help(argc - 1, argv + 1);
    const command *c = find_command(word);
    if (c)
        return c->run(argc - 1, argv + 1);
    if (word[0] == '-')
        return cli_refuse(NULL, "there is no option %s before a command (tapir help)", word);
    return refuse_command(word);
}

int main(int argc, char **argv)
{
    cli_catch_signals();
    int status = dispatch(argc, argv);
    errno = 0;
    const bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (!written)
        status = cli_refuse("standard output", "%s", errno ? strerror(errno) : "not written");
    return status;
}
