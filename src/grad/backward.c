/* One reverse sweep, for tapes and graphs alike.
 *
 * The nodes y was computed from are taken in program order; those that depend on what is asked
 * for are marked going forward; going back, each marked node's rule turns the gradient of its
 * result into contributions to its operands. Contributions add up as a left fold in that order
 * (newest node first, operands from first to last), which fixes the bits. The products that
 * share a right matrix give it one contribution, last, of all their rows joined in program
 * order: a recursive network would add up a matrix as large as its weights at each node.
 *
 * A call of a function is one node (op/call.h): what reaches its results waits until the sweep
 * comes to the call. There a sweep inside, by the same rules, goes from the results to the call's
 * operands, and what has added up there is the call's one contribution to each of them. */
#include "ir/graph_def.h"
#include "op/op.h"

#include <string.h>

/* A product whose right matrix waits for its gradient. */
typedef struct product {
    const tp_tensor *node;
    tp_tensor *dy; /* one reference */
    int before;    /* the one met before it in the sweep; -1: none */
} product;

/* The right matrix of several products. */
typedef struct shared {
    int products;      /* that depend on what is asked for */
    int last;          /* of those met so far; -1: none */
    tp_tensor *turned; /* NULL, or its transpose in memory of its own, one reference */
} shared;

enum { MAX_DEPTH = 1000 }; /* of calls in calls, and of the C stack */

typedef struct sweep {
    tp_ctx *ctx;
    tpi_at at;
    int depth;        /* in calls */
    int64_t left;     /* nodes that sweeps inside may still visit */
    tpi_nodes nodes;  /* program order; node->slot is the position */
    int32_t *outside; /* inside a call: the slots of the sweep outside, put back at the end */
    tp_tensor **grad; /* by slot: NULL, or the sum so far, one reference */
    bool *depends;    /* by slot: on something that is asked for */
    bool *ends;       /* by slot: an operand of the call the sweep is in */
    int *met;     /* by slot; of a call: its last result met so far, of a result: the one met
                         before it; -1: none. NULL when there are no calls */
    bool *wanted; /* one rule's operands */
    tp_tensor **dx;
    int max_in;
    shared *shared; /* by slot; NULL when no matrix is shared */
    product *products;
    int n_products, max_products;
} sweep;

static void sweep_done(sweep *s)
{
    tpi_mem *m = &s->ctx->mem;
    const size_t n = (size_t)s->nodes.n, k = (size_t)s->max_in;
    for (int i = 0; s->outside && i < s->nodes.n; i++)
        s->nodes.v[i]->slot = s->outside[i];
    for (int i = 0; s->grad && i < s->nodes.n; i++)
        tpi_unref(s->grad[i]);
    for (int i = 0; s->shared && i < s->nodes.n; i++)
        tpi_unref(s->shared[i].turned);
    for (int i = 0; i < s->n_products; i++)
        tpi_unref(s->products[i].dy);
    tpi_give_back(m, s->products, (size_t)s->max_products * sizeof *s->products);
    tpi_give_back(m, s->shared, n * sizeof *s->shared);
    tpi_give_back(m, s->outside, n * sizeof *s->outside);
    tpi_give_back(m, s->met, n * sizeof *s->met);
    tpi_give_back(m, s->grad, n * sizeof *s->grad);
    tpi_give_back(m, s->depends, 2 * n);
    tpi_give_back(m, s->wanted, k);
    tpi_give_back(m, s->dx, k * sizeof *s->dx);
    tpi_nodes_free(&s->nodes);
    *s = (sweep){.ctx = s->ctx, .nodes = {.ctx = s->ctx}};
}

static bool no_memory(sweep *s)
{
    tpi_no_memory(s->ctx, s->at, "gradient");
    sweep_done(s);
    return false;
}

