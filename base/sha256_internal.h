/* SPDX-License-Identifier: Apache-2.0
 *
 * The compression function of SHA-256, in two implementations with the same result.
 */
#ifndef AH_BASE_SHA256_INTERNAL_H
#define AH_BASE_SHA256_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

enum { AH_SHA256_ROUNDS = 64 };

extern const uint32_t ah_sha256_k[AH_SHA256_ROUNDS]; /* K of FIPS 180-4, 4.2.2 */

/* Hash `n` blocks into the state H. The native function needs ah_isa_has_sha256(). */
void ah_sha256_compress_portable(uint32_t H[8], const unsigned char *blocks, size_t n);
void ah_sha256_compress_native(uint32_t H[8], const unsigned char *blocks, size_t n);

#endif
