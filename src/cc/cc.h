/* The system's C compiler as a child process: found, started without a shell, never waited for
 * unless asked.
 *
 * The host program keeps its signal handlers and is sent nothing. It may even reap our children
 * (SIGCHLD ignored, or a handler that waits for any child): then how the child ended is not
 * known, and what it left behind has to be judged instead. */
#ifndef TAPIR_CC_H
#define TAPIR_CC_H

#include "cc/folder.h"
#include "core/core.h"

#include <sys/types.h>

/* The path is absolute; links are kept, since a compiler may look at its own name. Size and time
 * are of the file it leads to. */
typedef struct tpi_cc {
    char path[TPI_PATH];
    uint64_t size;
    int64_t modified_ns;
} tpi_cc;

/* Finds a compiler by name in PATH, or by path. `name` NULL: TAPIR_CC or "cc". False with the
 * reason in why[]. */
bool tpi_cc_find(tpi_cc *cc, const char *name, char *why, size_t size);

/* What -march=native means on this machine, as text: folders are shared between machines. */
void tpi_cc_machine(char *text, size_t size);

/* The flags of every object, up to NULL: code for this machine, and nothing that would change
 * what is computed. */
extern const char *const tpi_cc_flags[];
/* What follows the inputs where an object is linked, up to NULL. */
extern const char *const tpi_cc_link_flags[];

typedef enum tpi_proc_state {
    TPI_PROC_NONE,
    TPI_PROC_RUNNING,
    TPI_PROC_ENDED,
    TPI_PROC_LOST /* ended, reaped by someone else */
} tpi_proc_state;

/* A child process. Zeroed: none. */
typedef struct tpi_proc {
    tpi_proc_state state;
    pid_t pid, parent;
    int out;    /* the read end of its output; -1 when closed */
    int status; /* of waitpid, when ENDED */
    tpi_undone *undone;
    size_t len; /* of text[] */
    bool full;  /* text[] is; the rest of the output is thrown away */
    char text[2048];
} tpi_proc;

/* Starts argv[0], an absolute path, in the folder of descriptor `folder` and path `dir`, which is also
 * its place for temporary files; messages in English; a process group of its own, which ends with
 * tp_abandon too. Returns 0 or an errno. */
int tpi_proc_start(tpi_proc *p, tp_ctx *ctx, int folder, const char *dir,
                   const char *const *argv);
/* Takes what it has printed and looks whether it has ended, without waiting. */
tpi_proc_state tpi_proc_poll(tpi_proc *p);
/* Sleeps until one of them may have ended, at most about `ms` milliseconds. */
void tpi_proc_sleep(const tpi_proc *procs, int n, int ms);
/* Ends it and its own children. Does nothing when it is not running. */
void tpi_proc_kill(tpi_proc *p);

#endif
