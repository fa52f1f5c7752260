/* SPDX-License-Identifier: Apache-2.0
 *
 * The traffic of lanes, from a trainer's trace: which items of the plan ran, and how long two lanes worked together.
 *
 *     traffic_read(&traffic, trainer);      // every op since the device was opened; options.device.spans is enough
 *     assert_true(traffic_beside_ns(&traffic, AH_LANE_COMPUTE, AH_LANE_H2D) > 0);
 */
#ifndef AH_TESTS_PROPERTY_TRAIN_TRAFFIC_H
#define AH_TESTS_PROPERTY_TRAIN_TRAFFIC_H

#include "runtime/train/trainer.h"
#include "tests/support/check.h"

enum { TRAFFIC_SPANS = 1 << 13 };

/* The plan's ops only, without the trainer's own. */
struct traffic {
    struct ah_span spans[AH_DEVICE_LANES][TRAFFIC_SPANS];
    size_t n[AH_DEVICE_LANES];
};

static inline void traffic_read(struct traffic *traffic, struct ah_trainer *trainer)
{
    struct ah_device *device = ah_trainer_device(trainer);
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES; lane++) {
        struct ah_span_reader reader = {.lane = lane};
        struct ah_span span;
        traffic->n[lane] = 0;
        while (ah_device_spans(device, &reader, &span, 1))
            if (span.tag != UINT64_MAX) {
                assert_true(traffic->n[lane] < TRAFFIC_SPANS);
                traffic->spans[lane][traffic->n[lane]++] = span;
            }
        assert_int_equal(reader.lost, 0);
        assert_int_equal(reader.seen, ah_device_submitted(device, lane));
    }
}

static inline uint64_t traffic_beside_ns(const struct traffic *traffic, uint32_t a, uint32_t b)
{
    uint64_t beside_ns = 0;
    for (size_t i = 0, k = 0; i < traffic->n[a] && k < traffic->n[b];) {
        const struct ah_span *x = &traffic->spans[a][i], *y = &traffic->spans[b][k];
        uint64_t from = x->start_ns > y->start_ns ? x->start_ns : y->start_ns;
        uint64_t to = x->end_ns < y->end_ns ? x->end_ns : y->end_ns;
        beside_ns += from < to ? to - from : 0;
        if (x->end_ns < y->end_ns)
            i++;
        else
            k++;
    }
    return beside_ns;
}

#endif
