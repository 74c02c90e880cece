/* Each row of src/capture/why.def is what somebody reads: the function of its name, below, makes a function stay
 * eager for that reason. A row without one does not compile, and one that its function does not raise fails. */
#include "capture/capture_def.h"
#include "common/both.h"
#include "tapir/control.h"
#include "tapir/random.h"

typedef struct world {
    tp_ctx *tp;
    unit_memory memory;
    tp_function *f, *inner; /* f: of which it is told */
    tp_tensor *v, *other;
    int n; /* of the call */
    char bytes[TPI_MAX_WATCHED], more;
} world;

static void make_function(world *s, bool pure, tp_body body)
{
    const tp_function_options opt = {.engine = TP_ENGINE_REFERENCE, .pure = pure};
    s->f = tp_function_new(s->tp, "f", body, s, &opt);
    assert_non_null(s->f);
}

static tp_tensor *numbers(const world *s, int64_t n, double scale)
{
    return pattern(s->tp, TP_DIMS(n), scale);
}

static tp_tensor *call(tp_function *f, tp_tensor *x)
{
    return tp_function_apply(f, 1, &x); /* by a line of this file */
}

/* Two calls on different numbers. */
static void call_twice(world *s, bool pure, tp_body body)
{
    make_function(s, pure, body);
    for (s->n = 0; s->n < 2; s->n++)
        call(s->f, numbers(s, 3, 0.1 * (s->n + 1)));
}

static bool is_told(const world *s, const char *why);

/* ---- what any captured function may meet ------------------------------------------------------ */

/* Nothing is to be had from its first op on, and what lies in pools is used up. */
BODY(in_need)
{
    enum { ENOUGH = 1 << 16 };
    world *s = user;
    s->memory.fail_at = s->memory.calls + 1;
    out[0] = in[0];
    for (int i = 0; i < ENOUGH && !tp_failed(out[0]); i++)
        out[0] = tp_neg(out[0]);
}

static void raise_memory(world *s)
{
    make_function(s, false, in_need);
    tp_tensor *x = numbers(s, 3, 1);
    assert_int_equal(tp_status_of(call(s->f, x)), TP_E_MEMORY);
    s->memory.fail_at = 0;
}

/* So many times. */
BODY(looking)
{
    const world *s = user;
    for (int i = 0; i < s->n; i++)
        tp_truth(in[0]);
    out[0] = tp_neg(in[0]);
}

static void look(world *s, bool pure, int n)
{
    make_function(s, pure, looking);
    s->n = n;
    call(s->f, tp_scalar(s->tp, TP_F32, 1));
}

static void raise_steps(world *s)
{
    look(s, false, TPI_MAX_STEPS);
}

/* Another order of its axes in each call. */
BODY(in_order)
{
    const world *s = user;
    int64_t axes[TP_MAX_RANK];
    for (int i = 0, n = s->n; i < TP_MAX_RANK; i++) { /* the n-th order */
        const int at = i - n % (i + 1);
        n /= i + 1;
        axes[i] = axes[at];
        axes[at] = i;
    }
    out[0] = tp_transpose(in[0], TP_MAX_RANK, axes);
}

static void raise_turns(world *s)
{
    tp_tensor *x = tp_full(s->tp, TP_F32, TP_DIMS(1, 1, 1, 1, 1, 1, 1, 1), 0);
    make_function(s, false, in_order);
    for (s->n = 0; s->n <= TPI_MAX_TURNS; s->n++)
        call(s->f, x);
}

/* No loop: that would be cut at its turns. */
BODY(long_one)
{
    uint64_t seed = 3;
    out[0] = in[0];
    for (int i = 0; i <= TPI_MAX_PROGRAM_STEPS; i++)
        out[0] = unit_random(&seed) >> 63 ? tp_neg(out[0]) : tp_abs(out[0]);
}

static void raise_length(world *s)
{
    call_twice(s, false, long_one);
#ifndef TPI_STRESS /* there trees are full before */
    static const int most[] = {TPI_MAX_ITEMS, TPI_MAX_BLOCKS};
    for (int i = 0; i < 2; i++) {
        assert_true(is_told(s, "it has too many steps"));
        log_begin();
        look(s, true, most[i]);
        char *text = log_end();
        assert_non_null(strstr(text, "not replayed: it has too many steps"));
        free(text);
    }
#endif
}

/* More of its values are joined in each call. */
BODY(joining_more)
{
    const world *s = user;
    out[0] = tp_concat(2 + s->n, (tp_tensor *[]){in[0], in[0], in[0]}, 0);
}

static void raise_operands(world *s)
{
    call_twice(s, false, joining_more);
}

/* Another of its values is used in each call. */
BODY(keeping_another)
{
    world *s = user;
    out[0] = in[0];
    for (int i = 0; i <= TPI_MAX_REBUILDS + 2; i++) {
        out[0] = tp_exp(out[0]);
        if (i == s->n)
            s->other = tp_retain(out[0]);
    }
}

