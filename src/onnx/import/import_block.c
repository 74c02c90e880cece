/* Blocks of a graph from what operators say: a loop or a cond with its bodies. */
#include "ir/body.h"
#include "onnx/import/import_inner.h"
#include "op/op.h"

#include <string.h>

tpi_body *tpi_onnx_new_body(tpi_onnx_op *o)
{
    tpi_body *b = tpi_body_new(o->im->g, o->at);
    if (!b)
        tpi_onnx_bad(o->im->m, o->ctx->status, "%s (node \"%.*s\", opset %d): %s", o->name,
                     TPI_SPAN(o->node->name), o->opset, tpi_onnx_error_text(o->im));
    return b;
}

tpi_onnx_outside tpi_onnx_enter(tpi_import *im, tpi_body *b)
{
    const tpi_onnx_outside was = {im->g, im->ctx->tracing};
    im->g = im->ctx->tracing = b->graph;
    return was;
}

void tpi_onnx_leave(tpi_import *im, tpi_onnx_outside was)
{
    im->g = was.g;
    im->ctx->tracing = was.tracing;
}

tp_tensor *tpi_onnx_lifted(tpi_onnx_op *o, tp_graph *g, tp_tensor *t)
{
    if (!tpi_onnx_good(o, t))
        return NULL;
    t = tpi_graph_lift(g, o->at, t);
    return tpi_onnx_good(o, t) ? t : NULL;
}

static bool same_type(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b);
}

/* ---- loops ------------------------------------------------------------------------------------- */

/* A param for each operand; the first axis of a slice is what the turns go over. */
static bool add_params(tpi_onnx_loop *l)
{
    tpi_onnx_op *o = l->o;
    l->turn = tpi_body_param(l->body, o->at, TP_I64, 0, NULL, NULL);
    bool ok = tpi_onnx_good(o, l->turn);
    for (int i = 0; i < l->n_carried + l->n_slices && ok; i++) {
        const tp_tensor *x = l->operands[i];
        const int lead = i >= l->n_carried;
        if (lead && (x->rank == 0 || x->shape[0] != l->count))
            return tpi_onnx_refuse(o, "%s is gone over, and has not the size of the others",
                                   SHAPE(x));
        l->carried[i] = tpi_body_param(l->body, o->at, (tp_dtype)x->dtype, x->rank - lead,
                                       x->shape + lead, NULL);
        ok = tpi_onnx_good(o, l->carried[i]);
    }
    return ok;
}

/* What a loop takes: a node of its own, as of every loop (op/turn_values.c). */
static tp_tensor *entering(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *t = tpi_onnx_lifted(o, o->im->g, x);
    if (!t || t->dtype < TP_F32)
        return t;
    t = tpi_graph_node(o->im->g, o->at, &tpi_op_enter, 1, &t, NULL, (tp_dtype)t->dtype, t->rank,
                       t->shape);
    return tpi_onnx_good(o, t) ? t : NULL;
}

bool tpi_onnx_loop_begin(tpi_onnx_op *o, tpi_onnx_loop *l, tp_tensor *const *operands)
{
    tpi_import *im = o->im;
    const size_t n = (size_t)l->n_carried + (size_t)l->n_slices;
    l->o = o;
    l->outside = im->g;
    l->tracing = im->ctx->tracing;
    l->operands = tpi_onnx_take(im->m, n, sizeof *l->operands);
    l->carried = tpi_onnx_take(im->m, n, sizeof *l->carried);
    if (!l->carried)
        return false;
    l->slice = l->carried + l->n_carried;
    for (size_t i = 0; i < n; i++)
        if (!(l->operands[i] = entering(o, operands[i])))
            return false;
    l->body = tpi_onnx_new_body(o);
    if (!l->body || !add_params(l))
        return false;
    tpi_onnx_enter(im, l->body);
    return true;
}

void tpi_onnx_loop_leave(tpi_onnx_loop *l)
{
    tpi_onnx_leave(l->o->im, (tpi_onnx_outside){l->outside, l->tracing});
}

void tpi_onnx_loop_drop(tpi_onnx_loop *l)
{
    if (l->body && !l->made)
        tpi_body_drop(l->outside, l->body);
    l->body = NULL;
}

/* t, a node of the body, of the sizes of `like` where it may have them: they are looked at when the body
 * is entered. */
static tp_tensor *as_large_as(tpi_onnx_op *o, tpi_body *b, tp_tensor *t, const tp_tensor *like)
{
    tpi_onnx_op inside = *o;
    inside.g = b->graph;
    const tpi_onnx_outside was = tpi_onnx_enter(o->im, b);
    for (int i = 0; i < t->rank && t->rank == like->rank && t->status == TP_OK; i++)
        t = tpi_onnx_fitted(&inside, t, i, like->shape[i]);
    tpi_onnx_leave(o->im, was);
    return t;
}

