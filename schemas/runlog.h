/* SPDX-License-Identifier: Apache-2.0
 *
 * The `runlog` document: what a run did, one JSON object a line.
 *
 * The first line is the header, with the document's kind. Then come lines of steps, evaluations, saves, samples and
 * resumes in the order in which they happened, and one end line unless the run is killed. A log that stops between
 * lines is valid without its end. Half a line is refused with its place, but `report` and a resumed run leave out a
 * last line that is cut.
 * Lane times are measured in that run; `predicted` is what the plan said. PARTS divide the time that lanes work in a
 * step by kind of op; the parts of `predicted` add up to its lane times.
 *
 * Each RANK of a cluster plan reports a step as its own compute saw it. Compute works, or waits for messages that it
 * sends, for messages of the stage before or behind, for sums over pipelines, for the gate at which all ranks meet
 * before updates, or for lanes of its own device. These times add up to at most the step; the rest has no known cause.
 *
 * A trainer writes lines one at a time (ah_runlog_print_header() and friends) and flushes after each.
 */
#ifndef AH_SCHEMAS_RUNLOG_H
#define AH_SCHEMAS_RUNLOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/plan.h"
#include "schemas/signature.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kind of op of a plan (enum ah_plan_op_kind), or work no plan mentions: batches, headers and losses of steps. */
enum { AH_RUNLOG_OP_DATA = AH_PLAN_OP_KINDS, AH_RUNLOG_OPS };

extern const char *const ah_words_runlog_op[]; /* the words of ah_words_plan_op, then "data" */

struct ah_runlog_part {
    unsigned op;
    enum ah_plan_lane lane;
    double us; /* time of all ops of that kind on that lane in a step */
};

/* A step of one rank, measured or predicted. */
struct ah_runlog_rank {
    uint64_t rank, pipeline, stage;
    const char *node; /* of the plan */
    const char *host; /* (optional) where it ran */
    double step_us;   /* from the end of compute in the previous step to its end in this one */
    double compute_us;
    double messages_us, before_us, behind_us, sums_us, gate_us; /* waits of compute, by cause */
    double lanes_us;                                            /* waits for h2d, d2h and host together */
    double h2d_us, d2h_us, host_us, sums_lane_us; /* busy time of other lanes; for `send` see messages_us */
    uint64_t sent_bytes;                          /* to neighbours */
    uint64_t summed_bytes;                        /* to other pipelines */
    uint64_t device_bytes, host_bytes;            /* highest use */
};

struct ah_runlog_predicted {
    double step_us;
    double busy_us[AH_PLAN_LANES]; /* time that each lane works */
    double tokens_per_s;
    uint64_t device_bytes;
    uint64_t host_bytes;
    bool estimated;                     /* some costs were not measured on the machine */
    struct ah_plan_by_lane *exposed_us; /* (optional) time that compute waits for each lane */
    struct ah_runlog_part *parts;       /* (optional) */
    size_t n_parts;
    struct ah_runlog_rank *ranks; /* (optional) all ranks of a cluster plan, in order */
    size_t n_ranks;
};

#define AH_RUNLOG_NO_NORM (-1.0)

struct ah_runlog_step {
    uint64_t step; /* from 1 */
    double loss;
    uint64_t tokens; /* loss-bearing, of this step */
    double lr;
    double grad_norm; /* AH_RUNLOG_NO_NORM: not computed */
    double step_us;
    double tokens_per_s;           /* counts batch x sequence tokens */
    double learned_tokens_per_s;   /* counts loss-bearing tokens; 0: none, or not known */
    double busy_us[AH_PLAN_LANES]; /* time that each lane worked */
    uint64_t h2d_bytes, d2h_bytes; /* copied; 0: not known */
    uint64_t device_peak_bytes;
    uint64_t host_peak_bytes;
    uint64_t at_bytes; /* where the line begins in the text that was read; not a field of the document */
};

struct ah_runlog_evaluation {
    uint64_t step; /* steps done before it */
    double loss;
    uint64_t tokens;
};

struct ah_runlog_save {
    uint64_t step;
    double us;
    uint64_t bytes;
};

/* What the model says after a step. */
struct ah_runlog_sample {
    uint64_t step;
    const char *prompt, *text; /* may be empty */
    const char *data;          /* (optional) how the data go on after the prompt */
};

/* A run that goes on from a checkpoint, in the same log. */
struct ah_runlog_resume {
    uint64_t step; /* of the checkpoint */
};

