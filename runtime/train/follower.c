/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages are sent in this order: the build, which must be the same because structs are sent as raw memory; each
 * rank's host to rank 0, which answers which ranks share a host; the brief and its texts.
 */
#include "runtime/train/follower.h"

#include "base/buffer.h"
#include "base/build_id.h"
#include "base/host_memory.h"
#include "base/units.h"
#include "runtime/device/algorithm.h"
#include "runtime/model/adapter.h"
#include "runtime/model/safetensors.h"
#include "runtime/train/data/dataset.h"
#include "runtime/train/paced_nics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHA256_TEXT = 65 };

/* The first message of rank 0, in a form that every build can read. */
struct hello {
    char build[96], host[AH_FOLLOWER_HOST_MAX];
};

struct brief {
    char plan_sha256[SHA256_TEXT], data_sha256[SHA256_TEXT], held_out_sha256[SHA256_TEXT],
        weights_digest[SHA256_TEXT], adapter_digest[SHA256_TEXT];
    char nics[AH_PACED_NICS_NAME_MAX]; /* "": not paced */
    struct ah_rate rate;
    double beta1, beta2, epsilon, weight_decay;
    uint64_t seed, steps_before;
    double patience_s;
    struct ah_recorded_steps recorded;
    bool documents, has_held_out, has_weights, has_adapter, tells;
    uint64_t n_data, n_valid; /* numbers of paths; the texts are format, weights, adapter, then all paths */
    uint64_t text_bytes;
};

static int digest_adapter(const char *folder, char ret_text[SHA256_TEXT], struct ah_error *err)
{
    char path[PATH_MAX];
    const int rc = ah_adapter_path(folder, path, err);
    return rc ? rc : ah_safetensors_digest(path, ret_text, err);
}

static struct hello own_hello(void)
{
    struct hello hello = {{0}, {0}};
    char id[AH_BUILD_ID_TEXT_MAX];
    snprintf(hello.build, sizeof hello.build, "autohete " AUTOHETE_VERSION ", build %.16s",
             ah_build_id_read(id));
    if (gethostname(hello.host, sizeof hello.host - 1))
        snprintf(hello.host, sizeof hello.host, "?");
    return hello;
}

static int describe_host(const struct ah_device_driver *driver, const struct ah_plan *program,
                         struct ah_follower_host *ret_host, struct ah_error *err)
{
    const struct ah_plan_memory *memory = &program->memory;
    const uint64_t device_bytes = memory->device_bytes + memory->reserved_bytes;
    struct ah_device_info info = {0};
    struct ah_host_memory host = {0};
    size_t n;
    /* A GPU is not looked at, since that takes some of its memory. Its own rank finds whether the rest is enough. */
    const bool is_gpu = !strcmp(driver->name, ah_words_device_kind[AH_DEVICE_CUDA]);
    int rc = driver->probe(&info, is_gpu ? 0 : 1, &n, err);
    info.kind = is_gpu ? AH_DEVICE_CUDA : info.kind;
    rc = rc ? rc : ah_host_memory_read(&host, NULL, err);
    *ret_host = (struct ah_follower_host){.product_form = info.product_form,
                                          .device = info.kind,
                                          .planned = program->numeric_signature.device,
                                          .free_bytes = host.available_bytes,
                                          .needs_bytes = memory->host_bytes};
    if (!is_gpu)
        ret_host->needs_bytes += device_bytes;
    memcpy(ret_host->name, own_hello().host, sizeof ret_host->name);
    return rc;
}

uint32_t ah_follower_forms(const struct ah_follower_host *hosts, uint32_t ranks)
{
    uint32_t last = AH_PRODUCT_FORMS - 1;
    for (uint32_t rank = 0; rank < ranks; rank++)
        last = hosts[rank].product_form < last ? hosts[rank].product_form : last;
    return last + 1;
}

const char *const *ah_follower_names(const struct ah_follower_host *hosts, uint32_t ranks,
                                     struct ah_arena *arena)
{
    const char **names = ah_arena_array(arena, ranks, sizeof *names);
    for (uint32_t rank = 0; rank < ranks && names; rank++)
        names[rank] = hosts[rank].name;
    return names;
}

