/* Factors of square matrices, and what they solve: Cholesky, triangles, LU, systems, inverses, determinants.
 *
 * Systems, inverses and determinants share one op, lu, whose result is packed: they have it as an operand beside the
 * matrix, to which their gradients go, so that lu is differentiated only where tp_lu asks for it. Gradients are those of
 * M. B. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
 * differentiation" (2008), and of I. Murray, "Differentiation of the Cholesky decomposition" (2016). */
#include "ir/factors.h"
#include "op/set_calls.h"
#include "op/stacks.h"
#include "tapir/linalg.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define OP(name_, ...)                                                                         \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .kind = TPI_CALL,                                           \
                                   .factors = tpi_stack_factors,                               \
                                   .text = "matrix",                                           \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   __VA_ARGS__}

/* ---- cholesky --------------------------------------------------------------------------------- */

typedef struct cholesky_attrs {
    int64_t upper;
} cholesky_attrs;

static const tpi_attr cholesky_table[] = {
    {"upper",                  TPI_ATTR_BOOL, offsetof(cholesky_attrs, upper)},
    {0},
};

static bool cholesky_infer(tpi_infer *q)
{
    return tpi_infer_square(q, 0) && tpi_infer_like(q, 0);
}

/* With P the lower triangle of L' dL, its diagonal halved: L^-T P L^-1, and of that the symmetric part. */
static void cholesky_grad(tpi_grad *g)
{
    const cholesky_attrs *a = g->attrs;
    tp_tensor *l = a->upper ? tp_swap(g->y, -2, -1) : g->y;
    tp_tensor *dl = a->upper ? tp_swap(g->dy, -2, -1) : g->dy;
    tp_tensor *s = tp_matmul(tp_swap(l, -2, -1), dl), *half = tp_scalar_like(s, 0.5);
    tp_tensor *p = tp_mul(half, tp_add(tpi_triangle(g->at, s, false, false),
                                       tpi_triangle(g->at, s, false, true)));
    tp_tensor *left = tp_solve_triangular(l, p, false, true, false);
    tp_tensor *both = tp_solve_triangular(l, tp_swap(left, -2, -1), false, true, false);
    tpi_give(g, 0, tp_mul(half, tp_add(both, tp_swap(both, -2, -1))));
}

TPI_SET_CALLS(cholesky)
OP(cholesky, .n_in = 1, .attrs = cholesky_table, .attrs_size = sizeof(cholesky_attrs),
   .infer = cholesky_infer, .grad = cholesky_grad, .grad_reads_y = true,
   .isa_call = TPI_ISA_of_op, .refuses = TPI_REFUSES_INDEFINITE);

tp_tensor *tp_cholesky_at(const char *file, int line, tp_tensor *a, bool upper)
{
    const tpi_at at = TPI_AT(file, line);
    const cholesky_attrs attrs = {.upper = upper};
    tp_tensor *failed = tpi_refuse_stack(at, "cholesky", "a", a, true);
    return failed ? failed : tpi_apply(at, &tpi_op_cholesky, TPI_IN(a), &attrs);
}
TPI_BARE(tp_tensor *, tp_cholesky, (tp_tensor * a, bool upper), a, upper)

/* ---- triangles -------------------------------------------------------------------------------- */

typedef struct triangle_attrs {
    int64_t upper, transposed, unit;
} triangle_attrs;

static const tpi_attr triangle_table[] = {
    {"upper",                  TPI_ATTR_BOOL, offsetof(triangle_attrs, upper)},
    {"transposed", TPI_ATTR_BOOL, offsetof(triangle_attrs, transposed)},
    {"unit",                        TPI_ATTR_BOOL, offsetof(triangle_attrs, unit)},
    {0          },
};

/* Operand 0 [..., n, n], the last [..., n, k], whose shape is the result's. */
static bool infer_system(tpi_infer *q)
{
    const tp_tensor *a = q->in[0], *b = q->in[q->n_in - 1];
    if (!tpi_infer_square(q, 0) || !tpi_infer_stack(q, q->n_in - 1))
        return false;
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return tpi_refuse(q, TP_E_SHAPE, "rows differ: a %s, b %s", SHAPE(a), SHAPE(b));
    return tpi_infer_like(q, q->n_in - 1);
}

