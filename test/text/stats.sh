#!/bin/sh
# stats.sh BUILD WORK [--write]: what programs have to do is as stats.csv has it, a row per example and
# per model of TAPIR_SHARED. With --write it is so from now on; rows of models that are not there stay.
#
# Figures are those of the log (TAPIR_LOG=program), summed over all programs of a run; no compiler is
# asked.
set -u
here=$(dirname "$0")
build=$1
work=$2
csv=$work/stats.csv
rm -rf "$work" && mkdir -p "$work" || exit 1
echo 'what,programs,nodes,kernels,bytes_moved,arena_bytes,flops' >"$csv"
export TAPIR_LOG=program TAPIR_CC="$work/none" TAPIR_CACHE="$work/cache"
unset TAPIR_THREADS TAPIR_EAGER TAPIR_TRAP

figures() { # name, command...: its row
    name=$1
    shift
    "$@" >"$work/out" 2>"$work/log" || {
        cat "$work/out" "$work/log"
        echo "repeat: TAPIR_LOG=program $*"
        exit 1
    }
    awk -v name="$name" '
        /^tapir: program: / {
            programs++; nodes += $3; kernels += $5; bytes += $7; arena += $10; flops += $14
        }
        END {
            printf "%s,%d,%d,%d,%.0f,%.0f,%.0f\n", name, programs, nodes, kernels, bytes, arena, flops
            exit !programs
        }' "$work/log" >>"$csv" || {
        echo "$name: no program was run"
        exit 1
    }
}

example() {
    program=$1
    shift
    figures "$program" "$build/examples/$program" "$@"
}

example quickstart
example rnn --steps 8 --longest 5 --hidden 8 --batch 4 --engine tiles
for program in branch loops hvp maml; do
    example $program --engine tiles
done

for name in mlp lenet lstm_lm gpt_mini mobilenet_v2 resnet18; do
    from=$TAPIR_SHARED/models/$name
    if [ ! -e "$from/model.onnx" ] || ! command -v cc >/dev/null 2>&1; then
        grep "^$name," "$here/stats.csv" >>"$csv"
        echo "$name: not measured, there is no $from/model.onnx, or no cc"
        continue
    fi
    mkdir "$work/$name" && cp "$from"/* "$work/$name" &&
        cc -O2 -o "$work/make_weights" "$TAPIR_SHARED/models/make_weights.c" &&
        "$work/make_weights" "$work/$name" >/dev/null || exit 1
    input=$("$build/tapir" show "$work/$name/model.onnx" | awk '/^  inputs/ { print $2 }')
    figures "$name" "$build/tapir" run "$work/$name/model.onnx" --engine tiles \
        --input "$input=$work/$name/input_0.npy" --output "$work/$name"
    rm -rf "${work:?}/$name"
done

if [ "${3:-}" = --write ]; then
    cp "$csv" "$here/stats.csv"
    exit
fi
diff -u "$here/stats.csv" "$csv" && exit 0
echo "Programs have other figures than test/text/stats.csv has. When that is meant, look through the"
echo "lines above (- kept, + now), run \`make golden\`, and commit what it changes."
exit 1
