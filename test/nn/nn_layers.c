/* Layers against the functions and loops that they stand for: eagerly, in graphs and captured. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *drawn(tp_ctx *tp, int rank, const int64_t *shape)
{
    return tp_uniform(tp, TP_F32, rank, shape, -1, 1);
}

static void expect_same(tp_tensor *got, tp_tensor *want)
{
    char why[300];
    if (!same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("%s", why);
}

/* ---- all modes ---------------------------------------------------------------------------------- */

typedef struct layer {
    tp_tensor *(*apply)(const void *layer, tp_tensor *x);
    const void *of;
    tp_tensor *w; /* a parameter of it */
} layer;

/* What the layer gives, and the gradient of its squares to w. */
static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const layer *l = user;
    out[0] = l->apply(l->of, in[0]);
    out[1] = tp_grad(tp_sum(tp_square(out[0]), TP_ALL, false), l->w);
}

/* A graph of any first size. */
static void in_a_graph(tp_ctx *tp, layer *l, tp_tensor *x, tp_tensor *const *want)
{
    tp_graph *g = tp_graph_new(tp);
    int64_t shape[TP_MAX_RANK] = {tp_symbol(g, "n")};
    for (int i = 1; i < tp_rank(x); i++)
        shape[i] = tp_size(x, i);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, tp_rank(x), shape), *out[2], *got[2];
    body(l, 1, &in, 2, out);
    tp_name(out[0], "y");
    tp_name(out[1], "dw");
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("y", "dw"), got), TP_OK);
    for (int i = 0; i < 2; i++)
        expect_same(got[i], want[i]);
    tp_graph_free(g);
}

static void captured(tp_ctx *tp, layer *l, tp_tensor *x, tp_tensor *const *want)
{
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f =
            tp_function_new(tp, "layer", body, l,
                            &(tp_function_options){.engine = TP_ENGINE_TILES, .pure = pure});
        for (int i = 0; i < 4; i++) {
            tp_tensor *got[2];
            assert_int_equal(tp_function_call(f, 1, &x, 2, got), TP_OK);
            for (int k = 0; k < 2; k++)
                expect_same(got[k], want[k]);
        }
        tp_function_free(f);
    }
}

/* The layer's y, which is `want` unless that is NULL, has the same bits everywhere, and so has its gradient. */
static void in_all_modes(layer l, tp_tensor *x, tp_tensor *want)
{
    tp_ctx *tp = tp_ctx_of(x);
    tp_tensor *eager[2];
    body(&l, 1, &x, 2, eager);
    if (want) {
        expect_same(eager[0], want);
        expect_same(eager[1], tp_grad(tp_sum(tp_square(want), TP_ALL, false), l.w));
    }
    in_a_graph(tp, &l, x, eager);
    captured(tp, &l, x, eager);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* ---- norms -------------------------------------------------------------------------------------- */

static tp_tensor *norm(const void *of, tp_tensor *x)
{
    return tp_norm_layer_apply((const tp_norm_layer *)of, x);
}

static void norms(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_norm_layer group = tp_group_norm_new(p, "group", 6, 3, 1e-3),
                        rms = tp_rms_norm_new(p, "rms", 5, 0);
    assert_int_equal(tp_params_n(p), 3);
    assert_ptr_equal(tp_params_find(p, "group.shift"), group.shift);
    assert_ptr_equal(tp_params_find(p, "rms.scale"), rms.scale);
    tp_assign(group.scale, drawn(tp, TP_DIMS(6)));
    tp_assign(group.shift, drawn(tp, TP_DIMS(6)));
    tp_assign(rms.scale, drawn(tp, TP_DIMS(5)));
    tp_tensor *x = drawn(tp, TP_DIMS(2, 6, 5));
    in_all_modes((layer){norm, &group, group.scale}, x,
                 tp_group_norm(x, 3, group.scale, group.shift, 1e-3));
    in_all_modes((layer){norm, &rms, rms.scale}, x, tp_rms_norm(x, rms.scale, 1e-5));
    assert_true(tp_failed(tp_group_norm_new(p, "odd", 6, 4, 0).scale));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": 4 groups do not divide 6 channels");
}

