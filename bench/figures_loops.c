/* Loops bound by memory: eager, by tiles, and compiled for sizes known when they run. */
#include "bench.h"

#include <stddef.h>

typedef tp_tensor *function(tp_tensor *x);

typedef struct kernel {
    tp_ctx *tp;
    tp_tensor *x;
    function *f;
    tp_program *program;
} kernel;

static tp_tensor *number(tp_tensor *x, double value)
{
    return tp_scalar_like(x, value);
}

/* By tanh. */
static tp_tensor *gelu(tp_tensor *x)
{
    tp_tensor *cube = tp_mul(tp_mul(tp_mul(number(x, 0.044715), x), x), x);
    tp_tensor *t = tp_tanh(tp_mul(number(x, 0.7978845608), tp_add(x, cube)));
    return tp_mul(tp_mul(number(x, 0.5), x), tp_add(number(x, 1), t));
}

/* Ten ops. */
static tp_tensor *gelu_chain(tp_tensor *x)
{
    return tp_add(gelu(x), x);
}

static tp_tensor *softmax(tp_tensor *x)
{
    return tp_softmax(x, -1);
}

static tp_tensor *layer_norm(tp_tensor *x)
{
    return tp_layer_norm(x, NULL, NULL, 1e-5);
}

static tp_tensor *plus_one(tp_tensor *x)
{
    return tp_add(x, number(x, 1));
}

static tp_tensor *exponential(tp_tensor *x)
{
    return tp_exp(x);
}

static tp_tensor *tangent(tp_tensor *x)
{
    return tp_tanh(x);
}

static tp_tensor *sum_all(tp_tensor *x)
{
    return tp_sum(x, TP_ALL, false);
}

static tp_tensor *sum_rows(tp_tensor *x)
{
    return tp_sum(x, TP_DIMS(1), false);
}

static tp_tensor *sum_columns(tp_tensor *x)
{
    return tp_sum(x, TP_DIMS(0), false);
}

static void eagerly(void *arg, int64_t n)
{
    const kernel *k = arg;
    for (; n > 0; n--) {
        tp_scope_begin(k->tp);
        k->f(k->x);
        tp_scope_end(k->tp);
    }
}

static void compiled(void *arg, int64_t n)
{
    const kernel *k = arg;
    for (; n > 0 && k->program; n--) {
        tp_scope_begin(k->tp);
        tp_tensor *out;
        tp_program_run(k->program, &k->x, &out);
        tp_scope_end(k->tp);
    }
}

static kernel *kernel_new(tp_ctx *tp, function *f, tp_tensor *x, tp_engine engine)
{
    kernel *k = tp_alloc(tp, sizeof *k);
    if (!k)
        return NULL;
    *k = (kernel){tp, x, f, NULL};
    tp_graph *g = tp_graph_new(tp);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < tp_rank(x); i++)
        shape[i] = i == 0 ? tp_symbol(g, "n") : tp_size(x, i);
    tp_name(f(tp_placeholder(g, "x", TP_F32, tp_rank(x), shape)), "y");
    k->program = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"),
                                  &(tp_compile_options){.engine = engine});
    if (k->program && engine == TP_ENGINE_C)
        tp_program_wait(k->program);
    return k;
}

static void add_loop(bench *b, function *fn, tp_tensor *x, int64_t n_out,
                     const char *const *names, const char *peer)
{
    if (!bench_wants(b, names[0]) && !bench_wants(b, names[1]) && !bench_wants(b, names[2]))
        return;
    figure f = {.unit = "ms",
                .scale = 1e3,
                .spreads = true,
                .gb_read = 1e-9 * sizeof(float) * (double)tp_count(x),
                .gb_written = 1e-9 * sizeof(float) * (double)n_out,
                .peer_workload = peer,
                .peer_metric = "latency"};
    f.arg = kernel_new(b->tp, fn, x, TP_ENGINE_C);
    f.name = names[0], f.run = eagerly, f.peer_system = "torch-eager";
    bench_add(b, f);
    f.name = names[1], f.run = compiled, f.peer_system = NULL;
    bench_add(b, f);
    f.name = names[2], f.arg = kernel_new(b->tp, fn, x, TP_ENGINE_TILES);
    bench_add(b, f);
}

#define LOOP_NAMES(what)                                                                       \
    (const char *const[])                                                                      \
    {                                                                                          \
        what ", eager", what ", compiled", what ", by tiles"                                   \
    }

void bench_add_loops(bench *b)
{
    enum { MILLION = 1 << 20, SIDE = 4096 };
    tp_tensor *line = tp_normal(b->tp, TP_F32, TP_DIMS(MILLION), 0, 1);
    tp_tensor *square = tp_normal(b->tp, TP_F32, TP_DIMS(1024, 1024), 0, 1);
    tp_tensor *large = tp_normal(b->tp, TP_F32, TP_DIMS(SIDE, SIDE), 0, 1);
    add_loop(b, plus_one, line, MILLION, LOOP_NAMES("add of 1M"), "fusion/add1m");
    add_loop(b, exponential, line, MILLION, LOOP_NAMES("exp of 1M"), "fusion/exp1m");
    add_loop(b, tangent, line, MILLION, LOOP_NAMES("tanh of 1M"), "fusion/tanh1m");
    add_loop(b, gelu, line, MILLION, LOOP_NAMES("gelu of 1M"), "fusion/gelu1m");
    add_loop(b, gelu_chain, line, MILLION, LOOP_NAMES("gelu chain of 1M"), "fusion/chain10");
    add_loop(b, softmax, square, MILLION, LOOP_NAMES("softmax 1024 x 1024"), "fusion/softmax");
    add_loop(b, layer_norm, square, MILLION, LOOP_NAMES("layer norm 1024 x 1024"),
             "fusion/layernorm");
    add_loop(b, sum_all, large, 1, LOOP_NAMES("sum of 4096 x 4096"), "fusion/reduce_sum");
    add_loop(b, sum_rows, large, SIDE, LOOP_NAMES("sums of rows, 4096 x 4096"),
             "fusion/reduce_rows");
    add_loop(b, sum_columns, large, SIDE, LOOP_NAMES("sums of columns, 4096 x 4096"),
             "fusion/reduce_cols");
}
