/* Matrix products: eager and reference kernels against a loop of fma over the definition, bit by
 * bit; integers; gradients against differences; errors. */
#include "op/op.h"
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/nn.h"

enum { ROUNDS = 250, CHAIN = 64 };

typedef struct matrix { /* row-major doubles or floats */
    int rank;
    int64_t shape[TP_MAX_RANK], count;
    void *v;
} matrix;

static int64_t at_batch(const matrix *m, int lead, const int64_t *batch, int64_t which)
{
    int64_t where = 0, step = 1;
    for (int i = lead - 1, own = m->rank - 3; own >= 0; i--, own--) {
        const int64_t p = which % batch[i];
        where += step * (m->shape[own] == 1 ? 0 : p);
        step *= m->shape[own];
        which /= batch[i];
    }
    return where;
}

#define DEFINE(type, fma_of)                                                                   \
    static type sum_##type(const type *a, int64_t a_step, const type *b, int64_t b_step,       \
                           int64_t n)                                                          \
    {                                                                                          \
        type total = 0;                                                                        \
        for (int64_t from = 0; from < n; from += CHAIN) {                                      \
            type chain = 0;                                                                    \
            for (int64_t i = from; i < n && i < from + CHAIN; i++)                             \
                chain = fma_of(a[i * a_step], b[i * b_step], chain);                           \
            total = from ? total + chain : chain;                                              \
        }                                                                                      \
        return total;                                                                          \
    }                                                                                          \
    static void multiply_##type(const matrix *a, const matrix *b, int lead,                    \
                                const int64_t *batch, int64_t n_batch, type *c)                \
    {                                                                                          \
        const int64_t m = a->shape[a->rank - 2], k = a->shape[a->rank - 1];                    \
        const int64_t n = b->shape[b->rank - 1];                                               \
        for (int64_t w = 0; w < n_batch; w++) {                                                \
            const type *pa = (const type *)a->v + at_batch(a, lead, batch, w) * m * k;         \
            const type *pb = (const type *)b->v + at_batch(b, lead, batch, w) * k * n;         \
            for (int64_t i = 0; i < m * n; i++)                                                \
                *c++ = sum_##type(pa + i / n * k, 1, pb + i % n, n, k);                        \
        }                                                                                      \
    }
DEFINE(float, fmaf)
DEFINE(double, fma)

static void random_matrix(uint64_t *s, matrix *m, bool f64)
{
    m->count = 1;
    for (int i = 0; i < m->rank; i++)
        m->count *= m->shape[i];
    m->v = malloc(8 * (size_t)(m->count ? m->count : 1));
    for (int64_t i = 0; i < m->count; i++)
        if (f64)
            ((double *)m->v)[i] = random_unit(s);
        else
            ((float *)m->v)[i] = (float)random_unit(s);
}

static void check_bits(tp_tensor *y, const char *what, uint64_t seed, const void *want,
                       size_t bytes)
{
    if (tp_failed(y))
        fail_msg("seed %" PRIu64 ": %s", seed, tp_error_text(y));
    const char *got = tp_data(tp_contiguous(y));
    const size_t size = tp_dtype_size(tp_dtype_of(y));
    assert_int_equal(tp_count(y) * (int64_t)size, bytes);
    for (size_t i = 0; i < bytes; i += size)
        if (memcmp(got + i, (const char *)want + i, size) != 0)
            fail_msg("seed %" PRIu64 ": %s %s differs at %zu", seed, what, SHAPE(y), i / size);
}

