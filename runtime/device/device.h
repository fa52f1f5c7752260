/* SPDX-License-Identifier: Apache-2.0
 *
 * Device: runs ops. One object is one rank: an accelerator (or the CPU in its place), the host beside it, their memory
 * and their lanes.
 *
 * LIFE. Open finds the device and starts its lanes. Prepare builds everything that ops of given shapes need in addition
 * to their operands; `reserve_bytes` is then the memory for all that. Reserve takes the arenas, but refuses if the
 * device arena and reserve_bytes together exceed the device memory in the options. Then ops are submitted; nothing is
 * allocated any more.
 *
 * MEMORY is three arenas of fixed size: the device arena, pinned and pageable host memory. An operand is an arena and
 * an offset (op.h); plans choose the offsets.
 *
 * LANES run ops one after another; different lanes run at the same time. The n-th op submitted to a lane has ticket n
 * (from 1). An op may wait for tickets of other lanes that were submitted before it, so no order can deadlock. Tickets
 * are a timeline: a wait for n also waits for all tickets before it. The submitter knows every ticket beforehand, so an
 * iteration is one array, which a device may batch or capture as it likes. Submitting never waits for the device unless
 * a lane's queue is full: whole iterations are queued ahead. The lanes are compute, h2d, d2h and host. With `messages`,
 * there are also send, two lanes that receive, and sums. One receives from the rank before in the pipeline, the other
 * from the rank behind: in a single lane, the first gradient would wait behind an input that comes later.
 *
 * REACH. What a lane may run and touch is the same on every device, so that an order that runs on one runs on all;
 * device.c has a table, with a row per lane. Compute ops use the device arena, host ops the host arenas; h2d and d2h
 * copy between the pinned and the device arena. Only the host lane and sums touch pageable memory: a driver would stage
 * copies of it and might hold up the submitter, so host ops copy such data to pinned memory. Compute runs all kinds but
 * `call`, host all but matrix products and attention. Lanes of messages only send or receive, but sums also adds.
 *
 * FAILURE sticks. After an op failed, ops that have not started are skipped on every lane, tickets still complete so
 * that nobody hangs, and every wait reports the first failure with the op's name. Close the device.
 *
 * A STALL is not a failure: nothing fails, but nothing ends either. If the options limit how long that may last, a
 * separate thread watches for it (watch.h), finds what each lane is doing, and tells the program. The program should
 * then end, because a thread that waits inside a vendor's driver cannot be called back.
 *
 * A DRIVER is a const table of functions, one per kind of device. The CPU's is linked in; CUDA's comes from a plugin
 * (device_plugin.h). It begins with two numbers: one for the meaning of functions and fields, one for the memory layout
 * of structs that cross the border. A driver whose numbers differ from this build's is refused. The functions
 * ah_device_*() check all that is the same for every driver, then call the table: a driver sees only valid submissions.
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

enum { AH_DEVICE_ABI = 10, AH_DEVICE_NAME_MAX = 128, AH_DEVICE_WAITS_MAX = 8 };

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
    AH_LANE_SUMS, /* messages between ranks, and adding them up */
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

    /* The op's own time is not needed: the device may record one span for it and the next op of the array, which has
     * the same lane and tag, and no waits. The span then has the ticket of the last op joined. */
    bool joins;

    /* If the options have a `pace`: AH_PACE_BEGINS on the first op of an item, AH_PACE_ENDS on the last. */
    uint8_t pace;
};

enum { AH_PACE_BEGINS = 1, AH_PACE_ENDS = 2 };

/* Makes items take longer than they need. Called on the lane's thread: after the waits of an item's first op, and when
 * its last op is done. Both return when the lane may continue. */
struct ah_device_pace {
    int (*begin)(void *context, uint32_t lane, uint64_t tag, struct ah_error *err);
    void (*end)(void *context, uint32_t lane, uint64_t tag);
    void *context;
};

