/* Blocks in programs: every executor, with and without passes, has the bits of the same C run
 * eagerly. Graphs are built by hand, so that bodies are also such as no C makes. */
#include "common/unit.h"
#include "ir/body.h"
#include <tapir/tapir.h>

enum { MOST = 4 };
#define HERE TPI_AT(__FILE__, __LINE__)

/* What is compared: a graph with placeholders and named outputs y0.., and what they are. */
typedef struct sample {
    int n_feeds, n;
    const char *feeds[MOST];
    void (*build)(tp_ctx *tp, tp_graph *g);
    void (*eager)(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y);
} sample;

static const char *const names[MOST] = {"y0", "y1", "y2", "y3"};

static void expect_equal(const tp_tensor *a, const tp_tensor *b, const char *engine, int i)
{
    assert_int_equal(tp_status_of(b), TP_OK);
    assert_int_equal(tp_rank(a), tp_rank(b));
    for (int k = 0; k < tp_rank(a); k++)
        if (tp_dim(a, k) != tp_dim(b, k))
            fail_msg("%s: y%d has size %d, not %d, on axis %d", engine, i, (int)tp_dim(b, k),
                     (int)tp_dim(a, k), k);
    const size_t bytes = tpi_bytes(a);
    char *p = malloc(bytes + 1), *q = malloc(bytes + 1);
    assert_true(p && q);
    tp_read(a, p, bytes);
    tp_read(b, q, bytes);
    if (memcmp(p, q, bytes) != 0)
        fail_msg("%s: y%d differs", engine, i);
    free(p);
    free(q);
}

/* One program over all sets of feeds, two times each. */
static void run_all(tp_ctx *tp, const sample *s, tp_engine engine, const char *skip, int n_sets,
                    tp_tensor *const *sets)
{
    static const char *const engines[] = {"auto", "reference", "c", "tiles"};
    tp_graph *g = tp_graph_new(tp);
    s->build(tp, g);
    assert_string_equal(tp_error_message(tp), "");
    assert_int_equal(tp_graph_verify(g), TP_OK);
    const tp_compile_options opt = {.engine = engine, .skip_passes = skip};
    tp_program *p = tp_graph_compile(g, s->n_feeds, s->feeds, s->n, names, &opt);
    assert_string_equal(tp_error_message(tp), "");
    assert_non_null(p);
    tp_graph_free(g);
    for (int set = 0; set < 2 * n_sets; set++) {
        tp_tensor *const *x = sets + (set % n_sets) * s->n_feeds;
        tp_tensor *want[MOST], *got[MOST];
        const uint64_t at = tp->random_at;
        tp_scope_begin(tp);
        s->eager(tp, x, want);
        const uint64_t end = tp->random_at;
        tp->random_at = at;
        if (tp_program_run(p, x, got) != TP_OK)
            fail_msg("%s: %s", engines[engine], tp_error_text(got[0]));
        for (int i = 0; i < s->n; i++)
            expect_equal(want[i], got[i], engines[engine], i);
        assert_true(tp->random_at == end);
        tp_scope_end(tp);
    }
    if (engine >= TP_ENGINE_C)
        assert_string_equal(tp_program_engine(p), engines[engine]);
    tp_program_free(p);
}

static void compare(tp_ctx *tp, const sample *s, int n_sets, tp_tensor *const *sets)
{
    static const char *const skips[] = {"fold,algebra,cse,fuse,bands", "fold", "algebra", "cse",
                                        "fuse"};
    run_all(tp, s, TP_ENGINE_REFERENCE, NULL, n_sets, sets);
    run_all(tp, s, TP_ENGINE_REFERENCE, skips[0], n_sets, sets);
    run_all(tp, s, TP_ENGINE_AUTO, NULL, n_sets, sets);
    run_all(tp, s, TP_ENGINE_TILES, NULL, n_sets, sets);
    run_all(tp, s, TP_ENGINE_TILES, "fuse", n_sets, sets);
    run_all(tp, s, TP_ENGINE_C, NULL, n_sets, sets);
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++)
        run_all(tp, s, TP_ENGINE_C, skips[i], n_sets, sets);
}

