/* The iteration space of a loop nest, and its tiles.
 *
 * Its axes are put in the order kept, reduced, and joined where they run on in every operand. Then a
 * tile is
 *
 *     elementwise   [chunk, inner axes]             some steps of one axis and all axes inside it
 *     rows          [chunk of rows, reduced axes]   the last axis is reduced
 *     columns       [reduced axes, chunk, inner]    it is kept */
#include "run/tile_space.h"

#include <string.h>

enum {
    TILE = 2048,      /* elements of a tile, when nothing asks for more */
    LONG_ROW = 512,   /* rows from this length on are tiles of their own */
    COLUMNS = 1024,   /* of a tile at most, */
    FEW_COLUMNS = 64, /* and at least, when they are not cut into parts */
    PARTS = 8192,     /* elements of a part */
    BLOCK = 4096      /* rows that are added up before they are folded */
};

typedef tpi_tile_builder builder;
typedef tpi_tile_reading reading;

static int64_t stride_now(const builder *b, int64_t stride)
{
    return tpi_dim_eval_stride(b->plan->graph->dims, stride, b->p->symbols);
}

int tpi_tile_inner(const builder *b, const tpi_value *v, int o)
{
    const tpi_value *x = &b->plan->values[v->node->in[o]->index];
    const int root = x->layout.root;
    if (b->plan->values[root].kernel != v->kernel)
        return -1;
    int low = 0, high = b->k->n_nodes - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (b->k->nodes[middle] < root)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- axes -------------------------------------------------------------------------------------------- */

static void read_operand(builder *b, const tpi_value *v, int o)
{
    reading *r = &b->reads[b->n_reads++];
    tpi_layout l;
    int64_t over[TP_MAX_RANK];
    *r = (reading){.root = tpi_tile_memory(b, v, o),
                   .wide = !v->row || v->node->op->kind == TPI_REDUCE};
    if (tpi_tile_inner(b, v, o) >= 0 || r->root->storage == TPI_IN_LITERAL) {
        r->root = NULL;
        return;
    }
    tpi_operand_layout(b->plan, v->node, o, &l);
    if (v->node->op->kind == TPI_REDUCE)
        memcpy(over, l.stride, sizeof over);
    else
        tpi_domain_strides(b->k, v, l.stride, over);
    for (int a = 0; a < b->rank; a++)
        r->stride[a] = b->size[a] == 1 ? 0 : stride_now(b, over[b->order[a]]);
    r->offset = stride_now(b, l.offset);
    b->aliased |= r->root->over >= 0;
}

/* The iteration space at the sizes of this run, and what is read in it. */
static void find_space(builder *b)
{
    const tpi_kernel *k = b->k;
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < k->rank; a++)
            if ((int)((k->reduced >> a) & 1) == pass) {
                b->kept += !pass;
                b->size[b->rank] = tpi_program_size(b->p, k->shape[a]);
                b->order[b->rank++] = a;
            }
    for (int i = 0; i < k->n_nodes; i++) {
        const tpi_value *v = tpi_tile_value(b, i);
        int64_t out[TP_MAX_RANK];
        for (int o = 0; o < v->node->n_in; o++)
            read_operand(b, v, o);
        if (!tpi_tile_kept(b, i))
            continue;
        tpi_domain_strides(k, v, v->layout.stride, out);
        for (int a = 0; a < b->rank; a++)
            b->out_stride[i][a] = stride_now(b, out[b->order[a]]);
    }
}

static void drop_axis(builder *b, int a)
{
    b->rank--;
    b->kept -= a < b->kept;
    for (int i = a; i < b->rank; i++) {
        b->size[i] = b->size[i + 1];
        for (int k = 0; k < b->k->n_nodes; k++)
            b->out_stride[k][i] = b->out_stride[k][i + 1];
        for (int k = 0; k < b->n_reads; k++)
            b->reads[k].stride[i] = b->reads[k].stride[i + 1];
    }
}

static bool runs_on(const builder *b, int a, const int64_t *stride)
{
    return stride[a] == stride[a + 1] * b->size[a + 1];
}

