#!/usr/bin/python3
"""Patterns of published models that exporters write and the upstream cases leave out.

    published.py TAPIR ONE_PROGRAM [--engine NAME,NAME] [--only NAME] [--keep FOLDER]

Each is a small model with free sizes. It is loaded once, without its inputs, made one program of, and
that is run with inputs of several sizes (onnx_one_program.c), or refused with words that are looked
for. Where options fix a size, the command loads it. What it has to give is computed here by NumPy."""
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
    all = []

    def __init__(self, name, nodes, inputs, outputs=("y",), opset=17, **weights):
        self.name, self.outputs, self.cases = name, outputs, []
        self.all.append(self)
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

    def feed(self, feeds, folder):
        words = []
        os.makedirs(folder, exist_ok=True)
        for name, v in feeds.items():
            path = os.path.join(folder, name + ".npy")
            np.save(path, np.array(v, order="C"))
            words += ["--input", "%s=%s" % (name, path)]
        return words

    def compare(self, engine, folder, wants):
        for name, w in zip(self.outputs, wants):
            got, w = np.load(os.path.join(folder, name + ".npy")), np.asarray(w)
            if got.shape != w.shape or not np.allclose(got, w, rtol=1e-5, atol=1e-6):
                self.fail("%s: %s" % (engine, name), "got %s\nwant %s" % (got, w))

    def gives(self, want, *options, **feeds):
        """want: the output, or outputs in their order."""
        wants = want if isinstance(want, tuple) else (want,)
        if not options:
            self.cases.append((feeds, wants, None))
        for engine in self.args.engine.split(",") if options and not self.skipped else []:
            out = os.path.join(self.folder, "out")
            ran = self.tapir("run", *self.feed(feeds, self.folder), "--output", out, "--engine",
                             engine, *options)
            if ran.returncode:
                self.fail("%s: it does not run" % engine, ran.stdout)
                break
            self.compare(engine, out, wants)
        return self

    def refuses(self, words, *options, **feeds):
        """In the run, with these words."""
        if not options:
            self.cases.append((feeds, None, words))
        for engine in self.args.engine.split(",") if options and not self.skipped else []:
            ran = self.tapir("run", *self.feed(feeds, self.folder), "--engine", engine, *options)
            if ran.returncode != 2 or words not in ran.stdout:
                self.fail("%s: exit code %d, and not \"%s\"" % (engine, ran.returncode, words),
                          ran.stdout)
        return self

    def stands_alone(self, text, good, bad):
        """As a C file that takes the sizes `good`, and refuses `bad` for what the file has as `text`."""
        if self.skipped:
            return
        path = os.path.join(self.folder, "m.c")
        made = self.tapir("compile", "--output", path)
        if made.returncode:
            self.fail("no C file is made", made.stdout)
            return
        main = os.path.join(self.folder, "main.c")
        with open(main, "w", encoding="utf-8") as f:
            f.write('#include "m.h"\n#include <stdio.h>\nstatic char memory[1 << 20];\n'
                    "int main(void)\n{\n    m_fault fault;\n"
                    "    const m_sizes good = {%s}, bad = {%s};\n"
                    "    if (m_prepare(&good, memory, sizeof memory, &fault) != m_ok)\n"
                    "        return 1;\n"
                    "    if (m_prepare(&bad, memory, sizeof memory, &fault) != m_e_sizes)\n"
                    "        return 2;\n"
                    '    printf("%%d", (int)fault.op);\n    return 0;\n}\n' % (good, bad))
        program = os.path.join(self.folder, "main")
        built = subprocess.run(["cc", "-O1", "-o", program, main, path], check=False)
        ran = subprocess.run([program], text=True, check=False, stdout=subprocess.PIPE)
        source = open(path, encoding="utf-8").read()
        if built.returncode or ran.returncode or \
                " *   %s: assume  %s\n" % (ran.stdout, text) not in source:
            self.fail("standing alone it ends with %d, op %s" % (ran.returncode, ran.stdout),
                      source[-500:])

    def run_cases(self):
        """One program for all sizes, and those that fit no program between those that do."""
        if self.skipped or not self.cases:
            return
        folders = [os.path.join(self.folder, "case%d" % i) for i in range(len(self.cases))]
        for (feeds, _, _), folder in zip(self.cases, folders):
            self.feed(feeds, folder)
        ran = subprocess.run([self.args.one_program, self.path, self.args.engine, *folders],
                             text=True, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        if ran.returncode:
            self.fail("it is not loaded, or not made a program of", ran.stdout)
            return
        for (feeds, wants, words), folder in zip(self.cases, folders):
            for engine in self.args.engine.split(","):
                where = os.path.join(folder, engine)
                error = os.path.join(where, "error")
                text = open(error, encoding="utf-8").read() if os.path.exists(error) else None
                sizes = ", ".join("%s %s" % (k, np.shape(v)) for k, v in feeds.items())
                if wants and text is not None:
                    self.fail("%s: it does not run with %s" % (engine, sizes), text)
                elif words and (text is None or words not in text):
                    self.fail("%s: not \"%s\" with %s" % (engine, words, sizes), text or "it runs")
                elif wants:
                    self.compare("%s, %s" % (engine, sizes), where, wants)


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
    m.refuses("takes f32 [1, 2, 4, 5], not f32 [1, 2, 3, 5]", "--dim", "x_2=4", x=x)


def texts_that_name_nothing():
    """Two sizes that an exporter does not know are two."""
    for i, text in enumerate(("-1", "None", "unk", "", "unknown")):
        m = Model("texts_that_name_nothing_%d" % i, [node("MatMul", ["a", "b"], ["y"])],
                  [("a", FLOAT, [text, 3]), ("b", FLOAT, [3, text])])
        a, b = numbers(2, 3), numbers(3, 4)
        m.loads("--dim", "a_0=2").gives(a @ b, a=a, b=b)
        m.gives(a @ b, "--dim", "a_0=2", "--dim", "b_1=4", a=a, b=b)


def one_name_for_an_axis_and_a_text():
    """What is called as an axis of another input is no more than that."""
    m = Model("one_name_for_an_axis_and_a_text", [node("MatMul", ["x", "b"], ["y"])],
              [("x", FLOAT, ["?", 3]), ("b", FLOAT, [3, "x_0"])])
    a, b = numbers(2, 3), numbers(3, 4)
    m.loads().gives(a @ b, x=a, b=b).gives(a @ b, "--dim", "x_0=2", x=a, b=b)


def one_axis_by_its_number():
    """Two inputs with one name for sizes that differ."""
    m = Model("one_axis_by_its_number", [node("MatMul", ["a", "b"], ["y"])],
              [("a", FLOAT, ["n", "n"]), ("b", FLOAT, ["n", "n"])])
    a, b = numbers(2, 3), numbers(3, 4)
    m.gives(a @ b, "--dim", "a_0=2", "--dim", "b_1=4", a=a, b=b)


def ends_of_slices():
    """To the end, in the words of exporters; cut at a constant, which is clamped."""
    cuts = [(0, 1000000000, 1), (2, 1000000000, 2), (1, 2**31 - 1, 1), (0, 2**63 - 1, 3),
            (0, 5, 1), (3, 7, 1), (-4, 2**63 - 1, 1), (0, -4, 1), (2, 6, 2), (-6, -2, 1),
            (-1, 2**31 - 1, 1), (0, 1, 1), (-2**31, 2**31 - 1, 1), (-1, -2**63, -1)]
    nodes, weights = [], {}
    for i, cut in enumerate(cuts):
        names = ["%s%d" % (k, i) for k in ("start", "end", "step")]
        weights.update(zip(names, ([v] for v in cut)))
        nodes.append(node("Slice", ["x", names[0], names[1], "axis", names[2]], ["y%d" % i]))
    m = Model("ends_of_slices", nodes, [("x", FLOAT, [2, "n"])],
              ["y%d" % i for i in range(len(cuts))], axis=[1], **weights)
    m.loads()
    for n in (1, 2, 3, 6, 9):
        x = numbers(2, n)
        m.gives(tuple(x[:, slice(*(v if abs(v) < 2**62 else None for v in cut))]
                      for cut in cuts), x=x)


def slices_of_two_sides():
    """What a cut at a constant leaves on both sides is the whole; a fixed axis cut at a size."""
    nodes = [node("Slice", ["x", "zero", "c", "axis"], ["a"]),
             node("Slice", ["x", "c", "end", "axis"], ["b"]),
             node("Concat", ["b", "a"], ["rolled"], axis=1), node("Add", ["rolled", "x"], ["y"]),
             node("Shape", ["x"], ["s"], start=1, end=2),
             node("Slice", ["table", "zero", "s", "zero"], ["z"])]
    table = numbers(16, 3)
    m = Model("slices_of_two_sides", nodes, [("x", FLOAT, [2, "n"])], ("y", "z"), zero=[0],
              c=[3], end=[2**63 - 1], axis=[1], table=table)
    m.loads()
    for n in (1, 3, 8):
        x = numbers(2, n)
        m.gives((np.roll(x, -min(n, 3), 1) + x, table[:n]), x=x)


def the_last_n():
    """x[-n:] for a size n, as decoders cut their masks."""
    nodes = [node("Shape", ["x"], ["n"], start=0, end=1), node("Neg", ["n"], ["back"]),
             node("Concat", ["cache", "x"], ["all"], axis=0),
             node("Slice", ["all", "back", "end", "zero"], ["last"]), node("Add", ["last", "x"], ["y"]),
             node("Mul", ["n", "minus"], ["again"]),
             node("Slice", ["table", "again", "end", "zero"], ["z"])]
    table = numbers(9, 2)
    m = Model("the_last_n", nodes, [("x", FLOAT, ["n", 2]), ("cache", FLOAT, ["past", 2])],
              ("y", "z"), end=[2**63 - 1], zero=[0], minus=[-1], table=table)
    m.loads()
    for n, past in ((1, 0), (2, 5), (4, 1)):
        x = numbers(n, 2)
        m.gives((2 * x, table[-n:]), x=x, cache=numbers(past, 2))
    x = numbers(0, 2) # from the end by 0 is from the start, which is no size of the program
    m.refuses("have to be equal", x=x, cache=x)
    m.gives((x, table), "--dim", "n=0", x=x, cache=x)


def products_of_sizes():
    """As tf2onnx flattens: the product of a part of the shape, by way of floats."""
    nodes = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "zero", "two"], ["lead"]),
             node("Cast", ["lead"], ["f"], to=FLOAT), node("ReduceProd", ["f"], ["p"], keepdims=1),
             node("Cast", ["p"], ["rows"], to=INT64), node("Concat", ["rows", "c"], ["to"], axis=0),
             node("Reshape", ["x", "to"], ["y"]),
             node("ReduceProd", ["s"], ["count"], keepdims=0), node("Cast", ["count"], ["cf"], to=FLOAT),
             node("Range", ["f0", "cf", "f1"], ["z"])]
    m = Model("products_of_sizes", nodes, [("x", FLOAT, ["a", "b", 3])], ("y", "z"), zero=[0],
              two=[2], c=[3], f0=np.float32(0), f1=np.float32(1))
    m.loads()
    for a, b in ((1, 1), (2, 5)):
        x = numbers(a, b, 3)
        m.gives((x.reshape(-1, 3), np.arange(a * b * 3, dtype=np.float32)), x=x)


