/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank that pings announces, for each size, how many bytes and rounds follow; 0 rounds end the measurement.
 */
#include "profiler/profile_links.h"

#include "base/stats.h"
#include "base/threads.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS_LEAST = 5, ROUNDS_MOST = 60, POINTS_LEAST = 2 };

static const uint64_t sizes[AH_PROFILE_LINK_POINTS] = {4 << 10, 64 << 10, 256 << 10,
                                                       1 << 20, 4 << 20,  AH_PROFILE_LINK_BYTES};
static const double size_s = 0.4, quick_size_s = 0.1, slow_us = 250e3;

struct rounds {
    uint64_t bytes, n;
};

static int exchange(const struct ah_profile_way *way, char *data, uint64_t bytes, struct ah_error *err)
{
    int rc = ah_comm_move(way->comm, way->out, data, bytes, err);
    return rc ? rc : ah_comm_move(way->comm, way->in, data, bytes, err);
}

/* Announces rounds and does them. `ret_us` gets half of each round trip's time. */
static int ping_rounds(const struct ah_profile_way *way, struct rounds rounds, char *data, double *ret_us,
                       struct ah_error *err)
{
    int rc = ah_comm_move(way->comm, way->out, &rounds, sizeof rounds, err);
    for (uint64_t i = 0; i < rounds.n && !rc; i++) {
        const uint64_t begin_ns = ah_threads_now_ns();
        rc = exchange(way, data, rounds.bytes, err);
        ret_us[i] = (double)(ah_threads_now_ns() - begin_ns) / 2e3;
    }
    return rc;
}

static uint64_t rounds_in(double seconds, double us)
{
    const double n = us > 0 ? seconds * 1e6 / (2 * us) : ROUNDS_MOST;
    return n < ROUNDS_LEAST ? ROUNDS_LEAST : n > ROUNDS_MOST ? ROUNDS_MOST : (uint64_t)n;
}

static int ping_size(const struct ah_profile_way *way, uint64_t bytes, double seconds, char *data,
                     double *ret_us, struct ah_error *err)
{
    double us[ROUNDS_MOST];
    int rc = ping_rounds(way, (struct rounds){bytes, 2}, data, us, err); /* warms up */
    const uint64_t n = rc ? 0 : rounds_in(seconds, us[1]);
    rc = rc ? rc : ping_rounds(way, (struct rounds){bytes, n}, data, us, err);
    if (!rc)
        *ret_us = ah_stats_of(us, n).median;
    return rc;
}

int ah_profile_links_ping(const struct ah_profile_way *way, bool quick, struct ah_profile_points *ret_points,
                          struct ah_error *err)
{
    struct ah_profile_points points = {0};
    struct rounds end = {0};
    char *data = calloc(1, AH_PROFILE_LINK_BYTES);
    int rc = data ? AH_OK : ah_error_memory(err);
    bool slow = false;
    for (size_t i = 0; i < AH_PROFILE_LINK_POINTS && !rc && !slow; i++) {
        double us = 0;
        rc = ping_size(way, sizes[i], quick ? quick_size_s : size_s, data, &us, err);
        points.bytes[points.n] = sizes[i];
        points.us[points.n++] = us;
        slow = us > slow_us && points.n >= POINTS_LEAST;
    }
    rc = rc ? rc : ah_comm_move(way->comm, way->out, &end, sizeof end, err);
    free(data);
    if (!rc)
        *ret_points = points;
    return rc;
}

int ah_profile_links_echo(const struct ah_profile_way *way, struct ah_error *err)
{
    struct rounds rounds = {0};
    char *data = calloc(1, AH_PROFILE_LINK_BYTES);
    int rc = data ? AH_OK : ah_error_memory(err);
    do {
        rc = rc ? rc : ah_comm_move(way->comm, way->in, &rounds, sizeof rounds, err);
        for (uint64_t i = 0; i < rounds.n && !rc; i++) {
            rc = ah_comm_move(way->comm, way->in, data, rounds.bytes, err);
            rc = rc ? rc : ah_comm_move(way->comm, way->out, data, rounds.bytes, err);
        }
    } while (rounds.n && !rc);
    free(data);
    return rc;
}

int ah_profile_links_fit(const struct ah_profile_points *points, struct ah_profile_link *ret_link,
                         struct ah_error *err)
{
    double bytes[AH_PROFILE_LINK_POINTS], slope = 0;
    struct ah_profile_link link = {0};
    const size_t n = points->n < AH_PROFILE_LINK_POINTS ? points->n : AH_PROFILE_LINK_POINTS;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (double)points->bytes[i];
        if (!(points->us[i] > 0))
            return ah_error_set(err, AH_E_FAILED, "a message of %.0f bytes seems to take no time", bytes[i]);
    }
    if (n < POINTS_LEAST)
        return ah_error_set(err, AH_E_FAILED, "%zu message sizes are too few to fit a link", n);
    if (ah_stats_fit_line(bytes, points->us, n, &link.latency_us, &slope, &link.fit_error) || !(slope > 0)) {
        slope = points->us[n - 1] / bytes[n - 1];
        link.latency_us = points->us[0];
        link.fit_error = 0;
        for (size_t i = 0; i < n; i++)
            link.fit_error = fmax(link.fit_error,
                                  fabs(link.latency_us + slope * bytes[i] - points->us[i]) / points->us[i]);
    }
    link.bytes_per_s = 1e6 / slope;
    *ret_link = link;
    return AH_OK;
}
