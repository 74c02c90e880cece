/* own_kernel: see own_kernel.h. */
#include "op/own_kernel.h"

#include "base/float_mode.h"
#include "core/copy.h"
#include "ir/body.h"
#include "ir/factors.h"
#include "op/sizes.h"

#include <string.h>

#undef TP_PLACE
#define TP_PLACE at.file, at.line

typedef struct own_attrs {
    int64_t dtype;
    tpi_list shape;
    /* In no text: a node that was read from one has no kernel. */
    const tp_kernel *kernel;
    void *user;
} own_attrs;

static const tpi_attr own_table[] = {
    {"dtype",             TPI_ATTR_DTYPE, offsetof(own_attrs, dtype)},
    {"shape", TPI_ATTR_DIMS, offsetof(own_attrs, shape)},
    {0                  },
};

static bool own_infer(tpi_infer *q)
{
    const own_attrs *a = q->attrs;
    if (a->dtype < 0 || a->dtype >= TP_N_DTYPES)
        return tpi_refuse(q, TP_E_DTYPE, "%lld is no element type", (long long)a->dtype);
    if (a->shape.n < 0 || a->shape.n > TP_MAX_RANK)
        return tpi_refuse(q, TP_E_SHAPE, "%lld axes", (long long)a->shape.n);
    for (int64_t i = 0; i < a->shape.n && q->dims; i++)
        if (!tpi_dim_is_size(q->dims, a->shape.v[i]))
            return tpi_refuse(q, TP_E_SHAPE, "%lld is no size", (long long)a->shape.v[i]);
    q->dtype = (tp_dtype)a->dtype;
    q->rank = (int)a->shape.n;
    memcpy(q->shape, a->shape.v, sizeof(int64_t) * (size_t)q->rank);
    return true;
}

/* ---- a call ---------------------------------------------------------------------------------------- */

static bool has_gaps(const tpk_view *v)
{
    int64_t step = 1;
    bool has = false;
    for (int64_t i = v->rank - 1; i >= 0; i--) {
        has |= v->n[i] != 1 && v->s[i] != step;
        step *= v->n[i];
    }
    return has && step > 0;
}

static tp_elements elements_of(int dtype, const tpk_view *v)
{
    tp_elements e = {(tp_dtype)dtype, (int)v->rank, v->n, 1, v->p};
    for (int i = 0; i < e.rank; i++)
        e.count *= v->n[i];
    return e;
}

static size_t bytes_of(const tp_elements *e)
{
    return (size_t)e->count * tp_dtype_size(e->dtype);
}

/* A copy without gaps, at `to`. */
static void close_gaps(tp_elements *e, const tpk_view *v, char *to)
{
    int64_t flat[TP_MAX_RANK], step = 1;
    for (int i = e->rank - 1; i >= 0; i--) {
        flat[i] = step;
        step *= v->n[i];
    }
    tpi_copy_strided(tp_dtype_size(e->dtype), e->rank, v->n, to, flat, v->p, v->s);
    e->data = to;
}

/* Any true byte is 1. */
static void mend_bools(const tp_elements *e)
{
    uint8_t *v = e->data;
    for (int64_t i = 0; i < e->count && e->dtype == TP_BOOL; i++)
        v[i] = v[i] != 0;
}

static int64_t own_run(const void *attrs, int n_in, tp_tensor *const *in,
                       const tpk_view *operands, const tpk_view *out, void *room)
{
    const own_attrs *a = attrs;
    tp_elements *e = room;
    char *to = (char *)room + tpi_own_room(n_in);
    const tp_elements y = elements_of((int)a->dtype, out);
    if (!a->kernel)
        return 1;
    if (y.count == 0)
        return 0;
    for (int i = 0; i < n_in; i++) {
        e[i] = elements_of(in[i]->dtype, &operands[i]);
        if (!has_gaps(&operands[i]))
            continue;
        close_gaps(&e[i], &operands[i], to);
        to += tpi_own_step(bytes_of(&e[i]));
    }
    const bool ok = a->kernel->compute(a->user, n_in, e, &y);
    if (ok)
        mend_bools(&y);
    return !ok;
}

static tp_tensor *own_refuse(tp_ctx *ctx, tpi_at at, const void *attrs)
{
    const own_attrs *a = attrs;
    return a->kernel
               ? tpi_fail(ctx, at, a->kernel->name, TP_E_VALUE,
                          "its function compute gave false")
               : tpi_fail(ctx, at, "own_kernel", TP_E_STATE,
                          "its kernel was a C function, which the text of a graph does not "
                          "have");
}

