#!/bin/sh
# bench.sh DIR: runs every program in DIR, one after the other.
set -eu
found=no
for program in "$1"/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    found=yes
    echo "== $(basename "$program")"
    "$program"
done
[ $found = yes ] || { echo "no benchmark was built in $1" >&2; exit 1; }
