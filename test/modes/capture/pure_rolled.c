/* Pure functions in which C writes out a loop of as many turns as a size says: calls of sizes that came before launch
 * the programs of turns again, without the body. */
#include "common/both.h"

enum { UNITS = 3, ROWS = 2, CALLS = 90 };

typedef struct world {
    bed *b;
    tp_tensor *w, *bias, *state, *table;
    tp_optimizer *adam;
    float scale;
    int64_t ran;
} world;

static void prepare(world *s, bed *b)
{
    tp_ctx *tp = b->tp;
    *s = (world){.b = b, .scale = 0.5F};
    s->w = tp_param(pattern(tp, TP_DIMS(UNITS, UNITS), 0.05), "w");
    s->bias = tp_param(pattern(tp, TP_DIMS(UNITS), 0.1), "bias");
    s->state = tp_variable(pattern(tp, TP_DIMS(ROWS, UNITS), 0.2), "state");
    s->table = pattern(tp, TP_DIMS(5, UNITS), 0.3);
    s->adam = tp_adam_new(tp, 0.05, NULL, 2, (tp_tensor *const[]){s->w, s->bias});
}

static tp_tensor *turn(const world *s, tp_tensor *x, tp_tensor *h)
{
    return tp_tanh(tp_add(tp_add(tp_matmul(h, s->w), x), s->bias));
}

/* x [length, ROWS, UNITS] */
static tp_tensor *read_all(const world *s, tp_tensor *x)
{
    tp_tensor *h = tp_full(tp_ctx_of(x), TP_F32, TP_DIMS(ROWS, UNITS), 0);
    for (int64_t i = 0; i < tp_size(x, 0); i++)
        h = turn(s, tp_select(x, 0, i), h);
    return h;
}

/* Calls of lengths that come again, each on other numbers. `more` is the second argument, or NULL. */
static void call_often(bed *b, world *s, tp_body body, int n_out, bool record)
{
    tp_function *f = make_pure(b, "f", body, s);
    for (int i = 0; i < CALLS; i++) {
        tp_scope_begin(b->tp);
        tp_recording(b->tp, record);
        tp_tensor *out[4], *x = pattern(b->tp, TP_DIMS(4 + i * i % 6, ROWS, UNITS), 0.01 * i);
        tp_tensor *in[] = {x, pattern(b->tp, TP_DIMS(ROWS, UNITS), 0.02 * i)};
        tp_function_call(f, 2, in, n_out, out);
        for (int k = 0; k < n_out; k++)
            note(b, "out", out[k]);
        tp_recording(b->tp, true);
        tp_scope_end(b->tp);
        if (i % 10 == 9)
            settle(b);
    }
    note(b, "w", s->w);
    note(b, "bias", s->bias);
    note(b, "state", s->state);
    tp_optimizer_free(s->adam);
}

/* ---- what is done ------------------------------------------------------------------------ */

BODY(train)
{
    world *s = user;
    s->ran++;
    tp_tensor *loss = tp_mean(tp_square(tp_sub(read_all(s, in[0]), in[1])), TP_ALL, false);
    tp_tensor *done = tp_optimizer_step(s->adam, loss);
    out[0] = tp_failed(done) ? done : loss;
}

static void training(bed *b)
{
    world s;
    prepare(&s, b);
    call_often(b, &s, train, 1, true);
    if (!b->eager && !BOTH_STRESS && b->way->how == BOTH_WAITS && s.ran > CALLS / 2)
        fail_msg("%s: the body ran %d times in %d calls", b->way->name, (int)s.ran, CALLS);
}

/* An argument is a result; so is a value, twice; and what is assigned. */
BODY(many_results)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = read_all(s, in[0]);
    tp_assign(s->state, tp_add(h, s->state));
    out[0] = in[1];
    out[1] = h;
    out[2] = h;
    out[3] = s->state;
}

static void results(bed *b)
{
    world s;
    prepare(&s, b);
    call_often(b, &s, many_results, 4, false);
}