static bool own_kernel(tpi_run *r)
{
    _Alignas(64) char few[1024], *room = few;
    const size_t views = tpi_own_step(((size_t)r->n_in + 1) * sizeof(tpk_view));
    size_t bytes = views + tpi_own_room(r->n_in);
    for (int i = 0; i < r->n_in; i++)
        if (!(r->in[i]->flags & TPI_CONTIGUOUS))
            bytes += tpi_own_step(tpi_bytes(r->in[i]));
    if (bytes > sizeof few)
        room = tpi_take(&r->ctx->mem, bytes);
    if (!room) {
        r->failed = tpi_no_memory(r->ctx, r->at, r->op->name);
        return false;
    }
    tpk_view *in = (tpk_view *)(void *)room, *out = in + r->n_in;
    for (int i = 0; i < r->n_in; i++)
        tpi_view_of(r->in[i], &in[i]);
    tpi_view_of(r->out, out);
    const bool ok = own_run(r->attrs, r->n_in, r->in, in, out, room + views) == 0;
    if (room != few)
        tpi_give_back(&r->ctx->mem, room, bytes);
    if (!ok)
        r->failed = own_refuse(r->ctx, r->at, r->attrs);
    return ok;
}

/* ---- the reference ------------------------------------------------------------------------------------ */

/* y with the sizes of the kernel's result, or the failed tensor. */
static tp_tensor *fitted(tpi_at at, const own_attrs *a, tp_graph *g, tp_tensor *y)
{
    tpi_dims *dims = g ? g->dims : NULL;
    bool fits = y->dtype == a->dtype && y->rank == a->shape.n, same = fits;
    for (int i = 0; i < y->rank && fits; i++) {
        same &= y->shape[i] == a->shape.v[i];
        fits = y->shape[i] == a->shape.v[i] ||
               (g && tpi_sizes_may_agree(dims, y->shape[i], a->shape.v[i]));
    }
    if (!fits)
        return tpi_fail(y->ctx, at, a->kernel->name, TP_E_SHAPE,
                        "its result is %s %s, and that of the reference %s %s",
                        tp_dtype_name((tp_dtype)a->dtype),
                        SIZES(y->ctx, dims, a->shape.n, a->shape.v),
                        tp_dtype_name((tp_dtype)y->dtype), SHAPE(y));
    if (g)
        y = tpi_graph_lift(g, at, y);
    return same || y->status != TP_OK ? y : tpi_assume(at, y, a->shape.v);
}

/* What the reference gives, of the graph g, or a concrete tensor. */
static tp_tensor *by_reference(tpi_at at, const own_attrs *a, tp_graph *g, int n_in,
                               tp_tensor *const *in)
{
    tp_ctx *ctx = in[0]->ctx;
    const char *name = a->kernel->name;
    tpi_user_code code;
    tpi_user_code_enter(&code, ctx, name);
    tp_tensor *y = a->kernel->reference(a->user, n_in, in);
    tpi_user_code_end_blocks(&code);
    tp_tensor *failed =
        y ? tpi_refuse_operand(ctx, at, name, 0, y)
          : tpi_fail(ctx, at, name, TP_E_NULL, "its function reference gave NULL");
    if (!failed)
        tpi_ref(y);
    tpi_user_code_leave(&code);
    y = failed ? failed : tpi_hand_out(y, at);
    return y->status == TP_OK ? fitted(at, a, g, y) : y;
}

/* The failed tensor when there is none. */
static tp_tensor *refuse_reference(tp_ctx *ctx, tpi_at at, const own_attrs *a, const char *why)
{
    if (!a->kernel)
        return own_refuse(ctx, at, a);
    return a->kernel->reference ? NULL
                                : tpi_fail(ctx, at, a->kernel->name, TP_E_STATE,
                                           "the kernel has no reference, %s", why);
}

/* The operands as they are to the reference: gradients of them are its own, whatever they were computed from, and are
 * added up before they go on. Of the last one first, as a sweep comes to them. */
static void set_apart(tpi_at at, int n, tp_tensor *const *x, tp_tensor **apart)
{
    for (int i = n - 1; i >= 0; i--)
        apart[i] = x[i]->dtype >= TP_F32 ? tp_straight_through(x[i], x[i]) : x[i];
}

