/* Use of a tensor after its scope has ended. In the stress build the dead stay recognisable until
 * the context is closed, so that every such use is an error; elsewhere their memory is soon
 * another tensor's. */
#include "core/variable.h"
#include "tapir/graph.h"
#include "unit.h"

#ifdef TPI_STRESS

#include <math.h>

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
    for (int i = 0; i < 100; i++) /* nothing takes its place */
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
    tp_keep(t);
    tp_retain(t);
    assert_false(tpi_is_live(t));
    tp_release(t);
    assert_int_equal(tp_error(tp), TP_E_STATE);
    tp_clear_error(tp);
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

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(noticed), CASE(kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("skipped: dead tensors are kept apart in the stress build only (preset `stress`)");
    return 77;
}

#endif
