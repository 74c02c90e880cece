/* Reading and writing files of the format safetensors. What is read is not trusted: all of the header is checked before
 * an element is looked at. */
#include "train/safetensors.h"

#include "base/half.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    MOST_HEADER = 100000000, /* as the format says */
    ALIGN = 8                /* of the first element */
};

static const bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

static const tpi_st_type types[] = {
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

typedef struct reader {
    tpi_safetensors *f;
    tpi_file_error *error;
    const char *path, *at, *limit;
} reader;

/* ---- failures --------------------------------------------------------------------------------------- */

static bool fail(tpi_file_error *e, tp_status status, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail(tpi_file_error *e, tp_status status, const char *path, const char *fmt, ...)
{
    if (e->status != TP_OK)
        return false;
    enum { ROOM = 80 }; /* of a long path the end says more than the beginning */
    const size_t len = strlen(path), cut = len > ROOM ? len - ROOM : 0;
    const int n = tpi_print(e->text, sizeof e->text, "%s%s: ", cut ? "..." : "", path + cut);
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(e->text + n, sizeof e->text - (size_t)n, fmt, ap);
    va_end(ap);
    e->status = status;
    return false;
}

#define BAD(r, ...) fail((r)->error, TP_E_FORMAT, (r)->path, __VA_ARGS__)

static bool no_memory(reader *r)
{
    return fail(r->error, TP_E_MEMORY, r->path, "out of memory");
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void skip_space(reader *r)
{
    while (r->at < r->limit && *r->at && strchr(" \t\n\r", *r->at))
        r->at++;
}

static bool eat(reader *r, char c)
{
    skip_space(r);
    const bool is = r->at < r->limit && *r->at == c;
    r->at += is;
    return is;
}

static bool expect(reader *r, char c)
{
    return eat(r, c) || BAD(r, "the header has no '%c' at byte %lld", c,
                            (long long)(r->at - r->f->map.data));
}

/* Four hexadecimal digits; below 0: there are none. */
static int32_t read_hex(reader *r)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char c = r->at < r->limit ? *r->at++ : 0;
        const char *d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 'a' - 'A' : c) : NULL;
        if (!d)
            return -1;
        v = v * 16 + (int32_t)(d - digits);
    }
    return v;
}

/* What follows "\u", perhaps the first half of a pair; 0 and what is no character are refused. */
static bool read_code(reader *r, tpi_str *out)
{
    int32_t c = read_hex(r);
    if (c >= 0xd800 && c < 0xdc00 && r->limit - r->at >= 2 && r->at[0] == '\\' &&
        r->at[1] == 'u') {
        r->at += 2;
        const int32_t low = read_hex(r);
        c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
                                          : -1;
    }
    if (c <= 0 || (c >= 0xd800 && c < 0xe000))
        return BAD(r, "the header has a \\u that is no character");
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    char bytes[4] = {(char)(first[more] | c >> (6 * more))};
    for (int i = 1; i <= more; i++)
        bytes[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    tpi_str_add(out, bytes, (size_t)more + 1);
    return true;
}

static bool read_escape(reader *r, tpi_str *out)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->limit ? *r->at++ : 0;
    if (c == 'u')
        return read_code(r, out);
    const char *at = c ? strchr(letters, c) : NULL;
    if (!at)
        return BAD(r, "the header has an escape that JSON lacks");
    tpi_str_add(out, meant + (at - letters), 1);
    return true;
}

/* A string to the end of `out`, closed by a 0. */
static bool read_string(reader *r, tpi_str *out)
{
    if (!expect(r, '"'))
        return false;
    while (r->at < r->limit && *r->at != '"') {
        if (*r->at == '\\') {
            r->at++;
            if (!read_escape(r, out))
                return false;
            continue;
        }
        const int n = (unsigned char)*r->at < 0x20 ? 0 : tpi_utf8_length(r->at, r->limit);
        if (n <= 0)
            return BAD(r, "a string of the header has a byte %d", (unsigned char)*r->at);
        tpi_str_add(out, r->at, (size_t)n);
        r->at += n;
    }
    tpi_str_add(out, "", 1);
    return out->failed ? no_memory(r) : expect(r, '"');
}

/* A short one. */
static bool read_word(reader *r, char *word, size_t size)
{
    tpi_str s = TPI_STR(r->f->mem);
    bool ok = read_string(r, &s);
    if (ok && s.len > size)
        ok = BAD(r, "the header has an unexpected \"%.30s\"", s.text);
    if (ok)
        memcpy(word, s.text, s.len);
    tpi_str_free(&s);
    return ok;
}

