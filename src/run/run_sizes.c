/* Sizes of a run: what the symbols are, and whether every op takes them. */
#include "ir/body.h"
#include "run/program.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_it(void *user, int symbol)
{
    return symbol == *(const int *)user;
}

static bool names_symbol(const tp_program *p, int64_t dim, int symbol)
{
    return tpi_dim_ask(p->graph->dims, dim, is_it, &symbol);
}

/* The fed axis that gives a symbol its value: the first that is it alone. */
static bool find_giver(const tp_program *p, int symbol, int *feed, int *axis)
{
    int found;
    for (int i = 0; i < p->n_feeds; i++)
        for (int a = 0; p->feeds[i] && a < p->feeds[i]->rank; a++)
            if (tpi_dim_as_symbol(p->graph->dims, p->feeds[i]->shape[a], &found) &&
                found == symbol) {
                *feed = i;
                *axis = a;
                return true;
            }
    return false;
}

/* ": n is 2 (axis 0 of "x")", for the symbols in a size. */
static void put_givers(const tp_program *p, int64_t dim, const int64_t *now, tpi_str *s)
{
    int feed, axis;
    for (int i = 0; i < p->n_symbols; i++)
        if (names_symbol(p, dim, i) && find_giver(p, i, &feed, &axis))
            tpi_str_printf(s, "%s%s is %lld (axis %d of \"%s\")", s->len ? ", " : ": ",
                           tpi_dim_symbol_name(p->graph->dims, i), (long long)now[i], axis,
                           p->feed_names[feed]);
}

/* `dim`: the size that is another one, where the symbols are `now`; 0: type or rank. */
static bool refuse_feed(const tp_program *p, tpi_at at, int i, const tp_tensor *value,
                        int64_t dim, const int64_t *now)
{
    const tp_tensor *want = p->feeds[i];
    tpi_str givers = TPI_STR(&p->ctx->mem);
    put_givers(p, dim, now, &givers);
    tpi_fail_status(p->ctx, at, "tp_program_run",
                    want->dtype == value->dtype ? TP_E_SHAPE : TP_E_DTYPE,
                    "\"%s\" takes %s %s, not %s %s%s", p->feed_names[i],
                    tp_dtype_name((tp_dtype)want->dtype), SHAPE(want),
                    tp_dtype_name((tp_dtype)value->dtype), SHAPE(value),
                    givers.len && !givers.failed ? givers.text : "");
    tpi_str_free(&givers);
    return false;
}

/* A symbol that no fed size gives: does what is computed do without it? */
static bool is_without(const tp_program *p, tpi_at at, int symbol)
{
    tpi_nodes needed = {.ctx = p->ctx};
    bool ok = tpi_collect_run(&needed, p->graph, p->n_roots, p->roots);
    if (!ok)
        tpi_no_memory(p->ctx, at, "tp_program_run");
    for (int i = 0; i < needed.n && ok; i++) {
        const tp_tensor *t = needed.v[i];
        for (int a = 0; a < t->rank && ok; a++)
            ok = !names_symbol(p, t->shape[a], symbol);
        if (!ok)
            tpi_fail_status(p->ctx, t->file ? TPI_AT(t->file, t->line) : at, t->op->name,
                            TP_E_SHAPE,
                            "%s is needed, but no fed size is the symbol \"%s\" alone: give a "
                            "placeholder that size",
                            SHAPE(t), tpi_dim_symbol_name(p->graph->dims, symbol));
    }
    tpi_nodes_free(&needed);
    return ok;
}