/* ---- what the plan needs of hosts ---- */

/* Prints " of node 'a'". */
static void print_node(const char *const *nodes, uint32_t rank, char *out, size_t room)
{
    snprintf(out, room, "%s%.80s%s", nodes ? " of node '" : " of it", nodes ? nodes[rank] : "",
             nodes ? "'" : "");
}

static int refuse_memory(const struct ah_follower_host *host, const char *who, const char *node,
                         const char *kind, uint64_t needs_bytes, uint64_t free_bytes, struct ah_error *err)
{
    char needs[AH_UNITS_TEXT_MAX], has[AH_UNITS_TEXT_MAX];
    return ah_error_set(
        err, AH_E_MISMATCH,
        "%s on host '%s': only %s of %s memory is free, but the plan needs %s%s; free some, use another "
        "host, or plan for what is free",
        who, host->name, ah_units_print_bytes(has, free_bytes), kind,
        ah_units_print_bytes(needs, needs_bytes), node);
}

/* If `rank` is the first rank on its host, checks that the host has the memory that all its ranks need together. */
static int check_host_memory(const struct ah_follower_host *hosts, uint32_t ranks, uint32_t rank,
                             const char *node, struct ah_error *err)
{
    uint64_t needs_bytes = 0, free_bytes = UINT64_MAX;
    char who[64];
    uint32_t n = 0;
    for (uint32_t other = 0; other < ranks; other++) {
        if (strcmp(hosts[other].name, hosts[rank].name) != 0)
            continue;
        if (other < rank)
            return AH_OK;
        n++;
        needs_bytes += hosts[other].needs_bytes;
        free_bytes = hosts[other].free_bytes < free_bytes ? hosts[other].free_bytes : free_bytes;
    }
    if (needs_bytes <= free_bytes)
        return AH_OK;
    snprintf(who, sizeof who, "rank %" PRIu32, rank);
    if (n > 1)
        snprintf(who, sizeof who, "rank %" PRIu32 " and %" PRIu32 " more", rank, n - 1);
    return refuse_memory(&hosts[rank], who, node, "host", needs_bytes, free_bytes, err);
}

int ah_follower_check_hosts(const struct ah_follower_host *hosts, uint32_t ranks, const char *const *nodes,
                            struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < ranks && !rc; rank++) {
        const struct ah_follower_host *host = &hosts[rank];
        char who[24], node[128];
        snprintf(who, sizeof who, "rank %" PRIu32, rank);
        print_node(nodes, rank, node, sizeof node);
        if (host->device != host->planned)
            rc = ah_error_set(
                err, AH_E_MISMATCH, "%s on host '%s' has a %s device, but the plan needs a %s device%s", who,
                host->name, ah_words_device_kind[host->device], ah_words_device_kind[host->planned], node);
        else
            rc = check_host_memory(hosts, ranks, rank, node, err);
    }
    return rc;
}

/* ---- rank 0 ---- */

static void find_crowds(struct ah_follower_host *hosts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (i != j && !strcmp(hosts[i].name, hosts[j].name))
                hosts[i].crowded = true;
}

static void put_text(struct ah_buffer *texts, const char *text)
{
    ah_buffer_append(texts, text ? text : "", (text ? strlen(text) : 0) + 1);
}