static void odd_convolutions(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_window odd =
                        {
                            .kernel = {3, 3},
                              .groups = 4
    },
                    none = {.groups = 1};
    assert_true(tp_failed(tp_conv_layer_new(p, "odd", 6, 8, &odd, NULL).w));
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        ": a kernel of [3, 3, 0] and 4 groups for 6 to 8 channels: the sizes of 1 to 3 "
        "axes are there, and groups divide the channels");
    assert_true(tp_failed(tp_conv_layer_new(p, "none", 6, 8, &none, NULL).w));
    EXPECT_ERROR(
        tp, TP_E_SHAPE,
        ": a kernel of [0, 0, 0] and 1 groups for 6 to 8 channels: the sizes of 1 to 3 "
        "axes are there, and groups divide the channels");
    assert_true(tp_failed(tp_dense_new(p, "no", 0, 3, NULL).w));
    EXPECT_ERROR(tp, TP_E_SHAPE, ": a layer of 0 inputs and 3 outputs");
}

/* ---- transposed convolutions -------------------------------------------------------------------- */

static tp_tensor *convolve(const void *of, tp_tensor *x)
{
    return tp_conv_layer_apply((const tp_conv_layer *)of, x);
}

enum {
    N = 2,
    C = 4,
    OC = 6,
    K = 3,
    STEP = 2,
    PAD = 1,
    IN = 5,
    OUT = (IN - 1) * STEP + K - 2 * PAD + 1
};

/* Each input is added, times the kernel, to the outputs that it reaches; two groups. */
static void spread_by_loops(const float *x, const float *w, const float *b, double *y)
{
    for (int n = 0; n < N; n++)
        for (int o = 0; o < OC * OUT; o++)
            y[n * OC * OUT + o] = b[o / OUT];
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++)
            for (int o = 0; o < OC / 2; o++)
                for (int i = 0; i < IN; i++)
                    for (int k = 0; k < K; k++) {
                        const int to = i * STEP + k - PAD, oc = c / (C / 2) * (OC / 2) + o;
                        if (to >= 0 && to < OUT)
                            y[(n * OC + oc) * OUT + to] +=
                                (double)x[(n * C + c) * IN + i] * w[(c * (OC / 2) + o) * K + k];
                    }
}

static void transposed_convolutions(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_window window = {
        .kernel = {K}, .stride = {STEP}, .pad_lo = {PAD}, .pad_hi = {PAD}, .groups = 2};
    const int64_t more[1] = {1};
    const tp_conv_layer l = tp_conv_transpose_new(p, "up", C, OC, &window, more, NULL);
    assert_ptr_equal(tp_params_find(p, "up.b"), l.b);
    tp_tensor *x = drawn(tp, TP_DIMS(N, C, IN)), *y = tp_conv_layer_apply(&l, x);
    double want[N * OC * OUT];
    spread_by_loops(tp_data(x), tp_data(l.w), tp_data(l.b), want);
    assert_int_equal(tp_count(y), N * OC * OUT);
    for (int i = 0; i < N * OC * OUT; i++)
        assert_true(fabs(((const float *)tp_data(y))[i] - want[i]) < 1e-5);
    in_all_modes(
        (layer){convolve, &l, l.w}, x,
        tp_add(tp_conv_transpose(x, l.w, &window, more), tp_reshape(l.b, TP_DIMS(1, -1, 1))));
}

/* ---- recurrent ---------------------------------------------------------------------------------- */

static tp_tensor *recur(const void *of, tp_tensor *x)
{
    return tp_recurrent_layer_apply((const tp_recurrent_layer *)of, x, NULL, NULL, NULL);
}