bool tpi_bind_sizes(tp_program *p, tpi_at at, tp_tensor *const *feeds, bool *changed)
{
    enum { UNKNOWN = -1 };
    int64_t few[16], *now = few;
    const size_t bytes = (size_t)p->n_symbols * sizeof *now;
    if (p->n_symbols > 16)
        now = tpi_take(&p->ctx->mem, bytes);
    if (!now) {
        tpi_no_memory(p->ctx, at, "tp_program_run");
        return false;
    }
    for (int i = 0; i < p->n_symbols; i++)
        now[i] = UNKNOWN;
    bool ok = true;
    for (int i = 0; i < p->n_feeds && ok; i++) {
        const tp_tensor *want = p->feeds[i], *value = feeds[i];
        if (!want)
            continue;
        if (want->dtype != value->dtype || want->rank != value->rank)
            ok = refuse_feed(p, at, i, value, 0, now);
        for (int a = 0; a < want->rank && ok; a++) {
            int symbol;
            if (!tpi_dim_as_symbol(p->graph->dims, want->shape[a], &symbol))
                continue;
            if (now[symbol] == UNKNOWN)
                now[symbol] = value->shape[a];
        }
    }
    for (int i = 0; i < p->n_symbols; i++)
        if (p->late[i]) {
            now[i] = p->symbols[i];
        } else if (now[i] == UNKNOWN) {
            now[i] = 0;
            ok = ok && is_without(p, at, i);
        }
    for (int i = 0; i < p->n_feeds && ok; i++) {
        const tp_tensor *want = p->feeds[i];
        for (int a = 0; want && a < want->rank && ok; a++) {
            const int64_t size = tpi_dim_is_symbolic(want->shape[a])
                                     ? tpi_dim_eval(p->graph->dims, want->shape[a], now)
                                     : want->shape[a];
            if (size != feeds[i]->shape[a])
                ok = refuse_feed(p, at, i, feeds[i], want->shape[a], now);
        }
    }
    *changed = !p->checked || memcmp(now, p->symbols, bytes) != 0;
    if (ok)
        memcpy(p->symbols, now, bytes);
    if (now != few)
        tpi_give_back(&p->ctx->mem, now, bytes);
    return ok;
}

static bool refuse_size(const tp_program *p, tpi_at at, const tp_tensor *t, int64_t dim)
{
    tpi_str text = TPI_STR(&p->ctx->mem);
    tpi_dim_print(p->graph->dims, dim, &text);
    tpi_fail_status(p->ctx, t->file ? TPI_AT(t->file, t->line) : at, t->op->name, TP_E_SHAPE,
                    "%s is no size in this run", text.failed ? "what it needs" : text.text);
    tpi_str_free(&text);
    return false;
}

/* Behind the error: a model has no lines, but names. */
static void add_name(tp_ctx *ctx, const char *name)
{
    const size_t n = strlen(ctx->error);
    snprintf(ctx->error + n, sizeof ctx->error - n, " (node \"%.80s\")", name);
}

/* Does the op take its operands now that their sizes are known? It says what it says eagerly: a
 * window that fits no size 0, a slice that reaches outside. */
static bool check_rule(const tp_program *p, tpi_at at, const tp_tensor *t, const int64_t *shape)
{
    tp_tensor few[16], *fakes = few, *few_in[16], **in = few_in;
    _Alignas(8) char attrs[1024];
    const size_t n = (size_t)t->n_in;
    tpi_bump memory = TPI_BUMP(&p->ctx->mem);
    if (n > 16) {
        fakes = tpi_bump_take(&memory, n, sizeof *fakes);
        in = tpi_bump_take(&memory, n, sizeof *in);
    }
    bool ok = in;
    if (!ok)
        tpi_no_memory(p->ctx, at, t->op->name);
    for (size_t i = 0; i < n && ok; i++) {
        fakes[i] = *t->in[i];
        fakes[i].graph = NULL;
        tpi_program_shape(p, t->in[i], fakes[i].shape);
        in[i] = &fakes[i];
    }
    if (ok) {
        tpi_program_attrs(p, t, attrs);
        tpi_infer q = {.op = t->op,
                       .at = t->file ? TPI_AT(t->file, t->line) : at,
                       .ctx = p->ctx,
                       .n_in = t->n_in,
                       .in = in,
                       .attrs = attrs};
        ok = t->op->infer(&q);
        if (!ok && t->name)
            add_name(p->ctx, t->name);
        if (ok && (q.rank != t->rank ||
                   memcmp(q.shape, shape, (size_t)q.rank * sizeof *shape) != 0)) {
            tpi_fail_status(p->ctx, q.at, t->op->name, TP_E_BUG,
                            "its shape is not what it was declared to be");
            ok = false;
        }
    }
    tpi_bump_free(&memory);
    return ok;
}

