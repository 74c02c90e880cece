/* If, Loop, Scan. What is known at load is decided at load; the rest becomes blocks of the graph. */
#include "ir/body.h"
#include "onnx/import/import_inner.h"

#include <stdio.h>
#include <string.h>

static tp_tensor *scalar(tpi_onnx_op *o, tp_tensor *t)
{
    return tp_rank(t) == 0 ? t : tp_reshape(t, TP_SCALAR);
}

/* Operand i as one bool; NULL after an error. */
static tp_tensor *condition_in(tpi_onnx_op *o, int i)
{
    tp_tensor *t = tpi_onnx_good_in(o, i);
    if (!t)
        return NULL;
    if (t->dtype == TP_BOOL)
        return tpi_onnx_good(o, t = scalar(o, t)) ? t : NULL;
    tpi_onnx_refuse(o, "its condition is %s %s, not one bool",
                    tp_dtype_name((tp_dtype)t->dtype), SHAPE(t));
    return NULL;
}

/* ---- If ------------------------------------------------------------------------------------------- */

static bool run_branch(tpi_onnx_op *o, tpi_onnx_sub *s, tpi_onnx_env *f)
{
    if (s->g.n_inputs || s->g.n_outputs != o->n_out)
        return tpi_onnx_refuse(o, "its branch has %d inputs and %d outputs", s->g.n_inputs,
                               s->g.n_outputs);
    return tpi_onnx_sub_run(o, s, f, 0, NULL);
}

/* The branch that is taken, in place. */
static bool run_taken(tpi_onnx_op *o, tpi_onnx_sub *s)
{
    tpi_onnx_env f;
    bool ok = run_branch(o, s, &f);
    for (int k = 0; k < o->n_out && ok; k++) {
        const tpi_onnx_value *v = tpi_onnx_sub_output(o, s, &f, k);
        ok = v && tpi_onnx_out_value(o, k, v);
    }
    return ok;
}

/* A side as a body; its outputs are all that the results consist of. */
static tpi_body *run_side(tpi_onnx_op *o, tpi_onnx_sub *s, tpi_onnx_value **out)
{
    tpi_onnx_env f;
    tpi_body *b = tpi_onnx_new_body(o);
    if (!b)
        return NULL;
    const tpi_onnx_outside was = tpi_onnx_enter(o->im, b);
    bool ok = run_branch(o, s, &f);
    for (int k = 0; k < o->n_out && ok; k++)
        ok = (out[k] = tpi_onnx_sub_output(o, s, &f, k)) && tpi_onnx_give(o, b, out[k]);
    tpi_onnx_leave(o->im, was);
    if (!ok)
        tpi_body_drop(o->im->g, b);
    return ok ? b : NULL;
}

/* What stands for a side whose sizes do not fit, in the words of the error that is forgotten: it gives
 * what the other side does, and fails when it is entered. */
static tpi_body *refusing_side(tpi_onnx_op *o, const char *which, const char *why,
                               const tpi_body *other)
{
    const size_t size = o->node->name.size + strlen(why) + 60;
    char *name = tpi_onnx_take(o->im->m, size, 1);
    tpi_body *b = name ? tpi_onnx_new_body(o) : NULL;
    if (!b)
        return NULL;
    snprintf(name, size, "%s of \"%.*s\" does not fit: %s", which, TPI_SPAN(o->node->name),
             why);
    const tpi_onnx_outside was = tpi_onnx_enter(o->im, b);
    const int64_t one = 1, zero = 0;
    tp_tensor *x = tp_graph_read(b->graph, tp_tensor_new(o->ctx, TP_I64, 1, &one, &zero));
    tp_tensor *never = tp_gather(x, tp_graph_read(b->graph, tp_scalar(o->ctx, TP_I64, 1)), 0);
    bool ok = tpi_onnx_good(o, never = tpi_graph_named(b->graph, never, name));
    for (int k = 0; k < other->n_outputs && ok; k++) {
        const tp_tensor *like = other->outputs[k];
        tp_tensor *t = tp_cast(never, (tp_dtype)like->dtype);
        t = like->rank ? tp_broadcast(t, like->rank, like->shape) : t;
        ok = tpi_onnx_good(o, t) && tpi_body_output(b, t);
    }
    tpi_onnx_leave(o->im, was);
    return ok ? b : NULL;
}

