#include "block_cases.h"

/* ---- tp_if -------------------------------------------------------------------------------- */

PROGRAM(if_both)
{
    tp_if (above(s, 0), &x, &v) {
        x = tp_tanh(tp_matmul(x, st->w));
        v = tp_mul(v, s);
    }
    tp_else
    {
        x = tp_sub(tp_sigmoid(x), v);
    }
    out[0] = x;
    out[1] = v;
}

PROGRAM(if_alone)
{
    tp_if (above(mean(x), 0), &x) {
        x = tp_mul(x, v);
    }
    out[0] = tp_sin(x);
}

PROGRAM(if_null)
{
    tp_tensor *y = NULL, *n = NULL;
    tp_if (above(s, 0.25), &y, &n) {
        y = tp_add(x, v);
        n = tp_scalar(st->tp, TP_I64, 7);
    }
    tp_else
    {
        y = tp_mul(x, st->p);
        n = k;
    }
    out[0] = y;
    out[1] = n;
}

PROGRAM(if_swap)
{
    tp_tensor *a = v, *b = st->p, *c = tp_neg(v);
    tp_if (above(s, 0), &a, &b, &c) {
        tp_tensor *t = a;
        a = b;
        b = t;
        c = b;
    }
    tp_else
    {
        c = st->q;
        b = c;
    }
    out[0] = tp_sub(a, times(b, 2));
    out[1] = tp_mul(c, b);
}

PROGRAM(if_chain)
{
    tp_tensor *y = v;
    tp_if (below(s, -0.5), &y) {
        y = tp_neg(y);
    }
    tp_else tp_if (below(s, 0), &y)
    {
        y = tp_mul(y, y);
    }
    tp_else tp_if (below(s, 0.5), &y)
    {
        y = tp_tanh(y);
    }
    tp_else
    {
        y = tp_add(y, s);
    }
    out[0] = y;
}

PROGRAM(if_nested)
{
    tp_tensor *h = tp_tanh(tp_linear(x, st->w, st->p));
    tp_if (above(mean(h), 0), &h) {
        tp_tensor *m = tp_mean(h, TP_DIMS(0), false);
        tp_if (above(tp_select(m, 0, 0), 0), &h, &m) {
            h = tp_mul(h, m);
            tp_if (above(tp_select(m, 0, 1), 0), &h) {
                h = tp_add(h, x);
            }
        }
        tp_else
        {
            m = tp_neg(v);
            h = tp_sub(h, m);
        }
        h = tp_mul(h, m);
    }
    out[0] = h;
}

PROGRAM(if_untaken_state) /* a variable is read where it may have been assigned, and after it */
{
    tp_if (above(s, 0), &v) {
        tp_assign(st->q, tp_add(st->q, v));
        v = tp_mul(st->q, v);
    }
    out[0] = tp_add(v, st->q);
}

/* ---- tp_while ------------------------------------------------------------------------------ */

PROGRAM(while_count)
{
    tp_tensor *i = k;
    tp_while (above(i, 0), &i, &v) {
        v = tp_tanh(tp_add(tp_matmul(v, st->w), st->p));
        i = up(i, -1);
    }
    out[0] = v;
    out[1] = i;
}

PROGRAM(while_tolerance)
{
    tp_tensor *z = tp_abs(v), *far = tp_reduce_max(z, TP_ALL, false);
    tp_while (above(far, 0.05), &z, &far) {
        z = times(tp_mul(z, tp_sigmoid(z)), 0.9);
        far = tp_reduce_max(z, TP_ALL, false);
    }
    out[0] = z;
    out[1] = far;
}

PROGRAM(while_swap)
{
    tp_tensor *a = v, *b = st->p, *c = tp_neg(v), *i = k;
    tp_while (above(i, 0), &a, &b, &c, &i) {
        tp_tensor *t = a;
        a = b;
        b = tp_add(t, times(a, 0.5));
        c = st->q; /* from outside, unchanged */
        i = up(i, -1);
    }
    out[0] = tp_sub(a, b);
    out[1] = c;
}

