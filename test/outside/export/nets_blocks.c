/* Networks with blocks: branches, loops, and their gradients. Every path is run. */
#include "nets.h"

#include <stdio.h>

/* ---- branches ------------------------------------------------------------------------------ */

static tp_tensor *half(net *n)
{
    return tp_scalar(n->tp, TP_F32, 0.5);
}

/* h = mean(x) > 0.5 ? linear1(x) : relu(linear1(x));   y = linear2(h) */
static void side_taken(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(tp_symbol(n->g, "batch"), 10));
    tp_tensor *w1 = weight(n, "w1", TP_DIMS(10, 5)), *b1 = weight(n, "b1", TP_DIMS(5));
    tp_tensor *h = NULL;
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), half(n)), &h) {
        h = tp_add(tp_matmul(x, w1), b1);
    }
    tp_else
    {
        h = tp_relu(tp_add(tp_matmul(x, w1), b1));
    }
    output(n, "y",
           tp_add(tp_matmul(h, weight(n, "w2", TP_DIMS(5, 1))), tp_scalar(n->tp, TP_F32, 1)));
    save(n);
    for (int64_t batch = 1; batch < 4; batch++)
        for (int high = 0; high < 2; high++) {
            tp_tensor *in =
                tp_add(normal(n, TP_DIMS(batch, 10)), tp_scalar(n->tp, TP_F32, high));
            run(n, &in);
        }
}

/* Sides that give what they are given, the same twice, a constant; without tp_else; a branch in a
 * branch. */
static void side_outputs(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(3)), *y = input(n, "y", TP_F32, TP_DIMS(3));
    tp_tensor *a = x, *b = y, *c = x;
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_sum(y, TP_ALL, false)), &a, &b, &c) {
        a = y;
        b = y;
        tp_if (tp_gt(tp_select(x, 0, 0), half(n)), &c) {
            c = tp_add(x, y);
        }
        tp_else
        {
            c = tp_full(n->tp, TP_F32, TP_DIMS(3), 2);
        }
    }
    tp_if (tp_lt(tp_select(y, 0, 1), half(n)), &c) {
        c = tp_mul(c, a);
    }
    output(n, "a", a);
    output(n, "b", b);
    output(n, "c", c);
    save(n);
    for (int i = 0; i < 12; i++) {
        tp_tensor *in[] = {normal(n, TP_DIMS(3)), normal(n, TP_DIMS(3))};
        run(n, in);
    }
}

/* ---- loops ------------------------------------------------------------------------------------ */

/* Square roots to a tolerance; the residuals of all turns, and how many there were. */
static void newton(net *n)
{
    tp_tensor *a = input(n, "a", TP_F32, TP_DIMS(tp_symbol(n->g, "n")));
    tp_tensor *z = a, *err = tp_reduce_max(tp_abs(tp_sub(tp_mul(a, a), a)), TP_ALL, false);
    tp_tensor *tol = tp_scalar(n->tp, TP_F32, 1e-4), *errs = NULL;
    tp_while (tp_gt(err, tol), &z, &err) {
        z = tp_mul(tp_add(z, tp_div(a, z)), half(n));
        err = tp_reduce_max(tp_abs(tp_sub(tp_mul(z, z), a)), TP_ALL, false);
        tp_emit(&errs, tp_sub(tp_mul(z, z), a));
    }
    output(n, "z", z);
    output(n, "errs", errs);
    output(n, "turns", tp_extent(errs, TP_DIMS(0), TP_I64));
    output(n, "sum", tp_sum(errs, TP_DIMS(0), false));
    save(n);
    for (int64_t size = 1; size < 4; size++) {
        tp_tensor *in = tp_add(tp_abs(normal(n, TP_DIMS(size))), half(n));
        run(n, &in);
    }
    tp_tensor *none = tp_full(n->tp, TP_F32, TP_DIMS(1), 1); /* no turn */
    run(n, &none);
}

