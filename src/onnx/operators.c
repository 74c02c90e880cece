#include "onnx/operators.h"

#include "core/core.h"

#include <string.h>

enum { /* sets of types */
       ALL = 0,
       BOOL = 1u << TP_BOOL,
       I8 = 1u << TP_I8,
       I16 = 1u << TP_I16,
       I32 = 1u << TP_I32,
       I64 = 1u << TP_I64,
       U8 = 1u << TP_U8,
       U16 = 1u << TP_U16,
       U32 = 1u << TP_U32,
       U64 = 1u << TP_U64,
       F32 = 1u << TP_F32,
       F64 = 1u << TP_F64,
       NUMBERS = I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F32 | F64
};

#define AXIS(k) .along = true, .axis = (k)
#define RUNS(set) .types = (set)

const tpi_onnx_operator tpi_onnx_operators[] = {
#define OP(title, function, ...) {.name = #title, .operands = __VA_ARGS__},
#define OPS OP
#define SOURCE(title, function) {.name = #title},
#define UNARY(title, op, ...) {.name = #title, .operands = "t", __VA_ARGS__},
#define BINARY(title, op) {.name = #title, .operands = "tt"},
#include "onnx/operators.def"
};

int tpi_onnx_operator_of(const char *name, size_t size)
{
    for (int i = 0; i < TPI_N_OPERATORS; i++)
        if (strlen(tpi_onnx_operators[i].name) == size &&
            memcmp(tpi_onnx_operators[i].name, name, size) == 0)
            return i;
    return -1;
}
