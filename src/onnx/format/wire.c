#include "onnx/format/wire.h"

enum { MAX_GROUPS = 32 };

tpi_wire tpi_wire_open(tpi_span message)
{
    return (tpi_wire){.at = message.at, .limit = message.at ? message.at + message.size : NULL};
}

static bool spoil(tpi_wire *w)
{
    w->bad = true;
    w->at = w->limit;
    return false;
}

static bool get_varint(tpi_wire *w, uint64_t *value)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && w->at < w->limit; shift += 7) {
        const uint64_t byte = (unsigned char)*w->at++;
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = v;
            return shift < 63 || byte < 2 ? true : spoil(w);
        }
    }
    return spoil(w);
}

static bool get_fixed(tpi_wire *w, int bytes, uint64_t *value)
{
    if (w->limit - w->at < bytes)
        return spoil(w);
    *value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *value = *value << 8 | (unsigned char)w->at[i];
    w->at += bytes;
    return true;
}

static bool get_value(tpi_wire *w, tpi_field *f)
{
    uint64_t size;
    switch (f->kind) {
    case TPI_PB_VARINT:
        return get_varint(w, &f->value);
    case TPI_PB_FIXED64:
        return get_fixed(w, 8, &f->value);
    case TPI_PB_FIXED32:
        return get_fixed(w, 4, &f->value);
    case TPI_PB_BYTES:
        if (!get_varint(w, &size) || size > (uint64_t)(w->limit - w->at))
            return spoil(w);
        f->bytes = (tpi_span){w->at, (size_t)size};
        w->at += size;
        return true;
    default:
        return spoil(w);
    }
}

static bool get_key(tpi_wire *w, tpi_field *f)
{
    uint64_t key;
    if (w->at == w->limit || !get_varint(w, &key))
        return false;
    f->kind = (int)(key & 7);
    f->number = (uint32_t)(key >> 3);
    return key >> 3 == 0 || key >> 3 > 0x1fffffff ? spoil(w) : true;
}

bool tpi_wire_next(tpi_wire *w, tpi_field *f)
{
    uint32_t open[MAX_GROUPS];
    int depth = 0;
    *f = (tpi_field){0};
    while (get_key(w, f)) {
        if (f->kind == TPI_PB_GROUP_BEGIN) {
            if (depth == MAX_GROUPS)
                return spoil(w);
            open[depth++] = f->number;
        } else if (f->kind == TPI_PB_GROUP_END) {
            if (depth == 0 || open[--depth] != f->number)
                return spoil(w);
        } else if (!get_value(w, f)) {
            return false;
        } else if (depth == 0) {
            return true;
        }
    }
    return depth ? spoil(w) : false;
}

tpi_numbers tpi_numbers_open(const tpi_field *f, int kind)
{
    tpi_numbers n = {.kind = kind};
    if (f->kind == TPI_PB_BYTES) {
        n.rest = tpi_wire_open(f->bytes);
    } else {
        n.single = f->kind == kind;
        n.value = f->value;
        n.rest.bad = !n.single;
    }
    return n;
}

bool tpi_numbers_next(tpi_numbers *n, uint64_t *value)
{
    if (n->single) {
        *value = n->value;
        n->single = false;
        return true;
    }
    if (n->rest.bad || n->rest.at == n->rest.limit)
        return false;
    tpi_field f = {.kind = n->kind};
    if (!get_value(&n->rest, &f))
        return false;
    *value = f.value;
    return true;
}
