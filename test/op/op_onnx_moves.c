/* Moves, joins, indices, contractions and windows against the recorded results of the ONNX
 * project's own one-node tests, which NumPy made. Skipped where those are not present. */
#include "onnx_node.h"
#include "tapir/ops.h"

#include <dirent.h>

#define AT_LEAST 126 /* were compared when this was written: none may get lost */

static void compare(const char *name, const tp_tensor *want, tp_tensor *got)
{
    if (tp_failed(got))
        fail_msg("%s: %s", name, tp_error_text(got));
    if (tp_dtype_of(got) != tp_dtype_of(want) || strcmp(SHAPE(got), SHAPE(want)) != 0)
        fail_msg("%s: %s %s, recorded %s %s", name, tp_dtype_name(tp_dtype_of(got)), SHAPE(got),
                 tp_dtype_name(tp_dtype_of(want)), SHAPE(want));
    const tp_dtype t = tp_dtype_of(want);
    const size_t size = tp_dtype_size(t);
    const char *a = tp_data(tp_contiguous(got)), *b = want->data;
    /* sums were rounded elsewhere than ours: to 1e-5 of the largest */
    double most = 1;
    for (int64_t i = 0; i < tp_count(want); i++)
        most = __builtin_fmax(most, __builtin_fabs(tpi_load_f64(t, b + (size_t)i * size)));
    const double bound = t >= TP_F32 ? 1e-5 * most : 0;
    for (int64_t i = 0; i < tp_count(want); i++) {
        const double x = tpi_load_f64(t, a + (size_t)i * size);
        const double y = tpi_load_f64(t, b + (size_t)i * size);
        if (!(x == y || (x != x && y != y) || __builtin_fabs(x - y) <= bound))
            fail_msg("%s %s: element %lld is %.9g, recorded %.9g", name, SHAPE(want),
                     (long long)i, x, y);
    }
}

/* Integers of a 1-d operand; how many, -1 when the operand is left out. */
static int ints_of(const onnx_node *n, int i, int64_t *out)
{
    if (i >= n->n_in || !n->in[i])
        return -1;
    const int count = (int)tp_count(n->in[i]);
    for (int k = 0; k < count; k++)
        out[k] = tp_item_i64(tp_select(tp_reshape(n->in[i], TP_DIMS(-1)), 0, k));
    return count;
}

/* ---- windows -------------------------------------------------------------------------------------- */

/* Fills in what the attributes say; `size` and `kernel` are those of the spatial axes. */
static bool window_of(const onnx_node *n, int axes, const int64_t *size, const int64_t *kernel,
                      tp_window *w)
{
    const onnx_attr *stride = onnx_attr_of(n, "strides"), *pads = onnx_attr_of(n, "pads");
    const onnx_attr *dilation = onnx_attr_of(n, "dilations"),
                    *pad = onnx_attr_of(n, "auto_pad");
    *w = (tp_window){.groups = onnx_int(n, "group", 1)};
    w->count_pad = onnx_int(n, "count_include_pad", 0);
    for (int i = 0; i < axes; i++) {
        w->kernel[i] = kernel[i];
        w->stride[i] = stride ? stride->ints[i] : 1;
        w->dilation[i] = dilation ? dilation->ints[i] : 1;
        w->pad_lo[i] = pads ? pads->ints[i] : 0;
        w->pad_hi[i] = pads ? pads->ints[axes + i] : 0;
        const int64_t reach = (kernel[i] - 1) * w->dilation[i] + 1;
        if (pad && strncmp(pad->s, "SAME", 4) == 0) {
            const int64_t out = (size[i] + w->stride[i] - 1) / w->stride[i];
            int64_t all = (out - 1) * w->stride[i] + reach - size[i];
            all = all < 0 ? 0 : all;
            w->pad_lo[i] = strcmp(pad->s, "SAME_LOWER") == 0 ? all - all / 2 : all / 2;
            w->pad_hi[i] = all - w->pad_lo[i];
        }
        const int64_t rest = size[i] + w->pad_lo[i] + w->pad_hi[i] - reach;
        if (onnx_int(n, "ceil_mode", 0) && rest % w->stride[i]) {
            /* one more window, unless it would begin behind the elements and their padding */
            const int64_t from = (rest / w->stride[i] + 1) * w->stride[i];
            if (from < size[i] + w->pad_lo[i])
                w->pad_hi[i] += w->stride[i] - rest % w->stride[i];
        }
    }
    return true;
}

