/* cases.def as a table. The macros it is written with are here. */
#include "case.h"
#include "op/stacks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands ---------------------------------------------------------------------------- */

static case_operand operand(tp_dtype dtype, int rank, const int64_t *shape)
{
    const bool whole = !case_is_float(dtype);
    const bool is_unsigned = dtype >= TP_U8 && dtype <= TP_U64;
    case_operand o = {.present = true,
                      .dtype = dtype,
                      .rank = rank,
                      .draw = whole ? DRAW_INTS : DRAW_RANGE,
                      .lo = dtype == TP_BOOL || is_unsigned ? 0
                            : whole                         ? -9
                                                            : -2,
                      .hi = dtype == TP_BOOL ? 1
                            : is_unsigned    ? 18
                            : whole          ? 9
                                             : 2};
    memcpy(o.shape, shape, sizeof *shape * (size_t)rank);
    return o;
}

static case_operand drawn(case_operand o, case_draw draw, double lo, double hi)
{
    o.draw = draw;
    o.lo = lo;
    o.hi = hi;
    return o;
}

static case_operand laid_out(case_operand o, case_layout layout)
{
    o.layout = layout;
    return o;
}

static case_operand optional(case_operand o)
{
    o.optional = true;
    return o;
}

static case_operand fixed(case_operand o)
{
    o.fixed = true;
    return o;
}

