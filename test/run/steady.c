/* Programs in their steady state ask for no memory: after two runs further ones call no allocator, by tiles
 * and by C, with one thread and with two. The allocator is counted where the process has it, so what libraries
 * take counts too. */
#include "tapir/tapir.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&   \
    !defined(TPI_STRESS)
#define COUNTS 1
#else
#define COUNTS 0
#endif

static atomic_long n_asked;

#if COUNTS
#pragma GCC visibility push(default)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    n_asked++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    n_asked++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    n_asked++;
    return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    n_asked++;
    return __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
    n_asked++;
    *p = __libc_memalign(align, size);
    return *p ? 0 : ENOMEM;
}
#pragma GCC visibility pop
#endif

/* ---- programs ------------------------------------------------------------------------------------ */

enum { MOST = 3, WARM = 2, RUNS = 12 };

typedef struct net {
    const char *name;
    tp_ctx *tp;
    tp_graph *g;
    int n_in, n_out;
    const char *in[MOST], *out[MOST];
    tp_tensor *feeds[MOST];
    tp_optimizer *adam;
} net;

/* A training step: convolution, pooling, dropout, dense, Adam; the batch is a symbol. */
static void training(net *n)
{
    tp_ctx *tp = n->tp;
    tp_conv_layer conv =
        tp_conv_layer_new(tp_params_new(tp), "conv", 1, 6, TP_SQUARE(5, 1, 2), NULL);
    tp_dense dense = tp_dense_new(tp_params_new(tp), "dense", 6 * 14 * 14, 10, NULL);
    tp_tensor *const params[] = {conv.w, conv.b, dense.w, dense.b};
    const int64_t batch = tp_symbol(n->g, "batch");
    tp_tensor *x = tp_placeholder(n->g, "x", TP_F32, TP_DIMS(batch, 1, 28, 28)),
              *y = tp_placeholder(n->g, "y", TP_I64, TP_DIMS(batch));
    tp_tensor *h = tp_max_pool(tp_relu(tp_conv_layer_apply(&conv, x)), &(tp_window){
                                                                           .kernel = {2, 2}
    });
    h = tp_dropout(tp_flatten(h, 1), 0.25);
    n->adam = tp_adam_new(tp, 0.01, NULL, 4, params);
    tp_tensor *loss = tp_name(tp_cross_entropy(tp_dense_apply(&dense, h), y), "loss");
    tp_name(tp_optimizer_step(n->adam, loss), "done");
    n->n_in = n->n_out = 2;
    memcpy(n->in, (const char *const[]){"x", "y"}, sizeof(char *[2]));
    memcpy(n->out, (const char *const[]){"loss", "done"}, sizeof(char *[2]));
    n->feeds[0] = tp_uniform(tp, TP_F32, TP_DIMS(8, 1, 28, 28), 0, 1);
    n->feeds[1] = tp_full(tp, TP_I64, TP_DIMS(8), 3);
}

/* Attention and a norm, of any length; what is fed is not contiguous. */
static void attention(net *n)
{
    const int64_t seq = tp_symbol(n->g, "seq");
    tp_tensor *x = tp_placeholder(n->g, "x", TP_F32, TP_DIMS(seq, 64));
    tp_tensor *w = tp_normal(n->tp, TP_F32, TP_DIMS(64, 64), 0, 0.1);
    tp_tensor *k = tp_matmul(x, w);
    tp_tensor *p = tp_softmax(tp_matmul(x, tp_swap(k, 0, 1)), -1);
    tp_name(tp_gelu(tp_matmul(p, k)), "y");
    n->n_in = n->n_out = 1;
    n->in[0] = "x";
    n->out[0] = "y";
    n->feeds[0] = tp_swap(tp_normal(n->tp, TP_F32, TP_DIMS(64, 40), 0, 1), 0, 1);
}

/* A loop that values end, which keeps its path, a branch in it, and indices. */
static void loop(net *n)
{
    tp_tensor *x = tp_placeholder(n->g, "x", TP_F32, TP_DIMS(16)),
              *at = tp_placeholder(n->g, "at", TP_I64, TP_DIMS(5));
    tp_tensor *sum = tp_sum(x, TP_ALL, false), *path = NULL;
    tp_while (tp_gt(sum, tp_scalar_like(sum, 1)), &x, &sum) {
        tp_if (tp_gt(sum, tp_scalar_like(sum, 4)), &x) {
            x = tp_mul(x, tp_scalar_like(x, 0.5));
        }
        tp_else
        {
            x = tp_sub(x, tp_tanh(tp_mul(x, tp_scalar_like(x, 0.25))));
        }
        sum = tp_sum(x, TP_ALL, false);
        tp_emit(&path, sum);
    }
    tp_name(path, "path");
    tp_name(tp_gather(x, at, 0), "some");
    tp_name(tp_sort(x, 0, false), "sorted");
    n->n_in = 2;
    n->n_out = 3;
    memcpy(n->in, (const char *const[]){"x", "at"}, sizeof(char *[2]));
    memcpy(n->out, (const char *const[]){"path", "some", "sorted"}, sizeof(char *[3]));
    n->feeds[0] = tp_uniform(n->tp, TP_F32, TP_DIMS(16), 0, 2);
    n->feeds[1] = tp_full(n->tp, TP_I64, TP_DIMS(5), 3);
}

