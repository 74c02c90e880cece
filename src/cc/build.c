#define _GNU_SOURCE /* sched_getaffinity */
#include "cc/build.h"

#include "base/bump.h"
#include "base/clock.h"
#include "base/float_mode.h"
#include "base/keep_errno.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cc/cache.h"
#include "cc/cc.h"
#include "cc/loader.h"
#include "cc/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N_UNITS = 256,
    UNIT_NAME = 24, /* "unit255.c" */
    LIMIT_MS = 10 * 60 * 1000
};
static const uint64_t cache_bytes = (uint64_t)512 << 20;
static const char object_name[] = "program.so";

struct tpi_build {
    tp_ctx *ctx;
    tpi_bump memory; /* of this, and of its lists */
    tpi_build_spec spec;
    tpi_build_state state;
    bool from_cache, linking;
    bool asleep, polled; /* its compiler has not been started; it was asked for once */
    bool sure;           /* every process was seen to end well */
    bool no_memory;      /* is why it failed */
    int64_t started, ended, deadline; /* ns */
    tpi_cc cc;
    tpi_cache cache;
    tpi_scratch scratch;
    pid_t owner; /* of the scratch folder */
    char name[TPI_ENTRY_NAME];
    tpi_str recipe;    /* all that makes the object what it is, but for the sources */
    tpi_piece *pieces; /* recipe and sources */
    tpi_proc *procs;   /* one per unit; the first again for linking */
    int next;          /* unit to be started next */
    int n_cpus;
    void *object;
    char message[2400];
};

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

static double ms_of(int64_t ns)
{
    TPI_DEFAULT_FLOAT_MODE;
    TPI_FLOAT_PIN(ns);
    double ms = (double)ns / (double)NS_PER_MS;
    TPI_FLOAT_PIN(ms);
    return ms;
}

int tpi_build_cpus(void)
{
    TPI_KEEP_ERRNO;
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set)
                                                                              : 1;
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Processes and files go; what was loaded stays. */
static void clean_up(tpi_build *b)
{
    for (int i = 0; b->procs && i < b->spec.n_sources; i++)
        tpi_proc_kill(&b->procs[i]);
    /* After a fork of the host both copies hold this; only one may remove. */
    if (b->owner == getpid())
        tpi_scratch_remove(&b->scratch);
    else
        tpi_scratch_leave(&b->scratch);
    tpi_cache_close(&b->cache);
    b->procs = NULL;
    tpi_str_free(&b->recipe);
}

static void end(tpi_build *b, tpi_build_state state)
{
    b->state = state;
    b->ended = tpi_now_ns();
    clean_up(b);
    const double ms = ms_of(b->ended - b->started);
    if (state == TPI_BUILD_FAILED)
        tpi_log(TPI_LOG_compile, "%s: failed after %.1f ms: %s", b->name, ms, b->message);
    else if (b->from_cache)
        tpi_log(TPI_LOG_compile, "%s: from the cache in %.2f ms", b->name, ms);
    else
        tpi_log(TPI_LOG_compile, "%s: compiled by %s in %.1f ms%s%s", b->name, b->cc.path, ms,
                b->message[0] ? ", not kept: " : "", b->message);
}

static void fail_text(tpi_build *b, const char *what, const char *text)
{
    snprintf(b->message, sizeof b->message, "%s: %s", what, text);
    end(b, TPI_BUILD_FAILED);
}

static void fail_errno(tpi_build *b, const char *what, int error)
{
    char text[128];
    b->no_memory = error == ENOMEM;
    fail_text(b, what, tpi_errno_text(error, text, sizeof text));
}

/* Why the cache cannot be used; the build goes on. */
static void note_errno(tpi_build *b, int error)
{
    char text[128];
    snprintf(b->message, sizeof b->message, "cache folder %s: %s", b->cache.dir,
             tpi_errno_text(error, text, sizeof text));
}

static void fail_proc(tpi_build *b, const tpi_proc *p)
{
    size_t len = p->len;
    while (len && p->text[len - 1] == '\n')
        len--;
    const char *how = "ended with status";
    int code = 0;
    if (p->state == TPI_PROC_ENDED && WIFSIGNALED(p->status)) {
        how = "killed by signal";
        code = WTERMSIG(p->status);
    } else if (p->state == TPI_PROC_ENDED) {
        how = "exit status";
        code = WEXITSTATUS(p->status);
    }
    snprintf(b->message, sizeof b->message, "%.250s: %s %d%s%.*s%s", b->cc.path, how, code,
             len ? ": " : ", no output", (int)len, p->text, p->full ? " ..." : "");
    end(b, TPI_BUILD_FAILED);
}

/* ---- processes ------------------------------------------------------------------------------ */

/* Compiles unit `unit` to an object file, or, with unit < 0, makes the shared object: of the
 * object files, or of the only unit at once. */
