/* Text that grows. A failed allocation sticks and is asked for once, at the end. */
#ifndef TAPIR_STRBUF_H
#define TAPIR_STRBUF_H

#include "base/mem.h"

#include <stdarg.h>

typedef struct tpi_str {
    tpi_mem *mem;
    char *text; /* NUL-terminated once anything was added */
    size_t len, size;
    bool failed;
} tpi_str;

#define TPI_STR(m) ((tpi_str){.mem = (m)})

void tpi_str_add(tpi_str *s, const char *text, size_t len);
void tpi_str_put(tpi_str *s, const char *text);
void tpi_str_printf(tpi_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for so many characters more, which the caller fills; NULL when out of memory. */
char *tpi_str_room(tpi_str *s, size_t len);
/* Gives back the room behind the text, which stays. */
void tpi_str_fit(tpi_str *s);
void tpi_str_free(tpi_str *s);

/* snprintf and vsnprintf, but numbers have a point whatever the locale of the host. */
int tpi_print(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int tpi_vprint(char *out, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

#endif
