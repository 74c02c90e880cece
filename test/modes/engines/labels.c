/* tp_cross_entropy takes labels 0..c-1 and no others, in every mode, and where only its gradient is asked for; and lengths
 * of sequences are 0..t. */
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

/* ---- lengths of 2 sequences of 3 steps -------------------------------------------------------- */

static tp_tensor *attend(tp_tensor *x, tp_tensor *lengths)
{
    tp_tensor *k = tp_reshape(x, 4, (int64_t[]){2, 1, 3, 2});
    return tp_attention(k, k, k, &(tp_attention_options){.lengths = lengths}, NULL);
}

static tp_tensor *go_on(tp_tensor *x, tp_tensor *lengths)
{
    tp_ctx *tp = tp_ctx_of(x);
    const tp_recurrent w = {.w = tp_full(tp, TP_F32, TP_DIMS(2, 4), 0.5),
                            .r = tp_full(tp, TP_F32, TP_DIMS(4, 4), 0.25)};
    return tp_rnn(x, &w, &(tp_recurrent_options){.batch_first = true, .lengths = lengths},
                  NULL);
}

static tp_tensor *read_as(tp_tensor *x, tp_tensor *times, tp_tensor *lengths)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *targets = tp_full(tp, TP_I64, TP_DIMS(2, 3), 1);
    return tp_ctc_loss(tp_swap(x, 0, 1), targets, times, lengths, 0, TP_SUM);
}

static tp_tensor *read_times(tp_tensor *x, tp_tensor *times)
{
    return read_as(x, times, tp_full(tp_ctx_of(x), TP_I64, TP_DIMS(2), 1));
}

static tp_tensor *read_lengths(tp_tensor *x, tp_tensor *lengths)
{
    return read_as(x, tp_full(tp_ctx_of(x), TP_I64, TP_DIMS(2), 3), lengths);
}

typedef tp_tensor *(*by_lengths)(tp_tensor *x, tp_tensor *lengths);
static const by_lengths all[] = {attend, go_on, read_times, read_lengths};
enum { N_ALL = sizeof all / sizeof *all };
static const int64_t no_length[] = {-1, 4, INT64_MIN, INT64_MAX};

static void measured(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = (*(const by_lengths *)user)(in[0], in[1]);
}

static tp_tensor *steps_of(tp_ctx *tp)
{
    static const float v[12] = {1, 2, 3, 0, -1, 0, 2, 1, 0, 1, 5, 2};
    return tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3, 2), v);
}

static void lengths_of_any_mode(void **state)
{
    tp_ctx *tp = *state;
    for (int k = 0; k < N_ALL; k++) {
        tp_function *f = tp_function_new(tp, "captured", measured, (void *)&all[k], NULL);
        tp_function *pure = tp_function_new(tp, "pure", measured, (void *)&all[k],
                                            &(tp_function_options){.pure = true});
        tp_tensor *x = steps_of(tp);
        for (int i = 0; i < 4; i++) {
            tp_tensor *lengths = labels_of(tp, no_length[i]);
            char why[80];
            snprintf(why, sizeof why, "%lld at position 1 of the %s is not in 0 to 3",
                     (long long)no_length[i], all[k] == read_times ? "times" : "lengths");
            expect_refused(tp, tp_failed(all[k](x, lengths)), "eager", why, no_length[i]);
            for (int way = 0; way < 2; way++) {
                tp_function *of = way ? pure : f;
                for (int64_t good = 0; good <= 3; good++)
                    assert_false(tp_failed(
                        tp_function_apply(of, 2, (tp_tensor *[]){x, labels_of(tp, good)})));
                tp_tensor *y = tp_function_apply(of, 2, (tp_tensor *[]){x, lengths});
                expect_refused(tp, tp_failed(y), way ? "pure" : "captured",
                               way ? "at position 1" : why, no_length[i]);
            }
        }
    }
}

static void lengths_in_graphs(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const feeds[] = {"x", "lengths"}, *const fetches[] = {"y"};
    for (int k = 0; k < 2 * N_ALL; k++) {
        tp_graph *g = tp_graph_new(tp);
        const by_lengths f = all[k / 2];
        const int64_t t = k % 2 && f == go_on ? tp_symbol(g, "t") : 3;
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2, t, 2));
        tp_name(f(x, tp_placeholder(g, "lengths", TP_I64, TP_DIMS(2))), "y");
        for (int e = 0; e < 3; e++) {
            tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches,
                                             &(tp_compile_options){.engine = engines[e]});
            tp_tensor *out;
            for (int i = 0; i < 4; i++) {
                tp_tensor *in[] = {steps_of(tp), labels_of(tp, no_length[i])};
                expect_refused(tp, tp_program_run(p, in, &out) != TP_OK, "graph",
                               "at position 1 is out of range for size 4", no_length[i]);
            }
            for (int64_t good = 0; good <= 3; good++) {
                tp_tensor *in[] = {steps_of(tp), labels_of(tp, good)};
                assert_int_equal(tp_program_run(p, in, &out), TP_OK);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(eager), CASE(in_graphs), CASE(lengths_of_any_mode),
                                       CASE(lengths_in_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
