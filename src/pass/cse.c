/* Common subexpressions: equal op, attributes and operands are one node; small constants of
 * equal bits are one constant.
 *
 *     %2 = exp %1      %3 = exp %1      %4 = add %2, %3      ->      %4 = add %2, %2 */
#include "base/hash.h"
#include "op/op.h"
#include "pass/pass.h"

#include <string.h>

typedef struct cse_state {
    tp_tensor **table; /* open addressing, a power of two */
    int n, size;
} cse_state;

enum { SMALL_CONST = 64 };

static bool is_small_const(const tp_tensor *t)
{
    return tpi_constant_of(t) && tpi_bytes(t->in[0]) <= SMALL_CONST &&
           (t->in[0]->flags & TPI_CONTIGUOUS);
}

static uint64_t more(uint64_t h, const void *data, size_t size)
{
    return (h ^ tpi_hash64(data, size)) * 0x9E3779B97F4A7C15u;
}

static uint64_t hash_node(const tp_tensor *t, tp_tensor *const *in)
{
    const uint64_t h =
        more((uint64_t)t->op->code << 8 | t->dtype, t->shape, sizeof(int64_t) * t->rank);
    if (tpi_constant_of(t))
        return more(h, t->in[0]->data, tpi_bytes(t->in[0]));
    return more(more(h, t->attrs, t->op->attrs_size), in, sizeof *in * (size_t)t->n_in);
}

static bool equal(const tp_tensor *a, tp_tensor *const *a_in, const tp_tensor *b)
{
    if (a->op != b->op || a->dtype != b->dtype || a->rank != b->rank || a->n_in != b->n_in ||
        memcmp(a->shape, b->shape, sizeof(int64_t) * a->rank) != 0)
        return false;
    if (tpi_constant_of(a))
        return memcmp(a->in[0]->data, b->in[0]->data, tpi_bytes(a->in[0])) == 0;
    return memcmp(a_in, b->in, sizeof *a_in * (size_t)a->n_in) == 0 &&
           (!a->op->attrs_size || memcmp(a->attrs, b->attrs, a->op->attrs_size) == 0);
}

/* The equal node, or the free slot. */
static tp_tensor **find(tp_tensor **table, int size, const tp_tensor *t, tp_tensor *const *in)
{
    size_t i = (size_t)hash_node(t, in);
    while (table[i & (size_t)(size - 1)] && !equal(t, in, table[i & (size_t)(size - 1)]))
        i++;
    return &table[i & (size_t)(size - 1)];
}

static bool reserve(tpi_rewrite *rw, cse_state *s)
{
    if (s->n * 2 < s->size)
        return true;
    const int size = s->size ? s->size * 2 : 256;
    tp_tensor **v = tpi_bump_take(rw->memory, (size_t)size, sizeof *v);
    if (!v)
        return false;
    for (int i = 0; i < s->size; i++)
        if (s->table[i])
            *find(v, size, s->table[i], s->table[i]->in) = s->table[i];
    s->table = v;
    s->size = size;
    return true;
}

static tp_tensor *cse(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in)
{
    cse_state *s = rw->state;
    const bool small = is_small_const(node);
    if (!small &&
        (node->op->kind == TPI_SOURCE || node->op->kind == TPI_EFFECT || node->op->draws))
        return NULL;
    if (!reserve(rw, s))
        return tpi_no_memory(rw->ctx, TPI_AT(node->file, node->line), "cse");
    tp_tensor **slot = find(s->table, s->size, node, in);
    if (*slot) {
        return *slot;
    }
    tp_tensor *made = small ? tpi_rewrite_const(rw, node, node->in[0])
                            : tpi_rewrite_node(rw, node, node->op, node->n_in, in, node->attrs);
    if (made->status == TP_OK) {
        *slot = made;
        s->n++;
        rw->n_changes--; /* it is the node itself */
    }
    return made;
}

const tpi_pass tpi_pass_cse = {.name = "cse",
                               .about = "equal computations are done once",
                               .visit = cse,
                               .state_size = sizeof(cse_state)};
