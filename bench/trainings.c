/* Five trainings, for bench/trainings.py, which trains the same networks in another library from the same weights:
 *
 *     trainings NET FOLDER      NET: mlp, resnet, tagger, gpt, autoencoder
 *
 * reads the batches, FOLDER/x.npy [steps, batch, ...], y.npy and (tagger) lengths.npy, writes the first weights to
 * FOLDER/first.safetensors, takes a step for each batch, and writes FOLDER/losses.npy, f64 [steps], and the state after
 * the last one to FOLDER/last.safetensors. */
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2, WIDTH = 64, HEADS = 4, LETTERS = 65, LENGTH = 64, WORDS = 1000, TAGS = 20 };

typedef struct block {
    tp_norm_layer norm[3];
    tp_conv_layer conv[3]; /* of a residual block; the last is on the way around */
    tp_attention_layer attention;
    tp_dense up, down;
} block;

typedef struct net {
    tp_params *params;
    tp_dense dense[4];
    block block[BLOCKS];
    tp_conv_layer first;
    tp_norm_layer norm;
    tp_embedding token, place;
    tp_recurrent_layer lstm;
    tp_optimizer *optimizer;
} net;

typedef struct training {
    const char *name;
    void (*make)(tp_ctx *tp, net *m);
    tp_tensor *(*loss)(const net *m,
                       tp_tensor *const *in); /* x, y and lengths, if there are any */
    int n_in;
} training;

static void make_dense(net *m, int n, const int64_t *widths)
{
    tp_params *part = tp_params_part(m->params, "dense");
    for (int i = 0; i < n; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        m->dense[i] = tp_dense_new(part, name, widths[i], widths[i + 1], NULL);
    }
}

/* ---- MLP -------------------------------------------------------------------------------------- */

static void mlp_make(tp_ctx *tp, net *m)
{
    make_dense(m, 3, (const int64_t[]){784, 128, 64, 10});
    m->optimizer = tp_adam_new(tp, 2e-3, NULL, TP_TRAINED(m->params));
}

static tp_tensor *mlp_loss(const net *m, tp_tensor *const *in)
{
    tp_tensor *h = tp_flatten(in[0], 1);
    for (int i = 0; i < 2; i++)
        h = tp_relu(tp_dense_apply(&m->dense[i], h));
    return tp_cross_entropy(tp_dense_apply(&m->dense[2], h), in[1]);
}

/* ---- residual blocks with batch norm ------------------------------------------------------------ */

static tp_conv_layer make_conv(tp_params *p, const char *name, int64_t c, int64_t oc, int k,
                               int step)
{
    return tp_conv_layer_new(p, name, c, oc, TP_SQUARE(k, step, k / 2),
                             &(tp_layer_options){.no_bias = true});
}

static void resnet_make(tp_ctx *tp, net *m)
{
    m->first = make_conv(m->params, "first", 1, 8, 3, 1);
    m->norm = tp_batch_norm_new(m->params, "norm", 8, 0, 0);
    for (int i = 0, c = 8; i < BLOCKS; i++, c *= 2) {
        block *b = &m->block[i];
        tp_params *part = tp_params_nth(m->params, "block", i);
        b->conv[0] = make_conv(part, "conv0", c, 2 * c, 3, 2);
        b->conv[1] = make_conv(part, "conv1", 2 * c, 2 * c, 3, 1);
        b->conv[2] = make_conv(part, "around", c, 2 * c, 1, 2);
        b->norm[0] = tp_batch_norm_new(part, "norm0", 2 * c, 0, 0);
        b->norm[1] = tp_batch_norm_new(part, "norm1", 2 * c, 0, 0);
        b->norm[2] = tp_batch_norm_new(part, "norm2", 2 * c, 0, 0);
    }
    make_dense(m, 1, (const int64_t[]){32, 10});
    m->optimizer = tp_sgd_new(tp, 0.2, NULL, TP_TRAINED(m->params));
}

