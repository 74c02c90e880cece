/* What is written to file descriptor 2, by the library's log above all. */
#ifndef TAPIR_CAUGHT_H
#define TAPIR_CAUGHT_H

#include "common/unit.h"

#include <unistd.h>

typedef struct caught {
    int kept, file;
} caught;

/* From here on. */
static inline caught catch_begin(void)
{
    char path[] = "caught_XXXXXX";
    const caught c = {dup(2), mkstemp(path)};
    assert_true(c.kept >= 0 && c.file >= 0);
    unlink(path);
    dup2(c.file, 2);
    return c;
}

/* Up to here, as far as there is room. */
static inline void catch_end(caught c, char *text, size_t size)
{
    dup2(c.kept, 2);
    close(c.kept);
    memset(text, 0, size);
    assert_true(pread(c.file, text, size - 1, 0) >= 0);
    close(c.file);
}

#endif
