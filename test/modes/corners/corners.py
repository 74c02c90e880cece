"""Writes corners.def: what PyTorch has as gradients where conventions differ.

    python3 corners.py > corners.def        with PyTorch 2.15

Each row is a name, an expression in C, the same in PyTorch, and its operands; the gradients of the sum of the
elements, the gradients of the sum of these, and of these again, come from PyTorch in f64. `ours` has the rows
where docs/numerics.md says that tapir differs.
"""

import math
import torch
import torch.nn.functional as F

inf, nan = math.inf, math.nan
rows = []


def row(name, c, f, *operands):
    rows.append((name, c, f, operands))


def index(*places):
    return torch.tensor(places)


# ---- one operand, element by element ---------------------------------------------------------------

row("relu at 0", "tp_relu(a)", torch.relu, [-1, 0, 2, -0.0])
row("relu of NaN", "tp_relu(a)", torch.relu, [nan, inf, -inf])
row("abs at 0", "tp_abs(a)", torch.abs, [-1, 0, 2, -0.0])
row("abs of NaN", "tp_abs(a)", torch.abs, [inf, -inf])
row("negated", "tp_neg(a)", torch.neg, [0, -0.0, inf])
row("sign", "tp_sign(a)", torch.sign, [-1, 0, 2])
row("floor at whole numbers", "tp_floor(a)", torch.floor, [-1, 0.5, 2])
row("ceil at whole numbers", "tp_ceil(a)", torch.ceil, [-1, 0.5, 2])
row("round at halves", "tp_round(a)", torch.round, [-0.5, 0.5, 1.5])
row("square of 0", "tp_square(a)", torch.square, [0, -2])
row("square root at 0", "tp_sqrt(a)", torch.sqrt, [0, 4])
row("square root below 0", "tp_sqrt(a)", torch.sqrt, [-4, inf])
row("reciprocal root at 0", "tp_rsqrt(a)", torch.rsqrt, [0, 4])
row("reciprocal root below 0", "tp_rsqrt(a)", torch.rsqrt, [-4])
row("logarithm at 0", "tp_log(a)", torch.log, [0, 2])
row("logarithm at minus 0", "tp_log(a)", torch.log, [-0.0, inf])
row("logarithm below 0", "tp_log(a)", torch.log, [-2])
row("exp overflows", "tp_exp(a)", torch.exp, [1000, -1000, 0])
row("exp of infinities", "tp_exp(a)", torch.exp, [inf, -inf, nan])
row("sine", "tp_sin(a)", torch.sin, [0, inf, 1])
row("cosine", "tp_cos(a)", torch.cos, [0, -inf, 1])
row("sigmoid at infinities", "tp_sigmoid(a)", torch.sigmoid, [inf, -inf, 0, 200, -200])
row("tanh at infinities", "tp_tanh(a)", torch.tanh, [inf, -inf, 0, 50])
row("erf far out", "tp_erf(a)", torch.erf, [-20, 0])
row("gelu at 0 and far out", "tp_gelu(a)", F.gelu, [0, -50, 50])
row("silu far out", "tp_silu(a)", F.silu, [0, -500, 500])
row("cast that overflows", "tp_cast(tp_cast(a, TP_F32), TP_F64)", lambda a: a.float().double(), [1e300, 1, -0.0])
row("cast through whole numbers", "tp_cast(tp_cast(a, TP_I64), TP_F64)", lambda a: a.long().double(), [1.5, -2])
row("weighed by a comparison", "tp_mul(tp_cast(tp_gt(a, number(a, 1)), TP_F64), a)", lambda a: (a > 1).double() * a,
    [1, 2])