/* A recurrent net whose sequences end; both ways. */
static void recurrent(net *n)
{
    const int64_t steps = tp_symbol(n->g, "steps"), batch = tp_symbol(n->g, "batch");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(steps, batch, 4));
    tp_tensor *ends = input(n, "ends", TP_I64, TP_DIMS(batch, 1));
    tp_tensor *w = weight(n, "w", TP_DIMS(4, 6)), *u = weight(n, "u", TP_DIMS(6, 6));
    tp_tensor *h0 = tp_broadcast(tp_scalar_like(tp_slice(x, 0, 0, 1, 1), 0), TP_DIMS(batch, 6));
    for (int back = 0; back < 2; back++) {
        tp_tensor *h = h0, *ys = NULL;
        if (back) {
            tp_for_back (steps, &h) {
                tp_tensor *now = tp_tanh(tp_add(tp_matmul(tp_each(x), w), tp_matmul(h, u)));
                h = tp_where(tp_lt(tp_turn(n->tp), ends), now, h);
                tp_emit(&ys, h);
            }
        } else {
            tp_for (steps, &h) {
                tp_tensor *now = tp_tanh(tp_add(tp_matmul(tp_each(x), w), tp_matmul(h, u)));
                h = tp_where(tp_lt(tp_turn(n->tp), ends), now, h);
                tp_emit(&ys, h);
            }
        }
        output(n, back ? "h_back" : "h", h);
        output(n, back ? "ys_back" : "ys", ys);
    }
    save(n);
    for (int64_t size = 1; size < 4; size++) {
        const int64_t lens[] = {2, 5, 3};
        tp_tensor *in[] = {normal(n, TP_DIMS(5, size, 4)),
                           tp_tensor_new(n->tp, TP_I64, TP_DIMS(size, 1), lens)};
        run(n, in);
    }
}

/* Carried values that change places, one that stays, loops and branches in a loop, sizes of a loop in
 * the next. */
static void nested(net *n)
{
    const int64_t size = tp_symbol(n->g, "size");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(size));
    tp_tensor *most = input(n, "most", TP_F32, TP_SCALAR);
    tp_tensor *a = x, *b = tp_mul(x, half(n)), *stays = x, *all = NULL, *sums = NULL;
    tp_tensor *one = tp_scalar(n->tp, TP_F32, 1);
    tp_for (4, &a, &b, &stays) {
        tp_tensor *c = a, *inner = NULL;
        tp_while (tp_lt(tp_sum(tp_abs(c), TP_ALL, false), most), &c) {
            c = tp_add(tp_mul(c, tp_add(one, half(n))), half(n));
            tp_emit(&inner, c);
        }
        tp_emit(&all, c);
        tp_emit(&sums, tp_sum(inner, TP_ALL, false));
        a = b;
        b = tp_sub(tp_mul(c, half(n)), stays);
        tp_if (tp_gt(tp_sum(b, TP_ALL, false), one), &b) {
            b = tp_neg(b);
        }
    }
    output(n, "a", a);
    output(n, "b", b);
    output(n, "stays", stays);
    output(n, "all", all);
    output(n, "sums", sums);
    save(n);
    for (int64_t k = 1; k < 4; k++) {
        tp_tensor *in[] = {normal(n, TP_DIMS(k)), tp_scalar(n->tp, TP_F32, 3 * (double)k)};
        run(n, in);
    }
}

/* No turn at all, of elements whose size is free. */
static void no_turns(net *n)
{
    const int64_t steps = tp_symbol(n->g, "steps"), size = tp_symbol(n->g, "size");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(steps, size));
    tp_tensor *s = tp_scalar_like(tp_sum(x, TP_DIMS(0), false), 0), *ys = NULL;
    s = tp_broadcast(s, TP_DIMS(size));
    tp_for (steps, &s) {
        s = tp_add(s, tp_each(x));
        tp_emit(&ys, tp_mul(s, s));
    }
    output(n, "s", s);
    output(n, "ys", ys);
    save(n);
    for (int64_t k = 0; k < 3; k++) {
        tp_tensor *in = normal(n, TP_DIMS(k, 3));
        run(n, &in);
    }
}

/* Two values carried, two gone over and two stacked, the number of the turn, from either end; an
 * output of each kind that nobody asks for. */
static void scan_of(net *n, int64_t steps, bool back)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(steps, 3));
    tp_tensor *k = input(n, "k", TP_I64, TP_DIMS(steps));
    tp_tensor *start = input(n, "start", TP_F32, TP_DIMS(3));
    tp_tensor *a = start, *b = tp_mul(start, half(n)), *spare = start;
    tp_tensor *as = NULL, *turns = NULL, *unread = NULL;
