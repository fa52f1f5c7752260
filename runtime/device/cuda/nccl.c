/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver "nccl" (runtime/comm/nccl.h): messages between GPUs, on top of a control driver.
 *
 * GROUPS. Messages that progress together form a group, which is one group of NCCL calls. We run groups one after
 * another, in the order of posts, on one stream and one communicator, because two kernels of NCCL that are started
 * separately may wait for each other. So the world is not independent.
 *
 * 1. A message is in the ring `messages` from its post until `poll` reports it: done <= launched <= posted <= done + n.
 *    The last message of a group has `ends`.
 * 2. The communicator does not block, so a call may still be in progress when it returns. Then the group at `launched`
 *    is being launched (is_launching). Its event is recorded once NCCL has launched it, and the next group follows.
 * 3. A group is done when its event is. The event is that of the ring's place of its last message.
 * 4. Once the world is lost, the communicator is aborted and the stream is drained, so NCCL no longer touches memory.
 *    Only then does `poll` report the messages, with AH_E_PEER. An abort may wait for other ranks on this host to do
 *    the same. So the reason is told first, and a rank without messages aborts as soon as it knows of the loss.
 *
 * NCCL matches the sends and receives of two ranks in their order, whatever the channel. Each direction of a pair has
 * channels of one lane only: those of a pipeline, or those of sums. Both ends use these in the same order.
 *
 * A message may also arrive in pinned memory of the host, since sums over pipelines use some. NCCL then puts it into a
 * part of `bounce`, and a copy behind the group does the rest. Channels that receive at most BOUNCE_MOST bytes have
 * such a part.
 *
 * The caller posts a message once its memory is ready. So the GPU never waits for another rank longer than the message
 * itself, and other work continues beside it. NCCL takes memory at a pair's first message, for which the driver may
 * wait until the GPU is idle; so each channel moves one byte before training begins.
 *
 * Source: NCCL user guide, "Group Calls", "Fault Tolerance".
 */
#include "runtime/comm/nccl.h"

#include "base/threads.h"
#include "runtime/device/cuda/errors.h"
#include "runtime/device/cuda/nccl_calls.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most processors of the GPU that messages take. NCCL_MAX_CTAS in the environment changes it. Each connection to
 * another rank has up to as many channels, with 9 MiB of GPU memory each. */
enum { PROCESSORS_MOST = 16 };

/* The purpose of the channels from rank 0 to each other rank that carry NCCL's id. */
enum { PURPOSE_ID = 20000, POLL_NS = 100 * 1000 };

/* Turns in which control may tell others of a loss before the communicator is aborted. */
enum { TURNS_BEFORE_ABORT = 3 };

enum { BOUNCE_MOST = 1 << 20, BOUNCE_ALIGN = 256 };
static const uint32_t NO_BOUNCE = UINT32_MAX;

struct message {
    uint32_t channel;
    bool ends;    /* last of its group */
    bool bounces; /* it arrives in the memory of the host */
    void *data;
    uint64_t bytes;
};

struct nccl_end {
    struct ah_comm_end base;
    struct ah_comm_nccl boot, *caller; /* a copy, and the caller's own */
    struct ah_comm_options options;    /* control's */
    struct ah_comm_end *control;       /* owned */
    struct ah_nccl calls;
    ncclComm_t comm;       /* owned; NULL before channels and after an abort */
    cudaStream_t stream;   /* owned */
    unsigned char *words;  /* owned; GPU memory: a byte for each channel, for messages of 0 bytes */
    unsigned char *bounce; /* owned; GPU memory */
    uint32_t *bounce_at;   /* owned; by channel, in units of BOUNCE_ALIGN; NO_BOUNCE: none */

    struct ah_comm_channel *channels; /* owned; the caller's, then those for the id */
    size_t n;                         /* number of the caller's channels */
    struct message *messages;         /* owned; a ring of n */
    cudaEvent_t *events;              /* owned; n */
    uint64_t done, launched, posted;
    bool is_launching, is_lost;
    unsigned lost_turns; /* number of polls since the world was lost */
};

