/* Loops that C writes out, of other numbers of turns from call to call: one turn stands for all. */
#include "common/both.h"

#include <string.h>

#define NEVER (1 << 20)

typedef struct world {
    bed *b;
    int turns, every, n;
    tp_tensor *w, *v, *many[3];
    tp_optimizer *sgd;
    tp_function *inner;
    tp_tensor *kept;
} world;

static void open_world(world *s, bed *b)
{
    *s = (world){.b = b, .every = NEVER};
    s->w = tp_param(pattern(b->tp, TP_DIMS(2, 2), 0.1), "w");
    s->v = tp_param(pattern(b->tp, TP_DIMS(2), 0.2), "v");
    for (int i = 0; i < 3; i++)
        s->many[i] = tp_variable(pattern(b->tp, TP_DIMS(2), 0.1 * (i + 1)), "many");
}

enum { SOME = 9 };
static const int some_turns[SOME] = {4, 9, 6, 1, 13, 2, 30, 0, 5};

/* Calls f(x) with so many turns, in this order three times over. */
static void call_all(world *s, tp_function *f, int n, const int *turns)
{
    bed *b = s->b;
    uint64_t seed = 3;
    for (int i = 0; i < 3 * n; i++) {
        tp_scope_begin(b->tp);
        s->turns = turns[i % n];
        note(b, "y", call1(f, draw(b->tp, &seed, TP_DIMS(2))));
        note_error(b, "error");
        tp_scope_end(b->tp);
        if (i == n)
            settle(b);
    }
}

/* Makes a world and a function of it, and calls it so, once for each value of `every`. */
static void call_in_world(world *s, bed *b, const char *name, tp_body body, int n,
                          const int *every)
{
    open_world(s, b);
    tp_function *f = make(b, name, body, s);
    for (int i = 0; i < n; i++) {
        s->every = every[i];
        call_all(s, f, SOME, some_turns);
    }
}
#define CALL_IN_WORLD(b, body, ...)                                                            \
    call_in_world(&(world){0}, b, #body, body,                                                 \
                  (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)),                     \
                  (const int[]){__VA_ARGS__})

static tp_tensor *cell(const world *s, tp_tensor *x, tp_tensor *h)
{
    return tp_tanh(tp_add(tp_add(tp_mul(x, s->v), tp_matmul(h, s->w)), s->v));
}

/* ---- a recording serves all lengths ------------------------------------------------------ */

BODY(train_over_rows)
{
    const world *s = user;
    tp_tensor *h = tp_mul(s->v, tp_scalar_like(s->v, 0.5));
    for (int64_t i = 0; i < tp_size(in[0], 0); i++)
        h = cell(s, tp_select(in[0], 0, i), h);
    out[0] = tp_mean(tp_mul(h, h), TP_ALL, false);
    out[1] = tp_optimizer_step(s->sgd, out[0]);
}

static void lengths_never_seen(bed *b)
{
    world s;
    open_world(&s, b);
    s.sgd = tp_sgd_new(b->tp, 0.1, NULL, 2, (tp_tensor *[]){s.w, s.v});
    tp_function *f = make(b, "train_over_rows", train_over_rows, &s);
    uint64_t seed = 5;
    for (int i = 0; i < 60; i++) {
        tp_scope_begin(b->tp);
        const int64_t length = i < 3 ? 6 + 5 * i : 4 + i * 7 % 40;
        tp_tensor *out[2];
        tp_function_call(f, TP_TENSORS(draw(b->tp, &seed, TP_DIMS(length, 2))), 2, out);
        note(b, "loss", out[0]);
        tp_scope_end(b->tp);
        if (i == 8)
            settle(b);
    }
    note(b, "w", s.w);
    EXPECT_RECORDINGS(b, f, 2);
    tp_optimizer_free(s.sgd);
}

/* ---- turns that are not quite alike ------------------------------------------------------ */

/* Which of the last two values a turn reads depends on its number. */
BODY(of_last_two)
{
    const world *s = user;
    tp_tensor *a = in[0], *c = tp_mul(in[0], s->v);
    for (int i = 0; i < s->turns; i++) {
        tp_tensor *next = tp_add(tp_mul(a, i % s->every == s->every - 1 ? a : c), s->v);
        c = a;
        a = tp_tanh(next);
    }
    out[0] = tp_sub(a, c);
}

static void last_two(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, of_last_two, NEVER, 3, 2);
}

