/* A model as the tree of its messages: read, changed, written. */
#ifndef TAPIR_MUTATOR_MESSAGES_H
#define TAPIR_MUTATOR_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

/* What a field of bytes is, by onnx.proto. */
typedef enum kind {
    LEAF, /* a text, or packed numbers */
    MODEL,
    OPSET,
    GRAPH,
    NODE,
    ATTRIBUTE,
    TENSOR,
    VALUE,
    TYPE,
    TENSOR_TYPE,
    LIST_TYPE,
    SHAPE,
    DIM,
    ENTRY,
    FUNCTION
} kind;

typedef struct field {
    int number, wire;
    uint64_t value; /* of a number */
    char *bytes;    /* [n]: of a leaf */
    size_t n;
    kind is;
    struct field **child; /* [n_child]: of a message */
    int n_child;
} field;

/* NULL: it is no such message. */
field *tree_read(kind is, const char *bytes, size_t n);
field *tree_copy(const field *f);
void tree_free(field *f);
/* Appends it to *to, which it makes longer; the root without number and length. */
void tree_write(const field *f, bool is_root, char **to, size_t *n);
/* All fields below f, f first: *list[*n], to be freed. */
void tree_list(field *f, field ***list, int *n);
void tree_insert(field *parent, int at, field *child);
field *tree_remove(field *parent, int at);

#endif
