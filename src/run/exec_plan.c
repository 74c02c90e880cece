/* A run of a plan, by the C program or by tiles: where its buffers are, and what its results are. */
#include "base/env.h"
#include "base/log.h"
#include "lower/nest.h"
#include "pass/optimize.h"
#include "plan/budget.h"
#include "plan/work.h"
#include "run/cut_run.h"
#include "run/tiles.h"

#include <inttypes.h>
#include <string.h>

tpi_fusing tpi_program_fusing(const tp_program *p, const char *skip)
{
    const bool bands = !tpi_list_has(skip, "bands");
    return (tpi_fusing){.nests = !tpi_list_has(skip, "fuse"),
                        .bands = bands && !p->memory_limit,
                        .over = bands};
}

bool tpi_program_plan(tp_program *p, const char *skip)
{
    const tpi_roots roots = {.n = p->n_roots, .v = p->roots};
    p->plan = tpi_plan_new(p->graph, &roots, tpi_program_fusing(p, skip));
    if (!p->plan || !tpi_plan_arena(p->plan) ||
        (tpi_env(TPI_ENV_VALIDATE) && !tpi_verify_nests(p->plan)))
        return false;
    const size_t n = (size_t)p->plan->all_buffers;
    p->stats.kernels = p->plan->all_kernels;
    p->memory.offsets = tpi_bump_take(&p->lists, n, sizeof *p->memory.offsets);
    p->pointers = tpi_bump_take(&p->lists, n, sizeof *p->pointers);
    return p->pointers && (p->engine == TP_ENGINE_C || tpi_late_refuser(p) || tpi_tiles_new(p));
}

/* ---- memory -------------------------------------------------------------------------------------- */

const tpi_arena *tpi_program_arena(const tp_program *p, const tpi_plan *plan)
{
    return plan == p->plan && p->cuts && p->cuts->arena ? p->cuts->arena : plan->arena;
}

bool tpi_program_place(const tp_program *p, const tpi_plan *plan, int64_t *bytes,
                       int64_t *offset, int64_t *arena)
{
    return tpi_arena_at(tpi_program_arena(p, plan), p->symbols, bytes, offset, arena);
}

/* Memory of at least `need` bytes, what was in it lost. */
static bool make_room(tpi_mem *m, char **p, size_t *size, size_t need)
{
    if (need <= *size)
        return true;
    tpi_give_back(m, *p, *size);
    *size = 0;
    *p = tpi_take(m, need);
    *size = *p ? need : 0;
    return *p;
}

size_t tpi_program_nest_room(const tp_program *p)
{
    tpk_library only_nests = p->library;
    only_nests.team = NULL;
    only_nests.threads = 1;
    return (size_t)p->c.scratch_bytes(p->symbols, &only_nests);
}

size_t tpi_program_scratch(const tp_program *p, const tpk_library *l)
{
    const size_t kernels = (size_t)p->c.scratch_bytes(p->symbols, l);
    const tpi_cuts *c = l->cuts;
    const size_t need = c && c->scratch > kernels ? c->scratch : kernels;
    return (need + 63) / 64 * 64;
}

/* Scratch memory behind the arena, for kernels one after the other or in parts. */
static size_t scratch_bytes(tp_program *p)
{
    tpi_cuts *c = p->cuts;
    const size_t need = tpi_program_scratch(p, &p->library) + (c->n_images ? c->pointers : 0);
    c->room = c->n_waves ? tpi_program_scratch(p, &c->library) : 0;
    const size_t tasks = c->room * (size_t)c->most_threads;
    return tasks > need ? tasks : need;
}

/* How kernels run together at these sizes. False: no memory. */
static bool find_cuts(tp_program *p)
{
    tpi_cuts_free(p->cuts);
    p->cuts = NULL;
    /* what steps take is not known before the loops have run; or it is more memory */
    const bool known = !p->n_late && !p->memory_limit, c = p->c.entry;
    const tpi_cuts_for what = {.ctx = p->ctx,
                               .plan = p->plan,
                               .sizes = tpi_program_sizes(p),
                               .team = &p->team,
                               .bands = c,
                               .images = known && c,
                               .waves = known && tpi_pool_threads(p->ctx->pool) > 1 &&
                                        !p->watch, /* it is of one kernel at a time */
                               .late = p->n_late,
                               .nest_room = c ? tpi_program_nest_room(p) : 0,
                               .wave_ns = p->wave_ns,
                               .chance = p->ctx->chance};
    p->cuts = what.bands || what.waves ? tpi_cuts_new(&what) : NULL;
    tpi_library_runs(&p->library, p->cuts);
    if (p->cuts && p->cuts->n_waves) {
        tpi_library_runs(&p->cuts->library, p->cuts->alone);
        tpi_program_hand(p, &p->cuts->library);
    }
    return p->cuts || !(what.bands || what.waves);
}

