/* NumPy's .npy files: a magic string, a version, the length of a header, the header (a Python
 * dict as text), the elements. What is read is not trusted: sizes are checked against the bytes
 * that are there before memory is taken. */
#include "core/npy.h"

#include "base/bytes.h"
#include "base/file.h"
#include "core/dim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static const char magic[6] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y'};

enum {
    PREFIX = 8, /* magic and version */
    ALIGN = 64  /* of the elements in what we write */
};

static const bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

typedef struct reader {
    const char *at, *limit;
    char *why; /* the first thing that is wrong */
} reader;

typedef struct header {
    bool has_descr, has_order, has_shape;
    tpi_npy *h;
} header;

static bool bad(reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(reader *r, const char *fmt, ...)
{
    if (!r->why[0]) {
        va_list ap;
        va_start(ap, fmt);
        tpi_vprint(r->why, TPI_NPY_WHY, fmt, ap);
        va_end(ap);
    }
    return false;
}

/* ---- the header's text ---------------------------------------------------------------------- */

static void skip_space(reader *r)
{
    while (r->at < r->limit && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t'))
        r->at++;
}

static bool eat(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->limit || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool eat_word(reader *r, const char *word)
{
    skip_space(r);
    const size_t len = strlen(word);
    if ((size_t)(r->limit - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* Without the order of bytes in front. */
static const char *type_of(const tpi_npy *h)
{
    return h->type + (h->type[0] && strchr("<>|=", h->type[0]));
}

/* A quoted string of printable ASCII without escapes; cut when it is too long to mean anything. */
static bool read_string(reader *r, char *out, size_t size)
{
    skip_space(r);
    const char quote = r->at < r->limit ? *r->at : 0;
    if (quote != '\'' && quote != '"')
        return bad(r, "the header is no dict of strings");
    size_t n = 0;
    for (r->at++; r->at < r->limit && *r->at != quote; r->at++) {
        if (*r->at < ' ' || *r->at > '~' || *r->at == '\\')
            return bad(r, "a string of the header has a byte %d", (unsigned char)*r->at);
        if (n + 1 < size)
            out[n++] = *r->at;
    }
    out[n] = 0;
    return r->at++ < r->limit ? true : bad(r, "a string of the header does not end");
}

/* Records: a list, in which what is quoted or in brackets does not matter. */
static bool skip_list(reader *r)
{
    char text[24];
    for (int depth = 0; r->at < r->limit; r->at++) {
        const char c = *r->at;
        if (c == '\'' || c == '"') {
            if (!read_string(r, text, sizeof text))
                return false;
            r->at--;
        }
        depth += (c == '[' || c == '(') - (c == ']' || c == ')');
        if (depth == 0 && c == ']')
            return r->at++;
    }
    return bad(r, "a list of the header does not end");
}

static bool read_descr(reader *r, tpi_npy *h)
{
    static const struct {
        char text[4];
        uint8_t half;
        tp_dtype dtype;
    } known[] = {
        {"b1", 0,               TP_BOOL},
        {"i1", 0,               TP_I8  },
        {"i2", 0,               TP_I16 },
        {"i4", 0,               TP_I32 },
        {"i8", 0,               TP_I64 },
        {"u1", 0,               TP_U8  },
        {"u2", 0,               TP_U16 },
        {"u4", 0,               TP_U32 },
        {"u8", 0,               TP_U64 },
        {"f2", 1 + TPI_FLOAT16, TP_F32 },
        {"f4", 0,               TP_F32 },
        {"f8", 0,               TP_F64 },
    };
    h->raw.dtype = TP_N_DTYPES;
    skip_space(r);
    if (r->at < r->limit && *r->at == '[') {
        strcpy(h->type, "[");
        return skip_list(r);
    }
    if (!read_string(r, h->type, sizeof h->type))
        return false;
    const char order = h->type[0], *type = type_of(h);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i].text) != 0)
            continue;
        h->raw.dtype = known[i].dtype;
        h->raw.half = known[i].half;
        h->raw.size = (uint8_t)(known[i].text[1] - '0');
        h->raw.swapped = (order == '<' && host_is_big) || (order == '>' && !host_is_big);
    }
    return true;
}

static bool refuse_type(reader *r, const tpi_npy *h)
{
    static const struct {
        char text[4];
        const char *name;
    } refused[] = {
        {"f16", "128-bit floats"      },
        {"f12", "96-bit floats"       },
        {"c8",  "complex numbers"     },
        {"c16", "complex numbers"     },
        {"O",   "Python objects"      },
        {"U",   "strings"             },
        {"S",   "strings"             },
        {"a",   "strings"             },
        {"M",   "dates"               },
        {"m",   "differences of dates"},
        {"V",   "records"             },
    };
    if (h->type[0] == '[')
        return bad(r, "its elements are records; only numbers and bool can be read");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const size_t len = strlen(refused[i].text);
        if (strcmp(type_of(h), refused[i].text) == 0 ||
            (len == 1 && strncmp(type_of(h), refused[i].text, len) == 0))
            return bad(r,
                       "its elements '%s' are %s; only numbers of 8 to 64 bits and bool can "
                       "be read (f4, i8, ...)",
                       h->type, refused[i].name);
    }
    return bad(r, "its element type '%s' is unknown", h->type);
}

static bool read_shape(reader *r, tpi_npy *h)
{
    if (!eat(r, '('))
        return bad(r, "the shape is no tuple");
    while (!eat(r, ')')) {
        if (h->rank == TP_MAX_RANK)
            return bad(r, "it has more than %d axes", TP_MAX_RANK);
        int64_t n = 0;
        const char *first = r->at;
        for (; r->at < r->limit && *r->at >= '0' && *r->at <= '9'; r->at++) {
            if (__builtin_mul_overflow(n, 10, &n) ||
                __builtin_add_overflow(n, *r->at - '0', &n))
                return bad(r, "a size of the shape is beyond 2^63");
        }
        if (r->at == first)
            return bad(r, "the shape has something other than sizes >= 0");
        eat(r, 'L'); /* of Python 2 */
        h->shape[h->rank++] = n;
        if (!eat(r, ',')) {
            if (!eat(r, ')'))
                return bad(r, "the shape does not end");
            return true;
        }
    }
    return true;
}

static bool read_entry(reader *r, header *h)
{
    char key[24];
    if (!read_string(r, key, sizeof key))
        return false;
    if (!eat(r, ':'))
        return bad(r, "the header has no value for '%s'", key);
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        return read_descr(r, h->h);
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return read_shape(r, h->h);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        h->h->raw.fortran = eat_word(r, "True");
        return h->h->raw.fortran || eat_word(r, "False")
                   ? true
                   : bad(r, "fortran_order is neither True nor False");
    }
    return bad(r, "the header has an unexpected key '%s'", key);
}

