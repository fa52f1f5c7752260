/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiler: measures a machine and writes a `machine` document, with numbers that a planner can rely on.
 *
 * It uses the device only through device.h, like training: matrix products on the compute lane, copies on the copy
 * lanes, AdamW on the host lane, each alone and beside other lanes. It uses the host's memory and disk directly.
 * docs/profiling.md says what each number means. It plans, prints and saves nothing. A quick profile takes under 20
 * seconds, a full profile under 3 minutes.
 *
 * With `emulate`, the device's lanes are slowed until their ratios to compute are those of the given machine
 * (runtime/device/emulate.h). Compute is not slowed. The document names the machine in `emulates`.
 *
 *     struct ah_document profile = {0};
 *     rc = ah_profiler_run(&profile, &(struct ah_profiler_options){.quick = true}, err);
 *     rc = ah_profiler_extend(&profile, &(struct ah_profiler_options){.quick = true, .job = &job}, err);
 *     rc = ah_document_save(&profile, "machine.json", err);
 *     ah_document_release(&profile);
 *
 * The calling thread is pinned during a profile, and its affinity is restored afterwards. Make one profile at a time,
 * because profiles disturb each other.
 */
#ifndef AH_PROFILER_PROFILER_H
#define AH_PROFILER_PROFILER_H

#include "base/error.h"
#include "base/log.h"
#include "runtime/device/device.h"
#include "runtime/schedule/job.h"
#include "schemas/document.h"
#include "schemas/machine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The parts of a profile, in the order in which they run: bit, word, name for people. The last part measures a model's
 * blocks, and is added to an existing profile. */
/* clang-format off */
#define AH_PROFILER_PARTS(X)                                                                                 \
    X(AH_PROFILER_MATMUL, matmul, "matrix products")                                                         \
    X(AH_PROFILER_MEMORY, memory, "host memory")                                                             \
    X(AH_PROFILER_LINKS, links, "copies each way")                                                           \
    X(AH_PROFILER_ADAM, adam, "optimizer")                                                                   \
    X(AH_PROFILER_BESIDE, beside, "lanes beside each other")                                                 \
    X(AH_PROFILER_LAUNCHES, launches, "launches")                                                            \
    X(AH_PROFILER_DISK, disk, "disk")                                                                        \
    X(AH_PROFILER_BLOCKS, blocks, "blocks of the model")
/* clang-format on */

enum ah_profiler_part {
#define AH_PROFILER_PART_VALUE(value, word, what) value,
    AH_PROFILER_PARTS(AH_PROFILER_PART_VALUE)
#undef AH_PROFILER_PART_VALUE
        AH_PROFILER_PART_COUNT
};

/* Called on the calling thread a few times a second. `fraction` grows from 0 to 1 and never falls. `what` is for people
 * ("matrix products: bf16 nt, 2 threads"), and is valid during the call. */
typedef void ah_profiler_progress(void *context, double fraction, const char *what);

struct ah_profiler_options {
    const struct ah_device_driver *driver; /* NULL: the CPU device */
    uint32_t device_index;
    bool quick;
    uint32_t parts;                   /* bits 1 << enum ah_profiler_part; 0: all */
    const struct ah_machine *emulate; /* (optional) borrowed during the call */
    /* For ah_profiler_extend(): the job whose blocks are measured; borrowed during the call. */
    const struct ah_job *job;
    /* (optional) For the file that measures the disk; NULL: $TMPDIR, else /tmp. It has no name, so it never remains. */
    const char *disk_folder;
    ah_profiler_progress *progress; /* (optional) */
    void *progress_context;
    struct ah_device_watch watch; /* for every opened device */
    const struct ah_log *log;     /* (optional) borrowed; gets each sentence of `noise` when it is found */
    /* (optional) a number other than 0, set for example by a signal handler, stops the profile soon */
    const atomic_int *cancel;
};

/* Measures the machine and makes the document, which passes the reader's checks. AH_E_INTERRUPTED: `cancel` was set;
 * AH_E_MISSING: there is no such device; AH_E_USAGE: the machine to emulate lacks necessary numbers. A part that cannot
 * be measured here (no room for its arrays, no disk folder) is left out and named in `noise`. On failure `ret_document`
 * is unchanged. The caller releases it with ah_document_release(). */
int ah_profiler_run(struct ah_document *ret_document, const struct ah_profiler_options *options,
                    struct ah_error *err);

/* Measures only the blocks of options->job, and adds them to a profile of this machine. They replace its entries for
 * the same blocks; if there are more than AH_MACHINE_BLOCKS_MAX, the oldest entries are dropped. AH_E_MISMATCH: the
 * document describes another machine or device. AH_E_CAPACITY: one block of each kind does not fit the device. Other
 * errors are those of ah_profiler_run(). On failure the document is unchanged, except for memory in its arena. */
int ah_profiler_extend(struct ah_document *document, const struct ah_profiler_options *options,
                       struct ah_error *err);

/* Return a part's word, such as "matmul", and a word's bit (0: unknown word). */
const char *ah_profiler_part_word(enum ah_profiler_part part);
uint32_t ah_profiler_part_bit(const char *word);

#endif
