/* Products: eager, compiled with operands that may change, and with weights packed once. */
#include "bench.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum { WAYS = 3, NAME = 48 };

typedef struct product {
    tp_ctx *tp;
    tp_tensor *in[2]; /* x; w, a variable */
    tp_program *program;
    int n_feeds; /* of them */
    char name[NAME];
} product;

static void eagerly(void *arg, int64_t n)
{
    const product *p = arg;
    for (; n > 0; n--) {
        tp_scope_begin(p->tp);
        tp_matmul(p->in[0], p->in[1]);
        tp_scope_end(p->tp);
    }
}

static void compiled(void *arg, int64_t n)
{
    product *p = arg;
    for (; n > 0 && p->program; n--) {
        tp_scope_begin(p->tp);
        tp_tensor *out;
        tp_program_run(p->program, p->in, &out);
        tp_scope_end(p->tp);
    }
}

/* For any number of rows, when it is a matrix. */
static tp_tensor *input(tp_graph *g, const char *name, const tp_tensor *like)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < tp_rank(like); i++)
        shape[i] = i == 0 && tp_rank(like) == 2 ? tp_symbol(g, "n") : tp_size(like, i);
    return tp_placeholder(g, name, TP_F32, tp_rank(like), shape);
}

static void compile(product *p, bool frozen)
{
    tp_graph *g = tp_graph_new(p->tp);
    tp_tensor *x = input(g, "x", p->in[0]);
    const bool both = !frozen && tp_rank(p->in[1]) == tp_rank(x) && tp_rank(x) > 2;
    p->n_feeds = both ? 2 : 1;
    tp_name(tp_matmul(x, both ? input(g, "w", p->in[1]) : p->in[1]), "y");
    p->program =
        tp_graph_compile(g, p->n_feeds, (const char *const[]){"x", "w"}, TP_NAMES("y"),
                         &(tp_compile_options){.engine = TP_ENGINE_C, .freeze = frozen});
    if (p->program)
        tp_program_wait(p->program);
}

/* x [batch, m, k] times w [batch, k, n], or with batch 0 matrices. */
static void add_product(bench *b, int64_t batch, int64_t m, int64_t k, int64_t n,
                        const char *peer)
{
    static const char *const ways[WAYS] = {"eager", "compiled", "frozen"};
    char name[WAYS][NAME], times[24] = "";
    bool any = false;
    if (batch)
        snprintf(times, sizeof times, "%lld times ", (long long)batch);
    for (int i = 0; i < WAYS; i++) {
        snprintf(name[i], NAME, "%s%lld x %lld x %lld, %s", times, (long long)m, (long long)k,
                 (long long)n, ways[i]);
        any |= bench_wants(b, name[i]);
    }
    product *p = any ? tp_alloc(b->tp, WAYS * sizeof *p) : NULL;
    if (!p)
        return;
    const int64_t xs[] = {batch, m, k}, ws[] = {batch, k, n};
    const int rank = batch ? 3 : 2, from = 3 - rank;
    tp_tensor *x = tp_normal(b->tp, TP_F32, rank, xs + from, 0, 1);
    tp_tensor *w = tp_variable(tp_normal(b->tp, TP_F32, rank, ws + from, 0, 1), "w");
    const double count = (double)(batch ? batch : 1), each = 4e-9 * count;
    const double gflop = 2e-9 * count * (double)m * (double)n * (double)k;
    const bool large = gflop > 1e-2;
    for (int i = 0; i < WAYS; i++) {
        p[i] = (product){
            .tp = b->tp, .in = {x, w}
        };
        snprintf(p[i].name, NAME, "%s", name[i]);
        if (i > 0 && bench_wants(b, name[i]))
            compile(&p[i], i == 2);
        bench_add(b, (figure){.name = p[i].name,
                              .unit = large ? "ms" : "us",
                              .run = i ? compiled : eagerly,
                              .arg = &p[i],
                              .scale = large ? 1e3 : 1e6,
                              .spreads = true,
                              .gflop = gflop,
                              .gb_read = each * (double)(m * k + k * n),
                              .gb_written = each * (double)(m * n),
                              .peer_workload = peer,
                              .peer_metric = "latency",
                              .peer_system = i ? NULL : "torch",
                              .peer_scale = large ? 1 : 1e3});
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

typedef struct error {
    tp_ctx *tp;
    int64_t k;
    bool positive;
    char name[NAME];
} error;

/* The root of the mean square of error / sum of |a b|, in 1e-7. */
static double error_told(void *arg)
{
    const error *e = arg;
    enum { SIDE = 64 };
    tp_scope_begin(e->tp);
    tp_tensor *v[2], *f64[2];
    for (int i = 0; i < 2; i++) {
        const int64_t shape[] = {i ? e->k : SIDE, i ? SIDE : e->k};
        v[i] = e->positive ? tp_uniform(e->tp, TP_F32, 2, shape, 0, 1)
                           : tp_normal(e->tp, TP_F32, 2, shape, 0, 1);
        f64[i] = tp_cast(v[i], TP_F64);
    }
    tp_tensor *off = tp_sub(tp_cast(tp_matmul(v[0], v[1]), TP_F64), tp_matmul(f64[0], f64[1]));
    off = tp_div(off, tp_matmul(tp_abs(f64[0]), tp_abs(f64[1])));
    const double mean = tp_item(tp_mean(tp_square(off), 0, NULL, false));
    tp_scope_end(e->tp);
    return 1e7 * sqrt(mean);
}

/* Twice the error of PyTorch's products of positive numbers is the goal. */
static void add_error(bench *b, int64_t k, bool positive, double goal)
{
    error *e = tp_alloc(b->tp, sizeof *e);
    if (!e)
        return;
    *e = (error){.tp = b->tp, .k = k, .positive = positive};
    snprintf(e->name, NAME, "error, k = %lld, %s", (long long)k,
             positive ? "positive" : "normal");
    bench_add(
        b,
        (figure){.name = e->name, .unit = "1e-7", .told = error_told, .arg = e, .goal = goal});
}

void bench_add_products(bench *b)
{
    static const int64_t lengths[] = {256, 1024, 4096};
    static const double goals[] = {0.88, 0.88, 1.28};
    for (int i = 0; i < 6; i++)
        add_error(b, lengths[i % 3], i < 3, goals[i % 3]);
    add_product(b, 0, 1024, 1024, 1024, "gemm/1024x1024x1024");
    add_product(b, 0, 128, 768, 3072, "gemm/128x3072x768");
    add_product(b, 0, 128, 3072, 768, "gemm/128x768x3072");
    add_product(b, 0, 8, 768, 3072, "gemm/8x3072x768");
    add_product(b, 0, 64, 64, 64, "gemm/64x64x64");
    add_product(b, 0, 16, 16, 16, "gemm/16x16x16");
    add_product(b, 0, 1, 768, 768, "gemm/1x768x768");
    add_product(b, 0, 1, 10, 5, NULL);
    add_product(b, 64, 64, 32, 64, NULL);
    add_product(b, 256, 8, 8, 8, NULL);
}
