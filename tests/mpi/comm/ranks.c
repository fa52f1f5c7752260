/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank under mpirun: a ring over the MPI plugin, in both directions at once, with one buffer for each channel.
 *
 *     mpirun -n 3 ranks ring      // messages of many sizes; rank 0 says "ring: ok"
 *     mpirun -n 4 ranks forever   // the same, endless; each rank prints its process: "rank 1 is process 4711"
 *     mpirun -n 3 ranks revoke    // rank 1 loses the world; each rank says why on stderr
 *     mpirun -n 3 ranks sizes     // rank 0 sends 16 bytes, but rank 1 waits for 24
 *     mpirun -n 3 ranks late 2    // rank 1 sets up no channels; the others name it after 2 s
 *     mpirun -n 2 ranks ring 2 : -n 1 sleep 600      // one process is no rank: after 2 s all end
 */
#include "runtime/comm/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 200, MOST = 1 << 20 };

static unsigned char byte_of(uint32_t rank, unsigned round, uint64_t at)
{
    return (unsigned char)(rank * 31 + round * 7 + at);
}

static int ring(struct ah_comm *comm, bool ends, unsigned char *out, unsigned char *in, struct ah_error *err)
{
    const uint32_t rank = ah_comm_rank(comm), before = (rank + ah_comm_ranks(comm) - 1) % ah_comm_ranks(comm);
    for (unsigned round = 0; round < ROUNDS || !ends; round++) {
        const uint64_t bytes = round % 20 == 0 ? MOST : round % 3 * 1000;
        for (uint64_t i = 0; i < bytes; i++)
            out[i] = byte_of(rank, round, i);
        const struct ah_comm_moved moved[] = {{0, out, bytes}, {1, in, bytes}};
        int rc = ah_comm_move_together(comm, moved, 2, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < bytes; i++)
            if (in[i] != byte_of(before, round, i))
                return ah_error_set(err, AH_E_FAILED, "round %u: byte %llu is wrong", round,
                                    (unsigned long long)i);
    }
    return AH_OK;
}

static int lose(struct ah_comm *comm, const char *what, unsigned char *out, unsigned char *in,
                struct ah_error *err)
{
    const uint32_t rank = ah_comm_rank(comm);
    if (strcmp(what, "revoke") == 0 && rank == 1) {
        struct ah_error why = {0};
        (void)ah_error_set(&why, AH_E_NUMERIC, "its loss is not finite");
        ah_comm_revoke(comm, &why);
    }
    if (strcmp(what, "sizes") == 0 && rank == 0)
        return ah_comm_move(comm, 0, out, 16, err);
    return ah_comm_move(comm, 1, in, 24, err);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "ring";
    struct ah_comm_options options = {.ranks = 0};
    struct ah_comm *comm = NULL;
    struct ah_error err = {0};
    if (argc > 2)
        options.deadline_s = atof(argv[2]);
    unsigned char *out = calloc(MOST, 1), *in = calloc(MOST, 1);
    int rc = ah_comm_load("mpi", &options.driver, &err);
    rc = rc ? rc : ah_comm_open(&comm, &options, &err);
    if (!rc && strcmp(what, "late") == 0 && ah_comm_rank(comm) == 1)
        sleep(600);
    if (!rc) {
        const uint32_t rank = ah_comm_rank(comm), ranks = ah_comm_ranks(comm);
        const struct ah_comm_channel channels[] = {{(rank + 1) % ranks, 7, true, MOST},
                                                   {(rank + ranks - 1) % ranks, 7, false, MOST}};
        rc = ah_comm_channels(comm, channels, 2, &err);
    }
    const bool ends = strcmp(what, "forever") != 0;
    if (!rc && !ends) {
        printf("rank %u is process %ld\n", ah_comm_rank(comm), (long)getpid());
        fflush(stdout);
    }
    if (!rc)
        rc = !ends || strcmp(what, "ring") == 0 ? ring(comm, ends, out, in, &err)
                                                : lose(comm, what, out, in, &err);
    if (rc)
        fprintf(stderr, "%u: %s\n", comm ? ah_comm_rank(comm) : 0, err.text);
    else if (ah_comm_rank(comm) == 0)
        printf("%s: ok\n", what);
    ah_comm_close(comm);
    free(out);
    free(in);
    return rc ? 1 : 0;
}
