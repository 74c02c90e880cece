/* Traces: what one run of a pure function's body did. */
#include "capture/record/launches.h"
#include "control/open_block.h"
#include "op/call.h"
#include "op/op.h"

#include <string.h>

/* Room for one more in a list, whose address is given; false: the trace is not kept. */
static bool room(tpi_trace *t, void *list, int32_t n, int32_t *size, size_t each)
{
    if (n < *size)
        return true;
    void *v;
    memcpy(&v, list, sizeof v);
    v = tpi_grow(&t->ctx->mem, v, n, size, each);
    t->partial |= !v;
    if (v)
        memcpy(list, &v, sizeof v);
    return v;
}

#define ONE_MORE(t, list, n, size) room((t), &(list), (n), &(size), sizeof *(list))

/* ---- life -------------------------------------------------------------------------------- */

void tpi_trace_free(tpi_trace *t)
{
    if (!t)
        return;
    tpi_mem *m = &t->ctx->mem;
    tpi_launches_free(t->launches);
    for (int i = 0; i < t->n; i++)
        if (t->items[i].attrs)
            tpi_give_back(m, t->items[i].attrs, t->items[i].op->attrs_size);
    for (int i = 0; i < t->n_origins; i++)
        tpi_unref(t->origins[i].tensor);
    tpi_give_back(m, t->items, (size_t)t->size * sizeof *t->items);
    tpi_give_back(m, t->in, (size_t)t->in_size * sizeof *t->in);
    tpi_give_back(m, t->origins, (size_t)t->origins_size * sizeof *t->origins);
    tpi_give_back(m, t->codes, (size_t)t->codes_size * sizeof *t->codes);
    tpi_give_back(m, t->args, (size_t)t->n_args * sizeof *t->args);
    tpi_give_back(m, t, sizeof *t);
}

static tpi_code add_origin(tpi_trace *t, tp_tensor *x, tpi_from from, int arg)
{
    if (!ONE_MORE(t, t->origins, t->n_origins, t->origins_size))
        return 0;
    tpi_ref(x);
    t->origins[t->n_origins] = (tpi_origin){.from = from, .arg = arg, .tensor = x};
    return ~t->n_origins++;
}

tpi_trace *tpi_trace_new(tp_ctx *ctx, uint64_t entry, int n_in, tp_tensor *const *in)
{
    tpi_trace *t = tpi_take(&ctx->mem, sizeof *t);
    if (!t)
        return NULL;
    *t = (tpi_trace){.ctx = ctx,
                     .entry = entry,
                     .failures = ctx->failures,
                     .retained = ctx->retained_sum,
                     .scopes = ctx->caller.n_scopes,
                     .recording = ctx->caller.recording,
                     .training = ctx->caller.training,
                     .stream = ctx->caller.stream,
                     .n_args = n_in};
    t->args = tpi_take(&ctx->mem, (size_t)n_in * sizeof *t->args);
    t->partial = !t->args;
    if (!t->args)
        t->n_args = 0;
    for (int i = 0; i < t->n_args; i++) {
        int k = 0;
        while (k < i && in[k] != in[i])
            k++;
        t->args[i] = k < i ? t->args[k] : add_origin(t, in[i], TPI_FROM_ARG, i);
    }
    if (!t->partial)
        return t;
    tpi_trace_free(t);
    return NULL;
}

/* As x is, without its elements; one reference. */
static tp_tensor *hollow(const tp_tensor *x)
{
    tp_tensor *t =
        tpi_tensor(x->ctx, TPI_AT(x->file, x->line), (tp_dtype)x->dtype, x->rank, x->shape);
    if (!t)
        return NULL;
    tpi_disown(t);
    memcpy(t->stride, x->stride, sizeof t->stride);
    t->flags = x->flags;
    t->seq = x->seq;
    return t;
}

bool tpi_trace_let_go(tpi_trace *t)
{
    for (int i = 0; i < t->n_origins; i++) {
        tpi_origin *o = &t->origins[i];
        if (o->from != TPI_FROM_ARG || o->tensor->flags & TPI_VARIABLE)
            continue;
        tp_tensor *like = hollow(o->tensor);
        if (!like)
            return false;
        tpi_unref(o->tensor);
        o->tensor = like;
    }
    return true;
}

void tpi_traced_stop(tpi_frame *fr, tpi_at at, tpi_why why)
{
    tpi_trace *t = fr->trace;
    if (t->why)
        return;
    t->why = why;
    t->why_at =
        at.file ? at : fr->at->at; /* not every function has a line: the step before it */
}

