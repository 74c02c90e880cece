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
#include "pass/keep/copies.h"
#include "pass/optimize.h"
#include "pass/prune.h"
#include "plan/work.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A graph of the program, its plan, and how many bytes are in use while each kernel runs. */
typedef struct version {
    tpi_bump memory; /* of its lists */
    tp_graph *graph;
    tp_tensor **ends; /* nodes of it: what is fed, then what is asked for */
    tpi_plan *plan;
    int64_t *bytes;      /* of buffers, by number */
    int64_t *live;       /* bytes, by kernel */
    int64_t peak, arena; /* the most of these; bytes of the arena: the peak and the gaps */
    int at, n_at;        /* the first kernel at the peak; how many kernels are at it */
    int64_t *key;        /* by node, and then by copy of one: its position in a new order */
    int *
        next; /* by node that has memory: the first kernel from the peak on that reads it; -1 */
    bool *again; /* by node: it is computed again */
} version;

typedef struct fitting {
    tp_ctx *ctx;
    const tpi_budget *budget;
    tpi_fusing fuse;
    int n_feeds, n_roots;
    version now;
} fitting;

/* ---- versions ------------------------------------------------------------------------------------ */

static void free_version(version *v)
{
    tpi_plan_free(v->plan);
    tp_graph_free(v->graph);
    tpi_bump_free(&v->memory);
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

/* Finds the peak of a version that has a plan. False: no memory, or a number is too large. */
static bool find_peak(version *v, const tpi_arena *arena, const int64_t *symbols)
{
    v->bytes = tpi_bump_take(&v->memory, (size_t)v->plan->all_buffers, sizeof *v->bytes);
    v->live = tpi_bump_take(&v->memory, (size_t)v->plan->n_kernels, sizeof *v->live);
    if (!v->live || !tpi_arena_at(arena, symbols, v->bytes, NULL, &v->arena))
        return false;
    v->peak = tpi_budget_peak(v->plan, v->bytes, v->live, &v->at);
    for (int k = 0; k < v->plan->n_kernels; k++)
        v->n_at += v->live[k] == v->peak;
    return true;
}

static bool measure(const fitting *f, version *v)
{
    const tpi_roots roots = {.n = f->n_roots, .v = v->ends + f->n_feeds};
    v->plan = tpi_plan_new(v->graph, &roots, f->fuse);
    if (!v->plan || !tpi_plan_arena(v->plan))
        return false;
    const size_t n = (size_t)v->plan->n_values;
    v->key = tpi_bump_take(&v->memory, 2 * n, sizeof *v->key);
    v->next = tpi_bump_take(&v->memory, n, sizeof *v->next);
    v->again = tpi_bump_take(&v->memory, n, sizeof *v->again);
    return find_peak(v, v->plan->arena, f->budget->symbols);
}

static tpi_run_sizes sizes_of(const fitting *f)
{
    return (tpi_run_sizes){f->now.graph->dims, f->budget->symbols};
}

static bool keeps_limit(const fitting *f)
{
    return f->now.arena <= f->budget->limit;
}

/* Is it in the arena, and does it lie there while the kernel at the peak runs? */
static bool is_live(const version *v, const tpi_buffer *b)
{
    return b->storage == TPI_IN_ARENA && b->first <= v->at && b->last >= v->at;
}

/* A copy of the graph of `now`, in which nodes have the same numbers. */
static bool copy_version(const fitting *f, version *v)
{
    *v = (version){.memory = TPI_BUMP(&f->ctx->mem)};
    v->ends = tpi_bump_copy(&v->memory, f->now.ends, (size_t)(f->n_feeds + f->n_roots),
                            sizeof(tp_tensor *));
    if (!v->ends)
        return false;
    v->graph =
        tpi_prune(f->now.graph, false, f->n_feeds, v->ends, f->n_roots, v->ends + f->n_feeds);
    return v->graph && v->graph->n_nodes == f->now.graph->n_nodes;
}

/* ---- the order of nodes ------------------------------------------------------------------------------ */

/* Sets the nodes' positions: those of a kernel are together, other nodes follow what they read. `place`: the new
 * numbers of the kernels; NULL: the old ones. */
static void set_keys(const version *v, const int *place)
{
    for (int i = 0; i < v->plan->n_values; i++) {
        const tpi_value *x = &v->plan->values[i];
        int64_t key = 0;
        for (int k = 0; k < x->node->n_in && x->node->op->kind != TPI_SOURCE; k++) {
            const int64_t of = v->key[x->node->in[k]->index];
            key = of > key ? of : key;
        }
        if (x->kernel >= 0)
            key = 2 * (int64_t)(place ? place[x->kernel] : x->kernel) + 2;
        v->key[i] = key;
    }
}

/* What is read comes before who reads it, whatever the keys say. */
static void keep_order(const version *v, const tp_tensor *reader)
{
    for (int k = 0; k < reader->n_in && reader->op->kind != TPI_SOURCE; k++) {
        int64_t *key = &v->key[reader->in[k]->index];
        *key = *key < v->key[reader->index] ? *key : v->key[reader->index];
    }
}

/* By key, then as the nodes were, a copy behind what it is of. */
static void put_in_order(const version *v, const tpi_copies *a)
{
    tp_ctx *ctx = a->g->ctx;
    const uint64_t first = ctx->caller.seq, each = 2 * (uint64_t)a->n;
    for (int i = a->n - 1; i >= 0; i--) {
        if (a->made[i])
            keep_order(v, a->made[i]);
        keep_order(v, a->g->nodes[i]);
    }
    for (int i = 0; i < 2 * a->n; i++) {
        tp_tensor *t = i % 2 ? a->made[i / 2] : a->g->nodes[i / 2];
        if (!t)
            continue;
        t->seq = first + (uint64_t)v->key[t->index] * each + (uint64_t)i;
        ctx->caller.seq = t->seq >= ctx->caller.seq ? t->seq + 1 : ctx->caller.seq;
    }
}

/* ---- changes ----------------------------------------------------------------------------------------- */

/* What is tried: a loop keeps some turns only, or kernels from one on read values that are computed again before
 * it; nodes stand where the keys of `now` say. */
typedef struct change {
    const version *now;
    int node; /* the loop; or whose value is computed again, and what that is made of */
    bool is_loop;
    bool all;     /* contractions are computed again, too */
    int until;    /* the first kernel that reads what is computed again */
    double worth; /* bytes that are gained, divided by the cost */
} change;

static int is_late(void *user, const tp_tensor *t)
{
    const change *c = user;
    return c->now->plan->values[t->index].kernel >= c->until;
}

static bool reads_again(void *user, const tp_tensor *reader, const tp_tensor *x, int late)
{
    (void)reader;
    return late && ((const change *)user)->now->again[x->index];
}

static bool rearrange(tp_graph *g, change *c)
{
    const version *v = c->now;
    tpi_bump memory = TPI_BUMP(&g->ctx->mem);
    tpi_copies a = {
        .memory = &memory, .g = g, .user = c, .part = is_late, .wants = reads_again};
    int unused = 0;
    if (tp_scope_begin(g->ctx) != TP_OK)
        return false;
    for (int i = 0; i < v->plan->n_values; i++)
        v->key[v->plan->n_values + i] = 2 * (int64_t)c->until + 1;
    const bool ok = tpi_copies_make(&a, &unused);
    if (ok)
        put_in_order(v, &a);
    tpi_bump_free(&memory);
    tp_scope_end(g->ctx);
    return ok;
}

/* The graph with the change, instead of it; NULL: no memory. */
static tp_graph *changed(const fitting *f, const version *v, change *c)
{
    tp_tensor **feeds = v->ends, **roots = v->ends + f->n_feeds;
    if (c->is_loop)
        return tpi_split_loop(v->graph, v->graph->nodes[c->node], f->n_feeds, feeds, f->n_roots,
                              roots);
    if (rearrange(v->graph, c))
        return tpi_tidy(v->graph, f->n_feeds, feeds, f->n_roots, roots);
    tp_graph_free(v->graph);
    return NULL;
}

/* Makes a version with the change, which becomes `now` if it is better. False: no memory. */
static bool try_change(fitting *f, change *c, bool *better)
{
    version v;
    bool ok = copy_version(f, &v);
    if (ok)
        v.graph = changed(f, &v, c);
    ok = ok && v.graph && measure(f, &v);
    *better = ok && (v.peak < f->now.peak || (v.peak == f->now.peak && v.n_at < f->now.n_at));
    if (*better) {
        const version was = f->now;
        f->now = v;
        v = was;
    }
    free_version(&v);
    return ok;
}

/* ---- another order -------------------------------------------------------------------------------- */

/* Another order of kernels: of those that could run next, the first one that does not raise the bytes in use; if
 * there is none, the first. */
typedef struct ordering {
    const version *v;
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
    const tpi_plan *plan = o->v->plan;
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
    const version *v = o->v;
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
    const tpi_plan *plan = o->v->plan;
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

static bool reorder(fitting *f)
{
    enum { MOST = 4096 }; /* kernels: o.reads has a byte for each pair */
    tpi_bump *room = &f->now.memory;
    const tpi_bump mark = *room;
    const tpi_plan *plan = f->now.plan;
    const size_t n = (size_t)plan->n_kernels, n_buffers = (size_t)plan->n_buffers;
    if (n > MOST)
        return true;
    ordering o = {.v = &f->now,
                  .n = plan->n_kernels,
                  .waits = tpi_bump_take(room, n, sizeof *o.waits),
                  .place = tpi_bump_take(room, n, sizeof *o.place),
                  .readers = tpi_bump_take(room, n_buffers, sizeof *o.readers),
                  .reads = tpi_bump_take(room, n * n, sizeof *o.reads)};
    if (room->failed)
        return false;
    find_waits(&o);
    order_all(&o);
    set_keys(&f->now, o.place);
    tpi_bump_release(room, &mark);
    bool better;
    return try_change(f, &(change){.now = &f->now, .until = INT_MAX}, &better);
}

/* ---- values that are computed again ---------------------------------------------------------------- */

/* What has to be computed to have a value again. */
typedef struct redoing {
    const fitting *f;
    const change *c;
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
        d->f->now.again[t->index] = true;
    }
    compute_again(d, root);
}

static void need(redoing *d, const tp_tensor *x)
{
    const version *v = &d->f->now;
    const int root = v->plan->values[x->index].layout.root;
    const tpi_value *memory = &v->plan->values[root];
    if (memory->storage == TPI_IN_INNER || root == d->c->node) {
        follow(d, x, root);
        return;
    }
    if (memory->storage != TPI_IN_ARENA || memory->last >= d->c->until)
        return; /* it is still in memory */
    const int64_t bytes = v->bytes[memory->buffer];
    const bool may = memory->node->op->kind != TPI_BLOCK && memory->node->op->kind != TPI_PORT;
    if (may && bytes > v->bytes[v->plan->values[d->c->node].buffer] / 4)
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
    if (d->f->now.again[node])
        return;
    if (d->failed || t->op->draws || t->op->own || kind == TPI_SOURCE || kind == TPI_EFFECT ||
        kind == TPI_BLOCK || kind == TPI_PORT || (flops > 0 && !d->c->all)) {
        d->failed = true;
        return;
    }
    d->f->now.again[node] = true;
    d->cost += tpi_node_bytes(&sizes, t) + flops / flops_per_byte + per_node;
    for (int k = 0; k < t->n_in && kind != TPI_SHAPE; k++)
        need(d, t->in[k]);
}

/* Sets now.again and the worth of the change. False: nothing is gained, or it cannot be done. */
static bool redo(const fitting *f, change *c)
{
    const version *v = &f->now;
    memset(v->again, 0, (size_t)v->plan->n_values);
    redoing d = {.f = f, .c = c};
    compute_again(&d, c->node);
    const int64_t gain = v->bytes[v->plan->values[c->node].buffer] - d.longer;
    c->worth = (double)gain / d.cost;
    return !d.failed && gain > 0;
}

/* Sets now.next. */
static void find_readers(const version *v)
{
    for (int i = 0; i < v->plan->n_values; i++)
        v->next[i] = -1;
    for (int i = 0; i < v->plan->n_values; i++) {
        const tpi_value *x = &v->plan->values[i];
        const tpi_kind kind = x->node->op->kind;
        if (x->kernel < v->at || kind == TPI_SOURCE || kind == TPI_SHAPE)
            continue;
        for (int k = 0; k < x->node->n_in; k++) {
            int *next = &v->next[v->plan->values[x->node->in[k]->index].layout.root];
            *next = *next < 0 || x->kernel < *next ? x->kernel : *next;
        }
    }
}

/* May the buffer's value be computed again where it is read next? */
static bool as_value(const fitting *f, const tpi_buffer *b, change *c)
{
    const version *v = &f->now;
    const int node = b->node;
    if (node < 0 || b->first >= v->at || b->last <= v->at || v->next[node] <= v->at)
        return false;
    *c = (change){.now = v, .node = node, .until = v->next[node]};
    if (redo(f, c))
        return true;
    c->all = true;
    return redo(f, c);
}

/* Is the buffer what a loop keeps of all its turns, which may be some? */
static bool as_loop(const fitting *f, const tpi_buffer *b, change *c)
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
    *c = (change){.now = v,
                  .node = t->in[0]->index,
                  .is_loop = true,
                  .worth = kept * (1 - 2 / sqrt((double)turns)) / (w.bytes + w.flops)};
    return c->worth > 0;
}

