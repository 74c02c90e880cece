/* The programs of a cell. */
#include "batch/cell.h"
#include "grad/sweep.h"

#include <stdio.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* A node's name, which it gets where it has none; NULL: no memory. */
static const char *name_of(const tpi_batch_cell *c, tp_tensor *t)
{
    char name[16];
    if (t->name)
        return t->name;
    snprintf(name, sizeof name, "v%d", (int)t->index);
    return t->status == TP_OK && tpi_graph_name(c->many, t, name) == TP_OK ? t->name : NULL;
}

static bool name_all(const tpi_batch_cell *c, int n, tp_tensor *const *t, const char **names)
{
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = (names[i] = name_of(c, t[i])) != NULL;
    return ok;
}

/* ---- a program ------------------------------------------------------------------------------------------------------- */

/* What one is made of: nodes, and what they are. */
typedef struct draft {
    tpi_batch_cell *c;
    tpi_bump memory;
    int n_in, n_out;
    tp_tensor **in, **out;
    tpi_cell_port *fed, *given;
} draft;

enum { MOST = 4 * TPI_CELL_MOST };

/* False: no memory. */
static bool begin(draft *d, tpi_batch_cell *c)
{
    *d = (draft){.c = c, .memory = TPI_BUMP(&c->ctx->mem)};
    d->in = tpi_bump_take(&d->memory, MOST, sizeof *d->in);
    d->out = tpi_bump_take(&d->memory, MOST, sizeof *d->out);
    d->fed = tpi_bump_take(&d->memory, MOST, sizeof *d->fed);
    d->given = tpi_bump_take(&d->memory, MOST, sizeof *d->given);
    return d->given;
}

static void add_fed(draft *d, tp_tensor *node, const tpi_cell_port *p, int n)
{
    d->in[d->n_in] = node;
    d->fed[d->n_in] = *p;
    d->fed[d->n_in++].n = n;
}

static void add_given(draft *d, tp_tensor *node, const tpi_cell_port *p, int n)
{
    d->out[d->n_out] = node;
    d->given[d->n_out] = *p;
    d->given[d->n_out++].n = n;
}

static bool is_needed(const tpi_nodes *needed, const tp_tensor *t)
{
    bool is = false;
    for (int i = 0; i < needed->n && !is; i++)
        is = needed->v[i] == t;
    return is;
}

typedef struct stops {
    const tpi_batch_cell *c;
    bool taps; /* they are fed */
} stops;

static bool stop(void *user, const tp_tensor *t)
{
    const stops *s = user;
    bool is = false;
    for (int i = 0; s->taps && i < s->c->n_taps && !is; i++)
        is = s->c->taps[i] == t;
    return is;
}

/* Of operands, taps and results' gradients those that what is given needs. False: no memory. */
static bool find_fed(draft *d, bool back)
{
    tpi_batch_cell *c = d->c;
    tpi_nodes needed = {.ctx = c->ctx};
    const bool ok = tpi_collect(&needed, d->n_out, d->out, stop, &(stops){c, back});
    for (int i = 0; i < c->n_in && ok; i++)
        if (is_needed(&needed, c->x[i]))
            add_fed(d, c->x[i], &c->args[i], i);
    for (int i = 0; i < c->n_shared && ok; i++) {
        const tp_tensor *t = c->shared[i].t;
        tpi_cell_port p = {.dtype = t->dtype, .rank = t->rank, .shared = true};
        if (is_needed(&needed, c->shared[i].node))
            add_fed(d, c->shared[i].node, &p, c->n_in + i);
    }
    for (int i = 0; i < c->n_taps && ok && back; i++)
        if (is_needed(&needed, c->taps[i]))
            add_fed(d, c->taps[i], &c->results[c->n_out + i], c->n_in + c->n_shared + i);
    for (int i = 0; i < c->n_out && ok && back; i++) {
        tpi_cell_port p = c->results[i];
        p.of_result = true;
        if (c->dys[i] && is_needed(&needed, c->dys[i]))
            add_fed(d, c->dys[i], &p, i);
    }
    tpi_nodes_free(&needed);
    return ok;
}

