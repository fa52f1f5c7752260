/* SPDX-License-Identifier: Apache-2.0
 *
 * A double of NCCL: the calls that the plugin makes, in a library of the same soname, between threads of one process.
 *
 * It guarantees as little as NCCL does. Groups of a GPU run one at a time, in the order of their calls. A group is
 * enqueued on its stream only at a later look at the communicator's state, so an event recorded before that misses it.
 * A receive may write to its memory at any time: it is filled with 0xFF when its group begins.
 *
 * DEADLOCKS, in which real GPUs would hang, are told: groups that wait for each other, with both calls.
 *
 * MISUSE is refused, with a sentence: memory that is not the GPU's, was freed or is too short; counts of two ranks
 * that differ; empty messages; a stream of another GPU, or a second stream; two ranks on one GPU; a communicator that
 * blocks, is not ready, was aborted, or is used by two threads at once; more than MOST_CALLS calls in a group.
 *
 * FAULTS come from the settings of the CUDA double (double.h): failing calls, and hangs of `ncclGroupEnd`, in which
 * the group's work never ends. Also, with `nccl_*` settings: an asynchronous error, a peer that never comes, a slow
 * start, a version.
 *
 * 1. Everything is guarded by the runtime double's lock, and waits on its condition.
 * 2. A communicator has at most one group that runs. Calls match only between groups that run, so nothing is buffered.
 *
 * Source: nccl.h of NCCL 2.28 and the NCCL user guide, "Point-to-point communication", "Group Calls".
 */
#include "tests/double/cuda/double_internal.h"

#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MARK = 0x4e43434c, WORLDS_MAX = 16, RANKS_MAX = 16, MOST_CALLS = 2048, LOOKS_AT_LEAST = 2 };

/* nccl.h declares these two without parameters, which is no prototype in C. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

struct call {
    bool sends;
    int peer;
    void *data;
    size_t bytes;
    bool is_done;
};

struct group {
    struct ncclComm *comm;
    size_t n;
    struct call calls[];
};

struct world {
    unsigned number; /* from 1; 0: unused */
    int ranks, joined, left;
    unsigned moved; /* number of messages so far */
    struct ncclComm *comms[RANKS_MAX];
};

struct ncclComm {
    unsigned mark;
    struct world *world;
    int rank, device;
    cudaStream_t stream;
    struct group *current; /* runs; NULL: none */
    struct group *coming;  /* is still to be enqueued; NULL: none */
    unsigned looks;        /* at the state, before what is in progress goes on */
    bool is_aborted, is_finalized, hangs;
    ncclResult_t state; /* ncclSuccess, or the error */
    pthread_t user;     /* the thread inside a group */
    bool has_user;
};

static struct world worlds[WORLDS_MAX];
static unsigned last_number;

/* The thread's group. */
static __thread int depth;
static __thread struct group *gathered;
static __thread cudaStream_t gathered_on;

static ncclResult_t told(const char *call)
{
    return (ncclResult_t)double_enter(call);
}

static ncclResult_t misuse(ncclResult_t code, const char *text)
{
    (void)double_misuse((cudaError_t)code, "NCCL: %s", text);
    return code;
}

/* ---- life ---- */

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    const ncclResult_t rc = told(__func__);
    const unsigned wanted = double_settings().nccl_version;
    if (!rc)
        *version = wanted ? (int)wanted : NCCL_VERSION_CODE;
    return rc;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const ncclResult_t rc = told(__func__);
    if (rc)
        return rc;
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&double_lock);
    snprintf(id->internal, sizeof id->internal, "double %u", ++last_number);
    pthread_mutex_unlock(&double_lock);
    return ncclSuccess;
}

/* Returns the world of an id, which the first rank makes. Call with the lock held. */
static struct world *world_of(const ncclUniqueId *id, int ranks)
{
    unsigned number = 0;
    struct world *unused = NULL;
    if (sscanf(id->internal, "double %u", &number) != 1)
        return NULL;
    for (size_t i = 0; i < WORLDS_MAX; i++) {
        if (worlds[i].number == number)
            return worlds[i].ranks == ranks ? &worlds[i] : NULL;
        if (!worlds[i].number)
            unused = &worlds[i];
    }
    if (unused)
        *unused = (struct world){.number = number, .ranks = ranks};
    return unused;
}

