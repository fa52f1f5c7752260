/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves and loads weights while each allocation and each system call that reads or writes fails once. Expects an error
 * that names a file, no half-written file, and no leak.
 */
#include "runtime/model/config.h"
#include "runtime/model/initial.h"
#include "runtime/model/weights.h"
#include "schemas/document.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failing calls (extra.cmake wraps them) ---- */

enum call { PREAD, PWRITE, FSYNC, CLOSE, FALLOCATE, CALLS };

static struct {
    unsigned made[CALLS];
    unsigned failing[CALLS]; /* which call of each kind fails; 0: none */
    int reason;
    int half; /* true: a read or write moves only half of the requested bytes */
} calls;

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
int __real_fsync(int fd);
int __real_close(int fd);
int __real_fallocate(int fd, int mode, off_t offset, off_t size);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t size);

static int fails(enum call call)
{
    if (++calls.made[call] != calls.failing[call])
        return 0;
    errno = calls.reason;
    return 1;
}

static size_t moved(size_t size)
{
    return calls.half && size > 1 ? size / 2 : size;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t offset)
{
    return fails(PREAD) ? -1 : __real_pread(fd, bytes, moved(size), offset);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return fails(PWRITE) ? -1 : __real_pwrite(fd, bytes, moved(size), offset);
}

int __wrap_fsync(int fd)
{
    return fails(FSYNC) ? -1 : __real_fsync(fd);
}

int __wrap_close(int fd)
{
    int rc = __real_close(fd);
    return fails(CLOSE) ? -1 : rc;
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t size)
{
    return fails(FALLOCATE) ? -1 : __real_fallocate(fd, mode, offset, size);
}

/* ---- operations under test ---- */

static const char config[] = "{\"model_type\":\"qwen3\",\"hidden_size\":24,\"num_hidden_layers\":2,"
                             "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"
                             "\"intermediate_size\":40,\"vocab_size\":50,\"max_position_embeddings\":32}";

struct scene {
    struct ah_document model;
    char folder[PATH_MAX];
    uint64_t shard_bytes;
};

static int give(void *context, const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    (void)err;
    ah_initial_fill(context, 1, piece, ret_values);
    return AH_OK;
}

static int take(void *context, const struct ah_weights_piece *piece, const float *values,
                struct ah_error *err)
{
    float *expected = malloc(piece->n * sizeof *expected);
    if (!expected)
        return ah_error_memory(err);
    ah_initial_fill(context, 1, piece, expected);
    assert_memory_equal(expected, values, piece->n * sizeof *values);
    free(expected);
    return AH_OK;
}

static void empty(const char *folder)
{
    char command[PATH_MAX + 32];
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    assert_int_equal(system(command), 0);
}

static int save(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    struct ah_model *model = scene->model.body.model;
    const struct ah_weights_options options = {
        .dtype = AH_FP32, .shard_bytes = scene->shard_bytes, .config = config};
    empty(scene->folder);
    return ah_weights_save(model, &(struct ah_weights_source){give, model}, &options, scene->folder, err);
}

static int load(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    return ah_weights_load(scene->model.body.model, scene->folder,
                           &(struct ah_weights_sink){.take = take, .context = scene->model.body.model}, err);
}

static int start(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    return ah_initial_load(scene->model.body.model, 1, NULL,
                           &(struct ah_weights_sink){.take = take, .context = scene->model.body.model}, err);
}

static int print_config(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    struct ah_buffer out = {0};
    int rc = ah_config_print(scene->model.body.model, AH_FP32, &out, err);
    ah_buffer_release(&out);
    return rc;
}

static int adopt_config(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    struct ah_buffer out = {0};
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/config.json", scene->folder);
    int rc = ah_config_adopt(scene->model.body.model, path, AH_FP32, &out, err);
    ah_buffer_release(&out);
    return rc;
}

static void set(struct scene *scene, const char *folder, uint64_t shard_bytes)
{
    struct ah_error err = {0};
    memset(&calls, 0, sizeof calls);
    *scene = (struct scene){.shard_bytes = shard_bytes};
    snprintf(scene->folder, sizeof scene->folder, "%s", folder);
    CHECK_OK(ah_document_parse(&scene->model, "config.json", config, strlen(config), AH_DOCUMENT_MODEL, &err),
             err);
}

/* ---- tests ---- */

