/* tp_backward and tp_grads: what asks for a sweep (sweep.h). */
#include "grad/hook.h"
#include "grad/late.h"

#include <string.h>

/* t, which belongs to an open scope now. */
static tp_tensor *held(tp_tensor *t, tpi_at at, const char *what)
{
    if (t->owned_at >= 0 || t == &t->ctx->nil)
        return t;
    tpi_ref(t);
    return tpi_own(t) ? t : tpi_no_memory(t->ctx, at, what);
}

/* From y, whose elements weigh dy. */
static bool go_back_from(tpi_sweep *s, const tp_tensor *y, tp_tensor *dy)
{
    tpi_ref(dy);
    s->grad[y->slot] = dy;
    return tpi_sweep_go(s);
}

/* The weights of y's elements, checked; ones when `dy` is NULL. */
static tp_tensor *weights(tpi_at at, tp_tensor *y, tp_tensor *dy)
{
    if (y->dtype < TP_F32)
        return tpi_fail(y->ctx, at, "gradient", TP_E_DTYPE,
                        "y is %s: gradients are for f32 and f64",
                        tp_dtype_name((tp_dtype)y->dtype));
    if (!dy)
        return tpi_all(at, y, 1);
    tp_tensor *failed = tpi_refuse_operand(y->ctx, at, "gradient", 1, dy);
    if (failed)
        return failed;
    if (dy->graph && !(y->graph && tpi_graph_within(y->graph, dy->graph)))
        return tpi_fail(y->ctx, at, "gradient", TP_E_CTX, "dy belongs to another graph than y");
    if (dy->dtype != y->dtype || dy->rank != y->rank ||
        memcmp(dy->shape, y->shape, sizeof(int64_t) * y->rank) != 0)
        return tpi_fail(y->ctx, at, "gradient", TP_E_SHAPE, "y is %s %s, dy is %s %s",
                        tp_dtype_name((tp_dtype)y->dtype), SHAPE(y),
                        tp_dtype_name((tp_dtype)dy->dtype), SHAPE(dy));
    return dy;
}

bool tp_recording(tp_ctx *tp, bool on)
{
    if (!tp)
        return false;
    tpi_come_back(tp);
    const bool was = tp->caller.recording;
    tp->caller.recording = on;
    return was;
}

/* ---- tp_backward -------------------------------------------------------------------------------- */

/* The gradient of marked node i, as hooks leave it. */
static void take_through_hooks(tpi_sweep *s, int i)
{
    tp_tensor *g = tpi_through_hooks(s->at, s->nodes.v[i], s->grad[i]);
    tpi_ref(g);
    tpi_unref(s->grad[i]);
    s->grad[i] = g;
}

/* The sums first, then all at once: a gradient that fails leaves the others as they were. */
static tp_status add_to_leaves(tpi_sweep *s)
{
    for (int i = 0; i < s->nodes.n; i++)
        if (s->grad[i] && s->nodes.v[i]->flags & TPI_LEAF)
            take_through_hooks(s, i);
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *leaf = s->nodes.v[i];
        if (!s->grad[i] || !(leaf->flags & TPI_LEAF))
            continue;
        if (leaf->grad && s->grad[i]->status == TP_OK) {
            tp_tensor *sum = tp_add_at(s->at.file, s->at.line, leaf->grad, s->grad[i]);
            tpi_ref(sum);
            tpi_unref(s->grad[i]);
            s->grad[i] = sum;
        }
        if (s->grad[i]->status != TP_OK)
            return (tp_status)s->grad[i]->status;
    }
    for (int i = 0; i < s->nodes.n; i++) {
        tp_tensor *leaf = s->nodes.v[i];
        if (!s->grad[i] || !(leaf->flags & TPI_LEAF))
            continue;
        tpi_unref(leaf->grad);
        leaf->grad = s->grad[i];
        s->grad[i] = NULL;
    }
    return TP_OK;
}

