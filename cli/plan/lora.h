/* SPDX-License-Identifier: Apache-2.0
 *
 * LoRA: reads '--lora' and '--lora-on', which give a model adapters.
 *
 *     rc = ah_lora_read(&cli->arena, options->lora, &options->lora_on, model, &patterns, err);
 */
#ifndef AH_CLI_PLAN_LORA_H
#define AH_CLI_PLAN_LORA_H

#include "base/arena.h"
#include "base/error.h"
#include "base/option_value.h"
#include "runtime/model/freeze.h"
#include "schemas/model.h"

/* Sets model->lora from "rank=16,alpha=32,scaling=rank_stabilized" and the patterns of matrices (none: all matrices),
 * in `arena`. Appends the patterns that train these adapters (trainable.h). AH_E_USAGE names the option: a wrong key or
 * number, a pattern that matches no matrix, layers with different matrices; AH_E_MEMORY. */
int ah_lora_read(struct ah_arena *arena, const char *lora, const struct ah_option_list *on,
                 struct ah_model *model, struct ah_freeze_names *patterns, struct ah_error *err);

#endif
