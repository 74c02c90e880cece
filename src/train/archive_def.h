/* What an archive is, whatever the format of its files.
 *
 * A file is read in two stages. First all that says what is where: names, types, shapes, places; what is malformed is
 * found here. Elements are looked at when they are asked for. */
#ifndef TAPIR_ARCHIVE_DEF_H
#define TAPIR_ARCHIVE_DEF_H

#include "base/bump.h"
#include "base/file.h"
#include "core/raw.h"
#include "tapir/archive.h"
#include "train/json.h"

/* A file in memory, held by archives and by tensors that lie in it. */
typedef struct tpi_held_file {
    int32_t refs;
    tpi_mem *mem;
    tpi_file_map map;
} tpi_held_file;

/* One holder less. */
void tpi_held_file_release(tpi_held_file *f);

/* A tensor in a file. */
typedef struct tpi_stored {
    tp_archive_entry entry; /* first: entries are these */
    tpi_raw raw;
    const tpi_held_file *file;
    uint64_t begin, end; /* its elements, or what they are squeezed to */
    /* npz: */
    bool squeezed;
    bool summed;  /* there is a checksum, */
    uint32_t sum; /* of the header, which has `head` bytes before the elements, too */
    size_t head;  /* squeezed like these */
} tpi_stored;

typedef struct tpi_stored_text {
    const char *key, *text;
} tpi_stored_text;

struct tp_archive {
    tpi_owned base;
    tp_ctx *ctx;
    tpi_bump bump;          /* all below lies in it */
    tpi_stored *tensors;    /* sorted by name */
    tpi_stored_text *texts; /* sorted by key */
    tpi_held_file **files;  /* one reference each */
    int32_t n, size, n_texts, texts_size, n_files, files_size;
};

/* What is being read into an archive. */
typedef struct tpi_archive_reader {
    tp_archive *a;
    const char *path;
    tpi_file_error *error;
} tpi_archive_reader;

/* "path: TEXT", TP_E_FORMAT; false. */
#define TPI_ARCHIVE_BAD(r, ...) tpi_file_fail((r)->error, TP_E_FORMAT, (r)->path, __VA_ARGS__)
bool tpi_archive_no_memory(const tpi_archive_reader *r);

/* ---- reading files: false, and the error is set */

/* Each adds what the file has, its tensors from `first` on sorted by name. */
bool tpi_safetensors_read(tpi_archive_reader *r, const tpi_held_file *file);
bool tpi_npz_read(tpi_archive_reader *r, const tpi_held_file *file);
/* The index of a model in several files, which are opened. */
bool tpi_shards_read(tpi_archive_reader *r, const tpi_held_file *index);

/* What begins a safetensors file, whose header is not as long as these bytes say as text or a zip. */
bool tpi_is_safetensors(const char *bytes, size_t size);

/* A text that the archive keeps, closed by a 0; of a string of JSON, too. NULL: an error. */
char *tpi_archive_keep(const tpi_archive_reader *r, const char *text, size_t length);
const char *tpi_archive_keep_string(const tpi_archive_reader *r, tpi_json *j);

/* A new last tensor, or text, zeroed; NULL: no memory, which is the error. */
tpi_stored *tpi_archive_add(const tpi_archive_reader *r);
bool tpi_archive_add_text(const tpi_archive_reader *r, const char *key, const char *text);
/* A member of an object of JSON as a text. `loose`: a number or a word is one, too, and what is neither is left out. */
bool tpi_archive_read_text(const tpi_archive_reader *r, tpi_json *j, bool loose);
/* Sorts those from `first` on; two of one name are an error. */
bool tpi_archive_sort(const tpi_archive_reader *r, int first);
bool tpi_archive_sort_texts(const tpi_archive_reader *r, int first);
/* A new file that the archive holds, empty, and one that is mapped. NULL: the error is set. */
tpi_held_file *tpi_archive_add_file(const tpi_archive_reader *r);
const tpi_held_file *tpi_archive_file(const tpi_archive_reader *r, const char *path);

/* How many elements has it? Those of a type that no tensor has are not counted before. */
size_t tpi_archive_count(const tpi_stored *t);
/* Do type and shape need these bytes? */
bool tpi_archive_check_span(const tpi_archive_reader *r, const tpi_stored *t, uint64_t have);

/* ---- archives inside the library */

/* Opened where the caller has room; false: nothing is left open, and `error` tells. */
bool tpi_archive_open(tp_archive *a, tp_ctx *ctx, const char *path, tpi_file_error *error);
/* The same of bytes, which live as long, as if they were the file of that path. */
bool tpi_archive_parse(tp_archive *a, tp_ctx *ctx, const char *path, const void *bytes,
                       size_t size, tpi_file_error *error);
void tpi_archive_close(tp_archive *a);
/* NULL: there is none. */
const tpi_stored *tpi_archive_find(const tp_archive *a, const char *name);
const tpi_stored_text *tpi_archive_find_text(const tp_archive *a, const char *key);

/* The elements as the file has them, row-major, to their place (tpi_raw_place) in memory for all; NULL, or what is
 * wrong. */
const char *tpi_archive_read(const tpi_stored *t, tp_ctx *ctx, char *to);
/* The tensor, of the open scope; failed: the error is that of `what`. */
tp_tensor *tpi_archive_make(const tpi_stored *t, tp_ctx *ctx, tpi_at at, const char *what);
/* Can tpi_archive_copy do it? */
static inline bool tpi_archive_copies(const tpi_stored *t)
{
    return !t->squeezed && !t->summed && !t->raw.fortran;
}
/* Its elements to row-major memory. Nothing of it can fail. */
void tpi_archive_copy(const tpi_stored *t, void *to);

/* ---- writing: items in the order of the format; false, and the error is set */

bool tpi_safetensors_save(tp_ctx *ctx, const char *path, int n, const tp_archive_item *items,
                          tpi_file_error *error);
bool tpi_npz_save(tp_ctx *ctx, const char *path, int n, const tp_archive_item *items,
                  tpi_file_error *error);
/* By the ending of the name; `items` are sorted. */
bool tpi_archive_write(tp_ctx *ctx, const char *path, int n, tp_archive_item *items,
                       tpi_file_error *error);
/* The elements of a concrete tensor, row-major: its own, or `*copy`, which has tpi_bytes(t). NULL: no memory, or there
 * are none. */
const char *tpi_archive_elements(const tp_tensor *t, void **copy);
bool tpi_archive_is_utf8(const char *text);
/* Can it be a name? Else why not. */
const char *tpi_archive_why_no_name(const char *name);

#endif
