/* The kinds of steps of random programs. Values are f32; other types are inside of steps. */
#include "random_program.h"
#include "tapir/indexing.h"
#include "tapir/linalg.h"
#include "tapir/random.h"

#include <string.h>

typedef tp_tensor *(*unary)(const char *file, int line, tp_tensor *x);
typedef tp_tensor *(*binary)(const char *file, int line, tp_tensor *a, tp_tensor *b);
typedef tp_tensor *(*reduction)(const char *file, int line, tp_tensor *x, int n_axes,
                                const int64_t *axes, bool keep);

/* tanh, with a gradient of its own. */
static void tanh_forward(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_tanh(in[0]);
}

static void tanh_backward(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_mul(v->dout[0], tp_sub(1, tp_square(v->out[0])));
}

static tp_tensor *own_tanh_at(const char *file, int line, tp_tensor *x)
{
    static const tp_custom rule = {
        .name = "own_tanh", .forward = tanh_forward, .backward = tanh_backward};
    return tp_custom_apply_at(file, line, &rule, NULL, 1, &x);
}

static const unary unaries[] = {tp_neg_at,  tp_abs_at,   tp_relu_at,   tp_sigmoid_at,
                                tp_sin_at,  tp_cos_at,   tp_square_at, tp_gelu_at,
                                tp_silu_at, tp_sign_at,  tp_erf_at,    tp_floor_at,
                                tp_ceil_at, tp_round_at, tp_detach_at};
static const unary positives[] = {tp_log_at, tp_sqrt_at, tp_rsqrt_at}; /* of what is above 1 */
static const binary binaries[] = {tp_add_at, tp_sub_at, tp_mul_at, tp_min_at, tp_max_at};
static const binary comparisons[] = {tp_lt_at, tp_le_at, tp_gt_at,
                                     tp_ge_at, tp_eq_at, tp_ne_at};
static const binary logic[] = {tp_and_at, tp_or_at, tp_xor_at};
static const binary of_integers[] = {tp_add_at, tp_sub_at, tp_mul_at, tp_div_at, tp_mod_at,
                                     tp_min_at, tp_max_at, tp_and_at, tp_or_at,  tp_xor_at};
static const tp_dtype integers[] = {TP_I8, TP_I16, TP_I32, TP_I64,
                                    TP_U8, TP_U16, TP_U32, TP_U64};
static const reduction reductions[] = {tp_sum_at, tp_mean_at, tp_reduce_max_at,
                                       tp_reduce_min_at, tp_prod_at};

#define N_OF(a) (sizeof(a) / sizeof *(a))
#define PICK(a, i) (a)[(uint64_t)(i) % N_OF(a)]

enum {
    UNARY,
    POSITIVE,
    BINARY,
    DIVIDE,
    CHOOSE,
    SCALE,
    POWER,
    REDUCE,
    NORMALISE,
    RUNNING,
    TRANSPOSE,
    SLICE,
    FLIP,
    FLATTEN,
    NEW_AXIS,
    STRETCH,
    SELECT,
    JOIN,
    STACK,
    PAD,
    MATMUL,
    GRAM,
    GATHER,
    SCATTER,
    CASTS,
    GREATEST,
    SORT,
    ALONG,
    RECUR,
    AS_F64,
    AS_INTEGERS,
    AS_BOOL,
    DRAW,
    LABELS,
    EXTENT,
    WINDOW,
    BRANCH,
    WHILE,
    ROWS,
    CELL,
    N_KINDS
};

/* A number that is small in any type, and not 0. */
static tp_tensor *as_integer(tp_tensor *x, tp_dtype t)
{
    tp_tensor *y = tp_cast(tp_mul(tp_tanh(x), tp_scalar_like(x, 20)), t);
    return tp_where(tp_eq(y, tp_scalar_like(y, 0)), tp_scalar_like(y, 3), y);
}

