/* What an op is: a name and its rules. One constant struct per op, beside its rules in src/op;
 * src/op/ops.def lists the names. A node of the IR is a tp_tensor with an op. */
#ifndef TAPIR_NODE_H
#define TAPIR_NODE_H

#include "core/dim.h"

/* ---- attributes: a plain struct per op, described by a table ------------------------------ */

typedef struct tpi_list {
    int64_t n;
    int64_t v[TP_MAX_RANK];
} tpi_list;

typedef enum tpi_attr_type {
    TPI_ATTR_INT,   /* int64_t */
    TPI_ATTR_BOOL,  /* int64_t, 0 or 1 */
    TPI_ATTR_DTYPE, /* int64_t, a tp_dtype */
    TPI_ATTR_DIM,   /* int64_t, a size, may be symbolic */
    TPI_ATTR_F64,   /* double */
    TPI_ATTR_LIST,  /* tpi_list of plain integers */
    TPI_ATTR_DIMS,  /* tpi_list of sizes, may be symbolic */
    TPI_ATTR_BODY   /* a tpi_body (ir/body.h), which the node's graph owns */
} tpi_attr_type;

typedef struct tpi_attr {
    const char *name; /* NULL ends the table */
    tpi_attr_type type;
    size_t offset;
} tpi_attr;

/* What becomes of an attribute when all operands and the result have one axis more, in front. */
typedef enum tpi_lead {
    TPI_LEAD_STAYS,
    TPI_LEAD_AXES,  /* numbers of axes: one more each */
    TPI_LEAD_ORDER, /* of all axes: and 0 in front */
    TPI_LEAD_SIZES, /* by axis: and the new one's size in front */
    TPI_LEAD_ZEROS  /* by axis: and 0 in front */
} tpi_lead;

/* Structs of attributes are zeroed before they are filled, so that equal attributes are equal
 * bytes; all members are 8 bytes wide, so there is no padding. */

/* ---- rules ---------------------------------------------------------------------------------- */

/* what the compiler may do with it */
typedef enum tpi_kind {
    TPI_SOURCE,  /* no operands: placeholder, variable, const, param */
    TPI_ELEMENT, /* y[i] = f(x[i], ...), operands broadcast to y */
    TPI_REDUCE,  /* over axes of attrs (tpi_reduce_attrs) */
    TPI_VIEW,    /* the same elements at other places: strides only, or a copy */
    TPI_CALL,    /* one kernel of src/kernel, called */
    TPI_SHAPE,   /* reads sizes of its operand, not its elements */
    TPI_EFFECT,  /* assign, group */
    TPI_BLOCK,   /* cond, loop: has bodies (ir/body.h) */
    TPI_PORT     /* output: one of a block's */
} tpi_kind;

/* Inputs and answers of a shape rule. */
typedef struct tpi_infer {
    const tpi_op *op;
    tpi_at at;
    tp_ctx *ctx;
    tpi_dims *dims; /* of the graph; NULL when concrete */
    int n_in;
    tp_tensor *const *in;
    const void *attrs;
    tp_dtype dtype; /* answers */
    int rank;
    int64_t shape[TP_MAX_RANK];
    tp_tensor *failed;
} tpi_infer;

/* One run of a kernel on concrete tensors. */
typedef struct tpi_run {
    const tpi_op *op;
    tp_ctx *ctx;
    tpi_at at;
    int n_in;
    tp_tensor *const *in;
    const void *attrs;
    tp_tensor *out;    /* has memory and row-major strides */
    tp_tensor *failed; /* set by tpi_run_fail */
} tpi_run;

typedef struct tpi_grad tpi_grad;
struct tpi_grad {
    const tpi_op *op;
    tpi_at at;
    int n_in;
    tp_tensor *const *x;
    const void *attrs;
    tp_tensor *y, *dy;
    tp_tensor **dx; /* one per operand: NULL, or the sum so far; set by tpi_give */
    const bool *wanted;
    tp_tensor
        *turned; /* of a matmul: the transpose of x[1] when it is there already, or NULL */
    /* Of a node with `joins`, which has no dy of its own: those of its results that a gradient has reached, and these.
     * keep: products in it gave rows dy, of rows x, with operand k, whose gradient is joined outside; false: no memory. */
    int n_results;
    tp_tensor *const *results, *const *dys;
    bool (*keep)(const tpi_grad *g, int k, tp_tensor *x, tp_tensor *dy);
    struct tpi_sweep *sweep;
};

