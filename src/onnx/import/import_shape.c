/* Operators that ask for shapes, make tensors of a shape, or give elements another one. */
#include "onnx/import/import.h"
#include "op/sizes.h"

#include <string.h>

/* ---- constants --------------------------------------------------------------------------------- */

/* The next number of a list of floats, or of integers, as it is in memory. */
static bool next_number(tpi_onnx_list *l, bool floats, void *v)
{
    return floats ? tpi_onnx_next_float(l, v) : tpi_onnx_next_int(l, v);
}

static tp_tensor *constant_list(tpi_onnx_op *o, const tpi_onnx_attr *a, tp_dtype dtype)
{
    const bool floats = dtype == TP_F32;
    tpi_onnx_list l = tpi_onnx_list_open(a);
    int64_t v, n = 0;
    while (next_number(&l, floats, &v))
        n++;
    tp_tensor *t = tp_tensor_new(o->ctx, dtype, 1, &n, NULL);
    const size_t size = tp_dtype_size(dtype);
    l = tpi_onnx_list_open(a);
    for (size_t i = 0; !tp_failed(t) && next_number(&l, floats, &v); i++)
        memcpy(t->data + i * size, &v, size);
    return t;
}

tp_tensor *tpi_onnx_import_constant(tpi_onnx_op *o)
{
    const tpi_onnx_attr *a;
    if (tpi_onnx_given(o, "value"))
        return tpi_onnx_tensor_in(o, "value");
    if ((a = tpi_onnx_attr_of(o, "value_float")) != NULL)
        return tp_scalar(o->ctx, TP_F32, (double)a->f);
    if ((a = tpi_onnx_attr_of(o, "value_floats")) != NULL)
        return constant_list(o, a, TP_F32);
    if ((a = tpi_onnx_attr_of(o, "value_int")) != NULL)
        return tp_tensor_new(o->ctx, TP_I64, 0, NULL, &a->i);
    if ((a = tpi_onnx_attr_of(o, "value_ints")) != NULL)
        return constant_list(o, a, TP_I64);
    return tpi_onnx_refuse(o, "its value is neither numbers nor a dense tensor");
}

/* A shape given as integers that were read; false after an error. */
static bool few_axes(tpi_onnx_op *o, const tpi_onnx_ints *shape)
{
    return shape->n <= TP_MAX_RANK ||
           tpi_onnx_refuse(o, "a shape of %d axes: at most %d are supported", shape->n,
                           TP_MAX_RANK);
}

static bool is_shape(tpi_onnx_op *o, const tpi_onnx_ints *shape)
{
    for (int i = 0; i < shape->n; i++)
        if (!tpi_dim_is_size(o->g->dims, shape->v[i]))
            return tpi_onnx_refuse(o, "size %lld of axis %d", (long long)shape->v[i], i);
    return true;
}

tp_tensor *tpi_onnx_import_constant_of_shape(tpi_onnx_op *o)
{
    tpi_onnx_ints shape;
    tp_tensor *value = tpi_onnx_given(o, "value") ? tpi_onnx_tensor_in(o, "value")
                                                  : tp_scalar(o->ctx, TP_F32, 0);
    if (!value || !tpi_onnx_ints_of(o, 0, &shape) || !few_axes(o, &shape) ||
        !is_shape(o, &shape))
        return NULL;
    if (tp_count(value) != 1)
        return tpi_onnx_refuse(o, "its value has %lld elements", (long long)tp_count(value));
    tp_tensor *one = tp_reshape(value, TP_SCALAR);
    one = tpi_onnx_for_shape(o, one, shape.n, shape.v);
    return tp_broadcast(one, shape.n, shape.v);
}

/* ---- sizes -------------------------------------------------------------------------------------- */

static int64_t clamp_axis(int64_t axis, int rank)
{
    axis = axis < 0 ? axis + rank : axis;
    return axis < 0 ? 0 : axis > rank ? rank : axis;
}

bool tpi_onnx_import_shape(tpi_onnx_op *o)
{
    tpi_onnx_ints out = {.rank = 1, .dtype = TP_I64}, k;
    int64_t shape[TP_MAX_RANK] = {0};
    int rank;
    if (tpi_onnx_try_ints(o, 0, &k)) {
        rank = k.rank;
        shape[0] = k.n;
    } else {
        const tp_tensor *x = tpi_onnx_in(o, 0);
        rank = x->rank;
        memcpy(shape, x->shape, sizeof shape);
        if (tp_failed(x))
            return tpi_onnx_out(o, 0, (tp_tensor *)x);
    }
    const int64_t start = clamp_axis(tpi_onnx_int(o, "start"), rank);
    const int64_t end =
        tpi_onnx_given(o, "end") ? clamp_axis(tpi_onnx_int(o, "end"), rank) : rank;
    for (int64_t i = start; i < end; i++)
        out.v[out.n++] = shape[i];
    return tpi_onnx_out_ints(o, 0, &out);
}

