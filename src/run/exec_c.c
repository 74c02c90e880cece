/* The C executor: the plan's program, rendered, compiled and called. */
#include "base/env.h"
#include "op/random_position.h"
#include "run/tiles.h"

#include <string.h>

/* The kernels of src/op that the plan's program calls. */
static void find_calls(tp_program *p, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_kernels; i++) {
        const int root = plan->kernels[i].root;
        const tp_tensor *t = plan->graph->nodes[root];
        tpi_call *call = &p->c.calls[plan->first_kernel + i];
        *call = t->op->call
                    ? tpi_called_kernel(p->ctx, t->op, tpi_call_key(t->op, t->in, t)->dtype)
                    : NULL;
        const tpi_section *s = plan->sections ? plan->sections[root] : NULL;
        for (int k = 0; s && k < s->n_bodies; k++)
            find_calls(p, s->plan[k]);
    }
}

bool tpi_program_start_c(tp_program *p)
{
    if (tpi_late_refuser(p))
        return true;
    for (int i = 0; i < p->plan->n_kernels; i++)
        p->n_random += p->graph->nodes[p->plan->kernels[i].root]->op->draws;
    if (p->plan->draws)
        p->n_random = 1;
    const size_t n_random = 2 * (size_t)p->n_random + (size_t)p->plan->n_streams;
    p->random = tpi_bump_take(&p->lists, n_random, sizeof *p->random);
    p->c.calls = tpi_bump_take(&p->lists, (size_t)p->plan->all_kernels, sizeof *p->c.calls);
    if (!p->c.calls) {
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "compile");
        return false;
    }
    find_calls(p, p->plan);
    p->c.source = TPI_STR(&p->ctx->mem);
    const int n = tpi_render_program(p->plan, false, tpi_build_cpus(), &p->c.source);
    if (!n)
        return false;
    for (int i = 0; i < n; i++)
        p->c.units[i] = i ? tpi_unit_texts[i] : p->c.source.text;
    static const char *const for_debugger[] = {"-g", "-Og", NULL};
    const tpi_build_spec spec = {.n_sources = n,
                                 .sources = p->c.units,
                                 .entry = TPI_ENTRY_SYMBOL,
                                 .second = p->engine == TP_ENGINE_AUTO,
                                 .flags = tpi_env(TPI_ENV_DEBUG_C) ? for_debugger : NULL};
    p->c.build = tpi_build_start(p->ctx, &spec);
    if (!p->c.build)
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "compile");
    return p->c.build;
}

bool tpi_program_has_c(tp_program *p, int wait_ms)
{
    if (p->c.entry || !p->c.build)
        return p->c.entry;
    if (tpi_build_poll(p->c.build, wait_ms) != TPI_BUILD_READY)
        return false;
    void *entry = tpi_build_symbol(p->c.build, TPI_ENTRY_SYMBOL);
    void *scratch = tpi_build_symbol(p->c.build, TPI_SCRATCH_SYMBOL);
    void *packed = tpi_build_symbol(p->c.build, TPI_PACKED_SYMBOL);
    void *layout = tpi_build_symbol(p->c.build, TPI_LAYOUT_SYMBOL);
    void *pack = tpi_build_symbol(p->c.build, TPI_PACK_SYMBOL);
    if (!entry || !scratch || !packed || !layout || !pack)
        return false;
    /* ISO C has no cast from an object's address to a function's */
    memcpy(&p->c.entry, &entry, sizeof entry);
    memcpy(&p->c.scratch_bytes, &scratch, sizeof scratch);
    memcpy(&p->c.packed_bytes, &packed, sizeof packed);
    memcpy(&p->c.pack_layout, &layout, sizeof layout);
    memcpy(&p->c.pack, &pack, sizeof pack);
    p->stats.compile_ms = tpi_build_ms(p->c.build);
    p->stats.from_cache = tpi_build_from_cache(p->c.build);
    p->sized = false;
    tpi_tiles_free(p->tiles);
    p->tiles = NULL;
    return true;
}

bool tpi_program_broken(const tp_program *p)
{
    return !p->c.build || tpi_build_failed(p->c.build);
}

static void set_random(const tpi_session *s)
{
    tp_program *p = s->p;
    int at = 0;
    if (p->plan->draws) {
        memcpy(&p->random[0], &p->ctx->seed, sizeof p->random[0]);
        for (int i = 0; i < p->plan->n_streams; i++)
            memcpy(&p->random[1 + i], tpi_stream_position(p->ctx, p->plan->streams[i]),
                   sizeof p->random[1 + i]);
        return;
    }
    for (int i = 0; i < p->plan->n_kernels; i++) {
        const tp_tensor *t = p->graph->nodes[p->plan->kernels[i].root];
        if (!t->op->draws)
            continue;
        tpi_random_attrs placed;
        tpi_program_attrs(p, t, &placed);
        tpi_session_draw(s, t, &placed);
        p->random[at++] = placed.seed;
        p->random[at++] = placed.at;
    }
}

