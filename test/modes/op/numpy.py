#!/usr/bin/python3
"""Op cases against NumPy.

    numpy.py OP_CASES [--case OP or OP/N] [--seed N]

OP_CASES is the program; it writes operands and results as .npy files. Each case's call, as it is
written in cases.def, is evaluated here as Python, over functions of the same names in NumPy with
f64 (or long double) arithmetic; integers are compared exactly, floats with tolerance.def.
Exit code 77: NumPy is missing."""

import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(77)

np.seterr(all="ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
NOT_COMPUTED = {"uniform": "random", "normal": "random", "uniform_like": "random",
                "normal_like": "random", "dropout": "random", "assign": "state",
                "call": "gradients"}

# ---- arguments as cases.def writes them --------------------------------------------------------

DTYPES = {"TP_BOOL": np.bool_, "TP_I8": np.int8, "TP_I16": np.int16, "TP_I32": np.int32,
          "TP_I64": np.int64, "TP_U8": np.uint8, "TP_U16": np.uint16, "TP_U32": np.uint32,
          "TP_U64": np.uint64, "TP_F32": np.float32, "TP_F64": np.float64}
END = 2 ** 63 - 1


def as_list(*v):
    return list(v)


def window(*parts):
    w = {"kernel": [], "stride": [], "pad_lo": [], "pad_hi": [], "dilation": [], "groups": 1,
         "count_pad": False}
    w.update(dict(parts))
    return w


def part(name):
    return lambda *v: (name, list(v))


# ---- types: floats are computed as long double, and compared in the type they should have -------

class T:
    """Values and the element type the result has to have."""

    def __init__(self, v, dtype=None):
        v = np.asarray(v)
        self.dtype = np.dtype(dtype if dtype is not None else v.dtype)
        self.v = v.astype(np.longdouble) if self.dtype.kind == "f" else v.astype(self.dtype)


def is_float(t):
    return t.dtype.kind == "f"


def promote(a, b):
    """Float over integer over bool, then the wider; signed and unsigned: the next wider signed."""
    if is_float(a) or is_float(b):
        return max([t.dtype for t in (a, b) if is_float(t)], key=lambda d: d.itemsize)
    if a.dtype.kind == b.dtype.kind:
        return a.dtype if a.dtype.itemsize >= b.dtype.itemsize else b.dtype
    if "b" in (a.dtype.kind, b.dtype.kind):
        return b.dtype if a.dtype.kind == "b" else a.dtype
    s, u = (a, b) if a.dtype.kind == "i" else (b, a)
    size = s.dtype.itemsize if s.dtype.itemsize > u.dtype.itemsize else min(8, 2 * u.dtype.itemsize)
    return np.dtype("i%d" % size)


def cast(t, dtype):
    dtype = np.dtype(dtype)
    v = t.v
    if dtype.kind == "b":
        return T(v != 0, dtype)
    if is_float(t) and dtype.kind in "iu":
        info = np.iinfo(dtype)
        clean = np.where(np.isnan(v), 0, np.trunc(v))
        most, least = np.longdouble(info.max), np.longdouble(info.min)
        out = np.zeros(v.shape, dtype)
        flat, to = clean.reshape(-1), out.reshape(-1)
        for i in range(flat.size):
            x = flat[i]
            to[i] = info.max if x >= most else info.min if x <= least else int(x)
        return T(out, dtype)
    if is_float(t) and dtype == np.float32:
        return T(v.astype(np.float64).astype(np.float32), dtype)
    if dtype.kind == "f" and not is_float(t):
        return T(v.astype(dtype), dtype)
    return T(v.astype(dtype), dtype)


def meet(a, b):
    d = promote(a, b)
    return cast(a, d), cast(b, d)


# ---- elementwise --------------------------------------------------------------------------------

def unary(f):
    return lambda a: T(f(a.v), a.dtype)


def erf(v):
    from math import erf as one
    return np.vectorize(lambda x: one(float(x)), otypes=[np.longdouble])(v) if v.size else v


def sign(v):
    if v.dtype.kind == "f":
        return np.where(v > 0, 1, np.where(v < 0, -1, v))
    return np.sign(v)


def sigmoid(v):
    e = np.exp(-np.abs(v))
    return np.where(v < 0, e, 1) / (1 + e)


def binary(f):
    def run(a, b):
        a, b = meet(a, b)
        return T(f(a.v, b.v), a.dtype)
    return run


def compare(f):
    def run(a, b):
        a, b = meet(a, b)
        return T(f(a.v, b.v), np.bool_)
    return run


def each_int(f):
    """Over Python's integers, wrapped back to the type."""
    def run(x, y):
        x, y = np.broadcast_arrays(x, y)
        bits = 8 * x.dtype.itemsize
        out = np.zeros(x.shape, x.dtype)
        for i in np.ndindex(x.shape):
            v = f(int(x[i]), int(y[i])) % (1 << bits)
            signed = x.dtype.kind == "i" and v >= 1 << (bits - 1)
            out[i] = v - (1 << bits) if signed else v
        return out
    return run


def int_div(a, b):
    if b == 0:
        return 0
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_pow(a, b):
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


def either(of_float, of_int):
    def run(x, y):
        return of_float(x, y) if x.dtype.kind == "f" else each_int(of_int)(x, y)
    return run


def float_mod(x, y):
    """In exact arithmetic: the remainder of the floored quotient."""
    x, y = np.broadcast_arrays(x, y)
    r = np.fmod(x, y)
    r = np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
    return np.where(r == 0, np.copysign(0, y), r)


def float_pow(x, y):
    r = np.power(x, y)
    return np.where((x < 0) & np.isfinite(x) & np.isfinite(y) & (np.floor(y) != y), np.nan, r)


def where(c, a, b):
    a, b = meet(a, b)
    return T(np.where(c.v, a.v, b.v), a.dtype)


# ---- reductions and scans -----------------------------------------------------------------------

def axes_of(x, axes):
    return tuple(a % x.v.ndim for a in axes) if axes else tuple(range(x.v.ndim))


def reduction(f):
    def run(x, axes, keep):
        with_dtype = {} if f in (np.max, np.min) else {"dtype": x.v.dtype}
        if f in (np.max, np.min) and is_float(x):
            with_dtype["initial"] = -np.inf if f is np.max else np.inf
        elif f in (np.max, np.min) and x.dtype.kind in "iu":
            info = np.iinfo(x.dtype)
            with_dtype["initial"] = info.min if f is np.max else info.max
        return T(f(x.v, axis=axes_of(x, axes), keepdims=keep, **with_dtype), x.dtype)
    return run


def tp_mean(x, axes, keep):
    n = np.prod([x.v.shape[a] for a in axes_of(x, axes)], dtype=np.longdouble)
    return T(np.sum(x.v, axis=axes_of(x, axes), keepdims=keep) / n, x.dtype)


def arg(greatest):
    def run(x, axis, keep):
        v = x.v
        if v.shape[axis] == 0:
            out = np.zeros(np.sum(v, axis=axis).shape)
        else:
            if v.dtype.kind == "f":
                v = np.where(np.isnan(v), np.inf if greatest else -np.inf, v)
                first_nan = np.argmax(np.isnan(x.v), axis=axis)
                out = (np.argmax if greatest else np.argmin)(v, axis=axis)
                out = np.where(np.any(np.isnan(x.v), axis=axis), first_nan, out)
            else:
                out = (np.argmax if greatest else np.argmin)(v, axis=axis)
        return T(np.expand_dims(out, axis) if keep else out, np.int64)
    return run


def tp_argtopk(x, axis, k, largest):
    rank = np.unique(x.v, return_inverse=True)[1].reshape(x.v.shape)  # NaN is the last value
    order = np.argsort(-rank if largest else rank, axis=axis, kind="stable")
    return T(np.take(order, np.arange(k), axis=axis), np.int64)


def tp_argsort(x, axis, descending):
    return tp_argtopk(x, axis, x.v.shape[axis], descending)


def tp_sort(x, axis, descending):
    return T(np.take_along_axis(x.v, tp_argsort(x, axis, descending).v, axis), x.dtype)


def tp_cumsum(x, axis, exclusive, reverse):
    v = np.flip(x.v, axis) if reverse else x.v
    out = np.cumsum(v, axis=axis, dtype=v.dtype)
    if exclusive:
        out = np.roll(out, 1, axis)
        if out.shape[axis]:
            np.moveaxis(out, axis, 0)[0] = 0
    return T(np.flip(out, axis) if reverse else out, x.dtype)


def tp_recur(a, b, axis, reverse):
    a, b = meet(a, b)
    p, q = (np.moveaxis(np.flip(t.v, axis) if reverse else t.v, axis, 0) for t in (a, b))
    out = np.zeros_like(q)
    for i in range(q.shape[0]):
        out[i] = q[i] if i == 0 else p[i] * out[i - 1] + q[i]
    out = np.moveaxis(out, 0, axis)
    return T(np.flip(out, axis) if reverse else out, a.dtype)


def tp_extent(x, axes, dtype):
    return T(np.prod([x.v.shape[a] for a in axes_of(x, axes)], dtype=np.int64).astype(dtype), dtype)


# ---- moves and indices --------------------------------------------------------------------------

def keeping(f):
    return lambda x, *args: T(f(x.v, *args), x.dtype)


def slice_of(v, axis, start, stop, step):
    index = [slice(None)] * v.ndim
    index[axis] = slice(start, None if stop == END else stop, step)
    return v[tuple(index)]


def pad(v, rank, lo, hi, value):
    fill = T(np.array(value)) if v.dtype.kind == "f" else cast(T(np.array(float(value))), v.dtype)
    return np.pad(v, list(zip(lo, hi)), constant_values=fill.v[()]) if rank else v


def joined(f):
    def run(xs, axis):
        d = xs[0]
        for x in xs[1:]:
            d = T(np.zeros(0, promote(d, x)))
        return T(f([cast(x, d.dtype).v for x in xs], axis=axis), d.dtype)
    return run


def parts(x, axis, n, sizes):
    cut = n if sizes is None else np.cumsum(sizes)[:-1]
    return T(np.concatenate(np.split(x.v, cut, axis=axis)[::-1], axis=axis), x.dtype)


def tp_gather(x, index, axis):
    i = index.v.astype(np.int64)
    return T(np.take(x.v, np.where(i < 0, i + x.v.shape[axis], i), axis=axis), x.dtype)


def along(v, index, axis):
    """The places index names, one element each, as a tuple of coordinate arrays."""
    i = index.v.astype(np.int64)
    i = np.where(i < 0, i + v.shape[axis], i)
    at = list(np.indices(i.shape))
    at[axis] = i
    return tuple(at)


def tp_take_along(x, index, axis):
    axis %= x.v.ndim
    return T(x.v[along(x.v, index, axis)], x.dtype)


MEETINGS = {"set": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(how):
    def run(x, index, src, axis):
        axis %= x.v.ndim
        out = np.moveaxis(x.v.copy(), axis, 0)
        i = index.v.astype(np.int64)
        s = src.v.reshape(x.v.shape[:axis] + (i.size,) + x.v.shape[axis + 1:])
        s = np.moveaxis(s, axis, 0)
        for k, at in enumerate(i.reshape(-1)):
            out[at] = MEETINGS[how](out[at], s[k])
        return T(np.moveaxis(out, 0, axis), x.dtype)
    return run


def put_along(how):
    def run(x, index, src, axis):
        out = x.v.copy()
        to = np.stack(along(out, index, axis % out.ndim), -1).reshape(-1, out.ndim)
        for at, s in zip(map(tuple, to), src.v.reshape(-1)):
            out[at] = MEETINGS[how](out[at], s)
        return T(out, x.dtype)
    return run


def tp_index_by(x, index):
    return T(x.v[tuple(i.v.astype(np.int64) for i in index)], x.dtype)


def tp_gather_nd(x, index, batch):
    i = index.v.astype(np.int64)
    if batch:
        return T(np.stack([tp_gather_nd(T(v, x.dtype), T(k), batch - 1).v for v, k in zip(x.v, i)]), x.dtype)
    return T(x.v[tuple(np.moveaxis(i, -1, 0))], x.dtype)


def scatter_nd(how):
    def run(x, index, src):
        out, i = x.v.copy(), index.v.astype(np.int64)
        rows = src.v.reshape((-1,) + src.v.shape[i.ndim - 1:])
        for at, s in zip(map(tuple, i.reshape(-1, i.shape[-1])), rows):
            out[at] = MEETINGS[how](out[at], s)
        return T(out, x.dtype)
    return run


def tp_masked_select(x, mask):
    v, m = np.broadcast_arrays(x.v, mask.v)
    return T(v[m], x.dtype)


def kinds(x, axis, which):
    """NumPy's own returns differ by version: by hand. NaNs differ from each other."""
    rows = x.v.reshape(-1, 1) if axis == 100 else np.moveaxis(x.v, axis, 0)
    flat = rows.reshape(rows.shape[0], int(np.prod(rows.shape[1:])))
    order = np.lexsort(flat.T[::-1]) if flat.size else np.arange(0)
    first, of, count = [], np.zeros(len(order), np.int64), []
    for k, i in enumerate(order):
        if k == 0 or np.any(flat[i] != flat[order[k - 1]]):
            first.append(i)
            count.append(0)
        of[i] = len(first) - 1
        count[-1] += 1
    first, count = np.array(first, np.int64), np.array(count, np.int64)
    if axis == 100:
        return [T(x.v.reshape(-1)[first], x.dtype), T(first), T(of.reshape(x.v.shape)), T(count)][which]
    return [T(np.take(x.v, first, axis), x.dtype), T(first), T(of), T(count)][which]


def tp_searchsorted(a, v, right):
    side = "right" if right else "left"
    if a.v.ndim == 1:
        return T(np.searchsorted(a.v, v.v, side).astype(np.int64))
    out = [np.searchsorted(p, q, side) for p, q in
           zip(a.v.reshape(-1, a.v.shape[-1]), v.v.reshape(-1, v.v.shape[-1]))]
    return T(np.array(out, np.int64).reshape(v.v.shape))


def tp_bincount(x, weights, n):
    out = np.zeros(n, weights.v.dtype if weights else np.int64)
    np.add.at(out, x.v.astype(np.int64), weights.v if weights else 1)
    return T(out, weights.dtype if weights else np.int64)


def tp_histogram(x, n, lo, hi):
    v = x.v.astype(x.dtype)
    v = v[(v >= lo) & (v <= hi)]
    bins = np.minimum(((v - x.dtype.type(lo)) * x.dtype.type(n) / x.dtype.type(hi - lo)).astype(np.int64), n - 1)
    return T(np.bincount(bins, minlength=n).astype(np.int64))


def tp_put_along_add(x, index, src, axis):
    out = x.v.copy()
    np.add.at(out, along(out, index, axis % out.ndim), src.v)
    return T(out, x.dtype)


def tp_one_hot(index, n, dtype):
    i = index.v.astype(np.int64)
    return T((np.where(i < 0, i + n, i)[..., None] == np.arange(n)).astype(dtype), dtype)


# ---- contractions and windows -------------------------------------------------------------------

def tp_matmul(a, b):
    a, b = meet(a, b)
    return T(np.matmul(a.v, b.v), a.dtype)


def filled(w, spatial):
    w = dict(w or window())
    for key, default in (("stride", 1), ("pad_lo", 0), ("pad_hi", 0), ("dilation", 1)):
        w[key] = [v or default for v in w[key] + [0] * (spatial - len(w[key]))]
    w["groups"] = w["groups"][0] if isinstance(w["groups"], list) else w["groups"]
    return w


def taps(x, w, kernel):
    """Of a padded x [n, c, s...]: for each tap, the elements it meets, [n, c, out...]."""
    spatial = len(kernel)
    out = [(x.shape[2 + i] - w["dilation"][i] * (kernel[i] - 1) - 1) // w["stride"][i] + 1
           for i in range(spatial)]
    for tap in np.ndindex(*kernel):
        at = tuple(slice(tap[i] * w["dilation"][i],
                         tap[i] * w["dilation"][i] + w["stride"][i] * (out[i] - 1) + 1,
                         w["stride"][i]) for i in range(spatial))
        yield tap, at


def padded(v, w, value=0):
    spatial = v.ndim - 2
    return np.pad(v, [(0, 0), (0, 0)] + [(w["pad_lo"][i], w["pad_hi"][i]) for i in range(spatial)],
                  constant_values=value)


def tp_conv(x, f, w):
    w = filled(w, x.v.ndim - 2)
    v, groups, out = padded(x.v, w), w["groups"], None
    each, c = f.v.shape[0] // groups, f.v.shape[1]
    for tap, at in taps(v, w, f.v.shape[2:]):
        k = f.v[(slice(None), slice(None)) + tap]
        got = [np.einsum("nc...,oc->no...", v[(slice(None), slice(g * c, g * c + c)) + at],
                         k[g * each:(g + 1) * each]) for g in range(groups)]
        got = np.concatenate(got, axis=1)
        out = got if out is None else out + got
    return T(out, x.dtype)


def tp_conv_dx(dy, f, n_sizes, sizes, w):
    w = filled(w, len(sizes))
    groups, c = w["groups"], f.v.shape[1]
    each = f.v.shape[0] // groups
    full = [sizes[i] + w["pad_lo"][i] + w["pad_hi"][i] for i in range(len(sizes))]
    out = np.zeros([dy.v.shape[0], groups * c] + full, dy.v.dtype)
    for tap, at in taps(out, w, f.v.shape[2:]):
        k = f.v[(slice(None), slice(None)) + tap]
        for g in range(groups):
            out[(slice(None), slice(g * c, g * c + c)) + at] += np.einsum(
                "no...,oc->nc...", dy.v[:, g * each:(g + 1) * each], k[g * each:(g + 1) * each])
    inner = tuple(slice(w["pad_lo"][i], w["pad_lo"][i] + sizes[i]) for i in range(len(sizes)))
    return T(out[(slice(None), slice(None)) + inner], dy.dtype)


def tp_conv_dw(x, dy, n_sizes, sizes, w):
    w = filled(w, len(sizes))
    groups, v = w["groups"], padded(x.v, w)
    c, each = v.shape[1] // groups, dy.v.shape[1] // groups
    out = np.zeros([dy.v.shape[1], c] + sizes, v.dtype)
    for tap, at in taps(v, w, sizes):
        for g in range(groups):
            out[(slice(g * each, (g + 1) * each), slice(None)) + tap] = np.einsum(
                "nop,ncp->oc",
                dy.v[:, g * each:(g + 1) * each].reshape(v.shape[0], each, -1),
                v[(slice(None), slice(g * c, g * c + c)) + at].reshape(v.shape[0], c, -1))
    return T(out, x.dtype)


def pool(greatest):
    def run(x, w):
        w = dict(w)
        kernel = w["kernel"]
        w["stride"] = w["stride"] or kernel
        w = filled(w, len(kernel))
        v = padded(x.v, w, -np.inf if greatest else 0)
        inside = padded(np.ones(x.v.shape, x.v.dtype), w)
        out = n = None
        for tap, at in taps(v, w, kernel):
            at = (slice(None), slice(None)) + at
            if out is None:
                out, n = v[at].copy(), inside[at].copy()
            else:
                out = np.maximum(out, v[at]) if greatest else out + v[at]
                n = n + inside[at]
        if not greatest:
            out = out / (np.prod(kernel) if w["count_pad"] else n)
        return T(out, x.dtype)
    return run


def max_pool_index(x, w):
    w = dict(w)
    w["stride"] = w["stride"] or w["kernel"]
    w = filled(w, len(w["kernel"]))
    v, places = padded(x.v, w, -np.inf), np.arange(np.prod(x.v.shape[2:])).reshape(x.v.shape[2:])
    places = padded(np.broadcast_to(places, x.v.shape), w, np.iinfo(np.int64).max)
    best = at_best = None
    for tap, at in taps(v, w, w["kernel"]):
        at = (slice(None), slice(None)) + at
        if best is None:
            best, at_best = v[at].copy(), places[at].copy()
            continue
        new, old = np.isnan(v[at]), np.isnan(best)
        same = (new & old) | (v[at] == best)
        take = (v[at] > best) | (new & ~old) | (same & (places[at] < at_best))
        best, at_best = np.where(take, v[at], best), np.where(take, places[at], at_best)
    return T(at_best, np.int64)


# ---- composites ---------------------------------------------------------------------------------

def softmax(v, axis):
    e = np.exp(v - np.max(v, axis=axis, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(v, axis):
    below = v - np.max(v, axis=axis, keepdims=True, initial=-np.inf)
    return below - np.log(np.sum(np.exp(below), axis=axis, keepdims=True))


def tp_cross_entropy(x, labels):
    logs = log_softmax(x.v, 1)
    return T(-np.mean(logs[np.arange(x.v.shape[0]), labels.v]), x.dtype)


def reduced(v, how):
    return v if how == "none" else np.sum(v) if how == "sum" else np.mean(v)


def options(*parts):
    return dict(parts)


def option(name):
    return lambda v: (name, v)


def tp_nll(logs, labels, o, what=lambda v, axis: v):
    o = o or {}
    axis = o.get("axis", min(1, logs.v.ndim - 1))
    x, part = np.moveaxis(what(logs.v, axis), axis, -1), np.longdouble(o.get("smoothing", 0))
    n, how = x.shape[-1], o.get("reduction", "mean")
    w = o["weights"].v if "weights" in o else np.ones(n, np.longdouble)
    if is_float(labels):
        p = np.moveaxis(labels.v, axis, -1) * (1 - part) + part / n
        return T(reduced(-np.sum(x * p * w, -1), how), logs.dtype)
    counts = labels.v != o.get("ignored", 1 << 60)
    label = np.where(counts, labels.v, 0).astype(np.int64)
    each = np.where(counts, w[label], 0)
    loss = -np.take_along_axis(x, label[..., None], -1)[..., 0] * each * (1 - part)
    loss = loss - np.where(counts, np.sum(x * w, -1), 0) * part / n
    return T(np.sum(loss) / np.sum(each) if how == "mean" else reduced(loss, how), logs.dtype)


def tp_cross_entropy_with(x, labels, o):
    return tp_nll(x, labels, o, log_softmax)


def elements(f):
    """A loss of two operands, further arguments and a reduction."""
    return lambda a, b, *more: T(reduced(f(a.v, b.v, *[m.v if isinstance(m, T) else m for m in more[:-1]]), more[-1]), a.dtype)


def bce(p, t):
    return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log(1 - p), -100))


def bce_with_logits(x, t, weight, pos_weight):
    softplus = np.logaddexp(0, -x)
    grown = 1 if pos_weight is None else 1 + (pos_weight - 1) * t
    return ((1 - t) * x + grown * softplus) * (1 if weight is None else weight)


def kl_div(log_q, p):
    return np.where(p == 0, 0, p * (np.log(np.where(p == 0, 1, p)) - log_q))


def norm(v, p, axis):
    if p == np.inf:
        return np.max(np.abs(v), axis, keepdims=True)
    return np.sum(np.abs(v) ** np.longdouble(p), axis, keepdims=True) ** (1 / np.longdouble(p))


def unit(v, p, axis, eps):
    n = np.maximum(norm(v, p, axis), eps)
    return v / np.where(n == 0, 1, n)


def cosine(a, b, axis, eps):
    return np.sum(unit(a, 2, axis, eps) * unit(b, 2, axis, eps), axis)


def tp_cosine_loss(a, b, target, margin, how):
    c = cosine(a.v, b.v, -1, 1e-8)
    return T(reduced(np.where(target.v > 0, 1 - c, np.maximum(c - margin, 0)), how), a.dtype)


def tp_triplet(a, p, n, margin, how):
    def far(b):
        return norm(a.v - b.v, 2, -1)[..., 0]
    return T(reduced(np.maximum(far(p) - far(n) + margin, 0), how), a.dtype)


def readings(x, labels, blank):
    """The probability of all readings, by the states that lead to each prefix of the labels."""
    p = {(0, True): np.longdouble(1)}  # so many labels are read, the last turn was a blank
    for turn in np.exp(x):
        now = {}

        def add(k, v):
            now[k] = now.get(k, 0) + v
        for (k, gap), v in p.items():
            add((k, True), v * turn[blank])
            if k and not gap:
                add((k, False), v * turn[labels[k - 1]])
            if k < len(labels) and (gap or labels[k - 1] != labels[k]):
                add((k + 1, False), v * turn[labels[k]])
        p = now
    return sum(v for (k, _), v in p.items() if k == len(labels))


def tp_ctc_loss(x, targets, times, lengths, blank, how):
    loss = np.array([-np.log(np.longdouble(readings(x.v[:times.v[i], i], targets.v[i, :lengths.v[i]], blank)))
                     for i in range(x.v.shape[1])])
    return T(reduced(loss / np.maximum(lengths.v, 1) if how == "mean" else loss, how), x.dtype)


def heads(q, k):
    return np.repeat(k, q.shape[1] // k.shape[1], 1)


def attended(q, k, v, o):
    """The keys and values with their past, and what is added to the scores."""
    o, past, bias = o or {}, 0, np.longdouble(0)
    if "past_key" in o:
        past = o["past_key"].v.shape[2]
        k, v = np.concatenate([o["past_key"].v, k], 2), np.concatenate([o["past_value"].v, v], 2)
    s, t = q.shape[2], k.shape[2]
    row, column = np.arange(s)[:, None] + past, np.arange(t)
    seen = np.ones((1, 1, s, t), bool)
    if "lengths" in o:
        ends = o["lengths"].v.reshape(-1, 1, 1, 1)
        row, seen = row + ends - s, column < ends
    if o.get("causal"):
        seen = seen & (column <= row)
    seen = seen & (column > row - o.get("before", 1 << 30)) & (column < row + o.get("after", 1 << 30))
    if "mask" in o:
        mask = o["mask"].v
        seen, bias = (seen & mask, bias) if mask.dtype == bool else (seen, mask)
    return heads(q, k), heads(q, v), np.where(seen, bias, -np.inf)


def tp_attention(q, k, v, o, present):
    o = o or {}
    keys, values, bias = attended(q.v, k.v, v.v, o)
    score = np.einsum("nhsd,nhtd->nhst", q.v, keys) * o.get("scale", 1 / np.sqrt(np.longdouble(q.v.shape[3])))
    if "softcap" in o:
        score = np.tanh(score / o["softcap"]) * o["softcap"]
    score = score + bias
    top = np.max(score, -1, keepdims=True)
    e = np.exp(score - np.where(top == -np.inf, 0, top))
    total = np.sum(e, -1, keepdims=True)
    return T(np.einsum("nhst,nhte->nhse", e / np.where(total == 0, 1, total), values), q.dtype)


def presents(q, k, v, o):
    return T(np.concatenate(attended(k.v, k.v, v.v, o)[:2], 3), k.dtype)


def tp_rotary(x, cos, sin, neighbours):
    half = cos.v.shape[-1]
    a, b = ([x.v[..., i:2 * half:2] for i in (0, 1)] if neighbours else
            [x.v[..., i:i + half] for i in (0, half)])
    y = [cos.v * a - sin.v * b, sin.v * a + cos.v * b]
    y = np.stack(y, -1).reshape(x.v.shape[:-1] + (-1,)) if neighbours else np.concatenate(y, -1)
    return T(np.concatenate([y, x.v[..., 2 * half:]], -1), x.dtype)


def hardmax(v, axis):
    places = np.arange(v.shape[axis]).reshape([-1 if i == axis % v.ndim else 1 for i in range(v.ndim)])
    return (places == np.argmax(v, axis, keepdims=True)).astype(v.dtype)


def tp_clip(x, lo, hi):
    if is_float(x):
        return T(np.minimum(np.maximum(x.v, lo), hi), x.dtype)
    return T(np.clip(x.v, x.dtype.type(lo), x.dtype.type(hi)), x.dtype)


def each(f):
    """Of single doubles, by Python's own."""
    return lambda v: np.vectorize(lambda x: np.longdouble(f(float(x))), otypes=[np.longdouble])(v) if v.size else v


def lgamma(x):
    if np.isinf(x) or (x <= 0 and x == np.floor(x)):
        return np.inf
    return math.lgamma(x) if x < 1e305 else np.inf if x > 2.6e305 else x * (math.log(x) - 1)


def erfinv(x):
    """A quantile of the normal distribution, and a step of Newton's."""
    if not abs(x) < 1:
        return np.sign(x) * np.inf if abs(x) == 1 else np.nan
    if abs(x) < 1e-8:
        return np.longdouble(x) * np.sqrt(np.pi) / 2
    size = abs(x)
    y = -statistics.NormalDist().inv_cdf((1 - size) / 2) / math.sqrt(2)
    off = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
    return np.sign(x) * (np.longdouble(y) - off * math.sqrt(math.pi) / 2 * math.exp(y * y))


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


def normed(x, axes, mean, var, scale, shift, eps):
    def along_axis(t):
        shape = [1] * x.v.ndim
        shape[axes] = -1
        return t.v.reshape(shape)
    y = (x.v - mean) / np.sqrt(var + eps)
    y = y * along_axis(scale) if scale else y
    return T(y + along_axis(shift) if shift else y, x.dtype)


def tp_layer_norm(x, scale, shift, eps):
    return normed(x, x.v.ndim - 1, np.mean(x.v, -1, keepdims=True), np.var(x.v, -1, keepdims=True),
                  scale, shift, eps)


def tp_rms_norm(x, scale, eps):
    return normed(x, x.v.ndim - 1, 0, np.mean(x.v * x.v, -1, keepdims=True), scale, None, eps)


def tp_group_norm(x, groups, scale, shift, eps):
    parts = x.v.reshape([x.v.shape[0], groups, -1])
    away = parts - np.mean(parts, 2, keepdims=True)
    y = away / np.sqrt(np.mean(away * away, 2, keepdims=True) + eps)
    return normed(T(y.reshape(x.v.shape), x.dtype), 1, 0, 1, scale, shift, 0)


def tp_instance_norm(x, scale, shift, eps):
    return tp_group_norm(x, x.v.shape[1], scale, shift, eps)


def tp_local_response_norm(x, size, alpha, beta, bias):
    before = (size - 1) // 2
    square = np.pad(x.v * x.v, [(before, size - 1 - before) if i == 1 else (0, 0) for i in range(x.v.ndim)])
    total = sum(square[:, i:i + x.v.shape[1]] for i in range(size))
    return T(x.v / (bias + alpha / np.longdouble(size) * total) ** beta, x.dtype)


def tp_batch_norm(x, scale, shift, mean, var, eps):
    shape = [1, -1] + [1] * (x.v.ndim - 2)
    return normed(x, 1, mean.v.reshape(shape), var.v.reshape(shape), scale, shift, eps)


def tp_batch_norm_train(x, scale, shift, running_mean, running_var, momentum, eps):
    axes = tuple(i for i in range(x.v.ndim) if i != 1)
    return normed(x, 1, np.mean(x.v, axes, keepdims=True), np.var(x.v, axes, keepdims=True), scale,
                  shift, eps)


# ---- linear algebra, in f64 ------------------------------------------------------------------------

def turned(v):
    return np.swapaxes(v, -1, -2)


def on_f64(f):
    def run(x, *args):
        y = f(np.asarray(x.v, np.float64), *args)
        return T(np.asarray(y, np.longdouble), x.dtype)
    return run


def system(solve):
    def run(a, b, *how):
        a, b = meet(a, b)
        va, vb = np.asarray(a.v, np.float64), np.asarray(b.v, np.float64)
        columns = vb[:, None] if vb.ndim == 1 else vb
        lead = max(va.shape[:-2], columns.shape[:-2], key=len)  # a stack of vectors is no matrix
        y = solve(va, np.broadcast_to(columns, lead + columns.shape[-2:]), *how)
        return T(np.asarray(y[..., 0] if vb.ndim == 1 else y, np.longdouble), a.dtype)
    return run


def triangular(a, b, upper, transposed, unit):
    a = np.triu(a, unit) if upper else np.tril(a, -int(unit))
    a = a + np.eye(a.shape[-1]) if unit else a
    return np.linalg.solve(turned(a) if transposed else a, b)


def cholesky(a, upper):
    return turned(np.linalg.cholesky(a)) if upper else np.linalg.cholesky(a)


def lu_factors(a):
    a, n = a.copy(), a.shape[-1]
    for m in a.reshape(-1, n, n):
        rows = np.arange(n)
        for j in range(n):
            at = j + np.argmax(np.abs(m[j:, j]))
            m[[j, at]], rows[[j, at]] = m[[at, j]], rows[[at, j]]
            if m[j, j] != 0:
                m[j + 1:, j] /= m[j, j]
                m[j + 1:, j + 1:] -= np.outer(m[j + 1:, j], m[j, j + 1:])
        m += rows[:, None]
    return a


def squares(parts):
    return np.concatenate([np.ravel(p * p) for p in parts])


def least_squares(a, b, eps):
    return np.linalg.pinv(a, rcond=eps) @ b


def complex_fft(f):
    def run(x, axis):
        v = np.moveaxis(np.asarray(x.v, np.float64), axis, -2)
        y = f(v[..., 0] + 1j * v[..., 1]) if v.size else v[..., 0] + 0j
        return T(np.moveaxis(np.stack([y.real, y.imag], -1), -2, axis), x.dtype)
    return run


def tp_rfft(x, axis):
    y = np.fft.rfft(np.asarray(x.v, np.float64), axis=axis)
    return T(np.stack([y.real, y.imag], -1), x.dtype)


def tp_irfft(x, axis, n):
    v = np.asarray(x.v, np.float64)
    return T(np.fft.irfft(v[..., 0] + 1j * v[..., 1], n, axis), x.dtype)


def tp_linear(x, w, b):
    y = tp_matmul(x, w)
    return T(y.v + b.v, y.dtype) if b else y


# ---- composites of arrays -----------------------------------------------------------------------

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


# ---- recurrent layers ---------------------------------------------------------------------------

def recurrent_options(*parts):
    o = {"batch_first": False, "reverse": False, "both": False, "reset_before": False,
         "couple": False, "clip": 0, "lengths": None, "relu_all": False}
    o.update(dict(parts))
    return o


def weights(*parts):
    w = {"w": None, "r": None, "wb": None, "rb": None, "peephole": None}
    w.update(dict(parts))
    return w


def step(gates, xw, h, c, w, o):
    """One step from what the input makes of the gates, [n, gates * m]; the state after it."""
    m = w["r"].v.shape[0]
    none = np.zeros(gates * m, np.longdouble)
    rb, r = w["rb"].v if w["rb"] else none, w["r"].v

    def act(k, v):
        v = np.clip(v, -o["clip"], o["clip"]) if o["clip"] else v
        return np.maximum(v, 0) if o["relu_all"] else sigmoid(v) if k == 0 else np.tanh(v)

    def part(v, k):
        return v[..., k * m:(k + 1) * m]
    if gates == 1:
        return act(1, xw + h @ r + rb), c
    if gates == 3:
        hr = h @ r + rb
        z, reset = act(0, part(xw + hr, 0)), act(0, part(xw + hr, 1))
        of_h = (reset * h) @ part(r, 2) + part(rb, 2) if o["reset_before"] else reset * part(hr, 2)
        return z * h + (1 - z) * act(1, part(xw, 2) + of_h), c
    p, g = w["peephole"].v if w["peephole"] else np.zeros(3 * m, np.longdouble), xw + h @ r + rb
    i = act(0, part(g, 0) + part(p, 0) * c)
    f = 1 - i if o["couple"] else act(0, part(g, 2) + part(p, 2) * c)
    c = f * c + i * act(1, part(g, 3))
    return act(0, part(g, 1) + part(p, 1) * c) * act(2, c), c


def inputs(v, w):
    return v @ w["w"].v + (w["wb"].v if w["wb"] else 0)


def cell(gates, with_c=False):
    def run(x, h, *rest):
        c, (w, o) = (rest[0], rest[1:]) if gates == 4 else (None, rest)
        zeros = np.zeros((x.v.shape[0], w["r"].v.shape[0]), np.longdouble)
        h, c = step(gates, inputs(x.v, w), h.v if h else zeros, c.v if c else zeros, w,
                    o or recurrent_options())
        return T(np.concatenate([h.reshape(-1), c.reshape(-1)]) if with_c else h, x.dtype)
    return run


def direction(gates, v, back, h, c, w, o):
    """Over v [t, n, k]; all h, and the last states."""
    y = np.zeros(v.shape[:2] + h.shape[1:], np.longdouble)
    for t in (range(v.shape[0])[::-1] if back else range(v.shape[0])):
        goes_on = (t < o["lengths"].v.astype(np.int64))[:, None] if o["lengths"] else True
        h_now, c_now = step(gates, inputs(v[t], w), h, c, w, o)
        y[t] = np.where(goes_on, h_now, 0)
        h, c = np.where(goes_on, h_now, h), np.where(goes_on, c_now, c)
    return y, h, c


def recurrent(gates):
    """y and the last states, one after the other."""
    def run(x, w, o, h, c=None):
        o = o or recurrent_options()
        w = w if isinstance(w, list) else [w]
        v = np.swapaxes(x.v, 0, 1) if o["batch_first"] else x.v
        zeros = np.zeros((len(w), v.shape[1], w[0]["r"].v.shape[0]), np.longdouble)
        first = [t.v.reshape(zeros.shape) if t else zeros for t in (h, c)]
        got = [direction(gates, v, d == 1 or o["reverse"], first[0][d], first[1][d], w[d], o)
               for d in range(len(w))]
        y = np.concatenate([g[0] for g in got], axis=2)
        y = np.swapaxes(y, 0, 1) if o["batch_first"] else y
        ends = [np.stack([g[k] for g in got]) for k in (1, 2)]
        return T(np.concatenate([t.reshape(-1) for t in [y] + ends[:2 if gates == 4 else 1]]), x.dtype)
    return run


# ---- windows and images -------------------------------------------------------------------------

def adaptive(of):
    def run(x, n, sizes):
        v = x.v
        for i in range(n):
            s, o = v.shape[i + 2], sizes[i]
            parts = [of(np.take(v, range(k * s // o, -(-(k + 1) * s // o)), axis=i + 2), axis=i + 2,
                        keepdims=True) for k in range(o)]
            v = np.concatenate(parts, axis=i + 2)
        return T(v, x.dtype)
    return run


def whole_plane(of):
    return lambda x: T(of(x.v, axis=tuple(range(2, x.v.ndim)), keepdims=True), x.dtype)


def tp_lp_pool(x, p, w):
    power = pool(False)(T(np.abs(x.v) ** p, x.dtype), dict(w, count_pad=True)).v
    return T((power * np.prod(w["kernel"])) ** (np.longdouble(1) / p), x.dtype)


def tp_max_unpool(x, index, n, sizes):
    y = np.zeros(x.v.shape[:2] + (np.prod(sizes),), np.longdouble)
    for at in np.ndindex(*x.v.shape):
        y[at[:2] + (int(index.v[at]),)] = x.v[at]
    return T(y.reshape(x.v.shape[:2] + tuple(sizes)), x.dtype)


def columns(v, w):
    w = filled(w, v.ndim - 2)
    parts = [v[(slice(None), slice(None)) + at] for _, at in taps(v, w, w["kernel"])]
    out = np.stack(parts, axis=2)
    return out.reshape(v.shape[0], -1, int(np.prod(out.shape[3:])))


def tp_unfold(x, w):
    return T(columns(padded(x.v, filled(w, x.v.ndim - 2)), w), x.dtype)


def tp_fold(x, n, sizes, w):
    """Each column goes where unfold finds the number of its place."""
    w = filled(w, n)
    full = [sizes[i] + w["pad_lo"][i] + w["pad_hi"][i] for i in range(n)]
    c = x.v.shape[1] // int(np.prod(w["kernel"]))
    y = np.zeros((x.v.shape[0], c * int(np.prod(full))), np.longdouble)
    place = columns(np.arange(y.shape[1]).reshape([1, c] + full), w)[0]
    for k in range(y.shape[0]):
        np.add.at(y[k], place, x.v[k])
    inner = tuple(slice(w["pad_lo"][i], w["pad_lo"][i] + sizes[i]) for i in range(n))
    return T(y.reshape([-1, c] + full)[(slice(None), slice(None)) + inner], x.dtype)


def tp_conv_transpose(x, f, w, more):
    n = x.v.ndim - 2
    w = filled(w, n)
    sizes = [(x.v.shape[i + 2] - 1) * w["stride"][i] + w["dilation"][i] * (f.v.shape[i + 2] - 1) + 1
             - w["pad_lo"][i] - w["pad_hi"][i] for i in range(n)]
    w["pad_hi"] = [w["pad_hi"][i] - (more or [0] * n)[i] for i in range(n)]
    behind = [max(0, -w["pad_hi"][i]) for i in range(n)]
    w["pad_hi"] = [max(0, v) for v in w["pad_hi"]]
    sizes = [sizes[i] + (more or [0] * n)[i] for i in range(n)]
    full = [sizes[i] + w["pad_lo"][i] for i in range(n)]
    full = [max(full[i], (x.v.shape[i + 2] - 1) * w["stride"][i]
                + w["dilation"][i] * (f.v.shape[i + 2] - 1) + 1) for i in range(n)]
    y = np.zeros([x.v.shape[0], w["groups"] * f.v.shape[1]] + full, np.longdouble)
    each, c = f.v.shape[0] // w["groups"], f.v.shape[1]
    for at in np.ndindex(*x.v.shape[2:]):
        for tap in np.ndindex(*f.v.shape[2:]):
            to = tuple(at[i] * w["stride"][i] + tap[i] * w["dilation"][i] for i in range(n))
            for g in range(w["groups"]):
                y[(slice(None), slice(g * c, g * c + c)) + to] += (
                    x.v[(slice(None), slice(g * each, g * each + each)) + at]
                    @ f.v[(slice(g * each, g * each + each), slice(None)) + tap])
    inner = tuple(slice(w["pad_lo"][i], w["pad_lo"][i] + sizes[i]) for i in range(n))
    return T(y[(slice(None), slice(None)) + inner], x.dtype)


def shuffle(inner, back):
    def run(v, r):
        n, c, h, w = v.shape
        if back:
            v = v.reshape(n, c, h // r, r, w // r, r)
            v = v.transpose((0, 1, 3, 5, 2, 4) if inner else (0, 3, 5, 1, 2, 4))
            return v.reshape(n, c * r * r, h // r, w // r)
        v = v.reshape((n, -1, r, r, h, w) if inner else (n, r, r, -1, h, w))
        v = v.transpose((0, 1, 4, 2, 5, 3) if inner else (0, 3, 4, 1, 5, 2))
        return v.reshape(n, -1, h * r, w * r)
    return keeping(run)


def resize_options(mode, *parts):
    o = {"mode": mode, "where": "half_pixel", "rounding": "half_down", "antialias": False,
         "exclude": False, "a": -0.75}
    o.update(dict(parts))
    return o


def cubic(d, a):
    d = abs(d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return near if d <= 1 else far if d < 2 else 0


def neighbours(i, n_in, n_out, o):
    """What places of the axis weigh for result i."""
    s = n_out / n_in
    at = {"half_pixel": (i + 0.5) / s - 0.5, "asymmetric": i / s,
          "align_corners": i * (n_in - 1) / (n_out - 1) if n_out > 1 else 0}[o["where"]]
    last = n_in - 1
    if o["mode"] == "nearest":
        k = {"half_down": np.ceil(at - 0.5), "half_up": np.floor(at + 0.5), "down": np.floor(at),
             "up": np.ceil(at)}[o["rounding"]]
        return {int(min(max(k, 0), last)): 1.0}
    narrow = min(s, 1) if o["antialias"] else 1
    reach = int(np.ceil((2 if o["mode"] == "cubic" else 1) / narrow))
    found, total = {}, 0
    for k in range(int(np.floor(at)) - reach, int(np.floor(at)) + reach + 2):
        d = abs(k - at) * narrow
        weight = cubic(d, o["a"]) if o["mode"] == "cubic" else max(1 - d, 0)
        if o["exclude"] and not 0 <= k <= last:
            continue
        total += weight
        k = min(max(k, 0), last)
        found[k] = found.get(k, 0) + weight
    return {k: v / total for k, v in found.items()} if o["exclude"] or narrow < 1 else found


def tp_resize(x, n, sizes, o):
    o, v = o or resize_options("nearest"), x.v
    for i in range(n):
        axis = v.ndim - n + i
        rows = [sum(np.take(v, [k], axis=axis) * (w if is_float(x) else int(w))
                    for k, w in neighbours(j, v.shape[axis], sizes[i], o).items())
                for j in range(sizes[i])]
        v = np.concatenate(rows, axis=axis)
    return T(v, x.dtype)


def tp_upsample(x, times, mode):
    return tp_resize(x, x.v.ndim - 2, [times * s for s in x.v.shape[2:]], resize_options(mode))


def reflected(i, lo, hi):
    while not lo <= i <= hi and hi > lo:
        i = 2 * lo - i if i < lo else 2 * hi - i
    return i if hi > lo else lo


def tp_grid_sample(x, grid, mode, padding, corners):
    n = x.v.ndim - 2
    y = np.zeros(x.v.shape[:2] + grid.v.shape[1:-1], np.longdouble)
    sizes = x.v.shape[2:]

    def inside(p, size, whole):
        if padding == "reflect":
            p = reflected(p, 0, size - 1) if corners else reflected(p, -0.5, size - 0.5)
        return min(max(p, 0), size - 1) if padding != "zeros" or whole else p

    def axis_of(b, at, i):
        """Places along axis i and what they weigh; None is outside."""
        size = sizes[i]
        g = (grid.v[(b,) + at + (n - 1 - i,)] + 1) / 2
        g = g * (size - 1) if corners else g * size - np.longdouble(0.5)
        g = inside(g, size, False) if mode != "cubic" else g
        k = int(np.floor(g))
        if mode == "nearest":
            found = [(int(np.rint(g)), 1)]
        elif mode == "linear":
            found = [(k, k + 1 - g), (k + 1, g - k)]
        else:
            found = [(k + j, cubic(k + j - g, -0.75)) for j in (-1, 0, 1, 2)]
        return [(int(inside(p, size, True)), w) for p, w in found
                if padding != "zeros" or 0 <= p < size]

    for b in range(x.v.shape[0]):
        for at in np.ndindex(*grid.v.shape[1:-1]):
            axes = [axis_of(b, at, i) for i in range(n)]
            for pick in np.ndindex(*[len(a) for a in axes]):
                place = tuple(axes[i][pick[i]][0] for i in range(n))
                weight = np.prod([axes[i][pick[i]][1] for i in range(n)])
                y[(b, slice(None)) + at] += weight * x.v[(b, slice(None)) + place]
    return T(y, x.dtype)


def tp_affine_grid(theta, n, sizes, corners):
    def axis(size):
        i = np.arange(size, dtype=np.longdouble)
        return 2 * i / (size - 1) - 1 if corners else (2 * i + 1) / size - 1
    at = np.stack(np.meshgrid(*[axis(s) for s in sizes], indexing="ij")[::-1]
                  + [np.ones(sizes, np.longdouble)], axis=-1)
    return T(np.einsum("nij,...j->n...i", theta.v, at), theta.dtype)


def pad_with(v, rank, lo, hi, padding):
    mode = {"zeros": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}[padding]
    return np.pad(v, list(zip(lo, hi)), mode=mode)


NAMES = dict(DTYPES)
NAMES.update({
    "true": True, "false": False, "NULL": None, "INFINITY": np.inf, "TP_END": END, "TP_ALL": [],
    "TP_SCALAR": [], "AXES": as_list, "TP_DIMS": as_list, "LIST": as_list, "XS": as_list,
    "WINDOW": window, "KERNEL": part("kernel"), "STRIDE": part("stride"),
    "PAD_LO": part("pad_lo"), "PAD_HI": part("pad_hi"), "DILATION": part("dilation"),
    "LOSS": options, "ATTENTION": options, "CAUSAL": ("causal", True), "TP_MEAN": "mean",
    "TP_SUM": "sum", "TP_NONE": "none", "REDUCTION": option("reduction"), "AXIS": option("axis"),
    "WEIGHTS": option("weights"), "IGNORED": option("ignored"), "SMOOTHING": option("smoothing"),
    "SCALE": option("scale"), "SOFTCAP": option("softcap"), "BEFORE": option("before"),
    "AFTER": option("after"), "MASK": option("mask"), "LENGTHS": option("lengths"),
    "PAST_KEY": option("past_key"), "PAST_VALUE": option("past_value"),
    "GROUPS": part("groups"), "COUNT_PAD": ("count_pad", True),
    "tp_neg": unary(lambda v: -v), "tp_abs": unary(np.abs), "tp_sign": unary(sign),
    "tp_relu": unary(lambda v: np.where(v <= 0, np.zeros_like(v), v)),
    "tp_exp": unary(np.exp), "tp_log": unary(np.log), "tp_sqrt": unary(np.sqrt),
    "tp_expm1": unary(np.expm1), "tp_log1p": unary(np.log1p),
    "tp_rsqrt": unary(lambda v: 1 / np.sqrt(v)), "tp_sin": unary(np.sin), "tp_cos": unary(np.cos),
    "tp_tanh": unary(np.tanh), "tp_sigmoid": unary(sigmoid), "tp_erf": unary(erf),
    "tp_floor": unary(np.floor), "tp_ceil": unary(np.ceil), "tp_round": unary(np.rint),
    "tp_not": unary(np.invert), "tp_detach": unary(lambda v: v), "tp_cast": cast,
    "tp_add": binary(np.add), "tp_sub": binary(np.subtract), "tp_mul": binary(np.multiply),
    "tp_div": binary(either(np.divide, int_div)), "tp_min": binary(np.minimum),
    "tp_max": binary(np.maximum), "tp_pow": binary(either(float_pow, int_pow)),
    "tp_mod": binary(either(float_mod, lambda a, b: a % b if b else 0)),
    "tp_eq": compare(np.equal), "tp_ne": compare(np.not_equal), "tp_lt": compare(np.less),
    "tp_le": compare(np.less_equal), "tp_gt": compare(np.greater),
    "tp_ge": compare(np.greater_equal), "tp_and": binary(np.bitwise_and),
    "tp_or": binary(np.bitwise_or), "tp_xor": binary(np.bitwise_xor), "tp_where": where,
    "tp_sum": reduction(np.sum), "tp_prod": reduction(np.prod), "tp_mean": tp_mean,
    "tp_reduce_max": reduction(np.max), "tp_reduce_min": reduction(np.min),
    "tp_argmax": arg(True), "tp_argmin": arg(False), "tp_cumsum": tp_cumsum,
    "tp_argtopk": tp_argtopk, "tp_argsort": tp_argsort, "tp_sort": tp_sort,
    "tp_recur": tp_recur, "tp_extent": tp_extent,
    "tp_reshape": keeping(np.reshape),
    "tp_flatten": keeping(lambda v, a: v.reshape(v.shape[:a % (v.ndim or 1)] + (-1,))),
    "tp_transpose": keeping(lambda v, p: np.transpose(v, p or None)),
    "tp_swap": keeping(np.swapaxes), "tp_unsqueeze": keeping(np.expand_dims),
    "tp_squeeze": keeping(np.squeeze), "tp_broadcast": keeping(np.broadcast_to),
    "tp_dim": lambda x, a: x.v.shape[a], "tp_slice": keeping(slice_of),
    "tp_select": keeping(lambda v, a, i: np.take(v, i, axis=a)),
    "tp_flip": keeping(lambda v, a: np.flip(v, tuple(a) or None)), "tp_pad": keeping(pad),
    "tp_concat": joined(np.concatenate), "tp_stack": joined(np.stack), "parts": parts,
    "tp_contiguous": unary(lambda v: v), "copied": unary(lambda v: v),
    "tp_gather": tp_gather, "tp_take_along": tp_take_along, "tp_scatter": scatter("set"),
    "tp_scatter_add": scatter("add"), "tp_scatter_mul": scatter("mul"), "tp_scatter_max": scatter("max"),
    "tp_scatter_min": scatter("min"), "tp_put_along": put_along("set"), "tp_put_along_mul": put_along("mul"),
    "tp_put_along_max": put_along("max"), "tp_put_along_min": put_along("min"), "tp_index_by": tp_index_by,
    "tp_gather_nd": tp_gather_nd, "tp_scatter_nd": scatter_nd("set"), "tp_scatter_nd_add": scatter_nd("add"),
    "tp_scatter_nd_mul": scatter_nd("mul"), "tp_scatter_nd_max": scatter_nd("max"),
    "tp_scatter_nd_min": scatter_nd("min"), "tp_nonzero": lambda x: T(np.argwhere(x.v).astype(np.int64)),
    "tp_masked_select": tp_masked_select, "kinds": kinds, "ALL_AXES": 100,
    "tp_unique": lambda x, *_: kinds(x, 100, 0), "tp_unique_along": lambda x, axis, *_: kinds(x, axis, 0),
    "tp_searchsorted": tp_searchsorted,
    "searched": lambda x, v, right: tp_searchsorted(T(np.sort(x.v, -1), x.dtype), v, right), "tp_bincount": tp_bincount, "tp_histogram": tp_histogram,
    "tp_isin": lambda x, of: T(np.isin(x.v, of.v)),
    "tp_index": lambda x, text: T(eval("v[%s]" % text, {"v": x.v, "newaxis": None}), x.dtype),
    "tp_put_along_add": tp_put_along_add,
    "tp_one_hot": tp_one_hot, "tp_matmul": tp_matmul, "tp_conv": tp_conv,
    "tp_conv_dx": tp_conv_dx, "tp_conv_dw": tp_conv_dw, "tp_max_pool": pool(True),
    "tp_max_pool_index": max_pool_index, "tp_avg_pool": pool(False), "tp_square": unary(lambda v: v * v),
    "tp_gelu": unary(lambda v: v / 2 * (1 + erf(v / np.sqrt(np.longdouble(2))))),
    "tp_silu": unary(lambda v: v * sigmoid(v)),
    "tp_exp2": unary(np.exp2), "tp_log2": unary(np.log2), "tp_log10": unary(np.log10),
    "tp_reciprocal": unary(lambda v: 1 / v), "tp_tan": unary(np.tan), "tp_asin": unary(np.arcsin),
    "tp_acos": unary(np.arccos), "tp_atan": unary(np.arctan), "tp_atan2": binary(np.arctan2),
    "tp_sinh": unary(np.sinh), "tp_cosh": unary(np.cosh), "tp_asinh": unary(np.arcsinh),
    "tp_acosh": unary(np.arccosh), "tp_atanh": unary(np.arctanh), "tp_erfc": unary(each(math.erfc)),
    "tp_erfinv": unary(each(erfinv)), "tp_lgamma": unary(each(lgamma)),
    "tp_isnan": lambda x: T(np.isnan(x.v)), "tp_isinf": lambda x: T(np.isinf(x.v)),
    "tp_isfinite": lambda x: T(np.isfinite(x.v)),
    "tp_fmod": binary(either(np.fmod, lambda a, b: a - b * int_div(a, b) if b else 0)),
    "tp_floor_div": binary(either(float_floor_div, lambda a, b: a // b if b else 0)), "tp_lerp": tp_lerp,
    "tp_gelu_tanh": unary(lambda v: v / 2 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (v + 0.044715 * v ** 3)))),
    "tp_softplus": unary(softplus), "tp_logsigmoid": unary(lambda v: -softplus(-v)),
    "tp_mish": unary(lambda v: v * np.tanh(softplus(v))),
    "tp_selu": unary(lambda v: 1.0507009873554805 * elu(v, 1.6732632423543772)), "tp_relu6": unary(relu6),
    "tp_hardsigmoid": unary(lambda v: relu6(v + 3) / 6), "tp_hardswish": unary(lambda v: v * (relu6(v + 3) / 6)),
    "tp_softsign": unary(lambda v: v / (1 + np.abs(v))),
    "tp_swish": with_number(lambda v, k: v * sigmoid(k * v)), "tp_elu": with_number(elu),
    "tp_celu": with_number(lambda v, k: np.where(v > 0, v, k * np.expm1(np.minimum(v, 0) / k))),
    "tp_leaky_relu": with_number(lambda v, k: np.where(v > 0, v, k * v)),
    "tp_threshold": with_number(lambda v, t, k: np.where(v <= t, k, v)), "tp_shrink": tp_shrink,
    "tp_clip_min": tp_clip_min, "tp_clip_max": tp_clip_max,
    "tp_prelu": binary(lambda v, k: np.where(v > 0, v, k * v)),
    "tp_glu": gate(lambda a, b: a * sigmoid(b)), "tp_swiglu": gate(lambda a, b: a * sigmoid(a) * b),
    "tp_softmax": keeping(softmax), "tp_log_softmax": keeping(log_softmax),
    "tp_cross_entropy": tp_cross_entropy,
    "tp_mse": lambda a, b: T(np.mean((a.v - b.v) ** 2), a.dtype), "tp_clip": tp_clip,
    "tp_layer_norm": tp_layer_norm, "tp_batch_norm": tp_batch_norm,
    "tp_batch_norm_train": tp_batch_norm_train, "tp_linear": tp_linear,
    "tp_hardmax": keeping(hardmax), "tp_cross_entropy_with": tp_cross_entropy_with, "tp_nll": tp_nll,
    "tp_l1": elements(lambda a, b: np.abs(a - b)), "tp_bce": elements(bce),
    "tp_huber": elements(lambda a, b, d: np.where(np.abs(a - b) <= d, (a - b) ** 2 / 2, d * (np.abs(a - b) - d / 2))),
    "tp_hinge": elements(lambda a, b: np.maximum(1 - a * b, 0)),
    "tp_bce_with_logits": elements(bce_with_logits), "tp_kl_div": elements(kl_div),
    "tp_poisson_nll": elements(lambda a, b: np.exp(a) - a * b),
    "tp_cosine_similarity": lambda a, b, axis, eps: T(cosine(a.v, b.v, axis, eps), a.dtype),
    "tp_cosine_loss": tp_cosine_loss, "tp_triplet": tp_triplet, "tp_ctc_loss": tp_ctc_loss,
    "tp_rms_norm": tp_rms_norm, "tp_group_norm": tp_group_norm, "tp_instance_norm": tp_instance_norm,
    "tp_local_response_norm": tp_local_response_norm, "tp_normalize": keeping(unit),
    "tp_attention": tp_attention, "presents": presents, "tp_rotary": tp_rotary,
    "GATES": weights, "OPTIONS": recurrent_options, "OF_X": lambda t: ("w", t),
    "TWO": lambda w, r, wb, rb: [weights(("w", w), ("r", r)), weights(("w", wb), ("r", rb))],
    "OF_H": lambda t: ("r", t), "BIAS": lambda t: ("wb", t), "BIAS_H": lambda t: ("rb", t),
    "PEEPHOLE": lambda t: ("peephole", t), "BATCH_FIRST": ("batch_first", True),
    "REVERSE": ("reverse", True), "BOTH": ("both", True), "RESET_BEFORE": ("reset_before", True),
    "COUPLE": ("couple", True), "CLIP": lambda v: ("clip", v), "LENGTHS": lambda t: ("lengths", t),
    "RELU_ALL": ("relu_all", True), "tp_rnn_cell": cell(1), "tp_gru_cell": cell(3),
    "tp_lstm_cell": cell(4), "lstm_cell_c": cell(4, True), "rnn_all": recurrent(1),
    "gru_all": recurrent(3), "lstm_all": recurrent(4),
    "tp_adaptive_avg_pool": adaptive(np.mean), "tp_adaptive_max_pool": adaptive(np.max),
    "tp_global_avg_pool": whole_plane(np.mean), "tp_global_max_pool": whole_plane(np.max),
    "tp_lp_pool": tp_lp_pool, "tp_max_unpool": tp_max_unpool, "tp_unfold": tp_unfold,
    "tp_fold": tp_fold, "tp_conv_transpose": tp_conv_transpose,
    "tp_pixel_shuffle": shuffle(True, False), "tp_pixel_unshuffle": shuffle(True, True),
    "tp_depth_to_space": shuffle(False, False), "tp_space_to_depth": shuffle(False, True),
    "RESIZE": resize_options, "NEAREST": "nearest", "LINEAR": "linear", "CUBIC": "cubic",
    "TP_INTERPOLATE_NEAREST": "nearest", "TP_INTERPOLATE_LINEAR": "linear", "TP_INTERPOLATE_CUBIC": "cubic",
    "ALIGN_CORNERS": ("where", "align_corners"), "ASYMMETRIC": ("where", "asymmetric"),
    "ROUND_DOWN": ("rounding", "down"), "ROUND_UP": ("rounding", "up"),
    "ROUND_HALF_UP": ("rounding", "half_up"), "ANTIALIAS": ("antialias", True),
    "EXCLUDE_OUTSIDE": ("exclude", True), "A_HALF": ("a", -0.5), "tp_resize": tp_resize,
    "tp_upsample": tp_upsample, "TP_PAD_ZEROS": "zeros", "TP_PAD_EDGE": "edge",
    "TP_PAD_REFLECT": "reflect", "TP_PAD_WRAP": "wrap", "tp_pad_with": keeping(pad_with),
    "tp_grid_sample": tp_grid_sample, "tp_affine_grid": tp_affine_grid,
    "tp_cholesky": on_f64(cholesky), "tp_inverse": on_f64(np.linalg.inv), "tp_det": on_f64(np.linalg.det),
    "tp_solve": system(np.linalg.solve), "tp_solve_triangular": system(triangular),
    "factors": on_f64(lu_factors), "sign_and_log": on_f64(lambda v: np.stack(np.linalg.slogdet(v))),
    "away": on_f64(lambda v: v / 4 + np.eye(v.shape[-1])), "small": on_f64(lambda v: v / 64 + np.eye(v.shape[-1])),
    "definite": on_f64(lambda v: v @ turned(v) + np.eye(v.shape[-2])),
    "q_and_r": on_f64(lambda v: squares(np.linalg.qr(v))), "eigen": on_f64(lambda v: squares(np.linalg.eigh(v))),
    "values_of": on_f64(np.linalg.eigvalsh), "rebuilt": on_f64(lambda v: v),
    "singular": on_f64(lambda v: squares(np.linalg.svd(v, full_matrices=False))),
    "symmetric": on_f64(lambda v: v + turned(v)), "tp_lstsq": system(least_squares),
    "tp_fft": complex_fft(np.fft.fft), "tp_ifft": complex_fft(np.fft.ifft), "tp_rfft": tp_rfft, "tp_irfft": tp_irfft,
    "tp_scalar_like": lambda x, v: T(np.array(v).astype(x.dtype), x.dtype), "tp": None,
    "tp_full": lambda tp, dtype, shape, v: T(np.full(shape, v, dtype), dtype),
})

NAMES.update({
    "tp_any": truth(np.any), "tp_all": truth(np.all), "tp_var": tp_var,
    "tp_std": lambda *args: T(np.sqrt(tp_var(*args).v), args[0].dtype), "tp_norm": tp_norm,
    "tp_logsumexp": tp_logsumexp, "tp_cumprod": tp_cumprod, "tp_kth": tp_kth,
    "tp_argcummax": arg_running(True), "tp_argcummin": arg_running(False),
    "tp_cummax": running(True), "tp_cummin": running(False), "tp_median": tp_median, "tp_quantile": tp_quantile,
    "tp_eye": lambda tp, dtype, n, m, k: T(np.eye(n, m, k, dtype), dtype),
    "tp_linspace": lambda tp, dtype, lo, hi, n: cast(T(np.linspace(lo, hi, n)), dtype),
    "meshed": meshed, "tp_diagonal": keeping(lambda v, k: np.diagonal(v, k, -2, -1)),
    "tp_diag": tp_diag, "tp_tril": keeping(np.tril), "tp_triu": keeping(np.triu),
    "tp_tile": keeping(np.tile), "tp_repeat_each": keeping(np.repeat), "tp_roll": keeping(np.roll),
    "tp_trace": keeping(lambda v: np.trace(v, axis1=-2, axis2=-1, dtype=v.dtype)),
    "tp_dot": product(np.dot), "tp_outer": product(np.outer), "tp_kron": product(np.kron),
    "tp_tensordot": product(lambda a, b, p, q: np.tensordot(a, b, (p, q or []))),
    "tp_einsum": tp_einsum,
})

# ---- comparing ----------------------------------------------------------------------------------


def tolerances():
    table = {}
    with open(os.path.join(HERE, "tolerance.def"), encoding="utf-8") as f:
        for m in re.finditer(r"^TOLERANCE\((\w+), ([^,]+), ([^,]+),", f.read(), re.M):
            table[m.group(1)] = (float(m.group(2)), float(m.group(3)))
    return table


def order_matters(op, text, operands):
    """Where a partial result can leave the range of the type, in some order of the operands: the
    sum of the magnitudes is infinite; the product of those above 1 is, or that of those below is
    subnormal."""
    def of(change):
        sizes = []
        for t in operands:
            if is_float(t):
                v = np.where(np.isnan(t.v), np.inf, np.abs(t.v))
                t = T(change(v), t.dtype)
            sizes.append(t)
        want = call(text, sizes)
        return want.v.astype(want.dtype) if is_float(want) else np.ones((), bool)

    if op in PRODUCTS:
        small = np.finfo(operands[0].dtype).tiny
        return ~np.isfinite(of(lambda v: np.maximum(v, 1))) | (of(lambda v: np.minimum(v, 1)) < small)
    if op == "recur":
        return ~np.isfinite(of(lambda v: np.maximum(v, 1)))
    if op in ("mean", "avg_pool", "adaptive_avg_pool"):
        return ~np.isfinite(of(lambda v: 64 * v))
    return ~np.isfinite(of(lambda v: np.where(v == 0, 1, v)))


def call(text, operands):
    return eval(text, dict(NAMES, **dict(zip("abcde", operands))))  # our own file's text


def difference(op, text, got, want, operands, table):
    """None when they agree, else what differs first."""
    if got.dtype != want.dtype:
        return "type %s, not %s" % (got.dtype, want.dtype)
    if got.shape != want.v.shape:
        return "shape %s, not %s" % (list(got.shape), list(want.v.shape))
    g = got.astype(np.longdouble) if got.dtype.kind == "f" else got
    w = want.v.astype(want.dtype).astype(np.longdouble) if got.dtype.kind == "f" else want.v
    same = g == w
    if got.dtype.kind == "f":
        ulps = table.get(op, (0, 0))[0 if got.dtype == np.float32 else 1]
        info = np.finfo(got.dtype)
        exact = want.v
        scale = np.abs(exact)
        if op in SCALED:
            finite = [np.abs(t.v[np.isfinite(t.v)]) for t in operands if is_float(t) and t.v.size]
            finite = [f for f in finite if f.size]
            scale = np.maximum(scale, max(f.max() for f in finite) if finite else 0)
        quantum = np.longdouble(info.tiny) * info.eps
        if op in ("silu", "swish", "mish"):  # the least sigmoid times x
            quantum = quantum * np.maximum(1, np.abs(operands[0].v))
        allowed = ulps * np.maximum(scale * np.longdouble(info.eps), quantum)
        same |= np.isnan(g) & np.isnan(w)
        same |= np.abs(g - exact) <= allowed
        # a bound beyond the greatest number may come out as infinity
        same |= np.isinf(g) & (np.abs(exact) + allowed >= info.max) & (np.sign(g) == np.sign(exact))
        if not np.all(same) and (op in SCALED or op in PRODUCTS):
            same |= (~np.isfinite(g) | (op in PRODUCTS)) & order_matters(op, text, operands)
        same &= ~((g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w)) & (op in SIGNED_ZERO))
    if np.all(same):
        return None
    at = np.argwhere(~np.atleast_1d(same))[0] if same.ndim else ()
    first = tuple(at) if same.ndim else ()
    return "first at %s: %r, NumPy %r" % (list(map(int, first)), got[first], want.v[first])


# sums cancel: their error is measured against the operands
SCALED = {"sum", "mean", "cumsum", "recur", "matmul", "conv", "conv_dx", "conv_dw", "avg_pool",
          "scatter_add", "put_along_add", "scatter_nd_add", "mse", "layer_norm", "batch_norm", "batch_norm_train",
          "linear", "cross_entropy", "log_softmax", "gelu", "gelu_tanh", "lerp", "lgamma", "mod", "copy",
          "logsumexp", "quantile", "var", "trace", "dot", "tensordot", "einsum", "cross_entropy_with", "nll",
          "l1", "huber", "hinge", "bce_with_logits", "kl_div", "poisson_nll", "cosine_similarity",
          "cosine_loss", "triplet", "ctc_loss", "rms_norm", "group_norm", "instance_norm", "attention",
          "rotary", "rnn", "gru", "lstm", "rnn_cell", "gru_cell", "lstm_cell", "adaptive_avg_pool",
          "global_avg_pool", "lp_pool", "fold", "conv_transpose", "resize", "upsample", "grid_sample", "affine_grid",
          "cholesky", "solve_triangular", "lu",
          "solve", "inverse", "det", "slogdet", "qr", "eigh", "svd", "lstsq", "fft", "ifft", "rfft", "irfft"}
PRODUCTS = {"prod", "cumprod"}
# a zero has a defined sign
SIGNED_ZERO = {"neg", "abs", "sign", "relu", "expm1", "log1p", "sqrt", "sin", "tanh", "erf", "floor", "ceil",
               "round", "tan", "asin", "atan", "atan2", "sinh", "asinh", "atanh", "erfinv", "fmod", "floor_div", "add", "sub", "mul", "div", "mod", "detach", "reshape", "transpose"}


def main():
    program, options = sys.argv[1], sys.argv[2:]
    table, wrong, compared, left_out = tolerances(), 0, 0, {}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, "dump", "--dump", folder] + options, stdout=subprocess.PIPE,
                             universal_newlines=True, check=False)
        if run.returncode != 0:
            print(run.stdout)
            return 1
        with open(os.path.join(folder, "list.txt"), encoding="utf-8") as f:
            cases = [line.rstrip("\n").split("\t") for line in f]
        for name, line, n_in, text in cases:
            op = name.split("/")[0]
            if op in NOT_COMPUTED:
                left_out[NOT_COMPUTED[op]] = left_out.get(NOT_COMPUTED[op], 0) + 1
                continue
            x = [T(np.load(os.path.join(folder, "%s_%d.npy" % (line, i)))) for i in range(int(n_in))]
            got = np.load(os.path.join(folder, "%s_y.npy" % line))
            text = text or "tp_%s(%s)" % (op, ", ".join("abcde"[:len(x)]))
            try:
                why = difference(op, text, got, call(text, x), x, table)
            except Exception as e:  # a function that is missing here is a failure too
                why = "%s: %s" % (type(e).__name__, e)
            compared += 1
            if why:
                wrong += 1
                if wrong <= 40:
                    print("FAILED %s (test/modes/op/cases.def:%s) %s\n    %s\n    %s\n    repeat: %s %s --case %s"
                          % (name, line, " ".join("%s%s" % (t.dtype, list(t.v.shape)) for t in x),
                             text, why, os.path.abspath(__file__), program, name))
    print("numpy %s: %d cases compared, %d differ, left out %s"
          % (np.__version__, compared, wrong, left_out))
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
