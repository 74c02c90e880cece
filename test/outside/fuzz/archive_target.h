/* Bytes that may be a file of tensors: all that is listed, and every tensor. */
#ifndef TAPIR_ARCHIVE_TARGET_H
#define TAPIR_ARCHIVE_TARGET_H

#include "tapir/tapir.h"
#include "train/archive_def.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void *archive_alloc(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    if (size > (size_t)1 << 24 || posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    return p;
}

static inline void archive_release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    free(p);
}

/* Sorted, no name twice, and what a tensor is, is what was listed. */
static inline void archive_look(const tp_archive *a)
{
    for (int i = 0; i < a->n; i++) {
        const tp_archive_entry *e = tp_archive_entry_of(a, i);
        if ((i && strcmp(e[0].name, a->tensors[i - 1].entry.name) <= 0) ||
            tp_archive_find(a, e->name) != e)
            abort();
        tp_tensor *t = tpi_archive_make(&a->tensors[i], a->ctx, (tpi_at){0}, "fuzz");
        if (tp_failed(t))
            continue;
        const size_t bytes = (size_t)tp_count(t) * tp_dtype_size(e->dtype);
        void *out = malloc(bytes + 1);
        if (tp_dtype_of(t) != e->dtype || tp_rank(t) != e->rank ||
            (out && tp_read(t, out, bytes) != TP_OK))
            abort();
        free(out);
    }
    for (int i = 0; tp_archive_key(a, i); i++)
        if (!tp_archive_text(a, tp_archive_key(a, i)))
            abort();
}

/* As if they were the file of that path. */
static inline void archive_read(const char *path, const uint8_t *data, size_t size)
{
    const tp_allocator memory = {archive_alloc, archive_release, NULL};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &memory});
    tp_archive a;
    tpi_file_error e;
    const void *bytes = size ? data : (const void *)"";
    if (tpi_archive_parse(&a, tp, path, bytes, size, &e)) {
        archive_look(&a);
        tpi_archive_close(&a);
    } else if (e.status == TP_OK || !*e.text) {
        abort();
    }
    tp_close(tp);
}

#endif