PROGRAM(while_still) /* one that never changes, one set to a constant, two that become one */
{
    tp_tensor *a = v, *b = tp_neg(v), *c = tp_sigmoid(v), *d = c, *i = k;
    tp_while (above(i, 0), &a, &b, &c, &d, &i) {
        c = tp_mul(a, d);
        d = c;
        b = tp_full(st->tp, TP_F32, TP_DIMS(4), 0.5);
        i = up(i, -1);
    }
    out[0] = tp_add(a, b);
    out[1] = tp_add(c, d);
}

PROGRAM(while_emit) /* as many turns as the run says; what is stacked is used as any tensor */
{
    tp_tensor *i = tp_max(k, number(k, 1)), *ys = NULL, *is = NULL;
    tp_while (above(i, 0), &i, &v) {
        v = tp_sin(tp_add(v, st->p));
        tp_emit(&ys, v);
        tp_emit(&is, tp_mul(i, i));
        i = up(i, -1);
    }
    out[0] = tp_sum(tp_mul(ys, tp_softmax(ys, 0)), TP_DIMS(0), false);
    out[1] = ys;
    out[2] = is;
    out[3] = tp_matmul(ys, st->w);
}

PROGRAM(while_long) /* more turns than what is stacked has room for at first */
{
    tp_tensor *i = tp_mul(tp_max(k, number(k, 1)), number(k, 60)), *ys = NULL;
    tp_while (above(i, 0), &i, &v) {
        v = tp_sin(tp_add(times(v, 0.9), st->p));
        tp_emit(&ys, v);
        i = up(i, -1);
    }
    out[0] = tp_mean(ys, TP_DIMS(0), false);
    out[1] = v;
}

PROGRAM(while_bool)
{
    tp_tensor *go = above(tp_abs(s), 0.1), *t = s;
    tp_while (go, &go, &t) {
        t = times(t, 0.5);
        go = above(tp_abs(t), 0.1);
    }
    out[0] = t;
    out[1] = tp_cast(go, TP_F32);
}

PROGRAM(while_f64)
{
    tp_tensor *a = tp_cast(tp_abs(v), TP_F64), *z = up(a, 1);
    tp_tensor *off = tp_sub(tp_mul(z, z), a);
    tp_while (above(tp_reduce_max(tp_abs(off), TP_ALL, false), 1e-10), &z, &off) {
        z = times(tp_add(z, tp_div(a, z)), 0.5);
        off = tp_sub(tp_mul(z, z), a);
    }
    out[0] = tp_cast(z, TP_F32);
}

/* ---- tp_for --------------------------------------------------------------------------------- */

PROGRAM(for_each)
{
    tp_for (tp_dim(x, 0), &v) {
        v = tp_tanh(tp_add(tp_matmul(v, st->w), tp_each(x)));
    }
    out[0] = v;
}

PROGRAM(for_back)
{
    tp_tensor *ys = NULL;
    tp_for_back (tp_dim(x, 0), &v) {
        v = tp_tanh(tp_add(tp_matmul(v, st->w), tp_each(x)));
        tp_emit(&ys, tp_mul(v, tp_each(x)));
    }
    out[0] = v;
    out[1] = ys;
}

PROGRAM(for_emit)
{
    tp_tensor *ys = NULL, *zs = NULL, *cs = NULL, *ps = NULL;
    tp_for (tp_dim(x, 0), &v) {
        tp_tensor *row = tp_each(x);
        tp_emit(&zs, v); /* as it comes in */
        v = tp_mul(tp_sin(v), row);
        tp_emit(&ys, v);
        tp_emit(&cs, tp_scalar(st->tp, TP_F32, 2)); /* a constant */
        tp_emit(&ps, st->p);                        /* from outside */
    }
    out[0] = tp_sub(ys, zs);
    out[1] = tp_mul(cs, s);
    out[2] = ps;
    out[3] = v;
}