static ncclResult_t join(ncclComm_t *ret_comm, int ranks, const ncclUniqueId *id, int rank)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm || ranks > RANKS_MAX) {
        free(comm);
        return ncclSystemError;
    }
    *comm = (struct ncclComm){.mark = MARK, .rank = rank, .device = double_device()};
    const unsigned slow = double_settings().nccl_slow;
    const char *wrong = NULL;
    pthread_mutex_lock(&double_lock);
    struct world *world = world_of(id, ranks);
    if (!world)
        wrong = "a communicator is made with an id of another world";
    for (int i = 0; world && i < ranks; i++)
        if (world->comms[i] && world->comms[i]->device == comm->device)
            wrong = "two ranks use one GPU";
    if (world && (rank < 0 || rank >= ranks || world->comms[rank]))
        wrong = "a rank joins that is not in the world, or twice";
    if (!wrong) {
        comm->world = world;
        comm->looks = LOOKS_AT_LEAST + slow;
        world->comms[rank] = comm;
        world->joined++;
        *ret_comm = comm;
    }
    pthread_mutex_unlock(&double_lock);
    if (!wrong)
        return ncclInProgress;
    free(comm);
    return misuse(ncclInvalidUsage, wrong);
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    const ncclConfig_t plain = NCCL_CONFIG_INITIALIZER;
    const ncclResult_t rc = told(__func__);
    if (rc)
        return rc;
    if (!config || config->magic != plain.magic || config->size != plain.size)
        return misuse(ncclInvalidArgument, "a communicator is made with a config that was not initialised");
    if (config->blocking != 0)
        return misuse(ncclInvalidUsage, "a communicator that blocks cannot be aborted");
    return join(comm, nranks, &id, rank);
}

/* Reports misuse if `comm` is not a communicator. */
static ncclResult_t check_comm(const struct ncclComm *comm)
{
    if (!comm || comm->mark != MARK)
        return misuse(ncclInvalidArgument, "a communicator is used that was destroyed or never made");
    return ncclSuccess;
}

static bool is_ready(const struct ncclComm *comm)
{
    return comm->world->joined == comm->world->ranks && !comm->looks && !comm->coming;
}

/* ---- groups ---- */

static struct call *counterpart(struct ncclComm *comm, const struct call *call)
{
    const struct ncclComm *peer = comm->world->comms[call->peer];
    for (size_t i = 0; peer && peer->current && !peer->is_aborted && !peer->hangs && i < peer->current->n;
         i++) {
        struct call *other = &peer->current->calls[i];
        if (!other->is_done && other->peer == comm->rank && other->sends != call->sends)
            return other;
    }
    return NULL;
}

static void break_world(struct world *world, ncclResult_t code)
{
    for (int i = 0; i < world->ranks; i++)
        if (world->comms[i] && !world->comms[i]->state)
            world->comms[i]->state = code;
    pthread_cond_broadcast(&double_changed);
}

/* Reports misuse by work. Call with the lock held, which is released meanwhile. */
static void refuse(struct world *world, const char *text)
{
    pthread_mutex_unlock(&double_lock);
    (void)misuse(ncclInvalidUsage, text);
    pthread_mutex_lock(&double_lock);
    break_world(world, ncclInvalidUsage);
}

/* Matches calls of the running group with those of other groups, and copies. Call with the lock held. */
static void match(struct ncclComm *comm, unsigned fails_at)
{
    char text[CUDA_DOUBLE_REPORT_MAX];
    for (size_t i = 0; i < comm->current->n && !comm->state; i++) {
        struct call *call = &comm->current->calls[i];
        struct call *other = call->is_done ? NULL : counterpart(comm, call);
        if (!other)
            continue;
        const struct call *from = call->sends ? call : other, *to = call->sends ? other : call;
        if (from->bytes != to->bytes) {
            snprintf(text, sizeof text, "rank %d sends %zu bytes to rank %d, which expects %zu", to->peer,
                     from->bytes, from->peer, to->bytes);
            refuse(comm->world, text);
            return;
        }
        memcpy(to->data, from->data, from->bytes);
        call->is_done = other->is_done = true;
        if (++comm->world->moved == fails_at)
            break_world(comm->world, ncclRemoteError);
        pthread_cond_broadcast(&double_changed);
    }
}

static bool is_over(const struct group *group)
{
    size_t i = 0;
    while (i < group->n && group->calls[i].is_done)
        i++;
    return i == group->n;
}

/* Returns a call of a stuck rank that waits for a stuck rank; NULL: none. */
static const struct call *stuck_call(const struct ncclComm *comm, const bool *stuck)
{
    for (size_t i = 0; i < comm->current->n; i++)
        if (!comm->current->calls[i].is_done && stuck[comm->current->calls[i].peer])
            return &comm->current->calls[i];
    return NULL;
}

