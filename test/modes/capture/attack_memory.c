/* Captured functions and memory: running out of it at the n-th allocation for every n, calls that
 * keep nothing, results that outlive their function; and compilers that are missing or fail.
 *
 * ALLOC_SWEEP_STEP=k in the environment takes every k-th n only; ALLOC_SWEEP_AT=n that one. */
#include "common/both.h"

#include <sys/stat.h>
#include <unistd.h>

typedef struct world {
    bed *b;
    int n;
    tp_tensor *w, *v;
    tp_optimizer *o;
    tp_function *f;
} world;

/* ---- bodies ------------------------------------------------------------------------------ */

static void prepare(tp_ctx *tp, world *s)
{
    s->w = tp_param(pattern(tp, TP_DIMS(3, 2), 0.05), "w");
    s->v = tp_param(pattern(tp, TP_DIMS(2), 0.1), "v");
    s->o = tp_adam_new(tp, 0.05, NULL, 2, (tp_tensor *const[]){s->w, s->v});
}

BODY(inside)
{
    out[0] = tp_mul(tp_tanh(in[0]), in[0]);
}

BODY(branching)
{
    const world *s = user;
    tp_tensor *h = tp_linear(in[0], s->w, s->v);
    if (tp_truth(tp_gt(tp_mean(h, TP_ALL, false), tp_scalar_like(h, 0))))
        h = tp_exp(tp_neg(h));
    if (s->n % 3 == 2)
        h = tp_softmax(h, 1);
    out[0] = tp_sum(call1(s->f, h), TP_ALL, false);
}

BODY(training)
{
    const world *s = user;
    tp_tensor *loss = tp_mean(tp_square(tp_linear(in[0], s->w, s->v)), TP_ALL, false);
    tp_tensor *done = tp_optimizer_step(s->o, loss);
    out[0] = tp_failed(done) ? done : loss;
}

/* A loop of other numbers of turns, and as many operands. */
BODY(turning)
{
    const world *s = user;
    const int turns[] = {4, 9, 6, 5, 11};
    tp_tensor *h = tp_linear(in[0], s->w, s->v), *parts[11];
    for (int i = 0; i < turns[s->n]; i++) {
        h = tp_sub(tp_tanh(tp_add(tp_mul(h, s->v), h)), s->v);
        parts[i] = h;
    }
    out[0] = tp_mean(tp_square(tp_concat(turns[s->n], parts, 0)), TP_ALL, false);
}

/* ---- the sweep --------------------------------------------------------------------------- */

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

typedef struct job {
    const char *name;
    tp_body body;
    bool gradient;
} job;

enum { CALLS = 5 };

/* Bits of both parameters and of the results of CALLS calls. */
typedef struct outcome {
    float state[CALLS + 1][8], loss[CALLS];
} outcome;

static void read_state(const world *s, float *to)
{
    assert_int_equal(tp_read(s->w, to, 6 * sizeof *to), TP_OK);
    assert_int_equal(tp_read(s->v, to + 6, 2 * sizeof *to), TP_OK);
}

static bool one_call(tp_ctx *tp, const job *j, world *s, tp_function *f, int i, float *loss)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    s->n = i;
    tp_tensor *x = pattern(tp, TP_DIMS(i == 3 ? 5 : 4, 3), i % 2 ? -0.1 : 0.1);
    tp_tensor *y = call1(f, x);
    bool ok = !tp_failed(y) && tp_read(y, loss, sizeof *loss) == TP_OK;
    if (ok && j->gradient) {
        const tp_tensor *dw = tp_grad(y, s->w);
        float bits[6];
        ok = !tp_failed(dw) && tp_read(dw, bits, sizeof bits) == TP_OK;
        if (ok)
            *loss += bits[3];
    }
    tp_scope_end(tp);
    return ok;
}

