/* Sizes, ranks and types that vary from call to call; what a body returns; how long results
 * live; wrong calls. */
#include "common/both.h"

typedef struct world {
    bed *b;
    int n;
    tp_tensor *w, *v, *old;
    tp_function *f;
} world;

/* No more than two programs for each segment, however many sizes there were. */
static void expect_few_programs(bed *b, const tp_function *f, int line)
{
    if (b->eager)
        return;
    const tp_function_stats s = tp_function_stats_of(f);
    if (s.compilations > 2 * s.segments)
        fail_msg("line %d: %s: %lld compilations of %lld segments", line, b->way->name,
                 (long long)s.compilations, (long long)s.segments);
}

/* ---- sizes ------------------------------------------------------------------------------- */

BODY(any_length)
{
    const world *s = user;
    tp_tensor *h = tp_tanh(tp_linear(in[0], s->w, s->v)); /* [n, 2] */
    tp_tensor *p = tp_softmax(h, 0);
    const int64_t n = tp_size(in[0], 0);
    tp_tensor *ramp = tp_arange(s->b->tp, TP_F32, n, 0, 1.0 / (double)n);
    out[0] = tp_matmul(tp_transpose(p, TP_ALL), tp_mul(h, tp_unsqueeze(ramp, 1)));
    out[1] = tp_reshape(tp_slice(h, 0, 0, n - 1, 1), TP_DIMS((n - 1) * 2));
    out[2] =
        tp_mean(tp_mul(h, tp_full(s->b->tp, TP_F32, TP_DIMS(n, 1), (double)n)), TP_ALL, false);
}

static void a_thousand_lengths(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_param(pattern(tp, TP_DIMS(3, 2), 0.1), "w");
    s.v = tp_param(pattern(tp, TP_DIMS(2), 0.1), "v");
    tp_recording(tp, false);
    tp_function *f = make(b, "any_length", any_length, &s);
    uint64_t seed = 8;
    for (int i = 0; i < 1000; i++) {
        tp_scope_begin(tp);
        const int64_t n = 1 + i * 389 % 1000; /* each from 1 to 1000 once */
        tp_tensor *out[3];
        tp_function_call(f, TP_TENSORS(draw(tp, &seed, TP_DIMS(n, 3))), 3, out);
        if (i % 9 == 0 || n < 4) {
            note(b, "p", out[0]);
            say(b, "[%lld]", (long long)tp_size(out[1], 0));
            note(b, "m", out[2]);
        }
        if (i % 100 == 5)
            note(b, "flat", tp_sum(out[1], TP_ALL, false));
        tp_scope_end(tp);
        if (i == 10)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 8);
    expect_few_programs(b, f, __LINE__);
}

BODY(over_rows)
{
    const world *s = user;
    tp_tensor *h = tp_mul(s->v, tp_scalar_like(s->v, 0));
    for (int64_t i = 0; i < tp_size(in[0], 0); i++)
        h = tp_tanh(tp_add(tp_matmul(tp_select(in[0], 0, i), s->w), h));
    out[0] = h;
}

static void a_loop_over_a_size(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(3, 2), 0.1), "w");
    s.v = tp_variable(pattern(tp, TP_DIMS(2), 0.1), "v");
    tp_function *f = make(b, "over_rows", over_rows, &s);
    static const int64_t lengths[] = {5, 0, 1, 9, 2, 5, 30};
    uint64_t seed = 8;
    for (int i = 0; i < 42; i++) {
        tp_scope_begin(tp);
        note(b, "h", call1(f, draw(tp, &seed, TP_DIMS(lengths[i * 5 % 7], 3))));
        tp_scope_end(tp);
        if (i == 20)
            settle(b);
    }
}

/* ---- types and ranks --------------------------------------------------------------------- */

BODY(generic)
{
    tp_tensor *y = tp_mul(in[0], in[0]);
    if (tp_rank(y) > 1)
        y = tp_sum(y, TP_DIMS(-1), false);
    out[0] = tp_add(y, tp_scalar_like(y, 3));
    out[1] = tp_dtype_of(y) >= TP_F32 ? tp_sqrt(y) : tp_neg(y);
}

static void types_and_ranks(bed *b)
{
    static const tp_dtype types[] = {TP_F32, TP_F64, TP_I32, TP_U8, TP_I64, TP_F32};
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "generic", generic, NULL);
    for (int i = 0; i < 36; i++) {
        const int64_t shape[3] = {2 + i % 2, 1 + i % 3, 2};
        tp_tensor *x = tp_cast(
                      tp_mul(pattern(tp, i % 4, shape, 0.5), tp_scalar(tp, TP_F32, 1 + i)),
                      types[i % 6]),
                  *out[2];
        tp_function_call(f, TP_TENSORS(x), 2, out);
        note(b, "y", out[0]);
        note(b, "z", out[1]);
        if (i == 20)
            settle(b);
    }
    note_error(b, "types");
}