PROGRAM(for_fixed)
{
    tp_for (5, &v, &s) {
        v = tp_add(tp_mul(v, s), st->p);
        s = times(tp_cos(s), 0.75);
    }
    out[0] = v;
    out[1] = s;
}

PROGRAM(for_none)
{
    tp_for (0, &v) {
        v = tp_mul(v, v);
    }
    out[0] = v;
}

PROGRAM(for_turn)
{
    tp_tensor *sum = times(s, 0), *ns = NULL;
    tp_for_back (tp_dim(x, 0), &sum) {
        tp_tensor *n = tp_turn(st->tp);
        sum = tp_add(times(sum, 2), tp_cast(n, TP_F32));
        tp_emit(&ns, n);
    }
    tp_for (4, &sum) {
        sum = tp_add(sum, tp_mul(s, tp_cast(tp_turn(st->tp), TP_F32)));
    }
    out[0] = sum;
    out[1] = ns;
}

PROGRAM(for_twice_each) /* the same elements asked for twice, of several tensors; a variable */
{
    tp_tensor *square = tp_square(x), *turned = tp_transpose(st->w, TP_ALL), *acc = v;
    tp_for (4, &acc) {
        tp_tensor *a = tp_each(st->w), *b = tp_each(turned);
        acc = tp_add(tp_mul(acc, a), tp_mul(tp_each(st->w), b));
        acc = tp_tanh(tp_add(acc, tp_each(st->q)));
    }
    tp_for (tp_dim(x, 0), &acc) {
        acc = tp_add(tp_mul(acc, tp_each(square)), tp_sub(tp_each(x), tp_each(x)));
    }
    out[0] = acc;
}

PROGRAM(for_lengths) /* rows of their own lengths: what is past the end is frozen */
{
    tp_tensor *lengths = tp_argmax(tp_transpose(x, TP_ALL), 1, false); /* [4] in 0 .. n - 1 */
    tp_tensor *h = tp_mul(v, s);
    tp_for (tp_dim(x, 0), &h) {
        tp_tensor *alive = tp_lt(tp_turn(st->tp), lengths);
        h = tp_where(alive, tp_tanh(tp_add(tp_mul(h, st->p), tp_each(x))), h);
    }
    out[0] = h;
}

PROGRAM(for_sizes) /* the loop's own size, and shapes made of it, inside */
{
    tp_tensor *m = x;
    tp_for (2, &m) {
        tp_tensor *flat = tp_reshape(m, TP_DIMS(-1));
        flat = tp_cumsum(times(flat, 0.25), 0, false, false);
        m = tp_reshape(flat, TP_DIMS(tp_dim(x, 0), 4));
    }
    out[0] = tp_concat(2, (tp_tensor *[]){m, x}, 0);
}

/* ---- nested --------------------------------------------------------------------------------- */

PROGRAM(if_in_for)
{
    tp_tensor *acc = v, *ys = NULL;
    tp_for (tp_dim(x, 0), &acc) {
        tp_tensor *row = tp_each(x);
        tp_if (above(mean(row), 0), &acc, &row) {
            acc = tp_add(acc, tp_mul(row, st->p));
            row = tp_neg(row);
        }
        tp_emit(&ys, row);
    }
    out[0] = acc;
    out[1] = ys;
}

PROGRAM(for_in_if)
{
    tp_if (above(s, 0), &v) {
        tp_for (tp_dim(x, 0), &v) {
            v = tp_tanh(tp_add(tp_mul(v, s), tp_each(x)));
        }
    }
    tp_else
    {
        tp_tensor *i = k;
        tp_while (above(i, 0), &i, &v) {
            v = tp_sin(tp_mul(v, st->p));
            i = up(i, -1);
        }
    }
    out[0] = v;
}

