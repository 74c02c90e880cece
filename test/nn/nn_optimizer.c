/* Optimisers: against numbers computed by hand and by the formulas in double, eager against
 * graph bit for bit, what is refused, and what is left in memory. */
#include "common/unit.h"
#include "tapir/nn.h"

#include <math.h>

enum { STEPS = 20, N = 3 };

typedef struct kind {
    const char *name;
    bool adam;
    double momentum, beta1, beta2, eps, decay;
} kind;

static const kind kinds[] = {
    {"sgd",      false, 0,   0,   0,     0,    0  },
    {"momentum", false, 0.9, 0,   0,     0,    0  },
    {"adam",     true,  0,   0.9, 0.999, 1e-8, 0  },
    {"adamw",    true,  0,   0.8, 0.99,  1e-6, 0.1},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static tp_optimizer *make(tp_ctx *tp, const kind *k, double rate, int n,
                          tp_tensor *const *params)
{
    return k->adam ? tp_adam_new(tp, rate, k->beta1, k->beta2, k->eps, k->decay, n, params)
                   : tp_sgd_new(tp, rate, k->momentum, n, params);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

/* loss = w^2, so that g = 2 w; each step written out from the header's formulas. */
static double by_hand(const kind *k, double w, double rate, int steps)
{
    double m = 0, v = 0;
    for (int t = 1; t <= steps; t++) {
        const double g = 2 * w;
        if (!k->adam) {
            v = k->momentum * v + g;
            w -= rate * v;
            continue;
        }
        m = k->beta1 * m + (1 - k->beta1) * g;
        v = k->beta2 * v + (1 - k->beta2) * g * g;
        const double m1 = m / (1 - pow(k->beta1, t)), v1 = v / (1 - pow(k->beta2, t));
        w = (1 - rate * k->decay) * w - rate * m1 / (sqrt(v1) + k->eps);
    }
    return w;
}

static void follows_the_formulas(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_KINDS; i++) {
        tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), "w");
        tp_optimizer *o = make(tp, &kinds[i], 0.05, 1, &w);
        for (int t = 1; t <= STEPS; t++) {
            tp_scope_begin(tp);
            assert_true(tp_truth(tp_optimizer_step(o, tp_square(w))));
            tp_scope_end(tp);
            const double got = tp_item(w), right = by_hand(&kinds[i], 1.5, 0.05, t);
            if (!(fabs(got - right) <= 1e-12))
                fail_msg("%s, step %d: w is %.17g, not %.17g", kinds[i].name, t, got, right);
        }
        tp_optimizer_free(o);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* By arithmetic on paper: loss = sum(c * w), so that g = c at each step. */
static void first_steps_on_paper(void **state)
{
    tp_ctx *tp = *state;
    const double start[2] = {1, -2}, c[2] = {0.5, -4};
    tp_tensor *slope = tp_tensor_new(tp, TP_F64, TP_DIMS(2), c);

    /* v = g, then 0.5 g + g = 1.5 g: w - 0.1 g - 0.15 g. */
    tp_tensor *w = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), start), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.1, 0.5, 1, &w);
    for (int t = 0; t < 2; t++)
        tp_optimizer_step(o, tp_mul(w, slope));
    double got[2];
    tp_read(w, got, sizeof got);
    assert_true(fabs(got[0] - 0.875) < 1e-15 && fabs(got[1] - -1) < 1e-15);
    tp_optimizer_free(o);

    /* A constant gradient makes m' = g and v' = g^2: each step is the rate, whatever its size. */
    w = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), start), "w");
    o = tp_adam_new(tp, 0.1, 0.9, 0.999, 0, 0, 1, &w);
    for (int t = 0; t < 3; t++)
        tp_optimizer_step(o, tp_mul(w, slope));
    tp_read(w, got, sizeof got);
    assert_true(fabs(got[0] - 0.7) < 1e-14 && fabs(got[1] - -1.7) < 1e-14);
    tp_optimizer_free(o);
}

static void rate_changes(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.25, 0, 1, &w);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_SCALAR);
    tp_name(tp_optimizer_step(o, tp_mul(x, w)), "train");
    tp_tensor *out, *one = tp_scalar(tp, TP_F32, 1);
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == 0.75);
    assert_int_equal(tp_optimizer_set_rate(o, 0.5), TP_OK);
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == 0.25);
    tp_optimizer_step(o, tp_mul(one, w));
    assert_true(tp_item(w) == -0.25);
    tp_optimizer_free(o); /* the graph still has what it needs */
    tp_graph_run(g, TP_FEEDS({"x", one}), TP_NAMES("train"), &out);
    assert_true(tp_item(w) == -0.75);
    assert_string_equal(tp_error_message(tp), "");
}

/* ---- eager and graph ---------------------------------------------------------------------------- */