#ifndef TPI_STRESS
enum { BITS = 9 }; /* of which more numbers are made than a pure function may have recordings */

/* Ops without a line, which are not joined. */
BODY(asking)
{
    for (int i = 0; i < n_in; i++)
        tp_truth_at(NULL, 0, in[i]);
    out[0] = in[0];
}
#endif

static void raise_changes(world *s)
{
    make_function(s, false, keeping_another);
    for (s->n = 0; s->n < TPI_MAX_REBUILDS + 2; s->n++) {
        call(s->f, numbers(s, 3, 0.001));
        tp_release(s->other);
    }
#ifndef TPI_STRESS /* there trees are full before */
    assert_true(is_told(s, "it differed from call to call too often"));
    make_function(s, true, asking);
    for (s->n = 0; s->n < 1 << BITS; s->n++) {
        tp_tensor *in[BITS], *y;
        tp_scope_begin(s->tp);
        for (int i = 0; i < BITS; i++)
            in[i] = tp_scalar(s->tp, TP_F32, s->n >> i & 1);
        assert_int_equal(tp_function_call(s->f, BITS, in, 1, &y), TP_OK);
        tp_scope_end(s->tp);
    }
#endif
}

/* ---- what pure functions may not do ----------------------------------------------------------- */

BODY(printing)
{
    FILE *nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    tp_print(out[0] = tp_neg(in[0]), nowhere);
    fclose(nowhere);
}

static void raise_shown(world *s)
{
    call_twice(s, true, printing);
}

BODY(seeding)
{
    tp_seed(tp_ctx_of(in[0]), 7);
    out[0] = tp_neg(in[0]);
}

static void raise_effects(world *s)
{
    call_twice(s, true, seeding);
}

BODY(reading_a_view)
{
    const world *s = user;
    tp_assign(s->v, tp_add(s->v, in[0]));
    out[0] = tp_neg(s->other);
}

static void raise_alias(world *s)
{
    s->other = tp_reshape(s->v, TP_DIMS(1, 3));
    call_twice(s, true, reading_a_view);
}

BODY(reading_other)
{
    const world *s = user;
    out[0] = tp_add(in[0], s->other);
}

static void raise_wrapped(world *s)
{
    static float memory[3] = {1, 2, 3};
    s->other = tp_tensor_wrap(s->tp, TP_F32, TP_DIMS(3), memory, NULL, NULL);
    call_twice(s, true, reading_other);
}

BODY(negating)
{
    out[0] = tp_neg(in[0]);
}

static void raise_gaps(world *s)
{
    make_function(s, true, negating);
    call(s->f, tp_transpose(pattern(s->tp, TP_DIMS(2, 3), 1), TP_ALL));
}

BODY(assigning_a_part)
{
    const world *s = user;
    tp_assign(tp_slice(s->v, 0, 1, 3, 1), tp_neg(tp_slice(in[0], 0, 0, 2, 1)));
    out[0] = tp_neg(in[0]);
}

static void raise_part(world *s)
{
    call_twice(s, true, assigning_a_part);
}

BODY(reading_much)
{
    char bytes[TPI_MAX_READ + sizeof(float)];
    out[0] = tp_neg(in[0]);
    assert_int_equal(tp_read(out[0], bytes, sizeof bytes), TP_OK);
}

static void raise_read(world *s)
{
    make_function(s, true, reading_much);
    call(s->f, numbers(s, TPI_MAX_READ / sizeof(float) + 1, 1));
}

BODY(leaving_gradients)
{
    const world *s = user;
    tp_backward(tp_sum(tp_mul(s->other, in[0]), TP_ALL, false));
    out[0] = tp_neg(in[0]);
}

static void raise_grads(world *s)
{
    s->other = tp_param(numbers(s, 3, 1), "w");
    call_twice(s, true, leaving_gradients);
}

static void raise_taped(world *s)
{
    s->other = tp_param(numbers(s, 3, 1), "w");
    call_twice(s, true, reading_other);
}

/* By a counter that nobody watches. */
BODY(alternating)
{
    const world *s = user;
    out[0] = s->n % 2 ? tp_neg(in[0]) : tp_exp(in[0]);
}

static void raise_impure(world *s)
{
    make_function(s, true, alternating);
    for (s->n = 0; s->n < 2 * TPI_MAX_IMPURE; s->n++)
        call(s->f, numbers(s, 3, 0.1 * (s->n + 1)));
}

