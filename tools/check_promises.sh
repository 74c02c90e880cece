#!/bin/sh
# check_promises.sh: every sentence of the headers and of the documents for users that promises an error, a
# refusal or a value has a case in test/house/promises.txt, a line
#
#     FILE | part of the sentence | FILE: text of it, such as the case's name
#
# Prints the sentences that have none, lines that fit no sentence, and cases that are not there. What SECURITY.md
# promises stands beside its tests, which tools/check_docs.sh looks for.
set -u
cd "$(dirname "$0")/.." || exit 1
list=test/house/promises.txt

sentences=$(mktemp) || exit 1
trap 'rm -f "$sentences"' EXIT

# "FILE: sentence" of each comment of a header, and of the text of a document, that promises one.
awk '
    function flush(    n, i, part) {
        gsub(/[ \t]+/, " ", text)
        n = split(text, part, /\. /)
        for (i = 1; i <= n; i++)
            if (part[i] ~ errors || part[i] ~ values)
                print name ": " part[i]
        text = ""
    }
    function header(line,    at, piece) {
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
    }
    function document(line) {
        if (line ~ /^```/)
            inside = !inside
        if (inside || line ~ /^(```|#|    |[-*|] |$)/)
            flush()
        if (!inside && line !~ /^(```|#|    |$)/)
            text = text " " line
    }
    BEGIN {
        errors = "[Rr]efuse|TP_E_|a failed tensor|must be exact|(^| )fails?($|[ .,:;])|(is|an) error([^a-z]|$)"
        values = "NULL (when|on|for|and)|Returns|NaN|infinit|wraps|saturat|clamped|from the end|" \
            "(^|[^0-9a-z.])-?[01] (when|on|for|where|in|at|there)( |$)|" \
            "(is|are|have|gives?) (-?[01]|nothing|NULL|half|zeros?)([^0-9a-z.]|$)|" \
            "(does|changes|do) nothing|NULL is fine|equal ones|x / 0|mod 0|\"\" when|halves|" \
            "TAPIR_LOG=(error|vmap)|one sample after the other"
    }
    FNR == 1 {
        flush()
        name = FILENAME
        sub(/.*\//, "", name)
        inside = 0
    }
    FILENAME ~ /\.h$/ { header($0); next }
    { document($0) }
    END { flush() }' include/tapir/*.h README.md \
    docs/capture.md docs/control.md docs/ir.md docs/numerics.md docs/onnx.md docs/ragged.md docs/standalone.md docs/transform.md |
    grep -v '^base.h:  *\(TP_E_\|on success\)' >"$sentences"

awk -F ' [|] ' -v list="$list" '
    FILENAME == list {
        if (/^#/ || !NF)
            next
        if (NF != 3) {
            print list ":" FNR ": not FILE | SENTENCE | FILE: CASE"
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
echo "$(wc -l <"$sentences") promises"
exit $status
