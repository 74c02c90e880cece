#include "idx_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAX_FILE ((size_t)1 << 30)

/* ---- a stream of bytes, unpacked on the way ------------------------------------------------ */

typedef struct source {
    z_stream z; /* next_in and avail_in serve plain bytes too */
    int packed;
} source;

static int open_source(source *s, const uint8_t *bytes, size_t size)
{
    memset(s, 0, sizeof *s);
    s->z.next_in = (Bytef *)(uintptr_t)bytes; /* zlib does not write there */
    s->z.avail_in = (uInt)size;
    s->packed = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    return !s->packed || inflateInit2(&s->z, 16 + MAX_WBITS) == Z_OK;
}

/* Up to n bytes; fewer at the end or where they are damaged. */
static size_t take(source *s, uint8_t *out, size_t n)
{
    if (!s->packed) {
        const size_t got = n < s->z.avail_in ? n : s->z.avail_in;
        memcpy(out, s->z.next_in, got);
        s->z.next_in += got;
        s->z.avail_in -= (uInt)got;
        return got;
    }
    s->z.next_out = out;
    s->z.avail_out = (uInt)n;
    while (s->z.avail_out > 0 && inflate(&s->z, Z_NO_FLUSH) == Z_OK)
        ;
    return n - s->z.avail_out;
}

static void close_source(source *s)
{
    if (s->packed)
        inflateEnd(&s->z);
}

/* ---- the format ------------------------------------------------------------------------------ */

/* Four bytes: 0, 0, the element type, the number of axes. A big-endian size per axis. Elements. */
static const char *parse(source *s, size_t size, idx_array *out)
{
    uint8_t head[4 + 4 * 4];
    if (take(s, head, 4) < 4 || head[0] != 0 || head[1] != 0)
        return "not an IDX file";
    if (head[2] != 8)
        return "its elements are not bytes";
    const int rank = head[3];
    if (rank < 1 || rank > 4)
        return "it has no axis, or more than four";
    if (take(s, head, 4 * (size_t)rank) < 4 * (size_t)rank)
        return "it ends in its head";
    /* A packed byte cannot stand for more than 1032 bytes, so a file cannot ask for memory it
     * does not fill. */
    const size_t most = size * 1032;
    size_t count = 1;
    for (int a = 0; a < rank; a++) {
        const uint8_t *p = head + 4 * a;
        const uint32_t n =
            (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        out->shape[a] = n;
        if (n && count > most / n)
            return "it ends before its elements do";
        count *= n;
    }
    if (count > MAX_FILE)
        return "it is larger than 1 GB";
    uint8_t *data = malloc(count + 1);
    if (!data)
        return "out of memory";
    const size_t got = take(s, data, count + 1);
    if (got != count) {
        free(data);
        return got < count ? "it is damaged or ends before its elements do"
                           : "it goes on after its elements";
    }
    out->rank = rank;
    out->data = data;
    return NULL;
}

const char *idx_parse(const uint8_t *bytes, size_t size, idx_array *out)
{
    memset(out, 0, sizeof *out);
    source s;
    if (size > MAX_FILE)
        return "it is larger than 1 GB";
    if (!open_source(&s, bytes, size))
        return "out of memory";
    const char *wrong = parse(&s, size, out);
    close_source(&s);
    return wrong;
}

const char *idx_read(const char *path, idx_array *out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return "it cannot be opened";
    uint8_t *bytes = NULL;
    size_t size = 0, room = 0, got = 0;
    do {
        size += got;
        if (size == room) {
            room = room ? room * 2 : (size_t)1 << 20;
            uint8_t *more = size < MAX_FILE ? realloc(bytes, room) : NULL;
            if (!more) {
                free(bytes);
                fclose(f);
                return size < MAX_FILE ? "out of memory" : "it is larger than 1 GB";
            }
            bytes = more;
        }
        got = fread(bytes + size, 1, room - size, f);
    } while (got > 0);
    const int bad = ferror(f);
    fclose(f);
    const char *wrong = bad ? "it cannot be read" : idx_parse(bytes, size, out);
    free(bytes);
    return wrong;
}
