/* Gradients where conventions differ: at ties, zeros, infinities and NaN, of nothing and of scalars, of repeated
 * places, of branches not taken. Those of first, second and third order are PyTorch's, as values (corners.def,
 * which corners.py writes), but where docs/numerics.md says otherwise. Every mode gives them, with the
 * bits of the eager one.
 *
 *     grad_corners                 eagerly, captured, by each engine
 *     grad_corners alone [all]     as a C file that stands alone, of one compiler or all; 77: there is none */
#include "common/alone.h"
#include "common/same.h"
#include "common/unit.h"

#include <math.h>

enum { MOST = 6, MOST_IN = 2, MOST_RANK = 3, ORDERS = 3, MOST_OUT = ORDERS * MOST_IN };

typedef struct corner {
    const char *name;
    tp_tensor *(*fn)(tp_tensor *a, tp_tensor *b);
    int n_in, rank[MOST_IN];
    int64_t shape[MOST_IN][MOST_RANK];
    double x[MOST_IN][MOST], gradient[ORDERS][MOST_IN][MOST];
} corner;

/* ---- what the expressions call ----------------------------------------------------------------- */

#define WINDOW(...) (&(const tp_window){__VA_ARGS__})

/* Indices for what has to do with x. */
static tp_tensor *places(tp_tensor *x, int n, const int64_t *v)
{
    tp_tensor *t = tp_tensor_new(tp_ctx_of(x), TP_I64, TP_DIMS(n), v);
    return tp_graph_of(x) ? tp_graph_read(tp_graph_of(x), t) : t;
}

static tp_tensor *number(tp_tensor *x, double value)
{
    return tp_scalar_like(x, value);
}

static tp_tensor *first(tp_tensor *x, tp_tensor *unused)
{
    (void)unused;
    return x;
}

static tp_tensor *variance(tp_tensor *x)
{
    return tp_mean(tp_square(tp_sub(x, tp_mean(x, TP_ALL, false))), TP_ALL, false);
}

static tp_tensor *pad(tp_tensor *x, int64_t lo, int64_t hi, double value)
{
    return tp_pad(x, 1, &lo, &hi, value);
}

static tp_tensor *join(tp_tensor *a, tp_tensor *b)
{
    return tp_concat(2, (tp_tensor *[]){a, b}, 0);
}

static tp_tensor *part(tp_tensor *x, int n, const int64_t *sizes, int which)
{
    tp_tensor *out[2];
    tp_split(x, 0, n, sizes, out);
    return out[which];
}

#define CORNER(number, name, expression, ...)                                                  \
    static tp_tensor *corner_##number(tp_tensor *a, tp_tensor *b)                              \
    {                                                                                          \
        (void)a;                                                                               \
        (void)b;                                                                               \
        return expression;                                                                     \
    }
#include "corners.def"
#undef CORNER

#define CORNER(number, name, expression, ...) {name, corner_##number, __VA_ARGS__},
static const corner corners[] = {
#include "corners.def"
};
#undef CORNER
enum { N_CORNERS = sizeof corners / sizeof *corners };

/* ---- ways ---------------------------------------------------------------------------------------- */

/* The gradients of the sum, then of the sum of these, and once more. */
static void gradients(const corner *c, tp_tensor *const *x, tp_tensor **out)
{
    tp_tensor *sum = tp_sum(c->fn(x[0], x[1]), TP_ALL, false);
    for (int order = 0; order < ORDERS; order++, out += c->n_in) {
        tp_grads(sum, NULL, c->n_in, x, out);
        sum = tp_sum(out[0], TP_ALL, false);
        for (int i = 1; i < c->n_in; i++)
            sum = tp_add(sum, tp_sum(out[i], TP_ALL, false));
    }
}

static void operands(tp_ctx *tp, const corner *c, tp_tensor **x)
{
    for (int i = 0; i < MOST_IN; i++)
        x[i] = i < c->n_in ? tp_tensor_new(tp, TP_F64, c->rank[i], c->shape[i], c->x[i]) : NULL;
}

static void eagerly(tp_ctx *tp, const corner *c, tp_tensor **out)
{
    tp_tensor *x[MOST_IN];
    operands(tp, c, x);
    for (int i = 0; i < c->n_in; i++)
        tp_require_grad(x[i]);
    gradients(c, x, out);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_out;
    gradients(user, (tp_tensor *const[MOST_IN]){in[0], n_in > 1 ? in[1] : NULL}, out);
}

