/* A loop program says how a kernel computes: one array of statements in program order, with regions.
 *
 *     kernel (v0 in f32, v1 out f32) {
 *       each i0 < n {
 *         row t2 f32[m]
 *         each i1 < m {
 *           x5 = v0[i0*(m) + i1]
 *           x6 = max lanes x5
 *         }
 *         each i1 < m {
 *           x9 = v0[i0*(m) + i1]
 *           x10 = sub x9, x6
 *           x11 = exp x10
 *           t2[i1] = x11
 *           x13 = sum lanes x11
 *         }
 *         each i1 < m {
 *           x16 = t2[i1]
 *           x17 = div x16, x13
 *           v1[i0*(m) + i1] = x17
 *         }
 *       }
 *     }
 *
 * A value is the number of its statement; `each` and its axes are statements, too. `each` is a region: its statements
 * are done at all points of its axes, in any order, since no point reads what another one writes. A *fold* (sum, prod,
 * max, min) makes one value of those that an operand has at the points of its region, in an order that docs/numerics.md
 * defines (lower/order.def); the value is there when the region has ended. A `row` is scratch memory of its region. An
 * address is an offset and a stride per axis, so there is no division, and nothing outside what is addressed is read:
 * regions have no tails.
 *
 * Lowering makes these forms, and back ends take no others: the outermost region has all kept axes, and each region in
 * it, which has none in it, all folded ones. It reads loads of its own, and what ops and folds made around it; when
 * folds go by blocks, there is one inner region, and it reads nothing of what is around it. What is stored was made by
 * an op or a fold.
 *
 * Sizes and strides are those of the plan (ir/dim.h): maybe symbolic, or numbers when they were bound. */
#ifndef TAPIR_LOOP_H
#define TAPIR_LOOP_H

#include "base/bump.h"
#include "op/op.h"

enum { TPI_LOOP_DEPTH = TP_MAX_RANK + 1 }; /* regions that may be open at a time */

typedef enum tpi_loop_kind {
    TPI_LOOP_EACH,  /* a region, up to `end`; then come its axes */
    TPI_LOOP_AXIS,  /* `number`: of the axis; `size`: its extent */
    TPI_LOOP_ROW,   /* memory `number`, for as long as the region runs */
    TPI_LOOP_CONST, /* an element: its bits, in the low bytes of `size` */
    TPI_LOOP_COUNT, /* `size` as an element */
    TPI_LOOP_LOAD,  /* the element at address `number` */
    TPI_LOOP_STORE, /* in[0], to address `number` */
    TPI_LOOP_OP,    /* op of in[0], in[1], in[2] */
    TPI_LOOP_FOLD,  /* of in[0] over the points of the region */
    TPI_LOOP_KINDS
} tpi_loop_kind;

/* In which order a fold takes its points: a row of order.def. */
typedef enum tpi_loop_order {
#define ORDER(name) TPI_ORDER_##name,
#include "lower/order.def"
#undef ORDER
    TPI_N_ORDERS
} tpi_loop_order;

typedef struct tpi_loop_stmt {
    uint8_t kind, type; /* tp_dtype of the value */
    uint8_t fold;       /* FOLD: TPI_REDUCE_..., */
    uint8_t order;      /* and in which order */
    int in[3];          /* statements; -1 */
    int end;            /* EACH: the first statement behind the region */
    int number;
    int64_t size;
    const tpi_op *op;      /* OP: elementwise */
    const tp_tensor *node; /* what it computes, for names and places; NULL; not compared */
} tpi_loop_stmt;

/* Memory: an operand or a result of the kernel, or a row. */
typedef struct tpi_loop_mem {
    uint8_t type;
    bool written, row;
    int node;     /* whose memory it is, by the plan's number; -1: a row's */
    int64_t size; /* of a row: elements */
} tpi_loop_mem;

/* An element of a memory: offset + the sum of axis * stride, in elements. */
typedef struct tpi_loop_at {
    int mem;
    int64_t offset, stride[TP_MAX_RANK];
} tpi_loop_at;

typedef struct tpi_loop {
    tpi_bump *memory; /* of its lists; when that failed, there is no program */
    tpi_dims *dims;
    tpi_loop_stmt *stmt;
    tpi_loop_mem *mem;
    tpi_loop_at *at;
    int n_stmts, n_mems, n_ats, stmts_size, mems_size, ats_size;
    int rank,
        kept; /* axes: the first `kept` ones are of all results, the others of what is folded */
    int64_t size[TP_MAX_RANK]; /* by axis */
    int64_t count;             /* points of a fold */
} tpi_loop;

/* Each adds to the end, and returns the number; 0 when out of memory. */
int tpi_loop_add(tpi_loop *l, tpi_loop_stmt s);
int tpi_loop_add_mem(tpi_loop *l, tpi_loop_mem m);
int tpi_loop_add_at(tpi_loop *l, const tpi_loop_at *at);
/* Ends the innermost open region, which is `each`. */
void tpi_loop_end(tpi_loop *l, int each);

/* By TPI_REDUCE_...: sum, prod, max, min. */
extern const char *const tpi_fold_name[TPI_N_REDUCES];

static inline bool tpi_loop_is_value(const tpi_loop_stmt *s)
{
    return s->kind >= TPI_LOOP_CONST && s->kind != TPI_LOOP_STORE;
}

/* Is there a region in the outermost one? */
bool tpi_loop_has_phases(const tpi_loop *l);
/* The first fold; -1: there is none. All folds of a program have one order. */
int tpi_loop_first_fold(const tpi_loop *l);

/* The first statement of a region behind its axes. */
static inline int tpi_loop_inside(const tpi_loop *l, int each)
{
    int i = each + 1;
    while (i < l->stmt[each].end && l->stmt[i].kind == TPI_LOOP_AXIS)
        i++;
    return i;
}

#endif