/* NULL: the error is set. */
static tpi_cell_side *finish(draft *d, tpi_at at, bool back)
{
    static const tpi_purpose purpose = {.what = "a call in tp_batch"};
    tpi_batch_cell *c = d->c;
    const tp_compile_options opt = {.engine = c->engine};
    const char **names = tpi_bump_take(&d->memory, 2 * MOST, sizeof *names);
    if (!names || !find_fed(d, back) || !name_all(c, d->n_in, d->in, names) ||
        !name_all(c, d->n_out, d->out, names + MOST)) {
        tpi_no_memory(c->ctx, at, c->name);
        return NULL;
    }
    tpi_cell_side *s = tpi_bump_take(&c->memory, 1, sizeof *s);
    tpi_cell_port *in = tpi_bump_copy(&c->memory, d->fed, (size_t)d->n_in, sizeof *in);
    tpi_cell_port *out = tpi_bump_copy(&c->memory, d->given, (size_t)d->n_out, sizeof *out);
    if (!out) {
        tpi_no_memory(c->ctx, at, c->name);
        return NULL;
    }
    *s = (tpi_cell_side){.cell = c, .n_in = d->n_in, .n_out = d->n_out, .in = in, .out = out};
    for (int i = 0; i < s->n_in; i++)
        s->n_varying += !in[i].shared;
    s->program =
        tpi_program_new(c->many, at, &purpose, d->n_in, names, d->n_out, names + MOST, &opt);
    if (!s->program)
        return NULL;
    tpi_object_remove(&s->program->owned); /* it goes when the cell goes */
    s->program->logged = true;             /* the log is of the user's programs */
    return s;
}

/* ---- forward ----------------------------------------------------------------------------------------------------------- */

static tpi_cell_side *make_forward(tpi_batch_cell *c)
{
    draft d;
    tpi_cell_side *s = NULL;
    if (begin(&d, c)) {
        for (int i = 0; i < c->n_out; i++)
            add_given(&d, c->y[i], &c->results[i], i);
        for (int i = 0; i < c->n_taps; i++)
            add_given(&d, c->taps[i], &c->results[c->n_out + i], c->n_out + i);
        s = finish(&d, c->at, false);
    } else {
        tpi_no_memory(c->ctx, c->at, c->name);
    }
    tpi_bump_free(&d.memory);
    return s;
}

/* ---- back ---------------------------------------------------------------------------------------------------------------- */

/* The placeholder for what reaches result i; false: no memory. */
static bool need_dy(tpi_batch_cell *c, int i)
{
    char name[16];
    if (c->dys[i])
        return true;
    snprintf(name, sizeof name, "dy%d", i);
    tp_tensor *dy = tp_placeholder_at(c->at.file, c->at.line, c->many, name,
                                      (tp_dtype)c->y[i]->dtype, c->y[i]->rank, c->y[i]->shape);
    c->dys[i] = dy->status == TP_OK ? dy : NULL;
    return c->dys[i];
}

static bool is_wanted(uint64_t wanted, int k)
{
    return wanted >> k & 1;
}

/* What stands for operand k to gradients. */
static tp_tensor *end_of(const tpi_batch_cell *c, int k)
{
    return k < c->n_in ? c->x[k] : c->shared[k - c->n_in].end;
}

/* Marks what gradients are asked of. */
static void ask(const tpi_batch_cell *c, tpi_sweep *s, uint64_t wanted)
{
    for (int k = 0; k < c->n_in + c->n_shared; k++) {
        if (!is_wanted(wanted, k))
            continue;
        const int slot = end_of(c, k)->slot;
        s->depends[slot] = true;
        s->outer[slot] = k >= c->n_in && c->shared[k - c->n_in].role == TPI_CELL_RIGHT_MATRIX;
    }
    tpi_sweep_spread(s);
}

/* What operands got, and rows of products, the newest first. False: one is none of n samples. */
static bool take_gradients(draft *d, const tpi_sweep *s, uint64_t wanted)
{
    const tpi_batch_cell *c = d->c;
    tpi_cell_port p;
    bool ok = true;
    for (int k = 0; k < c->n_in + c->n_shared && ok; k++) {
        tp_tensor *dx = is_wanted(wanted, k) ? s->grad[end_of(c, k)->slot] : NULL;
        if (!dx)
            continue;
        if (k >= c->n_in && c->shared[k - c->n_in].led)
            dx = tp_add_at(c->at.file, c->at.line, dx,
                           tp_scalar_like_at(c->at.file, c->at.line, dx, 0));
        ok = dx->graph == c->many && tpi_cell_one_of(c, dx, false, &p);
        add_given(d, dx, &p, k);
    }
    for (int i = 0; i < s->n_products && ok; i++) {
        const tpi_product *r = &s->products[i];
        if (!r->dy) /* joined in it */
            continue;
        int k = c->n_in;
        while (end_of(c, k)->slot != r->slot)
            k++;
        if (d->n_out + 2 > MOST)
            return false;
        ok = tpi_cell_one_of(c, r->x, true, &p);
        p.rows = true;
        add_given(d, r->x, &p, k);
        ok = ok && tpi_cell_one_of(c, r->dy, true, &p);
        add_given(d, r->dy, &p, k);
    }
    return ok;
}

