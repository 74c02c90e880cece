/* A program run beside others: its code with memory of its own, and no context. */
#include "base/float_mode.h"
#include "core/copy.h"
#include "op/contractions.h"
#include "run/cut_run.h"
#include "run/program.h"

#include <string.h>

/* A result: where its elements lie after a run. */
typedef struct result {
    int buffer, rank;
    int64_t offset; /* bytes */
    int64_t shape[TP_MAX_RANK], stride[TP_MAX_RANK], flat[TP_MAX_RANK];
    size_t size; /* bytes of an element */
} result;

struct tp_runner {
    tpi_bump memory; /* of this, and of its lists */
    tp_runner *next; /* of the program */
    tp_program *p;
    tpi_entry entry;
    int n_feeds, n_results;
    int *feed; /* the buffer that a feed is; -1: it is not needed */
    result *results;
    tp_tensor **held; /* by buffer: what keeps the memory of a constant or variable; NULL */
    void **pointers;  /* by buffer */
    int64_t *symbols;
    tpi_team team;
    tpk_library library;
    tpi_cuts *cuts;
    tpi_buf *packed; /* the program's */
    char *arena, *scratch, *outputs;
    size_t arena_size, outputs_size;
};

static size_t n_buffers(const tp_runner *r)
{
    return (size_t)r->p->plan->all_buffers;
}

static void drop(tp_runner *r)
{
    tpi_mem *m = &r->p->ctx->mem;
    const size_t n = n_buffers(r);
    for (size_t i = 0; i < n && r->held; i++)
        if (r->held[i])
            tpi_unref(r->held[i]);
    tpi_give_back(m, r->arena, r->arena_size);
    tpi_cuts_free(r->cuts);
    tpi_buf_unref(r->p->ctx, r->packed);
    tpi_give_back(m, r->outputs, r->outputs_size);
    tpi_bump memory = r->memory; /* r is in it */
    tpi_bump_free(&memory);
}

void tp_runner_free(tp_runner *r)
{
    if (!r)
        return;
    tp_runner **at = &r->p->runners;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    drop(r);
}

static int feed_number(const tp_program *p, const tp_tensor *node)
{
    for (int i = 0; i < p->n_feeds; i++)
        if (p->feeds[i] == node)
            return i;
    return -1;
}

static size_t bytes_now(const tp_program *p, const tp_tensor *t)
{
    int64_t shape[TP_MAX_RANK], n = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    tpi_program_shape(p, t, shape);
    for (int a = 0; a < t->rank; a++)
        n *= shape[a];
    return ((size_t)n + 63) / 64 * 64;
}

/* The memory of a constant, or a copy of what lies in a variable's, which is assigned in place. False:
 * no memory. */
static bool hold(tp_runner *r, int number, const tp_tensor *node)
{
    tp_tensor *source = node->in[0];
    const tpi_at at = TPI_AT(source->file, source->line);
    tp_tensor *t;
    if (!source->buf)
        return true; /* its packed elements are enough */
    const bool lent = source->buf->lent && source->buf->refs > 1;
    if (source->flags & TPI_CONTIGUOUS && tpi_constant_of(node) && !lent) {
        t = tpi_tensor(r->p->ctx, at, (tp_dtype)source->dtype, source->rank, source->shape);
        if (!t)
            return false;
        memcpy(t->stride, source->stride, sizeof t->stride);
        tpi_tensor_share(t, source, 0);
    } else {
        t = tpi_tensor_new(r->p->ctx, at, (tp_dtype)source->dtype, source->rank, source->shape);
        if (t->status != TP_OK)
            return false;
        tpi_copy_out(source, t->data);
    }
    tpi_ref(t);
    r->held[number] = t;
    r->pointers[number] = t->data;
    return true;
}

