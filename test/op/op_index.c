/* Indices against their definitions, element by element; gradients against differences. */
#include "op_random.h"
#include "tapir/nn.h"

enum { ROUNDS = 300, MAX_ELEMENTS = 3000 };

typedef struct operands {
    int rank, index_rank, axis;
    int64_t shape[TP_MAX_RANK], index_shape[TP_MAX_RANK], src_shape[TP_MAX_RANK];
    int64_t outer, size, inner, n_index, n_x, n_src;
    double x[MAX_ELEMENTS], src[MAX_ELEMENTS];
    int64_t index[MAX_ELEMENTS], place[MAX_ELEMENTS]; /* as given; counted from the start */
    tp_tensor *tx, *ti, *ts;
} operands;

static int64_t product(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

static tp_tensor *index_tensor(tp_ctx *tp, uint64_t *s, const operands *o)
{
    tp_tensor *wide = random_layout(tp, s, TP_I64, o->index_rank, o->index_shape, o->index);
    switch (random_int(s, 0, 2)) {
    case 0:
        return tp_cast(wide, TP_I32);
    case 1:
        return tp_cast(wide, TP_I8);
    default:
        return wide;
    }
}

static void random_operands(tp_ctx *tp, uint64_t *s, operands *o, bool along)
{
    o->rank = (int)random_int(s, 1, 4);
    o->axis = (int)random_int(s, 0, o->rank - 1);
    for (int i = 0; i < o->rank; i++)
        o->shape[i] = random_int(s, 1, 5);
    if (along) {
        o->index_rank = o->rank;
        for (int i = 0; i < o->rank; i++)
            o->index_shape[i] =
                i == o->axis ? random_int(s, 0, 6) : random_int(s, 1, o->shape[i]);
    } else {
        o->index_rank = (int)random_int(s, 0, 2);
        for (int i = 0; i < o->index_rank; i++)
            o->index_shape[i] = random_int(s, 0, 5);
    }
    o->size = o->shape[o->axis];
    o->outer = product(o->axis, o->shape);
    o->inner = product(o->rank - o->axis - 1, o->shape + o->axis + 1);
    o->n_x = product(o->rank, o->shape);
    o->n_index = product(o->index_rank, o->index_shape);
    int src_rank = o->index_rank;
    memcpy(o->src_shape, o->index_shape, sizeof o->src_shape);
    if (!along) {
        src_rank = 0;
        for (int i = 0; i < o->rank; i++)
            for (int k = 0; k < (i == o->axis ? o->index_rank : 1); k++)
                o->src_shape[src_rank++] = i == o->axis ? o->index_shape[k] : o->shape[i];
    }
    o->n_src = product(src_rank, o->src_shape);
    for (int64_t i = 0; i < o->n_x; i++)
        o->x[i] = random_unit(s);
    for (int64_t i = 0; i < o->n_src; i++)
        o->src[i] = random_unit(s);
    for (int64_t i = 0; i < o->n_index; i++) {
        o->place[i] = random_int(s, 0, o->size - 1);
        o->index[i] = random_int(s, 0, 1) ? o->place[i] : o->place[i] - o->size;
    }
    o->tx = random_layout(tp, s, TP_F64, o->rank, o->shape, o->x);
    o->ti = index_tensor(tp, s, o);
    o->ts = random_layout(tp, s, TP_F64, src_rank, o->src_shape, o->src);
}

static void same(tp_tensor *y, int64_t n, const double *want, uint64_t seed, const char *what)
{
    static double got[MAX_ELEMENTS];
    if (tp_failed(y) || tp_count(y) != n)
        fail_msg("seed %" PRIu64 ": %s: %s %s", seed, what, SHAPE(y), tp_error_text(y));
    assert_int_equal(tp_read(y, got, sizeof(double) * (size_t)n), TP_OK);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof(double)) != 0)
            fail_msg("seed %" PRIu64 ": %s %s differs at %" PRId64 ": %.17g, not %.17g", seed,
                     what, SHAPE(y), i, got[i], want[i]);
}

