/* The command: what its parts share. Public headers only. */
#ifndef TAPIR_CLI_H
#define TAPIR_CLI_H

#define TP_PLACE NULL, 0 /* messages are about the user's files, not about ours */
#include <tapir/onnx.h>
#include <tapir/tapir.h>

#include <stdarg.h>
#include <string.h>

/* Exit codes: others script against them. */
enum { CLI_GOOD = 0, CLI_DIFFERS = 1, CLI_BAD = 2 };
enum { CLI_MISFIT = -1 }; /* of model_run: no exit code */

#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- messages ------------------------------------------------------------------------------ */

/* Prints "tapir: FILE: what", or "tapir: what" when file is NULL. Returns CLI_BAD. */
int cli_refuse(const char *file, const char *fmt, ...) CLI_PRINTF(2, 3);
/* Without what says it twice in front: names of library functions, and the file's (or NULL). */
const char *cli_plain(const char *library_message, const char *file);
/* The context's first error as a refusal. */
int cli_refuse_error(const char *file, const tp_ctx *tp);
static inline int cli_no_memory(void)
{
    cli_refuse(NULL, "out of memory");
    return CLI_BAD;
}

/* ---- options -------------------------------------------------------------------------------- */

typedef struct texts {
    int n;
    const char **v;
} texts;

typedef enum option_kind {
    OPTION_SWITCH, /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_TEXTS,  /* texts: may be given again */
    OPTION_COUNT,  /* int64_t, least to most */
    OPTION_NUMBER, /* double, not negative */
    OPTION_CHOICE  /* int: which of `choices` */
} option_kind;

typedef struct option {
    const char *name;  /* without the dashes; NULL ends a table */
    const char *value; /* as help shows it; NULL for a switch */
    option_kind kind;
    size_t at; /* offset of its variable in the command's settings */
    const char *help;
    const char *choices; /* "text,dot,json" */
    int64_t least, most;
} option;

/* Rows of a command's table; `field` is one of its struct settings. */
#define CLI_SWITCH(field, name_, help_)                                                        \
    {                                                                                          \
        .name = name_, .kind = OPTION_SWITCH, .at = offsetof(settings, field), .help = help_   \
    }
#define CLI_OPTION(kind_, field, name_, value_, help_)                                         \
    {                                                                                          \
        .name = name_, .value = value_, .kind = kind_, .at = offsetof(settings, field),        \
        .help = help_                                                                          \
    }
#define CLI_COUNT(field, name_, value_, least_, most_, help_)                                  \
    {                                                                                          \
        .name = name_, .value = value_, .kind = OPTION_COUNT, .at = offsetof(settings, field), \
        .help = help_, .least = least_, .most = most_                                          \
    }
#define CLI_CHOICE(field, name_, value_, choices_, help_)                                      \
    {                                                                                          \
        .name = name_, .value = value_, .kind = OPTION_CHOICE,                                 \
        .at = offsetof(settings, field), .help = help_, .choices = choices_                    \
    }
#define CLI_OPTIONS_END                                                                        \
    {                                                                                          \
        .name = NULL                                                                           \
    }

typedef struct command {
    const char *name, *operands, *about;
    const char *text; /* what help says below the options: meaning, examples */
    const option *options;
    int least_operands, most_operands;
    int (*run)(int argc, char **argv);
} command;

extern const command cli_run, cli_test, cli_show, cli_bench, cli_profile, cli_compile;

/* Reads the arguments of a command (argv[0] is its name) into its settings; `operands` gets the
 * rest. False: it was refused with a message, or help was asked for and given; *status says. */
bool cli_parse(const command *c, int argc, char **argv, void *settings, texts *operands,
               int *status);
/* Frees what OPTION_TEXTS and operands hold. */
void cli_parsed_free(const command *c, void *settings, texts *operands);
void cli_help(const command *c, FILE *out);
/* The name nearest to `word`, NULL when none is near. */
const char *cli_nearest(const char *word, int n, const char *const *names);

/* --engine: the same choices everywhere. */
typedef enum cli_engine { CLI_AUTO, CLI_REFERENCE, CLI_TILES, CLI_C } cli_engine;
#define CLI_ENGINES "auto,reference,tiles,c"
tp_engine cli_engine_of(int choice);

/* --direct-conv: settings.direct_conv. */
#define CLI_DIRECT_CONV                                                                        \
    CLI_SWITCH(direct_conv, "direct-conv",                                                     \
               "convolutions of an ONNX model as plain sums, not by Winograd's\n"              \
               "tiles: other bits, slower (docs/numerics.md)")

