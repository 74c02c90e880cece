#!/usr/bin/python3
"""Linear algebra and Fourier transforms beside NumPy's: errors and times of the same matrices.

    OPENBLAS_NUM_THREADS=1 bench/linalg.py BUILD/libtapir.so [FUNCTION...]

A row has the function, type, size, how many matrices, for each error ours and NumPy's, the two times of a call, the best of
some, and their quotient. NumPy computes f32 in f64; where SciPy is there, its errors in f32 stand for NumPy's."""

import ctypes as C
import sys
import time

import numpy as np

try:
    import scipy.linalg as sl
except ImportError:
    sl = None

SIZES = (1, 2, 3, 7, 16, 64, 128, 256, 512)
LENGTHS = (1, 2, 3, 7, 16, 64, 128, 256, 512, 127, 257, 509, 1000, 4096)
LIB = C.CDLL(sys.argv[1])
TYPES = {np.float32: 9, np.float64: 10}
for name in ("tp_open", "tp_tensor_new", "tp_cholesky", "tp_solve", "tp_inverse", "tp_det", "tp_lstsq", "tp_fft", "tp_rfft",
             "tp_solve_triangular", "tp_slice"):
    getattr(LIB, name).restype = C.c_void_p
TP = C.c_void_p(LIB.tp_open(None))
LIB.tp_threads(TP, 1)


def tensor(a):
    a = np.ascontiguousarray(a)
    shape = (C.c_int64 * max(1, a.ndim))(*a.shape)
    return C.c_void_p(LIB.tp_tensor_new(TP, TYPES[a.dtype.type], a.ndim, shape, C.c_void_p(a.ctypes.data)))


def value(t, shape, dtype):
    out = np.empty(shape, dtype)
    assert LIB.tp_read(t, C.c_void_p(out.ctypes.data), C.c_size_t(out.nbytes)) == 0
    return out.astype(np.float64)


def one(f, *args):
    return [C.c_void_p(getattr(LIB, f)(*args))]


def several(f, n, *args):
    out = [C.c_void_p() for _ in range(n)]
    assert getattr(LIB, f)(*args, *[C.byref(o) for o in out]) == 0
    return out


def timed(f):
    best, end = 1e9, time.perf_counter() + 0.2
    while True:
        LIB.tp_scope_begin(TP)
        start = time.perf_counter()
        f()
        now = time.perf_counter()
        LIB.tp_scope_end(TP)
        best = min(best, now - start)
        if now > end:
            return best


def turned(a):
    return np.swapaxes(a, -1, -2)


def off(a, b, scale):
    return float(np.abs(a - b).max() / max(float(np.abs(scale).max()), 1e-300)) if a.size else 0.0


def unitary(q):
    return off(turned(q) @ q, np.eye(q.shape[-1]), np.ones(1))


def each(f):
    def run(a, *more):
        flat = [f(m, *[b[i] for b in more]) for i, m in enumerate(a)]
        return tuple(np.stack(p) for p in zip(*flat)) if isinstance(flat[0], tuple) else np.stack(flat)
    return run


