#include "onnx/model.h"

#include "ir/notation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 32 << 10 };

struct tpi_onnx_chunk {
    tpi_onnx_chunk *next;
    size_t size;
};

/* ---- memory and errors ------------------------------------------------------------------------ */

bool tpi_onnx_bad(tpi_onnx_model *m, tp_status status, const char *fmt, ...)
{
    if (m->status == TP_OK) {
        m->status = status;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(m->why, sizeof m->why, fmt, ap);
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
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        tpi_onnx_bad(m, TP_E_MEMORY, "out of memory");
        return NULL;
    }
    bytes = bytes ? (bytes + 15) & ~(size_t)15 : 16;
    if (bytes > m->block_left) {
        const size_t head = (sizeof(tpi_onnx_chunk) + 15) & ~(size_t)15;
        const size_t block = head + (bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES);
        tpi_onnx_chunk *b = tpi_take(&m->ctx->mem, block);
        if (!b) {
            tpi_onnx_bad(m, TP_E_MEMORY, "out of memory");
            return NULL;
        }
        *b = (tpi_onnx_chunk){.next = m->blocks, .size = block};
        m->blocks = b;
        m->block_at = (char *)b + head;
        m->block_left = block - head;
    }
    void *p = m->block_at;
    m->block_at += bytes;
    m->block_left -= bytes;
    return memset(p, 0, bytes);
}

void tpi_onnx_model_free(tpi_onnx_model *m)
{
    tpi_external_close(&m->external);
    for (tpi_onnx_chunk *b = m->blocks, *next; b; b = next) {
        next = b->next;
        tpi_give_back(&m->ctx->mem, b, b->size);
    }
    m->blocks = NULL;
}

/* ---- fields ------------------------------------------------------------------------------------ */

/* How many fields of these numbers a message has. */
static bool count_fields(tpi_onnx_model *m, tpi_span message, const char *what, int n,
                         const uint32_t *numbers, int *counts)
{
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    memset(counts, 0, (size_t)n * sizeof *counts);
    while (tpi_wire_next(&w, &f))
        for (int i = 0; i < n; i++)
            if (f.number == numbers[i] && ++counts[i] == INT32_MAX)
                return malformed(m, what);
    return w.bad ? malformed(m, what) : true;
}

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

static bool get_int(tpi_onnx_model *m, const tpi_field *f, const char *what, int64_t *out)
{
    if (f->kind != TPI_PB_VARINT)
        return malformed(m, what);
    *out = (int64_t)f->value;
    return true;
}

