/* What a kernel that is called is told: an operand, a convolution. */
#ifndef TPK_VIEW_H
#define TPK_VIEW_H

#include "target.h"

/* Memory, sizes and strides (in elements). */
typedef struct tpk_view {
    void *p;
    int64_t rank;
    int64_t n[8];
    int64_t s[8];
} tpk_view;

/* nd of each array are used, outermost first; ic and oc count all groups; pad is the low side
 * (the high side follows from out). Strides are in elements: of x [n, ic, in...],
 * w [oc, ic / groups, ker...], y [n, oc, out...]. */
typedef struct tpk_conv {
    int nd;
    int64_t batch, groups, ic, oc;
    int64_t in[3], out[3], ker[3], stride[3], dil[3], pad[3];
    int64_t xs[5], ws[5], ys[5];
} tpk_conv;

#endif
