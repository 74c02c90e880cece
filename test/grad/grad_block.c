/* Gradients through tp_if, tp_while and tp_for, of first to third order: those of graphs have the bits of
 * those of the same C code run on concrete tensors, and agree with finite differences. */
#include "common/same.h"
#include "common/unit.h"
#include "ir/body.h"
#include "ir/check.h"
#include "tapir/control.h"
#include "tapir/grad.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

enum { N = 3, TURNS = 5, MAX_IN = 4, ORDERS = 3 };

/* in: z [N, N], w [N, N], xs [TURNS, N, N], n (see each). One tensor comes back. */
typedef tp_tensor *(*model)(tp_tensor *const *in);

static int64_t turns_of(tp_tensor *const *in)
{
    return tp_dim(in[2], 0);
}

/* ---- models ------------------------------------------------------------------------------------ */

static tp_tensor *one_if(tp_tensor *const *in, double limit)
{
    tp_tensor *h = in[0];
    tp_if (tp_gt(tp_mean(in[0], TP_ALL, false), tp_scalar_like(in[0], limit)), &h) {
        h = tp_mul(tp_tanh(tp_matmul(h, in[1])), in[0]);
    }
    tp_else
    {
        h = tp_sin(tp_add(tp_mul(h, h), tp_matmul(in[1], h)));
    }
    return tp_mul(h, in[1]);
}

static tp_tensor *if_then(tp_tensor *const *in)
{
    return one_if(in, -10);
}

static tp_tensor *if_else(tp_tensor *const *in)
{
    return one_if(in, 10);
}

/* No else; two variables, one of which is left as it is; used before and after. */
static tp_tensor *if_alone(tp_tensor *const *in)
{
    tp_tensor *a = tp_sin(in[0]), *b = tp_mul(in[0], in[1]), *before = tp_mul(a, b);
    tp_if (tp_gt(tp_mean(in[0], TP_ALL, false), tp_scalar_like(in[0], -10)), &a, &b) {
        a = tp_mul(tp_exp(tp_mul(a, b)), a);
    }
    tp_if (tp_gt(tp_mean(in[0], TP_ALL, false), tp_scalar_like(in[0], 10)), &a, &b) {
        b = tp_tanh(a);
    }
    return tp_add(tp_mul(before, tp_add(a, b)), tp_mul(a, in[1]));
}

static tp_tensor *plain_for(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        z = tp_tanh(tp_add(tp_matmul(z, in[1]), z));
    }
    return z;
}

/* A recurrent cell over elements, with outputs at each turn. */
static tp_tensor *cell(tp_tensor *const *in, bool back)
{
    tp_tensor *h = in[0], *c = tp_mul(in[0], in[0]), *ys = NULL;
    if (back) {
        tp_for_back (turns_of(in), &h, &c) {
            tp_tensor *x = tp_each(in[2]);
            c = tp_add(tp_mul(tp_sigmoid(tp_matmul(x, in[1])), c), tp_sin(h));
            h = tp_tanh(tp_add(tp_matmul(h, in[1]), c));
            tp_emit(&ys, tp_mul(h, x));
        }
    } else {
        tp_for (turns_of(in), &h, &c) {
            tp_tensor *x = tp_each(in[2]);
            c = tp_add(tp_mul(tp_sigmoid(tp_matmul(x, in[1])), c), tp_sin(h));
            h = tp_tanh(tp_add(tp_matmul(h, in[1]), c));
            tp_emit(&ys, tp_mul(h, x));
        }
    }
    return tp_add(tp_sum(tp_square(ys), TP_DIMS(0), false), tp_mul(h, in[0]));
}

static tp_tensor *cell_forth(tp_tensor *const *in)
{
    return cell(in, false);
}

static tp_tensor *cell_back(tp_tensor *const *in)
{
    return cell(in, true);
}