static tp_tensor *own_leave(tp_graph *to, tpi_at at, int n_in, tp_tensor *const *in,
                            const void *attrs)
{
    const own_attrs *a = attrs;
    tp_ctx *ctx = to->ctx;
    tp_tensor *failed = refuse_reference(
        ctx, at, a, "which a file could have in place of the C function: give it one");
    if (failed)
        return failed;
    tpi_nodes apart = {.ctx = ctx};
    for (int i = 0; i < n_in; i++)
        tpi_nodes_push(&apart, in[i]);
    tp_graph *const tracing = ctx->tracing;
    ctx->tracing = to;
    if (!apart.failed)
        set_apart(at, n_in, in, apart.v);
    tp_tensor *y = apart.failed ? tpi_no_memory(ctx, at, a->kernel->name)
                                : by_reference(at, a, to, n_in, apart.v);
    ctx->tracing = tracing;
    tpi_nodes_free(&apart);
    return y;
}

/* ---- its gradient --------------------------------------------------------------------------------------- */

/* The reference computed again, and a sweep over it. Lists have room for all operands. */
static void sweep_reference(tpi_grad *g, const own_attrs *a, tp_tensor **x, tp_tensor **asked,
                            tp_tensor **dx)
{
    const tpi_at at = g->at;
    tp_ctx *ctx = g->y->ctx;
    int n = 0, k = 0;
    const bool was = tp_recording(ctx, true);
    set_apart(at, g->n_in, g->x, x);
    tp_tensor *y = by_reference(at, a, g->y->graph, g->n_in, x);
    tp_recording(ctx, was);
    for (int i = 0; i < g->n_in; i++)
        if (tpi_wants(g, i))
            asked[n++] = x[i];
    if (y->status == TP_OK)
        tp_grads(y, g->dy, n, asked, dx);
    for (int i = 0; i < g->n_in; i++)
        if (tpi_wants(g, i))
            tpi_give(g, i, y->status == TP_OK ? dx[k++] : y);
}

static void own_grad(tpi_grad *g)
{
    const own_attrs *a = g->attrs;
    tp_ctx *ctx = g->y->ctx;
    const size_t n = (size_t)g->n_in, bytes = 3 * n * sizeof(tp_tensor *);
    tp_tensor *failed =
        refuse_reference(ctx, g->at, a,
                         "whose gradient would be its own: give it one, or call it "
                         "within a tp_custom");
    tp_tensor **room = failed ? NULL : tpi_take(&ctx->mem, bytes);
    if (room)
        sweep_reference(g, a, room, room + n, room + 2 * n);
    else if (!failed)
        failed = tpi_no_memory(ctx, g->at, a->kernel->name);
    for (int i = 0; i < g->n_in && failed; i++)
        if (tpi_wants(g, i))
            tpi_give(g, i, failed);
    if (room)
        tpi_give_back(&ctx->mem, room, bytes);
}

/* ---- the op ---------------------------------------------------------------------------------------------- */

static const tpi_own_call own = {.run = own_run, .refuse = own_refuse, .leave = own_leave};

const tpi_op tpi_op_own_kernel = {.name = "own_kernel",
                                  .code = TPI_OP_own_kernel,
                                  .kind = TPI_CALL,
                                  .n_in = -1,
                                  .attrs = own_table,
                                  .attrs_size = sizeof(own_attrs),
                                  .infer = own_infer,
                                  .factors = tpi_whole_factors,
                                  .kernel = own_kernel,
                                  .own = &own,
                                  .batch = TPI_BATCH_NONE,
                                  .refuses = TPI_REFUSES_AS_IT_LIKES,
                                  .any_size = true,
                                  .call_dtype = -1,
                                  .grad = own_grad,
                                  .grad_reads_x = true};

/* ---- the check ------------------------------------------------------------------------------------------- */

