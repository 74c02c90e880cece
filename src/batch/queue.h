/* A queue in which ops wait, and are computed together (tapir/batching.h).
 *
 * While it is open it stands where the frame of a captured function does (tpi_frame_rules of core.h). Each op call becomes
 * a *unit*, whose result has type and shape and no value; so does each call of a pure function that is a cell (cell.h), with
 * several results. Units have the same *signature* when one op on many samples can stand for them (transform/batch.h): op,
 * attributes, types and sizes, and the same weights; or when they are calls of one cell. When what waits is computed,
 * units that wait for none are ready; the ready ones of one signature are a group.
 *
 * The tape has the nodes of the calls, in the order of the calls, so gradients are those without the queue; a sweep in the
 * queue calls ops and goes back through cells, which wait as others do. */
#ifndef TAPIR_QUEUE_H
#define TAPIR_QUEUE_H

#include "batch/cell.h"
#include "op/waiting.h"

typedef struct tpi_samples tpi_samples; /* batch/each.h */

typedef struct tpi_queue_unit {
    tp_tensor *y;     /* one reference; NULL: the unit is done, or nobody wants its value */
    const tpi_op *op; /* NULL: a call, by this program: */
    const tpi_cell_side *side;
    void *attrs;         /* a copy; NULL: none */
    int32_t n_in, first; /* operands, in the queue's list; */
    int32_t n_more;      /* behind them: other results of a call, and what keeps its cell */
    int32_t signature;   /* -1: it is computed alone */
    int32_t height;      /* of units; views are as high as what they look at */
    int32_t waits;       /* operands without a value */
    int32_t user;        /* the first operand that is y, in the list; -1: none */
    int32_t sample;      /* of a tp_batch_each, from 1; 0: none */
    int32_t next_ready;  /* of its signature; -1: none */
    bool view;
} tpi_queue_unit;

typedef struct tpi_unit_operand {
    tp_tensor *t; /* one reference; or what else the unit has */
    int32_t unit; /* whose operand it is */
    int32_t next; /* that is the same unit's result; -1: none */
} tpi_unit_operand;

typedef struct tpi_unit_signature {
    uint64_t hash;
    int32_t unit;           /* the first one */
    bool alone;             /* each is computed by itself */
    int32_t ready, n_ready; /* units */
    int32_t used;           /* of these: others wait for them */
    int64_t heights;        /* of these, added up */
    /* While it is computed: */
    int32_t left;   /* units, ready or not */
    bool recursive; /* one waits for another of them, maybe through others */
} tpi_unit_signature;

typedef struct tpi_queue {
    tpi_frame_head head;
    tp_ctx *ctx;
    tpi_samples *samples; /* of a tp_batch_each, or NULL */
    uint32_t
        serial; /* of tensors that wait in it (tp_tensor.frame); their number is that of the unit */
    int32_t n, n_operands, n_signatures;
    int32_t size, operands_size, signatures_size, table_size;
    tpi_queue_unit *units;
    tpi_unit_operand *operands;
    tpi_unit_signature *signatures;
    int32_t *table;    /* of signatures by hash, of table_size places, a power of 2; -1: free */
    int32_t last[256]; /* signatures that ops of a line had last; -1: none */
    int32_t n_ready, *ready; /* while it is computed: signatures with ready units */
    size_t bytes;            /* of the results */
    bool may_fail;           /* one that waits */
    bool running;            /* what waits is being computed */
} tpi_queue;

/* The unit of t; -1: it has its value. */
static inline int32_t tpi_unit_of(const tpi_queue *w, const tp_tensor *t)
{
    return t->flags & TPI_LAZY && t->frame == w->serial ? t->number : -1;
}

/* queue.c. Opens one in the context; NULL: no memory. */
tpi_queue *tpi_queue_open(tp_ctx *ctx);
/* Computes what waits first. */
void tpi_queue_close(tpi_queue *w);
/* The one that is open there; NULL: none is. */
tpi_queue *tpi_queue_of(const tp_ctx *ctx);

/* units.c. Adds a unit whose result is y; false: no memory, and there is none. */
bool tpi_queue_add(tpi_queue *w, const tpi_infer *q, tp_tensor *y, bool view);
/* The same of a call with results y[], which wait. */
bool tpi_queue_add_call(tpi_queue *w, const tpi_cell_side *s, tp_tensor *const *in,
                        tp_tensor *const *y);
/* What is called in a unit, for people. */
const char *tpi_unit_name(const tpi_queue_unit *u);
/* It is done, or not wanted. */
void tpi_unit_release(tpi_queue *w, int32_t unit);
/* All are done. */
void tpi_queue_clear(tpi_queue *w);
void tpi_queue_free(tpi_queue *w);

/* flush.c. Computes all that waits. */
void tpi_queue_flush(tpi_queue *w);

/* group.c. Computes n units of one signature, in the order of their calls. */
void tpi_group_run(tpi_queue *w, int32_t n, const int32_t *units);
void tpi_unit_run(tpi_queue *w, int32_t unit);

#endif
