/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete doctor: shows what is installed, what is missing, and the command that installs it.
 *
 * Each check in a table fills one finding. Only the checks that the CPU device needs decide the exit status. Without a
 * GPU, or with little lockable memory, autohete still works, but more slowly or for smaller models.
 */
#include "base/host_memory.h"
#include "base/topology.h"
#include "base/units.h"
#include "cli/frame/cache.h"
#include "cli/frame/emit.h"
#include "cli/frame/table.h"
#include "cli/run/libraries.h"
#include "cli/verbs.h"
#include "profiler/processor_load.h"
#include "runtime/comm/driver.h"
#include "runtime/device/device.h"
#include "runtime/device/device_plugin.h"
#include "runtime/device/tryout.h"
#include "schemas/document.h"
#include "schemas/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DETAIL_MAX = AH_ERROR_TEXT_MAX, DEVICES_MAX = 16 };

enum state { STATE_OK, STATE_NOTE, STATE_ABSENT, STATE_MISSING };

static const char *const state_words[] = {"ok", "note", "absent", "missing"};

struct finding {
    const char *what;
    enum state state;
    char detail[DETAIL_MAX];
    char fix[DETAIL_MAX]; /* how to repair it; "": no need */
};

struct doctor {
    const struct ah_topology *topology; /* NULL: it cannot be read */
    const struct ah_error *topology_error;
    struct ah_arena *arena;
};

static void print_detail(char out[DETAIL_MAX], const char *format, ...) AH_PRINTF(2, 3);

static void print_detail(char out[DETAIL_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out, DETAIL_MAX, format, args);
    va_end(args);
}

static void check_processor(const struct doctor *doctor, struct finding *ret)
{
    const struct ah_topology *topology = doctor->topology;
    if (!topology) {
        ret->state = STATE_MISSING;
        print_detail(ret->detail, "%s", doctor->topology_error->text);
        return;
    }
    print_detail(ret->detail, "%s, %u core%s, %u thread%s, %s%s%s", topology->cpu_model, topology->cores,
                 topology->cores == 1 ? "" : "s", topology->threads, topology->threads == 1 ? "" : "s",
                 ah_isa_name(topology->isa), topology->avx512_bf16 ? ", avx512_bf16" : "",
                 topology->amx_bf16 ? ", amx_bf16" : "");
    if (topology->isa == AH_ISA_PORTABLE) {
        ret->state = STATE_NOTE;
        print_detail(ret->fix, "without AVX2 and FMA the optimizer on the host is several times slower");
    }
}

static void check_memory(const struct doctor *doctor, struct finding *ret)
{
    struct ah_host_memory memory;
    struct ah_error err = {0};
    char usable[AH_UNITS_TEXT_MAX];
    char available[AH_UNITS_TEXT_MAX];
    if (ah_host_memory_read(&memory, NULL, &err)) {
        ret->state = STATE_NOTE;
        print_detail(ret->detail, "%s", err.text);
        return;
    }
    print_detail(ret->detail, "%s usable%s, %s available now",
                 ah_units_print_bytes(usable, memory.usable_bytes),
                 memory.limit_bytes < memory.total_bytes ? " (limited by a control group)" : "",
                 ah_units_print_bytes(available, memory.available_bytes));
    if (doctor->topology && doctor->topology->note[0]) {
        ret->state = STATE_NOTE;
        print_detail(ret->fix, "%s", doctor->topology->note);
    }
}

/* Checks the limit on locked memory, for host weights and tiles being copied. Half of all memory always suffices. */
static void check_memlock(const struct doctor *doctor, struct finding *ret)
{
    if (!doctor->topology)
        return;
    uint64_t limit_bytes = doctor->topology->memlock_bytes;
    char text[AH_UNITS_TEXT_MAX];
    print_detail(ret->detail, "%s may be locked", ah_units_print_bytes(text, limit_bytes));
    if (limit_bytes >= doctor->topology->memory_bytes / 2)
        return;
    ret->state = STATE_NOTE;
    print_detail(ret->fix,
                 "for training on a GPU: 'ulimit -l unlimited', or the line '* - memlock unlimited' in "
                 "/etc/security/limits.conf and a new login");
}