/* The number of turns depends on values; the first value is captured too. */
static tp_tensor *by_value(tp_tensor *const *in)
{
    tp_tensor *z = in[0], *err = tp_sum(tp_abs(in[0]), TP_ALL, false);
    tp_while (tp_gt(err, tp_scalar_like(err, 1.2)), &z, &err) {
        z = tp_mul(tp_add(tp_mul(z, tp_tanh(in[1])), tp_mul(in[0], tp_scalar_like(z, 0.01))),
                   tp_scalar_like(z, 0.9));
        err = tp_sum(tp_abs(z), TP_ALL, false);
    }
    return tp_add(z, tp_mul(err, in[1]));
}

/* No turn is taken. */
static tp_tensor *never(tp_tensor *const *in)
{
    tp_tensor *z = tp_mul(in[0], in[1]), *err = tp_sum(tp_abs(in[0]), TP_ALL, false);
    tp_while (tp_gt(err, tp_scalar_like(err, 1e6)), &z, &err) {
        z = tp_mul(z, in[1]);
        err = tp_sum(tp_abs(z), TP_ALL, false);
    }
    return tp_add(z, tp_mul(err, in[1]));
}

/* Values change places; one is taken over as it is. */
static tp_tensor *swapped(tp_tensor *const *in)
{
    tp_tensor *a = in[0], *b = in[1], *c = tp_mul(in[0], in[1]);
    tp_for (turns_of(in), &a, &b, &c) {
        tp_tensor *t = a;
        a = tp_sin(tp_matmul(b, c));
        b = t;
    }
    return tp_add(tp_mul(a, b), c);
}

static tp_tensor *if_in_for(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        tp_tensor *x = tp_each(in[2]);
        tp_if (tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0)), &z) {
            z = tp_tanh(tp_matmul(z, tp_add(in[1], x)));
        }
        tp_else
        {
            z = tp_mul(tp_sin(z), x);
        }
        z = tp_add(z, tp_mul(in[0], in[1]));
    }
    return z;
}

static tp_tensor *for_in_if(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_if (tp_gt(tp_mean(z, TP_ALL, false), tp_scalar_like(z, -10)), &z) {
        tp_for (turns_of(in), &z) {
            z = tp_sin(tp_add(tp_matmul(z, in[1]), tp_each(in[2])));
        }
    }
    return tp_mul(z, in[0]);
}

static tp_tensor *for_in_for(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (2, &z) {
        tp_tensor *ys = NULL, *h = tp_mul(z, in[1]);
        tp_for (turns_of(in), &h) {
            h = tp_tanh(tp_add(tp_matmul(h, in[1]), tp_mul(tp_each(in[2]), z)));
            tp_emit(&ys, tp_mul(h, in[0]));
        }
        z = tp_add(tp_sum(ys, TP_DIMS(0), false), tp_sin(h));
    }
    return z;
}

/* The inner number of turns depends on values. */
static tp_tensor *while_in_for(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        tp_tensor *h = tp_add(z, tp_each(in[2])), *err = tp_sum(tp_abs(h), TP_ALL, false);
        tp_while (tp_gt(err, tp_scalar_like(err, 2)), &h, &err) {
            h = tp_mul(h, tp_sigmoid(tp_add(h, in[1])));
            err = tp_sum(tp_abs(h), TP_ALL, false);
        }
        z = tp_add(tp_sin(h), tp_mul(z, in[1]));
    }
    return z;
}

/* Elements, captures and carried values of one tensor. */
static tp_tensor *all_in_one(tp_tensor *const *in)
{
    tp_tensor *z = tp_sum(in[2], TP_DIMS(0), false), *w = tp_sum(in[2], TP_DIMS(0), false);
    tp_for (turns_of(in), &z) {
        z = tp_tanh(
            tp_add(tp_matmul(z, w), tp_mul(tp_each(in[2]), tp_sum(in[2], TP_DIMS(0), false))));
    }
    return tp_mul(tp_mul(z, in[0]), tp_mul(w, in[1]));
}

