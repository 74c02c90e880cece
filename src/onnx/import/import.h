/* What the functions that import operators are written with.
 *
 * Each is named in operators.def, is given one node of the model, and answers with tensors. What they
 * are made of is the public ops: on concrete tensors they compute at once (so constants fold by
 * themselves), on symbolic ones they add to the graph. Small integers that say shapes are kept
 * apart, because they may be sizes that are known only at run time: see tpi_onnx_ints. */
#ifndef TAPIR_ONNX_IMPORT_H
#define TAPIR_ONNX_IMPORT_H

#include "core/dim.h"
#include "ir/graph_def.h"
#include "onnx/format/model.h"
#include "onnx/operators.h"
#include "tapir/indexing.h"
#include "tapir/linalg.h"
#include "tapir/random.h"
#include "tapir/nn.h"
#include "tapir/onnx.h"

typedef struct tpi_import tpi_import;
typedef struct tpi_onnx_value tpi_onnx_value;
typedef struct tpi_onnx_env tpi_onnx_env;

/* What is called in here comes from the line that loads the model. */
#undef TP_PLACE
#define TP_PLACE o->at.file, o->at.line

enum { TPI_ONNX_OPERANDS = 9 }; /* the most that a row of the table asks for */

/* One node that is being imported. */
typedef struct tpi_onnx_op {
    tpi_import *im;
    tp_ctx *ctx;
    tp_graph *g;
    tpi_at at;
    const tpi_onnx_node *node;
    const char *name;       /* of the operator */
    int row;                /* its number in the table, */
    const char *attributes; /* and what that says of them */
    int opset;              /* version of the default domain */
    int n_in, n_out;        /* as the node lists them; some may be left out */
    tpi_onnx_env *env;
    bool lift;   /* the operands are too large to compute with now: nodes instead */
    int n_moved; /* so many are lists of sizes, and what is asked for are their handles */
    /* The operands and the axis that the table asks for; NULL: left out, or not asked for. */
    tp_tensor *x[TPI_ONNX_OPERANDS];
    int axis;
} tpi_onnx_op;

/* Every operator function (operators.def). Those that make the one result, of the first operand x, return NULL
 * after an error (tpi_onnx_refuse); those that give results false, also when one had failed. */
#define OP(name, fn, ...) tp_tensor *tpi_onnx_import_##fn(tpi_onnx_op *o, tp_tensor *x);
#define OPS(name, fn, ...) bool tpi_onnx_import_##fn(tpi_onnx_op *o);
#define SOURCE(name, fn, ...) tp_tensor *tpi_onnx_import_##fn(tpi_onnx_op *o);
#define EXPRESSION(name, ...)
#define BINARY(name, ...)
#define ARITHMETIC(name, ...)
#include "onnx/operators.def"

/* What an operator is that is an expression of x, its operand (import_math.c). */
tp_tensor *tpi_onnx_expression(tpi_onnx_op *o, tp_tensor *x);

/* The error of an operator: the fact, and what would be supported. The operator's and the
 * node's name come before it. NULL, which is false, too. */
