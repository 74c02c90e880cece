/* Sizes that a loop binds when it has run are read where they are bound. */
#include "ir/check.h"
#include "ir/notation.h"

#include <string.h>

int tpi_binds(const tpi_dims *dims, const tp_tensor *t)
{
    const tpi_loop_attrs *a = t->attrs;
    int symbol;
    return t->op == &tpi_op_loop && a->has_pred && a->length &&
                   tpi_dim_as_symbol(dims, a->length, &symbol)
               ? symbol
               : -1;
}

/* ---- is a size one? ------------------------------------------------------------------------------ */

static bool binds_inside(const tp_graph *g, int symbol)
{
    bool is = false;
    const int n = g->n_bodies ? g->n_nodes : 0; /* without a body there is no block */
    for (int i = 0; i < n && !is; i++) {
        tpi_body *bodies[2];
        if (!tpi_is_block(g->nodes[i]))
            continue;
        is = tpi_binds(g->dims, g->nodes[i]) == symbol;
        for (int k = tpi_bodies_of(g->nodes[i], bodies) - 1; k >= 0 && !is; k--)
            is = binds_inside(bodies[k]->graph, symbol);
    }
    return is;
}

bool tpi_is_turns(const tp_graph *g, int64_t size)
{
    int symbol;
    bool is = false;
    if (tpi_dim_is_symbolic(size) && tpi_dim_as_symbol(g->dims, size, &symbol))
        for (; g && !is; g = g->parent)
            is = binds_inside(g, symbol);
    return is;
}

bool tpi_tells_turns(const tp_tensor *xs, int64_t count)
{
    if (xs->op == &tpi_op_param)
        return xs->shape[0] == count && tpi_is_turns(xs->graph, count);
    if (xs->op != &tpi_op_output || xs->in[0]->op != &tpi_op_loop)
        return false;
    const tpi_loop_attrs *from = xs->in[0]->attrs;
    return from->has_pred && from->length == count;
}

/* ---- is it known where it is read? ----------------------------------------------------------------- */

/* of a symbol: no loop's; one's, and not known here; known; and known since it is in the sizes of a
 * param, of a body that is BY_PARAM - state deep */
enum { FED, UNBOUND, BOUND, BY_PARAM };

typedef struct walk {
    tp_ctx *ctx;
    const tpi_dims *dims;
    char *state;  /* by symbol */
    int n_bodies; /* numbers given away, as in the text */
    int body, at; /* of the node that is looked at: its body's number, its place */
    const tp_tensor *t;
    int depth;
    bool is_side; /* the body is that of a cond */
    bool all;     /* none may be unknown, not even one that a block keeps */
    tpi_rule_error *why;
} walk;

__attribute__((format(printf, 2, 3))) static bool refuse(const walk *w, const char *fmt, ...)
{
    char text[120], number[32];
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    if (w->body)
        snprintf(number, sizeof number, "%d.%d", w->body, w->at);
    else
        snprintf(number, sizeof number, "%d", w->at);
    snprintf(w->why->text, sizeof w->why->text, "node %%%s (%s): %s", number, w->t->op->name,
             text);
    return false;
}

static int bound_by(const walk *w, const tp_tensor *t)
{
    return tpi_binds(w->dims, t);
}

static void mark_all(walk *w, int n, tp_tensor *const *nodes)
{
    for (int i = 0; i < n; i++) {
        tpi_body *bodies[2];
        if (!tpi_is_block(nodes[i]))
            continue;
        const int symbol = bound_by(w, nodes[i]);
        if (symbol >= 0)
            w->state[symbol] = UNBOUND;
        for (int k = tpi_bodies_of(nodes[i], bodies) - 1; k >= 0; k--)
            mark_all(w, bodies[k]->graph->n_nodes, bodies[k]->graph->nodes);
    }
}

/* ---- an unbound symbol of a size: its number + 1, or 0 ------------------------------------------ */

static int unbound(void *user, int i)
{
    const walk *w = user;
    return w->state[i] == UNBOUND ? i + 1 : 0;
}

static bool sizes_known(walk *w, int64_t n, const int64_t *sizes)
{
    for (int64_t i = 0; i < n; i++) {
        const int symbol = tpi_dim_ask(w->dims, sizes[i], unbound, w) - 1;
        if (symbol >= 0)
            return refuse(w,
                          "size %.60s is not known here: the loop that binds it is not before",
                          tpi_dim_symbol_name(w->dims, symbol));
    }
    return true;
}

