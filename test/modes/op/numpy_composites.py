"""The functions of composites.h in NumPy."""

import math

import numpy as np

from numpy_types import T, cast, is_float, meet, promote
from numpy_ops import axes_of, binary, each, either, erf, int_div, joined, keeping, sigmoid, unary

# ---- elements ----------------------------------------------------------------------------------

def tp_clip(x, lo, hi):
    if is_float(x):
        return T(np.minimum(np.maximum(x.v, lo), hi), x.dtype)
    return T(np.clip(x.v, x.dtype.type(lo), x.dtype.type(hi)), x.dtype)


def lgamma(x):
    if np.isinf(x) or (x <= 0 and x == np.floor(x)):
        return np.inf
    return math.lgamma(x) if x < 1e305 else np.inf if x > 2.6e305 else x * (math.log(x) - 1)


def float_floor_div(x, y):
    x, y = np.broadcast_arrays(x, y)
    r = np.fmod(x, y)
    q = np.rint((x - r) / y - ((r != 0) & ((r < 0) != (y < 0))))
    q = np.where(q == 0, np.copysign(0, x / y), q)
    return np.where(y == 0, x / y, q)


def tp_lerp(a, b, w):
    (a, b), (_, w) = meet(a, b), meet(a, w)
    (a, w), (b, _) = meet(a, w), meet(b, w)
    return T(a.v + w.v * (b.v - a.v), a.dtype)


def softplus(v):
    return np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v)))


def elu(v, alpha):
    return np.where(v > 0, v, alpha * np.expm1(np.minimum(v, 0)))


def relu6(v):
    return np.minimum(np.maximum(v, 0), 6)


def tp_shrink(x, bound, bias):
    v = x.v if is_float(x) else x.v.astype(np.int64)
    y = np.where(np.abs(v) <= bound, 0, np.where(v < 0, v + bias, v - bias))
    return T(y.astype(x.v.dtype), x.dtype)


def tp_clip_min(x, lo):
    return T(np.maximum(x.v, x.v.dtype.type(lo)), x.dtype)


def tp_clip_max(x, hi):
    return T(np.minimum(x.v, x.v.dtype.type(hi)), x.dtype)


def gate(f):
    def run(x, axis):
        a, b = np.split(x.v, 2, axis)
        return T(f(a, b), x.dtype)
    return run


def of_type(x, v):
    """The number as x's type has it."""
    return np.longdouble(x.dtype.type(v))


def with_number(f):
    return lambda x, *numbers: T(f(x.v, *[of_type(x, v) for v in numbers]), x.dtype)


# ---- arrays ------------------------------------------------------------------------------------

def truth(f):
    return lambda x, axes, keep: T(f(x.v != 0, axis=axes_of(x, axes), keepdims=keep), np.bool_)


def tp_var(x, axes, correction, keep):
    n = np.prod([x.v.shape[a] for a in axes_of(x, axes)], dtype=np.longdouble)
    away = x.v - np.mean(x.v, axis=axes_of(x, axes), keepdims=True)
    squares = np.sum(away * away, axis=axes_of(x, axes), keepdims=keep)
    return T(squares / max(n - correction, np.longdouble(0)), x.dtype)


def tp_norm(x, p, axes, keep):
    size = np.abs(x.v)
    if p == np.inf:
        return T(np.max(size, axis=axes_of(x, axes), keepdims=keep, initial=0), x.dtype)
    p = np.longdouble(p)
    return T(np.sum(size ** p, axis=axes_of(x, axes), keepdims=keep) ** (1 / p), x.dtype)


def tp_logsumexp(x, axes, keep):
    axes = axes_of(x, axes)
    top = np.max(x.v, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.sum(np.exp(x.v - top), axis=axes, keepdims=True)) + top
    return T(y if keep else np.squeeze(y, axes), x.dtype)


def tp_cumprod(x, axis, exclusive, reverse):
    v = np.flip(x.v, axis) if reverse else x.v
    out = np.cumprod(v, axis=axis, dtype=v.dtype)
    if exclusive:
        out = np.roll(out, 1, axis)
        if out.shape[axis]:
            np.moveaxis(out, axis, 0)[0] = 1
    return T(np.flip(out, axis) if reverse else out, x.dtype)


def arg_running(greatest):
    def run(x, axis):
        v = np.moveaxis(x.v, axis, 0)
        place = np.zeros(v.shape, np.int64)
        for i in range(1, v.shape[0]):
            best = np.take_along_axis(v, place[i - 1:i], 0)[0]
            beats = (v[i] >= best if greatest else v[i] <= best) | (v[i] != v[i])
            place[i] = np.where(beats, i, place[i - 1])
        return T(np.moveaxis(place, 0, axis), np.int64)
    return run


def running(greatest):
    return lambda x, axis: T(np.take_along_axis(x.v, arg_running(greatest)(x, axis).v, axis), x.dtype)


def tp_kth(x, k, axis, keep):
    return T(np.take(np.sort(x.v, axis=axis), [k - 1] if keep else k - 1, axis=axis), x.dtype)


def or_nan(v, x, axis, keep):
    nan = np.any(x.v != x.v, axis=axis, keepdims=keep)
    return T(np.where(nan, np.nan, v) if is_float(x) else v, x.dtype)