static tp_tensor *add_bias(const onnx_node *n, tp_tensor *y)
{
    if (n->n_in < 3 || !n->in[2])
        return y;
    int64_t shape[5] = {1, -1, 1, 1, 1};
    return tp_add(y, tp_reshape(n->in[2], tp_rank(y), shape));
}

static tp_tensor *conv(const onnx_node *n)
{
    tp_window w;
    window_of(n, tp_rank(n->in[0]) - 2, n->in[0]->shape + 2, n->in[1]->shape + 2, &w);
    return add_bias(n, tp_conv(n->in[0], n->in[1], &w));
}

static tp_tensor *conv_transpose(const onnx_node *n)
{
    const tp_tensor *y = n->in[0], *k = n->in[1];
    const int axes = tp_rank(y) - 2;
    const onnx_attr *more = onnx_attr_of(n, "output_padding"),
                    *pad = onnx_attr_of(n, "auto_pad");
    const onnx_attr *shape = onnx_attr_of(n, "output_shape");
    tp_window w;
    int64_t sizes[3];
    window_of(n, axes, y->shape + 2, k->shape + 2, &w);
    const bool same = pad && strncmp(pad->s, "SAME", 4) == 0;
    for (int i = 0; i < axes; i++) {
        const int64_t reach = (k->shape[i + 2] - 1) * w.dilation[i] + 1;
        const int64_t full =
            w.stride[i] * (y->shape[i + 2] - 1) + reach + (more ? more->ints[i] : 0);
        sizes[i] = full - w.pad_lo[i] - w.pad_hi[i];
        if (shape || same) {
            sizes[i] = shape ? shape->ints[i] : y->shape[i + 2] * w.stride[i];
            const int64_t all = full - sizes[i] < 0 ? 0 : full - sizes[i];
            const bool upper = pad && strcmp(pad->s, "SAME_UPPER") == 0;
            w.pad_lo[i] = upper ? all / 2 : all - all / 2;
            w.pad_hi[i] = all - w.pad_lo[i];
        }
    }
    return add_bias(n, tp_conv_dx(n->in[0], n->in[1], axes, sizes, &w));
}

static tp_tensor *max_pool(const onnx_node *n)
{
    tp_window w;
    window_of(n, tp_rank(n->in[0]) - 2, n->in[0]->shape + 2,
              onnx_attr_of(n, "kernel_shape")->ints, &w);
    return n->in[0]->dtype < TP_F32 ? NULL : tp_max_pool(n->in[0], &w);
}

static tp_tensor *avg_pool(const onnx_node *n)
{
    tp_window w;
    window_of(n, tp_rank(n->in[0]) - 2, n->in[0]->shape + 2,
              onnx_attr_of(n, "kernel_shape")->ints, &w);
    /* there the padding that rounding up adds is not counted, ours has one kind of padding */
    return onnx_int(n, "ceil_mode", 0) && w.count_pad ? NULL : tp_avg_pool(n->in[0], &w);
}

static tp_tensor *global_pool(const onnx_node *n)
{
    tp_window w = {0};
    for (int i = 0; i < tp_rank(n->in[0]) - 2; i++)
        w.kernel[i] = n->in[0]->shape[i + 2];
    return n->op[6] == 'M' ? tp_max_pool(n->in[0], &w) : tp_avg_pool(n->in[0], &w);
}

/* ---- moves ---------------------------------------------------------------------------------------- */

static tp_tensor *reshape(const onnx_node *n)
{
    int64_t shape[ONNX_MAX];
    const int rank = ints_of(n, 1, shape);
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0 && !onnx_int(n, "allowzero", 0))
            shape[i] = n->in[0]->shape[i];
    return tp_reshape(n->in[0], rank, shape);
}

static tp_tensor *flatten(const onnx_node *n)
{
    int64_t axis = onnx_int(n, "axis", 1);
    axis = axis < 0 ? axis + tp_rank(n->in[0]) : axis;
    tp_tensor *y = tp_flatten(n->in[0], (int)axis);
    int64_t rows = 1;
    for (int i = 0; i < axis; i++)
        rows *= n->in[0]->shape[i];
    return tp_reshape(y, TP_DIMS(rows, y->shape[axis]));
}

