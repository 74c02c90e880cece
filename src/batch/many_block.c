/* Blocks on many samples. Where all samples go one way it is a block over all of them. Where each goes its own way,
 * the rows of those that go one way are taken together, computed, and put back: nothing is computed for the others. */
#include "batch/many.h"
#include "op/batch.h"
#include "op/sizes.h"
#include "tapir/composites.h"
#include "tapir/control.h"
#include "tapir/indexing.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* ---- which values differ from sample to sample ----------------------------------------------------- */

/* Of a block: its bodies' params, its condition, its outputs. */
typedef struct marks {
    bool *params, *outputs;
    bool pred;
} marks;

static bool marks_of(const tpi_many *m, const tp_tensor *block, const bool *is, marks *to);

/* Outputs of a body, from its params; NULL: no memory. */
static bool *marks_through(const tpi_many *m, const tpi_body *body, const bool *params)
{
    const tp_graph *g = body->graph;
    bool *is = tpi_bump_take(m->memory, (size_t)g->n_nodes, sizeof *is);
    marks *blocks = tpi_bump_take(m->memory, (size_t)g->n_nodes, sizeof *blocks);
    bool *outputs = tpi_bump_take(m->memory, (size_t)body->n_outputs + 1, sizeof *outputs);
    for (int i = 0; i < g->n_nodes && outputs; i++) {
        const tp_tensor *t = g->nodes[i];
        if (tpi_param_of(t))
            is[i] = params[tpi_index_of(t)];
        else if (tpi_is_block(t)) {
            if (!marks_of(m, t, is, &blocks[i]))
                return NULL;
        } else if (tpi_block_of(t))
            is[i] = blocks[tpi_block_of(t)->index].outputs[tpi_index_of(t)];
        else
            for (int k = 0;
                 k < t->n_in && t->op->kind != TPI_SOURCE && t->op->kind != TPI_SHAPE; k++)
                is[i] |= is[t->in[k]->index];
    }
    for (int i = 0; i < body->n_outputs && outputs; i++)
        outputs[i] = is[body->outputs[i]->index];
    return outputs;
}

static bool marks_of_cond(const tpi_many *m, const tp_tensor *block, const bool *is, marks *to)
{
    const tpi_cond_attrs *a = block->attrs;
    for (int k = 1; k < block->n_in; k++)
        to->params[k - 1] = is[block->in[k]->index];
    to->pred = is[block->in[0]->index];
    const bool *then = marks_through(m, a->then, to->params);
    const bool *other = then ? marks_through(m, a->other, to->params) : NULL;
    for (int i = 0; i < a->then->n_outputs && other; i++)
        to->outputs[i] = to->pred || then[i] || other[i];
    return other != NULL;
}

/* What a turn makes differ, the next one begins with. */
static bool marks_of_loop(const tpi_many *m, const tp_tensor *block, const bool *is, marks *to)
{
    const tpi_loop_attrs *a = block->attrs;
    const int first = (int)a->has_pred, n = (int)a->n_carried;
    for (int k = first; k < block->n_in; k++)
        to->params[1 + k - first] = is[block->in[k]->index];
    to->pred = a->has_pred && is[block->in[0]->index];
    for (bool changed = true; changed;) {
        const bool *out = marks_through(m, a->body, to->params);
        if (!out)
            return false;
        to->pred |= a->has_pred && out[0];
        changed = false;
        for (int i = 0; i < n; i++) {
            const bool differs = to->pred || out[first + i] || to->params[1 + i];
            changed |= differs != to->params[1 + i];
            to->params[1 + i] = to->outputs[i] = differs;
        }
        for (int i = n; i < n + (int)a->n_stacked; i++)
            to->outputs[i] = to->pred || out[first + i];
    }
    return true;
}

static bool marks_of(const tpi_many *m, const tp_tensor *block, const bool *is, marks *to)
{
    to->params = tpi_bump_take(m->memory, (size_t)block->n_in + 1, sizeof(bool));
    to->outputs = tpi_bump_take(m->memory, (size_t)tpi_n_outputs_of(block) + 1, sizeof(bool));
    if (!to->outputs)
        return false;
    return tpi_loop_of(block) ? marks_of_loop(m, block, is, to)
                              : marks_of_cond(m, block, is, to);
}

/* ---- one body ------------------------------------------------------------------------------------------ */

typedef struct run {
    const tpi_many *m;
    tpi_at at;
    const tp_tensor *block;
    marks is;
    const tpi_many_value *operand; /* by operand of the block */
    tpi_many_value *value; /* of the body that is run, by node; room for the larger one */
    tp_tensor *failed;
} run;

static tpi_many_value as_marked(const tpi_many *m, tpi_many_value v, bool many)
{
    return many && !v.many ? (tpi_many_value){.t = tpi_many_spread(m, v), .many = true} : v;
}

