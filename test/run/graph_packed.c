/* Programs whose variables are constants: they lie in the variables' memory, and are let go when they
 * are packed; what a run gives is the same, whatever is assigned, freed, or asked of the
 * program next. */
#include "common/unit.h"
#include "run/program.h"
#include "tapir/tapir.h"

enum { CHANNELS = 32, WIDE = 256, HIDDEN = 300, N_VARS = 3, N_SIZES = 6, SMALL = 4 };

typedef struct net {
    tp_graph *g;
    tp_tensor *vars[N_VARS];
} net;

/* Batches and sides of images, for which convolutions pack in different ways. */
static const int64_t sizes[N_SIZES][2] = {
    {1, 18},
    {2, 18},
    {1, 27},
    {1, 60},
    {1, 3 },
    {3, 2 }  /* most taps lie outside */
};

/* Its two large weights are read packed only, the third one is gathered from, too. */
static net build(tp_ctx *tp)
{
    net n = {.g = tp_graph_new(tp)};
    tp_scope_begin(tp);
    tp_seed(tp, 5);
    n.vars[0] = tp_retain(
        tp_param(tp_normal(tp, TP_F32, TP_DIMS(WIDE, CHANNELS, 3, 3), 0, 0.1), "conv"));
    n.vars[1] =
        tp_retain(tp_param(tp_normal(tp, TP_F32, TP_DIMS(WIDE, HIDDEN), 0, 0.1), "dense"));
    n.vars[2] =
        tp_retain(tp_param(tp_normal(tp, TP_F32, TP_DIMS(HIDDEN, HIDDEN), 0, 0.1), "table"));
    const int64_t batch = tp_symbol(n.g, "batch"), side = tp_symbol(n.g, "side");
    tp_tensor *x = tp_placeholder(n.g, "x", TP_F32, TP_DIMS(batch, CHANNELS, side, side));
    tp_tensor *h = tp_conv(x, n.vars[0],
                           &(tp_window){
                               .pad_lo = {1, 1},
                                 .pad_hi = {1, 1}
    });
    h = tp_mean(tp_relu(h), TP_DIMS(2, 3), false);
    h = tp_matmul(h, n.vars[1]);
    tp_tensor *row = tp_cast(tp_argmax(h, 1, false), TP_I64);
    h = tp_matmul(tp_add(h, tp_gather(n.vars[2], row, 0)), n.vars[2]);
    tp_name(h, "y");
    tp_scope_end(tp);
    return n;
}

static void forget(net *n)
{
    for (int i = 0; i < N_VARS; i++)
        tp_release(n->vars[i]);
    tp_graph_free(n->g);
}

static tp_program *compile(tp_graph *g, tp_engine engine)
{
    static const char *const fed[] = {"x"}, *const fetched[] = {"y"};
    tp_program *p = tp_graph_compile(g, 1, fed, 1, fetched,
                                     &(tp_compile_options){.engine = engine, .freeze = true});
    if (!p)
        fail_msg("%s", tp_error_message(g->ctx));
    return p;
}

static tp_tensor *image(tp_ctx *tp, int i)
{
    const int64_t *s = sizes[i];
    tp_seed(tp, (uint64_t)i);
    return tp_normal(tp, TP_F32, TP_DIMS(s[0], CHANNELS, s[1], s[1]), 0, 1);
}

typedef struct answers {
    tp_tensor *y[N_SIZES];
} answers;

