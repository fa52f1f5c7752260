/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles: default, linear (divides all frequencies), and llama3. llama3 divides the frequencies of long waves and keeps
 * those of short ones. In between it blends, by how often a wave turns within the model's original positions.
 */
#include "runtime/train/angles.h"

#include <math.h>

static double frequency_of(const struct ah_model *model, uint64_t pair)
{
    const double pi = 3.14159265358979323846;
    const struct ah_model_rope *rope = model->rope;
    double frequency = pow(rope->theta, -2.0 * (double)pair / (double)model->head_dim);
    if (rope->kind == AH_ROPE_DEFAULT)
        return frequency;
    if (rope->kind == AH_ROPE_LINEAR)
        return frequency / rope->factor;
    double turns = (double)rope->original_positions * frequency / (2 * pi);
    double kept = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    kept = fmin(fmax(kept, 0), 1);
    return kept * frequency + (1 - kept) * frequency / rope->factor;
}

void ah_angles_fill(const struct ah_model *model, uint64_t first, uint64_t rows, float *ret_table)
{
    uint64_t pairs = model->head_dim / 2;
    for (uint64_t pair = 0; pair < pairs; pair++) {
        double frequency = frequency_of(model, pair);
        for (uint64_t row = 0; row < rows; row++) {
            double angle = (double)(first + row) * frequency;
            ret_table[(row * pairs + pair) * 2] = (float)cos(angle);
            ret_table[(row * pairs + pair) * 2 + 1] = (float)sin(angle);
        }
    }
}
