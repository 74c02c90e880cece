/* Arithmetic in C on symbolic sizes: every argument that is an int64 or a double refuses what it
 * makes, with the words that name tp_dim_add. handles_list.sh holds the cases against the headers.
 *
 *     SIZE(tp_reshape, shape, tp_reshape(b->x, TP_DIMS(v, 3)))      also takes a symbolic size
 *     PLAIN(tp_sum, axes, tp_sum(b->x, 1, &v, false))               takes numbers only
 *     REAL(tp_clip, lo, tp_clip(b->x, v, 1))                        takes a double
 *     WINDOW(tp_conv, window, tp_conv(b->image, b->kernel, v))      takes several numbers
 *
 * `v` is the argument's value. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

typedef struct bed {
    tp_ctx *tp;
    tp_graph *g;
    tp_tensor *x; /* f32 [n, 3] of g; the others are concrete */
    tp_tensor *c, *index, *image, *kernel, *out, *param, *columns, *theta;
} bed;

typedef enum kind { SIZE, PLAIN, REAL, WINDOW, N_KINDS } kind;

typedef struct argument {
    const char *name;
    kind kind;
    void (*size)(bed *b, int64_t v);
    void (*real)(bed *b, double v);
    void (*window)(bed *b, const tp_window *v);
} argument;

static void turn(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                 tp_tensor **y)
{
    (void)user, (void)n, (void)n_xs, (void)x, (void)n_ys, (void)y;
    v[0] = tp_neg(v[0]);
}

static void nothing(void *user, int64_t i)
{
    (void)user, (void)i;
}

static void loop(bed *b, int64_t count)
{
    tp_tensor *h = b->c;
    tp_for (count, &h)
        h = tp_neg(h);
}

static void scan(bed *b, int64_t count)
{
    tp_tensor *h = b->c;
    tp_scan(count, NULL, turn, NULL, 1, &h, 0, NULL, 0, NULL);
}

static void conv_of(bed *b, const tp_window *window)
{
    tp_window w = *window;
    w.kernel[0] = w.kernel[0] ? w.kernel[0] : 2;
    w.kernel[1] = w.kernel[1] ? w.kernel[1] : 2;
    const tp_conv_layer l = tp_conv_layer_new(tp_params_new(b->tp), "l", 2, 3, &w, NULL);
    tp_conv_layer_apply(&l, b->image);
}

static void conv_transpose_of(bed *b, const tp_window *window, int64_t more)
{
    tp_window w = *window;
    w.kernel[0] = w.kernel[0] ? w.kernel[0] : 2;
    w.kernel[1] = w.kernel[1] ? w.kernel[1] : 2;
    const int64_t all[2] = {more, 0};
    const tp_conv_layer l =
        tp_conv_transpose_new(tp_params_new(b->tp), "l", 2, 3, &w, all, NULL);
    tp_conv_layer_apply(&l, b->image);
}

static void dropped(bed *b, double dropout)
{
    const tp_recurrent_layer_options opt = {.layers = 2, .dropout = dropout};
    const tp_recurrent_layer l = tp_rnn_new(tp_params_new(b->tp), "l", 4, 2, &opt);
    tp_recurrent_layer_apply(&l, tp_select(b->image, 0, 0), NULL, NULL, NULL);
}

static void norm_of(bed *b, tp_norm_layer l)
{
    tp_norm_layer_apply(&l, b->image);
}

static void attend(bed *b, tp_attention_options o)
{
    tp_attention(b->image, b->image, b->image, &o, NULL);
}

/* A row for each of 2 elements, of b->x. */
static tp_ragged rows(bed *b)
{
    return (tp_ragged){b->x, tp_arange(b->tp, TP_I64, 3, 0, 1)};
}

static void attend_rows(bed *b, int64_t most)
{
    const tp_ragged r = {tp_unsqueeze(b->x, 1), rows(b).offsets};
    tp_ragged_attention(r, r, r.values, most, NULL);
}

static void lose(bed *b, tp_loss_options o)
{
    tp_cross_entropy_with(b->c, tp_scalar(b->tp, TP_I64, 0), &o);
}

static void read_as(bed *b, int64_t blank)
{
    tp_tensor *n = tp_full(b->tp, TP_I64, TP_DIMS(4), 1);
    tp_ctc_loss(tp_select(b->image, 0, 0), tp_full(b->tp, TP_I64, TP_DIMS(4, 1), 0), n, n,
                blank, TP_MEAN);
}

static void compile_within(bed *b, int64_t limit)
{
    static const char *const x[] = {"x"};
    tp_program_free(
        tp_graph_compile(b->g, 1, x, 1, x, &(tp_compile_options){.memory_limit = limit}));
}

static void save_within(bed *b, int64_t limit)
{
    static const char *const x[] = {"x"};
    tp_graph_save_c(b->g, "handles.c", 1, x, 1, x, &(tp_c_options){.memory_limit = limit});
}

static void load_with(bed *b, int64_t size)
{
    const tp_onnx_dim dim = {"batch", size};
    tp_onnx_load_bytes(b->tp, "", 0, NULL, &(tp_onnx_load_options){.n_dims = 1, .dims = &dim});
}

static void set_rate(bed *b, double v)
{
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    tp_optimizer_set_rate(o, v);
    tp_optimizer_free(o);
}

static void clipped(bed *b, double clip)
{
    const tp_recurrent w = {.w = tp_full(b->tp, TP_F32, TP_DIMS(3, 2), 1),
                            .r = tp_full(b->tp, TP_F32, TP_DIMS(2, 2), 1)};
    tp_rnn_cell(b->x, NULL, &w, &(tp_recurrent_options){.clip = clip});
}

static void cubic_of(bed *b, double a)
{
    const tp_resize_options o = {.mode = TP_INTERPOLATE_CUBIC, .cubic = a};
    tp_resize(b->image, TP_DIMS(3, 5), &o);
}

/* A block that is applied. */
static void transformed(bed *b, tp_transformer_options opt)
{
    const tp_transformer_block l =
        tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, &opt);
    tp_transformer_block_apply(&l, tp_full(b->tp, TP_F32, TP_DIMS(1, 2, 4), 1), NULL, NULL);
}

