/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI: messages over MPI, point to point only. All calls come from one thread, the engine's, which initialises MPI
 * itself: MPI_THREAD_FUNNELED suffices. Sends are synchronous (MPI_Issend), so none ends before its receive is posted,
 * whatever its size. A channel is a tag. A long message has a head, with the number of bytes, and pieces short enough
 * for MPI's int counts; MPI keeps them in order. When the head arrives, both sides know that the bytes are on their
 * way.
 *
 * A turn of the engine costs one call, MPI_Testsome; the receive of a notice of loss is among its requests.
 *
 * DEADLINES. Ranks meet by messages to each other, never by a collective call, so that each knows who is absent. Only
 * in MPI_Init_thread is that unknown, because the launcher waits for all ranks there; comm.c then gives up.
 *
 * LOSS. A rank that loses the world sends all others the reason, on a separate communicator where every rank has had a
 * receive posted from the beginning. Then receives are cancelled, and end when nothing can write to their memory.
 * Sends are given up, since they only read. An orderly end is impossible, so `close` aborts MPI. The culprit aborts
 * first, but gives the others time to report why. If a process is killed, its launcher notices and ends the others.
 */
#include "runtime/comm/driver.h"

#include "base/threads.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LONG_BYTES = 64 << 10,   /* longer messages have a head */
    HEAD_BYTES = 9,          /* an 8-byte number and one byte more; messages that are numbers never have 9 */
    PIECE_BYTES = 256 << 20, /* largest piece */
    NOTICE_TAG = 0,          /* `notices` uses this tag and those from MEETING_TAG on */
    MEETING_TAG = 1,
    MEETING_SLEEP_US = 1000,
    PATIENCE_S = 1,
    SAYING_MS = 250 /* the time that the culprit gives the others to report the loss */
};

struct mpi_slot {
    const struct ah_comm_channel *channel; /* borrowed until close */
    /* index and number of its requests; the first of a long message is the head */
    size_t first, n;
    size_t pending; /* number of its requests that are not completed */
    char *data;
    uint64_t bytes;
    unsigned char head[HEAD_BYTES];
    bool is_posted, is_moving;
};

struct notice {
    uint32_t culprit;
    int32_t code;
    char text[AH_ERROR_TEXT_MAX];
};

struct mpi_end {
    struct ah_comm_end base;
    MPI_Comm data, notices;
    struct mpi_slot *slots; /* owned */
    size_t n_slots, n_requests;
    MPI_Request *
        requests; /* owned; MPI_REQUEST_NULL: nothing posted. The first is `hearing`, the rest are the slots' */
    uint32_t *slot_of;    /* owned; the slot of each request but the first */
    int *indices;         /* owned; for MPI_Testsome */
    MPI_Status *statuses; /* owned */
    struct notice heard, said;
    MPI_Request hearing; /* receive of a notice; used until there are channels */
    bool has_listened;   /* notices were checked since `fault` last asked */
    MPI_Request *saying; /* owned; a send of a notice to each rank */
    double deadline_s;
    MPI_Request *meeting;               /* owned; a receive from each rank, then a send to each */
    uint64_t n_own, *n_wishes;          /* this rank's number of channels; owned: every rank's number */
    struct ah_comm_channel *all_wishes; /* owned until close, since some ranks' wishes may come late */
    bool is_lost;
    uint32_t culprit;
    struct ah_error why;
};

static struct mpi_end *end_of(struct ah_comm_end *end)
{
    return (struct mpi_end *)end;
}

/* ---- loss ---- */

static void lose(struct mpi_end *end, uint32_t culprit, int code, const char *text)
{
    if (end->is_lost)
        return;
    end->is_lost = true;
    end->culprit = culprit;
    (void)ah_error_set(&end->why, code, "%s", text);
    for (size_t i = 0; i < end->n_slots; i++)
        for (size_t r = 0; r < end->slots[i].n && !end->slots[i].channel->sends; r++)
            if (end->requests[end->slots[i].first + r] != MPI_REQUEST_NULL)
                MPI_Cancel(&end->requests[end->slots[i].first + r]);
}

