/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests whole profiles of devices of known speed (fake_device.h). Memory and disk are real: results must be plausible.
 */
#include "profiler/measure_internal.h"
#include "tests/unit/profiler/fake_device.h"

#include "tests/support/check.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB        (UINT64_C(1) << 20)
#define PART(name) (1u << AH_PROFILER_##name)
#define ON_DEVICE  (PART(MATMUL) | PART(LINKS) | PART(BESIDE) | PART(LAUNCHES))

static const struct ah_measure_limits tiny = {
    .part_s = {0.2, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1},
    .samples_min = 10,
    .samples_max = 12,
    .block_s = 0.001,
    .warm_s = 0.01,
    .shapes = {{64, 96, 32}, {32, 64, 128}},
    .n_shapes = 2,
    .product_s = 1,
    .thread_counts = 2,
    .memory_bytes = 8 * MIB,
    .link_bytes = 8 * MIB,
    .link_factor = 4,
    .adam_params = MIB / 2,
    .adam_kinds = 3,
    .disk_bytes = 16 * MIB,
};

static struct fake_rates known_rates(void)
{
    return (struct fake_rates){
        .matmul_flops_per_s = {[AH_FP32] = 2e11, [AH_BF16] = 5e11},
        .link_bytes_per_s = {[AH_H2D] = 12e9, [AH_D2H] = 9e9},
        .link_latency_s = {[AH_H2D] = 8e-6, [AH_D2H] = 5e-6},
        .adam_params_per_s = {[AH_FP32] = 8e8, [AH_BF16] = 1e9},
        .device_copy_bytes_per_s = 50e9,
        .kept = {[AH_PART_COMPUTE] = {[AH_PART_H2D] = 0.95, [AH_PART_D2H] = 0.93, [AH_PART_HOST_ADAM] = 0.9},
                 [AH_PART_H2D] = {[AH_PART_COMPUTE] = 0.97, [AH_PART_D2H] = 0.6, [AH_PART_HOST_ADAM] = 0.7},
                 [AH_PART_D2H] = {[AH_PART_COMPUTE] = 0.96, [AH_PART_H2D] = 0.55, [AH_PART_HOST_ADAM] = 0.65},
                 [AH_PART_HOST_ADAM] = {[AH_PART_COMPUTE] = 0.99, [AH_PART_H2D] = 0.75, [AH_PART_D2H] = 0.8}},
    };
}

static struct ah_profiler_options options_of(struct fake_rates *rates, uint32_t parts)
{
    return (struct ah_profiler_options){.driver = fake_device_driver(rates), .quick = true, .parts = parts};
}

/* Checks products of two shapes, in three forms and `dtypes` dtypes, with one thread and with all threads. */
static void check_matmul(const struct ah_machine *machine, const struct fake_rates *rates, size_t dtypes)
{
    size_t counts = machine->host.threads > 1 ? 2 : 1;
    assert_int_equal(machine->n_matmul, 2 * 3 * dtypes * counts);
    unsigned seen[2][3] = {{0}};
    for (size_t i = 0; i < machine->n_matmul; i++) {
        const struct ah_machine_matmul *product = &machine->matmul[i];
        assert_true(product->threads == 1 || product->threads == machine->host.threads);
        assert_true(product->flops_per_s.n >= 10);
        check_near(product->flops_per_s.median /
                       (rates->matmul_flops_per_s[product->dtype] * (double)product->threads),
                   1, 0.01);
        seen[product->dtype][product->form]++;
    }
    for (size_t dtype = 0; dtype < dtypes; dtype++)
        for (int form = 0; form < 3; form++)
            assert_int_equal(seen[dtype][form], 2 * counts);
}

