/* Matrices by their diagonals. A diagonal k has the elements [i, i + k]. */
#include "composite/composite.h"
#include "composite/places.h"

/* NULL when x has that many axes and k is a number, or a size. */
static tp_tensor *refuse(tpi_at at, const char *what, const tp_tensor *x, int rank, int64_t k)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (x->rank < rank)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, of fewer than %d axes",
                        SHAPE(x), rank);
    return tpi_refuse_size(at, what, "k", x, k);
}

/* ---- diagonals ------------------------------------------------------------------------------------ */

/* How many elements a diagonal has that begins at [row, column] of [m, n]. */
static int64_t diagonal_size(const tp_tensor *x, int64_t row, int64_t column)
{
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t m = x->shape[x->rank - 2], n = x->shape[x->rank - 1];
    const bool none = (m >= 0 && row > m) || (n >= 0 && column > n);
    return none ? 0
                : tpi_dim_min(dims, tpi_dim_sub(dims, m, row), tpi_dim_sub(dims, n, column));
}

tp_tensor *tpi_diagonal(tpi_at at, tp_tensor *x, int64_t k)
{
    tpi_dims *dims = tpi_dims_of(x);
    const bool below = k < 0 && !tpi_dim_is_symbolic(k);
    const int64_t row = below ? -k : 0, column = below ? 0 : k;
    const int64_t size = diagonal_size(x, row, column);
    if (size == 0)
        return tp_slice(tp_squeeze(tp_slice(x, -2, 0, 1, 1), -2), -1, 0, 0, 1);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = i < x->rank - 2 ? x->shape[i] : i == x->rank - 1 ? 1 : size;
    tp_tensor *rows = tp_slice(x, -2, row, tpi_dim_add(dims, row, size), 1);
    tp_tensor *place = tpi_beside(at, x, tpi_iota(at, x, size));
    place = tp_unsqueeze(tp_add(place, tpi_size_of(at, x, column, TP_I64)), 1);
    place = tp_broadcast(place, x->rank, shape);
    return tp_squeeze(tp_take_along(rows, place, -1), -1);
}

TPI_COMPOSITE(tp_diagonal, (tp_tensor * x, int64_t k), x, k)
{
    tp_tensor *failed = refuse(at, "diagonal", x, 2, k);
    return failed ? failed : tpi_diagonal(at, x, k);
}

TPI_COMPOSITE(tp_trace, (tp_tensor * x), x)
{
    tp_tensor *failed = refuse(at, "trace", x, 2, 0);
    return failed ? failed : tp_sum(tpi_diagonal(at, x, 0), TP_DIMS(-1), false);
}

/* column - row of [m, n] */
static tp_tensor *diagonals(tpi_at at, tp_tensor *x, int64_t m, int64_t n)
{
    return tp_sub(tpi_iota(at, x, n), tp_unsqueeze(tpi_iota(at, x, m), 1));
}

/* y with k more rows and columns around: such that its main diagonal becomes diagonal k. */
static tp_tensor *moved(tpi_at at, tp_tensor *y, int64_t k)
{
    int64_t lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    if (tp_failed(y))
        return y;
    const bool below = k < 0 && !tpi_dim_is_symbolic(k);
    const int rank = tp_rank(y), rows = rank - 2, columns = rank - 1;
    lo[below ? rows : columns] = hi[below ? columns : rows] = below ? -k : k;
    return tp_pad(y, rank, lo, hi, 0);
}

TPI_COMPOSITE(tp_diag, (tp_tensor * x, int64_t k), x, k)
{
    tp_tensor *failed = refuse(at, "diag", x, 1, k);
    if (failed)
        return failed;
    if (x->rank == TP_MAX_RANK)
        return tpi_fail(x->ctx, at, "diag", TP_E_SHAPE, "x is %s, and has %d axes already",
                        SHAPE(x), TP_MAX_RANK);
    const int64_t n = x->shape[x->rank - 1];
    tp_tensor *d = diagonals(at, x, n, n), *zero = tp_scalar_like(x, 0);
    tp_tensor *y = tp_where(tp_eq(d, tp_scalar_like(d, 0)), tp_unsqueeze(x, -2), zero);
    return k == 0 ? y : moved(at, y, k);
}

/* ---- triangles ------------------------------------------------------------------------------------- */

static tp_tensor *triangle(tpi_at at, const char *what, tp_tensor *x, int64_t k, bool upper)
{
    tp_tensor *failed = refuse(at, what, x, 2, k);
    if (failed)
        return failed;
    tp_tensor *d = diagonals(at, x, x->shape[x->rank - 2], x->shape[x->rank - 1]);
    tp_tensor *edge = tpi_size_of(at, x, k, TP_I64);
    tp_tensor *kept = upper ? tp_ge(d, edge) : tp_le(d, edge);
    return tp_where(kept, x, tp_scalar_like(x, 0));
}

TPI_COMPOSITE(tp_tril, (tp_tensor * x, int64_t k), x, k)
{
    return triangle(at, "tril", x, k, false);
}

TPI_COMPOSITE(tp_triu, (tp_tensor * x, int64_t k), x, k)
{
    return triangle(at, "triu", x, k, true);
}

TPI_COMPOSITE(tp_eye, (tp_ctx * tp, tp_dtype dtype, int64_t n, int64_t m, int64_t k), tp, dtype,
              n, m, k)
{
    tp_tensor *failed;
    if (!tpi_check_maker(tp, at, "eye", dtype, TP_DIMS(n, m), &failed))
        return failed;
    if (tpi_is_spoilt(k))
        return tpi_fail_spoilt(tp, at, "eye", TP_E_VALUE, k);
    tp_tensor *edge = tp_tensor_new(tp, TP_I64, TP_SCALAR, &k);
    return tp_cast(tp_eq(diagonals(at, edge, n, m), edge), dtype);
}
