/* The command is ended by a signal, while a compiler hangs and while it computes without end: soon
 * after no process of it lives and no file of it is left. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SOON_MS = 200, LATE_S = 60, TRIES = 5 };

static char root[] = "/tmp/cli-signals-XXXXXX";
static char command[500], pids_at[100], model[100], endless[100];

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const char *in_root(const char *name)
{
    static char path[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", root, name);
    return path[next];
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

static void put_script(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* Gone, or waiting for init to notice. */
static bool is_gone(int pid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    const char *got = f ? fgets(text, sizeof text, f) : NULL;
    const char *after = got ? strrchr(text, ')') : NULL;
    const bool gone = !got || !after || after[2] == 'Z';
    if (f)
        fclose(f);
    return gone;
}

/* A model that adds, and one that computes without end. */
static void make_models(void)
{
    tp_ctx *tp = tp_open(NULL);
    for (int i = 0; i < 2; i++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4)), *y = x;
        tp_while (tp_ge(tp_sum(y, TP_ALL, false), tp_scalar(tp, TP_F32, i ? -1 : 1e30)), &y)
            y = tp_mul(y, y);
        tp_tensor *sum = tp_name(tp_add(y, x), "y");
        assert_int_equal(tp_graph_set_outputs(g, TP_TENSORS(sum)), TP_OK);
        assert_int_equal(tp_graph_save(g, i ? endless : model), TP_OK);
        tp_graph_free(g);
    }
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(4), (float[4]){0});
    assert_int_equal(tp_npy_save(x, in_root("x.npy")), TP_OK);
    assert_int_equal(tp_error(tp), TP_OK);
    tp_close(tp);
}

/* Starts `tapir ...` with x.npy as its input. */
static pid_t start(const char *const *words)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDOUT_FILENO);
    const char *args[16] = {"tapir"};
    char input[300];
    int n = 1;
    for (; words[n - 1]; n++)
        args[n] = words[n - 1];
    snprintf(input, sizeof input, "x=%s/x.npy", root);
    args[n++] = "--input";
    args[n++] = input;
    args[n] = NULL;
    alarm(LATE_S); /* it outlives exec: what hangs is ended */
    execv(command, (char *const *)args);
    _exit(127);
}

/* Ends it by the signal and checks that it was soon; false when it took longer than it should. */
static bool end(pid_t pid, int sig, int n_compilers)
{
    int status, pids[2] = {0};
    FILE *f = n_compilers ? fopen(pids_at, "r") : NULL;
    if (f && fscanf(f, "%d %d", &pids[0], &pids[1]) != 2)
        fail_msg("%s does not have two numbers", pids_at);
    if (f)
        fclose(f);
    const double began = now_ms();
    assert_int_equal(kill(pid, sig), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bool gone = false;
    double took;
    do {
        took = now_ms() - began;
        gone = !n_compilers || (is_gone(pids[0]) && is_gone(pids[1]));
    } while (!gone && took < 5000);
    if (!gone)
        fail_msg("%s: the compiler runs on", strsignal(sig));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != sig)
        fail_msg("%s: the status is %d", strsignal(sig), status);
    if (count_files(in_root("cache")) + count_files(in_root("tmp")) +
        count_files(in_root("out")))
        fail_msg("%s: files are left below %s", strsignal(sig), root);
    return took <= (double)SOON_MS;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ, SIGXCPU, SIGPIPE};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static void use_hung_compiler(void)
{
    char text[400];
    snprintf(text, sizeof text,
             "#!/bin/sh\nsleep 1000 & echo $$ $! >%s.new && mv %s.new %s; wait\n", pids_at,
             pids_at, pids_at);
    put_script(in_root("cc"), text);
    setenv("TAPIR_CC", in_root("cc"), 1);
}

static void wait_for_compiler(pid_t pid)
{
    while (access(pids_at, F_OK) != 0) {
        usleep(2000);
        if (waitpid(pid, NULL, WNOHANG) != 0)
            fail_msg("the command ended before its compiler began");
    }
}