/* When an op ran, or several that were joined, on the host's monotonic clock. */
struct ah_span {
    uint64_t ticket;   /* of the last op */
    uint64_t tag;      /* the submitter's */
    uint64_t ready_ns; /* the op had reached the head of its lane */
    uint64_t start_ns; /* its waits were met */
    uint64_t end_ns;
    uint64_t joined; /* number of ops before `ticket` that the span also covers */
};

/* A reader's position in the spans of a lane. A reader with only `lane` set begins at the lane's first op. */
struct ah_span_reader {
    uint32_t lane;
    uint64_t seen; /* last ticket that was read or lost */
    uint64_t lost; /* spans overwritten before they were read, so far */
};

/* Something that the hardware did for an op; an op has one or several. */
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

/* What was recorded between two moments. */
struct ah_device_recording {
    const struct ah_device_activity *activities; /* sorted by lane and start */
    size_t n;
    uint64_t lost;        /* number of further records, which had no room or no times */
    uint64_t overhead_ns; /* time that recording itself took, if the recorder reports it */
    const char *recorder; /* what recorded, with its version: "CUPTI 13.0" */
};

/* Rates to which lanes are slowed (0: not slowed) so that their ratios to compute match another machine: `--emulate`.
 * An op takes at least latency + work / rate; the lane sleeps for the rest. `both_kept` is the share of its rate that a
 * copy lane keeps while the other copies. On the host lane, AdamW's work is its parameters; the work of other ops,
 * except `call`, is the bytes they move (ah_op_moved_bytes). */
struct ah_device_throttle {
    double h2d_bytes_per_s;
    double d2h_bytes_per_s;
    double copy_latency_us;
    double both_kept; /* 0 means 1 */
    double host_adam_params_per_s;
    double host_bytes_per_s;
};

/* Which of a library's algorithms a matrix product uses. The choice is made once for a machine and stored in its
 * document. It decides bits, so it is part of the numeric signature and is never made while a plan runs. */
struct ah_device_algorithm {
    struct ah_op product; /* a matmul; offsets of its operands do not matter */
    uint64_t words[8]; /* in the library's own format, as the device that measured the algorithm wrote them */
};

/* What to do when the device stalls. */
struct ah_device_watch {
    double patience_s; /* how long a call may wait while no op completes; 0: the device is not watched */

    /* Called once, on the watching thread, with AH_E_STALLED and a sentence about every lane. It should end the
     * process: closing the device may wait for ever. If it returns, all calls continue to wait. */
    void (*stalled)(void *context, const struct ah_error *why);
    void *context;

    /* (optional) Prints the submitter's name for the op with this tag: "'forward' of block 'layer.3'"; "": none. */
    void (*name)(const void *context, uint64_t tag, char *ret_name, size_t room);
    const void *name_context;

    /* (optional; both with `name_context`, on the watching thread: they may not block) `other_waits` prints what else
     * the program waits for, as part of a sentence; true if it waits for other ranks. If so, and no op has begun, the
     * stall is reported only after another quarter of patience_s, so that those ranks report first. `pulse`: a number
     * that changes with any progress elsewhere. */
    bool (*other_waits)(const void *context, char *ret_text, size_t room);
    uint64_t (*pulse)(const void *context);
};

/* Locked host memory that outlives a device, because locking takes seconds for each 10 GiB. Devices opened one after
 * another with the same keep share it. Zero the struct before the first opens. */
struct ah_device_keep {
    void *memory; /* the driver's own; NULL: none */
    void (*release)(void *memory);
};

struct ah_device_options {
    uint32_t index;        /* number of the device among those of its kind */
    uint64_t memory_bytes; /* limit for device arena and reserve_bytes together; 0: all memory */

    /* The machine's table of algorithms, and the name of their library, as in a device's info; borrowed until the
     * device is closed. A device with a different library refuses the table (AH_E_MISMATCH). A product that is not in
     * the table uses the library's first choice, which depends only on product, device and library. A device whose
     * products depend only on the shape, such as the CPU, needs no table. */
    const char *library; /* (optional) NULL: any */
    const struct ah_device_algorithm *algorithms;
    size_t n_algorithms;

