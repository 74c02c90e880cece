/* Copying nodes with the bodies of their blocks, without what nothing reads.
 *
 *     %3 = loop %n, %a, %b {carried=2, ...}      only output 0 is read, and the body's new %b
 *     %4 = output %3 {index=0}                   does not go into it
 *  -> %3 = loop %n, %a {carried=1, ...}
 *
 * A constant that a block captures goes into its bodies, where passes and kernels see it. */
#include "pass/bodies.h"

#include "ir/body.h"
#include "op/op.h"

/* What of a block is copied: by its old outputs and params. */
typedef struct use {
    int n_outputs, n_params, n_made;
    tp_tensor **made;     /* `output` nodes of the copy, by place; NULL: not yet */
    int *place;           /* of an output among those of the copy */
    bool *output, *param; /* needed? */
} use;

static use *use_new(tpi_bump *memory, const tp_tensor *block)
{
    tpi_body *bodies[2];
    tpi_bodies_of(block, bodies);
    const size_t n = (size_t)tpi_n_outputs_of(block), n_params = (size_t)bodies[0]->n_params;
    use *u = tpi_bump_take(memory, 1, sizeof *u);
    if (!u)
        return NULL;
    *u = (use){.n_outputs = (int)n,
               .n_params = (int)n_params,
               .made = tpi_bump_take(memory, n, sizeof *u->made),
               .place = tpi_bump_take(memory, n, sizeof *u->place),
               .output = tpi_bump_take(memory, n, sizeof *u->output),
               .param = tpi_bump_take(memory, n_params, sizeof *u->param)};
    return memory->failed ? NULL : u;
}

/* ---- what is needed --------------------------------------------------------------------------- */

/* The nodes of the block's body that the needed outputs, and a condition, need; and what it draws. */
static bool collect_needed(const tpi_copier *c, const use *u, const tpi_body *b,
                           tpi_nodes *nodes)
{
    tpi_nodes roots = {.ctx = c->ctx, .room = c->memory};
    *nodes = (tpi_nodes){.ctx = c->ctx, .room = c->memory, .way = TPI_WAY_VALUES};
    const int pred = b->n_outputs - u->n_outputs;
    for (int i = 0; i < b->n_outputs; i++)
        if (i < pred || u->output[i - pred])
            tpi_nodes_push(&roots, b->outputs[i]);
    tpi_push_draws(&roots, b->graph);
    return !roots.failed && tpi_collect(nodes, roots.n, roots.v, NULL, NULL);
}

/* Params that these nodes read are needed; of a carried one the output too. */
static bool mark_params(use *u, const tp_tensor *block, const tpi_nodes *nodes)
{
    bool more = false;
    const tpi_loop_attrs *loop = tpi_loop_of(block);
    for (int i = 0; i < nodes->n; i++) {
        if (!tpi_param_of(nodes->v[i]))
            continue;
        const int64_t k = tpi_index_of(nodes->v[i]);
        u->param[k] = true;
        if (!loop || k < 1 || k > loop->n_carried || u->output[k - 1])
            continue;
        u->output[k - 1] = true;
        more = true;
    }
    return more;
}

/* A loop of as many turns as another one took, which a condition ended, keeps one slice of that, read
 * or not: the number is known when that one has run. */
static void keep_count(use *u, const tp_tensor *loop)
{
    const tpi_loop_attrs *a = loop->attrs;
    bool kept = !tpi_dim_is_symbolic(a->count);
    for (int64_t i = a->n_carried; i < a->n_carried + a->n_slices && !kept; i++) {
        kept = tpi_tells_turns(loop->in[a->has_pred + i], a->count);
        u->param[1 + i] |= kept;
    }
}

