#!/bin/sh
# check_operators.sh: what ONNX's operators do can be called from C. Each operator of src/onnx/operators.def that is neither an
# expression of one public function nor an op of two operands has a row in test/house/operators.txt,
#
#     OPERATOR | tp_function ... | why
#
# whose functions are public, and one of which the file of the operator's importer, or the expression, calls; or else why none
# is called. "-" in
# place of functions: there is none, since only ONNX has such a thing. Prints operators without a row, rows without an
# operator, functions that are not declared, and reasons that are missing or not needed.
#
# check_operators.sh DEFINITIONS ROWS: the same of other files; the check of this check hands it wrong ones.
set -u
cd "$(dirname "$0")/.." || exit 1
definitions=${1:-src/onnx/operators.def}
rows=${2:-test/house/operators.txt}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
test/common/declared.sh >"$work/declared"
grep -nowE 'tp_[a-z0-9_]+|tpi_onnx_import_[a-z0-9_]+\(tpi_onnx_[^;]*$' src/onnx/import/*.c >"$work/names"

awk -v definitions="$definitions" -v rows="$rows" '
    function fail(where, text) { print where ": " text; bad = 1 }
    function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
    FILENAME ~ /declared$/ { declared[$1]; next }
    FILENAME ~ /names$/ { # FILE:LINE:NAME
        split($0, part, ":")
        if (sub(/_at$/, "", part[3]) || part[3] ~ /^tp_/)
            calls[part[1], part[3]]
        else {
            sub(/\(.*/, "", part[3])
            home[part[3]] = home[part[3]] " " part[1]
        }
        next
    }
    END {
        while ((getline line < definitions) > 0) {
            n++
            if (line ~ /^(OP|OPS|SOURCE|EXPRESSION|BINARY|ARITHMETIC)\(/) {
                text = line
                while (text !~ /\)[ \t]*$/ && (getline more < definitions) > 0) {
                    text = text more
                    n++
                }
                operator(text, n)
            }
        }
        if (n_operators < 150) fail(definitions, "only " n_operators " operators were found")
        n = 0
        while ((getline line < rows) > 0) {
            n++
            if (line !~ /^[ \t]*(#|$)/) row(line, n)
        }
        for (name in needs)
            if (!(name in has)) fail(definitions ":" needs[name], name " has no public function: write one, or a row of " rows)
        if (!bad) print n_operators " operators, " n_rows " by rows, " n_none " only ONNX has"
        exit bad
    }
    function operator(text, line,   kind, part, function_of, k) {
        kind = text
        sub(/\(.*/, "", kind)
        sub(/^[A-Z]*\(/, "", text)
        split(text, part, ",")
        name = trim(part[1])
        function_of = trim(part[2])
        sub(/\).*/, "", function_of)
        n_operators++
        importer[name] = ""
        if (kind == "BINARY" || kind == "ARITHMETIC") {
            if (!(("tp_" function_of) in declared)) fail(definitions ":" line, "tp_" function_of " is not declared")
        } else if (kind == "EXPRESSION") {
            sub(/^[^"]*"[^"]*", */, "", text)
            expression[name] = k = text
            if (gsub(/tp_/, "", k) != 1 || text ~ /PLUS|TIMES/ || text !~ /^tp_/) needs[name] = line
            sub(/\(.*/, "", text)
            if (text ~ /^tp_/ && !(text in declared)) fail(definitions ":" line, text " is not declared")
        } else {
            needs[name] = line
            importer[name] = "tpi_onnx_import_" function_of
        }
    }
    function row(line, at,   part, f, k, i, files, n_files, called, why, n_functions) {
        split(line, part, "|")
        name = trim(part[1])
        why = trim(part[3])
        has[name]
        n_rows++
        if (!(name in needs)) {
            fail(rows ":" at, name (name in importer ? " needs no row" : " is no operator"))
            return
        }
        n_functions = split(trim(part[2]), f, " ")
        if (n_functions == 0) fail(rows ":" at, name " has no function and no -")
        if (trim(part[2]) == "-") {
            n_none++
            if (why == "") fail(rows ":" at, name ": why is there no function?")
            return
        }
        called = 0
        n_files = split(home[importer[name]], files, " ")
        for (k = 1; k <= n_functions; k++) {
            if (!(f[k] in declared)) fail(rows ":" at, name ": " f[k] " is not declared in include/tapir")
            if (index(expression[name], f[k] "("))
                called = 1
            for (i = 1; i <= n_files; i++)
                called = called || ((files[i], f[k]) in calls)
        }
        if (!called && why == "") fail(rows ":" at, name ": its importer calls none of " trim(part[2]) "; let it, or say why")
        if (called && why != "") fail(rows ":" at, name ": its importer calls it, and needs no reason")
    }' "$work/declared" "$work/names"
