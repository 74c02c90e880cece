/* Fine-tuning: a network that has learned one task and was left as an ONNX file learns another. It
 * is imported, its last layer is replaced, and first the new layer is trained with the rest
 * frozen, then all of it.
 *
 *     finetune [MODEL.onnx FEATURES] [--steps N] [--batch N] [--save FILE]
 *
 * MODEL takes pictures [batch, channels, height, width]; FEATURES names the value that goes into
 * its last layer. Without one a small network learns to read drawn digits and is written to FILE
 * first. The new task is to tell odd digits from even ones.
 *
 * One captured function takes the steps of both stages: a C flag tells which. It is run eagerly
 * too, from the same seed: both give the same bits. */
#include "digits.h"
#include "show.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CLASSES = 2, PRETRAINED_STEPS = 150, N_DIGITS = 2000, MAX_PARAMS = 1000 };

typedef struct settings {
    const char *path, *features;
    char save[1000];
    int64_t steps, batch;
} settings;

/* Digits i, i + 1, ... of d as f32 [n, channels, height, width], enlarged by repetition, and what
 * they are modulo `classes`. */
static void pictures(tp_ctx *tp, const digits *d, int64_t i, const int64_t shape[4],
                     int64_t classes, tp_tensor **x, tp_tensor **y)
{
    const int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
    float *pixels = malloc((size_t)(n * c * h * w) * sizeof *pixels);
    int64_t *labels = malloc((size_t)n * sizeof *labels);
    if (!pixels || !labels)
        exit(1);
    float *to = pixels;
    for (int64_t k = 0; k < n; k++) {
        const uint8_t *from = d->images + (i + k) % d->n * DIGIT_BYTES;
        labels[k] = d->labels[(i + k) % d->n] % classes;
        for (int64_t at = 0; at < c * h * w; at++) {
            const int64_t row = at / w % h * DIGIT_SIDE / h, column = at % w * DIGIT_SIDE / w;
            *to++ = (float)from[row * DIGIT_SIDE + column] / 255;
        }
    }
    *x = tp_tensor_new(tp, TP_F32, 4, shape, pixels);
    *y = tp_tensor_new(tp, TP_I64, 1, shape, labels);
    free(pixels);
    free(labels);
}

/* ---- the network that is there before ---------------------------------------------------- */

typedef struct reader {
    tp_conv_layer conv1, conv2;
    tp_dense dense1, dense2;
    tp_optimizer *optimizer;
} reader;

static tp_tensor *features_of(const reader *r, tp_tensor *x)
{
    const tp_window two = {
        .kernel = {2, 2}
    };
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&r->conv1, x)), &two);
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&r->conv2, x)), &two);
    return tp_relu(tp_dense_apply(&r->dense1, tp_flatten(x, 1)));
}

static void read_step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const reader *r = user;
    out[0] = tp_cross_entropy(tp_dense_apply(&r->dense2, features_of(r, in[0])), in[1]);
    tp_optimizer_step(r->optimizer, out[0]);
}

/* Trains it on all ten digits and writes it. */
static bool make_model(const char *path, const digits *d)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 5});
    tp_params *params = tp_params_new(tp);
    reader r = {.conv1 = tp_conv_layer_new(params, "conv1", 1, 6, TP_SQUARE(5, 1, 2), NULL),
                .conv2 = tp_conv_layer_new(params, "conv2", 6, 12, TP_SQUARE(5, 1, 2), NULL),
                .dense1 = tp_dense_new(params, "dense1", 12 * 7 * 7, 32, NULL),
                .dense2 = tp_dense_new(params, "dense2", 32, 10, NULL)};
    r.optimizer = tp_adam_new(tp, 0.004, NULL, TP_TRAINED(params));
    tp_function *f = tp_function_new(tp, "read_step", read_step, &r, NULL);
    double loss = 0;
    for (int i = 0; i < PRETRAINED_STEPS && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        tp_tensor *x, *y;
        pictures(tp, d, i * 32, (const int64_t[]){32, 1, DIGIT_SIDE, DIGIT_SIDE}, 10, &x, &y);
        loss = tp_item(tp_function_apply(f, TP_TENSORS(x, y)));
        tp_scope_end(tp);
    }
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32,
                                  TP_DIMS(tp_symbol(g, "batch"), 1, DIGIT_SIDE, DIGIT_SIDE));
    tp_tensor *features = tp_name(features_of(&r, x), "features");
    tp_name(tp_dense_apply(&r.dense2, features), "scores");
    tp_onnx_save(g, path, TP_NAMES("x"), TP_NAMES("scores"));
    const bool good = tp_error(tp) == TP_OK;
    if (good)
        printf("a network that reads digits, loss %.4f, is written to %s\n", loss, path);
    else
        fprintf(stderr, "finetune: %s\n", tp_error_message(tp));
    tp_optimizer_free(r.optimizer);
    tp_close(tp);
    return good;
}

