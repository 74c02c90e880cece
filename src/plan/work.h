/* How much a program has to do at the sizes of a run: what its speed is measured by. */
#ifndef TAPIR_WORK_H
#define TAPIR_WORK_H

#include "ir/sizes_at.h"
#include "plan/plan.h"

typedef struct tpi_work {
    double flops; /* two per multiply-add of a contraction, one per element of other ops */
    double
        bytes;   /* of operands read and results written, each once; of a block in every turn */
    double span; /* of these, those of one turn: what should lie in a cache */
    double
        near; /* of these, what members of a band leave each other: it is in the second cache */
} tpi_work;

/* Of one kernel of a plan, the program's or a body's. */
tpi_work tpi_kernel_work(const tpi_run_sizes *r, const tpi_plan *plan, int kernel);
/* Of a node: of a contraction or convolution, else 0; of what it gives. */
double tpi_node_flops(const tpi_run_sizes *r, const tp_tensor *node);
/* As in tpi_work, of any node; of a block with all of its turns, of a cond the side that has more to do. */
double tpi_node_operations(const tpi_run_sizes *r, const tp_tensor *node);
double tpi_node_bytes(const tpi_run_sizes *r, const tp_tensor *node);
/* Of the contractions and convolutions of a graph, its blocks' included. */
double tpi_graph_flops(const tpi_run_sizes *r, const tp_graph *g);

#endif