row("clip at its bounds", "tp_clip(a, 0, 1)", lambda a: torch.clamp(a, 0, 1), [0, 1, -1, 2, 0.5])
row("clip of NaN", "tp_clip(a, 0, 1)", lambda a: torch.clamp(a, 0, 1), [nan, 0.5])
row("clip of infinities", "tp_clip(a, 0, 1)", lambda a: torch.clamp(a, 0, 1), [inf, -inf])
row("clip_min at its bound", "tp_clip_min(a, 0)", lambda a: torch.clamp(a, min=0), [0, 1, -1])
row("clip_max at its bound", "tp_clip_max(a, 0)", lambda a: torch.clamp(a, max=0), [0, 1, -1])
row("expm1", "tp_expm1(a)", torch.expm1, [0, -0.0, inf, -inf, 1])
row("log1p at -1", "tp_log1p(a)", torch.log1p, [-1, 0, -0.0, inf, -2])
row("power of 2", "tp_exp2(a)", torch.exp2, [0, -2000, 3])
row("logarithm to base 2", "tp_log2(a)", torch.log2, [0, 1, 8, -1])
row("logarithm to base 10", "tp_log10(a)", torch.log10, [0, 1, 1000, -1])
row("reciprocal of 0", "tp_reciprocal(a)", torch.reciprocal, [0, inf, 2])
row("tangent", "tp_tan(a)", torch.tan, [0, -0.0, 1])
row("arc sine", "tp_asin(a)", torch.asin, [0, -0.0, 0.5, -0.5])
row("arc sine at its ends", "tp_asin(a)", torch.asin, [1, -1, 2])
row("arc cosine", "tp_acos(a)", torch.acos, [0, -0.0, 0.5, -0.5])
row("arc cosine at its ends", "tp_acos(a)", torch.acos, [1, -1, 2])
row("arc tangent", "tp_atan(a)", torch.atan, [0, -0.0, 1, -1, 1000])
row("arc tangent of infinities", "tp_atan(a)", torch.atan, [inf, -inf])
row("hyperbolic sine", "tp_sinh(a)", torch.sinh, [0, -0.0, 2, -2])
row("hyperbolic cosine", "tp_cosh(a)", torch.cosh, [0, -0.0, 2, -2])
row("hyperbolic functions far out", "tp_add(tp_sinh(a), tp_cosh(a))", lambda a: torch.sinh(a) + torch.cosh(a), [705, 1000])
row("inverse hyperbolic sine", "tp_asinh(a)", torch.asinh, [0, -0.0, 2, -2, 1e300])
row("inverse hyperbolic cosine", "tp_acosh(a)", torch.acosh, [2, 1e300, 0.5])
row("inverse hyperbolic cosine at 1", "tp_acosh(a)", torch.acosh, [1])
row("inverse hyperbolic tangent", "tp_atanh(a)", torch.atanh, [0, -0.0, 0.5])
row("inverse hyperbolic tangent at its ends", "tp_atanh(a)", torch.atanh, [1, -1])
row("erfc", "tp_erfc(a)", torch.erfc, [0, -0.0, 0.25, 1, 5, -5])
row("erfc far out", "tp_erfc(a)", torch.erfc, [40, -40, inf])
row("erfinv", "tp_erfinv(a)", torch.erfinv, [0, -0.0, 0.5, -0.9, 0.999])
row("erfinv at its ends", "tp_erfinv(a)", torch.erfinv, [1, -1, 2])
row("lgamma", "tp_lgamma(a)", torch.lgamma, [1, 2, 0.25, 9, -1.25])
row("softplus at 0 and far out", "tp_softplus(a)", lambda a: torch.logaddexp(a, torch.zeros_like(a)), [0, -0.0, 50, -50, 1000])
row("logsigmoid at 0 and far out", "tp_logsigmoid(a)", F.logsigmoid, [0, -0.0, 50, -50])
row("mish at 0 and far out", "tp_mish(a)", F.mish, [0, 50, -50])
row("gelu by tanh", "tp_gelu_tanh(a)", lambda a: F.gelu(a, approximate="tanh"), [0, 1, -50, 50])
row("swish", "tp_swish(a, 2)", lambda a: a * torch.sigmoid(2 * a), [0, 1, -50, 50])
row("elu at 0", "tp_elu(a, 0.5)", lambda a: F.elu(a, 0.5), [0, 1, -1, 1000, -1000])
row("celu at 0", "tp_celu(a, 0.5)", lambda a: F.celu(a, 0.5), [0, 1, -1, 1000, -1000])
row("selu at 0", "tp_selu(a)", F.selu, [0, 1, -1, 1000, -1000])
row("leaky_relu at 0", "tp_leaky_relu(a, 0.25)", lambda a: F.leaky_relu(a, 0.25), [0, -0.0, 1, -1])
row("relu6 at its ends", "tp_relu6(a)", F.relu6, [0, 6, 3, -1, 7])
row("hardsigmoid at its ends", "tp_hardsigmoid(a)", lambda a: F.relu6(a + 3) / 6, [-3, 3, 0, 5, -5])
row("hardswish at its ends", "tp_hardswish(a)", lambda a: a * F.relu6(a + 3) / 6, [-3, 3, 0, 5, -5])
row("threshold at its bound", "tp_threshold(a, 0.5, -1)", lambda a: F.threshold(a, 0.5, -1), [0.5, 1, 0])
row("hard shrink at its bound", "tp_shrink(a, 0.5, 0)", lambda a: F.hardshrink(a, 0.5), [0.5, -0.5, 0, 1, -1])
row("soft shrink at its bound", "tp_shrink(a, 0.5, 0.5)", lambda a: F.softshrink(a, 0.5), [0.5, -0.5, 0, 1, -1])
row("softsign at 0", "tp_softsign(a)", F.softsign, [0, -0.0, 1, -1])
row("gated halves", "tp_glu(a, 0)", lambda a: F.glu(a, 0), [1, 2, 0, -3])
row("gated halves by silu", "tp_swiglu(a, 0)", lambda a: F.silu(a[:2]) * a[2:], [1, 2, 0, -3])
row("detached", "tp_mul(a, tp_detach(a))", lambda a: a * a.detach(), [3, 4])
row("detached as a whole", "tp_add(tp_detach(tp_mul(a, b)), b)", lambda a, b: (a * b).detach() + b, [3, 4], [5, 6])
row("dropped out by 0", "tp_dropout(a, 0)", lambda a: F.dropout(a, 0), [3, 0, inf])

# ---- two operands ------------------------------------------------------------------------------------

