/* Reductions: the row and column kernels of every instruction set against the plain reference,
 * bit by bit, over random shapes, axes and layouts; sums against exact ones; axes refused. */
#include "common/unit.h"
#include "op/reduction.h"
#include "tapir/nn.h"

enum { ROUNDS = 1500, MAX_ELEMENTS = 60000 };

static double number(uint64_t *s)
{
    const uint64_t r = unit_random(s);
    switch (r % 97) {
    case 0:
        return 0.0;
    case 1:
        return -0.0;
    case 2:
        return r & 1024 ? __builtin_inf() : -__builtin_inf();
    case 3:
        return r & 2048 ? __builtin_nan("") : 1.0;
    default: {
        const double m = (double)(int64_t)unit_random(s) * 0x1p-63;
        return m * (double)(UINT64_C(1) << (r >> 8) % 12);
    }
    }
}

static tp_tensor *random_tensor(tp_ctx *tp, tp_dtype t, int rank, const int64_t *shape,
                                uint64_t *s)
{
    tp_tensor *x = tp_tensor_new(tp, t, rank, shape, NULL);
    const bool special = unit_random(s) % 4 == 0; /* else no infinities and NaNs */
    char *p = x->data;
    for (int64_t i = 0; i < tpi_count(x); i++, p += tp_dtype_size(t)) {
        double v = number(s);
        if (t == TP_BOOL)
            v = v > 0;
        else if (t < TP_F32)
            v = (double)(int64_t)(unit_random(s) % 256);
        else if (!special && !(v - v == 0))
            v = 0.75;
        tpi_store_f64(t, p, v);
    }
    return x;
}

/* A view of random sizes whose memory is in random order, with gaps or repeats. */
static tp_tensor *random_view(tp_ctx *tp, tp_dtype t, uint64_t *s)
{
    static const int64_t sizes[] = {0,    1,    1,    2,    3,    5,    15,    16,   17,
                                    31,   63,   64,   65,   200,  255,  256,   257,  1000,
                                    1025, 4095, 4096, 4097, 8192, 8200, 12289, 20481};
    enum { N_SIZES = sizeof sizes / sizeof *sizes };
    int rank = (int)(unit_random(s) % 5);
    int64_t shape[TP_MAX_RANK], count = 1;
    for (int i = 0; i < rank; i++) {
        const int64_t n = sizes[unit_random(s) % N_SIZES];
        shape[i] = count * n <= MAX_ELEMENTS ? n : 1 + (int64_t)(unit_random(s) % 3);
        count *= shape[i] ? shape[i] : 1;
    }
    for (int i = rank - 1; i > 0; i--) {
        const int j = (int)(unit_random(s) % (unsigned)(i + 1));
        const int64_t n = shape[i];
        shape[i] = shape[j], shape[j] = n;
    }
    tp_tensor *x = random_tensor(tp, t, rank, shape, s);
    const uint64_t kind = unit_random(s);
    if (rank > 0 && kind % 3 == 0) {
        int64_t perm[TP_MAX_RANK];
        for (int i = 0; i < rank; i++)
            perm[i] = i;
        for (int i = rank - 1; i > 0; i--) {
            const int j = (int)(unit_random(s) % (unsigned)(i + 1));
            const int64_t a = perm[i];
            perm[i] = perm[j], perm[j] = a;
        }
        x = tp_transpose(x, rank, perm);
    }
    if (rank > 0 && kind % 5 == 0)
        x = tp_slice(x, (int)(unit_random(s) % (unsigned)rank), 0, TP_END, 2);
    if (rank > 0 && kind % 7 == 0)
        x = tp_slice(x, (int)(unit_random(s) % (unsigned)rank), -1, TP_END, -1);
    return x;
}

static bool same(tp_dtype t, const char *a, const char *b)
{
    const size_t n = tp_dtype_size(t);
    if (memcmp(a, b, n) == 0)
        return true;
    if (t == TP_F32)
        return *(const float *)a != *(const float *)a && *(const float *)b != *(const float *)b;
    return t == TP_F64 && *(const double *)a != *(const double *)a &&
           *(const double *)b != *(const double *)b;
}

