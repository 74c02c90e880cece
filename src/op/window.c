#include "op/window.h"

static void fill(tpi_list *list, int n, const int64_t *given, int64_t otherwise)
{
    list->n = n;
    for (int i = 0; i < n; i++)
        list->v[i] = given && given[i] ? given[i] : otherwise;
}

void tpi_window_fill(tpi_window *w, const tp_window *given, int n, const int64_t *stride)
{
    fill(&w->stride, n, given ? given->stride : NULL, 1);
    fill(&w->pad_lo, n, given ? given->pad_lo : NULL, 0);
    fill(&w->pad_hi, n, given ? given->pad_hi : NULL, 0);
    fill(&w->dilation, n, given ? given->dilation : NULL, 1);
    for (int i = 0; stride && i < n; i++)
        if (!given || !given->stride[i])
            w->stride.v[i] = stride[i];
}

/* Entries beyond this are no windows; kernels multiply them without looking. */
enum { LARGEST = INT32_MAX };

static bool refuse_list(tpi_infer *q, const char *name, const tpi_list *list, int n,
                        int64_t least)
{
    bool good = list->n == n;
    for (int i = 0; i < n && good; i++)
        good = list->v[i] >= least && list->v[i] <= LARGEST;
    return good ? true
                : tpi_refuse(q, TP_E_VALUE, "%s %s: %d entries from %d to %d are needed", name,
                             SIZES(q->ctx, NULL, list->n, list->v), n, (int)least, LARGEST);
}

bool tpi_refuse_window(tpi_infer *q, const tpi_window *w)
{
    const tp_tensor *x = q->in[0];
    const int n = tpi_spatial(x);
    if (n == 0)
        return tpi_refuse(q, TP_E_SHAPE,
                          "%s is not [n, channels, ...] with 1 to %d spatial axes", SHAPE(x),
                          TPI_MAX_SPATIAL);
    if (x->dtype < TP_F32)
        return tpi_refuse(q, TP_E_DTYPE, "elements of type %s are not float",
                          tp_dtype_name((tp_dtype)x->dtype));
    return refuse_list(q, "stride", &w->stride, n, 1) &&
           refuse_list(q, "pad_lo", &w->pad_lo, n, 0) &&
           refuse_list(q, "pad_hi", &w->pad_hi, n, 0) &&
           refuse_list(q, "dilation", &w->dilation, n, 1);
}

int64_t tpi_window_places(tpi_dims *dims, const tpi_window *w, int i, int64_t size,
                          int64_t kernel)
{
    if (!tpi_dim_is_size(dims, size) || !tpi_dim_is_size(dims, kernel))
        return TPI_NO_DIM;
    const int64_t pads = tpi_dim_add(dims, w->pad_lo.v[i], w->pad_hi.v[i]);
    const int64_t reach = tpi_dim_mul(dims, w->dilation.v[i], tpi_dim_sub(dims, kernel, 1));
    const int64_t span =
        tpi_dim_sub(dims, tpi_dim_add(dims, size, pads), tpi_dim_add(dims, reach, 1));
    return tpi_dim_add(dims, tpi_dim_div(dims, span, w->stride.v[i]), 1);
}
