/* Moves: the same elements at other places. Each op has a view rule, so that nothing is copied
 * where strides can say it; sizes and strides in these rules may be symbolic. */
#include "ir/factors.h"
#include "op/sizes.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

/* Strides may be negative numbers, or expressions that are; sizes may not. */
static int64_t negate(tpi_dims *dims, int64_t a)
{
    if (a == TPI_NO_DIM)
        return a;
    return tpi_dim_is_symbolic(a) ? tpi_dim_sub(dims, 0, a) : -a;
}

int64_t tpi_stride_mul(tpi_dims *dims, int64_t size, int64_t stride)
{
    if (stride < 0 && !tpi_dim_is_symbolic(stride))
        return negate(dims, tpi_dim_mul(dims, size, negate(dims, stride)));
    return tpi_dim_mul(dims, size, stride);
}

int64_t tpi_stride_add(tpi_dims *dims, int64_t a, int64_t b)
{
    if (!tpi_dim_is_symbolic(a) && !tpi_dim_is_symbolic(b))
        return a == TPI_NO_DIM || b == TPI_NO_DIM || __builtin_add_overflow(a, b, &a)
                   ? TPI_NO_DIM
                   : a;
    if (a < 0 && !tpi_dim_is_symbolic(a))
        return tpi_dim_sub(dims, b, -a);
    if (b < 0 && !tpi_dim_is_symbolic(b))
        return tpi_dim_sub(dims, a, -b);
    return tpi_dim_add(dims, a, b);
}

/* The oracle of all moves: a copy, element by element in the order of the result. */
static bool move_kernel(tpi_run *r)
{
    tp_tensor from = *r->in[0];
    tpi_view v = {.in = r->in[0], .out = r->out, .in_stride = from.stride, .attrs = r->attrs};
    if (r->op->view(&v)) {
        from.rank = r->out->rank;
        memcpy(from.shape, r->out->shape, sizeof from.shape);
        memcpy(from.stride, v.stride, sizeof from.stride);
        from.data += v.offset * (int64_t)tp_dtype_size((tp_dtype)from.dtype);
        tpi_note_contiguous(&from);
    }
    tpi_copy_out(&from, r->out->data);
    return true;
}

#define MOVE(name_, ...)                                                                       \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .n_in = 1,                                                  \
                                   .kind = TPI_VIEW,                                           \
                                   .infer = name_##_infer,                                     \
                                   .view = name_##_view,                                       \
                                   .factors = name_##_factors,                                 \
                                   .kernel = move_kernel,                                      \
                                   .grad = name_##_grad,                                       \
                                   .linear = TPI_LINEAR_IN_ALL,                                \
                                   .code = TPI_OP_##name_,                                     \
                                   __VA_ARGS__}

typedef struct shape_attrs {
    tpi_list shape;
} shape_attrs;

static const tpi_attr shape_table[] = {
    {"shape",               TPI_ATTR_DIMS, offsetof(shape_attrs, shape)},
    {0},
};

typedef struct axes_attrs {
    tpi_list axes;
} axes_attrs;

static const tpi_attr axes_table[] = {
    {"axes",               TPI_ATTR_LIST, offsetof(axes_attrs, axes)},
    {0},
};

/* The wanted shape of reshape and broadcast becomes the result's. */
static bool take_shape(tpi_infer *q, const tpi_list *shape)
{
    q->dtype = (tp_dtype)q->in[0]->dtype;
    q->rank = (int)shape->n;
    for (int i = 0; i < q->rank; i++) {
        q->shape[i] = shape->v[i];
        if (!tpi_dim_is_size(q->dims, shape->v[i]))
            return tpi_refuse(q, TP_E_SHAPE, "axis %d of the shape %s is no size of %s", i,
                              SIZES(q->ctx, q->dims, shape->n, shape->v),
                              q->dims ? "this graph" : "a concrete tensor");
    }
    return true;
}

/* Checks the arguments rank and shape of a wrapper and copies them. */
static tp_tensor *read_shape(tpi_at at, const char *what, const tp_tensor *x, int rank,
                             const int64_t *shape, tpi_list *out)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (rank < 0 || rank > TP_MAX_RANK)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "rank %d is not in 0..%d", rank,
                        TP_MAX_RANK);
    if (rank > 0 && !shape)
        return tpi_fail(x->ctx, at, what, TP_E_NULL, "the shape is NULL");
    out->n = rank;
    for (int i = 0; i < rank; i++)
        out->v[i] = shape[i];
    return NULL;
}

/* ---- reshape ------------------------------------------------------------------------------- */

/* As many elements, if divisions come out even: a run sees whether they do. */
static bool may_be_even(tpi_dims *dims, int64_t have, int64_t want)
{
    return dims && have != TPI_NO_DIM && tpi_dim_even(dims, have) == tpi_dim_even(dims, want) &&
           tpi_dim_is_symbolic(tpi_dim_sub(dims, have, want)) &&
           tpi_dim_is_symbolic(
               tpi_dim_sub(dims, want, have)); /* a file that stands alone checks both */
}