def least_and_greatest_sizes():
    nodes = [node("Shape", ["x"], ["n"]), node("Min", ["n", "five"], ["least"]),
             node("Max", ["n", "five"], ["most"]), node("ConstantOfShape", ["most"], ["zeros"]),
             node("Slice", ["x", "zero", "least"], ["y"]), node("Range", ["two", "limit", "one"], ["r"]),
             node("Squeeze", ["n"], ["limit"]), node("Cast", ["r"], ["z"], to=FLOAT)]
    nodes.insert(5, nodes.pop(6))
    m = Model("least_and_greatest_sizes", nodes, [("x", FLOAT, ["n"])], ("y", "zeros", "z"),
              five=[5], zero=[0], two=np.int64(2), one=np.int64(1))
    m.loads()
    for n in (1, 5, 9):
        x = numbers(n)
        m.gives((x[:5], np.zeros(max(n, 5), np.float32), np.arange(2, n, dtype=np.float32)), x=x)


def padding_of_free_axes():
    for mode in ("reflect", "edge", "wrap"):
        m = Model("padding_of_free_axes_" + mode, [node("Pad", ["x", "pads"], ["y"], mode=mode)],
                  [("x", FLOAT, [1, "h", "w"])], opset=19, pads=[0, 2, 0, 0, 1, 3])
        m.loads()
        for h, w in ((3, 4), (5, 9)):
            x = numbers(1, h, w)
            m.gives(np.pad(x, ((0, 0), (2, 1), (0, 3)), mode=mode), x=x)