static void captured(tp_ctx *tp, const corner *c, tp_tensor **out)
{
    tp_function *f = tp_function_new(tp, c->name, body, (void *)(uintptr_t)c,
                                     &(tp_function_options){.engine = TP_ENGINE_TILES});
    for (int run = 0; run < 3; run++) { /* recorded, then replayed */
        tp_tensor *x[MOST_IN];
        operands(tp, c, x);
        for (int i = 0; i < c->n_in; i++)
            tp_require_grad(x[i]);
        assert_int_equal(tp_function_call(f, c->n_in, x, ORDERS * c->n_in, out), TP_OK);
    }
}

/* All corners in one graph. */
typedef struct whole {
    tp_graph *g;
    int n_in, n_out;
    const char *in[N_CORNERS * MOST_IN], *out[N_CORNERS * MOST_OUT];
    tp_tensor *feeds[N_CORNERS * MOST_IN], *results[N_CORNERS * MOST_OUT];
    char names[N_CORNERS * (MOST_IN + MOST_OUT)][32];
} whole;

static void make_whole(tp_ctx *tp, whole *w)
{
    *w = (whole){.g = tp_graph_new(tp)};
    char(*name)[32] = w->names;
    for (int i = 0; i < N_CORNERS; i++) {
        const corner *c = &corners[i];
        tp_tensor *x[MOST_IN] = {NULL}, *out[MOST_OUT];
        operands(tp, c, w->feeds + w->n_in);
        for (int k = 0; k < c->n_in; k++, name++) {
            snprintf(*name, sizeof *name, "x%d_%d", i, k);
            w->in[w->n_in++] = *name;
            x[k] = tp_placeholder(w->g, *name, TP_F64, c->rank[k], c->shape[k]);
        }
        gradients(c, x, out);
        for (int k = 0; k < ORDERS * c->n_in; k++, name++) {
            snprintf(*name, sizeof *name, "y%d_%d", i, k);
            w->out[w->n_out++] = *name;
            tp_name(out[k], *name);
        }
    }
}

/* ---- comparison ------------------------------------------------------------------------------------ */

static bool is_near(double got, double want)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 1e-12 * (1 + fabs(want));
}

/* How many elements are not the table's. */
static int n_wrong(const corner *c, tp_tensor *const *out)
{
    int bad = 0;
    for (int k = 0; k < ORDERS * c->n_in; k++) {
        const int i = k % c->n_in, order = k / c->n_in;
        double got[MOST];
        if (tp_failed(out[k]) ||
            tp_read(out[k], got, sizeof(double) * (size_t)tp_count(out[k])))
            fail_msg("%s: %s", c->name, tp_error_text(out[k]));
        for (int e = 0; e < tp_count(out[k]); e++)
            if (!is_near(got[e], c->gradient[order][i][e])) {
                print_error("%s: gradient[%d] of operand %d, element %d, is %.17g, not %.17g\n",
                            c->name, order, i, e, got[e], c->gradient[order][i][e]);
                bad++;
            }
    }
    return bad;
}

/* How many tensors differ from the eager ones in their bits. */
static int n_other(const corner *c, const char *way, tp_tensor *const *out,
                   tp_tensor *const *eager)
{
    int bad = 0;
    char why[400];
    for (int k = 0; k < ORDERS * c->n_in; k++)
        if (!same_tensors(out[k], eager[k], SAME_ZEROS_EQUAL, why, sizeof why)) {
            print_error("%s, %s: gradient[%d] of operand %d: %s\n", c->name, way, k / c->n_in,
                        k % c->n_in, why);
            bad++;
        }
    return bad;
}

static void every_way(void **state)
{
    (void)state;
    static const char *const engines[] = {"auto", "reference", "C", "tiles"};
    static tp_tensor *eager[N_CORNERS][MOST_OUT];
    static whole w;
    tp_ctx *tp = tp_open(NULL);
    int bad = 0;
    for (int i = 0; i < N_CORNERS; i++) {
        const corner *c = &corners[i];
        tp_tensor *out[MOST_OUT];
        eagerly(tp, c, eager[i]);
        bad += n_wrong(c, eager[i]);
        captured(tp, c, out);
        bad += n_other(c, "captured", out, eager[i]);
    }
    make_whole(tp, &w);
    for (int e = TP_ENGINE_REFERENCE; e <= TP_ENGINE_TILES; e++) {
        tp_program *p = tp_graph_compile(w.g, w.n_in, w.in, w.n_out, w.out,
                                         &(tp_compile_options){.engine = (tp_engine)e});
        if (!p || tp_program_run(p, w.feeds, w.results) != TP_OK)
            fail_msg("%s: %s", engines[e], tp_error_message(tp));
        for (int i = 0, at = 0; i < N_CORNERS; at += ORDERS * corners[i++].n_in)
            bad += n_other(&corners[i], engines[e], w.results + at, eager[i]);
    }
    tp_close(tp);
    print_message("%d corners\n", (int)N_CORNERS);
    assert_int_equal(bad, 0);
}

