#include "op/trap.h"

#include "op/op.h"

#include <string.h>

/* The first NaN in `n` elements at steps of `stride` elements, or n. */
static int64_t nan_in_row(tp_dtype dtype, const char *p, int64_t n, int64_t stride)
{
    const int64_t size = (int64_t)tp_dtype_size(dtype);
    int64_t i = 0;
    for (bool found = false; i < n; i++, p += stride * size) {
        if (dtype == TP_F32) {
            float v;
            memcpy(&v, p, sizeof v);
            found = v != v;
        } else {
            double v;
            memcpy(&v, p, sizeof v);
            found = v != v;
        }
        if (found)
            break;
    }
    return i;
}

/* The row-major position of the first NaN, or -1. */
static int64_t find_nan(const tp_tensor *t)
{
    const int64_t all = t->dtype >= TP_F32 ? tpi_count(t) : 0;
    const int last = t->rank - 1;
    const int64_t n = t->rank ? t->shape[last] : 1, step = t->rank ? t->stride[last] : 1;
    int64_t index[TP_MAX_RANK] = {0}, offset = 0;
    for (int64_t at = 0; at < all; at += n) {
        const char *row = t->data + offset * (int64_t)tp_dtype_size((tp_dtype)t->dtype);
        const int64_t found = nan_in_row((tp_dtype)t->dtype, row, n, step);
        if (found < n)
            return at + found;
        for (int i = last - 1; i >= 0; i--) {
            offset += t->stride[i];
            if (++index[i] < t->shape[i])
                break;
            offset -= t->stride[i] * t->shape[i];
            index[i] = 0;
        }
    }
    return -1;
}

bool tpi_makes_nan(const tpi_run *r, int64_t *at)
{
    *at = find_nan(r->out);
    bool makes = *at >= 0;
    for (int i = 0; i < r->n_in && makes; i++)
        makes = find_nan(r->in[i]) < 0;
    return makes;
}

bool tpi_trap(tpi_run *r)
{
    int64_t at, index[TP_MAX_RANK];
    if (!tpi_makes_nan(r, &at))
        return true;
    const tp_tensor *t = r->out;
    for (int i = t->rank - 1; i >= 0; i--) {
        index[i] = at % t->shape[i];
        at /= t->shape[i];
    }
    tpi_str s = TPI_STR(&r->ctx->mem);
    for (int i = 0; i < t->rank; i++)
        tpi_str_printf(&s, "%s%lld", i ? ", " : "", (long long)index[i]);
    const bool ok = tpi_run_fail(r, TP_E_VALUE, "NaN at element [%s], and none in the operands",
                                 s.len && !s.failed ? s.text : "");
    tpi_str_free(&s);
    return ok;
}