/* ---- the new task ------------------------------------------------------------------------ */

typedef struct model {
    int64_t shape[4];                   /* of a batch of pictures */
    tp_dense last;                      /* the new layer */
    tp_program *features, *whole, *ask; /* x -> FEATURES;  x, y -> loss, step;  x -> scores */
    tp_optimizer *slow, *quick;         /* of all, of the new layer */
    bool frozen;
} model;

/* x, y -> loss: a step of what is not frozen. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const model *m = user;
    tp_tensor *result[2];
    if (m->frozen) {
        tp_program_run(m->features, in, result);
        out[0] = tp_cross_entropy(tp_dense_apply(&m->last, result[0]), in[1]);
        tp_optimizer_step(m->quick, out[0]);
    } else {
        tp_program_run(m->whole, in, result);
        out[0] = result[0];
    }
}

/* Imports the model and builds on what goes into its last layer. */
static model model_load(tp_ctx *tp, const settings *s)
{
    model m = {.frozen = true};
    tp_graph *g = tp_onnx_load(tp, s->path, NULL);
    if (!g)
        return m;
    tp_tensor *x = tp_graph_input(g, 0), *features = tp_graph_find(g, s->features);
    const int64_t batch = tp_dim(x, 0);
    for (int a = 1; a < 4; a++)
        m.shape[a] = tp_size(x, a);
    m.shape[0] = s->batch;

    tp_tensor *params[MAX_PARAMS];
    int n = 0;
    for (int i = 0; i < tp_graph_n_variables(g) && n < MAX_PARAMS - 2; i++)
        if (tp_requires_grad(tp_graph_nth_variable(g, i)))
            params[n++] = tp_graph_nth_variable(g, i);
    m.last = tp_dense_new(tp_params_new(tp), "new", tp_size(features, 1), N_CLASSES, NULL);
    params[n++] = m.last.w;
    params[n++] = m.last.b;
    m.quick = tp_adam_new(tp, 0.01, NULL, 2, params + n - 2);
    m.slow = tp_adam_new(tp, 0.0005, NULL, n, params);

    tp_tensor *y = tp_placeholder(g, "new.y", TP_I64, TP_DIMS(batch));
    tp_tensor *scores = tp_name(tp_dense_apply(&m.last, features), "new.scores");
    tp_tensor *loss = tp_name(tp_cross_entropy(scores, y), "new.loss");
    const char *const in[2] = {tp_name_of(x), "new.y"};
    m.features = tp_graph_compile(g, 1, in, TP_NAMES(s->features), NULL);
    m.ask = tp_graph_compile(g, 1, in, TP_NAMES("new.scores"), NULL);
    tp_name(tp_optimizer_step(m.slow, loss), "new.step");
    m.whole = tp_graph_compile(g, 2, in, TP_NAMES("new.loss", "new.step"), NULL);
    return m;
}

/* In percent, of digits that it has not seen. */
static double accuracy(tp_ctx *tp, const model *m, const digits *d)
{
    int64_t right = 0, n = 0;
    for (int i = 0; i < 8 && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        tp_tensor *x, *y, *scores;
        pictures(tp, d, i * m->shape[0], m->shape, N_CLASSES, &x, &y);
        tp_program_run(m->ask, &x, &scores);
        tp_tensor *same = tp_eq(tp_argmax(scores, 1, false), y);
        right += tp_item_i64(tp_sum(tp_cast(same, TP_I64), TP_ALL, false));
        n += m->shape[0];
        tp_scope_end(tp);
    }
    return 100 * (double)right / (double)n;
}

typedef struct outcome {
    float *losses; /* to be freed */
    double before, frozen, all, seconds;
    tp_function_stats stats;
    bool good;
} outcome;

