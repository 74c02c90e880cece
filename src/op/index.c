/* Indices: reading and writing at places that are themselves values. */
#include "ir/factors.h"
#include "ir/graph_def.h"
#include "kernel/text/elem.h"
#include "kernel/text/vec.h"
#include "op/set_calls.h"
#include "op/sizes.h"
#include "tapir/indexing.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define TPI_TEXT "kernel/text/index.h"
#define TPI_TEXT_BOOL
#include "op/instances.h"

typedef struct axis_attrs {
    int64_t axis;
} axis_attrs;

static const tpi_attr axis_table[] = {
    {"axis",               TPI_ATTR_INT, offsetof(axis_attrs, axis)},
    {0},
};

/* One of the ops on x, index and, when there are three operands, src. Those of slices take any sizes.
 * y_read: the gradient's rule reads the values of the result. */
#define INDEX(name_, n_in_, rule, places_, y_read, simple, factors_, updates_, isa, ...)       \
    static const tpi_call name_##_calls[TP_N_DTYPES + 2 * TPI_N_SETS] = {__VA_ARGS__};         \
    const tpi_op tpi_op_##name_ = {                                                            \
        .name = #name_,                                                                        \
        .code = TPI_OP_##name_,                                                                \
        .n_in = n_in_,                                                                         \
        .kind = TPI_CALL,                                                                      \
        .attrs = axis_table,                                                                   \
        .lead = {TPI_LEAD_AXES},                                                               \
        .attrs_size = sizeof(axis_attrs),                                                      \
        .infer = name_##_infer,                                                                \
        .factors = factors_,                                                                   \
        .places = places_,                                                                     \
        .batch = factors_ == slice_factors ? TPI_BATCH_SLICES : TPI_BATCH_BY_AXIS,             \
        .grad = rule,                                                                          \
        .linear = TPI_UPDATES_##updates_ == TPI_UPDATES_BY_MEETING ? TPI_LINEAR_IN_NONE        \
                                                                   : TPI_LINEAR_IN_ALL,        \
        .grad_reads_x = true,                                                                  \
        .grad_reads_y = y_read,                                                                \
        .simplify = simple,                                                                    \
        .any_size = factors_ == slice_factors,                                                 \
        .index_in = 1,                                                                         \
        .text = "index",                                                                       \
        .slices = factors_ == slice_factors,                                                   \
        .updates = TPI_UPDATES_##updates_,                                                     \
        .fn = #name_,                                                                          \
        .isa_call = isa,                                                                       \
        .call = name_##_calls}

tp_tensor *tpi_as_index(tpi_at at, tp_tensor *index)
{
    if (!tpi_is_live(index) || index->status != TP_OK || index->dtype == TP_I64 ||
        index->dtype == TP_BOOL || index->dtype >= TP_F32)
        return index;
    if (index->dtype == TP_U64) /* 2^63 becomes the least i64, which is no index of anything */
        index = tp_min_at(at.file, at.line, index,
                          tp_scalar_like_at(at.file, at.line, index, 0x1p63));
    return tp_cast_at(at.file, at.line, index, TP_I64);
}

static bool refuse_index(tpi_infer *q, int i)
{
    return q->in[i]->dtype == TP_I64
               ? true
               : tpi_refuse(q, TP_E_DTYPE, "the index is %s, not of an integer type",
                            tp_dtype_name((tp_dtype)q->in[i]->dtype));
}

/* The operand src is of x's type and of the given shape; `none`: what bools have not, or NULL. */
static bool refuse_src(tpi_infer *q, int rank, const int64_t *shape, const char *none)
{
    const tp_tensor *x = q->in[0], *src = q->in[2];
    if (src->dtype != x->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "x is %s, src is %s",
                          tp_dtype_name((tp_dtype)x->dtype),
                          tp_dtype_name((tp_dtype)src->dtype));
    if (none && x->dtype == TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "x is bool, which has no %s", none);
    if (src->rank != rank || memcmp(src->shape, shape, sizeof *shape * (size_t)rank) != 0)
        return tpi_refuse(q, TP_E_SHAPE, "src is %s where x %s and index %s ask for %s",
                          SHAPE(src), SHAPE(x), SHAPE(q->in[1]),
                          SIZES(q->ctx, q->dims, rank, shape));
    return true;
}