/* Places of a plan's buffers, and of those of its bodies; what a turn or a feed sets is left. */
static bool place(tp_runner *r, const tpi_plan *plan, char *arena, char **output)
{
    bool ok = true;
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const int number = plan->first_buffer + i;
        r->pointers[number] = NULL;
        if (b->storage == TPI_IN_ARENA) {
            r->pointers[number] = arena + r->p->memory.offsets[number];
        } else if (b->storage == TPI_IN_SOURCE) {
            const int feed = plan == r->p->plan ? feed_number(r->p, b->like) : -1;
            if (feed >= 0)
                r->feed[feed] = number;
            else if (!tpi_param_of(b->like))
                ok = hold(r, number, b->like);
        } else if (plan == r->p->plan) {
            r->pointers[number] = *output;
            *output += bytes_now(r->p, b->like);
        }
        for (int k = 0; b->section && k < b->section->n_bodies && ok; k++)
            ok = place(r, b->section->plan[k], r->pointers[number], output);
    }
    return ok;
}

static void find_results(tp_runner *r)
{
    const tp_program *p = r->p;
    for (int i = 0; i < r->n_results; i++) {
        const tp_tensor *root = p->roots[i];
        const tpi_layout *l = &p->plan->values[root->index].layout;
        result *y = &r->results[i];
        int64_t step = 1;
        *y = (result){.buffer = p->plan->values[l->root].buffer,
                      .rank = root->rank,
                      .size = tp_dtype_size((tp_dtype)root->dtype)};
        y->offset = tpi_program_size(p, l->offset) * (int64_t)y->size;
        tpi_program_shape(p, root, y->shape);
        for (int a = root->rank - 1; a >= 0; a--) {
            y->stride[a] = tpi_dim_eval_stride(p->graph->dims, l->stride[a], p->symbols);
            y->flat[a] = step;
            step *= y->shape[a];
        }
    }
}

/* Memory for what the program is at the sizes of its last run. */
static tp_runner *make(tp_program *p)
{
    tpi_mem *m = &p->ctx->mem;
    tpi_bump memory = TPI_BUMP(m);
    tp_runner *r = tpi_bump_take(&memory, 1, sizeof *r);
    if (!r)
        return NULL;
    *r = (tp_runner){.memory = memory,
                     .p = p,
                     .entry = p->c.entry,
                     .n_feeds = p->n_feeds,
                     .n_results = p->n_fetches};
    const size_t n = n_buffers(r);
    for (int i = 0; i < p->plan->n_buffers; i++)
        if (p->plan->buffers[i].storage == TPI_IN_OUTPUT)
            r->outputs_size += bytes_now(p, p->plan->buffers[i].like);
    r->team = (tpi_team){.kernels = p->ctx->kernels};
    tpi_team_library(&r->team, tpi_convolving_of(p->graph), &r->library);
    tpi_program_hand(p, &r->library);
    r->library.stop = &p->ctx->interrupted;
    r->library.max_turns = p->ctx->max_turns;
    r->feed = tpi_bump_take(&r->memory, (size_t)r->n_feeds, sizeof *r->feed);
    r->results = tpi_bump_take(&r->memory, (size_t)r->n_results, sizeof *r->results);
    r->held = tpi_bump_take(&r->memory, n, sizeof *r->held);
    r->pointers = tpi_bump_take(&r->memory, n, sizeof *r->pointers);
    r->symbols = tpi_bump_take(&r->memory, 2 * (size_t)p->n_symbols, sizeof *r->symbols);
    r->cuts = tpi_cuts_new(&(tpi_cuts_for){.ctx = p->ctx,
                                           .plan = p->plan,
                                           .sizes = tpi_program_sizes(p),
                                           .team = &r->team,
                                           .bands = true,
                                           .nest_room = tpi_program_nest_room(p)});
    tpi_library_runs(&r->library, r->cuts);
    r->arena_size = (size_t)p->memory.arena_bytes + tpi_program_scratch(p, &r->library);
    r->arena = tpi_take(m, r->arena_size);
    r->packed = p->constants.packed;
    r->packed->refs++;
    r->outputs = tpi_take(m, r->outputs_size);
    if (!r->cuts || !r->symbols || !r->arena || !r->outputs) {
        drop(r);
        return NULL;
    }
    return r;
}

