"""The functions of ops.h and indexing.h in NumPy."""

import math
import statistics

import numpy as np

from numpy_types import END, T, cast, is_float, meet, promote, window

# ---- elementwise --------------------------------------------------------------------------------

def unary(f):
    return lambda a: T(f(a.v), a.dtype)


def polar(r, angle, every):
    x, y = r.v * np.cos(angle.v), r.v * np.sin(angle.v)
    return T(x * y + np.sign(r.v) * y * y if every else y, r.dtype)


def each(f):
    """Of single doubles, by Python's own."""
    return lambda v: np.vectorize(lambda x: np.longdouble(f(float(x))), otypes=[np.longdouble])(v) if v.size else v


erf = each(math.erf)


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


NAMES = {
    "tp_neg": unary(lambda v: -v), "tp_abs": unary(np.abs), "tp_sign": unary(sign),
    "tp_relu": unary(lambda v: np.where(v <= 0, np.zeros_like(v), v)), "tp_exp": unary(np.exp),
    "tp_log": unary(np.log), "tp_exp2": unary(np.exp2), "tp_log2": unary(np.log2), "tp_log10": unary(np.log10),
    "tp_sqrt": unary(np.sqrt), "tp_expm1": unary(np.expm1), "tp_log1p": unary(np.log1p),
    "tp_rsqrt": unary(lambda v: 1 / np.sqrt(v)), "tp_sin": unary(np.sin), "tp_cos": unary(np.cos),
    "tp_tanh": unary(np.tanh), "tp_sigmoid": unary(sigmoid), "tp_erf": unary(erf), "tp_erfinv": unary(each(erfinv)),
    "tp_floor": unary(np.floor),
    "tp_ceil": unary(np.ceil), "tp_round": unary(np.rint), "tp_not": unary(np.invert),
    "smooth_abs": unary(lambda v: np.sqrt(v * v + 1)), "polar": polar, "gated": binary(lambda a, b: (a + b) * a), "tp_detach": unary(lambda v: v), "tp_cast": cast, "tp_add": binary(np.add), "tp_sub": binary(np.subtract),
    "tp_mul": binary(np.multiply), "tp_div": binary(either(np.divide, int_div)), "tp_min": binary(np.minimum),
    "tp_max": binary(np.maximum), "tp_pow": binary(either(float_pow, int_pow)),
    "tp_mod": binary(either(float_mod, lambda a, b: a % b if b else 0)), "tp_eq": compare(np.equal),
    "tp_ne": compare(np.not_equal), "tp_lt": compare(np.less), "tp_le": compare(np.less_equal),
    "tp_gt": compare(np.greater), "tp_ge": compare(np.greater_equal), "tp_and": binary(np.bitwise_and),
    "tp_or": binary(np.bitwise_or), "tp_xor": binary(np.bitwise_xor), "tp_where": where, "tp_sum": reduction(np.sum),
    "tp_prod": reduction(np.prod), "tp_mean": tp_mean, "tp_reduce_max": reduction(np.max),
    "tp_reduce_min": reduction(np.min), "tp_argmax": arg(True), "tp_argmin": arg(False), "tp_cumsum": tp_cumsum,
    "tp_argtopk": tp_argtopk, "tp_argsort": tp_argsort, "tp_sort": tp_sort, "tp_recur": tp_recur,
    "tp_extent": tp_extent, "tp_reshape": keeping(np.reshape),
    "tp_flatten": keeping(lambda v, a: v.reshape(v.shape[:a % (v.ndim or 1)] + (-1,))),
    "tp_transpose": keeping(lambda v, p: np.transpose(v, p or None)), "tp_swap": keeping(np.swapaxes),
    "tp_unsqueeze": keeping(np.expand_dims), "tp_squeeze": keeping(np.squeeze),
    "tp_broadcast": keeping(np.broadcast_to), "tp_dim": lambda x, a: x.v.shape[a], "tp_slice": keeping(slice_of),
    "tp_select": keeping(lambda v, a, i: np.take(v, i, axis=a)),
    "tp_flip": keeping(lambda v, a: np.flip(v, tuple(a) or None)), "tp_pad": keeping(pad),
    "tp_concat": joined(np.concatenate), "tp_stack": joined(np.stack), "parts": parts,
    "tp_contiguous": unary(lambda v: v), "copied": unary(lambda v: v), "tp_gather": tp_gather,
    "tp_take_along": tp_take_along, "tp_scatter": scatter("set"), "tp_scatter_add": scatter("add"),
    "tp_scatter_mul": scatter("mul"), "tp_scatter_max": scatter("max"), "tp_scatter_min": scatter("min"),
    "tp_put_along": put_along("set"), "tp_put_along_mul": put_along("mul"), "tp_put_along_max": put_along("max"),
    "tp_put_along_min": put_along("min"), "tp_index_by": tp_index_by, "tp_gather_nd": tp_gather_nd,
    "tp_scatter_nd": scatter_nd("set"), "tp_scatter_nd_add": scatter_nd("add"),
    "tp_scatter_nd_mul": scatter_nd("mul"), "tp_scatter_nd_max": scatter_nd("max"),
    "tp_scatter_nd_min": scatter_nd("min"), "tp_nonzero": lambda x: T(np.argwhere(x.v).astype(np.int64)),
    "tp_masked_select": tp_masked_select, "kinds": kinds, "ALL_AXES": 100,
    "tp_unique": lambda x, *_: kinds(x, 100, 0), "tp_unique_along": lambda x, axis, *_: kinds(x, axis, 0),
    "tp_searchsorted": tp_searchsorted,
    "searched": lambda x, v, right: tp_searchsorted(T(np.sort(x.v, -1), x.dtype), v, right),
    "tp_bincount": tp_bincount, "tp_histogram": tp_histogram, "tp_isin": lambda x, of: T(np.isin(x.v, of.v)),
    "tp_index": lambda x, text: T(eval("v[%s]" % text, {"v": x.v, "newaxis": None}), x.dtype),
    "tp_put_along_add": tp_put_along_add, "tp_one_hot": tp_one_hot, "tp_matmul": tp_matmul, "tp_conv": tp_conv,
    "tp_conv_dx": tp_conv_dx, "tp_conv_dw": tp_conv_dw, "tp_max_pool": pool(True),
    "tp_max_pool_index": max_pool_index, "tp_avg_pool": pool(False),
    "tp_scalar_like": lambda x, v: T(np.array(v).astype(x.dtype), x.dtype),
    "tp_full": lambda tp, dtype, shape, v: T(np.full(shape, v, dtype), dtype),
}
