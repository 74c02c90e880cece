/* What composites refuse, with their name and the user's line, and what several are made of. */
#include "composite/composite.h"

#include "base/float_mode.h"
#include "core/dim.h"
#include "ir/graph_def.h"

#include <float.h>

tp_tensor *tpi_refuse_float(tpi_at at, const char *what, int n, tp_tensor *const *in)
{
    const tp_tensor *x = in[0];
    tp_tensor *failed =
        x ? tpi_refuse_operand(NULL, at, what, 0, x) : tpi_refuse_operands(at, what, n, in);
    if (failed || x->dtype >= TP_F32)
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE, "x is %s; tp_cast it to f32 or f64 first",
                    tp_dtype_name((tp_dtype)x->dtype));
}

tp_tensor *tpi_refuse_channels(tpi_at at, const char *what, const char *name,
                               const tp_tensor *x, int axis, tp_tensor *p)
{
    if (!p)
        return NULL;
    tp_tensor *failed = tpi_refuse_operand(x->ctx, at, what, 0, p);
    if (failed || (p->rank == 1 && p->shape[0] == x->shape[axis]))
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_SHAPE,
                    "%s is %s, not one number for axis %d of x %s", name, SHAPE(p), axis,
                    SHAPE(x));
}

tp_tensor *tpi_refuse_number(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                             double v, double lo, double hi)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (tpi_is_near_handle(x->ctx, v))
        return tpi_fail_near_handle(x->ctx, at, what, v);
    if (v >= lo && v <= hi)
        return NULL;
    if (hi == DBL_MAX)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%s is %g, not at least %g", name, v, lo);
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%s is %g, not in [%g, %g]", name, v, lo, hi);
}

tp_tensor *tpi_refuse_count(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                            int64_t v, int64_t lo)
{
    if (tpi_is_spoilt(v))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, v);
    if (v >= lo)
        return NULL;
    return tpi_fail(x->ctx, at, what, TP_E_VALUE, "%s is %lld, not at least %lld", name,
                    (long long)v, (long long)lo);
}

tp_tensor *tpi_refuse_integer(tpi_at at, const char *what, const tp_tensor *x, const char *name,
                              int i, tp_tensor *t)
{
    tp_tensor *failed = tpi_refuse_operand(x->ctx, at, what, i, t);
    if (failed || (t->dtype != TP_BOOL && t->dtype < TP_F32))
        return failed;
    return tpi_fail(x->ctx, at, what, TP_E_DTYPE,
                    "%s are %s; tp_cast them to an integer type first", name,
                    tp_dtype_name((tp_dtype)t->dtype));
}

bool tpi_is_here(const tp_tensor *t)
{
    if (t->status != TP_OK || t->graph || !t->data)
        return false;
    const bool later = t->ctx->tracing && t->flags & TPI_VARIABLE; /* a turn may assign it */
    return !later && !(t->flags & TPI_LAZY) && !(t->buf && t->buf->assigned) &&
           t->flags & TPI_CONTIGUOUS;
}

int64_t tpi_whole_at(const tp_tensor *t, int64_t i)
{
    return tpi_load_i64((tp_dtype)t->dtype, t->data + i * tpi_elem_size(t));
}

int64_t tpi_first_outside(const tp_tensor *t, int64_t from, int64_t lo, int64_t hi)
{
    const int64_t n = tpi_count(t);
    int64_t i = from;
    if (t->dtype == TP_I64)
        for (const int64_t *v = (const int64_t *)(const void *)t->data;
             i < n && v[i] >= lo && v[i] <= hi; i++)
            ;
    else
        while (i < n && tpi_whole_at(t, i) >= lo && tpi_whole_at(t, i) <= hi)
            i++;
    return i;
}

tp_tensor *tpi_lengths_of(tpi_at at, const char *what, const char *name, tp_tensor *lengths,
                          tp_tensor *x, int axis, tp_tensor **failed)
{
    const int64_t size = x->shape[axis];
    const bool here = tpi_is_here(lengths) && lengths->dtype != TP_U64;
    if (here && !tpi_dim_is_symbolic(size)) {
        const int64_t bad = tpi_first_outside(lengths, 0, 0, size);
        if (bad < tpi_count(lengths))
            return *failed = tpi_fail(lengths->ctx, at, what, TP_E_VALUE,
                                      "%lld at position %lld of the %s is not in 0 to %lld",
                                      (long long)tpi_whole_at(lengths, bad), (long long)bad,
                                      name, (long long)size);
    }
    lengths = tpi_as_index(at, lengths);
    if (here && !x->graph && !x->ctx->frame)
        return lengths;
    const int64_t first = 0;
    tp_tensor *all = tpi_iota(at, x, tpi_dim_add(tpi_dims_of(x), size, 1));
    /* none is counted from the end */
    tp_tensor *below = tp_sub(lengths, tp_extent(all, 1, &first, TP_I64));
    return tp_gather(all, tp_where(tp_lt(lengths, 0), below, lengths), 0);
}

