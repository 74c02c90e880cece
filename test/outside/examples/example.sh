#!/bin/sh
# example.sh TEST FOLDER: runs a program of FOLDER and looks at what it prints.
#
# TAPIR_SHARED is the folder of data made by others; tests of those are skipped without it.
set -u
test=$1
folder=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
out=$work/out

fail() {
    echo "$test: $1"
    echo "repeat: $command"
    exit 1
}

run() { # program, arguments...
    command="$folder/$*"
    program=$1
    shift
    "$folder/$program" "$@" >"$out" 2>&1
    status=$?
    cat "$out"
    [ $status = 0 ] || fail "exit status $status"
}

has() { # a line that matches the whole pattern
    grep -Eqx -- "$1" "$out" || fail "no line is: $1"
}

need() { # file of others
    [ -e "$1" ] && return
    echo "skipped: there is no $1"
    exit 77
}

last_number() { # the last number of the last line that holds a text
    grep -- "$1" "$out" | tail -n 1 | grep -Eo '[0-9]+\.?[0-9]*' | tail -n 1
}

at_least() { # what, number, bar
    awk "BEGIN { exit !(${2:-0} >= $3) }" || fail "$1 is ${2:-missing}, not at least $3"
}

below() { # what, number, bar
    awk "BEGIN { exit !(${2:-$3} < $3) }" || fail "$1 is ${2:-missing}, not below $3"
}

# The line of a captured function: $1 calls, and no more than $2 of them recorded.
captured_line() {
    has "calls $1 user_calls $1 recordings [0-9]+ segments [0-9]+ compilations [0-9]+ bits_equal yes"
    recordings=$(awk '/^calls / { print $6 }' "$out")
    [ "$recordings" -le "$2" ] || fail "$recordings calls recorded, more than $2"
}

# The counts of a form, "HEADING" alone on a line before them: bits are equal, it was called $2 times,
# its C code ran at most $3 times, and $4 segments (- : any number) were recorded.
form_line() {
    line=$(grep -Fx -A 1 -- "$1:" "$out" | tail -n 1)
    echo "$line" | grep -Eqx \
        "calls $2 user_calls [0-9]+ recordings [0-9]+ segments [0-9]+ compilations [0-9]+ bits_equal yes" ||
        fail "the line of \"$1\" is: $line"
    [ "$(echo "$line" | cut -d ' ' -f 4)" -le "$3" ] || fail "$1: too many runs of the C code: $line"
    [ "$4" = - ] || [ "$(echo "$line" | cut -d ' ' -f 8)" = "$4" ] || fail "$1: not $4 segments: $line"
}

# Every line of counts is good, and there are $1 of them; nothing else was found wrong.
all_forms() {
    [ "$(grep -c '^calls .* bits_equal yes$' "$out")" = "$1" ] || fail "not $1 forms have equal bits"
    if grep -Eq 'DIFFERENT|MORE THAN|NOT ZERO|MATTERS|bits_equal no' "$out"; then
        fail "it says what differs"
    fi
}

# The models in $work/models, each with its tensors: ONNX's checker, and ONNX Runtime where that can
# be had.
read_by_others() {
    export=$TAPIR_SOURCE/test/outside/export
    if command -v /usr/bin/python3 >/dev/null 2>&1; then
        /usr/bin/python3 "$export/checker.py" "$work/models" >"$out" 2>&1
        status=$?
        cat "$out"
        [ $status = 0 ] || [ $status = 77 ] || fail "the checker of ONNX refuses it"
    fi
    sh "$export/runtime.sh" /dev/null "$work/models" >"$out" 2>&1
    status=$?
    cat "$out"
    [ $status = 77 ] && exit 77
    [ $status = 0 ] || fail "ONNX Runtime does not agree"
}

# What is the same in every run on digits: the accuracy is the same four times, so are all losses.
mnist_lines() {
    has ' *all losses and all parameters have the same bits'
    has "test accuracy $accuracy %"
    has " *digits read rightly +$accuracy % +$accuracy % +$accuracy % +$accuracy %"
    grep -E 'same bits in' "$out" | awk '{ if ($(NF-3) != $(NF-1)) exit 1 }' ||
        fail "an epoch has losses of other bits"
}

