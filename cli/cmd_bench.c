/* tapir bench: how long a model takes. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct settings {
    texts inputs, dims;
    int64_t threads, runs, limit;
    int engine;
    bool direct_conv, json;
} settings;

enum { MOST_RUNS = 100000, LEAST_RUNS = 3, WARM_UP_RUNS = 3 };
static const double steady_ms = 2000; /* of measuring, when --runs does not say */

static const option options[] = {
    CLI_INPUTS,
    CLI_COUNT(runs, "runs", "N", 1, MOST_RUNS,
              "runs that are measured (as many as take 2 seconds)"),
    CLI_THREADS("; the key threads says how many did"),
    CLI_CHOICE(engine, "engine", "auto|reference|tiles|c", CLI_ENGINES,
               "auto: what there is when compiling has ended (auto)"),
    CLI_DIRECT_CONV,
    CLI_LIMIT,
    CLI_SWITCH(json, "json", "one line of JSON"),
    CLI_OPTIONS_END,
};

typedef struct figures {
    double median_ms, p10_ms, p90_ms, load_ms, first_ms;
    tp_program_stats stats;
    const char *engine;
    int runs, threads;
} figures;

/* ---- measuring ------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In [0, 1]; between two values, their line. */
static double quantile(const double *sorted, int n, double q)
{
    const double at = q * (n - 1);
    const int below = (int)at;
    const int above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static int measure_steady(model *m, const settings *s, tp_program *p, tp_tensor **out,
                          double *ms, figures *f)
{
    const int most = s->runs ? (int)s->runs : MOST_RUNS;
    int status = CLI_GOOD;
    double spent = 0;
    for (int i = 0; i < WARM_UP_RUNS && status == CLI_GOOD && spent < steady_ms; i++) {
        status = model_run(m, p, out, ms);
        spent += *ms;
    }
    spent = 0;
    while (f->runs < most && status == CLI_GOOD) {
        status = model_run(m, p, out, &ms[f->runs]);
        spent += ms[f->runs++];
        if (!s->runs && spent > steady_ms && f->runs >= LEAST_RUNS)
            break;
    }
    qsort(ms, (size_t)f->runs, sizeof *ms, by_value);
    f->median_ms = quantile(ms, f->runs, 0.5);
    f->p10_ms = quantile(ms, f->runs, 0.1);
    f->p90_ms = quantile(ms, f->runs, 0.9);
    return status;
}

static int measure(model *m, const settings *s, const fixed_dims *d, tp_engine engine,
                   figures *f)
{
    tp_tensor **out = calloc((size_t)m->n_out, sizeof *out);
    double *ms = calloc(s->runs ? (size_t)s->runs : MOST_RUNS, sizeof *ms);
    int status = out && ms ? CLI_GOOD : cli_no_memory();
    if (status == CLI_GOOD && !model_make_inputs(m, d))
        status = CLI_BAD;
    const tp_compile_options opt = {.engine = engine, .freeze = true, .memory_limit = s->limit};
    const double start = cli_now_ms();
    double first;
    tp_program *p = status == CLI_GOOD ? model_compile(m, &opt) : NULL;
    model_drop_graph(m);
    if (status == CLI_GOOD)
        status = p ? model_run(m, p, out, &first) : CLI_BAD;
    f->first_ms = cli_now_ms() - start;
    if (status == CLI_GOOD && engine == TP_ENGINE_AUTO)
        model_wait(m, p);
    if (status == CLI_GOOD)
        status = measure_steady(m, s, p, out, ms, f);
    if (p) {
        f->stats = tp_program_stats_of(p);
        f->engine = tp_program_engine(p);
    }
    free(out);
    free(ms);
    return status;
}

/* ---- output ----------------------------------------------------------------------------------------- */

typedef struct figure {
    int digits;
    const char *key;
    double value;
    const char *about;
} figure;

#define FIGURE(digits, key, value, about) ((figure){digits, #key, value, about})

/* The most memory that this process has had. What getrusage tells begins with what the process had that
 * started it. */
static double peak_rss_mib(void)
{
    static const char key[] = "VmHWM:";
    char line[200];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, sizeof key - 1) == 0)
            kib = strtod(line + sizeof key - 1, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

static void put_figures(const figures *f, bool json)
{
    const double gflop = f->stats.flops * 1e-9;
    const figure rows[] = {
        FIGURE(4, median_ms, f->median_ms, "a run, in the steady state"),
        FIGURE(4, p10_ms, f->p10_ms, "a tenth of the runs are faster"),
        FIGURE(4, p90_ms, f->p90_ms, "a tenth are slower"),
        FIGURE(3, load_ms, f->load_ms, "reading the model"),
        FIGURE(3, first_ms, f->first_ms, "from there to the first result"),
        FIGURE(3, compile_ms, f->stats.compile_ms,
               "the C compiler, or reading what it made once"),
        FIGURE(1, peak_rss_mib, peak_rss_mib(), "most memory of this process"),
        FIGURE(0, arena_bytes, (double)f->stats.arena_bytes, "memory of values in between"),
        FIGURE(9, gflop, gflop, "work of a run: products and convolutions"),
        FIGURE(3, gflops, f->median_ms > 0 ? gflop / (f->median_ms * 1e-3) : 0,
               "work per second"),
        FIGURE(0, threads, f->threads, "that computed"),
        FIGURE(0, runs, f->runs, "that were measured"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (json)
            printf("%s\"%s\": %.*f", i ? ", " : "{", rows[i].key, rows[i].digits,
                   rows[i].value);
        else
            printf("%-14s%14.*f%s%s\n", rows[i].key, rows[i].digits, rows[i].value,
                   *rows[i].about ? "  " : "", rows[i].about);
    if (json)
        printf(", \"engine\": \"%s\"}\n", f->engine);
    else
        printf("%-14s%14s\n", "engine", f->engine);
}

static int bench(const settings *s, const char *path, const fixed_dims *d, tp_engine engine)
{
    model m;
    figures f = {.engine = "none"};
    const double start = cli_now_ms();
    bool ok = model_open(&m, path, d, &s->inputs, s->direct_conv);
    f.load_ms = cli_now_ms() - start;
    if (ok)
        f.threads = cli_threads(m.tp, s->threads);
    int status = ok ? measure(&m, s, d, engine, &f) : CLI_BAD;
    if (status == CLI_MISFIT) {
        ok = model_open_sized(&m, d, &s->inputs);
        f.load_ms = cli_now_ms() - start;
        if (ok)
            cli_threads(m.tp, s->threads);
        status = ok ? measure(&m, s, d, engine, &f) : CLI_BAD;
    }
    if (status == CLI_GOOD)
        put_figures(&f, s->json);
    model_close(&m);
    return status;
}

static int run(int argc, char **argv)
{
    settings s = {0};
    fixed_dims d = {0};
    texts operands;
    int status;
    if (cli_parse(&cli_bench, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        if (cli_dims(&s.dims, &d))
            status = bench(&s, operands.v[0], &d, cli_engine_of(s.engine));
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_bench, &s, &operands);
    return status;
}

const command cli_bench = {
    .name = "bench",
    .operands = "MODEL",
    .about = "Measures how long a model takes.",
    .text =
        "The model is loaded and run once; then, unless --engine says otherwise, bench waits "
        "for the\nC program, which takes over, and measures runs with the same inputs.\n"
        "\n"
        "examples:\n"
        "  tapir bench model.onnx\n"
        "  tapir bench model.onnx --dim batch=8 --dim seq=64 --json\n"
        "  tapir bench model.onnx --input tokens=tokens.npy\n"
        "\n"
        "keys: median_ms p10_ms p90_ms load_ms first_ms compile_ms peak_rss_mib arena_bytes "
        "gflop\ngflops threads runs engine. From the start to the first result it took load_ms "
        "+ first_ms;\ngflop is the work of one run in 1e9 operations, gflops the rate of the "
        "median run.\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
