/* Keeps the arena of a program under a memory limit.
 *
 * There are three kinds of changes to the graph: the kernels run in another order; a value is computed
 * again where it is read late, so that it need not be kept until then; a loop keeps the values of some turns only
 * (pass/keep/checkpoint.c).
 *
 * Changes are tried one at a time. Each is made at the *peak*: the kernel at which most bytes are in use. A change
 * is kept if the peak is lower afterwards, or is reached at fewer kernels. The change that gains most bytes for what
 * it costs is tried first. The limit does not decide what is tried, only when to stop. So a program that is refused
 * can name the smallest arena that was found, and that number as the limit will do. */
#include "plan/budget.h"

#include "ir/notation.h"
#include "pass/keep/rearrange.h"
#include "pass/optimize.h"
#include "pass/prune.h"
#include "plan/work.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A graph of the program, its plan, and how many bytes are in use while each kernel runs. */
typedef struct version {
    tp_graph *graph;
    tp_tensor **feeds, **roots;
    tpi_plan *plan;
    int64_t *bytes;      /* of buffers, by number */
    int64_t *live;       /* bytes, by kernel */
    int64_t peak, arena; /* the most of these; bytes of the arena: the peak and the gaps */
    int at, n_at;        /* the first kernel at the peak; how many kernels are at it */
} version;

typedef struct fitting {
    tp_ctx *ctx;
    const tpi_budget *budget;
    tpi_fusing fuse;
    int n_feeds, n_roots;
    version now;
    int *next;  /* by node that has memory: the first kernel after the peak that reads it; -1 */
    bool *held; /* by node: the kernel at the peak reads it */
    bool *again;  /* by node: it is computed again */
    bool *late;   /* by node: it reads what is computed again, not the first value */
    int64_t *key; /* by node: its position in the new order */
} fitting;

/* ---- versions ------------------------------------------------------------------------------------ */

static void forget_plan(tpi_mem *m, version *v)
{
    if (!v->plan)
        return;
    const size_t n = (size_t)v->plan->all_buffers;
    tpi_give_back(m, v->bytes, n * sizeof *v->bytes);
    tpi_give_back(m, v->live, (size_t)v->plan->n_kernels * sizeof *v->live);
    tpi_plan_free(v->plan);
    v->plan = NULL;
}

static void free_version(const fitting *f, version *v)
{
    tpi_mem *m = &f->ctx->mem;
    forget_plan(m, v);
    tp_graph_free(v->graph);
    tpi_give_back(m, v->feeds, (size_t)f->n_feeds * sizeof(tp_tensor *));
    tpi_give_back(m, v->roots, (size_t)f->n_roots * sizeof(tp_tensor *));
}

int64_t tpi_budget_peak(const tpi_plan *plan, const int64_t *bytes, int64_t *live, int *at)
{
    memset(live, 0, (size_t)plan->n_kernels * sizeof *live);
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        for (int k = b->first; b->storage == TPI_IN_ARENA && k <= b->last; k++)
            live[k] += (bytes[i] + 63) & ~(int64_t)63;
    }
    *at = 0;
    for (int k = 0; k < plan->n_kernels; k++)
        if (live[k] > live[*at])
            *at = k;
    return plan->n_kernels ? live[*at] : 0;
}

static void find_peak(version *v)
{
    v->peak = tpi_budget_peak(v->plan, v->bytes, v->live, &v->at);
    v->n_at = 0;
    for (int k = 0; k < v->plan->n_kernels; k++)
        v->n_at += v->live[k] == v->peak;
}

/* Plans the version and finds its peak. False: no memory, or a number is too large. */
static bool measure(fitting *f, version *v)
{
    tpi_mem *m = &f->ctx->mem;
    const tpi_roots roots = {.n = f->n_roots, .v = v->roots};
    v->plan = tpi_plan_new(v->graph, &roots, f->fuse);
    if (!v->plan || !tpi_plan_arena(v->plan))
        return false;
    const size_t n = (size_t)v->plan->all_buffers;
    v->bytes = tpi_take(m, n * sizeof *v->bytes);
    v->live = tpi_take(m, (size_t)v->plan->n_kernels * sizeof *v->live);
    if (!v->bytes || !v->live)
        return false;
    if (!tpi_arena_at(v->plan->arena, f->budget->symbols, v->bytes, NULL, &v->arena))
        return false;
    find_peak(v);
    return true;
}

static tpi_run_sizes sizes_of(const fitting *f)
{
    return (tpi_run_sizes){f->now.graph->dims, f->budget->symbols};
}

