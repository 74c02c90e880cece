/* What several nodes contribute to one operand as one tensor: the products that share a right
 * matrix, and the elements that a loop went over. */
#include "grad/sweep.h"
#include "op/sizes.h"

#include <string.h>

/* The transpose of a shared matrix, made once: a tpi_product of few rows would take longer to turn
 * it than to use it. NULL where it is not worth it. */
tp_tensor *tpi_sweep_turned(const tpi_sweep *s, const tp_tensor *t, tpi_shared *w)
{
    enum { FEW = 8 };
    if (w->products < 2 || t->graph || s->ctx->recording || t->shape[0] > FEW)
        return NULL;
    if (!w->turned) {
        tp_tensor *view = tp_swap_at(t->file, t->line, t->in[1], -2, -1);
        w->turned = tp_contiguous_at(t->file, t->line, view);
        tpi_ref(w->turned);
    }
    return w->turned;
}

bool tpi_sweep_joins(const tpi_sweep *s, int slot)
{
    return s->shared &&
           (s->outer[slot] || s->shared[slot].products + s->shared[slot].calls > 1);
}

bool tpi_sweep_keep(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dy)
{
    tpi_product *p =
        tpi_grow(&s->ctx->mem, s->products, s->n_products, &s->max_products, sizeof *p);
    if (!p) {
        tpi_unref(dy);
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    s->products = p;
    p[s->n_products] = (tpi_product){node, dy, slot, s->shared[slot].last};
    s->shared[slot].last = s->n_products++;
    return true;
}

bool tpi_sweep_hand_out(tpi_sweep *s, tpi_sweep *inside)
{
    bool ok = true;
    for (int i = 0; i < inside->n_products && ok; i++) {
        tpi_product *p = &inside->products[i];
        if (!inside->outer[p->slot])
            continue;
        ok = tpi_sweep_keep(s, p->node, inside->outside[p->slot], p->dy);
        p->dy = NULL;
    }
    return ok;
}

static tp_tensor *join(const tp_tensor *node, int n, tp_tensor **rows)
{
    return n == 1 ? rows[0] : tp_concat_at(node->file, node->line, n, rows, 0);
}

/* All products with the matrix of this slot have been met: their contribution to it. */
bool tpi_sweep_products(tpi_sweep *s, int slot)
{
    tp_ctx *ctx = s->ctx;
    const tpi_product *const p = s->products;
    const int last = s->shared[slot].last;
    const tp_tensor *node = p[last].node;
    size_t count = 0;
    for (int i = last; i >= 0; i = p[i].before)
        count++;
    tp_tensor **rows = tpi_take(&ctx->mem, 2 * count * sizeof *rows);
    if (!rows || tp_scope_begin(ctx) != TP_OK) {
        tpi_give_back(&ctx->mem, rows, 2 * count * sizeof *rows);
        tpi_no_memory(ctx, s->at, "gradient");
        return false;
    }
    const int n = (int)count;
    for (int i = last, k = n - 1; i >= 0; i = p[i].before, k--) { /* the newest first */
        rows[k] = p[i].node->in[0];
        rows[n + k] = p[i].dy;
    }
    tp_tensor *x = tp_swap_at(node->file, node->line, join(node, n, rows), -2, -1);
    tp_tensor *dw = tp_matmul_at(node->file, node->line, x, join(node, n, rows + count));
    tpi_ref(dw);
    tpi_sweep_fold(s, node, slot, dw);
    tpi_give_back(&ctx->mem, rows, 2 * count * sizeof *rows);
    tp_scope_end(ctx);
    return true;
}

/* ---- elements of what a loop went over --------------------------------------------------------- */

/* The gradients of the row nodes met, by index; the newest first where one element has several.
 * A reference each. */
static void gather_rows(const tpi_sweep *s, int slot, tp_tensor **by_index)
{
    int newest = -1;
    for (int i = s->met[slot], next; i >= 0; i = next) { /* the chain, turned */
        next = s->met[i];
        s->met[i] = newest;
        newest = i;
    }
    for (int i = newest; i >= 0; i = s->met[i]) {
        const tp_tensor *row = s->nodes.v[i];
        tp_tensor **sum = &by_index[((const tpi_index_attrs *)row->attrs)->index];
        tp_tensor *dx = *sum ? tp_add_at(row->file, row->line, *sum, s->grad[i]) : s->grad[i];
        tpi_ref(dx);
        tpi_unref(*sum);
        *sum = dx;
    }
    s->met[slot] = -1;
}

/* All rows of this slot have been met: one contribution, with zeros where no row gave one. */
bool tpi_sweep_rows(tpi_sweep *s, const tp_tensor *rows, int slot)
{
    tp_ctx *ctx = s->ctx;
    const tp_tensor *row = s->nodes.v[s->met[slot]];
    const int64_t n = rows->shape[0];
    if (tpi_dim_is_symbolic(n)) {
        tpi_fail_status(
            ctx, s->at, "gradient", TP_E_SYMBOLIC,
            "the elements of %s, of which the number is not known, cannot be joined",
            SHAPE(rows));
        return false;
    }
    const size_t bytes = (size_t)n * sizeof(tp_tensor *);
    tp_tensor **v = tpi_take(&ctx->mem, bytes);
    if (!v || tp_scope_begin(ctx) != TP_OK) {
        tpi_give_back(&ctx->mem, v, bytes);
        tpi_no_memory(ctx, s->at, "gradient");
        return false;
    }
    memset(v, 0, bytes);
    tp_tensor *like = s->grad[s->met[slot]], *zero = NULL;
    gather_rows(s, slot, v);
    for (int64_t i = 0; i < n; i++)
        if (!v[i]) {
            zero = zero ? zero : tpi_all(TPI_AT(row->file, row->line), like, 0);
            tpi_ref(zero);
            v[i] = zero;
        }
    tp_tensor *dx = tp_stack_at(row->file, row->line, (int)n, v, 0);
    tpi_ref(dx);
    tpi_sweep_fold(s, row, slot, dx);
    for (int64_t i = 0; i < n; i++)
        tpi_unref(v[i]);
    tpi_give_back(&ctx->mem, v, bytes);
    tp_scope_end(ctx);
    return true;
}
