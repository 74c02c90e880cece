#include "train/zip.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = 0x04034b50,     /* before each member, */
    CENTRAL = 0x02014b50,   /* in the directory, for each, */
    END = 0x06054b50,       /* behind it, */
    END64 = 0x06064b50,     /* and before that, where numbers are large, */
    LOCATOR64 = 0x07064b50, /* with its place */
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR64_BYTES = 20,
    MOST_COMMENT = 65535,
    STORED = 0,
    DEFLATED = 8,
    MOST_SQUEEZED = 1032 /* times: no stream of DEFLATE becomes more */
};
#define LARGE UINT32_MAX /* in place of a number, which stands in 64 bits elsewhere */

/* ---- reading ---------------------------------------------------------------------------------------- */

/* The directory. */
typedef struct directory {
    uint64_t at, size, n;
} directory;

/* What lies at the end, and says where the directory is; NULL: nothing does. */
static const char *find_end(const tpi_file_map *map)
{
    const size_t most = END_BYTES + MOST_COMMENT;
    for (size_t back = END_BYTES; back <= map->size && back <= most; back++) {
        const char *p = map->data + map->size - back;
        if (tpi_little(p, 4) == END && tpi_little(p + 20, 2) == back - END_BYTES)
            return p;
    }
    return NULL;
}

static bool read_end(const tpi_archive_reader *r, const tpi_file_map *map, directory *d)
{
    const char *p = find_end(map);
    if (!p)
        return TPI_ARCHIVE_BAD(r, "it is cut: no directory of the zip is at its end");
    uint64_t end = (uint64_t)(p - map->data);
    bool parts = tpi_little(p + 4, 2) || tpi_little(p + 6, 2);
    *d = (directory){tpi_little(p + 16, 4), tpi_little(p + 12, 4), tpi_little(p + 10, 2)};
    if (end >= LOCATOR64_BYTES && tpi_little(p - LOCATOR64_BYTES, 4) == LOCATOR64) {
        const uint64_t at = tpi_little(p - LOCATOR64_BYTES + 8, 8);
        if (at > end || end - at < END64_BYTES + LOCATOR64_BYTES ||
            tpi_little(map->data + at, 4) != END64)
            return TPI_ARCHIVE_BAD(r, "the directory of the zip is not where it should be");
        p = map->data + at;
        end = at;
        parts = tpi_little(p + 16, 4) || tpi_little(p + 20, 4);
        *d = (directory){tpi_little(p + 48, 8), tpi_little(p + 40, 8), tpi_little(p + 32, 8)};
    }
    if (parts)
        return TPI_ARCHIVE_BAD(r, "it is one of several parts of a zip");
    if (d->at > end || d->size != end - d->at || d->n > d->size / CENTRAL_BYTES)
        return TPI_ARCHIVE_BAD(r, "the directory of the zip does not lie before its end");
    return true;
}

/* Numbers that are too large for their places stand in an extra field, in their order. */
static bool read_large(const char *extra, size_t size, int n, uint64_t *const *v)
{
    for (size_t at = 0; at + 4 <= size;) {
        const size_t length = tpi_little(extra + at + 2, 2);
        if (length > size - at - 4)
            return false;
        if (tpi_little(extra + at, 2) == 1) {
            size_t used = 0;
            for (int i = 0; i < n; i++)
                if (*v[i] == LARGE) {
                    if (used + 8 > length)
                        return false;
                    *v[i] = tpi_little(extra + at + 4 + used, 8);
                    used += 8;
                }
            return true;
        }
        at += 4 + length;
    }
    return true;
}

#define NAME(m) (int)((m)->name_length < 60 ? (m)->name_length : 60), (m)->name

/* Its own header, which says where its bytes begin. */
static bool read_local(const tpi_archive_reader *r, const tpi_file_map *map, uint64_t end,
                       tpi_zip_member *m)
{
    const bool fits = m->header <= end && end - m->header >= LOCAL_BYTES;
    const char *p = map->data + (fits ? m->header : 0);
    const bool is = fits && tpi_little(p, 4) == LOCAL;
    const uint64_t left = is ? end - m->header - LOCAL_BYTES : 0;
    const size_t name = is ? tpi_little(p + 26, 2) : 0, extra = is ? tpi_little(p + 28, 2) : 0;
    if (!is || name != m->name_length || left < name + extra ||
        memcmp(p + LOCAL_BYTES, m->name, name) != 0)
        return TPI_ARCHIVE_BAD(r, "\"%.*s\" is not where the directory of the zip says",
                               NAME(m));
    m->at = m->header + LOCAL_BYTES + name + extra;
    if (end - m->at < m->packed)
        return TPI_ARCHIVE_BAD(r, "\"%.*s\" has %" PRIu64 " bytes, %" PRIu64 " are there",
                               NAME(m), m->packed, end - m->at);
    return true;
}