/* Refuses groups that wait for each other. Each waits for a rank whose own group cannot end before. */
static void refuse_deadlock(struct world *world)
{
    bool stuck[RANKS_MAX] = {false}, changes = true;
    char text[CUDA_DOUBLE_REPORT_MAX];
    int one = -1;
    for (int i = 0; i < world->ranks; i++)
        stuck[i] = world->comms[i] && world->comms[i]->current && !world->comms[i]->hangs &&
                   !world->comms[i]->is_aborted && !world->comms[i]->state;
    while (changes) {
        changes = false;
        one = -1;
        for (int i = 0; i < world->ranks; i++) {
            if (stuck[i] && !stuck_call(world->comms[i], stuck)) {
                stuck[i] = false;
                changes = true;
            }
            one = stuck[i] ? i : one;
        }
    }
    if (one < 0)
        return;
    const struct call *first = stuck_call(world->comms[one], stuck);
    const struct call *next = first ? stuck_call(world->comms[first->peer], stuck) : NULL;
    if (!next)
        return;
    snprintf(text, sizeof text,
             "a deadlock of groups: rank %d %s %zu bytes %s rank %d, which %s %zu bytes %s rank %d first",
             one, first->sends ? "sends" : "receives", first->bytes, first->sends ? "to" : "from",
             first->peer, next->sends ? "sends" : "receives", next->bytes, next->sends ? "to" : "from",
             next->peer);
    refuse(world, text);
}

static bool has_right_memory(const struct group *group)
{
    for (size_t i = 0; i < group->n; i++)
        if (double_place_of(group->calls[i].data, group->calls[i].bytes) != PLACE_DEVICE)
            return false;
    return true;
}

/* Runs a group, on its stream's thread. */
static cudaError_t run(void *payload, char *report)
{
    struct group *group = *(struct group **)payload;
    struct ncclComm *comm = group->comm;
    const unsigned fails_at = double_settings().nccl_fails_at;
    (void)report;
    const bool right = has_right_memory(group);
    if (!right)
        (void)misuse(ncclInvalidArgument, "a message's memory was freed before it was sent or received");
    for (size_t i = 0; right && i < group->n; i++)
        if (!group->calls[i].sends)
            memset(group->calls[i].data, 0xFF, group->calls[i].bytes);
    pthread_mutex_lock(&double_lock);
    if (!right)
        break_world(comm->world, ncclInvalidArgument);
    comm->current = group;
    pthread_cond_broadcast(&double_changed);
    while (right && !is_over(group) && !comm->is_aborted && !double_lost()) {
        if (!comm->state)
            match(comm, fails_at);
        if (is_over(group))
            break;
        if (!comm->state && !comm->hangs)
            refuse_deadlock(comm->world);
        if (!is_over(group) && !comm->is_aborted)
            pthread_cond_wait(&double_changed, &double_lock);
    }
    comm->current = NULL;
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
    free(group);
    return cudaSuccess;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    const ncclResult_t rc = told(__func__);
    depth += !rc;
    return rc;
}

static const char *check_call(const struct ncclComm *comm, const struct call *call, cudaStream_t stream)
{
    if (comm->is_aborted || comm->is_finalized)
        return "a communicator is used after it was aborted or finalized";
    if (double_device() != comm->device || double_stream_device(stream) != comm->device)
        return "a call's stream or current GPU is not the communicator's";
    if (comm->stream && comm->stream != stream)
        return "a communicator is used on two streams";
    if (call->peer < 0 || call->peer >= comm->world->ranks || call->peer == comm->rank)
        return "a message's peer is not another rank";
    if (!call->bytes)
        return "a message is empty";
    if (double_place_of(call->data, call->bytes) != PLACE_DEVICE)
        return "a message is not in the memory of a GPU";
    if (gathered && gathered->comm != comm)
        return "a group has calls of two communicators";
    if (gathered && gathered->n == MOST_CALLS)
        return "a group has more than 2048 calls";
    return NULL;
}

static ncclResult_t gather(struct ncclComm *comm, const struct call *call, cudaStream_t stream)
{
    ncclResult_t rc = check_comm(comm);
    if (rc)
        return rc;
    const char *wrong = depth ? check_call(comm, call, stream) : "a call outside a group";
    pthread_mutex_lock(&double_lock);
    if (!wrong && !is_ready(comm))
        wrong = "a communicator is used while a call of it is in progress";
    if (!wrong && comm->has_user && !pthread_equal(comm->user, pthread_self()))
        wrong = "a communicator is used by two threads";
    comm->user = pthread_self();
    comm->has_user = true;
    rc = comm->state;
    pthread_mutex_unlock(&double_lock);
    if (wrong)
        return misuse(ncclInvalidUsage, wrong);
    if (!gathered && !(gathered = calloc(1, sizeof *gathered + MOST_CALLS * sizeof gathered->calls[0])))
        return ncclSystemError;
    gathered->comm = comm;
    gathered->calls[gathered->n++] = *call;
    gathered_on = stream;
    return rc;
}