tp_tensor *tpi_onnx_fail(tpi_onnx_op *o, tp_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define tpi_onnx_refuse(o, ...) tpi_onnx_fail((o), TP_E_VALUE, __VA_ARGS__)
/* Sizes that do not fit: on a side of an If it matters when that is taken. */
#define tpi_onnx_misfit(o, ...) tpi_onnx_fail((o), TP_E_SHAPE, __VA_ARGS__)

/* The end of a refusal of a size that is not known. */
#define TPI_ONNX_FREE_DIM                                                                      \
    "a free dimension: fix it by dims of tp_onnx_load_options (--dim NAME=N)"

/* ---- operands ------------------------------------------------------------------------------ */

bool tpi_onnx_has(const tpi_onnx_op *o, int i); /* is operand i there? */
/* Operand i; a failed tensor when it is left out or what made it failed: ops pass it on, and
 * tpi_onnx_out tells. */
tp_tensor *tpi_onnx_in(tpi_onnx_op *o, int i);
/* The same for those who look at it; NULL after an error. */
tp_tensor *tpi_onnx_good_in(tpi_onnx_op *o, int i);
/* Notes the failure of a tensor that has failed, or is NULL; else true. */
bool tpi_onnx_good(tpi_onnx_op *o, const tp_tensor *t);
/* Its element type, without making anything of it; TP_N_DTYPES after an error. */
tp_dtype tpi_onnx_in_dtype(tpi_onnx_op *o, int i);
/* The value of operand i, concrete; NULL after an error when the model leaves it to the run. */
tp_tensor *tpi_onnx_known(tpi_onnx_op *o, int i);
bool tpi_onnx_is_known(tpi_onnx_op *o, int i);

enum { TPI_ONNX_INTS = 64 };
typedef struct tpi_onnx_ints {
    int n, rank; /* rank 0 or 1 */
    tp_dtype dtype;
    int64_t v[TPI_ONNX_INTS]; /* numbers, or handles of symbolic sizes (core/dim.h) */
} tpi_onnx_ints;
/* Operand i as such integers. False when it is none, or not known: after an error, or, with
 * `try`, without one. */
bool tpi_onnx_ints_of(tpi_onnx_op *o, int i, tpi_onnx_ints *out);
bool tpi_onnx_try_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *out);
/* The same, also of sizes that a Cast has made floats of, as their dtype tells. */
bool tpi_onnx_try_sizes(tpi_onnx_op *o, int i, tpi_onnx_ints *out);
/* The same when all are plain numbers. */
bool tpi_onnx_plain_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *out);
/* Element i of a concrete tensor of one axis at most. */
static inline const char *tpi_onnx_element(const tp_tensor *t, int64_t i)
{
    const int64_t at = t->rank ? i * t->stride[0] : 0;
    return t->data + at * (int64_t)tp_dtype_size((tp_dtype)t->dtype);
}
/* A single number or symbolic size. */
bool tpi_onnx_int_of(tpi_onnx_op *o, int i, int64_t *out);
/* A single number that is known, as a double. */
bool tpi_onnx_number_of(tpi_onnx_op *o, int i, double *out);

/* x * k and x + k, each element. */
tp_tensor *tpi_onnx_times(tpi_onnx_op *o, tp_tensor *x, double k);
tp_tensor *tpi_onnx_plus(tpi_onnx_op *o, tp_tensor *x, double k);

/* ---- attributes (import_attributes.c) ---------------------------------------------------------- */

/* They are in the table (operators.def), and were looked at before the operator's function is called. Those that
 * are operands in the node's operator set are read from there. */
bool tpi_onnx_given(const tpi_onnx_op *o, const char *name); /* does the node say it? */
const tpi_onnx_attr *tpi_onnx_attr_of(const tpi_onnx_op *o, const char *name); /* or NULL */
int64_t tpi_onnx_int(const tpi_onnx_op *o, const char *name);
double tpi_onnx_float(const tpi_onnx_op *o, const char *name);
tpi_span tpi_onnx_text(const tpi_onnx_op *o, const char *name);
/* Which of its words a text is, counted from 0, which is the default. */
int tpi_onnx_choice(const tpi_onnx_op *o, const char *name);
/* An element type; `otherwise` when it is not given and has no default. */
tp_dtype tpi_onnx_type_or(const tpi_onnx_op *o, const char *name, tp_dtype otherwise);
/* An int, or the size or number that an operand has to be; a number that is known. False after an error. */
bool tpi_onnx_integer(tpi_onnx_op *o, const char *name, int64_t *out);
bool tpi_onnx_number(tpi_onnx_op *o, const char *name, double *out);
/* A list of integers; n 0 when it is not there. An operand may have sizes among them, but for plain ones. False
 * after an error: more than TPI_ONNX_INTS. */
bool tpi_onnx_read_list(tpi_onnx_op *o, const char *name, tpi_onnx_ints *out);
bool tpi_onnx_read_plain_list(tpi_onnx_op *o, const char *name, tpi_onnx_ints *out);
/* n numbers, of which none is below the default, nor above 2^31 - 1. */
bool tpi_onnx_read_list_of(tpi_onnx_op *o, const char *name, int n, int64_t *v);
/* The list "axes" as positive numbers, none twice, sorted. */
bool tpi_onnx_axes(tpi_onnx_op *o, int rank, tpi_onnx_ints *out);
/* One axis made positive: a number, or the attribute `name`. */
bool tpi_onnx_positive(tpi_onnx_op *o, int64_t axis, int rank, int *out);
bool tpi_onnx_axis(tpi_onnx_op *o, const char *name, int rank, int *out);
/* The value of a tensor that is given, concrete; NULL after an error. */
tp_tensor *tpi_onnx_tensor_in(tpi_onnx_op *o, const char *name);

