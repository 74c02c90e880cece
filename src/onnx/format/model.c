#include "onnx/format/model.h"

#include "ir/notation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------- */

int tpi_span_compare(tpi_span a, tpi_span b)
{
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return a.size ? memcmp(a.at, b.at, a.size) : 0;
}

bool tpi_span_same(tpi_span a, tpi_span b)
{
    return tpi_span_compare(a, b) == 0;
}

bool tpi_span_is(tpi_span s, const char *text)
{
    return tpi_span_same(s, (tpi_span){text, strlen(text)});
}

int tpi_span_shown(tpi_span s)
{
    size_t n = s.size < 60 ? s.size : 60;
    while (n > 0 && n < s.size && (s.at[n] & 0xc0) == 0x80)
        n--;
    return (int)n;
}

/* ---- memory and errors ------------------------------------------------------------------------ */

bool tpi_onnx_bad(tpi_onnx_model *m, tp_status status, const char *fmt, ...)
{
    if (m->status == TP_OK) {
        m->status = status;
        va_list ap;
        va_start(ap, fmt);
        tpi_vprint(m->why, sizeof m->why, fmt, ap);
        va_end(ap);
    }
    return false;
}

tpi_onnx_path tpi_onnx_shown(const char *path)
{
    enum { MOST = 60 };
    tpi_onnx_path shown;
    const size_t len = strlen(path);
    const char *end = path + (len > MOST ? len - MOST : 0);
    while (end > path && (*end & 0xc0) == 0x80) /* the rest of a character */
        end++;
    snprintf(shown.text, sizeof shown.text, "%s%s", end > path ? "..." : "", end);
    return shown;
}

static bool malformed(tpi_onnx_model *m, const char *what)
{
    return tpi_onnx_bad(m, TP_E_FORMAT, "%s is no such ONNX message, or a damaged one", what);
}

void *tpi_onnx_take(tpi_onnx_model *m, size_t count, size_t size)
{
    void *p = tpi_bump_take(&m->memory, count, size);
    if (!p)
        tpi_onnx_bad(m, TP_E_MEMORY, "out of memory");
    return p;
}

bool tpi_onnx_had_memory(tpi_onnx_model *m)
{
    if (!m->memory.failed && m->ctx->mem.refused == m->refused)
        return true;
    m->status = TP_OK;
    return tpi_onnx_bad(m, TP_E_MEMORY, "out of memory");
}

tpi_onnx_model tpi_onnx_model_begin(tp_ctx *ctx, const char *folder)
{
    return (tpi_onnx_model){
        .ctx = ctx,
        .memory = TPI_BUMP(&ctx->mem),
        .refused = ctx->mem.refused,
        .external = {.folder = folder, .fd = -1}
    };
}

void tpi_onnx_model_free(tpi_onnx_model *m)
{
    tpi_external_close(&m->external);
    tpi_bump_free(&m->memory);
}

/* ---- fields ------------------------------------------------------------------------------------ */

static bool get_bytes(tpi_onnx_model *m, const tpi_field *f, const char *what, tpi_span *out)
{
    if (f->kind != TPI_PB_BYTES)
        return malformed(m, what);
    *out = f->bytes;
    return true;
}