static bool get_small(tpi_onnx_model *m, const tpi_field *f, const char *what, int *out)
{
    int64_t v = 0;
    if (!get_int(m, f, what, &v))
        return false;
    *out = v < 0 || v > 1000 ? 1000 : (int)v; /* an enumeration; 1000 is in none */
    return true;
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

static bool read_external_entry(tpi_onnx_model *m, tpi_span message, tpi_onnx_tensor *t)
{
    static const char what[] = "an entry of external data";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    tpi_span key = {0}, value = {0};
    while (tpi_wire_next(&w, &f))
        if ((f.number == TPI_PB_ENTRY_KEY && !get_name(m, &f, what, &key)) ||
            (f.number == TPI_PB_ENTRY_VALUE && !get_name(m, &f, what, &value)))
            return false;
    if (w.bad)
        return malformed(m, what);
    bool ok = true;
    if (tpi_span_is(key, "location"))
        t->location = value;
    else if (tpi_span_is(key, "offset"))
        ok = get_decimal(value, &t->offset);
    else if (tpi_span_is(key, "length"))
        ok = get_decimal(value, &t->length);
    return ok ? true : malformed(m, what);
}

static bool read_dims(tpi_onnx_model *m, const tpi_field *f, tpi_onnx_tensor *t)
{
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

bool tpi_onnx_tensor_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_tensor *t)
{
    static const char what[] = "a tensor";
    *t = (tpi_onnx_tensor){.message = message, .length = -1};
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    int location = 0;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span entry = {0};
        if (f.number == TPI_PB_TENSOR_NAME)
            ok = get_name(m, &f, what, &t->name);
        else if (f.number == TPI_PB_TENSOR_DIMS)
            ok = read_dims(m, &f, t);
        else if (f.number == TPI_PB_TENSOR_DATA_TYPE)
            ok = get_small(m, &f, what, &t->type);
        else if (f.number == TPI_PB_TENSOR_RAW_DATA)
            ok = t->has_raw = get_bytes(m, &f, what, &t->raw);
        else if (f.number == TPI_PB_TENSOR_DATA_LOCATION)
            ok = get_small(m, &f, what, &location);
        else if (f.number == TPI_PB_TENSOR_EXTERNAL_DATA)
            ok = get_bytes(m, &f, what, &entry) && read_external_entry(m, entry, t);
        else if (f.number == TPI_PB_TENSOR_SEGMENT)
            ok = tpi_onnx_bad(m, TP_E_VALUE, "a tensor in segments is not supported");
    }
    if (ok && w.bad)
        ok = malformed(m, what);
    t->external = location == TPI_PB_LOCATION_EXTERNAL;
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
    switch (number) {
    case TPI_PB_ATTRIBUTE_F:
        return TPI_PB_FLOAT;
    case TPI_PB_ATTRIBUTE_I:
        return TPI_PB_INT;
    case TPI_PB_ATTRIBUTE_S:
        return TPI_PB_STRING;
    case TPI_PB_ATTRIBUTE_T:
        return TPI_PB_TENSOR;
    case TPI_PB_ATTRIBUTE_G:
        return TPI_PB_GRAPH;
    case TPI_PB_ATTRIBUTE_FLOATS:
        return TPI_PB_FLOATS;
    case TPI_PB_ATTRIBUTE_INTS:
        return TPI_PB_INTS;
    case TPI_PB_ATTRIBUTE_STRINGS:
        return TPI_PB_STRINGS;
    default:
        return TPI_PB_UNDEFINED;
    }
}

static bool read_attr(tpi_onnx_model *m, tpi_span message, tpi_onnx_attr *a)
{
    static const char what[] = "an attribute";
    *a = (tpi_onnx_attr){.message = message};
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    int guess = TPI_PB_UNDEFINED;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        guess = guess ? guess : type_of_field(f.number);
        if (f.number == TPI_PB_ATTRIBUTE_NAME) {
            ok = get_name(m, &f, what, &a->name);
        } else if (f.number == TPI_PB_ATTRIBUTE_REF_ATTR_NAME) {
            ok = get_name(m, &f, what, &a->ref);
        } else if (f.number == TPI_PB_ATTRIBUTE_TYPE) {
            ok = get_small(m, &f, what, &a->type);
        } else if (f.number == TPI_PB_ATTRIBUTE_I) {
            ok = get_int(m, &f, what, &a->i);
        } else if (f.number == TPI_PB_ATTRIBUTE_F) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&a->f, &bits, sizeof bits);
            ok = f.kind == TPI_PB_FIXED32 || malformed(m, what);
        } else if (f.number == TPI_PB_ATTRIBUTE_S) {
            ok = get_bytes(m, &f, what, &a->s);
        } else if (f.number == TPI_PB_ATTRIBUTE_T) {
            ok = get_bytes(m, &f, what, &a->t);
        } else if (f.number == TPI_PB_ATTRIBUTE_G) {
            a->sub = a->sub ? a->sub : tpi_onnx_take(m, 1, sizeof *a->sub);
            ok = a->sub && get_bytes(m, &f, what, &a->g);
        }
    }
    if (ok && w.bad)
        ok = malformed(m, what);
    a->type = a->type ? a->type : guess;
    return ok;
}

