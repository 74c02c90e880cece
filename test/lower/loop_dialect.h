/* Loop programs as text of another language. A dialect is nothing but strings: how its kernels, loops and
 * assignments look; the printer knows no language, and neither knows an op. Folds are opened: their order
 * (lower/order.def) becomes loops and assignments, so a dialect needs to know of no order either. */
#ifndef TAPIR_TEST_LOOP_DIALECT_H
#define TAPIR_TEST_LOOP_DIALECT_H

#include "lower/loop.h"

/* Each is a line or an expression, in which $1, $2, $3 stand for what its comment names. NULL: a line that is not
 * there. */
typedef struct loop_dialect {
    const char *kernel;   /* name; then come its parameters */
    const char *in, *out; /* parameters: type, name */
    const char
        *scratch; /* parameter of a row's memory: type, name; NULL: the language has its own */
    const char *size;        /* parameter of a symbol: name; NULL: they are known by name */
    const char *begin, *end; /* behind the parameters, and at the end of a kernel */
    const char
        *parallel; /* opens a loop whose points need not wait for each other: variable, size */
    const char *loop;     /* opens a loop: variable, size */
    const char *when;     /* opens what is done on a condition: condition */
    const char *close;    /* closes either */
    const char *row;      /* memory that each point of the region has: type, name, elements */
    const char *array;    /* type, name, elements */
    const char *variable; /* one that is assigned again: type, name, value */
    const char *integer;  /* the same for a count: name, value */
    const char *value;    /* type, name, value */
    const char *assign;   /* to, value */
    const char *op;       /* expression: op, type of its operands, operands */
    const char *cast;     /* expression: type, to type, operand */
    const char *constant; /* expression of an integer or bool: type, bits, value */
    const char *real;     /* expression of a float: type, bits, value */
    const char *symbol;   /* what a symbol's number stands behind; NULL: its own name */
} loop_dialect;

/* OpenCL C. A kernel takes its memories, then memory for the rows, each with as many elements as the row has for each
 * work-item, then the graph's symbols. Any number of work-items will do, in one dimension. Before the kernels stand
 * opencl_prelude, and the texts of elem.h and what it includes, without their lines "#include". */
extern const loop_dialect opencl;
extern const char opencl_prelude[];
/* For people. */
extern const loop_dialect pseudo;

void loop_print_dialect(const loop_dialect *d, const tpi_loop *l, const char *name,
                        tpi_str *out);

#endif