/* db = a^-T dx, and of -db x' (transposed: of -x db') the triangle that was read. */
static void solve_triangular_grad(tpi_grad *g)
{
    const triangle_attrs *a = g->attrs;
    tp_tensor *db = tp_solve_triangular(g->x[0], g->dy, a->upper, !a->transposed, a->unit);
    tpi_give(g, 1, db);
    if (!tpi_wants(g, 0))
        return;
    tp_tensor *left = a->transposed ? g->y : db, *right = a->transposed ? db : g->y;
    tp_tensor *da = tp_neg(tp_matmul(left, tp_swap(right, -2, -1)));
    tpi_give(g, 0, tpi_triangle(g->at, da, a->upper, a->unit));
}

/* Operands of one type, with equal leading axes; a vector b becomes a column. NULL, or the failed tensor. */
static tp_tensor *meet_system(tpi_at at, const char *what, tp_tensor **a, tp_tensor **b)
{
    tp_tensor *failed = tpi_refuse_operands(at, what, TPI_IN(*a, *b));
    if (failed)
        return failed;
    tpi_meet(at, a, b);
    if ((failed = tpi_refuse_stack(at, what, "a", *a, true)))
        return failed;
    if ((*b)->status == TP_OK && (*b)->rank == 1)
        *b = tp_unsqueeze_at(at.file, at.line, *b, 1);
    if ((failed = tpi_refuse_stack(at, what, "b", *b, false)))
        return failed;
    if ((*a)->shape[(*a)->rank - 1] != (*b)->shape[(*b)->rank - 2])
        return tpi_fail((*a)->ctx, at, what, TP_E_SHAPE, "rows differ: a %s, b %s", SHAPE(*a),
                        SHAPE(*b));
    return tpi_stretch_stacks(at, what, a, b);
}

TPI_SET_CALLS(solve_triangular)
OP(solve_triangular, .n_in = 2, .attrs = triangle_table, .attrs_size = sizeof(triangle_attrs),
   .infer = infer_system, .grad = solve_triangular_grad, .grad_reads_x = true,
   .grad_reads_y = true, .isa_call = TPI_ISA_of_op, .refuses = TPI_REFUSES_SINGULAR);

tp_tensor *tp_solve_triangular_at(const char *file, int line, tp_tensor *a, tp_tensor *b,
                                  bool upper, bool transposed, bool unit)
{
    const tpi_at at = TPI_AT(file, line);
    const triangle_attrs attrs = {.upper = upper, .transposed = transposed, .unit = unit};
    const bool column = tpi_is_live(b) && b->status == TP_OK && b->rank == 1;
    tp_tensor *failed = meet_system(at, "solve_triangular", &a, &b);
    if (failed)
        return failed;
    tp_tensor *x = tpi_apply(at, &tpi_op_solve_triangular, TPI_IN(a, b), &attrs);
    return column ? tp_squeeze_at(file, line, x, -1) : x;
}
TPI_BARE(tp_tensor *, tp_solve_triangular,
         (tp_tensor * a, tp_tensor *b, bool upper, bool transposed, bool unit), a, b, upper,
         transposed, unit)

/* ---- LU: [..., n, n] -> [..., n + 2, n] ------------------------------------------------------------ */

static bool lu_infer(tpi_infer *q)
{
    if (!tpi_infer_square(q, 0))
        return false;
    tpi_infer_like(q, 0);
    q->shape[q->rank - 2] = tpi_dim_add(q->dims, q->shape[q->rank - 1], 2);
    return true;
}

/* Row number `from` behind the matrix: the pivots, or the rows. */
static tp_tensor *lu_row(tpi_at at, tp_tensor *f, int from)
{
    tp_tensor *row =
        tp_slice_at(at.file, at.line, f, -2, from - 2, from == 1 ? TP_END : from - 1, 1);
    return tp_squeeze_at(at.file, at.line, row, -2);
}

/* L and U without what is behind them. */
static tp_tensor *lu_matrix(tpi_at at, tp_tensor *f)
{
    return tp_slice_at(at.file, at.line, f, -2, 0, -2, 1);
}

static tp_tensor *solve_by(tpi_at at, tp_tensor *a, tp_tensor *f, tp_tensor *b,
                           bool transposed);

