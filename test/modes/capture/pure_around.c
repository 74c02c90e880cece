/* Pure functions and what is around their body: functions that they call, memory of the caller's, and what a
 * replay would leave out. */
#include "common/both.h"

#include <inttypes.h>

typedef struct world {
    bed *b;
    tp_function *inner;
    tp_tensor *w, *kept;
    bool flag;
    float rate, memory[6];
    int ran, released, effect;
} world;

static void prepare(world *s, bed *b)
{
    *s = (world){.b = b, .rate = 0.5F};
    s->w = tp_param(pattern(b->tp, TP_DIMS(3, 2), 0.05), "w");
    tp_recording(b->tp, false);
}

static tp_tensor *input(bed *b, int i)
{
    return pattern(b->tp, TP_DIMS(2, 3), 0.1 * (i % 5 + 1));
}

static void expect_ran(const world *s, int least, int most, int line)
{
    if (!s->b->eager && !BOTH_STRESS && (s->ran < least || s->ran > most))
        fail_msg("line %d: %s: the body ran %d times, not %d to %d", line, s->b->way->name,
                 s->ran, least, most);
}
#define EXPECT_RAN(s, least, most) expect_ran((s), (least), (most), __LINE__)

/* The text says why it is not replayed. */
static void expect_why(bed *b, tp_function *f, const char *why, int line)
{
    if (b->eager)
        return;
    char *text = tp_function_text(f);
    if (!text || !strstr(text, why))
        fail_msg("line %d: %s: no \"%s\" in\n%s", line, b->way->name, why, text);
    tp_free(b->tp, text);
}
#define EXPECT_WHY(b, f, why) expect_why((b), (f), (why), __LINE__)

/* ---- what functions inside watch -------------------------------------------------------------- */

BODY(looking)
{
    const world *s = user;
    tp_tensor *h = s->flag ? tp_exp(in[0]) : tp_neg(in[0]);
    out[0] = tp_mul(h, tp_scalar_like(h, (double)s->rate));
}

BODY(calling)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_matmul(in[0], s->w);
    out[0] = tp_add(s->inner ? call1(s->inner, h) : h, h);
}

static void inner_watch(bed *b)
{
    world s;
    prepare(&s, b);
    s.inner = make_pure(b, "looking", looking, &s);
    tp_function *f = make_pure(b, "calling", calling, &s);
    tp_function_watch(s.inner, &s.flag, sizeof s.flag);
    for (int i = 0; i < 30; i++) {
        tp_scope_begin(b->tp);
        s.flag = i % 7 > 3;
        note(b, "y", call1(f, input(b, i)));
        tp_scope_end(b->tp);
    }
    EXPECT_RAN(&s, 4, 4);
    tp_function_watch(s.inner, &s.rate, sizeof s.rate); /* after the outer one was recorded */
    for (int i = 0; i < 30; i++) {
        tp_scope_begin(b->tp);
        s.rate = i % 5 > 2 ? 2 : 0.5F;
        note(b, "y", call1(f, input(b, i)));
        tp_scope_end(b->tp);
    }
    EXPECT_RAN(&s, 6, 12);
    discard(b, s.inner);
    s.inner = NULL;
    s.rate = 3;
    for (int i = 0; i < 5; i++)
        note(b, "y", call1(f, input(b, i)));
    note_error(b, "error");
}

/* Two levels down. */
BODY(middle)
{
    const world *s = user;
    out[0] = call1(s->inner, tp_tanh(in[0]));
}

typedef struct tower {
    tp_function *f;
    int ran;
} tower;

BODY(top)
{
    tower *t = user;
    t->ran++;
    out[0] = tp_neg(call1(t->f, in[0]));
}

static void two_levels(bed *b)
{
    world s;
    prepare(&s, b);
    s.inner = make_pure(b, "looking", looking, &s);
    tower t = {.f = make_pure(b, "middle", middle, &s)};
    tp_function *f = make_pure(b, "top", top, &t);
    tp_function_watch(s.inner, &s.flag, sizeof s.flag);
    for (int i = 0; i < 20; i++) {
        s.flag = i % 6 > 2;
        note(b, "y", call1(f, input(b, i)));
    }
    if (!b->eager && !BOTH_STRESS)
        assert_int_equal(t.ran, 4);
}

/* ---- what a replay would leave out ------------------------------------------------------------ */

BODY(seeding)
{
    world *s = user;
    s->ran++;
    tp_seed(s->b->tp, 11);
    out[0] = tp_add(in[0], tp_uniform_like(in[0], 0, 1));
}

