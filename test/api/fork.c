/* A process that forks: the child goes on with the context, with threads of its own, and so does its
 * child; the parent is not disturbed. Eager ops, tiles and C. */
#include "base/workers.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 257, N_ENGINES = 2, PATIENCE = 60 };

typedef struct work {
    tp_ctx *tp;
    tp_tensor *a, *b;
    tp_program *programs[N_ENGINES];
    float want[N * N];
} work;

static tp_tensor *formula(tp_tensor *a, tp_tensor *b)
{
    return tp_softmax(tp_matmul(tp_tanh(a), b), 1);
}

static bool is_right(const work *w, tp_tensor *y)
{
    float got[N * N];
    return tp_read(y, got, sizeof got) == TP_OK && memcmp(got, w->want, sizeof got) == 0;
}

/* Does all of it give what it gave at first? */
static bool again(const work *w)
{
    tp_tensor *in[] = {w->a, w->b}, *y;
    bool right = is_right(w, formula(w->a, w->b));
    for (int i = 0; i < N_ENGINES; i++)
        right = right && tp_program_run(w->programs[i], in, &y) == TP_OK && is_right(w, y);
    return right;
}

/* Forks that many times, each from the child of the last. What is returned is 0 in the process that
 * called. */
static int generations(work *w, int n)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE); /* one that waits for threads that it has not ends by the signal */
        bool right = again(w) && tpi_pool_threads(w->tp->pool) == 3;
        right = right && (n == 1 || generations(w, n - 1) == 0) && again(w);
        tp_close(w->tp);
        _exit(!right);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void goes_on(void **unused)
{
    (void)unused;
    static const char *const feed[] = {"a", "b"}, *const fetch[] = {"y"};
    static const tp_engine engines[N_ENGINES] = {TP_ENGINE_TILES, TP_ENGINE_C};
    static work w;
    w.tp = tp_open(&(tp_options){.threads = 3, .seed = 4});
    if (!w.tp->pool) {
        print_message("skipped: libpthreadpool is not installed\n");
        tp_close(w.tp);
        skip();
    }
    w.a = tp_normal(w.tp, TP_F32, TP_DIMS(N, N), 0, 1);
    w.b = tp_normal(w.tp, TP_F32, TP_DIMS(N, N), 0, 1);
    tp_graph *g = tp_graph_new(w.tp);
    tp_name(formula(tp_placeholder(g, "a", TP_F32, TP_DIMS(N, N)),
                    tp_placeholder(g, "b", TP_F32, TP_DIMS(N, N))),
            "y");
    for (int i = 0; i < N_ENGINES; i++)
        w.programs[i] =
            tp_graph_compile(g, 2, feed, 1, fetch, &(tp_compile_options){.engine = engines[i]});
    tp_read(formula(w.a, w.b), w.want, sizeof w.want);
    assert_true(again(&w));
    for (int i = 0; i < 3; i++) {
        const int status = generations(&w, 2);
        if (status)
            fail_msg("the child %s %d", WIFSIGNALED(status) ? "was ended by signal" : "gave",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        assert_true(again(&w));
    }
    tp_close(w.tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