static void begin_body(run *r, const tpi_body *body)
{
    memset(r->value, 0, (size_t)body->graph->n_nodes * sizeof *r->value);
}

static void set_param(run *r, const tpi_body *body, int k, tpi_many_value v)
{
    r->value[body->params[k]->index] = v;
}

static tpi_many_value output(const run *r, const tpi_body *body, int i)
{
    return r->value[body->outputs[i]->index];
}

/* On m's samples. False: it failed, which r->failed says. */
static bool run_body(run *r, const tpi_many *m, const tpi_body *body)
{
    if (!r->failed)
        r->failed = tpi_many_run(m, body, r->value);
    return !r->failed;
}

/* ---- some of the samples -------------------------------------------------------------------------------- */

/* The numbers of those for which `chosen`, bool [n] or with axes of one element, holds. */
static tp_tensor *rows_where(const run *r, tp_tensor *chosen)
{
    const tpi_at at = r->at;
    return tp_flatten(tp_nonzero(tp_flatten(chosen, 0)), 0);
}

static tpi_many_value rows_of(const run *r, tpi_many_value v, tp_tensor *rows)
{
    const tpi_at at = r->at;
    return v.many ? (tpi_many_value){.t = tp_gather(v.t, rows, 0), .many = true} : v;
}

/* ---- cond ------------------------------------------------------------------------------------------------ */

static void set_captures(run *r, const tpi_body *body, tp_tensor *rows)
{
    begin_body(r, body);
    for (int k = 0; k < body->n_params; k++)
        set_param(r, body, k, rows ? rows_of(r, r->operand[1 + k], rows) : r->operand[1 + k]);
}

static void one_side(run *r, const tpi_body *body, tp_tensor **v)
{
    set_captures(r, body, NULL);
    if (!run_body(r, r->m, body))
        return;
    for (int i = 0; i < body->n_outputs; i++)
        v[i] = as_marked(r->m, output(r, body, i), r->is.outputs[i]).t;
}

static void then_side(void *user, int n, tp_tensor **v)
{
    run *r = user;
    (void)n;
    one_side(r, ((const tpi_cond_attrs *)r->block->attrs)->then, v);
}

static void other_side(void *user, int n, tp_tensor **v)
{
    run *r = user;
    (void)n;
    one_side(r, ((const tpi_cond_attrs *)r->block->attrs)->other, v);
}

/* What one side gives for its rows, joined to out[]; nothing where it has none, unless there are no samples at all: then
 * one side tells what there are none of. */
static void add_rows_of_side(run *r, const tpi_body *body, tp_tensor *rows, tpi_nodes *out)
{
    if (rows->status != TP_OK || r->failed) {
        r->failed = r->failed ? r->failed : rows;
        return;
    }
    if (rows->shape[0] == 0 && (r->m->samples != 0 || out[0].n))
        return;
    tpi_many some = *r->m;
    some.samples = rows->shape[0];
    set_captures(r, body, rows);
    if (!run_body(r, &some, body))
        return;
    for (int i = 0; i < body->n_outputs; i++)
        tpi_nodes_push(&out[i], as_marked(&some, output(r, body, i), true).t);
}

/* Each sample goes the way of its own condition. */
static void split(run *r, tp_tensor **v)
{
    const tpi_cond_attrs *a = r->block->attrs;
    const tpi_at at = r->at;
    const int n = a->then->n_outputs;
    tpi_nodes *out = tpi_bump_take(r->m->memory, (size_t)n + 1, sizeof *out);
    if (!out) {
        r->failed = tpi_no_memory(r->m->ctx, at, "tp_vmap");
        return;
    }
    for (int i = 0; i < n; i++)
        out[i] = (tpi_nodes){.ctx = r->m->ctx};
    tp_tensor *yes = rows_where(r, r->operand[0].t);
    tp_tensor *no = rows_where(r, tp_not(r->operand[0].t));
    add_rows_of_side(r, a->then, yes, out);
    add_rows_of_side(r, a->other, no, out);
    /* where each sample's row lies among those of both sides */
    tp_tensor *order = tp_argsort(tp_concat(TPI_IN(yes, no), 0), 0, false);
    for (int i = 0; i < n; i++) {
        if (out[i].failed && !r->failed)
            r->failed = tpi_no_memory(r->m->ctx, at, "tp_vmap");
        if (!r->failed)
            v[i] = tp_gather(out[i].n > 1 ? tp_concat(out[i].n, out[i].v, 0) : out[i].v[0],
                             order, 0);
        tpi_nodes_free(&out[i]);
    }
}

static void run_cond(run *r, tp_tensor **v)
{
    const tpi_cond_attrs *a = r->block->attrs;
    if (r->is.pred)
        split(r, v);
    else
        tp_cond_at(r->at.file, r->at.line, r->operand[0].t, then_side, other_side, r,
                   a->then->n_outputs, v);
}

