/* Pure functions with branches on values: how many recordings it takes until the C code is done with,
 * and that what runs without it is what it would do. */
#include "common/both.h"

#include <inttypes.h>

enum { N = 6, MANY = 20 };

typedef struct world {
    bed *b;
    tp_tensor *w[2 * MANY], *half;
    tp_function *f;
    int kind;
    int64_t ran; /* times that the body did */
} world;

static void prepare(world *s, bed *b)
{
    *s = (world){.b = b};
    for (int i = 0; i < 2 * MANY; i++) {
        uint64_t seed = 100 + (uint64_t)i;
        s->w[i] = tp_param(draw(b->tp, &seed, 2, (int64_t[]){N, N}), "w");
    }
    tp_recording(b->tp, false);
}

static tp_tensor *at(tp_tensor *x, int i)
{
    return tp_slice(x, 1, i, i + 1, 1);
}

static bool is_high(tp_tensor *x)
{
    return tp_truth(tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0)));
}

/* Three nested: four ways. */
BODY(nested)
{
    world *s = user;
    tp_tensor *x = in[0], *h = tp_matmul(x, s->w[0]);
    s->ran++;
    if (is_high(at(x, 0))) {
        h = tp_tanh(tp_matmul(h, s->w[1]));
        if (is_high(at(x, 1))) {
            h = tp_relu(tp_matmul(h, s->w[2]));
            if (is_high(at(x, 2)))
                h = tp_matmul(h, s->w[3]);
            else
                h = tp_matmul(h, s->w[4]);
        } else {
            h = tp_matmul(h, s->w[5]);
        }
    } else {
        h = tp_exp(tp_matmul(h, s->w[6]));
    }
    out[0] = h;
}

/* Four one after the other, both sides of each. */
BODY(sequence)
{
    world *s = user;
    tp_tensor *h = in[0];
    s->ran++;
    for (int i = 0; i < 4; i++)
        if (is_high(at(in[0], i)))
            h = tp_tanh(tp_matmul(h, s->w[2 * i]));
        else
            h = tp_sigmoid(tp_matmul(h, s->w[2 * i + 1]));
    out[0] = h;
}

/* The same, on what was computed, without another side. */
BODY(sequence_open)
{
    world *s = user;
    tp_tensor *h = in[0];
    s->ran++;
    for (int i = 0; i < 4; i++)
        if (is_high(at(h, i)))
            h = tp_tanh(tp_sub(tp_matmul(h, s->w[i]), in[0]));
    out[0] = tp_add(h, in[0]);
}

BODY(many)
{
    world *s = user;
    tp_tensor *sum = tp_scalar_like(in[0], 0), *x = in[0];
    s->ran++;
    for (int i = 0; i < MANY; i++) {
        tp_tensor *y;
        if (is_high(tp_slice(in[1], 0, i, i + 1, 1)))
            y = tp_tanh(tp_matmul(x, s->w[2 * i]));
        else
            y = tp_matmul(x, s->w[2 * i + 1]);
        sum = tp_add(sum, y);
    }
    out[0] = sum;
}

/* The branch makes two tensors, which take each other's places. */
BODY(crossed)
{
    world *s = user;
    tp_tensor *a = tp_tanh(in[0]), *b = tp_exp(in[0]);
    s->ran++;
    if (is_high(at(in[0], 0))) {
        tp_tensor *t = a;
        a = b;
        b = t;
    }
    tp_tensor *c = tp_sub(a, b);
    if (is_high(at(in[0], 1)))
        c = tp_mul(c, a);
    out[0] = tp_add(tp_matmul(c, s->w[0]), b);
}

/* What a branch made is used in another one only. */
BODY(dangling)
{
    world *s = user;
    tp_tensor *h = in[0], *y = tp_neg(in[0]);
    s->ran++;
    if (is_high(at(in[0], 0)))
        h = tp_matmul(h, s->w[0]);
    if (is_high(at(in[0], 1)))
        y = tp_tanh(h);
    out[0] = y;
}

/* A branch that computes nothing, and is noticed in another one only. */
BODY(silent)
{
    world *s = user;
    tp_tensor *a = tp_tanh(in[0]), *b = tp_exp(in[0]), *y = tp_neg(in[0]);
    s->ran++;
    if (is_high(at(in[0], 0)))
        a = b;
    if (is_high(at(in[0], 1)))
        y = tp_matmul(a, s->w[0]);
    out[0] = y;
}

