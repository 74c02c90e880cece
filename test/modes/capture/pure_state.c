/* Pure functions and all that is around them: state, arguments, modes, memory. Each scenario is run
 * eagerly too. */
#include "common/both.h"

#include <inttypes.h>

typedef struct world {
    bed *b;
    tp_tensor *w, *v, *n, *c;
    tp_optimizer *o;
    bool flag;
    double rate;
    int64_t ran;
} world;

static void prepare(world *s, bed *b)
{
    tp_ctx *tp = b->tp;
    *s = (world){.b = b, .rate = 0.5};
    s->w = tp_param(pattern(tp, TP_DIMS(3, 2), 0.05), "w");
    s->v = tp_param(pattern(tp, TP_DIMS(2), 0.1), "v");
    s->n = tp_variable(tp_scalar(tp, TP_F32, 0), "n");
    s->c = pattern(tp, TP_DIMS(4, 3), 0.2);
    s->o = tp_adam_new(tp, 0.05, &(tp_adam_options){.decay = 0.01}, 2,
                       (tp_tensor *const[]){s->w, s->v});
}

static bool positive(tp_tensor *x)
{
    return tp_truth(tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)));
}

static tp_tensor *input(bed *b, int rows, double scale)
{
    return pattern(b->tp, TP_DIMS(rows, 3), scale);
}

/* Replays of captured ways; the body ran at most so often. */
static void expect_ran(const world *s, int64_t most, int line)
{
#ifndef TPI_STRESS
    if (!s->b->eager && s->ran > most)
        fail_msg("line %d: %s: the body ran %" PRId64 " times, not %" PRId64, line,
                 s->b->way->name, s->ran, most);
#else
    (void)s, (void)most, (void)line;
#endif
}
#define EXPECT_RAN(s, most) expect_ran((s), (most), __LINE__)

/* ---- abandoned replays ------------------------------------------------------------------------ */

/* Writes and draws before each look. */
BODY(writes)
{
    world *s = user;
    s->ran++;
    tp_tensor *x = in[0], *u = tp_uniform_like(x, 0, 1);
    tp_assign(s->n, tp_add(s->n, tp_scalar_like(s->n, 1)));
    tp_tensor *h = tp_add(x, u);
    if (positive(x)) {
        tp_assign(s->v, tp_add(s->v, tp_sum(h, 1, (const int64_t[]){0}, false)));
        h = tp_add(h, s->v);
    }
    if (tp_truth(tp_gt(s->n, tp_scalar_like(s->n, 5))))
        tp_assign(s->n, tp_scalar_like(s->n, 0));
    out[0] = tp_mul(h, s->v);
    out[1] = tp_uniform_like(s->v, -1, 1);
}

static void abandoned(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "writes", writes, &s);
    for (int i = 0; i < 60; i++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = pattern(b->tp, TP_DIMS(3, 2), i < 3 || i % 5 ? -0.1 - i : 0.3 * i),
                  *y[2];
        tp_function_call(f, 1, &x, 2, y);
        note(b, "y", y[0]);
        note(b, "u", y[1]);
        note(b, "n", s.n);
        note(b, "v", s.v);
        note(b, "drawn outside", tp_uniform_like(x, 0, 1));
        tp_scope_end(b->tp);
        if (i == 30)
            settle(b);
    }
    EXPECT_RAN(&s, 8);
}

/* ---- constants --------------------------------------------------------------------------------- */

/* A product with a matrix that is known when the program is made, and so is packed for it. */
BODY(weighs)
{
    world *s = user;
    s->ran++;
    tp_tensor *n = tp_arange(s->b->tp, TP_F32, 3 * 40, 0, 1);
    out[0] = tp_matmul(in[0], tp_sin(tp_reshape(n, TP_DIMS(3, 40))));
}

static void constants(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "weighs", weighs, &s);
    for (int i = 0; i < 20; i++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = input(b, 4, 0.1), *y;
        tp_function_call(f, 1, &x, 1, &y);
        note(b, "y", y);
        tp_scope_end(b->tp);
        if (i % 5 == 4)
            settle(b);
    }
    EXPECT_RAN(&s, 8);
}

/* ---- training ------------------------------------------------------------------------------------ */

BODY(training)
{
    world *s = user;
    s->ran++;
    tp_tensor *y = tp_linear(in[0], s->w, s->v);
    if (positive(y))
        y = tp_tanh(y);
    tp_tensor *loss = tp_mean(tp_square(tp_sub(y, tp_scalar_like(y, 0.5))), TP_ALL, false);
    tp_tensor *done = tp_optimizer_step(s->o, loss);
    out[0] = tp_failed(done) ? done : loss;
}

