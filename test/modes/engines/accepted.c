/* The differences that README.md accepts beside its promise of equal bits, one of each: gradients of a static graph
 * that are not those of the eager run. All engines have the graph's bits, captured functions the eager ones. A row
 * that no longer differs is to go here and there. */
#include "common/unit.h"
#include "tapir/capture.h"
#include "tapir/control.h"
#include "tapir/grad.h"
#include "tapir/graph.h"
#include "tapir/ops.h"

#include <math.h>

enum { LONG = 300 };

/* The side that is taken gives x no gradient: the graph adds +0 to -0. */
static tp_tensor *side(tp_tensor *x, tp_tensor *a)
{
    (void)a;
    tp_tensor *h = tp_mul(x, tp_scalar_like(x, 2));
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0)), &h) {
        h = tp_detach(h);
    }
    tp_else
    {
        h = tp_mul(h, h);
    }
    return tp_add(tp_mul(x, tp_scalar_like(x, -0.0)), h);
}

/* Nothing is asked of what the last turn leaves in `root`: the graph has 0 times infinity where x is 1. */
static tp_tensor *last_turn(tp_tensor *x, tp_tensor *a)
{
    (void)a;
    tp_tensor *root = x, *twice = x;
    tp_for (1, &root, &twice) {
        tp_tensor *was = root;
        root = tp_sqrt(tp_sub(was, tp_scalar_like(x, 1)));
        twice = tp_add(was, was);
    }
    return twice;
}

/* The copy is a node, whose contributions are added up before they are added to those of `turned`; in a graph there
 * is no copy, and 1e8 is added to what it swallows. */
static tp_tensor *copied(tp_tensor *x, tp_tensor *a)
{
    (void)a;
    tp_tensor *turned = tp_swap(x, 0, 1), *copy = tp_contiguous(turned);
    tp_tensor *much = tp_mul(copy, tp_scalar_like(x, 1e8));
    tp_tensor *few = tp_mul(turned, tp_scalar_like(x, 3.25));
    tp_tensor *less = tp_mul(copy, tp_scalar_like(x, 8 - 1e8));
    return tp_add(tp_add(much, few), less);
}

/* The second axis of a is a symbol that is 1: the graph takes it for one that x was stretched along. */
static tp_tensor *one_column(tp_tensor *x, tp_tensor *a)
{
    return tp_mul(a, x);
}

typedef struct difference {
    const char *name;
    tp_tensor *(*fn)(tp_tensor *x, tp_tensor *a);
    int rank;
    int64_t shape[2];
    bool (*differs)(float eager, float graph);
} difference;

static bool other_zero(float eager, float graph)
{
    return eager == 0 && graph == 0 && signbit(eager) && !signbit(graph);
}

static bool no_number(float eager, float graph)
{
    return eager == 2 && isnan(graph);
}

static bool other_sum(float eager, float graph)
{
    return eager != graph;
}

static const difference differences[] = {
    {"a side without a gradient",    side,       1, {2},    other_zero},
    {"a turn without a gradient",    last_turn,  1, {2},    no_number },
    {"a copy",                       copied,     2, {2, 2}, other_sum },
    {"a size that is 1 in this run", one_column, 2, {1, 1}, other_sum },
};

static tp_tensor *gradient(const difference *d, tp_tensor *x, tp_tensor *a)
{
    return tp_grad(tp_sum(d->fn(x, a), TP_ALL, false), x);
}

static void read_all(const tp_tensor *t, float v[4])
{
    assert_int_equal(tp_read(t, v, sizeof *v * (size_t)tp_count(t)), TP_OK);
}

static void expect_same(const char *name, const char *way, const tp_tensor *got,
                        const tp_tensor *want)
{
    float a[4], b[4];
    read_all(got, a);
    read_all(want, b);
    for (int i = 0; i < tp_count(want); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s, %s: %a, not %a", name, way, (double)a[i], (double)b[i]);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = gradient(user, tp_require_grad(tp_mul(in[0], tp_scalar_like(in[0], 1))), in[1]);
}

/* Recorded, matched, and by programs. */
static void captured(tp_ctx *tp, const difference *d, tp_tensor *const *in,
                     const tp_tensor *want)
{
    for (int pure = 0; pure < 2; pure++) {
        const tp_function_options opt = {.engine = TP_ENGINE_TILES, .pure = pure};
        tp_function *f = tp_function_new(tp, "gradient", body, (void *)d, &opt);
        for (int i = 0; i < 4; i++)
            expect_same(d->name, pure ? "captured, pure" : "captured",
                        tp_function_apply(f, 2, in), want);
        tp_function_free(f);
    }
}

/* By the reference; the other engines agree. */
static tp_tensor *of_graph(tp_ctx *tp, const difference *d, tp_tensor *const *in)
{
    static const char *const feeds[] = {"x", "a"}, *const fetches[] = {"dx"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_tensor *out[3];
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, d->rank, d->shape);
    tp_tensor *a = tp_placeholder(g, "a", TP_F32, TP_DIMS(LONG, tp_symbol(g, "n")));
    tp_name(gradient(d, x, a), "dx");
    for (int i = 0; i < 3; i++) {
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetches,
                                         &(tp_compile_options){.engine = engines[i]});
        assert_int_equal(tp_program_run(p, in, &out[i]), TP_OK);
        expect_same(d->name, tp_program_engine(p), out[i], out[0]);
    }
    return out[0];
}

static void each(void **state)
{
    tp_ctx *tp = *state;
    const float first[] = {1, 2, 3, 4};
    float column[LONG];
    for (int i = 0; i < LONG; i++)
        column[i] = (float)(i * 7919 % 1000) / 7;
    tp_tensor *a = tp_tensor_new(tp, TP_F32, TP_DIMS(LONG, 1), column);
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        const difference *d = &differences[i];
        tp_tensor *x = tp_require_grad(tp_tensor_new(tp, TP_F32, d->rank, d->shape, first));
        tp_tensor *in[] = {x, a}, *eager = gradient(d, x, a), *graph = of_graph(tp, d, in);
        float u[4], v[4];
        read_all(eager, u);
        read_all(graph, v);
        if (!d->differs(u[0], v[0]))
            fail_msg("%s: %a eagerly, %a in a graph", d->name, (double)u[0], (double)v[0]);
        captured(tp, d, in, eager);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
