/* What is the same in all turns of a loop is computed once, before it.
 *
 *     %7 = loop %z, %w {b = transpose %w; s = exp %w; ... reads b and s}
 *  -> %5 = transpose %w     %6 = exp %w     %7 = loop %z, %5, %6 {... reads them}
 *
 * A loop reads what it captures without gaps, so a matrix that was turned lies in memory as products read it.
 * Other views stay: they cost nothing. What is computed moves only when there surely is a turn, and it
 * takes no more memory than what it is of. */
#include "ir/body.h"
#include "ir/factors.h"
#include "op/sizes.h"
#include "pass/bodies.h"
#include "pass/pass.h"

typedef struct hoist {
    tp_graph *g;
    tp_tensor *loop;
    const tpi_loop_attrs *a;
    tp_tensor **outer; /* by node of the body: what is the same outside; NULL: nothing */
    tp_tensor **param; /* by node of the body: the new param for it */
    tpi_nodes in;      /* operands of the new loop */
} hoist;

/* -1: not known, or too many */
static int64_t elements(const tp_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        if (tpi_dim_is_symbolic(t->shape[i]) || __builtin_mul_overflow(n, t->shape[i], &n))
            return -1;
    return n;
}

/* Could a run refuse its operand's sizes? Then it is to do so only where there is a turn. */
static bool may_be_refused(const tp_tensor *t)
{
    tpi_range r;
    const bool sized = elements(t->in[0]) >= 0 && elements(t) >= 0;
    return !tpi_takes_any_size(t) && !(sized && t->op->range && t->op->range(t, &r));
}

static bool may_move(const hoist *h, const tp_tensor *t)
{
    const tpi_loop_attrs *a = h->a;
    const bool turns = !a->has_pred && !tpi_dim_is_symbolic(a->count) && a->count > 0;
    if (t->op->kind == TPI_VIEW)
        return !tpi_stretched_by(t) && (turns || !may_be_refused(t));
    if (!turns || (t->op->kind != TPI_ELEMENT && t->op->kind != TPI_REDUCE && !t->op->contract))
        return false;
    int64_t room = 0;
    for (int k = 0; k < t->n_in; k++) {
        const int64_t n = elements(t->in[k]);
        if (n < 0 || __builtin_add_overflow(room, n, &room))
            return false;
    }
    return elements(t) >= 0 && elements(t) <= room;
}

/* What node t of the body, all of whose operands are computed outside, is there. */
static tp_tensor *move(hoist *h, const tp_tensor *t)
{
    tp_tensor *in[4];
    for (int k = 0; k < t->n_in; k++)
        in[k] = h->outer[t->in[k]->index];
    tpi_rewrite rw = {.ctx = h->g->ctx, .to = h->g};
    return tpi_rewrite_node(&rw, t, t->op, t->n_in, in, t->attrs);
}

static bool find_outer(hoist *h, int n)
{
    const tpi_body *b = h->a->body;
    const int64_t inside = h->a->n_carried + h->a->n_slices;
    for (int64_t p = 1 + inside; p < b->n_params; p++)
        h->outer[b->params[p]->index] = h->loop->in[h->a->has_pred + p - 1];
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        bool all = t->op->kind != TPI_SOURCE && t->n_in > 0 && t->n_in <= 4 && may_move(h, t);
        for (int k = 0; k < t->n_in && all; k++)
            all = h->outer[t->in[k]->index] != NULL;
        if (all && (h->outer[i] = move(h, t))->status != TP_OK)
            return false;
    }
    return true;
}

/* The param that stands for a node which moved, when it is worth one: in *t. False: no memory. */
static bool replace(hoist *h, tp_tensor **t)
{
    tp_tensor *old = *t, *outer = h->outer[old->index], **p = &h->param[old->index];
    if (!outer || tpi_param_of(old) || (old->op->kind == TPI_VIEW && !tpi_turns_axes(old)))
        return true;
    if (!*p) {
        *p = tpi_body_param(h->a->body, TPI_AT(old->file, old->line), (tp_dtype)old->dtype,
                            old->rank, old->shape, NULL);
        if ((*p)->status != TP_OK)
            return false;
        (*p)->seq = old->seq;
        tpi_nodes_push(&h->in, outer);
    }
    *t = *p;
    return !h->in.failed;
}

static bool rewire(hoist *h, int n)
{
    const tpi_body *b = h->a->body;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        tp_tensor *t = b->graph->nodes[i];
        if (h->outer[i] || t->op->kind == TPI_SOURCE)
            continue;
        for (int k = 0; k < t->n_in && ok; k++) {
            tp_tensor *x = t->in[k];
            ok = replace(h, &x);
            tpi_replace_operand(t, k, x);
        }
    }
    for (int i = 0; i < b->n_outputs && ok; i++)
        ok = replace(h, &b->outputs[i]);
    return ok;
}

static bool hoist_loop(tp_graph *g, tp_tensor *loop, int *n_changes)
{
    const tpi_loop_attrs *a = loop->attrs;
    const size_t n = (size_t)a->body->graph->n_nodes;
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    hoist h = {
        .g = g, .loop = loop, .a = a, .in = {.ctx = g->ctx, .room = &memory}
    };
    h.outer = tpi_bump_take(&memory, n, sizeof *h.outer);
    h.param = tpi_bump_take(&memory, n, sizeof *h.param);
    for (int i = 0; i < loop->n_in; i++)
        tpi_nodes_push(&h.in, loop->in[i]);
    const int first = g->n_nodes;
    bool ok = !memory.failed && find_outer(&h, (int)n);
    tpi_put_before(g, loop, first, g->n_nodes);
    ok = ok && rewire(&h, (int)n);
    if (ok && h.in.n > loop->n_in) {
        *n_changes += h.in.n - loop->n_in;
        tp_tensor *made = tpi_loop_node(g, TPI_AT(loop->file, loop->line), a, h.in.n, h.in.v);
        ok = made->status == TP_OK;
        if (ok)
            tpi_replace_block(loop, made);
    }
    tpi_bump_free(&memory);
    return ok;
}

/* Bodies last, as in restack.c. */
static bool hoist_graph(tp_graph *g, int *n_changes)
{
    const int n = g->n_nodes;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        if (tpi_loop_of(g->nodes[i]))
            ok = hoist_loop(g, g->nodes[i], n_changes);
    return ok && tpi_each_body(g, n, hoist_graph, n_changes);
}

const tpi_pass tpi_pass_hoist = {.name = "hoist",
                                 .about = "what all turns of a loop share is computed once",
                                 .prepare = hoist_graph,
                                 .visit = tpi_keep_node};
