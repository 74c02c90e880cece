/* What a VJP rule of an op gives its operands. */
#include "op/op.h"

void tpi_give(tpi_grad *g, int i, tp_tensor *dx)
{
    if (!g->wanted[i] || !dx)
        return;
    const tp_tensor *x = g->x[i];
    if (dx->status == TP_OK && !tpi_same_shape(dx, x)) {
        int64_t axes[TP_MAX_RANK];
        int n = 0;
        const int extra = dx->rank - x->rank;
        for (int a = 0; a < dx->rank; a++)
            if (a < extra || (x->shape[a - extra] == 1 && dx->shape[a] != 1))
                axes[n++] = a;
        if (n > 0) {
            dx = tp_sum_at(g->at.file, g->at.line, dx, n, axes, n > extra);
            if (n > extra && extra > 0)
                dx = tp_reshape_at(g->at.file, g->at.line, dx, x->rank, x->shape);
        }
    }
    tpi_ref(dx);
    if (g->dx[i]) {
        tp_tensor *sum = tp_add_at(g->at.file, g->at.line, g->dx[i], dx);
        tpi_ref(sum);
        tpi_unref(dx);
        tpi_unref(g->dx[i]);
        dx = sum;
    }
    g->dx[i] = dx;
}
