/* Files of NumPy's format npz: a zip in which NAME.npy is the array NAME. A byte string of rank 0 is a text. */
#include "base/crc32.h"
#include "core/npy.h"
#include "ir/notation.h"
#include "train/inflate.h"
#include "train/zip.h"

#include <stdlib.h>
#include <string.h>

static const char ending[] = ".npy";
enum {
    ENDING = sizeof ending - 1,
    MOST_HEADER = 10000, /* as NumPy has it */
    LONGEST_NAME = 65535 - ENDING
};

/* ---- reading ---------------------------------------------------------------------------------------- */

/* Without the ending; NULL: an error. */
static const char *keep_name(const tpi_archive_reader *r, const tpi_zip_member *m)
{
    const char *name = tpi_archive_keep(r, m->name, m->name_length - ENDING);
    if (!name || !tpi_archive_why_no_name(name) || strcmp(name, "__metadata__") == 0)
        return name;
    TPI_ARCHIVE_BAD(r, "\"%.60s\" cannot be a name: %s", name, tpi_archive_why_no_name(name));
    return NULL;
}

/* What is wrong with a member; false. */
static bool refuse(const tpi_archive_reader *r, const char *name, const char *why)
{
    return why == tpi_inflate_no_memory ? tpi_archive_no_memory(r)
                                        : TPI_ARCHIVE_BAD(r, "\"%.60s\": %s", name, why);
}

/* The first bytes of a member: all its own, or those in `room`. NULL: an error. */
static const char *first_bytes(const tpi_archive_reader *r, const tpi_file_map *map,
                               const tpi_zip_member *m, const char *name, char *room, size_t *n)
{
    *n = !m->squeezed || m->size < MOST_HEADER ? (size_t)m->size : MOST_HEADER;
    if (!m->squeezed)
        return map->data + m->at;
    const char *why =
        tpi_inflate_first(&r->a->ctx->mem, map->data + m->at, (size_t)m->packed, room, n);
    return !why || refuse(r, name, why) ? room : NULL;
}

/* "|S5" of rank 0: 5 bytes, those behind the text zeros. -1: no text. */
static int64_t text_length(const tpi_npy *h)
{
    const bool order = h->type[0] == '|', is = h->type[order] == 'S';
    int64_t n;
    const char *first = h->type + order + 1, *end = first + strlen(first);
    return is && h->rank == 0 && *first && tpi_scan_i64(first, end, &n) == end && n >= 0 ? n
                                                                                         : -1;
}

/* An array as its header says it is. */
static tpi_stored stored(const tpi_held_file *file, const char *name, const tpi_zip_member *m,
                         const tpi_npy *h)
{
    tpi_stored t = {
        .entry = {.name = name, .dtype = h->raw.dtype, .rank = h->rank},
        .raw = h->raw,
        .file = file,
        .begin = m->at + (m->squeezed ? 0 : h->head),
        .end = m->at + m->packed,
        .squeezed = m->squeezed,
        .summed = true,
        .sum = m->sum,
        .head = h->head
    };
    memcpy(t.entry.shape, h->shape, sizeof h->shape);
    return t;
}

static bool add_text(const tpi_archive_reader *r, const tpi_held_file *file, const char *name,
                     const tpi_zip_member *m, tpi_npy h, int64_t length)
{
    h.raw = (tpi_raw){.dtype = TP_U8, .size = 1};
    h.rank = 1;
    h.shape[0] = length;
    const tpi_stored t = stored(file, name, m, &h);
    if (!tpi_archive_check_span(r, &t, m->size - h.head))
        return false;
    char *text = tpi_bump_take(&r->a->bump, (size_t)length + 1, 1);
    const char *why = text ? tpi_archive_read(&t, r->a->ctx, text) : tpi_inflate_no_memory;
    if (why)
        return refuse(r, name, why);
    return tpi_archive_is_utf8(text)
               ? tpi_archive_add_text(r, name, text)
               : TPI_ARCHIVE_BAD(r, "the text \"%.60s\" is no UTF-8", name);
}

static bool add_array(const tpi_archive_reader *r, const tpi_held_file *file, const char *name,
                      const tpi_zip_member *m, const tpi_npy *h)
{
    tpi_stored *t = tpi_archive_add(r);
    if (!t)
        return false;
    *t = stored(file, name, m, h);
    t->entry.type = tpi_archive_keep(r, h->type, strlen(h->type));
    return t->entry.type && tpi_archive_check_span(r, t, m->size - h->head);
}