/* Numbers that look different. */
static tp_tensor *numbers(tp_ctx *tp, int rank, const int64_t *shape, int seed)
{
    float v[512];
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    uint64_t state = (uint64_t)seed * 77 + 5;
    assert_true(n <= 512);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(unit_random(&state) >> 40) / (float)(1 << 23) - 1;
    return tp_tensor_new(tp, TP_F32, rank, shape, v);
}

static tp_tensor *param_like(tpi_body *b, const tp_tensor *t)
{
    return tpi_body_param(b, HERE, (tp_dtype)t->dtype, t->rank, t->shape, NULL);
}

static tp_tensor *param_row(tpi_body *b, const tp_tensor *t)
{
    return tpi_body_param(b, HERE, (tp_dtype)t->dtype, t->rank - 1, t->shape + 1, NULL);
}

static tp_tensor *turn_param(tpi_body *b)
{
    return tpi_body_param(b, HERE, TP_I64, 0, NULL, NULL);
}

static void name_output(tp_graph *g, tp_tensor *block, int64_t index, const char *name)
{
    tp_name(tpi_output_node(g, HERE, block, index), name);
}

/* ---- a recurrent net: carried, slices, captures, stacked; both directions -------------------------- */

static tp_tensor *cell(tp_tensor *x, tp_tensor *h, tp_tensor *w, tp_tensor *u)
{
    return tp_tanh(tp_add(tp_matmul(x, w), tp_matmul(h, u)));
}

static void build_rnn(tp_graph *g, bool back)
{
    const int64_t n = tp_symbol(g, "n"), rows = tp_symbol(g, "rows");
    tp_tensor *xs = tp_placeholder(g, "xs", TP_F32, TP_DIMS(n, rows, 3));
    tp_tensor *h0 = tp_placeholder(g, "h0", TP_F32, TP_DIMS(rows, 4));
    tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(3, 4));
    tp_tensor *u = tp_swap(tp_placeholder(g, "u", TP_F32, TP_DIMS(4, 4)), 0, 1);
    tpi_body *b = tpi_body_new(g, HERE);
    turn_param(b);
    tp_tensor *h = param_like(b, h0), *x = param_row(b, xs), *iw = param_like(b, w),
              *iu = param_like(b, u);
    tp_tensor *next = cell(x, h, iw, iu);
    tpi_body_output(b, next);
    tpi_body_output(b, tp_mul(next, next));
    tpi_body_output(b, tp_sum(next, 1, (int64_t[]){1}, false));
    const tpi_loop_attrs a = {.body = b,
                              .n_carried = 1,
                              .n_slices = 1,
                              .n_stacked = 2,
                              .counted = 1,
                              .back = back,
                              .count = n,
                              .length = n};
    tp_tensor *in[] = {h0, xs, w, u}, *loop = tpi_loop_node(g, HERE, &a, 4, in);
    name_output(g, loop, 0, "y0");
    name_output(g, loop, 1, "y1");
    tp_name(tp_add(tp_mean(tpi_output_node(g, HERE, loop, 2), TP_ALL, false),
                   tp_sum(tpi_output_node(g, HERE, loop, 1), TP_ALL, false)),
            "y2");
}

static void build_forward(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    build_rnn(g, false);
}

static void build_back(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    build_rnn(g, true);
}

static void eager_rnn(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y, bool back)
{
    const int64_t n = tp_dim(x[0], 0), rows = tp_dim(x[0], 1);
    tp_tensor *h = x[1], *u = tp_swap(x[3], 0, 1), *squares[32], *sums[32];
    for (int64_t t = 0; t < n; t++) {
        const int64_t at = back ? n - 1 - t : t;
        h = cell(tp_select(x[0], 0, at), h, x[2], u);
        squares[at] = tp_mul(h, h);
        sums[at] = tp_sum(h, 1, (int64_t[]){1}, false);
    }
    y[0] = h;
    y[1] = n ? tp_stack((int)n, squares, 0) : tp_full(tp, TP_F32, TP_DIMS(0, rows, 4), 0);
    tp_tensor *s = n ? tp_stack((int)n, sums, 0) : tp_full(tp, TP_F32, TP_DIMS(0, rows), 0);
    y[2] = tp_add(tp_mean(s, TP_ALL, false), tp_sum(y[1], TP_ALL, false));
}

static void eager_forward(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    eager_rnn(tp, x, y, false);
}

static void eager_back(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    eager_rnn(tp, x, y, true);
}