/* Completes u->output and u->param from the outputs that are read; false: no memory. */
static bool close_needs(const tpi_copier *c, use *u, const tp_tensor *block)
{
    const tpi_bump mark = *c->memory;
    tpi_body *bodies[2];
    const int n = tpi_bodies_of(block, bodies);
    bool ok = true;
    for (bool more = true; more && ok;) {
        more = false;
        for (int i = 0; i < n && ok; i++) {
            tpi_nodes nodes;
            ok = collect_needed(c, u, bodies[i], &nodes);
            more |= ok && mark_params(u, block, &nodes);
            tpi_bump_release(c->memory, &mark);
        }
    }
    const tpi_loop_attrs *loop = tpi_loop_of(block);
    if (loop) {
        keep_count(u, block);
        u->param[0] = true;
        for (int64_t i = 0; i < loop->n_carried; i++)
            u->param[1 + i] = u->output[i];
    }
    u->n_made = 0;
    for (int i = 0; i < u->n_outputs; i++)
        u->place[i] = u->output[i] ? u->n_made++ : -1;
    return ok;
}

/* By node index: what of each block in the list is read by the list. NULL: no memory. */
static use **find_uses(const tpi_copier *c, const tpi_nodes *nodes, int n)
{
    use **uses = tpi_bump_take(c->memory, (size_t)n, sizeof *uses);
    bool ok = uses;
    for (int i = 0; i < nodes->n && ok; i++) {
        const tp_tensor *t = nodes->v[i];
        if (c->is_leaf && c->is_leaf(c->user, t))
            continue;
        if (tpi_is_block(t))
            ok = (uses[t->index] = use_new(c->memory, t)) != NULL;
        else if (t->op->kind == TPI_PORT)
            uses[t->in[0]->index]->output[tpi_index_of(t)] = true;
    }
    for (int i = 0; i < nodes->n && ok; i++)
        if (uses[nodes->v[i]->index])
            ok = close_needs(c, uses[nodes->v[i]->index], nodes->v[i]);
    return ok ? uses : NULL;
}

/* ---- copies -------------------------------------------------------------------------------------- */

/* Is operand k of the block, of param i, a constant that goes inside? */
static bool goes_inside(const tp_tensor *block, int i, const tp_tensor *operand)
{
    const tpi_loop_attrs *a = tpi_loop_of(block);
    const bool capture = !a || i > a->n_carried + a->n_slices;
    return capture && tpi_constant_of(operand);
}

/* Params of the copy, or what stands for them; those that are not needed have none. */
static bool copy_params(tpi_copier *c, const use *u, const tp_tensor *block,
                        tp_tensor *const *in, int first, const tpi_body *from, tpi_body *to,
                        tp_tensor **map)
{
    for (int i = 0; i < from->n_params; i++) {
        const tp_tensor *param = from->params[i];
        const tpi_at at = c->place(c->user, param);
        int64_t shape[TP_MAX_RANK];
        if (!u->param[i])
            continue;
        if (!c->sizes(c->user, param->rank, param->shape, shape))
            return false;
        tp_tensor *made;
        if (i >= first && goes_inside(block, i, in[i - first]))
            made = tpi_graph_constant(to->graph, at, in[i - first]->in[0]);
        else
            made = tpi_body_param(to, at, (tp_dtype)param->dtype, param->rank, shape, NULL);
        made = tpi_graph_named(to->graph, made, param->name);
        if (made->status != TP_OK)
            return false;
        map[param->index] = made;
    }
    return true;
}

static bool copy_nodes(tpi_copier *c, const tpi_nodes *nodes, const tp_graph *from,
                       tp_graph *to, tp_tensor **map);

/* A copy of the body over in[], operands of the copied block from `first` params on. */
static tpi_body *copy_body(tpi_copier *c, const use *u, const tp_tensor *block,
                           tp_tensor *const *in, int first, const tpi_body *from, tp_graph *to)
{
    const tpi_bump mark = *c->memory;
    const int pred = from->n_outputs - u->n_outputs;
    tpi_body *b = tpi_body_new(to, c->place(c->user, block));
    tp_tensor **map = tpi_bump_take(c->memory, (size_t)from->graph->n_nodes, sizeof *map);
    tpi_nodes nodes;
    bool ok = b && map && collect_needed(c, u, from, &nodes);
    void *entered = ok ? c->enter(c->user, b->graph) : NULL;
    ok = entered && copy_params(c, u, block, in, first, from, b, map) &&
         copy_nodes(c, &nodes, from->graph, b->graph, map);
    for (int i = 0; i < from->n_outputs && ok; i++)
        if (i < pred || u->output[i - pred])
            ok = tpi_body_output(b, map[from->outputs[i]->index]);
    if (entered)
        c->leave(c->user, entered);
    tpi_bump_release(c->memory, &mark);
    if (b)
        b->closed = true;
    return ok ? b : NULL;
}