#define OPERAND(dtype, ...)                                                                    \
    operand(dtype, (int)(sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1,     \
            (const int64_t[]){0, __VA_ARGS__} + 1)
#define BOOL(...) OPERAND(TP_BOOL, __VA_ARGS__)
#define I8(...) OPERAND(TP_I8, __VA_ARGS__)
#define I16(...) OPERAND(TP_I16, __VA_ARGS__)
#define I32(...) OPERAND(TP_I32, __VA_ARGS__)
#define I64(...) OPERAND(TP_I64, __VA_ARGS__)
#define U8(...) OPERAND(TP_U8, __VA_ARGS__)
#define U16(...) OPERAND(TP_U16, __VA_ARGS__)
#define U32(...) OPERAND(TP_U32, __VA_ARGS__)
#define U64(...) OPERAND(TP_U64, __VA_ARGS__)
#define F32(...) OPERAND(TP_F32, __VA_ARGS__)
#define F64(...) OPERAND(TP_F64, __VA_ARGS__)

#define RANGE(lo, hi, x) drawn(x, DRAW_RANGE, lo, hi)
#define INTS(lo, hi, x) drawn(x, DRAW_INTS, lo, hi)
#define INDEX(n, x) drawn(x, DRAW_INTS, -(n), (n)-1)
#define SPECIAL(x) drawn(x, DRAW_SPECIAL, 0, 0)
#define TURNED(x) laid_out(x, LAYOUT_TURNED)
#define SLICED(x) laid_out(x, LAYOUT_SLICED)
#define FLIPPED(x) laid_out(x, LAYOUT_FLIPPED)
#define SPREAD(x) laid_out(x, LAYOUT_SPREAD)
#define OPTIONAL(x) optional(x)
#define FIXED(x) fixed(x)
/* IN is no macro of its own, so that its commas survive on the way. */
#define OPERANDS_IN(...)                                                                       \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

/* ---- arguments --------------------------------------------------------------------------- */

#define AXES(...) TP_DIMS(__VA_ARGS__)
#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define XS(...)                                                                                \
    (int)(sizeof((tp_tensor *[]){__VA_ARGS__}) / sizeof(tp_tensor *)),                         \
        ((tp_tensor *[]){__VA_ARGS__})
#define WINDOW(...) (&(const tp_window){__VA_ARGS__})
#define KERNEL(...) .kernel = {__VA_ARGS__}
#define STRIDE(...) .stride = {__VA_ARGS__}
#define PAD_LO(...) .pad_lo = {__VA_ARGS__}
#define PAD_HI(...) .pad_hi = {__VA_ARGS__}
#define DILATION(...) .dilation = {__VA_ARGS__}
#define GROUPS(n) .groups = (n)
#define COUNT_PAD .count_pad = true
#define LOSS(...) (&(const tp_loss_options){__VA_ARGS__})
#define REDUCTION(how) .reduction = (how)
#define AXIS(n) .axis = (n)
#define WEIGHTS(t) .weights = (t)
#define IGNORED(label) .ignores = true, .ignored = (label)
#define SMOOTHING(v) .smoothing = (v)
#define ATTENTION(...) (&(const tp_attention_options){__VA_ARGS__})
#define SCALE(v) .scale = (v)
#define SOFTCAP(v) .softcap = (v)
#define CAUSAL .causal = true
#define BEFORE(n) .before = (n)
#define AFTER(n) .after = (n)
#define MASK(t) .mask = (t)
#define LENGTHS(t) .lengths = (t)
#define PAST_KEY(t) .past_key = (t)
#define PAST_VALUE(t) .past_value = (t)

#define GATES(...) (&(const tp_recurrent){__VA_ARGS__})
#define ONE_OF(t, u) ((tp_recurrent){.w = (t), .r = (u)})
#define TWO(t, u, t_back, u_back)                                                              \
    ((const tp_recurrent[2]){ONE_OF(t, u), ONE_OF(t_back, u_back)})
#define OF_X(t) .w = (t)
#define OF_H(t) .r = (t)
#define BIAS(t) .wb = (t)
#define BIAS_H(t) .rb = (t)
#define PEEPHOLE(t) .peephole = (t)
#define OPTIONS(...) (&(const tp_recurrent_options){__VA_ARGS__})
#define BATCH_FIRST .batch_first = true
#define REVERSE .reverse = true
#define BOTH .both = true
#define RESET_BEFORE .reset_before = true
#define COUPLE .couple = true
#define CLIP(c) .clip = (c)
#define LENGTHS(t) .lengths = (t)
#define RELU_ALL .activation = relu_all
#define RESIZE(...) (&(const tp_resize_options){.mode = TP_INTERPOLATE_##__VA_ARGS__})
#define ALIGN_CORNERS .where = TP_ALIGN_CORNERS
#define ASYMMETRIC .where = TP_ASYMMETRIC
#define ROUND_DOWN .rounding = TP_ROUND_DOWN
#define ROUND_UP .rounding = TP_ROUND_UP
#define ROUND_HALF_UP .rounding = TP_ROUND_HALF_UP
#define ANTIALIAS .antialias = true
#define EXCLUDE_OUTSIDE .exclude_outside = true
#define A_HALF .cubic = -0.5

static tp_tensor *relu_all(void *user, int k, tp_tensor *x)
{
    (void)user;
    (void)k;
    return tp_relu(x);
}

/* y and the states after the last step, one after the other. */
static tp_tensor *ends_at(const char *file, int line, int n, tp_tensor **t)
{
    for (int i = 0; i < n; i++)
        t[i] = tp_flatten_at(file, line, t[i], 0);
    return tp_concat_at(file, line, n, t, 0);
}

static tp_tensor *rnn_all_at(const char *file, int line, tp_tensor *x, const tp_recurrent *w,
                             const tp_recurrent_options *opt, tp_tensor *h)
{
    tp_tensor *t[] = {NULL, h};
    t[0] = tp_rnn_at(file, line, x, w, opt, &t[1]);
    return ends_at(file, line, 2, t);
}
#define rnn_all(...) rnn_all_at(TP_PLACE, __VA_ARGS__)

static tp_tensor *gru_all_at(const char *file, int line, tp_tensor *x, const tp_recurrent *w,
                             const tp_recurrent_options *opt, tp_tensor *h)
{
    tp_tensor *t[] = {NULL, h};
    t[0] = tp_gru_at(file, line, x, w, opt, &t[1]);
    return ends_at(file, line, 2, t);
}
#define gru_all(...) gru_all_at(TP_PLACE, __VA_ARGS__)

static tp_tensor *lstm_all_at(const char *file, int line, tp_tensor *x, const tp_recurrent *w,
                              const tp_recurrent_options *opt, tp_tensor *h, tp_tensor *c)
{
    tp_tensor *t[] = {NULL, h, c};
    t[0] = tp_lstm_at(file, line, x, w, opt, &t[1], &t[2]);
    return ends_at(file, line, 3, t);
}
#define lstm_all(...) lstm_all_at(TP_PLACE, __VA_ARGS__)

static tp_tensor *lstm_cell_c_at(const char *file, int line, tp_tensor *x, tp_tensor *h,
                                 tp_tensor *c, const tp_recurrent *w,
                                 const tp_recurrent_options *opt)
{
    tp_tensor *t[] = {NULL, c};
    t[0] = tp_lstm_cell_at(file, line, x, h, &t[1], w, opt);
    return ends_at(file, line, 2, t);
}
#define lstm_cell_c(...) lstm_cell_c_at(TP_PLACE, __VA_ARGS__)

/* The parts of tp_split, joined again the other way round. */
static tp_tensor *parts_at(const char *file, int line, tp_tensor *x, int axis, int n,
                           const int64_t *sizes)
{
    tp_tensor *out[8], *turned[8];
    tp_split_at(file, line, x, axis, n, sizes, out);
    for (int i = 0; i < n; i++)
        turned[i] = out[n - 1 - i];
    return tp_concat_at(file, line, n, turned, axis);
}
#define parts(...) parts_at(TP_PLACE, __VA_ARGS__)

/* The results of tp_meshgrid, stacked. */
static tp_tensor *meshed_at(const char *file, int line, int n, tp_tensor *const *xs)
{
    tp_tensor *out[TP_MAX_RANK] = {0};
    tp_meshgrid_at(file, line, n, xs, out);
    return tp_stack_at(file, line, n, out, 0);
}
#define meshed(...) meshed_at(TP_PLACE, __VA_ARGS__)
/* What attention says of keys and values, side by side. */
static tp_tensor *presents_at(const char *file, int line, tp_tensor *q, tp_tensor *k,
                              tp_tensor *v, const tp_attention_options *options)
{
    tp_tensor *present[2], *y = tp_attention_at(file, line, q, k, v, options, present);
    return tp_failed(y) ? y : tp_concat_at(file, line, 2, present, 3);
}
#define presents(...) presents_at(TP_PLACE, __VA_ARGS__)

/* The op behind tp_contiguous, in graphs too, where that is x itself. */
static tp_tensor *copied_at(const char *file, int line, tp_tensor *x)
{
    return tpi_apply(TPI_AT(file, line), &tpi_op_copy, TPI_IN(x), NULL);
}
#define copied(...) copied_at(TP_PLACE, __VA_ARGS__)

/* What x is after tp_assign to a variable that was all 1: its value then. */
static tp_tensor *assigned_at(const char *file, int line, tp_tensor *x, const char *name)
{
    tp_ctx *tp = tp_ctx_of(x);
    if (!tp || tp_failed(x))
        return tp_square_at(file, line, x);
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < tp_rank(x); i++)
        shape[i] = tp_is_symbolic(x) && tpi_dim_is_symbolic(x->shape[i]) ? 3 : x->shape[i];
    tp_tensor *was = tp_full(tp, tp_dtype_of(x), tp_rank(x), shape, 1);
    tp_tensor *v = tp_variable(was, name);
    tp_tensor *now = tp_assign_at(file, line, v, x);
    return tp_where_at(file, line, tp_group_at(file, line, 1, &now),
                       tp_add_at(file, line, now, x), x);
}
#define assigned(...) assigned_at(TP_PLACE, __VA_ARGS__)

