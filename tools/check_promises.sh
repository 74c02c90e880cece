#!/bin/sh
# check_promises.sh: every sentence of include/tapir that promises an error or a refusal has a case in
# test/house/promises.txt, a line "HEADER | part of the sentence | FILE: text of it", such as the case's name.
# Prints the sentences that have none, lines that fit no sentence, and cases that are not there.
set -u
cd "$(dirname "$0")/.." || exit 1
list=test/house/promises.txt

sentences=$(mktemp) || exit 1
trap 'rm -f "$sentences"' EXIT

# "HEADER: sentence" of each comment that speaks of an error.
awk '
    function flush(    n, i, part) {
        gsub(/[ \t]+/, " ", text)
        n = split(text, part, /\. /)
        for (i = 1; i <= n; i++)
            if (part[i] ~ /[Rr]efuse|TP_E_|(^| )fails?($|[ .,:])|is an error|an error that/)
                print name ": " part[i]
        text = ""
    }
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); inside = 0 }
    {
        line = $0
        while (line != "") {
            if (!inside) {
                at = index(line, "/*")
                if (!at)
                    break
                line = substr(line, at + 2)
                inside = 1
            }
            at = index(line, "*/")
            piece = at ? substr(line, 1, at - 1) : line
            sub(/^ *\* ?/, "", piece)
            text = text " " piece
            line = at ? substr(line, at + 2) : ""
            if (at) {
                flush()
                inside = 0
            }
        }
    }' include/tapir/*.h | grep -v '^base.h:  *\(TP_E_\|on success\)' >"$sentences"

awk -F ' [|] ' -v list="$list" '
    FILENAME == list {
        if (/^#/ || !NF)
            next
        if (NF != 3) {
            print list ":" FNR ": not HEADER | SENTENCE | FILE: CASE"
            status = 1
            next
        }
        header[++n] = $1
        text[n] = $2
        place[n] = $3
        at[n] = FNR
        next
    }
    {
        found = 0
        for (i = 1; i <= n; i++)
            if (index($0, header[i] ": ") == 1 && index($0, text[i])) {
                used[i] = found = 1
            }
        if (!found) {
            print "no case in " list ": " $0
            status = 1
        }
    }
    END {
        for (i = 1; i <= n; i++) {
            if (!used[i]) {
                print list ":" at[i] ": no such sentence: " text[i]
                status = 1
            }
            file = name = place[i]
            sub(/: .*/, "", file)
            sub(/^[^:]*: /, "", name)
            seen = 0
            while ((getline line < file) > 0)
                if (index(line, name))
                    seen = 1
            close(file)
            if (!seen) {
                print list ":" at[i] ": \"" name "\" is not in " file
                status = 1
            }
        }
        exit status
    }' "$list" "$sentences"
status=$?
echo "$(wc -l <"$sentences") promises of errors"
exit $status
