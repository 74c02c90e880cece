/* Programs that read variables around assignments: what a block takes in, hands out and stacks is a
 * value, and stays what it was. */
#include "block_cases.h"

PROGRAM(enters_as_variable)
{
    tp_tensor *a = st->q, *h = v, *i = tp_max(k, number(k, 1));
    tp_for (tp_dim(x, 0), &a, &h) {
        tp_assign(st->q, tp_tanh(tp_add(a, h)));
        a = tp_add(a, st->q); /* a is not q any more */
        h = tp_neg(h);
    }
    out[0] = a;
    tp_tensor *b = st->q;
    tp_while (above(i, 0), &i, &b) {
        tp_assign(st->q, times(st->q, 0.5));
        b = tp_sub(b, st->q);
        i = up(i, -1);
    }
    out[1] = b;
    out[2] = read_now(st->q, x);
}

PROGRAM(enters_as_view)
{
    tp_tensor *a = tp_flip(tp_slice(st->q, 0, 0, 4, 1), TP_DIMS(0)), *h = v;
    tp_for (tp_dim(x, 0), &a, &h) {
        tp_assign(st->q, tp_tanh(tp_add(a, h)));
        h = tp_neg(a);
        a = tp_sub(tp_each(x), a);
    }
    out[0] = a;
    out[1] = read_now(st->q, x);
}

PROGRAM(leaves_as_variable)
{
    tp_tensor *a = v, *b = v, *c = v;
    tp_for (tp_dim(x, 0), &a) {
        tp_assign(st->q, tp_tanh(tp_add(a, st->q)));
        a = st->q;
    }
    tp_assign(st->q, tp_mul(st->q, s));
    tp_if (above(s, 0), &b, &c) {
        b = st->q;
        c = tp_slice(st->q, 0, 0, 4, 1);
    }
    tp_else
    {
        b = c = tp_neg(st->q);
    }
    tp_assign(st->q, tp_add(st->q, v));
    out[0] = tp_mul(a, v);
    out[1] = tp_mul(b, v);
    out[2] = tp_add(c, v);
    out[3] = tp_add(st->q, v);
}

PROGRAM(passes_through) /* the handle reads what the side assigned; what leaves stays */
{
    tp_tensor *a = st->q, *z = st->z;
    tp_if (above(s, 0), &a) {
        tp_assign(st->q, tp_add(a, v));
        tp_assign(st->q, tp_mul(a, s));
    }
    tp_assign(st->q, tp_sub(st->q, v));
    tp_for (3, &z, &v) {
        tp_if (above(z, 0.5), &z) {
            tp_assign(st->z, tp_add(z, s));
        }
        tp_assign(st->z, up(st->z, 0.25));
        z = st->z;
        v = tp_neg(v);
    }
    tp_assign(st->z, tp_sub(st->z, s));
    out[0] = tp_mul(a, v);
    out[1] = tp_mul(z, s);
    out[2] = tp_add(st->q, v);
    out[3] = tp_add(st->z, s);
}

PROGRAM(emits_variable)
{
    tp_tensor *a = v, *ys = NULL, *zs = NULL, *us = NULL;
    tp_for (tp_dim(x, 0), &a) {
        tp_emit(&ys, st->q);
        tp_emit(&us, tp_slice(st->q, 0, 0, 4, 2));
        tp_assign(st->q, tp_tanh(tp_add(st->q, a)));
        tp_emit(&zs, st->q);
        tp_assign(st->q, tp_mul(st->q, tp_each(x)));
        a = tp_sub(a, st->q);
    }
    tp_assign(st->q, tp_neg(a));
    out[0] = tp_add(ys, zs);
    out[1] = us;
    out[2] = a;
    out[3] = tp_add(st->q, v);
}

PROGRAM(view_in_turn) /* made and read before the assignment, in each turn */
{
    tp_tensor *a = v;
    tp_for (tp_dim(x, 0), &a) {
        tp_tensor *half = tp_slice(st->q, 0, 0, 2, 1);
        tp_tensor *all = tp_concat(2, (tp_tensor *[]){half, half}, 0);
        tp_assign(st->q, tp_tanh(tp_add(all, a)));
        tp_tensor *again = tp_slice(st->q, 0, 2, 4, 1);
        tp_if (above(mean(a), 0), &a) {
            a = tp_sub(a, tp_sum(again, TP_ALL, false));
        }
        tp_assign(st->q, tp_neg(st->q));
        a = tp_add(a, st->q);
    }
    out[0] = a;
    out[1] = read_now(st->q, x);
}

PROGRAM(no_turns) /* takes in a value all the same */
{
    tp_tensor *a = st->q, *b = st->p, *i = times(k, 0);
    tp_while (above(i, 0), &i, &a, &b) {
        a = b = tp_add(a, b);
        i = up(i, -1);
    }
    tp_assign(st->q, tp_add(a, v));
    out[0] = tp_mul(a, v);
    out[1] = tp_add(tp_mul(b, v), tp_mul(b, s));
    out[2] = tp_add(st->q, v);
}

/* Parameters as what goes in, comes out and is stacked: the contributions to their gradients add up
 * in one order. */
PROGRAM(params_through)
{
    tp_tensor *a = st->p, *b = st->p, *c = tp_slice(st->p, 0, 0, 4, 1), *ys = NULL, *zs = NULL;
    a = tp_mul(a, s);
    tp_for (tp_dim(x, 0), &a, &b) {
        a = tp_tanh(tp_add(tp_mul(a, st->p), tp_each(x)));
        tp_emit(&ys, st->p);
        a = tp_mul(tp_add(a, c), st->p);
        tp_emit(&zs, tp_flip(st->p, TP_DIMS(0)));
        a = tp_sub(tp_sin(a), tp_mul(c, b));
        b = st->p;
    }
    tp_if (above(s, 0), &b, &c) {
        b = tp_mul(b, tp_mul(st->p, c));
        c = st->p;
    }
    out[0] = tp_mul(a, st->p);
    out[1] = tp_mul(b, tp_sin(c));
    out[2] = tp_mul(ys, v);
    out[3] = tp_mul(zs, a);
}

/* Steps taken on a copy of the parameters, and on them. */
PROGRAM(inner_steps)
{
    tp_tensor *w = st->w, *sum = s;
    tp_for (2, &w, &sum) {
        tp_tensor *loss = mean(tp_square(tp_matmul(x, w)));
        w = tp_sub(w, times(tp_grad(loss, w), 0.1));
        tp_assign(st->z, loss);
        sum = tp_add(sum, loss);
    }
    out[0] = tp_matmul(x, w);
    out[1] = tp_mul(st->z, s);
    out[2] = sum;
}

#define CASE_OF(name)                                                                          \
    {                                                                                          \
#name, name, true                                                                      \
    }

const block_case state_cases[] = {
    CASE_OF(enters_as_variable), CASE_OF(enters_as_view), CASE_OF(leaves_as_variable),
    CASE_OF(passes_through),     CASE_OF(emits_variable), CASE_OF(view_in_turn),
    CASE_OF(no_turns),           CASE_OF(params_through), CASE_OF(inner_steps),
};
const int n_state_cases = sizeof state_cases / sizeof *state_cases;
