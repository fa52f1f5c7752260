/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete cluster A.json B.json --link 10Gbit: makes a cluster document from machine profiles. Each profile becomes a
 * node with one GPU, a node with one or several ranks on its CPU, or a node for each of these ranks.
 *
 * Numbers in profiles are copied unchanged (profile_rank.h). The options describe the network, which profiles do not
 * cover. The document's `sources` say where each number comes from.
 */
#include "base/file.h"
#include "base/units.h"
#include "cli/frame/input.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/verbs.h"
#include "profiler/profile_rank.h"
#include "schemas/cluster.h"
#include "schemas/field.h"
#include "schemas/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MAX = 4096, TYPES_MAX = 64, RANKS_MAX = 1024 };

/* fraction of an Ethernet line rate left for TCP payload: 1448 of 1538 bytes of a frame */
static const double line_share = 0.94;
static const double latency_default_us = 50;

struct cluster_options {
    const char *output;
    const char *link;
    struct ah_option_real latency;
    const char *name;
    struct ah_option_integer ranks, device_memory;
    bool apart, force;
};

static const char *const replaced_clusters[] = {"cluster", NULL};

#define CLUSTER_FIELD(name) offsetof(struct cluster_options, name)
static const struct ah_option cluster_table[] = {
    {"link", 0, AH_OPTION_TEXT, "RATE", NULL, CLUSTER_FIELD(link),
     "the network of every node: a line rate (10Gbit, of which 94 % are assumed reachable) or a measured "
     "rate (1.1GB/s)"},
    {"latency", 0, AH_OPTION_REAL, "US", NULL, CLUSTER_FIELD(latency),
     "latency of a message between two nodes in microseconds (default 50, assumed for TCP over Ethernet)"},
    {"name", 0, AH_OPTION_TEXT, "NAME", NULL, CLUSTER_FIELD(name),
     "name of the cluster (default the names of all its machines)"},
    {"ranks", 0, AH_OPTION_COUNT, "N", NULL, CLUSTER_FIELD(ranks),
     "for CPU machines: ranks on every machine, each with an equal share of cores and memory (default 1)"},
    {"apart", 0, AH_OPTION_FLAG, NULL, NULL, CLUSTER_FIELD(apart),
     "with --ranks: make each rank a node of its own, with --link between them, as if its share of cores and "
     "memory were a machine"},
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, CLUSTER_FIELD(device_memory),
     "for CPU machines: device memory of each rank; the rest is host memory (default from the profile; with "
     "all of it on the device, nothing is kept on hosts)"},
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_clusters, CLUSTER_FIELD(output),
     "write the document to this file and show it ('-': the document to standard output); an existing "
     "cluster is replaced"},
    AH_OUTPUT_FORCE_ROW(struct cluster_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* ---- the command line ---- */

/* An operand `[NODE=][Nx]MACHINE`. MACHINE is a file, or the name of a built-in document. */
struct group {
    const char *node; /* NULL: the machine's name */
    uint64_t count;
    const char *path;
    struct ah_document machine;
    struct ah_profile_rank rank;
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    const char *gpu; /* name of the type of its GPU */
};

/* Reads a count such as "2x" at the beginning. Returns the number of characters read; 0: there is no count. */
static size_t read_count(const char *text, uint64_t *ret_count)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || digits > 4 || text[digits] != 'x' || !text[digits + 1])
        return 0;
    *ret_count = 0;
    for (size_t i = 0; i < digits; i++)
        *ret_count = *ret_count * 10 + (uint64_t)(text[i] - '0');
    return digits + 1;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Reads an operand. If `text` is an existing file, all of it is the file's name. */