/* A gradient step inside the turn. */
static tp_tensor *descent(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        tp_tensor *loss = tp_sum(tp_square(tp_sub(tp_sin(tp_matmul(z, in[1])), tp_each(in[2]))),
                                 TP_ALL, false);
        z = tp_sub(z, tp_mul(tp_grad(loss, z), tp_scalar_like(z, 0.1)));
    }
    return z;
}

static tp_tensor *checkpointed(tp_tensor *const *in)
{
    tp_tensor *z = in[0], *ys = NULL;
    tp_for (turns_of(in), &z) {
        tp_checkpoint(tp_ctx_of(in[0]));
        z = tp_tanh(tp_add(tp_matmul(z, in[1]), tp_each(in[2])));
        tp_emit(&ys, tp_sin(z));
    }
    return tp_add(z, tp_sum(ys, TP_DIMS(0), false));
}

/* Random numbers in a side, and in the turns of two loops, are drawn once. */
static tp_tensor *noisy(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        tp_if (tp_gt(tp_mean(tp_each(in[2]), TP_ALL, false), tp_scalar_like(z, 0)), &z) {
            z = tp_mul(tp_matmul(z, in[1]), tp_uniform_like(z, 0, 1));
        }
        tp_else
        {
            z = tp_sin(tp_mul(z, tp_uniform_like(z, -1, 1)));
        }
        tp_for (2, &z) {
            z = tp_tanh(tp_add(tp_mul(z, tp_uniform_like(z, 0, 1)), tp_mul(z, in[1])));
        }
    }
    return z;
}

/* With respect to a tensor from outside, through its param. */
static tp_tensor *outer_grad(tp_tensor *const *in)
{
    tp_tensor *z = in[0];
    tp_for (turns_of(in), &z) {
        tp_tensor *y = tp_sum(tp_sin(tp_mul(in[1], tp_each(in[2]))), TP_ALL, false);
        z = tp_add(tp_mul(z, tp_grad(y, in[1])), tp_mul(in[1], in[0]));
    }
    return z;
}

static const struct {
    const char *name;
    model f;
} models[] = {
    {"if_then",      if_then     },
    {"if_else",      if_else     },
    {"if_alone",     if_alone    },
    {"plain_for",    plain_for   },
    {"cell_forth",   cell_forth  },
    {"cell_back",    cell_back   },
    {"by_value",     by_value    },
    {"never",        never       },
    {"swapped",      swapped     },
    {"if_in_for",    if_in_for   },
    {"for_in_if",    for_in_if   },
    {"for_in_for",   for_in_for  },
    {"while_in_for", while_in_for},
    {"all_in_one",   all_in_one  },
    {"descent",      descent     },
    {"checkpointed", checkpointed},
    {"noisy",        noisy       },
    {"outer_grad",   outer_grad  },
};
enum { N_MODELS = sizeof models / sizeof *models, N_IN = 3 };

/* ---- all orders of one model ------------------------------------------------------------------ */

/* y, its gradients, those of the sum of their squares, ...: out[1 + ORDERS * N_IN]. */
static int derive(model f, int orders, tp_tensor *const *in, tp_tensor **out)
{
    int n = 0;
    tp_tensor *y = f(in);
    out[n++] = y;
    tp_tensor *loss = tp_sum(y, TP_ALL, false);
    for (int order = 0; order < orders; order++) {
        tp_tensor **dx = out + n;
        if (tp_grads(loss, NULL, N_IN, in, dx) != TP_OK)
            return n;
        n += N_IN;
        loss = tp_sum(tp_square(dx[0]), TP_ALL, false);
        for (int i = 1; i < N_IN; i++)
            loss = tp_add(loss, tp_sum(tp_square(dx[i]), TP_ALL, false));
    }
    return n;
}

