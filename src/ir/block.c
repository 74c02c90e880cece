/* cond, loop, output: see ir/body.h. The shape rules hold what comes from texts to it. */
#include "ir/body.h"
#include "ir/factors.h"
#include "ir/op_rules.h"

#include <string.h>

static bool same_type(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b);
}

/* Does `x` go to a param of type `p`? `lead`: without its first axis, which is `count`. */
static bool fits(tpi_infer *q, int i, const tp_tensor *p, bool lead, int64_t count)
{
    const tp_tensor *x = q->in[i];
    const bool ok = lead ? x->rank == p->rank + 1 && x->shape[0] == count &&
                               x->dtype == p->dtype &&
                               memcmp(x->shape + 1, p->shape, sizeof(int64_t) * p->rank) == 0
                         : same_type(x, p);
    return ok ||
           tpi_refuse(q, TP_E_SHAPE, "operand %d, %s %s, is not what the block takes: %s %s", i,
                      tp_dtype_name((tp_dtype)x->dtype), SHAPE(x),
                      tp_dtype_name((tp_dtype)p->dtype), SHAPE(p));
}

static bool is_pred(const tp_tensor *t)
{
    return t->dtype == TP_BOOL && t->rank == 0;
}

static bool token(tpi_infer *q)
{
    q->dtype = TP_BOOL;
    q->rank = 0;
    return true;
}

/* ---- what a block is -------------------------------------------------------------------------- */

int tpi_bodies_of(const tp_tensor *block, tpi_body **out)
{
    if (block->op == &tpi_op_cond) {
        const tpi_cond_attrs *a = block->attrs;
        out[0] = a->then;
        out[1] = a->other;
        return 2;
    }
    out[0] = ((const tpi_loop_attrs *)block->attrs)->body;
    return 1;
}

int tpi_n_outputs_of(const tp_tensor *block)
{
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    const bool pred =
        block->op == &tpi_op_loop && ((const tpi_loop_attrs *)block->attrs)->has_pred;
    return bodies[0]->n_outputs - pred;
}

int tpi_n_writes_of(const tp_tensor *block)
{
    return (int)(block->op == &tpi_op_cond ? ((const tpi_cond_attrs *)block->attrs)->n_writes
                                           : ((const tpi_loop_attrs *)block->attrs)->n_writes);
}

void tpi_output_type(const tp_tensor *block, int64_t index, tp_dtype *dtype, int *rank,
                     int64_t *shape)
{
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    int lead = 0;
    if (block->op == &tpi_op_loop) {
        const tpi_loop_attrs *a = block->attrs;
        lead = index >= a->n_carried;
        shape[0] = a->length;
        index += a->has_pred;
    }
    const tp_tensor *t = bodies[0]->outputs[index];
    *dtype = (tp_dtype)t->dtype;
    *rank = t->rank + lead;
    memcpy(shape + lead, t->shape, sizeof(int64_t) * t->rank);
}

/* ---- cond ---------------------------------------------------------------------------------- */

/* clang-format off */
static const tpi_attr cond_table[] = {
    {"then", TPI_ATTR_BODY, offsetof(tpi_cond_attrs, then)},
    {"other", TPI_ATTR_BODY, offsetof(tpi_cond_attrs, other)},
    {"writes", TPI_ATTR_INT, offsetof(tpi_cond_attrs, n_writes)},
    {0},
};
/* clang-format on */

static bool cond_infer(tpi_infer *q)
{
    const tpi_cond_attrs *a = q->attrs;
    const tpi_body *then = a->then, *other = a->other;
    if (!is_pred(q->in[0]))
        return tpi_refuse(q, TP_E_DTYPE, "the condition is %s %s, not one bool",
                          tp_dtype_name((tp_dtype)q->in[0]->dtype), SHAPE(q->in[0]));
    if (then->n_params != q->n_in - 1 || other->n_params != q->n_in - 1)
        return tpi_refuse(q, TP_E_VALUE, "%d operands for %d and %d params", q->n_in - 1,
                          then->n_params, other->n_params);
    for (int i = 1; i < q->n_in; i++)
        if (!fits(q, i, then->params[i - 1], false, 0) ||
            !fits(q, i, other->params[i - 1], false, 0))
            return false;
    if (then->n_outputs != other->n_outputs)
        return tpi_refuse(q, TP_E_VALUE, "the sides give %d and %d outputs", then->n_outputs,
                          other->n_outputs);
    if (a->n_writes < 0 || a->n_writes > then->n_outputs)
        return tpi_refuse(q, TP_E_VALUE, "%lld of %d outputs are written",
                          (long long)a->n_writes, then->n_outputs);
    for (int i = 0; i < then->n_outputs; i++)
        if (!same_type(then->outputs[i], other->outputs[i]))
            return tpi_refuse(
                q, TP_E_SHAPE, "output %d is %s %s or %s %s", i,
                tp_dtype_name((tp_dtype)then->outputs[i]->dtype), SHAPE(then->outputs[i]),
                tp_dtype_name((tp_dtype)other->outputs[i]->dtype), SHAPE(other->outputs[i]));
    return token(q);
}

