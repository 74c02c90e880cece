#!/bin/sh
# check_text.sh: no source file over 1000 lines (a .def is a list and may be long), and no words that belong elsewhere: paths of
# one person's machine, and notes of work left undone.
set -u
cd "$(dirname "$0")/.."

status=0
files=$(find . \( -path ./build -o -path ./.git -o -path '*/corpus' \) -prune -o -type f \
    ! -name LICENSE -print | sort)

for file in $files; do
    case $file in
        *.c | *.h | *.sh | *.py | *.cmake | */CMakeLists.txt | */Makefile)
            lines=$(wc -l <"$file")
            if [ "$lines" -gt 1000 ]; then
                echo "$file:1000: $lines lines; what is the second subject? Give it a file"
                status=1
            fi
            ;;
    esac
done

# Written in pieces, so that this file does not find itself.
for word in '/wor[k]/' '/roo[t]/' '\<TOD[O]\>' '\<FIXM[E]\>' '\<XX[X]\>' '\<HAC[K]\>'; do
    # shellcheck disable=SC2086
    if grep -nIH -e "$word" $files; then
        echo "tools/check_text.sh: the lines above hold $word; do what they ask, or say it otherwise"
        status=1
    fi
done
exit $status
