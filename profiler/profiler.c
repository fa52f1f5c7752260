/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the parts of a profile, which are listed in a table.
 *
 * A part runs if it is chosen, or if none is chosen. If it cannot be measured on this machine, a sentence in `noise`
 * says so and the profile continues. An interrupt, lack of memory for the document, or a fault of the device ends the
 * profile. Processor times are read before and after each part, because the load of other processes is noise, too.
 *
 * Matrix products come first, because an emulated machine's throttle follows from them. They are measured in several
 * turns, one after each of the other parts: see measure_matmul.c.
 */
#include "profiler/profiler.h"

#include "base/host_memory.h"
#include "profiler/measure_internal.h"
#include "runtime/device/cpu/placement.h"

#include <math.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* If a ratio misses its target by more than this, it is reported. */
#define EMULATION_ERROR 0.05

enum { NOISE_SENTENCES_MAX = 64, NOISE_ROOM_MAX = 1024 /* room in a document */ };

/* Shapes are (rows, columns, inner). They are squares, and products of GPT-2 124M. A quick profile uses small shapes,
 * because an op of a millisecond or two, in the caches, is rarely disturbed. Other lanes run beside the first shape. */
static const struct ah_measure_limits quick_limits = {
    .part_s = {[AH_PROFILER_MATMUL] = 6.5,
               [AH_PROFILER_MEMORY] = 1.5,
               [AH_PROFILER_LINKS] = 1.5,
               [AH_PROFILER_ADAM] = 2,
               [AH_PROFILER_BESIDE] = 4,
               [AH_PROFILER_LAUNCHES] = 0.5,
               [AH_PROFILER_DISK] = 1,
               [AH_PROFILER_BLOCKS] = 20},
    .samples_min = 11,
    .samples_max = 33,
    .blocks = 6,
    .block_s = 0.0015,
    .warm_s = 0.1,
    .shapes = {{256, 768, 768}, {512, 512, 512}},
    .n_shapes = 2,
    .product_s = 0.05,
    .thread_counts = 2,
    .memory_bytes = 512 * MIB,
    .link_bytes = 64 * MIB,
    .link_factor = 4,
    .adam_params = 16 * MIB,
    .adam_kinds = 2,
    .disk_bytes = 256 * MIB,
    .block_layers = 6,
    .block_rounds = 5,
};

static const struct ah_measure_limits full_limits = {
    .part_s = {[AH_PROFILER_MATMUL] = 60,
               [AH_PROFILER_MEMORY] = 15,
               [AH_PROFILER_LINKS] = 20,
               [AH_PROFILER_ADAM] = 20,
               [AH_PROFILER_BESIDE] = 20,
               [AH_PROFILER_LAUNCHES] = 4,
               [AH_PROFILER_DISK] = 10,
               [AH_PROFILER_BLOCKS] = 90},
    .samples_min = 15,
    .samples_max = 64,
    .blocks = 6,
    .block_s = 0.003,
    .warm_s = 0.5,
    .shapes = {{512, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072}, {2048, 2048, 2048}, {256, 4096, 4096}},
    .n_shapes = 5,
    .product_s = 0.25,
    .thread_counts = 4,
    .memory_bytes = 2048 * MIB,
    .link_bytes = 128 * MIB,
    .link_factor = 2,
    .adam_params = 64 * MIB,
    .adam_kinds = 3,
    .disk_bytes = 1024 * MIB,
    .block_layers = 12,
    .block_rounds = 7,
};

/* Products large enough to fill a GPU. */
static const struct ah_measure_shape gpu_shapes[] = {
    {4096, 4096, 4096}, {4096, 11008, 4096}, {8192, 8192, 8192}, {16384, 4096, 4096}};

static const struct {
    const char *word;
    const char *what;
    int (*measure)(struct ah_measure *measure, struct ah_error *err);
} parts[] = {
#define PART_ROW(value, word, what) [value] = {#word, what, ah_##word##_measure},
    AH_PROFILER_PARTS(PART_ROW)
#undef PART_ROW
};

const char *ah_profiler_part_word(enum ah_profiler_part part)
{
    return parts[part].word;
}

uint32_t ah_profiler_part_bit(const char *word)
{
    for (unsigned i = 0; i < AH_PROFILER_PART_COUNT; i++)
        if (strcmp(word, parts[i].word) == 0)
            return 1u << i;
    return 0;
}