static int read_operand(struct ah_cli *cli, const char *text, struct group *ret_group, struct ah_error *err)
{
    struct group group = {.count = 1, .path = text};
    const char *equals = strchr(text, '=');
    if (is_there(text) || !strcmp(text, "-")) {
        *ret_group = group;
        return AH_OK;
    }
    if (equals && !memchr(text, '/', (size_t)(equals - text))) {
        char *node = ah_arena_strdup(&cli->arena, text);
        if (!node)
            return ah_error_memory(err);
        node[equals - text] = '\0';
        if (!ah_field_fits_text(AH_TEXT_NAME, node))
            return ah_error_set(err, AH_E_USAGE,
                                "'%s': '%s' is not a valid node name; use letters, digits and . _ + -", text,
                                node);
        group.node = node;
        group.path = equals + 1;
    }
    if (!is_there(group.path))
        group.path += read_count(group.path, &group.count);
    if (!group.count)
        return ah_error_set(err, AH_E_USAGE, "'%s': 0 nodes of a machine; leave the machine out", text);
    *ret_group = group;
    return AH_OK;
}

/* Reads a rate: "10Gbit" and "2.5 Gbit/s" are line rates, other rates are bytes per second. */
static int read_link(const char *text, double *ret_bytes_per_s, bool *ret_line, struct ah_error *err)
{
    char number[48];
    uint64_t bits;
    const char *unit = strstr(text, "bit"), *end = unit ? unit + strlen("bit") : NULL;
    *ret_line = unit != NULL;
    if (!unit && ah_units_parse_rate(text, ret_bytes_per_s, err) == AH_OK)
        return *ret_bytes_per_s > 0 ? AH_OK
                                    : ah_error_set(err, AH_E_USAGE,
                                                   "'--link' %s is not a usable "
                                                   "rate",
                                                   text);
    if (unit && (size_t)(unit - text) < sizeof number &&
        (!*end || !strcmp(end, "/s") || !strcmp(end, "ps"))) {
        snprintf(number, sizeof number, "%.*s", (int)(unit - text), text);
        if (ah_units_parse_count(number, &bits, err) == AH_OK && bits >= 8) {
            *ret_bytes_per_s = (double)bits / 8 * line_share;
            return AH_OK;
        }
    }
    return ah_error_set(err, AH_E_USAGE,
                        "'--link' %s is not a rate; give the network's line rate as '10Gbit', or a measured "
                        "rate as '1.1GB/s'",
                        text);
}

/* ---- what profiles say ---- */

static int load_group(struct group *group, const struct ah_profile_rank_options *options,
                      struct ah_error *err)
{
    char name[AH_DOCUMENT_NAME_MAX];
    int rc = ah_input_load(&group->machine, group->path, AH_DOCUMENT_MACHINE, err);
    rc = rc ? rc : ah_document_digest(&group->machine, group->sha256, err);
    return rc ? rc
              : ah_profile_rank_read(group->machine.body.machine, ah_document_short_name(group->path, name),
                                     options, &group->rank, err);
}

/* Refuses a mix of CPUs and GPUs: a plan needs devices of one kind. */
static int check_kinds(const struct group *groups, size_t n, struct ah_error *err)
{
    const struct group *of[AH_DEVICE_CUDA + 1] = {NULL};
    char cpu[AH_DOCUMENT_NAME_MAX], gpu[AH_DOCUMENT_NAME_MAX];
    for (size_t i = n; i-- > 0;)
        of[groups[i].machine.body.machine->device.kind] = &groups[i];
    if (!of[AH_DEVICE_CPU] || !of[AH_DEVICE_CUDA])
        return AH_OK;
    return ah_error_set(
        err, AH_E_DOCUMENT,
        "%s is the profile of a CPU, %s that of a GPU; a cluster needs one kind of device: profile all "
        "machines with the same '--device'",
        ah_document_short_name(of[AH_DEVICE_CPU]->path, cpu),
        ah_document_short_name(of[AH_DEVICE_CUDA]->path, gpu));
}

/* ---- the document ---- */

struct making {
    struct ah_cli *cli;
    struct group *groups;
    size_t n_groups;
    struct ah_profile_rank_options options;
    bool apart; /* each rank is a node with its share of the machine */
    double nic_bytes_per_s, latency_us;
    struct ah_cluster cluster;
};

static char *number_name(struct ah_arena *arena, const char *base, uint64_t number)
{
    char text[200];
    snprintf(text, sizeof text, "%.100s-%" PRIu64, base, number);
    return ah_arena_strdup(arena, text);
}

