#!/bin/sh
# bench.sh DIR: measures with bench, built in DIR, on one thread and on two, with the examples, and with onnx_ops and
# composites, where PYTHON (or python3) has the package onnx, torch. Where PEERS is set and PEERS_RUN, a command that measures other
# systems, is not, that is tools/peers.sh.
set -eu
[ -x "$1/bench" ] || { echo "no benchmark was built in $1" >&2; exit 1; }
if [ -n "${PEERS:-}" ] && [ -z "${PEERS_RUN:-}" ]; then
    PEERS_RUN="$(cd "$(dirname "$0")" && pwd)/peers.sh"
    export PEERS_RUN
fi
"$1/bench" --threads 1
[ "$(nproc 2>/dev/null || echo 1)" = 1 ] || "$1/bench" --threads 2
# The examples: a call of each form over an eager one's time (goal: 1 at most).
for example in branch hvp maml loops rnn; do
    [ ! -x "$1/../examples/$example" ] || "$1/../examples/$example" --times | grep ' eagerly '
done
if [ -x "$1/onnx_ops" ]; then
    "${PYTHON:-python3}" "$(dirname "$0")/../bench/onnx_ops.py" "$1/onnx_ops" || [ $? = 77 ]
fi
if [ -x "$1/composites" ]; then
    for gradient in '' --gradient; do
        # shellcheck disable=SC2086
        "${PYTHON:-python3}" "$(dirname "$0")/../bench/composites.py" "$1/composites" $gradient || [ $? = 77 ]
    done
fi
