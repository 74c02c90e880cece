#!/bin/sh
# check_ops.sh: facts about ops live in the op. Outside of src/op, src/ir and src/onnx (and src/nn, which knows public
# headers only) nothing is to depend on which op a node is: what there is to know of an op is a member of tpi_op
# (src/ir/node.h), an axis factor (src/ir/factors.h), or what its node stands for (src/ir/graph_def.h, src/ir/body.h). Counted are
#
#   names      of ops: tpi_op_add, TPI_OP_add
#   one-op     questions that nodes of one op alone answer with yes, where they are asked for nothing else
#
# Each count has a limit, which is lowered when there are fewer. `check_ops.sh --list` shows where the names are.
set -u
cd "$(dirname "$0")/.."

most_names=35
most_one_op=132
one_op='tpi_(constant|variable|assigned|inside|loop|block|param)_of\(|op->(draws|mean)\b'

files() {
    find src cli \( -path src/op -o -path src/ir -o -path src/onnx -o -path src/nn \) -prune -o -name '*.[ch]' -print | sort
}
count() {
    # shellcheck disable=SC2046
    grep -oE "$1" $(files) | wc -l
}

names='\b(tpi_op|TPI_OP)_[a-z0-9_]+\b'
if [ "${1:-}" = --list ]; then
    # shellcheck disable=SC2046
    grep -nE "$names" $(files)
    exit
fi
n_names=$(count "$names")
n_one_op=$(count "$one_op")
echo "ops outside of src/op, src/ir and src/onnx: $n_names by name (limit $most_names), $n_one_op questions to one op (limit $most_one_op)"
if [ "$n_names" -gt "$most_names" ] || [ "$n_one_op" -gt "$most_one_op" ]; then
    echo "tools/check_ops.sh: what is asked of one op belongs into tpi_op, or is asked as an axis factor"
    exit 1
fi
if [ "$n_names" -lt "$most_names" ] || [ "$n_one_op" -lt "$most_one_op" ]; then
    echo "tools/check_ops.sh: fewer than its limits, which can be lowered"
fi
