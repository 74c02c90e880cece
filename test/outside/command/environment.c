/* The command in surroundings that lack something: memory, files, room on the disk, a cache that can be
 * written; and twenty commands at once in one cache. It prints the same result, or says what is
 * wrong and ends with 2; it is never ended by a signal. */
#define _GNU_SOURCE /* unshare */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 20, LATE_S = 100, MIB = 1 << 20 };

static char root[] = "/tmp/cli-environment-XXXXXX";
static char command[500], model[100];
static char wanted[4096]; /* what it prints */

static const char *in_root(const char *name)
{
    static char path[4][200];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", root, name);
    return path[next];
}

static void make_model(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 64));
    tp_tensor *w = tp_normal(tp, TP_F32, TP_DIMS(64, 3), 0, 1);
    tp_tensor *y = tp_name(tp_softmax(tp_matmul(tp_tanh(x), w), 1), "y");
    assert_int_equal(tp_graph_set_outputs(g, TP_TENSORS(y)), TP_OK);
    assert_int_equal(tp_graph_save(g, model), TP_OK);
    assert_int_equal(tp_npy_save(tp_normal(tp, TP_F32, TP_DIMS(4, 64), 0, 1), in_root("x.npy")),
                     TP_OK);
    assert_int_equal(tp_error(tp), TP_OK);
    tp_close(tp);
}

typedef struct limit {
    const char *name;
    int of;
    rlim_t most;
} limit;

/* Started in a child, before the command: false when there is nothing to be tried. */
typedef bool setting(const limit *l);

typedef struct run {
    pid_t pid;
    int out;
} run;

static run start(const char *program, const char *const *words, setting *set, const limit *l)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        close(ends[1]);
        return (run){pid, ends[0]};
    }
    const char *args[16] = {"tapir"};
    int n = 1;
    for (; words[n - 1]; n++)
        args[n] = words[n - 1];
    args[n] = NULL;
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
        close(fd);
    alarm(LATE_S);
    if (set && !set(l))
        _exit(77);
    execv(program, (char *const *)args);
    _exit(99);
}