/* What tp_unique, or tp_unique_along an axis, has: elements, where each is first, kinds, counts. */
enum { ALL_AXES = 100 };
static tp_tensor *kinds_at(const char *file, int line, tp_tensor *x, int axis, int which)
{
    tp_tensor *of[4] = {0};
    of[0] = axis == ALL_AXES ? tp_unique_at(file, line, x, &of[1], &of[2], &of[3])
                             : tp_unique_along_at(file, line, x, axis, &of[1], &of[2], &of[3]);
    return of[which];
}
#define kinds(...) kinds_at(TP_PLACE, __VA_ARGS__)

/* In x sorted along its last axis. */
static tp_tensor *searched_at(const char *file, int line, tp_tensor *x, tp_tensor *v,
                              bool right)
{
    x = x ? tp_sort_at(file, line, x, -1, false) : x;
    return tp_searchsorted_at(file, line, x, v, right);
}
#define searched(...) searched_at(TP_PLACE, __VA_ARGS__)

/* x as rows that end at the places c, in any order, and at its own end. */
static tp_ragged cuts_at(const char *file, int line, tp_tensor *x, tp_tensor *c)
{
    if (!x || !c || tp_failed(x) || tp_failed(c) || tp_rank(x) == 0)
        return tp_ragged_new_at(file, line, x, c);
    const int64_t first = 0, one = 1;
    c = tp_cast_at(file, line, c, TP_I64);
    tp_tensor *end =
        tp_reshape_at(file, line, tp_extent_at(file, line, x, 1, &first, TP_I64), 1, &one);
    tp_tensor *part[] = {tp_sub_at(file, line, end, end), c, end};
    if (tp_ctx_of(x) == tp_ctx_of(c))
        part[1] = tp_sort_at(file, line, tp_min_at(file, line, c, end), 0, false);
    return tp_ragged_new_at(file, line, x, tp_concat_at(file, line, 3, part, 0));
}
#define cuts(...) cuts_at(TP_PLACE, __VA_ARGS__)

