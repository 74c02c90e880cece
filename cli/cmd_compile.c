/* tapir compile: a model as a C file that stands alone. */
#include "cli.h"

#include <string.h>

typedef struct settings {
    texts dims, inputs;
    const char *output, *name;
    int weights;
    bool state, direct_conv;
    int64_t limit;
} settings;

enum { INSIDE, BESIDE };

static const option options[] = {
    CLI_OPTION(OPTION_TEXT, output, "output", "FILE.c",
               "where the C goes (also -o); FILE.h goes beside it"),
    CLI_OPTION(OPTION_TEXTS, dims, "dim", "NAME=N",
               "fix the size of a free dimension; x_2=N: of axis 2 of x;\n"
               "others are told by the program's caller"),
    CLI_OPTION(OPTION_TEXTS, inputs, "input", "NAME=FILE",
               "the value of an input on which sizes depend; it\n"
               "becomes a constant"),
    CLI_CHOICE(weights, "weights", "inside|beside", "inside,beside",
               "in the source, or in FILE.weights, which the\n"
               "program's caller reads (inside)"),
    CLI_OPTION(OPTION_TEXT, name, "name", "NAME",
               "what all names begin with (as FILE is called)"),
    CLI_LIMIT,
    CLI_SWITCH(state, "state", "weights can be changed by the program's caller"),
    CLI_DIRECT_CONV,
    CLI_OPTIONS_END,
};

static int compile_model(const settings *s, model *m)
{
    const tp_c_options opt = {.name = s->name,
                              .beside = s->weights == BESIDE,
                              .state = s->state,
                              .memory_limit = s->limit};
    model_drop_unneeded(m);
    if (tp_graph_save_c(m->graph, s->output, m->n_in, m->in, m->n_out, m->out, &opt) == TP_OK)
        return CLI_GOOD;
    const bool file = tp_error(m->tp) == TP_E_IO;
    return cli_refuse_error(file ? NULL : m->path, m->tp);
}

/* -o is what every compiler calls it. */
static void long_options(int argc, char **argv)
{
    static char output[] = "--output";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = output;
}

static int run(int argc, char **argv)
{
    settings s = {0};
    texts operands;
    int status;
    fixed_dims d = {0};
    long_options(argc, argv);
    if (cli_parse(&cli_compile, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        if (!s.output) {
            cli_refuse(NULL, "compile: where to? Say -o FILE.c");
        } else if (cli_dims(&s.dims, &d)) {
            model m;
            if (model_open(&m, operands.v[0], &d, &s.inputs, s.direct_conv))
                status = compile_model(&s, &m);
            model_close(&m);
        }
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_compile, &s, &operands);
    return status;
}

const command cli_compile = {
    .name = "compile",
    .operands = "MODEL",
    .about = "Writes a model as C that needs no library.",
    .text = "FILE.h says how the program is called and what its sizes are. It allocates\n"
            "nothing, and has the bits of tapir run with any compiler.\n"
            "\n"
            "examples:\n"
            "  tapir compile model.onnx -o model.c\n"
            "  tapir compile model.onnx -o model.c --dim batch=1 --weights beside\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
