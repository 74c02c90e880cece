/* All that docs/transform.md has: its functions and lines as they stand there. That nothing is missing here is looked at
 * by tools/check_docs.sh. */
#include <tapir/tapir.h>

#include <math.h>
#include <stdio.h>

static void distance(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_norm(tp_sub(in[0], in[1]), 2, TP_ALL, false); /* of two points, [3] and [3] */
}

static void clipped_gradient(void *user, int n_in, tp_tensor *const *in, int n_out,
                             tp_tensor **out)
{
    const tp_dense *l = user;
    (void)n_in, (void)n_out;
    tp_tensor *row = tp_unsqueeze(in[0], 0), *label = tp_unsqueeze(in[1], 0);
    tp_tensor *dw = tp_grad(tp_cross_entropy(tp_dense_apply(l, row), label), l->w);
    tp_clip_norm(1, &dw, 1, out);
}

static void square_root(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *x = in[0], *z = in[0];
    (void)user, (void)n_in, (void)n_out;
    tp_while (tp_gt(tp_abs(tp_sub(tp_mul(z, z), x)), tp_mul(1e-12, x)), &z) {
        z = tp_mul(0.5, tp_add(z, tp_div(x, z)));
    }
    out[0] = z;
}

static void to_all(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    static const int axes[] = {TP_SHARED, 0}; /* one point, and all of b */
    (void)user;
    tp_vmap(distance, NULL, n_in, in, n_out, out, &(tp_vmap_options){.in_axes = axes});
}

static void noisy(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_add(in[0], tp_normal_like(in[0], 0, 1));
}

static void roots(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user;
    tp_vmap(square_root, NULL, n_in, in, n_out, out, NULL);
}

static void polar(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *r = tp_select(in[0], 0, 0), *angle = tp_select(in[0], 0, 1);
    out[0] = tp_mul(r, tp_stack(TP_TENSORS(tp_cos(angle), tp_sin(angle)), 0));
}

static int n_failed;

static void check(bool good, int line)
{
    if (!good)
        fprintf(stderr, "transform_page.c:%d: not as the page says\n", line);
    n_failed += !good;
}
#define CHECK(x) check((x), __LINE__)

static bool near(tp_tensor *t, int64_t n, const double *want)
{
    double got[8];
    if (tp_count(t) != n ||
        tp_read(tp_cast(t, TP_F64), got, sizeof(double) * (size_t)n) != TP_OK)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) < 1e-6))
            return false;
    return true;
}

static void samples(tp_ctx *tp)
{
    tp_tensor *a = tp_normal(tp, TP_F32, TP_DIMS(64, 3), 0, 1);
    tp_tensor *b = tp_normal(tp, TP_F32, TP_DIMS(64, 3), 0, 1), *p = tp_select(b, 0, 5);
    tp_tensor *d = tp_vmap_apply(distance, NULL, TP_TENSORS(a, b), NULL); /* [64] */
    CHECK(tp_rank(d) == 1 && tp_size(d, 0) == 64);

    tp_tensor *columns = tp_swap(a, 0, 1); /* [3, 64] */
    const int axes[] = {1, TP_SHARED};
    d = tp_vmap_apply(distance, NULL, TP_TENSORS(columns, p),
                      &(tp_vmap_options){.in_axes = axes}); /* [64] */
    CHECK(tp_rank(d) == 1 && tp_size(d, 0) == 64);

    const int outer[] = {0, TP_SHARED};
    tp_tensor *all = tp_vmap_apply(to_all, NULL, TP_TENSORS(a, b),
                                   &(tp_vmap_options){.in_axes = outer}); /* [64, 64] */
    CHECK(tp_item(tp_sub(tp_select(tp_select(all, 1, 5), 0, 9), tp_select(d, 0, 9))) == 0);

    const tp_dense l = tp_dense_new(tp_params_new(tp), "l", 3, 4, NULL);
    tp_tensor *labels = tp_randint(tp, TP_I64, TP_DIMS(64), 0, 4);
    tp_tensor *dw = tp_vmap_apply(clipped_gradient, (void *)&l, TP_TENSORS(a, labels), NULL);
    tp_tensor *mean = tp_mean(dw, TP_DIMS(0), false); /* dw [64, 3, 4] */
    CHECK(tp_rank(dw) == 3 && tp_size(dw, 0) == 64 && tp_size(mean, 0) == 3);
    tp_tensor *greatest = tp_reduce_max(tp_norm(dw, 2, TP_DIMS(1, 2), false), TP_ALL, false);
    CHECK(tp_item(greatest) < 1 + 1e-5);
}

static void ways(tp_ctx *tp)
{
    const double v[] = {4, 1, 1e6, 0.25}, want[] = {2, 1, 1e3, 0.5};
    tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(4), v), *y = NULL;
    tp_tensor *r = tp_vmap_apply(square_root, NULL, 1, &x, NULL); /* 0 to 14 turns each */
    CHECK(near(r, 4, want));

    y = tp_vmap_apply(noisy, NULL, 1, &x, NULL);
    CHECK(tp_item(tp_select(tp_sub(y, x), 0, 0)) != tp_item(tp_select(tp_sub(y, x), 0, 1)));
    y = tp_vmap_apply(noisy, NULL, 1, &x, &(tp_vmap_options){.same_draws = true});
    CHECK(!tp_failed(y));

    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *in = tp_placeholder(g, "x", TP_F64, TP_DIMS(n));
    tp_name(tp_vmap_apply(square_root, NULL, 1, &in, NULL), "roots");
    tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("roots"), &y);
    CHECK(near(y, 4, want));

    tp_function *f = tp_function_new(tp, "roots", roots, NULL, NULL);
    for (int i = 0; i < 4; i++)
        CHECK(near(tp_function_apply(f, 1, &x), 4, want));
}

static void derivatives(tp_ctx *tp)
{
    const double at[] = {2, 0}, along[] = {0, 1};
    tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(2), at), *y, *dy; /* r = 2, angle 0 */
    tp_tensor *v = tp_tensor_new(tp, TP_F64, TP_DIMS(2), along);
    tp_jvp(polar, NULL, 1, &x, &v, 1, &y, &dy);        /* y is [2, 0], dy [0, 2] */
    tp_tensor *j = tp_jacobian(polar, NULL, 1, &x, 0); /* [[1, 0], [0, 2]] */
    tp_tensor *h = tp_hessian(polar, NULL, 1, &x, 0);  /* of x + y: [[0, 1], [1, -2]] */
    tp_tensor *hv = tp_hvp(polar, NULL, 1, &x, 0, v);  /* [1, -2], and no matrix */
    CHECK(near(y, 2, (double[]){2, 0}) && near(dy, 2, (double[]){0, 2}));
    CHECK(near(j, 4, (double[]){1, 0, 0, 2}) && near(h, 4, (double[]){0, 1, 1, -2}));
    CHECK(near(hv, 2, (double[]){1, -2}));
}

int main(void)
{
    tp_ctx *tp = tp_open(NULL);
    samples(tp);
    ways(tp);
    derivatives(tp);
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "transform_page: %s\n", tp_error_message(tp));
    n_failed += tp_error(tp) != TP_OK;
    tp_close(tp);
    return n_failed != 0;
}