def what_is_to_be_known():
    """A refusal says of what a size is made."""
    fed = [node("ReduceMin", ["to"], ["i"], keepdims=0), node("Cast", ["i"], ["p"], to=BOOL)]
    size = [node("Shape", ["x"], ["s"]), node("ReduceMax", ["s"], ["i"], keepdims=0),
            node("Cast", ["i"], ["f"], to=FLOAT), node("Sqrt", ["f"], ["g"]), node("Less", ["g", "four"], ["p"])]
    sides = dict(then_branch=branch("a", [node("Neg", ["x"], ["u"])], "u"),
                 else_branch=branch("b", [node("ReduceMax", ["x"], ["v"], keepdims=0)], "v"))
    choose = node("If", ["p"], ["y"], **sides)
    cases = [("if_fed", [*fed, choose], [("to", INT64, [2])], "condition depends on what is fed"),
             ("if_sizes", [*size, choose], [], "condition depends on a free dimension"),
             ("fed", [node("Reshape", ["x", "to"], ["y"])], [("to", INT64, [2])],
              "depends on what is fed"),
             ("free", [node("Shape", ["x"], ["s"]), node("Mod", ["s", "two"], ["to"]),
                       node("Expand", ["one", "to"], ["y"])], [], "a free dimension")]
    for name, nodes, inputs, words in cases:
        m = Model("what_is_to_be_known_" + name, nodes, [("x", FLOAT, ["n", "m"])] + inputs,
                  two=[2, 2], one=np.float32([[1]]),
                  four=np.float32(4))
        shown = m.tapir("show")
        if shown.returncode != 2 or words not in shown.stdout:
            m.fail("the message is not \"%s\"" % words, shown.stdout)


def counted_loops():
    """while i < n, from 0 by 1, as PyTorch and tf2onnx write it; what two such loops stack is added."""
    def body(name, next_condition, counter_type):
        value = helper.make_tensor_value_info
        nodes = [node("Add", ["i_" + name, "one"], ["i2_" + name]), *next_condition,
                 node("Gather", ["x", "i_" + name], ["row_" + name]),
                 node("Add", ["sum_" + name, "row_" + name], ["sum2_" + name])]
        return helper.make_graph(
            nodes, name,
            [value("t_" + name, INT64, []), value("c_" + name, BOOL, []),
             value("i_" + name, counter_type, []), value("sum_" + name, FLOAT, [2])],
            [value("more_" + name, BOOL, []), value("i2_" + name, counter_type, []),
             value("sum2_" + name, FLOAT, [2]), value("row_" + name, FLOAT, [2])])

    plain = body("a", [node("Less", ["i2_a", "n"], ["more_a"])], INT64)
    float32 = body("b", [node("Cast", ["i2_b"], ["f_b"], to=FLOAT),
                         node("Cast", ["n"], ["fn_b"], to=FLOAT),
                         node("Less", ["f_b", "fn_b"], ["less_b"]),
                         node("Add", ["t_b", "one"], ["t2_b"]),
                         node("Greater", ["n", "t2_b"], ["also_b"]),
                         node("And", ["less_b", "also_b"], ["more_b"])], INT64)
    nodes = [node("Shape", ["x"], ["n1"], start=0, end=1), node("Squeeze", ["n1"], ["n"]),
             node("Less", ["zero", "n"], ["first_a"]),
             node("Loop", ["", "first_a", "zero", "none"], ["ia", "suma", "rows_a"], body=plain),
             node("Cast", ["n"], ["fn"], to=FLOAT), node("Cast", ["zero"], ["fz"], to=FLOAT),
             node("Less", ["fz", "fn"], ["less"]), node("Greater", ["n", "zero"], ["greater"]),
             node("And", ["less", "greater"], ["first_b"]),
             node("Loop", ["most", "first_b", "zero", "none"], ["ib", "sumb", "rows_b"],
                  body=float32),
             node("Add", ["rows_a", "rows_b"], ["r"]), node("Add", ["r", "x"], ["y"]),
             node("Sub", ["suma", "sumb"], ["z"])]
    m = Model("counted_loops", nodes, [("x", FLOAT, ["n", 2])], ("y", "z", "suma"),
              zero=np.int64(0), one=np.int64(1), most=np.int64(2**63 - 1),
              none=np.zeros(2, np.float32))
    m.loads()
    shown = m.loads("--dim", "n=3").tapir("show", "--graph").stdout
    if "turns" in shown or "assume" in shown:
        m.fail("a number of turns is no size", shown)
    for n in (1, 2, 5):
        x = numbers(n, 2)
        m.gives((3 * x, np.zeros(2), x.sum(0)), x=x)
        m.gives((3 * x, np.zeros(2), x.sum(0)), "--dim", "n=%d" % n, x=x)


