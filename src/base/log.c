#include "base/log.h"

#include "base/env.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define LOG(name, about) #name,
#include "base/log.def"
#undef LOG
};

bool tpi_log_on(tpi_log_kind kind)
{
    const char *p = tpi_env(TPI_ENV_LOG);
    while (p && *p) {
        const size_t n = strcspn(p, ",");
        if ((n == strlen(names[kind]) && memcmp(p, names[kind], n) == 0) ||
            (n == 3 && memcmp(p, "all", 3) == 0))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

void tpi_log(tpi_log_kind kind, const char *fmt, ...)
{
    if (!tpi_log_on(kind))
        return;
    const int kept = errno;
    char line[1024];
    int n = snprintf(line, sizeof line, "tapir: %s: ", names[kind]);
    va_list ap;
    va_start(ap, fmt);
    const int more = vsnprintf(line + n, 1000 - (size_t)n, fmt, ap);
    va_end(ap);
    if (more > 0)
        n += more < 1000 - n ? more : 1000 - n - 1;
    for (int i = 0; i < n; i++) {
        if (line[i] == '\n')
            line[i] = ' ';
    }
    line[n++] = '\n';
    /* A log that cannot be written is no reason to fail. */
    const ssize_t ignored = write(STDERR_FILENO, line, (size_t)n);
    (void)ignored;
    errno = kept;
}

const char *tpi_errno_text(int error, char *buf, size_t size)
{
    if (strerror_r(error, buf, size) != 0)
        snprintf(buf, size, "error %d", error);
    return buf;
}
