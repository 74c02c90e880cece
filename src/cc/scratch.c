#define _GNU_SOURCE /* O_NOFOLLOW, O_DIRECTORY */
#include "cc/scratch.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TRIES = 1000 };
static const char prefix[] = "build-", temporary_prefix[] = "tapir-build-";

static bool report_errno(char *why, size_t size, const char *path, int error)
{
    char text[128];
    snprintf(why, size, "%s: %s", path, tpi_errno_text(error, text, sizeof text));
    return false;
}

static void remove_left_over(int parent, const char *start)
{
    const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, start, strlen(start)) != 0)
            continue;
        const int found =
            openat(parent, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (found >= 0 && tpi_is_left_over(found, parent, e->d_name))
            tpi_folder_remove(parent, e->d_name);
        if (found >= 0)
            close(found);
    }
    if (d)
        closedir(d);
}

static bool open_parent(tpi_scratch *s, int parent, const char *dir, char *why, size_t size)
{
    if (dir) {
        snprintf(s->dir, sizeof s->dir, "%s", dir);
        s->parent = fcntl(parent, F_DUPFD_CLOEXEC, 0);
        return s->parent >= 0 || report_errno(why, size, dir, errno);
    }
    const char *base = tpi_env_of("TMPDIR");
    base = base && *base == '/' ? base : "/tmp";
    if (strlen(base) >= sizeof s->dir)
        return report_errno(why, size, "TMPDIR", ENAMETOOLONG);
    snprintf(s->dir, sizeof s->dir, "%s", base);
    char reason[3 * TPI_PATH];
    s->parent = tpi_folder_open(base, false, reason, sizeof reason);
    if (s->parent < 0)
        snprintf(why, size, "TMPDIR %s", reason);
    return s->parent >= 0;
}

/* Makes the folder under a name that is free; an errno. */
static int make(tpi_scratch *s, tp_ctx *ctx, const char *start)
{
    int error = EEXIST;
    for (int i = 0; i < MOST_TRIES && error == EEXIST; i++) {
        const uint64_t number = (uint64_t)tpi_now_ns() ^ (uint64_t)getpid() << 32;
        snprintf(s->name, sizeof s->name, "%s%06llx", start,
                 (unsigned long long)tpi_mix64(number) & 0xffffff);
        sigset_t signals;
        tpi_signals_off(&signals);
        s->fd = tpi_folder_make(s->parent, s->name);
        error = s->fd >= 0 ? 0 : errno;
        if (!error && !tpi_lock_new(s->fd, s->parent, s->name)) {
            close(s->fd);
            s->fd = -1;
            error = EEXIST;
        }
        if (!error)
            s->undone = tpi_undone_folder(&ctx->undone, &ctx->mem, s->parent, s->name);
        tpi_signals_on(&signals);
    }
    return error;
}

bool tpi_scratch_make(tpi_scratch *s, tp_ctx *ctx, int parent, const char *dir, char *why,
                      size_t size)
{
    *s = (tpi_scratch){.parent = -1, .fd = -1};
    const char *start = dir ? prefix : temporary_prefix;
    if (!open_parent(s, parent, dir, why, size))
        return false;
    remove_left_over(s->parent, start);
    int error = make(s, ctx, start);
    const size_t n = strlen(s->dir);
    if (!error && n + strlen(s->name) + 2 > sizeof s->dir)
        error = ENAMETOOLONG;
    snprintf(s->dir + n, sizeof s->dir - n, "/%s", s->name);
    if (!error)
        return true;
    report_errno(why, size, s->dir, error);
    tpi_scratch_remove(s);
    return false;
}

void tpi_scratch_remove(tpi_scratch *s)
{
    sigset_t signals;
    tpi_signals_off(&signals);
    if (s->fd >= 0)
        tpi_folder_remove(s->parent, s->name);
    tpi_undone_done(s->undone);
    s->undone = NULL;
    tpi_signals_on(&signals);
    tpi_scratch_leave(s);
}

void tpi_scratch_leave(tpi_scratch *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->parent >= 0)
        close(s->parent);
    s->fd = s->parent = -1;
}