/* A small network with parameters of both float types, one of which the loss does not use. */
typedef struct net {
    tp_dense a, b;
    tp_tensor *wide, *idle, *params[6];
} net;

static net net_new(tp_ctx *tp)
{
    net n;
    tp_seed(tp, 42);
    n.a = tp_dense_new(tp, "a", N, 5);
    n.b = tp_dense_new(tp, "b", 5, 2);
    n.wide = tp_param(tp_uniform(tp, TP_F64, TP_DIMS(2), -1, 1), "wide");
    n.idle = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(4), -1, 1), "idle");
    tp_tensor *const params[6] = {n.a.w, n.a.b, n.b.w, n.b.b, n.wide, n.idle};
    memcpy(n.params, params, sizeof params);
    return n;
}

static tp_tensor *loss_of(const net *n, tp_tensor *x)
{
    tp_tensor *h = tp_dense_apply(&n->b, tp_tanh(tp_dense_apply(&n->a, x)));
    return tp_mean(tp_square(tp_sub(tp_mul(h, n->wide), tp_scalar_like(h, 1))), TP_ALL, false);
}

static void same_bits_as_a_graph(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < N_KINDS; i++) {
        net a = net_new(tp), b = net_new(tp);
        tp_optimizer *oa = make(tp, &kinds[i], 0.03, 6, a.params);
        tp_optimizer *ob = make(tp, &kinds[i], 0.03, 6, b.params);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "batch"), N));
        tp_tensor *loss = tp_name(loss_of(&b, x), "loss");
        tp_name(tp_optimizer_step(ob, loss), "train");
        for (int t = 0; t < STEPS; t++) {
            tp_scope_begin(tp);
            tp_tensor *value = tp_normal(tp, TP_F32, TP_DIMS(1 + t % 4, N), 0, 1), *out[2];
            loss = loss_of(&a, value);
            assert_true(tp_truth(tp_optimizer_step(oa, loss)));
            tp_graph_run(g, TP_FEEDS({"x", value}), TP_NAMES("loss", "train"), out);
            assert_string_equal(tp_error_message(tp), "");
            const double la = tp_item(loss), lb = tp_item(out[0]);
            if (memcmp(&la, &lb, sizeof la) != 0)
                fail_msg("%s, step %d: loss %.17g eagerly, %.17g in the graph", kinds[i].name,
                         t, la, lb);
            for (int k = 0; k < 6; k++) {
                const size_t size =
                    (size_t)tp_count(a.params[k]) * tp_dtype_size(tp_dtype_of(a.params[k]));
                if (memcmp(tp_data(a.params[k]), tp_data(b.params[k]), size) != 0)
                    fail_msg("%s, step %d: parameter %s differs", kinds[i].name, t,
                             tp_name_of(a.params[k]));
            }
            tp_scope_end(tp);
        }
        tp_optimizer_free(oa);
        tp_optimizer_free(ob);
        tp_graph_free(g);
    }
}

/* ---- misuse and memory ---------------------------------------------------------------------------- */

static void refused(tp_ctx *tp, const tp_optimizer *o, tp_status status, const char *text)
{
    assert_null(o);
    assert_int_equal(tp_error(tp), status);
    assert_non_null(strstr(tp_error_message(tp), text));
    assert_non_null(strstr(tp_error_message(tp), "nn_optimizer.c:"));
    tp_clear_error(tp);
}

static void refuses_to_be_made(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_tensor *plain = tp_variable(tp_scalar(tp, TP_F32, 1), "plain");
    tp_tensor *twice[2] = {w, w}, *hole[2] = {w, NULL};
    refused(tp, tp_sgd_new(tp, 0.1, 0, 0, &w), TP_E_VALUE, "needs parameters");
    refused(tp, tp_sgd_new(tp, 0.1, 0, 1, NULL), TP_E_NULL, "needs parameters");
    refused(tp, tp_sgd_new(tp, 0.1, 0, 2, hole), TP_E_NULL,
            "parameter 1 of the optimizer is NULL");
    refused(tp, tp_sgd_new(tp, 0.1, 0, 2, twice), TP_E_VALUE,
            "parameter 1 of the optimizer is there twice");
    refused(tp, tp_sgd_new(tp, 0.1, 0, 1, &plain), TP_E_STATE, "tp_param");
    refused(tp, tp_sgd_new(tp, NAN, 0, 1, &w), TP_E_VALUE, "rate");
    refused(tp, tp_sgd_new(tp, 0.1, 1, 1, &w), TP_E_VALUE, "momentum");
    refused(tp, tp_adam_new(tp, 0.1, 0.9, NAN, 0, 0, 1, &w), TP_E_VALUE, "beta");
    refused(tp, tp_adam_new(tp, 0.1, 0.9, 0.9, -1, 0, 1, &w), TP_E_VALUE, "eps");
    tp_tensor *bad = tp_fail(tp, TP_E_SHAPE, "spoiled before");
    tp_clear_error(tp);
    refused(tp, tp_sgd_new(tp, 0.1, 0, 1, &bad), TP_E_SHAPE, "spoiled before");
    assert_null(tp_sgd_new(NULL, 0.1, 0, 1, &w));
    tp_optimizer_free(NULL);
    assert_int_equal(tp_optimizer_set_rate(NULL, 1), TP_E_NULL);
}