/* ---- operands ---------------------------------------------------------------------------- */

static tpi_code code_of(tpi_frame *fr, tpi_at at, tp_tensor *x)
{
    tpi_trace *t = fr->trace;
    if (tpi_has_number(fr, x) && x->number >= 0) {
        if (x->number < t->n_codes)
            return t->codes[x->number];
        t->partial = true;
        return 0;
    }
    for (int i = 0; i < t->n_origins; i++)
        if (t->origins[i].tensor == x)
            return ~i;
    const bool made = x->seq >= t->entry;
    if (made && x->flags & TPI_VARIABLE)
        tpi_traced_stop(fr, at, TPI_WHY_effects);
    if (tpi_is_wrapped(x))
        tpi_traced_stop(fr, at, TPI_WHY_wrapped);
    if (!x->buf || !(x->flags & TPI_CONTIGUOUS))
        tpi_traced_stop(fr, at, TPI_WHY_alias);
    return add_origin(t, x, made ? TPI_FROM_MADE : TPI_FROM_STATE, -1);
}

/* Has the variable that x is a view of been assigned? A view shows it, its copy would not. */
static bool is_overtaken(const tpi_trace *t, const tp_tensor *x)
{
    if (!(x->flags & TPI_VARIABLE) || x->flags & TPI_STATE || !x->buf)
        return false;
    for (int i = 0; i < t->n; i++) {
        const tpi_item *a = &t->items[i];
        if (a->kind == TPI_STEP_ASSIGN &&
            t->origins[~tpi_item_in(t, a)[0]].tensor->buf == x->buf)
            return true;
    }
    return false;
}

static bool add_operand(tpi_frame *fr, tpi_at at, tp_tensor *x)
{
    tpi_trace *t = fr->trace;
    if (is_overtaken(t, x))
        tpi_traced_stop(fr, at, TPI_WHY_alias);
    const tpi_code c = code_of(fr, at, x);
    if (!ONE_MORE(t, t->in, t->n_in, t->in_size))
        return false;
    t->in[t->n_in++] = c;
    return true;
}

/* Says what the frame's number stands for. */
static void name_number(tpi_trace *t, int32_t number, tpi_code c)
{
    while (t->n_codes <= number) {
        if (!ONE_MORE(t, t->codes, t->n_codes, t->codes_size))
            return;
        t->codes[t->n_codes++] = 0;
    }
    t->codes[number] = c;
}

/* ---- items ------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, uint64_t x)
{
    x = (x ^ h) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 32);
}

static uint32_t hash_of(const tpi_item *x)
{
    uint32_t h = mix((uint32_t)x->kind * 31 + x->look, (uint64_t)(uintptr_t)x->op);
    h = mix(h, (uint64_t)x->at.line);
    h = mix(h, (uint64_t)x->n_in << 16 | (uint64_t)x->dtype << 8 | x->rank);
    for (int a = 0; a < x->rank; a++)
        h = mix(h, (uint64_t)x->shape[a]);
    return h;
}

static tpi_item *add_item(tpi_frame *fr, tpi_at at, tpi_step_kind kind)
{
    tpi_trace *t = fr->trace;
    if (t->n >= TPI_MAX_ITEMS)
        tpi_traced_stop(fr, at, TPI_WHY_length);
    if (t->why || t->partial || !ONE_MORE(t, t->items, t->n, t->size))
        return NULL;
    tpi_item *x = &t->items[t->n];
    *x = (tpi_item){.kind = kind, .at = at, .in = t->n_in, .node = -1};
    return x;
}

static void item_done(tpi_trace *t, tpi_item *x)
{
    enum { BEFORE = 3 };
    x->n_in = t->n_in - x->in;
    x->hash = hash_of(x);
    x->site = x->hash;
    for (int i = t->n - 1; i >= 0 && i >= t->n - BEFORE; i--)
        x->site = mix(x->site, t->items[i].hash);
    x->visit = x->kind == TPI_STEP_LOOK ? tpi_trace_looks(t, x->hash) : 0;
    t->n++;
}

int32_t tpi_trace_looks(const tpi_trace *t, uint32_t look)
{
    for (int i = t->n - 1; i >= 0; i--)
        if (t->items[i].kind == TPI_STEP_LOOK && t->items[i].hash == look)
            return t->items[i].visit + 1;
    return 0;
}

void tpi_traced_op(tpi_frame *fr, const tp_tensor *y, const tpi_op *op, const void *attrs,
                   int n_in, tp_tensor *const *in)
{
    const tp_block *b = fr->f->ctx->caller.blocks;
    const tpi_at at = TPI_AT(y->file, y->line);
    if (op == &tpi_op_stack && b && b->is_loop && !b->counted) {
        tpi_traced_stop(fr, at, TPI_WHY_emits);
        return;
    }
    tpi_trace *t = fr->trace;
    if (op == &tpi_op_result) { /* of a call inside: what was computed there */
        name_number(t, y->number, code_of(fr, at, in[0]));
        return;
    }
    if (op == &tpi_op_call)
        return;
    tpi_item *x = add_item(fr, at, TPI_STEP_OP);
    if (!x)
        return;
    x->op = op;
    x->dtype = y->dtype;
    x->rank = y->rank;
    x->requires = y->flags & TPI_REQUIRES;
    memcpy(x->shape, y->shape, sizeof(int64_t) * y->rank);
    for (int k = 0; k < n_in; k++)
        if (!add_operand(fr, at, in[k]))
            return;
    if (op->attrs_size) {
        void *own = tpi_take(&t->ctx->mem, op->attrs_size);
        t->partial |= !own;
        if (!own)
            return;
        x->attrs = memcpy(own, attrs, op->attrs_size);
    }
    name_number(t, y->number, t->n);
    item_done(t, x);
}

