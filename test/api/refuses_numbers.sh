#!/bin/sh
# refuses_numbers.sh INCLUDE COMPILER...: where a tensor is asked for, a number does not compile, in C and
# in C++, and the message has the line; of a and b of a TP_PAIR one may be a number, not both. Tensors
# do, without a warning of -pedantic. The calls are those of every function that the headers declare, with its
# arguments.
set -u
include=$1
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0

# Two lists of "PARAMETERS|CALL", one a line: of functions that take a tensor, as they are; and, for each
# argument that is one, with a number in its place. (Arrays of tensors are written with commas in braces, which
# a macro would take apart, so nothing is around those.)
cat "$include"/tapir/*.h | sed -e 's:/\*[^*]*\*/::g' | tr '\n' ' ' |
    sed -e 's/TP_FN(/\n&/g; s/TP_API/\n&/g; s/#define/\n&/g' |
    sed -n -e 's/^TP_FN([^,]*, *\(tp_[a-z0-9_]*\), *\([^;]*\)); *$/\1|\2/p' \
        -e 's/^TP_API [^(;]*[ *]\(tp_[a-z0-9_]*\)(\([^;]*\)); *$/\1|\2/p' >"$work/functions"
pairs=$(sed -n 's/^#define \(tp_[a-z0-9_]*\)(.*) TP_PAIR.*/\1/p' "$include"/tapir/*.h)
awk -F'|' -v good="$work/good" -v bad="$work/bad" -v pairs="$pairs" '
function call(place, other,    i, text) {
    text = $1 "("
    for (i = 1; i <= n; i++)
        text = text (i > 1 ? ", " : "") (i == place || i == other ? number[++numbers % 3] : name[i])
    return $2 "|" text ")"
}
BEGIN {
    number[0] = "3"; number[1] = "-1.5f"; number[2] = "1u + 1"
    while (k = index(pairs "\n", "\n")) {
        is_pair[substr(pairs, 1, k - 1)] = 1
        if (k > length(pairs)) break
        pairs = substr(pairs, k + 1)
    }
}
$2 ~ /tp_tensor \*/ && $2 !~ /\.\.\.|tp_block/ && $2 !~ /\(/ {
    n = split($2, type, /, */)
    for (i = 1; i <= n; i++) {
        name[i] = type[i]
        gsub(/.*[ *]|\[.*/, "", name[i])
    }
    print call(0) >good
    for (i = 1; i <= n; i++)
        for (kind = 0; kind < 3 && type[i] ~ /^(const )?tp_tensor \*[a-z_]*$/; kind++)
            print call(i) >($1 in is_pair && name[i] ~ /^[ab]$/ ? good : bad)
    if ($1 in is_pair)
        print call(n - 1, n) >bad
}' "$work/functions"
for head in tp_if tp_while; do
    echo "tp_tensor *p, tp_tensor *v|$head (p, &v) { v = tp_neg(v); }" >>"$work/good"
    echo "tp_tensor *v|$head (3, &v) { v = tp_neg(v); }" >>"$work/bad"
done
cat >>"$work/good" <<END
tp_tensor *x|tp_where(x, tp_add(x, tp_scalar_like(x, 3)), NULL)
tp_tensor *x|tp_add(tp_mul(tp_sub(1, tp_div(x, 2)), tp_where(x, 0, tp_pow(2.5, tp_add(x, true)))), -1LL)
tp_tensor *p|tp_if (p) { tp_neg(p); }
const tp_tensor *x|(void)(tp_rank(x) + tp_size(x, 0))
END
n=$(wc -l <"$work/bad")
[ "$n" -gt 150 ] || { echo "refuses_numbers: only $n arguments found in the headers"; exit 1; }

# A function per line: number N is in line N + 1.
compile() # LIST OPTION
{
    {
        echo '#include <tapir/tapir.h>'
        awk -F'|' '{ head = "void f" NR "(" $1 ")"; print head "; " head " { " $2 "; }" }' "$1"
    } >"$work/call.$language"
    "$cc" -Wall -Wextra -Wno-unused-parameter -pedantic $all $2 -I "$include" -fsyntax-only "$work/call.$language" >"$work/said" 2>&1
}

for cc in "$@"; do
    command -v "$cc" >/dev/null || continue
    all=-fmax-errors=0
    "$cc" --version | grep -q clang && all=-ferror-limit=0
    for language in c cc; do
        compile "$work/good" "" && [ ! -s "$work/said" ] || {
            echo "$cc: tensors in $language:"
            cat "$work/said"
            status=1
        }
        compile "$work/bad" -w # what is told then is an error
        sed -n "s/.*call\.$language:\([0-9]*\):.*\(error\|in expansion of macro\).*/\1/p" "$work/said" | sort -un >"$work/lines"
        awk 'NR == FNR { told[$1] = 1; next } !told[FNR + 1]' "$work/lines" "$work/bad" >"$work/passed"
        [ ! -s "$work/passed" ] || {
            echo "$cc compiles, in $language, or does not tell the line of:"
            sed 's/.*|//' "$work/passed"
            status=1
        }
    done
done
[ $status -ne 0 ] || echo "refuses_numbers: $n arguments, each a number"
exit $status