/* One argument a line, as handles_list.sh reads them. */
#define SGD(...)                                                                               \
    tp_optimizer_free(tp_sgd_new(b->tp, 1, &(tp_sgd_options){__VA_ARGS__}, 1, &b->param))
#define ADAM(...)                                                                              \
    tp_optimizer_free(tp_adam_new(b->tp, 1, &(tp_adam_options){__VA_ARGS__}, 1, &b->param))
#define RMSPROP(...)                                                                           \
    tp_optimizer_free(                                                                         \
        tp_rmsprop_new(b->tp, 1, &(tp_rmsprop_options){__VA_ARGS__}, 1, &b->param))
#define ADAGRAD(...)                                                                           \
    tp_optimizer_free(                                                                         \
        tp_adagrad_new(b->tp, 1, &(tp_adagrad_options){__VA_ARGS__}, 1, &b->param))
#define LION(...)                                                                              \
    tp_optimizer_free(tp_lion_new(b->tp, 1, &(tp_lion_options){__VA_ARGS__}, 1, &b->param))
#define ADAFACTOR(...)                                                                         \
    tp_optimizer_free(                                                                         \
        tp_adafactor_new(b->tp, 1, &(tp_adafactor_options){__VA_ARGS__}, 1, &b->param))

static void descend(const void *options, tp_step *s)
{
    (void)options;
    s->w = tp_sub(s->w, tp_mul(s->rate, s->g));
}
static const tp_optimizer_kind own = {.name = "own", .update = descend};

static void grouped(bed *b, double scale, double decay)
{
    tp_optimizer *o = tp_sgd_new(b->tp, 0.1, NULL, 1, &b->param);
    tp_optimizer_group(o, scale, decay, 1, &b->param);
    tp_optimizer_free(o);
}

static void summed(bed *b, double weight)
{
    tp_gradient_sum *s = tp_gradient_sum_new(b->tp, 1, &b->param);
    tp_gradient_sum_add(s, tp_sum(b->param, TP_ALL, false), weight);
    tp_gradient_sum_free(s);
}

static bool fills(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in, (void)in;
    memset(out->data, 0, (size_t)out->count * tp_dtype_size(out->dtype));
    return true;
}
static const tp_kernel zeros = {.name = "zeros", .compute = fills};

