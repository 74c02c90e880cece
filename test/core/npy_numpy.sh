#!/bin/sh
# npy_numpy.sh NPY_COPY: arrays of every type, shape and order that we read, saved by NumPy,
# come back through our load and save with the same type, shape and bits; types that we do not
# have are refused by name.
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
import itertools, subprocess, sys
import numpy as np
import numpy.lib.format as fmt

copy, folder = sys.argv[1:]
rng = np.random.default_rng(7)
types = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
shapes = [(), (1,), (0,), (7,), (3, 4), (2, 0, 3), (2, 3, 4), (1, 5, 1, 2), (2,) * 8, (100, 257)]
pairs, wanted = [], []

def bits(a):
    return np.ascontiguousarray(a).tobytes()

def add(a, version=None):
    path = f"{folder}/{len(wanted)}"
    with open(path + ".npy", "wb") as f:
        fmt.write_array(f, a, version=version)
    pairs.extend([path + ".npy", path + ".out.npy"])
    wanted.append(a)

for t, shape, order, end in itertools.product(types, shapes, "CF", "<>"):
    raw = rng.integers(0, 256, size=int(np.prod(shape)) * 8 + 8, dtype=np.uint8)
    if t == "?":
        a = (raw[: int(np.prod(shape))] & 1).astype("?").reshape(shape)
    else:
        dt = np.dtype(end + t)
        a = np.frombuffer(raw.tobytes(), dtype=dt, count=int(np.prod(shape))).reshape(shape)
    add(np.array(a, order=order))
special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308])
for version in [(1, 0), (2, 0), (3, 0)]:
    add(special, version)
    with np.errstate(over="ignore"):
        add(special.astype("f4"), version)

run = subprocess.run([copy] + pairs)
if run.returncode:
    sys.exit(f"npy_copy: exit status {run.returncode}")
for i, a in enumerate(wanted):
    b = np.load(f"{folder}/{i}.out.npy", allow_pickle=False)
    same = b.shape == a.shape and b.dtype == a.dtype.newbyteorder("=")
    if not same or bits(b) != bits(a.astype(b.dtype)):
        at = np.flatnonzero(b.ravel() != a.ravel())[:1] if b.shape == a.shape else "-"
        sys.exit(f"array {i}: {a.dtype} {a.shape} F={a.flags.f_contiguous} came back as "
                 f"{b.dtype} {b.shape}; first wrong element {at}")

refused = 0
for t in ["c8", "c16", "U3", "S5", "M8[s]", "m8[s]", "V4", [("x", "f4"), ("y", "i4")], "O"]:
    a = np.zeros(3, dtype=t)
    np.save(f"{folder}/no.npy", a, allow_pickle=True)
    run = subprocess.run([copy, f"{folder}/no.npy", "-"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{t}: {run.stderr}")
    if "its elements" not in run.stdout:
        sys.exit(f"{t}: refused, but with {run.stdout!r}")
    refused += 1
print(f"{len(wanted)} arrays came back with their bits, {refused} types were refused by name")
END
