/* The text of graphs, shared by those who write it (print.c), read it (op/read/parse.c) and put
 * values beside it (run/store.c). docs/ir.md describes it. */
#ifndef TAPIR_IR_NOTATION_H
#define TAPIR_IR_NOTATION_H

#include "ir/graph_def.h"

/* ---- literals: exact, and the same in every locale ----------------------------------------- */

void tpi_put_string(tpi_str *s, const char *text, size_t len); /* quoted */
void tpi_put_f64(tpi_str *s, double v); /* the fewest digits that read back as v */
void tpi_put_element(tpi_str *s, tp_dtype dtype, const void *p);

/* Readers return the end of what they read, NULL when it is malformed. */
const char *tpi_scan_i64(const char *p, const char *limit, int64_t *v);
const char *tpi_scan_f64(const char *p, const char *limit, double *v);
const char *tpi_scan_element(const char *p, const char *limit, tp_dtype dtype, void *out);
/* `out` has room for limit - p bytes and is not terminated; `*len` of them are written. NULL
 * also for a NUL within. */
const char *tpi_scan_string(const char *p, const char *limit, char *out, size_t *len);

/* Bytes of the UTF-8 character at p, 0 when there is no valid one. */
int tpi_utf8_length(const char *p, const char *limit);

/* Every element of `elem` bytes turned around: little-endian to big-endian and back. */
void tpi_swap_bytes(char *p, size_t bytes, size_t elem);

/* ---- values that a text names by number ------------------------------------------------------ */

enum { TPI_INLINE_MAX = 16 }; /* elements of a constant written into the text */

/* A line `@k = ...`: memory of variables, or a view of such memory. */
typedef struct tpi_cell {
    const tp_tensor *t; /* the variable or view; NULL: memory only views of which are read */
    int32_t of;         /* the cell it is a view of; -1: it is memory itself */
    int64_t offset;     /* of a view, in elements */
    tp_dtype dtype;
    int32_t rank;
    int64_t shape[TP_MAX_RANK];
    const char *first; /* of memory: the first element; row-major, without gaps */
} tpi_cell;

typedef struct tpi_values {
    tp_ctx *ctx;
    tpi_nodes all; /* in the order of the text: the nodes of a block's bodies come behind it */
    /* By place in `all`. Of a node that reads a variable: its cell; of one that is a constant: its
     * place in `data`, -1 when the text holds it; else -1. */
    int32_t *number;
    tpi_cell *cells;
    int32_t n_cells, cells_size;
    tpi_nodes data; /* the concrete tensors #0, #1, ... of constants too long for the text */
} tpi_values;

/* Of `n` nodes in program order; false when out of memory. */
bool tpi_values_collect(tpi_values *v, tp_ctx *ctx, int n, tp_tensor *const *nodes);
void tpi_values_free(tpi_values *v);

/* The tensor whose value a source node (or a leaf of a tape) stands for; NULL: no such node. */
const tp_tensor *tpi_source_of(const tp_tensor *node);

/* What a block gives its param number `index`: "turn", "carried", "slice", or "", a capture. */
typedef struct tpi_role {
    const char *word;
    int64_t
        operand; /* the first value, what it is an element of, or itself; -1: the turn's number */
} tpi_role;
tpi_role tpi_param_role(const tpi_op *op, const void *attrs, int64_t index);

/* ---- writing ----------------------------------------------------------------------------------- */

void tpi_put_type(tpi_str *s, const tpi_dims *dims, tp_dtype dtype, int rank,
                  const int64_t *shape);
/* "{axes=[0], keep=true}" with a space before it; nothing when the op has no attributes. Bodies are
 * "(body)", "(body + 1)". */
void tpi_put_attrs(tpi_str *s, const tpi_dims *dims, const tpi_op *op, const void *attrs,
                   int body);
/* Attribute number k of those that are written and are no bodies; NULL: there are not so many. */
const tpi_attr *tpi_written_attr(const tpi_op *op, const void *attrs, int k);
/* The value of attribute `a`. */
void tpi_put_attr(tpi_str *s, const tpi_dims *dims, const tpi_attr *a, const void *attrs);
/* The number that a text of `root` gives a body of its blocks; 0: it is none of them. */
int tpi_body_number(const tp_graph *root, const tp_graph *body);
/* "%3", or "%2.3" in body 2. */
void tpi_put_number(tpi_str *s, int body, int i);
/* The elements, "0.5" or "[1, 2]". */
void tpi_put_constant(tpi_str *s, const tp_tensor *t);
/* " ; net.c:8"; nothing when there is no file. */
void tpi_put_place(tpi_str *s, const char *file, int line);
/* The whole text of the `n` nodes v was collected from. Sets the slot of all to their position. */
void tpi_put_nodes(tpi_str *s, const tpi_dims *dims, const tpi_values *v, int n,
                   tp_tensor *const *nodes);
/* The line of the graph's outputs, when it has any; after tpi_put_nodes. */
void tpi_put_outputs(tpi_str *s, const tp_graph *g);
/* `s` as a block of tp_alloc; NULL (and an error) when out of memory. Frees s. */
char *tpi_str_hand_over(tp_ctx *ctx, tpi_str *s, const char *what);

#endif
