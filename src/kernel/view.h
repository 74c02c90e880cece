/* How a called kernel sees an operand: memory, sizes and strides (in elements). */
#ifndef TPK_VIEW_H
#define TPK_VIEW_H

#include "target.h"

typedef struct tpk_view {
    void *p;
    int64_t rank;
    int64_t n[8];
    int64_t s[8];
} tpk_view;

#endif