PROGRAM(for_in_for) /* elements belong to the innermost loop; sums over both */
{
    tp_tensor *acc = times(s, 1), *rows = NULL;
    tp_for (tp_dim(x, 0), &acc) {
        tp_tensor *row = tp_each(x), *inner = tp_mul(acc, s);
        tp_for (4, &inner) {
            inner = tp_sin(tp_add(tp_mul(inner, tp_each(row)), tp_each(st->p)));
        }
        acc = tp_add(acc, inner);
        tp_emit(&rows, inner);
    }
    out[0] = acc;
    out[1] = rows;
}

PROGRAM(
    while_in_for) /* a number of inner turns for each outer turn; stacks of their own sizes */
{
    tp_tensor *acc = v, *ends = NULL;
    tp_for (tp_dim(x, 0), &acc) {
        tp_tensor *row = tp_abs(tp_each(x)), *far = mean(row), *ys = NULL;
        tp_while (above(far, 0.1), &row, &far) {
            row = times(tp_mul(row, tp_sigmoid(row)), 0.9);
            far = mean(row);
            tp_emit(&ys, row);
        }
        acc = tp_add(acc, tp_mul(row, st->p));
        tp_emit(&ends, far);
    }
    out[0] = acc;
    out[1] = ends;
}

PROGRAM(
    stacks_of_their_own) /* what an inner loop stacks is summed up in the turn it belongs to */
{
    tp_tensor *acc = v, *turn = times(k, 0);
    tp_for (tp_dim(x, 0), &acc, &turn) {
        tp_tensor *row = tp_each(x), *i = turn, *ys = NULL;
        tp_while (tp_ge(i, number(i, 0)), &i, &row) {
            row = tp_cos(tp_mul(row, st->p));
            tp_emit(&ys, tp_mul(row, acc));
            i = up(i, -1);
        }
        acc = tp_tanh(tp_sum(tp_mul(ys, tp_softmax(ys, 0)), TP_DIMS(0), false));
        turn = up(turn, 1);
    }
    out[0] = acc;
}

PROGRAM(all_in_all)
{
    tp_tensor *acc = v, *i = k;
    tp_while (above(i, 0), &i, &acc) {
        tp_if (above(mean(acc), 0.1), &acc) {
            tp_for_back (tp_dim(x, 0), &acc) {
                tp_tensor *row = tp_each(x);
                tp_if (above(mean(row), 0), &acc) {
                    tp_tensor *far = mean(tp_abs(acc));
                    tp_while (above(far, 0.3), &acc, &far) {
                        acc = times(acc, 0.7);
                        far = mean(tp_abs(acc));
                    }
                }
                tp_else
                {
                    acc = tp_sub(acc, tp_mul(row, s));
                }
            }
        }
        tp_else
        {
            tp_for (3, &acc) {
                acc = tp_add(tp_sin(acc), tp_select(st->w, 0, 1));
            }
        }
        i = up(i, -1);
    }
    out[0] = acc;
}

PROGRAM(concrete_inside) /* a loop over constants, in a block of a graph: its turns are calls */
{
    tp_for (tp_dim(x, 0), &v) {
        tp_tensor *q = tp_full(st->tp, TP_F32, TP_DIMS(4), 1);
        tp_for (3, &q) {
            tp_tensor *i = k;
            q = tp_mul(q, tp_sin(v));
            tp_while (above(i, 0), &q, &i) {
                q = tp_tanh(tp_mul(q, st->p));
                i = up(i, -1);
            }
        }
        v = tp_tanh(tp_add(v, q));
    }
    out[0] = v;
}

PROGRAM(continues) /* `continue` ends a turn */
{
    tp_for (3, &v) {
        v = tp_mul(tp_cos(v), st->p);
        if (tp_rank(v) == 1)
            continue;
        v = tp_neg(v);
    }
    out[0] = v;
}

/* ---- closing over ---------------------------------------------------------------------------- */