static void slices_match_the_definition(void **state)
{
    static operands o;
    static double want[MAX_ELEMENTS], kept[MAX_ELEMENTS];
    tp_ctx *tp = *state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 31;
        tp_scope_begin(tp);
        random_operands(tp, &s, &o, false);
        int64_t n = 0;
        for (int64_t a = 0; a < o.outer; a++)
            for (int64_t i = 0; i < o.n_index; i++)
                for (int64_t b = 0; b < o.inner; b++)
                    want[n++] = o.x[(a * o.size + o.place[i]) * o.inner + b];
        same(tp_gather(o.tx, o.ti, o.axis - o.rank), n, want, seed, "gather");
        memcpy(want, o.x, sizeof want);
        memcpy(kept, o.x, sizeof kept);
        n = 0;
        for (int64_t a = 0; a < o.outer; a++)
            for (int64_t i = 0; i < o.n_index; i++)
                for (int64_t b = 0; b < o.inner; b++) {
                    const int64_t at = (a * o.size + o.place[i]) * o.inner + b;
                    want[at] += o.src[n];
                    kept[at] = o.src[n++];
                }
        same(tp_scatter_add(o.tx, o.ti, o.ts, o.axis), o.n_x, want, seed, "scatter_add");
        same(tp_scatter(o.tx, o.ti, o.ts, o.axis), o.n_x, kept, seed, "scatter");
        tp_scope_end(tp);
    }
}

static void elements_match_the_definition(void **state)
{
    static operands o;
    static double want[MAX_ELEMENTS], sums[MAX_ELEMENTS];
    tp_ctx *tp = *state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 57;
        tp_scope_begin(tp);
        random_operands(tp, &s, &o, true);
        memcpy(sums, o.x, sizeof sums);
        for (int64_t i = 0; i < o.n_index; i++) {
            int64_t left = i, at = 0, step = 1;
            for (int k = o.rank - 1; k >= 0; k--) {
                at += step * (k == o.axis ? o.place[i] : left % o.index_shape[k]);
                left /= o.index_shape[k];
                step *= o.shape[k];
            }
            want[i] = o.x[at];
            sums[at] += o.src[i];
        }
        same(tp_take_along(o.tx, o.ti, o.axis), o.n_index, want, seed, "take_along");
        same(tp_put_along_add(o.tx, o.ti, o.ts, o.axis), o.n_x, sums, seed, "put_along_add");
        tp_scope_end(tp);
    }
}

/* Rows so long that kernels read them by vectors, with places near each other or far apart. */
enum { LONG_ROUNDS = 120, LONG = 2100, LONG_LINES = 7 };

static int64_t long_place(uint64_t *s, int64_t kind, int64_t i, int64_t size)
{
    switch (kind) {
    case 0: /* each so often */
        return i / 2 % size;
    case 1: /* as they are, from some place */
        return (i + 3) % size;
    case 2:
        return size - 1 - i % size;
    case 3: /* the last vector of a row */
        return size - 1 - (size > 5 ? i % 5 : 0);
    default:
        return random_int(s, 0, size - 1);
    }
}

static void expect_bytes(tp_tensor *y, size_t bytes, const void *want, uint64_t seed,
                         const char *what)
{
    unsigned char *got = malloc(bytes + 1);
    assert_non_null(got);
    assert_int_equal(tp_read(y, got, bytes), TP_OK);
    if (memcmp(got, want, bytes) != 0)
        fail_msg("seed %" PRIu64 ": %s %s differs", seed, what, SHAPE(y));
    free(got);
}

