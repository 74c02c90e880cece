#include "composite/composite.h"

TPI_COMPOSITE(tp_linear, (tp_tensor * x, tp_tensor *w, tp_tensor *b), x, w, b)
{
    tp_tensor *y = tp_matmul(x, w);
    return b ? tp_add(y, b) : y;
}
