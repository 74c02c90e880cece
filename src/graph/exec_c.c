/* The C executor: the plan's program, rendered, compiled and called. */
#include "graph/program.h"
#include "op/draw.h"
#include "opt/pass.h"

#include <string.h>

/* The kernels of src/op that the plan's program calls. */
static void find_calls(tp_program *p, const tpi_plan *plan)
{
    const tpi_kernels *kernels = p->ctx->kernels;
    for (int i = 0; i < plan->n_kernels; i++) {
        const int root = plan->kernels[i].root;
        const tp_tensor *t = plan->graph->nodes[root];
        tpi_call *call = &p->calls[plan->first_kernel + i];
        *call = NULL;
        if (t->op == &tpi_op_random)
            *call = kernels->random[t->dtype == TP_F64];
        else if (t->op->call)
            *call = t->op->call[tpi_call_key(t->op, t->in, t)->dtype];
        const tpi_section *s = plan->sections ? plan->sections[root] : NULL;
        for (int k = 0; s && k < s->n_bodies; k++)
            find_calls(p, s->plan[k]);
    }
}

bool tpi_program_start_c(tp_program *p, const char *skip)
{
    tpi_mem *m = &p->ctx->mem;
    const tpi_roots roots = {.n = p->n_roots, .v = p->roots};
    p->plan = tpi_plan_new(p->graph, &roots, !tpi_list_has(skip, "fuse"));
    if (!p->plan)
        return false;
    for (int i = 0; i < p->plan->n_kernels; i++)
        p->n_random += p->graph->nodes[p->plan->kernels[i].root]->op == &tpi_op_random;
    if (p->plan->draws)
        p->n_random = 1;
    const size_t n = (size_t)p->plan->all_buffers;
    p->offsets = tpi_take(m, n * sizeof *p->offsets);
    p->pointers = tpi_take(m, n * sizeof *p->pointers);
    p->random = tpi_take(m, (size_t)p->n_random * 2 * sizeof *p->random);
    p->calls = tpi_take(m, (size_t)p->plan->all_kernels * sizeof *p->calls);
    if (!p->offsets || !p->pointers || !p->random || !p->calls) {
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "compile");
        return false;
    }
    p->library = *p->ctx->kernels->library;
    p->library.call = p->calls;
    find_calls(p, p->plan);
    p->stats.kernels = p->plan->all_kernels;
    if (tpi_late_refuser(p))
        return true;
    p->source = TPI_STR(m);
    if (!tpi_render_program(p->plan, false, &p->source))
        return false;
    p->source_text = p->source.text;
    const tpi_build_spec spec = {
        .n_sources = 1, .sources = &p->source_text, .entry = TPI_ENTRY_SYMBOL};
    p->build = tpi_build_start(p->ctx, &spec);
    if (!p->build)
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "compile");
    return p->build;
}

bool tpi_program_has_c(tp_program *p, int wait_ms)
{
    if (p->entry || !p->build)
        return p->entry;
    if (tpi_build_poll(p->build, wait_ms) != TPI_BUILD_READY)
        return false;
    void *entry = tpi_build_symbol(p->build, TPI_ENTRY_SYMBOL);
    void *scratch = tpi_build_symbol(p->build, TPI_SCRATCH_SYMBOL);
    void *packed = tpi_build_symbol(p->build, TPI_PACKED_SYMBOL);
    void *pack = tpi_build_symbol(p->build, TPI_PACK_SYMBOL);
    if (!entry || !scratch || !packed || !pack)
        return false;
    /* ISO C has no cast from an object's address to a function's */
    memcpy(&p->entry, &entry, sizeof entry);
    memcpy(&p->scratch_bytes, &scratch, sizeof scratch);
    memcpy(&p->packed_bytes, &packed, sizeof packed);
    memcpy(&p->pack, &pack, sizeof pack);
    p->stats.compile_ms = tpi_build_ms(p->build);
    p->stats.from_cache = tpi_build_from_cache(p->build);
    p->sized = false;
    return true;
}

bool tpi_program_broken(const tp_program *p)
{
    return !p->build || tpi_build_poll(p->build, 0) == TPI_BUILD_FAILED;
}

