/* Channels become blocks of pixels, and back. */
#include "composite/places.h"

/* NULL, or the failed tensor: x is not [n, c, h, w], or r no size of a block. */
static tp_tensor *refuse_blocks(tpi_at at, const char *what, tp_tensor *x, int64_t r)
{
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, x);
    if (failed)
        return failed;
    if (x->rank != 4)
        return tpi_fail(x->ctx, at, what, TP_E_SHAPE, "x is %s, not [n, c, h, w]", SHAPE(x));
    if (tpi_is_spoilt(r))
        return tpi_fail_spoilt(x->ctx, at, what, TP_E_VALUE, r);
    if (r < 1 || r > 1 << 20)
        return tpi_fail(x->ctx, at, what, TP_E_VALUE, "blocks of %lld", (long long)r);
    return NULL;
}

/* An axis in parts of k; TPI_NO_DIM and *failed: it is no multiple of k. */
static int64_t part(tpi_at at, const char *what, const tp_tensor *x, int axis, int64_t k,
                    tp_tensor **failed)
{
    const int64_t size = x->shape[axis], parts = tpi_dim_div(tpi_dims_of(x), size, k);
    if (tpi_dim_is_symbolic(size) || parts * k == size) /* a run sees whether it is */
        return parts;
    *failed =
        tpi_fail(x->ctx, at, what, TP_E_SHAPE, "axis %d of x %s is not a multiple of %lld",
                 axis, SHAPE(x), (long long)k);
    return TPI_NO_DIM;
}

/* Channels to blocks of r by r: those of a channel lie together (`inner`), or those of a place in the
 * blocks do. */
static tp_tensor *to_blocks(tpi_at at, const char *what, tp_tensor *x, int64_t r, bool inner)
{
    tp_tensor *failed = refuse_blocks(at, what, x, r);
    if (failed)
        return failed;
    tpi_dims *dims = tpi_dims_of(x);
    const int64_t n = x->shape[0], h = x->shape[2], w = x->shape[3];
    const int64_t c = part(at, what, x, 1, r * r, &failed);
    if (failed)
        return failed;
    x = inner ? tp_reshape(x, TP_DIMS(n, c, r, r, h, w))
              : tp_reshape(x, TP_DIMS(n, r, r, c, h, w));
    x = inner ? tp_transpose(x, TP_DIMS(0, 1, 4, 2, 5, 3))
              : tp_transpose(x, TP_DIMS(0, 3, 4, 1, 5, 2));
    return tp_reshape(x, TP_DIMS(n, c, tpi_dim_mul(dims, h, r), tpi_dim_mul(dims, w, r)));
}

static tp_tensor *from_blocks(tpi_at at, const char *what, tp_tensor *x, int64_t r, bool inner)
{
    tp_tensor *failed = refuse_blocks(at, what, x, r);
    if (failed)
        return failed;
    const int64_t n = x->shape[0], c = x->shape[1];
    const int64_t h = part(at, what, x, 2, r, &failed);
    const int64_t w = failed ? h : part(at, what, x, 3, r, &failed);
    if (failed)
        return failed;
    x = tp_reshape(x, TP_DIMS(n, c, h, r, w, r));
    x = inner ? tp_transpose(x, TP_DIMS(0, 1, 3, 5, 2, 4))
              : tp_transpose(x, TP_DIMS(0, 3, 5, 1, 2, 4));
    return tp_reshape(x, TP_DIMS(n, tpi_dim_mul(tpi_dims_of(x), c, r * r), h, w));
}

TPI_COMPOSITE(tp_pixel_shuffle, (tp_tensor * x, int64_t r), x, r)
{
    return to_blocks(at, "pixel_shuffle", x, r, true);
}

TPI_COMPOSITE(tp_pixel_unshuffle, (tp_tensor * x, int64_t r), x, r)
{
    return from_blocks(at, "pixel_unshuffle", x, r, true);
}

TPI_COMPOSITE(tp_depth_to_space, (tp_tensor * x, int64_t r), x, r)
{
    return to_blocks(at, "depth_to_space", x, r, false);
}

TPI_COMPOSITE(tp_space_to_depth, (tp_tensor * x, int64_t r), x, r)
{
    return from_blocks(at, "space_to_depth", x, r, false);
}
