/* L-BFGS: known minima, the conditions of the line search, and the same bits eagerly, captured and pure. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

enum { MOST = 4 };

/* A problem: its parameters, and what the loss reads. */
typedef struct problem {
    tp_ctx *tp;
    tp_tensor *w[MOST];
    int n, calls;
    tp_tensor *x, *y;
    tp_lbfgs *l;
    tp_loss_function *loss;
} problem;

static tp_tensor *rosenbrock(void *user)
{
    problem *p = user;
    p->calls++;
    tp_tensor *a = tp_sub(1, p->w[0]), *b = tp_sub(p->w[1], tp_square(p->w[0]));
    return tp_add(tp_square(a), tp_mul(tp_square(b), 100));
}

/* Of a whole vector: sum of 100 (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2, as elements. */
static tp_tensor *long_rosenbrock(void *user)
{
    problem *p = user;
    const int64_t n = tp_size(p->w[0], 0);
    tp_tensor *a = tp_slice(p->w[0], 0, 0, n - 1, 1), *b = tp_slice(p->w[0], 0, 1, n, 1);
    return tp_add(tp_mul(tp_square(tp_sub(b, tp_square(a))), 100), tp_square(tp_sub(1, a)));
}

static tp_tensor *logistic(void *user)
{
    problem *p = user;
    tp_tensor *z = tp_add(tp_matmul(p->x, p->w[0]), p->w[1]);
    return tp_add(tp_bce_with_logits(z, p->y, NULL, NULL, TP_MEAN),
                  tp_mul(tp_sum(tp_square(p->w[0]), TP_ALL, false), 0.05));
}

static problem valley(tp_ctx *tp, tp_dtype type, const tp_lbfgs_options *opt)
{
    problem p = {.tp = tp, .n = 2, .loss = rosenbrock};
    p.w[0] = tp_param(tp_scalar(tp, type, -1.2), "u");
    p.w[1] = tp_param(tp_scalar(tp, type, 1), "v");
    p.l = tp_lbfgs_new(tp, opt, 2, p.w);
    assert_non_null(p.l);
    return p;
}

static problem regression(tp_ctx *tp, tp_dtype type, const tp_lbfgs_options *opt)
{
    enum { N = 40, K = 3 };
    double x[N * K], y[N];
    for (int i = 0; i < N * K; i++)
        x[i] = (i * 7919) % 101 / 50.0 - 1;
    for (int i = 0; i < N; i++)
        y[i] = (i * 37) % 11 < 5;
    problem p = {.tp = tp, .n = 2, .loss = logistic};
    p.x = tp_cast(tp_tensor_new(tp, TP_F64, TP_DIMS(N, K), x), type);
    p.y = tp_cast(tp_tensor_new(tp, TP_F64, TP_DIMS(N), y), type);
    p.w[0] = tp_param(tp_full(tp, type, TP_DIMS(K), 0), "w");
    p.w[1] = tp_param(tp_scalar(tp, type, 0), "b");
    p.l = tp_lbfgs_new(tp, opt, 2, p.w);
    return p;
}

static void near(const char *what, double got, double want, double most)
{
    if (!(fabs(got - want) <= most))
        fail_msg("%s is %.17g, not %.17g", what, got, want);
}

static void finds_the_valley(void **state)
{
    tp_ctx *tp = *state;
    problem p = valley(tp, TP_F64, &(tp_lbfgs_options){.turns = 100, .change = 1e-18});
    const double f = tp_item(tp_lbfgs_step(p.l, p.loss, &p));
    assert_string_equal(tp_error_message(tp), "");
    near("the loss", f, 0, 1e-14);
    near("u", tp_item(p.w[0]), 1, 1e-7);
    near("v", tp_item(p.w[1]), 1, 1e-7);
    if (p.calls > 100)
        fail_msg("%d evaluations of the loss", p.calls);
    assert_true(f == tp_item(rosenbrock(&p))); /* that of the new parameters */
    tp_lbfgs_free(p.l);
    p = valley(tp, TP_F32, NULL);
    for (int i = 0; i < 4; i++)
        tp_lbfgs_step(p.l, p.loss, &p);
    near("u", tp_item(p.w[0]), 1, 1e-3);
    near("v", tp_item(p.w[1]), 1, 1e-3);
    tp_lbfgs_free(p.l);
}

