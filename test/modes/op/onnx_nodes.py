#!/usr/bin/python3
"""The ONNX project's own cases of single ops, through the shared library, as a foreign language
calls it.

    onnx_nodes.py LIBRARY [FOLDER [NAME]]

FOLDER holds test_*/model.onnx and test_*/test_data_set_0/*.pb ($TAPIR_SHARED/onnx-backend-tests/node
when it is not given). Cases of ops, types and attributes that the vocabulary has no word for are
counted by reason, not failed. Exit code 77: NumPy or the folder is missing."""

import ctypes as ct
import os
import struct
import sys

sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(77)

np.seterr(all="ignore")

# ---- protobuf -----------------------------------------------------------------------------------


def varint(b, at):
    v = shift = 0
    while True:
        v |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return v, at


def signed(v):
    return v - (1 << 64) if v >> 63 else v


def fields(b):
    """{number: [values]}: integers, or bytes."""
    out, at = {}, 0
    while at < len(b):
        tag, at = varint(b, at)
        kind = tag & 7
        if kind == 0:
            v, at = varint(b, at)
        elif kind == 2:
            n, at = varint(b, at)
            v, at = b[at:at + n], at + n
        else:
            n = 8 if kind == 1 else 4
            v, at = b[at:at + n], at + n
        out.setdefault(tag >> 3, []).append(v)
    return out


def numbers(values):
    """Repeated integers, packed or not."""
    out = []
    for v in values:
        if isinstance(v, int):
            out.append(signed(v))
            continue
        at = 0
        while at < len(v):
            one, at = varint(v, at)
            out.append(signed(one))
    return out


TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64,
         9: np.bool_, 11: np.float64, 12: np.uint32, 13: np.uint64}


class Skip(Exception):
    pass


def tensor(b):
    f = fields(b)
    kind = f.get(2, [0])[0]
    if kind not in TYPES:
        raise Skip("element types that tapir does not have")
    shape, dtype = numbers(f.get(1, [])), np.dtype(TYPES[kind])
    if 9 in f:
        return np.frombuffer(f[9][0], dtype).reshape(shape).copy()
    if 4 in f:
        return np.frombuffer(b"".join(f[4]), np.float32).reshape(shape).copy()
    if 10 in f and kind == 11:
        return np.frombuffer(b"".join(f[10]), np.float64).reshape(shape).copy()
    v = np.array(numbers(f.get(5, []) + f.get(7, []) + f.get(11, [])), dtype)
    if v.size != np.prod(shape, dtype=int):
        raise Skip("sequences and optionals")
    return v.reshape(shape)


def attributes(node):
    out = {}
    for b in node.get(5, []):
        f = fields(b)
        name = f[1][0].decode()
        kind = f.get(20, [0])[0]
        if kind == 1:
            out[name] = struct.unpack("<f", f.get(2, [b"\0\0\0\0"])[0])[0]
        elif kind == 2:
            out[name] = signed(f.get(3, [0])[0])
        elif kind == 3:
            out[name] = f.get(4, [b""])[0].decode()
        elif kind == 4:
            out[name] = tensor(f[5][0])
        elif kind == 7:
            out[name] = numbers(f.get(8, []))
        else:
            raise Skip("attributes of other kinds")
    return out


# ---- the library --------------------------------------------------------------------------------

DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
          np.float32, np.float64]
NUMBER = {np.dtype(t): i for i, t in enumerate(DTYPES)}
P, I, L, D, B = ct.c_void_p, ct.c_int, ct.c_int64, ct.c_double, ct.c_bool


class Window(ct.Structure):
    _fields_ = [(n, L * 3) for n in ("kernel", "stride", "pad_lo", "pad_hi", "dilation")]
    _fields_ += [("groups", L), ("count_pad", B)]


