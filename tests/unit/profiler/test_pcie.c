/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading a PCIe link from files like those of Linux, in folders made for the test.
 */
#include "profiler/pcie.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char port[64];   /* folder of the port */
static char device[80]; /* folder in `port` */

static void put(const char *folder, const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *const names[] = {"current_link_speed", "current_link_width", "max_link_speed",
                                    "max_link_width"};

static int make_folders(void **state)
{
    (void)state;
    snprintf(port, sizeof port, "/tmp/autohete-pcie-XXXXXX");
    assert_non_null(mkdtemp(port));
    snprintf(device, sizeof device, "%s/0000:17:00.0", port);
    return mkdir(device, 0700);
}

static int remove_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", device, names[i]);
        (void)unlink(path);
        snprintf(path, sizeof path, "%s/%s", port, names[i]);
        (void)unlink(path);
    }
    return rmdir(device) || rmdir(port);
}

static void check_pcie(uint64_t generation, uint64_t width, uint64_t max_generation, uint64_t max_width)
{
    struct ah_machine_pcie pcie;
    assert_true(ah_pcie_read(device, &pcie));
    assert_int_equal(pcie.generation, generation);
    assert_int_equal(pcie.width, width);
    assert_int_equal(pcie.max_generation, max_generation);
    assert_int_equal(pcie.max_width, max_width);
}

TEST_IN(pcie, is_read, make_folders, remove_folders)
{
    static const struct {
        const char *speed;
        uint64_t generation;
    } speeds[] = {{"2.5 GT/s PCIe\n", 1},  {"5.0 GT/s PCIe\n", 2},  {"8.0 GT/s PCIe\n", 3},
                  {"16.0 GT/s PCIe\n", 4}, {"32.0 GT/s PCIe\n", 5}, {"64.0 GT/s PCIe\n", 6}};
    put(device, "current_link_width", "8\n");
    put(device, "max_link_speed", "64.0 GT/s PCIe\n");
    put(device, "max_link_width", "16\n");
    for (size_t i = 0; i < 6; i++) {
        put(device, "current_link_speed", speeds[i].speed);
        check_pcie(speeds[i].generation, 8, 6, 16);
    }
}

/* The maximum is limited to what both ends support. */
TEST_IN(pcie, is_limited_by_the_port, make_folders, remove_folders)
{
    put(device, "current_link_speed", "16.0 GT/s PCIe\n");
    put(device, "current_link_width", "8\n");
    put(device, "max_link_speed", "32.0 GT/s PCIe\n");
    put(device, "max_link_width", "16\n");
    put(port, "max_link_speed", "16.0 GT/s PCIe\n");
    put(port, "max_link_width", "255\n");
    check_pcie(4, 8, 4, 16);
}

TEST_IN(pcie, may_be_unknown, make_folders, remove_folders)
{
    struct ah_machine_pcie pcie;
    assert_false(ah_pcie_read(device, &pcie));
    put(device, "current_link_speed", "Unknown\n");
    put(device, "current_link_width", "0\n");
    put(device, "max_link_speed", "16.0 GT/s PCIe\n");
    put(device, "max_link_width", "16\n");
    assert_false(ah_pcie_read(device, &pcie));
    assert_false(ah_pcie_read("/there/is/no/such/folder", &pcie));
}