/* The best so far is kept. */
BODY(best)
{
    world *s = user;
    tp_tensor *top = in[0];
    s->ran++;
    for (int i = 0; i < 4; i++) {
        tp_tensor *y = tp_tanh(tp_matmul(in[0], s->w[i]));
        if (is_high(tp_sub(y, top)))
            top = y;
    }
    out[0] = tp_exp(top);
}

/* A value that is read as a number and chooses. */
BODY(chosen)
{
    world *s = user;
    s->ran++;
    const int64_t which = tp_item_i64(tp_cast(
        tp_mul(tp_abs(tp_sum(at(in[0], 0), TP_ALL, false)), tp_scalar_like(in[0], 2)), TP_I64));
    tp_tensor *h = tp_matmul(in[0], s->w[which % 3]);
    out[0] = which == 1 ? tp_relu(h) : tp_tanh(h);
}

/* Early returns, several results, one an argument. */
BODY(returns)
{
    world *s = user;
    s->ran++;
    out[1] = in[0];
    out[0] = tp_matmul(in[0], s->w[0]);
    if (is_high(at(in[0], 0)))
        return;
    out[1] = out[0];
    if (is_high(at(in[0], 1)))
        return;
    out[0] = tp_exp(out[0]);
}

typedef struct kind {
    const char *name;
    tp_body body;
    int n_in, n_out, recordings; /* at most */
    int ifs;                     /* of the model; */
    const char *refused;
} kind;