/* Both sides. That the sizes of one do not fit is no error of the model yet, unless the condition can be
 * known. */
static bool run_sides(tpi_onnx_op *o, tpi_onnx_sub *const *subs, tpi_onnx_value **const *out,
                      tpi_body **b)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    tpi_onnx_model *m = o->im->m;
    const char *why = NULL;
    int bad = -1;
    for (int i = 0; i < 2; i++) {
        b[i] = run_side(o, subs[i], out[i]);
        if (b[i])
            continue;
        if (bad >= 0 || m->status != TP_E_SHAPE || tpi_onnx_ask(o, 0))
            return false;
        bad = i;
        why = tpi_onnx_cstring(m, (tpi_span){m->why, strlen(m->why)});
        if (!why || !tpi_onnx_forget(o->im))
            return false;
    }
    if (bad < 0)
        return true;
    b[bad] = refusing_side(o, names[bad], why, b[!bad]);
    memcpy(out[bad], out[!bad], (size_t)o->n_out * sizeof *out[bad]);
    return b[bad];
}

static bool choose(tpi_onnx_op *o, tpi_onnx_sub *yes, tpi_onnx_sub *no)
{
    const size_t n = (size_t)o->n_out;
    tpi_onnx_value **a = tpi_onnx_take(o->im->m, n, sizeof *a),
                   **b = tpi_onnx_take(o->im->m, n, sizeof *b);
    tp_tensor *pred = condition_in(o, 0);
    tpi_body *sides[2];
    if (!b || !pred ||
        !run_sides(o, (tpi_onnx_sub *const[]){yes, no}, (tpi_onnx_value * *const[]){a, b},
                   sides))
        return false;
    for (size_t k = 0; k < n; k++)
        if (!tpi_onnx_same_form(a[k], b[k]))
            return tpi_onnx_refuse(o,
                                   "output %zu has not as many elements on both sides, and its "
                                   "condition depends on %s",
                                   k, tpi_onnx_depends(o->im, pred));
    tp_tensor *node = tpi_onnx_cond(o, pred, sides[0], sides[1]);
    int index = 0;
    bool ok = node;
    for (int k = 0; k < o->n_out && ok; k++)
        ok = tpi_onnx_out_of(o, k, a[k], node, &index);
    return ok;
}

bool tpi_onnx_import_if(tpi_onnx_op *o)
{
    double condition;
    if (tpi_onnx_is_known(o, 0)) {
        tpi_onnx_sub *taken = NULL;
        if (tpi_onnx_number_of(o, 0, &condition))
            taken = tpi_onnx_sub_of(o, condition != 0 ? "then_branch" : "else_branch");
        return taken && run_taken(o, taken);
    }
    tpi_onnx_sub *yes = tpi_onnx_sub_of(o, "then_branch"),
                 *no = yes ? tpi_onnx_sub_of(o, "else_branch") : NULL;
    if (no && choose(o, yes, no))
        return true;
    tpi_onnx_ask(o, 0); /* when the condition can be known, no such choice has to be made */
    return false;
}

/* ---- Loop ----------------------------------------------------------------------------------------- */

enum { MOST_TURNS = 1 << 16 }; /* that are written out */

typedef struct looping {
    tpi_onnx_op *o;
    tpi_onnx_sub *sub;
    int n_carried, n_stacked; /* of the operator */
    int64_t count;            /* a size; TPI_NO_DIM: told by `limit`, or by nothing */
    tp_tensor *limit;         /* i64, one: the count when only a run knows it; or NULL */
    bool known;               /* is the condition before the first turn? */
    bool condition;           /* known */
    bool listed;              /* a carried value is a sequence, or an optional without one */
    bool fold;                /* it is computed now when its body reads nothing of outside */
    bool *passed_on;          /* [n_carried]: the body hands on what it is given */
    tpi_onnx_value **taken;   /* what the body takes: number of the turn, condition, and */
    tpi_onnx_value **now;     /* [n_carried]: before the turn at hand */
} looping;