bool tpi_program_resize(tp_program *p, tpi_at at)
{
    tpi_mem *m = &p->ctx->mem;
    if (!find_cuts(p) ||
        !tpi_program_place(p, p->plan, NULL, p->memory.offsets, &p->memory.arena_bytes))
        return false;
    if (p->memory_limit && p->memory.arena_bytes > p->memory_limit) {
        const tpi_budget budget = {at, "tp_program_run", p->memory_limit, p->symbols};
        tpi_budget_refuse(&budget, p->plan, tpi_program_arena(p, p->plan));
        return false;
    }
    const size_t scratch = p->c.entry ? scratch_bytes(p) : 0;
    if (!make_room(m, &p->memory.arena, &p->memory.arena_size,
                   (size_t)p->memory.arena_bytes + scratch) ||
        (p->c.entry && !tpi_program_pack_room(p)))
        return false;
    if (p->tiles)
        p->tiles->sized++;
    p->stats.arena_bytes = p->memory.arena_bytes;
    p->stats.scratch_bytes = (int64_t)scratch;
    p->sized = true;
    return true;
}

void tpi_program_give_arena_back(tp_program *p)
{
    tpi_give_back(&p->ctx->mem, p->memory.arena, p->memory.arena_size);
    p->memory.arena = NULL;
    p->memory.arena_size = 0;
    p->sized = false;
}

static tp_tensor *source_of(const tpi_session *s, const tp_tensor *node)
{
    const tp_program *p = s->p;
    for (int i = 0; i < p->n_feeds; i++)
        if (p->feeds[i] == node)
            return s->feeds[i];
    return node->in[0];
}

/* A root's value: `memory`, the tensor that holds its elements, or a view of it. */
static tp_tensor *view_root(const tp_program *p, const tp_tensor *root, tp_tensor *memory)
{
    const tpi_layout *l = &p->plan->values[root->index].layout;
    int64_t shape[TP_MAX_RANK];
    tpi_program_shape(p, root, shape);
    if (l->root == root->index && p->plan->values[root->index].storage == TPI_IN_OUTPUT &&
        memory->owned_at >= 0 &&
        memcmp(shape, memory->shape, sizeof(int64_t) * root->rank) == 0) {
        tpi_disown(memory);
        return memory;
    }
    tp_tensor *t = tpi_tensor(p->ctx, TPI_AT(root->file, root->line), (tp_dtype)root->dtype,
                              root->rank, shape);
    if (!t)
        return NULL;
    for (int i = 0; i < root->rank; i++)
        t->stride[i] = tpi_dim_eval_stride(p->graph->dims, l->stride[i], p->symbols);
    tpi_tensor_share(t, memory, tpi_program_size(p, l->offset));
    tpi_note_contiguous(t);
    tpi_disown(t);
    return t;
}

/* A source, or a copy of it without gaps, of the open scope; NULL: no memory. */
static tp_tensor *flat_source(const tpi_session *s, const tp_tensor *node)
{
    tp_tensor *t = source_of(s, node);
    if (t->flags & TPI_CONTIGUOUS)
        return t;
    tp_tensor *copy = tpi_tensor_new(s->p->ctx, TPI_AT(node->file, node->line),
                                     (tp_dtype)t->dtype, t->rank, t->shape);
    if (copy->status != TP_OK)
        return NULL;
    tpi_copy_out(t, copy->data);
    return copy;
}

/* The constants and the arenas of the bodies of a block; the rest is set while it runs. */
static bool set_inner_pointers(tpi_session *s, const tpi_plan *plan, char *arena)
{
    tp_program *p = s->p;
    bool ok = true;
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        void **pointer = &p->pointers[plan->first_buffer + i];
        *pointer = NULL;
        if (b->storage == TPI_IN_ARENA) {
            *pointer = arena + p->memory.offsets[plan->first_buffer + i];
        } else if (b->storage == TPI_IN_SOURCE && !tpi_param_of(b->like)) {
            tp_tensor *t = flat_source(s, b->like);
            ok = t;
            *pointer = t ? t->data : NULL;
        }
        for (int k = 0; b->section && k < b->section->n_bodies && ok; k++)
            ok = set_inner_pointers(s, b->section->plan[k], *pointer);
    }
    return ok;
}

/* Memory for the buffers; outputs are new tensors of the open scope, by buffer. */
static bool set_pointers(tpi_session *s, tp_tensor **outputs)
{
    tp_program *p = s->p;
    for (int i = 0; i < p->plan->n_buffers; i++) {
        const tpi_buffer *b = &p->plan->buffers[i];
        outputs[i] = NULL;
        if (b->storage == TPI_IN_ARENA) {
            p->pointers[i] = p->memory.arena + p->memory.offsets[i];
            for (int k = 0; b->section && k < b->section->n_bodies; k++)
                if (!set_inner_pointers(s, b->section->plan[k], p->pointers[i]))
                    return false;
            continue;
        }
        tp_tensor *t = NULL;
        if (b->storage == TPI_IN_SOURCE) {
            t = flat_source(s, b->like);
        } else {
            int64_t shape[TP_MAX_RANK];
            tpi_program_shape(p, b->like, shape);
            t = tpi_tensor_new(p->ctx, TPI_AT(b->like->file, b->like->line),
                               (tp_dtype)b->like->dtype, b->like->rank, shape);
        }
        if (!t || t->status != TP_OK)
            return false;
        outputs[i] = t;
        p->pointers[i] = t->data;
    }
    return true;
}