static void finds_long_valleys(void **state)
{
    tp_ctx *tp = *state;
    problem p = {.tp = tp, .n = 1, .loss = long_rosenbrock};
    p.w[0] = tp_param(tp_full(tp, TP_F64, TP_DIMS(20), -0.5), "x");
    p.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = 300, .history = 5, .change = 1e-18}, 1,
                       p.w);
    near("the loss", tp_item(tp_lbfgs_step(p.l, p.loss, &p)), 0, 1e-12);
    double x[20];
    tp_read(p.w[0], x, sizeof x);
    for (int i = 0; i < 20; i++)
        near("x", x[i], 1, 1e-6);
    tp_lbfgs_free(p.l);
}

/* The minimum by Newton's method in NumPy. */
static void fits_a_regression(void **state)
{
    tp_ctx *tp = *state;
    static const double best[] = {-0.229396271365677, -0.23834106099777, -0.176233143704058,
                                  -0.11081445136725};
    problem p = regression(tp, TP_F64, &(tp_lbfgs_options){.turns = 50, .change = 1e-18});
    near("the loss", tp_item(tp_lbfgs_step(p.l, p.loss, &p)), 0.682310553787394, 1e-12);
    double w[3];
    tp_read(p.w[0], w, sizeof w);
    for (int i = 0; i < 3; i++)
        near("w", w[i], best[i], 1e-6);
    near("b", tp_item(p.w[1]), best[3], 1e-6);
    /* and there it stays */
    p.calls = 0;
    const double b = tp_item(p.w[1]);
    tp_lbfgs_step(p.l, p.loss, &p);
    near("b", tp_item(p.w[1]), b, 1e-6);
    tp_lbfgs_free(p.l);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)in, (void)n_out;
    problem *p = user;
    out[0] = tp_lbfgs_step(p->l, p->loss, p);
}

static void expect_same(const char *mode, int step, tp_tensor *got, tp_tensor *want)
{
    char why[300];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("step %d, %s: %s", step, mode, why);
}

static void same_bits(void **state)
{
    tp_ctx *tp = *state;
    const tp_lbfgs_options few = {.turns = 4, .history = 3};
    static const char *const modes[] = {"captured", "pure"};
    for (int kind = 0; kind < 5; kind++) { /* the last by C */
        problem (*const make)(tp_ctx *, tp_dtype, const tp_lbfgs_options *) =
            kind % 4 < 2 ? valley : regression;
        const tp_dtype type = kind % 2 ? TP_F32 : TP_F64;
        problem a = make(tp, type, &few), b[2] = {make(tp, type, &few), make(tp, type, &few)};
        tp_function *f[2];
        for (int k = 0; k < 2; k++)
            f[k] = tp_function_new(
                tp, "fit", body, &b[k],
                &(tp_function_options){.engine = kind < 4 ? TP_ENGINE_TILES : TP_ENGINE_C,
                                       .pure = k == 1});
        for (int i = 0; i < 8; i++) {
            tp_scope_begin(tp);
            tp_tensor *want = tp_lbfgs_step(a.l, a.loss, &a), *got;
            for (int k = 0; k < 2; k++) {
                assert_int_equal(tp_function_call(f[k], 0, NULL, 1, &got), TP_OK);
                expect_same(modes[k], i, got, want);
                for (int w = 0; w < a.n; w++)
                    expect_same(modes[k], i, b[k].w[w], a.w[w]);
                for (int s = 0; s < tp_lbfgs_n_state(a.l); s++)
                    expect_same(modes[k], i, tp_lbfgs_state(b[k].l, s), tp_lbfgs_state(a.l, s));
            }
            tp_scope_end(tp);
        }
        tp_lbfgs_free(a.l);
        for (int k = 0; k < 2; k++) {
            tp_lbfgs_free(b[k].l);
            tp_function_free(f[k]);
        }
    }
    assert_string_equal(tp_error_message(tp), "");
}

