/* Random operators of models: shapes, types, how often what comes, and at which position and from which stream they draw;
 * a seed in the model says nothing. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <math.h>

enum { ROWS = 40, CLASSES = 5, SAMPLES = 500 };

static void put_attr(bytes *n, bytes a)
{
    put_message(n, TPI_PB_NODE_ATTRIBUTE, a);
}

static bytes attr_float(const char *name, float v)
{
    bytes a = {0};
    put_text(&a, TPI_PB_ATTRIBUTE_NAME, name);
    put_int(&a, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_FLOAT);
    put_varint(&a, (uint64_t)TPI_PB_ATTRIBUTE_F << 3 | TPI_PB_FIXED32);
    put(&a, &v, sizeof v);
    return a;
}

/* A model of one node: x [rows, columns] to y. */
static bytes one_node(bytes n, int type, int rank, const int64_t *shape)
{
    bytes g = {0};
    const int64_t free_size[2] = {-1, -1};
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("x", type, rank, shape ? shape : free_size, NULL));
    put_message(&g, TPI_PB_GRAPH_NODE, n);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", type, 0, NULL, NULL));
    return model(g);
}

static tp_graph *load(tp_ctx *tp, bytes m)
{
    tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    return g;
}

static tp_tensor *run(tp_graph *g, tp_tensor *x)
{
    const tp_feed feed = {"x", x};
    tp_tensor *y = NULL;
    if (!g || tp_graph_run(g, 1, &feed, 1, (const char *[]){"y"}, &y) != TP_OK)
        fail_msg("%s", tp_error_message(tp_ctx_of(x)));
    return y;
}

static bytes multinomial(int type, int64_t samples, float seed)
{
    bytes n = node("Multinomial", NAMES("x"), NAMES("y"));
    if (type)
        put_attr(&n, attr_int("dtype", type));
    if (samples)
        put_attr(&n, attr_int("sample_size", samples));
    if (seed != 0)
        put_attr(&n, attr_float("seed", seed));
    return n;
}

/* ---- Multinomial -------------------------------------------------------------------------------------- */

/* Each class comes as often as its part of the probability says, within five deviations. */
static void multinomial_counts(void **state)
{
    tp_ctx *tp = *state;
    static const float odds[CLASSES] = {1, 2, 0, 4, 1};
    static float logits[ROWS][CLASSES];
    static int32_t drawn[ROWS * SAMPLES];
    int count[CLASSES] = {0};
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < CLASSES; c++)
            logits[i][c] = logf(odds[c]) + (float)i; /* not normalised */
    tp_graph *g = load(tp, one_node(multinomial(0, SAMPLES, 0), TPI_PB_F32, 2, NULL));
    tp_tensor *y = run(g, tp_tensor_new(tp, TP_F32, TP_DIMS(ROWS, CLASSES), logits));
    assert_int_equal(tp_dtype_of(y), TP_I32);
    assert_true(tp_rank(y) == 2 && tp_dim(y, 0) == ROWS && tp_dim(y, 1) == SAMPLES);
    assert_int_equal(tp_read(y, drawn, sizeof drawn), TP_OK);
    for (int i = 0; i < ROWS * SAMPLES; i++) {
        assert_true(drawn[i] >= 0 && drawn[i] < CLASSES);
        count[drawn[i]]++;
    }
    for (int c = 0; c < CLASSES; c++) {
        const double n = ROWS * SAMPLES, p = (double)odds[c] / 8;
        if (!(fabs(count[c] - n * p) <= 5 * sqrt(n * p * (1 - p))))
            fail_msg("class %d came %d times in %g", c, count[c], n);
    }
}

/* What tp_categorical gives there, of either type, anew at each run, whatever seed the model has. */
static void multinomial_bits(void **state)
{
    tp_ctx *tp = *state;
    static const float logits[2][3] = {
        {0.5f, -1, 2},
        {3,    0,  1}
    };
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), logits);
    for (int k = 0; k < 4; k++) {
        const int64_t samples = k == 3 ? 1 : 7;
        tp_random_stream(tp, k < 2 ? 0 : 6);
        tp_graph *g = load(
            tp, one_node(multinomial(k == 1 ? TPI_PB_I64 : 0, k == 3 ? 0 : samples, (float)k),
                         TPI_PB_F32, 2, NULL));
        tp_random_stream(tp, 0);
        tp_seed(tp, 3);
        tp_tensor *got[2] = {run(g, x), run(g, x)};
        tp_random_stream(tp, k < 2 ? 0 : 6);
        tp_seed(tp, 3);
        for (int i = 0; i < 2; i++) {
            tp_tensor *want = tp_categorical(x, samples);
            assert_int_equal(tp_dtype_of(got[i]), k == 1 ? TP_I64 : TP_I32);
            assert_true(tp_rank(got[i]) == 2 && tp_dim(got[i], 1) == samples);
            assert_true(tp_truth(tp_all(tp_eq(tp_cast(got[i], TP_I64), want), TP_ALL, false)));
        }
        tp_random_stream(tp, 0);
    }
}

