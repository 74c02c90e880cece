/* What C keeps and changes between calls, and state reached from outside: counters, flags, rates,
 * weights that are swapped, arguments that share memory, assignments seen through views. */
#include "common/both.h"

#include <math.h>

typedef struct world {
    bed *b;
    int n, flag;
    double rate;
    tp_tensor *w, *v, *old;
    const float *p;
    tp_function *f;
} world;

/* ---- C state ----------------------------------------------------------------------------- */

BODY(counting)
{
    world *s = user;
    tp_tensor *y = tp_mul(in[0], tp_scalar_like(in[0], 2));
    if (++s->n == 1000)
        y = tp_add(y, tp_scalar_like(y, 1));
    if (s->n == 1010)
        say(s->b, "call 1010");
    out[0] = tp_tanh(y);
}

static void counter_that_acts_late(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "counting", counting, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(3), 0.1);
    for (int i = 0; i < 1020; i++) {
        tp_scope_begin(b->tp);
        tp_tensor *y = call1(f, x);
        if (i % 100 == 0 || (i > 990 && i < 1005))
            note(b, "y", y);
        tp_scope_end(b->tp);
        if (i == 2)
            settle(b);
    }
    say(b, "n %d", s.n);
    EXPECT_RECORDINGS(b, f, 2);
}

static int calls_since; /* what a static variable of the body would be */

BODY(with_static)
{
    static int n;
    n = calls_since ? n + 1 : 0;
    calls_since++;
    tp_tensor *y = tp_exp(tp_neg(in[0]));
    for (int i = 0; i < n % 3; i++)
        y = tp_sqrt(tp_add(y, tp_scalar_like(y, 1)));
    out[0] = tp_mul(y, tp_scalar_like(y, n));
}

static void static_variable(bed *b)
{
    calls_since = 0;
    tp_function *f = make(b, "with_static", with_static, NULL);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2, 3), 0.1);
    for (int i = 0; i < 30; i++) {
        note(b, "y", call1(f, x));
        if (i == 12)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 5);
}

BODY(descending)
{
    world *s = user;
    tp_tensor *d = tp_sub(tp_mul(s->w, in[0]), in[1]);
    tp_assign(s->w, tp_sub(s->w, tp_mul(tp_mul(d, in[0]), tp_scalar_like(d, s->rate))));
    out[0] = tp_mean(tp_square(d), TP_ALL, false);
}

static void rate_that_steps(bed *b)
{
    world s = {.b = b, .rate = 0.5};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(4), 0.05), "w");
    tp_function *f = make(b, "descending", descending, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4), 0.07), *y = pattern(b->tp, TP_DIMS(4), 0.02);
    for (int i = 0; i < 60; i++) {
        if (i % 4 == 3)
            s.rate *= 0.9;
        note(b, "loss", call2(f, x, y));
        note(b, "w", s.w);
        if (i == 20)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 3); /* a number that varies becomes an argument */
    if (!b->eager) {
        const tp_function_stats t = tp_function_stats_of(f);
        assert_true(t.compilations <= 2 * t.segments);
    }
}

static void scalars_of_all_kinds(bed *b)
{
    static const double rates[] = {0,     -0.0, 1, 0x1p-1074, 1e308,    1e39,
                                   -1e39, 0.1,  3, -1.5,      16777217, 0x1.8p-149};
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(4), 0.05), "w");
    tp_function *f = make(b, "descending", descending, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4), 0.07), *y = pattern(b->tp, TP_DIMS(4), 0.02);
    tp_tensor *first = pattern(b->tp, TP_DIMS(4), 0.05);
    for (int i = 0; i < 26; i++) {
        const size_t k = (size_t)i % (sizeof rates / sizeof *rates + 1);
        s.rate = k < sizeof rates / sizeof *rates ? rates[k] : (double)NAN;
        note(b, "loss", call2(f, x, y));
        note(b, "w", s.w);
        tp_assign(s.w, first);
        if (i == 13)
            settle(b);
    }
}

