#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_READ = 64 << 10 };

static bool fail_text(tpi_file_error *e, const char *path, tp_status status, const char *why)
{
    if (e->status != TP_OK)
        return false;
    e->status = status;
    /* Of a long path the end says more than the beginning. */
    const size_t room = sizeof e->text - 80, len = strlen(path);
    snprintf(e->text, sizeof e->text, "%s%s: %s", len > room ? "..." : "",
             len > room ? path + (len - room) : path, why);
    return false;
}

static bool fail_errno(tpi_file_error *e, const char *path, int number)
{
    char why[80];
    if (strerror_r(number, why, sizeof why) != 0)
        snprintf(why, sizeof why, "error %d", number);
    return fail_text(e, path, number == ENOMEM ? TP_E_MEMORY : TP_E_IO, why);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Makes room for one byte more at least, but not beyond limit + 1 bytes. */
static bool more_room(tpi_mem *mem, tpi_file_bytes *b, size_t limit)
{
    size_t capacity = b->capacity <= limit / 2 ? b->capacity * 2 : limit + 1;
    capacity = capacity ? capacity : 1;
    char *p = tpi_resize(mem, b->data, b->capacity, capacity);
    if (!p)
        return false;
    b->data = p;
    b->capacity = capacity;
    return true;
}

static bool read_all(tpi_mem *mem, int fd, const char *path, size_t limit, tpi_file_bytes *b,
                     tpi_file_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(error, path, errno);
    if (S_ISDIR(st.st_mode))
        return fail_errno(error, path, EISDIR);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return fail_text(error, path, TP_E_IO, "is neither a file nor a pipe");

    if (limit > (SIZE_MAX >> 2))
        limit = SIZE_MAX >> 2;
    const bool regular = S_ISREG(st.st_mode);
    char why[80];
    snprintf(why, sizeof why, "has more than the %zu bytes allowed", limit);
    if (regular && (uint64_t)st.st_size > limit)
        return fail_text(error, path, TP_E_IO, why);
    b->capacity = regular ? (size_t)st.st_size + 1 : FIRST_READ; /* + 1 sees the end at once */
    b->data = tpi_take(mem, b->capacity);
    if (!b->data)
        return fail_errno(error, path, ENOMEM);
    for (;;) {
        if (b->size > limit)
            return fail_text(error, path, TP_E_IO, why);
        if (b->size == b->capacity && !more_room(mem, b, limit))
            return fail_errno(error, path, ENOMEM);
        const ssize_t n = read(fd, b->data + b->size, b->capacity - b->size);
        if (n == 0)
            return true;
        if (n > 0)
            b->size += (size_t)n;
        else if (errno != EINTR)
            return fail_errno(error, path, errno);
    }
}

bool tpi_file_read(tpi_mem *mem, const char *path, size_t limit, tpi_file_bytes *out,
                   tpi_file_error *error)
{
    *out = (tpi_file_bytes){0};
    *error = (tpi_file_error){0};
    if (!path)
        return fail_text(error, "", TP_E_NULL, "the path is NULL");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(error, path, errno);
    const bool ok = read_all(mem, fd, path, limit, out, error);
    close(fd);
    if (!ok)
        tpi_file_free(mem, out);
    return ok;
}

void tpi_file_free(tpi_mem *mem, tpi_file_bytes *b)
{
    tpi_give_back(mem, b->data, b->capacity);
    *b = (tpi_file_bytes){0};
}

bool tpi_file_map_open(tpi_mem *mem, const char *path, tpi_file_map *out, tpi_file_error *error)
{
    *out = (tpi_file_map){0};
    *error = (tpi_file_error){0};
    if (!path)
        return fail_text(error, "", TP_E_NULL, "the path is NULL");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(error, path, errno);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        (uint64_t)st.st_size < SIZE_MAX / 2) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            out->mapped = p;
            out->data = p;
            out->size = (size_t)st.st_size;
        }
    }
    bool ok = true;
    if (!out->mapped) {
        ok = read_all(mem, fd, path, SIZE_MAX, &out->bytes, error);
        out->data = out->bytes.data;
        out->size = out->bytes.size;
    }
    close(fd);
    if (!ok)
        tpi_file_free(mem, &out->bytes);
    return ok;
}

void tpi_file_map_close(tpi_mem *mem, tpi_file_map *map)
{
    if (map->mapped)
        munmap(map->mapped, map->size);
    else
        tpi_file_free(mem, &map->bytes);
    *map = (tpi_file_map){0};
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A name that is free, in the folder of the file to be. */
static bool open_temp(tpi_writer *w)
{
    const char *slash = strrchr(w->path, '/');
    const int folder = slash ? (int)(slash - w->path) + 1 : 0;
    w->temp_size = (size_t)folder + 48;
    w->temp = tpi_take(w->mem, w->temp_size);
    if (!w->temp)
        return fail_errno(&w->error, w->path, ENOMEM);
    for (int i = 0; i < 1000; i++) {
        snprintf(w->temp, w->temp_size, "%.*s.tapir-%ld-%d", folder, w->path, (long)getpid(),
                 i);
        w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST)
            break;
    }
    return w->fd >= 0 ? true : fail_errno(&w->error, w->path, errno);
}

void tpi_file_begin(tpi_writer *w, tpi_mem *mem, const char *path)
{
    *w = (tpi_writer){.mem = mem, .fd = -1, .path = path};
    struct stat st;
    if (!path)
        fail_text(&w->error, "", TP_E_NULL, "the path is NULL");
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        fail_errno(&w->error, path, EISDIR);
    else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a device would be replaced */
        fail_text(&w->error, path, TP_E_IO, "is there and is no regular file");
    else
        open_temp(w);
}

void tpi_file_put(tpi_writer *w, const void *data, size_t size)
{
    const char *p = data;
    while (size > 0 && w->error.status == TP_OK) {
        const size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        const ssize_t n = write(w->fd, p, piece);
        if (n >= 0) {
            p += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            fail_errno(&w->error, w->path, errno);
        }
    }
}

static void close_writer(tpi_writer *w)
{
    if (w->fd >= 0 && close(w->fd) != 0)
        fail_errno(&w->error, w->path, errno);
    const bool made = w->fd >= 0;
    w->fd = -1;
    if (made && w->error.status == TP_OK && rename(w->temp, w->path) != 0)
        fail_errno(&w->error, w->path, errno);
    if (made && w->error.status != TP_OK)
        unlink(w->temp);
    tpi_give_back(w->mem, w->temp, w->temp_size);
    w->temp = NULL;
}

bool tpi_file_end(tpi_writer *w)
{
    if (w->error.status == TP_OK && fsync(w->fd) != 0)
        fail_errno(&w->error, w->path, errno);
    close_writer(w);
    return w->error.status == TP_OK;
}

void tpi_file_abandon(tpi_writer *w)
{
    fail_text(&w->error, w->path ? w->path : "", TP_E_STATE, "was given up");
    close_writer(w);
}