def forms_of_counted_loops():
    """for i < n, in the words of exporters: none of them ends on a value, and all have one length."""
    value = helper.make_tensor_value_info
    less, at_most = node("Less", ["i2", "n"], ["more"]), node("LessOrEqual", ["i2", "last"], ["more"])
    forms = { # name: condition after a turn, its limit; and whether one is written by floats, too
        "plain": ([less], "", True), "int32_end": ([less], "end", False),
        "and_cond": ([node("Less", ["i2", "n"], ["b"]), node("And", ["c", "b"], ["more"])], "", True),
        "and_turn": ([node("Less", ["i2", "n"], ["b"]), node("And", ["b", "c"], ["more"])], "", False),
        "not_above": ([node("GreaterOrEqual", ["i2", "n"], ["b"]), node("Not", ["b"], ["more"])],
                      "", True),
        "not_below": ([node("LessOrEqual", ["n", "i2"], ["b"]), node("Not", ["b"], ["more"])], "", True),
        "at_most": ([at_most], "end", True),
        "at_least": ([node("GreaterOrEqual", ["last", "i2"], ["more"])], "", True),
        "before": ([node("Less", ["i", "last"], ["more"])], "", False),
        "float": ([node("Cast", ["i2"], ["fi"], to=FLOAT), node("Less", ["fi", "fn"], ["more"])], "end",
                  False),
    }
    begins = {"at_most": node("LessOrEqual", ["zero", "last"], ["first"]),
              "not_below": node("Greater", ["n", "zero"], ["first"]),
              "float": node("Less", ["fzero", "fn"], ["first"])}
    common = [node("Shape", ["x"], ["n1"], start=0, end=1), node("Squeeze", ["n1"], ["n"]),
              node("Sub", ["n", "one"], ["last"]), node("Cast", ["n"], ["fn"], to=FLOAT),
              node("Cast", ["zero"], ["fzero"], to=FLOAT), node("Cast", ["last"], ["flast"], to=FLOAT)]

    def by_floats(nodes):
        names = {"n": "fn", "last": "flast", "zero": "fzero"}
        return [node(k.op_type, [names.get(v, v) for v in k.input], k.output) for k in nodes]

    for name, (after, limit, both) in forms.items():
        for counter in (INT64, FLOAT) if both else (INT64,):
            before = [begins.get(name, node("Less", ["zero", "n"], ["first"]))]
            start, step = ("zero", "one") if counter == INT64 else ("fzero", "fone")
            if counter == FLOAT:
                before, after = by_floats(before), by_floats(after)
            body = helper.make_graph(
                [node("Add", ["i", step], ["i2"]), *after, node("Gather", ["x", "t"], ["row"]),
                 node("Add", ["sum", "row"], ["sum2"])], "turn",
                [value("t", INT64, []), value("c", BOOL, []), value("i", counter, []),
                 value("sum", FLOAT, [2])],
                [value("more", BOOL, []), value("i2", counter, []), value("sum2", FLOAT, [2]),
                 value("row", FLOAT, [2])])
            nodes = [*common, *before,
                     node("Loop", [limit, "first", start, "none"], ["iz", "z", "rows"], body=body),
                     node("Add", ["rows", "x"], ["y"])]
            m = Model("loop_%s_%d" % (name, counter), nodes, [("x", FLOAT, ["n", 2])], ("y", "z"),
                      zero=np.int64(0), one=np.int64(1), fone=np.float32(1), none=np.zeros(2, np.float32),
                      end=np.int64(2**31 - 1))
            shown = m.loads().tapir("show", "--graph").stdout
            if "turns" in shown or "assume" in shown:
                m.fail("its number of turns is no size", shown)
            for n in (1, 2, 5):
                x = numbers(n, 2)
                m.gives((2 * x, x.sum(0)), x=x)


