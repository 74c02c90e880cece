/* Trains an MLP to tell where a point lies, eagerly or, with CAPTURED defined, by a captured function;
 * tools/check_linked.sh links it with the static library and looks at what is in it. */
#include <tapir/tapir.h>

#include <stdio.h>

enum { BATCH = 32, INPUTS = 2, HIDDEN = 16, CLASSES = 2, STEPS = 400 };

typedef struct model {
    tp_dense in, middle, out;
    tp_optimizer *optimizer;
} model;

/* points, classes -> loss: one step. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *h = tp_relu(tp_dense_apply(&m->in, in[0]));
    h = tp_relu(tp_dense_apply(&m->middle, h));
    out[0] = tp_cross_entropy(tp_dense_apply(&m->out, h), in[1]);
    tp_optimizer_step(m->optimizer, out[0]);
}

/* Inside of a circle, or not. */
static void draw(tp_ctx *tp, tp_tensor **in)
{
    in[0] = tp_uniform(tp, TP_F32, TP_DIMS(BATCH, INPUTS), -1, 1);
    tp_tensor *far = tp_sum(tp_square(in[0]), TP_DIMS(1), false);
    in[1] = tp_cast(tp_lt(far, tp_scalar(tp, TP_F32, 0.6)), TP_I64);
}

static double train(tp_ctx *tp, model *m)
{
#ifdef CAPTURED
    tp_function *f = tp_function_new(tp, "step", step, m, NULL);
#endif
    double loss = 0;
    for (int i = 0; i < STEPS; i++) {
        tp_scope_begin(tp);
        tp_tensor *in[2], *out;
        draw(tp, in);
#ifdef CAPTURED
        tp_function_call(f, 2, in, 1, &out);
#else
        step(m, 2, in, 1, &out);
#endif
        loss = tp_item(out);
        tp_scope_end(tp);
    }
    return loss;
}

int main(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_params *params = tp_params_new(tp);
    model m = {.in = tp_dense_new(params, "in", INPUTS, HIDDEN, NULL),
               .middle = tp_dense_new(params, "middle", HIDDEN, HIDDEN, NULL),
               .out = tp_dense_new(params, "out", HIDDEN, CLASSES, NULL)};
#ifdef CAPTURED
    m.optimizer = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(params));
#else
    m.optimizer = tp_sgd_new(tp, 0.5, NULL, TP_TRAINED(params));
#endif
    const double loss = train(tp, &m);
    const bool failed = tp_error(tp) != TP_OK || !(loss < 0.5);
    printf("loss %.3f %s\n", loss, tp_error_message(tp));
    tp_optimizer_free(m.optimizer);
    tp_close(tp);
    return failed;
}
