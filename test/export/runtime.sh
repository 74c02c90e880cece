#!/bin/sh
# runtime.sh RUNTIME LOOSE DIR [NAME]: the models of DIR in ONNX Runtime (runtime.js). The package is
# installed into RUNTIME when it is not there, or taken from TAPIR_ONNXRUNTIME, a folder
# node_modules/onnxruntime-node. Exit code 77, and why: no node, no npm, no network.
set -u
version=1.30.0
runtime=$1
shift

skip() {
    echo "skipped: $1"
    exit 77
}

command -v node >/dev/null 2>&1 || skip "node is missing"
package=${TAPIR_ONNXRUNTIME:-$runtime/node_modules/onnxruntime-node}
if [ ! -e "$package/package.json" ]; then
    command -v npm >/dev/null 2>&1 || skip "npm is missing"
    mkdir -p "$runtime"
    # The package's own script fetches what GPUs need; the CPU library is inside.
    if ! (cd "$runtime" && echo '{"private": true}' >package.json &&
        npm install --ignore-scripts --no-audit --no-fund --fetch-retries 0 \
            "onnxruntime-node@$version" >npm.log 2>&1); then
        skip "npm cannot install onnxruntime-node@$version: $(tail -n 1 "$runtime/npm.log")"
    fi
fi
exec node "$(dirname "$0")/runtime.js" "$package" "$@"
