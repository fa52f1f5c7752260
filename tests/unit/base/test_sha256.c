/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares digests with the examples of FIPS 180-4 (NIST, "Cryptographic Standards and Guidelines", SHA-256). Compares
 * all lengths from 0 to 299 with Python's hashlib.
 */
#include "base/sha256.h"

#include "base/isa.h"
#include "base/sha256_internal.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

static const char *hash_of(const void *bytes, size_t size, char text[AH_SHA256_HEX_MAX])
{
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, bytes, size);
    ah_sha256_finish(&hash, digest);
    return ah_sha256_hex(digest, text);
}

TEST(sha256, nist_vectors)
{
    static const struct {
        const char *message, *digest;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "pqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char text[AH_SHA256_HEX_MAX];
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        assert_string_equal(hash_of(vectors[i].message, strlen(vectors[i].message), text), vectors[i].digest);
}

TEST(sha256, a_million_letters)
{
    char *letters = malloc(1000000), text[AH_SHA256_HEX_MAX];
    memset(letters, 'a', 1000000);
    assert_string_equal(hash_of(letters, 1000000, text),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

/* Expected value: sha256(b"".join(sha256(bytes((7 * i + n) & 255 for i in range(n))).digest() for n in range(300))) */
TEST(sha256, every_length)
{
    struct ah_sha256 all, one;
    unsigned char message[300], digest[AH_SHA256_BYTES];
    char text[AH_SHA256_HEX_MAX];
    ah_sha256_init(&all);
    for (size_t n = 0; n < 300; n++) {
        for (size_t i = 0; i < n; i++)
            message[i] = (unsigned char)(7 * i + n);
        ah_sha256_init(&one);
        ah_sha256_update(&one, message, n);
        ah_sha256_finish(&one, digest);
        ah_sha256_update(&all, digest, sizeof digest);
    }
    ah_sha256_finish(&all, digest);
    assert_string_equal(ah_sha256_hex(digest, text),
                        "d5238871a46ac4a1a75ac3fb19d645b0b3b9e5f35f5f720e2b240d605c6b694e");
}

TEST(sha256, pieces_do_not_matter)
{
    uint64_t seed = check_seed(71);
    unsigned char message[1000], digest[AH_SHA256_BYTES];
    char whole[AH_SHA256_HEX_MAX], pieces[AH_SHA256_HEX_MAX];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)check_random(&seed);
    for (int round = 0; round < 500; round++) {
        size_t size = check_random(&seed) % sizeof message, at = 0;
        struct ah_sha256 hash;
        ah_sha256_init(&hash);
        while (at < size) {
            size_t piece = check_random(&seed) % 150;
            piece = piece < size - at ? piece : size - at;
            ah_sha256_update(&hash, message + at, piece);
            at += piece;
        }
        ah_sha256_finish(&hash, digest);
        assert_string_equal(ah_sha256_hex(digest, pieces), hash_of(message, size, whole));
    }
}

/* Both implementations give the same result from any state. */
TEST(sha256, instructions_equal_the_portable_way)
{
    uint64_t seed = check_seed(72);
    for (int round = 0; ah_isa_has_sha256() && round < 2000; round++) {
        unsigned char blocks[5 * AH_SHA256_BLOCK_BYTES];
        uint32_t portable[8], native[8];
        for (size_t i = 0; i < sizeof blocks; i++)
            blocks[i] = (unsigned char)check_random(&seed);
        for (size_t i = 0; i < 8; i++)
            portable[i] = native[i] = (uint32_t)check_random(&seed);
        size_t n = check_random(&seed) % 6;
        ah_sha256_compress_portable(portable, blocks, n);
        ah_sha256_compress_native(native, blocks, n);
        assert_memory_equal(portable, native, sizeof portable);
    }
}

/* Tests the portable implementation alone, as processors without the instructions use it. */
TEST(sha256, portable_way_alone)
{
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    char text[AH_SHA256_HEX_MAX];
    ah_sha256_init(&hash);
    hash.native = false;
    ah_sha256_update(&hash, "abc", 3);
    ah_sha256_finish(&hash, digest);
    assert_string_equal(ah_sha256_hex(digest, text),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
