#!/bin/sh
# peers.sh WORKLOAD..: prints what other systems take for these workloads, rows as bench/peer_rows.h
# has them. PEERS is a folder that the peers' setup.sh made; its scripts are in PEERS_SCRIPTS
# (../shared/peers beside this project). THREADS says on how many threads. It needs to be root.
set -eu
: "${PEERS:?set it to the folder that the setup script made}"
here=$(cd "$(dirname "$0")/.." && pwd)
scripts=${PEERS_SCRIPTS:-$here/../shared/peers}
inside=$PEERS/trixie

# What parts of their measurements these are. A Loop is measured here.
small='' models='' loop=''
once() { # LIST WORD
    case " $1 " in *" $2 "*) echo "$1" ;; *) echo "$1 $2" ;; esac
}
for w; do
    case $w in
    infer/loop/*) loop=yes ;;
    infer/*) w=${w#infer/}; models=$(once "$models" "${w%%/*}") ;;
    tree_lstm/*) small=$(once "$small" tree) ;;
    */*) small=$(once "$small" "${w%%/*}") ;;
    esac
done

# The scripts wait until a core is as fast as on the machine they were made on, unless told
# otherwise, and a clean environment keeps that from them: so they are called where they lie.
in_chroot() {
    chroot "$inside" env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 "THREADS=${THREADS:-1}" \
        "ROUNDS=${ROUNDS:-1}" "SECONDS_EACH=${SECONDS_EACH:-1}" FMA_MIN=1 TRIES=1 \
        sh -c "cd /bench/measure && $1"
}
if [ -n "$small$models" ]; then
    [ -e "$inside/bench/models/kernels/softmax/model.onnx" ] || "$scripts/run.sh" small none >&2
    [ -z "$small" ] || in_chroot "./small.sh $small"
    [ -z "$models" ] || in_chroot "./infer.sh $models"
fi
if [ -n "$loop" ]; then
    python=$PEERS/venv/bin/python
    model=$here/build/release/bench/models/loop.onnx
    [ ! -x "$python" ] || [ ! -e "$model" ] || "$python" "$here/bench/loop_ort.py" "$model"
fi
