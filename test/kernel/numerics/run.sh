#!/bin/sh
# The same bits from every compiler, optimisation level and instruction set.
#
#     run.sh [--update|--long]     prints one line per build; exits 1 if one differs from golden.txt
#
# Without --long it leaves out what takes long to compile and is nearly another build.
#
# bits.c prints a hash for each function of the kernel text. It is built without libm: the text
# must not need it. What is not installed, or what this machine cannot run, is skipped and said
# so. --update writes golden.txt from the first build; that is a change of the contract.
set -u
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/golden.txt
work=$(mktemp -d "${TMPDIR:-/tmp}/numerics.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
library="-O3 -ffp-contract=off -fno-math-errno -fno-trapping-math"
failed=0 passed=0 skipped=0

line() { # compiler, options, instruction set, result
    printf '  %-22s %-8s %-10s %s\n' "$1" "$2" "$3" "$4"
}

skip() {
    line "$1" "$2" "$3" "skipped: $4"
    skipped=$((skipped + 1))
}

build_and_run() { # compiler, name of options, options, instruction set, its options, runner
    # shellcheck disable=SC2086
    if ! "$1" -std=gnu11 -Wno-psabi $3 $5 -I"$here/../../../src" "$here/bits.c" \
        -o "$work/bits" 2>"$work/errors"; then
        line "$1" "$2" "$4" "FAILED to build"
        head -5 "$work/errors"
        failed=$((failed + 1))
        return
    fi
    if ! $6 "$work/bits" >"$work/out"; then
        line "$1" "$2" "$4" "FAILED to run"
        failed=$((failed + 1))
        return
    fi
    if [ -n "$update" ]; then
        cp "$work/out" "$golden"
        update=
    fi
    if cmp -s "$work/out" "$golden"; then
        line "$1" "$2" "$4" "$(wc -l <"$golden") hashes equal"
        passed=$((passed + 1))
    else
        line "$1" "$2" "$4" "FAILED, these hashes differ (expected, got):"
        diff "$golden" "$work/out" | grep '^[<>]' | head -20
        failed=$((failed + 1))
    fi
}

runs() { # instruction set: can this machine run it?
    case $1 in
    x86-64) return 0 ;;
    x86-64-v3) flags="avx2 fma bmi2" ;;
    x86-64-v4) flags="avx512f avx512bw avx512dq avx512vl" ;;
    esac
    for flag in $flags; do
        grep -qw "$flag" /proc/cpuinfo 2>/dev/null || return 1
    done
}

update=
[ "${1:-}" = --update ] && update=yes
long=
[ "${1:-}" = --long ] && long=yes
line compiler options target result
machine=$(uname -m)
for cc in gcc clang; do
    if ! command -v $cc >/dev/null; then
        skip $cc - - "not installed"
        continue
    fi
    if [ "$machine" != x86_64 ]; then
        build_and_run $cc library "$library" "$machine" "" ""
        build_and_run $cc -O0 -O0 "$machine" "" ""
        continue
    fi
    for set in x86-64 x86-64-v3 x86-64-v4; do
        if ! runs $set; then
            skip $cc all $set "not on this processor"
            continue
        fi
        build_and_run $cc library "$library" $set "-march=$set" ""
        [ -z "$long" ] && [ "$cc $set" != "gcc x86-64-v3" ] || build_and_run $cc -O0 -O0 $set "-march=$set" ""
    done
    # What a user's plain command makes of an exported program.
    [ -z "$long" ] && [ $cc = clang ] || build_and_run $cc -O2 -O2 native -march=native ""
done
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    if echo '#include "kernel/text/elem.h"' | $cc -ffast-math -I"$here/../../../src" -x c -c - \
        -o "$work/fast.o" 2>/dev/null; then
        line $cc fast-math any "FAILED: was not refused"
        failed=$((failed + 1))
    else
        line $cc fast-math any refused
    fi
done
cross=aarch64-linux-gnu-gcc
if [ "$machine" = aarch64 ]; then
    :
elif ! command -v $cross >/dev/null; then
    skip $cross all aarch64 "not installed"
elif ! command -v qemu-aarch64 >/dev/null; then
    skip $cross all aarch64 "qemu-aarch64 is not installed"
else
    build_and_run $cross library "$library -static" aarch64 "" qemu-aarch64
    [ -z "$long" ] || build_and_run $cross -O0 "-O0 -static" aarch64 "" qemu-aarch64
fi
echo "$passed equal, $failed failed, $skipped skipped"
[ $failed = 0 ] || exit 1
[ $passed != 0 ] || exit 77 # nothing to build with: skipped
