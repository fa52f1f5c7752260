/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to run an op on host cores: the portable level on the calling thread, then every level with 1 to 4 threads.
 */
#include "runtime/device/math/math.h"
#include "tests/device/device_math/op_case.h"

#include <string.h>

enum { THREADS = 4 };

unsigned op_case_ways(void)
{
    return 1 + (unsigned)ah_isa_detect() + 1;
}

void op_case_run_way(const struct op_case *c, unsigned way, unsigned char *ret_memory)
{
    struct ah_error err = {0};
    const unsigned threads = way ? 1 + (unsigned)op_case_below(c->random, THREADS) : 1;
    struct ah_host host = {.isa = way ? (enum ah_isa)(way - 1) : AH_ISA_PORTABLE,
                           .arenas = {[AH_ARENA_DEVICE] = ret_memory}};
    assert_true(ah_math_does(c->op.kind));
    if (threads > 1)
        CHECK_OK(ah_pool_new(&host.pool, &(struct ah_pool_options){.threads = threads}, &err), err);
    memcpy(ret_memory, c->memory, c->bytes);
    ah_math_run(&host, &c->op);
    ah_pool_free(host.pool);
}