static tp_tensor *in_integers(const step *s, tp_tensor *a, tp_tensor *b)
{
    const tp_dtype t = PICK(integers, s->i);
    tp_tensor *x = as_integer(a, t), *y = as_integer(b, t);
    tp_tensor *z = PICK(of_integers, s->j)(__FILE__, __LINE__, x, y);
    const int last = tp_rank(z) - 1;
    if (s->i & 8)
        z = tp_sub(tp_not(z), tp_neg(tp_abs(x)));
    if (s->i & 16)
        z = tp_cumsum(z, last < 0 ? 0 : last, false, false);
    if (s->i & 32)
        z = s->j & 16 ? tp_prod(z, TP_DIMS(-1), true) : tp_sum(z, TP_DIMS(0), true);
    return tp_cast(tp_mod(z, tp_scalar_like(z, 100)), TP_F32);
}

static tp_tensor *in_f64(const step *s, tp_tensor *a, tp_tensor *b)
{
    a = tp_cast(a, TP_F64);
    b = tp_cast(b, TP_F64);
    tp_tensor *y = s->i & 1   ? PICK(binaries, s->j)(__FILE__, __LINE__, a, b)
                   : s->i & 2 ? tp_matmul(a, b)
                   : s->i & 4
                       ? tp_sum(tp_exp(tp_neg(tp_abs(a))), TP_DIMS(s->j & 1 ? 0 : -1), true)
                   : s->i & 8 ? tp_softmax(a, -1)
                              : PICK(unaries, s->j)(__FILE__, __LINE__, a);
    return tp_cast(y, TP_F32);
}

/* Places along an axis, by sorting, and what is there. */
static tp_tensor *along(const step *s, tp_tensor *a, int axis)
{
    tp_tensor *places = tp_argsort(s->i & 8 ? a : tp_sin(a), axis, s->j & 1);
    if (s->j & 4)
        places = tp_argtopk(a, axis, 1 + (s->i & 1), s->j & 8);
    tp_tensor *taken = tp_take_along(a, places, axis);
    return s->j & 2 ? tp_put_along_add(s->j & 16 ? tp_neg(a) : a, places, taken, axis) : taken;
}

static tp_tensor *noisy(const step *s, tp_tensor *a)
{
    if (s->j & 1)
        return tp_dropout(a, 0.25);
    if (s->j & 8) /* constants to gradients, of which a second one would be refused */
        return s->j & 2 ? tp_mul(a, tp_gamma(tp_detach(tp_exp(tp_clip(a, -3, 3)))))
                        : tp_add(a, tp_cast(tp_randint_like(tp_cast(a, TP_I64), -3, 4),
                                            tp_dtype_of(a)));
    tp_tensor *noise = s->j & 2 ? tp_normal_like(a, 0, 0.5) : tp_uniform_like(a, -1, 1);
    return s->j & 4 ? tp_add(a, noise) : tp_mul(a, noise);
}

static tp_tensor *drawn(const step *s, tp_tensor *a)
{
    static const uint64_t streams[4] = {0, 0, 5, (uint64_t)1 << 40};
    tp_ctx *tp = tp_ctx_of(a);
    const uint64_t was = tp_random_stream(tp, streams[s->i & 3]);
    tp_tensor *y = noisy(s, a);
    tp_random_stream(tp, was);
    return y;
}

static tp_tensor *labelled(const step *s, tp_tensor *a)
{
    if (tp_rank(a) != 2)
        return NULL;
    tp_tensor *labels = tp_argmin(tp_sin(a), 1, false);
    return tp_mul(tp_cross_entropy(a, labels), tp_scalar_like(a, 1 + (double)(s->i & 3)));
}

