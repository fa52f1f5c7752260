#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stall.sh PROGRAM PLUGIN ROOT: `autohete run` and `autohete profile` on a double of a GPU that stops answering end with exit
# status 7 and say what every lane was at; a run that does not hang is not disturbed.
set -euo pipefail

program=$1
AUTOHETE_PLUGIN_DIR=$(dirname "$2")
root=$3
export AUTOHETE_PLUGIN_DIR
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$program" plan "$root/tests/cli/documents/model-least.json" --machine "$root/examples/machines/rtx4090-64g.json" \
    --batch 4 --seq 32 --effort quick -o plan.json >/dev/null 2>&1
for _ in $(seq 40); do echo 'what stops answering says what it was at, and nothing waits for ever'; done >text.txt

expect() { # expect DOUBLE STATUS REGEX WORD...: how the program ends with these words, and what it says in one line
    local double=$1 status=$2 regex=$3 said got=0
    shift 3
    said=$(AUTOHETE_CUDA_DOUBLE=$double "$program" "$@" 2>&1 >/dev/null | tr '\n' ' '; exit "${PIPESTATUS[0]}") || got=$?
    if [[ $got != "$status" ]] || ! grep -qE "$regex" <<<"$said"; then
        echo "with the double '$double', '$*' ends with $got and says: $said" >&2
        exit 1
    fi
}

# The double completes something at least every three seconds, and a busy machine lets it; nothing hangs for long here.
run=(run plan.json --data text.txt --steps 3 --stall-after)
words=("${run[@]}" 3)
stalled="error: device 'cuda' has completed nothing for 3 s, while the program .*"
expect "" 0 "" "${run[@]}" 100
expect "hang=cudaLaunchKernel:400" 7 "$stalled; compute: .* of '(forward|backward)' of block '.*' has started but not finished(: this op or a later one that is timed together with it)?; .* saved checkpoints are intact" \
    "${words[@]}"
expect "hang=cudaMemcpyAsync:9" 7 "$stalled has started but not finished[;:] " "${words[@]}"
expect "hang=cudaStreamSynchronize:4" 7 "$stalled on zeros; " "${words[@]}"
expect "hang=cudaLaunchKernel:400" 7 '^\{"error": ?\{.*"stalled"' "${words[@]}" --json
expect "hang=cudaMemcpyAsync:9" 7 "$stalled" profile --quick --device cuda --stall-after 3 -o machine.json