/* Over what the roots were computed from, down to the operands of `call`, or all of it (NULL). */
static bool sweep_start(sweep *s, tp_ctx *ctx, tpi_at at, int n_roots, tp_tensor *const *roots,
                        const tp_tensor *call)
{
    *s = (sweep){.ctx = ctx, .at = at, .max_in = 1, .left = 8 * (int64_t)ctx->seq + 10000};
    s->nodes = (tpi_nodes){.ctx = ctx, .way = TPI_WAY_CALLS};
    if (!tpi_collect_from(&s->nodes, n_roots, roots, call ? call->n_in : 0,
                          call ? call->in : NULL)) {
        s->nodes.n = 0;
        return no_memory(s);
    }
    bool calls = false;
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *t = s->nodes.v[i];
        s->max_in = t->n_in > s->max_in ? t->n_in : s->max_in;
        calls |= t->op == &tpi_op_call;
    }
    tpi_mem *m = &ctx->mem;
    const size_t n = (size_t)s->nodes.n, k = (size_t)s->max_in;
    s->grad = tpi_take(m, n * sizeof *s->grad);
    if (s->grad)
        memset(s->grad, 0, n * sizeof *s->grad);
    s->depends = tpi_take(m, 2 * n);
    s->wanted = tpi_take(m, k);
    s->dx = tpi_take(m, k * sizeof *s->dx);
    s->met = calls ? tpi_take(m, n * sizeof *s->met) : NULL;
    if (!s->grad || !s->depends || !s->wanted || !s->dx || (calls && !s->met))
        return no_memory(s);
    int32_t *outside = call ? tpi_take(m, n * sizeof *outside) : NULL;
    if (call && !outside)
        return no_memory(s);
    memset(s->depends, 0, 2 * n);
    s->ends = s->depends + n;
    s->outside = outside;
    for (int i = 0; i < s->nodes.n; i++) {
        if (outside)
            outside[i] = s->nodes.v[i]->slot;
        if (calls)
            s->met[i] = -1;
        s->nodes.v[i]->slot = i;
    }
    for (int k_in = 0; call && k_in < call->n_in; k_in++)
        s->ends[call->in[k_in]->slot] = true;
    return true;
}

/* Do gradients pass through this node, from its result to its operands? A call's token carries
 * none, and stands for its results. */
static bool is_inner(const sweep *s, int i)
{
    const tp_tensor *t = s->nodes.v[i];
    return t->in && t->op->kind != TPI_SOURCE && t->op->grad && !(t->flags & TPI_CONSTANT) &&
           (t->dtype >= TP_F32 || t->op == &tpi_op_call) && !s->ends[i];
}

static bool is_product(const sweep *s, int i)
{
    const tp_tensor *t = s->nodes.v[i];
    return t->op && t->op->code == TPI_OP_matmul && s->depends[i] && is_inner(s, i) &&
           t->rank == 2;
}

/* Carries `depends` from what is asked for to the roots. */
static void spread(sweep *s)
{
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *t = s->nodes.v[i];
        if (s->depends[i] || !is_inner(s, i))
            continue;
        for (int k = tpi_way_first(s->nodes.way, t); k < t->n_in && !s->depends[i]; k++)
            s->depends[i] = s->depends[t->in[k]->slot];
    }
}

/* Finds the matrices that several products share; false when memory is out. */
static bool find_shared(sweep *s)
{
    int n = 0;
    for (int i = 0; i < s->nodes.n; i++)
        n += is_product(s, i);
    if (n < 2)
        return true;
    tpi_mem *m = &s->ctx->mem;
    const size_t bytes = (size_t)s->nodes.n * sizeof *s->shared;
    s->shared = tpi_take(m, bytes);
    s->products = tpi_take(m, (size_t)n * sizeof *s->products);
    s->max_products = s->products ? n : 0;
    for (int i = 0; s->shared && i < s->nodes.n; i++)
        s->shared[i] = (shared){.last = -1};
    if (!s->shared || !s->products)
        return false;
    for (int i = 0; i < s->nodes.n; i++)
        if (is_product(s, i))
            s->shared[s->nodes.v[i]->in[1]->slot].products++;
    return true;
}

