#!/bin/sh
# check_library.sh BUILD: what the built library promises to the program that loads it.
#
#   exports    exactly the functions that include/tapir declares with TP_API
#   references nothing that ends the process or prints for it
#   statics    nothing that can be written: all state is in a context
#   needs      the C library and nothing else
#   hardening  tables locked and filled in at once, no executable stack, guarded stacks and
#              buffers; the command too
#   size       at most 2.4 MB when stripped
set -u
cd "$(dirname "$0")/.."

so=$1/libtapir.so
archive=$1/libtapir.a
status=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$1"
    status=1
}

where() { # the file:line that mentions a name
    grep -rnwF -e "$1" -e "${1%_at}" "$2" | sed 's/^\([^:]*:[0-9]*\):.*/\1/' | head -n 1
}

# ---- exports ----------------------------------------------------------------------------

# After preprocessing, so that declarations made by macros count too. A declaration's name is
# the first tp_ word followed by `(`, with or without a parenthesis around it.
for header in include/tapir/*.h; do
    echo "#include \"$header\""
done | gcc -std=gnu11 -E -P -Iinclude -I. - | tr '\n' ' ' | tr ';{}' '\n\n\n' |
    grep 'visibility("default")' |
    sed 's/__attribute__ *(( *visibility("default") *))//' |
    grep -oE '\<tp_[a-z0-9_]+\>\)? *\(' | sed 's/[) (]*$//' >"$work/all"
sort -u "$work/all" >"$work/declared"
nm -D --defined-only "$so" | awk '$2 ~ /[A-Z]/ { print $3 }' | sort -u >"$work/exported"

[ -s "$work/exported" ] || fail "$so: exports nothing"
for name in $(comm -23 "$work/declared" "$work/exported"); do
    fail "$(where "$name" include/tapir): $name is declared and not defined; write it or take it out"
done
for name in $(comm -13 "$work/declared" "$work/exported"); do
    fail "$(where "$name" src): $name is exported and not declared; make it static or hide it"
done

# ---- references -------------------------------------------------------------------------

nm -D --undefined-only "$so" | awk '{ sub(/@.*/, "", $2); print $2 }' >"$work/undefined"
for name in abort exit _exit _Exit quick_exit atexit raise __assert_fail stdin stdout stderr \
    printf vprintf puts putchar perror psignal system popen longjmp siglongjmp signal \
    sigaction setlocale setenv putenv rand srand strtok; do
    grep -qxF -e "$name" -e "__${name}_chk" "$work/undefined" &&
        fail "$(where "$name" src): the library refers to $name; return an error instead"
done

# ---- statics ----------------------------------------------------------------------------

# .data.rel.ro holds constant tables of pointers, which the loader fills in and then locks.
objdump -t "$archive" | awk '
    /file format/ { object = $1; sub(/:$/, "", object) }
    NF > 4 {
        # The flags are one to three words; the section follows them, the name comes last.
        for (i = 2; i < NF - 1; i++)
            if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/) {
                if ($i !~ /^\.data\.rel\.ro/ && $NF !~ /^\./) print object, $NF
                break
            }
    }' >"$work/statics"
while read -r object name; do
    fail "$(where "${name%%.[0-9]*}" src): $name in $object can be written; make it const, or put it in the context"
done <"$work/statics"

# ---- needs, size ------------------------------------------------------------------------

for lib in $(objdump -p "$so" | awk '$1 == "NEEDED" { print $2 }'); do
    case $lib in
        libc.so* | libdl.so* | ld-linux*) ;;
        *) fail "$so: needs $lib; the library is to need the C library only" ;;
    esac
done

# ---- hardening --------------------------------------------------------------------------

for file in "$so" "$1/tapir"; do
    readelf -lW "$file" >"$work/segments"
    readelf -dW "$file" >"$work/dynamic"
    grep -q GNU_RELRO "$work/segments" || fail "$file: no RELRO segment (-z relro)"
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' "$work/dynamic" || fail "$file: not bound at once (-z now)"
    grep -q TEXTREL "$work/dynamic" && fail "$file: its code is written to when it is loaded"
    grep GNU_STACK "$work/segments" | grep -q RWE && fail "$file: its stack can be executed"
    grep -q 'LOAD.* RWE ' "$work/segments" && fail "$file: has memory to write and to execute"
    readelf --dyn-syms -W "$file" >"$work/symbols"
    for name in __stack_chk_fail __memcpy_chk __snprintf_chk; do
        grep -q "$name" "$work/symbols" ||
            fail "$file: does not refer to $name (-fstack-protector, -D_FORTIFY_SOURCE=2)"
    done
done

strip -o "$work/stripped" "$so"
size=$(wc -c <"$work/stripped")
echo "$so: $size bytes stripped, $(wc -l <"$work/exported") functions"
[ "$size" -lt 2400000 ] || fail "$so: $size bytes stripped; the limit is 2400000"
exit $status