BODY(spread)
{
    tp_tensor *y = tp_add(in[0], in[1]);
    out[0] = tp_mul(y, tp_sum(in[1], TP_DIMS(0), true));
}

/* Sizes that are 1 in some calls stretch; none at all; in memory in another order. */
static void sizes_that_stretch(bed *b)
{
    static const int64_t sizes[][4] = {
        {3, 2, 3, 2},
        {4, 2, 4, 2},
        {3, 2, 1, 2},
        {1, 2, 3, 2},
        {3, 1, 3, 5},
        {0, 2, 0, 2},
        {2, 3, 0, 3},
        {1, 1, 1, 1},
        {5, 2, 5, 2},
        {3, 3, 3, 3},
        {1, 2, 0, 2}
    };
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "spread", spread, NULL);
    uint64_t seed = 5;
    for (int i = 0; i < 44; i++) {
        const int64_t *n = sizes[i * 7 % 11];
        tp_tensor *x = draw(tp, &seed, TP_DIMS(n[0], n[1])),
                  *y = draw(tp, &seed, TP_DIMS(n[2], n[3]));
        if (i % 3 == 2)
            x = tp_transpose(tp_contiguous(tp_transpose(x, TP_ALL)), TP_ALL);
        if (i % 5 == 4)
            y = tp_flip(y, TP_DIMS(1));
        note(b, "y", call2(f, x, y));
        note_error(b, "stretch"); /* 2 rows with none do not fit */
        if (i == 20)
            settle(b);
    }
}

BODY(variadic)
{
    tp_tensor *y = n_in ? in[0] : pattern(((world *)user)->b->tp, TP_DIMS(2), 0.5);
    for (int i = 1; i < n_in; i++)
        y = tp_add(tp_mul(y, in[i]), in[0]);
    for (int i = 0; i < n_out; i++)
        out[i] = tp_add(y, tp_scalar_like(y, i));
}

static void numbers_of_arguments(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    tp_function *f = make(b, "variadic", variadic, &s);
    for (int i = 0; i < 20; i++) {
        tp_tensor *in[5], *out[4];
        for (int k = 0; k < 5; k++)
            in[k] = pattern(tp, TP_DIMS(2), 0.1 * (k + i));
        const int n = i * 3 % 6 % 5, m = i % 5 % 4;
        say(b, "%s", tp_status_name(tp_function_call(f, n, n ? in : NULL, m, m ? out : NULL)));
        for (int k = 0; k < m; k++)
            note(b, "out", out[k]);
        if (i == 10)
            settle(b);
    }
}

/* ---- results ----------------------------------------------------------------------------- */

BODY(anything)
{
    world *s = user;
    tp_tensor *y = tp_mul(in[0], tp_scalar_like(in[0], 2));
    out[0] = in[0];                 /* an argument */
    out[1] = s->w;                  /* a variable */
    out[2] = tp_select(s->w, 0, 1); /* a view of it */
    out[3] = y;
    out[4] = y;                           /* twice */
    out[5] = tp_transpose(in[0], TP_ALL); /* a view of an argument */
    out[6] = tp_full(s->b->tp, TP_F32, TP_DIMS(2), s->n);
    out[7] = tp_flip(y, TP_DIMS(0)); /* a view of what was computed */
    out[8] = s->old ? s->old : y;    /* of the call before */
    out[9] = s->n % 3 == 1 ? NULL : tp_neg(y);
    out[10] = s->n % 4 == 2 ? tp_matmul(y, tp_select(s->w, 0, 0)) : tp_exp(y);
    out[11] = in[1];
    tp_release(s->old);
    s->old = tp_retain(tp_sin(y));
    tp_assign(s->w, tp_add(s->w, tp_scalar_like(s->w, 1)));
}

