#!/bin/sh
# Every function that include/tapir declares has a case of misuse, and none is left over.
# Usage: misuse_list.sh SOURCE
set -eu
cd "$1"
declared=$(mktemp) && covered=$(mktemp)
trap 'rm -f "$declared" "$covered"' EXIT
test/common/declared.sh >"$declared"
sed -n 's/^ *LISTED(\(tp_[a-z0-9_]*\)),*$/\1/p' test/api/misuse_*.c | sort -u > "$covered"
n=$(wc -l < "$declared")
[ "$n" -gt 150 ] || { echo "misuse_list: only $n functions found in the headers"; exit 1; }
missing=$(comm -23 "$declared" "$covered")
extra=$(comm -13 "$declared" "$covered")
[ -z "$missing" ] || printf 'misuse_list: without a case:\n%s\n' "$missing"
[ -z "$extra" ] || printf 'misuse_list: not in the headers:\n%s\n' "$extra"
[ -z "$missing$extra" ]
echo "misuse_list: all $n functions have a case"
