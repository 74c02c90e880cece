/* The one doorway. */
#include "base/float_mode.h"
#include "ir/body.h"
#include "kernel/host/team_host.h"
#include "op/op.h"
#include "op/trap.h"

#include <string.h>

static tp_tensor *declare(tpi_infer *q, tp_graph *g)
{
    tp_tensor *lifted[16], **in = lifted;
    const size_t bytes = (size_t)q->n_in * sizeof *in;
    if (q->n_in > 16)
        in = tpi_take(&q->ctx->mem, bytes);
    if (!in)
        return tpi_no_memory(q->ctx, q->at, q->op->name);
    tp_tensor *out = NULL;
    for (int i = 0; i < q->n_in && !out; i++) {
        in[i] = tpi_graph_lift(g, q->at, q->in[i]);
        if (in[i]->status != TP_OK)
            out = in[i];
    }
    if (!out)
        out =
            tpi_graph_node(g, q->at, q->op, q->n_in, in, q->attrs, q->dtype, q->rank, q->shape);
    if (in != lifted)
        tpi_give_back(&q->ctx->mem, in, bytes);
    return out;
}

bool tpi_share(const tpi_infer *q, tp_tensor *out)
{
    tp_tensor *x = q->in[0];
    tpi_view v = {.in = x, .out = out, .in_stride = x->stride, .attrs = q->attrs};
    if (!q->op->view(&v))
        return false;
    memcpy(out->stride, v.stride, sizeof(int64_t) * out->rank);
    tpi_tensor_share(out, x, v.offset);
    tpi_note_contiguous(out);
    return true;
}

tp_tensor *tpi_compute(const tpi_infer *q, tp_tensor *out)
{
    if (q->op->kind == TPI_VIEW && tpi_share(q, out))
        return out;
    if (!tpi_tensor_alloc(out))
        return tpi_no_memory(q->ctx, q->at, q->op->name);
    tpi_run r = {.op = q->op,
                 .ctx = q->ctx,
                 .at = q->at,
                 .n_in = q->n_in,
                 .in = q->in,
                 .attrs = q->attrs,
                 .out = out};
    return tpi_run_op(&r) ? out : r.failed;
}

bool tpi_records(const tp_ctx *ctx, const tpi_op *op, int dtype, bool requires)
{
    return requires && ctx->caller.recording && op->grad &&
           (dtype >= TP_F32 || op->kind == TPI_EFFECT);
}

static inline tp_tensor *compute(const tpi_infer *q, bool requires)
{
    tp_tensor *out = tpi_tensor(q->ctx, q->at, q->dtype, q->rank, q->shape);
    if (!out)
        return tpi_no_memory(q->ctx, q->at, q->op->name);
    tp_tensor *y = tpi_compute(q, out);
    if (y == out && tpi_records(q->ctx, q->op, (int)q->dtype, requires)) {
        if (!tpi_record(out, q->op, q->n_in, q->in, q->attrs, q->op->attrs_size))
            return tpi_no_memory(q->ctx, q->at, q->op->name);
        out->flags |= TPI_REQUIRES;
    }
    return y;
}

/* The first number among integers and sizes that arithmetic in C has made of a symbolic size. */
static const int64_t *find_spoilt(const tpi_attr *a, const void *attrs)
{
    const int64_t *v = attrs;
    const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
    const bool sizes = a->type == TPI_ATTR_DIM || a->type == TPI_ATTR_DIMS;
    const int64_t n = !list ? 1 : *v > 0 && *v <= TP_MAX_RANK ? *v++ : 0;
    for (int64_t i = 0; i < n; i++)
        if (tpi_is_spoilt(v[i]) && !(sizes && tpi_dim_is_symbolic(v[i])))
            return &v[i];
    return NULL;
}

/* Before the op's own rule, which might take it, or blame something else. */
static bool refuse_spoilt(tpi_infer *q)
{
    for (const tpi_attr *a = q->op->attrs; a && a->name; a++) {
        const char *p = (const char *)q->attrs + a->offset;
        const int64_t *v = NULL;
        if (a->type == TPI_ATTR_F64 &&
            tpi_is_near_handle(q->ctx, *(const double *)(const void *)p))
            q->failed = tpi_fail_near_handle(q->ctx, q->at, q->op->name,
                                             *(const double *)(const void *)p);
        else if (a->type != TPI_ATTR_F64 && a->type != TPI_ATTR_BODY)
            v = find_spoilt(a, p);
        if (v)
            q->failed = tpi_fail_spoilt(q->ctx, q->at, q->op->name, TP_E_VALUE, *v);
        if (q->failed)
            return true;
    }
    return false;
}

