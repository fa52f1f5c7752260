/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures matrix products on the compute lane: rates by dtype, form, shape and threads. Each is 2 m n k operations.
 *
 * One device per thread count stays open, so that products with any number of threads are measured in the same set of
 * rounds. The operands are at fixed places and the same in every repeat, so they are as warm in caches as the last
 * product left them.
 *
 * If a machine is emulated, there is only one turn, because the throttle of the other parts follows from it. Its thread
 * count is that of the compute lane beside other lanes, relative to whose rate copies and the host lane are slowed.
 */
#include "profiler/measure_internal.h"

#include "profiler/lanes_internal.h"
#include "runtime/device/emulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS = 3, DTYPES = 2, PRODUCTS_MAX = AH_SAMPLER_WIDTH_MAX, ARENA_MAX = 256 << 20 };

/* A product fills the device if it takes this long. */
#define FILLING_S 0.001

struct product {
    struct ah_machine_matmul what;
    struct ah_device *device;
    struct ah_op op;
    struct ah_lanes_work work;
};

struct ah_products {
    struct ah_device *devices[AH_MEASURE_COUNTS_MAX];
    struct product items[PRODUCTS_MAX];
    struct ah_sampler_work works[PRODUCTS_MAX];
    struct ah_sampler_series series[PRODUCTS_MAX];
    struct ah_sampler_set set;
    size_t n;
    unsigned turns_done;
    uint64_t place;  /* bytes of one operand */
    uint64_t places; /* number of places, each for three operands */
};

/* Returns the size of a place for one of three operands: the bytes of the largest in fp32, rounded up to pages. */
static uint64_t place_bytes(const struct ah_measure_shape *shapes, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ah_measure_shape *s = &shapes[i];
        const uint64_t elements[] = {s->m * s->k, s->k * s->n, s->m * s->n};
        for (int operand = 0; operand < 3; operand++)
            most = elements[operand] > most ? elements[operand] : most;
    }
    return (most * 4 + 4095) / 4096 * 4096;
}

static struct ah_op product_op(const struct ah_machine_matmul *what, uint64_t place)
{
    struct ah_op op = {.kind = AH_OP_MATMUL};
    for (uint32_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, (uint32_t)what->dtype, i * place, 0};
    op.u.matmul =
        (struct ah_op_matmul){.form = (uint32_t)what->form, .m = what->m, .n = what->n, .k = what->k};
    return op;
}

static int reserve(struct ah_device *device, uint64_t bytes, struct ah_error *err)
{
    const uint64_t arenas[AH_ARENA_KINDS] = {
        [AH_ARENA_DEVICE] = bytes, [AH_ARENA_PINNED] = AH_LANES_STAGE_BYTES};
    const struct ah_ref stage = {AH_ARENA_PINNED, AH_BF16, 0, 0};
    int rc = ah_device_reserve(device, arenas, err);
    return rc ? rc
              : ah_lanes_fill(device, (struct ah_ref){AH_ARENA_DEVICE, AH_BF16, 0, 0}, bytes, stage, err);
}

/* Measures a cubic product (m = n = k) by one thread. */
static int time_cube(struct ah_measure *measure, uint64_t edge, double *ret_seconds, struct ah_error *err)
{
    enum { RUNS = 3 };
    const struct ah_measure_shape cube = {edge, edge, edge};
    const uint64_t place = place_bytes(&cube, 1);
    const struct ah_machine_matmul what = {
        .dtype = AH_FP32, .form = AH_MATMUL_NN, .m = edge, .n = edge, .k = edge};
    struct ah_device *device = NULL;
    const struct ah_op op = product_op(&what, place);
    int rc = ah_measure_open(measure, measure->info.kind == AH_DEVICE_CPU, 1, false, &device, err);
    struct ah_lanes_work work = {device, AH_LANE_COMPUTE, &op, 1, 0};
    if (rc == AH_OK)
        rc = ah_algorithms_adopt(measure, device, err);
    if (rc == AH_OK)
        rc = ah_device_prepare(device, &op, 1, err);
    if (rc == AH_OK)
        ah_host_weigh(measure);
    if (rc == AH_OK)
        rc = reserve(device, 3 * place, err);
    for (int i = 0; i < RUNS && rc == AH_OK; i++)
        rc = ah_lanes_run(&work, 1, ret_seconds, err); /* the last run counts */
    ah_device_close(device);
    return rc;
}