#define TURN                                                                                   \
    {                                                                                          \
        tp_tensor *now = tp_add(tp_each(x), tp_cast(tp_each(k), TP_F32));                      \
        spare = tp_add(spare, now);                                                            \
        a = tp_tanh(tp_add(tp_mul(a, half(n)), now));                                          \
        b = tp_sub(a, b);                                                                      \
        tp_emit(&as, a);                                                                       \
        tp_emit(&unread, spare);                                                               \
        tp_emit(&turns, tp_add(tp_turn(n->tp), tp_each(k)));                                   \
    }
    if (back)
        tp_for_back (steps, &a, &b, &spare)
            TURN else tp_for (steps, &a, &b, &spare) TURN
#undef TURN
                tp_tensor *loss = tp_add(tp_sum(tp_square(b), TP_ALL, false),
                                         tp_sum(tp_mul(as, x), TP_ALL, false));
    tp_tensor *dx[2];
    tp_grads(loss, NULL, 2, (tp_tensor *[]){x, start}, dx);
    output(n, "a", a);
    output(n, "b", b);
    output(n, "as", as);
    output(n, "turns", turns);
    output(n, "dx", dx[0]);
    output(n, "dstart", dx[1]);
    save(n);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t numbers[] = {3, 1, 2}, size = steps > 0 ? steps : i;
        tp_tensor *in[] = {normal(n, TP_DIMS(size, 3)),
                           tp_tensor_new(n->tp, TP_I64, TP_DIMS(size), numbers),
                           normal(n, TP_DIMS(3))};
        run(n, in);
    }
}

static void scan_free(net *n)
{
    scan_of(n, tp_symbol(n->g, "steps"), false);
}

static void scan_free_back(net *n)
{
    scan_of(n, tp_symbol(n->g, "steps"), true);
}

static void scan_known(net *n)
{
    scan_of(n, 3, false);
}

static void scan_known_back(net *n)
{
    scan_of(n, 2, true);
}

/* It goes over nothing: what is stacked is made of the number of the turn; from the last to the
 * first, in a loop that goes over something. */
static void scan_turns(net *n)
{
    const int64_t rows = tp_symbol(n->g, "rows"), size = tp_symbol(n->g, "size");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(rows, size));
    tp_tensor *tables = NULL, *s = tp_sum(x, TP_DIMS(1), false);
    tp_for (rows, &s) {
        tp_tensor *row = tp_each(x), *table = NULL;
        tp_for_back (size, &row) {
            row = tp_tanh(row);
            tp_emit(&table, tp_mul(row, tp_cast(tp_turn(n->tp), TP_F32)));
        }
        s = tp_add(s, tp_sum(table, TP_ALL, false));
        tp_emit(&tables, table);
    }
    output(n, "s", s);
    output(n, "tables", tables);
    save(n);
    for (int64_t k = 0; k < 9; k++) {
        tp_tensor *in = normal(n, TP_DIMS(k / 3, k % 3));
        run(n, &in);
    }
}

/* ---- gradients ---------------------------------------------------------------------------------- */

static void gradients_of(net *n, tp_tensor *loss, int n_xs, tp_tensor *const *xs,
                         const char *const *names)
{
    tp_tensor *dx[MOST];
    tp_grads(loss, NULL, n_xs, xs, dx);
    output(n, "loss", loss);
    for (int i = 0; i < n_xs; i++)
        output(n, names[i], dx[i]);
}

static void recurrent_gradient(net *n)
{
    const int64_t steps = tp_symbol(n->g, "steps");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(steps, 2, 4));
    tp_tensor *w = weight(n, "w", TP_DIMS(4, 6)), *u = weight(n, "u", TP_DIMS(6, 6));
    tp_tensor *h = tp_graph_read(n->g, tp_full(n->tp, TP_F32, TP_DIMS(2, 6), 0)), *ys = NULL;
    tp_for (steps, &h) {
        h = tp_tanh(tp_add(tp_matmul(tp_each(x), w), tp_matmul(h, u)));
        tp_emit(&ys, h);
    }
    tp_tensor *loss = tp_add(tp_sum(tp_square(h), TP_ALL, false), tp_mean(ys, TP_ALL, false));
    gradients_of(n, loss, 3, (tp_tensor *[]){x, w, u}, (const char *[]){"dx", "dw", "du"});
    save(n);
    for (int64_t k = 1; k < 5; k++) {
        tp_tensor *in = normal(n, TP_DIMS(k, 2, 4));
        run(n, &in);
    }
}

