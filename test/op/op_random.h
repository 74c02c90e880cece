/* Random operands in random layouts, and gradients against differences. */
#ifndef TAPIR_OP_RANDOM_H
#define TAPIR_OP_RANDOM_H

#include "common/unit.h"
#include "tapir/grad.h"

#include <inttypes.h>
#include <math.h>

static inline int64_t random_int(uint64_t *s, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(unit_random(s) % (uint64_t)(hi - lo + 1));
}

static inline double random_unit(uint64_t *s)
{
    return (double)(int64_t)unit_random(s) * 0x1p-63;
}

/* The same elements (of `size` bytes each) row-major in `data`, laid out by chance: packed, with
 * two axes turned, backwards or with gaps. */
static inline tp_tensor *random_layout(tp_ctx *tp, uint64_t *s, tp_dtype dtype, int rank,
                                       const int64_t *shape, const void *data)
{
    tp_tensor *x = tp_tensor_new(tp, dtype, rank, shape, data);
    if (rank == 0)
        return x;
    const int i = (int)random_int(s, 0, rank - 1), j = (int)random_int(s, 0, rank - 1);
    const int64_t axis = i;
    switch (random_int(s, 0, 3)) {
    case 0:
        return tp_swap(tp_contiguous(tp_swap(x, i, j)), i, j);
    case 1:
        return tp_flip(tp_contiguous(tp_flip(x, 1, &axis)), 1, &axis);
    case 2: {
        tp_tensor *pair[] = {x, x};
        return tp_select(tp_stack(2, pair, i), i, 1);
    }
    default:
        return x;
    }
}

static inline tp_tensor *random_f64(tp_ctx *tp, uint64_t *s, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    double *v = calloc((size_t)(n ? n : 1), sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = random_unit(s);
    tp_tensor *x = random_layout(tp, s, TP_F64, rank, shape, v);
    free(v);
    return x;
}

/* ---- gradients ----------------------------------------------------------------------------------- */

typedef struct grad_of {
    tp_checked_function f;
    void *user;
} grad_of;

/* Weighs the elements of f by fixed numbers and adds them up. */
static inline tp_tensor *weighed(tp_ctx *tp, tp_tensor *y)
{
    uint64_t s = 4711;
    const int64_t n = tp_count(y);
    double *v = calloc((size_t)(n ? n : 1), sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = random_unit(&s);
    tp_tensor *w = tp_tensor_new(tp, TP_F64, TP_DIMS(n), v);
    free(v);
    return tp_sum(tp_mul(tp_reshape(y, 1, &n), w), TP_ALL, false);
}

/* The gradients of the weighed sum of f, all in one vector: a function for the second gradient. */
static inline tp_tensor *gradients(void *user, int n, tp_tensor *const *xs)
{
    const grad_of *of = user;
    tp_tensor *dx[8], *y = weighed(tp_ctx_of(xs[0]), of->f(of->user, n, xs));
    if (tp_grads(y, NULL, n, xs, dx) != TP_OK)
        return tp_failed(y) ? y : dx[0];
    for (int i = 0; i < n; i++)
        dx[i] = tp_flatten(dx[i], 0);
    return tp_concat(n, dx, 0);
}

static inline void check_once(tp_ctx *tp, const char *what, tp_checked_function f, void *user,
                              int n, tp_tensor *const *xs)
{
    const double h = 0x1p-13;
    tp_tensor *leaf[8] = {NULL}, *dx[8];
    for (int i = 0; i < n; i++)
        leaf[i] = tp_require_grad(tp_add(xs[i], tp_scalar_like(xs[i], 0)));
    tp_tensor *y = weighed(tp, f(user, n, leaf));
    if (tp_grads(y, NULL, n, leaf, dx) != TP_OK)
        fail_msg("%s: %s", what, tp_error_message(tp));
    for (int i = 0; i < n; i++) {
        const int64_t count = tp_count(xs[i]);
        double *v = calloc((size_t)(count ? count : 1), sizeof *v);
        assert_int_equal(tp_read(xs[i], v, sizeof(double) * (size_t)count), TP_OK);
        for (int64_t k = 0; k < count; k++) {
            double side[2];
            tp_scope_begin(tp);
            for (int sign = 0; sign < 2; sign++) {
                const double kept = v[k];
                tp_tensor *moved[8];
                memcpy(moved, leaf, sizeof moved);
                v[k] += sign ? h : -h;
                moved[i] = tp_tensor_new(tp, TP_F64, tp_rank(xs[i]), xs[i]->shape, v);
                moved[i] = tp_require_grad(moved[i]);
                side[sign] = tp_item(weighed(tp, f(user, n, moved)));
                v[k] = kept;
            }
            tp_scope_end(tp);
            const double slope = (side[1] - side[0]) / (2 * h);
            const double got = tp_item(tp_select(tp_flatten(dx[i], 0), 0, k));
            if (!(fabs(got - slope) <= 1e-5 * fmax(1, fabs(slope))))
                fail_msg("%s: operand %d, element %" PRId64
                         ": gradient %.9g, differences say %.9g",
                         what, i, k, got, slope);
        }
        free(v);
    }
}

/* First and second gradient of f at xs (f64). */
static inline void check_gradients(tp_ctx *tp, const char *what, tp_checked_function f,
                                   void *user, int n, tp_tensor *const *xs)
{
    char twice[100];
    snprintf(twice, sizeof twice, "%s, second gradient", what);
    check_once(tp, what, f, user, n, xs);
    check_once(tp, twice, gradients, &(grad_of){f, user}, n, xs);
}

#endif