/* a a' / 8 + 1 of an a between -1 and 1, which is positive definite. */
static tp_tensor *definite(tp_tensor *a)
{
    tp_tensor *in = tp_where(tp_isfinite(a), tp_tanh(a), 0.5);
    tp_tensor *square = tp_mul(tp_matmul(in, tp_swap(in, -1, -2)), 0.125);
    const int64_t m = tp_dim(square, -1);
    return tp_add(square, tp_diag(tp_broadcast(tp_scalar_like(a, 1), TP_DIMS(m)), 0));
}

/* Several at a time, so that few programs have all of them. */
static tp_tensor *of_matrices(const step *s, tp_tensor *a)
{
    tp_tensor *x = definite(a), *first = x, *second = x, *third = x, *b = tp_tanh(x);
    if (s->i & 1) {
        tp_tensor *y =
            tp_solve_triangular(tp_cholesky(x, s->j & 1), b, s->j & 1, s->j & 2, false);
        y = tp_add(y, tp_solve(x, b));
        return tp_mul(y, tp_unsqueeze(tp_unsqueeze(tp_det(x), -1), -1));
    }
    tp_qr(x, &first, &second);
    tp_tensor *y = tp_add(second, tp_lstsq(x, b, 1e-6));
    tp_eigh(x, &first, &second);
    y = tp_add(y, tp_unsqueeze(first, -1));
    tp_svd(x, &first, &second, &third);
    return tp_add(y, tp_unsqueeze(second, -1));
}

/* Along axes whose lengths are numbers also where other sizes are not. */
static tp_tensor *transformed(const step *s, tp_tensor *a, tp_tensor *b)
{
    if (tp_rank(a) > 3)
        return NULL;
    tp_tensor *real = tp_stack(4, (tp_tensor *[]){a, b, a, b}, -1);
    tp_tensor *there = tp_rfft(real, -1);
    tp_tensor *y = s->i & 1 ? tp_ifft(there, -2) : tp_fft(there, -2);
    tp_tensor *back = tp_irfft(tp_mul(there, y), -2, 4);
    return tp_add(tp_select(back, -1, 1), tp_select(tp_select(y, -1, s->i & 2 ? 1 : 0), -1, 1));
}

/* Exponentials and logarithms, of what keeps their values small; two at a time, so that few programs have all. */
static tp_tensor *steep(const step *s, tp_tensor *a)
{
    tp_tensor *small = tp_tanh(a), *above = tp_abs(a);
    switch (s->i % 3) {
    case 0:
        return tp_add(tp_expm1(small), tp_log1p(above));
    case 1:
        return tp_sub(tp_exp2(small), tp_erfinv(tp_mul(small, 0.875)));
    default:
        above = tp_add(above, 1.25);
        return tp_mul(tp_log2(above), tp_log10(above));
    }
}

