/* Convolutions. One trilinear form of x, w and y; each op takes two of them and gives the third,
 * so each gradient is another of the three:
 *     conv(x, w) -> y      conv_dx(y, w) -> x      conv_dw(x, y) -> w */
#include "ir/factors.h"
#include "kernel/text/vec.h"
#include "op/contractions.h"
#include "op/window.h"

#include <stddef.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE g->at.file, g->at.line /* rules blame the line of the node they are for */

#define TPK_BITS 32
#include "kernel/conv/convref.h"
#undef TPK_BITS
#define TPK_BITS 64
#include "kernel/conv/convref.h"
#undef TPK_BITS

typedef struct conv_attrs {
    tpi_window window;
    int64_t groups;
    int64_t winograd; /* f32 of 3 by 3 by the tiles of kernel/conv/winograd.h, where they pay */
    tpi_list sizes;   /* of the result's spatial axes; none for conv */
} conv_attrs;

static const tpi_attr conv_table[] = {
    TPI_WINDOW_ATTRS(conv_attrs, window),
    {"groups",             TPI_ATTR_INT, offsetof(conv_attrs, groups)},
    {"winograd", TPI_ATTR_BOOL, offsetof(conv_attrs, winograd)},
    {0                   },
};

static const tpi_attr sized_table[] = {
    TPI_WINDOW_ATTRS(conv_attrs, window),
    {"groups",             TPI_ATTR_INT, offsetof(conv_attrs, groups)},
    {"winograd", TPI_ATTR_BOOL, offsetof(conv_attrs, winograd)},
    {"sizes",                    TPI_ATTR_DIMS, offsetof(conv_attrs, sizes)},
    {0      },
};

enum { MOST_PADDING = 1 << 22 };

/* ---- shapes ------------------------------------------------------------------------------------ */

/* What holds for all three before their sizes are looked at. `names` are the operands'. */
static bool refuse_pair(tpi_infer *q, const char *a_name, const char *b_name)
{
    const conv_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0], *w = q->in[1];
    if (!tpi_refuse_window(q, &a->window))
        return false;
    if (x->dtype != w->dtype)
        return tpi_refuse(q, TP_E_DTYPE, "%s is %s, %s is %s", a_name,
                          tp_dtype_name((tp_dtype)x->dtype), b_name,
                          tp_dtype_name((tp_dtype)w->dtype));
    if (x->rank != w->rank)
        return tpi_refuse(q, TP_E_SHAPE, "%s is %s, %s is %s: not of one rank", a_name,
                          SHAPE(x), b_name, SHAPE(w));
    if (a->groups < 1)
        return tpi_refuse(q, TP_E_VALUE, "%lld groups", (long long)a->groups);
    /* kernels work on padded copies: their size must not get out of hand */
    int64_t room = 1;
    for (int i = 0; i < x->rank - 2; i++)
        room = tpi_dim_mul(NULL, room, a->window.pad_lo.v[i] + a->window.pad_hi.v[i] + 1);
    if (room < 0 || room > MOST_PADDING)
        return tpi_refuse(q, TP_E_VALUE, "padding %s and %s is more than 2^22 elements",
                          SIZES(q->ctx, NULL, x->rank - 2, a->window.pad_lo.v),
                          SIZES(q->ctx, NULL, x->rank - 2, a->window.pad_hi.v));
    return true;
}

static bool splits(tpi_infer *q, int64_t channels)
{
    const int64_t groups = ((const conv_attrs *)q->attrs)->groups;
    return tpi_dim_mul(q->dims, tpi_dim_div(q->dims, channels, groups), groups) == channels;
}

