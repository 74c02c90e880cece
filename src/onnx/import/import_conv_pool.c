/* Convolutions and poolings. */
#include "onnx/import/import.h"

/* ---- where windows lie ------------------------------------------------------------------------- */

/* In a window 0 stands for a stride of 1. */
static int64_t stride_of(const tp_window *w, int i)
{
    return w->stride[i] > 0 ? w->stride[i] : 1;
}

/* From the first element of a window to the last, and one. */
static int64_t reach_of(const tp_window *w, int i)
{
    return w->dilation[i] * (w->kernel[i] - 1) + 1;
}

/* Padding that leaves as many places as there are strides in the size. */
static bool pad_same(tpi_onnx_op *o, const tp_tensor *x, int i, bool more_behind, tp_window *w)
{
    const int64_t size = x->shape[i + 2], stride = stride_of(w, i), reach = reach_of(w, i);
    if (size < 0 && stride != 1)
        return tpi_onnx_refuse(o,
                               "auto_pad with stride %lld needs the size of axis %d, "
                               "which is " TPI_ONNX_FREE_DIM,
                               (long long)stride, i + 2);
    int64_t total = reach - 1;
    if (size >= 0)
        total = ((size + stride - 1) / stride - 1) * stride + reach - size;
    total = total < 0 ? 0 : total;
    w->pad_lo[i] = more_behind ? total / 2 : total - total / 2;
    w->pad_hi[i] = total - w->pad_lo[i];
    return true;
}

typedef enum auto_pad {
    EXPLICIT,
    SAME_UPPER,
    SAME_LOWER,
    VALID
} auto_pad; /* as the table has them */

/* Strides, dilations and padding of windows over x; w->kernel is there already. */
static bool read_window(tpi_onnx_op *o, const tp_tensor *x, tp_window *w)
{
    const int n = x->rank - 2;
    int64_t pads[6] = {0};
    if (!tpi_onnx_read_list_of(o, "strides", n, w->stride) ||
        !tpi_onnx_read_list_of(o, "dilations", n, w->dilation) ||
        !tpi_onnx_read_list_of(o, "pads", 2 * n, pads))
        return false;
    const auto_pad pad = (auto_pad)tpi_onnx_choice(o, "auto_pad");
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        w->pad_lo[i] = pad == EXPLICIT ? pads[i] : 0;
        w->pad_hi[i] = pad == EXPLICIT ? pads[n + i] : 0;
        if (pad == SAME_UPPER || pad == SAME_LOWER)
            ok = pad_same(o, x, i, pad == SAME_UPPER, w);
    }
    return ok;
}

static bool is_spatial(tpi_onnx_op *o, const tp_tensor *x)
{
    return (x->rank >= 3 && x->rank <= 5) ||
           tpi_onnx_refuse(o, "x is %s, not [n, c, ...] with 1 to 3 spatial axes", SHAPE(x));
}

/* ---- convolutions ------------------------------------------------------------------------------- */

/* The sizes of the kernel w, which are those of its weights. */
static bool read_kernel(tpi_onnx_op *o, const tp_tensor *x, const tp_tensor *weights,
                        tp_window *w)
{
    int64_t said[3] = {0};
    if (weights->rank != x->rank)
        return tpi_onnx_refuse(o, "x is %s, w is %s: not of one rank", SHAPE(x),
                               SHAPE(weights));
    if (!tpi_onnx_read_list_of(o, "kernel_shape", x->rank - 2, said))
        return false;
    for (int i = 0; i < x->rank - 2; i++) {
        w->kernel[i] = weights->shape[i + 2];
        if (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX ||
            (tpi_onnx_given(o, "kernel_shape") && said[i] != w->kernel[i]))
            return tpi_onnx_refuse(o, "w is %s, which is not of the kernel's shape",
                                   SHAPE(weights));
    }
    w->groups = tpi_onnx_int(o, "group");
    return w->groups >= 1 ||
           tpi_onnx_refuse(o, "%lld groups are not supported", (long long)w->groups);
}

static tp_tensor *with_bias(tpi_onnx_op *o, tp_tensor *y)
{
    return o->x[2] && y && y->status == TP_OK
               ? tpi_onnx_joined(o, tp_add_at, y, tpi_onnx_per_channel(o, o->x[2], y->rank))
               : y;
}