/* Ways that have been recorded are replayed all the same. */
static void raise_kinds(world *s)
{
    make_function(s, true, negating);
    for (s->n = 1; s->n <= TPI_MAX_FLOWS; s->n++)
        for (int i = 0; i < 3; i++)
            call(s->f, numbers(s, s->n, i + 1));
    assert_false(is_told(s, "as many ways"));
    log_begin();
    for (int i = 0; i < 3; i++)
        call(s->f, numbers(s, s->n, i + 1));
    char *text = log_end();
    const char *told = strstr(text, "not replayed: it has been called in as many ways");
    assert_non_null(told);
    assert_null(strstr(told + 1, "not replayed")); /* once */
    free(text);
    assert_true(is_told(s, "3 calls not replayed, the last from"));
    const int64_t runs = tp_function_stats_of(s->f).user_calls;
    for (int i = 0; i < 3; i++)
        call(s->f, numbers(s, 5, i + 1));
    assert_int_equal(tp_function_stats_of(s->f).user_calls, runs);
}

BODY(calling)
{
    const world *s = user;
    out[0] = call(s->inner, in[0]);
}

static void raise_watched(world *s)
{
    make_function(s, true, negating);
    s->inner = s->f;
    assert_int_equal(tp_function_watch(s->inner, &s->more, sizeof s->more), TP_OK);
    make_function(s, true, calling);
    assert_int_equal(tp_function_watch(s->f, s->bytes, sizeof s->bytes), TP_OK);
    call(s->f, numbers(s, 3, 1));
}

BODY(retaining)
{
    world *s = user;
    out[0] = tp_neg(in[0]);
    s->other = tp_retain(tp_exp(in[0]));
}

static void raise_retained(world *s)
{
    make_function(s, true, retaining);
    for (int i = 0; i < 2; i++) { /* what a first call alone retains is no reason */
        call(s->f, numbers(s, 3, 1));
        tp_release(s->other);
    }
}

BODY(naming)
{
    tp_name(in[0], "x");
    out[0] = tp_neg(in[0]);
}

static void raise_outside(world *s)
{
    call_twice(s, true, naming);
}

/* Memory runs out some time after the body. */
BODY(before_need)
{
#ifdef TPI_OWN_BLOCKS
    enum { STEPS = 3 }; /* each block is an allocation */
#else
    enum { STEPS = 500 };
#endif
    world *s = user;
    out[0] = in[0];
    for (int i = 0; i < STEPS; i++)
        out[0] = tp_exp(out[0]);
    tp_truth(s->other); /* what is pending is computed now */
    s->memory.fail_once = s->memory.calls + s->n;
}

static void open_world(world *s);

/* Some allocation is one of the making of the program. */
static void raise_program(world *s)
{
    enum { FEW = 5000 };
    for (int n = 1; n < FEW && !(s->f && is_told(s, "has no program")); n += 1 + n / 8) {
        tp_close(s->tp);
        open_world(s);
        s->n = n;
        s->other = tp_scalar(s->tp, TP_F32, 1);
        make_function(s, true, before_need);
        call(s->f, numbers(s, 3, 0.001));
    }
}

BODY(stacking)
{
    tp_tensor *ys = NULL, *x = in[0], *zero = tp_scalar_like(x, 0), *one = tp_scalar_like(x, 1);
    tp_while (tp_gt(x, zero), &x) {
        x = tp_sub(x, one);
        tp_emit(&ys, x);
    }
    out[0] = ys;
}

static void raise_emits(world *s)
{
    make_function(s, true, stacking);
    call(s->f, tp_scalar(s->tp, TP_F32, 2));
}

/* ---- all of them ------------------------------------------------------------------------------ */

static void open_world(world *s)
{
    *s = (world){.n = 0};
    s->tp = tp_open(&(tp_options){
        .allocator = &(tp_allocator){unit_alloc, unit_release, &s->memory},
          .seed = 3
    });
    assert_non_null(s->tp);
    s->v = tp_variable(numbers(s, 3, 0.5), "v");
}

/* Is it in a line of the function's text that names a line of this file? */
static bool is_told(const world *s, const char *why)
{
    char *text = tp_function_text(s->f);
    assert_non_null(text);
    char *at = strstr(text, why);
    if (at) {
        at[strcspn(at, "\n")] = 0;
        while (at > text && at[-1] != '\n')
            at--;
    }
    const bool told = at && strstr(at, "why_rows.c:");
    tp_free(s->tp, text);
    return told;
}

typedef struct row {
    const char *name, *text;
    void (*raise)(world *s);
} row;

static void raised(void **state)
{
    const row *r = *state;
    world s;
    open_world(&s);
    r->raise(&s);
    if (!is_told(&s, r->text))
        fail_msg("%s: no \"%s\", with a line of %s, in\n%.4000s", r->name, r->text, __FILE__,
                 tp_function_text(s.f));
    tp_close(s.tp);
    assert_int_equal(s.memory.bytes, 0);
}

int main(void)
{
    static const row rows[] = {
#define WHY(name, text) {#name, text, raise_##name},
#include "capture/why.def"
#undef WHY
    };
    enum { N = sizeof rows / sizeof *rows };
    struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = raised, .initial_state = (void *)&rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
