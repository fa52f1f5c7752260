/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: the matrix products of a job's programs, each once, whatever a plan decides: what there is to choose
 * algorithms for.
 */
#ifndef AH_RUNTIME_SCHEDULE_PRODUCTS_H
#define AH_RUNTIME_SCHEDULE_PRODUCTS_H

#include "base/arena.h"
#include "runtime/schedule/job.h"
#include "schemas/algorithms.h"

/* The products of every group, pass and config, in their order, as entries without words, in arena. Those that tables of
 * algorithms do not have are left out. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_products_list(const struct ah_job *job, struct ah_arena *arena, struct ah_algorithm **ret_products,
                     size_t *ret_n, struct ah_error *err);

/* Of the machine's algorithms those of the job's products, without times, in their order there: what a plan has. In
 * arena; NULL where `algorithms` is NULL. Errors as above. */
int ah_products_select(const struct ah_job *job, const struct ah_algorithms *algorithms,
                       struct ah_arena *arena, struct ah_algorithms **ret_algorithms, struct ah_error *err);

#endif