/* By tiles, which pack nothing that is constant; in part by the reference. */
static answers expected(tp_ctx *tp)
{
    static const char *const fed[] = {"x"}, *const fetched[] = {"y"};
    answers a;
    net n = build(tp);
    for (int i = 0; i < N_SIZES; i++) {
        const tp_engine engine = i == SMALL ? TP_ENGINE_REFERENCE : TP_ENGINE_TILES;
        tp_program *p =
            tp_graph_compile(n.g, 1, fed, 1, fetched, &(tp_compile_options){.engine = engine});
        tp_tensor *x = image(tp, i);
        if (tp_program_run(p, &x, &a.y[i]) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        tp_program_free(p);
    }
    forget(&n);
    return a;
}

static void same(const void *is, const tp_tensor *be, const char *when)
{
    const float *a = is, *b = tp_data(be);
    for (int64_t k = 0; k < tp_count(be); k++)
        if (memcmp(&a[k], &b[k], sizeof *a) != 0)
            fail_msg("%s: element %lld is %a, and is to be %a", when, (long long)k,
                     (double)a[k], (double)b[k]);
}

static bool run(tp_ctx *tp, tp_program *p, const answers *a, int i, const char *when)
{
    tp_scope_begin(tp);
    tp_tensor *x = image(tp, i), *y;
    const bool ok = tp_program_run(p, &x, &y) == TP_OK;
    if (ok)
        same(tp_data(y), a->y[i], when);
    tp_scope_end(tp);
    return ok;
}

/* ---- once in memory ------------------------------------------------------------------------------- */

static size_t bytes_of(const net *n)
{
    size_t bytes = 0;
    for (int i = 0; i < N_VARS; i++)
        bytes += (size_t)tp_count(n->vars[i]) * sizeof(float);
    return bytes;
}

/* Nobody copies the weights before they are packed, and then the program has them once. */
static void weights_once(void **state)
{
    tp_ctx *tp = *state;
    tp->direct_conv = true;
    const answers a = expected(tp);
    net n = build(tp);
    const size_t weights = bytes_of(&n), all = tp_memory_bytes(tp);
    const size_t table = (size_t)tp_count(n.vars[2]) * sizeof(float);
    tp_program *p = compile(n.g, TP_ENGINE_C);
    assert_true(tp_memory_bytes(tp) < all + weights / 4);
    assert_true(run(tp, p, &a, 0, "beside the variables"));
    assert_int_equal(p->constants.n_gone, 0);
    forget(&n);
    tp_program_free(p);

    n = build(tp);
    p = compile(n.g, TP_ENGINE_C);
    forget(&n);
    assert_true(run(tp, p, &a, 0, "alone"));
    assert_int_equal(p->constants.n_gone, 2);
    const tp_program_stats s = tp_program_stats_of(p);
    assert_true(tp_memory_bytes(tp) < all - weights + table + (size_t)s.packed_bytes +
                                          (size_t)s.arena_bytes + (size_t)s.scratch_bytes +
                                          weights / 8);
}

/* Elements do not come back from Winograd's sums of them: these weights stay. */
static void tiled_weights(void **state)
{
    tp_ctx *tp = *state;
    const answers a = expected(tp);
    net n = build(tp);
    tp_program *p = compile(n.g, TP_ENGINE_C);
    forget(&n);
    assert_true(run(tp, p, &a, 0, "tiled"));
    assert_int_equal(p->constants.n_gone, 1);
}

static void at_sizes(tp_ctx *tp, bool direct)
{
    tp->direct_conv = direct;
    const answers a = expected(tp);
    net n = build(tp);
    tp_program *p = compile(n.g, TP_ENGINE_C);
    forget(&n);
    assert_true(run(tp, p, &a, 0, "first"));
    const tpi_buf *packed = p->constants.packed;
    assert_true(run(tp, p, &a, 1, "another batch"));
    assert_ptr_equal(p->constants.packed, packed);
    for (int i = 0; i < 3 * N_SIZES; i++)
        assert_true(run(tp, p, &a, i * 7 % N_SIZES, "in turn"));
    tp_trap_nan(tp, true);
    assert_true(run(tp, p, &a, SMALL, "node by node"));
    assert_string_equal(tp_program_engine(p), "reference");
    assert_int_equal(p->constants.n_gone, 0);
    tp_trap_nan(tp, false);
    for (int i = 0; i < N_SIZES; i++)
        assert_true(run(tp, p, &a, i, "by C again"));

    char *text = tp_graph_text(tp_program_graph(p));
    assert_non_null(text);
    tp_free(tp, text);
    assert_int_equal(p->constants.n_gone, 0);
    for (int i = 0; i < N_SIZES; i++)
        assert_true(run(tp, p, &a, i, "shown"));
    assert_int_equal(p->constants.n_gone, 0);
}

static void at_all_sizes(void **state)
{
    at_sizes(*state, true);
}

static void tiled_at_all_sizes(void **state)
{
    at_sizes(*state, false);
}

/* A runner goes on with what is packed for its sizes. */
static void runner(void **state)
{
    tp_ctx *tp = *state;
    const answers a = expected(tp);
    net n = build(tp);
    tp_program *p = compile(n.g, TP_ENGINE_C);
    forget(&n);
    tp_runner *r[2];
    for (int i = 0; i < 2; i++) {
        tp_tensor *x = image(tp, i ? 2 : 0);
        r[i] = tp_runner_new(p, &x);
        assert_non_null(r[i]);
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 2; i++) {
            const int at = i ? 2 : 0;
            float *y = malloc((size_t)tp_count(a.y[at]) * sizeof *y);
            const void *in[] = {tp_data(image(tp, at))};
            void *out[] = {y};
            assert_int_equal(tp_runner_run(r[i], in, out), TP_OK);
            same(y, a.y[at], "runner");
            free(y);
            assert_true(run(tp, p, &a, 3 - turn, "beside runners"));
        }
    tp_trap_nan(tp, true);
    tp_tensor *x = image(tp, 0);
    assert_null(tp_runner_new(p, &x));
    unit_expect(tp, TP_E_STATE, "NaNs are trapped, for which programs run node by node",
                __LINE__ - 2);
    tp_trap_nan(tp, false);
}

/* ---- what is assigned ----------------------------------------------------------------------------- */

/* In a new graph: the variable becomes x. */
static void assign_by_program(tp_tensor *var, tp_tensor *x)
{
    tp_graph *g = tp_graph_new(tp_ctx_of(var));
    tp_tensor *in = tp_placeholder(g, "new", TP_F32, TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), 3, 3));
    tp_name(tp_assign(var, tp_add(in, tp_mul(var, tp_scalar(tp_ctx_of(var), TP_F32, 0)))),
            "done");
    tp_tensor *out;
    const char *const fetched[] = {"done"};
    const tp_feed feed = {"new", x};
    assert_int_equal(tp_graph_run(g, 1, &feed, 1, fetched, &out), TP_OK);
    tp_graph_free(g);
}

