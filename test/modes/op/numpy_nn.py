"""The functions of nn.h in NumPy."""

import numpy as np

from numpy_types import T, is_float
from numpy_ops import filled, keeping, padded, pool, sigmoid, taps, tp_matmul

# ---- losses, attention --------------------------------------------------------------------------

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
    def run(a, b, *more):
        given = [m.v if isinstance(m, T) else m for m in more[:-1]]
        return T(reduced(f(a.v, b.v, *given), more[-1]), a.dtype)
    return run


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


# ---- normalisations, layers ---------------------------------------------------------------------

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


def tp_linear(x, w, b):
    y = tp_matmul(x, w)
    return T(y.v + b.v, y.dtype) if b else y


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
    at = np.stack(list(np.meshgrid(*[axis(s) for s in sizes], indexing="ij"))[::-1]
                  + [np.ones(tuple(sizes), np.longdouble)], axis=-1)
    return T(np.einsum("nij,...j->n...i", theta.v, at), theta.dtype)


def pad_with(v, rank, lo, hi, padding):
    mode = {"zeros": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}[padding]
    return np.pad(v, list(zip(lo, hi)), mode=mode)


NAMES = {
    "LOSS": options, "ATTENTION": options, "CAUSAL": ("causal", True), "TP_MEAN": "mean", "TP_SUM": "sum",
    "TP_NONE": "none", "REDUCTION": option("reduction"), "AXIS": option("axis"), "WEIGHTS": option("weights"),
    "IGNORED": option("ignored"), "SMOOTHING": option("smoothing"), "SCALE": option("scale"),
    "SOFTCAP": option("softcap"), "BEFORE": option("before"), "AFTER": option("after"), "MASK": option("mask"),
    "LENGTHS": option("lengths"), "PAST_KEY": option("past_key"), "PAST_VALUE": option("past_value"),
    "tp_softmax": keeping(softmax), "tp_log_softmax": keeping(log_softmax), "tp_cross_entropy": tp_cross_entropy,
    "tp_mse": lambda a, b: T(np.mean((a.v - b.v) ** 2), a.dtype), "tp_layer_norm": tp_layer_norm,
    "tp_batch_norm": tp_batch_norm, "tp_batch_norm_train": tp_batch_norm_train, "tp_linear": tp_linear,
    "tp_hardmax": keeping(hardmax), "tp_cross_entropy_with": tp_cross_entropy_with, "tp_nll": tp_nll,
    "tp_l1": elements(lambda a, b: np.abs(a - b)), "tp_bce": elements(bce),
    "tp_huber": elements(lambda a, b, d: np.where(np.abs(a - b) <= d, (a - b) ** 2 / 2, d * (np.abs(a - b) - d / 2))),
    "tp_hinge": elements(lambda a, b: np.maximum(1 - a * b, 0)), "tp_bce_with_logits": elements(bce_with_logits),
    "tp_kl_div": elements(kl_div), "tp_poisson_nll": elements(lambda a, b: np.exp(a) - a * b),
    "tp_cosine_similarity": lambda a, b, axis, eps: T(cosine(a.v, b.v, axis, eps), a.dtype),
    "tp_cosine_loss": tp_cosine_loss, "tp_triplet": tp_triplet, "tp_ctc_loss": tp_ctc_loss,
    "tp_rms_norm": tp_rms_norm, "tp_group_norm": tp_group_norm, "tp_instance_norm": tp_instance_norm,
    "tp_local_response_norm": tp_local_response_norm, "tp_normalize": keeping(unit), "tp_attention": tp_attention,
    "presents": presents, "tp_rotary": tp_rotary, "GATES": weights, "OPTIONS": recurrent_options,
    "OF_X": lambda t: ("w", t),
    "TWO": lambda w, r, wb, rb: [weights(("w", w), ("r", r)), weights(("w", wb), ("r", rb))],
    "OF_H": lambda t: ("r", t), "BIAS": lambda t: ("wb", t), "BIAS_H": lambda t: ("rb", t),
    "PEEPHOLE": lambda t: ("peephole", t), "BATCH_FIRST": ("batch_first", True), "REVERSE": ("reverse", True),
    "BOTH": ("both", True), "RESET_BEFORE": ("reset_before", True), "COUPLE": ("couple", True),
    "CLIP": lambda v: ("clip", v), "RELU_ALL": ("relu_all", True), "tp_rnn_cell": cell(1), "tp_gru_cell": cell(3),
    "tp_lstm_cell": cell(4), "lstm_cell_c": cell(4, True), "rnn_all": recurrent(1), "gru_all": recurrent(3),
    "lstm_all": recurrent(4), "tp_adaptive_avg_pool": adaptive(np.mean), "tp_adaptive_max_pool": adaptive(np.max),
    "tp_global_avg_pool": whole_plane(np.mean), "tp_global_max_pool": whole_plane(np.max), "tp_lp_pool": tp_lp_pool,
    "tp_max_unpool": tp_max_unpool, "tp_unfold": tp_unfold, "tp_fold": tp_fold,
    "tp_conv_transpose": tp_conv_transpose, "tp_pixel_shuffle": shuffle(True, False),
    "tp_pixel_unshuffle": shuffle(True, True), "tp_depth_to_space": shuffle(False, False),
    "tp_space_to_depth": shuffle(False, True), "RESIZE": resize_options, "NEAREST": "nearest", "LINEAR": "linear",
    "CUBIC": "cubic", "TP_INTERPOLATE_NEAREST": "nearest", "TP_INTERPOLATE_LINEAR": "linear",
    "TP_INTERPOLATE_CUBIC": "cubic", "ALIGN_CORNERS": ("where", "align_corners"),
    "ASYMMETRIC": ("where", "asymmetric"), "ROUND_DOWN": ("rounding", "down"), "ROUND_UP": ("rounding", "up"),
    "ROUND_HALF_UP": ("rounding", "half_up"), "ANTIALIAS": ("antialias", True), "EXCLUDE_OUTSIDE": ("exclude", True),
    "A_HALF": ("a", -0.5), "tp_resize": tp_resize, "tp_upsample": tp_upsample, "TP_PAD_ZEROS": "zeros",
    "TP_PAD_EDGE": "edge", "TP_PAD_REFLECT": "reflect", "TP_PAD_WRAP": "wrap", "tp_pad_with": keeping(pad_with),
    "tp_grid_sample": tp_grid_sample, "tp_affine_grid": tp_affine_grid,
}