static const tp_tensor *node_of_kernel(const tpi_plan *plan, int kernel)
{
    return plan->graph->nodes[plan->kernels[kernel - plan->first_kernel].root];
}

static int64_t run_own(const void *program, int64_t kernel, const tpk_view *in,
                       const tpk_view *out, void *room)
{
    const tp_program *p = program;
    const tp_tensor *t = node_of_kernel(tpi_plan_of_kernel(p->plan, (int)kernel), (int)kernel);
    return t->op->own->run(t->attrs, t->n_in, t->in, in, out, room);
}

void tpi_program_hand(const tp_program *p, tpk_library *l)
{
    l->call = p->c.calls;
    l->own = run_own;
    l->program = p;
}

static void stopped_at(const tp_program *p, const int64_t *fail)
{
    const int kernel = (int)fail[0];
    const tp_tensor *t = node_of_kernel(tpi_plan_of_kernel(p->plan, kernel), kernel);
    tpi_refuse_turn(p->ctx, TPI_AT(t->file, t->line), t->op->name, fail[1]);
}

/* The kernel says which node it was and where the index stood; its operands are still there. */
static void fail_at(const tp_program *p, const int64_t *fail)
{
    const tpi_plan *plan = tpi_plan_of_kernel(p->plan, (int)fail[0]);
    const tp_tensor *t = node_of_kernel(plan, (int)fail[0]);
    const tpi_at at = TPI_AT(t->file, t->line);
    const long long position = (long long)(fail[1] - 1);
    if (tpi_program_says_why(p, t))
        return;
    if (t->op->own) {
        t->op->own->refuse(p->ctx, at, t->attrs);
        return;
    }
    if (t->op->refuses) {
        tpi_fail_status(p->ctx, at, t->op->name, TP_E_VALUE, "matrix %lld %s", position,
                        tpi_refusal_text(t->op));
        return;
    }
    tp_tensor in[2];
    bool there = t->n_in >= 2;
    for (int i = 0; i < 2 && there; i++) {
        const tpi_layout *l = &plan->values[t->in[i]->index].layout;
        const int buffer = plan->values[l->root].buffer;
        in[i] = *t->in[i];
        tpi_program_shape(p, t->in[i], in[i].shape);
        for (int a = 0; a < in[i].rank; a++)
            in[i].stride[a] = tpi_dim_eval_stride(p->graph->dims, l->stride[a], p->symbols);
        there = buffer >= 0;
        if (there)
            in[i].data =
                (char *)p->pointers[plan->first_buffer + buffer] +
                tpi_program_size(p, l->offset) * (int64_t)tp_dtype_size((tp_dtype)in[i].dtype);
    }
    if (!there) {
        tpi_fail_status(p->ctx, at, t->op->name, TP_E_VALUE,
                        "the index at position %lld is out of range", position);
        return;
    }
    tp_tensor *const operands[] = {&in[0], &in[1]};
    const tpi_bad_index b = tpi_describe_bad_index(operands, t->attrs, fail[1] - 1);
    tpi_fail_status(p->ctx, at, t->op->name, TP_E_VALUE,
                    "index %lld at position %lld is out of range for size %lld",
                    (long long)b.index, position, (long long)b.size);
}

bool tpi_program_call(tpi_session *s, int *full)
{
    tp_program *p = s->p;
    int64_t fail[3] = {0, 0, 0};
    if (p->n_random)
        set_random(s);
    char *scratch = p->memory.arena + p->memory.arena_bytes;
    tpi_program_pack(p, scratch);
    const int64_t e = p->c.entry(p->pointers, p->symbols, p->random, p->constants.packed->data,
                                 scratch, fail, &p->library);
    if (e == TPI_RUN_INDEX)
        fail_at(p, fail);
    if (e == TPI_RUN_STOPPED)
        stopped_at(p, fail);
    for (int i = 0; i < p->plan->n_streams && e == TPI_RUN_OK && p->plan->draws; i++)
        memcpy(tpi_stream_position(p->ctx, p->plan->streams[i]), &p->random[1 + i],
               sizeof p->random[1 + i]);
    if (e == TPI_RUN_CAPACITY)
        *full = (int)fail[0];
    return e == TPI_RUN_OK;
}
