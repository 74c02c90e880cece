/* Use of a tensor after its scope has ended is an error: for 4,096 later tensors at least, in the stress
 * build until the context is closed. */
#include "common/unit.h"
#include "core/variable.h"
#include "tapir/graph.h"

#include <math.h>

enum { LATER = 4096 };

static tp_tensor *dead(tp_ctx *tp)
{
    tp_scope_begin(tp);
    tp_tensor *t = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1, 1), 3), "w");
    assert_true(tpi_is_live(t));
    tp_scope_end(tp);
    return t;
}

static void noticed(void **state)
{
    tp_ctx *tp = *state;
    static const char after[] = "operand 0 was used after its scope ended (tp_keep hands a "
                                "tensor to the scope outside; only listed variables leave a "
                                "block)";
    tp_tensor *t = dead(tp);
    for (int i = 0; i < LATER - 50;
         i++) /* nothing takes its place; errors below are tensors too */
        tp_scalar(tp, TP_F32, i);
    float out;
    assert_false(tpi_is_live(t));
    assert_true(tp_failed(t));
    assert_int_equal(tp_status_of(t), TP_E_STATE);
    assert_string_equal(tp_error_text(t), "the tensor was used after its scope ended");
    assert_int_equal(tp_read(t, &out, 4), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_null(tp_data(t));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_true(isnan(tp_item(t)));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_int_equal(tp_item_i64(t), 0);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_false(tp_truth(t));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_int_equal(tp_size(t, 0), -1);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_true(tp_failed(tp_scalar_like(t, 1)));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_true(tp_failed(tp_variable(t, "v")));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_true(tp_failed(tp_param(t, "v")));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_true(tp_failed(tp_name(t, "v")));
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_int_equal(tp_npy_save(t, "never.npy"), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_null(tp_name_of(t));
    assert_int_equal(tp_count(t), -1);
    char text[80];
    tp_format(t, text, sizeof text);
    assert_string_equal(text, "failed: the tensor was used after its scope ended");
    assert_ptr_equal(tp_keep(t), t);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_ptr_equal(tp_retain(t), t);
    EXPECT_ERROR(tp, TP_E_STATE, after);
    assert_false(tpi_is_live(t));
    tp_release(t);
    assert_int_equal(tp_error(tp), TP_E_STATE);
    tp_clear_error(tp);
}

/* Beside a number of C the op is named, and which operand of its it is. */
static void beside_a_number(void **state)
{
    tp_ctx *tp = *state;
#define AFTER                                                                                  \
    "was used after its scope ended (tp_keep hands a tensor to the scope outside; only "       \
    "listed "                                                                                  \
    "variables leave a block)"
    tp_tensor *t = dead(tp);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *gone = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    tp_graph_free(g);
#define BLAMES(call, text)                                                                     \
    do {                                                                                       \
        assert_true(tp_failed(call));                                                          \
        EXPECT_ERROR(tp, TP_E_STATE, text);                                                    \
    } while (0)
    BLAMES(tp_add(t, 1), ": add: operand 0 " AFTER);
    BLAMES(tp_sub(1, t), ": sub: operand 1 " AFTER);
    BLAMES(tp_mul(t, 0.5), ": mul: operand 0 " AFTER);
    BLAMES(tp_div(3u, t), ": div: operand 1 " AFTER);
    BLAMES(tp_where(tp_scalar(tp, TP_BOOL, 1), t, 1), ": where: operand 1 " AFTER);
    BLAMES(tp_sub(1, gone), ": sub: operand 1 is of a graph that was freed");
#undef BLAMES
#undef AFTER
}

static void kept(void **state)
{
    tp_ctx *tp = *state;
    tp_scope_begin(tp);
    tp_scope_begin(tp);
    tp_tensor *t = tp_keep(tp_scalar(tp, TP_F32, 1)), *r = tp_retain(tp_scalar(tp, TP_F32, 2));
    tp_scope_end(tp);
    assert_true(tp_item(t) == 1);
    tp_scope_end(tp);
    assert_true(tp_failed(t));
    assert_true(tp_item(r) == 2);
    tp_release(r);
    assert_true(tp_failed(r));
    assert_int_equal(tp_error(tp), TP_OK);
}

/* Of a scope of any size each is noticed for so long, whether the later ones live or not. */
static void each_of(void **state)
{
    tp_ctx *tp = *state;
    static tp_tensor *all[2 * LATER];
    static const int sizes[] = {1, 63, LATER / 2, 2 * LATER};
    for (int i = 0; i < 8; i++) {
        const int n = sizes[i % 4];
        tp_scope_begin(tp);
        for (int k = 0; k < n; k++)
            all[k] = tp_scalar(tp, TP_F32, k);
        tp_scope_end(tp);
        tp_scope_begin(tp);
        for (int k = 0; k < LATER; k++) {
            if (i < 4)
                tp_scope_begin(tp);
            tp_scalar(tp, TP_F32, k);
            if (i < 4)
                tp_scope_end(tp);
        }
        for (int k = 0; k < n; k++)
            if (tp_status_of(all[k]) != TP_E_STATE)
                fail_msg("%d of %d is another tensor after %d later ones", k, n, LATER);
        tp_scope_end(tp);
    }
}

/* No more than so many lie idle. */
static void bounded(void **state)
{
    (void)state;
#ifdef TPI_STRESS
    print_message(
        "skipped: in the stress build a dead one is known until the context is closed\n");
    skip();
#endif
    unit_memory m = {0};
    tp_ctx *tp = unit_open(&m);
    size_t most = 0;
    for (int i = 0; i < 20 * LATER; i++) {
        dead(tp);
        if (i == 2 * LATER)
            most = m.most;
    }
    assert_int_equal(m.most, most);
    assert_true(m.most < LATER * 512 + (1 << 20));
    tp_close(tp);
    assert_int_equal(m.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(noticed), CASE(beside_a_number), CASE(kept),
                                       CASE(each_of), CASE(bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
