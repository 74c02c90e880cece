#define _GNU_SOURCE /* O_PATH */
#include "base/file.h"

#include "base/keep_errno.h"
#include "base/log.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_READ = 64 << 10 };

bool tpi_file_fail(tpi_file_error *e, tp_status status, const char *path, const char *fmt, ...)
{
    enum { ROOM = 120 }; /* of a long path the end says more than the beginning */
    if (e->status != TP_OK)
        return false;
    e->status = status;
    const size_t len = strlen(path), cut = len > ROOM ? len - ROOM : 0;
    const int n = tpi_print(e->text, sizeof e->text, "%s%s: ", cut ? "..." : "", path + cut);
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(e->text + n, sizeof e->text - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

static bool fail_errno(tpi_file_error *e, const char *path, int number)
{
    char text[80];
    return tpi_file_fail(e, number == ENOMEM ? TP_E_MEMORY : TP_E_IO, path, "%s",
                         tpi_errno_text(number, text, sizeof text));
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
        return tpi_file_fail(error, TP_E_IO, path, "is neither a file nor a pipe");

    if (limit > (SIZE_MAX >> 2))
        limit = SIZE_MAX >> 2;
    const bool regular = S_ISREG(st.st_mode);
    char why[80];
    snprintf(why, sizeof why, "has more than the %zu bytes allowed", limit);
    if (regular && (uint64_t)st.st_size > limit)
        return tpi_file_fail(error, TP_E_IO, path, "%s", why);
    b->capacity = regular ? (size_t)st.st_size + 1 : FIRST_READ; /* + 1 sees the end at once */
    b->data = tpi_take(mem, b->capacity);
    if (!b->data)
        return fail_errno(error, path, ENOMEM);
    for (;;) {
        if (b->size > limit)
            return tpi_file_fail(error, TP_E_IO, path, "%s", why);
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
    TPI_KEEP_ERRNO;
    *out = (tpi_file_bytes){0};
    *error = (tpi_file_error){0};
    if (!path)
        return tpi_file_fail(error, TP_E_NULL, "", "the path is NULL");
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
    TPI_KEEP_ERRNO;
    *out = (tpi_file_map){0};
    *error = (tpi_file_error){0};
    if (!path)
        return tpi_file_fail(error, TP_E_NULL, "", "the path is NULL");
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

void tpi_file_map_copy(const tpi_file_map *map, void *to, const char *from, size_t size)
{
    TPI_KEEP_ERRNO;
    enum { PAGES = 1 << 20, FEW = 1 << 16 };
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    while (map->mapped && size >= FEW) {
        const size_t part = size < PAGES ? size : PAGES;
        memcpy(to, from, part);
        const uintptr_t first = (uintptr_t)from & ~(page - 1);
        madvise((void *)first, (((uintptr_t)from + part) & ~(page - 1)) - first, MADV_DONTNEED);
        to = (char *)to + part;
        from += part;
        size -= part;
    }
    if (size)
        memcpy(to, from, size);
}

void tpi_file_map_close(tpi_mem *mem, tpi_file_map *map)
{
    TPI_KEEP_ERRNO;
    if (map->mapped)
        munmap(map->mapped, map->size);
    else
        tpi_file_free(mem, &map->bytes);
    *map = (tpi_file_map){0};
}

/* ---- writing -------------------------------------------------------------------------------- */

enum { MOST_NAMES = 1000, LEFT_OVER = 8 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The descriptor of the folder in which the file is to be. */
static bool open_folder(tpi_writer *w)
{
    const char *base = base_name(w->path);
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    if (base == w->path) {
        w->folder = open(".", flags);
    } else {
        const size_t size = (size_t)(base - w->path) + 1;
        char *path = tpi_take(w->mem, size);
        if (!path)
            return fail_errno(&w->error, w->path, ENOMEM);
        memcpy(path, w->path, size - 1);
        path[size - 1] = 0;
        w->folder = open(path, flags);
        const int error = errno;
        tpi_give_back(w->mem, path, size);
        errno = error;
    }
    return w->folder >= 0 ? true : fail_errno(&w->error, w->path, errno);
}

static void temp_name(tpi_writer *w, int i)
{
    snprintf(w->temp, sizeof w->temp, ".tapir-%d", i);
}

/* A process that was killed in a save has left one of the first names, so that nobody has to look
 * through the folder. */
static void remove_left_over(tpi_writer *w)
{
    for (int i = 0; i < LEFT_OVER; i++) {
        temp_name(w, i);
        const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        const int fd = openat(w->folder, w->temp, flags);
        if (fd < 0)
            continue;
        if (tpi_is_left_over(fd, w->folder, w->temp))
            unlinkat(w->folder, w->temp, 0);
        close(fd);
    }
}

/* A name that is free, in the folder of the file to be. */
static bool open_temp(tpi_writer *w, tpi_undones *undone)
{
    if (!open_folder(w))
        return false;
    remove_left_over(w);
    int error = EEXIST;
    for (int i = 0; i < MOST_NAMES && error == EEXIST; i++) {
        temp_name(w, i);
        sigset_t signals;
        tpi_signals_off(&signals);
        w->fd = openat(w->folder, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        error = w->fd >= 0 ? 0 : errno;
        if (!error && !tpi_lock_new(w->fd, w->folder, w->temp)) {
            close(w->fd);
            w->fd = -1;
            error = EEXIST;
        }
        if (!error)
            w->undone = tpi_undone_file(undone, w->mem, w->folder, w->temp);
        tpi_signals_on(&signals);
    }
    return error ? fail_errno(&w->error, w->path, error) : true;
}

void tpi_file_begin(tpi_writer *w, tpi_mem *mem, tpi_undones *undone, const char *path)
{
    TPI_KEEP_ERRNO;
    *w = (tpi_writer){.mem = mem, .fd = -1, .folder = -1, .path = path};
    struct stat st;
    if (!path)
        tpi_file_fail(&w->error, TP_E_NULL, "", "the path is NULL");
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        fail_errno(&w->error, path, EISDIR);
    else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a device would be replaced */
        tpi_file_fail(&w->error, TP_E_IO, path, "is there and is no regular file");
    else
        open_temp(w, undone);
}

void tpi_file_put(tpi_writer *w, const void *data, size_t size)
{
    TPI_KEEP_ERRNO;
    const char *p = data;
    while (size > 0 && w->error.status == TP_OK) {
        /* A signal waits until a piece is written, and whoever is to end at once for no longer. */
        const size_t piece = size < ((size_t)1 << 20) ? size : (size_t)1 << 20;
        const ssize_t n = write(w->fd, p, piece);
        if (n >= 0) {
            p += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            fail_errno(&w->error, w->path, errno);
        }
    }
}

/* The lock is held until the name is gone. */
static void close_writer(tpi_writer *w)
{
    sigset_t signals;
    tpi_signals_off(&signals);
    if (w->fd >= 0) {
        if (w->error.status == TP_OK &&
            renameat(w->folder, w->temp, w->folder, base_name(w->path)) != 0)
            fail_errno(&w->error, w->path, errno);
        if (w->error.status != TP_OK)
            unlinkat(w->folder, w->temp, 0);
        tpi_undone_done(w->undone);
        close(w->fd);
    }
    tpi_signals_on(&signals);
    if (w->folder >= 0)
        close(w->folder);
    w->fd = w->folder = -1;
}

bool tpi_file_end(tpi_writer *w)
{
    TPI_KEEP_ERRNO;
    if (w->error.status == TP_OK && fsync(w->fd) != 0)
        fail_errno(&w->error, w->path, errno);
    close_writer(w);
    return w->error.status == TP_OK;
}

void tpi_file_abandon(tpi_writer *w)
{
    TPI_KEEP_ERRNO;
    tpi_file_fail(&w->error, TP_E_STATE, w->path ? w->path : "", "was given up");
    close_writer(w);
}
