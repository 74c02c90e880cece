#!/bin/sh
# operators_wrong.sh SOURCE: tools/check_operators.sh fails, with the name, for an operator that somebody adds without a
# function, and for rows that are wrong.
set -u
cd "$1" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
status=0

# MESSAGE, with the operators and rows that lie there
expect() {
    tools/check_operators.sh "$work/operators.def" "$work/rows" >"$work/out" && echo "not refused: $1" && status=1
    grep -qF -e "$1" "$work/out" || { echo "no \"$1\" in:"; cat "$work/out"; status=1; }
    fresh
}
fresh() {
    cp src/onnx/operators.def "$work/operators.def"
    cp test/house/operators.txt "$work/rows"
}

fresh
echo 'OP(NewOne, new_one, "t", "")' >>"$work/operators.def"
expect "NewOne has no public function"
echo 'EXPRESSION(NewOne, "", tp_neg(tp_exp(x)))' >>"$work/operators.def"
expect "NewOne has no public function"
echo 'BINARY(NewOne, new_one)' >>"$work/operators.def"
expect "tp_new_one is not declared"
sed -i '/^TopK/d' "$work/rows"
expect "TopK has no public function"
echo 'NewOne | tp_add' >>"$work/rows"
expect "NewOne is no operator"
echo 'Abs | tp_abs' >>"$work/rows"
expect "Abs needs no row"
sed -i 's/^Einsum.*/Einsum | tp_no_such/' "$work/rows"
expect "Einsum: tp_no_such is not declared in include/tapir"
sed -i 's/^Einsum.*/Einsum | tp_fft/' "$work/rows"
expect "Einsum: its importer calls none of tp_fft"
sed -i 's/^Einsum.*/Einsum | tp_einsum | because/' "$work/rows"
expect "Einsum: its importer calls it, and needs no reason"
sed -i 's/^Einsum.*/Einsum | -/' "$work/rows"
expect "Einsum: why is there no function?"
tools/check_operators.sh "$work/operators.def" "$work/rows" >"$work/out" || { cat "$work/out"; status=1; }
exit $status