bool tpi_onnx_import_size(tpi_onnx_op *o)
{
    const int64_t count = tpi_onnx_dim_product(o, o->x[0]->rank, o->x[0]->shape);
    const tpi_onnx_ints out = {.n = 1, .dtype = TP_I64, .v = {count}};
    if (count == TPI_NO_DIM)
        return tpi_onnx_refuse(o, "the sizes multiply beyond what is counted");
    return tpi_onnx_out_ints(o, 0, &out);
}

/* start, start + step, ... of known integers: elements that may be many. */
static tp_tensor *range_of_sizes(tpi_onnx_op *o, int64_t start, int64_t limit, int64_t delta,
                                 tp_dtype dtype)
{
    const bool up = delta > 0;
    const int64_t step = up ? delta : -delta;
    const bool plain = !tpi_dim_is_symbolic(start) && !tpi_dim_is_symbolic(limit);
    const int64_t high = up ? limit : start, low = up ? start : limit;
    const bool nears = tpi_dim_is_symbolic(high) && low > 1; /* it may be empty */
    int64_t span = tpi_onnx_dim_sub(o, high, nears ? tpi_dim_min(o->g->dims, high, low) : low);
    if (plain && span != TPI_NO_DIM && span < 0)
        span = 0;
    const int64_t n = tpi_onnx_dim_div(o, tpi_onnx_dim_add(o, span, step - 1), step);
    if (span == TPI_NO_DIM || !tpi_dim_is_size(o->g->dims, n))
        return tpi_onnx_refuse(o, "its length is neither a number nor a size");
    tp_tensor *y = tpi_onnx_iota(o, n, TP_I64);
    if (delta != 1)
        y = tp_mul(y, tpi_onnx_size_of(o, delta, TP_I64));
    if (start != 0)
        y = tp_add(y, tpi_onnx_size_of(o, start, TP_I64));
    return dtype == TP_I64 ? y : tp_cast(y, dtype);
}

/* A size, or a whole number. */
static bool whole_of(tpi_onnx_op *o, int i, int64_t *v)
{
    tpi_onnx_ints k;
    double number;
    if (tpi_onnx_try_sizes(o, i, &k) && k.n == 1) {
        *v = k.v[0];
        return true;
    }
    if (!tpi_onnx_is_known(o, i) || !tpi_onnx_number_of(o, i, &number) ||
        !(number > -1e9 && number < 1e9) || number != (double)(int64_t)number)
        return false;
    *v = (int64_t)number;
    return true;
}

/* Floats that a Cast has made of sizes. */
static bool is_range_of_sizes(tpi_onnx_op *o, int64_t *v)
{
    bool symbolic = false;
    for (int i = 0; i < 3; i++) {
        if (!whole_of(o, i, &v[i]))
            return false;
        symbolic |= tpi_dim_is_symbolic(v[i]);
    }
    return symbolic && v[2] != 0 && !tpi_dim_is_symbolic(v[2]);
}

tp_tensor *tpi_onnx_import_range(tpi_onnx_op *o)
{
    int64_t start, limit, delta, v[3];
    const tp_dtype dtype = tpi_onnx_in_dtype(o, 0);
    if (dtype < TP_F32) {
        if (!tpi_onnx_int_of(o, 0, &start) || !tpi_onnx_int_of(o, 1, &limit) ||
            !tpi_onnx_int_of(o, 2, &delta))
            return NULL;
        if (delta == 0 || tpi_dim_is_symbolic(delta) || delta == INT64_MIN)
            return tpi_onnx_refuse(o, "delta is 0, or no number");
        return range_of_sizes(o, start, limit, delta, dtype);
    }
    if (is_range_of_sizes(o, v))
        return range_of_sizes(o, v[0], v[1], v[2], dtype);
    double from, to, step;
    if (!tpi_onnx_number_of(o, 0, &from) || !tpi_onnx_number_of(o, 1, &to) ||
        !tpi_onnx_number_of(o, 2, &step))
        return NULL;
    const double count = (to - from) / step;
    if (!(count < 1e15))
        return tpi_onnx_refuse(o, "it has %g elements", count);
    int64_t n = count > 0 ? (int64_t)count : 0;
    n += (double)n < count;
    tp_tensor *y = tpi_onnx_iota(o, n, TP_I64);
    y = tp_mul(tp_cast(y, dtype), tp_scalar(o->ctx, dtype, step));
    return tp_add(y, tp_scalar(o->ctx, dtype, from));
}

