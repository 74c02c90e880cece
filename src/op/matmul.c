/* Matrix products. The op multiplies [..., m, k] by [..., k, n] with equal leading axes; vectors
 * and broadcasting are views around it. docs/numerics.md fixes the order of each sum. */
#include "ir/factors.h"
#include "kernel/text/vec.h"
#include "op/contractions.h"
#include "op/sizes.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define TPK_BITS 32
#include "kernel/conv/convref.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv/convref.h"
#undef TPK_BITS

#define TPI_TEXT "kernel/text/products.h"
#include "op/instances.h"

static bool matmul_infer(tpi_infer *q)
{
    const tp_tensor *a = q->in[0], *b = q->in[1];
    if (a->dtype != b->dtype || a->dtype == TP_BOOL)
        return tpi_refuse(q, TP_E_DTYPE, "a is %s, b is %s: not numbers of one type",
                          tp_dtype_name((tp_dtype)a->dtype), tp_dtype_name((tp_dtype)b->dtype));
    bool fits = a->rank >= 2 && a->rank == b->rank;
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->shape[i] == b->shape[i];
    if (!fits || a->shape[a->rank - 1] != b->shape[a->rank - 2])
        return tpi_refuse(q, TP_E_SHAPE, "%s differ: a %s, b %s",
                          fits ? "inner sizes" : "leading axes", SHAPE(a), SHAPE(b));
    tpi_infer_like(q, 0);
    q->shape[q->rank - 1] = b->shape[q->rank - 1];
    return true;
}

static void matmul_contract(const tpi_run *r, tpi_contraction *c)
{
    const tp_tensor *a = r->in[0], *b = r->in[1];
    const int lead = a->rank - 2;
    tpk_products *p = &c->products;
    c->is_conv = false;
    *p = (tpk_products){.f64 = a->dtype == TP_F64,
                        .lead = lead,
                        .m = a->shape[lead],
                        .n = b->shape[lead + 1],
                        .k = a->shape[lead + 1],
                        .a_rs = a->stride[lead],
                        .a_cs = a->stride[lead + 1],
                        .b_rs = b->stride[lead],
                        .b_cs = b->stride[lead + 1],
                        .c_rs = r->out->stride[lead],
                        .a = a->data,
                        .b = b->data,
                        .c = r->out->data};
    for (int i = 0; i < lead; i++) {
        p->batch[i] = a->shape[i];
        p->a_bs[i] = a->stride[i];
        p->b_bs[i] = b->stride[i];
        p->c_bs[i] = r->out->stride[i];
    }
}

/* ---- the oracle: one product of the batch at a time --------------------------------------------- */

static void multiply_f32(const tpk_products *p)
{
    tpk_gemm_ref_f32(p->m, p->n, p->k, (const void *)p->a, p->a_rs, p->a_cs, (const void *)p->b,
                     p->b_rs, p->b_cs, (void *)p->c, p->n, 1);
}

static void multiply_f64(const tpk_products *p)
{
    tpk_gemm_ref_f64(p->m, p->n, p->k, (const void *)p->a, p->a_rs, p->a_cs, (const void *)p->b,
                     p->b_rs, p->b_cs, (void *)p->c, p->n, 1);
}

static void each_product(tpi_run *r, void (*multiply)(const tpk_products *p))
{
    tpi_contraction contraction;
    matmul_contract(r, &contraction);
    tpk_products p = contraction.products;
    const int64_t size = (int64_t)tp_dtype_size((tp_dtype)r->out->dtype);
    const char *a = p.a, *b = p.b;
    char *c = p.c;
    int64_t at[TP_MAX_RANK] = {0}, count = 1;
    for (int i = 0; i < p.lead; i++)
        count *= p.batch[i];
    for (; count > 0; count--) {
        p.a = a;
        p.b = b;
        p.c = c;
        multiply(&p);
        c += p.m * p.n * size;
        for (int i = p.lead - 1; i >= 0; i--) {
            const int64_t back = ++at[i] < p.batch[i] ? 0 : p.batch[i];
            a += (1 - back) * p.a_bs[i] * size;
            b += (1 - back) * p.b_bs[i] * size;
            if (!back)
                break;
            at[i] = 0;
        }
    }
}

static bool matmul_kernel(tpi_run *r)
{
    const bool is_float = r->out->dtype >= TP_F32;
    if (is_float)
        each_product(r, r->out->dtype == TP_F32 ? multiply_f32 : multiply_f64);
    return is_float || tpi_run_called(r);
}

static bool matmul_fast(tpi_run *r)
{
    return r->out->dtype < TP_F32 ? tpi_run_called(r) : tpi_contraction_run(r);
}

static void matmul_grad(tpi_grad *g)
{
    if (tpi_wants(g, 0))
        tpi_give(g, 0, tp_matmul(g->dy, g->turned ? g->turned : tp_swap(g->x[1], -2, -1)));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, tp_matmul(tp_swap(g->x[0], -2, -1), g->dy));
}

