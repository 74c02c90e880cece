/* tp_cross_entropy takes labels 0..c-1 and no others, in every mode, and where only its gradient is asked for. */
#include "common/unit.h"
#include "tapir/tapir.h"

static const int64_t bad[] = {-1, -3, 3, INT64_MIN, INT64_MAX};
enum { N_BAD = sizeof bad / sizeof *bad };

/* By the loss where labels are here when it is called, else by the op that reads them. */
static void expect_refused(tp_ctx *tp, bool failed, const char *mode, const char *why,
                           int64_t label)
{
    if (!failed || tp_error(tp) != TP_E_VALUE || !strstr(tp_error_message(tp), why))
        fail_msg("%s, label %lld: %s", mode, (long long)label,
                 failed ? tp_error_message(tp) : "taken");
    tp_clear_error(tp);
}

static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_cross_entropy(in[0], in[1]);
}

static tp_tensor *logits_of(tp_ctx *tp)
{
    static const float v[6] = {1, 2, 3, 0, 0, 0};
    return tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), v);
}

static tp_tensor *labels_of(tp_ctx *tp, int64_t label)
{
    return tp_tensor_new(tp, TP_I64, TP_DIMS(2), (const int64_t[]){2, label});
}

static void eager(void **state)
{
    tp_ctx *tp = *state;
    tp_function *f = tp_function_new(tp, "step", step, NULL, NULL);
    for (int i = 0; i < N_BAD; i++) {
        tp_tensor *x = logits_of(tp), *labels = labels_of(tp, bad[i]);
        expect_refused(tp, tp_failed(tp_cross_entropy(x, labels)), "eager",
                       "is none of the 3 classes", bad[i]);
        tp_tensor *good = tp_function_apply(f, 2, (tp_tensor *[]){x, labels_of(tp, 0)});
        assert_false(tp_failed(good));
        tp_item(good);
        tp_tensor *y = tp_function_apply(f, 2, (tp_tensor *[]){x, labels});
        if (!tp_failed(y))
            tp_item(y);
        expect_refused(tp, tp_error(tp) != TP_OK, "captured", "is none of the 3 classes",
                       bad[i]);
    }
    const double small = tp_item(tp_cross_entropy(
        logits_of(tp), tp_tensor_new(tp, TP_I8, TP_DIMS(2), (const int8_t[]){2, 0})));
    assert_true(small > 0.7 && small < 0.8);
}

static void in_graphs(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const feeds[] = {"x", "labels"}, *const fetches[] = {"loss", "dx"};
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        tp_graph *g = tp_graph_new(tp);
        const int64_t c = symbolic ? tp_symbol(g, "c") : 3;
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, c));
        tp_tensor *loss = tp_cross_entropy(x, tp_placeholder(g, "labels", TP_I64, TP_DIMS(2)));
        tp_name(loss, "loss");
        tp_name(tp_grad(loss, x), "dx");
        for (int k = 0; k < 6; k++) {
            tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches + k % 2,
                                             &(tp_compile_options){.engine = engines[k / 2]});
            tp_tensor *out;
            for (int i = 0; i < N_BAD; i++) {
                tp_tensor *in[] = {logits_of(tp), labels_of(tp, bad[i])};
                expect_refused(tp, tp_program_run(p, in, &out) != TP_OK, fetches[k % 2],
                               "out of range for size 3", bad[i]);
            }
            tp_tensor *in[] = {logits_of(tp), labels_of(tp, 0)};
            assert_int_equal(tp_program_run(p, in, &out), TP_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(eager), CASE(in_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