static void check_links(const struct ah_machine *machine, const struct fake_rates *rates)
{
    assert_int_equal(machine->n_links, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct ah_machine_link *link = &machine->links[i];
        assert_int_equal(link->direction, i);
        check_near(link->bytes_per_s.median / rates->link_bytes_per_s[i], 1, 0.01);
        check_near(link->latency_us / (rates->link_latency_s[i] * 1e6), 1, 0.02);
        assert_true(link->fit_error < 0.01 && link->bytes_per_s.n >= 10);
        assert_true(link->bytes_per_s.min <= link->bytes_per_s.median &&
                    link->bytes_per_s.median <= link->bytes_per_s.max);
        assert_int_equal(link->n_points, 4); /* 64 KiB, 256 KiB, 1 MiB, 4 MiB; 16 MiB does not fit twice */
        for (size_t point = 0; point < link->n_points; point++)
            assert_true(link->points[point].us.n >= 10);
    }
}

static void check_shares(const struct ah_machine *machine, const struct fake_rates *rates, double tolerance)
{
    unsigned seen[4][4] = {{0}};
    assert_int_equal(machine->n_beside, 12);
    for (size_t i = 0; i < machine->n_beside; i++) {
        const struct ah_machine_beside *pair = &machine->beside[i];
        assert_true(pair->part != pair->beside && pair->kept.n >= 10);
        check_near(pair->kept.median, rates->kept[pair->part][pair->beside], tolerance);
        seen[pair->part][pair->beside]++;
    }
    for (int part = 0; part < 4; part++)
        for (int other = 0; other < 4; other++)
            assert_int_equal(seen[part][other], part != other);
}

static void check_beside(const struct ah_machine *machine, const struct fake_rates *rates)
{
    check_shares(machine, rates, 0.01);
}

TEST(profiler, finds_the_known_speed)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, ON_DEVICE);
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    assert_int_equal(document.kind, AH_DOCUMENT_MACHINE);
    const struct ah_machine *machine = document.body.machine;
    assert_int_equal(machine->origin, AH_MACHINE_MEASURED);
    assert_null(machine->emulates);
    assert_int_equal(machine->device.reserve_bytes, 300 * MIB);
    check_matmul(machine, &rates, 2);
    check_links(machine, &rates);
    check_beside(machine, &rates);
    assert_true(machine->launch_us->n >= 10);
    check_near(machine->launch_us->median, 1, 1e-6); /* the device takes 1 us for a fill */
    assert_int_equal(machine->n_memory + machine->n_adam, 0);
    assert_null(machine->disk);
    ah_document_release(&document);
    assert_int_equal(fake_device_open_count(), 0);
}

TEST(profiler, finds_the_known_adam)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(ADAM));
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_int_equal(machine->n_adam, machine->host.threads > 1 ? 9 : 6);
    unsigned on_device = 0;
    for (size_t i = 0; i < machine->n_adam; i++) {
        const struct ah_machine_adam *adam = &machine->adam[i];
        check_near(adam->params_per_s.median /
                       (rates.adam_params_per_s[adam->weight_dtype] * (double)adam->threads),
                   1, 0.01);
        assert_true(adam->params_per_s.n >= 10 && adam->bandwidth_share > 0);
        assert_int_equal(adam->gradient_dtype, adam->weight_dtype);
        on_device += adam->side == AH_DEVICE;
    }
    assert_int_equal(on_device, 3);
    ah_document_release(&document);
}

TEST(profiler, a_gpu_has_no_threads)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    rates.kind = AH_DEVICE_CUDA;
    rates.no_bf16 = true;
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, ON_DEVICE | PART(ADAM));
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_int_equal(machine->n_matmul, 2 * 3);
    for (size_t i = 0; i < machine->n_matmul; i++)
        assert_true(machine->matmul[i].threads == 0 && machine->matmul[i].dtype == AH_FP32);
    for (size_t i = 0; i < machine->n_adam; i++) {
        const struct ah_machine_adam *adam = &machine->adam[i];
        if (adam->side == AH_HOST) {
            assert_true(adam->threads < machine->host.cores || machine->host.cores == 1); /* one enqueues */
            continue;
        }
        assert_int_equal(adam->threads, 0);
        /* An update moves 28 bytes a parameter (20 with bf16 states). A copy reads and writes at 50 GB/s. */
        double moved = adam->params_per_s.median * (adam->state_dtype == AH_BF16 ? 20 : 28);
        check_near(adam->bandwidth_share, moved / 100e9, 0.01);
    }
    assert_non_null(strstr(machine->name, "fake-device-9000-"));
    ah_document_release(&document);
    assert_int_equal(fake_device_open_count(), 0);
}

