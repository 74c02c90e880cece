#include "onnx/export/export.h"

#include "base/float_mode.h"
#include "core/dim.h"
#include "ir/body.h"
#include "onnx/export/export_inner.h"
#include "op/random_position.h"
#include "pass/leave.h"
#include "pass/optimize.h"
#include "pass/prune.h"

#include <string.h>

/* ---- which nodes are needed -------------------------------------------------------------- */

/* Operands that are nodes and whose values count: not those of sources, nor one that is asked for
 * its size, nor the call a result belongs to, nor the factors by which a determinant is found. */
static int value_operands(const tp_tensor *t)
{
    const bool none = t->op->kind == TPI_SOURCE || t->op->kind == TPI_SHAPE;
    const bool first = t->op->code == TPI_OP_result || t->op->code == TPI_OP_det;
    return none ? 0 : first ? 1 : t->n_in;
}

/* Grows a set of nodes by all they are computed from, but for what has its value. Operands are
 * older, so one walk back finds all. */
static void close_set(tpi_export *x, int32_t *set)
{
    for (int i = x->now.n_graph - 1; i >= 0; i--) {
        const tp_tensor *t = x->now.g->nodes[i];
        if (!set[i] || x->now.value_of[i])
            continue;
        for (int k = 0; k < value_operands(t); k++)
            set[t->in[k]->index] = 1;
    }
}

/* Into set[n_graph]: what is computed whichever path is taken from this block on. */
static bool find_sure(tpi_export *x, const tpi_onnx_block *b, int32_t *set, int depth)
{
    memset(set, 0, (size_t)x->now.n_graph * sizeof *set);
    if (!b->condition) {
        for (int i = 0; i < x->m->n_out; i++)
            set[b->outputs[i]->index] = 1;
        close_set(x, set);
        return true;
    }
    if (depth == TPI_EXPORT_DEEPEST) {
        x->now.node = b->condition;
        tpi_export_refuse(x, "the condition is below %d others, more than files can hold",
                          TPI_EXPORT_DEEPEST);
        return false;
    }
    const tpi_bump mark = x->memory;
    int32_t *other = tpi_export_take(x, (size_t)x->now.n_graph, sizeof *other);
    if (!other)
        return false;
    const bool ok = find_sure(x, b->then_block, set, depth + 1) &&
                    find_sure(x, b->else_block, other, depth + 1);
    for (int i = 0; i < x->now.n_graph; i++)
        set[i] &= other[i];
    tpi_bump_release(&x->memory, &mark);
    set[b->condition->index] = 1;
    close_set(x, set);
    return ok;
}

/* ---- exporting nodes ------------------------------------------------------------------------ */

void tpi_set_value(tpi_export *x, const tp_tensor *t, tpi_val v)
{
    if (x->block != 0) {
        if (!tpi_export_room(x, &x->undo, x->n_undo, &x->undo_size, sizeof *x->undo))
            return;
        x->undo[x->n_undo++] = t->index;
    }
    x->now.value_of[t->index] = v;
    if (v && !x->values[v].node)
        x->values[v].node = t;
}

/* The numbers of a random node begin where those drawn before it end. */
static void place_random(tpi_export *x, const tp_tensor *t)
{
    if (t->op->code != TPI_OP_random || x->now.place[t->index] != -1)
        return;
    const int64_t moves = tpi_random_moves(x->now.g->dims, t->attrs, t->rank, t->shape);
    int64_t *drawn = &x->now.drawn[tpi_random_stream_of(x, t)].n;
    x->now.place[t->index] = *drawn;
    *drawn = tpi_dim_add(x->now.g->dims, *drawn, moves);
}

/* Small constants without a name are one when they are equal. */
static tpi_val export_source(tpi_export *x, const tp_tensor *t)
{
    const tp_tensor *v = t->in[0];
    const bool small = v->rank <= 1 && tpi_count(v) <= 16 && v->flags & TPI_CONTIGUOUS;
    if (t->op->code == TPI_OP_variable || t->name || !small)
        return tpi_weight(x, v);
    return tpi_constant(x, (tp_dtype)v->dtype, v->rank, tpi_count(v), v->data);
}

