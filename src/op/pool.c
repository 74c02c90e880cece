/* Pooling: windows that slide over the spatial axes of [n, c, s...]. */
#include "ir/factors.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/set_calls.h"
#include "op/window.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f32
#define S f32
#include "kernel/text/pooling.h"
#undef T
#undef S
#define T tpk_f64
#define S f64
#include "kernel/text/pooling.h"
#undef T
#undef S
#undef FN

typedef struct pool_attrs {
    tpi_list kernel;
    tpi_window window;
    int64_t count_pad;
    tpi_list sizes; /* of the result of avg_pool_dx */
} pool_attrs;

#define WINDOW                                                                                 \
    {"kernel", TPI_ATTR_LIST, offsetof(pool_attrs, kernel)},                                   \
        TPI_WINDOW_ATTRS(pool_attrs, window)

static const tpi_attr max_table[] = {
    WINDOW,
    {0},
};

static const tpi_attr avg_table[] = {
    WINDOW,
    {"count_pad",          TPI_ATTR_BOOL, offsetof(pool_attrs, count_pad)},
    {0},
};

static const tpi_attr dx_table[] = {
    WINDOW,
    {"count_pad",          TPI_ATTR_BOOL, offsetof(pool_attrs, count_pad)},
    {"sizes", TPI_ATTR_DIMS, offsetof(pool_attrs, sizes)},
    {0                   },
};

/* ---- shapes ------------------------------------------------------------------------------------ */

/* The places of the window on axis i of size `size`. No window may lie in the padding alone: what
 * would its greatest be? */
static bool find_places(tpi_infer *q, int i, int64_t size, int64_t *places)
{
    const pool_attrs *a = q->attrs;
    const int64_t kernel = a->kernel.v[i], dilation = a->window.dilation.v[i];
    const int64_t lo = a->window.pad_lo.v[i], hi = a->window.pad_hi.v[i];
    const int64_t reach = tpi_dim_mul(NULL, dilation, kernel - 1);
    const int64_t least = (lo || hi) && dilation > 1 ? dilation : 1;
    const bool hollow = tpi_dim_sub(q->dims, size, least) == TPI_NO_DIM;
    *places = tpi_window_places(q->dims, &a->window, i, size, kernel);
    if (reach < 0 || *places == TPI_NO_DIM)
        return tpi_refuse(q, TP_E_SHAPE, "kernel %s does not fit along axis %d, of size %s",
                          SIZES(q->ctx, NULL, a->kernel.n, a->kernel.v), i + 2,
                          SIZE(q->ctx, q->dims, size));
    if (lo > reach || hi > reach || hollow)
        return tpi_refuse(
            q, TP_E_VALUE,
            "with %lld and %lld of padding along axis %d, of size %s, a window may "
            "hold nothing else",
            (long long)lo, (long long)hi, i + 2, SIZE(q->ctx, q->dims, size));
    return true;
}

static bool refuse_pool(tpi_infer *q)
{
    const pool_attrs *a = q->attrs;
    const int n = tpi_spatial(q->in[0]);
    bool good = n == 0 || a->kernel.n == n;
    for (int i = 0; i < n && good; i++)
        good = a->kernel.v[i] >= 1 && a->kernel.v[i] <= INT32_MAX;
    if (!good)
        return tpi_refuse(q, TP_E_VALUE, "kernel %s for %s",
                          SIZES(q->ctx, NULL, a->kernel.n, a->kernel.v), SHAPE(q->in[0]));
    return tpi_refuse_window(q, &a->window);
}

static bool pool_infer(tpi_infer *q)
{
    if (!refuse_pool(q))
        return false;
    tpi_infer_like(q, 0);
    for (int i = 0; i < q->rank - 2; i++)
        if (!find_places(q, i, q->in[0]->shape[i + 2], &q->shape[i + 2]))
            return false;
    return true;
}

/* Operands x and dy. */
static bool max_dx_infer(tpi_infer *q)
{
    const tp_tensor *x = q->in[0], *dy = q->in[1];
    if (!pool_infer(q))
        return false;
    if (dy->dtype != x->dtype || dy->rank != x->rank ||
        memcmp(dy->shape, q->shape, sizeof(int64_t) * (size_t)x->rank) != 0)
        return tpi_refuse(q, TP_E_SHAPE, "dy is %s, the windows of x %s are %s", SHAPE(dy),
                          SHAPE(x), SIZES(q->ctx, q->dims, x->rank, q->shape));
    return tpi_infer_like(q, 0);
}

static bool index_infer(tpi_infer *q)
{
    const bool good = pool_infer(q);
    q->dtype = TP_I64;
    return good;
}

static bool dx_infer(tpi_infer *q)
{
    const pool_attrs *a = q->attrs;
    const tp_tensor *y = q->in[0];
    if (!refuse_pool(q))
        return false;
    bool fits = a->sizes.n == y->rank - 2;
    tpi_infer_like(q, 0);
    for (int i = 0; i < q->rank - 2 && fits; i++) {
        int64_t places;
        if (!find_places(q, i, a->sizes.v[i], &places))
            return false;
        q->shape[i + 2] = a->sizes.v[i];
        fits = places == y->shape[i + 2];
    }
    return fits ? true
                : tpi_refuse(q, TP_E_SHAPE, "sizes %s do not give dy %s",
                             SIZES(q->ctx, q->dims, a->sizes.n, a->sizes.v), SHAPE(y));
}

