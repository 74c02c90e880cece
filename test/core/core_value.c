/* Values out of tensors, copies between layouts, and what is no value. */
#include "common/unit.h"
#include "core/copy.h"
#include "tapir/graph.h"

#include <math.h>

static void reading(void **state)
{
    tp_ctx *tp = *state;
    const int32_t data[] = {1, 2, 3, 4, 5, 6};
    int32_t out[6] = {0};
    tp_tensor *t = tp_tensor_new(tp, TP_I32, TP_DIMS(2, 3), data);
    assert_int_equal(tp_read(t, out, sizeof out), TP_OK);
    assert_memory_equal(out, data, sizeof data);
    assert_int_equal(tp_read(t, out, 20), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_read: i32 [2, 3] has 24 bytes, room is given for 20");
    assert_int_equal(tp_read(t, NULL, 24), TP_E_NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_read: the place to read to is NULL");
    assert_true(isnan(tp_item(t)));
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_item: [2, 3] has 6 elements, not 1");
    assert_int_equal(tp_item_i64(t), 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_item_i64: [2, 3] has 6 elements, not 1");
    assert_false(tp_truth(t));
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_truth: [2, 3] has 6 elements, not 1");
    assert_int_equal(tp_size(t, 2), -1);
    EXPECT_ERROR(tp, TP_E_AXIS, "tp_size: axis 2 of [2, 3]");
    assert_true(tp_dim(t, -3) == INT64_MIN);
    EXPECT_ERROR(tp, TP_E_AXIS, "tp_dim: axis -3 of [2, 3]");

    assert_true(tp_truth(tp_full(tp, TP_F32, TP_DIMS(1, 1), -0.5)));
    assert_false(tp_truth(tp_full(tp, TP_F32, TP_DIMS(1, 1), -0.0)));
    assert_int_equal(tp_item_i64(tp_scalar(tp, TP_F64, 1e300)), INT64_MAX);

    /* A view with gaps: the second column. */
    tp_tensor *v = tpi_tensor(tp, TPI_AT(NULL, 0), TP_I32, 1, (int64_t[]){2});
    tpi_tensor_share(v, t, 1);
    v->stride[0] = 3;
    tpi_note_contiguous(v);
    assert_null(tp_data(v));
    assert_int_equal(tp_error(tp), TP_E_STATE);
    assert_non_null(strstr(tp_error_message(tp), "tp_contiguous"));
    tp_clear_error(tp);
    assert_int_equal(tp_read(v, out, 8), TP_OK);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 5);
}

static void nothing_to_ask(void **state)
{
    tp_ctx *tp = *state;
    char place[4];
    tp_tensor *bad = (tp_full)(tp, TP_F32, 1, NULL, 0);
    tp_clear_error(tp);
    const tp_tensor *const ts[] = {NULL, bad, &tpi_nil, &tp->nil};
    const tp_status want[] = {TP_E_NULL, TP_E_NULL, TP_E_NULL, TP_E_MEMORY};
    for (int i = 0; i < 4; i++) {
        assert_true(tp_failed(ts[i]));
        assert_int_equal(tp_status_of(ts[i]), want[i]);
        assert_true(strlen(tp_error_text(ts[i])) > 0);
        assert_false(tp_is_symbolic(ts[i]));
        assert_int_equal(tp_rank(ts[i]), 0);
        assert_int_equal(tp_count(ts[i]), -1);
        assert_int_equal(tp_size(ts[i], 0), -1);
        assert_true(tp_dim(ts[i], 0) == INT64_MIN);
        assert_int_equal(tp_read(ts[i], place, 4), want[i]);
        assert_null(tp_data(ts[i]));
        assert_true(isnan(tp_item(ts[i])));
        assert_int_equal(tp_item_i64(ts[i]), 0);
        assert_false(tp_truth(ts[i]));
        assert_null(tp_name_of(ts[i]));
    }
    assert_null(tp_ctx_of(NULL));
    assert_string_equal(tp_error_text(tp_scalar(tp, TP_F32, 0)), "");
    assert_int_equal(tp_error(tp), TP_OK); /* the error was told when it was born */
}

/* ---- symbolic: the message names the cure ------------------------------------------------------ */

static void expect_cure(tp_ctx *tp, const char *what, const char *cure)
{
    const char *m = tp_error_message(tp);
    assert_int_equal(tp_error(tp), TP_E_SYMBOLIC);
    if (!strstr(m, what) || !strstr(m, cure) || !strstr(m, "core_value.c:"))
        fail_msg("\"%s\" does not name %s, %s and the line", m, what, cure);
    tp_clear_error(tp);
}

static void symbolic(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(batch, 3));
    assert_false(tp_failed(x));
    char place[12], text[100];
    assert_true(tp_is_symbolic(x));
    assert_int_equal(tp_count(x), -1);
    assert_true(tp_dim(x, 0) == batch);
    assert_int_equal(tp_size(x, 1), 3);
    assert_int_equal(tp_size(x, 0), -1);
    expect_cure(tp, "tp_size: axis 0 of [batch, 3]", "tp_dim");
    assert_int_equal(tp_read(x, place, 12), TP_E_SYMBOLIC);
    expect_cure(tp, "tp_read:", "tp_graph_run");
    assert_null(tp_data(x));
    expect_cure(tp, "tp_data:", "tp_graph_run");
    assert_true(isnan(tp_item(x)));
    expect_cure(tp, "tp_item:", "tp_graph_run");
    assert_int_equal(tp_item_i64(x), 0);
    expect_cure(tp, "tp_item_i64:", "tp_graph_run");
    assert_false(tp_truth(x));
    expect_cure(tp, "tp_truth:", "tp_where");
    tp_format(x, text, sizeof text);
    assert_string_equal(text, "f32 [batch, 3] symbolic x");
    assert_int_equal(tp_npy_save(x, "never.npy"), TP_E_SYMBOLIC);
    expect_cure(tp, "tp_npy_save:", "tp_graph_run");
    assert_true(tp_failed(tp_variable(x, "v")));
    expect_cure(tp, "tp_variable:", "tp_assign");
    const tp_tensor *s = tp_scalar_like(x, 2);
    assert_int_equal(tp_dtype_of(s), TP_F32);
    assert_false(tp_failed(s));
    tp_graph_free(g);
}

/* ---- copies -------------------------------------------------------------------------------------- */

/* Every shape and layout against the definition, element by element. */
static void layouts(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 99;
    for (int round = 0; round < 3000; round++) {
        const uint64_t start = seed;
        const int rank = (int)(unit_random(&seed) >> 60) % (TP_MAX_RANK + 1);
        static const tp_dtype types[] = {TP_U8, TP_U16, TP_F32, TP_F64};
        const tp_dtype type = types[(unit_random(&seed) >> 60) % 4];
        const size_t size = tp_dtype_size(type);
        int64_t shape[TP_MAX_RANK], stride[TP_MAX_RANK] = {0}, step = 1, first = 0, n = 1;
        int order[TP_MAX_RANK] = {0};
        for (int i = 0; i < rank; i++) {
            shape[i] = (int64_t)(unit_random(&seed) >> 60) % (rank > 4 ? 4 : 6);
            shape[i] += shape[i] == 0 && (unit_random(&seed) >> 60) != 0;
            if (rank <= 3 && round % 8 == 0) /* large enough for tiles */
                shape[i] = (int64_t)(unit_random(&seed) >> 40) % 70;
            n *= shape[i];
            const int j = (int)(unit_random(&seed) >> 40) % (i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        const int mode =
            (int)(unit_random(&seed) >> 60) % 5; /* 0: row-major; 4: each element repeated */
        for (int k = rank - 1; k >= 0; k--) {
            const int i = mode % 4 ? order[k] : k;
            const bool back = mode == 2 && unit_random(&seed) >> 63;
            const bool repeat = mode == 3   ? (unit_random(&seed) >> 61) == 0
                                : mode == 4 ? k == rank - 1
                                            : false;
            stride[i] = repeat ? 0 : back ? -step : step;
            first += back ? step * (shape[i] ? shape[i] - 1 : 0) : 0;
            step *= repeat ? 1 : shape[i] ? shape[i] : 1;
            step += mode && (unit_random(&seed) >> 62) == 0 ? step / 2 + 1 : 0; /* a gap */
        }
        tp_scope_begin(tp);
        tp_tensor *base = tp_full(tp, type, TP_DIMS(step + 64), 0);
        for (size_t i = 0; i < (size_t)(step + 64) * size; i++)
            base->data[i] = (char)(unit_random(&seed) >> 56);
        tp_tensor *t = tpi_tensor(tp, TPI_AT(NULL, 0), type, rank, shape);
        tpi_tensor_share(t, base, first);
        memcpy(t->stride, stride, sizeof stride);
        tpi_note_contiguous(t);

        char *out = malloc((size_t)n * size + 1), *before = malloc((size_t)(step + 64) * size);
        out[(size_t)n * size] = 77;
        tpi_copy_out(t, out);
        assert_int_equal(out[(size_t)n * size], 77);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = 0, rest = i;
            for (int k = rank - 1; k >= 0; k--) {
                at += rest % shape[k] * stride[k];
                rest /= shape[k];
            }
            if (memcmp(out + (size_t)i * size, t->data + at * (int64_t)size, size) != 0)
                fail_msg("round %d (seed %#llx): element %lld of rank %d is wrong", round,
                         (unsigned long long)start, (long long)i, rank);
        }
        /* Back in: what the view covers is the copy again, the gaps are untouched. */
        memcpy(before, base->data, (size_t)(step + 64) * size);
        tpi_copy_in(t, out);
        assert_memory_equal(before, base->data, (size_t)(step + 64) * size);
        if (mode < 3 && n > 0) {
            for (size_t i = 0; i < (size_t)n * size; i++)
                out[i] = (char)~out[i];
            tpi_copy_in(t, out);
            char *again = malloc((size_t)n * size);
            tpi_copy_out(t, again);
            assert_memory_equal(again, out, (size_t)n * size);
            size_t changed = 0;
            for (size_t i = 0; i < (size_t)(step + 64) * size; i++)
                changed += before[i] != base->data[i];
            assert_int_equal(changed, (size_t)n * size);
            free(again);
        }
        free(out);
        free(before);
        tp_scope_end(tp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reading),
        CASE(nothing_to_ask),
        CASE(symbolic),
        CASE(layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
