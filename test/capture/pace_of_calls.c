/* Whether calls are to run captured or eagerly is measured by calls that ran so: one that was to be captured and could
 * not be is of neither kind. */
#include "capture/capture_def.h"
#include "common/unit.h"

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_neg(in[0]);
}

/* Each number of arguments is another entry of the tree, which has room for so many. */
static void call_with(tp_function *f, int n_in)
{
    tp_tensor *in[TPI_MAX_TURNS + 1];
    for (int i = 0; i < n_in; i++)
        in[i] = tp_scalar(f->ctx, TP_F32, i);
    assert_int_equal(tp_status_of(tp_function_apply(f, n_in, in)), TP_OK);
}

static void one_that_is_not_captured(void **state)
{
    tp_function *f = tp_function_new(*state, "f", body, NULL, NULL);
    for (int n = 1; n <= TPI_MAX_TURNS; n++)
        call_with(f, n);
    assert_int_equal(f->lost, 0);
    f->pace = (tpi_pace){.measures = true};
    call_with(f, 1); /* captured, then eagerly */
    call_with(f, 1);
    call_with(f, TPI_MAX_TURNS + 1);
    assert_int_equal(f->lost, 1);
    assert_int_equal(f->pace.n[TPI_PACE_CAPTURED], 1);
    assert_int_equal(f->pace.n[TPI_PACE_EAGER], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(one_that_is_not_captured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