/* In the cache, and where there is no cache. */
static void compiling(void **state)
{
    (void)state;
    use_hung_compiler();
    for (int i = 0; i < 2 * N_SIGNALS; i++) {
        bool soon = false;
        setenv("TAPIR_CACHE", i < N_SIGNALS ? in_root("cache") : "/proc/no/cache", 1);
        for (int try = 0; try < TRIES && !soon; try++) {
            unlink(pids_at);
            const pid_t pid = start((const char *[]){"run", model, "--engine", "c", NULL});
            wait_for_compiler(pid);
            soon = end(pid, signals[i % N_SIGNALS], 1);
        }
        if (!soon)
            fail_msg("%s: %d times it took longer than %d ms",
                     strsignal(signals[i % N_SIGNALS]), TRIES, SOON_MS);
    }
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* In a loop without end, by each engine and command. */
static void looping(void **state)
{
    (void)state;
    static const struct {
        const char *command, *engine, *option, *value;
    } all[] = {
        {"run",     "tiles",     "--output", "out"       },
        {"run",     "reference", "--output", "out"       },
        {"run",     "c",         "--output", "out"       },
        {"bench",   "tiles",     "--runs",   NULL        },
        {"bench",   "c",         "--runs",   NULL        },
        {"profile", "tiles",     "--trace",  "out/t.json"},
        {"profile", "c",         "--trace",  "out/t.json"},
    };
    unsetenv("TAPIR_CC");
    setenv("TAPIR_CACHE", "/proc/no/cache", 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool soon = false;
        for (int try = 0; try < TRIES && !soon; try++) {
            const pid_t pid = start((const char *[]){
                all[i].command, endless, "--engine", all[i].engine, all[i].option,
                all[i].value ? in_root(all[i].value) : "5", NULL});
            usleep(*all[i].engine == 'c' ? 1000000 : 100000); /* a C program takes a compiler */
            soon = end(pid, SIGINT, 0);
        }
        if (!soon)
            fail_msg("%s by %s: %d times it took longer than %d ms", all[i].command,
                     all[i].engine, TRIES, SOON_MS);
    }
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* A run that can do without does not wait for a compiler. */
static void hung_compiler(void **state)
{
    (void)state;
    int status;
    use_hung_compiler();
    unlink(pids_at);
    const double began = now_ms();
    const pid_t pid = start((const char *[]){"run", model, NULL});
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(now_ms() - began < 10000);
    assert_int_equal(count_files(in_root("cache")), 0);
}

/* What is ignored when the command begins stays so (nohup). */
static void ignored(void **state)
{
    (void)state;
    int status;
    use_hung_compiler();
    unlink(pids_at);
    signal(SIGHUP, SIG_IGN);
    const pid_t pid = start((const char *[]){"run", model, "--engine", "c", NULL});
    signal(SIGHUP, SIG_DFL);
    wait_for_compiler(pid);
    kill(pid, SIGHUP);
    usleep(50000);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    end(pid, SIGTERM, 1);
}

int main(void)
{
    const char *build = getenv("TAPIR_BUILD");
    if (!build || !mkdtemp(root)) {
        fprintf(stderr, "TAPIR_BUILD is to name the build folder\n");
        return 1;
    }
    snprintf(command, sizeof command, "%s/tapir", build);
    snprintf(pids_at, sizeof pids_at, "%s", in_root("pids"));
    snprintf(model, sizeof model, "%s", in_root("model.tapir"));
    snprintf(endless, sizeof endless, "%s", in_root("endless.tapir"));
    mkdir(in_root("cache"), 0700);
    mkdir(in_root("tmp"), 0700);
    setenv("TAPIR_CACHE", in_root("cache"), 1);
    setenv("TMPDIR", in_root("tmp"), 1);
    make_models();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiling),
        cmocka_unit_test(looping),
        cmocka_unit_test(hung_compiler),
        cmocka_unit_test(ignored),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char remove[300];
    snprintf(remove, sizeof remove, "rm -rf %s", root);
    return system(remove) == 0 ? failed : 1;
}
