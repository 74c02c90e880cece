/* ONNX models at batch 1: a run, and the way from the file to the first result. And a Loop of many
 * turns with little to do; bench/loop_ort.js measures the same file in ONNX Runtime. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

typedef struct model {
    const bench *b;
    const char *name;
    int64_t seq; /* of models with a length; 0: none */
    tp_tensor *x;
    tp_program *program;
    int times; /* it was loaded with nothing in the cache */
} model;

enum { MODELS = 6, NAME = 48, TURNS = 10000, WIDTH = 16 };

/* Of any context; the sizes that a model leaves free become 1 and `seq`. */
static tp_program *load(const model *m, tp_ctx *tp, tp_engine engine)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/model.onnx", m->b->models, m->name);
    const tp_onnx_dim dims[] = {
        {"batch", 1     },
        {"seq",   m->seq}
    };
    const tp_onnx_load_options opt = {.n_dims = m->seq ? 2 : 1, .dims = dims};
    tp_graph *g = tp_onnx_load(tp, path, &opt);
    if (!g)
        return NULL;
    const char *in = tp_name_of(tp_graph_input(g, 0)), *out = tp_name_of(tp_graph_output(g, 0));
    return tp_graph_compile(g, 1, &in, 1, &out,
                            &(tp_compile_options){.engine = engine, .freeze = true});
}

static tp_tensor *input(const model *m, tp_ctx *tp)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/input_0.npy", m->b->models, m->name);
    return tp_npy_load(tp, path);
}

static void run(void *arg, int64_t n)
{
    const model *m = arg;
    for (; n > 0 && m->program; n--) {
        tp_tensor *y;
        tp_scope_begin(m->b->tp);
        tp_program_run(m->program, &m->x, &y);
        tp_scope_end(m->b->tp);
    }
}

/* In a context of its own, with a cache that has the program, or has not. */
static double first_result(const model *m, const char *cache, int64_t n)
{
    double seconds = 0;
    for (; n > 0; n--) {
        tp_ctx *tp = tp_open(&(tp_options){.cache_dir = cache});
        tp_tensor *x = input(m, tp), *y = NULL;
        const double start = bench_wall_now();
        tp_program *p = load(m, tp, TP_ENGINE_AUTO);
        if (p)
            tp_program_run(p, &x, &y);
        seconds += bench_wall_now() - start;
        if (tp_error(tp) != TP_OK)
            tp_fail(m->b->tp, tp_error(tp), tp_error_message(tp));
        tp_close(tp);
    }
    return seconds;
}

static double first_cached(void *arg, int64_t n)
{
    const model *m = arg;
    return first_result(m, m->b->cache, n);
}

static double first_cold(void *arg, int64_t n)
{
    model *m = arg;
    char folder[300];
    snprintf(folder, sizeof folder, "%s/first%d", m->b->cache, m->times++);
    return first_result(m, folder, n);
}

typedef struct texts {
    char run[NAME], workload[NAME];
} texts;

static void add_first(bench *b, model *m, const char *workload)
{
    figure f = {.unit = "ms", .scale = 1e3, .arg = m, .wall = true};
    f.peer_workload = workload;
    f.peer_metric = "setup"; /* of the session alone */
    f.name = "resnet18, first result, cached", f.timed = first_cached;
    bench_add(b, f);
    f.name = "resnet18, first result, cold", f.timed = first_cold;
    bench_add(b, f);
}

static void add_model(bench *b, model *m, const texts *t, bool first)
{
    m->x = input(m, b->tp);
    m->program = load(m, b->tp, TP_ENGINE_C);
    if (!m->program)
        return;
    run(m, 1); /* the work is known then */
    bench_add(b, (figure){.name = t->run,
                          .unit = "ms",
                          .run = run,
                          .arg = m,
                          .scale = 1e3,
                          .limit = BOUND_FMA,
                          .work = 1e-9 * tp_program_stats_of(m->program).flops,
                          .peer_workload = t->workload,
                          .peer_metric = "latency"});
    if (first)
        add_first(b, m, t->workload);
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
        int seq;
    } all[MODELS] = {
        {"mlp",          0 },
        {"lenet",        0 },
        {"resnet18",     0 },
        {"mobilenet_v2", 0 },
        {"lstm_lm",      64},
        {"gpt_mini",     64}
    };
    add_loop(b);
    model *models = tp_alloc(b->tp, MODELS * sizeof *models);
    texts *names = tp_alloc(b->tp, MODELS * sizeof *names);
    if (!models || !names)
        return;
    if (!b->models) {
        fprintf(stderr, "bench: no models: their figures are left out\n");
        return;
    }
    for (int i = 0; i < MODELS; i++) {
        const bool first = strcmp(all[i].name, "resnet18") == 0;
        models[i] = (model){.b = b, .name = all[i].name, .seq = all[i].seq};
        snprintf(names[i].run, NAME, "%s, a run", all[i].name);
        snprintf(names[i].workload, NAME, "infer/%s/b1", all[i].name);
        if (bench_wants(b, names[i].run) ||
            (first && (bench_wants(b, "resnet18, first result, cached") ||
                       bench_wants(b, "resnet18, first result, cold"))))
            add_model(b, &models[i], &names[i], first);
    }
}