/* Sets what of `now` the change goes by: now.again and now.key. */
static void prepare(const fitting *f, change *c)
{
    const version *v = &f->now;
    if (c->is_loop)
        return;
    redo(f, c);
    for (int i = 0; i < v->plan->n_values; i++) {
        const tpi_value *x = &v->plan->values[i];
        if (x->storage == TPI_IN_ALIAS && x->node->op->kind == TPI_VIEW &&
            v->again[x->layout.root])
            v->again[i] = true;
    }
    set_keys(v, NULL);
}

static int by_worth(const void *a, const void *b)
{
    const change *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    return x->node - y->node;
}

/* Tries changes at the peak until one is better. False: no memory. */
static bool improve(fitting *f, bool *better)
{
    enum { MOST_TRIES = 24 };
    tpi_bump memory = TPI_BUMP(&f->ctx->mem);
    const tpi_plan *plan = f->now.plan;
    change *list = tpi_bump_take(&memory, 2 * (size_t)plan->n_buffers, sizeof *list);
    bool ok = list;
    int n = 0;
    find_readers(&f->now);
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        if (!is_live(&f->now, b))
            continue;
        n += as_value(f, b, &list[n]);
        n += as_loop(f, b, &list[n]);
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_worth);
    for (int i = 0; i < n && i < MOST_TRIES && ok && !*better; i++) {
        prepare(f, &list[i]);
        ok = try_change(f, &list[i], better);
    }
    tpi_bump_free(&memory);
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