/* Values and offsets, one behind the other. */
static tp_tensor *pair_at(const char *file, int line, tp_ragged r)
{
    if (tp_failed(r.values) || tp_failed(r.offsets))
        return tp_failed(r.values) ? r.values : r.offsets;
    tp_tensor *part[] = {tp_flatten_at(file, line, r.values, 0),
                         tp_cast_at(file, line, r.offsets, tp_dtype_of(r.values))};
    return tp_concat_at(file, line, 2, part, 0);
}
#define pair(...) pair_at(TP_PLACE, __VA_ARGS__)

/* Rows through an LSTM: padded, and without padding again. */
static tp_tensor *lstm_of_rows_at(const char *file, int line, tp_ragged r,
                                  const tp_recurrent *w)
{
    tp_recurrent_options opt = {.batch_first = true,
                                .lengths = tp_ragged_lengths_at(file, line, r)};
    tp_tensor *padded = tp_ragged_pad_at(file, line, r, 0, 0);
    tp_tensor *y = tp_lstm_at(file, line, padded, w, &opt, NULL, NULL);
    return tp_ragged_unpad_at(file, line, y, r);
}
#define lstm_of_rows(...) lstm_of_rows_at(TP_PLACE, __VA_ARGS__)

/* By how much gamma numbers change with a. */
static tp_tensor *gamma_slope_at(const char *file, int line, tp_tensor *a)
{
    if (!tp_failed(a) && !tp_is_symbolic(a))
        a = tp_require_grad_at(file, line,
                               tp_contiguous_at(file, line, tp_detach_at(file, line, a)));
    tp_tensor *drawn = tp_gamma_at(file, line, a);
    return tp_detach_at(file, line, tp_grad_at(file, line, drawn, a));
}
#define gamma_slope(...) gamma_slope_at(TP_PLACE, __VA_ARGS__)

/* sqrt(a^2 + 1), whose gradient is of its own. */
static void smooth_abs_forward(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_sqrt(tp_add(tp_square(in[0]), 1));
}

