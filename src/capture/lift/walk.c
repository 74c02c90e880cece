#include "capture/lift/walk.h"

#include "control/open_block.h"
#include "op/call.h"

#include <string.h>

/* ---- begin, end ------------------------------------------------------------------------------ */

static tp_graph *leaving_graph(tp_ctx *ctx)
{
    tp_graph *g = tp_graph_new(ctx);
    if (g)
        g->leaves = true;
    return g;
}

bool tpi_walk_begin(tpi_walk *w)
{
    tpi_mem *m = &w->ctx->mem;
    for (const tpi_step *s = w->f->forward.top.first; s; s = tpi_tree_walk(&w->f->forward, s)) {
        w->n_steps = s->number >= w->n_steps ? s->number + 1 : w->n_steps;
        w->incoming_size += s->n_new;
        for (int i = 0; i < s->n_new; i++)
            if (~s->new[i].source >= w->n_outside)
                w->n_outside = ~s->new[i].source + 1;
    }
    w->steps = tpi_take(m, (size_t)w->n_steps * sizeof *w->steps);
    w->outside = tpi_take(m, (size_t)w->n_outside * sizeof *w->outside);
    w->incoming = tpi_take(m, (size_t)w->incoming_size * sizeof *w->incoming);
    if (!w->steps || !w->outside || !w->incoming)
        tpi_no_memory(w->ctx, w->at, w->what);
    w->g = w->steps && w->outside && w->incoming ? leaving_graph(w->ctx) : NULL;
    return w->g;
}

void tpi_walk_end(tpi_walk *w)
{
    tpi_give_back(&w->ctx->mem, w->steps, (size_t)w->n_steps * sizeof *w->steps);
    tpi_give_back(&w->ctx->mem, w->outside, (size_t)w->n_outside * sizeof *w->outside);
    tpi_give_back(&w->ctx->mem, w->incoming, (size_t)w->incoming_size * sizeof *w->incoming);
    tp_graph_free(w->g);
}

bool tpi_walk_refuse(const tpi_walk *w, const tpi_step *s, const char *text)
{
    tpi_at at = s->at;
    if (w->no_flow) {
        at = w->no_flow_at;
        text = w->no_flow;
    }
    tpi_fail_status(w->ctx, at.file ? at : w->at, w->what, TP_E_STATE, "%s", text);
    return false;
}

/* ---- steps as nodes -------------------------------------------------------------------------- */

static tp_graph *graph_here(const tpi_walk *w)
{
    return w->ctx->tracing ? w->ctx->tracing : w->g;
}

/* What operand `code` of the segment was in the call. */
static int32_t number_of(const tpi_walk *w, int32_t code)
{
    return code < 0 ? w->incoming[~code] : w->head->number + code;
}

static tp_tensor *node_of(const tpi_walk *w, tpi_at at, int32_t code)
{
    const int32_t number = number_of(w, code);
    return number < 0 ? tpi_graph_lift(graph_here(w), at, w->outside[~number])
                      : w->steps[number];
}

tp_tensor *tpi_walk_node(const tpi_walk *w, const tpi_step *s, int k)
{
    return node_of(w, s->at, s->in[k]);
}

static tp_tensor *operand(void *user, int32_t code)
{
    const tpi_walk *w = user;
    return node_of(w, w->at, code);
}

/* A tensor from outside that is no argument. */
static bool meet_outside(tpi_walk *w, const tpi_step *s, const tpi_incoming *o)
{
    if (!o->tensor)
        return tpi_walk_refuse(w, s,
                               "this reads memory that was wrapped: copy it into a variable");
    if (o->swapped)
        return tpi_walk_refuse(
            w, s,
            "a tensor that is no argument was not the same in all calls: pass "
            "it as an argument");
    if (o->varied && !(o->tensor->flags & TPI_STATE))
        return tpi_walk_refuse(w, s,
                               "a tensor that is no argument had other sizes in other calls: "
                               "pass it as an argument");
    w->outside[~o->source] = o->tensor;
    return true;
}

