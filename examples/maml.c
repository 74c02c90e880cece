/* Learning to learn (MAML, Finn et al., 2017): weights from which a few steps of gradient descent fit
 * a new sine wave. The inner training runs inside the outer step, whose gradient goes through it,
 * gradients and all:
 *
 *     for each task:   for k in 0 .. INNER: fast = fast - rate * d loss(fast, support) / d fast
 *     outer loss:      mean over the tasks of loss(fast, query);  Adam on the weights
 *
 * One whole outer step is one body. It is written with C loops and with tp_for, and runs eagerly,
 * captured, declared pure, and as a static graph; each way the training gives the same bits.
 *
 *     maml [--engine reference|tiles|auto|c] [--times] */
#include "dice.h"
#include "forms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 4, POINTS = 8, HIDDEN = 16, INNER = 3, N_PARAMS = 4, CALLS = 150 };

static const double inner_rate = 0.05;

typedef struct model {
    tp_tensor *w[N_PARAMS]; /* [1, HIDDEN], [HIDDEN], [HIDDEN, 1], [1] */
    tp_optimizer *adam;
} model;

static void *model_new(tp_ctx *tp)
{
    model *m = tp_alloc(tp, sizeof *m);
    if (!m)
        return NULL;
    m->w[0] = tp_param(drawn(tp, 1, TP_F32, TP_DIMS(1, HIDDEN), -1, 1), "w1");
    m->w[1] = tp_param(drawn(tp, 2, TP_F32, TP_DIMS(HIDDEN), -1, 1), "b1");
    m->w[2] = tp_param(drawn(tp, 3, TP_F32, TP_DIMS(HIDDEN, 1), -0.25, 0.25), "w2");
    m->w[3] = tp_param(drawn(tp, 4, TP_F32, TP_DIMS(1), 0, 0.1), "b2");
    m->adam = tp_adam_new(tp, 0.01, NULL, N_PARAMS, m->w);
    return m;
}

/* ---- data: x, y of the support and of the query, [TASKS, POINTS, 1] each -------------------- */

static void inputs(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    float v[4][TASKS * POINTS];
    uint64_t state = (uint64_t)call * 77 + 5;
    for (int t = 0; t < TASKS; t++) {
        const double size = dice_between(&state, 0.5, 2), phase = dice_between(&state, 0, 3);
        for (int i = t * POINTS; i < (t + 1) * POINTS; i++)
            for (int k = 0; k < 4; k += 2) {
                const double x = dice_between(&state, -3, 3);
                v[k][i] = (float)x;
                v[k + 1][i] = (float)(size * sin(x + phase));
            }
    }
    for (int k = 0; k < 4; k++)
        in[k] = tp_tensor_new(tp, TP_F32, TP_DIMS(TASKS, POINTS, 1), v[k]);
}

/* ---- the step ------------------------------------------------------------------------------ */

static tp_tensor *loss_of(tp_tensor *const *w, tp_tensor *x, tp_tensor *y)
{
    return tp_mse(tp_linear(tp_tanh(tp_linear(x, w[0], w[1])), w[2], w[3]), y);
}

/* One step of the inner training, on fast[N_PARAMS] itself. */
static void descend(tp_tensor **fast, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *g[N_PARAMS];
    tp_grads(loss_of(fast, x, y), NULL, N_PARAMS, fast, g);
    for (int i = 0; i < N_PARAMS; i++)
        fast[i] = tp_sub(fast[i], tp_mul(g[i], inner_rate));
}

/* The loss, whether a step was taken, and the first weights after it. */
static void outer(const model *m, tp_tensor *sum, tp_tensor **out)
{
    out[0] = tp_mul(sum, 1.0 / (double)TASKS);
    out[1] = tp_optimizer_step(m->adam, out[0]);
    out[2] = tp_mul(m->w[0], tp_scalar_like(sum, 1)); /* in a graph: as it is after the step */
}

static void step_plain(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *sum = tp_scalar_like(in[0], 0);
    for (int t = 0; t < TASKS; t++) {
        tp_tensor *fast[N_PARAMS] = {m->w[0], m->w[1], m->w[2], m->w[3]};
        for (int k = 0; k < INNER; k++)
            descend(fast, tp_select(in[0], 0, t), tp_select(in[1], 0, t));
        tp_tensor *loss = loss_of(fast, tp_select(in[2], 0, t), tp_select(in[3], 0, t));
        sum = tp_add(sum, loss);
    }
    outer(m, sum, out);
}

static void step_blocks(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *sum = tp_scalar_like(in[0], 0);
    tp_for (TASKS, &sum) {
        tp_tensor *fast[N_PARAMS] = {m->w[0], m->w[1], m->w[2], m->w[3]};
        tp_tensor *x = tp_each(in[0]), *y = tp_each(in[1]);
        tp_for (INNER, &fast[0], &fast[1], &fast[2], &fast[3]) {
            descend(fast, x, y);
        }
        sum = tp_add(sum, loss_of(fast, tp_each(in[2]), tp_each(in[3])));
    }
    outer(m, sum, out);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The mean loss after the inner training, of calls first .. last. */
static double mean_loss(const outcome *o, int64_t first, int64_t last)
{
    double sum = 0, loss = NAN;
    for (int64_t i = first; i < last; i++) {
        outcome_read(o, i, 0, &loss, 1);
        sum += loss;
    }
    return sum / (double)(last - first);
}

static bool run(const char *name, tp_body body, const options *how)
{
    static const form forms[] = {FORM_MATCHED, FORM_PURE, FORM_GRAPH};
    const work w = {.name = name,
                    .body = body,
                    .n_in = 4,
                    .n_out = 3,
                    .calls = CALLS,
                    .make = model_new,
                    .inputs = inputs};
    outcome o;
    bool good = work_show(&w, 3, forms, how, &o);
    const double first = mean_loss(&o, 0, 10), last = mean_loss(&o, CALLS - 10, CALLS);
    printf("  loss after %d inner steps: %.4f at first, %.4f after %d outer steps\n", INNER,
           first, last, CALLS);
    good = good && last < 0.7 * first;
    outcome_free(&o);
    return good;
}

int main(int argc, char **argv)
{
    options how;
    if (!parse_options(argc, argv, &how))
        return 2;
    const bool good = run("outer step, plain C for", step_plain, &how);
    return !(run("outer step, tp_for", step_blocks, &how) && good);
}