/* A loss that fails, or is none, or is NaN: nothing has changed. */
static tp_tensor *odd_loss(void *user)
{
    problem *p = user;
    p->calls++;
    switch (p->n) {
    case 0:
        return NULL;
    case 1:
        return tp_scalar(p->tp, TP_F64, 1);
    case 2:
        return p->calls < 4 ? rosenbrock(p) : tp_add(p->w[0], NULL);
    default:
        return tp_placeholder(tp_graph_new(p->tp), "x", TP_F64, TP_SCALAR);
    }
}

static void changes_whole(void **state)
{
    tp_ctx *tp = *state;
    static const tp_status wrong[] = {TP_E_NULL, TP_E_STATE, TP_E_NULL, TP_E_STATE};
    problem p = valley(tp, TP_F64, NULL);
    for (int i = 0; i < 4; i++) {
        p.n = i;
        p.calls = 0;
        assert_int_equal(tp_status_of(tp_lbfgs_step(p.l, odd_loss, &p)), wrong[i]);
        tp_clear_error(tp);
        assert_true(tp_item(p.w[0]) == -1.2 && tp_item(p.w[1]) == 1);
        assert_true(tp_item_i64(tp_lbfgs_state(p.l, 4)) == 0);
    }
    assert_true(tp_recording(tp, true));
    tp_assign(p.w[0], tp_scalar(tp, TP_F64, NAN));
    assert_true(isnan(tp_item(tp_lbfgs_step(p.l, rosenbrock, &p))));
    assert_true(tp_item(p.w[1]) == 1);
    tp_lbfgs_free(p.l);
}

/* log(x), which is NaN left of 0, and x - log(x): the search finds its way back. */
static tp_tensor *cliff(void *user)
{
    problem *p = user;
    return tp_sub(p->w[0], tp_log(p->w[0]));
}

static void comes_back_from_nan(void **state)
{
    tp_ctx *tp = *state;
    problem p = {.tp = tp, .n = 1};
    p.w[0] = tp_param(tp_scalar(tp, TP_F64, 3), "x");
    p.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.rate = 20}, 1, p.w);
    near("the loss", tp_item(tp_lbfgs_step(p.l, cliff, &p)), 1, 1e-12);
    near("x", tp_item(p.w[0]), 1, 1e-6);
    tp_lbfgs_free(p.l);
}

/* What a loss does to the optimiser that calls it, and to scopes and blocks. */
static tp_tensor *meddling_loss(void *user)
{
    problem *p = user;
    tp_ctx *tp = p->tp;
    switch (p->n) {
    case 0:
        return tp_lbfgs_step(p->l, rosenbrock, p);
    case 1:
        tp_lbfgs_free(p->l);
        return rosenbrock(p);
    case 2:
        tp_scope_begin(tp);
        tp_scope_begin(tp);
        return rosenbrock(p);
    default:
        tp_scope_end(tp);
        return rosenbrock(p);
    }
}

static void is_left_alone(void **state)
{
    tp_ctx *tp = *state;
    static const char *const texts[] = {
        "a step of this L-BFGS runs already",
        "L-BFGS is freed while a step of it runs",
        NULL,
        "the body of \"loss\" ends a scope that it did not begin",
    };
    problem plain = valley(tp, TP_F64, NULL);
    tp_tensor *want = tp_lbfgs_step(plain.l, rosenbrock, &plain);
    for (int i = 0; i < 4; i++) {
        problem p = valley(tp, TP_F64, NULL);
        p.n = i;
        tp_scope_begin(tp);
        tp_tensor *got = tp_lbfgs_step(p.l, meddling_loss, &p);
        if (tp_failed(got) != (i == 0))
            fail_msg("%d: %s", i, tp_error_message(tp));
        if (texts[i])
            EXPECT_ERROR(tp, TP_E_STATE, texts[i]);
        else
            assert_string_equal(tp_error_message(tp), "");
        if (i)
            assert_true(tp_item(got) == tp_item(want) &&
                        tp_item(p.w[0]) == tp_item(plain.w[0]));
        assert_int_equal(tp_scope_end(tp), TP_OK);
        assert_true(tp_recording(tp, true));
        p.calls = 0;
        assert_false(tp_failed(tp_lbfgs_step(p.l, rosenbrock, &p))); /* it is there still */
        tp_lbfgs_free(p.l);
    }
    tp_lbfgs_free(plain.l);
    assert_int_equal(tp_scope_end(tp), TP_E_STATE); /* none is left open */
    tp_clear_error(tp);
}

