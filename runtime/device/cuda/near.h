/* SPDX-License-Identifier: Apache-2.0
 *
 * Near: finds the host processors nearest to a GPU. Threads on them, and memory that these threads touch first, stay on
 * its side of the machine. Reads the kernel's files. On a machine with one NUMA node, all processors are near.
 *
 *     struct ah_cuda_near near;
 *     ah_cuda_near_find(&near, &(struct ah_cuda_near_options){.address = "0000:65:00.0"});
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_NEAR_H
#define AH_RUNTIME_DEVICE_CUDA_NEAR_H

#include <stdbool.h>

enum { AH_CUDA_NEAR_MAX = 1024 };

struct ah_cuda_near {
    unsigned threads;           /* number of threads of the host lane */
    int cpus[AH_CUDA_NEAR_MAX]; /* processor of each thread; -1: not pinned */
    int submitter;              /* processor of the thread that enqueues; -1: none is reserved */
};

struct ah_cuda_near_options {
    const char *address; /* the GPU's address on the PCI bus */
    unsigned
        threads; /* 0: one per core except the submitter's, but no more than control groups let run at once */
    bool
        submitter; /* reserves a core for the thread that enqueues; `threads` is then at most all cores but one */
    const char *root;     /* (optional) a folder to read instead of / */
    const unsigned *cpus; /* (optional) the processors to use; NULL: those of the calling thread */
    unsigned n_cpus;
};

/* Chooses processors for the threads. Near processors come first, and every core gets a thread before any core gets a
 * second. If there are more threads than processors, no thread is pinned. Missing or damaged files are ignored. */
void ah_cuda_near_find(struct ah_cuda_near *ret_near, const struct ah_cuda_near_options *options);

/* The processors on which a thread could run before ah_cuda_near_enter(). That call pins the thread, and all threads it
 * starts, to the submitter's processor; ah_cuda_near_leave() gives back the old set. If the system refuses, nothing
 * changes. */
struct ah_cuda_near_mask {
    unsigned long bits[128]; /* a bit for each of 8192 processors; all zero: nothing to undo */
};
void ah_cuda_near_enter(const struct ah_cuda_near *near, struct ah_cuda_near_mask *ret_before);
void ah_cuda_near_leave(struct ah_cuda_near_mask *before);

#endif
