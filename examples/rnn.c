/* A recurrent net over sequences of any length, its loop written as a plain C `for`:
 *
 *     for (int64_t i = 0; i < tp_size(x, 0); i++)
 *         cell(m, tp_select(x, 0, i), &h, &c);
 *
 * An LSTM reads pairs (number, mark), 5 to 200 of them; two are marked, and it shall tell the sum
 * of their numbers. The whole training step is one captured function. It is trained from the same
 * seed eagerly, captured, and declared pure: all give the same bits.
 *
 * Then a net that reads in both directions, over rows of different lengths in one batch, its loops a
 * tp_for and a tp_for_back:
 *
 *     tp_for (tp_dim(gates, 0), &h, &c) {
 *         one turn; where the row has ended, h and c stay as they are
 *     }
 *
 * Its step runs eagerly, captured, and as one static graph for all lengths: the bits are the same,
 * and the gradient past a row's end is exactly zero.
 *
 *     rnn [--steps N] [--hidden N] [--batch N] [--longest N] [--seed N]
 *         [--engine reference|tiles|auto|c] [--times] */
#include "dice.h"
#include "forms.h"
#include "show.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 5 };

typedef struct settings {
    int64_t steps, hidden, batch, longest, seed;
    options how;
} settings;

typedef struct model {
    tp_tensor *wx, *wh, *b; /* [2, 4 * hidden], [hidden, 4 * hidden], [4 * hidden] */
    tp_dense last;
    tp_params *params;
    tp_optimizer *adam;
    int64_t hidden;
} model;

static model model_new(tp_ctx *tp, const settings *s)
{
    model m = {.params = tp_params_new(tp), .hidden = s->hidden};
    const int64_t n = s->hidden;
    tp_tensor *wx = tp_uniform(tp, TP_F32, TP_DIMS(2, 4 * n), -0.5, 0.5);
    tp_tensor *wh = tp_uniform(tp, TP_F32, TP_DIMS(n, 4 * n), -0.25, 0.25);
    /* the gate that forgets is open at first */
    tp_tensor *zeros = tp_full(tp, TP_F32, TP_DIMS(n), 0),
              *ones = tp_full(tp, TP_F32, TP_DIMS(n), 1);
    m.wx = tp_params_add(m.params, "wx", wx);
    m.wh = tp_params_add(m.params, "wh", wh);
    m.b = tp_params_add(m.params, "b",
                        tp_concat(4, (tp_tensor *[]){zeros, ones, zeros, zeros}, 0));
    m.last = tp_dense_new(m.params, "last", n, 1, NULL);
    m.adam = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(m.params));
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

typedef struct training {
    float *losses, *params; /* to be freed */
    int64_t n_params;
    double seconds;
    tp_function_stats stats;
    bool good;
} training;

static void read_params(const model *m, training *o)
{
    for (int i = 0; i < tp_params_n(m->params); i++)
        o->n_params += tp_count(tp_params_tensor(m->params, i));
    o->params = malloc((size_t)o->n_params * sizeof *o->params);
    float *at = o->params;
    for (int i = 0; i < tp_params_n(m->params) && at; i++) {
        const int64_t n = tp_count(tp_params_tensor(m->params, i));
        tp_read(tp_params_tensor(m->params, i), at, (size_t)n * sizeof *at);
        at += n;
    }
}

static void train(const settings *s, form how, training *o)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = (uint64_t)s->seed});
    uint64_t state = (uint64_t)s->seed;
    model m = model_new(tp, s);
    const tp_function_options opt = {
        .engine = s->how.engine, .eager = how == FORM_EAGER, .pure = how == FORM_PURE};
    tp_function *f = tp_function_new(tp, "step", step, &m, &opt);
    o->losses = calloc((size_t)s->steps, sizeof *o->losses);
    const double start = seconds_now();
    double sum = 0;
    int64_t n = 0, lengths = 0;
    printf("%s:\n", form_name(how));
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

/* The same training in another form, beside the eager one. */
static bool train_as(const settings *s, form how, const training *eager)
{
    training t = {.good = false};
    train(s, how, &t);
    const size_t n_losses = (size_t)s->steps * sizeof *t.losses,
                 n_params = (size_t)eager->n_params * sizeof *t.params;
    const bool same = t.good && eager->good && memcmp(eager->losses, t.losses, n_losses) == 0 &&
                      memcmp(eager->params, t.params, n_params) == 0;
    printf("seconds: eagerly %.1f, %s %.1f\n", eager->seconds, form_name(how), t.seconds);
    show_counts(&t.stats, same);
    free(t.losses);
    free(t.params);
    return same;
}

