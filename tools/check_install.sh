#!/bin/sh
# check_install.sh BUILD: installs into an empty folder and builds a small program against what
# lies there, with pkg-config and with CMake's find_package, as C and as C++17.
set -eu
cd "$(dirname "$0")/.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

DESTDIR='' cmake --install "$build" --prefix "$prefix" >/dev/null

for text in LICENSE README.md docs/from-pytorch.md docs/numerics.md docs/capture.md; do # which README.md and the headers name
    [ -f "$prefix/share/doc/tapir/$text" ] || { echo "$text was not installed"; exit 1; }
done

# As a user has it: no path into this tree.
cp test/outside/user/user.c test/outside/user/CMakeLists.txt "$work"
cp test/outside/user/user.c "$work/user.cpp"
cd "$work"

if command -v pkg-config >/dev/null 2>&1; then
    pc=$(find "$prefix" -name tapir.pc)
    PKG_CONFIG_PATH=$(dirname "$pc")
    export PKG_CONFIG_PATH
    libdir=$(pkg-config --variable=libdir tapir)
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Werror user.c -o user-c $(pkg-config --cflags --libs tapir)
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Werror user.cpp -o user-c++ $(pkg-config --cflags --libs tapir)
    LD_LIBRARY_PATH=$libdir ./user-c
    LD_LIBRARY_PATH=$libdir ./user-c++
else
    echo "pkg-config is not installed: only find_package is tried"
fi

cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build cmake >/dev/null
for program in c_shared c_static cxx_shared cxx_static; do
    "./cmake/$program"
done
