/* SPDX-License-Identifier: Apache-2.0
 *
 * For weights_oracle.py:
 *
 *     weights_round_trip FOLDER FLAT [OUT DTYPE SHARD_BYTES]
 *     weights_round_trip FOLDER FLAT SEED
 *
 * loads a folder's weights and config.json, writes the flat vectors of all blocks as fp32 to the file FLAT, and saves
 * them to the folder OUT. With a seed, the weights are initial ones, and nothing is saved. A refusal is one sentence
 * and exit status 1.
 */
#include "runtime/model/config.h"
#include "runtime/model/initial.h"
#include "runtime/model/weights.h"
#include "runtime/schedule/flat.h"
#include "schemas/document.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vectors {
    const struct ah_model *model;
    float *values; /* owned; all blocks */
    uint64_t n;
};

static uint64_t begin_of(const struct ah_model *model, uint64_t block)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < block; i++)
        n += ah_flat_of(model, ah_model_block_kind(model, i), 0).elements;
    return n;
}

static float *place_of(const struct vectors *vectors, const struct ah_weights_piece *piece)
{
    return vectors->values + begin_of(vectors->model, piece->block) + piece->element;
}

static int take(void *context, const struct ah_weights_piece *piece, const float *values,
                struct ah_error *err)
{
    (void)err;
    memcpy(place_of(context, piece), values, piece->n * sizeof *values);
    return AH_OK;
}

static int give(void *context, const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    (void)err;
    memcpy(ret_values, place_of(context, piece), piece->n * sizeof *ret_values);
    return AH_OK;
}

static int save(struct vectors *vectors, const char *config_path, char **arguments, struct ah_error *err)
{
    struct ah_buffer config = {0};
    struct ah_weights_options options = {.dtype = strcmp(arguments[1], "bf16") == 0 ? AH_BF16 : AH_FP32,
                                         .shard_bytes = strtoull(arguments[2], NULL, 10)};
    int rc = ah_config_adopt(vectors->model, config_path, options.dtype, &config, err);
    options.config = config.data;
    if (!rc)
        rc = ah_weights_save(vectors->model, &(struct ah_weights_source){give, vectors}, &options,
                             arguments[0], err);
    ah_buffer_release(&config);
    return rc;
}

static int write_flat(const struct vectors *vectors, const char *path, struct ah_error *err)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return ah_error_set(err, AH_E_IO, "%s: cannot be written", path);
    size_t put = fwrite(vectors->values, sizeof(float), vectors->n, file);
    return fclose(file) || put != vectors->n ? ah_error_set(err, AH_E_IO, "%s: is not whole", path) : AH_OK;
}

static int run(int argc, char **argv, struct ah_error *err)
{
    struct ah_document document = {0};
    struct vectors vectors = {0};
    char config[PATH_MAX];
    snprintf(config, sizeof config, "%s/config.json", argv[1]);
    int rc = ah_document_load(&document, config, AH_DOCUMENT_MODEL, err);
    if (!rc) {
        vectors.model = document.body.model;
        vectors.n = begin_of(vectors.model, ah_model_blocks(vectors.model));
        vectors.values = calloc(vectors.n, sizeof(float));
        rc = vectors.values ? AH_OK : ah_error_memory(err);
    }
    const struct ah_weights_sink sink = {.take = take, .context = &vectors};
    if (!rc)
        rc = argc == 4 ? ah_initial_load(vectors.model, strtoull(argv[3], NULL, 10), NULL, &sink, err)
                       : ah_weights_load(vectors.model, argv[1], &sink, err);
    if (!rc)
        rc = write_flat(&vectors, argv[2], err);
    if (!rc && argc == 6)
        rc = save(&vectors, config, argv + 3, err);
    free(vectors.values);
    ah_document_release(&document);
    return rc;
}

int main(int argc, char **argv)
{
    struct ah_error err = {0};
    if (argc != 3 && argc != 4 && argc != 6)
        return 2;
    if (!run(argc, argv, &err))
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