def tp_median(x, axis, keep):
    return or_nan(tp_kth(x, (x.v.shape[axis] + 1) // 2, axis, keep).v, x, axis, keep)


def tp_quantile(x, q, axis, keep):
    place = q * (x.v.shape[axis] - 1)
    lo, part = int(np.floor(place)), place - np.floor(place)
    a = tp_kth(x, lo + 1, axis, keep).v
    b = tp_kth(x, int(np.ceil(place)) + 1, axis, keep).v
    return or_nan(a + (b - a) * part if part else a, x, axis, keep)


def meshed(xs):
    return joined(np.stack)([T(v, x.dtype) for v, x in zip(np.meshgrid(*[x.v for x in xs], indexing="ij"), xs)], 0)


def tp_diag(x, k):
    out = np.zeros(x.v.shape[:-1] + np.diag(x.v[(0,) * (x.v.ndim - 1)], k).shape, x.v.dtype)
    for at in np.ndindex(x.v.shape[:-1]):
        out[at] = np.diag(x.v[at], k)
    return T(out, x.dtype)


def product(f):
    def run(a, b, *args):
        a, b = meet(a, b)
        return T(f(a.v, b.v, *args), a.dtype)
    return run


def tp_einsum(equation, xs):
    d = xs[0]
    for x in xs[1:]:
        d = T(np.zeros(0, promote(d, x)))
    return T(np.einsum(equation, *[cast(x, d.dtype).v for x in xs]), d.dtype)


NAMES = {
    "tp_square": unary(lambda v: v * v), "tp_gelu": unary(lambda v: v / 2 * (1 + erf(v / np.sqrt(np.longdouble(2))))),
    "tp_silu": unary(lambda v: v * sigmoid(v)), "tp_reciprocal": unary(lambda v: 1 / v), "tp_tan": unary(np.tan),
    "tp_asin": unary(np.arcsin), "tp_acos": unary(np.arccos), "tp_atan": unary(np.arctan),
    "tp_atan2": binary(np.arctan2), "tp_sinh": unary(np.sinh), "tp_cosh": unary(np.cosh),
    "tp_asinh": unary(np.arcsinh), "tp_acosh": unary(np.arccosh), "tp_atanh": unary(np.arctanh),
    "tp_erfc": unary(each(math.erfc)), "tp_lgamma": unary(each(lgamma)),
    "tp_isnan": lambda x: T(np.isnan(x.v)), "tp_isinf": lambda x: T(np.isinf(x.v)),
    "tp_isfinite": lambda x: T(np.isfinite(x.v)),
    "tp_fmod": binary(either(np.fmod, lambda a, b: a - b * int_div(a, b) if b else 0)),
    "tp_floor_div": binary(either(float_floor_div, lambda a, b: a // b if b else 0)), "tp_lerp": tp_lerp,
    "tp_gelu_tanh": unary(lambda v: v / 2 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (v + 0.044715 * v ** 3)))),
    "tp_softplus": unary(softplus), "tp_logsigmoid": unary(lambda v: -softplus(-v)),
    "tp_mish": unary(lambda v: v * np.tanh(softplus(v))),
    "tp_selu": unary(lambda v: 1.0507009873554805 * elu(v, 1.6732632423543772)), "tp_relu6": unary(relu6),
    "tp_hardsigmoid": unary(lambda v: relu6(v + 3) / 6), "tp_hardswish": unary(lambda v: v * (relu6(v + 3) / 6)),
    "tp_softsign": unary(lambda v: v / (1 + np.abs(v))), "tp_swish": with_number(lambda v, k: v * sigmoid(k * v)),
    "tp_elu": with_number(elu),
    "tp_celu": with_number(lambda v, k: np.where(v > 0, v, k * np.expm1(np.minimum(v, 0) / k))),
    "tp_leaky_relu": with_number(lambda v, k: np.where(v > 0, v, k * v)),
    "tp_threshold": with_number(lambda v, t, k: np.where(v <= t, k, v)), "tp_shrink": tp_shrink,
    "tp_clip_min": tp_clip_min, "tp_clip_max": tp_clip_max,
    "tp_prelu": binary(lambda v, k: np.where(v > 0, v, k * v)), "tp_glu": gate(lambda a, b: a * sigmoid(b)),
    "tp_swiglu": gate(lambda a, b: a * sigmoid(a) * b), "tp_clip": tp_clip, "tp_any": truth(np.any),
    "tp_all": truth(np.all), "tp_var": tp_var, "tp_std": lambda *args: T(np.sqrt(tp_var(*args).v), args[0].dtype),
    "tp_norm": tp_norm, "tp_logsumexp": tp_logsumexp, "tp_cumprod": tp_cumprod, "tp_kth": tp_kth,
    "tp_argcummax": arg_running(True), "tp_argcummin": arg_running(False), "tp_cummax": running(True),
    "tp_cummin": running(False), "tp_median": tp_median, "tp_quantile": tp_quantile,
    "tp_eye": lambda tp, dtype, n, m, k: T(np.eye(n, m, k, dtype), dtype),
    "tp_linspace": lambda tp, dtype, lo, hi, n: cast(T(np.linspace(lo, hi, n)), dtype), "meshed": meshed,
    "tp_diagonal": keeping(lambda v, k: np.diagonal(v, k, -2, -1)), "tp_diag": tp_diag, "tp_tril": keeping(np.tril),
    "tp_triu": keeping(np.triu), "tp_tile": keeping(np.tile), "tp_repeat_each": keeping(np.repeat),
    "tp_roll": keeping(np.roll), "tp_trace": keeping(lambda v: np.trace(v, axis1=-2, axis2=-1, dtype=v.dtype)),
    "tp_dot": product(np.dot), "tp_outer": product(np.outer), "tp_kron": product(np.kron),
    "tp_tensordot": product(lambda a, b, p, q: np.tensordot(a, b, (p, q or []))), "tp_einsum": tp_einsum,
}