static tp_tensor *index_op(tpi_at at, const tpi_op *op, tp_tensor *x, tp_tensor *index,
                           tp_tensor *src, int axis)
{
    const axis_attrs a = {.axis = tpi_positive_axis(x, axis)};
    return tpi_apply(at, op, op->n_in, (tp_tensor *[]){x, tpi_as_index(at, index), src}, &a);
}

tpi_bad_index tpi_describe_bad_index(tp_tensor *const *in, const void *attrs, int64_t position)
{
    const axis_attrs *a = attrs;
    const tp_tensor *index = in[1];
    int64_t offset = 0;
    for (int i = index->rank - 1; i >= 0; i--) {
        offset += position % index->shape[i] * index->stride[i];
        position /= index->shape[i];
    }
    return (tpi_bad_index){.index = ((const int64_t *)(const void *)index->data)[offset],
                           .size = in[0]->shape[a->axis]};
}

bool tpi_indices_in_range(tp_tensor *const *in, const void *attrs)
{
    const axis_attrs *a = attrs;
    const tp_tensor *index = in[1];
    const int64_t size = in[0]->shape[a->axis], n = tpi_count(index);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int64_t axis = index->rank - 1, left = i; axis >= 0; axis--) {
            offset += left % index->shape[axis] * index->stride[axis];
            left /= index->shape[axis];
        }
        const int64_t v = ((const int64_t *)(const void *)index->data)[offset];
        if (v < -size || v >= size)
            return false;
    }
    return true;
}

/* Of gather, scatter and those like it, by slices of x [a..., axis, b...] and src [a..., index..., b...]: the
 * first reads one for each index, the others combine those that go to one place. */
static void slice_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const int axis = (int)((const axis_attrs *)t->attrs)->axis;
    const int n = t->in[1]->rank, first = k == 1 ? 0 : axis, width = k == 0 ? 1 : n;
    const bool reads = t->n_in == 2;
    for (int i = 0; i < t->in[k]->rank; i++) {
        const bool indexed = i >= first && i < first + width;
        const int to = i < first ? i : i - width + (reads ? n : 1);
        if (!indexed)
            f[i] = (tpi_factor){TPI_AXIS_PASSED, (int8_t)to};
        else if (k == 0 && !reads)
            f[i] = (tpi_factor){TPI_AXIS_WHOLE, (int8_t)axis};
        else if (k > 0)
            f[i] = reads ? (tpi_factor){TPI_AXIS_PASSED, (int8_t)(axis + i)}
                         : (tpi_factor){TPI_AXIS_REDUCED, (int8_t)(TP_MAX_RANK + i - first)};
    }
}

/* Of take_along and put_along_add. Along other axes the index may have fewer places than x. */
static void element_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const int axis = (int)((const axis_attrs *)t->attrs)->axis;
    const bool reads = t->n_in == 2;
    tpi_same_factors(t, k, f);
    for (int i = 0; i < t->rank; i++)
        if (i != axis && t->in[0]->shape[i] != t->in[1]->shape[i])
            f[i].use = TPI_AXIS_WHOLE;
    if (k == 0)
        f[axis] = (tpi_factor){TPI_AXIS_WHOLE, reads ? TPI_NO_FACTOR : (int8_t)axis};
    else if (!reads)
        f[axis] = (tpi_factor){TPI_AXIS_REDUCED, TP_MAX_RANK};
}

/* ---- gather: y[a..., i..., b...] = x[a..., index[i...], b...] ---------------------------------- */

static bool gather_infer(tpi_infer *q)
{
    const axis_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0], *index = q->in[1];
    if (!tpi_refuse_axis(q, a->axis) || !refuse_index(q, 1))
        return false;
    if (x->rank - 1 + index->rank > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "x %s with index %s in one of its axes is of rank %d",
                          SHAPE(x), SHAPE(index), x->rank - 1 + index->rank);
    q->dtype = (tp_dtype)x->dtype;
    q->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i != a->axis)
            q->shape[q->rank++] = x->shape[i];
        for (int k = 0; i == a->axis && k < index->rank; k++)
            q->shape[q->rank++] = index->shape[k];
    }
    return true;
}