/* clang-format off */
#define ARGUMENTS                                                                              \
    SIZE(tp_for_begin, count, loop(b, v))                                                      \
    SIZE(tp_scan, count, scan(b, v))                                                           \
    SIZE(tp_dim_add, a, tp_dim_add(b->g, v, 1))                                                \
    SIZE(tp_dim_add, b, tp_dim_add(b->g, 1, v))                                                \
    SIZE(tp_dim_mul, a, tp_dim_mul(b->g, v, 1))                                                \
    SIZE(tp_dim_mul, b, tp_dim_mul(b->g, 1, v))                                                \
    SIZE(tp_dim_div, a, tp_dim_div(b->g, v, 1))                                                \
    SIZE(tp_dim_div, b, tp_dim_div(b->g, 1, v))                                                \
    SIZE(tp_dim_text, size, tp_free(b->tp, tp_dim_text(b->g, v)))                              \
    SIZE(tp_placeholder, shape, tp_placeholder(b->g, "p", TP_F32, TP_DIMS(v)))                 \
    PLAIN(tp_batch_each, n, tp_batch_each(b->tp, v, nothing, NULL))                           \
    PLAIN(tp_dense_new, n_in, tp_dense_new(tp_params_new(b->tp), "l", v, 2, NULL))                                  \
    PLAIN(tp_dense_new, n_out, tp_dense_new(tp_params_new(b->tp), "l", 2, v, NULL))                                 \
    PLAIN(tp_conv_layer_new, c, tp_conv_layer_new(tp_params_new(b->tp), "l", v, 2, TP_SQUARE(3, 1, 0), NULL))                  \
    PLAIN(tp_conv_layer_new, oc, tp_conv_layer_new(tp_params_new(b->tp), "l", 2, v, TP_SQUARE(3, 1, 0), NULL))                 \
    PLAIN(tp_embedding_new, n, tp_embedding_new(tp_params_new(b->tp), "l", v, 2, -1))         \
    PLAIN(tp_embedding_new, size, tp_embedding_new(tp_params_new(b->tp), "l", 2, v, -1))      \
    PLAIN(tp_embedding_new, padding, tp_embedding_new(tp_params_new(b->tp), "l", 3, 2, v))    \
    PLAIN(tp_layer_norm_new, c, tp_layer_norm_new(tp_params_new(b->tp), "l", v, 0))           \
    REAL(tp_layer_norm_new, eps, norm_of(b, tp_layer_norm_new(tp_params_new(b->tp), "l", 4, v))) \
    PLAIN(tp_batch_norm_new, c, tp_batch_norm_new(tp_params_new(b->tp), "l", v, 0, 0))        \
    REAL(tp_batch_norm_new, eps, norm_of(b, tp_batch_norm_new(tp_params_new(b->tp), "l", 2, 0, v))) \
    REAL(tp_batch_norm_new, momentum, norm_of(b, tp_batch_norm_new(tp_params_new(b->tp), "l", 2, v, 0))) \
    PLAIN(tp_rms_norm_new, c, tp_rms_norm_new(tp_params_new(b->tp), "l", v, 0))                \
    REAL(tp_rms_norm_new, eps, norm_of(b, tp_rms_norm_new(tp_params_new(b->tp), "l", 4, v)))   \
    PLAIN(tp_group_norm_new, c, tp_group_norm_new(tp_params_new(b->tp), "l", v, 1, 0))         \
    PLAIN(tp_group_norm_new, groups, tp_group_norm_new(tp_params_new(b->tp), "l", 2, v, 0))    \
    REAL(tp_group_norm_new, eps, norm_of(b, tp_group_norm_new(tp_params_new(b->tp), "l", 2, 1, v))) \
    PLAIN(tp_conv_transpose_new, c, tp_conv_transpose_new(tp_params_new(b->tp), "l", v, 2, TP_SQUARE(3, 1, 0), NULL, NULL)) \
    PLAIN(tp_conv_transpose_new, oc, tp_conv_transpose_new(tp_params_new(b->tp), "l", 2, v, TP_SQUARE(3, 1, 0), NULL, NULL)) \
    WINDOW(tp_conv_transpose_new, window, conv_transpose_of(b, v, 0))                          \
    PLAIN(tp_conv_transpose_new, more, conv_transpose_of(b, &(tp_window){.groups = 1}, v))     \
    PLAIN(tp_lstm_new, k, tp_lstm_new(tp_params_new(b->tp), "l", v, 2, NULL))                  \
    PLAIN(tp_lstm_new, m, tp_lstm_new(tp_params_new(b->tp), "l", 2, v, NULL))                  \
    PLAIN(tp_gru_new, k, tp_gru_new(tp_params_new(b->tp), "l", v, 2, NULL))                    \
    PLAIN(tp_gru_new, m, tp_gru_new(tp_params_new(b->tp), "l", 2, v, NULL))                    \
    PLAIN(tp_rnn_new, k, tp_rnn_new(tp_params_new(b->tp), "l", v, 2, NULL))                    \
    PLAIN(tp_rnn_new, m, tp_rnn_new(tp_params_new(b->tp), "l", 2, v, NULL))                    \
    REAL(tp_recurrent_layer_options, dropout, dropped(b, v))                                   \
    PLAIN(tp_transformer_block_new, size, tp_transformer_block_new(tp_params_new(b->tp), "l", v, 2, NULL)) \
    PLAIN(tp_transformer_block_new, heads, tp_transformer_block_new(tp_params_new(b->tp), "l", 4, v, NULL)) \
    PLAIN(tp_transformer_options, kv_heads, tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, &(tp_transformer_options){.kv_heads = v})) \
    PLAIN(tp_transformer_options, hidden, tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, &(tp_transformer_options){.hidden = v})) \
    REAL(tp_transformer_options, eps, transformed(b, (tp_transformer_options){.eps = v})) \
    REAL(tp_transformer_options, dropout, transformed(b, (tp_transformer_options){.dropout = v})) \
    REAL(tp_transformer_options, gain, tp_transformer_block_new(tp_params_new(b->tp), "l", 4, 2, &(tp_transformer_options){.init = TP_INIT_XAVIER_UNIFORM, .gain = v})) \
    PLAIN(tp_attention_layer_new, size, tp_attention_layer_new(tp_params_new(b->tp), "l", v, 2, 0, NULL)) \
    PLAIN(tp_attention_layer_new, heads, tp_attention_layer_new(tp_params_new(b->tp), "l", 4, v, 0, NULL)) \
    PLAIN(tp_attention_layer_new, kv_heads, tp_attention_layer_new(tp_params_new(b->tp), "l", 4, 2, v, NULL)) \
    REAL(tp_dropout_apply, p, tp_dropout_apply(b->x, v))                                       \
    PLAIN(tp_initial, shape, tp_initial(b->tp, TP_INIT_ZEROS, 0, TP_DIMS(v), 1, 1))            \
    REAL(tp_initial, gain, tp_initial(b->tp, TP_INIT_FAN_IN, v, TP_DIMS(2), 1, 1))             \
    PLAIN(tp_initial, n_in, tp_initial(b->tp, TP_INIT_FAN_IN, 0, TP_DIMS(2), v, 1))            \
    PLAIN(tp_initial, n_out, tp_initial(b->tp, TP_INIT_XAVIER_NORMAL, 0, TP_DIMS(2), 1, v))    \
    REAL(tp_layer_options, gain, tp_dense_new(tp_params_new(b->tp), "l", 2, 2, &(tp_layer_options){.gain = v})) \
    REAL(tp_sgd_new, rate, tp_optimizer_free(tp_sgd_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_sgd_options, momentum, SGD(.momentum = v)) \
    REAL(tp_sgd_options, decay, SGD(.decay = v)) \
    REAL(tp_adam_new, rate, tp_optimizer_free(tp_adam_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_adam_options, beta1, ADAM(.beta1 = v)) \
    REAL(tp_adam_options, beta2, ADAM(.beta2 = v)) \
    REAL(tp_adam_options, eps, ADAM(.eps = v)) \
    REAL(tp_adam_options, decay, ADAM(.decay = v)) \
    REAL(tp_rmsprop_new, rate, tp_optimizer_free(tp_rmsprop_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_rmsprop_options, alpha, RMSPROP(.alpha = v)) \
    REAL(tp_rmsprop_options, eps, RMSPROP(.eps = v)) \
    REAL(tp_rmsprop_options, momentum, RMSPROP(.momentum = v)) \
    REAL(tp_rmsprop_options, decay, RMSPROP(.decay = v)) \
    REAL(tp_adagrad_new, rate, tp_optimizer_free(tp_adagrad_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_adagrad_options, eps, ADAGRAD(.eps = v)) \
    REAL(tp_adagrad_options, decay, ADAGRAD(.decay = v)) \
    REAL(tp_lion_new, rate, tp_optimizer_free(tp_lion_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_lion_options, beta1, LION(.beta1 = v)) \
    REAL(tp_lion_options, beta2, LION(.beta2 = v)) \
    REAL(tp_lion_options, decay, LION(.decay = v)) \
    REAL(tp_adafactor_new, rate, tp_optimizer_free(tp_adafactor_new(b->tp, v, NULL, 1, &b->param))) \
    REAL(tp_adafactor_options, power, ADAFACTOR(.power = v)) \
    REAL(tp_adafactor_options, eps1, ADAFACTOR(.eps1 = v)) \
    REAL(tp_adafactor_options, eps2, ADAFACTOR(.eps2 = v)) \
    REAL(tp_adafactor_options, clip, ADAFACTOR(.clip = v)) \
    REAL(tp_adafactor_options, decay, ADAFACTOR(.decay = v)) \
    REAL(tp_optimizer_new, rate, tp_optimizer_free(tp_optimizer_new(b->tp, &own, NULL, v, 0, 1, &b->param))) \
    REAL(tp_optimizer_new, decay, tp_optimizer_free(tp_optimizer_new(b->tp, &own, NULL, 1, v, 1, &b->param))) \
    REAL(tp_optimizer_group, scale, grouped(b, v, 0)) \
    REAL(tp_optimizer_group, decay, grouped(b, 1, v)) \
    REAL(tp_clip_norm, most, tp_clip_norm(1, &b->x, v, (tp_tensor *[]){NULL})) \
    REAL(tp_clip_value, most, tp_clip_value(1, &b->x, v, (tp_tensor *[]){NULL})) \
    REAL(tp_gradient_sum_add, weight, summed(b, v)) \
    REAL(tp_lbfgs_options, rate, tp_lbfgs_free(tp_lbfgs_new(b->tp, &(tp_lbfgs_options){.rate = v}, 1, &b->param))) \
    REAL(tp_lbfgs_options, gradient, tp_lbfgs_free(tp_lbfgs_new(b->tp, &(tp_lbfgs_options){.gradient = v}, 1, &b->param))) \
    REAL(tp_lbfgs_options, change, tp_lbfgs_free(tp_lbfgs_new(b->tp, &(tp_lbfgs_options){.change = v}, 1, &b->param))) \
    REAL(tp_loss_scale_options, first, tp_loss_scale_free(tp_loss_scale_new(b->tp, &(tp_loss_scale_options){.first = v}))) \
    REAL(tp_loss_scale_options, growth, tp_loss_scale_free(tp_loss_scale_new(b->tp, &(tp_loss_scale_options){.growth = v}))) \
    REAL(tp_loss_scale_options, backoff, tp_loss_scale_free(tp_loss_scale_new(b->tp, &(tp_loss_scale_options){.backoff = v}))) \
    REAL(tp_average_new, decay, tp_average_free(tp_average_new(b->tp, v, 1, &b->param))) \
    REAL(tp_optimizer_set_rate, rate, set_rate(b, v))                                          \
    PLAIN(tp_sum, axes, tp_sum(b->x, 1, &v, false))                                            \
    PLAIN(tp_prod, axes, tp_prod(b->x, 1, &v, false))                                          \
    PLAIN(tp_reduce_max, axes, tp_reduce_max(b->x, 1, &v, false))                              \
    PLAIN(tp_reduce_min, axes, tp_reduce_min(b->x, 1, &v, false))                              \
    PLAIN(tp_mean, axes, tp_mean(b->x, 1, &v, false))                                          \
    SIZE(tp_argtopk, k, tp_argtopk(b->x, 0, v, true))                                          \
    PLAIN(tp_extent, axes, tp_extent(b->x, 1, &v, TP_F32))                                     \
    SIZE(tp_reshape, shape, tp_reshape(b->x, TP_DIMS(v, 3)))                                   \
    PLAIN(tp_transpose, perm, tp_transpose(b->x, TP_DIMS(v, 0)))                               \
    SIZE(tp_broadcast, shape, tp_broadcast(b->x, TP_DIMS(v, 3)))                               \
    SIZE(tp_slice, start, tp_slice(b->x, 0, v, TP_END, 1))                                     \
    SIZE(tp_slice, stop, tp_slice(b->x, 0, 0, v, 1))                                           \
    PLAIN(tp_slice, step, tp_slice(b->x, 0, 0, TP_END, v))                                     \
    PLAIN(tp_select, index, tp_select(b->x, 0, v))                                             \
    PLAIN(tp_flip, axes, tp_flip(b->x, 1, &v))                                                 \
    SIZE(tp_pad, lo, tp_pad(b->x, 2, (const int64_t[]){0, v}, (const int64_t[]){0, 0}, 0))     \
    SIZE(tp_pad, hi, tp_pad(b->x, 2, (const int64_t[]){0, 0}, (const int64_t[]){0, v}, 0))     \
    REAL(tp_pad, value, tp_pad(b->x, 2, (const int64_t[]){0, 1}, (const int64_t[]){0, 0}, v))  \
    SIZE(tp_split, sizes, tp_split(b->x, 0, 1, &v, (tp_tensor *[1]){0}))                       \
    SIZE(tp_one_hot, n, tp_one_hot(tp_cast(b->x, TP_I64), v, TP_F32))                          \
    WINDOW(tp_conv, window, tp_conv(b->image, b->kernel, v))                                   \
    SIZE(tp_conv_dx, sizes, tp_conv_dx(b->out, b->kernel, TP_DIMS(v, 4), NULL))               \
    WINDOW(tp_conv_dx, window, tp_conv_dx(b->out, b->kernel, TP_DIMS(4, 4), v))                \
    SIZE(tp_conv_dw, sizes, tp_conv_dw(b->image, b->out, TP_DIMS(v, 2), NULL))                \
    WINDOW(tp_conv_dw, window, tp_conv_dw(b->image, b->out, TP_DIMS(2, 2), v))                 \
    WINDOW(tp_conv_layer_new, window, conv_of(b, v))                                           \
    WINDOW(tp_max_pool, window, tp_max_pool(b->image, v))                                      \
    WINDOW(tp_max_pool_index, window, tp_max_pool_index(b->image, v))                          \
    WINDOW(tp_avg_pool, window, tp_avg_pool(b->image, v))                                      \
    PLAIN(tp_uniform, shape, tp_uniform(b->tp, TP_F32, TP_DIMS(v), 0, 1))                      \
    REAL(tp_uniform, lo, tp_uniform(b->tp, TP_F32, TP_DIMS(2), v, 1))                          \
    REAL(tp_uniform, hi, tp_uniform(b->tp, TP_F32, TP_DIMS(2), -1e30, v))                      \
    PLAIN(tp_normal, shape, tp_normal(b->tp, TP_F32, TP_DIMS(v), 0, 1))                        \
    REAL(tp_normal, mean, tp_normal(b->tp, TP_F32, TP_DIMS(2), v, 1))                          \
    REAL(tp_normal, stddev, tp_normal(b->tp, TP_F32, TP_DIMS(2), 0, v))                        \
    REAL(tp_uniform_like, lo, tp_uniform_like(b->x, v, 1))                                     \
    REAL(tp_uniform_like, hi, tp_uniform_like(b->x, -1e30, v))                                 \
    REAL(tp_normal_like, mean, tp_normal_like(b->x, v, 1))                                     \
    REAL(tp_normal_like, stddev, tp_normal_like(b->x, 0, v))                                   \
    PLAIN(tp_truncated_normal, shape, tp_truncated_normal(b->tp, TP_F32, TP_DIMS(v), 0, 1, -2, 2))\
    REAL(tp_truncated_normal, mean, tp_truncated_normal(b->tp, TP_F32, TP_DIMS(2), v, 1, -2, 2))\
    REAL(tp_truncated_normal_like, mean, tp_truncated_normal_like(b->x, v, 1, -2, 2))          \
    REAL(tp_truncated_normal, stddev, tp_truncated_normal(b->tp, TP_F32, TP_DIMS(2), 0, v, -2, 2))\
    REAL(tp_truncated_normal_like, stddev, tp_truncated_normal_like(b->x, 0, v, -2, 2))        \
    REAL(tp_truncated_normal, lo, tp_truncated_normal(b->tp, TP_F32, TP_DIMS(2), 0, 1, v, 2))  \
    REAL(tp_truncated_normal_like, lo, tp_truncated_normal_like(b->x, 0, 1, v, 2))             \
    REAL(tp_truncated_normal, hi, tp_truncated_normal(b->tp, TP_F32, TP_DIMS(2), 0, 1, -2, v)) \
    REAL(tp_truncated_normal_like, hi, tp_truncated_normal_like(b->x, 0, 1, -2, v))            \
    PLAIN(tp_exponential, shape, tp_exponential(b->tp, TP_F32, TP_DIMS(v), 1))                 \
    REAL(tp_exponential, rate, tp_exponential(b->tp, TP_F32, TP_DIMS(2), v))                   \
    REAL(tp_exponential_like, rate, tp_exponential_like(b->x, v))                              \
    PLAIN(tp_randint, shape, tp_randint(b->tp, TP_I32, TP_DIMS(v), 0, 2))                      \
    PLAIN(tp_randint, lo, tp_randint(b->tp, TP_I64, TP_DIMS(2), v, 2))                         \
    PLAIN(tp_randint, hi, tp_randint(b->tp, TP_I64, TP_DIMS(2), INT64_MIN, v))                 \
    PLAIN(tp_randint_like, lo, tp_randint_like(tp_arange(b->tp, TP_I64, 2, 0, 1), v, 2))         \
    PLAIN(tp_randint_like, hi, tp_randint_like(tp_arange(b->tp, TP_I64, 2, 0, 1), INT64_MIN, v)) \
    PLAIN(tp_permutation, n, tp_permutation(b->tp, v))                                         \
    SIZE(tp_categorical, n, tp_categorical(b->x, v))                                           \
    REAL(tp_clip, lo, tp_clip(b->x, v, 1))                                                     \
    REAL(tp_clip, hi, tp_clip(b->x, 0, v))                                                     \
    PLAIN(tp_any, axes, tp_any(b->x, 1, &v, false))                                            \
    PLAIN(tp_all, axes, tp_all(b->x, 1, &v, false))                                            \
    PLAIN(tp_var, axes, tp_var(b->x, 1, &v, 1, false))                                         \
    PLAIN(tp_std, axes, tp_std(b->x, 1, &v, 1, false))                                         \
    PLAIN(tp_norm, axes, tp_norm(b->x, 2, 1, &v, false))                                       \
    REAL(tp_norm, p, tp_norm(b->x, v, TP_ALL, false))                                          \
    PLAIN(tp_logsumexp, axes, tp_logsumexp(b->x, 1, &v, false))                                \
    SIZE(tp_kth, k, tp_kth(b->x, v, 0, false))                                                 \
    REAL(tp_quantile, q, tp_quantile(b->x, v, 0, false))                                       \
    PLAIN(tp_eye, n, tp_eye(b->tp, TP_F32, v, 2, 0))                                           \
    PLAIN(tp_eye, m, tp_eye(b->tp, TP_F32, 2, v, 0))                                           \
    PLAIN(tp_eye, k, tp_eye(b->tp, TP_F32, 2, 2, v))                                           \
    REAL(tp_linspace, lo, tp_linspace(b->tp, TP_F32, v, 1, 2))                                 \
    REAL(tp_linspace, hi, tp_linspace(b->tp, TP_F32, 1, v, 2))                                 \
    PLAIN(tp_linspace, n, tp_linspace(b->tp, TP_F32, 0, 1, v))                                 \
    SIZE(tp_diagonal, k, tp_diagonal(b->x, v))                                                 \
    SIZE(tp_diag, k, tp_diag(b->x, v))                                                         \
    SIZE(tp_tril, k, tp_tril(b->x, v))                                                         \
    SIZE(tp_triu, k, tp_triu(b->x, v))                                                         \
    SIZE(tp_tile, times, tp_tile(b->x, TP_DIMS(v, 1)))                                         \
    SIZE(tp_repeat_each, times, tp_repeat_each(b->x, v, 1))                                    \
    SIZE(tp_roll, shift, tp_roll(b->x, v, 0))                                                  \
    PLAIN(tp_tensordot, axes_a, tp_tensordot(b->x, b->c, 1, &v, (const int64_t[]){0}))         \
    PLAIN(tp_tensordot, axes_b, tp_tensordot(b->x, b->c, 1, (const int64_t[]){1}, &v))         \
    REAL(tp_swish, alpha, tp_swish(b->x, v))                                                   \
    SIZE(tp_ragged_pad, most, tp_ragged_pad(rows(b), v, 0))                                    \
    REAL(tp_ragged_pad, fill, tp_ragged_pad(rows(b), 2, v))                                    \
    PLAIN(tp_ragged_bucket, most, tp_ragged_bucket(rows(b), v))                                \
    SIZE(tp_ragged_attention, most, attend_rows(b, v))                                         \
    REAL(tp_elu, alpha, tp_elu(b->x, v))                                                       \
    REAL(tp_celu, alpha, tp_celu(b->x, v))                                                     \
    REAL(tp_leaky_relu, slope, tp_leaky_relu(b->x, v))                                         \
    REAL(tp_threshold, bound, tp_threshold(b->x, v, 0))                                        \
    REAL(tp_threshold, value, tp_threshold(b->x, 0, v))                                        \
    REAL(tp_shrink, bound, tp_shrink(b->x, v, 0))                                              \
    REAL(tp_shrink, bias, tp_shrink(b->x, 0, v))                                               \
    REAL(tp_clip_min, lo, tp_clip_min(b->x, v))                                                \
    REAL(tp_clip_max, hi, tp_clip_max(b->x, v))                                                \
    SIZE(tp_bincount, n, tp_bincount(tp_cast(b->x, TP_I64), NULL, v))                          \
    SIZE(tp_histogram, n, tp_histogram(b->x, v, 0, 1))                                         \
    REAL(tp_histogram, lo, tp_histogram(b->x, 2, v, 1e30))                                     \
    REAL(tp_histogram, hi, tp_histogram(b->x, 2, -1e30, v))                                    \
    REAL(tp_layer_norm, eps, tp_layer_norm(b->x, NULL, NULL, v))                               \
    REAL(tp_batch_norm, eps, tp_batch_norm(b->x, NULL, NULL, b->c, b->c, v))                   \
    REAL(tp_batch_norm_train, momentum, tp_batch_norm_train(b->x, NULL, NULL, b->param, NULL, v, 0)) \
    REAL(tp_batch_norm_train, eps, tp_batch_norm_train(b->x, NULL, NULL, NULL, NULL, 0.1, v))  \
    REAL(tp_rms_norm, eps, tp_rms_norm(b->x, NULL, v))                                         \
    PLAIN(tp_group_norm, groups, tp_group_norm(b->x, v, NULL, NULL, 0))                        \
    REAL(tp_group_norm, eps, tp_group_norm(b->x, 1, NULL, NULL, v))                            \
    REAL(tp_instance_norm, eps, tp_instance_norm(b->image, NULL, NULL, v))                     \
    PLAIN(tp_local_response_norm, size, tp_local_response_norm(b->x, v, 1, 1, 1))              \
    REAL(tp_local_response_norm, alpha, tp_local_response_norm(b->x, 1, v, 1, 1))              \
    REAL(tp_local_response_norm, beta, tp_local_response_norm(b->x, 1, 1, v, 1))               \
    REAL(tp_local_response_norm, bias, tp_local_response_norm(b->x, 1, 1, 1, v))               \
    REAL(tp_normalize, p, tp_normalize(b->x, v, 1, 0))                                         \
    REAL(tp_normalize, eps, tp_normalize(b->x, 2, 1, v))                                       \
    REAL(tp_attention_options, scale, attend(b, (tp_attention_options){.scale = v}))           \
    REAL(tp_attention_options, softcap, attend(b, (tp_attention_options){.softcap = v}))       \
    PLAIN(tp_attention_options, before, attend(b, (tp_attention_options){.before = v}))        \
    PLAIN(tp_attention_options, after, attend(b, (tp_attention_options){.after = v}))          \
    PLAIN(tp_loss_options, ignored, lose(b, (tp_loss_options){.ignores = true, .ignored = v})) \
    REAL(tp_loss_options, smoothing, lose(b, (tp_loss_options){.smoothing = v}))               \
    REAL(tp_huber, delta, tp_huber(b->x, b->x, v, TP_MEAN))                                    \
    REAL(tp_cosine_similarity, eps, tp_cosine_similarity(b->x, b->x, 1, v))                    \
    REAL(tp_cosine_loss, margin, tp_cosine_loss(b->x, b->x, tp_select(b->x, 1, 0), v, TP_MEAN))\
    REAL(tp_triplet, margin, tp_triplet(b->x, b->x, b->x, v, TP_MEAN))                         \
    PLAIN(tp_ctc_loss, blank, read_as(b, v))                                                   \
    REAL(tp_dropout, p, tp_dropout(b->x, v))                                                   \
    REAL(tp_recurrent_options, clip, clipped(b, v))                                            \
    SIZE(tp_adaptive_avg_pool, sizes, tp_adaptive_avg_pool(b->image, TP_DIMS(v, 2)))           \
    SIZE(tp_adaptive_max_pool, sizes, tp_adaptive_max_pool(b->image, TP_DIMS(v, 2)))           \
    REAL(tp_lp_pool, p, tp_lp_pool(b->image, v, &(tp_window){.kernel = {2, 2}}))               \
    WINDOW(tp_lp_pool, window, tp_lp_pool(b->image, 2, v))                                     \
    SIZE(tp_max_unpool, sizes, tp_max_unpool(b->image, tp_cast(b->image, TP_I64), TP_DIMS(v, 4))) \
    WINDOW(tp_unfold, window, tp_unfold(b->image, v))                                          \
    SIZE(tp_fold, sizes, tp_fold(b->columns, TP_DIMS(v, 2), &(tp_window){.kernel = {1, 1}}))         \
    WINDOW(tp_fold, window, tp_fold(b->columns, TP_DIMS(4, 4), v))                             \
    WINDOW(tp_conv_transpose, window, tp_conv_transpose(b->out, b->kernel, v, NULL))           \
    PLAIN(tp_conv_transpose, more, tp_conv_transpose(b->out, b->kernel, NULL, (const int64_t[]){v, 0})) \
    PLAIN(tp_pixel_shuffle, r, tp_pixel_shuffle(b->image, v))                                  \
    PLAIN(tp_pixel_unshuffle, r, tp_pixel_unshuffle(b->image, v))                              \
    PLAIN(tp_depth_to_space, r, tp_depth_to_space(b->image, v))                                \
    PLAIN(tp_space_to_depth, r, tp_space_to_depth(b->image, v))                                \
    SIZE(tp_resize, sizes, tp_resize(b->image, TP_DIMS(v, 2), NULL))                           \
    REAL(tp_resize_options, cubic, cubic_of(b, v))                                             \
    PLAIN(tp_upsample, times, tp_upsample(b->image, v, TP_INTERPOLATE_NEAREST))                            \
    SIZE(tp_pad_with, lo, tp_pad_with(b->x, 2, (const int64_t[]){0, v}, (const int64_t[]){0, 0}, TP_PAD_EDGE)) \
    SIZE(tp_pad_with, hi, tp_pad_with(b->x, 2, (const int64_t[]){0, 0}, (const int64_t[]){0, v}, TP_PAD_EDGE)) \
    SIZE(tp_affine_grid, sizes, tp_affine_grid(b->theta, TP_DIMS(v, 2), false))                \
    REAL(tp_lstsq, eps, tp_lstsq(b->x, b->x, v))                                               \
    PLAIN(tp_irfft, n, tp_irfft(tp_full(b->tp, TP_F32, TP_DIMS(3, 2), 1), 0, v))               \
    PLAIN(tp_tensor_new, shape, tp_tensor_new(b->tp, TP_F32, TP_DIMS(v), NULL))                \
    PLAIN(tp_tensor_wrap, shape, tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(v), b, NULL, NULL))     \
    SIZE(tp_kernel_apply, shape,                                                               \
         tp_kernel_apply(&zeros, NULL, 1, &b->x, TP_F32, TP_DIMS(v)))                        \
    PLAIN(tp_full, shape, tp_full(b->tp, TP_F32, TP_DIMS(v), 1))                               \
    REAL(tp_full, value, tp_full(b->tp, TP_F32, TP_DIMS(2), v))                                \
    REAL(tp_scalar, value, tp_scalar(b->tp, TP_F32, v))                                        \
    REAL(tp_scalar_like, value, tp_scalar_like(b->x, v))                                       \
    REAL(tp_number, value, tp_number(b->x, v))                                            \
    PLAIN(tp_integer, value, tp_integer(b->x, v))                                       \
    PLAIN(tp_arange, n, tp_arange(b->tp, TP_F32, v, 0, 1))                                     \
    REAL(tp_arange, start, tp_arange(b->tp, TP_F32, 2, v, 1))                                  \
    REAL(tp_arange, step, tp_arange(b->tp, TP_F32, 2, 0, v))                                   \
    PLAIN(tp_compile_options, memory_limit, compile_within(b, v))                              \
    PLAIN(tp_c_options, memory_limit, save_within(b, v))                                       \
    PLAIN(tp_onnx_dim, size, load_with(b, v))
/* clang-format on */

#define CASE_OF(f, a, type, call)                                                              \
    static void f##_##a(bed *b, type v)                                                        \
    {                                                                                          \
        (void)b;                                                                               \
        (void)(call);                                                                          \
    }
#define SIZE(f, a, call) CASE_OF(f, a, int64_t, call)
#define PLAIN(f, a, call) CASE_OF(f, a, int64_t, call)
#define REAL(f, a, call) CASE_OF(f, a, double, call)
#define WINDOW(f, a, call) CASE_OF(f, a, const tp_window *, call)
ARGUMENTS
#undef SIZE
#undef PLAIN
#undef REAL
#undef WINDOW

#define SIZE(f, a, call) {.name = #f "." #a, .kind = SIZE, .size = f##_##a},
#define PLAIN(f, a, call) {.name = #f "." #a, .kind = PLAIN, .size = f##_##a},
#define REAL(f, a, call) {.name = #f "." #a, .kind = REAL, .real = f##_##a},
#define WINDOW(f, a, call) {.name = #f "." #a, .kind = WINDOW, .window = f##_##a},
static const argument arguments[] = {ARGUMENTS};

static bed lay(tp_ctx *tp)
{
    bed b = {.tp = tp, .g = tp_graph_new(tp)};
    b.x = tp_placeholder(b.g, "x", TP_F32, TP_DIMS(tp_symbol(b.g, "n"), 3));
    b.c = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    b.image = tp_full(tp, TP_F32, TP_DIMS(1, 2, 4, 4), 1);
    b.kernel = tp_full(tp, TP_F32, TP_DIMS(3, 2, 2, 2), 1);
    b.out = tp_full(tp, TP_F32, TP_DIMS(1, 3, 3, 3), 1);
    b.columns = tp_full(tp, TP_F32, TP_DIMS(1, 4, 9), 1);
    b.theta = tp_full(tp, TP_F32, TP_DIMS(1, 2, 3), 1);
    b.param = tp_param(tp_full(tp, TP_F32, TP_DIMS(3), 1), "w");
    return b;
}

/* Was it refused, and with the words? */
static int is_silent(bed *b, const char *name, double v)
{
    const bool good = tp_error(b->tp) != TP_OK && strstr(tp_error_message(b->tp), "tp_dim_add");
    if (!good)
        print_message("%s = %.17g: %s\n", name, v,
                      tp_error(b->tp) == TP_OK ? "taken" : tp_error_message(b->tp));
    tp_clear_error(b->tp);
    return !good;
}

static int try_window(bed *b, const argument *a, int64_t v)
{
    int n = 0;
    const bool pools = strstr(a->name, "pool") || strstr(a->name, "fold");
    for (int i = 0; i < 6; i++) {
        tp_window w = {
            .kernel = {2, 2},
              .stride = {1, 1}
        };
        int64_t *const member[] = {&w.stride[1],   &w.pad_lo[0], &w.pad_hi[1],
                                   &w.dilation[0], &w.kernel[1], &w.groups};
        if (i == (pools ? 5 : 4)) /* what it does not look at */
            continue;
        *member[i] = v;
        a->window(b, &w);
        n += is_silent(b, a->name, (double)v);
    }
    return n;
}

static int try_sizes(bed *b, const argument *a)
{
    const int64_t n = tp_dim(b->x, 0), m = tp_symbol(b->g, "m");
    const int64_t v[] = {n + 1, n - 1, n - m, m - n, -n, n / 2, n / 1000, n + m, m};
    int silent = 0;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        if (v[i] == m && a->kind == SIZE)
            continue;
        if (a->kind == WINDOW) {
            silent += try_window(b, a, v[i]);
            continue;
        }
        a->size(b, v[i]);
        silent += is_silent(b, a->name, (double)v[i]);
    }
    return silent;
}

static int try_reals(bed *b, const argument *a)
{
    const int64_t n = tp_dim(b->x, 0);
    const double h = (double)n;
    const double v[] = {h,
                        (double)(n - 1),
                        h + 0.5,
                        1.0 / h,
                        -h,
                        (double)(float)n,
                        1.0f / (float)n,
                        1.0 / (double)(n + 1),
                        -1.0 / h,
                        h * 2,
                        h / 2,
                        -h / 4,
                        1 / (h * 2),
                        -1 / (h / 2),
                        2 / h,
                        0x1.ep59,
                        -0x1.1p63,
                        0x1.ep-64,
                        -0x1.2p-61};
    int silent = 0;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        a->real(b, v[i]);
        silent += is_silent(b, a->name, v[i]);
    }
    return silent;
}

static void refused(void **state)
{
    bed b = lay(*state);
    int silent = 0;
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        assert_int_equal(tp_scope_begin(b.tp), TP_OK);
        silent += arguments[i].kind == REAL ? try_reals(&b, &arguments[i])
                                            : try_sizes(&b, &arguments[i]);
        tp_scope_end(b.tp);
    }
    assert_int_equal(silent, 0);
}

/* What the arithmetic gives for no size is refused too: by all that take a size, and by itself. */
static void no_size(void **state)
{
    bed b = lay(*state);
    const int64_t n = tp_dim(b.x, 0), v = tp_dim_add(b.g, n, -2);
    assert_true(v == tp_dim_div(b.g, n, 0) && v == tp_dim_mul(b.g, -1, n));
    assert_true(v == tp_dim_add(b.g, v, n) && v == tp_dim_mul(b.g, v, 0) &&
                v == tp_dim_div(b.g, n, v));
    int taken = 0;
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        const argument *a = &arguments[i];
        if (a->kind != SIZE || strncmp(a->name, "tp_dim_", 7) == 0)
            continue;
        a->size(&b, v);
        if (tp_error(b.tp) == TP_OK) {
            print_message("%s takes what is no size\n", a->name);
            taken++;
        }
        tp_clear_error(b.tp);
    }
    assert_int_equal(taken, 0);
}

