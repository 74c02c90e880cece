/* One object being compiled or loaded: C text goes in, the address of a function comes out, some
 * time later. Whatever goes wrong is an answer with a message; the program goes on without. */
#ifndef TAPIR_BUILD_H
#define TAPIR_BUILD_H

#include "core/core.h"

typedef struct tpi_build tpi_build;

typedef enum tpi_build_state {
    TPI_BUILD_RUNNING,
    TPI_BUILD_READY,
    TPI_BUILD_FAILED
} tpi_build_state;

typedef struct tpi_build_spec {
    /* The translation units; several are compiled side by side and linked. They lie in one folder
     * as unit0.c, unit1.c and so on. Compiled with
     * tpi_cc_flags (cc/cc.h). An object may be shared with other builds of the same text,
     * so it has no writable statics. The text is not copied and must stay while the build is RUNNING. */
    int n_sources;
    const char *const *sources;
    const char *entry;        /* a function the object must define */
    const char *const *flags; /* more flags for the compiler, up to NULL; may be NULL */
    int limit_ms;             /* a compiler that takes longer is killed; 0: ten minutes */
    bool
        second; /* the compiler starts at the second poll, or at one that waits: what is asked for
                    once is not worth it, and what asks first is not held up */
} tpi_build_spec;

/* How many compilers can run at a time. */
int tpi_build_cpus(void);
/* Loads the object from the cache, or starts the compiler and returns at once. NULL only when
 * memory is out (the context's error is left alone). Freed before the context's memory is. */
tpi_build *tpi_build_start(tp_ctx *ctx, const tpi_build_spec *spec);
/* How far it is. Waits at most wait_ms for it to end: 0 not at all, -1 as long as it takes, or until
 * tp_interrupt. The time limit works here only: poll now and then, or a hung compiler stays. */
tpi_build_state tpi_build_poll(tpi_build *b, int wait_ms);
/* Did the last poll find that? */
bool tpi_build_failed(const tpi_build *b);
/* The address of a symbol; NULL when it has none or is not READY. Good until tpi_build_free. */
void *tpi_build_symbol(const tpi_build *b, const char *name);
/* Why it failed: "cc: exit status 1: unit0.c:3:5: error: ...", up to 2 KB, lines with '\n'
 * between them. When it is READY: why it could not be kept in the cache, or "". */
const char *tpi_build_message(const tpi_build *b);
/* And as a status: TP_E_COMPILER or TP_E_MEMORY. */
tp_status tpi_build_error(const tpi_build *b);
bool tpi_build_from_cache(const tpi_build *b);
/* From start to READY or FAILED; so far, when it runs. */
double tpi_build_ms(const tpi_build *b);
/* Kills the compiler if it still runs, unloads the object. NULL is fine. */
void tpi_build_free(tpi_build *b);

#endif