/* The variable is read before and after it is assigned, in each turn. */
BODY(assign_in_turns)
{
    const world *s = user;
    tp_tensor *sum = in[1];
    for (int64_t i = 0; i < tp_size(in[0], 0); i++) {
        sum = tp_add(sum, s->state);
        tp_assign(s->state, tp_tanh(tp_add(s->state, tp_select(in[0], 0, i))));
    }
    out[0] = tp_mul(sum, s->state);
}

static void assigned_in_turns(bed *b)
{
    world s;
    prepare(&s, b);
    call_often(b, &s, assign_in_turns, 1, false);
}

/* Numbers of C's that follow the length; columns, which have gaps; rows from the end. */
BODY(places_and_numbers)
{
    const world *s = user;
    const int64_t n = tp_size(in[0], 0);
    tp_tensor *h = in[1], *last = h;
    for (int64_t i = 0; i < n; i++) {
        tp_tensor *row = tp_select(in[0], 0, n - 1 - i);
        tp_tensor *column = tp_select(tp_transpose(in[0], TP_DIMS(1, 2, 0)), 2, i);
        h = tp_add(tp_mul(turn(s, row, h), tp_scalar_like(h, 1.0 / (double)n)), column);
        last = row;
    }
    out[0] = tp_add(h, tp_mul(last, tp_scalar_like(h, (double)n)));
}

static void places(bed *b)
{
    world s;
    prepare(&s, b);
    call_often(b, &s, places_and_numbers, 1, false);
}

/* Results of which a gradient may be asked from outside; and draws. */
BODY(asked_from_outside)
{
    const world *s = user;
    out[0] = tp_sum(read_all(s, in[0]), TP_ALL, false);
}

static void gradients(bed *b)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, "f", asked_from_outside, &s);
    for (int i = 0; i < CALLS; i++) {
        tp_tensor *y = call1(f, pattern(b->tp, TP_DIMS(3 + i % 4, ROWS, UNITS), 0.01 * i));
        note(b, "gradient", tp_grad(y, s.w));
        if (i % 10 == 9)
            settle(b);
    }
    tp_optimizer_free(s.adam);
}

BODY(draws)
{
    const world *s = user;
    tp_tensor *noise = tp_uniform(tp_ctx_of(in[0]), TP_F32, TP_DIMS(ROWS, UNITS), 0, 1);
    out[0] = tp_add(read_all(s, in[0]), noise);
}

static void drawing(bed *b)
{
    world s;
    prepare(&s, b);
    call_often(b, &s, draws, 1, false);
}

/* ---- what is around it ------------------------------------------------------------------- */

/* The state, an argument, and an argument that is the state. */
BODY(reads_state)
{
    const world *s = user;
    out[0] = tp_add(tp_mul(read_all(s, in[0]), s->state), in[1]);
}

static void arguments_that_are_state(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "f", reads_state, &s);
    for (int i = 0; i < CALLS; i++) {
        tp_tensor *x = pattern(b->tp, TP_DIMS(4 + i % 5, ROWS, UNITS), 0.01 * i);
        tp_tensor *y = pattern(b->tp, TP_DIMS(ROWS, UNITS), 0.1 * i);
        note(b, "out", call2(f, x, i % 7 == 3 ? s.state : i % 7 == 5 ? tp_select(x, 0, 1) : y));
        if (i % 6 == 5)
            tp_assign(s.state, y);
        if (i % 10 == 9)
            settle(b);
    }
    tp_recording(b->tp, true);
    tp_optimizer_free(s.adam);
}

/* One argument for both, of equal sizes. */
BODY(of_two)
{
    const world *s = user;
    tp_tensor *h = s->state;
    for (int64_t i = 0; i < tp_size(in[0], 0); i++)
        h = tp_mul(turn(s, tp_select(in[0], 0, i), h), tp_exp(tp_select(in[1], 0, i)));
    out[0] = h;
}

