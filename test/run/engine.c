/* Programs when the compiler is missing, fails, hangs or is killed; the two engines' bits and
 * messages; feeds, names, and the order in which things are freed. */
#include "common/unit.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    char dir[40], cache[100], compiler[100];
} place;

static void make_place(place *p, const char *script)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/api_engine_XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->cache, sizeof p->cache, "%s/cache", p->dir);
    snprintf(p->compiler, sizeof p->compiler, "%s/fake_cc", p->dir);
    if (!script)
        return;
    FILE *f = fopen(p->compiler, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(p->compiler, 0700), 0);
}

static void remove_place(const place *p)
{
    char command[200];
    snprintf(command, sizeof command, "chmod -R u+w '%s'; rm -rf '%s'", p->dir, p->dir);
    assert_int_equal(system(command), 0);
}

static bool has_compiler(void)
{
    if (system("cc --version > /dev/null 2>&1") == 0)
        return true;
    printf("skipped: there is no compiler\n");
    return false;
}

/* y = softmax(x * w), z = sum(y), w moves: step. */
static tp_graph *build(tp_ctx *tp, tp_tensor **w)
{
    const float v[] = {0.5f, -0.25f, 0.125f, 1, -1, 2, 0.75f, 0.3f, -0.6f};
    *w = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(3, 3), v), "w");
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_tensor *h = tp_name(tp_matmul(x, *w), "h");
    tp_tensor *y = tp_name(tp_softmax(h, 1), "y");
    tp_tensor *loss = tp_sum(tp_mul(y, y), TP_ALL, false);
    tp_tensor *dw = tp_grad(loss, *w);
    tp_name(tp_assign(*w, tp_sub(*w, tp_mul(dw, tp_scalar_like(dw, 0.1)))), "step");
    assert_int_equal(tp_error(tp), TP_OK);
    return g;
}

static const char *const feed_x[] = {"x"}, *const fetch[] = {"y", "step"};

static tp_tensor *input(tp_ctx *tp, int64_t n)
{
    tp_tensor *x = tp_reshape(tp_arange(tp, TP_F32, n * 3, -1, 0.37), TP_DIMS(n, 3));
    return x;
}

/* Runs once; the bits of both fetches into to[]. */
static tp_status run(tp_ctx *tp, tp_program *p, int64_t n, float *to)
{
    tp_scope_begin(tp);
    tp_tensor *x = input(tp, n), *out[2];
    const tp_status status = tp_program_run(p, &x, out);
    if (status == TP_OK) {
        tp_read(out[0], to, (size_t)n * 3 * sizeof *to);
        tp_read(out[1], to + n * 3, 9 * sizeof *to);
    }
    tp_scope_end(tp);
    return status;
}

