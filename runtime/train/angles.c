/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles. A pair of a head turns with frequency f = theta^(-2 pair / d), where d elements of a head turn. The kinds
 * of rope scale it:
 *
 *   linear     f / factor
 *   llama3     divides the frequencies of long waves and keeps those of short ones. In between it blends, by how often
 *              a wave turns within the model's original positions.
 *   yarn       the same by the pair's number: a ramp from the pair that turns beta_fast times to the one that turns
 *              beta_slow times. Cosines and sines are multiplied by attention_factor.
 *   longrope   f / a factor of each pair, from one list for sequences up to the original positions, and from another
 *              for longer ones. Cosines and sines are multiplied by attention_factor.
 *
 * Source: modeling_rope_utils.py of huggingface/transformers; arXiv:2309.00071 (yarn), arXiv:2402.13753 (longrope).
 */
#include "runtime/train/angles.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* What the frequencies of one table depend on. */
struct turning {
    const struct ah_model_rope *rope;
    uint64_t rotated; /* elements of a head that turn */
    uint64_t seq;
};

static double keep_short_waves(const struct ah_model_rope *rope, double frequency)
{
    double turns = (double)rope->original_positions * frequency / (2 * pi);
    double kept = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    kept = fmin(fmax(kept, 0), 1);
    return kept * frequency + (1 - kept) * frequency / rope->factor;
}

/* Returns the pair, with a fraction, that turns `turns` times within the original positions. */
static double pair_of(const struct turning *turning, double turns)
{
    const struct ah_model_rope *rope = turning->rope;
    return (double)turning->rotated * log((double)rope->original_positions / (turns * 2 * pi)) /
           (2 * log(rope->theta));
}

static double ramp(const struct turning *turning, double frequency, uint64_t pair)
{
    const struct ah_model_rope *rope = turning->rope;
    double low = pair_of(turning, rope->beta_fast), high = pair_of(turning, rope->beta_slow);
    if (!rope->untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)turning->rotated - 1);
    if (!(high > low || high < low))
        high += 0.001; /* no division by zero */
    const double scaled = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return scaled * frequency / rope->factor + (1 - scaled) * frequency;
}

static double frequency_of(const struct turning *turning, uint64_t pair)
{
    const struct ah_model_rope *rope = turning->rope;
    const double frequency = pow(rope->theta, -2.0 * (double)pair / (double)turning->rotated);
    switch (rope->kind) {
    case AH_ROPE_LINEAR:
        return frequency / rope->factor;
    case AH_ROPE_LLAMA3:
        return keep_short_waves(rope, frequency);
    case AH_ROPE_YARN:
        return ramp(turning, frequency, pair);
    case AH_ROPE_LONGROPE:
        return frequency /
               (turning->seq > rope->original_positions ? rope->long_factors : rope->short_factors)[pair];
    case AH_ROPE_DEFAULT:
        break;
    }
    return frequency;
}

uint64_t ah_angles_rows(const struct ah_model *model, uint64_t seq)
{
    return model->position != AH_POSITION_ROPE ? 0 : model->window_rope ? 2 * seq : seq;
}

void ah_angles_fill(const struct ah_model *model, uint64_t seq, uint64_t first, uint64_t rows,
                    float *ret_table)
{
    const uint64_t pairs = model->head_dim / 2, rotated = ah_model_rotated(model);
    const struct ah_model_rope *ropes[] = {model->rope,
                                           model->window_rope ? model->window_rope : model->rope};
    memset(ret_table, 0, rows * pairs * 2 * sizeof *ret_table);
    for (uint64_t pair = 0; pair < rotated / 2; pair++) {
        double frequency[2], factor[2];
        for (size_t i = 0; i < 2; i++) {
            frequency[i] = frequency_of(&(struct turning){ropes[i], rotated, seq}, pair);
            factor[i] = ropes[i]->attention_factor > 0 ? ropes[i]->attention_factor : 1;
        }
        for (uint64_t row = 0; row < rows; row++) {
            const size_t table = (first + row) / seq;
            const double angle = (double)((first + row) % seq) * frequency[table];
            ret_table[(row * pairs + pair) * 2] = (float)(factor[table] * cos(angle));
            ret_table[(row * pairs + pair) * 2 + 1] = (float)(factor[table] * sin(angle));
        }
    }
}
