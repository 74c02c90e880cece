/* Where buffers lie in an arena: the largest first, each at the lowest place where no buffer lies that
 * lives at the same time. */
#include "plan/plan.h"

#include <stdlib.h>

typedef struct item {
    int buffer, first, last; /* kernels between which it is live */
    int rank;                /* its place by `first` */
    int64_t bytes, offset;
} item;

/* The placed items below a node of the tree of ranks. */
typedef struct reach {
    int last;    /* the greatest; -1: none is placed */
    int64_t end; /* the greatest of offset + bytes */
} reach;

/* The kernels below a node of the tree of kernels: up to where the arena is full while one runs. No
 * gap is below that, whatever its size. */
typedef struct packed {
    int64_t least, most;
} packed;

/* Items by `first` are the leaves of a tree: who lives at the same time is found without looking at the
 * others, and a tree of the kernels tells below which offset nothing has to be looked for. Few items
 * are a list, by offset: looking at all costs less than sorting those that are found. */
typedef struct placing {
    int n, leaves, kernels; /* leaves of both trees */
    bool few;
    int n_placed;
    item **placed; /* when there are few */
    item *items;   /* in the order in which they are placed */
    int *at;       /* by rank: the item */
    reach *reaches;
    packed *full;
    item **living; /* found with the item that is to be placed, by offset */
    int n_living;
} placing;

static int by_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->buffer - y->buffer;
}

static int by_size(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->buffer - y->buffer;
}

/* Of equal ones the last first. */
static int by_size_turned(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : y->buffer - x->buffer;
}

static int by_offset(const void *a, const void *b)
{
    const item *const *x = a, *const *y = b;
    return (*x)->offset != (*y)->offset ? ((*x)->offset < (*y)->offset ? -1 : 1)
                                        : (*x)->buffer - (*y)->buffer;
}

static int64_t aligned(int64_t offset)
{
    return (offset + 63) & ~(int64_t)63;
}

/* Up to where the arena is full at some kernel of q, of those from `kernel` on below `node`. */
static int64_t full_up_to(const placing *p, const item *q, int node, int kernel, int width)
{
    if (kernel > q->last || kernel + width <= q->first)
        return 0;
    const packed *f = &p->full[node];
    if (f->least == f->most || (kernel >= q->first && kernel + width - 1 <= q->last))
        return f->most;
    const int64_t left = full_up_to(p, q, 2 * node, kernel, width / 2);
    const int64_t right = full_up_to(p, q, 2 * node + 1, kernel + width / 2, width / 2);
    return left > right ? left : right;
}

/* q was placed: where the arena was full up to it, it now is up to q's end. */
static void fill_up(placing *p, const item *q, int node, int kernel, int width)
{
    packed *f = &p->full[node];
    if (kernel > q->last || kernel + width <= q->first || f->most < q->offset)
        return;
    const int64_t end = aligned(q->offset + q->bytes);
    if (f->least == f->most) {
        if (kernel >= q->first && kernel + width - 1 <= q->last) {
            *f = (packed){end, end};
            return;
        }
        p->full[2 * node] = p->full[2 * node + 1] = *f;
    }
    fill_up(p, q, 2 * node, kernel, width / 2);
    fill_up(p, q, 2 * node + 1, kernel + width / 2, width / 2);
    const packed *left = &p->full[2 * node], *right = left + 1;
    f->least = left->least < right->least ? left->least : right->least;
    f->most = left->most > right->most ? left->most : right->most;
}

/* Placed items that live with q and end above `floor`, from rank `rank` on, below `node` of the tree. */
static void find_living(placing *p, const item *q, int64_t floor, int node, int rank, int width)
{
    if (rank >= p->n || p->reaches[node].last < q->first || p->reaches[node].end <= floor ||
        p->items[p->at[rank]].first > q->last)
        return;
    if (width == 1) {
        p->living[p->n_living++] = &p->items[p->at[rank]];
        return;
    }
    find_living(p, q, floor, 2 * node, rank, width / 2);
    find_living(p, q, floor, 2 * node + 1, rank + width / 2, width / 2);
}

/* All of them, by offset. */
static void find_all_living(placing *p, const item *q, int64_t floor)
{
    p->n_living = 0;
    for (int i = 0; i < p->n_placed; i++)
        if (p->placed[i]->first <= q->last && p->placed[i]->last >= q->first)
            p->living[p->n_living++] = p->placed[i];
    if (p->few)
        return;
    find_living(p, q, floor, 1, 0, p->leaves);
    qsort(p->living, (size_t)p->n_living, sizeof *p->living, by_offset);
}

