#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PROGRAM PLUGIN ROOT: a user's way with several GPUs. Three doubled GPUs that share all states, planned and run by
# the command line, save the bytes of one. Two unequal GPUs train a plan for a cluster. What is missing is told: GPUs, NCCL.
set -euo pipefail

program=$1
AUTOHETE_PLUGIN_DIR=$(dirname "$2")
root=$3
export AUTOHETE_PLUGIN_DIR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

sed -e 's/"n_\(embd\)": [0-9]*/"n_\1": 64/; s/"n_\(head\|layer\)": [0-9]*/"n_\1": 2/; s/\("vocab_size": \)[0-9]*/\1256/' \
    -e 's/\("n_[cp][a-z]*": \)[0-9]*/\164/' "$root/examples/models/gpt2-124m.json" >model.json
for _ in $(seq 40); do echo 'what one GPU cannot hold is held by several of them'; done >text.txt

fail() {
    echo "$1" >&2
    exit 1
}

train() { # train DOUBLE PLAN FOLDER [OPTIONS]: what it says goes to said.txt
    AUTOHETE_CUDA_DOUBLE=$1 "$program" run "$2" --data text.txt --data-format bytes --steps 3 --save "$3" "${@:4}" -q 2>said.txt
}

expect() { # expect REGEX: in what the last command said
    grep -qE "$1" said.txt || fail "it does not say /$1/: $(cat said.txt)"
}

of=(--batch 8 --micro-batches 4 --seq 32 --effort quick --device-memory 700MiB)
"$program" plan model.json --machine rtx4090-64g "${of[@]}" -o one.json >/dev/null 2>&1
"$program" plan model.json --machine rtx4090-64g "${of[@]}" --gpus 3 --fabric 20GB/s -o three.json >/dev/null 2>&1
train "" one.json one || fail "one GPU: $(cat said.txt)"
train devices=3 three.json three --local || fail "three GPUs: $(cat said.txt)"
for file in model.safetensors states.bin; do
    cmp "one/step-00000003/$file" "three/step-00000003/$file" || fail "three GPUs have another $file"
done

"$program" cluster rtx4090-64g rtx3090-64g --link 4000Gbit --latency 0.1 -o cluster.json >/dev/null 2>&1
"$program" plan model.json --cluster cluster.json --tp 1 --batch 16 --micro-batches 4 --seq 32 -o cluster-plan.json >/dev/null 2>&1
train devices=2 cluster-plan.json cluster --local || fail "two unequal GPUs: $(cat said.txt)"

! train devices=2 three.json no --local || fail "three ranks train on two GPUs"
expect "^error: three.json: has 3 ranks, each on a GPU of its own, but this machine has 2 GPUs; plan for fewer ranks"
! train devices=3 three.json no --local --device cuda:1 || fail "three ranks take one GPU"
expect "^error: '--device cuda:1' names one GPU, but each rank has its own; choose them with CUDA_VISIBLE_DEVICES"
! train devices=3,nccl=21706 three.json no --local || fail "three ranks train with an old NCCL"
expect "NCCL 2.17.6, but messages between GPUs need 2.26.2 or later"
! train devices=3,fail=ncclSend:30:2 three.json no --local || fail "three ranks train although a message fails"
expect "^error: .*'ncclSend' failed: unhandled system error"
[ ! -e no ] || [ -z "$(ls no)" ] || fail "a run that failed has saved something"