/* What was marked too late for all of its gradient to be found from y is an error. */
static tp_status check_marks(tpi_at at, tp_tensor *y)
{
    tp_status status = TP_OK;
    tpi_unrecorded u;
    tpi_unrecorded_start(&u, y->ctx, y);
    for (int i = 0; i < y->ctx->n_late && status == TP_OK; i++) {
        const tpi_late *l = &y->ctx->late[i];
        if (tpi_late_is_same(l) && tpi_misses(&u, l->t))
            status = (tp_status)tpi_refuse_late(&u, at, "tp_backward", -1)->status;
    }
    tpi_nodes_free(&u.nodes);
    return status;
}

tp_status tp_backward_at(const char *file, int line, tp_tensor *y)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_backward", 0, y);
    if (failed || !y)
        return failed ? (tp_status)failed->status : TP_E_NULL;
    tp_ctx *ctx = y->ctx;
    TPI_ALONE_STATUS(ctx, at, "tp_backward");
    if (y->graph)
        return tpi_fail_status(ctx, at, "tp_backward", TP_E_SYMBOLIC,
                               "y is symbolic: add gradients to its graph with tp_grad");
    if (!(y->flags & TPI_REQUIRES))
        return tpi_fail_status(ctx, at, "tp_backward", TP_E_STATE,
                               "y was computed from nothing that requires a gradient (mark it "
                               "with tp_require_grad or tp_param, and record)");
    tpi_take_turn(ctx);
    if (tp_scope_begin(ctx) != TP_OK)
        return TP_E_MEMORY;
    const bool was = tp_recording(ctx, false), inside = ctx->sweeps;
    ctx->sweeps = true;
    tp_tensor *dy = weights(at, y, NULL);
    tp_status status = dy->status == TP_OK ? check_marks(at, y) : (tp_status)dy->status;
    tpi_sweep s;
    if (status == TP_OK && !tpi_sweep_start(&s, ctx, at, 1, &y, 0, NULL, inside)) {
        status = TP_E_MEMORY;
    } else if (status == TP_OK) {
        for (int i = 0; i < s.nodes.n; i++)
            s.depends[i] = s.nodes.v[i]->flags & TPI_LEAF;
        tpi_sweep_spread(&s);
        if (!go_back_from(&s, y, dy))
            status = ctx->status;
        if (status == TP_OK)
            status = add_to_leaves(&s);
        tpi_sweep_done(&s);
    }
    ctx->sweeps = inside;
    tp_recording(ctx, was);
    tp_scope_end(ctx);
    return status;
}

tp_status(tp_backward)(tp_tensor *y)
{
    return tp_backward_at(NULL, 0, y);
}

/* What samples before have made of a gradient, as a tensor of this one. */
static tp_tensor *own_view(tpi_at at, tp_tensor *g)
{
    tp_ctx *ctx = g->ctx;
    const bool sweeps = ctx->sweeps, was = tp_recording(ctx, false);
    ctx->sweeps = true; /* it is another sample's */
    tp_tensor *y = tp_reshape_at(at.file, at.line, g, g->rank, g->shape);
    ctx->sweeps = sweeps;
    tp_recording(ctx, was);
    return y;
}

tp_tensor *tp_grad_of_at(const char *file, int line, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_grad_of", 0, t);
    if (failed || !t)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    TPI_ALONE(t->ctx, at, "tp_grad_of");
    if (!(t->flags & TPI_LEAF))
        return tpi_fail(t->ctx, at, "tp_grad_of", TP_E_STATE,
                        "the tensor is not marked: call tp_require_grad before it is used");
    tpi_take_turn(t->ctx);
    if (!t->grad) {
        const bool was = tp_recording(t->ctx, false);
        tp_tensor *zero = tpi_all(at, t, 0);
        tp_recording(t->ctx, was);
        if (zero->status != TP_OK)
            return zero;
        tpi_ref(zero);
        t->grad = zero;
    }
    return held(tpi_is_shared(t->ctx, NULL) ? own_view(at, t->grad) : t->grad, at,
                "tp_grad_of");
}

