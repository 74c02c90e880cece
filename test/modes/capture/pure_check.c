/* The check mode: kept promises pass, broken ones are errors that name the line. */
#include "common/both.h"
#include "tapir/control.h"

typedef struct world {
    tp_tensor *w[2], *v;
    bool flag;
    int counter, line;
} world;

BODY(kept)
{
    const world *s = user;
    tp_tensor *h = tp_matmul(in[0], s->w[0]);
    while (tp_truth(tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 1))))
        h = tp_mul(h, tp_scalar_like(h, 0.5));
    if (tp_truth(tp_gt(tp_sum(in[0], TP_ALL, false), tp_scalar_like(h, 0))))
        h = tp_add(h, tp_uniform_like(h, 0, 1));
    tp_assign(s->v, h);
    out[0] = tp_add(h, s->v);
}

/* A flag that nobody watches. */
BODY(flagged)
{
    world *s = user;
    tp_tensor *h = tp_matmul(in[0], s->w[0]);
    if (s->flag) {
        s->line = __LINE__ + 1;
        h = tp_relu(h);
    }
    out[0] = tp_exp(h);
}

/* A weight that was swapped. */
BODY(swapped)
{
    world *s = user;
    s->line = __LINE__ + 1;
    out[0] = tp_exp(tp_matmul(in[0], s->w[s->flag]));
}

/* A number set inside a branch, used after it. */
BODY(leaked)
{
    world *s = user;
    double scale = 1;
    tp_tensor *x = in[0];
    if (tp_truth(tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0))))
        scale = 2;
    tp_tensor *y = tp_tanh(x);
    if (tp_truth(tp_gt(tp_reduce_max(x, TP_ALL, false), tp_scalar_like(x, 1))))
        y = tp_neg(y);
    s->line = __LINE__ + 1;
    out[0] = tp_mul(y, tp_scalar_like(y, scale));
}

/* A table that C makes anew in each call. */
BODY(counted)
{
    world *s = user;
    const float table[4] = {1, 2, 3, (float)s->counter++};
    tp_tensor *t = tp_tensor_new(tp_ctx_of(in[0]), TP_F32, TP_DIMS(1, 4), table);
    s->line = __LINE__ + 1;
    out[0] = tp_mul(in[0], t);
}

/* What no replay does: a tensor that stays, another seed. */
BODY(keeping)
{
    world *s = user;
    out[0] = tp_tanh(in[0]);
    if (s->flag)
        tp_retain(out[0]);
}

BODY(seeding)
{
    world *s = user;
    if (s->flag)
        tp_seed(tp_ctx_of(in[0]), 3);
    out[0] = tp_add(in[0], tp_uniform_like(in[0], 0, 1));
}

/* An effect in one call; test/modes/capture/pure_around.c has all of them. */
BODY(naming)
{
    world *s = user;
    out[0] = tp_tanh(in[0]);
    if (s->flag)
        tp_name(out[0], "result");
}

BODY(clearing)
{
    world *s = user;
    out[0] = tp_tanh(in[0]);
    if (s->flag)
        tp_clear_error(tp_ctx_of(in[0]));
}

static void open_world(tp_ctx **tp, world *s)
{
    *tp = tp_open(&(tp_options){.seed = 4});
    assert_non_null(*tp);
    *s = (world){0};
    for (int i = 0; i < 2; i++)
        s->w[i] = pattern(*tp, TP_DIMS(4, 4), 0.1 + i);
    s->v = tp_variable(tp_full(*tp, TP_F32, TP_DIMS(1, 4), 0), "v");
}

static tp_status call_with(tp_ctx *tp, tp_function *f, double first, double others)
{
    const float x[4] = {(float)first, (float)others, (float)others, (float)others};
    return tp_status_of(call1(f, tp_tensor_new(tp, TP_F32, TP_DIMS(1, 4), x)));
}

static const tp_function_options checked = {
    .pure = true, .check = true, .engine = TP_ENGINE_REFERENCE};

static void promises_kept(void **state)
{
    (void)state;
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    tp_function *f = tp_function_new(tp, "kept", kept, &s, &checked);
    for (int i = 0; i < 100; i++)
        if (call_with(tp, f, i % 13 - 6, i % 7 * 0.5) != TP_OK)
            fail_msg("call %d: %s", i, tp_error_message(tp));
    assert_int_equal(tp_function_stats_of(f).user_calls, 100);
    tp_close(tp);
}

static tp_tensor *first(tp_tensor *x)
{
    return tp_slice(x, 1, 0, 1, 1);
}

/* What was first comes last. */
static tp_tensor *turned(tp_tensor *x)
{
    tp_tensor *const parts[] = {tp_slice(x, 1, 1, TP_END, 1), tp_slice(x, 1, 0, 1, 1)};
    return tp_concat(2, parts, 1);
}

static bool is_positive(tp_tensor *x)
{
    return tp_truth(tp_gt(x, tp_scalar_like(x, 0)));
}

/* Branches in turns that C counts. What leaves a block is a copy of the variable, which is younger than
 * what the branch has made. */
BODY(branch_in_turns)
{
    const world *s = user;
    tp_tensor *x = in[0], *h = s->v, *k = s->v;
    for (int i = 0; i < 3; i++) {
        tp_if (tp_gt(first(x), tp_scalar_like(x, 0)), &h, &k) {
            k = tp_mul(h, h);
        }
        x = turned(x);
    }
    out[0] = tp_add(tp_sub(k, x), h);
}

/* Turns that C counts, each a loop that C counts and values end. */
BODY(loop_in_turns)
{
    tp_tensor *x = in[0];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++) {
            for (int n = 0; n < 2; n++)
                if (is_positive(first(x)))
                    break;
            x = turned(x);
        }
        x = tp_tanh(x);
    }
    out[0] = x;
}

