/* The table of operators (operators.def): what reading and writing models ask about them. */
#ifndef TAPIR_ONNX_OPERATORS_H
#define TAPIR_ONNX_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tpi_onnx_operator {
    char name[26];
    char operands[10]; /* t, f, T, F or - each */
    bool along;        /* it has an axis, */
    int8_t axis;       /* which is this one when it is not said */
    uint16_t types;    /* a bit for each tp_dtype; 0: all */
} tpi_onnx_operator;

enum {
#define OP(name, ...) TPI_OPERATOR_##name,
#define OPS OP
#define SOURCE OP
#define UNARY OP
#define BINARY OP
#include "onnx/operators.def"
#undef OP
#undef OPS
#undef SOURCE
#undef UNARY
#undef BINARY
    TPI_N_OPERATORS
};

extern const tpi_onnx_operator tpi_onnx_operators[TPI_N_OPERATORS];

/* The row of a name; -1: there is none. */
int tpi_onnx_operator_of(const char *name, size_t size);

#endif
