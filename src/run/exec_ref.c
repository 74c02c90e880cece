/* The reference executor: node by node, in program order, by plain loops; or, while the C program
 * is not there, by the kernels of eager use. The body of a block is walked in the same way, once per
 * turn. */
#include "ir/body.h"
#include "op/random_position.h"
#include "plan/work.h"
#include "run/program.h"

#include <string.h>

/* One graph, or one body, being walked. */
typedef struct walk {
    tpi_bump memory; /* of its lists */
    tpi_session *s;
    const tp_graph *g;
    tp_tensor *const *params; /* of a body: what it is given */
    tp_tensor **value;        /* by node, one reference each; NULL: not there, or no longer */
    tp_tensor ***outputs; /* by node: of a block that has run, one reference each; or NULL */
    int *uses;            /* reads to come */
} walk;

static bool run_block(walk *w, const tp_tensor *node, tp_tensor **out);

static tp_tensor *fed(const walk *w, const tp_tensor *node)
{
    const tp_program *p = w->s->p;
    for (int i = 0; i < p->n_feeds; i++)
        if (p->feeds[i] == node)
            return w->s->feeds[i];
    return NULL;
}

/* The value of a view, when strides can say it. */
static bool share(const tp_tensor *node, tp_tensor *x, const void *attrs, tp_tensor *out)
{
    tpi_view v = {.in = x, .out = out, .in_stride = x->stride, .attrs = attrs};
    if (!node->op->view(&v))
        return false;
    memcpy(out->stride, v.stride, sizeof v.stride);
    tpi_tensor_share(out, x, v.offset);
    tpi_note_contiguous(out);
    return true;
}

/* False: a run for which work is counted has taken all that it may. */
static bool may_go_on(tp_program *p, const tp_tensor *node, const int64_t *shape)
{
    if (p->may_work == 0)
        return true;
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    double work = 50 + tpi_node_flops(&sizes, node),
           count = 1; /* 50: what a node takes in itself */
    for (int i = 0; i < node->rank; i++)
        count *= (double)shape[i];
    work += count;
    if (p->may_work <= work) {
        tpi_fail_status(p->ctx, TPI_AT(node->file, node->line), node->op->name, TP_E_STATE,
                        "the run takes too long");
        return false;
    }
    p->may_work -= work;
    return true;
}

/* A tensor that no scope owns; NULL: the context's error tells. */
static tp_tensor *compute(walk *w, const tp_tensor *node)
{
    tp_program *p = w->s->p;
    const tpi_at at = TPI_AT(node->file, node->line);
    int64_t shape[TP_MAX_RANK];
    _Alignas(8) char attrs[1024];
    tp_tensor *few[16], **in = few;
    const size_t in_bytes = (size_t)node->n_in * sizeof *in;
    if (tpi_is_late(p, node) && !tpi_program_check(p, w->s->at, node))
        return NULL;
    tpi_program_shape(p, node, shape);
    if (!may_go_on(p, node, shape))
        return NULL;
    tpi_program_attrs(p, node, attrs);
    if (node->op->draws)
        tpi_session_draw(w->s, node, (tpi_random_attrs *)(void *)attrs);
    tp_tensor *out = tpi_tensor(p->ctx, at, (tp_dtype)node->dtype, node->rank, shape);
    if (node->n_in > 16)
        in = tpi_take(&p->ctx->mem, in_bytes);
    if (!out || !in) {
        if (in != few)
            tpi_give_back(&p->ctx->mem, in, in_bytes);
        tpi_no_memory(p->ctx, at, node->op->name);
        return NULL;
    }
    for (int i = 0; i < node->n_in; i++)
        in[i] = w->value[node->in[i]->index];
    bool ok = true;
    if (node->op->kind != TPI_VIEW || !share(node, in[0], attrs, out)) {
        tpi_run r = {.op = node->op,
                     .ctx = p->ctx,
                     .at = at,
                     .n_in = node->n_in,
                     .in = in,
                     .attrs = attrs,
                     .out = out};
        ok = tpi_tensor_alloc(out);
        if (!ok)
            tpi_no_memory(p->ctx, at, node->op->name);
        else
            ok = p->used[0] == 'e' ? tpi_run_op(&r) : tpi_run_reference(&r);
    }
    if (in != few)
        tpi_give_back(&p->ctx->mem, in, in_bytes);
    if (!ok) {
        tpi_program_says_why(p, node);
        return NULL;
    }
    tpi_disown(out);
    return out;
}

/* ---- one walk ---------------------------------------------------------------------------------- */

static void release_outputs(walk *w, const tp_tensor *block)
{
    tp_tensor **out = w->outputs[block->index];
    const int n = tpi_n_outputs_of(block);
    for (int i = 0; out && i < n; i++)
        tpi_unref(out[i]);
    tpi_give_back(&w->s->p->ctx->mem, out, (size_t)n * sizeof *out);
    w->outputs[block->index] = NULL;
}

