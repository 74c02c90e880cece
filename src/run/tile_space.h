/* The space of a loop nest at the sizes of a run, and how it is cut into tiles: what tile_space.c
 * finds and tile_nest.c makes instructions of. */
#ifndef TAPIR_TILE_SPACE_H
#define TAPIR_TILE_SPACE_H

#include "run/tiles.h"

/* An operand in memory, as a full value or a row value reads it. */
typedef struct tpi_tile_reading {
    const tpi_value *root;
    bool wide;
    int64_t offset, stride[TP_MAX_RANK]; /* elements, over the axes in their new order */
    int slot;                            /* once it is there; 0: not yet */
    bool scalar;
} tpi_tile_reading;

typedef struct tpi_tile_builder {
    const tp_program *p;
    const tpi_plan *plan;
    const tpi_kernel *k;
    tpi_nest *n;
    int rank, kept; /* axes; the first of them are kept */
    int64_t size[TP_MAX_RANK];
    int64_t (*out_stride)[TP_MAX_RANK]; /* by node: of what has memory */
    int order[TP_MAX_RANK];
    int chunk_axis;          /* -1: none */
    bool aliased;            /* a result is written over an operand */
    tpi_tile_reading *reads; /* by operand, in the order of the nodes */
    int n_reads;
    struct held *held; /* by node; this and the rest are of tile_nest.c */
    int *free;         /* slots of scratch that nothing reads any more */
    size_t *free_bytes;
    int n_free;
} tpi_tile_builder;

/* Node i of the nest. */
static inline const tpi_value *tpi_tile_value(const tpi_tile_builder *b, int i)
{
    return &b->plan->values[b->k->nodes[i]];
}

/* Has it memory? Others than the nest read it. */
static inline bool tpi_tile_kept(const tpi_tile_builder *b, int i)
{
    return tpi_tile_value(b, i)->storage != TPI_IN_INNER;
}

/* The value in whose memory operand o of v lies. */
static inline const tpi_value *tpi_tile_memory(const tpi_tile_builder *b, const tpi_value *v,
                                               int o)
{
    return &b->plan->values[b->plan->values[v->node->in[o]->index].layout.root];
}

/* The position in the nest of the value that operand o of v is; -1: it comes from elsewhere. */
int tpi_tile_inner(const tpi_tile_builder *b, const tpi_value *v, int o);
/* Axes, readings and the tile: all of b and b->n that is not of tile_nest.c. */
void tpi_tile_space(tpi_tile_builder *b);
/* Strides of memory over the axes of the box of full values, or of row values. */
void tpi_tile_strides(const tpi_tile_builder *b, bool wide, const int64_t *stride,
                      int64_t *out);

#endif
