/* How much of a program runs at a time: what a run decides, at its sizes and for its threads.
 *
 * A *cut* is some kernels in a row and the *jobs* into which their work is cut. Jobs can be done in any order,
 * and each output is computed in one of them as ever, so the bits do not depend on how it is cut:
 *
 *     boxes    a job is all of the kernels, for some outer places and rows of a band. Threads take boxes.
 *     images   a job is all of the kernels, for one place of the first axis of a microbatch. All threads work on
 *              one image: what its kernels leave each other is too much for the cache of one thread.
 *     tasks    a job is some of the kernels, those of a wave that depend on each other. Threads take tasks.
 *
 * What may be cut into boxes and images is the plan's to say (plan/parts.c), since it follows from axes; for
 * tasks nothing has to be said, as they have no axis in common, and are found among all kernels (plan/waves.c).
 * How much is worth it is decided here: by bytes that need not come from far, less what all jobs read again.
 *
 *     scores, softmax, values     boxes: rows of q. The scores of a box are at one place in all boxes of a
 *                                 thread; keys and values are read again by each.
 *     depthwise and its pair      boxes: rows, or channels where a depthwise convolution has more between
 *     conv relu conv relu         images: what lies between is at one place for all; weights are read again.
 *                                 A band inside is cut anew, for one image.
 *     products of gradients       tasks of one product each. A band inside is cut for one thread. */
#ifndef TAPIR_CUT_H
#define TAPIR_CUT_H

#include "base/bump.h"
#include "ir/sizes_at.h"
#include "kernel/host/team_host.h"
#include "plan/arena.h"

/* A space of outer places and rows, and its boxes: so many outer places, or rows of one of them. */
typedef struct tpi_boxes {
    int64_t all_outer, all_rows; /* of the space */
    int64_t outers, row_parts;   /* how many boxes along each */
    int64_t outer, rows;         /* of the largest box */
    int64_t step;  /* rows of all boxes of an outer place but the last, the largest */
    bool channels; /* of convolutions, rows are output channels */
    bool folds;    /* what is gone when a box is done has one place in all boxes of a thread */
} tpi_boxes;

/* Kernels order[first] to order[first + n], and how long they may take. */
typedef struct tpi_task {
    int first, n;
    double ns;
} tpi_task;

/* A buffer that is elsewhere in each box: bytes from one outer place, one row, to the next. */
typedef struct tpi_buffer_move {
    int buffer;
    int64_t outer, row;
} tpi_buffer_move;

typedef struct tpi_plan_cut {
    int first, n;          /* kernels of the program; n < 2: it is not cut */
    int64_t jobs, stride;  /* job i of a run is number i * stride % jobs: i, but in tests */
    int threads;           /* that take jobs, at most */
    const tpi_task *tasks; /* by job, the longest first; NULL: jobs are boxes, or images */
    tpi_boxes boxes;
    bool images;
    int n_moves;
    tpi_buffer_move *moves;
    size_t room;   /* scratch memory of a thread, in bytes, for boxes */
    int64_t *late; /* if sizes change in a run: the values of symbols that it is for; NULL */
} tpi_plan_cut;

/* For what they are made. */
typedef struct tpi_cuts_for {
    tp_ctx *ctx;
    const tpi_plan *plan;
    tpi_run_sizes sizes;
    const tpi_team *team;
    bool bands, images, waves; /* which are asked for */
    bool late;                 /* sizes change while it runs */
    size_t nest_room;          /* scratch memory that a nest needs for each thread, at most */
    double wave_ns;            /* what handing out a wave costs */
    uint64_t
        chance; /* of a test, not 0: bands and images are cut by chance, and jobs come in any order */
} tpi_cuts_for;

typedef struct tpi_cuts {
    tpi_cuts_for what;
    tpi_bump mem;
    tpi_plan_cut **band; /* by kernel of the program: the boxes that begin with it, and */
    tpi_plan_cut **in;   /* the images or tasks that it is part of; NULL: none */
    int *order;          /* kernels, by task */
    bool *calls;         /* by kernel: its task has kernels that are no loop nests */
    bool *kept;          /* by buffer: only images see it, in one place for all of them */
    int n_images, n_waves, most_threads; /* of a wave */
    size_t scratch;                      /* bytes that boxes need, of all threads, */
    size_t pointers;                     /* and those of one set of pointers to buffers */
    tpi_arena
        *arena; /* of buffers that live as long as their images or tasks; NULL: the plan's */
    /* For the tasks of a wave: */
    tpi_team team; /* of one thread */
    tpk_library library;
    size_t room;            /* scratch memory of a thread */
    struct tpi_cuts *alone; /* of one thread: bands */
} tpi_cuts;

/* What handing out a wave costs: less is not worth it. */
#define TPI_WAVE_NS 2000.0

/* NULL: no memory. */
tpi_cuts *tpi_cuts_new(const tpi_cuts_for *what);
void tpi_cuts_free(tpi_cuts *c);
/* Cuts the band that begins with this kernel for these values, if it is for others. */
void tpi_cuts_again(tpi_cuts *c, int kernel, const int64_t *symbols);
/* Waves, where they are faster than one step after the other. False: no memory. */
bool tpi_cuts_waves(tpi_cuts *c);
/* Part `number` of the boxes. */
tpk_part tpi_box_part(const tpi_boxes *b, int64_t number);
/* For a cut of so many jobs. */
int64_t tpi_cuts_stride(tpi_cuts *c, int64_t jobs);

#endif
