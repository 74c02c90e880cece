/* ONNX models made byte by byte, well-formed or not. */
#ifndef TAPIR_TEST_ONNX_BYTES_H
#define TAPIR_TEST_ONNX_BYTES_H

#include "onnx/format/proto.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    char *at;
    size_t size, room;
} bytes;

static inline void put(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->room) {
        b->room = 2 * (b->size + size);
        b->at = realloc(b->at, b->room);
        if (!b->at)
            abort();
    }
    if (size)
        memcpy(b->at + b->size, data, size);
    b->size += size;
}

static inline void put_varint(bytes *b, uint64_t v)
{
    do {
        const char c = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        put(b, &c, 1);
        v >>= 7;
    } while (v);
}

static inline void put_int(bytes *b, int field, int64_t v)
{
    put_varint(b, (uint64_t)field << 3 | TPI_PB_VARINT);
    put_varint(b, (uint64_t)v);
}

static inline void put_bytes(bytes *b, int field, const void *data, size_t size)
{
    put_varint(b, (uint64_t)field << 3 | TPI_PB_BYTES);
    put_varint(b, size);
    put(b, data, size);
}

static inline void put_text(bytes *b, int field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* Adds a message and frees it. */
static inline void put_message(bytes *b, int field, bytes message)
{
    put_bytes(b, field, message.at, message.size);
    free(message.at);
}

/* A NULL-terminated list of names. */
static inline void put_texts(bytes *b, int field, const char *const *texts)
{
    for (; texts && *texts; texts++)
        put_text(b, field, *texts);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline bytes node(const char *op, const char *const *in, const char *const *out)
{
    bytes n = {0};
    put_texts(&n, TPI_PB_NODE_INPUT, in);
    put_texts(&n, TPI_PB_NODE_OUTPUT, out);
    put_text(&n, TPI_PB_NODE_OP_TYPE, op);
    return n;
}

static inline bytes attr_int(const char *name, int64_t v)
{
    bytes a = {0};
    put_text(&a, TPI_PB_ATTRIBUTE_NAME, name);
    put_int(&a, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_INT);
    put_int(&a, TPI_PB_ATTRIBUTE_I, v);
    return a;
}

static inline bytes attr_text(const char *name, const char *text)
{
    bytes a = {0};
    put_text(&a, TPI_PB_ATTRIBUTE_NAME, name);
    put_int(&a, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_STRING);
    put_text(&a, TPI_PB_ATTRIBUTE_S, text);
    return a;
}

static inline bytes attr_graph(const char *name, bytes graph)
{
    bytes a = {0};
    put_text(&a, TPI_PB_ATTRIBUTE_NAME, name);
    put_int(&a, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_GRAPH);
    put_message(&a, TPI_PB_ATTRIBUTE_G, graph);
    return a;
}

/* With its values raw; data NULL: none. */
static inline bytes tensor(const char *name, int type, int rank, const int64_t *dims,
                           const void *data, size_t size)
{
    bytes t = {0};
    for (int i = 0; i < rank; i++)
        put_int(&t, TPI_PB_TENSOR_DIMS, dims[i]);
    put_int(&t, TPI_PB_TENSOR_DATA_TYPE, type);
    put_text(&t, TPI_PB_TENSOR_NAME, name);
    if (data)
        put_bytes(&t, TPI_PB_TENSOR_RAW_DATA, data, size);
    return t;
}

static inline bytes external(const char *name, int type, int64_t n, const char *location,
                             const char *offset)
{
    bytes t = tensor(name, type, 1, &n, NULL, 0);
    const char *const entries[2][2] = {
        {"location", location},
        {"offset",   offset  }
    };
    for (int i = 0; i < 2; i++) {
        bytes e = {0};
        put_text(&e, TPI_PB_ENTRY_KEY, entries[i][0]);
        put_text(&e, TPI_PB_ENTRY_VALUE, entries[i][1]);
        put_message(&t, TPI_PB_TENSOR_EXTERNAL_DATA, e);
    }
    put_int(&t, TPI_PB_TENSOR_DATA_LOCATION, TPI_PB_LOCATION_EXTERNAL);
    return t;
}

/* An input or output; a size -1 is free, and called `param` when that is not NULL. */
static inline bytes value(const char *name, int type, int rank, const int64_t *dims,
                          const char *param)
{
    bytes shape = {0}, own = {0}, t = {0}, v = {0};
    for (int i = 0; i < rank; i++) {
        bytes d = {0};
        if (dims[i] >= 0)
            put_int(&d, TPI_PB_DIM_VALUE, dims[i]);
        else if (param)
            put_text(&d, TPI_PB_DIM_PARAM, param);
        put_message(&shape, TPI_PB_SHAPE_DIM, d);
    }
    put_int(&own, TPI_PB_TENSOR_TYPE_ELEM_TYPE, type);
    put_message(&own, TPI_PB_TENSOR_TYPE_SHAPE, shape);
    put_message(&t, TPI_PB_TYPE_TENSOR, own);
    put_text(&v, TPI_PB_VALUE_INFO_NAME, name);
    put_message(&v, TPI_PB_VALUE_INFO_TYPE, t);
    return v;
}

static inline void import_opset(bytes *m, int field, const char *domain, int64_t version)
{
    bytes o = {0};
    put_text(&o, TPI_PB_OPSET_DOMAIN, domain);
    put_int(&o, TPI_PB_OPSET_VERSION, version);
    put_message(m, field, o);
}

static inline bytes model(bytes graph)
{
    bytes m = {0};
    put_int(&m, TPI_PB_MODEL_IR_VERSION, 8);
    import_opset(&m, TPI_PB_MODEL_OPSET_IMPORT, "", 17);
    put_message(&m, TPI_PB_MODEL_GRAPH, graph);
    return m;
}

#endif