/* Calls with six numbers that are positive where a bit is set. */
static void keeps(tp_body body, int n, const int *calls)
{
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    s.v = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1, 6), 0.5), "v");
    tp_recording(tp, false);
    tp_function *f = tp_function_new(tp, "in_turns", body, &s, &checked);
    for (int i = 0; i < n; i++) {
        float x[6];
        for (int k = 0; k < 6; k++)
            x[k] = calls[i] >> k & 1 ? 0.25F + (float)i : -0.75F;
        if (tp_status_of(call1(f, tp_tensor_new(tp, TP_F32, TP_DIMS(1, 6), x))) != TP_OK)
            fail_msg("call %d: %s", i, tp_error_message(tp));
    }
    tp_close(tp);
}

static void keeps_branch_in_turns(void **state)
{
    (void)state;
    static const int calls[] = {0, 5, 1, 0, 4, 6, 7, 2, 3};
    keeps(branch_in_turns, sizeof calls / sizeof *calls, calls);
}

static void keeps_loop_in_turns(void **state)
{
    (void)state;
    static const int calls[] = {7, 7, 15, 62, 7, 15, 62};
    keeps(loop_in_turns, sizeof calls / sizeof *calls, calls);
}

/* The error is about this line. */
static void expect_line(tp_ctx *tp, const world *s)
{
    char place[64];
    snprintf(place, sizeof place, "pure_check.c:%d:", s->line);
    assert_int_equal(tp_error(tp), TP_E_STATE);
    if (!strstr(tp_error_message(tp), place))
        fail_msg("not of line %d: %s", s->line, tp_error_message(tp));
    if (!strstr(tp_error_message(tp), "pure"))
        fail_msg("%s", tp_error_message(tp));
}

static void finds_as(const tp_function_options *options, tp_body body, bool flag)
{
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    tp_function *f = tp_function_new(tp, "broken", body, &s, options);
    tp_status status = TP_OK;
    for (int i = 0; i < 12 && status == TP_OK; i++) {
        s.flag = flag && i > 3;
        status = call_with(tp, f, i % 2 ? 3 : -7, i % 4 < 2 ? 2 : 0.25);
    }
    assert_int_equal(status, TP_E_STATE);
    expect_line(tp, &s);
    tp_close(tp);
}

static void finds(tp_body body, bool flag)
{
    finds_as(&checked, body, flag);
}

static void finds_a_flag(void **state)
{
    (void)state;
    finds(flagged, true);
}

static void finds_a_swapped_weight(void **state)
{
    (void)state;
    finds(swapped, true);
}

static void finds_a_leak(void **state)
{
    (void)state;
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    tp_function *f = tp_function_new(tp, "leaked", leaked, &s, &checked);
    const double first[] = {-7, 3, 2, -7, -7}, others[] = {0.25, 0.25, 0.25, 2, 2.5};
    tp_status status = TP_OK;
    for (int i = 0; i < 12 && status == TP_OK; i++)
        status = call_with(tp, f, first[i % 5], others[i % 5]);
    assert_int_equal(status, TP_E_STATE);
    expect_line(tp, &s);
    tp_close(tp);
}

static void finds_a_table(void **state)
{
    (void)state;
    finds(counted, false);
}

/* Without a line: these functions have none. */
static void finds_left_out(tp_body body, const char *what)
{
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    tp_function *f = tp_function_new(tp, "broken", body, &s, &checked);
    for (int i = 0; i < 4; i++)
        assert_int_equal(call_with(tp, f, i, 1), TP_OK);
    s.flag = true;
    assert_int_equal(call_with(tp, f, 5, 1), TP_E_STATE);
    if (!strstr(tp_error_message(tp), what))
        fail_msg("no \"%s\" in: %s", what, tp_error_message(tp));
    tp_close(tp);
}

static void finds_a_retained(void **state)
{
    (void)state;
    finds_left_out(keeping, "in this call it retains or releases a tensor");
}

static void finds_a_seed(void **state)
{
    (void)state;
    finds_left_out(seeding, "sets the seed");
}

static void finds_effects(void **state)
{
    (void)state;
    finds_left_out(naming, "in this call it changes what is around it");
    finds_left_out(clearing, "in this call it changes what is around it");
}

/* The variables of the environment do what the options do. */
static void environment(void **state)
{
    (void)state;
    tp_function_options plain = checked;
    plain.check = false;
    setenv("TAPIR_CHECK_PURE", "1", 1);
    finds_as(&plain, flagged, true);
    unsetenv("TAPIR_CHECK_PURE");
    setenv("TAPIR_EAGER", "1", 1);
    tp_ctx *tp;
    world s;
    open_world(&tp, &s);
    tp_function *f = tp_function_new(tp, "eager", flagged, &s, &plain);
    for (int i = 0; i < 3; i++)
        assert_int_equal(call_with(tp, f, 3, 2), TP_OK);
    const tp_function_stats stats = tp_function_stats_of(f);
    assert_int_equal(stats.user_calls, 3);
    assert_int_equal(stats.segments, 0);
    tp_close(tp);
    unsetenv("TAPIR_EAGER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_branch_in_turns),
        cmocka_unit_test(keeps_loop_in_turns),
        cmocka_unit_test(promises_kept),
        cmocka_unit_test(finds_a_flag),
        cmocka_unit_test(finds_a_swapped_weight),
        cmocka_unit_test(finds_a_leak),
        cmocka_unit_test(finds_a_table),
        cmocka_unit_test(finds_a_retained),
        cmocka_unit_test(finds_a_seed),
        cmocka_unit_test(finds_effects),
        cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
