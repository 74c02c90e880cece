/* What the C of calls is made of. */
#ifndef TAPIR_RENDER_CALL_H
#define TAPIR_RENDER_CALL_H

#include "lower/call_code.h"
#include "render/render.h"

/* "v3 + (64)": where an operand begins. */
void tpi_render_address(tpi_render *r, const tpi_call_operand *x);
/* Loops over n axes, whose variables are b0, b1, ... if that is their letter; and where they are: " + b0 * (64)". */
void tpi_render_loops(tpi_render *r, char letter, int n, const int64_t *size);
void tpi_render_position(tpi_render *r, char letter, int n, const int64_t *stride);

/* put(r, c) to another text than the kernel's, which has no slots. */
void tpi_render_elsewhere(tpi_render *r, tpi_str *other, const tpi_call_code *c,
                          void (*put)(tpi_render *r, const tpi_call_code *c));

/* render_contraction.c: kernel `n`, behind its memories. */
void tpi_render_contraction(tpi_render *r, int n, const tpi_call_code *c);

#endif