static bool reshape_infer(tpi_infer *q)
{
    const shape_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!take_shape(q, &a->shape))
        return false;
    const int64_t have = tpi_sizes_product(q->dims, x->rank, x->shape);
    const int64_t want = tpi_sizes_product(q->dims, q->rank, q->shape);
    if ((have != want || have == TPI_NO_DIM) && !may_be_even(q->dims, have, want))
        return tpi_refuse(q, TP_E_SHAPE, "%s has %s elements, %s has %s", SHAPE(x),
                          SIZE(q->ctx, q->dims, have),
                          SIZES(q->ctx, q->dims, q->rank, q->shape),
                          SIZE(q->ctx, q->dims, want));
    return true;
}

/* The axes of `x` that are not 1: where they are, and how many. */
static int real_axes(const tp_tensor *x, int *axis)
{
    int n = 0;
    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] != 1)
            axis[n++] = i;
    return n;
}

/* The least i and j so that the first i of x's axes hold as many elements as the first j of
 * y's; false when there are none. */
static bool match_axes(tpi_dims *dims, const tp_tensor *x, const int *xa, int nx,
                       const tp_tensor *y, const int *ya, int ny, int *i, int *j)
{
    int64_t px[TP_MAX_RANK + 1] = {1}, py[TP_MAX_RANK + 1] = {1};
    for (int k = 0; k < nx; k++)
        px[k + 1] = tpi_dim_mul(dims, px[k], x->shape[xa[k]]);
    for (int k = 0; k < ny; k++)
        py[k + 1] = tpi_dim_mul(dims, py[k], y->shape[ya[k]]);
    for (int sum = 2; sum <= nx + ny; sum++)
        for (*i = 1; *i < sum && *i <= nx; (*i)++) {
            *j = sum - *i;
            if (*j <= ny && px[*i] == py[*j] && px[*i] != TPI_NO_DIM)
                return true;
        }
    return false;
}

/* Axes are matched in groups of as many elements. The axes of a group of x must follow one
 * another without a gap; then the group of the result has the strides of its last one. */
static bool reshape_view(tpi_view *v)
{
    const tp_tensor *x = v->in, *y = v->out;
    int xa[TP_MAX_RANK], ya[TP_MAX_RANK];
    const int nx = real_axes(x, xa), ny = real_axes(y, ya);
    for (int k = 0; k < nx; k++)
        if (x->shape[xa[k]] == 0)
            return tpi_sizes_strides(v->dims, y->rank, y->shape, v->stride);
    int x0 = 0, y0 = 0;
    while (x0 < nx && y0 < ny) {
        int i, j;
        if (!match_axes(v->dims, x, xa + x0, nx - x0, y, ya + y0, ny - y0, &i, &j))
            return false;
        for (int k = x0 + i - 2; k >= x0; k--) {
            const int outer = xa[k], inner = xa[k + 1];
            if (v->in_stride[outer] !=
                tpi_stride_mul(v->dims, x->shape[inner], v->in_stride[inner]))
                return false;
        }
        int64_t step = v->in_stride[xa[x0 + i - 1]];
        for (int k = y0 + j - 1; k >= y0; k--) {
            v->stride[ya[k]] = step;
            step = tpi_stride_mul(v->dims, y->shape[ya[k]], step);
        }
        if (step == TPI_NO_DIM)
            return false;
        x0 += i;
        y0 += j;
    }
    if (x0 < nx || y0 < ny)
        return false;
    for (int k = y->rank - 1; k >= 0; k--)
        if (y->shape[k] == 1)
            v->stride[k] = k == y->rank - 1
                               ? 1
                               : tpi_stride_mul(v->dims, y->shape[k + 1], v->stride[k + 1]);
    return true;
}

/* An axis that is matched by one axis alone goes there as it is. */
static void reshape_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const tp_tensor *x = t->in[k];
    int xa[TP_MAX_RANK], ya[TP_MAX_RANK], i, j;
    const int nx = real_axes(x, xa), ny = real_axes(t, ya);
    for (int x0 = 0, y0 = 0; x0 < nx && y0 < ny; x0 += i, y0 += j) {
        if (x->shape[xa[x0]] == 0 ||
            !match_axes(tpi_dims_of(t), x, xa + x0, nx - x0, t, ya + y0, ny - y0, &i, &j))
            return;
        if (i == 1 && j == 1)
            f[xa[x0]] = (tpi_factor){TPI_AXIS_PASSED, (int8_t)ya[y0]};
    }
}

static void reshape_grad(tpi_grad *g)
{
    tpi_give(g, 0, tp_reshape(g->dy, g->x[0]->rank, g->x[0]->shape));
}

static tp_tensor *same_size_simplify(const tpi_simplify *s)
{
    return tpi_same_shape(s->in[0], s->node) ? s->in[0] : NULL;
}

static tp_tensor *reshape_simplify(const tpi_simplify *s)
{
    tp_tensor *x = s->in[0];
    if (tpi_same_shape(x, s->node))
        return x;
    return x->op == &tpi_op_reshape
               ? tpi_simplify_node(s, s->node->op, 1, x->in, s->node->attrs)
               : NULL;
}

MOVE(reshape, .lead = {TPI_LEAD_SIZES}, .attrs = shape_table, .attrs_size = sizeof(shape_attrs),
     .simplify = reshape_simplify, .any_size = true, .in_order = true);

/* The size that fills the place of -1 in `shape`; TPI_NO_DIM when there is none. Equal sizes
 * are struck out first, so that what is left can mostly be divided as numbers. */
