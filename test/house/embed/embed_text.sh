#!/bin/sh
# embed_text.sh EMBED: the texts that EMBED makes of kernel headers are those headers without their
# comments and sibling includes. Held against what gcc leaves, and for one nasty file against a text
# written by hand.
set -eu
cd "$(dirname "$0")/../../.."

embed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kernel" "$work/out"

headers=$(find src/kernel/text src/kernel/conv src/kernel/abi -name '*.h' | sort)
# shellcheck disable=SC2086
"$embed" "$work/text.c" "$work/kernel/kernel_text.h" $headers test/house/embed/nasty.in

{
    printf '#include "kernel/kernel_text.h"\n#include "base/squeeze.h"\n#include <stdio.h>\n'
    printf 'static char text[1 << 20];\n'
    printf 'static void put(const char *path, const unsigned char *from)\n'
    printf '{ FILE *f = fopen(path, "w"); tpi_unsqueeze(&tpi_text_codes, from, text);\n'
    printf '  if (f) { fwrite(text, 1, tpi_squeezed_size(from), f); fclose(f); } }\n'
    printf 'int main(void)\n{\n'
    sed -n 's/^extern const unsigned char tpi_text_\(.*\)\[\];/put("out\/\1", tpi_text_\1);/p' \
        "$work/kernel/kernel_text.h"
    printf 'return 0;\n}\n'
} >"$work/main.c"
cc -w -I"$work" -Isrc "$work/main.c" "$work/text.c" -o "$work/dump"
(cd "$work" && ./dump)

status=0
if ! diff test/house/embed/nasty.out "$work/out/nasty"; then
    echo "test/house/embed/nasty.in: the lines above differ from nasty.out"
    status=1
fi

# Blanks and spliced lines do not count, gcc keeps no push_macro; a break per statement, to show
# where they differ.
comparable() {
    sed '/^#include "/d; /^ *#pragma \(push\|pop\)_macro/d' | tr -d ' \t\n\\' | tr ';' '\n'
}
n=0
for header in $headers; do
    gcc -w -fpreprocessed -dD -E -P -x c "$header" |
        comparable >"$work/want"
    comparable <"$work/out/$(basename "$header" .h)" >"$work/got"
    if ! [ -s "$work/got" ] || ! diff "$work/want" "$work/got" >"$work/diff"; then
        echo "$header: embedded text differs from what gcc leaves without comments:"
        head -n 10 "$work/diff"
        status=1
    fi
    n=$((n + 1))
done
echo "$n headers"
exit $status
