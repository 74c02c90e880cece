/* The programs of fused composites, kept in the context. They begin as tiles; what takes long that way is compiled. */
#include "run/fused_run.h"

#include "base/clock.h"

#include <string.h>

enum { SYMBOL = -1, DUE_NS = 250000000 };

static void free_programs(tpi_owned *o)
{
    tpi_fused_programs *f = (tpi_fused_programs *)o;
    f->ctx->fused = NULL;
    for (int i = 0; i < TPI_FUSED_PROGRAMS; i++)
        tp_program_free(f->entries[i].program);
    tpi_give_back(&f->ctx->mem, f, sizeof *f);
}

static tpi_fused_programs *programs_of(tp_ctx *ctx)
{
    if (ctx->fused)
        return (tpi_fused_programs *)ctx->fused;
    tpi_fused_programs *f = tpi_take(&ctx->mem, sizeof *f);
    if (!f)
        return NULL;
    memset(f, 0, sizeof *f);
    f->ctx = ctx;
    f->due_ns = DUE_NS;
    tpi_object_add(ctx, &f->owned, free_programs);
    ctx->fused = &f->owned;
    return f;
}

/* Its first size is a symbol, and those of others that are the same axis. */
static void describe(const tpi_fused_call *c, tpi_fused_key *key)
{
    const tp_tensor *x = c->in[0];
    const bool flat = c->what->by_element;
    const bool varies = x->rank > 1 && x->shape[0] > 1;
    memset(key, 0, sizeof *key);
    key->what = c->what;
    key->dtype = x->dtype;
    memcpy(key->v, c->v, sizeof key->v);
    for (int i = 0; i < TPI_FUSED_IN; i++) {
        const tp_tensor *t = i < c->n_in ? c->in[i] : NULL;
        key->rank[i] = !t ? -1 : flat ? 1 : t->rank;
        for (int k = 0; k < key->rank[i]; k++)
            key->shape[i][k] = t->shape[k];
        if (flat ? i == 0 : varies && t && t->rank == x->rank && t->shape[0] == x->shape[0])
            key->shape[i][0] = SYMBOL;
    }
}

/* The entry of a key, maybe in the place of the one that was not used for the longest time. */
static tpi_fused_entry *find(tpi_fused_programs *f, const tpi_fused_key *key)
{
    tpi_fused_entry *oldest = &f->entries[0], *found = NULL;
    for (int i = 0; i < TPI_FUSED_PROGRAMS && !found; i++) {
        tpi_fused_entry *e = &f->entries[i];
        if (e->used && memcmp(&e->key, key, sizeof *key) == 0)
            found = e;
        else if (e->used < oldest->used)
            oldest = e;
    }
    if (found)
        return found;
    tp_program_free(oldest->program);
    *oldest = (tpi_fused_entry){.key = *key};
    return oldest;
}

static tp_program *make(tp_ctx *ctx, tpi_at at, const tpi_fused_key *key)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"}, *const out[] = {"y"};
    static const tpi_purpose purpose = {.what = "a fused composite"};
    const char *feeds[TPI_FUSED_IN];
    const bool has_symbols = ctx->has_symbols;
    tp_graph *g = tp_graph_new(ctx);
    if (!g)
        return NULL;
    tp_tensor *in[TPI_FUSED_IN] = {NULL};
    int n = 0;
    for (int i = 0; i < TPI_FUSED_IN; i++) {
        if (key->rank[i] < 0)
            continue;
        int64_t shape[TP_MAX_RANK];
        memcpy(shape, key->shape[i], sizeof shape);
        if (shape[0] == SYMBOL)
            shape[0] = tp_symbol(g, "n");
        feeds[n++] = names[i];
        in[i] = tp_placeholder_at(at.file, at.line, g, names[i], (tp_dtype)key->dtype,
                                  (int)key->rank[i], shape);
    }
    tp_tensor *y = key->what->ops(at, in, key->v);
    const tp_compile_options opt = {.engine = TP_ENGINE_TILES};
    tp_program *p = NULL;
    if (y->status == TP_OK && tp_name(y, out[0])->status == TP_OK)
        p = tpi_program_new(g, at, &purpose, n, feeds, 1, out, &opt);
    tp_graph_free(g);
    ctx->has_symbols = has_symbols; /* C was given none of these */
    if (p) {
        tpi_object_remove(&p->owned); /* it goes when the others of these go */
        p->logged = true;             /* the log is of the user's programs */
    }
    return p;
}

enum { KEPT = 1 << 18 }; /* bytes of the arena of a program that is not running */

/* NULL: out of memory. */
static tp_tensor *run(tp_program *p, tpi_at at, const tpi_fused_call *c,
                      const tpi_fused_key *key)
{
    tp_tensor flat = *c->in[0], *feeds[TPI_FUSED_IN], *y = NULL;
    int n = 0;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i])
            feeds[n++] = c->in[i];
    if (key->rank[0] < c->in[0]->rank) {
        flat.rank = 1;
        flat.shape[0] = tpi_count(c->in[0]);
        flat.stride[0] = 1;
        feeds[0] = &flat;
    }
    const bool ran = tpi_program_run_sized(p, at, &feeds[0]->shape[0], feeds, NULL, &y);
    if (p->memory.arena_size > KEPT) /* as the results of its ops would be: gone */
        tpi_program_give_arena_back(p);
    if (!ran)
        return NULL;
    if (feeds[0] == &flat) {
        y->rank = c->in[0]->rank;
        memcpy(y->shape, c->in[0]->shape, sizeof y->shape);
        tpi_set_strides(y);
    }
    y->file = at.file;
    y->line = at.line;
    if (tpi_own(y))
        return y;
    tpi_unref(y);
    return NULL;
}

/* The same, and then sees whether it is worth a compiler, or has one's code. */
static tp_tensor *run_entry(const tpi_fused_programs *f, tpi_fused_entry *e, tpi_at at,
                            const tpi_fused_call *c)
{
    tp_program *p = e->program;
    if (tpi_program_has_c(p, 0))
        return run(p, at, c, &e->key);
    const int64_t start = tpi_now_ns();
    tp_tensor *y = run(p, at, c, &e->key);
    e->ran_ns += tpi_now_ns() - start;
    if (y && e->ran_ns >= f->due_ns && p->engine == TP_ENGINE_TILES) {
        p->engine = TP_ENGINE_AUTO;
        if (!tpi_program_start_c(p))
            tpi_forget_error(p->ctx); /* it stays with tiles */
    }
    return y;
}

tp_tensor *tpi_fused_run(tp_ctx *ctx, tpi_at at, const tpi_fused_call *c)
{
    TPI_ALONE(ctx, at, c->what->name);
    tpi_fused_programs *f = programs_of(ctx);
    if (!f)
        return NULL;
    tpi_fused_key key;
    describe(c, &key);
    tpi_fused_entry *e = find(f, &key);
    const bool again = e->used; /* what is called once is not worth a program */
    e->used = ++f->calls;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    if (again && !e->tried) {
        e->tried = true;
        e->program = make(ctx, at, &key);
    }
    tp_tensor *y = e->program ? run_entry(f, e, at, c) : NULL;
    if (!y)
        tpi_forget_error(ctx); /* the ops will tell of their own */
    tpi_error_back(ctx, &earlier);
    return y;
}