/* ---- results --------------------------------------------------------------------------------- */

bool tpi_onnx_wants(const tpi_onnx_op *o, int k); /* does the node name result k? */
/* Result k. False when t failed. */
/* x f32, as what it is in the 16-bit float `type` of the format; x itself for other types. */
tp_tensor *tpi_onnx_round(tpi_onnx_op *o, tp_tensor *x, int64_t type);
bool tpi_onnx_out(tpi_onnx_op *o, int k, tp_tensor *t);
/* Result k as known integers, some of which may be symbolic. */
bool tpi_onnx_out_ints(tpi_onnx_op *o, int k, const tpi_onnx_ints *v);

/* ---- making ---------------------------------------------------------------------------------- */

/* An integer or symbolic size as a tensor of rank 0. */
tp_tensor *tpi_onnx_size_of(tpi_onnx_op *o, int64_t size, tp_dtype dtype);
/* 0, 1, 2, ... below a size, [size]; a node when that is symbolic or large. */
tp_tensor *tpi_onnx_iota(tpi_onnx_op *o, int64_t size, tp_dtype dtype);
/* x of that many elements in all (or, when sizes are symbolic, as many as there are): a concrete x
 * becomes a node when the result would be too large to compute with now, or a size is symbolic. */
tp_tensor *tpi_onnx_for_shape(tpi_onnx_op *o, tp_tensor *x, int rank, const int64_t *shape);
/* Makes sizes of operands equal that have to be, but for those that are 1, and that are not known to be:
 * a run checks them. Without the last `spared` axes. What is certainly wrong the op itself tells. */
void tpi_onnx_agree(tpi_onnx_op *o, int n, tp_tensor **in, int spared);
/* The same of o->x[0] and [1], which before operator set 7 said where its axes belong. */
void tpi_onnx_agree_pair(tpi_onnx_op *o);
/* An op of two operands whose sizes go with each other. */
typedef tp_tensor *(*tpi_onnx_binary_function)(const char *file, int line, tp_tensor *a,
                                               tp_tensor *b);
tp_tensor *tpi_onnx_joined(tpi_onnx_op *o, tpi_onnx_binary_function op, tp_tensor *a,
                           tp_tensor *b);
/* x with an axis of that size, when it may be; else x, which the op itself refuses. */
tp_tensor *tpi_onnx_fitted(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t size);
/* The same of one axis of each; false: they certainly differ. */
bool tpi_onnx_agree_on(tpi_onnx_op *o, tp_tensor **a, int axis_a, tp_tensor **b, int axis_b);
/* x with the size of an axis taken to be another one, which it may be. */
tp_tensor *tpi_onnx_with_size(tpi_onnx_op *o, tp_tensor *x, int axis, int64_t size);
/* Every run has to find two sizes equal that may be; false after an error. */
bool tpi_onnx_demand(tpi_onnx_op *o, int64_t a, int64_t b);
/* x of sizes that a run has to find its own to be. */
tp_tensor *tpi_onnx_assumed(tpi_onnx_op *o, tp_tensor *x, const int64_t *shape);
/* tp_reshape, where a run may have to see whether there are as many elements. */
tp_tensor *tpi_onnx_reshaped(tpi_onnx_op *o, tp_tensor *x, int rank, const int64_t *shape);
/* Whose memory lives as long as the import: tpi_onnx_take. */
tpi_onnx_model *tpi_onnx_model_of(const tpi_onnx_op *o);
/* A loop in the making: carried values go from turn to turn, slices are read an element a turn,
 * along their first axis, and what is stacked becomes [turns, ...]. */
typedef struct tpi_onnx_loop {
    tpi_onnx_op *o;
    struct tpi_body *body;
    tp_graph *outside, *tracing;
    int n_carried, n_slices;
    tp_tensor **operands;                /* carried, slices */
    tp_tensor *turn, **carried, **slice; /* inside */
    int64_t count;                       /* TPI_NO_DIM: as long as the condition says */
    bool back;                           /* the turns from the last to the first */
    bool made;                           /* the node is there */
} tpi_onnx_loop;

/* With l->n_carried, l->n_slices, l->count and l->back set, and the operands given, [carried..,
 * slices..]: ops on symbolic tensors go to the body from here on, to be ended whatever comes. */