/* Of one slice the gradient is put in its place, as that of a slice of known size is: -0 stays -0,
 * which 0 + -0 is not. */
static void gather_grad(tpi_grad *g)
{
    const axis_attrs *a = g->attrs;
    tp_tensor *zeros = tpi_zeros(g->at, g->dy, g->x[0]->rank, g->x[0]->shape);
    const bool one = g->x[1]->rank == 0;
    tpi_give(g, 0,
             one ? tp_scatter(zeros, g->x[1], g->dy, (int)a->axis)
                 : tp_scatter_add(zeros, g->x[1], g->dy, (int)a->axis));
}

/* Constant places along one axis, none of which counts from the end; NULL: it has no such ones. */
static const int64_t *places_of(const tp_tensor *index, int64_t size)
{
    const tp_tensor *t = tpi_constant_of(index);
    if (!t || t->rank != 1 || !(t->flags & TPI_CONTIGUOUS) || tpi_dim_is_symbolic(size))
        return NULL;
    const int64_t *p = (const int64_t *)(const void *)t->data;
    for (int64_t i = 0; i < t->shape[0]; i++)
        if (p[i] < 0 || p[i] >= size)
            return NULL;
    return p;
}

/* Of x [a..., m, n, b...], the rows p and then the columns q, which are places along both axes as one. */
static tp_tensor *gather_along_both(const tpi_simplify *s, tp_tensor *x, int axis,
                                    const int64_t *p, const int64_t *q)
{
    const tpi_at at = TPI_AT(s->node->file, s->node->line);
    const int64_t n = x->shape[axis + 1], *to = s->node->shape + axis;
    const int64_t count = to[0] * to[1];
    int64_t flat[TP_MAX_RANK];
    tp_tensor *places = tpi_tensor_new(s->to->ctx, at, TP_I64, 1, &count);
    if (places->status != TP_OK)
        return NULL;
    int64_t *place = (int64_t *)(void *)places->data;
    for (int64_t i = 0; i < count; i++)
        place[i] = p[i / to[1]] * n + q[i % to[1]];
    memcpy(flat, x->shape, sizeof flat);
    flat[axis] *= n;
    memmove(flat + axis + 1, flat + axis + 2, sizeof *flat * (size_t)(x->rank - axis - 2));
    x = tp_reshape_at(at.file, at.line, x, x->rank - 1, flat);
    x = tp_gather_at(at.file, at.line, x, tpi_graph_constant(s->to, at, places), axis);
    return tp_reshape_at(at.file, at.line, x, s->node->rank, s->node->shape);
}

/* Of a gather along the axis before: one reads both, so that nothing lies between. */
static tp_tensor *gather_simplify(const tpi_simplify *s)
{
    enum {
        MOST = 1 << 16,
        LINES = 8
    }; /* many places, or for few lines, are worth no place for each */
    tp_tensor *y = s->in[0];
    const int64_t axis = ((const axis_attrs *)s->node->attrs)->axis - 1,
                  *shape = s->node->shape;
    if (y->op != &tpi_op_gather || ((const axis_attrs *)y->attrs)->axis != axis)
        return NULL;
    tp_tensor *x = y->in[0];
    const int64_t *p = places_of(y->in[1], x->shape[axis]);
    const int64_t *q = p ? places_of(s->in[1], x->shape[axis + 1]) : NULL;
    int64_t lines = 1;
    for (int i = 0; i < x->rank; i++)
        if (i != axis && i != axis + 1)
            lines *= tpi_dim_is_symbolic(x->shape[i]) ? LINES : x->shape[i];
    if (!q || lines < LINES || shape[axis] * shape[axis + 1] > MOST)
        return NULL;
    return gather_along_both(s, x, (int)axis, p, q);
}

