/* The rate of the step that was taken last. */
#include "common/unit.h"
#include "tapir/tapir.h"

/* A step of w by a gradient of 1 is its rate, eagerly, in graphs and in pure functions. */
static void by_one(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_optimizer *o = user;
    out[0] = tp_optimizer_apply(o, in);
}

static void rate_of_a_step(void **state)
{
    tp_ctx *tp = *state;
    for (int s = TP_CONSTANT; s <= TP_STAIRS; s++)
        for (int way = 0; way < 3; way++) {
            tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 0), "w");
            tp_optimizer *o = tp_sgd_new(tp, 0.3, NULL, 1, &w);
            assert_true(tp_optimizer_step_rate(o) == 0.3);
            assert_int_equal(
                tp_optimizer_schedule(
                    o, &(tp_schedule){(tp_schedule_kind)s, way == 2 ? 0 : 3, 9, 0.01}),
                TP_OK);
            const double first = tp_optimizer_step_rate(o);
            tp_function *f =
                tp_function_new(tp, "by_one", by_one, o, &(tp_function_options){.pure = true});
            tp_graph *g = tp_graph_new(tp);
            tp_tensor *dw = tp_scalar(tp, TP_F64, 1), *done;
            tp_tensor *node = tp_placeholder(g, "dw", TP_F64, TP_SCALAR);
            if (way == 1) {
                by_one(o, 1, &node, 1, &done);
                tp_name(done, "done");
            }
            for (int i = 0; i < 14; i++) {
                tp_assign(w, tp_scalar(tp, TP_F64, 0));
                if (way == 0)
                    by_one(o, 1, &dw, 1, &done);
                else if (way == 1)
                    tp_graph_run(g, TP_FEEDS({"dw", dw}), TP_NAMES("done"), &done);
                else
                    tp_function_call(f, 1, &dw, 1, &done);
                assert_true(tp_optimizer_step_rate(o) == -tp_item(w));
                assert_true(i > 0 || first == -tp_item(w));
            }
            assert_true(tp_optimizer_rate(o) == 0.3);
            assert_true(s == TP_CONSTANT || tp_optimizer_step_rate(o) < 0.1);
            tp_optimizer_free(o);
        }
    assert_int_equal(tp_error(tp), TP_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(rate_of_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
