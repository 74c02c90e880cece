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

/* Name and operands of each row. No pointers: the table is small that way. */
static const char texts[] =
#define FIRST(operands, ...) operands
#define OP(name, function, ...) #name "\0" FIRST(__VA_ARGS__, ) "\0"
#define OPS OP
#define SOURCE(name, function) #name "\0\0"
#define UNARY(name, op, ...) #name "\0t\0"
#define ARITHMETIC OP
#define BINARY(name, op) #name "\0tt\0"
#include "onnx/operators.def"
    ;

#define AXIS(k) .along = true, .axis = (k)
#define RUNS(set) .types = (set)
#define FACTS(name, operands, ...)                                                             \
    {.name_size = sizeof #name, .operands_size = sizeof operands "", __VA_ARGS__},
static const struct {
    uint8_t name_size, operands_size; /* with their NUL */
    bool along;
    int8_t axis;
    uint16_t types;
} facts[] = {
#define OPS OP
#define OP(name, function, ...) FACTS(name, __VA_ARGS__, )
#define SOURCE(name, function) FACTS(name, , )
#define UNARY(name, op, ...) FACTS(name, "t", __VA_ARGS__)
#define ARITHMETIC OP
#define BINARY(name, op) FACTS(name, "tt", )
#include "onnx/operators.def"
};

tpi_onnx_operator tpi_onnx_operator_of(const char *name, size_t size)
{
    const char *at = texts;
    for (int i = 0; i < TPI_N_OPERATORS; i++) {
        const char *operands = at + facts[i].name_size;
        if (facts[i].name_size == size + 1 && memcmp(at, name, size) == 0)
            return (tpi_onnx_operator){
                i, at, operands, facts[i].along, facts[i].axis, facts[i].types};
        at = operands + facts[i].operands_size;
    }
    return (tpi_onnx_operator){.row = -1, .name = "", .operands = ""};
}