/* Each turn reads another tensor from outside, a number of its own, and a draw. */
BODY(of_others)
{
    const world *s = user;
    tp_ctx *tp = s->b->tp;
    out[0] = in[0];
    for (int i = 0; i < s->turns; i++) {
        tp_tensor *t = tp_mul(out[0], s->many[i * s->every % 3]);
        t = tp_add(t, tp_scalar(tp, TP_F32, i % 4 * 0.25));
        out[0] = tp_add(t, tp_uniform(tp, TP_F32, TP_DIMS(2), -1, 1));
    }
}

static void others(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, of_others, 1, 2, 3);
}

/* Sizes that grow with each turn. */
BODY(growing)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++) {
        tp_tensor *sum = tp_sum(tp_mul(h, h), TP_ALL, true);
        h = tp_concat(2, (tp_tensor *[]){h, tp_tanh(sum)}, 0);
    }
    out[0] = tp_mul(h, tp_scalar_like(h, 2));
}

static void sizes_that_grow(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, growing, NEVER);
}

/* A loop in a loop, both of other numbers of turns. */
BODY(nested)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns % 5; i++) {
        for (int k = 0; k < s->turns + i; k++)
            h = cell(s, in[0], h);
        h = tp_sub(h, tp_mul(in[0], s->v));
    }
    out[0] = h;
}

static void loops_in_loops(bed *b)
{
    CALL_IN_WORLD(b, nested, NEVER);
}

/* A value is looked at behind the loop, or in it. */
BODY(looking)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++) {
        h = cell(s, in[0], h);
        if (i % s->every == s->every - 1 &&
            tp_truth(tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 0))))
            h = tp_neg(h);
    }
    if (tp_truth(tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 0))))
        h = tp_add(h, s->v);
    out[0] = h;
}

static void looks_and_turns(bed *b)
{
    CALL_IN_WORLD(b, looking, NEVER, 4);
}

/* Assigned behind the loop, and read in the next call. */
BODY(assigning)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++)
        h = tp_tanh(tp_add(tp_mul(h, s->many[0]), s->many[1]));
    tp_assign(s->many[0], h);
    out[0] = tp_add(s->many[0], h);
}

static void turns_and_assignments(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, assigning, NEVER);
}

/* An op in a turn fails, or one behind it. */
BODY(failing)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++) {
        h = cell(s, in[0], h);
        if (i == s->every)
            h = tp_add(h, tp_full(s->b->tp, TP_F32, TP_DIMS(3), 1));
    }
    out[0] = h;
}

static void turns_that_fail(bed *b)
{
    CALL_IN_WORLD(b, failing, NEVER, 3, NEVER);
}

/* Each turn takes another row of what the call computed, and something follows the loop. */
BODY(of_rows)
{
    const world *s = user;
    tp_tensor *parts = tp_full(s->b->tp, TP_F32, TP_DIMS(32, 2), 0.25);
    tp_tensor *rows = tp_mul(tp_cumsum(parts, 0, false, false), in[0]);
    tp_tensor *h = tp_neg(in[0]);
    for (int i = 0; i < s->turns; i++)
        h = cell(s, tp_select(rows, 0, i * s->every % 32), h);
    out[0] = tp_mul(tp_add(h, s->v), s->v);
}

static void rows_of_turns(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, of_rows, 1, 3, 5);
}

/* The sweep and the optimiser inside the loop. */
BODY(descending)
{
    const world *s = user;
    tp_tensor *last = in[0];
    for (int i = 0; i < s->turns; i++) {
        tp_tensor *h = cell(s, in[0], tp_mul(in[0], s->v));
        tp_tensor *loss = tp_mean(tp_mul(h, h), TP_ALL, false);
        last = tp_add(last, loss);
        tp_optimizer_step(s->sgd, loss);
        if (i % s->every == s->every - 1)
            last = tp_neg(last);
    }
    out[0] = tp_add(last, s->v);
}

static void optimisers_in_turns(bed *b)
{
    world s;
    open_world(&s, b);
    s.sgd = tp_sgd_new(b->tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, 2,
                       (tp_tensor *[]){s.w, s.v});
    tp_function *f = make(b, "descending", descending, &s);
    call_all(&s, f, SOME, some_turns);
    s.every = 3;
    call_all(&s, f, SOME, some_turns);
    note(b, "w", s.w);
    tp_optimizer_free(s.sgd);
}

