/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how the plugin lists GPUs. A double of the CUDA runtime simulates other machines.
 */
#include "runtime/device/cuda/cuda_internal.h"
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static struct cuda_double two_devices(void)
{
    return (struct cuda_double){
        .driver_version = CUDART_VERSION,
        .n = 2,
        .devices = {{.name = "A100", .memory_bytes = 40 * MIB, .others_bytes = MIB, .major = 8},
                    {.name = "V100", .memory_bytes = 16 * MIB, .others_bytes = MIB, .major = 7}},
    };
}

static void be(struct cuda_double settings)
{
    cuda_double_set(&settings);
}

static int current_device(void)
{
    int device = -1;
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    return device;
}

TEST(probe, describes_devices)
{
    struct ah_device_info infos[2];
    struct ah_error err = {0};
    size_t n = 0;
    be(two_devices());
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    CHECK_OK(ah_cuda_probe(infos, 2, &n, &err), err);
    assert_int_equal(n, 2);
    assert_string_equal(infos[0].name, "A100");
    assert_string_equal(infos[1].name, "V100");
    assert_true(infos[0].bf16 && !infos[1].bf16);
    assert_int_equal(infos[0].memory_bytes, 40 * MIB);
    assert_int_equal(infos[1].free_bytes, 15 * MIB);
    assert_int_equal(infos[0].kind, AH_DEVICE_CUDA);
    assert_true(infos[1].supports[AH_OP_MATMUL]);
    assert_int_equal(current_device(), 1); /* the current device is unchanged */
}

TEST(probe, counts_more_than_it_may_describe)
{
    struct ah_device_info info;
    struct ah_error err = {0};
    size_t n = 0;
    be(two_devices());
    CHECK_OK(ah_cuda_probe(&info, 1, &n, &err), err);
    assert_int_equal(n, 2);
    assert_string_equal(info.name, "A100");
    CHECK_OK(ah_cuda_probe(NULL, 0, &n, &err), err);
    assert_int_equal(n, 2);
}

TEST(probe, cuts_long_names)
{
    char name[AH_DEVICE_NAME_MAX + 60];
    struct ah_device_info infos[2];
    struct ah_error err = {0};
    size_t n = 0;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct cuda_double settings = two_devices();
    settings.devices[0].name = name;
    be(settings);
    CHECK_OK(ah_cuda_probe(infos, 2, &n, &err), err);
    assert_int_equal(strlen(infos[0].name), AH_DEVICE_NAME_MAX - 1);
}

TEST(probe, a_device_full_of_others_has_nothing_free)
{
    struct ah_device_info infos[2];
    struct ah_error err = {0};
    size_t n = 0;
    struct cuda_double settings = two_devices();
    settings.devices[0].memory = cudaErrorMemoryAllocation;
    be(settings);
    CHECK_OK(ah_cuda_probe(infos, 2, &n, &err), err);
    assert_int_equal(infos[0].free_bytes, 0);
    assert_int_equal(infos[1].free_bytes, 15 * MIB);
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* the next caller must not find this error */
}

TEST(probe, names_the_device_that_fails)
{
    struct ah_device_info infos[2];
    struct ah_error err = {0};
    size_t n = 77;
    struct cuda_double settings = two_devices();
    settings.devices[1].memory = cudaErrorDevicesUnavailable;
    be(settings);
    CHECK_FAILS(ah_cuda_probe(infos, 2, &n, &err), err, AH_E_MISSING,
                "GPU 1: every GPU is held by another process");
    settings = two_devices();
    settings.devices[1].properties = cudaErrorInvalidValue;
    be(settings);
    CHECK_FAILS(ah_cuda_probe(infos, 2, &n, &err), err, AH_E_FAILED,
                "GPU 1: cudaGetDeviceProperties failed: invalid argument");
    assert_int_equal(n, 77); /* unchanged, because results are written on success only */
}

TEST(probe, says_what_is_missing)
{
    static const struct {
        cudaError_t error;
        int driver_version;
        int code;
        const char *text;
    } cases[] = {
        {cudaErrorInsufficientDriver, 0, AH_E_MISSING, "no NVIDIA driver is installed; install one"},
        {cudaErrorInsufficientDriver, 11040, AH_E_MISSING, "too old: it supports CUDA 11.4"},
        {cudaErrorNoDevice, CUDART_VERSION, AH_E_MISSING, "finds no GPU"},
        {cudaErrorStubLibrary, CUDART_VERSION, AH_E_MISSING, "stub"},
        {cudaErrorSystemDriverMismatch, CUDART_VERSION, AH_E_MISSING, "reboot"},
        {cudaErrorUnknown, CUDART_VERSION, AH_E_MISSING, "does not start"},
        {cudaErrorInvalidValue, CUDART_VERSION, AH_E_FAILED, "cudaGetDeviceCount failed: invalid argument"},
    };
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ah_device_info info;
        struct ah_error err = {0};
        size_t n = 0;
        be((struct cuda_double){.count_error = cases[i].error, .driver_version = cases[i].driver_version});
        CHECK_FAILS(ah_cuda_probe(&info, 1, &n, &err), err, cases[i].code, cases[i].text);
    }
}

TEST(probe, no_device_names_the_variable_that_hides_them)
{
    struct ah_device_info info;
    struct ah_error err = {0};
    size_t n = 0;
    be((struct cuda_double){.count_error = cudaErrorNoDevice, .driver_version = CUDART_VERSION});
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    CHECK_FAILS(ah_cuda_probe(&info, 1, &n, &err), err, AH_E_MISSING, "CUDA_VISIBLE_DEVICES is ''");
    unsetenv("CUDA_VISIBLE_DEVICES");
    be((struct cuda_double){.driver_version = CUDART_VERSION}); /* a driver, but no device and no error */
    CHECK_FAILS(ah_cuda_probe(&info, 1, &n, &err), err, AH_E_MISSING, "finds no GPU");
}