/* Runs a block; its own value is the token. */
static bool take_block(walk *w, const tp_tensor *node)
{
    tp_ctx *ctx = w->s->p->ctx;
    const tpi_at at = TPI_AT(node->file, node->line);
    if (tpi_is_late(w->s->p, node) && !tpi_program_check(w->s->p, w->s->at, node))
        return false;
    const size_t bytes = (size_t)tpi_n_outputs_of(node) * sizeof(tp_tensor *);
    tp_tensor **out = tpi_take(&ctx->mem, bytes);
    tp_tensor *token = tpi_tensor_new(ctx, at, TP_BOOL, 0, NULL);
    if (!out || token->status != TP_OK) {
        tpi_give_back(&ctx->mem, out, bytes);
        tpi_no_memory(ctx, at, node->op->name);
        return false;
    }
    memset(out, 0, bytes);
    w->outputs[node->index] = out;
    *(bool *)token->data = true;
    tpi_disown(token);
    w->value[node->index] = token;
    return run_block(w, node, out);
}

static bool take_value(walk *w, int i)
{
    const tp_tensor *node = w->g->nodes[i];
    tp_tensor *v;
    if (tpi_param_of(node))
        v = w->params[tpi_index_of(node)];
    else if (node->op->kind == TPI_SOURCE)
        v = node->n_in ? node->in[0] : fed(w, node);
    else if (tpi_assigned_of(node))
        v = w->value[node->in[1]->index];
    else if (node->op->kind == TPI_BLOCK)
        return take_block(w, node);
    else if (node->op->kind == TPI_PORT)
        v = w->outputs[node->in[0]->index][tpi_index_of(node)];
    else
        return (w->value[i] = compute(w, node)) != NULL;
    tpi_ref(v);
    w->value[i] = v;
    return true;
}

static void count_uses(walk *w, int n_roots, tp_tensor *const *roots)
{
    memset(w->uses, 0, (size_t)w->g->n_nodes * sizeof *w->uses);
    for (int i = 0; i < n_roots; i++)
        w->uses[roots[i]->index]++;
    for (int i = w->g->n_nodes - 1; i >= 0; i--) {
        const tp_tensor *t = w->g->nodes[i];
        w->uses[i] += tpi_node_draws(t);
        for (int k = 0; w->uses[i] && t->op->kind != TPI_SOURCE && k < t->n_in; k++)
            w->uses[t->in[k]->index]++;
    }
}

static void release_operands(walk *w, const tp_tensor *t)
{
    for (int k = 0; t->op->kind != TPI_SOURCE && k < t->n_in; k++) {
        const int x = t->in[k]->index;
        if (--w->uses[x] == 0) {
            tpi_unref(w->value[x]);
            w->value[x] = NULL;
            if (w->outputs[x])
                release_outputs(w, t->in[k]);
        }
    }
}

static bool walk_begin(walk *w, tpi_session *s, const tp_graph *g)
{
    const size_t n = (size_t)g->n_nodes;
    *w = (walk){.memory = TPI_BUMP(&s->p->ctx->mem), .s = s, .g = g};
    w->value = tpi_bump_take(&w->memory, n, sizeof *w->value);
    w->outputs = tpi_bump_take(&w->memory, n, sizeof *w->outputs);
    w->uses = tpi_bump_take(&w->memory, n, sizeof *w->uses);
    if (w->uses)
        return true;
    tpi_no_memory(s->p->ctx, s->at, "tp_program_run");
    return false;
}

static void walk_end(walk *w)
{
    tpi_bump_free(&w->memory);
}

/* The values of the roots, one reference each; false: none. */
static bool walk_once(walk *w, int n_roots, tp_tensor *const *roots, tp_tensor **out)
{
    bool ok = true;
    count_uses(w, n_roots, roots);
    for (int i = 0; i < w->g->n_nodes && ok; i++) {
        if (!w->uses[i])
            continue;
        ok = take_value(w, i);
        if (ok)
            release_operands(w, w->g->nodes[i]);
    }
    for (int i = 0; i < n_roots && ok; i++) {
        out[i] = w->value[roots[i]->index];
        tpi_ref(out[i]);
    }
    for (int i = 0; i < w->g->n_nodes; i++) {
        tpi_unref(w->value[i]);
        w->value[i] = NULL;
        if (w->outputs[i])
            release_outputs(w, w->g->nodes[i]);
    }
    return ok;
}

/* ---- blocks -------------------------------------------------------------------------------------- */

static bool is_true(const tp_tensor *t)
{
    return *(const bool *)t->data;
}

