/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads processor times from /proc/stat (proc(5)): "cpu user nice system idle iowait irq softirq steal guest ...". User
 * and nice include guest times. Ticks are 10 ms, so measurements shorter than half a second are not judged.
 */
#include "profiler/processor_load.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define JUDGED_S    0.5
#define NOISY_STEAL 0.02
#define NOISY_LOAD  0.10

/* A sentence of `noise`, as written and read back by this file. */
#define SENTENCE " meanwhile other processes used %.2f of %u processors, the hypervisor took %.2f"
#define READ_IT  "%*[^:]: meanwhile other processes used %lf of %u processors, the hypervisor took %lf"

#define DISTURBED 0.10 /* fraction of all processors */

bool ah_load_parse(const char *text, double ticks_per_s, struct ah_load *ret_load)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal = 0;
    *ret_load = (struct ah_load){0};
    int fields = sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                        &iowait, &irq, &softirq, &steal);
    if (fields < 7 || !(ticks_per_s > 0))
        return false;
    unsigned long long busy = user + nice + system + irq + softirq;
    ret_load->busy_s = (double)busy / ticks_per_s;
    ret_load->steal_s = (double)steal / ticks_per_s;
    ret_load->total_s = (double)(busy + steal + idle + iowait) / ticks_per_s;
    return true;
}

void ah_load_read(struct ah_load *ret_load)
{
    char text[256] = "";
    int file = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t length = read(file, text, sizeof text - 1);
        text[length > 0 ? length : 0] = '\0';
        close(file);
    }
    ah_load_parse(text, (double)sysconf(_SC_CLK_TCK), ret_load);

    struct timespec own;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) == 0)
        ret_load->own_s = (double)own.tv_sec + (double)own.tv_nsec * 1e-9;
}

/* Converts `seconds` of processor time between two readings to an average number of processors. */
static double processors_of(double seconds, const struct ah_load *before, const struct ah_load *after,
                            unsigned processors)
{
    double passed_s = (after->total_s - before->total_s) / (processors ? processors : 1);
    return passed_s > 0 && seconds > 0 ? seconds / passed_s : 0;
}

double ah_load_stolen(const struct ah_load *before, const struct ah_load *after, unsigned processors)
{
    return processors_of(after->steal_s - before->steal_s, before, after, processors);
}

double ah_load_others(const struct ah_load *before, const struct ah_load *after, unsigned processors)
{
    double others_s = (after->busy_s - before->busy_s) - (after->own_s - before->own_s);
    return processors_of(others_s, before, after, processors);
}

bool ah_load_noise(const struct ah_load *before, const struct ah_load *after, unsigned processors,
                   const char *what, char *ret_text, size_t size)
{
    double passed_s = (after->total_s - before->total_s) / (processors ? processors : 1);
    if (passed_s < JUDGED_S)
        return false;
    double stolen = ah_load_stolen(before, after, processors);
    double others = ah_load_others(before, after, processors);
    if (stolen < NOISY_STEAL && others < NOISY_LOAD)
        return false;
    snprintf(ret_text, size, "%s:" SENTENCE, what, others, processors, stolen);
    return true;
}

bool ah_load_disturbed(const char *const *sentences, size_t n, double *ret_taken, unsigned *ret_processors)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double others, stolen;
        unsigned processors;
        if (sscanf(sentences[i], READ_IT, &others, &processors, &stolen) != 3 || !processors ||
            others + stolen < DISTURBED * processors || others + stolen <= most)
            continue;
        most = *ret_taken = others + stolen;
        *ret_processors = processors;
    }
    return most > 0;
}
