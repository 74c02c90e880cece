/* Functions that call themselves, or each other: each depth that was seen is replayed, a new one runs the
 * body once, and one without end is an error, on a small stack too. */
#include "common/both.h"

#include <pthread.h>

typedef struct world {
    tp_function *f, *g;
    tp_tensor *w;
    int ran, line;
} world;

static tp_tensor *less(tp_tensor *x, double by)
{
    return tp_sub(x, tp_scalar_like(x, by));
}

static bool positive(world *s, tp_tensor *x)
{
    s->line = __LINE__ + 1;
    return tp_truth(tp_gt(tp_reduce_max(x, TP_ALL, false), tp_scalar_like(x, 0)));
}

/* ---- one that calls itself --------------------------------------------------------------------- */

/* What follows the inner call reads what was there before it, level by level. */
BODY(once)
{
    world *s = user;
    s->ran++;
    tp_tensor *x = tp_mul(in[0], s->w);
    out[0] = positive(s, in[0])
                 ? tp_sub(tp_mul(x, tp_scalar_like(x, 0.5)), call1(s->f, less(in[0], 1)))
                 : tp_tanh(x);
}

/* Twice: a tree of calls. */
BODY(twice)
{
    world *s = user;
    s->ran++;
    tp_tensor *x = tp_mul(in[0], s->w);
    if (positive(s, in[0]))
        x = tp_div(call1(s->f, less(in[0], 1)), tp_add(call1(s->f, less(in[0], 2)), x));
    out[0] = x;
}

/* In turns with `odd`, each with an op of its own. */
BODY(even)
{
    world *s = user;
    s->ran++;
    out[0] = positive(s, in[0]) ? tp_add(call1(s->g, less(in[0], 1)), tp_exp(in[0])) : s->w;
}

BODY(odd)
{
    world *s = user;
    s->ran++;
    out[0] = positive(s, in[0]) ? tp_mul(call1(s->f, less(in[0], 1)), s->w) : tp_neg(in[0]);
}

static tp_tensor *depth(bed *b, double n)
{
    const float x[] = {(float)n, (float)n - 0.25F};
    return tp_tensor_new(b->tp, TP_F32, TP_DIMS(2), x);
}

/* The depths, once without and once with a gradient. */
static void calls(bed *b, tp_body body, tp_body other, int most)
{
    static const int depths[] = {2, 2, 2, 3, 3, 3, 2, 0, 0, 0, 5, 5, 5, 1, 1, 1, 4, 4, 4, 5, 3};
    enum { N = sizeof depths / sizeof *depths };
    world s = {.w = tp_param(depth(b, 0.75), "w")};
    s.f = make_pure(b, "f", body, &s);
    s.g = make_pure(b, "g", other ? other : body, &s);
    tp_recording(b->tp, false);
    for (int i = 0; i < N; i++) {
        tp_scope_begin(b->tp);
        if (i == 9)
            settle(b);
        const int before = s.ran;
        note(b, "y", call1(s.f, depth(b, depths[i])));
        /* the third call of a depth, and what was seen before */
        const bool seen = (i >= 2 && depths[i] == depths[i - 2]) || i == 6 || i >= N - 2;
        if (!b->eager && !BOTH_STRESS && seen && s.ran != before)
            fail_msg("%s: call %d, of depth %d, runs the body", b->way->name, i, depths[i]);
        tp_scope_end(b->tp);
    }
    if (!b->eager && !BOTH_STRESS && s.ran > most)
        fail_msg("%s: the body ran %d times", b->way->name, s.ran);
    tp_recording(b->tp, true);
    for (int i = 0; i < N; i += 3) {
        tp_scope_begin(b->tp);
        tp_tensor *x = tp_require_grad(depth(b, depths[i])), *y = call1(s.f, x);
        note(b, "y", y);
        note(b, "dw", tp_grad(tp_sum(y, TP_ALL, false), s.w));
        note(b, "dx", tp_grad(tp_sum(y, TP_ALL, false), x));
        tp_scope_end(b->tp);
    }
    note_error(b, "error");
}

static void itself(bed *b)
{
    calls(b, once, NULL, 40);
}

static void a_tree(bed *b)
{
    calls(b, twice, NULL, 90);
}

static void each_other(bed *b)
{
    calls(b, even, odd, 40);
}

