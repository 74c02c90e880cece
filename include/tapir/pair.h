/* tapir: how a macro takes two tensors, or one and a number of C. Nothing here is called by name. */
#ifndef TAPIR_PAIR_H
#define TAPIR_PAIR_H

#include "tensor.h"

typedef struct tp_pair {
    tp_tensor *left, *right;
} tp_pair;

#if defined(__cplusplus)

#include <type_traits>

extern "C++" {
template <class N> tp_tensor *tp_number_beside(const char *file, int line, tp_tensor *x, N n)
{
    static_assert(std::is_arithmetic<N>::value || std::is_enum<N>::value,
                  "an operand is a tensor or a number");
    if (std::is_floating_point<N>::value)
        return tp_number_at(file, line, x, static_cast<double>(n));
    if (std::is_unsigned<N>::value)
        return tp_natural_at(file, line, x, static_cast<uint64_t>(n));
    return tp_integer_at(file, line, x, static_cast<int64_t>(n));
}
inline tp_pair tp_pair_of(const char *, int, tp_tensor *a, tp_tensor *b)
{
    return {a, b};
}
inline tp_pair tp_pair_of(const char *, int, std::nullptr_t, tp_tensor *b)
{
    return {nullptr, b};
}
inline tp_pair tp_pair_of(const char *, int, tp_tensor *a, std::nullptr_t)
{
    return {a, nullptr};
}
template <class N> tp_pair tp_pair_of(const char *file, int line, tp_tensor *a, N b)
{
    return {a, tp_number_beside(file, line, a, b)};
}
template <class N> tp_pair tp_pair_of(const char *file, int line, N a, tp_tensor *b)
{
    return {tp_number_beside(file, line, b, a), b};
}
template <class F> tp_tensor *tp_pair_to(F f, const char *file, int line, tp_pair p)
{
    return f(file, line, p.left, p.right);
}
template <class F>
tp_tensor *tp_pair_to(F f, const char *file, int line, tp_tensor *c, tp_pair p)
{
    return f(file, line, c, p.left, p.right);
}
}
#define TP_PAIR(f, a, b) tp_pair_to(f, TP_PLACE, tp_pair_of(TP_PLACE, a, b))
#define TP_PAIR_BEHIND(c, f, a, b) tp_pair_to(f, TP_PLACE, c, tp_pair_of(TP_PLACE, a, b))

#elif defined(__GNUC__)

#define TP_PAIR_FUNCTION                                                                       \
    static inline __attribute__((always_inline, artificial, unused)) tp_pair
TP_PAIR_FUNCTION tp_pair_of_tensors(const char *file, int line, tp_operand a, tp_operand b)
{
    (void)file, (void)line;
    return (tp_pair){a.tensor, b.tensor};
}
TP_PAIR_FUNCTION tp_pair_floating_right(const char *file, int line, tp_operand a, double b)
{
    return (tp_pair){a.tensor, tp_number_at(file, line, a.tensor, b)};
}
TP_PAIR_FUNCTION tp_pair_signed_right(const char *file, int line, tp_operand a, int64_t b)
{
    return (tp_pair){a.tensor, tp_integer_at(file, line, a.tensor, b)};
}
TP_PAIR_FUNCTION tp_pair_unsigned_right(const char *file, int line, tp_operand a, uint64_t b)
{
    return (tp_pair){a.tensor, tp_natural_at(file, line, a.tensor, b)};
}
TP_PAIR_FUNCTION tp_pair_floating_left(const char *file, int line, double a, tp_operand b)
{
    return (tp_pair){tp_number_at(file, line, b.tensor, a), b.tensor};
}
TP_PAIR_FUNCTION tp_pair_signed_left(const char *file, int line, int64_t a, tp_operand b)
{
    return (tp_pair){tp_integer_at(file, line, b.tensor, a), b.tensor};
}
TP_PAIR_FUNCTION tp_pair_unsigned_left(const char *file, int line, uint64_t a, tp_operand b)
{
    return (tp_pair){tp_natural_at(file, line, b.tensor, a), b.tensor};
}
#undef TP_PAIR_FUNCTION

/* By the type of x: a floating-point number, an integer without and with a sign, something else. */
#define TP_BY_NUMBER(x, floating, natural, integer, other)                                     \
    _Generic((x), float                                                                        \
             : floating, double                                                                \
             : floating, unsigned char                                                         \
             : natural, unsigned short                                                         \
             : natural, unsigned int                                                           \
             : natural, unsigned long                                                          \
             : natural, unsigned long long                                                     \
             : natural, _Bool                                                                  \
             : integer, char                                                                   \
             : integer, signed char                                                            \
             : integer, short                                                                  \
             : integer, int                                                                    \
             : integer, long                                                                   \
             : integer, long long                                                              \
             : integer, default                                                                \
             : other)

/* Each use has variables of its own names, by n, so that uses nest and each operand is evaluated once. */
#define TP_PAIR(f, a, b) TP_PAIR_COUNTED(f, a, b, __COUNTER__, )
#define TP_PAIR_BEHIND(c, f, a, b) TP_PAIR_COUNTED(f, a, b, __COUNTER__, TP_OPERAND(c), )
#define TP_PAIR_COUNTED(f, a, b, n, ...) TP_PAIR_NAMED(f, a, b, n, __VA_ARGS__)
#define TP_PAIR_NAMED(f, a, b, n, ...)                                                         \
    __extension__({                                                                            \
        __auto_type tp_a##n = (a);                                                             \
        __auto_type tp_b##n = (b);                                                             \
        const tp_pair tp_pair##n = TP_BY_NUMBER(                                               \
            tp_a##n, tp_pair_floating_left, tp_pair_unsigned_left, tp_pair_signed_left,        \
            TP_BY_NUMBER(tp_b##n, tp_pair_floating_right, tp_pair_unsigned_right,              \
                         tp_pair_signed_right, tp_pair_of_tensors))(TP_PLACE, tp_a##n,         \
                                                                    tp_b##n);                  \
        f(TP_PLACE, __VA_ARGS__ tp_pair##n.left, tp_pair##n.right);                            \
    })

#else

#define TP_PAIR(f, a, b) f(TP_PLACE, a, b)
#define TP_PAIR_BEHIND(c, f, a, b) f(TP_PLACE, c, a, b)

#endif
#endif