static void check_huge_pages(const struct doctor *doctor, struct finding *ret)
{
    (void)doctor;
    char setting[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!file || !fgets(setting, sizeof setting, file))
        snprintf(setting, sizeof setting, "not offered by this kernel");
    if (file)
        fclose(file);
    setting[strcspn(setting, "\n")] = '\0';
    print_detail(ret->detail, "%s", setting);
    if (strstr(setting, "[always]") || strstr(setting, "[madvise]"))
        return;
    ret->state = STATE_NOTE;
    snprintf(
        ret->fix, DETAIL_MAX,
        "host memory is slower without it; 'echo madvise >/sys/kernel/mm/transparent_hugepage/enabled' as "
        "root");
}

/* Opens the device like a run, but with small arenas. */
static void check_cpu_device(const struct doctor *doctor, struct finding *ret)
{
    (void)doctor;
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    const struct ah_device_options options = {0};
    const uint64_t small = 1 << 20;
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, small, small, small};
    if (ah_device_open(&device, ah_device_cpu(), &options, &err) ||
        ah_device_reserve(device, arena_bytes, &err)) {
        ret->state = STATE_MISSING;
        print_detail(ret->detail, "%s", err.text);
        ah_device_close(device);
        return;
    }
    print_detail(ret->detail, "%s, fp32%s", device->info.name, device->info.bf16 ? " and bf16" : "");
    ah_device_close(device);
}

static void check_driver(const struct doctor *doctor, struct finding *ret)
{
    (void)doctor;
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        print_detail(ret->detail, "%s", line);
    } else {
        ret->state = STATE_ABSENT;
        print_detail(ret->detail, "not loaded; needed for NVIDIA GPUs only");
        print_detail(ret->fix, "with a GPU: apt-get install nvidia-driver (Debian's non-free)");
    }
    if (file)
        fclose(file);
}

static void print_gpus(const struct ah_device_info *infos, size_t n, struct finding *ret)
{
    size_t used = (size_t)snprintf(ret->detail, DETAIL_MAX, "interface %d", AH_DEVICE_ABI);
    for (size_t i = 0; i < n && used < DETAIL_MAX; i++) {
        char memory[AH_UNITS_TEXT_MAX];
        used += (size_t)snprintf(ret->detail + used, DETAIL_MAX - used, "; cuda:%zu %s, %s", i, infos[i].name,
                                 ah_units_print_bytes(memory, infos[i].memory_bytes));
    }
}

/* Tries the library's products, and reports the device memory in use outside an arena. */
static int try_products(struct ah_device *device, struct finding *ret, struct ah_error *err)
{
    char text[AH_TRYOUT_TEXT_MAX], bytes[AH_UNITS_TEXT_MAX];
    const size_t used = strlen(ret->detail);
    int rc = ah_device_tryout(device, err);
    if (rc)
        return rc;
    snprintf(ret->detail + used, DETAIL_MAX - used, "; %s of its memory is used outside the arena; %s",
             ah_units_print_bytes(bytes, device->info.outside_bytes),
             ah_device_print_products(&device->info, text));
    if (device->info.products.in_steps)
        print_detail(ret->fix, "for the products: install the cuBLAS of CUDA 13 or later");
    return AH_OK;
}

static void try_recorder(struct ah_device *device, struct finding *ret)
{
    struct ah_device_recording recording;
    struct ah_error err = {0};
    const size_t used = strlen(ret->detail), fixed = strlen(ret->fix);
    if (!ah_device_record(device, &err) && !ah_device_recorded(device, &recording, &err)) {
        snprintf(ret->detail + used, DETAIL_MAX - used, "; recorded by %s", recording.recorder);
        return;
    }
    snprintf(ret->detail + used, DETAIL_MAX - used, "; 'run --trace' will lack the GPU's own records");
    snprintf(ret->fix + fixed, DETAIL_MAX - fixed, "%s%s", fixed ? "; " : "", err.text);
}

