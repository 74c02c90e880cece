/* tapir profile: which kernels of a model take the time. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct settings {
    texts inputs, dims;
    const char *trace;
    int64_t threads, runs, limit;
    int engine;
    bool direct_conv, json, sort;
} settings;

enum { MOST_RUNS = 100000, LEAST_RUNS = 3, WARM_UP_RUNS = 3, ENGINE_AUTO = 0 };
static const double enough_ms = 1000; /* of measuring, when --runs does not say */

static const option options[] = {
    CLI_INPUTS,
    CLI_COUNT(runs, "runs", "N", 1, MOST_RUNS,
              "runs that are measured (as many as take a second)"),
    CLI_THREADS(""),
    CLI_CHOICE(engine, "engine", "auto|tiles|c", "auto,tiles,c",
               "what computes; auto: C if it can be had, or tiles (auto)"),
    CLI_DIRECT_CONV,
    CLI_LIMIT,
    CLI_OPTION(OPTION_TEXT, trace, "trace", "FILE",
               "also write the last run there, for chrome://tracing\n"
               "and other readers of its JSON"),
    CLI_SWITCH(sort, "sort", "the slowest kernel first"),
    CLI_SWITCH(json, "json", "that JSON instead of the table"),
    CLI_OPTIONS_END,
};

/* ---- measuring ------------------------------------------------------------------------------------ */

/* Runs until `runs` are done, or enough when it is 0. */
static int run_often(model *m, tp_program *p, tp_tensor **out, int64_t runs)
{
    int status = CLI_GOOD;
    double spent = 0, ms = 0;
    for (int64_t i = 0; status == CLI_GOOD && i < (runs ? runs : MOST_RUNS); i++) {
        if (!runs && spent > enough_ms && i >= LEAST_RUNS)
            break;
        status = model_run(m, p, out, &ms);
        spent += ms;
    }
    return status;
}

static int measure(const settings *s, model *m, tp_program *p)
{
    tp_tensor **out = calloc((size_t)m->n_out, sizeof *out);
    int status = out ? CLI_GOOD : cli_no_memory();
    if (status == CLI_GOOD && s->engine == ENGINE_AUTO)
        model_wait(m, p);
    if (status == CLI_GOOD)
        status = run_often(m, p, out, WARM_UP_RUNS);
    if (status == CLI_GOOD && tp_program_profile(p, true) != TP_OK)
        status = cli_refuse_error(m->path, m->tp);
    if (status == CLI_GOOD)
        status = run_often(m, p, out, s->runs);
    free(out);
    return status;
}

/* ---- output ----------------------------------------------------------------------------------------- */

/* A line of the table. */
typedef struct line {
    const char *text;
    int len;
    double us; /* of a kernel */
} line;

static int by_time(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return x->us != y->us ? (x->us < y->us ? 1 : -1)
                          : (x->text > y->text) - (x->text < y->text);
}

/* The slowest kernel first. False: no memory. */
static bool put_sorted(const char *table)
{
    size_t n = 0, kernels = 0;
    for (const char *p = table; *p; p++)
        n += *p == '\n';
    line *lines = calloc(n + 1, sizeof *lines), *first = lines ? lines + 1 : NULL;
    const char *p = table;
    for (size_t i = 0; i < n && lines; i++) {
        lines[i] = (line){.text = p, .len = (int)strcspn(p, "\n")};
        if (*p == 'k' && p[1] >= '0' && p[1] <= '9') {
            lines[i].us = strtod(p + strcspn(p, " "), NULL);
            kernels++;
        }
        p += lines[i].len + 1;
    }
    if (lines && kernels < n)
        qsort(first, kernels, sizeof *first, by_time);
    for (size_t i = 0; i < n && lines; i++)
        printf("%.*s\n", lines[i].len, lines[i].text);
    free(lines);
    return lines;
}

static int put_profile(const settings *s, model *m, tp_program *p)
{
    char *text = s->json ? tp_program_profile_trace(p) : tp_program_profile_text(p);
    int status = text ? CLI_GOOD : cli_refuse_error(m->path, m->tp);
    if (status == CLI_GOOD && s->sort && !s->json)
        status = put_sorted(text) ? CLI_GOOD : cli_no_memory();
    else if (status == CLI_GOOD)
        fputs(text, stdout);
    if (status == CLI_GOOD && !s->json)
        printf("engine: %s, threads: %d\n", tp_program_engine(p), tp_threads(m->tp, 0));
    tp_free(m->tp, text);
    if (status == CLI_GOOD && s->trace && tp_program_profile_save(p, s->trace) != TP_OK)
        status = cli_refuse_error(s->trace, m->tp);
    return status;
}

static int profile_model(const settings *s, model *m, const fixed_dims *d, tp_engine engine)
{
    model_drop_unneeded(m);
    cli_threads(m->tp, s->threads);
    int status = model_make_inputs(m, d) ? CLI_GOOD : CLI_BAD;
    const tp_compile_options opt = {.engine = engine, .freeze = true, .memory_limit = s->limit};
    tp_program *p = status == CLI_GOOD ? model_compile(m, &opt) : NULL;
    model_drop_graph(m);
    if (status == CLI_GOOD)
        status = p ? measure(s, m, p) : CLI_BAD;
    return status == CLI_GOOD ? put_profile(s, m, p) : status;
}

static int profile(const settings *s, const char *path, const fixed_dims *d, tp_engine engine)
{
    model m;
    int status = model_open(&m, path, d, &s->inputs, s->direct_conv)
                     ? profile_model(s, &m, d, engine)
                     : CLI_BAD;
    if (status == CLI_MISFIT)
        status =
            model_open_sized(&m, d, &s->inputs) ? profile_model(s, &m, d, engine) : CLI_BAD;
    model_close(&m);
    return status;
}

static int run(int argc, char **argv)
{
    static const tp_engine engines[] = {TP_ENGINE_AUTO, TP_ENGINE_TILES, TP_ENGINE_C};
    settings s = {0};
    fixed_dims d = {0};
    texts operands;
    int status;
    if (cli_parse(&cli_profile, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        if (cli_dims(&s.dims, &d))
            status = profile(&s, operands.v[0], &d, engines[s.engine]);
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_profile, &s, &operands);
    return status;
}

const command cli_profile = {
    .name = "profile",
    .operands = "MODEL",
    .about = "Measures the kernels of a model.",
    .text =
        "A line per kernel, in the order in which they run: its mean time and its share of "
        "all, "
        "the\nbytes it reads and writes, its operations (two per multiply-add), how near it "
        "comes to the\nlimit that binds, and what it computes. The limits are what one thread "
        "of this machine\nmultiplies and copies, measured in the same run.\n"
        "\n"
        "examples:\n"
        "  tapir profile model.onnx --dim batch=8\n"
        "  tapir profile model.onnx --sort | head -12\n"
        "  tapir profile model.onnx --trace trace.json      then load it in chrome://tracing\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