static void steps(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "training", training, &s);
    for (int i = 0; i < 60; i++) {
        tp_scope_begin(b->tp);
        note(b, "loss", call1(f, input(b, 4, i % 3 ? 0.1 * (i % 7) : -0.2)));
        note(b, "w", s.w);
        note(b, "v", s.v);
        tp_scope_end(b->tp);
        if (i == 30)
            settle(b);
    }
    EXPECT_RAN(&s, 6);
    tp_tensor *loss = call1(f, input(b, 4, 0.1)); /* its gradient is refused in all modes */
    say(b, "afterwards: %s", tp_status_name(tp_backward(loss)));
    tp_clear_error(b->tp);
}

/* From outside: the gradient of the result. */
BODY(branching)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_linear(in[0], s->w, s->v);
    if (positive(h))
        h = tp_exp(tp_neg(h));
    out[0] = tp_sum(h, TP_ALL, false);
}

static void gradients(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "branching", branching, &s);
    for (int i = 0; i < 12; i++) {
        tp_scope_begin(b->tp);
        tp_recording(b->tp, i % 4 < 2);
        tp_tensor *x = input(b, 4, i % 3 ? 0.1 : -0.1);
        if (i % 5 == 4)
            tp_require_grad(x);
        tp_tensor *y = call1(f, x);
        note(b, "y", y);
        if (i % 4 < 2)
            note(b, "dw", tp_grad(y, s.w));
        tp_recording(b->tp, true);
        tp_scope_end(b->tp);
    }
}

/* The gradient of what a training step returned, for what the way back does not read: functions that are asked for one
 * are not replayed. */
BODY(shifted)
{
    world *s = user;
    s->ran++;
    tp_tensor *of_v = tp_mean(tp_square(tp_add(in[0], s->v)), TP_ALL, false);
    tp_tensor *loss = tp_add(of_v, tp_mean(tp_square(s->w), TP_ALL, false));
    tp_tensor *done = tp_optimizer_step(s->o, loss);
    out[0] = tp_failed(done) ? done : loss;
}

static void asked_from_outside(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "shifted", shifted, &s);
    for (int i = 0; i < 12; i++) {
        tp_tensor *loss = call1(f, pattern(b->tp, TP_DIMS(4, 2), 0.1 * i));
        note(b, "dv", tp_grad(loss, s.v));
        note_error(b, "of v");
        note(b, "dw", tp_grad(loss, s.w));
        note_error(b, "of w");
    }
}

typedef tp_tensor *(*question)(const world *s, tp_tensor *loss, tp_tensor *x);

/* Where replays have begun the first one is refused, and says so: then it is as eagerly. */
static void refused_once(bed *b, question ask)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "shifted", shifted, &s);
    for (int i = 0; i < 20; i++) {
        const int64_t before = s.ran;
        tp_tensor *x = pattern(b->tp, TP_DIMS(4, 2), 0.1 * i), *loss = call1(f, x);
        note(b, "loss", tp_detach(loss));
        if (i == 6)
            settle(b);
        if (i < 9)
            continue;
        if (i == 9)
            EXPECT_RAN(&s, 6);
        tp_tensor *d = ask(&s, loss, x);
        if (s.ran != before) {
            note(b, "asked", i == 9 ? x : d);
            continue;
        }
        assert_int_equal(i, 9);
        assert_true(tp_failed(d));
        assert_int_equal(tp_error(b->tp), TP_E_STATE);
        if (!strstr(tp_error_message(b->tp), "replayed"))
            fail_msg("%s: %s", b->way->name, tp_error_message(b->tp));
        tp_clear_error(b->tp);
        note(b, "asked", x);
    }
}

static tp_tensor *of_shift(const world *s, tp_tensor *loss, tp_tensor *x)
{
    (void)x;
    return tp_grad(loss, s->v);
}

static tp_tensor *of_later_sum(const world *s, tp_tensor *loss, tp_tensor *x)
{
    return tp_grad(tp_add(tp_square(loss), tp_mean(tp_mul(x, s->v), TP_ALL, false)), s->v);
}

/* Marked after the call that read it. */
static tp_tensor *of_argument(const world *s, tp_tensor *loss, tp_tensor *x)
{
    (void)s;
    return tp_grad(loss, tp_require_grad(x));
}

static void asked_late(bed *b)
{
    refused_once(b, of_shift);
    refused_once(b, of_later_sum);
    refused_once(b, of_argument);
}