static void newton_gradient(net *n)
{
    tp_tensor *a = input(n, "a", TP_F32, TP_DIMS(3)), *z = a;
    tp_tensor *err = tp_reduce_max(tp_abs(tp_sub(tp_mul(z, z), a)), TP_ALL, false);
    tp_while (tp_gt(err, tp_scalar(n->tp, TP_F32, 1e-3)), &z, &err) {
        z = tp_mul(tp_add(z, tp_div(a, z)), half(n));
        err = tp_reduce_max(tp_abs(tp_sub(tp_mul(z, z), a)), TP_ALL, false);
    }
    gradients_of(n, tp_sum(z, TP_ALL, false), 1, &a, (const char *[]){"da"});
    save(n);
    for (int k = 0; k < 4; k++) {
        tp_tensor *in = k ? tp_add(tp_abs(normal(n, TP_DIMS(3))), half(n))
                          : tp_full(n->tp, TP_F32, TP_DIMS(3), 1);
        run(n, &in);
    }
}

static void side_gradient(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(4)), *w = weight(n, "w", TP_DIMS(4)),
              *h = NULL;
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), tp_scalar(n->tp, TP_F32, 0)), &h) {
        h = tp_mul(tp_exp(x), w);
    }
    tp_else
    {
        h = tp_tanh(x);
    }
    gradients_of(n, tp_sum(tp_square(h), TP_ALL, false), 2, (tp_tensor *[]){x, w},
                 (const char *[]){"dx", "dw"});
    save(n);
    for (int k = 0; k < 6; k++) {
        tp_tensor *in = normal(n, TP_DIMS(4));
        run(n, &in);
    }
}

/* ---- random numbers -------------------------------------------------------------------------------- */

/* Where a draw begins depends on how many turns were taken, and which side, in each of two streams. */
static void random_blocks(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(5)), *s = x;
    tp_tensor *stop = tp_scalar(n->tp, TP_F32, 4), *drawn = NULL;
    tp_while (tp_lt(tp_sum(s, TP_ALL, false), stop), &s) {
        tp_uniform_like(x, 0, 1); /* nothing reads it */
        s = tp_add(s, tp_uniform_like(s, 0, 1));
        tp_random_stream(n->tp, UINT64_C(0x123456789abcdef0));
        tp_emit(&drawn, tp_add(s, tp_uniform_like(s, 0, 1)));
        tp_random_stream(n->tp, 0);
    }
    tp_tensor *unread = half(n);
    tp_for (2, &unread) {
        unread = tp_mul(unread, tp_normal_like(unread, 0, 1));
    }
    tp_if (tp_gt(tp_select(s, 0, 0), half(n)), &s) {
        s = tp_add(s, tp_normal_like(x, 0, 1));
        tp_random_stream(n->tp, UINT64_C(0x123456789abcdef0));
        tp_normal_like(x, 0, 1);
    }
    output(n, "s", s);
    output(n, "drawn", drawn);
    output(n, "other", tp_uniform_like(x, 0, 1));
    tp_random_stream(n->tp, 0);
    output(n, "last", tp_uniform_like(x, 0, 1));
    save(n);
    for (int k = 0; k < 3; k++) {
        tp_tensor *in = tp_mul(normal(n, TP_DIMS(5)), half(n));
        run(n, &in);
    }
}

/* Numbers drawn in a loop over something, and after it. */
static void scan_random(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(tp_symbol(n->g, "steps"), 3));
    tp_tensor *s = tp_graph_read(n->g, tp_full(n->tp, TP_F32, TP_DIMS(3), 0)), *all = NULL;
    tp_for (tp_dim(x, 0), &s) {
        tp_tensor *now = tp_each(x);
        s = tp_add(s, tp_mul(now, tp_uniform_like(now, 0, 1)));
        tp_random_stream(n->tp, 9);
        tp_emit(&all, tp_uniform_like(now, 1, 2));
        tp_random_stream(n->tp, 0);
    }
    output(n, "s", s);
    output(n, "all", all);
    output(n, "last", tp_uniform_like(s, 0, 1));
    tp_random_stream(n->tp, 9);
    output(n, "other", tp_uniform_like(s, 0, 1));
    tp_random_stream(n->tp, 0);
    save(n);
    for (int64_t k = 0; k < 3; k++) {
        tp_tensor *in = normal(n, TP_DIMS(k, 3));
        run(n, &in);
    }
}

/* ---- captured ---------------------------------------------------------------------------------------- */

