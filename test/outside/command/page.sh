#!/bin/sh
# page.sh TAPIR: the drawings of a small model and of a wide one, in a window (page.js).
set -u
tapir=$1
folder=$(cd "$(dirname "$0")" && pwd)
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0
models=${TAPIR_SHARED:-none}/models
if [ -e "$models/gpt_mini/model.onnx" ] && cp "$models"/gpt_mini/* "$work" &&
    cc -O2 -o "$work/make_weights" "$models/make_weights.c"; then
    "$work/make_weights" "$work" >/dev/null || exit 1
else
    echo "$models/gpt_mini/model.onnx is not there"
fi
for model in "$folder/data/linear.onnx" "$folder/data/blocks.tapir" "$work/model.onnx"; do
    [ -e "$model" ] || continue
    "$tapir" show "$model" --format html >"$work/page.html" &&
        node "$folder/page.js" "$work/page.html" || {
        echo "repeat: $tapir show $model --format html >page.html; node $folder/page.js page.html"
        status=1
    }
done
exit $status