tp_tensor *step_apply(const step *s, tp_tensor *const *v)
{
    tp_tensor *a = v[s->a], *b = v[s->b], *c = v[s->c];
    tp_ctx *tp = tp_ctx_of(a);
    const int rank = tp_rank(a);
    const int axis = rank ? (int)((uint64_t)s->i % (uint64_t)rank) : 0;
    const bool back = s->j & 1, odd = s->j & 2;
    int64_t list[TP_MAX_RANK], other[TP_MAX_RANK] = {0};
    int n = 0;
    switch (s->kind) {
    case UNARY:
        if ((s->j & 28) == 24)
            return own_tanh_at(__FILE__, __LINE__, a);
        if ((s->j & 28) == 28)
            return steep(s, a);
        return PICK(unaries, s->i)(__FILE__, __LINE__, a);
    case POSITIVE:
        return PICK(positives, s->i)(__FILE__, __LINE__,
                                     tp_add(tp_abs(a), tp_scalar_like(a, 1.25)));
    case BINARY:
        return PICK(binaries, s->i)(__FILE__, __LINE__, a, b);
    case DIVIDE:
        return tp_div(a, tp_add(tp_abs(b), tp_scalar_like(b, 0.5)));
    case CHOOSE:
        return tp_where(PICK(comparisons, s->i)(__FILE__, __LINE__, a, b), b, c);
    case SCALE:
        return odd ? tp_add(a, tp_scalar_like(a, (double)(s->i % 7) * 0.25 - 0.5))
                   : tp_mul(tp_scalar_like(a, (double)(s->i % 5) * 0.5 - 1), a);
    case POWER:
        if (s->j & 4)
            return back ? tp_pow(tp_add(tp_abs(a), tp_scalar_like(a, 0.5)), tp_tanh(b))
                        : tp_mod(a, tp_add(tp_abs(b), tp_scalar_like(b, 0.5)));
        return odd ? tp_exp(tp_neg(tp_abs(a)))
                   : tp_sqrt(tp_add(tp_square(a), tp_scalar_like(a, 1)));
    case REDUCE:
        for (int k = 0; k < rank; k++)
            if ((s->i >> k) & 1)
                list[n++] = k;
        return PICK(reductions, s->j >> 2)(__FILE__, __LINE__, a, n, list, back);
    case NORMALISE:
        if (rank == 0)
            return NULL;
        return odd    ? tp_softmax(a, axis)
               : back ? tp_log_softmax(a, axis)
                      : tp_layer_norm(a, NULL, NULL, 1e-3);
    case RUNNING:
        if (rank == 0)
            return NULL;
        if ((s->j & 12) == 12)
            return tp_take_along(a, odd ? tp_argcummax(a, axis) : tp_argcummin(a, axis), axis);
        if ((s->j & 12) == 8)
            return odd ? tp_cummax(a, axis) : tp_cummin(a, axis);
        return tp_cumsum(tp_tanh(a), axis, back, odd);
    case TRANSPOSE:
        for (int k = 0; k < rank; k++)
            list[k] = (k + axis) % rank;
        return back && rank > 1 ? tp_swap(a, 0, axis) : tp_transpose(a, rank, list);
    case SLICE:
        if (rank == 0)
            return NULL;
        return back ? tp_slice(a, axis, odd, TP_END, 1 + (s->j >> 2) % 3)
                    : tp_slice(a, axis, 0, -1, 1);
    case FLIP:
        list[0] = axis;
        return rank ? tp_flip(a, 1, list) : NULL;
    case FLATTEN:
        return tp_flatten(a, axis);
    case NEW_AXIS:
        return rank < 4 ? tp_unsqueeze(a, axis) : NULL;
    case STRETCH: /* a new first axis, or one of size 1, has size 3 */
        if (rank > 3)
            return NULL;
        list[0] = 3;
        for (int k = 0; k < rank; k++)
            list[k + 1] = tp_dim(a, k);
        return tp_broadcast(a, rank + 1, list);
    case SELECT:
        return rank ? tp_select(a, axis, back ? -1 : 0) : NULL;
    case JOIN:
        return rank ? tp_concat(2 + odd, (tp_tensor *[]){a, b, a}, axis) : NULL;
    case STACK:
        return rank < 4 ? tp_stack(2, (tp_tensor *[]){a, b}, axis) : NULL;
    case PAD:
        if (rank == 0)
            return NULL;
        memset(list, 0, sizeof list);
        list[axis] = 1 + back;
        other[axis] = odd;
        return tp_pad(a, rank, list, other, 0.25);
    case MATMUL:
        return tp_matmul(a, b);
    case GRAM:
        if (s->j & 4)
            return s->j & 8 ? transformed(s, a, b) : rank > 1 ? of_matrices(s, a) : NULL;
        return rank > 1 ? tp_mul(tp_matmul(a, tp_swap(a, -1, -2)), tp_scalar_like(a, 0.125))
                        : NULL;
    case GATHER:
        if (rank == 0)
            return NULL;
        return tp_gather(a, tp_tensor_new(tp, TP_I64, 1, (int64_t[]){3}, (int64_t[]){0, -1, 0}),
                         axis);
    case SCATTER: {
        if (rank == 0)
            return NULL;
        tp_tensor *places = tp_tensor_new(tp, TP_I32, 1, (int64_t[]){2}, (int32_t[]){-1, 0});
        tp_tensor *rows = tp_mul(tp_gather(a, places, axis), tp_scalar_like(a, 0.5));
        if (s->j & 4)
            return s->j & 8 ? tp_scatter_max(a, places, rows, axis)
                   : odd    ? tp_scatter_min(a, places, rows, axis)
                            : tp_scatter_mul(a, places, rows, axis);
        return odd ? tp_scatter(a, places, rows, axis) : tp_scatter_add(a, places, rows, axis);
    }
    case CASTS:
        return odd    ? tp_cast(tp_mul(tp_cast(a, TP_F64), tp_scalar(tp, TP_F64, 0.7)), TP_F32)
               : back ? tp_cast(tp_cast(a, TP_I32), TP_F32)
                      : tp_cast(tp_cast(a, TP_BOOL), TP_F32);
    case GREATEST:
        if (rank == 0)
            return NULL;
        return tp_one_hot(odd ? tp_argmax(a, axis, false) : tp_argmin(a, axis, back), 3,
                          TP_F32);
    case SORT:
        return rank ? tp_sort(a, axis, back) : NULL;
    case ALONG:
        return rank ? along(s, a, axis) : NULL;
    case RECUR:
        return rank ? tp_recur(tp_sigmoid(a), tp_tanh(a), axis, back) : NULL;
    case AS_F64:
        return in_f64(s, a, b);
    case AS_INTEGERS:
        return in_integers(s, a, b);
    case AS_BOOL:
        return tp_where(tp_not(PICK(logic, s->i)(__FILE__, __LINE__, tp_gt(a, b), tp_le(a, c))),
                        a, odd ? c : b);
    case DRAW:
        return drawn(s, a);
    case LABELS:
        return labelled(s, a);
    case EXTENT:
        return rank ? tp_div(a, tp_extent(a, TP_DIMS(axis), TP_F32)) : NULL;
    case WINDOW:
        return window_step(s->i, s->j, a, b);
    case BRANCH:
        return branch_step(s->i, s->j, a, b);
    case WHILE:
        return while_step(s->i, s->j, a, b);
    case ROWS:
        return rows_step(s->i, s->j, a, b);
    case CELL:
        return cell_step(s->i, s->j, a, b);
    default:
        return NULL;
    }
}

