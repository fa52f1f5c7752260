/* SPDX-License-Identifier: Apache-2.0
 *
 * Three threads use a status: the run's thread; the thread of the trainer's beats, which stores each beat; and the
 * writing thread (run_writer). The mutex guards the fields that two of these threads use.
 */
#include "runtime/run/run_status.h"

#include "base/lane.h"
#include "base/threads.h"
#include "runtime/run/run_ranks.h"
#include "runtime/schedule/names.h"
#include "runtime/train/follower.h"
#include "schemas/status.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITE_EVERY_NS UINT64_C(900000000)  /* least time between two writes; less than between two beats */
#define SILENT_NS      UINT64_C(3000000000) /* a rank counts as silent if it has not answered for this long */

/* The next thing to write. */
struct news {
    bool any, over;
    uint64_t at_us;
    enum ah_status_ended ended;
    uint32_t silent; /* a silent rank; 0: none, since rank 0 is never asked */
    uint64_t silent_ns;
};

struct ah_run_status {
    struct ah_run *run;     /* borrowed */
    const char *path;       /* in the run's arena */
    struct ah_lane *writer; /* owned */
    char host[AH_FOLLOWER_HOST_MAX];
    uint32_t ranks;
    bool warned;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ah_trainer_beat *heard; /* owned; each rank's newest beat */
    uint64_t heard_us;             /* when the newest beats came, since 1970; 0: none yet */
    uint32_t asked;                /* the asked rank that has not answered; 0: none */
    uint64_t asked_ns;             /* when that rank was asked */
    bool begun, fresh, stopping;
    enum ah_status_ended ended;
    struct ah_error failure; /* the first failed write */