static void seeds(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "seeding", seeding, &s);
    for (int i = 0; i < 10; i++) {
        note(b, "y", call1(f, input(b, i)));
        note(b, "drawn", tp_uniform(b->tp, TP_F32, TP_DIMS(2), 0, 1));
    }
    EXPECT_WHY(b, f, "sets the seed");
}

BODY(placing)
{
    world *s = user;
    uint64_t seed, position;
    s->ran++;
    tp_random_position(s->b->tp, &seed, &position);
    tp_set_random_position(s->b->tp, seed + 1, position + 7);
    out[0] = tp_add(in[0], tp_uniform_like(in[0], 0, 1));
}

static void places(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "placing", placing, &s);
    for (int i = 0; i < 10; i++) {
        note(b, "y", call1(f, input(b, i)));
        note(b, "drawn", tp_uniform(b->tp, TP_F32, TP_DIMS(2), 0, 1));
    }
    EXPECT_WHY(b, f, "sets the seed");
}

/* What a body does beside its ops, by number; in_pure.txt has the functions. */
enum {
    KEEPS,
    CLEARS_GRADIENT,
    TRAPS,
    CLEARS_ERROR,
    NAMES_ARGUMENT,
    NAMES_RESULT,
    MARKS,
    STOPS_RECORDING,
    STOPS_TRAINING,
    LEAVES_STREAM,
    HANGS_HOOK,
    FREES_HOOK,
    N_EFFECTS,
    /* and what is no effect: */
    KEEPS_INSIDE,
    NAMES_INSIDE,
    MARKS_INSIDE,
    RECORDS_INSIDE,
    DRAWS_INSIDE,
    N_ALL
};

static tp_tensor *keep_gradient(void *user, tp_tensor *g)
{
    (void)user, (void)g;
    return NULL;
}

BODY(acting)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    s->ran++;
    tp_tensor *h = tp_matmul(in[0], s->w);
    out[0] = tp_exp(h);
    switch (s->effect) {
    case KEEPS:
        s->kept = tp_keep(h);
        break;
    case CLEARS_GRADIENT:
        tp_zero_grad(s->w);
        break;
    case TRAPS:
        tp_trap_nan(tp, !tp_trap_nan(tp, false));
        break;
    case CLEARS_ERROR:
        tp_clear_error(tp);
        break;
    case NAMES_ARGUMENT:
        tp_name(in[0], "input");
        break;
    case NAMES_RESULT:
        tp_name(out[0], "result");
        break;
    case MARKS:
        tp_require_grad(in[0]);
        break;
    case STOPS_RECORDING:
        tp_recording(tp, !tp_recording(tp, true));
        break;
    case STOPS_TRAINING:
        tp_training(tp, !tp_training(tp, true));
        break;
    case LEAVES_STREAM:
        tp_random_stream(tp, tp_random_stream(tp, 0) + 1);
        break;
    case HANGS_HOOK:
        tp_hook_on(tp_require_grad(h), tp_hook_new(tp, keep_gradient, NULL));
        break;
    case FREES_HOOK:
        tp_hook_free(tp_hook_new(tp, keep_gradient, NULL));
        break;
    case KEEPS_INSIDE:
        tp_scope_begin(tp);
        out[0] = tp_keep(tp_neg(h));
        tp_scope_end(tp);
        break;
    case NAMES_INSIDE:
        tp_name(h, "hidden");
        break;
    case MARKS_INSIDE:
        tp_require_grad(h);
        break;
    case DRAWS_INSIDE:
        tp_random_stream(tp, 3);
        out[0] = tp_add(out[0], tp_uniform_like(h, 0, 1));
        tp_random_stream(tp, 0);
        break;
    case RECORDS_INSIDE:
        tp_recording(tp, tp_recording(tp, true));
        break;
    default:
        break;
    }
}

