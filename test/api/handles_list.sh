#!/bin/sh
# Every int64 and double argument of a function that include/tapir declares (windows too), and every such member
# of its options, has a case in handles.c, and none is left over. Usage: handles_list.sh SOURCE
set -eu
cd "$1"
declared=$(mktemp) && covered=$(mktemp)
trap 'rm -f "$declared" "$covered"' EXIT
# Declarations on one line each, without comments; then "function.argument". What is written to is none.
cat include/tapir/*.h | sed -e 's:/\*[^*]*\*/::g' | tr '\n' ' ' | sed -e 's/TP_FN(/\n&/g; s/TP_API/\n&/g' |
    sed -n -e 's/^TP_FN([^,]*, *\(tp_[a-z0-9_]*\), *\([^;]*\));.*/\1,\2/p' \
        -e 's/^TP_API [^(;]*[ *]\(tp_[a-z0-9_]*\)(\([^;]*\));.*/\1,\2/p' |
    awk -F, '{
        for (i = 2; i <= NF; i++)
            if ($i ~ /(^| )(int64_t|double|const tp_window) / && $i !~ /^ *(int64_t|double) *\*/) {
                name = $i
                gsub(/.*[ *]|\[.*/, "", name)
                print $1 "." name
            }
    }' | grep -v '^tp_patience_over' > "$declared" # which has no context
# Members of options. tp_options is read before there is a graph, and so a size.
cat include/tapir/*.h | sed -e 's:/\*[^*]*\*/::g' | tr '\n' ' ' | sed -e 's/typedef struct/\n&/g; s:/\*[^*]*\*/::g' |
    sed -n 's/^typedef struct [a-z_]* {\([^}]*\)} \(tp_[a-z_]*_options\|tp_onnx_dim\);.*/\2;\1/p' |
    awk -F';' '{
        for (i = 2; i <= NF; i++)
            if ($i ~ /^ *(int64_t|double) *[a-z0-9_]+ *$/) {
                sub(/ *$/, "", $i)
                sub(/.* /, "", $i)
                print $1 "." $i
            }
    }' >> "$declared"
sort -u -o "$declared" "$declared"
sed -n 's/^ *\(SIZE\|PLAIN\|REAL\|WINDOW\)(\(tp_[a-z0-9_]*\), \([a-z0-9_]*\), .*\\*$/\2.\3/p' \
    test/api/handles.c | sort -u > "$covered"
n=$(wc -l < "$declared")
[ "$n" -gt 70 ] || { echo "handles_list: only $n arguments found in the headers"; exit 1; }
missing=$(comm -23 "$declared" "$covered")
extra=$(comm -13 "$declared" "$covered")
[ -z "$missing" ] || printf 'handles_list: without a case:\n%s\n' "$missing"
[ -z "$extra" ] || printf 'handles_list: not in the headers:\n%s\n' "$extra"
[ -z "$missing$extra" ]
echo "handles_list: all $n arguments have a case"