/* The status, and what it printed. */
static int end(run r, char *text, size_t size)
{
    size_t n = 0;
    ssize_t got;
    int status;
    while ((got = read(r.out, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(r.out);
    assert_int_equal(waitpid(r.pid, &status, 0), r.pid);
    return status;
}

static run start_model(const char *engine, setting *set, const limit *l)
{
    char input[300];
    snprintf(input, sizeof input, "x=%s/x.npy", root);
    return start(command,
                 (const char *[]){"run", model, "--engine", engine, "--input", input, NULL},
                 set, l);
}

/* Good and the same, or refused with a message. False: it was left out. */
static bool expect(run r, const char *what, bool may_refuse)
{
    char text[4096];
    const int status = end(r, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return false;
    if (!WIFEXITED(status))
        fail_msg("%s: ended by %s: %s", what, strsignal(WTERMSIG(status)), text);
    if (WEXITSTATUS(status) == 0 && strstr(text, wanted))
        return true;
    if (!may_refuse || WEXITSTATUS(status) != 2 || !strstr(text, "tapir: "))
        fail_msg("%s: exit code %d: %s", what, WEXITSTATUS(status), text);
    return true;
}

static const char *const engines[] = {"auto", "tiles", "c"};
enum { ENGINES = sizeof engines / sizeof *engines };

/* ---- limits ----------------------------------------------------------------------------------- */

static bool set_limit(const limit *l)
{
    const struct rlimit most = {l->most, l->most};
    return setrlimit((__rlimit_resource_t)l->of, &most) == 0;
}

static void limits(void **state)
{
    (void)state;
    static const limit all[] = {
        {"8 MiB of addresses",   RLIMIT_AS,      8 * MIB  },
        {"24 MiB of addresses",  RLIMIT_AS,      24 * MIB },
        {"64 MiB of addresses",  RLIMIT_AS,      64 * MIB },
        {"1 MiB of data",        RLIMIT_DATA,    1 * MIB  },
        {"a stack of 128 KiB",   RLIMIT_STACK,   128 << 10},
        {"files of no bytes",    RLIMIT_FSIZE,   0        },
        {"files of 5,000 bytes", RLIMIT_FSIZE,   5000     },
        {"four open files",      RLIMIT_NOFILE,  4        },
        {"six open files",       RLIMIT_NOFILE,  6        },
        {"ten open files",       RLIMIT_NOFILE,  10       },
        {"no locked memory",     RLIMIT_MEMLOCK, 0        },
        {"no other process",     RLIMIT_NPROC,   0        },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int e = 0; e < ENGINES; e++) {
            char what[100], cache[40];
            snprintf(what, sizeof what, "%s, %s", all[i].name, engines[e]);
            snprintf(cache, sizeof cache, "limit-%zu-%d", i, e); /* it compiles anew */
            setenv("TAPIR_CACHE", in_root(cache), 1);
            expect(start_model(engines[e], set_limit, &all[i]), what, true);
        }
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* A few bytes of model whose constants would become 16 GiB are compiled in little memory. */
static void folding(void **state)
{
    (void)state;
    enum { JOINS = 30 };
    static const limit l = {"256 MiB of addresses", RLIMIT_AS, 256 * MIB};
    char joins[200], text[16384];
    snprintf(joins, sizeof joins, "%s", in_root("joins.tapir"));
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(2));
    tp_tensor *c = tp_tensor_new(tp, TP_F32, TP_DIMS(4), (float[4]){1, 2, 3, 4});
    c = tp_graph_read(g, c);
    for (int i = 0; i < JOINS; i++)
        c = tp_concat(2, (tp_tensor *[]){c, c}, 0);
    tp_tensor *y = tp_name(tp_add(x, tp_reduce_max(c, TP_ALL, false)), "y");
    assert_int_equal(tp_graph_set_outputs(g, TP_TENSORS(y)), TP_OK);
    assert_int_equal(tp_graph_save(g, joins), TP_OK);
    tp_close(tp);
    const int status = end(
        start(command, (const char *[]){"show", joins, "--after", "all", NULL}, set_limit, &l),
        text, sizeof text);
    if (status != 0)
        fail_msg("status %d: %s", status, text);
}

/* A run whose values do not fit says which model's it is, by each engine. */
static void no_room(void **state)
{
    (void)state;
    static const limit l = {"256 MiB of addresses", RLIMIT_AS, 256 * MIB};
    char large[200], input[300], text[4096], says[300];
    snprintf(large, sizeof large, "%s", in_root("large.tapir"));
    snprintf(input, sizeof input, "x=%s/x.npy", root);
    snprintf(says, sizeof says, "tapir: %s: out of memory\n", large);
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 64)), *h = x, *rows = NULL;
    tp_for (1 << 20, &h) { /* a GiB of rows */
        h = tp_neg(h);
        tp_emit(&rows, h);
    }
    tp_tensor *y = tp_name(tp_cumsum(rows, 0, false, false), "y");
    assert_int_equal(tp_graph_set_outputs(g, TP_TENSORS(y)), TP_OK);
    assert_int_equal(tp_graph_save(g, large), TP_OK);
    tp_close(tp);
    for (int e = 0; e < ENGINES; e++) {
        const int status = end(start(command,
                                     (const char *[]){"run", large, "--engine", engines[e],
                                                      "--input", input, NULL},
                                     set_limit, &l),
                               text, sizeof text);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || strcmp(text, says) != 0)
            fail_msg("%s: status %d: %s", engines[e], status, text);
    }
}

/* ---- disks ------------------------------------------------------------------------------------ */

/* A disk of its own for the cache and for temporary files, with room for `most` bytes. */
static bool on_small_disk(const limit *l)
{
    char options[60];
    snprintf(options, sizeof options, "size=%llu,mode=700", (unsigned long long)l->most);
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", in_root("disk"), "tmpfs", 0, options) == 0 &&
           setenv("TAPIR_CACHE", in_root("disk"), 1) == 0 &&
           setenv("TMPDIR", in_root("disk"), 1) == 0;
}

static bool on_read_only_disk(const limit *l)
{
    return on_small_disk(l) &&
           mount(NULL, in_root("disk"), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

static void disks(void **state)
{
    (void)state;
    static const limit sizes[] = {
        {"a disk of 4 KiB",  0, 4 << 10 },
        {"a disk of 64 KiB", 0, 64 << 10},
        {"a disk of 1 MiB",  0, MIB     }
    };
    bool could = true;
    for (int e = 0; e < ENGINES; e++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            could &=
                expect(start_model(engines[e], on_small_disk, &sizes[i]), sizes[i].name, true);
        could &= expect(start_model(engines[e], on_read_only_disk, &sizes[2]),
                        "a read-only disk", true);
    }
    if (!could)
        print_message("skipped: no disks of its own without root\n");
}

/* A cache that is a file, or in a folder that is none; nothing is asked of it. */
static void no_cache(void **state)
{
    (void)state;
    static const char *const caches[] = {"/proc/no/cache", "/dev/null", "/dev/null/cache"};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        for (int e = 0; e < ENGINES; e++) {
            setenv("TAPIR_CACHE", caches[i], 1);
            expect(start_model(engines[e], NULL, NULL), caches[i], false);
        }
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* Somebody kills the compiler, each time. */
static void killed_compiler(void **state)
{
    (void)state;
    FILE *f = fopen(in_root("cc"), "w");
    assert_non_null(f);
    fputs("#!/bin/sh\nkill -9 $$\n", f);
    fclose(f);
    assert_int_equal(chmod(in_root("cc"), 0700), 0);
    setenv("TAPIR_CC", in_root("cc"), 1);
    setenv("TAPIR_CACHE", in_root("killed"), 1);
    for (int e = 0; e < ENGINES; e++)
        expect(start_model(engines[e], NULL, NULL), "a compiler that is killed",
               e == ENGINES - 1);
    unsetenv("TAPIR_CC");
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* ---- rights ----------------------------------------------------------------------------------- */

/* A copy of the command that runs as another user, which root starts: it reads nothing of the environment. */
static void other_rights(void **state)
{
    (void)state;
    char copy[900], text[4096], input[300];
    struct statvfs disk;
    if (geteuid() != 0 || statvfs(root, &disk) != 0 || disk.f_flag & ST_NOSUID) {
        print_message(
            "skipped: only root can make such a program, on a disk that may have one\n");
        return;
    }
    snprintf(copy, sizeof copy, "cp %s %s", command, in_root("tapir"));
    assert_int_equal(system(copy), 0);
    assert_int_equal(chown(in_root("tapir"), 65534, 65534), 0);
    assert_int_equal(chmod(in_root("tapir"), 04755), 0);
    assert_int_equal(chmod(root, 0755), 0);
    snprintf(copy, sizeof copy, "%s", in_root("tapir"));
    snprintf(input, sizeof input, "x=%s/x.npy", root);
    setenv("TAPIR_LOG", "all", 1);
    for (int own = 0; own < 2; own++) {
        const run r =
            start(own ? command : copy,
                  (const char *[]){"run", model, "--engine", "tiles", "--input", input, NULL},
                  NULL, NULL);
        const int status = end(r, text, sizeof text);
        if (status != 0 || !strstr(text, wanted))
            fail_msg("status %d: %s", status, text);
        assert_true(!strstr(text, "tapir: ") == !own); /* the log */
    }
    unsetenv("TAPIR_LOG");
}

/* ---- many ------------------------------------------------------------------------------------- */

static void at_once(void **state)
{
    (void)state;
    setenv("TAPIR_CACHE", in_root("shared"), 1);
    run all[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        all[i] = start_model("c", NULL, NULL);
    for (int i = 0; i < AT_ONCE; i++)
        expect(all[i], "twenty at once", false);
    expect(start_model("c", NULL, NULL), "after them", false);
    setenv("TAPIR_CACHE", in_root("cache"), 1);
}

/* ---- figures ---------------------------------------------------------------------------------- */

/* What the process that starts it has is none of its memory. */
static void own_memory(void **state)
{
    (void)state;
    enum { LARGE = 300 * MIB };
    char *large = malloc(LARGE), text[4096];
    assert_non_null(large);
    memset(large, 1, LARGE);
    const int status =
        end(start(command, (const char *[]){"bench", model, "--runs", "3", "--json", NULL},
                  NULL, NULL),
            text, sizeof text);
    free(large);
    const char *at = strstr(text, "\"peak_rss_mib\": ");
    if (status != 0 || !at)
        fail_msg("status %d: %s", status, text);
    const double mib = strtod(at + strlen("\"peak_rss_mib\": "), NULL);
    if (!(mib > 1 && mib < 200))
        fail_msg("peak_rss_mib is %g; its parent has 300", mib);
}

int main(void)
{
    const char *build = getenv("TAPIR_BUILD");
    if (!build || !mkdtemp(root)) {
        fprintf(stderr, "TAPIR_BUILD is to name the build folder\n");
        return 1;
    }
    snprintf(command, sizeof command, "%s/tapir", build);
    snprintf(model, sizeof model, "%s", in_root("model.tapir"));
    mkdir(in_root("disk"), 0700);
    setenv("TAPIR_CACHE", in_root("cache"), 1);
    make_model();
    const int status = end(start_model("reference", NULL, NULL), wanted, sizeof wanted);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),       cmocka_unit_test(folding),
        cmocka_unit_test(no_room),      cmocka_unit_test(disks),
        cmocka_unit_test(no_cache),     cmocka_unit_test(killed_compiler),
        cmocka_unit_test(at_once),      cmocka_unit_test(own_memory),
        cmocka_unit_test(other_rights),
    };
    const int failed = status ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    if (status)
        fprintf(stderr, "the command fails: %s\n", wanted);
    char remove[300];
    snprintf(remove, sizeof remove, "rm -rf %s", root);
    return system(remove) == 0 ? failed : 1;
}
