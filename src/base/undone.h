/* What a context has under way outside of its memory: compilers that run, files that are not whole yet,
 * folders for a while. It stands in a table, so that a signal handler can end and remove it all
 * (tp_abandon). What finds no memory for its entry is only missed by that.
 *
 * A process that is killed leaves such files behind. Each is locked as long as its maker lives, and so
 * whoever comes next can tell what is left over (tpi_is_left_over). */
#ifndef TAPIR_UNDONE_H
#define TAPIR_UNDONE_H

#include "base/mem.h"

#include <signal.h>
#include <sys/types.h>

enum { TPI_UNDONE_NAME = 24 };

typedef struct tpi_undone {
    int32_t kind; /* set last: a handler in any thread may look */
    pid_t owner;  /* a fork has the table too, and nothing in it is its own */
    pid_t group;
    int folder;
    char name[TPI_UNDONE_NAME];
} tpi_undone;

/* A part of the table. It grows at its end and never shrinks until all is over. */
typedef struct tpi_undones {
    struct tpi_undones *next;
    tpi_undone v[8];
} tpi_undones;

void tpi_undones_free(tpi_undones *all, tpi_mem *mem);
/* Ends and removes it all. May be called in a signal handler. */
void tpi_undones_end(tpi_undones *all);

/* New entries; NULL: there is no room. The folder's descriptor stays open and the name is what it is until
 * the entry is taken out. Signals are held off (below) from before the thing is made until it is in the
 * table, and around its end and tpi_undone_done. */
tpi_undone *tpi_undone_group(tpi_undones *all, tpi_mem *mem, pid_t group);
tpi_undone *tpi_undone_file(tpi_undones *all, tpi_mem *mem, int folder, const char *name);
tpi_undone *tpi_undone_folder(tpi_undones *all, tpi_mem *mem, int parent, const char *name);
/* NULL is fine. */
void tpi_undone_done(tpi_undone *e);

/* No handler runs in this thread until they are let in. */
void tpi_signals_off(sigset_t *before);
void tpi_signals_on(const sigset_t *before);

/* Locks the new file or folder `fd`, made as `name`, as long as it is open. False: somebody took it for
 * left over and removes it; make another one. Where there are no locks it is true. */
bool tpi_lock_new(int fd, int folder, const char *name);
/* Did a process make it that has ended since? Then `fd` is locked now, and still has that name. */
bool tpi_is_left_over(int fd, int folder, const char *name);

/* Removes a folder with the files in it. May be called in a signal handler. */
void tpi_folder_remove(int parent, const char *name);

#endif