tp_tensor *tpi_onnx_conv(tpi_onnx_op *o, tp_tensor *x, tp_tensor *weights)
{
    tp_window w = {.groups = 1};
    if (!tpi_onnx_good(o, x) || !tpi_onnx_good(o, weights) || !is_spatial(o, x) ||
        !read_kernel(o, x, weights, &w) || !read_window(o, x, &w))
        return NULL;
    x = tpi_onnx_fitted(o, x, 1, tpi_onnx_dim_mul(o, weights->shape[1], w.groups));
    return tp_conv(x, weights, &w);
}

tp_tensor *tpi_onnx_import_conv(tpi_onnx_op *o, tp_tensor *x)
{
    return with_bias(o, tpi_onnx_conv(o, x, o->x[1]));
}

/* The region of the whole transposed convolution that is the result, along one axis. */
typedef struct region {
    int64_t lo, size; /* elements left out in front; sizes may be symbolic */
    int64_t hi;       /* and behind; less than 0: zeros follow */
} region;

static bool read_region(tpi_onnx_op *o, const tp_tensor *x, int i, const tp_window *w,
                        int64_t more, const tpi_onnx_ints *wanted, region *r)
{
    const int n = x->rank - 2;
    const int64_t in = x->shape[i + 2], stride = stride_of(w, i);
    const auto_pad pad = (auto_pad)tpi_onnx_choice(o, "auto_pad");
    const int64_t whole = tpi_onnx_dim_add(
        o, tpi_onnx_dim_mul(o, tpi_onnx_dim_sub(o, in, 1), stride), reach_of(w, i) + more);
    if (wanted->n == 0 && pad != SAME_UPPER && pad != SAME_LOWER) {
        r->lo = w->pad_lo[i];
        r->hi = w->pad_hi[i] - more;
        r->size = tpi_onnx_dim_sub(o, whole, w->pad_lo[i] + w->pad_hi[i]);
        return true;
    }
    if (in < 0)
        return tpi_onnx_refuse(
            o, "its padding needs the size of axis %d, which is " TPI_ONNX_FREE_DIM, i + 2);
    r->size = wanted->n ? wanted->v[wanted->n - n + i] : tpi_onnx_dim_mul(o, in, stride);
    if (r->size < 0 || r->size > INT32_MAX)
        return tpi_onnx_refuse(o, "%lld in attribute output_shape is no size",
                               (long long)r->size);
    const int64_t pads = whole > r->size ? whole - r->size : 0;
    r->lo = pad == SAME_UPPER ? pads / 2 : pads - pads / 2;
    r->hi = whole - more - r->lo - r->size;
    return true;
}

tp_tensor *tpi_onnx_import_conv_transpose(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *weights = o->x[1];
    tp_window w = {.groups = 1};
    tpi_onnx_ints wanted;
    int64_t more[3] = {0};
    if (!is_spatial(o, x) || !read_kernel(o, x, weights, &w))
        return NULL;
    x = tpi_onnx_fitted(o, x, 1, weights->shape[0]);
    if (!tpi_onnx_good(o, x))
        return NULL;
    const int n = x->rank - 2;
    if (!tpi_onnx_read_list_of(o, "output_padding", n, more) ||
        !tpi_onnx_read_list(o, "output_shape", &wanted))
        return NULL;
    if (wanted.n != 0 && wanted.n != n && wanted.n != n + 2)
        return tpi_onnx_refuse(o, "attribute output_shape has %d numbers for %d axes", wanted.n,
                               n);
    if (!read_window(o, x, &w))
        return NULL;
    for (int i = 0; i < n; i++) {
        region r = {0};
        if (!read_region(o, x, i, &w, more[i], &wanted, &r))
            return NULL;
        w.pad_lo[i] = r.lo;
        w.pad_hi[i] = r.hi < 0 ? 0 : r.hi;
        more[i] = r.hi < 0 ? -r.hi : 0;
    }
    return with_bias(o, tp_conv_transpose(x, weights, &w, more));
}

/* ---- poolings ----------------------------------------------------------------------------------- */

/* With ceil_mode a last window may reach beyond the padding: by how much, in `extra`. It has to
 * begin before the padding behind. */