static int64_t count_true(const bool *v, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += v[i];
    return count;
}

/* The block without what is not needed, over the operands that its params keep. */
static tp_tensor *copy_block(tpi_copier *c, const use *u, const tp_tensor *block,
                             tp_tensor *const *in, tp_graph *to)
{
    const tpi_at at = c->place(c->user, block);
    tp_tensor *made = NULL;
    const tpi_loop_attrs *is_loop = tpi_loop_of(block);
    tpi_body *bodies[2], *copies[2] = {NULL, NULL};
    const int n = tpi_bodies_of(block, bodies);
    tpi_loop_attrs loop = {0};
    if (is_loop)
        loop = *is_loop;
    /* operands begin with a condition; params of a loop with the turn */
    const int lead = !is_loop || loop.has_pred, skip = is_loop != NULL;
    tpi_nodes kept = {.ctx = c->ctx, .room = c->memory};
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = (copies[i] = copy_body(c, u, block, in + lead, skip, bodies[i], to)) != NULL;
    for (int i = 0; i < block->n_in && ok; i++) {
        const int param = i - lead + skip;
        if (i < lead || (u->param[param] && !goes_inside(block, param, in[i])))
            tpi_nodes_push(&kept, in[i]);
        ok = !kept.failed;
    }
    if (ok && is_loop) {
        const int64_t carried = loop.n_carried, slices = loop.n_slices;
        loop.body = copies[0];
        loop.n_writes = 0; /* which assignments a program makes is settled */
        loop.n_carried = count_true(u->output, carried);
        loop.n_slices = count_true(u->param + 1 + carried, slices);
        loop.n_stacked = count_true(u->output + carried, loop.n_stacked);
        ok = c->sizes(c->user, 1, &loop.count, &loop.count) &&
             c->sizes(c->user, 1, &loop.length, &loop.length);
        made = ok ? tpi_loop_node(to, at, &loop, kept.n, kept.v) : NULL;
    } else if (ok) {
        const tpi_cond_attrs a = {.then = copies[0], .other = copies[1]};
        made = tpi_cond_node(to, at, &a, kept.n, kept.v);
    }
    c->n_changes += ok && kept.n != block->n_in;
    return made ? made : tpi_no_memory(c->ctx, at, block->op->name);
}

static tp_tensor *copy_output(tpi_copier *c, use *u, const tp_tensor *t, tp_tensor *block,
                              tp_graph *to)
{
    const int place = u->place[tpi_index_of(t)];
    if (!u->made[place])
        u->made[place] = tpi_output_node(to, c->place(c->user, t), block, place);
    return tpi_graph_named(to, u->made[place], t->name);
}

static bool copy_equation(tpi_copier *c, const tpi_equation *e, tp_graph *to)
{
    tpi_equation own = *e;
    return c->sizes(c->user, 1, &e->a, &own.a) && c->sizes(c->user, 1, &e->b, &own.b) &&
           tpi_graph_equate(to, &own);
}

/* A pass copies the list, in which all that its nodes say is since the graph was pruned. */
static bool copy_equations(tpi_copier *c, const tp_graph *from, tp_graph *to)
{
    bool ok = true;
    tpi_equation e;
    if (!c->prunes)
        return tpi_graph_equate_all(to, from);
    for (int i = 0; i < from->n_equations && ok; i++)
        ok = copy_equation(c, &from->equations[i], to);
    for (int i = 0; i < from->n_nodes && ok; i++)
        for (int k = 0; k < from->nodes[i]->rank && ok; k++)
            if (tpi_graph_equation_of(from->nodes[i], k, &e))
                ok = copy_equation(c, &e, to);
    return ok;
}

