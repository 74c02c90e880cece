/* Convolutions and pooling over values of any shape. */
#include "random_program.h"

/* Weights that a gradient goes through, of a shape that is known. */
static tp_tensor *weights(tp_tensor *b, int rank, const int64_t *shape, int64_t seed)
{
    float v[128];
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n && i < 128; i++)
        v[i] = (float)((i * 37 + seed * 11) % 29 - 14) / 16;
    tp_tensor *w = tp_tensor_new(tp_ctx_of(b), TP_F32, rank, shape, v);
    return tp_mul(w, tp_sigmoid(tp_mean(b, TP_ALL, false)));
}

/* [..., h, w] -> [n, 1, h, w], or [n, 1, w] */
static tp_tensor *one_channel(tp_tensor *a, int nd)
{
    const int rank = tp_rank(a);
    int64_t shape[5] = {1, 1};
    for (int i = 0; i < nd; i++)
        shape[2 + i] = tp_dim(a, rank - nd + i);
    if (rank == nd)
        return tp_reshape(a, nd + 2, shape);
    if (rank != nd + 1)
        return NULL;
    shape[0] = tp_dim(a, 0);
    return tp_reshape(a, nd + 2, shape);
}

static tp_tensor *between(int64_t j, tp_tensor *y)
{
    return j & 1 ? tp_relu(y) : j & 2 ? tp_tanh(y) : y;
}

static tp_tensor *pool(int64_t i, int64_t j, tp_tensor *x)
{
    tp_window w = {
        .kernel = {2, 2, 2},
          .count_pad = i & 1
    };
    if (i & 2)
        w.stride[0] = w.stride[1] = w.stride[2] = 1;
    if (i & 4)
        w.pad_lo[0] = w.pad_hi[1] = 1;
    return j & 1   ? tp_max_pool(x, &w)
           : j & 2 ? tp_add(tp_max_pool(x, &w), tp_cast(tp_max_pool_index(x, &w), TP_F32))
                   : tp_avg_pool(x, &w);
}

tp_tensor *window_step(int64_t i, int64_t j, tp_tensor *a, tp_tensor *b)
{
    const int nd = tp_rank(a) < 3 && i % 3 ? 1 : i % 5 == 4 ? 3 : 2;
    tp_tensor *x = one_channel(a, nd);
    if (!x)
        return NULL;
    tp_window w = {0};
    for (int k = 0; k < nd; k++) {
        w.pad_lo[k] = (i >> k) & 1;
        w.pad_hi[k] = (i >> (k + 1)) & 1;
        w.stride[k] = 1 + ((j >> k) & 1);
        w.dilation[k] = 1 + ((i >> (k + 2)) & 1);
    }
    if ((j >> 3) % 4 == 0)
        return pool(i, j, x);
    const int64_t first[5] = {4, 1, 2, 2, 2}, second[5] = {2, 2, 1 + (i & 1), 1, 1};
    tp_tensor *y = between(j, tp_conv(x, weights(b, nd + 2, first, i), &w));
    if ((j >> 3) % 4 > 1) /* depthwise, or two groups */
        y = j & 4 ? tp_conv(y, weights(b, nd + 2, first, j), &(tp_window){.groups = 4})
                  : between(i, tp_conv(y, weights(b, nd + 2, second, j),
                                       &(tp_window){.groups = 2}));
    if ((j >> 3) % 4 > 2)
        y = pool(j, i, y);
    return i & 8 ? tp_mean(y, TP_DIMS(1), false) : y;
}