static bool get_name(tpi_onnx_model *m, const tpi_field *f, const char *what, tpi_span *out)
{
    if (!get_bytes(m, f, what, out))
        return false;
    const char *p = out->at, *limit = out->at + out->size;
    while (p < limit) {
        const int n = *p ? tpi_utf8_length(p, limit) : 0;
        if (n == 0)
            return tpi_onnx_bad(m, TP_E_FORMAT, "a name in %s is not UTF-8, or has a NUL in it",
                                what);
        p += n;
    }
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* A message is read by a table: what becomes of the fields of a number. Others are passed over. */
typedef enum row_kind {
    ROW_NAME,  /* tpi_span */
    ROW_INT,   /* int64_t */
    ROW_SMALL, /* int */
    ROW_FLOAT, /* float */
    ROW_BYTES, /* tpi_span, of any bytes */
    ROW_PART,  /* a message, read into what the table is for */
    ROW_FIELD, /* likewise any field */
    ROW_COUNT, /* int: how many there are */
    ROW_NAMES, /* a list of tpi_span */
    ROW_PARTS  /* a list of messages */
} row_kind;

typedef struct row {
    uint32_t number;
    row_kind kind;
    size_t at;          /* offset of its place */
    size_t count, each; /* of a list: offset of its length, size of an element */
    bool (*read)(tpi_onnx_model *m, tpi_span message, void *to);
    bool (*field)(tpi_onnx_model *m, const tpi_field *f, void *to);
} row;

#define AT(row_kind, key, type, member)                                                        \
    {                                                                                          \
        .number = (key), .kind = (row_kind), .at = offsetof(type, member)                      \
    }
#define NAME(key, type, member) AT(ROW_NAME, key, type, member)
#define INT(key, type, member) AT(ROW_INT, key, type, member)
#define SMALL(key, type, member) AT(ROW_SMALL, key, type, member)
#define FLOAT(key, type, member) AT(ROW_FLOAT, key, type, member)
#define BYTES(key, type, member) AT(ROW_BYTES, key, type, member)
#define COUNT(key, type, member) AT(ROW_COUNT, key, type, member)
#define PART(key, reads)                                                                       \
    {                                                                                          \
        .number = (key), .kind = ROW_PART, .read = (reads)                                     \
    }
#define FIELD(key, reads)                                                                      \
    {                                                                                          \
        .number = (key), .kind = ROW_FIELD, .field = (reads)                                   \
    }
#define LIST(row_kind, key, type, member, reads)                                               \
    {                                                                                          \
        .number = (key), .kind = (row_kind), .at = offsetof(type, member),                     \
        .count = offsetof(type, n_##member), .each = sizeof *((type *)NULL)->member,           \
        .read = (reads)                                                                        \
    }
#define NAMES(key, type, member) LIST(ROW_NAMES, key, type, member, NULL)
#define PARTS(key, type, member, reads) LIST(ROW_PARTS, key, type, member, reads)
#define ROWS(table) (int)(sizeof(table) / sizeof *(table)), table
enum { MOST_ROWS = 10 };

/* Room for as many as there are. */
static bool make_lists(tpi_onnx_model *m, tpi_span message, const char *what, int n,
                       const row *rows, char *to)
{
    int counts[MOST_ROWS] = {0};
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    while (tpi_wire_next(&w, &f))
        for (int i = 0; i < n; i++)
            if (f.number == rows[i].number && ++counts[i] == INT32_MAX)
                return malformed(m, what);
    if (w.bad)
        return malformed(m, what);
    for (int i = 0; i < n; i++) {
        if (rows[i].kind == ROW_COUNT)
            memcpy(to + rows[i].at, &counts[i], sizeof counts[i]);
        if (rows[i].kind <= ROW_COUNT)
            continue;
        void *list = tpi_onnx_take(m, (size_t)counts[i], rows[i].each);
        if (!list)
            return false;
        memcpy(to + rows[i].at, &list, sizeof list);
    }
    return true;
}

/* The next element of a list. */
static void *next_of(const row *r, char *to)
{
    char *list;
    int n;
    memcpy(&list, to + r->at, sizeof list);
    memcpy(&n, to + r->count, sizeof n);
    void *element = list + (size_t)n++ * r->each;
    memcpy(to + r->count, &n, sizeof n);
    return element;
}

static bool read_field(tpi_onnx_model *m, const tpi_field *f, const char *what, const row *r,
                       char *to)
{
    tpi_span part;
    switch (r->kind) {
    case ROW_NAME:
        return get_name(m, f, what, (void *)(to + r->at));
    case ROW_INT:
        memcpy(to + r->at, &f->value, sizeof f->value);
        return f->kind == TPI_PB_VARINT || malformed(m, what);
    case ROW_SMALL: /* an enumeration; 1000 is in none */
        memcpy(to + r->at, &(int){f->value > 1000 ? 1000 : (int)f->value}, sizeof(int));
        return f->kind == TPI_PB_VARINT || malformed(m, what);
    case ROW_FLOAT:
        memcpy(to + r->at, &(uint32_t){(uint32_t)f->value}, sizeof(float));
        return f->kind == TPI_PB_FIXED32 || malformed(m, what);
    case ROW_BYTES:
        return get_bytes(m, f, what, (void *)(to + r->at));
    case ROW_FIELD:
        return r->field(m, f, to);
    case ROW_PART:
        return get_bytes(m, f, what, &part) && r->read(m, part, to);
    case ROW_COUNT:
        return true;
    case ROW_NAMES:
        return get_name(m, f, what, next_of(r, to));
    case ROW_PARTS:
        return get_bytes(m, f, what, &part) && r->read(m, part, next_of(r, to));
    }
    return false;
}

static bool read_message(tpi_onnx_model *m, tpi_span message, const char *what, int n,
                         const row *rows, void *to)
{
    bool ok = true, lists = false;
    for (int i = 0; i < n; i++)
        lists |= rows[i].kind >= ROW_COUNT;
    if (lists && !make_lists(m, message, what, n, rows, to))
        return false;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    while (ok && tpi_wire_next(&w, &f))
        for (int i = 0; i < n && ok; i++)
            if (f.number == rows[i].number)
                ok = read_field(m, &f, what, &rows[i], to);
    return ok && w.bad ? malformed(m, what) : ok;
}

/* ---- tensors ------------------------------------------------------------------------------------ */

/* A decimal number, as external data has them for offset and length. */
static bool get_decimal(tpi_span s, int64_t *out)
{
    int64_t v = 0;
    for (size_t i = 0; i < s.size; i++)
        if (s.at[i] < '0' || s.at[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, s.at[i] - '0', &v))
            return false;
    *out = v;
    return s.size > 0;
}

static bool read_external_entry(tpi_onnx_model *m, tpi_span message, void *to)
{
    tpi_onnx_tensor *t = to;
    static const char what[] = "an entry of external data";
    typedef struct entry {
        tpi_span key, value;
    } entry;
    static const row rows[] = {NAME(TPI_PB_ENTRY_KEY, entry, key),
                               NAME(TPI_PB_ENTRY_VALUE, entry, value)};
    entry e = {0};
    if (!read_message(m, message, what, ROWS(rows), &e))
        return false;
    bool ok = true;
    if (tpi_span_is(e.key, "location"))
        t->location = e.value;
    else if (tpi_span_is(e.key, "offset"))
        ok = get_decimal(e.value, &t->offset);
    else if (tpi_span_is(e.key, "length"))
        ok = get_decimal(e.value, &t->length);
    return ok ? true : malformed(m, what);
}

static bool read_dims(tpi_onnx_model *m, const tpi_field *f, void *to)
{
    tpi_onnx_tensor *t = to;
    tpi_numbers n = tpi_numbers_open(f, TPI_PB_VARINT);
    uint64_t v;
    while (tpi_numbers_next(&n, &v)) {
        if (t->rank == TP_MAX_RANK)
            return tpi_onnx_bad(m, TP_E_VALUE, "tensor \"%.*s\" has more than %d axes",
                                TPI_SPAN(t->name), TP_MAX_RANK);
        t->dims[t->rank++] = (int64_t)v;
    }
    return n.rest.bad ? malformed(m, "the shape of a tensor") : true;
}

static bool refuse_segment(tpi_onnx_model *m, const tpi_field *f, void *to)
{
    (void)f, (void)to;
    return tpi_onnx_bad(m, TP_E_VALUE, "a tensor in segments is not supported");
}

bool tpi_onnx_tensor_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_tensor *t)
{
    static const row rows[] = {
        NAME(TPI_PB_TENSOR_NAME, tpi_onnx_tensor, name),
        FIELD(TPI_PB_TENSOR_DIMS, read_dims),
        SMALL(TPI_PB_TENSOR_DATA_TYPE, tpi_onnx_tensor, type),
        BYTES(TPI_PB_TENSOR_RAW_DATA, tpi_onnx_tensor, raw),
        SMALL(TPI_PB_TENSOR_DATA_LOCATION, tpi_onnx_tensor, where),
        PART(TPI_PB_TENSOR_EXTERNAL_DATA, read_external_entry),
        FIELD(TPI_PB_TENSOR_SEGMENT, refuse_segment),
    };
    *t = (tpi_onnx_tensor){.message = message, .length = -1};
    bool ok = read_message(m, message, "a tensor", ROWS(rows), t);
    t->has_raw = t->raw.at != NULL;
    t->external = t->where == TPI_PB_LOCATION_EXTERNAL;
    t->count = 1;
    int64_t bytes = 8; /* of the widest element; an empty axis must not hide an absurd one */
    for (int i = 0; i < t->rank && ok; i++) {
        if (t->dims[i] < 0 || (t->dims[i] && __builtin_mul_overflow(bytes, t->dims[i], &bytes)))
            ok = tpi_onnx_bad(m, TP_E_FORMAT, "tensor \"%.*s\" has a size of %lld on axis %d",
                              TPI_SPAN(t->name), (long long)t->dims[i], i);
        else
            t->count *= t->dims[i];
    }
    return ok;
}

/* ---- attributes and nodes ------------------------------------------------------------------------ */

/* Old files do not say which field it is that an attribute has. */
static int type_of_field(uint32_t number)
{
    static const uint8_t types[] = {
        [TPI_PB_ATTRIBUTE_F] = TPI_PB_FLOAT,   [TPI_PB_ATTRIBUTE_I] = TPI_PB_INT,
        [TPI_PB_ATTRIBUTE_S] = TPI_PB_STRING,  [TPI_PB_ATTRIBUTE_T] = TPI_PB_TENSOR,
        [TPI_PB_ATTRIBUTE_G] = TPI_PB_GRAPH,   [TPI_PB_ATTRIBUTE_FLOATS] = TPI_PB_FLOATS,
        [TPI_PB_ATTRIBUTE_INTS] = TPI_PB_INTS, [TPI_PB_ATTRIBUTE_STRINGS] = TPI_PB_STRINGS};
    return number < sizeof types ? types[number] : TPI_PB_UNDEFINED;
}

static bool read_attr(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {
        NAME(TPI_PB_ATTRIBUTE_NAME, tpi_onnx_attr, name),
        NAME(TPI_PB_ATTRIBUTE_REF_ATTR_NAME, tpi_onnx_attr, ref),
        SMALL(TPI_PB_ATTRIBUTE_TYPE, tpi_onnx_attr, type),
        INT(TPI_PB_ATTRIBUTE_I, tpi_onnx_attr, i),
        FLOAT(TPI_PB_ATTRIBUTE_F, tpi_onnx_attr, f),
        BYTES(TPI_PB_ATTRIBUTE_S, tpi_onnx_attr, s),
        BYTES(TPI_PB_ATTRIBUTE_T, tpi_onnx_attr, t),
        BYTES(TPI_PB_ATTRIBUTE_G, tpi_onnx_attr, g),
    };
    tpi_onnx_attr *a = to;
    *a = (tpi_onnx_attr){.message = message};
    bool ok = read_message(m, message, "an attribute", ROWS(rows), a);
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    while (ok && !a->type && tpi_wire_next(&w, &f))
        a->type = type_of_field(f.number);
    if (ok && a->g.at)
        a->sub = tpi_onnx_take(m, 1, sizeof *a->sub);
    return ok && (a->sub || !a->g.at);
}

/* The default domain has two names. */
static void set_domain(tpi_span *domain)
{
    if (tpi_span_is(*domain, "ai.onnx"))
        *domain = (tpi_span){0};
}

static bool read_node(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {
        NAMES(TPI_PB_NODE_INPUT, tpi_onnx_node, in),
        NAMES(TPI_PB_NODE_OUTPUT, tpi_onnx_node, out),
        NAME(TPI_PB_NODE_NAME, tpi_onnx_node, name),
        NAME(TPI_PB_NODE_OP_TYPE, tpi_onnx_node, op),
        NAME(TPI_PB_NODE_DOMAIN, tpi_onnx_node, domain),
        NAME(TPI_PB_NODE_OVERLOAD, tpi_onnx_node, overload),
        PARTS(TPI_PB_NODE_ATTRIBUTE, tpi_onnx_node, attrs, read_attr),
    };
    tpi_onnx_node *n = to;
    const bool ok = read_message(m, message, "a node", ROWS(rows), n);
    set_domain(&n->domain);
    return ok;
}

tpi_onnx_list tpi_onnx_list_open(const tpi_onnx_attr *a)
{
    tpi_onnx_list l = {.fields = tpi_wire_open(a->message)};
    l.number = a->type == TPI_PB_FLOATS ? TPI_PB_ATTRIBUTE_FLOATS
               : a->type == TPI_PB_INTS ? TPI_PB_ATTRIBUTE_INTS
                                        : TPI_PB_ATTRIBUTE_STRINGS;
    return l;
}

static bool next_number(tpi_onnx_list *l, int kind, uint64_t *value)
{
    while (!tpi_numbers_next(&l->numbers, value)) {
        tpi_field f;
        do
            if (!tpi_wire_next(&l->fields, &f))
                return false;
        while (f.number != l->number);
        l->numbers = tpi_numbers_open(&f, kind);
    }
    return true;
}

bool tpi_onnx_next_int(tpi_onnx_list *l, int64_t *value)
{
    uint64_t v;
    if (!next_number(l, TPI_PB_VARINT, &v))
        return false;
    *value = (int64_t)v;
    return true;
}

bool tpi_onnx_next_float(tpi_onnx_list *l, float *value)
{
    uint64_t v;
    if (!next_number(l, TPI_PB_FIXED32, &v))
        return false;
    const uint32_t bits = (uint32_t)v;
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool tpi_onnx_next_text(tpi_onnx_list *l, tpi_span *value)
{
    tpi_field f;
    while (tpi_wire_next(&l->fields, &f))
        if (f.number == l->number && f.kind == TPI_PB_BYTES) {
            *value = f.bytes;
            return true;
        }
    return false;
}

/* ---- types ------------------------------------------------------------------------------------- */

/* What exporters write for every size that they do not know is no name: "?", "-1", "None". */
static bool is_name(tpi_span s)
{
    static const char *const unknown[] = {"None", "none", "unk", "unknown", "Unknown"};
    bool is = false;
    for (size_t i = 0; i < s.size && !is; i++) {
        const unsigned char c = (unsigned char)s.at[i];
        is = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c > 127;
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        is &= !tpi_span_is(s, unknown[i]);
    return is;
}

/* One more axis of the shape. */
static bool read_dim(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {INT(TPI_PB_DIM_VALUE, tpi_onnx_size, value),
                               NAME(TPI_PB_DIM_PARAM, tpi_onnx_size, param)};
    tpi_onnx_info *info = to;
    tpi_onnx_size d = {.value = -1};
    bool ok = true;
    if (info->rank < TP_MAX_RANK) {
        ok = read_message(m, message, "a dimension", ROWS(rows), &d);
        d.value = d.value < 0 ? -1 : d.value;
        d.param = is_name(d.param) ? d.param : (tpi_span){0};
        info->dims[info->rank] = d;
    }
    info->rank += info->rank <= TP_MAX_RANK;
    return ok;
}

static bool read_shape(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {PART(TPI_PB_SHAPE_DIM, read_dim)};
    tpi_onnx_info *info = to;
    info->has_shape = true;
    info->rank = 0;
    return read_message(m, message, "a shape", ROWS(rows), info);
}

static bool read_tensor_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const row rows[] = {SMALL(TPI_PB_TENSOR_TYPE_ELEM_TYPE, tpi_onnx_info, type),
                               PART(TPI_PB_TENSOR_TYPE_SHAPE, read_shape)};
    return read_message(m, message, "a type", ROWS(rows), info);
}

static bool read_type(tpi_onnx_model *m, tpi_span message, void *to);

/* The type of elements, which is a message in the one of an optional or a sequence. */
static bool read_inner_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const row rows[] = {PART(TPI_PB_TYPE_INNER_ELEM_TYPE, read_type)};
    info->kind = 0;
    return read_message(m, message, "a type", ROWS(rows), info);
}

/* A sequence may be in an optional, and a tensor in both; what is deeper is of some other kind. */
static bool read_type(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const char what[] = "a type";
    tpi_onnx_info *info = to;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span inner = {0};
        const bool optional =
            f.number == TPI_PB_TYPE_OPTIONAL && !info->optional && !info->sequence;
        const bool sequence = f.number == TPI_PB_TYPE_SEQUENCE && !info->sequence;
        if (f.number == TPI_PB_TYPE_DENOTATION)
            continue;
        info->kind = f.number < 1000 ? (int)f.number : 1000;
        info->optional |= optional;
        info->sequence |= sequence;
        if (f.number == TPI_PB_TYPE_TENSOR)
            ok = get_bytes(m, &f, what, &inner) && read_tensor_type(m, inner, info);
        else if (optional || sequence)
            ok = get_bytes(m, &f, what, &inner) && read_inner_type(m, inner, info);
    }
    return ok && w.bad ? malformed(m, what) : ok;
}

