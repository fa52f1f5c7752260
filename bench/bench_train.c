/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains on the CPU device; with --serve only on request, so that compare_training can alternate between peers.
 *
 *     bench_train PLAN [--threads N] [--warmup N] [--steps N] [--serve] [--ops]
 *
 * Runs the plan on random tokens and prints a line of JSON: the step time (mean over all steps of the group, filling
 * and draining the lanes included), tokens/s, peak resident memory, the last loss. With --serve, each line "N" on
 * standard input runs N steps and gets such a line as an answer; no thread spins in between. --ops prints to standard
 * error how the compute lane spent its time, by kind and size of op: the share of each, and how long the lane was idle
 * before it. It also prints the step time and rate if each op always ran as fast as its fastest instance.
 */
#include "base/threads.h"
#include "runtime/train/trainer.h"
#include "schemas/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TOKENS = 1 << 18, ROWS_MAX = 256, NAME_MAX_BYTES = 64, SPANS_AT_ONCE = 256 };

struct options {
    const char *plan;
    unsigned threads;
    uint64_t warmup, steps;
    bool serve, ops;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_train: %s\n", what);
    exit(1);
}

static void must(int rc, const struct ah_error *err)
{
    if (rc)
        fail(err->text);
}

/* ---- where the time goes: a driver around the CPU's that remembers which op has which ticket ---- */

struct row {
    char name[NAME_MAX_BYTES];
    uint64_t times, ns, least_ns, before_ns; /* before_ns: idle time between the previous op and this one */
    double flops, bytes;
};

struct notes {
    uint64_t tickets, room; /* number of tickets of the compute lane; room for ops */
    struct ah_op *ops;      /* by ticket */
    struct row rows[ROWS_MAX];
    size_t n_rows;
};

static struct notes *notes_of_driver;

static int note_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                       struct ah_error *err)
{
    struct notes *notes = notes_of_driver;
    for (size_t i = 0; i < n; i++) {
        if (submissions[i].lane != AH_LANE_COMPUTE)
            continue;
        if (++notes->tickets >= notes->room) {
            notes->room = 2 * notes->tickets + 1024;
            notes->ops = realloc(notes->ops, notes->room * sizeof *notes->ops);
            if (!notes->ops)
                fail("out of memory");
        }
        notes->ops[notes->tickets] = *submissions[i].op;
    }
    return ah_device_cpu()->submit(device, submissions, n, err);
}

static int note_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err);

static const struct ah_device_driver *noting_driver(void)
{
    static struct ah_device_driver driver;
    driver = *ah_device_cpu();
    driver.open = note_open;
    driver.submit = note_submit;
    return &driver;
}

static int note_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err)
{
    int rc = ah_device_cpu()->open(ret_device, options, err);
    if (!rc)
        (*ret_device)->driver = noting_driver();
    return rc;
}

static double flops_of(const struct ah_op *op)
{
    const struct ah_op_attention *a = &op->u.attention;
    const double pairs = (double)a->batch * a->heads * a->seq * (a->seq + 1) / 2 * a->head_dim;
    if (op->kind == AH_OP_MATMUL)
        return 2.0 * (double)op->u.matmul.m * (double)op->u.matmul.n * (double)op->u.matmul.k;
    if (op->kind == AH_OP_ATTENTION)
        return 4 * pairs;
    return op->kind == AH_OP_ATTENTION_BACKWARD ? 10 * pairs : 0;
}

static void name_op(const struct ah_op *op, char name[NAME_MAX_BYTES])
{
    const struct ah_op_matmul *product = &op->u.matmul;
    static const char *const forms[] = {[AH_MATMUL_NN] = "nn", [AH_MATMUL_NT] = "nt", [AH_MATMUL_TN] = "tn"};
    if (op->kind == AH_OP_MATMUL)
        snprintf(name, NAME_MAX_BYTES, "matmul %s %" PRIu64 " x %" PRIu64 " x %" PRIu64 "%s",
                 forms[product->form], product->m, product->n, product->k, product->accumulate ? " +c" : "");
    else
        snprintf(name, NAME_MAX_BYTES, "%s, %.1f MB", ah_op_name(op->kind),
                 (double)ah_op_moved_bytes(op) * 1e-6);
}

