#!/bin/sh
# check_headers.sh: each public header compiles alone as C11, C17 and C++17, without a
# warning, with gcc and, where it is installed, clang.
set -u
cd "$(dirname "$0")/.."

status=0
compilers=gcc
command -v clang >/dev/null 2>&1 && compilers='gcc clang'
for header in include/tapir/*.h; do
    for cc in $compilers; do
        for dialect in 'c -std=c11' 'c -std=c17' 'c++ -std=c++17'; do
            # shellcheck disable=SC2086
            printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
                $cc -x $dialect -pedantic -Wall -Wextra -Werror -fsyntax-only -Iinclude -I. - || {
                echo "$header:1: does not compile alone with: $cc -x $dialect -pedantic" \
                    "-Wall -Wextra -Werror -Iinclude; each header includes what it uses"
                status=1
            }
        done
    done
done
exit $status