static bool read_dict(reader *r, header *h)
{
    if (!eat(r, '{'))
        return bad(r, "the header is no dict");
    while (!eat(r, '}')) {
        if (!read_entry(r, h))
            return false;
        if (!eat(r, ',')) {
            if (!eat(r, '}'))
                return bad(r, "the header does not end");
            break;
        }
    }
    skip_space(r);
    if (r->at != r->limit)
        return bad(r, "something follows the header's dict");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return bad(r, "the header lacks %s",
                   !h->has_descr   ? "'descr'"
                   : !h->has_order ? "'fortran_order'"
                                   : "'shape'");
    return true;
}

bool tpi_npy_read(const char *bytes, size_t size, tpi_npy *out, char why[TPI_NPY_WHY])
{
    reader r = {.at = bytes, .limit = bytes + size, .why = why};
    *out = (tpi_npy){0};
    *why = 0;
    if (size < PREFIX || memcmp(bytes, magic, sizeof magic) != 0)
        return bad(&r, "it is no .npy file: it does not begin with \\x93NUMPY");
    const int version = (unsigned char)bytes[6];
    if (version < 1 || version > 3)
        return bad(&r, "its version is %d; 1 to 3 can be read", version);
    const size_t n_length = version == 1 ? 2 : 4, left = size - PREFIX;
    if (left < n_length)
        return bad(&r, "it ends in the header");
    const size_t length = (size_t)tpi_little(bytes + PREFIX, (int)n_length);
    if (left - n_length < length)
        return bad(&r, "it ends in the header: %zu bytes announced, %zu there", length,
                   left - n_length);
    out->head = PREFIX + n_length + length;
    r.at = bytes + PREFIX + n_length;
    r.limit = bytes + out->head;
    return read_dict(&r, &(header){.h = out});
}