/* ---- what is assigned, and what has no gradients ------------------------------------------------------ */

static void is_row(tp_tensor *t, double first, double second)
{
    double got[2] = {0};
    if (tp_read(t, got, sizeof got) != TP_OK || got[0] != first || got[1] != second)
        fail_msg("%.17g %.17g, not %.17g %.17g; %s", got[0], got[1], first, second,
                 tp_failed(t) ? tp_error_text(t) : "");
}

static void is_refused(tp_tensor *t, const char *words)
{
    if (!tp_failed(t) || !strstr(tp_error_text(t), words))
        fail_msg("'%s' is not in '%s'", words, tp_error_text(t));
}

/* PyTorch counts writes too, and refuses a gradient that needs what was written over. */
static void test_assigned(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), (double[]){2, 3}), "v");
    tp_tensor *other = tp_tensor_new(tp, TP_F64, TP_DIMS(2), (double[]){5, 7});
    tp_tensor *square = tp_mul(v, v), *sum = tp_add(v, v), *quotient = tp_div(other, v);
    is_row(tp_grad(square, v), 4, 6);
    tp_assign(v, other);
    is_row(square, 4, 9);
    is_refused(tp_grad(square, v), "take the gradient before the assignment");
    is_refused(tp_grad(quotient, v),
               "div: operand 1 v was assigned"); /* not what failed first */
    is_row(tp_grad(sum, v), 2, 2);               /* needs no value */
    is_row(tp_grad(tp_mul(v, v), v), 10, 14);
    tp_tensor *view = tp_select(v, 0, 0), *of_view = tp_add(view, other);
    tp_assign(view, number(v, 11)); /* of a view, into what it is of */
    is_row(v, 11, 7);
    is_row(of_view, 10, 12);
    is_row(tp_grad(of_view, v), 2, 0);
    is_row(tp_grad(tp_mul(tp_select(v, 0, 0), v), v), 29, 11);
    tp_assign(v, tp_mul(v, v)); /* from itself */
    is_row(tp_grad(tp_mul(v, v), v), 242, 98);
}

/* Gradients add up, of one sweep after the other; nothing is kept of what is not recorded. */
static void test_added(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), (double[]){2, 3}), "v");
    tp_tensor *square = tp_mul(v, v);
    is_row(tp_grad_of(v), 0, 0);
    assert_int_equal(tp_backward(square), TP_OK);
    tp_tensor *first = tp_grad_of(v);
    assert_int_equal(tp_backward(square), TP_OK);
    is_row(first, 4, 6);
    is_row(tp_grad_of(v), 8, 12);
    tp_zero_grad(v);
    is_row(tp_grad_of(v), 0, 0);
    tp_recording(tp, false);
    tp_tensor *unrecorded = tp_mul(v, v);
    tp_recording(tp, true);
    is_row(tp_grad(unrecorded, v), 0, 0);
}

static void test_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v = tp_param(tp_tensor_new(tp, TP_F64, TP_DIMS(2), (double[]){2, 3}), "v");
    static const char words[] = "gradients are for f32 and f64";
    is_refused(tp_require_grad(tp_cast(v, TP_I64)), words);
    is_refused(tp_require_grad(tp_gt(v, number(v, 2))), words);
    is_refused(tp_grad(tp_cast(v, TP_I64), v), words);
    is_refused(tp_grad(tp_gt(v, number(v, 2)), v), words);
    is_refused(tp_grad(tp_argmax(v, 0, false), v), words);
    is_refused(tp_grad(v, tp_scalar_like(v, 1)), "require");
    is_refused(tp_dropout(v, 1), "[0, 1)");
}

static int stand_alone(bool all)
{
    static whole w;
    tp_ctx *tp = tp_open(NULL);
    make_whole(tp, &w);
    const alone a = {
        .dir = ".",
        .name = "corners",
        .tp = tp,
        .g = w.g,
        .n_in = w.n_in,
        .in = w.in,
        .n_out = w.n_out,
        .out = w.out,
        .n_sets = 1,
        .feeds = w.feeds,
    };
    bool ok = alone_write(&a), tried = false;
    for (const alone_target *t = alone_hosts; ok && t->name && (all || !tried); t++)
        if (alone_has(t)) {
            tried = true;
            ok = alone_try(".", "corners", t);
        }
    tp_close(tp);
    if (ok && !tried)
        puts("there is no compiler");
    return !ok ? 1 : tried ? 0 : 77;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        return stand_alone(argc > 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way), CASE(test_assigned),
                                       CASE(test_added), CASE(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