tp_tensor *tpi_infer_op(tpi_infer *q)
{
    tp_ctx *ctx = q->ctx;
    q->failed = NULL;
    if (q->op != &tpi_op_random && refuse_spoilt(q)) /* a seed is any number */
        return q->failed;
    const uint64_t refused = ctx->mem.refused;
    const tp_status before = ctx->status;
    tp_tensor *failed = NULL;
    if (!q->op->infer(q)) {
        if (ctx->mem.refused == refused)
            return q->failed;
        if (before ==
            TP_OK) /* sizes that could not be computed look like ones that do not fit */
            tpi_forget_error(ctx);
        return tpi_no_memory(ctx, q->at, q->op->name);
    }
    if (q->rank && !q->dims)
        tpi_check_shape(ctx, q->at, q->op->name, q->rank, q->shape, &failed);
    return failed;
}

/* The graph that the op is put in: the body that is traced, else the innermost of its operands'. */
static tp_graph *find_graph(const tp_ctx *ctx, int n_in, tp_tensor *const *in)
{
    tp_graph *g = ctx->tracing;
    for (int i = 0; i < n_in && !ctx->tracing; i++)
        if (in[i]->graph && (!g || tpi_graph_within(in[i]->graph, g)))
            g = in[i]->graph;
    return g;
}

/* In a block of a graph, ops on variables alone are part of it: a turn may have assigned them. */
static bool is_traced(int n_in, tp_tensor *const *in)
{
    bool is = false;
    for (int i = 0; i < n_in && !is; i++)
        is = in[i]->flags & (TPI_VARIABLE | TPI_REQUIRES);
    return is;
}

void tpi_note_unrecorded(int n_in, tp_tensor *const *in, tp_tensor *y)
{
    if (y->status != TP_OK || y->dtype < TP_F32 || y->flags & TPI_REQUIRES)
        return;
    y->since = y->since ? y->since : y->seq;
    for (int i = 0; i < n_in; i++) {
        tp_tensor *x = in[i];
        if (x->dtype < TP_F32 || x == y)
            continue;
        if (!x->read) /* samples of a tp_batch_each do not come in order */
            x->read = y->seq << 6 | (y->ctx->n_read++ & 63);
        else if (y->seq < x->read >> 6)
            x->read = y->seq << 6 | (x->read & 63);
        y->from |= x->from | tpi_from_bit(x);
        if (x->since && x->since < y->since)
            y->since = x->since;
    }
}

/* What is not computed now but put in the graph g or, with NULL, left to a captured function's frame. */
static __attribute__((noinline)) tp_tensor *note(tp_ctx *ctx, tpi_at at, const tpi_op *op,
                                                 int n_in, tp_tensor *const *in,
                                                 const void *attrs, bool requires, tp_graph *g)
{
    TPI_ALONE(ctx, at, op->name);
    tpi_come_back(ctx);
    tp_tensor *others = tpi_refuse_others(ctx, at, op->name, n_in, in);
    if (others)
        return others;
    if (!g && !ctx->frame) /* a longjmp has left it, and it is over */
        return tpi_apply(at, op, n_in, in, attrs);
    if (!g)
        return ctx->frame->rules->apply(ctx, at, op, n_in, in, attrs, requires);
    tpi_infer q = {.op = op,
                   .at = at,
                   .ctx = ctx,
                   .dims = g->dims,
                   .n_in = n_in,
                   .in = in,
                   .attrs = attrs};
    tp_tensor *failed = tpi_infer_op(&q);
    if (failed)
        return failed;
    return op->own && tpi_graph_leaves(g) ? op->own->leave(g, at, n_in, in, attrs)
                                          : declare(&q, g);
}

/* With good operands; g: the graph that it is put in, or NULL. */
static inline tp_tensor *apply(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                               tp_tensor *const *in, const void *attrs, bool requires,
                               tp_graph *g)
{
    if (ctx->frame || g)
        return note(ctx, at, op, n_in, in, attrs, requires, g);
    tpi_infer q;
    q.op = op;
    q.at = at;
    q.ctx = ctx;
    q.dims = NULL;
    q.n_in = n_in;
    q.in = in;
    q.attrs = attrs;
    uintptr_t was;
    if (!tpi_enter(ctx, &was))
        return tpi_refuse_crowd(ctx, at, op->name);
    tp_tensor *y = tpi_infer_op(&q);
    y = y ? y : compute(&q, requires);
    return tpi_leave(ctx, was) ? y : tpi_refuse_crowd(ctx, at, op->name);
}