static int brief_others(const struct ah_links *links, const struct ah_follower_task *task,
                        struct ah_error *err)
{
    const struct ah_trainer_options *trainer = task->trainer;
    struct brief brief = {.rate = trainer->rate,
                          .beta1 = trainer->beta1,
                          .beta2 = trainer->beta2,
                          .epsilon = trainer->epsilon,
                          .weight_decay = trainer->weight_decay,
                          .seed = trainer->seed,
                          .steps_before = trainer->steps_before,
                          .patience_s = trainer->device.watch.patience_s,
                          .recorded = trainer->recorded,
                          .documents = trainer->documents,
                          .has_held_out = task->held_out,
                          .has_weights = trainer->weights,
                          .has_adapter = trainer->adapter,
                          .tells = trainer->tells,
                          .n_data = task->n_data,
                          .n_valid = task->n_valid};
    struct ah_buffer texts = {0};
    snprintf(brief.plan_sha256, sizeof brief.plan_sha256, "%s", task->plan_sha256);
    snprintf(brief.data_sha256, sizeof brief.data_sha256, "%s",
             ah_dataset_facts(trainer->batches->options.data)->sha256);
    if (task->nics)
        snprintf(brief.nics, sizeof brief.nics, "%s", task->nics);
    if (task->held_out)
        snprintf(brief.held_out_sha256, sizeof brief.held_out_sha256, "%s",
                 ah_dataset_facts(task->held_out->options.data)->sha256);
    put_text(&texts, task->format);
    put_text(&texts, trainer->weights);
    put_text(&texts, trainer->adapter);
    for (size_t i = 0; i < task->n_data; i++)
        put_text(&texts, task->data[i]);
    for (size_t i = 0; i < task->n_valid; i++)
        put_text(&texts, task->valid[i]);
    brief.text_bytes = texts.size;
    int rc = texts.failed ? ah_error_memory(err) : AH_OK;
    if (!rc && trainer->weights)
        rc = ah_safetensors_digest(trainer->weights, brief.weights_digest, err);
    if (!rc && trainer->adapter)
        rc = digest_adapter(trainer->adapter, brief.adapter_digest, err);
    if (!rc && texts.size > AH_LINKS_PIECE_BYTES)
        rc = ah_error_set(err, AH_E_USAGE, "the data paths are longer than %d bytes in total; name a folder",
                          AH_LINKS_PIECE_BYTES);
    rc = rc ? rc : ah_links_share(links, &brief, sizeof brief, err);
    rc = rc ? rc : ah_links_share(links, texts.data, texts.size, err);
    ah_buffer_release(&texts);
    return rc;
}

int ah_follower_lead(const struct ah_links *links, const struct ah_follower_task *task,
                     struct ah_follower_host *ret_hosts, struct ah_error *err)
{
    struct ah_follower_host own;
    struct hello hello = own_hello();
    int rc = ah_links_share(links, &hello, sizeof hello, err);
    rc = rc ? rc : describe_host(task->trainer->driver, task->trainer->plan, &own, err);
    rc = rc ? rc : ah_links_collect(links, &own, sizeof own, ret_hosts, err);
    if (rc)
        return rc;
    find_crowds(ret_hosts, links->place->ranks);
    rc = ah_links_share(links, ret_hosts, links->place->ranks * sizeof *ret_hosts, err);
    rc = rc ? rc : ah_follower_check_hosts(ret_hosts, links->place->ranks, task->nodes, err);
    return rc ? rc : brief_others(links, task, err);
}

/* ---- the others ---- */

struct follower {
    const struct ah_follower_options *options;
    struct ah_arena arena;
    struct brief brief;
    struct ah_follower_host *hosts;
    const char *format, *weights, *adapter;
    const char **data_paths, **valid_paths;
    struct ah_dataset *data, *held_out;
    struct ah_batches batches, held_out_batches;
    struct ah_trainer *trainer;
};

static const char **take_paths(struct follower *f, const char **text, uint64_t n)
{
    const char **paths = ah_arena_array(&f->arena, n + 1, sizeof *paths);
    for (uint64_t i = 0; i < n && paths; i++) {
        paths[i] = *text;
        *text += strlen(*text) + 1;
    }
    return paths;
}

/* Compares builds. No message before this one may depend on the layout of structs. */
static int check_build(const struct ah_links *links, struct ah_error *err)
{
    const struct hello here = own_hello();
    struct hello there;
    int rc = ah_links_share(links, &there, sizeof there, err);
    if (rc || !strcmp(here.build, there.build))
        return rc;
    return ah_error_set(
        err, AH_E_MISMATCH,
        "host '%s' has '%s', but host '%s' of rank 0 has '%s'; install the same build on all hosts",
        here.host, here.build, there.host, there.build);
}

