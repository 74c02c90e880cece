#define _GNU_SOURCE /* mkdtemp; O_NOFOLLOW, O_DIRECTORY */
#include "codegen/cache.h"

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The end of an entry. Entries never leave the machine, so its own byte order will do. */
typedef struct trailer {
    char magic[8];
    uint64_t object_size, text_size;
    uint64_t hash[2]; /* of both */
} trailer;

static const char magic[8] = "tapir01\n";
static const char scratch_prefix[] = "build-";
static const time_t scratch_age = 24 * 3600; /* longer than any compiler runs */

/* ---- the folder ----------------------------------------------------------------------------- */

static bool refuse(char *why, size_t size, const char *dir, const char *reason)
{
    snprintf(why, size, "cache folder %s: %s", dir, reason);
    return false;
}

static bool refuse_errno(char *why, size_t size, const char *dir, int error)
{
    char text[128];
    return refuse(why, size, dir, tpi_errno_text(error, text, sizeof text));
}

static bool choose_dir(char *out, const char *dir)
{
    if (!dir || !*dir)
        dir = tpi_env(TPI_ENV_CACHE);
    if (dir) {
        char here[TPI_PATH];
        if (*dir == '/')
            return snprintf(out, TPI_PATH, "%s", dir) < TPI_PATH;
        return getcwd(here, sizeof here) && tpi_path_join(out, here, dir);
    }
    const char *base = tpi_env_of("XDG_CACHE_HOME");
    if (base && *base == '/')
        return tpi_path_join(out, base, "tapir");
    base = tpi_env_of("HOME");
    return base && *base == '/' && tpi_path_join(out, base, ".cache/tapir");
}

/* Makes the folder and those above it, each for the user alone. */
static int make_dirs(const char *dir)
{
    char path[TPI_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST && access(path, F_OK) != 0)
            return errno;
        *p = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
}

bool tpi_cache_open(tpi_cache *c, const char *dir, char *why, size_t size)
{
    c->fd = -1;
    if (!choose_dir(c->dir, dir)) {
        snprintf(why, size, "cache folder: there is no HOME, or the path is too long");
        return false;
    }
    size_t n = strlen(c->dir);
    while (n > 1 && c->dir[n - 1] == '/') /* or a link would be followed */
        c->dir[--n] = 0;
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    c->fd = open(c->dir, flags);
    if (c->fd < 0 && errno == ENOENT) {
        const int error = make_dirs(c->dir);
        if (error)
            return refuse_errno(why, size, c->dir, error);
        c->fd = open(c->dir, flags);
    }
    struct stat st;
    if (c->fd < 0) {
        const int error = errno;
        if (lstat(c->dir, &st) == 0 && S_ISLNK(st.st_mode))
            return refuse(why, size, c->dir, "is a symbolic link");
        return refuse_errno(why, size, c->dir, error);
    }
    const char *reason = NULL;
    if (fstat(c->fd, &st) != 0)
        reason = "cannot be looked at";
    else if (st.st_uid != geteuid())
        reason = "belongs to another user";
    else if (st.st_mode & (S_IWGRP | S_IWOTH))
        reason = "may be written by other users";
    if (!reason)
        return true;
    tpi_cache_close(c);
    return refuse(why, size, c->dir, reason);
}

