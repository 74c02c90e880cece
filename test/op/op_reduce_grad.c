/* Gradients of reductions, scans, composites and random ops, first and second, against central
 * differences; products with zeros and ties against numbers worked out by hand. */
#include "common/unit.h"
#include "tapir/grad.h"
#include "tapir/nn.h"
#include "tapir/random.h"

typedef struct function {
    const char *name;
    tp_tensor *(*f)(int n, tp_tensor *const *xs);
    int n;
    int rank[3];
    int64_t shape[3][3];
    int zeros; /* so many elements of xs[0] are 0 */
} function;

static tp_tensor *sum_last(int n, tp_tensor *const *xs)
{
    return (void)n, tp_sum(xs[0], TP_DIMS(-1), false);
}

static tp_tensor *sum_first_keep(int n, tp_tensor *const *xs)
{
    return (void)n, tp_sum(xs[0], TP_DIMS(0, 2), true);
}

static tp_tensor *mean_middle(int n, tp_tensor *const *xs)
{
    return (void)n, tp_mean(tp_mul(xs[0], xs[0]), TP_DIMS(1), false);
}

static tp_tensor *mean_all(int n, tp_tensor *const *xs)
{
    return (void)n, tp_mean(tp_exp(xs[0]), TP_ALL, false);
}

static tp_tensor *max_last(int n, tp_tensor *const *xs)
{
    return (void)n, tp_reduce_max(tp_mul(xs[0], xs[0]), TP_DIMS(1), false);
}

static tp_tensor *min_all(int n, tp_tensor *const *xs)
{
    return (void)n, tp_reduce_min(tp_mul(xs[0], xs[0]), TP_ALL, true);
}

static tp_tensor *prod_last(int n, tp_tensor *const *xs)
{
    return (void)n, tp_prod(xs[0], TP_DIMS(1), false);
}

static tp_tensor *prod_all(int n, tp_tensor *const *xs)
{
    return (void)n, tp_prod(xs[0], TP_ALL, false);
}

static tp_tensor *prod_outer(int n, tp_tensor *const *xs)
{
    return (void)n, tp_prod(xs[0], TP_DIMS(0, 2), true);
}

static tp_tensor *cumsum_plain(int n, tp_tensor *const *xs)
{
    return (void)n, tp_cumsum(tp_mul(xs[0], xs[0]), 0, false, false);
}

static tp_tensor *cumsum_back(int n, tp_tensor *const *xs)
{
    return (void)n, tp_cumsum(tp_mul(xs[0], xs[0]), -1, true, true);
}

static tp_tensor *recur_on(int n, tp_tensor *const *xs)
{
    return (void)n, tp_recur(xs[0], xs[1], 1, false);
}

static tp_tensor *recur_back(int n, tp_tensor *const *xs)
{
    return (void)n, tp_recur(xs[0], xs[1], 0, true);
}

static tp_tensor *softmax(int n, tp_tensor *const *xs)
{
    return (void)n, tp_softmax(xs[0], 1);
}

static tp_tensor *log_softmax(int n, tp_tensor *const *xs)
{
    return (void)n, tp_log_softmax(xs[0], 0);
}

static tp_tensor *cross_entropy(int n, tp_tensor *const *xs)
{
    static const int64_t label[] = {2, 0, 3};
    (void)n;
    return tp_cross_entropy(xs[0], tp_tensor_new(tp_ctx_of(xs[0]), TP_I64, TP_DIMS(3), label));
}

static tp_tensor *mse(int n, tp_tensor *const *xs)
{
    return (void)n, tp_mse(xs[0], xs[1]);
}

static tp_tensor *gelu(int n, tp_tensor *const *xs)
{
    return (void)n, tp_gelu(xs[0]);
}

static tp_tensor *silu(int n, tp_tensor *const *xs)
{
    return (void)n, tp_silu(xs[0]);
}

static tp_tensor *clip(int n, tp_tensor *const *xs)
{
    return (void)n, tp_clip(tp_mul(xs[0], xs[0]), 0.25, 0.75);
}

