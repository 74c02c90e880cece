/* Orthogonal factors: QR, eigenvectors of symmetric matrices, singular vectors, least squares. An op's result is a row of
 * numbers for each matrix, which the functions cut into their results. Gradients: M. Seeger and others, "Auto-differentiating
 * linear algebra" (2017), for QR; M. B. Giles (2008) for eigenvectors; J. Townsend, "Differentiating the singular value
 * decomposition" (2016). */
#include "base/float_mode.h"
#include "ir/factors.h"
#include "op/set_calls.h"
#include "op/stacks.h"
#include "tapir/composites.h"
#include "tapir/linalg.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

#define OP(name_, ...)                                                                         \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .n_in = 1,                                                  \
                                   .kind = TPI_CALL,                                           \
                                   .factors = tpi_stack_factors,                               \
                                   .text = "orthogonal",                                       \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   .isa_call = TPI_ISA_of_op,                                  \
                                   .grad_reads_x = true,                                       \
                                   .grad_reads_y = true,                                       \
                                   __VA_ARGS__}

/* ---- rows of numbers -------------------------------------------------------------------------------- */

/* The sizes of x's matrices: [m, n], and the less of them. */
typedef struct extents {
    tpi_dims *dims;
    int64_t m, n, k;
} extents;

static extents extents_of(tpi_dims *dims, const tp_tensor *x)
{
    const int64_t m = x->shape[x->rank - 2], n = x->shape[x->rank - 1];
    return (extents){dims, m, n, tpi_dim_min(dims, m, n)};
}

/* a b + c */
static int64_t area(tpi_dims *dims, int64_t a, int64_t b, int64_t c)
{
    return tpi_dim_add(dims, tpi_dim_mul(dims, a, b), c);
}

/* The result is a row of so many numbers for each matrix of operand 0. */
static bool infer_row(tpi_infer *q, int64_t size)
{
    tpi_infer_like(q, 0);
    q->rank--;
    q->shape[q->rank - 1] = size;
    return true;
}

/* From element *from of each row of y on, a matrix [rows, columns]; or, of no columns, a vector. */
static tp_tensor *cut(tpi_at at, tp_tensor *y, int64_t *from, int64_t rows, int64_t columns)
{
    if (y->status != TP_OK)
        return y;
    tpi_dims *dims = tpi_dims_of(y);
    int64_t shape[TP_MAX_RANK];
    const int last = y->rank - 1;
    const int64_t size = columns == TPI_NO_DIM ? rows : tpi_dim_mul(dims, rows, columns);
    const int64_t to = tpi_dim_add(dims, *from, size);
    tp_tensor *part = tpi_slice(at, y, last, *from, tpi_dim_sub(dims, y->shape[last], to), 1);
    *from = to;
    if (columns == TPI_NO_DIM)
        return part;
    memcpy(shape, y->shape, sizeof *shape * (size_t)last);
    shape[last] = rows;
    shape[last + 1] = columns;
    return tp_reshape(part, last + 2, shape);
}

static tp_tensor *turned(tpi_at at, tp_tensor *x)
{
    return tp_swap(x, -2, -1);
}

static tp_tensor *half(tpi_at at, tp_tensor *x)
{
    return tp_mul(x, tp_scalar_like(x, 0.5));
}

/* x [..., m, n] times s [..., n] by columns. */
static tp_tensor *by_columns(tpi_at at, tp_tensor *x, tp_tensor *s)
{
    return tp_mul(x, tp_unsqueeze(s, -2));
}

/* x f, but 0 where x is, also if f is infinite: what does not depend on vectors has a gradient. */
static tp_tensor *where_any(tpi_at at, tp_tensor *x, tp_tensor *f)
{
    tp_tensor *zero = tp_scalar_like(x, 0);
    return tp_where(tp_eq(x, zero), zero, tp_mul(x, f));
}

/* 1 / (b[j] - a[i]) at [i, j], of a sum 1 / (b[j] + a[i]); but 0 on the diagonal. */
static tp_tensor *gaps(tpi_at at, tp_tensor *a, tp_tensor *b, bool sum)
{
    tp_tensor *row = tp_unsqueeze(b, -2), *column = tp_unsqueeze(a, -1);
    tp_tensor *gap = sum ? tp_add(row, column) : tp_sub(row, column);
    tp_tensor *on = tpi_unit(at, gap), *zero = tp_scalar_like(gap, 0);
    tp_tensor *one = tp_scalar_like(gap, 1);
    tp_tensor *is = tp_ne(on, zero);
    return tp_where(is, zero, tp_div(one, tp_where(is, one, gap)));
}

