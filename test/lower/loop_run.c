#include "loop_run.h"

#include "op/elementwise.h"
#include "op/reduction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef union element {
    uint64_t bits;
    char bytes[8];
} element;

typedef struct machine {
    const tpi_loop *l;
    tp_ctx *tp;
    loop_box box;
    char **memory;
    int64_t *elements;
    uint64_t *seed;
    element *value; /* by statement */
    int64_t index[TP_MAX_RANK];
    char *why;
} machine;

uint64_t loop_random(uint64_t *seed)
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static char *element_at(const machine *m, const tpi_loop_stmt *s)
{
    const tpi_loop_at *at = &m->l->at[s->number];
    int64_t i = at->offset;
    for (int a = 0; a < m->l->rank; a++)
        i += at->stride[a] * m->index[a];
    if (i >= 0 && i < m->elements[at->mem])
        return m->memory[at->mem] + (size_t)i * tp_dtype_size((tp_dtype)s->type);
    snprintf(m->why, LOOP_RUN_WHY, "statement %d: element %" PRId64 " of %" PRId64,
             (int)(s - m->l->stmt), i, m->elements[at->mem]);
    return NULL;
}

static bool run_op(const machine *m, int i)
{
    const tpi_loop_stmt *s = &m->l->stmt[i];
    const element *in[3] = {NULL, NULL, NULL};
    int n = 0;
    for (; n < 3 && s->in[n] >= 0; n++)
        in[n] = &m->value[s->in[n]];
    const tp_dtype from = (tp_dtype)m->l->stmt[s->in[s->op->call_dtype]].type;
    const tpi_element f = tpi_element_of(m->tp, s->op, from, (tp_dtype)s->type);
    if (!f.scalar)
        snprintf(m->why, LOOP_RUN_WHY, "statement %d: there is no %s of %s", i, s->op->name,
                 tp_dtype_name(from));
    else
        f.scalar(&m->value[i], in[0], in[1], in[2]);
    return f.scalar;
}

static bool run_region(machine *m, int each);

static bool run_row(machine *m, int mem)
{
    const tpi_loop_mem *r = &m->l->mem[mem];
    const size_t bytes = (size_t)r->size * tp_dtype_size((tp_dtype)r->type);
    free(m->memory[mem]);
    m->memory[mem] = malloc(bytes + 1);
    m->elements[mem] = r->size;
    if (m->memory[mem])
        memset(m->memory[mem], 0xff, bytes);
    return m->memory[mem];
}

/* The statements of a region at one point; a fold's operand is the value of its statement. */
static bool run_point(machine *m, int from, int end)
{
    for (int i = from; i < end; i++) {
        const tpi_loop_stmt *s = &m->l->stmt[i];
        const size_t size = tp_dtype_size((tp_dtype)s->type);
        char *at =
            s->kind == TPI_LOOP_LOAD || s->kind == TPI_LOOP_STORE ? element_at(m, s) : m->why;
        bool ok = at;
        m->value[i].bits = s->kind == TPI_LOOP_FOLD ? m->value[i].bits : 0;
        if (s->kind == TPI_LOOP_EACH)
            ok = run_region(m, i);
        else if (s->kind == TPI_LOOP_ROW)
            ok = run_row(m, s->number);
        else if (s->kind == TPI_LOOP_CONST)
            memcpy(&m->value[i], &s->size, size);
        else if (s->kind == TPI_LOOP_COUNT)
            tpi_cast_scalar(TP_I64, (tp_dtype)s->type)(&m->value[i], &s->size, NULL, NULL);
        else if (s->kind == TPI_LOOP_LOAD && ok)
            memcpy(&m->value[i], at, size);
        else if (s->kind == TPI_LOOP_STORE && ok)
            memcpy(at, &m->value[s->in[0]], size);
        else if (s->kind == TPI_LOOP_OP)
            ok = run_op(m, i);
        if (!ok)
            return false;
        i = s->kind == TPI_LOOP_EACH ? s->end - 1 : i;
    }
    return true;
}

/* One value of `n`, which follow each other in row-major order of their points: the oracle of reductions. */
static void fold(const tpi_loop_stmt *s, int64_t n, const char *x, element *y)
{
    const tpi_reduction d = {.code = s->fold,
                             .dtype = (tp_dtype)s->type,
                             .by_lanes = s->order == TPI_ORDER_lanes,
                             .count = n,
                             .n_out = 1,
                             .reduced_rank = 1,
                             .reduced_n = {n},
                             .reduced_s = {1}};
    y->bits = 0;
    tpi_reduce_reference(&d, x, y->bytes);
}

void loop_shuffle(uint64_t *seed, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(loop_random(seed) % (uint64_t)(i + 1)), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
}

/* Point number k, in row-major order, of the region, up to its first statement. */
static void go_to(machine *m, int each, int inside, int64_t k)
{
    for (int i = inside - 1; i > each; i--) {
        const int a = m->l->stmt[i].number;
        const int64_t n = m->box.end[a] - m->box.from[a];
        m->index[a] = m->box.from[a] + k % n;
        k /= n;
    }
}