/* A graph takes in what a loss was computed from: of a replay it can't. */
static void read_by_a_graph(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "shifted", shifted, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4, 2), 0.1), *loss = NULL;
    int64_t before = 0;
    for (int i = 0; i < 12; i++) {
        before = s.ran;
        loss = call1(f, x);
        if (i == 6)
            settle(b);
    }
    tp_graph *g = tp_graph_new(b->tp);
    tp_tensor *in = tp_placeholder(g, "in", TP_F32, TP_DIMS(1)), *out = NULL;
    if (s.ran == before) {
        assert_true(tp_failed(tp_add(in, loss)));
        assert_int_equal(tp_error(b->tp), TP_E_STATE);
        if (!strstr(tp_error_message(b->tp), "tp_detach"))
            fail_msg("%s: %s", b->way->name, tp_error_message(b->tp));
        tp_clear_error(b->tp);
    }
    tp_name(tp_add(in, tp_detach(loss)), "sum");
    const tp_feed feed = {"in", pattern(b->tp, TP_DIMS(1), 1)};
    tp_graph_run(g, 1, &feed, 1, (const char *const[]){"sum"}, &out);
    note(b, "sum", out);
    tp_graph_free(g);
}

/* A variable is assigned, and used after it: its gradient is asked from outside. */
BODY(assigning)
{
    const world *s = user;
    tp_assign(s->w, tp_mul(s->w, tp_scalar_like(s->w, 0.5)));
    out[0] = tp_sum(tp_tanh(tp_linear(in[0], s->w, s->v)), TP_ALL, false);
}

static void assigned_before(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "assigning", assigning, &s);
    for (int i = 0; i < 6; i++) {
        tp_tensor *y = call1(f, input(b, 4, 0.1 * i));
        say(b, "%s", tp_status_name(tp_backward(y)));
        note_error(b, "after");
        note(b, "dw", tp_grad_of(s.w));
        note(b, "dv", tp_grad_of(s.v));
    }
}

/* Gradients that the body leaves, and that it clears. */
BODY(backward)
{
    world *s = user;
    s->ran++;
    tp_tensor *loss = tp_mean(tp_square(tp_linear(in[0], s->w, s->v)), TP_ALL, false);
    tp_backward(loss);
    tp_recording(tp_ctx_of(loss), false);
    tp_assign(s->w, tp_sub(s->w, tp_mul(tp_grad_of(s->w), tp_scalar_like(s->w, 0.1))));
    tp_recording(tp_ctx_of(loss), true);
    if (s->flag)
        tp_zero_grad(s->w);
    out[0] = loss;
}

static void left_gradients(bed *b)
{
    for (int flag = 0; flag < 2; flag++) {
        world s;
        prepare(&s, b);
        s.flag = flag;
        tp_function *f = make_pure(b, "backward", backward, &s);
        for (int i = 0; i < 12; i++) {
            tp_scope_begin(b->tp);
            note(b, "loss", call1(f, input(b, 4, 0.1 * i)));
            note(b, "w", s.w);
            note(b, "dw", tp_grad_of(s.w));
            note(b, "dv", tp_grad_of(s.v));
            tp_scope_end(b->tp);
        }
    }
}

/* ---- what is looked at ----------------------------------------------------------------------------- */

BODY(watching)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_mul(in[0], tp_scalar_like(in[0], s->rate));
    out[0] = s->flag ? tp_tanh(h) : tp_matmul(h, s->w);
}

static void watched(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_tensor *other = pattern(b->tp, TP_DIMS(3, 2), 0.3);
    tp_tensor *const first = s.w;
    tp_function *f = make_pure(b, "watching", watching, &s);
    tp_function_watch(f, &s.flag, sizeof s.flag);
    tp_function_watch(f, &s.rate, sizeof s.rate);
    tp_function_watch(f, &s.w, sizeof(tp_tensor *)); /* which weight it is */
    for (int i = 0; i < 60; i++) {
        tp_scope_begin(b->tp);
        s.flag = i % 20 >= 15;
        s.rate = i < 30 ? 0.5 : 0.25;
        s.w = i % 6 < 3 ? first : other;
        note(b, "y", call1(f, input(b, 4, 0.1 * i)));
        tp_scope_end(b->tp);
        if (i == 20)
            settle(b);
    }
    EXPECT_RAN(&s, 18);
    note_error(b, "watching");
    if (tp_function_watch(f, NULL, 1) != TP_E_NULL ||
        tp_function_watch(f, &s, (size_t)1 << 30) != TP_E_VALUE)
        fail_msg("a watch of nothing, or of a gigabyte, is taken");
    tp_clear_error(b->tp);
}

