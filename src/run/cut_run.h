/* What runs the kernels of a program in parts, as it was cut (plan/cut.h). */
#ifndef TAPIR_CUT_RUN_H
#define TAPIR_CUT_RUN_H

#include "plan/cut.h"

/* Lets a library's programs run by these cuts; NULL: kernel by kernel. */
void tpi_library_runs(tpk_library *l, tpi_cuts *cuts);

/* run(env, thread, job, before) for every job of a cut, some side by side, a thread's one after the other;
 * `before` is the one that the thread did before, or -1; threads are counted from 0. */
typedef void tpi_job_fn(void *env, int thread, int64_t job, int64_t before);
void tpi_cut_run(const tpi_plan_cut *c, tpi_pool *pool, tpi_job_fn *run, void *env);

#endif
