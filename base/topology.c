/* SPDX-License-Identifier: Apache-2.0
 *
 * All counts are over `usable`: the processors of hwloc's topology in our affinity mask (all of a synthetic
 * topology's). If hwloc knows no cores, every processor counts as a core.
 */
#include "base/topology.h"

#include "base/cgroup.h"
#include "base/host_memory.h"
#include "base/threads.h"
#include "base/units.h"

#include <hwloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct source {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t usable;
    const char *synthetic;
    const char *root;
};

static int source_load(struct source *source, struct ah_error *err)
{
    if (hwloc_topology_init(&source->hwloc)) {
        source->hwloc = NULL;
        return ah_error_memory(err);
    }
    if (source->synthetic && hwloc_topology_set_synthetic(source->hwloc, source->synthetic))
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a topology; write one such as 'pack:2 core:4 pu:2'",
                            source->synthetic);
    if (hwloc_topology_load(source->hwloc))
        return ah_error_set(err, AH_E_FAILED,
                            "hwloc cannot read the topology of this machine; see 'hwloc-ls'");
    return AH_OK;
}

static int source_restrict(struct source *source, struct ah_error *err)
{
    source->usable = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(source->hwloc));
    if (!source->usable)
        return ah_error_memory(err);
    if (source->synthetic)
        return AH_OK;
    unsigned n = ah_threads_cpus(NULL, 0);
    unsigned *numbers = calloc(n ? n : 1, sizeof *numbers);
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    int rc = numbers && mask ? AH_OK : ah_error_memory(err);
    if (!rc) {
        unsigned now = ah_threads_cpus(numbers, n);
        for (unsigned i = 0; i < n && i < now; i++)
            hwloc_bitmap_set(mask, numbers[i]);
        hwloc_bitmap_and(source->usable, source->usable, mask);
        if (hwloc_bitmap_iszero(source->usable))
            rc = ah_error_set(err, AH_E_FAILED,
                              "hwloc lists none of the processors that this process may "
                              "use");
    }
    hwloc_bitmap_free(mask);
    free(numbers);
    return rc;
}

static void source_release(struct source *source)
{
    hwloc_bitmap_free(source->usable);
    if (source->hwloc)
        hwloc_topology_destroy(source->hwloc);
}

/* Returns how many objects of `type` have a usable processor; at least 1, since hwloc may not know the type here. */
static unsigned count_objects(const struct source *source, hwloc_obj_type_t type)
{
    unsigned n = 0;
    for (hwloc_obj_t object = hwloc_get_next_obj_by_type(source->hwloc, type, NULL); object;
         object = hwloc_get_next_obj_by_type(source->hwloc, type, object))
        n += hwloc_bitmap_intersects(object->cpuset, source->usable) != 0;
    return n ? n : 1;
}

static hwloc_obj_type_t core_type(const struct source *source)
{
    return hwloc_get_nbobjs_by_type(source->hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* Returns the usable processor number `rank` (from 0) of a core; -1 if the core has fewer. */
static int cpu_of_core(const struct source *source, hwloc_obj_t core, unsigned rank)
{
    int cpu = -1;
    do {
        do
            cpu = hwloc_bitmap_next(core->cpuset, cpu);
        while (cpu >= 0 && !hwloc_bitmap_isset(source->usable, (unsigned)cpu));
    } while (cpu >= 0 && rank-- > 0);
    return cpu;
}

static int list_cpus(const struct source *source, struct ah_topology *topology, struct ah_error *err)
{
    topology->threads = (unsigned)hwloc_bitmap_weight(source->usable);
    topology->cpus = calloc(topology->threads, sizeof *topology->cpus);
    topology->core_of = calloc(topology->threads, sizeof *topology->core_of);
    if (!topology->cpus || !topology->core_of)
        return ah_error_memory(err);
    hwloc_obj_type_t type = core_type(source);
    unsigned listed = 0, before;
    for (unsigned rank = 0; listed < topology->threads; rank++) {
        unsigned cores = 0;
        before = listed;
        for (hwloc_obj_t core = hwloc_get_next_obj_by_type(source->hwloc, type, NULL); core;
             core = hwloc_get_next_obj_by_type(source->hwloc, type, core)) {
            int cpu = cpu_of_core(source, core, rank);
            if (cpu >= 0 && listed < topology->threads) {
                topology->cpus[listed] = cpu;
                topology->core_of[listed++] = cores;
            }
            cores += cpu_of_core(source, core, 0) >= 0;
        }
        if (listed == before)
            return ah_error_set(err, AH_E_FAILED, "hwloc lists %u processors, but not a core for each",
                                topology->threads);
    }
    return AH_OK;
}

static void name_cpu(const struct source *source, struct ah_topology *topology)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(source->hwloc, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model)
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(source->hwloc), "CPUModel");
    snprintf(topology->cpu_model, sizeof topology->cpu_model, "%s", model && model[0] ? model : "unknown");
}