static void goes_over_a_leading_axis(void **state)
{
    static const sample samples[] = {
        {4, 3, {"xs", "h0", "w", "u"}, build_forward, eager_forward},
        {4, 3, {"xs", "h0", "w", "u"}, build_back,    eager_back   },
    };
    static const int sizes[][2] = {
        {5, 2},
        {1, 2},
        {0, 3},
        {8, 1},
        {3, 0}
    };
    tp_ctx *tp = *state;
    tp_tensor *sets[5 * 4];
    for (int i = 0; i < 5; i++) {
        const int64_t n = sizes[i][0], rows = sizes[i][1];
        sets[4 * i] = numbers(tp, 3, (int64_t[]){n, rows, 3}, i);
        sets[4 * i + 1] = numbers(tp, 2, (int64_t[]){rows, 4}, i + 1);
        sets[4 * i + 2] = numbers(tp, 2, (int64_t[]){3, 4}, i + 2);
        sets[4 * i + 3] = numbers(tp, 2, (int64_t[]){4, 4}, i + 3);
    }
    for (int i = 0; i < 2; i++)
        compare(tp, &samples[i], 5, sets);
}

/* ---- a condition ends it: turns known at run time, sizes after it ------------------------------------- */

static tp_tensor *halve(tp_tensor *z)
{
    return tp_sub(tp_mul(z, tp_scalar_like(z, 0.75)), tp_scalar_like(z, 0.125));
}

static tp_tensor *is_large(tp_tensor *z, tp_tensor *limit)
{
    return tp_gt(tp_reduce_max(z, TP_ALL, false), limit);
}

static void build_while(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *z0 = tp_placeholder(g, "z", TP_F32, TP_DIMS(3));
    tp_tensor *limit = tp_placeholder(g, "limit", TP_F32, 0, NULL);
    const int64_t turns = tpi_fresh_symbol(g, "turns");
    tpi_body *b = tpi_body_new(g, HERE);
    tp_tensor *turn = turn_param(b), *z = param_like(b, z0), *il = param_like(b, limit);
    tp_tensor *next = halve(z);
    tpi_body_output(b, is_large(next, il));
    tpi_body_output(b, next);
    tpi_body_output(b, z);
    tpi_body_output(b, turn);
    const tpi_loop_attrs a = {
        .body = b, .n_carried = 1, .n_stacked = 2, .has_pred = 1, .length = turns};
    tp_tensor *in[] = {is_large(z0, limit), z0, limit},
              *loop = tpi_loop_node(g, HERE, &a, 3, in);
    name_output(g, loop, 0, "y0");
    tp_tensor *zs = tp_name(tpi_output_node(g, HERE, loop, 1), "y1");
    name_output(g, loop, 2, "y2");
    /* [turns, 3] turned about, in one row, and summed */
    tp_tensor *row =
        tp_reshape(tp_swap(tp_mul(zs, zs), 0, 1), 1, (int64_t[]){tp_dim_mul(g, turns, 3)});
    tp_name(tp_sum(row, TP_ALL, false), "y3");
}

static void eager_while(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    enum { MANY = 256 };
    tp_tensor *z = x[0], *zs[MANY], *turns[MANY];
    int n = 0;
    for (; tp_truth(is_large(z, x[1])); z = halve(z), n++) {
        assert_true(n < MANY);
        zs[n] = z;
        turns[n] = tp_scalar(tp, TP_I64, n);
    }
    y[0] = z;
    y[1] = n ? tp_stack(n, zs, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 3), 0);
    y[2] = n ? tp_stack(n, turns, 0) : tp_full(tp, TP_I64, TP_DIMS(0), 0);
    tp_tensor *row =
        tp_reshape(tp_swap(tp_mul(y[1], y[1]), 0, 1), 1, (int64_t[]){(int64_t)3 * n});
    y[3] = tp_sum(row, TP_ALL, false);
}

static void ends_by_a_condition(void **state)
{
    static const sample s = {
        2, 4, {"z", "limit"},
          build_while, eager_while
    };
    tp_ctx *tp = *state;
    const float z[4][3] = {
        {1,     5,   3 },
        {1,     0.5, 0 },
        {1e15F, 2,   3 },
        {70,    5,   -3}
    };
    tp_tensor *sets[8];
    for (int i = 0; i < 4; i++) {
        sets[2 * i] = tp_tensor_new(tp, TP_F32, TP_DIMS(3), z[i]);
        sets[2 * i + 1] = tp_scalar(tp, TP_F32, i == 3 ? -0.25 : 1);
    }
    compare(tp, &s, 4, sets);
}

