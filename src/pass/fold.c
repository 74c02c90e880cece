/* Constant folding: what needs nothing but constants is computed once, by the op's own kernel.
 *
 *     %1 = const 2      %2 = const 3      %3 = mul %1, %2      ->      %3 = const 6
 *
 * A result much larger than its operands (a broadcast scalar) stays a computation, and so does what
 * would make all results together larger than the constants of the graph and 48 MiB: a few nodes that
 * join a constant to itself would fill any memory. */
#include "ir/body.h"
#include "op/op.h"
#include "op/trap.h"
#include "pass/pass.h"
#include "pass/prune.h"

static const size_t small_bytes = 1 << 16, most_added = (size_t)48 << 20;

/* ---- how much ------------------------------------------------------------------------------- */

static bool count(tp_graph *g, int *n_changes)
{
    (void)n_changes;
    const size_t most = g->own_bytes + most_added, now = tpi_constant_bytes(g, true);
    if (g->was_folded > most_added / 4) /* what is left of it need not be kept for reuse */
        tpi_mem_trim(&g->ctx->mem);
    g->was_folded = 0;
    g->may_fold = now < most ? most - now : 0;
    return true;
}

/* The memory of a result; NULL: it would be too much, or there is none. */
static tp_tensor *new_result(const tpi_rewrite *rw, const tp_tensor *node)
{
    tp_graph *root = rw->to;
    while (root->parent)
        root = root->parent;
    const size_t bytes = tpi_bytes(node);
    if (bytes > root->may_fold)
        return NULL;
    tp_tensor *out = tpi_tensor_new(rw->ctx, TPI_AT(node->file, node->line),
                                    (tp_dtype)node->dtype, node->rank, node->shape);
    if (out->status != TP_OK)
        return NULL;
    root->may_fold -= bytes;
    root->was_folded += bytes;
    out->buf->folded = true;
    return out;
}

/* ---- the pass ------------------------------------------------------------------------------- */

static bool are_numbers(int64_t n, const int64_t *sizes)
{
    for (int64_t i = 0; i < n; i++)
        if (tpi_dim_is_symbolic(sizes[i]))
            return false;
    return true;
}

static bool is_known(const tp_tensor *t)
{
    return are_numbers(t->rank, t->shape);
}

/* A slice of one element may begin at a size. */
static bool attrs_are_known(const tp_tensor *node)
{
    bool known = true;
    for (const tpi_attr *a = node->op->attrs; a && a->name && known; a++) {
        const int64_t *v =
            (const int64_t *)(const void *)((const char *)node->attrs + a->offset);
        const int64_t n = a->type == TPI_ATTR_DIMS ? *v++ : a->type == TPI_ATTR_DIM;
        known = are_numbers(n, v);
    }
    return known;
}

/* A size is known from the operand's shape alone. */
static tp_tensor *fold_shape(tpi_rewrite *rw, const tp_tensor *node, const tp_tensor *x)
{
    tp_tensor *in = (tp_tensor *)x, *out = is_known(x) ? new_result(rw, node) : NULL;
    if (!out)
        return NULL;
    tpi_run r = {.op = node->op,
                 .ctx = rw->ctx,
                 .at = TPI_AT(node->file, node->line),
                 .n_in = 1,
                 .in = &in,
                 .attrs = node->attrs,
                 .out = out};
    return tpi_run_reference(&r) ? tpi_rewrite_const(rw, node, out) : NULL;
}

static tp_tensor *fold(tpi_rewrite *rw, const tp_tensor *node, tp_tensor *const *in)
{
    const tpi_kind kind = node->op->kind;
    if (kind == TPI_SHAPE && node->n_in == 1)
        return fold_shape(rw, node, in[0]);
    if (kind == TPI_SOURCE || kind == TPI_EFFECT || node->op->draws || !node->n_in ||
        !is_known(node) || !attrs_are_known(node))
        return NULL;
    size_t in_bytes = 0;
    for (int i = 0; i < node->n_in; i++) {
        if (!tpi_constant_of(in[i]))
            return NULL;
        in_bytes += tpi_bytes(in[i]);
    }
    const size_t bytes = tpi_bytes(node);
    if (bytes > small_bytes && bytes > in_bytes)
        return NULL;
    tp_tensor *concrete[8], *out = node->n_in <= 8 ? new_result(rw, node) : NULL;
    if (!out)
        return NULL;
    for (int i = 0; i < node->n_in; i++)
        concrete[i] = in[i]->in[0];
    tpi_run r = {.op = node->op,
                 .ctx = rw->ctx,
                 .at = TPI_AT(node->file, node->line),
                 .n_in = node->n_in,
                 .in = concrete,
                 .attrs = node->attrs,
                 .out = out};
    tpi_aside earlier;
    tpi_error_aside(rw->ctx, &earlier);
    const bool ok = tpi_run_op(&r);
    tpi_forget_error(rw->ctx); /* it fails when it is run, with its line */
    tpi_error_back(rw->ctx, &earlier);
    int64_t place; /* a NaN that is made stays an op, whose line the trap names */
    return ok && !tpi_makes_nan(&r, &place) ? tpi_rewrite_const(rw, node, out) : NULL;
}

const tpi_pass tpi_pass_fold = {.name = "fold",
                                .about = "computes what needs constants only",
                                .visit = fold,
                                .prepare = count};
