/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, stores, and copies in the background. Places are multiples of the size moved at once. In shared memory and
 * parameters they are offsets. Places of global memory are addresses of this program, checked by the address sanitizer.
 *
 * Source: PTX ISA, "ld", "st", "cp.async".
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <string.h>

/* Returns the bytes at a place, ready to be read or written. NULL: the place was wrong, and the block has ended. */
static unsigned char *bytes_at(struct ptx_block *block, const struct ptx_warp *warp,
                               const struct ptx_insn *insn, uint32_t lane, uint64_t place, bool writes)
{
    static const char *const names[] = {"parameters", "shared memory", "global memory"};
    const uint32_t bytes = insn->bytes * insn->elements;
    if (place % bytes) {
        ptx_trap(block, insn, "lane %u is at 0x%llx of %s, no multiple of %u", lane,
                 (unsigned long long)place, names[insn->space], bytes);
        return NULL;
    }
    if (insn->space == PTX_SHARED)
        return ptx_shared_touch(block, warp, insn, lane, place, bytes, writes) ? block->shared + place : NULL;
    if (insn->space == PTX_PARAM &&
        (place > block->parameters_bytes || block->parameters_bytes - place < bytes)) {
        ptx_trap(block, insn, "reads parameters from byte %llu on; there are %llu", (unsigned long long)place,
                 (unsigned long long)block->parameters_bytes);
        return NULL;
    }
    if (insn->space == PTX_PARAM)
        return (unsigned char *)(uintptr_t)block->parameters + place;
    if (place < 4096) {
        ptx_trap(block, insn, "lane %u is at 0x%llx of global memory", lane, (unsigned long long)place);
        return NULL;
    }
    return (unsigned char *)(uintptr_t)place;
}

static void count(struct ptx_block *block, const struct ptx_insn *insn, const uint64_t places[EMULATOR_WARP],
                  uint32_t lanes)
{
    if (insn->space == PTX_SHARED)
        ptx_shared_count(block, places, lanes, insn->bytes * insn->elements);
    if (insn->space == PTX_GLOBAL)
        ptx_global_count(block, places, lanes, insn->bytes * insn->elements);
}

void ptx_load(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    uint64_t places[EMULATOR_WARP] = {0};
    PTX_EACH_LANE(lane, lanes)
    {
        places[lane] = ptx_value(block, warp, &insn->operand[insn->elements], lane);
        const unsigned char *from = bytes_at(block, warp, insn, lane, places[lane], false);
        if (!from)
            return;
        for (uint32_t i = 0; i < insn->elements; i++) {
            uint64_t value = 0;
            memcpy(&value, from + i * insn->bytes, insn->bytes);
            ptx_set(warp, &insn->operand[i], lane, value);
        }
    }
    count(block, insn, places, lanes);
}

void ptx_store(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    uint64_t places[EMULATOR_WARP] = {0};
    PTX_EACH_LANE(lane, lanes)
    {
        places[lane] = ptx_value(block, warp, &insn->operand[0], lane);
        unsigned char *to = bytes_at(block, warp, insn, lane, places[lane], true);
        if (!to)
            return;
        for (uint32_t i = 0; i < insn->elements; i++) {
            const uint64_t value = ptx_value(block, warp, &insn->operand[1 + i], lane);
            memcpy(to + i * insn->bytes, &value, insn->bytes);
        }
    }
    count(block, insn, places, lanes);
}

/* Enqueues a copy. The operands are to, from, room and bytes. */
static void copy(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    uint64_t to[EMULATOR_WARP] = {0}, from[EMULATOR_WARP] = {0};
    uint32_t room = 0, reading = 0;
    PTX_EACH_LANE(lane, lanes)
    {
        to[lane] = ptx_value(block, warp, &insn->operand[0], lane);
        from[lane] = ptx_value(block, warp, &insn->operand[1], lane);
        room = (uint32_t)ptx_value(block, warp, &insn->operand[2], lane);
        const uint32_t bytes = (uint32_t)ptx_value(block, warp, &insn->operand[3], lane);
        if (to[lane] % room || (bytes && from[lane] % room) || bytes > room || warp->n_copies == PTX_COPIES) {
            ptx_trap(
                block, insn,
                "lane %u copies %u of %u bytes from 0x%llx to 0x%llx, not aligned, too many, or one too many",
                lane, bytes, room, (unsigned long long)from[lane], (unsigned long long)to[lane]);
            return;
        }
        if (!ptx_shared_touch(block, warp, insn, lane, to[lane], room, true))
            return;
        memset(block->shared + to[lane], EMULATOR_POISON, room);
        warp->copies[warp->n_copies++] =
            (struct ptx_copy){(uint32_t)to[lane], bytes, room, from[lane], warp->group[lane], lane};
        reading |= (uint32_t)(bytes != 0) << lane;
    }
    ptx_shared_count(block, to, lanes, room);
    ptx_global_count(block, from, reading, room);
}

static void commit(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                   uint32_t lanes)
{
    (void)block;
    (void)insn;
    PTX_EACH_LANE(lane, lanes)
    warp->group[lane]++;
}

static void wait_for(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                     uint32_t lanes)
{
    ptx_copies_make(block, warp, insn, lanes, (uint32_t)insn->operand[0].number);
}

void ptx_copies_make(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                     uint32_t lanes, uint32_t groups)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < warp->n_copies; i++) {
        const struct ptx_copy c = warp->copies[i];
        if (!(lanes >> c.lane & 1) || c.group + groups >= warp->group[c.lane]) {
            warp->copies[left++] = c;
            continue;
        }
        if (!ptx_shared_touch(block, warp, insn, c.lane, c.to, c.room, true))
            return;
        if (c.bytes)
            memcpy(block->shared + c.to, (const void *)(uintptr_t)c.from, c.bytes);
        memset(block->shared + c.to + c.bytes, 0, c.room - c.bytes);
    }
    warp->n_copies = left;
}

static const struct ptx_op rows[] = {
    {"cp.async.cg.shared.global", PTX_ACTS, PTX_MEMORY, NULL, copy, 0, false},
    {"cp.async.ca.shared.global", PTX_ACTS, PTX_MEMORY, NULL, copy, 0, false},
    {"cp.async.commit_group", PTX_ACTS, PTX_EXCHANGE, NULL, commit, 0, false},
    {"cp.async.wait_group", PTX_ACTS, PTX_EXCHANGE, NULL, wait_for, 0, false},
};

const struct ptx_op *ptx_copy_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
