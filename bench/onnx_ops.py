#!/usr/bin/python3
"""ONNX operators that read at places of their own, products of 8 bits, and nets of convolutions, beside
ONNX Runtime, the nets beside OpenVINO too, one thread each.

    onnx_ops.py ONNX_OPS [--rounds N] [--only TEXT]

ONNX_OPS is the program beside this one; it runs each model eagerly, by tiles and by C. Of what each
takes the median of the rounds is printed, and its ratio to the best peer's, of which the goal is the
largest that is aimed at. A peer that is not installed is left out."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)
try:
    import onnxruntime
except ImportError:
    onnxruntime = None
try:
    import openvino
except ImportError:
    openvino = None

GOAL = 1.0
WAYS = ("eager", "tiles", "c")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(np.uint8): TensorProto.UINT8,
         np.dtype(np.int8): TensorProto.INT8}
OUT_TYPES = {"MatMulInteger": TensorProto.INT32, "QLinearMatMul": TensorProto.UINT8}
RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def case(name, op, inputs, outputs=("y",), constants=(), **attributes):
    """One node; `inputs` and `constants` are its operands in order, "" for none."""
    names = ["x%d" % i if type(v) is not str else "" for i, v in enumerate(inputs)]
    known = ["c%d" % i if type(v) is not str else "" for i, v in enumerate(constants)]
    graph = helper.make_graph(
        [helper.make_node(op, names + known, list(outputs), **attributes)], "case",
        [helper.make_tensor_value_info(n, TYPES[v.dtype], v.shape)
         for n, v in zip(names, inputs) if n],
        [helper.make_tensor_value_info(n, INT64 if n == "places" else OUT_TYPES.get(op, FLOAT), None)
         for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in zip(known, constants) if n])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return name, model, {n: v for n, v in zip(names, inputs) if n}, GOAL


def resize(name, x, scales, sizes="", **attributes):
    scales = np.array(scales, np.float32) if scales else ""
    sizes = np.array(sizes, np.int64) if sizes else ""
    constants = ["", scales] if type(sizes) is str else ["", "", sizes]
    return case(name, "Resize", [x], constants=constants, **attributes)


def byte_products(m, k, n):
    """As a T5-small has them: activations of uint8, weights of int8."""
    a = RNG.integers(0, 256, (m, k), np.uint8)
    b = RNG.integers(-128, 128, (k, n), np.int8)
    zeros = np.uint8(128), np.int8(0)
    scales = [np.float32(v) for v in (0.02, 0.01, 0.5)]
    shape = "%dx%dx%d" % (m, k, n)
    yield case("MatMulInteger " + shape, "MatMulInteger", [a], constants=[b, *zeros])
    yield case("QLinearMatMul " + shape, "QLinearMatMul", [a],
               constants=[scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[0]])


def dilated(d):
    w = floats(256, 512, 3, 3)
    return case("Conv 3x3 dilation %d, 512 to 256 channels of 14x14" % d, "Conv",
                [floats(1, 512, 14, 14)], constants=[w, floats(256)], dilations=[d, d],
                pads=[d, d, d, d])


def bottlenecks(batch):
    """The blocks of a ResNet-50, whose norms are folded into their convolutions."""
    nodes, weights = [], []

    def conv(x, channels, out, size, stride=1, relu=True):
        y = "y%d" % len(nodes)
        w = floats(out, channels, size, size) * np.float32((2 / (channels * size * size))**0.5)
        weights.append(numpy_helper.from_array(w, y + "w"))
        nodes.append(helper.make_node("Conv", [x, y + "w"], [y], pads=[size // 2] * 4,
                                      strides=[stride] * 2))
        if relu:
            nodes.append(helper.make_node("Relu", [y], [y + "r"]))
        return nodes[-1].output[0]

    x, channels = "x0", 256
    for out, inner, blocks in (256, 64, 3), (512, 128, 4), (1024, 256, 6), (2048, 512, 3):
        for block in range(blocks):
            stride = 2 if block == 0 and inner > 64 else 1
            y = conv(conv(x, channels, inner, 1), inner, inner, 3, stride)
            y = conv(y, inner, out, 1, relu=False)
            beside = x if channels == out else conv(x, channels, out, 1, stride, relu=False)
            nodes.append(helper.make_node("Add", [y, beside], [y + "a"]))
            nodes.append(helper.make_node("Relu", [y + "a"], [y + "o"]))
            x, channels = y + "o", out
    feed = floats(batch, 256, 56, 56)
    graph = helper.make_graph(
        nodes, "case", [helper.make_tensor_value_info("x0", FLOAT, feed.shape)],
        [helper.make_tensor_value_info(x, FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return "ResNet-50's bottlenecks, batch %d" % batch, model, {"x0": feed}, 0.85


def places(n, *shape):
    return RNG.integers(0, n, shape, np.int64)


def cases():
    image, plane = floats(1, 64, 56, 56), floats(1, 64, 112, 112)
    pads = np.array([0, 0, 3, 3, 0, 0, 3, 3], np.int64)
    grid = (RNG.random((1, 64, 64, 2), np.float32) * 2 - 1)
    table, index = floats(1024, 1024), places(1024, 1024)
    asymmetric = {"coordinate_transformation_mode": "asymmetric"}
    yield resize("Resize nearest, 64x56x56 to 112", image, [1, 1, 2, 2], mode="nearest",
                 nearest_mode="floor", **asymmetric)
    yield resize("Resize nearest, 64x56x56 to 75", image, None, [1, 64, 75, 75],
                 mode="nearest", nearest_mode="floor", **asymmetric)
    yield resize("Resize linear, 64x56x56 to 112", image, [1, 1, 2, 2], mode="linear")
    yield resize("Resize linear, 21x14x14 to 224", floats(1, 21, 14, 14), [1, 1, 16, 16],
                 mode="linear")
    yield case("GridSample linear, 64x64x64", "GridSample", [floats(1, 64, 64, 64), grid])
    yield case("GridSample nearest, 64x64x64", "GridSample", [floats(1, 64, 64, 64), grid],
               mode="nearest")
    for mode in "edge", "reflect", "constant":
        yield case("Pad %s by 3, 64x112x112" % mode, "Pad", [plane], constants=[pads],
                   mode=mode)
    yield case("Gather, rows of 1024x1024", "Gather", [table], constants=[index], axis=0)
    yield case("Gather, columns of 1024x1024", "Gather", [table], constants=[index], axis=1)
    yield case("Gather, columns, indices fed", "Gather", [table, index], axis=1)
    for axis in 0, 1:
        yield case("GatherElements 1024x1024, axis %d" % axis, "GatherElements",
                   [table, places(1024, 1024, 1024)], axis=axis)
    yield case("TopK 10 of 10000, 64 rows", "TopK", [floats(64, 10000)], ("y", "places"),
               [np.array([10], np.int64)])
    yield case("TopK 100 of 10000, 64 rows", "TopK", [floats(64, 10000)], ("y", "places"),
               [np.array([100], np.int64)])
    yield case("Transpose to NHWC, 64x112x112", "Transpose", [plane], perm=[0, 2, 3, 1])
    yield case("Transpose to NCHW, 112x112x64", "Transpose", [floats(1, 112, 112, 64)],
               perm=[0, 3, 1, 2])
    yield case("Transpose 1024x1024", "Transpose", [table], perm=[1, 0])
    yield case("ConvTranspose 2x2 stride 2, 64x56x56 to 112", "ConvTranspose", [image],
               constants=[floats(64, 64, 2, 2), floats(64)], strides=[2, 2])
    yield case("ConvTranspose 2x2 stride 2, 128x28x28 to 56", "ConvTranspose",
               [floats(1, 128, 28, 28)], constants=[floats(128, 64, 2, 2), floats(64)],
               strides=[2, 2])
    for shape in (1, 512, 512), (1, 512, 2048), (64, 512, 512), (64, 512, 2048), (64, 2048, 512):
        yield from byte_products(*shape)
    for d in 1, 12, 24, 36:
        yield dilated(d)
    for batch in 1, 8:
        yield bottlenecks(batch)


def runtime_ms(model, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for y in session.get_outputs():
        binding.bind_output(y.name)
    session.run_with_iobinding(binding)
    took, spent = [], 0
    while len(took) < 5 or (spent < 0.2 and len(took) < 200):
        start = time.thread_time()
        session.run_with_iobinding(binding)
        took.append(time.thread_time() - start)
        spent += took[-1]
    return 1e3 * statistics.median(took)


def openvino_ms(model, feeds):
    """Of all its threads, of which one computes."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU",
                                  {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1,
                                   "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for name, value in feeds.items():
        request.set_tensor(name, openvino.Tensor(value))
    request.infer()
    took, spent = [], 0
    while len(took) < 5 or (spent < 0.2 and len(took) < 200):
        start = time.process_time()
        request.infer()
        took.append(time.process_time() - start)
        spent += took[-1]
    return 1e3 * statistics.median(took)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print("%-50s %9s %9s" % ("milliseconds, and ratio to the best peer's", "ORT", "OpenVINO") +
          "".join("%16s" % w for w in WAYS) + "%7s" % "goal")
    with tempfile.TemporaryDirectory() as folder:
        for name, model, feeds, goal in cases():
            if args.only not in name:
                continue
            path = os.path.join(folder, "model.onnx")
            save(model, path)
            peers = [runtime_ms if onnxruntime else None,
                     openvino_ms if openvino and "bottlenecks" in name else None]
            peer_took, own = [[], []], []
            for _ in range(args.rounds):
                for took, measure in zip(peer_took, peers):
                    if measure:
                        took.append(measure(model, feeds))
                files = [os.path.join(folder, "%s.npy" % n) for n in feeds]
                for f, v in zip(files, feeds.values()):
                    np.save(f, v)
                done = subprocess.run([args.program, path] + files, capture_output=True,
                                      text=True, check=True)
                own.append([float(v) for v in done.stdout.split()])
            medians = [statistics.median(took) if took else None for took in peer_took]
            base = min((ms for ms in medians if ms), default=None)
            row = "%-50s" % name
            for ms in medians:
                row += " %9s" % ("%.3f" % ms if ms else "-")
            for ms in zip(*own):
                ms = statistics.median(ms)
                row += " %9.3f" % ms + (" %5.2f" % (ms / base) if base else "     -")
            print(row + "%7.2f" % goal, flush=True)


main()