static const kind kinds[] = {
    {"nested",        nested,        1, 1, 4,        3,    NULL                  },
    {"sequence",      sequence,      1, 1, 5,        4,    NULL                  },
    {"sequence_open", sequence_open, 1, 1, 16,       4,    NULL                  },
    {"many",          many,          2, 1, MANY + 1, MANY, NULL                  },
    {"crossed",       crossed,       1, 1, 4,        2,    NULL                  },
    {"dangling",      dangling,      1, 1, 4,        2,    NULL                  },
    {"silent",        silent,        1, 1, 4,        2,    NULL                  },
    {"best",          best,          1, 1, 16,       4,    NULL                  },
    {"chosen",        chosen,        1, 1, 8,        0,    "a value is read here"},
    {"returns",       returns,       1, 2, 4,        2,    NULL                  },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void one_call(bed *b, const kind *k, tp_function *f, uint64_t *seed, bool notes)
{
    tp_scope_begin(b->tp);
    tp_tensor *in[2] = {draw(b->tp, seed, 2, (int64_t[]){1, N}),
                        draw(b->tp, seed, 1, (int64_t[]){MANY})};
    tp_tensor *out[2];
    if (tp_function_call(f, k->n_in, in, k->n_out, out) != TP_OK)
        fail_msg("%s: %s: %s", k->name, b->way->name, tp_error_message(b->tp));
    for (int i = 0; i < k->n_out && notes; i++)
        note(b, k->name, out[i]);
    tp_scope_end(b->tp);
}

/* The model that is saved has an If for each branch, joined, and gives what the function gives. */
static void as_model(bed *b, const kind *k, tp_function *f)
{
    if (BOTH_STRESS)
        return;
    model m = model_of(b, f, k->name, k->n_in, k->n_out);
    expect_model(&m, k->name, k->refused, 0, k->ifs);
    uint64_t seed = 70;
    for (int call = 0; call < 100 && m.program; call++) {
        tp_scope_begin(b->tp);
        tp_tensor *in[2] = {draw(b->tp, &seed, 2, (int64_t[]){1, N}),
                            draw(b->tp, &seed, 1, (int64_t[]){MANY})};
        tp_tensor *out[2];
        assert_int_equal(tp_function_call(f, k->n_in, in, k->n_out, out), TP_OK);
        same_in_model(b, &m, k->name, in, k->n_out, out);
        tp_scope_end(b->tp);
    }
}

static void scenario_of(bed *b, int i)
{
    world s;
    prepare(&s, b);
    const kind *k = &kinds[i];
    tp_function *f = make_pure(b, k->name, k->body, &s);
    uint64_t seed = 7;
    for (int call = 0; call < 300; call++) {
        one_call(b, k, f, &seed, true);
        if (call == 100 || call == 200)
            settle(b);
    }
    if (b->eager)
        return;
    const tp_function_stats stats = tp_function_stats_of(f);
#ifndef TPI_STRESS
    char *text = tp_function_text(f);
    if (s.ran > k->recordings)
        fail_msg("%s: %s: the body ran %" PRId64 " times, not %d\n%s", k->name, b->way->name,
                 s.ran, k->recordings, text);
    tp_free(b->tp, text);
#endif
    as_model(b, k, f);
    assert_int_equal(stats.user_calls, s.ran);
    assert_int_equal(stats.calls, 300);
}

static void all_kinds(bed *b)
{
    for (int i = 0; i < N_KINDS; i++)
        scenario_of(b, i);
}

/* With exactly so many recordings, each of a way of its own, everything else is known; and there is one
 * segment before the first look, and one for each outcome of each. */
static void exact(bed *b, int which, int n, const float (*ways)[N], int segments)
{
    world s;
    prepare(&s, b);
    const kind *k = &kinds[which];
    tp_function *f = make_pure(b, k->name, k->body, &s);
    for (int i = 0; i < n; i++) {
        tp_tensor *x = tp_tensor_new(b->tp, TP_F32, TP_DIMS(1, N), ways[i]), *y;
        assert_int_equal(tp_function_call(f, 1, &x, 1, &y), TP_OK);
    }
    const int64_t ran = s.ran;
    uint64_t seed = 77;
    const int calls = b->eager || b->way->how == BOTH_WAITS ? 500 : 100;
    for (int i = 0; i < calls; i++)
        one_call(b, k, f, &seed, i < 100);
#ifndef TPI_STRESS
    if (!b->eager && s.ran != ran)
        fail_msg("%s: %s: the body ran %" PRId64 " times more", k->name, b->way->name,
                 s.ran - ran);
    char *text = b->eager ? NULL : tp_function_text(f), line[40];
    snprintf(line, sizeof line, " %d segments in ", segments);
    if (text && !strstr(text, line))
        fail_msg("%s: %s: not%s\n%s", k->name, b->way->name, line, text);
    if (text) /* of the three nested ones three sides are a product alike */
        assert_int_equal(tp_function_stats_of(f).segments, segments - 2 * (which == 0));
    tp_free(b->tp, text);
#endif
    (void)ran, (void)segments;
}

static void exact_nested(bed *b)
{
    static const float ways[4][N] = {
        {-1},
        { 1,   -1},
        {  1, 1, -1},
        {  1, 1, 1}
    };
    exact(b, 0, 4, ways, 7);
}

static void exact_sequence(bed *b)
{
    static const float ways[5][N] = {
        {-1, -1, -1, -1},
        {1,  -1, -1, -1},
        {-1, 1,  -1, -1},
        {-1, -1, 1,  -1},
        {-1, -1, -1, 1 }
    };
    exact(b, 1, 5, ways, 9);
}

/* A hundred thousand calls. */
static void long_run(void **state)
{
    (void)state;
    bed b = {.way = &(both_way){.name = "auto"}};
    b.tp = tp_open(&(tp_options){.seed = 1});
    for (int i = 0; i < 2; i++) {
        world s;
        prepare(&s, &b);
        tp_function *f = tp_function_new(b.tp, kinds[i].name, kinds[i].body, &s,
                                         &(tp_function_options){.pure = true});
        uint64_t seed = 5;
        for (int call = 0; call < 200; call++)
            one_call(&b, &kinds[i], f, &seed, false);
        tp_function_wait(f);
        const int64_t ran = s.ran;
        for (int call = 0; call < 100000; call++)
            one_call(&b, &kinds[i], f, &seed, false);
#ifndef TPI_STRESS
        assert_int_equal(s.ran, ran);
        assert_true(ran <= kinds[i].recordings);
#endif
        (void)ran;
    }
    tp_close(b.tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ATTACK(all_kinds), ATTACK(exact_nested),
                                       ATTACK(exact_sequence), cmocka_unit_test(long_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