/* The copy of one node over what map[] has for its operands. */
static tp_tensor *copy_one(tpi_copier *c, const tp_tensor *t, use *const *uses, tpi_way way,
                           tp_graph *to, tp_tensor *const *map)
{
    const bool leaf = t->op->kind == TPI_SOURCE || (c->is_leaf && c->is_leaf(c->user, t));
    const int n_in = leaf ? 0 : tpi_way_end(way, t);
    tp_tensor *few[32], **in = few;
    if (n_in > 32)
        in = tpi_bump_take(c->memory, (size_t)n_in, sizeof *in);
    for (int k = 0; k < n_in && in; k++)
        in[k] = map[t->in[k]->index];
    if (!in)
        return tpi_no_memory(c->ctx, c->place(c->user, t), t->op->name);
    if (!leaf && tpi_is_block(t))
        return copy_block(c, uses[t->index], t, in, to);
    if (!leaf && t->op->kind == TPI_PORT)
        return copy_output(c, uses[t->in[0]->index], t, in[0], to);
    return c->node(c->user, to, t, in);
}

/* Copies nodes[] of graph `from` in program order, what is needed of their bodies, and all that the graph and
 * these bodies take to be equal. map[], by index: the copies; what is in it already stays. False: the context's
 * error tells, or memory is out. */
static bool copy_nodes(tpi_copier *c, const tpi_nodes *nodes, const tp_graph *from,
                       tp_graph *to, tp_tensor **map)
{
    use **uses = find_uses(c, nodes, from->n_nodes);
    bool ok = uses && copy_equations(c, from, to);
    for (int i = 0; i < nodes->n && ok; i++) {
        const tp_tensor *t = nodes->v[i];
        if (map[t->index])
            continue;
        map[t->index] = copy_one(c, t, uses, nodes->way, to, map);
        ok = map[t->index]->status == TP_OK;
    }
    return ok;
}

bool tpi_copy_graph(tpi_copier *c, const char *what, const tpi_nodes *nodes,
                    const tp_graph *from, tp_graph *to, int n_feeds, tp_tensor **feeds,
                    int n_roots, tp_tensor **roots)
{
    tp_ctx *ctx = c->ctx;
    tp_tensor **map = tpi_bump_take(c->memory, (size_t)from->n_nodes, sizeof *map);
    const bool scope = map && tp_scope_begin(ctx) == TP_OK;
    bool ok = scope && copy_nodes(c, nodes, from, to, map);
    for (int i = 0; i < n_feeds && ok; i++) { /* sizes are read from every feed */
        tp_tensor **made = &map[feeds[i]->index];
        if (!*made)
            *made = c->node(c->user, to, feeds[i], NULL);
        ok = (*made)->status == TP_OK;
    }
    for (int i = 0; i < n_roots && ok; i++)
        roots[i] = map[roots[i]->index];
    for (int i = 0; i < n_feeds && ok; i++)
        feeds[i] = map[feeds[i]->index];
    if (!ok && ctx->status == TP_OK)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), what);
    if (scope)
        tp_scope_end(ctx);
    return ok;
}

void tpi_put_before(tp_graph *g, const tp_tensor *t, int first, int end)
{
    const uint64_t at = t->seq, n = (uint64_t)(end - first);
    for (int i = 0; i < g->n_nodes; i++) {
        uint64_t *seq = &g->nodes[i]->seq;
        if (i >= first && i < end)
            *seq = at + (uint64_t)(i - first);
        else if (*seq >= at)
            *seq += n;
    }
}

void tpi_replace_operand(tp_tensor *t, int k, tp_tensor *x)
{
    tpi_ref(x);
    tpi_unref(t->in[k]);
    t->in[k] = x;
}

void tpi_replace_block(tp_tensor *old, tp_tensor *made)
{
    const tp_graph *g = old->graph;
    made->seq = old->seq;
    old->flags |= TPI_REPLACED;
    for (int i = 0; i < g->n_nodes; i++) {
        tp_tensor *t = g->nodes[i];
        if (tpi_block_of(t) == old)
            tpi_replace_operand(t, 0, made);
    }
}
