#include "onnx/format/write.h"

#include <string.h>

static void put_varint(tpi_str *s, uint64_t v)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)(unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    tpi_str_add(s, bytes, n);
}

static void put_key(tpi_str *s, uint32_t field, uint32_t kind)
{
    put_varint(s, field << 3 | kind);
}

void tpi_pb_put_int(tpi_str *s, uint32_t field, int64_t value)
{
    put_key(s, field, TPI_PB_VARINT);
    put_varint(s, (uint64_t)value);
}

void tpi_pb_put_size(tpi_str *s, uint32_t field, uint64_t size)
{
    put_key(s, field, TPI_PB_BYTES);
    put_varint(s, size);
}

void tpi_pb_put_bytes(tpi_str *s, uint32_t field, const void *bytes, size_t size)
{
    tpi_pb_put_size(s, field, size);
    tpi_str_add(s, bytes, size);
}

void tpi_pb_put_text(tpi_str *s, uint32_t field, const char *text)
{
    tpi_pb_put_bytes(s, field, text, strlen(text));
}

size_t tpi_pb_begin(tpi_str *s, uint32_t field)
{
    put_key(s, field, TPI_PB_BYTES);
    return s->len;
}

/* The length goes in front of what is there by now. */
void tpi_pb_end(tpi_str *s, size_t mark)
{
    if (s->failed)
        return;
    const size_t size = s->len - mark;
    put_varint(s, size);
    if (s->failed)
        return;
    char length[10];
    const size_t n = s->len - mark - size;
    memcpy(length, s->text + mark + size, n);
    memmove(s->text + mark + n, s->text + mark, size);
    memcpy(s->text + mark, length, n);
}

/* Bytes of the character at p, 0 when it is none: too long a form, a surrogate, beyond 10FFFF. */
static size_t character(const unsigned char *p)
{
    if (p[0] < 0x80)
        return 1;
    const size_t n = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
                     : (p[0] & 0xf0) == 0xe0       ? 3
                     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                   : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

void tpi_pb_escape(tpi_str *s, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const size_t n = character(p);
        if (n)
            tpi_str_add(s, (const char *)p, n);
        else
            tpi_str_printf(s, "%%%02X", *p);
        p += n ? n : 1;
    }
}