/* Memory runs out at allocation n of the calls. False when there are fewer. */
static bool sweep_one(const job *j, const tp_function_options *opt, long n, outcome *all)
{
    unit_memory memory = {0};
    const tp_allocator a = {unit_alloc, unit_release, &memory};
    tp_ctx *tp =
        tp_open(&(tp_options){.allocator = &a, .seed = 5, .compiler = "/nonexistent/cc"});
    world s = {.n = 0};
    assert_non_null(tp);
    prepare(tp, &s);
    assert_int_equal(tp_error(tp), TP_OK);
    outcome now;
    read_state(&s, now.state[0]);
    memory.fail_at = n ? memory.calls + n : 0;
    s.f = tp_function_new(tp, "inside", inside, NULL, opt);
    tp_function *f = s.f ? tp_function_new(tp, j->name, j->body, &s, opt) : NULL;
    bool reached = false;
    for (int i = 0, at = 0; i < CALLS; i++, at++) {
        bool ok = f && one_call(tp, j, &s, f, i, &now.loss[at]);
        if (!ok && !(n && memory.calls >= memory.fail_at))
            fail_msg("%s, allocation %ld: call %d fails with all the memory: %s", j->name, n, i,
                     tp_error_message(tp));
        if (!ok) {
            if (tp_error(tp) != TP_E_MEMORY)
                fail_msg("%s: allocation %ld failed, and what is said is %s \"%s\"", j->name, n,
                         tp_status_name(tp_error(tp)), tp_error_message(tp));
            memory.fail_at = 0;
            tp_clear_error(tp);
            read_state(&s, now.state[at + 1]);
            if (memcmp(now.state[at + 1], all->state[at], sizeof *now.state) == 0) {
                if (!f) {
                    tp_function_free(s.f);
                    s.f = tp_function_new(tp, "inside", inside, NULL, opt);
                    f = tp_function_new(tp, j->name, j->body, &s, opt);
                }
                ok = one_call(tp, j, &s, f, i, &now.loss[at]); /* once more */
                if (!ok)
                    fail_msg(
                        "%s: after allocation %ld had failed call %d never works again: %s",
                        j->name, n, i, tp_error_message(tp));
            } else { /* the step was done; the loss or its gradient had no memory */
                now.loss[at] = all->loss[at];
            }
            reached = true;
        }
        read_state(&s, now.state[at + 1]);
        if (!n) {
            *all = now;
            continue;
        }
        if (memcmp(now.state[at + 1], all->state[at + 1], sizeof *now.state) != 0 ||
            memcmp(&now.loss[at], &all->loss[at], sizeof *now.loss) != 0)
            fail_msg("%s: allocation %ld failed, and call %d has other bits", j->name, n, i);
    }
    reached |= n && memory.calls >= memory.fail_at && memory.fail_at;
    tp_optimizer_free(s.o);
    tp_close(tp);
    if (memory.bytes)
        fail_msg("%s: allocation %ld failed: %zu bytes are still out after tp_close", j->name,
                 n, memory.bytes);
    return reached;
}

static void sweep(job j)
{
    static const tp_function_options ways[] = {
        {.eager = true}, {.engine = TP_ENGINE_REFERENCE}, {.engine = TP_ENGINE_AUTO}};
    outcome all, eager;
    for (int i = 0; i < 3; i++) {
        sweep_one(&j, &ways[i], 0, i ? &all : &eager);
        if (i && memcmp(&all, &eager, sizeof all) != 0)
            fail_msg("%s: way %d has other bits than eager", j.name, i);
        const long only = number("ALLOC_SWEEP_AT", 0), step = number("ALLOC_SWEEP_STEP", 1);
        long n = only ? only : 1;
        while (i && sweep_one(&j, &ways[i], n, &eager) && !only)
            n += step;
        if (i)
            printf("%s, way %d: memory ran out at each of %ld allocations (every %ld)\n",
                   j.name, i, n, step);
#ifdef TPI_OWN_BLOCKS
        assert_true(!i || only || n > 100);
#endif
    }
}

static void out_of_memory_branching(void **unused)
{
    (void)unused;
    sweep((job){.name = "branching", .body = branching});
}

static void out_of_memory_gradient(void **unused)
{
    (void)unused;
    sweep((job){.name = "gradient", .body = branching, .gradient = true});
}

static void out_of_memory_turning(void **unused)
{
    (void)unused;
    sweep((job){.name = "turning", .body = turning});
}

static void out_of_memory_training(void **unused)
{
    (void)unused;
    sweep((job){.name = "training", .body = training});
}

/* ---- a segment that cannot end ------------------------------------------------------------ */

enum { LONG_WAY = 4000 }; /* steps: what a cut takes note of is a block of the allocator's */

typedef struct long_way {
    unit_memory *memory;
    tp_tensor *index; /* out of range */
} long_way;

/* A gather that is refused settles what is pending, and C goes on with values from before it. */
BODY(goes_on_behind)
{
    const long_way *s = user;
    tp_tensor *h = in[0], *middle = h;
    for (int i = 0; i < LONG_WAY; i++) {
        h = tp_tanh(h);
        middle = i == LONG_WAY / 2 ? h : middle;
    }
    s->memory->fail_once = s->memory->calls + 1;
    assert_true(tp_failed(tp_gather(h, s->index, 0))); /* of its index, or of memory */
    s->memory->fail_once = 0;
    tp_clear_error(tp_ctx_of(h));
    out[0] = tp_exp(tp_sub(tp_mul(h, middle), in[0]));
}

