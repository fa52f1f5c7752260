/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests fitting latency and rate to message times.
 */
#include "profiler/profile_links.h"

#include "tests/support/check.h"

/* Times measured between two processes on one machine. Open MPI 4.1 used shared memory. */
static const struct ah_profile_points captured = {6,
                                                  {4096, 65536, 262144, 1048576, 4194304, 16777216},
                                                  {18.795, 33.871, 80.889, 399.146, 1171.457, 4643.249}};

/* Exact times of a 1 Gbit network. Its larger messages would take too long to measure, so they are absent. */
static const struct ah_profile_points line = {
    4,
    {4096, 65536, 262144, 1048576},
    {45 + 4096 / 117.5, 45 + 65536 / 117.5, 45 + 262144 / 117.5, 45 + 1048576 / 117.5}};

TEST(profile_links, finds_latency_and_rate)
{
    struct ah_profile_link link;
    struct ah_error err = {0};
    CHECK_OK(ah_profile_links_fit(&line, &link, &err), err);
    check_near(link.latency_us, 45, 1e-6);
    check_near(link.bytes_per_s, 117.5e6, 1);
    check_near(link.fit_error, 0, 1e-9);
}

TEST(profile_links, fits_what_was_captured_roughly)
{
    struct ah_profile_link link;
    struct ah_error err = {0};
    CHECK_OK(ah_profile_links_fit(&captured, &link, &err), err);
    assert_true(link.latency_us > 15 && link.latency_us < 25);
    assert_true(link.bytes_per_s > 3e9 && link.bytes_per_s < 4.5e9);
    assert_true(link.fit_error > 0.05 && link.fit_error < 0.5);
}

/* Small messages take longer than large ones, so no line fits. */
TEST(profile_links, takes_the_largest_message_where_no_line_fits)
{
    const struct ah_profile_points odd = {3, {4096, 65536, 262144}, {900, 500, 262.144}};
    struct ah_profile_link link;
    struct ah_error err = {0};
    CHECK_OK(ah_profile_links_fit(&odd, &link, &err), err);
    check_near(link.bytes_per_s, 1e9, 1);
    check_near(link.latency_us, 900, 1e-9);
    assert_true(link.fit_error > 1);
}

TEST(profile_links, refuses_what_is_no_link)
{
    const struct ah_profile_points one = {1, {4096}, {10}}, never = {2, {4096, 65536}, {10, 0}};
    struct ah_profile_link link;
    struct ah_error err = {0};
    CHECK_FAILS(ah_profile_links_fit(&one, &link, &err), err, AH_E_FAILED, "1 message sizes");
    CHECK_FAILS(ah_profile_links_fit(&never, &link, &err), err, AH_E_FAILED, "seems to take no time");
}
