/* Calls of transform.h: functions of one sample, and their derivatives. */
#include "monkey.h"

/* Sometimes one that has what it asks for: the functions are smooth, and of any types and sizes. */
static void arguments(monkey *m, many *in)
{
    tensors(m, in, 1 + below(m, 2));
    if (below(m, 2))
        in->of[0] = in->of[1] = fresh(m, TP_F32, TP_DIMS(2, 3));
}

/* TP_SHARED among them, and axes that are not there. */
static const tp_vmap_options *vmap_options(monkey *m, tp_vmap_options *opt, int axes[2][5])
{
    for (int i = 0; i < 5; i++) {
        axes[0][i] = below(m, 4) ? 0 : below(m, 2) ? TP_SHARED : axis(m);
        axes[1][i] = below(m, 4) ? 0 : axis(m);
    }
    *opt = (tp_vmap_options){.in_axes = below(m, 2) ? axes[0] : NULL,
                             .out_axes = below(m, 2) ? axes[1] : NULL,
                             .same_draws = below(m, 2)};
    return below(m, 2) ? opt : NULL;
}

CALL(tp_vmap)
{
    many in, out;
    int axes[2][5];
    tp_vmap_options opt;
    drawn_body b = {m, next(m)};
    arguments(m, &in);
    tensors(m, &out, 1 + below(m, 2));
    const tp_vmap_options *o = vmap_options(m, &opt, axes);
    if (m->depth > 1)
        return NOT_MADE;
    return put_many(m, &out,
                    tp_vmap(rarely(m) ? NULL : run_body, &b, in.n, in.in, out.n, out.out, o));
}

CALL(tp_vmap_apply)
{
    many in;
    int axes[2][5];
    tp_vmap_options opt;
    drawn_body b = {m, next(m)};
    arguments(m, &in);
    const tp_vmap_options *o = vmap_options(m, &opt, axes);
    if (m->depth > 1)
        return NOT_MADE;
    return put(m, tp_vmap_apply(rarely(m) ? NULL : run_body, &b, in.n, in.in, o));
}

CALL(tp_jvp)
{
    many in, out, dout;
    tp_tensor *din[5];
    drawn_body b = {m, next(m)};
    arguments(m, &in);
    for (int i = 0; i < 5; i++)
        din[i] = below(m, 4) == 0 || !in.in ? NULL : fellow(m, in.of[i % 2]);
    const int n = 1 + below(m, 2);
    tensors(m, &out, n);
    tensors(m, &dout, n);
    dout.n = out.n;
    if (m->depth > 1)
        return NOT_MADE;
    const tp_status s = tp_jvp(rarely(m) ? NULL : run_body, &b, in.n, in.in,
                               rarely(m) ? NULL : din, out.n, out.out, dout.out);
    put_many(m, &dout, s);
    return put_many(m, &out, s);
}

/* Matrices of more elements take too long. */
static int is_small(const many *in)
{
    for (int i = 0; i < in->n && in->in; i++) {
        const tp_tensor *x = in->in[i];
        if (x && !tp_failed(x) && !tp_is_symbolic(x) && tp_count(x) > 30)
            return 0;
    }
    return 1;
}

/* What a matrix of derivatives is asked of. */
typedef struct matrix_call {
    many in;
    drawn_body body;
    int of;
} matrix_call;

/* False: it takes too long. */
static bool draw_matrix_call(monkey *m, matrix_call *c)
{
    c->body = (drawn_body){m, next(m)};
    arguments(m, &c->in);
    c->of = rarely(m) ? axis(m) : 0;
    return m->depth <= 1 && is_small(&c->in);
}

CALL(tp_jacobian)
{
    matrix_call c;
    if (!draw_matrix_call(m, &c))
        return NOT_MADE;
    return put(m, tp_jacobian(rarely(m) ? NULL : run_body, &c.body, c.in.n, c.in.in, c.of));
}

CALL(tp_hessian)
{
    matrix_call c;
    if (!draw_matrix_call(m, &c))
        return NOT_MADE;
    return put(m, tp_hessian(rarely(m) ? NULL : run_body, &c.body, c.in.n, c.in.in, c.of));
}

CALL(tp_hvp)
{
    many in;
    drawn_body b = {m, next(m)};
    arguments(m, &in);
    const int of = rarely(m) ? axis(m) : 0;
    tp_tensor *v = in.in ? fellow(m, in.of[0]) : tensor(m);
    if (m->depth > 1)
        return NOT_MADE;
    return put(m, tp_hvp(rarely(m) ? NULL : run_body, &b, in.n, in.in, of, v));
}
