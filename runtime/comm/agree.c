/* SPDX-License-Identifier: Apache-2.0
 *
 * Agree: compares the channels that ranks request. All ranks compare in one order, so all find the same first fault.
 */
#include "runtime/comm/driver.h"

#include <inttypes.h>
#include <stdio.h>

int ah_comm_check_driver(const struct ah_comm_driver *driver, const char *origin, struct ah_error *err)
{
    if (driver->abi != AH_COMM_ABI)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "driver '%s' has message interface %u, but this program has %d; install both from one build",
            origin, driver->abi, AH_COMM_ABI);
    if (driver->layout != AH_COMM_LAYOUT)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "driver '%s' has struct layout %08x, but this program has %08x; install both from one build",
            origin, driver->layout, AH_COMM_LAYOUT);
    return AH_OK;
}

static size_t find_channel(const struct ah_comm_wishes *wishes, size_t from,
                           const struct ah_comm_channel *wanted)
{
    for (size_t i = from; i < wishes->n; i++) {
        const struct ah_comm_channel *channel = &wishes->channels[i];
        if (channel->peer == wanted->peer && channel->purpose == wanted->purpose &&
            channel->sends == wanted->sends)
            return i;
    }
    return SIZE_MAX;
}

size_t ah_comm_other_end(const struct ah_comm_wishes *peer, uint32_t rank,
                         const struct ah_comm_channel *channel)
{
    const struct ah_comm_channel other = {
        .peer = rank, .purpose = channel->purpose, .sends = !channel->sends};
    return find_channel(peer, 0, &other);
}

static int check_one(const struct ah_comm_wishes *wishes, uint32_t ranks, uint32_t rank, size_t i,
                     struct ah_error *err)
{
    const struct ah_comm_channel *channel = &wishes[rank].channels[i];
    const uint32_t peer = channel->peer;
    const char *does = channel->sends ? "sends to" : "receives from";
    if (peer >= ranks || peer == rank)
        return ah_error_set(err, AH_E_MISMATCH,
                            "rank %u %s rank %u for purpose %u; its peers are the other ranks from 0 to %u",
                            rank, does, peer, channel->purpose, ranks - 1);
    if (find_channel(&wishes[rank], i + 1, channel) != SIZE_MAX)
        return ah_error_set(err, AH_E_MISMATCH,
                            "rank %u %s rank %u for purpose %u twice; a pair has one channel per purpose and "
                            "direction",
                            rank, does, peer, channel->purpose);
    const size_t j = ah_comm_other_end(&wishes[peer], rank, channel);
    if (j == SIZE_MAX)
        return ah_error_set(err, AH_E_MISMATCH,
                            "rank %u %s rank %u for purpose %u, but rank %u does not expect it; give all "
                            "ranks the same plan",
                            rank, does, peer, channel->purpose, peer);
    if (wishes[peer].channels[j].most_bytes != channel->most_bytes)
        return ah_error_set(err, AH_E_MISMATCH,
                            "rank %u %s rank %u for purpose %u: at most %" PRIu64 " bytes, but rank %u "
                            "expects %" PRIu64 "; give all ranks the same plan",
                            rank, does, peer, channel->purpose, channel->most_bytes, peer,
                            wishes[peer].channels[j].most_bytes);
    return AH_OK;
}

int ah_comm_agree(const struct ah_comm_wishes *wishes, uint32_t ranks, struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (size_t i = 0; i < wishes[rank].n && !rc; i++)
            rc = check_one(wishes, ranks, rank, i, err);
    return rc;
}

/* Names the absent ranks: "rank 2", "ranks 1, 3 and 4", "ranks 0, 1, 2, 3 and 12 more". */
int ah_comm_say_absent(const struct ah_comm_absent *absent, struct ah_error *err)
{
    enum { NAMED = 8 };
    char text[128] = "";
    uint32_t n = 0, said = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < absent->ranks; i++)
        n += absent->is_absent(absent->world, i);
    for (uint32_t i = 0; i < absent->ranks && said < NAMED && used < sizeof text; i++) {
        if (!absent->is_absent(absent->world, i))
            continue;
        const char *before = said == 0 ? (n == 1 ? "rank" : "ranks") : said + 1 == n ? " and" : ",";
        said++;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %u", before, i);
    }
    if (n > said && used < sizeof text)
        (void)snprintf(text + used, sizeof text - used, " and %u more", n - said);
    return ah_error_set(err, AH_E_PEER, "%s of %u did not %s within %g s; see their last messages", text,
                        absent->ranks, absent->did_not, absent->deadline_s);
}
