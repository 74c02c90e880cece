#!/usr/bin/python3
"""Op cases against NumPy.

    numpy.py OP_CASES [--case OP or OP/N] [--seed N]

OP_CASES is the program; it writes operands and results as .npy files. Each case's call, as it is
written in cases.def, is evaluated here as Python, over functions of the same names in NumPy with
f64 (or long double) arithmetic, which the files numpy_*.py have, one for a header or two; integers are
compared exactly, floats with tolerance.def.
Exit code 77: NumPy is missing."""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]  # this file is no NumPy
try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(77)

sys.path.append(HERE)
sys.dont_write_bytecode = True  # of what is imported from here
import numpy_types  # pylint: disable=wrong-import-position
import numpy_ops  # pylint: disable=wrong-import-position
import numpy_composites  # pylint: disable=wrong-import-position
import numpy_linalg  # pylint: disable=wrong-import-position
import numpy_nn  # pylint: disable=wrong-import-position
import numpy_ragged  # pylint: disable=wrong-import-position
from numpy_types import T, is_float  # pylint: disable=wrong-import-position

np.seterr(all="ignore")
NOT_COMPUTED = {"uniform": "random", "normal": "random", "uniform_like": "random",
                "normal_like": "random", "dropout": "random", "assign": "state",
                "truncated_normal": "random", "truncated_normal_like": "random", "exponential": "random",
                "exponential_like": "random", "randint": "random", "randint_like": "random",
                "permutation": "random", "permutation_like": "random", "bernoulli": "random",
                "categorical": "random", "gamma": "random", "random_stream": "random",
                "call": "gradients"}
NAMES = {**numpy_types.NAMES, **numpy_ops.NAMES, **numpy_composites.NAMES, **numpy_linalg.NAMES, **numpy_nn.NAMES,
         **numpy_ragged.NAMES}

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
          "ragged_sum", "ragged_mean", "ragged_logsumexp", "ragged_log_softmax", "ragged_attention",
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
