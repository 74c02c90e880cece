#include "messages.h"

#include <stdlib.h>
#include <string.h>

/* Which fields of a message are messages: kind, number, what it is. */
static const int parts[][3] = {
    {MODEL,       7,  GRAPH      },
    {MODEL,       8,  OPSET      },
    {MODEL,       14, ENTRY      },
    {MODEL,       25, FUNCTION   },
    {FUNCTION,    7,  NODE       },
    {FUNCTION,    9,  OPSET      },
    {FUNCTION,    11, ATTRIBUTE  },
    {GRAPH,       1,  NODE       },
    {GRAPH,       5,  TENSOR     },
    {GRAPH,       11, VALUE      },
    {GRAPH,       12, VALUE      },
    {GRAPH,       13, VALUE      },
    {NODE,        5,  ATTRIBUTE  },
    {ATTRIBUTE,   5,  TENSOR     },
    {ATTRIBUTE,   6,  GRAPH      },
    {ATTRIBUTE,   10, TENSOR     },
    {ATTRIBUTE,   11, GRAPH      },
    {ATTRIBUTE,   14, TYPE       },
    {TENSOR,      13, ENTRY      },
    {VALUE,       2,  TYPE       },
    {TYPE,        1,  TENSOR_TYPE},
    {TYPE,        4,  LIST_TYPE  },
    {TYPE,        9,  LIST_TYPE  },
    {TENSOR_TYPE, 2,  SHAPE      },
    {LIST_TYPE,   1,  TYPE       },
    {SHAPE,       1,  DIM        },
};

static kind part_of(kind is, int number)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i][0] == (int)is && parts[i][1] == number)
            return (kind)parts[i][2];
    return LEAF;
}

static bool read_varint(const char **at, const char *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char c = (unsigned char)*(*at)++;
        *v |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return true;
    }
    return false;
}

static field *new_field(int number, int wire)
{
    field *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->number = number;
    f->wire = wire;
    return f;
}

static field *leaf(int number, const char *bytes, size_t n)
{
    field *f = new_field(number, WIRE_BYTES);
    f->bytes = malloc(n + 1);
    if (!f->bytes)
        abort();
    memcpy(f->bytes, bytes, n);
    f->n = n;
    return f;
}

static field *read_one(kind is, const char **at, const char *end)
{
    uint64_t tag, v = 0;
    if (!read_varint(at, end, &tag))
        return NULL;
    const int number = (int)(tag >> 3), wire = (int)(tag & 7);
    if (wire == WIRE_VARINT) {
        if (!read_varint(at, end, &v))
            return NULL;
    } else if (wire == WIRE_64 || wire == WIRE_32) {
        const size_t size = wire == WIRE_64 ? 8 : 4;
        if ((size_t)(end - *at) < size)
            return NULL;
        memcpy(&v, *at, size);
        *at += size;
    } else if (wire != WIRE_BYTES || !read_varint(at, end, &v) || v > (uint64_t)(end - *at)) {
        return NULL;
    }
    if (wire != WIRE_BYTES) {
        field *f = new_field(number, wire);
        f->value = v;
        return f;
    }
    const kind inner = part_of(is, number);
    field *f = inner ? tree_read(inner, *at, v) : NULL;
    if (!f)
        f = leaf(number, *at, v);
    f->number = number;
    *at += v;
    return f;
}

field *tree_read(kind is, const char *bytes, size_t n)
{
    field *f = new_field(0, WIRE_BYTES);
    const char *at = bytes, *const end = bytes + n;
    f->is = is;
    while (at < end) {
        field *c = read_one(is, &at, end);
        if (!c) {
            tree_free(f);
            return NULL;
        }
        tree_insert(f, f->n_child, c);
    }
    return f;
}

field *tree_copy(const field *f)
{
    field *c =
        f->is ? new_field(f->number, f->wire) : leaf(f->number, f->bytes ? f->bytes : "", f->n);
    c->wire = f->wire;
    c->value = f->value;
    c->is = f->is;
    for (int i = 0; i < f->n_child; i++)
        tree_insert(c, i, tree_copy(f->child[i]));
    return c;
}

void tree_free(field *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n_child; i++)
        tree_free(f->child[i]);
    free(f->child);
    free(f->bytes);
    free(f);
}

static void append(char **to, size_t *n, const void *bytes, size_t size)
{
    *to = realloc(*to, *n + size + 1);
    if (!*to)
        abort();
    memcpy(*to + *n, bytes, size);
    *n += size;
}

static void write_varint(uint64_t v, char **to, size_t *n)
{
    do {
        const char c = (char)((v & 127) | (v > 127 ? 128 : 0));
        append(to, n, &c, 1);
        v >>= 7;
    } while (v);
}

void tree_write(const field *f, bool is_root, char **to, size_t *n)
{
    if (!is_root)
        write_varint((uint64_t)f->number << 3 | (uint64_t)f->wire, to, n);
    if (f->wire == WIRE_VARINT) {
        write_varint(f->value, to, n);
    } else if (f->wire != WIRE_BYTES) {
        append(to, n, &f->value, f->wire == WIRE_64 ? 8 : 4);
    } else if (!f->is) {
        write_varint(f->n, to, n);
        append(to, n, f->bytes, f->n);
    } else {
        char *inner = NULL;
        size_t size = 0;
        append(&inner, &size, "", 0);
        for (int i = 0; i < f->n_child; i++)
            tree_write(f->child[i], false, &inner, &size);
        if (!is_root)
            write_varint(size, to, n);
        append(to, n, inner, size);
        free(inner);
    }
}

void tree_list(field *f, field ***list, int *n)
{
    *list = realloc(*list, ((size_t)*n + 1) * sizeof **list);
    if (!*list)
        abort();
    (*list)[(*n)++] = f;
    for (int i = 0; i < f->n_child; i++)
        tree_list(f->child[i], list, n);
}

void tree_insert(field *parent, int at, field *child)
{
    parent->child =
        realloc(parent->child, ((size_t)parent->n_child + 1) * sizeof *parent->child);
    if (!parent->child)
        abort();
    memmove(parent->child + at + 1, parent->child + at,
            (size_t)(parent->n_child - at) * sizeof *parent->child);
    parent->child[at] = child;
    parent->n_child++;
}

field *tree_remove(field *parent, int at)
{
    field *c = parent->child[at];
    memmove(parent->child + at, parent->child + at + 1,
            (size_t)(parent->n_child - at - 1) * sizeof *parent->child);
    parent->n_child--;
    return c;
}