TPI_BARE(tp_tensor *, tp_grad_of, (tp_tensor * t), t)

void(tp_zero_grad)(tp_tensor *t)
{
    if (!tpi_is_live(t) || !t->ctx)
        return;
    TPI_ALONE_OR(t->ctx, TPI_AT(NULL, 0), "tp_zero_grad", );
    tpi_note_effect(t->ctx, t, TPI_LOOK_EFFECT);
    tpi_unref(t->grad);
    t->grad = NULL;
}

tp_tensor *tp_require_grad_at(const char *file, int line, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_require_grad", 0, t);
    if (failed || !t)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    TPI_ALONE(t->ctx, at, "tp_require_grad");
    tpi_note_symbol(t);
    if (t->graph)
        return t;
    if (t->dtype < TP_F32)
        return tpi_fail(t->ctx, at, "tp_require_grad", TP_E_DTYPE,
                        "the tensor is %s: gradients are for f32 and f64",
                        tp_dtype_name((tp_dtype)t->dtype));
    if (t->in && (t->flags & TPI_REQUIRES))
        return t; /* recorded: tp_grad can ask for it as it is */
    if (tpi_is_kept_number(t))
        return tpi_fail_kept_number(t, at, "tp_require_grad");
    if (!(t->flags & TPI_LEAF) && tpi_is_shared(t->ctx, t))
        return tpi_fail_shared(t->ctx, at, "tp_require_grad");
    if (!(t->flags & TPI_LEAF))
        tpi_note_effect(t->ctx, t, TPI_LOOK_MARK);
    if (!(t->flags & TPI_LEAF) && !tpi_note_mark(t))
        return tpi_no_memory(t->ctx, at, "tp_require_grad");
    t->flags |= TPI_REQUIRES | TPI_LEAF;
    return t;
}

TPI_BARE(tp_tensor *, tp_require_grad, (tp_tensor * t), t)

bool(tp_requires_grad)(const tp_tensor *t)
{
    if (tpi_is_live(t))
        tpi_note_symbol(t);
    return tpi_is_live(t) && t->status == TP_OK && (t->graph || t->flags & TPI_REQUIRES);
}

/* ---- tp_grads -------------------------------------------------------------------------------------- */

/* In a body: is x outside of it, and read through a param? */
static bool is_around(const tp_tensor *y, const tp_tensor *x)
{
    return y->graph && y->graph->parent && x->graph != y->graph;
}

/* The node of y's graph that an x outside of it is read through; x itself otherwise; NULL: none. */
static tp_tensor *as_node(const tpi_sweep *s, const tp_tensor *y, tp_tensor *x)
{
    if (!y->graph || x->graph == y->graph)
        return x;
    if (is_around(y, x))
        return tpi_graph_lift(y->graph, s->at, x);
    if (x->in) /* recorded, and computed again in the graph */
        return tpi_graph_lifted(y->graph, x);
    for (int i = 0; i < s->nodes.n; i++)
        if (s->nodes.v[i]->op && s->nodes.v[i]->op->kind == TPI_SOURCE && s->nodes.v[i]->n_in &&
            s->nodes.v[i]->in[0] == x)
            return s->nodes.v[i];
    return NULL;
}

static tp_tensor *check_x(tpi_at at, const tp_tensor *y, int i, tp_tensor *x)
{
    tp_tensor *failed = tpi_refuse_operand(y->ctx, at, "tp_grad", i, x);
    if (failed)
        return failed;
    if (x->graph && y->graph && !tpi_graph_within(y->graph, x->graph))
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_CTX, "x %d belongs to another graph than y",
                        i);
    if (x->dtype < TP_F32)
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_DTYPE,
                        "x %d is %s: gradients are for f32 and f64", i,
                        tp_dtype_name((tp_dtype)x->dtype));
    if (!y->graph && !x->graph && !(x->flags & TPI_REQUIRES))
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_STATE,
                        "nothing was recorded for x %d: call tp_require_grad before it is used",
                        i);
    return NULL;
}