bool tpi_program_place(const tp_program *p, const tpi_plan *plan, int64_t *bytes,
                       int64_t *offset, int64_t *arena)
{
    int64_t *own = bytes + plan->first_buffer, all = 0;
    bool fits = true;
    for (int i = 0; i < plan->n_buffers && fits; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        own[i] = 0;
        for (int k = 0; b->section && k < b->section->n_bodies && fits; k++) {
            int64_t inner = 0; /* the bodies of a cond have one place */
            fits = tpi_program_place(p, b->section->plan[k], bytes, offset, &inner);
            own[i] = inner > own[i] ? inner : own[i];
        }
        if (b->like) {
            int64_t shape[TP_MAX_RANK];
            own[i] = (int64_t)tp_dtype_size((tp_dtype)b->like->dtype);
            tpi_program_shape(p, b->like, shape);
            for (int a = 0; a < b->like->rank; a++) /* some are of turns not checked yet */
                fits =
                    fits && shape[a] >= 0 && !__builtin_mul_overflow(own[i], shape[a], &own[i]);
        }
        if (b->place == TPI_AT_ARENA) /* their sum may still pass 2^63 */
            fits = fits && !__builtin_add_overflow(all, own[i], &all) &&
                   !__builtin_add_overflow(all, 64, &all);
    }
    if (fits)
        *arena =
            tpi_place_buffers(plan->n_buffers, plan->buffers, own, offset + plan->first_buffer);
    return fits;
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

bool tpi_program_resize(tp_program *p)
{
    tpi_mem *m = &p->ctx->mem;
    const size_t n = (size_t)p->plan->all_buffers;
    int64_t *bytes = tpi_take(m, n * sizeof *bytes);
    const bool fits =
        bytes && tpi_program_place(p, p->plan, bytes, p->offsets, &p->arena_bytes);
    tpi_give_back(m, bytes, n * sizeof *bytes);
    if (!fits)
        return false;
    const size_t need =
        (size_t)p->arena_bytes + (size_t)p->scratch_bytes(p->symbols, &p->library);
    if (!make_room(m, &p->arena, &p->arena_size, need) ||
        !make_room(m, &p->packed, &p->packed_size,
                   (size_t)p->packed_bytes(p->symbols, &p->library)))
        return false;
    p->is_packed = false;
    p->stats.arena_bytes = (int64_t)need;
    p->sized = true;
    return true;
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
    if (l->root == root->index && p->plan->values[root->index].place == TPI_AT_OUTPUT &&
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
        if (b->place == TPI_AT_ARENA) {
            *pointer = arena + p->offsets[plan->first_buffer + i];
        } else if (b->place == TPI_AT_SOURCE && b->like->op != &tpi_op_param) {
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
        if (b->place == TPI_AT_ARENA) {
            p->pointers[i] = p->arena + p->offsets[i];
            for (int k = 0; b->section && k < b->section->n_bodies; k++)
                if (!set_inner_pointers(s, b->section->plan[k], p->pointers[i]))
                    return false;
            continue;
        }
        tp_tensor *t = NULL;
        if (b->place == TPI_AT_SOURCE) {
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

static void set_random(const tpi_session *s)
{
    tp_program *p = s->p;
    int at = 0;
    if (p->plan->draws) {
        memcpy(&p->random[0], &p->ctx->seed, sizeof p->random[0]);
        memcpy(&p->random[1], &p->ctx->random_at, sizeof p->random[1]);
        return;
    }
    for (int i = 0; i < p->plan->n_kernels; i++) {
        const tp_tensor *t = p->graph->nodes[p->plan->kernels[i].root];
        if (t->op != &tpi_op_random)
            continue;
        int64_t shape[TP_MAX_RANK], n = 1;
        tpi_program_shape(p, t, shape);
        for (int a = 0; a < t->rank; a++)
            n *= shape[a];
        const tpi_random_attrs placed = tpi_session_draw(s, t, n);
        p->random[at++] = placed.seed;
        p->random[at++] = placed.at;
    }
}

/* The kernel says which node it was and where the index stood; its operands are still there. */
static void fail_at(const tp_program *p, const int64_t *fail)
{
    const tpi_plan *plan = tpi_plan_of_kernel(p->plan, (int)fail[0]);
    const tp_tensor *t = plan->graph->nodes[plan->kernels[fail[0] - plan->first_kernel].root];
    const tpi_at at = TPI_AT(t->file, t->line);
    const long long position = (long long)(fail[1] - 1);
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
    const tpi_bad_index b = tpi_describe_bad_index(t->op, 2, operands, t->attrs, fail[1] - 1);
    tpi_fail_status(p->ctx, at, t->op->name, TP_E_VALUE,
                    "index %lld at position %lld is out of range for size %lld",
                    (long long)b.index, position, (long long)b.size);
}

/* Twice as many turns of the loop whose symbol it is; false: no memory for so many. */
static bool grow(tp_program *p, int64_t symbol)
{
    const int64_t limit = (int64_t)1 << 56;
    p->sized = false;
    p->capacity[symbol] *= 2;
    return p->capacity[symbol] < limit;
}

/* Runs the entry, again and again while a loop takes more turns than there is memory for. */
static bool call_entry(tpi_session *s, tp_tensor **outputs)
{
    tp_program *p = s->p;
    for (;;) {
        int64_t fail[3] = {0, 0, 0};
        tpi_late_most(p);
        if ((!p->sized && !tpi_program_resize(p)) || !set_pointers(s, outputs)) {
            tpi_no_memory(p->ctx, s->at, "tp_program_run");
            return false;
        }
        if (p->n_random)
            set_random(s);
        char *scratch = p->arena + p->arena_bytes;
        if (!p->is_packed)
            p->pack(p->pointers, p->symbols, p->packed, scratch, &p->library);
        p->is_packed = true;
        const int64_t e =
            p->entry(p->pointers, p->symbols, p->random, p->packed, scratch, fail, &p->library);
        if (e == TPI_RUN_INDEX)
            fail_at(p, fail);
        if (e == TPI_RUN_OK && p->plan->draws)
            memcpy(&p->ctx->random_at, &p->random[1], sizeof p->random[1]);
        if (e != TPI_RUN_CAPACITY)
            return e == TPI_RUN_OK;
        if (!grow(p, fail[0])) {
            tpi_no_memory(p->ctx, s->at, "tp_program_run");
            return false;
        }
    }
}

bool tpi_execute_c(tpi_session *s)
{
    tp_program *p = s->p;
    const size_t n = (size_t)p->plan->n_buffers;
    tp_tensor **outputs = tpi_take(&p->ctx->mem, n * sizeof *outputs);
    if (!outputs)
        tpi_no_memory(p->ctx, s->at, "tp_program_run");
    bool ok = outputs && call_entry(s, outputs);
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
    return ok;
}
