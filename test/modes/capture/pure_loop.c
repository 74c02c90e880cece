/* Pure functions with loops that values end: they roll, with branches and loops inside. */
#include "common/both.h"

#include <inttypes.h>
#include <unistd.h>

typedef struct world {
    bed *b;
    tp_tensor *w[4], *zero, *one, *two;
    int64_t ran;
} world;

static void prepare(world *s, bed *b)
{
    *s = (world){.b = b};
    for (int i = 0; i < 4; i++) {
        uint64_t seed = 300 + (uint64_t)i;
        s->w[i] =
            tp_mul(draw(b->tp, &seed, 2, (int64_t[]){4, 4}), tp_scalar(b->tp, TP_F32, 0.5));
    }
}

static tp_tensor *number(tp_tensor *like, double value)
{
    return tp_scalar_like(like, value);
}

static bool above(tp_tensor *a, double value)
{
    return tp_truth(tp_gt(a, number(a, value)));
}

static bool is_odd(tp_tensor *n)
{
    return tp_truth(tp_gt(tp_sub(n, tp_mul(tp_floor(tp_mul(n, number(n, 0.5))), number(n, 2))),
                          number(n, 0.5)));
}

/* The length of the sequence from n. */
BODY(collatz)
{
    world *s = user;
    s->ran++;
    tp_tensor *n = in[0], *length = number(n, 0);
    while (above(n, 1)) {
        if (is_odd(n))
            n = tp_add(tp_mul(n, number(n, 3)), number(n, 1));
        else
            n = tp_mul(n, number(n, 0.5));
        length = tp_add(length, number(n, 1));
    }
    out[0] = length;
}

/* sqrt(a), to a tolerance. */
BODY(newton)
{
    world *s = user;
    s->ran++;
    tp_tensor *a = in[0], *z = tp_add(a, number(a, 1));
    tp_tensor *err = tp_abs(tp_sub(tp_mul(z, z), a));
    while (above(err, 1e-4)) {
        z = tp_mul(tp_add(z, tp_div(a, z)), number(z, 0.5));
        err = tp_abs(tp_div(tp_sub(tp_mul(z, z), a), a));
    }
    out[0] = z;
}

/* The one before last is needed too. */
BODY(secant)
{
    world *s = user;
    s->ran++;
    tp_tensor *a = in[0], *x0 = number(a, 0.5), *x1 = tp_add(a, number(a, 1));
    tp_tensor *y0 = tp_sub(tp_mul(x0, x0), a), *y1 = tp_sub(tp_mul(x1, x1), a);
    while (above(tp_abs(y1), 1e-3)) {
        tp_tensor *x = tp_sub(x1, tp_div(tp_mul(y1, tp_sub(x1, x0)), tp_sub(y1, y0)));
        x0 = x1;
        y0 = y1;
        x1 = x;
        y1 = tp_sub(tp_mul(x, x), a);
    }
    out[0] = x1;
    out[1] = x0;
}

/* A loop in a loop. */
BODY(nested)
{
    world *s = user;
    s->ran++;
    tp_tensor *n = in[0], *sum = number(n, 0);
    while (above(n, 1)) {
        tp_tensor *k = n;
        while (above(k, 2)) {
            k = tp_sub(k, number(k, 2));
            sum = tp_add(sum, k);
        }
        n = tp_sub(tp_mul(n, number(n, 0.5)), number(n, 0.25));
    }
    out[0] = tp_add(sum, n);
}

/* At most eight turns, left early; the bound is met. */
BODY(early)
{
    world *s = user;
    s->ran++;
    tp_tensor *x = in[0];
    for (int i = 0; i < 8; i++) {
        x = tp_mul(x, number(x, 0.5));
        if (!above(x, 1))
            break;
    }
    out[0] = tp_add(x, number(x, 1));
}

/* A number of turns that is always the same, a branch in each: no loop. */
BODY(fixed)
{
    world *s = user;
    s->ran++;
    tp_tensor *x = in[0];
    for (int i = 0; i < 3; i++)
        if (above(x, 8))
            x = tp_mul(x, number(x, 0.25));
        else
            x = tp_add(tp_mul(x, number(x, 3)), number(x, 1));
    out[0] = x;
}

/* Hypotheses step by step, each kept while it is good; stops when all are worse. */
BODY(beam)
{
    world *s = user;
    s->ran++;
    tp_tensor *h = tp_mul(tp_add(s->w[3], number(s->w[3], 1)), in[0]), *best = number(in[0], 0);
    for (int step = 0; step < 12; step++) {
        h = tp_tanh(tp_matmul(h, s->w[0]));
        tp_tensor *score = tp_reduce_max(h, TP_ALL, false);
        while (above(score, 0.6)) {
            h = tp_mul(h, number(h, 0.75));
            score = tp_reduce_max(h, TP_ALL, false);
        }
        if (above(tp_sub(score, best), 0))
            best = score;
        else
            h = tp_add(h, tp_mul(s->w[1], number(h, 0.1)));
        if (!above(score, 0.05))
            break;
    }
    out[0] = best;
    out[1] = h;
}

