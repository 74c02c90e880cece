/* Elementary functions of single elements: trigonometric, hyperbolic, those of Gauss and Euler; parts of numbers;
 * what kind of number an element is.
 *
 * Both sides of a tp_where are finite wherever the other one is taken, so that gradients are too. An odd or even
 * function is computed of -x where x is below 0: of tp_abs the gradient at 0 would be 0. */
#include "composite/composite.h"

#include <math.h>

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1) */
static tp_tensor *polynomial(tpi_at at, tp_tensor *x, int n, const double *c)
{
    tp_tensor *y = tp_scalar_like(x, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        y = tp_add(tp_mul(y, x), c[i]);
    return y;
}

#define POLYNOMIAL(x, c) polynomial(at, x, (int)(sizeof(c) / sizeof *(c)), c)

/* As f64. A function that is computed so has f32 results that are off by hardly more than half a unit. */
static tp_tensor *wide(tpi_at at, tp_tensor *x)
{
    return tp_cast(x, TP_F64);
}

static tp_tensor *as_type_of(tpi_at at, tp_tensor *x, tp_tensor *y)
{
    return tp_cast(y, tp_dtype_of(x));
}

/* ---- trigonometric ------------------------------------------------------------------------------ */

TPI_ELEMENT_COMPOSITE(tan, (tp_tensor * x), x)
{
    return tp_div(tp_sin(x), tp_cos(x));
}

/* (atan(t) / t - 1) / t^2, of t^2 up to tan(pi / 8)^2 */
static const double atan_f32[] = {-0.333333313, 0.199995399, -0.142639503, 0.107436687,
                                  -0.0645171851};
static const double atan_f64[] = {
    -0.3333333333333333,  0.19999999999999804,  -0.14285714285659779, 0.11111111105150588,
    -0.09090908753259112, 0.07692296368042296,  -0.0666642476020052,  0.05878927554473807,
    -0.05230443640686948, 0.045515447340221615, -0.03456931506332609, 0.016284375050043393};

/* The angle of (b, a): both at least 0, not both 0, their sum finite or one of them 1. Turned by pi / 4 or pi / 2 it is
 * pi / 8 at most. */
static tp_tensor *angle(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *steep = tp_gt(a, tp_mul(b, 2.414213562373095));
    tp_tensor *middle = tp_gt(a, tp_mul(b, 0.41421356237309503));
    tp_tensor *over = tp_where(steep, tp_neg(b), tp_where(middle, tp_sub(a, b), a));
    tp_tensor *under = tp_where(steep, a, tp_where(middle, tp_add(a, b), b));
    tp_tensor *t = tp_div(over, under), *square = tp_mul(t, t);
    tp_tensor *series =
        tp_dtype_of(t) == TP_F64 ? POLYNOMIAL(square, atan_f64) : POLYNOMIAL(square, atan_f32);
    tp_tensor *rest = tp_mul(t, tp_add(tp_mul(square, series), 1));
    tp_tensor *base = tp_where(steep, tp_scalar_like(t, 1.5707963267948966),
                               tp_scalar_like(t, 0.78539816339744831));
    return tp_where(middle, tp_add(base, rest), rest);
}

TPI_ELEMENT_COMPOSITE(atan, (tp_tensor * x), x)
{
    tp_tensor *negative = tp_lt(x, 0);
    return tpi_turned(at, negative,
                      angle(at, tpi_turned(at, negative, x), tp_scalar_like(x, 1)));
}

/* sqrt(1 - x^2) as a product of two, so that the gradient at the ends is infinite and no 0 times infinity. */
TPI_ELEMENT_COMPOSITE(asin, (tp_tensor * x), x)
{
    tp_tensor *one = tp_scalar_like(x, 1), *negative = tp_lt(x, 0);
    tp_tensor *other = tp_mul(tp_sqrt(tp_sub(one, x)), tp_sqrt(tp_add(one, x)));
    return tpi_turned(at, negative, angle(at, tpi_turned(at, negative, x), other));
}

TPI_ELEMENT_COMPOSITE(acos, (tp_tensor * x), x)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    tp_tensor *half = angle(at, tp_sqrt(tp_sub(one, x)), tp_sqrt(tp_add(one, x)));
    return tp_mul(half, 2);
}

