/* tapir run: computes a model's outputs. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct settings {
    texts inputs, dims;
    const char *output;
    int format, engine;
} settings;

enum { AS_NPY, AS_PB };

static const option options[] = {
    CLI_OPTION(OPTION_TEXTS, inputs, "input", "NAME=FILE",
               "the value of an input, .npy or .pb; once for each input"),
    CLI_OPTION(OPTION_TEXT, output, "output", "DIR",
               "write each output to DIR/NAME.npy instead of printing it;\n"
               "DIR is made when it is not there"),
    CLI_CHOICE(format, "format", "npy|pb", "npy,pb", "of the files written (npy)"),
    CLI_OPTION(OPTION_TEXTS, dims, "dim", "NAME=N", "fix the size of a free dimension"),
    CLI_CHOICE(engine, "engine", "auto|reference|c", CLI_ENGINES,
               "what computes: the model compiled to C; plain loops; auto\n"
               "is C, or plain loops when there is no compiler (auto)"),
    CLI_OPTIONS_END,
};

/* ---- what is needed ---------------------------------------------------------------------------- */

static void put_option_for(const char *name)
{
    fputs("    --input ", stderr);
    put_plain_text(stderr, name);
    fputs("=FILE\n", stderr);
}

static void put_port(const ir *v, const char *name, bool input)
{
    const ir_node *n = ir_find(v, name);
    fputs("  ", stderr);
    put_plain_text(stderr, name);
    if (n)
        fprintf(stderr, "  %s[%s]", n->dtype, n->dims);
    if (input)
        put_option_for(name);
    else
        fputc('\n', stderr);
}

static const char takes[] =
    "It takes (FILE is a .npy or .pb; a name among the sizes is one that is free):\n";

/* Of a model that cannot be read without its inputs, as its file says. */
static void say_declared(const model *m)
{
    fputs(takes, stderr);
    for (int i = 0; i < m->about.n_in; i++) {
        const declared *d = &m->about.in[i];
        fputs("  ", stderr);
        put_plain_text(stderr, d->name);
        fprintf(stderr, "  %s[", d->type);
        for (int a = 0; a < d->rank; a++) {
            fputs(a ? "," : "", stderr);
            if (d->free[a])
                put_plain_text(stderr, d->free[a]);
            else
                fprintf(stderr, "%lld", (long long)d->size[a]);
        }
        fputs(d->rank < 0 ? "?]" : "]", stderr);
        put_option_for(d->name);
    }
}

static int say_needs(const model *m)
{
    ir v;
    int first = 0;
    while (m->feeds[first])
        first++;
    cli_refuse(m->path, "input \"%s\" is missing", m->in[first]);
    if (!ir_read(&v, m->tp, m->graph)) {
        ir_free(&v);
        return cli_no_memory();
    }
    fputs(takes, stderr);
    for (int i = 0; i < m->n_in; i++)
        put_port(&v, m->in[i], true);
    fputs("It gives:\n", stderr);
    for (int i = 0; i < m->n_out; i++)
        put_port(&v, m->out[i], false);
    ir_free(&v);
    return CLI_BAD;
}

/* ---- results -------------------------------------------------------------------------------------- */

static void put_type(const tp_tensor *t)
{
    printf("%s[", tp_dtype_name(tp_dtype_of(t)));
    for (int i = 0; i < tp_rank(t); i++)
        printf("%s%lld", i ? "," : "", (long long)tp_size(t, i));
    printf("]");
}

static int make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0)
        return CLI_GOOD;
    if (errno != EEXIST)
        return cli_refuse(path, "%s", strerror(errno));
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return cli_refuse(path, "it is not a folder");
    return CLI_GOOD;
}

/* A file name of an output's name: what is odd becomes '_', and a number is added to the name
 * when that has made two alike. */
