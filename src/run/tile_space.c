/* The tiles of a loop program. Kept axes come first. A tile is
 *
 *     elementwise   [chunk, inner axes]             some steps of one axis and all axes inside it
 *     rows          [chunk of rows, folded axes]    folds by lanes
 *     columns       [folded axes, chunk, inner]     folds by blocks */
#include "run/tile_space.h"

#include "kernel/text/reduce.h"

#include <string.h>

enum {
    TILE = 2048,      /* elements of a tile, when nothing asks for more */
    LONG_ROW = 512,   /* rows from this length on are tiles of their own */
    FEW_COLUMNS = 64, /* of a tile at least, when they are not cut into parts */
    PARTS = 8192      /* elements of a part */
};

typedef struct builder {
    const tpi_loop *l;
    tpi_nest *n;
    int chunk_axis; /* -1: none */
} builder;

static void add_axes(const builder *b, tpi_tile_box *box, int from, int end)
{
    for (int a = from; a < end; a++) {
        if (a == b->chunk_axis)
            box->chunked = box->rank;
        box->n[box->rank++] = a == b->chunk_axis ? b->n->chunk : b->l->size[a];
    }
}

/* The outermost kept axis of which a step, with all axes inside it, fits a tile. */
static void choose_chunk(builder *b, int64_t per_step, int64_t tile, int innermost)
{
    tpi_nest *n = b->n;
    n->per_chunk = 1;
    b->chunk_axis = b->l->kept - 1;
    while (b->chunk_axis > innermost &&
           n->per_chunk * b->l->size[b->chunk_axis] * per_step < tile)
        n->per_chunk *= b->l->size[b->chunk_axis--];
    n->n_chunk = b->chunk_axis < 0 ? 1 : b->l->size[b->chunk_axis];
    const int64_t step = n->per_chunk * per_step;
    n->chunk = step >= tile ? 1 : tile / (step > 0 ? step : 1);
    n->chunk = n->chunk > n->n_chunk ? n->n_chunk : n->chunk;
}

/* Rows of columns are computed some at a time, when all can be added to what there is. */
static bool choose_parts(builder *b)
{
    tpi_nest *n = b->n;
    bool adds = n->per_full > 0 && b->l->rank > b->l->kept &&
                (n->per_full <= TPK_BLOCK || b->l->rank == b->l->kept + 1);
    for (int i = 0; i < b->l->n_stmts && adds; i++)
        adds = b->l->stmt[i].kind != TPI_LOOP_FOLD || b->l->stmt[i].type >= TP_F32;
    if (!adds)
        return false;
    n->n_part = b->l->size[b->l->kept];
    n->per_part = n->per_full / n->n_part;
    choose_chunk(b, n->per_part, n->per_part == 1 ? TPK_COLUMNS : PARTS, 0);
    const int64_t row = n->chunk * n->per_chunk * n->per_part;
    while (n->part * 2 * row <= PARTS && n->part < n->n_part && n->part < TPK_BLOCK)
        n->part *= 2;
    n->part = n->part < n->n_part ? n->part : n->n_part;
    n->folds = n->per_full > TPK_BLOCK;
    return true;
}

static void choose_columns(builder *b)
{
    tpi_nest *n = b->n;
    const int64_t few = n->per_full * FEW_COLUMNS;
    n->columns = true;
    if (!choose_parts(b))
        choose_chunk(b, n->per_full, few > PARTS ? few : PARTS, 0);
    add_axes(b, &n->box[1], b->l->kept, b->l->rank);
    if (n->n_part > n->part) {
        n->box[1].parted = 0;
        n->box[1].n[0] = n->part;
    }
}

void tpi_tile_space(const tpi_loop *l, tpi_nest *n)
{
    builder b = {.l = l, .n = n};
    n->per_full = 1;
    for (int a = 0; a < l->rank; a++) {
        n->empty |= a < l->kept && l->size[a] == 0;
        n->per_full *= a < l->kept ? 1 : l->size[a];
    }
    for (int i = 0; i < 2; i++)
        n->box[i].chunked = n->box[i].parted = -1;
    n->n_part = n->part = 1;
    n->per_part = n->per_full;
    if (n->empty)
        return;
    const int fold = tpi_loop_first_fold(l);
    const int64_t row = l->rank > 0 ? l->size[l->rank - 1] : 1;
    if (fold >= 0 && l->stmt[fold].order == TPI_ORDER_blocks)
        choose_columns(&b);
    else if (tpi_loop_has_phases(l))
        choose_chunk(&b, n->per_full, n->per_full >= LONG_ROW ? 1 : TILE, l->kept - 1);
    else
        choose_chunk(&b, 1, row >= LONG_ROW && row < TILE ? row : TILE, 0);
    const int first = b.chunk_axis < 0 ? 0 : b.chunk_axis;
    add_axes(&b, &n->box[0], first, l->kept);
    add_axes(&b, &n->box[1], first, n->columns ? l->kept : l->rank);
    n->n_outer = first;
    memcpy(n->outer, l->size, sizeof(int64_t) * (size_t)first);
}

void tpi_tile_strides(const tpi_loop *l, const tpi_nest *n, bool wide, const int64_t *stride,
                      int64_t *out)
{
    const int first = n->n_outer;
    int at = 0;
    for (int a = l->kept; a < l->rank && wide && n->columns; a++)
        out[at++] = stride[a];
    for (int a = first; a < l->kept; a++)
        out[at++] = stride[a];
    for (int a = l->kept; a < l->rank && wide && !n->columns; a++)
        out[at++] = stride[a];
}
