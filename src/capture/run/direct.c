#include "capture/run/direct.h"

static bool may_enter(const tp_program *p, int n_feeds, int n_results)
{
    return p->c.entry && p->sized && p->n_random == 0 && p->constants.is_packed &&
           p->n_roots == n_results && p->n_feeds == n_feeds;
}

static void find_feeds(const tpi_shared *s)
{
    const tp_program *p = s->program;
    for (int i = 0; i < p->n_feeds; i++)
        s->pointers[i] = p->feeds[i] && p->feeds[i]->index >= 0
                             ? p->plan->values[p->feeds[i]->index].buffer
                             : -1;
}

/* Each in memory of its own, without gaps? */
static bool find_results(const tpi_shared *s)
{
    const tp_program *p = s->program;
    int32_t *pointers = s->pointers + p->n_feeds;
    bool ok = true;
    for (int i = 0; i < p->n_roots && ok; i++) {
        const tpi_value *v = &p->plan->values[p->roots[i]->index];
        ok = v->storage == TPI_IN_OUTPUT && v->layout.root == p->roots[i]->index &&
             v->buffer >= 0;
        pointers[i] = v->buffer;
        for (int k = 0; k < i && ok; k++)
            ok = pointers[k] != v->buffer;
    }
    return ok;
}

/* Is what else it reads without gaps? */
static bool sources_are_flat(const tpi_shared *s)
{
    const tp_program *p = s->program;
    bool ok = true;
    for (int i = 0; i < p->plan->n_buffers && ok; i++) {
        const tpi_buffer *x = &p->plan->buffers[i];
        if (x->storage != TPI_IN_SOURCE)
            continue;
        const tp_tensor *node = p->graph->nodes[x->node];
        bool fed = false;
        for (int k = 0; k < p->n_feeds; k++)
            fed |= s->pointers[k] == i;
        ok = fed || (node->n_in && node->in[0]->flags & TPI_CONTIGUOUS);
    }
    return ok;
}

void tpi_direct_find(tp_ctx *ctx, tpi_shared *s, int n_feeds, int n_results)
{
    if (s->direct || !may_enter(s->program, n_feeds, n_results))
        return;
    s->pointers = tpi_take(&ctx->mem, (size_t)(n_feeds + n_results) * sizeof *s->pointers);
    if (!s->pointers)
        return;
    find_feeds(s);
    s->direct = find_results(s) && sources_are_flat(s) ? TPI_DIRECT : TPI_DIRECT_NOT;
}

bool tpi_direct_enter(const tpi_shared *s)
{
    tp_program *p = s->program;
    int64_t fail[3] = {0, 0, 0};
    return p->c.entry(p->pointers, p->symbols, p->random, p->constants.packed->data,
                      p->memory.arena + p->memory.arena_bytes, fail, &p->library) == 0;
}