static char *file_name(const settings *s, const model *m, int output, char *const *earlier)
{
    const size_t size = strlen(s->output) + strlen(m->out[output]) + 32;
    char *path = malloc(size), *bare = strdup(m->out[output]);
    for (char *p = bare; p && *p; p++) {
        const char c = *p;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                           (c == '.' && p != bare);
        if (!plain)
            *p = '_';
    }
    if (bare && strlen(bare) > 200)
        bare[200] = 0;
    bool taken = path && bare;
    for (int n = 1; taken; n++) {
        char number[16] = "";
        if (n > 1)
            snprintf(number, sizeof number, "_%d", n);
        snprintf(path, size, "%s/%s%s.%s", s->output, *bare ? bare : "_", number,
                 s->format == AS_PB ? "pb" : "npy");
        taken = false;
        for (int i = 0; i < output; i++)
            taken |= strcmp(earlier[i], path) == 0;
    }
    if (!bare) {
        free(path);
        path = NULL;
    }
    free(bare);
    return path;
}

static int write_output(const settings *s, const model *m, int i, const tp_tensor *t,
                        const char *path)
{
    const tp_status status =
        s->format == AS_PB ? tp_onnx_tensor_save(t, path) : tp_npy_save(t, path);
    if (status != TP_OK)
        return cli_refuse_error(path, m->tp);
    put_plain_text(stdout, m->out[i]);
    printf("  ");
    put_type(t);
    printf("  ");
    put_plain_text(stdout, path);
    printf("\n");
    return CLI_GOOD;
}

static int write_outputs(const settings *s, const model *m, tp_tensor *const *out)
{
    char **paths = calloc((size_t)m->n_out, sizeof *paths);
    int status = paths ? make_folder(s->output) : cli_no_memory();
    for (int i = 0; i < m->n_out && status == CLI_GOOD; i++) {
        paths[i] = file_name(s, m, i, paths);
        status = paths[i] ? write_output(s, m, i, out[i], paths[i]) : cli_no_memory();
    }
    for (int i = 0; i < m->n_out && paths; i++)
        free(paths[i]);
    free(paths);
    return status;
}

static int print_outputs(const model *m, tp_tensor *const *out)
{
    for (int i = 0; i < m->n_out; i++) {
        put_plain_text(stdout, m->out[i]);
        printf("  ");
        tp_print(out[i], stdout);
    }
    return CLI_GOOD;
}

/* ---- running ----------------------------------------------------------------------------------------- */

static int run_model(const settings *s, model *m, tp_engine engine)
{
    model_drop_unneeded(m);
    for (int i = 0; i < m->n_in; i++)
        if (!m->feeds[i])
            return say_needs(m);
    const tp_compile_options opt = {.engine = engine, .freeze = true};
    tp_program *p = model_compile(m, &opt);
    tp_tensor **out = calloc((size_t)m->n_out, sizeof *out);
    int status = !p ? CLI_BAD : !out ? cli_no_memory() : CLI_GOOD;
    if (status == CLI_GOOD && engine == TP_ENGINE_AUTO)
        model_wait(m, p);
    if (status == CLI_GOOD && tp_program_run(p, m->feeds, out) != TP_OK)
        status = cli_refuse_error(m->path, m->tp);
    if (status == CLI_GOOD)
        status = s->output ? write_outputs(s, m, out) : print_outputs(m, out);
    free(out);
    return status;
}

static int run(int argc, char **argv)
{
    settings s = {0};
    texts operands;
    tp_engine engine;
    int status;
    fixed_dims d = {0};
    if (cli_parse(&cli_run, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        if (cli_engine_of(s.engine, &engine) && cli_dims(&s.dims, &d)) {
            model m;
            if (model_open(&m, operands.v[0], &d, &s.inputs))
                status = run_model(&s, &m, engine);
            else if (m.tp && s.inputs.n < m.about.n_in &&
                     strstr(tp_error_message(m.tp), "has to be known"))
                say_declared(&m);
            model_close(&m);
        }
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_run, &s, &operands);
    return status;
}

const command cli_run = {
    .name = "run",
    .operands = "MODEL",
    .about = "Computes the outputs of a model.",
    .text = "Without its inputs it says which ones the model needs: name, type and sizes.\n"
            "\n"
            "examples:\n"
            "  tapir run model.onnx                        what does it need?\n"
            "  tapir run model.onnx --input x=x.npy        print the outputs\n"
            "  tapir run model.onnx --input x=x.npy --input mask=mask.pb --output results\n"
            "\n"
            "With --output a line is printed for each file: name, type and sizes, path. Odd\n"
            "characters of a name become _ in the file's name.\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