/* ---- loop ------------------------------------------------------------------------------------------------- */

/* The operand of param k of a loop's body, but the turn. */
static const tpi_many_value *operand_of(const run *r, int k)
{
    return &r->operand[k - 1 + tpi_loop_of(r->block)->has_pred];
}

/* A turn's params: carried values, elements of what is sliced, captures, the rows of some samples or (NULL) of all. */
static void begin_turn(run *r, tp_tensor *const *carried, tp_tensor *const *elements,
                       tp_tensor *rows)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    const tpi_body *body = a->body;
    const tpi_at at = r->at;
    const int n = (int)a->n_carried, slices = (int)a->n_slices;
    begin_body(r, body);
    set_param(r, body, 0, (tpi_many_value){.t = tp_turn(r->m->ctx)});
    for (int k = 1; k < body->n_params; k++) {
        tpi_many_value v = *operand_of(r, k);
        if (k <= n)
            v = (tpi_many_value){.t = carried[k - 1], .many = r->is.params[k]};
        else if (k <= n + slices)
            v.t = elements[k - 1 - n];
        set_param(r, body, k, rows ? rows_of(r, v, rows) : v);
    }
}

static void one_turn(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                     tp_tensor **y)
{
    run *r = user;
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    (void)n, (void)n_xs;
    begin_turn(r, v, x, NULL);
    if (!run_body(r, r->m, a->body)) {
        for (int i = 0; i < n_ys; i++)
            y[i] = r->failed;
        return;
    }
    for (int i = 0; i < (int)a->n_carried + n_ys; i++) {
        tp_tensor *t = as_marked(r->m, output(r, a->body, i), r->is.outputs[i]).t;
        if (i < (int)a->n_carried)
            v[i] = t;
        else
            y[i - (int)a->n_carried] = t;
    }
}

/* What no turn has stacked, the turns in front. */
static tp_tensor *no_turns(const run *r, int output)
{
    const tpi_at at = r->at;
    int64_t one[TP_MAX_RANK + 1], shape[TP_MAX_RANK + 2] = {0, r->m->samples};
    tp_dtype dtype;
    int rank;
    tpi_output_type(r->block, output, &dtype, &rank, one);
    const int front = r->is.outputs[output] ? 2 : 1;
    memcpy(shape + front, one + 1, sizeof *one * (size_t)(rank - 1));
    return tp_broadcast(tp_scalar(r->m->ctx, dtype, 0), rank - 1 + front, shape);
}

static void run_counted(run *r, tp_tensor **v)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    const tpi_at at = r->at;
    const int n = (int)a->n_carried, n_xs = (int)a->n_slices, n_ys = (int)a->n_stacked;
    tp_tensor **xs = tpi_bump_take(r->m->memory, (size_t)n_xs + 1, sizeof *xs);
    if (!xs) {
        r->failed = tpi_no_memory(r->m->ctx, at, "tp_vmap");
        return;
    }
    for (int i = 0; i < n_xs; i++) {
        const tpi_many_value *x = operand_of(r, 1 + n + i);
        xs[i] = x->many ? tpi_move_axis(at, x->t, 1, 0) : x->t;
    }
    for (int i = 0; i < n; i++)
        v[i] = as_marked(r->m, *operand_of(r, 1 + i), r->is.params[1 + i]).t;
    v[n + n_ys] = NULL;
    /* a loop needs a variable: behind the results, one for those that have none */
    tp_tensor *none = tp_scalar_like(r->operand[0].t, 0);
    const tp_scan_options opt = {.back = a->back, .checkpoint = a->checkpoint};
    tp_scan_at(at.file, at.line, a->count, &opt, one_turn, r, n ? n : 1, n ? v : &none, n_xs,
               xs, n_ys, v + n);
    for (int i = n; i < n + n_ys && !r->failed; i++) {
        v[i] = v[i] ? v[i] : no_turns(r, i);
        if (r->is.outputs[i])
            v[i] = tpi_move_axis(at, v[i], 1, 0);
    }
}

/* v[0]: which samples go on; then the carried values, those of all samples. */
static tp_tensor *some_go_on(void *user, int n, tp_tensor *const *v)
{
    const run *r = user;
    const tpi_at at = r->at;
    (void)n;
    return r->is.pred ? tp_reduce_max(v[0], TP_ALL, false) : v[0];
}