static void products_have_the_defined_bits(void **state)
{
    tp_ctx *tp = *state;
    const tpi_kernels *const widest = tp->kernels;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 131;
        tp_scope_begin(tp);
        tp->kernels = random_int(&s, 0, 2) ? widest : tpi_kernels_choose(true);
        const bool f64 = random_int(&s, 0, 1);
        const tp_dtype t = f64 ? TP_F64 : TP_F32;
        int64_t batch[4] = {1, 1, 1, 1}, n_batch = 1;
        matrix a = {.rank = (int)random_int(&s, 2, 4)}, b = {.rank = (int)random_int(&s, 2, 4)};
        const int lead = (a.rank > b.rank ? a.rank : b.rank) - 2;
        for (int i = 0; i < lead; i++) {
            const int64_t n = random_int(&s, 0, 9) ? random_int(&s, 1, 3) : 0;
            const int ia = i - lead + a.rank - 2, ib = i - lead + b.rank - 2;
            const bool one_a = ia < 0 || random_int(&s, 0, 3) == 0;
            const bool one_b = ib < 0 || (!one_a && random_int(&s, 0, 3) == 0);
            batch[i] = one_a && one_b ? 1 : n;
            if (ia >= 0)
                a.shape[ia] = one_a ? 1 : n;
            if (ib >= 0)
                b.shape[ib] = one_b ? 1 : n;
            n_batch *= batch[i];
        }
        const int64_t m = random_int(&s, 0, 20), n = random_int(&s, 1, 40);
        const int64_t k =
            seed % 50 == 0 ? CHAIN + random_int(&s, 1, 5000) : random_int(&s, 0, 70);
        a.shape[a.rank - 2] = m;
        a.shape[a.rank - 1] = b.shape[b.rank - 2] = k;
        b.shape[b.rank - 1] = n;
        random_matrix(&s, &a, f64);
        random_matrix(&s, &b, f64);
        const size_t bytes = (f64 ? 8u : 4u) * (size_t)(n_batch * m * n);
        void *want = malloc(bytes + 1);
        if (f64)
            multiply_double(&a, &b, lead, batch, n_batch, want);
        else
            multiply_float(&a, &b, lead, batch, n_batch, want);
        tp_tensor *x = tp_require_grad(random_layout(tp, &s, t, a.rank, a.shape, a.v));
        tp_tensor *w = random_layout(tp, &s, t, b.rank, b.shape, b.v);
        tp_tensor *y = tp_matmul(x, w);
        check_bits(y, "the product", seed, want, bytes);
        tp_tensor *node = y->op == &tpi_op_matmul ? y : y->in[0];
        tp_tensor *copy = tpi_tensor_new(tp, TPI_AT(NULL, 0), t, node->rank, node->shape);
        tpi_run r = {.op = node->op, .ctx = tp, .n_in = 2, .in = node->in, .out = copy};
        assert_true(tpi_run_reference(&r));
        check_bits(copy, "the reference", seed, want, bytes);
        free(want);
        free(a.v);
        free(b.v);
        tp_scope_end(tp);
    }
    tp->kernels = widest;
}

/* Of every type, in batches, transposed and broadcast: sums of 64 bits, of which the low ones are left. */
static void integers_wrap(void **state)
{
    enum { BATCH = 3, M = 5, K = 7, N = 6 };
    tp_ctx *tp = *state;
    int64_t a[2 * M * K], b[BATCH * N * K], want[2 * BATCH * M * N], *to = want;
    for (int i = 0; i < 2 * M * K; i++)
        a[i] = (int64_t)i * i * 7919 - 31 * i;
    for (int i = 0; i < BATCH * N * K; i++)
        b[i] = 1000003 - (int64_t)i * 104729;
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < BATCH; l++)
            for (int row = 0; row < M; row++)
                for (int column = 0; column < N; column++, to++) {
                    *to = 0;
                    for (int k = 0; k < K; k++)
                        *to += a[(i * M + row) * K + k] * b[(l * N + column) * K + k];
                }
    tp_tensor *x = tp_tensor_new(tp, TP_I64, TP_DIMS(2, 1, M, K), a);
    tp_tensor *w = tp_swap(tp_tensor_new(tp, TP_I64, TP_DIMS(BATCH, N, K), b), 1, 2);
    tp_tensor *all = tp_tensor_new(tp, TP_I64, TP_DIMS(2, BATCH, M, N), want);
    for (int t = TP_I8; t <= TP_U64; t++) {
        tp_tensor *y = tp_matmul(tp_cast(x, (tp_dtype)t), tp_cast(w, (tp_dtype)t));
        tp_tensor *sums = tp_cast(all, (tp_dtype)t);
        assert_int_equal(tp_dtype_of(y), t);
        assert_string_equal(SHAPE(y), "[2, 3, 5, 6]");
        assert_memory_equal(tp_data(y), tp_data(sums), tpi_bytes(sums));
    }
}

