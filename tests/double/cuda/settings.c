/* SPDX-License-Identifier: Apache-2.0
 *
 * The double's settings, from the environment and from tests.
 */
#include "tests/double/cuda/double_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cuda_double in_force;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__attribute__((noreturn)) static void refuse(const char *item)
{
    fprintf(
        stderr,
        "CUDA double: AUTOHETE_CUDA_DOUBLE has '%s', which says nothing; see tests/double/cuda/double.h\n",
        item);
    abort();
}

static size_t parse_size(const char *text, const char *item)
{
    static const struct {
        const char *name;
        size_t bytes;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 10);
    for (size_t i = 0; end != text && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].name) == 0)
            return (size_t)n * units[i].bytes;
    refuse(item);
}

/* CALL:N:CODE */
static void parse_fault(struct cuda_double_fault *ret_fault, char *text, const char *item)
{
    char *nth = strchr(text, ':');
    char *code = nth ? strchr(nth + 1, ':') : NULL;
    if (!code)
        refuse(item);
    *nth++ = *code++ = '\0';
    (void)snprintf(ret_fault->call, sizeof ret_fault->call, "%s", text);
    ret_fault->nth = parse_size(nth, item);
    ret_fault->code = (cudaError_t)parse_size(code, item);
}

/* CALL:N */
static void parse_hang(struct cuda_double_fault *ret_hang, char *text, const char *item)
{
    char *nth = strchr(text, ':');
    if (!nth)
        refuse(item);
    *nth++ = '\0';
    (void)snprintf(ret_hang->call, sizeof ret_hang->call, "%s", text);
    ret_hang->nth = parse_size(nth, item);
}

static void set_device(struct cuda_double *settings, const char *key, const char *value, const char *item)
{
    for (int i = 0; i < CUDA_DOUBLE_DEVICES; i++) {
        struct cuda_double_device *device = &settings->devices[i];
        if (strcmp(key, "memory") == 0)
            device->memory_bytes = parse_size(value, item);
        else if (strcmp(key, "others") == 0)
            device->others_bytes = parse_size(value, item);
        else if (strcmp(key, "processors") == 0)
            device->processors = (int)parse_size(value, item);
        else if (strcmp(key, "shared") == 0)
            device->shared_bytes = parse_size(value, item);
        else if (strcmp(key, "capability") != 0 ||
                 sscanf(value, "%d.%d", &device->major, &device->minor) != 2)
            refuse(item);
    }
}

static void set_list(struct cuda_double *settings, const char *key, char *value, const char *item)
{
    size_t i = 0;
    if (strcmp(key, "fail") == 0) {
        while (i + 1 < CUDA_DOUBLE_FAULTS && settings->faults[i].nth)
            i++;
        parse_fault(&settings->faults[i], value, item);
    } else if (strcmp(key, "hang") == 0) {
        while (i + 1 < CUDA_DOUBLE_FAULTS && settings->hangs[i].nth)
            i++;
        parse_hang(&settings->hangs[i], value, item);
    } else {
        while (i + 1 < CUDA_DOUBLE_FAULTS && settings->missing[i][0])
            i++;
        (void)snprintf(settings->missing[i], sizeof settings->missing[i], "%s", value);
    }
}