static bool gather_places(const tp_tensor *t, int *axis)
{
    const tp_tensor *index = t->in[1];
    *axis = (int)((const axis_attrs *)t->attrs)->axis;
    return index->rank > 0 && index->data && !index->graph && index->flags & TPI_CONTIGUOUS &&
           !(index->flags & TPI_LAZY) && !tpi_is_wrapped(index);
}

INDEX(gather, 2, gather_grad, gather_places, false, gather_simplify, slice_factors, NOTHING,
      TPI_ISA_gather, TPI_MOVED(gather));

tp_tensor *tp_gather_at(const char *file, int line, tp_tensor *x, tp_tensor *index, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_gather, x, index, NULL, axis);
}
TPI_BARE(tp_tensor *, tp_gather, (tp_tensor * x, tp_tensor *index, int axis), x, index, axis)

/* ---- scatter_add, scatter: the opposite -------------------------------------------------------- */

static bool put_infer(tpi_infer *q, const char *none)
{
    if (!gather_infer(q) || !refuse_src(q, q->rank, q->shape, none))
        return false;
    return tpi_infer_like(q, 0);
}

static bool scatter_add_infer(tpi_infer *q)
{
    return put_infer(q, "sum");
}

static bool scatter_infer(tpi_infer *q)
{
    return put_infer(q, NULL);
}

static void scatter_add_grad(tpi_grad *g)
{
    const axis_attrs *a = g->attrs;
    if (tpi_wants(g, 0))
        tpi_give(g, 0, g->dy);
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_gather(g->dy, g->x[1], (int)a->axis));
}

tp_tensor *tpi_iota(tpi_at at, tp_tensor *like, int64_t size)
{
    enum { LARGE = 1 << 16 }; /* for a constant of a graph */
    if (!like->graph || (size >= 0 && size <= LARGE))
        return tp_arange_at(at.file, at.line, like->ctx, TP_I64, size, 0, 1);
    tp_tensor *one =
        tp_cast_at(at.file, at.line, tp_scalar_like_at(at.file, at.line, like, 1), TP_I64);
    return tp_cumsum_at(at.file, at.line, tp_broadcast_at(at.file, at.line, one, 1, &size), 0,
                        true, false);
}

tp_tensor *tpi_last_writer(tpi_at at, tp_tensor *flat, int64_t size, tp_tensor **number)
{
    if (flat->status != TP_OK)
        return flat;
    *number = tpi_iota(at, flat, flat->shape[0]);
    tp_tensor *none = tpi_zeros(at, flat, 1, &size);
    tp_tensor *last = tp_scatter_at(at.file, at.line, none, flat, *number, 0);
    return tp_gather_at(at.file, at.line, last, flat, 0);
}

/* Which elements of `index` are the last that name their place, shaped to broadcast against
 * slices of which `inner` axes follow. */
static tp_tensor *last_writers(tpi_grad *g, tp_tensor *index, int64_t size, int inner)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < index->rank + inner; i++)
        shape[i] = i < index->rank ? index->shape[i] : 1;
    tp_tensor *number = NULL;
    tp_tensor *last = tpi_last_writer(g->at, tp_flatten(index, 0), size, &number);
    if (last->status != TP_OK)
        return last;
    return tp_reshape(tp_eq(last, number), index->rank + inner, shape);
}

/* x counts where nothing was written, a source where nothing was written after it. */
static void scatter_grad(tpi_grad *g)
{
    const axis_attrs *a = g->attrs;
    const int axis = (int)a->axis;
    if (tpi_wants(g, 0)) {
        tp_tensor *zeros = tpi_zeros(g->at, g->dy, g->x[2]->rank, g->x[2]->shape);
        tpi_give(g, 0, tp_scatter(g->dy, g->x[1], zeros, axis));
    }
    if (tpi_wants(g, 2) && g->x[1]->rank == 0) {
        tpi_give(g, 2, tp_gather(g->dy, g->x[1], axis));
    } else if (tpi_wants(g, 2)) {
        tp_tensor *won =
            last_writers(g, g->x[1], g->x[0]->shape[axis], g->x[0]->rank - axis - 1);
        tpi_give(g, 2, tp_where(won, tp_gather(g->dy, g->x[1], axis), 0));
    }
}

