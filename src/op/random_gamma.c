/* Gamma numbers: one draw of a key for each element, by which a function of key and concentration goes on. So the
 * position moves by the shape alone, whatever is rejected, and what rejects is an op like others. In f64 for f32 too. */
#include "ir/factors.h"
#include "kernel/text/philox.h"
#include "kernel/text/vec.h"
#include "op/random_position.h"
#include "op/sizes.h"
#include "tapir/random.h"

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define FN(name) TPK_CAT(tpk_##name##_, S)
#define T tpk_f64
#define S f64
#include "kernel/text/gamma.h"
#undef T
#undef S

static bool infer(tpi_infer *q, tp_dtype second)
{
    const tp_tensor *a = q->in[0], *b = q->in[1];
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    if (a->dtype != TP_F64 || b->dtype != second)
        return tpi_refuse(q, TP_E_DTYPE, "%s beside %s, not f64 beside %s",
                          tp_dtype_name((tp_dtype)a->dtype), tp_dtype_name((tp_dtype)b->dtype),
                          tp_dtype_name(second));
    if (!same)
        return tpi_refuse(q, TP_E_SHAPE, "%s beside %s", SHAPE(a), SHAPE(b));
    return tpi_infer_like(q, 0);
}

static bool gamma_infer(tpi_infer *q)
{
    return infer(q, TP_I64);
}

static bool slope_infer(tpi_infer *q)
{
    return infer(q, TP_F64);
}

static void element_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    tpi_pass_axes(f, 0, t->in[k]->rank, 0);
}

static void gamma_grad(tpi_grad *g)
{
    tp_tensor *slope = tpi_apply(g->at, &tpi_op_gamma_slope, TPI_IN(g->x[0], g->y), NULL);
    tpi_give(g, 0, tp_mul(g->dy, slope));
}

static void slope_grad(tpi_grad *g)
{
    for (int i = 0; i < 2; i++)
        if (tpi_wants(g, i))
            tpi_give(g, i,
                     tpi_fail(g->y->ctx, g->at, "gamma", TP_E_STATE,
                              "gamma numbers have a first gradient, and no second one"));
}

#define GAMMA(name_, ...)                                                                      \
    static const tpi_call name_##_calls[TP_N_DTYPES] = {[TP_F64] = tpk_##name_##_f64};         \
    const tpi_op tpi_op_##name_ = {.any_size = true,                                           \
                                   .name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .n_in = 2,                                                  \
                                   .kind = TPI_CALL,                                           \
                                   .factors = element_factors,                                 \
                                   .text = "gamma",                                            \
                                   .fn = #name_,                                               \
                                   .call = name_##_calls,                                      \
                                   .grad_reads_x = true,                                       \
                                   __VA_ARGS__}
GAMMA(gamma, .infer = gamma_infer, .grad = gamma_grad, .grad_reads_y = true);
GAMMA(gamma_slope, .infer = slope_infer, .grad = slope_grad);

tp_tensor *tp_gamma_at(const char *file, int line, tp_tensor *concentration)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *keys = tpi_random_keys(at, "gamma", concentration);
    if (tp_failed(keys))
        return keys;
    tp_tensor *wide = concentration->dtype == TP_F64
                          ? concentration
                          : tp_cast_at(file, line, concentration, TP_F64);
    tp_tensor *y = tpi_apply(at, &tpi_op_gamma, TPI_IN(wide, keys), NULL);
    return concentration->dtype == TP_F64
               ? y
               : tp_cast_at(file, line, y, (tp_dtype)concentration->dtype);
}
TPI_BARE(tp_tensor *, tp_gamma, (tp_tensor * concentration), concentration)