static void smooth_abs_backward(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_mul(v->dout[0], tp_div(v->in[0], v->out[0]));
}

static tp_tensor *smooth_abs_at(const char *file, int line, tp_tensor *a)
{
    static const tp_custom rule = {
        .name = "custom", .forward = smooth_abs_forward, .backward = smooth_abs_backward};
    return tp_custom_apply_at(file, line, &rule, NULL, 1, &a);
}
#define smooth_abs(...) smooth_abs_at(TP_PLACE, __VA_ARGS__)

/* Of polar coordinates, r and an angle, the others, and the signs of r between them. */
static void polar_forward(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_mul(in[0], tp_cos(in[1]));
    out[1] = tp_cast(tp_sign(in[0]), TP_I32);
    out[2] = tp_mul(in[0], tp_sin(in[1]));
}

static void polar_backward(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] =
        tp_add(tp_mul(v->dout[0], tp_cos(v->in[1])), tp_mul(v->dout[2], tp_sin(v->in[1])));
    if (v->wanted[1])
        v->din[1] = tp_sub(tp_mul(v->dout[2], v->out[0]), tp_mul(v->dout[0], v->out[2]));
}

/* x * y + sign * y^2, or what only one result is used of. */
static tp_tensor *polar_at(const char *file, int line, tp_tensor *r, tp_tensor *angle, bool all)
{
    static const tp_custom rule = {
        .name = "custom", .forward = polar_forward, .backward = polar_backward};
    tp_tensor *of[3];
    if (tp_custom_call_at(file, line, &rule, NULL, 2, (tp_tensor *[]){r, angle}, 3, of) !=
            TP_OK ||
        !all)
        return of[2];
    tp_tensor *second = tp_mul_at(file, line, of[1], tp_square_at(file, line, of[2]));
    return tp_add_at(file, line, tp_mul_at(file, line, of[0], of[2]), second);
}
#define polar(...) polar_at(TP_PLACE, __VA_ARGS__)

/* Two draws like x from a stream, with one from stream 0 between them. */
static tp_tensor *from_stream_at(const char *file, int line, tp_tensor *x, uint64_t stream)
{
    tp_ctx *tp = tp_ctx_of(x);
    const bool whole = tp_dtype_of(x) == TP_I64;
    const int64_t most = (int64_t)1 << 39;
    tp_tensor *y[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t was = tp_random_stream_at(file, line, tp, i == 1 ? 0 : stream);
        y[i] = whole ? tp_randint_like_at(file, line, x, -3, i ? most : 9)
               : i   ? tp_normal_like_at(file, line, x, 0, i)
                     : tp_uniform_like_at(file, line, x, -1, 2);
        tp_random_stream_at(file, line, tp, was);
    }
    return tp_concat_at(file, line, 3, y, 0);
}
#define from_stream(...) from_stream_at(TP_PLACE, __VA_ARGS__)

/* (a + b) * a by a kernel of one's own, which its reference agrees with to the bit. */
#define GATED(t, type)                                                                         \
    case t:                                                                                    \
        for (int64_t i = 0; i < out->count; i++) {                                             \
            const type x = ((const type *)in[0].data)[i], y = ((const type *)in[1].data)[i];   \
            ((type *)out->data)[i] = (x + y) * x;                                              \
        }                                                                                      \
        return true;

static bool gated_compute(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in;
    switch ((int)out->dtype) {
        GATED(TP_F32, float)
        GATED(TP_F64, double)
        GATED(TP_I32, int32_t)
    default:
        return false;
    }
}

static tp_tensor *gated_reference(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_mul(tp_add(in[0], in[1]), in[0]);
}