/* Drops axes of size 1; axis a takes the next one in where nobody sees where that ends. */
static void join_axes(builder *b)
{
    for (int a = b->rank - 1; a >= 0; a--)
        if (b->size[a] == 1)
            drop_axis(b, a);
    for (int a = b->rank - 2; a >= 0; a--) {
        bool joins = a + 1 != b->kept;
        for (int i = 0; i < b->k->n_nodes && joins; i++)
            joins = !tpi_tile_kept(b, i) || runs_on(b, a, b->out_stride[i]);
        for (int i = 0; i < b->n_reads && joins; i++)
            joins = !b->reads[i].root || runs_on(b, a, b->reads[i].stride);
        if (!joins)
            continue;
        b->size[a + 1] *= b->size[a];
        drop_axis(b, a);
    }
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

static void add_axes(const builder *b, tpi_tile_box *box, int from, int end)
{
    for (int a = from; a < end; a++) {
        if (a == b->chunk_axis)
            box->chunked = box->rank;
        box->n[box->rank++] = a == b->chunk_axis ? b->n->chunk : b->size[a];
    }
}

/* The outermost kept axis of which a step, with all axes inside it, fits a tile. */
static void choose_chunk(builder *b, int64_t per_step, int64_t tile, int innermost)
{
    tpi_nest *n = b->n;
    n->per_chunk = 1;
    b->chunk_axis = b->kept - 1;
    while (b->chunk_axis > innermost && n->per_chunk * b->size[b->chunk_axis] * per_step < tile)
        n->per_chunk *= b->size[b->chunk_axis--];
    n->n_chunk = b->chunk_axis < 0 ? 1 : b->size[b->chunk_axis];
    const int64_t step = n->per_chunk * per_step;
    n->chunk = step >= tile ? 1 : tile / (step > 0 ? step : 1);
    n->chunk = n->chunk > n->n_chunk ? n->n_chunk : n->chunk;
}

/* Rows of columns are computed some at a time, when all can be added to what there is. */
static bool choose_parts(builder *b)
{
    tpi_nest *n = b->n;
    bool adds = n->per_full > 0 && b->rank > b->kept &&
                (n->per_full <= BLOCK || b->rank == b->kept + 1);
    for (int i = 0; i < b->k->n_nodes && adds; i++) {
        const tp_tensor *t = tpi_tile_value(b, i)->node;
        adds = t->op->kind != TPI_REDUCE || t->dtype >= TP_F32;
    }
    if (!adds)
        return false;
    n->n_part = b->size[b->kept];
    n->per_part = n->per_full / n->n_part;
    choose_chunk(b, n->per_part, n->per_part == 1 ? COLUMNS : PARTS, 0);
    const int64_t row = n->chunk * n->per_chunk * n->per_part;
    while (n->part * 2 * row <= PARTS && n->part < n->n_part && n->part < BLOCK)
        n->part *= 2;
    n->part = n->part < n->n_part ? n->part : n->n_part;
    n->folds = n->per_full > BLOCK;
    return true;
}

static void choose_columns(builder *b)
{
    tpi_nest *n = b->n;
    const int64_t few = n->per_full * FEW_COLUMNS;
    n->columns = true;
    if (!choose_parts(b))
        choose_chunk(b, n->per_full, few > PARTS ? few : PARTS, 0);
    add_axes(b, &n->box[1], b->kept, b->rank);
    if (n->n_part > n->part) {
        n->box[1].parted = 0;
        n->box[1].n[0] = n->part;
    }
}

static void choose_tile(builder *b)
{
    tpi_nest *n = b->n;
    const tpi_kernel *k = b->k;
    n->per_full = 1;
    for (int a = 0; a < b->rank; a++) {
        n->empty |= a < b->kept && b->size[a] == 0;
        n->per_full *= a < b->kept ? 1 : b->size[a];
    }
    for (int i = 0; i < 2; i++)
        n->box[i].chunked = n->box[i].parted = -1;
    n->n_part = n->part = 1;
    n->per_part = n->per_full;
    if (n->empty)
        return;
    const bool rows = k->reduced || k->n_reductions;
    const int64_t row = b->rank > 0 ? b->size[b->rank - 1] : 1;
    if (k->has_reduced && k->reduced && !tpi_reduces_last(k)) {
        choose_columns(b);
    } else if (rows) {
        choose_chunk(b, n->per_full, n->per_full >= LONG_ROW ? 1 : TILE, b->kept - 1);
    } else {
        choose_chunk(b, 1, row >= LONG_ROW && row < TILE ? row : TILE, 0);
    }
    const int first = b->chunk_axis < 0 ? 0 : b->chunk_axis;
    add_axes(b, &n->box[0], first, b->kept);
    add_axes(b, &n->box[1], first, n->columns ? b->kept : b->rank);
    n->n_outer = first;
    memcpy(n->outer, b->size, sizeof(int64_t) * (size_t)first);
}

void tpi_tile_strides(const builder *b, bool wide, const int64_t *stride, int64_t *out)
{
    const int first = b->n->n_outer;
    int at = 0;
    for (int a = b->kept; a < b->rank && wide && b->n->columns; a++)
        out[at++] = stride[a];
    for (int a = first; a < b->kept; a++)
        out[at++] = stride[a];
    for (int a = b->kept; a < b->rank && wide && !b->n->columns; a++)
        out[at++] = stride[a];
}

void tpi_tile_space(builder *b)
{
    find_space(b);
    join_axes(b);
    choose_tile(b);
}