/* Loses the world for this rank's own reason, and sends it to all others. */
static void lose_and_tell(struct mpi_end *end, int code, const char *text)
{
    if (end->is_lost)
        return;
    lose(end, end->base.rank, code, text);
    end->said.culprit = end->base.rank;
    end->said.code = code;
    (void)snprintf(end->said.text, sizeof end->said.text, "%s", text);
    for (uint32_t i = 0; i < end->base.ranks; i++)
        if (i != end->base.rank)
            MPI_Isend(&end->said, (int)sizeof end->said, MPI_BYTE, (int)i, NOTICE_TAG, end->notices,
                      &end->saying[i]);
}

static void tell_failure(struct mpi_end *end, const char *call, int failure)
{
    char reason[MPI_MAX_ERROR_STRING] = "";
    struct ah_error why = {0};
    int length = 0;
    MPI_Error_string(failure, reason, &length);
    (void)ah_error_set(&why, AH_E_PEER, "%s failed: %s", call, reason);
    lose_and_tell(end, why.code, why.text);
}

/* Loses the world for the reason in a notice that has arrived. */
static void take_notice(struct mpi_end *end)
{
    end->heard.text[sizeof end->heard.text - 1] = '\0';
    lose(end, end->heard.culprit, end->heard.code, end->heard.text);
}

static void listen(struct mpi_end *end)
{
    MPI_Request *hearing = end->requests ? &end->requests[0] : &end->hearing;
    int flag = 0;
    if (end->is_lost || *hearing == MPI_REQUEST_NULL)
        return;
    int failure = MPI_Test(hearing, &flag, MPI_STATUS_IGNORE);
    if (failure)
        tell_failure(end, "MPI_Test", failure);
    else if (flag)
        take_notice(end);
}

static int mpi_fault(struct ah_comm_end *base, uint32_t *ret_rank, struct ah_error *ret_why)
{
    struct mpi_end *end = end_of(base);
    if (!end->has_listened)
        listen(end);
    end->has_listened = false;
    if (!end->is_lost)
        return AH_OK;
    *ret_rank = end->culprit;
    *ret_why = end->why;
    return AH_E_PEER;
}

static void mpi_revoke(struct ah_comm_end *base, const struct ah_error *why)
{
    struct mpi_end *end = end_of(base);
    listen(end); /* another rank may have been first */
    lose_and_tell(end, why->code, why->text);
}

/* ---- meetings ---- */

/* What every rank sends to every other rank, in this order. */
enum meeting { MEETING_HELLO, MEETING_COUNTS, MEETING_WISHES };

static void begin_meeting(struct mpi_end *end, enum meeting what, const struct ah_comm_channel *channels)
{
    const int tag = MEETING_TAG + (int)what;
    const uint32_t ranks = end->base.ranks;
    const size_t own =
        what == MEETING_WISHES ? end->n_own * sizeof *channels : (what == MEETING_COUNTS) * sizeof end->n_own;
    const void *out = what == MEETING_WISHES ? (const void *)channels : &end->n_own;
    struct ah_comm_channel *in = end->all_wishes;
    for (uint32_t i = 0; i < ranks; i++) {
        const size_t n = what == MEETING_WISHES ? end->n_wishes[i] : 0;
        const size_t bytes =
            what == MEETING_WISHES ? n * sizeof *in : (what == MEETING_COUNTS) * sizeof end->n_own;
        void *place = what == MEETING_WISHES ? (void *)in : &end->n_wishes[i];
        if (i == end->base.rank && own) {
            memcpy(place, out, own);
        } else if (i != end->base.rank) {
            MPI_Irecv(place, (int)bytes, MPI_BYTE, (int)i, tag, end->notices, &end->meeting[i]);
            MPI_Isend(out, (int)own, MPI_BYTE, (int)i, tag, end->notices, &end->meeting[ranks + i]);
        }
        in = in ? in + n : in;
    }
}

static bool is_absent(const void *world, uint32_t rank)
{
    const struct mpi_end *end = world;
    return end->meeting[rank] != MPI_REQUEST_NULL || end->meeting[end->base.ranks + rank] != MPI_REQUEST_NULL;
}