/* How long a lane worked, and for how much of that time compute did not. */
struct ah_runlog_busy {
    enum ah_plan_lane lane;
    double busy_us;
    double exposed_us; /* 0 for compute */
};

/* The source of an overlap: the times at which lanes ran their ops, or what the device recorded of its hardware. */
enum ah_runlog_source { AH_RUNLOG_LANES_SAY, AH_RUNLOG_HARDWARE_SAYS };

extern const char *const ah_words_runlog_source[];

/* Where the time of some steps went. Each moment is charged to compute if it runs, else to copies, else to the host,
 * else to nobody. The four times add up to `total_us`. */
struct ah_runlog_overlap {
    enum ah_runlog_source source;
    uint64_t first_step, steps;
    double total_us;
    double compute_us, copy_us, host_us, idle_us;
    struct ah_runlog_busy *lanes;
    size_t n_lanes;
    uint64_t records, lost; /* numbers of hardware records kept, and of those lost for lack of room */
    double overhead_us;     /* total cost of recording */
};

enum ah_runlog_reason { AH_RUNLOG_DONE, AH_RUNLOG_INTERRUPTED, AH_RUNLOG_FAILED };

struct ah_runlog_end {
    uint64_t step; /* the last one done */
    enum ah_runlog_reason reason;
    const char *error; /* (optional) the error message, if it failed */

    /* Medians over the run's steps, at most the last AH_RUNLOG_MEDIAN_STEPS, without the first step if there are
     * others. If no step was done, they are zeros and the lists are empty. */
    double median_step_us;
    double predicted_step_us;
    double step_error; /* median_step_us / predicted_step_us - 1 */
    struct ah_plan_by_lane *exposed_us;
    struct ah_runlog_part *parts;
    size_t n_parts;
    struct ah_runlog_rank
        *ranks; /* (optional) all ranks of a cluster plan, in order; means over the middle half of steps */
    size_t n_ranks;
    struct ah_runlog_overlap *overlap; /* (optional) of the steps that --trace shows */
    uint64_t at_bytes;                 /* as in struct ah_runlog_step */
};

enum { AH_RUNLOG_MEDIAN_STEPS = 1024 };

struct ah_runlog {
    const char *generator;
    const char *plan_sha256;
    const char *model;    /* name */
    const char *device;   /* name that the device gives itself */
    const char *policy;   /* (optional) */
    bool paced;           /* ops and messages took as long as planned, so times say nothing of the machine */
    const char *emulates; /* (optional) machine whose speed ratios were emulated */
    uint64_t first_step;  /* 1, or the first step of a resumed run */
    double model_flops;   /* that the model needs in a step; 0: not known */
    double peak_flops_per_s; /* of the machine's fastest matrix product; 0: not known */
    struct ah_signature numeric_signature;
    struct ah_runlog_predicted *predicted; /* (optional) */
    struct ah_text_pair *annotations;
    size_t n_annotations;

    struct ah_runlog_step *steps;
    size_t n_steps;
    struct ah_runlog_evaluation *evaluations;
    size_t n_evaluations;
    struct ah_runlog_save *saves;
    size_t n_saves;
    struct ah_runlog_sample *samples;
    size_t n_samples;
    struct ah_runlog_resume *resumes;
    size_t n_resumes;
    struct ah_runlog_end *end; /* (optional) */
};

/* Append one line each, with its newline. */
int ah_runlog_print_header(const struct ah_runlog *runlog, struct ah_buffer *out, struct ah_error *err);
int ah_runlog_print_step(const struct ah_runlog_step *step, struct ah_buffer *out, struct ah_error *err);
int ah_runlog_print_evaluation(const struct ah_runlog_evaluation *evaluation, struct ah_buffer *out,
                               struct ah_error *err);
int ah_runlog_print_save(const struct ah_runlog_save *save, struct ah_buffer *out, struct ah_error *err);
/* Bytes that are not UTF-8, as of an answer that ends inside a character, become '?'. */
int ah_runlog_print_sample(const struct ah_runlog_sample *sample, struct ah_buffer *out,
                           struct ah_error *err);
int ah_runlog_print_resume(const struct ah_runlog_resume *resume, struct ah_buffer *out,
                           struct ah_error *err);
int ah_runlog_print_end(const struct ah_runlog_end *end, struct ah_buffer *out, struct ah_error *err);

#endif
