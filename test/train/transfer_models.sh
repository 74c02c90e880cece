#!/bin/sh
# transfer_models.sh numpy|torch PROGRAM: transfer_models.py by the first Python that has what it needs. TAPIR_TORCH may
# name one that has PyTorch and safetensors.
set -u
here=$(cd "$(dirname "$0")" && pwd)
needs=numpy
[ "$1" = torch ] && needs="numpy, torch, safetensors"
for python in ${TAPIR_TORCH:-} /usr/bin/python3 python3; do
    "$python" -c "import $needs" 2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no python3 with $needs"
    exit 77
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
"$python" "$here/transfer_models.py" "$1" "$2" "$dir"