/* ---- QR: m k numbers of q, k n of r, k that are room --------------------------------------------------- */

static bool qr_infer(tpi_infer *q)
{
    if (!tpi_infer_stack(q, 0))
        return false;
    const extents e = extents_of(q->dims, q->in[0]);
    return infer_row(q, area(q->dims, e.m, e.k, area(q->dims, e.k, e.n, e.k)));
}

static void cut_qr(tpi_at at, tp_tensor *y, const tp_tensor *a, tp_tensor **q, tp_tensor **r)
{
    const extents e = extents_of(tpi_dims_of(y), a);
    int64_t from = 0;
    *q = cut(at, y, &from, e.m, e.k);
    *r = cut(at, y, &from, e.k, e.n);
}

/* x with the triangle below its diagonal that above it. */
static tp_tensor *mirrored(tpi_at at, tp_tensor *x)
{
    return tp_add(tpi_triangle(at, x, false, false),
                  turned(at, tpi_triangle(at, x, false, true)));
}

/* Of m >= n: (dq + q M) r^-T with M the mirrored r dr' - dq' q. */
static tp_tensor *tall_grad(tpi_at at, tp_tensor *q, tp_tensor *r, tp_tensor *dq, tp_tensor *dr)
{
    tp_tensor *m = tp_sub(tp_matmul(r, turned(at, dr)), tp_matmul(turned(at, dq), q));
    tp_tensor *sum = tp_add(dq, tp_matmul(q, mirrored(at, m)));
    return turned(at, tp_solve_triangular(r, turned(at, sum), true, false, false));
}

/* a = [x y], r = [u v], where y and v have no columns unless m < n: q u = x, and v = q' y, so dq has y dv' beside, and
 * dy = q dv. Sizes that only a run knows take the same way as numbers. */
static void qr_grad(tpi_grad *g)
{
    const tpi_at at = g->at;
    tp_tensor *a = g->x[0], *q, *r, *dq, *dr;
    cut_qr(at, g->y, a, &q, &r);
    cut_qr(at, g->dy, a, &dq, &dr);
    const extents e = extents_of(tpi_dims_of(a), a);
    const int last = a->rank - 1;
    const int64_t rest = tpi_dim_sub(e.dims, e.n, e.k);
    tp_tensor *u = tpi_slice(at, r, last, 0, rest, 1),
              *du = tpi_slice(at, dr, last, 0, rest, 1);
    tp_tensor *y = tpi_slice(at, a, last, e.k, 0, 1), *dv = tpi_slice(at, dr, last, e.k, 0, 1);
    dq = tp_add(dq, tp_matmul(y, turned(at, dv)));
    tp_tensor *parts[] = {tall_grad(at, q, u, dq, du), tp_matmul(q, dv)};
    tpi_give(g, 0, tp_concat(2, parts, last));
}

TPI_AVX2_CALLS(qr)
OP(qr, .infer = qr_infer, .grad = qr_grad);

/* The results of a function that gives n, in their places: failed ones where there is one, and the status. */
static tp_status give(tpi_at at, const char *what, const tp_tensor *a, tp_tensor *failed, int n,
                      tp_tensor *const *from, tp_tensor **const *to)
{
    for (int i = 0; i < n && !failed; i++)
        failed = to[i] ? NULL : tpi_fail(a->ctx, at, what, TP_E_NULL, "no place for a result");
    for (int i = 0; i < n; i++)
        if (to[i])
            *to[i] = failed ? failed : from[i];
    return (tp_status)(failed ? failed->status : from[0]->status);
}

tp_status tp_qr_at(const char *file, int line, tp_tensor *a, tp_tensor **q, tp_tensor **r)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "qr", "a", a, false), *both[2];
    if (!failed)
        cut_qr(at, tpi_apply(at, &tpi_op_qr, TPI_IN(a), NULL), a, &both[0], &both[1]);
    return give(at, "qr", a, failed, 2, both, (tp_tensor * *const[]){q, r});
}
TPI_BARE(tp_status, tp_qr, (tp_tensor * a, tp_tensor **q, tp_tensor **r), a, q, r)