/* Steps of which no stretch comes again, so that nothing is cut. */
BODY(long_body)
{
    const world *s = user;
    tp_tensor *h = in[0];
    for (unsigned i = 0; i < 300; i++) {
        h = tp_add(h, s->w);
        h = i * 2654435761u >> 30 & 1 ? tp_tanh(h) : tp_mul(h, in[0]);
    }
    out[0] = h;
}

/* However long it is, its second call makes its program. */
static void many_steps(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(4), 0.05), "w");
    tp_function *f = make(b, "long", long_body, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4), 0.07);
    for (int i = 0; i < 4; i++) {
        note(b, "y", call1(f, x));
        if (i == 1 && !b->eager && !BOTH_STRESS)
            assert_int_equal(tp_function_stats_of(f).compilations, 1);
        settle(b);
    }
    EXPECT_RECORDINGS(b, f, 1);
}

/* ---- weights and flags ------------------------------------------------------------------- */

BODY(one_layer)
{
    const world *s = user;
    out[0] = tp_tanh(tp_matmul(in[0], s->w));
}

static void weight_swapped(bed *b)
{
    world s = {.b = b};
    tp_tensor *w[4];
    for (int i = 0; i < 3; i++)
        w[i] = tp_variable(pattern(b->tp, TP_DIMS(3, 2), 0.1 * (i + 1)), "w");
    w[3] = tp_param(pattern(b->tp, TP_DIMS(3, 4), 0.2), "wide");
    tp_function *f = make(b, "one_layer", one_layer, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2, 3), 0.1);
    for (int i = 0; i < 24; i++) {
        s.w = w[i % 7 == 5 ? 3 : i / 3 % 3];
        note(b, "y", call1(f, x));
        if (i == 8)
            tp_assign(w[0], tp_neg(w[1]));
        if (i == 12)
            settle(b);
    }
    s.w = pattern(b->tp, TP_DIMS(3, 2), 0.7); /* no variable */
    note(b, "y", call1(f, x));
}

/* Weights that come and go; the allocator gives the next one the same address. */
static void weight_of_the_same_address(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "one_layer", one_layer, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2, 3), 0.1);
    for (int i = 0; i < 12; i++) {
        tp_scope_begin(b->tp);
        const int64_t n = i % 5 == 4 ? 3 : 2;
        tp_tensor *init = pattern(b->tp, TP_DIMS(3, n), 0.1 * (i + 1));
        s.w = i % 4 == 2 ? init : i % 4 == 3 ? tp_param(init, "w") : tp_variable(init, "w");
        note(b, "y", call1(f, x));
        note(b, "y", call1(f, tp_neg(x)));
        tp_scope_end(b->tp);
        if (i == 5)
            settle(b);
    }
}

BODY(two_phases)
{
    world *s = user;
    tp_tensor *y = tp_mul(in[0], s->w);
    if (s->flag)
        y = tp_dropout(y, 0.5);
    else
        say(s->b, "mean %.9g", tp_item(tp_mean(y, TP_ALL, false)));
    out[0] = tp_relu(y);
}

static void flag_flipped(bed *b)
{
    world s = {.b = b, .flag = 1};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(5), 0.2), "w");
    tp_function *f = make(b, "two_phases", two_phases, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4, 5), 0.1);
    for (int i = 0; i < 20; i++) {
        s.flag = i < 5 || i % 3;
        note(b, "y", call1(f, x));
        if (i == 9)
            settle(b);
    }
    EXPECT_RECORDINGS(b, f, 3);
}

typedef struct choice {
    bed *b;
    unsigned bits;
} choice;

BODY(many_branches)
{
    const choice *c = user;
    tp_tensor *y = in[0];
    for (int i = 0; i < 12; i++) {
        tp_tensor *k = tp_scalar_like(y, 0.25 * (i + 1));
        switch (c->bits >> i & 1 ? i % 4 : 4) {
        case 0:
            y = tp_add(y, k);
            break;
        case 1:
            y = tp_sin(y);
            break;
        case 2:
            y = tp_min(y, k);
            break;
        case 3:
            y = tp_flip(y, TP_ALL);
            break;
        default:
            y = tp_mul(y, k);
        }
    }
    out[0] = y;
}