static tp_tensor *gated_at(const char *file, int line, tp_tensor *a, tp_tensor *b)
{
    static const tp_kernel k = {.name = "own_kernel",
                                .compute = gated_compute,
                                .reference = gated_reference,
                                .check = true};
    tp_tensor *in[2] = {a, b};
    const bool good = a && b && !tp_failed(a);
    return tp_kernel_apply_at(file, line, &k, NULL, 2, in, good ? tp_dtype_of(a) : TP_F32,
                              good ? tp_rank(a) : 0, good ? a->shape : NULL);
}
#define gated(...) gated_at(TP_PLACE, __VA_ARGS__)

/* Uses a before, within and after a call. */
static tp_tensor *called_at(const char *file, int line, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *t = tp_sin_at(file, line, tp_mul_at(file, line, a, b)), *operands[3] = {t, a, b};
    tp_tensor *inner[2] = {tp_mul_at(file, line, tp_tanh_at(file, line, t), a)}, *out[2];
    inner[1] = tp_add_at(file, line, inner[0], tp_mul_at(file, line, t, b));
    tp_ctx *tp = tp_ctx_of(t);
    if (!tp || !tpi_call_tie(tp, TPI_AT(file, line), 1, 3, operands, 2, inner, out))
        return inner[1];
    return tp_add_at(file, line, tp_mul_at(file, line, out[0], out[1]), t);
}
#define called(...) called_at(TP_PLACE, __VA_ARGS__)

/* Matrices that can be factored, of a that may be any: f a plus the unit matrix; a a' plus it. */
static tp_tensor *and_unit_at(const char *file, int line, tp_tensor *a, double f)
{
    if (tp_failed(a))
        return a;
    tp_tensor *some = tp_mul_at(file, line, a, tp_scalar_like_at(file, line, a, f));
    return tp_add_at(file, line, some, tpi_unit(TPI_AT(file, line), a));
}
#define away(a) and_unit_at(TP_PLACE, a, 0.25)
#define small(a) and_unit_at(TP_PLACE, a, 1.0 / 64)

static tp_tensor *definite_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *s = tp_matmul_at(file, line, a, tp_swap_at(file, line, a, -2, -1));
    return and_unit_at(file, line, s, 1);
}
#define definite(a) definite_at(TP_PLACE, a)

/* Several results as one. */
static tp_tensor *factors_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *lu, *rows;
    tp_lu_at(file, line, a, &lu, &rows);
    rows = tp_unsqueeze_at(file, line, rows, -1);
    return tp_add_at(file, line, lu, rows);
}
#define factors(a) factors_at(TP_PLACE, a)

static tp_tensor *sign_and_log_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *both[2];
    tp_slogdet_at(file, line, a, &both[0], &both[1]);
    return tp_stack_at(file, line, 2, both, 0);
}
#define sign_and_log(a) sign_and_log_at(TP_PLACE, a)

/* Squares of all elements of some results, in a row: signs of vectors do not matter. */
static tp_tensor *squares_at(const char *file, int line, int n, tp_tensor *const *x)
{
    tp_tensor *flat[3];
    for (int i = 0; i < n; i++)
        flat[i] = tp_flatten_at(file, line, tp_square_at(file, line, x[i]), 0);
    return tp_concat_at(file, line, n, flat, 0);
}

static tp_tensor *q_and_r_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *x[2];
    tp_qr_at(file, line, a, &x[0], &x[1]);
    return squares_at(file, line, 2, x);
}
#define q_and_r(a) q_and_r_at(TP_PLACE, a)

static tp_tensor *eigen_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *x[2];
    tp_eigh_at(file, line, a, &x[0], &x[1]);
    return squares_at(file, line, 2, x);
}
#define eigen(a) eigen_at(TP_PLACE, a)

static tp_tensor *values_of_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *w, *v;
    tp_eigh_at(file, line, a, &w, &v);
    return w;
}
#define values_of(a) values_of_at(TP_PLACE, a)

static tp_tensor *singular_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *x[3];
    tp_svd_at(file, line, a, &x[0], &x[1], &x[2]);
    return squares_at(file, line, 3, x);
}
#define singular(a) singular_at(TP_PLACE, a)

