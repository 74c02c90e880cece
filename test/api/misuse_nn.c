/* Misuse of params.h, nn.h, state.h and archive.h. */
#include "misuse.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

MISUSE(tp_dense_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_true(tp_failed(tp_dense_new(NULL, "l", 3, 2, NULL).w));
    BAD(b, TP_E_NULL, tp_dense_new(tp_params_new(b->tp), NULL, 3, 2, NULL).w);
    BAD(b, TP_E_SHAPE, tp_dense_new(tp_params_new(b->tp), "l", -1, 2, NULL).w);
    BAD(b, TP_E_SHAPE, tp_dense_new(tp_params_new(b->tp), "l", 3, -1, NULL).b);
    BAD(b, TP_E_SHAPE, tp_dense_new(tp_params_new(b->tp), "l", INT64_MAX, INT64_MAX, NULL).w);
}

MISUSE(tp_dense_apply)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_dense l = tp_dense_new(tp_params_new(b->tp), "l", 3, 2, NULL), empty = {0};
    OPERAND(b, b->f, tp_dense_apply(&l, x));
    STICKS(b, tp_dense_apply(NULL, b->f));
    STICKS(b, tp_dense_apply(&empty, b->f));
    STICKS(b, tp_dense_apply(&l, b->t));
    STICKS(b, tp_dense_apply(&l, b->foreign));
}

MISUSE(tp_conv_layer_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    assert_true(tp_failed(tp_conv_layer_new(NULL, "l", 2, 3, TP_SQUARE(2, 1, 0), NULL).w));
    BAD(b, TP_E_NULL, tp_conv_layer_new(tp_params_new(b->tp), NULL, 2, 3, TP_SQUARE(2, 1, 0), NULL).w);
    BAD(b, TP_E_SHAPE, tp_conv_layer_new(tp_params_new(b->tp), "l", -2, 3, TP_SQUARE(2, 1, 0), NULL).w);
    BAD(b, TP_E_SHAPE, tp_conv_layer_new(tp_params_new(b->tp), "l", INT64_MAX, 3, TP_SQUARE(INT64_MAX, 1, 0), NULL).w);
}

MISUSE(tp_conv_transpose_new)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_conv_transpose_new(NULL, "l", 2, 3, TP_SQUARE(2, 1, 0), NULL, NULL).w));
    BAD(b, TP_E_NULL, tp_conv_transpose_new(p, NULL, 2, 3, TP_SQUARE(2, 1, 0), NULL, NULL).w);
    BAD(b, TP_E_NULL, tp_conv_transpose_new(p, "l", 2, 3, NULL, NULL, NULL).w);
    BAD(b, TP_E_SHAPE, tp_conv_transpose_new(p, "l", -2, 3, TP_SQUARE(2, 1, 0), NULL, NULL).w);
    BAD(b, TP_E_SHAPE, tp_conv_transpose_new(p, "l", 2, 3, &(tp_window){.kernel = {2}, .groups = 2}, NULL, NULL).b);
}

MISUSE(tp_conv_layer_apply)
{
    what = ""; /* the texts name the layer or the optimizer */
    tp_conv_layer l = tp_conv_layer_new(tp_params_new(b->tp), "l", 2, 3, TP_SQUARE(2, 1, 0), NULL), empty = {0};
    OPERAND(b, b->image, tp_conv_layer_apply(&l, x));
    STICKS(b, tp_conv_layer_apply(NULL, b->image));
    STICKS(b, tp_conv_layer_apply(&empty, b->image));
    STICKS(b, tp_conv_layer_apply(&l, b->f));
    const int64_t more[2] = {-1, 0};
    l = tp_conv_transpose_new(tp_params_new(b->tp), "l", 2, 3, TP_SQUARE(2, 1, 0), more, NULL);
    STICKS(b, tp_conv_layer_apply(&l, b->image));
    STICKS(b, tp_conv_layer_apply(&l, b->f));
}

MISUSE(tp_params_new)
{
    (void)what;
    assert_null(tp_params_new(NULL));
    assert_non_null(tp_params_new(b->tp)); /* left to tp_close */
}

MISUSE(tp_params_free)
{
    (void)what;
    tp_params_free(NULL);
    tp_params *p = tp_params_new(b->tp);
    tp_params_free(tp_params_part(p, "part")); /* of the tree */
    tp_params_free(p);
}

MISUSE(tp_params_part)
{
    what = ""; /* the texts name the tree */
    tp_params *p = tp_params_new(b->tp);
    assert_null(tp_params_part(NULL, "x"));
    assert_null(tp_params_part(p, NULL));
    assert_int_equal(tp_error(b->tp), TP_E_NULL);
    tp_clear_error(b->tp);
    assert_null(tp_params_part(p, ".x"));
    assert_int_equal(tp_error(b->tp), TP_E_NAME);
    tp_clear_error(b->tp);
}