static bool keeps_limit(const fitting *f)
{
    return f->now.arena <= f->budget->limit;
}

/* A copy of the graph of `now`, in which nodes have the same numbers. */
static bool copy_version(const fitting *f, version *v)
{
    const size_t feeds = (size_t)f->n_feeds * sizeof(tp_tensor *),
                 roots = (size_t)f->n_roots * sizeof(tp_tensor *);
    *v = (version){.feeds = tpi_take(&f->ctx->mem, feeds),
                   .roots = tpi_take(&f->ctx->mem, roots)};
    if (!v->feeds || !v->roots)
        return false;
    if (feeds)
        memcpy(v->feeds, f->now.feeds, feeds);
    memcpy(v->roots, f->now.roots, roots);
    v->graph = tpi_prune(f->now.graph, false, f->n_feeds, v->feeds, f->n_roots, v->roots);
    return v->graph && v->graph->n_nodes == f->now.graph->n_nodes;
}

/* If the version is better than `now`, it takes its place. */
static bool adopt(fitting *f, version *v)
{
    const bool better =
        v->peak < f->now.peak || (v->peak == f->now.peak && v->n_at < f->now.n_at);
    if (!better)
        return false;
    tp_tensor **const feeds = f->now.feeds, **const roots = f->now.roots;
    if (f->n_feeds)
        memcpy(feeds, v->feeds, (size_t)f->n_feeds * sizeof *feeds);
    memcpy(roots, v->roots, (size_t)f->n_roots * sizeof *roots);
    forget_plan(&f->ctx->mem, &f->now); /* which looks at its graph */
    tp_graph_free(f->now.graph);
    f->now = *v;
    f->now.feeds = feeds;
    f->now.roots = roots;
    v->graph = NULL;
    v->plan = NULL;
    return true;
}

/* ---- another order -------------------------------------------------------------------------------- */

/* Another order of kernels: of those that could run next, the first one that does not raise the bytes in use; if
 * there is none, the first. */
typedef struct ordering {
    const fitting *f;
    int n;
    int *waits;   /* by kernel: how many kernels have to run before it; -1: it has run */
    int *readers; /* by buffer: how many kernels still read it */
    bool *reads;  /* [kernel * n + other]: the other one has to run before it */
    int *place;   /* by kernel: its number in the new order */
} ordering;

/* Does the kernel keep its order among its like? Random numbers are drawn in the order of the graph, and blocks
 * may draw, too. */
static bool keeps_place(const tpi_plan *plan, int kernel)
{
    const tp_tensor *t = plan->values[plan->kernels[kernel].root].node;
    return t->op->draws || plan->kernels[kernel].kind == TPI_KERNEL_BLOCK;
}

static void note_wait(ordering *o, int kernel, int other)
{
    bool *reads = &o->reads[(size_t)kernel * (size_t)o->n + (size_t)other];
    if (kernel != other && !*reads)
        o->waits[kernel]++;
    *reads = true;
}

static void find_waits(ordering *o)
{
    const tpi_plan *plan = o->f->now.plan;
    for (int i = 0, last = -1; i < o->n; i++) {
        if (!keeps_place(plan, i))
            continue;
        if (last >= 0)
            note_wait(o, i, last);
        last = i;
    }
    for (int i = 0; i < plan->n_values; i++) {
        const tpi_value *v = &plan->values[i];
        for (int k = 0; k < v->node->n_in && v->kernel >= 0; k++) {
            const tpi_value *x = &plan->values[v->node->in[k]->index];
            const int other = plan->values[x->layout.root].kernel;
            if (v->node->op->kind != TPI_SOURCE && other >= 0)
                note_wait(o, v->kernel, other);
        }
    }
}

static bool reads_buffer(const ordering *o, int kernel, const tpi_buffer *b)
{
    return b->storage == TPI_IN_ARENA && b->node >= 0 && b->first != kernel &&
           b->last >= kernel && o->reads[(size_t)kernel * (size_t)o->n + (size_t)b->first];
}

/* By how many bytes more memory is in use after the kernel than before it. */
static int64_t growth(const ordering *o, int kernel)
{
    const version *v = &o->f->now;
    int64_t more = 0;
    for (int i = 0; i < v->plan->n_buffers; i++) {
        const tpi_buffer *b = &v->plan->buffers[i];
        if (b->storage == TPI_IN_ARENA && b->first == kernel && b->last > kernel)
            more += v->bytes[i];
        else if (reads_buffer(o, kernel, b) && o->readers[i] == 1)
            more -= v->bytes[i];
    }
    return more;
}

