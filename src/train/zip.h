/* Zip files (PKWARE's APPNOTE 6.3): what lies where in one, and writing one whose members are not squeezed. */
#ifndef TAPIR_ZIP_H
#define TAPIR_ZIP_H

#include "base/strbuf.h"
#include "train/archive_def.h"

typedef struct tpi_zip_member {
    const char *name; /* not closed by a 0 */
    size_t name_length;
    uint64_t header, at; /* where its own header lies, and its bytes, */
    uint64_t packed,
        size; /* of which there are so many, and so many when they are no longer squeezed */
    uint32_t sum;
    bool squeezed; /* by DEFLATE */
} tpi_zip_member;

/* All members, in order of place; none overlaps another, or the directory. False: the error is set. */
bool tpi_zip_read(const tpi_archive_reader *r, const tpi_file_map *map, tpi_zip_member **out,
                  size_t *n);

/* Begun with a writer, a path and where it is. Errors stick to the writer. */
typedef struct tpi_zip_writer {
    tpi_writer *w;
    tpi_str directory;
    uint64_t at, n;
} tpi_zip_writer;

/* The header of a member; its bytes follow, the first of them at a multiple of 64. */
void tpi_zip_put_member(tpi_zip_writer *z, const char *name, uint64_t size, uint32_t sum);
/* The directory, after all. */
void tpi_zip_put_end(tpi_zip_writer *z);

#endif