static bool conv_infer(tpi_infer *q)
{
    const conv_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0], *w = q->in[1];
    if (!refuse_pair(q, "x", "w"))
        return false;
    if (tpi_dim_mul(q->dims, w->shape[1], a->groups) != x->shape[1] || !splits(q, w->shape[0]))
        return tpi_refuse(q, TP_E_SHAPE, "x %s and w %s do not fit in %lld groups", SHAPE(x),
                          SHAPE(w), (long long)a->groups);
    tpi_infer_like(q, 0);
    q->shape[1] = w->shape[0];
    for (int i = 0; i < x->rank - 2; i++) {
        q->shape[i + 2] =
            tpi_window_places(q->dims, &a->window, i, x->shape[i + 2], w->shape[i + 2]);
        if (q->shape[i + 2] == TPI_NO_DIM)
            return tpi_refuse(q, TP_E_SHAPE, "w %s does not fit into x %s along axis %d",
                              SHAPE(w), SHAPE(x), i + 2);
    }
    return true;
}

/* The sizes asked for are those of a result that leads to y's. */
static bool sizes_fit(tpi_infer *q, const tp_tensor *y, const tp_tensor *known, bool of_x)
{
    const conv_attrs *a = q->attrs;
    bool fits = a->sizes.n == y->rank - 2;
    for (int i = 0; i < y->rank - 2 && fits; i++) {
        const int64_t s = of_x ? a->sizes.v[i] : known->shape[i + 2];
        const int64_t k = of_x ? known->shape[i + 2] : a->sizes.v[i];
        fits = tpi_window_places(q->dims, &a->window, i, s, k) == y->shape[i + 2];
    }
    if (!fits)
        return tpi_refuse(q, TP_E_SHAPE, "sizes %s of %s and %s %s do not give dy %s",
                          SIZES(q->ctx, q->dims, a->sizes.n, a->sizes.v), of_x ? "x" : "w",
                          of_x ? "w" : "x", SHAPE(known), SHAPE(y));
    return true;
}

static bool conv_dx_infer(tpi_infer *q)
{
    const conv_attrs *a = q->attrs;
    const tp_tensor *y = q->in[0], *w = q->in[1];
    if (!refuse_pair(q, "dy", "w"))
        return false;
    if (y->shape[1] != w->shape[0] || !splits(q, w->shape[0]))
        return tpi_refuse(q, TP_E_SHAPE, "dy %s and w %s do not fit in %lld groups", SHAPE(y),
                          SHAPE(w), (long long)a->groups);
    if (!sizes_fit(q, y, w, true))
        return false;
    tpi_infer_like(q, 0);
    q->shape[1] = tpi_dim_mul(q->dims, w->shape[1], a->groups);
    memcpy(q->shape + 2, a->sizes.v, sizeof(int64_t) * (size_t)a->sizes.n);
    return q->shape[1] != TPI_NO_DIM
               ? true
               : tpi_refuse(q, TP_E_SHAPE, "too many channels: w %s", SHAPE(w));
}

static bool conv_dw_infer(tpi_infer *q)
{
    const conv_attrs *a = q->attrs;
    const tp_tensor *x = q->in[0], *y = q->in[1];
    if (!refuse_pair(q, "x", "dy"))
        return false;
    if (x->shape[0] != y->shape[0] || !splits(q, x->shape[1]) || !splits(q, y->shape[1]))
        return tpi_refuse(q, TP_E_SHAPE, "x %s and dy %s do not fit in %lld groups", SHAPE(x),
                          SHAPE(y), (long long)a->groups);
    if (!sizes_fit(q, y, x, false))
        return false;
    tpi_infer_like(q, 0);
    q->shape[0] = y->shape[1];
    q->shape[1] = tpi_dim_div(q->dims, x->shape[1], a->groups);
    memcpy(q->shape + 2, a->sizes.v, sizeof(int64_t) * (size_t)a->sizes.n);
    return true;
}

/* ---- kernels ------------------------------------------------------------------------------------ */

enum { CONV, CONV_DX, CONV_DW };

/* x, w and y of a run, one of them the result. */
typedef struct roles {
    const tp_tensor *x, *w, *y;
} roles;