static void calls_behind_a_cut(const tp_function_options *opt, float *bits)
{
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    long_way s = {&memory, tp_tensor_new(tp, TP_I64, TP_DIMS(1), (const int64_t[]){99})};
    tp_function *f = tp_function_new(tp, "goes_on_behind", goes_on_behind, &s, opt);
    for (int i = 0; i < 4; i++) {
        const tp_tensor *y = call1(f, pattern(tp, TP_DIMS(3), 0.1 * (i + 1)));
        assert_int_equal(tp_read(y, bits + 3 * i, 3 * sizeof *bits), TP_OK);
    }
    tp_close(tp);
    assert_int_equal(memory.bytes, 0);
}

static void out_of_memory_for_a_cut(void **unused)
{
    (void)unused;
    float eager[12], captured[12];
    calls_behind_a_cut(&(tp_function_options){.eager = true}, eager);
    calls_behind_a_cut(&(tp_function_options){.engine = TP_ENGINE_TILES}, captured);
    assert_memory_equal(eager, captured, sizeof eager);
}

/* ---- nothing is kept --------------------------------------------------------------------- */

static void calls_keep_nothing(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    prepare(tp, &s);
    s.f = make(b, "inside", inside, NULL);
    tp_function *f = make(b, "branching", branching, &s),
                *g = make(b, "training", training, &s);
#ifdef TPI_STRESS
    const int calls = 60; /* each dead header stays there */
#else
    const int calls = 1000;
#endif
    size_t early = 0, late = 0; /* the most in use, of a hundred calls */
    for (int i = 0; i < calls; i++) {
        tp_scope_begin(tp);
        s.n = i;
        tp_tensor *x = pattern(tp, TP_DIMS(2 + i % 3, 3), i % 2 ? -0.1 : 0.1);
        tp_tensor *y = call1(f, x);
        tp_backward(y);
        tp_tensor *loss = call1(g, x);
        if (i % 50 == 0) {
            note(b, "y", y);
            note(b, "loss", loss);
        }
        tp_zero_grad(s.w);
        tp_zero_grad(s.v);
        tp_scope_end(tp);
        /* A program that comes later than the first measure would be counted as growth. */
        for (int k = 0; k < b->n_made && i >= 20 && i < 100; k++)
            if (tp_function_wait(b->made[k]) == TP_E_COMPILER && b->way->how != BOTH_WAITS)
                tp_clear_error(tp); /* a way may have no compiler */
        tp_trim(tp);                /* numbers of ops are kept as they come */
        size_t *most = i >= 100 && i < 200 ? &early : i >= calls - 100 ? &late : NULL;
        if (most && tp_memory_bytes(tp) > *most)
            *most = tp_memory_bytes(tp);
    }
#ifndef TPI_STRESS
    if (late > early)
        fail_msg("%s: %zu bytes in use after 200 calls, %zu after %d", b->way->name, early,
                 late, calls);
#endif
    tp_optimizer_free(s.o);
}

/* Functions that come and go leave nothing, whatever they recorded. */
static void functions_leave_nothing(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    prepare(tp, &s);
    tp_tensor *x = pattern(tp, TP_DIMS(4, 3), 0.1);
    size_t before = 0;
    for (int i = 0; i < 12; i++) {
        s.f = make(b, "inside", inside, NULL);
        tp_function *f = make(b, "branching", branching, &s);
        for (s.n = 0; s.n < 6; s.n++) {
            tp_scope_begin(tp);
            note(b, "y", call1(f, s.n % 2 ? tp_neg(x) : x));
            tp_scope_end(tp);
        }
        if (i == 3)
            settle(b);
        discard(b, i % 2 ? f : s.f); /* either order */
        discard(b, i % 2 ? s.f : f);
        if (i == 4)
            before = tp_memory_bytes(tp);
    }
#ifndef TPI_STRESS
    if (tp_memory_bytes(tp) > before)
        fail_msg("%s: %zu bytes in use after 5 functions, %zu after 12", b->way->name, before,
                 tp_memory_bytes(tp));
#else
    (void)before;
#endif
    tp_optimizer_free(s.o);
}

static void results_outlive_the_function(bed *b)
{
    tp_ctx *tp = b->tp;
    world s = {.b = b};
    prepare(tp, &s);
    tp_tensor *kept[12];
    for (int i = 0; i < 12; i++) {
        tp_function *f = make(b, "inside", inside, NULL);
        for (int k = 0; k < 3; k++)
            kept[i] = call1(f, pattern(tp, TP_DIMS(2, 2), 0.1 * (i + k)));
        kept[i] = i % 2 ? tp_transpose(kept[i], TP_ALL) : kept[i];
        if (i == 5)
            settle(b);
        discard(b, f);
    }
    for (int i = 0; i < 12; i++)
        note(b, "kept", kept[i]);
    tp_optimizer_free(s.o);
}