/* Returns a machine whose link is twice as fast relative to its compute, and whose host is four times slower. */
static struct ah_machine target_machine(void)
{
    static struct ah_machine_matmul products[] = {
        {.dtype = AH_BF16, .m = 1, .n = 1, .k = 1, .flops_per_s = {.median = 2.5e14}},
        {.dtype = AH_FP32, .m = 1, .n = 1, .k = 1, .flops_per_s = {.median = 1.9e13}}};
    static struct ah_machine_link links[] = {
        {.direction = AH_H2D, .latency_us = 10, .bytes_per_s = {.median = 25e9}},
        {.direction = AH_D2H, .latency_us = 9, .bytes_per_s = {.median = 24e9}}};
    static struct ah_machine_adam adam[] = {
        {.side = AH_HOST, .weight_dtype = AH_BF16, .threads = 64, .params_per_s = {.median = 4.5e9}}};
    static struct ah_machine_beside beside[] = {{AH_PART_H2D, AH_PART_D2H, {.median = 0.8}},
                                                {AH_PART_D2H, AH_PART_H2D, {.median = 0.8}}};
    return (struct ah_machine){
        .name = "example-a100",
        .origin = AH_MACHINE_SYNTHETIC,
        .matmul = products,
        .n_matmul = 2,
        .links = links,
        .n_links = 2,
        .adam = adam,
        .n_adam = 1,
        .beside = beside,
        .n_beside = 2,
    };
}

/* Counts the noise sentences containing `what`. Other sentences may depend on the machine. */
static size_t sentences_with(const struct ah_machine *machine, const char *what)
{
    size_t n = 0;
    for (size_t i = 0; i < machine->n_noise; i++)
        n += strstr(machine->noise[i], what) != NULL;
    return n;
}

static double ratio(const struct ah_machine *machine, double rate, enum ah_dtype dtype)
{
    return rate / ah_machine_matmul_flops_per_s(machine, dtype);
}

/* A link's profile has rates even if small copies take longer than large ones. */
TEST(profiler, rates_a_link_that_no_line_fits)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(MATMUL) | PART(LINKS));
    rates.noise_s = 1;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_int_equal(machine->n_links, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct ah_machine_link *link = &machine->links[i];
        double largest_s = rates.link_latency_s[i] + 4.0 * MIB / rates.link_bytes_per_s[i];
        check_near(link->bytes_per_s.median / (4.0 * MIB / largest_s), 1, 0.01);
        assert_true(link->latency_us == 0 && link->fit_error > 0.9);
    }
    assert_int_equal(
        sentences_with(machine, "no straight line fits the copy times; the rate comes from copies of 4096 "
                                "KiB"),
        2);
    ah_document_release(&document);
}

/* If one lane gets a processor only after the other is done, both lanes are measured once more, for longer. */
TEST(profiler, lanes_meet_in_the_end)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(MATMUL) | PART(LINKS) | PART(BESIDE));
    rates.matmul_flops_per_s[AH_BF16] = 5e8; /* products are so slow that a block has few and can grow */
    rates.late_s = 50 * tiny.block_s;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    check_beside(document.body.machine, &rates);
    ah_document_release(&document);
}

/* The host lane often waits for processors, as on a hypervisor with other guests. Copies are faster during the waits,
 * which must not count as their share. */
TEST(profiler, shares_are_those_of_calm_runs)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(MATMUL) | PART(LINKS) | PART(BESIDE));
    rates.stall_s = tiny.block_s;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    check_shares(document.body.machine, &rates, 0.02);
    ah_document_release(&document);
}