static bool read_node(tpi_onnx_model *m, tpi_span message, tpi_onnx_node *n)
{
    static const char what[] = "a node";
    static const uint32_t numbers[] = {TPI_PB_NODE_INPUT, TPI_PB_NODE_OUTPUT,
                                       TPI_PB_NODE_ATTRIBUTE};
    int counts[3];
    if (!count_fields(m, message, what, 3, numbers, counts))
        return false;
    n->in = tpi_onnx_take(m, (size_t)counts[0], sizeof *n->in);
    n->out = tpi_onnx_take(m, (size_t)counts[1], sizeof *n->out);
    n->attrs = tpi_onnx_take(m, (size_t)counts[2], sizeof *n->attrs);
    if (!n->in || !n->out || !n->attrs)
        return false;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span attr = {0};
        if (f.number == TPI_PB_NODE_INPUT)
            ok = get_name(m, &f, what, &n->in[n->n_in++]);
        else if (f.number == TPI_PB_NODE_OUTPUT)
            ok = get_name(m, &f, what, &n->out[n->n_out++]);
        else if (f.number == TPI_PB_NODE_NAME)
            ok = get_name(m, &f, what, &n->name);
        else if (f.number == TPI_PB_NODE_OP_TYPE)
            ok = get_name(m, &f, what, &n->op);
        else if (f.number == TPI_PB_NODE_DOMAIN)
            ok = get_name(m, &f, what, &n->domain);
        else if (f.number == TPI_PB_NODE_OVERLOAD)
            ok = get_name(m, &f, what, &n->overload);
        else if (f.number == TPI_PB_NODE_ATTRIBUTE)
            ok = get_bytes(m, &f, what, &attr) && read_attr(m, attr, &n->attrs[n->n_attrs++]);
    }
    if (tpi_span_is(n->domain, "ai.onnx"))
        n->domain = (tpi_span){0};
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

static bool read_dim(tpi_onnx_model *m, tpi_span message, tpi_onnx_size *d)
{
    static const char what[] = "a dimension";
    *d = (tpi_onnx_size){.value = -1};
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f))
        if (f.number == TPI_PB_DIM_VALUE)
            ok = get_int(m, &f, what, &d->value);
        else if (f.number == TPI_PB_DIM_PARAM)
            ok = get_name(m, &f, what, &d->param);
    d->value = d->value < 0 ? -1 : d->value;
    return ok && w.bad ? malformed(m, what) : ok;
}

static bool read_shape(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const char what[] = "a shape";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    info->has_shape = true;
    info->rank = 0;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span dim = {0};
        if (f.number != TPI_PB_SHAPE_DIM)
            continue;
        ok = get_bytes(m, &f, what, &dim);
        if (ok && info->rank < TP_MAX_RANK)
            ok = read_dim(m, dim, &info->dims[info->rank]);
        info->rank += info->rank <= TP_MAX_RANK;
    }
    return ok && w.bad ? malformed(m, what) : ok;
}

static bool read_tensor_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const char what[] = "a type";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span shape = {0};
        if (f.number == TPI_PB_TENSOR_TYPE_ELEM_TYPE)
            ok = get_small(m, &f, what, &info->type);
        else if (f.number == TPI_PB_TENSOR_TYPE_SHAPE)
            ok = get_bytes(m, &f, what, &shape) && read_shape(m, shape, info);
    }
    return ok && w.bad ? malformed(m, what) : ok;
}

static bool read_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info);

/* The type of elements, which is a message in the one of an optional or a sequence. */
static bool read_inner_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const char what[] = "a type";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    info->kind = 0;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span type = {0};
        if (f.number == TPI_PB_TYPE_INNER_ELEM_TYPE)
            ok = get_bytes(m, &f, what, &type) && read_type(m, type, info);
    }
    return ok && w.bad ? malformed(m, what) : ok;
}

