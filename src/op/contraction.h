/* What kernels of contractions and convolutions are told of their operands. */
#ifndef TAPIR_CONTRACTION_H
#define TAPIR_CONTRACTION_H

#include "kernel/abi/view.h"
#include "op/op.h"

tpk_products tpi_products_of(const tpi_run *r);
tpk_convolution tpi_convolution_of(const tpi_run *r);

#endif
