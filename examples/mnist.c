/* Learns to read handwritten digits, three times from the same seed: eagerly, where each line
 * runs when it is reached; as a captured function, where C runs as before and what it computes is
 * compiled behind its back; and as a static graph, compiled to C with its gradients and its
 * optimiser. All are made by the same functions and give the same bits. The model is then saved,
 * loaded and asked again.
 *
 *     mnist [FOLDER]     reads the MNIST files in FOLDER (or DATA=FOLDER); draws digits without
 *         --train N --test N --epochs N --batch N --seed N --save FILE
 *         --onnx FOLDER  writes the trained model to FOLDER/model.onnx, and the test pictures with
 *                        what it sees in them to FOLDER/test_data_set_0 */
#include "dice.h"
#include "show.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_EPOCHS = 100 };

typedef struct settings {
    const char *folder;
    int64_t train, test, epochs, batch, seed;
    char save[1000];
    const char *onnx;
} settings;

typedef struct data {
    digits train, test;
    tp_tensor *train_x, *train_y, *test_x, *test_y; /* u8 [n, 28, 28], [n] */
} data;

/* ---- the model ----------------------------------------------------------------------------- */

typedef struct model {
    tp_conv_layer conv1, conv2;
    tp_dense dense1, dense2;
    tp_params *params;
    tp_optimizer *optimizer;
} model;

static model model_new(tp_ctx *tp)
{
    model m = {.params = tp_params_new(tp)};
    m.conv1 = tp_conv_layer_new(m.params, "conv1", 1, 8, TP_SQUARE(5, 1, 2), NULL);
    m.conv2 = tp_conv_layer_new(m.params, "conv2", 8, 16, TP_SQUARE(5, 1, 2), NULL);
    m.dense1 = tp_dense_new(m.params, "dense1", 16 * 7 * 7, 64, NULL);
    m.dense2 = tp_dense_new(m.params, "dense2", 64, 10, NULL);
    m.optimizer = tp_adam_new(tp, 0, NULL, TP_TRAINED(m.params));
    return m;
}

/* x u8 [n, 28, 28] -> a score for each digit [n, 10]. */
static tp_tensor *scores(const model *m, tp_tensor *x)
{
    const tp_window two = {
        .kernel = {2, 2}
    };
    x = tp_cast(tp_unsqueeze(x, 1), TP_F32);
    x = tp_mul(x, 1.0 / 255);
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&m->conv1, x)), &two);
    x = tp_max_pool(tp_relu(tp_conv_layer_apply(&m->conv2, x)), &two);
    x = tp_relu(tp_dense_apply(&m->dense1, tp_flatten(x, 1)));
    return tp_dense_apply(&m->dense2, x);
}

/* Takes one step and returns the loss. */
static tp_tensor *train_step(model *m, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *loss = tp_cross_entropy(scores(m, x), y);
    tp_tensor *done = tp_optimizer_step(m->optimizer, loss);
    return tp_failed(done) ? done : loss;
}

/* The same as the body of a function that is captured. */
static void captured_step(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = train_step(user, in[0], in[1]);
}

/* The same once more as a graph, of any batch size: from "x" and "y" to "digit", "loss" and
 * "train". */
static tp_graph *graph_of(tp_ctx *tp, model *m)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = tp_placeholder(g, "x", TP_U8, TP_DIMS(batch, DIGIT_SIDE, DIGIT_SIDE));
    tp_tensor *y = tp_placeholder(g, "y", TP_U8, TP_DIMS(batch));
    tp_tensor *score = scores(m, x);
    tp_name(tp_argmax(score, 1, false), "digit");
    tp_tensor *loss = tp_name(tp_cross_entropy(score, y), "loss");
    tp_name(tp_optimizer_step(m->optimizer, loss), "train");
    return g;
}

/* ---- training ------------------------------------------------------------------------------- */

