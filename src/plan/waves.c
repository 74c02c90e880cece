/* Waves: steps in a row of which not all depend on each other. What depends on each other, directly or not, is
 * a task. That is for branches, and for what is done to many parameters: steps too small to be cut themselves. */
#include "base/log.h"
#include "plan/cut.h"
#include "plan/work.h"

#include <stdlib.h>

/* ---- what steps take ----------------------------------------------------------------------------------- */

/* Nanoseconds of one thread. They decide what is worth it, and nothing else. */
static double time_of(const tpi_plan *plan, const tpi_kernel *k, const tpi_work *w)
{
    const tp_tensor *t = plan->graph->nodes[k->root];
    if (k->kind == TPI_KERNEL_LOOP) {
        const double compute = 0.1 * w->flops, move = 0.05 * w->bytes;
        return compute > move ? compute : move;
    }
    return t->op->contract ? 0.02 * w->flops + 0.05 * w->bytes : 0.2 * w->bytes;
}

/* How long a step takes on one thread, and when the team cuts it. */
typedef struct cost {
    double alone, cut;
    bool apart; /* it is part of no wave */
} cost;

static cost cost_of(const tpi_cuts *cuts, const tpi_plan_step *s)
{
    const tpi_cuts_for *f = &cuts->what;
    cost c = {0, 0, cuts->in[s->first]};
    for (int i = s->first; i < s->first + s->n && !c.apart; i++) {
        const tpi_kernel *k = &f->plan->kernels[i];
        /* random numbers are drawn in program order, and the user's code runs on the user's thread */
        const tpi_op *op = f->plan->graph->nodes[k->root]->op;
        c.apart = k->kind == TPI_KERNEL_BLOCK || op->draws || op->own;
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

/* A wave has at most so many steps. */
enum { MOST = 64 };

/* Who used a buffer: the last step that wrote it, and of those before step `at`, or itself, who read it since, as
 * bits: bit i is the step i before that. */
typedef struct use {
    int writer, at; /* -1 */
    uint64_t readers;
} use;

/* Bit i: it has to wait for the step i + 1 before it. What is far off is left out. */
static void wait_for(uint64_t *waits, int step, int before)
{
    if (before >= 0 && before != step && step - before < MOST)
        waits[step] |= UINT64_C(1) << (step - before - 1);
}

static void note_read(use *u, int step)
{
    u->readers = step - u->at < MOST ? u->readers << (step - u->at) : 0;
    u->at = step;
}

static void note_kernel(const tpi_plan *plan, int step, const tpi_kernel *k, use *uses,
                        uint64_t *waits)
{
    const int *nodes = k->n_nodes ? k->nodes : &k->root, n = k->n_nodes ? k->n_nodes : 1;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        for (int o = 0; o < t->n_in; o++) {
            const int from = plan->values[plan->values[t->in[o]->index].layout.root].buffer;
            if (from < 0)
                continue;
            wait_for(waits, step, uses[from].writer);
            note_read(&uses[from], step);
            uses[from].readers |= 1;
        }
    }
    for (int i = 0; i < n; i++) {
        const int to = plan->values[nodes[i]].buffer;
        if (to < 0)
            continue;
        wait_for(waits, step, uses[to].writer);
        note_read(&uses[to], step);
        waits[step] |= uses[to].readers >> 1;
        uses[to] = (use){step, step, 0};
    }
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

static void join(joined *j, uint64_t waits, const cost *c)
{
    const int i = j->n++;
    j->task[i] = i;
    j->ns[i] = c->alone;
    j->all += c->alone;
    j->n_tasks++;
    for (int before = i - 1; before >= 0 && waits; before--, waits >>= 1) {
        if (!(waits & 1))
            continue;
        const int a = task_of(j, before), b = task_of(j, i);
        if (a == b)
            continue;
        const int to = a < b ? a : b, from = a < b ? b : a;
        j->task[from] = to;
        j->ns[to] += j->ns[from];
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

/* What is known of the steps. */
typedef struct search {
    tpi_cuts *c;
    int n; /* steps */
    cost *costs;
    uint64_t *waits;
    way *ways; /* to the beginning of each step, and to the end */
} search;

static void find_ways(const search *s)
{
    /* A wave has to be clearly faster: what it may take is an estimate. */
    const double gain = 1.1, threads = tpi_pool_threads(s->c->what.ctx->pool);
    for (int i = 1; i <= s->n; i++)
        s->ways[i].ns = -1;
    for (int i = 0; i < s->n; i++) {
        way *to = &s->ways[i + 1];
        const double here = s->ways[i].ns, next = here + s->costs[i].cut;
        joined j = {.first = i};
        if (to->ns < 0 || next < to->ns)
            *to = (way){next, 0};
        for (int k = i; k < s->n && k < i + MOST && !s->costs[k].apart; k++, to++) {
            join(&j, s->waits[k], &s->costs[k]);
            const double least = j.all / threads;
            const double ns =
                here + gain * (least > j.longest ? least : j.longest) + s->c->what.wave_ns;
            if (j.n_tasks > 1 && (to->ns < 0 || ns < to->ns))
                *to = (way){ns, j.n};
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const tpi_task *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : x->first - y->first;
}

/* The kernels of a task, of which `root` is the first step. */
static tpi_task add_task(const search *s, joined *j, int root, int at)
{
    const tpi_plan *plan = s->c->what.plan;
    tpi_task t = {at, 0, j->ns[root]};
    bool calls = false;
    for (int i = root; i < j->n; i++) {
        const tpi_plan_step *step = &plan->steps[j->first + i];
        for (int k = 0; k < step->n && task_of(j, i) == root; k++) {
            calls |= plan->kernels[step->first + k].kind != TPI_KERNEL_LOOP;
            s->c->order[at + t.n++] = step->first + k;
        }
    }
    for (int i = 0; i < t.n; i++)
        s->c->calls[s->c->order[at + i]] = calls;
    return t;
}

static bool add_wave(const search *s, int first, int n)
{
    tpi_cuts *c = s->c;
    const tpi_plan_step *begin = &c->what.plan->steps[first], *last = begin + n - 1;
    joined j = {.first = first};
    for (int i = 0; i < n; i++)
        join(&j, s->waits[first + i], &s->costs[first + i]);
    tpi_plan_cut *cut = tpi_bump_take(&c->mem, 1, sizeof *cut);
    tpi_task *tasks = tpi_bump_take(&c->mem, (size_t)j.n_tasks, sizeof *tasks);
    if (!cut || !tasks)
        return false;
    const int threads = tpi_pool_threads(c->what.ctx->pool);
    *cut = (tpi_plan_cut){.first = begin->first,
                          .n = last->first + last->n - begin->first,
                          .stride = tpi_cuts_stride(c, j.n_tasks),
                          .threads = threads < j.n_tasks ? threads : j.n_tasks,
                          .tasks = tasks};
    int at = begin->first; /* in the order */
    for (int i = 0; i < n; i++)
        if (j.task[i] == i) {
            tasks[cut->jobs] = add_task(s, &j, i, at);
            at += tasks[cut->jobs++].n;
        }
    qsort(tasks, (size_t)cut->jobs, sizeof *tasks, by_time);
    for (int k = cut->first; k < cut->first + cut->n; k++)
        c->in[k] = cut;
    c->most_threads = cut->threads > c->most_threads ? cut->threads : c->most_threads;
    c->n_waves++;
    tpi_log(TPI_LOG_threads, "steps %d to %d are %d tasks side by side", first, first + n - 1,
            j.n_tasks);
    return true;
}

static bool add_waves(const search *s, use *uses)
{
    const tpi_plan *plan = s->c->what.plan;
    bool ok = true;
    for (int i = 0; i < plan->n_buffers; i++)
        uses[i] = (use){-1, -1, 0};
    for (int i = 0; i < s->n; i++) {
        const tpi_plan_step *step = &plan->steps[i];
        s->costs[i] = cost_of(s->c, step);
        for (int k = step->first; k < step->first + step->n && !s->costs[i].apart; k++)
            note_kernel(plan, i, &plan->kernels[k], uses, s->waits);
    }
    find_ways(s);
    for (int i = s->n; i > 0 && ok; i -= s->ways[i].wave ? s->ways[i].wave : 1)
        ok = !s->ways[i].wave || add_wave(s, i - s->ways[i].wave, s->ways[i].wave);
    return ok;
}

bool tpi_cuts_waves(tpi_cuts *c)
{
    const tpi_plan *plan = c->what.plan;
    const size_t steps = (size_t)plan->n_steps, kernels = (size_t)plan->n_kernels;
    tpi_bump room = TPI_BUMP(&c->what.ctx->mem);
    const search s = {.c = c,
                      .n = plan->n_steps,
                      .costs = tpi_bump_take(&room, steps, sizeof(cost)),
                      .waits = tpi_bump_take(&room, steps, sizeof(uint64_t)),
                      .ways = tpi_bump_take(&room, steps + 1, sizeof(way))};
    use *uses = tpi_bump_take(&room, (size_t)plan->n_buffers, sizeof *uses);
    c->order = tpi_bump_take(&c->mem, kernels, sizeof *c->order);
    c->calls = tpi_bump_take(&c->mem, kernels, sizeof *c->calls);
    const bool ok = !room.failed && !c->mem.failed && add_waves(&s, uses);
    tpi_bump_free(&room);
    return ok;
}