/* 4096 paths, few of them twice: there is an end to what is recorded, and it is right. */
static void paths_without_end(bed *b)
{
    choice c = {.b = b};
    tp_function *f = make(b, "many_branches", many_branches, &c);
    tp_tensor *x = pattern(b->tp, TP_DIMS(6), 0.1);
    uint64_t seed = 3;
    const bool compiles = b->way->opt.engine == TP_ENGINE_C || b->way->how == BOTH_WAITS;
    for (int i = 0; i < (compiles ? 20 : 300); i++) {
        tp_scope_begin(b->tp);
        c.bits = (unsigned)(unit_random(&seed) >> 40);
        tp_tensor *y = call1(f, x);
        if (i < 20)
            note(b, "y", y);
        tp_scope_end(b->tp);
    }
    c.bits = 0x5a5;
    note(b, "y", call1(f, x));
}

/* ---- arguments that share ---------------------------------------------------------------- */

BODY(both_read)
{
    out[0] = tp_sub(tp_mul(in[0], in[1]), tp_add(in[0], in[1]));
}

BODY(first_written)
{
    tp_tensor *was = tp_mul(in[1], tp_scalar_like(in[1], 1));
    tp_assign(in[0], tp_add(in[0], in[1]));
    out[0] = tp_mul(in[1], tp_scalar_like(in[1], 2));
    out[1] = was;
}

static void write_first(bed *b, tp_function *f, tp_tensor *v, tp_tensor *w)
{
    tp_tensor *out[2];
    say(b, "%s", tp_status_name(tp_function_call(f, TP_TENSORS(v, w), 2, out)));
    note(b, "twice", out[0]);
    note(b, "was", out[1]);
    note(b, "v", v);
    note(b, "w", w);
    note_error(b, "write_first");
}

static void arguments_that_alias(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "both_read", both_read, NULL);
    tp_function *g = make(b, "first_written", first_written, NULL);
    tp_tensor *x = pattern(tp, TP_DIMS(4), 0.1), *y = pattern(tp, TP_DIMS(4), 0.3);
    tp_tensor *v = tp_variable(x, "v"), *w = tp_variable(y, "w");
    for (int i = 0; i < 4; i++) {
        note(b, "xy", call2(f, x, y));
        note(b, "xx", call2(f, x, x));
        note(b, "yx", call2(f, y, x));
        note(b, "yy", call2(f, y, y));
        write_first(b, g, v, w);
        write_first(b, g, v, v);
        write_first(b, g, w, v);
        write_first(b, g, w, x); /* a variable and a constant */
        if (i == 2)
            write_first(b, g, x, w); /* no variable: an error */
        settle(b);
    }
}

static void argument_is_a_view(bed *b)
{
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "first_written", first_written, NULL);
    tp_tensor *v = tp_variable(pattern(tp, TP_DIMS(4, 3), 0.1), "v");
    tp_tensor *other = tp_variable(pattern(tp, TP_DIMS(4, 3), 0.2), "other");
    for (int i = 0; i < 4; i++) {
        write_first(b, f, tp_slice(v, 0, 0, 2, 1), tp_slice(other, 0, 1, 3, 1));
        write_first(b, f, tp_slice(v, 0, 0, 2, 1), tp_slice(v, 0, 1, 3, 1)); /* overlap */
        write_first(b, f, tp_slice(v, 0, 1, 3, 1), tp_slice(v, 0, 0, 2, 1));
        write_first(b, f, tp_slice(v, 0, 0, 2, 1), tp_slice(v, 0, 2, 4, 1)); /* apart */
        write_first(b, f, v, tp_flip(v, TP_DIMS(0)));
        write_first(b, f, v, tp_select(v, 0, 1)); /* a row of it, broadcast */
        write_first(b, f, v, tp_broadcast(tp_select(v, 0, i), TP_DIMS(4, 3)));
        write_first(b, f, tp_transpose(v, TP_ALL), tp_transpose(other, TP_ALL));
        write_first(b, f, tp_select(v, 1, 2), tp_select(v, 1, i % 3));
        settle(b);
        tp_assign(v, tp_mul(v, tp_scalar_like(v, 0.125)));
    }
}

/* ---- views of state ---------------------------------------------------------------------- */

