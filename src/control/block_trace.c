/* Blocks in a graph: each body is run once by the user's code, and becomes a graph in the node. */
#include "control/open_block.h"
#include "op/op.h"

#include <string.h>

static bool fail(tp_block *b, tp_tensor *failed)
{
    tpi_block_fail(b, failed);
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* What a loop takes: a node of its own, as on tapes (op/turn_values.c). */
static tp_tensor *enter(tp_block *b, tpi_at at, tp_tensor *x)
{
    tp_tensor *t = tpi_graph_lift(b->g, at, x);
    if (t->status != TP_OK || t->dtype < TP_F32)
        return t;
    return tpi_graph_node(b->g, at, &tpi_op_enter, 1, &t, NULL, (tp_dtype)t->dtype, t->rank,
                          t->shape);
}

static bool carry_in(tp_block *b, tpi_body *body)
{
    const tp_tensor *turn = tpi_body_param(body, b->at, TP_I64, 0, NULL, NULL);
    if (turn->status != TP_OK)
        return fail(b, (tp_tensor *)turn);
    for (int i = 0; i < b->n; i++) {
        tp_tensor *outer = enter(b, b->at, b->before[i]);
        if (outer->status != TP_OK)
            return fail(b, outer);
        tp_tensor *param = tpi_body_param(body, b->at, (tp_dtype)outer->dtype, outer->rank,
                                          outer->shape, outer);
        if (param->status != TP_OK)
            return fail(b, param);
        *b->vars[i] = param;
    }
    return true;
}

bool tpi_trace_open(tp_block *b, int side)
{
    b->ctx->tracing = b->traced;
    tpi_body *body = tpi_body_new(b->g, b->at);
    if (!body)
        return fail(b, b->ctx->status == TP_E_MEMORY
                           ? &b->ctx->nil
                           : tpi_fail(b->ctx, b->at, b->what, TP_E_STATE,
                                      "blocks nest deeper than %d", TPI_MAX_NESTING));
    b->body[side] = body;
    if (b->is_loop && !carry_in(b, body))
        return false;
    b->ctx->tracing = body->graph;
    return true;
}

tp_tensor *tpi_trace_each(tp_block *b, tpi_at at, tp_tensor *xs)
{
    for (int i = 0; i < b->n_each; i++)
        if (b->each[i].xs == xs)
            return b->each[i].rows;
    tp_tensor *outer = enter(b, at, xs);
    if (outer->status != TP_OK)
        return outer;
    tpi_each *v = tpi_block_room(b, b->each, b->n_each, &b->each_size, sizeof *v);
    if (!v)
        return &b->ctx->nil;
    b->each = v;
    tp_tensor *param = tpi_body_param(b->body[0], at, (tp_dtype)outer->dtype, outer->rank - 1,
                                      outer->shape + 1, outer);
    if (param->status != TP_OK)
        return param;
    tpi_ref(xs);
    v[b->n_each++] = (tpi_each){.xs = xs, .rows = param};
    return param;
}

/* ---- assignments in a body ----------------------------------------------------------------------- */

static tpi_write *find_write(tp_block *b, tp_tensor *variable)
{
    for (int i = 0; i < b->n_writes; i++)
        if (b->writes[i].variable == variable)
            return &b->writes[i];
    tpi_write *v = tpi_block_room(b, b->writes, b->n_writes, &b->writes_size, sizeof *v);
    if (!v)
        return NULL;
    b->writes = v;
    v[b->n_writes] = (tpi_write){.variable = variable};
    tpi_ref(variable);
    return &v[b->n_writes++];
}

tp_tensor *tpi_block_assign(tpi_at at, tp_graph *g, tp_tensor *variable, tp_tensor *value)
{
    static const char what[] = "assign";
    tp_ctx *ctx = g->ctx;
    tp_block *b = ctx->caller.blocks;
    while (b && !(b->symbolic && ((b->body[0] && b->body[0]->graph == g) ||
                                  (b->body[1] && b->body[1]->graph == g))))
        b = b->outer;
    if (!b || variable->graph || !(variable->flags & TPI_STATE))
        return tpi_fail(
            ctx, at, what, TP_E_STATE,
            "only a variable itself can be assigned in a block, not a view of one or "
            "a computed value (make it with tp_variable)");
    tp_tensor *was = tpi_graph_lift(g, at, variable), *is = tpi_graph_lift(g, at, value);
    if (was->status != TP_OK || is->status != TP_OK)
        return was->status != TP_OK ? was : is;
    if (was->dtype != is->dtype || !tpi_same_shape(was, is))
        return tpi_fail(ctx, at, what, was->dtype == is->dtype ? TP_E_SHAPE : TP_E_DTYPE,
                        "the variable is %s %s, the value %s %s",
                        tp_dtype_name((tp_dtype)was->dtype), SHAPE(was),
                        tp_dtype_name((tp_dtype)is->dtype), SHAPE(is));
    tpi_write *w = find_write(b, variable);
    if (!w)
        return &ctx->nil;
    if (!w->param)
        w->param = was;
    is = tp_detach_at(at.file, at.line,
                      is); /* a constant to gradients, as when assigned outside */
    if (is->status == TP_OK && !tpi_graph_assigned(g, variable, is))
        return tpi_no_memory(ctx, at, what);
    return is;
}

/* ---- closing ----------------------------------------------------------------------------------------- */

/* What variable i is at the end of the body, as a node of it; NULL: it has no value (of an if). */
static bool carry_out(tp_block *b, tpi_body *body, int i)
{
    tp_tensor *t = *b->vars[i];
    if (!t && !b->is_loop)
        return tpi_body_output(body, NULL) || fail(b, &b->ctx->nil);
    tp_tensor *failed = tpi_refuse_var(b, i);
    if (failed)
        return fail(b, failed);
    t = tpi_graph_lift(body->graph, b->at, t);
    if (t->status != TP_OK)
        return fail(b, t);
    const tp_tensor *p = b->is_loop ? body->params[1 + i] : t;
    if (p->dtype != t->dtype || !tpi_same_shape(p, t))
        return fail(b,
                    tpi_fail(b->ctx, b->at, b->what, TP_E_SHAPE,
                             "variable %d goes into a turn as %s %s and comes out as %s %s: it "
                             "has to keep its type and sizes",
                             i, tp_dtype_name((tp_dtype)p->dtype), SHAPE(p),
                             tp_dtype_name((tp_dtype)t->dtype), SHAPE(t)));
    return tpi_body_output(body, t) || fail(b, &b->ctx->nil);
}

static bool is_special(const tp_block *b, const tp_tensor *param)
{
    bool is = false;
    for (int i = 0; i < b->n_each && !is; i++)
        is = b->each[i].rows == param;
    for (int i = 0; i < b->n_writes && !is; i++)
        is = b->writes[i].param == param;
    return is;
}

/* What a turn assigns the next one sees, through views made before the loop too. In a graph it would
 * not, so a loop that reads such a view is refused. */
static bool refuse_views(tp_block *b, const tpi_body *body, const tp_tensor *variable)
{
    for (int i = 0; i < b->n_each; i++)
        if (tpi_shows(b->each[i].xs, variable))
            return fail(b, tpi_refuse_each(b));
    for (int i = 1 + b->n; i < body->n_params; i++)
        if (!is_special(b, body->params[i]) && tpi_shows(body->outers[i], variable))
            return fail(b, tpi_fail(b->ctx, b->at, b->what, TP_E_STATE,
                                    "a turn assigns the variable \"%s\" and reads a view of it "
                                    "(line %d) that was made before the loop: make the view in "
                                    "the block",
                                    variable->name, body->outers[i]->line));
    return true;
}

bool tpi_trace_close(tp_block *b, int side, tp_tensor *pred)
{
    tpi_body *body = b->body[side];
    if (pred) {
        pred = tpi_graph_lift(body->graph, b->at, pred);
        if (pred->status != TP_OK || !tpi_body_output(body, pred))
            return fail(b, pred->status != TP_OK ? pred : &b->ctx->nil);
    }
    for (int i = 0; i < b->n; i++)
        if (!carry_out(b, body, i))
            return false;
    for (int i = 0; i < b->n_writes && b->is_loop; i++)
        if (!refuse_views(b, body, b->writes[i].variable))
            return false;
    return true;
}

/* The variables that were assigned, at the end of the body: before the `n` outputs that are
 * there last. */
static bool write_out(tp_block *b, tpi_body *body, int n)
{
    for (int i = 0; i < b->n_writes; i++) {
        tp_tensor *t = tpi_graph_lift(body->graph, b->at, b->writes[i].variable);
        if (t->status != TP_OK || !tpi_body_output(body, t))
            return fail(b, t->status != TP_OK ? t : &b->ctx->nil);
        tp_tensor **last = &body->outputs[body->n_outputs - 1];
        memmove(last - n + 1, last - n, (size_t)n * sizeof *last);
        last[-n] = t;
    }
    return true;
}

/* Sets everything that comes out of the block: what is assigned, then the variables. */
static void set_outputs(tp_block *b, tp_tensor *node, const int *index)
{
    for (int i = 0; i < b->n; i++)
        if (index[i] >= 0)
            *b->vars[i] = tpi_output_node(b->g, b->at, node, b->n_writes + index[i]);
    for (int i = 0; i < b->n_writes; i++) {
        tp_tensor *value = tpi_output_node(b->g, b->at, node, i);
        tp_assign_at(b->at.file, b->at.line, b->writes[i].variable, value);
    }
}

/* ---- cond -------------------------------------------------------------------------------------------- */

/* Every capture of `from` is one of `to`. */
static bool share_captures(tp_block *b, const tpi_body *from, tpi_body *to)
{
    for (int i = 0; i < from->n_params; i++) {
        const tp_tensor *t = tpi_capture(to->graph, b->at, from->outers[i]);
        if (t->status != TP_OK)
            return fail(b, (tp_tensor *)t);
    }
    return true;
}

/* The params of `b1` in the order of those of `b0`. */
static bool order_like(tp_block *b, const tpi_body *b0, tpi_body *b1)
{
    const size_t bytes = (size_t)b0->n_params * sizeof(tp_tensor *);
    tp_tensor **order = tpi_take(&b->ctx->mem, bytes);
    if (!order)
        return fail(b, tpi_no_memory(b->ctx, b->at, b->what));
    for (int i = 0; i < b0->n_params; i++) {
        int k = 0;
        while (b1->outers[k] != b0->outers[i])
            k++;
        order[i] = b1->params[k];
    }
    tpi_body_order(b1, order);
    tpi_give_back(&b->ctx->mem, order, bytes);
    return true;
}

/* Drops variables that neither side gives a value, and sets index[] to the others' outputs. */
static bool match_sides(tp_block *b, int *index)
{
    tpi_body *then = b->body[0], *other = b->body[1];
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        tp_tensor *x = then->outputs[i], *y = other->outputs[i];
        index[i] = -1;
        if (!x && !y) {
            *b->vars[i] = NULL;
            continue;
        }
        if (!x || !y)
            return fail(b, tpi_fail(b->ctx, b->at, b->what, TP_E_NULL,
                                    "variable %d has a value on one side only: "
                                    "set it on the other too, or before the block",
                                    i));
        if (x->dtype != y->dtype || !tpi_same_shape(x, y))
            return fail(b, tpi_fail(b->ctx, b->at, b->what, TP_E_SHAPE,
                                    "variable %d is %s %s when the condition holds, and %s %s "
                                    "otherwise: make them equal (tp_reshape, tp_pad, tp_cast), "
                                    "or compute on, inside, what is equal",
                                    i, tp_dtype_name((tp_dtype)x->dtype), SHAPE(x),
                                    tp_dtype_name((tp_dtype)y->dtype), SHAPE(y)));
        then->outputs[n] = x;
        other->outputs[n] = y;
        index[i] = n++;
    }
    then->n_outputs = other->n_outputs = n;
    return true;
}