INDEX(scatter_add, 3, scatter_add_grad, NULL, false, NULL, slice_factors, BY_ADDING, 0,
      TPI_NUMBERS(scatter_add));
TPI_DECLARE_F32_AVX2(scatter);
INDEX(scatter, 3, scatter_grad, NULL, false, NULL, slice_factors, BY_SETTING, TPI_ISA_of_op,
      TPI_MOVED(scatter), TPI_F32_AVX2(scatter));

tp_tensor *tp_scatter_add_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                             tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_scatter_add, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_scatter_add,
         (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis), x, index, src, axis)

tp_tensor *tp_scatter_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                         tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_scatter, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_scatter, (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis),
         x, index, src, axis)

/* ---- scatter_max, scatter_min: the greatest, the least of what meets at a place --------------------- */

static bool scatter_max_infer(tpi_infer *q)
{
    return put_infer(q, NULL);
}
#define scatter_min_infer scatter_max_infer

/* In equal shares to x's element and the sources that are the result; NaN is one when there are any. */
static void extremum_grad(tpi_grad *g)
{
    const int axis = (int)((const axis_attrs *)g->attrs)->axis;
    tp_tensor *x = g->x[0], *index = g->x[1], *src = g->x[2], *zero = tp_scalar_like(g->dy, 0);
    tp_tensor *at = tp_gather(g->y, index, axis);
    tp_tensor *is_x = tp_or(tp_eq(x, g->y), tp_ne(x, x));
    tp_tensor *is_src = tp_or(tp_eq(src, at), tp_ne(src, src));
    const tp_dtype dtype = (tp_dtype)g->dy->dtype;
    tp_tensor *n = tp_scatter_add(tp_cast(is_x, dtype), index, tp_cast(is_src, dtype), axis);
    tp_tensor *share = tp_div(g->dy, n);
    if (tpi_wants(g, 0))
        tpi_give(g, 0, tp_where(is_x, share, zero));
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_where(is_src, tp_gather(share, index, axis), zero));
}

#define ORDERED(name) [TP_BOOL] = tpk_##name##_bool, TPI_ORDERED(name)
INDEX(scatter_max, 3, extremum_grad, NULL, true, NULL, slice_factors, BY_MEETING, 0,
      ORDERED(scatter_max));
INDEX(scatter_min, 3, extremum_grad, NULL, true, NULL, slice_factors, BY_MEETING, 0,
      ORDERED(scatter_min));

tp_tensor *tp_scatter_max_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                             tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_scatter_max, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_scatter_max,
         (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis), x, index, src, axis)

tp_tensor *tp_scatter_min_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                             tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_scatter_min, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_scatter_min,
         (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis), x, index, src, axis)

/* ---- scatter_mul: the product of what meets at a place ---------------------------------------------- */

static bool scatter_mul_infer(tpi_infer *q)
{
    return put_infer(q, "product");
}

/* Of 0, 1, ... the places before them (behind them), where there are such, else the same. */
static tp_tensor *neighbour(const tpi_grad *g, tp_tensor *i, bool behind)
{
    tp_tensor *one = tp_scalar_like(i, 1), *n = tp_extent(i, 1, (int64_t[]){0}, TP_I64);
    return behind ? tp_min(tp_add(i, one), tp_sub(n, one))
                  : tp_max(tp_sub(i, one), tp_scalar_like(i, 0));
}

/* Of factors whose places, `number`, are in order: each one's product of all others that meet where it
 * does, those before it times those behind, as the gradient of prod has it. */