/* A sequence may be in an optional, and a tensor in both; what is deeper is of some other kind. */
static bool read_type(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const char what[] = "a type";
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

static bool read_info(tpi_onnx_model *m, tpi_span message, tpi_onnx_info *info)
{
    static const char what[] = "an input or output";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span type = {0};
        if (f.number == TPI_PB_VALUE_INFO_NAME)
            ok = get_name(m, &f, what, &info->name);
        else if (f.number == TPI_PB_VALUE_INFO_TYPE)
            ok = get_bytes(m, &f, what, &type) && read_type(m, type, info);
    }
    return ok && w.bad ? malformed(m, what) : ok;
}

/* ---- graphs, functions, the model ---------------------------------------------------------------- */

bool tpi_onnx_graph_read(tpi_onnx_model *m, tpi_span message, tpi_onnx_graph *g)
{
    static const char what[] = "a graph";
    static const uint32_t numbers[] = {TPI_PB_GRAPH_NODE, TPI_PB_GRAPH_INITIALIZER,
                                       TPI_PB_GRAPH_INPUT, TPI_PB_GRAPH_OUTPUT,
                                       TPI_PB_GRAPH_SPARSE_INITIALIZER};
    int counts[5];
    *g = (tpi_onnx_graph){0};
    if (!count_fields(m, message, what, 5, numbers, counts))
        return false;
    g->n_sparse = counts[4];
    g->nodes = tpi_onnx_take(m, (size_t)counts[0], sizeof *g->nodes);
    g->inits = tpi_onnx_take(m, (size_t)counts[1], sizeof *g->inits);
    g->inputs = tpi_onnx_take(m, (size_t)counts[2], sizeof *g->inputs);
    g->outputs = tpi_onnx_take(m, (size_t)counts[3], sizeof *g->outputs);
    if (!g->nodes || !g->inits || !g->inputs || !g->outputs)
        return false;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span part = {0};
        if (f.number == TPI_PB_GRAPH_NODE)
            ok = get_bytes(m, &f, what, &part) && read_node(m, part, &g->nodes[g->n_nodes++]);
        else if (f.number == TPI_PB_GRAPH_INITIALIZER)
            ok = get_bytes(m, &f, what, &part) &&
                 tpi_onnx_tensor_read(m, part, &g->inits[g->n_inits++]);
        else if (f.number == TPI_PB_GRAPH_INPUT)
            ok = get_bytes(m, &f, what, &part) && read_info(m, part, &g->inputs[g->n_inputs++]);
        else if (f.number == TPI_PB_GRAPH_OUTPUT)
            ok = get_bytes(m, &f, what, &part) &&
                 read_info(m, part, &g->outputs[g->n_outputs++]);
    }
    return ok;
}

static bool read_opset(tpi_onnx_model *m, tpi_span message, tpi_onnx_opset *o)
{
    static const char what[] = "an operator set";
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f))
        if (f.number == TPI_PB_OPSET_DOMAIN)
            ok = get_name(m, &f, what, &o->domain);
        else if (f.number == TPI_PB_OPSET_VERSION)
            ok = get_int(m, &f, what, &o->version);
    if (tpi_span_is(o->domain, "ai.onnx"))
        o->domain = (tpi_span){0};
    return ok && w.bad ? malformed(m, what) : ok;
}