class Library:
    def __init__(self, path):
        self.lib = ct.CDLL(path)
        self.lib.tp_open.restype = P
        self.lib.tp_open.argtypes = [P]
        self.lib.tp_close.argtypes = [P]
        self.tp = self.lib.tp_open(None)
        self.fn("tp_data", P)

    def close(self):
        self.lib.tp_close(self.tp)

    def fn(self, name, *types, result=P):
        f = getattr(self.lib, name)
        f.restype, f.argtypes = result, list(types)
        return f

    def call(self, name, *args):
        """Arguments by their Python types: tensors are ints (addresses), lists a count and numbers."""
        types, values = [], []
        for a in args:
            if isinstance(a, bool):
                types.append(B)
            elif isinstance(a, float):
                types.append(D)
            elif isinstance(a, Axis):
                types.append(I)
                a = a.v
            elif isinstance(a, list):
                types += [I, P]
                values.append(len(a))
                a = (L * max(1, len(a)))(*a)
                a = ct.cast(a, P) if a else None
            elif isinstance(a, tuple):  # numbers without a count
                types.append(P)
                a = ct.cast((L * max(1, len(a)))(*a), P)
            elif isinstance(a, Window):
                types.append(P)
                self.kept = a
                a = ct.addressof(a)
            elif isinstance(a, Long):
                types.append(L)
                a = a.v
            else:
                types.append(P)
            values.append(a)
        return self.fn(name, *types)(*values)

    def put(self, v):
        v = np.ascontiguousarray(v).reshape(np.shape(v))
        shape = (L * max(1, v.ndim))(*v.shape)
        f = self.fn("tp_tensor_new", P, I, I, P, P)
        return f(self.tp, NUMBER[v.dtype], v.ndim, ct.cast(shape, P), v.ctypes.data)

    def get(self, t):
        if self.fn("tp_failed", P, result=B)(t):
            raise RuntimeError(self.fn("tp_error_text", P, result=ct.c_char_p)(t).decode())
        rank = self.fn("tp_rank", P, result=I)(t)
        size = self.fn("tp_size", P, I, result=L)
        out = np.zeros([size(t, i) for i in range(rank)],
                       DTYPES[self.fn("tp_dtype_of", P, result=I)(t)])
        if self.fn("tp_read", P, P, ct.c_size_t, result=I)(t, out.ctypes.data, out.nbytes) != 0:
            raise RuntimeError("tp_read failed")
        return out


class Axis:
    def __init__(self, v):
        self.v = int(v)


class Long:
    def __init__(self, v):
        self.v = int(v)


# ---- ops ----------------------------------------------------------------------------------------


class Node:
    def __init__(self, lib, attrs, values):
        self.lib, self.attrs, self.v = lib, attrs, values
        self.x = [None if v is None else lib.put(v) for v in values]

    def __getattr__(self, name):
        return lambda *a: self.lib.call("tp_" + name, *a)

    def attr(self, name, default=None):
        return self.attrs.get(name, default)

    def only(self, *names):
        for name in self.attrs:
            if name not in names:
                raise Skip("attribute " + name)

    def numbers(self, i, name):
        """From operand i or, in old models, an attribute; None when missing."""
        if i < len(self.v) and self.v[i] is not None:
            return [int(k) for k in np.ravel(self.v[i])]
        return self.attr(name)


def one(name, **more):
    def run(n):
        n.only(*more)
        return getattr(n, name)(*n.x)
    return run


def folded(name):
    def run(n):
        n.only()
        y = n.x[0]
        for x in n.x[1:]:
            y = getattr(n, name)(y, x)
        return y
    return run


def reduce_of(name, before=None, after=None):
    def run(n):
        n.only("axes", "keepdims", "noop_with_empty_axes")
        axes = n.numbers(1, "axes") or []
        if not axes and n.attr("noop_with_empty_axes", 0):
            raise Skip("noop_with_empty_axes")
        x = before(n, n.x[0]) if before else n.x[0]
        y = getattr(n, name)(x, axes, bool(n.attr("keepdims", 1)))
        return after(n, y) if after else y
    return run


def arg_of(name):
    def run(n):
        n.only("axis", "keepdims", "select_last_index")
        if n.attr("select_last_index", 0):
            raise Skip("select_last_index")
        return getattr(n, name)(n.x[0], Axis(n.attr("axis", 0)), bool(n.attr("keepdims", 1)))
    return run


def along(name, default=-1):
    def run(n):
        n.only("axis")
        return getattr(n, name)(n.x[0], Axis(n.attr("axis", default)))
    return run


def cumsum(n):
    n.only("exclusive", "reverse")
    return n.cumsum(n.x[0], Axis(n.v[1]), bool(n.attr("exclusive", 0)), bool(n.attr("reverse", 0)))


def mod(n):
    return n.fmod(*n.x) if n.attr("fmod", 0) else n.mod(*n.x)


def power(n):
    if n.v[0].dtype != n.v[1].dtype and n.v[0].dtype.kind == "i":
        raise Skip("pow of mixed types gives the first one's")
    y = n.pow(*n.x)
    return n.cast(y, Axis(NUMBER[n.v[0].dtype]))


