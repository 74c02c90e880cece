#!/bin/sh
# check_docs.sh: every line of C in README.md stands in examples/quickstart.c, those and every call of
# docs/from-pytorch.md in test/api/from_pytorch.c, those of docs/transform.md, docs/batching.md and docs/ragged.md in
# their _page.c there, which are built, every file that README.md or docs/ link to is there, and so is every test that
# SECURITY.md names, and every file and name that docs/words.md explains.
set -u
cd "$(dirname "$0")/.."

status=0
# Lines of C of a page, in a program.
lines_stand_in() { # PAGE PROGRAM
    awk '/^```c$/ { code = 1; next } /^```/ { code = 0 } code && NF { print NR ":" $0 }' "$1" |
        {
            while IFS= read -r numbered; do
                line=${numbered#*:}
                grep -qxF -e "$line" "$2" || {
                    echo "$1:${numbered%%:*}: not a line of $2: $line"
                    status=1
                }
            done
            exit $status
        } || status=1
}
lines_stand_in README.md examples/quickstart.c
lines_stand_in docs/from-pytorch.md test/api/from_pytorch.c
lines_stand_in docs/transform.md test/api/transform_page.c
lines_stand_in docs/batching.md test/api/batching_page.c
lines_stand_in docs/ragged.md test/api/ragged_page.c

# `torch.x` | `tp_x(...)` | in a table: the call is in the program, too.
sed -n 's/^| `[^`]*` | `\([^`]*\)` |.*/\1/p' docs/from-pytorch.md | {
    n=0
    while IFS= read -r call; do
        n=$((n + 1))
        grep -qF -e "$call" test/api/from_pytorch.c || {
            echo "docs/from-pytorch.md: not in test/api/from_pytorch.c: $call"
            status=1
        }
    done
    [ $n -ge 60 ] || { echo "docs/from-pytorch.md: $n rows were found"; status=1; }
    exit $status
} || status=1

for page in README.md SECURITY.md docs/*.md; do
    for link in $(grep -o '](\([^)#:]*\))' "$page" | sed 's/^](//; s/)$//'); do
        [ -e "$(dirname "$page")/$link" ] || {
            echo "$page:$(grep -nF "]($link)" "$page" | head -n 1 | cut -d: -f1): no file $link"
            status=1
        }
    done
done

# A file below the root or src/; a name, or one and its member, in the code.
for word in $(grep -oE '`[A-Za-z0-9_./]+`' docs/words.md | tr -d '`' | sort -u); do
    case $word in
        */*) [ -e "$word" ] || [ -e "src/$word" ] ;;
        *) ! for part in $(echo "$word" | tr . ' '); do
            grep -rqw -e "$part" src include || echo "$part"
        done | grep -q . ;;
    esac || {
        echo "docs/words.md: neither a file nor a name of the code: $word"
        status=1
    }
done

# `file.c: case` in a table, of which each row has one at least.
grep '^|' SECURITY.md | grep -vE '^\|(---| what is promised )' | grep -vE '`[a-z_]+\.(c|sh): [A-Za-z_]+`' | {
    ! grep . || { echo "SECURITY.md: these rows name no test"; exit 1; }
} || status=1
grep -oE '`[a-z_]+\.(c|sh): [A-Za-z_]+`' SECURITY.md | tr -d '`' | sort -u | {
    while IFS=' ' read -r file name; do
        found=$(find test tools -name "${file%:}")
        [ -n "$found" ] && grep -qw "$name" $found || {
            echo "SECURITY.md: there is no test $file $name"
            status=1
        }
    done
    exit $status
} || status=1
exit $status
