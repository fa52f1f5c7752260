/* SPDX-License-Identifier: Apache-2.0
 *
 * Double of the CUDA runtime, and of the few driver calls that the plugin makes, for machines without a GPU. Kernels
 * run on the emulator (emulator.h).
 *
 * The double orders work exactly as far as CUDA guarantees. A stream is a thread that runs what was enqueued, and
 * streams run at the same time. Copies can be slowed, so a reader sees old data if it does not wait. Device memory is
 * heap memory, counted against the device's size and NaN at first; the address sanitizer guards its ends. If a kernel
 * fails, or a test makes a call fail with such a code, the device is broken: every later call returns that code.
 *
 * MISUSE that hardware punishes late, seldom or by being slow is refused here, with a sentence on stderr. It includes
 * copies with an end that contradicts their kind, is not inside one allocation, was freed or is not pinned. It includes
 * invalid events and streams, waits for an event that was never recorded, launches beyond the hardware's limits, and
 * streams that wait for the default stream. While a stream waits for a value from the host, misuse also includes calls
 * that take or free memory, and the first launch of a kernel, since loading its code may wait for all streams.
 *
 * Linked tests call the functions below. Programs that load the plugin take settings from the environment:
 *
 *     AUTOHETE_CUDA_DOUBLE=memory=1GiB,copy_delay_us=50,fail=cudaMalloc:3:2 autohete run ...
 *
 *     memory=SIZE, others=SIZE       each device's memory, and how much of it others use (KiB, MiB, GiB)
 *     devices=N, processors=N, capability=8.0, driver=13000
 *     kernel=SIZE                    device memory for the code of a kernel, taken at its first launch; default 256KiB
 *     pages=SIZE                     device memory for page tables, for each MiB of locked host memory; default 0
 *     shared=SIZE                    shared memory that a block may have: 99KiB on GPUs of 8.6 and 8.9
 *     copy_delay_us=N, kernel_delay_us=N     before each
 *     threads=N                      threads that share the blocks of a launch, at most 8; default 2
 *     order=SEED                     threads of a block run in a random order
 *     code=FOLDER                    kernels run from the files that nvcc made (ptx/ptx.h), not from their source
 *     hang=CALL:N                    the Nth call of that name never returns; if it enqueues work, the work never ends;
 *                                    may be given again
 *     channel=N                      a stream holds N pieces of work; a thread that enqueues one more waits
 *     counts=FILE                    what kernels did (ptx_counts()) is appended to that file at exit
 *     fail=CALL:N:CODE               the Nth call of that name (`any`: of all) returns CODE; may be given again
 *     skip=KERNEL                    kernels with this in their name do nothing (most are `kernel`): results are wrong
 *     missing=SYMBOL                 the driver has no such function; may be given again
 *     profiler=NAME                  another profiler that uses CUPTI already
 *     cupti=VERSION, drop=N          CUPTI's version; it loses one of N records
 *     cublaslt=VERSION               cuBLASLt's version, 130100 for 13.1.0
 *     plain=1                        cuBLASLt has no products with epilogues
 *     nccl=VERSION                   NCCL's version, 22809 for 2.28.9
 *     nccl_fails_at=N                an asynchronous error of NCCL at a world's Nth message
 *     nccl_slow=N                    a communicator is ready after N more looks at its state
 *     nccl_absent=1                  a communicator never becomes ready, as if a rank did not come
 */
#ifndef AH_TESTS_DOUBLE_CUDA_DOUBLE_H
#define AH_TESTS_DOUBLE_CUDA_DOUBLE_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_DOUBLE_DEVICES = 4,
    CUDA_DOUBLE_FAULTS = 8,
    CUDA_DOUBLE_NAME_MAX = 64,
    CUDA_DOUBLE_REPORT_MAX = 1200
};