row("maximum, ties", "tp_max(a, b)", torch.maximum, [1, 2, 3], [1, 3, 2])
row("minimum, ties", "tp_min(a, b)", torch.minimum, [1, 2, 3], [1, 3, 2])
row("maximum of zeros", "tp_max(a, b)", torch.maximum, [0, -0.0], [-0.0, 0])
row("maximum of infinities", "tp_max(a, b)", torch.maximum, [inf, -inf, inf], [inf, -inf, 0])
row("maximum with NaN", "tp_max(a, b)", torch.maximum, [nan, 1, nan], [1, nan, nan])
row("maximum with itself", "tp_max(a, a)", lambda a: torch.maximum(a, a), [1, 2])
row("power 0 of 0", "tp_pow(a, b)", torch.pow, [0, 0, 2], [0, 2, 0])
row("power of negative numbers", "tp_pow(a, b)", torch.pow, [-2, -2], [3, 2])
row("power 1 of 0", "tp_pow(a, b)", torch.pow, [0], [1])
row("power 3 of 0", "tp_pow(a, number(a, 3))", lambda a: a**3, [0, -2])
row("power 2 of 0", "tp_pow(a, number(a, 2))", lambda a: a**2, [0, -2])
row("power 0, a number", "tp_pow(a, number(a, 0))", lambda a: a**0, [0, 3, inf])
row("power one half of 0", "tp_pow(a, number(a, 0.5))", lambda a: a**0.5, [0, 4])
row("power -1 of 0", "tp_pow(a, number(a, -1))", lambda a: a**-1, [0, 4])
row("a power of 1", "tp_pow(number(a, 1), a)", lambda a: torch.pow(1.0, a), [0, 3])
row("a power of 2", "tp_pow(number(a, 2), a)", lambda a: torch.pow(2.0, a), [0, 3, -inf])
row("division by 0", "tp_div(a, b)", torch.div, [1, 0], [0, 0])
row("0 divided", "tp_div(a, b)", torch.div, [0], [2])
row("divided by itself", "tp_div(a, a)", lambda a: a / a, [2, -4])
row("remainder", "tp_mod(a, b)", torch.remainder, [5, -5, 6], [3, 3, 3])
row("remainder of a negative divisor", "tp_mod(a, b)", torch.remainder, [5, -5, 6], [-3, -3, -3])
row("remainder toward zero", "tp_fmod(a, b)", torch.fmod, [5, -5, 6, 0], [3, 3, -3, 3])
row("quotient rounded down", "tp_floor_div(a, b)", lambda a, b: torch.div(a, b, rounding_mode="floor"), [5, -5, 0, 1], [3, 3, 3, 0])
row("angle on the axes", "tp_atan2(a, b)", torch.atan2, [0, 0, 1, -1, -0.0], [1, -1, 0, 0, -1])
row("angle on the diagonals", "tp_atan2(a, b)", torch.atan2, [1, 1, -1, -1], [1, -1, 1, -1])
row("angle of nothing", "tp_atan2(a, b)", torch.atan2, [0], [0])
row("prelu at 0", "tp_prelu(a, b)", F.prelu, [0, 1, -2], [0.25])
row("between two", "tp_lerp(a, b, number(a, 0.25))", lambda a, b: torch.lerp(a, b, 0.25), [1, 2], [3, 5])
row("subtracted from itself", "tp_sub(a, a)", lambda a: a - a, [inf, 3])
row("used twice", "tp_add(tp_mul(a, a), a)", lambda a: a * a + a, [0, 3])
row("used thrice", "tp_mul(tp_mul(a, a), a)", lambda a: a * a * a, [0, 3])
row("0 times infinity", "tp_mul(a, b)", torch.mul, [0, inf], [inf, 0])
row("unused", "tp_mul(b, b)", lambda a, b: b * b, [1, 2], [3, 4])
row("used by what is not fetched", "first(tp_mul(b, b), tp_log(a))", lambda a, b: b * b, [0], [3])
row("a branch not taken", "tp_where(tp_gt(a, number(a, 0)), tp_log(a), a)",
    lambda a: torch.where(a > 0, torch.log(a), a), [-1, 2])
row("a branch not taken, infinite", "tp_where(tp_gt(a, number(a, 0)), tp_sqrt(a), a)",
    lambda a: torch.where(a > 0, torch.sqrt(a), a), [0, 4])
row("a branch not taken, of NaN", "tp_where(tp_gt(a, number(a, 0)), tp_sqrt(a), number(a, 0))",
    lambda a: torch.where(a > 0, torch.sqrt(a), 0.0), [-4, 4])
row("a branch not taken, made safe",
    "tp_where(tp_gt(a, number(a, 0)), tp_sqrt(tp_where(tp_gt(a, number(a, 0)), a, number(a, 1))), a)",
    lambda a: torch.where(a > 0, torch.sqrt(torch.where(a > 0, a, 1.0)), a), [0, 4])
row("both branches", "tp_where(tp_gt(a, b), a, b)", lambda a, b: torch.where(a > b, a, b), [1, 2, nan], [2, 2, 1])
row("stretched", "tp_mul(a, b)", torch.mul, [2], [1, 2, 3])
row("one of two sizes", "tp_mul(tp_reshape(a, TP_DIMS(2, 1)), tp_reshape(b, TP_DIMS(1, 3)))",
    lambda a, b: a[:, None] * b[None], [1, 2], [3, 4, 5])
row("stretched to nothing", "tp_mul(a, b)", torch.mul, [2], [])
row("a scalar and a row", "tp_mul(a, b)", torch.mul, 2, [1, 2, 3])
row("a scalar and a table", "tp_div(b, a)", lambda a, b: b / a, 2, [[1, 2], [3, 0]])
row("scalars", "tp_mul(a, tp_add(a, b))", lambda a, b: a * (a + b), 2, 3)
row("a table and a row", "tp_mul(a, b)", torch.mul, [[1, 2], [3, 4]], [5, 6])

# ---- reductions ----------------------------------------------------------------------------------------

row("greatest of ties", "tp_reduce_max(a, TP_ALL, false)", torch.amax, [3, 1, 3, 3])
row("least of ties", "tp_reduce_min(a, TP_ALL, false)", torch.amin, [1, 1, 3, 2])
row("greatest of one", "tp_reduce_max(a, TP_ALL, false)", torch.amax, [3])
row("greatest of a scalar", "tp_reduce_max(a, TP_ALL, false)", torch.amax, 3)
row("greatest of infinities", "tp_reduce_max(a, TP_ALL, false)", torch.amax, [-inf, -inf])
row("greatest of NaN", "tp_reduce_max(a, TP_ALL, false)", torch.amax, [1, nan, 2])
row("greatest of rows", "tp_mul(tp_reduce_max(a, TP_DIMS(1), false), b)", lambda a, b: torch.amax(a, 1) * b,
    [[1, 2, 2], [5, 5, 5]], [1, 10])
row("greatest of columns", "tp_mul(tp_reduce_max(a, TP_DIMS(0), true), b)", lambda a, b: torch.amax(a, 0, True) * b,
    [[1, 2], [1, 3]], [[1, 10]])
row("greatest of no rows", "tp_reduce_max(a, TP_DIMS(1), false)", lambda a: torch.amax(a, 1), torch.zeros(0, 2))
row("sum of a scalar", "tp_sum(tp_mul(a, a), TP_ALL, false)", lambda a: (a * a).sum(), 3)
row("sum over an axis without elements", "tp_mul(tp_sum(a, TP_DIMS(1), false), b)", lambda a, b: a.sum(1) * b,
    torch.zeros(2, 0), [1, 2])