static void assigned(void **state)
{
    tp_ctx *tp = *state;
    const answers a = expected(tp);
    net n = build(tp);
    tp_program *p[] = {compile(n.g, TP_ENGINE_C), compile(n.g, TP_ENGINE_TILES)};
    assert_true(run(tp, p[0], &a, 1, "before"));
    tp_tensor *old = tp_mul(n.vars[0], tp_scalar(tp, TP_F32, 1));
    tp_tensor *zero = tp_full(tp, TP_F32, TP_DIMS(WIDE, CHANNELS, 3, 3), 0);
    tp_tensor *view = tp_slice(n.vars[1], 0, 3, WIDE, 1);
    for (int i = 0; i < N_VARS; i++)
        assert_true(n.vars[i]->buf->lent);
    assign_by_program(n.vars[0], zero);
    tp_assign(view, tp_mul(view, tp_scalar(tp, TP_F32, 2)));
    tp_assign(n.vars[2], tp_neg(n.vars[2]));
    assert_float_equal(tp_item(tp_reduce_max(n.vars[0], TP_DIMS(0, 1, 2, 3), false)), 0, 0);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < N_SIZES; k++)
            assert_true(run(tp, p[i], &a, k, "assigned"));
    /* what it is now is what the next program takes */
    tp_assign(n.vars[0], old);
    tp_assign(view, tp_mul(view, tp_scalar(tp, TP_F32, 0.5)));
    tp_assign(n.vars[2], tp_neg(n.vars[2]));
    tp_program *q = compile(n.g, TP_ENGINE_C);
    forget(&n);
    for (int k = 0; k < N_SIZES; k++)
        assert_true(run(tp, q, &a, k, "the next"));
}

/* Memory that runs out loses nothing: what failed is done at the next try. */
static void no_memory(void **state)
{
    tp_ctx *tp = *state;
    unit_memory *m = tp->mem.user.user;
    const answers a = expected(tp);
    for (long n = 1, done = 0; !done; n++) {
        net w = build(tp);
        tp_program *p = compile(w.g, TP_ENGINE_C);
        tp_tensor *zero = tp_full(tp, TP_F32, TP_DIMS(HIDDEN, HIDDEN), 0);
        tp_trim(tp);
        m->fail_at = m->calls + n;
        const bool wrote = !tp_failed(tp_assign(w.vars[2], zero));
        m->fail_at = 0;
        tp_clear_error(tp);
        tp_assign(w.vars[2], tp_sub(w.vars[2], zero));
        assert_true(run(tp, p, &a, 0, "assigned for want of memory"));
        forget(&w);
        assert_true(run(tp, p, &a, 1, "let go"));
        tp_trim(tp);
        m->fail_at = m->calls + n;
        const bool ran = run(tp, p, &a, 2, "for want of memory");
        m->fail_at = 0;
        tp_clear_error(tp);
        for (int k = 0; k < N_SIZES; k++)
            assert_true(run(tp, p, &a, k, "after it"));
        done = wrote && ran;
        tp_program_free(p);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(weights_once), CASE(tiled_weights), CASE(at_all_sizes), CASE(tiled_at_all_sizes),
        CASE(runner),       CASE(assigned),      CASE(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