BODY(through_views)
{
    const world *s = user;
    tp_tensor *row = tp_select(s->w, 0, 1); /* made inside */
    tp_tensor *sum = tp_add(row, in[0]);
    tp_assign(s->w, tp_mul(s->w, tp_scalar_like(s->w, 1.5)));
    out[0] = tp_add(row, in[0]); /* sees the new value */
    out[1] = tp_mul(s->v, s->v); /* a view made outside */
    tp_assign(tp_select(row, 0, 0), tp_sum(sum, TP_ALL, false));
    out[2] = tp_add(tp_flip(s->w, TP_DIMS(1)), row);
    tp_assign(s->v, tp_neg(in[0]));
    out[3] = sum;
    out[4] = tp_transpose(s->w, TP_ALL);
    tp_assign(tp_swap(s->w, 0, 1), tp_add(out[4], tp_cumsum(out[4], 0, false, false)));
    out[5] = tp_add(row, s->v);
}

static void assignment_through_views(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(3, 4), 0.1), "w");
    s.v = tp_select(s.w, 0, 2);
    tp_function *f = make(b, "through_views", through_views, &s);
    for (int i = 0; i < 8; i++) {
        tp_tensor *x = pattern(tp, TP_DIMS(4), 0.01 * i), *out[6];
        s.v = tp_select(s.w, 0, i % 4 == 3 ? 1 : 2);
        tp_function_call(f, TP_TENSORS(x), 6, out);
        for (int k = 0; k < 6; k++)
            note(b, "out", out[k]);
        note(b, "w", s.w);
        if (i == 3)
            settle(b);
        tp_assign(s.w, tp_mul(s.w, tp_scalar_like(s.w, 0.25)));
        note(b, "out 4 after", out[4]);
    }
    note_error(b, "views");
}

BODY(pointers)
{
    world *s = user;
    const float *v = tp_data(s->w);
    const float first = v ? v[0] : 0;
    tp_tensor *y = tp_add(in[0], s->w);
    tp_assign(s->w, tp_mul(y, tp_scalar_like(y, 0.5)));
    say(s->b, "first %.9g, now %.9g, outside %.9g", (double)first, (double)(v ? v[0] : 0),
        (double)s->p[1]);
    const float *now = tp_data(s->w), *sum = tp_data(y);
    say(s->b, "again %.9g, sum %.9g", (double)(now ? now[2] : 0), (double)(sum ? sum[2] : 0));
    tp_assign(s->w, tp_sub(s->w, tp_scalar_like(y, 0.25)));
    say(s->b, "the pointers of before: %.9g %.9g", (double)v[1], (double)now[1]);
    out[0] = tp_square(s->w);
}

static void pointers_from_tp_data(bed *b)
{
    world s = {.b = b};
    s.w = tp_variable(pattern(b->tp, TP_DIMS(3), 0.1), "w");
    s.p = tp_data(s.w);
    tp_function *f = make(b, "pointers", pointers, &s);
    for (int i = 0; i < 8; i++) {
        tp_tensor *y = call1(f, pattern(b->tp, TP_DIMS(3), 0.1 * i));
        const float *p = tp_data(y);
        say(b, "after the call %.9g, y %.9g", (double)s.p[0], (double)(p ? p[0] : 0));
        if (i == 3)
            settle(b);
    }
    tp_assign(s.w, pattern(b->tp, TP_DIMS(3), 1));
    say(b, "assigned outside %.9g", (double)s.p[0]);
}

/* ---- makers inside ----------------------------------------------------------------------- */

BODY(made_inside)
{
    const world *s = user;
    tp_ctx *tp = tp_ctx_of(in[0]);
    const float v[3] = {(float)s->n, 1, (float)(s->n * s->n)};
    tp_tensor *a = tp_tensor_new(tp, TP_F32, TP_DIMS(3), v);
    tp_tensor *r = tp_arange(tp, TP_F32, 3, s->n, 0.5 * s->n);
    tp_tensor *c = tp_full(tp, TP_F32, TP_DIMS(3), s->n % 4);
    tp_tensor *one = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    tp_tensor *wrapped = tp_tensor_wrap(tp, TP_F32, TP_DIMS(3), (void *)s->p, NULL, NULL);
    tp_tensor *zeros = tp_tensor_new(tp, TP_F32, TP_DIMS(3), NULL);
    out[0] = tp_add(tp_add(tp_mul(a, in[0]), tp_mul(r, c)), tp_add(one, zeros));
    out[1] = tp_mul(wrapped, in[0]);
}

