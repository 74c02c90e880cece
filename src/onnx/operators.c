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

#define PAIR "axis:int=-1<7 broadcast:int<7" /* where the axes of operand 1 belong */

/* Name, operands and attributes of each row. No pointers: the table is small that way. */
static const char texts[] =
#define OP(name, function, operands, attributes, ...) #name "\0" operands "\0" attributes "\0"
#define OPS OP
#define SOURCE(name, function, attributes) #name "\0\0" attributes "\0"
#define EXPRESSION(name, attributes, ...) #name "\0t\0" attributes "\0"
#define BINARY(name, op) #name "\0tt\0" PAIR "\0"
#define ARITHMETIC(name, op, operands, ...) #name "\0" operands "\0" PAIR "\0"
#include "onnx/operators.def"
    ;

#define RUNS(set) .types = (set)
static const struct {
    uint8_t name, operands; /* how long each is, with its NUL */
    uint16_t attributes, types;
} facts[] = {
#define OP(key, function, asked, options, ...)                                                 \
    {.name = sizeof #key, .operands = sizeof asked, .attributes = sizeof options, __VA_ARGS__},
#define OPS OP
#define SOURCE(name, function, attributes) OP(name, function, "", attributes, )
#define EXPRESSION(name, attributes, expression, ...) OP(name, , "t", attributes, __VA_ARGS__)
#define BINARY(name, op) OP(name, op, "tt", PAIR, )
#define ARITHMETIC(name, op, operands, ...) OP(name, op, operands, PAIR, __VA_ARGS__)
#include "onnx/operators.def"
};

tpi_onnx_operator tpi_onnx_operator_of(const char *name, size_t size)
{
    const char *at = texts;
    for (int i = 0; i < TPI_N_OPERATORS; i++) {
        const char *operands = at + facts[i].name, *attributes = operands + facts[i].operands;
        if (facts[i].name == size + 1 && memcmp(at, name, size) == 0)
            return (tpi_onnx_operator){i, at, operands, attributes, facts[i].types};
        at = attributes + facts[i].attributes;
    }
    return (tpi_onnx_operator){.row = -1, .name = "", .operands = "", .attributes = ""};
}

/* ---- attributes --------------------------------------------------------------------------------- */

static bool is_sign(char c)
{
    return c == ' ' || c == ':' || c == '=' || c == '<' || c == '>' || c == '@';
}

/* What follows up to a sign, which stays. */
static tpi_span cut(const char **at)
{
    const char *from = *at;
    while (**at && !is_sign(**at))
        ++*at;
    return (tpi_span){from, (size_t)(*at - from)};
}

/* A number behind a sign; without the sign `otherwise`. */
static int number_behind(const char **at, char sign, int otherwise)
{
    if (**at != sign)
        return otherwise;
    int n = 0;
    for (++*at; **at >= '0' && **at <= '9'; ++*at)
        n = 10 * n + (**at - '0');
    return n;
}

/* What is behind the name: ":type=default>set<set@operand". */
static void read_attribute(const char *at, int opset, tpi_onnx_attribute *a)
{
    ++at;
    a->type = cut(&at);
    a->otherwise = (tpi_span){0};
    if (*at == '=') {
        ++at;
        a->otherwise = cut(&at);
    }
    a->since = number_behind(&at, '>', 0) + 1;
    a->is_over = opset >= number_behind(&at, '<', INT32_MAX);
    const int operand = number_behind(&at, '@', 0);
    a->operand = a->is_over ? operand : 0;
}

/* Where the next attribute begins. */
static const char *behind(const char *text)
{
    const char *space = strchr(text, ' ');
    return space ? space + 1 : "";
}

bool tpi_onnx_next_attribute(const char **text, int opset, tpi_onnx_attribute *a)
{
    const char *at = *text;
    if (!*at)
        return false;
    a->name = cut(&at);
    read_attribute(at, opset, a);
    *text = behind(at);
    return true;
}

bool tpi_onnx_attribute_of(const char *text, int opset, tpi_span name, tpi_onnx_attribute *a)
{
    bool found = false;
    if (!name.size || memchr(name.at, ':', name.size))
        return false;
    for (; *text && (!found || (a->is_over && !a->operand)); text = behind(text)) {
        if (strncmp(text, name.at, name.size) != 0 || text[name.size] != ':')
            continue;
        a->name = (tpi_span){text, name.size};
        read_attribute(text + name.size, opset, a);
        found = true;
    }
    return found;
}

bool tpi_onnx_next_word(tpi_span *words, tpi_span *word)
{
    const char *bar = words->size ? memchr(words->at, '|', words->size) : NULL;
    if (!words->size)
        return false;
    *word = (tpi_span){words->at, bar ? (size_t)(bar - words->at) : words->size};
    const size_t taken = word->size + (bar != NULL);
    *words = (tpi_span){words->at + taken, words->size - taken};
    return true;
}
