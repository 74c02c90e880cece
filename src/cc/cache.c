#define _GNU_SOURCE /* O_NOFOLLOW, O_DIRECTORY */
#include "cc/cache.h"

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

/* ---- the folder ----------------------------------------------------------------------------- */

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

bool tpi_cache_open(tpi_cache *c, const char *dir, char *why, size_t size)
{
    c->fd = -1;
    if (!choose_dir(c->dir, dir)) {
        snprintf(why, size, "cache folder: there is no HOME, or the path is too long");
        return false;
    }
    size_t n = strlen(c->dir);
    while (n > 1 && c->dir[n - 1] == '/')
        c->dir[--n] = 0;
    char reason[3 * TPI_PATH];
    c->fd = tpi_folder_open_own(c->dir, true, reason, sizeof reason);
    if (c->fd >= 0)
        return true;
    if (strncmp(reason, c->dir, n) == 0 && reason[n] == ':')
        snprintf(why, size, "cache folder %s", reason);
    else
        snprintf(why, size, "cache folder %s: above it %s", c->dir, reason);
    return false;
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
                                int n, int *object)
{
    *object = -1;
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
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH))) /* who may write to it can do so after the look */
        answer = check_entry(fd, (uint64_t)st.st_size, pieces, n);
    if (answer == TPI_CACHE_HIT) {
        futimens(fd, NULL); /* used now: removed late */
        *object = fd;
        return answer;
    }
    close(fd);
    if (answer == TPI_CACHE_NONE) {
        tpi_log(TPI_LOG_compile, "%s/%s is damaged, or not this user's alone, and was removed",
                c->dir, name);
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

int tpi_cache_seal(int fd, const tpi_piece *pieces, int n)
{
    struct stat st;
    if (fchmod(fd, 0700) != 0 || fstat(fd, &st) != 0) /* a linker goes by the umask */
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

int tpi_cache_put(const tpi_cache *c, int folder, const char *object, const char *name)
{
    return renameat(folder, object, c->fd, name) == 0 ? 0 : errno;
}

void tpi_cache_remove(const tpi_cache *c, const char *name)
{
    if (unlinkat(c->fd, name, 0) != 0 && (errno == EISDIR || errno == EPERM))
        unlinkat(c->fd, name, AT_REMOVEDIR);
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

/* Reads the folder into files[] (at most `room`); the number there were. */
static size_t survey(const tpi_cache *c, found *files, size_t room, uint64_t *total)
{
    const int fd = openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    size_t n = 0;
    *total = 0;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        const size_t len = strlen(e->d_name);
        if (fstatat(c->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
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
