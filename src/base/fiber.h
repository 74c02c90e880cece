/* Functions that wait in the middle, each on a stack of its own, in one thread.
 *
 * A stack has a page below it that nobody may touch: who needs more is ended by the system, and writes over nothing.
 * There are none where neither this file knows the machine nor the C library has ucontext. */
#ifndef TAPIR_FIBER_H
#define TAPIR_FIBER_H

#include "base/stack.h"

#include <stdbool.h>

typedef struct tpi_fiber tpi_fiber;

/* One that is to run nothing yet: of those that are idle, or new; NULL: there is no memory, or no fiber here. */
tpi_fiber *tpi_fiber_take(tpi_fiber **idle);
/* Of one whose function has returned. */
void tpi_fiber_give_back(tpi_fiber **idle, tpi_fiber *f);
/* Of one that does not run. What its function has on the stack is lost if it has not returned. */
void tpi_fiber_close(tpi_fiber *f);
/* All that are idle, but for so many. */
void tpi_fibers_close(tpi_fiber **idle, int but);

/* Runs run(user) until it waits; true: it has returned. A fiber that has can be started again. */
bool tpi_fiber_start(tpi_fiber *f, void (*run)(void *user), void *user);
/* Goes on behind its tpi_fiber_wait. */
bool tpi_fiber_go_on(tpi_fiber *f);
/* In it: back to who started it or had it go on. The mode of floating-point numbers stays with each. */
void tpi_fiber_wait(tpi_fiber *f);

tpi_stack tpi_fiber_stack(const tpi_fiber *f);

#endif
