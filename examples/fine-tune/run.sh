#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From twenty conversations to a model that answers: makes a small model, which has only read text, and teaches it.
#
#     examples/fine-tune/run.sh OUT [MACHINE]     MACHINE: a machine document (default: this machine, measured)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: examples/fine-tune/run.sh OUT [MACHINE]}
machine=()
[ $# -lt 2 ] || machine=(--machine "$(realpath "$2")")
mkdir -p "$out"
cd "$out"

say() {
    local word line='$ autohete'
    for word; do
        [[ $word == *' '* ]] && word="'$word'"
        line+=" $word"
    done
    printf '\n%s\n' "$line"
    autohete "$@"
}

# A base model, as one would download it: a folder with config.json, safetensors and a tokenizer. It has read six pages of
# the examples. ChatML is put beside it, because a base model has no chat template.
mkdir -p words
cp "$here/tokenizer.json" words/
cp "$here/../chat/chatml.jinja" words/chat_template.jinja
autohete tokenize "$here"/../{ci,cluster-local,desktops,fine-tune,recovery,reproduce}/README.md --model words -o text -q >made.txt
[ ${#machine[@]} -gt 0 ] || autohete profile --quick
autohete plan "$here/base.json" "${machine[@]}" --batch 8 --seq 64 --effort quick -o base-plan.json -q >>made.txt
autohete run base-plan.json --data 'text/*.bin' --tokenizer words --steps 60 --lr 3e-3 --save made -q >>made.txt
mv made/step-00000060 base

say finetune base "$here/chats.jsonl" -o tuned "${machine[@]}" --seq 128 --batch 4 --epochs 50 --lr 3e-3 --val 0
say sample tuned/checkpoints/step-* 'What does autohete do?' 'Do I need Python?'