unset DATA
case $test in
quickstart)
    run quickstart
    has 'eager:  x = 2  y = 7  dy/dx = 4  d2y/dx2 = 2'
    has 'graph:  x = 2  y = 7  dy/dx = 4  d2y/dx2 = 2'
    has 'graph:  x = 3  y = 12  dy/dx = 6  d2y/dx2 = 2'
    ;;
train)
    run train "$work/step.c"
    below 'the loss' "$(last_number 'step 400')" 0.2
    alone=$TAPIR_SOURCE/examples/alone
    cc -O2 -ffp-contract=off -Wall -Wextra -Wconversion -Werror -I"$work" -I"$alone" \
        "$alone/learn.c" "$work/step.c" -o "$work/learn" || fail "step.c does not compile"
    "$work/learn" >"$work/alone" || fail "learn.c fails"
    cmp "$work/alone" "$out" || fail "learn.c prints other losses"
    ;;
dynamic_model)
    run dynamic_model
    has '  mean\(x\) is 0\.[0-4][0-9]*: with relu'
    has '  mean\(x\) is 0\.[5-9][0-9]*: linear'
    at_least "1 / last loss" "$(awk '/step 2000/ { print 1 / $4 }' "$out")" 1000
    captured_line 2013 8
    ;;
dynamic_model_onnx)
    mkdir -p "$work/models/dynamic_model"
    run dynamic_model "$work/models/dynamic_model"
    [ "$(ls "$work/models/dynamic_model" | wc -l)" = 1001 ] || fail "there are not 1000 inputs"
    read_by_others
    ;;
rnn_*)
    steps=120
    longest=40
    [ "$test" = rnn_c ] && steps=30 && longest=9 # each segment waits for its compiler
    run rnn --steps $steps --longest $longest --hidden 8 --batch 4 --engine "${test#rnn_}"
    has "calls $steps user_calls $steps recordings [0-9]+ segments [0-9]+ compilations [0-9]+ bits_equal yes"
    both='rows of their own lengths, tp_for and tp_for_back'
    form_line "$both, matched" 24 24 -
    form_line "$both, pure" 24 23 -
    form_line "$both, as a graph" 24 1 1
    all_forms 5
    ;;
learns_rnn)
    run rnn
    captured=$(grep -c '^calls 1500 .* bits_equal yes$' "$out")
    [ "$captured" = 2 ] || fail "$captured of two captured trainings have equal bits"
    # what has learned nothing is off by the variance of two numbers, 0.67
    below 'the last error' "$(last_number 'step  1500')" 0.2
    ;;
branch_*)
    run branch --engine "${test#branch_}"
    nested='three nested branches'
    row='four branches in a row'
    form_line "$nested, plain C if, pure" 100004 4 7
    form_line "$nested, tp_if, pure" 400 4 7
    form_line "$row, plain C if, pure" 100005 5 9
    form_line "$row, tp_if, pure" 400 5 9
    for how in 'plain C if' tp_if; do
        form_line "$nested, $how, matched" 400 400 7
        form_line "$row, $how, matched" 400 400 9
    done
    for what in "$nested" "$row"; do
        has "$what, plain C and blocks: equal values"
        form_line "$what, tp_if, as a graph" 400 1 1
        form_line "$what, tp_if with a gradient, as a graph" 400 1 1
    done
    all_forms 16
    ;;
loops_*)
    run loops --engine "${test#loops_}"
    for what in Collatz Newton ODE 'beam search' 'power iteration'; do
        has "$what, plain C and blocks: equal values"
        form_line "$what, tp_while, as a graph" '[0-9]+' 1 1
    done
    form_line "Collatz, plain C while, pure" 120 40 -
    all_forms 20
    ;;
hvp_*)
    run hvp --engine "${test#hvp_}"
    for what in 'Hessian-vector product' 'gradient penalty' 'PINN Laplacian'; do
        form_line "$what, pure" 12 2 1
        form_line "$what, as a graph" 12 1 1
    done
    form_line 'recurrent net, tp_for, as a graph' 12 1 1
    form_line 'fixed point, tp_while, as a graph' 12 1 1
    all_forms 17
    ;;