static bool gpu_is_named(const struct ah_cluster *cluster, const char *name)
{
    bool named = false;
    for (size_t i = 0; i < cluster->n_gpus; i++)
        named = named || !strcmp(cluster->gpus[i].name, name);
    return named;
}

/* Sets the type of the group's GPU. Groups with the same profile share a type; otherwise makes a new type. */
static int add_gpu(struct making *making, struct group *group, struct ah_error *err)
{
    struct ah_cluster *cluster = &making->cluster;
    const struct ah_machine *machine = group->machine.body.machine;
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (!strcmp(cluster->gpus[i].machine_sha256, group->sha256)) {
            group->gpu = cluster->gpus[i].name;
            return AH_OK;
        }
    if (cluster->n_gpus == TYPES_MAX)
        return ah_error_set(err, AH_E_USAGE, "a cluster can have at most %d different machines", TYPES_MAX);
    const char *name = machine->name;
    for (uint64_t i = 2; name && gpu_is_named(cluster, name); i++)
        name = number_name(&making->cli->arena, machine->name, i);
    if (!name)
        return ah_error_memory(err);
    group->gpu = name;
    struct ah_cluster_gpu *gpu = &cluster->gpus[cluster->n_gpus++];
    *gpu = ah_profile_rank_gpu(&group->rank);
    gpu->name = name;
    gpu->machine_sha256 = group->sha256;
    return AH_OK;
}

static const char *base_of(const struct group *group)
{
    return group->node ? group->node : group->machine.body.machine->name;
}

/* Returns the number of nodes with this base name, over all groups. */
static uint64_t nodes_named(const struct making *making, const char *base)
{
    uint64_t n = 0;
    for (size_t i = 0; i < making->n_groups; i++)
        n += strcmp(base_of(&making->groups[i]), base) ? 0 : making->groups[i].count;
    return n;
}

/* Returns a node's id: `base` if only one node has it, otherwise `base` with the first unused number. */
static const char *next_id(const struct making *making, const char *base)
{
    struct ah_arena *arena = &making->cli->arena;
    const struct ah_cluster *cluster = &making->cluster;
    const char *id = nodes_named(making, base) == 1 ? base : number_name(arena, base, 0);
    bool taken = true;
    for (uint64_t i = 0; id && taken; i++) {
        taken = false;
        for (size_t k = 0; k < cluster->n_nodes; k++)
            taken = taken || !strcmp(cluster->nodes[k].id, id);
        id = taken ? number_name(arena, base, i) : id;
    }
    return id;
}

static int add_nodes(struct making *making, const struct group *group, struct ah_error *err)
{
    struct ah_cluster *cluster = &making->cluster;
    const struct ah_machine *machine = group->machine.body.machine;
    const struct ah_profile_rank *rank = &group->rank;
    const uint64_t parts = making->apart ? rank->ranks : 1;
    for (uint64_t i = 0; i < group->count; i++) {
        const char *id = next_id(making, base_of(group));
        if (!id)
            return ah_error_memory(err);
        cluster->nodes[cluster->n_nodes++] = (struct ah_cluster_node){
            .id = id,
            .gpu = group->gpu,
            .gpus = rank->ranks / parts,
            .intra_bytes_per_s = rank->link_bytes_per_s,
            .intra_latency_us = rank->link_latency_us,
            .nic_bytes_per_s = making->nic_bytes_per_s,
            .nic_latency_us = making->latency_us,
            .host_memory_bytes = rank->host_memory_bytes / parts,
            .host_memory_bytes_per_s = rank->host_bytes_per_s / (double)parts,
            .host_link_bytes_per_s = rank->host_link_bytes_per_s, /* already the rate of one rank */
            .disk_bytes_per_s = machine->disk ? machine->disk->read_bytes_per_s.median / (double)parts : 0};
    }
    return AH_OK;
}

