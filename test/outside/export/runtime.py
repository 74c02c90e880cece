"""Runs models in ONNX Runtime and compares: every folder DIR/*/model.onnx with the tensors in
test_data_set_*/input_k.pb and output_k.pb.

    runtime.py LOOSE DIR [NAME]        by a Python that has the package onnxruntime

Numbers agree when they differ by at most atol + rtol |x|, 1e-6 and 1e-5 unless LOOSE gives this
model others, with the reason; integers and bools are equal. Last line: passed, failed. A line of
LOOSE that no model needs is a failure. Exit code 77: there are no models."""
import glob
import itertools
import os
import sys

import numpy as np
import onnxruntime as ort

# ---- tensors in files ------------------------------------------------------------------------

TYPES = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 11: "f8",
         12: "u4", 13: "u8"}


def read_tensor(path):
    """A TensorProto as tapir writes it: dims, data_type, raw_data."""
    with open(path, "rb") as f:
        data = f.read()
    at, dims, dtype, raw = 0, [], 0, b""

    def varint():
        nonlocal at
        value = 0
        for shift in itertools.count(0, 7):
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value

    while at < len(data):
        field, kind = divmod(varint(), 8)
        n = varint()
        if kind == 0:
            if field == 1:
                dims.append(n)
            if field == 2:
                dtype = n
        else:
            if field == 9:
                raw = data[at:at + n]
            at += n
    return np.frombuffer(raw, TYPES[dtype]).reshape(dims)


def read_all(folder, kind):
    names = ("%s/%s_%d.pb" % (folder, kind, k) for k in itertools.count())
    return [read_tensor(name) for name in itertools.takewhile(os.path.exists, names)]


# ---- comparing -------------------------------------------------------------------------------

def difference(got, want, rtol, atol):
    if got.dtype != want.dtype:
        return "is %s, not %s" % (got.dtype, want.dtype)
    if got.shape != want.shape:
        return "is %s, not %s" % (list(got.shape), list(want.shape))
    same = got == want
    off = np.zeros(want.shape)
    if want.dtype.kind == "f":
        same |= np.isnan(got) & np.isnan(want)
        a, b = got.astype("f8"), want.astype("f8")
        off = np.abs(a - b) / (atol + rtol * np.abs(b))
        same |= off <= 1
    if same.all():
        return None
    far = off[~same]
    bad = np.flatnonzero(~same)
    worst = "" if want.dtype.kind != "f" else " (%.3g times too far)" % (
        np.inf if np.isnan(far).any() else far.max())
    return "%s%s: %d of %d differ, first at %d: %s, not %s%s" % (
        want.dtype, list(want.shape), bad.size, want.size, bad[0], got.flat[bad[0]],
        want.flat[bad[0]], worst)


def results_of(folder):
    """What ONNX Runtime gives: (name, result, what it should be) of every output."""
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what it refuses is told below
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(folder + "/model.onnx", options,
                                   providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), session.get_outputs()
    found = []
    for data in sorted(glob.glob(folder + "/test_data_set_*")):
        fed, wanted = read_all(data, "input"), read_all(data, "output")
        if len(fed) != len(inputs):
            raise ValueError("has %d inputs, not %d" % (len(inputs), len(fed)))
        if not wanted or len(wanted) != len(outputs):
            raise ValueError("has %d outputs, not %d" % (len(outputs), len(wanted)))
        got = session.run(None, {i.name: x for i, x in zip(inputs, fed)})
        found += [(o.name, np.asarray(g), w) for o, g, w in zip(outputs, got, wanted)]
    if not found:
        raise ValueError("has no tensors to be run with")
    return found


def compare(found, rtol, atol):
    with np.errstate(all="ignore"):
        for name, got, want in found:
            what = difference(got, want, rtol, atol)
            if what:
                return "output %s %s" % (name, what)
    return None


# ---- all -------------------------------------------------------------------------------------

def read_loose(path):
    """NAME RTOL ATOL REASON, or NAME any REASON of a model that is not held to anything, or NAME
    varies REASON of one that agrees in some runs."""
    loose = {}
    with open(path) as f:
        for line in f:
            words = line.split()
            if not line.startswith("#") and len(words) >= 3:
                loose[words[0]] = words[1:3]
    return loose


def outcome(folder, bounds):
    """None when it agrees, or what is wrong; and the kind of agreement."""
    try:
        found = results_of(folder)
    except Exception as e:  # whatever ONNX Runtime throws at a model that it refuses
        found, what = None, str(e).split("\n")[0]
    else:
        what = compare(found, 1e-5, 1e-6)
    if not bounds:
        return what, "near"
    if not what:
        return (None, "free") if bounds[0] == "varies" else ("agrees: take it out of LOOSE", None)
    if bounds[0] in ("any", "varies"):
        return None, "free"
    return compare(found, float(bounds[0]), float(bounds[1])) if found else what, "bounded"


def main(loose_file, folder, only=None):
    loose = read_loose(loose_file)
    names = sorted(os.path.dirname(p) for p in glob.glob("*/model.onnx", root_dir=folder))
    count = dict.fromkeys(["near", "free", "bounded", "failed"], 0)
    for name in names:
        if only and name != only:
            continue
        what, kind = outcome(os.path.join(folder, name), loose.pop(name, None))
        if what:
            print("FAILED %s: %s" % (name, what))
        count["failed" if what else kind] += 1
    if not any(count.values()):
        print("skipped: no models in " + folder)
        return 77
    for name in loose if not only else ():
        print("FAILED %s: of %s, has no model" % (name, loose_file))
        count["failed"] += 1
    print("%d passed, %d of them within a wider bound and %d with results that ONNX leaves open; "
          "%d failed" % (count["near"] + count["free"] + count["bounded"], count["bounded"],
                         count["free"], count["failed"]))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