static void acts(bed *b)
{
    for (int effect = 0; effect < N_ALL; effect++) {
        world s;
        if (effect == N_EFFECTS)
            continue;
        prepare(&s, b);
        s.effect = effect;
        tp_function *f = make_pure(b, "acting", acting, &s);
        for (int i = 0; i < 10; i++) {
            tp_scope_begin(b->tp);
            tp_tensor *x = input(b, i), *y = call1(f, x);
            note(b, "y", y);
            say(b, "%s %s %d", tp_name_of(x) ? tp_name_of(x) : "",
                tp_name_of(y) ? tp_name_of(y) : "", tp_requires_grad(x));
            if (effect == KEEPS)
                note(b, "kept", s.kept);
            say(b, "%d %d %d", tp_trap_nan(b->tp, false), tp_recording(b->tp, false),
                tp_training(b->tp, true));
            say(b, "%d", (int)tp_random_stream(b->tp, 0));
            tp_scope_end(b->tp);
        }
        if (effect < N_EFFECTS)
            EXPECT_WHY(b, f, "it changes what is around it");
        else
            EXPECT_RAN(&s, 1, 5);
    }
}

/* The last value is held, the one before let go. */
BODY(keeping)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_matmul(in[0], s->w);
    tp_release(s->kept);
    s->kept = tp_retain(s->flag ? in[0] : h);
    out[0] = tp_exp(h);
}

static void keeps(bed *b)
{
    for (int given = 0; given < 2; given++) {
        world s;
        prepare(&s, b);
        s.flag = given;
        tp_function *f = make_pure(b, "keeping", keeping, &s);
        s.kept = tp_retain(s.w);
        for (int i = 0; i < 10; i++) {
            tp_scope_begin(b->tp);
            note(b, "y", call1(f, input(b, i)));
            note(b, "kept", s.kept);
            tp_scope_end(b->tp);
        }
        tp_release(s.kept);
        EXPECT_WHY(b, f, "it retains or releases a tensor");
        note_error(b, "error");
    }
}

/* A weight that is made when it is first needed. */
BODY(making)
{
    world *s = user;
    s->ran++;
    if (!s->kept)
        s->kept = tp_retain(tp_variable(tp_full(s->b->tp, TP_F32, TP_DIMS(2), 0.25), "made"));
    out[0] = tp_matmul(in[0], s->w);
    tp_assign(s->kept, tp_add(s->kept, tp_sum(out[0], TP_DIMS(0), false)));
    out[0] = tp_add(out[0], s->kept);
}

static void makes_once(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "making", making, &s);
    for (int i = 0; i < 10; i++) {
        tp_scope_begin(b->tp);
        note(b, "y", call1(f, input(b, i)));
        note(b, "made", s.kept);
        tp_scope_end(b->tp);
    }
    EXPECT_RAN(&s, 2, 5);
    tp_release(s.kept);
    note_error(b, "error");
}

/* On each side another weight. */
BODY(choosing)
{
    world *s = user;
    s->ran++;
    const bool high = tp_truth(tp_gt(tp_sum(in[0], TP_ALL, false), tp_scalar_like(in[0], 0)));
    tp_tensor *h = tp_mul(in[0], high ? s->kept : s->w);
    out[0] = tp_exp(h);
    out[1] = tp_neg(in[1]);
}

/* Marked when a call has been made, a tensor is refused a gradient through the results that were computed from it, and
 * through no others. */
static void marks_late(bed *b)
{
    for (int marked = 0; marked < 4; marked++) {
        world s;
        prepare(&s, b);
        tp_tensor *x[2] = {0}, *y[2];
        s.w = pattern(b->tp, TP_DIMS(2, 3), 0.2);
        s.kept = pattern(b->tp, TP_DIMS(2, 3), 0.3);
        tp_recording(b->tp, true);
        tp_function *f = make_pure(b, "choosing", choosing, &s);
        for (int i = 0; i < 12; i++) {
            x[0] = pattern(b->tp, TP_DIMS(2, 3), i % 2 ? -0.1 * i : 0.1 * i);
            x[1] = pattern(b->tp, TP_DIMS(2, 3), 0.1);
            tp_function_call(f, 2, x, 2, y);
        }
        EXPECT_RAN(&s, 2, 4);
        tp_tensor *t[] = {s.w, s.kept, x[0], x[1]};
        tp_require_grad(t[marked]);
        for (int i = 0; i < 2; i++) {
            tp_tensor *z = tp_sum(tp_mul(y[i], t[marked]), TP_ALL, false);
            note(b, "dt", tp_grad(z, t[marked]));
            tp_clear_error(b->tp);
        }
    }
}

/* Held in the body only. */
BODY(holding)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_retain(tp_matmul(in[0], s->w));
    tp_retain(h);
    out[0] = tp_exp(h);
    tp_release(h);
    tp_release(h);
}

static void holds(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "holding", holding, &s);
    for (int i = 0; i < 10; i++)
        note(b, "y", call1(f, input(b, i)));
    EXPECT_RAN(&s, 2, 2);
}

