/* The table of operators (operators.def): what reading and writing models ask about them. */
#ifndef TAPIR_ONNX_OPERATORS_H
#define TAPIR_ONNX_OPERATORS_H

#include "onnx/format/wire.h"

enum { /* rows */
#define OP(name, ...) TPI_OPERATOR_##name,
#define OPS OP
#define SOURCE OP
#define EXPRESSION OP
#define BINARY OP
#define ARITHMETIC OP
#include "onnx/operators.def"
       TPI_N_OPERATORS
};

typedef struct tpi_onnx_operator {
    int row; /* -1: there is none of that name */
    const char *name;
    const char *operands;   /* t, f, T, F, s, m, M or - each */
    const char *attributes; /* as in the table */
    unsigned types;         /* a bit for each tp_dtype; 0: all */
} tpi_onnx_operator;

tpi_onnx_operator tpi_onnx_operator_of(const char *name, size_t size);

/* One of an operator's attributes, as an operator set has it. */
typedef struct tpi_onnx_attribute {
    tpi_span name, type;
    tpi_span otherwise; /* its default; empty: there is none */
    int operand;        /* it is this operand instead; 0: it is none */
    bool is_over;       /* it is an attribute of older sets only, */
    int since;          /* or from this one on */
} tpi_onnx_attribute;

/* The next one of a text of attributes; false at its end. */
bool tpi_onnx_next_attribute(const char **text, int opset, tpi_onnx_attribute *a);
/* The one of that name; false: the operator has none. */
bool tpi_onnx_attribute_of(const char *text, int opset, tpi_span name, tpi_onnx_attribute *a);
/* The next word of a default; false behind the last one. */
bool tpi_onnx_next_word(tpi_span *words, tpi_span *word);

#endif