static bool stop_at_constant(void *user, const tp_tensor *t)
{
    (void)user;
    return t->flags & TPI_CONSTANT;
}

/* Is y computed from x inside a call only? No gradient is found there, and zeros would be wrong; but what was made while
 * recording was off is a constant. */
static tp_tensor *refuse_inside(const tpi_sweep *s, tp_tensor *y, int i, const tp_tensor *x)
{
    tpi_nodes all = {.ctx = s->ctx, .folded = s->nodes.folded, .whole = s->nodes.whole};
    tp_tensor *failed = NULL;
    if (!x)
        return NULL;
    if (!tpi_collect(&all, 1, &y, stop_at_constant, NULL))
        failed = tpi_no_memory(s->ctx, s->at, "tp_grad");
    for (int k = 0; k < all.n && !failed; k++)
        if (all.v[k] == x)
            failed =
                tpi_fail(s->ctx, s->at, "tp_grad", TP_E_STATE,
                         "x %d was computed inside a call, which is one node to gradients: "
                         "let the function return it",
                         i);
    tpi_nodes_free(&all);
    return failed;
}

/* ---- from a body to what is around it ---------------------------------------------------------- */

/* Inside a body y is differentiated with respect to an x around it through the one param that stands
 * for x. That is the derivative, unless y also depends on x through another param. */
/* What t is computed from, following gradients, as marks by node of its graph; NULL: no memory. */
static bool *reach_back(const tp_tensor *t)
{
    const tp_graph *g = t->graph;
    bool *reached = tpi_take(&g->ctx->mem, (size_t)g->n_nodes);
    if (!reached)
        return NULL;
    memset(reached, 0, (size_t)g->n_nodes);
    reached[t->index] = true;
    for (int i = t->index; i >= 0; i--) {
        const tp_tensor *node = g->nodes[i];
        if (!reached[i] || !tpi_passes_gradient(node))
            continue;
        for (int k = tpi_way_first(TPI_WAY_CALLS, node); k < node->n_in; k++)
            reached[node->in[k]->index] = true;
    }
    return reached;
}

typedef enum answer { NO, YES, NO_MEMORY } answer;

/* Of a node that is a concrete tensor as it is: was that computed from x? */
static answer was_computed_from(const tp_tensor *node, const tp_tensor *x)
{
    if (!node->graph->borrows || node->op->kind != TPI_SOURCE || !node->n_in ||
        !node->in[0]->in)
        return NO;
    tpi_nodes all = {.ctx = node->ctx, .way = TPI_WAY_CALLS};
    answer is = tpi_collect(&all, 1, node->in, NULL, NULL) ? NO : NO_MEMORY;
    for (int i = 0; i < all.n && is == NO; i++)
        is = all.v[i] == x ? YES : NO;
    tpi_nodes_free(&all);
    return is;
}

/* Is t computed from x, through its graph's node for x too or through other params only? */
static answer comes_from(tp_tensor *t, tp_tensor *x, bool through_own)
{
    tp_graph *g = t->graph;
    const int n = g->n_nodes;
    bool *reached = reach_back(t);
    if (!reached)
        return NO_MEMORY;
    const tp_tensor *own =
        g->parent && x->graph != g ? tpi_graph_lift(g, TPI_AT(t->file, t->line), x) : x;
    answer is = own->status == TP_OK ? NO : NO_MEMORY;
    for (int i = 0; i < n && is == NO; i++) {
        const tp_tensor *node = g->nodes[i];
        if (!reached[i])
            continue;
        const bool reads = node->op->kind == TPI_SOURCE && node->n_in && node->in[0] == x;
        if (node == own || reads) {
            is = through_own ? YES : NO;
        } else if (tpi_param_of(node) && node->dtype >= TP_F32) {
            tp_tensor *outer = g->body->outers[tpi_index_of(node)];
            const bool carried =
                !outer || (outer->op == &tpi_op_enter && outer->rank == node->rank);
            is = carried ? YES : comes_from(outer, x, true);
        } else {
            is = was_computed_from(node, x);
        }
    }
    tpi_give_back(&g->ctx->mem, reached, (size_t)n);
    return is;
}

