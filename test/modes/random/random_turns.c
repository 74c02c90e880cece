/* Branches and loops, one in the other. */
#include "random_program.h"

/* Something of h's shape, from h and the mean of x. */
static tp_tensor *mixed(int64_t i, tp_tensor *h, tp_tensor *x)
{
    tp_tensor *m = tp_sigmoid(tp_mean(x, TP_ALL, false));
    switch (i & 3) {
    case 0:
        return tp_tanh(tp_mul(h, m));
    case 1:
        return tp_sub(tp_sin(h), m);
    case 2:
        return tp_mul(tp_cos(tp_add(h, m)), m);
    default:
        return tp_add(tp_mul(h, tp_scalar_like(h, 0.5)), tp_abs(m));
    }
}

static tp_tensor *is_positive(int64_t i, tp_tensor *x)
{
    tp_tensor *m = tp_mean(x, TP_ALL, false);
    return tp_gt(m, tp_scalar_like(m, (double)(i % 5) * 0.1 - 0.2));
}

tp_tensor *branch_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *h = a, *k = b;
    tp_if (is_positive(i, b), &h, &k) {
        h = mixed(j, a, b);
        k = mixed(i, b, b);
    }
    tp_else
    {
        if (j & 4)
            h = mixed(j + 1, a, b);
        k = mixed(i + 1, b, a);
    }
    return j & 8 ? tp_mul(h, tp_mean(k, TP_ALL, false)) : tp_add(h, tp_mean(k, TP_ALL, false));
}

/* Up to three turns, as many as a value says. */
tp_tensor *while_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *h = a, *ys = NULL;
    tp_tensor *m = tp_sigmoid(tp_mean(b, TP_ALL, false));
    tp_tensor *left = tp_cast(tp_floor(tp_mul(m, tp_scalar_like(m, 6.5))), TP_I64);
    left = tp_mod(left, tp_scalar_like(left, 3));
    if (j & 2) /* a stack of nothing is none */
        left = tp_add(left, tp_scalar_like(left, 1));
    tp_while (tp_gt(left, tp_scalar_like(left, 0)), &h, &left) {
        h = mixed(i, h, b);
        if (j & 1) {
            tp_if (is_positive(j, h), &h) {
                h = mixed(j, h, b);
            }
        }
        left = tp_sub(left, tp_scalar_like(left, 1));
        if (j & 2)
            tp_emit(&ys, h);
    }
    return j & 2 ? tp_add(h, tp_sum(ys, TP_DIMS(0), false)) : h;
}

/* Over the rows of a, forwards or back. */
tp_tensor *rows_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b)
{
    if (tp_rank(a) == 0)
        return NULL;
    tp_tensor *h = tp_mul(tp_mean(a, TP_DIMS(0), false), tp_scalar_like(a, 0.25)), *ys = NULL;
    if (j & 1) {
        tp_for_back (tp_dim(a, 0), &h) {
            h = mixed(i, tp_add(h, tp_each(a)), b);
            tp_emit(&ys, tp_mul(h, h));
        }
    } else {
        tp_for (tp_dim(a, 0), &h) {
            tp_tensor *x = tp_each(a);
            if (j & 4) {
                tp_for (2, &h) {
                    h = mixed(i + 1, h, x);
                }
            }
            h = mixed(i, tp_add(h, x), b);
            tp_emit(&ys, h);
        }
    }
    return j & 2 ? tp_add(ys, h) : ys;
}

/* Products with one matrix, in the turns of a loop, on a side of a branch and outside of both: they give it
 * one gradient. */
tp_tensor *cell_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b)
{
    if (tp_rank(a) != 2)
        return NULL;
    tp_tensor *w = tp_tanh(tp_matmul(tp_swap(a, 0, 1), a)), *h = a;
    const int64_t turns = j & 1 ? tp_dim(a, 0) : 2;
    tp_for (turns, &h) {
        h = tp_tanh(tp_matmul(h, w));
        if (j & 2) {
            tp_if (is_positive(i, h), &h) {
                h = tp_matmul(tp_sin(h), w);
            }
        }
    }
    if (j & 4) {
        tp_if (is_positive(i + 1, b), &h) {
            h = tp_matmul(tp_cos(h), w);
        }
    }
    return j & 8 ? tp_matmul(h, w) : tp_add(h, tp_mean(b, TP_ALL, false));
}