const tpi_op tpi_op_cond = {.name = "cond",
                            .code = TPI_OP_cond,
                            .kind = TPI_BLOCK,
                            .n_in = -1,
                            .attrs = cond_table,
                            .attrs_size = sizeof(tpi_cond_attrs),
                            .infer = cond_infer,
                            .factors = tpi_whole_factors,
                            .grad = tpi_grad_by_sweep};

/* ---- loop ---------------------------------------------------------------------------------- */

/* clang-format off */
static const tpi_attr loop_table[] = {
    {"body", TPI_ATTR_BODY, offsetof(tpi_loop_attrs, body)},
    {"carried", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_carried)},
    {"slices", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_slices)},
    {"stacked", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_stacked)},
    {"pred", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, has_pred)},
    {"counted", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, counted)},
    {"back", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, back)},
    {"count", TPI_ATTR_DIM, offsetof(tpi_loop_attrs, count)},
    {"length", TPI_ATTR_DIM, offsetof(tpi_loop_attrs, length)},
    {"writes", TPI_ATTR_INT, offsetof(tpi_loop_attrs, n_writes)},
    {"checkpoint", TPI_ATTR_BOOL, offsetof(tpi_loop_attrs, checkpoint)},
    {0},
};
/* clang-format on */

static bool counts_fit(tpi_infer *q, const tpi_loop_attrs *a)
{
    const tpi_body *b = a->body;
    const int64_t most = 1 << 20;
    if (a->n_carried < 0 || a->n_slices < 0 || a->n_stacked < 0 || a->n_carried > most ||
        a->n_slices > most || a->n_stacked > most)
        return tpi_refuse(q, TP_E_VALUE,
                          "a number of carried values, slices or outputs is absurd");
    if (!a->has_pred && !a->counted)
        return tpi_refuse(q, TP_E_VALUE, "it has no condition and no count");
    if (!a->counted && (a->n_slices || a->back))
        return tpi_refuse(q, TP_E_VALUE, "slices and turns backwards need a count");
    if (a->back && a->has_pred)
        return tpi_refuse(q, TP_E_VALUE, "turns backwards have no condition");
    if (!a->has_pred && a->n_stacked && a->length != a->count)
        return tpi_refuse(q, TP_E_VALUE, "length is not count");
    int symbol;
    if (a->has_pred && a->n_stacked && !tpi_dim_as_symbol(q->dims, a->length, &symbol))
        return tpi_refuse(q, TP_E_VALUE, "length is no symbol of its own");
    if (q->n_in < a->has_pred + a->n_carried + a->n_slices ||
        b->n_params != q->n_in - a->has_pred + 1)
        return tpi_refuse(q, TP_E_VALUE, "%d operands for %d params", q->n_in, b->n_params);
    if (b->n_outputs != a->has_pred + a->n_carried + a->n_stacked)
        return tpi_refuse(q, TP_E_VALUE, "the body gives %d outputs, not %lld", b->n_outputs,
                          (long long)(a->has_pred + a->n_carried + a->n_stacked));
    return true;
}

static bool loop_infer(tpi_infer *q)
{
    const tpi_loop_attrs *a = q->attrs;
    const tpi_body *b = a->body;
    if (!counts_fit(q, a))
        return false;
    const int first = (int)a->has_pred, carried = (int)a->n_carried;
    if (b->params[0]->dtype != TP_I64 || b->params[0]->rank != 0)
        return tpi_refuse(q, TP_E_DTYPE, "the first param is no turn (i64)");
    if (a->has_pred && (!is_pred(q->in[0]) || !is_pred(b->outputs[0])))
        return tpi_refuse(q, TP_E_DTYPE, "the condition is not one bool");
    for (int i = first; i < q->n_in; i++) {
        const int k = i - first;
        const bool slice = k >= carried && k < carried + a->n_slices;
        if (!fits(q, i, b->params[k + 1], slice, a->count))
            return false;
    }
    for (int k = 0; k < carried; k++)
        if (!same_type(b->params[k + 1], b->outputs[first + k]))
            return tpi_refuse(
                q, TP_E_SHAPE, "carried value %d goes in as %s %s and comes out as %s %s", k,
                tp_dtype_name((tp_dtype)b->params[k + 1]->dtype), SHAPE(b->params[k + 1]),
                tp_dtype_name((tp_dtype)b->outputs[first + k]->dtype),
                SHAPE(b->outputs[first + k]));
    return token(q);
}

const tpi_op tpi_op_loop = {.name = "loop",
                            .code = TPI_OP_loop,
                            .kind = TPI_BLOCK,
                            .n_in = -1,
                            .attrs = loop_table,
                            .attrs_size = sizeof(tpi_loop_attrs),
                            .infer = loop_infer,
                            .factors = tpi_whole_factors,
                            .grad = tpi_grad_by_sweep};

/* ---- output --------------------------------------------------------------------------------- */

