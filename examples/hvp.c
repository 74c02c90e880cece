/* Derivatives of derivatives, each a plain C function over tp_grad:
 *
 *     Hessian-vector product    of a net's loss to its weights
 *     gradient penalty          mean((|dD/dx| - 1)^2) of a critic D, and its gradient to the weights
 *     PINN Laplacian            u_xx + u_yy of a net u(x, y), and the gradient of a loss on it: the
 *                               third order
 *     through a loop            the same products of a recurrent net, its loop a C `for` or a tp_for:
 *                               second and third order
 *     through a fixed point     z = tanh(W z / 2 + x) until it stands still: a C `while` or a tp_while
 *
 * Each is run eagerly, captured, declared pure (but for the while, whose gradient is another
 * one for each number of turns), and as a static graph (but for loops of C): the bits are the same.
 * The derivatives are held against differences of what they are derivatives of.
 *
 *     hvp [--engine reference|tiles|auto|c] [--times] */
#include "forms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HIDDEN = 6, ROWS = 5, STATE = 4, LENGTH = 6, CALLS = 12, MOST = 128 };

#define BODY(name)                                                                             \
    static void name(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
#define UNUSED (void)user, (void)n_in, (void)n_out

/* A tensor that gradients may be asked of; in a graph any is. */
static tp_tensor *asked(tp_tensor *x)
{
    return tp_require_grad(tp_detach(x));
}

static tp_tensor *total(tp_tensor *x)
{
    return tp_sum(x, TP_ALL, false);
}

static tp_tensor *dot(tp_tensor *a, tp_tensor *b)
{
    return total(tp_mul(a, b));
}

/* ---- nets of two layers: arguments w1 [2, HIDDEN], w2 [HIDDEN, 1], directions v1, v2 of the same
 * sizes, x [ROWS, 2]; all f64 ---------------------------------------------------------------- */

static void net_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    const uint64_t seed = (uint64_t)call * 8;
    for (int i = 0; i < 4; i += 2) {
        in[i] = drawn(tp, seed + (uint64_t)i, TP_F64, TP_DIMS(2, HIDDEN), -1, 1);
        in[i + 1] = drawn(tp, seed + (uint64_t)i + 1, TP_F64, TP_DIMS(HIDDEN, 1), -1, 1);
    }
    in[4] = drawn(tp, seed + 4, TP_F64, TP_DIMS(ROWS, 2), -1, 1);
}

static tp_tensor *net(tp_tensor *x, tp_tensor *w1, tp_tensor *w2)
{
    return tp_matmul(tp_tanh(tp_matmul(x, w1)), w2);
}

/* What x is mapped to: the product of its columns. */
static tp_tensor *target(tp_tensor *x)
{
    return tp_prod(x, TP_DIMS(1), true);
}

/* loss, its gradients g1, g2, and H v */
BODY(hvp)
{
    UNUSED;
    tp_tensor *const w[2] = {asked(in[0]), asked(in[1])};
    out[0] = tp_mse(net(in[4], w[0], w[1]), target(in[4]));
    tp_grads(out[0], NULL, 2, w, out + 1);
    tp_tensor *along = tp_add(dot(out[1], in[2]), dot(out[2], in[3]));
    tp_grads(along, NULL, 2, w, out + 3);
}

/* the penalty, its gradients to w1 and w2, and how it changes along v */
BODY(penalty)
{
    UNUSED;
    tp_tensor *const w[2] = {asked(in[0]), asked(in[1])}, *x = asked(in[4]);
    tp_tensor *g = tp_grad(net(x, w[0], w[1]), x);
    tp_tensor *size = tp_sqrt(tp_sum(tp_square(g), TP_DIMS(1), false));
    out[0] = tp_mean(tp_square(tp_sub(size, 1)), TP_ALL, false);
    tp_grads(out[0], NULL, 2, w, out + 1);
    out[3] = tp_add(dot(out[1], in[2]), dot(out[2], in[3]));
}

static tp_tensor *laplacian(tp_tensor *u, tp_tensor *x)
{
    tp_tensor *g = tp_grad(u, x), *sum = NULL;
    for (int i = 0; i < 2; i++) {
        tp_tensor *gi = tp_select(g, 1, i); /* a row's gradient depends on that row alone */
        tp_tensor *gii = tp_select(tp_grad(gi, x), 1, i);
        sum = sum ? tp_add(sum, gii) : gii;
    }
    return sum;
}

