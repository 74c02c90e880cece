/* Graphs as files. Everything is little-endian:
 *
 *     0   "tapir graph 001\n"
 *     16  u64 size of the file; u64[2] hash of all bytes but these two
 *     40  u64 size of the text; u64 number of values; u64 zero
 *     64  per value: u32 type, u32 rank, i64 shape[8], u64 offset, u64 size
 *         the text (docs/ir.md), then the values, each from a multiple of 64, zeros between
 *
 * Values are those of the text's memory cells, then of its constants #0, #1, ... There is one
 * way to lay out a graph, and reading accepts no other. */
#include "base/file.h"
#include "base/hash.h"
#include "ir/notation.h"
#include "op/read/parse.h"

#include <string.h>

enum { HEADER_BYTES = 64, HASH_AT = 24, AFTER_HASH = 40, ROW_BYTES = 88, VALUE_ALIGN = 64 };
static const char magic[] = "tapir graph 001\n"; /* 16 bytes, the NUL left out */
static const char what_saves[] = "tp_graph_save", what_loads[] = "tp_graph_load";

static void put_u32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(unsigned char)(v >> 8 * i);
}

static void put_u64(char *p, uint64_t v)
{
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get_u32(const char *p)
{
    uint32_t v = 0;
    for (int i = 3; i >= 0; i--)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static uint64_t get_u64(const char *p)
{
    return (uint64_t)get_u32(p + 4) << 32 | get_u32(p);
}

static uint64_t aligned(uint64_t at)
{
    return (at + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
}

/* ---- saving ---------------------------------------------------------------------------------- */

typedef struct image {
    tp_ctx *ctx;
    tpi_str text;
    tpi_values values;
    int n; /* values: memory cells, then constants */
    tpi_blob *blobs;
    const tp_tensor **strided; /* the tensor when its elements are not one row of memory */
    uint64_t size;
} image;

typedef struct sink { /* the bytes go through the hash first, then to the file */
    tpi_hasher *hasher;
    tpi_writer *writer;
    uint64_t at;
} sink;

static void put(sink *s, const void *data, size_t size)
{
    if (s->hasher)
        tpi_hash_add(s->hasher, data, size);
    else
        tpi_file_put(s->writer, data, size);
    s->at += size;
}

static void put_zeros(sink *s, uint64_t until)
{
    const char zeros[VALUE_ALIGN] = {0};
    put(s, zeros, (size_t)(until - s->at));
}

static size_t blob_bytes(const tpi_blob *b)
{
    size_t n = tp_dtype_size(b->dtype);
    for (int i = 0; i < b->rank; i++)
        n *= (size_t)b->shape[i];
    return n;
}

static bool image_begin(image *im, const tp_graph *g)
{
    *im = (image){.ctx = g->ctx, .text = TPI_STR(&g->ctx->mem)};
    if (!tpi_values_collect(&im->values, g->ctx, g->n_nodes, g->nodes))
        return false;
    tpi_put_nodes(&im->text, g->dims, &im->values, g->n_nodes, g->nodes);
    tpi_put_outputs(&im->text, g);
    const tpi_values *v = &im->values;
    const size_t most = (size_t)v->n_cells + (size_t)v->data.n;
    im->blobs = tpi_take(&g->ctx->mem, most * sizeof *im->blobs);
    im->strided = tpi_take(&g->ctx->mem, most * sizeof *im->strided);
    if (im->text.failed || !im->blobs || !im->strided)
        return false;
    for (int k = 0; k < v->n_cells; k++) {
        const tpi_cell *c = &v->cells[k];
        if (c->of >= 0)
            continue;
        tpi_blob *b = &im->blobs[im->n];
        *b = (tpi_blob){.dtype = c->dtype, .rank = c->rank, .bytes = c->first};
        memcpy(b->shape, c->shape, sizeof(int64_t) * (size_t)c->rank);
        im->strided[im->n++] = NULL;
    }
    for (int k = 0; k < v->data.n; k++) {
        const tp_tensor *t = v->data.v[k];
        tpi_blob *b = &im->blobs[im->n];
        *b = (tpi_blob){.dtype = (tp_dtype)t->dtype, .rank = t->rank, .bytes = t->data};
        memcpy(b->shape, t->shape, sizeof(int64_t) * t->rank);
        im->strided[im->n++] = t->flags & TPI_CONTIGUOUS ? NULL : t;
    }
    uint64_t size = HEADER_BYTES + (uint64_t)im->n * ROW_BYTES + im->text.len;
    for (int k = 0; k < im->n; k++)
        size = aligned(size) + blob_bytes(&im->blobs[k]);
    im->size = size;
    return true;
}

static void image_end(image *im)
{
    tpi_mem *mem = &im->ctx->mem;
    const size_t most = (size_t)im->values.n_cells + (size_t)im->values.data.n;
    tpi_give_back(mem, im->blobs, most * sizeof *im->blobs);
    tpi_give_back(mem, im->strided, most * sizeof *im->strided);
    tpi_values_free(&im->values);
    tpi_str_free(&im->text);
}

/* False: no memory for a copy. */
static bool put_value(const image *im, sink *s, int k)
{
    const tpi_blob *b = &im->blobs[k];
    const size_t bytes = blob_bytes(b);
    const bool swap = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    if (!im->strided[k] && !swap) {
        put(s, b->bytes, bytes);
        return true;
    }
    char *copy = tpi_take(&im->ctx->mem, bytes);
    if (!copy)
        return false;
    if (im->strided[k])
        tpi_copy_out(im->strided[k], copy);
    else
        memcpy(copy, b->bytes, bytes);
    if (swap)
        tpi_swap_bytes(copy, bytes, tp_dtype_size(b->dtype));
    put(s, copy, bytes);
    tpi_give_back(&im->ctx->mem, copy, bytes);
    return true;
}

/* Everything behind the hash. */
static bool put_rest(const image *im, sink *s)
{
    char head[HEADER_BYTES - AFTER_HASH] = {0};
    put_u64(head, im->text.len);
    put_u64(head + 8, (uint64_t)im->n);
    put(s, head, sizeof head);
    uint64_t at = HEADER_BYTES + (uint64_t)im->n * ROW_BYTES + im->text.len;
    for (int k = 0; k < im->n; k++) {
        const tpi_blob *b = &im->blobs[k];
        char row[ROW_BYTES] = {0};
        at = aligned(at);
        put_u32(row, (uint32_t)b->dtype);
        put_u32(row + 4, (uint32_t)b->rank);
        for (int i = 0; i < b->rank; i++)
            put_u64(row + 8 + 8 * i, (uint64_t)b->shape[i]);
        put_u64(row + 72, at);
        put_u64(row + 80, blob_bytes(b));
        put(s, row, sizeof row);
        at += blob_bytes(b);
    }
    put(s, im->text.text, im->text.len);
    for (int k = 0; k < im->n; k++) {
        put_zeros(s, aligned(s->at));
        if (!put_value(im, s, k))
            return false;
    }
    return true;
}

static tp_status save(const tp_graph *g, tpi_at at, const char *path)
{
    image im;
    tpi_hasher hasher;
    tpi_writer writer;
    char head[AFTER_HASH];
    memcpy(head, magic, sizeof magic);
    bool ok = image_begin(&im, g);
    if (ok) {
        put_u64(head + 16, im.size);
        tpi_hash_begin(&hasher);
        tpi_hash_add(&hasher, head, HASH_AT);
        ok = put_rest(&im, &(sink){.hasher = &hasher, .at = AFTER_HASH});
    }
    tp_status status = TP_OK;
    if (ok) {
        uint64_t hash[2];
        tpi_hash_end(&hasher, hash);
        put_u64(head + HASH_AT, hash[0]);
        put_u64(head + HASH_AT + 8, hash[1]);
        tpi_file_begin(&writer, &g->ctx->mem, &g->ctx->undone, path);
        tpi_file_put(&writer, head, sizeof head);
        ok = put_rest(&im, &(sink){.writer = &writer, .at = AFTER_HASH});
        if (!ok)
            tpi_file_abandon(&writer);
        else if (!tpi_file_end(&writer))
            status = tpi_fail_status(g->ctx, at, what_saves, writer.error.status, "%s",
                                     writer.error.text);
    }
    image_end(&im);
    if (ok)
        return status;
    return tpi_fail_status(g->ctx, at, what_saves, TP_E_MEMORY, "out of memory");
}

tp_status tp_graph_save_at(const char *file, int line, const tp_graph *g, const char *path)
{
    const tpi_at at = TPI_AT(file, line);
    if (!g)
        return TP_E_NULL;
    if (!path)
        return tpi_fail_status(g->ctx, at, what_saves, TP_E_NULL, "the path is NULL");
    if (g->body)
        return tpi_fail_status(
            g->ctx, at, what_saves, TP_E_STATE,
            "the graph is the body of a block: save the graph that the block "
            "is in");
    const tpi_paused around = tpi_pause(g->ctx, at);
    const tp_status status = save(g, at, path);
    tpi_resume(g->ctx, around);
    return status;
}

TPI_BARE(tp_status, tp_graph_save, (const tp_graph *g, const char *path), g, path)

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct loader {
    tp_ctx *ctx;
    tpi_at at;
    const char *name; /* of the file, for messages; NULL: bytes */
    const char *data;
    uint64_t size, text_size, n;
} loader;

__attribute__((format(printf, 2, 3))) static bool malformed(const loader *l, const char *fmt,
                                                            ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    tpi_fail_status(l->ctx, l->at, what_loads, TP_E_FORMAT, "%.100s%s%s",
                    l->name ? l->name : "", l->name ? ": " : "", text);
    return false;
}

static bool check_header(loader *l)
{
    if (l->size < HEADER_BYTES || memcmp(l->data, magic, 12) != 0)
        return malformed(l, "this is no graph of tapir's");
    if (memcmp(l->data, magic, 16) != 0)
        return malformed(l, "another version of tapir wrote this graph");
    if (get_u64(l->data + 16) != l->size)
        return malformed(l, "%llu bytes are there, %llu were written",
                         (unsigned long long)l->size,
                         (unsigned long long)get_u64(l->data + 16));
    tpi_hasher hasher;
    uint64_t hash[2];
    tpi_hash_begin(&hasher);
    tpi_hash_add(&hasher, l->data, HASH_AT);
    tpi_hash_add(&hasher, l->data + AFTER_HASH, l->size - AFTER_HASH);
    tpi_hash_end(&hasher, hash);
    if (get_u64(l->data + HASH_AT) != hash[0] || get_u64(l->data + HASH_AT + 8) != hash[1])
        return malformed(l, "its bytes are not those that were written: the hash differs");
    l->text_size = get_u64(l->data + 40);
    l->n = get_u64(l->data + 48);
    const uint64_t rest = l->size - HEADER_BYTES;
    if (l->n > rest / ROW_BYTES || l->n > INT32_MAX || l->text_size > rest - l->n * ROW_BYTES ||
        get_u64(l->data + 56) != 0)
        return malformed(l, "the sizes in its header do not fit");
    return true;
}

static bool all_zero(const char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Row k of the table; `*end` is where the value before it ends. */
static bool read_row(const loader *l, uint64_t k, tpi_blob *b, uint64_t *end)
{
    const char *row = l->data + HEADER_BYTES + k * ROW_BYTES;
    const uint32_t dtype = get_u32(row), rank = get_u32(row + 4);
    const uint64_t at = get_u64(row + 72), size = get_u64(row + 80);
    if (dtype >= TP_N_DTYPES || rank > TP_MAX_RANK)
        return malformed(l, "value %llu has no such type", (unsigned long long)k);
    *b = (tpi_blob){.dtype = (tp_dtype)dtype, .rank = (int)rank};
    uint64_t bytes = tp_dtype_size(b->dtype), largest = bytes;
    for (uint32_t i = 0; i < TP_MAX_RANK; i++) {
        const uint64_t n = get_u64(row + 8 + (size_t)8 * i);
        if (i >= rank ? n != 0
                      : n > INT64_MAX || (n && __builtin_mul_overflow(largest, n, &largest)))
            return malformed(l, "value %llu has no such shape", (unsigned long long)k);
        if (i < rank) {
            b->shape[i] = (int64_t)n;
            bytes *= n;
        }
    }
    if (at != aligned(*end) || bytes != size || at > l->size || size > l->size - at ||
        !all_zero(l->data + *end, at - *end))
        return malformed(l, "value %llu is not where it belongs", (unsigned long long)k);
    b->bytes = l->data + at;
    *end = at + size;
    return true;
}

static tp_graph *load(loader *l)
{
    if (!check_header(l))
        return NULL;
    const size_t bytes = (size_t)l->n * sizeof(tpi_blob);
    tpi_blob *blobs = tpi_take(&l->ctx->mem, bytes);
    if (!blobs) {
        tpi_no_memory(l->ctx, l->at, what_loads);
        return NULL;
    }
    const uint64_t text_at = HEADER_BYTES + l->n * ROW_BYTES;
    uint64_t end = text_at + l->text_size;
    bool ok = true;
    for (uint64_t k = 0; k < l->n && ok; k++)
        ok = read_row(l, k, &blobs[k], &end);
    if (ok && end != l->size)
        ok = malformed(l, "there is more than the values");
    tp_graph *g = NULL;
    l->ctx->reads_file = true;
    if (ok)
        g = tpi_parse(l->ctx, l->at, what_loads, l->data + text_at, (size_t)l->text_size,
                      (int)l->n, blobs);
    l->ctx->reads_file = false;
    tpi_give_back(&l->ctx->mem, blobs, bytes);
    return g;
}

tp_graph *tp_graph_load_bytes_at(const char *file, int line, tp_ctx *tp, const void *bytes,
                                 size_t size_bytes)
{
    if (!tp)
        return NULL;
    loader l = {.ctx = tp, .at = TPI_AT(file, line), .data = bytes, .size = size_bytes};
    if (!bytes) {
        tpi_fail_status(tp, l.at, what_loads, TP_E_NULL, "the bytes are NULL");
        return NULL;
    }
    return load(&l);
}

TPI_BARE(tp_graph *, tp_graph_load_bytes, (tp_ctx * tp, const void *bytes, size_t size_bytes),
         tp, bytes, size_bytes)

tp_graph *tp_graph_load_at(const char *file, int line, tp_ctx *tp, const char *path)
{
    if (!tp)
        return NULL;
    loader l = {.ctx = tp, .at = TPI_AT(file, line), .name = path};
    tpi_file_bytes bytes;
    tpi_file_error error;
    if (!path) {
        tpi_fail_status(tp, l.at, what_loads, TP_E_NULL, "the path is NULL");
        return NULL;
    }
    if (!tpi_file_read(&tp->mem, path, SIZE_MAX, &bytes, &error)) {
        tpi_fail_status(tp, l.at, what_loads, error.status, "%s", error.text);
        return NULL;
    }
    l.data = bytes.data;
    l.size = bytes.size;
    tp_graph *g = load(&l);
    tpi_file_free(&tp->mem, &bytes);
    return g;
}

TPI_BARE(tp_graph *, tp_graph_load, (tp_ctx * tp, const char *path), tp, path)