static void refuses_a_step(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_scalar(tp, TP_F32, 1), "w");
    tp_optimizer *o = tp_sgd_new(tp, 0.1, 0, 1, &w);
    tp_tensor *loss = tp_scalar(tp, TP_F32, 3); /* of nothing */
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    assert_int_equal(tp_status_of(tp_optimizer_step(o, NULL)), TP_E_NULL);
    assert_int_equal(tp_status_of(tp_optimizer_step(NULL, loss)), TP_E_NULL);
    const bool was = tp_recording(tp, false);
    loss = tp_square(w);
    tp_recording(tp, was);
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    loss = tp_square(w);
    tp_assign(w, tp_scalar(tp, TP_F32, 2)); /* what was recorded is stale */
    assert_int_equal(tp_status_of(tp_optimizer_step(o, loss)), TP_E_STATE);
    assert_true(tp_item(w) == 2);
    tp_tensor *bad = tp_add(loss, NULL);
    assert_ptr_equal(tp_optimizer_step(o, bad), bad);
    assert_int_equal(tp_optimizer_set_rate(o, INFINITY), TP_E_VALUE);
    assert_true(tp_recording(tp, true));
}

static void leaves_nothing_behind(void **state)
{
    tp_ctx *tp = *state;
    net a = net_new(tp);
    for (int i = 0; i < 2 * N_KINDS; i++) {
        const bool warm =
            i >= N_KINDS; /* lists inside the context have grown as far as they do */
        const size_t before = tp_memory_bytes(tp);
        tp_scope_begin(tp);
        tp_optimizer *o = make(tp, &kinds[i % N_KINDS], 0.03, 6, a.params);
        tp_scope_end(tp);
        const size_t made = tp_memory_bytes(tp);
        for (int t = 0; t < 3; t++) {
            tp_scope_begin(tp);
            tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(4, N), 0, 1);
            assert_true(tp_truth(tp_optimizer_step(o, loss_of(&a, x))));
            tp_scope_end(tp);
            if (warm)
                assert_int_equal(tp_memory_bytes(tp), made);
        }
        tp_optimizer_free(o);
        if (warm)
            assert_int_equal(tp_memory_bytes(tp), before);
    }
}

/* Every allocation fails in turn: no crash, no leak, and no parameter half changed. */
static void survives_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        bool done = false;
        for (long fail_at = 1; !done; fail_at++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            assert_non_null(tp);
            tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), "w");
            tp_tensor *b = tp_param(tp_scalar(tp, TP_F64, 0.5), "b");
            assert_int_equal(tp_error(tp), TP_OK);
            m.fail_at = m.calls + fail_at;
            tp_scope_begin(tp);
            tp_optimizer *o = make(tp, &kinds[i], 0.05, 2, (tp_tensor *[]){w, b});
            tp_tensor *ok = tp_optimizer_step(o, tp_square(tp_mul(w, b)));
            done = !tp_failed(ok);
            m.fail_at = 0;
            if (!done) {
                assert_int_equal(tp_error(tp), TP_E_MEMORY);
                assert_true(tp_item(w) == 1.5 && tp_item(b) == 0.5);
            }
            tp_scope_end(tp);
            if (fail_at % 2)
                tp_optimizer_free(o);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

/* The state's names are made out of memory of their own, for which there is none. */
static void releases_what_it_retained(void **state)
{
    (void)state;
    static char name[100001];
    memset(name, 'w', sizeof name - 1);
    for (int i = 0; i < N_KINDS; i++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            tp_tensor *w = tp_param(tp_scalar(tp, TP_F64, 1.5), name);
            const uint64_t failures = tp->failures;
            m.fail_once = m.calls + n;
            tp_optimizer *o = make(tp, &kinds[i], 0.05, 1, &w);
            done = m.calls < m.fail_once;
            assert_true(o || (!done && tp_error(tp) == TP_E_MEMORY));
            if (tp->failures - failures >
                2) /* no memory, and the state's tensor that says so */
                fail_msg("%s, allocation %ld: something was released that was not retained",
                         kinds[i].name, n);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(follows_the_formulas),
        CASE(first_steps_on_paper),
        CASE(rate_changes),
        CASE(same_bits_as_a_graph),
        CASE(refuses_to_be_made),
        CASE(refuses_a_step),
        CASE(leaves_nothing_behind),
        CASE(survives_no_memory),
        CASE(releases_what_it_retained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