static void train(const settings *s, const digits *seen, const digits *unseen, bool eager,
                  outcome *o)
{
    const double start = seconds_now();
    /* without a compiler programs run op by op, as the rest of the eager run does */
    tp_ctx *tp = tp_open(&(tp_options){.seed = 9, .compiler = eager ? "none" : NULL});
    model m = model_load(tp, s);
    tp_function *f =
        tp_function_new(tp, "step", step, &m, &(tp_function_options){.eager = eager});
    o->losses = calloc((size_t)s->steps * 2, sizeof *o->losses);
    o->before = accuracy(tp, &m, unseen);
    for (int64_t i = 0; i < s->steps * 2 && tp_error(tp) == TP_OK && o->losses; i++) {
        if (i == s->steps) {
            o->frozen = accuracy(tp, &m, unseen);
            m.frozen = false;
        }
        tp_scope_begin(tp);
        tp_tensor *x, *y;
        pictures(tp, seen, i * s->batch, m.shape, N_CLASSES, &x, &y);
        o->losses[i] = (float)tp_item(tp_function_apply(f, TP_TENSORS(x, y)));
        tp_scope_end(tp);
        show_progress("fine-tuning", i + 1, s->steps * 2);
    }
    o->all = accuracy(tp, &m, unseen);
    o->stats = tp_function_stats_of(f);
    o->good = tp_error(tp) == TP_OK && o->losses;
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "finetune: %s\n", tp_error_message(tp));
    tp_optimizer_free(m.quick);
    tp_optimizer_free(m.slow);
    tp_close(tp);
    o->seconds = seconds_now() - start;
}

static bool report(const settings *s, const outcome *eager, const outcome *captured)
{
    const bool same =
        eager->good && captured->good &&
        memcmp(eager->losses, captured->losses, (size_t)s->steps * 2 * sizeof(float)) == 0 &&
        eager->before == captured->before && eager->frozen == captured->frozen &&
        eager->all == captured->all;
    if (captured->good) {
        printf("odd or even, new layer as drawn:       %6.2f %% right\n", captured->before);
        printf("  after %4lld steps, the rest frozen:   %6.2f %%   loss %.4f\n",
               (long long)s->steps, captured->frozen, (double)captured->losses[s->steps - 1]);
        printf("  after %4lld steps of all:             %6.2f %%   loss %.4f\n",
               (long long)s->steps, captured->all, (double)captured->losses[s->steps * 2 - 1]);
        printf("seconds: eagerly %.1f, captured %.1f\n", eager->seconds, captured->seconds);
    }
    const tp_function_stats t = captured->stats;
    printf("calls %lld user_calls %lld recordings %lld segments %lld compilations %lld "
           "bits_equal %s\n",
           (long long)t.calls, (long long)t.user_calls, (long long)t.recordings,
           (long long)t.segments, (long long)t.compilations, same ? "yes" : "no");
    return same;
}

static bool parse(int argc, char **argv, settings *s)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int64_t *const number = strcmp(argv[i], "--steps") == 0   ? &s->steps
                                : strcmp(argv[i], "--batch") == 0 ? &s->batch
                                                                  : NULL;
        bool good = true;
        if (number)
            good = (*number = atoll(value)) > 0 && *number < 1000000;
        else if (strcmp(argv[i], "--save") == 0)
            good = snprintf(s->save, sizeof s->save, "%s", value) > 0;
        else if (argv[i][0] == '-' || n == 2)
            good = false;
        else
            *(n++ ? &s->features : &s->path) = argv[i--];
        i++;
        if (!good)
            n = -1;
        if (n < 0)
            break;
    }
    if (n == 0 || n == 2)
        return true;
    fprintf(stderr, "usage: finetune [MODEL.onnx FEATURES] [--steps N] [--batch N] "
                    "[--save FILE]\n");
    return false;
}

int main(int argc, char **argv)
{
    settings s = {.steps = 60, .batch = 32};
    snprintf(s.save, sizeof s.save, "%s.onnx", argv[0]);
    if (!parse(argc, argv, &s))
        return 2;
    digits seen, unseen;
    if (!digits_draw(N_DIGITS, 1, &seen) || !digits_draw(N_DIGITS, 2, &unseen))
        return 1;
    bool good = true;
    if (!s.path) {
        good = make_model(s.save, &seen);
        s.path = s.save;
        s.features = "features";
    }
    outcome eager = {.good = false}, captured = {.good = false};
    if (good) {
        train(&s, &seen, &unseen, true, &eager);
        train(&s, &seen, &unseen, false, &captured);
        good = report(&s, &eager, &captured);
    }
    digits_free(&seen);
    digits_free(&unseen);
    free(eager.losses);
    free(captured.losses);
    return !good;
}