MISUSE(tp_params_nth)
{
    (void)what;
    tp_params *p = tp_params_new(b->tp);
    assert_null(tp_params_nth(NULL, "x", 1));
    assert_null(tp_params_nth(p, "", 1));
    assert_int_equal(tp_error(b->tp), TP_E_NAME);
    tp_clear_error(b->tp);
    assert_non_null(tp_params_nth(p, "x", -1));
}

MISUSE(tp_params_ctx)
{
    (void)what;
    assert_null(tp_params_ctx(NULL));
    assert_ptr_equal(tp_params_ctx(tp_params_new(b->tp)), b->tp);
}

/* What both that add refuse. */
#define ADDS(add)                                                                              \
    do {                                                                                       \
        tp_params *p = tp_params_new(b->tp);                                                   \
        int n = 0;                                                                             \
        char of[20] = "w";                                                                     \
        OPERAND(b, b->f, (snprintf(of, sizeof of, "w%d", n++), add(p, of, x)));                \
        STICKS(b, add(p, "w0", b->f));                                                         \
        STICKS(b, add(p, NULL, b->f));                                                         \
        STICKS(b, add(p, "", b->f));                                                           \
        STICKS(b, add(NULL, "w", b->f));                                                       \
        STICKS(b, add(p, "w", b->node));                                                       \
    } while (0)

MISUSE(tp_params_add)
{
    what = ""; /* the texts name the maker of variables */
    ADDS(tp_params_add);
    STICKS(b, tp_params_add(tp_params_new(b->tp), "w", b->i));
}

MISUSE(tp_params_add_state)
{
    what = ""; /* the texts name the maker of variables */
    ADDS(tp_params_add_state);
}

MISUSE(tp_params_share)
{
    what = ""; /* the texts name the tree */
    tp_params *p = tp_params_new(b->tp);
    tp_tensor *w = tp_params_add(p, "w", b->f);
    assert_ptr_equal(tp_params_share(p, "v", w), w);
    STICKS(b, tp_params_share(p, "v", w));
    STICKS(b, tp_params_share(p, NULL, w));
    STICKS(b, tp_params_share(p, "u", NULL));
    STICKS(b, tp_params_share(p, "u", b->f));
    STICKS(b, tp_params_share(p, "u", b->failed));
    STICKS(b, tp_params_share(NULL, "u", w));
}

MISUSE(tp_params_freeze)
{
    (void)what;
    tp_params_freeze(NULL, true);
}

MISUSE(tp_params_n_trained)
{
    (void)what;
    assert_int_equal(tp_params_n_trained(NULL), 0);
}

MISUSE(tp_params_trained)
{
    (void)what;
    assert_null(tp_params_trained(NULL));
    assert_null(tp_params_trained(tp_params_new(b->tp)));
}

MISUSE(tp_params_n)
{
    (void)what;
    assert_int_equal(tp_params_n(NULL), 0);
}

MISUSE(tp_params_tensor)
{
    (void)what;
    assert_null(tp_params_tensor(NULL, 0));
    assert_null(tp_params_tensor(tp_params_new(b->tp), -1));
}

MISUSE(tp_params_name)
{
    (void)what;
    assert_null(tp_params_name(NULL, 0));
    assert_null(tp_params_name(tp_params_new(b->tp), 0));
}

MISUSE(tp_params_find)
{
    (void)what;
    assert_null(tp_params_find(NULL, "w"));
    assert_null(tp_params_find(tp_params_new(b->tp), NULL));
    assert_null(tp_params_find(tp_params_new(b->tp), "w"));
}

MISUSE(tp_params_count)
{
    (void)what;
    assert_int_equal(tp_params_count(NULL), 0);
}

MISUSE(tp_params_text)
{
    (void)what;
    assert_null(tp_params_text(NULL));
    char *text = tp_params_text(tp_params_new(b->tp));
    assert_non_null(text);
    tp_free(b->tp, text);
}

MISUSE(tp_summary)
{
    (void)what;
    tp_params *p = tp_params_new(b->tp);
    assert_null(tp_summary(p, NULL));
    assert_null(tp_summary(p, tp_neg(NULL)));
    assert_null(tp_summary(p, b->failed));
    assert_null(tp_summary(p, b->gone));
    assert_null(tp_summary(p, b->dead));
    tp_clear_error(b->tp);
    assert_null(tp_summary(p, b->param));
    assert_int_equal(tp_error(b->tp), TP_E_STATE);
    tp_clear_error(b->tp);
}