/* ---- reshape and the like ------------------------------------------------------------------------- */

static tp_tensor *reshaped(tpi_onnx_op *o, tp_tensor *x, int rank, const int64_t *shape)
{
    for (int i = 0; i < rank; i++)
        if (tpi_dim_is_symbolic(shape[i]))
            x = tp_graph_read(o->g, x);
    return tpi_onnx_reshaped(o, x, rank, shape);
}

tp_tensor *tpi_onnx_import_reshape(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints shape;
    if (!tpi_onnx_ints_of(o, 1, &shape) || !few_axes(o, &shape))
        return NULL;
    const bool zero = tpi_onnx_int(o, "allowzero") != 0;
    for (int i = 0; i < shape.n; i++) {
        if (shape.v[i] != 0 || zero)
            continue;
        if (i >= x->rank)
            return tpi_onnx_refuse(
                o, "size 0 of axis %d stands for one of the input, which has %d", i, x->rank);
        shape.v[i] = x->shape[i];
    }
    return reshaped(o, x, shape.n, shape.v);
}

tp_tensor *tpi_onnx_import_flatten(tpi_onnx_op *o, tp_tensor *x)
{
    int64_t axis = tpi_onnx_int(o, "axis");
    axis = axis < 0 ? axis + x->rank : axis;
    if (axis < 0 || axis > x->rank)
        return tpi_onnx_refuse(o, "axis %lld is out of range for rank %d", (long long)axis,
                               x->rank);
    const int64_t shape[2] = {tpi_onnx_dim_product(o, (int)axis, x->shape),
                              tpi_onnx_dim_product(o, x->rank - (int)axis, x->shape + axis)};
    return tp_reshape(x, 2, shape);
}

tp_tensor *tpi_onnx_import_squeeze(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints axes;
    const bool given = tpi_onnx_given(o, "axes");
    if (!tpi_onnx_axes(o, x->rank, &axes))
        return NULL;
    int64_t shape[TP_MAX_RANK];
    int rank = 0, next = 0;
    for (int i = 0; i < x->rank; i++) {
        const bool named = next < axes.n && axes.v[next] == i;
        next += named;
        if (named && !tpi_onnx_good(o, x = tpi_onnx_fitted(o, x, i, 1)))
            return NULL;
        if (named && x->shape[i] != 1)
            return tpi_onnx_misfit(o, "axis %d of %s is not of size 1", i, SHAPE(x));
        if (given ? !named : x->shape[i] != 1)
            shape[rank++] = x->shape[i];
    }
    return tp_reshape(x, rank, shape);
}

tp_tensor *tpi_onnx_import_unsqueeze(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints axes;
    if (!tpi_onnx_given(o, "axes"))
        return tpi_onnx_refuse(o, "it has no axes");
    if (!tpi_onnx_read_plain_list(o, "axes", &axes))
        return NULL;
    const int rank = x->rank + axes.n;
    if (rank > TP_MAX_RANK)
        return tpi_onnx_refuse(o, "the result has %d axes: at most %d are supported", rank,
                               TP_MAX_RANK);
    if (!tpi_onnx_axes(o, rank, &axes))
        return NULL;
    int64_t shape[TP_MAX_RANK];
    for (int i = 0, next = 0, from = 0; i < rank; i++) {
        const bool made = next < axes.n && axes.v[next] == i;
        next += made;
        shape[i] = made ? 1 : x->shape[from++];
    }
    return tp_reshape(x, rank, shape);
}

tp_tensor *tpi_onnx_import_transpose(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints perm;
    if (!tpi_onnx_read_list(o, "perm", &perm))
        return NULL;
    return tp_transpose(x, perm.n, perm.n ? perm.v : NULL);
}

/* ---- more of the same elements ----------------------------------------------------------------------- */

