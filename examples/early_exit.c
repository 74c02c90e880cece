/* Early exits (BranchyNet, Teerapittayanon et al., 2016): a stack of layers with a classifier behind each. A
 * picture leaves at the first one that is sure, so easy pictures take few layers. The function below
 * classifies one picture; tp_vmap runs it on many, and computes each layer for those alone that have
 * not left. Digits come as they are, and with noise on them.
 *
 *     early_exit [FOLDER]     reads the MNIST files in FOLDER (or DATA=FOLDER); draws digits without
 *         --train N --test N --hidden N
 *         --check             compares with the same function in a loop over the pictures */
#include "sample_loop.h"

#include <stdio.h>

enum { LAYERS = 6, BATCH = 100, EPOCHS = 3, CLASSES = 3 };

static const double sure = 0.9;
static const double noises[CLASSES] = {0, 0.4, 0.8};
static const char *const names[CLASSES] = {"clean", "noisy", "very noisy"};

typedef struct model {
    tp_dense first, layer[LAYERS], exit[LAYERS];
    tp_optimizer *adam;
} model;

static model model_new(tp_ctx *tp, int64_t hidden)
{
    tp_params *p = tp_params_new(tp);
    model m = {.first = tp_dense_new(p, "first", 784, hidden, NULL)};
    for (int i = 0; i < LAYERS; i++) {
        m.layer[i] = tp_dense_new(tp_params_nth(p, "layer", i), "dense", hidden, hidden, NULL);
        m.exit[i] = tp_dense_new(tp_params_nth(p, "exit", i), "dense", hidden, 10, NULL);
    }
    m.adam = tp_adam_new(tp, 1e-3, NULL, TP_TRAINED(p));
    return m;
}

static tp_tensor *layer(const model *m, int i, tp_tensor *h)
{
    return tp_add(h, tp_relu(tp_dense_apply(&m->layer[i], h)));
}

/* A picture [784] -> what it shows [], how many layers were computed []. */
static void classify(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *h = tp_relu(tp_dense_apply(&m->first, tp_unsqueeze(in[0], 0)));
    tp_tensor *p = tp_broadcast(tp_scalar_like(h, 0.1), TP_DIMS(1, 10)); /* not sure at all */
    tp_tensor *layers = tp_scalar_like(h, 0);
    for (int i = 0; i < LAYERS; i++) {
        tp_if (tp_lt(tp_reduce_max(p, TP_ALL, false), sure), &h, &p, &layers) {
            h = layer(m, i, h);
            p = tp_softmax(tp_dense_apply(&m->exit[i], h), 1);
            layers = tp_add(layers, 1);
        }
    }
    out[0] = tp_squeeze(tp_argmax(p, 1, false), 0);
    out[1] = layers;
}

/* Pictures and labels -> the loss of all exits: one step. Here all layers are computed. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *h = tp_relu(tp_dense_apply(&m->first, in[0])), *loss = tp_scalar_like(h, 0);
    for (int i = 0; i < LAYERS; i++) {
        h = layer(m, i, h);
        loss = tp_add(loss, tp_cross_entropy(tp_dense_apply(&m->exit[i], h), in[1]));
    }
    tp_optimizer_step(m->adam, loss);
    out[0] = tp_div(loss, LAYERS);
}

static tp_tensor *with_noise(tp_tensor *x, int class)
{
    return noises[class] > 0 ? tp_add(x, tp_normal_like(x, 0, noises[class])) : x;
}

static void train(tp_ctx *tp, model *m, tp_tensor *const *d)
{
    tp_function *f = tp_function_new(tp, "step", step, m, NULL);
    const int64_t n = tp_size(d[0], 0), steps = n / BATCH;
    for (int e = 1; e <= EPOCHS && tp_error(tp) == TP_OK; e++) {
        double loss = 0;
        tp_tensor *order = tp_permutation(tp, n);
        for (int64_t s = 0; s < steps; s++) {
            tp_scope_begin(tp);
            tp_tensor *rows = tp_slice(order, 0, s * BATCH, (s + 1) * BATCH, 1);
            tp_tensor *x = with_noise(tp_gather(d[0], rows, 0), (int)(s % CLASSES));
            tp_tensor *y = tp_gather(d[1], rows, 0);
            loss += tp_item(tp_function_apply(f, TP_TENSORS(x, y))) / (double)steps;
            tp_scope_end(tp);
        }
        printf("  epoch %d   loss %.4f\n", e, loss);
    }
}

static double percent(tp_tensor *seen, tp_tensor *labels)
{
    return 100 * tp_item(tp_mean(tp_cast(tp_eq(seen, labels), TP_F32), TP_ALL, false));
}

static void test(tp_ctx *tp, model *m, tp_tensor *const *d)
{
    printf("A picture leaves where a digit has a probability of %g.\n"
           "  pictures     accuracy   layers   and with all %d of them\n",
           sure, LAYERS);
    for (int c = 0; c < CLASSES; c++) {
        tp_tensor *out[2];
        tp_scope_begin(tp);
        tp_tensor *x = with_noise(d[0], c), *h = tp_relu(tp_dense_apply(&m->first, x));
        tp_vmap(classify, m, 1, &x, 2, out, NULL);
        for (int i = 0; i < LAYERS; i++)
            h = layer(m, i, h);
        tp_tensor *all = tp_argmax(tp_dense_apply(&m->exit[LAYERS - 1], h), 1, false);
        printf("  %-10s   %6.2f %%   %6.2f   %20.2f %%\n", names[c], percent(out[0], d[1]),
               tp_item(tp_mean(out[1], TP_ALL, false)), percent(all, d[1]));
        tp_scope_end(tp);
    }
}

int main(int argc, char **argv)
{
    const char *folder;
    bool check;
    int64_t n_train = 12000, n_test = 2000, hidden = 256;
    const argument arguments[] = {
        {"--train",  &n_train},
        {"--test",   &n_test },
        {"--hidden", &hidden }
    };
    if (!read_arguments(argc, argv, 3, arguments, &check, &folder))
        return 2;
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *d[2], *tested[2], *few; /* pictures [n, 784], labels [n] */
    bool good = digit_tensors(tp, folder, "train", n_train, d) &&
                digit_tensors(tp, folder, "t10k", n_test, tested);
    if (good) {
        model m = model_new(tp, hidden);
        printf("%lld %s digits teach %d layers of %lld units with an exit behind each.\n",
               (long long)tp_size(d[0], 0), folder ? "real" : "drawn", LAYERS,
               (long long)hidden);
        train(tp, &m, d);
        tp_recording(tp, false);
        test(tp, &m, tested);
        first_samples(50, 1, tested, &few);
        good = !check || check_samples(classify, &m, 1, &few, 2);
    }
    return close_and_tell(tp, "early_exit", good);
}