/* --threads: settings.threads, 0 when it is not given. */
enum { CLI_MOST_THREADS = 256 };
#define CLI_THREADS(more)                                                                      \
    CLI_COUNT(threads, "threads", "N", 1, CLI_MOST_THREADS,                                    \
              "threads that compute (TAPIR_THREADS, or 1): they need\n"                        \
              "libpthreadpool" more)
/* --limit: settings.limit, 0 when it is not given. */
#define CLI_LIMIT                                                                              \
    CLI_COUNT(limit, "limit", "BYTES", 1, INT64_MAX,                                           \
              "most memory for values between kernels; to keep it they\n"                      \
              "are computed again: the same bits, slower")
/* How many compute from now on: n, if that is not 0; or 1, and a message says so. */
int cli_threads(tp_ctx *tp, int64_t n);

/* --input and --dim of commands that measure: settings.inputs and settings.dims. */
#define CLI_INPUTS                                                                             \
    CLI_OPTION(OPTION_TEXTS, inputs, "input", "NAME=FILE",                                     \
               "the value of an input, .npy or .pb; others are made:\n"                        \
               "random numbers from -1 to 1, and 0 for integers"),                             \
        CLI_OPTION(OPTION_TEXTS, dims, "dim", "NAME=N",                                        \
                   "the size of a free dimension; an error says which ones\n"                  \
                   "the model has; x_2=N: of axis 2 of x")

/* ---- signals --------------------------------------------------------------------------------- */

/* From now on a signal that ends the command ends first what it has under way. */
void cli_catch_signals(void);
/* A context of the command: what it has under way is meant. */
tp_ctx *cli_open(const tp_options *opt);
void cli_close(tp_ctx *tp);

/* ---- models and tensors ---------------------------------------------------------------------- */

/* --dim NAME=N */
typedef struct fixed_dims {
    int n;
    tp_onnx_dim *v;
} fixed_dims;

/* False: refused with a message. cli_dims_free frees in any case. */
bool cli_dims(const texts *from, fixed_dims *d);
void cli_dims_free(fixed_dims *d);
/* Is it there, and no folder? False: refused with a message. */
bool cli_is_file(const char *path);
/* What an ONNX file says of itself (tp_onnx_summary). */
typedef struct declared {
    const char *name, *type;
    int rank; /* -1: not told */
    int64_t size[TP_MAX_RANK];
    const char *free[TP_MAX_RANK]; /* name of a free dimension, whose size is -1 */
} declared;

typedef struct counted {
    int n;
    const char *domain, *op;
} counted;

typedef struct about {
    char *text; /* all strings point into it; NULL: the model is no ONNX file */
    long ir_version;
    int n_opsets, n_in, n_out, n_ops;
    counted *opsets; /* version and domain */
    declared *in, *out;
    counted *ops;
} about;

/* False: refused with a message; about_free frees in any case. */
bool about_read(about *a, tp_ctx *tp, const char *path);
bool about_parse(about *a, const char *summary);
void about_free(about *a);

/* Of the types that a model declares: is it a sequence, or an optional? NULL: a tensor. */
static inline bool type_is_sequence(const char *type)
{
    return type && strstr(type, "sequence(");
}
static inline bool type_is_optional(const char *type)
{
    return type && strncmp(type, "optional(", 9) == 0;
}
static inline bool type_is_tensor(const char *type)
{
    return !type || !strchr(type, '(');
}

/* An input or an output, and the tensors it consists of. */
typedef struct port {
    const char *name, *type; /* type NULL: a tensor */
    int n;                   /* -1: an optional without a value */
    tp_tensor **v;
} port;

typedef struct model {
    tp_ctx *tp;
    tp_graph *graph;
    const char *path;
    about about;
    int n_in, n_out;
    const char **in, **out; /* names */
    tp_tensor **feeds;      /* [n_in]; NULL: not given */
    int n_given;
    port *given;      /* by --input */
    bool unread;      /* it cannot be read without inputs that are not given */
    bool sized;       /* it was read with the sizes of those that are */
    bool direct_conv; /* as of tp_options */
} model;

/* Opens a model: ONNX, or a graph saved by tp_graph_save. `d`: dimensions of ONNX that are fixed;
 * `inputs`: "NAME=FILE", read into feeds; either may be NULL. When the model cannot be read without
 * knowing sizes or values of inputs, those that are given are used. False: refused with a
 * message. model_close frees in any case. `direct_conv`: as of tp_options. */