tp_tensor *tpi_beside(tpi_at at, const tp_tensor *x, tp_tensor *p)
{
    return p && x->graph && !p->graph ? tpi_graph_lift(tpi_graph_here(x), at, p) : p;
}

tp_tensor *tpi_together(tpi_at at, const char *what, int n, int most, tp_tensor *const *xs,
                        tp_tensor **in)
{
    if (n < 1 || !xs)
        return (tp_tensor *)&tpi_nil;
    tp_tensor *failed = tpi_refuse_operands(at, what, n > most ? 1 : n, xs);
    if (n > most && !failed)
        failed = tpi_fail(xs[0]->ctx, at, what, TP_E_VALUE, "%d operands: at most %d", n, most);
    const tp_tensor *symbolic = NULL;
    for (int i = 0; i < n && !failed && !symbolic; i++)
        symbolic = xs[i]->graph ? xs[i] : NULL;
    for (int i = 0; i < n && !failed; i++) {
        in[i] = symbolic ? tpi_beside(at, symbolic, xs[i]) : xs[i];
        failed = in[i]->status == TP_OK ? NULL : in[i];
    }
    return failed;
}

int tpi_own_axis(tpi_at at, const char *what, const tp_tensor *x, int64_t axis,
                 tp_tensor **failed)
{
    *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (*failed)
        return -1;
    const int own = tpi_axis(axis, x->rank);
    if (own < 0)
        *failed = tpi_fail(x->ctx, at, what, TP_E_AXIS, "axis %lld is out of range for %s",
                           (long long)axis, SHAPE(x));
    return own;
}

tp_tensor *tpi_refuse_size(tpi_at at, const char *what, const char *name, const tp_tensor *x,
                           int64_t v)
{
    if (tpi_is_spoilt_size(v))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, v);
    if (v == TPI_NO_DIM || (tpi_dim_is_symbolic(v) && !tpi_dim_is_size(tpi_dims_of(x), v)))
        return tpi_fail(x->ctx, at, what, TP_E_VALUE,
                        "%s is no number, and no size of x's graph", name);
    return NULL;
}

/* NULL when the sizes broadcast. */
static tp_tensor *refuse_sizes(tpi_at at, const char *what, const tp_tensor *a,
                               const tp_tensor *b)
{
    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        const int64_t m = a->shape[a->rank - i], n = b->shape[b->rank - i];
        if (m != n && m != 1 && n != 1)
            return tpi_fail(a->ctx, at, what, TP_E_SHAPE, "sizes do not broadcast: %s and %s",
                            SHAPE(a), SHAPE(b));
    }
    return NULL;
}

tp_tensor *tpi_refuse_pair(tpi_at at, const char *what, bool floats, tp_tensor **a,
                           tp_tensor **b)
{
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(*a, *b));
    if (failed)
        return failed;
    *a = tpi_beside(at, *b, *a);
    *b = tpi_beside(at, *a, *b);
    tpi_meet(at, a, b);
    const tp_dtype t = tp_dtype_of(*a);
    if (floats ? t >= TP_F32 : t != TP_BOOL)
        return refuse_sizes(at, what, *a, *b);
    return tpi_fail((*a)->ctx, at, what, TP_E_DTYPE,
                    "operands are %s; tp_cast them to %s first", tp_dtype_name(t),
                    floats ? "f32 or f64" : "numbers");
}

tp_tensor *tpi_turned(tpi_at at, tp_tensor *negative, tp_tensor *x)
{
    return tp_where(negative, tp_neg(x), x);
}
void tpi_all_beside(tpi_at at, int n, tp_tensor **const *t)
{
    const tp_tensor *symbolic = NULL;
    for (int i = 0; i < n && !symbolic; i++)
        symbolic = *t[i] && (*t[i])->graph ? *t[i] : NULL;
    for (int i = 0; i < n && symbolic; i++)
        *t[i] = tpi_beside(at, symbolic, *t[i]);
}

tp_tensor *tpi_whole(tpi_at at, tp_tensor *like, double v)
{
    return tp_cast(tp_scalar_like(like, v), TP_I64);
}