/* ---- arguments ----------------------------------------------------------------------------------------- */

BODY(aliased)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_sub(tp_mul(in[0], s->c), in[1]);
    tp_assign(s->n, tp_mean(h, TP_ALL, false));
    out[0] = h;
    out[1] = in[1];
    out[2] = s->c;
}

static void aliases(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "aliased", aliased, &s);
    tp_tensor *x = input(b, 4, 0.5), *y = input(b, 4, 0.25);
    tp_tensor *const sets[][2] = {
        {s.c, x  },
        {x,   y  },
        {y,   x  },
        {x,   x  },
        {s.c, y  },
        {y,   y  },
        {x,   s.c},
        {y,   s.c},
        {s.c, s.c},
        {s.c, x  },
        {x,   y  },
        {y,   x  }
    };
    for (int i = 0; i < 48; i++) {
        tp_tensor *const *in = sets[i % 12];
        tp_tensor *out[3];
        tp_function_call(f, 2, in, 3, out);
        note(b, "h", out[0]);
        note(b, "n", s.n);
        say(b, "%d %d", out[1] == in[1], out[2] == s.c);
    }
}

/* A variable is given, and assigned; views of it; other types and sizes. */
BODY(given)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_add(in[0], tp_scalar_like(in[0], 1));
    if (tp_rank(in[0]) == 0)
        tp_assign(s->n, h);
    out[0] = tp_add(h, in[0]);
}

static void kinds(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "given", given, &s);
    for (int i = 0; i < 40; i++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = i % 8 == 0   ? s.n
                       : i % 8 == 1 ? tp_scalar(b->tp, TP_F32, i)
                       : i % 8 == 2 ? tp_transpose(input(b, 4, i), 2, (const int64_t[]){1, 0})
                       : i % 8 == 3 ? input(b, i, 1)
                       : i % 8 == 4 ? s.w
                       : i % 8 == 5 ? tp_cast(input(b, 4, i), TP_F64)
                       : i % 8 == 6 ? tp_reshape(s.n, 0, NULL)
                                    : input(b, 4, i);
        note(b, "y", call1(f, x));
        note(b, "n", s.n);
        tp_scope_end(b->tp);
    }
}

/* More sizes that come once than a function is replayed for, then one that comes again between others. */
static void sizes_that_come_once(bed *b)
{
    enum { ONCE = 30, CALLS = 120, AGAIN = 3, BEFORE_IT_IS_REPLAYED = 5 };
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "given", given, &s);
    for (int i = 0; i < CALLS; i++) {
        const bool again = i >= ONCE && i % AGAIN == 0;
        tp_scope_begin(b->tp);
        note(b, "y", call1(f, input(b, again ? CALLS + 1 : 1 + i, 0.5)));
        tp_scope_end(b->tp);
    }
    EXPECT_RAN(&s, CALLS - (CALLS - ONCE) / AGAIN + BEFORE_IT_IS_REPLAYED);
}

/* Results that outlive the next call, the function, and are given again. */
BODY(chained)
{
    world *s = user;
    s->ran++;
    out[0] = tp_mul(in[0], tp_scalar_like(in[0], 0.5));
    out[1] = out[0];
}

static void results(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "chained", chained, &s);
    tp_tensor *x = input(b, 4, 3), *kept[12][2];
    for (int i = 0; i < 12; i++) {
        tp_function_call(f, 1, &x, 2, kept[i]);
        x = kept[i][0];
    }
    EXPECT_RAN(&s, 2);
    discard(b, f);
    for (int i = 0; i < 12; i++)
        note(b, "kept", kept[i][i % 2]);
}

/* Errors that a run finds. */
BODY(picks)
{
    world *s = user;
    s->ran++;
    tp_assign(s->n, tp_add(s->n, tp_scalar_like(s->n, 1)));
    tp_tensor *i = tp_cast(tp_sum(in[0], 1, (const int64_t[]){1}, false), TP_I64);
    out[0] = tp_gather(s->c, i, 0);
}

static void failures(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "picks", picks, &s);
    for (int i = 0; i < 30; i++) {
        tp_scope_begin(b->tp);
        const float v[2] = {(float)(i % 5), 0};
        tp_tensor *y = call1(f, tp_tensor_new(b->tp, TP_F32, TP_DIMS(1, 2), v));
        note(b, "y", y);
        note_error(b, "after");
        note(b, "n", s.n);
        tp_scope_end(b->tp);
    }
}