/* -0 too: its reciprocal is -infinity. */
static tp_tensor *has_minus(tpi_at at, tp_tensor *x)
{
    return tp_or(tp_lt(x, 0), tp_lt(tp_div(1, x), 0));
}

/* Of sizes the lesser one by the greater one, for the quotient neither overflows nor is NaN: 0 / 0 is 0, infinity by
 * itself 1. */
static tp_tensor *lesser_share(tpi_at at, tp_tensor *swap, tp_tensor *y, tp_tensor *x)
{
    tp_tensor *lesser = tp_where(swap, x, y), *greater = tp_where(swap, y, x);
    tp_tensor *one = tp_scalar_like(x, 1);
    tp_tensor *zero = tp_scalar_like(x, 0);
    tp_tensor *nothing = tp_and(tp_eq(lesser, zero), tp_eq(greater, zero));
    tp_tensor *endless = tp_eq(lesser, INFINITY);
    endless = tp_and(endless, tp_eq(lesser, greater));
    lesser = tp_where(nothing, zero, lesser); /* without a gradient */
    greater = tp_where(tp_or(nothing, endless), one, greater);
    return tp_div(tp_where(endless, one, lesser), greater);
}

static tp_tensor *atan2_of(tpi_at at, tp_tensor *y, tp_tensor *x)
{
    tp_tensor *failed = tpi_refuse_pair(at, "atan2", true, &y, &x);
    if (failed)
        return failed;
    tp_tensor *below = has_minus(at, y), *left = has_minus(at, x);
    tp_tensor *height = tpi_turned(at, below, y), *width = tpi_turned(at, left, x);
    tp_tensor *swap = tp_gt(height, width), *share = lesser_share(at, swap, height, width);
    tp_tensor *turn = angle(at, share, tp_scalar_like(share, 1));
    turn = tp_where(swap, tp_sub(1.5707963267948966, turn), turn);
    turn = tp_where(left, tp_sub(3.1415926535897931, turn), turn);
    return tpi_turned(at, below, turn);
}

TPI_FUSED(atan2, AXES, in[0], in[1])
TPI_COMPOSITE(tp_atan2, (tp_tensor * y, tp_tensor *x), y, x)
{
    return TPI_FUSE(atan2, (y, x));
}

/* ---- hyperbolic --------------------------------------------------------------------------------- */

/* Where exp(x) might overflow: half of its square root squared. *rest: x, but 0 there. */
static tp_tensor *half_exp_of_large(tpi_at at, tp_tensor *x, tp_tensor **large,
                                    tp_tensor **rest)
{
    tp_tensor *zero = tp_scalar_like(x, 0);
    *large = tp_gt(x, tp_dtype_of(x) == TP_F64 ? 700 : 80);
    *rest = tp_where(*large, zero, x);
    tp_tensor *root = tp_exp(tp_mul(tp_where(*large, x, zero), 0.5));
    return tp_mul(tp_mul(root, 0.5), root);
}

/* With e = exp(x) - 1: (e + e / (e + 1)) / 2 */
TPI_ELEMENT_COMPOSITE(sinh, (tp_tensor * x), x)
{
    tp_tensor *negative = tp_lt(x, 0), *large, *rest;
    tp_tensor *far = half_exp_of_large(at, tpi_turned(at, negative, x), &large, &rest);
    tp_tensor *e = tp_expm1(rest);
    tp_tensor *near = tp_mul(tp_add(e, tp_div(e, tp_add(e, 1))), 0.5);
    return tpi_turned(at, negative, tp_where(large, far, near));
}

TPI_ELEMENT_COMPOSITE(cosh, (tp_tensor * x), x)
{
    tp_tensor *large, *rest;
    tp_tensor *far = half_exp_of_large(at, tpi_turned(at, tp_lt(x, 0), x), &large, &rest);
    tp_tensor *e = tp_exp(rest);
    tp_tensor *near = tp_mul(tp_add(e, tp_div(1, e)), 0.5);
    return tp_where(large, far, near);
}