static bool read_number(reader *r, int64_t *out)
{
    skip_space(r);
    const char *first = r->at;
    int64_t v = 0;
    for (; r->at < r->limit && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *r->at - '0', &v))
            return BAD(r, "the header has a number beyond 2^63");
    const bool is = r->at > first && (*first != '0' || r->at == first + 1);
    *out = v;
    return is ||
           BAD(r, "the header has no number at byte %lld", (long long)(first - r->f->map.data));
}

/* "[1, 2]": at most `most` numbers; their count, or below 0. */
static int read_numbers(reader *r, int most, int64_t *v)
{
    if (!expect(r, '['))
        return -1;
    if (eat(r, ']'))
        return 0;
    for (int n = 0; n < most;) {
        if (!read_number(r, &v[n++]))
            return -1;
        if (eat(r, ']'))
            return n;
        if (!expect(r, ','))
            return -1;
    }
    BAD(r, "the header has a list of more than %d numbers", most);
    return -1;
}

/* Calls `member` for each member of an object, at its key. */
static bool read_object(reader *r, bool (*member)(reader *r, void *user), void *user)
{
    if (!expect(r, '{'))
        return false;
    if (eat(r, '}'))
        return true;
    do {
        if (!member(r, user))
            return false;
    } while (eat(r, ','));
    return expect(r, '}');
}

/* ---- the header ------------------------------------------------------------------------------------- */

/* What a tensor's object has. */
typedef struct parts {
    tpi_st_tensor t;
    bool dtype, shape, offsets;
} parts;

static bool read_type(reader *r, parts *p)
{
    char name[16];
    if (!read_word(r, name, sizeof name))
        return false;
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            p->t.type = &types[i];
    return p->t.type || BAD(r, "elements of type \"%s\" cannot be read", name);
}

static bool read_part(reader *r, void *user)
{
    parts *p = user;
    char key[16];
    int64_t v[2];
    if (!read_word(r, key, sizeof key) || !expect(r, ':'))
        return false;
    if (strcmp(key, "dtype") == 0 && !p->dtype) {
        p->dtype = true;
        return read_type(r, p);
    }
    if (strcmp(key, "shape") == 0 && !p->shape) {
        p->shape = true;
        p->t.rank = read_numbers(r, TP_MAX_RANK, p->t.shape);
        return p->t.rank >= 0;
    }
    if (strcmp(key, "data_offsets") == 0 && !p->offsets) {
        p->offsets = true;
        const int n = read_numbers(r, 2, v);
        p->t.begin = n == 2 ? (uint64_t)v[0] : 0;
        p->t.end = n == 2 ? (uint64_t)v[1] : 0;
        return n == 2 || BAD(r, "data_offsets are not two");
    }
    return BAD(r, "a tensor has an unexpected \"%s\"", key);
}

/* Do its offsets span what type and shape need? */
static bool check_span(reader *r, const parts *p, const char *name)
{
    if (!p->dtype || !p->shape || !p->offsets)
        return BAD(r, "\"%.60s\" lacks its %s", name,
                   !p->dtype   ? "dtype"
                   : !p->shape ? "shape"
                               : "data_offsets");
    int64_t bytes = p->t.type->size;
    bool empty = false, huge = false;
    for (int i = 0; i < p->t.rank; i++) {
        empty |= p->t.shape[i] == 0;
        huge |= p->t.shape[i] && __builtin_mul_overflow(bytes, p->t.shape[i], &bytes);
    }
    if (huge)
        return BAD(r, "the sizes of \"%.60s\" multiply beyond 2^63 bytes", name);
    if (p->t.end < p->t.begin || p->t.end - p->t.begin != (empty ? 0 : (uint64_t)bytes))
        return BAD(r,
                   "\"%.60s\" needs %" PRId64 " bytes, and its data_offsets are %" PRIu64
                   " and %" PRIu64,
                   name, empty ? 0 : bytes, p->t.begin, p->t.end);
    return true;
}

static bool read_text(reader *r, void *user)
{
    (void)user;
    tpi_safetensors *f = r->f;
    tpi_st_text t = {.key_at = f->names.len};
    if (!read_string(r, &f->names) || !expect(r, ':'))
        return false;
    t.text_at = f->names.len;
    if (!read_string(r, &f->names))
        return false;
    tpi_st_text *v = tpi_grow(f->mem, f->texts, f->n_texts, &f->texts_size, sizeof *v);
    if (!v)
        return no_memory(r);
    f->texts = v;
    v[f->n_texts++] = t;
    return true;
}