static void set(struct cuda_double *settings, char *item)
{
    const struct {
        const char *key;
        unsigned *number;
    } numbers[] = {{"copy_delay_us", &settings->copy_delay_us},
                   {"channel", &settings->channel},
                   {"kernel_delay_us", &settings->kernel_delay_us},
                   {"threads", &settings->threads},
                   {"cupti", &settings->cupti_version},
                   {"cublaslt", &settings->cublaslt_version},
                   {"plain", &settings->plain},
                   {"nccl", &settings->nccl_version},
                   {"nccl_fails_at", &settings->nccl_fails_at},
                   {"nccl_slow", &settings->nccl_slow},
                   {"nccl_absent", &settings->nccl_absent},
                   {"drop", &settings->drop}};
    char copy[1024];
    (void)snprintf(copy, sizeof copy, "%s", item);
    char *value = strchr(item, '=');
    if (!value)
        refuse(copy);
    *value++ = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(item, numbers[i].key) == 0) {
            *numbers[i].number = (unsigned)parse_size(value, copy);
            return;
        }
    if (strcmp(item, "kernel") == 0)
        settings->kernel_bytes = parse_size(value, copy);
    else if (strcmp(item, "pages") == 0)
        settings->page_bytes = parse_size(value, copy);
    else if (strcmp(item, "devices") == 0)
        settings->n = (int)parse_size(value, copy);
    else if (strcmp(item, "driver") == 0)
        settings->driver_version = (int)parse_size(value, copy);
    else if (strcmp(item, "profiler") == 0)
        (void)snprintf(settings->profiler, sizeof settings->profiler, "%s", value);
    else if (strcmp(item, "skip") == 0)
        (void)snprintf(settings->skip, sizeof settings->skip, "%s", value);
    else if (strcmp(item, "code") == 0)
        (void)snprintf(settings->code, sizeof settings->code, "%s", value);
    else if (strcmp(item, "counts") == 0)
        (void)snprintf(settings->counts, sizeof settings->counts, "%s", value);
    else if (strcmp(item, "order") == 0)
        settings->order = parse_size(value, copy);
    else if (strcmp(item, "fail") == 0 || strcmp(item, "hang") == 0 || strcmp(item, "missing") == 0)
        set_list(settings, item, value, copy);
    else
        set_device(settings, item, value, copy);
}

struct cuda_double cuda_double_default(void)
{
    struct cuda_double settings = {
        .driver_version = CUDART_VERSION, .n = 1, .threads = 2, .kernel_bytes = 256 << 10};
    for (int i = 0; i < CUDA_DOUBLE_DEVICES; i++)
        settings.devices[i] = (struct cuda_double_device){
            .name = "Double of a GPU", .memory_bytes = 1 << 30, .major = 9, .processors = 4};
    const char *text = getenv("AUTOHETE_CUDA_DOUBLE");
    char copy[1024], *rest = copy;
    (void)snprintf(copy, sizeof copy, "%s", text ? text : "");
    for (char *item; (item = strsep(&rest, ","));)
        if (item[0])
            set(&settings, item);
    if (settings.n > CUDA_DOUBLE_DEVICES || settings.n < 0)
        refuse("devices");
    return settings;
}

static void take_environment(void)
{
    in_force = cuda_double_default();
}

struct cuda_double double_settings(void)
{
    (void)pthread_once(&once, take_environment);
    pthread_mutex_lock(&double_lock);
    struct cuda_double settings = in_force;
    pthread_mutex_unlock(&double_lock);
    return settings;
}

void double_add_fault(const char *call, uint64_t nth, cudaError_t code)
{
    size_t i = 0;
    while (i + 1 < CUDA_DOUBLE_FAULTS && in_force.faults[i].nth)
        i++;
    in_force.faults[i].nth = nth;
    in_force.faults[i].code = code;
    (void)snprintf(in_force.faults[i].call, sizeof in_force.faults[i].call, "%s", call);
}

void cuda_double_hang(const char *call, uint64_t nth)
{
    size_t i = 0;
    (void)double_settings();
    pthread_mutex_lock(&double_lock);
    while (i + 1 < CUDA_DOUBLE_FAULTS && in_force.hangs[i].nth)
        i++;
    in_force.hangs[i].nth = nth;
    (void)snprintf(in_force.hangs[i].call, sizeof in_force.hangs[i].call, "%s", call);
    pthread_mutex_unlock(&double_lock);
}

void cuda_double_narrow(unsigned channel)
{
    (void)double_settings();
    pthread_mutex_lock(&double_lock);
    in_force.channel = channel;
    pthread_mutex_unlock(&double_lock);
}

void cuda_double_set(const struct cuda_double *settings)
{
    (void)pthread_once(&once, take_environment);
    double_forget_calls();
    double_forget_device();
    double_forget_kernels();
    pthread_mutex_lock(&double_lock);
    in_force = *settings;
    pthread_mutex_unlock(&double_lock);
}
