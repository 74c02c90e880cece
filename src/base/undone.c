#define _GNU_SOURCE /* SYS_getdents64 */
#include "base/undone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------ */

enum { FREE, TAKEN, GROUP, FILE_NAME, FOLDER_NAME };
enum { N_PART = sizeof((tpi_undones *)NULL)->v / sizeof(tpi_undone) };

static tpi_undones *next_part(const tpi_undones *part)
{
    return __atomic_load_n(&part->next, __ATOMIC_ACQUIRE);
}

static tpi_undone *take_in(tpi_undones *part)
{
    for (int i = 0; i < N_PART; i++)
        if (part->v[i].kind == FREE) {
            part->v[i].kind = TAKEN;
            return &part->v[i];
        }
    return NULL;
}

static tpi_undone *put(tpi_undones *part, tpi_mem *mem, tpi_undone entry, const char *name)
{
    if (strlen(name) >= TPI_UNDONE_NAME)
        return NULL;
    tpi_undone *e = take_in(part);
    for (; !e; part = part->next, e = take_in(part))
        if (!part->next) {
            tpi_undones *more = tpi_take(mem, sizeof *more);
            if (!more)
                return NULL;
            memset(more, 0, sizeof *more);
            __atomic_store_n(&part->next, more, __ATOMIC_RELEASE);
        }
    e->owner = getpid();
    e->group = entry.group;
    e->folder = entry.folder;
    memcpy(e->name, name, strlen(name) + 1);
    __atomic_store_n(&e->kind, entry.kind, __ATOMIC_RELEASE);
    return e;
}

tpi_undone *tpi_undone_group(tpi_undones *all, tpi_mem *mem, pid_t group)
{
    return put(all, mem, (tpi_undone){.kind = GROUP, .group = group, .folder = -1}, "");
}

tpi_undone *tpi_undone_file(tpi_undones *all, tpi_mem *mem, int folder, const char *name)
{
    return put(all, mem, (tpi_undone){.kind = FILE_NAME, .folder = folder}, name);
}

tpi_undone *tpi_undone_folder(tpi_undones *all, tpi_mem *mem, int parent, const char *name)
{
    return put(all, mem, (tpi_undone){.kind = FOLDER_NAME, .folder = parent}, name);
}

void tpi_undone_done(tpi_undone *e)
{
    if (e)
        __atomic_store_n(&e->kind, FREE, __ATOMIC_RELEASE);
}

void tpi_undones_free(tpi_undones *all, tpi_mem *mem)
{
    tpi_undones *part = all->next;
    __atomic_store_n(&all->next, NULL, __ATOMIC_RELEASE);
    while (part) {
        tpi_undones *next = part->next;
        tpi_give_back(mem, part, sizeof *part);
        part = next;
    }
}

static bool is_own(const tpi_undone *e, int32_t kind)
{
    return __atomic_load_n(&e->kind, __ATOMIC_ACQUIRE) == kind && e->owner == getpid();
}

void tpi_undones_end(tpi_undones *all)
{
    const int kept = errno;
    for (const tpi_undones *p = all; p; p = next_part(p)) /* first, or they make files anew */
        for (int i = 0; i < N_PART; i++)
            if (is_own(&p->v[i], GROUP))
                kill(-p->v[i].group, SIGKILL);
    for (const tpi_undones *p = all; p; p = next_part(p))
        for (int i = 0; i < N_PART; i++) {
            const tpi_undone *e = &p->v[i];
            if (is_own(e, FILE_NAME))
                unlinkat(e->folder, e->name, 0);
            if (is_own(e, FOLDER_NAME))
                tpi_folder_remove(e->folder, e->name);
        }
    errno = kept;
}

void tpi_signals_off(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

void tpi_signals_on(const sigset_t *before)
{
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* ---- what is left over ---------------------------------------------------------------------- */

static bool has_name(int fd, int folder, const char *name)
{
    struct stat st, named;
    return fstat(fd, &st) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_ino == named.st_ino && st.st_dev == named.st_dev;
}

bool tpi_lock_new(int fd, int folder, const char *name)
{
    return (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
           has_name(fd, folder, name);
}

bool tpi_is_left_over(int fd, int folder, const char *name)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
           st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
           has_name(fd, folder, name);
}

/* ---- folders -------------------------------------------------------------------------------- */

/* As the kernel writes it: readdir takes memory, which a signal handler must not. */
typedef struct listed {
    uint64_t ino;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
} listed;

static void empty(int folder)
{
    _Alignas(listed) char list[2048];
    long n;
    lseek(folder, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, folder, list, sizeof list)) > 0)
        for (long at = 0; at < n;) {
            const listed *e = (const listed *)(const void *)(list + at);
            unlinkat(folder, e->name, 0); /* fails on . and .. */
            at += e->size;
        }
}

void tpi_folder_remove(int parent, const char *name)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    /* A process that was just killed may be about to make one more file. */
    static const struct timespec a_little = {.tv_nsec = 1000000};
    for (int i = 0; i < 50; i++) {
        empty(fd);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != ENOTEMPTY)
            break;
        nanosleep(&a_little, NULL);
    }
    close(fd);
}
