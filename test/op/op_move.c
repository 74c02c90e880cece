/* Moves: chains of random views against the definition of each op on a plain array, the
 * reference copies against the views, view rules over symbols against the same rules over
 * numbers, slices against Python, errors. */
#include "common/unit.h"
#include "ir/graph_def.h"
#include "op/sizes.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_ELEMENTS = 4096, CHAINS = 400, LINKS = 7 };

/* ---- the definition: a plain row-major array --------------------------------------------------- */

typedef struct model {
    int rank;
    int64_t shape[TP_MAX_RANK];
    double v[MAX_ELEMENTS];
} model;

static int64_t count(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

static int64_t flat(const model *m, const int64_t *at)
{
    int64_t where = 0;
    for (int i = 0; i < m->rank; i++)
        where = where * m->shape[i] + at[i];
    return where;
}

static void unflat(const model *m, int64_t where, int64_t *at)
{
    for (int i = m->rank - 1; i >= 0; i--) {
        at[i] = where % m->shape[i];
        where /= m->shape[i];
    }
}

/* ---- one random op, on a tensor and on the model ------------------------------------------------ */

typedef struct move {
    int kind, axis, axis_b, rank;
    int64_t list[TP_MAX_RANK], start, stop, step;
} move;

enum {
    RESHAPE,
    TRANSPOSE,
    BROADCAST,
    SLICE,
    FLIP,
    SELECT,
    SWAP,
    SQUEEZE,
    UNSQUEEZE,
    FLATTEN,
    COPY,
    KINDS
};
static const char *const kind_names[] = {"reshape",   "transpose", "broadcast", "slice",
                                         "flip",      "select",    "swap",      "squeeze",
                                         "unsqueeze", "flatten",   "contiguous"};

static int pick(uint64_t *s, int n)
{
    return (int)(unit_random(s) % (uint64_t)n);
}

static void random_reshape(uint64_t *s, const model *m, move *v)
{
    int64_t left = count(m->rank, m->shape);
    v->rank = 0;
    while (v->rank < 4 && left > 1) {
        int64_t d = 1 + pick(s, (int)left);
        while (left % d)
            d--;
        v->list[v->rank++] = d;
        left /= d;
    }
    v->list[v->rank++] = left;
    if (left > 0 && pick(s, 3) == 0)
        v->list[pick(s, v->rank)] = -1;
}

/* False: this kind does not apply to m. */
static bool random_move(uint64_t *s, const model *m, move *v)
{
    memset(v, 0, sizeof *v);
    v->kind = pick(s, KINDS);
    v->rank = m->rank;
    v->axis = m->rank ? pick(s, m->rank) : 0;
    v->axis_b = m->rank ? pick(s, m->rank) : 0;
    const int64_t size = m->rank ? m->shape[v->axis] : 0;
    switch (v->kind) {
    case RESHAPE:
        random_reshape(s, m, v);
        return true;
    case TRANSPOSE:
        for (int i = 0; i < m->rank; i++) {
            const int j = pick(s, i + 1);
            v->list[i] = v->list[j];
            v->list[j] = i;
        }
        return m->rank > 0;
    case BROADCAST:
        v->rank = m->rank + pick(s, 2);
        for (int i = 0; i < v->rank; i++) {
            const int own = i - (v->rank - m->rank);
            v->list[i] = own < 0 || m->shape[own] == 1 ? 1 + pick(s, 3) : m->shape[own];
        }
        return v->rank <= 5 && count(v->rank, v->list) <= MAX_ELEMENTS;
    case SLICE:
        v->start = pick(s, (int)size * 2 + 3) - size - 1;
        v->stop = pick(s, 4) ? pick(s, (int)size * 2 + 3) - size - 1 : TP_END;
        v->step = (1 + pick(s, 3)) * (pick(s, 3) ? 1 : -1);
        return m->rank > 0;
    case FLIP:
        v->list[0] = v->axis - (pick(s, 2) ? m->rank : 0);
        return m->rank > 0;
    case SELECT:
        v->start = size ? pick(s, (int)size) - (pick(s, 2) ? size : 0) : 0;
        return m->rank > 0 && size > 0;
    case SWAP:
        return m->rank > 0;
    case SQUEEZE:
        return m->rank > 0 && size == 1;
    case UNSQUEEZE:
        v->axis = pick(s, m->rank + 1);
        return m->rank < 5;
    default:
        return true;
    }
}

static tp_tensor *move_tensor(const move *v, tp_tensor *x)
{
    switch (v->kind) {
    case RESHAPE:
        return tp_reshape(x, v->rank, v->list);
    case TRANSPOSE:
        return tp_transpose(x, v->rank, v->list);
    case BROADCAST:
        return tp_broadcast(x, v->rank, v->list);
    case SLICE:
        return tp_slice(x, v->axis, v->start, v->stop, v->step);
    case FLIP:
        return tp_flip(x, 1, v->list);
    case SELECT:
        return tp_select(x, v->axis, v->start);
    case SWAP:
        return tp_swap(x, v->axis, v->axis_b);
    case SQUEEZE:
        return tp_squeeze(x, v->axis);
    case UNSQUEEZE:
        return tp_unsqueeze(x, v->axis);
    case FLATTEN:
        return tp_flatten(x, v->axis);
    default:
        return tp_contiguous(x);
    }
}

/* Sets y's shape from what the op says, element by element from x. */
static void move_model(const move *v, const model *x, model *y)
{
    int64_t from = 0, step = 1, at[TP_MAX_RANK], to[TP_MAX_RANK];
    y->rank = x->rank;
    memcpy(y->shape, x->shape, sizeof y->shape);
    if (v->kind == RESHAPE || v->kind == FLATTEN || v->kind == COPY || v->kind == SQUEEZE ||
        v->kind == UNSQUEEZE) {
        const int64_t n = count(x->rank, x->shape);
        if (v->kind == RESHAPE) {
            int64_t known = 1;
            y->rank = v->rank;
            for (int i = 0; i < v->rank; i++)
                known *= v->list[i] == -1 ? 1 : v->list[i];
            for (int i = 0; i < v->rank; i++)
                y->shape[i] = v->list[i] == -1 ? n / known : v->list[i];
        } else if (v->kind == FLATTEN) {
            y->rank = v->axis + 1;
            y->shape[v->axis] = count(x->rank - v->axis, x->shape + v->axis);
        } else if (v->kind == SQUEEZE) {
            y->rank--;
            memmove(y->shape + v->axis, y->shape + v->axis + 1,
                    sizeof(int64_t) * (size_t)(y->rank - v->axis));
        } else if (v->kind == UNSQUEEZE) {
            memmove(y->shape + v->axis + 1, y->shape + v->axis,
                    sizeof(int64_t) * (size_t)(y->rank - v->axis));
            y->shape[v->axis] = 1;
            y->rank++;
        }
        memcpy(y->v, x->v, sizeof(double) * (size_t)n);
        return;
    }
    if (v->kind == BROADCAST) {
        y->rank = v->rank;
        memcpy(y->shape, v->list, sizeof y->shape);
    } else if (v->kind == TRANSPOSE) {
        for (int i = 0; i < x->rank; i++)
            y->shape[i] = x->shape[v->list[i]];
    } else if (v->kind == SWAP) {
        y->shape[v->axis] = x->shape[v->axis_b];
        y->shape[v->axis_b] = x->shape[v->axis];
    } else if (v->kind == FLIP) {
        from = x->shape[v->axis] - 1;
        step = -1;
    } else if (v->kind == SELECT) {
        y->rank--;
        memmove(y->shape + v->axis, y->shape + v->axis + 1,
                sizeof(int64_t) * (size_t)(y->rank - v->axis));
        from = v->start < 0 ? v->start + x->shape[v->axis] : v->start;
    } else { /* SLICE: walk as Python would */
        const int64_t n = x->shape[v->axis], low = v->step > 0 ? 0 : -1;
        const int64_t high = v->step > 0 ? n : n - 1;
        int64_t stop = v->stop;
        from = v->start < 0 ? v->start + n : v->start;
        from = from < low ? low : from > high ? high : from;
        stop = stop == TP_END ? (v->step > 0 ? n : -1) : stop < 0 ? stop + n : stop;
        stop = v->stop != TP_END && stop < low ? low : stop > high ? high : stop;
        step = v->step;
        int64_t k = 0;
        for (int64_t i = from; step > 0 ? i < stop : i > stop; i += step)
            k++;
        y->shape[v->axis] = k;
    }
    const int64_t n = count(y->rank, y->shape);
    for (int64_t i = 0; i < n; i++) {
        unflat(y, i, at);
        memcpy(to, at, sizeof to);
        if (v->kind == BROADCAST)
            for (int k = 0; k < x->rank; k++)
                to[k] = x->shape[k] == 1 ? 0 : at[k + y->rank - x->rank];
        else if (v->kind == TRANSPOSE)
            for (int k = 0; k < x->rank; k++)
                to[v->list[k]] = at[k];
        else if (v->kind == SWAP) {
            to[v->axis] = at[v->axis_b];
            to[v->axis_b] = at[v->axis];
        } else if (v->kind == SELECT) {
            memmove(to + v->axis + 1, at + v->axis,
                    sizeof(int64_t) * (size_t)(y->rank - v->axis));
            to[v->axis] = from;
        } else {
            to[v->axis] = from + at[v->axis] * step;
        }
        y->v[i] = x->v[flat(x, to)];
    }
}

/* ---- checks ------------------------------------------------------------------------------------- */

static void same_values(const tp_tensor *y, const model *m, const double *got, uint64_t seed,
                        const char *what, const char *which)
{
    bool same = y->rank == m->rank;
    for (int i = 0; i < m->rank && same; i++)
        same = y->shape[i] == m->shape[i];
    if (!same)
        fail_msg("seed %" PRIu64 ": %s: %s has shape %s", seed, what, which, SHAPE(y));
    for (int64_t i = 0; i < count(m->rank, m->shape); i++)
        if (memcmp(&got[i], &m->v[i], sizeof(double)) != 0)
            fail_msg("seed %" PRIu64 ": %s: %s %s differs at %" PRId64 ": %g, not %g", seed,
                     what, which, SHAPE(y), i, got[i], m->v[i]);
}

static void check_move(tp_tensor *y, const model *m, uint64_t seed, const char *what)
{
    static double got[MAX_ELEMENTS];
    if (tp_failed(y))
        fail_msg("seed %" PRIu64 ": %s: %s", seed, what, tp_error_text(y));
    assert_int_equal(tp_read(y, got, sizeof(double) * (size_t)count(m->rank, m->shape)), TP_OK);
    same_values(y, m, got, seed, what, "the result");
    if (!y->op || y->op->kind != TPI_VIEW)
        return;
    tp_tensor *copy = tpi_tensor_new(y->ctx, TPI_AT(NULL, 0), TP_F64, y->rank, y->shape);
    tpi_run r = {.op = y->op,
                 .ctx = y->ctx,
                 .n_in = y->n_in,
                 .in = y->in,
                 .attrs = y->attrs,
                 .out = copy};
    assert_true(tpi_run_reference(&r));
    same_values(copy, m, tp_data(copy), seed, what, "the reference");
}

static void chains_match_the_definition(void **state)
{
    tp_ctx *tp = *state;
    static model a, b;
    for (uint64_t seed = 1; seed <= CHAINS; seed++) {
        uint64_t s = seed * 77;
        tp_scope_begin(tp);
        a.rank = pick(&s, 5);
        for (int i = 0; i < a.rank; i++)
            a.shape[i] = pick(&s, 12) ? 1 + pick(&s, 5) : 0;
        for (int64_t i = 0; i < count(a.rank, a.shape); i++)
            a.v[i] = (double)i + 0.5;
        tp_tensor *x = tp_require_grad(tp_tensor_new(tp, TP_F64, a.rank, a.shape, a.v));
        for (int link = 0; link < LINKS; link++) {
            move v;
            if (!random_move(&s, &a, &v))
                continue;
            if (v.kind == FLATTEN && v.axis >= a.rank)
                v.axis = 0;
            x = move_tensor(&v, x);
            move_model(&v, &a, &b);
            check_move(x, &b, seed, kind_names[v.kind]);
            a = b;
        }
        tp_scope_end(tp);
    }
}

/* ---- view rules over symbols --------------------------------------------------------------------- */

static int64_t value_of(tpi_dims *dims, int64_t d, const int64_t *symbols)
{
    if (!tpi_dim_is_symbolic(d))
        return d;
    const int64_t v = tpi_dim_eval(dims, d, symbols);
    if (v != TPI_NO_DIM)
        return v;
    return -tpi_dim_eval(dims, tpi_dim_sub(dims, 0, d), symbols);
}

static void symbolic_views_match_known_ones(void **state)
{
    tp_ctx *tp = *state;
    static model m;
    int views = 0, refused = 0;
    for (uint64_t seed = 1; seed <= CHAINS; seed++) {
        uint64_t s = seed * 1234567;
        tp_scope_begin(tp);
        tp_graph *g = tp_graph_new(tp);
        int64_t shape[4], symbols[4];
        m.rank = 1 + pick(&s, 4);
        for (int i = 0; i < m.rank; i++) {
            const char name[] = {(char)('a' + i), 0};
            m.shape[i] = symbols[i] = 2 + pick(&s, 5);
            const int64_t symbol = tp_symbol(g, name);
            shape[i] = pick(&s, 2) ? symbol : m.shape[i];
        }
        tp_tensor *x = tp_placeholder(g, "x", TP_F64, m.rank, shape);
        tp_tensor *known = tp_require_grad(tp_tensor_new(tp, TP_F64, m.rank, m.shape, NULL));
        move v;
        if (!random_move(&s, &m, &v) || v.kind == SELECT || v.kind == SQUEEZE ||
            v.kind == COPY) {
            tp_scope_end(tp);
            tp_graph_free(g);
            continue;
        }
        for (int i = 0; i < v.rank; i++) /* sizes that x knows only as symbols */
            for (int k = 0; k < m.rank && (v.kind == BROADCAST || v.kind == RESHAPE); k++)
                if (v.list[i] == m.shape[k])
                    v.list[i] = v.kind == BROADCAST && i - (v.rank - m.rank) == k ? shape[k]
                                                                                  : v.list[i];
        tp_tensor *y = move_tensor(&v, x);
        if (v.kind == RESHAPE || v.kind == BROADCAST)
            for (int i = 0; i < v.rank; i++)
                v.list[i] = tpi_dim_is_symbolic(v.list[i])
                                ? value_of(g->dims, v.list[i], symbols)
                                : v.list[i];
        tp_tensor *z = move_tensor(&v, known);
        assert_false(tp_failed(z));
        bool clamped = false; /* over symbols nothing is */
        for (int i = 0; !tp_failed(y) && v.kind == SLICE && i < 2; i++) {
            const int64_t *ends = y->op == &tpi_op_slice ? y->attrs : y->in[0]->attrs;
            clamped |= y->op == &tpi_op_slice && tpi_dim_is_symbolic(shape[v.axis]) &&
                       tpi_dim_eval(g->dims, ends[1 + i], symbols) == TPI_NO_DIM;
        }
        if (tp_failed(y) || clamped) {
            refused++;
        } else if (y->n_in == 1 && z->n_in == 1 && z->in[0] == known && y->in[0] == x) {
            int64_t stride[TP_MAX_RANK];
            assert_true(tpi_sizes_strides(g->dims, x->rank, x->shape, stride));
            tpi_view w = {
                .dims = g->dims, .in = x, .out = y, .in_stride = stride, .attrs = y->attrs};
            bool same = y->op->view(&w) && y->rank == z->rank;
            for (int i = 0; i < y->rank && same; i++)
                same = value_of(g->dims, y->shape[i], symbols) == z->shape[i] &&
                       (z->shape[i] < 2 ||
                        value_of(g->dims, w.stride[i], symbols) == z->stride[i]);
            if (same && tp_count(z) > 0)
                same = value_of(g->dims, w.offset, symbols) * 8 == z->data - known->data;
            if (!same)
                fail_msg("seed %" PRIu64 ": %s of %s: shape %s, known %s", seed,
                         kind_names[v.kind], SHAPE(x), SHAPE(y), SHAPE(z));
            views++;
        }
        tp_clear_error(tp);
        tp_scope_end(tp);
        tp_graph_free(g);
    }
    assert_true(views > CHAINS / 4);
    assert_true(refused < CHAINS / 4);
}

/* ---- slices as in Python ------------------------------------------------------------------------- */

static void slices_are_those_of_python(void **state)
{
    static const struct {
        int64_t n, start, stop, step, count, first, last;
    } rows[] = {
#define ROW(...) {__VA_ARGS__},
#include "slice_python.def"
#undef ROW
    };
    tp_ctx *tp = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tp_scope_begin(tp);
        tp_tensor *x = tp_arange(tp, TP_I64, rows[i].n, 0, 1);
        tp_tensor *y = tp_slice(x, 0, rows[i].start, rows[i].stop, rows[i].step);
        int64_t got[8] = {0};
        if (tp_failed(y) || tp_size(y, 0) != rows[i].count ||
            tp_read(y, got, 8 * (size_t)rows[i].count) != TP_OK ||
            (rows[i].count &&
             (got[0] != rows[i].first || got[rows[i].count - 1] != rows[i].last)))
            fail_msg("range(%" PRId64 ")[%" PRId64 ":%" PRId64 ":%" PRId64 "]: %s %s",
                     rows[i].n, rows[i].start, rows[i].stop, rows[i].step, SHAPE(y),
                     tp_error_text(y));
        tp_scope_end(tp);
    }
}