bool tpi_program_check(const tp_program *p, tpi_at at, const tp_tensor *t)
{
    int64_t shape[TP_MAX_RANK];
    tp_tensor *failed;
    tpi_program_shape(p, t, shape);
    for (int a = 0; a < t->rank; a++)
        if (shape[a] < 0)
            return refuse_size(p, at, t, t->shape[a]);
    const char *file = t->file ? t->file : at.file;
    if (t->rank && !tpi_check_shape(p->ctx, TPI_AT(file, t->file ? t->line : at.line),
                                    t->op->name, t->rank, shape, &failed))
        return false;
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++) {
        const int64_t *v = (const int64_t *)(const void *)((const char *)t->attrs + a->offset);
        const int64_t n = a->type == TPI_ATTR_DIMS ? *v++ : a->type == TPI_ATTR_DIM;
        const bool length = tpi_loop_of(t) && a->offset == offsetof(tpi_loop_attrs, length);
        for (int64_t k = 0; k < n && !length; k++)
            if (tpi_program_size(p, v[k]) < 0)
                return refuse_size(p, at, t, v[k]);
    }
    const bool rule = t->op->kind != TPI_SOURCE && t->op->kind != TPI_BLOCK &&
                      t->op->kind != TPI_PORT && t->op->infer;
    return !rule || check_rule(p, at, t, shape);
}

/* Has the size a value before the run: does a fed size give each of its symbols? */
static bool is_given(const tp_program *p, int64_t dim)
{
    int feed, axis;
    bool given = !tpi_dim_is_late(p, dim);
    for (int i = 0; i < p->n_symbols && given; i++)
        given = !names_symbol(p, dim, i) || find_giver(p, i, &feed, &axis);
    return given;
}

static bool refuse_equation(const tp_program *p, tpi_at at, const tpi_equation *e)
{
    tpi_str text = TPI_STR(&p->ctx->mem);
    const int64_t sides[] = {e->a, e->b};
    for (int i = 0; i < 2; i++) {
        tpi_str_put(&text, i ? " and " : "");
        tpi_dim_print(p->graph->dims, sides[i], &text);
        const int64_t value = tpi_dim_eval_stride(p->graph->dims, sides[i], p->symbols);
        if (value == TPI_NO_DIM)
            tpi_str_put(&text, ", which is no size,");
        else if (tpi_dim_is_symbolic(sides[i]))
            tpi_str_printf(&text, ", which is %lld,", (long long)value);
    }
    tpi_str_put(&text, " have to be equal");
    if (e->name)
        tpi_str_printf(&text, " (node \"%s\")", e->name);
    tpi_fail_status(p->ctx, e->at.file ? e->at : at, "assume", TP_E_SHAPE, "%s",
                    text.failed ? "sizes have to be equal" : text.text);
    tpi_str_free(&text);
    return false;
}

/* Of feeds that leave out a size nothing is said of what depends on it. */
static bool check_equations(const tp_program *p, const tp_graph *g, tpi_at at)
{
    bool ok = true;
    for (int i = 0; i < g->n_equations && ok; i++) {
        const tpi_equation *e = &g->equations[i];
        const int64_t a = tpi_dim_eval_stride(p->graph->dims, e->a, p->symbols);
        const int64_t b = tpi_dim_eval_stride(p->graph->dims, e->b, p->symbols);
        if ((a != b || a == TPI_NO_DIM) && is_given(p, e->a) && is_given(p, e->b))
            ok = refuse_equation(p, at, e);
    }
    return ok;
}

/* Is there a size in it that only a run tells? */
static bool is_late_equation(const tp_program *p, const tpi_equation *e)
{
    return tpi_dim_is_late(p, e->a) || tpi_dim_is_late(p, e->b);
}

