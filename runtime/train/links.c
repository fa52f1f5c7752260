/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: the plan alone decides which channels a rank requests, so the requests of all ranks match.
 */
#include "runtime/train/links.h"

#include "runtime/schedule/trainable.h"
#include "runtime/train/bind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- channels ---- */

static const struct {
    enum ah_links_purpose purpose;
    bool sends, behind;
} of_pipeline[AH_CHANNELS] = {
    [AH_CHANNEL_OUTPUT_IN] = {AH_LINKS_OUTPUT, false, false},
    [AH_CHANNEL_OUTPUT_OUT] = {AH_LINKS_OUTPUT, true, true},
    [AH_CHANNEL_GRADIENT_IN] = {AH_LINKS_GRADIENT, false, true},
    [AH_CHANNEL_GRADIENT_OUT] = {AH_LINKS_GRADIENT, true, false},
};

struct asking {
    struct ah_comm_channel *channels;
    uint32_t n;
};

static uint32_t ask_channel(struct asking *asking, uint32_t peer, enum ah_links_purpose purpose, bool sends,
                            uint64_t most_bytes)
{
    asking->channels[asking->n] =
        (struct ah_comm_channel){.peer = peer, .purpose = purpose, .sends = sends, .most_bytes = most_bytes};
    return asking->n++;
}

static struct ah_links_pair ask_pair(struct asking *asking, uint32_t peer, enum ah_links_purpose up,
                                     bool receives_up, uint64_t most_bytes)
{
    const enum ah_links_purpose down = up + 1;
    const uint32_t channel = ask_channel(asking, peer, up, !receives_up, most_bytes);
    return (struct ah_links_pair){channel, ask_channel(asking, peer, down, receives_up, most_bytes)};
}

/* Requests this rank's pairs. `centre` has a pair with each other rank for which `has` is true (NULL: all). */
static void ask_pairs(const struct ah_trainer_rank *place, struct asking *asking, uint32_t centre,
                      const bool *has, enum ah_links_purpose up, uint64_t most_bytes,
                      struct ah_links_pair *ret_pairs)
{
    if (has && !has[place->rank])
        return;
    if (place->rank != centre) {
        ret_pairs[0] = ask_pair(asking, centre, up, false, most_bytes);
        return;
    }
    for (uint32_t peer = 0; peer < place->ranks; peer++)
        if (peer != centre && (!has || has[peer]))
            ret_pairs[peer] = ask_pair(asking, peer, up, true, most_bytes);
}

/* Finds the ranks that take part in the gate: those that train something, since only these need the norm. */
static int find_training(struct ah_links *links, const struct ah_plan *program, struct ah_error *err)
{
    const struct ah_trainer_rank *place = links->place;
    const struct ah_plan_training *training = &program->training;
    const uint64_t blocks = ah_model_blocks(&program->model);
    uint32_t *trained = calloc(blocks, sizeof *trained);
    links->gatekeeper = place->ranks;
    int rc = trained ? ah_trainable_match(&program->model, training->trainable, training->n_trainable,
                                          trained, err)
                     : ah_error_memory(err);
    if (!rc && training->tied == AH_TIED_SPLIT)
        trained[blocks - 1] |= 1; /* the head's copy of the table is always trained */
    for (uint32_t rank = 0; rank < place->ranks && !rc; rank++)
        for (uint64_t n = 0; n < place->stages[rank].blocks; n++)
            links->trains[rank] |= trained[place->stages[rank].first_block + n] != 0;
    for (uint64_t block = 0; block < blocks && !rc; block++) {
        if (trained[block] && links->gatekeeper == place->ranks)
            links->gatekeeper = place->owner[block];
    }
    free(trained);
    if (place->shards)
        links->gatekeeper = place->ranks - 1;
    return rc;
}

/* Returns the most bytes of a message between ranks that share states: what one of them sends to one other. */
static uint64_t most_of_net(const struct ah_plan *program)
{
    uint64_t most = sizeof(double);
    for (size_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].lane == AH_PLAN_LANE_NET &&
            program->ops[i].bytes / (ah_plan_shards(program) - 1) > most)
            most = program->ops[i].bytes / (ah_plan_shards(program) - 1);
    return most;
}

