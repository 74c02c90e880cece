#include "plan/waves.h"

#include "base/log.h"
#include "plan/work.h"

#include <stdlib.h>
#include <string.h>

/* ---- what steps take ----------------------------------------------------------------------------------- */

/* Nanoseconds of one thread. They decide what is worth it, and nothing else. */
static double time_of(const tpi_plan *plan, const tpi_kernel *k, const tpi_work *w)
{
    const tp_tensor *t = plan->graph->nodes[k->root];
    if (k->kind == TPI_KERNEL_LOOP) {
        const double compute = 0.1 * w->flops, move = 0.05 * w->bytes;
        return compute > move ? compute : move;
    }
    return t->op->multiply_adds ? 0.02 * w->flops + 0.05 * w->bytes : 0.2 * w->bytes;
}

/* How long a step takes on one thread, and when the team cuts it. */
typedef struct cost {
    double alone, cut;
    bool apart; /* it is part of no wave */
} cost;

static cost cost_of(const tpi_waves_for *f, const tpi_plan_step *s)
{
    cost c = {0, 0, false};
    for (int i = s->first; i < s->first + s->n && !c.apart; i++) {
        const tpi_kernel *k = &f->plan->kernels[i];
        /* random numbers are drawn in program order */
        c.apart = k->kind == TPI_KERNEL_BLOCK || f->plan->graph->nodes[k->root]->op->draws;
        if (c.apart)
            break;
        const tpi_work w = tpi_kernel_work(&f->sizes, f->plan, i);
        const double ns = 200 + time_of(f->plan, k, &w);
        /* as the library counts: a product's sums, a nest's ops */
        const double work = k->kind == TPI_KERNEL_LOOP ? TPI_NEST_OP * w.flops : w.flops / 2;
        const int64_t parts = tpi_team_parts(f->team, work);
        c.alone += ns;
        c.cut += parts > 1 ? ns / (double)parts + f->wave_ns : ns;
    }
    return c;
}

/* ---- who waits for whom -------------------------------------------------------------------------------- */

/* A wave has at most so many steps, of which tpi_wave.calls has a bit each. */
enum { MOST = 64 };

typedef struct use {
    int step, next; /* of the same buffer; -1: none */
} use;

/* Steps that a step has to wait for, those that are far off left out. */
typedef struct waits {
    int *start, *list; /* list[start[i]] .. list[start[i + 1]) */
    int n;
    int *writer,
        *reader; /* by buffer: who wrote it last, and the first of who read it since; -1 */
    use *uses;
    int n_uses, n_operands;
    size_t bytes; /* of all of this, in one block */
} waits;

static bool waits_alloc(tpi_mem *m, const tpi_plan *plan, waits *x)
{
    for (int i = 0; i < plan->n_values; i++)
        x->n_operands += plan->values[i].kernel >= 0 ? plan->values[i].node->n_in : 0;
    const size_t steps = (size_t)plan->n_steps + 1, buffers = (size_t)plan->n_buffers,
                 operands = (size_t)x->n_operands,
                 list = 2 * operands + (size_t)plan->n_buffers;
    x->bytes = (steps + list + 2 * buffers) * sizeof(int) + operands * sizeof(use);
    x->start = tpi_take(m, x->bytes);
    if (!x->start)
        return false;
    x->list = x->start + steps;
    x->writer = x->list + list;
    x->reader = x->writer + buffers;
    x->uses = (use *)(x->reader + buffers);
    for (size_t i = 0; i < 2 * buffers; i++)
        x->writer[i] = -1;
    return true;
}

static void wait_for(waits *x, int step, int before)
{
    if (before >= 0 && before != step && step - before < MOST)
        x->list[x->n++] = before;
}

static void note_result(waits *x, int step, int to)
{
    if (to < 0)
        return;
    wait_for(x, step, x->writer[to]);
    for (int u = x->reader[to]; u >= 0; u = x->uses[u].next)
        wait_for(x, step, x->uses[u].step);
    x->reader[to] = -1;
    x->writer[to] = step;
}