static tp_tensor *refuse_around(tpi_at at, tp_tensor *y, int i, tp_tensor *x)
{
    const answer is = is_around(y, x) ? comes_from(y, x, false) : NO;
    if (is == NO_MEMORY)
        return tpi_no_memory(y->ctx, at, "tp_grad");
    return is == NO
               ? NULL
               : tpi_fail(
                     y->ctx, at, "tp_grad", TP_E_STATE,
                     "x %d is outside of the block, and y may depend on it through a "
                     "carried value or another operand of the block: tp_detach these, or %s",
                     i,
                     tpi_is_transformed(y->graph) ? "pass x as an argument"
                                                  : "list x among the block's variables");
}

/* What is asked for is marked; failed ones are in dx. */
static tp_status mark_xs(tpi_sweep *s, tpi_unrecorded *u, tp_tensor *y, int n,
                         tp_tensor *const *xs, tp_tensor **dx)
{
    tp_status status = TP_OK;
    for (int i = 0; i < n; i++) {
        tp_tensor *node = dx[i] ? NULL : as_node(s, y, xs[i]);
        if (node && node->status != TP_OK)
            dx[i] = node;
        else if (tpi_in_sweep(s, node))
            s->depends[node->slot] = true;
        else if (!dx[i] && s->met)
            dx[i] = refuse_inside(s, y, i, node);
        if (!dx[i] && tpi_misses(u, xs[i]))
            dx[i] = tpi_refuse_late(u, s->at, "tp_grad", i);
        if (dx[i])
            status = (tp_status)dx[i]->status;
    }
    return status;
}

/* The gradient with respect to x, as a tensor of the open scope. */
static tp_tensor *gradient_of(const tpi_sweep *s, tp_tensor *y, tp_tensor *x)
{
    tp_tensor *node = as_node(s, y, x), *g = tpi_in_sweep(s, node) ? s->grad[node->slot] : NULL;
    if (g)
        g = tpi_through_hooks(s->at, node, g);
    if (!g) {
        const bool lift = y->graph && x->graph != y->graph;
        g = tpi_all(s->at, lift ? tpi_graph_lift(y->graph, s->at, x) : x, 0);
    }
    return held(g, s->at, "tp_grad");
}

/* `inside`: a rule or a hook of another sweep asks. `sums`: NULL, or what xs have already, those that do. */
static tp_status grads(tpi_at at, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
                       tp_tensor *const *sums, tp_tensor **dx, bool inside)
{
    tp_ctx *ctx = y->ctx;
    dy = weights(at, y, dy);
    for (int i = 0; i < n; i++) { /* first: it may make params, and uses the graph's nodes */
        dx[i] = dy->status == TP_OK ? check_x(at, y, i, xs[i]) : dy;
        dx[i] = dx[i] ? dx[i] : refuse_around(at, y, i, xs[i]);
    }
    tpi_sweep s;
    tpi_unrecorded u;
    tpi_unrecorded_start(&u, ctx, y);
    for (int i = 0; i < n; i++) /* first: it may unfold what the sweep has as one node */
        if (!dx[i])
            tpi_misses(&u, xs[i]);
    if (dy->status != TP_OK || !tpi_sweep_start(&s, ctx, at, 1, &y, 0, NULL, inside)) {
        tpi_nodes_free(&u.nodes);
        for (int i = 0; i < n; i++)
            dx[i] = dy->status != TP_OK ? dy : &ctx->nil;
        return (tp_status)dx[0]->status;
    }
    tpi_aside older;
    tpi_error_aside(ctx, &older);
    tp_status status = mark_xs(&s, &u, y, n, xs, dx);
    tpi_nodes_free(&u.nodes);
    for (int i = 0; i < n && sums; i++)
        if (sums[i] && tpi_in_sweep(&s, xs[i])) {
            tpi_ref(sums[i]);
            tpi_sweep_seed(&s, y, xs[i]->slot, sums[i]);
        }
    tpi_sweep_spread(&s);
    const bool other = status != TP_OK, good = !other && go_back_from(&s, y, dy);
    for (int i = 0; i < n; i++) {
        if (dx[i])
            continue;
        dx[i] =
            good ? gradient_of(&s, y, xs[i])
                 : tpi_fail(ctx, at, "tp_grad", other ? status : ctx->status, "%s%s",
                            other ? "another gradient of this call failed: " : "", ctx->error);
        if (dx[i]->status != TP_OK)
            status = (tp_status)dx[i]->status;
    }
    tpi_sweep_done(&s);
    tpi_error_back(ctx, &older);
    return status;
}

