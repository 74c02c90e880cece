/* A loop program on its way to C: what rows (render_rows.c) and columns (render_columns.c) share. */
#ifndef TAPIR_NEST_TEXT_H
#define TAPIR_NEST_TEXT_H

#include "lower/nest.h"
#include "render/render.h"

/* The innermost loop: over a strip, which is elements base + j of an axis for j < m, or over all of the axis. A function
 * of rows (op->by_row) ends the loop over the strip, and begins another one behind its call. Of what the first leaves to
 * the second there are arrays, h5[j] of x5. */
typedef struct tpi_nest_strip {
    int axis;     /* -1: it has none */
    int from, to; /* statements of the loop; to == 0: none is open */
    int part;     /* the first one of the loop that is open */
} tpi_nest_strip;

enum { TPI_STRIP = 256 }; /* elements of a strip that is one for its functions of rows */

typedef struct tpi_nest_text {
    tpi_render *r;
    const tpi_loop *l;
    const tpi_kernel *k;
    int depth; /* of indentation */
    tpi_nest_box
        box; /* a nest that threads share, or that is part of a band, computes a box: */
    int outer; /* axis of outer places o0..o1; -1: they are one place number, o, of box.n_outer axes */
    bool any_size; /* one loop: nests that differ in its size only are one function */
    int n_rows;    /* of scratch */
    tpi_nest_strip strip;
} tpi_nest_text;

#define PUT(...) tpi_str_printf(&n->r->body, __VA_ARGS__)
#define LINE(...) (PUT("%*s", 4 * n->depth, ""), PUT(__VA_ARGS__))

static inline bool tpi_nest_has_box(const tpi_nest_text *n)
{
    return n->outer >= 0 || n->box.n_outer > 0 || n->box.row >= 0;
}

static inline const char *tpi_nest_fold(const tpi_loop_stmt *s)
{
    return tpi_fold_name[s->fold];
}

static inline const char *tpi_nest_type(const tpi_loop_stmt *s)
{
    return tp_dtype_name((tp_dtype)s->type);
}

void tpi_nest_put_size(tpi_nest_text *n, int64_t size);
/* "v3 + i0 * 40", where the row begins. */
void tpi_nest_put_row(tpi_nest_text *n, int address);
/* The value of a statement. */
void tpi_nest_put_value(tpi_nest_text *n, int at);
/* A line for an operation, a store. */
void tpi_nest_put_op(tpi_nest_text *n, int at);
void tpi_nest_put_store(tpi_nest_text *n, int at);
/* Before the name of a fold's function that the library has, what its calls begin with. */
const char *tpi_nest_called(const tpi_nest_text *n, const tpi_loop_stmt *s);

/* Does a statement of these address memory by the axis? Else its loop variable need not be there. */
bool tpi_nest_uses(const tpi_nest_text *n, int from, int to, int axis);

/* "for (int64_t i1 = 0; i1 < 40; i1++) {" over an axis, or the part of it that is computed. */
void tpi_nest_open(tpi_nest_text *n, int axis);
/* Over outer places, whose axes do not run on. */
void tpi_nest_open_places(tpi_nest_text *n);
/* Before a loop of which each turn writes elements of its own and reads none of another turn's. */
void tpi_nest_independent(tpi_nest_text *n);
void tpi_nest_close(tpi_nest_text *n);

/* Does one of these statements call a function of rows, if it may? */
bool tpi_nest_by_rows(const tpi_nest_text *n, int from, int to);
/* The loop over a strip along an axis (-1: it has none) of at most `most` elements, whose body will be these
 * statements. */
void tpi_nest_open_strip(tpi_nest_text *n, int axis, int from, int to, int most);
void tpi_nest_close_strip(tpi_nest_text *n);
/* The innermost loop, over an axis: in strips if these statements need them. */
void tpi_nest_open_inner(tpi_nest_text *n, int axis, int from, int to);
void tpi_nest_close_inner(tpi_nest_text *n);

void tpi_render_rows(tpi_nest_text *n);
void tpi_render_columns(tpi_nest_text *n);

#endif