static int choose_next(const ordering *o)
{
    int first = -1;
    for (int k = 0; k < o->n; k++) {
        if (o->waits[k] != 0)
            continue;
        if (growth(o, k) <= 0)
            return k;
        first = first < 0 ? k : first;
    }
    return first;
}

static void order_all(ordering *o)
{
    const tpi_plan *plan = o->f->now.plan;
    for (int i = 0; i < plan->n_buffers; i++)
        for (int k = 0; k < o->n; k++)
            o->readers[i] += reads_buffer(o, k, &plan->buffers[i]);
    for (int at = 0; at < o->n; at++) {
        const int kernel = choose_next(o);
        o->place[kernel] = at;
        o->waits[kernel] = -1;
        for (int i = 0; i < plan->n_buffers; i++)
            o->readers[i] -= reads_buffer(o, kernel, &plan->buffers[i]);
        for (int k = 0; k < o->n; k++)
            o->waits[k] -= k != kernel && o->reads[(size_t)k * (size_t)o->n + (size_t)kernel];
    }
}

/* Sets the nodes' positions: those of a kernel are together, other nodes follow what they read. `place`: the new
 * numbers of the kernels; NULL: the old ones. */
static void set_keys(const fitting *f, const int *place)
{
    const tpi_plan *plan = f->now.plan;
    for (int i = 0; i < plan->n_values; i++) {
        const tpi_value *v = &plan->values[i];
        int64_t key = 0;
        for (int k = 0; k < v->node->n_in && v->node->op->kind != TPI_SOURCE; k++) {
            const int64_t of = f->key[v->node->in[k]->index];
            key = of > key ? of : key;
        }
        if (v->kernel >= 0)
            key = 2 * (int64_t)(place ? place[v->kernel] : v->kernel) + 2;
        f->key[i] = key;
    }
}

/* Makes a version with this change; *better: it was taken. False: no memory. */
static bool try_change(fitting *f, const tpi_rearrangement *r, bool *better)
{
    version v;
    bool ok = copy_version(f, &v) && tpi_rearrange(v.graph, r);
    if (ok) {
        v.graph = tpi_tidy(v.graph, f->n_feeds, v.feeds, f->n_roots, v.roots);
        ok = v.graph && measure(f, &v);
    }
    *better = ok && adopt(f, &v);
    free_version(f, &v);
    return ok;
}

static bool reorder(fitting *f)
{
    enum { MOST = 4096 }; /* kernels: o.reads has a byte for each pair */
    tpi_mem *m = &f->ctx->mem;
    const tpi_plan *plan = f->now.plan;
    const size_t n = (size_t)plan->n_kernels, n_buffers = (size_t)plan->n_buffers;
    if (n > MOST)
        return true;
    const size_t bytes = (2 * n + n_buffers) * sizeof(int) + n * n;
    ordering o = {.f = f, .n = plan->n_kernels, .waits = tpi_take(m, bytes)};
    if (!o.waits)
        return false;
    memset(o.waits, 0, bytes);
    memset(f->late, 0, (size_t)plan->n_values);
    o.place = o.waits + n;
    o.readers = o.place + n;
    o.reads = (bool *)(o.readers + n_buffers);
    find_waits(&o);
    order_all(&o);
    set_keys(f, o.place);
    tpi_give_back(m, o.waits, bytes);
    bool better;
    return try_change(f, &(tpi_rearrangement){.late = f->late, .key = f->key}, &better);
}

/* ---- values that are computed again ---------------------------------------------------------------- */

/* What has to be computed to have the value of node `target` again at kernel `until`. */
typedef struct redoing {
    fitting *f;
    int target, until;
    bool all;       /* contractions may be computed again, too */
    int64_t longer; /* bytes that are kept longer for it, and so are in use at the peak */
    double cost;
    bool failed;
} redoing;

static void compute_again(redoing *d, int node);

/* Computes again the node whose memory operand x reads, and the views that lead from there to x. */
static void follow(redoing *d, const tp_tensor *x, int root)
{
    for (const tp_tensor *t = x; t->index != root && !d->failed; t = t->in[0]) {
        d->failed = t->op->kind != TPI_VIEW;
        d->f->again[t->index] = true;
    }
    compute_again(d, root);
}

