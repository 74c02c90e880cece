/* Where values lie, as the kernels that read and write them see it. */
#include "plan/plan.h"

void tpi_operand_layout(const tpi_plan *p, const tp_tensor *t, int k, tpi_layout *out)
{
    const tp_tensor *x = t->in[k];
    const tpi_layout *own = &p->values[x->index].layout;
    out->root = own->root;
    out->offset = own->offset;
    const int rank = t->op->kind == TPI_REDUCE ? x->rank : t->rank;
    for (int i = 0; i < rank; i++) {
        const int at = i - (rank - x->rank);
        out->stride[i] = at < 0 || x->shape[at] == 1 ? 0 : own->stride[at];
    }
}

void tpi_domain_strides(const tpi_kernel *k, const tpi_value *v, const int64_t *stride,
                        int64_t *out)
{
    for (int i = 0; i < k->rank; i++)
        out[i] = 0;
    for (int i = 0; i < v->node->rank; i++)
        if (v->axis_of[i] >= 0)
            out[v->axis_of[i]] = stride[i];
}