static tp_tensor *normed(const tp_conv_layer *conv, const tp_norm_layer *norm, tp_tensor *x)
{
    return tp_norm_layer_apply(norm, tp_conv_layer_apply(conv, x));
}

static tp_tensor *resnet_loss(const net *m, tp_tensor *const *in)
{
    tp_tensor *h = tp_relu(normed(&m->first, &m->norm, in[0]));
    for (int i = 0; i < BLOCKS; i++) {
        const block *b = &m->block[i];
        tp_tensor *y = tp_relu(normed(&b->conv[0], &b->norm[0], h));
        y = normed(&b->conv[1], &b->norm[1], y);
        h = tp_relu(tp_add(y, normed(&b->conv[2], &b->norm[2], h)));
    }
    h = tp_flatten(tp_global_avg_pool(h), 1);
    return tp_cross_entropy(tp_dense_apply(&m->dense[0], h), in[1]);
}

/* ---- a tagger of words, by an LSTM in both directions --------------------------------------------- */

static void tagger_make(tp_ctx *tp, net *m)
{
    m->token = tp_embedding_new(m->params, "token", WORDS, WIDTH, 0);
    m->lstm = tp_lstm_new(m->params, "lstm", WIDTH, WIDTH,
                          &(tp_recurrent_layer_options){.both = true, .batch_first = true});
    make_dense(m, 1, (const int64_t[]){2 * WIDTH, TAGS});
    m->optimizer = tp_adam_new(tp, 2e-3, NULL, TP_TRAINED(m->params));
}

static tp_tensor *tagger_loss(const net *m, tp_tensor *const *in)
{
    tp_tensor *h = NULL, *c = NULL;
    tp_tensor *y =
        tp_recurrent_layer_apply(&m->lstm, tp_embedding_apply(&m->token, in[0]), in[2], &h, &c);
    const tp_loss_options options = {.axis = 2, .ignores = true, .ignored = -1};
    return tp_cross_entropy_with(tp_dense_apply(&m->dense[0], y), in[1], &options);
}

/* ---- GPT --------------------------------------------------------------------------------------------- */

static void gpt_make(tp_ctx *tp, net *m)
{
    m->token = tp_embedding_new(m->params, "token", LETTERS, WIDTH, -1);
    m->place = tp_embedding_new(m->params, "place", LENGTH, WIDTH, -1);
    for (int i = 0; i < BLOCKS; i++) {
        block *b = &m->block[i];
        tp_params *part = tp_params_nth(m->params, "block", i);
        b->norm[0] = tp_layer_norm_new(part, "norm0", WIDTH, 0);
        b->norm[1] = tp_layer_norm_new(part, "norm1", WIDTH, 0);
        b->attention = tp_attention_layer_new(part, "attention", WIDTH, HEADS, 0, NULL);
        b->up = tp_dense_new(part, "up", WIDTH, 4 * WIDTH, NULL);
        b->down = tp_dense_new(part, "down", 4 * WIDTH, WIDTH, NULL);
    }
    m->norm = tp_layer_norm_new(m->params, "norm", WIDTH, 0);
    make_dense(m, 1, (const int64_t[]){WIDTH, LETTERS});
    m->optimizer =
        tp_adam_new(tp, 3e-3, &(tp_adam_options){.decay = 0.01}, TP_TRAINED(m->params));
}

static tp_tensor *gpt_loss(const net *m, tp_tensor *const *in)
{
    tp_tensor *h = tp_add(tp_embedding_apply(&m->token, in[0]), m->place.table);
    for (int i = 0; i < BLOCKS; i++) {
        const block *b = &m->block[i];
        tp_tensor *y = tp_norm_layer_apply(&b->norm[0], h);
        const tp_attention_options causal = {.causal = true};
        h = tp_add(h, tp_attention_layer_apply(&b->attention, y, NULL, &causal, NULL));
        y = tp_gelu(tp_dense_apply(&b->up, tp_norm_layer_apply(&b->norm[1], h)));
        h = tp_add(h, tp_dense_apply(&b->down, y));
    }
    h = tp_dense_apply(&m->dense[0], tp_norm_layer_apply(&m->norm, h));
    return tp_cross_entropy_with(h, in[1], &(tp_loss_options){.axis = 2});
}