static void note_span(struct notes *notes, const struct ah_op *op, const struct ah_span *span,
                      uint64_t before_ns)
{
    char name[NAME_MAX_BYTES];
    size_t i = 0;
    name_op(op, name);
    while (i < notes->n_rows && strcmp(notes->rows[i].name, name) != 0)
        i++;
    if (i == ROWS_MAX)
        fail("too many kinds of ops");
    if (i == notes->n_rows)
        memcpy(notes->rows[notes->n_rows++].name, name, sizeof name);
    struct row *row = &notes->rows[i];
    const uint64_t ns = span->end_ns - span->start_ns;
    row->least_ns = !row->times || ns < row->least_ns ? ns : row->least_ns;
    row->ns += ns;
    row->times++;
    row->before_ns += span->start_ns - before_ns;
    row->flops += flops_of(op);
    row->bytes += (double)ah_op_moved_bytes(op);
}

static int by_time(const void *a, const void *b)
{
    const struct row *first = a, *second = b;
    return (first->ns < second->ns) - (first->ns > second->ns);
}

static void collect_spans(struct notes *notes, struct ah_device *device, struct ah_span_reader *reader,
                          uint64_t start_ns)
{
    struct ah_span spans[SPANS_AT_ONCE];
    size_t n;
    notes->n_rows = 0;
    while ((n = ah_device_spans(device, reader, spans, SPANS_AT_ONCE)) > 0)
        for (size_t i = 0; i < n; i++) {
            note_span(notes, &notes->ops[spans[i].ticket], &spans[i], start_ns);
            start_ns = spans[i].end_ns;
        }
    qsort(notes->rows, notes->n_rows, sizeof *notes->rows, by_time);
}

static void print_ops(const struct notes *notes, uint64_t steps, uint64_t wall_ns)
{
    const double to_ms = 1e-6 / (double)steps;
    double best = 0;
    fprintf(stderr, "%-32s %6s %9s %7s %9s %9s %9s %7s\n", "op", "times", "ms/step", "share", "idle ms",
            "best ms", "GFLOP/s", "GB/s");
    for (size_t i = 0; i < notes->n_rows; i++) {
        const struct row *row = &notes->rows[i];
        const double times = (double)row->times, least_ns = (double)row->least_ns;
        fprintf(stderr, "%-32s %6.1f %9.3f %7.3f %9.3f %9.3f %9.1f %7.1f\n", row->name, times / (double)steps,
                (double)row->ns * to_ms, (double)row->ns / (double)wall_ns, (double)row->before_ns * to_ms,
                times * least_ns * to_ms, row->flops / times / least_ns, row->bytes / times / least_ns);
        best += times * least_ns * to_ms;
    }
    fprintf(stderr, "%-32s %6s %9.3f %7s %9s %9.3f\n", "all", "", (double)wall_ns * to_ms, "", "", best);
}

/* ---- training ---- */

struct bench {
    struct options options;
    struct ah_document plan;
    struct ah_dataset *data;
    struct ah_batches batches;
    struct ah_trainer *trainer;
    struct ah_span_reader reader;
    struct notes notes;
    double loss;
    uint64_t start_ns; /* start of the latest steps */
};

static void write_tokens(const char *path, uint64_t vocabulary)
{
    FILE *file = fopen(path, "wb");
    uint32_t state = 12345;
    for (int i = 0; i < TOKENS && file; i++) {
        state = state * 1664525 + 1013904223;
        const uint16_t token = (uint16_t)((state >> 8) % (vocabulary < 65536 ? vocabulary : 65536));
        fwrite(&token, sizeof token, 1, file);
    }
    if (!file || fclose(file))
        fail("cannot write the tokens");
}

static void open_data(struct bench *bench)
{
    struct ah_error err = {0};
    const struct ah_plan_training *training = &bench->plan.body.plan->training;
    const uint64_t vocabulary = bench->plan.body.plan->model.vocabulary;
    char folder[] = "/tmp/bench_train_XXXXXX", path[sizeof folder + 16];
    const char *paths[] = {path};
    if (!mkdtemp(folder))
        fail("no folder for the tokens");
    snprintf(path, sizeof path, "%s/tokens.bin", folder);
    write_tokens(path, vocabulary);
    const struct ah_dataset_options options = {
        .paths = paths, .n_paths = 1, .format = AH_DATASET_U16, .vocabulary = vocabulary};
    int rc = ah_dataset_open(&bench->data, &options, &err);
    if (!rc)
        rc = ah_batches_init(
            &bench->batches,
            &(struct ah_batches_options){.data = bench->data, .seq = training->seq, .batch = training->batch},
            &err);
    must(rc, &err);
    unlink(path);
    rmdir(folder);
}

