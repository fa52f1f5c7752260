/* SPDX-License-Identifier: Apache-2.0
 *
 * Pricing: computes the costs of schedules and plans from a machine document and a job.
 *
 * A block's times come from the document's `blocks` if its group's program was measured with as many threads. Otherwise
 * they are estimates from measured rates: each primitive of the block (runtime/schedule/program.h) at the rate of the
 * nearest measured product, or at the speed of memory. Links, optimizer and sharing use measured numbers.
 * docs/planning.md ("Costs") has every formula and its omissions.
 *
 *     struct ah_plan_threads splits[AH_PRICING_SPLITS_MAX];
 *     size_t n = ah_pricing_thread_splits(machine, splits, AH_PRICING_SPLITS_MAX);
 *     rc = ah_pricing_fill(machine, &job, &splits[0], arena, &costs, err);
 *
 * The job of several equal GPUs (shards) gets the costs of one of them, which shares the host with the others
 * (pricing_gpus.c). ah_pricing_fabric() adds those of its messages.
 *
 * When a rate in the document rises, no time rises.
 */
#ifndef AH_PLANNER_COST_PRICING_H
#define AH_PLANNER_COST_PRICING_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/schedule/costs.h"
#include "schemas/machine.h"

#include <stddef.h>

enum { AH_PRICING_SPLITS_MAX = 16 };

/* Lists ways to divide the host's cores among lanes, in a fixed order; returns their number, at most `max`. On a CPU
 * device a split pairs thread counts measured for products and for host Adam, together at most the machine's cores (one
 * each on a single core). If blocks were measured on all cores, compute may share all of them with the host lane. A GPU
 * has one split: {0, the count with the fastest host Adam}. 0: the document has no product or no host Adam. */
size_t ah_pricing_thread_splits(const struct ah_machine *machine, struct ah_plan_threads *ret_splits,
                                size_t max);

/* Computes the costs of a job. `threads`: one of the splits; NULL: the first. AH_E_DOCUMENT: the document lacks a
 * number of this job; the message says how to get it. Texts and arrays of `ret_costs` are in `arena`. */
int ah_pricing_fill(const struct ah_machine *machine, const struct ah_job *job,
                    const struct ah_plan_threads *threads, struct ah_arena *arena, struct ah_costs *ret_costs,
                    struct ah_error *err);

/* Sets the costs of messages between equal GPUs, each of which sends and receives at this rate. */
void ah_pricing_fabric(const struct ah_machine *machine, double bytes_per_s, struct ah_costs *costs);

#endif
