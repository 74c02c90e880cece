/* Loops in compiled graphs: what a turn costs besides its ops, an LSTM as a loop beside the same
 * written out, and compile time by the length of the trace. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* ---- a turn ------------------------------------------------------------------------------------ */

enum { TURNS = 100000, WIDTH = 16, UNROLLED = 64 };

typedef struct looped {
    tp_program *program;
    tp_tensor *feed;
} looped;

/* Ten small ops; they stay within bounds. */
static tp_tensor *ten_ops(tp_tensor *x)
{
    tp_tensor *half = tp_scalar_like(x, 0.5), *one = tp_scalar_like(x, 1);
    x = tp_add(tp_mul(x, half), one);
    x = tp_max(tp_sub(x, tp_mul(x, half)), tp_neg(x));
    x = tp_mul(tp_add(x, half), half);
    return tp_min(tp_abs(x), one);
}

static tp_program *compile(tp_graph *g, tp_tensor *y)
{
    tp_name(y, "y");
    const tp_compile_options c = {.engine = TP_ENGINE_C};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
    if (p)
        tp_program_wait(p);
    return p;
}

static tp_program *turns_program(tp_ctx *tp, int64_t turns)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(WIDTH));
    tp_tensor *i = tp_graph_read(g, tp_scalar(tp, TP_I64, 0));
    tp_while (tp_lt(i, tp_scalar_like(i, (double)turns)), &i, &x) {
        x = ten_ops(x);
        i = tp_add(i, tp_scalar_like(i, 1));
    }
    return compile(g, x);
}

static tp_program *straight_program(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(WIDTH));
    for (int k = 0; k < UNROLLED; k++)
        x = ten_ops(x);
    return compile(g, x);
}

static void run(void *arg, int64_t n)
{
    const looped *l = arg;
    while (n--) {
        tp_tensor *out;
        tp_ctx *tp = tp_ctx_of(l->feed);
        tp_scope_begin(tp);
        tp_tensor *feed = l->feed;
        tp_program_run(l->program, &feed, &out);
        tp_scope_end(tp);
    }
}

static void add_turns(bench *b)
{
    if (!bench_wants(b, "loop turn of ten ops") && !bench_wants(b, "the ten ops written out"))
        return;
    tp_tensor *x = tp_retain(tp_full(b->tp, TP_F32, TP_DIMS(WIDTH), 0.25));
    looped *l = tp_alloc(b->tp, 2 * sizeof *l);
    if (!l)
        return;
    l[0] = (looped){.program = turns_program(b->tp, TURNS), .feed = x};
    l[1] = (looped){.program = straight_program(b->tp), .feed = x};
    bench_add(b, (figure){.name = "loop turn of ten ops, 16 floats",
                          .unit = "ns",
                          .run = run,
                          .arg = &l[0],
                          .scale = 1e9 / TURNS});
    bench_add(b, (figure){.name = "the ten ops written out, once",
                          .unit = "ns",
                          .run = run,
                          .arg = &l[1],
                          .scale = 1e9 / UNROLLED});
}

/* ---- an LSTM ------------------------------------------------------------------------------------- */

enum { HIDDEN = 128, BATCH = 32, LENGTH = 64 };

typedef struct lstm {
    tp_tensor *wx, *wh, *b;
} lstm;

static lstm lstm_new(tp_ctx *tp)
{
    return (lstm){
        .wx = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(HIDDEN, 4 * HIDDEN), -0.1, 0.1), "wx"),
        .wh = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(HIDDEN, 4 * HIDDEN), -0.1, 0.1), "wh"),
        .b = tp_param(tp_full(tp, TP_F32, TP_DIMS(4 * HIDDEN), 0), "b")};
}

/* x, h, c [BATCH, HIDDEN]. */
static void cell(const lstm *m, tp_tensor *x, tp_tensor **h, tp_tensor **c)
{
    tp_tensor *gate[4];
    tp_tensor *part = tp_add(tp_matmul(x, m->wx), m->b);
    tp_split(tp_add(part, tp_matmul(*h, m->wh)), 1, 4, NULL, gate);
    tp_tensor *kept = tp_mul(tp_sigmoid(gate[1]), *c);
    *c = tp_add(kept, tp_mul(tp_sigmoid(gate[0]), tp_tanh(gate[2])));
    *h = tp_mul(tp_sigmoid(gate[3]), tp_tanh(*c));
}