static bool run_compiler(tpi_build *b, tpi_proc *p, int unit)
{
    const int n = b->spec.n_sources;
    size_t room = 16 + (size_t)n;
    for (const char *const *f = tpi_cc_flags; *f; f++)
        room++;
    for (const char *const *f = b->spec.flags; f && *f; f++)
        room++;
    const tpi_bump mark = b->memory;
    const char **args = tpi_bump_take(&b->memory, room, sizeof *args);
    char(*names)[UNIT_NAME] = tpi_bump_take(&b->memory, (size_t)n, sizeof *names);
    int error = ENOMEM;
    if (names) {
        size_t k = 0;
        args[k++] = b->cc.path;
        for (const char *const *f = tpi_cc_flags; *f; f++)
            args[k++] = *f;
        for (const char *const *f = b->spec.flags; f && *f; f++)
            args[k++] = *f;
        const int first = unit < 0 ? 0 : unit, end = unit < 0 ? n : unit + 1;
        for (int i = first; i < end; i++) {
            snprintf(names[i], UNIT_NAME, "unit%d.%c", i, unit < 0 && n > 1 ? 'o' : 'c');
            args[k++] = names[i];
        }
        if (unit < 0) {
            args[k++] = "-o";
            args[k++] = object_name;
            for (const char *const *f = tpi_cc_link_flags; *f; f++)
                args[k++] = *f;
        } else {
            args[k++] = "-c";
        }
        args[k] = NULL;
        error = tpi_proc_start(p, b->ctx, b->scratch.fd, b->scratch.dir, args);
    }
    tpi_bump_release(&b->memory, &mark);
    if (error)
        fail_errno(b, b->cc.path, error);
    return !error;
}

