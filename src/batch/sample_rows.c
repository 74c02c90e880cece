#include "batch/sample_rows.h"

#include "core/copy.h"

#include <string.h>

/* Do they lie side by side, as parts of what a group gave do? */
static bool lie_so(int n, tp_tensor *const *t, int step, size_t bytes)
{
    const char *at = t[0]->data;
    bool so = t[0]->buf != NULL;
    for (int i = 0; i < n && so; i++, at += bytes) {
        const tp_tensor *x = t[i * step];
        so = x->data == at && x->buf == t[0]->buf && x->flags & TPI_CONTIGUOUS;
    }
    return so;
}

static void copy(const tp_tensor *t, char *to)
{
    tp_tensor dense = *t;
    if (t->flags & TPI_CONTIGUOUS) {
        memcpy(to, t->data, tpi_bytes(t));
        return;
    }
    tpi_set_strides(&dense);
    tpi_copy_strided(tp_dtype_size((tp_dtype)t->dtype), t->rank, t->shape, to, dense.stride,
                     t->data, t->stride);
}

tp_tensor *tpi_samples_join(tp_ctx *ctx, tpi_at at, int n, tp_tensor *const *t, int step,
                            bool joined)
{
    int64_t shape[TP_MAX_RANK + 1] = {n};
    memcpy(shape + !joined, t[0]->shape, sizeof *shape * (size_t)t[0]->rank);
    if (joined)
        shape[0] *= n;
    tp_tensor *all = tpi_tensor(ctx, at, (tp_dtype)t[0]->dtype, t[0]->rank + !joined, shape);
    const size_t bytes = tpi_bytes(t[0]);
    if (!all)
        return NULL;
    if (lie_so(n, t, step, bytes)) {
        tpi_set_strides(all);
        tpi_tensor_share(all, t[0], 0);
        tpi_note_contiguous(all);
        return all;
    }
    if (!tpi_tensor_alloc(all))
        return NULL;
    char *to = all->data;
    for (int i = 0; i < n; i++, to += bytes)
        copy(t[i * step], to);
    return all;
}

void tpi_sample_share(tp_tensor *all, int i, tp_tensor *y, bool joined)
{
    const int64_t from = joined ? i * y->shape[0] : i;
    y->flags &= (uint8_t)~TPI_LAZY;
    memcpy(y->stride, all->stride + !joined, sizeof *y->stride * (size_t)y->rank);
    tpi_tensor_share(y, all, from * all->stride[0]);
    tpi_note_contiguous(y);
}
