/* custom: see custom.h. */
#include "op/custom.h"

#include "ir/body.h"
#include "ir/factors.h"
#include "op/sizes.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

static bool is_float(const tp_tensor *t)
{
    return t->dtype >= TP_F32;
}

/* ---- results as one value, and back ------------------------------------------------------------ */

int tpi_custom_count_floats(int n, tp_tensor *const *t)
{
    int floats = 0;
    for (int i = 0; i < n; i++)
        floats += is_float(t[i]);
    return floats;
}

static tp_tensor *in_a_row(tpi_at at, tp_tensor *t)
{
    return tp_reshape(t, 1, (const int64_t[]){-1});
}

tp_tensor *tpi_custom_joined(tpi_at at, int n, tp_tensor *const *t)
{
    tpi_nodes rows = {.ctx = t[0]->ctx};
    tp_tensor *only = NULL;
    for (int i = 0; i < n; i++) {
        if (!is_float(t[i]))
            continue;
        only = t[i];
        tpi_nodes_push(&rows, in_a_row(at, t[i]));
    }
    tp_tensor *made = rows.failed   ? tpi_no_memory(rows.ctx, at, "custom")
                      : rows.n == 1 ? only
                                    : tp_concat(rows.n, rows.v, 0);
    tpi_nodes_free(&rows);
    return made;
}

/* Where the part of `all` ends that begins at `from` and has the shape of `like`. */
static int64_t end_of(const tp_tensor *all, const tp_tensor *like, int64_t from)
{
    tpi_dims *dims = all->graph ? all->graph->dims : NULL;
    const int64_t count = tpi_sizes_product(dims, like->rank, like->shape);
    return count == TPI_NO_DIM ? TPI_NO_DIM : tpi_dim_add(dims, from, count);
}

/* The way back, into parts[n] where like[] has a float; others become NULL. NULL, or the failed tensor. */
static tp_tensor *take_apart(tpi_at at, const char *name, tp_tensor *all, int n,
                             tp_tensor *const *like, tp_tensor **parts)
{
    const uint64_t refused = all->ctx->mem.refused;
    const bool only = tpi_custom_count_floats(n, like) == 1;
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        parts[i] = NULL;
        if (!is_float(like[i]))
            continue;
        parts[i] = all;
        if (only)
            continue;
        const int64_t to = end_of(all, like[i], from);
        if (to == TPI_NO_DIM)
            return all->ctx->mem.refused != refused
                       ? tpi_no_memory(all->ctx, at, name)
                       : tpi_fail(all->ctx, at, name, TP_E_SHAPE,
                                  "the results together become too large");
        parts[i] = tp_reshape(tp_slice(all, 0, from, to, 1), like[i]->rank, like[i]->shape);
        from = to;
    }
    return NULL;
}

/* ---- the rule -------------------------------------------------------------------------------------- */

/* Operand 0 is the value, the next ones stand for the results, if there are several, and the others are those of the
 * forward function. */
static int n_stand_ins(const tpi_custom_attrs *a)
{
    return a->n_out > 1 ? (int)a->n_out : 0;
}

/* What backward gave for x, as its graph sees it, or the failed tensor to give. */
static tp_tensor *checked(const tpi_grad *g, const char *name, int i, tp_tensor *x,
                          tp_tensor *dx)
{
    const tpi_custom_attrs *a = g->attrs;
    const char *giver = a->hook ? "the hook" : "backward";
    const tpi_at at = g->at;
    tp_ctx *ctx = g->y->ctx;
    tp_tensor *failed = tpi_refuse_operand(ctx, at, name, i, dx);
    if (failed)
        return failed;
    if (dx->dtype != x->dtype || !tpi_same_shape(dx, x))
        return tpi_fail(ctx, at, name, TP_E_SHAPE,
                        "argument %d is %s %s, and the gradient that %s gives is %s %s", i,
                        tp_dtype_name((tp_dtype)x->dtype), SHAPE(x), giver,
                        tp_dtype_name((tp_dtype)dx->dtype), SHAPE(dx));
    if (dx->graph && !(x->graph && tpi_graph_within(x->graph, dx->graph)))
        return tpi_fail(ctx, at, name, TP_E_CTX,
                        "the gradient that %s gives of argument %d belongs to another graph",
                        giver, i);
    return x->graph && !dx->graph ? tpi_graph_lift(x->graph, at, dx) : dx;
}

static void run_backward(tpi_grad *g, const tpi_custom_attrs *a, tp_tensor **room)
{
    const tpi_at at = g->at;
    const char *name = a->rule->name;
    const int n_out = (int)a->n_out, first = 1 + n_stand_ins(a), n_in = g->n_in - first;
    tp_tensor **out = room, **dout = out + n_out, **din = dout + n_out;
    tp_tensor *const *like = n_stand_ins(a) ? g->x + 1 : &g->y;
    for (int i = 0; i < n_in; i++)
        din[i] = NULL;
    tp_tensor *failed = take_apart(at, name, g->y, n_out, like, out);
    if (!failed)
        failed = take_apart(at, name, g->dy, n_out, like, dout);
    for (int i = 0; i < n_out && !failed; i++)
        out[i] = out[i] ? out[i] : like[i];
    const tp_vjp v = {at.file, at.line,           n_in, n_out, g->x + first, out,
                      dout,    g->wanted + first, din};
    tpi_user_code code;
    tpi_user_code_enter(&code, g->y->ctx, name);
    if (!failed)
        a->rule->backward(a->hook ? (void *)&a->hook : a->user, &v);
    tpi_user_code_end_blocks(&code);
    for (int i = 0; i < n_in; i++) {
        if (failed)
            din[i] = failed;
        else if (din[i] && g->wanted[first + i])
            din[i] = checked(g, name, i, g->x[first + i], din[i]);
        if (din[i])
            tpi_give(g, first + i, din[i]);
    }
    tpi_user_code_leave(&code);
}

