/* ONNX models as the command `tapir bench` measures them, each in a process of its own like the peers:
 * a run, the way from the file to the first result, the most memory. And a Loop of many
 * turns with little to do; bench/loop_ort.py measures the same file in ONNX Runtime. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MODELS = 6,
    BATCHES = 2,
    FIGURES = 4,
    NAME = 48,
    LINE = 1024,
    TURNS = 10000,
    WIDTH = 16
};

/* What the command said. */
typedef struct report {
    double median_ms, load_ms, first_ms, peak_rss_mib, gflop;
} report;

typedef struct model {
    const bench *b;
    const char *name;
    int batch;
    bool seq; /* it has a length */
    double goals[FIGURES];
    int times;   /* it was loaded with nothing in the cache */
    report last; /* of this round */
    char names[FIGURES][NAME], workload[NAME];
} model;

static double number_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : 0;
}

/* With the programs of `cache`; an error is the context's. */
static report command(const model *m, const char *cache, const char *options)
{
    char text[LINE], line[LINE] = "";
    const int n = snprintf(text, sizeof text,
                           "TAPIR_CACHE='%s' '%s' bench '%s/%s/model.onnx' --dim batch=%d%s "
                           "--threads %d --json %s",
                           cache, BENCH_TAPIR, m->b->models, m->name, m->batch,
                           m->seq ? " --dim seq=64" : "", m->b->threads, options);
    FILE *f = n > 0 && n < LINE ? popen(text, "r") : NULL;
    const bool read = f && fgets(line, sizeof line, f);
    if (!f || pclose(f) != 0 || !read)
        tp_fail(m->b->tp, TP_E_STATE, "tapir bench failed");
    return (report){.median_ms = number_after(line, "\"median_ms\":"),
                    .load_ms = number_after(line, "\"load_ms\":"),
                    .first_ms = number_after(line, "\"first_ms\":"),
                    .peak_rss_mib = number_after(line, "\"peak_rss_mib\":"),
                    .gflop = number_after(line, "\"gflop\":")};
}

/* The first figure of a model in a round runs the command for those behind it. */
static double run_seconds(void *arg, int64_t n)
{
    model *m = arg;
    m->last = command(m, m->b->cache, "");
    return (double)n * 1e-3 * m->last.median_ms;
}

static double first_cached(void *arg, int64_t n)
{
    const model *m = arg;
    return (double)n * 1e-3 * (m->last.load_ms + m->last.first_ms);
}

static double memory(void *arg)
{
    const model *m = arg;
    return m->last.peak_rss_mib;
}

static double first_cold(void *arg, int64_t n)
{
    model *m = arg;
    char folder[300];
    snprintf(folder, sizeof folder, "%s/first%d", m->b->cache, m->times++);
    const report r = command(m, folder, "--runs 1");
    return (double)n * 1e-3 * (r.load_ms + r.first_ms);
}

/* Each weight is read once, 0 when only some of them are. */
static double weights_gb(const model *m)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s/weights.bin", m->b->models, m->name);
    return !m->seq && stat(path, &st) == 0 ? 1e-9 * (double)st.st_size : 0;
}

static void add_model(bench *b, model *m)
{
    static const char *const what[FIGURES] = {"a run", "file to first result",
                                              "the same, nothing cached", "most memory"};
    bool any = false;
    snprintf(m->workload, NAME, "infer/%s/b%d", m->name, m->batch);
    for (int i = 0; i < FIGURES; i++) {
        snprintf(m->names[i], NAME, "%s b%d, %s", m->name, m->batch, what[i]);
        any |= bench_wants(b, m->names[i]);
    }
    if (!any)
        return;
    const report warm = command(m, b->cache, "--runs 1");
    figure f = {.name = m->names[0],
                .unit = "ms",
                .scale = 1e3,
                .timed = run_seconds,
                .arg = m,
                .slow = true,
                .spreads = true,
                .gflop = warm.gflop,
                .gb_read = weights_gb(m),
                .goal = m->goals[0],
                .peer_workload = m->workload,
                .peer_metric = "latency"};
    const char *only = b->only;
    b->only = NULL; /* the figures behind it need this one */
    bench_add(b, f);
    b->only = only;
    f.spreads = false;
    f.gflop = f.gb_read = 0;
    f.peer_metric = "setup"; /* of the session alone */
    f.name = m->names[1], f.timed = first_cached, f.goal = m->goals[1];
    bench_add(b, f);
    if (m->batch == 1) {
        f.name = m->names[2], f.timed = first_cold, f.goal = m->goals[2];
        bench_add(b, f);
    }
    f.unit = "MiB";
    f.peer_metric = "peak_rss";
    f.name = m->names[3], f.timed = NULL, f.told = memory, f.goal = m->goals[3];
    bench_add(b, f);
}

