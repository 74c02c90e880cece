/* Captured functions as ONNX models. The flow of a pure function becomes a graph with blocks: branches
 * that join are If, rolled loops Loop. Any other function's tree of steps becomes one graph and a
 * tree of blocks, which are If in If. */
#include "capture/lift.h"
#include "onnx/export.h"
#include "op/call.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "tp_onnx_save_function";

enum { MAX_DEPTH = 30 }; /* as models are written */

/* A path down the tree: nodes by number of the step, and of tensors from outside. */
typedef struct walker {
    tp_ctx *ctx;
    tpi_at at;
    tp_graph *g;
    int n_out;
    tp_tensor **steps, **outside; /* entries are set on the way down, and set anew beside it */
    int n_steps, n_outside;
    tpi_nodes_of nodes;
    int depth;           /* branches in branches */
    const char *no_flow; /* why a pure function's flow was no graph; NULL: none was tried */
    tpi_at no_flow_at;
    struct owned {
        struct owned *next;
        tpi_onnx_block block;
        tp_tensor *outputs[];
    } * own;
} walker;

static tp_tensor *node_of(void *user, int32_t number)
{
    const walker *w = user;
    return number < 0 ? w->outside[~number] : w->steps[number];
}

static bool refuse(const walker *w, const tpi_step *s, const char *text)
{
    tpi_at at = s->at;
    if (w->no_flow) { /* what was tried first says more */
        at = w->no_flow_at;
        text = w->no_flow;
    }
    tpi_fail_status(w->ctx, at.file ? at : w->at, what, TP_E_STATE, "%s", text);
    return false;
}

/* The numbers that outside tensors get on a path follow from the steps above. */
static int first_outside(const tpi_step *s)
{
    int n = 0;
    for (const tpi_step *t = s->above; t; t = t->above)
        n += t->n_new;
    return n;
}

static bool meet(walker *w, const tpi_step *s)
{
    if (!s->n_new)
        return true;
    int number = first_outside(s);
    for (int i = 0; i < s->n_new; i++, number++) {
        tp_tensor *t = s->new[i].tensor;
        if (!t)
            return refuse(w, s, "this reads memory that was wrapped: copy it into a variable");
        if (s->new[i].swapped)
            return refuse(w, s,
                          "a tensor that is no argument was not the same in all calls: pass "
                          "it as an argument");
        if (s->new[i].varied && !(t->flags & TPI_STATE))
            return refuse(w, s,
                          "a tensor that is no argument had other sizes in other calls: "
                          "pass it as an argument");
        w->outside[number] = tpi_graph_lift(w->g, s->at, t);
        if (w->outside[number]->status != TP_OK)
            return false;
    }
    return true;
}

static tpi_onnx_block *new_block(walker *w, int n_out)
{
    struct owned *o = tpi_take(&w->ctx->mem, sizeof *o + (size_t)n_out * sizeof *o->outputs);
    if (!o) {
        tpi_no_memory(w->ctx, w->at, what);
        return NULL;
    }
    memset(o, 0, sizeof *o);
    o->next = w->own;
    w->own = o;
    return &o->block;
}

static tp_tensor **outputs_of(tpi_onnx_block *b)
{
    return ((struct owned *)(void *)((char *)b - offsetof(struct owned, block)))->outputs;
}

static bool declare(walker *w, const tpi_step *first, const tpi_step *s)
{
    tp_tensor *y = NULL;
    if (!meet(w, s))
        return false;
    switch (s->kind) {
    case TPI_STEP_SCALAR:
        if (s->varied)
            return refuse(
                w, s,
                "this number, or the count in a mean whose gradient is taken, was not the "
                "same in all calls: pass it as an argument, or keep the sizes");
        y = tpi_graph_lift(
            w->g, s->at,
            tp_scalar_at(s->at.file, s->at.line, w->ctx, (tp_dtype)s->dtype, s->value));
        break;
    case TPI_STEP_OP:
        if (s->op == &tpi_op_call)
            return true;
        y = tpi_segment_declare(w->g, first, s->number - first->number, s, &w->nodes);
        break;
    case TPI_STEP_ASSIGN:
        return refuse(w, s, "a variable is assigned, which a model cannot say");
    default:
        if (s->look == TPI_LOOK_ASSIGN)
            return refuse(w, s, "a variable is assigned, which a model cannot say");
        return true;
    }
    w->steps[s->number] = y;
    return y->status == TP_OK;
}

