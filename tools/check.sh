#!/bin/sh
# check.sh                 builds and runs what every change has to pass, and counts it in its last line:
#
#   release      every test, but not those labelled `long`
#   asan-stress  those labelled `fast`, under the address and undefined-behaviour sanitizers, where rare events
#                happen always
#
# check.sh --part NAME...  parts of `make check-long`, each meant for an hour on two cores:
#
#   the two above
#   asan      those labelled `fast`, under the sanitizers alone
#   stress    those labelled `fast`, where rare events happen always, without the sanitizers
#   random    random programs labelled `long`, but not those of diff_random
#   diff-1    half of diff_random's 20,000 programs of the day
#   diff-2    the other half
#   ops       every case of every op, in all ways
#   rest      all other tests labelled `long`
#   asan-long the tests labelled `long`, but not those of ops, under the sanitizers, with fewer
#             random programs
#   clang     those labelled `fast`, in a release build by clang
#   tsan      those labelled `threads`, under the thread sanitizer
#   debian    all of check.sh in Debian 13, whose compilers are newer (tools/debian.sh)
#
# check.sh --long          all parts
set -u
cd "$(dirname "$0")/.." || exit 1

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

# Counts what check.sh says in its last line there.
debian() {
    mkdir -p build
    tools/debian.sh sh -c 'tools/packages.sh build check && tools/check.sh' 2>&1 | tee build/debian.log
    last=$(tail -n 1 build/debian.log)
    case $last in
    skipped:*)
        skipped=$((skipped + 1))
        ;;
    *' passed, '*' failed, '*' skipped')
        # shellcheck disable=SC2086
        set -- $last
        passed=$((passed + $1))
        failed=$((failed + $3))
        skipped=$((skipped + $5))
        ;;
    *)
        echo "debian: the tests ended early"
        failed=$((failed + 1))
        ;;
    esac
}

part() {
    case $1 in
    release) run release -LE '^long$' ;;
    asan) run asan -L '^fast$' ;;
    stress) run stress -L '^fast$' ;;
    asan-stress) run asan-stress -L '^fast$' ;;
    random) run release -L '^long_random$' ;;
    diff-1) run release -L '^long_diff_1$' ;;
    diff-2) run release -L '^long_diff_2$' ;;
    ops) run release -L '^long_ops$' ;;
    rest) run release -L '^long$' -LE '^long_' ;;
    asan-long) run asan -L '^long$' -LE '^long_ops$' ;;
    clang) run clang -L '^fast$' ;;
    tsan) run tsan -L '^threads$' ;;
    debian) debian ;;
    *)
        echo "check.sh: there is no part $1; the head of this file lists them"
        exit 2
        ;;
    esac
}

case ${1:-} in
'') set -- release asan-stress ;;
--part) shift ;;
--long) set -- release asan-stress asan stress random diff-1 diff-2 ops rest asan-long clang tsan debian ;;
*) set -- "$1" ;;
esac
for name in "$@"; do
    part "$name"
done

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
