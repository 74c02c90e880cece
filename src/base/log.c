#include "base/log.h"

#include "base/env.h"
#include "base/strbuf.h"

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

static bool is_word(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

bool tpi_log_on(tpi_log_kind kind)
{
    const char *p = tpi_env(TPI_ENV_LOG);
    while (p && *p) {
        const size_t n = strcspn(p, ",");
        if (is_word(p, n, names[kind]) || is_word(p, n, "all"))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

void tpi_log_check(void)
{
    const char *p = tpi_env(TPI_ENV_LOG);
    while (p && *p) {
        const size_t n = strcspn(p, ",");
        bool known = n == 0 || is_word(p, n, "all");
        for (int i = 0; i < TPI_N_LOG && !known; i++)
            known = is_word(p, n, names[i]);
        if (!known)
            tpi_log_always(TPI_LOG_environment,
                           "TAPIR_LOG has \"%.*s\": there are "
#define LOG(name, about) #name ", "
#include "base/log.def"
#undef LOG
                           "and all",
                           (int)(n < 80 ? n : 80), p);
        p += n + (p[n] == ',');
    }
}

static void report(tpi_log_kind kind, const char *fmt, va_list ap)
{
    const int kept = errno;
    char line[1024];
    int n = snprintf(line, sizeof line, "tapir: %s: ", names[kind]);
    const int more = tpi_vprint(line + n, 1000 - (size_t)n, fmt, ap);
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

void tpi_log(tpi_log_kind kind, const char *fmt, ...)
{
    if (!tpi_log_on(kind))
        return;
    va_list ap;
    va_start(ap, fmt);
    report(kind, fmt, ap);
    va_end(ap);
}

void tpi_log_always(tpi_log_kind kind, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(kind, fmt, ap);
    va_end(ap);
}

void tpi_log_lines(tpi_log_kind kind, const char *text)
{
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, "\n");
        tpi_log_always(kind, "%.*s", (int)(n < 900 ? n : 900), p);
        p += n + (p[n] != 0);
    }
}

const char *tpi_errno_text(int error, char *buf, size_t size)
{
    if (strerror_r(error, buf, size) != 0)
        snprintf(buf, size, "error %d", error);
    return buf;
}
