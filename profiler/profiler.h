/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiler: measures a machine and writes a `machine` document, with numbers that a planner can rely on.
 *
 * It uses the device only through device.h, as a training run does: matrix products on the compute lane, copies on the
 * copy lanes, AdamW on the host lane, each by itself and while other lanes run; and the host's memory and disk
 * directly. docs/profiling.md says what each number means. It plans, prints and saves nothing; a quick profile takes
 * under 20 seconds, a full profile under 3 minutes.
 *
 * With `emulate` the device's lanes are slowed so that their ratios to compute are those of the given machine
 * (runtime/device/emulate.h); compute is not slowed, and the document names the machine in `emulates`.
 *
 *     struct ah_document profile = {0};
 *     rc = ah_profiler_run(&profile, &(struct ah_profiler_options){.quick = true}, err);
 *     rc = ah_profiler_extend(&profile, &(struct ah_profiler_options){.quick = true, .job = &job}, err);
 *     rc = ah_document_save(&profile, "machine.json", err);
 *     ah_document_release(&profile);
 *
 * The calling thread is pinned while this runs, and then gets its affinity back. Profile once at a time in a process;
 * profiles would disturb each other.
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
 * blocks, and is added to a profile. */
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

/* Called on the calling thread, a few times a second. `fraction` grows from 0 to 1 and never falls; `what` is
 * for people ("matrix products: bf16 nt, 2 threads") and valid during the call. */
typedef void ah_profiler_progress(void *context, double fraction, const char *what);

struct ah_profiler_options {
    const struct ah_device_driver *driver; /* NULL: the CPU device */
    uint32_t device_index;
    bool quick;
    uint32_t parts;                   /* bits 1 << enum ah_profiler_part; 0: all */
    const struct ah_machine *emulate; /* (optional) borrowed during the call */
    const struct ah_job
        *job;                /* for ah_profiler_extend(): its blocks are measured; borrowed during the call */
    const char *disk_folder; /* (optional) for the file that measures the disk; NULL: $TMPDIR, else /tmp.
                              * The file has no name there, so it never remains. */
    ah_profiler_progress *progress; /* (optional) */
    void *progress_context;
    struct ah_device_watch watch; /* for every device that is opened */
    const struct ah_log *log;     /* (optional) borrowed; gets each sentence of `noise` as it is found */
    const atomic_int *cancel; /* (optional) set to non-zero, for example by a signal handler, to stop soon */
};

/* Measures and builds the document, which passes the reader's checks. AH_E_INTERRUPTED after `cancel`; AH_E_MISSING if
 * there is no such device; AH_E_USAGE if the machine to emulate lacks necessary numbers. A part that cannot be measured
 * here (no room for its arrays, no disk folder) is left out and named in `noise`. On failure `ret_document` is
 * unchanged. The caller releases it with ah_document_release(). */
int ah_profiler_run(struct ah_document *ret_document, const struct ah_profiler_options *options,
                    struct ah_error *err);

/* Measures only the blocks of options->job, and adds them to a profile of this machine. They replace its entries for
 * the same blocks; the oldest entries are dropped if there are more than AH_MACHINE_BLOCKS_MAX. AH_E_MISMATCH: the
 * document describes another machine or device. AH_E_CAPACITY: one block of each kind does not fit the device. Other
 * errors as above; on failure the document is unchanged, except for memory in its arena. */
int ah_profiler_extend(struct ah_document *document, const struct ah_profiler_options *options,
                       struct ah_error *err);

/* Return the word of a part ("matmul"), and the bit of a word (0: unknown). */
const char *ah_profiler_part_word(enum ah_profiler_part part);
uint32_t ah_profiler_part_bit(const char *word);

#endif
