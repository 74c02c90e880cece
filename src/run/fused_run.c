/* The programs of fused composites, kept in the context. They begin as tiles; what takes long that way is compiled. */
#include "run/fused_run.h"

#include "base/clock.h"
#include "grad/sweep.h"

#include <stdio.h>
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
    const bool flat = c->what->kind == TPI_FUSED_ELEMENTS;
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

/* ---- making one -------------------------------------------------------------------------------------- */

enum {
    MAX_FEEDS = 2 * TPI_FUSED_IN + 1, /* operands, what weighs the result, sums */
    MAX_FETCHES = TPI_FUSED_IN
};

typedef struct maker {
    tpi_at at;
    const tpi_fused_key *key;
    tp_graph *g;
    tp_tensor *in[TPI_FUSED_IN], *out[MAX_FETCHES];
    const char *feeds[MAX_FEEDS];
    int n_feeds, n_out;
} maker;

static tp_tensor *feed(maker *m, const char *name, int rank, const int64_t *shape)
{
    m->feeds[m->n_feeds++] = name;
    return tp_placeholder_at(m->at.file, m->at.line, m->g, name, (tp_dtype)m->key->dtype, rank,
                             shape);
}

/* What wanted operands get of y, onto what they have. */
static void add_gradients(maker *m, tp_tensor *y)
{
    static const char *const names[TPI_FUSED_IN] = {"sum_a", "sum_b", "sum_c", "sum_d",
                                                    "sum_e"};
    tp_tensor *xs[TPI_FUSED_IN], *sums[TPI_FUSED_IN];
    tp_tensor *dy = feed(m, "dy", y->rank, y->shape);
    for (int i = 0; i < TPI_FUSED_IN; i++) {
        if (!(m->key->wanted >> i & 1))
            continue;
        xs[m->n_out] = m->in[i];
        sums[m->n_out++] =
            m->key->begun >> i & 1 ? feed(m, names[i], m->in[i]->rank, m->in[i]->shape) : NULL;
    }
    tpi_grads_onto(m->at, y, dy, m->n_out, xs, sums, m->out);
}

static tp_program *make_in(maker *m)
{
    static const char *const names[TPI_FUSED_IN] = {"a", "b", "c", "d", "e"},
                             *const own[MAX_FETCHES] = {"y", "z", "u", "v", "w"};
    const char *outs[MAX_FETCHES];
    static const tpi_purpose purpose = {.what = "a fused composite"};
    const tp_compile_options opt = {.engine = TP_ENGINE_TILES};
    for (int i = 0; i < TPI_FUSED_IN; i++) {
        int64_t shape[TP_MAX_RANK];
        if (m->key->rank[i] < 0)
            continue;
        memcpy(shape, m->key->shape[i], sizeof shape);
        if (shape[0] == SYMBOL)
            shape[0] = tp_symbol(m->g, "n");
        m->in[i] = feed(m, names[i], (int)m->key->rank[i], shape);
    }
    tp_tensor *y = m->key->what->ops(m->at, m->in, m->key->v);
    bool ok = y->status == TP_OK;
    if (ok && m->key->wanted)
        add_gradients(m, y);
    else
        m->out[m->n_out++] = y;
    for (int i = 0; i < m->n_out && ok; i++) {
        tp_tensor *t = m->out[i];
        ok = t->status == TP_OK && (t->name || tp_name(t, own[i])->status == TP_OK);
        outs[i] = ok ? t->name : NULL; /* it may be dy itself */
    }
    return ok ? tpi_program_new(m->g, m->at, &purpose, m->n_feeds, m->feeds, m->n_out, outs,
                                &opt)
              : NULL;
}

