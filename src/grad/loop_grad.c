/* The gradient of a loop: a loop over the same turns the other way.
 *
 *     %7 = loop %z, %xs, %w {carried=1, slices=1, stacked=1}             z = f(z, x, w); y = z
 *     %9 = loop %dz, %sum, %xs, %taps.., %dys, %w {carried=2, back=1}    counted, as many turns
 *
 * Its carried values are the cotangents of the carried values, and of the captures the running sums and
 * what products have given them (op/add_rows.h); its stacked outputs are the gradients of the slices. At a turn the seeds are, in the order of the
 * body's outputs, the next turn's contribution (of carried values) and the elements of the stacked
 * outputs' cotangents. What the sweep reads of the forward turn is a stacked output of the
 * forward loop, and a slice here.
 *
 * Bits: a sum or cotangent that is not there yet begins as -0.0, which adds up to what it is added
 * to. A cotangent that is not there at the last turns, because only what comes before uses the
 * value, goes back through these turns as -0.0 where on a tape nothing does: zeros that
 * nothing else is added to may have the other sign, and 0 times infinity is NaN. */
#include "grad/vjp.h"
#include "op/sizes.h"

#include <string.h>

typedef struct loop_vjp {
    tpi_sweep *s;
    tp_tensor *block;
    tpi_loop_attrs *a;
    tp_tensor *const *cot;
    tpi_vjp v;
    bool open;
    int first, n_carried, n_slices, n_params, n_cots;
    bool *depends;      /* by param */
    bool *carries;      /* by param: its cotangent goes from turn to turn */
    bool *given;        /* by output: has a seed at some turn */
    tp_tensor **seed;   /* by output: the param for it in the scratch body */
    tp_tensor **sum;    /* by param: of a capture or slice, the param for the sum so far */
    tp_tensor **start;  /* by param: what its cotangent or sum is before the first turn */
    bool *fresh;        /* by param: that is -0.0 */
    bool *outer;        /* by param: a capture whose products are joined outside */
    int *number;        /* by param: of the backward output; -1: none */
    int *state_number;  /* the same of its state */
    tp_tensor **before; /* by param: its state outside */
    tpi_nodes out;      /* backward outputs, nodes of the scratch body */
    int n_kept;         /* those of them that are carried */
    tpi_nodes in;       /* operands of the backward loop */
    tp_tensor *stack;   /* kept by the forward loop, its sizes known outside; NULL: nothing */
    void *memory;
    size_t memory_bytes;
} loop_vjp;

static bool no_memory(const loop_vjp *c)
{
    tpi_no_memory(c->s->ctx, TPI_AT(c->block->file, c->block->line), "gradient");
    return false;
}

static bool reserve(loop_vjp *c)
{
    const size_t n = (size_t)c->n_params, m = (size_t)c->n_cots;
    c->memory_bytes = (3 * n + m) * sizeof(tp_tensor *) + 2 * n * sizeof(int) + 4 * n + m;
    tp_tensor **p = c->memory = tpi_take(&c->s->ctx->mem, c->memory_bytes);
    if (!p)
        return no_memory(c);
    memset(p, 0, c->memory_bytes);
    c->sum = p;
    c->start = p + n;
    c->before = p + 2 * n;
    c->seed = p + 3 * n;
    c->number = (int *)(p + 3 * n + m);
    c->state_number = c->number + n;
    c->depends = (bool *)(c->state_number + n);
    c->carries = c->depends + n;
    c->fresh = c->carries + n;
    c->outer = c->fresh + n;
    c->given = c->outer + n;
    for (size_t i = 0; i < 2 * n; i++)
        c->number[i] = -1;
    return true;
}

static void done(loop_vjp *c)
{
    if (c->open)
        tpi_vjp_close(&c->v);
    tpi_nodes_free(&c->out);
    tpi_nodes_free(&c->in);
    tpi_give_back(&c->s->ctx->mem, c->memory, c->memory_bytes);
}

static bool is_carried(const loop_vjp *c, int param)
{
    return param >= 1 && param <= c->n_carried;
}

static bool is_slice(const loop_vjp *c, int param)
{
    return param > c->n_carried && param <= c->n_carried + c->n_slices;
}

/* The operand for a param that is no turn. */
static int operand_of(const loop_vjp *c, int param)
{
    return c->first + param - 1;
}

static tp_tensor *outer_of(const loop_vjp *c, int param)
{
    return c->block->in[operand_of(c, param)];
}