/* Handles of thousands of sizes, and what is made of them: all told from each other. */
static void many_sizes(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(3), 1);
    int64_t last = n;
    for (int i = 1; i < 2000; i++) {
        const int64_t d = tp_dim_add(g, n, i), v[] = {d - n, n - d, d - last, d + 1, d - 1};
        for (size_t k = 0; k < sizeof v / sizeof *v; k++) {
            assert_true(tp_failed(tp_slice(x, 0, 0, v[k], 1)));
            assert_non_null(strstr(tp_error_message(tp), "tp_dim_add"));
            tp_clear_error(tp);
        }
        last = d;
    }
}

/* What is far from all handles means what it says. */
static void ends_stay(void **state)
{
    bed b = lay(*state);
    const int64_t ends[] = {TP_END, INT64_MAX - 1, 1000000000, INT32_MAX, (int64_t)1 << 39};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        assert_int_equal(tp_dim(tp_slice(b.c, 0, 0, ends[i], 1), 0), 3);
        assert_int_equal(tp_dim(tp_slice(b.c, 0, -ends[i], TP_END, 1), 0), 3);
        assert_int_equal(tp_dim(tp_slice(b.c, 0, 0, TP_END, ends[i]), 0), 1);
        assert_int_equal(tp_dim(tp_slice(b.c, 0, 2, -ends[i], -1), 0), 3);
    }
    assert_int_equal(tp_dim(tp_slice(b.c, 0, INT64_MIN, TP_END, 1), 0), 3);
    assert_int_equal(tp_dim(tp_slice(b.c, 0, TP_END, INT64_MIN, -1), 0), 3);
    assert_int_equal(tp_dim(tp_slice(b.c, 0, TP_END, TP_END, INT64_MIN), 0), 1);
    const double far[] = {-1e18,  -1e19, -1e30,  1e18,    1e19,     -1e-18,
                          -1e-19, 1e-18, 0x1p63, -0x1p63, -HUGE_VAL};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        assert_true(tp_item(tp_scalar(b.tp, TP_F64, far[i])) == far[i]);
    assert_int_equal(tp_error(b.tp), TP_OK);
}

