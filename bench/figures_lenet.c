/* LeNet on 28 x 28 pictures, batches of 32, SGD with momentum: one step in four ways, and what
 * comes before it is fast. */
#include "bench.h"
#include "lenet.h"
#include "limits.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 32, N_BATCHES = 8 };

typedef struct learner {
    lenet net;
    tp_optimizer *sgd;
} learner;

typedef struct training {
    tp_ctx *tp;
    learner learner;
    tp_tensor *x[N_BATCHES], *y[N_BATCHES];
    int64_t next;
    tp_graph *graph;
    tp_program *program;   /* feeds x and y, fetches loss and step */
    tp_program *tiles;     /* the same without a compiler */
    tp_function *function; /* takes x and y, gives the loss */
} training;

static learner learner_new(tp_ctx *tp)
{
    learner l = {.net = lenet_new(tp)};
    l.sgd =
        tp_sgd_new(tp, 0.01, &(tp_sgd_options){.momentum = 0.9}, LENET_PARAMS, l.net.params);
    return l;
}

static tp_graph *graph_of(tp_ctx *tp, const learner *l)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(batch, 1, 28, 28));
    tp_tensor *loss = lenet_loss(&l->net, x, tp_placeholder(g, "y", TP_I64, TP_DIMS(batch)));
    tp_name(loss, "loss");
    tp_name(tp_optimizer_step(l->sgd, loss), "step");
    return g;
}

static tp_program *compile(tp_graph *g, tp_engine engine)
{
    const tp_compile_options c = {.engine = engine};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x", "y"), TP_NAMES("loss", "step"), &c);
    if (p && engine == TP_ENGINE_C)
        tp_program_wait(p);
    return p;
}

static void step_eagerly(void *arg, int64_t n)
{
    training *t = arg;
    for (; n > 0; n--, t->next++) {
        tp_scope_begin(t->tp);
        const int64_t i = t->next % N_BATCHES;
        tp_optimizer_step(t->learner.sgd, lenet_loss(&t->learner.net, t->x[i], t->y[i]));
        tp_scope_end(t->tp);
    }
}

static void step_by(training *t, tp_program *p, int64_t n)
{
    for (; n > 0; n--, t->next++) {
        tp_scope_begin(t->tp);
        const int64_t i = t->next % N_BATCHES;
        tp_tensor *out[2];
        if (p)
            tp_program_run(p, (tp_tensor *[]){t->x[i], t->y[i]}, out);
        tp_scope_end(t->tp);
    }
}

static void step_compiled(void *arg, int64_t n)
{
    step_by(arg, ((training *)arg)->program, n);
}

static void step_by_tiles(void *arg, int64_t n)
{
    step_by(arg, ((training *)arg)->tiles, n);
}

/* Of a graph that is there: made a program, and run. */
static void first_result(void *arg, int64_t n)
{
    training *t = arg;
    for (; n > 0; n--) {
        tp_program *p = compile(t->graph, TP_ENGINE_TILES);
        step_by(t, p, 1);
        tp_program_free(p);
    }
}

static void captured_body(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const learner *l = user;
    tp_tensor *loss = lenet_loss(&l->net, in[0], in[1]);
    tp_optimizer_step(l->sgd, loss);
    out[0] =
        tp_detach(loss); /* nobody asks for its gradient any more: nothing is kept for it */
}

static void step_captured(void *arg, int64_t n)
{
    training *t = arg;
    for (; n > 0; n--, t->next++) {
        tp_scope_begin(t->tp);
        const int64_t i = t->next % N_BATCHES;
        tp_function_apply(t->function, TP_TENSORS(t->x[i], t->y[i]));
        tp_scope_end(t->tp);
    }
}

/* Of a new function: the one that records it, */
static double first_call(void *arg, int64_t n)
{
    training t = *(const training *)arg;
    double seconds = 0;
    for (; n > 0; n--) {
        const double start = limit_now();
        t.function = tp_function_new(t.tp, "first", captured_body, &t.learner, NULL);
        step_captured(&t, 1);
        seconds += limit_now() - start;
        tp_function_free(t.function);
    }
    return seconds;
}

/* and the one in which its program is made, which has been compiled before. */
static double second_call(void *arg, int64_t n)
{
    training t = *(const training *)arg;
    double seconds = 0;
    for (; n > 0; n--) {
        t.function = tp_function_new(t.tp, "second", captured_body, &t.learner, NULL);
        step_captured(&t, 1);
        const double start = limit_now();
        step_captured(&t, 1);
        seconds += limit_now() - start;
        tp_function_free(t.function);
    }
    return seconds;
}

/* ---- three trainings ------------------------------------------------------------------------ */

