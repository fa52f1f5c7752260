/* SPDX-License-Identifier: Apache-2.0
 *
 * Math: the compute lane's ops on host cores. They are norms, rotary positions, activations, embeddings, the loss and
 * attention. Matrix products, and ops that every device's host lane runs (host/host.h), are elsewhere.
 *
 * An op was checked when it was submitted (op.h). Each is split over the pool's threads in pieces that do not change
 * the result, computes in fp32 for operands of any type, and rounds once when it stores. Bits are the same for any
 * number of threads and any instruction set. The exception is attention with bf16 instructions, as for matrix products
 * (tile/tile.h); docs/numerics.md has the rules.
 *
 *     if (ah_math_does(op.kind))
 *         ah_math_run(&host, &op);
 *
 * Nothing is allocated and nothing can fail. One op at a time on a pool. Attention needs the host's workspace, prepared
 * for the op (workspace.h).
 */
#ifndef AH_RUNTIME_DEVICE_MATH_MATH_H
#define AH_RUNTIME_DEVICE_MATH_MATH_H

#include "runtime/device/host/host.h"

#include <stdbool.h>

/* True if ops of this kind run here. */
bool ah_math_does(enum ah_op_kind kind);

/* Runs an op of a kind that ah_math_does(). */
void ah_math_run(const struct ah_host *host, const struct ah_op *op);

#endif