/* What takes the steps: a program made of graph_of, a captured function, or neither. */
typedef struct trainer {
    model *m;
    tp_function *function;
    tp_program *program;
} trainer;

static tp_tensor *take_step(const trainer *t, tp_tensor *x, tp_tensor *y)
{
    tp_tensor *const in[2] = {x, y};
    tp_tensor *out[2];
    if (!t->program)
        return t->function ? tp_function_apply(t->function, 2, in) : train_step(t->m, x, y);
    tp_program_run(t->program, in, out);
    return out[0];
}

typedef struct history {
    float *losses; /* of every batch */
    double loss[MAX_EPOCHS], seconds[MAX_EPOCHS];
    int64_t same; /* losses with the bits of those beside */
} history;

static int64_t n_batches(const settings *s)
{
    return (s->train + s->batch - 1) / s->batch;
}

/* Goes through the training digits once, in a new order; returns the mean loss. */
static double train_epoch(tp_ctx *tp, const settings *s, const data *d, int64_t *order,
                          uint64_t *state, const trainer *t, float *losses)
{
    double sum = 0;
    for (int64_t i = s->train - 1; i > 0; i--) {
        const int64_t k = dice(state, (uint32_t)i + 1), swapped = order[i];
        order[i] = order[k];
        order[k] = swapped;
    }
    for (int64_t at = 0; at < s->train && tp_error(tp) == TP_OK; at += s->batch) {
        const int64_t n = s->train - at < s->batch ? s->train - at : s->batch;
        tp_scope_begin(tp);
        tp_tensor *which = tp_tensor_new(tp, TP_I64, TP_DIMS(n), order + at);
        tp_tensor *x = tp_gather(d->train_x, which, 0), *y = tp_gather(d->train_y, which, 0);
        const float loss = (float)tp_item(take_step(t, x, y));
        tp_scope_end(tp);
        losses[at / s->batch] = loss;
        sum += loss;
        show_progress("training", at + n, s->train);
    }
    return sum / (double)n_batches(s);
}

/* Prints a line per epoch, beside the one of another training from the same seed (or NULL). */
static bool train(tp_ctx *tp, const settings *s, const data *d, const trainer *t, history *h,
                  const history *beside)
{
    const int64_t n = n_batches(s);
    uint64_t state = (uint64_t)s->seed;
    int64_t *order = malloc((size_t)s->train * sizeof *order);
    h->losses = malloc((size_t)(s->epochs * n) * sizeof *h->losses);
    bool good = order && h->losses;
    for (int64_t i = 0; good && i < s->train; i++)
        order[i] = i;
    double rate = 0.004;
    for (int64_t e = 0; good && e < s->epochs; e++, rate *= 0.3) {
        float *losses = h->losses + e * n;
        const double start = seconds_now();
        tp_optimizer_set_rate(t->m->optimizer, rate);
        h->loss[e] = train_epoch(tp, s, d, order, &state, t, losses);
        h->seconds[e] = seconds_now() - start;
        good = tp_error(tp) == TP_OK;
        printf("  epoch %d   loss %.6f  %6.1f s", (int)e + 1, h->loss[e], h->seconds[e]);
        if (beside) {
            int64_t same = 0;
            for (int64_t i = 0; i < n; i++)
                same += memcmp(losses + i, beside->losses + e * n + i, sizeof *losses) == 0;
            h->same += same;
            printf("   | eager   loss %.6f  %6.1f s   | same bits in %lld of %lld "
                   "losses",
                   beside->loss[e], beside->seconds[e], (long long)same, (long long)n);
        }
        printf("\n");
        fflush(stdout);
    }
    free(order);
    return good;
}

/* ---- testing --------------------------------------------------------------------------------- */