/* ---- eigenvectors: n n numbers by rows, n values, 4 n that are room -------------------------------------- */

typedef struct eigh_attrs {
    int64_t upper;
} eigh_attrs;

static const tpi_attr eigh_table[] = {
    {"upper",              TPI_ATTR_BOOL, offsetof(eigh_attrs, upper)},
    {0},
};

static bool eigh_infer(tpi_infer *q)
{
    if (!tpi_infer_square(q, 0))
        return false;
    const int64_t n = q->in[0]->shape[q->in[0]->rank - 1];
    return infer_row(q, area(q->dims, n, n, tpi_dim_mul(q->dims, n, 5)));
}

/* Vectors are columns. */
static void cut_eigh(tpi_at at, tp_tensor *y, const tp_tensor *a, tp_tensor **values,
                     tp_tensor **vectors)
{
    const int64_t n = a->shape[a->rank - 1];
    int64_t from = 0;
    *vectors = turned(at, cut(at, y, &from, n, n));
    *values = cut(at, y, &from, n, TPI_NO_DIM);
}

/* v (diag(dw) + F o v' dv) v', F[i, j] = 1 / (w[j] - w[i]), and of that the symmetric part. */
static void eigh_grad(tpi_grad *g)
{
    const tpi_at at = g->at;
    tp_tensor *w, *v, *dw, *dv;
    cut_eigh(at, g->y, g->x[0], &w, &v);
    cut_eigh(at, g->dy, g->x[0], &dw, &dv);
    tp_tensor *inner = where_any(at, tp_matmul(turned(at, v), dv), gaps(at, w, w, false));
    tp_tensor *left = tp_add(by_columns(at, v, dw), tp_matmul(v, inner));
    tp_tensor *da = tp_matmul(left, turned(at, v));
    tpi_give(g, 0, half(at, tp_add(da, turned(at, da))));
}

TPI_AVX2_CALLS(eigh)
OP(eigh, .attrs = eigh_table, .attrs_size = sizeof(eigh_attrs), .infer = eigh_infer,
   .grad = eigh_grad);

tp_status tp_eigh_at(const char *file, int line, tp_tensor *a, tp_tensor **values,
                     tp_tensor **vectors)
{
    const tpi_at at = TPI_AT(file, line);
    const eigh_attrs attrs = {0};
    tp_tensor *failed = tpi_refuse_stack(at, "eigh", "a", a, true), *both[2];
    if (!failed)
        cut_eigh(at, tpi_apply(at, &tpi_op_eigh, TPI_IN(a), &attrs), a, &both[0], &both[1]);
    return give(at, "eigh", a, failed, 2, both, (tp_tensor * *const[]){values, vectors});
}
TPI_BARE(tp_status, tp_eigh, (tp_tensor * a, tp_tensor **values, tp_tensor **vectors), a,
         values, vectors)

/* ---- singular vectors: m k numbers of u by columns, k values, k n of v' by rows --------------------------- */

static bool svd_infer(tpi_infer *q)
{
    if (!tpi_infer_stack(q, 0))
        return false;
    const extents e = extents_of(q->dims, q->in[0]);
    return infer_row(q, area(q->dims, e.k, e.m, area(q->dims, e.k, e.n, e.k)));
}

static void cut_svd(tpi_at at, tp_tensor *y, const tp_tensor *a, tp_tensor **u, tp_tensor **s,
                    tp_tensor **vt)
{
    const extents e = extents_of(tpi_dims_of(y), a);
    int64_t from = 0;
    *u = turned(at, cut(at, y, &from, e.k, e.m));
    *s = cut(at, y, &from, e.k, TPI_NO_DIM);
    *vt = cut(at, y, &from, e.k, e.n);
}

/* What of t [..., m, k] is outside of the columns of u [..., m, k]. */
static tp_tensor *outside(tpi_at at, tp_tensor *u, tp_tensor *t)
{
    return tp_sub(t, tp_matmul(u, tp_matmul(turned(at, u), t)));
}

/* With J = F o (u' du), K = F o (v' dv), F[i, j] = 1 / (s[j]^2 - s[i]^2):  u ((J + J') S + S (K + K') + diag(ds)) v' and what
 * du S^-1 and dv S^-1 have outside of u and v. 1 / (s[j]^2 - s[i]^2) is 1 / (s[j] - s[i]) / (s[j] + s[i]). */
