/* Files of the format safetensors: 8 bytes with the length of the header, least first; the header, a JSON object
 *     {"__metadata__": {"KEY": "TEXT", ...}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 * and the elements, to which the offsets lead. */
#ifndef TAPIR_SAFETENSORS_H
#define TAPIR_SAFETENSORS_H

#include "base/file.h"
#include "base/strbuf.h"
#include "core/core.h"

typedef struct tpi_st_type {
    char name[5]; /* "F32" */
    uint8_t size; /* bytes of an element in the file */
    uint8_t half; /* 0, or 1 + the tpi_half that it is */
    tp_dtype dtype;
} tpi_st_type;

typedef struct tpi_st_tensor {
    const char *name;
    size_t name_at; /* while the header is read: its place in the texts */
    const tpi_st_type *type;
    int rank;
    int64_t shape[TP_MAX_RANK];
    uint64_t begin, end; /* after the header */
} tpi_st_tensor;

typedef struct tpi_st_text {
    const char *key, *text;
    size_t key_at, text_at;
} tpi_st_text;

/* A file that was read and is right: its tensors and texts are sorted by name. */
typedef struct tpi_safetensors {
    tpi_mem *mem;
    tpi_file_map map;
    const char *data;
    tpi_str names;
    tpi_st_tensor *tensors;
    int n_tensors, tensors_size;
    tpi_st_text *texts;
    int n_texts, texts_size;
} tpi_safetensors;

/* False: nothing is left open, and `error` tells. */
bool tpi_safetensors_open(tpi_mem *mem, const char *path, tpi_safetensors *out,
                          tpi_file_error *error);
void tpi_safetensors_close(tpi_safetensors *f);
/* NULL: there is none. */
const tpi_st_tensor *tpi_safetensors_find(const tpi_safetensors *f, const char *name);
const char *tpi_safetensors_text(const tpi_safetensors *f, const char *key);
/* Its elements, row-major, in this machine's order; of type->dtype. */
void tpi_safetensors_copy(const tpi_safetensors *f, const tpi_st_tensor *t, void *to);

/* What is written: concrete tensors, contiguous, with their names, or a name and a text. */
typedef struct tpi_st_item {
    const char *name, *text;
    const tp_tensor *t; /* NULL: text */
} tpi_st_item;
/* Sorts the items: texts, and then tensors, those of large elements first, so that all are aligned; by name. */
bool tpi_safetensors_save(tpi_mem *mem, tpi_undones *undone, const char *path, int n,
                          tpi_st_item *items, tpi_file_error *error);

#endif