/* Did a call that went on from s come to its end? Those that failed did not. */
static bool comes_to_its_end(const walker *w, const tpi_step *s)
{
    const tpi_step *t = s;
    while (t) {
        if (t->kind == TPI_STEP_RETURN && t->n_in == w->n_out)
            return true;
        if (t->first) {
            t = t->first;
            continue;
        }
        while (t != s && !t->next)
            t = t->above;
        t = t == s ? NULL : t->next;
    }
    return false;
}

/* The step that followed s in good calls; NULL: there were several, or none (*n). */
static const tpi_step *only_next(const walker *w, const tpi_step *s, int *n)
{
    const tpi_step *found = NULL;
    *n = 0;
    if (s->first && !s->first->next) { /* the usual case */
        *n = 1;
        return s->first;
    }
    for (const tpi_step *t = s->first; t; t = t->next)
        if (comes_to_its_end(w, t)) {
            found = t;
            ++*n;
        }
    return *n == 1 ? found : NULL;
}

static const tpi_step *next_truth(const walker *w, const tpi_step *s, bool truth)
{
    for (const tpi_step *t = s->first; t; t = t->next)
        if (t->kind == TPI_STEP_LOOK && t->look == TPI_LOOK_TRUTH && t->truth == truth &&
            comes_to_its_end(w, t))
            return t;
    return NULL;
}

static tpi_onnx_block *no_block(const walker *w, const tpi_step *s, const char *text)
{
    refuse(w, s, text);
    return NULL;
}

static tpi_onnx_block *walk(walker *w, const tpi_step *s);

static bool branch(walker *w, const tpi_step *s, tpi_onnx_block *b)
{
    const tpi_step *yes = next_truth(w, s, true), *no = next_truth(w, s, false);
    const tpi_step *one = yes ? yes : no;
    if (!one)
        return refuse(w, s->first,
                      "runs went different ways here for a reason that is no "
                      "tensor: branch on tp_truth, or fix what differs");
    for (const tpi_step *t = s->first; t; t = t->next)
        if (t != yes && t != no && comes_to_its_end(w, t))
            return refuse(w, t,
                          "runs went different ways here for a reason that is no tensor: "
                          "branch on tp_truth, or fix what differs");
    if (!yes || !no)
        return refuse(w, one,
                      yes ? "tp_truth was never false here: call the function so that "
                            "both sides are seen"
                          : "tp_truth was never true here: call the function so that "
                            "both sides are seen");
    if (++w->depth > MAX_DEPTH)
        return refuse(w, one, "branches lie in branches more than 30 deep");
    if (yes->in[0] != no->in[0])
        return refuse(w, one, "different tensors are asked");
    if (!meet(w, yes))
        return false;
    b->condition = node_of(w, yes->in[0]);
    b->then_block = walk(w, yes);
    b->else_block = b->then_block ? walk(w, no) : NULL;
    w->depth--;
    return b->else_block;
}

/* What follows s, to the end of the block. */
static tpi_onnx_block *walk(walker *w, const tpi_step *s)
{
    tpi_onnx_block *b = new_block(w, w->n_out);
    const tpi_step *first = NULL;
    while (b) {
        int n;
        const tpi_step *next = only_next(w, s, &n);
        if (n == 0)
            return no_block(w, s, "no call came to a good end from here");
        if (n > 1 || (next->kind == TPI_STEP_LOOK && next->look == TPI_LOOK_TRUTH))
            return branch(w, s, b) ? b : NULL;
        first = s->cut ? next : first;
        s = next;
        first = first ? first : s;
        if (s->kind == TPI_STEP_RETURN)
            break;
        if (!declare(w, first, s))
            return NULL;
    }
    if (!b || !meet(w, s))
        return NULL;
    if (s->n_in != w->n_out)
        return no_block(w, s,
                        "a call failed, or gave another number of results than are named");
    b->outputs = outputs_of(b);
    for (int i = 0; i < w->n_out; i++)
        outputs_of(b)[i] = node_of(w, s->in[i]);
    return b;
}

