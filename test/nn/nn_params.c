/* Trees of parameters, layers in them, and the switch between training and use. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *zeros(tp_ctx *tp, int64_t n)
{
    return tp_full(tp, TP_F32, TP_DIMS(n), 0);
}

static void named(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp), *block = tp_params_nth(p, "block", 3);
    assert_ptr_equal(tp_params_part(p, "block.3"), block);
    assert_ptr_equal(tp_params_part(tp_params_part(p, "block"), "3"), block);
    assert_ptr_equal(tp_params_ctx(block), tp);
    tp_scope_begin(tp); /* the tree outlives scopes */
    tp_params_add(p, "first", zeros(tp, 2));
    tp_params_add(tp_params_part(block, "attn.q"), "w", zeros(tp, 5));
    tp_params_add_state(block, "mean", zeros(tp, 7));
    tp_tensor *last = tp_params_add(p, "last", zeros(tp, 1));
    tp_scope_end(tp);
    assert_int_equal(tp_params_n(p), 4);
    assert_int_equal(tp_params_n(block), 2);
    static const char *const names[] = {"first", "block.3.attn.q.w", "block.3.mean", "last"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(tp_params_name(p, i), names[i]);
        assert_string_equal(tp_name_of(tp_params_tensor(p, i)), names[i]);
        assert_ptr_equal(tp_params_find(p, names[i]), tp_params_tensor(p, i));
    }
    assert_ptr_equal(tp_params_find(block, "attn.q.w"), tp_params_tensor(p, 1));
    assert_null(tp_params_find(block, "first"));
    assert_null(tp_params_tensor(p, 4));
    assert_null(tp_params_name(p, -1));
    assert_int_equal(tp_params_count(p), 2 + 5 + 1);
    /* what is trained: not what is state, frozen, or there twice */
    assert_int_equal(tp_params_n_trained(p), 3);
    assert_ptr_equal(tp_params_share(p, "tied", last), last);
    assert_int_equal(tp_params_n_trained(p), 3);
    assert_int_equal(tp_params_n(p), 4);
    assert_ptr_equal(tp_params_find(p, "tied"), last);
    tp_params_freeze(block, true);
    assert_int_equal(tp_params_n_trained(p), 2);
    assert_ptr_equal(tp_params_trained(p)[1], last);
    assert_null(tp_params_trained(block));
    char *text = tp_params_text(p);
    assert_string_equal(
        text,
        "name              shape                     elements         bytes\n"
        "first             f32 [2]                          2             8\n"
        "block.3.attn.q.w  f32 [5]                          5            20  frozen\n"
        "block.3.mean      f32 [7]                          7            28  state\n"
        "last              f32 [1]                          1             4\n"
        "tied              f32 [1]                          1             4  second name\n"
        "all                                               15            60\n"
        "3 trained\n");
    tp_free(tp, text);
    tp_params_freeze(block, false);
    assert_int_equal(tp_params_n_trained(p), 3);
    tp_params_free(block); /* a part: nothing */
    assert_int_equal(tp_params_n(p), 4);
    tp_params_free(p);
    tp_params_free(NULL);
}

static void names_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    tp_tensor *w = tp_params_add(p, "a.w", zeros(tp, 1));
    assert_int_equal(tp_status_of(tp_params_add(tp_params_part(p, "a"), "w", zeros(tp, 1))),
                     TP_E_NAME);
    EXPECT_ERROR(tp, TP_E_NAME, "the tree has a \"a.w\" already");
    assert_int_equal(tp_status_of(tp_params_add_state(p, "a.w", zeros(tp, 1))), TP_E_NAME);
    tp_clear_error(tp);
    static const char *const bad[] = {"", ".", "a.", ".a", "a..b"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tp_status_of(tp_params_add(p, bad[i], zeros(tp, 1))), TP_E_NAME);
        assert_null(tp_params_part(p, bad[i]));
        tp_clear_error(tp);
    }
    assert_null(tp_params_part(NULL, "a"));
    assert_null(tp_params_nth(p, NULL, 1));
    tp_clear_error(tp);
    assert_int_equal(tp_status_of(tp_params_share(p, "b", zeros(tp, 1))), TP_E_VALUE);
    EXPECT_ERROR(tp, TP_E_VALUE, "what is shared is not in the tree yet");
    assert_int_equal(tp_status_of(tp_params_share(p, "a.w", w)), TP_E_NAME);
    tp_clear_error(tp);
    tp_tensor *failed = tp_fail(tp, TP_E_VALUE, "spoiled");
    assert_ptr_equal(tp_params_add(p, "c", failed), failed);
    tp_clear_error(tp);
    assert_int_equal(tp_params_n(p), 1);
    /* two layers of one name */
    tp_dense_new(p, "d", 2, 2, NULL);
    assert_true(tp_failed(tp_dense_new(p, "d", 2, 2, NULL).w));
    EXPECT_ERROR(tp, TP_E_NAME, "the tree has a \"d.w\" already");
}