/* Values of earlier turns and calls, a scope that ends in each turn, a number that is read. */
BODY(remembering)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    tp_tensor *h = in[0], *first = NULL;
    for (int i = 0; i < s->turns; i++) {
        tp_scope_begin(tp);
        tp_tensor *t = cell(s, s->kept ? s->kept : in[0], h);
        t = tp_sub(t, first && i % 3 == 2 ? first : in[0]);
        t = tp_keep(tp_tanh(t));
        tp_scope_end(tp);
        first = first ? first : t;
        h = t;
        if (i % s->every == s->every - 1)
            h = tp_mul(h, tp_scalar_like(h, tp_item(tp_sum(h, TP_ALL, false))));
    }
    tp_release(s->kept);
    s->kept = tp_retain(tp_add(h, s->v));
    out[0] = tp_neg(s->kept);
}

static void what_is_kept(bed *b)
{
    tp_recording(b->tp, false);
    world s;
    open_world(&s, b);
    tp_function *f = make(b, "remembering", remembering, &s);
    call_all(&s, f, SOME, some_turns);
    s.every = 2;
    call_all(&s, f, SOME, some_turns);
    s.every = 5;
    call_all(&s, f, SOME, some_turns);
    tp_release(s.kept);
}

/* A variable that each turn assigns, read beside what it was. */
BODY(accumulating)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++) {
        h = tp_tanh(tp_add(tp_mul(h, s->many[i % 3]), s->many[1]));
        tp_assign(s->many[i * s->every % 3], tp_mul(h, s->v));
    }
    out[0] = tp_add(s->many[0], h);
}

static void assigned_in_turns(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, accumulating, 1, 3, 2);
}

/* Turns whose sizes grow, beside ones whose sizes do not. */
BODY(windows)
{
    const world *s = user;
    tp_tensor *cache = tp_reshape(in[0], TP_DIMS(1, 2)), *h = in[0];
    for (int i = 0; i < s->turns; i++) {
        tp_tensor *row = tp_reshape(tp_tanh(tp_mul(h, s->v)), TP_DIMS(1, 2));
        cache = tp_concat(2, (tp_tensor *[]){cache, row}, 0);
        tp_tensor *p = tp_softmax(tp_matmul(cache, tp_reshape(h, TP_DIMS(2, 1))), 0);
        h = tp_sum(tp_mul(p, cache), TP_DIMS(0), false);
        if (i % s->every == s->every - 1)
            cache = tp_slice(cache, 0, 1, INT64_MAX, 1);
    }
    out[0] = tp_add(tp_mul(h, s->v), tp_sum(cache, TP_DIMS(0), false));
}

static void caches(bed *b)
{
    tp_recording(b->tp, false);
    CALL_IN_WORLD(b, windows, NEVER, 3, 2);
}

/* A gradient from outside goes through the turns. */
static void gradients_of_turns(bed *b)
{
    world s;
    open_world(&s, b);
    tp_function *f = make(b, "of_rows", of_rows, &s);
    uint64_t seed = 9;
    s.every = 1;
    for (int i = 0; i < 27; i++) {
        tp_scope_begin(b->tp);
        s.turns = some_turns[i % SOME];
        tp_tensor *y = call1(f, draw(b->tp, &seed, TP_DIMS(2)));
        tp_backward(tp_sum(y, TP_ALL, false));
        note(b, "dw", tp_grad_of(s.w));
        note(b, "dv", tp_grad_of(s.v));
        tp_zero_grad(s.w);
        tp_zero_grad(s.v);
        note_error(b, "error");
        tp_scope_end(b->tp);
        if (i == 12)
            settle(b);
    }
}

/* ---- any number of operands -------------------------------------------------------------- */

BODY(joining)
{
    const world *s = user;
    tp_tensor *parts[64];
    int n = 0;
    for (int i = 0; i <= s->turns; i++)
        parts[n++] = tp_tanh(tp_sub(tp_mul(in[0], s->many[i % 3]), s->v));
    tp_tensor *all = tp_concat(n, parts, 0);
    out[0] = tp_softmax(tp_add(all, tp_scalar_like(all, 1)), 0);
}

static void numbers_of_operands(bed *b)
{
    world s;
    open_world(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make(b, "joining", joining, &s);
    call_all(&s, f, SOME, some_turns);
    for (int i = 14; i < 60; i += 3)
        call_all(&s, f, 1, &i);
    EXPECT_RECORDINGS(b, f, 6);
}

/* ---- a body of more steps than a program may have ---------------------------------------- */

BODY(very_long)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (int i = 0; i < s->turns; i++)
        h = cell(s, in[0], h);
    out[0] = tp_add(h, s->v);
}