    /* used by the writing thread only */
    struct ah_trainer_beat *shown; /* owned; a copy of `heard` */
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Stores beats. Called on the thread of beats. */
static void on_beats(void *context, const struct ah_trainer_beat *beats, uint32_t ranks)
{
    struct ah_run_status *status = context;
    pthread_mutex_lock(&status->mutex);
    memcpy(status->heard, beats, ranks * sizeof *beats);
    status->heard_us = now_us();
    status->asked = 0;
    status->fresh = true;
    pthread_cond_signal(&status->changed);
    pthread_mutex_unlock(&status->mutex);
}

/* Notes which rank is being asked; 0: the last one asked has answered. Called on the thread of beats. */
static void on_rank_asked(void *context, uint32_t rank)
{
    struct ah_run_status *status = context;
    pthread_mutex_lock(&status->mutex);
    if (status->asked != rank)
        status->asked_ns = ah_threads_now_ns();
    status->asked = rank;
    pthread_mutex_unlock(&status->mutex);
}

/* ---- the document ---- */

static enum ah_status_message message_of(uint32_t purpose)
{
    static const enum ah_status_message of[] = {
        [AH_LINKS_OUTPUT] = AH_STATUS_OUTPUT,   [AH_LINKS_GRADIENT] = AH_STATUS_GRADIENT,
        [AH_LINKS_PARTIAL] = AH_STATUS_PARTIAL, [AH_LINKS_TOTAL] = AH_STATUS_TOTAL,
        [AH_LINKS_GATE_UP] = AH_STATUS_NORM,    [AH_LINKS_GATE_DOWN] = AH_STATUS_NORM,
        [AH_LINKS_UP] = AH_STATUS_REPORT,       [AH_LINKS_DOWN] = AH_STATUS_ORDER};
    return of[purpose];
}

static const char *name_block(const struct ah_run_status *status, uint32_t block, struct ah_arena *arena)
{
    const size_t blocks = ah_model_blocks(&status->run->plan->model);
    char name[AH_NAME_MAX];
    ah_name_block((struct ah_name_blocks){.of_model = blocks}, block, name);
    return ah_arena_strdup(arena, name);
}

static struct ah_status_wait *describe_wait(const struct ah_trainer_beat *beat, struct ah_arena *arena)
{
    struct ah_status_wait *wait = ah_arena_alloc(arena, sizeof *wait);
    if (!wait)
        return NULL;
    *wait = (struct ah_status_wait){
        .rank = beat->peer,
        .message = message_of(beat->purpose),
        .sends = beat->sends,
        .micro_batch = beat->purpose <= AH_LINKS_GRADIENT ? beat->message : AH_STATUS_NO_MICRO_BATCH,
        .us = (double)(beat->waits_ns / 1000)};
    return wait;
}

static bool describe_rank(const struct ah_run_status *status, uint32_t rank, struct ah_arena *arena,
                          struct ah_status_rank *ret_rank)
{
    const struct ah_trainer_beat *beat = &status->shown[rank];
    const struct ah_run_ranks *ranks = status->run->options->ranks;
    const bool has_block = beat->has_op && beat->block != AH_BEAT_NONE;
    *ret_rank = (struct ah_status_rank){.rank = rank,
                                        .host = ranks ? ah_run_ranks_host(ranks, rank) : status->host,
                                        .node = ranks ? ah_run_ranks_node(ranks, rank) : NULL,
                                        .step = beat->step,
                                        .op = beat->has_op ? beat->op : AH_STATUS_NO_OP,
                                        .block = has_block ? name_block(status, beat->block, arena) : NULL,
                                        .micro_batch = beat->has_op && beat->micro_batch != AH_BEAT_NONE
                                                           ? beat->micro_batch
                                                           : AH_STATUS_NO_MICRO_BATCH,
                                        .waits_for = beat->waits ? describe_wait(beat, arena) : NULL};
    return (ret_rank->block || !has_block) && (ret_rank->waits_for || !beat->waits);
}

static int write_status(struct ah_run_status *status, const struct news *news, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_status body = {.generator = "autohete " AUTOHETE_VERSION,
                             .model = status->run->plan->inputs.model.name,
                             .step = status->shown[0].step,
                             .steps = status->run->settings.steps,
                             .updated_us = news->at_us,
                             .ended = news->ended,
                             .ranks = ah_arena_array(&arena, status->ranks, sizeof *body.ranks),
                             .n_ranks = status->ranks};
    const struct ah_document document = {.kind = AH_DOCUMENT_STATUS, .body.status = &body};
    bool whole = body.ranks;
    for (uint32_t rank = 0; rank < status->ranks && whole; rank++)
        whole = describe_rank(status, rank, &arena, &body.ranks[rank]);
    if (whole && news->silent)
        body.ranks[news->silent].silent_us = (double)(news->silent_ns / 1000);
    int rc = whole ? ah_document_save(&document, status->path, err) : ah_error_memory(err);
    ah_arena_release(&arena);
    return rc;
}

/* ---- the writing thread ---- */

/* The next three functions must be called with the mutex held. */

static bool is_silent(const struct ah_run_status *status)
{
    return status->asked && ah_threads_now_ns() - status->asked_ns > SILENT_NS;
}

/* Waits until there is something to write, or never will be again. Looks for silent ranks now and then. */
static void await_news(struct ah_run_status *status, uint64_t not_before_ns)
{
    for (;;) {
        const uint64_t now_ns = ah_threads_now_ns();
        const bool any = status->begun && (status->fresh || is_silent(status));
        const uint64_t until_ns = any ? not_before_ns : now_ns + WRITE_EVERY_NS;
        const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
        if (status->stopping || (any && now_ns >= not_before_ns))
            return;
        pthread_cond_timedwait(&status->changed, &status->mutex, &until);
    }
}

static struct news take_news(struct ah_run_status *status)
{
    const bool over = status->stopping, silent = !over && is_silent(status);
    const struct news news = {.any = status->begun && status->heard_us,
                              .over = over,
                              .at_us = over || silent ? now_us() : status->heard_us,
                              .ended = over ? status->ended : AH_STATUS_RUNS,
                              .silent = silent ? status->asked : 0,
                              .silent_ns = silent ? ah_threads_now_ns() - status->asked_ns : 0};
    status->fresh = false;
    memcpy(status->shown, status->heard, status->ranks * sizeof *status->shown);
    return news;
}

static void run_writer(void *payload)
{
    struct ah_run_status *status = *(struct ah_run_status **)payload;
    struct news news = {.over = false};
    uint64_t not_before_ns = 0;
    while (!news.over) {
        struct ah_error err = {0};
        pthread_mutex_lock(&status->mutex);
        await_news(status, not_before_ns);
        news = take_news(status);
        pthread_mutex_unlock(&status->mutex);
        not_before_ns = ah_threads_now_ns() + WRITE_EVERY_NS;
        if (!news.any || !write_status(status, &news, &err))
            continue;
        pthread_mutex_lock(&status->mutex);
        if (!status->failure.code)
            status->failure = err;
        pthread_mutex_unlock(&status->mutex);
    }
}

/* ---- the public functions ---- */

static const char *name_file(struct ah_run *run)
{
    const char *log = run->options->log;
    const size_t room = strlen(log) + sizeof AH_STATUS_SUFFIX;
    char *path = ah_arena_alloc(run->host->arena, room);
    if (path)
        snprintf(path, room, "%s" AH_STATUS_SUFFIX, log);
    return path;
}

/* True if there is no file, or it is an older status. A file of another kind must not be replaced. */
static bool is_free(struct ah_run *run, const char *path)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    char shown[AH_DOCUMENT_NAME_MAX];
    if (access(path, F_OK))
        return true;
    int rc = ah_document_load(&document, path, AH_DOCUMENT_STATUS, &err);
    ah_document_release(&document);
    if (rc)
        ah_run_tell(
            run->host, AH_RUN_WARNING,
            "'%s' exists and is not a run's status; it is kept, so 'autohete status' will have nothing to "
            "show",
            ah_document_short_name(path, shown));
    return !rc;
}