/* The first element of y that is not as r has it; -1: all are. */
static int64_t find_other(const tp_tensor *y, const tp_tensor *r)
{
    const tp_dtype dtype = (tp_dtype)y->dtype;
    const int64_t n = tpi_count(y), size = (int64_t)tp_dtype_size(dtype);
    const double most = dtype == TP_F32 ? 1e-4 : 1e-9;
    int64_t i = 0;
    for (; i < n; i++) {
        const char *p = y->data + i * size, *q = r->data + i * size;
        const double v = tpi_load_f64(dtype, p), w = tpi_load_f64(dtype, q),
                     scale = w < -1  ? -w
                             : w > 1 ? w
                                     : 1;
        const bool near =
            v == w || (v != v && w != w) || (v - w <= most * scale && w - v <= most * scale);
        if (dtype >= TP_F32 ? !near : memcmp(p, q, (size_t)size) != 0)
            break;
    }
    return i < n ? i : -1;
}

static tp_tensor *compared(tpi_at at, const own_attrs *a, tp_tensor *y, tp_tensor *r)
{
    const int64_t i = r->status == TP_OK ? find_other(y, r) : -1;
    if (r->status != TP_OK || i < 0)
        return r->status == TP_OK ? y : r;
    const size_t at_byte = (size_t)i * tp_dtype_size((tp_dtype)y->dtype);
    return tpi_fail(y->ctx, at, a->kernel->name, TP_E_VALUE,
                    "element %lld is %.9g, and %.9g by the reference", (long long)i,
                    tpi_load_f64((tp_dtype)y->dtype, y->data + at_byte),
                    tpi_load_f64((tp_dtype)r->dtype, r->data + at_byte));
}

static tp_tensor *checked(tpi_at at, const own_attrs *a, int n_in, tp_tensor *const *in,
                          tp_tensor *y)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_ctx *ctx = y->ctx;
    tp_tensor *failed = refuse_reference(ctx, at, a, "which the check would compare it with");
    if (failed)
        return failed;
    if (tp_scope_begin(ctx) != TP_OK)
        return &ctx->nil;
    const bool was = tp_recording(ctx, false);
    tp_tensor *r = tp_contiguous(by_reference(at, a, NULL, n_in, in));
    tp_recording(ctx, was);
    y = tp_keep(compared(at, a, y, r));
    tp_scope_end(ctx);
    return y;
}

/* ---- public ------------------------------------------------------------------------------------------------ */

static tp_tensor *refuse_arguments(tpi_at at, const tp_kernel *k, int n_in,
                                   tp_tensor *const *in, int rank, const int64_t *shape)
{
    tp_ctx *ctx = n_in > 0 && in && in[0] ? in[0]->ctx : NULL;
    const char *what = "tp_kernel_apply";
    if (!k || !k->name || !k->compute)
        return tpi_fail(ctx, at, what, TP_E_NULL, "the %s is NULL",
                        !k         ? "description"
                        : !k->name ? "name"
                                   : "function compute");
    if (n_in < 1 || !in)
        return tpi_fail(ctx, at, k->name, TP_E_NULL, "the operands are missing");
    tp_tensor *failed = tpi_refuse_operands(at, k->name, n_in, in);
    if (failed)
        return failed;
    if (rank < 0 || rank > TP_MAX_RANK)
        return tpi_fail(ctx, at, k->name, TP_E_SHAPE, "%d axes", rank);
    return rank > 0 && !shape ? tpi_fail(ctx, at, k->name, TP_E_NULL, "the shape is NULL")
                              : NULL;
}

tp_tensor *tp_kernel_apply_at(const char *file, int line, const tp_kernel *k, void *user,
                              int n_in, tp_tensor *const *in, tp_dtype dtype, int rank,
                              const int64_t *shape)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = refuse_arguments(at, k, n_in, in, rank, shape);
    if (failed)
        return failed;
    tp_ctx *ctx = in[0]->ctx;
    TPI_ALONE(ctx, at, k->name);
    own_attrs a = {.dtype = (int64_t)dtype, .shape.n = rank, .kernel = k, .user = user};
    if (rank > 0)
        memcpy(a.shape.v, shape, (size_t)rank * sizeof *shape);
    tp_tensor *y = tpi_apply(at, &tpi_op_own_kernel, n_in, in, &a);
    const bool now =
        k->check && !ctx->frame && !ctx->tracing && y->status == TP_OK && !y->graph;
    return now ? checked(at, &a, n_in, in, y) : y;
}

TPI_BARE(tp_tensor *, tp_kernel_apply,
         (const tp_kernel *k, void *user, int n_in, tp_tensor *const *in, tp_dtype dtype,
          int rank, const int64_t *shape),
         k, user, n_in, in, dtype, rank, shape)