/* ---- single facts -------------------------------------------------------------------------------- */

static void views_share_memory(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_arange(tp, TP_F32, 24, 0, 1);
    tp_tensor *m = tp_reshape(x, TP_DIMS(2, 3, 4));
    assert_ptr_equal(m->data, x->data);
    tp_tensor *t = tp_transpose(m, TP_DIMS(2, 0, 1));
    assert_ptr_equal(t->data, x->data);
    tp_tensor *halves = tp_reshape(t, TP_DIMS(2, 2, 2, 3)); /* splits an axis: still a view */
    assert_ptr_equal(halves->data, x->data);
    tp_tensor *joined = tp_reshape(t, TP_DIMS(4, 6)); /* 2 and 3 follow one another in m */
    assert_ptr_equal(joined->data, x->data);
    tp_tensor *copied = tp_reshape(t, TP_DIMS(8, 3));
    assert_ptr_not_equal(copied->buf, x->buf);
    assert_ptr_equal(tp_contiguous(m), m);
    assert_ptr_not_equal(tp_contiguous(t)->buf, x->buf);
    tp_tensor *row = tp_select(m, 1, -1);
    assert_int_equal(row->data - x->data, 8 * 4);
    tp_tensor *parts[3];
    assert_int_equal(tp_split(m, 1, 3, NULL, parts), TP_OK);
    assert_int_equal(parts[2]->data - x->data, 8 * 4);
    assert_int_equal(tp_split(m, 2, 2, (const int64_t[]){1, 3}, parts), TP_OK);
    assert_int_equal(tp_size(parts[1], 2), 3);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void what_does_not_fit_is_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), NULL), *out[2];
    tp_reshape(x, TP_DIMS(4, 2));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": reshape: [2, 3] has 6 elements, [4, 2] has 8");
    tp_reshape(x, TP_DIMS(-1, 4));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": reshape: no size for -1 makes [-1, 4] of [2, 3]");
    tp_reshape(x, TP_DIMS(-1, -1));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": reshape: two sizes are -1: [-1, -1]");
    tp_reshape(x, TP_DIMS(-2, 3));
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": reshape: axis 0 of the shape [-2, 3] is no size of a concrete tensor");
    tp_reshape(x, 9, (const int64_t[9]){0});
    EXPECT_ERROR(tp, TP_E_SHAPE, ": reshape: rank 9 is not in 0..8");
    tp_reshape(x, 2, NULL);
    EXPECT_ERROR(tp, TP_E_NULL, ": reshape: the shape is NULL");
    tp_transpose(x, TP_DIMS(0, 0));
    EXPECT_ERROR(tp, TP_E_AXIS, ": transpose: axis 0 is named twice");
    tp_transpose(x, TP_DIMS(0));
    EXPECT_ERROR(tp, TP_E_AXIS, ": transpose: [0] names 1 axes of [2, 3]");
    tp_transpose(x, TP_DIMS(0, 2));
    EXPECT_ERROR(tp, TP_E_AXIS, ": transpose: axis 2 is out of range for [2, 3]");
    tp_swap(x, 0, 2);
    EXPECT_ERROR(tp, TP_E_AXIS, ": swap: axis 2 is out of range for [2, 3]");
    tp_broadcast(x, TP_DIMS(2, 2, 4));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": broadcast: [2, 3] does not broadcast to [2, 2, 4]");
    tp_slice(x, 2, 0, 1, 1);
    EXPECT_ERROR(tp, TP_E_AXIS, ": slice: axis 2 is out of range for [2, 3]");
    tp_slice(x, 0, 0, 1, 0);
    EXPECT_ERROR(tp, TP_E_VALUE, ": slice: step 0");
    tp_select(x, 1, 3);
    EXPECT_ERROR(tp, TP_E_VALUE, ": select: index 3 is out of range for axis 1 of [2, 3]");
    tp_squeeze(x, -1);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": squeeze: axis -1 of [2, 3] is not of size 1");
    tp_unsqueeze(x, 4);
    EXPECT_ERROR(tp, TP_E_AXIS, ": unsqueeze: axis 4 is no place for a new axis in [2, 3]");
    tp_flatten(x, 3);
    EXPECT_ERROR(tp, TP_E_AXIS, ": flatten: axis 3 is out of range for [2, 3]");
    tp_flip(x, TP_DIMS(1, -1));
    EXPECT_ERROR(tp, TP_E_AXIS, ": flip: axis 1 is named twice");
    assert_int_equal(tp_split(x, 1, 2, NULL, out), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": split: axis 1 of [2, 3] is not made of 2 equal parts");
    assert_true(tp_failed(out[0]) && tp_failed(out[1]));
    assert_int_equal(tp_split(x, 1, 2, (const int64_t[]){1, 1}, out), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": split: sizes [1, 1] are not those of axis 1 of [2, 3]");
    tp_tensor *bad = tp_reshape(x, TP_DIMS(7));
    assert_ptr_equal(tp_flip(tp_slice(bad, 0, 0, 1, 1), TP_ALL), bad);
    tp_clear_error(tp);
    assert_true(tp_failed((tp_reshape)(NULL, 0, NULL)));
}