    uint32_t compute_threads; /* CPU: cores of the compute lane; 0: three quarters, leaving at least one */
    uint32_t host_threads;    /* cores of the host lane; 0: the cores without compute, at least one */
    bool
        pin_submitter; /* GPUs: pins the thread that calls reserve and submits to a separate core of the process's
                        * affinity mask, until it closes the device. Threads that it starts meanwhile inherit the
                        * pin. host_threads is then at most all cores but one. */
    bool messages; /* adds the lanes for messages to other ranks; AH_E_UNSUPPORTED if the driver has none */
    bool shared;   /* CPU: other ranks compute on this machine, too, so no thread is tied to a processor */
    uint32_t
        product_forms; /* CPU: how many of the first forms of bf16 products are allowed (info.product_form); 0: all */
    uint32_t queue; /* ops a lane's queue holds; 0: 1024 */
    uint32_t spans; /* finished ops whose times a lane remembers, the oldest overwritten; 0: 1024 */
    struct ah_device_throttle throttle;
    struct ah_device_pace pace; /* (optional, both functions or none; drivers with `messages`) */
    struct ah_device_watch watch;

    /* (optional; drivers with `messages`) Called once, for the first op that fails, on its lane's thread, before ops
     * that wait for it are released, because other ranks may wait for a message that is now skipped. */
    void (*failed)(void *context, const struct ah_error *why);
    void *failed_context;
    struct ah_device_keep *keep; /* (optional) GPUs: borrowed until the device is closed */
};

/* How bf16 products of a CPU add up (tile.h, ARITHMETIC). */
enum ah_product_form { AH_PRODUCT_FMA, AH_PRODUCT_DOT, AH_PRODUCT_AMX, AH_PRODUCT_FORMS };
extern const char *const ah_words_product_form[];

/* Prepared matrix products. A product that the library lacks is made in steps, which is slower: rows of fp32 sums,
 * finished by a kernel. */
struct ah_device_products {
    uint32_t n;
    uint32_t in_steps;
    char first
        [AH_DEVICE_NAME_MAX]; /* the first product made in steps: "bias_gelu nn 4096x3072x768 bf16"; "": none */
};

/* What a lane is doing. */
struct ah_device_head {
    uint64_t submitted, done; /* tickets; `done` may lag behind the device */
    bool any;                 /* an op runs or is next: ticket done + 1; the fields below describe it */
    enum ah_op_kind kind;
    uint64_t tag;
    uint32_t n_waits;
    struct ah_wait waits[AH_DEVICE_WAITS_MAX]; /* its waits, whether met or not */
    const char *note; /* what holds the op up besides its waits, or why nothing is known about it; or NULL */
};

struct ah_device_info {
    enum ah_device_kind kind;
    char name[AH_DEVICE_NAME_MAX];
    uint64_t memory_bytes;
    uint64_t free_bytes;
    uint64_t locked_bytes; /* locked part of the reserved pinned arena; not all of it if the system refused */
    bool bf16;
    bool supports[64];     /* by enum ah_op_kind */
    uint32_t product_form; /* CPU: its last (fastest) enum ah_product_form; forms differ in bits */

    /* Set when opened: the library for matrix products, with its version; "": no algorithms to choose from. */
    char library[AH_DEVICE_NAME_MAX];
    char address[AH_DEVICE_NAME_MAX]; /* on the PCI bus, "0000:17:00.0"; "": none */
    struct ah_device_products products;

    /* Device memory outside the arena, measured once arenas are reserved and kernels are loaded: context, code,
     * workspace, page tables. 0: not measured. The device's `reserve_bytes` is the earlier estimate. */
    uint64_t outside_bytes;
};

struct ah_device_driver {
    uint32_t abi;     /* AH_DEVICE_ABI */
    uint32_t layout;  /* AH_DEVICE_LAYOUT */
    const char *name; /* "cpu", "cuda" */
    bool messages;    /* the driver has lanes for messages */