static void tensors_made_inside(bed *b)
{
    static float table[12][3];
    world s = {.b = b};
    tp_function *f = make(b, "made_inside", made_inside, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(3), 0.1), *out[2];
    for (s.n = 0; s.n < 12; s.n++) {
        float *row = table[s.n % 3];
        for (int k = 0; k < 3; k++)
            row[k] = (float)(s.n * 3 + k);
        s.p = row;
        tp_scope_begin(b->tp); /* what was wrapped goes before its memory changes */
        tp_function_call(f, TP_TENSORS(x), 2, out);
        note(b, "y", out[0]);
        note(b, "wrapped", out[1]);
        tp_scope_end(b->tp);
        if (s.n == 5)
            settle(b);
    }
}

/* A plain tensor reached through user, another one for each call. */
static void constant_swapped(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "one_layer", one_layer, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(2, 3), 0.1);
    uint64_t seed = 9;
    tp_tensor *fixed = pattern(b->tp, TP_DIMS(3, 2), 0.3);
    for (int i = 0; i < 16; i++) {
        tp_scope_begin(b->tp);
        s.w = i < 4 || i % 5 == 0 ? fixed : draw(b->tp, &seed, TP_DIMS(3, 2));
        note(b, "y", call1(f, x));
        tp_scope_end(b->tp);
        if (i == 8)
            settle(b);
    }
}

BODY(attributes)
{
    const world *s = user;
    const int n = s->n;
    const int64_t lo[2] = {n % 3, 0}, hi[2] = {0, n % 2};
    tp_tensor *a = tp_slice(in[0], 0, n % 3, TP_END, 1 + n % 2);
    tp_tensor *p = tp_pad(a, 2, lo, hi, n);
    tp_tensor *c = tp_concat(1 + n % 3, (tp_tensor *[]){p, p, p}, n % 2);
    tp_tensor *t = n % 4 == 1 ? tp_transpose(c, TP_DIMS(1, 0)) : c;
    out[0] = tp_sum(t, TP_DIMS(n % 2), n % 5 == 2);
    out[1] = tp_reshape(in[0], TP_DIMS(n % 2 ? 3 : 4, -1));
    out[2] = tp_cast(tp_mul(in[0], tp_scalar_like(in[0], 10)), n % 3 ? TP_I32 : TP_F64);
    out[3] = n % 2 ? tp_cumsum(in[0], 1, n % 4 == 1, false) : tp_softmax(in[0], n % 4 / 2);
    out[4] = tp_select(in[0], 0, n % 4);
    out[5] = tp_one_hot(tp_argmax(in[0], n % 2, false), 2 + n % 3, TP_F32);
}

static void attributes_that_vary(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "attributes", attributes, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(4, 3), 0.1), *out[6];
    const bool compiles = b->way->opt.engine == TP_ENGINE_C || b->way->how == BOTH_WAITS;
    for (int i = 0; i < (compiles ? 12 : 40); i++) {
        s.n = i % 5 == 4 ? 7 * i : i % 5;
        tp_function_call(f, TP_TENSORS(x), 6, out);
        if (i < 12)
            for (int k = 0; k < 6; k++)
                note(b, "out", out[k]);
    }
    note_error(b, "attributes");
}

