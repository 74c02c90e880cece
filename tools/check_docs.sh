#!/bin/sh
# check_docs.sh: every line of C in README.md stands in examples/quickstart.c, which is built, and
# every file that README.md or docs/ link to is there.
set -u
cd "$(dirname "$0")/.."

status=0
awk '/^```c$/ { code = 1; next } /^```/ { code = 0 } code && NF { print NR ":" $0 }' README.md |
    {
        while IFS= read -r numbered; do
            line=${numbered#*:}
            grep -qxF -e "$line" examples/quickstart.c || {
                echo "README.md:${numbered%%:*}: not a line of examples/quickstart.c: $line"
                status=1
            }
        done
        exit $status
    } || status=1

for page in README.md docs/*.md; do
    for link in $(grep -o '](\([^)#:]*\))' "$page" | sed 's/^](//; s/)$//'); do
        [ -e "$(dirname "$page")/$link" ] || {
            echo "$page:$(grep -nF "]($link)" "$page" | head -n 1 | cut -d: -f1): no file $link"
            status=1
        }
    done
done
exit $status
