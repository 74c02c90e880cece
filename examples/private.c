/* Training that tells little about any one of its samples (DP-SGD, Abadi et al., 2016): the gradient of each
 * picture is clipped to a norm, noise as large as one of them may be is added to their sum, and the mean is
 * the step. The function below gives the clipped gradients of one picture; tp_vmap runs it on a batch.
 * The noise comes from a known seed here: what is to be private in earnest takes a secret one.
 *
 *     private [FOLDER]     reads the MNIST files in FOLDER (or DATA=FOLDER); draws digits without
 *         --train N --test N --epochs N --batch N
 *         --check          compares with the same function in a loop over the pictures */
#include "sample_loop.h"

#include <math.h>
#include <stdio.h>

enum { HIDDEN = 32, N_PARAMS = 4, LOSS = N_PARAMS, NORM, N_OUT };

static const double most = 1;  /* the norm of a clipped gradient */
static const double noise = 1; /* its deviation in parts of that */
static const double rate = 1;
static const double delta = 1e-5;

typedef struct model {
    tp_dense hidden, out;
    tp_tensor *params[N_PARAMS];
    tp_optimizer *sgd;
} model;

static model model_new(tp_ctx *tp)
{
    tp_params *p = tp_params_new(tp);
    model m = {.hidden = tp_dense_new(p, "hidden", 784, HIDDEN, NULL),
               .out = tp_dense_new(p, "out", HIDDEN, 10, NULL)};
    for (int i = 0; i < N_PARAMS; i++)
        m.params[i] = tp_params_tensor(p, i);
    m.sgd = tp_sgd_new(tp, rate, NULL, N_PARAMS, m.params);
    return m;
}

static tp_tensor *scores(const model *m, tp_tensor *x)
{
    return tp_dense_apply(&m->out, tp_tanh(tp_dense_apply(&m->hidden, x)));
}

/* One picture [784] and its label [] -> the gradients of its loss, clipped; the loss; the norm that
 * they had. */
static void clipped_gradients(void *user, int n_in, tp_tensor *const *in, int n_out,
                              tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *x = tp_unsqueeze(in[0], 0), *y = tp_unsqueeze(in[1], 0);
    out[LOSS] = tp_cross_entropy(scores(m, x), y);
    tp_grads(out[LOSS], NULL, N_PARAMS, m->params, out);
    out[NORM] = tp_clip_norm(N_PARAMS, out, most, out);
}

/* A batch of pictures and labels -> the mean loss, the share of pictures whose gradient was clipped. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_out;
    const model *m = user;
    const double batch = (double)tp_size(in[0], 0);
    tp_tensor *each[N_OUT], *mean[N_PARAMS];
    tp_vmap(clipped_gradients, user, n_in, in, N_OUT, each, NULL);
    for (int i = 0; i < N_PARAMS; i++) {
        tp_tensor *sum = tp_sum(each[i], TP_DIMS(0), false);
        mean[i] = tp_div(tp_add(sum, tp_normal_like(sum, 0, noise * most)), batch);
    }
    tp_optimizer_apply(m->sgd, mean);
    out[0] = tp_mean(each[LOSS], TP_ALL, false);
    out[1] = tp_mean(tp_cast(tp_gt(each[NORM], most), TP_F32), TP_ALL, false);
}

/* Each picture is in one batch of an epoch, whose step is a Gaussian mechanism: the epochs are
 * rho-zCDP, from which epsilon follows (Bun and Steinke, 2016). */
static double epsilon(int64_t epochs)
{
    const double rho = (double)epochs / (2 * noise * noise);
    return rho + 2 * sqrt(rho * log(1 / delta));
}

static double accuracy(const model *m, tp_tensor *const *d)
{
    tp_tensor *right = tp_eq(tp_argmax(scores(m, d[0]), 1, false), d[1]);
    return 100 * tp_item(tp_mean(tp_cast(right, TP_F32), TP_ALL, false));
}

static void train(tp_ctx *tp, model *m, tp_tensor *const *d, tp_tensor *const *test,
                  int64_t epochs, int64_t batch)
{
    tp_function *f = tp_function_new(tp, "step", step, m, NULL);
    const int64_t n = tp_size(d[0], 0), steps = n / batch;
    for (int64_t e = 1; e <= epochs && tp_error(tp) == TP_OK; e++) {
        double loss = 0, clipped = 0;
        tp_scope_begin(tp);
        tp_tensor *order = tp_permutation(tp, n);
        for (int64_t s = 0; s < steps; s++) {
            tp_tensor *out[2], *rows = tp_slice(order, 0, s * batch, (s + 1) * batch, 1);
            tp_scope_begin(tp);
            tp_function_call(f, TP_TENSORS(tp_gather(d[0], rows, 0), tp_gather(d[1], rows, 0)),
                             2, out);
            loss += tp_item(out[0]) / (double)steps;
            clipped += 100 * tp_item(out[1]) / (double)steps;
            tp_scope_end(tp);
        }
        printf("  epoch %d   loss %.4f   clipped %5.1f %%   test accuracy %5.2f %%   "
               "epsilon %.1f\n",
               (int)e, loss, clipped, accuracy(m, test), epsilon(e));
        tp_scope_end(tp);
    }
}

int main(int argc, char **argv)
{
    const char *folder;
    bool check;
    int64_t n_train = 12000, n_test = 2000, epochs = 5, batch = 200;
    const argument arguments[] = {
        {"--train",  &n_train},
        {"--test",   &n_test },
        {"--epochs", &epochs },
        {"--batch",  &batch  }
    };
    if (!read_arguments(argc, argv, 4, arguments, &check, &folder))
        return 2;
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *d[2], *test[2]; /* pictures [n, 784], labels [n] */
    bool good = digit_tensors(tp, folder, "train", n_train, d) &&
                digit_tensors(tp, folder, "t10k", n_test, test);
    if (good) {
        model m = model_new(tp);
        printf("%lld %s digits: the gradient of each is clipped to norm %g, and noise of "
               "deviation %g\nis added to the sum of %lld. Epsilon is that of delta %g.\n",
               (long long)tp_size(d[0], 0), folder ? "real" : "drawn", most, noise * most,
               (long long)batch, delta);
        train(tp, &m, d, test, epochs, batch);
        tp_tensor *few[2];
        first_samples(16, 2, test, few);
        good = !check || check_samples(clipped_gradients, &m, 2, few, N_OUT);
    }
    return close_and_tell(tp, "private", good);
}
