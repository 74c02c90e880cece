#!/usr/bin/python3
"""Composites beside PyTorch's functions, one thread each, at a size in cache and at one outside.

    composites.py COMPOSITES [--rounds N] [--only NAME,..] [--eager | --gradient]

COMPOSITES is the program of composites.c; its rows (composites.def) have both sides of each. Times are milliseconds of
the thread, medians of the rounds, in which the systems take turns. `eager` is beside PyTorch's eager call, `compiled`,
the better of tiles and C, beside the better of PyTorch's eager and compiled one (--eager leaves that one out). --gradient: eager
calls with the gradients of all float operands, rows that have some. A ratio above the goal, 1, has an x. Exit code 77: PyTorch is missing."""
import argparse
import os
import statistics
import subprocess
import sys
import time

# PyTorch's memory stays with the process, as the library's does; without this every large result is of new pages.
KEPT = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000",
        "MALLOC_TOP_PAD_": "100000000", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1"}
if any(os.environ.get(k) != v for k, v in KEPT.items()):
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **KEPT})

try:
    import torch
    from torch.nn import functional as F
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

GOAL = 1.0
BATCH_S, REPEATS = 2e-3, 15


def operand(text):
    """As composites.def writes them."""
    kind, shape = text.split(":")
    number, shape = int(kind[1:] or 0), [int(n) for n in shape.split("x")]
    if kind[0] == "u":
        return torch.rand(shape)
    if kind[0] == "s":
        return torch.randn(shape).sort(-1)[0]
    if kind[0] == "b":
        return torch.rand(shape) < 0.5
    if kind[0] == "i":
        return torch.randint(number, shape)
    if kind[0] == "c":
        return torch.full(shape, number)
    x = torch.randn(shape)
    return x.t().contiguous() if kind[0] == "w" else x


def median_ms(f, x):
    def batch(n):
        start = time.thread_time()
        for _ in range(n):
            f(*x)
        return time.thread_time() - start

    n = 1
    for _ in range(3):
        f(*x)
    while batch(n) < BATCH_S:
        n *= 2
    return 1e3 * statistics.median(batch(n) / n for _ in range(REPEATS))


def compiled(f, x):
    """None: PyTorch cannot compile it, or not here."""
    torch._dynamo.reset()
    try:
        g = torch.compile(f)
        g(*x)
        return g
    except Exception as e:  # whatever the compiler, or the compiler's compiler, raises
        print("torch.compile: %s" % str(e).strip().split("\n")[0], file=sys.stderr)
        return None


def ratio(ms, base):
    return "%6.2f%s" % (ms / base, "x" if ms > GOAL * base else " ")


def shown(ms):
    return "%9s" % ("%.4f" % ms if ms else "-")


def row(program, name, size, operands, expression, rounds, compiles):
    x = [operand(t) for t in operands.split()]
    f = eval("lambda %s: %s" % (", ".join("abcdefg"[:len(x)]), expression))
    g = compiled(f, x) if compiles else None
    took = [[], [], [], [], []]
    for _ in range(rounds):
        took[0].append(median_ms(f, x))
        if g:
            took[1].append(median_ms(g, x))
        done = subprocess.run([program, name, str(size)], stdout=subprocess.PIPE, text=True, check=True)
        for times, ms in zip(took[2:], done.stdout.split()):
            times.append(float(ms))
    eager, fast, own, tiles, c = [statistics.median(t) if t else None for t in took]
    best = min(eager, fast or eager)
    print("%-20s %-6s" % (name, ("cache", "memory")[size]) +
          "".join(shown(ms) for ms in (eager, fast, own, tiles, c)) + "  " + ratio(own, eager) + " " +
          ratio(min(tiles, c), best), flush=True)
    return own <= GOAL * eager, min(tiles, c) <= GOAL * best


def gradient_row(program, name, size, operands, expression, rounds):
    x = [operand(t) for t in operands.split()]
    marked = [t.requires_grad_() for t in x if t.is_floating_point()]
    f = eval("lambda %s: %s" % (", ".join("abcdefg"[:len(x)]), expression))

    def result():
        y = f(*x)
        return y if isinstance(y, torch.Tensor) else y[0]
    try:
        y = result()
    except RuntimeError as e:  # it has no gradient of one of them
        print("%s: %s" % (name, e), file=sys.stderr)
        return None
    if not y.requires_grad:
        return None
    dy = torch.ones_like(y)

    def step():
        torch.autograd.grad(result(), marked, dy, allow_unused=True)
    took = [[], []]
    for _ in range(rounds):
        took[0].append(median_ms(step, []))
        done = subprocess.run([program, name, str(size), "gradient"], stdout=subprocess.PIPE, text=True, check=True)
        took[1] += [float(ms) for ms in done.stdout.split()]
    if not took[1]:
        return None
    theirs, own = [statistics.median(t) for t in took]
    print("%-20s %-6s" % (name, ("cache", "memory")[size]) + shown(theirs) + shown(own) + "  " + ratio(own, theirs),
          flush=True)
    return own <= GOAL * theirs


def gradients(rows, rounds):
    print("%-27s%9s%9s  %6s" % ("with gradients, eagerly", "PyTorch", "own", "ratio"))
    reached = [r for r in (gradient_row(*row, rounds) for row in rows) if r is not None]
    print("%d of %d rows reach the goal" % (sum(reached), len(reached)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--gradient", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    only = set(filter(None, args.only.split(",")))
    rows = []
    for line in subprocess.run([args.program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        name, *operands, expression = line.split("\t")
        if not only or name in only:
            rows += [(args.program, name, size, operands[size], expression) for size in (0, 1)]
    print("PyTorch %s, milliseconds; goal of the ratios: %.1f" % (torch.__version__, GOAL))
    if args.gradient:
        gradients(rows, args.rounds)
        return
    print("%-27s%9s%9s%9s%9s%9s  %6s  %8s" % ("composite", "PyTorch", "compiled", "eager", "tiles",
                                             "C", "eager", "compiled"))
    with torch.inference_mode():
        reached = [row(*r, args.rounds, not args.eager) for r in rows]
    for i, what in enumerate(("eager", "compiled")):
        print("%d of %d rows reach the goal %s" % (sum(r[i] for r in reached), len(reached), what))


main()