static void wanted(int64_t n, int runs, float *to)
{
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *w;
    tp_graph *g = build(tp, &w);
    tp_program *p = tp_graph_compile(g, 1, feed_x, 2, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    for (int i = 0; i < runs; i++)
        assert_int_equal(run(tp, p, n, to), TP_OK);
    tp_close(tp);
}

/* With this compiler and cache: AUTO goes on with the right bits, C says why not. */
static void goes_on_without(const place *pl, const char *compiler, const char *says, bool wait)
{
    unit_memory memory = {0};
    const tp_allocator a = {unit_alloc, unit_release, &memory};
    tp_ctx *tp =
        tp_open(&(tp_options){.allocator = &a, .cache_dir = pl->cache, .compiler = compiler});
    tp_tensor *w;
    tp_graph *g = build(tp, &w);
    float got[15], want[15];
    tp_program *p = tp_graph_compile(g, 1, feed_x, 2, fetch, NULL);
    assert_non_null(p);
    for (int i = 1; i <= 3; i++) {
        wanted(2, i, want);
        assert_int_equal(run(tp, p, 2, got), TP_OK);
        assert_string_equal(tp_program_engine(p), "tiles");
        assert_memory_equal(got, want, sizeof got);
        if (wait && i == 1) {
            assert_int_equal(tp_program_wait(p), TP_E_COMPILER);
            assert_int_equal(tp_error(tp), TP_E_COMPILER);
            if (!strstr(tp_error_message(tp), says))
                fail_msg("\"%s\" does not say \"%s\"", tp_error_message(tp), says);
            tp_clear_error(tp);
        }
    }
    assert_int_equal(tp_error(tp), TP_OK);
    if (wait) {
        float before[9], after[9];
        tp_read(w, before, sizeof before);
        tp_program *c = tp_graph_compile(g, 1, feed_x, 2, fetch,
                                         &(tp_compile_options){.engine = TP_ENGINE_C});
        if (c)
            assert_int_equal(run(tp, c, 2, got), TP_E_COMPILER);
        assert_int_equal(tp_error(tp), TP_E_COMPILER);
        assert_non_null(strstr(tp_error_message(tp), says));
        tp_read(w, after, sizeof after);
        assert_memory_equal(before, after, sizeof after);
    }
    tp_close(tp); /* kills what hangs */
    assert_int_equal(memory.bytes, 0);
}

static void no_compiler(void **unused)
{
    (void)unused;
    place p;
    make_place(&p, NULL);
    goes_on_without(&p, "/nowhere/no_such_cc", "no_such_cc", true);
    remove_place(&p);
}

static void failing_compiler(void **unused)
{
    (void)unused;
    place p;
    make_place(&p, "echo 'unit0.c:1: error: no' >&2; exit 3");
    goes_on_without(&p, p.compiler, "error: no", true);
    remove_place(&p);
}

static void lying_compiler(void **unused)
{
    (void)unused;
    place p;
    make_place(&p, "exit 0");
    goes_on_without(&p, p.compiler, "", true);
    remove_place(&p);
}

static void killed_compiler(void **unused)
{
    (void)unused;
    place p;
    make_place(&p, "kill -9 $$");
    goes_on_without(&p, p.compiler, "", true);
    remove_place(&p);
}

static void hanging_compiler(void **unused)
{
    (void)unused;
    place p;
    make_place(&p, "exec sleep 1000");
    goes_on_without(&p, p.compiler, "", false);
    remove_place(&p);
}

static void read_only_cache(void **unused)
{
    (void)unused;
    if (!has_compiler())
        return;
    place p;
    make_place(&p, NULL);
    tp_ctx *tp = tp_open(&(tp_options){.cache_dir = "/proc/nowhere"});
    tp_tensor *w;
    tp_program *c = tp_graph_compile(build(tp, &w), 1, feed_x, 2, fetch, NULL);
    float got[15], want[15];
    const tp_status status = tp_program_wait(c); /* either way the bits are right */
    printf("a cache that cannot be written: %s\n",
           status == TP_OK ? "compiled elsewhere" : tp_error_message(tp));
    tp_clear_error(tp);
    wanted(2, 1, want);
    assert_int_equal(run(tp, c, 2, got), TP_OK);
    assert_memory_equal(got, want, sizeof got);
    tp_close(tp);
    remove_place(&p);
}

/* From the reference to C in the middle: the same bits, one compilation for all sizes. */
static void switches(void **unused)
{
    (void)unused;
    if (!has_compiler())
        return;
    place pl;
    make_place(&pl, "echo x >> \"$0.calls\"; exec cc \"$@\"");
    tp_ctx *tp = tp_open(&(tp_options){.cache_dir = pl.cache, .compiler = pl.compiler});
    tp_ctx *plain = tp_open(NULL);
    tp_tensor *w, *v;
    tp_program *c = tp_graph_compile(build(tp, &w), 1, feed_x, 2, fetch, NULL);
    tp_program *r = tp_graph_compile(build(plain, &v), 1, feed_x, 2, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    float got[50 * 3 + 9], want[50 * 3 + 9];
    for (int64_t n = 1; n <= 50; n++) {
        assert_int_equal(run(tp, c, n, got), TP_OK);
        assert_int_equal(run(plain, r, n, want), TP_OK);
        if (memcmp(got, want, (size_t)(n * 3 + 9) * sizeof *got) != 0)
            fail_msg("batch %lld by engine %s differs", (long long)n, tp_program_engine(c));
        if (n == 3)
            assert_int_equal(tp_program_wait(c), TP_OK);
        if (n > 3)
            assert_string_equal(tp_program_engine(c), "c");
    }
    char calls[200];
    struct stat s, t;
    snprintf(calls, sizeof calls, "%s.calls", pl.compiler);
    assert_int_equal(stat(calls, &s), 0);
    assert_true(s.st_size <= 4); /* compile, perhaps link */
    tp_program_free(c);
    tp_graph *again = build(tp, &w);
    c = tp_graph_compile(again, 1, feed_x, 2, fetch, NULL);
    assert_int_equal(tp_program_wait(c), TP_OK);
    assert_true(tp_program_stats_of(c).from_cache);
    assert_int_equal(stat(calls, &t), 0);
    assert_int_equal(s.st_size, t.st_size);
    tp_close(tp);
    tp_close(plain);
    remove_place(&pl);
}

/* An index out of range at run time: one message, whichever engine runs; nothing has moved. */
static void bad_index(void **unused)
{
    (void)unused;
    if (!has_compiler())
        return;
    place pl;
    make_place(&pl, NULL);
    char text[2][400];
    for (int k = 0; k < 2; k++) {
        tp_ctx *tp = tp_open(&(tp_options){.cache_dir = pl.cache, .seed = 7});
        tp_tensor *w = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4, 2), 1), "w");
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *i = tp_placeholder(g, "i", TP_I64, TP_DIMS(tp_symbol(g, "n")));
        tp_tensor *noise = tp_normal_like(tp_graph_read(g, w), 0, 1);
        tp_tensor *more = tp_add(w, noise);
        const int line = __LINE__ + 1;
        tp_name(tp_gather(more, i, 0), "y");
        tp_name(tp_assign(w, more), "step");
        static const char *const feeds[] = {"i"}, *const names[] = {"y", "step"};
        tp_program *p = tp_graph_compile(
            g, 1, feeds, 2, names,
            &(tp_compile_options){.engine = k ? TP_ENGINE_C : TP_ENGINE_REFERENCE});
        tp_tensor *out[2];
        const int64_t good[] = {3, -4, 0}, bad[] = {1, 0, 9};
        tp_tensor *in = tp_tensor_new(tp, TP_I64, TP_DIMS(3), bad);
        assert_int_equal(tp_program_run(p, &in, out), TP_E_VALUE);
        assert_true(tp_failed(out[0]) && tp_failed(out[1]));
        snprintf(text[k], sizeof text[k], "%s", tp_error_message(tp));
        char place_text[100];
        snprintf(place_text, sizeof place_text, "engine.c:%d: gather: ", line);
        assert_non_null(strstr(text[k], place_text));
        assert_non_null(strstr(text[k], "9"));
        tp_clear_error(tp);
        float v[8], first[8];
        tp_read(w, v, sizeof v);
        for (int e = 0; e < 8; e++)
            assert_true(v[e] == 1);
        /* the next run draws what the failed one would have drawn */
        in = tp_tensor_new(tp, TP_I64, TP_DIMS(3), good);
        assert_int_equal(tp_program_run(p, &in, out), TP_OK);
        tp_read(out[1], first, sizeof first);
        tp_seed(tp, 7);
        tp_tensor *again = tp_add(tp_full(tp, TP_F32, TP_DIMS(4, 2), 1),
                                  tp_normal(tp, TP_F32, TP_DIMS(4, 2), 0, 1));
        tp_read(again, v, sizeof v);
        assert_memory_equal(v, first, sizeof v);
        tp_close(tp);
    }
    assert_string_equal(text[0], text[1]);
    remove_place(&pl);
}