static tp_tensor *layer_norm(int n, tp_tensor *const *xs)
{
    return (void)n, tp_layer_norm(xs[0], xs[1], xs[2], 1e-3);
}

static tp_tensor *batch_norm_train(int n, tp_tensor *const *xs)
{
    return (void)n, tp_batch_norm_train(xs[0], xs[1], xs[2], NULL, NULL, 0.1, 1e-3);
}

static tp_tensor *linear(int n, tp_tensor *const *xs)
{
    return (void)n, tp_linear(xs[0], xs[1], xs[2]);
}

static tp_tensor *dropout(int n, tp_tensor *const *xs)
{
    (void)n;
    tp_seed(tp_ctx_of(xs[0]), 11); /* the same elements each time */
    return tp_dropout(tp_mul(xs[0], xs[0]), 0.4);
}

#define ONE(f, zeros, ...)                                                                     \
    {                                                                                          \
#f, f, 1, {sizeof((int64_t[]){__VA_ARGS__}) / 8 }, {{__VA_ARGS__ } }, zeros            \
    }
static const function functions[] = {
    ONE(sum_last, 0, 2, 3),
    ONE(sum_first_keep, 0, 2, 3, 4),
    ONE(mean_middle, 0, 2, 3, 2),
    ONE(mean_all, 0, 3, 2),
    ONE(max_last, 0, 3, 4),
    ONE(min_all, 0, 2, 4),
    ONE(prod_last, 0, 2, 4),
    ONE(prod_last, 3, 2, 4),
    ONE(prod_all, 0, 2, 3),
    ONE(prod_all, 1, 2, 3),
    ONE(prod_all, 2, 2, 3),
    ONE(prod_outer, 2, 2, 2, 3),
    ONE(cumsum_plain, 0, 4, 2),
    ONE(cumsum_back, 0, 2, 4),
    {"recur_on",         recur_on,         2, {2, 2},    {{2, 5}, {2, 5}},      1},
    {"recur_back",       recur_back,       2, {2, 2},    {{4, 2}, {4, 2}},      1},
    ONE(softmax, 0, 2, 4),
    ONE(log_softmax, 0, 4, 2),
    ONE(cross_entropy, 0, 3, 4),
    {"mse",              mse,              2, {2, 2},    {{2, 3}, {2, 3}},      0},
    ONE(gelu, 0, 5),
    ONE(silu, 0, 5),
    ONE(clip, 0, 6),
    {"layer_norm",       layer_norm,       3, {2, 1, 1}, {{2, 4}, {4}, {4}},    0},
    {"batch_norm_train", batch_norm_train, 3, {3, 1, 1}, {{3, 2, 2}, {2}, {2}}, 0},
    {"linear",           linear,           3, {2, 2, 1}, {{3, 2}, {2, 4}, {4}}, 0},
    ONE(dropout, 0, 12),
};

static tp_tensor *first(void *user, int n, tp_tensor *const *xs)
{
    return ((const function *)user)->f(n, xs);
}

/* The gradients as one vector; weighed, so that no symmetry hides a term. */
static tp_tensor *second(void *user, int n, tp_tensor *const *xs)
{
    for (int i = 0; i < n; i++)
        tp_require_grad(xs[i]);
    tp_tensor *y = ((const function *)user)->f(n, xs);
    tp_tensor *row = tp_reshape(y, TP_DIMS(-1)), *dx[3];
    tp_tensor *w = tp_add(tp_arange(tp_ctx_of(y), TP_F64, tp_size(row, 0), 0.5, 0.37),
                          tp_scalar_like(row, 0));
    tp_grads(tp_mul(tp_mul(row, row), w), NULL, n, xs, dx);
    for (int i = 0; i < n; i++)
        dx[i] = tp_reshape(dx[i], TP_DIMS(-1));
    return tp_concat(n, dx, 0);
}