/* Where x^2 might overflow: log(2 x). *rest: x, but 1 there. */
static tp_tensor *log_of_twice_large(tpi_at at, tp_tensor *x, tp_tensor **large,
                                     tp_tensor **rest)
{
    tp_tensor *one = tp_scalar_like(x, 1);
    *large = tp_gt(x, tp_dtype_of(x) == TP_F64 ? 0x1p28 : 0x1p13);
    *rest = tp_where(*large, one, x);
    return tp_add(tp_log(tp_where(*large, x, one)), 0.69314718055994531);
}

/* log(x + sqrt(1 + x^2)) */
TPI_ELEMENT_COMPOSITE(asinh, (tp_tensor * x), x)
{
    tp_tensor *negative = tp_lt(x, 0), *large, *rest;
    tp_tensor *far = log_of_twice_large(at, tpi_turned(at, negative, x), &large, &rest);
    tp_tensor *root = tp_sqrt(tp_add(tp_mul(rest, rest), 1));
    tp_tensor *more = tp_add(tp_div(rest, tp_add(root, 1)), 1);
    return tpi_turned(at, negative, tp_where(large, far, tp_log1p(tp_mul(rest, more))));
}

/* log(x + sqrt(x^2 - 1)), with t = x - 1 */
TPI_ELEMENT_COMPOSITE(acosh, (tp_tensor * x), x)
{
    tp_tensor *large, *rest, *far = log_of_twice_large(at, x, &large, &rest);
    tp_tensor *t = tp_add(rest, -1);
    tp_tensor *root = tp_mul(tp_sqrt(t), tp_sqrt(tp_add(t, 2)));
    return tp_where(large, far, tp_log1p(tp_add(t, root)));
}

TPI_ELEMENT_COMPOSITE(atanh, (tp_tensor * x), x)
{
    return tp_mul(tp_sub(tp_log1p(x), tp_log1p(tp_neg(x))), 0.5);
}

/* ---- of Gauss and Euler ------------------------------------------------------------------------------- */

/* (1 + 2x) exp(x^2) erfc(x), of t = (x - 3) / (x + 3), 0.5 <= x <= 28: the form is that of Shepherd and Laframboise,
 * Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x), Math. Comp. 36 (1981). */
static const double erfc_tail[] = {
    1.2530080582697296,     -0.13562110612458084,   -0.04756229435343384,
    0.12964515870271817,    -0.11927366341637591,   0.06830802734557402,
    -0.023770514892453878,  0.002529391787416037,   0.0018886900308933137,
    -0.0007798319787670749, -0.00010515741491655,   0.00012509749095168397,
    4.9387975342434404e-06, -2.00929833045886e-05,  -7.012462973163499e-07,
    3.4525197016153044e-06, 3.0307407103093377e-07, -5.840747551910045e-07,
    -8.42551957399924e-08,  7.124245030572795e-08,  8.635681414307825e-09};

/* exp(-x^2), the square as a sum of two: that of x rounded to f32, and the rest. */
static tp_tensor *exp_of_minus_square(tpi_at at, tp_tensor *x)
{
    tp_tensor *head = tp_detach(tp_cast(tp_cast(x, TP_F32), TP_F64));
    tp_tensor *rest = tp_mul(tp_sub(head, x), tp_add(head, x));
    return tp_mul(tp_exp(tp_neg(tp_mul(head, head))), tp_exp(rest));
}

/* exp(x^2) erfc(x) / t, of t = 1 / (1 + 0.3 x), 0 <= x <= 10.5: off by 2^-30.7 of itself. */
static const double erfc_f32[] = {0.16927842138770316, 0.16874641654199218, 0.16700457467289237,
                                  0.11343237821888229, 0.2561251222532982,  -0.2582663286630655,
                                  0.7361865594578237,  -0.8035782644028894, 0.7209998099066883,
                                  -0.3242591524894657, 0.05433046256560001};

/* Of f32 as f64, the square of which is exact. Below 0 it is 2 - erfc(-x). */
static tp_tensor *erfc_of_single(tpi_at at, tp_tensor *x)
{
    tp_tensor *end = tp_scalar_like(x, 10.5), *negative = tp_lt(x, 0);
    tp_tensor *size = tpi_turned(at, negative, x);
    size = tp_where(tp_gt(size, end), end, size);
    tp_tensor *t = tp_div(1, tp_add(tp_mul(size, 0.3), 1));
    tp_tensor *y = tp_mul(tp_exp(tp_neg(tp_mul(size, size))), t);
    y = tp_mul(y, POLYNOMIAL(t, erfc_f32));
    return tp_where(negative, tp_sub(2, y), y);
}