TEST(profiler, emulates_the_ratios)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    const struct ah_machine target = target_machine();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(LINKS) | PART(ADAM) | PART(BESIDE));
    options.emulate = &target;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            rates.kept[i][j] = 1;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_string_equal(machine->emulates, "example-a100");
    for (int direction = 0; direction < 2; direction++) {
        enum ah_direction d = (enum ah_direction)direction;
        check_near(ratio(machine, ah_machine_link_bytes_per_s(machine, d), AH_BF16) /
                       ratio(&target, ah_machine_link_bytes_per_s(&target, d), AH_BF16),
                   1, 0.02);
    }
    check_near(ratio(machine, ah_machine_adam_params_per_s(machine, AH_HOST, AH_BF16), AH_BF16) /
                   ratio(&target, ah_machine_adam_params_per_s(&target, AH_HOST, AH_BF16), AH_BF16),
               1, 0.02);
    check_near(ah_machine_kept(machine, AH_PART_H2D, AH_PART_D2H), 0.8, 0.01);
    assert_int_equal(sentences_with(machine, "emulate:"), 0);
    /* If the machine emulates another, products are measured only with the threads of the compute lane. */
    for (size_t i = 1; i < machine->n_matmul; i++)
        assert_int_equal(machine->matmul[i].threads, machine->matmul[0].threads);
    ah_document_release(&document);
}

TEST(profiler, says_where_emulation_falls_short)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    const struct ah_machine target = target_machine();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(LINKS));
    options.emulate = &target;
    rates.link_bytes_per_s[AH_D2H] = 1e6; /* slower than any emulated link */
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_true(machine->n_noise >= 1);
    check_text_has(machine->noise[machine->n_noise - 1], "emulate: copies to the host reach only 0.0");
    assert_int_equal(sentences_with(machine, "emulate:"), 1);
    ah_document_release(&document);
}

TEST(profiler, names_what_emulation_lacks)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_machine target = target_machine();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, PART(LINKS));
    options.emulate = &target;
    target.n_links = 1;
    CHECK_FAILS(ah_profiler_run_within(&document, &options, &tiny, &err), err, AH_E_USAGE,
                "copies to the host");
    assert_null(document.body.any);
    assert_int_equal(fake_device_open_count(), 0);
}

struct progress {
    double last;
    unsigned calls;
    char what[128];
    atomic_int *cancel; /* flag to set after `cancel_after` calls */
    unsigned cancel_after;
};

static void on_progress(void *context, double fraction, const char *what)
{
    struct progress *progress = context;
    assert_true(fraction >= progress->last && fraction <= 1);
    assert_true(what[0] != '\0');
    progress->last = fraction;
    strncpy(progress->what, what, sizeof progress->what - 1);
    if (++progress->calls == progress->cancel_after)
        atomic_store(progress->cancel, 1);
}

TEST(profiler, progress_ends_at_one)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct progress progress = {0};
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, ON_DEVICE);
    options.progress = on_progress;
    options.progress_context = &progress;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    assert_true(progress.calls > 30);
    check_near(progress.last, 1, 1e-9);
    ah_document_release(&document);
}

TEST(profiler, stops_when_cancelled)
{
    for (unsigned after = 1; after < 45; after += 4) {
        struct ah_error err = {0};
        struct fake_rates rates = known_rates();
        atomic_int cancel = 0;
        struct progress progress = {.cancel = &cancel, .cancel_after = after};
        struct ah_document document = {0};
        struct ah_profiler_options options = options_of(&rates, ON_DEVICE);
        options.progress = on_progress;
        options.progress_context = &progress;
        options.cancel = &cancel;
        CHECK_FAILS(ah_profiler_run_within(&document, &options, &tiny, &err), err, AH_E_INTERRUPTED,
                    "interrupted");
        assert_true(progress.calls <= after + 2);
        assert_null(document.body.any);
        assert_int_equal(fake_device_open_count(), 0);
    }
}

TEST(profiler, a_fault_of_the_device_ends_it)
{
    for (int submit = 1; submit < 4000; submit = submit * 2 + 1) {
        struct ah_error err = {0};
        struct fake_rates rates = known_rates();
        struct ah_document document = {0};
        rates.fail_submit = submit;
        struct ah_profiler_options options = options_of(&rates, ON_DEVICE);
        CHECK_FAILS(ah_profiler_run_within(&document, &options, &tiny, &err), err, AH_E_FAILED,
                    "refuses an op");
        assert_null(document.body.any);
        assert_int_equal(fake_device_open_count(), 0);
    }
}