static bool has_file(const tpi_build *b, const char *name)
{
    struct stat st;
    return fstatat(b->scratch.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_size > 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int write_file(int folder, const char *name, const char *text)
{
    const int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = 0;
    for (size_t left = strlen(text); left && !error;) {
        const ssize_t n = write(fd, text, left);
        if (n >= 0) {
            text += n;
            left -= (size_t)n;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    return close(fd) == 0 || error ? error : errno;
}

/* The object of the file `fd` with the entry it must have; otherwise NULL and the message set. */
static void *load(tpi_build *b, int fd)
{
    void *object = tpi_object_load(fd, b->message, sizeof b->message);
    if (object && !tpi_object_symbol(object, b->spec.entry)) {
        snprintf(b->message, sizeof b->message, "the object does not define %s", b->spec.entry);
        tpi_object_unload(object);
        return NULL;
    }
    return object;
}

/* The loader has mapped what it needs: bytes behind the object do not touch that. */
static void keep(tpi_build *b, int fd)
{
    int error = tpi_cache_seal(fd, b->pieces, b->spec.n_sources + 1);
    if (!error)
        error = tpi_cache_put(&b->cache, b->scratch.fd, object_name, b->name);
    if (error)
        note_errno(b, error);
    tpi_cache_trim(&b->cache, &b->ctx->mem, cache_bytes);
}

/* Everything was compiled: loads it, and keeps it in the cache, if there is one. */
static void finish(tpi_build *b)
{
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    const int fd = has_file(b, object_name) ? openat(b->scratch.fd, object_name, flags) : -1;
    if (fd < 0) {
        fail_text(b, b->cc.path, "ended well and made no object");
        return;
    }
    char kept[sizeof b->message];
    memcpy(kept, b->message, sizeof kept);
    b->object = load(b, fd);
    if (b->object) {
        memcpy(b->message, kept, sizeof kept);
        if (b->cache.fd >= 0 && b->sure)
            keep(b, fd);
    }
    close(fd);
    end(b, b->object ? TPI_BUILD_READY : TPI_BUILD_FAILED);
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Writes down all that makes the object what it is; false when memory is out. */
static bool write_recipe(tpi_build *b)
{
    char machine[160];
    tpi_cc_machine(machine, sizeof machine);
    tpi_str_printf(
        &b->recipe, "tapir object 1\ncompiler %s\nsize %llu modified %lld\n%s\nflags",
        b->cc.path, (unsigned long long)b->cc.size, (long long)b->cc.modified_ns, machine);
    for (const char *const *f = tpi_cc_flags; *f; f++)
        tpi_str_printf(&b->recipe, " %s", *f);
    for (const char *const *f = tpi_cc_link_flags; *f; f++)
        tpi_str_printf(&b->recipe, " %s", *f);
    for (const char *const *f = b->spec.flags; f && *f; f++)
        tpi_str_printf(&b->recipe, "\nflag %s", *f);
    tpi_str_printf(&b->recipe, "\nentry %s", b->spec.entry);
    for (int i = 0; i < b->spec.n_sources; i++) {
        b->pieces[i + 1] = (tpi_piece){b->spec.sources[i], strlen(b->spec.sources[i])};
        tpi_str_printf(&b->recipe, "\nunit of %zu bytes", b->pieces[i + 1].size);
    }
    tpi_str_put(&b->recipe, "\n");
    b->pieces[0] = (tpi_piece){b->recipe.text, b->recipe.len};
    return !b->recipe.failed;
}

/* True when the build has ended with this. */
static bool try_cache(tpi_build *b)
{
    int fd;
    const tpi_cache_answer answer =
        tpi_cache_find(&b->cache, b->name, b->pieces, b->spec.n_sources + 1, &fd);
    if (answer == TPI_CACHE_TAKEN) {
        snprintf(b->message, sizeof b->message, "another program has its name in the cache");
        tpi_cache_close(&b->cache);
    }
    if (answer != TPI_CACHE_HIT)
        return false;
    b->object = load(b, fd);
    close(fd);
    if (b->object) {
        b->from_cache = true;
        end(b, TPI_BUILD_READY);
        return true;
    }
    tpi_log(TPI_LOG_compile, "%s: removed from the cache: %s", b->name, b->message);
    tpi_cache_remove(&b->cache, b->name);
    b->message[0] = 0;
    return false;
}

/* 0 or an errno. */
static int write_sources(const tpi_build *b)
{
    int error = 0;
    for (int i = 0; i < b->spec.n_sources && !error; i++) {
        char name[UNIT_NAME];
        snprintf(name, sizeof name, "unit%d.c", i);
        error = write_file(b->scratch.fd, name, b->spec.sources[i]);
    }
    return error;
}

static bool make_scratch(tpi_build *b)
{
    char why[3 * TPI_PATH];
    if (b->cache.fd >= 0) {
        if (tpi_scratch_make(&b->scratch, b->ctx, b->cache.fd, b->cache.dir, why, sizeof why))
            return true;
        snprintf(b->message, sizeof b->message, "cache folder %.1100s", why);
        tpi_cache_close(&b->cache);
    }
    if (tpi_scratch_make(&b->scratch, b->ctx, -1, NULL, why, sizeof why))
        return true;
    snprintf(b->message, sizeof b->message, "%.2200s", why);
    end(b, TPI_BUILD_FAILED);
    return false;
}

static void start_units(tpi_build *b)
{
    int running = 0;
    for (int i = 0; i < b->next; i++)
        running += b->procs[i].state == TPI_PROC_RUNNING;
    for (; b->next < b->spec.n_sources && running < b->n_cpus; b->next++, running++) {
        if (!run_compiler(b, &b->procs[b->next], b->spec.n_sources == 1 ? -1 : b->next))
            return;
    }
}

static void start_compiler(tpi_build *b)
{
    if (!make_scratch(b))
        return;
    int error = write_sources(b);
    if (error && b->cache.fd >= 0) { /* the disk that the cache is on may be full */
        note_errno(b, error);
        tpi_scratch_remove(&b->scratch);
        tpi_cache_close(&b->cache);
        if (!make_scratch(b))
            return;
        error = write_sources(b);
    }
    if (error)
        fail_errno(b, b->scratch.dir, error);
    else
        start_units(b);
}

static void begin(tpi_build *b, const tp_ctx *ctx)
{
    if (!tpi_cc_find(&b->cc, ctx->compiler, b->message, sizeof b->message)) {
        end(b, TPI_BUILD_FAILED);
        return;
    }
    if (!write_recipe(b)) {
        fail_errno(b, "compiling", ENOMEM);
        return;
    }
    tpi_cache_name(b->name, b->pieces, b->spec.n_sources + 1);
    if (tpi_cache_open(&b->cache, ctx->cache_dir, b->message, sizeof b->message) &&
        try_cache(b))
        return;
    b->asleep = b->spec.second;
    if (!b->asleep)
        start_compiler(b);
}

tpi_build *tpi_build_start(tp_ctx *ctx, const tpi_build_spec *spec)
{
    TPI_KEEP_ERRNO;
    const int64_t started = tpi_now_ns();
    tpi_bump memory = TPI_BUMP(&ctx->mem);
    tpi_build *b = tpi_bump_take(&memory, 1, sizeof *b);
    if (!b)
        return NULL;
    b->ctx = ctx;
    b->memory = memory;
    b->spec = *spec;
    b->started = started;
    b->deadline =
        started + (int64_t)(spec->limit_ms > 0 ? spec->limit_ms : LIMIT_MS) * NS_PER_MS;
    b->sure = true;
    b->owner = getpid();
    b->cache.fd = -1;
    b->scratch = (tpi_scratch){.parent = -1, .fd = -1};
    b->recipe = TPI_STR(&ctx->mem);
    b->n_cpus = tpi_build_cpus();
    if (spec->n_sources < 1 || spec->n_sources > N_UNITS) {
        b->spec.n_sources = 0;
        fail_text(b, "compiling", "too many translation units, or none");
        return b;
    }
    b->procs = tpi_bump_take(&b->memory, (size_t)spec->n_sources, sizeof *b->procs);
    b->pieces = tpi_bump_take(&b->memory, (size_t)spec->n_sources + 1, sizeof *b->pieces);
    if (b->pieces)
        begin(b, ctx);
    else
        fail_errno(b, "compiling", ENOMEM);
    return b;
}

/* ---- going on ------------------------------------------------------------------------------- */

/* False when it ended badly, and the build with it. */
static bool judge(tpi_build *b, const tpi_proc *p, int unit)
{
    if (p->state == TPI_PROC_ENDED) {
        if (WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0)
            return true;
        fail_proc(b, p);
        return false;
    }
    /* The host reaped it: a compiler that failed has removed its output. */
    b->sure = false;
    char name[UNIT_NAME];
    snprintf(name, sizeof name, "unit%d.o", unit);
    if (has_file(b, unit < 0 ? object_name : name))
        return true;
    fail_proc(b, p);
    return false;
}

/* What was not in the cache may be by now. */
static void wake(tpi_build *b)
{
    const int64_t time = tpi_now_ns();
    b->asleep = false;
    b->deadline += time - b->started;
    b->started = time;
    if (b->cache.fd < 0 || !try_cache(b))
        start_compiler(b);
}

static void step(tpi_build *b)
{
    if (b->owner != getpid()) {
        fail_text(b, "compiling", "left to the process that began it and was then forked");
        return;
    }
    if (b->asleep) {
        wake(b);
        return;
    }
    const bool one_command = b->linking || b->spec.n_sources == 1;
    int running = 0;
    for (int i = 0; i < b->next; i++) {
        tpi_proc *p = &b->procs[i];
        if (p->state != TPI_PROC_RUNNING)
            continue;
        if (tpi_proc_poll(p) == TPI_PROC_RUNNING)
            running++;
        else if (!judge(b, p, one_command ? -1 : i))
            return;
    }
    if (running && tpi_now_ns() > b->deadline) {
        char text[80];
        const int64_t tenths = (b->deadline - b->started) / (NS_PER_S / 10);
        tpi_print(text, sizeof text, "killed, it took longer than %lld.%lld s",
                  (long long)(tenths / 10), (long long)(tenths % 10));
        fail_text(b, b->cc.path, text);
        return;
    }
    if (b->next < b->spec.n_sources) {
        start_units(b);
        return;
    }
    if (running)
        return;
    if (one_command) {
        finish(b);
        return;
    }
    b->linking = true;
    run_compiler(b, &b->procs[0], -1);
}

tpi_build_state tpi_build_poll(tpi_build *b, int wait_ms)
{
    TPI_KEEP_ERRNO;
    const int64_t until = tpi_now_ns() + (int64_t)wait_ms * NS_PER_MS;
    if (b->asleep && !wait_ms && !b->polled) {
        b->polled = true;
        return b->state;
    }
    for (;;) {
        if (b->state == TPI_BUILD_RUNNING)
            step(b);
        if (b->state != TPI_BUILD_RUNNING || wait_ms == 0 || tpi_is_interrupted(b->ctx))
            return b->state;
        const int64_t time = tpi_now_ns();
        if (wait_ms > 0 && time >= until)
            return b->state;
        /* Never past the end of either limit. */
        const int64_t end = wait_ms > 0 && until < b->deadline ? until : b->deadline;
        const int64_t ms = (end - time) / NS_PER_MS;
        tpi_proc_sleep(b->procs, b->next, ms < 1 ? 1 : ms > 1000 ? 1000 : (int)ms);
    }
}

bool tpi_build_failed(const tpi_build *b)
{
    return b->state == TPI_BUILD_FAILED;
}

void *tpi_build_symbol(const tpi_build *b, const char *name)
{
    return b->object ? tpi_object_symbol(b->object, name) : NULL;
}

const char *tpi_build_message(const tpi_build *b)
{
    return b->message;
}

tp_status tpi_build_error(const tpi_build *b)
{
    return b->no_memory ? TP_E_MEMORY : TP_E_COMPILER;
}

bool tpi_build_from_cache(const tpi_build *b)
{
    return b->from_cache;
}

double tpi_build_ms(const tpi_build *b)
{
    return ms_of((b->state == TPI_BUILD_RUNNING ? tpi_now_ns() : b->ended) - b->started);
}

void tpi_build_free(tpi_build *b)
{
    TPI_KEEP_ERRNO;
    if (!b)
        return;
    clean_up(b);
    tpi_object_unload(b->object);
    tpi_bump memory = b->memory; /* b is in it */
    tpi_bump_free(&memory);
}