static void long_rows_match_the_definition(void **state)
{
    static int64_t index[LONG];
    static float x[LONG_LINES * LONG], want[LONG_LINES * LONG];
    static uint8_t bytes[LONG_LINES * LONG], want_bytes[LONG_LINES * LONG];
    tp_ctx *tp = *state;
    for (uint64_t seed = 1; seed <= LONG_ROUNDS; seed++) {
        uint64_t s = seed * 91;
        const int64_t lines = random_int(&s, 1, LONG_LINES), size = random_int(&s, 1, 70),
                      n = random_int(&s, 1, seed % 4 ? 90 : LONG), kind = random_int(&s, 0, 4);
        for (int64_t i = 0; i < lines * size; i++)
            bytes[i] = (uint8_t)(x[i] = (float)random_int(&s, 0, 255));
        for (int64_t i = 0; i < n; i++) {
            const int64_t place = long_place(&s, random_int(&s, 0, 40) ? kind : 4, i, size);
            index[i] = random_int(&s, 0, 1) ? place : place - size;
            for (int64_t a = 0; a < lines; a++) {
                want[a * n + i] = x[a * size + place];
                want_bytes[a * n + i] = bytes[a * size + place];
            }
        }
        tp_scope_begin(tp);
        tp_tensor *i = tp_tensor_new(tp, TP_I64, TP_DIMS(n), index);
        tp_tensor *lined = tp_broadcast(i, TP_DIMS(lines, n));
        tp_tensor *f = random_layout(tp, &s, TP_F32, TP_DIMS(lines, size), x);
        tp_tensor *b = random_layout(tp, &s, TP_U8, TP_DIMS(lines, size), bytes);
        const size_t count = (size_t)(lines * n);
        expect_bytes(tp_gather(f, i, 1), 4 * count, want, seed, "gather f32");
        expect_bytes(tp_gather(b, i, 1), count, want_bytes, seed, "gather u8");
        expect_bytes(tp_take_along(f, lined, 1), 4 * count, want, seed, "take_along f32");
        expect_bytes(tp_take_along(f, tp_contiguous(lined), 1), 4 * count, want, seed,
                     "take_along f32, an index for each");
        tp_tensor *down =
            tp_take_along(tp_swap(f, 0, 1), tp_contiguous(tp_swap(lined, 0, 1)), 0);
        expect_bytes(tp_swap(down, 0, 1), 4 * count, want, seed, "take_along f32, columns");
        index[n - 1] = size;
        tp_tensor *bad = tp_tensor_new(tp, TP_I64, TP_DIMS(n), index);
        char what[96];
        snprintf(what, sizeof what, "index %lld at position %lld is out of range for size %lld",
                 (long long)size, (long long)(n - 1), (long long)size);
        tp_gather(f, bad, 1);
        EXPECT_ERROR(tp, TP_E_VALUE, what);
        tp_take_along(f, tp_broadcast(bad, TP_DIMS(lines, n)), 1);
        EXPECT_ERROR(tp, TP_E_VALUE, what);
        tp_scope_end(tp);
    }
}

static void one_hot_marks(void **state)
{
    tp_ctx *tp = *state;
    const int32_t index[] = {2, -1, 0, 3, -4, 1};
    tp_tensor *i = tp_tensor_new(tp, TP_I32, TP_DIMS(2, 3), index);
    const float want[] = {0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    tp_tensor *y = tp_one_hot(i, 3, TP_F32);
    assert_string_equal(SHAPE(y), "[2, 3, 3]");
    assert_memory_equal(tp_data(y), want, sizeof want);
    tp_tensor *b = tp_one_hot(tp_swap(i, 0, 1), 3, TP_BOOL);
    const uint8_t turned[] = {0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0};
    assert_memory_equal(tp_data(b), turned, sizeof turned);
}

static void integers_wrap(void **state)
{
    tp_ctx *tp = *state;
    const int8_t x[] = {127, -128}, src[] = {1, -1, 1};
    const int64_t index[] = {0, 1, 0};
    tp_tensor *y = tp_scatter_add(tp_tensor_new(tp, TP_I8, TP_DIMS(2), x),
                                  tp_tensor_new(tp, TP_I64, TP_DIMS(3), index),
                                  tp_tensor_new(tp, TP_I8, TP_DIMS(3), src), 0);
    const int8_t want[] = {-127, 127};
    assert_memory_equal(tp_data(y), want, sizeof want);
}

/* ---- gradients ----------------------------------------------------------------------------------- */

static tp_tensor *gathered(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_gather(xs[0], user, 1));
}