/* Bounds and deviations as nn.h says; a fan of 50 inputs and 20 outputs. */
static void initialisers(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        tp_init init;
        double gain, most, squares; /* no element is larger; the mean of squares */
    } all[] = {
        {TP_INIT_FAN_IN,           0,   0.141421357, 1.0 / 50 / 3    },
        {TP_INIT_KAIMING_UNIFORM,  0,   0.346410163, 6.0 / 50 / 3    },
        {TP_INIT_KAIMING_NORMAL,   2,   10,          4 * 2.0 / 50    },
        {TP_INIT_XAVIER_UNIFORM,   0,   0.292770023, 6.0 / 70 / 3    },
        {TP_INIT_XAVIER_NORMAL,    0,   10,          2.0 / 70        },
        {TP_INIT_NORMAL,           0.5, 10,          0.25            },
        {TP_INIT_ZEROS,            0,   0,           0               },
        {TP_INIT_TRUNCATED_NORMAL, 0.5, 1,           0.25 * 0.7737413},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tp_tensor *t = tp_initial(tp, all[i].init, all[i].gain, TP_DIMS(100, 200), 50, 20);
        assert_true(tp_item(tp_reduce_max(tp_abs(t), TP_ALL, false)) <= all[i].most);
        const double squares = tp_item(tp_mean(tp_square(t), TP_ALL, false));
        assert_true(fabs(squares - all[i].squares) <= 0.05 * all[i].squares);
    }
    assert_int_equal(tp_status_of(tp_initial(tp, (tp_init)9, 0, TP_DIMS(2), 1, 1)), TP_E_VALUE);
    tp_clear_error(tp);
}

/* Rows, or columns, of length gain that are orthogonal, in a matrix of the first axis and all others. */
static void initial_orthogonal(void **state)
{
    tp_ctx *tp = *state;
    static const int64_t shapes[][3] = {
        {7, 5, 1},
        {5, 7, 1},
        {6, 2, 3},
        {3, 4, 5},
        {1, 1, 1},
        {9, 1, 1}
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t m = shapes[i][0], n = shapes[i][1] * shapes[i][2];
        tp_tensor *w = tp_initial(tp, TP_INIT_ORTHOGONAL, 2, 3, shapes[i], 1, 1);
        w = tp_reshape(w, TP_DIMS(m, n));
        tp_tensor *turned = tp_swap(w, 0, 1);
        tp_tensor *product = m < n ? tp_matmul(w, turned) : tp_matmul(turned, w);
        tp_tensor *right = tp_mul(tp_eye(tp, TP_F32, m < n ? m : n, m < n ? m : n, 0), 4);
        tp_tensor *most = tp_reduce_max(tp_abs(tp_sub(product, right)), TP_ALL, false);
        assert_true(tp_item(most) < 1e-5);
    }
    /* of one number both signs */
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += tp_item(tp_initial(tp, TP_INIT_ORTHOGONAL, 0, TP_DIMS(1, 1), 1, 1));
    assert_true(fabs(sum) < 50);
    assert_int_equal(tp_status_of(tp_initial(tp, TP_INIT_ORTHOGONAL, 0, TP_DIMS(2), 1, 1)),
                     TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "orthogonal values need two axes at least, not 1");
}