static bool read_member(const tpi_archive_reader *r, const tpi_held_file *file,
                        const tpi_zip_member *m)
{
    char room[MOST_HEADER], why[TPI_NPY_WHY];
    size_t n;
    tpi_npy h;
    const char *name = keep_name(r, m);
    const char *bytes = name ? first_bytes(r, &file->map, m, name, room, &n) : NULL;
    if (!bytes)
        return false;
    if (!tpi_npy_read(bytes, n, &h, why))
        return TPI_ARCHIVE_BAD(r, "\"%.60s\": %s", name, why);
    const int64_t length = text_length(&h);
    return length >= 0 ? add_text(r, file, name, m, h, length)
                       : add_array(r, file, name, m, &h);
}

bool tpi_npz_read(tpi_archive_reader *r, const tpi_held_file *file)
{
    tpi_zip_member *v;
    size_t n;
    if (!tpi_zip_read(r, &file->map, &v, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const bool is = v[i].name_length >= ENDING &&
                        memcmp(v[i].name + v[i].name_length - ENDING, ending, ENDING) == 0;
        if (is && !read_member(r, file, &v[i]))
            return false;
    }
    return tpi_archive_sort(r, 0) && tpi_archive_sort_texts(r, 0);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

/* The header of an array, and what comes behind. */
typedef struct array {
    tpi_str head;
    const char *from;
    size_t bytes;
    void *copy;
} array;

static void describe(const tp_archive_item *item, array *a)
{
    char descr[24];
    const tp_tensor *t = item->tensor;
    if (t) {
        tpi_npy_descr((tp_dtype)t->dtype, (size_t)tpi_elem_size(t), descr);
        a->from = tpi_archive_elements(t, &a->copy);
        a->bytes = tpi_bytes(t);
        a->head.failed = !a->from && a->bytes;
        tpi_npy_put(&a->head, descr, t->rank, t->shape);
        return;
    }
    const size_t n = strlen(item->text);
    a->from = item->text;
    a->bytes = n ? n : 1; /* a string of none is one of a 0 */
    tpi_print(descr, sizeof descr, "|S%zu", a->bytes);
    tpi_npy_put(&a->head, descr, 0, NULL);
}

static void put_array(tpi_zip_writer *z, const tpi_crc32_table *table, const char *name,
                      const array *a)
{
    tpi_str file = TPI_STR(z->w->mem);
    tpi_str_printf(&file, "%s%s", name, ending);
    if (a->head.failed || file.failed) {
        tpi_file_fail(&z->w->error, TP_E_MEMORY, z->w->path, "out of memory");
    } else {
        const uint32_t sum = tpi_crc32(table, 0, a->head.text, a->head.len);
        tpi_zip_put_member(z, file.text, a->head.len + a->bytes,
                           tpi_crc32(table, sum, a->from, a->bytes));
        tpi_file_put(z->w, a->head.text, a->head.len);
        tpi_file_put(z->w, a->from, a->bytes);
    }
    tpi_str_free(&file);
}

bool tpi_npz_save(tp_ctx *ctx, const char *path, int n, const tp_archive_item *items,
                  tpi_file_error *error)
{
    tpi_crc32_table table;
    tpi_writer w;
    for (int i = 0; i < n; i++)
        if (strlen(items[i].name) > LONGEST_NAME)
            return tpi_file_fail(error, TP_E_NAME, path, "the name \"%.60s...\" is too long",
                                 items[i].name);
    tpi_crc32_begin(&table);
    tpi_file_begin(&w, &ctx->mem, &ctx->undone, path);
    tpi_zip_writer z = {.w = &w, .directory = TPI_STR(&ctx->mem)};
    for (int i = 0; i < n && w.error.status == TP_OK; i++) {
        array a = {.head = TPI_STR(&ctx->mem)};
        describe(&items[i], &a);
        put_array(&z, &table, items[i].name, &a);
        tpi_str_free(&a.head);
        tpi_give_back(&ctx->mem, a.copy, a.copy ? a.bytes : 0);
    }
    tpi_zip_put_end(&z);
    const bool ok = tpi_file_end(&w);
    *error = w.error;
    return ok;
}
