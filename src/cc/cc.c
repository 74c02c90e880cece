#define _GNU_SOURCE /* pipe2, posix_spawn_file_actions_addfchdir_np */
#include "cc/cc.h"

#include "base/env.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

extern char **environ;

/* Whole registers: elementary functions gain a third, nothing loses. */
#if defined(__x86_64__) || defined(__i386__)
#define FOR_THIS_MACHINE "-march=native", "-mprefer-vector-width=512"
#elif defined(__aarch64__) || defined(__arm__)
#define FOR_THIS_MACHINE "-mcpu=native"
#else
#define FOR_THIS_MACHINE "-O2"
#endif

/* -O3 takes a fifth longer and was not faster on any kernel once loops over lanes are peeled
 * (-fpeel-loops). */
const char *const tpi_cc_flags[] = {"-std=gnu11",
                                    "-O2",
                                    "-ftree-vectorize",
                                    "-fpeel-loops",
                                    FOR_THIS_MACHINE,
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-semantic-interposition",
                                    "-fno-stack-protector",
                                    "-fPIC",
                                    "-shared",
                                    "-pipe",
                                    "-w",
                                    NULL};
/* No start files and no C library: what a program calls of it is loaded already. */
const char *const tpi_cc_link_flags[] = {"-nostdlib", "-lgcc", NULL};

/* ---- finding -------------------------------------------------------------------------------- */

/* 0, or the errno that says why `path` is no program. */
static int look(tpi_cc *cc, const char *path)
{
    char here[TPI_PATH];
    if (path[0] != '/') {
        if (!getcwd(here, sizeof here))
            return errno;
        if (!tpi_path_join(cc->path, here, path))
            return ENAMETOOLONG;
    } else {
        if (strlen(path) >= sizeof cc->path)
            return ENAMETOOLONG;
        memcpy(cc->path, path, strlen(path) + 1);
    }
    struct stat st;
    if (stat(cc->path, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EISDIR;
    if (access(cc->path, X_OK) != 0)
        return errno;
    cc->size = (uint64_t)st.st_size;
    cc->modified_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

bool tpi_cc_find(tpi_cc *cc, const char *name, char *why, size_t size)
{
    if (!name)
        name = tpi_env(TPI_ENV_CC);
    if (!name)
        name = "cc";
    if (strchr(name, '/')) {
        const int error = look(cc, name);
        char text[128];
        if (error)
            snprintf(why, size, "compiler \"%s\": %s", name,
                     error == EISDIR ? "not a program"
                                     : tpi_errno_text(error, text, sizeof text));
        return !error;
    }
    const char *path = tpi_env_of("PATH");
    if (!path)
        path = "/usr/bin:/bin";
    for (;;) {
        const size_t n = strcspn(path, ":");
        char dir[TPI_PATH], file[TPI_PATH];
        if (n < sizeof dir) {
            memcpy(dir, path, n);
            dir[n] = 0;
            if (tpi_path_join(file, n ? dir : ".", name) && look(cc, file) == 0)
                return true;
        }
        path += n;
        if (!*path)
            break;
        path++;
    }
    snprintf(why, size, "compiler \"%s\": not found in PATH%s", name,
             strchr(name, ' ') ? " (the name of a program is asked for, without arguments)"
                               : "");
    return false;
}

void tpi_cc_machine(char *text, size_t size)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d, e[6] = {0}, lo = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) { /* b has the number of the core */
        e[0] = a;
        e[1] = c;
        e[2] = d;
        if (c & bit_OSXSAVE) {
            unsigned hi;
            __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        }
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        e[3] = b;
        e[4] = c;
        e[5] = d;
    }
    snprintf(text, size, "x86 %x %x %x %x %x %x %x", e[0], e[1], e[2], e[3], e[4], e[5], lo);
#elif defined(__linux__)
    unsigned long id = 0;
#if defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_CPUID)
        __asm__("mrs %0, midr_el1" : "=r"(id));
#endif
    snprintf(text, size, "hwcap %lx %lx %lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2), id);
#else
    snprintf(text, size, "unknown");
#endif
}

/* ---- child processes ------------------------------------------------------------------------ */

static bool is_variable(const char *entry, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* The environment with English messages and temporary files in `tmpdir` ("TMPDIR=..."). */
static const char **child_environment(tpi_mem *mem, const char *tmpdir, size_t *bytes)
{
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    *bytes = (n + 3) * sizeof(char *);
    const char **env = tpi_take(mem, *bytes);
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *e = environ[i];
        if (!is_variable(e, "LC_ALL") && !is_variable(e, "LANG") && !is_variable(e, "TMPDIR"))
            env[kept++] = e;
    }
    env[kept++] = "LC_ALL=C";
    env[kept++] = tmpdir;
    env[kept] = NULL;
    return env;
}

/* What happens between the two processes: done by the C library, safely also when other
 * threads hold locks. */
static int prepare(posix_spawn_file_actions_t *files, posix_spawnattr_t *attr, int folder,
                   int out)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int error = 0;
#define TRY(call) (error = error ? error : (call))
    TRY(posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                           POSIX_SPAWN_SETPGROUP));
    TRY(posix_spawnattr_setsigmask(attr, &none));
    TRY(posix_spawnattr_setsigdefault(attr, &all));
    TRY(posix_spawnattr_setpgroup(attr, 0));
    TRY(posix_spawn_file_actions_addfchdir_np(files, folder));
    TRY(posix_spawn_file_actions_adddup2(files, out, STDOUT_FILENO));
    TRY(posix_spawn_file_actions_adddup2(files, out, STDERR_FILENO));
    TRY(posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    /* A socket of the host program must not stay open as long as a compiler runs. */
    TRY(posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1));
#endif
#undef TRY
    return error;
}

