/* Loop programs as text (lower/loop.h shows one). */
#ifndef TAPIR_LOOP_TEXT_H
#define TAPIR_LOOP_TEXT_H

#include "lower/loop.h"

/* Appends the program, so many characters further in; behind a statement, the user's line. */
void tpi_loop_print(const tpi_loop *l, int indent, tpi_str *out);

#endif
