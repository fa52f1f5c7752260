/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/schedule/products.h"

#include "runtime/device/algorithm.h"
#include "runtime/schedule/program.h"

#include <stdlib.h>

struct list {
    struct ah_algorithm *items; /* in arena, with room for `room` entries */
    size_t n, room;
};

static void add_product(struct list *list, const struct ah_algorithm *product)
{
    for (size_t i = 0; i < list->n; i++)
        if (ah_algorithm_same_product(&list->items[i], product))
            return;
    if (list->n < list->room)
        list->items[list->n++] = *product;
}

/* Adds the products of a step. A repeated step has two if its first repetition writes c and the others add to c. */
static void add_step(struct list *list, const struct ah_program_op *step)
{
    struct ah_algorithm product;
    if (!ah_device_algorithm_entry(&step->op, &product))
        return;
    add_product(list, &product);
    if (step->first_writes) {
        product.accumulate = false;
        add_product(list, &product);
    }
}

static int add_group(struct list *list, struct ah_program *program, const struct ah_job *job,
                     const struct ah_job_group *group, struct ah_error *err)
{
    int rc = AH_OK;
    for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS && !rc; way++) {
            rc = ah_program_build(job, group, (enum ah_pass)pass, (enum ah_activations)way, program, err);
            for (size_t i = 0; !rc && i < program->n_ops; i++)
                add_step(list, &program->ops[i]);
        }
    return rc;
}

int ah_products_list(const struct ah_job *job, struct ah_arena *arena, struct ah_algorithm **ret_products,
                     size_t *ret_n, struct ah_error *err)
{
    struct list list = {.room = job->n_groups * 2 * AH_PROGRAM_STEPS_MAX};
    struct ah_program *program = malloc(sizeof *program);
    list.items = ah_arena_array(arena, list.room, sizeof *list.items);
    int rc = program && list.items ? AH_OK : ah_error_memory(err);
    for (size_t g = 0; g < job->n_groups && !rc; g++)
        rc = add_group(&list, program, job, &job->groups[g], err);
    free(program);
    if (rc)
        return rc;
    *ret_products = list.items;
    *ret_n = list.n;
    return AH_OK;
}

static struct ah_algorithm without_times(const struct ah_algorithm *entry)
{
    struct ah_algorithm bare = *entry;
    bare.us = NULL;
    bare.first_us = NULL;
    return bare;
}

int ah_products_select(const struct ah_job *job, const struct ah_algorithms *algorithms,
                       struct ah_arena *arena, struct ah_algorithms **ret_algorithms, struct ah_error *err)
{
    struct ah_algorithms wanted = {0};
    *ret_algorithms = NULL;
    if (!algorithms)
        return AH_OK;
    int rc = ah_products_list(job, arena, &wanted.products, &wanted.n_products, err);
    if (rc)
        return rc;
    struct ah_algorithms *selected = ah_arena_alloc(arena, sizeof *selected);
    struct ah_algorithm *products = ah_arena_array(arena, wanted.n_products + 1, sizeof *products);
    if (!selected || !products)
        return ah_error_memory(err);
    *selected = (struct ah_algorithms){.library = algorithms->library, .products = products};
    for (size_t i = 0; i < algorithms->n_products; i++)
        if (ah_algorithms_find(&wanted, &algorithms->products[i]))
            products[selected->n_products++] = without_times(&algorithms->products[i]);
    *ret_algorithms = selected;
    return AH_OK;
}