static void add_placed(placing *p, item *q)
{
    int i = p->n_placed++;
    for (; i > 0 && by_offset(&p->placed[i - 1], &q) > 0; i--)
        p->placed[i] = p->placed[i - 1];
    p->placed[i] = q;
}

static void place(placing *p, item *q)
{
    int64_t at = p->few || !q->bytes ? 0 : full_up_to(p, q, 1, 0, p->kernels);
    find_all_living(p, q, at);
    for (int i = 0; i < p->n_living; i++) {
        const item *x = p->living[i];
        if (x->offset >= at + q->bytes)
            break; /* before this one, and before the rest */
        if (at < x->offset + x->bytes && x->offset < at + q->bytes)
            at = aligned(x->offset + x->bytes);
    }
    q->offset = at;
    if (p->few) {
        add_placed(p, q);
        return;
    }
    if (q->bytes)
        fill_up(p, q, 1, 0, p->kernels);
    const int64_t end = q->offset + q->bytes;
    for (int node = p->leaves + q->rank; node; node /= 2) {
        reach *r = &p->reaches[node];
        r->last = q->last > r->last ? q->last : r->last;
        r->end = end > r->end ? end : r->end;
    }
}

static int64_t place_all(placing *p, int (*order)(const void *, const void *))
{
    int64_t total = 0;
    qsort(p->items, (size_t)p->n, sizeof *p->items, order);
    for (int i = 0; i < p->n; i++)
        p->at[p->items[i].rank] = i;
    for (int i = 0; i < 2 * p->leaves; i++)
        p->reaches[i] = (reach){-1, -1};
    for (int i = 0; i < 2 * p->kernels; i++)
        p->full[i] = (packed){0, 0};
    p->n_placed = 0;
    for (int i = 0; i < p->n; i++) {
        item *x = &p->items[i];
        place(p, x);
        total = x->offset + x->bytes > total ? x->offset + x->bytes : total;
    }
    return aligned(total);
}

static void fill(placing *p, int n, const tpi_buffer *buffers, const int64_t *bytes)
{
    for (int i = 0; i < n; i++)
        if (buffers[i].storage == TPI_IN_ARENA)
            p->items[p->n++] = (item){.buffer = i,
                                      .first = buffers[i].first,
                                      .last = buffers[i].last,
                                      .bytes = bytes[i]};
    qsort(p->items, (size_t)p->n, sizeof *p->items, by_first);
    for (int i = 0; i < p->n; i++)
        p->items[i].rank = i;
}

/* The kernels between which some buffer lives: a power of two. */
static int n_kernels(int n, const tpi_buffer *buffers)
{
    int kernels = 1;
    for (int i = 0; i < n; i++)
        while (kernels <= buffers[i].last)
            kernels *= 2;
    return kernels;
}

/* Which of two equal buffers is placed first may cost one of them: both ways are tried, while that
 * is cheap. */
int64_t tpi_place_buffers(tpi_mem *m, int n, const tpi_buffer *buffers, const int64_t *bytes,
                          int64_t *offset)
{
    enum { FEW = 512, LISTED = 2048 };
    placing p = {.leaves = 1, .kernels = n_kernels(n, buffers), .few = n <= LISTED};
    while (p.leaves < n)
        p.leaves *= 2;
    tpi_bump room = TPI_BUMP(m);
    const size_t count = (size_t)n;
    p.items = tpi_bump_take(&room, count, sizeof *p.items);
    p.at = tpi_bump_take(&room, count, sizeof *p.at);
    p.reaches = tpi_bump_take(&room, 2 * (size_t)p.leaves, sizeof *p.reaches);
    p.full = tpi_bump_take(&room, 2 * (size_t)p.kernels, sizeof *p.full);
    p.living = tpi_bump_take(&room, count, sizeof *p.living);
    p.placed = tpi_bump_take(&room, count, sizeof *p.placed);
    int64_t total = -1;
    if (p.placed) {
        fill(&p, n, buffers, bytes);
        total = place_all(&p, by_size);
        if (n <= FEW) {
            const int64_t other = place_all(&p, by_size_turned);
            total = other < total ? other : place_all(&p, by_size);
        }
        for (int i = 0; i < n; i++)
            offset[i] = -1;
        for (int i = 0; i < p.n; i++)
            offset[p.items[i].buffer] = p.items[i].offset;
    }
    tpi_bump_free(&room);
    return total;
}