static int64_t size_left(const tp_tensor *x, const tpi_list *shape)
{
    tpi_dims *dims = tpi_dims_of(x);
    bool used[TP_MAX_RANK] = {false};
    int64_t have = 1, want = 1;
    for (int i = 0; i < shape->n; i++) {
        bool struck = shape->v[i] == -1;
        for (int k = 0; k < x->rank && !struck; k++)
            if (!used[k] && x->shape[k] == shape->v[i] && shape->v[i] != 0)
                used[k] = struck = true;
        if (!struck)
            want = tpi_dim_mul(dims, want, shape->v[i]);
    }
    for (int k = 0; k < x->rank; k++)
        if (!used[k])
            have = tpi_dim_mul(dims, have, x->shape[k]);
    const int64_t left = want == 0 ? TPI_NO_DIM : tpi_dim_div(dims, have, want);
    return tpi_dim_mul(dims, left, want) == have ? left : TPI_NO_DIM;
}

tp_tensor *tp_reshape_at(const char *file, int line, tp_tensor *x, int rank,
                         const int64_t *shape)
{
    const tpi_at at = TPI_AT(file, line);
    shape_attrs a = {0};
    tp_tensor *failed = read_shape(at, "reshape", x, rank, shape, &a.shape);
    if (failed)
        return failed;
    int hole = -1;
    for (int i = 0; i < rank; i++) {
        if (shape[i] != -1)
            continue;
        if (hole >= 0)
            return tpi_fail(x->ctx, at, "reshape", TP_E_SHAPE, "two sizes are -1: %s",
                            SIZES(x->ctx, tpi_dims_of(x), rank, shape));
        hole = i;
    }
    if (hole >= 0) {
        a.shape.v[hole] = size_left(x, &a.shape);
        if (a.shape.v[hole] == TPI_NO_DIM)
            return tpi_fail(x->ctx, at, "reshape", TP_E_SHAPE, "no size for -1 makes %s of %s",
                            SIZES(x->ctx, tpi_dims_of(x), rank, shape), SHAPE(x));
    }
    return tpi_apply(at, &tpi_op_reshape, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_reshape, (tp_tensor * x, int rank, const int64_t *shape), x, rank,
         shape)

tp_tensor *tp_flatten_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "flatten", 0, x);
    if (failed)
        return failed;
    if (axis < -x->rank || axis > x->rank)
        return tpi_fail(x->ctx, at, "flatten", TP_E_AXIS, "axis %d is out of range for %s",
                        axis, SHAPE(x));
    const int first = axis < 0 ? axis + x->rank : axis;
    if (first == TP_MAX_RANK)
        return tpi_fail(x->ctx, at, "flatten", TP_E_SHAPE, "%s has no room for one more axis",
                        SHAPE(x));
    shape_attrs a = {.shape.n = first + 1};
    memcpy(a.shape.v, x->shape, sizeof(int64_t) * (size_t)first);
    a.shape.v[first] = tpi_sizes_product(tpi_dims_of(x), x->rank - first, x->shape + first);
    return tpi_apply(at, &tpi_op_reshape, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_flatten, (tp_tensor * x, int axis), x, axis)

tp_tensor *tp_unsqueeze_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "unsqueeze", 0, x);
    if (failed)
        return failed;
    const int place = tpi_axis(axis, x->rank + 1);
    if (place < 0)
        return tpi_fail(x->ctx, at, "unsqueeze", TP_E_AXIS,
                        "axis %d is no place for a new axis in %s", axis, SHAPE(x));
    if (x->rank == TP_MAX_RANK)
        return tpi_fail(x->ctx, at, "unsqueeze", TP_E_SHAPE, "%s has no room for one more axis",
                        SHAPE(x));
    shape_attrs a = {.shape.n = x->rank + 1};
    for (int i = 0; i <= x->rank; i++)
        a.shape.v[i] = i == place ? 1 : x->shape[i < place ? i : i - 1];
    return tpi_apply(at, &tpi_op_reshape, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_unsqueeze, (tp_tensor * x, int axis), x, axis)

/* x without an axis of size 1. */
static tp_tensor *drop_axis(tpi_at at, tp_tensor *x, int axis)
{
    if (x->status != TP_OK)
        return x;
    shape_attrs a = {.shape.n = x->rank - 1};
    for (int i = 0; i < a.shape.n; i++)
        a.shape.v[i] = x->shape[i < axis ? i : i + 1];
    return tpi_apply(at, &tpi_op_reshape, TPI_IN(x), &a);
}

tp_tensor *tp_squeeze_at(const char *file, int line, tp_tensor *x, int axis)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "squeeze", 0, x);
    if (failed)
        return failed;
    const int place = tpi_axis(axis, x->rank);
    if (place < 0)
        return tpi_fail(x->ctx, at, "squeeze", TP_E_AXIS, "axis %d is out of range for %s",
                        axis, SHAPE(x));
    if (x->shape[place] != 1)
        return tpi_fail(x->ctx, at, "squeeze", TP_E_SHAPE, "axis %d of %s is not of size 1",
                        axis, SHAPE(x));
    return drop_axis(at, x, place);
}
TPI_BARE(tp_tensor *, tp_squeeze, (tp_tensor * x, int axis), x, axis)