struct cuda_double_device {
    const char *name;
    size_t memory_bytes;
    size_t others_bytes;
    int major, minor;
    int processors;
    size_t pin_bytes;       /* most that the driver locks in one call; 0: no limit */
    size_t shared_bytes;    /* most shared memory of a block; 0: as much as there is, 227 KiB */
    cudaError_t properties; /* returned by cudaGetDeviceProperties() */
    cudaError_t memory;     /* returned by cudaMemGetInfo() */
};

struct cuda_double_fault {
    char call[CUDA_DOUBLE_NAME_MAX];
    uint64_t nth; /* number of the failing call, counted from 1; 0: none */
    cudaError_t code;
};

struct cuda_double {
    cudaError_t count_error; /* if set, every call returns it, as if the driver did not work */
    int driver_version;      /* 0: no driver */
    int n;
    struct cuda_double_device devices[CUDA_DOUBLE_DEVICES];
    unsigned copy_delay_us;
    unsigned kernel_delay_us;
    size_t kernel_bytes; /* device memory for a kernel's code, from its first launch on that device */
    size_t page_bytes;   /* device memory for each MiB of locked host memory */
    unsigned threads;
    uint64_t order;
    char code[1024]; /* a folder; "": kernels run from their source */
    char counts[1024];
    struct cuda_double_fault faults[CUDA_DOUBLE_FAULTS];
    struct cuda_double_fault hangs[CUDA_DOUBLE_FAULTS]; /* their codes are not used */
    unsigned channel;                                   /* pieces of work that a stream holds; 0: no limit */
    char missing[CUDA_DOUBLE_FAULTS][CUDA_DOUBLE_NAME_MAX];
    char profiler[CUDA_DOUBLE_NAME_MAX]; /* another profiler that uses CUPTI already; "": none */
    unsigned cupti_version;              /* 0: its headers' version */
    unsigned cublaslt_version;           /* 0: its headers' version */
    unsigned plain;                      /* 1: cuBLASLt has no epilogues */
    char skip[CUDA_DOUBLE_NAME_MAX];     /* kernels with this in their name do nothing; "": none */
    unsigned nccl_version;               /* 0: its header's version */
    unsigned nccl_fails_at, nccl_slow, nccl_absent;
    unsigned drop;               /* CUPTI loses one of `drop` records; 0: none */
    unsigned cupti_buffer_bytes; /* bytes that CUPTI uses of a buffer; 0: all */
};

/* Returns one device of 1 GiB and 4 processors, changed by the environment. */
struct cuda_double cuda_double_default(void);

/* Replaces the settings. Call counts restart at 0, the thread's device is 0, no code is loaded, no call has failed. */
void cuda_double_set(const struct cuda_double *settings);

/* Adds a fault to the settings. The counts of calls continue. */
void cuda_double_fail(const char *call, uint64_t nth, cudaError_t code);

/* Adds a hang to the settings, or sets `channel`. The counts of calls continue. */
void cuda_double_hang(const char *call, uint64_t nth);
void cuda_double_narrow(unsigned channel);

/* Ends all hangs, and prevents new ones until the next cuda_double_set(). */
void cuda_double_go_on(void);

/* Returns the number of calls and streams that are hanging. */
unsigned cuda_double_hanging(void);

/* Return the number of calls of that name so far (`any`: of all), and the i-th name called, NULL after the last. */
uint64_t cuda_double_calls(const char *call);
const char *cuda_double_called(unsigned i);

/* Return the number of misuses so far, and the last sentence about a misuse or a failed kernel. */
unsigned cuda_double_misuses(void);
void cuda_double_report(char ret_text[CUDA_DOUBLE_REPORT_MAX]);

/* What exists now on all devices: bytes of device memory, pinned ranges, streams, events. */
struct cuda_double_alive {
    size_t device_bytes;
    size_t pinned_ranges;
    size_t streams;
    size_t events;
};

struct cuda_double_alive cuda_double_alive(void);

#ifdef __cplusplus
}
#endif
#endif