static void draw(tp_ctx *tp, tp_dtype dtype, int64_t turns, tp_tensor **in)
{
    in[0] = tp_require_grad(tp_uniform(tp, dtype, TP_DIMS(N, N), -1, 1));
    in[1] = tp_require_grad(tp_uniform(tp, dtype, TP_DIMS(N, N), -1, 1));
    in[2] = tp_require_grad(tp_uniform(tp, dtype, TP_DIMS(turns, N, N), -1, 1));
}

static void expect_bits(const char *name, int i, tp_tensor *want, tp_tensor *got)
{
    char why[400];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("%s, result %d (order %d): the graph against eager: %s", name, i,
                 i ? (i - 1) / N_IN + 1 : 0, why);
}

static double at(tp_tensor *t, int64_t k)
{
    const void *p = tp_data(tp_contiguous(t));
    return tp_dtype_of(t) == TP_F32 ? (double)((const float *)p)[k] : ((const double *)p)[k];
}

/* The graph of all results, with the leading size of xs a symbol when `symbolic`. */
static tp_graph *build(tp_ctx *tp, model f, tp_dtype dtype, int orders, bool symbolic,
                       int64_t turns, int *n, char names[][16])
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[N_IN], *out[1 + ORDERS * N_IN];
    const int64_t t = symbolic ? tp_symbol(g, "t") : turns;
    in[0] = tp_placeholder(g, "z", dtype, TP_DIMS(N, N));
    in[1] = tp_placeholder(g, "w", dtype, TP_DIMS(N, N));
    in[2] = tp_placeholder(g, "xs", dtype, TP_DIMS(t, N, N));
    *n = derive(f, orders, in, out);
    assert_string_equal(tp_error_message(tp), "");
    for (int i = 0; i < *n; i++) {
        snprintf(names[i], 16, "o%d", i);
        tp_tensor *o = tp_add(out[i], tp_scalar_like(out[i], -0.0)); /* a name of its own */
        assert_false(tp_failed(tp_name(o, names[i])));
    }
    return g;
}

