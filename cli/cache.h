/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache: where the profiles of this machine are kept, so that no verb must be told.
 *
 * One file a device: ${XDG_CACHE_HOME:-~/.cache}/autohete/machine-<device>.json, the device as in `--device`
 * with `:` as `-`. An XDG_CACHE_HOME that is not an absolute path is ignored, as its specification asks.
 */
#ifndef AH_CLI_CACHE_H
#define AH_CLI_CACHE_H

#include "base/arena.h"
#include "base/error.h"

/* The path in arena; nothing is created. `device` NULL means cpu. AH_E_FAILED where there is no home. */
int ah_cache_path(const char *device, struct ah_arena *arena, const char **ret_path, struct ah_error *err);

/* The path of the profile that is kept: of the GPU where there is one, else of the CPU. AH_E_USAGE: there is none, and
 * how to make one. */
int ah_cache_find(struct ah_arena *arena, const char **ret_path, struct ah_error *err);

/* Makes the folders above `path`, for this user only. */
int ah_cache_make_folder(const char *path, struct ah_error *err);

#endif
