/* Blocks: what is marked in them is an image of two tensors, where images have tangents. Where all samples go one way it
 * is a block over all of them. Where each goes its own way, the rows of those that go one way are taken together,
 * computed, and put back: nothing is computed for the others. */
#include "op/sizes.h"
#include "tapir/composites.h"
#include "tapir/control.h"
#include "tapir/indexing.h"
#include "transform/batch.h"
#include "transform/rules.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

/* ---- which values are marked ----------------------------------------------------------------------- */

/* Of a block: its bodies' params, its condition, its outputs. */
typedef struct marks {
    bool *params, *outputs;
    bool pred;
} marks;

static bool marks_of(const tpi_transform *f, const tp_tensor *block, const bool *is, marks *to);

/* Outputs of a body, from its params; NULL: no memory. */
static bool *marks_through(const tpi_transform *f, const tpi_body *body, const bool *params)
{
    const tp_graph *g = body->graph;
    bool *is = tpi_bump_take(f->memory, (size_t)g->n_nodes, sizeof *is);
    marks *blocks = tpi_bump_take(f->memory, (size_t)g->n_nodes, sizeof *blocks);
    bool *outputs = tpi_bump_take(f->memory, (size_t)body->n_outputs + 1, sizeof *outputs);
    for (int i = 0; i < body->n_params && outputs; i++)
        is[body->params[i]->index] = params[i];
    for (int i = 0; i < g->n_nodes && outputs; i++) {
        const tp_tensor *t = g->nodes[i], *block = tpi_block_of(t), *inside = tpi_inside_of(t);
        if (tpi_is_block(t)) {
            if (!marks_of(f, t, is, &blocks[i]))
                return NULL;
        } else if (block)
            is[i] = blocks[block->index].outputs[tpi_index_of(t)];
        else if (inside)
            is[i] = is[inside->index];
        else if (t->op->draws)
            is[i] = !f->draws_once;
        else
            for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
                is[i] |= is[t->in[k]->index] && f->rules->shows(t);
    }
    for (int i = 0; i < body->n_outputs && outputs; i++)
        outputs[i] = is[body->outputs[i]->index];
    return outputs;
}

static bool marks_of_cond(const tpi_transform *f, const tp_tensor *block, const bool *is,
                          marks *to)
{
    const tpi_cond_attrs *a = block->attrs;
    for (int k = 1; k < block->n_in; k++)
        to->params[k - 1] = is[block->in[k]->index];
    to->pred = is[block->in[0]->index];
    const bool *then = marks_through(f, a->then, to->params);
    const bool *other = then ? marks_through(f, a->other, to->params) : NULL;
    for (int i = 0; i < a->then->n_outputs && other; i++)
        to->outputs[i] = to->pred || then[i] || other[i];
    return other != NULL;
}

