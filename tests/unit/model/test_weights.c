/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests saving and loading in pieces. Every element comes once and in order, even if a matrix is larger than a piece.
 * tests/tools/weights_oracle.py tests families, dtypes and damaged files.
 */
#include "runtime/model/weights.h"

#include "base/buffer.h"
#include "base/file.h"
#include "runtime/model/safetensors.h"
#include "runtime/schedule/flat.h"
#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tiny[] = "{\"model_type\":\"qwen2\",\"hidden_size\":24,\"num_hidden_layers\":3,"
                           "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":40,"
                           "\"vocab_size\":50,\"max_position_embeddings\":32}";

static void parse(struct ah_document *ret_document, const char *text)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_parse(ret_document, "config.json", text, strlen(text), AH_DOCUMENT_MODEL, &err),
             err);
}

/* Returns the value of an element. The value is exact in bf16, and differs from its neighbours in rows and columns. */
static float value_at(uint64_t block, uint64_t element)
{
    uint64_t mixed = (element + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ block << 7;
    return (float)(int)(mixed >> 40 & 255) - 128;
}

/* Gives and checks pieces. Each piece must begin where the previous one ended. */
struct walker {
    const struct ah_model *model;
    uint64_t block, element; /* where the next piece must begin, except for padding */
    uint64_t elements;       /* number of elements so far */
    uint64_t fail_at;        /* block at which giving and taking fail; 0: none */
};

static void check_piece(struct walker *walker, const struct ah_weights_piece *piece)
{
    if (piece->block != walker->block) {
        assert_int_equal(piece->block, walker->block + 1);
        walker->block = piece->block;
        walker->element = 0;
    }
    struct ah_flat flat = ah_flat_of(walker->model, ah_model_block_kind(walker->model, piece->block), 0);
    const struct ah_flat_tensor *tensor = &flat.tensors[piece->tensor];
    assert_true(piece->n > 0 && piece->n <= AH_WEIGHTS_PIECE_MAX);
    assert_int_equal(piece->element, tensor->first + piece->first);
    assert_true(piece->first + piece->n <= tensor->elements);
    assert_true(piece->element == walker->element || piece->element == (walker->element + 127) / 128 * 128);
    walker->element = piece->element + piece->n;
    walker->elements += piece->n;
}

static int give(void *context, const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    struct walker *walker = context;
    check_piece(walker, piece);
    for (uint64_t i = 0; i < piece->n; i++)
        ret_values[i] = value_at(piece->block, piece->element + i);
    return walker->fail_at && piece->block == walker->fail_at
               ? ah_error_set(err, AH_E_CAPACITY, "no room for block %d", (int)piece->block)
               : AH_OK;
}

static int take(void *context, const struct ah_weights_piece *piece, const float *values,
                struct ah_error *err)
{
    struct walker *walker = context;
    check_piece(walker, piece);
    for (uint64_t i = 0; i < piece->n; i++)
        if (memcmp(&values[i], &(float){value_at(piece->block, piece->element + i)}, sizeof *values) != 0)
            fail_msg("block %d, element %d: %g", (int)piece->block, (int)(piece->element + i),
                     (double)values[i]);
    return walker->fail_at && piece->block == walker->fail_at
               ? ah_error_set(err, AH_E_CAPACITY, "no room for block %d", (int)piece->block)
               : AH_OK;
}

static void save(const struct ah_model *model, const struct ah_weights_options *options, const char *folder)
{
    struct walker walker = {.model = model};
    struct ah_error err = {0};
    CHECK_OK(ah_weights_save(model, &(struct ah_weights_source){give, &walker}, options, folder, &err), err);
    assert_int_equal(walker.elements, ah_model_parameters(model));
}

static void load(const struct ah_model *model, const char *folder)
{
    struct walker walker = {.model = model};
    struct ah_error err = {0};
    CHECK_OK(
        ah_weights_load(model, folder, &(struct ah_weights_sink){.take = take, .context = &walker}, &err),
        err);
    assert_int_equal(walker.elements, ah_model_parameters(model));
}

static unsigned files_in(const char *folder)
{
    unsigned n = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    while (readdir(listing))
        n++;
    closedir(listing);
    return n - 2;
}

TEST_IN(weights, come_back_in_pieces, root_make, root_remove)
{
    struct ah_document document;
    parse(&document, tiny);
    save(document.body.model, &(struct ah_weights_options){.dtype = AH_BF16}, *state);
    load(document.body.model, *state);
    assert_int_equal(files_in(*state), 1);
    ah_document_release(&document);
}

/* Tests transposed matrices spanning several bands and pieces, and rows longer than a piece. */
TEST_IN(weights, come_back_from_large_matrices, root_make, root_remove)
{
    static const char wide[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":3,\"n_layer\":1,\"n_head\":1,\"n_positions\":2,"
        "\"vocab_size\":5,\"n_inner\":1200007}";
    static const char large[] = "{\"model_type\":\"gpt2\",\"n_embd\":700,\"n_layer\":1,\"n_head\":1,"
                                "\"n_positions\":2,\"vocab_size\":5,\"n_inner\":8}";
    static const char rows[] = "{\"model_type\":\"llama\",\"hidden_size\":2,\"num_hidden_layers\":1,"
                               "\"num_attention_heads\":1,\"intermediate_size\":1100003,\"vocab_size\":5,"
                               "\"max_position_embeddings\":2}";
    static const char *const texts[] = {wide, large, rows};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ah_document document;
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s/%d", (char *)*state, (int)i);
        root_put(folder, "note", ""); /* makes the folder */
        parse(&document, texts[i]);
        save(document.body.model, &(struct ah_weights_options){.dtype = AH_FP32}, folder);
        load(document.body.model, folder);
        ah_document_release(&document);
    }
}

/* Reads the file's bytes, because loading could repeat a mistake. Its row c, column r is our row r, column c. */
TEST_IN(weights, are_transposed_in_files_of_gpt2, root_make, root_remove)
{
    static const char text[] = "{\"model_type\":\"gpt2\",\"n_embd\":700,\"n_layer\":1,\"n_head\":1,"
                               "\"n_positions\":2,\"vocab_size\":5,\"n_inner\":8}";
    struct ah_document document;
    struct ah_safetensors files;
    struct ah_error err = {0};
    parse(&document, text);
    save(document.body.model, &(struct ah_weights_options){.dtype = AH_FP32}, *state);
    CHECK_OK(ah_safetensors_open(&files, *state, &err), err);
    const struct ah_safetensors_tensor *qkv =
        ah_safetensors_find(&files, "transformer.h.0.attn.c_attn.weight");
    struct ah_flat flat = ah_flat_of(document.body.model, AH_BLOCK_LAYER, 0);
    uint64_t first = flat.tensors[ah_flat_find(&flat, "attention.qkv.weight")].first, random = check_seed(5);
    assert_int_equal(qkv->shape[0], 700);
    assert_int_equal(qkv->shape[1], 2100);
    for (int i = 0; i < 2000; i++) {
        uint64_t r = check_random(&random) % 2100, c = check_random(&random) % 700;
        float value;
        CHECK_OK(ah_safetensors_read(&files, qkv, c * 2100 + r, 1, &value, &err), err);
        assert_memory_equal(&value, &(float){value_at(1, first + r * 700 + c)}, 4);
    }
    ah_safetensors_release(&files);
    ah_document_release(&document);
}

TEST_IN(weights, are_cut_into_files, root_make, root_remove)
{
    struct ah_document document;
    struct ah_safetensors files;
    struct ah_error err = {0};
    parse(&document, tiny);
    save(document.body.model,
         &(struct ah_weights_options){.dtype = AH_BF16, .shard_bytes = 3000, .config = tiny}, *state);
    load(document.body.model, *state);
    CHECK_OK(ah_safetensors_open(&files, *state, &err), err);
    assert_true(files.n_files > 5);
    assert_int_equal(files_in(*state), files.n_files + 2);
    uint64_t bytes[64] = {0}, total = 0;
    for (size_t i = 0; i < files.n_tensors; i++) {
        bytes[files.tensors[i].file] += files.tensors[i].bytes;
        total += files.tensors[i].bytes;
    }
    for (size_t i = 0; i < files.n_files; i++)
        assert_in_range(bytes[i], 1, 3000);
    assert_int_equal(total, 2 * ah_model_parameters(document.body.model));
    check_text_has(files.files[0].path, "/model-00001-of-000");
    ah_safetensors_release(&files);
    char path[PATH_MAX];
    struct ah_buffer text = {0};
    snprintf(path, sizeof path, "%s/config.json", (char *)*state);
    CHECK_OK(ah_file_read(path, 10000, &text, &err), err);
    assert_string_equal(text.data, tiny);
    ah_buffer_release(&text);
    ah_document_release(&document);
}

/* A tensor larger than the limit gets a file of its own. */
TEST_IN(weights, have_a_file_each_where_they_are_large, root_make, root_remove)
{
    struct ah_document document;
    struct ah_safetensors files;
    struct ah_error err = {0};
    parse(&document, tiny);
    save(document.body.model, &(struct ah_weights_options){.dtype = AH_FP32, .shard_bytes = 1}, *state);
    load(document.body.model, *state);
    CHECK_OK(ah_safetensors_open(&files, *state, &err), err);
    assert_int_equal(files.n_files, files.n_tensors);
    ah_safetensors_release(&files);
    ah_document_release(&document);
}

TEST_IN(weights, are_not_saved_over_others, root_make, root_remove)
{
    static const char *const names[] = {"model.safetensors", "config.json", "model.safetensors.index.json"};
    struct ah_document document;
    struct ah_error err = {0};
    struct walker walker = {0};
    parse(&document, tiny);
    walker.model = document.body.model;
    for (size_t i = 0; i < 3; i++) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s/%d", (char *)*state, (int)i);
        root_put(folder, names[i], "mine");
        CHECK_FAILS(ah_weights_save(walker.model, &(struct ah_weights_source){give, &walker},
                                    &(struct ah_weights_options){0}, folder, &err),
                    err, AH_E_IO, "exists already; name a folder without weights");
        check_text_has(err.text, names[i]);
        assert_int_equal(walker.elements, 0);
        assert_int_equal(files_in(folder), 1);
    }
    CHECK_FAILS(ah_weights_save(walker.model, &(struct ah_weights_source){give, &walker},
                                &(struct ah_weights_options){0}, "/no/such/folder", &err),
                err, AH_E_IO, "/no/such/folder/model.safetensors: cannot be written: No such file");
    ah_document_release(&document);
}

TEST_IN(weights, hand_failures_on, root_make, root_remove)
{
    struct ah_document document;
    struct ah_error err = {0};
    parse(&document, tiny);
    struct walker walker = {.model = document.body.model, .fail_at = 2};
    CHECK_FAILS(ah_weights_save(walker.model, &(struct ah_weights_source){give, &walker},
                                &(struct ah_weights_options){0}, *state, &err),
                err, AH_E_CAPACITY, "no room for block 2");
    assert_int_equal(files_in(*state), 0);
    save(document.body.model, &(struct ah_weights_options){0}, *state);
    walker = (struct walker){.model = document.body.model, .fail_at = 2};
    CHECK_FAILS(ah_weights_load(walker.model, *state,
                                &(struct ah_weights_sink){.take = take, .context = &walker}, &err),
                err, AH_E_CAPACITY, "no room for block 2");
    ah_document_release(&document);
}
