/* SPDX-License-Identifier: Apache-2.0
 *
 * The `machine` document: a profile, which is all that a planner may assume about one machine.
 *
 * Every measured number is a metric: the number of samples, their median and their spread. Rates hold for a part that
 * works alone. `beside` says what fraction of that rate a part keeps while another part works. Both cases are measured
 * alternately in one run, so that drifts of the machine's speed cancel out. A synthetic machine (`origin`) has metrics
 * with n = 0 and names the source of its numbers in `sources`.
 */
#ifndef AH_SCHEMAS_MACHINE_H
#define AH_SCHEMAS_MACHINE_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/algorithms.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_metric {
    uint64_t n; /* samples; 0: not measured here, see `sources` */
    double median;
    double mad;
    double min;
    double max;
};

enum ah_machine_origin { AH_MACHINE_MEASURED, AH_MACHINE_SYNTHETIC };

struct ah_machine_host {
    const char *cpu_model;
    const char *isa; /* widest vector set used: "avx512", "avx2", "portable" */
    uint64_t sockets;
    uint64_t numa_nodes;
    uint64_t cores;         /* physical */
    uint64_t threads;       /* that this process may use */
    uint64_t memory_bytes;  /* the kernel's total, or what a control group allows */
    uint64_t memlock_bytes; /* RLIMIT_MEMLOCK; memory_bytes where it is unlimited */
    uint64_t process_bytes; /* memory of a run outside its arenas, for libraries and saving; 0: unknown */
};

/* A device's PCIe link: as it is now (idle links slow down), and the most that both ends support. */
struct ah_machine_pcie {
    uint64_t generation;
    uint64_t width; /* lanes */
    uint64_t max_generation;
    uint64_t max_width;
};

struct ah_machine_device {
    enum ah_device_kind kind;
    const char *name;
    uint64_t memory_bytes;  /* memory for an arena and the reserve together */
    uint64_t reserve_bytes; /* context and library workspace, measured; plans keep at least this much free */
    bool bf16;
    struct ah_machine_pcie *pcie; /* (optional) */
};

struct ah_machine_memory {
    enum ah_memory_pattern pattern; /* read, write, copy, scale (in place) */
    uint64_t threads;
    struct ah_metric bytes_per_s; /* of bytes read plus bytes written */
};

struct ah_machine_point {
    uint64_t bytes;
    struct ah_metric us;
};

struct ah_machine_link {
    enum ah_direction direction;  /* h2d, d2h */
    double latency_us;            /* fitted: time = latency + bytes / rate */
    struct ah_metric bytes_per_s; /* median of the fit; spread of the largest copy */
    double fit_error;             /* worst relative residual of the fit */
    struct ah_machine_point *points;
    size_t n_points;
};

struct ah_machine_matmul {
    enum ah_dtype dtype;
    enum ah_matmul_form form;
    uint64_t m, n, k;
    uint64_t threads; /* 0 on a GPU */
    struct ah_metric flops_per_s;
};

struct ah_machine_adam {
    enum ah_side side; /* host, device */
    uint64_t threads;
    enum ah_dtype state_dtype;
    enum ah_dtype gradient_dtype;
    enum ah_dtype weight_dtype;
    struct ah_metric params_per_s;
    double bandwidth_share; /* bytes moved per second / best in-place scale bandwidth of the same run */
};

/* How one part slows another: while `beside` works all the time, `part` works at `kept` times its rate alone. */
struct ah_machine_beside {
    enum ah_part part;
    enum ah_part beside;
    struct ah_metric kept;
};

/* The backward pass of a block, including what it recomputes. */
struct ah_machine_backward {
    enum ah_activations activations;
    struct ah_metric us;
};

enum { AH_MACHINE_BLOCKS_MAX = 1024 };

/* A block's passes over one micro-batch, on the compute lane, measured inside iterations like those of a run. */
struct ah_machine_block {
    const char *group;          /* "layer", "head": for people */
    const char *program_sha256; /* ah_program_digest() of all that the block computes, with sizes and types */
    enum ah_dtype dtype;
    uint64_t sequences; /* of a micro-batch */
    uint64_t seq;
    uint64_t threads;            /* of the compute lane; 0 on a GPU */
    struct ah_metric forward_us; /* for the head: forward, loss and backward */
    struct ah_machine_backward *backward;
    size_t n_backward;
};

struct ah_machine_disk {
    struct ah_metric read_bytes_per_s;
    struct ah_metric write_bytes_per_s;
};

struct ah_machine {
    const char *generator;
    const char *name;
    enum ah_machine_origin origin;
    const char *emulates; /* (optional) name of the machine whose speed ratios were emulated; NULL: none */
    struct ah_machine_host host;
    struct ah_machine_device device;
    struct ah_machine_memory *memory;
    size_t n_memory;
    struct ah_machine_link *links;
    size_t n_links;
    struct ah_machine_matmul *matmul;
    size_t n_matmul;
    struct ah_machine_adam *adam;
    size_t n_adam;
    struct ah_machine_beside *beside;
    size_t n_beside;
    struct ah_metric *launch_us; /* (optional) least time of an op of the compute lane, from many tiny ops */
    struct ah_machine_block *blocks; /* no two with the same program and threads */
    size_t n_blocks;
    struct ah_algorithms *algorithms; /* (optional) for a device whose products a library computes */
    struct ah_machine_disk *disk;     /* (optional) */
    const char **noise;               /* a sentence for each noisy measurement */
    size_t n_noise;
    struct ah_text_pair *sources; /* name of a number -> where it comes from */
    size_t n_sources;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* Return the rates that plans and emulation take from a profile; 0 if the document has no such number. */
double ah_machine_matmul_flops_per_s(const struct ah_machine *machine, enum ah_dtype dtype); /* best shape */
double ah_machine_link_bytes_per_s(const struct ah_machine *machine, enum ah_direction direction);
double ah_machine_adam_params_per_s(const struct ah_machine *machine, enum ah_side side,
                                    enum ah_dtype weight);

/* Returns the bytes that AdamW reads and writes for one parameter: both moments and the fp32 master, each read and
 * written, the gradient, and the weight unless it is the master. */
double ah_machine_adam_bytes(enum ah_dtype state, enum ah_dtype gradient, enum ah_dtype weight);

/* Returns the measured passes of a block with this program; NULL: none was measured with that many threads. */
const struct ah_machine_block *ah_machine_find_block(const struct ah_machine *machine,
                                                     const char *program_sha256, uint64_t threads);

/* Returns the fraction of its solo rate that `part` keeps while `other` works; 1 if the document does not say. */
double ah_machine_kept(const struct ah_machine *machine, enum ah_part part, enum ah_part other);

#endif