bool tpi_npy_check(const tpi_npy *h, uint64_t have, char why[TPI_NPY_WHY])
{
    reader r = {.why = why};
    *why = 0;
    if (h->raw.dtype == TP_N_DTYPES)
        return refuse_type(&r, h);
    const int64_t bytes = tpi_raw_bytes(&h->raw, h->rank, h->shape);
    if (bytes < 0)
        return bad(&r, "its sizes multiply beyond 2^63 bytes");
    if ((uint64_t)bytes > have)
        return bad(&r, "its shape needs %" PRId64 " bytes, %" PRIu64 " are there", bytes, have);
    return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

static tp_tensor *parse(tp_ctx *ctx, tpi_at at, const char *what, const char *path,
                        const char *bytes, size_t size)
{
    tpi_npy h;
    char why[TPI_NPY_WHY];
    if (!tpi_npy_read(bytes, size, &h, why) || !tpi_npy_check(&h, size - h.head, why))
        return tpi_fail(ctx, at, what, TP_E_FORMAT, "%s%s%s", path, *path ? ": " : "", why);
    tp_tensor *t;
    if (!tpi_check_shape(ctx, at, what, h.rank, h.shape, &t))
        return t;
    t = tpi_tensor_new(ctx, at, h.raw.dtype, h.rank, h.shape);
    const size_t n = t->status == TP_OK ? (size_t)tpi_count(t) : 0;
    if (n == 0)
        return t;
    tpi_raw_gather(&h.raw, h.rank, h.shape, bytes + h.head, tpi_raw_place(&h.raw, n, t->data));
    tpi_raw_settle(&h.raw, n, t->data);
    return t;
}

tp_tensor *tp_npy_parse_at(const char *file, int line, tp_ctx *tp, const void *bytes,
                           size_t size_bytes)
{
    const tpi_at at = TPI_AT(file, line);
    TPI_ALONE(tp, at, "tp_npy_parse");
    if (!bytes && size_bytes)
        return tpi_fail(tp, at, "tp_npy_parse", TP_E_NULL, "the bytes are NULL");
    return tp ? parse(tp, at, "tp_npy_parse", "", bytes ? bytes : "", size_bytes)
              : (tp_tensor *)&tpi_nil;
}

TPI_BARE(tp_tensor *, tp_npy_parse, (tp_ctx * tp, const void *bytes, size_t size_bytes), tp,
         bytes, size_bytes)

tp_tensor *tp_npy_load_at(const char *file, int line, tp_ctx *tp, const char *path)
{
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return (tp_tensor *)&tpi_nil;
    TPI_ALONE(tp, at, "tp_npy_load");
    tpi_file_bytes bytes;
    tpi_file_error error;
    if (!tpi_file_read(&tp->mem, path, SIZE_MAX, &bytes, &error))
        return tpi_fail(tp, at, "tp_npy_load", error.status, "%s", error.text);
    tp_tensor *t = parse(tp, at, "tp_npy_load", path, bytes.data, bytes.size);
    tpi_file_free(&tp->mem, &bytes);
    return t;
}

TPI_BARE(tp_tensor *, tp_npy_load, (tp_ctx * tp, const char *path), tp, path)

/* ---- writing -------------------------------------------------------------------------------- */

void tpi_npy_descr(tp_dtype dtype, size_t size, char out[8])
{
    static const char kinds[TP_N_DTYPES] = {
        [TP_BOOL] = 'b', [TP_I8] = 'i',  [TP_I16] = 'i', [TP_I32] = 'i',
        [TP_I64] = 'i',  [TP_U8] = 'u',  [TP_U16] = 'u', [TP_U32] = 'u',
        [TP_U64] = 'u',  [TP_F32] = 'f', [TP_F64] = 'f',
    };
    const char order = size == 1 ? '|' : host_is_big ? '>' : '<';
    tpi_print(out, 8, "%c%c%zu", order, kinds[dtype], size);
}

/* Magic, version 1, length and dict. */
void tpi_npy_put(tpi_str *s, const char *descr, int rank, const int64_t *shape)
{
    const size_t first = s->len;
    tpi_str_add(s, magic, sizeof magic);
    tpi_str_add(s, "\1\0\0\0", 4); /* version and room for the length */
    tpi_str_printf(s, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < rank; i++)
        tpi_str_printf(s, "%s%" PRId64, i ? ", " : "", shape[i]);
    tpi_str_put(s, rank == 1 ? ",), }" : "), }");
    while (!s->failed && (s->len - first + 1) % ALIGN)
        tpi_str_put(s, " ");
    tpi_str_put(s, "\n");
    if (s->failed)
        return;
    const size_t length = s->len - first - PREFIX - 2;
    s->text[first + PREFIX] = (char)(length & 255);
    s->text[first + PREFIX + 1] = (char)(length >> 8);
}

/* The elements in row-major order, in `size` bytes each; `*copy` when they have to be gathered or rounded. */
static const void *elements(const tp_tensor *t, size_t size, void **copy)
{
    const size_t own = tp_dtype_size((tp_dtype)t->dtype);
    *copy = NULL;
    if (size == own && t->flags & TPI_CONTIGUOUS)
        return t->data;
    *copy = tpi_take(&t->ctx->mem, tpi_bytes(t));
    if (*copy)
        tpi_copy_out(t, *copy);
    if (*copy && size != own)
        tpi_halves_of(TPI_FLOAT16, own, (size_t)tpi_count(t), *copy);
    return *copy;
}

/* In `size` bytes an element; 0: its own. */
static tp_status save(tpi_at at, const char *what, const tp_tensor *t, const char *path,
                      size_t size)
{
    if (!tpi_is_live(t) || t->status != TP_OK)
        return tp_status_of(tpi_refuse_operand(t ? t->ctx : NULL, at, what, 0, t));
    tp_ctx *ctx = t->ctx;
    if (t->graph)
        return tpi_fail_status(ctx, at, what, TP_E_SYMBOLIC,
                               "the value of a symbolic tensor is known only when its graph is "
                               "run: save what tp_graph_run gives, or the graph by "
                               "tp_graph_save");
    if (size && t->dtype < TP_F32)
        return tpi_fail_status(ctx, at, what, TP_E_DTYPE, "the tensor is %s, not float",
                               tp_dtype_name((tp_dtype)t->dtype));
    tpi_look_at(at, t, TPI_LOOK_SHOW);
    if (t->status != TP_OK)
        return (tp_status)t->status;
    size = size ? size : tp_dtype_size((tp_dtype)t->dtype);
    tpi_str s = TPI_STR(&ctx->mem);
    char descr[8];
    tpi_npy_descr((tp_dtype)t->dtype, size, descr);
    tpi_npy_put(&s, descr, t->rank, t->shape);
    void *copy;
    const void *data = elements(t, size, &copy);
    tp_status status = TP_OK;
    if (s.failed || (!data && tpi_bytes(t))) {
        status = tpi_fail_status(ctx, at, what, TP_E_MEMORY, "out of memory");
    } else {
        tpi_writer w;
        tpi_file_begin(&w, &ctx->mem, &ctx->undone, path);
        tpi_file_put(&w, s.text, s.len);
        tpi_file_put(&w, data, (size_t)tpi_count(t) * size);
        if (!tpi_file_end(&w))
            status = tpi_fail_status(ctx, at, what, w.error.status, "%s", w.error.text);
    }
    tpi_give_back(&ctx->mem, copy, tpi_bytes(t));
    tpi_str_free(&s);
    return status;
}

tp_status tp_npy_save_at(const char *file, int line, const tp_tensor *t, const char *path)
{
    return save(TPI_AT(file, line), "tp_npy_save", t, path, 0);
}

TPI_BARE(tp_status, tp_npy_save, (const tp_tensor *t, const char *path), t, path)

tp_status tp_npy_save_f16_at(const char *file, int line, const tp_tensor *t, const char *path)
{
    return save(TPI_AT(file, line), "tp_npy_save_f16", t, path, 2);
}

TPI_BARE(tp_status, tp_npy_save_f16, (const tp_tensor *t, const char *path), t, path)