bool model_open(model *m, const char *path, const fixed_dims *d, const texts *inputs,
                bool direct_conv);
/* After CLI_MISFIT: opens it again, with the sizes of the inputs that are given. */
bool model_open_sized(model *m, const fixed_dims *d, const texts *inputs);
void model_close(model *m);
/* Forgets inputs that are not given and that no output needs: labels of a loss, where only the
 * prediction is an output. */
void model_drop_unneeded(model *m);
/* Makes the inputs that are not given: random numbers from -1 to 1, the same each time, and 0 for
 * integers. False: refused with a message, a size is free. */
bool model_make_inputs(model *m, const fixed_dims *d);
/* A program of all inputs and outputs; NULL: refused. */
tp_program *model_compile(model *m, const tp_compile_options *opt);
/* Once it is compiled, with weights that are frozen: they are not held twice. */
void model_drop_graph(model *m);
/* Runs it once, for so long; out[n_out] are gone when it returns. An exit status, or CLI_MISFIT. */
int model_run(model *m, tp_program *p, tp_tensor **out, double *ms);
/* A run has failed: CLI_BAD after a message; or CLI_MISFIT, without one, when sizes do not fit that
 * the model has left free, and that those of the inputs would settle. */
int model_run_failed(const model *m);
/* Waits for the C program, however long the compiler takes. Without one a message says so, and it
 * goes on without. */
void model_wait(model *m, tp_program *p);

/* Reads "NAME=FILE" texts into m->given, which has room for them, where names[n] are the inputs of
 * the model and types[n] what they are (NULL: all are tensors). False: refused with a message. */
bool values_given(model *m, const texts *inputs, int n, const char *const *names,
                  const char *const *types);

/* ---- graphs ------------------------------------------------------------------------------------- */

typedef struct ir_attr {
    const char *name, *value;
} ir_attr;

typedef struct ir_node {
    tp_node is;         /* what the library tells of it */
    const char *value;  /* of a const: "0.5", "[1, 2]", or "#0" where it is long; else NULL */
    const char **sizes; /* by axis: "batch", "10" */
    const char *dims;   /* "batch,10" */
    const char *place;  /* "net.c:8"; "" */
    const char *attrs;  /* "axes=[1], keep=false"; "" when there are none */
    const ir_attr *attr;
    int n_attrs; /* bodies come first: "then", "(2)" */
    int *in;     /* numbers of nodes */
    int body;    /* of a block: bodies[body] .. of its ir are its own; 0 */
} ir_node;

typedef struct ir_result { /* what a body gives */
    const char *word;      /* "give", "while", "carry", "stack" */
    int node;
} ir_result;

typedef struct ir_body {
    const char *word;  /* "then", "other", "body"; NULL: the graph itself, number 0 */
    const char *place; /* "net.c:8"; "" */
    int n_nodes, n_results;
    ir_node *nodes;
    ir_result *results;
} ir_body;

/* A graph with all of its bodies in a row, numbered as in its text (docs/ir.md). */
typedef struct ir {
    tp_ctx *tp;
    const tp_graph *graph;
    int n_bodies, n_all; /* with number 0; all nodes */
    int n_long;          /* constants that a text has no room for */
    ir_body *bodies;
    bool failed; /* out of memory */
} ir;

/* False when memory is out. All of it is memory of the context, and freed with that. */
bool ir_read(ir *v, tp_ctx *tp, const tp_graph *g);
/* Outside of bodies; NULL: there is none. */
const ir_node *ir_find(const ir *v, const char *name);
/* What it is and its sizes, without the rest; false: there is none of that name, or memory is out. */
bool ir_port(ir_node *n, tp_ctx *tp, const tp_graph *g, const char *name);
/* NULL: it has no such attribute. */
const char *ir_attr_of(const ir_node *n, const char *name);
/* The node's, or that of the variable that it reads; NULL: neither has one. */
static inline const char *ir_name_of(const ir_node *n)
{
    return n->is.name || n->value || !n->is.value ? n->is.name : tp_name_of(n->is.value);
}

/* ---- output ----------------------------------------------------------------------------------------- */

/* JSON and HTML: what is no valid UTF-8, or in HTML no character but a newline, is U+FFFD. */
void put_json_text(FILE *out, const char *text);
void put_html_text(FILE *out, const char *text);
/* On a terminal and in tables: control bytes become '?'. */
void put_plain_text(FILE *out, const char *text);
double cli_now_ms(void);

#endif