/* Two layers in one direction are one on what the other gives; their states lie side by side. */
static void recurrent(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_recurrent_layer l =
        tp_lstm_new(p, "lstm", 3, 4, &(tp_recurrent_layer_options){.layers = 2});
    static const char *const names[] = {"lstm.0.w", "lstm.0.r", "lstm.0.wb", "lstm.0.rb",
                                        "lstm.1.w", "lstm.1.r", "lstm.1.wb", "lstm.1.rb"};
    assert_int_equal(tp_params_n(p), 8);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(tp_params_name(p, i), names[i]);
        tp_tensor *most = tp_reduce_max(tp_abs(tp_params_tensor(p, i)), TP_ALL, false);
        assert_true(tp_item(most) <= 0.5); /* 1 / sqrt(4) */
    }
    tp_tensor *x = drawn(tp, TP_DIMS(5, 2, 3)), *h0 = drawn(tp, TP_DIMS(2, 2, 4)),
              *c0 = drawn(tp, TP_DIMS(2, 2, 4)), *h = h0, *c = c0, *hs[2], *cs[2];
    for (int i = 0; i < 2; i++) {
        hs[i] = tp_select(h0, 0, i);
        cs[i] = tp_select(c0, 0, i);
    }
    tp_tensor *want =
        tp_lstm(tp_lstm(x, l.w[0], NULL, &hs[0], &cs[0]), l.w[1], NULL, &hs[1], &cs[1]);
    expect_same(tp_recurrent_layer_apply(&l, x, NULL, &h, &c), want);
    expect_same(h, tp_stack(2, hs, 0));
    expect_same(c, tp_stack(2, cs, 0));
    in_all_modes((layer){recur, &l, l.w[0][0].r}, x,
                 tp_lstm(tp_lstm(x, l.w[0], NULL, NULL, NULL), l.w[1], NULL, NULL, NULL));
}

/* The layer above sees both directions. */
static void recurrent_both(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_recurrent_layer_options opt = {
        .layers = 2, .both = true, .batch_first = true, .no_bias = true};
    const tp_recurrent_layer l = tp_gru_new(p, "gru", 3, 4, &opt);
    assert_int_equal(tp_params_n(p), 8);
    assert_ptr_equal(tp_params_find(p, "gru.1.back.r"), l.w[1][1].r);
    assert_int_equal(tp_size(l.w[1][0].w, 0), 8);
    assert_null(l.w[0][0].wb);
    const int64_t length[] = {5, 2};
    tp_tensor *x = drawn(tp, TP_DIMS(2, 5, 3)), *h = NULL, *hs[2] = {NULL, NULL};
    const tp_recurrent_options o = {.both = true,
                                    .batch_first = true,
                                    .lengths = tp_tensor_new(tp, TP_I64, TP_DIMS(2), length)};
    tp_tensor *want = tp_gru(tp_gru(x, l.w[0], &o, &hs[0]), l.w[1], &o, &hs[1]), *none = h;
    expect_same(tp_recurrent_layer_apply(&l, x, o.lengths, &h, &none), want);
    expect_same(h, tp_concat(2, hs, 0));
    assert_null(none);
    const tp_recurrent_layer one = tp_rnn_new(p, "rnn", 3, 4, NULL);
    in_all_modes((layer){recur, &one, one.w[0][0].w}, drawn(tp, TP_DIMS(4, 2, 3)), NULL);
}