static bool run_cond(walk *w, const tp_tensor *node, tp_tensor *const *in, tp_tensor **out)
{
    const tpi_cond_attrs *a = node->attrs;
    const tpi_body *b = is_true(in[0]) ? a->then : a->other;
    walk inner;
    if (!tpi_program_check_body(w->s->p, w->s->at, b->graph))
        return false;
    bool ok = walk_begin(&inner, w->s, b->graph);
    inner.params = in + 1;
    ok = ok && walk_once(&inner, b->n_outputs, b->outputs, out);
    walk_end(&inner);
    return ok;
}

/* A loop being run. */
typedef struct turns {
    tpi_session *s;
    const tp_tensor *node;
    const tpi_loop_attrs *a;
    tp_tensor *const *in; /* of the node, values */
    tp_tensor **param;    /* of the body: turn, carried, slices, captures; borrowed */
    tp_tensor **got;      /* by the body, one reference each */
    tp_tensor **out;      /* carried, stacked; one reference each */
    int64_t count, taken; /* turns */
    int64_t room;         /* turns that the stacks have memory for */
} turns;

/* What is stacked gets room for n turns; what is in it stays. */
static bool grow_stacks(turns *t, int64_t n)
{
    tp_ctx *ctx = t->s->p->ctx;
    const tpi_body *b = t->a->body;
    const tpi_at at = TPI_AT(t->node->file, t->node->line);
    for (int64_t i = 0; i < t->a->n_stacked; i++) {
        const tp_tensor *each = b->outputs[t->a->has_pred + t->a->n_carried + i];
        tp_tensor **stack = &t->out[t->a->n_carried + i], *failed;
        int64_t shape[TP_MAX_RANK + 1] = {n};
        tpi_program_shape(t->s->p, each, shape + 1);
        if (!tpi_check_shape(ctx, at, "loop", each->rank + 1, shape, &failed))
            return false;
        tp_tensor *more = tpi_tensor_new(ctx, at, (tp_dtype)each->dtype, each->rank + 1, shape);
        if (more->status != TP_OK)
            return false;
        if (*stack) {
            memcpy(more->data, (*stack)->data, tpi_bytes(*stack));
            tpi_unref(*stack);
        }
        tpi_disown(more);
        *stack = more;
    }
    t->room = n;
    return true;
}

/* Element `number` of slice i, one reference. */
static tp_tensor *slice_of(const turns *t, int64_t i, int64_t number)
{
    tp_tensor *x = t->in[t->a->has_pred + t->a->n_carried + i];
    tp_tensor *one = tpi_tensor(t->s->p->ctx, TPI_AT(t->node->file, t->node->line),
                                (tp_dtype)x->dtype, x->rank - 1, x->shape + 1);
    if (!one) {
        tpi_no_memory(t->s->p->ctx, t->s->at, "loop");
        return NULL;
    }
    memcpy(one->stride, x->stride + 1, sizeof(int64_t) * one->rank);
    tpi_tensor_share(one, x, number * x->stride[0]);
    tpi_note_contiguous(one);
    tpi_disown(one);
    return one;
}

/* Type, carried values and slices of one turn; what it makes is in made[], to be given back. */
static bool set_params(turns *t, int64_t number, tp_tensor **made)
{
    const tpi_loop_attrs *a = t->a;
    tp_tensor *turn =
        tpi_tensor_new(t->s->p->ctx, TPI_AT(t->node->file, t->node->line), TP_I64, 0, NULL);
    if (turn->status != TP_OK)
        return false;
    *(int64_t *)(void *)turn->data = number;
    tpi_disown(turn);
    made[0] = t->param[0] = turn;
    for (int64_t i = 0; i < a->n_carried; i++)
        t->param[1 + i] = t->out[i];
    for (int64_t i = 0; i < a->n_slices; i++) {
        tp_tensor *one = slice_of(t, i, number);
        if (!one)
            return false;
        made[1 + i] = t->param[1 + a->n_carried + i] = one;
    }
    return true;
}

/* The body's outputs become the next carried values, and elements of the stacks. */
static bool keep_outputs(turns *t, int64_t number, bool *go)
{
    const tpi_loop_attrs *a = t->a;
    const int64_t first = a->has_pred;
    if (a->has_pred)
        *go = is_true(t->got[0]);
    for (int64_t i = 0; i < a->n_carried; i++) {
        tpi_unref(t->out[i]);
        t->out[i] = t->got[first + i];
        t->got[first + i] = NULL;
    }
    if (a->n_stacked && t->taken == t->room && !grow_stacks(t, t->room ? t->room * 2 : 8))
        return false;
    for (int64_t i = 0; i < a->n_stacked; i++) {
        const tp_tensor *one = t->got[first + a->n_carried + i];
        tp_tensor *stack = t->out[a->n_carried + i];
        const int64_t step = stack->stride[0] * (int64_t)tp_dtype_size((tp_dtype)stack->dtype);
        tpi_copy_out(one, stack->data + number * step);
    }
    return true;
}

