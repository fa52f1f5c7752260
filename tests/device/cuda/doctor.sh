#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh PROGRAM PLUGIN: `autohete doctor` on a double of a GPU says which GPU it is and what records it; where
# another profiler has CUPTI, that traces would lack its records, and why; the GPU can be used all the same.
set -euo pipefail

program=$1
AUTOHETE_PLUGIN_DIR=$(dirname "$2")
export AUTOHETE_PLUGIN_DIR

expect() { # expect DOUBLE REGEX: what doctor prints, in one line
    local said
    said=$(AUTOHETE_CUDA_DOUBLE=$1 "$program" doctor | tr '\n' ' ' | tr -s ' ')
    grep -qE "$2" <<<"$said" || {
        echo "with the double '$1', doctor does not say /$2/: $said" >&2
        exit 1
    }
}

expect "" 'device cuda ok interface [0-9]+; cuda:0 [^;]+, 1\.0 GiB; [0-9.]+ MiB of its memory is used outside the arena; cuBLASLt [0-9.]+ has all 6 matrix products; recorded by CUPTI [0-9.]+ '
expect "" 'can run on this machine.s CPU and GPU'
expect "profiler=nsys" "device cuda ok .*; 'run --trace' will lack the GPU's own records -> .*CUPTI"
expect "fail=cudaStreamCreateWithPriority:1:2" 'device cuda note interface [0-9]+; cuda:0 cannot be used: '
expect "plain=1" 'device cuda ok .*; cuBLASLt [0-9.]+ lacks 2 of 6 matrix products .*; recorded by .* -> for the products: install'
expect "fail=cudaMemsetAsync:1:2,kernel=900MiB" 'device cuda note interface [0-9]+; cuda:0 cannot be used: '
expect "devices=0" 'device cuda absent no GPU can be used, although the CUDA plugin is installed \(interface [0-9]+\): '
expect "nccl=21706" 'NCCL absent GPUs train alone, not together: .* is NCCL 2\.17\.6, but messages between GPUs need 2\.26\.2 or later; install a later NCCL -> '