row("no elements", "tp_sum(tp_mul(a, a), TP_ALL, false)", lambda a: (a * a).sum(), [])
row("mean", "tp_mean(a, TP_ALL, false)", torch.mean, [1, 2, 4, 8])
row("mean of a scalar", "tp_mean(tp_mul(a, a), TP_ALL, false)", lambda a: (a * a).mean(), 3)
row("mean of no elements", "tp_mul(tp_mean(a, TP_ALL, false), b)", lambda a, b: a.mean() * b, [], [1, 2])
row("mean over an axis without elements", "tp_mul(tp_mean(a, TP_DIMS(1), false), b)", lambda a, b: a.mean(1) * b,
    torch.zeros(2, 0), [1, 2])
row("product with a zero", "tp_prod(a, TP_ALL, false)", torch.prod, [2, 0, 3])
row("product with two zeros", "tp_prod(a, TP_ALL, false)", torch.prod, [2, 0, 0, 3])
row("product without zeros", "tp_prod(a, TP_ALL, false)", torch.prod, [2, 4, 3])
row("product of one", "tp_prod(a, TP_ALL, false)", torch.prod, [0])
row("product of nothing", "tp_mul(tp_prod(a, TP_ALL, false), b)", lambda a, b: torch.prod(a) * b, [], [1, 2])
row("products of rows", "tp_prod(a, TP_DIMS(1), false)", lambda a: torch.prod(a, 1), [[2, 0, 3], [0, 0, 5]])
row("absolute sum at 0", "tp_sum(tp_abs(a), TP_ALL, false)", lambda a: a.abs().sum(), [0, -2, 3])
row("root of a sum at 0", "tp_sqrt(tp_sum(tp_mul(a, a), TP_ALL, false))", lambda a: torch.sqrt((a * a).sum()), [0, 0])
row("root of a sum", "tp_sqrt(tp_sum(tp_mul(a, a), TP_ALL, false))", lambda a: torch.sqrt((a * a).sum()), [3, 0, 4])
row("greatest absolute value", "tp_reduce_max(tp_abs(a), TP_ALL, false)", lambda a: a.abs().amax(), [3, -3, 0])
row("variance of one", "variance(a)", lambda a: ((a - a.mean()) ** 2).mean(), [5])
row("variance of equal numbers", "variance(a)", lambda a: ((a - a.mean()) ** 2).mean(), [5, 5])
row("deviation of equal numbers", "tp_sqrt(variance(a))", lambda a: torch.sqrt(((a - a.mean()) ** 2).mean()), [5, 5])
row("running sum", "tp_mul(tp_cumsum(a, 0, false, false), b)", lambda a, b: a.cumsum(0) * b, [1, 2, 3], [1, 10, 100])
row("running sum, exclusive", "tp_mul(tp_cumsum(a, 0, true, false), b)", lambda a, b: (a.cumsum(0) - a) * b,
    [1, 2, 3], [1, 10, 100])
row("running sum from the end", "tp_mul(tp_cumsum(a, 0, false, true), b)",
    lambda a, b: a.flip(0).cumsum(0).flip(0) * b, [1, 2, 3], [1, 10, 100])
row("running sum of nothing", "tp_cumsum(a, 0, false, false)", lambda a: a.cumsum(0), [])


def recur(a, b):
    y = [b[0]]
    for i in range(1, len(b)):
        y.append(a[i] * y[-1] + b[i])
    return torch.stack(y)


row("recurrence", "tp_recur(a, b, 0, false)", recur, [7, 2, 3], [1, 2, 3])
row("recurrence through 0", "tp_recur(a, b, 0, false)", recur, [0, 0, 3], [1, 2, 3])

# ---- softmax, losses, norms ------------------------------------------------------------------------------

row("softmax with -infinity", "tp_mul(tp_softmax(a, -1), b)", lambda a, b: F.softmax(a, -1) * b, [-inf, 0, 1], [1, 2, 3])
row("softmax of large numbers", "tp_mul(tp_softmax(a, -1), b)", lambda a, b: F.softmax(a, -1) * b,
    [1000, 0, 1000], [1, 2, 4])
row("softmax of one", "tp_mul(tp_softmax(a, -1), b)", lambda a, b: F.softmax(a, -1) * b, [3], [5])
row("softmax of -infinities", "tp_softmax(a, -1)", lambda a: F.softmax(a, -1), [-inf, -inf])
row("softmax with infinity", "tp_softmax(a, -1)", lambda a: F.softmax(a, -1), [inf, 0])
row("log_softmax of large numbers", "tp_mul(tp_log_softmax(a, -1), b)", lambda a, b: F.log_softmax(a, -1) * b,
    [1000, 0, -1000], [1, 2, 4])
row("log_softmax with -infinity", "tp_select(tp_log_softmax(a, -1), 0, 1)", lambda a: F.log_softmax(a, -1)[1],
    [-inf, 0, 1])
row("log_softmax of -infinities", "tp_log_softmax(a, -1)", lambda a: F.log_softmax(a, -1), [-inf, -inf])
row("cross entropy, sure and right", "tp_cross_entropy(tp_reshape(a, TP_DIMS(1, 3)), places(a, TP_DIMS(0)))",
    lambda a: F.cross_entropy(a[None], index(0)), [1000, 0, -1000])
row("cross entropy, sure and wrong", "tp_cross_entropy(tp_reshape(a, TP_DIMS(1, 3)), places(a, TP_DIMS(2)))",
    lambda a: F.cross_entropy(a[None], index(2)), [1000, 0, -1000])
row("cross entropy with -infinity", "tp_cross_entropy(tp_reshape(a, TP_DIMS(1, 3)), places(a, TP_DIMS(1)))",
    lambda a: F.cross_entropy(a[None], index(1)), [-inf, 0, 1])
row("cross entropy of two rows", "tp_cross_entropy(a, places(a, TP_DIMS(1, 0)))",
    lambda a: F.cross_entropy(a, index(1, 0)), [[1, 2], [0, 0]])
row("cross entropy of one class", "tp_cross_entropy(a, places(a, TP_DIMS(0, 0)))",
    lambda a: F.cross_entropy(a, index(0, 0)), [[5], [7]])
