/* The tile executor: kernels, each made ready for the sizes of the run when it is first reached. */
#include "core/copy.h"
#include "op/random_position.h"
#include "run/cut_run.h"
#include "run/tiles.h"

#include <string.h>

/* ---- calls and copies ---------------------------------------------------------------------------------- */

static bool run_call(const tpi_session *s, tpi_call_code *c)
{
    const tp_program *p = s->p;
    const tp_tensor *t = c->node;
    tp_tensor *out = &tpi_call_out(c)->view;
    for (int i = 0; i <= c->n_in; i++)
        tpi_call_find(&c->operand[i], p->pointers);
    if (c->form == TPI_CALL_COPY) {
        tpi_copy_out(c->in[0], out->data);
        return true;
    }
    if (c->draws_next)
        tpi_session_draw(s, t, c->attrs);
    tpi_run r = {.op = t->op,
                 .ctx = p->ctx,
                 .at = TPI_AT(t->file, t->line),
                 .n_in = c->n_in,
                 .in = c->in,
                 .attrs = c->attrs,
                 .out = out};
    const bool ok = tpi_run_op(&r);
    if (!ok)
        tpi_program_says_why(p, t);
    return ok;
}

/* ---- kernels ----------------------------------------------------------------------------------------------- */

static bool is_late_layout(const tp_program *p, const tpi_layout *l)
{
    bool late = tpi_dim_is_late(p, l->offset);
    for (int a = 0; a < TP_MAX_RANK && !late; a++)
        late = tpi_dim_is_late(p, l->stride[a]);
    return late;
}

/* Is it known only when loops have run where an operand's elements are, or, of a size, what it is? */
static bool is_late_operand(const tp_program *p, const tpi_plan *plan, const tp_tensor *t)
{
    const tpi_layout *l = &plan->values[t->index].layout;
    const tp_tensor *root = plan->values[l->root].node;
    return is_late_layout(p, l) || (root->op->kind == TPI_SHAPE && tpi_is_late(p, root));
}

static bool is_late_kernel(const tp_program *p, const tpi_plan *plan, const tpi_kernel *k)
{
    const int only[] = {k->root}, *nodes = k->n_nodes ? k->nodes : only;
    bool late = false;
    for (int i = 0; i < (k->n_nodes ? k->n_nodes : 1) && p->n_late && !late; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        late = tpi_is_late(p, t) || is_late_layout(p, &plan->values[nodes[i]].layout);
        for (int o = 0; o < t->n_in && !late; o++)
            late = is_late_operand(p, plan, t->in[o]);
    }
    return late;
}

static void note_late(tpi_tiles *t, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const tpi_section *s = plan->sections ? plan->sections[plan->kernels[i].root] : NULL;
        t->kernels[plan->first_kernel + i].late = is_late_kernel(t->p, plan, &plan->kernels[i]);
        for (int k = 0; s && k < s->n_bodies; k++)
            note_late(t, s->plan[k]);
    }
}

bool tpi_tiles_new(tp_program *p)
{
    tpi_bump memory = TPI_BUMP(&p->ctx->mem);
    tpi_tiles *t = tpi_bump_take(&memory, 1, sizeof *t);
    tpi_tile_kernel *kernels =
        tpi_bump_take(&memory, (size_t)p->plan->all_kernels, sizeof *kernels);
    if (!kernels) {
        tpi_bump_free(&memory);
        return false;
    }
    *t = (tpi_tiles){.p = p, .memory = memory, .kernels = kernels, .full = -1};
    note_late(t, p->plan);
    p->tiles = t;
    return true;
}

void tpi_tiles_free(tpi_tiles *t)
{
    if (!t)
        return;
    tpi_mem *m = &t->p->ctx->mem;
    for (int i = 0; i < t->p->plan->all_kernels; i++)
        tpi_nest_free(m, t->kernels[i].nest);
    tpi_give_back(m, t->scratch, t->scratch_size);
    tpi_bump memory = t->memory; /* t is in it */
    tpi_bump_free(&memory);
}

/* So much scratch memory; false: there is no more, and what there is stays, for kernels that are ready. */
static bool grow_scratch(tpi_tiles *t, size_t need)
{
    tpi_mem *m = &t->p->ctx->mem;
    if (need <= t->scratch_size)
        return true;
    char *more = tpi_take(m, need);
    if (!more)
        return false;
    tpi_give_back(m, t->scratch, t->scratch_size);
    t->scratch = more;
    t->scratch_size = need;
    return true;
}

/* What the kernel is for the sizes of this run. */
static bool make_kernel(tpi_tiles *t, tpi_tile_kernel *made, const tpi_plan *plan,
                        const tpi_kernel *k)
{
    tp_program *p = t->p;
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    tpi_nest_free(&p->ctx->mem, made->nest);
    made->nest = k->kind == TPI_KERNEL_LOOP ? tpi_nest_new(p, plan, k) : NULL;
    if (k->kind != TPI_KERNEL_LOOP && !made->call)
        made->call = tpi_lower_call(&t->memory, plan, k);
    if (made->call)
        tpi_call_at(made->call, plan, &sizes);
    const size_t scratch =
        made->nest ? tpi_nest_scratch(made->nest, tpi_pool_threads(p->ctx->pool)) : 0;
    const bool ok = grow_scratch(t, scratch) && (made->call || made->nest);
    made->epoch = ok ? made->late ? t->bound : t->sized : 0;
    return ok;
}