static void need(redoing *d, const tp_tensor *x)
{
    const version *v = &d->f->now;
    const int root = v->plan->values[x->index].layout.root;
    const tpi_value *memory = &v->plan->values[root];
    if (memory->storage == TPI_IN_INNER || root == d->target) {
        follow(d, x, root);
        return;
    }
    if (memory->storage != TPI_IN_ARENA || memory->last >= d->until)
        return; /* it is still in memory */
    const int64_t bytes = v->bytes[memory->buffer];
    const bool may = memory->node->op->kind != TPI_BLOCK && memory->node->op->kind != TPI_PORT;
    if (may && bytes > v->bytes[v->plan->values[d->target].buffer] / 4)
        follow(d, x, root);
    else if (memory->last < v->at)
        d->longer += bytes;
}

static void compute_again(redoing *d, int node)
{
    const double flops_per_byte = 8, per_node = 1024;
    const tp_tensor *t = d->f->now.plan->values[node].node;
    const tpi_kind kind = t->op->kind;
    const tpi_run_sizes sizes = sizes_of(d->f);
    const double flops = tpi_node_flops(&sizes, t);
    if (d->f->again[node])
        return;
    if (d->failed || t->op->draws || kind == TPI_SOURCE || kind == TPI_EFFECT ||
        kind == TPI_BLOCK || kind == TPI_PORT || (flops > 0 && !d->all)) {
        d->failed = true;
        return;
    }
    d->f->again[node] = true;
    d->cost += tpi_node_bytes(&sizes, t) + flops / flops_per_byte + per_node;
    for (int k = 0; k < t->n_in && kind != TPI_SHAPE; k++)
        need(d, t->in[k]);
}

/* Sets f->again. Returns how many bytes are gained at the peak; 0: none, or it cannot be done. */
static int64_t redo(fitting *f, int target, int until, bool all, double *cost)
{
    const version *v = &f->now;
    memset(f->again, 0, (size_t)v->plan->n_values);
    redoing d = {.f = f, .target = target, .until = until, .all = all};
    compute_again(&d, target);
    const int64_t gain = v->bytes[v->plan->values[target].buffer] - d.longer;
    *cost = d.cost;
    return d.failed || gain < 0 ? 0 : gain;
}

/* Sets f->next and f->held: which kernels read what, from the peak on. */
static void find_readers(fitting *f)
{
    const tpi_plan *plan = f->now.plan;
    for (int i = 0; i < plan->n_values; i++) {
        f->next[i] = -1;
        f->held[i] = false;
    }
    for (int i = 0; i < plan->n_values; i++) {
        const tpi_value *v = &plan->values[i];
        const tpi_kind kind = v->node->op->kind;
        if (v->kernel < f->now.at || kind == TPI_SOURCE || kind == TPI_SHAPE)
            continue;
        for (int k = 0; k < v->node->n_in; k++) {
            const int root = plan->values[v->node->in[k]->index].layout.root;
            if (v->kernel == f->now.at)
                f->held[root] = true;
            else if (f->next[root] < 0 || v->kernel < f->next[root])
                f->next[root] = v->kernel;
        }
    }
}

typedef struct candidate {
    int node;  /* its value is computed again; or it is a loop, which keeps some turns only */
    bool all;  /* contractions are computed again, too */
    bool loop; /* node is a loop */
    double worth; /* bytes that are gained, divided by the cost */
} candidate;

static int by_worth(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    return x->node - y->node;
}

/* Is the buffer what a loop keeps of all its turns? Then that loop is a candidate. */
static bool as_loop(const fitting *f, const tpi_buffer *b, candidate *c)
{
    const version *v = &f->now;
    const tp_tensor *t = b->node >= 0 ? v->plan->values[b->node].node : NULL;
    if (!t || !tpi_block_of(t) || !tpi_loop_of(t->in[0]))
        return false;
    const tpi_loop_attrs *a = t->in[0]->attrs;
    const tpi_run_sizes sizes = sizes_of(f);
    const int64_t turns = tpi_size_at(&sizes, a->count);
    if (a->checkpoint || a->has_pred || turns < 4)
        return false;
    const tpi_work w = tpi_kernel_work(&sizes, v->plan, b->first);
    const double kept = (double)v->bytes[v->plan->values[b->node].buffer];
    *c = (candidate){.node = t->in[0]->index,
                     .loop = true,
                     .worth = kept * (1 - 2 / sqrt((double)turns)) / (w.bytes + w.flops)};
    return c->worth > 0;
}

