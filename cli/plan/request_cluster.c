/* SPDX-License-Identifier: Apache-2.0
 *
 * A request for a cluster plan, from the options of `plan` and `compare`.
 */
#include "cli/plan/request_cluster.h"

#include "cli/frame/interrupt.h"
#include "planner/cluster/offload_costs.h"
#include "planner/policies/restriction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD(value, word) word,
const char *const ah_request_words_any_policy[] = {AH_POLICY_WORDS(WORD) AH_CLUSTER_POLICY_OTHERS(WORD) NULL};

const char *const ah_request_words_tp[] = {AH_TP_MODE_WORDS(WORD) "1", "2", "4", "8", NULL};

static bool is_word(const char *const *words, const char *word)
{
    for (size_t i = 0; words[i]; i++)
        if (!strcmp(words[i], word))
            return true;
    return false;
}

/* Refuses a `policy` of the other kind of plans. */
static int refuse_policy(const char *policy, const char *const *words, const char *why, struct ah_error *err)
{
    struct ah_buffer list = {0};
    ah_options_join(&list, words);
    int rc = list.failed ? ah_error_memory(err)
                         : ah_error_set(err, AH_E_USAGE, "'--policy' %s works only for %s; choose one of %s",
                                        policy, why, list.data);
    ah_buffer_release(&list);
    return rc;
}

int ah_request_cluster_check_machine(const char *policy, struct ah_error *err)
{
    return !policy || is_word(ah_words_policy, policy)
               ? AH_OK
               : refuse_policy(policy, ah_words_policy, "clusters ('--cluster'), not for one machine", err);
}