/* The shape and x's stretch to each other. */
tp_tensor *tpi_onnx_import_expand(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints want;
    if (!tpi_onnx_ints_of(o, 1, &want) || !few_axes(o, &want) || !is_shape(o, &want))
        return NULL;
    int64_t shape[TP_MAX_RANK], from[TP_MAX_RANK];
    bool assumed = false;
    memcpy(from, x->shape, sizeof from);
    const int rank = want.n > x->rank ? want.n : x->rank;
    for (int i = 0; i < rank; i++) {
        const int a = i - (rank - x->rank), b = i - (rank - want.n);
        const int64_t own = a < 0 ? 1 : x->shape[a], other = b < 0 ? 1 : want.v[b];
        shape[i] = own == 1 ? other : own;
        if (own == 1 || other == 1 || own == other)
            continue;
        if (!tpi_sizes_may_agree(o->g->dims, own, other))
            return tpi_onnx_misfit(o, "%s does not stretch to the shape on axis %d", SHAPE(x),
                                   i);
        shape[i] = other;
        from[a] = other;
        assumed = true;
    }
    if (assumed)
        x = tpi_onnx_assumed(o, x, from);
    x = tpi_onnx_for_shape(o, x, rank, shape);
    return tp_broadcast(x, rank, shape);
}

tp_tensor *tpi_onnx_import_tile(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints repeats;
    if (!tpi_onnx_ints_of(o, 1, &repeats) || !is_shape(o, &repeats))
        return NULL;
    if (repeats.n != x->rank)
        return tpi_onnx_refuse(o, "%d repeats for %s", repeats.n, SHAPE(x));
    int64_t shape[TP_MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++)
        shape[i] = tpi_onnx_dim_mul(o, x->shape[i], repeats.v[i]);
    return tp_tile(tpi_onnx_for_shape(o, x, x->rank, shape), repeats.n, repeats.v);
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_depth_to_space(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t b = tpi_onnx_int(o, "blocksize");
    const bool dcr = tpi_onnx_choice(o, "mode") == 0;
    return dcr ? tp_depth_to_space(x, b) : tp_pixel_shuffle(x, b);
}

tp_tensor *tpi_onnx_import_space_to_depth(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_space_to_depth(x, tpi_onnx_int(o, "blocksize"));
}

/* ---- triangles and diagonals ------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_import_trilu(tpi_onnx_op *o, tp_tensor *x)
{
    int64_t k = 0;
    if ((tpi_onnx_has(o, 1) && !tpi_onnx_int_of(o, 1, &k)))
        return NULL;
    if (x->rank < 2)
        return tpi_onnx_refuse(o, "the input is %s, and has to be a matrix at least", SHAPE(x));
    x = tpi_dim_is_symbolic(k) ? tp_graph_read(o->g, x) : x;
    return tpi_onnx_int(o, "upper") ? tp_triu(x, k) : tp_tril(x, k);
}

tp_tensor *tpi_onnx_import_eye_like(tpi_onnx_op *o, tp_tensor *x)
{
    const int64_t k = tpi_onnx_int(o, "k");
    if (x->rank != 2)
        return tpi_onnx_refuse(o, "the input is %s, not a matrix", SHAPE(x));
    tp_tensor *ones =
        tpi_onnx_full(o, tpi_onnx_type_or(o, "dtype", tp_dtype_of(x)), 2, x->shape, 1);
    return tp_triu(tp_tril(ones, k), k);
}

/* ---- what does nothing here ----------------------------------------------------------------------------- */

/* The mask is all true unless the model says, known at load, that it is being trained. */
bool tpi_onnx_import_dropout(tpi_onnx_op *o)
{
    tp_tensor *x = o->x[0];
    double ratio = 0, training = o->opset < 7 && !tpi_onnx_int(o, "is_test");
    if ((o->opset >= 12 && tpi_onnx_has(o, 2) && !tpi_onnx_number_of(o, 2, &training)) ||
        (training != 0 && !tpi_onnx_number(o, "ratio", &ratio)))
        return false;
    tp_tensor *mask = NULL, *y = x;
    const bool draws = training != 0 && ratio != 0;
    if (draws && !(ratio > 0 && ratio < 1))
        return tpi_onnx_refuse(o, "ratio %g", ratio);
    if (draws) {
        mask = tp_ge(tp_uniform_like(tp_graph_read(o->g, x), 0, 1), tp_scalar_like(x, ratio));
        y = tp_mul(tp_mul(x, tp_cast(mask, tp_dtype_of(x))),
                   tp_scalar_like(x, 1 / (1 - ratio)));
    } else if (tpi_onnx_wants(o, 1)) {
        mask = tp_eq(tp_scalar(o->ctx, TP_I64, 0), tp_scalar(o->ctx, TP_I64, 0));
        if (!tp_failed(x))
            mask =
                tp_broadcast(tpi_onnx_for_shape(o, mask, x->rank, x->shape), x->rank, x->shape);
    }
    if (tpi_onnx_wants(o, 1) && o->opset < 10 && mask) /* it had x's type then */
        mask = tp_cast(mask, tp_dtype_of(x));
    return tpi_onnx_out(o, 0, y) && (!mask || tpi_onnx_out(o, 1, mask));
}
