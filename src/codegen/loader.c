#include "codegen/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
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
static const char *what_is_wrong(int fd)
{
    struct stat st;
    elf_head head;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return "not a file";
    const uint64_t size = (uint64_t)st.st_size;
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

void *tpi_object_load(const char *path, char *why, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *wrong = fd < 0 ? "cannot be opened" : what_is_wrong(fd);
    if (fd >= 0)
        close(fd);
    if (wrong) {
        snprintf(why, size, "%s: %s", path, wrong);
        return NULL;
    }
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