def concat(n):
    xs = (P * len(n.x))(*n.x)
    return n.lib.fn("tp_concat", I, P, I)(len(n.x), ct.cast(xs, P), n.attr("axis"))


def slices(n):
    starts, ends = n.numbers(1, "starts"), n.numbers(2, "ends")
    axes = n.numbers(3, "axes") or list(range(len(starts)))
    steps = n.numbers(4, "steps") or [1] * len(starts)
    y = n.x[0]
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = n.v[0].shape[axis]
        first, last, _ = slice(start, end, step).indices(size)
        count = len(range(first, last, step))
        if count == 0:
            y = n.slice(y, Axis(axis), Long(0), Long(0), Long(1))
            continue
        stop = last if last >= 0 else 2 ** 63 - 1  # to the end, backwards
        y = n.slice(y, Axis(axis), Long(first), Long(stop), Long(step))
    return y


def pad(n):
    if n.attr("mode", "constant") != "constant" or (len(n.v) > 3 and n.v[3] is not None):
        raise Skip("pad of other modes or of some axes")
    pads = n.numbers(1, "pads")
    half = len(pads) // 2
    if min(pads) < 0:
        raise Skip("negative padding")
    value = float(n.v[2]) if len(n.v) > 2 and n.v[2] is not None else 0.0
    return n.pad(n.x[0], Axis(half), tuple(pads[:half]), tuple(pads[half:]), value)


def expand(n):
    want = np.broadcast_shapes(n.v[0].shape, tuple(int(k) for k in n.v[1]))
    return n.broadcast(n.x[0], list(want))


def reshape(n):
    if n.attr("allowzero", 0):
        raise Skip("allowzero")
    shape = [n.v[0].shape[i] if k == 0 else int(k) for i, k in enumerate(n.v[1])]
    return n.reshape(n.x[0], shape)


def to_shape(f):
    """Squeeze, Unsqueeze: what NumPy makes of the shape."""
    def run(n):
        axes = n.numbers(1, "axes")
        return n.reshape(n.x[0], list(f(n.v[0], None if axes is None else tuple(axes)).shape))
    return run


def scatter_elements(n):
    n.only("axis", "reduction")
    if n.attr("reduction", "none") != "add":
        raise Skip("scatter of elements other than adding")
    return n.put_along_add(n.x[0], n.x[1], n.x[2], Axis(n.attr("axis", 0)))


def one_hot(n):
    axis, depth = n.attr("axis", -1), int(np.ravel(n.v[1])[0])
    if n.v[0].dtype.kind == "f":
        raise Skip("one-hot of floats")
    off, on = n.v[2]
    y = n.one_hot(n.x[0], Long(depth), Axis(NUMBER[np.dtype(np.bool_)]))
    rank = n.v[0].ndim
    order = list(range(rank))
    order.insert(axis % (rank + 1), rank)
    y = n.transpose(y, order)
    return n.where(y, n.lib.put(np.array(on)), n.lib.put(np.array(off)))


def window(n, kernel):
    spatial = len(kernel)
    if n.attr("auto_pad", "NOTSET") != "NOTSET" or n.attr("ceil_mode", 0) or spatial > 3:
        raise Skip("automatic padding, rounding up, or four axes")
    if n.attr("storage_order", 0):
        raise Skip("storage_order")
    w = Window()
    pads = n.attr("pads", [0] * 2 * spatial)
    for i in range(spatial):
        w.kernel[i] = kernel[i]
        w.stride[i] = n.attr("strides", [1] * spatial)[i]
        w.dilation[i] = n.attr("dilations", [1] * spatial)[i]
        w.pad_lo[i], w.pad_hi[i] = pads[i], pads[spatial + i]
    w.groups = n.attr("group", 1)
    w.count_pad = bool(n.attr("count_include_pad", 0))
    return w


def conv(n):
    y = n.conv(n.x[0], n.x[1], window(n, n.v[1].shape[2:]))
    if len(n.x) > 2:
        bias = n.reshape(n.x[2], [-1] + [1] * (n.v[0].ndim - 2))
        y = n.add(y, bias)
    return y


def pool(name):
    def run(n):
        if n.v[0].dtype.kind != "f":
            raise Skip("pooling of integers")
        return getattr(n, name)(n.x[0], window(n, n.attr("kernel_shape")))
    return run


