/* What a matched call of a pure function ran: programs that were entered, single ops, in order, and from where to where
 * elements went. It is kept when nothing else computed anything, so that a call of the same sizes can run the same
 * again (replay/relaunch.c): of a loop that C wrote out every turn, by the one program of all turns. */
#ifndef TAPIR_LAUNCHES_H
#define TAPIR_LAUNCHES_H

#include "capture/record/segment_def.h"
#include "capture/record/trace.h"

/* Elements: so many bytes behind the beginning of a value's. */
typedef struct tpi_place {
    int32_t value, offset;
} tpi_place;

/* Memory that a launch made, or of a tensor from outside. */
typedef struct tpi_launched {
    tpi_buf *buf;     /* while it is recorded, one reference; NULL: nobody reads it */
    const char *data; /* then: where offsets count from */
    int32_t origin;   /* of the trace; -1: a launch made it */
    size_t bytes;     /* then */
} tpi_launched;

typedef struct tpi_launch {
    tpi_shared *program; /* NULL: an op */
    const tpi_op *op;
    void *attrs; /* owned */
    tpi_at at;
    int32_t n_in, n_out; /* feeds, or operands; results */
    int32_t place;       /* its first one in the list: of what goes in, then of the results */
    int32_t form;        /* of an op: its first one in the list, in the same order */
    int32_t symbol;      /* of a program: its first one in the list */
} tpi_launch;

/* The origin becomes the value. */
typedef struct tpi_launch_assign {
    int32_t origin, value;
} tpi_launch_assign;

struct tpi_launches {
    tp_ctx *ctx;
    bool whole; /* nothing else was done, so far */
    int32_t n, size;
    tpi_launch *v;
    int32_t n_values, values_size;
    tpi_launched *values;
    int32_t n_places, places_size;
    tpi_place *places;
    int32_t n_symbols, symbols_size;
    int64_t *symbols;
    int32_t n_of, of_size;
    int32_t *of; /* which form: by operand or result of an op */
    int32_t n_forms, forms_size;
    tp_tensor **forms; /* type, sizes, strides; a reference each */
    int32_t n_assigns, assigns_size;
    tpi_launch_assign *assigns;
};

tpi_launches *tpi_launches_new(tp_ctx *ctx);
void tpi_launches_free(tpi_launches *l);
/* Memory of values is held no longer. */
void tpi_launches_let_go(tpi_launches *l);
size_t tpi_launches_bytes(const tpi_launches *l);

/* Of a frame: they do nothing when no launches are kept. */
void tpi_launched_program(tpi_frame *fr, tpi_shared *s, const int64_t *symbols, int n_feeds,
                          tp_tensor *const *feeds, int n_results, tp_tensor *const *results);
void tpi_launched_number(tpi_frame *fr, const tp_tensor *t, int32_t origin);
void tpi_launched_op(tpi_frame *fr, const tpi_infer *q, tp_tensor *y);
void tpi_launched_assign(tpi_frame *fr, const tp_tensor *var, const tp_tensor *value);
/* Something was done that cannot be kept. */
void tpi_launched_other(tpi_frame *fr);

/* Where a tensor's elements are, all of them without gaps; false: that is not known. */
bool tpi_launches_find(tpi_launches *l, const tpi_trace *t, const tp_tensor *x, tpi_place *out);

#endif