/* ---- what bodies may give: params, constants, one node twice, swapped ----------------------------------- */

static void build_odd(tp_ctx *tp, tp_graph *g)
{
    tp_tensor *p0 = tp_placeholder(g, "a", TP_F32, TP_DIMS(2, 3));
    tp_tensor *q0 = tp_placeholder(g, "b", TP_F32, TP_DIMS(2, 3));
    const int64_t n = tp_symbol(g, "n");
    tp_placeholder(g, "n", TP_F32, TP_DIMS(n));
    tpi_body *b = tpi_body_new(g, HERE);
    turn_param(b);
    tp_tensor *p = param_like(b, p0), *q = param_like(b, q0), *r = param_like(b, q0);
    tp_tensor *c = tpi_graph_lift(b->graph, HERE, tp_full(tp, TP_F32, TP_DIMS(2, 3), 2.5));
    tpi_body_output(b, q);
    tpi_body_output(b, p);
    tpi_body_output(b, r);
    tpi_body_output(b, tp_swap(tp_reshape(q, 2, (int64_t[]){3, 2}), 0, 1));
    tp_tensor *sum = tp_add(p, r);
    tpi_body_output(b, sum);
    tpi_body_output(b, sum);
    tpi_body_output(b, c);
    const tpi_loop_attrs a = {
        .body = b, .n_carried = 3, .n_stacked = 4, .counted = 1, .count = n, .length = n};
    tp_tensor *in[] = {p0, q0, p0}, *loop = tpi_loop_node(g, HERE, &a, 3, in);
    tp_tensor *y0 = tpi_output_node(g, HERE, loop, 0);
    tp_name(tp_sub(y0, tpi_output_node(g, HERE, loop, 1)), "y0");
    name_output(g, loop, 3, "y1");
    tp_name(tp_add(tpi_output_node(g, HERE, loop, 4), tpi_output_node(g, HERE, loop, 5)), "y2");
    name_output(g, loop, 6, "y3");
}

static void eager_odd(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    tp_tensor *p = x[0], *q = x[1], *r = x[0], *turned[32], *sums[32], *cs[32];
    const int n = (int)tp_dim(x[2], 0);
    for (int t = 0; t < n; t++) {
        turned[t] = tp_swap(tp_reshape(q, 2, (int64_t[]){3, 2}), 0, 1);
        sums[t] = tp_add(p, r);
        cs[t] = tp_full(tp, TP_F32, TP_DIMS(2, 3), 2.5);
        tp_tensor *was = p;
        p = q;
        q = was;
    }
    y[0] = tp_sub(p, q);
    y[1] = n ? tp_stack(n, turned, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 2, 3), 0);
    tp_tensor *s = n ? tp_stack(n, sums, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 2, 3), 0);
    y[2] = tp_add(s, s);
    y[3] = n ? tp_stack(n, cs, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 2, 3), 0);
}

static void gives_what_is_not_computed(void **state)
{
    static const sample s = {
        3, 4, {"a", "b", "n"},
          build_odd, eager_odd
    };
    tp_ctx *tp = *state;
    tp_tensor *sets[9];
    for (int i = 0; i < 3; i++) {
        sets[3 * i] = numbers(tp, 2, (int64_t[]){2, 3}, i);
        sets[3 * i + 1] = numbers(tp, 2, (int64_t[]){2, 3}, i + 7);
        sets[3 * i + 2] = numbers(tp, 1, (int64_t[]){i == 2 ? 0 : 3 + i}, i);
    }
    compare(tp, &s, 3, sets);
}

/* ---- one in another, random numbers, a side that is not taken -------------------------------------------- */