static int spawn(tpi_proc *p, tp_ctx *ctx, int folder, const char *const *argv,
                 const char *const *env, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    error = posix_spawnattr_init(&attr);
    if (!error) {
        error = prepare(&files, &attr, folder, out);
        sigset_t signals;
        tpi_signals_off(&signals);
        if (!error)
            error = posix_spawn(&p->pid, argv[0], &files, &attr, (char *const *)argv,
                                (char *const *)env);
        p->undone = error ? NULL : tpi_undone_group(&ctx->undone, &ctx->mem, p->pid);
        tpi_signals_on(&signals);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

int tpi_proc_start(tpi_proc *p, tp_ctx *ctx, int folder, const char *dir,
                   const char *const *argv)
{
    *p = (tpi_proc){.out = -1};
    char tmpdir[TPI_PATH + 8];
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", dir);
    size_t bytes;
    const char **env = child_environment(&ctx->mem, tmpdir, &bytes);
    if (!env)
        return ENOMEM;
    int ends[2];
    int error = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (!error) {
        error = fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0
                    ? spawn(p, ctx, folder, argv, env, ends[1])
                    : errno;
        close(ends[1]);
        if (error) {
            close(ends[0]);
        } else {
            p->out = ends[0];
            p->parent = getpid();
            p->state = TPI_PROC_RUNNING;
        }
    }
    tpi_give_back(&ctx->mem, env, bytes);
    return error;
}

/* How it ended is somebody else's. */
static void lose(tpi_proc *p)
{
    p->state = TPI_PROC_LOST;
    if (p->parent == getpid())
        tpi_undone_done(p->undone);
}

static void close_output(tpi_proc *p)
{
    if (p->out >= 0)
        close(p->out);
    p->out = -1;
}

/* What the pipe holds, no more than a few pages: one that prints without end must not keep us. */
static void take_output(tpi_proc *p)
{
    for (int i = 0; i < 32 && p->out >= 0; i++) {
        char rest[4096];
        const size_t room = sizeof p->text - 1 - p->len;
        const ssize_t n =
            read(p->out, room ? p->text + p->len : rest, room ? room : sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0) {
            close_output(p);
            break;
        }
        if (room) {
            p->len += (size_t)n;
            p->text[p->len] = 0;
        } else {
            p->full = true;
        }
    }
}

/* Whether it still runs. One that has ended stays a zombie, so that its group can be signalled:
 * until it is reaped no other process can get its number. */
static bool is_running(tpi_proc *p)
{
    if (p->parent != getpid()) { /* the host forked: the child is our parent's */
        lose(p);
        return false;
    }
    siginfo_t info;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
            return info.si_pid == 0;
        if (errno != EINTR) {
            lose(p);
            return false;
        }
    }
}

static void reap(tpi_proc *p)
{
    kill(-p->pid, SIGKILL);
    tpi_undone_done(p->undone); /* before its number is free */
    pid_t got;
    do {
        got = waitpid(p->pid, &p->status, 0);
    } while (got < 0 && errno == EINTR);
    p->state = got == p->pid ? TPI_PROC_ENDED : TPI_PROC_LOST;
}

tpi_proc_state tpi_proc_poll(tpi_proc *p)
{
    if (p->state != TPI_PROC_RUNNING)
        return p->state;
    if (is_running(p)) {
        take_output(p);
        return p->state;
    }
    take_output(p); /* what it printed last */
    if (p->state == TPI_PROC_RUNNING)
        reap(p);
    close_output(p);
    return p->state;
}

void tpi_proc_kill(tpi_proc *p)
{
    if (p->state != TPI_PROC_RUNNING)
        return;
    is_running(p);
    if (p->state == TPI_PROC_RUNNING)
        reap(p);
    close_output(p);
}

void tpi_proc_sleep(const tpi_proc *procs, int n, int ms)
{
    enum { N_WATCHED = 64, LONGEST = 20 };
    struct pollfd fds[N_WATCHED];
    int watched = 0;
    /* Its output closes when it ends, and that wakes us; a child that outlives it may keep the
     * output open, and it may close its output early, hence the limits. */
    int limit = LONGEST;
    for (int i = 0; i < n; i++) {
        if (procs[i].state != TPI_PROC_RUNNING)
            continue;
        if (procs[i].out < 0)
            limit = 1;
        else if (watched < N_WATCHED)
            fds[watched++] = (struct pollfd){.fd = procs[i].out, .events = POLLIN};
    }
    poll(fds, (nfds_t)watched, ms < limit ? ms : limit);
}
