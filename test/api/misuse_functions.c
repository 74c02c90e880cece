/* Misuse of the functions of nn.h that have no state. */
#include "misuse_forms.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

/* ---- losses, normalisations, attention -------------------------------------------------------- */

ALONG(tp_softmax, )
ALONG(tp_log_softmax, )

MISUSE(tp_cross_entropy)
{
    OPERAND(b, b->f, tp_cross_entropy(x, b->i));
    OPERAND(b, b->i, tp_cross_entropy(b->f, x));
    BAD(b, TP_E_DTYPE, tp_cross_entropy(b->i, b->i));
    BAD(b, TP_E_SHAPE, tp_cross_entropy(b->c, b->i));
    BAD(b, TP_E_SHAPE, tp_cross_entropy(b->t, b->i));
    BAD(b, TP_E_DTYPE, tp_cross_entropy(b->f, tp_slice(b->c, 0, 0, 2, 1)));
    assert_true(tp_failed(tp_cross_entropy(b->f, far(b, TP_DIMS(2)))));
    assert_int_equal(tp_error(b->tp), TP_E_VALUE);
    tp_clear_error(b->tp);
}

MISUSE(tp_mse)
{
    OPERAND(b, b->f, tp_mse(x, b->f));
    OPERAND(b, b->f, tp_mse(b->f, x));
    BAD(b, TP_E_SHAPE, tp_mse(b->f, b->t));
}

MISUSE(tp_layer_norm)
{
    OPERAND(b, b->f, tp_layer_norm(x, b->c, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_layer_norm(b->f, b->f, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_layer_norm(b->f, b->c, b->f, 1e-5));
    BAD(b, TP_E_VALUE, tp_layer_norm(b->f, NULL, NULL, -1));
    BAD(b, TP_E_DTYPE, tp_layer_norm(b->along, NULL, NULL, 1e-5));
    BAD(b, TP_E_CTX, tp_layer_norm(b->f, tp_full(b->other, TP_F32, TP_DIMS(3), 1), NULL, 1e-5));
    STICKS(b, tp_layer_norm(b->f, b->failed, NULL, 1e-5));
    STICKS(b, tp_layer_norm(b->f, NULL, b->gone, 1e-5));
}

MISUSE(tp_batch_norm)
{
    OPERAND(b, b->f, tp_batch_norm(x, b->c, b->c, b->c, b->c, 1e-5));
    OPERAND(b, b->c, tp_batch_norm(b->f, NULL, NULL, x, b->c, 1e-5));
    OPERAND(b, b->c, tp_batch_norm(b->f, NULL, NULL, b->c, x, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm(b->f, b->f, NULL, b->c, b->c, 1e-5));
    BAD(b, TP_E_VALUE, tp_batch_norm(b->f, NULL, NULL, b->c, b->c, -1));
    BAD(b, TP_E_SHAPE, tp_batch_norm(b->c, NULL, NULL, b->c, b->c, 1e-5));
}

MISUSE(tp_batch_norm_train)
{
    OPERAND(b, b->f, tp_batch_norm_train(x, b->c, b->c, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->c, NULL, NULL, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->f, b->f, NULL, NULL, NULL, 0.1, 1e-5));
    BAD(b, TP_E_SHAPE, tp_batch_norm_train(b->f, NULL, NULL, b->var, b->var, 0.1, 1e-5));
    BAD(b, TP_E_VALUE, tp_batch_norm_train(b->f, NULL, NULL, NULL, NULL, 0.1, -1));
    tp_tensor *running = tp_variable(b->c, "r");
    assert_true(tp_failed(tp_batch_norm_train(b->f, NULL, NULL, b->c, b->c, 0.1, 1e-5)));
    tp_clear_error(b->tp);
    assert_true(tp_failed(tp_batch_norm_train(b->f, NULL, NULL, running, NULL, 0.1, 1e-5)) ||
                tp_error(b->tp) == TP_OK);
    tp_clear_error(b->tp);
    STICKS(b, tp_batch_norm_train(b->f, NULL, NULL, b->failed, running, 0.1, 1e-5));
}

MISUSE(tp_cross_entropy_with)
{
    OPERAND(b, b->f, tp_cross_entropy_with(x, b->i, NULL));
    OPERAND(b, b->i, tp_cross_entropy_with(b->f, x, NULL));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->c, b->i, NULL));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->f, b->t, NULL));
    BAD(b, TP_E_DTYPE, tp_cross_entropy_with(b->f, b->c, NULL));
    BAD(b, TP_E_DTYPE, tp_cross_entropy_with(b->f, tp_select(b->flag, 1, 0), NULL));
    BAD(b, TP_E_AXIS, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.axis = 2}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.smoothing = -1}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.reduction = (tp_reduction)9}));
    BAD(b, TP_E_VALUE, tp_cross_entropy_with(b->f, b->f, &(tp_loss_options){.ignores = true}));
    BAD(b, TP_E_SHAPE, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->f}));
    BAD(b, TP_E_CTX, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = tp_full(b->other, TP_F32, TP_DIMS(3), 1)}));
    STICKS(b, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->failed}));
    STICKS(b, tp_cross_entropy_with(b->f, b->i, &(tp_loss_options){.weights = b->gone}));
}