/* z += noise while small; every turn a cond: doubles its row or a loop of its own halves it. */
static tp_tensor *cond_node(tp_graph *g, tp_tensor *pred, tp_tensor *z)
{
    tpi_body *then = tpi_body_new(g, HERE), *other = tpi_body_new(g, HERE);
    tp_tensor *tz = param_like(then, z), *oz = param_like(other, z);
    tpi_body_output(then, tp_add(tz, tp_uniform_like(tz, 0, 1)));
    tpi_body *inner = tpi_body_new(other->graph, HERE);
    turn_param(inner);
    tp_tensor *iz = param_like(inner, oz), *next = halve(iz);
    tpi_body_output(inner, is_large(next, tp_scalar(z->ctx, TP_F32, 2)));
    tpi_body_output(inner, tp_add(next, tp_normal_like(next, 0, 0.125)));
    const tpi_loop_attrs a = {.body = inner, .n_carried = 1, .has_pred = 1};
    tp_tensor *in[] = {is_large(oz, tp_scalar(z->ctx, TP_F32, 2)), oz};
    tp_tensor *loop = tpi_loop_node(other->graph, HERE, &a, 2, in);
    tpi_body_output(other, tpi_output_node(other->graph, HERE, loop, 0));
    const tpi_cond_attrs c = {.then = then, .other = other};
    tp_tensor *cond = tpi_cond_node(g, HERE, &c, 2, (tp_tensor *[]){pred, z});
    return tpi_output_node(g, HERE, cond, 0);
}

static void build_nested(tp_ctx *tp, tp_graph *g)
{
    (void)tp;
    tp_tensor *z0 = tp_placeholder(g, "z", TP_F32, TP_DIMS(4));
    tp_tensor *steps = tp_placeholder(g, "steps", TP_F32, TP_DIMS(tp_symbol(g, "n"), 4));
    tp_tensor *first = tp_add(z0, tp_uniform_like(z0, -1, 1));
    tpi_body *b = tpi_body_new(g, HERE);
    turn_param(b);
    tp_tensor *z = param_like(b, z0), *step = param_row(b, steps);
    tp_tensor *moved = tp_add(z, step);
    tp_tensor *small = tp_lt(tp_mean(moved, TP_ALL, false), tp_scalar(tp, TP_F32, 0.5));
    tp_tensor *next = cond_node(b->graph, small, moved);
    tpi_body_output(b, next);
    tpi_body_output(b, next);
    const tpi_loop_attrs a = {.body = b,
                              .n_carried = 1,
                              .n_slices = 1,
                              .n_stacked = 1,
                              .counted = 1,
                              .count = steps->shape[0],
                              .length = steps->shape[0]};
    tp_tensor *loop = tpi_loop_node(g, HERE, &a, 2, (tp_tensor *[]){first, steps});
    name_output(g, loop, 0, "y0");
    name_output(g, loop, 1, "y1");
    tp_name(tp_normal_like(z0, 0, 1), "y2");
}

static void eager_nested(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    tp_tensor *z = tp_add(x[0], tp_uniform_like(x[0], -1, 1)), *zs[32];
    const int n = (int)tp_dim(x[1], 0);
    for (int t = 0; t < n; t++) {
        z = tp_add(z, tp_select(x[1], 0, t));
        if (tp_truth(tp_lt(tp_mean(z, TP_ALL, false), tp_scalar(tp, TP_F32, 0.5)))) {
            z = tp_add(z, tp_uniform_like(z, 0, 1));
        } else {
            tp_tensor *two = tp_scalar(tp, TP_F32, 2);
            for (bool go = tp_truth(is_large(z, two)); go;) {
                tp_tensor *next = halve(z);
                go = tp_truth(is_large(next, two));
                z = tp_add(next, tp_normal_like(next, 0, 0.125));
            }
        }
        zs[t] = z;
    }
    y[0] = z;
    y[1] = n ? tp_stack(n, zs, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 4), 0);
    y[2] = tp_normal_like(x[0], 0, 1);
}

static void nests(void **state)
{
    static const sample s = {
        2, 3, {"z", "steps"},
          build_nested, eager_nested
    };
    tp_ctx *tp = *state;
    tp_tensor *sets[8];
    const int64_t turns[] = {6, 0, 20, 3};
    for (int i = 0; i < 4; i++) {
        sets[2 * i] = numbers(tp, 1, (int64_t[]){4}, i);
        sets[2 * i + 1] =
            tp_mul(numbers(tp, 2, (int64_t[]){turns[i], 4}, i), tp_scalar(tp, TP_F32, 6));
    }
    compare(tp, &s, 4, sets);
}

/* ---- sizes of an inner loop that are others at each turn --------------------------------------------------- */