/* Adds a sentence to the note, if there is room. */
static void add_note(struct ah_topology *topology, const char *format, ...) AH_PRINTF(2, 3);

static void add_note(struct ah_topology *topology, const char *format, ...)
{
    size_t length = strlen(topology->note);
    if (length)
        length += (size_t)snprintf(topology->note + length, sizeof topology->note - length, "; ");
    if (length >= sizeof topology->note)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(topology->note + length, sizeof topology->note - length, format, arguments);
    va_end(arguments);
}

static void measure_quota(const struct source *source, struct ah_topology *topology)
{
    struct ah_cgroup group;
    topology->busy_threads = topology->threads;
    if (source->synthetic && !source->root)
        return;
    ah_cgroup_read(&group, source->root);
    if (group.processors <= 0 || group.processors >= topology->threads)
        return;
    topology->busy_threads = (unsigned)ceil(group.processors);
    add_note(topology, "a control group limits this process to %.3g of the %u processors", group.processors,
             topology->threads);
}

static int measure_memory(const struct source *source, struct ah_topology *topology, struct ah_error *err)
{
    topology->hwloc_memory_bytes = hwloc_get_root_obj(source->hwloc)->total_memory;
    topology->memory_bytes = topology->hwloc_memory_bytes;
    if (!source->synthetic) {
        struct ah_host_memory memory;
        int rc = ah_host_memory_read(&memory, source->root, err);
        if (rc)
            return rc;
        topology->memory_bytes = memory.usable_bytes;
        double ratio = (double)topology->hwloc_memory_bytes / (double)memory.total_bytes;
        char theirs[AH_UNITS_TEXT_MAX], ours[AH_UNITS_TEXT_MAX];
        if (ratio < 0.95 || ratio > 1.05)
            add_note(topology, "hwloc reports %s of memory, the kernel %s; the kernel's number is used",
                     ah_units_print_bytes(theirs, topology->hwloc_memory_bytes),
                     ah_units_print_bytes(ours, memory.total_bytes));
    }
    struct rlimit limit;
    bool limited = !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY;
    topology->memlock_bytes = limited ? limit.rlim_cur : topology->memory_bytes;
    return AH_OK;
}

int ah_topology_init(struct ah_topology *ret_topology, const struct ah_topology_options *options,
                     struct ah_error *err)
{
    static const struct ah_topology_options defaults = {0};
    options = options ? options : &defaults;
    struct source source = {.synthetic = options->synthetic, .root = options->root};
    struct ah_topology topology = {
        .isa = ah_isa_detect(),
        .avx512_bf16 = ah_isa_has_avx512_bf16(),
        .amx_bf16 = ah_isa_has_amx_bf16(),
    };
    int rc = source_load(&source, err);
    if (!rc)
        rc = source_restrict(&source, err);
    if (!rc)
        rc = list_cpus(&source, &topology, err);
    if (!rc)
        rc = measure_memory(&source, &topology, err);
    if (rc) {
        ah_topology_release(&topology);
        source_release(&source);
        return rc;
    }
    measure_quota(&source, &topology);
    name_cpu(&source, &topology);
    topology.sockets = count_objects(&source, HWLOC_OBJ_PACKAGE);
    topology.numa_nodes = count_objects(&source, HWLOC_OBJ_NUMANODE);
    topology.cores = count_objects(&source, core_type(&source));
    source_release(&source);
    *ret_topology = topology;
    return AH_OK;
}

void ah_topology_release(struct ah_topology *topology)
{
    free(topology->cpus);
    free(topology->core_of);
    topology->cpus = NULL;
    topology->core_of = NULL;
}