/* Checks what shows only when a device is opened and used. */
static void try_gpu(const struct ah_device_driver *driver, struct finding *ret)
{
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    const struct ah_device_options options = {.queue = 1, .host_threads = 1};
    if (ah_device_open(&device, driver, &options, &err) || try_products(device, ret, &err)) {
        ret->state = STATE_NOTE;
        print_detail(ret->detail, "interface %d; cuda:0 cannot be used: %s", AH_DEVICE_ABI, err.text);
    } else {
        try_recorder(device, ret);
    }
    ah_device_close(device);
}

static void check_cuda_plugin(const struct doctor *doctor, struct finding *ret)
{
    (void)doctor;
    struct ah_error err = {0};
    const struct ah_device_driver *driver = NULL;
    struct ah_device_info infos[DEVICES_MAX] = {{0}};
    size_t n = 0;
    if (ah_plugin_load("cuda", &driver, &err)) {
        ret->state = STATE_ABSENT;
        print_detail(ret->detail, "%s", err.text);
        print_detail(ret->fix,
                     "with a GPU: apt-get install nvidia-cuda-toolkit (Debian's non-free), then build again");
    } else if (driver->probe(infos, DEVICES_MAX, &n, &err)) {
        ret->state = STATE_ABSENT;
        print_detail(ret->detail,
                     "no GPU can be used, although the CUDA plugin is installed (interface %d): "
                     "%s",
                     AH_DEVICE_ABI, err.text);
    } else {
        print_gpus(infos, n < DEVICES_MAX ? n : DEVICES_MAX, ret);
        try_gpu(driver, ret);
    }
}

static void say_noise(const char *path, const struct ah_machine *machine, struct finding *ret)
{
    double taken;
    unsigned processors;
    print_detail(ret->detail, "%s, %zu remark%s on noise", path, machine->n_noise,
                 machine->n_noise == 1 ? "" : "s");
    if (!ah_load_disturbed(machine->noise, machine->n_noise, &taken, &processors))
        return;
    const size_t used = strlen(ret->detail);
    snprintf(ret->detail + used, DETAIL_MAX - used,
             "; other programs or the hypervisor took up to %.1f of %u processors while it was measured",
             taken, processors);
    print_detail(ret->fix, "close other programs, then autohete profile");
}

/* Checks this machine's profile in the cache: that it exists and is valid, and how noisy its numbers are. */
static void check_profile(const struct doctor *doctor, struct finding *ret)
{
    const char *path = NULL;
    struct ah_error err = {0};
    struct ah_document profile = {0};
    if (ah_cache_path(NULL, doctor->arena, &path, &err)) {
        ret->state = STATE_NOTE;
        print_detail(ret->detail, "%s", err.text);
    } else if (access(path, F_OK) != 0) {
        ret->state = STATE_ABSENT;
        print_detail(ret->detail, "this machine has not been measured yet");
        print_detail(ret->fix, "autohete profile");
    } else if (ah_document_load(&profile, path, AH_DOCUMENT_MACHINE, &err)) {
        ret->state = STATE_NOTE;
        print_detail(ret->detail, "%s", err.text);
        print_detail(ret->fix, "autohete profile");
    } else {
        say_noise(path, profile.body.machine, ret);
    }
    ah_document_release(&profile);
}

