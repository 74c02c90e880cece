/* Random tensors. */
#include "tapir/random.h"

#include "base/float_mode.h"
#include "ir/body.h"
#include "kernel/text/philox.h"
#include "kernel/text/vec.h"
#include "op/random_position.h"
#include "op/sizes.h"

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
#define T tpk_i64
#define S i64
#include "kernel/text/draws.h"
#undef T
#undef S

static const char *const kind_names[TPI_N_RANDOM_KINDS] = {"uniform", "normal", "randint"};

static const tpi_attr table[] = {
    {"kind",                     TPI_ATTR_INT, offsetof(tpi_random_attrs, kind)},
    {"dtype", TPI_ATTR_DTYPE, offsetof(tpi_random_attrs, dtype)},
    {"shape",                          TPI_ATTR_DIMS, offsetof(tpi_random_attrs, shape)},
    {"a",            TPI_ATTR_F64, offsetof(tpi_random_attrs, a)},
    {"b",                    TPI_ATTR_F64, offsetof(tpi_random_attrs, b)},
    {"seed",                    TPI_ATTR_INT, offsetof(tpi_random_attrs, seed)},
    {"at", TPI_ATTR_INT, offsetof(tpi_random_attrs, at)},
    {"lo",                          TPI_ATTR_INT, offsetof(tpi_random_attrs, lo)},
    {"hi",   TPI_ATTR_INT, offsetof(tpi_random_attrs, hi)},
    {"stream",                        TPI_ATTR_INT, offsetof(tpi_random_attrs, stream)},
    {"apart",                        TPI_ATTR_DIMS, offsetof(tpi_random_attrs, apart)},
    {"moves", TPI_ATTR_DIM, offsetof(tpi_random_attrs, moves)},
    {0                         },
};

static tp_tensor *refuse_whole(tp_ctx *ctx, tpi_at at, const tpi_random_attrs *r)
{
    const char *what = kind_names[r->kind];
    if (r->dtype != TP_I64)
        return tpi_fail(ctx, at, what, TP_E_DTYPE, "whole numbers are i64, not %s",
                        tp_dtype_name((tp_dtype)r->dtype));
    if (r->lo < r->hi)
        return NULL;
    return tpi_fail(ctx, at, what, TP_E_VALUE, "no whole numbers from %lld to below %lld",
                    (long long)r->lo, (long long)r->hi);
}