static const char of_turns[] =
    "a loop of C had other numbers of turns in other calls: write it as tp_for, or save the "
    "function before that";

static bool refuse_moved(const tpi_walk *w, const tpi_step *s)
{
    const tpi_step *end = s;
    while (!end->cut && end->first)
        end = end->first;
    return tpi_walk_refuse(w, s,
                           end->again
                               ? of_turns
                               : "what this reads was another tensor in other calls, for "
                                 "a reason that is no tensor: branch on tp_truth");
}

bool tpi_walk_meet(tpi_walk *w, const tpi_step *s)
{
    if (s->above->cut) {
        w->head = s;
        w->n_incoming = 0;
    }
    for (int i = 0; i < s->n_new; i++) {
        const tpi_incoming *o = &s->new[i];
        w->incoming[w->n_incoming++] = o->source;
        if (~o->source >= w->n_arguments && !meet_outside(w, s, o))
            return false;
        if (o->moved)
            return refuse_moved(w, s);
    }
    return true;
}

static bool declare_assign(tpi_walk *w, const tpi_step *s)
{
    if (!w->whole)
        return tpi_walk_refuse(w, s, "a variable is assigned, which a model cannot say");
    if (s->kind == TPI_STEP_LOOK)
        return tpi_walk_refuse(w, s,
                               "a part of a variable, or what was known before, is assigned "
                               "here: assign a computed value to the variable itself");
    tp_tensor *var = w->outside[~number_of(w, s->in[0])];
    const tp_tensor *y = tp_assign_at(s->at.file, s->at.line, var, tpi_walk_node(w, s, 1));
    return y->status == TP_OK;
}

bool tpi_walk_declare(tpi_walk *w, const tpi_step *s)
{
    const tpi_nodes_of nodes = {.node = operand, .user = w};
    tp_tensor *y = NULL;
    if (!tpi_walk_meet(w, s))
        return false;
    if (s->reads && w->whole)
        return tpi_walk_refuse(w, s,
                               "behind this a value is read, and C may go on by what it is: "
                               "branch on tp_truth");
    if (s->kind == TPI_STEP_ASSIGN || (s->kind == TPI_STEP_LOOK && s->look == TPI_LOOK_ASSIGN))
        return declare_assign(w, s);
    if (s->any_number)
        return tpi_walk_refuse(w, s, "this had another number of operands in other calls");
    if (s->kind == TPI_STEP_SCALAR && s->varied)
        return tpi_walk_refuse(
            w, s,
            "this number, or the count in a mean whose gradient is taken, was not the "
            "same in all calls: pass it as an argument, or keep the sizes");
    if (s->kind == TPI_STEP_SCALAR)
        y = tpi_graph_lift(
            w->g, s->at,
            tp_scalar_at(s->at.file, s->at.line, w->ctx, (tp_dtype)s->dtype, s->value));
    else if (s->kind == TPI_STEP_OP && s->op != &tpi_op_call)
        y = tpi_segment_declare(graph_here(w), w->head, s->number - w->head->number, s, &nodes);
    else
        return true;
    w->steps[s->number] = y;
    return y->status == TP_OK;
}

bool tpi_walk_give(tpi_walk *w, const tpi_step *s, tp_tensor **out)
{
    if (!tpi_walk_meet(w, s))
        return false;
    if (s->n_in != w->n_out)
        return tpi_walk_refuse(
            w, s, "a call failed, or gave another number of results than are named");
    for (int i = 0; i < w->n_out; i++) {
        out[i] = tpi_walk_node(w, s, i);
        if (out[i]->status != TP_OK)
            return false;
    }
    return true;
}

/* ---- the way down ---------------------------------------------------------------------------- */

/* Did a call that went on from s come to its end? Those that failed did not. */
static bool comes_to_its_end(const tpi_walk *w, const tpi_step *s)
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