/* What a turn makes differ, the next one begins with. */
static bool marks_of_loop(const tpi_transform *f, const tp_tensor *block, const bool *is,
                          marks *to)
{
    const tpi_loop_attrs *a = block->attrs;
    const int first = (int)a->has_pred, n = (int)a->n_carried;
    for (int k = first; k < block->n_in; k++)
        to->params[1 + k - first] = is[block->in[k]->index];
    to->pred = a->has_pred && is[block->in[0]->index];
    for (bool changed = true; changed;) {
        const bool *out = marks_through(f, a->body, to->params);
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

static bool marks_of(const tpi_transform *f, const tp_tensor *block, const bool *is, marks *to)
{
    to->params = tpi_bump_take(f->memory, (size_t)block->n_in + 1, sizeof(bool));
    to->outputs = tpi_bump_take(f->memory, (size_t)tpi_n_outputs_of(block) + 1, sizeof(bool));
    if (!to->outputs)
        return false;
    return tpi_loop_of(block) ? marks_of_loop(f, block, is, to)
                              : marks_of_cond(f, block, is, to);
}

/* ---- one body ------------------------------------------------------------------------------------------ */

typedef struct run {
    const tpi_transform *f;
    tpi_at at;
    const tp_tensor *block;
    const tpi_loop_attrs *loop; /* of it; NULL: it is no loop */
    marks is;
    const tpi_image *operand; /* by operand of the block */
    tpi_image *image;         /* of the body that is run, by node; room for the larger one */
    tp_tensor *failed;
} run;

static void begin_body(run *r, const tpi_body *body)
{
    memset(r->image, 0, (size_t)body->graph->n_nodes * sizeof *r->image);
}

static void set_param(run *r, const tpi_body *body, int k, tpi_image v)
{
    r->image[body->params[k]->index] = v;
}

/* False: it failed, which r->failed says. */
static bool run_body(run *r, const tpi_transform *f, const tpi_body *body)
{
    if (!r->failed)
        r->failed = tpi_transform_body(f, body, r->image);
    return !r->failed;
}

static tpi_image output(const run *r, const tpi_transform *f, const tpi_body *body, int i,
                        bool marked)
{
    return tpi_marked(f, r->image[body->outputs[i]->index], marked);
}

/* Images as variables of a block: the tensor, and behind it the tangent of a marked one. */
static int put(const run *r, tpi_image v, tp_tensor **to)
{
    to[0] = v.t;
    if (!v.marked || !r->f->rules->tangents)
        return 1;
    to[1] = v.tangent;
    return 2;
}

static int get(const run *r, tp_tensor *const *from, bool marked, tpi_image *v)
{
    const bool two = marked && r->f->rules->tangents;
    *v = (tpi_image){.t = from[0], .tangent = two ? from[1] : NULL, .marked = marked};
    return 1 + two;
}

/* How many variables these are. */
static int count(const run *r, int n, const bool *marked)
{
    int all = n;
    for (int i = 0; i < n; i++)
        all += marked[i] && r->f->rules->tangents;
    return all;
}

/* ---- some of the samples -------------------------------------------------------------------------------- */

/* The numbers of those for which `chosen`, bool [n] or with axes of one element, holds. */
static tp_tensor *rows_where(const run *r, tp_tensor *chosen)
{
    const tpi_at at = r->at;
    return tp_flatten(tp_nonzero(tp_flatten(chosen, 0)), 0);
}

static tpi_image rows_of(const run *r, tpi_image v, tp_tensor *rows)
{
    const tpi_at at = r->at;
    return v.marked && rows ? (tpi_image){.t = tp_gather(v.t, rows, 0), .marked = true} : v;
}

/* ---- cond ------------------------------------------------------------------------------------------------ */

static void set_captures(run *r, const tpi_body *body, tp_tensor *rows)
{
    begin_body(r, body);
    for (int k = 0; k < body->n_params; k++)
        set_param(r, body, k, rows_of(r, r->operand[1 + k], rows));
}

static void one_side(run *r, const tpi_body *body, tp_tensor **v)
{
    set_captures(r, body, NULL);
    if (!run_body(r, r->f, body))
        return;
    for (int i = 0; i < body->n_outputs; i++)
        v += put(r, output(r, r->f, body, i, r->is.outputs[i]), v);
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

/* Zeros for all samples, of the type and sizes of `rows`. */
static tp_tensor *zeros_for_all(const run *r, tp_tensor *rows)
{
    const tpi_at at = r->at;
    int64_t shape[TP_MAX_RANK + 1] = {r->f->samples};
    for (int k = 1; k < rows->rank; k++)
        shape[k] = rows->shape[k];
    return tp_broadcast(tp_scalar_like(rows, 0), rows->rank, shape);
}

/* Puts what one side gives for its rows into v[]; nothing where it has none, unless there are no samples at all: then
 * one side tells what there are none of. */
static void put_rows_of_side(run *r, const tpi_body *body, tp_tensor *rows, tp_tensor **v)
{
    const tpi_at at = r->at;
    if (rows->status != TP_OK || r->failed) {
        r->failed = r->failed ? r->failed : rows;
        return;
    }
    if (rows->shape[0] == 0 && (r->f->samples != 0 || v[0]))
        return;
    tpi_transform some = *r->f;
    some.samples = rows->shape[0];
    set_captures(r, body, rows);
    if (!run_body(r, &some, body))
        return;
    for (int i = 0; i < body->n_outputs; i++) {
        tp_tensor *y = output(r, &some, body, i, true).t;
        v[i] =
            y->status == TP_OK ? tp_scatter(v[i] ? v[i] : zeros_for_all(r, y), rows, y, 0) : y;
    }
}

/* Each sample goes the way of its own condition. */
static void split(run *r, tp_tensor **v)
{
    const tpi_cond_attrs *a = r->block->attrs;
    const tpi_at at = r->at;
    put_rows_of_side(r, a->then, rows_where(r, r->operand[0].t), v);
    put_rows_of_side(r, a->other, rows_where(r, tp_not(r->operand[0].t)), v);
}

static void run_cond(run *r, int n, tp_tensor **v)
{
    if (r->is.pred)
        split(r, v);
    else
        tp_cond_at(r->at.file, r->at.line, r->operand[0].t, then_side, other_side, r, n, v);
}

/* ---- loop ------------------------------------------------------------------------------------------------- */

/* The operand of param k of a loop's body, but the turn. */
static const tpi_image *operand_of(const run *r, int k)
{
    return &r->operand[k - 1 + r->loop->has_pred];
}

/* A turn's params: carried values, elements of what is sliced, captures; of some samples, or (rows NULL) of all. */
static void begin_turn(run *r, tp_tensor *const *carried, tp_tensor *const *elements,
                       tp_tensor *rows)
{
    const tpi_loop_attrs *a = r->loop;
    const tpi_body *body = a->body;
    const tpi_at at = r->at;
    begin_body(r, body);
    set_param(r, body, 0, (tpi_image){.t = tp_turn(r->f->ctx)});
    for (int k = 1; k < body->n_params; k++) {
        tpi_image v = *operand_of(r, k);
        if (k <= a->n_carried)
            carried += get(r, carried, r->is.params[k], &v);
        else if (k <= a->n_carried + a->n_slices)
            elements += get(r, elements, v.marked, &v);
        set_param(r, body, k, rows_of(r, v, rows));
    }
}

static void one_turn(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                     tp_tensor **y)
{
    run *r = user;
    const tpi_loop_attrs *a = r->loop;
    (void)n, (void)n_xs;
    begin_turn(r, v, x, NULL);
    if (!run_body(r, r->f, a->body)) {
        for (int i = 0; i < n_ys; i++)
            y[i] = r->failed;
        return;
    }
    for (int i = 0; i < a->n_carried; i++)
        v += put(r, output(r, r->f, a->body, i, r->is.outputs[i]), v);
    for (int64_t i = a->n_carried; i < a->n_carried + a->n_stacked; i++)
        y += put(r, output(r, r->f, a->body, (int)i, r->is.outputs[i]), y);
}

/* What no turn has stacked, the turns in front. */
static tp_tensor *no_turns(const run *r, int output, bool samples)
{
    const tpi_at at = r->at;
    int64_t one[TP_MAX_RANK + 1], shape[TP_MAX_RANK + 2] = {0, r->f->samples};
    tp_dtype dtype;
    int rank;
    tpi_output_type(r->block, output, &dtype, &rank, one);
    const int front = samples ? 2 : 1;
    memcpy(shape + front, one + 1, sizeof *one * (size_t)(rank - 1));
    return tp_broadcast(tp_scalar(r->f->ctx, dtype, 0), rank - 1 + front, shape);
}

/* In what is sliced and stacked the turns come first, then the samples. */
static void run_counted(run *r, tp_tensor **v)
{
    const tpi_loop_attrs *a = r->loop;
    const tpi_at at = r->at;
    const bool samples = !r->f->rules->tangents;
    const int n = (int)a->n_carried, slices = (int)a->n_slices, stacked = (int)a->n_stacked;
    const int n_v = count(r, n, r->is.outputs), n_ys = count(r, stacked, r->is.outputs + n);
    tp_tensor **xs = tpi_bump_take(r->f->memory, 2 * (size_t)slices + 1, sizeof *xs);
    if (!xs) {
        r->failed = tpi_no_memory(r->f->ctx, at, r->f->rules->what);
        return;
    }
    int n_xs = 0;
    for (int i = 0; i < slices; i++) {
        tpi_image x = *operand_of(r, 1 + n + i);
        if (x.marked && samples)
            x.t = tpi_move_axis(at, x.t, 1, 0);
        n_xs += put(r, x, xs + n_xs);
    }
    for (int i = 0, to = 0; i < n; i++)
        to += put(r, tpi_marked(r->f, *operand_of(r, 1 + i), r->is.params[1 + i]), v + to);
    /* a loop needs a variable */
    tp_tensor *none = tp_scalar_like(r->operand[0].t, 0);
    const tp_scan_options opt = {.back = a->back, .checkpoint = a->checkpoint};
    tp_scan_at(at.file, at.line, a->count, &opt, one_turn, r, n_v ? n_v : 1, n_v ? v : &none,
               n_xs, xs, n_ys, v + n_v);
    tp_tensor **y = v + n_v;
    for (int i = n; i < n + stacked && !r->failed; i++)
        for (int part = count(r, 1, r->is.outputs + i); part > 0; part--, y++) {
            const bool moved = samples && r->is.outputs[i];
            *y = *y ? *y : no_turns(r, i, moved);
            *y = moved ? tpi_move_axis(at, *y, 1, 0) : *y;
        }
}

/* v[0]: whether to go on, or which samples do; then the carried values, those of all samples. */
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
    const tpi_loop_attrs *a = r->loop;
    const tpi_at at = r->at;
    tpi_transform some = *r->f;
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
    for (int i = 0; i <= a->n_carried; i++) { /* the first output is the condition */
        const bool marked = i ? r->is.params[i] : r->is.pred;
        tpi_image now = output(r, &some, a->body, i, marked);
        if (i == 0 && marked)
            now.t = tp_flatten(now.t, 0);
        if (rows)
            now.t = tp_scatter(*v, rows, now.t, 0);
        v += put(r, now, v);
    }
}

static void run_while(run *r, int n, tp_tensor **out)
{
    const tpi_loop_attrs *a = r->loop;
    const tpi_at at = r->at;
    tp_tensor **v = tpi_bump_take(r->f->memory, (size_t)n + 1, sizeof *v);
    if (!v) {
        r->failed = tpi_no_memory(r->f->ctx, at, r->f->rules->what);
        return;
    }
    v[0] = tpi_marked(r->f, r->operand[0], r->is.pred).t;
    if (r->is.pred)
        v[0] = tp_flatten(v[0], 0);
    for (int i = 0, to = 1; i < a->n_carried; i++)
        to += put(r, tpi_marked(r->f, *operand_of(r, 1 + i), r->is.params[1 + i]), v + to);
    tp_while_loop_at(at.file, at.line, some_go_on, turn_of_rows, r, n + 1, v);
    memcpy(out, v + 1, sizeof *v * (size_t)n);
}

/* ---- any block ---------------------------------------------------------------------------------------------- */

static tp_tensor *refuse(const run *r)
{
    const tpi_loop_attrs *a = r->loop;
    tp_ctx *ctx = r->f->ctx;
    const char *what = r->f->rules->what;
    if (tpi_n_writes_of(r->block))
        return tpi_fail(ctx, r->at, what, TP_E_STATE,
                        "the block assigns a variable, which is done once for all that the "
                        "function is run for");
    if (tpi_node_draws(r->block) && r->is.pred)
        return tpi_fail(ctx, r->at, what, TP_E_STATE,
                        "the block draws random numbers, and samples go different ways in it");
    if (a && a->has_pred && (a->counted || a->n_slices || a->n_stacked))
        return tpi_fail(ctx, r->at, what, TP_E_STATE,
                        "the loop keeps something of each turn, and values decide how many "
                        "turns there are%s",
                        r->f->rules->tangents ? "" : ": samples may have different numbers");
    return NULL;
}

static tp_tensor *run_block(run *r, tpi_image *to)
{
    const int outputs = tpi_n_outputs_of(r->block), n = count(r, outputs, r->is.outputs);
    tp_tensor **v = tpi_bump_take(r->f->memory, (size_t)n + 1, sizeof *v);
    to->outputs = tpi_bump_take(r->f->memory, (size_t)outputs + 1, sizeof *to->outputs);
    if (!to->outputs)
        return tpi_no_memory(r->f->ctx, r->at, r->f->rules->what);
    if (!r->loop)
        run_cond(r, n, v);
    else if (r->loop->has_pred)
        run_while(r, n, v);
    else
        run_counted(r, v);
    for (int i = 0; i < n && !r->failed; i++)
        if (!v[i] || v[i]->status != TP_OK)
            r->failed = v[i] ? v[i] : tpi_no_memory(r->f->ctx, r->at, r->f->rules->what);
    for (int i = 0; i < outputs; i++)
        v += get(r, v, r->is.outputs[i], &to->outputs[i]);
    return r->failed;
}

tp_tensor *tpi_transform_block(const tpi_transform *f, const tp_tensor *block, tpi_image *image)
{
    run r = {.f = f,
             .at = block->file ? TPI_AT(block->file, block->line) : f->at,
             .block = block,
             .loop = tpi_loop_of(block)};
    tpi_body *bodies[2];
    int most = 0;
    for (int i = tpi_bodies_of(block, bodies) - 1; i >= 0; i--)
        most = bodies[i]->graph->n_nodes > most ? bodies[i]->graph->n_nodes : most;
    bool *is = tpi_bump_take(f->memory, (size_t)block->graph->n_nodes, sizeof *is);
    tpi_image *operand = tpi_bump_take(f->memory, (size_t)block->n_in, sizeof *operand);
    r.image = tpi_bump_take(f->memory, (size_t)most, sizeof *r.image);
    r.operand = operand;
    for (int k = 0; k < block->n_in && r.image; k++) {
        operand[k] = image[block->in[k]->index];
        is[block->in[k]->index] = operand[k].marked;
    }
    if (!r.image || !marks_of(f, block, is, &r.is))
        return tpi_no_memory(f->ctx, r.at, f->rules->what);
    tp_tensor *failed = refuse(&r);
    return failed ? failed : run_block(&r, &image[block->index]);
}
