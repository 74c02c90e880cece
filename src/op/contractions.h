/* What the contractions of src/kernel are handed, by ops that one of them computes (`contract` of tpi_op): when ops compute
 * now, and in programs. */
#ifndef TAPIR_CONTRACTIONS_H
#define TAPIR_CONTRACTIONS_H

#include "kernel/host/team_host.h"
#include "op/op.h"

/* Sizes and strides may be symbolic, unless it is called. */
struct tpi_contraction {
    bool is_conv;
    int8_t operand[3]; /* of a convolution: which operand x, w and y are; 2: the result */
    union {
        tpk_products products;
        tpk_convolution conv;
    };
};

/* What a graph with convolutions needs, in its blocks too; NULL: it has none. */
const tpi_convolving *tpi_convolving_of(const tp_graph *g);
/* Computes r->out, of floats. False: r->failed says why. */
bool tpi_contraction_run(tpi_run *r);
double tpi_contraction_multiply_adds(const tpi_contraction *c);
/* May the node go by the tiles of kernel/conv/winograd.h, if the run's sizes make that pay? */
bool tpi_contraction_may_be_tiled(const tp_tensor *node);
/* May the taps of the convolution be computed one by one (kernel/conv/convtaps.h)? */
bool tpi_contraction_may_be_apart(const tpk_convolution *c);

#endif