static void vectors_and_integers(void **state)
{
    tp_ctx *tp = *state;
    const int32_t a[] = {1, 2, 3, 4, 5, 6}, v[] = {1, -1, 2};
    tp_tensor *m = tp_tensor_new(tp, TP_I32, TP_DIMS(2, 3), a);
    tp_tensor *x = tp_tensor_new(tp, TP_I32, TP_DIMS(3), v);
    tp_tensor *y = tp_matmul(m, x);
    assert_string_equal(SHAPE(y), "[2]");
    assert_memory_equal(tp_data(y), ((int32_t[]){5, 11}), 8);
    y = tp_matmul(x, tp_swap(m, 0, 1));
    assert_string_equal(SHAPE(y), "[2]");
    assert_memory_equal(tp_data(y), ((int32_t[]){5, 11}), 8);
    y = tp_matmul(x, x);
    assert_string_equal(SHAPE(y), "[]");
    assert_int_equal(tp_item_i64(y), 6);
    const int8_t big[] = {100, 3};
    tp_tensor *b = tp_tensor_new(tp, TP_I8, TP_DIMS(2), big);
    assert_int_equal(tp_item_i64(tp_matmul(b, b)), (int8_t)(uint8_t)10009);
    assert_int_equal(tp_dtype_of(tp_matmul(b, tp_cast(b, TP_F32))), TP_F32);
    tp_tensor *stack = tp_tensor_new(tp, TP_F32, TP_DIMS(4, 5, 3), NULL);
    assert_string_equal(SHAPE(tp_matmul(stack, x)), "[4, 5]");
    assert_string_equal(SHAPE(tp_matmul(tp_cast(m, TP_F32), tp_swap(stack, 1, 2))),
                        "[4, 2, 5]");
}

static tp_tensor *product(void *user, int n, tp_tensor *const *xs)
{
    (void)user;
    (void)n;
    return tp_square(tp_matmul(xs[0], xs[1]));
}

static void gradients_match_differences(void **state)
{
    tp_ctx *tp = *state;
    uint64_t s = 5;
    check_gradients(
        tp, "matrices", product, NULL, 2,
        (tp_tensor *[]){random_f64(tp, &s, TP_DIMS(2, 3)), random_f64(tp, &s, TP_DIMS(3, 2))});
    check_gradients(tp, "batch by matrix", product, NULL, 2,
                    (tp_tensor *[]){random_f64(tp, &s, TP_DIMS(2, 2, 3)),
                                    random_f64(tp, &s, TP_DIMS(3, 2))});
    check_gradients(tp, "broadcast batches", product, NULL, 2,
                    (tp_tensor *[]){random_f64(tp, &s, TP_DIMS(2, 1, 2, 2)),
                                    random_f64(tp, &s, TP_DIMS(2, 2, 2))});
    check_gradients(
        tp, "vectors", product, NULL, 2,
        (tp_tensor *[]){random_f64(tp, &s, TP_DIMS(3)), random_f64(tp, &s, TP_DIMS(3))});
}

static void what_does_not_fit_is_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *a = tp_tensor_new(tp, TP_F32, TP_DIMS(32, 784), NULL);
    tp_tensor *b = tp_tensor_new(tp, TP_F32, TP_DIMS(768, 128), NULL);
    tp_matmul(a, b);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": matmul: inner sizes differ: a [32, 784], b [768, 128]");
    tp_matmul(tp_tensor_new(tp, TP_F32, TP_DIMS(2, 1, 3), NULL),
              tp_tensor_new(tp, TP_F32, TP_DIMS(3, 3, 1), NULL));
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": matmul: leading axes do not broadcast: a [2, 1, 3], b [3, 3, 1]");
    tp_matmul(a, tp_scalar(tp, TP_F32, 1));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": matmul: a scalar is no matrix: a [32, 784], b []");
    tp_tensor *t = tp_tensor_new(tp, TP_BOOL, TP_DIMS(2, 2), NULL);
    tp_matmul(t, t);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": matmul: a is bool, b is bool: not numbers of one type");
}

static void symbols_stay_symbols(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 5, 784));
    tp_tensor *w = tp_tensor_new(tp, TP_F32, TP_DIMS(784, 16), NULL);
    assert_string_equal(SHAPE(tp_matmul(x, w)), "[n, 5, 16]");
    assert_string_equal(SHAPE(tp_grad(tp_matmul(x, w), x)), "[n, 5, 784]");
    tp_tensor *scores = tp_matmul(x, tp_swap(x, 1, 2));
    assert_string_equal(SHAPE(scores), "[n, 5, 5]");
    assert_int_equal(tp_error(tp), TP_OK);
    tp_matmul(x, x);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": matmul: inner sizes differ: a [n, 5, 784], b [n, 5, 784]");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(products_have_the_defined_bits),
        CASE(vectors_and_integers),
        CASE(integers_wrap),
        CASE(gradients_match_differences),
        CASE(what_does_not_fit_is_refused),
        CASE(symbols_stay_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
