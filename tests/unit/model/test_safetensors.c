/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading files that the test writes byte by byte: valid ones, and ones with every kind of false claim.
 */
#include "runtime/model/safetensors.h"

#include "base/buffer.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DATA_MAX = 4096 };

/* Writes a file with this header and `data_bytes` bytes of data; byte i is 7 i. */
static const char *put_file(const char *root, const char *name, const char *header, size_t data_bytes)
{
    static char path[PATH_MAX];
    uint64_t length = strlen(header);
    unsigned char *file = malloc(8 + length + DATA_MAX);
    assert_true(file && data_bytes <= DATA_MAX);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + length + i] = (unsigned char)(7 * i);
    root_put_bytes(root, name, file, 8 + length + data_bytes);
    free(file);
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void check_refused(const char *root, const char *header, size_t data_bytes, const char *part)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    const char *path = put_file(root, "x.safetensors", header, data_bytes);
    int rc = ah_safetensors_open(&files, path, &err);
    if (rc != AH_E_DOCUMENT)
        fail_msg("%s: returned %d (%s)", header, rc, err.text);
    check_text_has(err.text, part);
    check_text_has(err.text, "x.safetensors: ");
    assert_null(strchr(err.text, '\n'));
    assert_null(files.tensors);
}

#define T(name, dtype, shape, offsets)                                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST_IN(safetensors, reads_what_a_file_says, root_make, root_remove)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    char text[AH_SAFETENSORS_SHAPE_TEXT];
    /* clang-format off */
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"{\"}, "
        T("w", "F32", "[2,3]", "[0,24]") ","
        T("b\\u00e9\\n", "BF16", " [ 3 ] ", "[26 ,32]") ","
        T("none", "F32", "[0,5]", "[32,32]") ","
        T("one", "I8", "[]", "[24,25]") ","
        T("half", "F4", "[2]", "[25,26]") "} ";
    /* clang-format on */
    const char *path = put_file(*state, "x.safetensors", header, 32);
    CHECK_OK(ah_safetensors_open(&files, path, &err), err);
    assert_int_equal(files.n_tensors, 5);
    assert_int_equal(files.n_files, 1);
    assert_string_equal(files.tensors[0].name, "b\xc3\xa9\n");
    const struct ah_safetensors_tensor *w = ah_safetensors_find(&files, "w");
    assert_string_equal(ah_safetensors_shape_text(w->shape, w->n_shape, text), "[2, 3]");
    assert_int_equal(w->elements, 6);
    assert_int_equal(ah_safetensors_find(&files, "none")->elements, 0);
    assert_int_equal(ah_safetensors_find(&files, "one")->elements, 1);
    assert_int_equal(ah_safetensors_find(&files, "half")->bytes, 1);
    assert_null(ah_safetensors_find(&files, "v"));
    ah_safetensors_release(&files);
    ah_safetensors_release(&files);
}

static void digest_of(const char *root, const char *header, size_t data_bytes,
                      char ret_text[AH_SHA256_HEX_MAX])
{
    struct ah_error err = {0};
    CHECK_OK(ah_safetensors_digest(put_file(root, "x.safetensors", header, data_bytes), ret_text, &err), err);
}

/* Byte i of the data is 7 i, so the values depend on where a tensor begins. */
TEST_IN(safetensors, a_digest_tells_weights_apart, root_make, root_remove)
{
    static const char *const others[] = {
        "{" T("a", "F32", "[2]", "[0,8]") "," T("c", "F32", "[1]", "[8,12]") "}",
        "{" T("a", "F32", "[1,2]", "[0,8]") "," T("b", "F32", "[1]", "[8,12]") "}",
        "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "BF16", "[2]", "[8,12]") "}",
        "{" T("b", "F32", "[1]", "[0,4]") "," T("a", "F32", "[2]", "[4,12]") "}",
    };
    char one[AH_SHA256_HEX_MAX], other[AH_SHA256_HEX_MAX];
    struct ah_error err = {0};
    digest_of(*state, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[8,12]") "}", 12, one);
    digest_of(*state,
              "{\"__metadata__\":{\"x\":\"y\"}," T("b", "F32", "[1]", "[8,12]") "," T("a", "F32", "[2]",
                                                                                      "[0,8]") "}",
              12, other);
    assert_string_equal(one, other);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        digest_of(*state, others[i], 12, other);
        assert_string_not_equal(one, other);
    }
    CHECK_FAILS(ah_safetensors_digest("/nothere", other, &err), err, AH_E_IO, "/nothere: cannot be read");
}

