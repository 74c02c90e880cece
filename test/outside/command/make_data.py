"""Makes the models and tensors in data/ that the tests of the command read. Needs NumPy and onnx;
what it makes is kept, so that the tests need neither.

    /usr/bin/python3 test/outside/command/make_data.py
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
FLOAT = TensorProto.FLOAT


def write(path, content):
    path = os.path.join(DATA, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)


def model(path, nodes, inputs, outputs, weights=(), opset=17):
    def info(ports):
        return [helper.make_tensor_value_info(n, t, s) for n, t, s in ports]

    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs),
                              [numpy_helper.from_array(v, n) for n, v in weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    write(path, made.SerializeToString())


def tensor(path, value, name=""):
    write(path, numpy_helper.from_array(value, name).SerializeToString())


def npy(path, value):
    path = os.path.join(DATA, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.save(path, value)


node = helper.make_node
w = np.array([[1, -1], [2, 0.5], [-3, 4]], np.float32)
b = np.array([0.25, -0.5], np.float32)
x = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
y = np.maximum(x @ w + b, 0)

# y = relu(x w + b), x [batch, 3]
model("linear.onnx", [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["k"]),
                      node("Relu", ["k"], ["y"])],
      [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch", 2])], [("w", w), ("b", b)])
npy("x.npy", x)
npy("x_f64.npy", x.astype(np.float64))
npy("x_wide.npy", np.zeros((2, 4), np.float32))
tensor("x.pb", x, "x")

# y = conv(x, w), large enough for Winograd's tiles
model("conv.onnx", [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
      [("x", FLOAT, ["batch", 32, 16, 16]), ("w", FLOAT, [32, 32, 3, 3])],
      [("y", FLOAT, ["batch", 32, 16, 16])])

# z = a[i] - c: a float and an integer input, sizes fixed
model("two.onnx", [node("Gather", ["a", "i"], ["g"]), node("Sub", ["g", "c"], ["z"])],
      [("a", FLOAT, [4, 2]), ("i", TensorProto.INT64, [3])], [("z", FLOAT, [3, 2])],
      [("c", np.array([1, 2], np.float32))])

# the shape is fed: it has to be known when the model is read
model("fed_shape.onnx", [node("Reshape", ["x", "shape"], ["y"])],
      [("x", FLOAT, [2, 3]), ("shape", TensorProto.INT64, [2])], [("y", FLOAT, None)])
npy("shape.npy", np.array([3, 2], np.int64))

# the padding needs a size that is free
model("pool.onnx", [node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2],
                         auto_pad="SAME_UPPER")],
      [("x", FLOAT, ["batch", 1, "length"])], [("y", FLOAT, None)])
npy("row.npy", np.array([[[1, 3, 2, 5, 4]]], np.float32))

# names that are hostile to terminals, files, HTML, JSON and C
model("names.onnx", [node("Neg", ['in "put"=1\n*/\x1b[31m'], ["../<b>&out\\"])],
      [('in "put"=1\n*/\x1b[31m', FLOAT, [2])], [("../<b>&out\\", FLOAT, [2])])
npy("pair.npy", np.array([1, -2], np.float32))

# a sequence: ys is xs with -xs[0] behind it
def lists(path, nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", [helper.make_value_info(*p) for p in inputs],
                              [helper.make_value_info(*p) for p in outputs])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    write(path, made.SerializeToString())


plain = helper.make_tensor_type_proto(FLOAT, None)
many = helper.make_sequence_type_proto(plain)
maybe = helper.make_optional_type_proto(plain)
lists("sequence.onnx",
      [node("Constant", [], ["zero"], value=numpy_helper.from_array(np.array(0, np.int64))),
       node("SequenceAt", ["xs", "zero"], ["first"]), node("Neg", ["first"], ["negative"]),
       node("SequenceInsert", ["xs", "negative"], ["ys"]),
       node("ConcatFromSequence", ["xs"], ["all"], axis=0)],
      [("xs", many)], [("ys", many), ("all", plain)])
npy("xs/0.npy", np.array([1, 2], np.float32))
tensor("xs/1.pb", np.array([3], np.float32))
npy("gap/0.npy", np.array([1, 2], np.float32))
npy("gap/2.npy", np.array([3], np.float32))

# an optional, and whether it has a value
lists("optional.onnx",
      [node("OptionalHasElement", ["o"], ["has"]), node("Identity", ["o"], ["same"])],
      [("o", maybe)],
      [("has", helper.make_tensor_type_proto(TensorProto.BOOL, [])), ("same", maybe)])

model("missing.onnx", [node("Frobnicate", ["x"], ["h"]), node("Defrost", ["h"], ["y"])],
      [("x", FLOAT, [2])], [("y", FLOAT, [2])])
write("garbage.onnx", b"this is no model")
write("garbage.npy", b"this is no tensor")
write("garbage.pb", b"this is no tensor")

# test cases
for name, want in [("good", -x), ("wrong", -x + np.float32([0, 0.5, 0])), ("shape", -x[:1]),
                   ("nan", np.where(x == 3, np.nan, -x))]:
    folder = f"cases/{name}"
    model(f"{folder}/model.onnx", [node("Neg", ["x"], ["y"])], [("x", FLOAT, [2, 3])],
          [("y", FLOAT, [2, 3])])
    tensor(f"{folder}/test_data_set_0/input_0.pb", x)
    tensor(f"{folder}/test_data_set_0/output_0.pb", want.astype(np.float32))
model("cases/lacks/model.onnx", [node("Frobnicate", ["x"], ["h"]), node("Defrost", ["h"], ["y"])],
      [("x", FLOAT, [2])], [("y", FLOAT, [2])])
tensor("cases/lacks/test_data_set_0/input_0.pb", x[0, :2])
tensor("cases/lacks/test_data_set_0/output_0.pb", x[0, :2])
model("cases/bare/model.onnx", [node("Neg", ["x"], ["y"])], [("x", FLOAT, [2])],
      [("y", FLOAT, [2])])
# what a comparison of numbers alone does not see
F16 = TensorProto.FLOAT16
h = np.array([1, 2.5], np.float32)


def checked(name, ops, want, declared=FLOAT, ports=(("x", FLOAT, [2]),), given=(h,), outputs=("y",)):
    folder = f"checks/{name}"
    model(f"{folder}/model.onnx", ops, ports, [(o, declared, None) for o in outputs])
    for i, v in enumerate(given):
        tensor(f"{folder}/test_data_set_0/input_{i}.pb", v)
    for i, v in enumerate(want):
        tensor(f"{folder}/test_data_set_0/output_{i}.pb", v)


half = [node("Cast", ["x"], ["y"], to=F16)]
checked("half", half, [h.astype(np.float16)], F16)
checked("half_as_float", half, [h], F16)
checked("float_as_half", [node("Identity", ["x"], ["y"])], [h.astype(np.float16)])
checked("declared", [node("Identity", ["x"], ["y"])], [h.astype(np.int64)], TensorProto.INT64)
checked("declared_npy", [node("Identity", ["x"], ["y"])], [], TensorProto.INT64)
npy("checks/declared_npy/test_data_set_0/output_0.npy", h)
checked("surplus", [node("Identity", ["x"], ["y"])], [h, h])
chances = np.full([400], 0.25, np.float32)
wide = (("x", FLOAT, [400]),)
zeros = np.zeros([400], np.float32)
checked("test_bernoulli", [node("Bernoulli", ["x"], ["y"])], [zeros], FLOAT, wide, (chances,))
checked("test_bernoulli_same", [node("Identity", ["x"], ["y"])], [zeros], FLOAT, wide, (chances,))
checked("test_bernoulli_none", [node("Sub", ["x", "x"], ["y"])], [zeros], FLOAT, wide, (chances,))
checked("test_training_dropout_twice", [node("Add", ["x", "x"], ["y"])], [zeros], FLOAT, wide,
        (chances,))
checked("test_training_dropout_thrice",
        [node("Add", ["x", "x"], ["h"]), node("Add", ["x", "h"], ["y"])], [zeros], FLOAT, wide,
        (chances,))

write("cases/broken/model.onnx", b"this is no model")
write("cases/broken/test_data_set_0/note", b"")

# the names a and b of sizes are one size unless one of them is 1, which only the inputs tell
stretch = [node("Add", ["x", "z"], ["y"])]
ports = [("x", FLOAT, ["a", 3]), ("z", FLOAT, ["b", 3])]
model("stretch.onnx", stretch, ports, [("y", FLOAT, None)])
npy("z.npy", x[:1])
model("cases/stretch/model.onnx", stretch, ports, [("y", FLOAT, None)])
tensor("cases/stretch/test_data_set_0/input_0.pb", x)
tensor("cases/stretch/test_data_set_0/input_1.pb", x[:1])
tensor("cases/stretch/test_data_set_0/output_0.pb", x + x[:1])

# sizes that never fit
model("cases/misfit/model.onnx", [node("Reshape", ["x", "to"], ["y"])], [("x", FLOAT, [2, 3])],
      [("y", FLOAT, None)], [("to", np.array([7], np.int64))])
tensor("cases/misfit/test_data_set_0/input_0.pb", x)
tensor("cases/misfit/test_data_set_0/output_0.pb", x)