const tpi_step *tpi_walk_next(const tpi_walk *w, const tpi_step *s, int *n)
{
    const tpi_step *found = NULL;
    *n = 0;
    if (!s->again && s->first && !s->first->next) { /* the usual case */
        *n = 1;
        return s->first;
    }
    for (const tpi_step *t = s->first; t; t = t->next)
        if (comes_to_its_end(w, t)) {
            found = t;
            ++*n;
        }
    *n += s->again != NULL;
    return *n == 1 ? found : NULL;
}

static bool is_truth(const tpi_step *s)
{
    return s->kind == TPI_STEP_LOOK && s->look == TPI_LOOK_TRUTH;
}

bool tpi_walk_sides(const tpi_walk *w, const tpi_step *s, const tpi_step *side[2])
{
    static const char other[] = "runs went different ways here for a reason that is no "
                                "tensor: branch on tp_truth, or fix what differs";
    side[0] = side[1] = NULL;
    if (s->again)
        return tpi_walk_refuse(w, s, of_turns);
    for (const tpi_step *t = s->first; t; t = t->next)
        if (is_truth(t) && !side[!t->truth] && comes_to_its_end(w, t))
            side[!t->truth] = t;
    if (!side[0] && !side[1])
        return tpi_walk_refuse(w, s->first, other);
    for (const tpi_step *t = s->first; t; t = t->next)
        if (t != side[0] && t != side[1] && comes_to_its_end(w, t))
            return tpi_walk_refuse(w, t, other);
    if (side[0] && side[1] && side[0]->new[0].source != side[1]->new[0].source)
        return tpi_walk_refuse(w, side[0], "different tensors are asked");
    return true;
}

