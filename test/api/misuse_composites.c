/* Misuse of composites.h: of elements. misuse_arrays.c has the others. */
#include "misuse_forms.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

/* ---- one operand ------------------------------------------------------------------------ */

FLOAT_ONE(tp_gelu)
FLOAT_ONE(tp_silu)
FLOAT_ONE(tp_reciprocal)
FLOAT_ONE(tp_tan)
FLOAT_ONE(tp_asin)
FLOAT_ONE(tp_acos)
FLOAT_ONE(tp_atan)
FLOAT_ONE(tp_sinh)
FLOAT_ONE(tp_cosh)
FLOAT_ONE(tp_asinh)
FLOAT_ONE(tp_acosh)
FLOAT_ONE(tp_atanh)
FLOAT_ONE(tp_erfc)
FLOAT_ONE(tp_lgamma)
FLOAT_ONE(tp_gelu_tanh)
FLOAT_ONE(tp_softplus)
FLOAT_ONE(tp_logsigmoid)
FLOAT_ONE(tp_mish)
FLOAT_ONE(tp_selu)
FLOAT_ONE(tp_relu6)
FLOAT_ONE(tp_hardsigmoid)
FLOAT_ONE(tp_hardswish)
FLOAT_ONE(tp_softsign)
ONE(tp_isnan, f)
ONE(tp_isinf, f)
ONE(tp_isfinite, f)

#define FLOAT_WITH(fn, ...)                                                                    \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, __VA_ARGS__));                                                  \
        BAD(b, TP_E_DTYPE, fn(b->i, __VA_ARGS__));                                             \
        BAD(b, TP_E_DTYPE, fn(b->flag, __VA_ARGS__));                                          \
    }
FLOAT_WITH(tp_swish, 0.5)
FLOAT_WITH(tp_elu, 0.5)
FLOAT_WITH(tp_celu, 0.5)
FLOAT_WITH(tp_leaky_relu, 0.5)
FLOAT_WITH(tp_threshold, 0.5, 1)

MISUSE(tp_square)
{
    what = "mul";
    OPERAND(b, b->f, tp_square(x));
}

MISUSE(tp_clip)
{
    what = "clip|max|tp_scalar_like";
    OPERAND(b, b->f, tp_clip(x, 0, 1));
}

MISUSE(tp_clip_min)
{
    what = "max|tp_scalar_like";
    OPERAND(b, b->f, tp_clip_min(x, 0));
}

MISUSE(tp_clip_max)
{
    what = "min|tp_scalar_like";
    OPERAND(b, b->f, tp_clip_max(x, 0));
}

MISUSE(tp_shrink)
{
    what = "shrink|tp_scalar_like";
    OPERAND(b, b->f, tp_shrink(x, 0.5, 0.5));
}

#define HALVES(fn)                                                                             \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, 0));                                                            \
        BAD(b, TP_E_DTYPE, fn(b->i, 0));                                                       \
        BAD(b, TP_E_SHAPE, fn(b->f, 1));                                                       \
        BAD(b, TP_E_AXIS, fn(b->f, 2));                                                        \
        BAD(b, TP_E_AXIS, fn(b->f, -3));                                                       \
    }
HALVES(tp_glu)
HALVES(tp_swiglu)

/* ---- operands that broadcast ---------------------------------------------------------------- */

MISUSE(tp_lerp)
{
    OPERAND(b, b->f, tp_lerp(x, b->f, b->f));
    OPERAND(b, b->f, tp_lerp(b->f, x, b->f));
    OPERAND(b, b->f, tp_lerp(b->f, b->f, x));
    BAD(b, TP_E_SHAPE, tp_lerp(b->f, b->t, b->f));
    BAD(b, TP_E_SHAPE, tp_lerp(b->f, b->f, b->t));
    BAD(b, TP_E_DTYPE, tp_lerp(b->i, b->i, b->i));
    BAD(b, TP_E_CTX, tp_lerp(b->f, b->f, b->foreign));
}

TWO_SHAPED_OF(tp_atan2, "gt")
TWO_SHAPED_OF(tp_floor_div, "mod")
TWO_SHAPED_OF(tp_fmod, "mod")
TWO_SHAPED_OF(tp_prelu, "mul")

const misuse misuse_composites[] = {
    LISTED(tp_gelu),
    LISTED(tp_silu),
    LISTED(tp_square),
    LISTED(tp_clip),
    LISTED(tp_reciprocal),
    LISTED(tp_tan),
    LISTED(tp_asin),
    LISTED(tp_acos),
    LISTED(tp_atan),
    LISTED(tp_sinh),
    LISTED(tp_cosh),
    LISTED(tp_asinh),
    LISTED(tp_acosh),
    LISTED(tp_atanh),
    LISTED(tp_erfc),
    LISTED(tp_lgamma),
    LISTED(tp_gelu_tanh),
    LISTED(tp_softplus),
    LISTED(tp_logsigmoid),
    LISTED(tp_mish),
    LISTED(tp_selu),
    LISTED(tp_relu6),
    LISTED(tp_hardsigmoid),
    LISTED(tp_hardswish),
    LISTED(tp_softsign),
    LISTED(tp_swish),
    LISTED(tp_elu),
    LISTED(tp_celu),
    LISTED(tp_leaky_relu),
    LISTED(tp_threshold),
    LISTED(tp_shrink),
    LISTED(tp_clip_min),
    LISTED(tp_clip_max),
    LISTED(tp_lerp),
    LISTED(tp_glu),
    LISTED(tp_swiglu),
    LISTED(tp_isnan),
    LISTED(tp_isinf),
    LISTED(tp_isfinite),
    LISTED(tp_atan2),
    LISTED(tp_floor_div),
    LISTED(tp_fmod),
    LISTED(tp_prelu),
    {0},
};