typedef enum tpi_linear {
    TPI_LINEAR_IN_NONE,
    TPI_LINEAR_IN_ALL, /* together: in those that gradients go to, the others being no floats */
    TPI_LINEAR_IN_EACH /* while the others stay */
} tpi_linear;

/* How it goes on with many samples at once, which lie along a first axis (transform/batch.c). */
typedef enum tpi_batching {
    TPI_BATCH_BY_AXIS,    /* with one axis more in front: `lead` says what its attributes become */
    TPI_BATCH_STRETCHED,  /* the same; its operand's axes are the last ones of the result */
    TPI_BATCH_TABLES,     /* the same, while operands behind the first one are shared */
    TPI_BATCH_IMAGES,     /* operand 0 is [m, ...], computed by themselves, while operand 1 is shared */
    TPI_BATCH_ALL_IMAGES, /* operands are [m, ...], computed by themselves */
    TPI_BATCH_ROWS,       /* as IMAGES where it has two axes; else as BY_AXIS */
    TPI_BATCH_SLICES,     /* of slices that an index names */
    TPI_BATCH_STACK,      /* the result's first axis is one of turns, which the samples come behind; */
    TPI_BATCH_ROW,        /* the operand's is */
    TPI_BATCH_VALUE,      /* of operand 0, with a gradient that is for one sample */
    TPI_BATCH_NONE        /* one sample after the other; so do others in other cases than above */
} tpi_batching;

/* In a view rule: the strides (in elements) of the result over its operand's memory, from those
 * of the operand; sizes and strides may be symbolic. False: needs a copy. */
typedef struct tpi_view {
    tpi_dims *dims;
    const tp_tensor *in, *out; /* for their shapes */
    const int64_t *in_stride;
    const void *attrs;
    int64_t offset, stride[TP_MAX_RANK]; /* answers */
} tpi_view;

/* A node that is copied to graph `to`, where in[] are its operands. */
typedef struct tpi_simplify {
    tp_graph *to;
    const tp_tensor *node;
    tp_tensor *const *in;
} tpi_simplify;

struct tpk_view;
typedef struct tpi_contraction tpi_contraction;

/* A kernel of src/kernel with the common signature; 0, or 1 + the flat position in operand
 * `bad` of an index out of range. attr: the attributes flattened in table order: a list is its
 * n, then TP_MAX_RANK values; doubles by their bits. */
typedef int64_t (*tpi_call)(const struct tpk_view *in, const struct tpk_view *out,
                            const int64_t *attr);

/* ---- axis factors ---------------------------------------------------------------------------
 *
 * Which axis of which operand goes with which axis of the result. Axes that go together have one factor:
 * those of the result are numbered by its axes, factors that it does not have from TP_MAX_RANK on. */
typedef enum tpi_axis_use {
    TPI_AXIS_WHOLE,     /* in no way of those below */
    TPI_AXIS_PASSED,    /* a position of it makes that position of the result, and no other */
    TPI_AXIS_STRETCHED, /* its only position is read for all positions of the result */
    TPI_AXIS_WINDOWED,  /* positions that are near each other make one of the result */
    TPI_AXIS_REDUCED    /* all positions are combined in an order that the op fixes */
} tpi_axis_use;

enum { TPI_NO_FACTOR = -1 }; /* an axis that goes with no other */

typedef struct tpi_factor {
    int8_t use; /* TPI_AXIS_... */
    int8_t id;
} tpi_factor;

/* What lies from lo up to hi along one axis of operand 0. */
typedef struct tpi_range {
    int axis;
    int64_t lo, hi;
} tpi_range;