/* With M the strict lower triangle of L' dL and the upper one of dU U': A^-T U' M U^-T. */
static void lu_grad(tpi_grad *g)
{
    tp_tensor *f = lu_matrix(g->at, g->y), *df = lu_matrix(g->at, g->dy);
    tp_tensor *u = tpi_triangle(g->at, f, true, false), *ut = tp_swap(u, -2, -1);
    tp_tensor *l = tp_add(tpi_triangle(g->at, f, false, true), tpi_unit(g->at, f));
    tp_tensor *by_l = tp_matmul(tp_swap(l, -2, -1), tpi_triangle(g->at, df, false, true));
    tp_tensor *by_u = tp_matmul(tpi_triangle(g->at, df, true, false), ut);
    tp_tensor *m =
        tp_add(tpi_triangle(g->at, by_l, false, true), tpi_triangle(g->at, by_u, true, false));
    tp_tensor *right = tp_solve_triangular(u, tp_swap(m, -2, -1), true, false, false);
    tp_tensor *both = tp_matmul(ut, tp_swap(right, -2, -1));
    tpi_give(g, 0, solve_by(g->at, g->x[0], g->y, both, true));
}

TPI_SET_CALLS(lu)
OP(lu, .n_in = 1, .infer = lu_infer, .grad = lu_grad, .grad_reads_x = true,
   .grad_reads_y = true, .isa_call = TPI_ISA_of_op);

static tp_tensor *factors_of(tpi_at at, tp_tensor *a)
{
    return tpi_apply(at, &tpi_op_lu, TPI_IN(a), NULL);
}

tp_status tp_lu_at(const char *file, int line, tp_tensor *a, tp_tensor **lu, tp_tensor **rows)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "lu", "a", a, true);
    if (!failed && (!lu || !rows))
        failed = tpi_fail(a->ctx, at, "lu", TP_E_NULL, "no place for the results");
    tp_tensor *f = failed ? failed : factors_of(at, a);
    if (lu)
        *lu = failed ? failed : lu_matrix(at, f);
    if (rows)
        *rows = failed ? failed : tp_cast_at(file, line, lu_row(at, f, 1), TP_I64);
    return (tp_status)f->status;
}
TPI_BARE(tp_status, tp_lu, (tp_tensor * a, tp_tensor **lu, tp_tensor **rows), a, lu, rows)

/* ---- systems ----------------------------------------------------------------------------------- */

typedef struct solve_attrs {
    int64_t transposed;
} solve_attrs;

static const tpi_attr solve_table[] = {
    {"transposed",          TPI_ATTR_BOOL, offsetof(solve_attrs, transposed)},
    {0},
};

/* Are operand 1's matrices the factors of those of operand 0? */
static bool infer_factors(tpi_infer *q)
{
    const tp_tensor *a = q->in[0], *f = q->in[1];
    if (!tpi_infer_square(q, 0) || !tpi_infer_stack(q, 1))
        return false;
    const int64_t n = a->shape[a->rank - 1];
    return f->shape[f->rank - 1] == n && f->shape[f->rank - 2] == tpi_dim_add(q->dims, n, 2)
               ? true
               : tpi_refuse(q, TP_E_SHAPE, "factors %s for a %s", SHAPE(f), SHAPE(a));
}

static bool solve_infer(tpi_infer *q)
{
    return infer_factors(q) && infer_system(q);
}

/* db = a^-T dx, da = -db x'; transposed: -x db'. */
static void solve_grad(tpi_grad *g)
{
    const solve_attrs *a = g->attrs;
    tp_tensor *db = solve_by(g->at, g->x[0], g->x[1], g->dy, !a->transposed);
    tpi_give(g, 2, db);
    if (!tpi_wants(g, 0))
        return;
    tp_tensor *left = a->transposed ? g->y : db, *right = a->transposed ? db : g->y;
    tpi_give(g, 0, tp_neg(tp_matmul(left, tp_swap(right, -2, -1))));
}

TPI_SET_CALLS(solve)
OP(solve, .n_in = 3, .attrs = solve_table, .attrs_size = sizeof(solve_attrs),
   .infer = solve_infer, .grad = solve_grad, .grad_reads_x = true, .grad_reads_y = true,
   .isa_call = TPI_ISA_of_op, .refuses = TPI_REFUSES_SINGULAR);

static tp_tensor *solve_by(tpi_at at, tp_tensor *a, tp_tensor *f, tp_tensor *b, bool transposed)
{
    const solve_attrs attrs = {.transposed = transposed};
    return tpi_apply(at, &tpi_op_solve, TPI_IN(a, f, b), &attrs);
}

