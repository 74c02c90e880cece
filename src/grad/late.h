/* Tensors that were marked by tp_require_grad when something had been computed from them: what y was
 * computed from may depend on them through what was not recorded, and then no gradient is right. */
#ifndef TAPIR_LATE_H
#define TAPIR_LATE_H

#include "grad/sweep.h"

/* What y was computed from, where no record tells from what that was. */
typedef struct tpi_unrecorded {
    tp_ctx *ctx;
    tp_tensor *y;
    tpi_nodes nodes;
    uint64_t from;  /* of all of them */
    bool collected; /* when first asked */
} tpi_unrecorded;

/* t is marked now, for the first time; false: no memory. */
bool tpi_note_mark(tp_tensor *t);
/* Is it the tensor that was marked, still? */
static inline bool tpi_late_is_same(const tpi_late *l)
{
    return tpi_is_live(l->t) && l->t->flags & TPI_LEAF && l->t->since == l->since;
}

/* Ends with tpi_nodes_free(&u->nodes). */
void tpi_unrecorded_start(tpi_unrecorded *u, tp_ctx *ctx, tp_tensor *y);
/* Does y depend on x by what was computed from it before the mark? Also true when memory is out. */
bool tpi_misses(tpi_unrecorded *u, const tp_tensor *x);
/* Then: the failed tensor. i: which x it is of those that were given; -1: of none. */
tp_tensor *tpi_refuse_late(const tpi_unrecorded *u, tpi_at at, const char *what, int i);

#endif