/* ---- assume: the sizes of x are taken to be others, and a run sees whether they are ------------- */

static bool assume_infer(tpi_infer *q)
{
    const shape_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!take_shape(q, &a->shape))
        return false;
    if (q->rank != x->rank)
        return tpi_refuse(q, TP_E_SHAPE, "%s has not as many axes as %s", SHAPE(x),
                          SIZES(q->ctx, q->dims, q->rank, q->shape));
    for (int i = 0; i < q->rank; i++)
        if (x->shape[i] != q->shape[i] &&
            !tpi_sizes_may_agree(q->dims, x->shape[i], q->shape[i]))
            return tpi_refuse(q, TP_E_SHAPE, "axis %d of %s is taken to be %s", i, SHAPE(x),
                              SIZE(q->ctx, q->dims, q->shape[i]));
    return true;
}

/* The strides of x; where they are those of its sizes, of the sizes that these are. */
static bool assume_view(tpi_view *v)
{
    int64_t own[TP_MAX_RANK], taken[TP_MAX_RANK];
    const int n = v->in->rank;
    if (!tpi_sizes_strides(v->dims, n, v->in->shape, own) ||
        !tpi_sizes_strides(v->dims, n, v->out->shape, taken))
        return false;
    for (int i = 0; i < n; i++)
        v->stride[i] = v->in_stride[i] == own[i] ? taken[i] : v->in_stride[i];
    return true;
}

static void assume_grad(tpi_grad *g)
{
    tpi_give(g, 0, tpi_assume(g->at, g->dy, g->x[0]->shape));
}

#define assume_factors tpi_same_factors
MOVE(assume, .lead = {TPI_LEAD_SIZES}, .attrs = shape_table, .attrs_size = sizeof(shape_attrs),
     .in_order = true);

tp_tensor *tpi_assume(tpi_at at, tp_tensor *x, const int64_t *shape)
{
    shape_attrs a = {0};
    tp_tensor *failed =
        read_shape(at, "assume", x, tpi_is_live(x) ? x->rank : 0, shape, &a.shape);
    return failed ? failed : tpi_apply(at, &tpi_op_assume, TPI_IN(x), &a);
}

/* ---- transpose ------------------------------------------------------------------------------- */

static bool transpose_infer(tpi_infer *q)
{
    const axes_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (a->axes.n != x->rank)
        return tpi_refuse(q, TP_E_AXIS, "%s names %d axes of %s",
                          SIZES(q->ctx, NULL, a->axes.n, a->axes.v), (int)a->axes.n, SHAPE(x));
    unsigned seen = 0;
    for (int i = 0; i < x->rank; i++) {
        const int64_t axis = a->axes.v[i];
        if (axis < 0 || axis >= x->rank)
            return tpi_refuse(q, TP_E_AXIS, "axis %lld is out of range for %s", (long long)axis,
                              SHAPE(x));
        if (seen & 1u << axis)
            return tpi_refuse(q, TP_E_AXIS, "axis %lld is named twice", (long long)axis);
        seen |= 1u << axis;
        q->shape[i] = x->shape[axis];
    }
    q->dtype = (tp_dtype)x->dtype;
    q->rank = x->rank;
    return true;
}

static bool transpose_view(tpi_view *v)
{
    const axes_attrs *a = v->attrs;
    for (int i = 0; i < v->out->rank; i++)
        v->stride[i] = v->in_stride[a->axes.v[i]];
    return true;
}

static void transpose_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const axes_attrs *a = t->attrs;
    (void)k;
    for (int i = 0; i < t->rank; i++)
        f[a->axes.v[i]] = (tpi_factor){TPI_AXIS_PASSED, (int8_t)i};
}

static void transpose_grad(tpi_grad *g)
{
    const axes_attrs *a = g->attrs;
    axes_attrs back = {.axes.n = a->axes.n};
    for (int i = 0; i < a->axes.n; i++)
        back.axes.v[a->axes.v[i]] = i;
    tpi_give(g, 0, tpi_apply(g->at, g->op, TPI_IN(g->dy), &back));
}

static tp_tensor *transpose_simplify(const tpi_simplify *s)
{
    const axes_attrs *a = s->node->attrs;
    bool still = true;
    for (int64_t i = 0; i < a->axes.n; i++)
        still &= a->axes.v[i] == i;
    if (still)
        return s->in[0];
    if (s->in[0]->op != &tpi_op_transpose)
        return NULL;
    const axes_attrs *first = s->in[0]->attrs;
    axes_attrs both = {.axes.n = a->axes.n};
    for (int64_t i = 0; i < a->axes.n; i++)
        both.axes.v[i] = first->axes.v[a->axes.v[i]];
    return tpi_simplify_node(s, s->node->op, 1, s->in[0]->in, &both);
}

MOVE(transpose, .lead = {TPI_LEAD_ORDER}, .attrs = axes_table, .attrs_size = sizeof(axes_attrs),
     .simplify = transpose_simplify, .any_size = true);