/* The largest buffer in use at the peak of those that are smaller than buffer `after`, or as large and behind it;
 * -1: none. Of all for -1. */
static int next_largest(const version *v, int after)
{
    int best = -1;
    for (int i = 0; i < v->plan->n_buffers; i++) {
        const bool later = after < 0 || v->bytes[i] < v->bytes[after] ||
                           (v->bytes[i] == v->bytes[after] && i > after);
        if (is_live(v, &v->plan->buffers[i]) && v->bytes[i] && later &&
            (best < 0 || v->bytes[i] > v->bytes[best]))
            best = i;
    }
    return best;
}

/* The buffers in use at the peak, the largest first, as many as the message has room for. */
static void put_peak(tpi_str *s, const version *v)
{
    enum { MOST = 3 };
    int n = 0, more = 0;
    for (int i = next_largest(v, -1); i >= 0; i = next_largest(v, i)) {
        if (n == MOST) {
            more++;
            continue;
        }
        tpi_str_put(s, n++ ? ", " : ": ");
        put_buffer(s, v, i);
    }
    if (more)
        tpi_str_printf(s, " and %d more", more);
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
    version v = {.memory = TPI_BUMP(&plan->graph->ctx->mem),
                 .graph = plan->graph,
                 .plan = (tpi_plan *)plan};
    if (find_peak(&v, arena, b->symbols))
        refuse(b, &v, "these sizes take");
    tpi_bump_free(&v.memory);
}

