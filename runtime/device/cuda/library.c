/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens libraries with dlopen(3). RTLD_NOW finds missing symbols here, RTLD_LOCAL keeps symbols private, and library.h
 * explains RTLD_NODELETE.
 */
#include "runtime/device/cuda/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRARY_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

static void *open_in(const char *toolkit, const char *soname)
{
    static const char *const folders[] = {"lib64", "extras/CUPTI/lib64"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !library; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s/%s", toolkit, folders[i], soname);
        if (length > 0 && (size_t)length < sizeof path)
            library = dlopen(path, LIBRARY_FLAGS);
    }
    return library;
}

static void *open_library(const char *soname, char *ret_why, size_t size)
{
    void *library = dlopen(soname, LIBRARY_FLAGS);
    const char *why = library ? NULL : dlerror();
    const char *home = getenv("CUDA_HOME");
    snprintf(ret_why, size, "%s", why ? why : "");
    if (!library && home && home[0])
        library = open_in(home, soname);
    return library ? library : open_in("/usr/local/cuda", soname);
}

int ah_cuda_library_open(const char *soname, const struct ah_cuda_symbol *symbols, size_t n,
                         struct ah_error *err)
{
    char why[256];
    void *library = open_library(soname, why, sizeof why);
    if (!library)
        return ah_error_set(
            err, AH_E_MISSING,
            "library '%s' cannot be loaded: %s; install the CUDA toolkit's libraries, or name the "
            "toolkit's folder in CUDA_HOME",
            soname, why);
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            dlclose(library);
            return ah_error_set(err, AH_E_MISSING,
                                "library '%s' has no function '%s'; install a later CUDA toolkit's libraries",
                                soname, symbols[i].name);
        }
        memcpy(symbols[i].to, &symbol,
               sizeof symbol); /* C has no cast from a data pointer to a function pointer */
    }
    return AH_OK;
}