static tp_tensor *product_of_others(const tpi_grad *g, tp_tensor *factor, tp_tensor *number,
                                    int axis)
{
    if (tp_failed(factor) || tp_failed(number))
        return tp_failed(factor) ? factor : number;
    tp_tensor *side[2], *zero = tp_scalar_like(factor, 0), *one = tp_scalar_like(factor, 1);
    tp_tensor *zeros = tpi_zeros(g->at, factor, factor->rank, factor->shape);
    tp_tensor *i = tpi_iota(g->at, number, number->shape[0]);
    const int64_t shape[TP_MAX_RANK] = {number->shape[0], 1, 1, 1, 1, 1, 1, 1};
    for (int behind = 0; behind < 2; behind++) {
        tp_tensor *next = neighbour(g, i, behind);
        tp_tensor *ends = tp_or(tp_eq(i, next), tp_ne(number, tp_gather(number, next, 0)));
        ends = tp_reshape(ends, factor->rank - axis, shape);
        side[behind] = tp_recur(tp_where(ends, zero, tp_gather(factor, next, axis)),
                                tp_where(ends, one, zeros), axis, behind);
    }
    return tp_mul(side[0], side[1]);
}

/* Places of x's elements along the axis, then those of the sources, [n + m], none below 0. */
static tp_tensor *places_of_all(const tpi_grad *g, int axis)
{
    tp_tensor *index = tp_flatten(g->x[1], 0);
    tp_tensor *size = tp_extent(g->x[0], 1, (int64_t[]){axis}, TP_I64);
    index = tp_where(tp_lt(index, tp_scalar_like(index, 0)), tp_add(index, size), index);
    return tp_concat(TPI_IN(tpi_iota(g->at, index, g->x[0]->shape[axis]), index), 0);
}

/* x's elements and the sources are sorted by their places, and what is found of them is sorted back. */
static void scatter_mul_grad(tpi_grad *g)
{
    const int axis = (int)((const axis_attrs *)g->attrs)->axis, rank = g->x[0]->rank;
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, g->x[0]->shape, sizeof shape);
    const int64_t n = shape[axis];
    shape[axis] = tpi_sizes_product(tpi_dims_of(g->dy), g->x[1]->rank, g->x[1]->shape);
    tp_tensor *number = places_of_all(g, axis), *src = tp_reshape(g->x[2], rank, shape);
    tp_tensor *order = tp_argsort(number, 0, false), *back = tp_argsort(order, 0, false);
    number = tp_gather(number, order, 0);
    tp_tensor *factor = tp_gather(tp_concat(TPI_IN(g->x[0], src), axis), order, axis);
    tp_tensor *dx = product_of_others(g, factor, number, axis);
    dx = tp_gather(tp_mul(dx, tp_gather(g->dy, number, axis)), back, axis);
    tp_tensor *of_src = tp_slice(dx, axis, n, TP_END, 1);
    if (tpi_wants(g, 0))
        tpi_give(g, 0, tp_slice(dx, axis, 0, n, 1));
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_reshape(of_src, g->x[2]->rank, g->x[2]->shape));
}

INDEX(scatter_mul, 3, scatter_mul_grad, NULL, false, NULL, slice_factors, BY_MEETING, 0,
      TPI_NUMBERS(scatter_mul));

tp_tensor *tp_scatter_mul_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                             tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_scatter_mul, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_scatter_mul,
         (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis), x, index, src, axis)

/* ---- take_along, put_along_add: one element for each index -------------------------------------- */

static bool take_along_infer(tpi_infer *q)
{
    const axis_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0], *index = q->in[1];
    if (!tpi_refuse_axis(q, a->axis) || !refuse_index(q, 1))
        return false;
    bool fits = index->rank == x->rank;
    for (int i = 0; i < x->rank && fits; i++)
        fits = i == a->axis || index->shape[i] == x->shape[i] ||
               (index->shape[i] >= 0 && index->shape[i] < x->shape[i]);
    if (!fits)
        return tpi_refuse(q, TP_E_SHAPE, "index %s is larger than x %s off axis %d",
                          SHAPE(index), SHAPE(x), (int)a->axis);
    tpi_infer_like(q, 1);
    q->dtype = (tp_dtype)x->dtype;
    return true;
}

static bool put_along_add_infer(tpi_infer *q)
{
    const tp_tensor *index = q->in[1];
    if (!take_along_infer(q) || !refuse_src(q, index->rank, index->shape, "sum"))
        return false;
    return tpi_infer_like(q, 0);
}

