/* Layer and batch normalisation of rows far from 0, against closed forms in f64: values, gradients,
 * gradients of gradients, running statistics. Every engine gives the eager bits. */
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

enum { ROWS = 3, MOST = 5000, N_OUT = 5 };
static const char *const out_names[N_OUT] = {"y", "dx", "d2x", "mean", "var"};
static const double eps = 1e-5;

/* ---- closed forms ---------------------------------------------------------------------------------- */

static double mean_of(int n, const double *v)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += v[i];
    return sum / n;
}

/* y = (x - mean) / sqrt(var + eps). Returns the mean; *var too. */
static double closed_norm(int n, const double *x, double *y, double *var)
{
    const double mean = mean_of(n, x);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    *var = sum / n;
    for (int i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(*var + eps);
    return mean;
}

/* The gradient of sum(g y): (g - mean(g) - y mean(g y)) / sqrt(var + eps). */
static void closed_grad(int n, const double *x, const double *g, double *dx)
{
    static double y[MOST], gy[MOST];
    double var;
    closed_norm(n, x, y, &var);
    for (int i = 0; i < n; i++)
        gy[i] = g[i] * y[i];
    const double mean_g = mean_of(n, g), mean_gy = mean_of(n, gy);
    for (int i = 0; i < n; i++)
        dx[i] = (g[i] - mean_g - y[i] * mean_gy) / sqrt(var + eps);
}

/* The gradient of sum(v dx): a central difference of dx along v. Where 0 is does not matter to it. */
static void closed_grad_twice(int n, const double *x, const double *g, const double *v,
                              double *d2x)
{
    static double at[MOST], up[MOST];
    const double h = 1e-4;
    for (int i = 0; i < n; i++)
        at[i] = x[i] - x[0] + h * v[i];
    closed_grad(n, at, g, up);
    for (int i = 0; i < n; i++)
        at[i] = x[i] - x[0] - h * v[i];
    closed_grad(n, at, g, d2x);
    for (int i = 0; i < n; i++)
        d2x[i] = (up[i] - d2x[i]) / (2 * h);
}

/* ---- ours -------------------------------------------------------------------------------------------- */

/* x, and the weights of the sums whose gradients are taken: [ROWS, n], or for batches [2, ROWS, n / 2]. */
typedef struct inputs {
    tp_tensor *x, *g, *v, *mean, *var; /* mean and var: running ones of a batch, or NULL */
} inputs;

static void all_of(const inputs *in, tp_tensor **out)
{
    tp_tensor *y = in->mean ? tp_batch_norm_train(in->x, NULL, NULL, in->mean, in->var, 1, eps)
                            : tp_layer_norm(in->x, NULL, NULL, eps);
    tp_tensor *dx = tp_grad(tp_sum(tp_mul(in->g, y), TP_ALL, false), in->x);
    out[0] = y;
    out[1] = dx;
    out[2] = tp_grad(tp_sum(tp_mul(in->v, dx), TP_ALL, false), in->x);
}

static bool same_bits(tp_tensor *a, tp_tensor *b)
{
    a = tp_contiguous(a), b = tp_contiguous(b);
    return tp_count(a) == tp_count(b) &&
           memcmp(a->data, b->data, (size_t)tp_count(a) * sizeof(float)) == 0;
}

static void run_program(tp_ctx *tp, tp_engine engine, const inputs *like,
                        tp_tensor *const *want)
{
    static const char *const feeds[] = {"x", "g", "v"};
    static const char *const engines[] = {
        [TP_ENGINE_REFERENCE] = "reference", [TP_ENGINE_TILES] = "tiles", [TP_ENGINE_C] = "c"};
    tp_graph *g = tp_graph_new(tp);
    const tp_tensor *x = like->x;
    inputs in = {.x = tp_placeholder(g, feeds[0], TP_F32, x->rank, x->shape),
                 .g = tp_placeholder(g, feeds[1], TP_F32, x->rank, x->shape),
                 .v = tp_placeholder(g, feeds[2], TP_F32, x->rank, x->shape)};
    if (like->mean) {
        in.mean = tp_variable(tp_full(tp, TP_F32, TP_DIMS(ROWS), 0), "running_mean");
        in.var = tp_variable(tp_full(tp, TP_F32, TP_DIMS(ROWS), 0), "running_var");
    }
    tp_tensor *out[N_OUT];
    all_of(&in, out);
    for (int i = 0; i < 3; i++)
        tp_name(out[i], out_names[i]);
    tp_program *p =
        tp_graph_compile(g, 3, feeds, 3, out_names, &(tp_compile_options){.engine = engine});
    if (!p || (engine == TP_ENGINE_C && tp_program_wait(p) != TP_OK) ||
        tp_program_run(p, (tp_tensor *[]){like->x, like->g, like->v}, out) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    assert_string_equal(tp_program_engine(p), engines[engine]);
    out[3] = in.mean, out[4] = in.var;
    for (int i = 0; i < (like->mean ? N_OUT : 3); i++)
        if (!same_bits(out[i], want[i]))
            fail_msg("%s of %s %s: other bits than eagerly", out_names[i],
                     like->mean ? "a batch" : "rows", SHAPE(x));
    tp_program_free(p);
    tp_graph_free(g);
}

/* Row r of a tensor as all_of takes them, as f64. */
static void row_of(tp_tensor *t, bool batch, int n, int r, double *row)
{
    const tp_tensor *whole = tp_contiguous(t);
    const float *p = (const float *)whole->data;
    for (int i = 0; i < n; i++)
        row[i] = (double)(batch ? p[(i / (n / 2) * ROWS + r) * (n / 2) + i % (n / 2)]
                                : p[r * n + i]);
}

/* The largest difference over the largest value, or over `least` if that is more. */
static double error_of(int n, const double *got, const double *want, double least)
{
    double most = least, worst = 0;
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs(got[i] - want[i]));
    }
    return worst / most;
}