static bool check_member(const tpi_archive_reader *r, const tpi_zip_member *m, uint64_t flags,
                         uint64_t method)
{
    if (memchr(m->name, 0, m->name_length))
        return TPI_ARCHIVE_BAD(r, "a name has a 0 in it");
    if (flags & 1)
        return TPI_ARCHIVE_BAD(r, "\"%.*s\" is encrypted", NAME(m));
    if (method != STORED && method != DEFLATED)
        return TPI_ARCHIVE_BAD(r,
                               "\"%.*s\" is squeezed by method %" PRIu64
                               "; 0 (not at all) and 8 (deflated) can be read",
                               NAME(m), method);
    if (method == STORED ? m->size != m->packed : m->size / MOST_SQUEEZED > m->packed)
        return TPI_ARCHIVE_BAD(r, "\"%.*s\" says to be %" PRIu64 " bytes, squeezed to %" PRIu64,
                               NAME(m), m->size, m->packed);
    return true;
}

/* Of a directory that ends at `limit`; returns what comes behind, or NULL. */
static const char *read_member(const tpi_archive_reader *r, const tpi_file_map *map,
                               const directory *d, const char *p, const char *limit,
                               tpi_zip_member *m)
{
    const size_t left = (size_t)(limit - p);
    const bool is = left >= CENTRAL_BYTES && tpi_little(p, 4) == CENTRAL;
    const size_t name = is ? tpi_little(p + 28, 2) : 0, extra = is ? tpi_little(p + 30, 2) : 0,
                 comment = is ? tpi_little(p + 32, 2) : 0;
    if (!is || left - CENTRAL_BYTES < name + extra + comment) {
        TPI_ARCHIVE_BAD(r, "the directory of the zip is damaged");
        return NULL;
    }
    *m = (tpi_zip_member){.name = p + CENTRAL_BYTES,
                          .name_length = name,
                          .header = tpi_little(p + 42, 4),
                          .packed = tpi_little(p + 20, 4),
                          .size = tpi_little(p + 24, 4),
                          .sum = (uint32_t)tpi_little(p + 16, 4),
                          .squeezed = tpi_little(p + 10, 2) == DEFLATED};
    if (!read_large(m->name + name, extra, 3,
                    (uint64_t *[]){&m->size, &m->packed, &m->header})) {
        TPI_ARCHIVE_BAD(r, "the directory of the zip is damaged");
        return NULL;
    }
    return check_member(r, m, tpi_little(p + 8, 2), tpi_little(p + 10, 2)) &&
                   read_local(r, map, d->at, m)
               ? p + CENTRAL_BYTES + name + extra + comment
               : NULL;
}

static int by_place(const void *a, const void *b)
{
    const tpi_zip_member *x = a, *y = b;
    return x->header < y->header ? -1 : x->header > y->header;
}