static void compare(tp_ctx *tp, int k, tp_dtype dtype, bool symbolic, int64_t turns)
{
    tp_tensor *in[N_IN], *want[1 + ORDERS * N_IN], *got[1 + ORDERS * N_IN];
    char names[1 + ORDERS * N_IN][16];
    tp_scope_begin(tp);
    draw(tp, dtype, turns, in);
    int n;
    tp_seed(tp, 11);
    assert_int_equal(derive(models[k].f, ORDERS, in, want), 1 + ORDERS * N_IN);
    tp_graph *g = build(tp, models[k].f, dtype, ORDERS, symbolic, turns, &n, names);
    assert_int_equal(n, 1 + ORDERS * N_IN);
    assert_int_equal(tp_graph_verify(g), TP_OK);
    const char *feeds[] = {"z", "w", "xs"}, *fetch[1 + ORDERS * N_IN];
    for (int i = 0; i < n; i++)
        fetch[i] = names[i];
    tp_program *p = tp_graph_compile(g, N_IN, feeds, n, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    assert_string_equal(tp_error_message(tp), "");
    tp_seed(tp, 11);
    assert_int_equal(tp_program_run(p, in, got), TP_OK);
    for (int i = 0; i < n; i++)
        expect_bits(models[k].name, i, want[i], got[i]);
    tp_program_free(p);
    tp_graph_free(g);
    tp_scope_end(tp);
}

static void test_bits(void **state)
{
    tp_ctx *tp = *state;
    const char *only = getenv("MODEL");
    for (int k = 0; k < N_MODELS; k++) {
        if (only && strcmp(only, models[k].name) != 0)
            continue;
        tp_seed(tp, 3);
        compare(tp, k, TP_F32, false, TURNS);
        compare(tp, k, TP_F64, true, TURNS);
        compare(tp, k, TP_F32, true, 1);
    }
}

/* ---- finite differences ----------------------------------------------------------------------- */

/* What is differentiated to get the gradients of this order. */
static double loss_of(model f, int order, tp_tensor *const *in)
{
    tp_tensor *out[1 + ORDERS * N_IN];
    derive(f, order - 1, in, out);
    if (order == 1)
        return at(tp_sum(out[0], TP_ALL, false), 0);
    double sum = 0;
    for (int i = 0; i < N_IN; i++)
        sum += at(tp_sum(tp_square(out[1 + (order - 2) * N_IN + i]), TP_ALL, false), 0);
    return sum;
}

/* in[i] with element k moved by `by`, in[]'s others as they are. */
static double moved(tp_ctx *tp, model f, int order, tp_tensor *const *in, int i, int64_t k,
                    double by)
{
    tp_tensor *other[N_IN];
    memcpy(other, in, sizeof other);
    double v[64];
    assert_true(tp_count(in[i]) <= 64);
    assert_int_equal(tp_read(in[i], v, sizeof *v * (size_t)tp_count(in[i])), TP_OK);
    v[k] += by;
    int64_t shape[TP_MAX_RANK];
    for (int a = 0; a < tp_rank(in[i]); a++)
        shape[a] = tp_size(in[i], a);
    other[i] = tp_require_grad(tp_tensor_new(tp, TP_F64, tp_rank(in[i]), shape, v));
    return loss_of(f, order, other);
}

static void test_differences(void **state)
{
    tp_ctx *tp = *state;
    const double h = 1e-5;
    for (int m = 0; m < N_MODELS; m++) {
        if (models[m].f == noisy)
            continue; /* draws other numbers each time */
        tp_seed(tp, 5);
        for (int order = 1; order <= ORDERS; order++) {
            tp_scope_begin(tp);
            tp_tensor *in[N_IN], *out[1 + ORDERS * N_IN];
            draw(tp, TP_F64, 3, in);
            derive(models[m].f, order, in, out);
            for (int i = 0; i < N_IN; i++) {
                tp_tensor *dx = out[1 + (order - 1) * N_IN + i];
                const int64_t k = (order * 5 + i) % tp_count(dx);
                const double want = (moved(tp, models[m].f, order, in, i, k, h) -
                                     moved(tp, models[m].f, order, in, i, k, -h)) /
                                    (2 * h);
                const double got = at(dx, k);
                if (fabs(want - got) > 1e-4 * (1 + fabs(want)))
                    fail_msg("%s, order %d, input %d, element %d: %.9g, by differences %.9g",
                             models[m].name, order, i, (int)k, got, want);
            }
            tp_scope_end(tp);
        }
    }
}

/* ---- checkpoints ------------------------------------------------------------------------------- */

static bool keeps_some; /* ask for it */

static tp_tensor *long_loop(tp_tensor *const *in, bool back)
{
    tp_tensor *z = in[0], *c = in[1], *ys = NULL;
    tp_ctx *tp = tp_ctx_of(z);
    if (back) {
        tp_for_back (turns_of(in), &z, &c) {
            if (keeps_some)
                tp_checkpoint(tp);
            c = tp_sin(tp_add(c, tp_cast(tp_turn(tp), tp_dtype_of(z))));
            z = tp_tanh(tp_add(tp_matmul(z, in[1]), tp_mul(tp_each(in[2]), c)));
            tp_emit(&ys, tp_mul(z, in[0]));
        }
    } else {
        tp_for (turns_of(in), &z, &c) {
            if (keeps_some)
                tp_checkpoint(tp);
            c = tp_sin(tp_add(c, tp_cast(tp_turn(tp), tp_dtype_of(z))));
            z = tp_tanh(tp_add(tp_matmul(z, in[1]), tp_mul(tp_each(in[2]), c)));
            tp_emit(&ys, tp_mul(z, in[0]));
        }
    }
    return tp_add(tp_mul(z, c), tp_sum(ys, TP_DIMS(0), false));
}

static tp_tensor *long_forth(tp_tensor *const *in)
{
    return long_loop(in, false);
}

static tp_tensor *long_back(tp_tensor *const *in)
{
    return long_loop(in, true);
}

/* Runs the first gradients and compares them; the bytes of the arena. */
static int64_t run_long(tp_ctx *tp, model f, bool symbolic, int64_t turns, tp_engine engine)
{
    tp_tensor *in[N_IN], *want[1 + N_IN], *got[1 + N_IN];
    char names[1 + ORDERS * N_IN][16];
    const char *feeds[] = {"z", "w", "xs"}, *fetch[1 + N_IN];
    tp_scope_begin(tp);
    draw(tp, TP_F32, turns, in);
    derive(f, 1, in, want);
    int n;
    tp_graph *g = build(tp, f, TP_F32, 1, symbolic, turns, &n, names);
    for (int i = 0; i < n; i++)
        fetch[i] = names[i];
    tp_program *p =
        tp_graph_compile(g, N_IN, feeds, n, fetch, &(tp_compile_options){.engine = engine});
    assert_string_equal(tp_error_message(tp), "");
    assert_int_equal(tp_program_run(p, in, got), TP_OK);
    for (int i = 0; i < n; i++)
        expect_bits(f == long_back ? "back" : "forth", i, want[i], got[i]);
    const int64_t bytes = tp_program_stats_of(p).arena_bytes;
    tp_program_free(p);
    tp_graph_free(g);
    tp_scope_end(tp);
    return bytes;
}

static void test_checkpoint(void **state)
{
    tp_ctx *tp = *state;
    static const int64_t turns[] = {1, 3, 4, 15, 16, 17, 36, 100};
    keeps_some = true;
    for (int i = 0; i < (int)(sizeof turns / sizeof *turns); i++)
        for (int back = 0; back < 2; back++) {
            const model f = back ? long_back : long_forth;
            run_long(tp, f, true, turns[i], TP_ENGINE_REFERENCE);
            run_long(tp, f, false, turns[i], TP_ENGINE_REFERENCE);
        }
    const int64_t some = run_long(tp, long_forth, false, 1600, TP_ENGINE_C);
    keeps_some = false;
    const int64_t all = run_long(tp, long_forth, false, 1600, TP_ENGINE_C);
    if (some * 2 > all)
        fail_msg("checkpoints: an arena of %lld bytes, without %lld", (long long)some,
                 (long long)all);
}

/* ---- inside a body ------------------------------------------------------------------------------ */

static void test_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(N)), *z = tp_sin(x);
    tp_for (3, &z) { /* z depends on x in the turns before */
        z = tp_grad(tp_sum(tp_mul(z, x), TP_ALL, false), x);
    }
    assert_true(tp_failed(z));
    EXPECT_ERROR(
        tp, TP_E_STATE,
        "x 0 is outside of the block, and y may depend on it through a carried value or "
        "another operand of the block: tp_detach these, or list x among the block's "
        "variables");
    tp_tensor *h = tp_sin(x);
    z = x;
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0)), &z) { /* h is x's too */
        z = tp_grad(tp_sum(tp_mul(h, x), TP_ALL, false), x);
    }
    assert_true(tp_failed(z));
    tp_clear_error(tp);
    z = x;
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0)), &z) {
        z = tp_grad(tp_sum(tp_mul(tp_detach(h), tp_square(x)), TP_ALL, false), x);
    }
    assert_false(tp_failed(z));
    assert_int_equal(tp_graph_verify(g), TP_OK);
}

