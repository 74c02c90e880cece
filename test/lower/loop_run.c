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

/* A permutation of the numbers below n. */
static void shuffle(uint64_t *seed, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(loop_random(seed) % (uint64_t)(i + 1)), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
}

static bool run_region(machine *m, int each)
{
    const int from = tpi_loop_inside(m->l, each), end = m->l->stmt[each].end;
    int64_t n = 1;
    for (int i = each + 1; i < from; i++)
        n *= m->l->stmt[i].size;
    int64_t *order = malloc(((size_t)n + 1) * sizeof *order);
    char **x = calloc((size_t)end, sizeof *x);
    bool ok = order && x;
    for (int i = from; i < end && ok; i++)
        if (m->l->stmt[i].kind == TPI_LOOP_FOLD)
            ok = (x[i] = malloc(8 * ((size_t)n + 1)));
    if (ok)
        shuffle(m->seed, n, order);
    for (int64_t k = 0; k < n && ok; k++) {
        int64_t rest = order[k];
        for (int i = from - 1; i > each; i--) {
            m->index[m->l->stmt[i].number] = rest % m->l->stmt[i].size;
            rest /= m->l->stmt[i].size;
        }
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

bool loop_run(const tpi_loop *l, tp_ctx *tp, char *const *memory, const int64_t *elements,
              uint64_t *seed, char why[LOOP_RUN_WHY])
{
    const size_t n = (size_t)l->n_mems + 1;
    machine m = {.l = l, .tp = tp, .seed = seed, .why = why};
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