static void long_loops(bed *b)
{
    world s;
    open_world(&s, b);
    tp_recording(b->tp, false);
    tp_function *f = make(b, "very_long", very_long, &s);
    static const int turns[] = {2100, 2100, 2300};
    call_all(&s, f, 3, turns);
    char *text = tp_function_text(f);
    if (!b->eager && !BOTH_STRESS)
        assert_non_null(strstr(text, "as often as its loop turns"));
    tp_free(b->tp, text);
}

/* ---- what is refused --------------------------------------------------------------------- */

/* Another of two values, for no reason that is a tensor. */
BODY(of_either)
{
    const world *s = user;
    tp_tensor *a = tp_neg(in[0]), *c = tp_abs(in[0]);
    out[0] = tp_mul(s->n ? a : c, s->v);
}

BODY(of_more)
{
    const world *s = user;
    out[0] = tp_neg(tp_concat(2 + s->n, (tp_tensor *[]){in[0], s->v, in[0]}, 0));
}

static void no_model(void **state)
{
    (void)state;
    static const both_way way = {.name = "matched"};
    bed b = {.tp = tp_open(NULL), .way = &way};
    world s;
    open_world(&s, &b);
    tp_recording(b.tp, false);
    tp_function *f = make(&b, "very_long", very_long, &s),
                *g = make(&b, "of_either", of_either, &s),
                *h = make(&b, "of_more", of_more, &s);
    tp_tensor *x = pattern(b.tp, TP_DIMS(2), 1);
    for (s.n = 0; s.n < 2; s.n++) {
        s.turns = 4 + 3 * s.n;
        call1(f, x);
        call1(g, x);
        call1(h, x);
    }
    if (!BOTH_STRESS) {
        const model loop = model_of(&b, f, "loop", 1, 1),
                    either = model_of(&b, g, "either", 1, 1),
                    joined = model_of(&b, h, "joined", 1, 1);
        expect_model(&loop, "loop", "a loop of C had other numbers of turns in other calls", 0,
                     0);
        expect_model(&either, "either", "what this reads was another tensor in other calls", 0,
                     0);
        expect_model(&joined, "joined", "had another number of operands in other calls", 0, 0);
    }
    tp_close(b.tp);
}

/* ---- places that turns read ---------------------------------------------------------------- */

typedef struct places {
    tp_tensor *rows; /* [8, 3], a variable */
    int64_t n;
} places;

/* Rows of a variable, forwards and backwards, and columns of it, which have gaps; the last row is a result, and the
 * variable is assigned behind the turns. */
BODY(reads_rows)
{
    const places *s = user;
    tp_tensor *h = in[0], *row = h;
    for (int64_t i = 0; i < s->n; i++) {
        row = tp_select(s->rows, 0, i);
        tp_tensor *other = tp_select(s->rows, 0, 7 - i);
        tp_tensor *column = tp_slice(tp_select(s->rows, 1, i % 3), 0, i / 3, i / 3 + 3, 1);
        h = tp_tanh(tp_add(tp_mul(h, row), tp_sub(other, column)));
    }
    tp_assign(s->rows, tp_mul(tp_add(s->rows, h), tp_scalar_like(h, 0.5)));
    out[0] = h;
    out[1] = row;
}

static void rows_of_a_variable(bed *b)
{
    static const int64_t turns[] = {3, 5, 4, 8, 6, 5, 7, 3, 8, 8};
    places s = {.rows = tp_variable(pattern(b->tp, TP_DIMS(8, 3), 0.1), "rows")};
    tp_function *f = make(b, "reads_rows", reads_rows, &s);
    for (int i = 0; i < 40; i++) {
        tp_tensor *x = pattern(b->tp, TP_DIMS(3), 0.05 * i), *out[2];
        s.n = turns[i % 10];
        tp_function_call(f, 1, &x, 2, out);
        note(b, "h", out[0]);
        note(b, "row", out[1]);
        note(b, "rows", s.rows);
        if (i % 9 == 8)
            settle(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(lengths_never_seen),
        ATTACK(last_two),
        ATTACK(others),
        ATTACK(sizes_that_grow),
        ATTACK(loops_in_loops),
        ATTACK(looks_and_turns),
        ATTACK(turns_and_assignments),
        ATTACK(turns_that_fail),
        ATTACK(rows_of_turns),
        ATTACK(optimisers_in_turns),
        ATTACK(what_is_kept),
        ATTACK(assigned_in_turns),
        ATTACK(caches),
        ATTACK(gradients_of_turns),
        ATTACK(numbers_of_operands),
        ATTACK(long_loops),
        cmocka_unit_test(no_model),
        ATTACK(rows_of_a_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