static int receive_brief(struct follower *f, const struct ah_links *links, struct ah_error *err)
{
    const struct ah_trainer_rank *place = links->place;
    struct ah_follower_host own;
    int rc = check_build(links, err);
    rc = rc ? rc : describe_host(f->options->driver, f->options->program, &own, err);
    f->hosts = ah_arena_array(&f->arena, place->ranks, sizeof *f->hosts);
    rc = rc || f->hosts ? rc : ah_error_memory(err);
    rc = rc ? rc : ah_links_collect(links, &own, sizeof own, NULL, err);
    rc = rc ? rc : ah_links_share(links, f->hosts, place->ranks * sizeof *f->hosts, err);
    if (!rc)
        f->options->place->hosts = ah_follower_names(f->hosts, place->ranks, &f->arena);
    rc = rc ? rc : ah_links_share(links, &f->brief, sizeof f->brief, err);
    char *texts = rc ? NULL : ah_arena_alloc(&f->arena, f->brief.text_bytes + 1);
    rc = rc || texts ? rc : ah_error_memory(err);
    rc = rc ? rc : ah_links_share(links, texts, f->brief.text_bytes, err);
    if (rc)
        return rc;
    const char *text = texts;
    f->format = text;
    text += strlen(text) + 1;
    f->weights = text;
    text += strlen(text) + 1;
    f->adapter = text;
    text += strlen(text) + 1;
    f->data_paths = take_paths(f, &text, f->brief.n_data);
    f->valid_paths = take_paths(f, &text, f->brief.n_valid);
    return f->data_paths && f->valid_paths ? AH_OK : ah_error_memory(err);
}

static int differ(const struct follower *f, const char *what, const char *here, const char *there,
                  struct ah_error *err)
{
    return strcmp(here, there) == 0
               ? AH_OK
               : ah_error_set(err, AH_E_MISMATCH,
                              "%s differ from those of rank 0 on host '%s': %.16s, not %.16s", what,
                              f->hosts[0].name, here, there);
}

static int open_dataset(const struct follower *f, const char *const *paths, uint64_t n,
                        struct ah_dataset **ret_data, struct ah_error *err)
{
    const struct ah_dataset_options options = {.paths = paths,
                                               .n_paths = n,
                                               .format = f->format[0] ? ah_dataset_format_of(f->format)
                                                                      : AH_DATASET_AUTO,
                                               .vocabulary = f->options->program->model.vocabulary};
    return ah_dataset_open(ret_data, &options, err);
}

static int open_data(struct follower *f, struct ah_error *err)
{
    const struct ah_plan_training *training = &f->options->program->training;
    int rc = open_dataset(f, f->data_paths, f->brief.n_data, &f->data, err);
    struct ah_batches_options options = {
        .data = f->data, .seq = training->seq, .batch = f->options->place->step_batch, .seed = f->brief.seed};
    rc = rc ? rc : differ(f, "the data", ah_dataset_facts(f->data)->sha256, f->brief.data_sha256, err);
    rc = rc ? rc : ah_batches_init(&f->batches, &options, err);
    if (rc || !f->brief.has_held_out)
        return rc;
    rc = open_dataset(f, f->valid_paths, f->brief.n_valid, &f->held_out, err);
    rc = rc ? rc
            : differ(f, "the held-out data", ah_dataset_facts(f->held_out)->sha256, f->brief.held_out_sha256,
                     err);
    options.data = f->held_out;
    options.held_out = true;
    return rc ? rc : ah_batches_init(&f->held_out_batches, &options, err);
}

static int check_weights(const struct follower *f, struct ah_error *err)
{
    char digest[SHA256_TEXT];
    if (!f->brief.has_weights)
        return AH_OK;
    int rc = ah_safetensors_digest(f->weights, digest, err);
    rc = rc ? rc : differ(f, "the weights", digest, f->brief.weights_digest, err);
    if (rc || !f->brief.has_adapter)
        return rc;
    rc = digest_adapter(f->adapter, digest, err);
    return rc ? rc : differ(f, "the adapters", digest, f->brief.adapter_digest, err);
}