row("squared error of equal ones", "tp_mse(a, b)", F.mse_loss, [1, 2], [1, 2])
row("squared error of nothing", "tp_mse(a, b)", F.mse_loss, [], [])
row("a layer norm of equal numbers", "tp_mul(tp_layer_norm(a, NULL, NULL, 1e-5), b)",
    lambda a, b: F.layer_norm(a, (4,), eps=1e-5) * b, [5, 5, 5, 5], [1, 2, 3, 4])
row("a layer norm of one", "tp_mul(tp_layer_norm(a, NULL, NULL, 1e-5), b)",
    lambda a, b: F.layer_norm(a, (1,), eps=1e-5) * b, [[5], [7]], [[1], [2]])
row("a layer norm of no rows", "tp_layer_norm(a, b, NULL, 1e-5)",
    lambda a, b: F.layer_norm(a, (2,), b, eps=1e-5), torch.zeros(0, 2), [1, 2])
row("a batch norm without variance", "tp_batch_norm(a, b, NULL, tp_mul(b, b), tp_sub(b, b), 0.25)",
    lambda a, b: (a - b * b) / torch.sqrt(b - b + 0.25) * b, [[5], [7]], [2])

# ---- moves ---------------------------------------------------------------------------------------------

row("a scalar made a row", "tp_reshape(tp_mul(a, a), TP_DIMS(1))", lambda a: (a * a).reshape(1), 3)
row("a row made a scalar", "tp_reshape(tp_mul(a, a), 0, NULL)", lambda a: (a * a).reshape(()), [3])
row("a scalar stretched", "tp_broadcast(tp_mul(a, a), TP_DIMS(3))", lambda a: (a * a).expand(3), 3)
row("a row stretched to nothing", "tp_broadcast(a, TP_DIMS(0, 2))", lambda a: a.expand(0, 2), [1, 2])
row("transposed", "tp_mul(tp_transpose(a, 0, NULL), b)", lambda a, b: a.T * b, [[1, 2, 3]], [[1], [2], [3]])
row("flipped and weighed", "tp_mul(tp_flip(a, TP_DIMS(0)), b)", lambda a, b: a.flip(0) * b, [1, 2, 3], [1, 2, 3])
row("every other element", "tp_slice(a, 0, 0, 5, 2)", lambda a: a[::2], [1, 2, 3, 4, 5])
row("backwards", "tp_mul(tp_slice(a, 0, TP_END, TP_END, -1), b)", lambda a, b: a.flip(0) * b, [1, 2, 3], [1, 2, 3])
row("backwards, every other", "tp_mul(tp_slice(a, 0, -1, TP_END, -2), b)", lambda a, b: a.flip(0)[::2] * b,
    [1, 2, 3, 4], [1, 10])
row("a slice of a slice", "tp_slice(tp_slice(tp_mul(a, a), 0, 1, TP_END, 1), 0, 1, TP_END, 2)",
    lambda a: (a * a)[1:][1::2], [1, 2, 3, 4, 5])
row("slices that overlap", "tp_mul(tp_slice(a, 0, 0, 2, 1), tp_slice(a, 0, 1, 3, 1))", lambda a: a[0:2] * a[1:3], [2, 3, 5])
row("an empty slice", "tp_slice(a, 0, 2, 2, 1)", lambda a: a[2:2], [1, 2, 3])
row("a slice beyond the end", "tp_slice(a, 0, 1, 99, 1)", lambda a: a[1:99], [1, 2, 3])
row("a column", "tp_mul(tp_select(a, 1, 1), tp_select(a, 0, 0))", lambda a: a[:, 1] * a[0], [[1, 2], [3, 4]])
row("padded", "pad(a, 1, 2, 7)", lambda a: F.pad(a, (1, 2), value=7.0), [1, 2])
row("padded from nothing", "tp_mul(pad(a, 1, 1, 7), b)", lambda a, b: F.pad(a, (1, 1), value=7.0) * b, [], [1, 2])
row("joined with itself", "tp_mul(join(a, a), b)", lambda a, b: torch.cat([a, a]) * b, [1, 2], [1, 2, 3, 4])
row("joined with nothing", "tp_mul(join(a, b), join(b, a))", lambda a, b: torch.cat([a, b]) * torch.cat([b, a]), [1, 2], [])
row("nothings joined", "join(a, b)", lambda a, b: torch.cat([a, b]), [], [])
row("stacked", "tp_stack(2, (tp_tensor *[]){tp_mul(a, b), b}, 1)", lambda a, b: torch.stack([a * b, b], 1), [1, 2], [3, 4])
row("scalars stacked", "tp_stack(2, (tp_tensor *[]){tp_mul(a, b), b}, 0)", lambda a, b: torch.stack([a * b, b]), 2, 3)
row("one part of a split", "part(tp_mul(a, a), TP_DIMS(1, 3), 1)", lambda a: (a * a).split([1, 3])[1], [1, 2, 3, 4])
row("an empty part of a split", "part(tp_mul(a, a), TP_DIMS(0, 2), 0)", lambda a: (a * a).split([0, 2])[0], [1, 2])

# ---- indices --------------------------------------------------------------------------------------------

row("gathered twice", "tp_gather(a, places(a, TP_DIMS(0, 2, 0)), 0)", lambda a: a[[0, 2, 0]], [1, 2, 3])
row("gathered nowhere", "tp_gather(a, places(a, TP_DIMS(1)), 0)", lambda a: a[[1]], [1, 2, 3])
row("gathered from the end", "tp_gather(tp_mul(a, a), places(a, TP_DIMS(-1, 0, -1)), 0)", lambda a: (a * a)[[-1, 0, -1]],
    [1, 2, 3])
row("nothing gathered", "tp_gather(a, places(a, 0, NULL), 0)", lambda a: a[torch.zeros(0, dtype=int)], [1, 2, 3])
row("an embedding", "tp_mul(tp_gather(a, places(a, TP_DIMS(1, 1)), 0), b)",
    lambda a, b: F.embedding(index(1, 1), a) * b, [[1, 2], [3, 4]], [[1, 2], [10, 20]])
