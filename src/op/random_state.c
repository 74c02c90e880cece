/* Seed, streams and positions of a context. */
#include "ir/body.h"
#include "kernel/text/philox.h"
#include "op/random_position.h"
#include "tapir/random.h"

#include <string.h>

/* ---- streams ------------------------------------------------------------------------------------------ */

/* The first of the list that is not before `stream`. */
static int32_t place_of(const tp_ctx *ctx, uint64_t stream)
{
    int32_t first = 0, end = ctx->n_streams;
    while (first < end) {
        const int32_t middle = first + (end - first) / 2;
        if (ctx->streams[middle].number < stream)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

bool tpi_stream_add(tp_ctx *ctx, uint64_t stream)
{
    const int32_t i = place_of(ctx, stream);
    if (stream == 0 || (i < ctx->n_streams && ctx->streams[i].number == stream))
        return true;
    tpi_stream *v =
        tpi_grow(&ctx->mem, ctx->streams, ctx->n_streams, &ctx->streams_size, sizeof *v);
    if (!v)
        return false;
    memmove(v + i + 1, v + i, (size_t)(ctx->n_streams - i) * sizeof *v);
    v[i] = (tpi_stream){.number = stream};
    ctx->streams = v;
    ctx->n_streams++;
    return true;
}

bool tpi_streams_add(const tp_graph *g)
{
    bool ok = true;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        if (t->op->draws)
            ok = tpi_stream_add(g->ctx, (uint64_t)((const tpi_random_attrs *)t->attrs)->stream);
        for (int k = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0; k-- > 0 && ok;)
            ok = tpi_streams_add(bodies[k]->graph);
    }
    return ok;
}

tpi_stream *tpi_stream_of(tp_ctx *ctx, uint64_t stream)
{
    return stream ? &ctx->streams[place_of(ctx, stream)] : NULL;
}

uint64_t *tpi_stream_position(tp_ctx *ctx, uint64_t stream)
{
    return stream ? &tpi_stream_of(ctx, stream)->at : &ctx->random_at;
}

bool tpi_positions_note(tp_ctx *ctx, tpi_positions *p)
{
    const size_t bytes = (size_t)ctx->n_streams * sizeof *p->others;
    *p = (tpi_positions){.first = ctx->random_at, .n = ctx->n_streams};
    if (p->n == 0)
        return true;
    p->others = tpi_take(&ctx->mem, bytes);
    if (p->others)
        memcpy(p->others, ctx->streams, bytes);
    return p->others;
}

/* Streams that were added since are where they begin. */
void tpi_positions_back(tp_ctx *ctx, const tpi_positions *p)
{
    if (p->n && !p->others) /* they were not noted */
        return;
    ctx->random_at = p->first;
    for (int32_t i = 0, k = 0; i < ctx->n_streams; i++) {
        tpi_stream *s = &ctx->streams[i];
        const bool was = k < p->n && p->others[k].number == s->number;
        s->at = was ? p->others[k++].at : 0;
    }
}

void tpi_positions_free(tp_ctx *ctx, tpi_positions *p)
{
    if (p->others)
        tpi_give_back(&ctx->mem, p->others, (size_t)p->n * sizeof *p->others);
    p->others = NULL;
}

/* ---- public ------------------------------------------------------------------------------------------- */

void tp_seed(tp_ctx *tp, uint64_t seed)
{
    tp_set_random_position(tp, seed, 0);
    if (tp && !tpi_is_shared(tp, NULL))
        tpi_positions_back(tp, &(tpi_positions){0});
}

uint64_t tp_random_stream_at(const char *file, int line, tp_ctx *tp, uint64_t stream)
{
    const char *what = "tp_random_stream";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return 0;
    TPI_ALONE_OR(tp, at, what, tp->caller.stream);
    tpi_come_back(tp);
    const uint64_t was = tp->caller.stream;
    if (stream == UINT64_MAX)
        tpi_fail_status(tp, at, what, TP_E_VALUE, "stream 2^64 - 1 is that of tp_split_seed");
    else if (!tpi_stream_add(tp, stream))
        tpi_no_memory(tp, at, what);
    else
        tp->caller.stream = stream;
    return was;
}

TPI_BARE(uint64_t, tp_random_stream, (tp_ctx * tp, uint64_t stream), tp, stream)

void tp_random_position(tp_ctx *tp, uint64_t *seed, uint64_t *position)
{
    if (tp) /* what is pending may have to draw yet */
        tpi_look_at_all(tp, TPI_AT(NULL, 0), TPI_LOOK_OTHER);
    if (seed)
        *seed = tp ? tp->seed : 0;
    if (position)
        *position = tp ? *tpi_stream_position(tp, tp->caller.stream) : 0;
}

void tp_set_random_position(tp_ctx *tp, uint64_t seed, uint64_t position)
{
    if (tp && tpi_is_shared(tp, NULL)) {
        tpi_fail_shared(tp, TPI_AT(NULL, 0), "tp_set_random_position");
    } else if (tp) {
        tpi_look_at_all(tp, TPI_AT(NULL, 0), TPI_LOOK_OTHER); /* a replay would leave it out */
        tp->seed = seed;
        *tpi_stream_position(tp, tp->caller.stream) = position;
    }
}

uint64_t tp_split_seed(uint64_t seed, uint64_t i)
{
    const tpk_words b = tpk_philox(seed, UINT64_MAX, i); /* no op draws from there */
    return (uint64_t)b.w[1] << 32 | b.w[0];
}
