/* A model with a branch that depends on the values it is given, written as a plain C `if`, with a
 * flag and a print inside, and trained eagerly: what C does between two operations is honoured,
 * because the gradient follows what ran.
 *
 *     h = mean(x) > 0.5 ? linear1(x) : relu(linear1(x));   y = linear2(h);
 *     x [batch, 10], linear1 10 -> 5, linear2 5 -> 1 */
#include <tapir/tapir.h>

#include <stdio.h>

typedef struct model {
    tp_dense linear1, linear2;
    bool training;
    int n_high, n_low; /* how often either way was taken */
} model;

static tp_tensor *apply(model *m, tp_tensor *x)
{
    tp_tensor *mean = tp_mean(x, TP_ALL, false);
    tp_tensor *h = tp_dense_apply(&m->linear1, x);
    if (tp_truth(tp_gt(mean, tp_scalar_like(x, 0.5)))) {
        m->n_high++;
    } else {
        h = tp_relu(h);
        m->n_low++;
    }
    if (!m->training)
        printf("  mean(x) is %.3f: %s\n", tp_item(mean),
               tp_item(mean) > 0.5 ? "linear" : "with relu");
    return tp_dense_apply(&m->linear2, h);
}

/* A batch around one of two means, and what the model shall learn: the first five numbers minus
 * the last five, of which only what is positive counts when the mean is low. */
static void batch(tp_ctx *tp, int i, tp_tensor **x, tp_tensor **y)
{
    const double lo = i % 2 ? 0.2 : -0.2;
    *x = tp_uniform(tp, TP_F32, TP_DIMS(32, 10), lo, lo + 1);
    tp_tensor *halves[2];
    tp_split(*x, 1, 2, NULL, halves);
    *y = tp_sum(tp_sub(halves[0], halves[1]), TP_DIMS(1), true);
    if (lo < 0)
        *y = tp_relu(*y);
}

int main(void)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    model m = {.linear1 = tp_dense_new(tp, "linear1", 10, 5),
               .linear2 = tp_dense_new(tp, "linear2", 5, 1),
               .training = true};
    tp_tensor *const params[] = {m.linear1.w, m.linear1.b, m.linear2.w, m.linear2.b};
    tp_optimizer *adam = tp_adam_new(tp, 0.01, 0.9, 0.999, 1e-8, 0, 4, params);

    tp_tensor *x, *y;
    printf("training with Adam on the squared error:\n");
    for (int i = 0; i <= 2000 && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        batch(tp, i, &x, &y);
        tp_tensor *loss = tp_mse(apply(&m, x), y);
        tp_optimizer_step(adam, loss);
        if (i % 400 == 0)
            printf("  step %4d   loss %.5f   linear %4d times, with relu %4d times\n", i,
                   tp_item(loss), m.n_high, m.n_low);
        tp_scope_end(tp);
    }

    printf("two new batches, first row of each:\n");
    m.training = false;
    tp_recording(tp, false);
    for (int i = 0; i < 2 && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        batch(tp, i, &x, &y);
        tp_tensor *guess = apply(&m, x);
        printf("    predicted %7.4f, right is %7.4f; squared error of the batch %.5f\n",
               tp_item(tp_slice(guess, 0, 0, 1, 1)), tp_item(tp_slice(y, 0, 0, 1, 1)),
               tp_item(tp_mse(guess, y)));
        tp_scope_end(tp);
    }

    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "dynamic_model: %s\n", tp_error_message(tp));
    tp_optimizer_free(adam);
    tp_close(tp);
    return failed;
}