static bool as_value(fitting *f, const tpi_buffer *b, candidate *c)
{
    const int at = f->now.at, node = b->node;
    if (node < 0 || b->first >= at || b->last <= at || f->held[node] || f->next[node] < 0)
        return false;
    double cost;
    int64_t gain = redo(f, node, f->next[node], false, &cost);
    *c = (candidate){.node = node};
    if (!gain) {
        gain = redo(f, node, f->next[node], true, &cost);
        c->all = true;
    }
    c->worth = (double)gain / cost;
    return gain > 0;
}

static bool try_value(fitting *f, const candidate *c, bool *better)
{
    const tpi_plan *plan = f->now.plan;
    const int until = f->next[c->node];
    double cost;
    redo(f, c->node, until, c->all, &cost);
    for (int i = 0; i < plan->n_values; i++) {
        const tpi_value *v = &plan->values[i];
        const int root = v->layout.root;
        if (v->storage == TPI_IN_ALIAS && v->node->op->kind == TPI_VIEW && f->again[root])
            f->again[i] = true;
        f->late[i] = v->kernel >= until;
    }
    set_keys(f, NULL);
    const tpi_rearrangement r = {
        .again = f->again, .late = f->late, .key = f->key, .again_key = 2 * (int64_t)until + 1};
    return try_change(f, &r, better);
}

static bool try_loop(fitting *f, int loop, bool *better)
{
    version v;
    bool ok = copy_version(f, &v);
    if (ok) {
        v.graph = tpi_split_loop(v.graph, v.graph->nodes[loop], f->n_feeds, v.feeds, f->n_roots,
                                 v.roots);
        ok = v.graph && measure(f, &v);
    }
    *better = ok && adopt(f, &v);
    free_version(f, &v);
    return ok;
}

static size_t lists_bytes(size_t n)
{
    return n * (sizeof(int64_t) + sizeof(int) + 3 * sizeof(bool));
}

static bool take_lists(fitting *f)
{
    const size_t n = (size_t)f->now.plan->n_values;
    f->key = tpi_take(&f->ctx->mem, lists_bytes(n));
    if (!f->key)
        return false;
    f->next = (int *)(f->key + n);
    f->held = (bool *)(f->next + n);
    f->again = f->held + n;
    f->late = f->again + n;
    return true;
}

static void give_lists(fitting *f, size_t n)
{
    tpi_give_back(&f->ctx->mem, f->key, lists_bytes(n));
}

static bool try_all(fitting *f, int n, const candidate *c, bool *better)
{
    enum { MOST_TRIES = 24 };
    bool ok = true;
    for (int i = 0; i < n && i < MOST_TRIES && ok && !*better; i++)
        ok = c[i].loop ? try_loop(f, c[i].node, better) : try_value(f, &c[i], better);
    return ok;
}

/* Tries changes at the peak until one is better. False: no memory. */
static bool improve(fitting *f, bool *better)
{
    tpi_mem *m = &f->ctx->mem;
    const int n_values = f->now.plan->n_values, n_buffers = f->now.plan->n_buffers;
    candidate *list = tpi_take(m, 2 * (size_t)n_buffers * sizeof *list);
    bool ok = take_lists(f) && list;
    int n = 0;
    if (ok)
        find_readers(f);
    for (int i = 0; i < n_buffers && ok; i++) {
        const tpi_buffer *b = &f->now.plan->buffers[i];
        if (b->storage != TPI_IN_ARENA || b->first > f->now.at || b->last < f->now.at)
            continue;
        n += as_value(f, b, &list[n]);
        n += as_loop(f, b, &list[n]);
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_worth);
    ok = ok && try_all(f, n, list, better);
    tpi_give_back(m, list, 2 * (size_t)n_buffers * sizeof *list);
    give_lists(f, (size_t)n_values);
    return ok;
}

/* ---- refusal ----------------------------------------------------------------------------------------- */

/* "conv f32[8,16,28,28] 401408 (net.c:12)" */
static void put_buffer(tpi_str *s, const version *v, int i)
{
    const tpi_buffer *b = &v->plan->buffers[i];
    const tp_tensor *t = b->section ? b->section->node : b->like;
    const char *slash = t->file ? strrchr(t->file, '/') : NULL;
    tpi_str_put(s, b->section ? "inside " : "");
    tpi_str_put(s, tpi_block_of(t) ? t->in[0]->op->name : t->op->name);
    tpi_str_put(s, " ");
    if (!b->section)
        tpi_put_type(s, v->graph->dims, (tp_dtype)t->dtype, t->rank, t->shape);
    tpi_str_printf(s, " %" PRId64, v->bytes[i]);
    if (t->file)
        tpi_str_printf(s, " (%s:%d)", slash ? slash + 1 : t->file, t->line);
}