tp_tensor *tp_transpose_at(const char *file, int line, tp_tensor *x, int n_axes,
                           const int64_t *perm)
{
    const tpi_at at = TPI_AT(file, line);
    axes_attrs a = {0};
    tp_tensor *failed = read_shape(at, "transpose", x, n_axes, perm, &a.axes);
    if (failed)
        return failed;
    for (int i = 0; i < n_axes; i++)
        a.axes.v[i] = tpi_positive_axis(x, perm[i]);
    if (n_axes == 0) {
        a.axes.n = x->rank;
        for (int i = 0; i < x->rank; i++)
            a.axes.v[i] = x->rank - 1 - i;
    }
    return tpi_apply(at, &tpi_op_transpose, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_transpose, (tp_tensor * x, int n_axes, const int64_t *perm), x, n_axes,
         perm)

tp_tensor *tp_swap_at(const char *file, int line, tp_tensor *x, int axis_a, int axis_b)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "swap", 0, x);
    if (failed)
        return failed;
    const int i = tpi_axis(axis_a, x->rank), j = tpi_axis(axis_b, x->rank);
    if (i < 0 || j < 0)
        return tpi_fail(x->ctx, at, "swap", TP_E_AXIS, "axis %d is out of range for %s",
                        i < 0 ? axis_a : axis_b, SHAPE(x));
    axes_attrs a = {.axes.n = x->rank};
    for (int k = 0; k < x->rank; k++)
        a.axes.v[k] = k == i ? j : k == j ? i : k;
    return tpi_apply(at, &tpi_op_transpose, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_swap, (tp_tensor * x, int axis_a, int axis_b), x, axis_a, axis_b)

/* ---- broadcast ------------------------------------------------------------------------------- */

static bool broadcast_infer(tpi_infer *q)
{
    const shape_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0];
    if (!take_shape(q, &a->shape))
        return false;
    bool fits = x->rank <= q->rank;
    for (int i = 0; i < x->rank && fits; i++)
        fits = x->shape[i] == 1 || x->shape[i] == q->shape[q->rank - x->rank + i];
    if (!fits)
        return tpi_refuse(q, TP_E_SHAPE, "%s does not broadcast to %s", SHAPE(x),
                          SIZES(q->ctx, q->dims, q->rank, q->shape));
    return true;
}

static bool broadcast_view(tpi_view *v)
{
    const int more = v->out->rank - v->in->rank;
    for (int i = 0; i < v->out->rank; i++) {
        const bool stretched = i < more || v->in->shape[i - more] != v->out->shape[i];
        v->stride[i] = stretched ? 0 : v->in_stride[i - more];
    }
    return true;
}

static void broadcast_grad(tpi_grad *g)
{
    tpi_give(g, 0, g->dy);
}

#define broadcast_factors tpi_stretch_factors
MOVE(broadcast, .lead = {TPI_LEAD_SIZES}, .batch = TPI_BATCH_STRETCHED, .attrs = shape_table,
     .attrs_size = sizeof(shape_attrs), .simplify = same_size_simplify, .any_size = true);

tp_tensor *tp_broadcast_at(const char *file, int line, tp_tensor *x, int rank,
                           const int64_t *shape)
{
    const tpi_at at = TPI_AT(file, line);
    shape_attrs a = {0};
    tp_tensor *failed = read_shape(at, "broadcast", x, rank, shape, &a.shape);
    return failed ? failed : tpi_apply(at, &tpi_op_broadcast, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_broadcast, (tp_tensor * x, int rank, const int64_t *shape), x, rank,
         shape)

/* ---- slice: drops `lo` elements of an axis in front and `hi` behind, takes each step-th ------- */

typedef struct slice_attrs {
    int64_t axis, lo, hi, step;
} slice_attrs;

static const tpi_attr slice_table[] = {
    {"axis",                TPI_ATTR_INT, offsetof(slice_attrs, axis)},
    {"lo", TPI_ATTR_DIM, offsetof(slice_attrs, lo)},
    {"hi",                     TPI_ATTR_DIM, offsetof(slice_attrs, hi)},
    {"step",         TPI_ATTR_INT, offsetof(slice_attrs, step)},
    {0                 },
};

static bool refuse_ends(tpi_infer *q, tp_status status)
{
    const slice_attrs *a = q->attrs;
    return tpi_refuse(q, status, "axis %d has size %s: not %s elements in front and %s behind",
                      (int)a->axis, SIZE(q->ctx, q->dims, q->in[0]->shape[a->axis]),
                      SIZE(q->ctx, q->dims, a->lo), SIZE(q->ctx, q->dims, a->hi));
}

/* Neither what is dropped nor what is left is negative; where symbols are in it, the run sees to
 * that. So no element outside is ever reached. */
static bool slice_infer(tpi_infer *q)
{
    const slice_attrs *a = q->attrs;
    if (!tpi_refuse_axis(q, a->axis))
        return false;
    if (a->step < 1)
        return tpi_refuse(q, TP_E_VALUE, "step %lld", (long long)a->step);
    if (!tpi_dim_is_size(q->dims, a->lo) || !tpi_dim_is_size(q->dims, a->hi))
        return refuse_ends(q, TP_E_VALUE);
    tpi_infer_like(q, 0);
    int64_t *size = &q->shape[a->axis];
    *size = tpi_dim_sub(q->dims, tpi_dim_add(q->dims, *size, a->step - 1),
                        tpi_dim_add(q->dims, a->lo, a->hi));
    *size = tpi_dim_div(q->dims, *size, a->step);
    return *size == TPI_NO_DIM ? refuse_ends(q, TP_E_SHAPE) : true;
}

static bool slice_view(tpi_view *v)
{
    const slice_attrs *a = v->attrs;
    for (int i = 0; i < v->out->rank; i++)
        v->stride[i] = v->in_stride[i];
    if (v->out->shape[a->axis] == 0)
        return true;
    if (v->out->shape[a->axis] != 1) /* of one element the step may be beyond any memory */
        v->stride[a->axis] = tpi_stride_mul(v->dims, a->step, v->in_stride[a->axis]);
    v->offset = tpi_stride_mul(v->dims, a->lo, v->in_stride[a->axis]);
    return v->offset != TPI_NO_DIM && v->stride[a->axis] != TPI_NO_DIM;
}

static void slice_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const slice_attrs *a = t->attrs;
    tpi_same_factors(t, k, f);
    if (a->lo || a->hi || a->step != 1)
        f[a->axis].use = TPI_AXIS_WINDOWED;
}