/* h after n turns of a loop of run-time length, twice; `draws`: times a random number. */
static tp_tensor *inner_loops(tp_tensor *v, tp_tensor *n, bool draws)
{
    tp_tensor *h = v;
    tp_for (2, &h) {
        tp_tensor *i = n;
        tp_while (tp_gt(i, tp_scalar_like(i, 0)), &h, &i) {
            h = tp_mul(tp_sin(h), draws ? tp_uniform(v->ctx, TP_F32, TP_DIMS(N), 0, 1) : v);
            i = tp_sub(i, tp_scalar_like(i, 1));
        }
    }
    return tp_mean(h, TP_ALL, false);
}

static tp_program *inner_program(tp_graph *g)
{
    return tp_graph_compile(g, TP_NAMES("v", "n"), TP_NAMES("dv"),
                            &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
}

/* What the outer loop keeps of the inner one has sizes that only its turns know: such a graph is printed,
 * read, and run as any other; random numbers cannot be computed again. */
static void test_kept_inside(void **state)
{
    tp_ctx *tp = *state;
    for (int draws = 0; draws < 2; draws++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *v = tp_placeholder(g, "v", TP_F32, TP_DIMS(N));
        tp_tensor *n = tp_placeholder(g, "n", TP_I64, TP_SCALAR);
        tp_name(tp_grad(inner_loops(v, n, draws), v), "dv");
        assert_int_equal(tp_error(tp), TP_OK);
        assert_int_equal(tp_graph_verify(g), TP_OK);
        char *text = tp_graph_text(g);
        assert_non_null(strstr(text, "f32[2,turns,3]"));
        tp_graph *again = tp_graph_parse(tp, text, strlen(text));
        assert_non_null(again);
        char *second = tp_graph_text(again);
        assert_string_equal(text, second);
        tp_program *p = inner_program(again);
        if (draws) {
            assert_null(p);
            EXPECT_ERROR(tp, TP_E_STATE, "draw them outside of the inner one");
        } else {
            const float at[N] = {0.1f, 0.7f, -0.4f};
            tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(N), at),
                               tp_scalar(tp, TP_I64, 3)};
            tp_tensor *out[1], *x = tp_require_grad(in[0]);
            assert_int_equal(tp_program_run(p, in, out), TP_OK);
            tp_tensor *want = tp_grad(inner_loops(x, in[1], false), x);
            assert_memory_equal(tp_data(out[0]), tp_data(tp_detach(want)), sizeof at);
            tp_program_free(p);
        }
        tp_free(tp, text);
        tp_free(tp, second);
        tp_graph_free(again);
        tp_graph_free(g);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* Fails one allocation after the other while gradients are taken and compiled. */
static void test_memory(void **state)
{
    tp_ctx *tp = *state;
    unit_memory *m = tp->mem.user.user;
    static const model f[] = {if_alone, cell_forth, while_in_for, long_forth};
    keeps_some = true;
    for (int k = 0; k < 4; k++) {
        bool done = false;
        for (long at_call = 1; !done && at_call < 100000; at_call += 1 + at_call / 7) {
            tp_scope_begin(tp);
            tp_graph *g = tp_graph_new(tp);
            tp_tensor *in[N_IN], *out[1 + ORDERS * N_IN];
            const int64_t t = tp_symbol(g, "t");
            in[0] = tp_placeholder(g, "z", TP_F32, TP_DIMS(N, N));
            in[1] = tp_placeholder(g, "w", TP_F32, TP_DIMS(N, N));
            in[2] = tp_placeholder(g, "xs", TP_F32, TP_DIMS(t, N, N));
            assert_int_equal(tp_error(tp), TP_OK);
            m->fail_at = m->calls + at_call;
            const int n = derive(f[k], 2, in, out);
            tp_program *p = NULL;
            if (n == 1 + 2 * N_IN && !tp_failed(out[n - 1])) {
                tp_name(out[n - 1], "y");
                p = tp_graph_compile(g, TP_NAMES("z", "w", "xs"), TP_NAMES("y"),
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
            }
            done = m->calls < m->fail_at;
            m->fail_at = 0;
            if (done)
                assert_non_null(p);
            else if (!p)
                assert_int_equal(tp_error(tp), TP_E_MEMORY);
            tp_clear_error(tp);
            tp_program_free(p);
            tp_graph_free(g);
            tp_scope_end(tp);
        }
        assert_true(done);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(test_bits),        CASE(test_differences),
                                              CASE(test_checkpoint),  CASE(test_refused),
                                              CASE(test_kept_inside), CASE(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
