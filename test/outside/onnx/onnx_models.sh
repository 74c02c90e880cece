#!/bin/sh
# onnx_models.sh ONNX_MODEL: every network of the shared data, with weights made by the program
# that lies beside them, gives the outputs that were recorded.
set -u
models=$TAPIR_SHARED/models
work=$TAPIR_BUILD/onnx_models
[ -f "$models/make_weights.c" ] || {
    echo "$models is not there"
    exit 77
}
mkdir -p "$work" && cc -O2 -o "$work/make_weights" "$models/make_weights.c" -lm || exit 1
status=0
for model in "$models"/*/; do
    name=$(basename "$model")
    if [ ! -f "$work/$name/weights.bin" ]; then
        mkdir -p "$work/$name"
        cp "$model"/* "$work/$name/" && chmod u+w "$work/$name"/*
        "$work/make_weights" "$work/$name" >/dev/null || exit 1
    fi
    "$1" "$work/$name" || status=1
done
exit $status
