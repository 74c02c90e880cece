/* Local identities that keep every bit (NaNs count as one value): what each op has as its `simplify`, and
 * operands that elementwise ops stretch by themselves.
 *
 *     %2 = neg %1      %3 = neg %2                    ->      %3 is %1
 *     %2 = broadcast %1 [4,3]   %3 = add %2, %x[4,3]  ->      %3 = add %1, %x
 *     %3 = pad %1 {lo=0, hi=2}  %4 = pad %2 {lo=3, hi=0}
 *     %5 = add %3, %4                                 ->      %5 = concat %1, %2    %6 = add %5, 0
 *
 * x + 0 and 0 * x are not among them: -0 + 0 is +0, and 0 * inf is NaN. */
#include "ir/factors.h"
#include "op/op.h"
#include "pass/pass.h"

/* An elementwise op stretches its operands by itself. */
static tp_tensor *drop_broadcast(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    for (int i = 0; i < t->n_in; i++) {
        tp_tensor *stretched = tpi_stretched_by(in[i]);
        if (!stretched)
            continue;
        bool covered = false; /* another operand has the whole shape */
        for (int k = 0; k < t->n_in; k++)
            covered |= k != i && tpi_same_shape(in[k], t);
        if (!covered)
            continue;
        tp_tensor *operands[3] = {in[0], in[1], t->n_in > 2 ? in[2] : NULL};
        operands[i] = stretched;
        return tpi_rewrite_node(rw, t, t->op, t->n_in, operands, t->attrs);
    }
    return NULL;
}

static tp_tensor *algebra(tpi_rewrite *rw, const tp_tensor *t, tp_tensor *const *in)
{
    const tpi_simplify s = {.to = rw->to, .node = t, .in = in};
    tp_tensor *made = t->op->simplify ? t->op->simplify(&s) : NULL;
    return made || t->op->kind != TPI_ELEMENT || t->n_in < 2 ? made : drop_broadcast(rw, t, in);
}

const tpi_pass tpi_pass_algebra = {
    .name = "algebra", .about = "local identities", .visit = algebra};
