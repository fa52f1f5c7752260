/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache: the place of this machine's profiles, so that verbs find them without an option.
 *
 * Each device has a file ${XDG_CACHE_HOME:-~/.cache}/autohete/machine-<device>.json, with the device as in `--device`,
 * but `-` for `:`. An XDG_CACHE_HOME that is not an absolute path is ignored, as its specification demands.
 */
#ifndef AH_CLI_FRAME_CACHE_H
#define AH_CLI_FRAME_CACHE_H

#include "base/arena.h"
#include "base/error.h"

/* Returns the path of a device's profile, in `arena`, and creates nothing. `device` NULL: cpu. AH_E_FAILED: no home. */
int ah_cache_path(const char *device, struct ah_arena *arena, const char **ret_path, struct ah_error *err);

/* Returns the path of the GPU's profile or, if that file does not exist, of the CPU's. AH_E_USAGE: neither exists; the
 * text says how to make one. */
int ah_cache_find(struct ah_arena *arena, const char **ret_path, struct ah_error *err);

/* Makes the folders above `path`, for this user only. */
int ah_cache_make_folder(const char *path, struct ah_error *err);

#endif
