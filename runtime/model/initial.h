/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial: the weights with which training from scratch begins.
 *
 * Every element depends only on the seed, its block, and its index in the block's flat vector. So any thread may
 * compute any part of a block, and the bits are the same on every machine. Elements are made by Philox (base/philox.h,
 * AH_PHILOX_INIT) and Box-Muller, with our own logarithm and sine, which use IEEE operations only.
 *
 * The distributions are those of the transformers library: matrices and tables normal with mean 0 and deviation
 * `initializer_range`, norms 1, biases and the padding token's row of the embedding 0; in gpt2 the two projections
 * into the residual stream have deviation `initializer_range` / sqrt(2 * layers). Of an adapter, A is uniform within
 * 1 / sqrt(inputs), and B is 0.
 *
 *     rc = ah_initial_load(model, seed, pool, &sink, err);                // the sink of ah_weights_load()
 *     ah_initial_fill(model, seed, &piece, values);                       // or any piece, on any thread
 */
#ifndef AH_RUNTIME_MODEL_INITIAL_H
#define AH_RUNTIME_MODEL_INITIAL_H

#include "base/pool.h"
#include "runtime/model/weights.h"

/* Computes the values of a piece. Allocates nothing. Any thread. */
void ah_initial_fill(const struct ah_model *model, uint64_t seed, const struct ah_weights_piece *piece,
                     float *ret_values);

/* Hands every parameter to the sink on the calling thread, in the order of ah_weights_load(). Threads of `pool`
 * (optional) compute the values. Errors of the sink; AH_E_MEMORY. */
int ah_initial_load(const struct ah_model *model, uint64_t seed, struct ah_pool *pool,
                    const struct ah_weights_sink *sink, struct ah_error *err);

/* Like ah_initial_load(), but hands out the adapters only, if the model has any. */
int ah_initial_load_adapters(const struct ah_model *model, uint64_t seed, struct ah_pool *pool,
                             const struct ah_weights_sink *sink, struct ah_error *err);

/* Returns the standard deviation of a tensor of a block of this kind; 0 for norms and biases. */
double ah_initial_deviation(const struct ah_model *model, enum ah_block_kind kind, size_t tensor);

#endif
