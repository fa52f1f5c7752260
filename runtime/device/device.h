/* SPDX-License-Identifier: Apache-2.0
 *
 * Device: runs ops. One object is one rank: an accelerator (or the CPU in its place), its host, their memory and lanes.
 *
 * LIFE. ah_device_open() finds the device and starts its lanes. ah_device_prepare() builds what ops of given shapes
 * need besides their operands; `reserve_bytes` is then the memory for all that. ah_device_reserve() takes the arenas.
 * It refuses if the device arena and `reserve_bytes` together exceed the options' `memory_bytes`. Then ops are
 * submitted, which allocates nothing.
 *
 * MEMORY is three arenas of fixed size: the device arena, pinned and pageable host memory. An operand is an arena and
 * an offset (op.h); plans choose the offsets.
 *
 * LANES. A lane runs its ops one after another, beside the other lanes. The n-th op submitted to a lane has ticket n
 * (from 1). An op may wait for tickets of other lanes, but only for ops submitted before it, so no order can deadlock.
 * A wait for ticket n is also a wait for all earlier tickets of that lane. The submitter knows every ticket beforehand,
 * so a whole iteration is one array, which a device may batch or capture. Submitting blocks only while a lane's queue
 * is full, so whole iterations are queued ahead.
 *
 * The lanes are compute, h2d, d2h and host. With `messages`, there are also send, receive_before, receive_behind and
 * sums. Messages from the rank before in the pipeline and from the rank behind have separate lanes: in one lane, the
 * first gradient would wait behind an input that arrives later.
 *
 * REACH. What a lane may run and touch is the same on every device, so all devices accept the same orders of ops;
 * device.c has the table. Compute ops use the device arena, host ops the host arenas; h2d and d2h copy between the
 * pinned and the device arena. Only host and sums touch pageable memory. Copy lanes may not, because a driver would
 * stage such copies and might block the submitter; host ops copy such data to pinned memory first. Compute runs all
 * kinds but `call`, host all but matrix products and attention; neither sends or receives. The other lanes for messages
 * only send or receive. The lane sums also casts, accumulates and sums squares.
 *
 * FAILURE is final. Once an op has failed, every lane skips ops that have not started. Their tickets still complete, so
 * no wait hangs, and every wait reports the first failure with the op's name. Then close the device.
 *
 * A STALL is not a failure: nothing fails, but nothing ends either. If the options set a limit for that, a separate
 * thread watches for stalls (watch.h), finds what each lane is doing, and tells the program. The program should then
 * end, because a thread inside a vendor's driver cannot be called back.
 *
 * A DRIVER is a const table of functions, one per kind of device. The CPU's is linked in; CUDA's comes from a plugin
 * (device_plugin.h). The table begins with two numbers: `abi` for the meaning of functions and fields, `layout` for the
 * memory layout of shared structs. A driver is refused if they differ from this build's. The functions ah_device_*()
 * make all checks that are the same for every driver, then call the table: drivers see only valid submissions.
 *
 *     const struct ah_device_options options = {.memory_bytes = 3 << 29};
 *     const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = 1 << 30};
 *     ah_device_open(&device, ah_device_cpu(), &options, err);
 *     ah_device_prepare(device, ops, n, err);
 *     ah_device_reserve(device, arena_bytes, err);
 *     struct ah_submission submission = {.lane = AH_LANE_COMPUTE, .op = &ops[0]};
 *     ah_device_submit(device, &submission, 1, &ticket, err);
 *     ah_device_wait(device, AH_LANE_COMPUTE, ticket, err);
 *     ah_device_close(device);
 *
 * One thread prepares, reserves and submits; any thread may wait.
 */
#ifndef AH_RUNTIME_DEVICE_DEVICE_H
#define AH_RUNTIME_DEVICE_DEVICE_H

#include "base/error.h"
#include "runtime/device/op.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_DEVICE_ABI = 12, AH_DEVICE_NAME_MAX = 128, AH_DEVICE_WAITS_MAX = 8 };

/* Size of arrays by lane in structs that cross the border of a plugin. */
enum { AH_DEVICE_LANES_MAX = 16 };

