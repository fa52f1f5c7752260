/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading and printing sizes, times, rates and counts against a table of texts and numbers.
 */
#include "base/units.h"

#include "tests/support/check.h"

#include <math.h>

TEST(units, sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"7B", 7},
        {"12GiB", 12884901888},
        {"12 GiB", 12884901888},
        {"1.5 GB", 1500000000},
        {"1kB", 1000},
        {"1KB", 1000},
        {"1KiB", 1024},
        {"3 MB", 3000000},
        {"3MiB", 3145728},
        {"2TB", 2000000000000},
        {"2TiB", 2199023255552},
        {"0.5 KiB", 512},
        {"0.001kB", 1},
        {"1.4B", 1},
        {"1.5B", 2},
        {"0.9999999999999999999999KiB", 1024},
        {"18446744073709551615", UINT64_MAX},
        {"9007199254740993", 9007199254740993}, /* not representable as a double */
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct ah_error err = {0};
        uint64_t bytes = 1;
        CHECK_OK(ah_units_parse_bytes(good[i].text, &bytes, &err), err);
        if (bytes != good[i].bytes)
            fail_msg("'%s' read as %llu", good[i].text, (unsigned long long)bytes);
    }
}

TEST(units, not_sizes)
{
    static const char *const bad[] = {
        "",
        " ",
        "x",
        "GiB",
        "-1",
        "+1",
        "1e3",
        "0x10",
        "inf",
        "nan",
        " 1",
        "1 ",
        "1  GB",
        "1.",
        ".5",
        "1.GB",
        "1,5GB",
        "12gb",
        "12Gb",
        "12gib",
        "12GiBs",
        "12GB/s",
        "1..2",
        "1.5.2",
        "12 G B",
        "1\tGB",
        "12GiB\n",
        "1PB",
        "12 ",
        "18446744073709551616",
        "99999999999999999999999999",
        "18446744073709551615.5",
        "16777216TiB",
        "18446745 TB",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ah_error err = {0};
        uint64_t bytes = 77;
        if (ah_units_parse_bytes(bad[i], &bytes, &err) != AH_E_USAGE)
            fail_msg("'%s' was read as %llu", bad[i], (unsigned long long)bytes);
        assert_int_equal(bytes, 77);
        check_text_has(err.text, bad[i]);
    }
}

TEST(units, one_letter_is_offered_both_spellings)
{
    struct ah_error err = {0};
    uint64_t bytes;
    double rate;
    CHECK_FAILS(ah_units_parse_bytes("12G", &bytes, &err), err, AH_E_USAGE, "'12GiB'");
    check_text_has(err.text, "'12GB'");
    check_text_has(err.text, "'12G'");
    CHECK_FAILS(ah_units_parse_bytes("1.5 m", &bytes, &err), err, AH_E_USAGE, "'1.5MiB'");
    CHECK_FAILS(ah_units_parse_bytes("8k", &bytes, &err), err, AH_E_USAGE, "'8KiB'");
    check_text_has(err.text, "'8kB'");
    CHECK_FAILS(ah_units_parse_rate("6G/s", &rate, &err), err, AH_E_USAGE, "'6GiB/s'");
    check_text_has(err.text, "'6GB/s'");
}

TEST(units, times)
{
    static const struct {
        const char *text;
        double us;
    } rows[] = {{"90us", 90}, {"250ms", 250e3}, {"1.5 s", 1.5e6}, {"2min", 120e6}, {"1h", 3600e6}};
    struct ah_error err = {0};
    double us = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_OK(ah_units_parse_time(rows[i].text, &us, &err), err);
        assert_true(fabs(us - rows[i].us) < 1e-3);
    }
    static const char *const bad[] = {"", "ms", "250", "250 ", "250m", "-1s", "1e3ms", "1 S"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_FAILS(ah_units_parse_time(bad[i], &us, &err), err, AH_E_USAGE, "such as '250ms'");
}

TEST(units, rates)
{
    struct ah_error err = {0};
    double rate = 0;
    CHECK_OK(ah_units_parse_rate("6GB/s", &rate, &err), err);
    assert_true(rate == 6e9);
    CHECK_OK(ah_units_parse_rate("22 GiB/s", &rate, &err), err);
    assert_true(rate == 22.0 * 1073741824.0);
    CHECK_OK(ah_units_parse_rate("0.5 kB/s", &rate, &err), err);
    assert_true(rate == 500);
    static const char *const bad[] = {"6GB",     "6",      "6/s",    "GB/s",  "6GB/h",
                                      "6 GB /s", "6GB/s ", "-6GB/s", "6gb/s", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rate = 77;
        CHECK_FAILS(ah_units_parse_rate(bad[i], &rate, &err), err, AH_E_USAGE, bad[i]);
        assert_true(rate == 77);
    }
}