static struct nccl_end *end_of(struct ah_comm_end *end)
{
    return (struct nccl_end *)end;
}

static const struct ah_comm_driver *control_of(const struct nccl_end *end)
{
    return end->boot.control;
}

static struct message *message_at(const struct nccl_end *end, uint64_t at)
{
    return &end->messages[at % end->n];
}

/* ---- failures ---- */

static void lose(struct nccl_end *end, const struct ah_error *why)
{
    if (!end->is_lost)
        control_of(end)->revoke(end->control, why);
    end->is_lost = true;
}

/* Ends all work of NCCL, which then touches no memory. May wait for other ranks on this host to do the same. */
static void abort_work(struct nccl_end *end)
{
    if (!end->comm)
        return;
    (void)end->calls.abort(end->comm);
    end->comm = NULL;
    (void)cudaStreamSynchronize(end->stream);
    (void)cudaGetLastError();
}

/* Returns what NCCL says of its work: ncclInProgress, ncclSuccess or, after losing the world, another. */
static ncclResult_t state_of(struct nccl_end *end)
{
    struct ah_error why = {0};
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = end->calls.async_error(end->comm, &state);
    if (asked != ncclSuccess)
        state = asked;
    if (ah_nccl_check(&end->calls, end->comm, state, "ncclCommGetAsyncError", &why))
        lose(end, &why);
    return state;
}

/* ---- messages ---- */

static unsigned char *bounce_of(const struct nccl_end *end, const struct message *message)
{
    return end->bounce + (uint64_t)end->bounce_at[message->channel] * BOUNCE_ALIGN;
}

/* Copies what a group brought for the memory of the host. */
static int copy_bounced(struct nccl_end *end, uint64_t at, uint64_t next, struct ah_error *err)
{
    cudaError_t rc = cudaSuccess;
    for (; at < next && !rc; at++) {
        const struct message *message = message_at(end, at);
        if (message->bounces)
            rc = cudaMemcpyAsync(message->data, bounce_of(end, message), message->bytes,
                                 cudaMemcpyDeviceToHost, end->stream);
    }
    return ah_cuda_check(err, rc, "cudaMemcpyAsync");
}

static ncclResult_t call_for(struct nccl_end *end, const struct message *message)
{
    const struct ah_comm_channel *channel = &end->channels[message->channel];
    void *data = !message->bytes    ? end->words + message->channel
                 : message->bounces ? bounce_of(end, message)
                                    : message->data;
    const size_t bytes = message->bytes ? message->bytes : 1;
    return channel->sends
               ? end->calls.send(data, bytes, ncclUint8, (int)channel->peer, end->comm, end->stream)
               : end->calls.receive(data, bytes, ncclUint8, (int)channel->peer, end->comm, end->stream);
}

/* Returns the index behind the last message of the group whose first message is at `at`. */
static uint64_t end_of_group(const struct nccl_end *end, uint64_t at)
{
    while (!message_at(end, at)->ends)
        at++;
    return at + 1;
}

/* Makes the calls of a group. */
static int launch_group(struct nccl_end *end, uint64_t at, uint64_t next, struct ah_error *err)
{
    const struct ah_nccl *calls = &end->calls;
    int rc = ah_nccl_check(calls, end->comm, calls->group_start(), "ncclGroupStart", err);
    if (rc)
        return rc;
    for (; at < next && !rc; at++) {
        const struct message *message = message_at(end, at);
        const char *call = end->channels[message->channel].sends ? "ncclSend" : "ncclRecv";
        rc = ah_nccl_check(calls, end->comm, call_for(end, message), call, err);
    }
    const ncclResult_t ended = calls->group_end();
    return rc ? rc : ah_nccl_check(calls, end->comm, ended, "ncclGroupEnd", err);
}

