/* Operators that cut, join and pad: Concat, Split, Slice, Pad, ReverseSequence, CenterCropPad. */
#include "composite/places.h"
#include "onnx/import/import.h"
#include "op/sizes.h"

#include <string.h>

/* ---- concat, split ------------------------------------------------------------------------------ */

/* The sizes of what is joined, but for those of the axis. */
static void agree_beside(tpi_onnx_op *o, int n, tp_tensor **in, int axis)
{
    for (int i = 1; i < n; i++)
        for (int a = 0; a < tp_rank(in[0]) && tp_rank(in[i]) == tp_rank(in[0]); a++)
            if (a != axis && !tp_failed(in[0]) && !tp_failed(in[i]))
                tpi_onnx_agree_on(o, &in[0], a, &in[i], a);
}

tp_tensor *tpi_onnx_import_concat(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor **in = tpi_onnx_take(tpi_onnx_model_of(o), (size_t)o->n_in, sizeof *in);
    for (int i = 0; in && i < o->n_in; i++)
        in[i] = i ? tpi_onnx_in(o, i) : x;
    if (!in)
        return NULL;
    agree_beside(o, o->n_in, in, o->axis);
    return tp_concat(o->n_in, in, o->axis);
}

/* Equal parts. From operator set 18 on the last one may be smaller; before, the axis has to come out
 * even, which a run sees when its size is free. */
static bool equal_parts(tpi_onnx_op *o, tp_tensor **x, int axis, int64_t n, int64_t *sizes)
{
    const int64_t size = (*x)->shape[axis];
    const int64_t each = tpi_onnx_dim_div(o, tpi_onnx_dim_add(o, size, n - 1), n);
    int64_t left = size;
    if (o->opset < 18) {
        const int64_t part = tpi_onnx_dim_div(o, size, n), all = tpi_onnx_dim_mul(o, part, n);
        if (all != size && !tpi_sizes_may_agree(o->g->dims, all, size))
            return tpi_onnx_misfit(o, "axis %d of %s is not made of %lld equal parts", axis,
                                   SHAPE(*x), (long long)n);
        if (all != size)
            *x = tpi_onnx_with_size(o, *x, axis, all);
        for (int64_t i = 0; i < n; i++)
            sizes[i] = part;
        return tpi_onnx_good(o, *x);
    }
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = i + 1 < n ? each : left;
        left = tpi_onnx_dim_sub(o, left, sizes[i]);
        if (!tpi_dim_is_size(o->g->dims, sizes[i]))
            return tpi_onnx_refuse(o, "the axis cannot be cut into %lld parts", (long long)n);
    }
    return true;
}

bool tpi_onnx_import_split(tpi_onnx_op *o)
{
    tp_tensor *x = o->x[0];
    tpi_onnx_ints sizes = {0};
    const int axis = o->axis;
    if (!tpi_onnx_read_list(o, "split", &sizes))
        return false;
    if (o->n_out < 1 || o->n_out > TPI_ONNX_INTS)
        return tpi_onnx_refuse(o, "it has %d outputs: 1 to %d are supported", o->n_out,
                               TPI_ONNX_INTS);
    if (sizes.n && sizes.n != o->n_out)
        return tpi_onnx_refuse(o, "%d sizes for %d outputs", sizes.n, o->n_out);
    int64_t at = 0;
    if (!sizes.n) {
        if (!equal_parts(o, &x, axis, o->n_out, sizes.v))
            return false;
    } else { /* whose sum may be known to the run alone */
        int64_t all = 0;
        for (int k = 0; k < sizes.n && all != TPI_NO_DIM; k++)
            all = tpi_onnx_dim_add(o, all, sizes.v[k]);
        if (all != x->shape[axis] && tpi_sizes_may_agree(o->g->dims, all, x->shape[axis]) &&
            !tpi_onnx_good(o, x = tpi_onnx_with_size(o, x, axis, all)))
            return false;
    }
    for (int k = 0; k < o->n_out; k++) {
        const int64_t end = tpi_onnx_dim_add(o, at, sizes.v[k]);
        if (!tpi_dim_is_size(o->g->dims, end) || !tpi_dim_is_size(o->g->dims, sizes.v[k]))
            return tpi_onnx_refuse(o, "size %lld of output %d", (long long)sizes.v[k], k);
        const bool all = at == 0 && end == x->shape[axis];
        if (!tpi_onnx_out(o, k, all ? x : tp_slice(x, axis, at, end, 1)))
            return false;
        at = end;
    }
    return at == x->shape[axis] ||
           tpi_onnx_misfit(o, "its sizes do not add up to axis %d of %s", axis, SHAPE(x));
}

