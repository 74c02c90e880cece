#!/bin/sh
# Every function that include/tapir declares is called by the monkey, and none is left over.
# Usage: monkey_list.sh SOURCE MONKEY
set -eu
cd "$1"
declared=$(mktemp) && called=$(mktemp)
trap 'rm -f "$declared" "$called"' EXIT
test/common/declared.sh >"$declared"
"$2" --list | sort -u >"$called"
diff "$declared" "$called" || { echo "monkey_list: < is not called, > is not declared"; exit 1; }
echo "monkey_list: all $(wc -l <"$declared") functions are called"
