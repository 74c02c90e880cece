#include "op/add_rows.h"

#include "ir/factors.h"
#include "kernel/host/kernels_host.h"
#include "op/sizes.h"

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line

static int64_t rows_of_state(tpi_dims *dims, int64_t k)
{
    const int64_t twice = tpi_dim_add(dims, k, k);
    return twice == TPI_NO_DIM ? twice : tpi_dim_add(dims, twice, 1);
}

static bool add_rows_infer(tpi_infer *q)
{
    const tp_tensor *state = q->in[0], *x = q->in[1], *dy = q->in[2];
    if (state->dtype < TP_F32 || x->dtype != state->dtype || dy->dtype != state->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "operands are not of one float type");
    if (state->rank != 2 || x->rank != 2 || dy->rank != 2 || x->shape[0] != dy->shape[0] ||
        state->shape[0] != rows_of_state(q->dims, x->shape[1]) ||
        state->shape[1] != dy->shape[1])
        return tpi_refuse(q, TP_E_SHAPE, "state %s is not of x %s and dy %s", SHAPE(state),
                          SHAPE(x), SHAPE(dy));
    return tpi_infer_like(q, 0);
}

/* Columns of state and dy are by themselves. */
static void add_rows_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    (void)t;
    f[0] = k ? (tpi_factor){TPI_AXIS_REDUCED, TP_MAX_RANK} : (tpi_factor){TPI_AXIS_WHOLE, 0};
    if (k != 1)
        tpi_pass_axes(f, 1, 2, 0);
}

/* The closed part's gradient is the open one's: both are terms of the sum. */
static void add_rows_grad(tpi_grad *g)
{
    const int64_t k = g->x[1]->shape[1];
    tp_tensor *open = tpi_slice(g->at, g->dy, 0, k, 1, 1);
    if (tpi_wants(g, 0))
        tpi_give(g, 0, g->dy);
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_matmul(g->x[2], tp_swap(open, 0, 1)));
    if (tpi_wants(g, 2))
        tpi_give(g, 2, tp_matmul(g->x[1], open));
}

extern tpi_isa_call_fn tpi_isa_add_rows_f32_base, tpi_isa_add_rows_f64_base;
static const tpi_call add_rows_calls[TP_N_DTYPES] = {
    [TP_F32] = tpi_isa_add_rows_f32_base, [TP_F64] = tpi_isa_add_rows_f64_base};

const tpi_op tpi_op_add_rows = {.name = "add_rows",
                                .code = TPI_OP_add_rows,
                                .n_in = 3,
                                .kind = TPI_CALL,
                                .infer = add_rows_infer,
                                .factors = add_rows_factors,
                                .text = "addrows",
                                .fn = "add_rows",
                                .call = add_rows_calls,
                                .isa_call = TPI_ISA_add_rows,
                                .updates = TPI_UPDATES_BY_ADDING,
                                .batch = TPI_BATCH_NONE,
                                .grad = add_rows_grad,
                                .grad_reads_x = true};

bool tpi_rows_shape(const tp_tensor *w, int64_t *shape)
{
    shape[0] = rows_of_state(tpi_dims_of(w), w->shape[0]);
    shape[1] = w->shape[1];
    return shape[0] != TPI_NO_DIM;
}

tp_tensor *tpi_rows_none(tpi_at at, const tp_tensor *w)
{
    int64_t shape[2];
    if (!tpi_rows_shape(w, shape))
        return tpi_no_memory(w->ctx, at, "gradient");
    tp_tensor *zero = tp_scalar_like_at(at.file, at.line, (tp_tensor *)w, -0.0);
    return tp_broadcast_at(at.file, at.line, zero, 2, shape);
}

tp_tensor *tpi_rows_add(tpi_at at, tp_tensor *state, tp_tensor *x, tp_tensor *dy)
{
    return tpi_apply(at, &tpi_op_add_rows, TPI_IN(state, x, dy), NULL);
}

tp_tensor *tpi_rows_sum(tpi_at at, tp_tensor *state, const tp_tensor *w)
{
    const int64_t k = w->shape[0];
    tpi_dims *dims = tpi_dims_of(w);
    const int64_t behind = tpi_dim_add(dims, k, 1), before = tpi_dim_add(dims, k, k);
    tp_tensor *closed = tpi_slice(at, state, 0, 0, behind, 1);
    tp_tensor *open = tpi_slice(at, state, 0, k, 1, 1);
    tp_tensor *counts = tpi_slice(at, state, 0, before, 0, 1);
    tp_tensor *zero = tp_scalar_like_at(at.file, at.line, state, 0);
    return tp_where_at(at.file, at.line, tp_gt_at(at.file, at.line, counts, zero),
                       tp_add_at(at.file, at.line, closed, open), zero);
}
