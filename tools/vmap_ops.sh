#!/bin/sh
# vmap_ops.sh BUILD: which ops tp_vmap takes one sample after the other, and how often in the cases of all ops.
set -eu
cases=$1/test/modes/op/op_cases
[ -x "$cases" ] || {
    echo "vmap_ops.sh: build $cases first"
    exit 2
}
TAPIR_LOG=vmap "$cases" vmap 2>&1 |
    sed -n 's/.*: \([a-z_0-9]*\) takes one sample after the other$/\1/p' | sort | uniq -c
