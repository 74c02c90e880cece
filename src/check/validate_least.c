/* The smallest graph that shows what a pass does wrong.
 *
 * Nodes are cut off, one after the other: a node that is cut is fed the value that it had in the run of
 * the whole. What is still wrong then is a graph of a few nodes; the first rewrites of the pass that
 * make it wrong end with the wrong one. */
#include "base/log.h"
#include "base/strbuf.h"
#include "check/validate.h"
#include "ir/notation.h"
#include "pass/prune.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_TRIES = 2000 };

typedef struct least {
    tp_ctx *ctx;
    const tpi_trial *t; /* the whole */
    const tpi_sample *s;
    const tpi_pass *pass;
    tpi_bump memory;   /* of what is below; a part has its own */
    tpi_nodes all;     /* nodes of the whole that have values, in program order */
    tp_tensor **value; /* of these */
    bool *cut;         /* by index in the graph */
    int *place;        /* in `all`, by index in the graph */
    tp_tensor *root;
    int tries;
} least;

/* A small graph: before the pass and after it, each with feeds and root of its own. */
typedef struct part {
    tpi_bump memory;
    tp_graph *before, *after;
    int n_feeds;
    tp_tensor **of; /* the nodes that are fed, of the whole */
    tp_tensor **feeds, **after_feeds;
    tp_tensor *root, *after_root;
    tpi_sample sample; /* its feeds are values of the whole: no references */
    tpi_rewrites rewrites;
} part;

static bool is_cut(void *user, const tp_tensor *t)
{
    const least *l = user;
    return l->cut[t->index];
}

static void part_free(part *p)
{
    tp_graph_free(p->before);
    tp_graph_free(p->after);
    tpi_bump_free(&p->memory);
}

static bool part_lists(least *l, part *p, const tpi_nodes *needed)
{
    tpi_bump *m = &p->memory;
    for (int i = 0; i < needed->n; i++)
        p->n_feeds += l->cut[needed->v[i]->index];
    const size_t n_feeds = (size_t)p->n_feeds;
    p->of = tpi_bump_take(m, n_feeds, sizeof *p->of);
    p->feeds = tpi_bump_take(m, n_feeds, sizeof *p->feeds);
    p->after_feeds = tpi_bump_take(m, n_feeds, sizeof *p->after_feeds);
    p->sample = (tpi_sample){.n_symbols = l->s->n_symbols,
                             .symbols = l->s->symbols,
                             .n_feeds = p->n_feeds,
                             .feeds = tpi_bump_take(m, n_feeds, sizeof *p->sample.feeds)};
    if (m->failed)
        return false;
    for (int i = 0, n = 0; i < needed->n; i++) {
        tp_tensor *t = needed->v[i];
        if (!l->cut[t->index])
            continue;
        p->of[n] = p->feeds[n] = p->after_feeds[n] = t;
        p->sample.feeds[n++] = l->value[l->place[t->index]];
    }
    return true;
}

/* What l->root needs down to what is cut, and what the pass makes of it. */
static bool part_make(least *l, part *p, int most)
{
    int n_changes = 0;
    tpi_nodes needed = {.ctx = l->ctx, .room = &p->memory};
    *p = (part){.memory = TPI_BUMP(&l->ctx->mem),
                .root = l->root,
                .after_root = l->root,
                .rewrites = {.most = most}};
    if (tpi_collect(&needed, 1, &l->root, is_cut, l) && part_lists(l, p, &needed))
        p->before = tpi_prune(l->t->g, false, p->n_feeds, p->feeds, 1, &p->root);
    if (p->before)
        p->after = tpi_prune(l->t->g, false, p->n_feeds, p->after_feeds, 1, &p->after_root);
    if (p->after)
        p->after = tpi_run_pass(p->after, l->pass, &p->rewrites, p->n_feeds, p->after_feeds, 1,
                                &p->after_root, &n_changes);
    return p->after;
}