/* Is the result operand 0 but in some places? Then it may lie there, and these are written. */
typedef enum tpi_update {
    TPI_UPDATES_NOTHING,
    TPI_UPDATES_BY_SETTING, /* what the last operand has there */
    TPI_UPDATES_BY_ADDING,
    TPI_UPDATES_BY_MEETING /* a product, the greater or the lesser */
} tpi_update;

/* Of one element of an elementwise op (kernel/text/elem.def). */
typedef enum tpi_effort {
    TPI_HEAVY,
    TPI_LIGHT, /* a few instructions */
    TPI_CHEAP  /* costs no more to compute again than to keep */
} tpi_effort;

/* What a run may find wrong with a matrix; or its kernel, which is a node's own, with anything. */
typedef enum tpi_refusal {
    TPI_REFUSES_NOTHING,
    TPI_REFUSES_SINGULAR,
    TPI_REFUSES_INDEFINITE,
    TPI_REFUSES_AS_IT_LIKES
} tpi_refusal;

/* The kernel of a node that has its own, a function of the user's (op/own_kernel.c). */
typedef struct tpi_own_call {
    /* Computes the result. in[] are looked at for their types; `room` has tpi_own_room bytes, and behind them
     * those of each operand with gaps, in steps of 64. 0, or 1: it could not. */
    int64_t (*run)(const void *attrs, int n_in, tp_tensor *const *in,
                   const struct tpk_view *operands, const struct tpk_view *out, void *room);
    /* Then: the error. */
    tp_tensor *(*refuse)(tp_ctx *ctx, tpi_at at, const void *attrs);
    /* What stands for it in a file, as nodes of `to`; or the failed tensor. */
    tp_tensor *(*leave)(tp_graph *to, tpi_at at, int n_in, tp_tensor *const *in,
                        const void *attrs);
} tpi_own_call;

