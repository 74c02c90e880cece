/* Networks as ONNX models, into DIR: each as NAME/model.onnx with the tensors of some runs in
 * test_data_set_k/, computed by the reference.
 *
 *     export_nets DIR [NAME] */
#include "nets.h"

#include "onnx/export/export.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void net_fail(net *n, const char *what)
{
    printf("FAILED %s: %s: %s\n", n->name, what, tp_error_message(n->tp));
    tp_clear_error(n->tp);
    n->failed = true;
}

void model_path(const net *n, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", n->dir, n->name);
    mkdir(path, 0777);
    snprintf(path, size, "%s/%s/model.onnx", n->dir, n->name);
}

void save(net *n)
{
    char path[1000];
    model_path(n, path, sizeof path);
    tp_seed(n->tp, 7);
    if (tp_onnx_save(n->g, path, n->n_in, n->in, n->n_out, n->out) != TP_OK)
        net_fail(n, "saving");
}

static void save_tensors(net *n, const char *kind, int count, tp_tensor *const *t)
{
    for (int k = 0; k < count; k++) {
        char path[1000];
        snprintf(path, sizeof path, "%s/%s/test_data_set_%d", n->dir, n->name, n->n_sets);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            net_fail(n, "no folder");
        snprintf(path, sizeof path, "%s/%s/test_data_set_%d/%s_%d.pb", n->dir, n->name,
                 n->n_sets, kind, k);
        if (tp_onnx_tensor_save(t[k], path) != TP_OK)
            net_fail(n, "saving a tensor");
    }
}

void save_set(net *n, tp_tensor *const *in, tp_tensor *const *out)
{
    save_tensors(n, "input", n->n_in, in);
    save_tensors(n, "output", n->n_out, out);
    n->n_sets++;
}

/* One run, over the inputs in order; `names` are the nodes the outputs are. */
static void run_nodes(net *n, tp_tensor *const *in, const char *const *names)
{
    tp_feed feeds[MOST];
    tp_tensor *out[MOST];
    for (int k = 0; k < n->n_in; k++)
        feeds[k] = (tp_feed){n->in[k], in[k]};
    tp_seed(n->tp, 7);
    if (tp_graph_run(n->g, n->n_in, feeds, n->n_out, names, out) != TP_OK)
        net_fail(n, "running");
    save_set(n, in, out);
}

void run(net *n, tp_tensor *const *in)
{
    run_nodes(n, in, n->out);
}

tp_tensor *input(net *n, const char *name, tp_dtype dtype, int rank, const int64_t *shape)
{
    n->in[n->n_in++] = name;
    return tp_placeholder(n->g, name, dtype, rank, shape);
}

tp_tensor *output(net *n, const char *name, tp_tensor *t)
{
    n->out[n->n_out++] = name;
    return tp_name(t, name);
}

tp_tensor *weight(net *n, const char *name, int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    const double size = sqrt(2 / (double)(rank > 1 ? count / shape[0] : count));
    return tp_param(tp_normal(n->tp, TP_F32, rank, shape, 0, size), name);
}

tp_tensor *normal(net *n, int rank, const int64_t *shape)
{
    return tp_normal(n->tp, TP_F32, rank, shape, 0, 1);
}

static tp_tensor *whole(net *n, int64_t most, int rank, const int64_t *shape)
{
    return tp_cast(tp_floor(tp_uniform(n->tp, TP_F32, rank, shape, 0, (double)most)), TP_I64);
}

static tp_tensor *linear(tp_tensor *x, tp_tensor *w, tp_tensor *b)
{
    return tp_add(tp_matmul(x, w), b);
}

/* ---- the networks ------------------------------------------------------------------------ */

static void mlp(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(tp_symbol(n->g, "batch"), 10));
    tp_tensor *h =
        tp_relu(linear(x, weight(n, "w1", TP_DIMS(10, 16)), weight(n, "b1", TP_DIMS(16))));
    tp_name(h, "hidden");
    tp_tensor *y = linear(h, weight(n, "w2", TP_DIMS(16, 3)), weight(n, "b2", TP_DIMS(3)));
    output(n, "probability", tp_softmax(y, -1));
    save(n);
    for (int64_t batch = 1; batch < 6; batch += 2) {
        tp_tensor *in = normal(n, TP_DIMS(batch, 10));
        run(n, &in);
    }
}