static void custom_grad(tpi_grad *g)
{
    const tpi_custom_attrs *a = g->attrs;
    tp_ctx *ctx = g->y->ctx;
    tp_tensor *failed = NULL;
    const size_t bytes = (2 * (size_t)a->n_out + (size_t)g->n_in) * sizeof(tp_tensor *);
    tp_tensor **room = a->rule ? tpi_take(&ctx->mem, bytes) : NULL;
    if (!a->rule)
        failed = tpi_fail(ctx, g->at, "custom", TP_E_STATE,
                          "its gradient was a C function, which the text of a graph does not "
                          "have");
    else if (!room)
        failed = tpi_no_memory(ctx, g->at, a->rule->name);
    else
        run_backward(g, a, room);
    for (int i = 0; i < g->n_in && failed; i++)
        tpi_give(g, i, failed);
    if (room)
        tpi_give_back(&ctx->mem, room, bytes);
}

/* ---- the op -------------------------------------------------------------------------------------- */

static const tpi_attr custom_table[] = {
    {"results",                  TPI_ATTR_INT, offsetof(tpi_custom_attrs, n_out)},
    {0},
};

static bool custom_infer(tpi_infer *q)
{
    const tpi_custom_attrs *a = q->attrs;
    if (a->n_out < 1 || a->n_out > q->n_in || 1 + n_stand_ins(a) >= q->n_in)
        return tpi_refuse(q, TP_E_VALUE, "%lld results of %d operands", (long long)a->n_out,
                          q->n_in);
    return tpi_infer_like(q, 0);
}

static void custom_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    if (k == 0)
        tpi_same_factors(t, k, f);
}

const tpi_op tpi_op_custom = {.name = "custom",
                              .simplify = tpi_same_simplify,
                              .code = TPI_OP_custom,
                              .kind = TPI_VIEW,
                              .n_in = -1,
                              .attrs = custom_table,
                              .attrs_size = sizeof(tpi_custom_attrs),
                              .infer = custom_infer,
                              .view = tpi_same_view,
                              .factors = custom_factors,
                              .kernel = tpi_same_kernel,
                              .any_size = true,
                              .in_order = true,
                              .batch = TPI_BATCH_VALUE,
                              .grad = custom_grad,
                              .grad_reads_x = true,
                              .grad_reads_y = true};

/* ---- ties ---------------------------------------------------------------------------------------- */

/* What is in the node for result t: of a float its shape alone. */
static tp_tensor *stand_in(tpi_at at, tp_tensor *t)
{
    return is_float(t) ? tp_detach(tp_broadcast(tp_scalar_like(t, 0), t->rank, t->shape)) : t;
}

static tp_tensor *node_of(tpi_at at, const tpi_custom_attrs *a, int n_in, tp_tensor *const *in,
                          int n_out, tp_tensor *const *y)
{
    tpi_nodes operands = {.ctx = in[0]->ctx};
    tpi_nodes_push(&operands, tpi_custom_joined(at, n_out, y));
    for (int i = 0; i < n_stand_ins(a); i++)
        tpi_nodes_push(&operands, stand_in(at, y[i]));
    for (int i = 0; i < n_in; i++)
        tpi_nodes_push(&operands, in[i]);
    tp_tensor *made = operands.failed
                          ? tpi_no_memory(operands.ctx, at, a->rule->name)
                          : tpi_apply(at, &tpi_op_custom, operands.n, operands.v, a);
    tpi_nodes_free(&operands);
    return made;
}

/* Floats of two types are no one value; NULL: they are of one. */
static tp_tensor *refuse_types(tpi_at at, const char *name, int n, tp_tensor *const *out)
{
    const tp_tensor *first = NULL;
    for (int i = 0; i < n; i++) {
        if (!is_float(out[i]))
            continue;
        first = first ? first : out[i];
        if (out[i]->dtype != first->dtype)
            return tpi_fail(out[i]->ctx, at, name, TP_E_DTYPE,
                            "results are f32 and f64: those that are floats have one type");
    }
    return NULL;
}

bool tpi_custom_tie(tpi_at at, const tpi_custom_attrs *a, int n_in, tp_tensor *const *in,
                    int n_out, tp_tensor **out)
{
    tp_tensor *failed = refuse_types(at, a->rule->name, n_out, out);
    bool asked = false;
    for (int i = 0; i < n_in; i++)
        asked |= tp_requires_grad(in[i]);
    for (int i = 0; i < n_out; i++)
        out[i] = tp_detach(out[i]);
    if (failed || !asked || !in[0]->ctx->caller.recording ||
        tpi_custom_count_floats(n_out, out) == 0)
        return !failed || tpi_fail_all(failed, n_out, out) == TP_OK;
    in[0]->ctx->has_custom = true;
    tp_tensor *const node = node_of(at, a, n_in, in, n_out, out);
    if (node->status != TP_OK)
        return tpi_fail_all(node, n_out, out) == TP_OK;
    tpi_nodes parts = {.ctx = node->ctx};
    for (int i = 0; i < n_out; i++)
        tpi_nodes_push(&parts, out[i]);
    failed = parts.failed ? tpi_no_memory(node->ctx, at, a->rule->name)
                          : take_apart(at, a->rule->name, node, n_out, parts.v, out);
    for (int i = 0; i < n_out && !failed; i++)
        out[i] = out[i] ? out[i] : parts.v[i];
    tpi_nodes_free(&parts);
    return !failed || tpi_fail_all(failed, n_out, out) == TP_OK;
}