static bool read_member(reader *r, void *user)
{
    bool *has_texts = user;
    tpi_safetensors *f = r->f;
    parts p = {.t.name_at = f->names.len};
    if (!read_string(r, &f->names) || !expect(r, ':'))
        return false;
    if (strcmp(f->names.text + p.t.name_at, "__metadata__") == 0) {
        if (*has_texts)
            return BAD(r, "the header has __metadata__ twice");
        *has_texts = true;
        return read_object(r, read_text, NULL);
    }
    if (!read_object(r, read_part, &p) || !check_span(r, &p, f->names.text + p.t.name_at))
        return false;
    tpi_st_tensor *v = tpi_grow(f->mem, f->tensors, f->n_tensors, &f->tensors_size, sizeof *v);
    if (!v)
        return no_memory(r);
    f->tensors = v;
    v[f->n_tensors++] = p.t;
    return true;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const tpi_st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tpi_st_tensor *)a)->name, ((const tpi_st_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tpi_st_text *)a)->key, ((const tpi_st_text *)b)->key);
}

static void sort(void *v, int n, size_t size, int (*order)(const void *, const void *))
{
    if (n > 1)
        qsort(v, (size_t)n, size, order);
}

/* Tensors cover the file's data from first to last byte, none of them twice. */
static bool check_places(reader *r, uint64_t have)
{
    tpi_safetensors *f = r->f;
    uint64_t end = 0;
    sort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    for (int i = 0; i < f->n_tensors; i++) {
        if (f->tensors[i].begin != end)
            return BAD(r,
                       "\"%.60s\" begins at byte %" PRIu64
                       ", where the one before ends at %" PRIu64,
                       f->tensors[i].name, f->tensors[i].begin, end);
        end = f->tensors[i].end;
    }
    return end == have ||
           BAD(r, "its tensors have %" PRIu64 " bytes, %" PRIu64 " are there", end, have);
}