tp_tensor *tpi_apply(tpi_at at, const tpi_op *op, int n_in, tp_tensor *const *in,
                     const void *attrs)
{
    tp_ctx *ctx = NULL;
    tp_graph *g = NULL;
    bool requires = false, bad = false, two = false;
    for (int i = 0; i < n_in; i++) {
        const tp_tensor *t = in[i];
        if (!tpi_is_live(t) || t->status != TP_OK) {
            bad = true;
            ctx = ctx || !t ? ctx : t->ctx;
            continue;
        }
        bad |= ctx && t->ctx != ctx;
        ctx = ctx ? ctx : t->ctx;
        if (t->graph && t->graph != g) {
            two |= g != NULL;
            g = t->graph;
        }
        requires |= t->flags & TPI_REQUIRES;
    }
    if (bad || !ctx) {
        for (int i = 0; i < n_in; i++) {
            tp_tensor *failed = tpi_refuse_operand(ctx, at, op->name, i, in[i]);
            if (failed)
                return failed;
        }
        return (tp_tensor *)&tpi_nil;
    }
    if (two || (g && (g->parent || ctx->tracing))) {
        g = find_graph(ctx, n_in, in);
        for (int i = 0; i < n_in; i++)
            if (!tpi_may_read(g, in[i]->graph))
                return tpi_refuse_outside(g, at, op->name, in[i]);
    }
    if (ctx->tracing && !g && is_traced(n_in, in))
        g = ctx->tracing;
    tp_tensor *y = apply(ctx, at, op, n_in, in, attrs, requires, g);
    if (!g && !requires && ctx->caller.recording && op->grad)
        tpi_note_unrecorded(n_in, in, y);
    return y;
}

/* ---- rules in common -------------------------------------------------------------------------- */

bool tpi_infer_broadcast(tpi_infer *q, tp_dtype dtype)
{
    q->dtype = dtype;
    const tp_tensor *x0 = q->in[0], *x1 = q->in[q->n_in > 1];
    if (q->n_in <= 2 && tpi_same_shape(x0, x1)) {
        q->rank = x0->rank;
        for (int axis = 0; axis < q->rank; axis++)
            q->shape[axis] = x0->shape[axis];
        return true;
    }
    q->rank = 0;
    for (int i = 0; i < q->n_in; i++)
        q->rank = q->in[i]->rank > q->rank ? q->in[i]->rank : q->rank;
    for (int axis = 0; axis < q->rank; axis++) {
        int64_t size = 1;
        for (int i = 0; i < q->n_in; i++) {
            const tp_tensor *x = q->in[i];
            const int own = axis - (q->rank - x->rank);
            if (own < 0 || x->shape[own] == 1)
                continue;
            if (size == 1)
                size = x->shape[own];
            else if (size != x->shape[own])
                return q->n_in == 2
                           ? tpi_refuse(q, TP_E_SHAPE, "sizes do not broadcast: %s and %s",
                                        SHAPE(q->in[0]), SHAPE(q->in[1]))
                           : tpi_refuse(q, TP_E_SHAPE, "sizes do not broadcast: %s, %s and %s",
                                        SHAPE(q->in[0]), SHAPE(q->in[1]), SHAPE(q->in[2]));
        }
        q->shape[axis] = size;
    }
    return true;
}

bool tpi_infer_met(tpi_infer *q, int i, int j)
{
    const tp_dtype a = (tp_dtype)q->in[i]->dtype, b = (tp_dtype)q->in[j]->dtype;
    return a == b || tpi_refuse(q, TP_E_DTYPE, "operands are %s and %s: tp_cast one of them",
                                tp_dtype_name(a), tp_dtype_name(b));
}

void tpi_meet(tpi_at at, tp_tensor **a, tp_tensor **b)
{
    const tp_tensor *x = *a, *y = *b;
    if (!tpi_is_live(x) || !tpi_is_live(y) || x->dtype == y->dtype || x->status != TP_OK ||
        y->status != TP_OK)
        return;
    const tp_dtype t = tp_promote((tp_dtype)x->dtype, (tp_dtype)y->dtype);
    if (x->dtype != t)
        *a = tp_cast_at(at.file, at.line, *a, t);
    if (y->dtype != t)
        *b = tp_cast_at(at.file, at.line, *b, t);
}

/* ---- kernels ------------------------------------------------------------------------------------ */

static const void *attr_of(const tp_tensor *t, const char *name)
{
    const tpi_attr *a = t->op->attrs;
    while (strcmp(a->name, name) != 0)
        a++;
    return (const char *)t->attrs + a->offset;
}

