/* Which random numbers a node has is decided by the graph: whatever is fetched with it, by every engine,
 * they are those of the eager calls, and the next run goes on where these ended. */
#include "common/unit.h"
#include "tapir/tapir.h"

enum { N = 5 }; /* of what can be fetched, each alone and all together */
static const char *const names[N] = {"a", "b", "loop", "side", "plain"};
typedef void build(tp_tensor *x, tp_tensor **out);

/* All at the top: a and b of different sizes, and one that nothing reads. */
static void straight(tp_tensor *x, tp_tensor **out)
{
    out[0] = tp_uniform_like(tp_select(x, 0, 0), 0, 1);
    tp_normal_like(x, 0, 1);
    out[1] = tp_add(tp_dropout(x, 0.5), out[0]);
    out[2] = tp_sum(tp_normal_like(x, 0, 1), TP_ALL, false);
    out[3] = tp_uniform_like(x, 0, 1);
    out[4] = tp_neg(x);
}

static void blocks(tp_tensor *x, tp_tensor **out)
{
    tp_tensor *h = x, *kept = x, *s = x;
    out[0] = tp_normal_like(x, 0, 1);
    tp_for (3, &h, &kept) {
        tp_uniform_like(x, 0, 1);
        h = tp_add(h, tp_normal_like(h, 0, 1));
        tp_tensor *inner = kept;
        tp_if (tp_gt(tp_sum(h, TP_ALL, false), tp_scalar_like(h, 0)), &inner) {
            inner = tp_mul(inner, tp_uniform_like(inner, 0, 1));
        }
        kept = tp_add(kept, inner);
    }
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)), &s) {
        tp_tensor *least = tp_scalar_like(x, 3);
        tp_while (tp_lt(tp_sum(s, TP_ALL, false), least), &s) {
            s = tp_add(s, tp_uniform_like(s, 0, 1));
        }
    }
    out[1] = tp_add(x, tp_uniform_like(x, 0, 1));
    out[2] = h;
    out[3] = s;
    out[4] = tp_neg(x);
}

static void distributions(tp_tensor *x, tp_tensor **out)
{
    out[0] = tp_cast(tp_randint_like(tp_cast(x, TP_I64), -5, 6), TP_F32);
    out[1] = tp_gather(x, tp_permutation_like(x, 0), 0);
    out[2] = tp_sum(tp_exponential_like(x, 2), TP_ALL, false);
    out[3] = tp_cast(tp_categorical(x, 3), TP_F32);
    out[4] = tp_add(tp_bernoulli(tp_sigmoid(x)), tp_truncated_normal_like(x, 0, 1, -2, 2));
}

/* Three of them, in blocks too; the last one is one that is drawn from before. */
static void streams(tp_tensor *x, tp_tensor **out)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *h = x, *s = x;
    const uint64_t was = tp_random_stream(tp, 7);
    out[0] = tp_normal_like(x, 0, 1);
    tp_random_stream(tp, 0);
    out[1] = tp_add(x, tp_uniform_like(x, 0, 1));
    tp_for (3, &h) {
        tp_random_stream(tp, UINT64_MAX - 1);
        h = tp_add(h, tp_cast(tp_randint_like(tp_cast(h, TP_I64), -4, 5), TP_F32));
        tp_random_stream(tp, 7);
        tp_uniform_like(x, 0, 1);
        h = tp_mul(h, tp_uniform_like(x, 0, 1));
    }
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)), &s) {
        s = tp_dropout(s, 0.5);
    }
    tp_else
    {
        tp_random_stream(tp, 0);
        s = tp_normal_like(s, 0, 1);
    }
    tp_random_stream(tp, 7);
    out[2] = h;
    out[3] = tp_add(s, tp_uniform_like(s, 0, 1));
    tp_random_stream(tp, was);
    out[4] = tp_neg(x);
}

static void expect_same(const tp_tensor *got, const tp_tensor *want, const char *name,
                        int engine, int together)
{
    float a[8], b[8];
    const size_t n = (size_t)tp_count(want) * sizeof *a;
    assert_int_equal(tp_read(got, a, n), TP_OK);
    assert_int_equal(tp_read(want, b, n), TP_OK);
    if (memcmp(a, b, n) != 0)
        fail_msg("%s by engine %d, %d fetched: %g instead of %g", name, engine, together,
                 (double)a[0], (double)b[0]);
}

/* Two runs each: of one that draws nothing the second one begins at the start again. */
static void fetch(tp_ctx *tp, tp_program *p, tp_tensor *x, int n, int first, tp_tensor **want,
                  int engine)
{
    tp_tensor *got[N];
    assert_non_null(p);
    tp_seed(tp, 7);
    for (int run = 0; run < 2; run++) {
        assert_int_equal(tp_program_run(p, &x, got), TP_OK);
        for (int i = 0; i < n; i++)
            expect_same(got[i], want[run * N + first + i], names[first + i], engine, n);
    }
}

static void try_fetches(tp_ctx *tp, build *f)
{
    static const char *const feeds[] = {"x"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const float v[] = {0.5f, -0.25f, 1};
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(3), v), *want[2 * N], *out[N];
    tp_seed(tp, 7);
    f(x, want);
    f(x, want + N);
    tp_graph *g = tp_graph_new(tp);
    f(tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"))), out);
    for (int i = 0; i < N; i++)
        tp_name(out[i], names[i]);
    assert_int_equal(tp_error(tp), TP_OK);
    for (int e = 0; e < 3; e++)
        for (int i = 0; i <= N; i++) {
            const int n = i < N ? 1 : N, first = i < N ? i : 0;
            tp_program *p = tp_graph_compile(g, 1, feeds, n, names + first,
                                             &(tp_compile_options){.engine = engines[e]});
            fetch(tp, p, x, n, first, want, e);
            tp_program_free(p);
        }
}

static void at_the_top(void **state)
{
    try_fetches(*state, straight);
}

static void in_blocks(void **state)
{
    try_fetches(*state, blocks);
}

static void of_distributions(void **state)
{
    try_fetches(*state, distributions);
}

static void body(void *user, int n, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n, (void)n_out;
    distributions(in[0], out);
}

static void of_streams(void **state)
{
    try_fetches(*state, streams);
}

static void streams_body(void *user, int n, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n, (void)n_out;
    tp_tensor *x = in[0];
    if (tp_truth(tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0))))
        x = tp_add(x, tp_uniform_like(x, 0, 1)); /* from the caller's stream */
    streams(x, out);
    out[4] = tp_normal_like(x, 0, 1);
}

