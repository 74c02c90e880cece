/* Contractions and windows as operators of ONNX. */
#include "core/dim.h"
#include "onnx/export/emit.h"

#include <string.h>

/* ---- matmul ------------------------------------------------------------------------------ */

/* The operand without a broadcast of its leading axes: MatMul does that too. */
static const tp_tensor *unstretched(const tpi_export *x, const tp_tensor *t,
                                    const tp_tensor *other)
{
    if (t->op->code != TPI_OP_broadcast || t->in[0]->rank < 2 || tpi_is_fed(x, t))
        return t;
    const tp_tensor *from = t->in[0];
    const int more = t->rank - from->rank;
    for (int i = 0; i < t->rank; i++) {
        const bool stretched = i < more || from->shape[i - more] != t->shape[i];
        if (stretched && (i >= t->rank - 2 || other->op->code == TPI_OP_broadcast))
            return t;
    }
    return from;
}

tpi_val tpi_export_matmul(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *a = unstretched(x, t->in[0], t->in[1]),
                    *b = unstretched(x, t->in[1], t->in[0]);
    return tpi_native(x, "MatMul", TPI_V(tpi_value_of(x, a), tpi_value_of(x, b)));
}

/* All rows are added to the open chain, which is never closed: the order is the runtime's anyway. */
tpi_val tpi_export_add_rows(tpi_export *x, const tp_tensor *t)
{
    static const int64_t turn[] = {1, 0};
    tpi_dims *dims = tpi_dims_of(t);
    const int64_t k = t->in[1]->shape[1], m = t->in[1]->shape[0];
    const tpi_val state = tpi_in(x, t, 0), none = tpi_int(x, 0);
    const tpi_val half = tpi_size(x, k), both = tpi_size(x, tpi_dim_add(dims, k, k));
    const tpi_val closed = tpi_cut(x, state, 0, none, half, 1);
    const tpi_val open = tpi_cut(x, state, 0, half, both, 1);
    const tpi_val counts = tpi_cut(x, state, 0, both, tpi_size(x, t->shape[0]), 1);
    const tpi_val left = tpi_permute(x, tpi_in(x, t, 1), 2, turn);
    const tpi_val sum = tpi_native(x, "MatMul", TPI_V(left, tpi_in(x, t, 2)));
    const tpi_val more = tpi_as(x, tpi_size(x, m), (tp_dtype)t->dtype);
    const tpi_val rows = tpi_native(x, "Add", TPI_V(open, sum));
    const tpi_val y =
        tpi_put(x, "Concat", TPI_V(closed, rows, tpi_native(x, "Add", TPI_V(counts, more))));
    tpi_put_int(x, "axis", 0);
    return y;
}

/* ---- windows ----------------------------------------------------------------------------- */

enum { SPATIAL = TP_MAX_RANK - 2 };

/* The first elements of some axes, so many of each. */
static tpi_val shortened(tpi_export *x, tpi_val v, int n, const int64_t *sizes,
                         const int64_t *axes)
{
    const int64_t zeros[SPATIAL] = {0};
    return tpi_put(
        x, "Slice",
        TPI_V(v, tpi_ints(x, n, zeros), tpi_sizes(x, n, sizes), tpi_ints(x, n, axes)));
}

/* The transpose of a convolution of a window: what y [n, c, o...] came from, [n, c', s...], and
 * w. From the least size that leads to o an axis is `stride - 1` longer at most; so much is made
 * where the size is not a number, and cut. */
static tpi_val transposed(tpi_export *x, const tp_tensor *t, tpi_val y, tpi_val w,
                          const int64_t *out, const int64_t *kernel, const int64_t *sizes)
{
    const tpi_list *stride = tpi_attr_list(t, "stride");
    int64_t more[SPATIAL], cut[SPATIAL], axes[SPATIAL];
    int n_cut = 0;
    const int n = (int)stride->n;
    for (int i = 0; i < n; i++) {
        const int64_t reach = tpi_attr_list(t, "dilation")->v[i] * (kernel[i] - 1) + 1;
        const int64_t pads =
            tpi_attr_list(t, "pad_lo")->v[i] + tpi_attr_list(t, "pad_hi")->v[i];
        more[i] = stride->v[i] - 1;
        if (out[i] >= 0 && sizes[i] >= 0) {
            more[i] = sizes[i] - (stride->v[i] * (out[i] - 1) + reach - pads);
        } else if (more[i] > 0) {
            cut[n_cut] = sizes[i];
            axes[n_cut++] = i + 2;
        }
    }
    tpi_val v = tpi_put_alike(x, "ConvTranspose", t, TPI_V(y, w));
    tpi_put_ints(x, "output_padding", n, more);
    return n_cut > 0 ? shortened(x, v, n_cut, cut, axes) : v;
}

