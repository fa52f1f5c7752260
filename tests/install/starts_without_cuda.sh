#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# starts_without_cuda.sh CMAKE BUILD plugin|no-plugin: installs into a folder of its own and starts the program there.
# It must start with no CUDA driver or toolkit present: it needs no library of theirs, and while it starts the loader
# looks for none.
set -euo pipefail

cmake=$1
build=$2
with_plugin=$3

fail() {
    echo "starts_without_cuda: $*" >&2
    exit 1
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$cmake" --install "$build" --prefix "$root/prefix" >"$root/install.log" 2>&1 || {
    cat "$root/install.log" >&2
    fail "the installation failed"
}
program=$root/prefix/bin/autohete
plugin=$root/prefix/lib/autohete/libautohete_cuda.so
[ -x "$program" ] || fail "bin/autohete was not installed"
for file in man/man1/autohete.1 man/man1/autohete-tokenize.1 doc/autohete/docs/running.md autohete/schemas/plan.schema.json bash-completion/completions/autohete; do
    [ -f "$root/prefix/share/$file" ] || fail "share/$file was not installed"
done
printf 'text' >"$root/text"
"$root/prefix/bin/autohete-tokenize" "$root/text" -o "$root/tokens" --bytes >/dev/null ||
    fail "bin/autohete-tokenize was not installed, or does not run"
if [ "$with_plugin" = plugin ]; then
    [ -f "$plugin" ] || fail "lib/autohete/libautohete_cuda.so was not installed"
fi

for file in "$program" "$plugin"; do
    [ -f "$file" ] || continue
    needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    grep -q '^libc\.so' <<<"$needed" || fail "readelf shows no libc among what $file needs"
    ! grep -iE 'cuda|cublas|cupti|nvrtc|nvidia|nccl' <<<"$needed" || fail "$file needs a library of CUDA"
done
if readelf -dW "$program" | grep -E 'RPATH|RUNPATH'; then
    fail "the program searches folders of the machine that built it"
fi

# Nothing from the environment, and the loader writes down every file that it looks for.
env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$root/nothing" LD_DEBUG=libs LD_DEBUG_OUTPUT="$root/loader" \
    "$program" --version >"$root/out" || fail "the program does not start"
grep -qE '^autohete [0-9]+\.[0-9]+\.[0-9]+' "$root/out" || fail "--version says '$(cat "$root/out")'"
cat "$root"/loader.* >"$root/loader-all"
grep -q 'find library=libc\.so' "$root/loader-all" || fail "the loader wrote nothing down"
if grep 'find library=' "$root/loader-all" | grep -iE 'cuda|cublas|cupti|nvrtc|nvidia|nccl'; then
    fail "the program looks for a library of CUDA when it starts"
fi
