/* SPDX-License-Identifier: Apache-2.0
 *
 * Run host: the program around a run. It tells a person what the run has to say, and asks the run to stop.
 *
 *     const struct ah_run_host host = {.arena = &arena, .tell = print, .stop = &flag, .context = &program};
 *     ah_run_tell(&host, AH_RUN_WARNING, "the disk is full; training continues");
 */
#ifndef AH_RUN_RUN_HOST_H
#define AH_RUN_RUN_HOST_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/document.h"

#include <stdatomic.h>
#include <stdbool.h>

enum ah_run_tone { AH_RUN_NOTE, AH_RUN_WARNING };

/* Everything is borrowed. Callbacks are called on the thread that runs. */
struct ah_run_host {
    struct ah_arena *arena; /* for everything that lives as long as the run */
    void (*tell)(void *context, enum ah_run_tone tone, const char *text);
    /* (optional) while data is checked: the share that is done; below 0: checking is over */
    void (*checking)(void *context, double share);
    /* reads a document that a person named */
    int (*load)(struct ah_document *ret_document, const char *name, enum ah_document_kind kind,
                struct ah_error *err);
    const atomic_int *stop; /* not 0: the run is to stop */
    bool *output_closed;    /* nobody reads standard output any more; the run sets it, too */
    bool attended;          /* a person watches, who can make room on a full disk */
    void *context;
};

/* Tells the person one sentence. Texts beyond AH_ERROR_TEXT_MAX are cut. */
void ah_run_tell(const struct ah_run_host *host, enum ah_run_tone tone, const char *format, ...)
    AH_PRINTF(3, 4);

/* True once the run is to stop. */
bool ah_run_is_stopped(const struct ah_run_host *host);

#endif