/* A vector to convergence. */
BODY(power)
{
    world *s = user;
    s->ran++;
    tp_tensor *v =
        tp_add(tp_mul(tp_sum(s->w[0], 1, (const int64_t[]){1}, true), number(in[0], 0)), in[0]);
    tp_tensor *m = tp_matmul(tp_transpose(s->w[0], 2, (const int64_t[]){1, 0}), s->w[0]),
              *change;
    do {
        tp_tensor *u = tp_matmul(m, v);
        u = tp_div(u, tp_sqrt(tp_sum(tp_square(u), TP_ALL, false)));
        change = tp_sum(tp_square(tp_sub(u, v)), TP_ALL, false);
        v = u;
    } while (above(change, 1e-4));
    out[0] = v;
}

/* As many turns as it is told. */
BODY(ever)
{
    world *s = user;
    s->ran++;
    tp_tensor *left = in[0], *turns = number(left, 0);
    while (above(left, 0)) {
        left = tp_sub(left, number(left, 1));
        turns = tp_add(turns, number(turns, 1));
    }
    out[0] = turns;
}

/* Random numbers drawn until one is large. */
BODY(draws)
{
    world *s = user;
    s->ran++;
    tp_tensor *sum = in[0], *u = tp_uniform_like(in[0], 0, 1);
    while (!above(u, 0.8)) {
        sum = tp_add(sum, u);
        u = tp_uniform_like(in[0], 0, 1);
    }
    out[0] = sum;
}

typedef struct kind {
    const char *name;
    tp_body body;
    int n_out;
    double from, step;
    int recordings; /* at most */
    int loops, ifs; /* of the model; */
    const char *refused;
} kind;