/* Ten elementwise ops on a few floats, as often as an input says. */
static bool save_loop(tp_ctx *tp, const char *path)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(WIDTH));
    tp_tensor *turns = tp_placeholder(g, "turns", TP_I64, TP_SCALAR);
    tp_tensor *half = tp_scalar(tp, TP_F32, 0.5), *one = tp_scalar(tp, TP_F32, 1);
    tp_tensor *i = tp_graph_read(g, tp_scalar(tp, TP_I64, 0));
    tp_while (tp_lt(i, turns), &x, &i) {
        x = tp_add(tp_mul(x, half), one);
        x = tp_max(tp_sub(x, tp_mul(x, half)), tp_neg(x));
        x = tp_mul(tp_add(x, half), half);
        x = tp_min(tp_abs(x), one);
        i = tp_add(i, tp_scalar(tp, TP_I64, 1));
    }
    tp_name(x, "y");
    return tp_onnx_save(g, path, TP_NAMES("x", "turns"), TP_NAMES("y")) == TP_OK;
}

typedef struct loop {
    tp_program *program;
    tp_tensor *feeds[2];
} loop;

static void run_loop(void *arg, int64_t n)
{
    const loop *l = arg;
    tp_ctx *tp = tp_ctx_of(l->feeds[0]);
    for (; n > 0; n--) {
        tp_tensor *y;
        tp_scope_begin(tp);
        tp_program_run(l->program, l->feeds, &y);
        tp_scope_end(tp);
    }
}

static void add_loop(bench *b)
{
    static const char name[] = "ONNX Loop, 10,000 turns of ten ops";
    const int64_t turns = TURNS;
    char path[512];
    loop *l = bench_wants(b, name) ? tp_alloc(b->tp, sizeof *l) : NULL;
    snprintf(path, sizeof path, "%s/loop.onnx", b->models ? b->models : b->cache);
    tp_graph *g = l && save_loop(b->tp, path) ? tp_onnx_load(b->tp, path, NULL) : NULL;
    if (!g)
        return;
    l->feeds[0] = tp_retain(tp_full(b->tp, TP_F32, TP_DIMS(WIDTH), 0.25));
    l->feeds[1] = tp_retain(tp_tensor_new(b->tp, TP_I64, TP_SCALAR, &turns));
    l->program = tp_graph_compile(g, TP_NAMES("x", "turns"), TP_NAMES("y"),
                                  &(tp_compile_options){.engine = TP_ENGINE_C});
    if (l->program)
        bench_add(b, (figure){.name = name,
                              .unit = "ms",
                              .run = run_loop,
                              .arg = l,
                              .scale = 1e3,
                              .peer_workload = "infer/loop/b1",
                              .peer_metric = "latency"});
}

void bench_add_models(bench *b)
{
    static const struct {
        const char *name;
        bool seq;
        double goals[FIGURES];
    } all[MODELS] = {
        {"mlp",          false, {0, 0, 0, 1}     },
        {"lenet",        false, {0, 0, 0, 1}     },
        {"resnet18",     false, {0.55, 0, 0, 1.3}},
        {"mobilenet_v2", false, {0, 0, 0, 1}     },
        {"lstm_lm",      true,  {0, 0, 0, 1}     },
        {"gpt_mini",     true,  {0, 0, 0, 1}     }
    };
    model *models = tp_alloc(b->tp, MODELS * BATCHES * sizeof *models);
    if (!models)
        return;
    if (!b->models)
        fprintf(stderr, "bench: no models: their figures are left out\n");
    for (int i = 0; i < MODELS && b->models; i++) {
        b->subject = all[i].name;
        for (int k = 0; k < BATCHES; k++) {
            model *m = &models[i * BATCHES + k];
            *m = (model){.b = b, .name = all[i].name, .batch = k ? 8 : 1, .seq = all[i].seq};
            memcpy(m->goals, all[i].goals, sizeof m->goals);
            add_model(b, m);
        }
    }
    b->subject = "ONNX Loop";
    add_loop(b);
}