/* True if the command exits with 0. Discards its output. */
static bool runs(const char *command, const char *option, const char *value)
{
    char *const arguments[] = {(char *)(uintptr_t)command, (char *)(uintptr_t)option,
                               (char *)(uintptr_t)value, NULL};
    posix_spawn_file_actions_t files;
    pid_t child = 0;
    int status = -1;
    if (posix_spawn_file_actions_init(&files))
        return false;
    bool started = !posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) &&
                   !posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) &&
                   !posix_spawnp(&child, command, &files, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    return started && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Looks for the Python packages of autohete-tokenize, in its --setup folder or through python3. Imports nothing. */
static void check_tokenizer(const struct doctor *doctor, struct finding *ret)
{
    static const char look[] =
        "import importlib.util as u; import sys; "
        "sys.exit(not all(map(u.find_spec, ('tokenizers', 'transformers', 'jinja2'))))";
    (void)doctor;
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char own[PATH_MAX];
    const bool given = data && *data;
    snprintf(own, sizeof own, "%s%s/autohete/python/bin/python",
             given  ? data
             : home ? home
                    : "",
             given ? "" : "/.local/share");
    const char *pythons[] = {own, "python3"};
    for (size_t i = 0; i < 2; i++)
        if (runs(pythons[i], "-c", look)) {
            print_detail(ret->detail, "%s has tokenizers, transformers and jinja2, for autohete-tokenize",
                         pythons[i]);
            return;
        }
    ret->state = STATE_ABSENT;
    print_detail(
        ret->detail,
        "the Python packages of autohete-tokenize are not installed; 'autohete tokenize', token files and "
        "byte models do not need them");
    print_detail(ret->fix, "autohete-tokenize --setup");
}

/* Checks the plugin for MPI, its library, and mpirun. */
static void check_mpi(const struct doctor *doctor, struct finding *ret)
{
    static const char *const launchers[] = {"mpirun", "srun"};
    const struct ah_comm_driver *driver = NULL;
    struct ah_error err = {0};
    char library[128] = "";
    const char *launcher = NULL;
    (void)doctor;
    int rc = ah_comm_load("mpi", &driver, &err);
    rc = rc || !driver->probe ? rc : driver->probe(library, sizeof library, &err);
    if (rc) {
        ret->state = STATE_ABSENT;
        print_detail(ret->detail, "ranks run as threads of one process only: %s", err.text);
        print_detail(ret->fix,
                     "for several machines: apt-get install libopenmpi-dev openmpi-bin, then build again");
        return;
    }
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0] && !launcher; i++)
        launcher = runs(launchers[i], "--version", NULL) ? launchers[i] : NULL;
    if (launcher) {
        print_detail(ret->detail, "%s (interface %d), started by %s", library, AH_COMM_ABI, launcher);
        return;
    }
    ret->state = STATE_ABSENT;
    print_detail(ret->detail, "%s (interface %d), but neither mpirun nor srun to start ranks", library,
                 AH_COMM_ABI);
    print_detail(ret->fix, "apt-get install openmpi-bin");
}

/* Checks the library for messages between GPUs. */
static void check_nccl(const struct doctor *doctor, struct finding *ret)
{
    const struct ah_comm_driver *driver = NULL;
    struct ah_error err = {0};
    char library[128] = "";
    (void)doctor;
    int rc = ah_comm_load("nccl", &driver, &err);
    rc = rc ? rc : driver->probe(library, sizeof library, &err);
    if (!rc) {
        print_detail(ret->detail, "%s (interface %d), for messages between GPUs", library, AH_COMM_ABI);
        return;
    }
    ret->state = STATE_ABSENT;
    print_detail(ret->detail, "GPUs train alone, not together: %s", err.text);
    print_detail(ret->fix,
                 "for several GPUs: apt-get install libnccl2 libnccl-dev (from NVIDIA's repository), then "
                 "build again");
}

static const struct {
    const char *what;
    void (*check)(const struct doctor *doctor, struct finding *ret);
} checks[] = {
    {"processor", check_processor},
    {"host memory", check_memory},
    {"locked memory", check_memlock},
    {"huge pages", check_huge_pages},
    {"device cpu", check_cpu_device},
    {"NVIDIA driver", check_driver},
    {"device cuda", check_cuda_plugin},
    {"profile", check_profile},
    {"tokenizer", check_tokenizer},
    {"MPI", check_mpi},
    {"NCCL", check_nccl},
};

enum { CHECKS = sizeof checks / sizeof checks[0], LIBRARIES_MAX = 8, FINDINGS_MAX = CHECKS + LIBRARIES_MAX };