tp_tensor *tp_solve_at(const char *file, int line, tp_tensor *a, tp_tensor *b)
{
    const tpi_at at = TPI_AT(file, line);
    const bool column = tpi_is_live(b) && b->status == TP_OK && b->rank == 1;
    tp_tensor *failed = meet_system(at, "solve", &a, &b);
    if (failed)
        return failed;
    tp_tensor *x = solve_by(at, a, factors_of(at, a), b, false);
    return column ? tp_squeeze_at(file, line, x, -1) : x;
}
TPI_BARE(tp_tensor *, tp_solve, (tp_tensor * a, tp_tensor *b), a, b)

tp_tensor *tp_inverse_at(const char *file, int line, tp_tensor *a)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "inverse", "a", a, true);
    if (failed)
        return failed;
    tp_tensor *f = factors_of(at, a), *one = tpi_unit(at, a);
    tpi_aside earlier;
    tpi_error_aside(a->ctx, &earlier);
    tp_tensor *y = solve_by(at, a, f, one, false);
    const char *why =
        y->status == TP_E_VALUE && y->error ? strstr(y->error->text, "matrix ") : NULL;
    if (why && f->status == TP_OK) { /* which function was called, and not what it is made of */
        tpi_forget_error(a->ctx);
        y = tpi_fail(a->ctx, at, "inverse", TP_E_VALUE, "%s", why);
    }
    tpi_error_back(a->ctx, &earlier);
    return y;
}
TPI_BARE(tp_tensor *, tp_inverse, (tp_tensor * a), a)

/* ---- determinants ------------------------------------------------------------------------------ */

typedef struct det_attrs {
    int64_t part;
} det_attrs;

enum { PART_DET, PART_SIGN, PART_LOG };

static const tpi_attr det_table[] = {
    {"part",              TPI_ATTR_INT, offsetof(det_attrs, part)},
    {0},
};

static bool det_infer(tpi_infer *q)
{
    const det_attrs *a = q->attrs;
    if (!infer_factors(q))
        return false;
    if (a->part < PART_DET || a->part > PART_LOG)
        return tpi_refuse(q, TP_E_VALUE, "part %lld", (long long)a->part);
    tpi_infer_like(q, 0);
    q->rank -= 2;
    return true;
}

/* det a^-T; of the logarithm a^-T. */
static void det_grad(tpi_grad *g)
{
    const det_attrs *a = g->attrs;
    if (a->part == PART_SIGN || !tpi_wants(g, 0))
        return;
    tp_tensor *scale = a->part == PART_DET ? tp_mul(g->dy, g->y) : g->dy;
    tp_tensor *back = solve_by(g->at, g->x[0], g->x[1], tpi_unit(g->at, g->x[0]), true);
    tpi_give(g, 0, tp_mul(back, tp_unsqueeze(tp_unsqueeze(scale, -1), -1)));
}

TPI_OWN_CALLS(det)
OP(det, .n_in = 2, .attrs = det_table, .attrs_size = sizeof(det_attrs), .infer = det_infer,
   .grad = det_grad, .grad_reads_x = true, .grad_reads_y = true);

static tp_tensor *part_of(tpi_at at, tp_tensor *a, tp_tensor *f, int64_t part)
{
    const det_attrs attrs = {.part = part};
    return tpi_apply(at, &tpi_op_det, TPI_IN(a, f), &attrs);
}

tp_tensor *tp_det_at(const char *file, int line, tp_tensor *a)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "det", "a", a, true);
    return failed ? failed : part_of(at, a, factors_of(at, a), PART_DET);
}
TPI_BARE(tp_tensor *, tp_det, (tp_tensor * a), a)

tp_status tp_slogdet_at(const char *file, int line, tp_tensor *a, tp_tensor **sign,
                        tp_tensor **log_abs)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_stack(at, "slogdet", "a", a, true);
    if (!failed && (!sign || !log_abs))
        failed = tpi_fail(a->ctx, at, "slogdet", TP_E_NULL, "no place for the results");
    tp_tensor *f = failed ? failed : factors_of(at, a);
    if (sign)
        *sign = failed ? failed : part_of(at, a, f, PART_SIGN);
    if (log_abs)
        *log_abs = failed ? failed : part_of(at, a, f, PART_LOG);
    return (tp_status)f->status;
}
TPI_BARE(tp_status, tp_slogdet, (tp_tensor * a, tp_tensor **sign, tp_tensor **log_abs), a, sign,
         log_abs)