/* ---- all of it --------------------------------------------------------------------------------------- */

tp_graph *tpi_budget_fit(const tpi_budget *b, tp_graph *g, tpi_fusing fuse, int n_feeds,
                         tp_tensor **feeds, int n_roots, tp_tensor **roots)
{
    enum { MOST_GROWTH = 3 }; /* from there on much is computed for little */
    tp_ctx *ctx = g->ctx;
    g = tpi_tidy(g, n_feeds, feeds, n_roots, roots);
    fitting f = {.ctx = ctx, .budget = b, .fuse = fuse, .n_feeds = n_feeds, .n_roots = n_roots};
    version *now = &f.now;
    *now = (version){.memory = TPI_BUMP(&ctx->mem), .graph = g};
    now->ends = tpi_bump_take(&now->memory, (size_t)(n_feeds + n_roots), sizeof *now->ends);
    bool better = true, ok = g && now->ends;
    if (ok && n_feeds)
        memcpy(now->ends, feeds, (size_t)n_feeds * sizeof *feeds);
    if (ok)
        memcpy(now->ends + n_feeds, roots, (size_t)n_roots * sizeof *roots);
    ok = ok && measure(&f, now);
    ok = ok && (keeps_limit(&f) || reorder(&f));
    const int most_nodes = ok ? MOST_GROWTH * now->graph->n_nodes : 0;
    while (ok && better && !keeps_limit(&f) && now->graph->n_nodes < most_nodes) {
        better = false;
        ok = improve(&f, &better);
    }
    const bool keeps = ok && keeps_limit(&f);
    if (!ok)
        tpi_no_memory(ctx, b->at, b->what); /* unless another error was first */
    else if (!keeps)
        refuse(b, now, "the least between kernels is");
    if (keeps) {
        g = now->graph;
        now->graph = NULL;
        if (n_feeds)
            memcpy(feeds, now->ends, (size_t)n_feeds * sizeof *feeds);
        memcpy(roots, now->ends + n_feeds, (size_t)n_roots * sizeof *roots);
    }
    free_version(now);
    return keeps ? g : NULL;
}