static void symbols_stay_symbols(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 3, 4)), *out[3];
    assert_string_equal(SHAPE(tp_reshape(x, TP_DIMS(-1, 12))), "[n, 12]");
    assert_string_equal(SHAPE(tp_reshape(x, TP_DIMS(n, -1))), "[n, 12]");
    assert_string_equal(SHAPE(tp_reshape(x, TP_DIMS(3, -1))), "[3, 4*n]");
    assert_string_equal(SHAPE(tp_flatten(x, 0)), "[12*n]");
    assert_string_equal(SHAPE(tp_slice(x, 0, 1, TP_END, 1)), "[n-1, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, 0, -1, 2)), "[n/2, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, -1, TP_END, -1)), "[n, 3, 4]");
    assert_string_equal(SHAPE(tp_select(x, 1, 0)), "[n, 4]");
    assert_int_equal(tp_split(x, 1, 3, NULL, out), TP_OK);
    assert_string_equal(SHAPE(out[2]), "[n, 1, 4]");
    tp_tensor *twice = tp_concat(2, (tp_tensor *[]){x, x}, 0);
    assert_string_equal(SHAPE(twice), "[2*n, 3, 4]");
    assert_int_equal(tp_split(twice, 0, 2, NULL, out), TP_OK);
    assert_string_equal(SHAPE(out[1]), "[n, 3, 4]");
    assert_int_equal(tp_error(tp), TP_OK);
    assert_string_equal(SHAPE(tp_slice(x, 0, 0, 5, 1)), "[5, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, -3, TP_END, 2)), "[2, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, 5, 0, -2)), "[3, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, -2, TP_END, -3)), "[(n+1)/3, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, -2, 0, -1)), "[n-2, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, 5, 3, 1)), "[0, 3, 4]");
    assert_string_equal(SHAPE(tp_slice(x, 0, -5, -3, -1)), "[0, 3, 4]");
    tp_slice(x, 0, 0, -1, 0);
    EXPECT_ERROR(tp, TP_E_VALUE, ": slice: step 0");
    tp_reshape(x, TP_DIMS(5, -1));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": reshape: no size for -1 makes [5, -1] of [n, 3, 4]");
}