static bool slice_range(const tp_tensor *t, tpi_range *r)
{
    const slice_attrs *a = t->attrs;
    *r = (tpi_range){(int)a->axis, a->lo, a->lo + t->shape[a->axis]};
    return a->step == 1 && !tpi_dim_is_symbolic(a->lo) && !tpi_dim_is_symbolic(a->hi) &&
           !tpi_dim_is_symbolic(t->shape[a->axis]);
}

static void slice_grad(tpi_grad *g)
{
    const slice_attrs *a = g->attrs;
    tpi_give(
        g, 0,
        tpi_pad_slice(g->at, g->dy, (int)a->axis, a->lo, a->step, g->x[0]->shape[a->axis]));
}

MOVE(slice, .lead = {TPI_LEAD_AXES}, .attrs = slice_table, .attrs_size = sizeof(slice_attrs),
     .range = slice_range);

tp_tensor *tpi_slice(tpi_at at, tp_tensor *x, int axis, int64_t lo, int64_t hi, int64_t step)
{
    const slice_attrs a = {.axis = axis, .lo = lo, .hi = hi, .step = step};
    return tpi_apply(at, &tpi_op_slice, TPI_IN(x), &a);
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Of a known size: as Python does. */
static tp_tensor *slice_known(tpi_at at, tp_tensor *x, int axis, int64_t start, int64_t stop,
                              int64_t step)
{
    const int64_t size = x->shape[axis];
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
    start = clamp(start, -INT64_MAX, INT64_MAX);
    stop = clamp(stop, -INT64_MAX, INT64_MAX);
    start = clamp(start < 0 ? start + size : start, least, most);
    if (stop == TP_END)
        stop = step > 0 ? size : -1;
    else
        stop = clamp(stop < 0 ? stop + size : stop, least, most);
    const int64_t pace = step > 0 ? step : step < -size ? size + 1 : -step;
    const int64_t span = step > 0 ? stop - start : start - stop;
    if (span <= 0)
        return tpi_slice(at, x, axis, 0, size, 1);
    const int64_t last = (span - 1) / pace * pace;
    if (step > 0)
        return tpi_slice(at, x, axis, start, size - start - last - 1, last ? pace : 1);
    tp_tensor *y = x;
    if (span != size || pace != 1)
        y = tpi_slice(at, x, axis, start - last, size - start - 1, last ? pace : 1);
    return tp_flip_at(at.file, at.line, y, 1, (int64_t[]){axis});
}

/* A place counted from the end, as a size. */
static int64_t place_of(tpi_dims *dims, int64_t size, int64_t at)
{
    return at >= 0 || tpi_dim_is_symbolic(at) ? at : tpi_dim_sub(dims, size, -at);
}

/* Is that place behind the axis, or before it, whatever the symbols are? */
static bool is_outside(tpi_dims *dims, int64_t size, int64_t place)
{
    return place == TPI_NO_DIM ||
           (dims && tpi_dim_at_most(dims, tpi_dim_add(dims, size, 1), place)) ||
           (dims && tpi_dim_at_most(dims, tpi_dim_add(dims, place, 1), 0));
}

static tp_tensor *refuse_place(tpi_at at, const tp_tensor *x, int axis, int64_t place)
{
    if (place == TPI_NO_DIM)
        return tpi_fail(
            x->ctx, at, "slice", TP_E_SHAPE,
            "axis %d has size %s, and an end of the slice is no size: tp_dim_add and "
            "the like take and give nothing below 0",
            axis, SIZE(x->ctx, tpi_dims_of(x), x->shape[axis]));
    return tpi_fail(
        x->ctx, at, "slice", TP_E_SHAPE,
        "axis %d has size %s, and %s is outside in every run: symbolic sizes are not "
        "clamped (TP_END is the end)",
        axis, SIZE(x->ctx, tpi_dims_of(x), x->shape[axis]),
        SIZE(x->ctx, tpi_dims_of(x), place));
}

/* Is it a number that no axis reaches? One of them is what the arithmetic of sizes gives for no size. */
static bool is_far(int64_t at)
{
    return !tpi_dim_is_symbolic(at) && (at > INT64_MAX / 2 || at < INT64_MIN / 2);
}

/* Of a symbolic size nothing is clamped: when it turns out too small, the run fails. */
static tp_tensor *slice_symbolic(tpi_at at, tp_tensor *x, int axis, int64_t start, int64_t stop,
                                 int64_t step)
{
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t size = x->shape[axis];
    const bool plain = !tpi_dim_is_symbolic(start) && !tpi_dim_is_symbolic(stop);
    if (is_far(start) || (is_far(stop) && stop != TP_END))
        return refuse_place(at, x, axis, is_far(start) ? start : stop);
    if (stop != TP_END && plain && (start < 0) == (stop < 0) &&
        (step > 0 ? start >= stop : start <= stop))
        return tpi_slice(at, x, axis, 0, size, 1);
    const int64_t from = place_of(dims, size, start);
    const int64_t end = stop == TP_END ? size : place_of(dims, size, stop);
    if (is_outside(dims, size, from) || is_outside(dims, size, end))
        return refuse_place(at, x, axis, is_outside(dims, size, from) ? from : end);
    if (step > 0)
        return tpi_slice(at, x, axis, from, tpi_dim_sub(dims, size, end), step);
    /* from, from - pace, ... down to the last one that is above stop */
    const int64_t pace = step == INT64_MIN ? INT64_MAX : -step;
    const int64_t below = stop == TP_END ? 0 : tpi_dim_add(dims, end, 1);
    const int64_t steps = tpi_dim_div(dims, tpi_dim_sub(dims, from, below), pace);
    const int64_t last = tpi_dim_sub(dims, from, tpi_dim_mul(dims, steps, pace));
    const int64_t hi = tpi_dim_sub(dims, size, tpi_dim_add(dims, from, 1));
    return tp_flip_at(at.file, at.line, tpi_slice(at, x, axis, last, hi, pace), 1,
                      (int64_t[]){axis});
}

tp_tensor *tp_slice_at(const char *file, int line, tp_tensor *x, int axis, int64_t start,
                       int64_t stop, int64_t step)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "slice", 0, x);
    if (failed)
        return failed;
    const int place = tpi_axis(axis, x->rank);
    if (place < 0)
        return tpi_fail(x->ctx, at, "slice", TP_E_AXIS, "axis %d is out of range for %s", axis,
                        SHAPE(x));
    if (step == 0)
        return tpi_fail(x->ctx, at, "slice", TP_E_VALUE, "step 0");
    const int64_t given[] = {start, stop, step};
    for (int i = 0; i < 3; i++)
        if (i == 2 ? tpi_is_spoilt(given[i]) : tpi_is_spoilt_size(given[i]))
            return tpi_fail_spoilt(x->ctx, at, "slice", TP_E_VALUE, given[i]);
    if (x->shape[place] >= 0 && !tpi_dim_is_symbolic(start) && !tpi_dim_is_symbolic(stop))
        return slice_known(at, x, place, start, stop, step);
    return slice_symbolic(at, x, place, start, stop, step);
}
TPI_BARE(tp_tensor *, tp_slice,
         (tp_tensor * x, int axis, int64_t start, int64_t stop, int64_t step), x, axis, start,
         stop, step)