/* ---- flows ------------------------------------------------------------------------------------------ */

static bool has_loop(const tpi_flow *flow)
{
    bool any = false;
    for (int i = 0; i < flow->blocks->n; i++)
        any |= flow->blocks->v[i].loops;
    return any;
}

/* The flow of a pure function that is called in one way; NULL: there is none, or several, of which the tree
 * may be one model. w->no_flow is set when one more call would make a loop a Loop. */
static tpi_flow *only_flow(walker *w, const tp_function *f, int n_in)
{
    tpi_flow *found = NULL;
    for (int i = 0; i < f->pure.n_flows; i++) {
        tpi_flow *flow = f->pure.flows[i];
        if (flow->n_in == n_in && found)
            return NULL;
        found = flow->n_in == n_in ? flow : found;
    }
    if (!found || !found->blocks || found->n_out != w->n_out || found->n_args != n_in)
        return NULL;
    for (int i = 0; i < n_in; i++)
        if (!found->externs[found->args[i]].general) {
            if (has_loop(found))
                w->no_flow =
                    "an argument was the same tensor in all calls, and may be one that "
                    "the body reaches by itself: call the function with another one";
            return NULL;
        }
    return found;
}

static bool flow_nodes(walker *w, tpi_flow *flow, const char *const *names, tp_tensor **in,
                       tp_tensor **out)
{
    for (int i = 0; i < flow->n_in; i++) {
        const tp_tensor *t = flow->externs[flow->args[i]].tensor;
        in[i] = tp_placeholder_at(w->at.file, w->at.line, w->g, names[i], (tp_dtype)t->dtype,
                                  t->rank, t->shape);
        if (in[i]->status != TP_OK)
            return false;
    }
    return tpi_flow_lift(flow, w->g, in, out, &w->no_flow, &w->no_flow_at);
}

/* False: the flow is no graph (w->no_flow). */
static bool save_flow(walker *w, tpi_flow *flow, const char *path, const char *const *inputs,
                      const char *const *outputs, tp_status *status)
{
    const size_t bytes = (size_t)(flow->n_in + w->n_out) * sizeof(tp_tensor *);
    tp_tensor **in = tpi_take(&w->ctx->mem, bytes), **out = in + flow->n_in;
    if (!in) {
        tpi_no_memory(w->ctx, w->at, what);
        *status = TP_E_MEMORY;
        return true;
    }
    const bool good = flow_nodes(w, flow, inputs, in, out);
    *status = w->ctx->status;
    if (good) {
        const tpi_onnx_block block = {.outputs = out};
        const tpi_onnx_model m = {.what = what,
                                  .at = w->at,
                                  .g = w->g,
                                  .n_in = flow->n_in,
                                  .in = in,
                                  .in_names = inputs,
                                  .n_out = w->n_out,
                                  .out_names = outputs,
                                  .block = &block};
        *status = tpi_onnx_write(&m, path);
    }
    tpi_give_back(&w->ctx->mem, in, bytes);
    return good || !w->no_flow;
}

/* ---- all -------------------------------------------------------------------------------------------- */

static void measure(walker *w, const tp_function *f)
{
    for (const tpi_step *s = f->forward.top.first; s; s = tpi_tree_walk(&f->forward, s)) {
        w->n_steps = s->number >= w->n_steps ? s->number + 1 : w->n_steps;
        w->n_outside += s->n_new;
    }
}