static bool output_infer(tpi_infer *q)
{
    const tpi_index_attrs *a = q->attrs;
    if (!tpi_is_block(q->in[0]))
        return tpi_refuse(q, TP_E_STATE, "operand 0 is no block");
    if (a->index < 0 || a->index >= tpi_n_outputs_of(q->in[0]))
        return tpi_refuse(q, TP_E_VALUE, "output %lld is not one of the block's %d",
                          (long long)a->index, tpi_n_outputs_of(q->in[0]));
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(q->in[0], a->index, &q->dtype, &q->rank, shape);
    if (q->rank > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "stacked, it has more than %d axes", TP_MAX_RANK);
    memcpy(q->shape, shape, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

const tpi_op tpi_op_output = {.name = "output",
                              .code = TPI_OP_output,
                              .kind = TPI_PORT,
                              .awaits = 1,
                              .n_in = 1,
                              .attrs = tpi_index_table,
                              .attrs_size = sizeof(tpi_index_attrs),
                              .infer = output_infer,
                              .factors = tpi_whole_factors,
                              .grad = tpi_grad_by_sweep};

/* ---- making them ------------------------------------------------------------------------------- */

tp_tensor *tpi_cond_node(tp_graph *g, tpi_at at, const tpi_cond_attrs *a, int n_in,
                         tp_tensor *const *in)
{
    return tpi_graph_node(g, at, &tpi_op_cond, n_in, in, a, TP_BOOL, 0, NULL);
}

/* What `from` takes of outside, `to` takes too: its params for them. NULL: good; or what failed. */
static tp_tensor *take_too(tpi_at at, tpi_body *to, const tpi_body *from, tp_tensor **params)
{
    for (int i = 0; i < from->n_params; i++) {
        params[i] = tpi_graph_lift(to->graph, at, from->outers[i]);
        if (params[i]->status != TP_OK)
            return params[i];
    }
    return NULL;
}

tp_tensor *tpi_cond_close(tp_graph *g, tpi_at at, tp_tensor *pred, tpi_body *then,
                          tpi_body *other)
{
    tpi_mem *m = &g->ctx->mem;
    const size_t most = (size_t)(then->n_params + other->n_params + 1),
                 bytes = most * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(m, bytes);
    if (!in)
        return tpi_no_memory(g->ctx, at, "block");
    tp_tensor *node = take_too(at, then, other, in);
    node = node ? node : take_too(at, other, then, in);
    if (!node) {
        tpi_body_order(other, in);
        in[0] = pred;
        for (int i = 0; i < then->n_params; i++)
            in[i + 1] = then->outers[i];
        then->closed = other->closed = true;
        const tpi_cond_attrs a = {.then = then, .other = other};
        node = tpi_cond_node(g, at, &a, 1 + then->n_params, in);
    }
    tpi_give_back(m, in, bytes);
    return node;
}

tp_tensor *tpi_loop_node(tp_graph *g, tpi_at at, const tpi_loop_attrs *a, int n_in,
                         tp_tensor *const *in)
{
    return tpi_graph_node(g, at, &tpi_op_loop, n_in, in, a, TP_BOOL, 0, NULL);
}

tp_tensor *tpi_output_node(tp_graph *g, tpi_at at, tp_tensor *block, int64_t index)
{
    const tpi_index_attrs attrs = {.index = index};
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(block, index, &dtype, &rank, shape);
    if (rank > TP_MAX_RANK)
        return tpi_fail(g->ctx, at, "output", TP_E_SHAPE, "stacked, this has more than %d axes",
                        TP_MAX_RANK);
    return tpi_graph_node(g, at, &tpi_op_output, 1, &block, &attrs, dtype, rank, shape);
}

/* ---- random numbers ---------------------------------------------------------------------------- */

bool tpi_node_draws(const tp_tensor *t)
{
    tpi_body *bodies[2];
    const bool block = tpi_is_block(t) && !(t->flags & TPI_REPLACED);
    bool does = t->op->code == TPI_OP_random;
    for (int k = block ? tpi_bodies_of(t, bodies) : 0; k-- > 0 && !does;)
        does = tpi_graph_draws(bodies[k]->graph);
    return does;
}

int64_t tpi_turns_of(const tp_tensor *block)
{
    const tpi_loop_attrs *a = tpi_loop_of(block);
    return a && !a->has_pred ? a->count : TPI_NO_DIM;
}

bool tpi_graph_draws(const tp_graph *g)
{
    bool does = false;
    for (int i = 0; i < g->n_nodes && !does; i++)
        does = tpi_node_draws(g->nodes[i]);
    return does;
}

void tpi_push_draws(tpi_nodes *l, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (tpi_node_draws(g->nodes[i]))
            tpi_nodes_push(l, g->nodes[i]);
}

bool tpi_collect_run(tpi_nodes *out, const tp_graph *g, int n_roots, tp_tensor *const *roots)
{
    tpi_nodes all = {.ctx = out->ctx};
    for (int i = 0; i < n_roots; i++)
        tpi_nodes_push(&all, roots[i]);
    tpi_push_draws(&all, g);
    const bool ok = !all.failed && tpi_collect(out, all.n, all.v, NULL, NULL);
    tpi_nodes_free(&all);
    return ok;
}
