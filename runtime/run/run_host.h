/* SPDX-License-Identifier: Apache-2.0
 *
 * Run host: the program around a run. It passes the run's messages to a person, and may ask the run to stop.
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

/* The program around a run. Everything is borrowed. Callbacks are called on the run's thread. */
struct ah_run_host {
    struct ah_arena *arena; /* for data needed until the end of the run */
    void (*tell)(void *context, enum ah_run_tone tone, const char *text);
    /* (optional) Called while data are checked, with the fraction that is done; below 0: the check is over. */
    void (*checking)(void *context, double share);
    /* Reads a document that a person named. */
    int (*load)(struct ah_document *ret_document, const char *name, enum ah_document_kind kind,
                struct ah_error *err);
    const atomic_int *stop; /* not 0: the run must stop */
    bool *output_closed;    /* nobody reads standard output any more; the run may set it, too */
    bool attended;          /* a person is watching and can free space on a full disk */
    void *context;
};

/* Tells the person one sentence. A text beyond AH_ERROR_TEXT_MAX is cut. */
void ah_run_tell(const struct ah_run_host *host, enum ah_run_tone tone, const char *format, ...)
    AH_PRINTF(3, 4);

/* True once the run must stop. */
bool ah_run_is_stopped(const struct ah_run_host *host);

#endif