static tp_tensor *output(const loop_vjp *c, int i)
{
    return c->a->body->outputs[c->first + i];
}

/* ---- which cotangents there are ------------------------------------------------------------- */

/* depends: by param, on what is asked for in any turn. */
static void spread_turns(loop_vjp *c, bool *node)
{
    for (int p = 1; p < c->n_params; p++)
        c->depends[p] = tpi_wants_operand(c->s, c->block, operand_of(c, p));
    for (bool more = true; more;) {
        more = false;
        tpi_body_depends(c->a->body, c->depends, node);
        for (int i = 0; i < c->n_carried; i++) {
            const tp_tensor *out = output(c, i);
            if (!c->depends[1 + i] && out->dtype >= TP_F32 && node[out->index])
                more = c->depends[1 + i] = true;
        }
    }
}

/* given: by output; and carries: what comes to a carried value in one turn goes to the one before. */
static void reach_turns(loop_vjp *c, const bool *node, bool *reached)
{
    const tpi_body *b = c->a->body;
    for (int i = 0; i < c->n_cots; i++)
        c->given[i] = c->cot[i] && output(c, i)->dtype >= TP_F32;
    for (bool more = true; more;) {
        more = false;
        memset(reached, 0, (size_t)b->graph->n_nodes);
        for (int i = 0; i < c->n_cots; i++)
            if (c->given[i])
                reached[output(c, i)->index] = true;
        tpi_body_reach(b, node, reached);
        for (int i = 0; i < c->n_carried; i++)
            if (!c->given[i] && c->depends[1 + i] && reached[b->params[1 + i]->index])
                more = c->given[i] = true;
    }
    for (int i = 0; i < c->n_cots; i++)
        if (i < c->n_carried)
            c->carries[1 + i] = c->given[i] && c->depends[1 + i];
}

static bool find_cotangents(loop_vjp *c)
{
    const size_t n = (size_t)c->a->body->graph->n_nodes;
    bool *node = tpi_take(&c->s->ctx->mem, 2 * n);
    if (!node)
        return no_memory(c);
    spread_turns(c, node);
    reach_turns(c, node, node + n);
    for (int i = 0; i < c->n_cots; i++) /* what is not used goes nowhere */
        c->given[i] = c->given[i] && node[output(c, i)->index];
    tpi_give_back(&c->s->ctx->mem, node, 2 * n);
    return true;
}

/* Matrices that are given more than once are one outside. */
static void find_outer(loop_vjp *c)
{
    for (int p = 1 + c->n_carried + c->n_slices; p < c->n_params; p++) {
        c->outer[p] = true;
        for (int k = 1; k < p; k++)
            c->outer[p] = c->outer[p] && outer_of(c, k) != outer_of(c, p);
    }
}

/* ---- one turn ----------------------------------------------------------------------------------- */

static bool sweep_turn(loop_vjp *c)
{
    if (!tpi_vjp_open(&c->v, c->s, c->block, c->a->body))
        return false;
    c->open = true;
    const size_t bytes = (size_t)c->n_cots * sizeof(tpi_seed);
    tpi_seed *seeds = tpi_take(&c->s->ctx->mem, bytes);
    if (!seeds)
        return no_memory(c);
    int n = 0;
    bool ok = true;
    for (int i = 0; i < c->n_cots && ok; i++) {
        if (!c->given[i] && !(i < c->n_carried && c->carries[1 + i]))
            continue;
        c->seed[i] = tpi_vjp_param(&c->v, output(c, i), false);
        ok = c->seed[i]->status == TP_OK;
        if (c->given[i])
            seeds[n++] = (tpi_seed){c->first + i, c->seed[i]};
    }
    find_outer(c);
    ok = ok && tpi_sweep_body(&c->v, c->depends, c->outer, n, seeds);
    tpi_give_back(&c->s->ctx->mem, seeds, bytes);
    return ok;
}

/* -0.0 everywhere: added to anything it is no change. */
static tp_tensor *nothing(const loop_vjp *c, tp_tensor *like)
{
    return tpi_all(TPI_AT(c->block->file, c->block->line), like, -0.0);
}

static bool push_output(loop_vjp *c, int *number, tp_tensor *t)
{
    if (t->status != TP_OK)
        return false;
    *number = c->out.n;
    tpi_nodes_push(&c->out, t);
    return !c->out.failed || no_memory(c);
}