TEST_IN(safetensors, refuses_lies_about_places, root_make, root_remove)
{
    const char *root = *state;
    check_refused(root, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12,
                  "'b': its data overlap those of 'a'");
    check_refused(root, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[0,8]") "}", 8,
                  "'b': its data overlap those of 'a'");
    check_refused(root, "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[12,20]") "}", 20,
                  "'b': 4 bytes before its data belong to no tensor");
    check_refused(root, "{" T("a", "F32", "[2]", "[4,12]") "}", 12, "'a': 4 bytes before its data");
    check_refused(root, "{" T("a", "F32", "[2]", "[0,8]") "}", 9, "its last 1 bytes belong to no tensor");
    check_refused(root, "{}", 1, "its last 1 bytes belong to no tensor");
    check_refused(root, "{" T("a", "F32", "[2]", "[0,8]") "}", 7,
                  "'a': its data end at byte 8 of 7; is the file cut?");
    check_refused(root, "{" T("a", "F32", "[2]", "[8,0]") "}", 8, "'a': its data_offsets [8, 0] end before");
    check_refused(root, "{" T("a", "F32", "[2]", "[0,4]") "}", 4,
                  "'a': its data have 4 bytes, but its shape [2] in F32 needs 8");
    check_refused(root, "{" T("a", "F32", "[1]", "[0,8]") "}", 8,
                  "'a': its data have 8 bytes, but its shape [1]");
    check_refused(root, "{" T("a", "F32", "[1]", "[18446744073709551612,18446744073709551615]") "}", 4,
                  "is the file cut");
    check_refused(root, "{" T("a", "F32", "[1]", "[0,18446744073709551616]") "}", 4,
                  "'a': its data_offsets holds something that is not a whole number below 2^64");
}