BODY(facts)
{
    const world *s = user;
    tp_tensor *y = tp_matmul(in[0], tp_transpose(in[0], TP_ALL));
    tp_tensor *i = tp_argmax(y, 0, false);
    say(s->b, "%s[%d: %lld, %lld] %lld, grad %d, symbolic %d, failed %d, \"%s\", status %s",
        tp_dtype_name(tp_dtype_of(y)), tp_rank(y), (long long)tp_size(y, 0),
        (long long)tp_dim(y, -1), (long long)tp_count(y), tp_requires_grad(y),
        tp_is_symbolic(y), tp_failed(y), tp_error_text(y), tp_status_name(tp_status_of(i)));
    say(s->b, "%s, graph %d, same context %d", tp_dtype_name(tp_dtype_of(i)),
        tp_graph_of(y) != NULL, tp_ctx_of(y) == s->b->tp);
    tp_name(y, s->n % 2 ? "odd" : "even");
    say(s->b, "name %s, none %d", tp_name_of(y), tp_name_of(i) == NULL);
    tp_size(y, 5);
    say(s->b, "%s", tp_error_message(s->b->tp));
    tp_clear_error(s->b->tp);
    out[0] = y;
}

static void facts_asked_inside(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "facts", facts, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(3, 2), 0.1);
    tp_tensor *p = tp_param(x, "p");
    for (s.n = 0; s.n < 6; s.n++) {
        tp_tensor *y = call1(f, s.n % 3 == 2 ? p : x);
        note(b, "y", y);
        say(b, "name %s", tp_name_of(y) ? tp_name_of(y) : "none");
        settle(b);
    }
}

/* ---- random ------------------------------------------------------------------------------ */

BODY(noisy)
{
    world *s = user;
    tp_ctx *tp = s->b->tp;
    if (s->flag == 2)
        tp_seed(tp, (uint64_t)s->n);
    tp_tensor *a = tp_normal_like(in[0], 0, 1);
    if (s->flag)
        a = tp_mul(a, tp_uniform(tp, TP_F32, TP_DIMS(3), -1, s->n));
    if (s->flag == 3) {
        tp_seed(tp, 5);
        a = tp_add(a, tp_normal(tp, TP_F32, TP_DIMS(3), 0, 2));
    }
    tp_normal(tp, TP_F64, TP_DIMS(2), 0, 1); /* unused, but it moves the position */
    s->n++;
    out[0] = tp_add(a, in[0]);
}

static void random_numbers(bed *b)
{
    world s = {.b = b};
    tp_ctx *tp = b->tp;
    tp_function *f = make(b, "noisy", noisy, &s);
    tp_tensor *x = pattern(tp, TP_DIMS(3), 0.1);
    for (int i = 0; i < 24; i++) {
        s.flag = i < 3 ? 0 : i / 2 % 4;
        tp_tensor *y = call1(f, x);
        tp_tensor *z =
            i % 3 ? tp_uniform(tp, TP_F32, TP_DIMS(2), 0, 1) : x; /* before y is read */
        note(b, "z", z);
        note(b, "y", y);
        if (i == 15)
            settle(b);
        if (i == 20)
            tp_seed(tp, 77);
    }
}

/* ---- what nothing reads ------------------------------------------------------------------ */

BODY(idle)
{
    const world *s = user;
    tp_exp(in[0]);
    tp_gather(in[0], in[1], 0); /* unused, and it may fail */
    if (s->flag)
        tp_matmul(in[0], in[0]);
    out[0] = tp_neg(in[0]);
}

static void errors_of_unused_ops(bed *b)
{
    world s = {.b = b};
    tp_function *f = make(b, "idle", idle, &s);
    tp_tensor *x = pattern(b->tp, TP_DIMS(3, 2), 0.1);
    for (int i = 0; i < 12; i++) {
        const int64_t at[2] = {0, i % 4 == 3 ? 9 : 2};
        s.flag = i == 6 || i == 9;
        tp_tensor *out[1], *index = tp_tensor_new(b->tp, TP_I64, TP_DIMS(2), at);
        say(b, "status %s", tp_status_name(tp_function_call(f, TP_TENSORS(x, index), 1, out)));
        note_error(b, "of the call");
        note(b, "y", out[0]);
        settle(b);
    }
}

/* ---- assignments between calls ----------------------------------------------------------- */

BODY(accumulate)
{
    const world *s = user;
    out[0] = tp_mul(s->w, tp_scalar_like(s->w, 2));
    tp_assign(s->w, tp_add(s->w, in[0]));
    out[1] = s->w;
    out[2] = tp_add(s->w, out[0]);
    tp_assign(s->w, tp_sub(s->w, tp_scalar_like(s->w, 0.5)));
}