/* The operand's sum so far goes through the loop; NULL: none, or it goes with another operand. */
static tp_tensor *sum_so_far(const loop_vjp *c, int param)
{
    for (int p = 1; p < param; p++)
        if (c->sum[p] && outer_of(c, p) == outer_of(c, param))
            return NULL;
    return c->s->grad[outer_of(c, param)->slot];
}

static bool add_up_capture(loop_vjp *c, int p)
{
    tpi_vjp *v = &c->v;
    tp_tensor *start = sum_so_far(c, p);
    c->fresh[p] = !start;
    c->start[p] = start ? start : nothing(c, outer_of(c, p));
    c->sum[p] = tpi_vjp_param(v, v->work->params[p], false);
    if (c->start[p]->status != TP_OK || c->sum[p]->status != TP_OK)
        return false;
    return push_output(c, &c->number[p],
                       tp_add_at(v->at.file, v->at.line, c->sum[p], v->dx[p]));
}

/* What products have given a capture goes through the loop. */
static bool carry_state(loop_vjp *c, int p)
{
    c->before[p] = tpi_sweep_state(c->s, TPI_AT(c->block->file, c->block->line), outer_of(c, p)->slot);
    return c->before[p] && push_output(c, &c->state_number[p], c->v.joined[p]);
}

static bool carry_cotangent(loop_vjp *c, int p)
{
    tpi_vjp *v = &c->v;
    tp_tensor *start = c->cot[p - 1];
    c->fresh[p] = !start;
    c->start[p] = start ? start : nothing(c, outer_of(c, p));
    if (c->start[p]->status != TP_OK)
        return false;
    return push_output(c, &c->number[p], v->dx[p] ? v->dx[p] : nothing(c, v->work->params[p]));
}

/* The sum so far of a slice's operand is a slice too, if all turns are taken. */
static bool add_up_slice(loop_vjp *c, int p)
{
    tpi_vjp *v = &c->v;
    tp_tensor *sum = c->a->has_pred ? NULL : sum_so_far(c, p);
    c->start[p] = sum;
    if (!sum)
        return push_output(c, &c->number[p], v->dx[p]);
    c->sum[p] = tpi_vjp_param(v, v->work->params[p], false);
    if (sum->status != TP_OK || c->sum[p]->status != TP_OK)
        return false;
    return push_output(c, &c->number[p],
                       tp_add_at(v->at.file, v->at.line, c->sum[p], v->dx[p]));
}

/* The outputs: cotangents and running sums, carried; gradients of slices, stacked. */
static bool make_outputs(loop_vjp *c)
{
    bool ok = true;
    for (int p = 1; p <= c->n_carried && ok; p++)
        if (c->carries[p])
            ok = carry_cotangent(c, p);
    for (int p = 1 + c->n_carried + c->n_slices; p < c->n_params && ok; p++)
        if (c->v.dx[p])
            ok = add_up_capture(c, p);
    for (int p = 1; p < c->n_params && ok; p++)
        if (c->v.joined[p])
            ok = carry_state(c, p);
    c->n_kept = c->out.n;
    for (int p = 1 + c->n_carried; p <= c->n_carried + c->n_slices && ok; p++)
        if (c->v.dx[p])
            ok = add_up_slice(c, p);
    return ok;
}

static bool cut(loop_vjp *c)
{
    const size_t n = (size_t)c->n_params;
    bool *kept = tpi_take(&c->s->ctx->mem, n);
    if (!kept)
        return no_memory(c);
    for (int p = 0; p < c->n_params; p++)
        kept[p] = is_carried(c, p);
    const bool ok = tpi_vjp_cut(&c->v, kept, c->out.n, c->out.v);
    tpi_give_back(&c->s->ctx->mem, kept, n);
    return ok;
}

/* ---- the forward loop gives more ------------------------------------------------------------------ */

static bool set_length(loop_vjp *c)
{
    if (!c->a->length)
        c->a->length = c->a->has_pred ? tpi_fresh_symbol(c->v.g, "turns") : c->a->count;
    return c->a->length != TPI_NO_DIM || no_memory(c);
}

/* A node of the body, stacked. */
static tp_tensor *append_output(loop_vjp *c, tp_tensor *t)
{
    if (t->status != TP_OK)
        return t;
    if (!tpi_body_output(c->a->body, t))
        return &c->s->ctx->nil;
    tp_tensor *stack = tpi_output_of(c->block, c->n_carried + c->a->n_stacked++);
    bool plain = true;
    for (int i = 0; i < t->rank; i++)
        plain &= !tpi_dim_is_symbolic(t->shape[i]);
    if (plain)
        c->stack = stack;
    return stack;
}

