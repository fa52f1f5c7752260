/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables and functions have the names of FIPS 180-4, sections 4.1.2, 5.1.1 and 6.2.2.
 */
#include "base/sha256.h"

#include "base/isa.h"
#include "base/sha256_internal.h"

#include <string.h>

enum { ROUNDS = AH_SHA256_ROUNDS, LENGTH_BYTES = 8 };

/* clang-format off */
const uint32_t ah_sha256_k[AH_SHA256_ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
/* clang-format on */

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_be(unsigned char *bytes, uint64_t value, int n)
{
    for (int i = n - 1; i >= 0; i--, value >>= 8)
        bytes[i] = (unsigned char)value;
}

static void schedule(const unsigned char *block, uint32_t W[ROUNDS])
{
    for (int t = 0; t < 16; t++)
        W[t] = load_be(block + 4 * t);
    for (int t = 16; t < ROUNDS; t++) {
        uint32_t sigma0 = rotr(W[t - 15], 7) ^ rotr(W[t - 15], 18) ^ W[t - 15] >> 3;
        uint32_t sigma1 = rotr(W[t - 2], 17) ^ rotr(W[t - 2], 19) ^ W[t - 2] >> 10;
        W[t] = sigma1 + W[t - 7] + sigma0 + W[t - 16];
    }
}

static void compress_block(uint32_t H[8], const unsigned char *block)
{
    uint32_t W[ROUNDS];
    schedule(block, W);
    uint32_t a = H[0], b = H[1], c = H[2], d = H[3], e = H[4], f = H[5], g = H[6], h = H[7];
    for (int t = 0; t < ROUNDS; t++) {
        uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        uint32_t ch = (e & f) ^ (~e & g);
        uint32_t T1 = h + sum1 + ch + ah_sha256_k[t] + W[t];
        uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        uint32_t maj = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + T1;
        d = c;
        c = b;
        b = a;
        a = T1 + sum0 + maj;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        H[i] += added[i];
}

void ah_sha256_compress_portable(uint32_t H[8], const unsigned char *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        compress_block(H, blocks + i * AH_SHA256_BLOCK_BYTES);
}

static void compress(struct ah_sha256 *hash, const unsigned char *blocks, size_t n)
{
    (hash->native ? ah_sha256_compress_native : ah_sha256_compress_portable)(hash->state, blocks, n);
}

void ah_sha256_init(struct ah_sha256 *hash)
{
    *hash = (struct ah_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                         0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                               .native = ah_isa_has_sha256()};
}

void ah_sha256_adopt(struct ah_sha256 *hash)
{
    hash->native = ah_isa_has_sha256();
}

void ah_sha256_update(struct ah_sha256 *hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    size_t filled = hash->total_bytes % AH_SHA256_BLOCK_BYTES;
    hash->total_bytes += size;
    if (filled && size >= AH_SHA256_BLOCK_BYTES - filled) {
        size_t taken = AH_SHA256_BLOCK_BYTES - filled;
        memcpy(hash->block + filled, at, taken);
        compress(hash, hash->block, 1);
        at += taken;
        size -= taken;
        filled = 0;
    }
    size_t blocks = filled ? 0 : size / AH_SHA256_BLOCK_BYTES;
    compress(hash, at, blocks);
    at += blocks * AH_SHA256_BLOCK_BYTES;
    size -= blocks * AH_SHA256_BLOCK_BYTES;
    if (size)
        memcpy(hash->block + filled, at, size);
}

void ah_sha256_finish(struct ah_sha256 *hash, unsigned char ret_digest[AH_SHA256_BYTES])
{
    static const unsigned char padding[AH_SHA256_BLOCK_BYTES] = {0x80};
    unsigned char length[LENGTH_BYTES];
    store_be(length, hash->total_bytes * 8, LENGTH_BYTES);
    size_t filled = hash->total_bytes % AH_SHA256_BLOCK_BYTES;
    size_t content = AH_SHA256_BLOCK_BYTES - LENGTH_BYTES;
    ah_sha256_update(hash, padding, (filled < content ? content : content + AH_SHA256_BLOCK_BYTES) - filled);
    ah_sha256_update(hash, length, LENGTH_BYTES);
    for (int i = 0; i < 8; i++)
        store_be(ret_digest + 4 * i, hash->state[i], 4);
}

const char *ah_sha256_hex(const unsigned char digest[AH_SHA256_BYTES], char ret_text[AH_SHA256_HEX_MAX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < AH_SHA256_BYTES; i++) {
        ret_text[2 * i] = digits[digest[i] >> 4];
        ret_text[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_text[2 * AH_SHA256_BYTES] = '\0';
    return ret_text;
}
