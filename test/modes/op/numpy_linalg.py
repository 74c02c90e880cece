"""The functions of linalg.h in NumPy."""

import numpy as np

from numpy_types import T, meet


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


NAMES = {
    "tp_cholesky": on_f64(cholesky), "tp_inverse": on_f64(np.linalg.inv), "tp_det": on_f64(np.linalg.det),
    "tp_solve": system(np.linalg.solve), "tp_solve_triangular": system(triangular), "factors": on_f64(lu_factors),
    "sign_and_log": on_f64(lambda v: np.stack(np.linalg.slogdet(v))),
    "away": on_f64(lambda v: v / 4 + np.eye(v.shape[-1])), "small": on_f64(lambda v: v / 64 + np.eye(v.shape[-1])),
    "definite": on_f64(lambda v: v @ turned(v) + np.eye(v.shape[-2])),
    "q_and_r": on_f64(lambda v: squares(np.linalg.qr(v))), "eigen": on_f64(lambda v: squares(np.linalg.eigh(v))),
    "values_of": on_f64(np.linalg.eigvalsh), "rebuilt": on_f64(lambda v: v),
    "singular": on_f64(lambda v: squares(np.linalg.svd(v, full_matrices=False))),
    "symmetric": on_f64(lambda v: v + turned(v)), "tp_lstsq": system(least_squares),
    "tp_fft": complex_fft(np.fft.fft), "tp_ifft": complex_fft(np.fft.ifft), "tp_rfft": tp_rfft, "tp_irfft": tp_irfft,
}