static bool read_info(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {NAME(TPI_PB_VALUE_INFO_NAME, tpi_onnx_info, name),
                               PART(TPI_PB_VALUE_INFO_TYPE, read_type)};
    return read_message(m, message, "an input or output", ROWS(rows), to);
}

/* ---- graphs, functions, the model ---------------------------------------------------------------- */

static bool read_initializer(tpi_onnx_model *m, tpi_span message, void *to)
{
    return tpi_onnx_tensor_read(m, message, to);
}

bool tpi_onnx_graph_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_graph *g)
{
    static const row rows[] = {
        PARTS(TPI_PB_GRAPH_NODE, tpi_onnx_graph, nodes, read_node),
        PARTS(TPI_PB_GRAPH_INITIALIZER, tpi_onnx_graph, inits, read_initializer),
        PARTS(TPI_PB_GRAPH_INPUT, tpi_onnx_graph, inputs, read_info),
        PARTS(TPI_PB_GRAPH_OUTPUT, tpi_onnx_graph, outputs, read_info),
        COUNT(TPI_PB_GRAPH_SPARSE_INITIALIZER, tpi_onnx_graph, n_sparse),
    };
    *g = (tpi_onnx_graph){0};
    return read_message(m, message, "a graph", ROWS(rows), g);
}

