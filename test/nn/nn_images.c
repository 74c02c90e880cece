/* Functions of windows and images: examples worked out by hand, gradients where they bend, and what has to
 * go together. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *row(tp_ctx *tp, int64_t n, const float *v)
{
    return tp_tensor_new(tp, TP_F32, TP_DIMS(1, 1, n), v);
}

static void expect(tp_tensor *got, int n, const float *want)
{
    float v[64];
    assert_int_equal(tp_read(got, v, sizeof *v * (size_t)n), TP_OK);
    for (int i = 0; i < n; i++)
        if (!(fabsf(v[i] - want[i]) <= 1e-6f) && v[i] != want[i])
            fail_msg("element %d is %g, not %g", i, (double)v[i], (double)want[i]);
}

static void expect_same(tp_tensor *got, tp_tensor *want)
{
    char why[300];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("%s", why);
}

/* Windows [0, 2), [1, 4) and [3, 5): equal ones share the gradient of each. */
static void ties_share(void **state)
{
    static const float ones[] = {1, 1, 1, 1, 1};
    static const float want[] = {1.0f / 2, 5.0f / 6, 1.0f / 3, 5.0f / 6, 1.0f / 2};
    tp_tensor *x = tp_require_grad(row(*state, 5, ones));
    tp_tensor *y = tp_adaptive_max_pool(x, TP_DIMS(3));
    expect(tp_grad(tp_sum(y, TP_ALL, false), x), 5, want);
}

/* At a whole place the gradient is that of the elements behind it, as in PyTorch. */
static void whole_places(void **state)
{
    static const float squares[] = {0, 1, 4, 9, 16}, want[] = {(9 - 4) * 2, 0};
    tp_ctx *tp = *state;
    tp_tensor *x = tp_reshape(row(tp, 5, squares), TP_DIMS(1, 1, 1, 5));
    tp_tensor *grid = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(1, 1, 1, 2), 0));
    tp_tensor *y = tp_grid_sample(x, grid, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, true);
    expect(y, 1, &squares[2]);
    expect(tp_grad(tp_sum(y, TP_ALL, false), grid), 2, want);
}

/* The grid of no change gives x. */
static void no_change(void **state)
{
    tp_ctx *tp = *state;
    static const float same[] = {1, 0, 0, 0, 1, 0};
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, 5, 9), -1, 1);
    tp_tensor *grid =
        tp_affine_grid(tp_tensor_new(tp, TP_F32, TP_DIMS(1, 2, 3), same), TP_DIMS(5, 9), true);
    tp_tensor *y = tp_grid_sample(x, grid, TP_INTERPOLATE_LINEAR, TP_PAD_EDGE, true);
    assert_true(tp_item(tp_reduce_max(tp_abs(tp_sub(x, y)), TP_ALL, false)) < 1e-5);
}

static void lengthened(void **state)
{
    static const float two[] = {1, 2}, linear[] = {1, 1.25f, 1.75f, 2};
    static const float corners[] = {1, 4.0f / 3, 5.0f / 3, 2}, near[] = {1, 1, 2, 2};
    tp_ctx *tp = *state;
    tp_tensor *x = row(tp, 2, two);
    const tp_resize_options aligned = {.mode = TP_INTERPOLATE_LINEAR,
                                       .where = TP_ALIGN_CORNERS};
    expect(tp_upsample(x, 2, TP_INTERPOLATE_LINEAR), 4, linear);
    expect(tp_upsample(x, 2, TP_INTERPOLATE_NEAREST), 4, near);
    expect(tp_resize(x, TP_DIMS(4), &aligned), 4, corners);
}

/* The greatest go back where they were. */
static void unpooled(void **state)
{
    static const float v[] = {1, 5, 4, 2, 7, 7}, want[] = {0, 5, 4, 0, 7, 0};
    const tp_window w = {.kernel = {2}};
    tp_tensor *x = row(*state, 6, v), *at = tp_max_pool_index(x, &w);
    expect(tp_max_unpool(tp_max_pool(x, &w), at, TP_DIMS(6)), 6, want);
}

/* Columns are copies, whatever lies beside them, and folding them is the gradient of it. */
static void columns(void **state)
{
    static const float v[] = {1, INFINITY, 3, 4}, want[] = {1, INFINITY, 3, INFINITY, 3, 4};
    tp_ctx *tp = *state;
    const tp_window w =
                        {
                            .kernel = {2}
    },
                    wide = {.kernel = {3, 2}, .stride = {2, 1}, .pad_lo = {1, 1}};
    expect(tp_unfold(row(tp, 4, v), &w), 6, want);
    tp_tensor *x = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(2, 3, 5, 4), -1, 1));
    tp_tensor *y = tp_unfold(x, &wide), *dx;
    tp_tensor *dy = tp_uniform(tp, TP_F32, 3, y->shape, -1, 1);
    tp_grads(y, dy, 1, &x, &dx);
    tp_tensor *folded = tp_fold(dy, TP_DIMS(5, 4), &wide);
    assert_true(tp_item(tp_reduce_max(tp_abs(tp_sub(dx, folded)), TP_ALL, false)) < 1e-5);
}

/* A layer of blocks of pixels and back. */
static void blocks(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(2, 8, 3, 5), -1, 1);
    expect_same(tp_pixel_unshuffle(tp_pixel_shuffle(x, 2), 2), x);
    expect_same(tp_space_to_depth(tp_depth_to_space(x, 2), 2), x);
}

/* Sizes that a run tells give the bits of sizes that are numbers. */
static void free_sizes(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t h = tp_symbol(g, "h");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(1, 2, h, tp_symbol(g, "w"))), *out[4];
    const tp_resize_options linear = {.mode = TP_INTERPOLATE_LINEAR};
    const tp_window w = {
        .kernel = {2, 2}
    };
    tp_name(tp_upsample(x, 3, TP_INTERPOLATE_CUBIC), "a");
    tp_name(tp_resize(x, TP_DIMS(tp_dim_mul(g, h, 2), 7), &linear), "b");
    tp_name(tp_unfold(x, &w), "c");
    tp_name(tp_adaptive_avg_pool(x, TP_DIMS(1, 1)), "d");
    for (int64_t size = 3; size < 6; size++) {
        tp_tensor *in = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, size, 7), -1, 1);
        assert_int_equal(
            tp_graph_run(g, TP_FEEDS({"x", in}), TP_NAMES("a", "b", "c", "d"), out), TP_OK);
        expect_same(out[0], tp_upsample(in, 3, TP_INTERPOLATE_CUBIC));
        expect_same(out[1], tp_resize(in, TP_DIMS(2 * size, 7), &linear));
        expect_same(out[2], tp_unfold(in, &w));
        expect_same(out[3], tp_adaptive_avg_pool(in, TP_DIMS(1, 1)));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(ties_share), CASE(whole_places), CASE(no_change), CASE(lengthened),
        CASE(unpooled),   CASE(columns),      CASE(blocks),    CASE(free_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
