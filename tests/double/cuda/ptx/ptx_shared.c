/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks which threads touched shared memory, and counts how well accesses are laid out.
 *
 * ORDER. If two threads touch the same bytes and one of them writes, a barrier of the block must be in between. If the
 * threads are lanes of one warp, a meeting of the warp (bar.warp.sync) is enough. Epochs are separated by barriers. For
 * each two bytes we keep the last writer and the last reader, with their epochs and the meetings of their warps. If
 * readers are in several warps, we only keep that fact, so a later writer needs a barrier.
 *
 * TURNS. Shared memory gives 128 bytes a turn, 4 from each of 32 banks, and several lanes can read one word. Accesses
 * of 8 bytes serve half a warp at a time, and accesses of 16 bytes a quarter. Global memory comes in sectors of 32
 * bytes. The least possible number of turns or sectors is that of equally many bytes in one piece.
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

enum { GRAIN = 2, BANKS = 32, WORD = 4, TURN = BANKS * WORD, SECTOR = 32 };

/* ---- order ---- */

static uint32_t thread_of(const struct ptx_warp *warp, uint32_t lane)
{
    return warp->number * EMULATOR_WARP + lane + 1;
}

static bool is_of(const struct ptx_warp *warp, uint32_t thread)
{
    return (thread - 1) / EMULATOR_WARP == warp->number;
}

/* True if a barrier or meeting separates an earlier access by `thread` from the current access by this warp. */
static bool is_past(const struct ptx_block *block, const struct ptx_warp *warp, uint64_t epoch,
                    uint32_t thread, uint32_t meeting)
{
    if (epoch != block->epoch)
        return true;
    return thread != PTX_MANY_READERS && is_of(warp, thread) && meeting != warp->meetings;
}

static bool refuse(struct ptx_block *block, const struct ptx_insn *insn, uint32_t self, uint32_t other,
                   uint64_t place, const char *does, const char *did)
{
    if (other == PTX_MANY_READERS)
        ptx_trap(
            block, insn,
            "thread %u %s shared memory at %llu, which threads of other warps %s, with no barrier between",
            self - 1, does, (unsigned long long)place, did);
    else
        ptx_trap(block, insn,
                 "thread %u %s shared memory at %llu, which thread %u %s, with no barrier between", self - 1,
                 does, (unsigned long long)place, other - 1, did);
    return false;
}

static void note_reader(const struct ptx_block *block, const struct ptx_warp *warp, struct ptx_touch *touch,
                        uint32_t self)
{
    const bool is_first = touch->read != block->epoch;
    const bool others = !is_first && (touch->reader == PTX_MANY_READERS || !is_of(warp, touch->reader));
    touch->read = block->epoch;
    touch->reader = others ? PTX_MANY_READERS : self;
    touch->read_meeting = warp->meetings;
}

bool ptx_shared_touch(struct ptx_block *block, const struct ptx_warp *warp, const struct ptx_insn *insn,
                      uint32_t lane, uint64_t place, uint32_t bytes, bool writes)
{
    const uint32_t self = thread_of(warp, lane);
    if (place > block->shared_bytes || block->shared_bytes - place < bytes) {
        ptx_trap(block, insn, "thread %u is at %llu of %u bytes of shared memory", self - 1,
                 (unsigned long long)place, block->shared_bytes);
        return false;
    }
    for (uint64_t at = place; at < place + bytes; at += GRAIN) {
        struct ptx_touch *touch = &block->touches[at / GRAIN];
        if (touch->writer && touch->writer != self &&
            !is_past(block, warp, touch->written, touch->writer, touch->write_meeting))
            return refuse(block, insn, self, touch->writer, at, writes ? "writes" : "reads", "wrote");
        if (!writes) {
            note_reader(block, warp, touch, self);
            continue;
        }
        if (touch->reader && touch->reader != self &&
            !is_past(block, warp, touch->read, touch->reader, touch->read_meeting))
            return refuse(block, insn, self, touch->reader, at, "writes", "read");
        touch->written = block->epoch;
        touch->writer = self;
        touch->write_meeting = warp->meetings;
    }
    return true;
}

/* ---- layout ---- */

static uint64_t most_words_of_a_bank(const uint64_t places[EMULATOR_WARP], uint32_t lanes, uint32_t bytes)
{
    uint64_t words[BANKS][EMULATOR_WARP];
    uint32_t n[BANKS] = {0}, most = 0;
    PTX_EACH_LANE(lane, lanes)
    for (uint64_t word = places[lane] / WORD; word <= (places[lane] + bytes - 1) / WORD; word++) {
        const uint32_t bank = word % BANKS;
        uint32_t i = 0;
        while (i < n[bank] && words[bank][i] != word)
            i++;
        if (i < n[bank])
            continue;
        words[bank][n[bank]++] = word;
        most = n[bank] > most ? n[bank] : most;
    }
    return most;
}

void ptx_shared_count(struct ptx_block *block, const uint64_t places[EMULATOR_WARP], uint32_t lanes,
                      uint32_t bytes)
{
    const uint32_t at_once = bytes > WORD ? TURN / bytes : EMULATOR_WARP;
    for (uint32_t first = 0; first < EMULATOR_WARP; first += at_once) {
        const uint32_t some =
            lanes & (at_once == EMULATOR_WARP ? PTX_ALL_LANES : ((1u << at_once) - 1) << first);
        block->tally.shared_turns += most_words_of_a_bank(places, some, bytes);
        block->tally.shared_least += some != 0;
    }
}

void ptx_global_count(struct ptx_block *block, const uint64_t places[EMULATOR_WARP], uint32_t lanes,
                      uint32_t bytes)
{
    uint64_t sectors[EMULATOR_WARP];
    uint32_t n = 0, active = 0;
    PTX_EACH_LANE(lane, lanes)
    {
        const uint64_t sector = places[lane] / SECTOR;
        uint32_t i = 0;
        while (i < n && sectors[i] != sector)
            i++;
        if (i == n)
            sectors[n++] = sector;
        active++;
    }
    block->tally.global_sectors += n;
    block->tally.global_least += ((uint64_t)active * bytes + SECTOR - 1) / SECTOR;
}