/* A variable that was assigned since would give the gradient of another function. */
static tp_tensor *refuse_stale(const tp_tensor *t, tpi_at at)
{
    for (int k = 0; k < t->n_in && t->op->grad_reads_x; k++) {
        const tp_tensor *x = t->in[k];
        if (x->buf && x->buf->version != t->in_version[k])
            return tpi_fail(
                t->ctx, TPI_AT(t->file ? t->file : at.file, t->file ? t->line : at.line),
                t->op->name, TP_E_STATE,
                "operand %d%s%s was assigned after it was used here (write %u, now %u): "
                "take the gradient before the assignment",
                k, x->name ? " " : "", x->name ? x->name : "", t->in_version[k],
                x->buf->version);
    }
    return NULL;
}

/* Adds dx to a sum that nobody else can see, where it lies: the bits of tp_add, without a new
 * tensor as large as the weights for each node that uses them. Not where tp_add looks for NaN. */
static bool fold_in_place(const sweep *s, tp_tensor *sum, const tp_tensor *dx)
{
    const tpi_buf *b = sum->buf;
    if (s->ctx->recording || s->ctx->frame || s->ctx->trap_nan || sum->refs != 1 || sum->in ||
        sum->graph || sum->status != TP_OK || !b || b->refs != 1 || !b->size ||
        !(sum->flags & TPI_CONTIGUOUS))
        return false;
    if (dx->graph || dx->status != TP_OK || dx->dtype != sum->dtype ||
        !(dx->flags & TPI_CONTIGUOUS) || dx->rank != sum->rank ||
        memcmp(dx->shape, sum->shape, sizeof(int64_t) * sum->rank) != 0)
        return false;
    const tpi_row add = s->ctx->kernels->row[TPI_ELEM_add][sum->dtype][0];
    if (!add)
        return false;
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

/* grad[slot] += dx, whose reference is taken over. */
static void fold(sweep *s, const tp_tensor *node, int slot, tp_tensor *dx)
{
    tp_tensor **sum = &s->grad[slot];
    if (!*sum) {
        *sum = dx;
        return;
    }
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

/* The transpose of a shared matrix, made once: a product of few rows would take longer to turn
 * it than to use it. NULL where it is not worth it. */
static tp_tensor *turned(const sweep *s, const tp_tensor *t, shared *w)
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

/* Keeps what the gradient of the right matrix will be made of. */
static void wait_for_all(sweep *s, const tp_tensor *t, shared *w)
{
    tp_tensor *dy = s->grad[t->slot];
    tpi_ref(dy);
    s->products[s->n_products] = (product){t, dy, w->last};
    w->last = s->n_products++;
}

static tp_tensor *join(const tp_tensor *node, int n, tp_tensor **rows)
{
    return n == 1 ? rows[0] : tp_concat_at(node->file, node->line, n, rows, 0);
}

/* All products with the matrix of this slot have been met: their contribution to it. */
static bool join_products(sweep *s, int slot)
{
    tp_ctx *ctx = s->ctx;
    const product *const p = s->products;
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
    int n = 0;
    for (int i = last; i >= 0; i = p[i].before, n++) {
        rows[n] = p[i].node->in[0];
        rows[count + (size_t)n] = p[i].dy;
    }
    tp_tensor *x = tp_swap_at(node->file, node->line, join(node, n, rows), -2, -1);
    tp_tensor *dw = tp_matmul_at(node->file, node->line, x, join(node, n, rows + count));
    tpi_ref(dw);
    fold(s, node, slot, dw);
    tpi_give_back(&ctx->mem, rows, 2 * count * sizeof *rows);
    tp_scope_end(ctx);
    return true;
}

static bool step_back(sweep *s, tp_tensor *t)
{
    tp_ctx *ctx = s->ctx;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    tpi_grad g = {.op = t->op,
                  .at = TPI_AT(t->file, t->line),
                  .n_in = t->n_in,
                  .x = t->in,
                  .attrs = t->attrs,
                  .y = t,
                  .dy = s->grad[t->slot],
                  .dx = s->dx,
                  .wanted = s->wanted};
    for (int k = 0; k < t->n_in; k++) {
        s->dx[k] = NULL;
        s->wanted[k] = s->depends[t->in[k]->slot];
    }
    tp_tensor *stale = refuse_stale(t, s->at);
    if (!stale && s->shared && is_product(s, t->slot)) {
        shared *w = &s->shared[t->in[1]->slot];
        if (s->wanted[0])
            g.turned = turned(s, t, w);
        if (s->wanted[1] && w->products > 1) {
            s->wanted[1] = false;
            wait_for_all(s, t, w);
        }
    }
    if (!stale)
        t->op->grad(&g);
    for (int k = 0; k < t->n_in; k++)
        if (s->dx[k])
            fold(s, t, t->in[k]->slot, s->dx[k]);
    tp_scope_end(ctx);
    return !stale;
}

/* ---- calls ---------------------------------------------------------------------------------------- */

static bool go_back(sweep *s);

/* The gradient of a result waits for its call. */
static void wait_for_call(sweep *s, const tp_tensor *result)
{
    const int call = result->in[1]->slot;
    if (s->met && s->depends[call]) {
        s->met[result->slot] = s->met[call];
        s->met[call] = result->slot;
    }
}

/* The values inside of the results met, newest first, in memory to give back; NULL: no memory. */
static tp_tensor **roots_inside(const sweep *s, int call, int *n)
{
    *n = 0;
    for (int i = s->met[call]; i >= 0; i = s->met[i])
        (*n)++;
    tp_tensor **roots = tpi_take(&s->ctx->mem, (size_t)*n * sizeof *roots);
    for (int i = s->met[call], k = 0; roots && i >= 0; i = s->met[i])
        roots[k++] = s->nodes.v[i]->in[0];
    return roots;
}

/* The sweep inside, from the gradients of the results met. */
static bool sweep_inside(sweep *in, const sweep *s, const tp_tensor *call, int slot)
{
    int n;
    tp_tensor **roots = roots_inside(s, slot, &n);
    if (!roots) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    const bool started = sweep_start(in, s->ctx, s->at, n, roots, call);
    if (started) {
        in->depth = s->depth + 1;
        in->left = s->left - in->nodes.n;
        for (int i = 0; i < in->nodes.n; i++)
            in->depends[i] = in->ends[i] && s->depends[in->outside[i]];
        spread(in);
        for (int i = s->met[slot], k = 0; i >= 0; i = s->met[i]) {
            tpi_ref(s->grad[i]);
            fold(in, call, roots[k++]->slot, s->grad[i]);
        }
    }
    tpi_give_back(&s->ctx->mem, roots, (size_t)n * sizeof *roots);
    return started && go_back(in);
}

/* A program's calls nest as its C calls do. Those of a text may be nested deeper than the C stack, or
 * share what is inside them, each time twice as often. */
static bool refuse_nesting(const sweep *s, const tp_tensor *call)
{
    if (s->depth < MAX_DEPTH && s->left > 0)
        return false;
    tpi_fail_status(
        s->ctx, call->file ? TPI_AT(call->file, call->line) : s->at, "gradient", TP_E_VALUE,
        s->left > 0 ? "calls are nested more than %d deep" : "calls share what is inside them",
        MAX_DEPTH);
    return true;
}

static bool step_inside(sweep *s, const tp_tensor *call, int slot)
{
    tp_ctx *ctx = s->ctx;
    if (refuse_nesting(s, call))
        return false;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    const tpi_call_hooks *hooks = ctx->call_hooks;
    void *begun = hooks ? hooks->sweep_begin(ctx, call, s->at) : NULL;
    sweep in = {.ctx = ctx, .nodes = {.ctx = ctx}};
    const bool ok = sweep_inside(&in, s, call, slot);
    if (hooks)
        hooks->sweep_end(ctx, begun);
    s->left = in.left;
    for (int k = 0; k < call->n_in && ok; k++) {
        const int i = call->in[k]->slot;
        if (in.depends[i] && in.grad[i]) {
            fold(s, call, in.outside[i], in.grad[i]);
            in.grad[i] = NULL; /* an operand may come twice */
        }
    }
    sweep_done(&in);
    tp_scope_end(ctx);
    return ok;
}

/* ---- the sweep -------------------------------------------------------------------------------------- */

/* From the gradients that are there, to what is asked for. */
static bool go_back(sweep *s)
{
    if (!find_shared(s)) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    for (int i = s->nodes.n - 1; i >= 0; i--) {
        tp_tensor *t = s->nodes.v[i];
        if (s->shared && s->shared[i].last >= 0 && !join_products(s, i))
            return false;
        if (!s->depends[i] || !is_inner(s, i))
            continue;
        if (t->op == &tpi_op_call) {
            if (s->met && s->met[i] >= 0 && !step_inside(s, t, i))
                return false;
        } else if (s->grad[i] && t->op == &tpi_op_result) {
            wait_for_call(s, t);
        } else if (s->grad[i] && !step_back(s, t)) {
            return false;
        }
    }
    return true;
}

/* From y, whose elements weigh dy. */
static bool go_back_from(sweep *s, const tp_tensor *y, tp_tensor *dy)
{
    tpi_ref(dy);
    s->grad[y->slot] = dy;
    return go_back(s);
}

void tpi_give(tpi_grad *g, int i, tp_tensor *dx)
{
    if (!g->wanted[i] || !dx)
        return;
    const tp_tensor *x = g->x[i];
    if (dx->status == TP_OK && !tpi_same_shape(dx, x)) {
        int64_t axes[TP_MAX_RANK];
        int n = 0;
        const int extra = dx->rank - x->rank;
        for (int a = 0; a < dx->rank; a++)
            if (a < extra || (x->shape[a - extra] == 1 && dx->shape[a] != 1))
                axes[n++] = a;
        if (n > 0) {
            dx = tp_sum_at(g->at.file, g->at.line, dx, n, axes, n > extra);
            if (n > extra && extra > 0)
                dx = tp_reshape_at(g->at.file, g->at.line, dx, x->rank, x->shape);
        }
    }
    tpi_ref(dx);
    if (g->dx[i]) {
        tp_tensor *sum = tp_add_at(g->at.file, g->at.line, g->dx[i], dx);
        tpi_ref(sum);
        tpi_unref(dx);
        tpi_unref(g->dx[i]);
        dx = sum;
    }
    g->dx[i] = dx;
}

/* `value` in every element of a tensor like x. */
static tp_tensor *all(tpi_at at, tp_tensor *x, double value)
{
    tp_tensor *one = tp_scalar_like_at(at.file, at.line, x, value);
    return x->rank ? tp_broadcast_at(at.file, at.line, one, x->rank, x->shape) : one;
}

/* The weights of y's elements, checked; ones when `dy` is NULL. */
static tp_tensor *weights(tpi_at at, tp_tensor *y, tp_tensor *dy)
{
    if (y->dtype < TP_F32)
        return tpi_fail(y->ctx, at, "gradient", TP_E_DTYPE,
                        "y is %s: gradients are for f32 and f64",
                        tp_dtype_name((tp_dtype)y->dtype));
    if (!dy)
        return all(at, y, 1);
    tp_tensor *failed = tpi_refuse_operand(y->ctx, at, "gradient", 1, dy);
    if (failed)
        return failed;
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
    const bool was = tp->recording;
    tp->recording = on;
    return was;
}

/* ---- tp_backward -------------------------------------------------------------------------------- */

/* The sums first, then all at once: a gradient that fails leaves the others as they were. */
static tp_status add_to_leaves(sweep *s)
{
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

tp_status tp_backward_at(const char *file, int line, tp_tensor *y)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_backward", 0, y);
    if (failed || !y)
        return failed ? (tp_status)failed->status : TP_E_NULL;
    tp_ctx *ctx = y->ctx;
    if (y->graph)
        return tpi_fail_status(ctx, at, "tp_backward", TP_E_SYMBOLIC,
                               "y is symbolic: add gradients to its graph with tp_grad");
    if (!(y->flags & TPI_REQUIRES))
        return tpi_fail_status(ctx, at, "tp_backward", TP_E_STATE,
                               "y was computed from nothing that requires a gradient (mark it "
                               "with tp_require_grad or tp_param, and record)");
    if (tp_scope_begin(ctx) != TP_OK)
        return TP_E_MEMORY;
    const bool was = tp_recording(ctx, false);
    tp_tensor *dy = weights(at, y, NULL);
    tp_status status = (tp_status)dy->status;
    sweep s;
    if (status == TP_OK && !sweep_start(&s, ctx, at, 1, &y, NULL)) {
        status = TP_E_MEMORY;
    } else if (status == TP_OK) {
        for (int i = 0; i < s.nodes.n; i++)
            s.depends[i] = s.nodes.v[i]->flags & TPI_LEAF;
        spread(&s);
        if (!go_back_from(&s, y, dy))
            status = ctx->status;
        if (status == TP_OK)
            status = add_to_leaves(&s);
        sweep_done(&s);
    }
    tp_recording(ctx, was);
    tp_scope_end(ctx);
    return status;
}

tp_status(tp_backward)(tp_tensor *y)
{
    return tp_backward_at(NULL, 0, y);
}

tp_tensor *tp_grad_of_at(const char *file, int line, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_grad_of", 0, t);
    if (failed || !t)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    if (!(t->flags & TPI_LEAF))
        return tpi_fail(t->ctx, at, "tp_grad_of", TP_E_STATE,
                        "the tensor is not marked: call tp_require_grad before it is used");
    if (!t->grad) {
        const bool was = tp_recording(t->ctx, false);
        tp_tensor *zero = all(at, t, 0);
        tp_recording(t->ctx, was);
        if (zero->status != TP_OK)
            return zero;
        tpi_ref(zero);
        t->grad = zero;
    }
    return t->grad;
}

TPI_BARE(tp_tensor *, tp_grad_of, (tp_tensor * t), t)

void tp_zero_grad(tp_tensor *t)
{
    if (tpi_is_live(t) && t->ctx) {
        tpi_unref(t->grad);
        t->grad = NULL;
    }
}

tp_tensor *tp_require_grad_at(const char *file, int line, tp_tensor *t)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_require_grad", 0, t);
    if (failed || !t)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    if (t->graph)
        return t;
    if (t->dtype < TP_F32)
        return tpi_fail(t->ctx, at, "tp_require_grad", TP_E_DTYPE,
                        "the tensor is %s: gradients are for f32 and f64",
                        tp_dtype_name((tp_dtype)t->dtype));
    if (t->in && (t->flags & TPI_REQUIRES))
        return t; /* recorded: tp_grad can ask for it as it is */
    t->flags |= TPI_REQUIRES | TPI_LEAF;
    return t;
}

TPI_BARE(tp_tensor *, tp_require_grad, (tp_tensor * t), t)

bool tp_requires_grad(const tp_tensor *t)
{
    return tpi_is_live(t) && t->status == TP_OK && (t->graph || t->flags & TPI_REQUIRES);
}

/* ---- tp_grads -------------------------------------------------------------------------------------- */

/* The node of y's graph that a concrete x is read through; x itself otherwise; NULL: none. */
static tp_tensor *as_node(const sweep *s, const tp_tensor *y, tp_tensor *x)
{
    if (!y->graph || x->graph)
        return x;
    for (int i = 0; i < s->nodes.n; i++)
        if (s->nodes.v[i]->op && s->nodes.v[i]->op->kind == TPI_SOURCE && s->nodes.v[i]->n_in &&
            s->nodes.v[i]->in[0] == x)
            return s->nodes.v[i];
    return NULL;
}

static bool in_sweep(const sweep *s, const tp_tensor *t)
{
    return t && t->slot >= 0 && t->slot < s->nodes.n && s->nodes.v[t->slot] == t;
}

static tp_tensor *check_x(tpi_at at, const tp_tensor *y, int i, tp_tensor *x)
{
    tp_tensor *failed = tpi_refuse_operand(y->ctx, at, "tp_grad", i, x);
    if (failed)
        return failed;
    if (x->graph && x->graph != y->graph)
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_CTX, "x %d belongs to another graph than y",
                        i);
    if (x->dtype < TP_F32)
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_DTYPE,
                        "x %d is %s: gradients are for f32 and f64", i,
                        tp_dtype_name((tp_dtype)x->dtype));
    if (!y->graph && !(x->flags & TPI_REQUIRES))
        return tpi_fail(y->ctx, at, "tp_grad", TP_E_STATE,
                        "nothing was recorded for x %d: call tp_require_grad before it is used",
                        i);
    return NULL;
}