/* The digits the model sees in the test pictures, in seen[]; returns how many are right. */
static int64_t test(tp_ctx *tp, const settings *s, const data *d, const model *m, tp_graph *g,
                    uint8_t *seen)
{
    int64_t right = 0;
    const bool was = tp_recording(tp, false);
    for (int64_t at = 0; at < s->test && tp_error(tp) == TP_OK; at += 500) {
        const int64_t end = at + 500 < s->test ? at + 500 : s->test;
        tp_scope_begin(tp);
        tp_tensor *x = tp_slice(d->test_x, 0, at, end, 1), *digit;
        if (g)
            tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("digit"), &digit);
        else
            digit = tp_argmax(scores(m, x), 1, false);
        tp_read(tp_cast(digit, TP_U8), seen + at, (size_t)(end - at));
        tp_scope_end(tp);
        for (int64_t i = at; i < end; i++)
            right += seen[i] == d->test.labels[i];
    }
    tp_recording(tp, was);
    return right;
}

/* Four test pictures that are (or are not) read rightly. */
static void show_some(const data *d, const uint8_t *seen, int64_t n_test, bool right)
{
    const uint8_t *images[4];
    char captions[4][20];
    int n = 0;
    for (int64_t i = 0; i < n_test && n < 4; i++) {
        if ((seen[i] == d->test.labels[i]) != right)
            continue;
        images[n] = d->test.images + i * DIGIT_BYTES;
        snprintf(captions[n++], sizeof captions[0],
                 right ? "  it is a %d" : "  %d, taken for %d", d->test.labels[i], seen[i]);
    }
    if (n > 0)
        show_digits(n, images, (const char(*)[20])captions);
}