static void check_library(const struct ah_libraries_row *row, struct finding *ret)
{
    char version[AH_LIBRARIES_TEXT_MAX];
    ret->what = row->name;
    if (ah_libraries_version(row, version)) {
        print_detail(ret->detail, "%s; %s", version, row->purpose);
        return;
    }
    ret->state = STATE_ABSENT;
    print_detail(ret->detail, "not installed; %s", row->purpose);
    print_detail(ret->fix, "apt-get install %s", row->package);
}

static size_t examine(const struct doctor *doctor, struct finding findings[FINDINGS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < CHECKS; i++, n++) {
        findings[n].what = checks[i].what;
        checks[i].check(doctor, &findings[n]);
    }
    for (size_t i = 0; i < ah_libraries_count && n < FINDINGS_MAX; i++, n++)
        check_library(&ah_libraries_rows[i], &findings[n]);
    return n;
}

static void print_json(struct ah_cli *cli, const struct finding *findings, size_t n, bool ready)
{
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "version", AUTOHETE_VERSION);
    ah_emit_bool(&emit, "ready", ready);
    ah_emit_open(&emit, "checks", '[');
    for (size_t i = 0; i < n; i++) {
        ah_emit_open(&emit, NULL, '{');
        ah_emit_text(&emit, "what", findings[i].what);
        ah_emit_text(&emit, "state", state_words[findings[i].state]);
        ah_emit_text(&emit, "detail", findings[i].detail);
        if (findings[i].fix[0])
            ah_emit_text(&emit, "fix", findings[i].fix);
        ah_emit_close(&emit);
    }
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_text(struct ah_cli *cli, const struct finding *findings, size_t n, bool ready)
{
    const struct ah_style *style = &cli->out_style;
    struct ah_table table = {.arena = &cli->arena, .columns = {"", "", ""}};
    bool gpu = false;
    for (size_t i = 0; i < n; i++) {
        gpu = gpu || (strcmp(findings[i].what, "device cuda") == 0 && findings[i].state == STATE_OK);
        ah_table_cell(&table, "%s", findings[i].what);
        ah_table_cell(&table, "%s", state_words[findings[i].state]);
        ah_table_cell(&table, "%s", findings[i].detail);
        if (findings[i].fix[0]) {
            ah_table_cell(&table, "%s", "");
            ah_table_cell(&table, "%s", "");
            ah_table_cell(&table, "-> %s", findings[i].fix);
        }
    }
    ah_table_print(&table, &cli->out, *style, cli->table_columns);
    ah_buffer_printf(&cli->out, "\n%sautohete " AUTOHETE_VERSION " %s%s\n", style->bold,
                     !ready ? "cannot run here: something above is missing"
                     : gpu  ? "can run on this machine's CPU and GPU"
                            : "can run on this machine's CPU",
                     style->reset);
}

static int doctor_run(struct ah_cli *cli, const void *options)
{
    (void)options;
    struct ah_topology topology = {0};
    struct ah_error err = {0};
    bool known = ah_topology_init(&topology, NULL, &err) == AH_OK;
    const struct doctor doctor = {
        .topology = known ? &topology : NULL, .topology_error = &err, .arena = &cli->arena};
    struct finding findings[FINDINGS_MAX] = {{0}};
    size_t n = examine(&doctor, findings);
    bool ready = true;
    for (size_t i = 0; i < n; i++)
        ready = ready && findings[i].state != STATE_MISSING;
    if (cli->json)
        print_json(cli, findings, n, ready);
    else
        print_text(cli, findings, n, ready);
    ah_topology_release(&topology);
    return ready ? 0 : ah_error_exit_status(AH_E_MISSING);
}

const struct ah_verb ah_verb_doctor = {
    .name = "doctor",
    .summary = "say what is installed, which devices work, and what is missing",
    .description = "Checks processor, memory, limits, libraries, devices, MPI and the profile kept for this "
                   "machine, and gives the command that adds each missing piece.\n\nExit status: 0 the CPU "
                   "device can run, 7 it cannot.",
    .examples = {{"doctor", "is this machine ready"}},
    .run = doctor_run,
};
