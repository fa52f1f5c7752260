/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the program's NT_GNU_BUILD_ID note from memory (elf(5), dl_iterate_phdr(3)).
 */
#include "base/build_id.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char owner[] = "GNU";

/* Rounds up to four bytes, to which names and descriptions of notes are padded. */
static size_t padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

static void print_id(const unsigned char *id, size_t bytes, char *ret_text)
{
    for (size_t i = 0; i < bytes && 2 * i + 3 <= AH_BUILD_ID_TEXT_MAX; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", id[i]);
}

static void read_notes(const unsigned char *notes, size_t bytes, char *ret_text)
{
    ElfW(Nhdr) note;
    for (size_t at = 0, end; at + sizeof note <= bytes; at = end) {
        memcpy(&note, notes + at, sizeof note);
        const size_t name = at + sizeof note, id = name + padded(note.n_namesz);
        end = id + padded(note.n_descsz);
        if (end > bytes)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            !memcmp(notes + name, owner, sizeof owner))
            print_id(notes + id, note.n_descsz, ret_text);
    }
}

/* Reads the first object reported, which is the program itself, and stops the search. */
static int read_object(struct dl_phdr_info *object, size_t bytes, void *context)
{
    (void)bytes;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const union {
            uintptr_t address;
            const unsigned char *bytes;
        } notes = {.address = object->dlpi_addr + part->p_vaddr};
        if (part->p_type == PT_NOTE)
            read_notes(notes.bytes, part->p_filesz, context);
    }
    return 1;
}

const char *ah_build_id_read(char ret_text[AH_BUILD_ID_TEXT_MAX])
{
    snprintf(ret_text, AH_BUILD_ID_TEXT_MAX, "unknown");
    (void)dl_iterate_phdr(read_object, ret_text);
    return ret_text;
}