tp_tensor *tp_select_at(const char *file, int line, tp_tensor *x, int axis, int64_t index)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "select", 0, x);
    if (failed)
        return failed;
    const int place = tpi_axis(axis, x->rank);
    if (place < 0)
        return tpi_fail(x->ctx, at, "select", TP_E_AXIS, "axis %d is out of range for %s", axis,
                        SHAPE(x));
    if (tpi_is_spoilt(index))
        return tpi_fail_spoilt(x->ctx, at, "select", TP_E_VALUE, index);
    const int64_t size = x->shape[place];
    if (size < 0) { /* whether the row is there is seen when the graph runs */
        tp_tensor *row = tpi_tensor_new(x->ctx, at, TP_I64, 0, NULL);
        if (row->status == TP_OK)
            memcpy(row->data, &index, sizeof index);
        return tp_gather_at(file, line, x, row, place);
    }
    if (index < -size || index >= size)
        return tpi_fail(x->ctx, at, "select", TP_E_VALUE,
                        "index %lld is out of range for axis %d of %s", (long long)index, axis,
                        SHAPE(x));
    const int64_t lo = index < 0 ? index + size : index;
    return drop_axis(at, tpi_slice(at, x, place, lo, size - 1 - lo, 1), place);
}
TPI_BARE(tp_tensor *, tp_select, (tp_tensor * x, int axis, int64_t index), x, axis, index)