/* Refuses options for one machine, and options that contradict each other. */
static int check_options(const struct ah_request_cluster_options *options, struct ah_error *err)
{
    const struct ah_request_options *request = options->request;
    const struct {
        const char *name;
        bool given;
    } others[] = {
        {"machine", request->machine != NULL},       {"gpus", request->gpus.given},
        {"fabric", request->fabric != NULL},         {"device-memory", request->device_memory.given},
        {"host-memory", request->host_memory.given}, {"scheduling", request->scheduling != NULL}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return ah_error_set(err, AH_E_USAGE,
                                "'--%s' works only for one machine, not with '--cluster'; leave it out",
                                others[i].name);
    if (options->policy && !is_word(ah_words_cluster_policy, options->policy))
        return refuse_policy(options->policy, ah_words_cluster_policy, "one machine, not with '--cluster'",
                             err);
    const bool degree = options->tp && !is_word(ah_words_tp_mode, options->tp);
    if (degree && options->policy &&
        !strcmp(options->policy, ah_words_cluster_policy[AH_CLUSTER_POLICY_HEXISCALE]))
        return ah_error_set(
            err, AH_E_USAGE,
            "'--tp' %s sets one degree for all stages, but '--policy' hexiscale chooses each stage's own; "
            "leave one out",
            options->tp);
    return AH_OK;
}

static int load_inputs(struct ah_request_cluster *request, struct ah_cli *cli,
                       const struct ah_request_cluster_options *options, struct ah_error *err)
{
    const char *model = cli->arguments.operands[0];
    if (!strcmp(model, "-") && !strcmp(options->cluster, "-"))
        return ah_error_set(err, AH_E_USAGE,
                            "standard input ('-') can be the model or the cluster, not both");
    int rc = ah_input_load(&request->base.model, model, AH_DOCUMENT_MODEL, err);
    if (!rc)
        rc = ah_input_load(&request->cluster, options->cluster, AH_DOCUMENT_CLUSTER, err);
    if (!rc)
        rc = ah_document_digest(&request->base.model, request->base.model_sha256, err);
    if (!rc)
        rc = ah_document_digest(&request->cluster, request->cluster_sha256, err);
    for (size_t i = 0; i < request->base.model.n_warnings && !rc; i++)
        ah_cli_tell(cli, AH_CLI_WARNING, "%s: %s", model, request->base.model.warnings[i]);
    return rc;
}

static int read_training(struct ah_request_cluster *request, struct ah_cli *cli,
                         const struct ah_request_options *options, struct ah_error *err)
{
    const struct ah_cluster *cluster = request->cluster.body.cluster;
    request->gpu.device.name = cluster->name;
    request->gpu.device.bf16 = ah_cluster_has(cluster, AH_BF16, &request->gpu.device.name);
    request->base.machine.body.machine = &request->gpu;
    int rc = ah_request_training(&request->base, cli, options, err);
    request->base.machine.body.machine = NULL;
    return rc;
}

/* Parses '--without'. Refuses techniques that cluster plans do not have. */
static int read_without(const struct ah_request_options *options, unsigned *ret_without, struct ah_error *err)
{
    uint32_t techniques = 0;
    int rc = ah_request_without(&options->without, &techniques, err);
    *ret_without = ah_offload_without(techniques);
    for (unsigned i = 0; i < AH_TECHNIQUES && !rc; i++)
        if (techniques >> i & 1 && !ah_offload_without(UINT32_C(1) << i))
            rc = ah_error_set(
                err, AH_E_USAGE,
                "'--without' %s works only for one machine; with '--cluster', choose from host-weights, "
                "host-optimizer and streamed",
                ah_words_technique[i]);
    return rc;
}

bool ah_request_cluster_searched(void *progress, uint64_t done, uint64_t planned)
{
    char what[64];
    snprintf(what, sizeof what, "%" PRIu64 " of %" PRIu64 " searches", done, planned);
    ah_terminal_draw(progress, (double)done / (double)planned, what);
    return ah_interrupt_seen();
}

static unsigned index_or(const char *const *words, const char *word, unsigned otherwise)
{
    return word ? ah_request_index(words, word) : otherwise;
}

int ah_request_cluster_init(struct ah_request_cluster *ret_request, struct ah_cli *cli,
                            const struct ah_request_cluster_options *options, struct ah_error *err)
{
    struct ah_request_cluster *request = ret_request;
    uint32_t effort = 0;
    unsigned without = 0;
    *request = (struct ah_request_cluster){.base.progress = ah_terminal_progress()};
    int rc = check_options(options, err);
    rc = rc ? rc : load_inputs(request, cli, options, err);
    rc = rc ? rc : read_training(request, cli, options->request, err);
    rc = rc ? rc : ah_request_effort(&options->request->effort, &effort, err);
    rc = rc ? rc : read_without(options->request, &without, err);
    if (rc) {
        ah_request_cluster_release(request);
        return rc;
    }
    request->planner = (struct ah_cluster_request){
        .model = request->base.model.body.model,
        .model_sha256 = request->base.model_sha256,
        .cluster = request->cluster.body.cluster,
        .cluster_sha256 = request->cluster_sha256,
        .training = request->base.planner.training,
        .any_micro_batches =
            request->base.planner.any_micro_batches || !options->request->micro_batches.given,
        .tp_mode = options->tp && is_word(ah_words_tp_mode, options->tp)
                       ? ah_request_index(ah_words_tp_mode, options->tp)
                       : AH_TP_SYMMETRIC,
        .tp = options->tp && !is_word(ah_words_tp_mode, options->tp) ? strtoull(options->tp, NULL, 10) : 0,
        .search = index_or(ah_words_cluster_search, options->search, AH_CLUSTER_SEARCH_BOTH),
        .policy = index_or(ah_words_cluster_policy, options->policy, AH_CLUSTER_POLICY_OPTIMAL),
        .without = without,
        .effort = effort,
        .generator = "autohete " AUTOHETE_VERSION,
        .progress = ah_request_cluster_searched,
        .context = &request->base.progress};
    ah_interrupt_catch();
    return AH_OK;
}

void ah_request_cluster_release(struct ah_request_cluster *request)
{
    ah_document_release(&request->base.model);
    ah_document_release(&request->cluster);
}
