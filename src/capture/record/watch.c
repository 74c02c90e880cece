/* What a pure function watches, itself and through those that it calls. */
#include "capture/record/trace.h"

#include <string.h>

size_t tpi_watched_bytes(const tp_function *f)
{
    size_t n = 0;
    for (int k = -1; k < f->pure.n_called; k++)
        n += tpi_watcher(f, k)->n_watched;
    return n;
}

void tpi_watched_copy(const tp_function *f, char *out)
{
    for (int k = -1; k < f->pure.n_called; k++) {
        const tpi_pure *p = tpi_watcher(f, k);
        for (int i = 0; i < p->n_watches; out += p->watches[i++].n)
            memcpy(out, p->watches[i].bytes, p->watches[i].n);
    }
}

int tpi_find_called(const tp_function *f, const tp_function *g)
{
    for (int i = 0; i < f->pure.n_called; i++)
        if (f->pure.called[i] == g)
            return i;
    return -1;
}

void tpi_traced_call(tpi_frame *fr, tpi_at at, tp_function *g)
{
    tp_function *f = fr->f;
    tpi_pure *p = &f->pure;
    fr->trace->recurses |= g->running > 0;
    if (g == f || tpi_find_called(f, g) >= 0)
        return;
    tp_function **v =
        tpi_grow(&f->ctx->mem, p->called, p->n_called, &p->called_size, sizeof(tp_function *));
    fr->trace->partial |= !v;
    if (!v)
        return;
    p->called = v;
    v[p->n_called++] = g;
    p->stale = true; /* what was recorded says nothing of what g watches */
    if (tpi_watched_bytes(f) > TPI_MAX_WATCHED)
        tpi_traced_stop(fr, at, TPI_WHY_watched);
}
