/* Random loop programs that keep the rules, of the forms that lowering gives (lower/loop.h). */
#ifndef TAPIR_TEST_LOOP_DRAW_H
#define TAPIR_TEST_LOOP_DRAW_H

#include "loop_run.h"

/* Draws a program whose sizes are numbers. Returns false when it would store nothing: then there is none. */
bool loop_draw(tpi_bump *memory, tp_graph *g, uint64_t *seed, tpi_loop *out);

#endif