/* Launches groups, and records the event of each. Stops at the first that is still being launched. */
static void launch(struct nccl_end *end)
{
    struct ah_error why = {0};
    int rc = AH_OK;
    while (end->comm && !end->is_lost && (end->is_launching || end->launched < end->posted)) {
        const uint64_t next = end_of_group(end, end->launched);
        if (!end->is_launching)
            rc = launch_group(end, end->launched, next, &why);
        end->is_launching = true;
        if (!rc && state_of(end) != ncclSuccess)
            return;
        rc = rc ? rc : copy_bounced(end, end->launched, next, &why);
        if (!rc)
            rc = ah_cuda_check(&why, cudaEventRecord(end->events[(next - 1) % end->n], end->stream),
                               "cudaEventRecord");
        if (rc)
            lose(end, &why);
        end->is_launching = false;
        end->launched = next;
    }
}

static bool is_data(const struct nccl_end *end, uint32_t channel)
{
    return end->channels[channel].purpose < end->boot.purposes;
}

/* True if the message arrives in the memory of the host. If that is not possible, loses the world. */
static bool is_on_host(struct nccl_end *end, const struct ah_comm_message *message)
{
    struct cudaPointerAttributes found = {.type = cudaMemoryTypeUnregistered};
    struct ah_error why = {0};
    if (!message->bytes)
        return false;
    int rc = ah_cuda_check(&why, cudaPointerGetAttributes(&found, message->data), "cudaPointerGetAttributes");
    if (!rc && found.type == cudaMemoryTypeDevice)
        return false;
    if (!rc && found.type == cudaMemoryTypeHost && end->bounce_at[message->channel] != NO_BOUNCE)
        return true;
    if (!rc)
        (void)ah_error_set(
            &why, AH_E_UNSUPPORTED,
            "a message of %llu bytes is not in the memory of the GPU, and does not arrive in pinned memory "
            "in small pieces",
            (unsigned long long)message->bytes);
    lose(end, &why);
    return false;
}

static void nccl_post(struct ah_comm_end *base, const struct ah_comm_message *messages, size_t n)
{
    struct nccl_end *end = end_of(base);
    struct message *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const bool ends = !messages[i].more;
        if (is_data(end, messages[i].channel)) {
            last = message_at(end, end->posted++);
            *last = (struct message){messages[i].channel, ends, is_on_host(end, &messages[i]),
                                     messages[i].data, messages[i].bytes};
        } else {
            struct ah_comm_message alone = messages[i];
            alone.more = false; /* control is independent */
            control_of(end)->post(end->control, &alone, 1);
        }
        if (last && ends)
            last->ends = true;
    }
    if (last)
        last->ends = true;
    (void)cudaSetDevice((int)end->boot.gpu); /* if this fails, so do the calls after it */
    launch(end);
}

/* True if the oldest message is over: its group is done, or the world is lost. */
static bool is_oldest_over(struct nccl_end *end)
{
    struct ah_error why = {0};
    if (end->done == end->posted || end->is_lost)
        return end->is_lost && !end->comm && end->done < end->posted;
    const uint64_t next = end_of_group(end, end->done);
    if (next > end->launched)
        return false;
    const cudaError_t rc = cudaEventQuery(end->events[(next - 1) % end->n]);
    if (rc == cudaErrorNotReady)
        (void)cudaGetLastError();
    else if (ah_cuda_check(&why, rc, "cudaEventQuery"))
        lose(end, &why);
    return rc == cudaSuccess;
}

static size_t nccl_poll(struct ah_comm_end *base, struct ah_comm_done *ret_done, size_t max)
{
    struct nccl_end *end = end_of(base);
    struct ah_error why;
    uint32_t culprit;
    size_t n = control_of(end)->poll(end->control, ret_done, max);
    end->is_lost = end->is_lost || control_of(end)->fault(end->control, &culprit, &why);
    if (end->comm && !end->is_lost && !end->is_launching)
        (void)state_of(end);
    launch(end);
    if (end->is_lost && end->lost_turns++ >= TURNS_BEFORE_ABORT)
        abort_work(end);
    for (; n < max && is_oldest_over(end); n++, end->done++)
        ret_done[n] =
            (struct ah_comm_done){message_at(end, end->done)->channel, end->is_lost ? AH_E_PEER : AH_OK};
    end->base.moving = end->control->moving;
    return n;
}

/* ---- open and channels ---- */