static void svd_grad(tpi_grad *g)
{
    const tpi_at at = g->at;
    tp_tensor *u, *s, *vt, *du, *ds, *dvt;
    cut_svd(at, g->y, g->x[0], &u, &s, &vt);
    cut_svd(at, g->dy, g->x[0], &du, &ds, &dvt);
    tp_tensor *v = turned(at, vt), *dv = turned(at, dvt);
    tp_tensor *f = tp_mul(gaps(at, s, s, false), gaps(at, s, s, true));
    tp_tensor *j = where_any(at, tp_matmul(turned(at, u), du), f);
    tp_tensor *k = where_any(at, tp_matmul(vt, dv), f);
    tp_tensor *js = by_columns(at, tp_add(j, turned(at, j)), s);
    tp_tensor *sk = turned(at, by_columns(at, tp_add(k, turned(at, k)), s));
    tp_tensor *inner = tp_add(tp_matmul(u, tp_add(js, sk)), by_columns(at, u, ds));
    tp_tensor *da = tp_matmul(inner, vt);
    tp_tensor *over = tp_unsqueeze(tp_div(tp_scalar_like(s, 1), s), -2);
    tp_tensor *left = where_any(at, outside(at, u, du), over);
    tp_tensor *right = where_any(at, outside(at, v, dv), over);
    da = tp_add(da, tp_matmul(left, vt));
    da = tp_add(da, tp_matmul(u, turned(at, right)));
    tpi_give(g, 0, da);
}

TPI_AVX2_CALLS(svd)
OP(svd, .infer = svd_infer, .grad = svd_grad);

tp_status tp_svd_at(const char *file, int line, tp_tensor *a, tp_tensor **u, tp_tensor **s,
                    tp_tensor **vt)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "svd", "a", a, false), *all[3];
    if (!failed)
        cut_svd(at, tpi_apply(at, &tpi_op_svd, TPI_IN(a), NULL), a, &all[0], &all[1], &all[2]);
    return give(at, "svd", a, failed, 3, all, (tp_tensor * *const[]){u, s, vt});
}
TPI_BARE(tp_status, tp_svd, (tp_tensor * a, tp_tensor **u, tp_tensor **s, tp_tensor **vt), a, u,
         s, vt)

/* ---- least squares ----------------------------------------------------------------------------------- */

typedef struct lstsq_attrs {
    int64_t transposed;
    double eps;
} lstsq_attrs;

static const tpi_attr lstsq_table[] = {
    {"transposed",          TPI_ATTR_BOOL, offsetof(lstsq_attrs, transposed)},
    {"eps", TPI_ATTR_F64, offsetof(lstsq_attrs, eps)},
    {0                    },
};

/* in: a [..., m, n], what svd gives of it, b [..., m, k]; transposed: [..., n, k]. */
static bool lstsq_infer(tpi_infer *q)
{
    const lstsq_attrs *l = q->attrs;
    const tp_tensor *a = q->in[0], *f = q->in[1], *b = q->in[2];
    if (!tpi_infer_stack(q, 0) || !tpi_infer_stack(q, 2))
        return false;
    const extents e = extents_of(q->dims, a);
    bool good = f->dtype == a->dtype && f->rank == a->rank - 1;
    for (int i = 0; i < a->rank - 2 && good; i++)
        good = f->shape[i] == a->shape[i];
    if (!good || f->shape[f->rank - 1] != area(q->dims, e.k, e.m, area(q->dims, e.k, e.n, e.k)))
        return tpi_refuse(q, TP_E_SHAPE, "factors %s for a %s", SHAPE(f), SHAPE(a));
    if (b->shape[b->rank - 2] != (l->transposed ? e.n : e.m))
        return tpi_refuse(q, TP_E_SHAPE, "rows differ: a %s, b %s", SHAPE(a), SHAPE(b));
    tpi_infer_like(q, 2);
    q->shape[q->rank - 2] = l->transposed ? e.m : e.n;
    return true;
}

static void lstsq_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, t->rank - 2, 0);
    (void)k;
}