/* Where C has no handle, and where a file says them, such numbers are numbers. */
static void numbers_stay(void **state)
{
    (void)state;
    static const double near[] = {1.602176634e-19, -3e-19, 0x1p62, -0x1.8p61};
    const char *path = "handles_numbers.tapir";
    tp_ctx *tp = tp_open(NULL);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        tp_scope_begin(tp);
        assert_true(tp_item(tp_scalar(tp, TP_F64, near[i])) == near[i]);
        assert_true(tp_item(tp_full(tp, TP_F64, TP_DIMS(1), near[i])) == near[i]);
        assert_true(tp_item(tp_arange(tp, TP_F64, 1, near[i], 1)) == near[i]);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F64, TP_DIMS(2));
        tp_name(tp_clip(x, near[i] < 0 ? near[i] : 0, near[i] < 0 ? 0 : near[i]), "y");
        assert_int_equal(tp_graph_save(g, path), TP_OK);
        tp_ctx *other = tp_open(NULL);
        tp_symbol(tp_graph_new(other), "n");
        assert_non_null(tp_graph_load(other, path));
        assert_int_equal(tp_error(other), TP_OK);
        assert_true(tp_failed(tp_scalar(other, TP_F64, near[i])));
        tp_close(other);
        tp_scope_end(tp);
    }
    assert_int_equal(tp_error(tp), TP_OK);
    tp_close(tp);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(refused), CASE(no_size), CASE(many_sizes),
                                       CASE(ends_stay), cmocka_unit_test(numbers_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
