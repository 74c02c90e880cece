/* The table of symbolic sizes (core/dim.h), for the files that walk its expressions. */
#ifndef TAPIR_DIM_TABLE_H
#define TAPIR_DIM_TABLE_H

#include "core/dim.h"

enum { MAX_ATOMS = 16 }; /* of a term */

typedef struct term {
    int64_t coef; /* not 0, not INT64_MIN */
    int32_t n;
    int32_t atom[MAX_ATOMS];
} term;

typedef struct expr {
    uint64_t hash;
    int32_t n, weight;
    term *terms;
} expr;

typedef struct atom {
    char *name; /* of a symbol; NULL: a division, or a minimum */
    int32_t symbol;
    int32_t weight;
    int64_t num, den;
    bool least; /* of num and den */
} atom;

struct tpi_dims {
    tp_ctx *ctx;
    uint64_t salt; /* tells the handles of two tables apart */
    atom *atoms;
    int32_t n_atoms, atoms_size;
    expr *exprs;
    int32_t n_exprs, exprs_size;
    int32_t *slots; /* open addressing by hash: expression + 1 */
    int32_t n_slots;
    int32_t *symbols; /* their atoms */
    int32_t n_symbols, symbols_size;
    void (*note)(void *user, int64_t d); /* of tpi_dim_watch */
    void *note_user;
};

/* NULL when the handle is not one of this table. */
const expr *tpi_dim_expr(const tpi_dims *table, int64_t d);
/* Length of the name of a symbol at `s`, which ends before `limit`; 0 when none is there. */
size_t tpi_dim_name_length(const char *s, const char *limit);
/* The symbol named by the first `len` characters at `name`. */
int64_t tpi_dim_symbol_of(tpi_dims *table, const char *name, size_t len);

#endif
