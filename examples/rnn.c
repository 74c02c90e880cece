/* A recurrent net over sequences of any length, its loop written as a plain C `for`:
 *
 *     for (int64_t i = 0; i < tp_size(x, 0); i++)
 *         cell(m, tp_select(x, 0, i), &h, &c);
 *
 * An LSTM reads pairs (number, mark), 5 to 200 of them; two are marked, and it shall tell the sum
 * of their numbers. The whole training step is one captured function. It is trained twice from the
 * same seed, eagerly and captured: both give the same bits.
 *
 *     rnn [--steps N] [--hidden N] [--batch N] [--longest N] [--seed N] */
#include "dice.h"
#include "show.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 5, N_PARAMS = 5 };

typedef struct settings {
    int64_t steps, hidden, batch, longest, seed;
} settings;

typedef struct model {
    tp_tensor *wx, *wh, *b; /* [2, 4 * hidden], [hidden, 4 * hidden], [4 * hidden] */
    tp_dense last;
    tp_tensor *params[N_PARAMS];
    tp_optimizer *adam;
    int64_t hidden;
} model;

static model model_new(tp_ctx *tp, const settings *s)
{
    model m = {.hidden = s->hidden};
    const int64_t n = s->hidden;
    tp_tensor *wx = tp_uniform(tp, TP_F32, TP_DIMS(2, 4 * n), -0.5, 0.5);
    tp_tensor *wh = tp_uniform(tp, TP_F32, TP_DIMS(n, 4 * n), -0.25, 0.25);
    /* the gate that forgets is open at first */
    tp_tensor *zeros = tp_full(tp, TP_F32, TP_DIMS(n), 0),
              *ones = tp_full(tp, TP_F32, TP_DIMS(n), 1);
    m.wx = tp_param(wx, "wx");
    m.wh = tp_param(wh, "wh");
    m.b = tp_param(tp_concat(4, (tp_tensor *[]){zeros, ones, zeros, zeros}, 0), "b");
    m.last = tp_dense_new(tp, "last", n, 1);
    tp_tensor *const params[N_PARAMS] = {m.wx, m.wh, m.b, m.last.w, m.last.b};
    memcpy(m.params, params, sizeof params);
    m.adam = tp_adam_new(tp, 0.01, 0.9, 0.999, 1e-8, 0, N_PARAMS, params);
    return m;
}

/* x [batch, 4 * hidden]: the input's part of the gates; h, c [batch, hidden]. */
static void cell(const model *m, tp_tensor *x, tp_tensor **h, tp_tensor **c)
{
    tp_tensor *gate[4]; /* in, forget, new, out */
    tp_split(tp_add(x, tp_matmul(*h, m->wh)), 1, 4, NULL, gate);
    tp_tensor *kept = tp_mul(tp_sigmoid(gate[1]), *c);
    *c = tp_add(kept, tp_mul(tp_sigmoid(gate[0]), tp_tanh(gate[2])));
    *h = tp_mul(tp_sigmoid(gate[3]), tp_tanh(*c));
}

/* x [length, batch, 2] -> [batch, 1]. */
static tp_tensor *read_sequence(const model *m, tp_tensor *x)
{
    tp_tensor *gates = tp_linear(x, m->wx, m->b); /* of all steps at once */
    tp_tensor *h = tp_full(tp_ctx_of(x), TP_F32, TP_DIMS(tp_size(x, 1), m->hidden), 0), *c = h;
    for (int64_t i = 0; i < tp_size(x, 0); i++)
        cell(m, tp_select(gates, 0, i), &h, &c);
    return tp_dense_apply(&m->last, h);
}

/* Sequences x and right answers y [batch, 1] -> the loss; one step of training. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    model *m = user;
    tp_tensor *loss = tp_mse(read_sequence(m, in[0]), in[1]);
    tp_tensor *done = tp_optimizer_step(m->adam, loss);
    out[0] = tp_failed(done) ? done : loss;
}

/* ---- data -------------------------------------------------------------------------------- */

/* Numbers in [-1, 1), of which two are marked in each sequence, and their sum. */
static void sequences(tp_ctx *tp, const settings *s, uint64_t *state, tp_tensor **x,
                      tp_tensor **y)
{
    const int64_t length = SHORTEST + dice(state, (uint32_t)(s->longest - SHORTEST + 1));
    float *pairs = calloc((size_t)(length * s->batch * 2), sizeof *pairs);
    float *sums = calloc((size_t)s->batch, sizeof *sums);
    if (!pairs || !sums)
        exit(1);
    for (int64_t k = 0; k < length * s->batch; k++)
        pairs[k * 2] = (float)dice_between(state, -1, 1);
    for (int64_t b = 0; b < s->batch; b++) {
        const int64_t first = dice(state, (uint32_t)length / 2);
        const int64_t second = length / 2 + dice(state, (uint32_t)(length - length / 2));
        float *one = pairs + (first * s->batch + b) * 2,
              *two = pairs + (second * s->batch + b) * 2;
        one[1] = two[1] = 1;
        sums[b] = one[0] + two[0];
    }
    *x = tp_tensor_new(tp, TP_F32, TP_DIMS(length, s->batch, 2), pairs);
    *y = tp_tensor_new(tp, TP_F32, TP_DIMS(s->batch, 1), sums);
    free(pairs);
    free(sums);
}