static bool fill(tp_runner *r)
{
    tp_program *p = r->p;
    char *output = r->outputs;
    memcpy(r->symbols, p->symbols, (size_t)p->n_symbols * 2 * sizeof *r->symbols);
    for (int i = 0; i < r->n_feeds; i++)
        r->feed[i] = -1;
    if (tp_scope_begin(p->ctx) != TP_OK)
        return false;
    const bool ok = place(r, p->plan, r->arena, &output);
    tp_scope_end(p->ctx);
    if (!ok)
        return false;
    find_results(r);
    r->scratch = r->arena + p->memory.arena_bytes;
    return true;
}

/* Why it cannot be; NULL: it can. */
static const char *refusal(const tp_program *p)
{
    if (p->n_commits)
        return "the program assigns variables, which belong to its context; fetch the values";
    if (p->n_random)
        return "the program draws random numbers, whose position belongs to its context; feed "
               "them";
    if (p->ctx->trap_nan)
        return "NaNs are trapped, for which programs run node by node";
    if (p->n_late)
        return "a loop's number of turns is a size of the program, known only when it runs";
    return NULL;
}

tp_runner *tp_runner_new_at(const char *file, int line, tp_program *p, tp_tensor *const *feeds)
{
    if (!p)
        return NULL;
    const tpi_at at = TPI_AT(file, line);
    const char *why = refusal(p);
    if (why) {
        tpi_fail_status(p->ctx, at, "tp_runner_new", TP_E_STATE, "%s", why);
        return NULL;
    }
    if (tp_program_wait(p) != TP_OK || tp_scope_begin(p->ctx) != TP_OK)
        return NULL;
    const size_t bytes = (size_t)p->n_fetches * sizeof(tp_tensor *);
    tp_tensor **out = tpi_take(&p->ctx->mem, bytes);
    const bool ran = out && tp_program_run_at(file, line, p, feeds, out) == TP_OK;
    tpi_give_back(&p->ctx->mem, out, bytes);
    tp_scope_end(p->ctx);
    if (ran && p->partly) {
        tpi_fail_status(p->ctx, at, "tp_runner_new", TP_E_STATE,
                        "a block does not take these sizes where it was not entered, and then "
                        "programs run node by node");
        return NULL;
    }
    tp_runner *r = ran ? make(p) : NULL;
    if (r && !fill(r)) {
        drop(r);
        r = NULL;
    }
    if (!r) {
        if (!out || ran)
            tpi_no_memory(p->ctx, at, "tp_runner_new");
        return NULL;
    }
    r->next = p->runners;
    p->runners = r;
    return r;
}

TPI_BARE(tp_runner *, tp_runner_new, (tp_program * p, tp_tensor *const *feeds), p, feeds)

tp_status tp_runner_run(tp_runner *r, const void *const *in, void *const *out)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (!r || !out || (r->n_feeds && !in))
        return TP_E_NULL;
    for (int i = 0; i < r->n_feeds; i++) {
        if (!in[i] && r->feed[i] >= 0)
            return TP_E_NULL;
        if (r->feed[i] >= 0)
            memcpy(&r->pointers[r->feed[i]], &in[i], sizeof in[i]); /* it is only read */
    }
    for (int i = 0; i < r->n_results; i++)
        if (!out[i])
            return TP_E_NULL;
    int64_t fail[3] = {0, 0, 0}, none[2] = {0, 0};
    const int64_t e =
        r->entry(r->pointers, r->symbols, none, r->packed->data, r->scratch, fail, &r->library);
    if (e == TPI_RUN_STOPPED)
        return fail[1] < r->library.max_turns ? TP_E_STOPPED : TP_E_LIMIT;
    if (e != TPI_RUN_OK)
        return TP_E_VALUE;
    for (int i = 0; i < r->n_results; i++) {
        const result *y = &r->results[i];
        tpi_copy_strided(y->size, y->rank, y->shape, out[i], y->flat,
                         (const char *)r->pointers[y->buffer] + y->offset, y->stride);
    }
    return TP_OK;
}