/* Sizes that each fit, and whose sum does not. */
static void absurd_sizes(void **unused)
{
    (void)unused;
    if (!has_compiler())
        return;
    place pl;
    make_place(&pl, NULL);
    tp_ctx *tp = tp_open(&(tp_options){.cache_dir = pl.cache});
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x =
        tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), tp_symbol(g, "m")));
    tp_tensor *row = tp_sum(x, TP_DIMS(0), false), *parts[40], *y = row;
    for (int i = 0; i < 40; i++)
        parts[i] = tp_cumsum(tp_add(row, tp_scalar_like(row, i)), 0, false, false);
    for (int i = 0; i < 40; i++)
        y = tp_mul(y, parts[i]);
    tp_name(tp_sum(y, TP_ALL, false), "y");
    static const char *const names[] = {"y"};
    for (int k = 0; k < 2; k++) {
        tp_program *p = tp_graph_compile(
            g, 1, feed_x, 1, names,
            &(tp_compile_options){.engine = k ? TP_ENGINE_C : TP_ENGINE_REFERENCE});
        tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(0, (int64_t)1 << 57), NULL), *out;
        assert_int_equal(tp_program_run(p, &in, &out), TP_E_MEMORY);
        tp_clear_error(tp);
        in = tp_full(tp, TP_F32, TP_DIMS(2, 3), 0.01);
        assert_int_equal(tp_program_run(p, &in, &out), TP_OK);
    }
    tp_close(tp);
    remove_place(&pl);
}

