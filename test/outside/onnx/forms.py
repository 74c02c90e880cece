#!/usr/bin/python3
"""Forms of operators that the upstream cases leave out, against plain NumPy.

    forms.py ONNX_CASES [--engine reference|tiles|c] [--seed N] [--only NAME] [--keep FOLDER]

Models of one node are drawn at random and written as conformance cases, each with sizes that
are known and with free ones, and the program ONNX_CASES runs them. What they have to give is
computed here in f64, element by element where that is short."""
import argparse
import itertools
import math
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.float64): TensorProto.DOUBLE,
         np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}


class Writer:
    """Cases in a folder; `draw` numbers them."""

    def __init__(self, root, only):
        self.root, self.only, self.count = root, only, 0

    def add(self, name, op, opset, inputs, outputs, attrs, free=(), fed=1):
        """inputs: arrays, None for one left out; the first `fed` are fed, others are weights.
        free: axes of the first input that are free dimensions in a second case."""
        if self.only and self.only not in name:
            return
        for axes in ((), free) if free else ((),):
            self.count += 1
            self.write("%s_%03d%s" % (name, self.count, "_free" if axes else ""), op, opset,
                       inputs, outputs, attrs, axes, fed)

    def write(self, name, op, opset, inputs, outputs, attrs, axes, fed):
        names, outs, feeds, inits, results = [], [], [], [], []
        for i, v in enumerate(inputs):
            names.append("" if v is None else "in%d" % i)
            if v is not None and i >= fed:
                inits.append(numpy_helper.from_array(v, names[-1]))
            elif v is not None:
                shape = ["d%d" % a if i == 0 and a in axes else n for a, n in enumerate(v.shape)]
                feeds.append((names[-1], shape, v))
        for i, v in enumerate(outputs):
            outs.append("" if v is None else "out%d" % i)
            if v is not None:
                results.append((outs[-1], v))
        self.model(name, opset, [helper.make_node(op, names, outs, name=name, **attrs)], feeds,
                   inits, results)

    def model(self, name, opset, nodes, feeds, inits, results):
        folder = os.path.join(self.root, "node", name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        starts = [helper.make_tensor_value_info(n, TYPES[v.dtype], s) for n, s, v in feeds]
        ends = [helper.make_tensor_value_info(n, TYPES[v.dtype], None) for n, v in results]
        graph = helper.make_graph(nodes, "forms", starts, ends, inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 7
        with open(os.path.join(folder, "model.onnx"), "wb") as f:
            f.write(model.SerializeToString())
        for i, (_, _, v) in enumerate(feeds):
            self.tensor(data, "input_%d.pb" % i, v)
        for i, (_, v) in enumerate(results):
            self.tensor(data, "output_%d.pb" % i, v)

    @staticmethod
    def tensor(folder, name, v):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(numpy_helper.from_array(np.array(v, order="C")).SerializeToString())


def f32(rng, *shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


def like(v, x):
    return np.asarray(v).astype(x.dtype)


# ---- windows ------------------------------------------------------------------------------------

class Window:
    """Random kernel, strides, dilations and padding over n spatial axes of x."""

    def __init__(self, rng, sizes, dilated=True):
        n = len(sizes)
        self.sizes = sizes
        self.kernel = [int(rng.integers(1, 4)) for _ in range(n)]
        self.stride = [int(rng.integers(1, 4)) for _ in range(n)]
        self.dilation = [int(rng.integers(1, 3)) if dilated else 1 for _ in range(n)]
        self.reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel)]
        self.auto = str(rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        self.lo, self.hi = [0] * n, [0] * n
        for i in range(n):
            if self.auto == "NOTSET":
                self.lo[i], self.hi[i] = (int(rng.integers(0, self.reach[i])) for _ in range(2))
            elif self.auto != "VALID":
                places = -(-sizes[i] // self.stride[i])
                pad = max(0, (places - 1) * self.stride[i] + self.reach[i] - sizes[i])
                self.lo[i] = pad // 2 if self.auto == "SAME_UPPER" else pad - pad // 2
                self.hi[i] = pad - self.lo[i]

    def attrs(self):
        a = {"kernel_shape": self.kernel, "strides": self.stride}
        if any(d > 1 for d in self.dilation):
            a["dilations"] = self.dilation
        if self.auto != "NOTSET":
            a["auto_pad"] = self.auto
        elif any(self.lo + self.hi):
            a["pads"] = self.lo + self.hi
        return a

    def places(self, ceil=False):
        out = []
        for i, size in enumerate(self.sizes):
            span = size + self.lo[i] + self.hi[i] - self.reach[i]
            if span < 0:
                return None
            n = (-(-span // self.stride[i]) if ceil else span // self.stride[i]) + 1
            if ceil and (n - 1) * self.stride[i] >= size + self.lo[i]:
                n -= 1
            out.append(n)
        return out

    def taps(self, place):
        """Kernel position and place in x, which may lie outside."""
        for k in itertools.product(*(range(n) for n in self.kernel)):
            yield k, tuple(p * s + t * d - lo for p, s, t, d, lo in
                           zip(place, self.stride, k, self.dilation, self.lo))

    def inside(self, at):
        return all(0 <= a < n for a, n in zip(at, self.sizes))

    def can_be_free(self, ceil=False):
        if self.auto.startswith("SAME") and any(s > 1 for s in self.stride):
            return False
        return not ceil or all(s == 1 or s + hi <= r
                               for s, hi, r in zip(self.stride, self.hi, self.reach))


def pools(w, rng):
    n = int(rng.integers(1, 4))
    sizes = [int(rng.integers(4, 9)) for _ in range(n)]
    x = f32(rng, 2, 2, *sizes)
    op = str(rng.choice(["MaxPool", "AveragePool", "LpPool"]))
    ceil = bool(rng.integers(2))
    win = Window(rng, sizes, dilated=True)
    places = win.places(ceil)
    if places is None:
        return
    attrs = win.attrs()
    if ceil:
        attrs["ceil_mode"] = 1
    all_taps = op == "AveragePool" and bool(rng.integers(2))
    if all_taps:
        attrs["count_include_pad"] = 1
    p = int(rng.integers(1, 4))
    if op == "LpPool":
        attrs["p"] = p
    y = np.zeros([2, 2] + places)
    where = np.zeros([2, 2] + places, np.int64)
    turned = op == "MaxPool" and bool(rng.integers(2))
    for b, c in itertools.product(range(2), range(2)):
        for place in itertools.product(*(range(m) for m in places)):
            at = [a for _, a in win.taps(place)]
            v = [float(x[(b, c) + a]) for a in at if win.inside(a)]
            if not v:
                return
            if op == "MaxPool":
                best = max(v)
                a = next(a for a in at if win.inside(a) and x[(b, c) + a] == np.float32(best))
                flat = np.ravel_multi_index(a, sizes, order="F" if turned else "C")
                y[(b, c) + place] = best
                where[(b, c) + place] = (b * 2 + c) * math.prod(sizes) + flat
            elif op == "LpPool":
                y[(b, c) + place] = sum(abs(t) ** p for t in v) ** (1 / p)
            else:
                counted = [a for a in at if all(-lo <= q < s + hi for q, lo, s, hi in
                                                zip(a, win.lo, sizes, win.hi))]
                y[(b, c) + place] = sum(v) / len(counted if all_taps else v)
    outs = [like(y, x)]
    if op == "MaxPool" and rng.integers(2):
        outs.append(where)
        attrs["storage_order"] = int(turned)
    free = (0,) + (tuple(range(2, n + 2)) if win.can_be_free(ceil) else ())
    opset = int(rng.choice([19, 22])) if op != "MaxPool" else int(rng.choice([12, 22]))
    w.add(op.lower(), op, opset, [x], outs, attrs, free)


def convs(w, rng):
    n = int(rng.integers(1, 4))
    sizes = [int(rng.integers(4, 8)) for _ in range(n)]
    groups, oc, ic = int(rng.integers(1, 3)), 4, 4
    win = Window(rng, sizes)
    places = win.places()
    if places is None:
        return
    x, k = f32(rng, 2, ic, *sizes), f32(rng, oc, ic // groups, *win.kernel)
    bias = f32(rng, oc) if rng.integers(2) else None
    y = np.zeros([2, oc] + places)
    for place in itertools.product(*(range(m) for m in places)):
        for t, at in win.taps(place):
            if win.inside(at):
                v = x[(slice(None), slice(None)) + at].astype(np.float64)
                for g in range(groups):
                    o, i = slice(g * oc // groups, (g + 1) * oc // groups), ic // groups
                    y[(slice(None), o) + place] += (
                        v[:, g * i:(g + 1) * i] @ k[(o, slice(None)) + t].T)
    if bias is not None:
        y += bias.reshape([-1] + [1] * n)
    attrs = win.attrs()
    attrs["group"] = groups
    if rng.integers(2):
        del attrs["kernel_shape"]
    free = (0,) + (tuple(range(2, n + 2)) if win.can_be_free() else ())
    w.add("conv", "Conv", int(rng.choice([7, 11, 22])), [x, k, bias][:2 + (bias is not None)],
          [like(y, x)], attrs, free)


def transposed(w, rng):
    n = int(rng.integers(1, 4))
    sizes = [int(rng.integers(2, 5)) for _ in range(n)]
    kernel = [int(rng.integers(1, 4)) for _ in range(n)]
    stride = [int(rng.integers(1, 4)) for _ in range(n)]
    dilation = [int(rng.integers(1, 3)) for _ in range(n)]
    groups, ic, oc = int(rng.integers(1, 3)), 4, 4
    x, k = f32(rng, 2, ic, *sizes), f32(rng, ic, oc // groups, *kernel)
    reach = [d * (m - 1) + 1 for d, m in zip(dilation, kernel)]
    more = [int(rng.integers(0, max(s, d))) for s, d in zip(stride, dilation)]
    attrs = {"strides": stride, "dilations": dilation, "group": groups}
    if any(more):
        attrs["output_padding"] = more
    whole = [s * (m - 1) + r for s, m, r in zip(stride, sizes, reach)]
    way = str(rng.choice(["pads", "shape", "upper", "lower"]))
    lo, out = [], []
    for i in range(n):
        if way == "pads":
            pads = [int(rng.integers(0, reach[i])) for _ in range(2)]
            lo.append(pads[0])
            out.append(whole[i] + more[i] - sum(pads))
            attrs.setdefault("pads", [0] * 2 * n)
            attrs["pads"][i], attrs["pads"][n + i] = pads
        else:
            out.append(stride[i] * sizes[i] if way != "shape" else
                       int(rng.integers(max(1, whole[i] - 2), whole[i] + 3)))
            pad = max(0, whole[i] + more[i] - out[i])
            lo.append(pad // 2 if way == "upper" else pad - pad // 2)
    if min(out) < 1:
        return
    if way == "shape":
        attrs["output_shape"] = out
    elif way != "pads":
        attrs["auto_pad"] = "SAME_" + way.upper()
    y = np.zeros([2, oc] + out)
    for place in itertools.product(*(range(m) for m in sizes)):
        for t in itertools.product(*(range(m) for m in kernel)):
            at = tuple(p * s + q * d - l for p, s, q, d, l in
                       zip(place, stride, t, dilation, lo))
            if all(0 <= a < m for a, m in zip(at, out)):
                v = x[(slice(None), slice(None)) + place].astype(np.float64)
                i, o = ic // groups, oc // groups
                for g in range(groups):
                    y[(slice(None), slice(g * o, (g + 1) * o)) + at] += (
                        v[:, g * i:(g + 1) * i] @
                        k[(slice(g * i, (g + 1) * i), slice(None)) + t])
    free = (0,) + (tuple(range(2, n + 2)) if way == "pads" else ())
    w.add("convtranspose", "ConvTranspose", 11, [x, k], [like(y, x)], attrs, free)


# ---- recurrent cells ------------------------------------------------------------------------------

def sigmoid(v):
    return 1 / (1 + np.exp(-v))


ACTS = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0),
        "Softsign": lambda v: v / (1 + np.abs(v)), "Softplus": lambda v: np.logaddexp(v, 0),
        "HardSigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
        "Elu": lambda v: np.where(v > 0, v, np.expm1(np.minimum(v, 0)))}


def cells(w, rng):
    op = str(rng.choice(["RNN", "GRU", "LSTM"]))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    n_acts = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
    way = str(rng.choice(["forward", "reverse", "bidirectional"]))
    dirs = 2 if way == "bidirectional" else 1
    steps, batch, size, hidden = (int(rng.integers(1, 6)) for _ in range(4))
    x = f32(rng, steps, batch, size)
    wx, wh = (np.float32(0.4) * f32(rng, dirs, gates * hidden, n) for n in (size, hidden))
    bias = f32(rng, dirs, 2 * gates * hidden) if rng.integers(2) else None
    lens = rng.integers(1, steps + 1, batch).astype(np.int32) if rng.integers(2) else None
    h0 = f32(rng, dirs, batch, hidden) if rng.integers(2) else None
    c0 = f32(rng, dirs, batch, hidden) if op == "LSTM" and rng.integers(2) else None
    peep = f32(rng, dirs, 3 * hidden) if op == "LSTM" and rng.integers(2) else None
    attrs = {"hidden_size": hidden, "direction": way}
    clip = float(np.float32(rng.uniform(0.5, 2))) if rng.integers(3) == 0 else 0
    if clip:
        attrs["clip"] = clip
    acts = (["Sigmoid", "Tanh", "Tanh"][:n_acts] if n_acts > 1 else ["Tanh"]) * dirs
    if rng.integers(2):
        acts = [str(rng.choice(sorted(ACTS))) for _ in acts]
        attrs["activations"] = acts
    after = op == "GRU" and bool(rng.integers(2))
    if after:
        attrs["linear_before_reset"] = 1
    couple = op == "LSTM" and bool(rng.integers(2))
    if couple:
        attrs["input_forget"] = 1
    ys = np.zeros((steps, dirs, batch, hidden))
    hs, cs = np.zeros((dirs, batch, hidden)), np.zeros((dirs, batch, hidden))
    for d, b in itertools.product(range(dirs), range(batch)):
        h = np.zeros(hidden) if h0 is None else h0[d, b].astype(np.float64)
        c = np.zeros(hidden) if c0 is None else c0[d, b].astype(np.float64)
        bx, bh = (np.zeros(2 * gates * hidden) if bias is None else bias[d]).reshape(2, gates, -1)
        p = (np.zeros(3 * hidden) if peep is None else peep[d]).reshape(3, hidden)

        def act(k, v):
            return ACTS[acts[d * n_acts + k]](np.clip(v, -clip, clip) if clip else v)

        length = steps if lens is None else int(lens[b])
        order = range(length)
        if way == "reverse" or d == 1:
            order = reversed(range(length))
        for t in order:
            xs = wx[d].astype(np.float64).reshape(gates, hidden, -1) @ x[t, b] + bx
            r = wh[d].astype(np.float64).reshape(gates, hidden, -1)
            if op == "RNN":
                h = act(0, xs[0] + r[0] @ h + bh[0])
            elif op == "GRU":
                z, reset = (act(0, xs[k] + r[k] @ h + bh[k]) for k in (0, 1))
                part = reset * (r[2] @ h + bh[2]) if after else r[2] @ (reset * h) + bh[2]
                h = (1 - z) * act(1, xs[2] + part) + z * h
            else:
                g = xs + r @ h + bh
                i = act(0, g[0] + p[0] * c)
                f = 1 - i if couple else act(0, g[2] + p[2] * c)
                c = f * c + i * act(1, g[3])
                h = act(0, g[1] + p[1] * c) * act(2, c)
            ys[t, d, b] = h
        hs[d, b], cs[d, b] = h, c
    if rng.integers(2):
        attrs["layout"] = 1
        x = np.swapaxes(x, 0, 1)
        h0, c0 = (None if v is None else np.swapaxes(v, 0, 1) for v in (h0, c0))
        ys, hs, cs = np.transpose(ys, (2, 0, 1, 3)), np.swapaxes(hs, 0, 1), np.swapaxes(cs, 0, 1)
    inputs = [x, wx, wh, bias, lens, h0] + ([c0, peep] if op == "LSTM" else [])
    outs = [like(ys, x), like(hs, x)] + ([like(cs, x)] if op == "LSTM" else [])
    if rng.integers(3) == 0:
        outs[0] = None
    batch_axis = 0 if "layout" in attrs else 1
    free = (0, 1) if lens is None and h0 is None and c0 is None else (1 - batch_axis,)
    w.add(op.lower(), op, int(rng.choice([14, 22])), inputs, outs, attrs, free)


# ---- reductions, softmax, order -----------------------------------------------------------------------

REDUCE = {
    "ReduceSum": lambda v, a, k: v.sum(a, keepdims=k),
    "ReduceMean": lambda v, a, k: v.mean(a, keepdims=k),
    "ReduceMax": lambda v, a, k: v.max(a, keepdims=k),
    "ReduceMin": lambda v, a, k: v.min(a, keepdims=k),
    "ReduceProd": lambda v, a, k: v.prod(a, keepdims=k),
    "ReduceL1": lambda v, a, k: np.abs(v).sum(a, keepdims=k),
    "ReduceL2": lambda v, a, k: np.sqrt((v * v).sum(a, keepdims=k)),
    "ReduceSumSquare": lambda v, a, k: (v * v).sum(a, keepdims=k),
    "ReduceLogSum": lambda v, a, k: np.log(v.sum(a, keepdims=k)),
    "ReduceLogSumExp": lambda v, a, k: np.log(np.exp(v).sum(a, keepdims=k)),
}


def reductions(w, rng):
    op = str(rng.choice(sorted(REDUCE)))
    rank = int(rng.integers(1, 5))
    x = np.abs(f32(rng, *(int(rng.integers(1, 5)) for _ in range(rank)))) + np.float32(0.1)
    axes = sorted(int(a) for a in rng.choice(rank, int(rng.integers(0, rank + 1)), replace=False))
    keep = bool(rng.integers(2))
    attrs, inputs = {"keepdims": int(keep)}, [x]
    opset = int(rng.choice([7, 11, 13, 18]))
    named = np.array([a - rank if rng.integers(2) and opset >= 11 else a for a in axes], np.int64)
    by_input = opset >= (13 if op == "ReduceSum" else 18)
    over = tuple(axes) if axes else tuple(range(rank))
    if by_input and rng.integers(4) == 0:
        inputs.append(np.zeros(0, np.int64))
        attrs["noop_with_empty_axes"], over = 1, ()
    elif by_input and axes:
        inputs.append(named)
    elif axes:
        attrs["axes"] = [int(a) for a in named]
    v = x.astype(np.float64)
    y = REDUCE[op](v, over, keep)
    w.add(op.lower(), op, opset, inputs, [like(y, x)], attrs, tuple(range(rank)))


def softmaxes(w, rng):
    op = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax"]))
    rank = int(rng.integers(1, 5))
    x = f32(rng, *(int(rng.integers(1, 5)) for _ in range(rank)))
    opset = int(rng.choice([7, 11, 13]))
    axis = int(rng.integers(0 if opset < 11 else -rank, rank))
    flat = x.astype(np.float64)
    if opset < 13:
        flat = flat.reshape(math.prod(x.shape[:axis % rank]), -1)
    a = 1 if opset < 13 else axis
    e = np.exp(flat - flat.max(a, keepdims=True))
    y = e / e.sum(a, keepdims=True)
    if op == "LogSoftmax":
        y = np.log(y)
    if op == "Hardmax":
        best = np.expand_dims(flat.argmax(a), a)
        y = np.zeros_like(flat)
        np.put_along_axis(y, best, 1, a)
    w.add(op.lower(), op, opset, [x], [like(y.reshape(x.shape), x)], {"axis": axis},
          tuple(range(rank)))


def orders(w, rng):
    rank = int(rng.integers(1, 4))
    x = np.round(f32(rng, *(int(rng.integers(2, 7)) for _ in range(rank))) * 2)
    axis = int(rng.integers(-rank, rank))
    n = x.shape[axis]
    k, largest = int(rng.integers(1, n + 1)), bool(rng.integers(2))
    opset = int(rng.choice([7, 10, 11, 22]))
    if opset < 11:
        axis, largest = axis % rank, True
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(k), axis)
    attrs, inputs = {"axis": axis}, [x]
    if opset >= 11:
        attrs["largest"] = int(largest)
    if opset < 10:
        attrs["k"] = k
    else:
        inputs.append(np.array([k], np.int64))
    w.add("topk", "TopK", opset, inputs, [np.take_along_axis(x, order, axis), order], attrs,
          tuple(range(rank)))
    last, keep, greatest = (bool(rng.integers(2)) for _ in range(3))
    v = x if greatest else -x
    y = n - 1 - np.flip(v, axis).argmax(axis) if last else v.argmax(axis)
    attrs = {"axis": axis if opset >= 11 else axis % rank, "keepdims": int(keep)}
    if last:
        attrs["select_last_index"], opset = 1, max(opset, 12)
    w.add("arg", "ArgMax" if greatest else "ArgMin", opset, [x],
          [np.expand_dims(y, axis) if keep else y], attrs, tuple(range(rank)))
    back, exclusive = (bool(rng.integers(2)) for _ in range(2))
    v = np.flip(x, axis) if back else x
    y = np.cumsum(v, axis)
    y = y - v if exclusive else y
    w.add("cumsum", "CumSum", 14, [x, np.array(axis, np.int64)],
          [np.flip(y, axis) if back else y],
          {"exclusive": int(exclusive), "reverse": int(back)}, tuple(range(rank)))


# ---- norms, gemm -------------------------------------------------------------------------------------------

def norms(w, rng):
    n = int(rng.integers(1, 4))
    c, eps = 4, float(np.float32(1e-3))
    x = f32(rng, 3, c, *(int(rng.integers(2, 9)) for _ in range(n)))
    x += np.float32(rng.choice([0, 0, -300, 1e4, 1e5]))  # rows far from 0 keep their differences
    v, free = x.astype(np.float64), tuple(range(0, n + 2))
    spatial, side = tuple(range(2, n + 2)), [-1] + [1] * n

    def standard(t, axes):
        return (t - t.mean(axes, keepdims=True)) / np.sqrt(t.var(axes, keepdims=True) + eps)

    s, b, m = f32(rng, c), f32(rng, c), f32(rng, c) + np.float32(v.mean())
    var = np.abs(f32(rng, c)) + np.float32(0.1)
    y = (v - m.reshape(side)) / np.sqrt(var.astype(np.float64).reshape(side) + eps)
    y = y * s.reshape(side) + b.reshape(side)
    w.add("batchnorm", "BatchNormalization", int(rng.choice([7, 9, 14, 15])), [x, s, b, m, var],
          [like(y, x)], {"epsilon": eps}, (0,) + spatial)
    batch, keep = (0,) + spatial, float(np.float32(0.25))
    y = standard(v, batch) * s.reshape(side) + b.reshape(side)
    now = [keep * was + (1 - keep) * is_ for was, is_ in ((m, v.mean(batch)), (var, v.var(batch)))]
    w.add("batchnormtrain", "BatchNormalization", 15, [x, s, b, m, var],
          [like(y, x), like(now[0], x), like(now[1], x)],
          {"epsilon": eps, "momentum": keep, "training_mode": 1}, batch)
    y = (v - v.mean(batch, keepdims=True)) / v.std(batch, keepdims=True)
    w.add("meanvariancenorm", "MeanVarianceNormalization", 13, [x], [like(y, x)],
          {"axes": list(batch)}, batch)
    y = standard(v, spatial) * s.reshape(side) + b.reshape(side)
    w.add("instancenorm", "InstanceNormalization", 6 + int(rng.integers(2)) * 16, [x, s, b],
          [like(y, x)], {"epsilon": eps}, (0,) + spatial)
    groups, old = int(rng.choice([1, 2, 4])), bool(rng.integers(2))
    y = standard(v.reshape(3, groups, -1), 2).reshape(x.shape)
    if old:
        sg, bg = f32(rng, groups), f32(rng, groups)
        per = [np.repeat(t, c // groups).reshape(side) for t in (sg, bg)]
        y = y * per[0] + per[1]
        w.add("groupnorm", "GroupNormalization", 18, [x, sg, bg], [like(y, x)],
              {"epsilon": eps, "num_groups": groups}, (0,) + spatial)
    else:
        y = y * s.reshape(side) + b.reshape(side)
        w.add("groupnorm", "GroupNormalization", 21, [x, s, b], [like(y, x)],
              {"epsilon": eps, "num_groups": groups}, (0,) + spatial)
    axis = int(rng.integers(-(n + 2), n + 2))
    over = tuple(range(axis % (n + 2), n + 2))
    scale, shift = f32(rng, *x.shape[over[0]:]), f32(rng, *x.shape[over[0]:])
    mean = v.mean(over, keepdims=True)
    inv = 1 / np.sqrt(v.var(over, keepdims=True) + eps)
    w.add("layernorm", "LayerNormalization", 17, [x, scale, shift],
          [like((v - mean) * inv * scale + shift, x), like(mean, x), like(inv, x)],
          {"epsilon": eps, "axis": axis}, tuple(range(over[0])))
    size = int(rng.integers(1, 6))
    alpha, beta, bias = 0.01, 0.6, 1.5
    sums = np.zeros_like(v)
    for i in range(c):
        lo = max(0, i - (size - 1) // 2)
        sums[:, i] = (v[:, lo:i + size // 2 + 1] ** 2).sum(1)
    w.add("lrn", "LRN", 13, [x], [like(v / (bias + alpha / size * sums) ** beta, x)],
          {"size": size, "alpha": alpha, "beta": beta, "bias": bias}, free)


def gemms(w, rng):
    m, k, n = (int(rng.integers(1, 5)) for _ in range(3))
    ta, tb = (bool(rng.integers(2)) for _ in range(2))
    a, b = f32(rng, m, k), f32(rng, k, n)
    alpha, beta = (float(np.float32(rng.choice([1, 0.5]))) for _ in range(2))
    opset = int(rng.choice([7, 9, 11, 13]))
    c = f32(rng, *[(), (1,), (n,), (1, n), (m, 1), (m, n)][int(rng.integers(6))])
    y = alpha * (a.astype(np.float64) @ b) + beta * c
    inputs = [a.T if ta else a, b.T if tb else b, c]
    if opset >= 11 and rng.integers(2):
        inputs, y = inputs[:2], alpha * (a.astype(np.float64) @ b)
    inputs = [np.ascontiguousarray(t) for t in inputs]
    w.add("gemm", "Gemm", opset, inputs, [like(y, a)],
          {"alpha": alpha, "beta": beta, "transA": int(ta), "transB": int(tb)},
          (1 if ta else 0,) if len(inputs) < 3 or c.ndim < 2 or c.shape[0] == 1 else ())


# ---- resizing -----------------------------------------------------------------------------------------------

def integer_products(w, rng):
    """Products of 8 bits, long rows of the largest numbers among them, which f32 has no room for."""
    def drawn(shape, dtype):
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        lo, hi = ((least, most), (least, least + 1), (most - 1, most))[rng.integers(3)]
        return rng.integers(lo, hi + 1, shape).astype(dtype)

    m, n = (int(v) for v in rng.integers(1, 6, 2))
    k = int(rng.choice([1, 7, 256, 257, 600, 1100, 8193]))
    ta, tb = (rng.choice([np.int8, np.uint8]) for _ in range(2))
    a, b = drawn((m, k), ta), drawn((k, n), tb)
    za, zb = drawn((), ta), drawn((), tb)
    product = (a.astype(np.int64) - int(za)) @ (b.astype(np.int64) - int(zb))
    w.add("matmulinteger", "MatMulInteger", 10, [a, b, za, zb], [product.astype(np.int32)], {}, (0, 1),
          2 if rng.integers(2) else 1)


def coordinate(how, i, scale, size, out):
    if how == "asymmetric":
        return i / scale
    if how == "align_corners":
        return i * (size - 1) / (out - 1) if out > 1 else 0
    if how == "pytorch_half_pixel" and out <= 1:
        return 0
    return (i + 0.5) / scale - 0.5


def cubic(d, a=-0.75):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1
    return a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a if d < 2 else 0


def resize_line(v, out, scale, mode, how, near):
    """v [n, ...] along its first axis."""
    y = np.zeros((out,) + v.shape[1:])
    for i in range(out):
        at = coordinate(how, i, scale, len(v), out)
        if mode == "nearest":
            p = {"floor": math.floor(at), "ceil": math.ceil(at),
                 "round_prefer_floor": math.ceil(at - 0.5),
                 "round_prefer_ceil": math.floor(at + 0.5)}[near]
            y[i] = v[min(max(p, 0), len(v) - 1)]
            continue
        reach = 2 if mode == "cubic" else 1
        for p in range(math.floor(at) - reach + 1, math.floor(at) + reach + 1):
            weight = cubic(p - at) if mode == "cubic" else 1 - abs(p - at)
            y[i] += weight * v[min(max(p, 0), len(v) - 1)]
    return y


def resizes(w, rng):
    n = int(rng.integers(1, 3))
    x = f32(rng, 2, 2, *(int(rng.integers(2, 6)) for _ in range(n)))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    how = str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    near = str(rng.choice(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]))
    by_sizes = bool(rng.integers(2))
    scales = [1.0, 1.0] + [float(rng.choice([0.5, 1, 2, 3, 1.5])) for _ in range(n)]
    opset = int(rng.choice([11, 13, 18, 19]))
    out = [math.floor(m * s) for m, s in zip(x.shape, scales)]
    if by_sizes:
        out[2:] = [int(rng.integers(1, 9)) for _ in range(n)]
        scales = [o / m for o, m in zip(out, x.shape)]
    elif how == "align_corners" and any(m * s % 1 for m, s in zip(x.shape, scales)):
        return
    y = x.astype(np.float64)
    for a in range(2, n + 2):
        if scales[a] != 1 or out[a] != x.shape[a]:
            line = resize_line(np.moveaxis(y, a, 0), out[a], scales[a], mode, how, near)
            y = np.moveaxis(line, 0, a)
    attrs = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": near}
    inputs = [x, None if opset > 11 else np.zeros(0, np.float32)]
    if by_sizes:
        inputs += [None if opset > 11 else np.zeros(0, np.float32), np.array(out, np.int64)]
    else:
        inputs.append(np.array(scales, np.float32))
    free = () if by_sizes else (0,) + tuple(range(2, n + 2))
    w.add("resize", "Resize", opset, inputs, [like(y, x)], attrs, free)
    if not by_sizes and mode != "cubic":
        y = x.astype(np.float64)
        for a in range(2, n + 2):
            line = resize_line(np.moveaxis(y, a, 0), out[a], scales[a], mode, "asymmetric",
                               "floor")
            y = np.moveaxis(line, 0, a)
        old = bool(rng.integers(2))
        attrs = {"mode": mode}
        if old:
            attrs["scales"] = scales
        w.add("upsample", "Upsample", 7 if old else 9,
              [x] if old else [x, np.array(scales, np.float32)], [like(y, x)], attrs, free)
        w.add("resize10", "Resize", 10, [x, np.array(scales, np.float32)], [like(y, x)],
              {"mode": mode}, free)


def resized_like(w, rng):
    """To the sizes of another operand, all of them free."""
    x, y = (f32(rng, 2, 3, int(rng.integers(2, 7)), int(rng.integers(2, 7))) for _ in range(2))
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    how = str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    nodes = [helper.make_node("Shape", ["x"], ["sx"]), helper.make_node("Shape", ["y"], ["sy"]),
             helper.make_node("Slice", ["sx", "0", "2"], ["nc"]),
             helper.make_node("Slice", ["sy", "2", "4"], ["hw"]),
             helper.make_node("Concat", ["nc", "hw"], ["sizes"], axis=0),
             helper.make_node("Resize", ["x", "", "", "sizes"], ["z"], mode=mode,
                              coordinate_transformation_mode=how, nearest_mode="floor"),
             helper.make_node("Add", ["z", "y"], ["out"])]
    inits = [numpy_helper.from_array(np.array([k], np.int64), str(k)) for k in (0, 2, 4)]
    z = x.astype(np.float64)
    for a in (2, 3):
        line = resize_line(np.moveaxis(z, a, 0), y.shape[a], y.shape[a] / x.shape[a], mode, how,
                           "floor")
        z = np.moveaxis(line, 0, a)
    w.count += 1
    if not w.only or w.only in "resized_like":
        w.model("resized_like_%03d" % w.count, 13, nodes,
                [("x", ["n", "c", "h", "w"], x), ("y", ["n", "c", "h2", "w2"], y)], inits,
                [("out", like(z + y, x))])


FORMS = [(pools, 40), (convs, 24), (transposed, 30), (cells, 40), (reductions, 40),
         (softmaxes, 20), (orders, 12), (norms, 8), (gemms, 12), (resizes, 30),
         (resized_like, 8), (integer_products, 24)]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("--engine", default="reference")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--only")
    args.add_argument("--keep")
    args.add_argument("--share", type=float, default=1.0, help="of the cases that are drawn")
    args = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = args.keep or folder
        shutil.rmtree(os.path.join(folder, "onnx-backend-tests"), ignore_errors=True)
        writer = Writer(os.path.join(folder, "onnx-backend-tests"), args.only)
        for k, (draw, n) in enumerate(FORMS):
            for i in range(max(1, int(n * args.share))):
                draw(writer, np.random.default_rng([args.seed, k, i]))
        environment = dict(os.environ, TAPIR_SHARED=folder)
        result = subprocess.run([args.program, "--engine", args.engine], env=environment,
                                check=False)
        print("seed %d, %s; repeat with --only NAME --keep FOLDER" % (args.seed, args.engine))
        return 1 if result.returncode == 77 else result.returncode


if __name__ == "__main__":
    sys.exit(main())