/* Called from two streams, and where each is then. */
static void captured_streams(void **state)
{
    tp_ctx *tp = *state;
    for (int pure = 0; pure < 3; pure++) {
        const tp_function_options options = {.pure = pure > 0, .check = pure > 1};
        tp_function *f = tp_function_new(tp, "f", streams_body, NULL, &options);
        for (int call = 0; call < 24; call++) {
            tp_tensor *want[N], *got[N];
            uint64_t at[2][2];
            tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(3),
                                         (float[]){0.5f, -1, call & 4 ? -2.f : 2.f});
            for (int k = 0; k < 2; k++) {
                tp_seed(tp, 5);
                tp_random_stream(tp, call & 2 ? 7 : 0);
                if (k == 0)
                    streams_body(NULL, 1, &x, N, want);
                else
                    assert_int_equal(tp_function_call(f, 1, &x, N, got), TP_OK);
                tp_random_position(tp, NULL, &at[k][0]);
                assert_true(tp_random_stream(tp, UINT64_MAX - 1) == (call & 2 ? 7 : 0));
                tp_random_position(tp, NULL, &at[k][1]);
                tp_random_stream(tp, 0);
            }
            assert_memory_equal(at[0], at[1], sizeof at[0]);
            for (int i = 0; i < N; i++)
                expect_same(got[i], want[i], names[i], 3 + pure, N);
        }
        tp_function_free(f);
    }
}

/* A run that fails leaves every stream where it was. */
static void failed_run(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const feeds[] = {"x", "i"}, *const fetches[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, feeds[0], TP_F32, TP_DIMS(3));
    tp_tensor *i = tp_placeholder(g, feeds[1], TP_I64, TP_DIMS(1)), *h = x, *got;
    tp_random_stream(tp, 9);
    h = tp_add(h, tp_uniform_like(x, 0, 1));
    tp_for (2, &h) {
        h = tp_add(h, tp_uniform_like(x, 0, 1));
    }
    tp_random_stream(tp, 0);
    h = tp_add(h, tp_normal_like(x, 0, 1));
    tp_name(tp_gather(h, i, 0), "y");
    for (int e = 0; e < 3; e++) {
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches,
                                         &(tp_compile_options){.engine = engines[e]});
        tp_tensor *in[2] = {tp_full(tp, TP_F32, TP_DIMS(3), 1),
                            tp_full(tp, TP_I64, TP_DIMS(1), 3)};
        uint64_t at[2];
        tp_seed(tp, 4);
        for (int run = 0; run < 3; run++) {
            if (run == 2)
                in[1] = tp_full(tp, TP_I64, TP_DIMS(1), 2);
            assert_int_equal(tp_program_run(p, in, &got), run < 2 ? TP_E_VALUE : TP_OK);
            tp_clear_error(tp);
            tp_random_position(tp, NULL, &at[0]);
            tp_random_stream(tp, 9);
            tp_random_position(tp, NULL, &at[1]);
            tp_random_stream(tp, 0);
            assert_true(at[0] == (run == 2) && at[1] == (run == 2 ? 3 : 0));
        }
        tp_program_free(p);
    }
}

static void captured(void **state)
{
    tp_ctx *tp = *state;
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f =
            tp_function_new(tp, "f", body, NULL, &(tp_function_options){.pure = pure});
        for (int call = 0; call < 8; call++) {
            tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(3), (float[]){0.5f, -1, 2});
            tp_tensor *want[N], *got[N];
            tp_seed(tp, 5);
            distributions(x, want);
            tp_seed(tp, 5);
            assert_int_equal(tp_function_call(f, 1, &x, N, got), TP_OK);
            for (int i = 0; i < N; i++)
                expect_same(got[i], want[i], names[i], 3 + pure, N);
        }
        tp_function_free(f);
    }
}

/* What is fetched draws nothing: nothing is drawn, and no placeholder of a draw has to be fed. */
static void none(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2));
    tp_tensor *y = tp_placeholder(g, "y", TP_F32, TP_DIMS(2)), *h = y;
    tp_for (2, &h) {
        h = tp_add(h, tp_uniform_like(h, 0, 1));
    }
    tp_name(h, "h");
    tp_name(tp_neg(x), "plain");
    tp_tensor *one = tp_full(tp, TP_F32, TP_DIMS(2), 1), *out;
    tp_seed(tp, 3);
    tp_tensor *want = tp_uniform(tp, TP_F32, TP_DIMS(2), 0, 1);
    tp_seed(tp, 3);
    assert_int_equal(
        tp_graph_run(g, 1, &(tp_feed){"x", one}, 1, (const char *[]){"plain"}, &out), TP_OK);
    expect_same(tp_uniform(tp, TP_F32, TP_DIMS(2), 0, 1), want, "after it", 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(at_the_top),       CASE(in_blocks),  CASE(of_distributions), CASE(of_streams),
        CASE(captured_streams), CASE(failed_run), CASE(captured),         CASE(none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
