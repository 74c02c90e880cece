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

/* Two loops, of as many turns as the arguments say. */
BODY(of_two_loops)
{
    tp_tensor *a = in[0], *b = in[1], *sum = tp_mul(a, b);
    tp_tensor *zero = tp_scalar_like(a, 0), *one = tp_scalar_like(a, 1);
    while (tp_truth(tp_gt(a, zero))) {
        a = tp_sub(a, one);
        sum = tp_add(sum, a);
    }
    while (tp_truth(tp_gt(b, zero))) {
        b = tp_sub(b, one);
        sum = tp_mul(sum, one);
    }
    out[0] = sum;
}

/* Both ways on one line are not told apart well: what they are compared with is as long as the recording. */
#define TURN                                                                                   \
    if (tp_truth(tp_gt(a, one))) {                                                             \
        b = tp_sub(b, one);                                                                    \
        a = tp_mul(tp_sub(a, one), tp_scalar_like(n, 0.5));                                    \
        c = tp_add(b, a);                                                                      \
    } else {                                                                                   \
        a = tp_add(tp_mul(a, two), b);                                                         \
        b = tp_add(b, two);                                                                    \
    }

BODY(of_two_ways)
{
    tp_tensor *n = in[0], *a = in[0], *b = in[1], *c = in[1];
    tp_tensor *zero = tp_scalar_like(n, 0), *one = tp_scalar_like(n, 1),
              *two = tp_scalar_like(n, 2);
    while (tp_truth(tp_gt(n, zero))) {
        TURN n = tp_sub(n, one);
    }
    out[0] = tp_add(tp_add(a, c), b);
}

/* 800 turns took a minute when each was followed anew. */
static void many_turns_of_two_ways(void **state)
{
    static const int turns[] = {3, 5, 7, 300, 800};
    tp_function *f =
        tp_function_new(*state, "f", of_two_ways, NULL,
                        &(tp_function_options){.pure = true, .engine = TP_ENGINE_TILES});
    tp_recording(*state, false);
    for (int i = 0; i < 5; i++)
        call2(f, tp_scalar(*state, TP_F32, turns[i]), tp_scalar(*state, TP_F32, i * 7 % 5));
}

#ifndef TPI_STRESS
static int count_looks(const tpi_flow *w, uint32_t site)
{
    int most = 0;
    for (int k = 0; k < w->n_traces; k++) {
        int n = 0;
        for (int i = 0; i < w->traces[k]->n; i++)
            n += w->traces[k]->items[i].kind == TPI_STEP_LOOK &&
                 w->traces[k]->items[i].site == site;
        most = n > most ? n : most;
    }
    return most;
}
#endif

/* Turns that are only counted are of the loop that nodes make: not of one that others will make. */
static void turns_of_nodes_that_are_gone(void **state)
{
    static const int turns[][2] = {
        {3,  1},
        {5,  1},
        {4,  1},
        {6,  1},
        {40, 1},
        {41, 1},
        {3,  2}
    };
    tp_function *f =
        tp_function_new(*state, "f", of_two_loops, NULL, &(tp_function_options){.pure = true});
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        call2(f, tp_scalar(*state, TP_F32, turns[i][0]),
              tp_scalar(*state, TP_F32, turns[i][1]));
#ifndef TPI_STRESS
    assert_int_equal(f->pure.n_flows, 1);
    const tpi_flow *w = f->pure.flows[0];
    assert_true(w->n_sites > 1);
    for (int i = 0; i < w->n_sites; i++)
        assert_true(w->sites[i].most <= count_looks(w, w->sites[i].site));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(too_many_blocks),
        CASE(turns_of_nodes_that_are_gone),
        CASE(many_turns_of_two_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