bool tpi_zip_read(const tpi_archive_reader *r, const tpi_file_map *map, tpi_zip_member **out,
                  size_t *n)
{
    directory d = {0};
    if (!read_end(r, map, &d))
        return false;
    tpi_zip_member *v = tpi_bump_take(&r->a->bump, (size_t)d.n, sizeof *v);
    if (!v)
        return tpi_archive_no_memory(r);
    const char *p = map->data + d.at, *limit = p + d.size;
    for (uint64_t i = 0; i < d.n; i++)
        if (!(p = read_member(r, map, &d, p, limit, &v[i])))
            return false;
    if (p != limit)
        return TPI_ARCHIVE_BAD(r, "the directory of the zip has more than its members");
    qsort(v, (size_t)d.n, sizeof *v, by_place);
    for (uint64_t i = 1; i < d.n; i++)
        if (v[i].header < v[i - 1].at + v[i - 1].packed)
            return TPI_ARCHIVE_BAD(r, "\"%.*s\" overlaps another", NAME(&v[i]));
    *out = v;
    *n = (size_t)d.n;
    return true;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

enum {
    ALIGN = 64,
    PADDING = 0xd935, /* an extra field that only fills, as others name it: 2 bytes and zeros */
    PADDING_BYTES = 6,
    UTF8_NAME = 1 << 11,
    VERSION = 45,         /* which has numbers of 64 bits */
    DATE = 1 << 5 | 1,    /* the first day there is, so that equal items are equal files */
    LARGE_BYTES = 4 + 16, /* sizes in 64 bits */
};

static void put(tpi_str *s, uint64_t v, int bytes)
{
    char b[8];
    tpi_put_little(b, v, bytes);
    tpi_str_add(s, b, (size_t)bytes);
}

static uint64_t small(uint64_t v)
{
    return v < LARGE ? v : LARGE;
}

/* What both headers of a member have. */
static void put_common(tpi_str *s, const char *name, uint64_t size, uint32_t sum, size_t extra)
{
    bool ascii = true;
    for (const char *c = name; *c; c++)
        ascii &= !(*c & 0x80);
    put(s, VERSION, 2);
    put(s, ascii ? 0 : UTF8_NAME, 2);
    put(s, STORED, 2);
    put(s, 0, 2); /* midnight */
    put(s, DATE, 2);
    put(s, sum, 4);
    put(s, small(size), 4);
    put(s, small(size), 4);
    put(s, strlen(name), 2);
    put(s, extra, 2);
}

static void put_directory(tpi_zip_writer *z, const char *name, uint64_t size, uint32_t sum)
{
    const bool large = size >= LARGE, far = z->at >= LARGE;
    const size_t fields = (large ? 16u : 0) + (far ? 8u : 0);
    tpi_str *s = &z->directory;
    put(s, CENTRAL, 4);
    put(s, VERSION, 2);
    put_common(s, name, size, sum, fields ? 4 + fields : 0);
    put(s, 0, 2); /* no comment, the first part, nothing special */
    put(s, 0, 8);
    put(s, small(z->at), 4);
    tpi_str_put(s, name);
    if (fields) {
        put(s, 1, 2);
        put(s, fields, 2);
    }
    if (large) {
        put(s, size, 8);
        put(s, size, 8);
    }
    if (far)
        put(s, z->at, 8);
}

void tpi_zip_put_member(tpi_zip_writer *z, const char *name, uint64_t size, uint32_t sum)
{
    const bool large = size >= LARGE;
    const uint64_t least =
        z->at + LOCAL_BYTES + strlen(name) + (large ? LARGE_BYTES : 0) + PADDING_BYTES;
    const size_t zeros = (size_t)(-least % ALIGN);
    tpi_str s = TPI_STR(z->w->mem);
    put(&s, LOCAL, 4);
    put_common(&s, name, size, sum, (large ? (size_t)LARGE_BYTES : 0) + PADDING_BYTES + zeros);
    tpi_str_put(&s, name);
    if (large) {
        put(&s, 1, 2);
        put(&s, 16, 2);
        put(&s, size, 8);
        put(&s, size, 8);
    }
    put(&s, PADDING, 2);
    put(&s, 2 + zeros, 2);
    put(&s, ALIGN, 2);
    static const char nothing[ALIGN];
    tpi_str_add(&s, nothing, zeros);
    put_directory(z, name, size, sum);
    if (s.failed || z->directory.failed)
        tpi_file_fail(&z->w->error, TP_E_MEMORY, z->w->path, "out of memory");
    tpi_file_put(z->w, s.text, s.len);
    z->at += s.len + size;
    z->n++;
    tpi_str_free(&s);
}

void tpi_zip_put_end(tpi_zip_writer *z)
{
    tpi_str *s = &z->directory;
    const uint64_t size = s->len, end = z->at + size;
    const bool large = z->n >= 0xffff || z->at >= LARGE || size >= LARGE;
    if (large) {
        put(s, END64, 4);
        put(s, END64_BYTES - 12, 8);
        put(s, VERSION, 2);
        put(s, VERSION, 2);
        put(s, 0, 8);
        put(s, z->n, 8);
        put(s, z->n, 8);
        put(s, size, 8);
        put(s, z->at, 8);
        put(s, LOCATOR64, 4);
        put(s, 0, 4);
        put(s, end, 8);
        put(s, 1, 4);
    }
    const uint64_t n = z->n < 0xffff ? z->n : 0xffff;
    put(s, END, 4);
    put(s, 0, 4);
    put(s, n, 2);
    put(s, n, 2);
    put(s, small(size), 4);
    put(s, small(z->at), 4);
    put(s, 0, 2);
    if (s->failed)
        tpi_file_fail(&z->w->error, TP_E_MEMORY, z->w->path, "out of memory");
    tpi_file_put(z->w, s->text, s->len);
    tpi_str_free(s);
}