/* Waits between two looks at something that takes long. AH_E_PEER: the world is lost or the deadline is over. */
static int pause(struct nccl_end *end, uint64_t until_ns, const char *what, struct ah_error *err)
{
    struct ah_error why = {0};
    uint32_t culprit = 0;
    if (control_of(end)->fault(end->control, &culprit, &why))
        return ah_error_set(err, AH_E_PEER, "rank %u: %.600s", culprit, why.text);
    const uint64_t now_ns = ah_threads_now_ns();
    if (now_ns > until_ns)
        return ah_error_set(
            err, AH_E_PEER,
            "%s: NCCL has not finished within %g s; NCCL_DEBUG=INFO in the environment makes NCCL "
            "say what it does",
            what, end->options.deadline_s);
    ah_threads_sleep_until_ns(now_ns + POLL_NS);
    return AH_OK;
}

static uint64_t deadline_of(const struct nccl_end *end)
{
    return ah_threads_now_ns() + (uint64_t)(end->options.deadline_s * 1e9);
}

/* Sends the id from rank 0 to all others, through control. */
static int share_id(struct nccl_end *end, ncclUniqueId *id, struct ah_error *err)
{
    const size_t n = end->base.rank ? 1 : end->base.ranks - 1;
    const uint64_t until_ns = deadline_of(end);
    struct ah_comm_done done;
    int rc = AH_OK;
    for (size_t i = 0; i < n; i++) {
        const struct ah_comm_message message = {(uint32_t)(end->n + i), false, id, sizeof *id};
        control_of(end)->post(end->control, &message, 1);
    }
    for (size_t left = n; left > 0;) { /* even in a lost world all must come back, because they use `id` */
        struct ah_error why = {0};
        if (control_of(end)->poll(end->control, &done, 1)) {
            rc = rc ? rc : done.rc;
            left--;
        } else if (end->is_lost) {
            ah_threads_sleep_until_ns(ah_threads_now_ns() + POLL_NS);
        } else if (pause(end, until_ns, "sharing NCCL's id", &why)) {
            lose(end, &why);
            rc = AH_E_PEER;
        }
    }
    return rc ? pause(end, 0, "sharing NCCL's id", err) : AH_OK;
}

static int make_comm(struct nccl_end *end, struct ah_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = {0};
    config.blocking = 0;
    config.maxCTAs = PROCESSORS_MOST;
    int rc = end->base.rank
                 ? AH_OK
                 : ah_nccl_check(&end->calls, NULL, end->calls.unique_id(&id), "ncclGetUniqueId", err);
    rc = rc ? rc : share_id(end, &id, err);
    if (rc)
        return rc;
    const uint64_t until_ns = deadline_of(end);
    rc = ah_nccl_check(&end->calls, NULL,
                       end->calls.init(&end->comm, (int)end->base.ranks, id, (int)end->base.rank, &config),
                       "ncclCommInitRankConfig", err);
    while (!rc) {
        ncclResult_t state = ncclSuccess;
        const ncclResult_t asked = end->calls.async_error(end->comm, &state);
        state = asked == ncclSuccess ? state : asked;
        if (state == ncclSuccess)
            break;
        rc = ah_nccl_check(&end->calls, end->comm, state, "ncclCommInitRankConfig", err);
        rc = rc ? rc : pause(end, until_ns, "connecting GPUs", err);
    }
    return rc;
}

/* Cuts the bounce memory, and returns its size. */
static uint64_t cut_bounce(struct nccl_end *end)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < end->n; c++) {
        const struct ah_comm_channel *channel = &end->channels[c];
        end->bounce_at[c] = NO_BOUNCE;
        if (!is_data(end, c) || channel->sends || channel->most_bytes > BOUNCE_MOST)
            continue;
        end->bounce_at[c] = (uint32_t)(bytes / BOUNCE_ALIGN);
        bytes += (channel->most_bytes + BOUNCE_ALIGN - 1) / BOUNCE_ALIGN * BOUNCE_ALIGN;
    }
    return bytes + BOUNCE_ALIGN;
}

