/* Steps that are not run one after the other, each of them once.
 *
 * A *wave* is a run of steps that follow each other of which not all depend on each other. What depends
 * on each other in it, directly or not, is a *task*: its steps run in their order, on one thread.
 * The tasks of a wave run side by side. That is for branches, and for what is done to many
 * parameters: steps too small to be cut into parts for the threads.
 *
 * A *microbatch* (micro.c) is a run of steps that are done for one place of the first axis after the
 * other, an image of a batch: what they leave for each other then has the same memory for all
 * images, and stays in the cache when that of all images would not. Only the C program has them. */
#ifndef TAPIR_WAVES_H
#define TAPIR_WAVES_H

#include "ir/sizes_at.h"
#include "kernel/host/team_host.h"
#include "plan/arena.h"

/* Steps order[first] to order[first + n], and how long they may take. */
typedef struct tpi_task {
    int first, n;
    double ns;
} tpi_task;

typedef struct tpi_wave {
    int first, n; /* steps: at most 64 */
    int first_task, n_tasks;
    uint64_t calls; /* by step, bits: its task has steps that are no loop nests */
} tpi_wave;

typedef struct tpi_waves {
    tpk_waves face; /* for the C program */
    tp_program *p;  /* whose runs they are, for who calls them */
    tp_ctx *ctx;
    const tpi_plan *plan;
    tpi_run_sizes sizes;
    tpi_microbatch *micro;
    int n_micro;
    void **pointers; /* by buffer: of the place that is computed; */
    int64_t *shift;  /* bytes from there to those of the next place */
    tpi_team team;   /* of one thread */
    tpk_library library;
    int n, n_tasks, most_tasks; /* waves; tasks of them all; of one */
    tpi_wave *waves;
    tpi_task *tasks;  /* by wave, the longest first */
    int *order;       /* steps, by task */
    int32_t *length;  /* by step: steps of the wave that begins with it, or 0 */
    size_t room;      /* scratch memory of a thread, in bytes */
    tpi_arena *arena; /* of buffers that live as long as their waves */
} tpi_waves;

/* What handing out a wave costs: less is not worth it. */
#define TPI_WAVE_NS 2000.0

/* For what they are found. */
typedef struct tpi_waves_for {
    tp_program *p;
    tp_ctx *ctx; /* whose threads run them */
    const tpi_plan *plan;
    tpi_run_sizes sizes;
    const tpi_team *team;     /* that cuts the kernels of a step which is in no wave */
    double wave_ns;           /* what handing out a wave costs */
    bool waves, microbatches; /* which are asked for */
} tpi_waves_for;

/* Where there are none *found is NULL. False: no memory. */
bool tpi_waves_find(const tpi_waves_for *what, tpi_waves **found);
void tpi_waves_free(tpi_waves *w);
/* So many threads run the tasks of a wave. */
int tpi_waves_lanes(const tpi_waves *w);
/* The wave that begins with this step; NULL: none. */
const tpi_wave *tpi_wave_at(const tpi_waves *w, int step);
/* Finds those of the plan's microbatches that are worth it at these sizes, in order, and what the pointers
 * of buffers are shifted by from place to place. */
void tpi_micro_find(tpi_waves *w);
/* Does only the microbatch see the buffer? */
bool tpi_micro_keeps(const tpi_plan *plan, const tpi_microbatch *m, const tpi_buffer *b);
/* run(env, lane, task) for every task of a wave, some side by side, a lane's one after the other;
 * lanes are counted from 0. */
void tpi_wave_run(const tpi_waves *w, const tpi_wave *wave,
                  void (*run)(void *env, int lane, const tpi_task *task), void *env);

#endif