/* ---- runs ------------------------------------------------------------------------------------------ */

static bool run(const net *n, tp_program *p)
{
    tp_tensor *out[MOST];
    bool ok = tp_scope_begin(n->tp) == TP_OK;
    ok = ok && tp_program_run(p, n->feeds, out) == TP_OK;
    tp_scope_end(n->tp);
    return ok;
}

static bool try(void (*make)(net *), const char *name, tp_engine engine, int threads)
{
    const long first = n_asked;
    net n = {.name = name, .tp = tp_open(&(tp_options){.seed = 3, .threads = threads})};
    n.g = tp_graph_new(n.tp);
    make(&n);
    tp_program *p = tp_graph_compile(n.g, n.n_in, n.in, n.n_out, n.out,
                                     &(tp_compile_options){.engine = engine});
    bool ok = p && (engine != TP_ENGINE_C || tp_program_wait(p) == TP_OK);
    for (int i = 0; i < WARM && ok; i++)
        ok = run(&n, p);
    const long before = n_asked;
    for (int i = 0; i < RUNS && ok; i++)
        ok = run(&n, p);
    const long asked = n_asked - before;
    ok = ok && before > first; /* the library's calls are counted */
    printf("%s %s, %d threads: %s%s%ld allocations in %d runs\n",
           ok && asked == 0 ? "ok" : "FAILED", name, threads, ok ? tp_program_engine(p) : "",
           ok ? ": " : tp_error_message(n.tp), asked, RUNS);
    tp_optimizer_free(n.adam);
    tp_close(n.tp);
    return ok && asked == 0;
}

/* A captured training step that branches on a value: matched, or replayed. */
typedef struct learner {
    tp_tensor *w, *steps;
} learner;

static void learn(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const learner *l = user;
    if (n_in != 2 || n_out != 1)
        return;
    tp_tensor *y = tp_tanh(tp_matmul(in[0], l->w));
    tp_tensor *loss = tp_mean(tp_square(tp_sub(y, in[1])), TP_ALL, false);
    tp_tensor *g = tp_grad(loss, l->w), *norm = tp_sum(tp_square(g), TP_ALL, false);
    if (tp_truth(tp_gt(norm, tp_scalar_like(norm, 0.01))))
        g = tp_div(g, tp_sqrt(norm));
    tp_assign(l->w, tp_sub(l->w, tp_mul(g, tp_scalar_like(g, 0.01))));
    tp_assign(l->steps, tp_add(l->steps, tp_scalar_like(l->steps, 1)));
    out[0] = loss;
}

static bool call(tp_function *f, int times, tp_tensor *const *feeds)
{
    bool ok = true;
    for (int i = 0; i < times && ok; i++) {
        tp_tensor *out;
        ok = tp_scope_begin(tp_ctx_of(feeds[0])) == TP_OK;
        ok = ok && tp_function_call(f, 2, feeds + 2 * (i % 2), 1, &out) == TP_OK;
        tp_scope_end(tp_ctx_of(feeds[0]));
    }
    return ok;
}

static bool try_function(bool pure, tp_engine engine)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    learner l = {.w = tp_param(tp_normal(tp, TP_F32, TP_DIMS(20, 6), 0, 0.1), "w"),
                 .steps = tp_variable(tp_scalar(tp, TP_I64, 0), "steps")};
    tp_function *f = tp_function_new(tp, "learn", learn, &l,
                                     &(tp_function_options){.pure = pure, .engine = engine});
    tp_tensor *feeds[4];
    for (int i = 0; i < 4; i++)
        feeds[i] = tp_normal(tp, TP_F32, TP_DIMS(30, i % 2 ? 6 : 20), 0, i < 2 ? 1e-3 : 1);
    bool ok = call(f, 8, feeds);
    ok = ok && (engine != TP_ENGINE_C || tp_function_wait(f) == TP_OK) && call(f, 4, feeds);
    const long before = n_asked;
    ok = ok && call(f, RUNS, feeds);
    const long asked = n_asked - before;
    printf("%s function, %s, %s: %s%ld allocations in %d calls\n",
           ok && asked == 0 ? "ok" : "FAILED", pure ? "pure" : "matched",
           engine == TP_ENGINE_C ? "c" : "tiles", ok ? "" : tp_error_message(tp), asked, RUNS);
    tp_close(tp);
    return ok && asked == 0;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*make)(net *);
    } nets[] = {
        {"training",  training },
        {"attention", attention},
        {"loop",      loop     }
    };
    if (!COUNTS) {
        printf("skipped: another allocator\n");
        return 77;
    }
    void *volatile one = malloc(1); /* which no compiler leaves out */
    free(one);
    bool ok = n_asked > 0;
    const bool compiler = system("cc --version > /dev/null 2>&1") == 0;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (int threads = 1; threads <= 2; threads++)
            for (int c = 0; c < 1 + compiler; c++)
                ok = try(nets[i].make, nets[i].name, c ? TP_ENGINE_C : TP_ENGINE_TILES,
                         threads) &&
                     ok;
    for (int pure = 0; pure < 2; pure++)
        for (int c = 0; c < 1 + compiler; c++)
            ok = try_function(pure, c ? TP_ENGINE_C : TP_ENGINE_TILES) && ok;
    return !ok;
}