TEST(units, counts)
{
    static const struct {
        const char *text;
        uint64_t count;
    } good[] = {
        {"42", 42},         {"124M", 124000000},   {"1.5k", 1500},       {"1.5K", 1500}, {"2B", 2000000000},
        {"2G", 2000000000}, {"1T", 1000000000000}, {"124 M", 124000000}, {"0", 0},
    };
    static const char *const bad[] = {"2.5", "0.5", "1.2345k", "",    "M",           "1.5x",
                                      "-2",  "1kB", "2b",      "1e6", "20000000000G"};
    struct ah_error err = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_OK(ah_units_parse_count(good[i].text, &count, &err), err);
        assert_int_equal(count, good[i].count);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_FAILS(ah_units_parse_count(bad[i], &count, &err), err, AH_E_USAGE, bad[i]);
}

TEST(units, prints_bytes)
{
    char out[AH_UNITS_TEXT_MAX];
    assert_string_equal(ah_units_print_bytes(out, 0), "0 B");
    assert_string_equal(ah_units_print_bytes(out, 1), "1 B");
    assert_string_equal(ah_units_print_bytes(out, 1023), "1023 B");
    assert_string_equal(ah_units_print_bytes(out, 1024), "1.0 KiB");
    assert_string_equal(ah_units_print_bytes(out, 12562898125), "11.7 GiB");
    assert_string_equal(ah_units_print_bytes(out, 1048575), "1.0 MiB"); /* not 1024.0 KiB */
    assert_string_equal(ah_units_print_bytes(out, 1048500), "1023.9 KiB");
    assert_string_equal(ah_units_print_bytes(out, UINT64_MAX), "16777216.0 TiB");
}

TEST(units, prints_rates_and_counts)
{
    char out[AH_UNITS_TEXT_MAX];
    assert_string_equal(ah_units_print_rate(out, 22.4e9), "22.4 GB/s");
    assert_string_equal(ah_units_print_rate(out, 999.96e6), "1.0 GB/s");
    assert_string_equal(ah_units_print_rate(out, 999.94e6), "999.9 MB/s");
    assert_string_equal(ah_units_print_flops(out, 233e9), "233 GFLOP/s");
    assert_string_equal(ah_units_print_flops(out, 2.334e12), "2.33 TFLOP/s");
    assert_string_equal(ah_units_print_flops(out, 999.6e9), "1.00 TFLOP/s");
    assert_string_equal(ah_units_print_flops(out, 999.4e9), "999 GFLOP/s");
    assert_string_equal(ah_units_print_flops(out, 9.996e9), "10.0 GFLOP/s");
    assert_string_equal(ah_units_print_count(out, 124439808), "124.4 M");
    assert_string_equal(ah_units_print_count(out, 42), "42");
    assert_string_equal(ah_units_print_count(out, 6.738e9), "6.7 B");
}

TEST(units, prints_times)
{
    char out[AH_UNITS_TEXT_MAX];
    assert_string_equal(ah_units_print_time(out, 1250), "1.25 ms");
    assert_string_equal(ah_units_print_time(out, 0), "0 us");
    assert_string_equal(ah_units_print_time(out, 0.5), "0.50 us");
    assert_string_equal(ah_units_print_time(out, 17), "17 us");
    assert_string_equal(ah_units_print_time(out, 17.25), "17.2 us");
    assert_string_equal(ah_units_print_time(out, 999.7), "1.00 ms");
    assert_string_equal(ah_units_print_time(out, 3.6e9), "3600 s");
}

/* Printing any input, even a NaN, gives a terminated text that fits its buffer. */
TEST(units, prints_what_is_no_number)
{
    static const double odd[] = {-1, -2.5e9, 1e300, -1e300, HUGE_VAL, -HUGE_VAL, 5e-324};
    char out[AH_UNITS_TEXT_MAX + 1];
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        out[AH_UNITS_TEXT_MAX] = '#';
        ah_units_print_rate(out, odd[i]);
        ah_units_print_time(out, odd[i]);
        ah_units_print_flops(out, odd[i]);
        assert_int_equal(out[AH_UNITS_TEXT_MAX], '#');
    }
    assert_string_equal(ah_units_print_rate(out, -2.5e9), "-2.5 GB/s");
    check_text_has(ah_units_print_time(out, (double)NAN), "nan");
}