def clip(n):
    if len(n.v) > 1 and n.v[0].dtype.kind != "f":
        raise Skip("clip of integers")
    lo = float(n.v[1]) if len(n.v) > 1 and n.v[1] is not None else -np.inf
    hi = float(n.v[2]) if len(n.v) > 2 and n.v[2] is not None else np.inf
    return n.clip(n.x[0], float(lo), float(hi))


def cast(n):
    if n.attr("to") not in TYPES:
        raise Skip("element types that tapir does not have")
    return n.cast(n.x[0], Axis(NUMBER[np.dtype(TYPES[n.attr("to")])]))


def layer_norm(n):
    if n.attr("axis", -1) % n.v[0].ndim != n.v[0].ndim - 1:
        raise Skip("layer norm over several axes")
    bias = n.x[2] if len(n.x) > 2 else None
    return n.layer_norm(n.x[0], n.x[1], bias, float(n.attr("epsilon", 1e-5)))


def gelu(n):
    return n.gelu(n.x[0]) if n.attr("approximate", "none") == "none" else n.gelu_tanh(n.x[0])


def with_numbers(name, *attributes):
    """Numbers that the operator has as attributes, each with its default."""
    def run(n):
        n.only(*[k for k, _ in attributes])
        return getattr(n, name)(n.x[0], *[float(n.attr(k, v)) for k, v in attributes])
    return run


def gather(n):
    return n.gather(n.x[0], n.x[1], Axis(n.attr("axis", 0)))


OPS = {
    "Add": one("add"), "Sub": one("sub"), "Mul": one("mul"), "Div": one("div"), "Pow": power,
    "Min": folded("min"), "Max": folded("max"), "Sum": folded("add"), "Mod": mod,
    "Abs": one("abs"), "Neg": one("neg"), "Exp": one("exp"), "Log": one("log"),
    "Sqrt": one("sqrt"), "Sin": one("sin"), "Cos": one("cos"), "Tanh": one("tanh"),
    "Sigmoid": one("sigmoid"), "Erf": one("erf"), "Floor": one("floor"), "Ceil": one("ceil"),
    "Round": one("round"), "Sign": one("sign"), "Relu": one("relu"), "Not": one("not"),
    "Equal": one("eq"), "Less": one("lt"), "LessOrEqual": one("le"), "Greater": one("gt"),
    "GreaterOrEqual": one("ge"), "And": one("and"), "Or": one("or"), "Xor": one("xor"),
    "BitwiseAnd": one("and"), "BitwiseOr": one("or"), "BitwiseXor": one("xor"),
    "BitwiseNot": one("not"), "Where": one("where"), "Identity": one("contiguous"),
    "ReduceSum": reduce_of("sum"), "ReduceProd": reduce_of("prod"), "ReduceMean": reduce_of("mean"),
    "ReduceMax": reduce_of("reduce_max"), "ReduceMin": reduce_of("reduce_min"),
    "ReduceL1": reduce_of("sum", lambda n, x: n.abs(x)),
    "ReduceL2": reduce_of("sum", lambda n, x: n.square(x), lambda n, y: n.sqrt(y)),
    "ReduceSumSquare": reduce_of("sum", lambda n, x: n.square(x)),
    "ReduceLogSum": reduce_of("sum", None, lambda n, y: n.log(y)),
    "ReduceLogSumExp": reduce_of("sum", lambda n, x: n.exp(x), lambda n, y: n.log(y)),
    "ArgMax": arg_of("argmax"), "ArgMin": arg_of("argmin"), "CumSum": cumsum,
    "MatMul": one("matmul"), "Softmax": along("softmax"), "LogSoftmax": along("log_softmax"),
    "Flatten": lambda n: n.flatten(n.reshape(n.x[0], [int(np.prod(n.v[0].shape[:n.attr("axis", 1)])), -1]), Axis(1)),
    "Transpose": lambda n: n.transpose(n.x[0], n.attr("perm", [])), "Reshape": reshape,
    "Squeeze": to_shape(np.squeeze), "Unsqueeze": to_shape(lambda v, a: np.expand_dims(v, a)),
    "Expand": expand, "Slice": slices, "Concat": concat, "Pad": pad, "Gather": gather,
    "GatherElements": lambda n: n.take_along(n.x[0], n.x[1], Axis(n.attr("axis", 0))),
    "ScatterElements": scatter_elements, "OneHot": one_hot, "Conv": conv,
    "MaxPool": pool("max_pool"), "AveragePool": pool("avg_pool"), "Clip": clip, "Cast": cast,
    "LayerNormalization": layer_norm, "Gelu": gelu, "Swish": with_numbers("swish", ("alpha", 1)),
    "Acos": one("acos"), "Acosh": one("acosh"), "Asin": one("asin"), "Asinh": one("asinh"),
    "Atan": one("atan"), "Atanh": one("atanh"), "Cosh": one("cosh"), "Sinh": one("sinh"), "Tan": one("tan"),
    "Reciprocal": one("reciprocal"), "IsNaN": one("isnan"), "IsInf": one("isinf"), "PRelu": one("prelu"),
    "Softplus": one("softplus"), "Softsign": one("softsign"), "Mish": one("mish"), "HardSwish": one("hardswish"),
    "Elu": with_numbers("elu", ("alpha", 1)), "Celu": with_numbers("celu", ("alpha", 1)),
    "LeakyRelu": with_numbers("leaky_relu", ("alpha", 0.01)),
    "ThresholdedRelu": lambda n: n.threshold(n.x[0], float(n.attr("alpha", 1)), 0.0),
    "Shrink": with_numbers("shrink", ("lambd", 0.5), ("bias", 0)),
}

