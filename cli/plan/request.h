/* SPDX-License-Identifier: Apache-2.0
 *
 * Request: turns a command line into a request to the planner. `plan` and `compare` share these options and defaults.
 *
 *     struct plan_options { struct ah_request_options request; const char *output; };   // request comes first
 *     static const struct ah_option plan_table[] = {AH_REQUEST_OPTIONS, ...};
 *
 *     struct ah_request request;
 *     rc = ah_request_init(&request, cli, &options->request, err);    // reads the documents, checks the numbers
 *     rc = ah_planner_plan(&request.planner, ...);
 *     ah_request_release(&request);
 */
#ifndef AH_CLI_PLAN_REQUEST_H
#define AH_CLI_PLAN_REQUEST_H

#include "cli/frame/cli.h"
#include "cli/frame/input.h"
#include "planner/planner.h"
#include "schemas/document.h"

struct ah_request_options {
    const char *machine;
    struct ah_option_integer batch;
    struct ah_option_integer micro_batches;
    struct ah_option_integer seq;
    const char *dtype;
    const char *state_dtype;
    struct ah_option_real clip;
    struct ah_option_list freeze;
    const char *lora;
    struct ah_option_list lora_on, train;
    struct ah_option_integer device_memory;
    struct ah_option_integer host_memory;
    const char *scheduling;
    struct ah_option_list without;
    struct ah_option_integer effort;
    struct ah_option_integer gpus;
    const char *fabric;
};

extern const char *const ah_request_words_auto[];
extern const char *const ah_request_words_none[];
extern const char *const ah_request_words_quick[];

#define AH_REQUEST_FIELD(name) offsetof(struct ah_request_options, name)

/* The rows for an options struct that begins with a struct ah_request_options. */
/* clang-format off */
#define AH_REQUEST_LORA_OPTIONS                                                                              \
    {"lora", 0, AH_OPTION_TEXT, "rank=N,alpha=X", NULL, AH_REQUEST_FIELD(lora),                              \
     "train adapters (LoRA) and freeze the rest; alpha is 2 N by default, scaling=rank_stabilized divides it "\
     "by sqrt(N)"},                                                                                          \
    {"lora-on", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(lora_on),                             \
     "with --lora: the layers' matrices with adapters (default all): 'attention.*,mlp.down', 'layer.0.*', "  \
     "or by Hugging Face's names: 'q_proj,v_proj'"},                                                         \
    {"train", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(train),                                 \
     "with --lora: train these tensors whole, too: patterns as those of --freeze, such as "                  \
     "'embedding.*,head.*'"}
#define AH_REQUEST_OPTIONS                                                                                   \
    {"machine", 0, AH_OPTION_FILE, "MACHINE", ah_input_machines, AH_REQUEST_FIELD(machine),                  \
     "the machine to plan for (default this one, as 'autohete profile' measured it): a document, or built in"},\
    {"gpus", 0, AH_OPTION_COUNT, "G", NULL, AH_REQUEST_FIELD(gpus),                                          \
     "train on G GPUs like the machine's, on its host: each keeps a part of all states (default 1)"},        \
    {"fabric", 0, AH_OPTION_TEXT, "RATE", NULL, AH_REQUEST_FIELD(fabric),                                    \
     "with --gpus: how fast each GPU sends to the others while it receives, such as 250GB/s"},               \
    {"batch", 0, AH_OPTION_COUNT, "N", NULL, AH_REQUEST_FIELD(batch), "sequences per step (default 8)"},     \
    {"micro-batches", 0, AH_OPTION_COUNT, "N|auto", ah_request_words_auto, AH_REQUEST_FIELD(micro_batches),  \
     "equal parts of the batch, computed one after another or by several GPUs (default 1; with --gpus the "  \
     "least multiple of G that divides the batch and fits); auto: the planner chooses"},                     \
    {"seq", 0, AH_OPTION_COUNT, "N", NULL, AH_REQUEST_FIELD(seq),                                            \
     "tokens per sequence (default 1024, or all positions of a model with fewer)"},                          \
    {"dtype", 0, AH_OPTION_WORD, "DTYPE", ah_words_dtype, AH_REQUEST_FIELD(dtype),                           \
     "number format of weights and activations (default bf16 if the device has it)"},                        \
    {"state-dtype", 0, AH_OPTION_WORD, "DTYPE", ah_words_dtype, AH_REQUEST_FIELD(state_dtype),               \
     "number format of the optimizer's moments (default fp32); bf16 takes less memory but changes results"}, \
    {"clip", 0, AH_OPTION_REAL, "X|none", ah_request_words_none, AH_REQUEST_FIELD(clip),                     \
     "clip the norm of all gradients to this (default 1); none: no clipping, which is faster"},              \
    {"freeze", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(freeze),                               \
     "do not train these tensors: patterns separated by commas: 'embedding.*,layer.0.*', or by Hugging "     \
     "Face's names: 'model.layers.0'; '!' before a pattern exempts what it names"},                          \
    AH_REQUEST_LORA_OPTIONS,                                                                                 \
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, AH_REQUEST_FIELD(device_memory),                     \
     "use at most this much device memory (default all); above what the machine has, plan a what-if"},       \
    {"host-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, AH_REQUEST_FIELD(host_memory),                         \
     "use at most this much host memory (default all that the system can spare); above it, plan a what-if"}, \
    {"scheduling", 0, AH_OPTION_WORD, "WORD", ah_words_scheduling, AH_REQUEST_FIELD(scheduling),             \
     "which op a free lane takes first (default priority; of policies but optimal and autohete-paper, only fifo)"}, \
    {"without", 0, AH_OPTION_TEXTS, "LIST", ah_words_technique, AH_REQUEST_FIELD(without),                   \
     "do not use these techniques (separated by commas); the plan lists them"},                 \
    {"effort", 0, AH_OPTION_COUNT, "N|quick", ah_request_words_quick, AH_REQUEST_FIELD(effort),              \
     "how long to search, 1 (quick) to 5 (default 2)"}
/* clang-format on */

struct ah_request {
    struct ah_plan_request planner; /* borrows the documents */
    struct ah_document model;
    struct ah_document machine;
    char model_sha256[AH_DOCUMENT_DIGEST_MAX];
    char machine_sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_progress progress;
};

/* Reads the documents and options; the model is the first operand. Texts are in cli->arena. Planning shows progress and
 * stops at an interrupt. Do not move the request. After a failure there is nothing to release. AH_E_USAGE names the
 * option; AH_E_IO and AH_E_DOCUMENT name the file. */
int ah_request_init(struct ah_request *ret_request, struct ah_cli *cli,
                    const struct ah_request_options *options, struct ah_error *err);

/* Sets only request->planner.training. The caller has set request->model and the device of request->machine. */
int ah_request_training(struct ah_request *request, struct ah_cli *cli,
                        const struct ah_request_options *options, struct ah_error *err);

/* Parses '--without': bit i of `ret_without` forbids enum ah_technique i. AH_E_USAGE names the unknown word. */
int ah_request_without(const struct ah_option_list *lists, uint32_t *ret_without, struct ah_error *err);

/* Parses '--effort': 1 to AH_EFFORT_MOST; 0 if it is not given. AH_E_USAGE: the value is outside that range. */
int ah_request_effort(const struct ah_option_integer *option, uint32_t *ret_effort, struct ah_error *err);

void ah_request_release(struct ah_request *request);

/* Returns the index of `word` in `words`, which must contain it. */
unsigned ah_request_index(const char *const *words, const char *word);

#endif