static void training_new(training *t, tp_ctx *tp)
{
    *t = (training){.tp = tp, .learner = learner_new(tp)};
    for (int i = 0; i < N_BATCHES; i++) {
        t->x[i] = tp_uniform(tp, TP_F32, TP_DIMS(BATCH, 1, 28, 28), 0, 1);
        t->y[i] = tp_cast(tp_uniform(tp, TP_F32, TP_DIMS(BATCH), 0, 10), TP_I64);
    }
    t->function = tp_function_new(tp, "LeNet", captured_body, &t->learner, NULL);
    t->graph = graph_of(tp, &t->learner);
    t->program = compile(t->graph, TP_ENGINE_C);
    t->tiles = compile(t->graph, TP_ENGINE_TILES);
}

/* The first layer's weights after some steps from the same seed. */
static void train(const bench *b, void (*step)(void *, int64_t), float w[150])
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 7, .cache_dir = b->cache});
    training t;
    training_new(&t, tp);
    step(&t, 2);
    tp_function_wait(t.function);
    step(&t, 8);
    tp_read(t.learner.net.conv[0].w, w, 150 * sizeof *w);
    if (tp_error(tp) != TP_OK)
        tp_fail(b->tp, tp_error(tp), tp_error_message(tp));
    tp_close(tp);
}

static void check_bits(const bench *b)
{
    float w[4][150];
    train(b, step_eagerly, w[0]);
    train(b, step_compiled, w[1]);
    train(b, step_captured, w[2]);
    train(b, step_by_tiles, w[3]);
    for (int i = 1; i < 4; i++)
        if (memcmp(w[0], w[i], sizeof w[0]) != 0)
            tp_fail(b->tp, TP_E_BUG, "LeNet's steps have different bits");
}

/* ---- compiling: a context each time, so that nothing but the cache is left of the last one --- */

typedef struct compiling {
    const bench *b;
    char dir[256];
    int64_t times;
} compiling;

static void compile_once(const compiling *c, const char *dir, bool cached)
{
    tp_ctx *tp = tp_open(&(tp_options){.cache_dir = dir});
    const learner l = learner_new(tp);
    const tp_program *p = compile(graph_of(tp, &l), TP_ENGINE_C);
    if (!p)
        tp_fail(c->b->tp, tp_error(tp), tp_error_message(tp));
    else if (tp_program_stats_of(p).from_cache != cached)
        tp_fail(c->b->tp, TP_E_STATE,
                cached ? "LeNet was not in the cache" : "LeNet was in the cache");
    tp_close(tp);
}

static void compile_cold(void *arg, int64_t n)
{
    compiling *c = arg;
    for (; n > 0; n--) {
        snprintf(c->dir, sizeof c->dir, "%s/%d", c->b->cache, (int)c->times++);
        compile_once(c, c->dir, false);
    }
}

/* The training step above has filled the cache. */
static void compile_cached(void *arg, int64_t n)
{
    const compiling *c = arg;
    for (; n > 0; n--)
        compile_once(c, c->b->cache, true);
}

void bench_add_lenet(bench *b)
{
    static const char *const names[] = {
        "LeNet step at 32, eager",       "LeNet step at 32, compiled",
        "LeNet step at 32, captured",    "LeNet, first captured call",
        "LeNet, second captured call",   "LeNet, compiling, from the cache",
        "LeNet, compiling, cold",        "LeNet step at 32, by tiles",
        "LeNet step at 32, first result"};
    bool any = false;
    for (int i = 0; i < 9; i++)
        any |= bench_wants(b, names[i]);
    if (!any)
        return;
    training *t = tp_alloc(b->tp, sizeof *t);
    compiling *c = tp_alloc(b->tp, sizeof *c);
    if (!t || !c)
        return;
    training_new(t, b->tp);
    step_captured(t, 2);
    tp_function_wait(t->function);
    check_bits(b);
    c->b = b;
    /* Three times the forward products, less the gradient of the pictures. */
    const double flops =
        2 * (2 * 784.0 * 6 * 25 + 3 * (100.0 * 16 * 150 + 400.0 * 120 + 120.0 * 84 + 840));
    figure f = {.unit = "ms",
                .arg = t,
                .scale = 1e3,
                .spreads = true,
                .gflop = 1e-9 * BATCH * flops,
                .peer_workload = "train/lenet/b32",
                .peer_metric = "step",
                .peer_system = "torch-eager"};
    f.name = names[0], f.run = step_eagerly;
    bench_add(b, f);
    f.name = names[1], f.run = step_compiled;
    bench_add(b, f);
    f.name = names[2], f.run = step_captured;
    bench_add(b, f);
    f.name = names[7], f.run = step_by_tiles;
    bench_add(b, f);
    f.name = names[8], f.run = first_result;
    bench_add(b, f);

    f = (figure){.unit = "ms", .arg = t, .scale = 1e3};
    f.name = names[3], f.timed = first_call;
    bench_add(b, f);
    f.name = names[4], f.timed = second_call;
    bench_add(b, f);

    f = (figure){.unit = "ms", .arg = c, .scale = 1e3, .slow = true};
    f.name = names[5], f.run = compile_cached;
    bench_add(b, f);
    f.name = names[6], f.run = compile_cold;
    f.peer_workload = "train/lenet/b32", f.peer_metric = "setup",
    f.peer_system = "torch-compile";
    bench_add(b, f);
}