/* Requests channels to the stage's neighbours. All messages except words have the same length. */
static void ask_neighbours(struct ah_links *links, const struct ah_plan *program, struct asking *asking)
{
    const struct ah_plan_part *part = program->part;
    const struct ah_plan_training *training = &program->training;
    const uint64_t most_bytes = training->batch / training->micro_batches * training->seq *
                                program->model.width * ah_dtype_bytes(training->dtype);
    for (enum ah_channel c = 0; c < AH_CHANNELS; c++)
        if (of_pipeline[c].behind ? part->stage + 1 < part->stages : part->stage > 0)
            links->channel[c] =
                ask_channel(asking, of_pipeline[c].behind ? links->place->behind : links->place->before,
                            of_pipeline[c].purpose, of_pipeline[c].sends, most_bytes);
}

/* Requests channels to the ranks with which this rank adds up gradients or shares states. */
static void ask_sums(struct ah_links *links, const struct ah_plan *program, struct asking *asking)
{
    static const struct {
        enum ah_links_purpose purpose;
        bool sends;
    } ends[AH_SUM_CHANNELS] = {[AH_SUM_PARTIAL_OUT] = {AH_LINKS_PARTIAL, true},
                               [AH_SUM_PARTIAL_IN] = {AH_LINKS_PARTIAL, false},
                               [AH_SUM_TOTAL_OUT] = {AH_LINKS_TOTAL, true},
                               [AH_SUM_TOTAL_IN] = {AH_LINKS_TOTAL, false}};
    const struct ah_trainer_rank *place = links->place;
    const uint64_t piece = place->share_piece ? place->share_piece : AH_SHARE_PIECE;
    const uint64_t most_bytes = place->shards ? most_of_net(program) : piece * sizeof(float);
    for (uint32_t rank = 0; rank < place->ranks; rank++) {
        bool shares = place->shards && rank != place->rank;
        for (size_t s = 0; s < place->n_shares && rank != place->rank; s++)
            shares = shares || (ah_trainer_shares(place, &place->shares[s], place->rank) &&
                                ah_trainer_shares(place, &place->shares[s], rank));
        for (enum ah_bind_sum sum = 0; sum < AH_SUM_CHANNELS && shares; sum++)
            links->sums[ah_bind_sum_channel(rank, sum) - AH_CHANNELS] =
                ask_channel(asking, rank, ends[sum].purpose, ends[sum].sends, most_bytes);
    }
}

int ah_links_open(struct ah_links *ret_links, const struct ah_trainer_rank *place,
                  const struct ah_plan *program, struct ah_error *err)
{
    struct ah_links links = {.place = place};
    struct asking asking = {.channels =
                                calloc(AH_CHANNELS + 10 * (size_t)place->ranks, sizeof *asking.channels)};
    links.gate = ah_arena_array(&links.arena, place->ranks, sizeof *links.gate);
    links.other = ah_arena_array(&links.arena, place->ranks, sizeof *links.other);
    links.beat = ah_arena_array(&links.arena, place->ranks, sizeof *links.beat);
    links.trains = ah_arena_array(&links.arena, place->ranks, sizeof *links.trains);
    links.sums = ah_arena_array(&links.arena, (size_t)place->ranks * AH_SUM_CHANNELS, sizeof *links.sums);
    int rc = asking.channels && links.gate && links.other && links.beat && links.trains && links.sums
                 ? find_training(&links, program, err)
                 : ah_error_memory(err);
    if (!rc) {
        ask_neighbours(&links, program, &asking);
        ask_sums(&links, program, &asking);
        ask_pairs(place, &asking, 0, NULL, AH_LINKS_UP, AH_LINKS_PIECE_BYTES, links.other);
        ask_pairs(place, &asking, links.gatekeeper, links.trains, AH_LINKS_GATE_UP,
                  ah_model_blocks(&program->model) * sizeof(double), links.gate);
        ask_pairs(place, &asking, 0, NULL, AH_LINKS_BEAT_UP, AH_LINKS_BEAT_BYTES, links.beat);
        rc = ah_comm_channels(place->comm, asking.channels, asking.n, err);
    }
    free(asking.channels);
    if (rc)
        ah_arena_release(&links.arena);
    else
        *ret_links = links;
    return rc;
}

void ah_links_release(struct ah_links *links)
{
    ah_arena_release(&links->arena);
}

/* ---- messages through rank 0 ---- */