/* the loss of u_xx + u_yy = -sin(x) on w, its gradients, how it changes along v, the Laplacian */
BODY(pinn)
{
    UNUSED;
    tp_tensor *const w[2] = {asked(in[0]), asked(in[1])}, *x = asked(in[4]);
    out[4] = laplacian(net(x, w[0], w[1]), x);
    out[0] = tp_mse(out[4], tp_neg(tp_sin(tp_select(x, 1, 0))));
    tp_grads(out[0], NULL, 2, w, out + 1);
    out[3] = tp_add(dot(out[1], in[2]), dot(out[2], in[3]));
}

/* ---- through loops: w, v [STATE, STATE], x [LENGTH, STATE]; all f64 -------------------------- */

static void loop_inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    const uint64_t seed = (uint64_t)call * 8;
    in[0] = drawn(tp, seed, TP_F64, TP_DIMS(STATE, STATE), -0.4, 0.4);
    in[1] = drawn(tp, seed + 1, TP_F64, TP_DIMS(STATE, STATE), -1, 1);
    in[2] = drawn(tp, seed + 2, TP_F64, TP_DIMS(LENGTH - call % 3, STATE), -1, 1);
}

static tp_tensor *cell(tp_tensor *h, tp_tensor *w, tp_tensor *x)
{
    return tp_tanh(tp_add(tp_matmul(h, w), x));
}

/* Of a value f of w: its gradient g, H v, v H v, the gradient t of that, and t . v */
static void all_orders(tp_tensor *f, tp_tensor *w, tp_tensor *v, tp_tensor **out)
{
    out[0] = tp_grad(f, w);
    out[1] = tp_grad(dot(out[0], v), w);
    out[2] = dot(out[1], v);
    out[3] = tp_grad(out[2], w);
    out[4] = dot(out[3], v);
}

BODY(rolled_plain)
{
    UNUSED;
    tp_tensor *w = asked(in[0]), *x = in[2], *h = tp_scalar_like(x, 0);
    h = tp_broadcast(h, TP_DIMS(STATE));
    for (int64_t i = 0; i < tp_size(x, 0); i++)
        h = cell(h, w, tp_select(x, 0, i));
    all_orders(total(tp_square(h)), w, in[1], out);
}

BODY(rolled_blocks)
{
    UNUSED;
    tp_tensor *w = asked(in[0]), *x = in[2], *h = tp_scalar_like(x, 0);
    h = tp_broadcast(h, TP_DIMS(STATE));
    tp_for (tp_dim(x, 0), &h) {
        h = cell(h, w, tp_each(x));
    }
    all_orders(total(tp_square(h)), w, in[1], out);
}

static tp_tensor *moved(tp_tensor *z, tp_tensor *before)
{
    tp_tensor *far = tp_reduce_max(tp_abs(tp_sub(z, before)), TP_ALL, false);
    return tp_gt(far, 1e-9);
}

BODY(fixed_plain)
{
    UNUSED;
    tp_tensor *w = asked(in[0]), *half = tp_mul(w, 0.5);
    tp_tensor *x = tp_select(in[2], 0, 0), *before = x, *z = cell(x, half, x);
    while (tp_truth(moved(z, before))) {
        before = z;
        z = cell(z, half, x);
    }
    all_orders(total(tp_square(z)), w, in[1], out);
}

BODY(fixed_blocks)
{
    UNUSED;
    tp_tensor *w = asked(in[0]), *half = tp_mul(w, 0.5);
    tp_tensor *x = tp_select(in[2], 0, 0), *before = x, *z = cell(x, half, x);
    tp_while (moved(z, before), &before, &z) {
        before = z;
        z = cell(z, half, x);
    }
    all_orders(total(tp_square(z)), w, in[1], out);
}

/* ---- checks ------------------------------------------------------------------------------- */

typedef struct problem {
    const char *name;
    tp_body body;
    int n_w; /* arguments: that many weights, as many directions, and one more */
    int n_out;
    void (*inputs)(tp_ctx *tp, int64_t call, tp_tensor **in);
    const char *varies;
    int n_pairs;
    int pairs[2][2]; /* results: a value, and how it changes along the directions */
} problem;

static const problem problems[] = {
    {"Hessian-vector product",     hvp,           2, 5, net_inputs,  NULL,  2, {{1, 3}, {2, 4}}},
    {"gradient penalty",           penalty,       2, 4, net_inputs,  NULL,  1, {{0, 3}}        },
    {"PINN Laplacian",             pinn,          2, 5, net_inputs,  NULL,  1, {{0, 3}}        },
    {"recurrent net, plain C for", rolled_plain,  1, 5, loop_inputs, NULL,  2, {{0, 1}, {2, 4}}},
    {"recurrent net, tp_for",      rolled_blocks, 1, 5, loop_inputs, "  n", 2, {{0, 1}, {2, 4}}},
    {"fixed point, plain C while", fixed_plain,   1, 5, loop_inputs, NULL,  2, {{0, 1}, {2, 4}}},
    {"fixed point, tp_while",      fixed_blocks,  1, 5, loop_inputs, "  n", 2, {{0, 1}, {2, 4}}},
};

