/* Losses, normalisations and attention where they end: labels that are ignored, readings that there are none of,
 * queries that see nothing, norms of 0. Values and gradients, eagerly, captured, and in graphs with symbolic sizes. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

enum { T = 4, N = 2, C = 3, S = 2 };

static tp_tensor *whole(tp_ctx *tp, int rank, const int64_t *shape, const int64_t *v)
{
    return tp_tensor_new(tp, TP_I64, rank, shape, v);
}

static void expect_near(tp_tensor *t, int n, const double *right)
{
    t = tp_contiguous(tp_cast(t, TP_F64));
    const double *v = tp_data(t);
    assert_non_null(v);
    assert_int_equal(tp_count(t), n);
    for (int i = 0; i < n; i++)
        if (!(v[i] == right[i] || fabs(v[i] - right[i]) < 1e-6))
            fail_msg("element %d is %.9g, not %.9g", i, v[i], right[i]);
}

/* ---- readings --------------------------------------------------------------------------------------- */

/* x [t, n, c], targets [n, s], times [n], lengths [n] -> the loss of each line, and the gradient of their sum */
static void read_lines(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_ctc_loss(tp_log_softmax(in[0], 2), in[1], in[2], in[3], 0, TP_NONE);
    out[1] = tp_grad(tp_sum(out[0], TP_ALL, false), in[0]);
}

static void lines_of(tp_ctx *tp, tp_tensor **in)
{
    in[0] = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(T, N, C), -2, 2));
    in[1] = whole(tp, TP_DIMS(N, S), (const int64_t[]){1, 1, 2, 1});
    in[2] = whole(tp, TP_DIMS(N), (const int64_t[]){T, T - 1});
    in[3] = whole(tp, TP_DIMS(N), (const int64_t[]){S, S});
}

static void expect_same(tp_tensor *const *a, tp_tensor *const *b, const char *how)
{
    for (int i = 0; i < 2; i++) {
        char why[800];
        if (!same_tensors(a[i], b[i], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("%s, result %d: %s", how, i, why);
    }
}

static void readings_in_every_mode(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[4], *eager[2], *out[2];
    static const char *const feeds[] = {"x", "targets", "times", "lengths"};
    static const char *const fetches[] = {"loss", "dx"};
    tp_function *f = tp_function_new(tp, "read", read_lines, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        lines_of(tp, in);
        read_lines(NULL, 4, in, 2, eager);
        assert_int_equal(tp_function_call(f, 4, in, 2, out), TP_OK);
        expect_same(out, eager, "captured");
    }
    tp_graph *g = tp_graph_new(tp);
    const int64_t t = tp_symbol(g, "t"), n = tp_symbol(g, "n"), s = tp_symbol(g, "s");
    tp_tensor *x[] = {tp_placeholder(g, "x", TP_F32, TP_DIMS(t, n, C)),
                      tp_placeholder(g, "targets", TP_I64, TP_DIMS(n, s)),
                      tp_placeholder(g, "times", TP_I64, TP_DIMS(n)),
                      tp_placeholder(g, "lengths", TP_I64, TP_DIMS(n))};
    read_lines(NULL, 4, x, 2, out);
    assert_int_equal(tp_error(tp), TP_OK);
    for (int i = 0; i < 2; i++)
        tp_name(out[i], fetches[i]);
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    for (int i = 0; i < 3; i++) {
        tp_program *p = tp_graph_compile(g, 4, feeds, 2, fetches,
                                         &(tp_compile_options){.engine = engines[i]});
        assert_int_equal(tp_program_run(p, in, out), TP_OK);
        expect_same(out, eager, "as a graph");
    }
}

/* Two equal labels need a blank between them, and so three turns. */
static void no_reading(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[4], *out[2];
    lines_of(tp, in);
    in[2] = whole(tp, TP_DIMS(N), (const int64_t[]){2, 2});
    read_lines(NULL, 4, in, 2, out);
    const float *loss = tp_data(out[0]), *dx = tp_data(tp_contiguous(out[1]));
    assert_true(isinf(loss[0]) && loss[0] > 0 && loss[1] > 0 && loss[1] < 20);
    for (int i = 0; i < T * N * C; i++)
        assert_true(i / C % N ? isfinite(dx[i]) : dx[i] == 0);
    in[3] = whole(tp, TP_DIMS(N), (const int64_t[]){0, 1}); /* blanks alone, and one label */
    in[0] = tp_full(tp, TP_F32, TP_DIMS(T, N, C), 0);
    tp_tensor *sum = tp_ctc_loss(tp_log_softmax(in[0], 2), in[1], in[2], in[3], 0, TP_SUM);
    expect_near(sum, 1, (const double[]){log(9) + log(9) - log(3)});
    tp_tensor *mean = tp_ctc_loss(tp_log_softmax(in[0], 2), in[1], in[2], in[3], 0, TP_MEAN);
    expect_near(mean, 1, (const double[]){(log(9) + log(9) - log(3)) / 2});
}

/* ---- labels ----------------------------------------------------------------------------------------- */

static void ignored_labels(void **state)
{
    tp_ctx *tp = *state;
    static const float v[6] = {NAN, NAN, NAN, 0, 0, 0};
    tp_tensor *x = tp_require_grad(tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), v));
    tp_tensor *labels = whole(tp, TP_DIMS(2), (const int64_t[]){-1, 2});
    const tp_loss_options o = {.ignores = true, .ignored = -1}, all = {.ignores = true};
    tp_tensor *loss = tp_nll(x, labels, &o);
    expect_near(loss, 1, (const double[]){0});
    expect_near(tp_grad(loss, x), 6, (const double[]){0, 0, 0, 0, 0, -1});
    tp_tensor *outside = tp_nll(x, labels, NULL);
    assert_true(tp_failed(outside));
    assert_non_null(
        strstr(tp_error_message(tp), "nll: label -1 at position 0 is none of the 3 classes"));
    tp_clear_error(tp);
    labels = whole(tp, TP_DIMS(2), (const int64_t[]){0, 0});
    assert_true(isnan(tp_item(tp_nll(x, labels, &all)))); /* a mean of nothing */
}