MISUSE(tp_initial)
{
    what = ""; /* the texts name the layer */
    assert_true(tp_failed(tp_initial(NULL, TP_INIT_ZEROS, 0, TP_DIMS(2), 1, 1)));
    BAD(b, TP_E_VALUE, tp_initial(b->tp, (tp_init)-1, 0, TP_DIMS(2), 1, 1));
    BAD(b, TP_E_SHAPE, tp_initial(b->tp, TP_INIT_ZEROS, 0, TP_DIMS(-2), 1, 1));
    BAD(b, TP_E_SHAPE, tp_initial(b->tp, TP_INIT_FAN_IN, 0, TP_DIMS(2), 0, 1));
    BAD(b, TP_E_SHAPE, tp_initial(b->tp, TP_INIT_ORTHOGONAL, 0, TP_DIMS(2), 1, 1));
    BAD(b, TP_E_SHAPE, tp_initial(b->tp, TP_INIT_ORTHOGONAL, 0, TP_DIMS(-2, 2), 1, 1));
    BAD(b, TP_E_SHAPE, tp_initial(b->tp, TP_INIT_TRUNCATED_NORMAL, 0, TP_DIMS(-2), 1, 1));
}

MISUSE(tp_embedding_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_embedding_new(NULL, "l", 3, 2, -1).table));
    BAD(b, TP_E_NULL, tp_embedding_new(p, NULL, 3, 2, -1).table);
    BAD(b, TP_E_SHAPE, tp_embedding_new(p, "l", -3, 2, -1).table);
    BAD(b, TP_E_VALUE, tp_embedding_new(p, "l", 3, 2, 3).table);
}

MISUSE(tp_embedding_apply)
{
    what = ""; /* the texts name the ops */
    tp_embedding l = tp_embedding_new(tp_params_new(b->tp), "l", 3, 2, 1), empty = {0};
    tp_tensor *index = tp_tensor_new(b->tp, TP_I32, TP_DIMS(2), NULL);
    OPERAND(b, index, tp_embedding_apply(&l, x));
    STICKS(b, tp_embedding_apply(NULL, index));
    STICKS(b, tp_embedding_apply(&empty, index));
    STICKS(b, tp_embedding_apply(&l, b->f));
}

MISUSE(tp_layer_norm_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_layer_norm_new(NULL, "l", 3, 0).scale));
    BAD(b, TP_E_NULL, tp_layer_norm_new(p, NULL, 3, 0).scale);
    BAD(b, TP_E_SHAPE, tp_layer_norm_new(p, "l", -3, 0).scale);
}

MISUSE(tp_batch_norm_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_batch_norm_new(NULL, "l", 3, 0, 0).var));
    BAD(b, TP_E_NULL, tp_batch_norm_new(p, NULL, 3, 0, 0).var);
    BAD(b, TP_E_SHAPE, tp_batch_norm_new(p, "l", -3, 0, 0).var);
}

MISUSE(tp_rms_norm_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_rms_norm_new(NULL, "l", 3, 0).scale));
    BAD(b, TP_E_NULL, tp_rms_norm_new(p, NULL, 3, 0).scale);
    BAD(b, TP_E_SHAPE, tp_rms_norm_new(p, "l", -3, 0).scale);
}

MISUSE(tp_group_norm_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_group_norm_new(NULL, "l", 3, 1, 0).scale));
    BAD(b, TP_E_NULL, tp_group_norm_new(p, NULL, 3, 3, 0).scale);
    BAD(b, TP_E_SHAPE, tp_group_norm_new(p, "l", -4, 2, 0).shift);
    BAD(b, TP_E_SHAPE, tp_group_norm_new(p, "l", 4, 3, 0).shift);
    BAD(b, TP_E_SHAPE, tp_group_norm_new(p, "l", 4, 0, 0).shift);
    BAD(b, TP_E_SHAPE, tp_group_norm_new(p, "l", 4, -2, 0).shift);
}

MISUSE(tp_norm_layer_apply)
{
    what = ""; /* the texts name the ops */
    tp_params *p = tp_params_new(b->tp);
    tp_norm_layer l = tp_batch_norm_new(p, "l", 2, 0, 0);
    OPERAND(b, b->image, tp_norm_layer_apply(&l, x));
    STICKS(b, tp_norm_layer_apply(NULL, b->image));
    STICKS(b, tp_norm_layer_apply(&l, b->i));
    l = tp_layer_norm_new(p, "rows", 7, 0);
    STICKS(b, tp_norm_layer_apply(&l, b->image));
    l = tp_rms_norm_new(p, "squares", 7, 0);
    STICKS(b, tp_norm_layer_apply(&l, b->image));
    l = tp_group_norm_new(p, "groups", 6, 3, 0);
    STICKS(b, tp_norm_layer_apply(&l, b->image));
    l.kind = (tp_norm_kind)4;
    STICKS(b, tp_norm_layer_apply(&l, b->image));
}