static tp_tensor *lstsq_by(tpi_at at, tp_tensor *a, tp_tensor *f, tp_tensor *b, double eps,
                           bool transposed)
{
    const lstsq_attrs attrs = {.transposed = transposed, .eps = eps};
    return tpi_apply(at, &tpi_op_lstsq, TPI_IN(a, f, b), &attrs);
}

/* With P the inverse of A that gives x = P b, z = P' dx:  db = z, and dA = -z x' + (b - A x) (P z)' + P' x (dx - P A dx)'.
 * (G. H. Golub and V. Pereyra 1973.) A is a, or its transpose. */
static void lstsq_grad(tpi_grad *g)
{
    const tpi_at at = g->at;
    const lstsq_attrs *l = g->attrs;
    tp_tensor *a = g->x[0], *f = g->x[1], *b = g->x[2], *x = g->y;
    tp_tensor *z = lstsq_by(at, a, f, g->dy, l->eps, !l->transposed);
    tpi_give(g, 2, z);
    if (!tpi_wants(g, 0))
        return;
    tp_tensor *own = l->transposed ? turned(at, a) : a;
    tp_tensor *pz = lstsq_by(at, a, f, z, l->eps, l->transposed);
    tp_tensor *px = lstsq_by(at, a, f, x, l->eps, !l->transposed);
    tp_tensor *inside = lstsq_by(at, a, f, tp_matmul(own, g->dy), l->eps, l->transposed);
    tp_tensor *da = tp_sub(tp_matmul(tp_sub(b, tp_matmul(own, x)), turned(at, pz)),
                           tp_matmul(z, turned(at, x)));
    da = tp_add(da, tp_matmul(px, turned(at, tp_sub(g->dy, inside))));
    tpi_give(g, 0, l->transposed ? turned(at, da) : da);
}

TPI_AVX2_CALLS(lstsq)
const tpi_op tpi_op_lstsq = {
    .name = "lstsq",
    .code = TPI_OP_lstsq,
    .n_in = 3,
    .kind = TPI_CALL,
    .attrs = lstsq_table,
    .attrs_size = sizeof(lstsq_attrs),
    .infer = lstsq_infer,
    .factors = lstsq_factors,
    .grad = lstsq_grad,
    .grad_reads_x = true,
    .grad_reads_y = true,
    .text = "orthogonal",
    .fn = "lstsq",
    .call = lstsq_calls,
    .isa_call = TPI_ISA_of_op,
};

/* A host may have exceptions unmasked, which subnormals and NaN would raise. */
static bool is_part(double eps)
{
    TPI_DEFAULT_FLOAT_MODE;
    TPI_FLOAT_PIN(eps);
    bool is = eps >= 0 && eps < 1;
    TPI_FLOAT_PIN(is);
    return is;
}

tp_tensor *tp_lstsq_at(const char *file, int line, tp_tensor *a, tp_tensor *b, double eps)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operands(at, "lstsq", TPI_IN(a, b));
    if (failed)
        return failed;
    tpi_meet(at, &a, &b);
    if ((failed = tpi_refuse_stack(at, "lstsq", "a", a, false)))
        return failed;
    const bool column = b->status == TP_OK && b->rank == 1;
    b = column ? tp_unsqueeze(b, 1) : b;
    if ((failed = tpi_refuse_stack(at, "lstsq", "b", b, false)))
        return failed;
    if (a->shape[a->rank - 2] != b->shape[b->rank - 2])
        return tpi_fail(a->ctx, at, "lstsq", TP_E_SHAPE, "rows differ: a %s, b %s", SHAPE(a),
                        SHAPE(b));
    if (tpi_is_near_handle(a->ctx, eps))
        return tpi_fail_near_handle(a->ctx, at, "lstsq", eps);
    if (!is_part(eps))
        return tpi_fail(a->ctx, at, "lstsq", TP_E_VALUE, "eps is %g, not from 0 to 1", eps);
    if ((failed = tpi_stretch_stacks(at, "lstsq", &a, &b)))
        return failed;
    tp_tensor *x = lstsq_by(at, a, tpi_apply(at, &tpi_op_svd, TPI_IN(a), NULL), b, eps, false);
    return column ? tp_squeeze(x, -1) : x;
}
TPI_BARE(tp_tensor *, tp_lstsq, (tp_tensor * a, tp_tensor *b, double eps), a, b, eps)