/* Every device has AH_DEVICE_LANES lanes; with `messages`, AH_DEVICE_LANES_ALL. */
enum ah_device_lane {
    AH_LANE_COMPUTE,
    AH_LANE_H2D,
    AH_LANE_D2H,
    AH_LANE_HOST,
    AH_DEVICE_LANES,
    AH_LANE_SEND = AH_DEVICE_LANES,
    AH_LANE_RECEIVE_BEFORE,
    AH_LANE_RECEIVE_BEHIND,
    AH_LANE_SUMS, /* sums gradients with other ranks */
    AH_DEVICE_LANES_ALL
};

struct ah_device;

struct ah_wait {
    uint32_t lane;
    uint64_t ticket;
};

struct ah_submission {
    uint32_t lane;
    uint32_t n_waits;            /* <= AH_DEVICE_WAITS_MAX */
    const struct ah_wait *waits; /* copied */
    const struct ah_op *op;      /* copied */
    uint64_t tag;                /* the submitter's own value; copied to the span */

    /* The op's own time is not needed, so the device may record one span for this op and the next of the array. The
     * next must have the same lane and tag, and no waits. The span has the ticket of the last op joined. */
    bool joins;

    /* With a `pace` in the options: AH_PACE_BEGINS on an item's first op, AH_PACE_ENDS on its last. */
    uint8_t pace;
};

enum { AH_PACE_BEGINS = 1, AH_PACE_ENDS = 2 };

/* The functions that make items take longer than they need. They are called on the lane's thread: `begin` after the
 * waits of an item's first op, `end` when the item's last op is done. Each blocks until the lane may continue. */
struct ah_device_pace {
    int (*begin)(void *context, uint32_t lane, uint64_t tag, struct ah_error *err);
    void (*end)(void *context, uint32_t lane, uint64_t tag);
    void *context;
};

/* The times of an op, or of several joined ops, on the host's monotonic clock. */
struct ah_span {
    uint64_t ticket;   /* of the last op */
    uint64_t tag;      /* the submitter's */
    uint64_t ready_ns; /* when the op reached the head of its lane */
    uint64_t start_ns; /* when its waits were met */
    uint64_t end_ns;
    uint64_t joined; /* number of ops before `ticket` that the span also covers */
};

/* A reader's position in the spans of a lane. A reader with only `lane` set begins at the lane's first op. */
struct ah_span_reader {
    uint32_t lane;
    uint64_t seen; /* last ticket that was read or lost */
    uint64_t lost; /* spans overwritten before they were read, so far */
};

/* What hardware can do for an op; an op causes one or several activities. */
enum ah_device_activity_kind { AH_ACTIVITY_KERNEL, AH_ACTIVITY_COPY, AH_ACTIVITY_FILL };

struct ah_device_activity {
    uint32_t lane;
    uint32_t kind;     /* enum ah_device_activity_kind */
    uint64_t ticket;   /* ticket of its op; 0: not known */
    uint64_t bytes;    /* size of a copy or a fill */
    uint64_t start_ns; /* on the host's monotonic clock */
    uint64_t end_ns;
    const char *name; /* name of a kernel; "": no name */
};

/* What was recorded between ah_device_record() and ah_device_recorded(). */
struct ah_device_recording {
    const struct ah_device_activity *activities; /* sorted by lane and start */
    size_t n;
    uint64_t lost;        /* number of activities left out, for lack of room or of times */
    uint64_t overhead_ns; /* time that recording itself took, if the recorder reports it */
    const char *recorder; /* name and version of the recorder: "CUPTI 13.0" */
};

/* How much lanes are slowed so that their speeds relative to compute match another machine's (`--emulate`). A rate of 0
 * means not slowed. An op takes at least latency + work / rate; the lane sleeps for the rest of that time. Work is
 * bytes copied and, on the host lane, AdamW's parameters. For other ops of the host lane, except `call`, it is the
 * bytes they move (ah_op_moved_bytes). */