MISUSE(tp_nll)
{
    OPERAND(b, b->f, tp_nll(x, b->i, NULL));
    OPERAND(b, b->i, tp_nll(b->f, x, NULL));
    BAD(b, TP_E_DTYPE, tp_nll(b->along, b->i, NULL));
    BAD(b, TP_E_SHAPE, tp_nll(b->f, b->along, NULL));
    BAD(b, TP_E_SHAPE, tp_nll(tp_scalar(b->tp, TP_F32, 1), b->i, NULL));
}

#define PAIR(fn)                                                                               \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->f, TP_NONE));                                                \
        OPERAND(b, b->f, fn(b->f, x, TP_NONE));                                                \
        BAD(b, TP_E_SHAPE, fn(b->f, b->t, TP_MEAN));                                           \
        BAD(b, TP_E_DTYPE, fn(b->along, b->f, TP_MEAN));                                       \
        BAD(b, TP_E_VALUE, fn(b->f, b->f, (tp_reduction)-1));                                  \
    }
PAIR(tp_l1)
PAIR(tp_hinge)
PAIR(tp_bce)
PAIR(tp_kl_div)
PAIR(tp_poisson_nll)

MISUSE(tp_huber)
{
    OPERAND(b, b->f, tp_huber(x, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_huber(b->f, x, 1, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_huber(b->f, b->c, 1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_huber(b->f, b->f, -1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_huber(b->f, b->f, 0.0 / 0.0, TP_MEAN));
}

MISUSE(tp_bce_with_logits)
{
    OPERAND(b, b->f, tp_bce_with_logits(x, b->f, NULL, b->c, TP_MEAN));
    OPERAND(b, b->f, tp_bce_with_logits(b->f, x, b->c, NULL, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_bce_with_logits(b->f, b->t, NULL, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, b->t, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, b->failed, NULL, TP_MEAN));
    STICKS(b, tp_bce_with_logits(b->f, b->f, NULL, b->gone, TP_MEAN));
}

MISUSE(tp_cosine_similarity)
{
    OPERAND(b, b->f, tp_cosine_similarity(x, b->f, 1, 0));
    OPERAND(b, b->f, tp_cosine_similarity(b->f, x, 1, 0));
    BAD(b, TP_E_SHAPE, tp_cosine_similarity(b->f, b->c, 0, 0));
    BAD(b, TP_E_AXIS, tp_cosine_similarity(b->f, b->f, -3, 0));
    BAD(b, TP_E_VALUE, tp_cosine_similarity(b->f, b->f, 1, -1));
}

MISUSE(tp_cosine_loss)
{
    OPERAND(b, b->f, tp_cosine_loss(x, b->f, b->i, 0, TP_MEAN));
    OPERAND(b, b->f, tp_cosine_loss(b->f, x, b->i, 0, TP_MEAN));
    OPERAND(b, b->i, tp_cosine_loss(b->f, b->f, x, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_cosine_loss(b->f, b->f, b->c, 0, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_cosine_loss(b->f, b->f, b->i, 1.0 / 0.0, TP_MEAN));
}

MISUSE(tp_triplet)
{
    OPERAND(b, b->f, tp_triplet(x, b->f, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_triplet(b->f, x, b->f, 1, TP_MEAN));
    OPERAND(b, b->f, tp_triplet(b->f, b->f, x, 1, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_triplet(b->f, b->f, b->c, 1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_triplet(b->f, b->f, b->f, 0.0 / 0.0, TP_MEAN));
}

MISUSE(tp_ctc_loss)
{
    tp_tensor *logs = tp_full(b->tp, TP_F32, TP_DIMS(4, 2, 3), -1);
    tp_tensor *of = tp_full(b->tp, TP_I64, TP_DIMS(2, 2), 1), *n = tp_full(b->tp, TP_I64, TP_DIMS(2), 2);
    OPERAND(b, logs, tp_ctc_loss(x, of, n, n, 0, TP_MEAN));
    OPERAND(b, of, tp_ctc_loss(logs, x, n, n, 0, TP_MEAN));
    OPERAND(b, n, tp_ctc_loss(logs, of, x, n, 0, TP_MEAN));
    OPERAND(b, n, tp_ctc_loss(logs, of, n, x, 0, TP_MEAN));
    BAD(b, TP_E_DTYPE, tp_ctc_loss(logs, b->f, n, n, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_ctc_loss(b->f, of, n, n, 0, TP_MEAN));
    BAD(b, TP_E_SHAPE, tp_ctc_loss(logs, b->along, b->along, n, 0, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, 3, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, -1, TP_MEAN));
    BAD(b, TP_E_VALUE, tp_ctc_loss(logs, of, n, n, 0, (tp_reduction)3));
    assert_true(tp_failed(tp_ctc_loss(logs, tp_full(b->tp, TP_I64, TP_DIMS(2, 2), 3), n, n, 0, TP_MEAN)));
    tp_clear_error(b->tp);
}

MISUSE(tp_hardmax)
{
    OPERAND(b, b->f, tp_hardmax(x, 1));
    BAD(b, TP_E_AXIS, tp_hardmax(b->f, 2));
    BAD(b, TP_E_DTYPE, tp_hardmax(b->i, 0));
}

MISUSE(tp_rms_norm)
{
    OPERAND(b, b->f, tp_rms_norm(x, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_rms_norm(b->f, b->f, 1e-5));
    BAD(b, TP_E_VALUE, tp_rms_norm(b->f, NULL, -1));
    BAD(b, TP_E_AXIS, tp_rms_norm(tp_scalar(b->tp, TP_F32, 1), NULL, 0));
    BAD(b, TP_E_DTYPE, tp_rms_norm(b->along, NULL, 1e-5));
    STICKS(b, tp_rms_norm(b->f, b->failed, 1e-5));
}

MISUSE(tp_group_norm)
{
    OPERAND(b, b->f, tp_group_norm(x, 3, b->c, b->c, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->f, 2, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->c, 1, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_group_norm(b->f, 1, b->f, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_group_norm(b->f, 0, NULL, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_group_norm(b->f, 3, NULL, NULL, -1));
    STICKS(b, tp_group_norm(b->f, 3, NULL, b->gone, 1e-5));
}

MISUSE(tp_instance_norm)
{
    OPERAND(b, b->image, tp_instance_norm(x, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_instance_norm(b->f, NULL, NULL, 1e-5));
    BAD(b, TP_E_SHAPE, tp_instance_norm(b->image, b->c, NULL, 1e-5));
    BAD(b, TP_E_VALUE, tp_instance_norm(b->image, NULL, NULL, -1));
    STICKS(b, tp_instance_norm(b->image, b->failed, NULL, 1e-5));
}

MISUSE(tp_local_response_norm)
{
    OPERAND(b, b->image, tp_local_response_norm(x, 3, 1, 0.5, 1));
    BAD(b, TP_E_SHAPE, tp_local_response_norm(b->c, 3, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 0, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 1 << 20, 1, 0.5, 1));
    BAD(b, TP_E_VALUE, tp_local_response_norm(b->image, 3, 0.0 / 0.0, 0.5, 1));
}

MISUSE(tp_normalize)
{
    OPERAND(b, b->f, tp_normalize(x, 2, 1, 0));
    BAD(b, TP_E_AXIS, tp_normalize(b->f, 2, 2, 0));
    BAD(b, TP_E_VALUE, tp_normalize(b->f, 0, 1, 0));
    BAD(b, TP_E_VALUE, tp_normalize(b->f, 2, 1, -1));
    BAD(b, TP_E_DTYPE, tp_normalize(b->i, 2, 0, 0));
}

MISUSE(tp_attention)
{
    what = "attention|concat";
    OPERAND(b, b->image, tp_attention(x, b->image, b->image, NULL, NULL));
    OPERAND(b, b->image, tp_attention(b->image, x, b->image, NULL, NULL));
    OPERAND(b, b->image, tp_attention(b->image, b->image, x, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_attention(b->f, b->f, b->f, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_attention(b->image, b->image_out, b->image, NULL, NULL));
    tp_tensor *present[2];
#define OPTION(...) tp_attention(b->image, b->image, b->image, &(tp_attention_options){__VA_ARGS__}, present)
    BAD(b, TP_E_VALUE, OPTION(.scale = 1.0 / 0.0));
    BAD(b, TP_E_VALUE, OPTION(.softcap = -1));
    BAD(b, TP_E_VALUE, OPTION(.before = -1));
    BAD(b, TP_E_VALUE, OPTION(.after = -1));
    BAD(b, TP_E_DTYPE, OPTION(.mask = b->along));
    BAD(b, TP_E_DTYPE, OPTION(.lengths = b->c));
    BAD(b, TP_E_SHAPE, OPTION(.lengths = b->along));
    BAD(b, TP_E_SHAPE, OPTION(.past_key = b->kernel, .past_value = b->image));
    BAD(b, TP_E_SHAPE, OPTION(.past_key = b->image, .past_value = tp_slice(b->image, 2, 0, 1, 1)));
    BAD(b, TP_E_NULL, OPTION(.past_key = b->image));
    STICKS(b, OPTION(.mask = b->f));
    STICKS(b, OPTION(.mask = b->failed));
    STICKS(b, OPTION(.past_key = b->image, .past_value = b->gone));
    assert_true(tp_failed(OPTION(.softcap = -1)) && tp_failed(present[0]) && tp_failed(present[1]));
    tp_clear_error(b->tp);
#undef OPTION
}

MISUSE(tp_rotary)
{
    tp_tensor *turn = tp_full(b->tp, TP_F32, TP_DIMS(2, 1), 1);
    OPERAND(b, b->f, tp_rotary(x, turn, turn, false));
    OPERAND(b, turn, tp_rotary(b->f, x, turn, false));
    OPERAND(b, turn, tp_rotary(b->f, turn, x, true));
    BAD(b, TP_E_SHAPE, tp_rotary(b->f, b->f, b->f, false));
    BAD(b, TP_E_SHAPE, tp_rotary(b->f, turn, b->f, false));
    BAD(b, TP_E_SHAPE, tp_rotary(b->c, turn, turn, false));
}

MISUSE(tp_dropout)
{
    OPERAND(b, b->f, tp_dropout(x, 0.5));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, 1));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, -0.1));
    BAD(b, TP_E_VALUE, tp_dropout(b->f, 0.0 / 0.0));
    BAD(b, TP_E_DTYPE, tp_dropout(b->i, 0.5));
}

MISUSE(tp_linear)
{
    what = "matmul";
    OPERAND(b, b->f, tp_linear(x, b->t, NULL));
    OPERAND(b, b->t, tp_linear(b->f, x, NULL));
    what = "linear|matmul|add";
    BAD(b, TP_E_SHAPE, tp_linear(b->f, b->f, NULL));
    BAD(b, TP_E_SHAPE, tp_linear(b->f, b->t, b->c));
}

/* ---- recurrent --------------------------------------------------------------------------- */

/* Weights of so many gates for the inputs b->f [2, 3] and a state [2, 2]. */
static tp_recurrent recurrent(bed *b, int gates)
{
    return (tp_recurrent){.w = tp_full(b->tp, TP_F32, TP_DIMS(3, 2 * gates), 1),
                          .r = tp_full(b->tp, TP_F32, TP_DIMS(2, 2 * gates), 1)};
}

static tp_tensor *nothing(void *user, int k, tp_tensor *x)
{
    (void)user, (void)k, (void)x;
    return NULL;
}

/* Weights are of a graph, and the input of another context: it is no node of that graph. */
static void stays_out(bed *b, tp_tensor *y)
{
    assert_true(tp_failed(y));
    tp_clear_error(b->tp);
    tp_clear_error(b->other);
    assert_int_equal(tp_graph_verify(b->g), TP_OK);
}

#define CELL(fn, gates, CALL)                                                                  \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        const tp_recurrent w = recurrent(b, gates);                                            \
        tp_tensor *h = tp_full(b->tp, TP_F32, TP_DIMS(2, 2), 1);                               \
        OPERAND(b, b->f, CALL(x, h, &w, NULL));                                                \
        STICKS(b, CALL(b->f, b->failed, &w, NULL));                                            \
        BAD(b, TP_E_NULL, CALL(b->f, h, NULL, NULL));                                          \
        BAD(b, TP_E_NULL, CALL(b->f, h, &(tp_recurrent){.w = w.w}, NULL));                     \
        BAD(b, TP_E_SHAPE, CALL(b->t, h, &w, NULL));                                           \
        BAD(b, TP_E_SHAPE, CALL(b->c, h, &w, NULL));                                           \
        BAD(b, TP_E_SHAPE, CALL(b->f, b->f, &w, NULL));                                        \
        BAD(b, TP_E_SHAPE, CALL(b->f, h, (&(tp_recurrent){.w = w.w, .r = w.w}), NULL));        \
        BAD(b, TP_E_SHAPE, CALL(b->f, h, (&(tp_recurrent){.w = w.w, .r = w.r, .wb = b->f}), NULL)); \
        BAD(b, TP_E_DTYPE, CALL(b->along, h, &w, NULL));                                       \
        BAD(b, TP_E_VALUE, CALL(b->f, h, &w, &(tp_recurrent_options){.clip = -1}));            \
        BAD(b, TP_E_NULL, CALL(b->f, h, &w, &(tp_recurrent_options){.activation = nothing}));  \
        stays_out(b, CALL(b->foreign, h, (&(tp_recurrent){.w = b->node, .r = b->node}), NULL)); \
    }
#define LSTM_CELL(x, h, ...) tp_lstm_cell(x, h, NULL, __VA_ARGS__)
CELL(tp_rnn_cell, 1, tp_rnn_cell)
CELL(tp_gru_cell, 3, tp_gru_cell)
CELL(tp_lstm_cell, 4, LSTM_CELL)

#define LAYER(fn, gates, ...) /* what comes behind the state */                                \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        const tp_recurrent w[2] = {recurrent(b, gates), recurrent(b, gates)};                  \
        tp_tensor *xs = tp_unsqueeze(b->f, 0), *h = NULL;                                      \
        OPERAND(b, xs, fn(x, w, NULL, NULL, ##__VA_ARGS__));                                   \
        BAD(b, TP_E_NULL, fn(xs, NULL, NULL, NULL, ##__VA_ARGS__));                            \
        BAD(b, TP_E_SHAPE, fn(b->f, w, NULL, &h, ##__VA_ARGS__));                              \
        assert_true(tp_failed(h)); /* the state is the failed tensor, too */                   \
        STICKS(b, fn(xs, w, NULL, &h, ##__VA_ARGS__));                                         \
        const tp_recurrent_options both = {.both = true, .reverse = true};                     \
        BAD(b, TP_E_VALUE, fn(xs, w, &both, NULL, ##__VA_ARGS__));                             \
        h = b->f;                                                                              \
        BAD(b, TP_E_SHAPE, fn(xs, w, &(tp_recurrent_options){.both = true}, &h, ##__VA_ARGS__)); \
        const tp_recurrent_options ends = {.lengths = b->c};                                   \
        BAD(b, TP_E_SHAPE, fn(xs, w, &ends, NULL, ##__VA_ARGS__));                             \
    }
LAYER(tp_rnn, 1)
LAYER(tp_gru, 3)
LAYER(tp_lstm, 4, NULL)

/* ---- windows and images ------------------------------------------------------------------ */

#define ADAPTIVE(fn)                                                                           \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->image, fn(x, TP_DIMS(3, 2)));                                            \
        BAD(b, TP_E_SHAPE, fn(b->image, TP_DIMS(3)));                                          \
        BAD(b, TP_E_SHAPE, fn(b->image, TP_DIMS(3, -2)));                                      \
        BAD(b, TP_E_SHAPE, fn(b->image, 2, NULL));                                             \
        BAD(b, TP_E_SHAPE, fn(b->f, TP_DIMS(3)));                                              \
        BAD(b, TP_E_DTYPE, fn(b->along, TP_DIMS(3)));                                          \
        BAD(b, TP_E_SHAPE, fn(tp_reshape(b->batch, TP_DIMS(1, 3, -1)), TP_DIMS(2)));           \
    }
ADAPTIVE(tp_adaptive_avg_pool)
ADAPTIVE(tp_adaptive_max_pool)

#define GLOBAL_POOL(fn)                                                                        \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->image, fn(x));                                                           \
        BAD(b, TP_E_SHAPE, fn(b->f));                                                          \
        BAD(b, TP_E_DTYPE, fn(b->i));                                                          \
    }
GLOBAL_POOL(tp_global_avg_pool)
GLOBAL_POOL(tp_global_max_pool)

MISUSE(tp_lp_pool)
{
    const tp_window w = {.kernel = {2, 2}};
    OPERAND(b, b->image, tp_lp_pool(x, 2, &w));
    BAD(b, TP_E_NULL, tp_lp_pool(b->image, 2, NULL));
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 0, &w));
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 0.0 / 0.0, &w));
    BAD(b, TP_E_SHAPE, tp_lp_pool(b->f, 2, &w));
    what = "avg_pool";
    BAD(b, TP_E_VALUE, tp_lp_pool(b->image, 2, &(tp_window){0}));
}

MISUSE(tp_max_unpool)
{
    tp_tensor *index = tp_cast(b->image, TP_I64);
    OPERAND(b, b->image, tp_max_unpool(x, index, TP_DIMS(8, 8)));
    OPERAND(b, index, tp_max_unpool(b->image, x, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, b->i, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, b->image, TP_DIMS(8, 8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, index, TP_DIMS(8)));
    BAD(b, TP_E_SHAPE, tp_max_unpool(b->image, index, TP_DIMS(INT64_MAX / 2, 8)));
}

MISUSE(tp_unfold)
{
    OPERAND(b, b->image, tp_unfold(x, &(tp_window){.kernel = {2, 2}}));
    BAD(b, TP_E_NULL, tp_unfold(b->image, NULL));
    BAD(b, TP_E_VALUE, tp_unfold(b->image, &(tp_window){0}));
    BAD(b, TP_E_SHAPE, tp_unfold(b->image, &(tp_window){.kernel = {5, 1}}));
    BAD(b, TP_E_SHAPE, tp_unfold(b->f, &(tp_window){.kernel = {1}}));
    BAD(b, TP_E_VALUE, tp_unfold(b->image, (&(tp_window){.kernel = {2, 2}, .pad_lo = {-1}})));
}

MISUSE(tp_fold)
{
    const tp_window w = {.kernel = {2, 2}};
    tp_tensor *columns = tp_full(b->tp, TP_F32, TP_DIMS(1, 4, 9), 1);
    OPERAND(b, columns, tp_fold(x, TP_DIMS(4, 4), &(tp_window){.kernel = {2, 2}, .stride = {1, 1}}));
    BAD(b, TP_E_NULL, tp_fold(columns, TP_DIMS(4, 4), NULL));
    BAD(b, TP_E_SHAPE, tp_fold(columns, TP_DIMS(5, 4), &w));
    BAD(b, TP_E_SHAPE, tp_fold(columns, TP_DIMS(1, 1, 1, 1), &w));
    BAD(b, TP_E_SHAPE, tp_fold(columns, 2, NULL, &w));
    BAD(b, TP_E_SHAPE, tp_fold(b->image, TP_DIMS(4, 4), &w));
    BAD(b, TP_E_VALUE, tp_fold(columns, TP_DIMS(4, 4), &(tp_window){0}));
}

MISUSE(tp_conv_transpose)
{
    what = "conv_transpose|conv_dx";
    OPERAND(b, b->image_out, tp_conv_transpose(x, b->kernel, NULL, NULL));
    OPERAND(b, b->kernel, tp_conv_transpose(b->image_out, x, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image_out, b->f, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image, b->kernel, NULL, NULL));
    BAD(b, TP_E_VALUE, tp_conv_transpose(b->image_out, b->kernel, NULL, ((const int64_t[]){0, -1})));
    BAD(b, TP_E_SHAPE, tp_conv_transpose(b->image_out, b->kernel, &(tp_window){.pad_lo = {9}}, NULL));
    BAD(b, TP_E_VALUE, tp_conv_transpose(b->image_out, b->kernel, &(tp_window){.stride = {-1}}, NULL));
}

#define BLOCKS(fn, ...) /* sizes of a good operand */                                          \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, tp_full(b->tp, TP_F32, TP_DIMS(__VA_ARGS__), 1), fn(x, 2));                 \
        BAD(b, TP_E_VALUE, fn(b->image, 0));                                                   \
        BAD(b, TP_E_VALUE, fn(b->image, INT64_MAX / 3));                                       \
        BAD(b, TP_E_SHAPE, fn(b->image, 3));                                                   \
        BAD(b, TP_E_SHAPE, fn(b->f, 2));                                                       \
    }
BLOCKS(tp_pixel_shuffle, 1, 4, 2, 2)
BLOCKS(tp_pixel_unshuffle, 1, 1, 2, 2)
BLOCKS(tp_depth_to_space, 1, 4, 2, 2)
BLOCKS(tp_space_to_depth, 1, 1, 2, 2)

MISUSE(tp_resize)
{
    const tp_resize_options linear = {.mode = TP_INTERPOLATE_LINEAR};
    OPERAND(b, b->image, tp_resize(x, TP_DIMS(3, 5), &linear));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, TP_DIMS(1, 2, 3), NULL));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, -1, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_resize(b->f, TP_DIMS(0), NULL));
    BAD(b, TP_E_DTYPE, tp_resize(b->along, TP_DIMS(2), &linear));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.mode = (tp_interpolation)7}));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.where = (tp_coordinates)7}));
    BAD(b, TP_E_VALUE, tp_resize(b->f, TP_DIMS(2), &(tp_resize_options){.rounding = (tp_rounding)7}));
    BAD(b, TP_E_VALUE, tp_resize(tp_reshape(b->batch, TP_DIMS(3, -1)), TP_DIMS(2),
                                 (&(tp_resize_options){.mode = TP_INTERPOLATE_LINEAR, .antialias = true})));
    BAD(b, TP_E_SHAPE, tp_resize(tp_slice(b->f, 1, 0, 0, 1), TP_DIMS(2), NULL));
}

MISUSE(tp_upsample)
{
    OPERAND(b, b->image, tp_upsample(x, 2, TP_INTERPOLATE_LINEAR));
    BAD(b, TP_E_SHAPE, tp_upsample(b->f, 2, TP_INTERPOLATE_LINEAR));
    BAD(b, TP_E_VALUE, tp_upsample(b->image, 0, TP_INTERPOLATE_NEAREST));
    BAD(b, TP_E_VALUE, tp_upsample(b->image, 2, (tp_interpolation)-1));
}

MISUSE(tp_pad_with)
{
    const int64_t one[] = {1, 1}, less[] = {-1, 0}, many[] = {INT64_MAX, 0};
    OPERAND(b, b->f, tp_pad_with(x, 2, one, one, TP_PAD_REFLECT));
    BAD(b, TP_E_SHAPE, tp_pad_with(b->f, 1, one, one, TP_PAD_EDGE));
    BAD(b, TP_E_SHAPE, tp_pad_with(b->f, 2, NULL, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, less, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, many, one, TP_PAD_EDGE));
    BAD(b, TP_E_VALUE, tp_pad_with(b->f, 2, one, one, (tp_padding)9));
    BAD(b, TP_E_SHAPE, tp_pad_with(tp_slice(b->f, 1, 0, 0, 1), 2, one, one, TP_PAD_WRAP));
}

MISUSE(tp_grid_sample)
{
    tp_tensor *grid = tp_full(b->tp, TP_F32, TP_DIMS(1, 3, 2, 2), 0);
    OPERAND(b, b->image, tp_grid_sample(x, grid, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    OPERAND(b, grid, tp_grid_sample(b->image, x, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_SHAPE, tp_grid_sample(b->image, b->f, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_SHAPE, tp_grid_sample(b->image, b->image, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_DTYPE, tp_grid_sample(b->image, b->along, TP_INTERPOLATE_LINEAR, TP_PAD_ZEROS, false));
    BAD(b, TP_E_VALUE, tp_grid_sample(b->image, grid, TP_INTERPOLATE_LINEAR, TP_PAD_WRAP, false));
    BAD(b, TP_E_VALUE, tp_grid_sample(b->image, grid, (tp_interpolation)9, TP_PAD_EDGE, false));
}

MISUSE(tp_affine_grid)
{
    tp_tensor *theta = tp_full(b->tp, TP_F32, TP_DIMS(1, 2, 3), 1);
    OPERAND(b, theta, tp_affine_grid(x, TP_DIMS(3, 2), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(3, 2, 2), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(3), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(theta, TP_DIMS(0, 3), false));
    BAD(b, TP_E_SHAPE, tp_affine_grid(b->f, TP_DIMS(3, 2), false));
    BAD(b, TP_E_DTYPE, tp_affine_grid(b->along, TP_DIMS(3, 2), false));
}

const misuse misuse_functions[] = {
    LISTED(tp_softmax),
    LISTED(tp_log_softmax),
    LISTED(tp_cross_entropy),
    LISTED(tp_mse),
    LISTED(tp_layer_norm),
    LISTED(tp_batch_norm),
    LISTED(tp_batch_norm_train),
    LISTED(tp_cross_entropy_with),
    LISTED(tp_nll),
    LISTED(tp_l1),
    LISTED(tp_hinge),
    LISTED(tp_bce),
    LISTED(tp_kl_div),
    LISTED(tp_poisson_nll),
    LISTED(tp_huber),
    LISTED(tp_bce_with_logits),
    LISTED(tp_cosine_similarity),
    LISTED(tp_cosine_loss),
    LISTED(tp_triplet),
    LISTED(tp_ctc_loss),
    LISTED(tp_hardmax),
    LISTED(tp_rms_norm),
    LISTED(tp_group_norm),
    LISTED(tp_instance_norm),
    LISTED(tp_local_response_norm),
    LISTED(tp_normalize),
    LISTED(tp_attention),
    LISTED(tp_rotary),
    LISTED(tp_dropout),
    LISTED(tp_linear),
    LISTED(tp_rnn_cell),
    LISTED(tp_gru_cell),
    LISTED(tp_lstm_cell),
    LISTED(tp_rnn),
    LISTED(tp_gru),
    LISTED(tp_lstm),
    LISTED(tp_adaptive_avg_pool),
    LISTED(tp_adaptive_max_pool),
    LISTED(tp_global_avg_pool),
    LISTED(tp_global_max_pool),
    LISTED(tp_lp_pool),
    LISTED(tp_max_unpool),
    LISTED(tp_unfold),
    LISTED(tp_fold),
    LISTED(tp_conv_transpose),
    LISTED(tp_pixel_shuffle),
    LISTED(tp_pixel_unshuffle),
    LISTED(tp_depth_to_space),
    LISTED(tp_space_to_depth),
    LISTED(tp_resize),
    LISTED(tp_upsample),
    LISTED(tp_pad_with),
    LISTED(tp_grid_sample),
    LISTED(tp_affine_grid),
    {0},
};