/* ---- memory of the caller's ------------------------------------------------------------------- */

BODY(branching)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_matmul(in[0], s->w);
    if (tp_truth(tp_gt(tp_sum(in[0], TP_ALL, false), tp_scalar_like(h, 0))))
        h = tp_exp(h);
    out[0] = h;
    out[1] = n_in > 1 ? tp_sub(in[0], in[1]) : in[0];
}

static void release(void *user, void *data)
{
    world *s = user;
    s->released++;
    memset(data, 0xff, sizeof s->memory); /* NaNs for who looks at it now */
}

static void fill(float *to, int i)
{
    for (int k = 0; k < 6; k++)
        to[k] = (float)((i * 7 + k * 3) % 11 - 5 + (i % 2 ? 3 : -3)) / 4;
}

static tp_tensor *wrap(world *s, float *memory)
{
    return tp_tensor_wrap(s->b->tp, TP_F32, TP_DIMS(2, 3), memory, release, s);
}

static void call_both(bed *b, tp_function *f, int n, tp_tensor *const *in)
{
    tp_tensor *y[2];
    say(b, "%s", tp_status_name(tp_function_call(f, n, in, 2, y)));
    note(b, "y", y[0]);
    note(b, "x", y[1]);
}

/* Another tensor over the same memory in each call: it is released after each. */
static void wrapped_anew(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "branching", branching, &s);
    for (int i = 0; i < 30; i++) {
        tp_scope_begin(b->tp);
        fill(s.memory, i);
        tp_tensor *x = wrap(&s, s.memory);
        call_both(b, f, 1, &x);
        tp_scope_end(b->tp);
        assert_int_equal(s.released, i + 1);
        if (i == 10)
            settle(b);
    }
    EXPECT_RAN(&s, 2, 4);
}

/* One tensor; what is in its memory changes from call to call. And both at once. */
static void wrapped_once(bed *b)
{
    world s;
    prepare(&s, b);
    float other[6] = {0};
    tp_function *f = make_pure(b, "branching", branching, &s);
    tp_scope_begin(b->tp);
    tp_tensor *x = wrap(&s, s.memory);
    for (int i = 0; i < 20; i++) {
        fill(s.memory, i);
        call_both(b, f, 1, &x);
    }
    EXPECT_RAN(&s, 2, 4);
    for (int i = 0; i < 20; i++) {
        fill(s.memory, i);
        fill(other, i + 3);
        tp_tensor *const in[] = {x, wrap(&s, i % 3 ? other : s.memory)};
        call_both(b, f, 2, in);
    }
    EXPECT_RAN(&s, 4, 12);
    tp_scope_end(b->tp);
    assert_int_equal(s.released, 21);
}

/* A weight in memory of the caller's: read by the body itself it is not replayed. */
BODY(reaching)
{
    world *s = user;
    s->ran++;
    out[0] = tp_add(in[0], s->kept);
    out[1] = in[0];
}

static void refused(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "reaching", reaching, &s);
    tp_scope_begin(b->tp);
    s.kept = wrap(&s, s.memory);
    for (int i = 0; i < 6; i++) {
        fill(s.memory, i);
        tp_tensor *x = input(b, i);
        call_both(b, f, 1, &x);
    }
    EXPECT_WHY(b, f, "it reads wrapped memory (tp_tensor_wrap) that is no argument");
    tp_scope_end(b->tp);
    s.kept = s.w = pattern(b->tp, TP_DIMS(3, 2), 0.5);
    f = make_pure(b, "branching", branching, &s);
    log_begin();
    for (int i = 0; i < 6; i++) {
        tp_tensor *x = tp_transpose(pattern(b->tp, TP_DIMS(3, 2), 0.1 * (i + 1)), TP_ALL);
        call_both(b, f, 1, &x);
    }
    char *text = log_end();
    EXPECT_WHY(b, f, "an argument is a view with gaps (tp_contiguous makes");
    if (!b->eager && !strstr(text, "not replayed: an argument is a view with gaps"))
        fail_msg("%s: %s", b->way->name, text);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(inner_watch),  ATTACK(two_levels),   ATTACK(seeds),      ATTACK(places),
        ATTACK(keeps),        ATTACK(acts),         ATTACK(marks_late), ATTACK(holds),
        ATTACK(wrapped_anew), ATTACK(wrapped_once), ATTACK(refused),    ATTACK(makes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
