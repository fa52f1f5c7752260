/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the PTX machine: instructions as read from a file, and a running block.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_PTX_INTERNAL_H
#define AH_TESTS_DOUBLE_CUDA_PTX_INTERNAL_H

#include "tests/double/cuda/ptx/ptx.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { PTX_OPERANDS = 16, PTX_LINE_MAX = 256 };
#define PTX_NO_REGISTER UINT32_MAX
#define PTX_ALL_LANES   0xffffffffu

/* ---- instructions ---- */

enum ptx_operand_kind { PTX_REGISTER, PTX_NUMBER, PTX_SPECIAL, PTX_PLACE };

enum ptx_special {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_SPECIALS
};

struct ptx_operand {
    enum ptx_operand_kind kind;
    uint32_t reg; /* base of a place; PTX_NO_REGISTER: none */
    uint64_t
        number; /* constant: its value; special register: an enum ptx_special; place: the offset from its base */
};

/* Registers hold up to 64 bits; narrower values have zeros above. Predicates are 0 or 1. */
typedef uint64_t ptx_scalar_fn(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

static inline float ptx_f32(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* Returns the bits of a value. A NaN becomes 0x7fffffff, as on hardware. */
static inline uint64_t ptx_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7fffffffu : bits;
}

struct ptx_block;
struct ptx_warp;
struct ptx_insn;
typedef void ptx_act_fn(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                        uint32_t lanes);

enum ptx_way {
    PTX_ALONE,    /* ->scalar, on every lane */
    PTX_ACTS,     /* ->act, on the lanes that are here */
    PTX_TOGETHER, /* ->act, when all lanes of its mask (the last operand) are here; without a mask, all lanes */
    PTX_BRANCHES,
    PTX_RETURNS,
    PTX_BARRIER
};

/* How instructions are counted. */
enum ptx_sort {
    PTX_ARITHMETIC,
    PTX_SPECIAL_UNIT,
    PTX_CONTROL,
    PTX_MEMORY,
    PTX_EXCHANGE,
    PTX_MATRIX,
    PTX_SORTS
};

enum ptx_space { PTX_PARAM, PTX_SHARED, PTX_GLOBAL };

struct ptx_op {
    const char *name;
    enum ptx_way way;
    enum ptx_sort sort;
    ptx_scalar_fn *scalar;
    ptx_act_fn *act;
    uint32_t results; /* number of leading operands that are written */
    bool whole;       /* PTX_TOGETHER: the whole warp must be at one instruction */
};

struct ptx_insn {
    struct ptx_op op;
    struct ptx_operand operand[PTX_OPERANDS];
    uint32_t n;
    uint32_t guard; /* register of a predicate; PTX_NO_REGISTER: none */
    bool guard_not;
    bool joins; /* true: a label is here */
    uint32_t target;
    uint32_t line;
    enum ptx_space space; /* like the next two, for loads and stores */
    uint32_t bytes;       /* of an element */
    uint32_t elements;
};

/* ---- kernels ---- */

struct ptx_counts {
    atomic_ullong launches, warps;
    atomic_ullong insns[PTX_SORTS];
    atomic_ullong shared_turns, shared_least;   /* 128 bytes each */
    atomic_ullong global_sectors, global_least; /* 32 bytes each */
};

struct ptx_kernel {
    char *name;
    struct ptx_insn *insns;
    uint32_t n;
    uint32_t registers;
    uint64_t parameters_bytes;
    uint32_t shared_bytes; /* static memory; dynamic memory follows */
    uint32_t threads_max;  /* largest number of threads of a block; 0: any */
    struct ptx_counts *counts;
};

/* ptx_decode.c: sets op, space, bytes and elements from the name. Returns false if the name is unknown. */
bool ptx_decode(struct ptx_insn *insn, const char *name);

/* ptx_scalar.c: ptx_scalar_find() returns the instruction of that name, or NULL if a lane does not do it alone.
 * Comparisons are found by relation and type. */
const struct ptx_op *ptx_scalar_find(const char *name);
ptx_scalar_fn *ptx_compare_find(const char *relation, const char *type);

/* ptx_warp.c */
const struct ptx_op *ptx_warp_find(const char *name);
/* ptx_memory.c */
const struct ptx_op *ptx_copy_find(const char *name);
ptx_act_fn ptx_load, ptx_store;

/* ptx_parse.c: appends the entries of a text. If false, `ret_report` says what is wrong. */
struct ptx_library {
    struct ptx_kernel **kernels;
    size_t n, room;
};
bool ptx_parse(struct ptx_library *library, const char *file, const char *text, char *ret_report);

/* ---- a block that runs ---- */

struct ptx_copy {
    uint32_t to;
    uint32_t bytes, room; /* the room beyond `bytes` becomes zero */
    uint64_t from;
    uint32_t group;
    uint32_t lane;
};

enum { PTX_COPIES = 96 * EMULATOR_WARP };

struct ptx_warp {
    uint64_t (*reg)[EMULATOR_WARP]; /* by register and lane */
    uint32_t number;
    uint32_t alive;      /* lanes that have not returned */
    uint32_t waiting;    /* with lanes of the warp */
    uint32_t at_barrier; /* of the block */
    uint32_t at[EMULATOR_WARP];
    uint32_t meetings;             /* number of times that its lanes met at bar.warp.sync */
    uint32_t group[EMULATOR_WARP]; /* the open group of copies */
    struct ptx_copy *copies;
    uint32_t n_copies;
};

/* The last accesses to two bytes of shared memory. Threads have numbers from 1. */
struct ptx_touch {
    uint64_t written, read; /* epochs */
    uint32_t writer, reader;
    uint32_t write_meeting, read_meeting; /* how often the writer's and the reader's warp had met by then */
};

#define PTX_MANY_READERS UINT32_MAX /* threads of several warps read the bytes */

struct ptx_block {
    const struct ptx_kernel *kernel;
    const unsigned char *parameters;
    uint64_t parameters_bytes;
    uint32_t special[PTX_SPECIALS]; /* the block's special registers */
    unsigned char *shared;
    uint32_t shared_bytes;
    struct ptx_touch *touches; /* one for each two bytes */
    uint64_t epoch;            /* number of barriers passed, in all blocks that ran here */
    struct ptx_warp *warps;
    uint32_t n_warps, threads;
    char why[EMULATOR_REPORT_MAX / 2]; /* why the block ended; "": it did not */
    struct ptx_tally {
        uint64_t insns[PTX_SORTS];
        uint64_t shared_turns, shared_least, global_sectors, global_least;
    } tally;
};

/* ptx_machine.c: ends the block at an instruction. Only the first sentence is kept. */
__attribute__((format(printf, 3, 4))) void ptx_trap(struct ptx_block *block, const struct ptx_insn *insn,
                                                    const char *format, ...);
/* Returns an operand's value in a lane. */
uint64_t ptx_value(const struct ptx_block *block, const struct ptx_warp *warp,
                   const struct ptx_operand *operand, uint32_t lane);

static inline void ptx_set(struct ptx_warp *warp, const struct ptx_operand *operand, uint32_t lane,
                           uint64_t value)
{
    warp->reg[operand->reg][lane] = value;
}

#define PTX_EACH_LANE(lane, lanes)                                                                           \
    for (uint32_t left_ = (lanes), lane = 0; left_ && (lane = (uint32_t)__builtin_ctz(left_), 1);            \
         left_ &= left_ - 1)

/* ptx_shared.c: notes that a thread reads or writes bytes of shared memory. Returns false if this ended the block. */
bool ptx_shared_touch(struct ptx_block *block, const struct ptx_warp *warp, const struct ptx_insn *insn,
                      uint32_t lane, uint64_t place, uint32_t bytes, bool writes);
/* Counts the turns of an access to `bytes` bytes at each of `places`, one place per lane. */
void ptx_shared_count(struct ptx_block *block, const uint64_t places[EMULATOR_WARP], uint32_t lanes,
                      uint32_t bytes);
void ptx_global_count(struct ptx_block *block, const uint64_t places[EMULATOR_WARP], uint32_t lanes,
                      uint32_t bytes);

/* ptx_memory.c: makes the copies for which a lane waits: all except those of its latest `groups` groups. */
void ptx_copies_make(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                     uint32_t lanes, uint32_t groups);

#endif
