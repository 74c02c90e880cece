/* Which memory the variables of a text are, and which constants are kept beside it. */
#include "ir/body.h"
#include "ir/notation.h"

#include <stdlib.h>
#include <string.h>

const tp_tensor *tpi_source_of(const tp_tensor *node)
{
    if (!node->op)
        return node;
    return node->op == &tpi_op_variable || node->op == &tpi_op_const ? node->in[0] : NULL;
}

/* ---- variables ------------------------------------------------------------------------------- */

typedef struct reading { /* a node that reads a variable */
    const tp_tensor *t;
    int32_t node;
    int32_t memory;                       /* the first reading of the same memory */
    const char *low, *high;               /* elements reached: low <= p < high */
    const char *memory_low, *memory_high; /* by all of that memory; kept in its first reading */
    int32_t cell;                         /* likewise; -1: none yet */
} reading;

/* Grouped by memory, in program order within. */
static int by_memory(const void *a, const void *b)
{
    const reading *x = a, *y = b;
    if (x->t->buf != y->t->buf)
        return (uintptr_t)x->t->buf < (uintptr_t)y->t->buf ? -1 : 1;
    return x->node - y->node;
}

static void find_reach(reading *r)
{
    const tp_tensor *t = r->t;
    const int64_t size = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    r->low = r->high = t->data;
    if (tpi_count(t) == 0)
        return;
    for (int i = 0; i < t->rank; i++) {
        const int64_t span = (t->shape[i] - 1) * t->stride[i] * size;
        *(span < 0 ? &r->low : &r->high) += span;
    }
    r->high += size;
}

static bool is_whole(const reading *r, const reading *memory)
{
    if (!(r->t->flags & TPI_STATE) || !(r->t->flags & TPI_CONTIGUOUS))
        return false;
    if (!memory->memory_low) /* no reading has elements */
        return true;
    return r->low == memory->memory_low && r->high == memory->memory_high;
}

static tpi_cell *add_cell(tpi_values *v)
{
    if (v->n_cells == v->cells_size) {
        const int32_t size = v->cells_size ? v->cells_size * 2 : 16;
        tpi_cell *cells =
            tpi_resize(&v->ctx->mem, v->cells, (size_t)v->cells_size * sizeof *cells,
                       (size_t)size * sizeof *cells);
        if (!cells)
            return NULL;
        v->cells = cells;
        v->cells_size = size;
    }
    return &v->cells[v->n_cells++];
}

static void fill_cell(tpi_cell *c, const tp_tensor *t, int32_t of)
{
    *c = (tpi_cell){.t = t, .of = of, .dtype = (tp_dtype)t->dtype, .rank = t->rank};
    memcpy(c->shape, t->shape, sizeof(int64_t) * t->rank);
}

/* The memory of r[first] and those after it that share it: the variable itself when it is among
 * them, else a plain row of elements of which they all are views. */
static bool add_memory(tpi_values *v, reading *r, int32_t first, int32_t n)
{
    reading *memory = &r[first];
    const reading *whole = NULL;
    for (int32_t i = first; i < n && r[i].t->buf == memory->t->buf && !whole; i++)
        whole = is_whole(&r[i], memory) ? &r[i] : NULL;
    memory->cell = v->n_cells;
    tpi_cell *c = add_cell(v);
    if (!c)
        return false;
    fill_cell(c, whole ? whole->t : memory->t, -1);
    c->first = memory->memory_low;
    if (!whole) {
        c->t = NULL;
        c->rank = 1;
        c->shape[0] =
            (memory->memory_high - memory->memory_low) / (int64_t)tp_dtype_size(c->dtype);
    }
    return true;
}

static void find_memories(reading *r, int32_t n)
{
    qsort(r, (size_t)n, sizeof *r, by_memory);
    for (int32_t i = 0, first = 0; i < n; i++) {
        find_reach(&r[i]);
        if (i == 0 || r[i].t->buf != r[first].t->buf) {
            first = i;
            r[i].cell = -1;
        }
        r[i].memory = first;
        if (r[i].low == r[i].high)
            continue;
        reading *memory = &r[first];
        if (!memory->memory_low || r[i].low < memory->memory_low)
            memory->memory_low = r[i].low;
        if (!memory->memory_high || r[i].high > memory->memory_high)
            memory->memory_high = r[i].high;
    }
}

