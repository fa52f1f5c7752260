/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: lists each matrix product that a plan of a job might run, once. A machine chooses their algorithms.
 */
#ifndef AH_RUNTIME_SCHEDULE_PRODUCTS_H
#define AH_RUNTIME_SCHEDULE_PRODUCTS_H

#include "base/arena.h"
#include "runtime/schedule/job.h"
#include "schemas/algorithms.h"

/* Lists the products of every group, pass and config, in that order, in `arena`. The entries have no words. Products
 * that do not fit in a table of algorithms are left out. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_products_list(const struct ah_job *job, struct ah_arena *arena, struct ah_algorithm **ret_products,
                     size_t *ret_n, struct ah_error *err);

/* Selects the machine's algorithms for the job's products, in the machine's order and without times, as plans contain
 * them. The result is in `arena`; it is NULL if `algorithms` is. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_products_select(const struct ah_job *job, const struct ah_algorithms *algorithms,
                       struct ah_arena *arena, struct ah_algorithms **ret_algorithms, struct ah_error *err);

#endif