static bool refuse_numbers(tp_ctx *ctx, tpi_at at, const tpi_random_attrs *r,
                           tp_tensor **failed)
{
    TPI_DEFAULT_FLOAT_MODE;
    const char *what = kind_names[r->kind];
    *failed = NULL;
    if (r->kind == TPI_RANDOM_WHOLE)
        return (*failed = refuse_whole(ctx, at, r)) != NULL;
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
    if ((uint64_t)r->stream == UINT64_MAX)
        return tpi_refuse(q, TP_E_VALUE, "stream 2^64 - 1 is that of tp_split_seed");
    if (r->shape.n < 0 || r->shape.n > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "%lld axes", (long long)r->shape.n);
    if (r->apart.n < 0 || r->apart.n > r->shape.n)
        return tpi_refuse(q, TP_E_SHAPE, "%lld distances between rows of %lld axes",
                          (long long)r->apart.n, (long long)r->shape.n);
    if (refuse_numbers(q->ctx, q->at, r, &q->failed))
        return false;
    for (int64_t i = 0; i < r->apart.n; i++)
        if (!tpi_dim_is_size(q->dims, r->apart.v[i]))
            return tpi_refuse(q, TP_E_SHAPE, "%lld is no distance", (long long)r->apart.v[i]);
    if (!tpi_dim_is_size(q->dims, r->moves))
        return tpi_refuse(q, TP_E_SHAPE, "%lld is no distance", (long long)r->moves);
    for (int64_t i = 0; i < r->shape.n; i++)
        if (!tpi_dim_is_size(q->dims, r->shape.v[i]))
            return tpi_refuse(q, TP_E_SHAPE, "%lld is no size", (long long)r->shape.v[i]);
    q->dtype = (tp_dtype)r->dtype;
    q->rank = (int)r->shape.n;
    memcpy(q->shape, r->shape.v, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

static const tpi_call calls[TP_N_DTYPES] = {
    [TP_F32] = tpk_random_f32, [TP_F64] = tpk_random_f64, [TP_I64] = tpk_random_i64};

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

int tpi_random_per(const tpi_random_attrs *a)
{
    if (a->kind == TPI_RANDOM_WHOLE)
        return 2 / tpk_words_of_range(a->lo, a->hi);
    return a->dtype == TP_F32 ? 4 : 2;
}

int64_t tpi_random_moves(tpi_dims *dims, const tpi_random_attrs *a, int rank,
                         const int64_t *shape)
{
    const int per = tpi_random_per(a);
    return a->apart.n
               ? a->moves
               : tpi_dim_div(dims,
                             tpi_dim_add(dims, tpi_sizes_product(dims, rank, shape), per - 1),
                             per);
}

tpi_random_attrs tpi_random_position(const tpi_random_attrs *a, tp_ctx *ctx)
{
    tpi_random_attrs placed = *a;
    placed.seed = (int64_t)ctx->seed;
    uint64_t *position = tpi_stream_position(ctx, (uint64_t)a->stream);
    placed.at = (int64_t)*position;
    *position += (uint64_t)tpi_random_moves(NULL, a, (int)a->shape.n, a->shape.v);
    return placed;
}

/* ---- drawing ------------------------------------------------------------------------------------------ */

static tp_tensor *draw(tp_ctx *ctx, tpi_at at, tpi_random_attrs *r)
{
    tp_tensor *y;
    if (!tpi_check_shape(ctx, at, kind_names[r->kind], (int)r->shape.n, r->shape.v, &y) ||
        refuse_numbers(ctx, at, r, &y))
        return y;
    y = ctx->frame && ctx->frame->rules->refuse_draw ? ctx->frame->rules->refuse_draw(ctx, at)
                                                     : NULL;
    if (y)
        return y;
    if (ctx->frame) {
        const tpi_random_attrs placed = tpi_random_position(r, ctx);
        return ctx->frame->rules->apply(ctx, at, &tpi_op_random, 0, NULL, &placed, false);
    }
    y = tpi_tensor_new(ctx, at, (tp_dtype)r->dtype, (int)r->shape.n, r->shape.v);
    if (y->status != TP_OK)
        return y;
    const tpi_random_attrs placed = tpi_random_position(r, ctx);
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

tp_tensor *tpi_random_again(tpi_at at, tp_ctx *ctx, tp_graph *g, const tpi_random_attrs *a)
{
    tpi_random_attrs r = *a;
    return g ? tpi_random_node(g, at, a) : draw(ctx, at, &r);
}

/* `r` has all but the shape. */
static tp_tensor *draw_new(tpi_at at, tp_ctx *ctx, tpi_random_attrs r, int rank,
                           const int64_t *shape)
{
    tp_tensor *failed;
    if (!ctx)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(ctx, at, kind_names[r.kind]);
    if (!tpi_check_shape(ctx, at, kind_names[r.kind], rank, shape, &failed))
        return failed;
    r.stream = (int64_t)ctx->caller.stream;
    r.shape.n = rank;
    for (int i = 0; i < rank; i++)
        r.shape.v[i] = shape[i];
    if (ctx->tracing) /* in a block of a graph: once per turn */
        return refuse_numbers(ctx, at, &r, &failed) ? failed
                                                    : tpi_random_node(ctx->tracing, at, &r);
    return draw(ctx, at, &r);
}

/* `x` is a good operand. */
static tp_tensor *draw_like(tpi_at at, const tp_tensor *x, tpi_random_attrs r)
{
    TPI_ALONE(x->ctx, at, kind_names[r.kind]);
    tp_tensor *failed;
    r.stream = (int64_t)x->ctx->caller.stream;
    r.shape.n = x->rank;
    memcpy(r.shape.v, x->shape, sizeof(int64_t) * x->rank);
    tp_graph *g = x->graph ? tpi_graph_here(x) : x->ctx->tracing; /* as in draw_new */
    if (!g)
        return draw(x->ctx, at, &r);
    return refuse_numbers(x->ctx, at, &r, &failed) ? failed : tpi_random_node(g, at, &r);
}

static tp_tensor *refuse_like(tpi_at at, const char *what, const tp_tensor *x)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    return failed ? failed : tpi_refuse_like(x, at, what);
}

/* ---- floats --------------------------------------------------------------------------------------------- */

static tp_tensor *floats_like(tpi_at at, tpi_random_kind kind, const tp_tensor *x, double a,
                              double b)
{
    tp_tensor *failed = refuse_like(at, kind_names[kind], x);
    if (failed)
        return failed;
    return draw_like(at, x,
                     (tpi_random_attrs){.kind = kind, .dtype = x->dtype, .a = a, .b = b});
}

tp_tensor *tp_uniform_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                         const int64_t *shape, double lo, double hi)
{
    const tpi_random_attrs r = {.kind = TPI_RANDOM_UNIFORM, .dtype = dtype, .a = lo, .b = hi};
    return draw_new(TPI_AT(file, line), tp, r, rank, shape);
}
TPI_BARE(tp_tensor *, tp_uniform,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double lo, double hi),
         tp, dtype, rank, shape, lo, hi)

tp_tensor *tp_normal_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                        const int64_t *shape, double mean, double stddev)
{
    const tpi_random_attrs r = {
        .kind = TPI_RANDOM_NORMAL, .dtype = dtype, .a = mean, .b = stddev};
    return draw_new(TPI_AT(file, line), tp, r, rank, shape);
}
TPI_BARE(tp_tensor *, tp_normal,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double mean,
          double stddev),
         tp, dtype, rank, shape, mean, stddev)

