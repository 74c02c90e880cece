/* Where buffers lie in an arena: the largest first, each at the lowest place where no buffer lies that
 * lives at the same time. */
#include "plan/plan.h"

#include <stdlib.h>

typedef struct item {
    int buffer, first, last; /* kernels between which it is live */
    int rank;                /* its place by `first` */
    int64_t bytes, offset;
} item;

/* Items by `first`, in a tree of the last kernels of those that are placed: who lives at the same
 * time is found without looking at the others. Few items are a list, by offset: looking at all costs
 * less than sorting those that are found. */
typedef struct placing {
    int n, leaves;
    bool few;
    int n_placed;
    item **placed; /* when there are few */
    item *items;   /* in the order in which they are placed */
    int *at;       /* by rank: the item */
    int *newest;   /* by node of the tree: the greatest `last` below it; -1: none is placed */
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

/* Placed items from rank `rank` on, below `node` of the tree, that live with q. */
static void find_living(placing *p, const item *q, int node, int rank, int width)
{
    if (rank >= p->n || p->newest[node] < q->first || p->items[p->at[rank]].first > q->last)
        return;
    if (width == 1) {
        p->living[p->n_living++] = &p->items[p->at[rank]];
        return;
    }
    find_living(p, q, 2 * node, rank, width / 2);
    find_living(p, q, 2 * node + 1, rank + width / 2, width / 2);
}

/* All of them, by offset. */
static void find_all_living(placing *p, const item *q)
{
    p->n_living = 0;
    for (int i = 0; i < p->n_placed; i++)
        if (p->placed[i]->first <= q->last && p->placed[i]->last >= q->first)
            p->living[p->n_living++] = p->placed[i];
    if (p->few)
        return;
    find_living(p, q, 1, 0, p->leaves);
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
    find_all_living(p, q);
    int64_t at = 0;
    for (int i = 0; i < p->n_living; i++) {
        const item *x = p->living[i];
        if (x->offset >= at + q->bytes)
            break; /* before this one, and before the rest */
        if (at < x->offset + x->bytes && x->offset < at + q->bytes)
            at = (x->offset + x->bytes + 63) & ~(int64_t)63;
    }
    q->offset = at;
    if (p->few) {
        add_placed(p, q);
        return;
    }
    int node = p->leaves + q->rank;
    for (; node && p->newest[node] < q->last; node /= 2)
        p->newest[node] = q->last;
}

static int64_t place_all(placing *p, int (*order)(const void *, const void *))
{
    int64_t total = 0;
    qsort(p->items, (size_t)p->n, sizeof *p->items, order);
    for (int i = 0; i < p->n; i++)
        p->at[p->items[i].rank] = i;
    for (int i = 0; i < 2 * p->leaves; i++)
        p->newest[i] = -1;
    p->n_placed = 0;
    for (int i = 0; i < p->n; i++) {
        item *x = &p->items[i];
        place(p, x);
        total = x->offset + x->bytes > total ? x->offset + x->bytes : total;
    }
    return (total + 63) & ~(int64_t)63;
}

static void fill(placing *p, int n, const tpi_buffer *buffers, const int64_t *bytes)
{
    for (int i = 0; i < n; i++)
        if (buffers[i].place == TPI_AT_ARENA)
            p->items[p->n++] = (item){.buffer = i,
                                      .first = buffers[i].first,
                                      .last = buffers[i].last,
                                      .bytes = bytes[i]};
    qsort(p->items, (size_t)p->n, sizeof *p->items, by_first);
    for (int i = 0; i < p->n; i++)
        p->items[i].rank = i;
}

/* Which of two equal buffers is placed first may cost one of them: both ways are tried, while that
 * is cheap. */
int64_t tpi_place_buffers(tpi_mem *m, int n, const tpi_buffer *buffers, const int64_t *bytes,
                          int64_t *offset)
{
    enum { FEW = 512, LISTED = 2048 };
    placing p = {.leaves = 1, .few = n <= LISTED};
    while (p.leaves < n)
        p.leaves *= 2;
    const size_t count = (size_t)n;
    p.items = tpi_take(m, count * sizeof *p.items);
    p.at = tpi_take(m, count * sizeof *p.at);
    p.newest = tpi_take(m, 2 * (size_t)p.leaves * sizeof *p.newest);
    p.living = tpi_take(m, count * sizeof *p.living);
    p.placed = tpi_take(m, count * sizeof *p.placed);
    int64_t total = -1;
    if (p.items && p.at && p.newest && p.living && p.placed) {
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
    tpi_give_back(m, p.items, count * sizeof *p.items);
    tpi_give_back(m, p.at, count * sizeof *p.at);
    tpi_give_back(m, p.newest, 2 * (size_t)p.leaves * sizeof *p.newest);
    tpi_give_back(m, p.living, count * sizeof *p.living);
    tpi_give_back(m, p.placed, count * sizeof *p.placed);
    return total;
}