static bool is_met(struct mpi_end *end)
{
    size_t pending = 0;
    for (size_t i = 0; i < (size_t)end->base.ranks * 2; i++) {
        int flag = 1;
        int failure =
            end->meeting[i] == MPI_REQUEST_NULL ? 0 : MPI_Test(&end->meeting[i], &flag, MPI_STATUS_IGNORE);
        if (failure)
            tell_failure(end, "MPI_Test", failure);
        pending += failure || !flag;
    }
    return pending == 0;
}

static int meet_ranks(struct mpi_end *end, enum meeting what, const struct ah_comm_channel *channels,
                      struct ah_error *err)
{
    const struct ah_comm_absent absent = {
        end->base.ranks, is_absent, end, what == MEETING_HELLO ? "come" : "set up channels", end->deadline_s};
    const uint64_t until_ns = ah_threads_now_ns() + (uint64_t)(end->deadline_s * 1e9);
    begin_meeting(end, what, channels);
    while (!is_met(end)) {
        if (what != MEETING_HELLO)
            listen(end);
        if (end->is_lost)
            return ah_error_set(err, AH_E_PEER, "rank %u: %s", end->culprit, end->why.text);
        if (ah_threads_now_ns() > until_ns)
            return ah_comm_say_absent(&absent, err);
        nanosleep(&(const struct timespec){.tv_nsec = MEETING_SLEEP_US * 1000}, NULL);
    }
    return AH_OK;
}

/* ---- life ---- */

static bool is_launched(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (getenv(variables[i]))
            return true;
    return false;
}

static int mpi_probe(char *ret_text, size_t bytes, struct ah_error *err)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)err;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    (void)snprintf(ret_text, bytes, "%s%s", version, is_launched() ? ", started by its launcher" : "");
    return AH_OK;
}

static int init_mpi(const struct ah_comm_options *options, int *ret_rank, int *ret_ranks,
                    struct ah_error *err)
{
    int was = 0, provided = 0;
    MPI_Initialized(&was);
    if (was)
        return ah_error_set(err, AH_E_USAGE, "MPI is already in use; a process can be only one rank");
    if (!is_launched())
        return ah_error_set(err, AH_E_USAGE, "no MPI launcher started this process; use mpirun or srun");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) || provided < MPI_THREAD_FUNNELED)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "this MPI does not support threads; use one with MPI_THREAD_FUNNELED");
    MPI_Comm_rank(MPI_COMM_WORLD, ret_rank);
    MPI_Comm_size(MPI_COMM_WORLD, ret_ranks);
    if (options->ranks && (options->ranks != (uint32_t)*ret_ranks || options->rank != (uint32_t)*ret_rank)) {
        MPI_Finalize();
        return ah_error_set(err, AH_E_MISMATCH, "rank %u of %u was expected, but the launcher says %d of %d",
                            options->rank, options->ranks, *ret_rank, *ret_ranks);
    }
    return AH_OK;
}

static struct mpi_end *new_end(uint32_t rank, uint32_t ranks)
{
    struct mpi_end *end = calloc(1, sizeof *end);
    MPI_Request *saying = calloc(ranks, sizeof *saying);
    MPI_Request *meeting = calloc((size_t)ranks * 2, sizeof *meeting);
    uint64_t *n_wishes = calloc(ranks, sizeof *n_wishes);
    if (!end || !saying || !meeting || !n_wishes) {
        free(end);
        free(saying);
        free(meeting);
        free(n_wishes);
        return NULL;
    }
    for (uint32_t i = 0; i < ranks; i++)
        saying[i] = meeting[i] = meeting[ranks + i] = MPI_REQUEST_NULL;
    end->base = (struct ah_comm_end){rank, ranks, true, 0};
    end->saying = saying;
    end->meeting = meeting;
    end->n_wishes = n_wishes;
    return end;
}

