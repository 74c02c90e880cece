/* Reads a one-node test of the ONNX project: the node, its attributes, and the tensors beside it.
 * Just enough of protobuf for that; what it does not know makes the case unreadable. */
#ifndef TAPIR_ONNX_NODE_H
#define TAPIR_ONNX_NODE_H

#include "common/unit.h"

enum { ONNX_MAX = 16 };

typedef struct onnx_bytes {
    const unsigned char *p, *end;
} onnx_bytes;

typedef struct onnx_attr {
    char name[32], s[32];
    int64_t i, ints[ONNX_MAX];
    float f;
    int n_ints;
} onnx_attr;

typedef struct onnx_node {
    char op[40];
    char graph_in[ONNX_MAX][64], in_name[ONNX_MAX][64];
    int n_graph_in, n_in, n_out, n_nodes, n_attrs;
    onnx_attr attrs[ONNX_MAX];
    tp_tensor *in[ONNX_MAX], *out[ONNX_MAX]; /* NULL: left out, or of a type we have not */
    bool unreadable;
} onnx_node;

static inline uint64_t onnx_varint(onnx_bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0; b->p < b->end && shift < 64; shift += 7) {
        v |= (uint64_t)(*b->p & 127) << shift;
        if (!(*b->p++ & 128))
            break;
    }
    return v;
}

/* The next field: number, a varint's or fixed value, or the bytes. False at the end. */
static inline bool onnx_field(onnx_bytes *b, int *number, uint64_t *value, onnx_bytes *inner)
{
    if (b->p >= b->end)
        return false;
    const uint64_t tag = onnx_varint(b);
    const size_t left = (size_t)(b->end - b->p);
    *number = (int)(tag >> 3);
    *value = 0;
    *inner = (onnx_bytes){b->p, b->p};
    size_t n = (tag & 7) == 5 ? 4 : (tag & 7) == 1 ? 8 : 0;
    if ((tag & 7) == 0)
        *value = onnx_varint(b);
    else if ((tag & 7) == 2)
        n = (size_t)onnx_varint(b);
    if (n > left || n > (size_t)(b->end - b->p))
        return false;
    if ((tag & 7) != 2 && n)
        memcpy(value, b->p, n);
    *inner = (onnx_bytes){b->p, b->p + n};
    b->p += n;
    return true;
}

static inline void onnx_text(char *out, size_t size, onnx_bytes b)
{
    const size_t n = (size_t)(b.end - b.p) < size - 1 ? (size_t)(b.end - b.p) : size - 1;
    memcpy(out, b.p, n);
    out[n] = 0;
}

static inline void onnx_read_attr(onnx_attr *a, onnx_bytes b)
{
    int number;
    uint64_t v;
    onnx_bytes inner;
    *a = (onnx_attr){0};
    while (onnx_field(&b, &number, &v, &inner)) {
        const uint32_t bits = (uint32_t)v;
        if (number == 1)
            onnx_text(a->name, sizeof a->name, inner);
        else if (number == 2)
            memcpy(&a->f, &bits, sizeof a->f);
        else if (number == 3)
            a->i = (int64_t)v;
        else if (number == 4)
            onnx_text(a->s, sizeof a->s, inner);
        else if (number == 8 && inner.p == inner.end && a->n_ints < ONNX_MAX)
            a->ints[a->n_ints++] = (int64_t)v;
        else if (number == 8)
            while (inner.p < inner.end && a->n_ints < ONNX_MAX)
                a->ints[a->n_ints++] = (int64_t)onnx_varint(&inner);
    }
}

static inline void onnx_read_node(onnx_node *node, onnx_bytes b)
{
    int number;
    uint64_t v;
    onnx_bytes inner;
    node->n_nodes++;
    while (onnx_field(&b, &number, &v, &inner)) {
        if (number == 1 && node->n_in < ONNX_MAX)
            onnx_text(node->in_name[node->n_in++], 64, inner);
        else if (number == 2)
            node->n_out++;
        else if (number == 4)
            onnx_text(node->op, sizeof node->op, inner);
        else if (number == 5 && node->n_attrs < ONNX_MAX)
            onnx_read_attr(&node->attrs[node->n_attrs++], inner);
    }
}

