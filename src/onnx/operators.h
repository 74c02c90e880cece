/* The table of operators (operators.def): what reading and writing models ask about them. */
#ifndef TAPIR_ONNX_OPERATORS_H
#define TAPIR_ONNX_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { /* rows */
#define OP(name, ...) TPI_OPERATOR_##name,
#define OPS OP
#define SOURCE OP
#define UNARY OP
#define BINARY OP
#define ARITHMETIC OP
#include "onnx/operators.def"
       TPI_N_OPERATORS
};

typedef struct tpi_onnx_operator {
    int row; /* -1: there is none of that name */
    const char *name;
    const char *operands; /* t, f, T, F, s, m, M or - each */
    bool along;           /* it has an axis, */
    int axis;             /* which is this one when it is not said */
    unsigned types;       /* a bit for each tp_dtype; 0: all */
} tpi_onnx_operator;

tpi_onnx_operator tpi_onnx_operator_of(const char *name, size_t size);

#endif