static const kind kinds[] = {
    {"collatz", collatz, 1, 1,    1,    20, 1, 1, NULL                      },
    {"newton",  newton,  1, 0.25, 1.75, 8,  1, 1, NULL                      },
    {"secant",  secant,  2, 0.5,  0.75, 10, 0, 0, "loops of other numbers"  },
    {"nested",  nested,  1, 0.5,  0.5,  12, 2, 0, NULL                      },
    {"early",   early,   1, 0.5,  3,    12, 0, 7, NULL                      },
    {"fixed",   fixed,   1, 0.5,  2,    8,  0, 3, NULL                      },
    {"beam",    beam,    2, 0.25, 0.5,  60, 0, 0, "tp_truth was never false"},
    {"power",   power,   1, 0.25, 0.25, 8,  0, 0, "tp_truth was never false"},
    {"draws",   draws,   1, 0,    1,    12, 0, 0, "random numbers are drawn"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds, CALLS = 120 };

/* Calls it with all there is; `m` NULL: until nothing is new. */
static void call_all(bed *b, const kind *k, tp_function *f, const model *m)
{
    for (int call = 0; call < CALLS; call++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = tp_scalar(b->tp, TP_F32, k->from + k->step * call), *y[2];
        assert_int_equal(tp_function_call(f, 1, &x, k->n_out, y), TP_OK);
        if (m)
            same_in_model(b, m, k->name, &x, k->n_out, y);
        tp_scope_end(b->tp);
    }
}

/* The model that is saved has a Loop for each rolled loop, and gives what the function gives. */
static void as_model(bed *b, const kind *k, tp_function *f)
{
    call_all(b, k, f, NULL);
    if (BOTH_STRESS)
        return;
    model m = model_of(b, f, k->name, 1, k->n_out);
    expect_model(&m, k->name, k->refused, k->loops, k->ifs);
    if (m.program)
        call_all(b, k, f, &m);
}

static void scenario_of(bed *b, const kind *k)
{
    world s;
    prepare(&s, b);
    tp_function *f = make_pure(b, k->name, k->body, &s);
    tp_seed(b->tp, 3);
    for (int call = 0; call < CALLS; call++) {
        tp_scope_begin(b->tp);
        tp_tensor *x = tp_scalar(b->tp, TP_F32, k->from + k->step * (call * 53 % CALLS)), *y[2];
        if (tp_function_call(f, 1, &x, k->n_out, y) != TP_OK)
            fail_msg("%s: %s: %s", k->name, b->way->name, tp_error_message(b->tp));
        for (int i = 0; i < k->n_out; i++)
            note(b, k->name, y[i]);
        tp_scope_end(b->tp);
        if (call == 80)
            settle(b);
    }
    if (b->eager)
        return;
#ifndef TPI_STRESS
    char *text = tp_function_text(f);
    if (getenv("BOTH_SHOW"))
        printf("%s: %" PRId64 " recordings\n%s", k->name, s.ran, text);
    if (s.ran > k->recordings)
        fail_msg("%s: %s: the body ran %" PRId64 " times, not %d\n%s", k->name, b->way->name,
                 s.ran, k->recordings, text);
    tp_free(b->tp, text);
#endif
    as_model(b, k, f);
    assert_int_equal(tp_function_stats_of(f).user_calls, s.ran);
}

static void all_loops(bed *b)
{
    for (int i = 0; i < N_KINDS; i++)
        scenario_of(b, &kinds[i]);
}

/* Memory runs out at the n-th allocation of saving: that is told, nothing is lost, and it is saved then. */
static bool sweep_saving(long n)
{
    static const char path[] = "pure_loop_sweep.onnx";
    static const char *const in[] = {"x"}, *const out[] = {"y"};
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    bed b = {.tp = tp};
    world s;
    prepare(&s, &b);
    tp_function *f =
        tp_function_new(tp, "newton", newton, &s, &(tp_function_options){.pure = true});
    for (int i = 0; i < 4; i++) {
        tp_scope_begin(tp);
        tp_tensor *x = tp_scalar(tp, TP_F32, 0.25 + i * 4), *y;
        assert_int_equal(tp_function_call(f, 1, &x, 1, &y), TP_OK);
        tp_scope_end(tp);
    }
    memory.fail_at = memory.calls + n;
    const tp_status status = tp_onnx_save_function(f, path, 1, in, 1, out);
    const bool reached = memory.calls >= memory.fail_at;
    memory.fail_at = 0;
    if (status != (reached ? TP_E_MEMORY : TP_OK))
        fail_msg("allocation %ld fails: %s", n, tp_status_name(status));
    tp_clear_error(tp);
    assert_int_equal(tp_onnx_save_function(f, path, 1, in, 1, out), TP_OK);
    unlink(path);
    tp_close(tp);
    assert_int_equal(memory.bytes, 0);
    return reached;
}

static void saving_out_of_memory(void **state)
{
    (void)state;
    const char *text = getenv("ALLOC_SWEEP_STEP");
    const long step = text ? strtol(text, NULL, 10) : 1;
    long n = 1;
    while (sweep_saving(n))
        n += step > 0 ? step : 1;
    assert_true(!BOTH_STRESS || n > 1); /* other builds take memory in large pieces */
}

static void halve_until(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user;
    (void)n_in;
    (void)n_out;
    tp_tensor *x = in[0];
    while (tp_truth(tp_gt(x, in[1])))
        x = tp_mul(x, tp_scalar_like(x, 0.5));
    out[0] = x;
}

/* An argument that was one tensor in all calls may be one that the body knows: then there is no Loop,
 * and the cure is named. */
static void one_argument_was_fixed(void **state)
{
    (void)state;
    static const char path[] = "pure_loop_fixed.onnx";
    static const char *const in[] = {"x", "least"}, *const out[] = {"y"};
    tp_ctx *tp = tp_open(&(tp_options){.compiler = "/nonexistent/cc"});
    tp_function *f =
        tp_function_new(tp, "halve", halve_until, NULL, &(tp_function_options){.pure = true});
    tp_tensor *least = tp_scalar(tp, TP_F32, 1), *y;
    for (int i = 0; i < 11; i++)
        tp_function_apply(f, TP_TENSORS(tp_scalar(tp, TP_F32, 3 + 9 * (i % 5)), least));
    const tp_status status = tp_onnx_save_function(f, path, 2, in, 1, out);
    if (!BOTH_STRESS) {
        assert_int_equal(status, TP_E_STATE);
        assert_non_null(strstr(tp_error_message(tp), "the same tensor in all calls"));
    }
    tp_clear_error(tp);
    least = tp_scalar(tp, TP_F32, 1);
    y = tp_function_apply(f, TP_TENSORS(tp_scalar(tp, TP_F32, 100), least));
    assert_float_equal(tp_item(y), 100.0 / 128, 0);
    assert_int_equal(tp_onnx_save_function(f, path, 2, in, 1, out), TP_OK);
    unlink(path);
    tp_close(tp);
}

/* A loop that is one turn longer in each call: the body runs for it, and nothing else is kept, however
 * often. */
static void ever_longer(void **state)
{
    (void)state;
    enum { LONGEST = 400 };
    tp_ctx *tp = tp_open(&(tp_options){.compiler = "/nonexistent/cc"});
    bed b = {.tp = tp};
    world s;
    prepare(&s, &b);
    tp_function *f =
        tp_function_new(tp, "long", ever, &s, &(tp_function_options){.pure = true});
    for (int i = 0; i < 2 * LONGEST; i++) {
        float y;
        tp_scope_begin(tp);
        tp_tensor *x = tp_scalar(tp, TP_F32, i % LONGEST), *out;
        assert_int_equal(tp_function_call(f, 1, &x, 1, &out), TP_OK);
        assert_int_equal(tp_read(out, &y, sizeof y), TP_OK);
        assert_true(y == (float)(i % LONGEST));
        tp_scope_end(tp);
    }
    char *text = tp_function_text(f);
    if (!BOTH_STRESS && (s.ran > LONGEST + 2 || !strstr(text, "4 recordings, ")))
        fail_msg("the body ran %" PRId64 " times\n%s", s.ran, text);
    tp_free(tp, text);
    tp_close(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACK(all_loops),
        cmocka_unit_test(saving_out_of_memory),
        cmocka_unit_test(one_argument_was_fixed),
        cmocka_unit_test(ever_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
