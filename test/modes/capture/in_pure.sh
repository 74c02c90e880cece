#!/bin/sh
# Every function that include/tapir declares is in in_pure.txt, once, and those of `seen` are called by a body of
# the tests of pure functions. Usage: in_pure.sh SOURCE
set -eu
cd "$1"
declared=$(mktemp) && listed=$(mktemp)
trap 'rm -f "$declared" "$listed"' EXIT
test/common/declared.sh >"$declared"
grep '^tp_' test/modes/capture/in_pure.txt | tr ' ' '\n' | sort >"$listed"
diff "$declared" "$listed" || { echo "in_pure: < has no place in in_pure.txt, > is not declared, or is twice"; exit 1; }
missing=
for f in $(sed -n '/^seen:/,/^$/p' test/modes/capture/in_pure.txt | grep '^tp_'); do
    grep -q "\<$f(" test/modes/capture/pure_*.c || missing="$missing $f"
done
[ -z "$missing" ] || { echo "in_pure: seen, and in no body of test/modes/capture/pure_*.c:$missing"; exit 1; }
echo "in_pure: all $(wc -l <"$declared") functions have their place"
