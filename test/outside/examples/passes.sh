#!/bin/sh
# passes.sh FOLDER: what examples of FOLDER compare stays equal when passes are left out, one by one and all.
set -u
folder=$1
rows=$(sed -n 's/^PASS(\(.*\))$/\1,/p' "$TAPIR_SOURCE/src/pass/passes.def" | tr -d '\n')
passes=${rows}remake,fuse,bands
[ -n "$rows" ] || {
    echo "no list of passes in src/pass/passes.def"
    exit 1
}
status=0
for skip in $(echo "$passes" | tr , ' ') "$passes"; do
    for program in hvp maml 'rnn --steps 8 --longest 5 --hidden 8 --batch 4'; do
        # shellcheck disable=SC2086
        out=$(TAPIR_SKIP=$skip "$folder"/$program --engine tiles 2>&1)
        # What no plan can be without a pass is run node by node; the example then says no.
        wrong=$(echo "$out" | grep -Ec 'DIFFERENT|bits_equal no')
        [ "$wrong" = "$(echo "$out" | grep -c 'the program ran by eager')" ] &&
            [ "$(echo "$out" | grep -c 'bits_equal yes')" -gt "$wrong" ] && continue
        echo "$out"
        echo "repeat: TAPIR_SKIP=$skip $folder/$program --engine tiles"
        status=1
    done
done
echo "without: $passes"
exit $status
