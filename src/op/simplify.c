/* What rules that simplify are written with. */
#include "ir/graph_def.h"
#include "op/op.h"

tp_tensor *tpi_simplify_node(const tpi_simplify *s, const tpi_op *op, int n_in,
                             tp_tensor *const *in, const void *attrs)
{
    const tp_tensor *t = s->node;
    return tpi_graph_node(s->to, TPI_AT(t->file, t->line), op, n_in, in, attrs,
                          (tp_dtype)t->dtype, t->rank, t->shape);
}
