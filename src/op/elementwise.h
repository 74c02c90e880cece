/* Elementwise ops: what unary.c, binary.c and where.c share. */
#ifndef TAPIR_ELEM_OP_H
#define TAPIR_ELEM_OP_H

#include "op/op.h"

/* One element: *y = f(*a, *b, *c), unused operands NULL. NULL when the function is not for that
 * type. `type` is that of the data operands. */
typedef void (*tpi_scalar_fn)(void *y, const void *a, const void *b, const void *c);
tpi_scalar_fn tpi_elem_scalar(tpi_elem e, tp_dtype type);
tpi_scalar_fn tpi_cast_scalar(tp_dtype from, tp_dtype to);

/* The rows of this machine for an op on elements of that type; [0] is NULL when there are none. */
static inline const tpi_row_fn *tpi_rows_of(const tp_ctx *ctx, tpi_elem e, int type)
{
    static const tpi_row_fn none[TPI_N_ROWS];
    const tpi_kernels *k = ctx->kernels;
    const int t = tpi_row_type(type);
    if (t == TPI_N_ROW_TYPES)
        return none;
    while (!k->row[e][t][0] && k->narrower)
        k = k->narrower;
    return k->row[e][t];
}

static inline tpi_row_fn tpi_cast_row(const tp_ctx *ctx, int from, int to)
{
    const tpi_kernels *k = ctx->kernels;
    while (!k->cast[from][to] && k->narrower)
        k = k->narrower;
    return k->cast[from][to];
}

/* How the elements of an elementwise op are computed: by rows of this machine, row[0] NULL when
 * there are none; else one by one. `from`: the type of its last operand, `to`: of its result. */
typedef struct tpi_element {
    tpi_row_fn row[TPI_N_ROWS];
    tpi_scalar_fn scalar;
} tpi_element;
tpi_element tpi_element_of(const tp_ctx *ctx, const tpi_op *op, tp_dtype from, tp_dtype to);

/* Element by element, by plain loops: the oracle. */
bool tpi_elem_reference(tpi_run *r, tpi_scalar_fn f);
/* Row by row; `row` has the variants of tpi_kernels.row, of which the scalar ones may be NULL. */
bool tpi_elem_rows(tpi_run *r, const tpi_row_fn row[TPI_N_ROWS]);

/* The effort of each function, as elem.def has it. */
enum {
#define ELEM(class, n_in, name, effort) TPI_EFFORT_##name = effort,
#include "kernel/text/elem.def"
#undef ELEM
};

/* Rules of ops whose function is in elem.def: what elements they take, and the kernels. */
bool tpi_elem_infer(tpi_infer *q);
bool tpi_elem_kernel(tpi_run *r);
bool tpi_elem_fast(tpi_run *r);

/* The struct of such an op. The gradient is `rule`; x and y: does it read their values? Behind them come its `simplify`
 * and further members. */
#define TPI_ELEMENT_OP(op, operands, rule, x, y, ...)                                          \
    const tpi_op tpi_op_##op = {.name = #op,                                                   \
                                .code = TPI_OP_##op,                                           \
                                .kind = TPI_ELEMENT,                                           \
                                .effort = (tpi_effort)TPI_EFFORT_##op,                         \
                                .elem = TPI_ELEM_##op,                                         \
                                .n_in = operands,                                              \
                                .infer = tpi_elem_infer,                                       \
                                .kernel = tpi_elem_kernel,                                     \
                                .fast = tpi_elem_fast,                                         \
                                .grad = rule,                                                  \
                                .grad_reads_x = x,                                             \
                                .grad_reads_y = y,                                             \
                                .simplify = __VA_ARGS__};

#endif