static void results_of_all_kinds(bed *b)
{
    enum { N = 12 };
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2, 3), 0.1), "w");
    tp_tensor *p = tp_variable(pattern(tp, TP_DIMS(3, 2), 0.2), "p");
    tp_function *f = make(b, "anything", anything, &s);
    tp_tensor *x = pattern(tp, TP_DIMS(3, 2), 0.1), *all[8][N];
    for (s.n = 0; s.n < 8; s.n++) {
        tp_tensor *a = s.n % 3 == 2 ? p : x, **out = all[s.n];
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(a, s.w), N, out)));
        for (int k = 0; k < N; k++)
            note(b, "out", out[k]);
        say(b, "argument %d, variable %d, same %d, passed on %d", out[0] == a, out[1] == s.w,
            out[3] == out[4], out[11] == s.w);
        note_error(b, "results");
        if (s.n == 4)
            settle(b);
        tp_assign(p, tp_mul(p, tp_scalar_like(p, 0.5)));
        note(b, "a view of p, after", out[5]);
        note(b, "a view of w, after", out[2]);
    }
    for (int i = 0; i < 8; i++) /* results of all calls are still what they were */
        for (int k = 3; k < N; k++)
            note(b, "still", all[i][k]);
    tp_release(s.old);
}

BODY(chain)
{
    tp_tensor *y = tp_tanh(tp_matmul(in[0], in[1]));
    out[0] = tp_add(y, in[0]);
    if (n_out > 1)
        out[1] = tp_select(y, 0, 0);
}

/* Results and views of them live on while the function runs again. */
static void results_that_live_long(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "chain", chain, NULL);
    tp_tensor *x = pattern(tp, TP_DIMS(2, 2), 0.1), *m = pattern(tp, TP_DIMS(2, 2), 0.3);
    tp_tensor *kept[60];
    int n = 0;
    for (int i = 0; i < 30; i++) {
        tp_tensor *out[2];
        tp_function_call(f, TP_TENSORS(x, m), 2, out);
        x = out[0]; /* fed again */
        kept[n++] = tp_transpose(out[0], TP_ALL);
        kept[n++] = out[1];
        if (i == 15)
            settle(b);
    }
    for (int i = 0; i < n; i++)
        note(b, "kept", kept[i]);
    EXPECT_RECORDINGS(b, f, 3);
}

BODY(pass)
{
    out[0] = in[0];
}

/* The variable that was returned is assigned before what was computed from it is read. */
BODY(twice_the_state)
{
    const world *s = user;
    out[0] = tp_mul(s->w, tp_scalar_like(s->w, 2));
    out[1] = tp_contiguous(s->w);
    out[2] = tp_reshape(s->w, TP_DIMS(4));
}

static void results_and_assignments(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2, 2), 0.1), "w");
    tp_function *f = make(b, "twice_the_state", twice_the_state, &s),
                *g = make(b, "pass", pass, NULL);
    for (int i = 0; i < 6; i++) {
        tp_tensor *out[3];
        tp_function_call(f, 0, NULL, 3, out);
        tp_assign(s.w, tp_add(s.w, tp_scalar_like(s.w, i)));
        for (int k = 0; k < 3; k++)
            note(b, "out", out[k]);
        tp_tensor *same = call1(g, s.w);
        say(b, "passed %d", same == s.w);
        tp_assign(same, out[0]);
        note(b, "w", s.w);
        settle(b);
    }
}

BODY(doing)
{
    world *s = user;
    tp_assign(s->w, tp_mul(s->w, tp_scalar_like(s->w, 1.25)));
    if (s->n % 4 == 3)
        return; /* and no result is set */
    if (n_out)
        out[0] = tp_sum(s->w, TP_ALL, false);
}

static void no_arguments_no_results(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(2, 2), 0.1), "w");
    tp_function *f = make(b, "doing", doing, &s);
    for (s.n = 0; s.n < 12; s.n++) {
        tp_tensor *y = NULL;
        if (s.n % 3 == 1)
            say(b, "%s", tp_status_name(tp_function_call(f, 0, NULL, 0, NULL)));
        else
            note(b, "y", tp_function_apply(f, 0, NULL));
        if (s.n % 3 == 2) {
            say(b, "%s", tp_status_name(tp_function_call(f, 0, NULL, 1, &y)));
            note(b, "y", y);
        }
        note(b, "w", s.w);
        note_error(b, "doing");
        settle(b);
    }
}

/* ---- wrong calls ------------------------------------------------------------------------- */