/* The number of turns. What a signed count means that is not positive: none. */
static bool read_count(looping *l)
{
    tpi_onnx_op *o = l->o;
    tpi_onnx_ints k;
    l->count = TPI_NO_DIM;
    if (!tpi_onnx_has(o, 0))
        return true;
    if (tpi_onnx_try_ints(o, 0, &k) && k.n == 1) {
        const bool symbolic = tpi_dim_is_symbolic(k.v[0]);
        const int64_t endless = INT32_MAX; /* exporters write it, or the last of 64 bits */
        if (symbolic || k.v[0] < endless)
            l->count = symbolic || k.v[0] > 0 ? k.v[0] : 0;
        return true;
    }
    l->limit = tp_cast(scalar(o, tpi_onnx_in(o, 0)), TP_I64);
    const tp_dtype given = tpi_onnx_in_dtype(o, 0);
    return tpi_onnx_good(o, l->limit) &&
           (given < TP_F32 ||
            tpi_onnx_refuse(o, "its count is of type %s", tp_dtype_name(given)));
}

static bool read_condition(looping *l)
{
    tpi_onnx_op *o = l->o;
    double c = 1;
    l->known = !tpi_onnx_has(o, 1) || tpi_onnx_is_known(o, 1);
    if (l->known && tpi_onnx_has(o, 1) && !tpi_onnx_number_of(o, 1, &c))
        return false;
    l->condition = c != 0;
    if (l->known && !l->condition) {
        l->count = 0;
        l->limit = NULL;
    }
    return true;
}

/* Which carried values does the body hand on as they come, maybe by way of Identity? They are
 * no more carried than what is read of outside. */
static bool find_passed_on(looping *l)
{
    tpi_import *im = l->o->im;
    const tpi_onnx_graph *g = &l->sub->g;
    tpi_onnx_env f = {0};
    if (!tpi_onnx_env_open(im, &f, (size_t)g->n_inputs + (size_t)g->n_nodes))
        return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (!tpi_onnx_define(im, &f, g->inputs[i].name))
            return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const tpi_onnx_node *n = &g->nodes[i];
        const bool same = n->domain.size == 0 && tpi_span_is(n->op, "Identity") &&
                          n->n_in == 1 && n->n_out == 1;
        const tpi_onnx_value *of = same ? tpi_onnx_find(&f, n->in[0]) : NULL;
        if (!of)
            continue;
        tpi_onnx_value *v = tpi_onnx_define(im, &f, n->out[0]);
        if (!v)
            return false;
        v->same = of->same ? of->same : of;
    }
    for (int k = 0; k < l->n_carried; k++) {
        const tpi_onnx_value *v = tpi_onnx_find(&f, g->outputs[1 + k].name);
        const tpi_onnx_value *in = tpi_onnx_find(&f, g->inputs[2 + k].name);
        l->passed_on[k] = v && (v->same ? v->same : v) == in;
    }
    return true;
}

/* The values before the first turn. */
static bool read_carried(looping *l)
{
    tpi_onnx_op *o = l->o;
    for (int k = 0; k < l->n_carried; k++) {
        if (!tpi_onnx_has(o, 2 + k))
            return tpi_onnx_refuse(o, "input %d is missing", 2 + k);
        tpi_onnx_value *v = tpi_onnx_find(o->env, o->node->in[2 + k]);
        if (!tpi_onnx_settle(o->im, v)) /* one weight under all its names */
            return false;
        l->now[k] = v;
        l->listed |= !l->passed_on[k] && !tpi_onnx_is_tensor(v);
    }
    return true;
}