/* Between the layers, in training, something goes. */
static void recurrent_dropout(void **state)
{
    tp_ctx *tp = *state;
    const tp_recurrent_layer l =
        tp_rnn_new(tp_params_new(tp), "rnn", 3, 4,
                   &(tp_recurrent_layer_options){.layers = 2, .dropout = 0.5});
    tp_tensor *x = drawn(tp, TP_DIMS(5, 2, 3));
    tp_seed(tp, 3);
    tp_tensor *y = recur(&l, x);
    tp_seed(tp, 3);
    expect_same(y, tp_rnn(tp_dropout(tp_rnn(x, l.w[0], NULL, NULL), 0.5), l.w[1], NULL, NULL));
    tp_training(tp, false);
    expect_same(recur(&l, x), tp_rnn(tp_rnn(x, l.w[0], NULL, NULL), l.w[1], NULL, NULL));
    tp_training(tp, true);
}

static void recurrent_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_recurrent_layer_options many = {.layers = 9}, two = {.layers = 2};
    assert_true(tp_failed(tp_lstm_new(p, "a", 3, 4, &many).w[0][0].w));
    EXPECT_ERROR(tp, TP_E_VALUE, "a recurrent layer has 1 to 8 layers");
    assert_true(tp_failed(tp_lstm_new(p, "a", 3, INT64_MAX / 2, NULL).w[0][0].w));
    tp_clear_error(tp);
    const tp_recurrent_layer l = tp_gru_new(p, "b", 3, 4, &two);
    tp_tensor *x = drawn(tp, TP_DIMS(5, 2, 3)), *h = drawn(tp, TP_DIMS(1, 2, 4));
    tp_tensor *y = tp_recurrent_layer_apply(&l, x, NULL, &h, NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 "a state is not [layers, n, m], or [layers * 2, n, m] of both directions");
    assert_ptr_equal(h, y);
}

/* ---- attention ---------------------------------------------------------------------------------- */

static tp_tensor *attend(const void *of, tp_tensor *x)
{
    return tp_attention_layer_apply((const tp_attention_layer *)of, x, NULL,
                                    &(tp_attention_options){.causal = true}, NULL);
}

/* [n, s, heads * 2] -> [n, heads, s, 2]. */
static tp_tensor *heads_of(tp_tensor *x, const tp_dense *l, int64_t heads)
{
    tp_tensor *y = tp_dense_apply(l, x);
    return tp_swap(tp_reshape(y, TP_DIMS(tp_size(y, 0), tp_size(y, 1), heads, 2)), 1, 2);
}

static void attention(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_attention_layer l = tp_attention_layer_new(p, "attn", 8, 4, 2, NULL);
    assert_ptr_equal(tp_params_find(p, "attn.q.w"), l.q.w);
    assert_ptr_equal(tp_params_find(p, "attn.out.b"), l.out.b);
    assert_int_equal(tp_size(l.k.w, 1), 4);
    tp_tensor *x = drawn(tp, TP_DIMS(2, 5, 8)), *memory = drawn(tp, TP_DIMS(2, 3, 8));
    const tp_attention_options causal = {.causal = true};
    tp_tensor *y = tp_attention(heads_of(x, &l.q, 4), heads_of(x, &l.k, 2),
                                heads_of(x, &l.v, 2), &causal, NULL);
    y = tp_dense_apply(&l.out, tp_reshape(tp_swap(y, 1, 2), TP_DIMS(2, 5, 8)));
    in_all_modes((layer){attend, &l, l.k.w}, x, y);
    tp_tensor *z = tp_attention(heads_of(x, &l.q, 4), heads_of(memory, &l.k, 2),
                                heads_of(memory, &l.v, 2), NULL, NULL);
    z = tp_dense_apply(&l.out, tp_reshape(tp_swap(z, 1, 2), TP_DIMS(2, 5, 8)));
    expect_same(tp_attention_layer_apply(&l, x, memory, NULL, NULL), z);
    /* place by place, with what was before */
    tp_attention_options step = causal;
    for (int i = 0; i < 5; i++) {
        tp_tensor *present[2] = {NULL, NULL};
        tp_tensor *got =
            tp_attention_layer_apply(&l, tp_slice(x, 1, i, i + 1, 1), NULL, &step, present);
        tp_tensor *off = tp_abs(tp_sub(got, tp_slice(y, 1, i, i + 1, 1)));
        assert_true(tp_item(tp_reduce_max(off, TP_ALL, false)) < 1e-6);
        step.past_key = present[0];
        step.past_value = present[1];
    }
    assert_true(tp_failed(tp_attention_layer_new(p, "odd", 8, 3, 0, NULL).out.w));
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": 3 heads do not divide the size 8, or 3 of keys not the heads");
    assert_true(tp_failed(tp_attention_layer_apply(&l, x, tp_select(x, 0, 0), NULL, NULL)));
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": x is [2, 5, 8], the memory [5, 8], not [n, places, size] each");
}

