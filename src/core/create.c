/* Concrete tensors made from memory and numbers. */
#include "base/float_mode.h"
#include "core/dim.h"

#include <string.h>

bool tpi_check_maker(tp_ctx *ctx, tpi_at at, const char *what, tp_dtype dtype, int rank,
                     const int64_t *shape, tp_tensor **failed)
{
    if (!ctx) {
        *failed = (tp_tensor *)&tpi_nil;
        return false;
    }
    if ((unsigned)dtype >= TP_N_DTYPES) {
        *failed = tpi_fail(ctx, at, what, TP_E_DTYPE, "%d is no element type", (int)dtype);
        return false;
    }
    return tpi_check_shape(ctx, at, what, rank, shape, failed);
}

/* With memory; a failed tensor when that is out. */
static tp_tensor *make(tp_ctx *ctx, tpi_at at, const char *what, tp_dtype dtype, int rank,
                       const int64_t *shape)
{
    tp_tensor *t = tpi_tensor(ctx, at, dtype, rank, shape);
    return t && tpi_tensor_alloc(t) ? t : tpi_no_memory(ctx, at, what);
}

tp_tensor *tp_tensor_new_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                            const int64_t *shape, const void *data)
{
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, "tp_tensor_new");
    tp_tensor *t;
    if (!tpi_check_maker(tp, at, "tp_tensor_new", dtype, rank, shape, &t))
        return t;
    t = make(tp, at, "tp_tensor_new", dtype, rank, shape);
    if (t->status != TP_OK)
        return t;
    const size_t bytes = tpi_bytes(t);
    if (!data) {
        memset(t->data, 0, bytes);
    } else if (dtype == TP_BOOL) { /* any true byte is 1 */
        const uint8_t *from = data;
        uint8_t *to = (uint8_t *)t->data;
        for (size_t i = 0; i < bytes; i++)
            to[i] = from[i] != 0;
    } else if (bytes) {
        memcpy(t->data, data, bytes);
    }
    return t;
}

TPI_BARE(tp_tensor *, tp_tensor_new,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, const void *data), tp,
         dtype, rank, shape, data)

tp_tensor *tp_tensor_wrap_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                             const int64_t *shape, void *data,
                             void (*release)(void *user, void *data), void *user)
{
    static const char what[] = "tp_tensor_wrap";
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, what);
    tp_tensor *t;
    if (!tpi_check_maker(tp, at, what, dtype, rank, shape, &t))
        return t;
    t = tpi_tensor(tp, at, dtype, rank, shape);
    if (!t)
        return tpi_no_memory(tp, at, what);
    if (!data && tpi_count(t) > 0)
        return tpi_fail(tp, at, what, TP_E_NULL, "data of %s elements is NULL", SHAPE(t));
    if ((uintptr_t)data % tp_dtype_size(dtype))
        return tpi_fail(tp, at, what, TP_E_VALUE,
                        "data at %p is not aligned to its elements of %zu bytes", data,
                        tp_dtype_size(dtype));
    tpi_buf *b = tpi_take(&tp->mem, sizeof *b);
    if (!b)
        return tpi_no_memory(tp, at, what);
    *b = (tpi_buf){.refs = 1, .data = data, .release = release, .user = user};
    t->buf = b;
    t->data = data;
    tpi_set_strides(t);
    return t;
}

TPI_BARE(tp_tensor *, tp_tensor_wrap,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, void *data,
          void (*release)(void *user, void *data), void *user),
         tp, dtype, rank, shape, data, release, user)

tp_tensor *tp_full_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int rank,
                      const int64_t *shape, double value)
{
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, "tp_full");
    tp_tensor *t;
    if (!tpi_check_maker(tp, at, "tp_full", dtype, rank, shape, &t))
        return t;
    if (tpi_is_near_handle(tp, value))
        return tpi_fail_near_handle(tp, at, "tp_full", value);
    t = make(tp, at, "tp_full", dtype, rank, shape);
    const size_t size = tp_dtype_size(dtype), bytes = t->status == TP_OK ? tpi_bytes(t) : 0;
    if (bytes == 0)
        return t;
    tpi_store_f64(dtype, t->data, value);
    for (size_t done = size; done < bytes;) { /* twice as much each time */
        const size_t n = done < bytes - done ? done : bytes - done;
        memcpy(t->data + done, t->data, n);
        done += n;
    }
    return t;
}

TPI_BARE(tp_tensor *, tp_full,
         (tp_ctx * tp, tp_dtype dtype, int rank, const int64_t *shape, double value), tp, dtype,
         rank, shape, value)

tp_tensor *tpi_make_scalar(tp_ctx *ctx, tpi_at at, const char *what, tp_dtype dtype,
                           double value)
{
    if (tpi_is_near_handle(ctx, value))
        return tpi_fail_near_handle(ctx, at, what, value);
    if (ctx->frame)
        return ctx->frame->rules->scalar(ctx, at, dtype, value);
    tp_tensor *t = make(ctx, at, what, dtype, 0, NULL);
    if (t->status == TP_OK)
        tpi_store_f64(dtype, t->data, value);
    return t;
}

tp_tensor *tp_scalar_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, double value)
{
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, "tp_scalar");
    tp_tensor *failed;
    if (!tpi_check_maker(tp, at, "tp_scalar", dtype, 0, NULL, &failed))
        return failed;
    return tpi_make_scalar(tp, at, "tp_scalar", dtype, value);
}

TPI_BARE(tp_tensor *, tp_scalar, (tp_ctx * tp, tp_dtype dtype, double value), tp, dtype, value)

tp_tensor *tp_arange_at(const char *file, int line, tp_ctx *tp, tp_dtype dtype, int64_t n,
                        double start, double step)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, "tp_arange");
    tp_tensor *t;
    if (!tpi_check_maker(tp, at, "tp_arange", dtype, 1, &n, &t))
        return t;
    if (tpi_is_near_handle(tp, start) || tpi_is_near_handle(tp, step))
        return tpi_fail_near_handle(tp, at, "tp_arange",
                                    tpi_is_near_handle(tp, start) ? start : step);
    t = make(tp, at, "tp_arange", dtype, 1, &n);
    if (t->status != TP_OK)
        return t;
    const size_t size = tp_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        tpi_store_f64(dtype, t->data + (size_t)i * size, start + (double)i * step);
    return t;
}

TPI_BARE(tp_tensor *, tp_arange,
         (tp_ctx * tp, tp_dtype dtype, int64_t n, double start, double step), tp, dtype, n,
         start, step)
