/* Runs the instructions of a loop nest, tile by tile. */
#include "core/copy.h"
#include "graph/tiles.h"

#include <string.h>

/* ---- moves ------------------------------------------------------------------------------------------- */

#define FILL(type)                                                                             \
    {                                                                                          \
        type x;                                                                                \
        memcpy(&x, from, sizeof x);                                                            \
        for (int64_t i = 0; i < n; i++)                                                        \
            memcpy(to + i * (int64_t)sizeof x, &x, sizeof x);                                  \
        break;                                                                                 \
    }

static void fill(size_t size, int64_t n, char *to, const char *from)
{
    switch (size) {
    case 1:
        memset(to, *from, (size_t)n);
        break;
    case 2:
        FILL(uint16_t)
    case 4:
        FILL(uint32_t)
    default:
        FILL(uint64_t)
    }
}

/* The box at `from` to memory without gaps. Where the last axis is broadcast its elements are
 * filled. */
static void gather(size_t size, const tpi_tile_box *b, const int64_t *stride, char *to,
                   const char *from)
{
    int64_t flat[TP_MAX_RANK], at[TP_MAX_RANK] = {0}, step = 1, rows = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        flat[i] = step;
        step *= b->n[i];
    }
    const int last = b->rank - 1;
    if (last < 0 || stride[last] != 0) {
        tpi_copy_strided(size, b->rank, b->n, to, flat, from, stride);
        return;
    }
    for (int i = 0; i < last; i++)
        rows *= b->n[i];
    for (int64_t r = 0; r < rows; r++, to += (size_t)b->n[last] * size) {
        fill(size, b->n[last], to, from);
        for (int i = last - 1; i >= 0; i--) {
            from += stride[i] * (int64_t)size;
            if (++at[i] < b->n[i])
                break;
            at[i] = 0;
            from -= stride[i] * b->n[i] * (int64_t)size;
        }
    }
}

static void scatter(size_t size, const tpi_tile_box *b, const int64_t *stride, char *to,
                    const char *from)
{
    int64_t flat[TP_MAX_RANK], step = 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        flat[i] = step;
        step *= b->n[i];
    }
    tpi_copy_strided(size, b->rank, b->n, to, stride, from, flat);
}

/* ---- instructions ------------------------------------------------------------------------------------- */

static void each(const tpi_tile_op *op, int64_t n, char *y, const char *a, const char *b,
                 const char *c)
{
    for (int64_t i = 0; i < n; i++) {
        op->scalar(y, a, b, c);
        y += op->pitch[0], a += op->pitch[1], b += op->pitch[2], c += op->pitch[3];
    }
}

static void run_op(tpi_nest *n, const tpi_tile_op *op, int64_t rows, int64_t full)
{
    const tpi_tile_slot *s = n->slots;
    char *y = s[op->y].at;
    const char *a = s[op->a].at;
    const int64_t count = op->wide ? full : rows;
    switch (op->kind) {
    case TPI_TILE_ROW:
        op->row(count, y, a, s[op->b].at, s[op->c].at);
        break;
    case TPI_TILE_EACH:
        each(op, count, y, a, s[op->b].at, s[op->c].at);
        break;
    case TPI_TILE_FILL:
        fill(op->size, count, y, a);
        break;
    case TPI_TILE_SPREAD:
        for (int64_t i = 0; i < rows; i++, a += op->size, y += (int64_t)op->size * n->per_full)
            fill(op->size, n->per_full, y, a);
        break;
    case TPI_TILE_GATHER:
        gather(op->size, &n->box[op->wide], n->boxes[op->box], y, a);
        break;
    case TPI_TILE_SCATTER:
        scatter(op->size, &n->box[op->wide], n->boxes[op->box], y, a);
        break;
    case TPI_TILE_REDUCE:
        if (n->columns)
            op->reduce(n->per_full, rows, a, op->stride == TPI_TILE_COMPACT ? rows : op->stride,
                       y);
        else
            op->reduce(rows, n->per_full, a,
                       op->stride == TPI_TILE_COMPACT ? n->per_full : op->stride, y);
        break;
    }
}

static void run_tile(tpi_nest *n, int64_t chunk, int first, int end)
{
    const int64_t rows = chunk * n->per_chunk, full = rows * n->per_full;
    for (int i = 0; i < 2; i++)
        if (n->box[i].chunked >= 0)
            n->box[i].n[n->box[i].chunked] = chunk;
    for (int i = first; i < end; i++)
        run_op(n, &n->ops[i], rows, full);
}

/* All tiles at one step of the outer axes. */
static void run_line(tpi_nest *n)
{
    for (int64_t i = 0; i < n->n_chunk; i += n->chunk) {
        for (int k = 0; k < n->n_moving; k++) {
            tpi_tile_slot *s = &n->slots[n->moving[k]];
            s->at = s->line + i * s->chunk;
        }
        run_tile(n, n->n_chunk - i < n->chunk ? n->n_chunk - i : n->chunk, n->n_once, n->n_ops);
    }
}

static bool step_outer(tpi_nest *n, int64_t *at)
{
    for (int a = n->n_outer - 1; a >= 0; a--) {
        const bool more = ++at[a] < n->outer[a];
        const int64_t steps = more ? 1 : 1 - n->outer[a];
        for (int k = 0; k < n->n_moving; k++)
            n->slots[n->moving[k]].line += steps * n->slots[n->moving[k]].step[a];
        if (more)
            return true;
        at[a] = 0;
    }
    return false;
}

void tpi_nest_run(tpi_nest *n, void *const *buffers, char *scratch)
{
    int64_t at[TP_MAX_RANK] = {0};
    if (n->empty)
        return;
    for (int i = 0; i < n->n_slots; i++) {
        tpi_tile_slot *s = &n->slots[i];
        char *base = s->buffer >= 0 ? buffers[s->buffer] : scratch;
        s->line = s->at =
            s->buffer == TPI_TILE_FIXED ? (char *)(intptr_t)s->fixed : base + s->offset;
    }
    run_tile(n, n->chunk, 0, n->n_once);
    do
        run_line(n);
    while (step_outer(n, at));
}
