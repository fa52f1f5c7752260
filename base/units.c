/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are read digit by digit, not with strtod(): no locale, sign, exponent, hexadecimal or "inf", and
 * integers stay exact to 2^64 - 1.
 */
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *suffix;
    uint64_t scale;
};

static const struct unit byte_units[] = {
    {"B", 1},     {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"TiB", 1ULL << 40},
    {"kB", 1000}, {"KB", 1000},        {"MB", 1000000},     {"GB", 1000000000},  {"TB", 1000000000000},
    {NULL, 0},
};

static const struct unit count_units[] = {
    {"k", 1000},       {"K", 1000},          {"M", 1000000}, {"B", 1000000000},
    {"G", 1000000000}, {"T", 1000000000000}, {NULL, 0},
};

static const struct unit time_units[] = {
    {"us", 1}, {"ms", 1000}, {"s", 1000000}, {"min", 60000000}, {"h", 3600000000}, {NULL, 0},
};

#define SIZES_ACCEPTED  "such as '12GiB', '1.5 GB' or '4096'"
#define RATES_ACCEPTED  "such as '6GB/s' or '22 GiB/s'"
#define COUNTS_ACCEPTED "such as '8', '1.5k' or '124M'"

/* A decimal number: its exact part before the point, and the rest in [0, 1). */
struct number {
    uint64_t whole;
    double fraction;
    const char *end; /* after the number and one space, where a unit follows */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool number_read(const char *text, struct number *ret)
{
    if (!is_digit(*text))
        return false;
    ret->whole = 0;
    for (; is_digit(*text); text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (ret->whole > (UINT64_MAX - digit) / 10)
            return false;
        ret->whole = ret->whole * 10 + digit;
    }
    ret->fraction = 0;
    if (text[0] == '.') {
        if (!is_digit(text[1]))
            return false;
        double digits = 0, scale = 1;
        for (text++; is_digit(*text); text++)
            if (scale < 1e17) { /* further digits do not change a double */
                digits = digits * 10 + (*text - '0');
                scale *= 10;
            }
        ret->fraction = digits / scale;
    }
    ret->end = text[0] == ' ' && text[1] ? text + 1 : text;
    return true;
}

/* Returns the scale of `suffix` (`length` characters); 1 for none, 0 for an unknown one. */
static uint64_t unit_scale(const struct unit *units, const char *suffix, size_t length)
{
    if (length == 0)
        return 1;
    for (; units->suffix; units++)
        if (strlen(units->suffix) == length && !memcmp(units->suffix, suffix, length))
            return units->scale;
    return 0;
}

/* Computes whole * scale + fraction * scale, rounded to nearest; false if it does not fit. */
static bool number_scaled(const struct number *number, uint64_t scale, uint64_t *ret)
{
    uint64_t rest = (uint64_t)llround(number->fraction * (double)scale);
    if (number->whole > UINT64_MAX / scale || rest > UINT64_MAX - number->whole * scale)
        return false;
    *ret = number->whole * scale + rest;
    return true;
}

/* Returns an error that offers both spellings for "12G" or "12g"; 0 for any other suffix. */
static int refuse_ambiguous(const char *text, const char *suffix, size_t length, const char *per,
                            struct ah_error *err)
{
    static const char letters[] = "kKmMgGtT";
    if (length != 1 || !strchr(letters, suffix[0]))
        return AH_OK;
    char upper = (char)(suffix[0] & ~0x20);
    int digits = (int)(suffix - text);
    while (digits > 0 && text[digits - 1] == ' ')
        digits--;
    return ah_error_set(
        err, AH_E_USAGE,
        "'%s' is ambiguous: write '%.*s%ciB%s' (powers of 1024) or '%.*s%cB%s' (powers of 1000)", text,
        digits, text, upper, per, digits, text, upper == 'K' ? 'k' : upper, per);
}

int ah_units_parse_bytes(const char *text, uint64_t *ret_bytes, struct ah_error *err)
{
    struct number number;
    if (!number_read(text, &number))
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a size; write one " SIZES_ACCEPTED, text);
    size_t length = strlen(number.end);
    int rc = refuse_ambiguous(text, number.end, length, "", err);
    if (rc)
        return rc;
    uint64_t scale = unit_scale(byte_units, number.end, length);
    if (!scale)
        return ah_error_set(err, AH_E_USAGE,
                            "'%s' is not a size: '%s' is not one of the units B, KiB, MiB, GiB, TiB, kB, MB, "
                            "GB, TB; write one " SIZES_ACCEPTED,
                            text, number.end);
    if (!number_scaled(&number, scale, ret_bytes))
        return ah_error_set(err, AH_E_USAGE, "'%s' is more than 2^64 - 1 bytes; write a smaller size", text);
    return AH_OK;
}

int ah_units_parse_rate(const char *text, double *ret_bytes_per_s, struct ah_error *err)
{
    struct number number;
    if (!number_read(text, &number))
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a rate; write one " RATES_ACCEPTED, text);
    size_t length = strlen(number.end);
    bool per_second = length >= 2 && !strcmp(number.end + length - 2, "/s");
    length -= per_second ? 2 : 0;
    int rc = refuse_ambiguous(text, number.end, length, "/s", err);
    if (rc)
        return rc;
    uint64_t scale = unit_scale(byte_units, number.end, length);
    if (!per_second || !length || !scale)
        return ah_error_set(
            err, AH_E_USAGE,
            "'%s' is not a rate: the number needs a unit of bytes and '/s'; write one " RATES_ACCEPTED, text);
    *ret_bytes_per_s = ((double)number.whole + number.fraction) * (double)scale;
    return AH_OK;
}

int ah_units_parse_time(const char *text, double *ret_us, struct ah_error *err)
{
    struct number number;
    uint64_t scale = 0;
    if (number_read(text, &number) && *number.end)
        scale = unit_scale(time_units, number.end, strlen(number.end));
    if (!scale)
        return ah_error_set(
            err, AH_E_USAGE,
            "'%s' is not a time: write a number and one of us, ms, s, min, h, such as '250ms'", text);
    *ret_us = ((double)number.whole + number.fraction) * (double)scale;
    return AH_OK;
}

int ah_units_parse_count(const char *text, uint64_t *ret_count, struct ah_error *err)
{
    struct number number;
    if (!number_read(text, &number))
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a count; write one " COUNTS_ACCEPTED, text);
    uint64_t scale = unit_scale(count_units, number.end, strlen(number.end));
    if (!scale)
        return ah_error_set(
            err, AH_E_USAGE,
            "'%s' is not a count: suffix '%s' is not one of k, M, B, G, T; write one " COUNTS_ACCEPTED, text,
            number.end);
    double part = number.fraction * (double)scale;
    if (fabs(part - round(part)) > 1e-6)
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a whole number; write one " COUNTS_ACCEPTED, text);
    if (!number_scaled(&number, scale, ret_count))
        return ah_error_set(err, AH_E_USAGE, "'%s' is more than 2^64 - 1; write a smaller count", text);
    return AH_OK;
}

/* A scale for printing values that, once rounded for printing, are below the next scale. */
struct print_scale {
    double scale;
    const char *name;
};

enum digits_rule { ONE_DECIMAL, THREE_DIGITS };

static int decimals(double value, enum digits_rule rule)
{
    if (rule == ONE_DECIMAL)
        return 1;
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

/* Prints in the largest scale in which the value, as rounded for printing, is at least 1. */
static const char *print_scaled(char *out, double value, const struct print_scale *scales, size_t n,
                                enum digits_rule rule)
{
    size_t i = n - 1;
    for (; i > 0; i--) {
        double half = 0.5 * pow(10, -decimals(fabs(value) / scales[i - 1].scale, rule)) * scales[i - 1].scale;
        if (fabs(value) + half >= scales[i].scale)
            break;
    }
    double shown = value / scales[i].scale;
    bool bare = i == 0 && (shown == floor(shown) || rule == ONE_DECIMAL);
    int places = bare ? 0 : decimals(fabs(shown), rule);
    snprintf(out, AH_UNITS_TEXT_MAX, "%.*f%s%s", places, shown, scales[i].name[0] ? " " : "", scales[i].name);
    return out;
}

#define PRINT(out, value, scales, rule)                                                                      \
    print_scaled(out, value, scales, sizeof scales / sizeof scales[0], rule)

const char *ah_units_print_bytes(char out[AH_UNITS_TEXT_MAX], uint64_t bytes)
{
    static const struct print_scale scales[] = {
        {1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
    return PRINT(out, (double)bytes, scales, ONE_DECIMAL);
}

const char *ah_units_print_rate(char out[AH_UNITS_TEXT_MAX], double bytes_per_s)
{
    static const struct print_scale scales[] = {
        {1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
    return PRINT(out, bytes_per_s, scales, ONE_DECIMAL);
}

const char *ah_units_print_flops(char out[AH_UNITS_TEXT_MAX], double flops_per_s)
{
    static const struct print_scale scales[] = {{1, "FLOP/s"},    {1e3, "kFLOP/s"},  {1e6, "MFLOP/s"},
                                                {1e9, "GFLOP/s"}, {1e12, "TFLOP/s"}, {1e15, "PFLOP/s"}};
    return PRINT(out, flops_per_s, scales, THREE_DIGITS);
}

const char *ah_units_print_count(char out[AH_UNITS_TEXT_MAX], double count)
{
    static const struct print_scale scales[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "B"}, {1e12, "T"}};
    return PRINT(out, count, scales, ONE_DECIMAL);
}

const char *ah_units_print_time(char out[AH_UNITS_TEXT_MAX], double us)
{
    static const struct print_scale scales[] = {{1, "us"}, {1e3, "ms"}, {1e6, "s"}};
    return PRINT(out, us, scales, THREE_DIGITS);
}
