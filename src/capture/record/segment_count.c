/* How many different segments a function has.
 *
 * The tree has a segment for each way that leads there: what follows four branches in a row is there
 * sixteen times. Those that do the same are one: the same steps with the same attributes, sizes and
 * numbers, whose operands are made by the same steps, or come in where the others do. */
#include "base/hash.h"
#include "capture/capture_def.h"
#include "op/random_position.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_attrs(uint64_t h, const tpi_step *s)
{
    if (!s->op || !s->op->attrs_size)
        return h;
    if (tpi_is_draw(s->op)) { /* where it draws is no matter */
        tpi_random_attrs a = *(const tpi_random_attrs *)s->attrs;
        a.seed = a.at = 0;
        return tpi_hash_step(h, tpi_hash64(&a, sizeof a));
    }
    return tpi_hash_step(h, tpi_hash64(s->attrs, s->op->attrs_size));
}

static uint64_t hash_step(uint64_t h, const tpi_step *s)
{
    uint64_t value;
    h = tpi_hash_step(h, (uint64_t)s->kind << 16 | (uint64_t)s->dtype << 8 | s->rank);
    h = tpi_hash_step(h, s->op ? (uint64_t)s->op->code : 0);
    h = tpi_hash_step(h, tpi_hash64(s->shape, sizeof(int64_t) * s->rank));
    h = hash_attrs(h, s);
    if (s->kind == TPI_STEP_SCALAR && !s->varied) {
        memcpy(&value, &s->value, sizeof value);
        h = tpi_hash_step(h, value);
    }
    for (int k = 0; k < s->n_in; k++)
        h = tpi_hash_step(h, (uint64_t)s->in[k]);
    return h;
}

static uint64_t hash_segment(const tpi_step *s)
{
    uint64_t h = 0;
    for (const tpi_step *t = s; t; t = t->cut ? NULL : t->first)
        h = hash_step(h, t);
    return h;
}

static bool begins_segment(const tpi_step *s)
{
    return s->above && s->above->cut &&
           (s->kind == TPI_STEP_OP || s->kind == TPI_STEP_SCALAR || s->kind == TPI_STEP_ASSIGN);
}

/* Into hashes[], NULL: only counted. */
static int64_t gather(const tp_function *f, uint64_t *hashes)
{
    const tpi_tree *const trees[] = {&f->forward, &f->backward};
    int64_t n = 0;
    for (int i = 0; i < 2; i++)
        for (const tpi_step *s = trees[i]->top.first; s; s = tpi_tree_walk(trees[i], s)) {
            if (!begins_segment(s))
                continue;
            if (hashes)
                hashes[n] = hash_segment(s);
            n++;
        }
    return n;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int64_t tpi_count_segments(const tp_function *f)
{
    tpi_mem *m = &f->ctx->mem;
    const int64_t all = gather(f, NULL);
    const size_t bytes = (size_t)all * sizeof(uint64_t);
    uint64_t *hashes = tpi_take(m, bytes);
    if (!hashes)
        return all;
    gather(f, hashes);
    qsort(hashes, (size_t)all, sizeof *hashes, compare);
    int64_t n = all > 0;
    for (int64_t i = 1; i < all; i++)
        n += hashes[i] != hashes[i - 1];
    tpi_give_back(m, hashes, bytes);
    return n;
}
