/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: measures how fast messages pass between two ranks, by ping-pong over the comm of a training.
 *
 * One rank pings, and the other echoes. A message's time is half of a round trip, as the median of several rounds. The
 * line
 *
 *     time = latency_us + bytes / bytes_per_s
 *
 * is fitted to these medians by relative error, as the profiler fits copies. If one direction is slower, the result is
 * the mean of both.
 */
#ifndef AH_PROFILER_PROFILE_LINKS_H
#define AH_PROFILER_PROFILE_LINKS_H

#include "runtime/comm/comm.h"

enum { AH_PROFILE_LINK_POINTS = 6, AH_PROFILE_LINK_BYTES = 16 << 20 /* the largest message */ };

struct ah_profile_points {
    uint64_t n;
    uint64_t bytes[AH_PROFILE_LINK_POINTS];
    double us[AH_PROFILE_LINK_POINTS]; /* time in one direction */
};

struct ah_profile_link {
    double bytes_per_s, latency_us;
    double fit_error; /* worst relative residual */
};

/* The channels to and from the other rank, with room for at least AH_PROFILE_LINK_BYTES. */
struct ah_profile_way {
    struct ah_comm *comm;
    uint32_t out, in;
};

/* Measure the times of messages. One rank pings, the other echoes. Once a message takes more than a quarter of a
 * second, no larger one is sent. Errors of ah_comm_move(); AH_E_MEMORY. */
int ah_profile_links_ping(const struct ah_profile_way *way, bool quick, struct ah_profile_points *ret_points,
                          struct ah_error *err);
int ah_profile_links_echo(const struct ah_profile_way *way, struct ah_error *err);

/* Fits the line. If no line fits, takes the rate of the largest message, and the time of the smallest as latency.
 * AH_E_FAILED: messages seem to take no time. */
int ah_profile_links_fit(const struct ah_profile_points *points, struct ah_profile_link *ret_link,
                         struct ah_error *err);

#endif