static tp_tensor *erfc_of_double(tpi_at at, tp_tensor *x)
{
    tp_tensor *bound = tp_scalar_like(x, 0.5), *end = tp_scalar_like(x, 28);
    tp_tensor *small = tp_lt(x, bound);
    tp_tensor *tail = tp_where(small, bound, tp_where(tp_gt(x, end), end, x));
    tp_tensor *t = tp_div(tp_add(tail, -3), tp_add(tail, 3));
    tp_tensor *share = tp_div(POLYNOMIAL(t, erfc_tail), tp_add(tp_mul(tail, 2), 1));
    tp_tensor *near = tp_sub(1, tp_erf(tp_where(small, x, bound)));
    tp_tensor *far = tp_mul(exp_of_minus_square(at, tail), share);
    return tp_where(small, near, far);
}

TPI_ELEMENT_COMPOSITE(erfc, (tp_tensor * x), x)
{
    if (tp_dtype_of(x) == TP_F64)
        return erfc_of_double(at, x);
    return as_type_of(at, x, erfc_of_single(at, wide(at, x)));
}

/* log gamma(2 + z) / z, |z| <= 1/2 */
static const double lgamma_near_2[] = {
    0.42278433509846713,     0.3224670334241132,      -0.06735230105319814,
    0.02058080842778457,     -0.0073855510286681535,  0.002890510330738737,
    -0.0011927539120010226,  0.0005096695248853096,   -0.00022315475074520367,
    9.945750909889392e-05,   -4.4926351103833334e-05, 2.050726741605779e-05,
    -9.438458716242811e-06,  4.374374916915131e-06,   -2.0449201467015115e-06,
    9.578663334114758e-07,   -4.303558760359961e-07,  2.0304806751615227e-07,
    -1.3412819758517287e-07, 6.379047507619774e-08};

/* The same for f32: off by 2^-31.7 of itself. */
static const double lgamma_near_2_f32[] = {
    0.42278433500662405,    0.32246703469131105,   -0.06735228225161288,  0.020580734344946217,
    -0.0073861586375432225, 0.0028917327597676986, -0.001185959062772055, 0.0005015181869749274,
    -0.000253619483689203,  0.00012235954278833584};

/* -log(sin(pi r) / (pi r)) / r^2, of r^2, r <= 1/2 */
static const double reflection_f64[] = {
    1.6449340668482266,  0.5411616168555353,  0.33911435399963574, 0.2510193387012899,
    0.20019892998465968, 0.16670726349797355, 0.1428738859562884,  0.12489345774781598,
    0.11217446787299708, 0.09241949741191367, 0.1300858741946493,  -0.060739216294849074,
    0.4392426339450656,  -0.5023567355715418, 0.5334861024841303};
static const double reflection_f32[] = {
    1.6449341266455482,  0.5411556986244751,  0.3393116209257474, 0.24792837919988908,
    0.22568512474377275, 0.05503603656380458, 0.3751248558984624};

/* Stirling's series, of 1 / x^2. */
static const double stirling[] = {1. / 12,   -1. / 360,      1. / 1260, -1. / 1680,
                                  1. / 1188, -691. / 360360, 1. / 156};

/* Of x >= 1/2, one logarithm: below `low` it is that of what x = 2 + k + z is reduced to 2 + z by. k = -1 takes away
 * log x, k > 0 adds the logarithm of (2 + z) ... (1 + z + k). From `low` on it is that of x, for Stirling's series. */