row("columns gathered", "tp_mul(tp_gather(a, places(a, TP_DIMS(1, 1)), 1), b)",
    lambda a, b: a[:, [1, 1]] * b, [[1, 2], [3, 4]], [[1, 2], [10, 20]])
row("taken along", "tp_mul(tp_take_along(a, places(a, TP_DIMS(2, 2)), 0), b)",
    lambda a, b: torch.take_along_dim(a, index(2, 2), 0) * b, [1, 2, 3], [10, 20])
row("added at one place", "tp_scatter_add(a, places(a, TP_DIMS(1, 1, 0)), b, 0)",
    lambda a, b: a.index_add(0, index(1, 1, 0), b), [1, 2, 3], [10, 20, 30])
row("added to squares", "tp_square(tp_scatter_add(a, places(a, TP_DIMS(1, 1)), b, 0))",
    lambda a, b: torch.square(a.index_add(0, index(1, 1), b)), [1, 2, 3], [10, 20])
row("put in", "tp_square(tp_scatter(a, places(a, TP_DIMS(2, 0)), b, 0))",
    lambda a, b: torch.square(a.index_copy(0, index(2, 0), b)), [1, 2, 3], [10, 20])
row("put along", "tp_square(tp_put_along_add(a, places(a, TP_DIMS(1, 1)), b, 0))",
    lambda a, b: torch.square(a.scatter_add(0, index(1, 1), b)), [1, 2, 3], [10, 20])
row("sorted ties", "tp_mul(tp_sort(a, 0, false), b)", lambda a, b: torch.sort(a, stable=True)[0] * b,
    [2, 1, 2, 1], [1, 2, 3, 4])
row("sorted ties, descending", "tp_mul(tp_sort(a, 0, true), b)",
    lambda a, b: torch.sort(a, stable=True, descending=True)[0] * b, [2, 1, 2, 1], [1, 2, 3, 4])
row("sorted with NaN", "tp_mul(tp_sort(a, 0, false), b)", lambda a, b: torch.sort(a, stable=True)[0] * b,
    [nan, 1, -inf], [1, 2, 3])
row("the first two", "tp_take_along(tp_mul(a, a), tp_argtopk(a, 0, 2, true), 0)",
    lambda a: torch.take_along_dim(a * a, torch.argsort(a, stable=True, descending=True)[:2], 0), [3, 5, 3, 3])
row("at its greatest", "tp_gather(tp_mul(a, a), tp_argmax(a, 0, true), 0)", lambda a: (a * a)[torch.argmax(a)], [1, 5, 5])

# ---- contractions and windows ---------------------------------------------------------------------------

row("product over nothing", "tp_matmul(a, b)", torch.matmul, torch.zeros(2, 0), torch.zeros(0, 3))
row("product of vectors", "tp_matmul(a, b)", torch.matmul, [1, 2], [3, 4])
row("product of a matrix and a vector", "tp_matmul(a, b)", torch.matmul, [[1, 2], [3, 4]], [5, 6])
row("product with itself", "tp_matmul(a, a)", lambda a: a @ a, [[1, 2], [3, 4]])
row("product with an infinity", "tp_matmul(a, b)", torch.matmul, [[0, 1]], [[inf], [2]])
row("a matrix for a batch", "tp_matmul(a, b)", torch.matmul, [[[1, 2]], [[3, 4]]], [[5], [6]])
row("linear without rows", "tp_linear(a, b, NULL)", lambda a, b: a @ b, torch.zeros(0, 2), [[1, 2], [3, 4]])
row("a convolution", "tp_conv(tp_reshape(a, TP_DIMS(1, 1, 5)), tp_reshape(b, TP_DIMS(1, 1, 2)), NULL)",
    lambda a, b: F.conv1d(a[None, None], b[None, None]), [1, 2, 3, 4, 5], [10, 20])
row("a convolution that leaves some out",
    "tp_conv(tp_reshape(a, TP_DIMS(1, 1, 5)), tp_reshape(b, TP_DIMS(1, 1, 2)), WINDOW(.stride = {3}))",
    lambda a, b: F.conv1d(a[None, None], b[None, None], stride=3), [1, 2, 3, 4, 5], [10, 20])
row("a convolution in the padding",
    "tp_conv(tp_reshape(a, TP_DIMS(1, 1, 2)), tp_reshape(b, TP_DIMS(1, 1, 2)), "
    "WINDOW(.pad_lo = {4}, .pad_hi = {4}, .dilation = {4}))",
    lambda a, b: F.conv1d(a[None, None], b[None, None], padding=4, dilation=4), [1, 2], [10, 20])
row("a transposed convolution",
    "tp_conv_dx(tp_reshape(a, TP_DIMS(1, 1, 2)), tp_reshape(b, TP_DIMS(1, 1, 3)), TP_DIMS(5), WINDOW(.stride = {2}))",
    lambda a, b: F.conv_transpose1d(a[None, None], b[None, None], stride=2), [1, 2], [3, 4, 5])
row("max pooling of ties", "tp_max_pool(tp_reshape(a, TP_DIMS(1, 1, 4)), WINDOW(.kernel = {2}, .stride = {2}))",
    lambda a: F.max_pool1d(a[None, None], 2), [2, 2, 1, 1])
row("max pooling that overlaps", "tp_max_pool(tp_reshape(tp_mul(a, a), TP_DIMS(1, 1, 4)), WINDOW(.kernel = {3}, .stride = {1}))",
    lambda a: F.max_pool1d((a * a)[None, None], 3, 1), [1, 3, 3, 2])
row("max pooling of -infinities",
    "tp_max_pool(tp_reshape(a, TP_DIMS(1, 1, 2)), WINDOW(.kernel = {2}, .stride = {2}, .pad_lo = {1}, .pad_hi = {1}))",
    lambda a: F.max_pool1d(a[None, None], 2, 2, 1), [-inf, -inf])
