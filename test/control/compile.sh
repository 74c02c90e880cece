#!/bin/sh
# compile.sh: blocks compile without a warning with every compiler that is here, in C and in C++.
set -u
cd "$(dirname "$0")/../.." || exit 1

status=0
n=0
for compiler in gcc clang g++ clang++; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    case $compiler in
        *++) dialects='-xc++,-std=c++17' ;;
        *) dialects='-xc,-std=c11 -xc,-std=c17' ;;
    esac
    for dialect in $dialects; do
        for level in -O0 -O2; do
            n=$((n + 1))
            # shellcheck disable=SC2086
            "$compiler" $(echo "$dialect" | tr ',' ' ') $level -Wall -Wextra -Wshadow -Wpedantic -Werror \
                -Iinclude -c -o /dev/null test/control/nested.c || {
                echo "test/control/nested.c:1: a warning of $compiler $dialect $level"
                status=1
            }
        done
    done
done
echo "compiled $n times"
[ $n -gt 0 ] || { echo "skipped: no compiler is installed"; exit 77; }
exit $status
