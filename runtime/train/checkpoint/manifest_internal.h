/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifest: the document that makes a folder a checkpoint, and quick checks of the folder against it.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_MANIFEST_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_MANIFEST_INTERNAL_H

#include "runtime/train/checkpoint/checkpoint_folder.h"
#include "schemas/checkpoint.h"
#include "schemas/document.h"

/* Reads the manifest in `folder`. AH_E_DOCUMENT: it is missing or wrong; AH_E_IO: it cannot be read. */
int ah_manifest_load(struct ah_document *ret_manifest, const char *folder, struct ah_error *err);

/* Compares signatures. AH_E_MISMATCH names the field in which they differ, with both values unless it is a list. */
int ah_manifest_check_signature(const struct ah_document *manifest, const char *folder,
                                const struct ah_signature *signature, struct ah_error *err);

/* Checks the folder's files. AH_E_DOCUMENT: a file is missing or has another size, or the folder has weights outside
 * the manifest that readers would use. */
int ah_manifest_check_files(const struct ah_document *manifest, const char *folder, struct ah_error *err);

/* Returns the manifest's entry for the file with that name; NULL: none. */
const struct ah_checkpoint_file *ah_manifest_file(const struct ah_checkpoint *manifest, const char *name);

#endif