static bool check_names(reader *r)
{
    tpi_safetensors *f = r->f;
    sort(f->tensors, f->n_tensors, sizeof *f->tensors, by_name);
    for (int i = 1; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return BAD(r, "\"%.60s\" is there twice", f->tensors[i].name);
    sort(f->texts, f->n_texts, sizeof *f->texts, by_key);
    for (int i = 1; i < f->n_texts; i++)
        if (strcmp(f->texts[i - 1].key, f->texts[i].key) == 0)
            return BAD(r, "__metadata__ has \"%.60s\" twice", f->texts[i].key);
    return true;
}

static bool read_all(reader *r)
{
    tpi_safetensors *f = r->f;
    uint64_t length = 0;
    if (f->map.size < LENGTH_BYTES)
        return BAD(r, "it is no safetensors file: it has %zu bytes", f->map.size);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(unsigned char)f->map.data[i] << (8 * i);
    const uint64_t have = f->map.size - LENGTH_BYTES;
    if (length > MOST_HEADER)
        return BAD(r, "its header has %" PRIu64 " bytes; %d at most can be read", length,
                   MOST_HEADER);
    if (length > have)
        return BAD(r, "its header has %" PRIu64 " bytes, %" PRIu64 " are there", length, have);
    r->at = f->map.data + LENGTH_BYTES;
    r->limit = f->data = r->at + length;
    bool has_texts = false;
    if (!read_object(r, read_member, &has_texts))
        return false;
    skip_space(r);
    if (r->at != r->limit)
        return BAD(r, "something follows the header's object");
    for (int i = 0; i < f->n_tensors; i++)
        f->tensors[i].name = f->names.text + f->tensors[i].name_at;
    for (int i = 0; i < f->n_texts; i++) {
        f->texts[i].key = f->names.text + f->texts[i].key_at;
        f->texts[i].text = f->names.text + f->texts[i].text_at;
    }
    return check_places(r, have - length) && check_names(r);
}

bool tpi_safetensors_open(tpi_mem *mem, const char *path, tpi_safetensors *out,
                          tpi_file_error *error)
{
    *out = (tpi_safetensors){.mem = mem, .names = TPI_STR(mem)};
    if (!tpi_file_map_open(mem, path, &out->map, error))
        return false;
    reader r = {.f = out, .error = error, .path = path};
    const bool ok = read_all(&r);
    if (!ok)
        tpi_safetensors_close(out);
    return ok;
}

void tpi_safetensors_close(tpi_safetensors *f)
{
    tpi_give_back(f->mem, f->tensors, (size_t)f->tensors_size * sizeof *f->tensors);
    tpi_give_back(f->mem, f->texts, (size_t)f->texts_size * sizeof *f->texts);
    tpi_str_free(&f->names);
    tpi_file_map_close(f->mem, &f->map);
}

const tpi_st_tensor *tpi_safetensors_find(const tpi_safetensors *f, const char *name)
{
    const tpi_st_tensor key = {.name = name};
    return f->n_tensors ? bsearch(&key, f->tensors, (size_t)f->n_tensors, sizeof key, by_name)
                        : NULL;
}

const char *tpi_safetensors_text(const tpi_safetensors *f, const char *key)
{
    const tpi_st_text k = {.key = key};
    const tpi_st_text *t =
        f->n_texts ? bsearch(&k, f->texts, (size_t)f->n_texts, sizeof k, by_key) : NULL;
    return t ? t->text : NULL;
}

/* ---- elements --------------------------------------------------------------------------------------- */

/* Between the order of this machine and that of the file. */
static void swap_bytes(char *p, size_t size, size_t bytes)
{
    if (host_is_big)
        tpi_swap_bytes(p, bytes, size);
}

void tpi_safetensors_copy(const tpi_safetensors *f, const tpi_st_tensor *t, void *to)
{
    const size_t bytes = (size_t)(t->end - t->begin), n = bytes / t->type->size;
    /* Halves lie at the end of what they become. */
    char *at = (char *)to + n * (tp_dtype_size(t->type->dtype) - t->type->size), *all = to;
    tpi_file_map_copy(&f->map, at, f->data + t->begin, bytes);
    swap_bytes(at, t->type->size, bytes);
    if (t->type->half)
        tpi_halves_to((tpi_half)(t->type->half - 1), n, at, to);
    for (size_t i = 0; t->type->dtype == TP_BOOL && i < n; i++)
        all[i] = all[i] != 0;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const tpi_st_item *x = a, *y = b;
    if (!x->t != !y->t)
        return x->t ? 1 : -1;
    const int64_t d = x->t ? tpi_elem_size(y->t) - tpi_elem_size(x->t) : 0;
    return d ? (d < 0 ? -1 : 1) : strcmp(x->name, y->name);
}

static void put_string(tpi_str *s, const char *text)
{
    tpi_str_put(s, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            tpi_str_printf(s, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            tpi_str_printf(s, "\\u%04x", *text);
        else
            tpi_str_add(s, text, 1);
    }
    tpi_str_put(s, "\"");
}

static void put_tensor(tpi_str *s, const tp_tensor *t, uint64_t begin)
{
    const tpi_st_type *type = types;
    while (type->dtype != (tp_dtype)t->dtype)
        type++;
    tpi_str_printf(s, "{\"dtype\":\"%s\",\"shape\":[", type->name);
    for (int a = 0; a < t->rank; a++)
        tpi_str_printf(s, "%s%" PRId64, a ? "," : "", t->shape[a]);
    tpi_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                   begin + tpi_bytes(t));
}

/* The length and the object, with spaces behind. */
static void put_header(tpi_str *s, int n, const tpi_st_item *items)
{
    uint64_t begin = 0;
    int i = 0;
    tpi_str_add(s, "\0\0\0\0\0\0\0\0{", LENGTH_BYTES + 1);
    for (; i < n && !items[i].t; i++) {
        tpi_str_put(s, i ? "," : "\"__metadata__\":{");
        put_string(s, items[i].name);
        tpi_str_put(s, ":");
        put_string(s, items[i].text);
    }
    tpi_str_put(s, i ? "}" : "");
    for (; i < n; i++) {
        tpi_str_put(s, i ? "," : "");
        put_string(s, items[i].name);
        tpi_str_put(s, ":");
        put_tensor(s, items[i].t, begin);
        begin += tpi_bytes(items[i].t);
    }
    tpi_str_put(s, "}");
    while (!s->failed && s->len % ALIGN)
        tpi_str_put(s, " ");
    for (i = 0; i < LENGTH_BYTES && !s->failed; i++)
        s->text[i] = (char)((uint64_t)(s->len - LENGTH_BYTES) >> (8 * i));
}

static void put_elements(tpi_writer *w, const tp_tensor *t)
{
    enum { PART = 4096 };
    if (!host_is_big) {
        tpi_file_put(w, t->data, tpi_bytes(t));
        return;
    }
    char part[PART];
    for (size_t at = 0, all = tpi_bytes(t); at < all; at += PART) {
        const size_t n = all - at < PART ? all - at : PART;
        memcpy(part, t->data + at, n);
        swap_bytes(part, (size_t)tpi_elem_size(t), n);
        tpi_file_put(w, part, n);
    }
}

bool tpi_safetensors_save(tpi_mem *mem, tpi_undones *undone, const char *path, int n,
                          tpi_st_item *items, tpi_file_error *error)
{
    *error = (tpi_file_error){0};
    sort(items, n, sizeof *items, by_size);
    tpi_str s = TPI_STR(mem);
    put_header(&s, n, items);
    if (s.failed) {
        tpi_str_free(&s);
        return fail(error, TP_E_MEMORY, path ? path : "", "out of memory");
    }
    tpi_writer w;
    tpi_file_begin(&w, mem, undone, path);
    tpi_file_put(&w, s.text, s.len);
    tpi_str_free(&s);
    for (int i = 0; i < n; i++)
        if (items[i].t)
            put_elements(&w, items[i].t);
    const bool ok = tpi_file_end(&w);
    *error = w.error;
    return ok;
}