/* ---- the line of what is new ------------------------------------------------------------------- */

/* The log has the line of the look at which a new depth is not known; that call alone runs the body. */
static void told(void **state)
{
    (void)state;
    unit_memory m = {0};
    tp_ctx *tp = unit_open(&m);
    bed b = {.tp = tp};
    world s = {.w = depth(&b, 1)};
    const tp_function_options opt = {.pure = true, .engine = TP_ENGINE_REFERENCE};
    s.f = tp_function_new(tp, "f", once, &s, &opt);
    for (int i = 0; i < 3; i++)
        call1(s.f, depth(&b, 2));
    const int before = s.ran;
    log_begin();
    for (int i = 0; i < 3; i++)
        call1(s.f, depth(&b, i ? 3 : 2));
    char *text = log_end(), place[80];
    assert_int_equal(s.ran, before + 4);
    snprintf(place, sizeof place, "pure_recursion.c:%d: replay abandoned: an outcome", s.line);
    if (!strstr(text, place) || !strstr(text, "calls itself"))
        fail_msg("%s", text);
    free(text);
    tp_close(tp);
}

/* ---- without end ------------------------------------------------------------------------------- */

BODY(for_ever)
{
    world *s = user;
    s->ran++;
    out[0] = tp_mul(call1(s->g, tp_add(in[0], s->w)), in[0]);
}

/* At most so deep, to see what gradients do there. */
BODY(down)
{
    world *s = user;
    tp_tensor *x = tp_mul(in[0], s->w);
    out[0] = --s->ran > 0 ? tp_tanh(tp_add(x, call1(s->f, x))) : x;
}

static void refused(tp_ctx *tp, const tp_tensor *y)
{
    assert_int_equal(tp_status_of(y), TP_E_LIMIT);
    assert_int_equal(tp_error(tp), TP_E_LIMIT);
    if (!strstr(tp_error_message(tp), "both.c:") ||
        !strstr(tp_error_message(tp), "in each other"))
        fail_msg("%s", tp_error_message(tp));
    tp_clear_error(tp);
}

static void *without_end(void *user)
{
    static const tp_function_options all[] = {
        {.eager = true,  .pure = false, .check = false},
        {.eager = false, .pure = false, .check = false},
        {.eager = false, .pure = true,  .check = false},
        {.eager = false, .pure = true,  .check = true },
    };
    int *n = user;
    for (int i = 0; i < 4; i++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        bed b = {.tp = tp};
        world s = {.w = tp_param(depth(&b, 1), "w")};
        tp_function_options opt = all[i];
        opt.engine = TP_ENGINE_TILES;
        s.f = tp_function_new(tp, "f", for_ever, &s, &opt);
        s.g = tp_function_new(tp, "g", for_ever, &s, &opt);
        for (int k = 0; k < 3; k++)
            refused(tp, call1(s.f, depth(&b, 2)));
        s.g = s.f;
        refused(tp, call1(s.f, depth(&b, 2)));
        tp_function *f = s.f = tp_function_new(tp, "down", down, &s, &opt);
        for (int most = 8; most <= 1024; most *= 2) {
            s.ran = most;
            tp_tensor *y = tp_sum(call1(f, depth(&b, 2)), TP_ALL, false);
            tp_tensor *dw = tp_grad(y, s.w);
            if (tp_failed(y))
                break;
            n[i] = tp_failed(dw) ? n[i] : most;
        }
        tp_clear_error(tp);
        s.ran = 3;
        assert_false(tp_failed(call1(f, depth(&b, 2))));
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
    return n;
}

/* So many levels are there for whoever means it. */
static void enough(const int *n, int least)
{
    for (int i = 0; i < 4; i++)
        if (n[i] < least)
            fail_msg("way %d: gradients of %d levels only", i, n[i]);
}

static void no_end(void **state)
{
    (void)state;
    int n[4] = {0};
    without_end(n);
    enough(n, 512);
}

static void no_end_on_a_small_stack(void **state)
{
    (void)state;
    int n[4] = {0};
    pthread_t thread;
    pthread_attr_t attr;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, without_end, n), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    enough(n, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(itself),           ATTACK(a_tree),
        ATTACK(each_other),       cmocka_unit_test(told),
        cmocka_unit_test(no_end), cmocka_unit_test(no_end_on_a_small_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