PROGRAM(closes_over)
{
    tp_tensor *wide = tp_reshape(st->w, TP_DIMS(2, 8));    /* recorded, concrete */
    tp_tensor *bias = tp_mul(st->p, st->p);                /* the same */
    tp_tensor *ramp = tp_arange(st->tp, TP_F32, 4, 0, .5); /* a constant */
    tp_tensor *deep = tp_sin(x);                           /* symbolic, from two blocks out */
    tp_tensor *acc = v;
    tp_for (2, &acc) {
        tp_tensor *part = tp_slice(tp_each(wide), 0, 2, 6, 1);
        tp_if (above(s, 0), &acc) {
            acc = tp_add(tp_mul(acc, part), tp_add(bias, ramp));
            acc = tp_add(acc, tp_mean(deep, TP_DIMS(0), false));
        }
        acc = tp_mul(acc, bias);
    }
    out[0] = acc;
}

PROGRAM(concrete_in_graph) /* a loop over numbers of C unrolls in a graph */
{
    tp_tensor *c = tp_full(st->tp, TP_F32, TP_DIMS(4), 0.5), *n = NULL;
    tp_for (3, &c) {
        c = tp_mul(c, tp_cos(c));
        tp_emit(&n, c);
    }
    tp_if (above(mean(c), 0), &c) {
        c = tp_neg(c);
    }
    out[0] = tp_add(tp_mul(x, c), tp_mean(n, TP_DIMS(0), false));
}

/* ---- assignments, random numbers ------------------------------------------------------------- */

PROGRAM(assigns)
{
    tp_for (tp_dim(x, 0), &v) {
        tp_assign(st->q, tp_add(tp_mul(st->q, number(x, 0.9)), times(tp_each(x), 0.1)));
        tp_if (above(mean(read_now(st->q, x)), 0), &v) {
            tp_assign(st->z, tp_add(st->z, number(x, 1)));
            v = tp_mul(v, st->q);
        }
        tp_else
        {
            v = tp_add(v, st->z);
        }
    }
    out[0] = v;
    out[1] = tp_mul(st->z, s);
    out[2] = tp_add(st->q, v);
}

PROGRAM(statistics) /* a norm whose running statistics move in a branch and in a loop */
{
    tp_tensor *h = x;
    tp_if (above(s, -0.25), &h) {
        h = tp_batch_norm_train(h, st->p, NULL, st->mean, st->var, 0.1, 1e-3);
    }
    tp_else
    {
        h = tp_batch_norm(h, st->p, NULL, st->mean, st->var, 1e-3);
    }
    tp_for (2, &h) {
        h = tp_batch_norm_train(tp_matmul(h, st->w), NULL, NULL, st->mean, st->var, 0.1, 1e-3);
    }
    out[0] = h;
    out[1] = tp_add(read_now(st->mean, x), st->var);
}

PROGRAM(skipped_step) /* no step is taken when the gradient is not finite */
{
    tp_tensor *loss = tp_mean(tp_square(tp_linear(x, st->w, st->p)), TP_ALL, false);
    tp_if (above(s, 0.25), &loss) {
        loss = tp_div(loss, number(loss, 0));
    }
    tp_tensor *g[2], *done = NULL, *const of[] = {st->w, st->p};
    tp_grads(loss, NULL, 2, of, g);
    tp_tensor *size =
        tp_add(tp_sum(tp_square(g[0]), TP_ALL, false), tp_sum(tp_square(g[1]), TP_ALL, false));
    tp_if (below(size, 1e9), &done) {
        done = tp_optimizer_step(st->adam, loss);
    }
    tp_else
    {
        done = tp_scalar(st->tp, TP_BOOL, 0);
    }
    out[0] = tp_cast(done, TP_F32);
    out[1] = read_now(st->w, x);
}

