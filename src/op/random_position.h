/* The op of random numbers, for those who run graphs.
 *
 * A node of a graph has a stream, and no position yet. At each run the executor gives every random node, read or
 * not (ir/body.h), in program order, the context's seed and its stream's position, and moves that on by
 * tpi_random_moves: then a run draws the bits that the same calls draw eagerly. */
#ifndef TAPIR_DRAW_H
#define TAPIR_DRAW_H

#include "op/op.h"

typedef enum tpi_random_kind {
    TPI_RANDOM_UNIFORM, /* floats in [a, b) */
    TPI_RANDOM_NORMAL,  /* floats of mean a, deviation b */
    TPI_RANDOM_WHOLE,   /* i64 in [lo, hi) */
    TPI_N_RANDOM_KINDS
} tpi_random_kind;

typedef struct tpi_random_attrs {
    int64_t kind, dtype;
    tpi_list shape;
    double a, b;
    int64_t seed, at; /* in a graph: 0, and a negative number that no other node has */
    int64_t lo, hi;
    int64_t stream; /* its bits */
    /* Of draws for many samples (transform/sample_draws.c) by each of the first axes: so many positions from one row to the next.
     * Where there are some the stream moves on by `moves`; else all is one row, and it moves to where that ends. */
    tpi_list apart;
    int64_t moves;
} tpi_random_attrs;

/* Where seed, position and what follows on numbers are among the flattened attributes. */
enum { TPI_RANDOM_SEED = 13, TPI_RANDOM_AT = 14, TPI_RANDOM_APART = 18 };

/* Elements that one position makes: four words are four floats, two doubles, or as many whole numbers as
 * philox.h (tpk_draw_i64) says. */
int tpi_random_per(const tpi_random_attrs *a);
/* By how many positions a draw of that shape moves its stream, as a size; TPI_NO_DIM: too many, or no memory. */
int64_t tpi_random_moves(tpi_dims *dims, const tpi_random_attrs *a, int rank,
                         const int64_t *shape);
/* Attributes for one draw, from those without symbols; its stream moves on. */
tpi_random_attrs tpi_random_position(const tpi_random_attrs *a, tp_ctx *ctx);

/* Gives the context a position for the stream, 0 at first; false: no memory. What was made by calls has one: that of a
 * graph's nodes is asked for when a program is made, since a graph may come from a file. */
bool tpi_stream_add(tp_ctx *ctx, uint64_t stream);
bool tpi_streams_add(const tp_graph *g);
/* And that position, until the next one is added. */
uint64_t *tpi_stream_position(tp_ctx *ctx, uint64_t stream);

/* One that was added; NULL: it is stream 0. */
tpi_stream *tpi_stream_of(tp_ctx *ctx, uint64_t stream);

/* Where all streams are, to go back there. */
typedef struct tpi_positions {
    uint64_t first; /* of stream 0 */
    int32_t n;
    tpi_stream *others;
} tpi_positions;
bool tpi_positions_note(tp_ctx *ctx, tpi_positions *p); /* false: no memory */
void tpi_positions_back(tp_ctx *ctx, const tpi_positions *p);
void tpi_positions_free(tp_ctx *ctx, tpi_positions *p);

/* A draw with those attributes but seed and position: now, or (g) as a node; never NULL. */
tp_tensor *tpi_random_again(tpi_at at, tp_ctx *ctx, tp_graph *g, const tpi_random_attrs *a);
/* A draw like that as a node of the graph; never NULL. */
tp_tensor *tpi_random_node(tp_graph *g, tpi_at at, const tpi_random_attrs *a);

/* An i64 for each float of x, any but the greatest; where x is no good, or of no floats, `what` refuses it. */
tp_tensor *tpi_random_keys(tpi_at at, const char *what, const tp_tensor *x);

#endif
