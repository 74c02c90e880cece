/* A model in the making: values, the operators that give them, and the blocks these are in.
 *
 * Ops of the graph are exported as operators of ONNX by the functions in export_*.c. A value is a
 * number; 0 is what comes after a failure, and may be an operand like any other, so that nobody
 * has to look before the end. */
#ifndef TAPIR_ONNX_EMIT_H
#define TAPIR_ONNX_EMIT_H

#include "base/bump.h"
#include "base/strbuf.h"
#include "onnx/export/export.h"
#include "op/op.h"

enum { TPI_EXPORT_OPSET = 17 };

typedef int tpi_val;

typedef struct tpi_out_value {
    tp_dtype dtype;
    int32_t block;         /* that computes it; 0 also for inputs and weights */
    const char *name;      /* NULL: not named yet */
    const char *op;        /* what gives it: a name is made of that */
    const tp_tensor *node; /* of the graph, whose value it is, or NULL */
    bool live, scalar;     /* scalar: it has no axes */
} tpi_out_value;

typedef struct tpi_out_node {
    const char *op;
    int32_t first, n_in, n_out; /* in the list of operands: inputs, then outputs */
    size_t attrs, attrs_size;   /* in the text of attributes */
    const tp_tensor *node;      /* whose place it has, or NULL */
    int32_t next;               /* of the same block; -1: the last */
    int32_t body[2];            /* blocks in it, or -1 */
    bool live;
} tpi_out_node;

typedef struct tpi_out_block {
    int32_t parent, first, last;                  /* nodes; -1: none */
    int32_t inputs, n_inputs, outputs, n_outputs; /* in the list of operands */
    int32_t undo, sizes; /* where the lists of those were when it began */
} tpi_out_block;

typedef struct tpi_out_weight { /* an initializer */
    tpi_val value;
    const tp_tensor *t; /* NULL: a constant made here */
    int32_t rank;
    int64_t n;            /* elements */
    const void *elements; /* of a constant */
} tpi_out_weight;

typedef struct tpi_out_size {
    int64_t dim;
    tpi_val value;
} tpi_out_size;

typedef struct tpi_out_shape { /* of an output, as far as all paths agree */
    tp_dtype dtype;
    int rank;
    int64_t dims[TP_MAX_RANK]; /* TPI_NO_DIM: they do not */
} tpi_out_shape;

/* Where the numbers of a stream's next random node begin. */
typedef struct tpi_export_stream {
    int64_t n;    /* a size, */
    tpi_val from; /* counted from there (i64[1]); 0: from where the context is */
} tpi_export_stream;

/* The graph that is being exported: the model's, or the body of a block. */
typedef struct tpi_exported {
    tp_graph *g;
    const tp_tensor *node; /* that is being exported */
    tpi_val *value_of;     /* by the index of the graph's nodes */
    int32_t *mark;         /* likewise: what is being exported */
    int32_t *needed;       /* likewise: by some path */
    int64_t *place;  /* of random nodes: a size, where their numbers begin; -1: not known */
    int32_t n_graph; /* nodes of the graph */
    tpi_export_stream *drawn; /* by stream of the model */
} tpi_exported;

typedef struct tpi_export {
    tp_ctx *ctx;
    const tpi_onnx_saving *m;
    tp_status status;
    tpi_exported now;
    int32_t depth; /* bodies around it */
    int32_t block;
    tpi_out_value *values;
    int32_t n_values, values_size;
    tpi_out_node *nodes;
    int32_t n_nodes, nodes_size;
    tpi_out_block *blocks;
    int32_t n_blocks, blocks_size;
    tpi_out_shape *out_shapes; /* of the model */
    tpi_out_weight *weights;
    int32_t n_weights, weights_size;
    tpi_out_size *sizes;
    int32_t n_sizes, sizes_size;
    int32_t *operands;
    int32_t n_operands, operands_size;
    int32_t *undo; /* nodes of the graph whose value is of a block that ends */
    int32_t n_undo, undo_size;
    tpi_val *inputs;   /* of the model */
    uint64_t *streams; /* that it draws from */
    int32_t n_streams, streams_size;
    tpi_str attrs;
    tpi_bump memory; /* of all lists, constants and names */
} tpi_export;