bool tpi_has_late_equations(const tp_program *p)
{
    bool has = false;
    for (int i = 0; i < p->graph->n_equations && !has; i++)
        has = is_late_equation(p, &p->graph->equations[i]);
    return has;
}

/* Did the run come to the loops that tell the size? */
static bool is_known(const tp_program *p, int64_t dim)
{
    bool known = true;
    for (int i = 0; i < p->n_symbols && known; i++)
        known = !p->late[i] || p->symbols[i] >= 0 || !names_symbol(p, dim, i);
    return known;
}

bool tpi_check_late_equations(const tp_program *p, tpi_at at)
{
    bool ok = true;
    for (int i = 0; i < p->graph->n_equations && ok && p->n_late; i++) {
        const tpi_equation *e = &p->graph->equations[i];
        if (!is_late_equation(p, e) || !is_known(p, e->a) || !is_known(p, e->b))
            continue;
        const int64_t a = tpi_dim_eval_stride(p->graph->dims, e->a, p->symbols);
        const int64_t b = tpi_dim_eval_stride(p->graph->dims, e->b, p->symbols);
        ok = (a == b && a != TPI_NO_DIM) || refuse_equation(p, at, e);
    }
    return ok;
}

static bool check_sizes(tp_program *p, const tp_graph *g, tpi_at at);

/* A body may be one that this run does not enter, so what it does not take is no error yet. */
static bool check_body(tp_program *p, const tp_graph *g, tpi_at at)
{
    tpi_aside earlier;
    const uint64_t failures = p->ctx->failures;
    tpi_error_aside(p->ctx, &earlier);
    bool ok = check_sizes(p, g, at);
    if (!ok && p->ctx->status != TP_E_MEMORY) {
        p->partly = ok = true;
        p->ctx->failures = failures;
        p->ctx->status = TP_OK;
        p->ctx->error[0] = 0;
    }
    tpi_error_back(p->ctx, &earlier);
    return ok;
}

/* With the sizes known, is every size of the program one, and does every op take them? Kernels
 * rely on it. What depends on how many turns a loop takes waits. */
static bool check_sizes(tp_program *p, const tp_graph *g, tpi_at at)
{
    bool ok = check_equations(p, g, at);
    for (int i = 0; i < g->n_nodes && ok; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n && ok; k++)
            ok = check_body(p, bodies[k]->graph, at);
        ok = ok && (tpi_is_late(p, t) || tpi_program_check(p, at, t));
    }
    return ok;
}

bool tpi_program_check_body(tp_program *p, tpi_at at, const tp_graph *body)
{
    return !p->partly || check_sizes(p, body, at);
}

bool tpi_check_sizes(tp_program *p, tpi_at at)
{
    p->partly = false;
    return check_sizes(p, p->graph, at);
}

static bool is_one(const tp_tensor *t, int64_t number)
{
    return tpi_constant_of(t) && t->dtype == TP_I64 && tpi_count(t->in[0]) == 1 &&
           tpi_load_i64(TP_I64, t->in[0]->data) == number;
}

bool tpi_program_says_why(const tp_program *p, const tp_tensor *node)
{
    if (!tpi_reads_slices(node->op) || !node->name || !is_one(node->in[0], 0) ||
        !is_one(node->in[1], 1))
        return false;
    p->ctx->status = TP_OK;
    tpi_fail_status(p->ctx, TPI_AT(node->file, node->line), "if", TP_E_SHAPE, "%s", node->name);
    return true;
}

static bool knows_sizes(const tp_program *p, const tp_graph *g)
{
    bool knows = true;
    for (int i = 0; i < g->n_nodes && !p->checked && knows; i++) {
        tpi_body *bodies[2];
        const int n = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        for (int a = 0; a < g->nodes[i]->rank; a++)
            knows &= !tpi_dim_is_symbolic(g->nodes[i]->shape[a]);
        for (int k = 0; k < n && knows; k++)
            knows = knows_sizes(p, bodies[k]->graph);
    }
    return knows;
}

bool tpi_program_knows_sizes(const tp_program *p)
{
    return knows_sizes(p, p->graph);
}