static int mpi_open(struct ah_comm_end **ret_end, const struct ah_comm_options *options, struct ah_error *err)
{
    int rank = 0, ranks = 0;
    int rc = init_mpi(options, &rank, &ranks, err);
    if (rc)
        return rc;
    struct mpi_end *end = new_end((uint32_t)rank, (uint32_t)ranks);
    if (!end) {
        MPI_Abort(MPI_COMM_WORLD, 1); /* otherwise the others would never end */
        return ah_error_memory(err);
    }
    end->deadline_s = options->deadline_s;
    end->notices = MPI_COMM_WORLD;
    rc = meet_ranks(end, MEETING_HELLO, NULL, err);
    if (rc)
        return rc; /* the end is not freed, since MPI may still write there */
    MPI_Comm_dup(MPI_COMM_WORLD, &end->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &end->notices);
    MPI_Comm_set_errhandler(end->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(end->notices, MPI_ERRORS_RETURN);
    MPI_Irecv(&end->heard, (int)sizeof end->heard, MPI_BYTE, MPI_ANY_SOURCE, NOTICE_TAG, end->notices,
              &end->hearing);
    *ret_end = &end->base;
    return AH_OK;
}

static void mpi_close(struct ah_comm_end *base)
{
    struct mpi_end *end = end_of(base);
    listen(end);
    if (end->is_lost) {
        int flag = 0;
        MPI_Testall((int)end->base.ranks, end->saying, &flag, MPI_STATUSES_IGNORE);
        if (end->culprit != end->base.rank) /* the culprit's abort should end this process */
            nanosleep(&(const struct timespec){.tv_sec = PATIENCE_S}, NULL);
        else
            nanosleep(&(const struct timespec){.tv_nsec = SAYING_MS * 1000L * 1000}, NULL);
        MPI_Abort(MPI_COMM_WORLD, ah_error_exit_status(end->why.code));
    }
    MPI_Request *hearing = end->requests ? &end->requests[0] : &end->hearing;
    MPI_Cancel(hearing);
    MPI_Wait(hearing, MPI_STATUS_IGNORE);
    MPI_Comm_free(&end->data);
    MPI_Comm_free(&end->notices);
    MPI_Finalize();
    free(end->slots);
    free(end->requests);
    free(end->slot_of);
    free(end->indices);
    free(end->statuses);
    free(end->saying);
    free(end->meeting);
    free(end->n_wishes);
    free(end->all_wishes);
    free(end);
}

/* ---- channels ---- */

static size_t pieces_of(uint64_t bytes)
{
    return 1 + (bytes > LONG_BYTES ? (size_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES) : 0);
}

static int make_slots(struct mpi_end *end, const struct ah_comm_channel *channels, size_t n,
                      struct ah_error *err)
{
    size_t requests = 1;
    for (size_t i = 0; i < n; i++)
        requests += pieces_of(channels[i].most_bytes);
    end->slots = calloc(n + 1, sizeof *end->slots);
    end->slot_of = calloc(requests, sizeof *end->slot_of);
    end->indices = calloc(requests, sizeof *end->indices);
    end->statuses = calloc(requests, sizeof *end->statuses);
    end->requests = calloc(requests, sizeof(MPI_Request));
    if (end->requests) {
        end->requests[0] = end->hearing;
        end->n_requests = 1;
    }
    if (!end->slots || !end->requests || !end->slot_of || !end->indices || !end->statuses)
        return ah_error_memory(err);
    for (size_t i = 0; i < n; i++) {
        struct mpi_slot *slot = &end->slots[i];
        slot->channel = &channels[i];
        slot->first = end->n_requests;
        slot->n = pieces_of(channels[i].most_bytes);
        for (size_t r = 0; r < slot->n; r++) {
            end->slot_of[end->n_requests] = (uint32_t)i;
            end->requests[end->n_requests++] = MPI_REQUEST_NULL;
        }
    }
    end->n_slots = n;
    return AH_OK;
}

/* Sends this rank's wishes to all ranks, and receives theirs. */
static int exchange(struct mpi_end *end, const struct ah_comm_channel *channels, size_t n,
                    struct ah_comm_wishes *wishes, struct ah_error *err)
{
    size_t total = 0;
    end->n_own = n;
    int rc = meet_ranks(end, MEETING_COUNTS, NULL, err);
    for (uint32_t i = 0; i < end->base.ranks && !rc; i++)
        total += end->n_wishes[i];
    end->all_wishes = rc ? NULL : calloc(total + 1, sizeof *end->all_wishes);
    if (!rc && !end->all_wishes)
        return ah_error_memory(err);
    rc = rc ? rc : meet_ranks(end, MEETING_WISHES, channels, err);
    total = 0;
    for (uint32_t i = 0; i < end->base.ranks && !rc; i++) {
        wishes[i] = (struct ah_comm_wishes){end->all_wishes + total, end->n_wishes[i]};
        total += end->n_wishes[i];
    }
    return rc;
}

static int check_tags(const struct mpi_end *end, const struct ah_comm_channel *channels, size_t n,
                      struct ah_error *err)
{
    int *most = NULL, flag = 0;
    MPI_Comm_get_attr(end->data, MPI_TAG_UB, &most, &flag);
    for (size_t i = 0; i < n && flag; i++)
        if (channels[i].purpose > (uint32_t)*most)
            return ah_error_set(err, AH_E_UNSUPPORTED, "purpose %u is beyond %d, the last tag of this MPI",
                                channels[i].purpose, *most);
    return AH_OK;
}

static int mpi_channels(struct ah_comm_end *base, const struct ah_comm_channel *channels, size_t n,
                        struct ah_error *err)
{
    struct mpi_end *end = end_of(base);
    struct ah_comm_wishes *wishes = calloc(base->ranks, sizeof *wishes);
    int rc = wishes ? AH_OK : ah_error_memory(err);
    rc = rc ? rc : make_slots(end, channels, n, err);
    rc = rc ? rc : exchange(end, channels, n, wishes, err);
    rc = rc ? rc : ah_comm_agree(wishes, base->ranks, err);
    rc = rc ? rc : check_tags(end, channels, n, err);
    free(wishes);
    return rc;
}

/* ---- messages ---- */

struct piece {
    void *data;
    int bytes;
};

static struct piece piece_of(struct mpi_slot *slot, size_t i)
{
    if (slot->bytes <= LONG_BYTES)
        return (struct piece){slot->data, (int)slot->bytes};
    if (i == 0)
        return (struct piece){slot->head, HEAD_BYTES};
    const uint64_t begin = (i - 1) * PIECE_BYTES, rest = slot->bytes - begin;
    return (struct piece){slot->data + begin, rest < PIECE_BYTES ? (int)rest : PIECE_BYTES};
}

static void post_one(struct mpi_end *end, const struct ah_comm_message *message)
{
    struct mpi_slot *slot = &end->slots[message->channel];
    const int peer = (int)slot->channel->peer, tag = (int)slot->channel->purpose;
    slot->is_posted = true;
    slot->data = message->data;
    slot->bytes = message->bytes;
    slot->pending = 0;
    if (slot->channel->sends)
        memcpy(slot->head, &slot->bytes, sizeof slot->bytes);
    for (size_t i = 0; i < pieces_of(slot->bytes) && !end->is_lost; i++) {
        const struct piece piece = piece_of(slot, i);
        MPI_Request *request = &end->requests[slot->first + i];
        int failure = slot->channel->sends
                          ? MPI_Issend(piece.data, piece.bytes, MPI_BYTE, peer, tag, end->data, request)
                          : MPI_Irecv(piece.data, piece.bytes, MPI_BYTE, peer, tag, end->data, request);
        if (failure)
            tell_failure(end, slot->channel->sends ? "MPI_Issend" : "MPI_Irecv", failure);
        else
            slot->pending++;
    }
}

static void mpi_post(struct ah_comm_end *base, const struct ah_comm_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        post_one(end_of(base), &messages[i]);
}

static void refuse_size(struct mpi_end *end, const struct mpi_slot *slot, const char *more, uint64_t bytes)
{
    struct ah_error why = {0};
    (void)ah_error_set(&why, AH_E_MISMATCH,
                       "rank %u sends %s%" PRIu64
                       " bytes to rank %u for purpose %u, but the receiver expects "
                       "%" PRIu64,
                       slot->channel->peer, more, bytes, end->base.rank, slot->channel->purpose, slot->bytes);
    lose_and_tell(end, why.code, why.text);
}

/* Checks that an arrived piece has the expected length. */
static void check_piece(struct mpi_end *end, struct mpi_slot *slot, size_t i, const MPI_Status *status,
                        bool is_failure)
{
    const struct piece piece = piece_of(slot, i);
    uint64_t bytes = 0;
    int came = 0, kind = MPI_SUCCESS;
    if (is_failure)
        MPI_Error_class(status->MPI_ERROR, &kind);
    if (is_failure && kind != MPI_ERR_TRUNCATE) {
        tell_failure(end, slot->channel->sends ? "a send" : "a receive", status->MPI_ERROR);
        return;
    }
    if (slot->channel->sends)
        return;
    MPI_Get_count(status, MPI_BYTE, &came);
    bytes = (uint64_t)came;
    if (came == HEAD_BYTES && piece.bytes >= HEAD_BYTES)
        memcpy(&bytes, piece.data, sizeof bytes);
    if (kind == MPI_ERR_TRUNCATE)
        refuse_size(end, slot, "more than ", (uint64_t)piece.bytes);
    else if (came != piece.bytes || (piece.data == slot->head && bytes != slot->bytes))
        refuse_size(end, slot, "", bytes);
}

static void set_moving(struct mpi_end *end, struct mpi_slot *slot, bool is_moving)
{
    end->base.moving += (uint32_t)is_moving - (uint32_t)slot->is_moving;
    slot->is_moving = is_moving;
}

static void take_pieces(struct mpi_end *end)
{
    int n = 0;
    int failure = MPI_Testsome((int)end->n_requests, end->requests, &n, end->indices, end->statuses);
    if (failure && failure != MPI_ERR_IN_STATUS) {
        tell_failure(end, "MPI_Testsome", failure);
        return;
    }
    for (int i = 0; i < n && n != MPI_UNDEFINED; i++) {
        const size_t request = (size_t)end->indices[i];
        if (request == 0) {
            take_notice(end);
            continue;
        }
        struct mpi_slot *slot = &end->slots[end->slot_of[request]];
        slot->pending--;
        if (!end->is_lost)
            check_piece(end, slot, request - slot->first, &end->statuses[i],
                        failure && end->statuses[i].MPI_ERROR != MPI_SUCCESS);
        if (request == slot->first && slot->pending)
            set_moving(end, slot, true);
    }
}

static size_t mpi_poll(struct ah_comm_end *base, struct ah_comm_done *ret_done, size_t max)
{
    struct mpi_end *end = end_of(base);
    size_t n = 0;
    take_pieces(end);
    end->has_listened = true;
    for (size_t i = 0; i < end->n_slots && n < max; i++) {
        struct mpi_slot *slot = &end->slots[i];
        const bool is_given_up = end->is_lost && slot->channel->sends;
        if (!slot->is_posted || (slot->pending && !is_given_up))
            continue;
        slot->is_posted = false;
        set_moving(end, slot, false);
        ret_done[n++] = (struct ah_comm_done){(uint32_t)i, end->is_lost ? AH_E_PEER : AH_OK};
    }
    return n;
}

__attribute__((visibility("default"))) const struct ah_comm_driver *ah_comm_plugin(void);

const struct ah_comm_driver *ah_comm_plugin(void)
{
    static const struct ah_comm_driver driver = {.abi = AH_COMM_ABI,
                                                 .layout = AH_COMM_LAYOUT,
                                                 .name = "mpi",
                                                 .probe = mpi_probe,
                                                 .open = mpi_open,
                                                 .channels = mpi_channels,
                                                 .post = mpi_post,
                                                 .poll = mpi_poll,
                                                 .fault = mpi_fault,
                                                 .revoke = mpi_revoke,
                                                 .close = mpi_close};
    return &driver;
}