PROGRAM(clipped_steps) /* several steps of training, each with its gradient clipped */
{
    tp_tensor *sum = times(s, 0);
    tp_for (3, &sum) {
        tp_tensor *loss = mean(tp_square(tp_sub(tp_matmul(x, st->w), st->p)));
        tp_tensor *g = tp_grad(loss, st->w);
        tp_tensor *size = tp_sqrt(tp_sum(tp_square(g), TP_ALL, false));
        tp_if (above(size, 0.1), &g) {
            g = tp_mul(g, tp_div(number(size, 0.1), size));
        }
        tp_assign(st->w, tp_sub(st->w, g));
        sum = tp_add(sum, loss);
    }
    out[0] = sum;
    out[1] = read_now(st->w, x);
}

PROGRAM(random_if) /* only the side that is taken moves the generator on */
{
    tp_if (above(s, 0), &v) {
        v = tp_add(v, tp_uniform_like(v, -1, 1));
        v = tp_mul(v, tp_normal_like(v, 0, 1));
    }
    tp_else
    {
        v = tp_dropout(v, 0.5);
    }
    out[0] = v;
    out[1] = tp_add(x, tp_uniform_like(x, 0, 1));
}

PROGRAM(random_loop)
{
    tp_tensor *i = k, *first = tp_uniform_like(s, 0, 1), *ys = NULL;
    tp_while (above(i, 0), &i, &v) {
        v = tp_add(times(v, 0.5), tp_normal_like(v, 0, 1));
        i = up(i, -1);
    }
    tp_for (tp_dim(x, 0), &v) {
        v = tp_dropout(tp_add(v, tp_each(x)), 0.25);
        tp_emit(&ys, tp_uniform_like(s, -1, 1));
    }
    out[0] = v;
    out[1] = tp_add(first, tp_normal_like(s, 0, 1));
    out[2] = ys;
}

PROGRAM(
    random_like_constant) /* drawn each turn, though its shape is that of what is known before */
{
    tp_tensor *c = tp_full(st->tp, TP_F32, TP_DIMS(4), 0.5);
    tp_for (3, &v) {
        v = tp_add(v, tp_mean(tp_normal_like(c, 0, 1), TP_ALL, false));
        tp_if (above(mean(v), 0), &v) {
            v = tp_sub(v, tp_mean(tp_uniform_like(c, 0, 1), TP_ALL, false));
        }
    }
    out[0] = v;
}

PROGRAM(random_unread) /* what nothing reads is drawn all the same, and moves the others on */
{
    tp_uniform_like(x, 0, 1);
    tp_for (2, &v) {
        tp_normal_like(x, 0, 1);
        tp_tensor *unread = s;
        tp_if (above(mean(v), 0), &unread) {
            unread = tp_mul(unread, tp_uniform_like(s, 0, 1));
        }
        v = tp_add(v, tp_normal_like(v, 0, 1));
        tp_uniform_like(v, 0, 1);
    }
    tp_tensor *unread = s;
    tp_while (below(unread, 2), &unread) {
        unread = tp_add(tp_abs(unread), tp_uniform_like(s, 0.25, 1));
    }
    out[0] = v;
    out[1] = tp_add(x, tp_uniform_like(x, 0, 1));
    tp_normal_like(v, 0, 1);
}

PROGRAM(
    random_streams) /* each goes on by itself, whatever sides and turns the others draw in */
{
    tp_tensor *ys = NULL, *i = k;
    tp_random_stream(st->tp, 2);
    tp_tensor *first = tp_uniform_like(s, 0, 1);
    tp_if (above(s, 0), &v) {
        v = tp_add(v, tp_uniform_like(v, -1, 1));
        tp_random_stream(st->tp, 0);
        v = tp_mul(v, tp_normal_like(v, 0, 1));
    }
    tp_else
    {
        tp_random_stream(st->tp, 1);
        v = tp_dropout(v, 0.5);
    }
    tp_for (tp_dim(x, 0), &v) {
        tp_random_stream(st->tp, 2);
        v = tp_dropout(tp_add(v, tp_each(x)), 0.25);
        tp_random_stream(st->tp, 0);
        tp_emit(&ys, tp_uniform_like(s, -1, 1));
    }
    tp_while (above(i, 0), &i, &v) {
        tp_random_stream(st->tp, 1);
        v = tp_add(times(v, 0.5), tp_normal_like(v, 0, 1));
        i = up(i, -1);
    }
    tp_random_stream(st->tp, 2);
    out[0] = tp_add(v, tp_uniform_like(v, 0, 1));
    tp_random_stream(st->tp, 0);
    out[1] = tp_add(first, tp_normal_like(s, 0, 1));
    out[2] = ys;
}

