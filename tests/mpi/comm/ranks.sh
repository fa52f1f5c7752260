#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ranks.sh PROGRAM: a ring of ranks over MPI; a world that is lost; sizes that differ; no launcher. All end, and say why.
set -euo pipefail
program=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail() {
    echo "ranks.sh: $1" >&2
    cat "$out"/* >&2
    exit 1
}

says() { # says FILE TEXT
    grep -qF "$2" "$out/$1" || fail "'$2' is not in $1"
}

# A gather of what all say: mpirun ends them, so that not everyone may come to speak.
timeout 60 mpirun -n 3 "$program" ring >"$out/ring" 2>&1 || fail "the ring failed"
says ring "ring: ok"
if timeout 60 mpirun -n 3 "$program" revoke >"$out/revoke" 2>&1; then
    fail "a lost world ends well"
fi
says revoke "rank 1: its loss is not finite"
if timeout 60 mpirun -n 2 "$program" sizes >"$out/sizes" 2>&1; then
    fail "sizes that differ end well"
fi
says sizes "rank 0 sends rank 1 16 bytes for purpose 7 where it waits for 24"
if "$program" ring >"$out/alone" 2>&1; then
    fail "a rank without a launcher ends well"
fi
says alone "use mpirun or srun"
