/* SPDX-License-Identifier: Apache-2.0
 *
 * Double of the CUDA runtime, and of the few driver calls that the plugin makes: GPUs that this machine has not.
 * Kernels run on the emulator (emulator.h).
 *
 * It keeps CUDA's order and no more: a stream is a thread that runs what was enqueued, streams run at the same time,
 * copies take a while if told so, so that who does not wait reads what was there before. Device memory is the heap's,
 * counted against what the device has, and is full of NaN at first; the address sanitizer guards its ends. A kernel
 * that fails, or a call that is told to fail with such a code, breaks the device as on the hardware: every call after
 * it returns that code.
 *
 * MISUSE that hardware punishes late, seldom or by being slow is refused here, with a sentence on stderr: copies
 * between places that are not what their kind says, not inside an allocation, freed or not pinned; events and streams
 * that are none; waiting for an event that was never recorded; launches beyond the limits of the hardware; a kernel's
 * first launch, which loads its code and may wait for all streams, while one of them waits for a value of the host, and
 * whatever takes or gives memory, for the same reason; streams that wait for the default stream.
 *
 * Tests linked with it say here what it shall be. Programs that load the plugin take it from the environment:
 *
 *     AUTOHETE_CUDA_DOUBLE=memory=1GiB,copy_delay_us=50,fail=cudaMalloc:3:2 autohete run ...
 *
 *     memory=SIZE, others=SIZE       what each device has, and what of it others use (KiB, MiB, GiB)
 *     devices=N, processors=N, capability=8.0, driver=13000
 *     kernel=SIZE                    what the code of a kernel takes of the device's memory, at its first launch;
 *     256KiB pages=SIZE                     what page tables of locked host memory take of it, for each MiB; 0 if not
 *     told shared=SIZE                    what a block may have of shared memory: 99KiB on GPUs of 8.6 and 8.9
 *     copy_delay_us=N, kernel_delay_us=N     before each threads=N                      that share the blocks of a
 *     launch, at most 8; 2 if not told order=SEED                     threads of a block go on in a random order
 *     code=FOLDER                    kernels run from the files that nvcc made of them (ptx/ptx.h), not from their
 *     source hang=CALL:N                    the Nth call of that name does not come back; of one that enqueues work,
 *     the work
 *                                    never ends. May be given again
 *     channel=N                      a stream holds so many pieces of work; who enqueues one more waits
 *     counts=FILE                    what they did is appended to that file at the program's end
 *     fail=CALL:N:CODE               the Nth call of that name (`any`: of all) returns CODE; may be given again
 *     skip=KERNEL                    launches that name their kernel so do nothing (`kernel` is what most call it):
 *     results are wrong missing=SYMBOL                 the driver has no such function; may be given again
 *     profiler=NAME                  has CUPTI already cupti=VERSION, drop=N          CUPTI's version; of N records it
 *     loses one cublaslt=VERSION               cuBLASLt's version, 130100 for 13.1.0 plain=1
 *     cuBLASLt has no products with epilogues
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
    size_t pin_bytes;       /* the driver locks at most so many in one call; 0: as many as are asked for */
    size_t shared_bytes;    /* shared memory that a block may have at most; 0: as much as there is, 227 KiB */
    cudaError_t properties; /* what cudaGetDeviceProperties() of it returns */
    cudaError_t memory;     /* what cudaMemGetInfo() of it returns */
};

struct cuda_double_fault {
    char call[CUDA_DOUBLE_NAME_MAX];
    uint64_t nth; /* from 1; 0: none */
    cudaError_t code;
};

struct cuda_double {
    cudaError_t count_error; /* what keeps the driver from working: every call returns it */
    int driver_version;      /* 0: there is none */
    int n;
    struct cuda_double_device devices[CUDA_DOUBLE_DEVICES];
    unsigned copy_delay_us;
    unsigned kernel_delay_us;
    size_t
        kernel_bytes; /* of the device's memory, that the code of each kernel takes at its first launch there */
    size_t page_bytes; /* of the device's memory, for each MiB of locked memory of the host */
    unsigned threads;
    uint64_t order;
    char code[1024]; /* a folder; "": kernels run from their source */
    char counts[1024];
    struct cuda_double_fault faults[CUDA_DOUBLE_FAULTS];
    struct cuda_double_fault hangs[CUDA_DOUBLE_FAULTS]; /* without a code */
    unsigned channel;                                   /* 0: as many as there are */
    char missing[CUDA_DOUBLE_FAULTS][CUDA_DOUBLE_NAME_MAX];
    char profiler[CUDA_DOUBLE_NAME_MAX]; /* that has CUPTI already; "": none */
    unsigned cupti_version;              /* 0: that of its headers */
    unsigned cublaslt_version;           /* 0: that of its headers */
    unsigned plain;                      /* 1: it has no epilogues */
    char skip[CUDA_DOUBLE_NAME_MAX];     /* kernels with this in their name do nothing; "": none */
    unsigned drop;                       /* of so many records CUPTI loses one; 0: none */
    unsigned cupti_buffer_bytes;         /* it uses of a buffer; 0: all */
};

/* One device of 1 GiB and 4 processors, changed by what the environment says. */
struct cuda_double cuda_double_default(void);

/* What it is from now on. Calls are counted from 0, the calling thread's device is 0, no kernel's code is loaded, and
 * nothing has failed. */
void cuda_double_set(const struct cuda_double *settings);

/* Adds a fault to the settings; counting goes on from where it is. */
void cuda_double_fail(const char *call, uint64_t nth, cudaError_t code);

/* Adds a hang to the settings, or changes a number of them; counting goes on from where it is. */
void cuda_double_hang(const char *call, uint64_t nth);
void cuda_double_narrow(unsigned channel);

/* Lets everything go on that hangs, and nothing hang any more, until the next cuda_double_set(). */
void cuda_double_go_on(void);

/* How many calls, and streams, hang now. */
unsigned cuda_double_hanging(void);

/* Calls of that name so far; `any`: all. The i-th name that was called, NULL behind the last. */
uint64_t cuda_double_calls(const char *call);
const char *cuda_double_called(unsigned i);

/* How often it was misused, and the last sentence about it, or about the kernel that failed. */
unsigned cuda_double_misuses(void);
void cuda_double_report(char ret_text[CUDA_DOUBLE_REPORT_MAX]);

/* What is there now: bytes of device memory, pinned ranges, streams, events. Of all devices. */
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
