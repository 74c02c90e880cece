/* A sum over rows that come a few at a time has the bits of one product of all of them, however they
 * are cut, in every engine; and its gradients are those of the product. */
#include "common/unit.h"
#include "kernel/text/vec.h"
#include "op/add_rows.h"
#include "tapir/tapir.h"

enum { MOST_PARTS = 12, SEEDS = 40 };

static uint64_t drawn;

static int64_t below(int64_t n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(drawn >> 33) % n;
}

/* Rows are cut around the places where a chain closes, and elsewhere. */
static int cut(int64_t rows, int64_t *parts)
{
    int n = 0;
    while (rows > 0 && n < MOST_PARTS - 1) {
        const int64_t near[] = {1, 2, TPK_CHAIN - 1, TPK_CHAIN, TPK_CHAIN + 1, 1 + below(rows)};
        const int64_t part = near[below(6)];
        parts[n] = part < rows ? part : rows;
        rows -= parts[n++];
    }
    parts[n++] = rows;
    return n;
}

/* x and dy [rows, ...], of which some are turned in memory. */
static void draw(tp_ctx *tp, tp_dtype type, int64_t rows, int64_t k, int64_t n,
                 tp_tensor *in[3])
{
    in[0] = below(2) ? tp_uniform(tp, type, TP_DIMS(rows, k), -1, 2)
                     : tp_swap(tp_uniform(tp, type, TP_DIMS(k, rows), -1, 2), 0, 1);
    in[1] = below(3) ? tp_uniform(tp, type, TP_DIMS(rows, n), -1, 2)
                     : tp_swap(tp_uniform(tp, type, TP_DIMS(n, rows), -1, 2), 0, 1);
    in[2] = tp_full(tp, type, TP_DIMS(k, n), 0);
}

static tp_tensor *in_parts(tp_tensor *const *in, const tp_tensor *w, int n,
                           const int64_t *parts)
{
    const tpi_at at = TPI_AT(__FILE__, __LINE__);
    tp_tensor *state = tpi_rows_none(at, w);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        tp_tensor *x = tp_slice(in[0], 0, from, from + parts[i], 1);
        tp_tensor *dy = tp_slice(in[1], 0, from, from + parts[i], 1);
        state = tpi_rows_add(at, state, x, dy);
        from += parts[i];
    }
    return tpi_rows_sum(at, state, w);
}

static void expect_same(tp_tensor *want, tp_tensor *got, const char *what, uint64_t seed)
{
    want = tp_contiguous(want);
    got = tp_contiguous(got);
    const size_t size = tp_dtype_size(tp_dtype_of(want));
    const char *a = tp_data(want), *b = tp_data(got);
    assert_true(a && b);
    assert_int_equal(tp_count(want), tp_count(got));
    for (int64_t i = 0; i < tp_count(want); i++)
        if (memcmp(a + (size_t)i * size, b + (size_t)i * size, size) != 0)
            fail_msg("%s, element %d, seed %d: of one product %.9g, in parts %.9g", what,
                     (int)i, (int)seed,
                     tp_item(tp_slice(tp_reshape(want, 1, (int64_t[]){-1}), 0, i, i + 1, 1)),
                     tp_item(tp_slice(tp_reshape(got, 1, (int64_t[]){-1}), 0, i, i + 1, 1)));
}

static void test_parts(void **state)
{
    tp_ctx *tp = *state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tp_scope_begin(tp);
        tp_seed(tp, seed);
        drawn = seed;
        const tp_dtype type = seed % 2 ? TP_F64 : TP_F32;
        const int64_t rows = below(4) ? below(3 * TPK_CHAIN % 700) : below(3) * TPK_CHAIN;
        const int64_t k = 1 + below(9), n = 1 + below(90);
        int64_t parts[MOST_PARTS];
        tp_tensor *in[3];
        draw(tp, type, rows, k, n, in);
        const int n_parts = cut(rows, parts);
        tp_tensor *want = tp_matmul(tp_swap(in[0], 0, 1), in[1]);
        expect_same(want, in_parts(in, in[2], n_parts, parts), "eagerly", seed);
        assert_string_equal(tp_error_message(tp), "");
        tp_scope_end(tp);
    }
}

