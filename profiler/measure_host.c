/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills in the facts of a profile that are not measured: the host's from the topology, the device's from its driver,
 * and a name, which is made from models and never from host names.
 */
#include "profiler/measure_internal.h"

#include "base/host_memory.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* True for a word that does not distinguish models. */
static bool idle_word(const char *word)
{
    static const char *const idle[] = {"r",   "tm",  "c",    "cpu",   "processor", "with",     "the", "of",
                                       "ghz", "mhz", "core", "cores", "radeon",    "graphics", "gen", NULL};
    for (size_t i = 0; idle[i]; i++)
        if (strcmp(word, idle[i]) == 0)
            return true;
    return strlen(word) > 5 && strcmp(word + strlen(word) - 4, "core") == 0; /* "16core" */
}

/* Returns the next word of letters and digits, in lower case, or NULL after the last one. "64-Core" is one word. Text
 * after "@" is a clock rate and is ignored. */
static const char *next_word(const char *text, char *ret_word, size_t size)
{
    size_t n = 0;
    while (*text && *text != '@' && !isalnum((unsigned char)*text))
        text++;
    if (*text == '\0' || *text == '@')
        return NULL;
    for (; isalnum((unsigned char)*text) ||
           (*text == '-' && isdigit((unsigned char)text[-1]) && tolower((unsigned char)text[1]) == 'c');
         text++)
        if (*text != '-' && n + 1 < size)
            ret_word[n++] = (char)tolower((unsigned char)*text);
    ret_word[n] = '\0';
    return text;
}

void ah_host_slug(const char *model, char *ret_slug, size_t size)
{
    char word[64];
    size_t length = 0;
    ret_slug[0] = '\0';
    while ((model = next_word(model, word, sizeof word))) {
        size_t needed = strlen(word) + (length > 0);
        if (idle_word(word) || length + needed >= size)
            continue;
        length += (size_t)snprintf(ret_slug + length, size - length, "%s%s", length ? "-" : "", word);
    }
    if (length == 0)
        snprintf(ret_slug, size, "unknown");
}

static const char *make_name(struct ah_measure *measure)
{
    char host[64];
    char device[64] = "cpu";
    char name[256];
    const struct ah_machine *target = measure->options->emulate;
    ah_host_slug(measure->topology.cpu_model, host, sizeof host);
    if (measure->info.kind != AH_DEVICE_CPU)
        ah_host_slug(measure->info.name, device, sizeof device);
    snprintf(name, sizeof name, "%s-%s-%uc%s%s", device, host, measure->topology.cores, target ? "-as-" : "",
             target && target->name ? target->name : "");
    return ah_arena_strdup(&measure->document->arena, name);
}

/* Bytes that a process needs in addition until the end of a run, for its plan and for the buffers of a save
 * (tests/tools/save_memory.py, runtime/model/walk_internal.h). */
#define SAVE_BYTES (UINT64_C(10) << 20)

void ah_host_weigh(struct ah_measure *measure)
{
    const uint64_t mib = UINT64_C(1) << 20;
    uint64_t resident = ah_host_memory_resident();
    uint64_t bytes = resident ? (resident + SAVE_BYTES + mib - 1) / mib * mib : 0;
    if (!measure->machine->host.process_bytes)
        measure->machine->host.process_bytes = bytes;
}

int ah_host_describe(struct ah_measure *measure, struct ah_error *err)
{
    const struct ah_topology *topology = &measure->topology;
    struct ah_arena *arena = &measure->document->arena;
    struct ah_machine *machine = measure->machine;
    machine->host = (struct ah_machine_host){
        .cpu_model = ah_arena_strdup(arena, topology->cpu_model),
        .isa = ah_isa_name(topology->isa),
        .sockets = topology->sockets,
        .numa_nodes = topology->numa_nodes,
        .cores = topology->cores,
        .threads = topology->threads,
        .memory_bytes = topology->memory_bytes,
        .memlock_bytes = topology->memlock_bytes,
    };
    machine->device = (struct ah_machine_device){
        .kind = measure->info.kind,
        .name = ah_arena_strdup(arena, measure->info.name),
        .memory_bytes = measure->info.memory_bytes,
        .bf16 = measure->info.bf16,
    };
    machine->name = make_name(measure);
    return machine->host.cpu_model && machine->device.name && machine->name ? AH_OK : ah_error_memory(err);
}