/* ---- gradients, scopes, functions inside -------------------------------------------------------- */

PROGRAM(grad_inside) /* Newton's method with a derivative that the library finds */
{
    v = tp_require_grad(tp_detach(v));
    tp_tensor *z = tp_mul(v, s), *far = number(s, 1);
    tp_while (above(far, 1e-3), &z, &far) {
        tp_tensor *f = tp_sub(tp_add(tp_mul(tp_square(z), z), z), v);
        tp_tensor *slope = tp_grad(f, z);
        z = tp_sub(z, tp_div(f, slope));
        far = tp_detach(tp_reduce_max(tp_abs(tp_div(f, slope)), TP_ALL, false));
    }
    out[0] = z;
}

PROGRAM(grad_of_outer) /* descends on a parameter from outside */
{
    tp_tensor *w = read_now(st->w, x);
    tp_for (3, &w) {
        tp_tensor *loss = mean(tp_square(tp_matmul(x, w)));
        tp_tensor *g = tp_grad(loss, w);
        w = tp_sub(w, tp_mul(g, s));
    }
    out[0] = tp_matmul(x, w);
}

PROGRAM(silent) /* with recording off, and detached */
{
    tp_for (3, &v) {
        const bool was = tp_recording(st->tp, false);
        tp_tensor *size = tp_sqrt(tp_sum(tp_square(v), TP_ALL, false));
        tp_recording(st->tp, was);
        v = tp_add(tp_div(v, up(size, 1)), tp_detach(tp_mul(v, st->p)));
    }
    out[0] = v;
}

PROGRAM(scopes)
{
    tp_for (3, &v) {
        tp_scope_begin(st->tp);
        tp_tensor *t = tp_keep(tp_mul(v, st->p));
        tp_tensor *u = tp_neg(t);
        tp_scope_begin(st->tp);
        tp_keep(u = tp_tanh(u));
        tp_scope_end(st->tp);
        tp_keep(u);
        tp_scope_end(st->tp);
        v = tp_add(t, u);
    }
    out[0] = v;
}

PROGRAM(calls) /* a captured function called in blocks */
{
    tp_tensor *h = x;
    tp_if (above(s, 0), &h) {
        h = tp_function_apply(st->helper, TP_TENSORS(h, v));
    }
    tp_for (2, &h) {
        h = tp_function_apply(st->helper, TP_TENSORS(tp_neg(h), st->p));
    }
    out[0] = h;
}

PROGRAM(checkpoints)
{
    tp_for (tp_dim(x, 0), &v) {
        tp_checkpoint(st->tp);
        v = tp_tanh(tp_add(tp_matmul(v, st->w), tp_each(x)));
    }
    tp_for (17, &v) {
        tp_checkpoint(st->tp);
        v = tp_sin(tp_add(tp_mul(v, st->p), s));
    }
    tp_tensor *i = k;
    tp_while (above(i, 0), &i, &v) {
        tp_checkpoint(st->tp);
        v = tp_cos(tp_mul(v, s));
        i = up(i, -1);
    }
    out[0] = v;
}

/* ---- the same with callbacks -------------------------------------------------------------------- */

typedef struct call {
    state *st;
    tp_tensor *s;
} call;

static void callback_then(void *user, int n, tp_tensor **v)
{
    const call *c = user;
    for (int i = 0; i < n; i++)
        v[i] = tp_mul(v[i], c->st->p);
}