/* The values at the end of a turn as outputs of the body. */
static bool add_outputs(tpi_onnx_loop *l, tp_tensor *pred, int n_out, tp_tensor *const *out)
{
    tpi_onnx_op *o = l->o;
    for (int i = pred ? -1 : 0; i < n_out; i++) {
        tp_tensor *t = tpi_onnx_lifted(o, l->body->graph, i < 0 ? pred : out[i]);
        if (t && i >= 0 && i < l->n_carried)
            t = as_large_as(o, l->body, t, l->carried[i]);
        if (!t || !tpi_onnx_good(o, t))
            return false;
        if (i >= 0 && i < l->n_carried && !same_type(t, l->carried[i]))
            return tpi_onnx_refuse(
                o,
                "carried value %d goes into a turn as %s %s and comes out as %s %s: "
                "that is supported when the number of turns is known at load",
                i, tp_dtype_name((tp_dtype)l->carried[i]->dtype), SHAPE(l->carried[i]),
                tp_dtype_name((tp_dtype)t->dtype), SHAPE(t));
        if (!tpi_body_output(l->body, t))
            return false;
    }
    return true;
}

/* Its operands: the condition, what is carried, what is gone over, what the body reads of outside. */
static tp_tensor **operands_of(tpi_onnx_loop *l, tp_tensor *first, int *n_in)
{
    const tpi_body *b = l->body;
    const int own = l->n_carried + l->n_slices;
    tp_tensor **in = tpi_onnx_take(l->o->im->m, (size_t)b->n_params + 1, sizeof *in);
    int n = 0;
    if (!in)
        return NULL;
    if (first)
        in[n++] = first;
    for (int i = 0; i < own; i++)
        in[n++] = l->operands[i];
    for (int i = 1 + own; i < b->n_params; i++)
        in[n++] = b->outers[i];
    *n_in = n;
    return in;
}

bool tpi_onnx_loop_end(tpi_onnx_loop *l, tp_tensor *first, tp_tensor *pred, int n_stacked,
                       tp_tensor **out)
{
    tpi_onnx_op *o = l->o;
    const int n_out = l->n_carried + n_stacked;
    if (first && !(first = tpi_onnx_lifted(o, l->outside, first)))
        return false;
    if (!add_outputs(l, pred, n_out, out))
        return false;
    l->body->closed = true;
    tpi_loop_attrs a;
    memset(&a, 0, sizeof a);
    a.body = l->body;
    a.n_carried = l->n_carried;
    a.n_slices = l->n_slices;
    a.n_stacked = n_stacked;
    a.has_pred = first != NULL;
    a.counted = l->count != TPI_NO_DIM;
    a.back = l->back;
    a.count = a.counted ? l->count : 0;
    if (n_stacked > 0)
        a.length = first ? tpi_fresh_symbol(l->outside, "turns") : a.count;
    if (a.length == TPI_NO_DIM)
        return tpi_onnx_bad(o->im->m, TP_E_MEMORY, "out of memory");
    int n_in;
    tp_tensor **in = operands_of(l, first, &n_in);
    tp_tensor *node = in ? tpi_loop_node(l->outside, o->at, &a, n_in, in) : NULL;
    if (!tpi_onnx_good(o, node))
        return false;
    l->made = true;
    for (int i = 0; i < n_out; i++) {
        out[i] = tpi_output_node(l->outside, o->at, node, i);
        if (!tpi_onnx_good(o, out[i]))
            return false;
    }
    return true;
}

/* ---- branches ----------------------------------------------------------------------------------- */

/* What one side gives is as large as what the other does: the sizes that take fewer words are those of the
 * result. */
static bool agree_outputs(tpi_onnx_op *o, tpi_body *then, tpi_body *other)
{
    const tpi_dims *dims = o->im->g->dims;
    for (int k = 0; k < then->n_outputs; k++) {
        const tp_tensor *a = then->outputs[k], *b = other->outputs[k];
        int64_t wa = 0, wb = 0;
        for (int i = 0; i < a->rank && a->rank == b->rank; i++) {
            wa += tpi_dim_weight(dims, a->shape[i]);
            wb += tpi_dim_weight(dims, b->shape[i]);
        }
        tpi_body *longer = wa <= wb ? other : then;
        tp_tensor **t = &longer->outputs[k];
        *t = as_large_as(o, longer, *t, longer == then ? b : a);
        if (!tpi_onnx_good(o, *t))
            return false;
    }
    return true;
}

static bool same_outputs(tpi_onnx_op *o, tp_tensor *pred, const tpi_body *then,
                         const tpi_body *other)
{
    for (int k = 0; k < then->n_outputs; k++) {
        const tp_tensor *a = then->outputs[k], *b = other->outputs[k];
        if (!same_type(a, b))
            return tpi_onnx_refuse(
                o, "output %d is %s %s or %s %s, and its condition depends on %s", k,
                tp_dtype_name((tp_dtype)a->dtype), SHAPE(a), tp_dtype_name((tp_dtype)b->dtype),
                SHAPE(b), tpi_onnx_depends(o->im, pred));
    }
    return true;
}

tp_tensor *tpi_onnx_cond(tpi_onnx_op *o, tp_tensor *pred, tpi_body *then, tpi_body *other)
{
    tpi_import *im = o->im;
    if (!agree_outputs(o, then, other) || !same_outputs(o, pred, then, other) ||
        !(pred = tpi_onnx_lifted(o, im->g, pred)))
        return NULL;
    tp_tensor *node = tpi_cond_close(im->g, o->at, pred, then, other);
    return tpi_onnx_good(o, node) ? node : NULL;
}