/* ---- transformer --------------------------------------------------------------------------------- */

static tp_tensor *transform(const void *of, tp_tensor *x)
{
    return tp_transformer_block_apply((const tp_transformer_block *)of, x, NULL, NULL);
}

static tp_tensor *attended(const tp_transformer_block *l, tp_tensor *x, bool causal)
{
    return tp_attention_layer_apply(&l->attention, x, NULL,
                                    &(tp_attention_options){.causal = causal}, NULL);
}

static tp_tensor *fed_forward(const tp_transformer_block *l, tp_tensor *x, bool relu)
{
    tp_tensor *h = tp_dense_apply(&l->up, x);
    return tp_dense_apply(&l->down, relu ? tp_relu(h) : tp_gelu(h));
}

static void transformer(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_transformer_block first =
        tp_transformer_block_new(p, "pre", 8, 2, &(tp_transformer_options){.causal = true});
    static const char *const names[] = {
        "pre.attn.q.w",    "pre.attn.q.b",    "pre.attn.k.w",    "pre.attn.k.b",
        "pre.attn.v.w",    "pre.attn.v.b",    "pre.attn.out.w",  "pre.attn.out.b",
        "pre.norm1.scale", "pre.norm1.shift", "pre.norm2.scale", "pre.norm2.shift",
        "pre.up.w",        "pre.up.b",        "pre.down.w",      "pre.down.b"};
    assert_int_equal(tp_params_n(p), 16);
    for (int i = 0; i < 16; i++)
        assert_string_equal(tp_params_name(p, i), names[i]);
    assert_int_equal(tp_size(first.up.w, 1), 32);
    tp_tensor *x = drawn(tp, TP_DIMS(2, 5, 8));
    tp_tensor *h = tp_add(x, attended(&first, tp_norm_layer_apply(&first.norm[0], x), true));
    tp_tensor *y =
        tp_add(h, fed_forward(&first, tp_norm_layer_apply(&first.norm[1], h), false));
    in_all_modes((layer){transform, &first, first.attention.k.w}, x, y);
    const tp_transformer_options opt = {.post_norm = true,
                                        .rms = true,
                                        .hidden = 3,
                                        .kv_heads = 1,
                                        .no_bias = true,
                                        .activation = tp_relu_at};
    const tp_transformer_block last = tp_transformer_block_new(p, "post", 8, 2, &opt);
    assert_null(last.up.b);
    assert_int_equal(tp_params_n(p), 16 + 8);
    h = tp_norm_layer_apply(&last.norm[0], tp_add(x, attended(&last, x, false)));
    in_all_modes((layer){transform, &last, last.up.w}, x,
                 tp_norm_layer_apply(&last.norm[1], tp_add(h, fed_forward(&last, h, true))));
    /* place by place, with what was before */
    tp_tensor *cache[2] = {NULL, NULL};
    for (int i = 0; i < 5; i++) {
        tp_tensor *got =
            tp_transformer_block_apply(&first, tp_slice(x, 1, i, i + 1, 1), NULL, cache);
        assert_int_equal(tp_size(cache[0], 2), i + 1);
        tp_tensor *off = tp_abs(tp_sub(got, tp_slice(y, 1, i, i + 1, 1)));
        assert_true(tp_item(tp_reduce_max(off, TP_ALL, false)) < 1e-5);
    }
    /* the options count too */
    const int64_t length[] = {5, 2};
    const tp_attention_options few = {.lengths = tp_tensor_new(tp, TP_I64, TP_DIMS(2), length)};
    tp_tensor *short_y = tp_transformer_block_apply(&first, x, &few, NULL);
    expect_same(tp_select(short_y, 0, 0), tp_select(y, 0, 0));
}

