/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4): identifies the inputs of documents and data sets, and detects damaged checkpoints. It uses the
 * processor's SHA-256 instructions if there are any; the digest is the same.
 *
 *     struct ah_sha256 hash;
 *     ah_sha256_init(&hash);
 *     ah_sha256_update(&hash, bytes, size);
 *     ah_sha256_finish(&hash, digest);
 *     ah_sha256_hex(digest, text);
 */
#ifndef AH_BASE_SHA256_H
#define AH_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_SHA256_BYTES = 32, AH_SHA256_HEX_MAX = 65, AH_SHA256_BLOCK_BYTES = 64 };

struct ah_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    bool native;                                /* the processor has SHA-256 instructions */
    unsigned char block[AH_SHA256_BLOCK_BYTES]; /* total_bytes % 64 of them are filled */
};

/* Starts a hash. Queries the processor, which takes microseconds under a hypervisor. */
void ah_sha256_init(struct ah_sha256 *hash);

/* Makes a hash whose bytes came from another machine use this processor's instructions. */
void ah_sha256_adopt(struct ah_sha256 *hash);
void ah_sha256_update(struct ah_sha256 *hash, const void *bytes, size_t size);

/* Ends the hash; `hash` must be initialised again before further use. */
void ah_sha256_finish(struct ah_sha256 *hash, unsigned char ret_digest[AH_SHA256_BYTES]);

/* Writes 64 lower-case hexadecimal digits and a NUL; returns `ret_text`. */
const char *ah_sha256_hex(const unsigned char digest[AH_SHA256_BYTES], char ret_text[AH_SHA256_HEX_MAX]);

#endif