static tp_program *make(tp_ctx *ctx, tpi_at at, const tpi_fused_key *key)
{
    const bool has_symbols = ctx->has_symbols, recording = ctx->caller.recording;
    maker m = {.at = at, .key = key, .g = tp_graph_new(ctx)};
    ctx->caller.recording = true; /* or its nodes would be constants */
    tp_program *p = m.g ? make_in(&m) : NULL;
    ctx->caller.recording = recording;
    tp_graph_free(m.g);
    ctx->has_symbols = has_symbols; /* C was given none of these */
    if (p) {
        tpi_object_remove(&p->owned); /* it goes when the others of these go */
        p->logged = true;             /* the log is of the user's programs */
    }
    return p;
}

/* ---- running one ------------------------------------------------------------------------------------- */

enum { KEPT = 1 << 18 }; /* bytes of the arena of a program that is not running */

/* What a program is run on. */
typedef struct tensors {
    tpi_at at;
    const tp_tensor *x;                          /* the first operand */
    tp_tensor *feed[MAX_FEEDS], *y[MAX_FETCHES]; /* each result with one reference */
    tp_tensor flat[MAX_FEEDS];
    int n_feeds, n_y;
} tensors;

/* Without zeros in what is filled later: it is larger than all else of a call. */
static void begin(tensors *t, tpi_at at, const tp_tensor *x, int n_y)
{
    t->at = at;
    t->x = x;
    t->n_feeds = 0;
    t->n_y = n_y;
}

static void feed_all(tensors *t, const tpi_fused_key *key, int n, tp_tensor *const *in)
{
    for (int i = 0; i < n; i++) {
        if (!in[i])
            continue;
        tp_tensor *to = in[i];
        if (key->what->kind == TPI_FUSED_ELEMENTS && to->rank != 1) {
            to = &t->flat[t->n_feeds];
            *to = *in[i];
            to->rank = 1;
            to->shape[0] = tpi_count(in[i]);
            to->stride[0] = 1;
        }
        t->feed[t->n_feeds++] = to;
    }
}

/* False: out of memory. */
static bool run(tp_program *p, const tpi_fused_key *key, tensors *t)
{
    const bool ran =
        tpi_program_run_sized(p, t->at, &t->feed[0]->shape[0], t->feed, NULL, t->y);
    if (p->memory.arena_size > KEPT) /* as the results of its ops would be: gone */
        tpi_program_give_arena_back(p);
    for (int i = 0; i < t->n_y && ran; i++) {
        tp_tensor *y = t->y[i];
        y->file = t->at.file;
        y->line = t->at.line;
        if (key->what->kind != TPI_FUSED_ELEMENTS)
            continue;
        y->rank = t->x->rank;
        memcpy(y->shape, t->x->shape, sizeof y->shape);
        tpi_set_strides(y);
    }
    return ran;
}

/* The same, and then sees whether it is worth a compiler, or has one's code. */
static bool run_entry(const tpi_fused_programs *f, tpi_fused_entry *e, tensors *t)
{
    tp_program *p = e->program;
    if (tpi_program_has_c(p, 0))
        return run(p, &e->key, t);
    const int64_t start = tpi_now_ns();
    const bool ran = run(p, &e->key, t);
    e->ran_ns += tpi_now_ns() - start;
    if (ran && e->ran_ns >= f->due_ns && p->engine == TP_ENGINE_TILES) {
        p->engine = TP_ENGINE_AUTO;
        if (!tpi_program_start_c(p))
            tpi_forget_error(p->ctx); /* it stays with tiles */
    }
    return ran;
}

/* By the program of the key; one that is used for the first time is not worth a program where `again`. */
static bool run_key(tp_ctx *ctx, const tpi_fused_key *key, bool again, tensors *t)
{
    tpi_fused_programs *f = programs_of(ctx);
    if (!f)
        return false;
    tpi_fused_entry *e = find(f, key);
    const bool worth = e->used || !again;
    e->used = ++f->calls;
    if (worth && !e->tried) {
        e->program = make(ctx, t->at, key);
        e->tried = e->program || ctx->status != TP_E_MEMORY;
    }
    return e->program && run_entry(f, e, t);
}