/* Is y computed from x inside a call only? No gradient is found there, and zeros would be wrong. */
static tp_tensor *refuse_inside(const sweep *s, tp_tensor *y, int i, const tp_tensor *x)
{
    tpi_nodes all = {.ctx = s->ctx};
    tp_tensor *failed = NULL;
    if (!x)
        return NULL;
    if (!tpi_collect(&all, 1, &y, NULL, NULL))
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

static tp_status grads(tpi_at at, tp_tensor *y, tp_tensor *dy, int n, tp_tensor *const *xs,
                       tp_tensor **dx)
{
    tp_ctx *ctx = y->ctx;
    dy = weights(at, y, dy);
    sweep s;
    if (dy->status != TP_OK || !sweep_start(&s, ctx, at, 1, &y, NULL)) {
        for (int i = 0; i < n; i++)
            dx[i] = dy->status != TP_OK ? dy : &ctx->nil;
        return (tp_status)dx[0]->status;
    }
    tp_status status = TP_OK;
    for (int i = 0; i < n; i++) {
        dx[i] = check_x(at, y, i, xs[i]);
        tp_tensor *node = dx[i] ? NULL : as_node(&s, y, xs[i]);
        if (dx[i])
            status = (tp_status)dx[i]->status;
        else if (in_sweep(&s, node))
            s.depends[node->slot] = true;
        else if (s.met && (dx[i] = refuse_inside(&s, y, i, node)) != NULL)
            status = (tp_status)dx[i]->status;
    }
    spread(&s);
    const bool good = status == TP_OK && go_back_from(&s, y, dy);
    for (int i = 0; i < n; i++) {
        if (dx[i])
            continue;
        tp_tensor *node = as_node(&s, y, xs[i]);
        tp_tensor *g = in_sweep(&s, node) ? s.grad[node->slot] : NULL;
        if (!good)
            g = tpi_fail(ctx, at, "tp_grad", status == TP_OK ? ctx->status : status,
                         "another gradient of this call failed: %s", ctx->error);
        else if (!g)
            g = all(at, y->graph && !xs[i]->graph ? tpi_graph_lift(y->graph, at, xs[i]) : xs[i],
                    0);
        if (g->owned_at < 0 && g != &ctx->nil) {
            tpi_ref(g);
            if (!tpi_own(g))
                g = tpi_no_memory(ctx, at, "tp_grad");
        }
        dx[i] = g;
        if (g->status != TP_OK)
            status = (tp_status)g->status;
    }
    sweep_done(&s);
    return status;
}

tp_status tp_grads_at(const char *file, int line, tp_tensor *y, tp_tensor *dy, int n,
                      tp_tensor *const *xs, tp_tensor **dx)
{
    const tpi_at at = TPI_AT(file, line);
    if (n <= 0 || !dx)
        return n == 0 ? TP_OK : TP_E_NULL;
    tp_tensor *failed = tpi_refuse_operand(NULL, at, "tp_grad", 0, y);
    if (!failed && !xs)
        failed = tpi_fail(y->ctx, at, "tp_grad", TP_E_NULL, "xs is NULL");
    if (!y || failed || !xs) {
        for (int i = 0; i < n; i++)
            dx[i] = failed ? failed : (tp_tensor *)&tpi_nil;
        return (tp_status)dx[0]->status;
    }
    return grads(at, y, dy, n, xs, dx);
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
