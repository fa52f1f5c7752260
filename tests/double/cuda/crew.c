/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread with a launch publishes it and runs its blocks. Members of the crew help if they are free in time. The
 * launch ends when no block is left and all helpers have finished. The first failure becomes the launch's result.
 */
#include "tests/double/cuda/crew.h"

#include <pthread.h>
#include <string.h>

enum { SHARED_THREADS = 2048 }; /* a smaller launch would end before a member wakes up */

static struct {
    pthread_mutex_t busy; /* held by the thread for which the crew works */
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    unsigned members;
    const struct emulator_launch *launch; /* NULL: there is nothing to help with */
    uint64_t number;
    unsigned helping;
    enum emulator_result result;
    char report[EMULATOR_REPORT_MAX];
} crew = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER};

/* Runs blocks of the launch. Call with the lock held; it is released while a block runs. */
static void work(const struct emulator_launch *launch)
{
    char report[EMULATOR_REPORT_MAX] = "";
    crew.helping++;
    pthread_mutex_unlock(&crew.lock);
    enum emulator_result result = emulator_run(launch, report);
    pthread_mutex_lock(&crew.lock);
    if (result != EMULATOR_DONE && crew.result == EMULATOR_DONE) {
        crew.result = result;
        memcpy(crew.report, report, sizeof report);
    }
    crew.helping--;
    crew.launch = NULL; /* no block is left to begin */
    pthread_cond_broadcast(&crew.changed);
}

static void *member(void *argument)
{
    uint64_t seen = 0;
    pthread_mutex_lock(&crew.lock);
    for (;;) {
        while (!crew.launch || crew.number == seen)
            pthread_cond_wait(&crew.changed, &crew.lock);
        seen = crew.number;
        work(crew.launch);
    }
    return argument;
}

/* Starts threads until the crew has `wanted`. Call with the lock held. */
static void hire(unsigned wanted)
{
    pthread_t thread;
    while (crew.members < wanted && crew.members < CREW_MAX && !pthread_create(&thread, NULL, member, NULL)) {
        (void)pthread_detach(thread);
        crew.members++;
    }
}

enum emulator_result crew_run(const struct emulator_launch *launch, unsigned threads, char *ret_report)
{
    const uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    const uint64_t all = blocks * launch->block.x * launch->block.y * launch->block.z;
    if (threads < 2 || blocks < 2 || all < SHARED_THREADS || pthread_mutex_trylock(&crew.busy))
        return emulator_run(launch, ret_report);
    pthread_mutex_lock(&crew.lock);
    hire(threads - 1);
    crew.result = EMULATOR_DONE;
    crew.launch = launch;
    crew.number++;
    pthread_cond_broadcast(&crew.changed);
    work(launch);
    while (crew.helping)
        pthread_cond_wait(&crew.changed, &crew.lock);
    enum emulator_result result = crew.result;
    if (result != EMULATOR_DONE)
        memcpy(ret_report, crew.report, sizeof crew.report);
    pthread_mutex_unlock(&crew.lock);
    pthread_mutex_unlock(&crew.busy);
    return result;
}