/* ---- what is far from 1 ----------------------------------------------------------------------------- */

static void sure_probabilities(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *p =
        tp_require_grad(tp_tensor_new(tp, TP_F64, TP_DIMS(3), (const double[]){0, 1, 0.5}));
    tp_tensor *target = tp_tensor_new(tp, TP_F64, TP_DIMS(3), (const double[]){1, 1, 0.5});
    tp_tensor *loss = tp_bce(p, target, TP_NONE);
    expect_near(loss, 3, (const double[]){100, 0, log(2)});
    expect_near(tp_grad(tp_sum(loss, TP_ALL, false), p), 3, (const double[]){0, -1, 0});
    tp_tensor *x = tp_require_grad(
        tp_tensor_new(tp, TP_F32, TP_DIMS(3), (const float[]){-1e30f, 1e30f, 0}));
    target = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    loss = tp_bce_with_logits(x, target, NULL, NULL, TP_NONE);
    assert_true(tp_item(tp_select(loss, 0, 0)) > 9.9e29 && tp_item(tp_select(loss, 0, 1)) == 0);
    expect_near(tp_grad(tp_sum(loss, TP_ALL, false), x), 3, (const double[]){-1, 0, -0.5});
}

static void norms_of_nothing(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(tp_full(tp, TP_F64, TP_DIMS(2), 0));
    const double p[] = {1, 2, 3, INFINITY};
    for (int i = 0; i < 4; i++) {
        tp_tensor *y = tp_normalize(x, p[i], 0, 0.5);
        expect_near(y, 2, (const double[]){0, 0});
        expect_near(tp_grad(tp_sum(y, TP_ALL, false), x), 2, (const double[]){2, 2});
        expect_near(tp_normalize(x, p[i], 0, 0), 2, (const double[]){0, 0});
    }
    tp_tensor *d = tp_triplet(x, x, tp_full(tp, TP_F64, TP_DIMS(2), 3), 5, TP_SUM);
    expect_near(d, 1, (const double[]){5 - sqrt(18)});
    expect_near(tp_grad(d, x), 2, (const double[]){sqrt(0.5), sqrt(0.5)});
}

/* ---- attention -------------------------------------------------------------------------------------- */

static void nothing_to_see(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(tp_uniform(tp, TP_F64, TP_DIMS(1, 1, 2, 2), -1, 1));
    static const uint8_t seen[4] = {0, 0, 1, 0};
    const tp_attention_options o = {.mask = tp_tensor_new(tp, TP_BOOL, TP_DIMS(2, 2), seen)};
    tp_tensor *y = tp_attention(x, x, x, &o, NULL);
    const double *v = tp_data(y), *given = tp_data(x);
    assert_true(v[0] == 0 && v[1] == 0 && v[2] == given[0] && v[3] == given[1]);
    expect_near(tp_grad(tp_sum(y, TP_ALL, false), x), 4, (const double[]){1, 1, 0, 0});
}

/* Step by step, with what is kept of the past, as all at once. */
static void kept_past(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, 3, 4), -1, 1), *kept[2] = {NULL};
    tp_tensor *all = tp_attention(x, x, x, &(tp_attention_options){.causal = true}, NULL);
    for (int i = 0; i < 3; i++) {
        tp_tensor *one = tp_slice(x, 2, i, i + 1, 1), *now[2];
        const tp_attention_options o = {
            .past_key = kept[0], .past_value = kept[1], .causal = true};
        tp_tensor *y = tp_attention(one, one, one, &o, now);
        assert_true(tp_item(tp_reduce_max(tp_abs(tp_sub(y, tp_slice(all, 2, i, i + 1, 1))),
                                          TP_ALL, false)) < 1e-6);
        kept[0] = now[0];
        kept[1] = now[1];
    }
    assert_int_equal(tp_dim(kept[0], 2), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(readings_in_every_mode),
        CASE(no_reading),
        CASE(ignored_labels),
        CASE(sure_probabilities),
        CASE(norms_of_nothing),
        CASE(nothing_to_see),
        CASE(kept_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