tp_status tp_split_at(const char *file, int line, tp_tensor *x, int axis, int n,
                      const int64_t *sizes, tp_tensor **out)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "split", 0, x);
    const int place = failed ? -1 : tpi_axis(axis, x->rank);
    if (!failed && (n < 1 || !out))
        failed = tpi_fail(x->ctx, at, "split", TP_E_VALUE, "into %d parts", n);
    if (!failed && place < 0)
        failed = tpi_fail(x->ctx, at, "split", TP_E_AXIS, "axis %d is out of range for %s",
                          axis, SHAPE(x));
    tpi_dims *dims = failed ? NULL : tpi_dims_of(x);
    int64_t each = 0, sum = 0;
    if (!failed) {
        const int64_t size = x->shape[place];
        each = sizes ? 0 : tpi_dim_div(dims, size, n);
        for (int i = 0; sizes && i < n && !failed; i++)
            if (tpi_is_spoilt_size(sizes[i]))
                failed = tpi_fail_spoilt(x->ctx, at, "split", TP_E_VALUE, sizes[i]);
        for (int i = 0; sizes && i < n && !failed; i++)
            sum =
                tpi_dim_is_size(dims, sizes[i]) ? tpi_dim_add(dims, sum, sizes[i]) : TPI_NO_DIM;
        if (!failed && !sizes && tpi_dim_mul(dims, each, n) != size)
            failed = tpi_fail(x->ctx, at, "split", TP_E_SHAPE,
                              "axis %d of %s is not made of %d equal parts", axis, SHAPE(x), n);
        else if (!failed && sizes && sum != size)
            failed = tpi_fail(x->ctx, at, "split", TP_E_SHAPE,
                              "sizes %s are not those of axis %d of %s",
                              SIZES(x->ctx, dims, n, sizes), axis, SHAPE(x));
    }
    tp_status status = failed ? (tp_status)failed->status : TP_OK;
    int64_t lo = 0, hi = failed ? 0 : x->shape[place];
    for (int i = 0; i < n && out; i++) {
        if (failed) {
            out[i] = failed;
            continue;
        }
        const int64_t size = sizes ? sizes[i] : each;
        hi = tpi_dim_sub(dims, hi, size);
        out[i] = tpi_slice(at, x, place, lo, hi, 1);
        lo = tpi_dim_add(dims, lo, size);
        if (status == TP_OK)
            status = (tp_status)out[i]->status;
    }
    return status;
}
TPI_BARE(tp_status, tp_split,
         (tp_tensor * x, int axis, int n, const int64_t *sizes, tp_tensor **out), x, axis, n,
         sizes, out)

/* ---- flip ------------------------------------------------------------------------------------- */

static bool flip_infer(tpi_infer *q)
{
    const axes_attrs *a = q->attrs;
    for (int i = 0; i < a->axes.n; i++) {
        if (!tpi_refuse_axis(q, a->axes.v[i]))
            return false;
        for (int k = 0; k < i; k++)
            if (a->axes.v[k] == a->axes.v[i])
                return tpi_refuse(q, TP_E_AXIS, "axis %d is named twice", (int)a->axes.v[i]);
    }
    return tpi_infer_like(q, 0);
}

static bool flip_view(tpi_view *v)
{
    const axes_attrs *a = v->attrs;
    for (int i = 0; i < v->out->rank; i++)
        v->stride[i] = v->in_stride[i];
    for (int i = 0; i < a->axes.n; i++) {
        const int64_t axis = a->axes.v[i], size = v->in->shape[axis], s = v->in_stride[axis];
        v->stride[axis] = negate(v->dims, s);
        if (size == 0)
            continue;
        v->offset = tpi_stride_add(v->dims, v->offset,
                                   tpi_stride_mul(v->dims, tpi_dim_sub(v->dims, size, 1), s));
        if (v->offset == TPI_NO_DIM || v->stride[axis] == TPI_NO_DIM)
            return false;
    }
    return true;
}

static void flip_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const axes_attrs *a = t->attrs;
    tpi_same_factors(t, k, f);
    for (int i = 0; i < a->axes.n; i++)
        f[a->axes.v[i]].use = TPI_AXIS_WHOLE;
}

static void flip_grad(tpi_grad *g)
{
    tpi_give(g, 0, tpi_apply(g->at, g->op, TPI_IN(g->dy), g->attrs));
}

MOVE(flip, .lead = {TPI_LEAD_AXES}, .attrs = axes_table, .attrs_size = sizeof(axes_attrs),
     .any_size = true);

tp_tensor *tp_flip_at(const char *file, int line, tp_tensor *x, int n_axes, const int64_t *axes)
{
    const tpi_at at = TPI_AT(file, line);
    axes_attrs a = {0};
    tp_tensor *failed = read_shape(at, "flip", x, n_axes, axes, &a.axes);
    if (failed)
        return failed;
    a.axes.n = n_axes ? n_axes : x->rank;
    for (int i = 0; i < a.axes.n; i++)
        a.axes.v[i] = n_axes ? tpi_positive_axis(x, axes[i]) : i;
    return tpi_apply(at, &tpi_op_flip, TPI_IN(x), &a);
}
TPI_BARE(tp_tensor *, tp_flip, (tp_tensor * x, int n_axes, const int64_t *axes), x, n_axes,
         axes)

/* ---- copy: without gaps ------------------------------------------------------------------------ */

static bool copy_infer(tpi_infer *q)
{
    return tpi_infer_like(q, 0);
}

static bool copy_view(tpi_view *v)
{
    (void)v;
    return false;
}

static void copy_grad(tpi_grad *g)
{
    tpi_give(g, 0, g->dy);
}

#define copy_factors tpi_same_factors
MOVE(copy, .simplify = tpi_same_simplify, .any_size = true, .in_order = true);

tp_tensor *tp_contiguous_at(const char *file, int line, tp_tensor *x)
{
    if (tpi_is_live(x) && x->status == TP_OK && (x->graph || x->flags & TPI_CONTIGUOUS))
        return x;
    return tpi_apply(TPI_AT(file, line), &tpi_op_copy, TPI_IN(x), NULL);
}
TPI_BARE(tp_tensor *, tp_contiguous, (tp_tensor * x), x)
