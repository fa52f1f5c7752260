/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/sharers.h"

#include <stdlib.h>

static bool has_host(const struct ah_instance *instance, size_t class)
{
    return ah_instance_has_host(instance, instance->classes[class].kind);
}

size_t ah_sharers_ways(const struct ah_instance *instance)
{
    size_t ways = 1;
    for (size_t c = 0; c < instance->n_classes; c++) {
        const size_t units = instance->classes[c].units;
        if (has_host(instance, c))
            ways =
                units > AH_SHARERS_FEW || ways * units > AH_SHARERS_FEW ? AH_SHARERS_FEW + 1 : ways * units;
    }
    return ways;
}

/* Counts down like an odometer. */
static bool count_down(const struct ah_instance *instance, size_t *units)
{
    for (size_t c = 0; c < instance->n_classes; c++) {
        if (has_host(instance, c) && units[c] > 1) {
            units[c]--;
            return true;
        }
        units[c] = instance->classes[c].units;
    }
    return false;
}

static bool halve(const struct ah_instance *instance, size_t *units)
{
    size_t most = 0;
    for (size_t c = 0; c < instance->n_classes; c++)
        most = has_host(instance, c) && units[c] > most ? units[c] : most;
    for (size_t c = 0; c < instance->n_classes && most > 1; c++)
        units[c] = has_host(instance, c) && units[c] > most / 2 ? most / 2 : units[c];
    return most > 1;
}

bool ah_sharers_next(const struct ah_instance *instance, size_t *units)
{
    return ah_sharers_ways(instance) <= AH_SHARERS_FEW ? count_down(instance, units) : halve(instance, units);
}

/* A copy of `like` with one host share: that for `sharers` units. */
static size_t find_kind(struct ah_sharers_fixed *fixed, const struct ah_instance_kind *like, size_t sharers)
{
    struct ah_instance_kind kind = *like;
    size_t k = 0;
    if (kind.n_hosts) {
        kind.hosts += sharers - 1;
        kind.n_hosts = 1;
    }
    while (k < fixed->instance.n_kinds &&
           (fixed->kinds[k].blocks != kind.blocks || fixed->kinds[k].hosts != kind.hosts))
        k++;
    if (k == fixed->instance.n_kinds)
        fixed->kinds[fixed->instance.n_kinds++] = kind;
    return k;
}

int ah_sharers_fix(struct ah_sharers_fixed *ret_fixed, const struct ah_instance *instance,
                   const size_t *units, struct ah_error *err)
{
    struct ah_sharers_fixed fixed = {.instance = *instance};
    fixed.classes = calloc(instance->n_classes, sizeof *fixed.classes);
    fixed.kinds = calloc(instance->n_classes, sizeof *fixed.kinds);
    if (!fixed.classes || !fixed.kinds) {
        ah_sharers_release(&fixed);
        return ah_error_memory(err);
    }
    fixed.instance.n_kinds = 0;
    for (size_t c = 0; c < instance->n_classes; c++) {
        fixed.classes[c] = instance->classes[c];
        fixed.classes[c].units = units[c];
        fixed.classes[c].kind = find_kind(&fixed, ah_instance_kind_of(instance, c), units[c]);
    }
    fixed.instance.classes = fixed.classes;
    fixed.instance.kinds = fixed.kinds;
    *ret_fixed = fixed;
    return AH_OK;
}

void ah_sharers_release(struct ah_sharers_fixed *fixed)
{
    if (!fixed)
        return;
    free(fixed->classes);
    free(fixed->kinds);
    *fixed = (struct ah_sharers_fixed){0};
}
