#!/bin/sh
# needs_variables.sh CC INCLUDE: a loop that lists no variable does not compile, and the message has
# the line and what to do.
set -u
cc=$1
include=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0

compile() # HEAD
{
    cat >"$work/loop.c" <<END
#include <tapir/tapir.h>
void loop(int64_t n, tp_tensor *p, tp_tensor *x);
void loop(int64_t n, tp_tensor *p, tp_tensor *x)
{
    $1 {
        x = tp_neg(x);
    }
    (void)n, (void)p;
}
END
    "$cc" -std=c11 -Wall -Wextra -I "$include" -c "$work/loop.c" -o "$work/loop.o" >"$work/said" 2>&1
}

for head in "tp_for (n, &x)" "tp_for_back (n, &x)" "tp_while (p, &x)"; do
    compile "$head" || { echo "$head does not compile:"; cat "$work/said"; status=1; }
done
for head in "tp_for (n)" "tp_for_back (n)" "tp_while (p)"; do
    if compile "$head"; then
        echo "$head compiles"
        status=1
    elif ! grep -q 'loop.c:5:.*' "$work/said" || ! grep -q TP_LIST_A_VARIABLE "$work/said"; then
        echo "$head is refused, but not with its line and TP_LIST_A_VARIABLE:"
        cat "$work/said"
        status=1
    fi
done
exit $status