static void arguments_that_are_one(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "f", of_two, &s);
    for (int i = 0; i < CALLS; i++) {
        tp_tensor *x = pattern(b->tp, TP_DIMS(4 + i % 3, ROWS, UNITS), 0.01 * i);
        tp_tensor *y = pattern(b->tp, TP_DIMS(4 + i % 3, ROWS, UNITS), -0.02 * i);
        note(b, "out", call2(f, x, i % 4 == 1 ? x : y));
        if (i % 10 == 9)
            settle(b);
    }
    tp_recording(b->tp, true);
    tp_optimizer_free(s.adam);
}

/* Watched bytes: what was launched with others is forgotten. */
BODY(scaled)
{
    const world *s = user;
    tp_tensor *h = read_all(s, in[0]);
    out[0] = tp_mul(h, tp_scalar_like(h, s->scale));
}

static void watched(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "f", scaled, &s);
    tp_function_watch(f, &s.scale, sizeof s.scale);
    for (int i = 0; i < CALLS; i++) {
        s.scale = i / 30 % 2 ? 2 : 0.25F;
        note(b, "out", call1(f, pattern(b->tp, TP_DIMS(4 + i % 5, ROWS, UNITS), 0.01 * i)));
        if (i % 10 == 9)
            settle(b);
    }
    tp_recording(b->tp, true);
    tp_optimizer_free(s.adam);
}

/* After that one length may be a flow, and others are launched again: a model is not of that length alone. */
static void no_model_of_one_length(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "f", scaled, &s);
    tp_function_watch(f, &s.scale, sizeof s.scale);
    for (int i = 0; i < CALLS; i++) {
        s.scale = i < CALLS / 2 ? 2 : 0.25F;
        const int64_t length = i == CALLS / 2 || i == CALLS / 2 + 1 ? 4 : 4 + i % 5;
        note(b, "out", call1(f, pattern(b->tp, TP_DIMS(length, ROWS, UNITS), 0.01 * i)));
        if (i % 10 == 9)
            settle(b);
    }
    const model m = model_of(b, f, "rolled", 1, 1);
    assert_null(m.program);
    tp_clear_error(b->tp);
    tp_recording(b->tp, true);
    tp_optimizer_free(s.adam);
}

/* An index that is out of range in some calls, with the error of its line. */
BODY(looks_up)
{
    const world *s = user;
    tp_tensor *h = s->state;
    for (int64_t i = 0; i < tp_size(in[0], 0); i++) {
        tp_tensor *place = tp_mul(tp_select(in[0], 0, i), tp_scalar_like(in[0], 1));
        tp_tensor *index = tp_cast(place, TP_I64);
        h = tp_add(tp_tanh(h), tp_gather(s->table, index, 0));
    }
    tp_assign(s->state, h);
    out[0] = h;
}

static void indices(bed *b)
{
    world s;
    prepare(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make_pure(b, "f", looks_up, &s);
    for (int i = 0; i < CALLS; i++) {
        float at[8][ROWS];
        const int n = 4 + i % 4;
        for (int k = 0; k < n * ROWS; k++)
            at[k / ROWS][k % ROWS] = (float)((i + k) % (i % 13 == 12 ? 7 : 5));
        note(b, "out", call1(f, tp_tensor_new(b->tp, TP_F32, TP_DIMS(n, ROWS), at)));
        note_error(b, "out of range");
        note(b, "state", s.state);
        if (i % 10 == 9)
            settle(b);
    }
    tp_recording(b->tp, true);
    tp_optimizer_free(s.adam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(training),
        ATTACK(results),
        ATTACK(assigned_in_turns),
        ATTACK(places),
        ATTACK(gradients),
        ATTACK(drawing),
        ATTACK(arguments_that_are_state),
        ATTACK(arguments_that_are_one),
        ATTACK(watched),
        ATTACK(no_model_of_one_length),
        ATTACK(indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