/* What a block made that has ended, among y, dy and xs; NULL: none. */
static tp_tensor *refuse_over(tpi_at at, const tp_tensor *y, const tp_tensor *dy, int n,
                              tp_tensor *const *xs)
{
    for (int i = -2; i < n; i++) {
        const tp_tensor *t = i == -2 ? y : i == -1 ? dy : xs[i];
        if (tpi_is_live(t) && tpi_is_over(t->graph))
            return tpi_refuse_outside(t->graph, at, "tp_grad", t);
    }
    return NULL;
}

tp_status tp_grads_at(const char *file, int line, tp_tensor *y, tp_tensor *dy, int n,
                      tp_tensor *const *xs, tp_tensor **dx)
{
    const tpi_at at = TPI_AT(file, line);
    if (n <= 0 || !dx)
        return n == 0 ? TP_OK : TP_E_NULL;
    TPI_ALONE_OR(tpi_is_live(y) ? y->ctx : NULL, at, "tp_grad",
                 tpi_fail_all((tp_tensor *)crowd, n, dx));
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_grad", 0, y);
    if (!failed && !xs)
        failed = tpi_fail(y->ctx, at, "tp_grad", TP_E_NULL, "xs is NULL");
    if (!failed && y)
        failed = refuse_over(at, y, dy, n, xs);
    if (!y || failed || !xs)
        return tpi_fail_all(failed ? failed : (tp_tensor *)&tpi_nil, n, dx);
    if (y->ctx->has_custom || y->ctx->n_hung) /* the user's code, which may draw, runs in it */
        tpi_take_turn(y->ctx);
    tp_graph *tracing = y->ctx->tracing; /* what is computed is where y is */
    const bool sweeps = y->ctx->sweeps;
    y->ctx->tracing = NULL;
    y->ctx->sweeps = true;
    const tp_status status = grads(at, y, dy, n, xs, NULL, dx, sweeps);
    y->ctx->tracing = tracing;
    y->ctx->sweeps = sweeps;
    return status;
}

tp_status tpi_grads_onto(tpi_at at, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
                         tp_tensor *const *sums, tp_tensor **dx)
{
    return grads(at, y, dy, n, xs, sums, dx, false);
}

tp_status(tp_grads)(tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs, tp_tensor **dx)
{
    return tp_grads_at(NULL, 0, y, dy, n, xs, dx);
}

tp_tensor *tp_grad_at(const char *file, int line, tp_tensor *y, tp_tensor *x)
{
    tp_tensor *dx = (tp_tensor *)&tpi_nil;
    tp_grads_at(file, line, y, NULL, 1, &x, &dx);
    return dx;
}

TPI_BARE(tp_tensor *, tp_grad, (tp_tensor * y, tp_tensor *x), y, x)
