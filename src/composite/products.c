/* Products of vectors, and of arrays by their axes. */
#include "composite/einsum.h"

/* Two operands in one graph, or in none, of `rank` axes (-1: any). NULL, or the failed tensor to return. */
static tp_tensor *both(tpi_at at, const char *what, tp_tensor *a, tp_tensor *b, int rank,
                       tp_tensor **in)
{
    tp_tensor *failed = tpi_together(at, what, 2, 2, (tp_tensor *[]){a, b}, in);
    if (failed || rank < 0 || (a->rank == rank && b->rank == rank))
        return failed;
    return tpi_fail(a->ctx, at, what, TP_E_SHAPE, "a is %s and b %s, of which one is no vector",
                    SHAPE(a), SHAPE(b));
}

TPI_COMPOSITE(tp_dot, (tp_tensor * a, tp_tensor *b), a, b)
{
    tp_tensor *in[2], *failed = both(at, "dot", a, b, 1, in);
    if (failed)
        return failed;
    if (a->shape[0] != b->shape[0])
        return tpi_fail(a->ctx, at, "dot", TP_E_SHAPE, "sizes differ: a %s, b %s", SHAPE(a),
                        SHAPE(b));
    return tp_matmul(in[0], in[1]);
}

TPI_COMPOSITE(tp_outer, (tp_tensor * a, tp_tensor *b), a, b)
{
    tp_tensor *in[2], *failed = both(at, "outer", a, b, 1, in);
    return failed ? failed : tp_mul(tp_unsqueeze(in[0], 1), in[1]);
}

/* Each axis of x becomes one before one of size 1 (a) or behind it (b), of `rank` axes. */
static tp_tensor *interleaved(tpi_at at, tp_tensor *x, int rank, bool behind)
{
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        const int own = i - (rank - x->rank);
        shape[2 * i + behind] = own < 0 ? 1 : x->shape[own];
        shape[2 * i + !behind] = 1;
    }
    return tp_reshape(x, 2 * rank, shape);
}

TPI_COMPOSITE(tp_kron, (tp_tensor * a, tp_tensor *b), a, b)
{
    tp_tensor *in[2], *failed = both(at, "kron", a, b, -1, in);
    if (failed)
        return failed;
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    if (2 * rank > TP_MAX_RANK)
        return tpi_fail(a->ctx, at, "kron", TP_E_SHAPE,
                        "a is %s and b %s, of more than %d axes", SHAPE(a), SHAPE(b),
                        TP_MAX_RANK / 2);
    tp_tensor *y =
        tp_mul(interleaved(at, in[0], rank, false), interleaved(at, in[1], rank, true));
    tpi_dims *dims = tpi_dims_of(y);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = tpi_dim_mul(dims, y->shape[2 * i], y->shape[2 * i + 1]);
    return tp_reshape(y, rank, shape);
}

/* ---- tensordot ------------------------------------------------------------------------------------- */

/* NULL when x has the n axes, each once; own[i] counted from the front. */
static tp_tensor *refuse_axes(tpi_at at, const tp_tensor *x, int n, const int64_t *axes,
                              int *own)
{
    unsigned seen = 0;
    if (n < 0 || n > TP_MAX_RANK || (n > 0 && !axes))
        return tpi_fail(x->ctx, at, "tensordot", TP_E_VALUE, "%d axes in no array", n);
    for (int i = 0; i < n; i++) {
        if (tpi_is_spoilt(axes[i]))
            return tpi_fail_spoilt(x->ctx, at, "tensordot", TP_E_AXIS, axes[i]);
        own[i] = tpi_axis(axes[i], x->rank);
        if (own[i] < 0 || (seen >> own[i] & 1))
            return tpi_fail(x->ctx, at, "tensordot", TP_E_AXIS,
                            own[i] < 0 ? "axis %lld is out of range for %s"
                                       : "axis %lld of %s is named twice",
                            (long long)axes[i], SHAPE(x));
        seen |= 1u << own[i];
    }
    return NULL;
}

static tp_tensor *refuse_pairs(tpi_at at, const tp_tensor *a, const tp_tensor *b, int n,
                               const int *of_a, const int *of_b)
{
    for (int i = 0; i < n; i++)
        if (a->shape[of_a[i]] != b->shape[of_b[i]])
            return tpi_fail(a->ctx, at, "tensordot", TP_E_SHAPE,
                            "axis %d of a %s and axis %d of b %s differ", of_a[i], SHAPE(a),
                            of_b[i], SHAPE(b));
    if (a->rank + b->rank - 2 * n > TP_MAX_RANK)
        return tpi_fail(a->ctx, at, "tensordot", TP_E_SHAPE, "the result has more than %d axes",
                        TP_MAX_RANK);
    return NULL;
}

/* Pairs have one label; the others, each its own, are the result's. */
static void label(tpi_einsum *e, const tp_tensor *a, const tp_tensor *b, int n, const int *of_a,
                  const int *of_b)
{
    int pair_a[TP_MAX_RANK] = {0}, pair_b[TP_MAX_RANK] = {0};
    *e = (tpi_einsum){
        .in = {{.n = a->rank}, {.n = b->rank}}
    };
    for (int i = 0; i < n; i++)
        pair_a[of_a[i]] = pair_b[of_b[i]] = i + 1;
    for (int i = 0; i < a->rank; i++) {
        e->in[0].of[i] = (char)(pair_a[i] ? pair_a[i] - 1 : TP_MAX_RANK + i);
        if (!pair_a[i])
            e->out.of[e->out.n++] = e->in[0].of[i];
    }
    for (int i = 0; i < b->rank; i++) {
        e->in[1].of[i] = (char)(pair_b[i] ? pair_b[i] - 1 : 2 * TP_MAX_RANK + i);
        if (!pair_b[i])
            e->out.of[e->out.n++] = e->in[1].of[i];
    }
}

TPI_COMPOSITE(tp_tensordot,
              (tp_tensor * a, tp_tensor *b, int n, const int64_t *axes_a,
               const int64_t *axes_b),
              a, b, n, axes_a, axes_b)
{
    int of_a[TP_MAX_RANK], of_b[TP_MAX_RANK];
    tpi_einsum e;
    tp_tensor *in[2], *failed = both(at, "tensordot", a, b, -1, in);
    if (failed || (failed = refuse_axes(at, a, n, axes_a, of_a)) != NULL ||
        (failed = refuse_axes(at, b, n, axes_b, of_b)) != NULL ||
        (failed = refuse_pairs(at, a, b, n, of_a, of_b)) != NULL)
        return failed;
    label(&e, a, b, n, of_a, of_b);
    return tpi_einsum_of(at, "tensordot", &e, 2, in);
}