/* ---- a run --------------------------------------------------------------------------------------- */

/* The library as it is for this run: its threads, and who is told which kernel begins. */
static void set_library(tp_program *p)
{
    const int threads = tpi_pool_threads(p->ctx->pool);
    if (p->library.team && p->library.call == p->c.calls && p->library.threads == threads &&
        p->team.pool == p->ctx->pool && p->library.watch == p->watch)
        return;
    if (p->library.threads != threads || p->library.watch != p->watch)
        p->sized = false; /* workspaces are by part; a profile has no waves */
    p->team = (tpi_team){.kernels = p->ctx->kernels, .pool = p->ctx->pool};
    tpi_team_library(&p->team, tpi_convolving_of(p->graph), &p->library);
    tpi_library_runs(&p->library, p->cuts);
    tpi_program_hand(p, &p->library);
    p->library.stop = &p->ctx->interrupted;
    p->library.max_turns = p->ctx->max_turns;
    p->library.tick = p->watch ? p->watch->tick : NULL;
    p->library.watch = p->watch;
}

bool tpi_program_lay_out(tp_program *p, tpi_at at)
{
    bool ok = true;
    for (int i = 0; i < p->plan->n_buffers && ok; i++)
        ok = !p->plan->buffers[i].section;
    if (!ok)
        return false;
    set_library(p);
    if (!tpi_program_resize(p, at))
        return false;
    for (int i = 0; i < p->plan->n_buffers; i++)
        if (p->plan->buffers[i].storage == TPI_IN_ARENA)
            p->pointers[i] = p->memory.arena + p->memory.offsets[i];
    return p->constants.is_packed;
}

/* Twice as many turns of the loop whose symbol it is; false: no memory for so many. */
static bool grow(tp_program *p, int64_t symbol)
{
    const int64_t limit = (int64_t)1 << 56;
    p->sized = false;
    p->capacity[symbol] *= 2;
    return p->capacity[symbol] < limit;
}

/* Runs it, again and again while a loop takes more turns than there is memory for. */
static bool run_kernels(tpi_session *s, bool c, tp_tensor **outputs)
{
    tp_program *p = s->p;
    set_library(p);
    for (;;) {
        int symbol = -1;
        tpi_late_most(p);
        if (s->begins)
            tpi_positions_back(p->ctx, s->begins);
        if ((!p->sized && !tpi_program_resize(p, s->at)) || !set_pointers(s, outputs)) {
            tpi_no_memory(p->ctx, s->at, "tp_program_run");
            return false;
        }
        const bool ok = c ? tpi_program_call(s, &symbol) : tpi_tiles_call(s, &symbol);
        if (ok || symbol < 0)
            return ok;
        if (!grow(p, symbol)) {
            tpi_no_memory(p->ctx, s->at, "tp_program_run");
            return false;
        }
    }
}

/* A line of the log: how much there is to do (base/log.def). */
static void log_work(const tp_program *p)
{
    if (!tpi_log_on(TPI_LOG_program))
        return;
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    tpi_work all = {0};
    for (int i = 0; i < p->plan->n_kernels; i++) {
        const tpi_work one = tpi_kernel_work(&sizes, p->plan, i);
        all.flops += one.flops;
        all.bytes += one.bytes;
    }
    tpi_log(TPI_LOG_program,
            "%d nodes, %d kernels, %.0f bytes moved, %" PRId64 " bytes of arena, %.0f flops",
            p->stats.nodes, p->stats.kernels, all.bytes, p->memory.arena_bytes, all.flops);
}

bool tpi_execute_plan(tpi_session *s, bool c)
{
    tp_program *p = s->p;
    const size_t n = (size_t)p->plan->n_buffers;
    tp_tensor **outputs = tpi_take(&p->ctx->mem, n * sizeof *outputs);
    if (!outputs)
        tpi_no_memory(p->ctx, s->at, "tp_program_run");
    bool ok = outputs && run_kernels(s, c, outputs);
    for (int i = 0; i < p->n_roots && ok; i++) {
        const tpi_value *v = &p->plan->values[p->roots[i]->index];
        const tpi_value *memory = &p->plan->values[v->layout.root];
        if (memory->buffer >= 0)
            s->values[i] = view_root(p, p->roots[i], outputs[memory->buffer]);
        ok = s->values[i] != NULL;
        if (!ok)
            tpi_no_memory(p->ctx, s->at, "tp_program_run");
    }
    tpi_give_back(&p->ctx->mem, outputs, n * sizeof *outputs);
    if (ok && !p->logged)
        log_work(p);
    p->logged |= ok;
    return ok;
}