static void convolutions_of_any_axes(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    for (int axes = 1; axes <= 3; axes++) {
        tp_window w = {.groups = 2};
        int64_t shape[5] = {1, 4, 7, 6, 5};
        for (int i = 0; i < axes; i++)
            w.kernel[i] = 2 + i;
        const tp_layer_options opt = {.no_bias = axes == 2};
        const tp_conv_layer l =
            tp_conv_layer_new(tp_params_nth(p, "axes", axes), "c", 4, 6, &w, &opt);
        assert_int_equal(tp_rank(l.w), axes + 2);
        assert_int_equal(tp_size(l.w, 1), 2);
        assert_true((l.b == NULL) == (axes == 2));
        tp_tensor *y = tp_conv_layer_apply(&l, tp_full(tp, TP_F32, axes + 2, shape, 1));
        for (int i = 0; i < axes; i++)
            assert_int_equal(tp_size(y, 2 + i), shape[2 + i] - 1 - i);
    }
    assert_true(tp_failed(
        tp_conv_layer_new(p, "d", 3, 6, &(tp_window){.kernel = {1}, .groups = 2}, NULL).w));
    assert_true(tp_failed(tp_conv_layer_new(p, "d", 3, 6, &(tp_window){0}, NULL).w));
    assert_true(tp_failed(tp_conv_layer_new(p, "d", 3, 6, NULL, NULL).w));
    tp_clear_error(tp);
}

static void embeds(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_embedding l = tp_embedding_new(p, "words", 5, 3, 2);
    const int32_t words[] = {4, 2, 0, 2};
    tp_tensor *index = tp_tensor_new(tp, TP_I32, TP_DIMS(2, 2), words),
              *y = tp_embedding_apply(&l, index);
    const float *table = tp_data(l.table), *got = tp_data(y);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            assert_true(got[3 * i + k] == (words[i] == 2 ? 0 : table[3 * words[i] + k]));
    for (int k = 0; k < 3; k++)
        assert_true(table[6 + k] == 0);
    tp_tensor *dtable = tp_grad(tp_sum(y, TP_ALL, false), l.table);
    const float *d = tp_data(dtable), right[5] = {1, 0, 0, 0, 1};
    for (int i = 0; i < 15; i++)
        assert_true(d[i] == right[i / 3]);
    const int32_t last[] = {-1, 4};
    y = tp_embedding_apply(&l, tp_tensor_new(tp, TP_I32, TP_DIMS(2), last));
    assert_memory_equal(tp_data(y), (const float *)tp_data(y) + 3, 3 * sizeof(float));
    const int32_t outside[] = {4, -6, 5};
    for (int i = 0; i < 2; i++) {
        index = tp_tensor_new(tp, TP_I32, TP_DIMS(2), outside + i);
        assert_int_equal(tp_status_of(tp_embedding_apply(&l, index)), TP_E_VALUE);
        EXPECT_ERROR(tp, TP_E_VALUE,
                     i ? ": embedding: index -6 at position 0 is none of the 5 words"
                       : ": embedding: index -6 at position 1 is none of the 5 words");
    }
    assert_true(tp_failed(tp_embedding_apply(&l, tp_scalar(tp, TP_F32, 1))));
    EXPECT_ERROR(tp, TP_E_DTYPE,
                 ": embedding: indices are f32; tp_cast them to an integer type first");
    assert_true(tp_failed(tp_embedding_new(p, "more", 5, 3, 5).table));
    assert_int_equal(tp_status_of(tp_embedding_apply(NULL, index)), TP_E_NULL);
    tp_clear_error(tp);
}

/* ---- training and use ------------------------------------------------------------------------- */

typedef struct net {
    tp_dense one;
    tp_norm_layer norm, rows;
} net;

static void forward(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const net *n = user;
    tp_tensor *h = tp_norm_layer_apply(&n->norm, tp_dense_apply(&n->one, in[0]));
    out[0] = tp_dropout_apply(tp_norm_layer_apply(&n->rows, tp_relu(h)), 0.5);
}