static bool take_turn(turns *t, walk *inner, tp_tensor **made, bool *go)
{
    const tpi_body *b = t->a->body;
    const int64_t number = t->a->back ? t->count - 1 - t->taken : t->taken;
    const size_t n_made = (size_t)t->a->n_slices + 1;
    memset(made, 0, n_made * sizeof *made);
    memset(t->got, 0, (size_t)b->n_outputs * sizeof *t->got);
    const bool ok = set_params(t, number, made) &&
                    walk_once(inner, b->n_outputs, b->outputs, t->got) &&
                    keep_outputs(t, number, go);
    for (int i = 0; i < b->n_outputs; i++)
        tpi_unref(t->got[i]);
    for (size_t i = 0; i < n_made; i++)
        tpi_unref(made[i]);
    t->taken++;
    return ok;
}

/* The stacks have as many elements as there were turns, which the sizes after the loop know. */
static void end_stacks(turns *t)
{
    tp_program *p = t->s->p;
    int symbol;
    for (int64_t i = 0; i < t->a->n_stacked; i++)
        t->out[t->a->n_carried + i]->shape[0] = t->taken;
    if (t->a->has_pred && tpi_dim_as_symbol(p->graph->dims, t->a->length, &symbol))
        p->symbols[symbol] = t->taken;
}

static bool take_turns(turns *t, tp_tensor **made)
{
    const tpi_loop_attrs *a = t->a;
    bool go = !a->has_pred || is_true(t->in[0]), ok = true;
    t->count = a->counted ? tpi_program_size(t->s->p, a->count) : INT64_MAX;
    for (int64_t i = 0; i < a->n_carried; i++) {
        t->out[i] = t->in[a->has_pred + i];
        tpi_ref(t->out[i]);
    }
    for (int i = 1 + (int)(a->n_carried + a->n_slices); i < a->body->n_params; i++)
        t->param[i] = t->in[a->has_pred + i - 1];
    walk inner;
    ok = walk_begin(&inner, t->s, a->body->graph) && grow_stacks(t, a->has_pred ? 0 : t->count);
    inner.params = t->param;
    if (go && t->count > 0)
        ok = ok && tpi_program_check_body(t->s->p, t->s->at, a->body->graph);
    while (ok && go && t->taken < t->count)
        ok = !tpi_refuse_turn(t->s->p->ctx, TPI_AT(t->node->file, t->node->line), "loop",
                              t->taken) &&
             take_turn(t, &inner, made, &go);
    walk_end(&inner);
    if (ok)
        end_stacks(t);
    return ok;
}

static bool run_loop(walk *w, const tp_tensor *node, tp_tensor *const *in, tp_tensor **out)
{
    tpi_mem *m = &w->s->p->ctx->mem;
    const tpi_loop_attrs *a = node->attrs;
    const size_t n_made = (size_t)a->n_slices + 1,
                 n = n_made + (size_t)a->body->n_params + (size_t)a->body->n_outputs;
    tp_tensor **lists = tpi_take(m, n * sizeof *lists);
    if (!lists) {
        tpi_no_memory(w->s->p->ctx, w->s->at, "loop");
        return false;
    }
    turns t = {.s = w->s,
               .node = node,
               .a = a,
               .in = in,
               .param = lists + n_made,
               .got = lists + n_made + a->body->n_params,
               .out = out};
    const bool ok = take_turns(&t, lists);
    tpi_give_back(m, lists, n * sizeof *lists);
    return ok;
}

/* out[]: the block's outputs, one reference each, also of those that are there when it fails. */
static bool run_block(walk *w, const tp_tensor *node, tp_tensor **out)
{
    tpi_mem *m = &w->s->p->ctx->mem;
    const size_t bytes = (size_t)node->n_in * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(m, bytes);
    if (!in) {
        tpi_no_memory(w->s->p->ctx, w->s->at, node->op->name);
        return false;
    }
    for (int i = 0; i < node->n_in; i++)
        in[i] = w->value[node->in[i]->index];
    const bool ok = tpi_loop_of(node) ? run_loop(w, node, in, out) : run_cond(w, node, in, out);
    tpi_give_back(m, in, bytes);
    return ok;
}

bool tpi_execute_reference(tpi_session *s)
{
    const tp_program *p = s->p;
    walk w;
    tpi_late_begin(s->p);
    const bool ok =
        walk_begin(&w, s, p->graph) && walk_once(&w, p->n_roots, p->roots, s->values);
    walk_end(&w);
    return ok;
}