struct ah_device_throttle {
    double h2d_bytes_per_s;
    double d2h_bytes_per_s;
    double copy_latency_us;
    double both_kept; /* fraction of its rate that a copy lane keeps while the other copies; 0 means 1 */
    double host_adam_params_per_s;
    double host_bytes_per_s;
};

/* An algorithm of a library for one matrix product. It is chosen once for a machine and stored in the machine's
 * document. The choice decides bits, so it is part of the numeric signature and is never made while a plan runs. */
struct ah_device_algorithm {
    struct ah_op product; /* a matmul; offsets of its operands do not matter */
    uint64_t words[8]; /* in the library's own format, as written by the device that measured the algorithm */
};

/* What to do when the device stalls. */
struct ah_device_watch {
    double patience_s; /* how long a call may wait while no op completes; 0: the device is not watched */

    /* Called once, on the watching thread, with AH_E_STALLED and a sentence about every lane. It should end the
     * process: closing the device may wait for ever. If it returns, all calls continue to wait. */
    void (*stalled)(void *context, const struct ah_error *why);
    void *context;

    /* (optional) Prints the submitter's name for the op with this tag, "'forward' of block 'layer.3'"; "": none. */
    void (*name)(const void *context, uint64_t tag, char *ret_name, size_t room);
    const void *name_context;

    /* (optional) Both get `name_context` and run on the watching thread, so they may not block. `other_waits` prints
     * what else the program waits for, as part of a sentence, and returns true if that includes other ranks. If it
     * does, and no op has begun, the stall is reported only after another quarter of patience_s, so that those ranks
     * report first. `pulse` returns a number that changes with any progress elsewhere. */
    bool (*other_waits)(const void *context, char *ret_text, size_t room);
    uint64_t (*pulse)(const void *context);
};

/* Locked host memory that outlives a device, because locking takes seconds for each 10 GiB. Devices opened one after
 * another share it if their options name the same struct. Zero the struct before opening the first device. */
struct ah_device_keep {
    void *memory; /* the driver's own; NULL: none */
    void (*release)(void *memory);
};

struct ah_device_options {
    uint32_t index;        /* number of the device among those of its kind */
    uint64_t memory_bytes; /* limit for device arena and reserve_bytes together; 0: all memory */

    /* The machine's table of algorithms and the name of their library, as in a device's info; both are borrowed until
     * the device is closed. A device with a different library refuses the table (AH_E_MISMATCH). A product missing from
     * the table uses the library's first choice, which depends only on product, device and library. A device whose
     * products depend only on the shape, such as the CPU, needs no table. */
    const char *library; /* (optional) NULL: any */
    const struct ah_device_algorithm *algorithms;
    size_t n_algorithms;

    uint32_t compute_threads; /* CPU: cores of the compute lane; 0: three quarters, leaving at least one */
    uint32_t host_threads;    /* cores of the host lane; 0: all that compute leaves, at least one */
    bool
        /* GPUs: pins the thread that calls reserve and submits to a separate core of the process's affinity mask,
         * until it closes the device. Threads started by it meanwhile inherit the pin. The host lane then has at
         * most all cores but one. */
        pin_submitter;
    bool messages; /* adds the lanes for messages to other ranks; AH_E_UNSUPPORTED if the driver has none */
    uint64_t
        messages_bytes; /* GPUs: device memory that messages have taken already; not counted as reserve */
    bool shared;        /* other ranks also compute on this machine, so no thread is pinned */
    uint32_t
        product_forms; /* CPU: number of forms of bf16 products allowed, from the first (info.product_form); 0: all */
    uint32_t queue; /* capacity of a lane's queue, in ops; 0: 1024 */
    uint32_t spans; /* number of finished ops whose times a lane remembers; 0: 1024 */
    struct ah_device_throttle throttle;
    struct ah_device_pace pace; /* (optional, both functions or none; drivers with `messages`) */
    struct ah_device_watch watch;

    /* (optional; drivers with `messages`) Called once, for the first op that fails, on its lane's thread. The ops
     * waiting for it are released only afterwards, because other ranks may wait for a message that is now skipped. */
    void (*failed)(void *context, const struct ah_error *why);
    void *failed_context;
    struct ah_device_keep *keep; /* (optional) GPUs: borrowed until the device is closed */
};

