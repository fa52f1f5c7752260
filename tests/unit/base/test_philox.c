/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests Philox against Random123's published vectors, and how names are packed into its counter and key.
 */
#include "base/philox.h"

#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values from Random123's tests/kat_vectors, "philox4x32 10". */
TEST(philox, known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], bits[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t bits[4];
        ah_philox_bits(vectors[i].counter, vectors[i].key, bits);
        assert_memory_equal(bits, vectors[i].bits, sizeof bits);
    }
}

/* The packing is part of the numeric signature, so this test checks the counter and key of one name. */
TEST(philox, packing_is_fixed)
{
    const struct ah_philox_name name = {.seed = 0x0123456789abcdef,
                                        .step = 0xa1a2a3a4a5a6,
                                        .element = 0xe1e2e3e4e5,
                                        .purpose = 0xbb,
                                        .block = 0xcccc,
                                        .micro_batch = 0xdddd};
    static const uint32_t expected[6] = {0xe2e3e4e5, 0xccccbbe1, 0xa3a4a5a6,
                                         0xdddda1a2, 0x89abcdef, 0x01234567};
    uint32_t packed[6];
    ah_philox_pack(&name, packed, packed + 4);
    assert_memory_equal(packed, expected, sizeof packed);
    assert_true(AH_PHILOX_INIT == 1 && AH_PHILOX_SHUFFLE == 2 && AH_PHILOX_ROUNDING == 3);
}

static void take_out(struct ah_philox_name *name, const uint32_t counter[4], const uint32_t key[2])
{
    name->element = counter[0] | (uint64_t)(counter[1] & 0xff) << 32;
    name->purpose = counter[1] >> 8 & 0xff;
    name->block = counter[1] >> 16;
    name->step = counter[2] | (uint64_t)(counter[3] & 0xffff) << 32;
    name->micro_batch = counter[3] >> 16;
    name->seed = key[0] | (uint64_t)key[1] << 32;
}

/* Unpacks each name from its counter and key, so no two names have equal counter and key. */
TEST(philox, names_are_distinct)
{
    uint64_t seed = check_seed(81);
    for (int i = 0; i < 100000; i++) {
        struct ah_philox_name name = {.seed = check_random(&seed),
                                      .step = check_random(&seed) >> 16,
                                      .element = check_random(&seed) >> 24,
                                      .purpose = (uint32_t)(check_random(&seed) >> 56),
                                      .block = (uint32_t)(check_random(&seed) >> 48),
                                      .micro_batch = (uint32_t)(check_random(&seed) >> 48)};
        struct ah_philox_name back;
        uint32_t counter[4], key[2];
        ah_philox_pack(&name, counter, key);
        take_out(&back, counter, key);
        assert_true(back.seed == name.seed && back.step == name.step && back.element == name.element);
        assert_true(back.purpose == name.purpose && back.block == name.block);
        assert_int_equal(back.micro_batch, name.micro_batch);
    }
}

TEST(philox, draw_is_bits_of_the_packed_name)
{
    struct ah_philox_name name = {.seed = 42, .purpose = AH_PHILOX_INIT, .block = 3, .element = 5000000000};
    uint32_t counter[4] = {705032704, 0x00030101, 0, 0}, key[2] = {42, 0}, expected[4], bits[4];
    ah_philox_bits(counter, key, expected);
    ah_philox_draw(&name, bits);
    assert_memory_equal(bits, expected, sizeof bits);
}

TEST(philox, uniform_fills_the_unit_interval)
{
    assert_true(ah_philox_uniform(0) == 0.0f);
    assert_true(ah_philox_uniform(255) == 0.0f);
    assert_true(ah_philox_uniform(256) == 0x1p-24f);
    assert_true(ah_philox_uniform(0xffffffff) == 1.0f - 0x1p-24f);
    enum { DRAWS = 100000, BINS = 16 };
    int bins[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t bits[4];
        ah_philox_draw(&(struct ah_philox_name){.seed = 7, .purpose = AH_PHILOX_INIT, .element = i}, bits);
        double u = (double)ah_philox_uniform(bits[i % 4]);
        sum += u;
        bins[(int)(u * BINS)]++;
    }
    check_near(sum / DRAWS, 0.5, 0.005); /* five standard deviations */
    for (int i = 0; i < BINS; i++)
        assert_true(abs(bins[i] - DRAWS / BINS) < 400);
}