/* Makes a text such as "the machines' profiles; estimated, not measured: rtx4090-64g". */
static int profiles_source(struct making *making, const char **ret_text, struct ah_error *err)
{
    struct ah_buffer text = {0};
    const char *before = "; estimated, not measured: ";
    ah_buffer_puts(&text, "the machines' profiles");
    for (size_t i = 0; i < making->n_groups; i++) {
        const struct ah_machine *machine = making->groups[i].machine.body.machine;
        if (machine->origin != AH_MACHINE_SYNTHETIC)
            continue;
        ah_buffer_printf(&text, "%s%s", before, machine->name);
        before = ", ";
    }
    *ret_text = text.failed ? NULL : ah_arena_strdup(&making->cli->arena, text.data);
    ah_buffer_release(&text);
    return *ret_text ? AH_OK : ah_error_memory(err);
}

static int fill_sources(struct making *making, bool line, bool latency_given, struct ah_error *err)
{
    const char *profiles;
    int rc = profiles_source(making, &profiles, err);
    const bool cpu = making->cluster.device == AH_DEVICE_CPU;
    const struct ah_text_pair pairs[] = {
        {"gpus", profiles},
        {"gpus.memory_bytes_per_s",
         cpu ? "derived from what AdamW moves on the device, taken as 80 % of this rate"
             : "derived from what AdamW moves on the GPU, taken as 80 % of this rate"},
        {"gpus.threads", cpu ? "an equal share of the cores for each rank" : NULL},
        {"nodes", making->apart ? "'--apart': every rank of a machine, with its share of it" : NULL},
        {"nodes.host_link_bytes_per_s", cpu ? "the profiles' links, the slower direction, shared by the "
                                              "ranks; none if devices have all memory"
                                            : "the profiles' links, the slower direction"},
        {"nodes.host_memory_bytes", cpu ? "the profiles' memory less that of the ranks' devices" : NULL},
        {"nodes.host_memory_bytes_per_s", "the profiles' AdamW on the host"},
        {"nodes.intra_bytes_per_s",
         making->apart ? "the profiles' links; each node has one rank, so plans do not use it"
         : cpu ? "the profiles' links, the slower direction: ranks of a machine copy from memory to memory"
               : "the link to the host; each node has one GPU, so plans do not use it"},
        {"nodes.nic_bytes_per_s", line ? "'--link', a line rate: 94 % of it" : "'--link', as it was given"},
        {"nodes.nic_latency_us", latency_given ? "'--latency'" : "assumed: TCP over Ethernet"}};
    struct ah_text_pair *copy = ah_arena_alloc(&making->cli->arena, sizeof pairs);
    if (rc || !copy)
        return rc ? rc : ah_error_memory(err);
    making->cluster.sources = copy;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].value)
            copy[making->cluster.n_sources++] = pairs[i];
    return AH_OK;
}

static uint64_t nodes_of(const struct ah_cluster *cluster, const struct ah_cluster_gpu *gpu)
{
    uint64_t n = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++)
        n += !strcmp(cluster->nodes[i].gpu, gpu->name);
    return n;
}

/* Appends "2xrtx4090-64g+rtx3090-64g" for the first `n` types, and "+5-more" for the rest. */
static void put_name(struct ah_buffer *out, const struct ah_cluster *cluster, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t nodes = nodes_of(cluster, &cluster->gpus[i]);
        ah_buffer_puts(out, i ? "+" : "");
        if (nodes > 1)
            ah_buffer_printf(out, "%" PRIu64 "x", nodes);
        ah_buffer_puts(out, cluster->gpus[i].name);
    }
    if (n < cluster->n_gpus)
        ah_buffer_printf(out, "+%zu-more", cluster->n_gpus - n);
}

/* Names the cluster after its machines, as many as fit into a name. */
static int name_cluster(struct making *making, const char *given, struct ah_error *err)
{
    enum { NAME_MOST = 128 };
    const struct ah_cluster *cluster = &making->cluster;
    struct ah_buffer text = {0};
    if (given && !ah_field_fits_text(AH_TEXT_NAME, given))
        return ah_error_set(err, AH_E_USAGE, "'--name' %s: use letters, digits and . _ + -, at most 128",
                            given);
    put_name(&text, cluster, cluster->n_gpus);
    for (size_t n = cluster->n_gpus; text.size > NAME_MOST && n > 1 && !text.failed; n--) {
        ah_buffer_clear(&text);
        put_name(&text, cluster, n - 1);
    }
    size_t length = text.size < NAME_MOST ? text.size : NAME_MOST;
    making->cluster.name = given         ? given
                           : text.failed ? NULL
                                         : ah_arena_strndup(&making->cli->arena, text.data, length);
    ah_buffer_release(&text);
    return making->cluster.name ? AH_OK : ah_error_memory(err);
}