static bool read_loop(looping *l)
{
    tpi_onnx_op *o = l->o;
    l->sub = tpi_onnx_sub_of(o, "body");
    if (!l->sub)
        return false;
    const tpi_onnx_graph *g = &l->sub->g;
    l->n_carried = o->n_in > 2 ? o->n_in - 2 : 0;
    l->n_stacked = g->n_outputs - 1 - l->n_carried;
    if (g->n_inputs != 2 + l->n_carried || l->n_stacked < 0 || o->n_out > g->n_outputs - 1)
        return tpi_onnx_refuse(o,
                               "its body takes %d and gives %d, with %d carried values and %d "
                               "results",
                               g->n_inputs, g->n_outputs, l->n_carried, o->n_out);
    const size_t n = (size_t)l->n_carried;
    l->passed_on = tpi_onnx_take(o->im->m, n, sizeof *l->passed_on);
    l->taken = tpi_onnx_take(o->im->m, n + 2, sizeof(tpi_onnx_value *));
    l->now = l->taken ? l->taken + 2 : NULL;
    return l->passed_on && l->now && find_passed_on(l) && read_carried(l) && read_count(l) &&
           read_condition(l);
}

/* A turn: its number, the condition, without which it would not run, and the carried values. */
static bool run_turn(looping *l, tpi_onnx_env *f, tp_tensor *turn)
{
    tpi_onnx_op *o = l->o;
    tp_tensor *go_on = tp_scalar(o->ctx, TP_BOOL, 1);
    l->taken[0] = tpi_onnx_new_value(o->im, turn);
    l->taken[1] = tpi_onnx_new_value(o->im, go_on);
    return tpi_onnx_good(o, turn) && tpi_onnx_good(o, go_on) &&
           tpi_onnx_sub_run(o, l->sub, f, 2 + l->n_carried, l->taken);
}

/* The condition after a turn: known (*is), or a tensor. */
static bool condition_after(looping *l, const tpi_onnx_env *f, bool *known, bool *is,
                            tp_tensor **t)
{
    tpi_onnx_op *o = l->o;
    tpi_onnx_value *v = tpi_onnx_sub_output(o, l->sub, f, 0);
    if (!v)
        return false;
    *known = tpi_onnx_is_constant(v);
    *t = *known ? tpi_onnx_constant_of(o->im, v) : tpi_onnx_tensor_of(o->im, v, true);
    if (!*t || !tpi_onnx_good(o, *t))
        return false;
    if ((*t)->dtype != TP_BOOL || (*known && tpi_count(*t) != 1))
        return tpi_onnx_refuse(o, "its condition comes out as %s %s, not as one bool",
                               tp_dtype_name((tp_dtype)(*t)->dtype), SHAPE(*t));
    *is = *known && tpi_load_i64(TP_BOOL, (*t)->data) != 0;
    *t = scalar(o, *t);
    return true;
}

/* ---- as a loop of the graph ------------------------------------------------------------------------- */

/* The condition of going on, and that of beginning; both NULL when turns are just counted. */
static bool conditions_of(looping *l, tpi_onnx_loop *node, const tpi_onnx_env *f,
                          tp_tensor **first, tp_tensor **pred)
{
    tpi_onnx_op *o = l->o;
    bool known, is;
    tp_tensor *after, *more = NULL;
    if (!condition_after(l, f, &known, &is, &after))
        return false;
    if (known && is && l->known && l->count == TPI_NO_DIM && !l->limit)
        return tpi_onnx_refuse(o,
                               "it never ends: it has no count, and its condition stays true");
    if (l->limit)
        more = tp_lt(tp_add(node->turn, tp_scalar(o->ctx, TP_I64, 1)), l->limit);
    *pred = known && is ? more : more ? tp_and(after, more) : after;
    tpi_onnx_loop_leave(node);
    if (l->limit)
        *first = tp_lt(tp_scalar(o->ctx, TP_I64, 0), l->limit);
    if (!l->known) {
        tp_tensor *c = condition_in(o, 1);
        if (!c)
            return false;
        *first = *first ? tp_and(c, *first) : c;
    }
    if (*first && !*pred) /* once true, always true */
        *pred = tp_scalar(o->ctx, TP_BOOL, 1);
    if (*pred && !*first)
        *first = tp_scalar(o->ctx, TP_BOOL, 1);
    return true;
}

