/* What a sweep is over, and what adds up in it: see sweep.h. */
#include "grad/sweep.h"

#include "base/float_mode.h"
#include "ir/factors.h"
#include "op/custom.h"
#include "op/fused.h"
#include "op/turn_values.h"

#include <string.h>

enum { MAX_DEPTH = 1000 }; /* of calls and bodies in each other, and of the C stack */

void tpi_sweep_done(tpi_sweep *s)
{
    tpi_mem *m = &s->ctx->mem;
    const size_t n = (size_t)s->nodes.n, k = (size_t)s->max_in;
    for (int i = 0; s->outside && i < s->nodes.n; i++)
        s->nodes.v[i]->slot = s->outside[i];
    for (int i = 0; s->grad && i < s->nodes.n; i++)
        tpi_unref(s->grad[i]);
    for (int i = 0; s->shared && i < s->nodes.n; i++) {
        tpi_unref(s->shared[i].turned);
        tpi_unref(s->shared[i].state);
        tpi_unref(s->shared[i].sum);
    }
    for (int i = 0; i < s->n_products; i++) {
        tpi_unref(s->products[i].x);
        tpi_unref(s->products[i].dy);
    }
    for (int i = 0; i < s->n_put_off; i++)
        tpi_unref(s->put_off[i].dx);
    tpi_give_back(m, s->put_off, (size_t)s->max_put_off * sizeof *s->put_off);
    tpi_give_back(m, s->last_put_off, s->last_put_off ? n * sizeof *s->last_put_off : 0);
    tpi_give_back(m, s->products, (size_t)s->max_products * sizeof *s->products);
    tpi_give_back(m, s->shared, n * sizeof *s->shared);
    tpi_give_back(m, s->outside, n * sizeof *s->outside);
    tpi_give_back(m, s->met, n * sizeof *s->met);
    tpi_give_back(m, s->grad, n * sizeof *s->grad);
    tpi_give_back(m, s->depends, 5 * n);
    tpi_give_back(m, s->wanted, k);
    tpi_give_back(m, s->dx, k * sizeof *s->dx);
    tpi_nodes_free(&s->nodes);
    *s = (tpi_sweep){.ctx = s->ctx, .nodes = {.ctx = s->ctx}};
}

static bool no_memory(tpi_sweep *s)
{
    tpi_no_memory(s->ctx, s->at, "gradient");
    tpi_sweep_done(s);
    return false;
}

/* May it wait for another node's place in the sweep, or others for its? */
static bool waits(const tp_tensor *t)
{
    return t->op && (t->op->awaits || t->op->range || t->op->places || tpi_has_results(t));
}

/* May functions of the user's run in the sweep? They may walk over the tape, and unfold what the sweep has. */
static bool calls_user(const tpi_sweep *s)
{
    bool calls = false;
    for (int i = 0; i < s->nodes.n && !calls; i++) {
        const tp_tensor *t = s->nodes.v[i];
        calls = tpi_is_custom(t) || (s->ctx->has_custom && tpi_has_results(t));
    }
    return calls;
}

/* May the gradient of a call that is one node be computed as one, now or in a queue? */
static bool takes_calls(const tp_ctx *ctx)
{
    return !ctx->tracing && !ctx->trap_nan && (!ctx->frame || ctx->frame->rules->call);
}

/* Its nodes; false: no memory. */
static bool collect(tpi_sweep *s, int n_roots, tp_tensor *const *roots, int n_ends,
                    tp_tensor *const *ends)
{
    const tp_ctx *ctx = s->ctx;
    s->nodes = (tpi_nodes){.ctx = s->ctx,
                           .way = TPI_WAY_CALLS,
                           .folded = !ctx->caller.recording && tpi_is_unwatched(ctx),
                           .whole = s->now};
    bool ok = tpi_collect_from(&s->nodes, n_roots, roots, n_ends, ends);
    if (ok && (s->nodes.folded || s->nodes.whole) && calls_user(s)) {
        tpi_nodes_free(&s->nodes);
        s->nodes.way = TPI_WAY_CALLS;
        ok = tpi_collect_from(&s->nodes, n_roots, roots, n_ends, ends);
    }
    return ok;
}

bool tpi_sweep_start(tpi_sweep *s, tp_ctx *ctx, tpi_at at, int n_roots, tp_tensor *const *roots,
                     int n_ends, tp_tensor *const *ends, bool inside)
{
    *s = (tpi_sweep){.ctx = ctx,
                     .at = at,
                     .max_in = 1,
                     .left = 8 * (int64_t)ctx->heads.born + 10000,
                     .now = !ctx->caller.recording && takes_calls(ctx)};
    if (!collect(s, n_roots, roots, n_ends, ends)) {
        s->nodes.n = 0;
        return no_memory(s);
    }
    bool some = false;
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *t = s->nodes.v[i];
        s->max_in = t->n_in > s->max_in ? t->n_in : s->max_in;
        some |= waits(t);
    }
    tpi_mem *m = &ctx->mem;
    const size_t n = (size_t)s->nodes.n, k = (size_t)s->max_in;
    s->grad = tpi_take(m, n * sizeof *s->grad);
    if (s->grad)
        memset(s->grad, 0, n * sizeof *s->grad);
    s->depends = tpi_take(m, 5 * n);
    s->wanted = tpi_take(m, k);
    s->dx = tpi_take(m, k * sizeof *s->dx);
    s->met = some ? tpi_take(m, n * sizeof *s->met) : NULL;
    if (!s->grad || !s->depends || !s->wanted || !s->dx || (some && !s->met))
        return no_memory(s);
    int32_t *outside = inside ? tpi_take(m, n * sizeof *outside) : NULL;
    if (inside && !outside)
        return no_memory(s);
    memset(s->depends, 0, 5 * n);
    s->ends = s->depends + n;
    s->outer = s->ends + n;
    s->joined = s->outer + n;
    s->ranged = (int8_t *)(s->joined + n);
    s->outside = outside;
    for (int i = 0; i < s->nodes.n; i++) {
        if (outside)
            outside[i] = s->nodes.v[i]->slot;
        if (some)
            s->met[i] = -1;
        s->nodes.v[i]->slot = i;
    }
    for (int i = 0; i < n_ends; i++)
        s->ends[ends[i]->slot] = true;
    return true;
}

