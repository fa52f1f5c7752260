/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads folders of files, and finds the entry for a kernel's address. The host compiler's name of the function is in
 * the symbol table of its program or library. nvcc uses the same name, except for names invented by the compilers. In
 * nvcc, an unnamed namespace has a different name in each file (_GLOBAL__N__<file's>). In the host's compiler, it has
 * one name for all files (_GLOBAL__N_1), and static functions are marked (_ZL).
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOUND_MAX = 512 };

/* The folder's kernels. Only one folder is ever read. */
static struct {
    pthread_mutex_t lock;
    bool is_read;
    char report[EMULATOR_REPORT_MAX]; /* why the folder could not be read */
    struct ptx_library library;
    struct {
        const void *address;
        const struct ptx_kernel *kernel;
    } found[FOUND_MAX];
    size_t n_found;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *read_text(const char *path)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    if (fd >= 0 && fstat(fd, &status) == 0 && (text = calloc(1, (size_t)status.st_size + 1))) {
        size_t n = 0;
        ssize_t got;
        while ((got = read(fd, text + n, (size_t)status.st_size - n)) > 0)
            n += (size_t)got;
    }
    if (fd >= 0)
        (void)close(fd);
    return text;
}

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static bool read_file(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_text(path);
    if (!text) {
        (void)snprintf(all.report, sizeof all.report, "%.500s cannot be read", path);
        return false;
    }
    const bool done = ptx_parse(&all.library, path, text, all.report);
    free(text);
    return done;
}

static void read_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    all.is_read = true;
    if (!entries) {
        (void)snprintf(all.report, sizeof all.report, "%.500s is no folder that can be read", folder);
        return;
    }
    for (struct dirent *entry; !all.report[0] && (entry = readdir(entries));)
        if (ends_in(entry->d_name, ".ptx"))
            (void)read_file(folder, entry->d_name);
    (void)closedir(entries);
}

/* Normalizes a function's name, so that both compilers' spellings match. */
static void normalize(const char *name, char *ret_name, size_t max)
{
    static const char unnamed[] = "_GLOBAL__N_";
    size_t n = 0;
    if (strncmp(name, "_ZL", 3) == 0) {
        n = (size_t)snprintf(ret_name, max, "_Z");
        name += 3;
    }
    while (*name && n + 1 < max) {
        char *end = NULL;
        const unsigned long length = isdigit((unsigned char)*name) ? strtoul(name, &end, 10) : 0;
        if (end && strncmp(end, unnamed, sizeof unnamed - 1) == 0 && strlen(end) >= length) {
            n += (size_t)snprintf(ret_name + n, max - n, "12%s1", unnamed);
            name = end + length;
        } else {
            ret_name[n++] = *name++;
        }
    }
    ret_name[n < max ? n : max - 1] = '\0';
}

/* The object (program or library) that contains an address. */
struct object {
    uintptr_t address;
    uintptr_t base;
    char path[4096];
};

static int find_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct object *object = context;
    (void)bytes;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || object->address < begin ||
            object->address - begin >= info->dlpi_phdr[i].p_memsz)
            continue;
        object->base = info->dlpi_addr;
        (void)snprintf(object->path, sizeof object->path, "%s",
                       info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe");
        return 1;
    }
    return 0;
}

/* Returns the name of the function at `place`, from an ELF file in memory. NULL: the function has no name. */
static const char *name_in(const unsigned char *file, uintptr_t place)
{
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Shdr) *sections = (const void *)(file + head->e_shoff);
    for (size_t i = 0; i < head->e_shnum; i++) {
        const ElfW(Sym) *symbols = (const void *)(file + sections[i].sh_offset);
        const char *names = (const char *)file + sections[sections[i].sh_link].sh_offset;
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++)
            if (ELF64_ST_TYPE(symbols[j].st_info) == STT_FUNC && symbols[j].st_value == place)
                return names + symbols[j].st_name;
    }
    return NULL;
}

