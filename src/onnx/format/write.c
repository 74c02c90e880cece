#include "onnx/format/write.h"

#include "ir/notation.h"

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

void tpi_pb_escape(tpi_str *s, const char *text)
{
    const char *limit = text + strlen(text);
    for (const char *p = text; p < limit;) {
        const int n = tpi_utf8_length(p, limit);
        if (n)
            tpi_str_add(s, p, (size_t)n);
        else
            tpi_str_printf(s, "%%%02X", (unsigned char)*p);
        p += n ? n : 1;
    }
}