/* ---- slice ---------------------------------------------------------------------------------------- */

typedef struct cuts {
    tpi_onnx_ints starts, ends, axes, steps;
} cuts;

static bool read_cuts(tpi_onnx_op *o, cuts *c)
{
    if (!tpi_onnx_given(o, "starts") || !tpi_onnx_given(o, "ends"))
        return tpi_onnx_refuse(o, "it has no starts, or no ends");
    return tpi_onnx_read_list(o, "starts", &c->starts) &&
           tpi_onnx_read_list(o, "ends", &c->ends) &&
           tpi_onnx_read_plain_list(o, "axes", &c->axes) &&
           tpi_onnx_read_plain_list(o, "steps", &c->steps);
}

static bool check_cuts(tpi_onnx_op *o, const cuts *c)
{
    return (c->ends.n == c->starts.n && (!c->axes.n || c->axes.n == c->starts.n) &&
            (!c->steps.n || c->steps.n == c->starts.n)) ||
           tpi_onnx_refuse(o, "starts, ends, axes and steps are of different lengths");
}

enum { BEYOND = 1000000000 }; /* exporters write it, or the last of a type, for "the end" */

static int64_t end_of(int64_t end, int64_t step)
{
    if (tpi_dim_is_symbolic(end) || (step > 0 ? end < BEYOND : end > -BEYOND))
        return end == TP_END ? TP_END - 1 : end; /* far behind, for what goes back */
    return TP_END;
}

/* An end of a slice of a free axis as a place in it. Numbers are clamped, but for 1 and -1: an axis
 * that is empty fails the run. Sizes are not: a run sees to it that they lie within. */
static int64_t place_within(tpi_onnx_op *o, int64_t size, int64_t at)
{
    tpi_dims *dims = o->g->dims;
    if (at >= -1 && at <= 1)
        return at;
    if (at > 1)
        return tpi_dim_min(dims, size, at);
    if (!tpi_dim_is_symbolic(at))
        return at == INT64_MIN ? TPI_NO_DIM
                               : tpi_dim_sub(dims, size, tpi_dim_min(dims, size, -at));
    return tpi_dim_at_most(dims, at, 0) ? tpi_onnx_dim_add(o, size, at) : at;
}

/* A size that counts from the end is not 0, which would be the first element: the run sees to that. */
static bool demand_back(tpi_onnx_op *o, int64_t at)
{
    tpi_dims *dims = o->g->dims;
    if (!tpi_dim_is_symbolic(at) || !tpi_dim_at_most(dims, at, 0))
        return true;
    const int64_t one = tpi_dim_min(dims, tpi_dim_sub(dims, 0, at), 1);
    return one == 1 || (one != TPI_NO_DIM && tpi_onnx_demand(o, one, 1));
}

/* The place behind element `at`: where a slice that goes back begins, or what it ends before. */
static int64_t place_behind(tpi_onnx_op *o, int64_t size, int64_t at)
{
    tpi_dims *dims = o->g->dims;
    if (tpi_dim_is_symbolic(at))
        return tpi_onnx_dim_add(o, place_within(o, size, at), 1);
    if (at >= 0)
        return tpi_dim_min(dims, size, at + 1);
    return at == -1 ? size : tpi_dim_sub(dims, size, tpi_dim_min(dims, size, -(at + 1)));
}

/* What is known of a slice between two places that are numbers: nothing is in it, or something may be
 * in it in every run, or that depends on the size. */
typedef enum span { SPAN_EMPTY, SPAN_ORDERED, SPAN_OPEN } span;

static span span_of(int64_t start, int64_t end, int64_t step)
{
    if (tpi_dim_is_symbolic(start) || tpi_dim_is_symbolic(end) || end == TP_END)
        return SPAN_ORDERED; /* a run sees to it */
    if ((start < 0) != (end < 0))
        return step > 0 && (start == 0 || (start == 1 && end == -1)) ? SPAN_ORDERED : SPAN_OPEN;
    return (step > 0 ? start < end : start > end) ? SPAN_ORDERED : SPAN_EMPTY;
}

