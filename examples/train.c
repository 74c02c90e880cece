/* A training step as a C file that stands alone. A small network learns where two spirals lie, for some
 * steps here; then the step, with optimiser and all, is written as step.c, and goes on learning
 * here. examples/alone/learn.c goes on in the same way without the library: the same losses, bit
 * for bit.
 *
 *     train [step.c] */
#include "alone/spirals.h"
#include <tapir/tapir.h>

#include <stdio.h>

enum { HIDDEN = 24 };

typedef struct model {
    tp_dense in, out;
    tp_optimizer *adam;
} model;

/* points, sides -> loss: one step of Adam. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *h = tp_tanh(tp_dense_apply(&m->in, in[0]));
    out[0] = tp_cross_entropy(tp_dense_apply(&m->out, h), in[1]);
    tp_optimizer_step(m->adam, out[0]);
}

/* The loss of one batch, which is learned from. */
static double learn(tp_ctx *tp, tp_function *f, int number)
{
    float points[2 * BATCH];
    int64_t sides[BATCH];
    draw_batch(number, points, sides);
    tp_scope_begin(tp);
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(BATCH, 2), points);
    tp_tensor *y = tp_tensor_new(tp, TP_I64, TP_DIMS(BATCH), sides);
    const double loss = tp_item(tp_function_apply(f, TP_TENSORS(x, y)));
    tp_scope_end(tp);
    return loss;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "step.c";
    tp_ctx *tp = tp_open(&(tp_options){.seed = 2});
    tp_params *params = tp_params_new(tp);
    model m = {.in = tp_dense_new(params, "in", 2, HIDDEN, NULL),
               .out = tp_dense_new(params, "out", HIDDEN, 2, NULL)};
    m.adam = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(params));
    tp_function *f = tp_function_new(tp, "step", step, &m, NULL);
    for (int i = 0; i < BEFORE; i++)
        learn(tp, f, i);
    tp_function_save_c(f, path, TP_NAMES("points", "sides"), TP_NAMES("loss"), NULL);
    for (int i = BEFORE; i < BEFORE + AFTER; i++) {
        const double loss = learn(tp, f, i);
        if (i % 50 == 49)
            printf("step %d: loss %.9g\n", i + 1, loss);
    }
    const bool failed = tp_error(tp) != TP_OK;
    if (failed)
        fprintf(stderr, "train: %s\n", tp_error_message(tp));
    tp_optimizer_free(m.adam);
    tp_close(tp);
    return failed;
}