/* Cells are numbered as the program meets them. v->number is -1 everywhere. */
static bool number_cells(tpi_values *v, reading *r, int32_t n)
{
    const size_t bytes = (size_t)n * sizeof(int32_t);
    int32_t *order = tpi_take(&v->ctx->mem, bytes);
    if (!order)
        return false;
    find_memories(r, n);
    for (int32_t i = 0; i < n; i++)
        v->number[r[i].node] = i;
    for (int32_t i = 0, k = 0; i < v->all.n; i++)
        if (v->number[i] >= 0)
            order[k++] = v->number[i];
    bool ok = true;
    for (int32_t k = 0; k < n && ok; k++) {
        const reading *at = &r[order[k]];
        reading *memory = &r[at->memory];
        if (memory->cell < 0)
            ok = add_memory(v, r, at->memory, n);
        if (!ok || v->cells[memory->cell].t == at->t) {
            v->number[at->node] = memory->cell;
            continue;
        }
        v->number[at->node] = v->n_cells;
        tpi_cell *c = add_cell(v);
        ok = c != NULL;
        if (!ok)
            continue;
        fill_cell(c, at->t, memory->cell);
        if (tpi_count(at->t))
            c->offset = (at->t->data - memory->memory_low) / (int64_t)tp_dtype_size(c->dtype);
    }
    tpi_give_back(&v->ctx->mem, order, bytes);
    return ok;
}

/* ---- all values --------------------------------------------------------------------------------- */

static void take_nodes(tpi_nodes *all, int n, tp_tensor *const *nodes)
{
    for (int i = 0; i < n && !all->failed; i++) {
        tpi_nodes_push(all, nodes[i]);
        tpi_body *bodies[2];
        const int n_bodies = nodes[i]->op && nodes[i]->op->kind == TPI_BLOCK
                                 ? tpi_bodies_of(nodes[i], bodies)
                                 : 0;
        for (int k = 0; k < n_bodies; k++)
            take_nodes(all, bodies[k]->graph->n_nodes, bodies[k]->graph->nodes);
    }
}

bool tpi_values_collect(tpi_values *v, tp_ctx *ctx, int n_nodes, tp_tensor *const *nodes)
{
    *v = (tpi_values){.ctx = ctx, .all = {.ctx = ctx}, .data = {.ctx = ctx}};
    take_nodes(&v->all, n_nodes, nodes);
    const int n = v->all.n;
    int32_t n_variables = 0;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = tpi_source_of(v->all.v[i]);
        n_variables += t && (t->flags & TPI_VARIABLE);
    }
    const size_t bytes = (size_t)n_variables * sizeof(reading);
    reading *r = tpi_take(&ctx->mem, bytes);
    v->number = tpi_take(&ctx->mem, (size_t)n * sizeof *v->number);
    bool ok = r && v->number && !v->all.failed;
    for (int i = 0, k = 0; i < n && ok; i++) {
        const tp_tensor *t = tpi_source_of(v->all.v[i]);
        v->number[i] = -1;
        if (t && (t->flags & TPI_VARIABLE))
            r[k++] = (reading){.t = t, .node = i};
    }
    ok = ok && number_cells(v, r, n_variables);
    for (int i = 0; i < n && ok; i++) {
        const tp_tensor *t = tpi_source_of(v->all.v[i]);
        if (t && !(t->flags & TPI_VARIABLE) && tpi_count(t) > TPI_INLINE_MAX) {
            v->number[i] = v->data.n;
            tpi_nodes_push(&v->data, (tp_tensor *)t);
            ok = !v->data.failed;
        }
    }
    tpi_give_back(&ctx->mem, r, bytes);
    if (!ok)
        tpi_values_free(v);
    return ok;
}

void tpi_values_free(tpi_values *v)
{
    tpi_give_back(&v->ctx->mem, v->number, (size_t)v->all.n * sizeof *v->number);
    tpi_give_back(&v->ctx->mem, v->cells, (size_t)v->cells_size * sizeof *v->cells);
    tpi_nodes_free(&v->all);
    tpi_nodes_free(&v->data);
    *v = (tpi_values){.ctx = v->ctx, .all = {.ctx = v->ctx}, .data = {.ctx = v->ctx}};
}