/* Returns the parts to run: the chosen ones, and matrix products if a machine is emulated, for the throttle. */
static uint32_t chosen_parts(const struct ah_profiler_options *options)
{
    uint32_t all = (1u << AH_PROFILER_BLOCKS) - 1; /* the parts of a machine's profile, without blocks */
    uint32_t chosen = options->parts & all ? options->parts & all : all;
    return options->emulate ? chosen | 1u << AH_PROFILER_MATMUL : chosen;
}

/* True for failures of a single part; the profile continues without that part. */
static bool leaves_out(int rc)
{
    return rc == AH_E_IO || rc == AH_E_UNSUPPORTED || rc == AH_E_CAPACITY;
}

static void add_load(struct ah_load *sum, const struct ah_load *before, const struct ah_load *after)
{
    sum->total_s += after->total_s - before->total_s;
    sum->busy_s += after->busy_s - before->busy_s;
    sum->steal_s += after->steal_s - before->steal_s;
    sum->own_s += after->own_s - before->own_s;
}

/* Calls `turn`, which should take `part_s`, between two readings of the processors' load. */
static int watch(struct ah_measure *measure, enum ah_profiler_part part, double part_s,
                 int (*turn)(struct ah_measure *measure, struct ah_error *err), struct ah_error *err)
{
    struct ah_load before;
    struct ah_load after;
    measure->part = part;
    measure->part_s = part_s;
    ah_load_read(&before);
    int rc = turn(measure, err);
    ah_load_read(&after);
    add_load(&measure->meanwhile[part], &before, &after);
    measure->parts_done_s += part_s;
    ah_measure_conclude(measure);
    return rc;
}

/* Runs one turn of a part. Skips a part that cannot be measured. */
static int run_turn(struct ah_measure *measure, enum ah_profiler_part part, double part_s,
                    int (*turn)(struct ah_measure *measure, struct ah_error *err), struct ah_error *err)
{
    struct ah_error local = {0};
    int rc = watch(measure, part, part_s, turn, &local);
    if (leaves_out(rc)) {
        ah_measure_note(measure, "%s: left out, %s", parts[part].word, local.text);
        return AH_OK;
    }
    return rc ? ah_error_set(err, rc, "measuring %s: %s", parts[part].what, local.text) : AH_OK;
}

static void judge_load(struct ah_measure *measure)
{
    const struct ah_load none = {0};
    char text[160];
    for (int part = 0; part < AH_PROFILER_PART_COUNT; part++)
        if (ah_load_noise(&none, &measure->meanwhile[part], measure->processors, parts[part].word, text,
                          sizeof text))
            ah_measure_note(measure, "%s", text);
}

/* Runs a part and, unless it is the first, a turn of the matrix products after it. */
static int run_part(struct ah_measure *measure, enum ah_profiler_part part, struct ah_error *err)
{
    double matmul_s = measure->limits->part_s[AH_PROFILER_MATMUL] / measure->turns;
    double part_s = part == AH_PROFILER_MATMUL ? matmul_s : measure->limits->part_s[part];
    int rc = run_turn(measure, part, part_s, parts[part].measure, err);
    if (rc == AH_OK && part != AH_PROFILER_MATMUL && measure->products && measure->turns > 1)
        rc = run_turn(measure, AH_PROFILER_MATMUL, matmul_s, ah_matmul_continue, err);
    return rc;
}

/* Finds the device with the chosen index in the driver's list. */
static int probe_device(struct ah_measure *measure, struct ah_error *err)
{
    enum { DEVICES_MAX = 64 };
    struct ah_device_info infos[DEVICES_MAX];
    uint32_t index = measure->options->device_index;
    size_t n = 0;
    memset(infos, 0, sizeof infos);
    int rc = measure->driver->probe(infos, DEVICES_MAX, &n, err);
    if (rc)
        return rc;
    if (index >= n || index >= DEVICES_MAX)
        return ah_error_set(err, AH_E_MISSING, "there is no %s device %u: this machine has %zu",
                            measure->driver->name, index, n);
    measure->info = infos[index];
    return AH_OK;
}

