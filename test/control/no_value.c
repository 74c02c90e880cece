/* A side of a tp_if that leaves a variable without a value. */
#include "common/unit.h"
#include "tapir/tapir.h"

static void no_value(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2), 3), *yes = tp_scalar(tp, TP_BOOL, 1);
    for (int round = 0; round < 3; round++) { /* the later ones find what the first one left */
        tp_tensor *a = x, *b = x;
        tp_if (yes, &a, &b) {
            a = round ? NULL : x;
            b = x;
        }
        assert_true(round ? a == NULL : tp_item(tp_sum(a, TP_ALL, false)) == 6);
        assert_true(tp_item(tp_sum(b, TP_ALL, false)) == 6);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(no_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
