#!/bin/sh
# manual.sh TAPIR PAGE: the manual page lists every command and has a section for it, with every option
# that the command's help shows and no other, and help tells of every command.
set -u
tapir=$1
page=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0

sed 's/\\-/-/g' "$page" >"$work/page"
commands=$("$tapir" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
[ "$(echo "$commands" | wc -w)" -ge 4 ] || { echo "tapir help names no commands"; exit 1; }
for command in $commands; do
    sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/p' "$work/page" | grep -qx "\.B tapir $command" || {
        echo "$page: $command is not in the synopsis"
        status=1
    }
    "$tapir" help "$command" | grep -oE '^  --[a-z]+' | sort >"$work/help"
    sed -n "/^\.SS tapir $command\$/,/^\.S/p" "$work/page" | grep -E '^\.(TP|B|BI|BR|IR)' |
        grep -oE ' --[a-z]+' | sed 's/^/ /' | sort -u >"$work/named"
    diff "$work/help" "$work/named" || {
        echo "$page: the options of $command are not those of: tapir help $command"
        status=1
    }
done
exit $status