/* Which of x, w and y is operand k; operand 2 is the result. */
static int role_of(int which, int k)
{
    static const int8_t role[3][3] = {
        {0, 1, 2},
        {2, 1, 0},
        {0, 2, 1}
    };
    return role[which][k];
}

static roles roles_of(tp_tensor *const *in, const tp_tensor *out, int which)
{
    const tp_tensor *of[3];
    for (int k = 0; k < 3; k++)
        of[role_of(which, k)] = k < 2 ? in[k] : out;
    return (roles){of[0], of[1], of[2]};
}

/* 3 by 3, of stride 1, without dilation and groups. */
static bool is_winograd(const conv_attrs *a, const roles *t)
{
    bool is = a->winograd && t->x->dtype == TP_F32 && a->groups == 1 && t->x->rank == 4;
    for (int i = 0; i < 2 && is; i++)
        is = a->window.stride.v[i] == 1 && a->window.dilation.v[i] == 1 &&
             (t->w->shape[i + 2] == 3 || tpi_dim_is_symbolic(t->w->shape[i + 2]));
    return is;
}

static tpk_conv spec_of(const conv_attrs *a, const roles *t)
{
    tpk_conv c = {.nd = t->x->rank - 2,
                  .batch = t->x->shape[0],
                  .groups = a->groups,
                  .ic = t->x->shape[1],
                  .oc = t->w->shape[0],
                  .winograd = is_winograd(a, t) ? TPK_WINOGRAD : TPK_DIRECT,
                  .taps = t->x->dtype == TP_F32 ? TPK_TAPS_BY_SIZE : TPK_TAPS_TOGETHER};
    for (int i = 0; i < c.nd; i++) {
        c.in[i] = t->x->shape[i + 2];
        c.out[i] = t->y->shape[i + 2];
        c.ker[i] = t->w->shape[i + 2];
        c.stride[i] = a->window.stride.v[i];
        c.dil[i] = a->window.dilation.v[i];
        c.pad[i] = a->window.pad_lo.v[i];
    }
    for (int i = 0; i < c.nd + 2; i++) {
        c.xs[i] = t->x->stride[i];
        c.ws[i] = t->w->stride[i];
        c.ys[i] = t->y->stride[i];
    }
    return c;
}

static int which_of(const tpi_op *op)
{
    return op == &tpi_op_conv ? CONV : op == &tpi_op_conv_dx ? CONV_DX : CONV_DW;
}

static void conv_contract(const tpi_run *r, tpi_contraction *c)
{
    const int which = which_of(r->op);
    const roles t = roles_of(r->in, r->out, which);
    c->is_conv = true;
    for (int k = 0; k < 3; k++)
        c->operand[role_of(which, k)] = (int8_t)k;
    c->conv = (tpk_convolution){.which = which,
                                .f64 = r->out->dtype == TP_F64,
                                .spec = spec_of(r->attrs, &t),
                                .x = t.x->data,
                                .w = t.w->data,
                                .y = t.y->data};
    if (which == CONV_DW)
        c->conv.spec.winograd = TPK_DIRECT;
}

/* The first axes of x, w and y. Where each channel is a group of its own, x and y have one axis of channels,
 * which is w's first. */
enum { IMAGE = 1, IN_CHANNEL, OUT_CHANNEL, GROUP };
static const int8_t first_axes[2][3][2] = {
    {{IMAGE, IN_CHANNEL}, {OUT_CHANNEL, IN_CHANNEL}, {IMAGE, OUT_CHANNEL}},
    {{IMAGE, GROUP},      {GROUP, 0},                {IMAGE, GROUP}      },
};

/* Along axis i windows have one tap, and each position has one. */
static bool has_one_tap(const conv_attrs *a, const tp_tensor *w, int i)
{
    return w->shape[i] == 1 && a->window.stride.v[i - 2] == 1 && !a->window.pad_lo.v[i - 2] &&
           !a->window.pad_hi.v[i - 2];
}