struct tpi_op {
    const char *name;
    int n_in; /* -1: one or more */
    tpi_kind kind;
    const tpi_attr *attrs; /* NULL: none */
    size_t attrs_size;
    bool (*infer)(tpi_infer *q);
    bool (*view)(tpi_view *v); /* kind TPI_VIEW */
    /* Fills f[], by axis of operand k, where that is not TPI_AXIS_WHOLE without a factor. NULL: what the
     * kinds TPI_ELEMENT and TPI_REDUCE have in common (ir/factors.h). */
    void (*factors)(const tp_tensor *node, int k, tpi_factor *f);
    /* The range that the result is, with or without its axis; false: not one, or a run tells. NULL: it is none. */
    bool (*range)(const tp_tensor *node, tpi_range *r);
    /* The axis of operand 0 along which the result is slices of it, at the places that operand 1 tells now; false: a run
     * tells, or it is one slice without the axis. NULL: it is none. */
    bool (*places)(const tp_tensor *node, int *axis);
    bool (*kernel)(tpi_run *r); /* the oracle: plain loops; NULL for kind TPI_CALL */
    bool (*fast)(tpi_run *r);   /* for eager use, same bits; NULL: kernel */
    tp_tensor *(*simplify)(const tpi_simplify *s); /* NULL, or what gives the same bits for
                                       less, or NULL where nothing does */
    void (*grad)(tpi_grad *g);                     /* NULL: a constant to gradients */
    bool grad_reads_x, grad_reads_y;               /* the values, not just the shapes */
    uint8_t batch;   /* TPI_BATCH_... */
    uint8_t lead[3]; /* by attribute: TPI_LEAD_... */
    uint8_t linear;  /* TPI_LINEAR_..., in its operands that are floats */
    /* Of a composite that a tape has as one node (op/fused.h): grad finds in dx what wanted operands have got so far,
     * or NULL, and leaves there what they have then, with a reference each. And: makes of t the last of the
     * composite's ops, on a tape; false: it could not. */
    bool (*unfold)(tp_tensor *t);
    /* Of the call of a function as one node, with its results behind it: is operand k a right matrix of products in it?
     * grad is for all of its results at once. */
    bool (*joins)(const tp_tensor *t, int k);
    const char *text, *fn; /* kind TPI_CALL: file and function in src/kernel: the
                                       function is tpk_<fn>_<type of operand call_dtype> */
    const tpi_call *call;  /* its instances, by element type */
    const tpi_own_call
        *own; /* kind TPI_CALL, instead of these: each node has a kernel of its own */
    int isa_call; /* TPI_ISA_...: for eager use and programs, instead; TPI_ISA_of_op: those that `call` has
                                       behind its types, [2 TPI_SET_... + is it f64], linked with the op alone */
    bool planes; /* all of one type; places of the first two axes are
                                       computed by themselves: threads share them */
    tpi_update updates;
    int index_in; /* operand of indices that a run may refuse; 0: none */
    int8_t
        refuses; /* kind TPI_CALL: TPI_REFUSES_..., a matrix of a stack: its kernel gives 1 + the number of it */
    bool slices;   /* and they name whole slices along the attribute `axis`; else elements */
    bool in_order; /* kind TPI_VIEW: the operand's elements in row-major order */
    tpi_effort effort;
    int8_t
        elem; /* kind TPI_ELEMENT: TPI_ELEM_..., its function for elements of operand call_dtype */
    /* Shorter functions of kernel/text that give the same bits: */
    bool down; /* tpk_<name>_down_f32, of what is at most 0 or NaN */
    const char
        *bound; /* tpk_<bound>_<type>, if one of two floats is a number known before, no NaN */
    double no_bound; /* and not this zero */
    bool
        by_row; /* tpk_<name>_row_f32: vectors, which the function of an element does not take */
    int8_t fold;            /* kind TPI_REDUCE: TPI_REDUCE_..., */
    const tpi_op *by_count; /* and then this op of it and of how many there are; NULL */
    /* kind TPI_CALL, for types that `call` has no instance of: what a contraction of src/kernel is handed
     * (op/contractions.h). Sizes and strides may be symbolic. */
    void (*contract)(const tpi_run *r, tpi_contraction *c);
    /* Of a convolution (kernel/host/team_host.h): programs without one are linked without its code, which is large. */
    const struct tpi_convolving *convolving;
    int packed_axes; /* so many last axes of operand 1, if it is a constant that is the same along those before them,
                        are packed once; 0: it is read as it lies */
    bool any_size;  /* takes operands of any sizes, once their symbols have been
                                       found to fit; kinds of which all do need not say so */
    int call_dtype; /* which operand picks the instance; -1: the result */
    bool draws; /* numbers of the context's stream: a run gives what the next one does not */
    int8_t
        awaits; /* 1 + the operand at whose place in a sweep its gradient waits, for those of its like; 0:
                       its own rule has it at once */
    int code; /* TPI_OP_... */
};

typedef enum tpi_opcode {
#define OP(name) TPI_OP_##name,
#include "op/ops.def"
#undef OP
    TPI_N_OPS
} tpi_opcode;

/* Does it give its operand's elements the type that its attribute says? */
static inline bool tpi_retypes(const tpi_op *op)
{
    return op->kind == TPI_ELEMENT && op->attrs && op->attrs->type == TPI_ATTR_DTYPE;
}
/* Does it read slices, or elements, that an index names? */
static inline bool tpi_reads_slices(const tpi_op *op)
{
    return op->index_in && op->slices && !op->updates;
}
static inline bool tpi_reads_elements(const tpi_op *op)
{
    return op->index_in && !op->slices && !op->updates;
}

/* What is said of a matrix that a run refuses. */
static inline const char *tpi_refusal_text(const tpi_op *op)
{
    return op->refuses == TPI_REFUSES_SINGULAR ? "is singular" : "is not positive definite";
}
/* May a run refuse values of its operands? */
static inline bool tpi_may_refuse(const tpi_op *op)
{
    return op->index_in || op->refuses;
}

extern const tpi_op *const tpi_ops[TPI_N_OPS];
const tpi_op *tpi_op_find(const char *name, size_t len); /* NULL: unknown */

/* Of every reduction: sorted axes, none twice. */
typedef struct tpi_reduce_attrs {
    tpi_list axes;
    int64_t keep;
} tpi_reduce_attrs;

#endif