/* The body at w + step * v: result number `at` as doubles. */
static int64_t value_at(tp_ctx *tp, const problem *p, int64_t call, double step, int at,
                        double *to)
{
    tp_tensor *in[FORMS_MOST], *out[FORMS_MOST];
    p->inputs(tp, call, in);
    for (int i = 0; i < p->n_w; i++) {
        tp_tensor *v = in[p->n_w + i];
        in[i] = tp_add(in[i], tp_mul(v, step));
    }
    p->body(NULL, 2 * p->n_w + 1, in, p->n_out, out);
    const int64_t n = tp_failed(out[at]) ? 0 : tp_count(out[at]);
    if (n > MOST || tp_read(out[at], to, (size_t)n * sizeof *to) != TP_OK)
        return 0;
    return n;
}

/* How far the derivatives are from central differences, relative to their size. */
static double worst_of(const problem *p, const outcome *o)
{
    const double step = 1e-4;
    double worst = 0, plus[MOST], minus[MOST], got[MOST];
    tp_ctx *tp = tp_open(NULL);
    for (int64_t i = 0; i < CALLS; i++)
        for (int k = 0; k < p->n_pairs; k++) {
            tp_scope_begin(tp);
            const int64_t n = value_at(tp, p, i, step, p->pairs[k][0], plus),
                          m = value_at(tp, p, i, -step, p->pairs[k][0], minus);
            if (n < 1 || m != n || outcome_read(o, i, p->pairs[k][1], got, MOST) != n)
                worst = INFINITY;
            for (int64_t e = 0; e < n; e++) {
                const double right = (plus[e] - minus[e]) / (2 * step);
                const double off = fabs(got[e] - right) / fmax(1, fabs(right));
                worst = off <= worst ? worst : off;
            }
            tp_scope_end(tp);
        }
    tp_close(tp);
    return worst;
}

/* u = sum of w2 tanh(z), z = x w1, so its Laplacian is the sum of w2 |w1|^2 (-2 t (1 - t^2)). */
static double laplacian_error(const outcome *o)
{
    double worst = 0, w1[2 * HIDDEN], w2[HIDDEN], x[ROWS * 2], got[ROWS];
    tp_ctx *tp = tp_open(NULL);
    for (int64_t i = 0; i < CALLS; i++) {
        tp_tensor *in[FORMS_MOST];
        net_inputs(tp, i, in);
        tp_read(in[0], w1, sizeof w1);
        tp_read(in[1], w2, sizeof w2);
        tp_read(in[4], x, sizeof x);
        if (outcome_read(o, i, 4, got, ROWS) != ROWS)
            worst = INFINITY;
        for (int r = 0; r < ROWS; r++) {
            double right = 0;
            for (int j = 0; j < HIDDEN; j++) {
                const double a = w1[j], b = w1[HIDDEN + j];
                const double t = tanh(x[2 * r] * a + x[2 * r + 1] * b);
                right += w2[j] * (a * a + b * b) * -2 * t * (1 - t * t);
            }
            const double off = fabs(got[r] - right);
            worst = off <= worst ? worst : off;
        }
    }
    tp_close(tp);
    return worst;
}

static bool run(const problem *p, const options *how)
{
    form forms[3];
    int n_forms = 0;
    forms[n_forms++] = FORM_MATCHED;
    if (p->body != fixed_plain && p->body != fixed_blocks)
        forms[n_forms++] = FORM_PURE;
    if (p->body != fixed_plain && p->body != rolled_plain)
        forms[n_forms++] = FORM_GRAPH;
    const work w = {.name = p->name,
                    .body = p->body,
                    .n_in = 2 * p->n_w + 1,
                    .n_out = p->n_out,
                    .calls = CALLS,
                    .inputs = p->inputs,
                    .varies = p->varies};
    outcome o;
    bool good = work_show(&w, n_forms, forms, how, &o);
    good = show_error("off from differences by", worst_of(p, &o), 1e-5) && good;
    if (p->body == pinn)
        good = show_error("the Laplacian is off by", laplacian_error(&o), 1e-12) && good;
    outcome_free(&o);
    return good;
}

int main(int argc, char **argv)
{
    options how;
    if (!parse_options(argc, argv, &how))
        return 2;
    bool good = true;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        good = run(&problems[i], &how) && good;
    return !good;
}