static void compare(const inputs *in, int n, double mean, tp_tensor *const *out)
{
    static const double limit[N_OUT] = {4e-7, 4e-7, 2e-6, 6e-8, 4e-7};
    static double x[MOST], g[MOST], v[MOST], got[N_OUT][MOST], want[N_OUT][MOST];
    const bool batch = in->mean;
    for (int r = 0; r < ROWS; r++) {
        row_of(in->x, batch, n, r, x);
        row_of(in->g, batch, n, r, g);
        row_of(in->v, batch, n, r, v);
        want[3][0] = closed_norm(n, x, want[0], want[4]);
        want[4][0] *= (double)n / (n - 1);
        closed_grad(n, x, g, want[1]);
        closed_grad_twice(n, x, g, v, want[2]);
        for (int i = 0; i < (batch ? N_OUT : 3); i++) {
            if (i < 3)
                row_of(out[i], batch, n, r, got[i]);
            else
                got[i][0] = (double)((const float *)out[i]->data)[r];
            const double e = error_of(i < 3 ? n : 1, got[i], want[i], i == 3 ? 1 : 1e-6);
            if (!(e <= limit[i]))
                fail_msg("%s of %d numbers about %g (%s): error %.3g of the largest, above %g",
                         out_names[i], n, mean, batch ? "batch" : "layer", e, limit[i]);
        }
    }
}

static void about(tp_ctx *tp, bool batch, int n, double mean, bool engines)
{
    tp_scope_begin(tp);
    const int rank = batch ? 3 : 2;
    const int64_t shape[] = {batch ? 2 : ROWS, batch ? ROWS : n, n / 2};
    inputs in = {.x = tp_require_grad(tp_detach(tp_normal(tp, TP_F32, rank, shape, mean, 1))),
                 .g = tp_normal(tp, TP_F32, rank, shape, 0, 1),
                 .v = tp_normal(tp, TP_F32, rank, shape, 0, 1)};
    if (batch) {
        in.mean = tp_variable(tp_full(tp, TP_F32, TP_DIMS(ROWS), 0), "eager_mean");
        in.var = tp_variable(tp_full(tp, TP_F32, TP_DIMS(ROWS), 0), "eager_var");
    }
    tp_tensor *out[N_OUT] = {[3] = in.mean, [4] = in.var};
    all_of(&in, out);
    if (tp_error(tp) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    compare(&in, n, mean, out);
    if (engines) {
        run_program(tp, TP_ENGINE_REFERENCE, &in, out);
        run_program(tp, TP_ENGINE_TILES, &in, out);
        run_program(tp, TP_ENGINE_C, &in, out);
    }
    tp_scope_end(tp);
}

static void rows_far_from_zero(void **state)
{
    static const int sizes[] = {6, 64, 300, 768, 5000};
    static const double means[] = {0, 1e2, -1e4, 1e4, 1e5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof means / sizeof *means; k++) {
            const bool engines = sizes[i] == 300 && means[k] == 1e5;
            about(*state, false, sizes[i], means[k], engines);
            about(*state, true, sizes[i], means[k], engines);
        }
}

/* Equal numbers have no variance, and are their mean. */
static void constant_rows(void **state)
{
    static const double values[] = {0, 1, -0.1, 12345.678, 1e5, 1e5 + 1 / 3.0, 3e9};
    tp_ctx *tp = *state;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        for (int64_t n = 1; n <= 5000; n = n * 3 + 1) {
            tp_scope_begin(tp);
            tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(n, n > 400 ? 2 : 5, 3), values[k]);
            tp_tensor *mean = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1), 0), "mean");
            tp_tensor *var = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1), 1), "var");
            tp_tensor *layer = tp_layer_norm(tp_reshape(x, TP_DIMS(3, -1)), NULL, NULL, eps);
            tp_tensor *batch = tp_batch_norm_train(tp_reshape(x, TP_DIMS(-1, 1, 3)), NULL, NULL,
                                                   mean, var, 1, eps);
            const double far = tp_item(tp_reduce_max(tp_abs(layer), TP_ALL, false));
            const double wide = tp_item(tp_reduce_max(tp_abs(batch), TP_ALL, false));
            if (far != 0 || wide != 0 || tp_item(var) != 0 ||
                tp_item(mean) != (double)(float)values[k])
                fail_msg("%s of %.9g: layer norm has %g, batch norm %g; mean %.9g, variance %g",
                         SHAPE(x), values[k], far, wide, tp_item(mean), tp_item(var));
            tp_scope_end(tp);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(rows_far_from_zero), CASE(constant_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