/* ---- how long a step takes ---------------------------------------------------------------- */

static const settings standard = {
    .steps = 1500, .hidden = 16, .batch = 16, .longest = 200, .seed = 1};

static void *standard_model(tp_ctx *tp)
{
    model *m = tp_alloc(tp, sizeof *m);
    if (m)
        *m = model_new(tp, &standard);
    return m;
}

static void sequences_of_call(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    uint64_t state = (uint64_t)call * 31 + 7;
    sequences(tp, &standard, &state, &in[0], &in[1]);
}

static bool time_training(const options *how)
{
    static const form forms[] = {FORM_MATCHED, FORM_PURE};
    const work w = {.name = "LSTM step over 5 to 200 turns, plain C for",
                    .body = step,
                    .n_in = 2,
                    .n_out = 1,
                    .calls = standard.steps,
                    .make = standard_model,
                    .inputs = sequences_of_call};
    return work_show(&w, 2, forms, how, NULL);
}

/* ---- rows of different lengths, both directions ----------------------------------------------- */

enum { ROWS = 5, UNITS = 6, CALLS = 24, LONG = 6, PER_WAY = 3 };

typedef struct both_ways {
    tp_tensor *w[2 * PER_WAY]; /* of either direction: wx, wh, b, as above */
    tp_dense last;             /* [2 * UNITS, 1] */
    tp_optimizer *adam;
} both_ways;

static void *both_ways_new(tp_ctx *tp)
{
    both_ways *m = tp_alloc(tp, sizeof *m);
    if (!m)
        return NULL;
    static const char *const names[] = {"wx", "wh", "b", "wx.back", "wh.back", "b.back"};
    tp_params *params = tp_params_new(tp);
    for (int i = 0; i < 2 * PER_WAY; i++) {
        const int64_t rows[PER_WAY] = {2, UNITS, 4 * UNITS};
        tp_tensor *t = drawn(tp, (uint64_t)i + 1, TP_F32, i % PER_WAY == 2 ? 1 : 2,
                             (const int64_t[]){rows[i % PER_WAY], 4 * UNITS}, -0.5, 0.5);
        m->w[i] = tp_params_add(params, names[i], t);
    }
    m->last = tp_dense_new(params, "last", 2 * UNITS, 1, NULL);
    m->adam = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(params));
    return m;
}

/* A turn of a row that has ended changes nothing: alive [ROWS, 1]. */
static void masked_cell(const model *m, tp_tensor *gates, tp_tensor *alive, tp_tensor **h,
                        tp_tensor **c)
{
    tp_tensor *h1 = *h, *c1 = *c;
    cell(m, gates, &h1, &c1);
    *h = tp_where(alive, h1, *h);
    *c = tp_where(alive, c1, *c);
}

/* x [length, ROWS, 2], lengths [ROWS] -> the last state [ROWS, UNITS] of one direction. */
static tp_tensor *read_rows(tp_tensor *const *w, tp_tensor *x, tp_tensor *lengths, bool back)
{
    tp_ctx *tp = tp_ctx_of(x);
    const model m = {.wh = w[1]};
    tp_tensor *gates = tp_linear(x, w[0], w[2]), *ends = tp_unsqueeze(lengths, 1);
    tp_tensor *h = tp_broadcast(tp_scalar_like(x, 0), TP_DIMS(ROWS, UNITS)), *c = h;
    if (back) {
        tp_for_back (tp_dim(gates, 0), &h, &c) {
            masked_cell(&m, tp_each(gates), tp_lt(tp_turn(tp), ends), &h, &c);
        }
    } else {
        tp_for (tp_dim(gates, 0), &h, &c) {
            masked_cell(&m, tp_each(gates), tp_lt(tp_turn(tp), ends), &h, &c);
        }
    }
    return h;
}

/* x, lengths, right answers -> the loss, its gradient to x, and whether a step was taken. */
static void both_ways_step(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const both_ways *m = user;
    tp_tensor *x = tp_require_grad(tp_detach(in[0]));
    tp_tensor *const ends[2] = {read_rows(m->w, x, in[1], false),
                                read_rows(m->w + PER_WAY, x, in[1], true)};
    out[0] = tp_mse(tp_dense_apply(&m->last, tp_concat(2, ends, 1)), in[2]);
    out[1] = tp_grad(out[0], x);
    out[2] = tp_optimizer_step(m->adam, out[0]);
}

