/* Random tensors. */
#include "base/float_mode.h"
#include "ir/body.h"
#include "kernel/text/philox.h"
#include "kernel/text/vec.h"
#include "op/random_position.h"
#include "op/sizes.h"
#include "tapir/random.h"

#include <stddef.h>
#include <string.h>

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/draws.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/draws.h"
#undef T
#undef S

static const char *const kind_names[TPI_N_RANDOM_KINDS] = {"uniform", "normal"};

static const tpi_attr table[] = {
    {"kind",                     TPI_ATTR_INT, offsetof(tpi_random_attrs, kind)},
    {"dtype", TPI_ATTR_DTYPE, offsetof(tpi_random_attrs, dtype)},
    {"shape",                          TPI_ATTR_DIMS, offsetof(tpi_random_attrs, shape)},
    {"a",            TPI_ATTR_F64, offsetof(tpi_random_attrs, a)},
    {"b",                    TPI_ATTR_F64, offsetof(tpi_random_attrs, b)},
    {"seed",                    TPI_ATTR_INT, offsetof(tpi_random_attrs, seed)},
    {"at", TPI_ATTR_INT, offsetof(tpi_random_attrs, at)},
    {0                         },
};

static bool refuse_numbers(tp_ctx *ctx, tpi_at at, const tpi_random_attrs *r,
                           tp_tensor **failed)
{
    TPI_DEFAULT_FLOAT_MODE;
    const char *what = kind_names[r->kind];
    *failed = NULL;
    const bool is_f32 = r->dtype == TP_F32;
    if (tpi_is_near_handle(ctx, r->a) || tpi_is_near_handle(ctx, r->b)) {
        *failed =
            tpi_fail_near_handle(ctx, at, what, tpi_is_near_handle(ctx, r->a) ? r->a : r->b);
        return true;
    }
    if (!is_f32 && r->dtype != TP_F64) {
        *failed = tpi_fail(ctx, at, what, TP_E_DTYPE,
                           "%s has no random numbers; draw f32 or f64 and tp_cast",
                           tp_dtype_name((tp_dtype)r->dtype));
        return true;
    }
    const double a = is_f32 ? (double)(float)r->a : r->a,
                 b = is_f32 ? (double)(float)r->b : r->b;
    const double most = is_f32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    if (r->kind == TPI_RANDOM_UNIFORM && !(a < b && b - a <= most))
        *failed = tpi_fail(ctx, at, what, TP_E_VALUE, "no interval of %s from %g to %g",
                           tp_dtype_name((tp_dtype)r->dtype), r->a, r->b);
    else if (r->kind == TPI_RANDOM_NORMAL && !(a >= -most && a <= most && b >= 0 && b <= most))
        *failed = tpi_fail(ctx, at, what, TP_E_VALUE,
                           "mean %g and deviation %g of %s are not finite, or less than 0",
                           r->a, r->b, tp_dtype_name((tp_dtype)r->dtype));
    return *failed != NULL;
}