/* A loss, and its gradients for all weights. */
static void gradients(net *n, tp_tensor *loss, int n_weights, tp_tensor *const *weights)
{
    tp_tensor *dw[MOST];
    output(n, "loss", loss);
    if (tp_grads(loss, NULL, n_weights, weights, dw) != TP_OK)
        net_fail(n, "gradients");
    for (int i = 0; i < n_weights; i++) {
        char *name = tp_alloc(n->tp, 40);
        snprintf(name, 40, "d/%s", tp_name_of(weights[i]));
        output(n, name, tp_graph_read(n->g, dw[i]));
    }
}

static void mlp_training(net *n)
{
    const int64_t batch = tp_symbol(n->g, "batch");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(batch, 10));
    tp_tensor *labels = input(n, "labels", TP_I64, TP_DIMS(batch));
    tp_tensor *w[] = {weight(n, "w1", TP_DIMS(10, 16)), weight(n, "b1", TP_DIMS(16)),
                      weight(n, "w2", TP_DIMS(16, 3)), weight(n, "b2", TP_DIMS(3))};
    tp_tensor *h = tp_gelu(linear(x, w[0], w[1]));
    h = tp_mul(h, tp_cast(tp_lt(tp_uniform_like(h, 0, 1), tp_scalar_like(h, 0.8)), TP_F32));
    gradients(n, tp_cross_entropy(linear(h, w[2], w[3]), labels), 4, w);
    save(n);
    for (int64_t size = 2; size < 9; size += 5) {
        tp_tensor *in[] = {normal(n, TP_DIMS(size, 10)), whole(n, 3, TP_DIMS(size))};
        run(n, in);
    }
}

static tp_tensor *lenet_logits(tp_tensor *x, tp_tensor *const *w)
{
    const tp_window same =
                        {
                            .pad_lo = {2, 2},
                              .pad_hi = {2, 2}
    },
                    half = {.kernel = {2, 2}};
    tp_tensor *h = tp_conv(x, w[0], &same);
    h = tp_max_pool(tp_relu(tp_add(h, tp_reshape(w[1], TP_DIMS(6, 1, 1)))), &half);
    h = tp_add(tp_conv(h, w[2], NULL), tp_reshape(w[3], TP_DIMS(16, 1, 1)));
    h = tp_flatten(tp_max_pool(tp_relu(h), &half), 1);
    h = tp_relu(linear(h, w[4], w[5]));
    return linear(tp_relu(linear(h, w[6], w[7])), w[8], w[9]);
}

static void lenet_weights(net *n, tp_tensor **w)
{
    w[0] = weight(n, "c1.w", TP_DIMS(6, 1, 5, 5));
    w[1] = weight(n, "c1.b", TP_DIMS(6));
    w[2] = weight(n, "c2.w", TP_DIMS(16, 6, 5, 5));
    w[3] = weight(n, "c2.b", TP_DIMS(16));
    w[4] = weight(n, "f1.w", TP_DIMS(400, 120));
    w[5] = weight(n, "f1.b", TP_DIMS(120));
    w[6] = weight(n, "f2.w", TP_DIMS(120, 84));
    w[7] = weight(n, "f2.b", TP_DIMS(84));
    w[8] = weight(n, "f3.w", TP_DIMS(84, 10));
    w[9] = weight(n, "f3.b", TP_DIMS(10));
}

static void lenet(net *n)
{
    tp_tensor *w[10];
    lenet_weights(n, w);
    tp_tensor *x = input(n, "image", TP_F32, TP_DIMS(tp_symbol(n->g, "batch"), 1, 28, 28));
    tp_tensor *logits = output(n, "logits", lenet_logits(x, w));
    output(n, "digit", tp_argmax(logits, 1, false));
    save(n);
    for (int64_t batch = 1; batch < 4; batch++) {
        tp_tensor *in = normal(n, TP_DIMS(batch, 1, 28, 28));
        run(n, &in);
    }
}