static void test_engines(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const names[] = {"by the reference", "by tiles", "by C"};
    const int64_t parts[] = {3, TPK_CHAIN % 200, 64, 1, 0, 130}, rows = 198 + TPK_CHAIN % 200;
    tp_tensor *in[3];
    tp_seed(tp, 7);
    draw(tp, TP_F32, rows, 5, 37, in);
    tp_tensor *want = tp_matmul(tp_swap(in[0], 0, 1), in[1]);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *s[2] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(rows, tp_symbol(g, "k"))),
                       tp_placeholder(g, "dy", TP_F32, TP_DIMS(rows, 37))};
    tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(tp_symbol(g, "k"), 37));
    tp_name(in_parts(s, w, 6, parts), "dw");
    assert_string_equal(tp_error_message(tp), "");
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x", "dy", "w"), TP_NAMES("dw"), &options);
        tp_tensor *out;
        assert_int_equal(tp_program_run(p, in, &out), TP_OK);
        expect_same(want, out, names[e], 7);
    }
}

static tp_tensor *loss(void *user, int n, tp_tensor *const *in)
{
    const int64_t parts[] = {2, 3, 1};
    (void)user, (void)n;
    tp_tensor *w = in_parts(in, in[2], 3, parts);
    return tp_sum(tp_mul(tp_sin(w), in[2]), TP_ALL, false);
}

static tp_tensor *slope(void *user, int n, tp_tensor *const *in)
{
    tp_tensor *d[2];
    for (int i = 0; i < n; i++)
        if (!tp_requires_grad(in[i]))
            tp_require_grad(in[i]);
    const bool was = tp_recording(tp_ctx_of(in[0]), true);
    tp_grads(loss(user, n, in), NULL, 2, in, d);
    tp_recording(tp_ctx_of(in[0]), was);
    return tp_add(tp_sum(tp_square(d[0]), TP_ALL, false),
                  tp_sum(tp_square(d[1]), TP_ALL, false));
}

static void test_gradients(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 5);
    tp_tensor *in[3] = {tp_uniform(tp, TP_F64, TP_DIMS(6, 3), -1, 1),
                        tp_uniform(tp, TP_F64, TP_DIMS(6, 4), -1, 1),
                        tp_uniform(tp, TP_F64, TP_DIMS(3, 4), -1, 1)};
    double error = 1;
    assert_int_equal(tp_grad_check(loss, NULL, 3, in, &error), TP_OK);
    if (!(error < 1e-7))
        fail_msg("error %g: %s", error, tp_error_message(tp));
    assert_int_equal(tp_grad_check(slope, NULL, 3, in, &error), TP_OK);
    if (!(error < 1e-5))
        fail_msg("error of the second gradient %g: %s", error, tp_error_message(tp));
}

static void test_refused(void **state)
{
    tp_ctx *tp = *state;
    const tpi_at at = TPI_AT(__FILE__, __LINE__);
    tp_tensor *w = tp_full(tp, TP_F32, TP_DIMS(3, 4), 0), *s = tpi_rows_none(at, w);
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1),
              *dy = tp_full(tp, TP_F32, TP_DIMS(2, 4), 1);
    assert_false(tp_failed(tpi_rows_add(at, s, x, dy)));
    assert_int_equal(tp_status_of(tpi_rows_add(at, s, dy, x)), TP_E_SHAPE);
    tp_clear_error(tp);
    assert_int_equal(tp_status_of(tpi_rows_add(at, s, x, tp_cast(dy, TP_F64))), TP_E_DTYPE);
    tp_clear_error(tp);
    assert_int_equal(tp_status_of(tpi_rows_add(at, w, x, dy)), TP_E_SHAPE);
    tp_clear_error(tp);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(test_parts), CASE(test_engines),
                                              CASE(test_gradients), CASE(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