TEST(profiler, a_missing_device_is_named)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_profiler_options options = options_of(&rates, ON_DEVICE);
    options.device_index = 3;
    CHECK_FAILS(ah_profiler_run_within(&document, &options, &tiny, &err), err, AH_E_MISSING,
                "no fake device 3: this machine has 1");
}

static void count_sentence(void *context, enum ah_log_level level, const char *text)
{
    unsigned *sentences = context;
    assert_int_equal(level, AH_LOG_WARNING);
    assert_true(text[0] != '\0');
    (*sentences)++;
}

TEST(profiler, leaves_out_a_disk_that_is_not_there)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    unsigned sentences = 0;
    const struct ah_log log = {.write = count_sentence, .context = &sentences};
    struct ah_profiler_options options = options_of(&rates, PART(DISK));
    options.disk_folder = "/nonexistent/folder";
    options.log = &log;
    CHECK_OK(ah_profiler_run_within(&document, &options, &tiny, &err), err);
    const struct ah_machine *machine = document.body.machine;
    assert_null(machine->disk);
    assert_true(machine->n_noise >= 1);
    check_text_has(machine->noise[machine->n_noise - 1], "disk: left out, folder '/nonexistent/folder'");
    assert_int_equal(sentences, machine->n_noise);
    ah_document_release(&document);
}

static void check_sane(const struct ah_metric *metric)
{
    assert_true(metric->n >= 10 && metric->median > 0 && metric->mad >= 0);
    assert_true(metric->min <= metric->median && metric->median <= metric->max);
}

TEST(profiler, measures_memory_and_disk)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    cpu_set_t before;
    cpu_set_t after;
    char folder[] = "build-disk-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct ah_profiler_options options = options_of(&rates, PART(MEMORY) | PART(DISK));
    options.disk_folder = folder;
    sched_getaffinity(0, sizeof before, &before);
    int rc = ah_profiler_run_within(&document, &options, &tiny, &err);
    assert_int_equal(rmdir(folder), 0); /* the profiler left no file */
    CHECK_OK(rc, err);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    const struct ah_machine *machine = document.body.machine;
    assert_int_equal(machine->n_memory, machine->host.threads > 1 ? 8 : 4);
    for (size_t i = 0; i < machine->n_memory; i++)
        check_sane(&machine->memory[i].bytes_per_s);
    if (machine->disk) { /* absent if the folder is in memory */
        check_sane(&machine->disk->read_bytes_per_s);
        check_sane(&machine->disk->write_bytes_per_s);
    }
    ah_document_release(&document);
}

TEST(profiler, slow_machines_get_small_products)
{
    struct ah_error err;
    struct fake_rates rates = known_rates();
    struct ah_document document = {0};
    struct ah_measure_limits limits = tiny;
    rates.matmul_flops_per_s[AH_FP32] = 1e6;
    rates.matmul_flops_per_s[AH_BF16] = 1e6;
    limits.product_s = 0.05;
    struct ah_profiler_options options = options_of(&rates, PART(MATMUL));
    CHECK_OK(ah_profiler_run_within(&document, &options, &limits, &err), err);
    const struct ah_machine *machine = document.body.machine;
    for (size_t i = 0; i < machine->n_matmul; i++) {
        const struct ah_machine_matmul *product = &machine->matmul[i];
        assert_true(2e-6 * (double)(product->m * product->n * product->k) <= 0.05);
        assert_true(product->m >= 1 && product->m < 32);
    }
    ah_document_release(&document);
}

TEST(profiler, words_of_parts)
{
    assert_string_equal(ah_profiler_part_word(AH_PROFILER_BESIDE), "beside");
    for (int part = 0; part < AH_PROFILER_PART_COUNT; part++)
        assert_int_equal(ah_profiler_part_bit(ah_profiler_part_word((enum ah_profiler_part)part)),
                         1u << part);
    assert_int_equal(ah_profiler_part_bit("gpu"), 0);
}
