/* SPDX-License-Identifier: Apache-2.0
 *
 * Measure: shared by the parts of one profile: the limits, the document being filled, progress and noise.
 *
 * Each part is a file with a function ah_<part>_measure(), which fills one list of the machine document. A part runs
 * sets of the sampler one after another. It announces their number with ah_measure_sets(), and gets a sampler for each
 * with ah_measure_sampler(), which divides the part's time among the sets.
 */
#ifndef AH_PROFILER_MEASURE_INTERNAL_H
#define AH_PROFILER_MEASURE_INTERNAL_H

#include "base/error.h"
#include "base/topology.h"
#include "profiler/bandwidth.h"
#include "profiler/processor_load.h"
#include "profiler/profiler.h"
#include "profiler/sampler.h"
#include "runtime/device/device.h"
#include "schemas/document.h"
#include "schemas/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_MEASURE_SHAPES_MAX = 8 };

struct ah_measure_shape {
    uint64_t m, n, k;
};

/* The amount of work in a profile. There is one const struct for `quick`, one for a full profile, and one in a test. */
struct ah_measure_limits {
    double part_s[AH_PROFILER_PART_COUNT]; /* planned time of a part, and its weight in the progress */
    unsigned samples_min;
    unsigned samples_max;
    unsigned blocks; /* number of blocks in a sample (sampler.h) */
    double block_s;  /* least time of a block */
    double warm_s;   /* longest warm-up of one work */
    struct ah_measure_shape shapes[AH_MEASURE_SHAPES_MAX];
    size_t n_shapes;
    /* Used instead of `shapes` if small products do not fill the device. */
    struct ah_measure_shape fast_shapes[AH_MEASURE_SHAPES_MAX];
    size_t n_fast_shapes;
    double product_s;       /* longest time of a product; on slow machines, products have fewer rows */
    unsigned thread_counts; /* largest number of thread counts to measure, from 1 to all processors */
    uint64_t memory_bytes;  /* size of each of two arrays */
    uint64_t link_bytes;    /* bytes of the largest copy */
    unsigned link_factor;   /* ratio of one copy's size to the next smaller one's */
    uint64_t adam_params;
    unsigned adam_kinds; /* how many of ah_optimizer_kinds to measure, from the first on */
    uint64_t disk_bytes;
    uint64_t block_layers; /* largest number of layers of each group in a cycle */
    unsigned block_rounds; /* least number of rounds, however long blocks take */
};

/* The noisy numbers of the running part. */
enum { AH_MEASURE_WORST = 4, AH_MEASURE_WHAT_MAX = 64 };
struct ah_measure_findings {
    unsigned found;
    unsigned n; /* number of entries in `worst`, the worst first */
    struct {
        double amount;
        char what[AH_MEASURE_WHAT_MAX];
    } worst[AH_MEASURE_WORST];
};

struct ah_measure {
    const struct ah_profiler_options *options;
    const struct ah_device_driver *driver;
    const struct ah_measure_limits *limits;
    struct ah_measure_shape shapes[AH_MEASURE_SHAPES_MAX]; /* the limits' shapes, fitted to this machine */
    size_t n_shapes;
    struct ah_device_info info;
    struct ah_device_throttle throttle; /* for lanes other than compute; zero if nothing is emulated */
    struct ah_document *document;
    struct ah_machine *machine;
    struct ah_topology topology;
    unsigned processors;      /* number of processors that this process may use */
    unsigned compute_threads; /* threads of the compute and host lanes if both run: the device's default */
    unsigned host_threads;
    uint64_t available_bytes;       /* free bytes of host memory at the start */
    struct ah_bandwidth *bandwidth; /* owned; made by the first part that needs it */

    enum ah_profiler_part part; /* the running part */
    double part_s;              /* time for this turn of the part */
    double parts_s;             /* time of all chosen parts, and of those that are finished */
    double parts_done_s;
    unsigned sets; /* number of sets in the running part, and of those that are done */
    unsigned sets_done;
    double reported; /* largest fraction of progress reported */
    char what[128];
    struct ah_products *products; /* owned by measure_matmul.c; kept between its turns */
    unsigned turns;               /* number of turns in which matrix products are measured */
    struct ah_load meanwhile[AH_PROFILER_PART_COUNT]; /* by part: what the processors did meanwhile */

    unsigned judged;                        /* how many numbers were judged in the running part */
    struct ah_measure_findings findings[3]; /* by enum ah_sampler_noise */
    size_t noise_room;                      /* capacity of machine->noise */
};

/* Announces the sets of the running part. */
void ah_measure_sets(struct ah_measure *measure, unsigned sets);