static tp_tensor *transpose(const onnx_node *n)
{
    const onnx_attr *perm = onnx_attr_of(n, "perm");
    return tp_transpose(n->in[0], perm ? perm->n_ints : 0, perm ? perm->ints : NULL);
}

static tp_tensor *squeeze(const onnx_node *n)
{
    int64_t axes[ONNX_MAX];
    const int count = ints_of(n, 1, axes), rank = tp_rank(n->in[0]);
    tp_tensor *y = n->in[0];
    for (int i = rank - 1; i >= 0; i--) {
        bool named = count < 0 && y->shape[i] == 1;
        for (int k = 0; k < count; k++)
            named |= axes[k] == i || axes[k] + rank == i;
        y = named ? tp_squeeze(y, i) : y;
    }
    return y;
}

static tp_tensor *unsqueeze(const onnx_node *n)
{
    int64_t axes[ONNX_MAX];
    const int count = ints_of(n, 1, axes), rank = tp_rank(n->in[0]) + count;
    tp_tensor *y = n->in[0];
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < count; k++)
            if (axes[k] == i || axes[k] + rank == i)
                y = tp_unsqueeze(y, i);
    return y;
}

static tp_tensor *slice(const onnx_node *n)
{
    int64_t start[ONNX_MAX], stop[ONNX_MAX], axis[ONNX_MAX], step[ONNX_MAX];
    const int count = ints_of(n, 1, start);
    ints_of(n, 2, stop);
    const bool axes = ints_of(n, 3, axis) >= 0, steps = ints_of(n, 4, step) >= 0;
    tp_tensor *y = n->in[0];
    for (int i = 0; i < count; i++)
        y = tp_slice(y, axes ? (int)axis[i] : i, start[i], stop[i], steps ? step[i] : 1);
    return y;
}

static tp_tensor *expand(const onnx_node *n)
{
    int64_t shape[ONNX_MAX];
    int rank = ints_of(n, 1, shape);
    const tp_tensor *x = n->in[0];
    for (int i = 0; i < tp_rank(x) && i < rank; i++)
        if (shape[rank - 1 - i] == 1)
            shape[rank - 1 - i] = x->shape[tp_rank(x) - 1 - i];
    return rank < tp_rank(x) ? NULL : tp_broadcast(n->in[0], rank, shape);
}

static tp_tensor *concat(const onnx_node *n)
{
    return tp_concat(n->n_in, n->in, (int)onnx_int(n, "axis", 0));
}

static tp_tensor *split(const onnx_node *n)
{
    int64_t sizes[ONNX_MAX];
    const int axis = (int)onnx_int(n, "axis", 0), given = ints_of(n, 1, sizes);
    const int64_t size = tp_size(n->in[0], axis), each = (size + n->n_out - 1) / n->n_out;
    for (int i = 0; given < 0 && i < n->n_out; i++)
        sizes[i] = size - i * each < each ? size - i * each : each;
    tp_tensor *out[ONNX_MAX];
    if (tp_split(n->in[0], axis, n->n_out, sizes, out) != TP_OK)
        return out[0];
    for (int i = 1; i < n->n_out; i++)
        compare("a later part of a split", n->out[i], out[i]);
    return out[0];
}

static tp_tensor *pad(const onnx_node *n)
{
    const onnx_attr *mode = onnx_attr_of(n, "mode");
    if (mode && strcmp(mode->s, "constant") != 0)
        return NULL;
    int64_t pads[ONNX_MAX], axes[ONNX_MAX], lo[TP_MAX_RANK] = {0}, hi[TP_MAX_RANK] = {0};
    const int rank = tp_rank(n->in[0]), count = ints_of(n, 1, pads) / 2,
              given = ints_of(n, 3, axes);
    for (int i = 0; i < count; i++) {
        const int64_t axis = given < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
        lo[axis] = pads[i];
        hi[axis] = pads[count + i];
    }
    const double value = n->n_in > 2 && n->in[2] ? tp_item(n->in[2]) : 0;
    tp_tensor *x = n->in[0];
    for (int i = 0; i < rank; i++) { /* there a negative number cuts */
        x = tp_slice(x, i, lo[i] < 0 ? -lo[i] : 0, hi[i] < 0 ? hi[i] : TP_END, 1);
        lo[i] = lo[i] < 0 ? 0 : lo[i];
        hi[i] = hi[i] < 0 ? 0 : hi[i];
    }
    return tp_pad(x, rank, lo, hi, value);
}