int ah_matmul_fit_shapes(struct ah_measure *measure, struct ah_error *err)
{
    enum { PROBE = 128, PROBE_MAX = 4096 };
    const struct ah_measure_limits *limits = measure->limits;
    uint64_t edge = PROBE;
    double seconds = 1e-9;
    int rc = time_cube(measure, edge, &seconds, err);
    while (!rc && measure->info.kind != AH_DEVICE_CPU && seconds < FILLING_S && edge < PROBE_MAX) {
        edge *= 2; /* a small product is no measure of a GPU */
        rc = time_cube(measure, edge, &seconds, err);
    }

    bool fast = edge > PROBE && limits->n_fast_shapes > 0;
    const struct ah_measure_shape *shapes = fast ? limits->fast_shapes : limits->shapes;
    double most = limits->product_s / seconds * pow((double)edge, 3); /* multiplications */
    measure->n_shapes = fast ? limits->n_fast_shapes : limits->n_shapes;
    for (size_t i = 0; i < measure->n_shapes; i++) {
        struct ah_measure_shape *shape = &measure->shapes[i];
        *shape = shapes[i];
        while (shape->m > 1 && (double)shape->m * (double)shape->n * (double)shape->k > most)
            shape->m /= 2;
    }
    return rc;
}

/* Adds products of each dtype, form and shape for one device, while there is room. */
static int add_products(struct ah_measure *measure, struct ah_device *device, unsigned threads,
                        uint64_t place, struct ah_products *products, struct ah_error *err)
{
    unsigned dtypes = measure->info.bf16 ? DTYPES : 1;
    for (unsigned i = 0; i < measure->n_shapes * FORMS * dtypes && products->n < PRODUCTS_MAX; i++) {
        const struct ah_measure_shape *shape = &measure->shapes[i / (FORMS * dtypes)];
        struct product *product = &products->items[products->n];
        product->what = (struct ah_machine_matmul){
            .dtype = i % dtypes ? AH_BF16 : AH_FP32,
            .form = (enum ah_matmul_form)(i / dtypes % FORMS),
            .m = shape->m,
            .n = shape->n,
            .k = shape->k,
            .threads = measure->info.kind == AH_DEVICE_CPU ? threads : 0,
        };
        product->op = product_op(&product->what, place);
        product->work = (struct ah_lanes_work){device, AH_LANE_COMPUTE, &product->op, 1, 0};
        int rc = ah_device_prepare(device, &product->op, 1, err);
        if (rc)
            return rc;
        products->works[products->n] = ah_lanes_sampler_work(&product->work);
        products->n++;
    }
    return AH_OK;
}

static int store_matmul(struct ah_measure *measure, const struct ah_products *products, struct ah_error *err)
{
    struct ah_machine *machine = measure->machine;
    machine->matmul = ah_arena_array(&measure->document->arena, products->n, sizeof *machine->matmul);
    if (!machine->matmul)
        return ah_error_memory(err);
    for (size_t i = 0; i < products->n; i++) {
        struct ah_machine_matmul *to = &machine->matmul[machine->n_matmul++];
        *to = products->items[i].what;
        to->flops_per_s =
            ah_sampler_rate(&products->series[i], 2.0 * (double)to->m * (double)to->n * (double)to->k);
        ah_measure_judge(measure, &products->series[i], "%s %s %llux%llux%llu on %llu",
                         ah_words_dtype[to->dtype], ah_words_matmul_form[to->form], (unsigned long long)to->m,
                         (unsigned long long)to->n, (unsigned long long)to->k,
                         (unsigned long long)to->threads);
    }
    return AH_OK;
}

