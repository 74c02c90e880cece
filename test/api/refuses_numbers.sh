#!/bin/sh
# refuses_numbers.sh INCLUDE COMPILER...: where an operand is asked for, a number does not compile, in C
# and in C++, and the message has the line. Operands do, without a warning of -pedantic.
set -u
include=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0

# A function per line, which returns the call.
compile() # CALLS, one a line
{
    {
        echo '#include <tapir/tapir.h>'
        echo "$1" | awk '{ head = "tp_tensor *f" NR "(tp_tensor *x)"
                           print head "; " head " { return " $0 "; }" }'
    } >"$work/call.$language"
    "$cc" -Wall -Wextra -pedantic -I "$include" -fsyntax-only "$work/call.$language" >"$work/said" 2>&1
}

refuse() # CALLS
{
    compile "$1"
    echo "$1" | while read -r call; do
        line=$((${line:-1} + 1))
        grep -q "call.$language:$line:.*error" "$work/said" || {
            echo "$cc compiles, in $language: $call"
            exit 1
        }
    done || status=1
}

good='tp_where(x, tp_add(x, tp_scalar_like(x, 3)), NULL)
tp_assign(x, tp_neg(x))'
twos=$(for op in add sub mul div pow min max mod eq ne lt le gt ge and or xor; do echo "tp_$op(x, 3)"; done)
others="tp_sub(-1.5f, x)
tp_assign(x, 3)
tp_where(x, 1, x)
tp_where(x, x, 'a')"

for cc in "$@"; do
    command -v "$cc" >/dev/null || continue
    for language in c cc; do
        compile "$good" && [ ! -s "$work/said" ] || {
            echo "$cc: operands in $language:"
            cat "$work/said"
            status=1
        }
        refuse "$twos"
        refuse "$others"
    done
done
exit $status
