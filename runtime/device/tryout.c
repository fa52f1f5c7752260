/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares a few matrix products and reserves small arenas, so that the device learns what it can report (tryout.h).
 */
#include "runtime/device/tryout.h"

#include <stdio.h>

/* Every operand is a square of SIDE x SIDE elements; operands follow each other in the arena. */
enum { SIDE = 512, PLACE_BYTES = SIDE * SIDE * 4, OPERANDS = 5 };

static const struct {
    uint32_t form, epilogue;
    bool accumulates; /* adds to an fp32 c */
} kinds[] = {
    {AH_MATMUL_NN, AH_EPILOGUE_NONE, false},      {AH_MATMUL_NN, AH_EPILOGUE_BIAS, false},
    {AH_MATMUL_NN, AH_EPILOGUE_BIAS_GELU, false}, {AH_MATMUL_NT, AH_EPILOGUE_NONE, false},
    {AH_MATMUL_TN, AH_EPILOGUE_NONE, false},      {AH_MATMUL_TN, AH_EPILOGUE_NONE, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct ah_ref ref_of_place(unsigned i, enum ah_dtype dtype)
{
    return (struct ah_ref){AH_ARENA_DEVICE, dtype, (uint64_t)i * PLACE_BYTES, 0};
}

static struct ah_op product(size_t kind, enum ah_dtype dtype)
{
    const bool has_bias = kinds[kind].epilogue != AH_EPILOGUE_NONE;
    struct ah_op op = {.kind = AH_OP_MATMUL,
                       .arg = {ref_of_place(0, kinds[kind].accumulates ? AH_FP32 : dtype),
                               ref_of_place(1, dtype), ref_of_place(2, dtype)},
                       .u.matmul = {.form = kinds[kind].form,
                                    .epilogue = kinds[kind].epilogue,
                                    .m = SIDE,
                                    .n = SIDE,
                                    .k = SIDE,
                                    .accumulate = kinds[kind].accumulates}};
    if (has_bias)
        op.arg[3] = ref_of_place(3, dtype);
    if (kinds[kind].epilogue == AH_EPILOGUE_BIAS_GELU)
        op.arg[4] = ref_of_place(4, dtype);
    return op;
}

int ah_device_tryout(struct ah_device *device, struct ah_error *err)
{
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = OPERANDS * PLACE_BYTES,
                                                  [AH_ARENA_PINNED] = PLACE_BYTES,
                                                  [AH_ARENA_PAGEABLE] = 4096};
    struct ah_op ops[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        ops[i] = product(i, device->info.bf16 ? AH_BF16 : AH_FP32);
    int rc = ah_device_prepare(device, ops, KINDS, err);
    return rc ? rc : ah_device_reserve(device, arena_bytes, err);
}

char *ah_device_print_products(const struct ah_device_info *info, char ret_text[AH_TRYOUT_TEXT_MAX])
{
    const struct ah_device_products *products = &info->products;
    if (!products->in_steps)
        snprintf(ret_text, AH_TRYOUT_TEXT_MAX, "%s has all %u matrix products", info->library, products->n);
    else
        snprintf(ret_text, AH_TRYOUT_TEXT_MAX,
                 "%s lacks %u of %u matrix products (first: %s), which run in several slower steps",
                 info->library, products->in_steps, products->n, products->first);
    return ret_text;
}