static void fast_is_reference(void **state)
{
    tp_ctx *tp = *state;
    const tpi_kernels *best = tpi_kernels_choose(false), *sets[3] = {&tpi_kernels_base, best};
    int n_sets = best == &tpi_kernels_base ? 1 : 2;
#if defined(__x86_64__)
    if (best == &tpi_kernels_avx512)
        sets[n_sets++] = &tpi_kernels_avx2;
#endif
    const char *text = getenv("SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 0x5eed;
    for (int round = 0; round < ROUNDS; round++) {
        tp_scope_begin(tp);
        uint64_t s = seed * 1000003 + (uint64_t)round * 7919 + 1;
        const uint64_t pick = unit_random(&s);
        const tp_dtype t =
            (tp_dtype)(pick % 3 ? TP_F32 + pick / 3 % 2 : pick / 3 % TP_N_DTYPES);
        tp_tensor *x = random_view(tp, t, &s);
        assert_int_equal(x->status, TP_OK);
        tpi_list axes = {0};
        for (int i = 0; i < x->rank; i++)
            if (unit_random(&s) % 2)
                axes.v[axes.n++] = i;
        const int code = t == TP_BOOL ? TPI_REDUCE_MAX + (int)(unit_random(&s) % 2)
                                      : (int)(unit_random(&s) % TPI_N_REDUCES);
        tpi_reduction d;
        tpi_reduction_of(&d, code, x, &axes);
        const size_t size = tp_dtype_size(t), bytes = (size_t)d.n_out * size;
        char *want = malloc(bytes + 1), *got = malloc(bytes + 1);
        tpi_reduce_reference(&d, x->data, want);
        for (int k = 0; k < n_sets; k++) {
            tp->kernels = sets[k];
            memset(got, 0xa5, bytes + 1);
            tpi_reduce_fast(&d, tp, x->data, got);
            assert_int_equal((unsigned char)got[bytes], 0xa5);
            for (int64_t i = 0; i < d.n_out; i++)
                if (!same(t, want + (size_t)i * size, got + (size_t)i * size))
                    fail_msg("SEED=%llu round %d, %s: reduction %d of %s %s over axes %lld.. "
                             "(%lld of "
                             "them), by %s: element %lld is %a, not %a",
                             (unsigned long long)seed, round, sets[k]->isa, code,
                             tp_dtype_name(t), SHAPE(x), (long long)axes.v[0],
                             (long long)axes.n, d.by_lanes ? "lanes" : "columns", (long long)i,
                             tpi_load_f64(t, got + (size_t)i * size),
                             tpi_load_f64(t, want + (size_t)i * size));
        }
        free(want);
        free(got);
        tp_scope_end(tp);
    }
    tp->kernels = best;
}

/* The order of numerics.md, spelled out for one row and one column with numbers that tell. */
static void order_is_fixed(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 4096 + 300 };
    static float x[N], lane[64];
    uint64_t s = 42;
    for (int i = 0; i < N; i++)
        x[i] = (float)((double)(int64_t)unit_random(&s) * 0x1p-63 * (double)(1 << i % 20));
    float block[2];
    for (int b = 0; b < 2; b++) {
        memset(lane, 0, sizeof lane);
        for (int i = b * 4096; i < N && i < (b + 1) * 4096; i++)
            lane[i % 64] += x[i];
        for (int half = 32; half > 0; half /= 2)
            for (int l = 0; l < half; l++)
                lane[l] += lane[l + half];
        block[b] = lane[0];
    }
    float row, want = block[0] + block[1];
    tp_tensor *t = tp_tensor_new(tp, TP_F32, 1, (const int64_t[]){N}, x);
    tp_read(tp_sum(t, TP_ALL, false), &row, sizeof row);
    assert_memory_equal(&row, &want, sizeof want);

    float column[2] = {0, 0}, got[1];
    for (int i = 0; i < N; i++)
        column[i / 4096] += x[i];
    want = column[0] + column[1];
    tp_read(tp_sum(tp_unsqueeze(t, 1), TP_DIMS(0), false), got, sizeof got);
    assert_memory_equal(got, &want, sizeof want);
    assert_memory_not_equal(got, &row, sizeof row);
}

static void ends(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *none = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 0), NULL);
    float y[2];
    tp_read(tp_sum(none, TP_DIMS(1), false), y, sizeof y);
    assert_true(y[0] == 0 && y[1] == 0);
    tp_read(tp_prod(none, TP_DIMS(1), false), y, sizeof y);
    assert_true(y[0] == 1 && y[1] == 1);
    tp_read(tp_reduce_max(none, TP_DIMS(-1), false), y, sizeof y);
    assert_true(y[0] == -__builtin_inff());
    tp_read(tp_mean(none, TP_DIMS(1), false), y, sizeof y);
    assert_true(y[0] != y[0]);
    tp_tensor *i8 = tp_tensor_new(tp, TP_I8, TP_DIMS(0), NULL);
    assert_int_equal(tp_item_i64(tp_reduce_max(i8, TP_ALL, false)), -128);
    assert_int_equal(tp_item_i64(tp_reduce_min(i8, TP_ALL, false)), 127);
    tp_tensor *u64 = tp_tensor_new(tp, TP_U64, TP_DIMS(0), NULL);
    const void *p = tp_data(tp_reduce_min(u64, TP_ALL, false));
    assert_true(*(const uint64_t *)p == UINT64_MAX);
    tp_tensor *bits = tp_tensor_new(tp, TP_BOOL, TP_DIMS(3), (const uint8_t[]){0, 1, 0});
    assert_true(tp_truth(tp_reduce_max(bits, TP_ALL, false)));
    assert_false(tp_truth(tp_reduce_min(bits, TP_ALL, false)));
    tp_tensor *wide = tp_full(tp, TP_U8, TP_DIMS(5), 100);
    assert_int_equal(tp_item_i64(tp_sum(wide, TP_ALL, false)), 500 - 256);
    assert_int_equal(tp_rank(tp_sum(wide, TP_ALL, true)), 1);
    assert_int_equal(tp_item_i64(tp_extent(wide, TP_ALL, TP_I32)), 5);
    assert_true(tp_item(tp_extent(none, TP_DIMS(0), TP_F32)) == 2);
    assert_true(tp_item(tp_sum(tp_scalar(tp, TP_F64, 2.5), TP_ALL, false)) == 2.5);
}

