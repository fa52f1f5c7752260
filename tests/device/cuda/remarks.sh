#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# remarks.sh PROGRAM PLUGIN ROOT: where cuBLASLt lacks products, or the GPU's memory holds more beside the arena than the plan
# leaves, `run` warns with numbers before the first step and writes it into the run log, and `doctor` says it. Otherwise
# there is no word of it. `compare --measured`, which trains many plans in one process, locks memory as often as a plan needs
# more of it than those before.
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
"$program" plan model.json --machine "$root/examples/machines/rtx4090-64g.json" --batch 4 --seq 32 --effort quick \
    --device-memory 700MiB -o plan.json >/dev/null 2>&1
for _ in $(seq 40); do echo 'what a GPU lacks is said before it is trained on'; done >text.txt

fail() {
    echo "$1" >&2
    exit 1
}

run() { # run DOUBLE: what it says goes to said.txt, its log to log.ndjson
    AUTOHETE_CUDA_DOUBLE=$1 "$program" run plan.json --data text.txt --steps 2 --log log.ndjson --force >/dev/null 2>said.txt ||
        fail "with the double '$1', run fails: $(cat said.txt)"
}

lacks='lacks [0-9]+ of [0-9]+ matrix products \(first: bias[a-z_]* [nt]+ [0-9x]+ [a-z0-9]+\), which run in several slower steps'
taken='the GPU needs [0-9.]+ MiB outside the arena .* the plan leaves only [0-9.]+ MiB of its 700.0 MiB'

run ""
if grep -qE 'lacks|outside the arena' said.txt log.ndjson; then
    fail "run warns without a cause: $(cat said.txt)"
fi
run "plain=1"
grep -qE "^warning: .*$lacks" said.txt || fail "no word of products in steps: $(cat said.txt)"
head -n 1 log.ndjson | grep -qE "\"products\": ?\".*$lacks" || fail "no products in the log: $(head -n 1 log.ndjson)"
run "kernel=30MiB,memory=4GiB"
grep -qE "^warning: .*$taken" said.txt || fail "no word of memory: $(cat said.txt)"
head -n 1 log.ndjson | grep -qE "\"memory\": ?\".*$taken" || fail "no memory in the log: $(head -n 1 log.ndjson)"

said=$(AUTOHETE_CUDA_DOUBLE=plain=1 "$program" doctor | tr '\n' ' ' | tr -s ' ')
grep -qE "device cuda ok .*; [0-9.]+ MiB of its memory is used outside the arena; cuBLASLt [0-9.]+ $lacks.* -> .*cuBLAS" <<<"$said" ||
    fail "doctor says: $said"

# 14 turns, of which seven are a plan's first.
AUTOHETE_CUDA_DOUBLE=fail=cudaHostRegister:8:2 "$program" compare model.json --machine "$root/examples/machines/rtx4090-64g.json" \
    --batch 4 --seq 32 --effort quick --device-memory 700MiB --device cuda:0 --measured --rounds 2 --steps 1 >said.txt 2>&1 ||
    fail "compare --measured locks memory again and again: $(cat said.txt)"
