/* What every loop program keeps. */
#ifndef TAPIR_LOOP_VERIFY_H
#define TAPIR_LOOP_VERIFY_H

#include "lower/loop.h"

/* Of a program that breaks a rule: the statement that does, and in `why` which rule; -1: it is fine. */
enum { TPI_LOOP_WHY = 120 };
int tpi_loop_verify(tp_ctx *ctx, const tpi_loop *l, char why[TPI_LOOP_WHY]);

#endif