/* ---- failing ----------------------------------------------------------------------------- */

/* Refuses the node that is being exported: "net.c:41: recur: ..." */
#define tpi_export_refuse(x, ...) tpi_export_fail((x), TP_E_VALUE, __VA_ARGS__)
tpi_val tpi_export_fail(tpi_export *x, tp_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
tpi_val tpi_export_no_memory(tpi_export *x);

/* ---- values ------------------------------------------------------------------------------ */

/* Memory that lives as long as the export, zeroed; NULL: the error is set. */
void *tpi_export_take(tpi_export *x, size_t count, size_t size);
/* Room for one more element of an array; false: no memory. */
bool tpi_export_room(tpi_export *x, void *array_ptr, int32_t n, int32_t *size, size_t elem);

/* An operator over values; its result has the type of the first one, or the type given. The
 * attributes put next are its. */
#define TPI_V(...)                                                                             \
    (int)(sizeof((const tpi_val[]){__VA_ARGS__}) / sizeof(tpi_val)), (const tpi_val[])         \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
tpi_val tpi_put(tpi_export *x, const char *op, int n, const tpi_val *in);
tpi_val tpi_put_typed(tpi_export *x, const char *op, tp_dtype dtype, int n, const tpi_val *in);
/* One more result of the operator put last. */
tpi_val tpi_put_result(tpi_export *x, tp_dtype dtype);
void tpi_put_int(tpi_export *x, const char *name, int64_t v);
void tpi_put_ints(tpi_export *x, const char *name, int64_t n, const int64_t *v);
void tpi_put_text(tpi_export *x, const char *name, const char *text);
/* Those that operator and op share, maybe by other names, as the table has them (operators.def). */
void tpi_put_shared(tpi_export *x, const tp_tensor *t);
/* An operator with what it shares with t. */
tpi_val tpi_put_alike(tpi_export *x, const char *op, const tp_tensor *t, int n,
                      const tpi_val *in);
/* A block in it: 0 is then_branch of If, 1 else_branch; or 0, the body of Scan. */
void tpi_put_body(tpi_export *x, int which, int32_t block);

/* The value of operand i of t, or of a node of the graph. */
tpi_val tpi_in(const tpi_export *x, const tp_tensor *t, int i);
tpi_val tpi_value_of(const tpi_export *x, const tp_tensor *node);
/* Is the node an input of the model? Then what it was computed from says nothing about it. */
bool tpi_is_fed(const tpi_export *x, const tp_tensor *node);
tp_dtype tpi_type(const tpi_export *x, tpi_val v);
int tpi_onnx_type(tp_dtype dtype);

/* The same value as elements of another type. */
tpi_val tpi_as(tpi_export *x, tpi_val v, tp_dtype dtype);
/* The type in which runtimes compute `op` of elements of this type (operators.def). */
tp_dtype tpi_work_type(const char *op, tp_dtype dtype);
/* tpi_put of operands of one type, cast there and back where runtimes lack the kernel. */
tpi_val tpi_native(tpi_export *x, const char *op, int n, const tpi_val *in);

/* c ? a : b. */
tpi_val tpi_choose(tpi_export *x, tpi_val c, tpi_val a, tpi_val b);
/* v >> 0, v >> 1, ... along a new last axis, as u64, whose lowest bits are those of v; and the u64
 * of bits. */
tpi_val tpi_shifts_of(tpi_export *x, tpi_val v, int n_bits);
tpi_val tpi_of_bits(tpi_export *x, tpi_val bits, int n_bits);

/* Constants: a scalar of the type; integers; any bytes of one axis. Equal ones are one. */
tpi_val tpi_scalar(tpi_export *x, tp_dtype dtype, double v);
tpi_val tpi_ints(tpi_export *x, int64_t n, const int64_t *v);
#define tpi_int(x, v) tpi_ints((x), 1, (const int64_t[]){(v)})
tpi_val tpi_constant(tpi_export *x, tp_dtype dtype, int rank, int64_t n, const void *elements);
/* An input of the model. */
tpi_val tpi_model_input(tpi_export *x, tp_dtype dtype);
/* An initializer of a concrete tensor. */
tpi_val tpi_weight(tpi_export *x, const tp_tensor *t);

/* Their product, a size. */
int64_t tpi_size_product(const tpi_export *x, int n, const int64_t *sizes);
/* Sizes, maybe symbolic: as i64[1], and several as i64[n]. */
tpi_val tpi_size(tpi_export *x, int64_t dim);
tpi_val tpi_sizes(tpi_export *x, int64_t n, const int64_t *dims);

/* `from`: a node of v's shape, or NULL. */
tpi_val tpi_reshape(tpi_export *x, tpi_val v, const tp_tensor *from, int64_t n,
                    const int64_t *dims);
tpi_val tpi_expand(tpi_export *x, tpi_val v, int64_t n, const int64_t *dims);
tpi_val tpi_permute(tpi_export *x, tpi_val v, int64_t n, const int64_t *axes);
/* The elements from, from + step, ... before end of an axis; both i64[1]. */
tpi_val tpi_cut(tpi_export *x, tpi_val v, int64_t axis, tpi_val from, tpi_val end,
                int64_t step);

/* ---- blocks ------------------------------------------------------------------------------ */

/* From now on operators go to a new block in the one there is; and back. */
int32_t tpi_block_begin(tpi_export *x);
void tpi_block_end(tpi_export *x, int n, const tpi_val *outputs);
/* An input of the block just begun, before anything is put in it; `node` has its shape, or is NULL. */
tpi_val tpi_block_input(tpi_export *x, tp_dtype dtype, const tp_tensor *node);
tpi_val tpi_block_scalar(tpi_export *x, tp_dtype dtype);
/* A size that is known from here on to the end of the block. */
tpi_val tpi_note_size(tpi_export *x, int64_t dim, tpi_val v);

/* ---- the ops ----------------------------------------------------------------------------- */

/* The value of a node whose operands are there; refuses what ONNX has no operators for. */
tpi_val tpi_export_node(tpi_export *x, const tp_tensor *t);
#define EXPORT(op, function) tpi_val tpi_export_##function(tpi_export *x, const tp_tensor *t);
#define NAMED(op, function, operator)                                                          \
    tpi_val tpi_export_##function(tpi_export *x, const tp_tensor *t, const char *name);
#include "onnx/export/exports.def"
#undef EXPORT
#undef NAMED

/* What stands for a node from here on to the end of the block. */
void tpi_set_value(tpi_export *x, const tp_tensor *t, tpi_val v);
/* From now on the nodes of g are exported; false: the error is set. */
bool tpi_export_begin_graph(tpi_export *x, tp_graph *g);
/* Says what some nodes of the graph are computed from, and them. */
void tpi_export_needed(tpi_export *x, int n, tp_tensor *const *nodes);
/* export_random.c. Finds the streams of the model, and begins with the context's positions. */
void tpi_random_begin(tpi_export *x);
int tpi_random_stream_of(const tpi_export *x, const tp_tensor *draw);
/* From now on positions are noted in a copy; returns what x->now.drawn was, to be put back. */
tpi_export_stream *tpi_random_copy(tpi_export *x);
/* The position of stream number `stream` of the model after so many draws, a size; where it is: i64[1]. */
tpi_val tpi_random_at(tpi_export *x, int stream, int64_t drawn);
tpi_val tpi_random_now(tpi_export *x, int stream);
/* And it goes on from there. */
void tpi_random_from(tpi_export *x, int stream, tpi_val from);
/* A cond or a loop: its outputs have values then (export_block.c). */
void tpi_export_block(tpi_export *x, const tp_tensor *t);
/* Blocks in blocks, as many as files can hold: each is three messages deep, and readers of the wire
 * format follow a hundred. */
enum { TPI_EXPORT_DEEPEST = 30 };

/* ---- files ------------------------------------------------------------------------------- */

/* Names for all that is live, and the bytes, unless something failed (serialize.c). */
void tpi_export_write(tpi_export *x, const char *path);

#endif
