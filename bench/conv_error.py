#!/usr/bin/python3
"""Errors of convolutions of 3 by 3 (by Winograd's tiles) beside PyTorch's, one thread each.

    conv_error.py CONV_ERROR [--convs N] [--direct]

CONV_ERROR is the program beside this one. A case is a convolution, or a block of resnet18's or of a bottleneck's sizes,
with all its gradients, on normal numbers, on such about 10, and on such of which one is 1e4. The error of a tensor is the
largest difference to f64 over the largest value. A row of the table has how many tensors there are, the median and the
greatest of ours over PyTorch's errors, and the share within 2 and 4 times of them. Convolutions of integers with an
infinity or a NaN among them are looked at by which elements of the result are numbers."""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

torch.set_num_threads(1)
RNG = np.random.default_rng(13)
RESNET18 = ((64, 56), (128, 28), (256, 14), (512, 7))
DATA = ("normal", "mean 10", "outlier 1e4")


def numbers(shape, data):
    v = RNG.standard_normal(shape)
    if data == "mean 10":
        v += 10
    if data == "outlier 1e4":
        v.flat[RNG.integers(v.size)] = 1e4
    return v.astype(np.float32)


def weights(*shape):
    """As a network has them: of deviation 1 / sqrt(inputs)."""
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def compute(kind, pad, x, w):
    if kind == "conv":
        return F.conv2d(x, w[0], padding=pad)
    if kind == "basic":
        h = F.conv2d(F.relu(F.conv2d(x, w[0], padding=1)), w[1], padding=1)
    else:
        h = F.conv2d(F.relu(F.conv2d(F.relu(F.conv2d(x, w[0])), w[1], padding=1)), w[2])
    return F.relu(x + h)


def results(kind, pad, x, w, dy, dtype):
    """The output, and the gradients of all operands."""
    leaves = [torch.from_numpy(v).to(dtype).requires_grad_() for v in [x] + w]
    y = compute(kind, pad, leaves[0], leaves[1:])
    return [v.detach().numpy() for v in
            [y] + list(torch.autograd.grad(y, leaves, torch.from_numpy(dy).to(dtype)))]


def cases(n_convs):
    """(group, data, kind, pad, x, weights)"""
    for data in DATA:
        for _ in range(n_convs // len(DATA)):
            ic, oc = RNG.integers(8, 129, 2)
            h, w = RNG.integers(6, 41, 2)
            yield ("random 3x3", data, "conv", int(RNG.integers(0, 2)),
                   numbers((int(RNG.integers(1, 3)), ic, h, w), data), [weights(oc, ic, 3, 3)])
        for c, side in RESNET18:
            yield ("resnet18's blocks", data, "basic", 1, numbers((1, c, side, side), data),
                   [weights(c, c, 3, 3), weights(c, c, 3, 3)])
            yield ("bottlenecks", data, "bottleneck", 1, numbers((1, 4 * c, side, side), data),
                   [weights(c, 4 * c, 1, 1), weights(c, c, 3, 3), weights(4 * c, c, 1, 1)])


def ours(program, folder, direct, listed):
    with open(os.path.join(folder, "list.txt"), "w") as f:
        f.write("".join("%s %s %d\n" % line for line in listed))
    subprocess.run([program, folder] + (["--direct"] if direct else []), check=True)


def error(got, exact):
    return np.max(np.abs(got.astype(np.float64) - exact)) / np.max(np.abs(exact))


def measure(program, folder, n_convs, direct):
    table = {}
    listed, kept = [], []
    for i, (group, data, kind, pad, x, w) in enumerate(cases(n_convs)):
        name = "c%d" % i
        with torch.no_grad():
            shape = compute(kind, pad, torch.from_numpy(x), [torch.from_numpy(v) for v in w]).shape
        dy = RNG.standard_normal(tuple(shape)).astype(np.float32)
        for what, v in [("x", x), ("dy", dy)] + [("w%d" % k, v) for k, v in enumerate(w)]:
            np.save(os.path.join(folder, "%s.%s.npy" % (name, what)), v)
        listed.append((name, kind, pad))
        kept.append((group, data, kind, pad, x, w, dy))
    ours(program, folder, direct, listed)
    for (name, _, _), (group, data, kind, pad, x, w, dy) in zip(listed, kept):
        exact = results(kind, pad, x, w, dy, torch.float64)
        theirs = results(kind, pad, x, w, dy, torch.float32)
        for k, what in enumerate(["y", "dx"] + ["dw%d" % i for i in range(len(w))]):
            got = np.load(os.path.join(folder, "%s.%s.npy" % (name, what)))
            row = (group, data, "outputs" if k == 0 else "gradients")
            table.setdefault(row, []).append((error(got, exact[k]), error(theirs[k], exact[k])))
    return table


def wild(program, folder, direct):
    """Elements that are numbers in a convolution with one infinity, and one NaN: ours, PyTorch's, of all."""
    x = RNG.integers(-3, 4, (1, 32, 16, 16)).astype(np.float32)
    w = RNG.integers(-3, 4, (32, 32, 3, 3)).astype(np.float32)
    for value in (np.inf, np.nan):
        x[0, 5, 7, 7] = value
        for what, v in (("x", x), ("w0", w), ("dy", np.ones((1, 32, 16, 16), np.float32))):
            np.save(os.path.join(folder, "wild.%s.npy" % what), v)
        ours(program, folder, direct, [("wild", "conv", 1)])
        y = np.load(os.path.join(folder, "wild.y.npy"))
        theirs = compute("conv", 1, torch.from_numpy(x), [torch.from_numpy(w)]).numpy()
        same = np.isfinite(y) & np.isfinite(theirs)
        print("one %s: %d of %d are no numbers, PyTorch's %d; the others are %s" %
              (value, np.sum(~np.isfinite(y)), y.size, np.sum(~np.isfinite(theirs)),
               "equal" if np.array_equal(y[same], theirs[same]) else "not equal"))


def put(name, pairs):
    ratio = np.array([a / b if b else (1.0 if a == 0 else np.inf) for a, b in pairs])
    print("%-19s %-12s %-10s %5d  %8.2f %8.2f  %6.1f %% %6.1f %%  %8.1e %8.1e" %
          (name + (len(ratio), np.median(ratio), ratio.max(), 100 * np.mean(ratio <= 2),
                   100 * np.mean(ratio <= 4), max(a for a, _ in pairs), max(b for _, b in pairs))))


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("program")
    args.add_argument("--convs", type=int, default=200)
    args.add_argument("--direct", action="store_true")
    given = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = measure(given.program, folder, given.convs, given.direct)
        print("%-19s %-12s %-10s %5s  %8s %8s  %8s %8s  %8s %8s" %
              ("", "", "", "of", "median", "most", "within 2", "within 4", "ours", "PyTorch"))
        for row in table:
            put(row, table[row])
        put(("all", "", ""), sum(table.values(), []))
        wild(given.program, folder, given.direct)


if __name__ == "__main__":
    main()