def halved_and_doubled():
    """A backbone of stride 2 whose result is doubled again, and joined with what it was made of; and a
    reshape that is right where the height is 48."""
    w = numbers(4, 3, 3, 3) / 8
    nodes = [node("Conv", ["x", "w"], ["half"], kernel_shape=[3, 3], strides=[2, 2],
                  pads=[1, 1, 1, 1]),
             node("Resize", ["half", "", "scales"], ["twice"], mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
             node("Slice", ["twice", "zero", "three", "one"], ["few"]),
             node("Add", ["few", "x"], ["sum"], name="skip"),
             node("Concat", ["twice", "x"], ["joined"], axis=1),
             node("Relu", ["joined"], ["y"]), node("ReduceMean", ["sum"], ["z"], axes=[2, 3])]
    m = Model("halved_and_doubled", nodes, [("x", FLOAT, ["n", 3, "h", "w"])], ("y", "z"), w=w,
              scales=np.float32([1, 1, 2, 2]), zero=[0], three=[3], one=[1])
    m.loads()
    shown = m.tapir("show")
    if "2*((h+1)/2) = h" not in shown.stdout or "(skip sizes 0)" not in shown.stdout:
        m.fail("show does not tell what is assumed", shown.stdout)
    for h, wide in ((4, 6), (48, 2), (2, 2)):
        x = numbers(1, 3, h, wide)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        half = np.zeros((1, 4, h // 2, wide // 2))
        for i in range(h // 2):
            for j in range(wide // 2):
                taps = padded[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3]
                half[:, :, i, j] = np.einsum("ncij,ocij->no", taps, w)
        twice = half.repeat(2, 2).repeat(2, 3)
        m.gives((np.maximum(np.concatenate([twice, x], 1), 0), (twice[:, :3] + x).mean((2, 3),
                keepdims=True)), x=x)
    m.refuses("skip", x=numbers(1, 3, 5, 4))


def reshape_of_one_height():
    nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[16, 1], strides=[16, 1]),
             node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
             node("Gather", ["s", "three"], ["w"]), node("Concat", ["n", "six", "w"], ["to"], axis=0),
             node("Reshape", ["p", "to"], ["r"], name="squash"),
             node("Transpose", ["r"], ["t"], perm=[0, 2, 1]), node("MatMul", ["t", "m"], ["y"]),
             node("Reshape", ["x", "pairs"], ["z"])]
    mat = numbers(6, 5)
    m = Model("reshape_of_one_height", nodes, [("x", FLOAT, ["n", 2, "h", "w"])], ("y", "z"),
              zero=[0], three=[3], six=[6], m=mat, pairs=[-1, 4])
    m.loads()
    for n, w in ((1, 4), (2, 7)):
        x = numbers(n, 2, 48, w)
        p = x.reshape(n, 2, 3, 16, w).max(3).reshape(n, 6, w)
        m.gives((p.transpose(0, 2, 1) @ mat, x.reshape(-1, 4)), x=x)
    m.refuses("squash", x=numbers(1, 2, 64, 4))


def only_the_shape_is_used():
    """What is assumed holds for the shapes that follow from it too, where no element is read."""
    nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[2], strides=[2]),
             node("Resize", ["p", "", "scales"], ["twice"], mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
             node("Add", ["twice", "x"], ["sum"], name="skip"), node("Shape", ["sum"], ["s"]),
             node("Shape", ["twice"], ["t"]), node("ConstantOfShape", ["s"], ["y"]),
             node("Cast", ["t"], ["z"], to=FLOAT)]
    m = Model("only_the_shape_is_used", nodes, [("x", FLOAT, [1, 1, "n"])], ("y", "z"),
              scales=np.float32([1, 1, 2]))
    m.loads()
    m.gives((np.zeros((1, 1, 6)), np.float32([1, 1, 6])), x=numbers(1, 1, 6))
    m.refuses("skip sizes 0", x=numbers(1, 1, 7))
    m.stands_alone("2*(n/2) = n skip sizes 0", "6", "7")


def every_equation_is_named():
    """Two inputs of one node that are taken to have other sizes."""
    nodes = [node("Add", ["a", "b"], ["ab"], name="sum"), node("Add", ["ab", "c"], ["y"], name="sum")]
    m = Model("every_equation_is_named", nodes, [(n, FLOAT, [n + "1", n + "2"]) for n in "abc"])
    shown = m.loads().tapir("show").stdout
    told = m.tapir("show", "--format", "json").stdout
    if '{"size": "b2", "equals": "a2", "node": "sum sizes 0"}' not in told:
        m.fail("show does not tell what is assumed", told)
    for k in range(4):
        if "(sum sizes %d)" % k not in shown:
            m.fail("equation %d has no name" % k, shown)
    m.gives(6 * numbers(2, 3), a=numbers(2, 3), b=2 * numbers(2, 3), c=3 * numbers(2, 3))
    m.refuses("sum sizes", a=numbers(2, 3), b=numbers(2, 3), c=numbers(2, 4))


def branch(name, nodes, out, rank=None):
    value = helper.make_tensor_value_info(out, FLOAT, None if rank is None else [None] * rank)
    return helper.make_graph(nodes, name, [], [value])


def sides_that_do_not_fit():
    """What a side of an If takes to be equal, or cannot do, matters when it is taken."""
    yes = branch("yes", [node("Add", ["x", "y0"], ["sum"], name="same"),
                         node("ReduceSum", ["sum"], ["a"], keepdims=0)], "a")
    no = branch("no", [node("Slice", ["x", "two", "three"], ["part"]),
                       node("Reshape", ["part", "one"], ["flat"], name="single"),
                       node("ReduceSum", ["flat"], ["b"], keepdims=0)], "b")
    nodes = [node("ReduceMin", ["c"], ["least"], keepdims=0), node("Cast", ["least"], ["p"], to=BOOL),
             node("If", ["p"], ["r"], then_branch=yes, else_branch=no), node("Neg", ["r"], ["z"])]
    m = Model("sides_that_do_not_fit", nodes, [("x", FLOAT, ["n"]), ("y0", FLOAT, ["m"]),
                                               ("c", FLOAT, ["k"])], ("z",), two=[2], three=[3],
              one=[1])
    m.loads()
    for n, many in ((3, 3), (3, 4), (2, 2), (5, 5), (2, 3)):
        x, y = numbers(n), numbers(many)
        for c in (0, 1):
            feeds = {"x": x, "y0": y, "c": np.full(2, c, np.float32)}
            if c and n == many:
                m.gives(-(x + y).sum(), **feeds)
            elif c:
                m.refuses("same sizes 0", **feeds)
            elif n > 2:
                m.gives(-x[2], **feeds)
            else:
                m.refuses("single", **feeds)


def sizes_that_operators_ask_for():
    """Of each operator that asks for equal sizes: a run with such, and one that is refused by its name."""
    def case(name, op, inputs, good, bad, want, attributes=None, weights=None):
        given = [n for n, _ in inputs] + list(weights or {})
        kinds = {np.dtype("float32"): FLOAT, np.dtype("int64"): INT64, np.dtype("uint8"):
                 TensorProto.UINT8}
        starts = [(n, kinds[np.asarray(good[n]).dtype], s) for n, s in inputs]
        nodes = [node(op, given, ["r"], name="ask", **(attributes or {})),
                 node("Cast", ["r"], ["y"], to=FLOAT)]
        m = Model("asks_" + name, nodes, starts, **(weights or {}))
        m.loads().gives(want, **good)
        m.refuses("ask sizes", **bad)

    def f(*shape):
        return numbers(*shape)

    def pair(a, b):
        return [("a", a), ("b", b)]

    case("gemm", "Gemm", pair(["n", "k"], ["m", "l"]), dict(a=f(2, 3), b=f(4, 3)),
         dict(a=f(2, 3), b=f(4, 5)), f(2, 3) @ f(4, 3).T, attributes=dict(transB=1))
    case("squeeze", "Squeeze", [("a", ["n", "m"])], dict(a=f(1, 3)), dict(a=f(2, 3)), f(3),
         weights=dict(axes=[0]))
    case("pow", "Pow", pair(["n"], ["m"]), dict(a=f(3), b=np.full(3, 2, np.float32)),
         dict(a=f(3), b=f(4)), f(3) ** 2)
    case("prelu", "PRelu", pair([1, "n"], ["m"]), dict(a=f(1, 4), b=f(4)), dict(a=f(1, 4), b=f(3)),
         np.where(f(1, 4) < 0, f(1, 4) * f(4), f(1, 4)))
    case("layer_norm", "LayerNormalization", pair([1, "n"], ["m"]), dict(a=np.float32([[1, 3]]), b=f(2)),
         dict(a=f(1, 3), b=f(2)), np.float32([[-1, 1]]) * f(2), attributes=dict(epsilon=1e-9))
    one = np.ones(3, np.float32)
    case("batch_norm", "BatchNormalization", [("a", [1, "c", 2])], dict(a=f(1, 3, 2)),
         dict(a=f(1, 4, 2)), f(1, 3, 2), attributes=dict(epsilon=0.0),
         weights=dict(scale=one, shift=0 * one, mean=0 * one, var=one))
    case("conv", "Conv", [("a", [1, "c", "w"])], dict(a=f(1, 2, 4)), dict(a=f(1, 3, 4)),
         f(1, 2, 4).sum(1, keepdims=True), weights=dict(w=np.ones((1, 2, 1), np.float32)))
    case("einsum", "Einsum", pair(["n", "k"], ["l", "m"]), dict(a=f(2, 3), b=f(3, 4)),
         dict(a=f(2, 3), b=f(2, 4)), f(2, 3) @ f(3, 4), attributes=dict(equation="ij,jk->ik"))
    at = np.int64([[0, 1], [1, 1]])
    three = [("a", ["n", "m"]), ("i", ["p", "q"]), ("u", ["r", "s"])]
    want = f(2, 2).copy()
    np.put_along_axis(want, at[:, :1], f(2, 1), 1)
    case("scatter_elements", "ScatterElements", three, dict(a=f(2, 2), i=at[:, :1], u=f(2, 1)),
         dict(a=f(2, 2), i=at[:, :1], u=f(1, 1)), want, attributes=dict(axis=1))
    case("gather_nd", "GatherND", [("a", ["n", "m"]), ("i", ["p", 1])], dict(a=f(2, 2), i=at[:, :1]),
         dict(a=f(3, 2), i=at[:, :1]), np.take_along_axis(f(2, 2), at[:, :1], 1)[:, 0],
         attributes=dict(batch_dims=1))
    case("nll", "NegativeLogLikelihoodLoss", [("a", ["n", 2]), ("i", ["m"])],
         dict(a=f(2, 2), i=np.int64([1, 0])), dict(a=f(2, 2), i=np.int64([1])),
         -np.float32([f(2, 2)[0, 1], f(2, 2)[1, 0]]), attributes=dict(reduction="none"))
    q = np.uint8([[1, 2, 3]])
    case("matmul_integer", "MatMulInteger", pair([1, "k"], ["l", 1]), dict(a=q, b=q.T),
         dict(a=q, b=q[:, :2].T), np.float32([[14]]))
    case("quantize", "QuantizeLinear", pair([1, "n"], ["m"]), dict(a=np.float32([[4, 9]]),
         b=np.float32([2, 3])), dict(a=f(1, 3), b=np.float32([2, 3])), np.float32([[2, 3]]),
         attributes=dict(axis=1))
    w = np.zeros((1, 3, 2), np.float32)
    case("gru", "GRU", [("a", ["t", "b", "k"])], dict(a=f(2, 1, 2)), dict(a=f(2, 1, 3)),
         np.zeros((2, 1, 1, 1), np.float32), attributes=dict(hidden_size=1),
         weights=dict(w=w, recurrent=w[:, :, :1]))

    m = Model("asks_gather_elements", [node("GatherElements", ["a", "i"], ["y"], axis=1)],
              [("a", FLOAT, ["n", "m"]), ("i", INT64, ["p", "q"])])
    for rows in (1, 2):
        m.loads().gives(np.take_along_axis(f(2, 3)[:rows], at[:rows], 1), a=f(2, 3), i=at[:rows])
    m.refuses("slice", a=f(1, 3), i=at)
    m = Model("asks_split", [node("Split", ["a", "p"], ["y", "z"], name="ask")], [("a", FLOAT, ["n"])],
              ("y", "z"), p=[2, 3])
    m.loads().gives((f(5)[:2], f(5)[2:]), a=f(5)).refuses("ask sizes", a=f(6))


def sides_and_turns_of_one_size():
    """Both sides of an If give as much, and a turn of a Loop what it was given, as the run finds."""
    yes = branch("yes", [node("Add", ["x", "x"], ["a"])], "a", 1)
    no = branch("no", [node("Neg", ["y0"], ["b"])], "b", 1)
    nodes = [node("ReduceMin", ["c"], ["least"], keepdims=0), node("Cast", ["least"], ["p"], to=BOOL),
             node("If", ["p"], ["r"], name="choose", then_branch=yes, else_branch=no),
             node("Add", ["r", "zero"], ["y"])]
    inputs = [("x", FLOAT, ["n"]), ("y0", FLOAT, ["m"]), ("c", FLOAT, ["k"])]
    m = Model("sides_of_one_size", nodes, inputs, zero=np.float32(0))
    x, y, one = numbers(3), numbers(2), np.ones(1, np.float32)
    m.loads().gives(2 * x, x=x, y0=x, c=one).gives(-x, x=x, y0=x, c=0 * one)
    m.gives(2 * x, x=x, y0=y, c=one).refuses("choose sizes", x=x, y0=y, c=0 * one)
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["was", "was"], ["twice"]), node("Add", ["y0", "one"], ["next"]),
         node("Min", ["next", "twice"], ["now"]), node("Identity", ["go"], ["more"])], "turn",
        [value("i", INT64, []), value("go", BOOL, []), value("was", FLOAT, [None])],
        [value("more", BOOL, []), value("now", FLOAT, [None])])
    m = Model("turns_of_one_size", [node("Loop", ["turns", "", "x"], ["y"], name="turn", body=body)],
              [*inputs[:2], ("turns", INT64, [])], one=np.float32(1))
    was = x
    for _ in range(3):
        was = np.minimum(x + 1, 2 * was)
    turns = np.int64(3)
    m.loads().gives(was, x=x, y0=x, turns=turns).refuses("sizes", x=x, y0=y, turns=turns)
    m.gives(x, x=x, y0=y, turns=0 * turns)


