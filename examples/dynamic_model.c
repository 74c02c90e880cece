/* A model with a branch that depends on the values it is given, written as a plain C `if`, with a
 * flag and a print inside; trained twice from the same seed, eagerly and as a captured function.
 *
 *     h = mean(x) > 0.5 ? linear1(x) : relu(linear1(x));   y = linear2(h);
 *     x [batch, 10], linear1 10 -> 5, linear2 5 -> 1
 *
 * The C code runs on every call, so what it does between two operations is honoured; what it
 * computes runs as compiled segments. Both trainings give the same bits and print the same.
 *
 *     dynamic_model [FOLDER]     writes the trained model, its branch as an If, to FOLDER/model.onnx,
 *                                and 1000 inputs with its answers to FOLDER/test_data_set_N */
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 2000, LOOK_EVERY = 400, INPUTS = 1000, PARAMS = 10 * 5 + 5 + 5 + 1 };

typedef struct model {
    tp_dense linear1, linear2;
    tp_optimizer *adam;
    bool training;
    int n_high, n_low; /* how often either way was taken */
    FILE *notes;       /* what is said while it is not training */
} model;

static tp_tensor *apply(model *m, tp_tensor *x)
{
    tp_tensor *mean = tp_mean(x, TP_ALL, false);
    tp_tensor *h = tp_dense_apply(&m->linear1, x);
    if (tp_truth(tp_gt(mean, 0.5))) {
        m->n_high++;
    } else {
        h = tp_relu(h);
        m->n_low++;
    }
    if (!m->training)
        fprintf(m->notes, "  mean(x) is %.3f: %s\n", tp_item(mean),
                tp_item(mean) > 0.5 ? "linear" : "with relu");
    return tp_dense_apply(&m->linear2, h);
}

/* x [n, 10] -> y [n, 1]: the model alone. */
static void answer(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = apply(user, in[0]);
}

/* x, right answers -> loss, answers: and when the model is training, one step of it. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    model *m = user;
    out[1] = apply(m, in[0]);
    out[0] = tp_mse(out[1], in[1]);
    if (m->training)
        tp_optimizer_step(m->adam, out[0]);
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

/* ---- one training ------------------------------------------------------------------------ */

typedef struct outcome {
    float losses[STEPS + 1], params[PARAMS];
    char *said; /* all of it; to be freed */
    size_t n_said;
    tp_function_stats stats;
    tp_status status;
} outcome;

static void read_params(const model *m, float *to)
{
    tp_tensor *const all[] = {m->linear1.w, m->linear1.b, m->linear2.w, m->linear2.b};
    for (int i = 0; i < 4; i++) {
        const size_t n = (size_t)tp_count(all[i]);
        tp_read(all[i], to, n * sizeof *to);
        to += n;
    }
}

static void save_tensor(const tp_tensor *t, const char *folder, int i, const char *kind)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/test_data_set_%d", folder, i);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/test_data_set_%d/%s_0.pb", folder, i, kind);
    tp_onnx_tensor_save(t, path);
}

/* The model, and its answers to 1000 inputs whose means are not close to 0.5. */
static void save(tp_ctx *tp, tp_function *f, const char *folder)
{
    for (int i = 0; i < INPUTS && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(1, 10), -0.5, 0.5);
        x = tp_sub(x, tp_mean(x, TP_ALL, false));
        x = tp_add(x, i % 2 ? 0.6 + 0.001 * i : 0.4 - 0.001 * i);
        save_tensor(x, folder, i, "input");
        save_tensor(tp_function_apply(f, TP_TENSORS(x)), folder, i, "output");
        tp_scope_end(tp);
    }
    char path[1000];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    tp_onnx_save_function(f, path, TP_NAMES("x"), TP_NAMES("y"));
}

static void train(bool eager, const char *folder, outcome *o)
{
    const tp_function_options opt = {.eager = eager};
    tp_ctx *tp = tp_open(&(tp_options){.seed = 3});
    tp_params *params = tp_params_new(tp);
    model m = {.linear1 = tp_dense_new(params, "linear1", 10, 5, NULL),
               .linear2 = tp_dense_new(params, "linear2", 5, 1, NULL),
               .notes = open_memstream(&o->said, &o->n_said)};
    m.adam = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(params));
    tp_function *f = tp_function_new(tp, "step", step, &m, &opt);

    for (int i = 0; i <= STEPS && tp_error(tp) == TP_OK; i++) {
        tp_scope_begin(tp);
        tp_tensor *x, *y, *out[2];
        batch(tp, i, &x, &y);
        m.training = true;
        tp_function_call(f, TP_TENSORS(x, y), 2, out);
        o->losses[i] = (float)tp_item(out[0]);
        if (i % LOOK_EVERY == 0) {
            fprintf(m.notes, "  step %4d   loss %.5f   linear %4d times, with relu %4d times\n",
                    i, tp_item(out[0]), m.n_high, m.n_low);
            m.training = false;
            for (int k = 0; k < 2; k++) {
                batch(tp, k, &x, &y);
                tp_function_call(f, TP_TENSORS(x, y), 2, out);
                fprintf(m.notes, "    predicted %7.4f, right is %7.4f\n",
                        tp_item(tp_slice(out[1], 0, 0, 1, 1)),
                        tp_item(tp_slice(y, 0, 0, 1, 1)));
            }
        }
        tp_scope_end(tp);
    }
    o->stats = tp_function_stats_of(f);
    read_params(&m, o->params);
    if (folder) {
        m.training = true; /* nothing is said */
        tp_recording(tp, false);
        save(tp, tp_function_new(tp, "model", answer, &m, &opt), folder);
    }

    o->status = tp_error(tp);
    if (o->status != TP_OK)
        fprintf(stderr, "dynamic_model: %s\n", tp_error_message(tp));
    fclose(m.notes);
    tp_optimizer_free(m.adam);
    tp_close(tp);
}

int main(int argc, char **argv)
{
    static outcome eager, captured;
    train(true, NULL, &eager);
    train(false, argc > 1 ? argv[1] : NULL, &captured);
    printf("training with Adam on the squared error:\n%s", captured.said);
    const bool same = memcmp(eager.losses, captured.losses, sizeof eager.losses) == 0 &&
                      memcmp(eager.params, captured.params, sizeof eager.params) == 0 &&
                      strcmp(eager.said, captured.said) == 0;
    const tp_function_stats s = captured.stats;
    printf("calls %lld user_calls %lld recordings %lld segments %lld compilations %lld "
           "bits_equal %s\n",
           (long long)s.calls, (long long)s.user_calls, (long long)s.recordings,
           (long long)s.segments, (long long)s.compilations, same ? "yes" : "no");
    const bool good = same && eager.status == TP_OK && captured.status == TP_OK;
    free(eager.said);
    free(captured.said);
    return !good;
}