maml_*)
    run maml --engine "${test#maml_}"
    form_line 'outer step, plain C for, pure' 150 2 1
    form_line 'outer step, tp_for, pure' 150 2 1
    form_line 'outer step, tp_for, as a graph' 150 1 1
    all_forms 6
    ;;
private)
    run private --train 3000 --test 500 --epochs 2 --batch 100 --check
    has 'bits_equal yes'
    at_least "the accuracy" "$(awk '/epoch 2/ { print $10 }' "$out")" 70
    at_least "the share of clipped pictures" "$(awk '/epoch 1/ { print $6 }' "$out")" 50
    ;;
private_real)
    need "$TAPIR_SHARED/data/mnist/train-images-idx3-ubyte.gz"
    run private "$TAPIR_SHARED/data/mnist" --check
    has 'bits_equal yes'
    at_least "the accuracy" "$(awk '/epoch 5/ { print $10 }' "$out")" 80
    ;;
newton)
    run newton --orbits 300 --check
    has 'bits_equal yes'
    below "the difference of the gradients by M" "$(awk '/by M:/ { print $3 }' "$out")" 1e-7
    below "the difference of the gradients by e" "$(awk '/by e:/ { print $3 }' "$out")" 1e-7
    ;;
ponder)
    run ponder --hidden 24 --steps 130 --batch 16 --check
    has 'bits_equal yes'
    at_least "turns for eight numbers" "$(awk '$1 == 8 { print $2 }' "$out")" 2
    ;;
learns_ponder) # a long list takes more turns than a short one
    run ponder --hidden 64 --steps 1200 --check
    has 'bits_equal yes'
    below "turns for one number" "$(awk '$1 == 1 { print $2 }' "$out")" 4
    at_least "turns for eight numbers" "$(awk '$1 == 8 { print $2 }' "$out")" 7
    ;;
early_exit)
    run early_exit --train 3000 --test 500 --hidden 48 --check
    has 'bits_equal yes'
    below "layers of a clean picture" "$(awk '/  clean/ { print $4 }' "$out")" \
        "$(awk '/very noisy/ { print $5 }' "$out")"
    ;;
early_exit_real)
    need "$TAPIR_SHARED/data/mnist/train-images-idx3-ubyte.gz"
    run early_exit "$TAPIR_SHARED/data/mnist" --check
    has 'bits_equal yes'
    at_least "the accuracy" "$(awk '/  clean/ { print $2 }' "$out")" 85
    below "layers of a clean picture" "$(awk '/  clean/ { print $4 }' "$out")" 4
    ;;
finetune)
    run finetune --save "$work/digits.onnx"
    captured_line 120 6
    at_least "accuracy, frozen" "$(awk '/the rest frozen/ { print $7 }' "$out")" 80
    at_least "accuracy, all" "$(awk '/steps of all/ { print $6 }' "$out")" 90
    ;;
finetune_resnet18)
    need "$TAPIR_SHARED/models/resnet18/model.onnx"
    cp "$TAPIR_SHARED/models/resnet18/model.onnx" "$TAPIR_SHARED/models/resnet18/weights.tsv" "$work"
    cc -O2 -o "$work/make_weights" "$TAPIR_SHARED/models/make_weights.c" &&
        "$work/make_weights" "$work" || fail "no weights"
    run finetune "$work/model.onnx" /Flatten_output_0 --steps 2 --batch 2
    captured_line 4 3
    ;;
recursion)
    run recursion --trees 100 --epochs 2 --hidden 12 --check
    has 'bits_equal yes'
    at_least "the quality of batches" "$(awk '/quality/ { print $NF }' "$out")" 0.9
    ;;
spinn)
    run spinn --trees 60 --epochs 2 --hidden 12 --batch 16 --check
    has 'bits_equal yes'
    at_least "the quality of batches" "$(awk '/quality/ { sub(/;/, "", $13); print $13 }' "$out")" 0.7
    at_least "the times that samples waited" "$(awk '/waited/ { print $(NF - 1) }' "$out")" 500
    ;;
