#!/bin/sh
# check_linked.sh BUILD: what a program that trains an MLP has in it when it is linked with the static library, as a
# user links it: one that trains eagerly, and one whose step is a captured function (test/house/linked/mlp.c).
#
#   runs    it learns
#   size    eagerly under 900,000 bytes stripped: who links statically does so for small machines. A captured function
#           brings the compiler, from passes to the text of kernels
#   parts   layers, losses, optimisers, composites, convolutions, pooling and linear algebra that it does not call cost
#           it no byte: of what these files define nothing is in it but what is listed here
set -u
cd "$(dirname "$0")/.."

archive=$1/libtapir.a
status=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$1"
    status=1
}

# What it calls, and what that calls. First values of weights may be orthogonal, by the QR factors, whose gradient
# solves triangular systems; or truncated normal numbers, by the inverse of erf.
called='tp_(dense_(new|apply)|linear|cross_entropy|params_[a-z_]+|optimizer_[a-z_]+)'
called="$called|tp_(square|initial|truncated_normal|erfinv|clip|diagonal|qr|solve_triangular)"
called="$called|tpi_(op|isa)_(qr|solve_triangular)"
eagerly='tp_sgd_new'
captured='tp_adam_new'

# ---- what else these files define --------------------------------------------------------

for file in src/composite/*.c src/nn/*.c src/op/solve.c src/op/orthogonal.c src/op/fourier.c src/op/conv.c \
    src/op/pool.c src/kernel/isa/matrix_factors.c src/kernel/isa/transforms.c src/kernel/isa/pool_rows.c \
    src/kernel/isa/contract.c; do
    [ -f "$file" ] || fail "$0: $file is not there"
    echo "$(basename "$file").o"
done >"$work/objects"
nm -A --defined-only "$archive" 2>/dev/null | awk '
    FNR == NR { of[$1]; next }
    { split($1, part, ":") }
    part[2] in of && $(NF - 1) ~ /[A-Z]/ && $NF ~ /^(tp_|tpi_op_|tpi_isa_)/ && $NF !~ /^tpi_isa_library_/ { print $NF }
    ' "$work/objects" - | sort -u >"$work/defined"
[ "$(wc -l <"$work/defined")" -gt 600 ] || fail "$archive: the names of its layers and composites were not found"

# ---- the programs ------------------------------------------------------------------------

try() { # NAME FLAGS CALLED LIMIT
    # shellcheck disable=SC2086
    cc -std=c11 -O2 -Iinclude $2 test/house/linked/mlp.c "$archive" -o "$work/$1" -ldl -lm -Wl,--gc-sections || exit 1
    "$work/$1" >"$work/said" || fail "$1: $(cat "$work/said")"
    nm --defined-only "$work/$1" | awk '{ print $NF }' | sort -u | comm -12 - "$work/defined" |
        grep -vE "^($called|$3)(_at|_f(32|64)_[a-z0-9]+)?$" >"$work/more"
    while read -r name; do
        fail "$1: has $name, which it does not call; let what needs that reach it through its op, not through a table"
    done <"$work/more"
    strip "$work/$1"
    size=$(wc -c <"$work/$1")
    echo "$1: $size bytes stripped"
    [ "$size" -lt "$4" ] || fail "$1: $size bytes stripped; the limit is $4"
}
try eager '' "$eagerly" 900000
try captured -DCAPTURED "$captured" 1400000
exit $status
