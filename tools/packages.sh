#!/bin/sh
# packages.sh build|check|long|lint...: installs the system packages that are missing for these
# jobs. Needs apt-get and root or sudo without a password; says what to install otherwise.
# When nothing is missing it runs no package manager at all.
set -u

have() { command -v "$1" >/dev/null 2>&1; }
header() { have cc && printf '#include <%s>\n' "$1" | cc -x c -E - >/dev/null 2>&1; }

missing=   # without these the job cannot be done
wanted=    # without these some tests skip
need() { missing="$missing $1"; }
want() { wanted="$wanted $1"; }

links_fuzzer() {
    printf 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return !p && n; }\n' |
        clang -x c -fsanitize=fuzzer,address -o /dev/null - >/dev/null 2>&1
}

build() {
    have gcc && have cc || need gcc
    header stdio.h || need libc6-dev
    have cmake || need cmake
    header zlib.h || need zlib1g-dev
    have pkg-config || want pkgconf
}

check() {
    have ninja || want ninja-build
    have g++ || need g++
    printf '#include <stddef.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\n' |
        cc -x c -E - >/dev/null 2>&1 || need libcmocka-dev
    have clang || want clang
    have clang && links_fuzzer || want libclang-rt-dev
    have qemu-aarch64 || want qemu-user
    have aarch64-linux-gnu-gcc || want gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || want libc6-dev-arm64-cross
    have qemu-system-arm || want qemu-system-arm
    have arm-none-eabi-gcc || want gcc-arm-none-eabi
    have arm-none-eabi-gcc || want libnewlib-arm-none-eabi
    header mpfr.h || want libmpfr-dev
    header CL/cl.h || want ocl-icd-opencl-dev
    ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 || want pocl-opencl-icd
    ldconfig -p 2>/dev/null | grep -q libpthreadpool.so.0 || want libpthreadpool0
    /usr/bin/python3 -c 'import numpy' >/dev/null 2>&1 || want python3-numpy
    /usr/bin/python3 -c 'import onnx' >/dev/null 2>&1 || want python3-onnx
    /usr/bin/python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || want python3-venv
    have node || want nodejs
}

long() {
    have debootstrap || want debootstrap
}

lint() {
    have clang-format || need clang-format
    have clang-tidy || need clang-tidy
}

for job in "$@"; do
    case $job in
        build | check | long | lint) $job ;;
        *) echo "packages.sh: unknown job $job" >&2; exit 2 ;;
    esac
done
[ -n "$missing$wanted" ] || exit 0

as_root=
may=no
if have apt-get; then
    if [ "$(id -u)" = 0 ]; then
        may=yes
    elif have sudo && sudo -n true 2>/dev/null; then
        may=yes
        as_root='sudo -n'
    fi
fi

if [ $may = yes ]; then
    echo "Installing system packages:$missing$wanted"
    # shellcheck disable=SC2086
    if $as_root apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
            --no-install-recommends $missing $wanted >/dev/null; then
        exit 0
    fi
    echo "The package manager failed." >&2
fi

if [ -n "$missing" ]; then
    echo "Missing system packages; as root: apt-get install$missing$wanted" >&2
    exit 1
fi
echo "Some tests will skip without these packages; as root: apt-get install$wanted" >&2
exit 0