/* ---- the backward loop ----------------------------------------------------------------------------- */

static bool take(loop_vjp *c, tpi_body *to, const tp_tensor *stands_for, tp_tensor *outer,
                 bool lead)
{
    if (outer->status != TP_OK)
        return false;
    tp_tensor *p = tpi_body_param(to, c->v.at, (tp_dtype)outer->dtype, outer->rank - lead,
                                  outer->shape + lead, NULL);
    if (p->status != TP_OK)
        return false;
    if (stands_for)
        tpi_vjp_set(&c->v, stands_for, p);
    tpi_nodes_push(&c->in, outer);
    return !c->in.failed || no_memory(c);
}

/* A slices operand for the turns that were taken. */
static tp_tensor *turns_taken(const loop_vjp *c, tp_tensor *xs)
{
    const tpi_loop_attrs *a = c->a;
    if (a->length == a->count)
        return xs;
    return tpi_slice(c->v.at, xs, 0, 0, tpi_dim_sub(c->v.g->dims, a->count, a->length), 1);
}

static bool take_carried(loop_vjp *c, tpi_body *to)
{
    const tpi_vjp *v = &c->v;
    const tp_tensor *turn = tpi_body_param(to, v->at, TP_I64, 0, NULL, NULL);
    if (turn->status != TP_OK)
        return false;
    tpi_vjp_set(&c->v, v->work->params[0], (tp_tensor *)turn);
    bool ok = true;
    for (int k = 0; k < c->n_kept && ok; k++) {
        int p = 1;
        while (c->number[p] != k && c->state_number[p] != k)
            p++;
        ok = c->state_number[p] == k
                 ? take(c, to, c->v.state[p], c->before[p], false)
                 : take(c, to, c->sum[p] ? c->sum[p] : c->seed[p - 1], c->start[p], false);
    }
    return ok;
}

/* Is it what a loop that a condition ended kept of as many turns? */
static bool tells_count(const loop_vjp *c, const tp_tensor *xs)
{
    return tpi_tells_turns(xs, c->a->count);
}

static bool take_slices(loop_vjp *c, tpi_body *to, int *n)
{
    const tpi_vjp *v = &c->v;
    const int before = c->in.n;
    bool ok = true;
    for (int p = 1; p < c->n_params && ok; p++)
        if (is_slice(c, p) &&
            (v->need[v->work->params[p]->index] || tells_count(c, outer_of(c, p))))
            ok = take(c, to, v->work->params[p], turns_taken(c, outer_of(c, p)), true);
    for (int i = 0; i < v->taps.n && ok; i++)
        ok = take(c, to, v->taps.v[i], append_output(c, tpi_vjp_origin(&c->v, i)), true);
    if (ok && c->a->has_pred && !c->stack) /* the turns are known when that loop has run */
        ok = take(c, to, NULL, append_output(c, c->a->body->outputs[0]), true);
    for (int i = c->n_carried; i < c->n_cots && ok; i++)
        if (c->given[i])
            ok = take(c, to, c->seed[i], c->cot[i], true);
    for (int p = 1; p < c->n_params && ok; p++)
        if (is_slice(c, p) && c->sum[p])
            ok = take(c, to, c->sum[p], c->start[p], true);
    *n = c->in.n - before;
    return ok;
}

static bool take_captures(loop_vjp *c, tpi_body *to)
{
    const tpi_vjp *v = &c->v;
    bool ok = true;
    for (int p = 1 + c->n_carried + c->n_slices; p < c->n_params && ok; p++)
        if (v->need[v->work->params[p]->index])
            ok = take(c, to, v->work->params[p], outer_of(c, p), false);
    return ok;
}

/* NULL: the error is set. */
static tp_tensor *make_node(loop_vjp *c)
{
    tpi_vjp *v = &c->v;
    tpi_loop_attrs attrs = {.n_carried = c->n_kept,
                            .n_stacked = c->out.n - c->n_kept,
                            .counted = true,
                            .back = !c->a->back};
    int n_slices = 0;
    tpi_body *to = attrs.body = tpi_body_new(v->g, v->at);
    if (!to || !take_carried(c, to) || !take_slices(c, to, &n_slices) ||
        !take_captures(c, to) || !tpi_vjp_fill(v, to))
        return NULL;
    for (int i = 0; i < c->out.n; i++)
        if (!tpi_body_output(to, tpi_vjp_made(v, c->out.v[i])))
            return NULL;
    to->closed = true;
    attrs.n_slices = n_slices;
    attrs.count = attrs.length = c->a->length;
    tp_tensor *back = tpi_loop_node(v->g, v->at, &attrs, c->in.n, c->in.v);
    return back->status == TP_OK ? back : NULL;
}