/* start, start + step, ... backwards, before `end`. */
static tp_tensor *sliced_back(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t start,
                              int64_t end, int64_t step)
{
    const int64_t size = x->shape[axis];
    const bool whole = !tpi_dim_is_symbolic(start) && start >= BEYOND;
    const int64_t to = whole ? size : place_behind(o, size, start);
    int64_t from = end == TP_END ? 0 : place_behind(o, size, end);
    if (span_of(start, end, step) == SPAN_OPEN)
        from = tpi_dim_min(o->g->dims, from, to);
    if (from == TPI_NO_DIM || to == TPI_NO_DIM || step == INT64_MIN)
        return tp_slice(x, axis, start, end, step);
    x = tp_slice(x, axis, from, to, 1);
    x = tp_flip(x, 1, (int64_t[]){axis});
    return step == -1 ? x : tp_slice(x, axis, 0, TP_END, -step);
}

static tp_tensor *sliced(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t start, int64_t end,
                         int64_t step)
{
    tpi_dims *dims = o->g->dims;
    const int64_t size = x->shape[axis];
    const bool numbers = !tpi_dim_is_symbolic(start) && !tpi_dim_is_symbolic(end);
    if (!tpi_dim_is_symbolic(size) && numbers)
        return tp_slice(x, axis, start, end, step);
    if (!numbers)
        x = tp_graph_read(o->g, x);
    if (!demand_back(o, start) || !demand_back(o, end))
        return NULL;
    const span known = span_of(start, end, step);
    if (known == SPAN_EMPTY)
        return tp_slice(x, axis, 0, 0, 1);
    if (step < 0)
        return sliced_back(o, x, axis, start, end, step);
    int64_t from =
        start <= -BEYOND && !tpi_dim_is_symbolic(start) ? 0 : place_within(o, size, start);
    const int64_t to = end == TP_END ? TP_END : place_within(o, size, end);
    if (known == SPAN_OPEN && from != TPI_NO_DIM && to != TPI_NO_DIM)
        from = tpi_dim_min(dims, from == -1 ? tpi_dim_sub(dims, size, 1) : from,
                           to == -1 ? tpi_dim_sub(dims, size, 1) : to);
    if (from == TPI_NO_DIM || to == TPI_NO_DIM)
        return tp_slice(x, axis, start, end, step);
    return tp_slice(x, axis, from, to, step);
}

tp_tensor *tpi_onnx_import_slice(tpi_onnx_op *o, tp_tensor *x)
{
    cuts c;
    tp_tensor *y = tpi_onnx_slice_at(o, x);
    if (y || !read_cuts(o, &c) || !check_cuts(o, &c))
        return y;
    for (int i = 0; i < c.starts.n && !tp_failed(x); i++) {
        const int64_t step = c.steps.n ? c.steps.v[i] : 1;
        const int64_t start = c.starts.v[i];
        const int64_t end = end_of(c.ends.v[i], step);
        int place;
        if (!tpi_onnx_positive(o, c.axes.n ? c.axes.v[i] : i, x->rank, &place))
            return NULL;
        if (step > 0 && start == 0 && (end == TP_END || end == x->shape[place]) && step == 1)
            continue;
        x = sliced(o, x, place, start, end, step);
        if (!tpi_onnx_good(o, x))
            return NULL;
    }
    return x;
}

/* ---- pad ------------------------------------------------------------------------------------------- */

enum { CONSTANT }; /* the other ways are as tp_padding has them */

/* Negative padding takes away. */
static tp_tensor *cropped(tpi_onnx_op *o, tp_tensor *x, int64_t *lo, int64_t *hi)
{
    for (int i = 0; i < x->rank && !tp_failed(x); i++) {
        const bool adds_lo = lo[i] >= 0 || tpi_dim_is_symbolic(lo[i]);
        const bool adds_hi = hi[i] >= 0 || tpi_dim_is_symbolic(hi[i]);
        if (adds_lo && adds_hi)
            continue;
        const int64_t front = adds_lo ? 0 : -lo[i], back = adds_hi ? 0 : -hi[i];
        const int64_t end = tpi_onnx_dim_sub(o, x->shape[i], back);
        x = tp_slice(x, i, front, end < 0 && !tpi_dim_is_symbolic(end) ? 0 : end, 1);
        lo[i] = adds_lo ? lo[i] : 0;
        hi[i] = adds_hi ? hi[i] : 0;
    }
    return x;
}