static void lenet_training(net *n)
{
    tp_tensor *w[10];
    const int64_t batch = tp_symbol(n->g, "batch");
    lenet_weights(n, w);
    tp_tensor *x = input(n, "image", TP_F32, TP_DIMS(batch, 1, 28, 28));
    tp_tensor *labels = input(n, "label", TP_I64, TP_DIMS(batch));
    gradients(n, tp_cross_entropy(lenet_logits(x, w), labels), 10, w);
    save(n);
    tp_tensor *in[] = {normal(n, TP_DIMS(3, 1, 28, 28)), whole(n, 10, TP_DIMS(3))};
    run(n, in);
}

/* Convolutions with steps, groups and gaps, whose input has free sizes, and their gradients. */
static void windows(net *n)
{
    const int64_t height = tp_symbol(n->g, "height"), width = tp_symbol(n->g, "width");
    const tp_window a = {
        .stride = {2, 3},
          .pad_lo = {1, 0},
          .pad_hi = {0, 1}
    };
    const tp_window b = {
        .dilation = {2, 1},
          .groups = 2, .pad_lo = {1, 1},
          .pad_hi = {1, 1}
    };
    const tp_window pool = {
        .kernel = {3, 2},
          .stride = {2, 2},
          .pad_lo = {1, 0}
    };
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(tp_symbol(n->g, "batch"), 3, height, width));
    tp_tensor *w[] = {weight(n, "w1", TP_DIMS(4, 3, 3, 3)),
                      weight(n, "w2", TP_DIMS(6, 2, 3, 2))};
    tp_tensor *h = tp_avg_pool(tp_tanh(tp_conv(x, w[0], &a)), &pool);
    h = tp_conv(h, w[1], &b);
    tp_tensor *loss = tp_mean(tp_square(h), TP_ALL, false);
    output(n, "y", h);
    gradients(n, loss, 2, w);
    tp_tensor *dx;
    if (tp_grads(loss, NULL, 1, &x, &dx) != TP_OK)
        net_fail(n, "gradient");
    output(n, "dx", dx);
    save(n);
    for (int64_t size = 20; size < 24; size++) {
        tp_tensor *in = normal(n, TP_DIMS(2, 3, size, 45 - size));
        run(n, &in);
    }
}

static tp_tensor *heads(tp_tensor *x, tp_tensor *w, int64_t n_heads)
{
    const int64_t size = tp_size(w, 0);
    tp_tensor *h = tp_reshape(tp_matmul(x, w),
                              TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), n_heads, size / n_heads));
    return tp_swap(h, 1, 2);
}

/* Pre-norm attention and a feed-forward part over embedded tokens, batch and length free. */
static void transformer(net *n)
{
    const int64_t batch = tp_symbol(n->g, "batch"), length = tp_symbol(n->g, "length");
    tp_tensor *tokens = input(n, "tokens", TP_I64, TP_DIMS(batch, length));
    tp_tensor *mask = input(n, "mask", TP_F32, TP_DIMS(length, length));
    tp_tensor *x = tp_gather(weight(n, "embedding", TP_DIMS(50, 32)), tokens, 0);
    tp_tensor *one = tp_full(n->tp, TP_F32, TP_DIMS(32), 1),
              *none = weight(n, "shift", TP_DIMS(32));
    tp_tensor *h = tp_layer_norm(x, tp_param(one, "scale"), none, 1e-5);
    tp_tensor *q = heads(h, weight(n, "wq", TP_DIMS(32, 32)), 4);
    tp_tensor *k = heads(h, weight(n, "wk", TP_DIMS(32, 32)), 4);
    tp_tensor *v = heads(h, weight(n, "wv", TP_DIMS(32, 32)), 4);
    tp_tensor *s = tp_mul(tp_matmul(q, tp_swap(k, -2, -1)), tp_scalar_like(q, 0.3535533906));
    tp_tensor *a = tp_matmul(tp_softmax(tp_add(s, mask), -1), v);
    a = tp_reshape(tp_swap(a, 1, 2), TP_DIMS(batch, length, 32));
    x = tp_add(x, tp_matmul(a, weight(n, "wo", TP_DIMS(32, 32))));
    h = tp_layer_norm(x, NULL, NULL, 1e-5);
    h = tp_gelu(linear(h, weight(n, "up", TP_DIMS(32, 64)), weight(n, "up.b", TP_DIMS(64))));
    x = tp_add(x, tp_matmul(h, weight(n, "down", TP_DIMS(64, 32))));
    output(n, "hidden", x);
    output(n, "last", tp_slice(x, 1, -1, TP_END, 1));
    output(n, "count", tp_extent(tokens, TP_ALL, TP_I64));
    save(n);
    for (int64_t size = 1; size < 8; size += 3) {
        tp_tensor *in[] = {whole(n, 50, TP_DIMS(2, size)), normal(n, TP_DIMS(size, size))};
        run(n, in);
    }
}