/* ---- what it gives ------------------------------------------------------------------------------------ */

static bool surely_turns(const loop_vjp *c)
{
    return !tpi_dim_is_symbolic(c->a->length) && c->a->length > 0;
}

/* t when there was a turn, else zeros; or, with `swap`, the other way round. */
static tp_tensor *when_turned(const loop_vjp *c, tp_tensor *t, bool swap)
{
    const tpi_at at = c->v.at;
    const int64_t n = c->a->length;
    tp_tensor *zero = tp_scalar_like_at(at.file, at.line, t, 0);
    const int64_t axis = 0;
    tp_tensor *turns =
        c->a->has_pred ? c->stack : tp_broadcast_at(at.file, at.line, zero, 1, &n);
    turns = tp_extent_at(at.file, at.line, turns, 1, &axis, TP_I64);
    tp_tensor *some =
        tp_gt_at(at.file, at.line, turns, tp_scalar_like_at(at.file, at.line, turns, 0));
    return swap ? tp_where_at(at.file, at.line, some, zero, t)
                : tp_where_at(at.file, at.line, some, t, zero);
}

static bool give_one(loop_vjp *c, tp_tensor *back, int p)
{
    const tpi_vjp *v = &c->v;
    const bool passes = !is_carried(c, p) || v->dx[p]; /* else only where there was no turn */
    if (surely_turns(c) && !passes)
        return true;
    tp_tensor *dx = tpi_output_of(back, c->number[p]);
    if (!passes)
        dx = when_turned(c, dx, true);
    else if (c->fresh[p] && !surely_turns(c))
        dx = when_turned(c, dx, false);
    else if (is_slice(c, p) && c->a->length != c->a->count)
        dx = tpi_pad_slice(v->at, dx, 0, 0, 1, c->a->count);
    if (dx->status != TP_OK)
        return false;
    const int k = operand_of(c, p);
    if (!tpi_wants_operand(c->s, c->block, k))
        return true;
    if (c->sum[p] && !c->fresh[p]) {
        tpi_set_sum(c->s, c->block, k, dx);
    } else {
        tpi_ref(dx);
        tpi_sweep_fold(c->s, c->block, c->block->in[k]->slot, dx);
    }
    return true;
}

static bool give_state(loop_vjp *c, tp_tensor *back, int p)
{
    tp_tensor *state = tpi_output_of(back, c->state_number[p]);
    tpi_sweep_set_state(c->s, outer_of(c, p)->slot, state);
    return state->status == TP_OK;
}

/* Captures first, whose sums went through the loop; then what entered it (op/turn_values.c). */
static bool give(loop_vjp *c, tp_tensor *back)
{
    bool ok = true;
    for (int p = 1 + c->n_carried + c->n_slices; p < c->n_params && ok; p++)
        ok = (c->number[p] < 0 || give_one(c, back, p)) &&
             (c->state_number[p] < 0 || give_state(c, back, p));
    for (int p = c->n_carried + c->n_slices; p >= 1 && ok; p--)
        ok = c->number[p] < 0 || !c->depends[p] || give_one(c, back, p);
    return ok;
}

bool tpi_loop_back(tpi_sweep *s, tp_tensor *block, tp_tensor *const *cot)
{
    tp_ctx *ctx = s->ctx;
    loop_vjp c = {.s = s,
                  .block = block,
                  .a = tpi_loop_of(block),
                  .cot = cot,
                  .out = {.ctx = ctx},
                  .in = {.ctx = ctx},
                  .n_cots = tpi_n_outputs_of(block)};
    c.first = (int)c.a->has_pred;
    c.n_carried = (int)c.a->n_carried;
    c.n_slices = (int)c.a->n_slices;
    c.n_params = c.a->body->n_params;
    bool ok = reserve(&c) && find_cotangents(&c) && sweep_turn(&c) && make_outputs(&c);
    if (ok && c.out.n) {
        tp_tensor *back = cut(&c) && set_length(&c) ? make_node(&c) : NULL;
        ok = back && give(&c, back);
    }
    done(&c);
    return ok;
}