static int make_cluster(struct making *making, struct ah_error *err)
{
    struct ah_arena *arena = &making->cli->arena;
    struct ah_cluster *cluster = &making->cluster;
    uint64_t nodes = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < making->n_groups && !rc; i++) {
        rc = load_group(&making->groups[i], &making->options, err);
        if (!rc && making->apart)
            making->groups[i].count *= making->groups[i].rank.ranks;
        nodes += making->groups[i].count;
    }
    rc = rc ? rc : check_kinds(making->groups, making->n_groups, err);
    if (!rc && nodes > NODES_MAX)
        rc = ah_error_set(err, AH_E_USAGE, "%" PRIu64 " nodes: a cluster has at most %d", nodes, NODES_MAX);
    if (rc)
        return rc;
    cluster->device = making->groups[0].machine.body.machine->device.kind;
    cluster->gpus = ah_arena_array(arena, TYPES_MAX, sizeof *cluster->gpus);
    cluster->nodes = ah_arena_array(arena, nodes, sizeof *cluster->nodes);
    if (!cluster->gpus || !cluster->nodes)
        return ah_error_memory(err);
    for (size_t i = 0; i < making->n_groups && !rc; i++) {
        rc = add_gpu(making, &making->groups[i], err);
        rc = rc ? rc : add_nodes(making, &making->groups[i], err);
    }
    return rc;
}

/* ---- the verb ---- */

/* Writes the document, after parsing it as every reader does. So it never writes one that 'check' refuses. */
static int write_cluster(struct ah_cli *cli, const char *output, struct ah_cluster *cluster,
                         struct ah_error *err)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER, .body = {.cluster = cluster}};
    struct ah_document read = {0};
    struct ah_buffer text = {0};
    bool to_file = output && strcmp(output, "-") != 0;
    int rc = ah_document_print(&document, &text, err);
    rc = rc ? rc : ah_document_parse(&read, "the cluster", text.data, text.size, AH_DOCUMENT_CLUSTER, err);
    if (!rc && to_file)
        rc = ah_document_save(&document, output, err);
    if (!rc && (!to_file || cli->json))
        ah_buffer_append(&cli->out, text.data, text.size);
    else if (!rc)
        ah_inspect_cluster_text(cli, &document);
    if (!rc && to_file)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", output);
    ah_document_release(&read);
    ah_buffer_release(&text);
    return rc;
}

static int read_options(struct making *making, const struct cluster_options *options, bool *ret_line,
                        struct ah_error *err)
{
    struct ah_cli *cli = making->cli;
    int rc = AH_OK;
    if (!options->link)
        return ah_error_set(err, AH_E_USAGE,
                            "'--link' RATE is missing: give the rate of the network between the nodes, such "
                            "as '--link 10Gbit'");
    if (options->ranks.given && (!options->ranks.value || options->ranks.value > RANKS_MAX))
        return ah_error_set(err, AH_E_USAGE, "'--ranks' %" PRIu64 " is out of range; give 1 to %d",
                            options->ranks.value, RANKS_MAX);
    if (options->apart && options->ranks.value < 2)
        return ah_error_set(err, AH_E_USAGE,
                            "'--apart' needs several ranks on one machine; give '--ranks' N, too");
    if (options->device_memory.given && !options->device_memory.value)
        return ah_error_set(err, AH_E_USAGE, "'--device-memory' 0 is out of range; give more");
    making->options = (struct ah_profile_rank_options){options->ranks.value, options->device_memory.value};
    making->apart = options->apart;
    making->latency_us = options->latency.given ? options->latency.value : latency_default_us;
    making->n_groups = cli->arguments.n_operands;
    making->groups = ah_arena_array(&cli->arena, making->n_groups, sizeof *making->groups);
    if (!making->groups)
        return ah_error_memory(err);
    rc = read_link(options->link, &making->nic_bytes_per_s, ret_line, err);
    for (size_t i = 0; i < making->n_groups && !rc; i++)
        rc = read_operand(cli, cli->arguments.operands[i], &making->groups[i], err);
    for (size_t i = 0; i < making->n_groups && !rc; i++)
        for (size_t j = 0; j < i && !rc; j++)
            if (!strcmp(making->groups[i].path, "-") && !strcmp(making->groups[j].path, "-"))
                rc = ah_error_set(err, AH_E_USAGE, "standard input ('-') can be only one of the machines");
    return rc;
}

