#!/bin/sh
# check.sh [--long]: builds and runs all tests, and counts them in its last line.
#
#   release   every test (those labelled `long` only with --long)
#   asan      those labelled `fast`, under the address and undefined-behaviour sanitizers
#   stress    those labelled `fast`, in a build where rare events happen always
#   clang     those labelled `fast`, in a release build by clang, with --long
#   tsan      those labelled `threads`, with --long
set -u
cd "$(dirname "$0")/.."

long=no
[ "${1:-}" = --long ] && long=yes

passed=0
failed=0
skipped=0

run() { # preset, ctest arguments...
    preset=$1
    shift
    echo "== $preset"
    if ! tools/build.sh "$preset" all -DTAPIR_TESTS=ON; then
        echo "$preset: the build failed; what can be built is tested"
        failed=$((failed + 1))
        go_on=-k
        [ -e "build/$preset/build.ninja" ] && go_on='-k 0'
        # shellcheck disable=SC2086
        cmake --build "build/$preset" -- $go_on >/dev/null 2>&1
    fi
    log=build/$preset/check.log
    # The status is not needed: the lines are counted, and a crash of ctest leaves none.
    ctest --test-dir "build/$preset" -j "${JOBS:-2}" --output-on-failure "$@" 2>&1 | tee "$log"

    # "12/40 Test #7: name .....   Passed    0.02 sec", or ***Failed, ***Skipped and others.
    counts=$(awk '
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
            if (/ Passed +[0-9.]+ sec/) p++
            else if (/\*\*\*Skipped/) s++
            else f++
        }
        END { print p + 0, f + 0, s + 0 }' "$log")
    # shellcheck disable=SC2086
    set -- $counts
    [ "$1" -gt 0 ] || {
        echo "$preset: no test passed"
        [ "$2" -gt 0 ] || failed=$((failed + 1))
    }
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
    [ "$3" = 0 ] || reasons "$log" "build/$preset/Testing/Temporary/LastTest.log"
}

reasons() { # what each skipped test said last, from ctest's output and its full log
    awk '
        FNR == NR { if (/\*\*\*Skipped/) skipped[$4] = 1; next }
        /^[0-9]+\/[0-9]+ Test: / { name = $3; last = "no reason given"; rules = 0 }
        /^-+$/ {
            if (++rules == 2 && name in skipped) print "skipped: " name ": " last
            next
        }
        /^<end of output>/ { rules = 1; next }
        /^Test time = / { next }
        rules == 1 && NF { last = $0 }' "$1" "$2"
}

if [ $long = yes ]; then
    run release
    run asan -L '^(fast|long)$'
    run stress -L '^fast$'
    run clang -L '^fast$'
    run tsan -L '^threads$'
else
    run release -LE '^long$'
    run asan -L '^fast$'
    run stress -L '^fast$'
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
