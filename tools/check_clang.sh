#!/bin/sh
# check_clang.sh BUILD: every C file of the library, the examples and the tests that BUILD
# compiles, is free of warnings with clang too.
set -u
cd "$(dirname "$0")/.."

command -v clang >/dev/null 2>&1 || {
    echo "clang is not installed"
    exit 77
}
sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$1/compile_commands.json" |
    sed 's/\\\(["\\]\)/\1/g' | # as JSON writes them
    sed 's/^[^ ]*/clang -fsyntax-only/; s/ -MD//; s/ -M[TF] [^ ]*//g; s/ -o [^ ]*//' |
    sed 's/ --param [^ ]*//g; s/ -mstringop[^ ]*//g; s/ -f\(align\|vect\|tree\|inline\|no-inline\|no-ipa\|no-move\|no-thread\|no-tree\|no-caller\)[^ ]*//g' | # gcc has these alone
    sort -u >"$1/clang-commands"
[ -s "$1/clang-commands" ] || {
    echo "$1/compile_commands.json: no commands found"
    exit 1
}
echo "$(wc -l <"$1/clang-commands") compilations"
# From the build folder, where some paths start. xargs fails when a command does.
cd "$1" && xargs -P 2 -d '\n' -n 1 sh -c <clang-commands