static void conv_factors(const tp_tensor *t, int k, tpi_factor *f)
{
    const conv_attrs *a = t->attrs;
    const int which = which_of(t->op);
    const roles of = roles_of(t->in, t, which);
    const bool apart = a->groups == of.x->shape[1] && a->groups == of.y->shape[1];
    const int8_t(*axes)[2] = first_axes[apart];
    const int8_t *own = axes[role_of(which, k)], *result = axes[role_of(which, 2)];
    for (int i = 0; i < 2; i++) {
        const int to = own[i] == result[0] ? 0 : own[i] == result[1] ? 1 : TP_MAX_RANK + own[i];
        const bool grouped = own[i] != IMAGE && !apart && a->groups != 1;
        if (own[i])
            f[i] = (tpi_factor){grouped            ? TPI_AXIS_WHOLE
                                : to < TP_MAX_RANK ? TPI_AXIS_PASSED
                                                   : TPI_AXIS_REDUCED,
                                (int8_t)to};
    }
    for (int i = 2; i < t->rank && which != CONV_DW && k == 0; i++)
        f[i] = (tpi_factor){has_one_tap(a, of.w, i) ? TPI_AXIS_PASSED : TPI_AXIS_WINDOWED,
                            (int8_t)i};
}

static bool conv_kernel(tpi_run *r)
{
    tpi_contraction contraction;
    conv_contract(r, &contraction);
    const tpk_convolution *q = &contraction.conv;
    const tpk_conv *c = &q->spec;
    if (q->which == CONV && q->f64)
        tpk_conv_ref_f64(c, q->x, q->w, q->y);
    else if (q->which == CONV)
        tpk_conv_ref_f32(c, q->x, q->w, q->y);
    else if (q->which == CONV_DX && q->f64)
        tpk_conv_dx_ref_f64(c, q->y, q->w, q->x);
    else if (q->which == CONV_DX)
        tpk_conv_dx_ref_f32(c, q->y, q->w, q->x);
    else if (q->f64)
        tpk_conv_dw_ref_f64(c, q->x, q->y, q->w);
    else
        tpk_conv_dw_ref_f32(c, q->x, q->y, q->w);
    return true;
}

#define CONV_OP(name_, table, packed, batch_)                                                  \
    const tpi_op tpi_op_##name_ = {.name = #name_,                                             \
                                   .code = TPI_OP_##name_,                                     \
                                   .n_in = 2,                                                  \
                                   .kind = TPI_CALL,                                           \
                                   .contract = conv_contract,                                  \
                                   .convolving = &tpi_team_convolving,                         \
                                   .packed_axes = packed,                                      \
                                   .attrs = table,                                             \
                                   .attrs_size = sizeof(conv_attrs),                           \
                                   .infer = name_##_infer,                                     \
                                   .factors = conv_factors,                                    \
                                   .batch = batch_,                                            \
                                   .linear = TPI_LINEAR_IN_EACH,                               \
                                   .kernel = conv_kernel,                                      \
                                   .fast = tpi_contraction_run,                                \
                                   .grad = name_##_grad,                                       \
                                   .grad_reads_x = true}

/* ---- gradients ---------------------------------------------------------------------------------- */

/* One of the three ops with the window of the node that is differentiated, for a result of the
 * spatial sizes of `like` (NULL: they follow). */
static tp_tensor *other(const tpi_grad *g, const tpi_op *op, tp_tensor *a, tp_tensor *b,
                        const tp_tensor *like)
{
    const conv_attrs *of = g->attrs;
    conv_attrs attrs = {.window = of->window, .groups = of->groups, .winograd = of->winograd};
    if (like) {
        attrs.sizes.n = like->rank - 2;
        memcpy(attrs.sizes.v, like->shape + 2, sizeof(int64_t) * (size_t)attrs.sizes.n);
    }
    return tpi_apply(g->at, op, TPI_IN(a, b), &attrs);
}