static int cluster_run(struct ah_cli *cli, const void *given)
{
    const struct cluster_options *options = given;
    struct making making = {.cli = cli, .cluster = {.generator = "autohete " AUTOHETE_VERSION}};
    struct ah_error err = {0};
    bool line = false;
    int rc = read_options(&making, options, &line, &err);
    for (size_t i = 0; i < making.n_groups && !rc && options->output; i++)
        if (ah_file_same(options->output, making.groups[i].path))
            rc = ah_error_set(&err, AH_E_USAGE,
                              "'--output' '%s' would overwrite a machine that is read; give "
                              "another name",
                              options->output);
    rc = rc ? rc : make_cluster(&making, &err);
    rc = rc ? rc : name_cluster(&making, options->name, &err);
    rc = rc ? rc : fill_sources(&making, line, options->latency.given, &err);
    rc = rc ? rc : write_cluster(cli, options->output, &making.cluster, &err);
    for (size_t i = 0; i < making.n_groups && making.groups; i++)
        ah_document_release(&making.groups[i].machine);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_cluster = {
    .name = "cluster",
    .summary = "make a cluster document from profiles of machines",
    .description =
        "Writes the cluster document that plan --cluster needs: a node with one GPU for every MACHINE, which "
        "is a machine document that 'autohete profile' wrote on that machine, or the name of a built-in "
        "machine. Memory, reserve, bf16 products, AdamW on the host and the link between host and GPU come "
        "from the profile; sources in the document names where each number comes from, and which profiles "
        "are estimates.\n\nIf the profiles are of CPUs, the ranks of a node compute on its cores: one rank, "
        "or the number that --ranks gives, each with an equal share of cores and memory. Plans for them are "
        "in bf16 or fp32 (plan --dtype fp32), in fp32 if a machine has no bf16. CPUs and GPUs are not mixed. "
        "With --apart each rank is a node of its own: one machine stands in for several, each with its share "
        "of cores and memory and --link between them, and 'run --local' runs the plans made for "
        "them.\n\nMACHINE is [NODE=][Nx]MACHINE: 2xdesktop.json is two nodes of that machine, 2xrtx4090-64g "
        "two of a built-in one, left=desktop.json calls its node 'left'. Nodes take the machine's name "
        "unless NODE is given, and are numbered if several share a name.\n\n--link is the rate of every "
        "node's network, out and in. 'profile --hosts' measures machines and links instead. Nodes with "
        "several GPUs, networks that differ, zones and measured times of blocks are written into the "
        "document by hand (autohete schema cluster).",
    .syntax = {.options = cluster_table, .operands = {AH_OPERAND_FILE, "MACHINE", 1, UINT32_MAX, NULL}},
    .options_bytes = sizeof(struct cluster_options),
    .examples = {{"cluster desktop-a.json desktop-b.json --link 10Gbit -o cluster.json",
                  "two desktops on one cable"},
                 {"cluster m.json --ranks 2 --link 1GB/s -o cluster.json",
                  "two ranks on the CPU of one machine"},
                 {"cluster m.json --ranks 2 --apart --link 1Gbit -o cluster.json",
                  "one machine stands for two: each gets half of it, with a cable between them"},
                 {"cluster 2xrtx4090-64g rtx3090-64g --link 10Gbit", "built-in machines, from estimates"},
                 {"cluster big=a100.json 3xdesktop.json --link 1.1GB/s --latency 30 -o cluster.json",
                  "a server and three desktops, the network as measured"}},
    .run = cluster_run,
};
