# SPDX-License-Identifier: Apache-2.0
"""The order of samples in training, from the texts of base/philox.h and runtime/train/data/permutation.h."""

WORD = 0xFFFFFFFF
SHUFFLE = 2  # purpose of a draw


def philox(counter, key):
    """Philox4x32-10 (Salmon and others, 2011)."""
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = (second >> 32 ^ counter[1] ^ key[0], second & WORD, first >> 32 ^ counter[3] ^ key[1], first & WORD)
        key = (key[0] + 0x9E3779B9 & WORD, key[1] + 0xBB67AE85 & WORD)
    return counter


def feistel(seed, epoch, bits, place):
    """Eight rounds on halves of `bits` bits."""
    mask = (1 << bits) - 1
    left, right = place >> bits, place & mask
    for number in range(8):
        counter = (right & WORD, number | SHUFFLE << 8, epoch & WORD, epoch >> 32)  # element: round << 32 | right
        left, right = right, left ^ philox(counter, (seed & WORD, seed >> 32))[0] & mask
    return left << bits | right


def sample_at(seed, n, cursor):
    """Returns the sample at a place of the run: each of the n samples once per epoch."""
    bits = max(1, ((n - 1).bit_length() + 1) // 2)
    epoch, place = divmod(cursor, n)
    while True:
        place = feistel(seed, epoch, bits, place)
        if place < n:
            return place
