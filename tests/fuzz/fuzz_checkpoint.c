/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for loading a checkpoint. The input is the manifest; the other files of the folder are intact. A refusal
 * is one sentence. An accepted checkpoint loads exactly the saved values.
 */
#include "runtime/train/checkpoint/checkpoints.h"
#include "tests/support/training.h"

#include <limits.h>
#include <stdint.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct training run;
static char folder[] = "/tmp/autohete-fuzz-XXXXXX";

static void leave(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    training_require(!system(command), "cannot remove the folder");
    training_release(&run);
}

static void path_of(const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/step-00000003%s", folder, name);
}

static void enter(void)
{
    char path[PATH_MAX];
    struct ah_error err = {0};
    if (run.job.model)
        return;
    training_init(&run, &(struct training_options){.file_bytes = 30000});
    training_require(mkdtemp(folder) != NULL, "no folder");
    atexit(leave);
    path_of("", path);
    training_require(!ah_checkpoint_save(&run.job, training_at(&run, 3), &run.source, path, &err), err.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[PATH_MAX];
    struct ah_error err = {0};
    struct ah_checkpoint_position position;
    struct ah_checkpoints_found found;
    enter();
    path_of("/checkpoint.json", path);
    FILE *file = fopen(path, "wb");
    training_require(file && fwrite(data, 1, size, file) == size && !fclose(file), "cannot write");
    training_wrong(&run, 3); /* forgets the loaded values */
    int rc = training_resume(&run, folder, &found, &position, &err);
    if (rc)
        training_require(err.text[0] && !strchr(err.text, '\n') && err.code == rc, "not one sentence");
    else
        training_require(!training_wrong(&run, 3)[0], "other values are accepted");
    return 0;
}