/* Sets the number of threads of each lane: the CPU device's defaults; with a GPU, all for the host lane. */
static void place_threads(struct ah_measure *measure)
{
    struct ah_placement placement;
    const struct ah_topology *topology = &measure->topology;
    ah_placement_choose(&placement, topology, 0, 0);
    measure->processors = topology->threads;
    bool shared = measure->info.kind == AH_DEVICE_CPU;
    measure->compute_threads = shared ? placement.n_compute : 0;
    measure->host_threads = shared ? placement.n_host : 0;
}

/* Makes room for more sentences in `noise`, beside those that the document has. */
static int make_noise_room(struct ah_measure *measure, struct ah_error *err)
{
    struct ah_machine *machine = measure->machine;
    size_t room = machine->n_noise + NOISE_SENTENCES_MAX;
    const char **noise = ah_arena_array(&measure->document->arena, room, sizeof *noise);
    if (!noise)
        return ah_error_memory(err);
    if (machine->n_noise)
        memcpy(noise, machine->noise, machine->n_noise * sizeof *noise);
    machine->noise = noise;
    measure->noise_room = room < NOISE_ROOM_MAX ? room : NOISE_ROOM_MAX;
    return AH_OK;
}

/* Begins an empty document. */
static int begin_document(struct ah_measure *measure, struct ah_error *err)
{
    struct ah_arena *arena = &measure->document->arena;
    struct ah_machine *machine = ah_arena_alloc(arena, sizeof *machine);
    measure->machine = machine;
    measure->document->kind = AH_DOCUMENT_MACHINE;
    measure->document->body.machine = machine;
    if (!machine)
        return ah_error_memory(err);
    machine->generator = "autohete " AUTOHETE_VERSION;
    machine->origin = AH_MACHINE_MEASURED;
    if (measure->options->emulate && measure->options->emulate->name) {
        machine->emulates = ah_arena_strdup(arena, measure->options->emulate->name);
        if (!machine->emulates)
            return ah_error_memory(err);
    }
    return make_noise_room(measure, err);
}

/* Reads the topology and describes this machine. */
static int survey(struct ah_measure *measure, struct ah_error *err)
{
    struct ah_host_memory memory;
    int rc = ah_topology_init(&measure->topology, NULL, err);
    if (!rc)
        rc = ah_host_memory_read(&memory, NULL, err);
    if (rc)
        return rc;
    measure->available_bytes =
        memory.available_bytes < memory.limit_bytes ? memory.available_bytes : memory.limit_bytes;
    rc = probe_device(measure, err);
    if (!rc)
        place_threads(measure);
    return rc;
}

static int describe_machine(struct ah_measure *measure, struct ah_error *err)
{
    if (measure->topology.note[0])
        ah_measure_note(measure, "topology: %s", measure->topology.note);
    int rc = ah_host_describe(measure, err);
    return rc ? rc : ah_matmul_fit_shapes(measure, err);
}

/* Notes the ratios to compute that differ from the emulated machine's. */
static void check_emulation(struct ah_measure *measure)
{
    const struct ah_machine *here = measure->machine;
    const struct ah_machine *target = measure->options->emulate;
    const struct ah_device_throttle *throttle = &measure->throttle;
    double adam = fmax(ah_machine_adam_params_per_s(here, AH_HOST, AH_BF16),
                       ah_machine_adam_params_per_s(here, AH_HOST, AH_FP32));
    const struct {
        const char *what;
        double wanted, found; /* 0: not measured */
    } rates[] = {
        {"copies to the device", throttle->h2d_bytes_per_s, ah_machine_link_bytes_per_s(here, AH_H2D)},
        {"copies to the host", throttle->d2h_bytes_per_s, ah_machine_link_bytes_per_s(here, AH_D2H)},
        {"host Adam", throttle->host_adam_params_per_s, adam},
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rates[i].found > 0 && fabs(rates[i].found / rates[i].wanted - 1) > EMULATION_ERROR)
            ah_measure_note(measure, "emulate: %s reach only %.2f of the ratio to compute on '%s'",
                            rates[i].what, rates[i].found / rates[i].wanted,
                            target->name ? target->name : "?");
}

