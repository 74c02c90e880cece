/* What a flow is refused for is found before what is expensive. */
#include "capture/record/flow.h"
#include "common/both.h"

/* One look more than there may be basic blocks; a value crosses each. */
BODY(of_many_looks)
{
    tp_tensor *h = in[0], *zero = tp_scalar_like(h, 0);
    for (int i = 0; i <= TPI_MAX_BLOCKS; i++) {
        tp_truth(tp_gt(h, zero));
        h = tp_neg(h);
    }
    out[0] = h;
}

static void too_many_blocks(void **state)
{
    tp_function *f =
        tp_function_new(*state, "f", of_many_looks, NULL, &(tp_function_options){.pure = true});
    call1(f, tp_scalar(*state, TP_F32, 1));
    const tpi_flow *w = f->pure.flows[0];
#ifndef TPI_STRESS /* there trees are full before */
    assert_int_equal(f->pure.n_flows, 1);
    assert_int_equal(w->why, TPI_WHY_length);
    assert_int_equal(w->n_phis, 0);
#else
    (void)w;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(too_many_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