static net net_new(tp_ctx *tp, tp_params *p)
{
    tp_seed(tp, 7);
    return (net){.one = tp_dense_new(p, "one", 4, 6, NULL),
                 .norm = tp_batch_norm_new(p, "norm", 6, 0.5, 0),
                 .rows = tp_layer_norm_new(p, "rows", 6, 0)};
}

/* In training the batch's own mean and a draw; in use neither, and nothing changes. */
static void trains_and_is_used(void **state)
{
    tp_ctx *tp = *state;
    net n = net_new(tp, tp_params_new(tp));
    tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(3, 4), 1, 2), *y;
    assert_true(tp_trains(tp));
    forward(&n, 1, &x, 1, &y);
    float mean[6], before[6], first[18], again[18];
    tp_read(n.norm.mean, mean, sizeof mean);
    tp_tensor *h = tp_mean(tp_dense_apply(&n.one, x), 1, (const int64_t[]){0}, false);
    tp_read(h, before, sizeof before);
    for (int i = 0; i < 6; i++) /* half of the way from 0 */
        assert_true(fabsf(mean[i] - before[i] / 2) < 1e-6f);
    assert_true(tp_training(tp, false));
    forward(&n, 1, &x, 1, &y);
    tp_read(y, first, sizeof first);
    forward(&n, 1, &x, 1, &y);
    tp_read(y, again, sizeof again);
    assert_memory_equal(first, again, sizeof first);
    tp_read(n.norm.mean, before, sizeof before);
    assert_memory_equal(mean, before, sizeof mean);
    assert_false(tp_training(tp, true));
    assert_false(tp_trains(NULL) || tp_training(NULL, true));
}

/* Captured, matched and pure: the bits of the eager body; each switch is recorded once. */
static void functions_notice(void **state)
{
    tp_ctx *tp = *state;
    for (int pure = 0; pure < 2; pure++) {
        net a = net_new(tp, tp_params_new(tp)), b = net_new(tp, tp_params_new(tp));
        tp_function *f =
            tp_function_new(tp, "forward", forward, &b,
                            &(tp_function_options){.engine = TP_ENGINE_TILES, .pure = pure});
        int64_t recordings = 0;
        for (int i = 0; i < 24; i++) {
            tp_scope_begin(tp);
            tp_training(tp, i / 3 % 2 == 0);
            tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(3, 4), 1, 2), *eager, *captured;
            tp_seed(tp, (uint64_t)i);
            forward(&a, 1, &x, 1, &eager);
            tp_seed(tp, (uint64_t)i);
            captured = tp_function_apply(f, 1, &x);
            float e[18], c[18];
            tp_read(eager, e, sizeof e);
            tp_read(captured, c, sizeof c);
            assert_memory_equal(e, c, sizeof e);
            tp_scope_end(tp);
            if (i == 11)
                recordings = tp_function_stats_of(f).recordings;
        }
        assert_int_equal(tp_function_stats_of(f).recordings, recordings);
        float u[6], v[6];
        tp_read(a.norm.var, u, sizeof u);
        tp_read(b.norm.var, v, sizeof v);
        assert_memory_equal(u, v, sizeof u);
        tp_training(tp, true);
    }
}

/* Every allocation fails in turn. */
static void survives_no_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long fail_at = 1; !done; fail_at++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        m.fail_at = m.calls + fail_at;
        tp_params *p = tp_params_new(tp);
        const tp_dense l = tp_dense_new(p, "a.b", 2, 3, NULL);
        tp_tensor *const *trained = tp_params_trained(p);
        char *text = tp_params_text(p);
        done = text && trained && !tp_failed(l.b);
        m.fail_at = 0;
        if (!done)
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
        if (fail_at % 2)
            tp_params_free(p);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(named),
                                              CASE(names_refused),
                                              CASE(initialisers),
                                              CASE(initial_orthogonal),
                                              CASE(convolutions_of_any_axes),
                                              CASE(embeds),
                                              CASE(trains_and_is_used),
                                              CASE(functions_notice),
                                              CASE(survives_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