tpi_val tpi_export_node(tpi_export *x, const tp_tensor *t)
{
    switch (t->op->code) {
#define EXPORT(op, function)                                                                   \
    case TPI_OP_##op:                                                                          \
        return tpi_export_##function(x, t);
#define NAMED(op, function, operator)                                                          \
    case TPI_OP_##op:                                                                          \
        return tpi_export_##function(x, t, #operator);
#include "onnx/export/exports.def"
#undef EXPORT
#undef NAMED
    case TPI_OP_variable:
    case TPI_OP_const:
        return export_source(x, t);
    case TPI_OP_placeholder:
        return tpi_export_fail(
            x, TP_E_NAME,
            "what is asked for needs the placeholder \"%s\" %s, which is not "
            "among the inputs",
            t->name ? t->name : "", SHAPE(t));
    case TPI_OP_assign:
    case TPI_OP_group:
        return tpi_export_refuse(x, "a model changes no variables: ask for outputs that need "
                                    "no assignment");
    default:
        return tpi_export_refuse(x, "ONNX has no words for this op");
    }
}

enum { TAKES_PLACE = 2 }; /* a mark: it draws, but nothing reads it */

/* What is marked, in the order of the graph. */
static void export_marked(tpi_export *x)
{
    for (int i = 0; i < x->now.n_graph && x->status == TP_OK; i++) {
        const tp_tensor *t = x->now.g->nodes[i];
        if (!x->now.mark[i] || x->now.value_of[i])
            continue;
        x->now.node = t;
        place_random(x, t);
        if (x->now.mark[i] == TAKES_PLACE)
            continue;
        if (tpi_is_block(t))
            tpi_export_block(x, t);
        else
            tpi_set_value(x, t, tpi_export_node(x, t));
    }
    x->now.node = NULL;
}

/* A run makes all draws of its graph: what is drawn before, and blocks that draw, move the others on. */
static void mark_draws(tpi_export *x)
{
    for (int i = 0; i < x->now.n_graph; i++)
        if (!x->now.mark[i] && tpi_node_draws(x->now.g->nodes[i]))
            x->now.mark[i] = tpi_is_block(x->now.g->nodes[i]) ? 1 : TAKES_PLACE;
    close_set(x, x->now.mark);
}

void tpi_export_needed(tpi_export *x, int n, tp_tensor *const *nodes)
{
    memset(x->now.mark, 0, (size_t)x->now.n_graph * sizeof *x->now.mark);
    for (int i = 0; i < n; i++)
        x->now.mark[nodes[i]->index] = 1;
    close_set(x, x->now.mark);
    mark_draws(x);
    memcpy(x->now.needed, x->now.mark, (size_t)x->now.n_graph * sizeof *x->now.needed);
    export_marked(x);
}

static void export_block(tpi_export *x, const tpi_onnx_block *b)
{
    if (!find_sure(x, b, x->now.mark, 0))
        return;
    for (int i = 0; i < b->n_nodes; i++)
        place_random(x, b->nodes[i]);
    bool draws = false;
    const bool whole = b == x->m->block && !b->nodes && !b->condition;
    for (int i = 0; i < x->now.n_graph && whole && !draws; i++)
        draws = x->now.mark[i] && !x->now.value_of[i] && tpi_node_draws(x->now.g->nodes[i]);
    if (draws)
        mark_draws(x);
    export_marked(x);
}

/* ---- outputs ----------------------------------------------------------------------------- */

/* Shape and type of output k, as far as the leaves so far agree. */
static void join_shape(tpi_export *x, int k, const tp_tensor *t)
{
    tpi_out_shape *s = &x->out_shapes[k];
    if (s->rank < 0) {
        *s = (tpi_out_shape){.dtype = (tp_dtype)t->dtype, .rank = t->rank};
        memcpy(s->dims, t->shape, sizeof(int64_t) * t->rank);
        return;
    }
    x->now.node = t;
    if (s->dtype != t->dtype || s->rank != t->rank)
        tpi_export_refuse(
            x,
            "output \"%s\" is %s with %d axes on one side of a branch, and %s with "
            "%d on another",
            x->m->out_names[k], tp_dtype_name(s->dtype), s->rank,
            tp_dtype_name((tp_dtype)t->dtype), t->rank);
    x->now.node = NULL;
    for (int i = 0; i < s->rank && x->status == TP_OK; i++)
        if (s->dims[i] != t->shape[i])
            s->dims[i] = TPI_NO_DIM;
}

