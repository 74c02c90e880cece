#include "cc/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if UINTPTR_MAX > 0xffffffffu
typedef Elf64_Ehdr elf_head;
typedef Elf64_Phdr elf_part;
#define ELF_CLASS ELFCLASS64
#else
typedef Elf32_Ehdr elf_head;
typedef Elf32_Phdr elf_part;
#define ELF_CLASS ELFCLASS32
#endif

/* What dlopen maps without looking at the size of the file; reading beyond it would be a
 * signal, not an error. */
static const char *what_is_wrong(int fd, const struct stat *st)
{
    elf_head head;
    if (!S_ISREG(st->st_mode))
        return "not a file";
    const uint64_t size = (uint64_t)st->st_size;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELF_CLASS ||
        head.e_type != ET_DYN || head.e_phentsize != sizeof(elf_part))
        return "not a shared object";
    if (!head.e_phnum || head.e_phoff > size ||
        head.e_phnum * (uint64_t)sizeof(elf_part) > size - head.e_phoff)
        return "cut short";
    for (unsigned i = 0; i < head.e_phnum; i++) {
        elf_part part;
        const uint64_t at = head.e_phoff + i * sizeof part;
        if (pread(fd, &part, sizeof part, (off_t)at) != (ssize_t)sizeof part)
            return "cut short";
        if (part.p_type == PT_LOAD &&
            (part.p_offset > size || part.p_filesz > size - part.p_offset))
            return "cut short";
    }
    return NULL;
}

/* A path that leads to the file `fd`. The loader takes an object that it has loaded by an equal path for the
 * same one, and numbers of descriptors come again: so the path is spelt in the way of its file. */
static void spell(char path[256], int fd, const struct stat *st)
{
    int at = snprintf(path, 256, "/proc/%ld/fd", (long)getpid()); /* a debugger can open it */
    const uint64_t file[2] = {(uint64_t)st->st_ino, (uint64_t)st->st_dev};
    for (int i = 0; i < 96; i++)
        at += snprintf(path + at, 256 - (size_t)at, file[i / 64] >> i % 64 & 1 ? "/." : "/");
    snprintf(path + at, 256 - (size_t)at, "/%d", fd);
}

void *tpi_object_load(int fd, char *why, size_t size)
{
    struct stat st;
    const char *wrong = fstat(fd, &st) == 0 ? what_is_wrong(fd, &st) : "not a file";
    if (wrong) {
        snprintf(why, size, "the object: %s", wrong);
        return NULL;
    }
    char path[256];
    spell(path, fd, &st);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *text = dlerror();
        snprintf(why, size, "%s", text ? text : "dlopen failed");
    }
    return object;
}

void *tpi_object_symbol(void *object, const char *name)
{
    return dlsym(object, name);
}

void tpi_object_unload(void *object)
{
    if (object)
        dlclose(object);
}