/* The first element of the root that differs; -1: none, or it cannot be run. */
static int64_t part_differs(const least *l, const part *p, tp_tensor **was, tp_tensor **is)
{
    const tpi_trial a = {l->t->run, p->before, p->n_feeds, 1, p->feeds, &p->root};
    const tpi_trial b = {l->t->run, p->after, p->n_feeds, 1, p->after_feeds, &p->after_root};
    *was = *is = NULL;
    return tpi_try(&a, &p->sample, was) && tpi_try(&b, &p->sample, is)
               ? tpi_first_other(*was, *is)
               : -1;
}

static bool is_wrong(least *l, int most)
{
    part p;
    tp_tensor *was = NULL, *is = NULL;
    if (l->tries++ > MOST_TRIES)
        return false;
    const bool wrong = part_make(l, &p, most) && part_differs(l, &p, &was, &is) >= 0;
    tpi_unref(was);
    tpi_unref(is);
    part_free(&p);
    return wrong;
}

/* ---- what is cut --------------------------------------------------------------------------------- */

static bool begin(least *l)
{
    const size_t n = (size_t)l->t->g->n_nodes;
    l->cut = tpi_bump_take(&l->memory, n, sizeof *l->cut);
    l->place = tpi_bump_take(&l->memory, n, sizeof *l->place);
    if (!l->place || !tpi_collect(&l->all, l->t->n_roots, l->t->roots, NULL, NULL))
        return false;
    for (int i = 0; i < l->t->n_feeds; i++)
        l->cut[l->t->feeds[i]->index] = true;
    l->value = tpi_bump_take(&l->memory, (size_t)l->all.n, sizeof *l->value);
    if (!l->value)
        return false;
    for (int i = 0; i < l->all.n; i++)
        l->place[l->all.v[i]->index] = i;
    const tpi_trial whole = {l->t->run, l->t->g,     l->t->n_feeds,
                             l->all.n,  l->t->feeds, l->all.v};
    return tpi_try(&whole, l->s, l->value);
}

static void end(least *l)
{
    for (int i = 0; i < l->all.n && l->value; i++)
        tpi_unref(l->value[i]);
    tpi_bump_free(&l->memory);
}

/* Constants say what a rewrite may do, and a block's token is no value. */
static bool may_cut(const tp_tensor *t)
{
    return t->op->kind != TPI_SOURCE && t->op->kind != TPI_BLOCK;
}

/* The first node that is wrong by itself. */
static bool find_root(least *l)
{
    for (int i = 0; i < l->all.n; i++) {
        l->root = l->all.v[i];
        if (may_cut(l->root) && is_wrong(l, INT32_MAX))
            return true;
    }
    return false;
}

/* Nodes so many steps away from the root are cut. */
static void cut_ring(const least *l, int distance, int *steps)
{
    memset(steps, 0, (size_t)l->t->g->n_nodes * sizeof *steps);
    steps[l->root->index] = 1;
    for (int i = l->all.n - 1; i >= 0; i--) {
        const tp_tensor *t = l->all.v[i];
        const int now = steps[t->index];
        for (int k = 0; now && now <= distance && t->op->kind != TPI_SOURCE && k < t->n_in;
             k++) {
            int *next = &steps[t->in[k]->index];
            *next = *next && *next < now + 1 ? *next : now + 1;
        }
    }
    for (int i = 0; i < l->all.n; i++) {
        const tp_tensor *t = l->all.v[i];
        l->cut[t->index] |= steps[t->index] > distance && may_cut(t);
    }
}

static void cut_around(least *l)
{
    const size_t n = (size_t)l->t->g->n_nodes;
    const bool *kept = tpi_bump_copy(&l->memory, l->cut, n, sizeof *kept);
    int *steps = tpi_bump_take(&l->memory, n, sizeof *steps);
    for (int distance = 1; distance <= 64 && steps; distance *= 2) {
        cut_ring(l, distance, steps);
        if (is_wrong(l, INT32_MAX))
            break;
        memcpy(l->cut, kept, n * sizeof *kept);
    }
}