static void export_path(tpi_export *x, const tpi_onnx_block *b, tpi_val *out);

static int32_t export_branch(tpi_export *x, const tpi_onnx_block *b, tpi_val *out)
{
    tpi_export_stream *drawn = tpi_random_copy(x);
    const int32_t block = tpi_block_begin(x);
    x->depth++; /* blocks in it are deeper */
    export_path(x, b, out);
    x->depth--;
    tpi_block_end(x, x->m->n_out, out);
    x->now.drawn = drawn;
    return block;
}

/* The outputs of a block and all below it. */
static void export_path(tpi_export *x, const tpi_onnx_block *b, tpi_val *out)
{
    const int n_out = x->m->n_out;
    export_block(x, b);
    if (x->status != TP_OK)
        return;
    if (!b->condition) {
        for (int k = 0; k < n_out; k++) {
            join_shape(x, k, b->outputs[k]);
            out[k] = tpi_own_output(x, tpi_value_of(x, b->outputs[k]), k, out);
        }
        return;
    }
    const tpi_val condition = tpi_as(x, tpi_value_of(x, b->condition), TP_BOOL);
    const int32_t then_block = export_branch(x, b->then_block, out);
    const int32_t else_block = export_branch(x, b->else_block, out);
    if (x->status != TP_OK)
        return;
    x->now.node = b->condition;
    for (int k = 0; k < n_out; k++)
        out[k] = k ? tpi_put_result(x, x->out_shapes[k].dtype)
                   : tpi_put_typed(x, "If", x->out_shapes[k].dtype, TPI_V(condition));
    tpi_put_body(x, 0, then_block);
    tpi_put_body(x, 1, else_block);
    x->now.node = NULL;
}

/* What any path asks for. */
static void mark_needed(tpi_export *x, const tpi_onnx_block *b)
{
    for (; b; b = b->condition ? b->else_block : NULL) {
        for (int k = 0; k < x->m->n_out && !b->condition; k++)
            x->now.needed[b->outputs[k]->index] = 1;
        if (b->condition) {
            x->now.needed[b->condition->index] = 1;
            mark_needed(x, b->then_block);
        }
    }
}

/* ---- models ------------------------------------------------------------------------------ */

