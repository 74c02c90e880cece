/* Draws of tp_vmap: each sample has the numbers that it has where the function is called for one sample after the other.
 * One sample moves a stream on by a number of positions that sizes decide. So rows of a draw begin so far from each
 * other, a draw moves the stream on by what one sample draws, and behind all of them it moves to where the last sample ends. */
#include "op/random_position.h"
#include "transform/rules.h"

#include <string.h>

static tpi_dims *dims_of(const tpi_transform *f)
{
    const tp_graph *g = f->ctx->tracing ? f->ctx->tracing : f->around;
    return g ? g->dims : NULL;
}

static tp_tensor *too_many(const tpi_transform *f, tpi_at at)
{
    return tpi_fail(f->ctx, at, f->rules->what, TP_E_LIMIT, "too many random numbers");
}

/* Adds what `times` draws of node t take; NULL, or the failed tensor. */
static tp_tensor *add_draw(const tpi_transform *f, tpi_sample_draws *to, const tp_tensor *t,
                           int64_t times)
{
    const tpi_random_attrs *a = t->attrs;
    const tpi_at at = t->file ? TPI_AT(t->file, t->line) : f->at;
    tpi_dims *dims = dims_of(f);
    const int64_t moves = tpi_random_moves(dims, a, t->rank, t->shape);
    int i = 0;
    while (i < to->n && to->v[i].stream != a->stream)
        i++;
    if (i == to->n) {
        struct tpi_sample_stream *v = tpi_bump_take(f->memory, (size_t)to->n + 1, sizeof *v);
        if (!v)
            return tpi_no_memory(f->ctx, at, f->rules->what);
        if (to->n)
            memcpy(v, to->v, (size_t)to->n * sizeof *v);
        v[to->n++] = (struct tpi_sample_stream){.stream = a->stream};
        to->v = v;
    }
    int64_t *sum = &to->v[i].positions;
    *sum = tpi_dim_add(dims, *sum, tpi_dim_mul(dims, times, moves));
    return *sum == TPI_NO_DIM ? too_many(f, at) : NULL;
}

static tp_tensor *add_draws(const tpi_transform *f, tpi_sample_draws *to, const tp_graph *g,
                            int64_t times)
{
    tp_tensor *failed = NULL;
    for (int i = 0; i < g->n_nodes && !failed; i++) {
        const tp_tensor *t = g->nodes[i];
        const tpi_loop_attrs *a = tpi_loop_of(t);
        if (!tpi_node_draws(t))
            continue;
        if (!tpi_is_block(t))
            failed = add_draw(f, to, t, times);
        else if (a && !a->has_pred)
            failed = add_draws(f, to, a->body->graph, tpi_dim_mul(dims_of(f), times, a->count));
        else
            failed = tpi_fail(
                f->ctx, t->file ? TPI_AT(t->file, t->line) : f->at, f->rules->what, TP_E_STATE,
                "values decide how many random numbers the block draws: draw them "
                "before; or ask for the same numbers for all (same_draws)");
    }
    return failed;
}

tp_tensor *tpi_sample_draws_find(tpi_transform *f, const tpi_body *body)
{
    return f->draws_once ? NULL : add_draws(f, &f->draws, body->graph, 1);
}

static int64_t positions_of(const tpi_transform *f, int64_t stream)
{
    int i = 0;
    while (f->draws.v[i].stream != stream)
        i++;
    return f->draws.v[i].positions;
}

static tp_tensor *put(const tpi_transform *f, tpi_at at, const tpi_random_attrs *a)
{
    tp_graph *g = f->ctx->tracing ? f->ctx->tracing : f->around;
    return a->moves == TPI_NO_DIM ? too_many(f, at) : tpi_random_again(at, f->ctx, g, a);
}

/* 1, or 0 where there are no samples. */
static int64_t first_sample(const tpi_transform *f)
{
    return tpi_dim_min(dims_of(f), f->samples, 1);
}

tp_tensor *tpi_sample_draw(const tpi_transform *f, const tp_tensor *t, tpi_at at)
{
    const tpi_random_attrs *a = t->attrs;
    if (f->draws_once)
        return put(f, at, a);
    tpi_dims *dims = dims_of(f);
    tpi_random_attrs all = *a;
    if (t->rank == TP_MAX_RANK)
        return tpi_fail(f->ctx, at, f->rules->what, TP_E_AXIS,
                        "random numbers of %d axes and one of the samples: more than %d",
                        TP_MAX_RANK, TP_MAX_RANK);
    all.moves =
        tpi_dim_mul(dims, first_sample(f), tpi_random_moves(dims, a, t->rank, t->shape));
    all.shape.n++;
    all.shape.v[0] = f->samples;
    memcpy(all.shape.v + 1, a->shape.v, (size_t)a->shape.n * sizeof *a->shape.v);
    all.apart.n++;
    all.apart.v[0] = positions_of(f, a->stream);
    memcpy(all.apart.v + 1, a->apart.v, (size_t)a->apart.n * sizeof *a->apart.v);
    return put(f, at, &all);
}

tp_tensor *tpi_sample_draws_end(const tpi_transform *f)
{
    tpi_dims *dims = dims_of(f);
    const int64_t others = tpi_dim_sub(dims, f->samples, first_sample(f));
    tp_tensor *failed = NULL;
    for (int i = 0; i < f->draws.n && !failed; i++) {
        const int64_t positions = f->draws.v[i].positions;
        const tpi_random_attrs none = {
            .kind = TPI_RANDOM_UNIFORM,
            .dtype = TP_F32,
            .shape = {.n = 1           },
            .b = 1,
            .stream = f->draws.v[i].stream,
            .apart = { .n = 1, .v = {positions}},
            .moves = tpi_dim_mul(dims, others, positions)
        };
        tp_tensor *t = put(f, f->at, &none);
        failed = t->status == TP_OK ? NULL : t;
    }
    return failed;
}
