/* What one run of a pure function's body did, as a list: from it a flow is made (flow.h). */
#ifndef TAPIR_TRACE_H
#define TAPIR_TRACE_H

#include "capture/capture_def.h"

/* An operand: the number of the item that makes it, or ~n for the n-th tensor from outside. */
typedef int32_t tpi_code;

typedef struct tpi_item {
    tpi_step_kind kind; /* OP, ASSIGN, LOOK, RETURN */
    uint8_t dtype, rank, look;
    bool requires;    /* a gradient may be asked of it */
    uint8_t size;     /* LOOK: bytes of what was seen */
    int32_t n_in, in; /* operands: how many, first in the trace's list */
    int32_t node;     /* of the flow it was put into */
    uint32_t hash;    /* of what it does, sizes and line included, which operands not */
    uint32_t site;    /* LOOK: that, and what was done just before */
    int32_t visit;    /* LOOK: how many with this hash were before it */
    const tpi_op *op;
    void *attrs; /* owned; NULL: none */
    tpi_at at;
    int64_t shape[TP_MAX_RANK];
    char seen[TPI_MAX_READ]; /* LOOK: the bits; RETURN: which results require a gradient */
} tpi_item;

typedef enum tpi_from {
    TPI_FROM_ARG,
    TPI_FROM_STATE, /* there before the call */
    TPI_FROM_MADE   /* made in it: a number, a table */
} tpi_from;

typedef struct tpi_origin {
    tpi_from from;
    int arg;
    tp_tensor *tensor; /* one reference */
} tpi_origin;

struct tpi_trace {
    tp_ctx *ctx;
    uint64_t entry;    /* what is older was there before the call */
    uint64_t failures; /* of the context, at its beginning */
    uint64_t retained; /* and its retained_sum */
    int32_t scopes;    /* and how many are open then, with the call's own */
    bool recording, training;
    uint64_t stream; /* of random numbers */
    tpi_why why;     /* it cannot be replayed */
    tpi_at why_at;
    bool partial; /* memory was out, the call or an op in it failed: it says nothing */
    bool
        recurses; /* the function was called in its own call: the same lines are other levels */
    bool taped;   /* a gradient may be asked of a result */
    bool stale;   /* and would be refused, as a variable it was computed from is assigned */
    int32_t n, size;
    tpi_item *items;
    int32_t n_in, in_size;
    tpi_code *in;
    int32_t n_origins, origins_size;
    tpi_origin *origins;
    int32_t n_codes, codes_size;
    tpi_code *codes;        /* by the frame's numbers */
    tpi_launches *launches; /* what it ran, owned; NULL: that is not kept */
    int32_t n_args;
    tpi_code *args; /* which origin each argument is */
};

tpi_trace *tpi_trace_new(tp_ctx *ctx, uint64_t entry, int n_in, tp_tensor *const *in);
/* How many looks with this hash there are. */
int32_t tpi_trace_looks(const tpi_trace *t, uint32_t look);
void tpi_trace_free(tpi_trace *t);
/* Elements of arguments are held no longer, only what these were like: the caller may have wrapped its own
 * memory. False: memory is out. */
bool tpi_trace_let_go(tpi_trace *t);
static inline const tpi_code *tpi_item_in(const tpi_trace *t, const tpi_item *x)
{
    return t->in + x->in;
}

#endif
