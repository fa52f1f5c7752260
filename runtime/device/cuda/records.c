/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads records with a table that has a reader for each kind of record. Kinds without a reader are skipped.
 *
 * 1. A kernel, a copy or a fill has the correlation number of the call that enqueued it. Records of external
 *    correlation say for which op a call was made. These may be in any buffer, so ops are looked up last.
 * 2. CUPTI owns the names of kernels, one for each kernel. Consecutive kernels of one name share a copy.
 *
 * Source: CUPTI manual, "CUPTI Activity API", "External Correlation"; Itanium C++ ABI, "Mangling".
 */
#include "runtime/device/cuda/records.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Reads a <source-name>, which is a length followed by that many characters. NULL: there is none. */
static const char *read_identifier(const char **place, size_t *ret_length)
{
    char *behind;
    if (!isdigit((unsigned char)**place))
        return NULL;
    unsigned long length = strtoul(*place, &behind, 10);
    if (length == 0 || length > strlen(behind))
        return NULL;
    *place = behind + length;
    *ret_length = (size_t)length;
    return behind;
}

const char *ah_cuda_records_name(struct ah_arena *arena, const char *name)
{
    const char *place = name + 2, *found = NULL, *next, *inner;
    size_t length = 0, inner_length = 0;
    if (strncmp(name, "_Z", 2) != 0)
        return ah_arena_strdup(arena, name);
    place += *place == 'N';
    place += *place == 'L';
    while ((next = read_identifier(&place, &length)))
        found = next;
    if (!found)
        return ah_arena_strdup(arena, name);
    length = (size_t)(place - found);
    inner = place + (*place == 'I');
    inner = *place == 'I' ? read_identifier(&inner, &inner_length) : NULL;
    char *text = ah_arena_alloc(arena, length + inner_length + 3);
    if (!text)
        return NULL;
    memcpy(text, found, length);
    if (inner) {
        text[length] = '<';
        memcpy(text + length + 1, inner, inner_length);
        text[length + 1 + inner_length] = '>';
    }
    return text;
}

/* ---- reading ---- */

/* Returns `items` with room for one more; NULL: out of memory. */
static void *grow_items(void *items, size_t n, size_t *room, size_t bytes)
{
    if (n < *room)
        return items;
    size_t more = *room ? 2 * *room : 1024;
    void *grown = realloc(items, more * bytes);
    if (grown)
        *room = more;
    return grown;
}

static int add_record(struct ah_cuda_records *records, const struct ah_cuda_record *record)
{
    const struct ah_device_activity *activity = &record->activity;
    if (!activity->start_ns || activity->end_ns < activity->start_ns) {
        records->untimed++;
        return AH_OK;
    }
    void *grown = grow_items(records->found, records->n_found, &records->found_room, sizeof *records->found);
    if (!grown)
        return AH_E_MEMORY;
    records->found = grown;
    records->found[records->n_found++] = *record;
    return AH_OK;
}

static int read_kernel(struct ah_cuda_records *records, const void *place)
{
    const CUpti_ActivityKernel10 *kernel = place;
    if (kernel->name != records->last_name || !records->last_text) {
        records->last_name = kernel->name;
        records->last_text = ah_cuda_records_name(&records->names, kernel->name ? kernel->name : "");
    }
    if (!records->last_text)
        return AH_E_MEMORY;
    return add_record(records, &(struct ah_cuda_record){.activity = {.kind = AH_ACTIVITY_KERNEL,
                                                                     .start_ns = kernel->start,
                                                                     .end_ns = kernel->end,
                                                                     .name = records->last_text},
                                                        .correlation = kernel->correlationId,
                                                        .stream = kernel->streamId});
}

static int read_copy(struct ah_cuda_records *records, const void *place)
{
    const CUpti_ActivityMemcpy6 *copy = place;
    return add_record(records, &(struct ah_cuda_record){.activity = {.kind = AH_ACTIVITY_COPY,
                                                                     .bytes = copy->bytes,
                                                                     .start_ns = copy->start,
                                                                     .end_ns = copy->end,
                                                                     .name = ""},
                                                        .correlation = copy->correlationId,
                                                        .stream = copy->streamId});
}

static int read_fill(struct ah_cuda_records *records, const void *place)
{
    const CUpti_ActivityMemset4 *fill = place;
    return add_record(records, &(struct ah_cuda_record){.activity = {.kind = AH_ACTIVITY_FILL,
                                                                     .bytes = fill->bytes,
                                                                     .start_ns = fill->start,
                                                                     .end_ns = fill->end,
                                                                     .name = ""},
                                                        .correlation = fill->correlationId,
                                                        .stream = fill->streamId});
}

