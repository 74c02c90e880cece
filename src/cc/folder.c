#define _GNU_SOURCE /* O_PATH */
#include "cc/folder.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tpi_path_join(char *out, const char *dir, const char *name)
{
    const int n = snprintf(out, TPI_PATH, "%s/%s", dir, name);
    return n >= 0 && n < TPI_PATH;
}

/* ---- the way down --------------------------------------------------------------------------- */

enum { MOST_LINKS = 40 };

/* Where it is on the way. */
typedef struct walk {
    int fd;
    int links;               /* followed so far */
    char at[2 * TPI_PATH];   /* the path of fd */
    char rest[2 * TPI_PATH]; /* what is still to go */
    char *why;
    size_t size;
} walk;

static int stop(walk *w, const char *reason)
{
    snprintf(w->why, w->size, "%s: %s", w->at[0] ? w->at : "/", reason);
    if (w->fd >= 0)
        close(w->fd);
    return w->fd = -1;
}

static int stop_errno(walk *w, int error)
{
    char text[128];
    return stop(w, tpi_errno_text(error, text, sizeof text));
}

/* Why others could change it; NULL: they cannot. */
static const char *distrust(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "belongs to another user";
    if (S_ISDIR(st->st_mode) && st->st_mode & (S_IWGRP | S_IWOTH) && !(st->st_mode & S_ISVTX))
        return "may be written by other users";
    return NULL;
}

/* Takes the first name off the rest; NULL at the end. */
static const char *next_name(walk *w, char name[2 * TPI_PATH])
{
    const char *from = w->rest + strspn(w->rest, "/");
    const size_t n = strcspn(from, "/");
    memcpy(name, from, n);
    name[n] = 0;
    memmove(w->rest, from + n, strlen(from + n) + 1);
    return n ? name : NULL;
}

static int root(walk *w)
{
    const int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->fd >= 0)
        close(w->fd);
    w->at[0] = 0;
    return w->fd = fd;
}

/* Goes on where the link `fd` leads to; takes `fd`. */
static int follow(walk *w, int fd)
{
    char to[TPI_PATH];
    const ssize_t n = readlinkat(fd, "", to, sizeof to);
    close(fd);
    if (n <= 0 || ++w->links > MOST_LINKS)
        return stop_errno(w, ELOOP);
    const size_t left = strlen(w->rest);
    if ((size_t)n == sizeof to || (size_t)n + left + 2 > sizeof w->rest)
        return stop_errno(w, ENAMETOOLONG);
    memmove(w->rest + n + 1, w->rest, left + 1);
    memcpy(w->rest, to, (size_t)n);
    w->rest[n] = '/';
    if (to[0] == '/')
        return root(w) < 0 ? stop_errno(w, errno) : w->fd;
    char *last = strrchr(w->at, '/'); /* the link's own name */
    if (last)
        *last = 0;
    return w->fd;
}

/* One name further. */
static int step_to(walk *w, const char *name, bool make)
{
    const size_t n = strlen(w->at), more = strlen(name);
    if (n + more + 2 > sizeof w->at)
        return stop_errno(w, ENAMETOOLONG);
    w->at[n] = '/';
    memcpy(w->at + n + 1, name, more + 1);
    const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC; /* of a link: the link */
    int fd = openat(w->fd, name, flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(w->fd, name, 0700) != 0 && errno != EEXIST)
            return stop_errno(w, errno);
        fd = openat(w->fd, name, flags);
    }
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return stop_errno(w, error);
    }
    const char *reason = distrust(&st);
    if (reason) {
        close(fd);
        return stop(w, reason);
    }
    if (S_ISLNK(st.st_mode))
        return follow(w, fd);
    close(w->fd);
    w->fd = fd;
    return S_ISDIR(st.st_mode) ? fd : stop_errno(w, ENOTDIR);
}

int tpi_folder_open(const char *path, bool make, char *why, size_t size)
{
    walk w = {.fd = -1, .why = why, .size = size};
    struct stat st;
    if (strlen(path) >= TPI_PATH)
        return stop_errno(&w, ENAMETOOLONG);
    memcpy(w.rest, path, strlen(path) + 1);
    if (root(&w) < 0 || fstat(w.fd, &st) != 0)
        return stop_errno(&w, errno);
    const char *reason = distrust(&st);
    if (reason)
        return stop(&w, reason);
    char name[2 * TPI_PATH];
    while (next_name(&w, name))
        if (strcmp(name, ".") != 0 && step_to(&w, name, make) < 0)
            return -1;
    const int fd = openat(w.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return stop_errno(&w, errno);
    close(w.fd);
    return fd;
}

int tpi_folder_open_own(const char *path, bool make, char *why, size_t size)
{
    char bare[TPI_PATH];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* or a link would be followed */
        n--;
    struct stat st;
    snprintf(bare, sizeof bare, "%.*s", (int)n, path);
    if (lstat(bare, &st) == 0 && S_ISLNK(st.st_mode)) {
        snprintf(why, size, "%s: is a symbolic link", bare);
        return -1;
    }
    const int fd = tpi_folder_open(path, make, why, size);
    const char *reason = NULL;
    if (fd >= 0 && fstat(fd, &st) != 0)
        reason = "cannot be looked at";
    else if (fd >= 0 && st.st_uid != geteuid())
        reason = "belongs to another user";
    else if (fd >= 0 && st.st_mode & (S_IWGRP | S_IWOTH))
        reason = "may be written by other users";
    if (!reason)
        return fd;
    close(fd);
    snprintf(why, size, "%s: %s", bare, reason);
    return -1;
}

int tpi_folder_make(int parent, const char *name)
{
    if (mkdirat(parent, name, 0700) != 0)
        return -1;
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}