/* Returns a sampler for the next set; it reports progress. `what` is for people, formatted like printf. */
struct ah_sampler ah_measure_sampler(struct ah_measure *measure, const char *what, ...) AH_PRINTF(2, 3);

/* Appends a sentence to `noise`, formatted like printf. It is lost if memory runs out. */
void ah_measure_note(struct ah_measure *measure, const char *format, ...) AH_PRINTF(2, 3);

/* Remembers `what` (formatted like printf) if the series spreads or drifts. For each kind of noise,
 * ah_measure_conclude() writes a sentence on the running part: how many numbers had it, and the worst of them. */
void ah_measure_judge(struct ah_measure *measure, const struct ah_sampler_series *series, const char *what,
                      ...) AH_PRINTF(3, 4);
void ah_measure_conclude(struct ah_measure *measure);

/* Lists thread counts worth measuring, in ascending order: 1, powers of two, and `largest`; only 1 and `largest` if
 * these are more than limits->thread_counts. Returns how many there are. */
enum { AH_MEASURE_COUNTS_MAX = 8 };
size_t ah_measure_threads(const struct ah_measure *measure, unsigned largest,
                          unsigned ret_counts[AH_MEASURE_COUNTS_MAX]);

/* Opens the device with these threads, and with the throttle if `throttled`. The caller must reserve the arenas. */
int ah_measure_open(const struct ah_measure *measure, unsigned compute_threads, unsigned host_threads,
                    bool throttled, struct ah_device **ret_device, struct ah_error *err);

/* Gets the arrays for passes over host memory. They are *borrowed*. */
int ah_measure_bandwidth(struct ah_measure *measure, struct ah_bandwidth **ret_bandwidth,
                         struct ah_error *err);

/* Returns `bytes`, or 1/16 of the host memory free at the start if that is less, as a multiple of 1 MiB. */
uint64_t ah_measure_fit(const struct ah_measure *measure, uint64_t bytes);

/* Each part appends to measure->machine, in the document's arena. Matrix products are measured in measure->turns turns:
 * first by ah_matmul_measure(), then by ah_matmul_continue() between other parts. The last turn appends. */
int ah_matmul_measure(struct ah_measure *measure, struct ah_error *err);
int ah_memory_measure(struct ah_measure *measure, struct ah_error *err);
int ah_links_measure(struct ah_measure *measure, struct ah_error *err);
int ah_adam_measure(struct ah_measure *measure, struct ah_error *err);
int ah_beside_measure(struct ah_measure *measure, struct ah_error *err);
int ah_launches_measure(struct ah_measure *measure, struct ah_error *err);
int ah_disk_measure(struct ah_measure *measure, struct ah_error *err);
int ah_blocks_measure(struct ah_measure *measure, struct ah_error *err);

/* Makes the document's table of algorithms fit the device's library. Does nothing for a device without algorithms. */
int ah_algorithms_adopt(struct ah_measure *measure, const struct ah_device *device, struct ah_error *err);

/* Measures and chooses algorithms for the job's products that have none. */
int ah_algorithms_measure(struct ah_measure *measure, struct ah_error *err);

int ah_matmul_continue(struct ah_measure *measure, struct ah_error *err);
void ah_matmul_release(struct ah_measure *measure); /* after the last turn, or a failure */

/* Sets measure->shapes to the limits' shapes, fitted to this machine: rows are halved until a product by one thread,
 * estimated from a small product, takes at most limits->product_s. */
int ah_matmul_fit_shapes(struct ah_measure *measure, struct ah_error *err);

/* Fills `host`, `device` and `name` of the document. measure->info must be set. */
int ah_host_describe(struct ah_measure *measure, struct ah_error *err);

/* Records the memory that a run needs outside its arenas: this process's memory now, and that of a save. Call it with a
 * device open and prepared, before arenas are reserved. */
void ah_host_weigh(struct ah_measure *measure);

/* Makes a short name: "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz" -> "intel-xeon-gold-6148". It is in lower case,
 * without words that do not distinguish models, in at most `size` bytes with the NUL. */
void ah_host_slug(const char *model, char *ret_slug, size_t size);

/* Does ah_profiler_run() within other limits. */
int ah_profiler_run_within(struct ah_document *ret_document, const struct ah_profiler_options *options,
                           const struct ah_measure_limits *limits, struct ah_error *err);

/* Does ah_profiler_extend() within other limits. */
int ah_profiler_extend_within(struct ah_document *document, const struct ah_profiler_options *options,
                              const struct ah_measure_limits *limits, struct ah_error *err);

#endif