/* ---- autoencoder ------------------------------------------------------------------------------------------ */

static void autoencoder_make(tp_ctx *tp, net *m)
{
    make_dense(m, 4, (const int64_t[]){784, 128, 32, 128, 784});
    m->optimizer = tp_adam_new(tp, 2e-3, NULL, TP_TRAINED(m->params));
}

static tp_tensor *autoencoder_loss(const net *m, tp_tensor *const *in)
{
    tp_tensor *x = tp_flatten(in[0], 1), *h = x;
    for (int i = 0; i < 3; i++)
        h = tp_relu(tp_dense_apply(&m->dense[i], h));
    return tp_bce_with_logits(tp_dense_apply(&m->dense[3], h), x, NULL, NULL, TP_MEAN);
}

static const training trainings[] = {
    {"mlp",         mlp_make,         mlp_loss,         2},
    {"resnet",      resnet_make,      resnet_loss,      2},
    {"tagger",      tagger_make,      tagger_loss,      3},
    {"gpt",         gpt_make,         gpt_loss,         2},
    {"autoencoder", autoencoder_make, autoencoder_loss, 2},
};

/* ---- what they have in common ------------------------------------------------------------------------------- */

typedef struct step {
    const training *t;
    net *m;
} step;

static void take_step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const step *s = user;
    (void)n_in, (void)n_out;
    out[0] = s->t->loss(s->m, in);
    tp_optimizer_step(s->m->optimizer, out[0]);
}

static const char *at(const char *folder, const char *file)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void save(tp_ctx *tp, const net *m, const char *path, bool all)
{
    tp_state *s = tp_state_new(tp);
    tp_state_add_params(s, NULL, m->params);
    if (all)
        tp_state_add_optimizer(s, NULL, m->optimizer);
    tp_state_save(s, path);
    tp_state_free(s);
}

static void train(tp_ctx *tp, const training *t, const char *folder)
{
    static const char *const files[] = {"x.npy", "y.npy", "lengths.npy"};
    net m = {.params = tp_params_new(tp)};
    step s = {t, &m};
    tp_tensor *data[3];
    t->make(tp, &m);
    save(tp, &m, at(folder, "first.safetensors"), false);
    for (int i = 0; i < t->n_in; i++)
        data[i] = tp_npy_load(tp, at(folder, files[i]));
    const int64_t steps = tp_size(data[0], 0);
    double *losses = tp_alloc(tp, (size_t)(steps + 1) * sizeof *losses);
    tp_function *f = tp_function_new(tp, t->name, take_step, &s, NULL);
    for (int64_t k = 0; losses && k < steps && tp_error(tp) == TP_OK; k++) {
        tp_scope_begin(tp);
        tp_tensor *in[3];
        for (int i = 0; i < t->n_in; i++)
            in[i] = tp_contiguous(tp_select(data[i], 0, k));
        losses[k] = tp_item(tp_function_apply(f, t->n_in, in));
        tp_scope_end(tp);
    }
    tp_npy_save(tp_tensor_new(tp, TP_F64, TP_DIMS(steps), losses), at(folder, "losses.npy"));
    save(tp, &m, at(folder, "last.safetensors"), true);
    tp_optimizer_free(m.optimizer);
    tp_free(tp, losses);
}

int main(int argc, char **argv)
{
    const int n = (int)(sizeof trainings / sizeof *trainings);
    int i = 0;
    while (i < n && (argc != 3 || strcmp(trainings[i].name, argv[1]) != 0))
        i++;
    if (i == n) {
        fprintf(stderr, "usage: trainings mlp|resnet|tagger|gpt|autoencoder FOLDER\n");
        return 2;
    }
    tp_ctx *tp = tp_open(&(tp_options){.seed = 1});
    train(tp, &trainings[i], argv[2]);
    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "trainings: %s\n", tp_error_message(tp));
    tp_close(tp);
    return failed;
}