static bool is_inner(const tpi_sweep *s, int i)
{
    return tpi_passes_gradient(s->nodes.v[i]) && !s->ends[i];
}

bool tpi_sweep_goes_through(const tpi_sweep *s, int i)
{
    return s->depends[i] && is_inner(s, i);
}

bool tpi_sweep_is_product(const tpi_sweep *s, int i)
{
    const tp_tensor *t = s->nodes.v[i];
    return t->op && t->rank == 2 && tpi_is_product(t) && tpi_sweep_goes_through(s, i);
}

void tpi_sweep_spread(tpi_sweep *s)
{
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *t = s->nodes.v[i];
        if (s->depends[i] || !is_inner(s, i))
            continue;
        for (int k = tpi_way_first(s->nodes.way, t); k < t->n_in && !s->depends[i]; k++)
            s->depends[i] = s->depends[t->in[k]->slot];
    }
}

/* Adds dx to a sum that nobody else can see, where it lies: the bits of tp_add, without a new
 * tensor as large as the weights for each node that uses them. Not where tp_add looks for NaN. */
static bool fold_in_place(const tpi_sweep *s, tp_tensor *sum, const tp_tensor *dx)
{
    const tpi_buf *b = sum->buf;
    if (s->ctx->caller.recording || s->ctx->frame || s->ctx->trap_nan || sum->refs != 1 ||
        sum->in || sum->graph || sum->status != TP_OK || !b || b->refs != 1 || !b->size ||
        !(sum->flags & TPI_CONTIGUOUS))
        return false;
    if (dx->graph || dx->status != TP_OK || dx->dtype != sum->dtype ||
        !(dx->flags & TPI_CONTIGUOUS) || dx->rank != sum->rank ||
        memcmp(dx->shape, sum->shape, sizeof(int64_t) * sum->rank) != 0)
        return false;
    const int type = tpi_row_type(sum->dtype);
    const tpi_row_fn add =
        type < TPI_N_ROW_TYPES ? s->ctx->kernels->row[TPI_ELEM_add][type][0] : NULL;
    if (!add)
        return false;
    TPI_DEFAULT_FLOAT_MODE;
    char part[2048]; /* no kernel may write what it reads */
    const size_t size = tp_dtype_size((tp_dtype)sum->dtype);
    const int64_t n = tpi_count(sum), step = (int64_t)(sizeof part / size);
    for (int64_t i = 0; i < n; i += step) {
        const int64_t m = n - i < step ? n - i : step;
        char *to = (char *)sum->data + (size_t)i * size;
        add(m, part, to, (const char *)dx->data + (size_t)i * size, NULL);
        memcpy(to, part, (size_t)m * size);
    }
    return true;
}

/* In the sweep of a turn that is recorded a cotangent of a later turn may come first, and may be
 * none at the last turns: then too what comes first is a node of its own, so that gradients
 * of this gradient add up in the same order at every turn. */
static tp_tensor *entered(const tpi_sweep *s, const tp_tensor *node, tp_tensor *dx)
{
    if (!s->enters || dx->status != TP_OK)
        return dx;
    tp_tensor *t = tpi_enter_turns(TPI_AT(node->file, node->line), dx);
    tpi_ref(t);
    tpi_unref(dx);
    return t;
}

void tpi_sweep_seed(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dy)
{
    if (s->grad[slot])
        tpi_sweep_fold(s, node, slot, dy);
    else
        s->grad[slot] = dy;
}

void tpi_sweep_fold(tpi_sweep *s, const tp_tensor *node, int slot, tp_tensor *dx)
{
    tp_tensor **sum = &s->grad[slot];
    if (!*sum) {
        *sum = entered(s, node, dx);
        return;
    }
    if (s->ctx->frame && tpi_sweep_put_off(s, node, slot, dx))
        return;
    tpi_sweep_settle(s, slot);
    if (fold_in_place(s, *sum, dx)) {
        tpi_unref(dx);
        return;
    }
    tp_tensor *more = tp_add_at(node->file, node->line, *sum, dx);
    tpi_ref(more);
    tpi_unref(*sum);
    tpi_unref(dx);
    *sum = more;
}

/* A program's calls nest as its C calls do. Those of a text may be nested deeper than the C stack,
 * or share what is inside them, each time twice as often. */
bool tpi_sweep_enter(const tpi_sweep *s, const tp_tensor *node)
{
    const bool low = s->depth > 0 && tpi_stack_is_low(&s->ctx->caller.stack);
    if (s->depth < MAX_DEPTH && s->left > 0 && !low)
        return true;
    tpi_fail_status(
        s->ctx, node->file ? TPI_AT(node->file, node->line) : s->at, "gradient", TP_E_LIMIT,
        low ? "calls are nested %d deep, which leaves too little of the thread's stack"
        : s->left > 0 ? "calls are nested more than %d deep"
                      : "calls share what is inside them",
        s->depth);
    return false;
}

tp_tensor *tpi_all(tpi_at at, tp_tensor *x, double value)
{
    tp_tensor *one = tp_scalar_like_at(at.file, at.line, x, value);
    return x->rank ? tp_broadcast_at(at.file, at.line, one, x->rank, x->shape) : one;
}