TEST_IN(safetensors, refuses_lies_about_shapes, root_make, root_remove)
{
    const char *root = *state;
    check_refused(root, "{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0,
                  "'a': its shape has more than 2^64 elements");
    check_refused(root, "{" T("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, "more than 2^64 bits");
    check_refused(root, "{" T("a", "F4", "[3]", "[0,1]") "}", 1, "'a': its elements do not fill whole bytes");
    check_refused(root, "{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "'a': its shape holds something");
    check_refused(root, "{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "'a': its shape holds something");
    check_refused(root, "{" T("a", "F32", "[1e0]", "[0,4]") "}", 4, "'a': its shape holds something");
    check_refused(root, "{" T("a", "F32", "[\"1\"]", "[0,4]") "}", 4, "'a': its shape holds something");
    check_refused(root, "{" T("a", "F32", "1", "[0,4]") "}", 4, "'a': its shape is not a list");
    check_refused(root, "{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
                  "'a': its shape has more than 8 numbers");
    check_refused(root, "{" T("a", "F32", "[1]", "[0]") "}", 4, "'a': its data_offsets are not two numbers");
    check_refused(root, "{" T("a", "F32", "[1]", "[0,4,4]") "}", 4, "'a': its data_offsets has more than 2");
    check_refused(root, "{" T("a", "F33", "[1]", "[0,4]") "}", 4, "'a': the dtype 'F33' is unknown");
    check_refused(root, "{" T("a", "", "[1]", "[0,4]") "}", 4, "'a': the dtype '' is unknown");
}

TEST_IN(safetensors, refuses_headers_that_are_none, root_make, root_remove)
{
    const char *root = *state;
    check_refused(root, "[]", 0, "does not begin with '{'");
    check_refused(root, " {}", 0, "does not begin with '{'");
    check_refused(root, "{\"a\":1}", 0, "'a': is not an object with dtype");
    check_refused(root, "{\"a\":{}}", 0, "'a': has no dtype");
    check_refused(root, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "'a': has no data_offsets");
    check_refused(root, "{\"a\":{\"dtype\":32}}", 4, "'a': its dtype is not text");
    check_refused(root, "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, "'a': has the key 'dtype' twice");
    check_refused(root, "{\"a\":{\"kind\":\"F32\"}}", 4, "'a': has the unknown key 'kind'");
    check_refused(root, "{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8,
                  "'a': appears twice");
    check_refused(root, "{" T("a", "F32", "[1]", "[0,4]") "," T("\\u0061", "F32", "[1]", "[4,8]") "}", 8,
                  "'a': appears twice");
    check_refused(root, "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "has '__metadata__' twice");
    check_refused(root, "{\"__metadata__\":[]}", 0, "'__metadata__' is not an object");
    check_refused(root, "{\"__metadata__\":{\"a\":1}}", 0, "something other than text");
    check_refused(root, "{\"a\":", 0, "header:1:6: the text ends");
    check_refused(root, "{} {}", 0, "header:1:4");
    check_refused(root, "{\"a\":NaN}", 0, "NaN and infinity are not JSON");
    check_refused(root, "{\"a\xff\":1}", 0, "not UTF-8");
    check_refused(root, "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0,
                  "nested deeper than 64");
}

TEST_IN(safetensors, refuses_lengths_that_cannot_be, root_make, root_remove)
{
    static const struct {
        uint64_t length;
        const char *part;
    } cases[] = {
        {UINT64_MAX, "begins with a header of 18446744073709551615 bytes; is it a safetensors file?"},
        {UINT64_C(0x7FF8000000000000), "begins with a header"}, /* a NaN */
        {100000001, "begins with a header of 100000001 bytes"},
        {100000000, "has 10 bytes, but its header alone needs 100000000; is the file cut off?"},
        {3, "has 10 bytes, but its header alone needs 3"},
        {0, "does not begin with '{'"}};
    struct ah_safetensors files;
    struct ah_error err = {0};
    char path[PATH_MAX], file[10] = "........{}";
    snprintf(path, sizeof path, "%s/x", (char *)*state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(file, &cases[i].length, 8);
        root_put_bytes(*state, "x", file, sizeof file);
        CHECK_FAILS(ah_safetensors_open(&files, path, &err), err, AH_E_DOCUMENT, cases[i].part);
    }
    root_put_bytes(*state, "x", file, 9);
    CHECK_FAILS(ah_safetensors_open(&files, path, &err), err, AH_E_DOCUMENT, "has 9 bytes, too few");
}

TEST_IN(safetensors, refuses_what_is_no_file, root_make, root_remove)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    char path[PATH_MAX];
    CHECK_FAILS(ah_safetensors_open(&files, *state, &err), err, AH_E_IO,
                "holds neither 'model.safetensors' nor 'model.safetensors.index.json'");
    snprintf(path, sizeof path, "%s/absent", (char *)*state);
    CHECK_FAILS(ah_safetensors_open(&files, path, &err), err, AH_E_IO,
                "absent: cannot be read: No such file");
    snprintf(path, sizeof path, "%s/pipe", (char *)*state);
    assert_int_equal(mkfifo(path, 0666), 0);
    CHECK_FAILS(ah_safetensors_open(&files, path, &err), err, AH_E_IO, "pipe: is not a regular file");
    snprintf(path, sizeof path, "%s/model.safetensors", (char *)*state);
    assert_int_equal(mkdir(path, 0777), 0);
    CHECK_FAILS(ah_safetensors_open(&files, *state, &err), err, AH_E_IO, "is a folder where a file");
}

/* A name from a file prints as one short line. */
TEST_IN(safetensors, prints_strange_names_plainly, root_make, root_remove)
{
    char header[600];
    int length = snprintf(header, sizeof header, "{\"\\u001b[31m\\n%0300d\":1}", 0);
    assert_in_range(length, 300, sizeof header);
    check_refused(*state, header, 0, "'?[31m?0000");
    check_refused(*state, header, 0, "000...': is not an object");
}

/* Returns the value of an fp16 number by its definition. */
static double half(unsigned bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

TEST_IN(safetensors, reads_every_16_bit_number_exactly, root_make, root_remove)
{
    enum { ALL = 65536 };
    const char header[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[256,256],\"data_offsets\":[131072,262144]},"
                          "\"h\":{\"dtype\":\"F16\",\"shape\":[65536],\"data_offsets\":[0,131072]}}";
    struct ah_safetensors files;
    struct ah_error err = {0};
    char path[PATH_MAX];
    uint64_t length = sizeof header - 1;
    unsigned char *file = malloc(8 + sizeof header + 4 * ALL);
    float *values = malloc(ALL * sizeof *values);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (unsigned i = 0; i < 2 * ALL; i++) {
        uint16_t bits = (uint16_t)i;
        memcpy(file + 8 + length + 2 * i, &bits, 2);
    }
    root_put_bytes(*state, "x", file, 8 + length + 4 * ALL);
    snprintf(path, sizeof path, "%s/x", (char *)*state);
    CHECK_OK(ah_safetensors_open(&files, path, &err), err);
    CHECK_OK(ah_safetensors_read(&files, ah_safetensors_find(&files, "h"), 0, ALL, values, &err), err);
    for (unsigned i = 0; i < ALL; i++) {
        double expected = half(i), got = (double)values[i];
        if (isnan(expected) ? !isnan(got) : memcmp(&expected, &got, sizeof got) != 0)
            fail_msg("half %04x is read as %a, not %a", i, got, expected);
    }
    for (unsigned first = 0; first < ALL; first += 4099) { /* reads in pieces */
        unsigned n = ALL - first < 4099 ? ALL - first : 4099;
        CHECK_OK(
            ah_safetensors_read(&files, ah_safetensors_find(&files, "b"), first, n, values + first, &err),
            err);
    }
    for (unsigned i = 0; i < ALL; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        assert_int_equal(bits, i << 16);
    }
    free(file);
    free(values);
    ah_safetensors_release(&files);
}

TEST_IN(safetensors, reads_only_what_is_there, root_make, root_remove)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    float values[8];
    const char *path =
        put_file(*state, "x.safetensors",
                 "{" T("a", "F32", "[4]", "[0,16]") "," T("i", "I32", "[1]", "[16,20]") "}", 20);
    CHECK_OK(ah_safetensors_open(&files, path, &err), err);
    const struct ah_safetensors_tensor *a = ah_safetensors_find(&files, "a");
    CHECK_OK(ah_safetensors_read(&files, a, 4, 0, values, &err), err);
    CHECK_FAILS(ah_safetensors_read(&files, a, 3, 2, values, &err), err, AH_E_FAILED, "'a': has 4 elements");
    CHECK_FAILS(ah_safetensors_read(&files, a, UINT64_MAX, 2, values, &err), err, AH_E_FAILED, "'a'");
    CHECK_FAILS(ah_safetensors_read(&files, ah_safetensors_find(&files, "i"), 0, 1, values, &err), err,
                AH_E_DOCUMENT, "'i': is I32, but only F32, BF16 and F16 can be read");
    assert_int_equal(truncate(path, 8), 0);
    CHECK_FAILS(ah_safetensors_read(&files, a, 0, 4, values, &err), err, AH_E_IO, "it became shorter");
    ah_safetensors_release(&files);
}

static void put_shards(const char *root)
{
    put_file(root, "one.safetensors", "{" T("a", "F32", "[1]", "[0,4]") "," T("c", "F32", "[1]", "[4,8]") "}",
             8);
    put_file(root, "two.safetensors", "{" T("b", "F32", "[2]", "[0,8]") "}", 8);
}

static void check_index(const char *root, const char *index, int code, const char *part)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    put_shards(root);
    root_put(root, AH_SAFETENSORS_INDEX, index);
    if (code)
        CHECK_FAILS(ah_safetensors_open(&files, root, &err), err, code, part);
    else
        CHECK_OK(ah_safetensors_open(&files, root, &err), err);
    ah_safetensors_release(&files);
}

#define MAP(map) "{\"metadata\":{\"total_size\":16.0},\"weight_map\":{" map "}}"
#define A        "\"a\":\"one.safetensors\""
#define B        "\"b\":\"two.safetensors\""
#define C        "\"c\":\"one.safetensors\""

TEST_IN(safetensors, reads_several_files, root_make, root_remove)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    float value;
    check_index(*state, MAP(B "," A "," C), 0, NULL);
    CHECK_OK(ah_safetensors_open(&files, *state, &err), err);
    assert_int_equal(files.n_files, 2);
    assert_int_equal(files.n_tensors, 3);
    const struct ah_safetensors_tensor *b = ah_safetensors_find(&files, "b");
    check_text_has(files.files[b->file].path, "two.safetensors");
    CHECK_OK(ah_safetensors_read(&files, b, 1, 1, &value, &err), err);
    assert_memory_equal(&value, "\x1c\x23\x2a\x31", 4);
    ah_safetensors_release(&files);
}

TEST_IN(safetensors, refuses_indexes_that_lie, root_make, root_remove)
{
    const char *root = *state;
    check_index(root, MAP(A "," B), AH_E_DOCUMENT, "one.safetensors: 'c': is not in the index");
    check_index(root, MAP(A "," B "," C ",\"d\":\"two.safetensors\""), AH_E_DOCUMENT,
                "'d': is not in the file 'two.safetensors'");
    check_index(root, MAP(A "," B ",\"c\":\"two.safetensors\""), AH_E_DOCUMENT,
                "'c': is not in the file 'two.safetensors' but in 'one.safetensors'");
    check_index(root, MAP(A "," B "," C "," C), AH_E_DOCUMENT, "'c': appears twice");
    check_index(root, MAP(A "," B "," C ",\"d\":\"three.safetensors\""), AH_E_IO,
                "three.safetensors: cannot be read");
    check_index(root, MAP(A ",\"b\":\"../two.safetensors\""), AH_E_DOCUMENT,
                "'b': its file '../two.safetensors' is not in the folder of the index");
    check_index(root, MAP(A ",\"b\":\"\""), AH_E_DOCUMENT, "'b': its file ''");
    check_index(root, MAP(A ",\"b\":2"), AH_E_DOCUMENT, "'b': its file is not text");
    check_index(root, MAP(""), AH_E_DOCUMENT, "has no 'weight_map' with tensors");
    check_index(root, "{}", AH_E_DOCUMENT, "has no 'weight_map'");
    check_index(root, "[]", AH_E_DOCUMENT, "is not an object");
    check_index(root, "{\"weight_map\":[]}", AH_E_DOCUMENT, "'weight_map' is not an object");
    check_index(root, "{\"weight_map\":{" A "},\"weight_map\":{}}", AH_E_DOCUMENT, "'weight_map' twice");
    check_index(root, "{\"weight_map\":", AH_E_DOCUMENT, AH_SAFETENSORS_INDEX ":1:15");
    put_file(root, "two.safetensors", "{" T("a", "F32", "[1]", "[0,4]") "}", 4);
    root_put(root, AH_SAFETENSORS_INDEX, MAP(A "," C ",\"b\":\"two.safetensors\""));
    struct ah_safetensors files;
    struct ah_error err = {0};
    CHECK_FAILS(ah_safetensors_open(&files, root, &err), err, AH_E_DOCUMENT, "'a': is also in '");
}

TEST_IN(safetensors, refuses_too_many_files, root_make, root_remove)
{
    struct ah_buffer index = {0};
    ah_buffer_puts(&index, "{\"weight_map\":{");
    for (int i = 0; i <= AH_SAFETENSORS_FILES_MAX; i++)
        ah_buffer_printf(&index, "%s\"t%d\":\"f%d\"", i ? "," : "", i, i);
    ah_buffer_puts(&index, "}}");
    check_index(*state, index.data, AH_E_DOCUMENT, "names 513 files; at most 512 are allowed");
    ah_buffer_release(&index);
}

/* The single file is preferred, as in transformers. */
TEST_IN(safetensors, prefers_the_single_file, root_make, root_remove)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    check_index(*state, MAP(A "," B "," C), 0, NULL);
    put_file(*state, AH_SAFETENSORS_FILE, "{" T("s", "F32", "[1]", "[0,4]") "}", 4);
    CHECK_OK(ah_safetensors_open(&files, *state, &err), err);
    assert_int_equal(files.n_tensors, 1);
    ah_safetensors_release(&files);
}

static const struct ah_safetensors_spec specs[] = {{"z", 2, {2, 3}}, {"a.b", 1, {3, 0}}, {"none", 2, {0, 4}}};

static void write_all(struct ah_safetensors_writer *writer)
{
    struct ah_error err = {0};
    const float z[] = {1, 2, 3, 4, 5, 6}, a[] = {-1, 0.5f, 1.00390625f /* a tie: to even */};
    CHECK_OK(ah_safetensors_write(writer, 0, 4, z + 4, 2, &err), err);
    CHECK_OK(ah_safetensors_write(writer, 1, 0, a, 3, &err), err);
    CHECK_OK(ah_safetensors_write(writer, 0, 0, z, 4, &err), err);
}

static void check_bytes(const char *path, const char *header, const void *data, size_t size)
{
    unsigned char file[1024];
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    size_t got = fread(file, 1, sizeof file, stream);
    fclose(stream);
    uint64_t length;
    memcpy(&length, file, 8);
    assert_int_equal(length, strlen(header));
    assert_int_equal(length % 8, 0);
    assert_int_equal(got, 8 + length + size);
    assert_memory_equal(file + 8, header, length);
    assert_memory_equal(file + 8 + length, data, size);
}

TEST_IN(safetensors, writes_by_name_whatever_the_order, root_make, root_remove)
{
    struct ah_safetensors_writer writer;
    struct ah_error err = {0};
    char path[PATH_MAX];
    /* clang-format off */
    static const char fp32_header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
        T("a.b", "F32", "[3]", "[0,12]") ","
        T("none", "F32", "[0,4]", "[12,12]") ","
        T("z", "F32", "[2,3]", "[12,36]") "}   ";
    static const char bf16_header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
        T("a.b", "BF16", "[3]", "[0,6]") ","
        T("none", "BF16", "[0,4]", "[6,6]") ","
        T("z", "BF16", "[2,3]", "[6,18]") "}    ";
    /* clang-format on */
    const float fp32[] = {-1, 0.5f, 1.00390625f, 1, 2, 3, 4, 5, 6};
    const uint16_t bf16[] = {0xBF80, 0x3F00, 0x3F80, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0};
    snprintf(path, sizeof path, "%s/fp32", (char *)*state);
    CHECK_OK(ah_safetensors_create(&writer, path, AH_FP32, specs, 3, &err), err);
    write_all(&writer);
    CHECK_OK(ah_safetensors_finish(&writer, &err), err);
    ah_safetensors_abandon(&writer);
    check_bytes(path, fp32_header, fp32, sizeof fp32);
    snprintf(path, sizeof path, "%s/bf16", (char *)*state);
    CHECK_OK(ah_safetensors_create(&writer, path, AH_BF16, specs, 3, &err), err);
    write_all(&writer);
    CHECK_OK(ah_safetensors_finish(&writer, &err), err);
    ah_safetensors_abandon(&writer);
    ah_safetensors_abandon(&writer);
    check_bytes(path, bf16_header, bf16, sizeof bf16);
}

TEST_IN(safetensors, leaves_no_half_file, root_make, root_remove)
{
    struct ah_safetensors_writer writer;
    struct ah_error err = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/half", (char *)*state);
    CHECK_OK(ah_safetensors_create(&writer, path, AH_FP32, specs, 3, &err), err);
    struct ah_safetensors_writer second;
    CHECK_FAILS(ah_safetensors_create(&second, path, AH_FP32, specs, 3, &err), err, AH_E_IO, "File exists");
    ah_safetensors_abandon(&second);
    assert_int_equal(access(path, F_OK), 0);
    CHECK_FAILS(ah_safetensors_finish(&writer, &err), err, AH_E_FAILED, "'z': was not written completely");
    ah_safetensors_abandon(&writer);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/no/where", (char *)*state);
    CHECK_FAILS(ah_safetensors_create(&writer, path, AH_FP32, specs, 3, &err), err, AH_E_IO,
                "where: cannot be written: No such file");
}

/* A file larger than the disk is refused when it is created, if the file system can tell. */
TEST_IN(safetensors, sees_a_full_disk_first, root_make, root_remove)
{
    const struct ah_safetensors_spec huge[] = {{"w", 1, {UINT64_C(1) << 58, 0}}};
    struct ah_safetensors_writer writer;
    struct ah_error err = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/huge", (char *)*state);
    CHECK_FAILS(ah_safetensors_create(&writer, path, AH_FP32, huge, 1, &err), err, AH_E_IO,
                "huge: cannot be written: ");
    assert_int_not_equal(access(path, F_OK), 0);
}