static void callback_other(void *user, int n, tp_tensor **v)
{
    const call *c = user;
    for (int i = 0; i < n; i++)
        v[i] = tp_sub(tp_sin(v[i]), c->s);
}

static tp_tensor *callback_goes_on(void *user, int n, tp_tensor *const *v)
{
    (void)user, (void)n;
    return above(v[1], 0);
}

static void callback_turn(void *user, int n, tp_tensor **v)
{
    callback_other(user, n - 1, v);
    v[1] = up(v[1], -1);
}

static void callback_scan(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x,
                          int n_ys, tp_tensor **y)
{
    (void)n, (void)n_xs, (void)n_ys;
    const call *c = user;
    v[0] = tp_tanh(tp_add(tp_mul(v[0], c->s), x[0]));
    y[0] = tp_mul(v[0], x[1]);
    y[1] = mean(v[0]);
}

PROGRAM(callbacks)
{
    call c = {st, s};
    tp_tensor *a[2] = {v, k}, *xs[2] = {x, tp_neg(x)}, *ys[2];
    tp_cond(above(s, 0), callback_then, callback_other, &c, 1, a);
    tp_cond(above(s, 0.5), callback_then, NULL, &c, 1, a);
    tp_while_loop(callback_goes_on, callback_turn, &c, 2, a);
    tp_scan(tp_dim(x, 0), NULL, callback_scan, &c, 1, a, 2, xs, 2, ys);
    out[1] = ys[0];
    out[2] = ys[1];
    tp_scan(tp_dim(x, 0), &(tp_scan_options){.back = true, .checkpoint = true}, callback_scan,
            &c, 1, a, 2, xs, 2, ys);
    out[0] = a[0];
    out[3] = ys[0];
}

#define CASE_OF(name)                                                                          \
    {                                                                                          \
#name, name, true                                                                      \
    }
#define WITHOUT_GRADIENTS(name)                                                                \
    {                                                                                          \
#name, name, false                                                                     \
    }
const block_case block_cases[] = {
    CASE_OF(if_both),
    CASE_OF(if_alone),
    CASE_OF(if_null),
    CASE_OF(if_swap),
    CASE_OF(if_chain),
    CASE_OF(if_nested),
    CASE_OF(if_untaken_state),
    CASE_OF(while_count),
    CASE_OF(while_tolerance),
    CASE_OF(while_swap),
    CASE_OF(while_still),
    CASE_OF(while_emit),
    CASE_OF(while_long),
    CASE_OF(while_bool),
    CASE_OF(while_f64),
    CASE_OF(for_each),
    CASE_OF(for_back),
    CASE_OF(for_emit),
    CASE_OF(for_fixed),
    CASE_OF(for_none),
    CASE_OF(for_turn),
    CASE_OF(for_twice_each),
    CASE_OF(for_lengths),
    CASE_OF(for_sizes),
    CASE_OF(if_in_for),
    CASE_OF(for_in_if),
    CASE_OF(for_in_for),
    CASE_OF(while_in_for),
    CASE_OF(stacks_of_their_own),
    CASE_OF(all_in_all),
    CASE_OF(concrete_inside),
    CASE_OF(continues),
    CASE_OF(closes_over),
    CASE_OF(concrete_in_graph),
    WITHOUT_GRADIENTS(assigns),
    CASE_OF(statistics),
    WITHOUT_GRADIENTS(skipped_step),
    WITHOUT_GRADIENTS(clipped_steps),
    CASE_OF(random_if),
    CASE_OF(random_loop),
    CASE_OF(random_like_constant),
    CASE_OF(random_streams),
    CASE_OF(random_unread),
    CASE_OF(grad_inside),
    CASE_OF(grad_of_outer),
    CASE_OF(silent),
    CASE_OF(scopes),
    CASE_OF(calls),
    CASE_OF(checkpoints),
    CASE_OF(callbacks),
};
const int n_block_cases = sizeof block_cases / sizeof *block_cases;