/* The ways in which a CPU adds up bf16 products (tile.h, ARITHMETIC). */
enum ah_product_form { AH_PRODUCT_FMA, AH_PRODUCT_DOT, AH_PRODUCT_AMX, AH_PRODUCT_FORMS };
extern const char *const ah_words_product_form[];

/* Counts of the prepared matrix products. A product that the library lacks is computed in steps, which is slower: rows
 * of fp32 sums, which a kernel finishes. */
struct ah_device_products {
    uint32_t n;
    uint32_t in_steps;
    char first
        [AH_DEVICE_NAME_MAX]; /* the first product made in steps: "bias_gelu nn 4096x3072x768 bf16"; "": none */
};

/* What a lane is doing. */
struct ah_device_head {
    uint64_t submitted, done; /* tickets; `done` may lag behind the device */
    bool any; /* the op with ticket done + 1 runs or is next, and the fields below describe it */
    enum ah_op_kind kind;
    uint64_t tag;
    uint32_t n_waits;
    struct ah_wait waits[AH_DEVICE_WAITS_MAX]; /* its waits, whether met or not */
    const char *note; /* what else delays the op, or why nothing is known about it; or NULL */
};

struct ah_device_info {
    enum ah_device_kind kind;
    char name[AH_DEVICE_NAME_MAX];
    uint64_t memory_bytes;
    uint64_t free_bytes;
    uint64_t locked_bytes; /* locked bytes of the pinned arena; fewer than reserved if the system refused */
    bool bf16;
    bool supports[64];     /* by enum ah_op_kind */
    uint32_t product_form; /* CPU: the fastest (last) enum ah_product_form it has; forms differ in bits */

    /* The library for matrix products, with version, set on opening; "": there are no algorithms to choose from. */
    char library[AH_DEVICE_NAME_MAX];
    char address[AH_DEVICE_NAME_MAX]; /* on the PCI bus, "0000:17:00.0"; "": none */
    struct ah_device_products products;

    /* Device memory outside the arena, measured once arenas are reserved and kernels are loaded: context, code,
     * workspace, page tables. 0: not measured. The earlier estimate is the device's `reserve_bytes`. */
    uint64_t outside_bytes;
};

struct ah_device_driver {
    uint32_t abi;     /* AH_DEVICE_ABI */
    uint32_t layout;  /* AH_DEVICE_LAYOUT */
    const char *name; /* "cpu", "cuda" */
    bool messages;    /* the driver has lanes for messages */

    /* Describes at most `max` devices; `ret_n` is how many exist. AH_E_MISSING says what is missing, how to get it. */
    int (*probe)(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err);
    int (*open)(struct ah_device **ret_device, const struct ah_device_options *options, struct ah_error *err);
    void (*close)(struct ah_device *device);

    /* (optional; NULL: there is nothing to build) Builds what ops of these shapes need besides their operands, and sets
     * reserve_bytes. Called while every lane is idle. */
    int (*prepare)(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err);

    /* Takes the arenas; called once. A failed call takes none. */
    int (*reserve)(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                   struct ah_error *err);

    /* Queues submissions that are already checked; the n-th op of a lane has ticket n. Before it queues any, the driver
     * refuses what it cannot do or was not prepared for. */
    int (*submit)(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                  struct ah_error *err);
    int (*wait)(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err);
    int (*wait_any)(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                    struct ah_error *err);
    uint64_t (*done)(struct ah_device *device, uint32_t lane);

    /* Writes the remembered spans of ops with tickets above `after`, oldest first, and returns their number. */
    size_t (*spans)(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                    size_t max);

    /* (optional; NULL: there are none) Writes at most `max` algorithms of a product, the library's first choice
     * first. */
    int (*algorithms)(struct ah_device *device, const struct ah_op *product,
                      struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                      struct ah_error *err);

    /* (optional, both or none; NULL: the device cannot record) See ah_device_record() and ah_device_recorded(). */
    int (*record)(struct ah_device *device, struct ah_error *err);
    int (*recorded)(struct ah_device *device, struct ah_device_recording *ret_recording,
                    struct ah_error *err);

