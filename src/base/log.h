/* The log: lines on file descriptor 2 that TAPIR_LOG asks for, for people and for tests. */
#ifndef TAPIR_LOG_H
#define TAPIR_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tpi_log_kind {
#define LOG(name, about) TPI_LOG_##name,
#include "base/log.def"
#undef LOG
    TPI_N_LOG
} tpi_log_kind;

/* Whether TAPIR_LOG names this kind, or all. It is read each time: log what is rare. */
bool tpi_log_on(tpi_log_kind kind);
/* "tapir: compile: " and the text as one line and one write, cut at 1000 bytes; nothing when
 * the kind is off. */
void tpi_log(tpi_log_kind kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for what is said whether the kind is on or not: a line, and each line of a text. */
void tpi_log_always(tpi_log_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tpi_log_lines(tpi_log_kind kind, const char *text);

/* Says which words of TAPIR_LOG are no kinds. */
void tpi_log_check(void);

/* The C library's text for an errno, in the caller's buffer. */
const char *tpi_errno_text(int error, char *buf, size_t size);

#endif