def turns_that_do_not_come():
    """What a turn asks for is not asked of a loop without one; how many turns there were, of the run."""
    value = helper.make_tensor_value_info
    inputs = [("x", FLOAT, ["n"]), ("y0", FLOAT, ["m"]), ("turns", INT64, [])]
    body = helper.make_graph(
        [node("Add", ["was", "y0"], ["now"]), node("Identity", ["go"], ["more"])], "turn",
        [value("i", INT64, []), value("go", BOOL, []), value("was", FLOAT, [None])],
        [value("more", BOOL, []), value("now", FLOAT, [None])])
    m = Model("turns_that_do_not_come",
              [node("Loop", ["turns", "", "x"], ["y"], name="turn", body=body)], inputs)
    x, y, turns = numbers(3), numbers(2), np.int64(2)
    m.loads().gives(x + 2 * x, x=x, y0=x, turns=turns).refuses("sizes", x=x, y0=y, turns=turns)
    m.gives(x, x=x, y0=y, turns=0 * turns)
    body = helper.make_graph(
        [node("Add", ["was", "one"], ["now"]), node("Less", ["now", "y0"], ["each"]),
         node("Cast", ["each"], ["one_or_none"], to=INT32),
         node("ReduceMin", ["one_or_none"], ["all"], keepdims=0), node("Cast", ["all"], ["more"], to=BOOL),
         node("Identity", ["now"], ["kept"])], "turn",
        [value("i", INT64, []), value("go", BOOL, []), value("was", FLOAT, [])],
        [value("more", BOOL, []), value("now", FLOAT, []), value("kept", FLOAT, [])])
    nodes = [node("Loop", ["", "true", "zero"], ["last", "rows"], name="rows", body=body),
             node("Add", ["rows", "x"], ["sum"], name="add"), node("Shape", ["sum"], ["size"]),
             node("Cast", ["size"], ["turns"], to=FLOAT), node("Mul", ["last", "zero"], ["none"]),
             node("Add", ["turns", "none"], ["y"])]
    m = Model("as_many_turns_as_elements", nodes, inputs[:2], one=np.float32(1), zero=np.float32(0),
              true=np.bool_(True))
    end = np.float32([3])
    m.loads().gives(np.float32([3]), x=x, y0=end).refuses("have to be equal", x=y, y0=end)