static void finish_cond(tp_block *b, int *index)
{
    tpi_body *then = b->body[0], *other = b->body[1];
    if (!match_sides(b, index))
        return;
    const int n = then->n_outputs;
    if (!write_out(b, then, n) || !write_out(b, other, n) || !share_captures(b, then, other) ||
        !share_captures(b, other, then) || !order_like(b, then, other))
        return;
    then->closed = other->closed = true;
    const tpi_cond_attrs attrs = {.then = then, .other = other, .n_writes = b->n_writes};
    const int n_in = 1 + then->n_params;
    const size_t bytes = (size_t)n_in * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&b->ctx->mem, bytes);
    if (!in) {
        fail(b, tpi_no_memory(b->ctx, b->at, b->what));
        return;
    }
    in[0] = b->pred;
    for (int i = 0; i < then->n_params; i++)
        in[1 + i] = then->outers[i];
    tp_tensor *node = tpi_cond_node(b->g, b->at, &attrs, n_in, in);
    tpi_give_back(&b->ctx->mem, in, bytes);
    if (node->status == TP_OK)
        set_outputs(b, node, index);
    else
        fail(b, node);
}

/* ---- loop -------------------------------------------------------------------------------------------- */

/* turn, assigned variables, listed ones, elements, captures. */
static bool order_params(tp_block *b, tpi_body *body)
{
    const size_t bytes = (size_t)body->n_params * sizeof(tp_tensor *);
    tp_tensor **order = tpi_take(&b->ctx->mem, bytes);
    if (!order)
        return fail(b, tpi_no_memory(b->ctx, b->at, b->what));
    int n = 0;
    order[n++] = body->params[0];
    for (int i = 0; i < b->n_writes; i++)
        order[n++] = b->writes[i].param;
    for (int i = 0; i < b->n; i++)
        order[n++] = body->params[1 + i];
    for (int i = 0; i < b->n_each; i++)
        order[n++] = b->each[i].rows;
    for (int i = 1 + b->n; i < body->n_params; i++)
        if (!is_special(b, body->params[i]))
            order[n++] = body->params[i];
    tpi_body_order(body, order);
    tpi_give_back(&b->ctx->mem, order, bytes);
    return true;
}

