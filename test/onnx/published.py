#!/usr/bin/python3
"""Patterns of published models that exporters write and the upstream cases leave out.

    published.py TAPIR [--engine NAME,NAME] [--only NAME] [--keep FOLDER]

Each is a small model with free sizes. It is loaded by itself, without its inputs, and then run with
inputs of several sizes by one compiled program, or refused with words that are looked for. What it has
to give is computed here by NumPy."""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

node = helper.make_node
FLOAT, INT64, INT32, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32,
                             TensorProto.BOOL)
FAILED = []


class Model:
    """A model in a file, and the command that runs it."""

    args = None

    def __init__(self, name, nodes, inputs, outputs=("y",), opset=17, **weights):
        self.name, self.outputs = name, outputs
        self.skipped = bool(self.args.only) and self.args.only not in name
        self.folder = os.path.join(self.args.keep, name)
        self.path = os.path.join(self.folder, name + ".onnx")
        os.makedirs(self.folder, exist_ok=True)
        starts = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        ends = [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs]
        inits = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
        graph = helper.make_graph(nodes, name, starts, ends, inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        with open(self.path, "wb") as f:
            f.write(model.SerializeToString())

    def tapir(self, *words):
        return subprocess.run([self.args.program, words[0], self.path, *words[1:]], text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def fail(self, what, text=""):
        FAILED.append(self.name)
        print("FAIL %s: %s\n%s" % (self.name, what, text))

    def loads(self, *options):
        """By itself, so that one program serves all sizes."""
        shown = None if self.skipped else self.tapir("show", *options)
        if shown and shown.returncode:
            self.fail("it does not load", shown.stdout)
        return self

    def feed(self, feeds):
        words = []
        for name, v in feeds.items():
            path = os.path.join(self.folder, name + ".npy")
            np.save(path, np.array(v, order="C"))
            words += ["--input", "%s=%s" % (name, path)]
        return words

    def gives(self, want, *options, **feeds):
        """want: the output, or outputs in their order."""
        if self.skipped:
            return self
        wants = want if isinstance(want, tuple) else (want,)
        out = os.path.join(self.folder, "out")
        for engine in self.args.engine.split(","):
            ran = self.tapir("run", *self.feed(feeds), "--output", out, "--engine", engine,
                             *options)
            if ran.returncode:
                self.fail("%s: it does not run" % engine, ran.stdout)
                break
            for name, w in zip(self.outputs, wants):
                got, w = np.load(os.path.join(out, name + ".npy")), np.asarray(w)
                if got.shape != w.shape or not np.allclose(got, w, rtol=1e-5, atol=1e-6):
                    self.fail("%s: %s" % (engine, name), "got %s\nwant %s" % (got, w))
        return self

    def refuses(self, words, *options, **feeds):
        """In the run, with these words."""
        for engine in [] if self.skipped else self.args.engine.split(","):
            ran = self.tapir("run", *self.feed(feeds), "--engine", engine, *options)
            if ran.returncode != 2 or words not in ran.stdout:
                self.fail("%s: exit code %d, and not \"%s\"" % (engine, ran.returncode, words),
                          ran.stdout)
        return self


def numbers(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) % 13 - 5).reshape(shape)


def sizes_without_a_name():
    """PaddlePaddle writes "?" for every size that it does not know."""
    nodes = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "two", "four"], ["hw"]),
             node("Concat", ["nc", "hw"], ["sizes"], axis=0), node("Reshape", ["x", "sizes"], ["r"]),
             node("ReduceMax", ["r"], ["y"], axes=[2], keepdims=0)]
    m = Model("sizes_without_a_name", nodes, [("x", FLOAT, ["?", 2, "?", "?"])],
              two=[2], four=[4], nc=np.array([-1, 2]))
    m.loads()
    for shape in ((1, 2, 3, 5), (4, 2, 6, 1)):
        x = numbers(*shape)
        m.gives(x.max(2), x=x)
    x = numbers(1, 2, 3, 5)
    m.gives(x.max(2), "--dim", "x_2=3", x=x)
    m.refuses("takes f32 [x_0, 2, 4, x_3]", "--dim", "x_2=4", x=x)


def one_axis_by_its_number():
    """Two inputs with one name for sizes that differ."""
    m = Model("one_axis_by_its_number", [node("MatMul", ["a", "b"], ["y"])],
              [("a", FLOAT, ["n", "n"]), ("b", FLOAT, ["n", "n"])])
    a, b = numbers(2, 3), numbers(3, 4)
    m.gives(a @ b, "--dim", "a_0=2", "--dim", "b_1=4", a=a, b=b)


PATTERNS = [sizes_without_a_name, one_axis_by_its_number]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("--engine", default="reference,tiles,c")
    args.add_argument("--only")
    args.add_argument("--keep")
    Model.args = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Model.args.keep = Model.args.keep or folder
        os.environ.setdefault("TAPIR_CACHE", os.path.join(folder, "cache"))
        for pattern in PATTERNS:
            pattern()
    print("%d patterns, %d failed; repeat with --only NAME --keep FOLDER" %
          (len(PATTERNS), len(set(FAILED))))
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
