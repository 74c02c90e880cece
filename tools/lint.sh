#!/bin/sh
# lint.sh BUILD      clang-format and clang-tidy over all sources, changing nothing
# lint.sh --format   clang-format in place
set -eu
cd "$(dirname "$0")/.."

sources() { # suffixes of file names
    for suffix in "$@"; do
        find include src cli examples test bench tools -name "*.$suffix" -type f 2>/dev/null
    done
}

if [ "$1" = --format ]; then
    sources c h | xargs clang-format -i
    exit 0
fi

status=0
sources c h | xargs clang-format --dry-run -Werror || status=1
compiled=$(sources c | while read -r file; do
    grep -q "/$file\"" "$1/compile_commands.json" && echo "$file"
done)
# Without the options that gcc has alone: clang-tidy stops at them.
mkdir -p "$1/tidy"
sed 's/ -mstringop[^ ]*//g; s/ -fno-\(inline\|ipa\|move\)-[^ ]*//g' "$1/compile_commands.json" \
    >"$1/tidy/compile_commands.json"
printf '%s\n' "$compiled" | xargs -P "${JOBS:-2}" -n 1 clang-tidy --quiet -p "$1/tidy" || status=1
exit $status