# ---- cases --------------------------------------------------------------------------------------


def run_case(library, folder):
    """None when it agrees, else why not; Skip when it is not for us."""
    with open(os.path.join(folder, "model.onnx"), "rb") as f:
        graph = fields(fields(f.read())[7][0])
    if len(graph.get(1, [])) != 1 or graph.get(5):
        raise Skip("several nodes or constants")
    node = fields(graph[1][0])
    op = node[4][0].decode()
    if op not in OPS:
        raise Skip("ops without a word here")
    attrs = attributes(node)
    data = os.path.join(folder, "test_data_set_0")
    values, given = [], 0
    for name in node.get(1, []):
        if not name:
            values.append(None)
            continue
        with open(os.path.join(data, "input_%d.pb" % given), "rb") as f:
            values.append(tensor(f.read()))
        given += 1
    if len(node.get(2, [])) > 1 and op != "LayerNormalization":
        raise Skip("several results")
    with open(os.path.join(data, "output_0.pb"), "rb") as f:
        want = tensor(f.read())
    if any(v is not None and v.dtype.kind == "f" and v.ndim > 8 for v in values):
        raise Skip("more than 8 axes")
    got = library.get(OPS[op](Node(library, attrs, values)))
    if got.dtype != want.dtype or got.shape != want.shape:
        return "%s%s, not %s%s" % (got.dtype, list(got.shape), want.dtype, list(want.shape))
    if want.dtype.kind != "f":
        same = got == want
    else:  # what ONNX itself allows
        same = np.isclose(got, want, rtol=1e-3, atol=1e-5 if op in SUMS else 1e-7, equal_nan=True)
    if np.all(same):
        return None
    at = tuple(np.argwhere(~np.atleast_1d(same))[0]) if same.ndim else ()
    return "first at %s: %r, not %r" % (list(map(int, at)), got[at], want[at])


SUMS = {"Conv", "MatMul", "ReduceSum", "ReduceMean", "ReduceLogSum", "CumSum", "LayerNormalization",
        "Gelu", "LogSoftmax", "ReduceLogSumExp", "AveragePool", "Erf", "Sin", "Cos", "Tanh"}


def main():
    shared = os.environ.get("TAPIR_SHARED", "../shared")
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(shared, "onnx-backend-tests", "node")
    if not os.path.isdir(folder):
        print("skipped: %s is not there" % folder)
        return 77
    passed = failed = 0
    reasons = {}
    for name in sorted(os.listdir(folder)):
        if len(sys.argv) > 3 and name != sys.argv[3]:
            continue
        library = Library(sys.argv[1])
        try:
            why = run_case(library, os.path.join(folder, name))
        except Skip as e:
            reasons[str(e)] = reasons.get(str(e), 0) + 1
            continue
        except RuntimeError as e:
            why = str(e)
        finally:
            library.close()
        passed += not why
        failed += bool(why)
        if why and failed <= 40:
            print("FAILED %s: %s\n    repeat: %s %s %s %s"
                  % (name, why, os.path.abspath(__file__), sys.argv[1], folder, name))
    for reason, n in sorted(reasons.items()):
        print("left out: %4d: %s" % (n, reason))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