def sides_that_never_fit():
    """With fixed sizes: an error of a side is one when it is taken."""
    for name, sides in (("else", ("Relu", "Squeeze")), ("then", ("Squeeze", "Relu"))):
        graphs = []
        for i, op in enumerate(sides):
            names = ["x", "first"] if op == "Squeeze" else ["x"]
            graphs.append(branch("g%d" % i, [node(op, names, ["%s%d" % (op, i)], name="inside")],
                                 "%s%d" % (op, i)))
        nodes = [node("ReduceMin", ["c"], ["least"], keepdims=0),
                 node("Cast", ["least"], ["p"], to=BOOL),
                 node("If", ["p"], ["r"], name="choose", then_branch=graphs[0], else_branch=graphs[1]),
                 node("Neg", ["r"], ["y"])]
        m = Model("sides_that_never_fit_" + name, nodes, [("x", FLOAT, [2, 3]), ("c", FLOAT, [1])],
                  first=[0])
        x, good = numbers(2, 3), float(name == "else")
        m.loads().gives(-np.maximum(x, 0), x=x, c=np.float32([good]))
        m.refuses("axis 0 of [2, 3] is not of size 1", x=x, c=np.float32([1 - good]))
        m.refuses(name + '_branch of "choose" does not fit', x=x, c=np.float32([1 - good]))


