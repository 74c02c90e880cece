/* Compress, NonZero, Unique, NonMaxSuppression: their result is as large as the values say, which have to be known
 * when the model is loaded. */
#include "onnx/import/import.h"

/* The places of x [count], row-major, that are not zero, as a tensor [n] of i64; x is known. */
static tp_tensor *places_of(tpi_onnx_op *o, tp_tensor *x)
{
    x = tp_contiguous(tp_cast(tp_flatten(x, 0), TP_BOOL));
    const bool *given = tp_data(x);
    if (!given)
        return x;
    const int64_t count = tpi_count(x);
    tpi_onnx_model *m = tpi_onnx_model_of(o);
    const tpi_bump mark = m->memory;
    int64_t *places = tpi_onnx_take(m, (size_t)count, sizeof *places), n = 0;
    if (!places)
        return tpi_no_memory(o->ctx, o->at, o->name);
    for (int64_t i = 0; i < count; i++)
        if (given[i])
            places[n++] = i;
    tp_tensor *t = tp_tensor_new(o->ctx, TP_I64, 1, &n, places);
    tpi_bump_release(&m->memory, &mark);
    return t;
}

/* The axis that is named; else x becomes one of its own. */
static bool read_axis(tpi_onnx_op *o, tp_tensor **x, int *axis)
{
    if (tpi_onnx_given(o, "axis"))
        return tpi_onnx_axis(o, "axis", (*x)->rank, axis);
    *x = tp_flatten(*x, 0);
    return true;
}

tp_tensor *tpi_onnx_import_compress(tpi_onnx_op *o, tp_tensor *x)
{
    int axis = 0;
    tp_tensor *chosen = tpi_onnx_known(o, 1);
    if (!chosen)
        return NULL;
    if (!read_axis(o, &x, &axis))
        return NULL;
    return tp_gather(x, places_of(o, chosen), axis);
}

tp_tensor *tpi_onnx_import_non_zero(tpi_onnx_op *o)
{
    tp_tensor *x = tpi_onnx_known(o, 0), *rows[TP_MAX_RANK];
    if (!x)
        return NULL;
    tp_tensor *left = places_of(o, x);
    if (x->rank == 0)
        return tp_slice(tp_unsqueeze(left, 0), 0, 0, 0, 1);
    for (int i = x->rank - 1; i >= 0; i--) {
        tp_tensor *size = tp_scalar(o->ctx, TP_I64, (double)x->shape[i]);
        rows[i] = tp_mod(left, size);
        left = tp_div(left, size);
    }
    return tp_stack(x->rank, rows, 0);
}

/* ---- Unique ------------------------------------------------------------------------------------- */

/* Items of `width` numbers each, one after the other. */
typedef struct items {
    const double *real; /* of floats */
    const int64_t *whole;
    int64_t n, width;
} items;

static int compare(const items *s, int64_t a, int64_t b)
{
    for (int64_t i = 0; i < s->width; i++) {
        const int64_t p = a * s->width + i, q = b * s->width + i;
        const bool less = s->real ? s->real[p] < s->real[q] : s->whole[p] < s->whole[q];
        const bool more = s->real ? s->real[p] > s->real[q] : s->whole[p] > s->whole[q];
        if (less || more)
            return less ? -1 : 1;
    }
    return 0;
}

/* Sorts the numbers of the items; equal ones stay in order. `room` has space for as many. */
static void sort_items(const items *s, int64_t *order, int64_t *room)
{
    for (int64_t run = 1; run < s->n; run *= 2) {
        for (int64_t lo = 0; lo < s->n; lo += 2 * run) {
            const int64_t mid = lo + run < s->n ? lo + run : s->n;
            const int64_t hi = mid + run < s->n ? mid + run : s->n;
            for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
                const bool left = i < mid && (j == hi || compare(s, order[i], order[j]) <= 0);
                room[k] = left ? order[i++] : order[j++];
            }
        }
        for (int64_t i = 0; i < s->n; i++)
            order[i] = room[i];
    }
}

/* What is found about the items: kinds in order, with the first of each and how many there are, and
 * the kind of each item. */
typedef struct kinds {
    int64_t n, *first, *kind, *count;
} kinds;

/* order: the items sorted. By value, or (`by_place`) by the first of each kind. */
static void find_kinds(const items *s, const int64_t *order, int64_t *room, bool by_place,
                       kinds *k)
{
    int64_t *found = room; /* first item of the item's kind */
    for (int64_t i = 0; i < s->n; i++)
        found[order[i]] =
            i > 0 && compare(s, order[i - 1], order[i]) == 0 ? found[order[i - 1]] : order[i];
    k->n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t item = by_place ? i : order[i];
        if (found[item] == item) {
            k->first[k->n] = item;
            k->count[k->n] = 0;
            k->kind[item] = k->n++;
        }
    }
    for (int64_t i = 0; i < s->n; i++) {
        k->kind[i] = k->kind[found[i]];
        k->count[k->kind[i]]++;
    }
}

static bool out_kinds(tpi_onnx_op *o, tp_tensor *x, int axis, const items *s, int64_t *room)
{
    int64_t *const order = room, *const spare = room + s->n;
    kinds k = {0, room + 2 * s->n, room + 3 * s->n, room + 4 * s->n};
    for (int64_t i = 0; i < s->n; i++)
        order[i] = i;
    sort_items(s, order, spare);
    find_kinds(s, order, spare, !tpi_onnx_int(o, "sorted"), &k);
    tp_tensor *first = tp_tensor_new(o->ctx, TP_I64, 1, &k.n, k.first);
    return tpi_onnx_out(o, 0, tp_gather(x, first, axis)) && tpi_onnx_out(o, 1, first) &&
           tpi_onnx_out(o, 2, tp_tensor_new(o->ctx, TP_I64, 1, &s->n, k.kind)) &&
           tpi_onnx_out(o, 3, tp_tensor_new(o->ctx, TP_I64, 1, &k.n, k.count));
}

bool tpi_onnx_import_unique(tpi_onnx_op *o)
{
    int axis = 0;
    tp_tensor *x = tpi_onnx_known(o, 0);
    if (!x)
        return false;
    if (!read_axis(o, &x, &axis))
        return false;
    const bool is_float = tp_dtype_of(x) >= TP_F32;
    tp_tensor *rows = tp_flatten(tpi_onnx_move_axis(o, x, axis, 0), 1);
    rows = tp_contiguous(tp_cast(rows, is_float ? TP_F64 : TP_I64));
    const void *data = tp_data(rows);
    if (!data)
        return tpi_onnx_out(o, 0, rows);
    const items s = {.real = is_float ? data : NULL,
                     .whole = is_float ? NULL : data,
                     .n = tp_size(rows, 0),
                     .width = tp_size(rows, 1)};
    int64_t *room = tpi_onnx_take(tpi_onnx_model_of(o), (size_t)s.n, 5 * sizeof *room);
    return room && out_kinds(o, x, axis, &s, room);
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