static int open_trainer(struct follower *f, struct ah_error *err)
{
    const struct ah_follower_options *options = f->options;
    const struct ah_plan *program = options->program;
    const struct brief *brief = &f->brief;
    struct ah_trainer_options trainer = {
        .model = &program->model,
        .plan = program,
        .driver = options->driver,
        .device = {.index = options->device_index,
                   .memory_bytes = program->memory.device_capacity_bytes,
                   .messages_bytes = options->nccl ? options->nccl->taken_bytes : 0,
                   .compute_threads = program->threads ? (uint32_t)program->threads->compute : 0,
                   .host_threads = program->threads ? (uint32_t)program->threads->host : 0,
                   .watch = options->watch,
                   .shared = f->hosts[options->place->rank].crowded,
                   .product_forms = ah_follower_forms(f->hosts, options->place->ranks)},
        .batches = &f->batches,
        .documents = brief->documents,
        .rate = brief->rate,
        .beta1 = brief->beta1,
        .beta2 = brief->beta2,
        .epsilon = brief->epsilon,
        .weight_decay = brief->weight_decay,
        .seed = brief->seed,
        .weights = brief->has_weights ? f->weights : NULL,
        .adapter = brief->has_adapter ? f->adapter : NULL,
        .steps_before = brief->steps_before,
        .tells = brief->tells,
        .recorded = brief->recorded,
        .rank = options->place};
    trainer.device.watch.patience_s = brief->patience_s;
    int rc = ah_device_algorithm_table(program->algorithms, &f->arena, &trainer.device, err);
    return rc ? rc : ah_trainer_open(&f->trainer, &trainer, err);
}

/* Joins the NICs. First checks that rank 0 is on this host, because another host may have a file of the same name. */
static int join_ways(const struct follower *f, struct ah_error *err)
{
    struct ah_trainer_rank *place = f->options->place;
    if (!f->brief.nics[0])
        return AH_OK;
    if (strcmp(f->hosts[place->rank].name, f->hosts[0].name) != 0)
        return ah_error_set(err, AH_E_USAGE,
                            "'--pace' works only for ranks on one machine, but rank %" PRIu32 " is on host "
                            "'%s', rank 0 on host '%s'",
                            place->rank, f->hosts[place->rank].name, f->hosts[0].name);
    return ah_paced_nics_join(&place->nics, f->brief.nics, err);
}

static int prepare_rank(struct follower *f, const struct ah_links *links, struct ah_error *err)
{
    int rc = receive_brief(f, links, err);
    rc = rc ? rc : differ(f, "the cluster plan's bytes", f->options->plan_sha256, f->brief.plan_sha256, err);
    rc = rc ? rc : check_weights(f, err);
    rc = rc ? rc : join_ways(f, err);
    return rc ? rc : open_data(f, err);
}

int ah_follower_run(const struct ah_follower_options *options, struct ah_error *err)
{
    struct ah_trainer_rank *place = options->place;
    struct follower f = {.options = options};
    struct ah_links links = {0};
    int rc = ah_links_open(&links, place, options->program, err);
    place->links = rc ? NULL : &links;
    rc = rc ? rc : prepare_rank(&f, &links, err);
    if (rc)
        rc = ah_links_fail(place, rc, err);
    rc = rc ? rc : open_trainer(&f, err);
    rc = rc ? rc : ah_trainer_follow(f.trainer, f.held_out ? &f.held_out_batches : NULL, err);
    ah_trainer_close(f.trainer);
    ah_batches_release(&f.batches);
    ah_batches_release(&f.held_out_batches);
    ah_dataset_close(f.data);
    ah_dataset_close(f.held_out);
    ah_arena_release(&f.arena);
    ah_links_release(&links);
    ah_paced_nics_free(place->nics);
    place->nics = NULL;
    place->links = NULL;
    place->hosts = NULL;
    return rc;
}