row("max pooling of NaN", "tp_max_pool(tp_reshape(a, TP_DIMS(1, 1, 4)), WINDOW(.kernel = {2}, .stride = {2}))",
    lambda a: F.max_pool1d(a[None, None], 2), [nan, 1, 2, 3])
row("average pooling", "tp_avg_pool(tp_reshape(a, TP_DIMS(1, 1, 3)), WINDOW(.kernel = {2}, .stride = {2}, .pad_lo = {1}))",
    lambda a: F.avg_pool1d(a[None, None], 2, 2, 1, count_include_pad=False), [1, 2, 3])

# ---- along axes ----------------------------------------------------------------------------------------

row("norm of zeros", "tp_norm(a, 2, TP_ALL, false)", torch.linalg.vector_norm, [0, 0])
row("norm of order 1 at 0", "tp_norm(a, 1, TP_ALL, false)", lambda a: torch.linalg.vector_norm(a, 1), [0, -2])
row("norm of order 3 at 0", "tp_norm(a, 3, TP_ALL, false)", lambda a: torch.linalg.vector_norm(a, 3), [0, -2])
row("greatest norm of ties", "tp_norm(a, INFINITY, TP_ALL, false)",
    lambda a: torch.linalg.vector_norm(a, inf), [2, -2, 1])
row("standard deviation of equal numbers", "tp_std(a, TP_ALL, 1, false)", torch.std, [3, 3])
row("logarithm of a sum with -infinity", "tp_logsumexp(a, TP_ALL, false)", lambda a: torch.logsumexp(a, 0), [-inf, 1])
row("running product with a zero", "tp_cumprod(a, 0, false, false)", lambda a: torch.cumprod(a, 0), [2, 0, 3])
row("running maximum of ties", "tp_cummax(a, 0)", lambda a: torch.cummax(a, 0).values, [2, 2, 1])
row("median of two", "tp_median(a, 0, false)", lambda a: torch.median(a, 0).values, [3, 1])
row("quantile between two", "tp_quantile(a, 0.25, 0, false)", lambda a: torch.quantile(a, 0.25), [3, 1])
# ---- losses, norms of 0, attention ----------------------------------------------------------------------

def total(f):
    return lambda *x: f(*x, reduction="sum")


row("absolute error of equal ones", "tp_l1(a, b, TP_SUM)", total(F.l1_loss), [1, 2], [1, 5])
row("huber where it bends", "tp_huber(a, b, 1, TP_SUM)", total(F.huber_loss), [1, 0, 3, 0, 0], [0, 1, 3, 5, 0.5])
row("hinge where it bends", "tp_hinge(a, b, TP_SUM)", lambda a, b: torch.relu(1 - a * b).sum(), [1, 2, -1], [1, 1, 1])
row("binary cross entropy by logits", "tp_bce_with_logits(a, b, NULL, NULL, TP_SUM)",
    total(F.binary_cross_entropy_with_logits), [0, 0, 1000, -1000, 2], [0, 0.25, 1, 0, 0.5])
row("binary cross entropy by logits and weights",
    "tp_bce_with_logits(a, places(a, TP_DIMS(0, 1, 1)), number(a, 2), number(a, 3), TP_SUM)",
    lambda a: F.binary_cross_entropy_with_logits(a, index(0, 1, 1).double(), torch.full_like(a, 2), reduction="sum",
                                                 pos_weight=torch.full_like(a, 3)), [0, 1000, -1000])
row("binary cross entropy", "tp_bce(a, b, TP_MEAN)",  # F.binary_cross_entropy is off in higher orders
    lambda a, b: -(b * a.log() + (1 - b) * (1 - a).log()).mean(), [0.5, 0.25], [1, 0.25])
row("divergence of nothing", "tp_kl_div(a, tp_cast(places(a, TP_DIMS(0, 1)), TP_F64), TP_SUM)",
    lambda a: F.kl_div(a, index(0, 1).double(), reduction="sum"), [-1, -2])
row("count of nothing", "tp_poisson_nll(a, b, TP_SUM)", total(F.poisson_nll_loss), [0, -1000], [0, 2])
row("cross entropy, smoothed and weighed",
    "tp_cross_entropy_with(a, places(a, TP_DIMS(1, 0)), &(tp_loss_options){.weights = tp_cast(places(a, TP_DIMS(3, 2)), TP_F64), "
    ".ignores = true, .smoothing = 0.25})",
    lambda a: F.cross_entropy(a, index(1, 0), index(3, 2).double(), ignore_index=0, label_smoothing=0.25),
    [[1, 2], [0, 0]])
row("cross entropy of probabilities", "tp_cross_entropy_with(a, b, NULL)", F.cross_entropy, [[1, 2], [0, 0]],
    [[0, 1], [0.5, 0.25]])
row("cosine similarity", "tp_cosine_similarity(a, b, 0, 0.5)", lambda a, b: F.cosine_similarity(a, b, 0, 0.5), [1, 2], [3, 4])
row("a line of 0 over its norm", "tp_normalize(a, 2, 0, 0.5)", lambda a: F.normalize(a, dim=0, eps=0.5), [0, 0])
row("a short line over its norm", "tp_mul(tp_normalize(a, 2, 0, 0.5), b)", lambda a, b: F.normalize(a, dim=0, eps=0.5) * b,
    [0.1, 0.2], [1, 2])
row("readings of a line", "tp_ctc_loss(tp_log_softmax(tp_reshape(a, TP_DIMS(3, 1, 2)), 2), "
    "tp_reshape(places(a, TP_DIMS(1)), TP_DIMS(1, 1)), places(a, TP_DIMS(3)), places(a, TP_DIMS(1)), 0, TP_SUM)",
    lambda a: -torch.logsumexp(F.log_softmax(a, 1)[torch.arange(3), torch.tensor(  # PyTorch's has one order only
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]])].sum(1), 0),
    [[1, 2], [0, 0], [0.5, 1]])