/* Random numbers of free sizes: the second draw of a stream begins where the first has ended. */
static void random_numbers(net *n)
{
    const int64_t a = tp_symbol(n->g, "a"), b = tp_symbol(n->g, "b");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(a, b));
    tp_tensor *y = input(n, "y", TP_F64, TP_DIMS(b));
    output(n, "uniform", tp_uniform_like(x, -2, 3));
    tp_normal_like(x, 0, 1); /* nothing reads it */
    tp_random_stream(n->tp, 3);
    output(n, "third", tp_uniform_like(x, 0, 1));
    output(n, "third_again", tp_uniform_like(x, 0, 1));
    tp_random_stream(n->tp, 0);
    output(n, "normal", tp_normal_like(x, 0.5, 2));
    output(n, "uniform_f64", tp_uniform_like(y, 0, 1));
    output(n, "normal_f64", tp_normal_like(y, 0, 1));
    output(n, "unit", tp_uniform_like(x, 0, 1));
    save(n);
    for (int64_t size = 1; size < 90; size += 29) {
        tp_tensor *in[] = {normal(n, TP_DIMS(3, size)),
                           tp_normal(n->tp, TP_F64, TP_DIMS(size), 0, 1)};
        run(n, in);
    }
}

/* Names of any bytes; two that are equal once they are legal. */
static void names(net *n)
{
    tp_tensor *x = input(n, "\"quoted\"\n*/ ?\\", TP_F32, TP_DIMS(2));
    tp_tensor *y = input(n, "\xff", TP_F32, TP_DIMS(2));
    tp_tensor *z = tp_mul(x, tp_param(normal(n, TP_DIMS(2)), "%FF"));
    tp_name(z, "Add_1");
    output(n, "\xc3\xa9", tp_add(z, y));
    output(n, "\xed\xa0\x80", tp_name(tp_sub(z, y), "\xed\xa0\x80"));
    save(n);
    tp_tensor *in[] = {normal(n, TP_DIMS(2)), normal(n, TP_DIMS(2))};
    run(n, in);
}

/* Outputs that nothing computes: an input, a weight, and what is cut off by feeding it. */
static void nothing(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(2, 2));
    tp_tensor *w = weight(n, "w", TP_DIMS(2, 2));
    tp_tensor *h = tp_name(tp_matmul(x, w), "h");
    n->out[n->n_out++] = "x";
    n->out[n->n_out++] = "w";
    n->in[n->n_in++] = "h";
    output(n, "y", tp_exp(h));
    save(n);
    tp_tensor *in[] = {normal(n, TP_DIMS(2, 2)), normal(n, TP_DIMS(2, 2))};
    run(n, in);
}

/* What is fed hides what it was made of, also where an op would look behind it. */
static void fed(net *n)
{
    tp_tensor *x = tp_placeholder(n->g, "x", TP_F32, TP_DIMS(2, 3, 4));
    tp_tensor *y = tp_matmul(x, weight(n, "w", TP_DIMS(4, 5)));
    tp_tensor *ones = tp_full(n->tp, TP_I64, TP_DIMS(3), 1);
    tp_tensor *wide = tp_broadcast(tp_graph_read(n->g, ones), TP_DIMS(2, 3));
    tp_name(y->in[0], "product");
    tp_name(wide, "divisor");
    n->in[n->n_in++] = "product";
    n->in[n->n_in++] = "divisor";
    tp_tensor *k = input(n, "k", TP_I64, TP_DIMS(3));
    output(n, "y", y);
    output(n, "quotient", tp_div(k, wide));
    save(n);
    const int64_t divisors[] = {0, -1, 5, 7, 0, -3}, numbers[] = {7, INT64_MIN, 9};
    tp_tensor *in[] = {normal(n, TP_DIMS(6, 5)),
                       tp_tensor_new(n->tp, TP_I64, TP_DIMS(2, 3), divisors),
                       tp_tensor_new(n->tp, TP_I64, TP_DIMS(3), numbers)};
    run(n, in);
}