/* What lies past the end of a row is `noise` times something. */
static void rows(tp_ctx *tp, int64_t call, float noise, tp_tensor **in)
{
    uint64_t state = (uint64_t)call * 31 + 7;
    float x[LONG * ROWS * 2], y[ROWS];
    int64_t lengths[ROWS], length = 1 + dice(&state, LONG);
    for (int r = 0; r < ROWS; r++) {
        lengths[r] = r ? 1 + dice(&state, (uint32_t)length) : length;
        y[r] = 0;
        for (int64_t t = 0; t < length; t++)
            for (int k = 0; k < 2; k++) {
                float *at = &x[(t * ROWS + r) * 2 + k];
                *at = (float)dice_between(&state, -1, 1);
                if (t >= lengths[r])
                    *at *= noise;
                else if (t == 0 || t == lengths[r] - 1)
                    y[r] += *at;
            }
    }
    in[0] = tp_tensor_new(tp, TP_F32, TP_DIMS(length, ROWS, 2), x);
    in[1] = tp_tensor_new(tp, TP_I64, TP_DIMS(ROWS), lengths);
    in[2] = tp_tensor_new(tp, TP_F32, TP_DIMS(ROWS, 1), y);
}

static void quiet_rows(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    rows(tp, call, 1, in);
}

static void noisy_rows(tp_ctx *tp, int64_t call, tp_tensor **in)
{
    rows(tp, call, -1000, in);
}

/* Is the gradient exactly zero past each row's end, and somewhere not before it? */
static bool zero_past_ends(const outcome *o)
{
    bool zero = true, some = true;
    tp_ctx *tp = tp_open(NULL);
    for (int64_t call = 0; call < CALLS; call++) {
        tp_tensor *in[3];
        double g[LONG * ROWS * 2];
        int64_t ends[ROWS] = {0};
        quiet_rows(tp, call, in);
        tp_read(in[1], ends, sizeof ends);
        const int64_t n = outcome_read(o, call, 1, g, LONG * ROWS * 2);
        zero = zero && n > 0;
        for (int64_t r = 0; r < ROWS; r++) {
            bool any = false;
            for (int64_t i = 0; i < n; i++)
                if (i / 2 % ROWS == r && i / 2 / ROWS >= ends[r])
                    zero = zero && g[i] == 0;
                else if (i / 2 % ROWS == r)
                    any = any || g[i] != 0;
            some = some && any;
        }
    }
    tp_close(tp);
    printf("  the gradient past the end of a row is %s\n", zero && some ? "zero" : "NOT ZERO");
    return zero && some;
}

static bool run_both_ways(const options *how)
{
    static const form forms[] = {FORM_MATCHED, FORM_PURE, FORM_GRAPH};
    work w = {.name = "rows of their own lengths, tp_for and tp_for_back",
              .body = both_ways_step,
              .n_in = 3,
              .n_out = 3,
              .calls = CALLS,
              .make = both_ways_new,
              .inputs = quiet_rows,
              .varies = "n  "};
    outcome quiet;
    bool good = work_show(&w, 3, forms, how, &quiet);
    good = zero_past_ends(&quiet) && good;
    w.inputs = noisy_rows;
    outcome noisy = work_run(&w, FORM_EAGER, how->engine);
    const bool frozen = noisy.good && noisy.n_bytes == quiet.n_bytes &&
                        memcmp(noisy.bytes, quiet.bytes, quiet.n_bytes) == 0;
    printf("  what lies past the end of a row %s\n", frozen ? "changes nothing" : "MATTERS");
    outcome_free(&noisy);
    outcome_free(&quiet);
    return good && frozen;
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, settings *s)
{
    static const char *const names[] = {"--steps", "--hidden", "--batch", "--longest",
                                        "--seed"};
    int64_t *const values[] = {&s->steps, &s->hidden, &s->batch, &s->longest, &s->seed};
    static const int64_t least[] = {5, 1, 1, SHORTEST, 0};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--times") == 0) {
            s->how.times = true;
            i--;
            continue;
        }
        bool good = i + 1 < argc && strcmp(argv[i], "--engine") == 0 &&
                    engine_named(argv[i + 1], &s->how.engine);
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
                            "[--seed N] [--engine reference|tiles|auto|c] [--times]\n");
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    settings s = standard;
    if (!parse(argc, argv, &s))
        return 2;
    if (s.how.times)
        return !(time_training(&s.how) && run_both_ways(&s.how));
    training eager = {.good = false};
    train(&s, FORM_EAGER, &eager);
    bool good = train_as(&s, FORM_MATCHED, &eager);
    good = train_as(&s, FORM_PURE, &eager) && good;
    free(eager.losses);
    free(eager.params);
    return !(run_both_ways(&s.how) && good);
}