static void note_kernel(waits *x, const tpi_plan *plan, int step, int kernel)
{
    const tpi_kernel *k = &plan->kernels[kernel];
    const int *nodes = k->n_nodes ? k->nodes : &k->root, n = k->n_nodes ? k->n_nodes : 1;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        for (int o = 0; o < t->n_in; o++) {
            const int from = plan->values[plan->values[t->in[o]->index].layout.root].buffer;
            if (from < 0)
                continue;
            wait_for(x, step, x->writer[from]);
            x->uses[x->n_uses] = (use){step, x->reader[from]};
            x->reader[from] = x->n_uses++;
        }
    }
    for (int i = 0; i < n; i++)
        note_result(x, step, plan->values[nodes[i]].buffer);
}

static void find_waits(const tpi_plan *plan, const cost *costs, waits *x)
{
    for (int i = 0; i < plan->n_steps; i++) {
        x->start[i] = x->n;
        const tpi_plan_step *s = &plan->steps[i];
        for (int k = s->first; k < s->first + s->n && !costs[i].apart; k++)
            note_kernel(x, plan, i, k);
    }
    x->start[plan->n_steps] = x->n;
}

/* ---- tasks of a wave ----------------------------------------------------------------------------------- */

/* The steps from `first` on, joined where one waits for the other. */
typedef struct joined {
    int first, n, n_tasks;
    int task[MOST];  /* by step: one before it of the same task, or itself */
    double ns[MOST]; /* by the first step of a task */
    double all, longest;
} joined;

static int task_of(joined *j, int i)
{
    while (j->task[i] != i)
        i = j->task[i] = j->task[j->task[i]];
    return i;
}

static void join(joined *j, const waits *x, const cost *c)
{
    const int i = j->n++;
    j->task[i] = i;
    j->ns[i] = c->alone;
    j->all += c->alone;
    j->n_tasks++;
    for (int e = x->start[j->first + i]; e < x->start[j->first + i + 1]; e++) {
        const int before = x->list[e] - j->first;
        if (before < 0)
            continue;
        int a = task_of(j, before), b = task_of(j, i);
        if (a == b)
            continue;
        if (a > b) {
            const int t = a;
            a = b, b = t;
        }
        j->task[b] = a;
        j->ns[a] += j->ns[b];
        j->n_tasks--;
    }
    const double ns = j->ns[task_of(j, i)];
    j->longest = ns > j->longest ? ns : j->longest;
}

/* ---- which waves --------------------------------------------------------------------------------------- */

/* The fastest way to a step: the end of a wave of so many steps, or (0) of a step of its own. */
typedef struct way {
    double ns;
    int wave;
} way;

/* A wave has to be clearly faster: what it may take is an estimate. */
static const double gain = 1.1;

