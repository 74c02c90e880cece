/* Loop programs from text, as tpi_loop_print writes them. */
#ifndef TAPIR_TEST_LOOP_READ_H
#define TAPIR_TEST_LOOP_READ_H

#include "ir/graph_def.h"
#include "lower/loop.h"

/* Symbols are those of `g`; new ones are added. What stands behind " ; " in a line is no part of it. False: `why` says
 * what line and what is wrong with it. */
enum { LOOP_READ_WHY = 200 };
bool loop_read(tpi_bump *memory, tp_graph *g, const char *text, tpi_loop *out,
               char why[LOOP_READ_WHY]);

/* Is it the same when it is printed and read again? False: `why`. */
bool loop_same_text(tp_graph *g, const tpi_loop *l, char why[LOOP_READ_WHY]);

/* The text of a file of less than 64 KB, which the caller frees; an empty one when there is none. */
char *loop_read_file(const char *path);

#endif
