#include "base/strbuf.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

int tpi_vprint(char *out, size_t size, const char *fmt, va_list ap)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* takes no memory */
    const locale_t before = plain ? uselocale(plain) : (locale_t)0;
    const int n = vsnprintf(out, size, fmt, ap);
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    return n;
}

int tpi_print(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = tpi_vprint(out, size, fmt, ap);
    va_end(ap);
    return n;
}

static bool reserve(tpi_str *s, size_t more)
{
    if (s->failed)
        return false;
    if (s->len + more + 1 <= s->size)
        return true;
    size_t size = s->size ? s->size * 2 : 256;
    while (size < s->len + more + 1)
        size *= 2;
    char *text = tpi_resize(s->mem, s->text, s->size, size);
    if (!text) {
        s->failed = true;
        return false;
    }
    s->text = text;
    s->size = size;
    return true;
}

char *tpi_str_room(tpi_str *s, size_t len)
{
    if (!reserve(s, len))
        return NULL;
    char *const room = s->text + s->len;
    s->len += len;
    s->text[s->len] = 0;
    return room;
}

void tpi_str_add(tpi_str *s, const char *text, size_t len)
{
    char *const room = tpi_str_room(s, len);
    if (room)
        memcpy(room, text, len);
}

void tpi_str_put(tpi_str *s, const char *text)
{
    tpi_str_add(s, text, strlen(text));
}

void tpi_str_printf(tpi_str *s, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = tpi_vprint(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(s, (size_t)n)) {
        tpi_vprint(s->text + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

void tpi_str_fit(tpi_str *s)
{
    char *text = s->text ? tpi_resize(s->mem, s->text, s->size, s->len + 1) : NULL;
    if (!text)
        return;
    s->text = text;
    s->size = s->len + 1;
}

void tpi_str_free(tpi_str *s)
{
    tpi_give_back(s->mem, s->text, s->size);
    *s = TPI_STR(s->mem);
}
