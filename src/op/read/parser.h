/* Reading texts of graphs: what parse.c builds on. The text may come from anyone: every number is
 * checked where it is read. Readers return false, or NULL, once tpi_read_bad has said why. */
#ifndef TAPIR_PARSER_H
#define TAPIR_PARSER_H

#include "ir/check.h"
#include "ir/notation.h"
#include "op/read/parse.h"

struct tpi_text_block;

typedef struct tpi_reader {
    tp_ctx *ctx;
    tpi_at at;
    const char *what;
    const char *p, *limit, *line_start;
    int line;
    tp_graph *root, *g; /* the whole; what lines are added to: it, or a body */
    const struct tpi_text_block *in_block; /* that body's; NULL: none */
    int body, n_bodies;                    /* its number, 0: none; the last number given away */
    tpi_nodes cells;                       /* concrete */
    tpi_nodes in;                          /* operands of the line being read */
    char *scratch;                         /* as long as the text */
    int n_blobs, n_memory, n_data;
    const tpi_blob *blobs;
    int64_t zero_bytes;
    uint64_t refused; /* of the context's memory, at the start */
    bool failed;
} tpi_reader;

typedef struct tpi_text_type {
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK];
} tpi_text_type;

typedef struct tpi_text_name {
    char *text; /* NUL-terminated copy; NULL when none */
    size_t len;
} tpi_text_name;

/* ---- parse_words.c --------------------------------------------------------------------------- */

bool tpi_read_no_memory(tpi_reader *P);
bool tpi_read_bad(tpi_reader *P, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void tpi_read_skip_spaces(tpi_reader *P);
bool tpi_read_next_is(tpi_reader *P, char c);
bool tpi_read_eat(tpi_reader *P, char c);
bool tpi_read_expect(tpi_reader *P, char c);
size_t tpi_read_word(tpi_reader *P, const char **start);
bool tpi_read_eat_word(tpi_reader *P, const char *expected);
bool tpi_read_number(tpi_reader *P, int64_t *v);
/* "@3": one of those before `n`. */
bool tpi_read_reference(tpi_reader *P, char sign, int n, const char *kind, int *i);
/* "%3", or "%2.3" in body 2. */
bool tpi_read_node_number(tpi_reader *P, int body, int64_t *i);
/* The name, if one comes, in a copy for tpi_strfree. */
bool tpi_read_maybe_name(tpi_reader *P, tpi_text_name *name);
bool tpi_read_end_of_line(tpi_reader *P);
bool tpi_read_at_line_end(tpi_reader *P);
void tpi_read_next_line(tpi_reader *P);
/* A type; `symbolic` false: its sizes are numbers. */
bool tpi_read_type(tpi_reader *P, bool symbolic, tpi_text_type *t);
bool tpi_read_list(tpi_reader *P, bool sizes, bool symbolic, int64_t *n, int64_t *v);
/* All attributes of the op; the bodies among them are new and empty. */
bool tpi_read_attributes(tpi_reader *P, const tpi_op *op, char *attrs);
bool tpi_read_place(tpi_reader *P, tpi_at *at);

/* ---- parse_values.c -------------------------------------------------------------------------- */

/* "@2 "w" = state : f32[3]". */
bool tpi_read_cell(tpi_reader *P);
/* A tensor with the values of blob `k`, or zeros when the text stands alone. */
tp_tensor *tpi_read_value(tpi_reader *P, const tpi_text_type *t, int k);
/* The elements between `p` and `limit`. */
tp_tensor *tpi_read_constant(tpi_reader *P, const char *p, const char *limit,
                             const tpi_text_type *t);

#endif