/* The buffers in use at the peak, the largest first, as many as the message has room for. */
static void put_peak(tpi_str *s, const version *v)
{
    enum { MOST = 3 };
    int64_t below = INT64_MAX;
    int last = -1, n = 0, all = 0;
    for (int i = 0; i < v->plan->n_buffers; i++) {
        const tpi_buffer *b = &v->plan->buffers[i];
        all +=
            b->storage == TPI_IN_ARENA && b->first <= v->at && b->last >= v->at && v->bytes[i];
    }
    for (; n < MOST && n < all; n++) {
        int best = -1;
        for (int i = 0; i < v->plan->n_buffers; i++) {
            const tpi_buffer *b = &v->plan->buffers[i];
            const bool in_use =
                b->storage == TPI_IN_ARENA && b->first <= v->at && b->last >= v->at;
            const bool later = v->bytes[i] < below || (v->bytes[i] == below && i > last);
            if (in_use && later && (best < 0 || v->bytes[i] > v->bytes[best]))
                best = i;
        }
        tpi_str_put(s, n ? ", " : ": ");
        put_buffer(s, v, best);
        below = v->bytes[best];
        last = best;
    }
    if (all > n)
        tpi_str_printf(s, " and %d more", all - n);
}

static void refuse(const tpi_budget *b, const version *v, const char *say)
{
    tp_ctx *ctx = v->graph->ctx;
    const tp_tensor *t = v->plan->values[v->plan->kernels[v->at].root].node;
    tpi_str s = TPI_STR(&ctx->mem);
    put_peak(&s, v);
    tpi_fail_status(ctx, b->at, b->what, TP_E_LIMIT,
                    "the limit is %" PRId64 " bytes, and %s %" PRId64
                    ": most are in use at %s%s",
                    b->limit, say, v->arena, t->op->name, s.text ? s.text : "");
    tpi_str_free(&s);
}

void tpi_budget_refuse(const tpi_budget *b, const tpi_plan *plan, const tpi_arena *arena)
{
    tpi_mem *m = &plan->graph->ctx->mem;
    const size_t n = (size_t)plan->n_kernels, n_buffers = (size_t)plan->all_buffers;
    version v = {.graph = plan->graph, .plan = (tpi_plan *)plan};
    v.live = tpi_take(m, n * sizeof *v.live);
    v.bytes = tpi_take(m, n_buffers * sizeof *v.bytes);
    if (v.live && v.bytes && tpi_arena_at(arena, b->symbols, v.bytes, NULL, &v.arena)) {
        find_peak(&v);
        refuse(b, &v, "these sizes take");
    }
    tpi_give_back(m, v.bytes, n_buffers * sizeof *v.bytes);
    tpi_give_back(m, v.live, n * sizeof *v.live);
}

/* ---- all of it --------------------------------------------------------------------------------------- */

tp_graph *tpi_budget_fit(const tpi_budget *b, tp_graph *g, tpi_fusing fuse, int n_feeds,
                         tp_tensor **feeds, int n_roots, tp_tensor **roots)
{
    enum { MOST_GROWTH = 3 }; /* from there on much is computed for little */
    tp_ctx *ctx = g->ctx;
    g = tpi_tidy(g, n_feeds, feeds, n_roots, roots);
    fitting f = {
        .ctx = ctx,
        .budget = b,
        .fuse = fuse,
        .n_feeds = n_feeds,
        .n_roots = n_roots,
        .now = {.graph = g, .feeds = feeds, .roots = roots}
    };
    bool better = true, ok = g && measure(&f, &f.now);
    if (ok && !keeps_limit(&f)) {
        const size_t n = (size_t)f.now.plan->n_values;
        ok = take_lists(&f) && reorder(&f);
        give_lists(&f, n);
    }
    const int most_nodes = ok ? MOST_GROWTH * f.now.graph->n_nodes : 0;
    while (ok && better && !keeps_limit(&f) && f.now.graph->n_nodes < most_nodes) {
        better = false;
        ok = improve(&f, &better);
    }
    const bool keeps = ok && keeps_limit(&f);
    if (!ok)
        tpi_no_memory(ctx, b->at, b->what); /* unless another error was first */
    else if (!keeps)
        refuse(b, &f.now, "the least between kernels is");
    forget_plan(&ctx->mem, &f.now);
    if (keeps)
        return f.now.graph;
    tp_graph_free(f.now.graph);
    return NULL;
}