/* The carried values that change, and the stacked ones that somebody wants, after a turn. */
static bool outputs_of(looping *l, const tpi_onnx_env *f, tp_tensor **out, int *n_stacked)
{
    tpi_onnx_op *o = l->o;
    int n = 0;
    *n_stacked = 0;
    for (int k = 0; k < l->n_carried + l->n_stacked; k++) {
        const bool stacked = k >= l->n_carried;
        if (stacked ? !tpi_onnx_wants(o, k) : l->passed_on[k])
            continue;
        tpi_onnx_value *v = tpi_onnx_sub_output(o, l->sub, f, 1 + k);
        if (!v || !(out[n++] = tpi_onnx_tensor_of(o->im, v, true)))
            return false;
        *n_stacked += stacked;
    }
    return true;
}

static bool give_results(looping *l, tp_tensor *const *out)
{
    tpi_onnx_op *o = l->o;
    bool ok = true;
    for (int k = 0, n = 0; k < l->n_carried + l->n_stacked && ok; k++)
        if (k < l->n_carried && l->passed_on[k])
            ok = tpi_onnx_out_value(o, k, l->now[k]);
        else if (k < l->n_carried || tpi_onnx_wants(o, k))
            ok = tpi_onnx_out(o, k, out[n++]);
    return ok;
}

/* Runs one turn as the body. The carried values are the body's then. */
static bool trace_turn(looping *l, tpi_onnx_loop *node, tp_tensor **out, int *n_stacked,
                       tp_tensor **first, tp_tensor **pred)
{
    tpi_onnx_op *o = l->o;
    tpi_import *im = o->im;
    tpi_onnx_env f;
    for (int k = 0, n = 0; k < l->n_carried; k++) {
        if (l->passed_on[k])
            continue;
        if (!(l->now[k] = tpi_onnx_new_value(im, node->carried[n++])))
            return false;
    }
    return run_turn(l, &f, node->turn) && outputs_of(l, &f, out, n_stacked) &&
           conditions_of(l, node, &f, first, pred);
}

/* False without an error when it is to be computed now. */
static bool loop_as_node(looping *l)
{
    tpi_onnx_op *o = l->o;
    tpi_import *im = o->im;
    const size_t n = (size_t)l->n_carried, most = n + (size_t)l->n_stacked;
    tp_tensor **out = tpi_onnx_take(im->m, most, sizeof *out);
    tpi_onnx_value **before = tpi_onnx_take(im->m, n, sizeof(tpi_onnx_value *));
    tpi_onnx_loop node = {.count = l->count};
    if (!before)
        return false;
    memcpy(before, l->now, n * sizeof(tpi_onnx_value *));
    for (int k = 0; k < l->n_carried; k++)
        if (!l->passed_on[k])
            out[node.n_carried++] = tpi_onnx_in(o, 2 + k);
    tp_tensor *first = NULL, *pred = NULL;
    int n_stacked = 0;
    bool ok = tpi_onnx_loop_begin(o, &node, out) &&
              trace_turn(l, &node, out, &n_stacked, &first, &pred);
    tpi_onnx_loop_leave(&node);
    const int64_t turns =
        ok && first && pred ? tpi_onnx_turns(im, &node, first, pred, out) : TPI_NO_DIM;
    if (turns != TPI_NO_DIM) {
        node.count = turns;
        first = pred = NULL;
    }
    memcpy(l->now, before, n * sizeof(tpi_onnx_value *));
    const bool now = ok && l->fold && node.body->n_params == 1 + node.n_carried;
    ok = ok && !now && tpi_onnx_loop_end(&node, first, pred, n_stacked, out);
    if (!ok)
        tpi_onnx_loop_drop(&node);
    return ok && give_results(l, out);
}

/* ---- written out ----------------------------------------------------------------------------------- */

/* What the turns stack, [wanted][turns]. */
typedef struct stacks {
    tp_tensor ***of; /* by output; NULL: nobody wants it */
    int n, size;     /* turns so far, and room for so many */
} stacks;

