/* Whole files. Nothing here knows contexts: a failure leaves its text in the caller's buffer. */
#ifndef TAPIR_FILE_H
#define TAPIR_FILE_H

#include "base/undone.h"

typedef struct tpi_file_error {
    tp_status status; /* TP_OK, TP_E_IO, TP_E_MEMORY, TP_E_NULL; of those who read one TP_E_FORMAT, too */
    char text[300];   /* "model.npy: No such file or directory" */
} tpi_file_error;

/* Sets the error, unless there is one: "path: " and the format. Returns false. */
bool tpi_file_fail(tpi_file_error *e, tp_status status, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct tpi_file_bytes {
    char *data;
    size_t size, capacity;
} tpi_file_bytes;

/* A regular file or pipe of at most `limit` bytes. False: see `error`. */
bool tpi_file_read(tpi_mem *mem, const char *path, size_t limit, tpi_file_bytes *out,
                   tpi_file_error *error);
void tpi_file_free(tpi_mem *mem, tpi_file_bytes *b);

/* A file's bytes in place: mapped where it is a regular file, else read. A file that is made shorter
 * while it is mapped ends the program that looks at its lost pages. */
typedef struct tpi_file_map {
    const char *data;
    size_t size;
    void *mapped; /* NULL: `bytes` has it */
    tpi_file_bytes bytes;
} tpi_file_map;
bool tpi_file_map_open(tpi_mem *mem, const char *path, tpi_file_map *out,
                       tpi_file_error *error);
void tpi_file_map_close(tpi_mem *mem, tpi_file_map *map);
/* Copies bytes that lie in the map. Large parts go out of memory as they are copied: the file still has
 * them. */
void tpi_file_map_copy(const tpi_file_map *map, void *to, const char *from, size_t size);

/* A file that is written whole or not at all: under another name in the same folder first. Errors
 * stick; begin and put need no check, tpi_file_end tells. A process that is killed leaves that other file
 * behind, and the next save into the folder removes it; tp_abandon does at once. */
typedef struct tpi_writer {
    tpi_mem *mem;
    int fd, folder;
    const char *path; /* the caller's, until the end */
    tpi_undone *undone;
    char temp[24];
    tpi_file_error error;
} tpi_writer;

void tpi_file_begin(tpi_writer *w, tpi_mem *mem, tpi_undones *undone, const char *path);
void tpi_file_put(tpi_writer *w, const void *data, size_t size);
/* Gives the file its name. False when anything failed (w->error): then nothing is left behind,
 * and what had the name before is as it was. */
bool tpi_file_end(tpi_writer *w);
/* Instead of tpi_file_end: leaves nothing behind. */
void tpi_file_abandon(tpi_writer *w);

#endif