static void expect_refused(tp_ctx *tp, bytes m, const char *why)
{
    assert_null(load(tp, m));
    if (!strstr(tp_error_message(tp), why))
        fail_msg("not \"%s\", but: %s", why, tp_error_message(tp));
    tp_clear_error(tp);
}

static void multinomial_refused(void **state)
{
    tp_ctx *tp = *state;
    const int64_t flat[1] = {3}, none[2] = {2, 0};
    expect_refused(tp, one_node(multinomial(0, 3, 0), TPI_PB_F32, 1, flat),
                   "batch and classes");
    expect_refused(tp, one_node(multinomial(TPI_PB_F32, 3, 0), TPI_PB_F32, 2, NULL),
                   "int32 or int64");
    expect_refused(tp, one_node(multinomial(0, -1, 0), TPI_PB_F32, 2, NULL), "n is -1");
    expect_refused(tp, one_node(multinomial(0, 3, 0), TPI_PB_F32, 2, none), "no classes");
    expect_refused(tp, one_node(multinomial(0, 3, 0), TPI_PB_I64, 2, NULL), "float");
}

/* ---- Bernoulli ---------------------------------------------------------------------------------------- */

static void bernoulli(void **state)
{
    tp_ctx *tp = *state;
    static const float p[4] = {0, 0.25f, 0.75f, 1};
    static const int types[3] = {0, TPI_PB_F64, TPI_PB_BOOL};
    static const tp_dtype dtypes[3] = {TP_F32, TP_F64, TP_BOOL};
    enum { N = 4000 };
    const int64_t rows[2] = {N, 4};
    tp_tensor *x = tp_broadcast(tp_tensor_new(tp, TP_F32, TP_DIMS(4), p), 2, rows);
    for (int k = 0; k < 3; k++) {
        double count[4];
        bytes n = node("Bernoulli", NAMES("x"), NAMES("y"));
        put_attr(&n, attr_float("seed", (float)k));
        if (types[k])
            put_attr(&n, attr_int("dtype", types[k]));
        tp_graph *g = load(tp, one_node(n, TPI_PB_F32, 2, NULL));
        tp_seed(tp, 11);
        tp_tensor *y = run(g, x);
        tp_seed(tp, 11);
        tp_tensor *want = tp_cast(tp_bernoulli(x), dtypes[k]);
        assert_int_equal(tp_dtype_of(y), dtypes[k]);
        assert_true(tp_rank(y) == 2 && tp_dim(y, 0) == N && tp_dim(y, 1) == 4);
        assert_true(tp_truth(tp_all(tp_eq(y, want), TP_ALL, false)));
        tp_tensor *sum = tp_sum(tp_cast(y, TP_F64), TP_DIMS(0), false);
        assert_int_equal(tp_read(sum, count, sizeof count), TP_OK);
        for (int c = 0; c < 4; c++) {
            const double q = (double)p[c], draws = N;
            if (!(fabs(count[c] - draws * q) <= 5 * sqrt(draws * q * (1 - q))))
                fail_msg("with probability %g it was 1 %g times in %g", q, count[c], draws);
        }
    }
}

/* ---- by numbers --------------------------------------------------------------------------------------- */

/* The four that ONNX has: of x's shape and type, with the bits of the same calls. */
static void like(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(3, 5), 2);
    for (int k = 0; k < 4; k++) {
        const bool normal = k & 1, typed = k & 2;
        const tp_dtype dtype = typed ? TP_F64 : TP_F32;
        bytes n =
            node(normal ? "RandomNormalLike" : "RandomUniformLike", NAMES("x"), NAMES("y"));
        put_attr(&n, attr_float(normal ? "mean" : "low", -2));
        put_attr(&n, attr_float(normal ? "scale" : "high", 3));
        put_attr(&n, attr_float("seed", 5));
        if (typed)
            put_attr(&n, attr_int("dtype", TPI_PB_F64));
        tp_graph *g = load(tp, one_node(n, TPI_PB_F32, 2, NULL));
        tp_seed(tp, 2);
        tp_tensor *got = run(g, x);
        tp_seed(tp, 2);
        tp_tensor *want = normal ? tp_normal(tp, dtype, TP_DIMS(3, 5), -2, 3)
                                 : tp_uniform(tp, dtype, TP_DIMS(3, 5), -2, 3);
        assert_int_equal(tp_dtype_of(got), dtype);
        assert_true(tp_rank(got) == 2 && tp_dim(got, 0) == 3 && tp_dim(got, 1) == 5);
        assert_memory_equal(tp_data(got), tp_data(want), 15 * tp_dtype_size(dtype));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(multinomial_counts), CASE(multinomial_bits),
                                       CASE(multinomial_refused), CASE(bernoulli), CASE(like)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