tp_tensor *tpi_fused_run(tp_ctx *ctx, tpi_at at, const tpi_fused_call *c)
{
    TPI_ALONE(ctx, at, c->what->name);
    tpi_fused_key key;
    describe(c, &key);
    tensors t;
    begin(&t, at, c->in[0], 1);
    feed_all(&t, &key, c->n_in, c->in);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_tensor *y = run_key(ctx, &key, true, &t) ? t.y[0] : NULL;
    if (y && !tpi_own(y)) {
        tpi_unref(y);
        y = NULL;
    }
    if (!y)
        tpi_forget_error(ctx); /* the ops will tell of their own */
    tpi_error_back(ctx, &earlier);
    return y;
}

/* ---- back ---------------------------------------------------------------------------------------------- */

/* The tensor without gaps, of the open scope. */
static tp_tensor *dense(tpi_at at, tp_tensor *t)
{
    return t->flags & TPI_CONTIGUOUS ? t : tp_contiguous_at(at.file, at.line, t);
}

/* Is operand i of the call read on the way back? A shift is not, nor is anything for a shift. */
static bool reads(const tpi_grad *g, const tpi_fused_call *c, int i)
{
    bool more = c->what->kind != TPI_FUSED_SCALED;
    for (int k = 0, x = 0; k < c->n_in; x += c->in[k++] != NULL)
        more |= c->in[k] && k != 2 && tpi_wants(g, x);
    return more && !(c->what->kind == TPI_FUSED_SCALED && i == 2);
}

/* The same, where there is no other way: NULL, or the failed tensor. */
static tp_tensor *run_or_fail(tp_ctx *ctx, const tpi_fused_key *key, tensors *t)
{
    tpi_aside earlier;
    char why[TPI_ERROR_TEXT];
    tpi_error_aside(ctx, &earlier);
    const bool ran = run_key(ctx, key, false, t);
    const tp_status status = ctx->status;
    if (!ran)
        snprintf(why, sizeof why, "%s", ctx->error);
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    if (ran)
        return NULL;
    if (tpi_is_interrupted(ctx))
        return tpi_refuse_interrupted(ctx, t->at, key->what->name);
    return status == TP_OK || status == TP_E_MEMORY
               ? tpi_no_memory(ctx, t->at, key->what->name)
               : tpi_fail(ctx, t->at, key->what->name, status, "%s", why);
}

tp_tensor *tpi_fused_back(tpi_grad *g)
{
    tp_ctx *ctx = g->y->ctx;
    tp_tensor *in[TPI_FUSED_IN], *dy = dense(g->at, g->dy), *sums[TPI_FUSED_IN] = {NULL};
    const tpi_fused_call c = tpi_fused_call_of(g->y, in);
    tp_tensor *failed = dy->status == TP_OK ? NULL : dy;
    tpi_fused_key key;
    describe(&c, &key);
    int to[TPI_FUSED_IN]; /* by result, the operand of the node */
    tensors t;
    begin(&t, g->at, in[0], 0);
    feed_all(&t, &key, c.n_in, in);
    for (int i = 0, k = 0; i < c.n_in && !failed; i++) {
        if (!in[i])
            continue;
        if (reads(g, &c, i))
            failed = tpi_refuse_stale(g->y, g->at, c.what->name, k);
        if (!failed && tpi_wants(g, k)) {
            key.wanted |= 1 << i;
            sums[i] = g->dx[k] ? dense(g->at, g->dx[k]) : NULL;
            key.begun |= sums[i] ? 1 << i : 0;
            failed = sums[i] && sums[i]->status != TP_OK ? sums[i] : NULL;
            to[t.n_y++] = k;
        }
        k++;
    }
    if (failed)
        return failed;
    feed_all(&t, &key, 1, &dy);
    feed_all(&t, &key, TPI_FUSED_IN, sums);
    failed = run_or_fail(ctx, &key, &t);
    for (int i = 0; i < t.n_y && !failed; i++)
        g->dx[to[i]] = t.y[i];
    return failed;
}
