/* Files of the format safetensors: 8 bytes with the length of the header, least first; the header, a JSON object
 *     {"__metadata__": {"KEY": "TEXT", ...}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 * and the elements, to which the offsets lead. All of the header is checked before an element is looked at. */
#include "base/bytes.h"
#include "ir/notation.h"
#include "train/archive_def.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    MOST_HEADER = 100000000, /* as the format says */
    ALIGN = 8                /* of the first element */
};

static const bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

static const struct {
    char name[5];
    uint8_t size, half;
    tp_dtype dtype;
} types[] = {
    {"BOOL", 1, 0,                TP_BOOL},
    {"I8",   1, 0,                TP_I8  },
    {"I16",  2, 0,                TP_I16 },
    {"I32",  4, 0,                TP_I32 },
    {"I64",  8, 0,                TP_I64 },
    {"U8",   1, 0,                TP_U8  },
    {"U16",  2, 0,                TP_U16 },
    {"U32",  4, 0,                TP_U32 },
    {"U64",  8, 0,                TP_U64 },
    {"F32",  4, 0,                TP_F32 },
    {"F64",  8, 0,                TP_F64 },
    {"F16",  2, 1 + TPI_FLOAT16,  TP_F32 },
    {"BF16", 2, 1 + TPI_BFLOAT16, TP_F32 },
};
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- the header ------------------------------------------------------------------------------------- */

/* What a tensor's object has. */
typedef struct parts {
    tpi_stored t;
    char type[16];
    bool dtype, shape, offsets;
} parts;

typedef struct reader {
    tpi_archive_reader *r;
    bool has_texts;
    parts p;
} reader;

static bool read_type(tpi_json *j, parts *p)
{
    if (!tpi_json_word(j, p->type, sizeof p->type))
        return false;
    p->t.raw.dtype = TP_N_DTYPES;
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, p->type) == 0)
            p->t.raw = (tpi_raw){types[i].dtype, types[i].size, types[i].half,
                                 host_is_big && types[i].size > 1, false};
    return true;
}

static bool read_offsets(tpi_json *j, parts *p)
{
    int64_t v[2];
    const int n = tpi_json_naturals(j, 2, v);
    if (n < 0)
        return false;
    p->t.begin = n == 2 ? (uint64_t)v[0] : 0;
    p->t.end = n == 2 ? (uint64_t)v[1] : 0;
    return n == 2 || TPI_JSON_BAD(j, "data_offsets are not two");
}

static bool read_part(tpi_json *j, void *user)
{
    parts *p = user;
    char key[16];
    if (!tpi_json_word(j, key, sizeof key) || !tpi_json_expect(j, ':'))
        return false;
    if (strcmp(key, "dtype") == 0 && !p->dtype)
        return p->dtype = true, read_type(j, p);
    if (strcmp(key, "data_offsets") == 0 && !p->offsets)
        return p->offsets = true, read_offsets(j, p);
    if (strcmp(key, "shape") == 0 && !p->shape) {
        p->shape = true;
        p->t.entry.rank = tpi_json_naturals(j, TP_MAX_RANK, p->t.entry.shape);
        return p->t.entry.rank >= 0;
    }
    return TPI_JSON_BAD(j, "a tensor has an unexpected \"%s\"", key);
}

static bool read_text(tpi_json *j, void *user)
{
    const reader *in = user;
    return tpi_archive_read_text(in->r, j, false);
}

/* Offsets count from the first element on. */
static bool check(const tpi_archive_reader *r, const parts *p)
{
    const tpi_stored *t = &p->t;
    if (!p->dtype || !p->shape || !p->offsets)
        return TPI_ARCHIVE_BAD(r, "\"%.60s\" lacks its %s", t->entry.name,
                               !p->dtype   ? "dtype"
                               : !p->shape ? "shape"
                                           : "data_offsets");
    if (t->end < t->begin)
        return TPI_ARCHIVE_BAD(r, "the data_offsets of \"%.60s\" are %" PRIu64 " and %" PRIu64,
                               t->entry.name, t->begin, t->end);
    return tpi_archive_check_span(r, t, t->end - t->begin);
}