static bool run_region(machine *m, int each)
{
    const int from = tpi_loop_inside(m->l, each), end = m->l->stmt[each].end;
    int64_t n = 1;
    for (int i = each + 1; i < from; i++)
        n *= m->box.end[m->l->stmt[i].number] - m->box.from[m->l->stmt[i].number];
    int64_t *order = malloc(((size_t)n + 1) * sizeof *order);
    char **x = calloc((size_t)end, sizeof *x);
    bool ok = order && x;
    for (int i = from; i < end && ok; i++)
        if (m->l->stmt[i].kind == TPI_LOOP_FOLD)
            ok = (x[i] = malloc(8 * ((size_t)n + 1)));
    if (ok)
        loop_shuffle(m->seed, n, order);
    for (int64_t k = 0; k < n && ok; k++) {
        go_to(m, each, from, order[k]);
        ok = run_point(m, from, end);
        for (int i = from; i < end && ok; i++) {
            const size_t size = tp_dtype_size((tp_dtype)m->l->stmt[i].type);
            if (x[i])
                memcpy(x[i] + (size_t)order[k] * size, &m->value[m->l->stmt[i].in[0]], size);
        }
    }
    for (int i = from; i < end && x; i++) {
        if (ok && x[i])
            fold(&m->l->stmt[i], n, x[i], &m->value[i]);
        free(x[i]);
    }
    free(order);
    free(x);
    return ok;
}

static loop_box whole(const tpi_loop *l)
{
    loop_box box = {{0}, {0}};
    memcpy(box.end, l->size, sizeof box.end);
    return box;
}

bool loop_run(const tpi_loop *l, tp_ctx *tp, const loop_box *box, char *const *memory,
              const int64_t *elements, uint64_t *seed, char why[LOOP_RUN_WHY])
{
    const size_t n = (size_t)l->n_mems + 1;
    machine m = {.l = l, .tp = tp, .box = box ? *box : whole(l), .seed = seed, .why = why};
    snprintf(why, LOOP_RUN_WHY, "no memory");
    m.memory = calloc(n, sizeof *m.memory);
    m.elements = calloc(n, sizeof *m.elements);
    m.value = calloc((size_t)l->n_stmts + 1, sizeof *m.value);
    bool ok = m.memory && m.elements && m.value;
    for (int i = 0; i < l->n_mems && ok; i++)
        if (!l->mem[i].row) {
            m.memory[i] = memory[i];
            m.elements[i] = elements[i];
        }
    ok = ok && run_region(&m, 0);
    for (int i = 0; i < l->n_mems && m.memory; i++)
        if (l->mem[i].row)
            free(m.memory[i]);
    free(m.memory);
    free(m.elements);
    free(m.value);
    return ok;
}

/* ---- boxes --------------------------------------------------------------------------------------------------- */

/* All of the rows in a random number of pieces: where each begins, and where the last ends. Returns how many. */
static int64_t cut(uint64_t *seed, int64_t rows, int64_t *at)
{
    int64_t n = 0;
    at[0] = 0;
    while (at[n] < rows) {
        const int64_t most = rows - at[n] < 40 ? rows - at[n] : 40;
        at[n + 1] = at[n] + 1 + (int64_t)(loop_random(seed) % (uint64_t)most);
        n++;
    }
    return n;
}

bool loop_run_boxes(const tpi_loop *l, tp_ctx *tp, const tpi_nest_box *cuts,
                    char *const *memory, const int64_t *elements, uint64_t *seed,
                    char why[LOOP_RUN_WHY])
{
    const int64_t rows = cuts->row < 0 ? 1 : l->size[cuts->row] / cuts->per_row;
    int64_t n_outer = 1;
    for (int a = 0; a < cuts->n_outer; a++)
        n_outer *= l->size[a];
    int64_t *at = malloc(((size_t)rows + 1) * sizeof *at);
    const int64_t n_pieces = at ? cut(seed, rows, at) : 0;
    int64_t *order = malloc(((size_t)(n_outer * n_pieces) + 1) * sizeof *order);
    bool ok = at && order;
    if (ok)
        loop_shuffle(seed, n_outer * n_pieces, order);
    for (int64_t i = 0; i < n_outer * n_pieces && ok; i++) {
        loop_box box = whole(l);
        int64_t outer = order[i] / n_pieces;
        const int64_t piece = order[i] % n_pieces;
        for (int a = cuts->n_outer - 1; a >= 0; a--) {
            box.from[a] = outer % l->size[a];
            box.end[a] = box.from[a] + 1;
            outer /= l->size[a];
        }
        if (cuts->row >= 0) {
            box.from[cuts->row] = at[piece] * cuts->per_row;
            box.end[cuts->row] = at[piece + 1] * cuts->per_row;
        }
        ok = loop_run(l, tp, &box, memory, elements, seed, why);
    }
    free(at);
    free(order);
    return ok;
}