bool tpi_walk_arguments(tpi_walk *w, const tpi_step *entry, const char *const *names,
                        tp_tensor **in)
{
    if (!tpi_function_arguments(w->f, entry, w->at, w->what, w->g, names, in))
        return false;
    for (int i = 0; i < entry->n_in; i++)
        w->outside[i] = in[i];
    w->n_arguments = entry->n_in; /* each is another one */
    return true;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static bool has_loop(const tpi_flow *flow)
{
    bool any = false;
    for (int i = 0; i < flow->blocks->n; i++)
        any |= flow->blocks->v[i].loops;
    return any;
}

/* The flow of a pure function that is called in one way; NULL: there is none, or several, of which the tree
 * may be one graph. w->no_flow is set when one more call would make a loop a loop. */
static tpi_flow *only_flow(tpi_walk *w, int n_in)
{
    const tp_function *f = w->f;
    tpi_flow *found = NULL;
    for (int i = 0; i < f->pure.n_flows; i++) {
        tpi_flow *flow = f->pure.flows[i];
        if (flow->n_in == n_in && found)
            return NULL;
        found = flow->n_in == n_in ? flow : found;
    }
    if (f->pure.n_relaunches) /* each is a way, too */
        return NULL;
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

bool tpi_walk_flow(tpi_walk *w, int n_in, const char *const *names, tp_tensor **in,
                   tp_tensor **out)
{
    tpi_flow *flow = only_flow(w, n_in);
    bool ok = flow;
    for (int i = 0; i < n_in && ok; i++) {
        const tp_tensor *t = flow->externs[flow->args[i]].tensor;
        in[i] = tp_placeholder_at(w->at.file, w->at.line, w->g, names[i], (tp_dtype)t->dtype,
                                  t->rank, t->shape);
        ok = in[i]->status == TP_OK;
    }
    ok = ok && tpi_flow_lift(flow, w->g, w->whole, in, out, &w->no_flow, &w->no_flow_at);
    if (!ok && w->no_flow && w->whole &&
        (!flow || has_loop(flow))) /* a tree has some turns only */
        tpi_fail_status(w->ctx, w->no_flow_at.file ? w->no_flow_at : w->at, w->what, TP_E_STATE,
                        "%s", w->no_flow);
    else if (!ok && flow && w->no_flow) {
        tp_graph_free(w->g);
        w->g = leaving_graph(w->ctx);
    }
    return ok;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static bool go_down(tpi_walk *w, const tpi_step *s, tp_tensor **seen, tp_tensor **out);

/* Both sides up to the return, each in a body; what they give are the results. */
static bool branch(tpi_walk *w, const tpi_step *const *side, tp_tensor *truth, tp_tensor **seen,
                   tp_tensor **out)
{
    const size_t bytes = (size_t)(w->n_out + 1) * sizeof(tp_tensor **);
    tp_tensor ***vars = tpi_take(&w->ctx->mem, bytes);
    if (!vars) {
        tpi_no_memory(w->ctx, w->at, w->what);
        return false;
    }
    for (int i = 0; i < w->n_out; i++)
        vars[i] = &out[i];
    vars[w->n_out] = seen;
    bool ok = true;
    for (tp_block *b = tpi_begin_if(side[0]->at, truth, w->n_out + 1, vars); tp_if_next(&b);)
        ok = go_down(w, side[!tp_if_side(b)], seen, out) && ok;
    tpi_give_back(&w->ctx->mem, vars, bytes);
    for (int i = 0; i < w->n_out; i++)
        ok = ok && out[i] && out[i]->status == TP_OK;
    return ok && (*seen)->status == TP_OK;
}

/* A look of which the body took one side: the other one fails the run. It must not, when a call may have taken it,
 * in a replay that joined what runs of the body had done. */
static bool only_side(tpi_walk *w, const tpi_step *look, tp_tensor *truth, tp_tensor **seen)
{
    if (w->f->pure.combined)
        return tpi_walk_refuse(w, look,
                               "replays may have gone another way here than the body: call the "
                               "function with one type and size, or save one that is not pure");
    *seen = tpi_seen(look->at, *seen, truth, look->truth);
    w->seen_used = true;
    return (*seen)->status == TP_OK;
}

/* What follows s, to the return. */
static bool go_down(tpi_walk *w, const tpi_step *s, tp_tensor **seen, tp_tensor **out)
{
    const tpi_step *side[2];
    for (;;) {
        int n;
        const tpi_step *next = tpi_walk_next(w, s, &n);
        if (n == 0)
            return tpi_walk_refuse(w, s, "no call came to a good end from here");
        if (n > 1 || is_truth(next)) {
            if (!tpi_walk_sides(w, s, side))
                return false;
            next = side[side[0] == NULL];
            if (!tpi_walk_meet(w, next))
                return false;
            tp_tensor *truth = tpi_truth_of(next->at, tpi_walk_node(w, next, 0));
            if (side[0] && side[1])
                return truth->status == TP_OK && branch(w, side, truth, seen, out);
            if (!only_side(w, next, truth, seen))
                return false;
        } else if (next->kind == TPI_STEP_RETURN) {
            return tpi_walk_give(w, next, out);
        }
        s = next;
        if (!is_truth(s) && !tpi_walk_declare(w, s))
            return false;
        if (tpi_is_draw(s->op)) {
            *seen = tpi_drawn(s->at, *seen, w->steps[s->number]);
            w->seen_used = true;
        }
    }
}

bool tpi_walk_tree(tpi_walk *w, const tpi_step *entry, tp_tensor **out)
{
    tp_tensor *seen = tpi_seen_all(w->at, w->g);
    for (int i = 0; i < w->n_out; i++)
        out[i] = NULL;
    if (seen->status != TP_OK || !go_down(w, entry, &seen, out))
        return false;
    if (w->seen_used)
        out[0] = tpi_if_seen(w->at, seen, out[0]);
    return out[0]->status == TP_OK;
}

bool tpi_walk_branches(const tpi_walk *w, const tpi_step *entry)
{
    for (const tpi_step *s = entry->first; s && s->kind != TPI_STEP_ENTRY;
         s = tpi_tree_walk(&w->f->forward, s))
        if (is_truth(s) && !s->by_block)
            return true;
    return false;
}
