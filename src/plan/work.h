/* How much a program has to do: what its speed is measured by. */
#ifndef TAPIR_WORK_H
#define TAPIR_WORK_H

#include "run/program.h"

typedef struct tpi_work {
    double flops; /* two per multiply-add of a contraction, one per element of other ops */
    double
        bytes;   /* of operands read and results written, each once; of a block in every turn */
    double span; /* of these, those of one turn: what should lie in a cache */
    double
        near; /* of these, what members of a band leave each other: it is in the second cache */
} tpi_work;

/* Of one kernel of the program's plan or of a body's, at the sizes of the last run. */
tpi_work tpi_kernel_work(const tp_program *p, const tpi_plan *plan, int kernel);
/* Of all kernels of the plan. */
tpi_work tpi_program_work(const tp_program *p);
/* A line of the log with these figures (base/log.def). */
void tpi_program_log(const tp_program *p);
/* Of a node: of a contraction or convolution, else 0; of what it gives. */
double tpi_node_flops(const tp_program *p, const tp_tensor *node);
double tpi_node_bytes(const tp_program *p, const tp_tensor *node);
/* Of the contractions and convolutions of a graph, its blocks' included. */
double tpi_graph_flops(const tp_program *p, const tp_graph *g);

#endif