static bool known_kernel(tpi_export *x, const int64_t *kernel, int n)
{
    for (int i = 0; i < n; i++)
        if (tpi_dim_is_symbolic(kernel[i])) {
            tpi_export_refuse(x, "the size of the window is not a number");
            return false;
        }
    return true;
}

tpi_val tpi_export_conv_dx(tpi_export *x, const tp_tensor *t)
{
    const tp_dtype work = tpi_work_type("ConvTranspose", (tp_dtype)t->dtype);
    const tp_tensor *y = t->in[0], *w = t->in[1];
    if (!known_kernel(x, w->shape + 2, w->rank - 2))
        return 0;
    const tpi_val v =
        transposed(x, t, tpi_as(x, tpi_in(x, t, 0), work), tpi_as(x, tpi_in(x, t, 1), work),
                   y->shape + 2, w->shape + 2, t->shape + 2);
    return tpi_as(x, v, (tp_dtype)t->dtype);
}

/* A convolution of x by dy, with batch and channels in each other's places, and steps and gaps of
 * the window too:  x [n, g c, s...] -> [c, g n, s...],  dy [n, oc, o...] -> [oc, n, o...],
 * giving [c, oc, k...]. What x has behind the last window gives taps that are none. */
tpi_val tpi_export_conv_dw(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *from = t->in[0], *dy = t->in[1];
    const tp_dtype work = tpi_work_type("Conv", (tp_dtype)t->dtype);
    const int rank = t->rank;
    const int64_t groups = tpi_attr_int(t, "groups");
    int64_t shape[TP_MAX_RANK + 1], swap[TP_MAX_RANK + 1];
    for (int i = 0; i <= rank; i++)
        swap[i] = i;
    tpi_val a = tpi_as(x, tpi_in(x, t, 0), work), b = tpi_as(x, tpi_in(x, t, 1), work);
    if (groups > 1) {
        shape[0] = from->shape[0];
        shape[1] = groups;
        shape[2] = t->shape[1];
        memcpy(shape + 3, from->shape + 2, sizeof(int64_t) * (size_t)(rank - 2));
        a = tpi_reshape(x, a, NULL, rank + 1, shape);
        swap[0] = 2;
        swap[2] = 0;
        a = tpi_permute(x, a, rank + 1, swap);
        shape[0] = t->shape[1];
        shape[1] = tpi_dim_mul(x->now.g->dims, groups, from->shape[0]);
        memcpy(shape + 2, from->shape + 2, sizeof(int64_t) * (size_t)(rank - 2));
        a = tpi_reshape(x, a, NULL, rank, shape);
        swap[2] = 2;
    }
    swap[0] = 1;
    swap[1] = 0;
    if (groups == 1)
        a = tpi_permute(x, a, rank, swap);
    b = tpi_permute(x, b, rank, swap);
    tpi_val v = tpi_put(x, "Conv", TPI_V(a, b));
    const tpi_list *lo = tpi_attr_list(t, "pad_lo"), *hi = tpi_attr_list(t, "pad_hi");
    int64_t pads[2 * SPATIAL], axes[SPATIAL];
    bool even = true; /* no rest behind the last window */
    for (int i = 0; i < rank - 2; i++) {
        const int64_t stride = tpi_attr_list(t, "stride")->v[i];
        const int64_t reach = tpi_attr_list(t, "dilation")->v[i] * (t->shape[i + 2] - 1) + 1;
        pads[i] = lo->v[i];
        pads[rank - 2 + i] = hi->v[i];
        axes[i] = i + 2;
        even &= stride == 1 || (from->shape[i + 2] >= 0 && dy->shape[i + 2] >= 0 &&
                                from->shape[i + 2] + lo->v[i] + hi->v[i] ==
                                    stride * (dy->shape[i + 2] - 1) + reach);
    }
    tpi_put_ints(x, "pads", 2 * (rank - 2), pads);
    tpi_put_ints(x, "strides", rank - 2, tpi_attr_list(t, "dilation")->v);
    tpi_put_ints(x, "dilations", rank - 2, tpi_attr_list(t, "stride")->v);
    tpi_put_int(x, "group", groups);
    if (!even)
        v = shortened(x, v, rank - 2, t->shape + 2, axes);
    return tpi_as(x, tpi_permute(x, v, rank, swap), (tp_dtype)t->dtype);
}

/* ---- pools ------------------------------------------------------------------------------- */

/* The places of the greatest elements among all of x in a row. */
static tpi_val max_places(tpi_export *x, const tp_tensor *t)
{
    tpi_put(x, "MaxPool", TPI_V(tpi_in(x, t, 0)));
    const tpi_val y = tpi_put_result(x, TP_I64);
    tpi_put_shared(x, t);
    return y;
}

/* Within a plane of x. */
tpi_val tpi_export_max_pool_index(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *from = t->in[0];
    const int64_t plane = tpi_size_product(x, from->rank - 2, from->shape + 2);
    return tpi_put(x, "Mod", TPI_V(max_places(x, t), tpi_size(x, plane)));
}

