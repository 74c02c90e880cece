#!/bin/sh
# cli.sh TAPIR [NAME...]: runs the commands in case/NAME.cmd, each in a copy of data/, and compares
# what they print (stdout and stderr, as they come) with case/NAME.out, and the exit code of
# the last command with the number in case/NAME.exit (0 when there is no such file).
# With UPDATE=1 it writes those files instead: look at them before they are kept.
set -u
folder=$(cd "$(dirname "$0")" && pwd)
tapir=$1
shift
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$tapir" "$work/bin/tapir"
PATH=$work/bin:$PATH
TAPIR_CACHE=${TAPIR_CACHE:-$work/cache}
LC_ALL=C
export PATH TAPIR_CACHE LC_ALL
unset TAPIR_CC TAPIR_LOG TAPIR_THREADS

[ $# -gt 0 ] || set -- $(cd "$folder/case" && ls ./*.cmd | sed 's/^\.\///; s/\.cmd$//')
passed=0
failed=0
for name in "$@"; do
    case=$folder/case/$name
    rm -rf "$work/data"
    cp -r "$folder/data" "$work/data"
    (cd "$work/data" && sh "$case.cmd") >"$work/out" 2>&1
    status=$?
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/out" "$case.out"
        rm -f "$case.exit"
        [ $status = 0 ] || echo $status >"$case.exit"
        continue
    fi
    wanted=0
    [ ! -e "$case.exit" ] || wanted=$(cat "$case.exit")
    if ! diff -u "$case.out" "$work/out"; then
        echo "$name: prints something else; repeat: test/outside/command/cli.sh $tapir $name"
        failed=$((failed + 1))
    elif [ $status != "$wanted" ]; then
        echo "$name: exit code $status, not $wanted; repeat: test/outside/command/cli.sh $tapir $name"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
echo "$passed commands as they should be, $failed not"
[ $failed = 0 ]