static tp_tensor *rebuilt_at(const char *file, int line, tp_tensor *a)
{
    tp_tensor *u, *s, *vt;
    tp_svd_at(file, line, a, &u, &s, &vt);
    tp_tensor *scaled = tp_mul_at(file, line, u, tp_unsqueeze_at(file, line, s, -2));
    return tp_matmul_at(file, line, scaled, vt);
}
#define rebuilt(a) rebuilt_at(TP_PLACE, a)

static tp_tensor *symmetric_at(const char *file, int line, tp_tensor *a)
{
    return tp_add_at(file, line, a, tp_swap_at(file, line, a, -2, -1));
}
#define symmetric(a) symmetric_at(TP_PLACE, a)

/* ---- the table --------------------------------------------------------------------------- */

typedef tp_tensor *(*of_1)(const char *, int, tp_tensor *);
typedef tp_tensor *(*of_2)(const char *, int, tp_tensor *, tp_tensor *);
typedef tp_tensor *(*of_3)(const char *, int, tp_tensor *, tp_tensor *, tp_tensor *);

static tp_tensor *call_1(of_1 f, const char *file, int line, tp_tensor *const *x)
{
    return f(file, line, x[0]);
}

static tp_tensor *call_2(of_2 f, const char *file, int line, tp_tensor *const *x)
{
    return f(file, line, x[0], x[1]);
}

static tp_tensor *call_3(of_3 f, const char *file, int line, tp_tensor *const *x)
{
    return f(file, line, x[0], x[1], x[2]);
}

#define PLAIN_CALL(op)                                                                         \
    _Generic(tp_##op##_at, of_1                                                                \
             : call_1, of_2                                                                    \
             : call_2, of_3                                                                    \
             : call_3)(tp_##op##_at, TP_PLACE, x)
#define GIVEN_CALL(op, call) call
#define PICK(none, call, macro, ...) macro
#define CALL(op, ...) PICK(op, ##__VA_ARGS__, GIVEN_CALL, PLAIN_CALL, )(op, ##__VA_ARGS__)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define UNUSED __attribute__((unused))

#define CASE(op, operands, ...)                                                                \
    static void JOIN(spec_, __LINE__)(case_operand * in)                                       \
    {                                                                                          \
        const case_operand list[CASE_MAX_IN] = OPERANDS_##operands;                            \
        memcpy(in, list, sizeof list);                                                         \
    }                                                                                          \
    static tp_tensor *JOIN(call_at_, __LINE__)(UNUSED tp_ctx * tp, tp_tensor *const *x)        \
    {                                                                                          \
        UNUSED tp_tensor *const a = x[0], *const b = x[1], *const c = x[2], *const d = x[3],   \
                                *const e = x[4];                                               \
        return CALL(op, ##__VA_ARGS__);                                                        \
    }
#define FAILS(status, op, operands, ...) CASE(op, operands, ##__VA_ARGS__)
#include "cases.def"
#undef CASE
#undef FAILS

static op_case table[] = {
#define ROW(op, text, status)                                                                  \
    {op, text, __LINE__, status, JOIN(spec_, __LINE__), JOIN(call_at_, __LINE__), "", 0, {{0}}},
#define CASE(op, operands, ...) ROW(#op, #__VA_ARGS__, TP_OK)
#define FAILS(status, op, operands, ...) ROW(#op, #__VA_ARGS__, status)
#include "cases.def"
};

op_case *case_list(int *n)
{
    *n = sizeof table / sizeof *table;
    for (int i = 0; i < *n; i++) {
        op_case *c = &table[i];
        int nth = 1;
        for (int k = 0; k < i; k++)
            nth += strcmp(table[k].op, c->op) == 0;
        snprintf(c->name, sizeof c->name, "%s/%d", c->op, nth);
        c->spec(c->in);
        for (c->n_in = 0; c->n_in < CASE_MAX_IN && c->in[c->n_in].present;)
            c->n_in++;
    }
    return table;
}
