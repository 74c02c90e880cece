/* Adaptive computation time (Graves, 2016): a recurrent cell adds up a list of numbers, one in each turn,
 * and decides for each list when it has seen enough. Nobody tells it how long a list is: the last number
 * has a mark, and a small price on turns teaches it to halt there. The function below is that of one
 * list, with its own number of turns; tp_vmap runs it on a batch and computes in each turn
 * only the lists that have not halted.
 *
 *     ponder [--hidden N] [--steps N] [--batch N]
 *         --check   compares with the same function in a loop over the lists */
#include "dice.h"
#include "sample_loop.h"

#include <stdio.h>

enum { LONGEST = 8, TESTED = 400 };

static const double enough = 0.99; /* of the probability to have halted */
static const double price = 0.1;   /* of a turn */

typedef struct model {
    tp_recurrent cell;
    tp_dense halt, out;
    int64_t hidden;
    tp_optimizer *adam;
} model;

static model model_new(tp_ctx *tp, int64_t hidden)
{
    tp_params *p = tp_params_new(tp);
    model m = {.cell = tp_gru_new(p, "cell", 2, hidden, NULL).w[0][0],
               .halt = tp_dense_new(p, "halt", hidden, 1, NULL),
               .out = tp_dense_new(p, "out", hidden, 1, NULL),
               .hidden = hidden};
    m.adam = tp_adam_new(tp, 3e-3, NULL, TP_TRAINED(p));
    return m;
}

static tp_tensor *unit(const tp_dense *l, tp_tensor *h)
{
    return tp_reshape(tp_dense_apply(l, h), TP_SCALAR);
}

/* A list [LONGEST, 2] of numbers and marks -> its sum [], the price of its turns [], their number []. */
static void ponder(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *zero = tp_scalar_like(in[0], 0), *h = tp_broadcast(zero, TP_DIMS(1, m->hidden));
    tp_tensor *sum = zero, *halted = zero, *cost = zero, *turns = zero;
    tp_while (tp_lt(halted, 1), &h, &sum, &halted, &cost, &turns) {
        tp_tensor *item = tp_gather(in[0], tp_turn(tp_ctx_of(h)), 0);
        h = tp_gru_cell(tp_unsqueeze(item, 0), h, &m->cell, NULL);
        turns = tp_add(turns, 1);
        tp_tensor *p = tp_sigmoid(unit(&m->halt, h)), *rest = tp_sub(1, halted);
        tp_tensor *last = tp_or(tp_gt(tp_add(halted, p), enough), tp_ge(turns, LONGEST));
        tp_tensor *weight = tp_where(last, rest, p); /* of what this turn says */
        sum = tp_add(sum, tp_mul(weight, unit(&m->out, h)));
        cost = tp_where(last, tp_add(turns, rest), cost);
        halted = tp_where(last, 1, tp_add(halted, p));
    }
    out[0] = sum;
    out[1] = cost;
    out[2] = turns;
}

/* n lists, of which list i has `length` numbers, or (0) 1 to LONGEST; and their sums. */
static void draw(tp_ctx *tp, uint64_t *state, int64_t n, int length, tp_tensor **list,
                 tp_tensor **sum)
{
    float *v = tp_alloc(tp, (size_t)n * (LONGEST * 2 + 1) * sizeof *v);
    float *total = v ? v + n * LONGEST * 2 : NULL;
    for (int64_t i = 0; i < n && v; i++) {
        const int l = length ? length : 1 + (int)dice(state, LONGEST);
        for (int k = 0; k < l; k++) {
            float *item = v + (i * LONGEST + k) * 2;
            item[0] = (float)dice_between(state, -1, 1);
            item[1] = k == l - 1;
            total[i] += item[0];
        }
    }
    *list = tp_tensor_new(tp, TP_F32, TP_DIMS(n, LONGEST, 2), v);
    *sum = tp_tensor_new(tp, TP_F32, TP_DIMS(n), total);
    tp_free(tp, v);
}

static void train(tp_ctx *tp, model *m, int64_t steps, int64_t batch)
{
    uint64_t state = 1;
    double error = 0, turns = 0;
    const int64_t lines = 5;
    for (int64_t s = 1; s <= steps && tp_error(tp) == TP_OK; s++) {
        tp_tensor *list, *sum, *out[3];
        tp_scope_begin(tp);
        draw(tp, &state, batch, 0, &list, &sum);
        tp_vmap(ponder, m, 1, &list, 3, out, NULL);
        tp_tensor *loss = tp_mse(out[0], sum);
        tp_tensor *cost = tp_mean(out[1], TP_ALL, false);
        tp_optimizer_step(m->adam, tp_add(loss, tp_mul(price, cost)));
        error += tp_item(loss);
        turns += tp_item(tp_mean(out[2], TP_ALL, false));
        tp_scope_end(tp);
        if (s * lines / steps == (s - 1) * lines / steps)
            continue;
        const double n = (double)steps / (double)lines;
        printf("  step %5lld   squared error %.4f   turns %.2f\n", (long long)s, error / n,
               turns / n);
        error = turns = 0;
    }
}

static void test(tp_ctx *tp, model *m)
{
    uint64_t state = 2;
    printf("  numbers in the list   turns   squared error\n");
    for (int length = 1; length <= LONGEST; length++) {
        tp_tensor *list, *sum, *out[3];
        tp_scope_begin(tp);
        draw(tp, &state, TESTED, length, &list, &sum);
        tp_vmap(ponder, m, 1, &list, 3, out, NULL);
        printf("  %19d   %5.2f   %13.4f\n", length, tp_item(tp_mean(out[2], TP_ALL, false)),
               tp_item(tp_mse(out[0], sum)));
        tp_scope_end(tp);
    }
}

int main(int argc, char **argv)
{
    bool check;
    int64_t hidden = 256, steps = 600, batch = 32;
    const argument arguments[] = {
        {"--hidden", &hidden},
        {"--steps",  &steps },
        {"--batch",  &batch }
    };
    if (!read_arguments(argc, argv, 3, arguments, &check, NULL))
        return 2;
    tp_ctx *tp = tp_open(NULL);
    model m = model_new(tp, hidden);
    printf("A cell of %lld units learns to add up 1 to %d numbers, and when to halt.\n",
           (long long)hidden, LONGEST);
    train(tp, &m, steps, batch);
    tp_recording(tp, false);
    test(tp, &m);
    tp_tensor *list, *sum;
    uint64_t state = 3;
    draw(tp, &state, 24, 0, &list, &sum);
    const bool good = !check || check_samples(ponder, &m, 1, &list, 3);
    return close_and_tell(tp, "ponder", good);
}