int ah_links_share(const struct ah_links *links, void *data, uint64_t bytes, struct ah_error *err)
{
    const struct ah_trainer_rank *place = links->place;
    int rc = AH_OK;
    if (place->rank)
        return ah_links_move(links, links->other[0].down, data, bytes, err);
    for (uint32_t rank = 1; rank < place->ranks && !rc; rank++)
        rc = ah_links_move(links, links->other[rank].down, data, bytes, err);
    return rc;
}

int ah_links_collect(const struct ah_links *links, void *mine, uint64_t bytes, void *ret_all,
                     struct ah_error *err)
{
    const struct ah_trainer_rank *place = links->place;
    char *all = ret_all;
    int rc = AH_OK;
    if (place->rank)
        return ah_links_move(links, links->other[0].up, mine, bytes, err);
    memcpy(all, mine, bytes);
    for (uint32_t rank = 1; rank < place->ranks && !rc; rank++)
        rc = ah_links_move(links, links->other[rank].up, all + rank * bytes, bytes, err);
    return rc;
}

/* ---- failures ---- */

int ah_links_say(const struct ah_trainer_rank *place, uint32_t culprit, int code, const char *why,
                 struct ah_error *err)
{
    return place->hosts && place->hosts[culprit][0]
               ? ah_error_set(err, code, "rank %" PRIu32 " on host '%s': %.600s", culprit,
                              place->hosts[culprit], why)
               : ah_error_set(err, code, "rank %" PRIu32 ": %.700s", culprit, why);
}

int ah_links_fail(const struct ah_trainer_rank *place, int rc, struct ah_error *err)
{
    struct ah_error why = {.code = rc};
    uint32_t culprit;
    if (rc != AH_E_PEER)
        ah_comm_revoke(place->comm, err ? err : &why);
    if (!ah_comm_fault(place->comm, &culprit, &why) || !why.code || why.code == AH_E_PEER)
        return rc;
    /* with AH_E_PEER, the world has already told the caller of the failure */
    const bool is_known = culprit == place->rank && rc != AH_E_PEER;
    if (is_known && err)
        why = *err; /* the caller's error says more than the text sent to the others */
    why.code = is_known ? rc : why.code;
    return culprit || place->rank
               ? ah_links_say(place, culprit, why.code, why.text, err)
               : ah_error_set(err, why.code, "%s", why.text); /* the user knows rank 0 as the run itself */
}

static void print_wait(const struct ah_comm_under_way *message, uint64_t micro_batches, uint64_t each,
                       struct ah_buffer *out)
{
    static const char *const what[] = {[AH_LINKS_OUTPUT] = "the output of micro-batch",
                                       [AH_LINKS_GRADIENT] = "the gradient of micro-batch",
                                       [AH_LINKS_PARTIAL] = "gradients to add up",
                                       [AH_LINKS_TOTAL] = "summed gradients or gathered weights",
                                       [AH_LINKS_GATE_UP] = "the sums of its gradients",
                                       [AH_LINKS_GATE_DOWN] = "the sums of all gradients",
                                       [AH_LINKS_UP] = "a report",
                                       [AH_LINKS_DOWN] = "an order"};
    const struct ah_comm_channel *channel = &message->channel;
    if (channel->sends)
        ah_buffer_printf(out, "rank %" PRIu32 " to take ", channel->peer);
    ah_buffer_printf(out, "%s", what[channel->purpose]);
    if (channel->purpose < AH_LINKS_PARTIAL)
        ah_buffer_printf(out, " %" PRIu64, message->before / each % micro_batches);
    if (!channel->sends)
        ah_buffer_printf(out, " from rank %" PRIu32, channel->peer);
}

void ah_links_waits(struct ah_comm *comm, uint64_t micro_batches, uint64_t each, struct ah_buffer *out)
{
    enum { SHOWN_MOST = 4 };
    struct ah_comm_under_way messages[SHOWN_MOST];
    const size_t n = ah_comm_under_way(comm, messages, SHOWN_MOST);
    for (size_t i = 0; i < n; i++) {
        if (messages[i].channel.purpose >= AH_LINKS_BEAT_UP)
            continue;
        ah_buffer_printf(out, "%s", out->size ? " and for " : "");
        print_wait(&messages[i], micro_batches, each, out);
    }
}