static tp_tensor *lgamma_of_right(tpi_at at, tp_tensor *x, bool single)
{
    const double low = single ? 3.5 : 8.5;
    tp_tensor *one = tp_scalar_like(x, 1), *two = tp_scalar_like(x, 2);
    tp_tensor *small = tp_lt(x, low), *near = tp_where(small, x, two);
    tp_tensor *k = tp_floor(tp_add(near, -1.5)), *z = tp_sub(near, tp_add(k, 2));
    tp_tensor *less = tp_lt(k, 0), *product = tp_where(less, x, one);
    for (int i = 0; i < low - 2.5; i++)
        product = tp_mul(product, tp_where(tp_gt(k, i), tp_add(z, 2 + i), one));
    tp_tensor *log = tp_log(tp_where(small, product, x));
    tp_tensor *series =
        single ? POLYNOMIAL(z, lgamma_near_2_f32) : POLYNOMIAL(z, lgamma_near_2);
    near = tp_add(tp_mul(z, series), tpi_turned(at, less, log));
    tp_tensor *far = tp_where(small, tp_scalar_like(x, low), x), *inverse = tp_div(1, far);
    tp_tensor *rest = tp_mul(POLYNOMIAL(tp_mul(inverse, inverse), stirling), inverse);
    rest = tp_add(rest, 0.41893853320467274); /* log(2 pi) / 2 - 1/2 */
    far = tp_add(tp_mul(tp_add(far, -0.5), tp_add(log, -1)), rest);
    return tp_where(small, near, far);
}

/* log(pi / |sin(pi x)|), with the distance r to the next whole number: that of 1 / r, and a polynomial of r^2. */
static tp_tensor *log_of_reflection(tpi_at at, tp_tensor *x, bool single)
{
    tp_tensor *part = tp_sub(x, tp_round(x)), *square = tp_mul(part, part);
    tp_tensor *series =
        single ? POLYNOMIAL(square, reflection_f32) : POLYNOMIAL(square, reflection_f64);
    tp_tensor *r = tpi_turned(at, tp_lt(part, 0), part);
    return tp_sub(tp_mul(square, series), tp_log(r));
}

TPI_ELEMENT_COMPOSITE(lgamma, (tp_tensor * x), x)
{
    const bool single = tp_dtype_of(x) != TP_F64;
    tp_tensor *v = wide(at, x), *half = tp_scalar_like(v, 0.5), *left = tp_lt(v, half);
    tp_tensor *y = lgamma_of_right(at, tp_where(left, tp_sub(1, v), v), single);
    tp_tensor *endless = tp_eq(v, -INFINITY);
    tp_tensor *there = tp_where(tp_and(left, tp_not(endless)), v, half);
    tp_tensor *mirrored = tp_sub(log_of_reflection(at, there, single), y);
    y = tp_where(left, tp_where(endless, tp_neg(v), mirrored), y);
    return as_type_of(at, x, y);
}

/* ---- what kind of number it is -------------------------------------------------------------------------- */

TPI_COMPOSITE(tp_isnan, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_operands(at, "isnan", TPI_IN(x));
    return failed ? failed : tp_ne(x, x);
}

TPI_COMPOSITE(tp_isinf, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_operands(at, "isinf", TPI_IN(x));
    if (failed || tp_dtype_of(x) < TP_F32)
        return failed ? failed : tp_ne(x, x);
    return tp_eq(tp_abs(x), INFINITY);
}

TPI_COMPOSITE(tp_isfinite, (tp_tensor * x), x)
{
    tp_tensor *failed = tpi_refuse_operands(at, "isfinite", TPI_IN(x));
    if (failed || tp_dtype_of(x) < TP_F32)
        return failed ? failed : tp_eq(x, x);
    return tp_lt(tp_abs(x), INFINITY);
}

/* ---- quotients and remainders; between bounds and between tensors --------------------------------------------- */

TPI_ELEMENT_COMPOSITE(reciprocal, (tp_tensor * x), x)
{
    return tp_div(1, x);
}

/* The remainder that has a's sign, that of -0 too: of absolute values it is no negative number, and exact. */
static tp_tensor *fmod_of(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *minus = tp_lt(tp_div(1, a), 0);
    tp_tensor *sign = tp_where(minus, tp_scalar_like(a, -1), tp_scalar_like(a, 1));
    return tp_mul(tp_mod(tp_mul(a, sign), tpi_turned(at, tp_lt(b, 0), b)), sign);
}

TPI_FUSED(fmod, AXES, in[0], in[1])
TPI_COMPOSITE(tp_fmod, (tp_tensor * a, tp_tensor *b), a, b)
{
    tp_tensor *failed = tpi_refuse_pair(at, "fmod", false, &a, &b);
    if (failed)
        return failed;
    if (tp_dtype_of(a) >= TP_F32)
        return TPI_FUSE(fmod, (a, b), 0);
    tp_tensor *zero = tp_scalar_like(b, 0), *rest = tp_sub(a, tp_mul(tp_div(a, b), b));
    return tp_where(tp_eq(b, zero), zero, rest);
}