/* ---- branches ---------------------------------------------------------------------------- */

static void write_blocks(net *n, const tpi_onnx_block *block, int64_t inline_bytes)
{
    char path[1000];
    tp_tensor *in[MOST];
    for (int k = 0; k < n->n_in; k++)
        in[k] = tp_graph_find(n->g, n->in[k]);
    const tpi_onnx_saving m = {.what = "export_nets",
                               .g = n->g,
                               .n_in = n->n_in,
                               .in = in,
                               .in_names = n->in,
                               .n_out = n->n_out,
                               .out_names = n->out,
                               .block = block,
                               .inline_bytes = inline_bytes};
    model_path(n, path, sizeof path);
    if (tpi_onnx_write(&m, path) != TP_OK)
        net_fail(n, "writing");
}

static tp_tensor *named(net *n, const char *name, tp_tensor *t)
{
    t = tp_graph_read(n->g, t);
    return tp_name_of(t) ? t : tp_name(t, name);
}

/* h = mean(x) > 0.5 ? linear1(x) : relu(linear1(x));  y = linear2(h) */
static void branch(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(tp_symbol(n->g, "batch"), 10));
    tp_tensor *h = linear(x, weight(n, "w1", TP_DIMS(10, 5)), weight(n, "b1", TP_DIMS(5)));
    tp_tensor *w2 = weight(n, "w2", TP_DIMS(5, 1)), *b2 = weight(n, "b2", TP_DIMS(1));
    tp_tensor *y[] = {named(n, "plain", linear(h, w2, b2)),
                      named(n, "bent", linear(tp_relu(h), w2, b2))};
    tp_tensor *mean = tp_mean(x, TP_ALL, false);
    tp_tensor *c = named(n, "c", tp_gt(mean, tp_scalar_like(x, 0.5)));
    n->out[n->n_out++] = "y";
    const tpi_onnx_block sides[] = {{.outputs = &y[0]}, {.outputs = &y[1]}};
    write_blocks(
        n, &(tpi_onnx_block){.condition = c, .then_block = &sides[0], .else_block = &sides[1]},
        0);
    for (int k = 0; k < 6; k++) {
        const double shift = k % 2 ? 1 : 0;
        tp_tensor *in = tp_normal(n->tp, TP_F32, TP_DIMS(k + 1, 10), shift, 0.1);
        run_nodes(n, &in, (const char *[]){k % 2 ? "plain" : "bent"});
    }
}

/* Two branches, one in the other, on numbers; sides that give an input, a weight, the same value
 * twice, other sizes, and random numbers that begin where those of the way there have ended. */