/* Copies of matrices turned around go by tiles, and what is left over; of every size of element. */
static void turned_copies_match_the_definition(void **state)
{
    enum { N = 53 };
    static const tp_dtype types[] = {TP_U8, TP_F32, TP_F64};
    static float v[2 * N * N], got[2 * N * N];
    tp_ctx *tp = *state;
    for (int i = 0; i < 2 * N * N; i++)
        v[i] = (float)(i * 7 % 251);
    for (int64_t rows = 1; rows <= N; rows += 3)
        for (int64_t columns = 1; columns <= N; columns += 4)
            for (int k = 0; k < 3; k++) {
                tp_scope_begin(tp);
                tp_tensor *x =
                    tp_cast(tp_tensor_new(tp, TP_F32, TP_DIMS(2, rows, columns), v), types[k]);
                tp_tensor *y = tp_contiguous(tp_swap(x, 1, 2));
                tp_tensor *y32 = tp_cast(y, TP_F32);
                assert_int_equal(tp_read(y32, got, sizeof(float) * (size_t)tp_count(y32)),
                                 TP_OK);
                for (int64_t i = 0; i < 2 * rows * columns; i++) {
                    const int64_t b = i / (rows * columns), c = i / rows % columns,
                                  r = i % rows;
                    if (got[i] != v[(b * rows + r) * columns + c])
                        fail_msg("%s [2, %" PRId64 ", %" PRId64 "] differs at %" PRId64,
                                 tp_dtype_name(types[k]), rows, columns, i);
                }
                tp_scope_end(tp);
            }
}