static void open_trainer(struct bench *bench)
{
    struct ah_error err = {0};
    must(ah_document_load(&bench->plan, bench->options.plan, AH_DOCUMENT_PLAN, &err), &err);
    open_data(bench);
    const struct ah_trainer_options options = {
        .model = &bench->plan.body.plan->model,
        .plan = bench->plan.body.plan,
        .driver = bench->options.ops ? noting_driver() : ah_device_cpu(),
        .device = {.compute_threads = bench->options.threads, .host_threads = 1},
        .batches = &bench->batches,
        .rate = {.schedule = AH_RATE_CONSTANT, .lr = 3e-4},
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .seed = 1};
    notes_of_driver = &bench->notes;
    must(ah_trainer_open(&bench->trainer, &options, &err), &err);
}

static bool on_step(void *context, const struct ah_step_record *record)
{
    ((struct bench *)context)->loss = record->loss;
    return true;
}

static uint64_t train(struct bench *bench, uint64_t steps)
{
    struct ah_error err = {0};
    const struct ah_observer observer = {.step = on_step, .context = bench};
    bench->reader = ah_device_newest(ah_trainer_device(bench->trainer), AH_LANE_COMPUTE, 0);
    bench->start_ns = ah_threads_now_ns();
    must(ah_trainer_run(bench->trainer, steps, &observer, &err), &err);
    return ah_threads_now_ns() - bench->start_ns;
}

static void measure(struct bench *bench, uint64_t steps)
{
    const struct ah_plan_training *training = &bench->plan.body.plan->training;
    const uint64_t ns = train(bench, steps);
    const double step_ns = (double)ns / (double)steps;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"peer\": \"autohete\", \"version\": \"%s\", \"dtype\": \"%s\", \"batch\": %" PRIu64
           ", \"seq\": %" PRIu64 ", \"threads\": %u, \"steps\": %" PRIu64
           ", \"step_us\": %.0f, \"tokens_per_s\": %.1f, \"peak_bytes\": %lld, \"loss\": %.4f}\n",
           AUTOHETE_VERSION, ah_words_dtype[training->dtype], training->batch, training->seq,
           bench->options.threads, steps, step_ns * 1e-3,
           (double)(training->batch * training->seq) / (step_ns * 1e-9), (long long)usage.ru_maxrss * 1024,
           bench->loss);
    fflush(stdout);
    if (!bench->options.ops)
        return;
    collect_spans(&bench->notes, ah_trainer_device(bench->trainer), &bench->reader, bench->start_ns);
    print_ops(&bench->notes, steps, ns);
}

static uint64_t number(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        fail("an option lacks its number");
    return (uint64_t)atoll(argv[++*i]);
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.threads = 2, .warmup = 2, .steps = 5};
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--threads"))
            options.threads = (unsigned)number(argc, argv, &i);
        else if (!strcmp(argv[i], "--warmup"))
            options.warmup = number(argc, argv, &i);
        else if (!strcmp(argv[i], "--steps"))
            options.steps = number(argc, argv, &i);
        else if (!strcmp(argv[i], "--serve"))
            options.serve = true;
        else if (!strcmp(argv[i], "--ops"))
            options.ops = true;
        else if (argv[i][0] != '-' && !options.plan)
            options.plan = argv[i];
        else
            fail("usage: PLAN [--threads N] [--warmup N] [--steps N] [--serve] [--ops]");
    if (!options.plan || !options.steps)
        fail("usage: PLAN [--threads N] [--warmup N] [--steps N] [--serve] [--ops]");
    return options;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    char line[64];
    bench.options = parse(argc, argv);
    open_trainer(&bench);
    if (bench.options.warmup)
        train(&bench, bench.options.warmup);
    if (!bench.options.serve)
        measure(&bench, bench.options.steps);
    while (bench.options.serve && fgets(line, sizeof line, stdin))
        if (atoll(line) > 0)
            measure(&bench, (uint64_t)atoll(line));
    ah_trainer_close(bench.trainer);
    ah_batches_release(&bench.batches);
    ah_dataset_close(bench.data);
    ah_document_release(&bench.plan);
    free(bench.notes.ops);
    return 0;
}
