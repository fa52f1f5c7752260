#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# needed.sh PLUGIN: of shared libraries the plugin needs the C library alone, so that it loads wherever autohete runs,
# and it exports its symbols alone: the device's and, if built with NCCL, that of messages.
set -euo pipefail

plugin=$1
needed=$(readelf -dW "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ] || {
    echo "readelf shows no NEEDED entry of $plugin" >&2
    exit 1
}
echo "$needed"
if unexpected=$(grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' <<<"$needed"); then
    echo "the plugin also needs: $unexpected" >&2
    exit 1
fi
if readelf -dW "$plugin" | grep -E 'RPATH|RUNPATH'; then
    echo "the plugin searches folders of the machine that built it" >&2
    exit 1
fi
exported=$(nm -D --defined-only "$plugin" | awk '{print $3}' | sort | tr '\n' ' ')
[ "$exported" = "ah_plugin_driver " ] || [ "$exported" = "ah_comm_plugin ah_plugin_driver " ] || {
    echo "the plugin exports: $exported" >&2
    exit 1
}
