/* Rules that ops share: see op_rules.h. */
#include "ir/op_rules.h"

#include "ir/body.h"

#include <string.h>

bool tpi_infer_like(tpi_infer *q, int i)
{
    const tp_tensor *x = q->in[i];
    q->dtype = (tp_dtype)x->dtype;
    q->rank = x->rank;
    memcpy(q->shape, x->shape, sizeof(int64_t) * x->rank);
    return true;
}

bool tpi_same_infer(tpi_infer *q)
{
    return tpi_infer_like(q, 0);
}

bool tpi_same_view(tpi_view *v)
{
    v->offset = 0;
    memcpy(v->stride, v->in_stride, sizeof(int64_t) * v->in->rank);
    return true;
}

bool tpi_same_kernel(tpi_run *r)
{
    tpi_copy_out(r->in[0], r->out->data);
    return true;
}

tp_tensor *tpi_same_simplify(const tpi_simplify *s)
{
    return s->in[0];
}

void tpi_grad_by_sweep(tpi_grad *g)
{
    (void)g;
}

const tpi_attr tpi_index_table[] = {
    {"index",                   TPI_ATTR_INT, offsetof(tpi_index_attrs, index)},
    {0},
};