static inline void onnx_read_graph(onnx_node *node, onnx_bytes b)
{
    int number;
    uint64_t v;
    onnx_bytes inner, name;
    while (onnx_field(&b, &number, &v, &inner)) {
        if (number == 1)
            onnx_read_node(node, inner);
        node->unreadable |= number == 5; /* initializers */
        while (number == 11 && onnx_field(&inner, &number, &v, &name))
            if (number == 1 && node->n_graph_in < ONNX_MAX)
                onnx_text(node->graph_in[node->n_graph_in++], 64, name);
    }
}

/* NULL: of a type we have not, or not written as raw bytes. */
static inline tp_tensor *onnx_read_tensor(tp_ctx *tp, onnx_bytes b)
{
    static const int types[] = {
        [0] = -1,     [1] = TP_F32,  [2] = TP_U8,   [3] = TP_I8,  [4] = TP_U16,
        [5] = TP_I16, [6] = TP_I32,  [7] = TP_I64,  [8] = -1,     [9] = TP_BOOL,
        [10] = -1,    [11] = TP_F64, [12] = TP_U32, [13] = TP_U64};
    int64_t shape[TP_MAX_RANK];
    int rank = 0, type = -1, number;
    uint64_t v;
    onnx_bytes inner, raw = {0};
    while (onnx_field(&b, &number, &v, &inner)) {
        if (number == 1 && inner.p == inner.end && rank < TP_MAX_RANK)
            shape[rank++] = (int64_t)v;
        else if (number == 1)
            while (inner.p < inner.end && rank < TP_MAX_RANK)
                shape[rank++] = (int64_t)onnx_varint(&inner);
        else if (number == 2)
            type = v < sizeof types / sizeof *types ? types[v] : -1;
        else if (number == 9)
            raw = inner;
        else if (number != 8)
            return NULL;
    }
    if (type < 0)
        return NULL;
    size_t want = tp_dtype_size((tp_dtype)type);
    for (int i = 0; i < rank; i++)
        want *= (size_t)shape[i];
    return want == (size_t)(raw.end - raw.p)
               ? tp_tensor_new(tp, (tp_dtype)type, rank, shape, raw.p)
               : NULL;
}

/* The bytes of a file in memory that the caller frees. */
static inline onnx_bytes onnx_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return (onnx_bytes){0};
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    unsigned char *p = malloc(n > 0 ? (size_t)n : 1);
    const size_t got = n > 0 ? fread(p, 1, (size_t)n, f) : 0;
    fclose(f);
    return (onnx_bytes){p, p + got};
}

/* False: no case of one node and no initializers there. */
static inline bool onnx_load(tp_ctx *tp, onnx_node *node, const char *dir)
{
    char path[700];
    int number;
    uint64_t v;
    onnx_bytes inner;
    *node = (onnx_node){0};
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    const onnx_bytes file = onnx_file(path);
    for (onnx_bytes b = file; onnx_field(&b, &number, &v, &inner);)
        if (number == 7)
            onnx_read_graph(node, inner);
    free((void *)file.p);
    if (node->n_nodes != 1 || node->unreadable)
        return false;
    for (int i = 0; i < node->n_in; i++)
        for (int k = 0; k < node->n_graph_in; k++) {
            if (strcmp(node->in_name[i], node->graph_in[k]) != 0)
                continue;
            snprintf(path, sizeof path, "%s/test_data_set_0/input_%d.pb", dir, k);
            const onnx_bytes data = onnx_file(path);
            node->in[i] = onnx_read_tensor(tp, data);
            node->unreadable |= !node->in[i];
            free((void *)data.p);
        }
    for (int i = 0; i < node->n_out && i < ONNX_MAX; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/output_%d.pb", dir, i);
        const onnx_bytes data = onnx_file(path);
        node->out[i] = onnx_read_tensor(tp, data);
        free((void *)data.p);
    }
    node->unreadable |= !node->out[0];
    return true;
}

/* NULL: the attribute is not given. */
static inline const onnx_attr *onnx_attr_of(const onnx_node *node, const char *name)
{
    for (int i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

static inline int64_t onnx_int(const onnx_node *node, const char *name, int64_t otherwise)
{
    const onnx_attr *a = onnx_attr_of(node, name);
    return a ? a->i : otherwise;
}

#endif
