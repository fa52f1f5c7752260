#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ranks.sh PROGRAM: a ring of ranks over MPI; a world that is lost; sizes that differ; ranks that are late or never come; one that is
# killed; no launcher. All end, and say why.
# Without MPI, no program is given: a skip, which tests/allowed-skips.txt does not name, since scripts/setup installs MPI.
set -euo pipefail
if [ $# -eq 0 ] || ! command -v mpirun >/dev/null; then
    echo "ranks.sh: there is no MPI here; scripts/setup test installs it" >&2
    exit 77
fi
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
says sizes "rank 0 sends 16 bytes to rank 1 for purpose 7, but the receiver expects 24"
# The deadline also limits how long mpirun takes to start all ranks. If that was too long, a longer deadline is tried.
for seconds in 1 5 25; do
    if timeout 120 mpirun -n 3 "$program" late $seconds >"$out/late" 2>&1; then
        fail "a rank without channels ends well"
    fi
    grep -qF "has not admitted this rank for $seconds s" "$out/late" || break
done
says late "rank 1 of 3 did not set up channels within $seconds s"
if timeout 60 mpirun -n 2 "$program" ring 1 : -n 1 sleep 600 >"$out/absent" 2>&1; then
    fail "a rank that never comes ends well"
fi
says absent "its launcher waits for a process that has not started"
# A rank dies in the middle of the ring: mpirun and the other ranks end, within 2 s where nothing else runs.
timeout --kill-after=5 40 mpirun -n 4 "$program" forever >"$out/killed" 2>&1 &
launcher=$!
until [ "$(grep -c 'is process' "$out/killed")" -eq 4 ]; do
    kill -0 "$launcher" 2>/dev/null || fail "the ring did not begin"
    sleep 0.1
done
mapfile -t processes < <(sed -n 's/^rank . is process //p' "$out/killed")
began=$(date +%s%N)
kill -KILL "$(sed -n 's/^rank 1 is process //p' "$out/killed")"
if wait "$launcher"; then
    fail "a ring that lost a rank ends well"
fi
is_left() { # one that ended, and whose parent has not looked yet, is not
    [ -e "/proc/$1" ] && ! grep -qs '^State:.Z' "/proc/$1/status"
}

for process in "${processes[@]}"; do
    while is_left "$process"; do
        [ $(($(date +%s%N) - began)) -lt 40000000000 ] || fail "process $process is left"
        sleep 0.02
    done
done
took_ms=$((($(date +%s%N) - began) / 1000000))
echo "all ended $took_ms ms after a rank was killed"
if "$program" ring >"$out/alone" 2>&1; then
    fail "a rank without a launcher ends well"
fi
says alone "use mpirun or srun"