static bool read_pads(tpi_onnx_op *o, const tp_tensor *x, bool adds, int64_t *lo, int64_t *hi)
{
    tpi_onnx_ints pads, axes;
    if (!(adds ? tpi_onnx_read_list(o, "pads", &pads) /* sizes, or numbers, maybe negative */
               : tpi_onnx_read_plain_list(o, "pads", &pads)) ||
        !tpi_onnx_read_plain_list(o, "axes", &axes))
        return false;
    const bool given = tpi_onnx_given(o, "axes");
    const int n = given ? axes.n : x->rank;
    if (pads.n != 2 * n)
        return tpi_onnx_refuse(o, "%d paddings for %d axes", pads.n, n);
    for (int i = 0; i < n; i++) {
        int axis;
        if (!tpi_onnx_positive(o, given ? axes.v[i] : i, x->rank, &axis))
            return false;
        for (int k = i; k < 2 * n; k += n)
            if (pads.v[k] < -INT32_MAX && !tpi_dim_is_symbolic(pads.v[k]))
                return tpi_onnx_refuse(o, "padding %lld", (long long)pads.v[k]);
        lo[axis] = pads.v[i];
        hi[axis] = pads.v[n + i];
    }
    return true;
}

tp_tensor *tpi_onnx_import_pad(tpi_onnx_op *o, tp_tensor *x)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0}, shape[TP_MAX_RANK];
    double value;
    const int mode = tpi_onnx_choice(o, "mode");
    if (!read_pads(o, x, mode == CONSTANT, lo, hi) || !tpi_onnx_number(o, "value", &value))
        return NULL;
    x = cropped(o, x, lo, hi);
    bool any = false;
    for (int i = 0; i < x->rank; i++) {
        any |= lo[i] || hi[i];
        shape[i] = tpi_onnx_dim_add(o, tpi_onnx_dim_add(o, x->shape[i], lo[i]), hi[i]);
    }
    if (!any)
        return x;
    x = tpi_onnx_for_shape(o, x, x->rank, shape);
    if (mode == CONSTANT)
        return tp_pad(x, x->rank, lo, hi, value);
    return tpi_padded_with(o->at, x, lo, hi, (tp_padding)mode, true);
}

/* ---- reverse sequence -------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_reversed(tpi_onnx_op *o, tp_tensor *x, tp_tensor *len, int time, int batch)
{
    tp_tensor *t = tpi_onnx_along(o, tpi_onnx_iota(o, x->shape[time], TP_I64), x->rank, time);
    if (tpi_dim_is_symbolic(x->shape[batch]))
        len = tp_graph_read(o->g, len);
    len = tpi_onnx_along(o, tp_cast(len, TP_I64), x->rank, batch);
    tp_tensor *back = tp_sub(tp_sub(len, tp_scalar(o->ctx, TP_I64, 1)), t);
    tp_tensor *index = tp_where(tp_lt(t, len), back, t);
    index = tpi_onnx_for_shape(o, index, x->rank, x->shape);
    index = tp_broadcast(index, x->rank, x->shape);
    return tp_take_along(x, index, time);
}

tp_tensor *tpi_onnx_import_reverse_sequence(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *len = o->x[1];
    int time, batch;
    if (!tpi_onnx_axis(o, "time_axis", x->rank, &time) ||
        !tpi_onnx_axis(o, "batch_axis", x->rank, &batch))
        return NULL;
    if (len->rank != 1 || time == batch)
        return tpi_onnx_refuse(o, "sequence_lens is %s, time axis %d, batch axis %d",
                               SHAPE(len), time, batch);
    return tpi_onnx_reversed(o, x, len, time, batch);
}

/* ---- CenterCropPad ------------------------------------------------------------------------------------ */

tp_tensor *tpi_onnx_import_center_crop_pad(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints shape, axes;
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    if (!tpi_onnx_plain_ints(o, 1, &shape) || !tpi_onnx_read_list(o, "axes", &axes))
        return NULL;
    if (shape.n > x->rank || shape.n != (axes.n ? axes.n : x->rank))
        return tpi_onnx_refuse(o, "%d sizes for %s", shape.n, SHAPE(x));
    tp_tensor *y = x;
    for (int i = 0; i < shape.n; i++) {
        const int axis = axes.n ? tpi_axis(axes.v[i], x->rank) : i;
        const int64_t want = shape.v[i], size = axis < 0 ? -1 : x->shape[axis];
        if (size < 0 || want < 0)
            return tpi_onnx_refuse(o, "axis %d of %s, or its new size, is " TPI_ONNX_FREE_DIM,
                                   axis, SHAPE(x));
        if (size > want)
            y = tp_slice(y, axis, (size - want) / 2, (size - want) / 2 + want, 1);
        lo[axis] = size < want ? (want - size) / 2 : 0;
        hi[axis] = size < want ? want - size - lo[axis] : 0;
    }
    return tp_pad(y, x->rank, lo, hi, 0);
}