    /* Lists devices; `ret_n` may exceed `max`. AH_E_MISSING says what is missing and how to get it. */
    int (*probe)(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err);
    int (*open)(struct ah_device **ret_device, const struct ah_device_options *options, struct ah_error *err);
    void (*close)(struct ah_device *device);

    /* (optional; NULL: there is nothing to build) Builds everything that ops of these shapes need beyond their
     * operands, and sets reserve_bytes. Called with every lane idle. */
    int (*prepare)(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err);

    /* Takes the arenas; once. On failure none is taken. */
    int (*reserve)(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                   struct ah_error *err);

    /* Submissions are checked already; the n-th op of a lane has ticket n. Before it queues any, the driver refuses
     * what it cannot do or was not prepared for. */
    int (*submit)(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                  struct ah_error *err);
    int (*wait)(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err);
    int (*wait_any)(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                    struct ah_error *err);
    uint64_t (*done)(struct ah_device *device, uint32_t lane);

    /* Returns spans of ops with tickets above `after` that the lane still remembers, oldest first. */
    size_t (*spans)(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                    size_t max);

    /* (optional: none to choose from) The algorithms for a product, the library's first choice first; at most `max`. */
    int (*algorithms)(struct ah_device *device, const struct ah_op *product,
                      struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                      struct ah_error *err);

    /* (optional, both or none: nothing is recorded) As ah_device_record() and ah_device_recorded(). */
    int (*record)(struct ah_device *device, struct ah_error *err);
    int (*recorded)(struct ah_device *device, struct ah_device_recording *ret_recording,
                    struct ah_error *err);

    /* (optional, all three or none: the device is not watched) For a thread that watches while others wait: `pulse` and
     * `head` may not block, nor call what could. `pulse` changes with any progress: an op was done, or an op on the
     * host's processors used processor time. `drain` waits until nothing runs, whatever failed; then `close` does not
     * wait. */
    uint64_t (*pulse)(struct ah_device *device);
    void (*head)(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head);
    void (*drain)(struct ah_device *device);

    /* Returns the address of a host arena (on the CPU device: any arena); NULL if the host cannot read it. */
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
    uint64_t reserve_bytes;         /* device memory outside the arena for everything prepared so far */
    struct ah_device_failed failed; /* set once, before a wait reports the failure */

    /* fields of device.c */
    uint64_t memory_bytes; /* as in the options */
    uint64_t arena_bytes[AH_ARENA_KINDS];
    bool is_reserved;
    uint64_t submitted[AH_DEVICE_LANES_MAX]; /* last ticket of each lane; used atomically */

    /* fields of watch.h; the counts are used atomically */
    struct ah_device_watcher *watcher; /* owned; NULL: the device is not watched */
    uint32_t waiting;                  /* number of calls that wait now */
    uint64_t waited;                   /* number of calls that have waited */
    uint64_t wait_what;                /* what the newest waiting call waits for */
};

/* A number that changes if the size of any struct that crosses a plugin's border changes, or the number of op kinds or
 * lanes: a sum of them with very different weights. */
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

/* Returns AH_OK if the driver's table fits this build; AH_E_MISMATCH says what differs. `origin`: the driver's file or
 * name. Reads only `abi` and `layout`. */
int ah_device_check_driver(const struct ah_device_driver *driver, const char *origin, struct ah_error *err);

/* Finds the device and starts its lanes. AH_E_USAGE: options make no sense; AH_E_MISMATCH: the driver is from another
 * build; AH_E_MISSING: there is no such device. */
int ah_device_open(struct ah_device **ret_device, const struct ah_device_driver *driver,
                   const struct ah_device_options *options, struct ah_error *err);

/* Builds what the ops need; must precede the first submit of a matrix product or attention of a new shape. Ops that
 * need nothing are ignored, shapes already prepared cost nothing. Waits for every lane first. May be called several
 * times, even after ah_device_reserve(), within the rest of `memory_bytes`. AH_E_UNSUPPORTED for an op this device
 * cannot do, AH_E_CAPACITY. */
int ah_device_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err);