static void matmul_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const int summed = t->rank - 1 - k;
    tpi_same_factors(t, k, f);
    f[summed] = (tpi_factor){TPI_AXIS_REDUCED, TP_MAX_RANK};
}

static const tpi_call matmul_calls[TP_N_DTYPES] = {TPI_INTEGERS(matmul)};

const tpi_op tpi_op_matmul = {.name = "matmul",
                              .contract = matmul_contract,
                              .text = "products", /* of integers */
                              .fn = "matmul",
                              .call = matmul_calls,
                              .packed_axes = 2,
                              .any_size = true,
                              .code = TPI_OP_matmul,
                              .n_in = 2,
                              .kind = TPI_CALL,
                              .infer = matmul_infer,
                              .factors = matmul_factors,
                              .kernel = matmul_kernel,
                              .fast = matmul_fast,
                              .batch = TPI_BATCH_ROWS,
                              .linear = TPI_LINEAR_IN_EACH,
                              .grad = matmul_grad,
                              .grad_reads_x = true};

/* ---- what is around it -------------------------------------------------------------------------- */

/* t with leading axes stretched to `shape`, of which `lead` belong to the batch. */
static tp_tensor *stretch(tpi_at at, tp_tensor *t, int lead, int64_t *shape)
{
    memcpy(shape + lead, t->shape + t->rank - 2, 2 * sizeof *shape);
    bool same = t->rank == lead + 2;
    for (int i = 0; i < lead && same; i++)
        same = t->shape[i] == shape[i];
    return same ? t : tp_broadcast_at(at.file, at.line, t, lead + 2, shape);
}

tp_tensor *tpi_stretch_stacks(tpi_at at, const char *what, tp_tensor **pa, tp_tensor **pb)
{
    tp_tensor *a = *pa, *b = *pb;
    int64_t shape[TP_MAX_RANK];
    const int lead = (a->rank > b->rank ? a->rank : b->rank) - 2;
    for (int i = 0; i < lead; i++) {
        const int ia = i - lead - 2 + a->rank, ib = i - lead - 2 + b->rank;
        const int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
        if (na != nb && na != 1 && nb != 1)
            return tpi_fail(a->ctx, at, what, TP_E_SHAPE,
                            "leading axes do not broadcast: a %s, b %s", SHAPE(a), SHAPE(b));
        shape[i] = na == 1 ? nb : na;
    }
    *pa = stretch(at, a, lead, shape);
    *pb = stretch(at, b, lead, shape);
    return NULL;
}

static tp_tensor *batched(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *failed = tpi_stretch_stacks(at, "matmul", &a, &b);
    return failed ? failed : tpi_apply(at, &tpi_op_matmul, TPI_IN(a, b), NULL);
}

/* One matrix b for all of a's: a becomes one tall matrix. */
static tp_tensor *tall(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    int64_t shape[TP_MAX_RANK];
    const int rank = a->rank;
    memcpy(shape, a->shape, sizeof *shape * (size_t)rank);
    const int64_t flat[] = {tpi_sizes_product(tpi_dims_of(a), rank - 1, a->shape),
                            a->shape[rank - 1]};
    tp_tensor *y = tpi_apply(at, &tpi_op_matmul,
                             TPI_IN(tp_reshape_at(at.file, at.line, a, 2, flat), b), NULL);
    shape[rank - 1] = b->shape[1];
    return tp_reshape_at(at.file, at.line, y, rank, shape);
}

tp_tensor *tp_matmul_at(const char *file, int line, tp_tensor *a, tp_tensor *b)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operands(at, "matmul", TPI_IN(a, b));
    if (failed)
        return failed;
    if (a->rank == 0 || b->rank == 0)
        return tpi_fail(a->ctx, at, "matmul", TP_E_SHAPE, "a scalar is no matrix: a %s, b %s",
                        SHAPE(a), SHAPE(b));
    if (a->shape[a->rank - 1] != b->shape[b->rank == 1 ? 0 : b->rank - 2])
        return tpi_fail(a->ctx, at, "matmul", TP_E_SHAPE, "inner sizes differ: a %s, b %s",
                        SHAPE(a), SHAPE(b));
    const bool row = a->rank == 1, column = b->rank == 1;
    tpi_meet(at, &a, &b);
    if (row)
        a = tp_unsqueeze_at(file, line, a, 0);
    if (column)
        b = tp_unsqueeze_at(file, line, b, 1);
    if (a->status != TP_OK || b->status != TP_OK)
        return a->status != TP_OK ? a : b;
    tp_tensor *y = a->rank > 2 && b->rank == 2 ? tall(at, a, b) : batched(at, a, b);
    if (column)
        y = tp_squeeze_at(file, line, y, -1);
    return row ? tp_squeeze_at(file, line, y, column ? -1 : -2) : y;
}
TPI_BARE(tp_tensor *, tp_matmul, (tp_tensor * a, tp_tensor *b), a, b)
