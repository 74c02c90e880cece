#!/bin/sh
# npz_numpy.sh NPZ_COPY: what NumPy saves, squeezed or not, comes back through our reader and writer with its types, shapes
# and bits, as npz and as safetensors; what we write is a zip without a fault.
set -u
for python in /usr/bin/python3 python3; do
    "$python" -c 'import numpy' 2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no python3 with numpy"
    exit 77
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

"$python" - "$1" "$dir" <<'END'
import itertools, json, subprocess, sys, zipfile
import numpy as np

copy, folder = sys.argv[1:]
rng = np.random.default_rng(7)
types = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
shapes = [(), (1,), (0,), (7,), (3, 4), (2, 0, 3), (2, 3, 4), (100, 257)]
arrays = {}
for t, shape, order, end in itertools.product(types, shapes, "CF", "<>"):
    n = int(np.prod(shape))
    raw = rng.integers(0, 256, size=n * 8 + 8, dtype=np.uint8)
    a = (raw[:n] & 1).astype("?") if t == "?" else np.frombuffer(raw.tobytes(), np.dtype(end + t), n)
    arrays[f"{t}.{'x'.join(map(str, shape))}/{order}{'lb'[end == '>']}"] = np.array(a.reshape(shape), order=order)
arrays["né"] = np.zeros((300, 1000), "f4")
texts = {"step": np.array(b"12"), "note": np.array("é".encode()), "nothing": np.array(b"")}
odd = {"c": np.zeros(2, "c8"), "u": np.array("text"), "r": np.zeros(2, [("x", "f4"), ("y", "i4")])}

def same(a, b):
    return a.shape == b.shape and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=") and \
        np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b.astype(a.dtype)).tobytes()

def safetensors(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    found = {k: np.array(v.encode()) for k, v in header.pop("__metadata__", {}).items()}
    names = {"BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2",
             "U32": "<u4", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
    for k, v in header.items():
        first, end = v["data_offsets"]
        found[k] = np.frombuffer(data[8 + n + first:8 + n + end], names[v["dtype"]]).reshape(v["shape"])
    return found

for save in [np.savez, np.savez_compressed]:
    save(f"{folder}/from.npz", **arrays, **texts, **odd)
    for to, load in [("to.npz", lambda p: dict(np.load(p))), ("to.safetensors", safetensors)]:
        run = subprocess.run([copy, f"{folder}/from.npz", f"{folder}/{to}"], capture_output=True, text=True)
        if save is np.savez_compressed and "libz.so.1" in run.stderr and "not installed" in run.stderr:
            print("without zlib nothing that is squeezed is read")
            break
        if run.returncode:
            sys.exit(f"{save.__name__}: {run.stderr}")
        for name in odd:
            if f'"{name}" are ' not in run.stdout:
                sys.exit(f"{name} was not refused by name: {run.stdout}")
        found = load(f"{folder}/{to}")
        wanted = {**arrays, **texts}
        if set(found) != set(wanted):
            sys.exit(f"{save.__name__}, {to}: {set(found) ^ set(wanted)}")
        for name, a in wanted.items():
            b = found[name]
            ok = b.item() == a.item() if name in texts else same(a, b)
            if not ok:
                sys.exit(f"{save.__name__}, {to}: {name}: {a.dtype} {a.shape} came back as {b.dtype} {b.shape}")
        if to == "to.npz" and zipfile.ZipFile(f"{folder}/{to}").testzip():
            sys.exit("the zip has a bad member")
print(f"{len(arrays)} arrays and {len(texts)} texts came back, twice in each of two formats")
END
