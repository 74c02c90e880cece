/* What a kernel that is called is told: an operand, a product, a convolution. */
#ifndef TPK_VIEW_H
#define TPK_VIEW_H

#include "kernel/text/target.h"

/* Memory, sizes and strides (in elements). */
typedef struct tpk_view {
    void *p;
    int64_t rank;
    int64_t n[8];
    int64_t s[8];
} tpk_view;

/* The order of a convolution's sums: TPK_WINOGRAD by winograd.h, where its sizes make that pay; PACKED:
 * so, and w is packed. */
enum { TPK_DIRECT, TPK_WINOGRAD, TPK_WINOGRAD_PACKED };

/* Are its taps summed together, or one by one (convtaps.h, f32)? By its sizes; a part does as the whole does. */
enum { TPK_TAPS_BY_SIZE, TPK_TAPS_TOGETHER, TPK_TAPS_APART };

/* How a convolution goes: conv.h tells the first three apart, winograd.h has tiles, convtaps.h taps. */
enum { TPK_WAY_DENSE = 1, TPK_WAY_DIRECT, TPK_WAY_ACROSS, TPK_WAY_TILES, TPK_WAY_TAPS };

/* nd of each array are used, outermost first; ic and oc count all groups; pad is the low side
 * (the high side follows from out). Strides are in elements: of x [n, ic, in...],
 * w [oc, ic / groups, ker...], y [n, oc, out...]. */
typedef struct tpk_conv {
    int nd;
    int64_t batch, groups, ic, oc;
    int64_t in[3], out[3], ker[3], stride[3], dil[3], pad[3];
    int64_t xs[5], ws[5], ys[5];
    int winograd; /* TPK_DIRECT ... */
    int taps;     /* TPK_TAPS_BY_SIZE ... */
    int way; /* of a part (some images, some rows) of a conv whose w was packed for all of it:
                tpk_conv_way of the whole; 0: what is best for these sizes */
    int64_t first,
        whole; /* of a part (some output channels) of such a conv of TPK_WAY_ACROSS, _TAPS or _DIRECT: its
                            first channel, and how many all have; whole 0: all */
} tpk_conv;

/* How winograd.h cuts a convolution, if it takes it: outputs of a tile in a row and a column, and output
 * channels whose filters are packed together, in so many bytes. */
typedef struct tpk_tiles {
    int way; /* 0: it does not */
    int64_t size, channels, bytes;
} tpk_tiles;

/* A batch of products C = A B. Sizes and strides are in elements; columns of C are contiguous. */
typedef struct tpk_products {
    int f64;
    int lead; /* axes of the batch */
    int64_t m, n, k, a_rs, a_cs, b_rs, b_cs, c_rs;
    int64_t batch[6], a_bs[6], b_bs[6], c_bs[6];
    const void *a, *b;
    const void *packed_b; /* by gemm_pack_b, the same for the whole batch; NULL: b is read */
    void *c;
} tpk_products;

/* One of the three convolutions. */
typedef struct tpk_convolution {
    int which; /* 0: y from x, w; 1: x from y, w; 2: w from x, y */
    int f64;
    tpk_conv spec;
    void *x, *w, *y;
    const void *packed_w; /* by conv_pack_w; NULL: w is read */
} tpk_convolution;

#endif
