/* What is in an archive: files that are held, tensors and texts, sorted. */
#include "ir/notation.h"
#include "train/archive_def.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- files that are held --------------------------------------------------------------------------- */

void tpi_held_file_release(tpi_held_file *f)
{
    if (--f->refs > 0)
        return;
    tpi_mem *mem = f->mem;
    tpi_file_map_close(mem, &f->map);
    tpi_give_back(mem, f, sizeof *f);
}

tpi_held_file *tpi_archive_add_file(const tpi_archive_reader *r)
{
    tp_archive *a = r->a;
    tpi_held_file **v =
        tpi_bump_grow(&a->bump, a->files, a->n_files, &a->files_size, sizeof *v);
    tpi_held_file *f = v ? tpi_take(&a->ctx->mem, sizeof *f) : NULL;
    if (!f) {
        tpi_archive_no_memory(r);
        return NULL;
    }
    *f = (tpi_held_file){.refs = 1, .mem = &a->ctx->mem};
    a->files = v;
    return v[a->n_files++] = f;
}

const tpi_held_file *tpi_archive_file(const tpi_archive_reader *r, const char *path)
{
    tpi_held_file *f = tpi_archive_add_file(r);
    return f && tpi_file_map_open(f->mem, path, &f->map, r->error) ? f : NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

bool tpi_archive_no_memory(const tpi_archive_reader *r)
{
    return tpi_file_fail(r->error, TP_E_MEMORY, r->path, "out of memory");
}

tpi_stored *tpi_archive_add(const tpi_archive_reader *r)
{
    tp_archive *a = r->a;
    tpi_stored *v = a->n < INT32_MAX
                        ? tpi_bump_grow(&a->bump, a->tensors, a->n, &a->size, sizeof *v)
                        : NULL;
    if (!v) {
        tpi_archive_no_memory(r);
        return NULL;
    }
    a->tensors = v;
    v[a->n] = (tpi_stored){0};
    return &v[a->n++];
}

bool tpi_archive_add_text(const tpi_archive_reader *r, const char *key, const char *text)
{
    tp_archive *a = r->a;
    tpi_stored_text *v = a->n_texts < INT32_MAX ? tpi_bump_grow(&a->bump, a->texts, a->n_texts,
                                                                &a->texts_size, sizeof *v)
                                                : NULL;
    if (!v)
        return tpi_archive_no_memory(r);
    a->texts = v;
    v[a->n_texts++] = (tpi_stored_text){key, text};
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tpi_stored *)a)->entry.name, ((const tpi_stored *)b)->entry.name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tpi_stored_text *)a)->key, ((const tpi_stored_text *)b)->key);
}

bool tpi_archive_sort(const tpi_archive_reader *r, int first)
{
    const tp_archive *a = r->a;
    if (a->n - first > 1)
        qsort(a->tensors + first, (size_t)(a->n - first), sizeof *a->tensors, by_name);
    for (int i = first + 1; i < a->n; i++)
        if (by_name(&a->tensors[i - 1], &a->tensors[i]) == 0)
            return TPI_ARCHIVE_BAD(r, "\"%.60s\" is there twice", a->tensors[i].entry.name);
    return true;
}

bool tpi_archive_sort_texts(const tpi_archive_reader *r, int first)
{
    const tp_archive *a = r->a;
    if (a->n_texts - first > 1)
        qsort(a->texts + first, (size_t)(a->n_texts - first), sizeof *a->texts, by_key);
    for (int i = first + 1; i < a->n_texts; i++)
        if (by_key(&a->texts[i - 1], &a->texts[i]) == 0)
            return TPI_ARCHIVE_BAD(r, "the text \"%.60s\" is there twice", a->texts[i].key);
    return true;
}

bool tpi_archive_check_span(const tpi_archive_reader *r, const tpi_stored *t, uint64_t have)
{
    int64_t bytes = t->raw.size;
    bool empty = false, huge = false;
    for (int i = 0; i < t->entry.rank; i++) {
        empty |= t->entry.shape[i] == 0;
        huge |= t->entry.shape[i] && __builtin_mul_overflow(bytes, t->entry.shape[i], &bytes);
    }
    if (t->raw.dtype == TP_N_DTYPES)
        return true;
    if (huge || bytes > INT64_MAX / 8)
        return TPI_ARCHIVE_BAD(r, "the sizes of \"%.60s\" multiply beyond 2^60 bytes",
                               t->entry.name);
    if (have != (empty ? 0 : (uint64_t)bytes))
        return TPI_ARCHIVE_BAD(r,
                               "\"%.60s\" needs %" PRId64 " bytes, and %" PRIu64 " are its own",
                               t->entry.name, empty ? 0 : bytes, have);
    return true;
}

const tpi_stored *tpi_archive_find(const tp_archive *a, const char *name)
{
    const tpi_stored key = {.entry.name = name};
    return a->n ? bsearch(&key, a->tensors, (size_t)a->n, sizeof key, by_name) : NULL;
}

const tpi_stored_text *tpi_archive_find_text(const tp_archive *a, const char *key)
{
    const tpi_stored_text k = {.key = key};
    return a->n_texts ? bsearch(&k, a->texts, (size_t)a->n_texts, sizeof k, by_key) : NULL;
}

/* ---- for writing ------------------------------------------------------------------------------------ */

const char *tpi_archive_elements(const tp_tensor *t, void **copy)
{
    *copy = NULL;
    if (t->flags & TPI_CONTIGUOUS)
        return t->data;
    *copy = tpi_take(&t->ctx->mem, tpi_bytes(t));
    if (*copy)
        tpi_copy_out(t, *copy);
    return *copy;
}

const char *tpi_archive_why_no_name(const char *name)
{
    const char *limit = name + strlen(name), *at = name;
    for (int n = 1; at < limit && n > 0; at += n)
        n = tpi_utf8_length(at, limit);
    return !*name                              ? "it is empty"
           : at < limit                        ? "it is no UTF-8"
           : strcmp(name, "__metadata__") == 0 ? "the format has it for itself"
                                               : NULL;
}
