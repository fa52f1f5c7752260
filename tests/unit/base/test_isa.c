/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares detected instruction sets with /proc/cpuinfo, which lists those supported by processor and system.
 */
#include "base/isa.h"

#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static char flags[8192];
static bool is_intel;

static int read_flags(void **state)
{
    (void)state;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(flags, sizeof flags, file)) {
        if (!strncmp(flags, "flags", 5))
            break;
        is_intel |= !strncmp(flags, "vendor_id", 9) && strstr(flags, "GenuineIntel");
    }
    if (file)
        fclose(file);
    char *end = strchr(flags, '\n');
    if (end)
        *end = ' ';
    return strncmp(flags, "flags", 5) ? (flags[0] = '\0', 0) : 0;
}

static bool listed(const char *names)
{
    char copy[128], word[64];
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok(copy, " "); name; name = strtok(NULL, " ")) {
        snprintf(word, sizeof word, " %s ", name);
        if (!strstr(flags, word))
            return false;
    }
    return true;
}

TEST_IN(isa, widest_as_the_kernel_says, read_flags, NULL)
{
    enum ah_isa expected = AH_ISA_PORTABLE;
    if (listed("avx avx2 fma f16c"))
        expected = AH_ISA_AVX2;
    if (expected == AH_ISA_AVX2 && listed("avx512f avx512bw avx512dq avx512vl"))
        expected = AH_ISA_AVX512;
    assert_int_equal(ah_isa_detect(), expected);
}

TEST_IN(isa, bf16_as_the_kernel_says, read_flags, NULL)
{
    assert_int_equal(ah_isa_has_avx512_bf16(), listed("avx512f avx512_bf16"));
    assert_int_equal(ah_isa_has_fast_avx512_bf16(), listed("avx512f avx512_bf16") && !is_intel);
    assert_int_equal(ah_isa_has_amx_bf16(), listed("amx_bf16 amx_tile"));
}

TEST_IN(isa, sha256_as_the_kernel_says, read_flags, NULL)
{
    assert_int_equal(ah_isa_has_sha256(), listed("sha_ni ssse3 sse4_1"));
}

TEST_IN(isa, names, read_flags, NULL)
{
    assert_string_equal(ah_isa_name(AH_ISA_PORTABLE), "portable");
    assert_string_equal(ah_isa_name(AH_ISA_AVX2), "avx2");
    assert_string_equal(ah_isa_name(AH_ISA_AVX512), "avx512");
}