EXPORT ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
    union {
        const void *data;
        void *sent; /* not const, but a send only reads */
    } from = {data};
    const struct call call = {.sends = true, .peer = peer, .data = from.sent, .bytes = count};
    const ncclResult_t rc = told(__func__);
    if (!rc && type != ncclUint8)
        return misuse(ncclInvalidArgument, "a message is not of bytes, as this double needs");
    return rc ? rc : gather(comm, &call, stream);
}

EXPORT ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
    const struct call call = {.peer = peer, .data = data, .bytes = count};
    const ncclResult_t rc = told(__func__);
    if (!rc && type != ncclUint8)
        return misuse(ncclInvalidArgument, "a message is not of bytes, as this double needs");
    return rc ? rc : gather(comm, &call, stream);
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    const ncclResult_t rc = told(__func__);
    struct group *group = gathered;
    if (!depth)
        return misuse(ncclInvalidUsage, "a group ends that has not begun");
    if (--depth)
        return rc;
    gathered = NULL;
    if (rc || !group) {
        free(group);
        return rc;
    }
    struct ncclComm *comm = group->comm;
    pthread_mutex_lock(&double_lock);
    comm->hangs = comm->hangs || double_hangs();
    comm->coming = group;
    comm->stream = gathered_on;
    comm->looks = LOOKS_AT_LEAST;
    pthread_mutex_unlock(&double_lock);
    return ncclInProgress;
}

/* Continues what is in progress, after some looks. Returns the state. */
static ncclResult_t look(struct ncclComm *comm)
{
    struct group *group = NULL;
    const unsigned absent = double_settings().nccl_absent;
    pthread_mutex_lock(&double_lock);
    const bool waits = comm->world->joined < comm->world->ranks || absent;
    if (!waits && comm->looks)
        comm->looks--;
    if (!comm->looks && comm->coming) {
        group = comm->coming;
        comm->coming = NULL;
    }
    const bool is_busy = comm->looks || waits;
    const ncclResult_t state = comm->state ? comm->state : is_busy ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&double_lock);
    if (group)
        (void)double_enqueue(comm->stream, &(struct double_work){run, &group, sizeof group, NULL});
    return state;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    ncclResult_t rc = told(__func__);
    rc = rc ? rc : check_comm(comm);
    if (!rc)
        *state = look(comm);
    return rc;
}

/* ---- end ---- */

/* Takes the communicator out of its world, once its group no longer runs. */
static void leave(struct ncclComm *comm)
{
    pthread_mutex_lock(&double_lock);
    while (comm->current)
        pthread_cond_wait(&double_changed, &double_lock);
    struct world *world = comm->world;
    world->comms[comm->rank] = NULL;
    if (++world->left == world->joined && (world->joined == world->ranks || comm->is_aborted))
        *world = (struct world){0};
    pthread_mutex_unlock(&double_lock);
    free(comm->coming);
    comm->mark = 0;
    free(comm);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)told(__func__); /* an abort that fails ends the work all the same */
    const ncclResult_t rc = check_comm(comm);
    if (rc)
        return rc;
    pthread_mutex_lock(&double_lock);
    comm->is_aborted = true;
    pthread_cond_broadcast(&double_changed);
    pthread_mutex_unlock(&double_lock);
    /* work that is enqueued but has not begun must not use the communicator */
    if (comm->stream)
        (void)cudaStreamSynchronize(comm->stream);
    leave(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t rc = told(__func__);
    rc = rc ? rc : check_comm(comm);
    if (rc)
        return rc;
    pthread_mutex_lock(&double_lock);
    comm->is_finalized = true;
    comm->looks = LOOKS_AT_LEAST;
    pthread_mutex_unlock(&double_lock);
    return ncclInProgress;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t rc = told(__func__);
    rc = rc ? rc : check_comm(comm);
    if (rc)
        return rc;
    if (!comm->is_finalized)
        return misuse(ncclInvalidUsage, "a communicator is destroyed that was not finalized");
    leave(comm);
    return ncclSuccess;
}