/* The first ones of long rows are those of the sorted row: elements that are equal, NaN and signed zeros
 * among them, and rows that are in order already. */
static void the_first_are_those_of_the_sorted(void **state)
{
    enum { N = 1027, ROWS = 4 };
    static const int64_t counts[] = {1, 10, 63, 100};
    tp_ctx *tp = *state;
    static float v[N];
    uint32_t seed = 1;
    for (int kind = 0; kind < ROWS; kind++)
        for (int c = 0; c < 4; c++)
            for (int largest = 0; largest < 2; largest++) {
                for (int i = 0; i < N; i++) {
                    seed = seed * 1664525 + 1013904223;
                    v[i] = kind == 0   ? (float)(seed >> 8)
                           : kind == 1 ? (float)(seed >> 28) - 8
                           : kind == 2 ? (float)i
                                       : (float)-i;
                    if (kind == 1 && seed % 97 == 0)
                        v[i] = seed % 2 ? NAN : -0.0f;
                }
                tp_scope_begin(tp);
                tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(1, N), v);
                const int64_t k = counts[c];
                tp_tensor *some = tp_argtopk(x, 1, k, largest),
                          *all = tp_argsort(x, 1, largest);
                const int64_t *a = tp_data(some), *b = tp_data(all);
                for (int64_t i = 0; i < k; i++)
                    if (a[i] != b[i])
                        fail_msg("kind %d, %" PRId64 " %s: place %" PRId64 " is %" PRId64
                                 ", sorted %" PRId64,
                                 kind, k, largest ? "largest" : "least", i, a[i], b[i]);
                tp_scope_end(tp);
            }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(turned_copies_match_the_definition), CASE(the_first_are_those_of_the_sorted),
        CASE(chains_match_the_definition),        CASE(symbolic_views_match_known_ones),
        CASE(slices_are_those_of_python),         CASE(views_share_memory),
        CASE(what_does_not_fit_is_refused),       CASE(symbols_stay_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