def rows():
    """name, what is drawn, ours, NumPy's, SciPy's, shapes of results, errors"""
    def definite(rng, b, n):
        a = rng.standard_normal((b, n, n))
        return (a @ turned(a) + n * np.eye(n),)

    def two(rng, b, n):
        return rng.standard_normal((b, n, n)), rng.standard_normal((b, n, n))

    def some(rng, b, n):
        return (rng.standard_normal((b, n, n)),)

    def symmetric(rng, b, n):
        a = rng.standard_normal((b, n, n))
        return (a + turned(a),)

    def square(a, *more):
        return [a.shape]

    no, sl_ = C.c_bool(False), sl
    yield ("cholesky", definite, lambda t, a: one("tp_cholesky", t, no), np.linalg.cholesky,
           sl_ and each(lambda a: sl.cholesky(a, lower=True)), square, lambda r, a: [off(r[0] @ turned(r[0]), a, a)])
    yield ("solve", two, lambda t, u, *x: one("tp_solve", t, u), np.linalg.solve, sl_ and each(sl.solve),
           square, lambda r, a, b: [off(a @ r[0], b, np.abs(a).max() * np.abs(r[0]).max(axis=(-1, -2)) * a.shape[-1])])
    yield ("inverse", definite, lambda t, a: one("tp_inverse", t), np.linalg.inv, sl_ and each(sl.inv), square,
           lambda r, a: [off(a @ r[0], np.eye(a.shape[-1]), np.ones(1))])
    yield ("det", some, lambda t, a: one("tp_det", t), np.linalg.det, sl_ and each(sl.det), lambda a: [a.shape[:1]],
           lambda r, a: [off(r[0], np.linalg.det(a), np.linalg.det(a))])
    yield ("qr", some, lambda t, a: several("tp_qr", 2, t), np.linalg.qr,
           sl_ and each(lambda a: sl.qr(a, mode="economic")), lambda a: [a.shape, a.shape],
           lambda r, a: [off(r[0] @ r[1], a, a), unitary(r[0])])
    yield ("eigh", symmetric, lambda t, a: several("tp_eigh", 2, t), np.linalg.eigh, sl_ and each(sl.eigh),
           lambda a: [a.shape[:2], a.shape], lambda r, a: [off(r[1] * r[0][:, None] @ turned(r[1]), a, a), unitary(r[1])])
    yield ("svd", some, lambda t, a: several("tp_svd", 3, t), lambda a: np.linalg.svd(a, full_matrices=False),
           sl_ and each(lambda a: sl.svd(a, full_matrices=False)), lambda a: [a.shape, a.shape[:2], a.shape],
           lambda r, a: [off(r[0] * r[1][:, None] @ r[2], a, a), unitary(r[0]), unitary(turned(r[2]))])


def report(name, dtype, n, b, ours, theirs, times):
    both = "  ".join("%.1e %.1e" % e for e in zip(ours, theirs))
    print("%-9s %-8s %4d x%-5d  %-42s %9.1f %9.1f us  %5.2f"
          % (name, dtype.__name__, n, b, both, times[0] * 1e6, times[1] * 1e6, times[0] / times[1]), flush=True)


def as_list(r):
    return [np.asarray(x, np.float64) for x in (r if isinstance(r, tuple) else (r,))]


def matrices(wanted):
    for name, draw, ours, theirs, in_f32, shapes, errors in rows():
        if wanted and name not in wanted:
            continue
        for dtype in TYPES:
            for n in SIZES:
                b = max(1, min(1000, 200000 // (n * n * n)))
                x = [a.astype(dtype) for a in draw(np.random.default_rng(n), b, n)]
                t, wide = [tensor(a) for a in x], [a.astype(np.float64) for a in x]
                got = [value(r, s, dtype) for r, s in zip(ours(*t, *x[len(t):]) if len(t) > 1 else ours(t[0], x[0]), shapes(*x))]
                other = in_f32 if dtype == np.float32 and in_f32 else theirs
                report(name, dtype, n, b, errors(got, *wide), errors(as_list(other(*x)), *wide),
                       (timed(lambda: ours(*t) if len(t) > 1 else ours(t[0], x[0])), timed(lambda: theirs(*x))))


def transforms(wanted):
    for name in ("fft", "rfft"):
        if wanted and name not in wanted:
            continue
        for dtype in TYPES:
            for n in LENGTHS:
                b = max(1, 20000 // n)
                x = np.random.default_rng(n).standard_normal((b, n, 2) if name == "fft" else (b, n)).astype(dtype)
                c = x.view(np.complex64 if dtype == np.float32 else np.complex128)[..., 0] if name == "fft" else x
                theirs = getattr(np.fft, name)
                exact, t = theirs(c.astype(np.clongdouble if name == "fft" else np.longdouble)), tensor(x)
                pairs = value(one("tp_" + name, t, 1)[0], exact.shape + (2,), dtype)
                norm = np.sqrt((np.abs(exact) ** 2).mean())
                error = [float(np.sqrt((np.abs(y - exact) ** 2).mean()) / norm)
                         for y in (pairs[..., 0] + 1j * pairs[..., 1], theirs(c))]
                report(name, dtype, n, b, error[:1], error[1:],
                       (timed(lambda: one("tp_" + name, t, 1)), timed(lambda: theirs(c))))


if __name__ == "__main__":
    print("numpy %s, errors ours NumPy's ..., times ours NumPy's, quotient" % np.__version__)
    matrices(sys.argv[2:])
    transforms(sys.argv[2:])