static tp_program *lstm_program(tp_ctx *tp, const lstm *m, bool loop)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(LENGTH, BATCH, HIDDEN));
    tp_tensor *h = tp_graph_read(g, tp_full(tp, TP_F32, TP_DIMS(BATCH, HIDDEN), 0)), *c = h;
    if (loop) {
        tp_for (LENGTH, &h, &c) {
            cell(m, tp_each(x), &h, &c);
        }
    } else {
        for (int64_t t = 0; t < LENGTH; t++)
            cell(m, tp_select(x, 0, t), &h, &c);
    }
    tp_tensor *loss = tp_mean(tp_square(h), TP_ALL, false), *dw[3];
    tp_name(loss, "loss");
    tp_grads(loss, NULL, 3, (tp_tensor *[]){m->wx, m->wh, m->b}, dw);
    tp_name(dw[0], "dwx");
    tp_name(dw[1], "dwh");
    tp_name(dw[2], "db");
    const tp_compile_options o = {.engine = TP_ENGINE_C};
    tp_program *p =
        tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("loss", "dwx", "dwh", "db"), &o);
    if (p)
        tp_program_wait(p);
    return p;
}

static void run_lstm(void *arg, int64_t n)
{
    const looped *l = arg;
    while (n--) {
        tp_tensor *out[4], *feed = l->feed;
        tp_ctx *tp = tp_ctx_of(feed);
        tp_scope_begin(tp);
        tp_program_run(l->program, &feed, out);
        tp_scope_end(tp);
    }
}

static void add_lstm(bench *b)
{
    static const char *const names[] = {"LSTM forward and backward, loop",
                                        "LSTM forward and backward, written out"};
    if (!bench_wants(b, names[0]) && !bench_wants(b, names[1]))
        return;
    const lstm m = lstm_new(b->tp);
    tp_tensor *x = tp_retain(tp_uniform(b->tp, TP_F32, TP_DIMS(LENGTH, BATCH, HIDDEN), -1, 1));
    looped *l = tp_alloc(b->tp, 2 * sizeof *l);
    for (int i = 0; l && i < 2; i++) {
        l[i] = (looped){.program = lstm_program(b->tp, &m, i == 0), .feed = x};
        bench_add(b, (figure){.name = names[i],
                              .unit = "ms",
                              .run = run_lstm,
                              .arg = &l[i],
                              .scale = 1e3,
                              .spreads = true,
                              .gflop = 6e-9 * LENGTH * BATCH * 2 * HIDDEN * 4 * HIDDEN});
        if (!l[i].program)
            continue;
        run_lstm(&l[i], 1);
        /* gates, c, tanh(c) and h of every step, in MiB */
        const double kept = 7.0 * LENGTH * BATCH * HIDDEN * sizeof(float) / (1 << 20);
        printf("%s: %.1f MiB, kept activations %.1f\n", names[i],
               (double)tp_program_stats_of(l[i].program).arena_bytes / (1 << 20), kept);
    }
}

/* ---- compile time ---------------------------------------------------------------------------------- */

typedef struct traced {
    tp_ctx *tp;
    int64_t nodes;
} traced;

/* From the graph to the loaded program, its text never seen before. */
static double compile_time(void *arg, int64_t n)
{
    static int fresh;
    const traced *t = arg;
    double all = 0;
    while (n--) {
        tp_graph *g = tp_graph_new(t->tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, WIDTH)), *h = x;
        tp_tensor *w = tp_tensor_new(t->tp, TP_F32, TP_DIMS(WIDTH, WIDTH), NULL);
        for (int64_t i = 0; i < t->nodes / 4; i++) /* 4 nodes, 2 kernels */
            h = tp_tanh(tp_add(tp_matmul(h, w), tp_mul(x, tp_scalar_like(x, (double)i))));
        tp_name(tp_add(h, tp_scalar_like(h, ++fresh)), "y");
        const double start = bench_wall_now();
        const tp_compile_options c = {.engine = TP_ENGINE_C};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
        if (p)
            tp_program_wait(p);
        all += bench_wall_now() - start;
        tp_program_free(p);
        tp_graph_free(g);
    }
    return all;
}

static void add_compile_times(bench *b)
{
    static const struct {
        const char *name;
        int64_t nodes;
    } sizes[] = {
        {"compile 100 nodes",    100  },
        {"compile 1,000 nodes",  1000 },
        {"compile 10,000 nodes", 10000}
    };
    for (int i = 0; i < 3; i++) {
        traced *t = bench_wants(b, sizes[i].name) ? tp_alloc(b->tp, sizeof *t) : NULL;
        if (!t)
            continue;
        *t = (traced){.tp = b->tp, .nodes = sizes[i].nodes};
        bench_add(b, (figure){.name = sizes[i].name,
                              .unit = "ms",
                              .timed = compile_time,
                              .arg = t,
                              .scale = 1e3,
                              .slow = true});
    }
}

void bench_add_control(bench *b)
{
    add_turns(b);
    add_lstm(b);
    add_compile_times(b);
}
