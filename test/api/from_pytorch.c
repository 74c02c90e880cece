/* All that docs/from-pytorch.md has: its functions as they stand there, and what it calls, each once. That nothing is
 * missing here is looked at by tools/check_docs.sh. */
#include <tapir/tapir.h>

#include <stdio.h>

static double mean_loss(tp_ctx *tp, tp_optimizer *opt, const tp_dense *l, tp_tensor *x,
                        tp_tensor *labels)
{
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        tp_scope_begin(tp);
        tp_tensor *loss = tp_cross_entropy(tp_dense_apply(l, x), labels);
        tp_optimizer_step(opt, loss);
        sum += tp_item(loss);
        tp_scope_end(tp); /* frees what this turn made */
    }
    return sum / 10;
}

static tp_graph *of_any_batch(tp_ctx *tp, const tp_dense *l)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 3));
    tp_tensor *y = tp_dense_apply(l, x);
    const int64_t twice = tp_dim_mul(g, tp_dim(x, 0), 2); /* not tp_dim(x, 0) * 2 */
    tp_name(tp_reshape(y, TP_DIMS(twice, -1)), "y");
    return g;
}

static void halved_until_small(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = in[0];
    while (tp_item(tp_reduce_max(tp_abs(x), TP_ALL, false)) > 1) /* C goes on by a value */
        x = tp_mul(x, 0.5);
    out[0] = x;
}

static tp_tensor *call_it(tp_ctx *tp, tp_tensor *x)
{
    tp_function *f = tp_function_new(tp, "halved_until_small", halved_until_small, NULL, NULL);
    tp_tensor *y = NULL;
    for (int i = 0; i < 10; i++)
        y = tp_function_apply(f, 1, &x);
    return y;
}

static tp_tensor *noisy(tp_ctx *tp, tp_tensor *x)
{
    enum { NOISE = 7 };
    const uint64_t was = tp_random_stream(tp, NOISE);
    tp_tensor *noise = tp_normal_like(x, 0, 0.1);
    tp_random_stream(tp, was); /* what others draw is as if this had not been */
    return tp_add(x, noise);
}

static bool is_told(tp_ctx *tp, tp_tensor *x)
{
    tp_tensor *y = tp_matmul(x, x); /* [2, 3] and [2, 3] do not fit: y is a failed tensor, */
    tp_tensor *z = tp_relu(tp_add(y, 1)); /* and so is what is made of it */
    if (tp_failed(z))
        fprintf(stderr, "%s\n", tp_error_message(tp)); /* the first error, with its line */
    tp_clear_error(tp);
    return tp_failed(z);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_neg(in[0]);
}

static void gradient(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_grad(tp_sum(tp_square(in[0]), TP_ALL, false), in[0]);
}