spinn_sst)
    need "$TAPIR_SHARED/data/sst/train.txt"
    run spinn "$TAPIR_SHARED/data/sst/train.txt" --trees 200 --epochs 2 --check
    has '200 sentences, .*'
    has 'bits_equal yes'
    ;;
recursion_sst)
    need "$TAPIR_SHARED/data/sst/train.txt"
    run recursion "$TAPIR_SHARED/data/sst/train.txt" --trees 400 --epochs 2 --check
    has '400 trees of .*'
    has 'bits_equal yes'
    ;;
recursion_postfix)
    need "$TAPIR_SHARED/peers/trees.txt"
    run recursion "$TAPIR_SHARED/peers/trees.txt" --hidden 40 --epochs 2
    has '256 trees of 43\.2 nodes on average, 1000 words, hidden size 40'
    ;;
mnist_drawn)
    run mnist --train 450 --test 130 --epochs 2 --batch 32 --save "$work/model"
    accuracy=$(last_number 'test accuracy')
    mnist_lines
    at_least "the accuracy" "$accuracy" 40
    captured_line 30 4
    ;;
mnist_onnx)
    mkdir -p "$work/models/mnist"
    run mnist --train 450 --test 130 --epochs 2 --batch 32 --save "$work/model" \
        --onnx "$work/models/mnist"
    tensors=$work/models/mnist/test_data_set_0
    command="$folder/../tapir run $work/models/mnist/model.onnx"
    "$folder/../tapir" run "$work/models/mnist/model.onnx" --input "x=$tensors/input_0.pb" \
        --output "$work" >"$out" 2>&1 || { cat "$out"; fail "the command cannot run it"; }
    "$folder/../tapir" test "$work/models/mnist" >"$out" 2>&1 || { cat "$out"; fail "the command does not agree"; }
    cat "$out"
    has '1 passed, 0 failed, 0 skipped'
    read_by_others
    ;;
mnist_real | mnist_real_long)
    need "$TAPIR_SHARED/data/mnist/t10k-images-idx3-ubyte.gz"
    epochs=1 least=97.5 steps=938
    [ "$test" = mnist_real ] || epochs=3 least=98.5 steps=2814
    run mnist "$TAPIR_SHARED/data/mnist" --epochs $epochs --save "$work/model"
    has '60000 real digits to learn from, 10000 others to be tested with'
    accuracy=$(last_number 'test accuracy')
    mnist_lines
    at_least "the accuracy" "$accuracy" $least
    captured_line $steps 6
    ;;
misuse)
    command="programs of $folder with bad arguments"
    mkdir "$work/data"
    printf 'no digits' >"$work/data/train-images-idx3-ubyte"
    "$folder/mnist" "$work/data" >"$out" 2>&1 && fail "mnist took a damaged file"
    grep -q 'not an IDX file' "$out" || fail "mnist did not say what is wrong"
    "$folder/mnist" "$work/nothing" >"$out" 2>&1 && fail "mnist took a folder that is not there"
    "$folder/mnist" --train x >"$out" 2>&1 && fail "mnist took a bad number"
    grep -q '^usage: ' "$out" || fail "mnist did not say how it is used"
    "$folder/mnist" --train 40 --test 20 --epochs 1 --save "$work/no/such" >"$out" 2>&1 &&
        fail "mnist could not save and said nothing"
    for program in private newton ponder early_exit recursion spinn; do
        "$folder/$program" --orbits 0 >"$out" 2>&1 && fail "$program took a bad number"
        grep -q '^usage: ' "$out" || fail "$program did not say how it is used"
    done
    "$folder/private" "$work/data" >"$out" 2>&1 && fail "private took a damaged file"
    for line in '(3 (2 a) (2 b)' '(9 a)' '3: 1 +' '3: 1 2' '7: 1 2 +' 'x' '(3 (2 a) (2 b) (1 c))'; do
        echo "$line" >"$work/trees"
        "$folder/recursion" "$work/trees" >"$out" 2>&1 && fail "recursion took $line"
        grep -q 'line 1 is no tree' "$out" || fail "recursion did not say what is wrong: $line"
    done
    ;;
*)
    echo "no test is called $test"
    exit 2
    ;;
esac
