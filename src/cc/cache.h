/* Compiled objects kept between runs, in a folder that is the user's alone.
 *
 * An entry is one file: the object (a loader does not mind what follows), all the text it was
 * made from, and a trailer with sizes and a checksum. It is written under another name and
 * renamed, so that readers and writers in other processes see whole entries only; and it is
 * used only when its text is equal to what would be compiled now, byte for byte. */
#ifndef TAPIR_CACHE_H
#define TAPIR_CACHE_H

#include "base/mem.h"
#include "cc/folder.h"

enum {
    TPI_ENTRY_NAME = 40 /* bytes of an entry's file name */
};

typedef struct tpi_cache {
    char dir[TPI_PATH];
    int fd; /* of dir; -1: no cache */
} tpi_cache;

/* One of the texts an object was made from. */
typedef struct tpi_piece {
    const char *text;
    size_t size;
} tpi_piece;

typedef enum tpi_cache_answer {
    TPI_CACHE_NONE,
    TPI_CACHE_HIT,
    TPI_CACHE_TAKEN /* a good entry of that name was made from another text */
} tpi_cache_answer;

/* Opens the cache: `dir`, or TAPIR_CACHE, or `tapir` in the user's cache folder. Makes it when it
 * is not there. False with the reason in why[]: it cannot be made, it or a folder above it belongs to
 * another user or may be written by others, it is a link or no folder. */
bool tpi_cache_open(tpi_cache *c, const char *dir, char *why, size_t size);
void tpi_cache_close(tpi_cache *c);

/* The file name that belongs to these texts. */
void tpi_cache_name(char name[TPI_ENTRY_NAME], const tpi_piece *pieces, int n);
/* Looks for an entry. A damaged one, or one that other users may write to, is removed. On a HIT *object
 * is the descriptor of the very file that was read, for the caller to close. */
tpi_cache_answer tpi_cache_find(const tpi_cache *c, const char *name, const tpi_piece *pieces,
                                int n, int *object);
/* Makes the object of descriptor `fd`, opened to append, an entry, where it is, and this user's alone. 0 or
 * an errno. */
int tpi_cache_seal(int fd, const tpi_piece *pieces, int n);
/* Moves a sealed object of another folder into the cache. 0 or an errno. */
int tpi_cache_put(const tpi_cache *c, int folder, const char *object, const char *name);
void tpi_cache_remove(const tpi_cache *c, const char *name);
/* Removes the entries that were not used for longest until at most `limit` bytes are left. */
void tpi_cache_trim(const tpi_cache *c, tpi_mem *mem, uint64_t limit);

#endif