static void free_status(struct ah_run_status *status)
{
    ah_lane_free(status->writer);
    pthread_cond_destroy(&status->changed);
    pthread_mutex_destroy(&status->mutex);
    free(status->heard);
    free(status->shown);
    free(status);
}

static struct ah_run_status *new_status(struct ah_run *run, const char *path)
{
    struct ah_run_status *status = calloc(1, sizeof *status);
    pthread_condattr_t attributes;
    if (!status)
        return NULL;
    pthread_mutex_init(&status->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&status->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    status->run = run;
    status->path = path;
    status->ranks = run->options->ranks ? ah_run_ranks_n(run->options->ranks) : 1;
    status->heard = calloc(status->ranks, sizeof *status->heard);
    status->shown = calloc(status->ranks, sizeof *status->shown);
    if (gethostname(status->host, sizeof status->host - 1) || !status->host[0])
        snprintf(status->host, sizeof status->host, "?");
    if (status->heard && status->shown)
        return status;
    free_status(status);
    return NULL;
}

int ah_run_status_new(struct ah_run_status **ret_status, struct ah_run *run,
                      struct ah_trainer_options *options, struct ah_error *err)
{
    const struct ah_lane_options thread = {.name = "status", .cpu = -1, .queue = 1, .spans = 1};
    struct stat about;
    *ret_status = NULL;
    if (!run->options->log || !strcmp(run->options->log, "-") ||
        (!stat(run->options->log, &about) && !S_ISREG(about.st_mode)))
        return AH_OK;
    const char *path = name_file(run);
    if (!path)
        return ah_error_memory(err);
    if (!is_free(run, path))
        return AH_OK;
    struct ah_run_status *status = new_status(run, path);
    if (!status)
        return ah_error_memory(err);
    int rc = ah_lane_new(&status->writer, &thread, err);
    if (rc) {
        free_status(status);
        return rc;
    }
    const struct ah_lane_job job = {
        .run = run_writer, .payload = &status, .payload_bytes = sizeof(struct ah_run_status *)};
    (void)ah_lane_submit(status->writer, &job, NULL);
    options->tells = true;
    options->heard = on_beats;
    options->asked = on_rank_asked;
    options->heard_context = status;
    *ret_status = status;
    return AH_OK;
}

void ah_run_status_begin(struct ah_run_status *status)
{
    if (!status)
        return;
    pthread_mutex_lock(&status->mutex);
    status->begun = true;
    pthread_cond_signal(&status->changed);
    pthread_mutex_unlock(&status->mutex);
}

void ah_run_status_warn(struct ah_run_status *status)
{
    struct ah_error failure = {0};
    if (!status || status->warned)
        return;
    pthread_mutex_lock(&status->mutex);
    failure = status->failure;
    pthread_mutex_unlock(&status->mutex);
    status->warned = failure.code;
    if (failure.code)
        ah_run_tell(status->run->host, AH_RUN_WARNING, "%s; training continues without its status",
                    failure.text);
}

void ah_run_status_end(struct ah_run_status *status, int rc)
{
    if (!status)
        return;
    pthread_mutex_lock(&status->mutex);
    status->ended = !rc ? AH_STATUS_DONE : rc == AH_E_INTERRUPTED ? AH_STATUS_INTERRUPTED : AH_STATUS_FAILED;
    pthread_mutex_unlock(&status->mutex);
}

void ah_run_status_free(struct ah_run_status *status)
{
    if (!status)
        return;
    pthread_mutex_lock(&status->mutex);
    status->stopping = true;
    pthread_cond_signal(&status->changed);
    pthread_mutex_unlock(&status->mutex);
    ah_lane_drain(status->writer);
    ah_run_status_warn(status);
    free_status(status);
}