/* Writes the algorithms that this device offers for a product, the library's first choice first. Measure to choose one:
 * a device opened with that algorithm in its table uses it. Writes `ret_n`, at most `max`; 0: no choice. AH_E_USAGE:
 * the op is no product. AH_E_UNSUPPORTED. */
int ah_device_algorithms(struct ah_device *device, const struct ah_op *product,
                         struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                         struct ah_error *err);

/* Takes the arenas (sizes by enum ah_arena_kind), zeroed. AH_E_CAPACITY: device arena and reserve_bytes exceed
 * `memory_bytes`, or the machine has not enough memory free; AH_E_MEMORY: the system refuses it. After these errors no
 * arena is taken, and you may ask for less. AH_E_USAGE: called a second time. */
int ah_device_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                      struct ah_error *err);

/* Checks each of `n` submissions: op (ah_op_check), reach, lane and waits, which may refer to earlier entries of the
 * same array. Then queues them in order. `ret_tickets` (optional): n of them. AH_E_USAGE, AH_E_CAPACITY, or
 * AH_E_UNSUPPORTED naming op and device; then none was queued. */
int ah_device_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                     uint64_t *ret_tickets, struct ah_error *err);

/* Returns the last ticket given by `lane`; the lane's next op gets the one after it. */
uint64_t ah_device_submitted(const struct ah_device *device, uint32_t lane);

/* Blocks until `ticket` of `lane` is done (0: returns at once). Reports the device's first failure, with lane and op.
 * AH_E_USAGE for a ticket that was never given. */
int ah_device_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err);

/* Blocks until one of `n` waits, at most AH_DEVICE_LANES_MAX, is done; `ret_met` is the index of the first one done.
 * Errors as ah_device_wait(). */
int ah_device_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                       struct ah_error *err);

/* Waits for every lane. */
int ah_device_drain(struct ah_device *device, struct ah_error *err);

/* Returns the op whose failure a wait reported. `any` false: no op failed, or the driver does not know which. */
struct ah_device_failed ah_device_failed(const struct ah_device *device);

/* Returns the last ticket of `lane` that is done. Never blocks, so use it for polling. */
uint64_t ah_device_done(struct ah_device *device, uint32_t lane);

/* Returns times of finished ops, oldest first, at most `max`, and moves the reader past them. Any thread may call it
 * with its own reader, at any time. */
size_t ah_device_spans(struct ah_device *device, struct ah_span_reader *reader, struct ah_span *ret_spans,
                       size_t max);

/* Returns a reader that begins with the `n` newest finished ops of `lane`. */
struct ah_span_reader ah_device_newest(struct ah_device *device, uint32_t lane, uint64_t n);

/* Waits for every lane. From then on, until ah_device_recorded(), the device records what its hardware does for
 * submitted ops: kernels, copies and fills. Costs time only while recording. Submitter's thread. AH_E_UNSUPPORTED: the
 * device has no recorder. AH_E_MISSING, AH_E_MEMORY, AH_E_FAILED (for example, another profiler is active): nothing is
 * recorded, and the device is unchanged. AH_E_USAGE: the device records already. */
int ah_device_record(struct ah_device *device, struct ah_error *err);

/* Waits for every lane and ends the recording, which is *borrowed* until the device records again or is closed.
 * Submitter's thread. On errors, which are those of ah_device_record(), there is no recording, and the device is
 * unchanged. AH_E_USAGE: the device does not record. */
int ah_device_recorded(struct ah_device *device, struct ah_device_recording *ret_recording,
                       struct ah_error *err);

/* Returns the device memory outside the arena: the measured bytes, but no less than reserve_bytes. */
uint64_t ah_device_outside_bytes(const struct ah_device *device);

/* Returns a pointer to an operand if the host can read it and the arena contains it; otherwise NULL. */
void *ah_device_pointer(struct ah_device *device, struct ah_ref ref);

const char *ah_device_lane_name(uint32_t lane);

/* Drains and frees; NULL is fine. */
void ah_device_close(struct ah_device *device);

/* Releases what is kept. Call it once the last device is closed. */
void ah_device_keep_release(struct ah_device_keep *keep);

#endif