static bool same_params(const model *a, const model *b)
{
    for (int i = 0; i < tp_params_n(a->params); i++)
        if (memcmp(tp_data(tp_params_tensor(a->params, i)),
                   tp_data(tp_params_tensor(b->params, i)),
                   (size_t)tp_count(tp_params_tensor(a->params, i)) * sizeof(float)) != 0)
            return false;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool get_data(tp_ctx *tp, settings *s, data *d)
{
    const bool good =
        s->folder ? digits_read(s->folder, "train", s->train, &d->train) &&
                        digits_read(s->folder, "t10k", s->test, &d->test)
                  : digits_draw(s->train, 1, &d->train) && digits_draw(s->test, 2, &d->test);
    if (!good)
        return false;
    s->train = d->train.n;
    s->test = d->test.n;
    const int64_t shape[3] = {s->train, DIGIT_SIDE, DIGIT_SIDE};
    const int64_t test_shape[3] = {s->test, DIGIT_SIDE, DIGIT_SIDE};
    d->train_x = tp_tensor_wrap(tp, TP_U8, 3, shape, d->train.images, NULL, NULL);
    d->train_y = tp_tensor_wrap(tp, TP_U8, 1, shape, d->train.labels, NULL, NULL);
    d->test_x = tp_tensor_wrap(tp, TP_U8, 3, test_shape, d->test.images, NULL, NULL);
    printf("%lld %s digits to learn from, %lld others to be tested with\n", (long long)s->train,
           s->folder ? "real" : "drawn", (long long)s->test);
    return tp_error(tp) == TP_OK;
}

/* The graph as an ONNX model, pictures and answers: what other programs shall see in them. */
static void save_onnx(tp_ctx *tp, const settings *s, const data *d, tp_graph *g)
{
    char path[1100];
    tp_tensor *digit;
    tp_graph_run(g, TP_FEEDS({"x", d->test_x}), TP_NAMES("digit"), &digit);
    snprintf(path, sizeof path, "%s/model.onnx", s->onnx);
    tp_onnx_save(g, path, TP_NAMES("x"), TP_NAMES("digit"));
    snprintf(path, sizeof path, "%s/test_data_set_0", s->onnx);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/test_data_set_0/input_0.pb", s->onnx);
    tp_onnx_tensor_save(d->test_x, path);
    snprintf(path, sizeof path, "%s/test_data_set_0/output_0.pb", s->onnx);
    tp_onnx_tensor_save(digit, path);
    if (tp_error(tp) == TP_OK)
        printf("\nwritten to %s/model.onnx\n", s->onnx);
}

enum { EAGER, CAPTURED, COMPILED, N_WAYS };

typedef struct result {
    model m;
    history h;
    int64_t right;
} result;

static bool run_eagerly(tp_ctx *tp, const settings *s, const data *d, result *r, uint8_t *seen)
{
    printf("\nEagerly: each operation computes when C calls it.\n");
    tp_seed(tp, (uint64_t)s->seed);
    r->m = model_new(tp);
    if (!train(tp, s, d, &(trainer){.m = &r->m}, &r->h, NULL))
        return false;
    r->right = test(tp, s, d, &r->m, NULL, seen);
    return true;
}

static bool run_captured(tp_ctx *tp, const settings *s, const data *d, result *r,
                         const history *beside, uint8_t *seen, tp_function_stats *stats)
{
    printf("\nCaptured: C runs on each call, what it computes is compiled behind "
           "its back.\n");
    tp_seed(tp, (uint64_t)s->seed);
    r->m = model_new(tp);
    tp_function *f = tp_function_new(tp, "step", captured_step, &r->m, NULL);
    const bool good = train(tp, s, d, &(trainer){.m = &r->m, .function = f}, &r->h, beside);
    *stats = tp_function_stats_of(f);
    tp_function_free(f);
    if (good)
        r->right = test(tp, s, d, &r->m, NULL, seen);
    return good;
}

static bool run_compiled(tp_ctx *tp, const settings *s, const data *d, result *r,
                         const history *beside, uint8_t *seen, tp_graph **g)
{
    printf("\nAs a graph: built by the same C functions, ");
    fflush(stdout);
    tp_seed(tp, (uint64_t)s->seed);
    r->m = model_new(tp);
    *g = graph_of(tp, &r->m);
    tp_program *p = tp_graph_compile(*g, TP_NAMES("x", "y"), TP_NAMES("loss", "train"), NULL);
    if (tp_program_wait(p) != TP_OK) {
        printf("run node by node, without a C compiler:\n%s\n", tp_error_message(tp));
        tp_clear_error(tp);
    } else {
        const tp_program_stats stats = tp_program_stats_of(p);
        printf("compiled to %d kernels of C in %.1f s%s.\n", stats.kernels,
               stats.compile_ms / 1000, stats.from_cache ? " (it was in the cache)" : "");
    }
    if (!train(tp, s, d, &(trainer){.m = &r->m, .program = p}, &r->h, beside))
        return false;
    r->right = test(tp, s, d, &r->m, *g, seen);
    return true;
}

static bool run(tp_ctx *tp, settings *s, data *d, result *r, uint8_t *seen)
{
    const history *eager = &r[EAGER].h;
    tp_function_stats stats;
    tp_graph *g;
    if (!run_eagerly(tp, s, d, &r[EAGER], seen) ||
        !run_captured(tp, s, d, &r[CAPTURED], eager, seen, &stats) ||
        !run_compiled(tp, s, d, &r[COMPILED], eager, seen, &g))
        return false;
    tp_graph_save(g, s->save);
    tp_graph *loaded = tp_graph_load(tp, s->save);
    const int64_t right = test(tp, s, d, NULL, loaded, seen);
    if (s->onnx)
        save_onnx(tp, s, d, g);
    if (tp_error(tp) != TP_OK)
        return false;
    printf("\nSaved as %s, loaded, and asked what these are:\n\n", s->save);
    show_some(d, seen, s->test, true);
    printf("\nIt is wrong about %lld of %lld:\n\n", (long long)(s->test - right),
           (long long)s->test);
    show_some(d, seen, s->test, false);

    const int64_t last = s->epochs - 1, losses = s->epochs * n_batches(s);
    const double percent = 100.0 / (double)s->test;
    bool same[N_WAYS] = {true, true, true};
    for (int w = CAPTURED; w < N_WAYS; w++)
        same[w] = r[w].h.same == losses && r[w].right == r[EAGER].right &&
                  right == r[w].right && same_params(&r[EAGER].m, &r[w].m);
    printf("\ntest accuracy %.2f %%\n\n", percent * (double)right);
    printf("                          eager   captured   compiled   loaded\n");
    printf("  seconds per epoch    %8.1f   %8.1f   %8.1f\n", eager->seconds[last],
           r[CAPTURED].h.seconds[last], r[COMPILED].h.seconds[last]);
    printf("  loss, last epoch     %8.6f   %8.6f   %8.6f\n", eager->loss[last],
           r[CAPTURED].h.loss[last], r[COMPILED].h.loss[last]);
    printf("  digits read rightly  %6.2f %%   %6.2f %%   %6.2f %%  %6.2f %%\n",
           percent * (double)r[EAGER].right, percent * (double)r[CAPTURED].right,
           percent * (double)r[COMPILED].right, percent * (double)right);
    printf("  %s\n", same[CAPTURED] && same[COMPILED]
                         ? "all losses and all parameters have the same bits"
                         : "losses or parameters DIFFER in their bits");
    printf("calls %lld user_calls %lld recordings %lld segments %lld "
           "compilations %lld "
           "bits_equal %s\n",
           (long long)stats.calls, (long long)stats.user_calls, (long long)stats.recordings,
           (long long)stats.segments, (long long)stats.compilations,
           same[CAPTURED] ? "yes" : "no");
    return same[CAPTURED] && same[COMPILED];
}

static bool number(const char *text, int64_t most, int64_t *out)
{
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (end == text || *end || n < 1 || n > most)
        return false;
    *out = n;
    return true;
}

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-') {
            s->folder = name;
            continue;
        }
        bool good = false;
        if (strcmp(name, "--train") == 0)
            good = number(value, 10000000, &s->train);
        else if (strcmp(name, "--test") == 0)
            good = number(value, 10000000, &s->test);
        else if (strcmp(name, "--epochs") == 0)
            good = number(value, MAX_EPOCHS, &s->epochs);
        else if (strcmp(name, "--batch") == 0)
            good = number(value, 100000, &s->batch);
        else if (strcmp(name, "--seed") == 0)
            good = number(value, INT64_MAX, &s->seed);
        else if (strcmp(name, "--save") == 0)
            good = snprintf(s->save, sizeof s->save, "%s", value) > 0;
        else if (strcmp(name, "--onnx") == 0)
            good = *(s->onnx = value) != 0;
        if (!good) {
            fprintf(stderr, "usage: mnist [FOLDER] [--train N] [--test N] [--epochs N] "
                            "[--batch N] [--seed N] [--save FILE] [--onnx FOLDER]\n");
            return false;
        }
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("DATA");
    settings s = {
        .folder = folder && *folder ? folder : NULL, .epochs = 3, .batch = 64, .seed = 7};
    snprintf(s.save, sizeof s.save, "%s.tapir", argv[0]);
    if (!parse(argc, argv, &s))
        return 2;
    s.train = s.train ? s.train : s.folder ? 60000 : 20000;
    s.test = s.test ? s.test : s.folder ? 10000 : 4000;

    tp_ctx *tp = tp_open(NULL);
    data d = {.train = {.n = 0}};
    result r[N_WAYS] = {{.right = 0}};
    uint8_t *seen = malloc((size_t)s.test);
    const bool good = seen && get_data(tp, &s, &d) && run(tp, &s, &d, r, seen);
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "mnist: %s\n", tp_error_message(tp));
    tp_close(tp);
    digits_free(&d.train);
    digits_free(&d.test);
    free(seen);
    for (int w = 0; w < N_WAYS; w++)
        free(r[w].h.losses);
    return !good;
}