int64_t tpi_attr_int(const tp_tensor *t, const char *name)
{
    return *(const int64_t *)attr_of(t, name);
}

double tpi_attr_f64(const tp_tensor *t, const char *name)
{
    return *(const double *)attr_of(t, name);
}

const tpi_list *tpi_attr_list(const tp_tensor *t, const char *name)
{
    return attr_of(t, name);
}

int tpi_flatten_attrs(const tpi_op *op, const void *attrs, int64_t *out)
{
    int n = 0;
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        const char *p = (const char *)attrs + a->offset;
        const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
        const int count = list ? 1 + TP_MAX_RANK : 1;
        memcpy(out + n, p, (size_t)count * sizeof *out);
        n += count;
    }
    return n;
}

void tpi_unflatten_attrs(const tpi_op *op, const int64_t *flat, void *attrs)
{
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
        const int count = list ? 1 + TP_MAX_RANK : 1;
        memcpy((char *)attrs + a->offset, flat, (size_t)count * sizeof *flat);
        flat += count;
    }
}

void tpi_view_of(const tp_tensor *t, tpk_view *v)
{
    v->p = t->data;
    v->rank = t->rank;
    memcpy(v->n, t->shape, sizeof(int64_t) * t->rank);
    memcpy(v->s, t->stride, sizeof(int64_t) * t->rank);
}

static bool run_call(tpi_run *r, bool fast)
{
    enum { MAX_IN = 64 };
    tpk_view few[MAX_IN], out, *in = few;
    int64_t attr[TPI_MAX_FLAT_ATTRS];
    const size_t bytes = (size_t)r->n_in * sizeof *in;
    if (r->n_in > MAX_IN)
        in = tpi_take(&r->ctx->mem, bytes);
    if (!in) {
        r->failed = tpi_no_memory(r->ctx, r->at, r->op->name);
        return false;
    }
    for (int i = 0; i < r->n_in; i++)
        tpi_view_of(r->in[i], &in[i]);
    tpi_view_of(r->out, &out);
    tpi_flatten_attrs(r->op, r->attrs, attr);
    const tp_tensor *key = tpi_call_key(r->op, r->in, r->out);
    const tpi_call call =
        fast ? tpi_called_kernel(r->ctx, r->op, key->dtype) : r->op->call[key->dtype];
    int64_t bad = 0;
    bool ok = true;
    if (!call)
        ok = tpi_run_fail(r, TP_E_DTYPE, "not for elements of type %s",
                          tp_dtype_name((tp_dtype)key->dtype));
    else if (fast && r->op->planes)
        tpi_team_planes(&(tpi_team){.kernels = r->ctx->kernels, .pool = r->ctx->pool}, call,
                        r->n_in, in, &out, attr, (int64_t)tp_dtype_size((tp_dtype)key->dtype));
    else
        bad = call(in, &out, attr);
    if (in != few)
        tpi_give_back(&r->ctx->mem, in, bytes);
    if (bad && r->op->refuses)
        return tpi_run_fail(r, TP_E_VALUE, "matrix %lld %s", (long long)(bad - 1),
                            tpi_refusal_text(r->op));
    if (bad) {
        const tpi_bad_index b = tpi_describe_bad_index(r->in, r->attrs, bad - 1);
        return tpi_run_fail(r, TP_E_VALUE,
                            "index %lld at position %lld is out of range for size %lld",
                            (long long)b.index, (long long)(bad - 1), (long long)b.size);
    }
    return ok;
}

bool tpi_run_called(tpi_run *r)
{
    return run_call(r, true);
}

static bool run_oracle(tpi_run *r)
{
    return r->op->kernel ? r->op->kernel(r) : run_call(r, false);
}

static bool run_fast(tpi_run *r)
{
    return r->op->fast ? r->op->fast(r) : r->op->kernel ? r->op->kernel(r) : run_call(r, true);
}

static bool run_with_care(tpi_run *r, bool (*run)(tpi_run *r))
{
    TPI_DEFAULT_FLOAT_MODE;
    return run(r) && (!r->ctx->trap_nan || tpi_trap(r));
}

/* What comes last is a jump: an op of a few elements costs little more than its calls. */
bool tpi_run_op(tpi_run *r)
{
    if (r->ctx->trap_nan || !tpi_float_mode_is_default(tpi_float_mode_now()))
        return run_with_care(r, run_fast);
    return run_fast(r);
}

bool tpi_run_reference(tpi_run *r)
{
    return run_with_care(r, run_oracle);
}
