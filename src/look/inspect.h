/* Looking at a program: what the texts of its kernels and of its memory share. */
#ifndef TAPIR_INSPECT_H
#define TAPIR_INSPECT_H

#include "run/program.h"

/* The program's plan, or one that is made because the reference engine needs none, which
 * tpi_shown_plan_free frees. NULL: no memory, the context's error tells. */
tpi_plan *tpi_shown_plan(tp_program *p);
void tpi_shown_plan_free(const tp_program *p, tpi_plan *plan);
/* "%3", or whose arena it is: ` of the bodies of %3`. `body`: the number of the body whose plan it
 * is; 0: none. */
void tpi_put_owner(tpi_str *s, int body, const tpi_buffer *b);
/* ` "h" : f32[4,3]`, as far as there is a name and a type. */
void tpi_put_like(tpi_str *s, const tpi_plan *plan, const tpi_buffer *b);

#endif
