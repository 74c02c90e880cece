/* In a tp_batch a sum of many small contributions, as a bias gets, is put off until it is whole, and then one op: an add each
 * would wait by itself, for the one before. */
#include "grad/sweep.h"
#include "op/sizes.h"

enum {
    FEW = 3,         /* are added one by one */
    LARGE = 1 << 16, /* bytes of a contribution that is added at once, */
    MOST = 1 << 24   /* and of all that are not added: they lie side by side until they are */
};

static bool is_like(const tp_tensor *a, const tp_tensor *b)
{
    return a->status == TP_OK && b->status == TP_OK && a->dtype == b->dtype &&
           tpi_same_shape(a, b);
}

/* False: no memory for the list. */
static bool has_list(tpi_sweep *s)
{
    const size_t n = (size_t)s->nodes.n;
    tpi_contribution *more =
        tpi_grow(&s->ctx->mem, s->put_off, s->n_put_off, &s->max_put_off, sizeof *more);
    if (!more)
        return false;
    s->put_off = more;
    if (s->last_put_off)
        return true;
    s->last_put_off = tpi_take(&s->ctx->mem, n * sizeof *s->last_put_off);
    for (size_t i = 0; s->last_put_off && i < n; i++)
        s->last_put_off[i] = -1;
    return s->last_put_off;
}

bool tpi_sweep_put_off(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dx)
{
    if (!s->now || dx->graph || !is_like(s->grad[slot], dx) || dx->rank == TP_MAX_RANK ||
        tpi_bytes(dx) > LARGE || s->bytes_put_off > MOST || !has_list(s))
        return false;
    s->put_off[s->n_put_off] = (tpi_contribution){dx, node, s->last_put_off[slot]};
    s->last_put_off[slot] = s->n_put_off++;
    s->bytes_put_off += tpi_bytes(dx);
    return true;
}

/* `first` and the rows, from the first to the last, in one sum, whose order that is. */
static tp_tensor *add_rows(tpi_at at, tp_tensor *first, int n, tp_tensor *const *rows)
{
    tp_ctx *ctx = first->ctx;
    const int64_t count = n;
    tp_tensor *index = tp_full_at(at.file, at.line, ctx, TP_I64, 1, &count, 0);
    tp_tensor *sum = tp_unsqueeze_at(at.file, at.line, first, 0);
    tp_tensor *all = tp_stack_at(at.file, at.line, n, rows, 0);
    return tp_squeeze_at(at.file, at.line,
                         tp_scatter_add_at(at.file, at.line, sum, index, all, 0), 0);
}

static tp_tensor *add_each(tpi_at at, tp_tensor *sum, int n, tp_tensor *const *rows)
{
    for (int i = 0; i < n; i++)
        sum = tp_add_at(at.file, at.line, sum, rows[i]);
    return sum;
}

/* The sum with what was put off, which is taken off the list; the failed tensor if there is no `scope`. */
static tp_tensor *sum_of(tpi_sweep *s, int slot, int n, bool scope)
{
    const tp_tensor *node = s->put_off[s->last_put_off[slot]].node;
    const tpi_at at = TPI_AT(node->file, node->line);
    const size_t bytes = (size_t)n * sizeof(tp_tensor *);
    tp_tensor **rows = scope ? tpi_take(&s->ctx->mem, bytes) : NULL;
    for (int i = s->last_put_off[slot], k = n - 1; rows && i >= 0;
         i = s->put_off[i].before, k--)
        rows[k] = s->put_off[i].dx;
    tp_tensor *sum = !rows ? tpi_no_memory(s->ctx, s->at, "gradient")
                           : (n < FEW ? add_each : add_rows)(at, s->grad[slot], n, rows);
    tpi_ref(sum);
    for (int i = s->last_put_off[slot]; i >= 0; i = s->put_off[i].before) {
        s->bytes_put_off -= tpi_bytes(s->put_off[i].dx);
        tpi_unref(s->put_off[i].dx);
        s->put_off[i].dx = NULL;
    }
    s->last_put_off[slot] = -1;
    tpi_give_back(&s->ctx->mem, rows, rows ? bytes : 0);
    return sum;
}

void tpi_sweep_add_put_off(tpi_sweep *s, int slot)
{
    int n = 0;
    for (int i = s->last_put_off[slot]; i >= 0; i = s->put_off[i].before)
        n++;
    const bool scope = tp_scope_begin(s->ctx) == TP_OK;
    tp_tensor *sum = sum_of(s, slot, n, scope);
    tpi_unref(s->grad[slot]);
    s->grad[slot] = sum;
    if (scope)
        tp_scope_end(s->ctx);
}