static void take_along_grad(tpi_grad *g)
{
    const axis_attrs *a = g->attrs;
    tp_tensor *zeros = tpi_zeros(g->at, g->dy, g->x[0]->rank, g->x[0]->shape);
    tpi_give(g, 0, tp_put_along_add(zeros, g->x[1], g->dy, (int)a->axis));
}

static void put_along_add_grad(tpi_grad *g)
{
    const axis_attrs *a = g->attrs;
    if (tpi_wants(g, 0))
        tpi_give(g, 0, g->dy);
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_take_along(g->dy, g->x[1], (int)a->axis));
}

INDEX(take_along, 2, take_along_grad, NULL, false, NULL, element_factors, NOTHING,
      TPI_ISA_take_along, TPI_MOVED(take_along));
INDEX(put_along_add, 3, put_along_add_grad, NULL, false, NULL, element_factors, BY_ADDING, 0,
      TPI_NUMBERS(put_along_add));

tp_tensor *tp_take_along_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                            int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_take_along, x, index, NULL, axis);
}
TPI_BARE(tp_tensor *, tp_take_along, (tp_tensor * x, tp_tensor *index, int axis), x, index,
         axis)

tp_tensor *tp_put_along_add_at(const char *file, int line, tp_tensor *x, tp_tensor *index,
                               tp_tensor *src, int axis)
{
    return index_op(TPI_AT(file, line), &tpi_op_put_along_add, x, index, src, axis);
}
TPI_BARE(tp_tensor *, tp_put_along_add,
         (tp_tensor * x, tp_tensor *index, tp_tensor *src, int axis), x, index, src, axis)

/* ---- one_hot ------------------------------------------------------------------------------------ */

typedef struct one_hot_attrs {
    int64_t n, dtype;
} one_hot_attrs;

static const tpi_attr one_hot_table[] = {
    {"n",                     TPI_ATTR_DIM, offsetof(one_hot_attrs, n)},
    {"dtype", TPI_ATTR_DTYPE, offsetof(one_hot_attrs, dtype)},
    {0                      },
};

static bool one_hot_infer(tpi_infer *q)
{
    const one_hot_attrs *a = q->attrs;
    const tp_tensor *index = q->in[0];
    if (!refuse_index(q, 0))
        return false;
    if (a->dtype < 0 || a->dtype >= TP_N_DTYPES)
        return tpi_refuse(q, TP_E_DTYPE, "no such element type: %lld", (long long)a->dtype);
    if (!tpi_dim_is_size(q->dims, a->n))
        return tpi_refuse(q, TP_E_SHAPE, "%s is no size", SIZE(q->ctx, q->dims, a->n));
    if (index->rank == TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "%s has no room for one more axis", SHAPE(index));
    tpi_infer_like(q, 0);
    q->dtype = (tp_dtype)a->dtype;
    q->shape[q->rank++] = a->n;
    return true;
}

static const tpi_call one_hot_calls[TP_N_DTYPES] = {[TP_BOOL] = tpk_one_hot_u8,
                                                    TPI_NUMBERS(one_hot)};

const tpi_op tpi_op_one_hot = {.name = "one_hot",
                               .any_size = true,
                               .code = TPI_OP_one_hot,
                               .n_in = 1,
                               .kind = TPI_CALL,
                               .attrs = one_hot_table,
                               .attrs_size = sizeof(one_hot_attrs),
                               .infer = one_hot_infer,
                               .factors = tpi_same_factors,
                               .text = "index",
                               .fn = "one_hot",
                               .call = one_hot_calls,
                               .call_dtype = -1};

tp_tensor *tp_one_hot_at(const char *file, int line, tp_tensor *index, int64_t n,
                         tp_dtype dtype)
{
    const tpi_at at = TPI_AT(file, line);
    const one_hot_attrs a = {.n = n, .dtype = (int64_t)dtype};
    return tpi_apply(at, &tpi_op_one_hot, TPI_IN(tpi_as_index(at, index)), &a);
}
TPI_BARE(tp_tensor *, tp_one_hot, (tp_tensor * index, int64_t n, tp_dtype dtype), index, n,
         dtype)
