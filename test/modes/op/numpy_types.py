"""Values, element types and arguments of the cases in NumPy."""

import numpy as np

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


NAMES = {**DTYPES,
    "true": True, "false": False, "NULL": None, "INFINITY": np.inf, "TP_END": END, "TP_ALL": [], "TP_SCALAR": [],
    "AXES": as_list, "TP_DIMS": as_list, "LIST": as_list, "XS": as_list, "WINDOW": window, "KERNEL": part("kernel"),
    "STRIDE": part("stride"), "PAD_LO": part("pad_lo"), "PAD_HI": part("pad_hi"), "DILATION": part("dilation"),
    "GROUPS": part("groups"), "COUNT_PAD": ("count_pad", True), "tp": None,
}
