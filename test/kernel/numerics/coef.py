#!/usr/bin/env python3
"""Polynomial coefficients of the math functions in src/kernel (needs mpmath).

    coef.py [name...]      prints the coefficients and the bound of each approximation

Each row below says: minimise the maximum of |w(x) (f(x) - sum c_k x^k)| over [a, b]. Solved by
the Remez exchange on a dense Chebyshev grid; then the coefficients are rounded to the target
format one by one, lowest power first, the others being fitted again each time. QUOTIENTS are likewise
of f - P(x) / Q(x), Q(0) = 1, by least squares that are weighted anew (Lawson).
"""
import sys
from mpmath import (mp, mpf, matrix, lu_solve, pi, cos, sin, exp, expm1, log, sqrt, atanh, erf, erfc, erfinv, frexp, ldexp, nint,
                    polyval, tanh)

mp.dps = 50


def rounded(x, bits):
    m, e = frexp(mpf(x))
    return ldexp(nint(ldexp(m, bits)), e - bits)


def safe(f, w):
    return lambda x: f(x) if w(x) != 0 else mpf(0)


def remez(f, w, a, b, powers, grid=600):
    """Returns (coefficients, largest weighted error)."""
    f = safe(f, w)
    xs = [(a + b) / 2 + (b - a) / 2 * cos(pi * (grid - i) / grid) for i in range(grid + 1)]
    pts = [(x, f(x), w(x)) for x in xs if w(x) != 0]
    n = len(powers)
    ref = [pts[(len(pts) - 1) * i // n] for i in range(n + 1)]
    for _ in range(30):
        A = matrix(n + 1, n + 1)
        y = matrix(n + 1, 1)
        for i, (x, fx, wx) in enumerate(ref):
            for j, p in enumerate(powers):
                A[i, j] = x**p
            A[i, n] = (-1) ** i / wx
            y[i] = fx
        s = lu_solve(A, y)
        c = [s[j] for j in range(n)]
        err = []
        for x, fx, wx in pts:
            v = mpf(0)
            for j in range(n):
                v += c[j] * x ** powers[j]
            err.append(wx * (fx - v))
        # the largest error of each run of one sign
        ext = []
        for e, p in zip(err, pts):
            if ext and (ext[-1][0] > 0) == (e > 0):
                if abs(e) > abs(ext[-1][0]):
                    ext[-1] = (e, p)
            else:
                ext.append((e, p))
        while len(ext) > n + 1:
            if abs(ext[0][0]) < abs(ext[-1][0]):
                ext.pop(0)
            else:
                ext.pop()
        if len(ext) < n + 1:
            break
        hi = max(abs(e) for e, _ in ext)
        lo = min(abs(e) for e, _ in ext)
        ref = [p for _, p in ext]
        if hi < lo * mpf("1.01"):
            break
    return c, max(abs(e) for e in err)


def fit(f, w, a, b, powers, bits, exact=0):
    """Coefficients rounded to `bits`, the first `exact` powers refitted one after another."""
    a, b = mpf(a), mpf(b)
    done = []
    todo = list(powers)
    while todo:
        g = lambda x: f(x) - sum(c * x**p for p, c in done)
        c, e = remez(g, w, a, b, todo)
        if not done:
            first = e
        k = 1 if len(done) < exact else len(todo)
        for i in range(k):
            done.append((todo[i], rounded(c[i], bits)))
        todo = todo[k:]
    worst = mpf(0)
    f = safe(f, w)
    for i in range(2001):
        x = a + (b - a) * i / 2000
        worst = max(worst, abs(w(x) * (f(x) - sum(c * x**p for p, c in done))))
    return done, first, worst


def quotient(f, w, a, b, n, m, bits, points=160):
    """P of degree n and Q of degree m, rounded to `bits`, and the largest weighted errors before and after."""
    xs = [(a + b) / 2 + (b - a) / 2 * cos(pi * i / points) for i in range(points + 1)]
    fs, ws, weights, below = [f(x) for x in xs], [w(x) for x in xs], [mpf(1)] * (points + 1), [mpf(1)] * (points + 1)

    def errors(p, q):
        return [abs(wx * (fx - polyval(p[::-1], x) / polyval(q[::-1], x))) for x, fx, wx in zip(xs, fs, ws)]

    best = None
    for _ in range(40):
        A, y = matrix(points + 1, n + m + 1), matrix(points + 1, 1)
        for i, (x, fx) in enumerate(zip(xs, fs)):
            s = ws[i] * sqrt(weights[i]) / below[i]
            for j in range(n + 1):
                A[i, j] = s * x**j
            for j in range(1, m + 1):
                A[i, n + j] = -s * fx * x**j
            y[i] = s * fx
        c = lu_solve(A.T * A, A.T * y)
        p, q = [c[j] for j in range(n + 1)], [mpf(1)] + [c[n + j] for j in range(1, m + 1)]
        below = [abs(polyval(q[::-1], x)) for x in xs]
        err = errors(p, q)
        if not best or max(err) < best[0]:
            best = max(err), p, q
        weights = [v * (e / max(err) + mpf(10) ** -6) for v, e in zip(weights, err)]
    p, q = [[rounded(v, bits) for v in row] for row in best[1:]]
    return p, q, best[0], max(errors(p, q))


def lg(t):  # log((1+s)/(1-s)) / s with t = s^2
    return mpf(2) if t == 0 else 2 * atanh(sqrt(t)) / sqrt(t)


def sn(t):  # sin(x)/x with t = x^2
    return mpf(1) if t == 0 else sin(sqrt(t)) / sqrt(t)


def tn(t):  # tanh(x)/x with t = x^2
    return tanh(sqrt(t)) / sqrt(t)


def te(r):  # what a relative error of e^r, times r, is worth in tanh x, where 2x = n ln 2 + r > 1.4
    e = exp(r) * (4 if r >= mpf("1.4") - 2 * ln2 else 8)
    return 2 * e / (e + 1) ** 2 * zero(r) / exp(r)


def er(t):  # erf(x)/x with t = x^2
    return 2 / sqrt(pi) if t == 0 else erf(sqrt(t)) / sqrt(t)


def ei(l):  # erfinv(x) / x with l = log(1 - x^2)
    if l == 0:
        return sqrt(pi) / 2
    x = sqrt(-expm1(l))
    return erfinv(x) / x


h = log(2) / 2 * mpf("1.001")
smax = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.001")
ln2 = log(mpf(2))
one = lambda x: mpf(1)
zero = lambda r: abs(r) if abs(r) > 1e-9 else mpf(0)  # the point 0 itself is left out
ROWS = {
    # e^r = 1 + r + r^2 P(r); relative to e^r - 1, for expm1 is built from it too
    "exp32": (lambda r: (exp(r) - 1 - r) / r**2, zero, -h, h, range(0, 5), 24, 5),
    "exp64": (lambda r: (exp(r) - 1 - r) / r**2, zero, -h, h, range(0, 11), 53),
    # 2^r = 1 + r P(r)
    "exp2_32": (lambda r: (2**r - 1) / r if r else ln2, lambda r: zero(r) / 2**r, -0.5, 0.5, range(0, 6), 24, 6),
    # log(1+f) = f + f^2 P(f)
    "log32": (lambda f: (log(1 + f) - f) / f**2, zero, mpf(-1) / 3, mpf(1) / 3, range(0, 9), 24),
    # log((1+s)/(1-s)) = s (2 + t P(t)), t = s^2
    "log64": (lambda t: lg(t) - 2, one, 0, smax, range(1, 8), 53, 4),
    # sin(pi/2 r) = r P(r^2), cos(pi/2 r) = P(r^2), |r| <= 1/2
    "sin32": (lambda t: pi / 2 * sn(t * pi * pi / 4), lambda t: 1 / sn(t * pi * pi / 4), 0, 0.2704, range(0, 4), 53, 2),
    "cos32": (lambda t: cos(sqrt(t) * pi / 2) - 1, one, 0, 0.2704, range(1, 5), 53, 2),
    # sin x = x + x^3 P(x^2), cos x = 1 - x^2/2 + x^4 P(x^2), |x| <= pi/4
    "sin64": (lambda t: (sn(t) - 1), one, 0, (pi / 4) ** 2 * mpf("1.001"), range(1, 7), 53, 3),
    "cos64": (lambda t: (cos(sqrt(t)) - 1 + t / 2), one, 0, (pi / 4) ** 2 * mpf("1.001"), range(2, 8), 53, 3),
    # tanh x = x + x z P(z), z = x^2
    "tanh32": (lambda z: (tn(z) - 1) / z, lambda z: z / tn(z), mpf(10) ** -9, mpf("0.7") ** 2, range(0, 5), 24, 5),
    # its e^r = 1 + r P(r)
    "texp32": (lambda r: (exp(r) - 1) / r if r else mpf(1), te, -h, h, range(0, 5), 24, 5),
    # erf x = x P(x^2) below the split, 1 - exp(P(x)) above
    "erf32a": (lambda t: er(t) - 1, lambda t: 1 / er(t), 0, mpf("0.9") ** 2, range(0, 6), 24, 6),
    "erf32b": (lambda x: log(erfc(x)), lambda x: erfc(x) / erf(x), mpf("0.9"), 4, range(0, 8), 24, 8),
    "erf64a": (lambda t: er(t) - 1, lambda t: 1 / er(t), 0, 1, range(0, 13), 53, 4),
    "erf64b": (lambda x: log(erfc(x)), lambda x: erfc(x) / erf(x), 1, 6, range(0, 21), 53, 4),
    # pow f32 in f64: log2((1+s)/(1-s)) = s P(s^2); 2^f = P(f)
    "plog32": (lambda t: lg(t) / ln2, one, 0, smax, range(0, 6), 53, 2),
    "pexp32": (lambda f: 2**f - 1, lambda f: 2**-f, -0.5005, 0.5005, range(1, 8), 53, 2),
    # pow f64: log((1+s)/(1-s)) = 2s + s t (2/3 + 2/5 t + t^2 P(t))
    "plog64": (lambda t: lg(t) - 2 - t * 2 / 3 - t * t * 2 / 5, one, 0, smax, range(3, 9), 53, 2),
}

QUOTIENTS = {
    # erfinv x = x (7/8 - 15/64 l + P(l) / Q(l)), l = log(1 - x^2); f64: 1 - 3/16 l
    "erfinv32": (lambda l: ei(l) - mpf(7) / 8 + l * 15 / 64, lambda l: 1 / ei(l), mpf("-15.96"), 0, 6, 5, 24),
    "erfinv64": (lambda l: ei(l) - 1 + l * 3 / 16, lambda l: 1 / ei(l), mpf("-36.8"), 0, 15, 15, 53),
}


def show(coefficients, bits):
    for k, c in coefficients:
        print("    [%2d] %s%s  %s" % (k, float(c).hex(), "f" if bits == 24 else "", mp.nstr(c, 18)))


for name in sys.argv[1:] or list(ROWS) + list(QUOTIENTS):
    if name in ROWS:
        f, w, a, b, p, bits, *ex = ROWS[name]
        done, first, worst = fit(f, w, a, b, p, bits, *ex)
    else:
        mp.dps = 80
        p, q, first, worst = quotient(*QUOTIENTS[name])
        bits = QUOTIENTS[name][-1]
        done = list(enumerate(p)) + list(enumerate(q))
        mp.dps = 50
    print("%s: 2^%.2f before rounding, 2^%.2f after" % (name, mp.log(first, 2), mp.log(worst, 2)))
    show(done, bits)
    sys.stdout.flush()