/* `length` is what a loop binds. */
static bool attrs_known(walk *w, const tp_tensor *t)
{
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++) {
        const int64_t *p = (const int64_t *)(const void *)((const char *)t->attrs + a->offset);
        const bool own = t->op == &tpi_op_loop && a->offset == offsetof(tpi_loop_attrs, length);
        if (a->type == TPI_ATTR_DIM && !own && !sizes_known(w, 1, p))
            return false;
        if (a->type == TPI_ATTR_DIMS && !sizes_known(w, p[0], p + 1))
            return false;
    }
    return true;
}

/* What a block keeps for its gradient may have sizes that its bodies know: such a value is only added to
 * others, and goes to another block, in whose bodies the param is that of the same turn or side. */
static bool is_kept_inside(const walk *w, const tp_tensor *t)
{
    if (w->all)
        return false;
    switch (t->op->code) {
    case TPI_OP_output:
    case TPI_OP_enter:
    case TPI_OP_result:
    case TPI_OP_add:
        return true;
    case TPI_OP_broadcast: /* zeros, of the side that keeps nothing */
        return w->is_side && t->in[0]->op == &tpi_op_const;
    default:
        return false;
    }
}

typedef struct param_sizes {
    walk *w;
    char from, to; /* symbols in this state come to that one */
} param_sizes;

static int set_symbol(void *user, int i)
{
    const param_sizes *p = user;
    if (p->w->state[i] == p->from)
        p->w->state[i] = p->to;
    return 0;
}

/* The symbols in the sizes of the params among nodes[]. */
static void set_params(walk *w, int n, tp_tensor *const *nodes, char from, char to)
{
    param_sizes p = {w, from, to};
    for (int i = 0; i < n && !w->all; i++)
        for (int k = 0; k < nodes[i]->rank && nodes[i]->op == &tpi_op_param; k++)
            tpi_dim_ask(w->dims, nodes[i]->shape[k], set_symbol, &p);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool bind(walk *w, const tp_tensor *t)
{
    const int symbol = bound_by(w, t);
    if (symbol < 0) {
        const tpi_loop_attrs *a = t->attrs;
        if (t->op != &tpi_op_loop || !a->length || (!a->has_pred && a->length == a->count))
            return true;
        return refuse(w,
                      a->has_pred ? "length is no symbol of its own" : "length is not count");
    }
    if (w->state[symbol] != UNBOUND)
        return refuse(w, "length is %.60s, which a loop before binds",
                      tpi_dim_symbol_name(w->dims, symbol));
    w->state[symbol] = BOUND;
    return true;
}

static bool look(walk *w, int n, tp_tensor *const *nodes, int body)
{
    bool ok = true;
    const char by_param = (char)(BY_PARAM + w->depth++);
    set_params(w, n, nodes, UNBOUND, by_param);
    for (int i = 0; i < n && ok; i++) {
        const tp_tensor *t = nodes[i];
        w->t = t, w->body = body, w->at = i;
        ok = is_kept_inside(w, t) || (sizes_known(w, t->rank, t->shape) && attrs_known(w, t));
        if (!ok || !tpi_is_block(t))
            continue;
        tpi_body *bodies[2];
        const int n_bodies = tpi_bodies_of(t, bodies), first = w->n_bodies + 1;
        w->n_bodies += n_bodies;
        const bool is_side = w->is_side;
        w->is_side = t->op == &tpi_op_cond;
        for (int k = 0; k < n_bodies && ok; k++)
            ok = look(w, bodies[k]->graph->n_nodes, bodies[k]->graph->nodes, first + k);
        w->is_side = is_side;
        w->t = t, w->body = body, w->at = i;
        ok = ok && bind(w, t);
    }
    for (int i = 0; i < n; i++) { /* what this body bound is not known outside */
        const int symbol = bound_by(w, nodes[i]);
        if (symbol >= 0)
            w->state[symbol] = UNBOUND;
    }
    set_params(w, n, nodes, by_param, UNBOUND);
    w->depth--;
    return ok;
}

bool tpi_check_turns(tp_ctx *ctx, const tpi_dims *dims, int n, tp_tensor *const *nodes,
                     bool all, tpi_rule_error *why)
{
    const size_t bytes = (size_t)tpi_dim_n_symbols(dims);
    walk w = {
        .ctx = ctx, .dims = dims, .all = all, .why = why, .state = tpi_take(&ctx->mem, bytes)};
    snprintf(why->text, sizeof why->text, "out of memory");
    if (!w.state) {
        tpi_no_memory(ctx, TPI_AT(NULL, 0), "compile"); /* no other error of the caller's */
        return false;
    }
    if (bytes)
        memset(w.state, FED, bytes);
    mark_all(&w, n, nodes);
    const bool ok = look(&w, n, nodes, 0);
    tpi_give_back(&ctx->mem, w.state, bytes);
    return ok;
}