row("attention that sees nothing", "tp_attention(tp_reshape(a, TP_DIMS(1, 1, 2, 2)), tp_reshape(a, TP_DIMS(1, 1, 2, 2)), "
    "tp_reshape(b, TP_DIMS(1, 1, 2, 2)), &(tp_attention_options){.mask = tp_cast(tp_reshape("
    "places(a, TP_DIMS(0, 0, 1, 1)), TP_DIMS(2, 2)), TP_BOOL)}, NULL)",
    lambda a, b: torch.where(torch.tensor([[False], [True]]), torch.softmax(a @ a.T / math.sqrt(2), -1) @ b, 0.0),
    [[1, 2], [0, 1]], [[1, 2], [3, 4]])
row("a norm by roots of 0", "tp_mul(tp_rms_norm(a, NULL, 0.25), b)", lambda a, b: F.rms_norm(a, (2,), eps=0.25) * b,
    [0, 0], [1, 2])

# ---- where tapir differs, as docs/numerics.md says: {name: {(order, operand): its gradient}}, None as PyTorch ---

ours = {
    "relu of NaN": {(0, 0): [0, None, None]},
    "clip at its bounds": {(0, 0): [0.5, 0.5, None, None, None]},
    "clip_min at its bound": {(0, 0): [0.5, None, None]},
    "clip_max at its bound": {(0, 0): [0.5, None, None]},
    "arc sine at its ends": {(1, 0): [nan, nan, None], (2, 0): [nan, nan, None]},
    "arc cosine at its ends": {(1, 0): [nan, nan, None], (2, 0): [nan, nan, None]},
    "arc tangent of infinities": {(1, 0): [0, 0], (2, 0): [0, 0]},
    "inverse hyperbolic cosine at 1": {(1, 0): [nan]},
    "erfc far out": {(1, 0): [None, None, 0], (2, 0): [None, None, 0]},
    "lgamma": {(1, 0): [math.pi**2 / 6, math.pi**2 / 6 - 1, 17.197329154507110, None, 19.181879647671607]},
    "gelu by tanh": {(2, 0): [None, None, 0, 0]},
    "elu at 0": {(1, 0): [0.5, None, None, None, None], (2, 0): [0.5, None, None, None, None]},
    "celu at 0": {(1, 0): [2, None, None, None, None], (2, 0): [4, None, None, None, None]},
    "selu at 0": {(1, 0): [1.7580993408473766, None, None, None, None],
                  (2, 0): [1.7580993408473766, None, None, None, None]},
    "angle of nothing": {(1, 0): [0], (1, 1): [0], (2, 0): [0], (2, 1): [0]},
    "prelu at 0": {(1, 0): [1, None, None], (1, 1): [2]},
    "maximum with NaN": {(0, 0): [0, 0, 0], (0, 1): [0, 0, 0]},
    "greatest of NaN": {(0, 0): [0, 1, 0]},
    "a line of 0 over its norm": {(1, 0): [0, 0], (2, 0): [0, 0]},
    "power 0 of 0": {(1, 0): [0, 2, None], (1, 1): [0, 0, None], (2, 0): [0, 1, None], (2, 1): [0, 3, None]},
    "power 1 of 0": {(1, 0): [0], (1, 1): [1], (2, 0): [0], (2, 1): [0]},
    "division by 0": {(1, 1): [inf, None], (2, 1): [-inf, None]},
    "norm of zeros": {(1, 0): [0, 0], (2, 0): [0, 0]},
    "norm of order 3 at 0": {(1, 0): [0, 0], (2, 0): [0, 0]},
    "standard deviation of equal numbers": {(1, 0): [0, 0], (2, 0): [0, 0]},
    "mean of no elements": {(1, 1): [nan, nan]},
    "mean over an axis without elements": {(1, 1): [nan, nan]},
}

# ---- gradients -------------------------------------------------------------------------------------------


def gradients(f, operands):
    """The gradients of the first, second and third order, as lists of tensors."""
    orders = []
    total = f(*operands).sum()
    for _ in range(3):
        if total.requires_grad:
            got = torch.autograd.grad(total, operands, create_graph=True, allow_unused=True)
        else:
            got = [None] * len(operands)
        orders.append([torch.zeros_like(x) + (0 if g is None else g) for g, x in zip(got, operands)])
        total = sum(g.sum() for g in orders[-1])
    return orders


def literal(v):
    if math.isnan(v):
        return "NAN"
    if math.isinf(v):
        return "INFINITY" if v > 0 else "-INFINITY"
    return "-0.0" if v == 0 and math.copysign(1, v) < 0 else f"{v:.17g}"


def values(lists):
    """A C initializer: {{1, 2}, {3}}."""
    return "{" + ", ".join("{" + ", ".join(map(literal, v or [0])) + "}" for v in lists) + "}"


def lists_of(tensors):
    return [t.detach().flatten().tolist() for t in tensors]


def shapes(operands):
    return "{" + ", ".join("{" + ", ".join(map(str, x.shape or [0])) + "}" for x in operands) + "}"


print("/* Written by corners.py: CORNER(number, name, expression, fields of a corner). */")
for number, (name, c, f, given) in enumerate(rows):
    operands = [torch.as_tensor(x, dtype=torch.float64).clone().requires_grad_() for x in given]
    print(f'CORNER({number}, "{name}",')
    print(f"       ({c}),")
    print(f"       .n_in = {len(operands)}, .rank = {{{', '.join(str(x.dim()) for x in operands)}}},", end=" ")
    print(f".shape = {shapes(operands)}, .x = {values(lists_of(operands))},")
    for order, tensors in enumerate(gradients(f, operands)):
        lists = lists_of(tensors)
        own = {k: ours[name][k] for k in ours.get(name, {}) if k[0] == order}
        for (_, operand), v in own.items():
            lists[operand] = [theirs if mine is None else mine for mine, theirs in zip(v, lists[operand])]
        note = " /* not PyTorch's */" if own else ""
        print(f"       .gradient[{order}] = {values(lists)}{')' if order == 2 else ','}{note}")