static void against_differences(void **state)
{
    tp_ctx *tp = *state;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        const function *f = &functions[k];
        tp_scope_begin(tp);
        uint64_t s = 99 + k;
        tp_tensor *xs[3];
        for (int i = 0; i < f->n; i++) {
            double v[64];
            int64_t count = 1;
            for (int j = 0; j < f->rank[i]; j++)
                count *= f->shape[i][j];
            for (int64_t j = 0; j < count; j++)
                v[j] = (double)(int64_t)unit_random(&s) * 0x1.8p-63;
            for (int j = 0; i == 0 && j < f->zeros; j++)
                v[j * 2 % count] = 0;
            xs[i] = tp_tensor_new(tp, TP_F64, f->rank[i], f->shape[i], v);
        }
        for (int order = 1; order <= 2; order++) {
            double error = -1;
            const tp_status status =
                tp_grad_check(order == 1 ? first : second, (void *)f, f->n, xs, &error);
            if (status != TP_OK || !(error >= 0 && error < 2e-6))
                fail_msg("%s, %d zeros, order %d: error %g, status %s %s", f->name, f->zeros,
                         order, error, tp_status_name(status), tp_error_message(tp));
        }
        tp_scope_end(tp);
    }
}

static void check_numbers(tp_tensor *t, int n, const double *want)
{
    assert_int_equal(tp_status_of(t), TP_OK);
    assert_int_equal(tp_count(t), n);
    const double *got = tp_data(tp_contiguous(t));
    for (int i = 0; i < n; i++)
        if (!(got[i] == want[i]))
            fail_msg("element %d is %g, not %g", i, got[i], want[i]);
}

static void worked_out(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(
        tp_tensor_new(tp, TP_F64, TP_DIMS(2, 4), (const double[]){1, 3, 3, 0, -2, -2, -2, -5}));
    check_numbers(tp_grad(tp_reduce_max(x, TP_DIMS(1), false), x), 8,
                  (const double[]){0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0});
    check_numbers(tp_grad(tp_reduce_min(x, TP_ALL, false), x), 8,
                  (const double[]){0, 0, 0, 0, 0, 0, 0, 1});

    tp_tensor *p = tp_require_grad(
        tp_tensor_new(tp, TP_F64, TP_DIMS(3, 3), (const double[]){2, 3, 4, 2, 0, 4, 0, 5, 0}));
    tp_tensor *dp = tp_grad(tp_prod(p, TP_DIMS(1), false), p);
    check_numbers(dp, 9, (const double[]){12, 8, 6, 0, 8, 0, 0, 0, 0});
    /* the sum of dp is that of products of pairs */
    check_numbers(tp_grad(dp, p), 9, (const double[]){7, 6, 5, 4, 6, 2, 5, 0, 5});

    tp_tensor *nan = tp_require_grad(
        tp_tensor_new(tp, TP_F64, TP_DIMS(3), (const double[]){1, __builtin_nan(""), 7}));
    check_numbers(tp_grad(tp_reduce_max(nan, TP_ALL, false), nan), 3,
                  (const double[]){0, 1, 0});
}

static tp_status first_of(tp_ctx *tp, const function *f)
{
    tp_tensor *xs[3], *dx[3];
    for (int i = 0; i < f->n; i++) {
        xs[i] = tp_require_grad(tp_full(tp, TP_F64, f->rank[i], f->shape[i], 0.5));
        if (tp_failed(xs[i]))
            return tp_status_of(xs[i]);
    }
    tp_tensor *y = f->f(f->n, xs);
    return tp_failed(y) ? tp_status_of(y) : tp_grads(y, NULL, f->n, xs, dx);
}

/* Whichever allocation fails, and all after it: an error, no crash, nothing left behind. */
static void out_of_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
        for (long n = 1, ok = 0; !ok; n++) {
            unit_memory m = {.fail_at = n};
            tp_ctx *tp = unit_open(&m);
            if (tp) {
                const tp_status status = first_of(tp, &functions[k]);
                ok = status == TP_OK;
                if (!ok && tp_error(tp) != TP_E_MEMORY)
                    fail_msg("%s, allocation %ld failed: %s", functions[k].name, n,
                             tp_error_message(tp));
                tp_close(tp);
            }
            if (m.bytes)
                fail_msg("%s, allocation %ld failed: %zu bytes left", functions[k].name, n,
                         m.bytes);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(against_differences), CASE(worked_out),
                                              cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