static bool read_opset(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {NAME(TPI_PB_OPSET_DOMAIN, tpi_onnx_opset, domain),
                               INT(TPI_PB_OPSET_VERSION, tpi_onnx_opset, version)};
    tpi_onnx_opset *o = to;
    const bool ok = read_message(m, message, "an operator set", ROWS(rows), o);
    set_domain(&o->domain);
    return ok;
}

static bool read_function(tpi_onnx_model *m, tpi_span message, void *to)
{
    static const row rows[] = {
        NAME(TPI_PB_FUNCTION_NAME, tpi_onnx_function, name),
        NAME(TPI_PB_FUNCTION_DOMAIN, tpi_onnx_function, domain),
        NAME(TPI_PB_FUNCTION_OVERLOAD, tpi_onnx_function, overload),
        NAMES(TPI_PB_FUNCTION_INPUT, tpi_onnx_function, in),
        NAMES(TPI_PB_FUNCTION_OUTPUT, tpi_onnx_function, out),
        NAMES(TPI_PB_FUNCTION_ATTRIBUTE, tpi_onnx_function, names),
        PARTS(TPI_PB_FUNCTION_ATTRIBUTE_PROTO, tpi_onnx_function, attrs, read_attr),
        PARTS(TPI_PB_FUNCTION_NODE, tpi_onnx_function, nodes, read_node),
        PARTS(TPI_PB_FUNCTION_OPSET_IMPORT, tpi_onnx_function, opsets, read_opset),
    };
    tpi_onnx_function *fn = to;
    const bool ok = read_message(m, message, "a function", ROWS(rows), fn);
    set_domain(&fn->domain);
    return ok;
}

