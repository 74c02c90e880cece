/* Calls of pure functions whose launches are known (launches.h).
 *
 * A flow has programs for its sizes. Where C writes out a loop of as many turns as a size says there would be one for each
 * number of turns. So of such calls, without looks and after the tree has loops, it is kept what was launched: for each
 * combination of sizes a list, and the same programs for all. Guards are those of a flow, which has no nodes. */
#ifndef TAPIR_RELAUNCH_H
#define TAPIR_RELAUNCH_H

#include "capture/record/launches.h"
#include "capture/replay/blocks.h"

/* Have calls of this kind come to be nothing but launches? */
bool tpi_may_relaunch(const tp_function *f);
/* A trace with launches, of a call that will be one; NULL: it cannot be. */
tpi_trace *tpi_relaunch_begin(const tp_function *f, int n_in, tp_tensor *const *in);
/* Takes it, when the body has returned. */
void tpi_relaunch_end(tp_function *f, tpi_at at, tpi_trace *t, tp_tensor *const *in, int n_out,
                      tp_tensor *const *out);

/* The one for such a call; NULL: there is none. */
tpi_relaunch *tpi_relaunch_find(const tp_function *f, int n_in, tp_tensor *const *in,
                                int n_out);
/* Computes the call; false: nothing has happened. */
bool tpi_relaunch_call(tpi_relaunch *k, tpi_at at, tp_tensor *const *in, int n_out,
                       tp_tensor **out);
void tpi_relaunches_free(tp_function *f);

#endif