/* Tells the profile, if there is one, what begins; what is in a block is a part of it. */
static void tick(const tp_program *p, const tpi_plan *plan, int kernel)
{
    if (p->library.tick && plan == p->plan)
        p->library.tick(p->library.watch, kernel);
}

static bool make_block(tpi_tiles *t, tpi_tile_kernel *made, const tpi_plan *plan, int i)
{
    if (!made->block)
        made->block = tpi_lower_block(&t->memory, plan, plan->sections[plan->kernels[i].root]);
    return made->block;
}

/* Is what the kernel is made ready for the sizes of this run? */
static bool make_ready(tpi_session *s, const tpi_plan *plan, int i)
{
    tpi_tiles *t = s->p->tiles;
    tpi_tile_kernel *made = &t->kernels[plan->first_kernel + i];
    if (plan->kernels[i].kind == TPI_KERNEL_BLOCK
            ? make_block(t, made, plan, i)
            : made->epoch == (made->late ? t->bound : t->sized) ||
                  make_kernel(t, made, plan, &plan->kernels[i]))
        return true;
    t->memory.failed = false; /* for the next run */
    tpi_no_memory(s->p->ctx, s->at, "tp_program_run");
    return false;
}

static bool run_kernel(tpi_session *s, const tpi_plan *plan, int i)
{
    tp_program *p = s->p;
    tpi_tiles *t = p->tiles;
    const tpi_kernel *k = &plan->kernels[i];
    const tpi_tile_kernel *made = &t->kernels[plan->first_kernel + i];
    tick(p, plan, i);
    if (!make_ready(s, plan, i))
        return false;
    if (k->kind == TPI_KERNEL_BLOCK)
        return tpi_tiles_block(s, plan, made->block);
    if (!made->nest)
        return run_call(s, made->call);
    tpi_nest_run(made->nest, &p->team, p->pointers, t->scratch);
    return true;
}

/* ---- waves ----------------------------------------------------------------------------------------------- */

/* Makes the nests of a wave ready, and the room that each thread needs. */
static bool prepare_wave(tpi_session *s, const tpi_plan_cut *wave, size_t *room)
{
    const tp_program *p = s->p;
    *room = 0;
    for (int k = wave->first; k < wave->first + wave->n; k++) {
        if (!make_ready(s, p->plan, k))
            return false;
        const tpi_nest *nest = p->tiles->kernels[k].nest;
        const size_t need = nest ? (tpi_nest_scratch(nest, 1) + 63) / 64 * 64 : 0;
        *room = need > *room ? need : *room;
    }
    if (grow_scratch(p->tiles, *room * (size_t)wave->threads))
        return true;
    tpi_no_memory(p->ctx, s->at, "tp_program_run");
    return false;
}

typedef struct tile_wave {
    const tp_program *p;
    const tpi_plan_cut *wave;
    size_t room; /* scratch memory of a thread */
} tile_wave;

static void run_nests(void *env, int thread, int64_t job, int64_t before)
{
    const tile_wave *v = env;
    const tpi_cuts *cuts = v->p->cuts;
    const tpi_task *task = &v->wave->tasks[job];
    const int *kernels = cuts->order + task->first;
    char *scratch = v->p->tiles->scratch + (size_t)thread * v->room;
    (void)before;
    for (int i = 0; i < task->n && !cuts->calls[kernels[i]]; i++)
        tpi_nest_run(v->p->tiles->kernels[kernels[i]].nest, &cuts->team, v->p->pointers,
                     scratch);
}

/* The tasks that have calls, which take memory of the context, which is one thread's, in the program's order, as
 * the first that fails is told of; then the others side by side. */
static bool run_wave(tpi_session *s, const tpi_plan_cut *wave)
{
    const tp_program *p = s->p;
    tile_wave v = {.p = p, .wave = wave};
    bool ok = true;
    for (int k = wave->first; k < wave->first + wave->n && ok; k++)
        ok = !p->cuts->calls[k] || run_kernel(s, p->plan, k);
    ok = ok && prepare_wave(s, wave, &v.room);
    if (ok)
        tpi_cut_run(wave, p->ctx->pool, run_nests, &v);
    return ok;
}

bool tpi_tiles_run(tpi_session *s, const tpi_plan *plan)
{
    const tp_program *p = s->p;
    tpi_plan_cut *const *in = plan == p->plan && p->cuts ? p->cuts->in : NULL;
    bool ok = true;
    for (int k = 0; k < plan->n_kernels && ok;) {
        const tpi_plan_cut *wave = in ? in[k] : NULL;
        ok = wave ? run_wave(s, wave) : run_kernel(s, plan, k);
        k += wave ? wave->n : 1;
    }
    return ok;
}

bool tpi_tiles_call(tpi_session *s, int *full)
{
    tp_program *p = s->p;
    tpi_tiles *t = p->tiles;
    t->full = -1;
    t->bound++; /* until the loops have run, their turns are the most that there is memory for */
    tick(p, p->plan, -1);
    const bool ok = tpi_tiles_run(s, p->plan);
    if (ok)
        tick(p, p->plan, p->plan->n_kernels);
    *full = t->full;
    p->stats.scratch_bytes = (int64_t)t->scratch_size;
    return ok;
}