/* clang-format off: a line for each call, as the page has it */
static void rows(tp_ctx *tp)
{
    static float data[4] = {1, 2, 3, 4};
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(2, 3), -1, 1), *y = tp_neg(x);
    tp_tensor *s = tp_scalar(tp, TP_F32, 1), *w = tp_variable(x, "w"), *v = tp_neg(x), *dy;
    const int one = 1;
    tp_tensor *g = tp_full(tp, TP_F32, TP_DIMS(3), 1), *b = tp_full(tp, TP_F32, TP_DIMS(3), 0);
    tp_tensor *image = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, 4, 4), -1, 1);
    tp_tensor *k = tp_uniform(tp, TP_F32, TP_DIMS(8, 2, 3, 3), -1, 1);
    tp_tensor *q = tp_uniform(tp, TP_F32, TP_DIMS(1, 2, 5, 4), -1, 1);
    tp_tensor *i = tp_full(tp, TP_I64, TP_DIMS(2), 1), *labels = i;
    tp_tensor *j = tp_full(tp, TP_I64, TP_DIMS(2, 1), 2);
    tp_tensor *packed = tp_uniform(tp, TP_F32, TP_DIMS(7, 3), -1, 1);
    tp_tensor *lengths = tp_tensor_new(tp, TP_I64, TP_DIMS(3), (int64_t[]){3, 0, 4});
    tp_ragged r = tp_ragged_of_lengths(packed, lengths);
    tp_ragged heads = {tp_unsqueeze(packed, 1), r.offsets};
    tp_tensor *padded = tp_ragged_pad(r, 4, 0), *sums = tp_ragged_sum(r);
    tp_params *p = tp_params_new(tp);
    const tp_dense fc = tp_dense_new(p, "first", 3, 3, NULL);
    tp_tensor *loss = tp_cross_entropy(tp_dense_apply(&fc, x), labels),
              *dw = tp_grad(loss, fc.w);
    tp_optimizer *opt = tp_sgd_new(tp, 0.1, NULL, TP_TRAINED(p));
    tp_optimizer *fresh = tp_sgd_new(tp, 0.1, NULL, TP_TRAINED(p));
    tp_state *state = tp_state_new(tp);
    tp_state_add_params(state, NULL, p);

    tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), data);
    tp_tensor_wrap(tp, TP_F32, TP_DIMS(2, 2), data, NULL, NULL);
    tp_full(tp, TP_F32, TP_DIMS(2, 3), 0);
    tp_scalar(tp, TP_F32, 3);
    tp_arange(tp, TP_I64, 10, 0, 1);
    tp_linspace(tp, TP_F32, 0, 1, 5);
    tp_eye(tp, TP_F32, 3, 3, 0);
    tp_size(x, 0);
    tp_dtype_of(x);
    tp_item(s);
    tp_data(x);
    tp_cast(x, TP_F64);
    tp_print(x, stdout);
    tp_assign(w, x);
    tp_reshape(x, TP_DIMS(3, -1));
    tp_flatten(image, 1);
    tp_swap(x, 0, 1);
    tp_transpose(x, TP_DIMS(1, 0));
    tp_unsqueeze(x, 0);
    tp_broadcast(x, TP_DIMS(4, 2, 3));
    tp_select(x, 0, 1);
    tp_slice(x, 1, 1, 3, 1);
    tp_concat(TP_TENSORS(x, y), 1);
    tp_stack(TP_TENSORS(x, y), 0);
    tp_tile(x, TP_DIMS(2, 2));
    tp_roll(x, 1, 0);
    tp_add(x, y);
    tp_mul(2, x);
    tp_square(x);
    w = tp_swap(w, 0, 1);
    tp_matmul(x, w);
    tp_einsum("ij,jk->ik", TP_TENSORS(x, w));
    tp_max(x, y);
    tp_where(tp_gt(x, 0), x, 0);
    tp_clip(x, 0, 1);
    tp_exp(x);
    tp_sum(x, TP_ALL, false);
    tp_mean(x, TP_DIMS(1), true);
    tp_reduce_max(x, TP_DIMS(1), false);
    tp_argmax(x, 1, false);
    tp_var(x, TP_DIMS(1), 1, false);
    tp_cumsum(x, 1, false, false);
    tp_sort(x, 1, true);
    tp_argtopk(x, 1, 2, true);
    tp_norm(x, 2, TP_ALL, false);
    tp_gather(x, i, 0);
    tp_take_along(x, j, 1);
    tp_one_hot(i, 5, TP_F32);
    tp_relu(x);
    tp_gelu(x);
    tp_softmax(x, -1);
    tp_dropout_apply(x, 0.5);
    tp_layer_norm(x, g, b, 1e-5);
    tp_conv(image, k, TP_SQUARE(3, 1, 1));
    tp_max_pool(image, TP_SQUARE(2, 2, 0));
    tp_attention(q, q, q, &(tp_attention_options){.causal = true}, NULL);
    tp_cross_entropy(x, labels);
    tp_mse(x, y);
    tp_ragged_of_lengths(packed, lengths);
    tp_ragged_new(packed, r.offsets);
    tp_ragged_pad(r, 0, 0);
    tp_ragged_of_padded(padded, lengths);
    tp_gather(r.values, tp_ragged_by_time(r), 0);
    tp_ragged_sum(r);
    tp_ragged_spread(sums, r);
    tp_ragged_attention(heads, heads, heads.values, 4, NULL);
    tp_dense_new(p, "fc", 3, 4, NULL);
    tp_dense_apply(&fc, x);
    tp_conv_layer_new(p, "conv", 2, 8, TP_SQUARE(3, 1, 1), NULL);
    tp_embedding_new(p, "words", 10, 4, -1);
    tp_layer_norm_new(p, "norm", 3, 0);
    tp_batch_norm_new(p, "batch", 8, 0, 0);
    tp_lstm_new(p, "lstm", 3, 4, NULL);
    tp_attention_layer_new(p, "attn", 8, 2, 0, NULL);
    tp_training(tp, false);
    tp_free(tp, tp_params_text(p));
    tp_require_grad(tp_neg(y));
    tp_param(x, "free");
    tp_backward(loss);
    tp_grad_of(fc.w);
    tp_grad(loss, fc.w);
    tp_detach(x);
    tp_no_grad(tp) tp_neg(x);
    tp_vmap_apply(body, NULL, 1, &x, NULL);
    tp_vmap_apply(body, NULL, 1, &x, &(tp_vmap_options){.in_axes = &one, .out_axes = &one});
    tp_vmap_apply(gradient, NULL, 1, &x, NULL);
    tp_vmap_apply(body, NULL, 1, &x, &(tp_vmap_options){.same_draws = true});
    tp_jvp(body, NULL, 1, &x, &v, 1, &y, &dy);
    tp_jacobian(body, NULL, 1, &x, 0);
    tp_hessian(body, NULL, 1, &x, 0);
    tp_hvp(body, NULL, 1, &x, 0, v);
    tp_sgd_new(tp, 0.1, &(tp_sgd_options){.momentum = 0.9}, TP_TRAINED(p));
    tp_adam_new(tp, 1e-3, &(tp_adam_options){.decay = 0.01}, TP_TRAINED(p));
    tp_optimizer_step(opt, loss);
    tp_clip_norm(1, &dw, 1, &dw);
    tp_optimizer_schedule(fresh, &(tp_schedule){.kind = TP_COSINE, .steps = 100});
    tp_optimizer_step_rate(opt);
    tp_seed(tp, 1);
    tp_uniform(tp, TP_F32, TP_DIMS(2, 3), 0, 1);
    tp_normal_like(x, 0, 1);
    tp_permutation(tp, 10);
    tp_categorical(x, 2);
    tp_state_save(state, "from_pytorch.safetensors");
    tp_state_load(state, "from_pytorch.safetensors", NULL);
    tp_function_new(tp, "f", body, NULL, NULL);
    tp_threads(tp, 2);
}
/* clang-format on */

int main(void)
{
    tp_ctx *tp = tp_open(NULL);
    rows(tp);
    tp_params *p = tp_params_new(tp);
    const tp_dense l = tp_dense_new(p, "fc", 3, 4, NULL);
    tp_optimizer *opt = tp_adam_new(tp, 1e-2, NULL, TP_TRAINED(p));
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2, 3), 5), *y = NULL;
    tp_tensor *labels = tp_full(tp, TP_I64, TP_DIMS(2), 1);
    bool ok = is_told(tp, x) && mean_loss(tp, opt, &l, x, labels) < 3;
    ok = ok && tp_size(call_it(tp, x), 1) == 3 && tp_size(noisy(tp, x), 0) == 2;
    tp_graph *g = of_any_batch(tp, &l);
    tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("y"), &y);
    ok = ok && tp_size(y, 0) == 4 && tp_error(tp) == TP_OK;
    if (!ok)
        fprintf(stderr, "from_pytorch: %s\n", tp_error_message(tp));
    tp_close(tp);
    return !ok;
}
