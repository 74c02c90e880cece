/* Kernels of the same text are one function.
 *
 * Where a number of its own stands in a kernel (of a buffer, a constant, a size in a call) its text
 * has a *slot*. Kernels whose texts are equal but for their slots share a function; what differs
 * among them stands in a table of arguments, of which each is handed its own row. */
#ifndef TAPIR_RENDER_ALIKE_H
#define TAPIR_RENDER_ALIKE_H

#include "base/bump.h"
#include "base/strbuf.h"

typedef enum tpi_slot_kind {
    TPI_SLOT_NUMBER,
    TPI_SLOT_F32, /* a constant, by its bits */
    TPI_SLOT_F64,
    TPI_SLOT_ROW /* where the arguments of another kernel begin in the table */
} tpi_slot_kind;

typedef struct tpi_slot {
    tpi_slot_kind kind;
    int64_t value;
} tpi_slot;

typedef struct tpi_alike_function { /* a function */
    char *text;
    size_t len;
    uint64_t hash;
    int next;              /* of the same hash bucket; -1 */
    int first_row, n_rows; /* kernels; each names the next one */
    int n_slots;
    int *place; /* by slot: its place among the arguments; -1: the same for all */
} tpi_alike_function;

typedef struct tpi_alike_row {
    int function; /* -1: not rendered yet */
    int next;     /* kernel of the same function; -1 */
    const tpi_slot *slots;
    int64_t at; /* of its arguments in the table */
    const char *comment;
} tpi_alike_row;

typedef struct tpi_alike {
    tpi_bump *memory; /* of all of it; when that failed, there is no text */
    tpi_alike_function *functions;
    int n_functions, functions_size;
    tpi_slot *slots; /* of the kernel that is rendered */
    int n_slots, slots_size;
    tpi_alike_row *rows; /* by kernel of the program */
    int n_rows;
    int *buckets; /* by hash */
    int n_buckets;
} tpi_alike;

void tpi_alike_begin(tpi_alike *s, tpi_bump *memory, int n_kernels);

/* A slot of the kernel that is rendered, as the mark that stands for it in the text. */
enum { TPI_SLOT_MARK = 16 };
const char *tpi_alike_slot(tpi_alike *s, tpi_slot_kind kind, int64_t value,
                           char mark[TPI_SLOT_MARK]);
/* The declarations that its arguments need follow this mark in a function's text. */
#define TPI_ALIKE_HEAD "\x03"
/* The function's own name. */
#define TPI_ALIKE_SELF "\x04"
/* The kernel's text is done: finds its function, or makes one. */
void tpi_alike_kernel(tpi_alike *s, int kernel, const tpi_str *text, const char *comment);
/* All kernels are done: what differs in each function, and where each kernel's arguments are. */
void tpi_alike_settle(tpi_alike *s);

/* "static const int64_t args[] = {...};" */
void tpi_alike_put_arguments(const tpi_alike *s, tpi_str *out);
/* The text of a function, whose name is k<number>, behind a comment; `linkage` is before its type. */
void tpi_alike_put_function(const tpi_alike *s, int number, const char *linkage, tpi_str *out);
/* "{k3, 17, 5}, / * comment * /": function and arguments of a kernel, and a number. */
void tpi_alike_put_row(const tpi_alike *s, int kernel, tpi_str *out);

#endif