/* ---- compilers --------------------------------------------------------------------------- */

static void some_calls(bed *b)
{
    world s = {.b = b};
    prepare(b->tp, &s);
    s.f = make(b, "inside", inside, NULL);
    tp_function *f = make(b, "branching", branching, &s),
                *g = make(b, "training", training, &s);
    for (s.n = 0; s.n < 60; s.n++) {
        tp_tensor *x = pattern(b->tp, TP_DIMS(4, 3), s.n % 2 ? -0.1 : 0.1);
        note(b, "y", call1(f, x));
        note(b, "loss", call1(g, x));
        note(b, "w", s.w);
        if (b->way->compiler && s.n == 50) { /* by then programs have been asked for */
            const tp_status status = tp_function_wait(f);
            if (status != TP_E_COMPILER)
                fail_msg("a compiler that fails: tp_function_wait says %s",
                         tp_status_name(status));
            tp_clear_error(b->tp);
        }
    }
    tp_optimizer_free(s.o);
}

static void with_compiler(const char *compiler)
{
    const both_way plain = {.name = "eager", .opt = {.eager = true}};
    const both_way automatic = {.name = compiler, .compiler = compiler};
    char *want = both_transcript(&plain, some_calls, NULL),
         *got = both_transcript(&automatic, some_calls, NULL);
    both_compare(&automatic, want, got);
    free(want);
    free(got);
}

/* With the C engine there is no other way: the call says so, and no state has changed. */
BODY(doubling)
{
    const world *s = user;
    tp_assign(s->w, tp_add(s->w, s->w));
    out[0] = tp_sum(s->w, TP_ALL, false);
}

static void engine_c_with(const char *compiler)
{
    tp_ctx *tp = tp_open(&(tp_options){.compiler = compiler});
    world s = {.w = tp_variable(pattern(tp, TP_DIMS(2), 0.5), "w")};
    tp_function *f = tp_function_new(tp, "doubling", doubling, &s,
                                     &(tp_function_options){.engine = TP_ENGINE_C});
    float want[2] = {-5.5f, 1.5f};
    for (int i = 0; i < 4; i++) {
        tp_tensor *y = tp_function_apply(f, 0, NULL);
        float w[2];
        tp_read(s.w, w, sizeof w);
        if (tp_failed(y))
            assert_int_equal(tp_status_of(y), TP_E_COMPILER);
        for (int k = 0; k < 2 && !tp_failed(y); k++)
            want[k] *= 2;
        assert_memory_equal(w, want, sizeof w);
        tp_clear_error(tp);
    }
    tp_close(tp);
}

static void compilers_that_fail(void **unused)
{
    (void)unused;
    char dir[] = "/tmp/attack_memory_XXXXXX", path[60];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fake_cc", dir);
    static const char *const scripts[] = {"exit 1", "exit 0", "echo no C >&2; kill -9 $$"};
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "#!/bin/sh\n%s\n", scripts[i]);
        fclose(f);
        assert_int_equal(chmod(path, 0700), 0);
        char cache[60];
        snprintf(cache, sizeof cache, "%s/cache", dir);
        const char *was = getenv("TAPIR_CACHE");
        char *kept = was ? strdup(was) : NULL;
        setenv("TAPIR_CACHE", cache, 1);
        with_compiler(path);
        engine_c_with(path);
        if (kept)
            setenv("TAPIR_CACHE", kept, 1);
        else
            unsetenv("TAPIR_CACHE");
        free(kept);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void no_compiler(void **unused)
{
    (void)unused;
    char dir[] = "/tmp/attack_memory_XXXXXX";
    assert_non_null(mkdtemp(dir));
    const char *was = getenv("TAPIR_CACHE");
    char *kept = was ? strdup(was) : NULL;
    setenv("TAPIR_CACHE", dir, 1);
    with_compiler("/nonexistent/cc");
    engine_c_with("/nonexistent/cc");
    if (kept)
        setenv("TAPIR_CACHE", kept, 1);
    else
        unsetenv("TAPIR_CACHE");
    free(kept);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_memory_branching),
        cmocka_unit_test(out_of_memory_gradient),
        cmocka_unit_test(out_of_memory_training),
        cmocka_unit_test(out_of_memory_turning),
        cmocka_unit_test(out_of_memory_for_a_cut),
        ATTACK(calls_keep_nothing),
        ATTACK(functions_leave_nothing),
        ATTACK(results_outlive_the_function),
        cmocka_unit_test(compilers_that_fail),
        cmocka_unit_test(no_compiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