#define RECURRENT(make)                                                                        \
    MISUSE(make)                                                                               \
    {                                                                                          \
        what = ""; /* the texts name the layer */                                              \
        tp_params *p = tp_params_new(b->tp);                                                   \
        const tp_recurrent_layer_options many = {.layers = 9}, few = {.layers = -1};           \
        assert_true(tp_failed(make(NULL, "l", 3, 2, NULL).w[0][0].w));                         \
        BAD(b, TP_E_NULL, make(p, NULL, 3, 2, NULL).w[0][0].r);                                \
        BAD(b, TP_E_SHAPE, make(p, "l", 0, 2, NULL).w[0][0].r);                                \
        BAD(b, TP_E_SHAPE, make(p, "l", 3, -2, NULL).w[0][0].w);                               \
        BAD(b, TP_E_SHAPE, make(p, "l", 3, INT64_MAX / 2, NULL).w[0][0].w);                    \
        BAD(b, TP_E_VALUE, make(p, "l", 3, 2, &many).w[0][0].w);                               \
        BAD(b, TP_E_VALUE, make(p, "l", 3, 2, &few).w[0][0].w);                                \
    }
RECURRENT(tp_lstm_new)
RECURRENT(tp_gru_new)
RECURRENT(tp_rnn_new)

MISUSE(tp_recurrent_layer_apply)
{
    what = ""; /* the texts name the functions */
    const tp_recurrent_layer l = tp_lstm_new(tp_params_new(b->tp), "l", 3, 2, NULL), empty = {0};
    tp_tensor *steps = tp_unsqueeze(b->f, 0), *h = b->f, *c = NULL;
    OPERAND(b, steps, tp_recurrent_layer_apply(&l, x, NULL, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(&l, steps, b->failed, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(NULL, steps, NULL, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(&empty, steps, NULL, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(&l, b->f, NULL, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(&l, steps, b->c, NULL, NULL));
    STICKS(b, tp_recurrent_layer_apply(&l, steps, NULL, &h, &c));
    assert_true(tp_failed(h) && tp_failed(c));
    c = b->failed;
    STICKS(b, tp_recurrent_layer_apply(&l, steps, NULL, NULL, &c));
    tp_recurrent_layer odd = l;
    odd.n_gates = 2;
    STICKS(b, tp_recurrent_layer_apply(&odd, steps, NULL, NULL, NULL));
}

MISUSE(tp_attention_layer_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_attention_layer_new(NULL, "l", 4, 2, 0, NULL).q.w));
    BAD(b, TP_E_NULL, tp_attention_layer_new(p, NULL, 4, 2, 0, NULL).out.w);
    BAD(b, TP_E_SHAPE, tp_attention_layer_new(p, "l", -4, 2, 0, NULL).q.w);
    BAD(b, TP_E_SHAPE, tp_attention_layer_new(p, "l", 4, 3, 0, NULL).k.w);
    BAD(b, TP_E_SHAPE, tp_attention_layer_new(p, "l", 4, 0, 0, NULL).v.w);
    BAD(b, TP_E_SHAPE, tp_attention_layer_new(p, "l", 8, 4, 3, NULL).out.b);
    BAD(b, TP_E_SHAPE, tp_attention_layer_new(p, "l", 8, 4, -1, NULL).out.b);
}

MISUSE(tp_attention_layer_apply)
{
    what = ""; /* the texts name the functions */
    const tp_attention_layer l = tp_attention_layer_new(tp_params_new(b->tp), "l", 4, 2, 0, NULL), empty = {0};
    tp_tensor *places = tp_select(b->image, 0, 0), *present[2] = {NULL, NULL};
    OPERAND(b, places, tp_attention_layer_apply(&l, x, NULL, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(&l, places, b->failed, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(&l, places, b->f, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(&l, b->f, NULL, NULL, present));
    assert_true(tp_failed(present[0]) && tp_failed(present[1]));
    STICKS(b, tp_attention_layer_apply(&l, tp_unsqueeze(b->f, 0), NULL, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(NULL, places, NULL, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(&empty, places, NULL, NULL, NULL));
    STICKS(b, tp_attention_layer_apply(&l, places, NULL, &(tp_attention_options){.mask = b->failed}, NULL));
}

MISUSE(tp_transformer_block_new)
{
    what = ""; /* the texts name the layer */
    tp_params *p = tp_params_new(b->tp);
    assert_true(tp_failed(tp_transformer_block_new(NULL, "l", 4, 2, NULL).up.w));
    BAD(b, TP_E_NULL, tp_transformer_block_new(p, NULL, 4, 2, NULL).down.w);
    BAD(b, TP_E_SHAPE, tp_transformer_block_new(p, "l", -4, 2, NULL).attention.q.w);
    BAD(b, TP_E_SHAPE, tp_transformer_block_new(p, "l", 4, 3, NULL).norm[0].scale);
    const tp_transformer_options bad[] = {{.hidden = -1}, {.kv_heads = -1}};
    BAD(b, TP_E_SHAPE, tp_transformer_block_new(p, "a", 4, 2, &bad[0]).up.w);
    BAD(b, TP_E_SHAPE, tp_transformer_block_new(p, "b", 4, 2, &bad[1]).up.w);
}

MISUSE(tp_transformer_block_apply)
{
    what = ""; /* the texts name the functions */
    const tp_transformer_block l = tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, NULL),
                               empty = {0};
    tp_tensor *places = tp_select(b->image, 0, 0), *cache[2] = {NULL, NULL};
    OPERAND(b, places, tp_transformer_block_apply(&l, x, NULL, NULL));
    STICKS(b, tp_transformer_block_apply(NULL, places, NULL, NULL));
    STICKS(b, tp_transformer_block_apply(&empty, places, NULL, NULL));
    STICKS(b, tp_transformer_block_apply(&l, b->f, NULL, cache));
    STICKS(b, tp_transformer_block_apply(&l, places, &(tp_attention_options){.mask = b->failed}, NULL));
    cache[0] = cache[1] = b->f;
    STICKS(b, tp_transformer_block_apply(&l, places, NULL, cache));
    const tp_transformer_options drops = {.dropout = 2};
    const tp_transformer_block odd = tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, &drops);
    STICKS(b, tp_transformer_block_apply(&odd, places, NULL, NULL));
}

MISUSE(tp_pool_layer_apply)
{
    what = ""; /* the texts name the functions */
    const tp_pool_layer l = {.kind = TP_POOL_AVG, .window.kernel = {2, 2}}, odd = {.kind = (tp_pool_kind)-1};
    OPERAND(b, b->image, tp_pool_layer_apply(&l, x));
    STICKS(b, tp_pool_layer_apply(NULL, b->image));
    STICKS(b, tp_pool_layer_apply(&odd, b->image));
    STICKS(b, tp_pool_layer_apply(&l, b->f));
}

MISUSE(tp_sequential_apply)
{
    what = ""; /* the texts name the functions */
    const tp_dropout_layer drop = {0.5};
    const tp_layer one = (tp_layer_of_dropout)(&drop); /* without a line */
    const tp_sequential l = {1, &one}, below = {-1, &one}, none = {1, NULL};
    OPERAND(b, b->f, tp_sequential_apply(&l, x));
    STICKS(b, tp_sequential_apply(NULL, b->f));
    STICKS(b, tp_sequential_apply(&below, b->f));
    STICKS(b, tp_sequential_apply(&none, b->f));
}

/* Of no layer: what is made is applied, and fails. */
#define OF_NOTHING(name)                                                                       \
    MISUSE(name)                                                                               \
    {                                                                                          \
        (void)what;                                                                            \
        const tp_layer l = name(NULL);                                                         \
        STICKS(b, l.apply(__FILE__, __LINE__, l.of, b->f));                                    \
    }
OF_NOTHING(tp_layer_of_dense)
OF_NOTHING(tp_layer_of_conv)
OF_NOTHING(tp_layer_of_embedding)
OF_NOTHING(tp_layer_of_norm)
OF_NOTHING(tp_layer_of_recurrent)
OF_NOTHING(tp_layer_of_attention)
OF_NOTHING(tp_layer_of_transformer)
OF_NOTHING(tp_layer_of_pool)
OF_NOTHING(tp_layer_of_dropout)
OF_NOTHING(tp_layer_of_sequential)
OF_NOTHING(tp_layer_of_function)

MISUSE(tp_dropout_apply)
{
    what = ""; /* the texts name the ops */
    OPERAND(b, b->f, tp_dropout_apply(x, 0.5));
    STICKS(b, tp_dropout_apply(b->f, 1));
}

/* ---- state.h */

MISUSE(tp_state_new)
{
    (void)what;
    assert_null(tp_state_new(NULL));
    assert_non_null(tp_state_new(b->tp)); /* left to tp_close */
}

MISUSE(tp_state_free)
{
    (void)what;
    tp_state_free(NULL);
    tp_state *s = tp_state_new(b->tp);
    assert_int_equal(tp_state_add(s, NULL, b->param), TP_OK);
    tp_state_free(s);
}

/* A new state each time: what cannot be added spoils it. */
#define ADDS_NOT(b, status, call)                                                              \
    do {                                                                                       \
        tp_state *s = tp_state_new((b)->tp);                                                   \
        assert_int_equal(call, status);                                                        \
        assert_int_equal(tp_error((b)->tp), status);                                           \
        tp_clear_error((b)->tp);                                                               \
        assert_int_equal(tp_state_save(s, "never.safetensors"), TP_E_STATE);                   \
        tp_clear_error((b)->tp);                                                               \
    } while (0)

MISUSE(tp_state_add)
{
    (void)what;
    assert_int_equal(tp_state_add(NULL, NULL, b->param), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add(s, "x", NULL));
    ADDS_NOT(b, TP_E_STATE, tp_state_add(s, "x", b->f));
    ADDS_NOT(b, TP_E_SYMBOLIC, tp_state_add(s, "x", b->node));
    ADDS_NOT(b, TP_E_NAME, tp_state_add(s, "", b->param));
    tp_state *s = tp_state_new(b->tp);
    STICKS(b, tp_state_add(s, "x", b->foreign));
    STICKS(b, tp_state_add(s, "x", b->failed));
}

MISUSE(tp_state_add_counter)
{
    (void)what;
    int64_t n = 0;
    assert_int_equal(tp_state_add_counter(NULL, "n", &n), TP_E_NULL);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_counter(s, "n", NULL));
    ADDS_NOT(b, TP_E_NULL, tp_state_add_counter(s, NULL, &n));
    ADDS_NOT(b, TP_E_NAME, tp_state_add_counter(s, "", &n));
    ADDS_NOT(b, TP_E_NAME, tp_state_add_counter(s, "\xc3", &n));
}

MISUSE(tp_state_add_random)
{
    (void)what;
    assert_int_equal(tp_state_add_random(NULL), TP_E_NULL);
    ADDS_NOT(b, TP_E_NAME, (tp_state_add_random(s), tp_state_add_random(s)));
}

MISUSE(tp_state_add_params)
{
    (void)what;
    assert_int_equal(tp_state_add_params(NULL, NULL, NULL), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_params(s, NULL, NULL));
    tp_params *p = tp_params_new(b->tp);
    tp_params_add(p, "w", b->f);
    assert_int_equal(tp_state_add_params(NULL, NULL, p), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NAME,
             (tp_state_add_params(s, NULL, p), tp_state_add_params(s, NULL, p)));
    ADDS_NOT(b, TP_E_NAME, tp_state_add_params(s, "\xff", p));
}

MISUSE(tp_state_add_optimizer)
{
    (void)what;
    assert_int_equal(tp_state_add_optimizer(NULL, NULL, NULL), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_optimizer(s, NULL, NULL));
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    ADDS_NOT(b, TP_E_NAME,
             (tp_state_add_optimizer(s, "a", o), tp_state_add_optimizer(s, "b", o)));
}

MISUSE(tp_state_save)
{
    tp_state *s = tp_state_new(b->tp);
    assert_int_equal(tp_state_save(NULL, "never.safetensors"), TP_E_NULL);
    STICKS(b, tp_state_save(s, NULL));
    STICKS(b, tp_state_save(s, "no-such-folder/x.safetensors"));
}

MISUSE(tp_state_load)
{
    tp_state *s = tp_state_new(b->tp);
    assert_int_equal(tp_state_load(NULL, "never.safetensors", NULL), TP_E_NULL);
    STICKS(b, tp_state_load(s, NULL, NULL));
    STICKS(b, tp_state_load(s, "no-such-folder/x.safetensors", "*"));
}

MISUSE(tp_state_add_variables)
{
    (void)what;
    assert_int_equal(tp_state_add_variables(NULL, NULL, 1, &b->param), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_variables(s, NULL, 1, NULL));
    ADDS_NOT(b, TP_E_NULL, tp_state_add_variables(s, NULL, -1, &b->param));
    ADDS_NOT(b, TP_E_NULL, tp_state_add_variables(s, "a", 1, &(tp_tensor *){NULL}));
    ADDS_NOT(b, TP_E_NAME, tp_state_add_variables(s, "\xff", 1, &b->param));
    ADDS_NOT(b, TP_E_NAME,
             tp_state_add_variables(s, NULL, 2, (tp_tensor *[]){b->param, b->param}));
}

MISUSE(tp_state_add_lbfgs)
{
    (void)what;
    tp_lbfgs *l = tp_lbfgs_new(b->tp, NULL, 1, &b->param);
    assert_int_equal(tp_state_add_lbfgs(NULL, NULL, l), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_lbfgs(s, NULL, NULL));
    ADDS_NOT(b, TP_E_NAME, (tp_state_add_lbfgs(s, "a", l), tp_state_add_lbfgs(s, "b", l)));
}

MISUSE(tp_state_add_loss_scale)
{
    (void)what;
    tp_loss_scale *l = tp_loss_scale_new(b->tp, NULL);
    assert_int_equal(tp_state_add_loss_scale(NULL, NULL, l), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_loss_scale(s, NULL, NULL));
    ADDS_NOT(b, TP_E_NAME,
             (tp_state_add_loss_scale(s, "a", l), tp_state_add_loss_scale(s, "b", l)));
}

MISUSE(tp_state_add_average)
{
    (void)what;
    tp_average *a = tp_average_new(b->tp, 0.5, 1, &b->param);
    assert_int_equal(tp_state_add_average(NULL, NULL, a), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_average(s, NULL, NULL));
    ADDS_NOT(b, TP_E_NAME, (tp_state_add_average(s, "a", a), tp_state_add_average(s, "b", a)));
}

MISUSE(tp_state_add_gradient_sum)
{
    (void)what;
    tp_gradient_sum *g = tp_gradient_sum_new(b->tp, 1, &b->param);
    assert_int_equal(tp_state_add_gradient_sum(NULL, NULL, g), TP_E_NULL);
    tp_clear_error(b->tp);
    ADDS_NOT(b, TP_E_NULL, tp_state_add_gradient_sum(s, NULL, NULL));
    ADDS_NOT(b, TP_E_NAME,
             (tp_state_add_gradient_sum(s, "a", g), tp_state_add_gradient_sum(s, "b", g)));
}

MISUSE(tp_state_transfer)
{
    tp_state *s = tp_state_new(b->tp);
    const tp_transfer row = {"*", "*", false, 0, NULL};
    assert_int_equal(tp_state_transfer(NULL, "never.safetensors", 1, &row), TP_E_NULL);
    BAD(b, TP_E_NULL, tp_state_transfer(s, "never.safetensors", 1, NULL));
    BAD(b, TP_E_VALUE, tp_state_transfer(s, "never.safetensors", -1, &row));
    STICKS(b, tp_state_transfer(s, NULL, 1, &row));
    STICKS(b, tp_state_transfer(s, "no-such-folder/x.safetensors", 0, NULL));
}

/* ---- archive.h */

MISUSE(tp_archive_open)
{
    BAD_NIL(b, (void *)tp_archive_open(NULL, "x"));
    BAD(b, TP_E_NULL, (void *)tp_archive_open(b->tp, NULL));
    BAD(b, TP_E_IO, (void *)tp_archive_open(b->tp, "/nowhere/x.npz"));
    BAD(b, TP_E_IO, (void *)tp_archive_open(b->tp, "/"));
    BAD(b, TP_E_IO, (void *)tp_archive_open(b->tp, ""));
}

/* Of one tensor, "v". */
static tp_archive *an_archive(bed *b)
{
    assert_int_equal(
        tp_archive_save(b->tp, "misuse.npz", 1, &(tp_archive_item){"v", b->var, NULL}), TP_OK);
    tp_archive *a = tp_archive_open(b->tp, "misuse.npz");
    remove("misuse.npz");
    assert_non_null(a);
    return a;
}

MISUSE(tp_archive_free)
{
    (void)what;
    tp_archive_free(NULL);
    tp_archive_free(an_archive(b));
    an_archive(b); /* left to tp_close */
}

MISUSE(tp_archive_n)
{
    (void)what;
    assert_int_equal(tp_archive_n(NULL), 0);
}

MISUSE(tp_archive_entry_of)
{
    (void)what;
    const tp_archive *a = an_archive(b);
    assert_null(tp_archive_entry_of(NULL, 0));
    assert_null(tp_archive_entry_of(a, -1));
    assert_null(tp_archive_entry_of(a, 1));
    assert_null(tp_archive_entry_of(a, INT32_MAX));
}

MISUSE(tp_archive_find)
{
    (void)what;
    assert_null(tp_archive_find(NULL, "v"));
    assert_null(tp_archive_find(an_archive(b), NULL));
    assert_null(tp_archive_find(an_archive(b), ""));
}

MISUSE(tp_archive_key)
{
    (void)what;
    assert_null(tp_archive_key(NULL, 0));
    assert_null(tp_archive_key(an_archive(b), 0));
    assert_null(tp_archive_key(an_archive(b), -1));
}

MISUSE(tp_archive_text)
{
    (void)what;
    assert_null(tp_archive_text(NULL, "v"));
    assert_null(tp_archive_text(an_archive(b), NULL));
    assert_null(tp_archive_text(an_archive(b), "v"));
}

MISUSE(tp_archive_tensor)
{
    tp_archive *a = an_archive(b);
    BAD_NIL(b, tp_archive_tensor(NULL, "v"));
    BAD(b, TP_E_NULL, tp_archive_tensor(a, NULL));
    BAD(b, TP_E_NAME, tp_archive_tensor(a, "w"));
    assert_false(tp_failed(tp_archive_tensor(a, "v")));
}

MISUSE(tp_archive_save)
{
    const tp_archive_item bad[] = {{"x", b->failed, NULL},
                                   {"x", b->dead, NULL},
                                   {"x", b->foreign, NULL},
                                   {"x", b->node, NULL}},
                          good = {"x", b->f, NULL};
    assert_int_equal(tp_archive_save(NULL, "never.npz", 1, &good), TP_E_NULL);
    for (int i = 0; i < 4; i++)
        STICKS(b, tp_archive_save(b->tp, "never.npz", 1, &bad[i]));
    BAD(b, TP_E_NULL, tp_archive_save(b->tp, "never.npz", 1, NULL));
    BAD(b, TP_E_VALUE, tp_archive_save(b->tp, "never.npz", -1, &good));
    BAD(b, TP_E_NULL, tp_archive_save(b->tp, NULL, 1, &good));
    BAD(b, TP_E_IO, tp_archive_save(b->tp, "", 1, &good));
    BAD(b, TP_E_IO, tp_archive_save(b->tp, "/nowhere/x.npz", 1, &good));
}

const misuse misuse_nn[] = {
    LISTED(tp_batch_norm_new),
    LISTED(tp_dropout_apply),
    LISTED(tp_embedding_apply),
    LISTED(tp_embedding_new),
    LISTED(tp_initial),
    LISTED(tp_layer_norm_new),
    LISTED(tp_rms_norm_new),
    LISTED(tp_group_norm_new),
    LISTED(tp_attention_layer_new),
    LISTED(tp_attention_layer_apply),
    LISTED(tp_transformer_block_new),
    LISTED(tp_transformer_block_apply),
    LISTED(tp_pool_layer_apply),
    LISTED(tp_sequential_apply),
    LISTED(tp_layer_of_dense),
    LISTED(tp_layer_of_conv),
    LISTED(tp_layer_of_embedding),
    LISTED(tp_layer_of_norm),
    LISTED(tp_layer_of_recurrent),
    LISTED(tp_layer_of_attention),
    LISTED(tp_layer_of_transformer),
    LISTED(tp_layer_of_pool),
    LISTED(tp_layer_of_dropout),
    LISTED(tp_layer_of_sequential),
    LISTED(tp_layer_of_function),
    LISTED(tp_lstm_new),
    LISTED(tp_gru_new),
    LISTED(tp_rnn_new),
    LISTED(tp_recurrent_layer_apply),
    LISTED(tp_norm_layer_apply),
    LISTED(tp_params_add),
    LISTED(tp_params_add_state),
    LISTED(tp_params_count),
    LISTED(tp_params_ctx),
    LISTED(tp_params_find),
    LISTED(tp_params_free),
    LISTED(tp_params_freeze),
    LISTED(tp_params_n),
    LISTED(tp_params_n_trained),
    LISTED(tp_params_name),
    LISTED(tp_params_new),
    LISTED(tp_params_nth),
    LISTED(tp_params_part),
    LISTED(tp_params_share),
    LISTED(tp_params_tensor),
    LISTED(tp_params_text),
    LISTED(tp_summary),
    LISTED(tp_params_trained),
    LISTED(tp_dense_new),
    LISTED(tp_dense_apply),
    LISTED(tp_conv_layer_new),
    LISTED(tp_conv_transpose_new),
    LISTED(tp_conv_layer_apply),
    LISTED(tp_state_new),
    LISTED(tp_state_free),
    LISTED(tp_state_add),
    LISTED(tp_state_add_counter),
    LISTED(tp_state_add_random),
    LISTED(tp_state_add_params),
    LISTED(tp_state_add_optimizer),
    LISTED(tp_state_add_variables),
    LISTED(tp_state_add_average),
    LISTED(tp_state_add_gradient_sum),
    LISTED(tp_state_add_lbfgs),
    LISTED(tp_state_add_loss_scale),
    LISTED(tp_state_save),
    LISTED(tp_state_load),
    LISTED(tp_state_transfer),
    LISTED(tp_archive_open),
    LISTED(tp_archive_free),
    LISTED(tp_archive_n),
    LISTED(tp_archive_entry_of),
    LISTED(tp_archive_find),
    LISTED(tp_archive_key),
    LISTED(tp_archive_text),
    LISTED(tp_archive_tensor),
    LISTED(tp_archive_save),
    {0},
};