    /* (optional, all three or none; NULL: the device is not watched) The watching thread calls `pulse` and `head` while
     * other threads wait, so neither may block. `pulse` returns a number that changes with any progress: an op is done,
     * or an op on the host's processors has used processor time. `drain` waits until nothing runs, even after a
     * failure; `close` then does not wait. */
    uint64_t (*pulse)(struct ah_device *device);
    void (*head)(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head);
    void (*drain)(struct ah_device *device);

    /* Returns the address of a host arena, or of any arena on the CPU device; NULL if the host cannot read it. */
    void *(*address)(struct ah_device *device, enum ah_arena_kind arena);
};

/* The op that failed first. */
struct ah_device_failed {
    bool any;
    uint32_t lane;
    uint64_t tag; /* the submitter's */
};

/* First member of every driver's device object. */
struct ah_device {
    const struct ah_device_driver *driver;
    struct ah_device_info info;
    uint32_t lanes;                 /* number of lanes; set by ah_device_open() */
    uint64_t reserve_bytes;         /* device memory outside the arena that the prepared ops need */
    struct ah_device_failed failed; /* set once, before a wait reports the failure */

    /* fields of device.c */
    uint64_t memory_bytes; /* as in the options */
    uint64_t arena_bytes[AH_ARENA_KINDS];
    bool is_reserved;
    uint64_t submitted[AH_DEVICE_LANES_MAX]; /* last ticket of each lane; used atomically */

    /* fields of watch.h; the counts are used atomically */
    struct ah_device_watcher *watcher; /* owned; NULL: the device is not watched */
    uint32_t waiting;                  /* number of calls that wait now */
    uint64_t waited;                   /* number of calls that waited and have ended */
    uint64_t wait_what;                /* what the call that began to wait last waits for */
};

/* A number that depends on the size of every struct that crosses a plugin's border, and on the numbers of op kinds and
 * lanes. It is their sum with very different weights. */
/* clang-format off */
#define AH_DEVICE_LAYOUT \
    ((uint32_t)(sizeof(struct ah_device_driver) + 1009 * sizeof(struct ah_device) + \
                10007 * sizeof(struct ah_device_options) + 100003 * sizeof(struct ah_device_info) + \
                1000003 * sizeof(struct ah_op) + 10000019 * sizeof(struct ah_submission) + \
                100000007 * sizeof(struct ah_adamw_scalars) + 211 * sizeof(struct ah_device_activity) + \
                2003 * sizeof(struct ah_device_recording) + 401 * sizeof(struct ah_device_head) + 31 * AH_OP_KINDS + 7 * AH_DEVICE_LANES_ALL))
/* clang-format on */

/* Returns the CPU device's driver: the reference for every other driver, and the built-in default. */
const struct ah_device_driver *ah_device_cpu(void);

/* Checks that the driver's table fits this build; AH_E_MISMATCH says what differs. `origin` is the driver's file or
 * name. Reads only `abi` and `layout`. */
int ah_device_check_driver(const struct ah_device_driver *driver, const char *origin, struct ah_error *err);

/* Finds the device and starts its lanes. AH_E_USAGE: options make no sense; AH_E_MISMATCH: the driver is from another
 * build; AH_E_MISSING: there is no such device. */
int ah_device_open(struct ah_device **ret_device, const struct ah_device_driver *driver,
                   const struct ah_device_options *options, struct ah_error *err);

/* Builds what the ops need. A matrix product or attention of a new shape must be prepared before it is first submitted.
 * Ops that need nothing are ignored, and shapes already prepared cost nothing. Waits for every lane first. May be
 * called several times, even after ah_device_reserve() if `memory_bytes` leaves room. AH_E_UNSUPPORTED for an op that
 * this device cannot do, AH_E_CAPACITY. */
int ah_device_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err);

/* Writes at most `max` algorithms that this device offers for a product, the library's first choice first, and their
 * number to `ret_n` (0: no choice). To choose one, measure them, then open a device with the chosen algorithm in its
 * table. AH_E_USAGE: the op is no product. AH_E_UNSUPPORTED. */
