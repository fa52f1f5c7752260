/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a resume document.
 */
#include "schemas/resume.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

static const char *const kind_words[] = {"resume", NULL};

static const struct ah_field best_fields[] = {
    AH_ROW_COUNT(ah_resume_best, step, 0, AH_FIELD_COUNT_MAX, "Steps done when it was saved."),
    AH_ROW_NUMBER(ah_resume_best, loss, AH_FIELD_NUMBER_MAX, "Its held-out loss."),
    {0}};
AH_TABLE(best, ah_resume_best, "best", "The checkpoint with the lowest held-out loss.", NULL);

static const struct ah_field resume_fields[] = {
    AH_FIELD_HEAD(ah_resume, kind_words),
    {.name = "data",
     AH_TEXTS_AT(ah_resume, data),
     .min_items = 1,
     .max_items = 4096,
     .about = "Training data: absolute paths and patterns."},
    {.name = "data_format",
     AH_TEXT_AT(ah_resume, data_format),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Format of the data files; absent: detected for each file."},
    {.name = "valid",
     AH_TEXTS_AT(ah_resume, valid),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 4096,
     .about = "Held-out data."},
    {.name = "weights",
     AH_TEXT_AT(ah_resume, weights),
     .flags = AH_FIELD_OPTIONAL,
     .about = "With adapters: the weights of the base model."},
    {.name = "valid_every",
     AH_COUNT_AT(ah_resume, valid_every),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_FIELD_COUNT_MAX,
     .about = "Steps between held-out losses; 0: only at the end."},
    {.name = "save_every",
     AH_COUNT_AT(ah_resume, save_every),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_FIELD_COUNT_MAX,
     .about = "Steps between saves; 0: only at the end."},
    AH_ROW_COUNT(ah_resume, keep, 0, AH_FIELD_COUNT_MAX, "Number of newest checkpoints to keep; 0: all."),
    {.name = "log", AH_TEXT_AT(ah_resume, log), .flags = AH_FIELD_OPTIONAL, .about = "The run log."},
    {.name = "first_loss",
     AH_NUMBER_AT(ah_resume, first_loss),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_FIELD_NUMBER_MAX,
     .about = "Median loss of the run's first 8 steps, the reference for divergence."},
    {.name = "keeps_best",
     AH_BOOL_AT(ah_resume, keeps_best),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Is the checkpoint with the lowest held-out loss also kept?"},
    {.name = "best",
     AH_GROUP_AT(ah_resume, best, &best_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "That checkpoint."},
    AH_FIELD_ANNOTATIONS(ah_resume),
    {0}};
AH_TABLE(resume, ah_resume, "resume",
         "Options that a resumed run keeps unless they are given again, stored beside its checkpoints.",
         NULL);

const struct ah_kind ah_kind_resume = {
    .table = &resume_table, .alternatives = (const struct ah_field_table *const[]){&resume_table, NULL}};