BODY(look)
{
    const world *s = user;
    out[0] = tp_sum(tp_square(s->w), TP_ALL, false);
}

/* Two functions and plain C share one variable. */
static void state_shared(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    s.w = tp_variable(pattern(tp, TP_DIMS(2, 2), 0.1), "w");
    tp_tensor *corner = tp_slice(s.w, 1, 0, 1, 1), *kept[10] = {NULL};
    tp_function *train = make(b, "train", accumulate, &s), *look_at = make(b, "look", look, &s);
    for (int i = 0; i < 10; i++) {
        tp_tensor *out[3], *x = pattern(tp, TP_DIMS(2, 2), 0.1 * i);
        tp_function_call(train, TP_TENSORS(x), 3, out);
        kept[i] = out[0];
        tp_tensor *y;
        tp_function_call(look_at, 0, NULL, 1, &y);
        if (i % 3 == 1)
            tp_assign(corner, tp_full(tp, TP_F32, TP_DIMS(2, 1), i)); /* before y is read */
        note(b, "squares", y);
        note(b, "w", s.w);
        note(b, "the variable itself", out[1]);
        note(b, "sum", out[2]);
        say(b, "is it %d", out[1] == s.w);
        if (i == 4)
            settle(b);
    }
    for (int i = 0; i < 10; i++)
        note(b, "kept", kept[i]);
    EXPECT_RECORDINGS(b, train, 2);
    EXPECT_RECORDINGS(b, look_at, 2);
}

/* Texts of tapes, while what they show waits: its operands, and variables that will be assigned. */
BODY(drawn)
{
    world *s = user;
    tp_free(s->b->tp,
            tp_tape_text(in[0])); /* a pure one's trace ends here, with nothing in it */
    tp_tensor *h = tp_mul(in[0], s->w);
    for (int i = 0; i < 2; i++) {
        tp_tensor *five = tp_add(tp_scalar_like(h, 2), tp_scalar_like(h, 3));
        h = tp_tanh(tp_mul(h, five)); /* a constant of the tape, and not computed yet */
        tp_assign(s->v, tp_add(s->v, tp_scalar_like(s->v, 1)));
        tp_tensor *y = i ? h : tp_add(h, s->v);
        char *text = tp_tape_text(y), *dot = tp_tape_dot(tp_neg(y));
        if (s->n++ % 3 == 0)
            say(s->b, "%s%s", text ? text : "no text", dot ? dot : "no drawing");
        tp_free(s->b->tp, text);
        tp_free(s->b->tp, dot);
    }
    out[0] = h;
}

static void tapes_shown(bed *b)
{
    tp_ctx *tp = b->tp;
    for (int pure = 0; pure < 2; pure++) {
        world s = {.b = b};
        s.w = tp_param(pattern(tp, TP_DIMS(2, 2), 0.1), "w");
        s.v = tp_variable(pattern(tp, TP_DIMS(2), 0.1), "v");
        tp_function *f = pure ? make_pure(b, "drawn", drawn, &s) : make(b, "drawn", drawn, &s);
        for (int i = 0; i < 8; i++) {
            note(b, "y", call1(f, pattern(tp, TP_DIMS(2, 2), 0.1 * i)));
            note(b, "v", s.v);
            if (i == 4)
                settle(b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(counter_that_acts_late),
        ATTACK(static_variable),
        ATTACK(rate_that_steps),
        ATTACK(scalars_of_all_kinds),
        ATTACK(weight_swapped),
        ATTACK(weight_of_the_same_address),
        ATTACK(flag_flipped),
        ATTACK(paths_without_end),
        ATTACK(arguments_that_alias),
        ATTACK(argument_is_a_view),
        ATTACK(assignment_through_views),
        ATTACK(pointers_from_tp_data),
        ATTACK(tensors_made_inside),
        ATTACK(constant_swapped),
        ATTACK(attributes_that_vary),
        ATTACK(facts_asked_inside),
        ATTACK(random_numbers),
        ATTACK(many_steps),
        ATTACK(errors_of_unused_ops),
        ATTACK(state_shared),
        ATTACK(tapes_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
