/* The order in which what waits is computed: views at once when what they look at is there; of the signatures with ready
 * units one that others wait for; of these one whose units are all ready, else one whose units wait for each other, and so
 * cannot be one group, else any; and of these the one whose ready units are the lowest. They are a group. So what can wait
 * for more of its like does. */
#include "base/log.h"
#include "batch/queue.h"

#include <stdlib.h>
#include <string.h>

static bool is_wanted(const tpi_queue *w, const tpi_queue_unit *u)
{
    bool is = u->y && (u->y->refs > 1 || (u->op && tpi_may_refuse(u->op)));
    /* Taps are for who wants the results. */
    const int n = !u->side                            ? 1
                  : u->side == u->side->cell->forward ? u->side->cell->n_out
                                                      : u->side->n_out;
    for (int i = 0; i < n - 1 && u->y && !is; i++)
        is = w->operands[u->first + u->n_in + i].t->refs > 1;
    return is;
}

/* Going back: a value that nobody holds, and nothing that is wanted is computed from. */
static void drop_unwanted(tpi_queue *w)
{
    for (int32_t i = w->n - 1; i >= 0; i--)
        if (!is_wanted(w, &w->units[i]))
            tpi_unit_release(w, i);
}

static void push_ready(tpi_queue *w, int32_t unit)
{
    tpi_queue_unit *u = &w->units[unit];
    tpi_unit_signature *s = &w->signatures[u->signature];
    if (!s->n_ready)
        w->ready[w->n_ready++] = u->signature;
    u->next_ready = s->ready;
    s->ready = unit;
    s->n_ready++;
    s->used += u->user >= 0;
    s->heights += u->height;
}

/* Its users wait for one operand less. `stack` has room for all units: those that wait for none now, and are computed
 * alone, are put on it. */
static int note_done(tpi_queue *w, int32_t unit, int32_t *stack, int n)
{
    for (int32_t o = w->units[unit].user; o >= 0; o = w->operands[o].next) {
        const int32_t user = w->operands[o].unit;
        tpi_queue_unit *u = &w->units[user];
        if (--u->waits > 0 || !u->y)
            continue;
        if (u->signature < 0)
            stack[n++] = user;
        else
            push_ready(w, user);
    }
    return n;
}

/* What is on the stack, and then on it, is computed. */
static void run_alone(tpi_queue *w, int32_t *stack, int n)
{
    while (n) {
        const int32_t unit = stack[--n];
        w->ctx->batch_counts.kernels += !w->units[unit].view;
        w->ctx->batch_counts.alone += !w->units[unit].view;
        tpi_unit_run(w, unit);
        n = note_done(w, unit, stack, n);
        tpi_unit_release(w, unit);
    }
}

static int rank_of(const tpi_unit_signature *s)
{
    return s->n_ready == s->left ? 0 : s->recursive ? 1 : 2;
}

/* Is signature a better than b? The older one is where they are equal. */
static bool comes_first(const tpi_unit_signature *a, const tpi_unit_signature *b)
{
    if ((a->used > 0) != (b->used > 0))
        return a->used > 0;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    const int64_t left = a->heights * b->n_ready, right = b->heights * a->n_ready;
    return left < right || (left == right && a < b);
}

/* Takes it from the list of those with ready units; NULL: there is none. */
static tpi_unit_signature *next_signature(tpi_queue *w)
{
    int32_t best = 0;
    for (int32_t i = 1; i < w->n_ready; i++)
        if (comes_first(&w->signatures[w->ready[i]], &w->signatures[w->ready[best]]))
            best = i;
    if (!w->n_ready)
        return NULL;
    tpi_unit_signature *s = &w->signatures[w->ready[best]];
    w->ready[best] = w->ready[--w->n_ready];
    return s;
}

