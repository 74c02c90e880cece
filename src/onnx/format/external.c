#include "onnx/format/external.h"

#include "base/keep_errno.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LOCATION = 1024 };

typedef struct reason {
    char *text;
    size_t size;
    const char *location;
} reason;

static tp_status report(const reason *r, tp_status status, const char *what)
{
    snprintf(r->text, r->size, "external data \"%.100s\" %s", r->location, what);
    return status;
}

static tp_status report_errno(const reason *r, int error)
{
    char buf[80];
    if (error == ELOOP || error == EMLINK || error == ENOTDIR)
        return report(r, TP_E_IO,
                      "is, or goes through, a symbolic link: only files and folders within the "
                      "model's folder are read");
    snprintf(r->text, r->size, "external data \"%.100s\": %s%s", r->location,
             tpi_errno_text(error, buf, sizeof buf),
             error == ENOENT ? " (it has to lie in the folder of the model)" : "");
    return TP_E_IO;
}

static bool is_part(const char *part, size_t len)
{
    return len > 0 && !(len == 2 && part[0] == '.' && part[1] == '.');
}

/* Goes down from the folder, one part of the path after the other. `path` is cut at its slashes
 * for the while. */
static int open_below(const char *folder, char *path, int *error)
{
    int at = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char *part = path; at >= 0;) {
        char *slash = strchr(part, '/');
        if (slash)
            *slash = 0;
        const int kind = slash ? O_DIRECTORY : O_NONBLOCK; /* a pipe is not waited for */
        const int next = openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind);
        *error = errno;
        close(at);
        if (slash)
            *slash = '/';
        if (!slash || next < 0)
            return next;
        at = next;
        part = slash + 1;
    }
    *error = errno;
    return at;
}

static tp_status open_file(tpi_external *e, tpi_span location, const reason *r)
{
    char path[MAX_LOCATION];
    int error = 0;
    memcpy(path, location.at, location.size);
    path[location.size] = 0;
    const int fd = open_below(e->folder, path, &error);
    if (fd < 0)
        return report_errno(r, error);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return report(r, TP_E_IO, "is no regular file");
    }
    tpi_external_close(e);
    e->fd = fd;
    e->size = st.st_size;
    e->location = location;
    return TP_OK;
}

static tp_status check_location(const tpi_external *e, tpi_span location, const reason *r)
{
    if (!e->folder)
        return report(r, TP_E_IO,
                      "lies in no folder: the model was given as bytes without one");
    if (location.size == 0 || location.size >= MAX_LOCATION ||
        memchr(location.at, 0, location.size))
        return report(r, TP_E_FORMAT, "is no path");
    for (size_t at = 0; at <= location.size;) {
        const char *slash = memchr(location.at + at, '/', location.size - at);
        const size_t end = slash ? (size_t)(slash - location.at) : location.size;
        if (!is_part(location.at + at, end - at))
            return report(
                r, TP_E_FORMAT,
                "is refused: the path is to be relative and to go down from the model's "
                "folder");
        at = end + 1;
    }
    return TP_OK;
}

tp_status tpi_external_read(tpi_external *e, tpi_span location, int64_t offset, int64_t bytes,
                            void *out, char *why, size_t why_size)
{
    TPI_KEEP_ERRNO;
    char shown[101];
    snprintf(shown, sizeof shown, "%.*s", location.size < 100 ? (int)location.size : 100,
             location.size ? location.at : "");
    const reason r = {why, why_size, shown};
    tp_status status = check_location(e, location, &r);
    const bool is_open = e->fd >= 0 && location.size == e->location.size &&
                         memcmp(location.at, e->location.at, location.size) == 0;
    if (status == TP_OK && !is_open)
        status = open_file(e, location, &r);
    if (status != TP_OK)
        return status;
    if (offset < 0 || bytes < 0 || offset > e->size || bytes > e->size - offset)
        return report(&r, TP_E_FORMAT, "is too short for what the model says is in it");
    for (char *p = out; p && bytes > 0;) {
        const ssize_t n =
            pread(e->fd, p, bytes < 1 << 30 ? (size_t)bytes : (size_t)1 << 30, (off_t)offset);
        if (n > 0) {
            p += n;
            offset += n;
            bytes -= n;
        } else if (n == 0) {
            return report(&r, TP_E_IO, "became shorter while it was read");
        } else if (errno != EINTR) {
            return report_errno(&r, errno);
        }
    }
    return TP_OK;
}

void tpi_external_close(tpi_external *e)
{
    TPI_KEEP_ERRNO;
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    e->location = (tpi_span){0};
}