static int read_op(struct ah_cuda_records *records, const void *place)
{
    const CUpti_ActivityExternalCorrelation *op = place;
    if (op->externalKind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        return AH_OK;
    void *grown = grow_items(records->ops, records->n_ops, &records->ops_room, sizeof *records->ops);
    if (!grown)
        return AH_E_MEMORY;
    records->ops = grown;
    records->ops[records->n_ops++] = (struct ah_cuda_record_op){op->correlationId, op->externalId};
    return AH_OK;
}

static int read_overhead(struct ah_cuda_records *records, const void *place)
{
    const CUpti_ActivityOverhead3 *overhead = place;
    if (overhead->end > overhead->start)
        records->overhead_ns += overhead->end - overhead->start;
    free(overhead->overheadData); /* the manual says that the reader frees this */
    return AH_OK;
}

static int read_record(struct ah_cuda_records *records, const CUpti_Activity *record)
{
    static const struct {
        CUpti_ActivityKind kind;
        int (*read)(struct ah_cuda_records *records, const void *place);
    } readers[] = {
        {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, read_kernel},
        {CUPTI_ACTIVITY_KIND_MEMCPY, read_copy},
        {CUPTI_ACTIVITY_KIND_MEMSET, read_fill},
        {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, read_op},
        {CUPTI_ACTIVITY_KIND_OVERHEAD, read_overhead},
    };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].kind == record->kind)
            return readers[i].read(records, record);
    return AH_OK;
}

int ah_cuda_records_read(struct ah_cuda_records *records, uint8_t *buffer, size_t bytes, struct ah_error *err)
{
    CUpti_Activity *record = NULL;
    CUptiResult result;
    while (bytes && (result = records->calls->next_record(buffer, bytes, &record)) == CUPTI_SUCCESS)
        if (read_record(records, record))
            return ah_error_memory(err);
    if (!bytes || result == CUPTI_ERROR_MAX_LIMIT_REACHED || result == CUPTI_ERROR_INVALID_KIND)
        return AH_OK;
    return ah_cupti_check(records->calls, result, "cuptiActivityGetNextRecord", err);
}

/* ---- assigning to ops ---- */

static int by_correlation(const void *left, const void *right)
{
    const struct ah_cuda_record_op *a = left, *b = right;
    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

static int by_lane_and_start(const void *left, const void *right)
{
    const struct ah_device_activity *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* Finds the op, or else the lane, of a record. Returns false if the record belongs to none of the lanes. */
static bool find_owner(const struct ah_cuda_records *records, const struct ah_cuda_record *record,
                       const uint32_t *stream_ids, uint32_t n_streams, struct ah_device_activity *activity)
{
    const struct ah_cuda_record_op key = {.correlation = record->correlation}, *op = NULL;
    if (records->n_ops)
        op = bsearch(&key, records->ops, records->n_ops, sizeof key, by_correlation);
    *activity = record->activity;
    if (op) {
        activity->lane = (uint32_t)(op->id % AH_DEVICE_LANES_MAX);
        activity->ticket = op->id / AH_DEVICE_LANES_MAX;
        return activity->lane < n_streams;
    }
    while (activity->lane < n_streams && stream_ids[activity->lane] != record->stream)
        activity->lane++;
    return activity->lane < n_streams;
}

int ah_cuda_records_settle(struct ah_cuda_records *records, const uint32_t *stream_ids, uint32_t n_streams,
                           struct ah_error *err)
{
    if (records->n_ops)
        qsort(records->ops, records->n_ops, sizeof *records->ops, by_correlation);
    records->settled = calloc(records->n_found + 1, sizeof *records->settled);
    if (!records->settled)
        return ah_error_memory(err);
    for (size_t i = 0; i < records->n_found; i++)
        records->n +=
            find_owner(records, &records->found[i], stream_ids, n_streams, &records->settled[records->n]);
    qsort(records->settled, records->n, sizeof *records->settled, by_lane_and_start);
    return AH_OK;
}

void ah_cuda_records_release(struct ah_cuda_records *records)
{
    free(records->found);
    free(records->ops);
    free(records->settled);
    ah_arena_release(&records->names);
    *records = (struct ah_cuda_records){0};
}