/* ---- indices -------------------------------------------------------------------------------------- */

static tp_tensor *gather(const onnx_node *n)
{
    return tp_gather(n->in[0], n->in[1], (int)onnx_int(n, "axis", 0));
}

static tp_tensor *gather_elements(const onnx_node *n)
{
    return tp_take_along(n->in[0], n->in[1], (int)onnx_int(n, "axis", 0));
}

/* Only with a sum is it one of ours. */
static tp_tensor *scatter_elements(const onnx_node *n)
{
    const onnx_attr *how = onnx_attr_of(n, "reduction");
    return how && strcmp(how->s, "add") == 0
               ? tp_put_along_add(n->in[0], n->in[1], n->in[2], (int)onnx_int(n, "axis", 0))
               : NULL;
}

static tp_tensor *one_hot(const onnx_node *n)
{
    const int64_t depth = tp_item_i64(tp_reshape(n->in[1], TP_SCALAR));
    int64_t axis = onnx_int(n, "axis", -1);
    tp_tensor *off = tp_select(n->in[2], 0, 0), *on = tp_select(n->in[2], 0, 1);
    tp_tensor *hot = tp_one_hot(tp_cast(n->in[0], TP_I64), depth, TP_BOOL);
    int64_t perm[TP_MAX_RANK];
    const int rank = tp_rank(hot);
    axis = axis < 0 ? axis + rank : axis;
    for (int i = 0; i < rank; i++)
        perm[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
    return tp_where(tp_transpose(hot, rank, perm), on, off);
}

static tp_tensor *matmul(const onnx_node *n)
{
    return tp_matmul(n->in[0], n->in[1]);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

/* NULL from a run: a part of the op that is not one of ours. */
static const struct {
    const char *op;
    tp_tensor *(*run)(const onnx_node *n);
} ops[] = {
    {"Conv",              conv            },
    {"ConvTranspose",     conv_transpose  },
    {"MaxPool",           max_pool        },
    {"AveragePool",       avg_pool        },
    {"GlobalMaxPool",     global_pool     },
    {"GlobalAveragePool", global_pool     },
    {"Reshape",           reshape         },
    {"Flatten",           flatten         },
    {"Transpose",         transpose       },
    {"Squeeze",           squeeze         },
    {"Unsqueeze",         unsqueeze       },
    {"Slice",             slice           },
    {"Expand",            expand          },
    {"Concat",            concat          },
    {"Split",             split           },
    {"Pad",               pad             },
    {"Gather",            gather          },
    {"GatherElements",    gather_elements },
    {"ScatterElements",   scatter_elements},
    {"OneHot",            one_hot         },
    {"MatMul",            matmul          },
};

static void recorded(void **state)
{
    tp_ctx *tp = *state;
    const char *shared = getenv("TAPIR_SHARED");
    char folder[400], path[600];
    snprintf(folder, sizeof folder, "%s/onnx-backend-tests/node",
             shared ? shared : "../shared");
    DIR *dir = opendir(folder);
    if (!dir) {
        print_message("skipped: no %s\n", folder);
        skip();
    }
    int ran = 0, left = 0;
    static onnx_node node;
    for (struct dirent *e; (e = readdir(dir));) {
        snprintf(path, sizeof path, "%.300s/%.200s", folder, e->d_name);
        tp_scope_begin(tp);
        if (e->d_name[0] != '.' && onnx_load(tp, &node, path))
            for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
                if (strcmp(ops[i].op, node.op) != 0)
                    continue;
                tp_tensor *y = node.unreadable ? NULL : ops[i].run(&node);
                if (y)
                    compare(e->d_name, node.out[0], y);
                if (!y)
                    print_message("left out: %s\n", e->d_name);
                ran += y != NULL;
                left += y == NULL;
            }
        tp_scope_end(tp);
    }
    closedir(dir);
    print_message("%d cases, %d left out\n", ran, left);
    assert_true(ran >= AT_LEAST);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