static void branches(net *n)
{
    const int64_t size = tp_symbol(n->g, "size");
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(size));
    tp_tensor *k = input(n, "k", TP_I32, TP_SCALAR);
    tp_tensor *w = tp_graph_read(n->g, weight(n, "w", TP_DIMS(4)));
    tp_tensor *before = named(n, "before", tp_uniform_like(x, 0, 1));
    tp_tensor *early = named(n, "early", tp_uniform_like(x, 0, 1)); /* one side reads it */
    tp_tensor *outer = named(n, "outer", tp_add(x, before));
    tp_tensor *c1 = named(n, "c1", tp_mod(k, tp_scalar_like(k, 2)));
    tp_tensor *late = named(n, "late", tp_uniform_like(x, 0, 1));
    tp_tensor *a0 = named(n, "a0", tp_mul(tp_add(outer, early), late));
    tp_tensor *c2 = named(n, "c2", tp_gt(k, tp_scalar_like(k, 5)));
    tp_tensor *b0 = named(n, "b0", tp_slice(outer, 0, 1, TP_END, 1));
    tp_tensor *leaf_a[] = {a0, a0, x}, *leaf_b[] = {b0, w, outer}, *leaf_c[] = {outer, x, w};
    tp_tensor *way[] = {before, early, outer, c1}, *way_a[] = {late, a0};
    const tpi_onnx_block a = {.n_nodes = 2, .nodes = way_a, .outputs = leaf_a};
    const tpi_onnx_block inner[] = {{.outputs = leaf_b}, {.outputs = leaf_c}};
    const tpi_onnx_block b = {
        .condition = c2, .then_block = &inner[0], .else_block = &inner[1]};
    n->out[n->n_out++] = "p";
    n->out[n->n_out++] = "q";
    n->out[n->n_out++] = "r";
    tp_seed(n->tp, 7);
    write_blocks(
        n,
        &(tpi_onnx_block){
            .n_nodes = 4, .nodes = way, .condition = c1, .then_block = &a, .else_block = &b},
        0);
    tp_tensor *const *const leaves[] = {leaf_a, leaf_b, leaf_c};
    for (int side = 0; side < 3; side++) {
        const int numbers[] = {3, 8, 4}; /* odd; even and above 5; even */
        tp_tensor *in[] = {normal(n, TP_DIMS(5 + side)),
                           tp_scalar(n->tp, TP_I32, numbers[side])};
        tp_tensor *out[7];
        const tp_feed feeds[] = {
            {"x", in[0]},
            {"k", in[1]}
        };
        const char *asked[7];
        for (int i = 0; i < 3; i++)
            asked[i] = tp_name_of(leaves[side][i]);
        const char *drawn[] = {"before", "early", "late"}; /* all of them, in order */
        memcpy(asked + 3, drawn, sizeof drawn);
        tp_seed(n->tp, 7);
        if (tp_graph_run(n->g, 2, feeds, 6, asked, out) != TP_OK)
            net_fail(n, "running");
        save_tensors(n, "input", 2, in);
        save_tensors(n, "output", 3, out);
        n->n_sets++;
    }
}

/* Large weights in a file beside. */
static void beside(net *n)
{
    tp_tensor *x = input(n, "x", TP_F32, TP_DIMS(4, 64));
    tp_tensor *w = weight(n, "w", TP_DIMS(64, 96)), *turned = tp_swap(w, 0, 1);
    tp_tensor *b = weight(n, "b", TP_DIMS(96));
    tp_tensor *y = named(n, "y", tp_matmul(linear(x, w, b), turned));
    n->out[n->n_out++] = "y";
    write_blocks(n, &(tpi_onnx_block){.outputs = &y}, 1000);
    tp_tensor *in = normal(n, TP_DIMS(4, 64));
    run(n, &in);
}

static const net_row plain_nets[] = {
    {"mlp",            mlp           },
    {"mlp_training",   mlp_training  },
    {"lenet",          lenet         },
    {"lenet_training", lenet_training},
    {"windows",        windows       },
    {"transformer",    transformer   },
    {"random_numbers", random_numbers},
    {"names",          names         },
    {"nothing",        nothing       },
    {"fed",            fed           },
    {"branch",         branch        },
    {"branches",       branches      },
    {"beside",         beside        },
    {NULL,             NULL          },
};

static bool make(const net_row *row, const char *dir)
{
    net n = {.tp = tp_open(NULL), .dir = dir, .name = row->name};
    n.g = tp_graph_new(n.tp);
    tp_seed(n.tp, 1);
    tp_scope_begin(n.tp);
    row->make(&n);
    if (tp_error(n.tp) != TP_OK)
        net_fail(&n, "making");
    tp_close(n.tp);
    return !n.failed;
}

int main(int argc, char **argv)
{
    const net_row *const lists[] = {plain_nets, block_nets};
    int made = 0, failed = 0;
    for (int l = 0; argc > 1 && l < 2; l++)
        for (const net_row *row = lists[l]; row->name; row++) {
            if (argc > 2 && strcmp(argv[2], row->name) != 0)
                continue;
            made++;
            failed += !make(row, argv[1]);
        }
    printf("%d networks written, %d failed\n", made, failed);
    return failed || !made;
}