static bool read_model_graph(tpi_onnx_model *m, tpi_span message, void *to)
{
    (void)to; /* it is m */
    m->has_graph = true;
    return tpi_onnx_graph_read(m, message, &m->graph);
}

static bool read_model(tpi_onnx_model *m, tpi_span message)
{
    static const row rows[] = {
        INT(TPI_PB_MODEL_IR_VERSION, tpi_onnx_model, ir_version),
        PARTS(TPI_PB_MODEL_OPSET_IMPORT, tpi_onnx_model, opsets, read_opset),
        PARTS(TPI_PB_MODEL_FUNCTIONS, tpi_onnx_model, functions, read_function),
        PART(TPI_PB_MODEL_GRAPH, read_model_graph),
    };
    return read_message(m, message, "the model", ROWS(rows), m);
}

bool tpi_onnx_model_read(tpi_onnx_model *m, tp_ctx *ctx, tpi_span bytes, const char *folder)
{
    *m = tpi_onnx_model_begin(ctx, folder);
    if (!read_model(m, bytes))
        return false;
    if (!m->has_graph || m->n_opsets == 0)
        return tpi_onnx_bad(m, TP_E_FORMAT, "this is no ONNX model: it has no %s",
                            m->has_graph ? "operator set" : "graph");
    if (m->ir_version < 3)
        return tpi_onnx_bad(m, TP_E_VALUE, "IR version %lld is not supported: 3 and later are",
                            (long long)m->ir_version);
    return true;
}
