#!/bin/sh
# golden.sh PROGRAM DIR [--write]: what PROGRAM (golden.c) makes of the corpus, in DIR, is what is kept
# in the folder golden. With --write it is kept from now on.
set -u
kept=$(dirname "$0")/golden
made=$2
rm -rf "$made" && mkdir -p "$made" || exit 1
"$1" "$made" || exit 1

if [ "${3:-}" = --write ]; then
    rm -rf "$kept" && cp -R "$made" "$kept"
    exit
fi
diff -ru "$kept" "$made" && exit 0
echo "The generated text is another one than test/text/golden has. When that is meant, look through"
echo "the lines above (- kept, + made now), run \`make golden\`, and commit what it changes."
exit 1