static tp_status save_tree(walker *w, const tp_function *f, const char *path, int n_in,
                           const char *const *inputs, const char *const *outputs)
{
    const tpi_step *entry = tpi_function_entry(f, w->at, what, n_in);
    if (!entry)
        return w->ctx->status;
    tp_tensor **in = tpi_take(&w->ctx->mem, (size_t)n_in * sizeof *in);
    tp_status status = TP_E_MEMORY;
    if (!in) {
        tpi_no_memory(w->ctx, w->at, what);
    } else if (tpi_function_arguments(f, entry, w->at, what, w->g, inputs, in)) {
        for (int i = 0; i < n_in; i++)
            w->outside[i] = in[i];
        const tpi_onnx_block *top = walk(w, entry);
        const tpi_onnx_model m = {.what = what,
                                  .at = w->at,
                                  .g = w->g,
                                  .n_in = n_in,
                                  .in = in,
                                  .in_names = inputs,
                                  .n_out = w->n_out,
                                  .out_names = outputs,
                                  .block = top};
        status = top ? tpi_onnx_write(&m, path) : w->ctx->status;
    } else {
        status = w->ctx->status;
    }
    tpi_give_back(&w->ctx->mem, in, (size_t)n_in * sizeof *in);
    return status;
}

static tp_status save(walker *w, const tp_function *f, const char *path, int n_in,
                      const char *const *inputs, const char *const *outputs)
{
    tpi_flow *flow = only_flow(w, f, n_in);
    tp_status status = TP_E_MEMORY;
    w->g = tp_graph_new(w->ctx);
    if (!w->g || (flow && save_flow(w, flow, path, inputs, outputs, &status)))
        return status;
    if (flow) {
        tp_graph_free(w->g);
        w->g = tp_graph_new(w->ctx);
    }
    return w->g ? save_tree(w, f, path, n_in, inputs, outputs) : status;
}

tp_status tp_onnx_save_function_at(const char *file, int line, tp_function *f, const char *path,
                                   int n_in, const char *const *inputs, int n_out,
                                   const char *const *outputs)
{
    const tpi_at at = TPI_AT(file, line);
    if (!f)
        return TP_E_NULL;
    tp_ctx *ctx = f->ctx;
    if (!path || (n_in && !inputs) || !outputs)
        return tpi_fail_status(ctx, at, what, TP_E_NULL, "the %s is missing",
                               !path     ? "path"
                               : outputs ? "list of inputs"
                                         : "list of outputs");
    if (n_in < 0 || n_out < 1)
        return tpi_fail_status(ctx, at, what, TP_E_VALUE, "%d inputs, %d outputs", n_in, n_out);
    for (int i = 0; i < n_in + n_out; i++)
        if (!(i < n_in ? inputs[i] : outputs[i - n_in]))
            return tpi_fail_status(ctx, at, what, TP_E_NULL, "the name of an %s is NULL",
                                   i < n_in ? "input" : "output");
    walker w = {.ctx = ctx, .at = at, .n_out = n_out};
    w.nodes = (tpi_nodes_of){.node = node_of, .user = &w};
    const tpi_stepped_out around = tpi_step_out(ctx, at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    measure(&w, f);
    w.steps = tpi_take(&ctx->mem, (size_t)w.n_steps * sizeof *w.steps);
    w.outside = tpi_take(&ctx->mem, (size_t)w.n_outside * sizeof *w.outside);
    tp_status status = TP_E_MEMORY;
    if (w.steps && w.outside && tp_scope_begin(ctx) == TP_OK) {
        status = save(&w, f, path, n_in, inputs, outputs);
        tp_scope_end(ctx);
    } else {
        tpi_no_memory(ctx, at, what);
    }
    while (w.own) {
        struct owned *o = w.own;
        w.own = o->next;
        tpi_give_back(&ctx->mem, o, sizeof *o + (size_t)n_out * sizeof *o->outputs);
    }
    tpi_give_back(&ctx->mem, w.steps, (size_t)w.n_steps * sizeof *w.steps);
    tpi_give_back(&ctx->mem, w.outside, (size_t)w.n_outside * sizeof *w.outside);
    tp_graph_free(w.g);
    tpi_error_back(ctx, &earlier);
    tpi_step_back(ctx, around);
    return status;
}

tp_status(tp_onnx_save_function)(tp_function *f, const char *path, int n_in,
                                 const char *const *inputs, int n_out,
                                 const char *const *outputs)
{
    return tp_onnx_save_function_at(NULL, 0, f, path, n_in, inputs, n_out, outputs);
}
