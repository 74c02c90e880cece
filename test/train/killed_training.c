/* A training with dropout, shuffling and running statistics is killed again and again, at any point, and goes on from what
 * it saved last: the file that it leaves is that of a training which nobody disturbed, byte for byte. Each life of it runs
 * eagerly or as a captured function. The argument: how often it is killed.
 *
 * A child does the training, so that it can be killed, and so that each begins with nothing. */
#include "archive_files.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 120, SAVED_EACH = 4, SAMPLES = 40, BATCH = 8, SEED = 5, SHUFFLING = 1 };
static int kills = 12;

static char folder[] = "killed_training-XXXXXX";

typedef struct training {
    tp_ctx *tp;
    tp_params *p;
    tp_dense first, last;
    tp_norm_layer norm;
    tp_optimizer *adam;
    tp_average *average;
    tp_tensor *order; /* of the samples in this epoch */
    int64_t step;
    tp_state *s;
} training;

static void begin(training *t)
{
    *t = (training){.tp = tp_open(&(tp_options){.seed = SEED, .compiler = "false"})};
    t->p = tp_params_new(t->tp);
    t->first = tp_dense_new(t->p, "first", 5, 16, NULL);
    t->norm = tp_batch_norm_new(t->p, "norm", 16, 0, 0);
    t->last = tp_dense_new(t->p, "last", 16, 1, NULL);
    t->adam = tp_adam_new(t->tp, 0.01, &(tp_adam_options){.decay = 0.01}, TP_TRAINED(t->p));
    t->average = tp_average_new(t->tp, 0.9, TP_TRAINED(t->p));
    t->order = tp_variable(tp_full(t->tp, TP_I64, TP_DIMS(SAMPLES), 0), "order");
    t->s = tp_state_new(t->tp);
    tp_state_add_params(t->s, NULL, t->p);
    tp_state_add_optimizer(t->s, NULL, t->adam);
    tp_state_add_average(t->s, NULL, t->average);
    tp_state_add(t->s, NULL, t->order);
    tp_state_add_counter(t->s, "step", &t->step);
    tp_state_add_random(t->s);
    tp_training(t->tp, true);
}

/* samples [n, 5]: a step toward a function of them. */
static void step(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    training *t = user;
    tp_tensor *h = tp_relu(tp_norm_layer_apply(&t->norm, tp_dense_apply(&t->first, in[0])));
    tp_tensor *y = tp_dense_apply(&t->last, tp_dropout_apply(h, 0.3));
    out[0] = tp_mse(y, tp_sin(tp_sum(in[0], TP_DIMS(1), true)));
    tp_optimizer_step(t->adam, out[0]);
    tp_average_update(t->average, NULL);
}

/* The samples that come now. A new epoch shuffles them. */
static tp_tensor *batch(training *t, tp_tensor *samples)
{
    const int at = (int)(t->step * BATCH % SAMPLES);
    if (at == 0) {
        const uint64_t was = tp_random_stream(t->tp, SHUFFLING);
        tp_assign(t->order, tp_permutation(t->tp, SAMPLES));
        tp_random_stream(t->tp, was);
    }
    tp_tensor *index = tp_slice(t->order, 0, at, at + BATCH, 1);
    return tp_gather(samples, index, 0);
}

static int train(const char *path, bool captured)
{
    training t;
    begin(&t);
    tp_tensor *samples =
        tp_div(tp_reshape(tp_arange(t.tp, TP_F32, SAMPLES * 5, 0, 1), TP_DIMS(SAMPLES, 5)), 40);
    tp_function *f = tp_function_new(t.tp, "step", step, &t, NULL);
    if (access(path, F_OK) == 0)
        tp_state_load(t.s, path, NULL);
    while (t.step < STEPS && tp_error(t.tp) == TP_OK) {
        tp_scope_begin(t.tp);
        tp_tensor *x = batch(&t, samples), *loss;
        if (captured)
            loss = tp_function_apply(f, TP_TENSORS(x));
        else
            step(&t, 1, &x, 1, &loss);
        tp_scope_end(t.tp);
        if (++t.step % SAVED_EACH == 0)
            tp_state_save(t.s, path);
    }
    const int failed = tp_error(t.tp) != TP_OK;
    if (failed)
        fprintf(stderr, "killed_training: %s\n", tp_error_message(t.tp));
    tp_close(t.tp);
    return failed;
}

/* ---- children ----------------------------------------------------------------------------------------- */

/* In a child, which is killed after so many microseconds (0: never). True: it came to its end. */
static bool live(const char *path, bool captured, unsigned us)
{
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(train(path, captured));
    if (us) {
        usleep(us);
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && status)
        fail_msg("a training ended with status %d", status);
    return WIFEXITED(status);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void expect_same(const char *path, const char *other)
{
    static char a[1 << 16], b[1 << 16];
    const size_t n = read_file(path, a, sizeof a), m = read_file(other, b, sizeof b);
    size_t at = 0;
    while (at < n && at < m && a[at] == b[at])
        at++;
    if (n != m || at < n)
        fail_msg("seed %d: %s has %zu bytes, %s %zu; they differ at byte %zu", SEED, path, n,
                 other, m, at);
}

static void goes_on(void **state)
{
    (void)state;
    char whole[64], again[64], path[64];
    uint64_t seed = SEED;
    snprintf(whole, sizeof whole, "%s/whole.safetensors", folder);
    snprintf(again, sizeof again, "%s/again.safetensors", folder);
    snprintf(path, sizeof path, "%s/killed.safetensors", folder);
    const double began = now_us();
    assert_true(live(whole, false, 0));
    const unsigned took = (unsigned)(now_us() - began) + 1;
    assert_true(live(again, true, 0)); /* two runs of one seed */
    expect_same(again, whole);
    int killed = 0, lives = 0, before_first = 0;
    while (killed < kills) {
        /* now and then from the beginning, so that there is something to kill */
        if (live(path, lives++ % 2, 1 + (unsigned)(unit_random(&seed) % (took / 3 + 1)))) {
            expect_same(path, whole);
            unlink(path);
        } else {
            killed++;
            before_first += access(path, F_OK) != 0;
        }
    }
    assert_true(live(path, true, 0));
    expect_same(path, whole);
    print_message("killed %d times in %d lives, %d of them before anything was saved\n", killed,
                  lives, before_first);
    assert_true(before_first < killed); /* or nothing was tested */
}

/* No save left anything over. */
static void nothing_left(void **state)
{
    (void)state;
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, ".tapir", 6) == 0;
    closedir(d);
    assert_int_equal(n, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        kills = atoi(argv[1]);
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on),
                                       cmocka_unit_test(nothing_left)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1;
}
