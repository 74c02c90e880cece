/* A loop nest on its way to text: its axes, joined where they run on in every operand, and the box of them
 * that is computed. */
#ifndef TAPIR_RENDER_LOOPS_H
#define TAPIR_RENDER_LOOPS_H

#include "render/render.h"

/* One operand from memory, over the axes of the space. */
typedef struct tpi_reading {
    int node, operand; /* who reads what */
    tpi_layout layout; /* strides over the joined axes */
} tpi_reading;

typedef struct tpi_loops {
    tpi_render *r;
    const tpi_plan *plan;
    const tpi_kernel *k;
    int rank; /* joined axes */
    int64_t size[TP_MAX_RANK];
    bool reduced[TP_MAX_RANK];
    tpi_reading reads[TPI_MAX_NEST_OPERANDS];
    int n_reads;
    int n_stages;
    int depth; /* of indentation */
    /* A nest that threads share, or that is part of a band, computes a box: */
    int n_outer; /* axes of outer places o0..o1: the first ones, or the one at `outer` */
    int outer;   /* -1: they are one place number, o */
    int row; /* axis of rows r0..r1, of as many elements each as the axes joined to it; -1 */
    int64_t rows, per_row;
    bool any_size; /* one loop: nests that differ in its size only are one function */
    /* by position in k->nodes: */
    int64_t out_stride[TPI_MAX_NEST_NODES][TP_MAX_RANK]; /* of what has memory */
    int home[TPI_MAX_NEST_OPERANDS]; /* stage that computes a full value first; -1: none yet */
    int scratch_row
        [TPI_MAX_NEST_OPERANDS]; /* number of the row that keeps it for later stages, or -1 */
    int n_scratch;
} tpi_loops;

/* Axes, operands and box of kernel `number` of r->plan. */
void tpi_loops_begin(tpi_loops *n, tpi_render *r, int number);

/* The text of a size. */
void tpi_loops_put_size(tpi_loops *n, int64_t size);
/* Which box is computed: all of it, by whatever threads there are, or the part that a thread is
 * given. `columns` are added up so many at a time. */
enum { TPI_LOOPS_COLUMNS = 1024 };
void tpi_loops_put_box(tpi_loops *n, bool columns);

/* A band is one of a program that calls the library. */
static inline bool tpi_loops_in_band(const tpi_loops *n)
{
    return !n->r->alone && tpi_is_band(&n->plan->steps[n->k->step]);
}

/* And so is a microbatch: its nests can be handed some of the first places. */
static inline bool tpi_loops_by_place(const tpi_loops *n)
{
    return !n->r->alone && n->k->by_place;
}

static inline bool tpi_loops_has_box(const tpi_loops *n)
{
    return n->outer >= 0 || n->n_outer > 0 || n->row >= 0;
}

static inline const tpi_value *tpi_loops_value_at(const tpi_loops *n, int i)
{
    return &n->plan->values[n->k->nodes[i]];
}

/* Has the value memory? Others than this nest read it. */
static inline bool tpi_loops_is_kept(const tpi_loops *n, int i)
{
    return tpi_loops_value_at(n, i)->storage != TPI_IN_INNER;
}

/* The value operand o of v is made of, when it is computed in this nest; else NULL. */
static inline const tpi_value *tpi_loops_inner_operand(const tpi_loops *n, const tpi_value *v,
                                                       int o)
{
    const tpi_value *x = &n->plan->values[v->node->in[o]->index];
    const tpi_value *root = &n->plan->values[x->layout.root];
    return root->kernel == v->kernel && root->kernel >= 0 ? root : NULL;
}

static inline bool tpi_loops_is_literal(const tpi_loops *n, const tpi_value *v, int o)
{
    const tpi_value *x = &n->plan->values[v->node->in[o]->index];
    return n->plan->values[x->layout.root].storage == TPI_IN_LITERAL;
}

/* e^(x - max x), whose argument is at most 0 or NaN. */
static inline bool tpi_loops_is_exp_down(const tp_tensor *t)
{
    const tp_tensor *x = t->op == &tpi_op_exp && t->dtype == TP_F32 ? t->in[0] : NULL;
    const tp_tensor *most = x && x->op == &tpi_op_sub ? x->in[1] : NULL;
    return most && most->op == &tpi_op_reduce_max && most->in[0] == x->in[0] &&
           most->rank == x->in[0]->rank;
}

#endif