/* Each dy goes to the place its window's greatest has. */
tpi_val tpi_export_max_pool_dx(tpi_export *x, const tp_tensor *t)
{
    const tpi_val flat = tpi_int(x, -1);
    const int64_t count = tpi_size_product(x, t->rank, t->shape);
    const tpi_val places = tpi_put(x, "Reshape", TPI_V(max_places(x, t), flat));
    const tpi_val dy = tpi_put(x, "Reshape", TPI_V(tpi_in(x, t, 1), flat));
    const tpi_val zeros = tpi_expand(x, tpi_scalar(x, (tp_dtype)t->dtype, 0), 1, &count);
    const tpi_val dx = tpi_put(x, "ScatterElements", TPI_V(zeros, places, dy));
    tpi_put_text(x, "reduction", "add");
    return tpi_reshape(x, dx, NULL, t->rank, t->shape);
}

static int64_t window_taps(const tp_tensor *t)
{
    const tpi_list *kernel = tpi_attr_list(t, "kernel");
    int64_t taps = 1;
    for (int i = 0; i < kernel->n; i++)
        taps *= kernel->v[i];
    return taps;
}

/* Planes as a batch of one channel: [n c, 1, s...]. */
static tpi_val as_planes(tpi_export *x, const tp_tensor *t, tpi_val v)
{
    int64_t shape[TP_MAX_RANK];
    memcpy(shape, t->shape, sizeof(int64_t) * t->rank);
    shape[0] = tpi_dim_mul(x->now.g->dims, t->shape[0], t->shape[1]);
    shape[1] = 1;
    return tpi_reshape(x, tpi_as(x, v, TP_F32), NULL, t->rank, shape);
}

/* [1, 1, kernel...] of ones. */
static tpi_val ones(tpi_export *x, int n, const int64_t *sizes)
{
    int64_t shape[TP_MAX_RANK] = {1, 1};
    memcpy(shape + 2, sizes, sizeof(int64_t) * (size_t)n);
    return tpi_expand(x, tpi_scalar(x, TP_F32, 1), n + 2, shape);
}

/* A convolution of planes by ones. */
static tpi_val window_sums(tpi_export *x, const tp_tensor *t, tpi_val planes)
{
    const tpi_list *kernel = tpi_attr_list(t, "kernel");
    const tpi_val weights = ones(x, (int)kernel->n, kernel->v);
    return tpi_put_alike(x, "Conv", t, TPI_V(planes, weights));
}

/* By how many elements each window's sum is divided: [1, 1, o...], or a scalar. */
static tpi_val shares(tpi_export *x, const tp_tensor *t, const int64_t *sizes)
{
    const tpi_list *kernel = tpi_attr_list(t, "kernel");
    const tpi_list *lo = tpi_attr_list(t, "pad_lo"), *hi = tpi_attr_list(t, "pad_hi");
    bool padded = false;
    for (int i = 0; i < kernel->n; i++)
        padded |= lo->v[i] > 0 || hi->v[i] > 0;
    if (!padded || tpi_attr_int(t, "count_pad"))
        return tpi_scalar(x, TP_F32, (double)window_taps(t));
    const tpi_val plane = ones(x, (int)kernel->n, sizes);
    return window_sums(x, t, plane);
}

static bool is_dilated(const tp_tensor *t)
{
    const tpi_list *dilation = tpi_attr_list(t, "dilation");
    for (int i = 0; i < dilation->n; i++)
        if (dilation->v[i] > 1)
            return true;
    return false;
}

/* A window with gaps is a convolution by ones: AveragePool has none before opset 19. */
tpi_val tpi_export_avg_pool(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *from = t->in[0];
    if (!is_dilated(t))
        return tpi_export_plain(x, t, "AveragePool");
    const tpi_val sums = window_sums(x, t, as_planes(x, from, tpi_in(x, t, 0)));
    const tpi_val y = tpi_put(x, "Div", TPI_V(sums, shares(x, t, from->shape + 2)));
    return tpi_as(x, tpi_reshape(x, y, NULL, t->rank, t->shape), (tp_dtype)t->dtype);
}

/* Each window's share to all its taps: the transpose of a convolution by ones. */
tpi_val tpi_export_avg_pool_dx(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *dy = t->in[0];
    const tpi_list *kernel = tpi_attr_list(t, "kernel");
    const tpi_val share =
        tpi_put(x, "Div", TPI_V(as_planes(x, dy, tpi_in(x, t, 0)), shares(x, t, t->shape + 2)));
    const tpi_val dx = transposed(x, t, share, ones(x, (int)kernel->n, kernel->v),
                                  dy->shape + 2, kernel->v, t->shape + 2);
    return tpi_as(x, tpi_reshape(x, dx, NULL, t->rank, t->shape), (tp_dtype)t->dtype);
}