static bool name_of(const void *kernel, char *ret_name, size_t max)
{
    struct object object = {.address = (uintptr_t)kernel};
    struct stat status;
    bool found = false;
    if (!dl_iterate_phdr(find_object, &object))
        return false;
    const int fd = open(object.path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0) {
        void *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        const char *name = file == MAP_FAILED ? NULL : name_in(file, object.address - object.base);
        found = name != NULL;
        if (found)
            normalize(name, ret_name, max);
        if (file != MAP_FAILED)
            (void)munmap(file, (size_t)status.st_size);
    }
    if (fd >= 0)
        (void)close(fd);
    return found;
}

static const struct ptx_kernel *find_entry(const void *address, char *ret_report)
{
    char wanted[1024] = "", name[1024];
    const struct ptx_kernel *kernel = NULL;
    if (!name_of(address, wanted, sizeof wanted)) {
        (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "a kernel has no name in its program's symbol table");
        return NULL;
    }
    for (size_t i = 0; i < all.library.n; i++) {
        normalize(all.library.kernels[i]->name, name, sizeof name);
        if (strcmp(name, wanted) != 0)
            continue;
        if (kernel) {
            (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "two entries are called alike: %.400s", wanted);
            return NULL;
        }
        kernel = all.library.kernels[i];
    }
    if (!kernel)
        (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "no file has an entry for kernel %.400s", wanted);
    return kernel;
}

/* Finds the kernel at an address. Call with the lock held. */
static const struct ptx_kernel *find(const void *address, char *ret_report)
{
    for (size_t i = 0; i < all.n_found; i++)
        if (all.found[i].address == address)
            return all.found[i].kernel;
    const struct ptx_kernel *kernel = find_entry(address, ret_report);
    if (kernel && all.n_found < FOUND_MAX) {
        all.found[all.n_found].address = address;
        all.found[all.n_found++].kernel = kernel;
    }
    return kernel;
}

const struct ptx_kernel *ptx_find(const char *folder, const void *kernel, char *ret_report)
{
    const struct ptx_kernel *found = NULL;
    pthread_mutex_lock(&all.lock);
    if (!all.is_read)
        read_folder(folder);
    if (all.report[0])
        (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "%s", all.report);
    else
        found = find(kernel, ret_report);
    pthread_mutex_unlock(&all.lock);
    return found;
}

void ptx_free(struct ptx_kernel *kernel)
{
    if (!kernel)
        return;
    free(kernel->name);
    free(kernel->insns);
    free(kernel->counts);
    free(kernel);
}

struct ptx_kernel *ptx_read(const char *text, char *ret_report)
{
    struct ptx_library library = {0};
    const bool done = ptx_parse(&library, "text", text, ret_report) && library.n == 1;
    struct ptx_kernel *kernel = done ? library.kernels[0] : NULL;
    for (size_t i = 0; i < library.n && !done; i++)
        ptx_free(library.kernels[i]);
    free(library.kernels);
    return kernel;
}

int ptx_counts(const char *path)
{
    FILE *file = fopen(path, "a");
    if (!file)
        return -1;
    pthread_mutex_lock(&all.lock);
    for (size_t i = 0; i < all.library.n; i++) {
        const struct ptx_kernel *kernel = all.library.kernels[i];
        const struct ptx_counts *c = kernel->counts;
        if (!c->launches)
            continue;
        fprintf(file, "%s launches %llu warps %llu", kernel->name, (unsigned long long)c->launches,
                (unsigned long long)c->warps);
        static const char *const sorts[PTX_SORTS] = {"arithmetic", "special",  "control",
                                                     "memory",     "exchange", "matrix"};
        for (size_t sort = 0; sort < PTX_SORTS; sort++)
            fprintf(file, " %s %llu", sorts[sort], (unsigned long long)c->insns[sort]);
        fprintf(file, " shared_turns %llu shared_least %llu global_sectors %llu global_least %llu\n",
                (unsigned long long)c->shared_turns, (unsigned long long)c->shared_least,
                (unsigned long long)c->global_sectors, (unsigned long long)c->global_least);
    }
    pthread_mutex_unlock(&all.lock);
    return fclose(file) ? -1 : 0;
}