static bool add_tensor(const reader *in)
{
    const tpi_archive_reader *r = in->r;
    tpi_stored *t = tpi_archive_add(r);
    if (!t)
        return false;
    *t = in->p.t;
    t->entry.dtype = t->raw.dtype;
    t->entry.type = tpi_archive_keep(r, in->p.type, strlen(in->p.type));
    return t->entry.type;
}

static bool read_member(tpi_json *j, void *user)
{
    reader *in = user;
    in->p = (parts){.t.entry.name = tpi_archive_keep_string(in->r, j)};
    if (!in->p.t.entry.name || !tpi_json_expect(j, ':'))
        return false;
    if (strcmp(in->p.t.entry.name, "__metadata__") != 0)
        return tpi_json_object(j, read_part, &in->p) && check(in->r, &in->p) && add_tensor(in);
    if (in->has_texts)
        return TPI_JSON_BAD(j, "the header has __metadata__ twice");
    in->has_texts = true;
    return tpi_json_object(j, read_text, in);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const tpi_stored *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Tensors from `first` on cover the file's `have` bytes of data from first to last, none of them twice. */
static bool check_places(const tpi_archive_reader *r, int first, uint64_t have)
{
    const tp_archive *a = r->a;
    uint64_t end = 0;
    if (a->n > first)
        qsort(a->tensors + first, (size_t)(a->n - first), sizeof *a->tensors, by_place);
    for (int i = first; i < a->n; i++) {
        const tpi_stored *t = &a->tensors[i];
        if (t->begin != end)
            return TPI_ARCHIVE_BAD(r,
                                   "\"%.60s\" begins at byte %" PRIu64
                                   ", where the one before ends at %" PRIu64,
                                   t->entry.name, t->begin, end);
        end = t->end;
    }
    return end == have ||
           TPI_ARCHIVE_BAD(r, "its tensors have %" PRIu64 " bytes, %" PRIu64 " are there", end,
                           have);
}

bool tpi_is_safetensors(const char *bytes, size_t size)
{
    return size >= LENGTH_BYTES && tpi_little(bytes, LENGTH_BYTES) <= MOST_HEADER;
}

static bool read_header(tpi_archive_reader *r, const tpi_file_map *map, uint64_t length)
{
    const char *text = map->data + LENGTH_BYTES;
    tpi_json j = {.mem = &r->a->ctx->mem,
                  .error = r->error,
                  .path = r->path,
                  .what = "the header",
                  .begin = map->data,
                  .at = text,
                  .limit = text + length};
    return tpi_json_object(&j, read_member, &(reader){.r = r}) && tpi_json_end(&j);
}

bool tpi_safetensors_read(tpi_archive_reader *r, const tpi_held_file *file)
{
    tp_archive *a = r->a;
    const tpi_file_map *map = &file->map;
    const int first = a->n, first_text = a->n_texts;
    if (map->size < LENGTH_BYTES)
        return TPI_ARCHIVE_BAD(r, "it is no safetensors file: it has %zu bytes", map->size);
    const uint64_t length = tpi_little(map->data, LENGTH_BYTES),
                   have = map->size - LENGTH_BYTES;
    if ((length > MOST_HEADER || length > have) &&
        (have == 0 || map->data[LENGTH_BYTES] != '{'))
        return TPI_ARCHIVE_BAD(r, "it is neither a safetensors file nor an npz, which "
                                  "tp_state_save and tp_archive_save write");
    if (length > MOST_HEADER)
        return TPI_ARCHIVE_BAD(r, "its header has %" PRIu64 " bytes; %d at most can be read",
                               length, MOST_HEADER);
    if (length > have)
        return TPI_ARCHIVE_BAD(r, "its header has %" PRIu64 " bytes, %" PRIu64 " are there",
                               length, have);
    if (!read_header(r, map, length) || !check_places(r, first, have - length))
        return false;
    for (int i = first; i < a->n; i++) {
        a->tensors[i].file = file;
        a->tensors[i].begin += LENGTH_BYTES + length;
        a->tensors[i].end += LENGTH_BYTES + length;
    }
    return tpi_archive_sort(r, first) && tpi_archive_sort_texts(r, first_text);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static void put_tensor(tpi_str *s, const tp_tensor *t, uint64_t begin)
{
    int type = 0;
    while (types[type].dtype != (tp_dtype)t->dtype)
        type++;
    tpi_str_printf(s, "{\"dtype\":\"%s\",\"shape\":[", types[type].name);
    for (int a = 0; a < t->rank; a++)
        tpi_str_printf(s, "%s%" PRId64, a ? "," : "", t->shape[a]);
    tpi_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                   begin + tpi_bytes(t));
}

/* The length and the object, with spaces behind. */
static void put_header(tpi_str *s, int n, const tp_archive_item *items)
{
    uint64_t begin = 0;
    int i = 0;
    tpi_str_add(s, "\0\0\0\0\0\0\0\0{", LENGTH_BYTES + 1);
    for (; i < n && !items[i].tensor; i++) {
        tpi_str_put(s, i ? "," : "\"__metadata__\":{");
        tpi_json_put_string(s, items[i].name);
        tpi_str_put(s, ":");
        tpi_json_put_string(s, items[i].text);
    }
    tpi_str_put(s, i ? "}" : "");
    for (; i < n; i++) {
        tpi_str_put(s, i ? "," : "");
        tpi_json_put_string(s, items[i].name);
        tpi_str_put(s, ":");
        put_tensor(s, items[i].tensor, begin);
        begin += tpi_bytes(items[i].tensor);
    }
    tpi_str_put(s, "}");
    while (!s->failed && s->len % ALIGN)
        tpi_str_put(s, " ");
    if (!s->failed)
        tpi_put_little(s->text, s->len - LENGTH_BYTES, LENGTH_BYTES);
}

/* In the order of bytes that the file has. */
static void put_part(tpi_writer *w, const char *from, size_t size, size_t n)
{
    enum { PART = 4096 };
    char part[PART];
    for (size_t at = 0; at < n; at += PART) {
        const size_t m = n - at < PART ? n - at : PART;
        memcpy(part, from + at, m);
        tpi_swap_bytes(part, m, size);
        tpi_file_put(w, part, m);
    }
}

static void put_elements(tpi_writer *w, const tp_tensor *t)
{
    void *copy;
    const char *from = tpi_archive_elements(t, &copy);
    if (!from && tpi_bytes(t))
        tpi_file_fail(&w->error, TP_E_MEMORY, w->path, "out of memory");
    else if (host_is_big)
        put_part(w, from, (size_t)tpi_elem_size(t), tpi_bytes(t));
    else
        tpi_file_put(w, from, tpi_bytes(t));
    tpi_give_back(&t->ctx->mem, copy, tpi_bytes(t));
}

bool tpi_safetensors_save(tp_ctx *ctx, const char *path, int n, const tp_archive_item *items,
                          tpi_file_error *error)
{
    tpi_str s = TPI_STR(&ctx->mem);
    put_header(&s, n, items);
    const char *name = path ? path : "";
    const bool good =
        s.failed ? tpi_file_fail(error, TP_E_MEMORY, name, "out of memory")
                 : s.len - LENGTH_BYTES <= MOST_HEADER ||
                       tpi_file_fail(error, TP_E_LIMIT, name,
                                     "its header would have %zu bytes; %d at most can be read",
                                     s.len - LENGTH_BYTES, MOST_HEADER);
    if (!good) {
        tpi_str_free(&s);
        return false;
    }
    tpi_writer w;
    tpi_file_begin(&w, &ctx->mem, &ctx->undone, path);
    tpi_file_put(&w, s.text, s.len);
    tpi_str_free(&s);
    for (int i = 0; i < n && w.error.status == TP_OK; i++)
        if (items[i].tensor)
            put_elements(&w, items[i].tensor);
    const bool ok = tpi_file_end(&w);
    *error = w.error;
    return ok;
}