static void build_inner_sizes(tp_ctx *tp, tp_graph *g)
{
    tp_tensor *xs = tp_placeholder(g, "xs", TP_F32, TP_DIMS(tp_symbol(g, "n"), 3));
    tp_tensor *sum0 = tp_placeholder(g, "sum", TP_F32, 0, NULL);
    const int64_t turns = tpi_fresh_symbol(g, "turns");
    tpi_body *b = tpi_body_new(g, HERE);
    turn_param(b);
    tp_tensor *sum = param_like(b, sum0), *x = param_row(b, xs);
    tpi_body *inner = tpi_body_new(b->graph, HERE);
    turn_param(inner);
    tp_tensor *z = param_like(inner, x), *next = halve(z), *one = tp_scalar(tp, TP_F32, 1);
    tpi_body_output(inner, is_large(next, one));
    tpi_body_output(inner, next);
    tpi_body_output(inner, z);
    const tpi_loop_attrs ia = {
        .body = inner, .n_carried = 1, .n_stacked = 1, .has_pred = 1, .length = turns};
    tp_tensor *iloop =
        tpi_loop_node(b->graph, HERE, &ia, 2, (tp_tensor *[]){is_large(x, one), x});
    tp_tensor *zs = tpi_output_node(b->graph, HERE, iloop, 1);
    /* and a loop back over what was stacked */
    tpi_body *back = tpi_body_new(b->graph, HERE);
    turn_param(back);
    tp_tensor *acc = param_like(back, sum), *row = param_row(back, zs);
    tpi_body_output(back, tp_sub(tp_sum(row, TP_ALL, false), tp_mul(acc, acc)));
    const tpi_loop_attrs ba = {
        .body = back, .n_carried = 1, .n_slices = 1, .counted = 1, .back = 1, .count = turns};
    tp_tensor *bloop = tpi_loop_node(b->graph, HERE, &ba, 2, (tp_tensor *[]){sum, zs});
    tpi_body_output(b, tp_tanh(tpi_output_node(b->graph, HERE, bloop, 0)));
    tpi_body_output(b, tp_mean(zs, TP_ALL, false));
    const tpi_loop_attrs a = {.body = b,
                              .n_carried = 1,
                              .n_slices = 1,
                              .n_stacked = 1,
                              .counted = 1,
                              .count = xs->shape[0],
                              .length = xs->shape[0]};
    tp_tensor *loop = tpi_loop_node(g, HERE, &a, 2, (tp_tensor *[]){sum0, xs});
    name_output(g, loop, 0, "y0");
    name_output(g, loop, 1, "y1");
}

static void eager_inner_sizes(tp_ctx *tp, tp_tensor *const *x, tp_tensor **y)
{
    enum { MANY = 256 };
    tp_tensor *sum = x[1], *means[32], *one = tp_scalar(tp, TP_F32, 1);
    const int n = (int)tp_dim(x[0], 0);
    for (int t = 0; t < n; t++) {
        tp_tensor *zs[MANY], *z = tp_select(x[0], 0, t);
        int turns = 0;
        for (; tp_truth(is_large(z, one)); z = halve(z))
            zs[turns++] = z;
        tp_tensor *all = turns ? tp_stack(turns, zs, 0) : tp_full(tp, TP_F32, TP_DIMS(0, 3), 0);
        for (int i = turns - 1; i >= 0; i--)
            sum = tp_sub(tp_sum(zs[i], TP_ALL, false), tp_mul(sum, sum));
        sum = tp_tanh(sum);
        means[t] = tp_mean(all, TP_ALL, false);
    }
    y[0] = sum;
    y[1] = tp_stack(n, means, 0);
}

static void sizes_of_an_inner_loop(void **state)
{
    static const sample s = {
        2, 2, {"xs", "sum"},
          build_inner_sizes, eager_inner_sizes
    };
    tp_ctx *tp = *state;
    tp_tensor *sets[4];
    for (int i = 0; i < 2; i++) {
        sets[2 * i] = tp_mul(numbers(tp, 2, (int64_t[]){5 + i, 3}, i + 3),
                             tp_scalar(tp, TP_F32, i ? 3e9 : 30));
        sets[2 * i + 1] = tp_scalar(tp, TP_F32, 0.25 * i);
    }
    compare(tp, &s, 2, sets);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(goes_over_a_leading_axis),   CASE(ends_by_a_condition),
        CASE(gives_what_is_not_computed), CASE(nests),
        CASE(sizes_of_an_inner_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