static void axes_are_checked(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1);
    tp_sum(x, TP_DIMS(2), false);
    EXPECT_ERROR(tp, TP_E_AXIS, "sum: axis 2 is out of range for [2, 3]");
    tp_sum(x, TP_DIMS(1, -1), false);
    EXPECT_ERROR(tp, TP_E_AXIS, "sum: axis -1 of [2, 3] is named twice");
    tp_mean(tp_cast(x, TP_I32), TP_ALL, false);
    EXPECT_ERROR(tp, TP_E_DTYPE, "mean: x is i32; tp_cast it to f32 or f64 first");
    tp_prod(tp_cast(x, TP_BOOL), TP_ALL, false);
    EXPECT_ERROR(tp, TP_E_DTYPE, "prod: x is bool; tp_cast it to a number first");
    tp_sum(x, 1, NULL, false);
    EXPECT_ERROR(tp, TP_E_VALUE, "sum: 1 axes in no array");
    tp_argmax(x, -3, false);
    EXPECT_ERROR(tp, TP_E_AXIS, "argmax: axis -3 is out of range for [2, 3]");
    tp_recur(x, tp_full(tp, TP_F32, TP_DIMS(3, 2), 1), 0, false);
    EXPECT_ERROR(tp, TP_E_SHAPE, "recur: shapes differ: a [2, 3], b [3, 2]");
    tp_softmax(x, 2);
    EXPECT_ERROR(tp, TP_E_AXIS, "softmax: axis 2 is out of range for [2, 3]");
    assert_true(tp_failed(tp_sum(NULL, TP_ALL, false)));
    tp_clear_error(tp);
}

/* Every line of a scan by hand, over layouts. */
static void scans(void **state)
{
    tp_ctx *tp = *state;
    uint64_t s = 7;
    for (int round = 0; round < 60; round++) {
        tp_scope_begin(tp);
        const int64_t n = 1 + (int64_t)(unit_random(&s) % 70),
                      m = 1 + (int64_t)(unit_random(&s) % 200);
        tp_tensor *x = random_tensor(tp, TP_F64, 2, (const int64_t[]){n, m}, &s);
        tp_tensor *b = random_tensor(tp, TP_F64, 2, (const int64_t[]){n, m}, &s);
        const bool turned = unit_random(&s) % 2, exclusive = unit_random(&s) % 2;
        const bool reverse = unit_random(&s) % 2;
        if (turned)
            x = tp_swap(x, 0, 1), b = tp_swap(b, 0, 1);
        for (int axis = 0; axis < 2; axis++) {
            const int64_t len = x->shape[axis], lines = x->shape[1 - axis];
            tp_tensor *sum = tp_cumsum(x, axis, exclusive, reverse);
            tp_tensor *rec = tp_recur(x, b, axis - 2, reverse);
            tp_tensor *big = tp_argmax(x, axis, false), *small = tp_argmin(x, axis, true);
            for (int64_t line = 0; line < lines; line++) {
                double acc = 0, y = 0;
                int64_t hi = 0, lo = 0;
                for (int64_t k = 0; k < len; k++) {
                    const int64_t i = reverse ? len - 1 - k : k;
                    const double v =
                        ((double *)x->data)[i * x->stride[axis] + line * x->stride[1 - axis]];
                    const double add =
                        ((double *)b->data)[i * b->stride[axis] + line * b->stride[1 - axis]];
                    const int64_t at = axis == 0 ? i * lines + line : line * len + i;
                    const double before = acc;
                    acc = k ? acc + v : v;
                    y = k ? v * y + add : add;
                    const double want = exclusive ? (k ? before : 0) : acc;
                    assert_true(same(TP_F64, (const char *)&want, sum->data + 8 * at));
                    assert_true(same(TP_F64, (const char *)&y, rec->data + 8 * at));
                    const double w =
                        ((double *)x->data)[k * x->stride[axis] + line * x->stride[1 - axis]];
                    const double top =
                        ((double *)x->data)[hi * x->stride[axis] + line * x->stride[1 - axis]];
                    const double low =
                        ((double *)x->data)[lo * x->stride[axis] + line * x->stride[1 - axis]];
                    hi = top == top && (w > top || w != w) ? k : hi;
                    lo = low == low && (w < low || w != w) ? k : lo;
                }
                assert_int_equal(((int64_t *)big->data)[line], hi);
                assert_int_equal(((int64_t *)small->data)[line], lo);
            }
        }
        tp_scope_end(tp);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(fast_is_reference), CASE(order_is_fixed),
                                              CASE(ends), CASE(axes_are_checked), CASE(scans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