static void transformer_dropout(void **state)
{
    tp_ctx *tp = *state;
    const tp_transformer_block l = tp_transformer_block_new(
        tp_params_new(tp), "t", 4, 1, &(tp_transformer_options){.dropout = 0.5});
    tp_tensor *x = drawn(tp, TP_DIMS(2, 3, 4));
    tp_seed(tp, 3);
    tp_tensor *y = transform(&l, x);
    tp_seed(tp, 3);
    tp_tensor *a = attended(&l, tp_norm_layer_apply(&l.norm[0], x), false);
    tp_tensor *h = tp_add(x, tp_dropout(a, 0.5));
    tp_tensor *b = fed_forward(&l, tp_norm_layer_apply(&l.norm[1], h), false);
    expect_same(y, tp_add(h, tp_dropout(b, 0.5)));
    tp_training(tp, false);
    expect_same(transform(&l, x),
                tp_add(tp_add(x, a),
                       fed_forward(&l, tp_norm_layer_apply(&l.norm[1], tp_add(x, a)), false)));
    tp_training(tp, true);
    assert_true(tp_failed(tp_transformer_block_new(tp_params_new(tp), "t", 4, 3, NULL).down.w));
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": 3 heads do not divide the size 4, or 3 of keys not the heads");
}

/* ---- lists of layers ------------------------------------------------------------------------------ */

static tp_tensor *in_turn(const void *of, tp_tensor *x)
{
    return tp_sequential_apply((const tp_sequential *)of, x);
}

static tp_tensor *flat(const char *file, int line, tp_tensor *x)
{
    return tp_flatten_at(file, line, x, 1);
}

static void sequential(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    const tp_conv_layer conv = tp_conv_layer_new(p, "conv", 2, 4, TP_SQUARE(3, 1, 1), NULL);
    const tp_norm_layer norms = tp_group_norm_new(p, "norm", 4, 2, 0);
    const tp_dense dense = tp_dense_new(p, "dense", 16, 3, NULL);
    const tp_pool_layer halve = {TP_POOL_MAX, {.kernel = {2, 2}}, {0}};
    const tp_dropout_layer drop = {0.5};
    const tp_layer_function relu = tp_relu_at, flatten = flat;
    const tp_layer inner[] = {tp_layer_of_norm(&norms), tp_layer_of_function(&relu)};
    const tp_sequential inside = {2, inner}, none = {0, NULL};
    const tp_layer layers[] = {tp_layer_of_conv(&conv),    tp_layer_of_sequential(&inside),
                               tp_layer_of_pool(&halve),   tp_layer_of_function(&flatten),
                               tp_layer_of_dropout(&drop), tp_layer_of_dense(&dense)};
    const int dense_line = __LINE__ - 1;
    const tp_sequential all = {6, layers};
    assert_string_equal(layers[0].name, "conv");
    tp_training(tp, false);
    tp_tensor *x = drawn(tp, TP_DIMS(2, 2, 4, 4)), *y = tp_conv_layer_apply(&conv, x);
    y = tp_max_pool(tp_relu(tp_norm_layer_apply(&norms, y)), TP_SQUARE(2, 2, 0));
    in_all_modes((layer){in_turn, &all, conv.w}, x, tp_dense_apply(&dense, tp_flatten(y, 1)));
    tp_training(tp, true);
    assert_ptr_equal(tp_sequential_apply(&none, x), x);
    /* an error is at the line that put the layer into the list */
    const tp_sequential two = {
        2, (const tp_layer[]){layers[5], layers[5]}
    };
    tp_sequential_apply(&two, drawn(tp, TP_DIMS(2, 16)));
    char place[40];
    snprintf(place, sizeof place, "nn_layers.c:%d: ", dense_line);
    if (!strstr(tp_error_message(tp), place))
        fail_msg("no %s in \"%s\"", place, tp_error_message(tp));
    tp_clear_error(tp);
    const tp_sequential hollow = {1, (const tp_layer[]){{.name = "none"}}};
    assert_true(tp_failed(tp_sequential_apply(&hollow, x)));
    EXPECT_ERROR(tp, TP_E_NULL, "layer 0 has no function");
}