int ah_device_algorithms(struct ah_device *device, const struct ah_op *product,
                         struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                         struct ah_error *err);

/* Takes the arenas (sizes by enum ah_arena_kind) and zeroes them. AH_E_CAPACITY: the device arena and reserve_bytes
 * exceed `memory_bytes`, or the machine has too little free memory. AH_E_MEMORY: the system refuses the memory. After
 * these errors no arena is taken, and you may try smaller ones. AH_E_USAGE: the arenas are already reserved. */
int ah_device_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                      struct ah_error *err);

/* Checks all `n` submissions, then queues them in order. The checks cover op (ah_op_check), reach, lane, and waits,
 * which may refer to earlier entries of the array. Writes `n` tickets to `ret_tickets` (optional). After AH_E_USAGE,
 * AH_E_CAPACITY, or AH_E_UNSUPPORTED naming op and device, none is queued. */
int ah_device_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                     uint64_t *ret_tickets, struct ah_error *err);

/* Returns the last ticket given by `lane`; the lane's next op gets the one after it. */
uint64_t ah_device_submitted(const struct ah_device *device, uint32_t lane);

/* Blocks until `ticket` of `lane` is done; returns at once for ticket 0. Fails with the device's first failure, naming
 * lane and op. AH_E_USAGE for a ticket that was never given. */
int ah_device_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err);

/* Blocks until one of `n` waits, at most AH_DEVICE_LANES_MAX, is done, and sets `ret_met` to the first one found done.
 * Fails with the errors of ah_device_wait(). */
int ah_device_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                       struct ah_error *err);

/* Waits for every lane. */
int ah_device_drain(struct ah_device *device, struct ah_error *err);

/* Returns the op that failed first, once a wait has reported it. `any` false: none failed, or it is not known. */
struct ah_device_failed ah_device_failed(const struct ah_device *device);

/* Returns the last ticket of `lane` that is done. Never blocks, so use it for polling. */
uint64_t ah_device_done(struct ah_device *device, uint32_t lane);

/* Writes the times of finished ops after the reader's position, oldest first, at most `max`. Moves the reader past them
 * and returns their number. Any thread may call it at any time with its own reader. */
size_t ah_device_spans(struct ah_device *device, struct ah_span_reader *reader, struct ah_span *ret_spans,
                       size_t max);

/* Returns a reader positioned before the `n` newest finished ops of `lane`. */
struct ah_span_reader ah_device_newest(struct ah_device *device, uint32_t lane, uint64_t n);

/* Waits for every lane, then starts recording what the hardware does for submitted ops: kernels, copies and fills.
 * Costs time only while recording. Submitter's thread. AH_E_UNSUPPORTED: the device has no recorder. AH_E_MISSING,
 * AH_E_MEMORY, AH_E_FAILED (for example, another profiler is active): nothing is recorded, and the device is unchanged.
 * AH_E_USAGE: the device records already. */
int ah_device_record(struct ah_device *device, struct ah_error *err);

/* Waits for every lane, ends the recording and returns it, *borrowed* until the device records again or is closed.
 * Submitter's thread. Fails with the errors of ah_device_record(); then there is no recording, and the device is
 * unchanged. AH_E_USAGE: the device does not record. */
int ah_device_recorded(struct ah_device *device, struct ah_device_recording *ret_recording,
                       struct ah_error *err);

/* Returns the measured device memory outside the arena or, if that is more, reserve_bytes. */
uint64_t ah_device_outside_bytes(const struct ah_device *device);

/* Returns a pointer to an operand if the host can read it and the arena contains it; otherwise NULL. */
void *ah_device_pointer(struct ah_device *device, struct ah_ref ref);

const char *ah_device_lane_name(uint32_t lane);

/* Waits for all lanes and frees the device. NULL is fine. */
void ah_device_close(struct ah_device *device);

/* Releases the kept memory. Call it after closing the last device that uses `keep`. */
void ah_device_keep_release(struct ah_device_keep *keep);

#endif