static bool read_ceil(tpi_onnx_op *o, const tp_tensor *x, const tp_window *w, int64_t *extra)
{
    const bool ceil_mode = tpi_onnx_int(o, "ceil_mode") != 0;
    for (int i = 0; i < x->rank - 2; i++) {
        const int64_t size = x->shape[i + 2], stride = stride_of(w, i), reach = reach_of(w, i);
        extra[i] = 0;
        if (!ceil_mode || stride == 1)
            continue;
        if (size < 0 && stride + w->pad_hi[i] > reach)
            return tpi_onnx_refuse(
                o, "ceil_mode needs the size of axis %d, which is " TPI_ONNX_FREE_DIM, i + 2);
        extra[i] = stride - 1;
        if (size < 0)
            continue;
        const int64_t span = size + w->pad_lo[i] + w->pad_hi[i] - reach;
        if (span < 0)
            continue;
        int64_t last = (span + stride - 1) / stride;
        last -= last * stride >= size + w->pad_lo[i];
        extra[i] = last * stride > span ? last * stride - span : 0;
    }
    return true;
}

/* The operand of a pooling as floats, its windows, and what ceil_mode adds to them. */
static tp_tensor *pool_in(tpi_onnx_op *o, tp_window *w, int64_t *extra)
{
    tp_tensor *x = o->x[0];
    *w = (tp_window){0};
    if (!is_spatial(o, x))
        return NULL;
    if (!tpi_onnx_given(o, "kernel_shape"))
        return tpi_onnx_refuse(o, "attribute kernel_shape is missing");
    if (!tpi_onnx_read_list_of(o, "kernel_shape", x->rank - 2, w->kernel) ||
        !read_window(o, x, w) || !read_ceil(o, x, w, extra))
        return NULL;
    if (x->dtype < TP_F32)
        x = tp_cast(x, x->dtype == TP_I8 || x->dtype == TP_U8 ? TP_F32 : TP_F64);
    return tpi_onnx_good(o, x) ? x : NULL;
}

static void widen(tp_window *w, int n, const int64_t *extra)
{
    for (int i = 0; i < n; i++)
        w->pad_hi[i] += extra[i];
}

/* Places in planes become places in all of x; first axes slowest, or (`turned`) the spatial ones
 * fastest first. */
static tp_tensor *whole_places(tpi_onnx_op *o, const tp_tensor *x, tp_tensor *places,
                               bool turned)
{
    const int64_t plane = tpi_onnx_dim_product(o, x->rank - 2, x->shape + 2),
                  planes[TP_MAX_RANK] = {x->shape[0], x->shape[1], 1, 1, 1, 1, 1, 1};
    tp_tensor *left = places;
    if (turned) {
        int64_t before = plane;
        places = NULL;
        for (int i = x->rank - 1; i >= 2; i--) {
            tp_tensor *size = tpi_onnx_size_of(o, x->shape[i], TP_I64),
                      *at = tp_mod(left, size);
            before = tpi_onnx_dim_div(o, before, x->shape[i]);
            at = tp_mul(at, tpi_onnx_size_of(o, before, TP_I64));
            places = places ? tp_add(places, at) : at;
            left = tp_div(left, size);
        }
    }
    tp_tensor *number = tpi_onnx_iota(o, tpi_onnx_dim_mul(o, planes[0], planes[1]), TP_I64);
    number = tp_mul(tp_reshape(number, x->rank, planes), tpi_onnx_size_of(o, plane, TP_I64));
    return tp_add(places, number);
}

bool tpi_onnx_import_max_pool(tpi_onnx_op *o)
{
    tp_window w;
    int64_t extra[3] = {0};
    tp_tensor *x = pool_in(o, &w, extra);
    if (!x)
        return false;
    widen(&w, x->rank - 2, extra);
    const tp_dtype dtype = (tp_dtype)o->x[0]->dtype;
    if (!tpi_onnx_out(o, 0, tp_cast(tp_max_pool(x, &w), dtype)))
        return false;
    if (!tpi_onnx_wants(o, 1))
        return true;
    tp_tensor *places = tp_max_pool_index(x, &w);
    return tpi_onnx_out(o, 1,
                        whole_places(o, x, places, tpi_onnx_int(o, "storage_order") != 0));
}

tp_tensor *tpi_onnx_import_average_pool(tpi_onnx_op *o, tp_tensor *x)
{
    tp_window w;
    int64_t extra[3] = {0}, lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    if (!(x = pool_in(o, &w, extra)))
        return NULL;
    const bool all = tpi_onnx_int(o, "count_include_pad") != 0;
    bool any = false;
    for (int i = 0; i < x->rank - 2; i++)
        any |= extra[i] > 0;
    if (all && any) { /* the padding counts, and what lies beyond it does not */
        for (int i = 0; i < x->rank - 2; i++) {
            lo[i + 2] = w.pad_lo[i];
            hi[i + 2] = w.pad_hi[i];
            w.pad_lo[i] = w.pad_hi[i] = 0;
        }
        x = tp_pad(x, x->rank, lo, hi, 0);
    }
    w.count_pad = all && !any;
    widen(&w, tp_rank(x) - 2, extra);
    return tp_avg_pool(x, &w);
}

