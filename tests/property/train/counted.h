/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop driver with its messages counted, by rank; read the counts after the ranks are closed.
 *
 *     counted_reset();
 *     pipeline.driver = counted_driver();
 */
#ifndef AH_TESTS_PROPERTY_TRAIN_COUNTED_H
#define AH_TESTS_PROPERTY_TRAIN_COUNTED_H

#include "runtime/comm/loop/loop.h"
#include "runtime/train/links.h"

#include <string.h>

enum { COUNTED_RANKS = 8, COUNTED_PURPOSES = AH_LINKS_BEAT_DOWN + 1 };

struct counted {
    uint64_t posts;         /* all messages, in both directions */
    uint64_t watched;       /* number, from 1, of the post whose purpose is saved; 0: none */
    uint32_t watched_is_of; /* purpose of that post; COUNTED_PURPOSES: not posted yet */
    const struct ah_comm_channel *channels;
    uint64_t messages[COUNTED_PURPOSES][2], bytes[COUNTED_PURPOSES][2]; /* received, sent */
};

static struct counted counted[COUNTED_RANKS]; /* by rank; only its engine changes it */

static inline int counted_channels(struct ah_comm_end *end, const struct ah_comm_channel *channels, size_t n,
                                   struct ah_error *err)
{
    counted[end->rank].channels = channels;
    return ah_comm_loop()->channels(end, channels, n, err);
}

static inline void counted_post(struct ah_comm_end *end, const struct ah_comm_message *messages, size_t n)
{
    struct counted *of = &counted[end->rank];
    for (size_t i = 0; i < n; i++) {
        const struct ah_comm_channel *channel = &of->channels[messages[i].channel];
        if (++of->posts == of->watched)
            of->watched_is_of = channel->purpose;
        of->messages[channel->purpose][channel->sends]++;
        of->bytes[channel->purpose][channel->sends] += messages[i].bytes;
    }
    ah_comm_loop()->post(end, messages, n);
}

static inline void counted_reset(void)
{
    memset(counted, 0, sizeof counted);
}

static inline const struct ah_comm_driver *counted_driver(void)
{
    static struct ah_comm_driver driver;
    driver = *ah_comm_loop();
    driver.channels = counted_channels;
    driver.post = counted_post;
    return &driver;
}

#endif