static int in_order(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Takes the ready units, in the order of their calls. */
static int take_ready(const tpi_queue *w, tpi_unit_signature *s, int32_t *units)
{
    const int n = s->n_ready;
    bool sorted = true;
    for (int32_t i = s->ready, k = n - 1; i >= 0; i = w->units[i].next_ready, k--) {
        units[k] = i;
        sorted &= k == n - 1 || i < units[k + 1];
    }
    s->left -= n;
    s->ready = -1;
    s->n_ready = s->used = 0;
    s->heights = 0;
    if (!sorted)
        qsort(units, (size_t)n, sizeof *units, in_order);
    return n;
}

static void run_groups(tpi_queue *w, int32_t *group, int32_t *stack)
{
    for (tpi_unit_signature *s = next_signature(w); s; s = next_signature(w)) {
        const int n = take_ready(w, s, group);
        tpi_group_run(w, n, group);
        int alone = 0;
        for (int i = 0; i < n; i++) {
            alone = note_done(w, group[i], stack, alone);
            tpi_unit_release(w, group[i]);
        }
        run_alone(w, stack, alone);
    }
}

/* Without memory to put them in an order they are computed in that of the calls. */
static void run_in_order(tpi_queue *w)
{
    for (int32_t i = 0; i < w->n; i++)
        if (w->units[i].y) {
            tpi_unit_run(w, i);
            tpi_unit_release(w, i);
        }
}

/* Which of signatures [first, first + 64) are recursive; before[]: by unit, which of them it waits for. */
static void find_recursive(tpi_queue *w, int32_t first, uint64_t *before)
{
    for (int32_t i = 0; i < w->n; i++) {
        const tpi_queue_unit *u = &w->units[i];
        before[i] = 0;
        for (int k = 0; k < u->n_in && u->y; k++) {
            const int32_t maker = tpi_unit_of(w, w->operands[u->first + k].t);
            if (maker < 0)
                continue;
            const int32_t signature = w->units[maker].signature - first;
            before[i] |= before[maker];
            if (signature >= 0 && signature < 64)
                before[i] |= UINT64_C(1) << signature;
        }
        if (u->y && u->signature >= first && u->signature < first + 64)
            w->signatures[u->signature].recursive |= before[i] >> (u->signature - first) & 1;
    }
}

static void find_order(tpi_queue *w, uint64_t *before)
{
    for (int32_t s = 0; s < w->n_signatures; s++) {
        w->signatures[s].left = 0;
        w->signatures[s].recursive = false;
    }
    for (int32_t i = 0; i < w->n; i++)
        if (w->units[i].y && w->units[i].signature >= 0)
            w->signatures[w->units[i].signature].left++;
    for (int32_t first = 0; first < w->n_signatures; first += 64)
        find_recursive(w, first, before);
}

static void run_all(tpi_queue *w)
{
    tpi_mem *m = &w->ctx->mem;
    const size_t bytes = (size_t)w->n * sizeof(uint64_t) +
                         (2 * (size_t)w->n + (size_t)w->n_signatures) * sizeof(int32_t);
    uint64_t *before = tpi_take(m, bytes);
    if (!before) {
        run_in_order(w);
        return;
    }
    int32_t *group = (int32_t *)(void *)(before + w->n), *stack = group + w->n;
    int alone = 0;
    find_order(w, before);
    w->ready = stack + w->n;
    w->n_ready = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const tpi_queue_unit *u = &w->units[i];
        if (!u->y || u->waits)
            continue;
        if (u->signature < 0)
            stack[alone++] = i;
        else
            push_ready(w, i);
    }
    run_alone(w, stack, alone);
    run_groups(w, group, stack);
    tpi_give_back(m, before, bytes);
}

enum { LANES = 8 }; /* signatures at a time */

/* The longest chains of units of signatures [first, first + LANES), each of which depends on the one before, added up. chain[]:
 * by unit, those that end before or in it. */
static int64_t longest_chains(const tpi_queue *w, int32_t first, int32_t (*chain)[LANES])
{
    int32_t longest[LANES] = {0};
    int64_t sum = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const tpi_queue_unit *u = &w->units[i];
        int32_t *own = chain[i];
        memset(own, 0, sizeof *chain);
        for (int k = 0; k < u->n_in && u->y; k++) {
            const int32_t maker = tpi_unit_of(w, w->operands[u->first + k].t);
            for (int lane = 0; lane < LANES && maker >= 0; lane++)
                own[lane] = chain[maker][lane] > own[lane] ? chain[maker][lane] : own[lane];
        }
        const int32_t lane = u->signature - first;
        if (u->y && lane >= 0 && lane < LANES && ++own[lane] > longest[lane])
            longest[lane] = own[lane];
    }
    for (int lane = 0; lane < LANES; lane++)
        sum += longest[lane];
    return sum;
}

/* Of what waits, so many kernels at least, in whatever order: what is computed alone, and of each signature as many as its
 * longest chain. -1: no memory. */
static int64_t least_kernels(const tpi_queue *w)
{
    int64_t least = 0;
    const size_t bytes = (size_t)w->n * sizeof(int32_t[LANES]);
    int32_t(*chain)[LANES] = tpi_take(&w->ctx->mem, bytes);
    for (int32_t i = 0; i < w->n; i++)
        least += w->units[i].y && !w->units[i].view && w->units[i].signature < 0;
    for (int32_t s = 0; s < w->n_signatures && chain; s += LANES)
        least += longest_chains(w, s, chain);
    tpi_give_back(&w->ctx->mem, chain, chain ? bytes : 0);
    return chain ? least : -1;
}

void tpi_queue_flush(tpi_queue *w)
{
    tp_ctx *ctx = w->ctx;
    if (w->running || !w->n)
        return;
    w->running = true;
    drop_unwanted(w);
    const tp_batch_counts before = ctx->batch_counts;
    const bool logs = tpi_log_on(TPI_LOG_batch);
    const int64_t least = logs || ctx->batch_measured ? least_kernels(w) : 0;
    if (ctx->batch_measured && least > 0)
        ctx->batch_counts.least += least;
    for (int32_t i = 0; i < w->n; i++)
        ctx->batch_counts.ops += w->units[i].y && !w->units[i].view;
    tpi_frame_head *frame = ctx->frame;
    tp_graph *tracing = ctx->tracing;
    ctx->frame = NULL;
    ctx->tracing = NULL;
    const bool was = tp_recording(ctx, false);
    run_all(w);
    tp_recording(ctx, was);
    ctx->frame = frame;
    ctx->tracing = tracing;
    w->running = false;
    if (logs)
        tpi_log(TPI_LOG_batch, "%lld ops and calls by %lld kernels, of at least %lld",
                (long long)(ctx->batch_counts.ops - before.ops),
                (long long)(ctx->batch_counts.kernels - before.kernels), (long long)least);
    tpi_queue_clear(w);
}