tp_tensor *tpi_onnx_import_lp_pool(tpi_onnx_op *o, tp_tensor *x)
{
    tp_window w;
    int64_t extra[3] = {0};
    if (!(x = pool_in(o, &w, extra)))
        return NULL;
    widen(&w, x->rank - 2, extra);
    return tp_lp_pool(x, (double)tpi_onnx_int(o, "p"), &w);
}

/* Over all spatial axes. */
tp_tensor *tpi_onnx_import_global_pool(tpi_onnx_op *o, tp_tensor *x)
{
    int64_t axes[TP_MAX_RANK];
    const int n = tpi_onnx_axes_from(2, x->rank, axes);
    if (n == 0)
        return tpi_onnx_refuse(o, "x is %s, without spatial axes", SHAPE(x));
    if (o->row == TPI_OPERATOR_GlobalAveragePool)
        return tp_mean(x, n, axes, true);
    if (o->row == TPI_OPERATOR_GlobalMaxPool)
        return tp_reduce_max(x, n, axes, true);
    return tp_norm(x, (double)tpi_onnx_int(o, "p"), n, axes, true);
}

/* Zeros, and x at the places that MaxPool gave. Those are places in a tensor of the sizes that
 * kernel, strides and pads tell; one that is asked for may be larger. */
tp_tensor *tpi_onnx_import_max_unpool(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *places = o->x[1];
    tp_window w = {0};
    if (!is_spatial(o, x) || !tpi_onnx_read_list_of(o, "kernel_shape", x->rank - 2, w.kernel) ||
        !read_window(o, x, &w))
        return NULL;
    int64_t shape[TP_MAX_RANK], hi[TP_MAX_RANK] = {0}, lo[TP_MAX_RANK] = {0};
    bool larger = false;
    for (int i = 0; i < x->rank; i++) {
        shape[i] = x->shape[i];
        if (i >= 2) {
            const int64_t last = tpi_onnx_dim_sub(o, shape[i], 1);
            shape[i] = tpi_onnx_dim_add(o, tpi_onnx_dim_mul(o, last, w.stride[i - 2]),
                                        w.kernel[i - 2] - w.pad_lo[i - 2] - w.pad_hi[i - 2]);
        }
    }
    const int64_t count = tpi_onnx_dim_product(o, x->rank, shape);
    if (tpi_onnx_has(o, 2)) {
        tpi_onnx_ints asked;
        if (!tpi_onnx_plain_ints(o, 2, &asked))
            return NULL;
        for (int i = 0; i < x->rank && asked.n == x->rank; i++) {
            hi[i] = asked.v[i] - shape[i];
            larger |= hi[i] != 0;
            if (hi[i] < 0 || shape[i] < 0)
                return tpi_onnx_refuse(o, "output_shape is smaller than its windows tell");
        }
        if (asked.n != x->rank)
            return tpi_onnx_refuse(o, "output_shape has %d sizes for %s", asked.n, SHAPE(x));
    }
    tp_tensor *zeros = tpi_onnx_full(o, (tp_dtype)x->dtype, 1, &count, 0);
    tp_tensor *y = tp_scatter(zeros, tp_flatten(places, 0), tp_flatten(x, 0), 0);
    y = tp_reshape(y, x->rank, shape);
    return larger ? tp_pad(y, x->rank, lo, hi, 0) : y;
}

tp_tensor *tpi_onnx_import_col2im(tpi_onnx_op *o, tp_tensor *x)
{
    tpi_onnx_ints image, block;
    if (!tpi_onnx_plain_ints(o, 1, &image) || !tpi_onnx_plain_ints(o, 2, &block))
        return NULL;
    const int n = image.n;
    tp_tensor like = {.rank = (uint8_t)(n + 2)}; /* only its sizes are looked at */
    tp_window w = {0};
    if (n < 1 || n > 3 || block.n != n)
        return tpi_onnx_refuse(o, "an image of %d and a block of %d axes", n, block.n);
    for (int i = 0; i < n; i++) {
        like.shape[i + 2] = image.v[i];
        w.kernel[i] = block.v[i];
    }
    return read_window(o, &like, &w) ? tp_fold(x, n, image.v, &w) : NULL;
}