/* A function of concrete tensors with blocks in it, and their gradient. */
static void blocks_on_concrete(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    (void)n_in;
    (void)n_out;
    tp_tensor *w = user, *x = in[0], *h = NULL, *all = NULL;
    tp_ctx *tp = tp_ctx_of(x);
    tp_if (tp_gt(tp_mean(x, TP_ALL, false), tp_scalar(tp, TP_F32, 0.5)), &h) {
        h = tp_matmul(x, w);
    }
    tp_else
    {
        h = tp_relu(tp_matmul(x, w));
    }
    tp_for (3, &h) {
        h = tp_tanh(h);
        tp_emit(&all, h);
    }
    out[0] = tp_sum(all, TP_DIMS(0), false);
    out[1] = tp_grad(tp_sum(tp_square(h), TP_ALL, false), w);
}

static void captured(net *n)
{
    char path[1000];
    tp_tensor *w = weight(n, "w", TP_DIMS(4, 3)), *in[4];
    tp_function *f = tp_function_new(n->tp, "blocks", blocks_on_concrete, w, NULL);
    for (int i = 0; i < 4; i++) {
        tp_tensor *out[2];
        in[i] = tp_add(normal(n, TP_DIMS(2, 4)), tp_scalar(n->tp, TP_F32, 2 * (i % 2)));
        tp_function_call(f, 1, &in[i], 2, out);
    }
    n->n_in = 1;
    n->n_out = 2;
    model_path(n, path, sizeof path);
    if (tp_onnx_save_function(f, path, TP_NAMES("x"), TP_NAMES("y", "dw")) != TP_OK)
        net_fail(n, "saving");
    for (int i = 0; i < 4; i++) {
        tp_tensor *out[2];
        tp_function_call(f, 1, &in[i], 2, out);
        save_set(n, &in[i], out);
    }
}

/* ---- declared pure ----------------------------------------------------------------------------------- */

/* Branches in a row, in a loop that a value ends. */
static void pure_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    tp_tensor *w = user, *x = in[0], *turns = tp_scalar_like(x, 0);
    while (tp_truth(tp_gt(tp_reduce_max(tp_abs(x), TP_ALL, false), tp_scalar_like(x, 1)))) {
        if (tp_truth(tp_gt(tp_sum(x, TP_ALL, false), tp_scalar_like(x, 0))))
            x = tp_mul(x, tp_scalar_like(x, 0.5));
        else
            x = tp_tanh(tp_matmul(x, w));
        turns = tp_add(turns, tp_scalar_like(x, 1));
    }
    if (tp_truth(tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0.1))))
        x = tp_exp(x);
    else
        x = tp_neg(x);
    out[0] = tp_matmul(x, w);
    out[1] = turns;
}

static void pure_flow(net *n)
{
    enum { CALLS = 200, KEPT = 6 };
    char path[1000];
    tp_tensor *w = weight(n, "w", TP_DIMS(4, 4)), *in[CALLS], *out[2];
    tp_recording(n->tp, false);
    tp_function *f =
        tp_function_new(n->tp, "pure", pure_body, w, &(tp_function_options){.pure = true});
    for (int i = 0; i < CALLS; i++) {
        in[i] = tp_mul(normal(n, TP_DIMS(2, 4)), tp_scalar(n->tp, TP_F32, i % 7 * 0.7));
        tp_function_call(f, 1, &in[i], 2, out);
    }
    n->n_in = 1;
    n->n_out = 2;
    model_path(n, path, sizeof path);
    if (tp_onnx_save_function(f, path, TP_NAMES("x"), TP_NAMES("y", "turns")) != TP_OK)
        net_fail(n, "saving");
    for (int i = 0; i < KEPT; i++) {
        tp_function_call(f, 1, &in[i], 2, out);
        save_set(n, &in[i], out);
    }
}

const net_row block_nets[] = {
    {"side_taken",         side_taken        },
    {"side_outputs",       side_outputs      },
    {"newton",             newton            },
    {"recurrent",          recurrent         },
    {"nested",             nested            },
    {"no_turns",           no_turns          },
    {"scan_free",          scan_free         },
    {"scan_free_back",     scan_free_back    },
    {"scan_known",         scan_known        },
    {"scan_known_back",    scan_known_back   },
    {"scan_turns",         scan_turns        },
    {"scan_random",        scan_random       },
    {"recurrent_gradient", recurrent_gradient},
    {"newton_gradient",    newton_gradient   },
    {"side_gradient",      side_gradient     },
    {"random_blocks",      random_blocks     },
    {"captured",           captured          },
    {"pure_flow",          pure_flow         },
    {NULL,                 NULL              },
};