static bool random_infer(tpi_infer *q)
{
    const tpi_random_attrs *r = q->attrs;
    if (r->kind < 0 || r->kind >= TPI_N_RANDOM_KINDS)
        return tpi_refuse(q, TP_E_VALUE, "kind %lld is unknown", (long long)r->kind);
    if (r->shape.n < 0 || r->shape.n > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "%lld axes", (long long)r->shape.n);
    if (refuse_numbers(q->ctx, q->at, r, &q->failed))
        return false;
    for (int64_t i = 0; i < r->shape.n; i++)
        if (!tpi_dim_is_size(q->dims, r->shape.v[i]))
            return tpi_refuse(q, TP_E_SHAPE, "%lld is no size", (long long)r->shape.v[i]);
    q->dtype = (tp_dtype)r->dtype;
    q->rank = (int)r->shape.n;
    memcpy(q->shape, r->shape.v, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

static const tpi_call calls[TP_N_DTYPES] = {
    [TP_F32] = tpk_random_f32, [TP_F64] = tpk_random_f64};

const tpi_op tpi_op_random = {
    .any_size = true,
    .name = "random",
    .n_in = 0,
    .kind = TPI_CALL,
    .attrs = table,
    .attrs_size = sizeof(tpi_random_attrs),
    .infer = random_infer,
    .text = "draws",
    .fn = "random",
    .call = calls,
    .isa_call = TPI_ISA_random,
    .draws = true,
    .call_dtype = -1,
    .code = TPI_OP_random,
};

int64_t tpi_random_counters(const tpi_random_attrs *a, int64_t count)
{
    const int64_t per = a->dtype == TP_F32 ? 4 : 2;
    return count / per + (count % per != 0);
}

tpi_random_attrs tpi_random_position(const tpi_random_attrs *a, tp_ctx *ctx, int64_t count)
{
    tpi_random_attrs placed = *a;
    placed.seed = (int64_t)ctx->seed;
    placed.at = (int64_t)ctx->random_at;
    ctx->random_at += (uint64_t)tpi_random_counters(a, count);
    return placed;
}

/* ---- drawing ------------------------------------------------------------------------------------------ */

static tp_tensor *draw(tp_ctx *ctx, tpi_at at, tpi_random_attrs *r)
{
    tp_tensor *y;
    if (!tpi_check_shape(ctx, at, kind_names[r->kind], (int)r->shape.n, r->shape.v, &y) ||
        refuse_numbers(ctx, at, r, &y))
        return y;
    if (ctx->frame) {
        int64_t count = 1;
        for (int64_t i = 0; i < r->shape.n; i++)
            count *= r->shape.v[i];
        const tpi_random_attrs placed = tpi_random_position(r, ctx, count);
        return ctx->frame_rules->apply(ctx, at, &tpi_op_random, 0, NULL, &placed, false);
    }
    y = tpi_tensor_new(ctx, at, (tp_dtype)r->dtype, (int)r->shape.n, r->shape.v);
    if (y->status != TP_OK)
        return y;
    const tpi_random_attrs placed = tpi_random_position(r, ctx, tpi_count(y));
    tpi_run run = {.op = &tpi_op_random, .ctx = ctx, .at = at, .attrs = &placed, .out = y};
    return tpi_run_op(&run) ? y : run.failed;
}

/* One that no other open body of the graph has had. */
static int64_t body_number(const tp_graph *g)
{
    return g->parent ? body_number(g->parent) * 64 + g->parent->n_bodies : 0;
}

tp_tensor *tpi_random_node(tp_graph *g, tpi_at at, const tpi_random_attrs *a)
{
    tpi_random_attrs r = *a;
    r.seed = 0;
    r.at = -1 - g->n_nodes - (body_number(g) << 20); /* never that of another node */
    return tpi_graph_node(g, at, &tpi_op_random, 0, NULL, &r, (tp_dtype)r.dtype, (int)r.shape.n,
                          r.shape.v);
}

static tp_tensor *draw_new(tpi_at at, int kind, tp_ctx *ctx, tp_dtype dtype, int rank,
                           const int64_t *shape, double a, double b)
{
    tpi_random_attrs r = {.kind = kind, .dtype = dtype, .a = a, .b = b};
    tp_tensor *failed;
    if (!ctx)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(ctx, at, kind_names[kind]);
    if (!tpi_check_shape(ctx, at, kind_names[kind], rank, shape, &failed))
        return failed;
    r.shape.n = rank;
    for (int i = 0; i < rank; i++)
        r.shape.v[i] = shape[i];
    if (ctx->tracing) /* in a block of a graph: once per turn */
        return refuse_numbers(ctx, at, &r, &failed) ? failed
                                                    : tpi_random_node(ctx->tracing, at, &r);
    return draw(ctx, at, &r);
}

static tp_tensor *draw_like(tpi_at at, int kind, const tp_tensor *x, double a, double b)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, kind_names[kind], 0, x);
    failed = failed ? failed : tpi_refuse_like(x, at, kind_names[kind]);
    if (failed)
        return failed;
    TPI_ALONE(x->ctx, at, kind_names[kind]);
    tpi_random_attrs r = {.kind = kind, .dtype = x->dtype, .a = a, .b = b};
    r.shape.n = x->rank;
    memcpy(r.shape.v, x->shape, sizeof(int64_t) * x->rank);
    tp_graph *g = x->graph ? tpi_graph_here(x) : x->ctx->tracing; /* as in draw_new */
    if (!g)
        return draw(x->ctx, at, &r);
    return refuse_numbers(x->ctx, at, &r, &failed) ? failed : tpi_random_node(g, at, &r);
}

tp_tensor *tp_uniform_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                         const int64_t *shape, double lo, double hi)
{
    return draw_new(TPI_AT(file, line), TPI_RANDOM_UNIFORM, tp, dtype, rank, shape, lo, hi);
}
TPI_BARE(tp_tensor *, tp_uniform,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double lo, double hi),
         tp, dtype, rank, shape, lo, hi)

tp_tensor *tp_normal_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                        const int64_t *shape, double mean, double stddev)
{
    return draw_new(TPI_AT(file, line), TPI_RANDOM_NORMAL, tp, dtype, rank, shape, mean,
                    stddev);
}
TPI_BARE(tp_tensor *, tp_normal,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double mean,
          double stddev),
         tp, dtype, rank, shape, mean, stddev)

tp_tensor *tp_uniform_like_at(const char *file, int line, tp_tensor *x, double lo, double hi)
{
    return draw_like(TPI_AT(file, line), TPI_RANDOM_UNIFORM, x, lo, hi);
}
TPI_BARE(tp_tensor *, tp_uniform_like, (tp_tensor * x, double lo, double hi), x, lo, hi)

tp_tensor *tp_normal_like_at(const char *file, int line, tp_tensor *x, double mean,
                             double stddev)
{
    return draw_like(TPI_AT(file, line), TPI_RANDOM_NORMAL, x, mean, stddev);
}
TPI_BARE(tp_tensor *, tp_normal_like, (tp_tensor * x, double mean, double stddev), x, mean,
         stddev)