bool tpi_export_begin_graph(tpi_export *x, tp_graph *g)
{
    const size_t n = (size_t)g->n_nodes;
    tpi_exported now = x->now;
    now.g = g;
    now.n_graph = g->n_nodes;
    now.value_of = tpi_export_take(x, n, sizeof *now.value_of);
    now.mark = tpi_export_take(x, n, sizeof *now.mark);
    now.needed = tpi_export_take(x, n, sizeof *now.needed);
    now.place = tpi_export_take(x, n, sizeof *now.place);
    if (x->status != TP_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        now.place[i] = -1;
    x->now = now;
    return true;
}

/* The inputs, all that computes the outputs, and the file. */
static void export_model(tpi_export *x, const char *path)
{
    const tpi_onnx_saving *m = x->m;
    tpi_val *out = tpi_export_take(x, (size_t)m->n_out, sizeof *out);
    x->inputs = tpi_export_take(x, (size_t)m->n_in, sizeof *x->inputs);
    x->out_shapes = tpi_export_take(x, (size_t)m->n_out, sizeof *x->out_shapes);
    tpi_random_begin(x);
    if (!tpi_export_begin_graph(x, m->g))
        return;
    for (int k = 0; k < m->n_out; k++)
        x->out_shapes[k].rank = -1;
    tpi_block_begin(x);
    tpi_model_input(x, TP_BOOL); /* the value 0, of what fails */
    for (int i = 0; i < m->n_in; i++)
        x->inputs[i] = x->now.value_of[m->in[i]->index] =
            tpi_model_input(x, (tp_dtype)m->in[i]->dtype);
    if (x->status != TP_OK)
        return;
    mark_needed(x, m->block);
    close_set(x, x->now.needed);
    export_path(x, m->block, out);
    tpi_block_end(x, m->n_out, out);
    tpi_export_write(x, path);
}

tp_status tpi_onnx_write(const tpi_onnx_saving *m, const char *path)
{
    tp_ctx *ctx = m->g->ctx;
    tpi_export x = {
        .ctx = ctx, .m = m, .attrs = TPI_STR(&ctx->mem), .memory = TPI_BUMP(&ctx->mem)};
    const tpi_paused around = tpi_pause(ctx, m->at); /* of capture */
    export_model(&x, path);
    tpi_bump_free(&x.memory);
    tpi_str_free(&x.attrs);
    tpi_resume(ctx, around);
    return x.status;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static const char what_saves[] = "tp_onnx_save";

static bool find_named(tp_graph *g, tpi_at at, int n, const char *const *names, tp_tensor **out)
{
    for (int i = 0; i < n; i++) {
        out[i] = names[i] ? tpi_graph_by_name(g, names[i], strlen(names[i])) : NULL;
        if (!out[i]) {
            tpi_fail_status(g->ctx, at, what_saves, TP_E_NAME, "the graph has no node \"%s\"",
                            names[i] ? names[i] : "(null)");
            return false;
        }
        for (int k = 0; k < i; k++)
            if (out[k] == out[i]) {
                tpi_fail_status(g->ctx, at, what_saves, TP_E_NAME, "\"%s\" is named twice",
                                names[i]);
                return false;
            }
    }
    return true;
}

/* The graph itself, or a copy of what the nodes need that can run as it is, and leave. NULL: the error is set. */
static tp_graph *settled(tp_graph *g, tpi_at at, int n_in, int n_out, tp_tensor **nodes)
{
    tpi_rule_error why;
    if (tpi_is_runnable(g, &why) && tpi_leaves_as_it_is(g))
        return g;
    const tpi_paused around = tpi_pause(g->ctx, at);
    tp_graph *copy = tpi_prune(g, false, n_in, nodes, n_out, nodes + n_in);
    copy = copy ? tpi_make_leave(copy, n_in, nodes, n_out, nodes + n_in) : NULL;
    copy = copy ? tpi_make_runnable(copy, n_in, nodes, n_out, nodes + n_in) : NULL;
    tpi_resume(g->ctx, around);
    return copy;
}

tp_status tp_onnx_save_at(const char *file, int line, tp_graph *g, const char *path, int n_in,
                          const char *const *inputs, int n_out, const char *const *outputs)
{
    TPI_DEFAULT_FLOAT_MODE;
    const tpi_at at = TPI_AT(file, line);
    if (!g)
        return TP_E_NULL;
    if (!path || (n_in > 0 && !inputs) || (n_out > 0 && !outputs))
        return tpi_fail_status(g->ctx, at, what_saves, TP_E_NULL, "the path or names are NULL");
    if (n_in < 0 || n_out < 1)
        return tpi_fail_status(g->ctx, at, what_saves, TP_E_VALUE,
                               "%d inputs and %d outputs: a model has one output at least",
                               n_in, n_out);
    const size_t bytes = ((size_t)n_in + (size_t)n_out) * sizeof(tp_tensor *);
    tp_tensor **nodes = tpi_take(&g->ctx->mem, bytes);
    if (!nodes)
        return (tp_status)tpi_no_memory(g->ctx, at, what_saves)->status;
    tp_status status = TP_E_NAME;
    if (find_named(g, at, n_in, inputs, nodes) &&
        find_named(g, at, n_out, outputs, nodes + n_in)) {
        const tpi_onnx_block block = {.outputs = nodes + n_in};
        tp_graph *copy = settled(g, at, n_in, n_out, nodes);
        const tpi_onnx_saving m = {.what = what_saves,
                                   .at = at,
                                   .g = copy,
                                   .n_in = n_in,
                                   .in = nodes,
                                   .in_names = inputs,
                                   .n_out = n_out,
                                   .out_names = outputs,
                                   .block = &block};
        status = copy ? tpi_onnx_write(&m, path) : tp_error(g->ctx);
        if (copy != g)
            tp_graph_free(copy);
    }
    tpi_give_back(&g->ctx->mem, nodes, bytes);
    return status;
}

TPI_BARE(tp_status, tp_onnx_save,
         (tp_graph * g, const char *path, int n_in, const char *const *inputs, int n_out,
          const char *const *outputs),
         g, path, n_in, inputs, n_out, outputs)