TEST_IN(weights, survive_every_failing_allocation, root_make, root_remove)
{
    const uint64_t limits[] = {0, 4000};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        struct ah_error err = {0};
        set(&scene, *state, limits[i]);
        size_t saving = fault_sweep(save, &scene, 0);
        CHECK_OK(save(&scene, &err), err);
        size_t loading = fault_sweep(load, &scene, 0), starting = fault_sweep(start, &scene, 0);
        size_t printing = fault_sweep(print_config, &scene, 0),
               adopting = fault_sweep(adopt_config, &scene, 0);
        print_message("allocations: %zu saving, %zu loading, %zu starting, %zu printing, %zu adopting\n",
                      saving, loading, starting, printing, adopting);
        assert_true(saving > 8 && loading > 8 && starting > 1 && printing > 10 && adopting > 10);
        ah_document_release(&scene.model);
    }
}

/* Loads one layer more than the files have, so that the error names the nearest tensor. */
static int miss(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    struct ah_model more = *scene->model.body.model;
    more.layers++;
    int rc =
        ah_weights_load(&more, scene->folder, &(struct ah_weights_sink){.take = take, .context = &more}, err);
    return rc == AH_E_MISMATCH ? AH_OK : rc;
}

TEST_IN(weights, survive_them_while_refusing, root_make, root_remove)
{
    struct scene scene;
    struct ah_error err = {0};
    set(&scene, *state, 4000);
    CHECK_OK(save(&scene, &err), err);
    fault_sweep(miss, &scene, 1);
    ah_document_release(&scene.model);
}

static unsigned files_in(const char *folder)
{
    unsigned n = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        n += strstr(entry->d_name, ".safetensors") != NULL && !strstr(entry->d_name, ".json");
    closedir(listing);
    return n;
}

/* Fails each call of one kind once, and returns the number of calls. */
static unsigned sweep(int (*run)(void *, struct ah_error *), struct scene *scene, enum call call, int reason)
{
    for (unsigned n = 1;; n++) {
        struct ah_error err = {0};
        memset(&calls, 0, sizeof calls);
        calls.failing[call] = n;
        calls.reason = reason;
        int rc = run(scene, &err);
        if (calls.made[call] < n) {
            CHECK_OK(rc, err);
            return n - 1;
        }
        if (rc != AH_E_IO)
            fail_msg("call %u of kind %d failed, yet the code returns %d", n, (int)call, rc);
        check_text_has(err.text, strerror(reason));
        check_text_has(err.text, scene->folder);
        if (run == save && call != CLOSE && !scene->shard_bytes) /* if so, the old weights stay */
            assert_in_range(files_in(scene->folder), 0, call == FSYNC && n > 1 ? 1 : 0);
    }
}

TEST_IN(weights, survive_every_failing_call, root_make, root_remove)
{
    const uint64_t limits[] = {0, 4000};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene;
        struct ah_error err = {0};
        set(&scene, *state, limits[i]);
        assert_true(sweep(save, &scene, PWRITE, ENOSPC) > 20);
        assert_true(sweep(save, &scene, FALLOCATE, ENOSPC) >= 1);
        assert_true(sweep(save, &scene, FSYNC, EIO) >= 2);
        memset(&calls, 0, sizeof calls);
        CHECK_OK(save(&scene, &err), err);
        assert_true(sweep(load, &scene, PREAD, EIO) > 20);
        ah_document_release(&scene.model);
    }
}

TEST_IN(weights, report_what_closing_finds_out, root_make, root_remove)
{
    struct scene scene;
    struct ah_error err = {0};
    set(&scene, *state, 0);
    empty(scene.folder);
    calls.failing[CLOSE] = 1;
    calls.reason = EDQUOT;
    CHECK_FAILS(save(&scene, &err), err, AH_E_IO,
                "model.safetensors: cannot be written: Disk quota exceeded");
    assert_int_equal(files_in(scene.folder), 0);
    ah_document_release(&scene.model);
}

/* Saving succeeds on a file system that cannot reserve or sync. Interrupted and short calls are continued. */
TEST_IN(weights, go_on_where_they_can, root_make, root_remove)
{
    static const struct {
        enum call call;
        int reason;
    } cases[] = {{FALLOCATE, EOPNOTSUPP}, {FALLOCATE, EINTR}, {FSYNC, EINVAL}, {FSYNC, EINTR},
                 {CLOSE, EINTR},          {PWRITE, EINTR},    {PREAD, EINTR}};
    struct scene scene;
    struct ah_error err = {0};
    set(&scene, *state, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&calls, 0, sizeof calls);
        calls.failing[cases[i].call] = 1;
        calls.reason = cases[i].reason;
        CHECK_OK(save(&scene, &err), err);
        CHECK_OK(load(&scene, &err), err);
    }
    memset(&calls, 0, sizeof calls);
    calls.half = 1;
    CHECK_OK(save(&scene, &err), err);
    CHECK_OK(load(&scene, &err), err);
    ah_document_release(&scene.model);
}
