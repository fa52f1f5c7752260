/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/race.h"

#include <math.h>
#include <stdlib.h>

int ah_race_init(struct ah_race *ret_race, size_t n, struct ah_error *err)
{
    struct ah_race race = {.places = 2};
    while (race.places < n)
        race.places *= 2;
    race.us = malloc(race.places * sizeof *race.us);
    race.winners = malloc(race.places * sizeof *race.winners);
    if (!race.us || !race.winners) {
        ah_race_release(&race);
        return ah_error_memory(err);
    }
    for (size_t i = 0; i < race.places; i++)
        race.us[i] = INFINITY;
    for (size_t i = race.places; i-- > 1;)
        race.winners[i] = 2 * i < race.places ? race.winners[2 * i] : (uint32_t)(2 * i - race.places);
    *ret_race = race;
    return AH_OK;
}

void ah_race_release(struct ah_race *race)
{
    if (!race)
        return;
    free(race->us);
    free(race->winners);
    *race = (struct ah_race){0};
}

void ah_race_set(struct ah_race *race, size_t thing, double us)
{
    uint32_t left = (uint32_t)(thing & ~(size_t)1), right = left + 1;
    if (race->us[thing] <= us && race->us[thing] >= us)
        return;
    race->us[thing] = us;
    for (size_t i = (race->places + thing) / 2; i > 0; i /= 2) {
        if (2 * i < race->places) {
            left = race->winners[2 * i];
            right = race->winners[2 * i + 1];
        }
        uint32_t before = race->winners[i], winner = race->us[right] < race->us[left] ? right : left;
        race->winners[i] = winner;
        if (before == winner && winner != thing) /* nothing above changed, either */
            return;
    }
}
