/* Folders that no other user can exchange for another one: they are opened from the root down, each
 * step by the descriptor of the one before, and used by descriptor from then on. */
#ifndef TAPIR_FOLDER_H
#define TAPIR_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TPI_PATH = 1024 /* bytes of a path we make; longer ones are refused */
};

/* "dir/name" into out[TPI_PATH]; false when it is too long. */
bool tpi_path_join(char *out, const char *dir, const char *name);

/* The descriptor of the folder `path`, which is absolute. It and those above it belong to this user or
 * to root, and nobody else may write there; or it has the sticky bit, and what lies in it is not to be
 * exchanged either. Symbolic links on the way are followed when their owner is one of these. With
 * `make`, folders that are not there are made, for the user alone. -1 with the reason in why[], which
 * names the folder that is at fault if that is another one: "/tmp/x: may be written by other users". */
int tpi_folder_open(const char *path, bool make, char *why, size_t size);
/* The same for a folder of the user's own: no link, no sticky bit makes up for the right to write. */
int tpi_folder_open_own(const char *path, bool make, char *why, size_t size);
/* Makes a folder for this user alone and opens it. -1 and errno. */
int tpi_folder_make(int parent, const char *name);

#endif