/* The sweep in the graph of n samples; false: the error is set, or *odd: it gives what is none of n samples. */
static bool sweep(draft *d, tpi_at at, uint64_t met, uint64_t wanted, bool *odd)
{
    tpi_batch_cell *c = d->c;
    tp_tensor *roots[TPI_CELL_MOST], *ends[TPI_CELL_MOST * 2];
    int n = 0, n_ends = 0;
    for (int i = 0; i < c->n_out; i++) {
        if (met >> i & 1 && !need_dy(c, i))
            return false;
        if (met >> i & 1)
            roots[n++] = c->y[i];
    }
    for (int k = 0; k < c->n_in + c->n_shared; k++)
        ends[n_ends++] = end_of(c, k);
    tpi_sweep s;
    if (!tpi_sweep_start(&s, c->ctx, at, n, roots, n_ends, ends, true))
        return false;
    ask(c, &s, wanted);
    bool ok = tpi_sweep_find_products(&s);
    for (int i = 0; i < c->n_out && ok; i++)
        if (met >> i & 1) {
            tpi_ref(c->dys[i]);
            tpi_sweep_seed(&s, c->y[i], c->y[i]->slot, c->dys[i]);
        }
    ok = ok && tpi_sweep_go(&s);
    *odd = ok && !take_gradients(d, &s, wanted);
    tpi_sweep_done(&s);
    return ok && !*odd;
}

static tpi_cell_side *make_back(tpi_batch_cell *c, tpi_at at, uint64_t met, uint64_t wanted,
                                bool *odd)
{
    tp_ctx *ctx = c->ctx;
    draft d;
    const tpi_paused around = {ctx->frame, ctx->tracing};
    const bool recording = tp_recording(ctx, true), sweeps = ctx->sweeps;
    const bool has_symbols = ctx->has_symbols;
    ctx->frame = NULL;
    ctx->tracing = NULL;
    ctx->sweeps = true;
    c->memory.failed = false; /* there may be some by now */
    tpi_cell_side *s = NULL;
    if (!begin(&d, c)) {
        tpi_no_memory(ctx, at, c->name);
    } else if (tp_scope_begin(ctx) == TP_OK) {
        s = sweep(&d, at, met, wanted, odd) ? finish(&d, at, true) : NULL;
        tp_scope_end(ctx);
    }
    tpi_bump_free(&d.memory);
    tpi_resume(ctx, around);
    ctx->sweeps = sweeps;
    ctx->has_symbols = has_symbols;
    tp_recording(ctx, recording);
    if (!s)
        return NULL;
    s->met = met;
    s->wanted = wanted;
    s->next = c->back;
    c->back = s;
    return s;
}

tpi_cell_side *tpi_cell_back(tpi_batch_cell *c, tpi_at at, uint64_t met, uint64_t wanted)
{
    bool odd = false;
    for (tpi_cell_side *s = c->back; s; s = s->next)
        if (s->met == met && s->wanted == wanted)
            return s;
    tpi_cell_side *s = make_back(c, at, met, wanted, &odd);
    if (!s && odd)
        tpi_fail(c->ctx, at, c->name, TP_E_BUG, "a gradient has another size for many calls");
    else if (!s && c->ctx->status == TP_OK)
        tpi_no_memory(c->ctx, at, c->name);
    return s;
}

/* ---- both ------------------------------------------------------------------------------------------------------------------ */

const char *tpi_cell_compile(tpi_batch_cell *c)
{
    uint64_t met = 0, wanted = 0;
    bool odd = false;
    const tpi_paused around = {c->ctx->frame, c->ctx->tracing};
    c->ctx->frame = NULL;
    c->ctx->tracing = NULL;
    c->forward = make_forward(c);
    tpi_resume(c->ctx, around);
    for (int i = 0; i < c->n_out; i++)
        met |= (uint64_t)c->asked[i] << i;
    for (int k = 0; k < c->n_in; k++)
        wanted |= (uint64_t)(c->recording && c->asks[k] && c->args[k].dtype >= TP_F32) << k;
    for (int k = 0; k < c->n_shared; k++)
        wanted |= (uint64_t)(c->shared[k].role != TPI_CELL_NO_GRADIENT) << (c->n_in + k);
    if (c->forward && (!met || make_back(c, c->at, met, wanted, &odd)))
        return NULL;
    if (odd)
        return "a gradient in it has another size for many";
    return c->ctx->status == TP_E_MEMORY ? "" : "no program can be made of it";
}