void tpi_traced_number(tpi_frame *fr, tp_tensor *n)
{
    tpi_trace *t = fr->trace;
    for (int i = 0; i < t->n_origins; i++) {
        const tp_tensor *o = t->origins[i].tensor;
        if (t->origins[i].from == TPI_FROM_MADE && o->rank == 0 && o->dtype == n->dtype &&
            memcmp(o->data, n->data, tp_dtype_size((tp_dtype)n->dtype)) == 0) {
            name_number(t, n->number, ~i);
            tpi_launched_number(fr, n, i);
            return;
        }
    }
    name_number(t, n->number, add_origin(t, n, TPI_FROM_MADE, -1));
}

void tpi_traced_assign(tpi_frame *fr, tpi_at at, tp_tensor *var, tp_tensor *value)
{
    tpi_trace *t = fr->trace;
    if (!(var->flags & TPI_STATE))
        tpi_traced_stop(fr, at, TPI_WHY_part);
    else if (var->buf->exposed || !var->buf->size)
        tpi_traced_stop(fr, at, TPI_WHY_alias);
    tpi_item *x = add_item(fr, at, TPI_STEP_ASSIGN);
    if (!x)
        return;
    x->dtype = var->dtype;
    x->rank = var->rank;
    memcpy(x->shape, var->shape, sizeof(int64_t) * var->rank);
    if (add_operand(fr, at, var) && add_operand(fr, at, value))
        item_done(t, x);
}

