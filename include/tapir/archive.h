/* tapir: tensors in files, by their names: safetensors, shards with an index, npz.
 *
 *     tp_archive *a = tp_archive_open(tp, "model.safetensors");
 *     for (int i = 0; i < tp_archive_n(a); i++)
 *         puts(tp_archive_entry_of(a, i)->name);
 *     tp_tensor *w = tp_archive_tensor(a, "wte.weight");
 *     tp_archive_free(a);
 *
 * A file is mapped, not read: a tensor lies in it where it can, without a copy. The mapping belongs to the archive and
 * to each tensor that lies in it, and ends with the last of them, tp_archive_free or not. Nothing writes to it, and
 * files that are replaced by others, as all functions here do it, leave it as it is; a file that is made shorter in
 * place ends the program that looks at what was lost. */
#ifndef TAPIR_ARCHIVE_H
#define TAPIR_ARCHIVE_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct tp_archive tp_archive;

/* What a tensor is, before it is asked for. */
typedef struct tp_archive_entry {
    const char *name;
    const char *type; /* as the file has it: "F16", "<f4" */
    tp_dtype dtype;   /* F16 and BF16 become TP_F32; TP_N_DTYPES: there is none for it */
    int rank;
    int64_t shape[TP_MAX_RANK];
} tp_archive_entry;

/* Which of these a file is, its first bytes tell:
 *
 * - safetensors;
 * - the index of a model in several such files, model.safetensors.index.json: a JSON object whose "weight_map" has for
 *   each tensor the file it is in. They lie in the folder of the index: a name with a folder in it is refused;
 * - npz: a zip of .npy files, as NumPy's savez and savez_compressed write them. To read squeezed (deflated) ones,
 *   libz.so.1 is loaded; where it is not installed, that is an error.
 *
 * Names and places are checked as a whole: TP_E_FORMAT for what is malformed, and for a file in which two tensors have
 * one name or overlap. NULL on error. It lives until tp_archive_free or tp_close. */
TP_FN(tp_archive *, tp_archive_open, tp_ctx *tp, const char *path);
#define tp_archive_open(...) tp_archive_open_at(TP_PLACE, __VA_ARGS__)
TP_API void tp_archive_free(tp_archive *a); /* NULL is fine */

/* Its tensors, in the order of their names: 0 to tp_archive_n(a) - 1. NULL when out of range; lives as long as a. */
TP_API int tp_archive_n(const tp_archive *a);
TP_API const tp_archive_entry *tp_archive_entry_of(const tp_archive *a, int i);
/* By name; NULL: there is none. */
TP_API const tp_archive_entry *tp_archive_find(const tp_archive *a, const char *name);

/* Texts beside the tensors ("__metadata__"; of an index its own "metadata"; in an npz byte strings of rank 0), in the
 * order of their keys: the key of number i, NULL when out of range; the text of a key, NULL: there is none. */
TP_API const char *tp_archive_key(const tp_archive *a, int i);
TP_API const char *tp_archive_text(const tp_archive *a, const char *key);

/* The tensor of a name, of the open scope. It lies in the mapped file, unless it is of 16-bit floats, of bool, squeezed, in
 * Fortran's order or the other order of bytes, or not aligned to its elements: then it is a copy. TP_E_NAME: there is
 * none; TP_E_DTYPE: tapir has no such type; TP_E_FORMAT: its checksum (npz has some) is another. */
TP_FN(tp_tensor *, tp_archive_tensor, tp_archive *a, const char *name);
#define tp_archive_tensor(...) tp_archive_tensor_at(TP_PLACE, __VA_ARGS__)

/* ---- writing ------------------------------------------------------------------------------- */

/* A concrete tensor, or a text, under a name. */
typedef struct tp_archive_item {
    const char *name;
    tp_tensor *tensor; /* NULL: the text */
    const char *text;
} tp_archive_item;
/* A file of n items, whole or not at all: npz (not squeezed) if its name ends in ".npz", else safetensors. The same items
 * make the same bytes, in whatever order. TP_E_NAME: a name is there twice, is empty, no UTF-8, or "__metadata__".
 * TP_E_LIMIT: names, shapes and texts of a safetensors file are more than 100,000,000 bytes, which none may have. */
TP_FN(tp_status, tp_archive_save, tp_ctx *tp, const char *path, int n,
      const tp_archive_item *items);
#define tp_archive_save(...) tp_archive_save_at(TP_PLACE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