static void cut_each(least *l)
{
    for (int i = l->all.n - 1; i >= 0; i--) {
        const tp_tensor *t = l->all.v[i];
        if (l->cut[t->index] || t == l->root || !may_cut(t))
            continue;
        l->cut[t->index] = true;
        if (!is_wrong(l, INT32_MAX))
            l->cut[t->index] = false;
    }
}

/* ---- the report ------------------------------------------------------------------------------------ */

static void put_graph(tpi_str *s, tp_ctx *ctx, const char *title, const tp_graph *g)
{
    char *text = tp_graph_text(g);
    tpi_str_printf(s, "%s\n%s", title, text ? text : "");
    tp_free(ctx, text);
}

static void put_feed(tpi_str *s, const tp_tensor *node, const tp_tensor *value)
{
    enum { MOST = 16 };
    tpi_str_printf(s, "%%%d is fed ", node->index);
    if (tpi_count(value) <= MOST && value->flags & TPI_CONTIGUOUS)
        tpi_put_constant(s, value);
    tpi_str_printf(s, " : %s %s\n", tp_dtype_name((tp_dtype)value->dtype), SHAPE(value));
}

static void put_element(tpi_str *s, const tp_tensor *t, int64_t at)
{
    tp_tensor *flat = tp_contiguous((tp_tensor *)t);
    const size_t each = tp_dtype_size((tp_dtype)t->dtype);
    if (flat->status == TP_OK)
        tpi_put_element(s, (tp_dtype)t->dtype, flat->data + (size_t)at * each);
}

static void put_part(tpi_str *s, least *l, const part *p, int64_t at, const tp_tensor *was,
                     const tp_tensor *is)
{
    tpi_str_printf(s, "pass %s changes the bits of a result; rewrite %d of this graph",
                   l->pass->name, p->rewrites.n);
    if (p->rewrites.n) {
        tpi_str_printf(s, ", of %s", p->rewrites.op);
        tpi_put_place(s, p->rewrites.at.file, p->rewrites.at.line);
    }
    put_graph(s, l->ctx, "\nbefore:", p->before);
    put_graph(s, l->ctx, "after:", p->after);
    for (int i = 0; i < p->n_feeds; i++)
        put_feed(s, p->feeds[i], p->sample.feeds[i]);
    tpi_str_printf(s, "element %" PRId64 " of the result was ", at);
    put_element(s, was, at);
    tpi_str_put(s, ", and is ");
    put_element(s, is, at);
    tpi_str_put(s, "\n");
}

static void report(least *l, int most)
{
    part p;
    tp_tensor *was = NULL, *is = NULL;
    tpi_str s = TPI_STR(&l->ctx->mem);
    const int64_t at = part_make(l, &p, most) ? part_differs(l, &p, &was, &is) : -1;
    if (at >= 0) {
        put_part(&s, l, &p, at, was, is);
        tpi_log_lines(TPI_LOG_validate, s.text ? s.text : "");
        const tpi_at place =
            p.rewrites.n ? p.rewrites.at : TPI_AT(l->root->file, l->root->line);
        tpi_fail_status(l->ctx, place, l->pass->name, TP_E_BUG,
                        "the pass changes the bits of a result where it rewrites %s",
                        p.rewrites.n ? p.rewrites.op : l->root->op->name);
    }
    tpi_unref(was);
    tpi_unref(is);
    part_free(&p);
    tpi_str_free(&s);
}

void tpi_report_wrong(const tpi_trial *t, const tpi_sample *s, const tpi_pass *pass)
{
    least l = {
        .ctx = t->g->ctx,
        .t = t,
        .s = s,
        .pass = pass,
        .memory = TPI_BUMP(&t->g->ctx->mem),
        .all = {.ctx = t->g->ctx, .room = &l.memory}
    };
    if (begin(&l) && find_root(&l)) {
        int most = 0;
        cut_around(&l);
        cut_each(&l);
        while (most < 64 && !is_wrong(&l, most))
            most++;
        report(&l, most < 64 ? most : INT32_MAX);
    }
    end(&l);
}