static void find_ways(const tpi_waves_for *f, const cost *costs, const waits *x, way *ways)
{
    const int n = f->plan->n_steps;
    const double threads = tpi_pool_threads(f->ctx->pool);
    ways[0] = (way){0, 0};
    for (int i = 1; i <= n; i++)
        ways[i].ns = -1;
    for (int i = 0; i < n; i++) {
        const double next = ways[i].ns + costs[i].cut;
        if (ways[i + 1].ns < 0 || next < ways[i + 1].ns)
            ways[i + 1] = (way){next, 0};
        joined j = {.first = i};
        for (int k = i; k < n && k < i + MOST && !costs[k].apart; k++) {
            join(&j, x, &costs[k]);
            const double least = j.all / threads;
            const double ns =
                ways[i].ns + gain * (least > j.longest ? least : j.longest) + f->wave_ns;
            if (j.n_tasks > 1 && (ways[k + 1].ns < 0 || ns < ways[k + 1].ns))
                ways[k + 1] = (way){ns, j.n};
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const tpi_task *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : x->first - y->first;
}

/* The steps of a task, as bits, if there are calls among them. */
static uint64_t steps_with_calls(const tpi_waves *w, const tpi_wave *wave, const tpi_task *t)
{
    const tpi_plan *plan = w->plan;
    uint64_t steps = 0;
    bool calls = false;
    for (int i = t->first; i < t->first + t->n; i++) {
        const tpi_plan_step *s = &plan->steps[w->order[i]];
        steps |= UINT64_C(1) << (w->order[i] - wave->first);
        for (int k = s->first; k < s->first + s->n; k++)
            calls |= plan->kernels[k].kind != TPI_KERNEL_LOOP;
    }
    return calls ? steps : 0;
}

static void add_wave(tpi_waves *w, const cost *costs, const waits *x, int first, int n)
{
    joined j = {.first = first};
    for (int i = 0; i < n; i++)
        join(&j, x, &costs[first + i]);
    tpi_wave *wave = &w->waves[w->n++];
    *wave = (tpi_wave){first, n, w->n_tasks, j.n_tasks, 0};
    int at = first; /* in the order */
    for (int i = 0; i < n; i++) {
        if (j.task[i] != i)
            continue;
        tpi_task *t = &w->tasks[w->n_tasks++];
        *t = (tpi_task){at, 0, j.ns[i]};
        for (int k = i; k < n; k++)
            if (task_of(&j, k) == i) {
                w->order[at++] = first + k;
                t->n++;
            }
        wave->calls |= steps_with_calls(w, wave, t);
    }
    qsort(&w->tasks[wave->first_task], (size_t)wave->n_tasks, sizeof *w->tasks, by_time);
    w->length[first] = n;
    w->most_tasks = wave->n_tasks > w->most_tasks ? wave->n_tasks : w->most_tasks;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static tpi_waves *waves_new(const tpi_waves_for *f)
{
    tpi_mem *m = &f->ctx->mem;
    const size_t n = (size_t)f->plan->n_steps, buffers = (size_t)f->plan->all_buffers;
    tpi_waves *w = tpi_take(m, sizeof *w);
    if (!w)
        return NULL;
    *w = (tpi_waves){
        .p = f->p,
        .ctx = f->ctx,
        .plan = f->plan,
        .sizes = f->sizes,
        .team = {.kernels = f->ctx->kernels, .near_bytes = f->ctx->near_bytes}
    };
    w->micro = tpi_take(m, n * sizeof *w->micro);
    w->pointers = tpi_take(m, buffers * sizeof *w->pointers);
    w->shift = tpi_take(m, buffers * sizeof *w->shift);
    w->waves = tpi_take(m, n * sizeof *w->waves);
    w->tasks = tpi_take(m, n * sizeof *w->tasks);
    w->order = tpi_take(m, n * sizeof *w->order);
    w->length = tpi_take(m, n * sizeof *w->length);
    if (!w->micro || !w->pointers || !w->shift || !w->waves || !w->tasks || !w->order ||
        !w->length) {
        tpi_waves_free(w);
        return NULL;
    }
    memset(w->length, 0, n * sizeof *w->length);
    return w;
}

void tpi_waves_free(tpi_waves *w)
{
    if (!w)
        return;
    tpi_mem *m = &w->ctx->mem;
    const size_t n = (size_t)w->plan->n_steps, buffers = (size_t)w->plan->all_buffers;
    tpi_give_back(m, w->micro, n * sizeof *w->micro);
    tpi_give_back(m, w->pointers, buffers * sizeof *w->pointers);
    tpi_give_back(m, w->shift, buffers * sizeof *w->shift);
    tpi_arena_free(w->arena);
    tpi_give_back(m, w->waves, n * sizeof *w->waves);
    tpi_give_back(m, w->tasks, n * sizeof *w->tasks);
    tpi_give_back(m, w->order, n * sizeof *w->order);
    tpi_give_back(m, w->length, n * sizeof *w->length);
    tpi_give_back(m, w, sizeof *w);
}

static bool in_microbatch(const tpi_waves *w, int step)
{
    bool is = false;
    for (int i = 0; i < w->n_micro; i++)
        is |= step >= w->micro[i].first && step < w->micro[i].first + w->micro[i].n;
    return is;
}

static bool find_waves(tpi_waves *w, const tpi_waves_for *f, cost *costs, way *ways)
{
    const int n = w->plan->n_steps;
    waits x = {0};
    if (!waits_alloc(&w->ctx->mem, w->plan, &x))
        return false;
    for (int i = 0; i < n; i++) {
        costs[i] = cost_of(f, &w->plan->steps[i]);
        costs[i].apart |= in_microbatch(w, i);
    }
    find_waits(w->plan, costs, &x);
    find_ways(f, costs, &x, ways);
    for (int i = n; i > 0; i -= ways[i].wave ? ways[i].wave : 1)
        if (ways[i].wave)
            add_wave(w, costs, &x, i - ways[i].wave, ways[i].wave);
    for (int i = w->n - 1; i >= 0; i--)
        tpi_log(TPI_LOG_threads, "steps %d to %d are %d tasks side by side", w->waves[i].first,
                w->waves[i].first + w->waves[i].n - 1, w->waves[i].n_tasks);
    tpi_give_back(&w->ctx->mem, x.start, x.bytes);
    return true;
}

static bool find_with_room(tpi_waves *w, const tpi_waves_for *f)
{
    tpi_mem *m = &w->ctx->mem;
    const size_t n = (size_t)w->plan->n_steps + 1;
    cost *costs = tpi_take(m, n * sizeof *costs);
    way *ways = tpi_take(m, n * sizeof *ways);
    const bool ok = costs && ways && find_waves(w, f, costs, ways);
    tpi_give_back(m, costs, n * sizeof *costs);
    tpi_give_back(m, ways, n * sizeof *ways);
    return ok;
}

static void find_microbatches(tpi_waves *w)
{
    tpi_micro_find(w);
    for (int i = 0; i < w->n_micro; i++) {
        w->length[w->micro[i].first] = w->micro[i].n;
        tpi_log(TPI_LOG_program, "steps %d to %d run place by place", w->micro[i].first,
                w->micro[i].first + w->micro[i].n - 1);
    }
}

static void live_through(const tpi_plan *plan, int step, int n, tpi_buffer *b)
{
    const tpi_plan_step *end = &plan->steps[step + n - 1];
    const int first = plan->steps[step].first, last = end->first + end->n - 1;
    if (b->first >= first && b->first <= last)
        b->first = first;
    if (b->last >= first && b->last <= last)
        b->last = last;
}

/* Buffers live as long as the waves that they are part of, or as the microbatch that does not keep them. False:
 * no memory. */
static bool place(tpi_waves *w)
{
    const tpi_plan *plan = w->plan;
    const size_t bytes = (size_t)plan->n_buffers * sizeof(tpi_buffer);
    tpi_buffer *to = tpi_take(&w->ctx->mem, bytes);
    if (!to)
        return false;
    memcpy(to, plan->buffers, bytes);
    for (int i = 0; i < plan->n_buffers; i++) {
        if (to[i].storage == TPI_IN_SOURCE)
            continue;
        for (int k = 0; k < w->n; k++)
            live_through(plan, w->waves[k].first, w->waves[k].n, &to[i]);
        for (int k = 0; k < w->n_micro; k++)
            if (!tpi_micro_keeps(plan, &w->micro[k], &plan->buffers[i]))
                live_through(plan, w->micro[k].first, w->micro[k].n, &to[i]);
    }
    w->arena = tpi_arena_new(plan, to);
    tpi_give_back(&w->ctx->mem, to, bytes);
    return w->arena;
}

bool tpi_waves_find(const tpi_waves_for *what, tpi_waves **found)
{
    *found = NULL;
    if (!what->waves && !what->microbatches)
        return true;
    tpi_waves *w = waves_new(what);
    if (!w)
        return false;
    if (what->microbatches)
        find_microbatches(w);
    bool ok = !what->waves || find_with_room(w, what);
    const bool any = w->n || w->n_micro;
    ok = ok && (!any || place(w));
    if (ok && any)
        *found = w;
    else
        tpi_waves_free(w);
    return ok;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

int tpi_waves_lanes(const tpi_waves *w)
{
    const int threads = tpi_pool_threads(w->ctx->pool);
    return threads < w->most_tasks ? threads : w->most_tasks;
}

const tpi_wave *tpi_wave_at(const tpi_waves *w, int step)
{
    for (int i = 0; i < w->n && w->length[step]; i++)
        if (w->waves[i].first == step)
            return &w->waves[i];
    return NULL;
}

typedef struct running {
    const tpi_waves *w;
    const tpi_wave *wave;
    void (*run)(void *env, int lane, const tpi_task *task);
    void *env;
    int next; /* task that nobody has taken */
} running;

static void run_lane(void *env, size_t lane)
{
    running *r = env;
    for (;;) {
        const int i = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
        if (i >= r->wave->n_tasks)
            return;
        r->run(r->env, (int)lane, &r->w->tasks[r->wave->first_task + i]);
    }
}

void tpi_wave_run(const tpi_waves *w, const tpi_wave *wave,
                  void (*run)(void *env, int lane, const tpi_task *task), void *env)
{
    running r = {w, wave, run, env, 0};
    const int lanes = tpi_waves_lanes(w);
    tpi_pool_run(w->ctx->pool, run_lane, &r,
                 (size_t)(lanes < wave->n_tasks ? lanes : wave->n_tasks));
}