static bool push_stacked(looping *l, stacks *s, const tpi_onnx_env *f)
{
    tpi_onnx_op *o = l->o;
    const int size = s->size ? 2 * s->size : 16;
    for (int k = 0; k < l->n_stacked; k++) {
        if (!tpi_onnx_wants(o, l->n_carried + k))
            continue;
        if (s->n == s->size) {
            tp_tensor **more = tpi_onnx_take(o->im->m, (size_t)size, sizeof *more);
            if (!more)
                return false;
            if (s->n)
                memcpy(more, s->of[k], (size_t)s->n * sizeof *more);
            s->of[k] = more;
        }
        tpi_onnx_value *v = tpi_onnx_sub_output(o, l->sub, f, 1 + l->n_carried + k);
        if (!v || !(s->of[k][s->n] = tpi_onnx_tensor_of(o->im, v, true)))
            return false;
    }
    s->size = s->n == s->size ? size : s->size;
    s->n++;
    return true;
}

static bool run_turns(looping *l, stacks *s)
{
    tpi_onnx_op *o = l->o;
    bool known = true, is = l->condition;
    for (int64_t t = 0; is && (l->count == TPI_NO_DIM || t < l->count); t++) {
        tpi_onnx_env f;
        tp_tensor *after;
        if (t == MOST_TURNS)
            return tpi_onnx_refuse(o, "more than %d turns are not written out", MOST_TURNS);
        if (!run_turn(l, &f, tp_tensor_new(o->ctx, TP_I64, 0, NULL, &t)) ||
            !condition_after(l, &f, &known, &is, &after) || !push_stacked(l, s, &f))
            return false;
        if (!known)
            return tpi_onnx_refuse(o,
                                   "its body can only be written out turn by turn, and when it "
                                   "ends depends on %s",
                                   tpi_onnx_depends(o->im, after));
        for (int k = 0; k < l->n_carried; k++) {
            tpi_onnx_value *v =
                l->passed_on[k] ? l->now[k] : tpi_onnx_sub_output(o, l->sub, &f, 1 + k);
            if (!v || !tpi_onnx_settle(o->im, v))
                return false;
            l->now[k] = v;
        }
    }
    return true;
}

static bool loop_written_out(looping *l)
{
    tpi_onnx_op *o = l->o;
    stacks s = {.of = tpi_onnx_take(o->im->m, (size_t)l->n_stacked, sizeof(tp_tensor **))};
    bool ok = s.of && run_turns(l, &s);
    for (int k = 0; k < l->n_carried && ok; k++)
        ok = tpi_onnx_out_value(o, k, l->now[k]);
    for (int k = 0; k < l->n_stacked && ok; k++)
        if (tpi_onnx_wants(o, l->n_carried + k))
            ok = (s.n || tpi_onnx_refuse(o, "without a turn the type of output %d is not known",
                                         l->n_carried + k)) &&
                 tpi_onnx_out(o, l->n_carried + k, tp_stack(s.n, s.of[k], 0));
    return ok;
}

/* All that it starts from is known: when its body reads nothing else, so is what it gives. */
static bool starts_from_constants(const looping *l)
{
    const bool few = l->count > 0 && l->count <= 4096; /* of none, types come from the body */
    bool all = few && !tpi_dim_is_symbolic(l->count) && l->known && !l->listed;
    for (int k = 0; k < l->n_carried && all; k++)
        all = l->now[k]->tensor && !l->now[k]->tensor->graph &&
              tpi_count(l->now[k]->tensor) <= 1024;
    return all;
}

bool tpi_onnx_import_loop(tpi_onnx_op *o)
{
    looping l = {.o = o};
    tpi_onnx_model *m = o->im->m;
    if (!read_loop(&l))
        return false;
    const bool is_known = l.known && !l.limit && !tpi_dim_is_symbolic(l.count);
    l.fold = starts_from_constants(&l);
    if (!l.listed && loop_as_node(&l))
        return true;
    if (l.listed && !is_known)
        tpi_onnx_refuse(o,
                        "it carries a sequence: its number of turns and its condition have to "
                        "be known when the model is loaded");
    if (is_known && (m->status == TP_OK || tpi_onnx_forget(o->im)))
        return loop_written_out(&l);
    if (!o->im->again) {
        tpi_onnx_ask(o, 0);
        tpi_onnx_ask(o, 1);
    }
    return false;
}