void tpi_traced_look(tpi_frame *fr, tpi_at at, tp_tensor *v, tpi_look look, bool truth)
{
    tpi_trace *t = fr->trace;
    const size_t bytes = tpi_bytes(v);
    if (look == TPI_LOOK_READ && bytes > TPI_MAX_READ)
        tpi_traced_stop(fr, at, TPI_WHY_read);
    tpi_item *x = add_item(fr, at, TPI_STEP_LOOK);
    if (!x)
        return;
    x->look = (uint8_t)look;
    x->dtype = v->dtype;
    x->rank = v->rank;
    memcpy(x->shape, v->shape, sizeof(int64_t) * v->rank);
    if (look == TPI_LOOK_TRUTH) {
        x->seen[0] = truth;
        x->size = 1;
    } else {
        tpi_copy_out(v, x->seen);
        x->size = (uint8_t)bytes;
    }
    if (add_operand(fr, at, v))
        item_done(t, x);
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Is a tensor from outside other memory of a variable that is assigned? */
static bool is_aliased(const tpi_trace *t)
{
    for (int i = 0; i < t->n; i++) {
        if (t->items[i].kind != TPI_STEP_ASSIGN)
            continue;
        const tp_tensor *var = t->origins[~tpi_item_in(t, &t->items[i])[0]].tensor;
        for (int k = 0; k < t->n_origins; k++)
            if (t->origins[k].tensor != var && t->origins[k].tensor->buf == var->buf)
                return true;
    }
    return false;
}

static bool leaves_gradients(const tpi_frame *fr)
{
    const tpi_trace *t = fr->trace;
    for (int i = 0; i < t->n_origins; i++) {
        const tp_tensor *x = t->origins[i].tensor;
        if (x->flags & TPI_LEAF && x->grad && x->grad->seq >= t->entry)
            return true;
    }
    return false;
}

/* May a gradient be asked of this result, through the body? */
static bool is_taped(const tpi_trace *t, const tp_tensor *y)
{
    return y->flags & TPI_REQUIRES && y->in && y->seq >= t->entry;
}

/* By origin, the last item that assigns it; -1: none does. NULL: memory is out. */
static int32_t *last_assigned(const tpi_trace *t)
{
    int32_t *last = tpi_take(&t->ctx->mem, (size_t)t->n_origins * sizeof *last);
    for (int i = 0; i < t->n_origins && last; i++)
        last[i] = -1;
    for (int i = 0; i < t->n && last; i++)
        if (t->items[i].kind == TPI_STEP_ASSIGN)
            last[~tpi_item_in(t, &t->items[i])[0]] = i;
    return last;
}

/* Does its gradient need a variable that is assigned after it? */
static bool is_overwritten(const tpi_trace *t, const int32_t *last, int i)
{
    const tpi_item *x = &t->items[i];
    for (int k = 0; k < x->n_in && x->op->grad_reads_x; k++) {
        const tpi_code c = tpi_item_in(t, x)[k];
        if (c < 0 && t->origins[~c].tensor->flags & TPI_LEAF && last[~c] > i)
            return true;
    }
    return false;
}

/* Would a gradient of each of the results that have one be refused? Asked of a trace that was not cut
 * short: there every result that is taped has an item. */
static bool is_stale(tpi_frame *fr, tpi_at at, int n, tp_tensor *const *out)
{
    tpi_trace *t = fr->trace;
    const size_t bytes = (size_t)t->n_origins * sizeof(int32_t);
    int32_t *last = last_assigned(t);
    bool *stale = tpi_take(&t->ctx->mem, (size_t)t->n), all = stale && last;
    t->partial |= !all;
    for (int i = 0; i < t->n && all; i++) {
        const tpi_item *x = &t->items[i];
        stale[i] = x->requires && is_overwritten(t, last, i);
        for (int k = 0; k < x->n_in && x->requires && !stale[i]; k++) {
            const tpi_code c = tpi_item_in(t, x)[k];
            stale[i] = c >= 0 && stale[c];
        }
    }
    for (int i = 0; i < n && all; i++)
        if (is_taped(t, out[i])) {
            const tpi_code c = code_of(fr, at, out[i]);
            all = c >= 0 && stale[c];
        }
    tpi_give_back(&t->ctx->mem, last, bytes);
    tpi_give_back(&t->ctx->mem, stale, (size_t)t->n);
    return all;
}

void tpi_traced_return(tpi_frame *fr, tpi_at at, int n, tp_tensor *const *out)
{
    tpi_trace *t = fr->trace;
    for (int i = 0; i < n; i++) {
        const tp_tensor *y = out[i];
        if (y->flags & TPI_VARIABLE && !(y->flags & TPI_STATE))
            tpi_traced_stop(fr, at, TPI_WHY_alias);
        t->taped |= is_taped(t, y);
        if (y->name && y->seq >= t->entry)
            tpi_traced_stop(fr, at, TPI_WHY_outside);
    }
    if (t->ctx->caller.recording != t->recording || t->ctx->caller.training != t->training ||
        t->ctx->caller.stream != t->stream)
        tpi_traced_stop(fr, at, TPI_WHY_outside);
    t->stale = t->taped && !t->why && !t->partial && is_stale(fr, at, n, out);
    if ((t->taped && (!t->stale || fr->f->pure.asked)) || n > TPI_MAX_READ)
        tpi_traced_stop(fr, at, TPI_WHY_taped);
    if (is_aliased(t))
        tpi_traced_stop(fr, at, TPI_WHY_alias);
    if (t->ctx->retained_sum != t->retained)
        tpi_traced_stop(fr, at, TPI_WHY_retained);
    if (leaves_gradients(fr))
        tpi_traced_stop(fr, at, TPI_WHY_grads);
    tpi_item *x = add_item(fr, TPI_AT(NULL, 0), TPI_STEP_RETURN);
    if (!x)
        return;
    for (int i = 0; i < n; i++)
        if (!add_operand(fr, at, out[i]))
            return;
    for (int i = 0; i < n; i++)
        x->seen[i] = is_taped(t, out[i]);
    item_done(t, x);
}
