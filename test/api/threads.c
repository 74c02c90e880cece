/* Contexts in several threads at once, eager and compiled, one cache for all: each gives the
 * bits that one thread alone gives. For ThreadSanitizer, mostly. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <pthread.h>

enum { N_THREADS = 8, N_STEPS = 20, N_IN = 6, N_OUT = 4 };

typedef struct job {
    const char *cache;
    tp_engine engine;
    int threads; /* of the context */
    float w[N_IN * N_OUT];
    char error[400];
} job;

static tp_tensor *loss_of(tp_tensor *x, tp_tensor *w)
{
    return tp_mean(
        tp_square(tp_sub(tp_softmax(tp_matmul(x, w), 1), tp_sigmoid(tp_matmul(x, w)))), TP_ALL,
        false);
}

static void *work(void *user)
{
    job *j = user;
    tp_ctx *tp =
        tp_open(&(tp_options){.cache_dir = j->cache, .seed = 3, .threads = j->threads});
    tp_tensor *w = tp_param(tp_uniform(tp, TP_F32, TP_DIMS(N_IN, N_OUT), -1, 1), "w");
    tp_tensor *data = tp_normal(tp, TP_F32, TP_DIMS(5, N_IN), 0, 1);
    tp_optimizer *o = tp_adam_new(tp, 0.01, NULL, 1, &w);
    for (int i = 0; i < N_STEPS; i++) { /* eager */
        tp_scope_begin(tp);
        tp_optimizer_step(o, loss_of(data, w));
        tp_scope_end(tp);
    }
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), N_IN));
    tp_name(tp_optimizer_step(o, loss_of(x, w)), "step");
    static const char *const feed[] = {"x"}, *const fetch[] = {"step"};
    tp_program *p =
        tp_graph_compile(g, 1, feed, 1, fetch, &(tp_compile_options){.engine = j->engine});
    for (int i = 0; i < N_STEPS && p; i++) { /* compiled */
        tp_tensor *out;
        tp_scope_begin(tp);
        tp_program_run(p, &data, &out);
        tp_scope_end(tp);
    }
    tp_read(w, j->w, sizeof j->w);
    snprintf(j->error, sizeof j->error, "%s", tp_error_message(tp));
    tp_close(tp);
    return NULL;
}

static void together(void **unused)
{
    (void)unused;
    char cache[] = "/tmp/api_threads_XXXXXX";
    assert_non_null(mkdtemp(cache));
    job alone = {.cache = cache, .engine = TP_ENGINE_REFERENCE}, jobs[N_THREADS];
    work(&alone);
    assert_string_equal(alone.error, "");
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        jobs[i] = (job){.cache = cache,
                        .engine = i % 2 ? TP_ENGINE_AUTO : TP_ENGINE_REFERENCE,
                        .threads = 1 + i % 3};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(jobs[i].error, "");
        assert_memory_equal(jobs[i].w, alone.w, sizeof alone.w);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    assert_int_equal(system(command), 0);
}

/* ---- one program in several threads --------------------------------------------------------------- */

enum { N_RUNS = 50, ROWS = 7 };

typedef struct lane {
    tp_runner *runner;
    float x[ROWS * N_IN], want[ROWS * N_OUT], sum;
    bool same;
} lane;

static void *run_lane(void *user)
{
    lane *l = user;
    float y[ROWS * N_OUT];
    const void *in[] = {l->x};
    void *out[] = {y, &l->sum};
    l->same = true;
    for (int i = 0; i < N_RUNS; i++)
        l->same = l->same && tp_runner_run(l->runner, in, out) == TP_OK &&
                  memcmp(y, l->want, sizeof y) == 0;
    return NULL;
}

/* A loop, a view as result, a weight: each thread has data of its own, and the context goes on. */
static void one_program(void **unused)
{
    (void)unused;
    static const char *const feed[] = {"x"}, *const fetch[] = {"y", "sum"};
    tp_ctx *tp = tp_open(&(tp_options){.seed = 9});
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *w = tp_param(tp_normal(tp, TP_F32, TP_DIMS(N_OUT, N_IN), 0, 1), "w");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), N_IN));
    tp_tensor *h = tp_tanh(x);
    tp_for (3, &h) {
        h = tp_sigmoid(tp_add(h, x));
    }
    tp_name(tp_swap(tp_matmul(w, tp_swap(h, 0, 1)), 0, 1), "y");
    tp_name(tp_sum(h, TP_ALL, false), "sum");
    tp_program *p =
        tp_graph_compile(g, 1, feed, 2, fetch, &(tp_compile_options){.engine = TP_ENGINE_C});
    lane lanes[N_THREADS];
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        tp_tensor *data = tp_normal(tp, TP_F32, TP_DIMS(ROWS, N_IN), 0, 1), *out[2];
        assert_int_equal(tp_program_run(p, &data, out), TP_OK);
        tp_read(data, lanes[i].x, sizeof lanes[i].x);
        tp_read(out[0], lanes[i].want, sizeof lanes[i].want);
        lanes[i].runner = tp_runner_new(p, &data);
        if (!lanes[i].runner)
            fail_msg("%s", tp_error_message(tp));
    }
    tp_assign(w, tp_full(tp, TP_F32, TP_DIMS(N_OUT, N_IN), 0)); /* runners keep what it was */
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_lane, &lanes[i]), 0);
    for (int i = 0; i < N_RUNS; i++) {
        tp_tensor *data = tp_normal(tp, TP_F32, TP_DIMS(i + 1, N_IN), 0, 1), *out[2];
        assert_int_equal(tp_program_run(p, &data, out), TP_OK);
        assert_true(tp_sum(out[0], TP_ALL, false) &&
                    tp_item(tp_sum(out[0], TP_ALL, false)) == 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(lanes[i].same);
    }
    tp_runner_free(lanes[3].runner);
    tp_program_free(p);
    tp_close(tp);
}

/* ---- how many there are --------------------------------------------------------------------------- */

static int threads_of_process(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *e; tasks && (e = readdir(tasks));)
        n += e->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n;
}

static void *end_at_once(void *unused)
{
    return unused;
}

static void number_is_true(void **unused)
{
    (void)unused;
    static const int asked[] = {2, 3, 64, 256, 1};
    pthread_t first; /* with the first thread a sanitizer may begin one of its own */
    assert_int_equal(pthread_create(&first, NULL, end_at_once, NULL), 0);
    assert_int_equal(pthread_join(first, NULL), 0);
    const int others = threads_of_process() - 1;
    if (others < 0) {
        print_message("skipped: /proc does not tell the threads of a process\n");
        skip();
    }
    tp_ctx *tp = tp_open(NULL);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const int told = tp_threads(tp, asked[i]);
        assert_int_equal(told, threads_of_process() - others);
        assert_int_equal(tp_threads(tp, 0), told);
        assert_true(told <= asked[i]);
    }
    tp_close(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(number_is_true),
                                       cmocka_unit_test(together),
                                       cmocka_unit_test(one_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