static int run_parts(struct ah_measure *measure, struct ah_error *err)
{
    uint32_t chosen = chosen_parts(measure->options);
    for (unsigned part = 0; part < AH_PROFILER_PART_COUNT; part++)
        if (chosen & 1u << part) {
            measure->parts_s += measure->limits->part_s[part];
            measure->turns++;
        }
    if (measure->options->emulate || measure->turns == 0)
        measure->turns = 1;
    for (unsigned part = 0; part < AH_PROFILER_PART_COUNT; part++) {
        int rc = chosen & 1u << part ? run_part(measure, (enum ah_profiler_part)part, err) : AH_OK;
        if (rc)
            return rc;
    }
    judge_load(measure);
    if (measure->options->emulate)
        check_emulation(measure);
    return AH_OK;
}

static struct ah_measure measure_of(struct ah_document *document, const struct ah_profiler_options *options,
                                    const struct ah_measure_limits *limits)
{
    return (struct ah_measure){
        .options = options,
        .driver = options->driver ? options->driver : ah_device_cpu(),
        .limits = limits,
        .document = document,
    };
}

int ah_profiler_run_within(struct ah_document *ret_document, const struct ah_profiler_options *options,
                           const struct ah_measure_limits *limits, struct ah_error *err)
{
    struct ah_document document = {0};
    struct ah_measure measure = measure_of(&document, options, limits);
    int rc = begin_document(&measure, err);
    rc = rc ? rc : survey(&measure, err);
    rc = rc ? rc : describe_machine(&measure, err);
    rc = rc ? rc : run_parts(&measure, err);
    ah_matmul_release(&measure);
    ah_bandwidth_free(measure.bandwidth);
    ah_topology_release(&measure.topology);
    if (rc)
        ah_document_release(&document);
    else
        *ret_document = document;
    return rc;
}

/* Checks that the document describes this machine and device. */
static int check_machine(const struct ah_measure *measure, struct ah_error *err)
{
    const struct ah_machine *machine = measure->machine;
    const char *differs = NULL;
    if (machine->origin != AH_MACHINE_MEASURED)
        differs = "it was not measured at all";
    else if (strcmp(machine->host.cpu_model, measure->topology.cpu_model) != 0)
        differs = "its processor differs";
    else if (machine->host.threads != measure->topology.threads)
        differs = "its number of threads differs";
    else if (machine->device.kind != measure->info.kind ||
             strcmp(machine->device.name, measure->info.name) != 0)
        differs = "its device differs";
    return differs ? ah_error_set(
                         err, AH_E_MISMATCH,
                         "the profile '%s' does not belong to this machine, %s: measure again with 'autohete "
                         "profile'",
                         machine->name, differs)
                   : AH_OK;
}

int ah_profiler_extend_within(struct ah_document *document, const struct ah_profiler_options *options,
                              const struct ah_measure_limits *limits, struct ah_error *err)
{
    struct ah_machine before = *document->body.machine;
    struct ah_measure measure = measure_of(document, options, limits);
    measure.machine = document->body.machine;
    measure.parts_s = limits->part_s[AH_PROFILER_BLOCKS];
    int rc = survey(&measure, err);
    rc = rc ? rc : check_machine(&measure, err);
    rc = rc ? rc : make_noise_room(&measure, err);
    rc = rc ? rc : watch(&measure, AH_PROFILER_BLOCKS, measure.parts_s, ah_blocks_measure, err);
    if (!rc)
        judge_load(&measure);
    ah_topology_release(&measure.topology);
    if (rc)
        *document->body.machine = before;
    return rc;
}

static struct ah_measure_limits limits_of(const struct ah_profiler_options *options)
{
    struct ah_measure_limits limits = options->quick ? quick_limits : full_limits;
    if (options->driver && strcmp(options->driver->name, "cpu") != 0) {
        memcpy(limits.fast_shapes, gpu_shapes, sizeof gpu_shapes);
        limits.n_fast_shapes = sizeof gpu_shapes / sizeof gpu_shapes[0];
        limits.link_bytes *= 4;
    }
    return limits;
}

int ah_profiler_run(struct ah_document *ret_document, const struct ah_profiler_options *options,
                    struct ah_error *err)
{
    const struct ah_measure_limits limits = limits_of(options);
    return ah_profiler_run_within(ret_document, options, &limits, err);
}

int ah_profiler_extend(struct ah_document *document, const struct ah_profiler_options *options,
                       struct ah_error *err)
{
    const struct ah_measure_limits limits = limits_of(options);
    return ah_profiler_extend_within(document, options, &limits, err);
}