tp_tensor *tp_uniform_like_at(const char *file, int line, tp_tensor *x, double lo, double hi)
{
    return floats_like(TPI_AT(file, line), TPI_RANDOM_UNIFORM, x, lo, hi);
}
TPI_BARE(tp_tensor *, tp_uniform_like, (tp_tensor * x, double lo, double hi), x, lo, hi)

tp_tensor *tp_normal_like_at(const char *file, int line, tp_tensor *x, double mean,
                             double stddev)
{
    return floats_like(TPI_AT(file, line), TPI_RANDOM_NORMAL, x, mean, stddev);
}
TPI_BARE(tp_tensor *, tp_normal_like, (tp_tensor * x, double mean, double stddev), x, mean,
         stddev)

/* ---- whole numbers: drawn as i64 --------------------------------------------------------------------- */

/* NULL when the type has all numbers of [lo, hi). */
static tp_tensor *refuse_range(tp_ctx *ctx, tpi_at at, tp_dtype dtype, int64_t lo, int64_t hi)
{
    static const struct {
        int64_t least, most;
    } ends[TP_F32] = {
        [TP_I8] = {INT8_MIN,  INT8_MAX  },
          [TP_I16] = {INT16_MIN, INT16_MAX },
        [TP_I32] = {INT32_MIN, INT32_MAX },
          [TP_I64] = {INT64_MIN, INT64_MAX },
        [TP_U8] = {0,         UINT8_MAX },
          [TP_U16] = {0,         UINT16_MAX},
        [TP_U32] = {0,         UINT32_MAX},
          [TP_U64] = {0,         INT64_MAX },
    };
    const char *what = kind_names[TPI_RANDOM_WHOLE];
    const int64_t spoilt = tpi_is_spoilt(lo) ? lo : tpi_is_spoilt(hi) ? hi : 0;
    if (spoilt && ctx->has_symbols)
        return tpi_fail_spoilt(ctx, at, what, TP_E_VALUE, spoilt);
    if (dtype == TP_BOOL || dtype >= TP_F32)
        return tpi_fail(ctx, at, what, TP_E_DTYPE, "%s is no type of integers",
                        tp_dtype_name(dtype));
    if (lo >= hi || (lo >= ends[dtype].least && hi - 1 <= ends[dtype].most))
        return NULL;
    return tpi_fail(ctx, at, what, TP_E_VALUE, "%s has not all of %lld to %lld",
                    tp_dtype_name(dtype), (long long)lo, (long long)hi - 1);
}

tp_tensor *tp_randint_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                         const int64_t *shape, int64_t lo, int64_t hi)
{
    const tpi_at at = TPI_AT(file, line);
    const tpi_random_attrs r = {.kind = TPI_RANDOM_WHOLE, .dtype = TP_I64, .lo = lo, .hi = hi};
    tp_tensor *failed;
    TPI_ALONE(tp, at, kind_names[r.kind]);
    if (!tpi_check_maker(tp, at, kind_names[r.kind], dtype, rank, shape, &failed) ||
        (failed = refuse_range(tp, at, dtype, lo, hi)))
        return failed;
    tp_tensor *y = draw_new(at, tp, r, rank, shape);
    return dtype == TP_I64 ? y : tp_cast_at(file, line, y, dtype);
}
TPI_BARE(tp_tensor *, tp_randint,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, int64_t lo, int64_t hi),
         tp, dtype, rank, shape, lo, hi)

tp_tensor *tp_randint_like_at(const char *file, int line, tp_tensor *x, int64_t lo, int64_t hi)
{
    const tpi_at at = TPI_AT(file, line);
    const tpi_random_attrs r = {.kind = TPI_RANDOM_WHOLE, .dtype = TP_I64, .lo = lo, .hi = hi};
    tp_tensor *failed = refuse_like(at, kind_names[r.kind], x);
    failed = failed ? failed : refuse_range(x->ctx, at, (tp_dtype)x->dtype, lo, hi);
    if (failed)
        return failed;
    tp_tensor *y = draw_like(at, x, r);
    return x->dtype == TP_I64 ? y : tp_cast_at(file, line, y, (tp_dtype)x->dtype);
}
TPI_BARE(tp_tensor *, tp_randint_like, (tp_tensor * x, int64_t lo, int64_t hi), x, lo, hi)

tp_tensor *tpi_random_keys(tpi_at at, const char *what, const tp_tensor *x)
{
    tp_tensor *failed = refuse_like(at, what, x);
    if (!failed && x->dtype < TP_F32)
        failed =
            tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                     tp_dtype_name((tp_dtype)x->dtype));
    return failed ? failed
                  : draw_like(at, x,
                              (tpi_random_attrs){.kind = TPI_RANDOM_WHOLE,
                                                 .dtype = TP_I64,
                                                 .lo = INT64_MIN,
                                                 .hi = INT64_MAX});
}
