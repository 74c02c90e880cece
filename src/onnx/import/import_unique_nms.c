/* Compress, NonZero, Unique, whose results are as large as values say, and NonMaxSuppression, whose operands have to be
 * known when the model is loaded. */
#include "onnx/import/import.h"

/* Operand i: its value, when that is known, so that sizes are; else a node. NULL after an error. */
static tp_tensor *known_or_not(tpi_onnx_op *o, int i)
{
    return tpi_onnx_is_known(o, i) ? tpi_onnx_known(o, i) : tpi_onnx_good_in(o, i);
}

/* The axis that is named; else x becomes one of its own. */
static bool read_axis(tpi_onnx_op *o, tp_tensor **x, int *axis)
{
    if (tpi_onnx_given(o, "axis"))
        return tpi_onnx_axis(o, "axis", (*x)->rank, axis);
    *x = tp_flatten(*x, 0);
    return tpi_onnx_good(o, *x);
}

tp_tensor *tpi_onnx_import_compress(tpi_onnx_op *o, tp_tensor *x)
{
    int axis = 0;
    tp_tensor *chosen = known_or_not(o, 1);
    if (!chosen || !read_axis(o, &x, &axis))
        return NULL;
    return tp_gather(x, tp_squeeze(tp_nonzero(tp_flatten(chosen, 0)), 1), axis);
}

tp_tensor *tpi_onnx_import_non_zero(tpi_onnx_op *o)
{
    tp_tensor *x = known_or_not(o, 0);
    return x ? tp_swap(tp_nonzero(x), 0, 1) : NULL;
}

/* ---- Unique ------------------------------------------------------------------------------------- */

/* In the order in which they are found first. */
static bool out_unsorted(tpi_onnx_op *o, tp_tensor *y, int axis, tp_tensor *first,
                         tp_tensor *kind, tp_tensor *count)
{
    tp_tensor *order = tp_argsort(first, 0, false), *place = tp_argsort(order, 0, false);
    return tpi_onnx_out(o, 0, tp_gather(y, order, axis)) &&
           tpi_onnx_out(o, 1, tp_gather(first, order, 0)) &&
           tpi_onnx_out(o, 2, tp_gather(place, kind, 0)) &&
           tpi_onnx_out(o, 3, tp_gather(count, order, 0));
}

bool tpi_onnx_import_unique(tpi_onnx_op *o)
{
    int axis = 0;
    tp_tensor *x = known_or_not(o, 0), *first, *kind, *count;
    if (!x || !read_axis(o, &x, &axis))
        return false;
    tp_tensor *y = x->rank == 1 ? tp_unique(x, &first, &kind, &count)
                                : tp_unique_along(x, axis, &first, &kind, &count);
    if (!tpi_onnx_int(o, "sorted"))
        return out_unsorted(o, y, axis, first, kind, count);
    return tpi_onnx_out(o, 0, y) && tpi_onnx_out(o, 1, first) && tpi_onnx_out(o, 2, kind) &&
           tpi_onnx_out(o, 3, count);
}

/* ---- NonMaxSuppression ------------------------------------------------------------------------------ */

typedef struct boxes {
    const double *box, *score; /* [batch, n, 4], [batch, classes, n] */
    int64_t batch, classes, n, most;
    double overlap, least;
    bool centred, has_least;
} boxes;

/* Corners of a box, the lower ones first. */
static void corners(const boxes *s, const double *b, double *c)
{
    for (int i = 0; i < 2; i++) {
        const double p = s->centred ? b[i] - b[i + 2] / 2 : b[i];
        const double q = s->centred ? b[i] + b[i + 2] / 2 : b[i + 2];
        c[i] = p < q ? p : q;
        c[i + 2] = p < q ? q : p;
    }
}

