/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/shared.h"

#include "runtime/train/checkpoint/stream_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { TOKEN_BYTES = AH_SHARED_TOKEN_MAX - 1, RANDOM_BYTES = TOKEN_BYTES / 2, LOOK_MS = 20 };

/* Returns the offset of a rank's text, close to other ranks' texts, so that several ranks write into the same page. */
static off_t place_of(uint32_t rank)
{
    return (off_t)rank * (TOKEN_BYTES + 1);
}

/* Writes the token at the offset of `rank`. All ranks write the same text. */
static bool write_at(int descriptor, const char *token, uint32_t rank)
{
    ssize_t done;
    do
        done = pwrite(descriptor, token, TOKEN_BYTES, place_of(rank));
    while (done < 0 && errno == EINTR);
    return done == TOKEN_BYTES;
}

static bool reads_at(int descriptor, const char *token, uint32_t rank)
{
    char text[TOKEN_BYTES];
    ssize_t got;
    do
        got = pread(descriptor, text, sizeof text, place_of(rank));
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof text && !memcmp(text, token, sizeof text);
}

static bool close_well(int descriptor, bool well)
{
    return !close(descriptor) && well;
}

bool ah_shared_offer(const char *folder, char ret_token[AH_SHARED_TOKEN_MAX])
{
    unsigned char bytes[RANDOM_BYTES];
    char path[PATH_MAX];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes ||
        ah_stream_path(folder, AH_SHARED_FILE, path, NULL))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_token + 2 * i, 3, "%02x", bytes[i]);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return descriptor >= 0 && close_well(descriptor, write_at(descriptor, ret_token, 0));
}

bool ah_shared_answer(const char *folder, const char *token, uint32_t rank, unsigned patience_ms)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    char path[PATH_MAX];
    if (ah_stream_path(folder, AH_SHARED_FILE, path, NULL))
        return false;
    for (unsigned waited_ms = 0;; waited_ms += LOOK_MS) {
        const int descriptor = open(path, O_RDWR | O_CLOEXEC);
        if (descriptor >= 0 && reads_at(descriptor, token, 0))
            return close_well(descriptor, write_at(descriptor, token, rank));
        if (descriptor >= 0)
            close(descriptor);
        if (waited_ms >= patience_ms)
            return false;
        (void)nanosleep(&pause, NULL);
    }
}

int ah_shared_check(const char *folder, const char *token, const bool *answered, uint32_t ranks,
                    bool *ret_shared, struct ah_error *err)
{
    char path[PATH_MAX];
    int rc = ah_stream_path(folder, AH_SHARED_FILE, path, err);
    if (rc)
        return rc;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool shared = descriptor >= 0;
    for (uint32_t rank = 0; rank < ranks && shared; rank++)
        shared = !answered[rank] || reads_at(descriptor, token, rank);
    if (descriptor >= 0)
        close(descriptor);
    if (unlink(path) && errno != ENOENT)
        return ah_stream_fail(err, path, "removed");
    *ret_shared = shared;
    return AH_OK;
}
