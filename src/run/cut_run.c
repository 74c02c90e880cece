/* What runs the kernels of a C program: one after the other, or the jobs of a cut. */
#include "run/cut_run.h"

#include "run/program.h"

#include <stdatomic.h>
#include <string.h>

/* ---- jobs ---------------------------------------------------------------------------------------------- */

typedef struct jobs {
    const tpi_plan_cut *cut;
    tpi_job_fn *run;
    void *env;
    atomic_llong next; /* job that nobody has taken */
} jobs;

static void run_thread(void *env, size_t thread)
{
    jobs *j = env;
    const tpi_plan_cut *c = j->cut;
    for (int64_t before = -1;;) {
        const int64_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (i >= c->jobs)
            return;
        const int64_t job = i * c->stride % c->jobs;
        j->run(j->env, (int)thread, job, before);
        before = job;
    }
}

void tpi_cut_run(const tpi_plan_cut *c, tpi_pool *pool, tpi_job_fn *run, void *env)
{
    jobs j = {.cut = c, .run = run, .env = env};
    tpi_pool_run(c->threads > 1 ? pool : NULL, run_thread, &j, (size_t)c->threads);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* Who runs kernels: the program; a job of images or tasks, in which bands are cut; a job of boxes. */
typedef enum caller_kind { THE_PROGRAM, IN_IMAGE_OR_TASK, IN_BOX } caller_kind;

typedef struct caller {
    tpk_env env;
    tpi_cuts *cuts; /* NULL: nothing is cut */
    caller_kind kind;
    bool tells;       /* a profile hears of kernels */
    tpk_part *part;   /* of each kernel; NULL: all of it */
    const int *order; /* of kernels; NULL: by number */
} caller;

static int64_t run_cut(const caller *outer, const tpi_plan_cut *c);

static const tpi_plan_cut *cut_at(const caller *r, int kernel)
{
    if (!r->cuts || r->kind == IN_BOX)
        return NULL;
    const tpi_plan_cut *in = r->kind == THE_PROGRAM ? r->cuts->in[kernel] : NULL;
    const tpi_plan_cut *band = r->cuts->band[kernel];
    if (band && band->late)
        tpi_cuts_again(r->cuts, kernel, r->env.s);
    return in ? in : band && band->n > 1 ? band : NULL;
}

static int64_t run_kernel(const caller *r, int number)
{
    const tpk_library *l = r->env.library;
    const tpk_called *k = &r->env.kernels[number];
    if (l->tick && r->tells)
        l->tick(l->watch, number);
    const int64_t e = k->kernel(&r->env, r->env.args + k->at, r->part);
    if (e > 0)
        r->env.fail[0] = number, r->env.fail[1] = e, r->env.fail[2] = TPI_RUN_INDEX;
    return e ? r->env.fail[2] : TPI_RUN_OK;
}

/* Kernels from `first` on, or of the order, until one fails. */
static int64_t run_some(const caller *r, int first, int n)
{
    int64_t failed = TPI_RUN_OK;
    for (int i = first; i < first + n && !failed;) {
        const int number = r->order ? r->order[i] : i;
        const tpi_plan_cut *cut = cut_at(r, number);
        failed = cut ? run_cut(r, cut) : run_kernel(r, number);
        i += cut ? cut->n : 1;
    }
    return failed;
}

/* ---- a cut --------------------------------------------------------------------------------------------- */

typedef struct cut_call {
    const caller *outer;
    const tpi_plan_cut *cut;
    int64_t fail[TPI_MAX_THREADS]
                [3]; /* by thread: of the first of its kernels that failed; [2] is 0: none */
} cut_call;

/* What is gone when a box is done is not where kernels take it to be, but where that box has it which is number
 * `thread` in a grid of boxes. */
static void go_home(const cut_call *k, int thread, const tpk_part *part, void **p)
{
    const tpi_boxes *x = &k->cut->boxes;
    const int64_t per = x->row_parts > 1 ? x->all_rows / x->rows : 1;
    const int64_t o = thread / per * x->outer - part->o0,
                  row = thread % per * x->rows - part->r0;
    for (int i = 0; i < k->cut->n_moves; i++) {
        const tpi_buffer_move *m = &k->cut->moves[i];
        p[m->buffer] = (void *)((intptr_t)k->outer->env.p[m->buffer] +
                                (intptr_t)(o * m->outer + row * m->row));
    }
}

/* A thread has pointers to buffers, scratch memory, and what it keeps from box to box. Boxes in an image are of
 * that image. */
static void begin_box(const cut_call *k, int thread, int64_t before, caller *r)
{
    const tpi_plan_cut *c = k->cut;
    const tpk_part *image = k->outer->part;
    char *const at = (char *)r->env.scratch + (size_t)thread * c->room;
    r->part->shared = c->images;
    r->part->keep = at + c->room;
    r->part->fresh = before < 0 || tpi_box_part(&c->boxes, before).o0 != r->part->o0;
    r->env.p = (void **)(void *)at;
    r->env.scratch = at + r->cuts->pointers;
    if (before < 0)
        memcpy(at, k->outer->env.p, (size_t)r->cuts->what.plan->all_buffers * sizeof(void *));
    go_home(k, thread, r->part, r->env.p);
    r->part->o0 += image ? image->o0 : 0;
    r->part->o1 += image ? image->o0 : 0;
    r->kind = c->images ? IN_IMAGE_OR_TASK : IN_BOX;
    r->order = NULL; /* that of a task that the band is in */
    r->tells &= thread == 0;
}

static void begin_task(int thread, caller *r)
{
    r->env.scratch = (char *)r->env.scratch + (size_t)thread * r->cuts->room;
    r->env.library = &r->cuts->library;
    r->kind = IN_IMAGE_OR_TASK;
    r->part = NULL;
    r->order = r->cuts->order;
    r->cuts = r->cuts->alone;
}

static void run_job(void *env, int thread, int64_t job, int64_t before)
{
    cut_call *k = env;
    const tpi_plan_cut *c = k->cut;
    int64_t fail[3] = {0, 0, 0}, *first = k->fail[thread];
    tpk_part part = c->tasks ? (tpk_part){0} : tpi_box_part(&c->boxes, job);
    caller r = *k->outer;
    r.env.fail = fail;
    r.part = &part;
    if (c->tasks)
        begin_task(thread, &r);
    else
        begin_box(k, thread, before, &r);
    const bool failed = c->tasks ? run_some(&r, c->tasks[job].first, c->tasks[job].n)
                                 : run_some(&r, c->first, c->n);
    if (failed && (!first[2] || fail[0] < first[0]))
        memcpy(first, fail, sizeof fail);
}

/* Whoever is first in the program's order is told of. */
static int64_t run_cut(const caller *outer, const tpi_plan_cut *c)
{
    cut_call k;
    int64_t *first = outer->env.fail;
    k.outer = outer;
    k.cut = c;
    memset(k.fail, 0, (size_t)c->threads * sizeof *k.fail);
    first[2] = TPI_RUN_OK;
    tpi_cut_run(c, outer->cuts->what.team->pool, run_job, &k);
    for (int i = 0; i < c->threads; i++)
        if (k.fail[i][2] && (!first[2] || k.fail[i][0] < first[0]))
            memcpy(first, k.fail[i], sizeof k.fail[i]);
    return first[2];
}

/* ---- a program ----------------------------------------------------------------------------------------- */

static caller caller_of(const tpk_env *env, caller_kind kind)
{
    caller r = {.env = *env, .kind = kind, .tells = kind == THE_PROGRAM};
    memcpy(&r.cuts, &env->library->cuts, sizeof r.cuts); /* late sizes change them */
    return r;
}

static int64_t run_program(const tpk_env *env, int64_t n)
{
    const tpk_library *l = env->library;
    const caller r = caller_of(env, THE_PROGRAM);
    if (l->tick)
        l->tick(l->watch, -1);
    const int64_t failed = run_some(&r, 0, (int)n);
    if (l->tick && !failed)
        l->tick(l->watch, (int)n);
    return failed;
}

static void run_band(const tpk_env *env, int64_t first, int64_t n)
{
    const caller r = caller_of(env, IN_IMAGE_OR_TASK);
    run_some(&r, (int)first, (int)n);
}

void tpi_library_runs(tpk_library *l, tpi_cuts *cuts)
{
    l->run = run_program;
    l->band = run_band;
    l->cuts = cuts;
}
