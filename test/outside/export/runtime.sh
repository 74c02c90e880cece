#!/bin/sh
# runtime.sh setup                 gets ONNX Runtime from PyPI, once per build folder
# runtime.sh LOOSE DIR [NAME]      the models of DIR in it (runtime.py)
#
# It goes into a virtual environment in the build folder (TAPIR_BUILD); TAPIR_ONNXRUNTIME may name a
# Python that has it already. Exit code 77, and why: no Python with venv, no network.
set -u
version=1.32.0
venv=$TAPIR_BUILD/onnx_runtime
python=${TAPIR_ONNXRUNTIME:-$venv/bin/python}

skip() {
    echo "skipped: $1"
    exit 77
}

has_it() {
    "$python" -c "import onnxruntime; assert onnxruntime.__version__ == '$version'" 2>/dev/null
}

if [ "$1" != setup ]; then
    has_it || skip "there is no ONNX Runtime $version; the test onnx_runtime says why"
    exec "$python" "$(dirname "$0")/runtime.py" "$@"
fi
if ! has_it; then
    [ -z "${TAPIR_ONNXRUNTIME:-}" ] || skip "$python does not have onnxruntime $version"
    for base in /usr/bin/python3 python3; do
        "$base" -c 'import venv, ensurepip' 2>/dev/null && break
        base=
    done
    [ -n "$base" ] || skip "no python3 with venv"
    "$base" -m venv --clear "$venv" >"$TAPIR_BUILD/onnx_runtime.log" 2>&1 &&
        "$python" -m pip install --quiet --disable-pip-version-check --no-input --retries 0 \
            --only-binary :all: "onnxruntime==$version" >>"$TAPIR_BUILD/onnx_runtime.log" 2>&1 ||
        skip "pip cannot install onnxruntime $version: $(tail -n 1 "$TAPIR_BUILD/onnx_runtime.log")"
    has_it || skip "onnxruntime $version does not load"
fi
echo "ONNX Runtime $version: $python"
