#include "random_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(0x2545f4914f6cdd1d);
}

static int below(uint64_t *s, int n)
{
    return (int)(next(s) >> 33) % n;
}

/* ---- steps ------------------------------------------------------------------------------- */

typedef tp_tensor *(*unary)(const char *file, int line, tp_tensor *x);
typedef tp_tensor *(*binary)(const char *file, int line, tp_tensor *a, tp_tensor *b);
typedef tp_tensor *(*reduction)(const char *file, int line, tp_tensor *x, int n_axes,
                                const int64_t *axes, bool keep);

static const unary unaries[] = {tp_neg_at,  tp_abs_at, tp_relu_at,   tp_tanh_at,  tp_sigmoid_at,
                                tp_sin_at,  tp_cos_at, tp_square_at, tp_gelu_at,  tp_silu_at,
                                tp_sign_at, tp_erf_at, tp_floor_at,  tp_detach_at};
static const binary binaries[] = {tp_add_at, tp_sub_at, tp_mul_at, tp_min_at, tp_max_at};
static const binary comparisons[] = {tp_lt_at, tp_ge_at, tp_eq_at};
static const reduction reductions[] = {tp_sum_at, tp_mean_at, tp_reduce_max_at,
                                       tp_reduce_min_at, tp_prod_at};

#define N_OF(a) (sizeof(a) / sizeof *(a))
#define PICK(a, i) (a)[(uint64_t)(i) % N_OF(a)]

enum {
    UNARY,
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
    N_KINDS
};

/* NULL: the step does not fit these values. */
static tp_tensor *apply(const step *s, tp_tensor *const *v)
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
        return PICK(unaries, s->i)(__FILE__, __LINE__, a);
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
    default:
        return NULL;
    }
}

/* ---- making ------------------------------------------------------------------------------ */

enum { MOST_ELEMENTS = 3000 };

/* Finite and small, so that bits tell something; and not too many. */
static bool is_useful(tp_tensor *t)
{
    if (tp_failed(t) || tp_rank(t) > 4 || tp_count(t) > MOST_ELEMENTS || tp_count(t) == 0 ||
        tp_dtype_of(t) != TP_F32)
        return false;
    const float *v = tp_data(tp_contiguous(t));
    for (int64_t i = 0; v && i < tp_count(t); i++)
        if (!(fabsf(v[i]) < 1e4f))
            return false;
    return v;
}

static bool is_costly(const step *s)
{
    return s->kind == MATMUL || s->kind == GRAM || s->kind == SCATTER || s->kind == GATHER;
}

void program_make(tp_ctx *tp, uint64_t seed, program *p)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 17, 70};
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 77;
    for (int i = 0; i < 16; i++)
        next(&s);
    *p = (program){.seed = seed, .gradients = true};
    p->n_inputs = 2 + below(&s, MAX_INPUTS - 1);
    const int64_t common[2] = {sizes[1 + below(&s, 5)], sizes[below(&s, 8)]};
    for (int i = 0; i < p->n_inputs; i++) {
        p->rank[i] = 1 + below(&s, 3);
        for (int k = 0; k < p->rank[i]; k++) {
            const int from_end = p->rank[i] - 1 - k;
            p->shape[i][k] =
                from_end < 2 && below(&s, 4) ? common[from_end] : sizes[below(&s, 6)];
        }
    }
    tp_tensor *v[MAX_VALUES];
    program_inputs(tp, p, v);
    const int want = 20 + below(&s, 20);
    int n = p->n_inputs;
    for (int tries = 0; p->n_steps < want && tries < 1000; tries++) {
        step t = {.kind = below(&s, N_KINDS), .i = below(&s, 64), .j = below(&s, 64)};
        t.a = below(&s, 3) ? n - 1 - below(&s, n < 6 ? n : 6) : below(&s, n);
        t.b = below(&s, n);
        t.c = below(&s, n);
        if (is_costly(&t) && below(&s, 2))
            continue;
        tp_tensor *y = apply(&t, v);
        const bool useful = y && is_useful(y);
        tp_clear_error(tp);
        if (!useful)
            continue;
        p->steps[p->n_steps++] = t;
        v[n++] = y;
    }
    p->n_wanted = MAX_WANTED;
    for (int i = 0; i < MAX_WANTED; i++)
        p->wanted[i] = n - 1 - i * (1 + below(&s, 4));
    program_trim(p);
}

void program_inputs(tp_ctx *tp, const program *p, tp_tensor **in)
{
    uint64_t s = p->seed + 12345;
    for (int i = 0; i < p->n_inputs; i++) {
        float data[MOST_ELEMENTS + 70 * 17 * 17] = {0};
        int64_t n = 1;
        for (int k = 0; k < p->rank[i]; k++)
            n *= p->shape[i][k];
        for (int64_t k = 0; k < n; k++)
            data[k] = (float)(int64_t)next(&s) * 0x1p-62f;
        in[i] = tp_tensor_new(tp, TP_F32, p->rank[i], p->shape[i], data);
        if (next(&s) >> 63) /* turned in memory */
            in[i] = tp_transpose(tp_contiguous(tp_transpose(in[i], TP_ALL)), TP_ALL);
        tp_require_grad(in[i]);
    }
}

int program_run(const program *p, tp_tensor *const *in, tp_tensor **out)
{
    tp_tensor *v[MAX_VALUES], *loss = NULL;
    memcpy(v, in, sizeof *v * (size_t)p->n_inputs);
    for (int i = 0; i < p->n_steps; i++)
        v[p->n_inputs + i] = apply(&p->steps[i], v);
    for (int i = 0; i < p->n_wanted; i++) {
        out[i] = v[p->wanted[i]];
        tp_tensor *mean = tp_mean(tp_mul(out[i], tp_sigmoid(out[i])), TP_ALL, false);
        loss = loss ? tp_add(loss, mean) : mean;
    }
    if (!p->gradients)
        return p->n_wanted;
    tp_grads(loss, NULL, p->n_inputs, in, out + p->n_wanted);
    return p->n_wanted + p->n_inputs;
}

void program_trim(program *p)
{
    bool needed[MAX_VALUES] = {false};
    int place[MAX_VALUES], n = 0;
    for (int i = 0; i < p->n_wanted; i++)
        needed[p->wanted[i]] = true;
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const step *s = &p->steps[i];
        if (needed[p->n_inputs + i])
            needed[s->a] = needed[s->b] = needed[s->c] = true;
    }
    for (int i = 0; i < p->n_inputs; i++)
        place[i] = i;
    for (int i = 0; i < p->n_steps; i++) {
        if (!needed[p->n_inputs + i])
            continue;
        const step s = p->steps[i];
        place[p->n_inputs + i] = p->n_inputs + n;
        p->steps[n] = s;
        p->steps[n].a = place[s.a];
        p->steps[n].b = place[s.b];
        p->steps[n++].c = place[s.c];
    }
    for (int i = 0; i < p->n_wanted; i++)
        p->wanted[i] = place[p->wanted[i]];
    p->n_steps = n;
}