bool tpi_onnx_loop_begin(tpi_onnx_op *o, tpi_onnx_loop *l, tp_tensor *const *operands);
/* Back outside. */
void tpi_onnx_loop_leave(tpi_onnx_loop *l);
/* Gives it up: what was put in the body is gone, unless the node is there. */
void tpi_onnx_loop_drop(tpi_onnx_loop *l);
/* The loop: a turn is taken while `first`, then `pred` (both NULL: count turns) says so. `out`
 * [n_carried + n_stacked] are the values at the end of a turn, and then the results. */
bool tpi_onnx_loop_end(tpi_onnx_loop *l, tp_tensor *first, tp_tensor *pred, int n_stacked,
                       tp_tensor **out);
/* x, the first len[b] elements of whose axis `time`, at place b of its axis `batch`, are turned around:
 * len is of integers, [size of batch]. */
tp_tensor *tpi_onnx_reversed(tpi_onnx_op *o, tp_tensor *x, tp_tensor *len, int time, int batch);
/* A Slice of x that begins where only a run knows, by a length that is known; NULL: it is none. */
tp_tensor *tpi_onnx_slice_at(tpi_onnx_op *o, tp_tensor *x);
/* Counts n more nodes against the limit of one model; false after an error. Before unrolling. */
bool tpi_onnx_spend(tpi_onnx_op *o, int64_t n);
/* The element type of an attribute or model, or TP_N_DTYPES after an error. */
tp_dtype tpi_onnx_elem_type(tpi_onnx_op *o, int64_t onnx_type);
/* Sums, differences and products of integers of which some may be symbolic sizes; TPI_NO_DIM when
 * the result is neither a number nor a size. */
int64_t tpi_onnx_dim_add(tpi_onnx_op *o, int64_t a, int64_t b);
int64_t tpi_onnx_dim_sub(tpi_onnx_op *o, int64_t a, int64_t b);
int64_t tpi_onnx_dim_mul(tpi_onnx_op *o, int64_t a, int64_t b);
int64_t tpi_onnx_dim_product(tpi_onnx_op *o, int n, const int64_t *sizes);
int64_t tpi_onnx_dim_div(tpi_onnx_op *o, int64_t a, int64_t b); /* toward zero */
int64_t tpi_onnx_dim_min(tpi_onnx_op *o, int64_t a, int64_t b);
int64_t tpi_onnx_dim_max(tpi_onnx_op *o, int64_t a, int64_t b);
/* An op as the operator's result: of two lists of sizes, or of all operands, one after the other. */
typedef int64_t (*tpi_onnx_size_function)(tpi_onnx_op *o, int64_t a, int64_t b);
bool tpi_onnx_arithmetic(tpi_onnx_op *o, tpi_onnx_size_function sizes,
                         tpi_onnx_binary_function op);

/* ---- what several families of operators share (import_common.c) --------------------------------- */

/* `value` in every element; sizes may be symbolic. */
tp_tensor *tpi_onnx_full(tpi_onnx_op *o, tp_dtype dtype, int rank, const int64_t *shape,
                         double value);
/* p [c] as [c, 1, ...], which broadcasts along axis 1 of something of the given rank. */
tp_tensor *tpi_onnx_per_channel(tpi_onnx_op *o, tp_tensor *p, int rank);
/* v [n] as something of the given rank, along one of its axes. */
tp_tensor *tpi_onnx_along(tpi_onnx_op *o, tp_tensor *v, int rank, int axis);
/* x with axis `from` put at `to`. */
tp_tensor *tpi_onnx_move_axis(tpi_onnx_op *o, tp_tensor *x, int from, int to);
/* The attribute's numbers as f64, at most `most`; n 0 when it is not there. False after an error. */
bool tpi_onnx_floats(tpi_onnx_op *o, const char *name, int most, int *n, double *v);
/* Numbers of operand i, known, as f64; as above. */
bool tpi_onnx_known_floats(tpi_onnx_op *o, int i, int most, int *n, double *v);

/* Makes the sizes of two factors of a matrix product go with each other. */
void tpi_onnx_agree_product(tpi_onnx_op *o, tp_tensor **in);
/* The convolution that o's attributes tell; NULL after an error. */
tp_tensor *tpi_onnx_conv(tpi_onnx_op *o, tp_tensor *x, tp_tensor *weights);

/* The axes from, ..., rank - 1. */
static inline int tpi_onnx_axes_from(int from, int rank, int64_t *axes)
{
    int n = 0;
    for (int i = from; i < rank; i++)
        axes[n++] = i;
    return n;
}

#endif