void tpi_cache_close(tpi_cache *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* ---- entries -------------------------------------------------------------------------------- */

void tpi_cache_name(char name[TPI_ENTRY_NAME], const tpi_piece *pieces, int n)
{
    tpi_hasher h;
    uint64_t hash[2];
    tpi_hash_begin(&h);
    for (int i = 0; i < n; i++)
        tpi_hash_add(&h, pieces[i].text, pieces[i].size);
    tpi_hash_end(&h, hash);
    snprintf(name, TPI_ENTRY_NAME, "%016llx%016llx.so", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}

static bool read_at(int fd, void *out, size_t size, uint64_t offset)
{
    char *p = out;
    while (size) {
        const ssize_t n = pread(fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* Goes along the pieces and compares. */
typedef struct cursor {
    const tpi_piece *piece, *end;
    size_t at;
    bool equal;
} cursor;

static void compare(cursor *c, const char *text, size_t size)
{
    while (size && c->equal) {
        while (c->piece < c->end && c->at == c->piece->size) {
            c->piece++;
            c->at = 0;
        }
        if (c->piece == c->end) {
            c->equal = false;
            return;
        }
        const size_t left = c->piece->size - c->at, n = size < left ? size : left;
        c->equal = memcmp(text, c->piece->text + c->at, n) == 0;
        c->at += n;
        text += n;
        size -= n;
    }
}

static uint64_t text_size(const tpi_piece *pieces, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += pieces[i].size;
    return sum;
}

/* NONE: damaged. */
static tpi_cache_answer check_entry(int fd, uint64_t size, const tpi_piece *pieces, int n)
{
    trailer t;
    if (size < sizeof t || !read_at(fd, &t, sizeof t, size - sizeof t) ||
        memcmp(t.magic, magic, sizeof magic) != 0)
        return TPI_CACHE_NONE;
    const uint64_t body = size - sizeof t;
    if (t.object_size > body || t.text_size != body - t.object_size)
        return TPI_CACHE_NONE;
    cursor text = {pieces, pieces + n, 0, t.text_size == text_size(pieces, n)};
    tpi_hasher h;
    tpi_hash_begin(&h);
    for (uint64_t at = 0; at < body;) {
        char chunk[16384];
        const uint64_t end = at < t.object_size ? t.object_size : body;
        const size_t m = end - at < sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        if (!read_at(fd, chunk, m, at))
            return TPI_CACHE_NONE;
        tpi_hash_add(&h, chunk, m);
        if (at >= t.object_size)
            compare(&text, chunk, m);
        at += m;
    }
    uint64_t hash[2];
    tpi_hash_end(&h, hash);
    if (memcmp(hash, t.hash, sizeof hash) != 0)
        return TPI_CACHE_NONE;
    return text.equal ? TPI_CACHE_HIT : TPI_CACHE_TAKEN;
}

tpi_cache_answer tpi_cache_find(const tpi_cache *c, const char *name, const tpi_piece *pieces,
                                int n)
{
    if (c->fd < 0)
        return TPI_CACHE_NONE;
    /* Not to hang on what is no file. */
    const int fd = openat(c->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ELOOP || errno == ENXIO) /* a link, a socket */
            tpi_cache_remove(c, name);
        return TPI_CACHE_NONE;
    }
    struct stat st;
    tpi_cache_answer answer = TPI_CACHE_NONE;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        answer = check_entry(fd, (uint64_t)st.st_size, pieces, n);
    if (answer == TPI_CACHE_HIT)
        futimens(fd, NULL); /* used now: removed late */
    close(fd);
    if (answer == TPI_CACHE_NONE) {
        tpi_log(TPI_LOG_compile, "%s/%s is damaged and was removed", c->dir, name);
        tpi_cache_remove(c, name);
    }
    return answer;
}

static int write_all(int fd, const void *data, size_t size)
{
    const char *p = data;
    while (size) {
        const ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

static int seal_fd(int fd, const tpi_piece *pieces, int n)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    trailer t = {.object_size = (uint64_t)st.st_size, .text_size = text_size(pieces, n)};
    memcpy(t.magic, magic, sizeof magic);
    tpi_hasher h;
    tpi_hash_begin(&h);
    for (uint64_t at = 0; at < t.object_size;) {
        char chunk[16384];
        const uint64_t left = t.object_size - at;
        const size_t m = left < sizeof chunk ? (size_t)left : sizeof chunk;
        if (!read_at(fd, chunk, m, at))
            return EIO;
        tpi_hash_add(&h, chunk, m);
        at += m;
    }
    int error = 0;
    for (int i = 0; i < n && !error; i++) {
        tpi_hash_add(&h, pieces[i].text, pieces[i].size);
        error = write_all(fd, pieces[i].text, pieces[i].size);
    }
    tpi_hash_end(&h, t.hash);
    return error ? error : write_all(fd, &t, sizeof t);
}

int tpi_cache_seal(const char *path, const tpi_piece *pieces, int n)
{
    const int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno;
    const int error = seal_fd(fd, pieces, n);
    return close(fd) == 0 || error ? error : errno;
}

int tpi_cache_put(const tpi_cache *c, const char *path, const char *name)
{
    return renameat(AT_FDCWD, path, c->fd, name) == 0 ? 0 : errno;
}

void tpi_cache_remove(const tpi_cache *c, const char *name)
{
    if (unlinkat(c->fd, name, 0) != 0 && (errno == EISDIR || errno == EPERM))
        unlinkat(c->fd, name, AT_REMOVEDIR);
}

/* ---- scratch folders ------------------------------------------------------------------------ */

int tpi_scratch_make(char dir[TPI_PATH], const tpi_cache *c)
{
    char name[32];
    snprintf(name, sizeof name, "%s%sXXXXXX", c ? "" : "tapir-", scratch_prefix);
    const char *base = c ? c->dir : tpi_env_of("TMPDIR");
    if (!tpi_path_join(dir, base && *base == '/' ? base : "/tmp", name))
        return ENAMETOOLONG;
    return mkdtemp(dir) ? 0 : errno;
}

/* Opens a folder's list; takes `fd`. */
static DIR *list(int fd)
{
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    return d;
}

static void remove_dir(int parent, const char *name)
{
    DIR *d = list(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0); /* fails on . and .. */
    closedir(d);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void tpi_scratch_remove(const char *dir)
{
    remove_dir(AT_FDCWD, dir);
}

/* ---- the limit ------------------------------------------------------------------------------ */

typedef struct found {
    int64_t used_ns;
    uint64_t size;
    char name[TPI_ENTRY_NAME];
} found;

static int by_age(const void *a, const void *b)
{
    const found *x = a, *y = b;
    return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Reads the folder into files[] (at most `room`); the number there were. Old scratch folders go. */
static size_t survey(const tpi_cache *c, found *files, size_t room, uint64_t *total)
{
    DIR *d = list(openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    size_t n = 0;
    *total = 0;
    if (!d)
        return 0;
    const time_t now = time(NULL);
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        const size_t len = strlen(e->d_name);
        if (fstatat(c->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            if (strncmp(e->d_name, scratch_prefix, sizeof scratch_prefix - 1) == 0 &&
                st.st_mtim.tv_sec < now - scratch_age)
                remove_dir(c->fd, e->d_name);
            continue;
        }
        if (!S_ISREG(st.st_mode) || len != 35 || strcmp(e->d_name + 32, ".so") != 0)
            continue;
        *total += (uint64_t)st.st_size;
        if (n < room) {
            files[n].size = (uint64_t)st.st_size;
            files[n].used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
            memcpy(files[n].name, e->d_name, len + 1);
        }
        n++;
    }
    closedir(d);
    return n;
}

void tpi_cache_trim(const tpi_cache *c, tpi_mem *mem, uint64_t limit)
{
    uint64_t total;
    const size_t n = survey(c, NULL, 0, &total);
    if (total <= limit)
        return;
    found *files = tpi_take(mem, n * sizeof *files);
    if (!files)
        return;
    size_t got = survey(c, files, n, &total);
    got = got < n ? got : n;
    qsort(files, got, sizeof *files, by_age);
    /* Some more than asked for, or the next object would make all this happen again. */
    for (size_t i = 0; i < got && total > limit - limit / 4; i++) {
        if (unlinkat(c->fd, files[i].name, 0) == 0)
            total -= files[i].size < total ? files[i].size : total;
    }
    tpi_give_back(mem, files, n * sizeof *files);
}