/* A layer of somebody's leaves scopes open, or ends one that is not its own. */
static tp_tensor *careless(const char *file, int line, const void *of, tp_tensor *x)
{
    tp_ctx *tp = tp_ctx_of(x);
    (void)file, (void)line;
    if (*(const int *)of)
        tp_scope_end(tp);
    else
        tp_scope_begin(tp);
    return tp_neg(x);
}

static void careless_layers(void **state)
{
    tp_ctx *tp = *state;
    static const int kinds[2] = {0, 1};
    const tp_layer layers[] = {
        {"opens", careless, &kinds[0], NULL, 0},
        {"ends",  careless, &kinds[1], NULL, 0}
    };
    tp_scope_begin(tp);
    tp_tensor *x = drawn(tp, TP_DIMS(2, 3));
    const tp_sequential first = {1, layers}, both = {2, layers};
    tp_tensor *y = tp_sequential_apply(&first, x);
    assert_string_equal(tp_error_message(tp), "");
    y = tp_sequential_apply(&both, y);
    EXPECT_ERROR(tp, TP_E_STATE, "the body of \"ends\" ends a scope that it did not begin");
    assert_memory_equal(tp_data(tp_neg(y)), tp_data(x), 6 * sizeof(float));
    assert_int_equal(tp_scope_end(tp), TP_OK);
    assert_int_equal(tp_scope_end(tp), TP_E_STATE);
    tp_clear_error(tp);
}