static void turn_of_rows(void *user, int n, tp_tensor **v)
{
    run *r = user;
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    const tpi_at at = r->at;
    tpi_many some = *r->m;
    tp_tensor *rows = r->is.pred ? rows_where(r, v[0]) : NULL;
    if (rows && rows->status != TP_OK)
        r->failed = r->failed ? r->failed : rows;
    else if (rows)
        some.samples = rows->shape[0];
    if (!r->failed)
        begin_turn(r, v + 1, NULL, rows);
    if (!run_body(r, &some, a->body)) {
        for (int i = 0; i < n; i++)
            v[i] = r->failed;
        return;
    }
    for (int i = 0; i < n; i++) { /* the first output is the condition */
        const bool many = i ? r->is.params[i] : r->is.pred;
        tp_tensor *t = as_marked(&some, output(r, a->body, i), many).t;
        if (i == 0 && many)
            t = tp_flatten(t, 0);
        v[i] = rows ? tp_scatter(v[i], rows, t, 0) : t;
    }
}

static void run_while(run *r, tp_tensor **out)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    const tpi_at at = r->at;
    const int n = (int)a->n_carried;
    tp_tensor **v = tpi_bump_take(r->m->memory, (size_t)n + 1, sizeof *v);
    if (!v) {
        r->failed = tpi_no_memory(r->m->ctx, at, "tp_vmap");
        return;
    }
    v[0] = as_marked(r->m, r->operand[0], r->is.pred).t;
    if (r->is.pred)
        v[0] = tp_flatten(v[0], 0);
    for (int i = 0; i < n; i++)
        v[1 + i] = as_marked(r->m, *operand_of(r, 1 + i), r->is.params[1 + i]).t;
    tp_while_loop_at(at.file, at.line, some_go_on, turn_of_rows, r, n + 1, v);
    memcpy(out, v + 1, sizeof *v * (size_t)n);
}

/* ---- any block ---------------------------------------------------------------------------------------------- */

static tp_tensor *refuse(const run *r)
{
    const tpi_loop_attrs *a = tpi_loop_of(r->block);
    tp_ctx *ctx = r->m->ctx;
    if (tpi_n_writes_of(r->block))
        return tpi_fail(ctx, r->at, "tp_vmap", TP_E_STATE,
                        "the block assigns a variable, which is one for all samples");
    if (tpi_node_draws(r->block))
        return tpi_fail(
            ctx, r->at, "tp_vmap", TP_E_STATE,
            "the block draws random numbers, which would be the same for all samples");
    if (a && a->has_pred && (a->counted || a->n_slices || a->n_stacked))
        return tpi_fail(
            ctx, r->at, "tp_vmap", TP_E_STATE,
            "the loop keeps something of each turn, and values decide how many there "
            "are: samples may have different numbers");
    return NULL;
}

static tp_tensor *run_block(run *r, tpi_many_value *to)
{
    const int n = tpi_n_outputs_of(r->block);
    tp_tensor **v = tpi_bump_take(r->m->memory, (size_t)n + 1, sizeof *v);
    to->outputs = tpi_bump_take(r->m->memory, (size_t)n + 1, sizeof *to->outputs);
    if (!to->outputs)
        return tpi_no_memory(r->m->ctx, r->at, "tp_vmap");
    if (!tpi_loop_of(r->block))
        run_cond(r, v);
    else if (tpi_loop_of(r->block)->has_pred)
        run_while(r, v);
    else
        run_counted(r, v);
    for (int i = 0; i < n && !r->failed; i++) {
        to->outputs[i] = (tpi_many_value){.t = v[i], .many = r->is.outputs[i]};
        if (!v[i])
            r->failed = tpi_no_memory(r->m->ctx, r->at, "tp_vmap");
        else if (v[i]->status != TP_OK)
            r->failed = v[i];
    }
    return r->failed;
}

tp_tensor *tpi_many_block(const tpi_many *m, const tp_tensor *block, tpi_many_value *value)
{
    run r = {
        .m = m, .at = block->file ? TPI_AT(block->file, block->line) : m->at, .block = block};
    tpi_body *bodies[2];
    int most = 0;
    for (int i = tpi_bodies_of(block, bodies) - 1; i >= 0; i--)
        most = bodies[i]->graph->n_nodes > most ? bodies[i]->graph->n_nodes : most;
    bool *is = tpi_bump_take(m->memory, (size_t)block->graph->n_nodes, sizeof *is);
    tpi_many_value *operand = tpi_bump_take(m->memory, (size_t)block->n_in, sizeof *operand);
    r.value = tpi_bump_take(m->memory, (size_t)most, sizeof *r.value);
    r.operand = operand;
    for (int k = 0; k < block->n_in && r.value; k++) {
        operand[k] = value[block->in[k]->index];
        is[block->in[k]->index] = operand[k].many;
    }
    if (!r.value || !marks_of(m, block, is, &r.is))
        return tpi_no_memory(m->ctx, r.at, "tp_vmap");
    tp_tensor *failed = refuse(&r);
    return failed ? failed : run_block(&r, &value[block->index]);
}
