/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: tensorflow/core/lib/io/record_writer.cc (a record is its length, a masked CRC-32C of that, its data, and a
 * masked CRC-32C of those), tensorflow/core/util/event.proto and framework/summary.proto.
 */
#include "cli/inspect/report_export.h"

#include "base/buffer.h"
#include "base/file.h"
#include "cli/inspect/report_curves.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- CSV ---- */

static void put_line(void *context, const struct ah_report_row *row)
{
    struct ah_buffer *out = context;
    ah_buffer_printf(out, "%" PRIu64, row->number);
    for (size_t i = 0; i < AH_REPORT_CURVES; i++) {
        const double value = ah_report_curves[i].value(row);
        ah_buffer_puts(out, ",");
        if (!isnan(value))
            ah_buffer_printf(out, AH_REPORT_NUMBER, value);
    }
    ah_buffer_puts(out, "\r\n");
}

int ah_report_csv(const struct ah_runlog *runlog, const char *path, struct ah_error *err)
{
    struct ah_buffer text = {0};
    ah_buffer_puts(&text, "step");
    for (size_t i = 0; i < AH_REPORT_CURVES; i++)
        ah_buffer_printf(&text, ",%s", ah_report_curves[i].column);
    ah_buffer_puts(&text, "\r\n");
    ah_report_each_row(runlog, put_line, &text);
    const int rc = text.failed ? ah_error_memory(err) : ah_file_write(path, text.data, text.size, err);
    ah_buffer_release(&text);
    return rc;
}

/* ---- TensorBoard ---- */

/* Field numbers and wire types of the protocol buffers. */
enum {
    EVENT_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3 | 0,
    EVENT_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_NUMBER = 2 << 3 | 5,
    EVENT_MAX = 160,
    HEAD_BYTES = 12 /* of a record */
};
#define VERSION "brain.Event:2"

struct bytes {
    unsigned char data[EVENT_MAX];
    size_t n;
};

static void put_byte(struct bytes *to, unsigned byte)
{
    to->data[to->n++] = (unsigned char)byte;
}

/* Puts the low bytes of a number, the lowest first. */
static void put_fixed(struct bytes *to, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_byte(to, value >> 8 * i & 0xFF);
}

static void put_varint(struct bytes *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(to, (value & 0x7F) | 0x80);
    put_byte(to, (unsigned)value);
}

static void put_text(struct bytes *to, unsigned field, const void *text, size_t n)
{
    put_byte(to, field);
    put_varint(to, n);
    memcpy(to->data + to->n, text, n);
    to->n += n;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t masked_crc(const unsigned char *data, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static void put_record(struct ah_buffer *out, const struct bytes *event)
{
    struct bytes head = {.n = 0}, tail = {.n = 0};
    put_fixed(&head, event->n, 8);
    put_fixed(&head, masked_crc(head.data, 8), 4);
    put_fixed(&tail, masked_crc(event->data, event->n), 4);
    ah_buffer_append(out, head.data, head.n);
    ah_buffer_append(out, event->data, event->n);
    ah_buffer_append(out, tail.data, tail.n);
}

struct events {
    struct ah_buffer out;
    double time_s;
};

static struct bytes begin_event(double time_s)
{
    struct bytes event = {.n = 0};
    put_byte(&event, EVENT_TIME);
    put_fixed(&event, double_bits(time_s), 8);
    return event;
}

static void put_number(struct events *events, const struct ah_report_row *row, const char *tag, double number)
{
    struct bytes value = {.n = 0}, summary = {.n = 0}, event = begin_event(events->time_s);
    put_text(&value, VALUE_TAG, tag, strlen(tag));
    put_byte(&value, VALUE_NUMBER);
    put_fixed(&value, float_bits((float)number), 4);
    put_text(&summary, SUMMARY_VALUE, value.data, value.n);
    put_byte(&event, EVENT_STEP);
    put_varint(&event, row->number);
    put_text(&event, EVENT_SUMMARY, summary.data, summary.n);
    put_record(&events->out, &event);
}

static void put_events(void *context, const struct ah_report_row *row)
{
    struct events *events = context;
    if (row->step)
        events->time_s += row->step->step_us * 1e-6;
    for (size_t i = 0; i < AH_REPORT_CURVES; i++) {
        const double value = ah_report_curves[i].value(row);
        if (!isnan(value))
            put_number(events, row, ah_report_curves[i].tag, value);
    }
}

/* Finds when an event file was first made: the time of its first event, or now. */
static int find_begin(const char *path, double *ret_time_s, struct ah_error *err)
{
    struct bytes event = begin_event(0);
    unsigned char has[HEAD_BYTES + EVENT_MAX] = {0};
    put_text(&event, EVENT_VERSION, VERSION, strlen(VERSION));
    *ret_time_s = (double)time(NULL);
    FILE *file = fopen(path, "re");
    if (!file)
        return AH_OK;
    const size_t n = fread(has, 1, HEAD_BYTES + event.n, file);
    fclose(file);
    const size_t numbers = HEAD_BYTES + 1 + sizeof *ret_time_s; /* up to the version */
    if (n != HEAD_BYTES + event.n ||
        memcmp(has + numbers, event.data + numbers - HEAD_BYTES, n - numbers) != 0)
        return ah_error_set(err, AH_E_USAGE, "%s: is there, and is no event file; give another folder", path);
    memcpy(ret_time_s, has + HEAD_BYTES + 1, sizeof *ret_time_s);
    return AH_OK;
}

/* Writes the file in place, so that its reader goes on. */
static int write_in_place(const char *path, const struct ah_buffer *text, struct ah_error *err)
{
    FILE *file = fopen(path, "r+e");
    if (!file)
        file = fopen(path, "we");
    bool good = file && fwrite(text->data, 1, text->size, file) == text->size;
    good = good && !fflush(file) && !ftruncate(fileno(file), (off_t)text->size);
    const int reason = errno;
    if (file && fclose(file))
        good = false;
    return good ? AH_OK : ah_error_set(err, AH_E_IO, "%s: cannot be written: %s", path, strerror(reason));
}

int ah_report_tensorboard(const struct ah_runlog *runlog, const char *folder, struct ah_error *err)
{
    struct events events = {0};
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/events.out.tfevents.0000000000.autohete", folder) >= (int)sizeof path)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", folder);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return ah_error_set(err, AH_E_IO, "%s: cannot be made: %s", folder, strerror(errno));
    int rc = find_begin(path, &events.time_s, err);
    if (rc)
        return rc;
    struct bytes event = begin_event(events.time_s);
    put_text(&event, EVENT_VERSION, VERSION, strlen(VERSION));
    put_record(&events.out, &event);
    ah_report_each_row(runlog, put_events, &events);
    rc = events.out.failed ? ah_error_memory(err) : write_in_place(path, &events.out, err);
    ah_buffer_release(&events.out);
    return rc;
}