static int take_resources(struct nccl_end *end, struct ah_error *err)
{
    int least = 0, greatest = 0;
    int rc = ah_cuda_check(err, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                           "cudaDeviceGetStreamPriorityRange");
    if (!rc) /* as compute has: with less, a message would wait for gaps, and its other end would wait with it */
        rc = ah_cuda_check(err, cudaStreamCreateWithPriority(&end->stream, cudaStreamNonBlocking, greatest),
                           "cudaStreamCreateWithPriority");
    if (!rc)
        rc = ah_cuda_check(err, cudaMalloc((void **)&end->words, end->n + 1), "cudaMalloc");
    if (!rc)
        rc = ah_cuda_check(err, cudaMalloc((void **)&end->bounce, cut_bounce(end)), "cudaMalloc");
    for (size_t i = 0; i < end->n && !rc; i++)
        rc = ah_cuda_check(err, cudaEventCreateWithFlags(&end->events[i], cudaEventDisableTiming),
                           "cudaEventCreateWithFlags");
    return rc;
}

/* Moves a word through each channel, so that all pairs are connected. */
static int connect_pairs(struct nccl_end *end, struct ah_error *err)
{
    const uint64_t until_ns = deadline_of(end);
    struct ah_comm_done done;
    int rc = AH_OK;
    for (uint32_t c = 0; c < end->n; c++)
        if (is_data(end, c))
            *message_at(end, end->posted++) = (struct message){.channel = c};
    if (end->posted)
        message_at(end, end->posted - 1)->ends = true;
    launch(end);
    while (!rc && end->done < end->posted) {
        if (!nccl_poll(&end->base, &done, 1) || done.rc)
            rc = pause(end, until_ns, "connecting pairs of GPUs", err);
    }
    return rc;
}

/* Copies the caller's channels, and adds those for the id. */
static int list_channels(struct nccl_end *end, const struct ah_comm_channel *channels, size_t n,
                         struct ah_error *err)
{
    end->channels = calloc(n + end->base.ranks, sizeof *end->channels);
    end->messages = calloc(n + 1, sizeof *end->messages);
    end->events = calloc(n + 1, sizeof(cudaEvent_t));
    end->bounce_at = calloc(n + 1, sizeof *end->bounce_at);
    if (!end->channels || !end->messages || !end->events || !end->bounce_at)
        return ah_error_memory(err);
    memcpy(end->channels, channels, n * sizeof *channels);
    end->n = n;
    for (uint32_t peer = 0; peer < end->base.ranks; peer++)
        if (peer != end->base.rank && (!peer || !end->base.rank))
            end->channels[n++] =
                (struct ah_comm_channel){peer, PURPOSE_ID, !end->base.rank, sizeof(ncclUniqueId)};
    return AH_OK;
}