/* Records the memory that the device needed for these shapes outside its arenas, so that plans leave it free. */
static void keep_reserve(struct ah_measure *measure, const struct ah_products *products)
{
    uint64_t *most = &measure->machine->device.reserve_bytes;
    for (size_t i = 0; i < AH_MEASURE_COUNTS_MAX; i++)
        if (products->devices[i] && ah_device_outside_bytes(products->devices[i]) > *most)
            *most = ah_device_outside_bytes(products->devices[i]);
}

/* Sets the throttle according to the products just measured. */
static int emulate(struct ah_measure *measure, struct ah_error *err)
{
    const struct ah_machine *target = measure->options->emulate;
    enum ah_dtype dtype;
    int rc = ah_emulate_dtype(target, measure->info.bf16, &dtype, err);
    if (rc)
        return rc;
    return ah_emulate_throttle(target, dtype, ah_machine_matmul_flops_per_s(measure->machine, dtype),
                               &measure->throttle, err);
}

/* Returns the number of places: one per turn, or fewer if that would take too much memory. */
static uint64_t places_of(uint64_t place, unsigned turns)
{
    uint64_t fitting = ARENA_MAX / (3 * place);
    uint64_t places = fitting < turns ? fitting : turns;
    return places ? places : 1;
}

static void move_operands(struct ah_products *products)
{
    uint64_t begin = products->turns_done % products->places * 3 * products->place;
    for (size_t i = 0; i < products->n; i++)
        for (uint64_t operand = 0; operand < 3; operand++)
            products->items[i].op.arg[operand].offset_bytes = begin + operand * products->place;
}

/* Makes one turn's part of the rounds. The last turn makes metrics from all rounds. */
static int make_rounds(struct ah_measure *measure, struct ah_error *err)
{
    struct ah_products *products = measure->products;
    unsigned turns = measure->turns;
    struct ah_sampler sampler = ah_measure_sampler(measure, "matrix products");
    sampler.samples_min = (sampler.samples_min + turns - 1) / turns;
    sampler.samples_max =
        sampler.samples_max / turns > sampler.samples_min ? sampler.samples_max / turns : sampler.samples_min;
    move_operands(products);
    int rc = ah_sampler_continue(&sampler, &products->set, products->series, err);
    if (rc || ++products->turns_done < turns)
        return rc;
    rc = store_matmul(measure, products, err);
    if (rc == AH_OK && measure->options->emulate)
        rc = emulate(measure, err);
    return rc;
}

int ah_matmul_measure(struct ah_measure *measure, struct ah_error *err)
{
    unsigned counts[AH_MEASURE_COUNTS_MAX] = {measure->compute_threads};
    size_t n = 1;
    uint64_t place = place_bytes(measure->shapes, measure->n_shapes);
    struct ah_products *products = calloc(1, sizeof *products);
    if (!products)
        return ah_error_memory(err);
    measure->products = products;
    products->place = place;
    products->places = places_of(place, measure->turns);
    if (!measure->options->emulate && measure->info.kind == AH_DEVICE_CPU)
        n = ah_measure_threads(measure, measure->processors, counts);
    ah_measure_sets(measure, 2);
    struct ah_sampler sampler = ah_measure_sampler(measure, "matrix products: warm-up");

    int rc = AH_OK;
    for (size_t i = 0; i < n && rc == AH_OK; i++) {
        rc = ah_measure_open(measure, counts[i], 1, false, &products->devices[i], err);
        if (rc == AH_OK)
            rc = add_products(measure, products->devices[i], counts[i], place, products, err);
        if (rc == AH_OK)
            rc = reserve(products->devices[i], 3 * place * products->places, err);
    }
    if (rc == AH_OK)
        rc = ah_sampler_begin(&sampler, products->works, products->n, &products->set, err);
    keep_reserve(measure, products);
    return rc ? rc : make_rounds(measure, err);
}

int ah_matmul_continue(struct ah_measure *measure, struct ah_error *err)
{
    ah_measure_sets(measure, 1);
    return make_rounds(measure, err);
}

void ah_matmul_release(struct ah_measure *measure)
{
    struct ah_products *products = measure->products;
    if (!products)
        return;
    for (size_t i = 0; i < AH_MEASURE_COUNTS_MAX; i++)
        ah_device_close(products->devices[i]);
    free(products);
    measure->products = NULL;
}
