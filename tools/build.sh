#!/bin/sh
# build.sh PRESET TARGET [-DNAME=VALUE...]: configures build/PRESET when that is needed and
# builds TARGET in it. Ninja is used for a new folder when it is there.
set -eu
cd "$(dirname "$0")/.."

preset=$1
target=$2
shift 2

if [ -e "build/$preset/CMakeCache.txt" ]; then
    [ $# = 0 ] || cmake --preset "$preset" "$@" >/dev/null
else
    generator='Unix Makefiles'
    command -v ninja >/dev/null 2>&1 && generator=Ninja
    # Tests need packages that a plain build does without.
    case " $* " in
        *TAPIR_TESTS*) ;;
        *) set -- -DTAPIR_TESTS=OFF "$@" ;;
    esac
    cmake --preset "$preset" -G "$generator" "$@" >/dev/null
fi
cmake --build "build/$preset" --target "$target" --parallel "${JOBS:-2}"