const int n_step_kinds = N_KINDS;

bool step_is_costly(const step *s)
{
    static const int costly[] = {MATMUL, GRAM,  SCATTER, GATHER, WINDOW,
                                 BRANCH, WHILE, ROWS,    CELL,   ALONG};
    for (size_t i = 0; i < N_OF(costly); i++)
        if (s->kind == costly[i])
            return true;
    return false;
}

unsigned step_reads(const step *s)
{
    switch (s->kind) {
    case BINARY:
    case DIVIDE:
    case JOIN:
    case STACK:
    case MATMUL:
    case AS_INTEGERS:
    case BRANCH:
    case WHILE:
    case ROWS:
        return 1 | 2;
    case CELL:
        return (s->j & 12) == 8 ? 1 : 1 | 2;
    case CHOOSE:
    case AS_BOOL:
        return 1 | 2 | 4;
    case POWER:
        return s->j & 4 ? 1 | 2 : 1;
    case GRAM:
        return (s->j & 12) == 12 ? 1 | 2 : 1;
    case AS_F64:
        return s->i & 3 ? 1 | 2 : 1;
    case ALONG:
        return (s->j & 18) == 18 ? 1 | 4 : 1;
    case WINDOW:
        return (s->j >> 3) % 4 ? 1 | 2 : 1;
    default:
        return 1;
    }
}

bool step_is_block(const step *s)
{
    return s->kind == BRANCH || s->kind == WHILE || s->kind == ROWS || s->kind == CELL;
}