/* A slice of an axis that only a run knows: what is too short for it is told, with the op's line. */
static void short_axis(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_AUTO};
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n")));
    char place_text[40];
    snprintf(place_text, sizeof place_text, "engine.c:%d: ", __LINE__ + 1);
    tp_name(tp_slice(x, 0, 2, 5, 1), "y");
    for (int i = 0; i < 3; i++) {
        tp_program *p = tp_graph_compile(g, 1, feed_x, TP_NAMES("y"),
                                         &(tp_compile_options){.engine = engines[i]});
        tp_tensor *in = tp_full(tp, TP_F32, TP_DIMS(4), 1), *y;
        assert_int_equal(tp_program_run(p, &in, &y), TP_E_SHAPE);
        assert_true(tp_failed(y));
        if (!strstr(tp_error_message(tp), place_text))
            fail_msg("\"%s\" is not in \"%s\"", place_text, tp_error_message(tp));
        tp_clear_error(tp);
        in = tp_full(tp, TP_F32, TP_DIMS(5), 1);
        assert_int_equal(tp_program_run(p, &in, &y), TP_OK);
        assert_int_equal(tp_count(y), 3);
    }
}

/* What a runner cannot keep apart from other runs. */
static void no_runner(void **unused)
{
    static const char *const says[] = {"assign", "random", "size", "NaN"};
    (void)unused;
    if (!has_compiler())
        return;
    place pl;
    make_place(&pl, NULL);
    tp_ctx *tp = tp_open(&(tp_options){.cache_dir = pl.cache});
    for (int k = 0; k < 4; k++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(3)), *y = tp_neg(x), *rows = NULL;
        if (k == 0)
            y = tp_assign(tp_variable(tp_full(tp, TP_F32, TP_DIMS(3), 0), "v"), y);
        if (k == 1)
            y = tp_add(y, tp_uniform_like(y, 0, 1));
        if (k == 2) {
            tp_while (tp_gt(tp_sum(y, TP_ALL, false), tp_scalar_like(y, 1)), &y) {
                y = tp_mul(y, tp_scalar_like(y, 0.5));
                tp_emit(&rows, y);
            }
            y = rows;
        }
        tp_name(y, "y");
        tp_program *p = tp_graph_compile(g, 1, feed_x, TP_NAMES("y"),
                                         &(tp_compile_options){.engine = TP_ENGINE_C});
        tp_tensor *in = tp_full(tp, TP_F32, TP_DIMS(3), -4);
        assert_non_null(p);
        tp_trap_nan(tp, k == 3);
        assert_null(tp_runner_new(p, &in));
        tp_trap_nan(tp, false);
        assert_int_equal(tp_error(tp), TP_E_STATE);
        if (!strstr(tp_error_message(tp), says[k]))
            fail_msg("\"%s\" is not in \"%s\"", says[k], tp_error_message(tp));
        tp_clear_error(tp);
    }
    tp_close(tp);
    remove_place(&pl);
}

