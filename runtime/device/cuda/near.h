/* SPDX-License-Identifier: Apache-2.0
 *
 * Near: which processors of the host are nearest to a GPU, so that what they work on, and the memory they touch first,
 * lies on its side of the machine. After the kernel's files; on a machine with one NUMA node, all.
 *
 *     struct ah_cuda_near near;
 *     ah_cuda_near_find(&near, &(struct ah_cuda_near_options){.address = "0000:65:00.0"});
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_NEAR_H
#define AH_RUNTIME_DEVICE_CUDA_NEAR_H

#include <stdbool.h>

enum { AH_CUDA_NEAR_MAX = 1024 };

struct ah_cuda_near {
    unsigned threads;           /* of the host lane */
    int cpus[AH_CUDA_NEAR_MAX]; /* of each of them; -1: not pinned */
    int submitter;              /* processor of the thread that enqueues; -1: none is kept for it */
};

struct ah_cuda_near_options {
    const char *address; /* of the GPU on the PCI bus */
    unsigned
        threads; /* 0: a core each, but one for who submits, at most as many as control groups let be busy */
    bool submitter; /* keep a core for the thread that enqueues, so `threads` is at most all cores but one */
    const char *root;     /* (optional) a folder that stands for / */
    const unsigned *cpus; /* (optional) what may be used; NULL: what the calling thread may use */
    unsigned n_cpus;
};

/* Places the threads: on processors near the GPU before others, on one of every core before the second of any. More
 * threads than processors are not pinned. Files that are missing or damaged tell nothing. */
void ah_cuda_near_find(struct ah_cuda_near *ret_near, const struct ah_cuda_near_options *options);

/* Pins the calling thread to the submitter's processor, where there is one; threads that it starts inherit that.
 * `ret_before` is for ah_cuda_near_leave(), which undoes it. Where the system refuses, nothing changes. */
struct ah_cuda_near_mask {
    unsigned long bits[128]; /* of 8192 processors; all zero: nothing to undo */
};
void ah_cuda_near_enter(const struct ah_cuda_near *near, struct ah_cuda_near_mask *ret_before);
void ah_cuda_near_leave(struct ah_cuda_near_mask *before);

#endif
