/* Layers: how they are drawn, what they compute, eagerly and in graphs, and what is refused. */
#include "common/unit.h"
#include "tapir/nn.h"
#include "tapir/random.h"

#include <math.h>

static void drawn_within_bounds(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 5);
    tp_scope_begin(tp);
    const tp_dense l = tp_dense_new(tp_params_new(tp), "l", 25, 400, NULL);
    const tp_conv_layer c =
        tp_conv_layer_new(tp_params_new(tp), "c", 4, 100, TP_SQUARE(5, 1, 0), NULL);
    assert_string_equal(tp_name_of(l.w), "l.w");
    assert_string_equal(tp_name_of(c.b), "c.b");
    tp_tensor *const all[4] = {l.w, l.b, c.w, c.b};
    const double bound[4] = {0.2, 0.2, 0.1, 0.1};
    for (int i = 0; i < 4; i++) {
        const float *p = tp_data(all[i]);
        double sum = 0, squares = 0, n = (double)tp_count(all[i]);
        for (int64_t k = 0; k < tp_count(all[i]); k++) {
            assert_true(fabs((double)p[k]) <= bound[i]);
            sum += (double)p[k];
            squares += (double)p[k] * (double)p[k];
        }
        /* Of a uniform distribution: mean 0, variance bound^2 / 3; five standard errors. */
        assert_true(fabs(sum / n) < 5 * bound[i] / sqrt(3 * n));
        assert_true(fabs(squares / n / (bound[i] * bound[i] / 3) - 1) < 5 * 0.9 / sqrt(n));
        assert_true(tp_requires_grad(all[i]));
    }
    tp_seed(tp, 5);
    const tp_dense again = tp_dense_new(tp_params_new(tp), "again", 25, 400, NULL);
    assert_memory_equal(tp_data(again.w), tp_data(l.w), 25 * 400 * sizeof(float));
    tp_scope_end(tp);
}

/* The arithmetic, written out with loops. */
static void compute_what_they_say(void **state)
{
    tp_ctx *tp = *state;
    const tp_dense l = tp_dense_new(tp_params_new(tp), "l", 3, 2, NULL);
    const float x[2][3] = {
        {1,     -2, 0.5f},
        {0.25f, 4,  -1  }
    };
    tp_tensor *y = tp_dense_apply(&l, tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), x));
    const float *w = tp_data(l.w), *b = tp_data(l.b), *got = tp_data(y);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            double right = (double)b[j];
            for (int k = 0; k < 3; k++)
                right += (double)x[i][k] * (double)w[k * 2 + j];
            assert_true(fabs((double)got[i * 2 + j] - right) < 1e-6);
        }
    }

    const tp_conv_layer c =
        tp_conv_layer_new(tp_params_new(tp), "c", 2, 3, TP_SQUARE(3, 2, 1), NULL);
    tp_tensor *image = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, 5, 4), -1, 1);
    y = tp_conv_layer_apply(&c, image);
    assert_true(tp_size(y, 1) == 3 && tp_size(y, 2) == 3 && tp_size(y, 3) == 2);
    const float *p = tp_data(image);
    w = tp_data(c.w);
    b = tp_data(c.b);
    got = tp_data(y);
    for (int i = 0; i < 18; i++) {
        const int o = i / 6, row = i / 2 % 3 * 2 - 1, column = i % 2 * 2 - 1;
        double right = (double)b[o];
        for (int k = 0; k < 18; k++) {
            const int r = row + k / 3 % 3, s = column + k % 3;
            if (r >= 0 && r < 5 && s >= 0 && s < 4)
                right += (double)p[k / 9 * 20 + r * 4 + s] * (double)w[o * 18 + k];
        }
        assert_true(fabs((double)got[i] - right) < 1e-6);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A graph reads the parameters at each run, the biases too, whether or not it records. */
static void graphs_read_them_anew(void **state)
{
    tp_ctx *tp = *state;
    for (int recording = 0; recording < 2; recording++) {
        const tp_conv_layer c =
            tp_conv_layer_new(tp_params_new(tp), "c", 1, 2, TP_SQUARE(1, 1, 0), NULL);
        tp_recording(tp, recording);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(1, 1, 1, 1)), *y;
        tp_name(tp_conv_layer_apply(&c, x), "y");
        tp_recording(tp, true);
        const float w[2] = {3, 5}, b[2] = {0.5f, 0.25f};
        tp_assign(c.w, tp_tensor_new(tp, TP_F32, TP_DIMS(2, 1, 1, 1), w));
        tp_assign(c.b, tp_tensor_new(tp, TP_F32, TP_DIMS(2), b));
        tp_tensor *two = tp_full(tp, TP_F32, TP_DIMS(1, 1, 1, 1), 2);
        tp_graph_run(g, TP_FEEDS({"x", two}), TP_NAMES("y"), &y);
        assert_string_equal(tp_error_message(tp), "");
        const float *got = tp_data(y);
        assert_true(got[0] == 6.5f && got[1] == 10.25f);
        tp_graph_free(g);
    }
}

static void refuse(void **state)
{
    tp_ctx *tp = *state;
    tp_dense l = tp_dense_new(tp_params_new(tp), NULL, 3, 2, NULL);
    assert_int_equal(tp_status_of(l.w), TP_E_NULL);
    assert_int_equal(tp_status_of(l.b), TP_E_NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "the name is NULL");
    l = tp_dense_new(tp_params_new(tp), "l", 0, 2, NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": a layer of 0 inputs and 2 outputs");
    tp_tensor *x = tp_scalar(tp, TP_F32, 1);
    assert_int_equal(tp_status_of(tp_dense_apply(&l, x)), TP_E_SHAPE);
    assert_int_equal(tp_status_of(tp_dense_apply(NULL, x)), TP_E_NULL);
    assert_int_equal(tp_status_of(tp_conv_layer_apply(NULL, x)), TP_E_NULL);
    l = tp_dense_new(tp_params_new(tp), "l", 3, -2, NULL);
    assert_true(tp_failed(l.w) && tp_failed(l.b));
    const tp_conv_layer c =
        tp_conv_layer_new(tp_params_new(tp), "c", INT64_MAX / 2, 1, TP_SQUARE(3, 1, 0), NULL);
    assert_true(tp_failed(c.w) && tp_failed(c.b));
    l = tp_dense_new(NULL, "l", 3, 2, NULL);
    assert_true(tp_failed(l.w));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(drawn_within_bounds),
        CASE(compute_what_they_say),
        CASE(graphs_read_them_anew),
        CASE(refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