/* Notes the free memory of the GPU at first, then what has been taken since. */
static int count_bytes(struct nccl_end *end, size_t *before, struct ah_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    const int rc = ah_cuda_check(err, cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    if (!rc && *before && end->caller->taken_bytes == 0)
        end->caller->taken_bytes = *before > free_bytes ? *before - free_bytes : 0;
    *before = free_bytes;
    return rc;
}

static int nccl_channels(struct ah_comm_end *base, const struct ah_comm_channel *channels, size_t n,
                         struct ah_error *err)
{
    struct nccl_end *end = end_of(base);
    int rc = list_channels(end, channels, n, err);
    const size_t ids = base->rank ? 1 : base->ranks - 1;
    size_t before = 0;
    rc = rc ? rc : control_of(end)->channels(end->control, end->channels, n + ids, err);
    rc = rc ? rc : ah_cuda_check(err, cudaSetDevice((int)end->boot.gpu), "cudaSetDevice");
    rc = rc ? rc : count_bytes(end, &before, err);
    rc = rc ? rc : take_resources(end, err);
    rc = rc ? rc : make_comm(end, err);
    rc = rc ? rc : connect_pairs(end, err);
    rc = rc ? rc : count_bytes(end, &before, err);
    if (rc) {
        lose(end, err);
        abort_work(end); /* closing the device would wait for it */
    }
    return rc;
}

static int nccl_probe(char *ret_text, size_t bytes, struct ah_error *err)
{
    struct ah_nccl calls;
    const int rc = ah_nccl_load(&calls, err);
    if (!rc)
        snprintf(ret_text, bytes, "%s", calls.name);
    return rc;
}

static int nccl_open(struct ah_comm_end **ret_end, const struct ah_comm_options *options,
                     struct ah_error *err)
{
    struct nccl_end *end = calloc(1, sizeof *end);
    if (!end)
        return ah_error_memory(err);
    end->caller = options->boot;
    end->boot = *end->caller;
    end->options = *options;
    end->options.driver = end->boot.control;
    end->options.boot = end->boot.control_boot;
    int rc = control_of(end)->open(&end->control, &end->options, err);
    if (rc) {
        free(end);
        return rc;
    }
    rc = ah_nccl_load(&end->calls, err);
    if (rc) {
        control_of(end)->revoke(end->control, err);
        control_of(end)->close(end->control);
        free(end);
        return rc;
    }
    end->base = (struct ah_comm_end){end->control->rank, end->control->ranks, false, 0};
    *ret_end = &end->base;
    return AH_OK;
}

/* ---- loss and end ---- */

static int nccl_fault(struct ah_comm_end *base, uint32_t *ret_rank, struct ah_error *ret_why)
{
    struct nccl_end *end = end_of(base);
    const int rc = control_of(end)->fault(end->control, ret_rank, ret_why);
    end->is_lost = end->is_lost || rc;
    if (end->is_lost && end->done == end->posted) /* else `poll` aborts */
        abort_work(end);
    return rc;
}

static void nccl_revoke(struct ah_comm_end *base, const struct ah_error *why)
{
    lose(end_of(base), why);
}

/* Ends the communicator together with the other ranks. If that fails, loses the world and ends this rank's part. */
static void finish(struct nccl_end *end)
{
    const uint64_t until_ns = deadline_of(end);
    struct ah_error why = {0};
    ncclResult_t state = end->calls.finalize(end->comm);
    while (state == ncclInProgress && !pause(end, until_ns, "closing", &why))
        if (end->calls.async_error(end->comm, &state) != ncclSuccess)
            state = ncclInternalError;
    if (state == ncclSuccess) {
        (void)end->calls.destroy(end->comm);
        end->comm = NULL;
        return;
    }
    (void)ah_nccl_check(&end->calls, end->comm, state, "ncclCommFinalize", &why);
    lose(end, &why);
    abort_work(end);
}

static void nccl_close(struct ah_comm_end *base)
{
    struct nccl_end *end = end_of(base);
    struct ah_error why;
    uint32_t culprit;
    (void)cudaSetDevice((int)end->boot.gpu);
    if (end->comm && (end->is_lost || control_of(end)->fault(end->control, &culprit, &why)))
        abort_work(end);
    else if (end->comm)
        finish(end);
    for (size_t i = 0; end->events && i < end->n; i++)
        if (end->events[i])
            (void)cudaEventDestroy(end->events[i]);
    if (end->words)
        (void)cudaFree(end->words);
    if (end->bounce)
        (void)cudaFree(end->bounce);
    if (end->stream)
        (void)cudaStreamDestroy(end->stream);
    (void)cudaGetLastError();
    control_of(end)->close(end->control);
    free(end->bounce_at);
    free(end->events);
    free(end->messages);
    free(end->channels);
    free(end);
}

__attribute__((visibility("default"))) ah_comm_plugin_fn ah_comm_plugin;

const struct ah_comm_driver *ah_comm_plugin(void)
{
    static const struct ah_comm_driver driver = {.abi = AH_COMM_ABI,
                                                 .layout = AH_COMM_LAYOUT,
                                                 .name = "nccl",
                                                 .probe = nccl_probe,
                                                 .open = nccl_open,
                                                 .channels = nccl_channels,
                                                 .post = nccl_post,
                                                 .poll = nccl_poll,
                                                 .fault = nccl_fault,
                                                 .revoke = nccl_revoke,
                                                 .close = nccl_close};
    return &driver;
}