/* exp(x^2): infinite far away, as its gradient is. */
static tp_tensor *steep_loss(void *user)
{
    problem *p = user;
    return tp_exp(tp_square(p->w[0]));
}

/* The arithmetic of a line search makes no NaN that the trap would see. */
static void passes_the_trap(void **state)
{
    tp_ctx *tp = *state;
    tp_trap_nan(tp, true);
    problem p = valley(tp, TP_F64, &(tp_lbfgs_options){.turns = 100, .change = 1e-18});
    for (int i = 0; i < 3; i++)
        tp_lbfgs_step(p.l, p.loss, &p);
    assert_string_equal(tp_error_message(tp), "");
    near("u", tp_item(p.w[0]), 1, 1e-7);
    tp_lbfgs_free(p.l);
    p = (problem){.tp = tp, .n = 1, .loss = long_rosenbrock};
    p.w[0] = tp_param(tp_full(tp, TP_F32, TP_DIMS(20), -0.5), "x");
    p.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = 300, .change = 1e-12}, 1, p.w);
    for (int i = 0; i < 3; i++)
        tp_lbfgs_step(p.l, p.loss, &p);
    assert_string_equal(tp_error_message(tp), "");
    tp_lbfgs_free(p.l);
    p = (problem){.tp = tp, .n = 1};
    p.w[0] = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), ((double[]){3, -2})), "x");
    p.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.rate = 1e6, .turns = 50}, 1, p.w);
    tp_lbfgs_step(p.l, steep_loss, &p); /* the first length is much too long: infinite */
    assert_string_equal(tp_error_message(tp), "");
    near("x", tp_item(tp_sum(tp_abs(p.w[0]), TP_ALL, false)), 0, 1e-3);
    tp_lbfgs_free(p.l);
    tp_trap_nan(tp, false);
}

static void refuses(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w[2] = {tp_param(tp_scalar(tp, TP_F64, 3), "x"),
                       tp_param(tp_scalar(tp, TP_F32, 3), "y")};
    assert_null(tp_lbfgs_new(tp, NULL, 2, w));
    EXPECT_ERROR(tp, TP_E_DTYPE, "the parameters of L-BFGS are not of one type");
    assert_null(tp_lbfgs_new(tp, &(tp_lbfgs_options){.history = 101}, 1, w));
    EXPECT_ERROR(tp, TP_E_VALUE, "the history is not in 1 to 100");
    assert_null(tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = -1}, 1, w));
    EXPECT_ERROR(tp, TP_E_VALUE, "the number of turns is not above 0");
    assert_null(tp_lbfgs_new(tp, NULL, 0, w));
    tp_clear_error(tp);
}

static void survives_no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long fail_at = 1; !done; fail_at += 1 + fail_at / 16) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        problem p = {.tp = tp, .n = 2, .loss = rosenbrock};
        p.w[0] = tp_param(tp_scalar(tp, TP_F64, -1.2), "u");
        p.w[1] = tp_param(tp_scalar(tp, TP_F64, 1), "v");
        m.fail_at = m.calls + fail_at;
        p.l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = 3, .history = 2}, 2, p.w);
        tp_scope_begin(tp);
        done = !tp_failed(tp_lbfgs_step(p.l, p.loss, &p));
        m.fail_at = 0;
        if (!done) {
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
            assert_true(tp_item(p.w[0]) == -1.2 && tp_item(p.w[1]) == 1);
        }
        tp_scope_end(tp);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(finds_the_valley),  CASE(finds_long_valleys), CASE(fits_a_regression),
        CASE(same_bits),         CASE(changes_whole),      CASE(comes_back_from_nan),
        CASE(is_left_alone),     CASE(passes_the_trap),    CASE(refuses),
        CASE(survives_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