static void pool_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_same_factors(t, k, f);
    for (int i = 2; i < t->rank; i++)
        f[i].use = TPI_AXIS_WINDOWED;
}

/* ---- gradients ---------------------------------------------------------------------------------- */

static void max_pool_grad(tpi_grad *g)
{
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_max_pool_dx, TPI_IN(g->x[0], g->dy), g->attrs));
}

/* Linear in dy: back come the elements at the places dy went to; planes are one axis here. */
static void max_pool_dx_grad(tpi_grad *g)
{
    tp_tensor *x = g->x[0];
    if (!tpi_wants(g, 1))
        return;
    tp_tensor *index = tpi_apply(g->at, &tpi_op_max_pool_index, 1, &x, g->attrs);
    tp_tensor *back = tp_take_along(tp_flatten(g->dy, 2), tp_flatten(index, 2), 2);
    tpi_give(g, 1, tp_reshape(back, g->x[1]->rank, g->x[1]->shape));
}

static void avg_pool_grad(tpi_grad *g)
{
    const tp_tensor *x = g->x[0];
    pool_attrs a = *(const pool_attrs *)g->attrs;
    a.sizes.n = x->rank - 2;
    memcpy(a.sizes.v, x->shape + 2, sizeof(int64_t) * (size_t)a.sizes.n);
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_avg_pool_dx, TPI_IN(g->dy), &a));
}

static void avg_pool_dx_grad(tpi_grad *g)
{
    pool_attrs a = *(const pool_attrs *)g->attrs;
    a.sizes = (tpi_list){0};
    tpi_give(g, 0, tpi_apply(g->at, &tpi_op_avg_pool, TPI_IN(g->dy), &a));
}

/* ---- the ops ------------------------------------------------------------------------------------ */

#define POOL(name_, n_operands, table, infer_, by_set, ...)                                    \
    static const tpi_call name_##_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {                      \
        [TP_F32] = tpk_##name_##_f32, [TP_F64] = tpk_##name_##_f64, by_set};                   \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .n_in = n_operands,                                         \
                                   .kind = TPI_CALL,                                           \
                                   .attrs = table,                                             \
                                   .attrs_size = sizeof(pool_attrs),                           \
                                   .infer = infer_,                                            \
                                   .factors = pool_factors,                                    \
                                   .batch = TPI_BATCH_ALL_IMAGES,                              \
                                   .text = "pooling",                                          \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   __VA_ARGS__}
TPI_DECLARE_F32_BY_SET(max_pool);
TPI_DECLARE_F32_BY_SET(max_pool_dx);
TPI_DECLARE_F32_BY_SET(avg_pool);
POOL(max_pool, 1, max_table, pool_infer, TPI_F32_BY_SET(max_pool), .isa_call = TPI_ISA_of_op,
     .planes = true, .grad = max_pool_grad, .grad_reads_x = true);
POOL(max_pool_dx, 2, max_table, max_dx_infer, TPI_F32_BY_SET(max_pool_dx),
     .isa_call = TPI_ISA_of_op, .planes = true, .grad = max_pool_dx_grad, .grad_reads_x = true);
POOL(max_pool_index, 1, max_table, index_infer, , .grad = NULL);
POOL(avg_pool, 1, avg_table, pool_infer, TPI_F32_BY_SET(avg_pool), .isa_call = TPI_ISA_of_op,
     .planes = true, .grad = avg_pool_grad, .linear = TPI_LINEAR_IN_ALL);
POOL(avg_pool_dx, 1, dx_table, dx_infer, , .planes = true, .grad = avg_pool_dx_grad,
     .linear = TPI_LINEAR_IN_ALL);

static tp_tensor *pool(tpi_at at, const tpi_op *op, tp_tensor *x, const tp_window *window)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, op->name, 0, x);
    if (failed)
        return failed;
    if (!window)
        return tpi_fail(x->ctx, at, op->name, TP_E_NULL, "the window is NULL");
    pool_attrs a = {.kernel.n = tpi_spatial(x)};
    for (int i = 0; i < a.kernel.n; i++)
        a.kernel.v[i] = window->kernel[i];
    tpi_window_fill(&a.window, window, (int)a.kernel.n, window->kernel);
    a.count_pad = op == &tpi_op_avg_pool && window->count_pad;
    return tpi_apply(at, op, TPI_IN(x), &a);
}

tp_tensor *tp_max_pool_at(const char *file, int line, tp_tensor *x, const tp_window *window)
{
    return pool(TPI_AT(file, line), &tpi_op_max_pool, x, window);
}
TPI_BARE(tp_tensor *, tp_max_pool, (tp_tensor * x, const tp_window *window), x, window)

tp_tensor *tp_max_pool_index_at(const char *file, int line, tp_tensor *x,
                                const tp_window *window)
{
    return pool(TPI_AT(file, line), &tpi_op_max_pool_index, x, window);
}
TPI_BARE(tp_tensor *, tp_max_pool_index, (tp_tensor * x, const tp_window *window), x, window)

tp_tensor *tp_avg_pool_at(const char *file, int line, tp_tensor *x, const tp_window *window)
{
    return pool(TPI_AT(file, line), &tpi_op_avg_pool, x, window);
}
TPI_BARE(tp_tensor *, tp_avg_pool, (tp_tensor * x, const tp_window *window), x, window)