/* What two boxes share, of what both cover. */
static double overlap_of(const boxes *s, const double *a, const double *b)
{
    double p[4], q[4], shared = 1, areas[2] = {1, 1};
    corners(s, a, p);
    corners(s, b, q);
    for (int i = 0; i < 2; i++) {
        const double lo = p[i] > q[i] ? p[i] : q[i];
        const double hi = p[i + 2] < q[i + 2] ? p[i + 2] : q[i + 2];
        shared *= hi > lo ? hi - lo : 0;
        areas[0] *= p[i + 2] - p[i];
        areas[1] *= q[i + 2] - q[i];
    }
    const double both = areas[0] + areas[1] - shared;
    return both > 0 ? shared / both : 0;
}

/* One class of one sample: appends the boxes that are chosen; gone[n] is scratch. */
static int64_t choose(const boxes *s, int64_t b, int64_t c, bool *gone, int64_t *chosen)
{
    const double *score = s->score + (b * s->classes + c) * s->n, *box = s->box + b * s->n * 4;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++)
        gone[i] = s->has_least && !(score[i] > s->least);
    while (n < s->most) {
        int64_t best = -1;
        for (int64_t i = 0; i < s->n; i++)
            if (!gone[i] && (best < 0 || score[i] > score[best]))
                best = i;
        if (best < 0)
            break;
        for (int64_t i = 0; i < s->n; i++)
            gone[i] |= i == best || overlap_of(s, box + 4 * best, box + 4 * i) > s->overlap;
        const int64_t row[3] = {b, c, best};
        for (int k = 0; k < 3; k++)
            chosen[3 * n + k] = row[k];
        n++;
    }
    return n;
}

static tp_tensor *boxes_of(tpi_onnx_op *o, const boxes *s)
{
    const int64_t per_class = s->most < s->n ? s->most : s->n;
    tpi_onnx_model *m = tpi_onnx_model_of(o);
    const tpi_bump mark = m->memory;
    bool *gone = tpi_onnx_take(m, (size_t)s->n, sizeof *gone);
    int64_t *chosen =
        tpi_onnx_take(m, (size_t)(s->batch * s->classes * per_class), 3 * sizeof *chosen);
    int64_t n = 0;
    for (int64_t k = 0; chosen && k < s->batch * s->classes; k++)
        n += choose(s, k / s->classes, k % s->classes, gone, chosen + 3 * n);
    const int64_t shape[2] = {n, 3};
    tp_tensor *y = chosen ? tp_tensor_new(o->ctx, TP_I64, 2, shape, chosen) : NULL;
    tpi_bump_release(&m->memory, &mark);
    return y;
}

tp_tensor *tpi_onnx_import_non_max_suppression(tpi_onnx_op *o)
{
    boxes s = {.centred = tpi_onnx_int(o, "center_point_box") != 0,
               .has_least = tpi_onnx_has(o, 4)};
    tp_tensor *box = tpi_onnx_known(o, 0), *score = box ? tpi_onnx_known(o, 1) : NULL;
    if (!score || (tpi_onnx_has(o, 2) && !tpi_onnx_int_of(o, 2, &s.most)) ||
        (tpi_onnx_has(o, 3) && !tpi_onnx_number_of(o, 3, &s.overlap)) ||
        (s.has_least && !tpi_onnx_number_of(o, 4, &s.least)))
        return NULL;
    if (box->rank != 3 || score->rank != 3 || box->shape[2] != 4 ||
        box->shape[0] != score->shape[0] || box->shape[1] != score->shape[2] || s.most < 0)
        return tpi_onnx_refuse(o, "boxes are %s, scores %s", SHAPE(box), SHAPE(score));
    s.batch = score->shape[0];
    s.classes = score->shape[1];
    s.n = score->shape[2];
    if (s.n > 1 << 12 || tpi_count(score) * s.n > 1 << 26)
        return tpi_onnx_refuse(o,
                               "scores are %s, too many to choose from when the model is "
                               "loaded",
                               SHAPE(score));
    box = tp_contiguous(tp_cast(box, TP_F64));
    score = tp_contiguous(tp_cast(score, TP_F64));
    s.box = tp_data(box);
    s.score = tp_data(score);
    return !s.box ? box : s.score ? boxes_of(o, &s) : score;
}