static bool set_length(tp_block *b, tpi_loop_attrs *a)
{
    if (!a->n_stacked || a->counted) {
        a->length = a->n_stacked ? a->count : 0;
        return true;
    }
    a->length = tpi_fresh_symbol(b->g, "turns");
    return a->length != TPI_NO_DIM || fail(b, tpi_no_memory(b->ctx, b->at, b->what));
}

static tp_tensor *loop_node(tp_block *b, tpi_body *body)
{
    tpi_loop_attrs attrs = {.body = body,
                            .n_carried = b->n + b->n_writes,
                            .n_slices = b->n_each,
                            .n_stacked = b->n_emit,
                            .has_pred = b->pred != NULL,
                            .counted = b->counted,
                            .back = b->back,
                            .n_writes = b->n_writes,
                            .count = b->counted ? b->count : 0,
                            .checkpoint = b->checkpoint};
    if (!set_length(b, &attrs))
        return NULL;
    const int first = b->pred != NULL, n_in = first + body->n_params - 1;
    const size_t bytes = (size_t)(n_in + 1) * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&b->ctx->mem, bytes);
    if (!in) {
        fail(b, tpi_no_memory(b->ctx, b->at, b->what));
        return NULL;
    }
    if (first)
        in[0] = b->pred;
    memcpy(in + first, body->outers + 1, (size_t)(body->n_params - 1) * sizeof *in);
    tp_tensor *node = tpi_loop_node(b->g, b->at, &attrs, n_in, in);
    tpi_give_back(&b->ctx->mem, in, bytes);
    if (node->status == TP_OK)
        return node;
    fail(b, node);
    return NULL;
}

static void finish_loop(tp_block *b, int *index)
{
    tpi_body *body = b->body[0];
    if (!write_out(b, body, b->n))
        return;
    for (int i = 0; i < b->n_emit; i++)
        if (!tpi_body_output(body, b->emit[i].items[0])) {
            fail(b, &b->ctx->nil);
            return;
        }
    if (!order_params(b, body))
        return;
    body->closed = true;
    tp_tensor *node = loop_node(b, body);
    if (!node)
        return;
    for (int i = 0; i < b->n; i++)
        index[i] = i;
    set_outputs(b, node, index);
    for (int i = 0; i < b->n_emit; i++)
        *b->emit[i].place = tpi_output_node(b->g, b->at, node, b->n + b->n_writes + i);
}

void tpi_trace_finish(tp_block *b)
{
    const size_t bytes = (size_t)b->n * sizeof(int);
    b->ctx->tracing = b->traced;
    int *index = tpi_take(&b->ctx->mem, bytes);
    if (!index)
        fail(b, tpi_no_memory(b->ctx, b->at, b->what));
    else if (b->is_loop)
        finish_loop(b, index);
    else
        finish_cond(b, index);
    tpi_give_back(&b->ctx->mem, index, bytes);
}