/* Each of the others is its _apply. */
static void layers_of_all(void **state)
{
    tp_ctx *tp = *state;
    tp_params *p = tp_params_new(tp);
    tp_tensor *x = drawn(tp, TP_DIMS(3, 2, 4)), *index = tp_arange(tp, TP_I64, 3, 0, 1);
    const tp_attention_layer a = tp_attention_layer_new(p, "a", 4, 2, 0, NULL);
    const tp_transformer_block t = tp_transformer_block_new(p, "t", 4, 2, NULL);
    const tp_recurrent_layer r = tp_gru_new(p, "r", 4, 3, NULL);
    const tp_embedding e = tp_embedding_new(p, "e", 5, 2, -1);
    const struct {
        tp_layer l;
        tp_tensor *x, *y;
    } rows[] = {
        {tp_layer_of_attention(&a),      x, tp_attention_layer_apply(&a, x,                                                   NULL, NULL, NULL)},
        {tp_layer_of_transformer(&t),                          x,                      tp_transformer_block_apply(&t,                                                 x,                                                                          NULL, NULL)},
        {tp_layer_of_recurrent(&r), x,tp_recurrent_layer_apply(&r,x,NULL, NULL, NULL)},
        {tp_layer_of_embedding(&e),      index,      tp_embedding_apply(&e,                           index)                                                                                                                          }
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_same(rows[i].l.apply(__FILE__, __LINE__, rows[i].l.of, rows[i].x), rows[i].y);
    assert_string_equal(rows[1].l.name, "transformer");
}

static tp_tensor *pool(const void *of, tp_tensor *x)
{
    return tp_pool_layer_apply((const tp_pool_layer *)of, x);
}

static void pools(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(drawn(tp, TP_DIMS(2, 3, 4, 6)), "w"), *x = tp_mul(w, 1);
    const tp_window window = {
        .kernel = {2, 3},
          .stride = {1, 2}
    };
    const int64_t sizes[3] = {3, 2};
    tp_tensor *const want[] = {tp_max_pool(x, &window),
                               tp_avg_pool(x, &window),
                               tp_adaptive_max_pool(x, 2, sizes),
                               tp_adaptive_avg_pool(x, 2, sizes),
                               tp_global_max_pool(x),
                               tp_global_avg_pool(x)};
    for (int i = 0; i < 6; i++) {
        const tp_pool_layer l = {
            (tp_pool_kind)i, window, {3, 2}
        };
        expect_same(pool(&l, x), want[i]);
    }
    const tp_pool_layer odd = {(tp_pool_kind)6, window, {0}};
    assert_true(tp_failed(pool(&odd, x)));
    EXPECT_ERROR(tp, TP_E_VALUE, "there is no such kind of pooling");
    const tp_pool_layer wide = {
        .kind = TP_POOL_ADAPTIVE_MAX, .sizes = {1, 1, 1}
    };
    assert_true(tp_failed(pool(&wide, tp_unsqueeze(tp_unsqueeze(x, 0), 0))));
    EXPECT_ERROR(tp, TP_E_SHAPE, "x is not [n, c, s...] of 1 to 3 axes s");
}

/* ---- made in the first call ------------------------------------------------------------------------ */

typedef struct late {
    tp_params *p;
    tp_dense l;
    tp_tensor *count;
    bool each_time;
} late;

static void late_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    late *s = user;
    if (!s->l.w || s->each_time)
        s->l = tp_dense_new(s->p, "l", 3, 2, NULL);
    if (!s->count)
        s->count = tp_retain(tp_variable(tp_scalar(tp_ctx_of(in[0]), TP_F32, 1), "count"));
    out[0] = tp_mul(tp_dense_apply(&s->l, in[0]), s->count);
    tp_assign(s->count, tp_add(s->count, 1));
}

/* Made once and kept, with the bits of the eager run; made each time it is refused. */
static void made_in_the_first_call(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = drawn(tp, TP_DIMS(4, 3)), *want[6], *got;
    for (int mode = 0; mode < 4; mode++) { /* by hand, an eager function, captured, pure */
        late s = {.p = tp_params_new(tp)};
        const tp_function_options opt = {
            .engine = TP_ENGINE_TILES, .eager = mode == 1, .pure = mode == 3};
        tp_function *f = tp_function_new(tp, "late", late_body, &s, &opt);
        tp_seed(tp, 9);
        for (int i = 0; i < 6; i++) {
            if (mode == 0) {
                late_body(&s, 1, &x, 1, &want[i]);
                continue;
            }
            assert_int_equal(tp_function_call(f, 1, &x, 1, &got), TP_OK);
            expect_same(got, want[i]);
        }
        assert_int_equal(tp_params_n(s.p), 2);
        assert_true(tp_item(s.count) == 7);
        s.each_time = true;
        assert_int_equal(tp_function_call(f, 1, &x, 1, &got), TP_E_NAME);
        EXPECT_ERROR(tp, TP_E_NAME, "the tree has a \"l.w\" already");
        tp_release(s.count);
        tp_function_free(f);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(norms),
                                              CASE(odd_convolutions),
                                              CASE(transposed_convolutions),
                                              CASE(recurrent),
                                              CASE(recurrent_both),
                                              CASE(recurrent_dropout),
                                              CASE(recurrent_refused),
                                              CASE(attention),
                                              CASE(transformer),
                                              CASE(transformer_dropout),
                                              CASE(sequential),
                                              CASE(careless_layers),
                                              CASE(layers_of_all),
                                              CASE(pools),
                                              CASE(made_in_the_first_call)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