static void conv_grad(tpi_grad *g)
{
    tp_tensor *x = g->x[0], *w = g->x[1];
    if (tpi_wants(g, 0))
        tpi_give(g, 0, other(g, &tpi_op_conv_dx, g->dy, w, x));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, other(g, &tpi_op_conv_dw, x, g->dy, w));
}

static void conv_dx_grad(tpi_grad *g)
{
    tp_tensor *y = g->x[0], *w = g->x[1];
    if (tpi_wants(g, 0))
        tpi_give(g, 0, other(g, &tpi_op_conv, g->dy, w, NULL));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, other(g, &tpi_op_conv_dw, g->dy, y, w));
}

static void conv_dw_grad(tpi_grad *g)
{
    tp_tensor *x = g->x[0], *y = g->x[1];
    if (tpi_wants(g, 0))
        tpi_give(g, 0, other(g, &tpi_op_conv_dx, y, g->dy, x));
    if (tpi_wants(g, 1))
        tpi_give(g, 1, other(g, &tpi_op_conv, x, g->dy, NULL));
}

CONV_OP(conv, conv_table, TP_MAX_RANK, TPI_BATCH_IMAGES);
CONV_OP(conv_dx, sized_table, 0, TPI_BATCH_IMAGES);
CONV_OP(conv_dw, sized_table, 0, TPI_BATCH_NONE);

/* ---- what the user calls ------------------------------------------------------------------------ */

static tp_tensor *convolve(tpi_at at, const tpi_op *op, tp_tensor *a, tp_tensor *b, int n_sizes,
                           const int64_t *sizes, const tp_window *window)
{
    tp_tensor *failed = tpi_refuse_operands(at, op->name, TPI_IN(a, b));
    if (failed)
        return failed;
    if (n_sizes < 0 || n_sizes > TP_MAX_RANK || (n_sizes > 0 && !sizes))
        return tpi_fail(a->ctx, at, op->name, TP_E_SHAPE, "%d sizes%s", n_sizes,
                        sizes ? "" : " at NULL");
    conv_attrs attrs = {.groups = window && window->groups ? window->groups : 1,
                        .winograd = !a->ctx->direct_conv};
    tpi_window_fill(&attrs.window, window, tpi_spatial(a), NULL);
    attrs.sizes.n = n_sizes;
    for (int i = 0; i < n_sizes; i++)
        attrs.sizes.v[i] = sizes[i];
    return tpi_apply(at, op, TPI_IN(a, b), &attrs);
}

tp_tensor *tp_conv_at(const char *file, int line, tp_tensor *x, tp_tensor *w,
                      const tp_window *window)
{
    return convolve(TPI_AT(file, line), &tpi_op_conv, x, w, 0, NULL, window);
}
TPI_BARE(tp_tensor *, tp_conv, (tp_tensor * x, tp_tensor *w, const tp_window *window), x, w,
         window)

tp_tensor *tp_conv_dx_at(const char *file, int line, tp_tensor *dy, tp_tensor *w, int n_sizes,
                         const int64_t *sizes, const tp_window *window)
{
    return convolve(TPI_AT(file, line), &tpi_op_conv_dx, dy, w, n_sizes, sizes, window);
}
TPI_BARE(tp_tensor *, tp_conv_dx,
         (tp_tensor * dy, tp_tensor *w, int n_sizes, const int64_t *sizes,
          const tp_window *window),
         dy, w, n_sizes, sizes, window)

tp_tensor *tp_conv_dw_at(const char *file, int line, tp_tensor *x, tp_tensor *dy, int n_sizes,
                         const int64_t *sizes, const tp_window *window)
{
    return convolve(TPI_AT(file, line), &tpi_op_conv_dw, x, dy, n_sizes, sizes, window);
}
TPI_BARE(tp_tensor *, tp_conv_dw,
         (tp_tensor * x, tp_tensor *dy, int n_sizes, const int64_t *sizes,
          const tp_window *window),
         x, dy, n_sizes, sizes, window)