def parts_of_a_free_axis():
    """From operator set 18 on the last part is the smaller one; before, all are equal."""
    parts = ["y%d" % i for i in range(3)]
    m = Model("parts_of_a_free_axis", [node("Split", ["x"], parts, num_outputs=3)],
              [("x", FLOAT, ["n", 2])], parts, opset=18)
    m.loads()
    for n in (9, 7, 8, 1):
        x, each = numbers(n, 2), -(-n // 3)
        if n > 2 * each:
            m.gives((x[:each], x[each:2 * each], x[2 * each:]), x=x)
        else:
            m.refuses("slice", x=x)
    m = Model("equal_parts_of_a_free_axis", [node("Split", ["x"], parts, name="cut")],
              [("x", FLOAT, ["n", 2])], parts, opset=13)
    m.loads()
    x = numbers(6, 2)
    m.gives((x[:2], x[2:4], x[4:]), x=x)
    m.refuses("cut", x=numbers(7, 2))
    if not m.skipped and m.tapir("show", "--dim", "n=7").returncode != 2:
        m.fail("7 are not three equal parts")


def slices_by_sizes():
    """Ends that are sizes, counted from either end, going back, and cut at constants."""
    end = 2**63 - 1
    cuts = [("back", -1, 1), (0, "back", 1), (0, "back", 2), ("back", end, 2), (end, "back", -1),
            (-1, "back", -1), ("front", -end, -1), ("front", -end, -2), (end, "front", -1)]
    nodes = [node("Shape", ["x"], ["front"], start=0, end=1), node("Neg", ["front"], ["back"])]
    weights, outputs = {}, []
    for i, cut in enumerate(cuts):
        names = [v if isinstance(v, str) else "v%d_%d" % (i, k) for k, v in enumerate(cut)]
        weights.update((n, [v]) for n, v in zip(names, cut) if not isinstance(v, str))
        for what in ("table", "free"):
            outputs.append("%s%d" % (what, i))
            nodes.append(node("Slice", [what, names[0], names[1], "axis", names[2]], outputs[-1:]))
    table = numbers(9, 2)
    m = Model("slices_by_sizes", nodes, [("x", FLOAT, ["n"]), ("free", FLOAT, ["m", 2])], outputs,
              axis=[0], table=table, **weights)
    m.loads()
    for n, size in ((1, 4), (3, 7), (4, 6)):
        free, at = numbers(size, 2), {"front": n, "back": -n}
        m.gives(tuple(v[slice(*(at.get(c, c) if abs(at.get(c, c)) < 2**60 else None for c in cut))]
                      for cut in cuts for v in (table, free)), x=numbers(n), free=free)
    m.refuses("have to be equal", x=numbers(0), free=numbers(4, 2))


def slices_that_pass_the_end():
    """Of a free axis cut at constants, clamped at both ends, also going back."""
    end = 2**63 - 1
    cuts = [(5, 7, 1), (5, 1, 1), (2, -2, 1), (-2, 3, 1), (-1, 3, 1), (1, -3, 1), (-3, -5, 1),
            (-4, -2, 1), (4, 1, -1), (4, -end, -2), (-2, -5, -1), (3, -3, -1), (-2, 1, -1),
            (1, 4, -1), (5, end, 1), (3, end, -1), (-9, -end, -1)]
    nodes, weights = [], {}
    for i, cut in enumerate(cuts):
        names = ["%s%d" % (k, i) for k in ("start", "end", "step")]
        weights.update(zip(names, ([v] for v in cut)))
        nodes.append(node("Slice", ["x", names[0], names[1], "axis", names[2]], ["y%d" % i]))
    m = Model("slices_that_pass_the_end", nodes, [("x", FLOAT, [2, "n"])],
              ["y%d" % i for i in range(len(cuts))], axis=[1], **weights)
    m.loads()
    for n in (1, 2, 3, 5, 9):
        x, wants = numbers(2, n), []
        for start, stop, step in cuts: # NumPy has no number for "before the first"
            stop = None if stop == -end else min(stop, 99)
            wants.append(x[:, start:stop:step])
        m.gives(tuple(wants), x=x)


def divided_sizes():
    """Integers are divided toward zero."""
    nodes = [node("Shape", ["x"], ["n"]), node("Neg", ["n"], ["minus"]),
             node("Div", ["minus", "two"], ["half"]), node("Slice", ["x", "half", "end"], ["y"]),
             node("Add", ["n", "n"], ["twice"]), node("Sub", ["twice", "one"], ["odd"]),
             node("Div", ["odd", "two"], ["less"]), node("Cast", ["less"], ["z"], to=FLOAT)]
    m = Model("divided_sizes", nodes, [("x", FLOAT, ["n"])], ("y", "z"), two=[2], one=[1],
              end=[2**63 - 1])
    m.loads()
    for n in (2, 5, 8):
        x = numbers(n)
        m.gives((x[-(n // 2):], np.float32([n - 1])), x=x)


PATTERNS = [only_the_shape_is_used, every_equation_is_named, sides_that_do_not_fit,
            sides_that_never_fit, sizes_that_operators_ask_for,
            sides_and_turns_of_one_size, turns_that_do_not_come, parts_of_a_free_axis, slices_by_sizes,
            slices_that_pass_the_end, divided_sizes, sizes_without_a_name, texts_that_name_nothing,
            one_name_for_an_axis_and_a_text, one_axis_by_its_number, ends_of_slices, slices_of_two_sides,
            the_last_n, products_of_sizes, least_and_greatest_sizes, padding_of_free_axes,
            what_is_to_be_known, counted_loops, forms_of_counted_loops, halved_and_doubled, reshape_of_one_height]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("program")
    args.add_argument("one_program")
    args.add_argument("--engine", default="reference,tiles,c")
    args.add_argument("--only")
    args.add_argument("--keep")
    Model.args = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Model.args.keep = Model.args.keep or folder
        os.environ.setdefault("TAPIR_CACHE", os.path.join(folder, "cache"))
        for pattern in PATTERNS:
            pattern()
        for m in Model.all:
            m.run_cases()
    print("%d patterns, %d failed; repeat with --only NAME --keep FOLDER" %
          (len(PATTERNS), len(set(FAILED))))
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
