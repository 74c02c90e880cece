/* Parts of standalone.c. */
#ifndef TAPIR_STANDALONE_DEF_H
#define TAPIR_STANDALONE_DEF_H

#include "base/bump.h"
#include "render/standalone/c_name.h"
#include "render/standalone/standalone.h"

typedef struct tpi_alone_symbol {
    bool used, late;
    tpi_c_name name;  /* among the sizes; of a late one, of the most turns */
    tpi_c_name count; /* of a late one: among the outputs */
    int loop;         /* and the number of the kernel that sets it */
} tpi_alone_symbol;

typedef struct tpi_alone_weight {
    const tp_tensor *t; /* concrete */
    const char *name;   /* the model's, or NULL */
    int64_t offset;     /* in the file beside, bytes */
} tpi_alone_weight;

typedef struct tpi_alone_variable {
    const tp_tensor *t; /* concrete */
    int weight;         /* its first value */
    tpi_c_name name;
} tpi_alone_variable;

typedef struct tpi_alone {
    const tpi_standalone *q;
    tpi_bump memory; /* of all that is below, but the plan */
    const char *prefix;
    tp_ctx *ctx;
    tpi_plan *plan;
    tpi_dims *dims;
    int n_symbols;
    tpi_alone_symbol *symbols;
    bool sized; /* a symbol is used: the caller tells sizes */
    int n_weights, weights_size;
    tpi_alone_weight *weights;
    int n_variables, variables_size;
    tpi_alone_variable *variables;
    bool *refuses;  /* by kernel: `misfit` names it */
    int *weight_of; /* by buffer of the program: a constant's; -1 */
    tpi_c_name *in, *out;
    int n_random;  /* nodes that draw outside of bodies */
    int64_t arena; /* bytes that the ops share; -1: they depend on sizes */
    bool state;    /* the caller keeps one: variables, or random positions */
} tpi_alone;

/* standalone_find.c: fills the lists above; false: the error tells. */
bool tpi_alone_find(tpi_alone *a);
/* standalone_sizes.c: `static int64_t misfit(const int64_t *s)`. */
bool tpi_alone_sizes(tpi_alone *a, tpi_str *out);
/* The equations of a plan's graph and of the bodies in it, by number as faults have them, behind those of
 * kernels: *number is the next one. `each` is told of those that the sizes of the caller decide. */
void tpi_alone_equations(const tpi_alone *a, const tpi_plan *plan, int *number,
                         void (*each)(void *user, int number, const tpi_equation *e),
                         void *user);
/* standalone_place.c: `static int64_t place(const int64_t *s, char *base, void **p)`. */
bool tpi_alone_places(tpi_alone *a, tpi_str *out);
/* What the state calls a stream's position. */
enum { TPI_STREAM_NAME = 32 };
const char *tpi_alone_position(uint64_t stream, char name[TPI_STREAM_NAME]);
/* standalone_head.c: the header. */
void tpi_alone_header(const tpi_alone *a, tpi_str *out);
/* Parameters of the functions, as the header declares and the source defines them: one of these,
 * without the semicolon. */
typedef enum tpi_alone_function {
    TPI_ALONE_BYTES,
    TPI_ALONE_PREPARE,
    TPI_ALONE_INIT,
    TPI_ALONE_RUN
} tpi_alone_function;
void tpi_alone_declare(const tpi_alone *a, tpi_alone_function f, tpi_str *out);

#endif