static void wrong_calls(bed *b)
{
    tp_ctx *tp = b->tp, *other = tp_open(NULL);
    tp_function *f = make(b, "chain", chain, NULL);
    tp_tensor *x = pattern(tp, TP_DIMS(2, 2), 0.1), *out[2];
    tp_tensor *foreign = pattern(other, TP_DIMS(2, 2), 0.1);
    for (int i = 0; i < 3; i++) {
        note(b, "good", call2(f, x, x));
        note_error(b, "one result too few");
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(x, NULL), 2, out)));
        note_error(b, "NULL");
        tp_function_call(f, TP_TENSORS(x, foreign), 2, out);
        say(b, "failed %d %d", tp_failed(out[0]), tp_failed(out[1]));
        note_error(b, "of another context");
        say(b, "%s", tp_status_name(tp_function_call(f, -1, NULL, 2, out)));
        note_error(b, "arguments below none");
        say(b, "%s", tp_status_name(tp_function_call(f, 2, NULL, 2, out)));
        note_error(b, "no arguments");
        say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(x, x), 2, NULL)));
        note_error(b, "no place for results");
        tp_scope_begin(tp);
        tp_tensor *gone = tp_neg(x);
        tp_scope_end(tp);
        tp_function_call(f, TP_TENSORS(x, gone), 2, out);
        say(b, "gone: failed %d", tp_failed(out[0]));
        tp_clear_error(tp);
        say(b, "%s", tp_status_name(tp_function_call(NULL, TP_TENSORS(x, x), 2, out)));
        say(b, "failed %d", tp_failed(tp_function_apply(NULL, TP_TENSORS(x))));
        settle(b);
    }
    say(b, "no body %d", tp_function_new(tp, "f", NULL, NULL, NULL) == NULL);
    note_error(b, "no body");
    say(b, "no context %d", tp_function_new(NULL, "f", chain, NULL, NULL) == NULL);
    say(b, "no name %d", tp_function_new(tp, NULL, chain, NULL, NULL) == NULL);
    note_error(b, "no name");
    tp_function_free(NULL);
    say(b, "%s", tp_status_name(tp_function_wait(NULL)));
    tp_close(other);
}

/* A side gives tensors of another size, or turned, and what follows gives none that tells. */
BODY(sides)
{
    tp_tensor *a = in[0], *h = tp_matmul(in[0], in[1]), *zero = tp_scalar_like(in[0], 0);
    if (tp_truth(tp_lt(tp_sum(a, TP_ALL, false), zero))) {
        a = tp_concat(TP_TENSORS(a, a), 0);
        h = tp_transpose(h, TP_ALL);
    }
    out[0] = tp_sum(a, TP_DIMS(0), false);
    out[1] = tp_sum(h, TP_DIMS(1), false);
    out[2] = tp_matmul(tp_sum(tp_square(a), TP_DIMS(0), true), in[1]);
    (void)user;
}

static void sides_of_other_sizes(bed *b)
{
    static const double sign[] = {1, 1, -1, -1, 1, -1, 2, -2, -0.5, 0.5};
    tp_function *f = make_pure(b, "sides", sides, NULL);
    tp_tensor *w = pattern(b->tp, TP_DIMS(4, 4), 0.1),
              *one = pattern(b->tp, TP_DIMS(4, 4), 0.2);
    for (int i = 0; i < 10; i++) {
        tp_tensor *out[3];
        tp_scope_begin(b->tp);
        tp_function_call(f, TP_TENSORS(tp_mul(one, tp_scalar_like(one, sign[i])), w), 3, out);
        for (int k = 0; k < 3; k++)
            note(b, "side", out[k]);
        settle(b);
        tp_scope_end(b->tp);
    }
}

/* A trace longer than one would keep. */
BODY(very_long)
{
    const world *s = user;
    tp_tensor *y = in[0];
    for (int i = 0; i < 30000; i++) {
        tp_scope_begin(s->b->tp);
        y = tp_keep(tp_add(tp_mul(y, in[1]), in[0]));
        tp_scope_end(s->b->tp);
    }
    out[0] = y;
}

static void a_very_long_body(bed *b)
{
    world s = {.b = b};
    if (b->way->opt.engine == TP_ENGINE_C || b->way->how == BOTH_WAITS)
        s.n = 1; /* no compiler for 60000 ops */
    tp_function *f =
        s.n ? tp_function_new(b->tp, "very_long", very_long, &s,
                              &(tp_function_options){.engine = TP_ENGINE_REFERENCE})
            : make(b, "very_long", very_long, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2), 0.1);
    for (int i = 0; i < 3; i++)
        note(b, "y", call2(f, x, tp_full(b->tp, TP_F32, TP_DIMS(2), 0.25 * i)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(a_thousand_lengths),      ATTACK(a_loop_over_a_size),
        ATTACK(types_and_ranks),         ATTACK(sizes_that_stretch),
        ATTACK(numbers_of_arguments),    ATTACK(results_of_all_kinds),
        ATTACK(results_that_live_long),  ATTACK(results_and_assignments),
        ATTACK(no_arguments_no_results), ATTACK(wrong_calls),
        ATTACK(sides_of_other_sizes),    ATTACK(a_very_long_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