static tp_tensor *scattered(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_scatter(xs[0], user, xs[1], 1));
}

static tp_tensor *scatter_added(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_scatter_add(xs[0], user, xs[1], 1));
}

static tp_tensor *taken(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_take_along(xs[0], user, 1));
}

static tp_tensor *put(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_put_along_add(xs[0], user, xs[1], 1));
}

static void gradients_match_differences(void **state)
{
    tp_ctx *tp = *state;
    uint64_t s = 99;
    const int64_t places[] = {2, -2, 2, 0, -1, 2}; /* 2 and -1, -2 and 1: named again */
    tp_tensor *pair = tp_tensor_new(tp, TP_I64, TP_DIMS(2, 3), places);
    tp_tensor *x = random_f64(tp, &s, TP_DIMS(2, 3, 2));
    tp_tensor *in[] = {x, random_f64(tp, &s, TP_DIMS(2, 2, 3, 2))};
    check_gradients(tp, "gather", gathered, pair, 1, in);
    check_gradients(tp, "scatter_add", scatter_added, pair, 2, in);
    check_gradients(tp, "scatter", scattered, pair, 2, in);
    tp_tensor *flat[] = {random_f64(tp, &s, TP_DIMS(2, 4)), random_f64(tp, &s, TP_DIMS(2, 3))};
    check_gradients(tp, "take_along", taken, pair, 1, flat);
    check_gradients(tp, "put_along_add", put, pair, 2, flat);
}

/* ---- errors -------------------------------------------------------------------------------------- */

static void what_does_not_fit_is_refused(void **state)
{
    tp_ctx *tp = *state;
    const int64_t bad[] = {0, 1, 3, -4};
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(3, 2), NULL);
    tp_tensor *i = tp_tensor_new(tp, TP_I64, TP_DIMS(2, 2), bad);
    tp_tensor *y = tp_gather(x, i, 0);
    EXPECT_ERROR(tp, TP_E_VALUE, ": gather: index 3 at position 2 is out of range for size 3");
    assert_true(tp_failed(y));
    tp_gather(x, tp_swap(i, 0, 1), 0);
    EXPECT_ERROR(tp, TP_E_VALUE, ": gather: index 3 at position 1 is out of range for size 3");
    tp_take_along(x, tp_slice(tp_flip(i, TP_ALL), 0, 0, 1, 1), 0);
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": take_along: index -4 at position 0 is out of range for size 3");
    tp_gather(x, x, 0);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": gather: the index is f32, not of an integer type");
    tp_gather(x, i, 2);
    EXPECT_ERROR(tp, TP_E_AXIS, ": gather: axis 2 is out of range for [3, 2]");
    tp_take_along(x, tp_tensor_new(tp, TP_I64, TP_DIMS(1, 3), NULL), 0);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": take_along: index [1, 3] is larger than x [3, 2] off axis 0");
    tp_tensor *i3 = tp_tensor_new(tp, TP_I64, TP_DIMS(3), NULL);
    tp_scatter_add(x, i3, tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), NULL), 0);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": scatter_add: src is [2, 2] where x [3, 2] and index [3] ask for [3, 2]");
    tp_scatter(x, i3, tp_tensor_new(tp, TP_F64, TP_DIMS(3, 2), NULL), 0);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": scatter: x is f32, src is f64");
    tp_tensor *b = tp_tensor_new(tp, TP_BOOL, TP_DIMS(3), NULL);
    tp_scatter_add(b, i3, b, 0);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": scatter_add: x is bool, which has no sum");
    tp_one_hot(i, -3, TP_F32);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": one_hot: -3 is no size");
    tp_one_hot(x, 3, TP_F32);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": one_hot: the index is f32, not of an integer type");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(slices_match_the_definition),
        CASE(elements_match_the_definition),
        CASE(long_rows_match_the_definition),
        CASE(one_hot_marks),
        CASE(integers_wrap),
        CASE(gradients_match_differences),
        CASE(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
