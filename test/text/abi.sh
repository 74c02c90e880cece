#!/bin/sh
# abi.sh BUILD WORK [--write]: what a program that was linked with the library stands on is as abi.txt has it:
# the names that the shared library exports, the numbers of the public enumerations, and where the members
# of the public structs lie, in bytes. With --write it is so from now on.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
build=$1
work=$2
abi=$work/abi.txt
rm -rf "$work" && mkdir -p "$work" || exit 1

# Typedefs of structs and enumerations, a line each, as the preprocessor leaves them.
for header in "$root"/include/tapir/*.h; do
    echo "#include \"$header\""
done >"$work/all.h"
gcc -std=gnu11 -E -P -I"$root/include" "$work/all.h" | tr -s ' \n' ' ' |
    grep -oE 'typedef (struct|enum) \w+ \{[^}]*\} ?tp_\w+' >"$work/types" || {
    echo "no public struct was found in include/tapir"
    exit 1
}

# A program that prints them.
{
    cat "$work/all.h"
    cat <<'END'
#include <stdio.h>
#define MEMBER(t, m) printf("  %-16s at %3zu, %2zu bytes\n", #m, offsetof(t, m), sizeof ((t *)0)->m)
int main(void) {
END
    awk '{
        name = $NF
        body = $0
        sub(/^[^{]*\{/, "", body)
        sub(/\}[^}]*$/, "", body)
        if ($2 == "enum") {
            n = split(body, parts, ",")
            for (i = 1; i <= n; i++) {
                sub(/=.*/, "", parts[i])
                gsub(/ /, "", parts[i])
                if (parts[i] != "") printf "printf(\"%%s %%d\\n\", \"%s\", %s);\n", parts[i], parts[i]
            }
            next
        }
        printf "printf(\"%%s %%zu bytes\\n\", \"%s\", sizeof(%s));\n", name, name
        gsub(/\([^()]*\)\(/, "& (", body) # a pointer to a function: its name stands alone
        n = split(body, parts, ";")
        for (i = 1; i < n; i++) {
            part = parts[i]
            if (match(part, /\(\*[a-z_0-9]+\)/))
                members = substr(part, RSTART + 2, RLENGTH - 3)
            else
                members = part
            k = split(members, each, ",")
            for (j = 1; j <= k; j++) {
                sub(/\[.*/, "", each[j])
                sub(/ *$/, "", each[j])
                sub(/.*[ *]/, "", each[j])
                printf "MEMBER(%s, %s);\n", name, each[j]
            }
        }
    }' "$work/types"
    echo '}'
} >"$work/sizes.c"
gcc -std=gnu11 -I"$root/include" -o "$work/sizes" "$work/sizes.c" || exit 1
{
    "$work/sizes"
    nm -D --defined-only "$build/libtapir.so" | awk '$2 ~ /[A-Z]/ { print $3 }' | LC_ALL=C sort -u
} >"$abi" || exit 1

if [ "${3:-}" = --write ]; then
    cp "$abi" "$here/abi.txt"
    exit
fi
diff -u "$here/abi.txt" "$abi" && exit 0
echo "The library has another binary interface than test/text/abi.txt has. When that is meant, look"
echo "through the lines above (- kept, + now), run \`make golden\`, and commit what it changes."
exit 1