/* As CPython's float.__floordiv__: (a - fmod(a, b)) / b, less 1 where the signs differ, is a whole number but for its
 * rounding. A zero has the sign of a / b; by 0 it is a / b. */
static tp_tensor *floor_div_of(tpi_at at, tp_tensor *a, tp_tensor *b)
{
    tp_tensor *zero = tp_scalar_like(a, 0);
    tp_tensor *rest = fmod_of(at, a, b), *quotient = tp_div(a, b);
    tp_tensor *other = tp_xor(tp_lt(rest, 0), tp_lt(b, 0));
    other = tp_and(other, tp_ne(rest, zero));
    tp_tensor *whole = tp_div(tp_sub(a, rest), b);
    whole = tp_round(tp_sub(whole, tp_cast(other, tp_dtype_of(a))));
    tp_tensor *none = tp_eq(whole, zero); /* then the quotient is finite */
    tp_tensor *signed_zero = tp_detach(tp_mul(tp_where(none, quotient, zero), zero));
    whole = tp_where(none, signed_zero, whole);
    return tp_where(tp_eq(b, zero), tp_floor(quotient), whole);
}

TPI_FUSED(floor_div, FORWARD, in[0], in[1])
TPI_COMPOSITE(tp_floor_div, (tp_tensor * a, tp_tensor *b), a, b)
{
    tp_tensor *failed = tpi_refuse_pair(at, "floor_div", false, &a, &b);
    if (failed)
        return failed;
    if (tp_dtype_of(a) >= TP_F32)
        return TPI_FUSE(floor_div, (a, b), 0);
    tp_tensor *zero = tp_scalar_like(a, 0), *rest = tp_mod(a, b);
    tp_tensor *other = tp_xor(tp_lt(a, 0), tp_lt(b, 0));
    tp_tensor *less = tp_and(other, tp_ne(rest, zero));
    return tp_sub(tp_div(a, b), tp_cast(less, tp_dtype_of(a)));
}

static tp_tensor *clip_of(tpi_at at, tp_tensor *x, double lo, double hi)
{
    return tp_min(tp_max(x, tp_scalar_like(x, lo)), tp_scalar_like(x, hi));
}

TPI_FUSED(clip, ELEMENTS, in[0], v[0], v[1])
TPI_COMPOSITE(tp_clip, (tp_tensor * x, double lo, double hi), x, lo, hi)
{
    return TPI_FUSE(clip, (x), lo, hi);
}

TPI_COMPOSITE(tp_clip_min, (tp_tensor * x, double lo), x, lo)
{
    return tp_max(x, tp_scalar_like(x, lo));
}

TPI_COMPOSITE(tp_clip_max, (tp_tensor * x, double hi), x, hi)
{
    return tp_min(x, tp_scalar_like(x, hi));
}

TPI_COMPOSITE(tp_square, (tp_tensor * x), x)
{
    return tp_mul(x, x);
}

/* From the nearer end, so that both are met. */
static tp_tensor *lerp_of(tpi_at at, tp_tensor *a, tp_tensor *b, tp_tensor *w)
{
    tp_tensor *failed = tpi_refuse_operands(at, "lerp", TPI_IN(a, b, w));
    if (failed || (failed = tpi_refuse_pair(at, "lerp", true, &a, &w)) ||
        (failed = tpi_refuse_pair(at, "lerp", true, &b, &w)) ||
        (failed = tpi_refuse_pair(at, "lerp", true, &a, &b)))
        return failed;
    tp_tensor *way = tp_sub(b, a), *first = tp_lt(w, 0.5);
    tp_tensor *back = tp_mul(way, tp_sub(1, w));
    return tp_where(first, tp_add(a, tp_mul(way, w)), tp_sub(b, back));
}

TPI_FUSED(lerp, AXES, in[0], in[1], in[2])
TPI_COMPOSITE(tp_lerp, (tp_tensor * a, tp_tensor *b, tp_tensor *w), a, b, w)
{
    return TPI_FUSE(lerp, (a, b, w));
}