/* ---- one training ------------------------------------------------------------------------ */

typedef struct outcome {
    float *losses, *params; /* to be freed */
    int64_t n_params;
    double seconds;
    tp_function_stats stats;
    bool good;
} outcome;

static void read_params(const model *m, outcome *o)
{
    for (int i = 0; i < N_PARAMS; i++)
        o->n_params += tp_count(m->params[i]);
    o->params = malloc((size_t)o->n_params * sizeof *o->params);
    float *at = o->params;
    for (int i = 0; i < N_PARAMS && at; i++) {
        const int64_t n = tp_count(m->params[i]);
        tp_read(m->params[i], at, (size_t)n * sizeof *at);
        at += n;
    }
}

static void train(const settings *s, bool eager, outcome *o)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = (uint64_t)s->seed});
    uint64_t state = (uint64_t)s->seed;
    model m = model_new(tp, s);
    tp_function *f =
        tp_function_new(tp, "step", step, &m, &(tp_function_options){.eager = eager});
    o->losses = calloc((size_t)s->steps, sizeof *o->losses);
    const double start = seconds_now();
    double sum = 0;
    int64_t n = 0, lengths = 0;
    printf("%s:\n", eager ? "eagerly" : "captured");
    for (int64_t i = 0; i < s->steps && tp_error(tp) == TP_OK && o->losses; i++) {
        tp_scope_begin(tp);
        tp_tensor *x, *y;
        sequences(tp, s, &state, &x, &y);
        if (i == s->steps * 3 / 4)
            tp_optimizer_set_rate(m.adam, 0.002);
        o->losses[i] = (float)tp_item(tp_function_apply(f, TP_TENSORS(x, y)));
        lengths += tp_size(x, 0);
        tp_scope_end(tp);
        sum += o->losses[i];
        if (++n == s->steps / 5 || i == s->steps - 1) {
            printf("  step %5d   length %5.1f on average   squared error %.4f\n", (int)i + 1,
                   (double)lengths / (double)n, sum / (double)n);
            sum = 0;
            n = lengths = 0;
        }
        show_progress("training", i + 1, s->steps);
    }
    o->seconds = seconds_now() - start;
    o->stats = tp_function_stats_of(f);
    read_params(&m, o);
    o->good = tp_error(tp) == TP_OK && o->losses && o->params;
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "rnn: %s\n", tp_error_message(tp));
    tp_optimizer_free(m.adam);
    tp_close(tp);
}

static bool parse(int argc, char **argv, settings *s)
{
    static const char *const names[] = {"--steps", "--hidden", "--batch", "--longest",
                                        "--seed"};
    int64_t *const values[] = {&s->steps, &s->hidden, &s->batch, &s->longest, &s->seed};
    static const int64_t least[] = {5, 1, 1, SHORTEST, 0};
    for (int i = 1; i < argc; i += 2) {
        bool good = false;
        for (int k = 0; k < 5 && i + 1 < argc; k++) {
            if (strcmp(argv[i], names[k]) != 0)
                continue;
            char *end;
            *values[k] = strtoll(argv[i + 1], &end, 10);
            good = *end == 0 && end > argv[i + 1] && *values[k] >= least[k] &&
                   *values[k] <= 1000000;
        }
        if (!good) {
            fprintf(stderr, "usage: rnn [--steps N] [--hidden N] [--batch N] [--longest N] "
                            "[--seed N]\n");
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    settings s = {.steps = 1000, .hidden = 16, .batch = 16, .longest = 200, .seed = 1};
    if (!parse(argc, argv, &s))
        return 2;
    outcome eager = {.good = false}, captured = {.good = false};
    train(&s, true, &eager);
    train(&s, false, &captured);
    const bool good = eager.good && captured.good;
    const bool same =
        good &&
        memcmp(eager.losses, captured.losses, (size_t)s.steps * sizeof *eager.losses) == 0 &&
        memcmp(eager.params, captured.params, (size_t)eager.n_params * sizeof *eager.params) ==
            0;
    printf("seconds: eagerly %.1f, captured %.1f\n", eager.seconds, captured.seconds);
    const tp_function_stats t = captured.stats;
    printf("calls %lld user_calls %lld recordings %lld segments %lld "
           "compilations %lld "
           "bits_equal %s\n",
           (long long)t.calls, (long long)t.user_calls, (long long)t.recordings,
           (long long)t.segments, (long long)t.compilations, same ? "yes" : "no");
    free(eager.losses);
    free(eager.params);
    free(captured.losses);
    free(captured.params);
    return !same;
}