static void feeds_and_names(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w, *out[3];
    tp_graph *g = build(tp, &w);
    tp_tensor *h = tp_full(tp, TP_F32, TP_DIMS(2, 3), 0);
    /* an inner node is fed: x is not needed; the same name twice gives two tensors */
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"h", h}), TP_NAMES("y", "y", "h"), out), TP_OK);
    float y[6];
    tp_read(out[0], y, sizeof y);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 1.0f / 3);
    assert_ptr_not_equal(out[0], out[1]);
    assert_memory_equal(tp_data(out[0]), tp_data(out[1]), sizeof y);
    assert_memory_equal(tp_data(out[2]), tp_data(h), sizeof y);
    /* an earlier error is kept, and does not pass for this run's */
    tp_cast(h, TP_N_DTYPES);
    assert_int_equal(tp_error(tp), TP_E_DTYPE);
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"h", w}), TP_NAMES("y"), out), TP_OK);
    tp_tensor *narrow = tp_full(tp, TP_F32, TP_DIMS(2), 0);
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"h", narrow}), TP_NAMES("y"), out), TP_E_SHAPE);
    assert_int_equal(tp_status_of(out[0]), TP_E_SHAPE);
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"h", h}), TP_NAMES("q"), out), TP_E_NAME);
    assert_int_equal(tp_error(tp), TP_E_DTYPE);
    tp_clear_error(tp);
}

static void freed_in_any_order(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w, *in = input(tp, 2), *out[2];
    const tp_compile_options reference = {.engine = TP_ENGINE_REFERENCE};
    tp_graph *g = build(tp, &w);
    tp_program *p = tp_graph_compile(g, 1, feed_x, 2, fetch, &reference);
    tp_program *q = tp_graph_compile(g, 1, feed_x, 2, fetch, &reference);
    tp_graph_free(g); /* before its programs */
    assert_int_equal(tp_program_run(p, &in, out), TP_OK);
    tp_program_free(p);
    assert_int_equal(tp_program_run(q, &in, out), TP_OK);
    tp_scope_begin(tp); /* a variable whose handle is gone */
    tp_tensor *v;
    tp_graph *g2 = build(tp, &v);
    p = tp_graph_compile(g2, 1, feed_x, 2, fetch, &reference);
    tp_scope_end(tp);
    assert_int_equal(tp_program_run(p, &in, out), TP_OK);
    tp_program_free(p);
    tp_graph_free(g2);
    g2 = build(tp, &v);
    assert_int_equal(tp_graph_run(g2, TP_FEEDS({"x", in}), TP_NAMES("y"), out), TP_OK);
    assert_non_null(tp_graph_compile(g2, 1, feed_x, 2, fetch, &reference));
    tp_scope_begin(tp); /* and the rest is left to tp_close */
    input(tp, 3);
}

static void does_not_grow(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w;
    tp_graph *g = build(tp, &w);
    tp_program *p = tp_graph_compile(g, 1, feed_x, 2, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    float got[5 * 3 + 9];
#ifdef TPI_STRESS
    const int runs = 100; /* each dead header stays there */
#else
    const int runs = 10000;
#endif
    size_t before = 0;
    for (int i = 0; i < runs; i++) {
        assert_int_equal(run(tp, p, 1 + i % 5, got), TP_OK);
        if (i == 10)
            before = tp_memory_bytes(tp);
    }
#ifdef TPI_STRESS
    (void)before;
#else
    assert_int_equal(tp_memory_bytes(tp), before);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_compiler),
        cmocka_unit_test(failing_compiler),
        cmocka_unit_test(lying_compiler),
        cmocka_unit_test(killed_compiler),
        cmocka_unit_test(hanging_compiler),
        cmocka_unit_test(read_only_cache),
        cmocka_unit_test(switches),
        cmocka_unit_test(bad_index),
        cmocka_unit_test(absurd_sizes),
        CASE(feeds_and_names),
        CASE(short_axis),
        cmocka_unit_test(no_runner),
        CASE(freed_in_any_order),
        CASE(does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
