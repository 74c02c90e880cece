/* Products, and loops bound by memory: eager, by tiles, and compiled for sizes known when they run. */
#include "bench.h"

#include <stddef.h>

typedef tp_tensor *function(tp_tensor *x, tp_tensor *w);

typedef struct kernel {
    tp_ctx *tp;
    tp_tensor *x, *w; /* w: NULL, or a variable */
    function *f;
    tp_program *program;
} kernel;

static tp_tensor *number(tp_tensor *x, double value)
{
    return tp_scalar_like(x, value);
}

static tp_tensor *matmul(tp_tensor *x, tp_tensor *w)
{
    return tp_matmul(x, w);
}

/* gelu by tanh, and x: ten ops. */
static tp_tensor *gelu_chain(tp_tensor *x, tp_tensor *w)
{
    (void)w;
    tp_tensor *cube = tp_mul(tp_mul(tp_mul(number(x, 0.044715), x), x), x);
    tp_tensor *t = tp_tanh(tp_mul(number(x, 0.7978845608), tp_add(x, cube)));
    return tp_add(tp_mul(tp_mul(number(x, 0.5), x), tp_add(number(x, 1), t)), x);
}

static tp_tensor *softmax(tp_tensor *x, tp_tensor *w)
{
    (void)w;
    return tp_softmax(x, -1);
}

static tp_tensor *layer_norm(tp_tensor *x, tp_tensor *w)
{
    (void)w;
    return tp_layer_norm(x, NULL, NULL, 1e-5);
}

static void eagerly(void *arg, int64_t n)
{
    const kernel *k = arg;
    for (; n > 0; n--) {
        tp_scope_begin(k->tp);
        k->f(k->x, k->w);
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

static const tp_compile_options by_c = {.engine = TP_ENGINE_C},
                                frozen = {.engine = TP_ENGINE_C, .freeze = true},
                                by_tiles = {.engine = TP_ENGINE_TILES};

static kernel *kernel_new(tp_ctx *tp, function *f, tp_tensor *x, tp_tensor *w,
                          const tp_compile_options *options)
{
    kernel *k = tp_alloc(tp, sizeof *k);
    if (!k)
        return NULL;
    *k = (kernel){tp, x, w, f, NULL};
    tp_graph *g = tp_graph_new(tp);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < tp_rank(x); i++)
        shape[i] = i == 0 ? tp_symbol(g, "n") : tp_size(x, i);
    tp_name(f(tp_placeholder(g, "x", TP_F32, tp_rank(x), shape), w), "y");
    k->program = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), options);
    if (k->program && options->engine == TP_ENGINE_C)
        tp_program_wait(k->program);
    return k;
}

static void add_product(bench *b, int64_t m, int64_t n, int64_t k, const char *const *names,
                        const char *peer)
{
    if (!bench_wants(b, names[0]) && !bench_wants(b, names[1]) && !bench_wants(b, names[2]))
        return;
    tp_tensor *x = tp_normal(b->tp, TP_F32, TP_DIMS(m, k), 0, 1);
    tp_tensor *w = tp_variable(tp_normal(b->tp, TP_F32, TP_DIMS(k, n), 0, 1), "w");
    const double gflop = 2e-9 * (double)m * (double)n * (double)k;
    figure f = {.unit = "ms",
                .scale = 1e3,
                .limit = BOUND_FMA,
                .work = gflop,
                .peer_workload = peer,
                .peer_metric = "latency"};
    f.arg = kernel_new(b->tp, matmul, x, w, &by_c);
    f.name = names[0], f.run = eagerly, f.peer_system = "torch";
    bench_add(b, f);
    f.name = names[1], f.run = compiled, f.peer_system = NULL;
    bench_add(b, f);
    f.name = names[2], f.arg = kernel_new(b->tp, matmul, x, w, &frozen);
    bench_add(b, f);
}

static void add_loop(bench *b, function *fn, tp_tensor *x, const char *const *names,
                     const char *peer)
{
    if (!bench_wants(b, names[0]) && !bench_wants(b, names[1]) && !bench_wants(b, names[2]))
        return;
    figure f = {.unit = "ms",
                .scale = 1e3,
                .limit = BOUND_MEMORY,
                .work = 1e-9 * 2 * sizeof(float) * (double)tp_count(x),
                .peer_workload = peer,
                .peer_metric = "latency"};
    f.arg = kernel_new(b->tp, fn, x, NULL, &by_c);
    f.name = names[0], f.run = eagerly, f.peer_system = "torch-eager";
    bench_add(b, f);
    f.name = names[1], f.run = compiled, f.peer_system = NULL;
    bench_add(b, f);
    f.name = names[2], f.arg = kernel_new(b->tp, fn, x, NULL, &by_tiles);
    bench_add(b, f);
}

#define PRODUCT_NAMES(size)                                                                    \
    (const char *const[])                                                                      \
    {                                                                                          \
        "product " size ", eager", "product " size ", compiled", "product " size ", frozen"    \
    }
#define LOOP_NAMES(what)                                                                       \
    (const char *const[])                                                                      \
    {                                                                                          \
        what ", eager", what ", compiled", what ", by tiles"                                   \
    }

void bench_add_kernels(bench *b)
{
    add_product(b, 1024, 1024, 1024, PRODUCT_NAMES("1024x1024x1024"), "gemm/1024x1024x1024");
    add_product(b, 128, 3072, 768, PRODUCT_NAMES("128x768x3072"), "gemm/128x3072x768");
    add_product(b, 8, 3072, 768, PRODUCT_NAMES("8x768x3072"), "gemm/8x3072x768");
    tp_tensor *line = tp_normal(b->tp, TP_F32, TP_DIMS(1 << 20), 0, 1);
    tp_tensor *square = tp_normal(b->tp, TP_F32, TP_DIMS(1024, 1024), 0, 1);
    add_loop(b, gelu_chain, line, LOOP_NAMES("gelu chain of 1M"), "fusion/chain10");
    add_loop(b, softmax, square, LOOP_NAMES("softmax 1024x1024"), "fusion/softmax");
    add_loop(b, layer_norm, square, LOOP_NAMES("layer norm 1024x1024"), "fusion/layernorm");
}