/* An error beside the results is told at each call. */
BODY(mistaken)
{
    world *s = user;
    s->ran++;
    out[0] = tp_tanh(in[0]);
    if (positive(in[0]))
        tp_assign(in[0], out[0]); /* no variable */
}

static void mistakes(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "mistaken", mistaken, &s);
    for (int i = 0; i < 20; i++) {
        note(b, "y", call1(f, input(b, 2, i % 5 == 4 ? -0.1 : 0.1)));
        note_error(b, "after");
    }
}

/* Prints: it runs each time. */
BODY(printing)
{
    world *s = user;
    s->ran++;
    out[0] = tp_exp(in[0]);
    note_print(s->b, out[0]);
}

static void prints(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "printing", printing, &s);
    for (int i = 0; i < 10; i++)
        call1(f, input(b, 2, 0.1 * i));
    assert_int_equal(s.ran, 10);
    if (b->eager)
        return;
    char *text = tp_function_text(f);
    if (!text || !strstr(text, "prints"))
        fail_msg("no reason why it is not replayed: %s", text);
    tp_free(b->tp, text);
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

enum { CALLS = 8 };

typedef struct outcome {
    float y[CALLS][3], state[CALLS];
} outcome;

static bool call_once(tp_ctx *tp, tp_function *f, const world *s, int i, outcome *o)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_tensor *x = pattern(tp, TP_DIMS(3, 2), i % 3 == 2 ? 0.4 : -0.1 - i), *y[2];
    bool ok = tp_function_call(f, 1, &x, 2, y) == TP_OK;
    float all[6];
    ok = ok && tp_read(y[0], all, sizeof all) == TP_OK;
    if (ok)
        memcpy(o->y[i], all + 1, sizeof o->y[i]);
    tp_scope_end(tp);
    return ok && tp_read(s->n, &o->state[i], sizeof o->state[i]) == TP_OK;
}

/* Memory runs out at the n-th allocation: the call fails, nothing has changed, and it works again. */
static bool sweep_one(long n, outcome *all)
{
    unit_memory memory = {0};
    const tp_allocator a = {unit_alloc, unit_release, &memory};
    tp_ctx *tp =
        tp_open(&(tp_options){.allocator = &a, .seed = 5, .compiler = "/nonexistent/cc"});
    bed b = {.tp = tp};
    world s;
    prepare(&s, &b);
    tp_recording(tp, false);
    const tp_function_options opt = {.pure = true};
    tp_function *f = tp_function_new(tp, "writes", writes, &s, &opt);
    assert_non_null(f);
    outcome now;
    memory.fail_at = n ? memory.calls + n : 0;
    bool reached = false;
    for (int i = 0; i < CALLS; i++) {
        if (call_once(tp, f, &s, i, &now))
            continue;
        if (!n || memory.calls < memory.fail_at)
            fail_msg("allocation %ld: call %d fails with all the memory: %s", n, i,
                     tp_error_message(tp));
        assert_int_equal(tp_error(tp), TP_E_MEMORY);
        memory.fail_at = 0;
        tp_clear_error(tp);
        reached = true;
        tp_close(
            tp); /* what was drawn and written until then is as eagerly: see attack_memory.c */
        assert_int_equal(memory.bytes, 0);
        return reached;
    }
    reached = n && memory.calls >= memory.fail_at;
    if (n == 0)
        *all = now;
    else if (memcmp(&now, all, sizeof now) != 0)
        fail_msg("allocation %ld failed, nobody was told, and the bits differ", n);
    tp_close(tp);
    assert_int_equal(memory.bytes, 0);
    return reached;
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *text = getenv("ALLOC_SWEEP_STEP");
    const long step = text ? strtol(text, NULL, 10) : 1;
    outcome all;
    sweep_one(0, &all);
    long n = 1;
    while (sweep_one(n, &all))
        n += step > 0 ? step : 1;
    assert_true(n > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(abandoned),
        ATTACK(constants),
        ATTACK(steps),
        ATTACK(gradients),
        ATTACK(asked_from_outside),
        ATTACK(asked_late),
        ATTACK(read_by_a_graph),
        ATTACK(assigned_before),
        ATTACK(left_gradients),
        ATTACK(watched),
        ATTACK(aliases),
        ATTACK(kinds),
        ATTACK(sizes_that_come_once),
        ATTACK(results),
        ATTACK(failures),
        ATTACK(mistakes),
        ATTACK(prints),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
