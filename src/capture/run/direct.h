/* Programs in C that are entered at once: feeds and results are put into the program's table of pointers, and nothing
 * is looked up or made on the way. */
#ifndef TAPIR_DIRECT_H
#define TAPIR_DIRECT_H

#include "capture/record/segment_def.h"

/* After a run by its C program, of so many feeds and results: can it be entered at once while its sizes stay? */
void tpi_direct_find(tp_ctx *ctx, tpi_shared *s, int n_feeds, int n_results);

static inline bool tpi_is_direct(const tpi_shared *s)
{
    return s->direct == TPI_DIRECT && s->program->sized && !s->program->partly;
}

/* Elements without gaps. */
static inline void tpi_direct_feed(const tpi_shared *s, int i, const void *elements)
{
    const tp_program *p = s->program;
    if (s->pointers[i] >= 0)
        p->pointers[s->pointers[i]] = (void *)elements;
}

static inline void tpi_direct_result(const tpi_shared *s, int i, void *elements)
{
    const tp_program *p = s->program;
    p->pointers[s->pointers[p->n_feeds + i]] = elements;
}

/* False: an op fails. */
bool tpi_direct_enter(const tpi_shared *s);

#endif