static bool read_function(tpi_onnx_model *m, tpi_span message, tpi_onnx_function *fn)
{
    static const char what[] = "a function";
    static const uint32_t numbers[] = {
        TPI_PB_FUNCTION_INPUT,           TPI_PB_FUNCTION_OUTPUT, TPI_PB_FUNCTION_ATTRIBUTE,
        TPI_PB_FUNCTION_ATTRIBUTE_PROTO, TPI_PB_FUNCTION_NODE,   TPI_PB_FUNCTION_OPSET_IMPORT};
    int counts[6];
    if (!count_fields(m, message, what, 6, numbers, counts))
        return false;
    fn->in = tpi_onnx_take(m, (size_t)counts[0], sizeof *fn->in);
    fn->out = tpi_onnx_take(m, (size_t)counts[1], sizeof *fn->out);
    fn->names = tpi_onnx_take(m, (size_t)counts[2], sizeof *fn->names);
    fn->attrs = tpi_onnx_take(m, (size_t)counts[3], sizeof *fn->attrs);
    fn->nodes = tpi_onnx_take(m, (size_t)counts[4], sizeof *fn->nodes);
    fn->opsets = tpi_onnx_take(m, (size_t)counts[5], sizeof *fn->opsets);
    if (!fn->in || !fn->out || !fn->names || !fn->attrs || !fn->nodes || !fn->opsets)
        return false;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span part = {0};
        if (f.number == TPI_PB_FUNCTION_NAME)
            ok = get_name(m, &f, what, &fn->name);
        else if (f.number == TPI_PB_FUNCTION_DOMAIN)
            ok = get_name(m, &f, what, &fn->domain);
        else if (f.number == TPI_PB_FUNCTION_OVERLOAD)
            ok = get_name(m, &f, what, &fn->overload);
        else if (f.number == TPI_PB_FUNCTION_INPUT)
            ok = get_name(m, &f, what, &fn->in[fn->n_in++]);
        else if (f.number == TPI_PB_FUNCTION_OUTPUT)
            ok = get_name(m, &f, what, &fn->out[fn->n_out++]);
        else if (f.number == TPI_PB_FUNCTION_ATTRIBUTE)
            ok = get_name(m, &f, what, &fn->names[fn->n_names++]);
        else if (f.number == TPI_PB_FUNCTION_ATTRIBUTE_PROTO)
            ok = get_bytes(m, &f, what, &part) && read_attr(m, part, &fn->attrs[fn->n_attrs++]);
        else if (f.number == TPI_PB_FUNCTION_NODE)
            ok = get_bytes(m, &f, what, &part) && read_node(m, part, &fn->nodes[fn->n_nodes++]);
        else if (f.number == TPI_PB_FUNCTION_OPSET_IMPORT)
            ok = get_bytes(m, &f, what, &part) &&
                 read_opset(m, part, &fn->opsets[fn->n_opsets++]);
    }
    if (tpi_span_is(fn->domain, "ai.onnx"))
        fn->domain = (tpi_span){0};
    return ok;
}

static bool read_model(tpi_onnx_model *m, tpi_span message)
{
    static const char what[] = "the model";
    static const uint32_t numbers[] = {TPI_PB_MODEL_OPSET_IMPORT, TPI_PB_MODEL_FUNCTIONS};
    int counts[2];
    if (!count_fields(m, message, what, 2, numbers, counts))
        return false;
    m->opsets = tpi_onnx_take(m, (size_t)counts[0], sizeof *m->opsets);
    m->functions = tpi_onnx_take(m, (size_t)counts[1], sizeof *m->functions);
    if (!m->opsets || !m->functions)
        return false;
    tpi_wire w = tpi_wire_open(message);
    tpi_field f;
    bool ok = true;
    while (ok && tpi_wire_next(&w, &f)) {
        tpi_span part = {0};
        if (f.number == TPI_PB_MODEL_IR_VERSION)
            ok = get_int(m, &f, what, &m->ir_version);
        else if (f.number == TPI_PB_MODEL_OPSET_IMPORT)
            ok =
                get_bytes(m, &f, what, &part) && read_opset(m, part, &m->opsets[m->n_opsets++]);
        else if (f.number == TPI_PB_MODEL_FUNCTIONS)
            ok = get_bytes(m, &f, what, &part) &&
                 read_function(m, part, &m->functions[m->n_functions++]);
        else if (f.number == TPI_PB_MODEL_GRAPH)
            ok = get_bytes(m, &f, what, &part) && tpi_onnx_graph_read(m, part, &m->graph) &&
                 (m->has_graph = true);
    }
    return ok;
}

bool tpi_onnx_model_read(tpi_onnx_model *m, tp_ctx *ctx, tpi_span bytes, const char *folder)
{
    *m = (tpi_onnx_model){
        .ctx = ctx, .external = {.folder = folder, .fd = -1}
    };
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
