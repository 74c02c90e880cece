/* Which cell a call is of: what calls have to have in common, and what a function must be to be one. */
#include "batch/cell.h"

#include "base/log.h"
#include "grad/vjp.h"
#include "ir/factors.h"
#include "op/waiting.h"
#include "tapir/train.h"

#include <string.h>

/* ---- what is kept for a function --------------------------------------------------------------------------------- */

enum { MOST_CELLS = 16 }; /* of one function: others run as they are */

typedef struct kept {
    tpi_owned owned;
    tp_ctx *ctx;
    tpi_batch_cell *cells;
    int n;
} kept;

static void free_programs(tpi_cell_side *s)
{
    for (; s; s = s->next)
        tp_program_free(s->program);
}

static void free_cell(void *user, void *data)
{
    tpi_batch_cell *c = user;
    tpi_mem *m = &c->ctx->mem;
    (void)data;
    free_programs(c->forward);
    free_programs(c->back);
    for (int i = 0; i < c->n_shared; i++)
        tpi_unref(c->shared[i].t);
    tp_graph_free(c->many);
    tpi_one_close(&c->one);
    tpi_bump_free(&c->memory);
    tpi_give_back(m, c, sizeof *c);
}

static void free_kept(tpi_owned *o)
{
    kept *k = (kept *)o;
    tp_ctx *ctx = k->ctx;
    for (tpi_batch_cell *c = k->cells, *next; c; c = next) {
        next = c->next;
        tpi_unref(c->holder); /* nodes of tapes may have it still */
    }
    tpi_give_back(&ctx->mem, k, sizeof *k);
}

static kept *kept_of(tp_ctx *ctx, const tpi_function_call *call)
{
    if (*call->kept)
        return (kept *)*call->kept;
    kept *k = tpi_take(&ctx->mem, sizeof *k);
    if (!k)
        return NULL;
    *k = (kept){.owned = {.free = free_kept}, .ctx = ctx};
    *call->kept = &k->owned;
    return k;
}

/* ---- calls like others -------------------------------------------------------------------------------------------- */

static bool is_like(const tpi_cell_port *p, const tp_tensor *t)
{
    return p->dtype == t->dtype && p->rank == t->rank &&
           memcmp(p->shape, t->shape, sizeof *p->shape * (size_t)t->rank) == 0;
}

static bool fits(const tpi_batch_cell *c, const tpi_function_call *call)
{
    bool fits = c->n_in == call->n_in && c->n_out == call->n_out &&
                c->recording == c->ctx->caller.recording && c->training == tp_trains(c->ctx) &&
                c->n_watched == call->n_watched &&
                (!c->n_watched || memcmp(c->watched, call->watched, c->n_watched) == 0);
    for (int i = 0; i < call->n_in && fits; i++) {
        const tp_tensor *t = call->in[i];
        fits = is_like(&c->args[i], t) &&
               (!c->recording || c->asks[i] == ((t->flags & TPI_REQUIRES) != 0));
    }
    for (int i = 0; i < c->n_shared && fits; i++)
        fits = c->shared[i].asks == ((c->shared[i].t->flags & TPI_REQUIRES) != 0);
    return fits;
}

/* A tensor that comes in twice gets one sum of what it gets inside. */
static bool comes_twice(const tpi_batch_cell *c, const tpi_function_call *call)
{
    bool twice = false;
    for (int i = 0; i < call->n_in && !twice; i++) {
        for (int k = 0; k < i && !twice; k++)
            twice = call->in[k] == call->in[i];
        for (int k = 0; k < c->n_shared && !twice; k++)
            twice = c->shared[k].t == call->in[i];
    }
    return twice;
}

/* ---- a body of one sample ------------------------------------------------------------------------------------------- */

/* While the function is run on symbols: what it computes of concrete tensors would be what it is now, in all calls. */
typedef struct watch {
    tpi_frame_head head, *around;
    bool computes;
} watch;

static watch *watch_of(tp_ctx *ctx)
{
    return (watch *)ctx->frame;
}

/* What waits outside is computed. */
static void note(tp_ctx *ctx, tpi_at at)
{
    watch *w = watch_of(ctx);
    w->computes = true;
    ctx->frame = w->around;
    tpi_look_at_all(ctx, at, TPI_LOOK_OTHER);
    ctx->frame = &w->head;
}

static tp_tensor *watch_apply(tp_ctx *ctx, tpi_at at, const tpi_op *op, int n_in,
                              tp_tensor *const *in, const void *attrs, bool asks)
{
    (void)asks;
    note(ctx, at);
    return tpi_apply_now(ctx, at, op, n_in, in, attrs);
}

static tp_tensor *watch_assign(tpi_at at, tp_tensor *var, tp_tensor *value)
{
    (void)value;
    watch_of(var->ctx)->computes = true;
    return tpi_fail(var->ctx, at, "tp_assign", TP_E_STATE, "assigned in a cell");
}

static void watch_look(tp_ctx *ctx, tpi_at at, const tp_tensor *t, tpi_look look)
{
    (void)t;
    if (look == TPI_LOOK_SYMBOL)
        watch_of(ctx)->computes = true;
    else
        note(ctx, at);
}

/* Another function, which may watch what this one does not. */
static void watch_entered(tp_ctx *ctx)
{
    watch_of(ctx)->computes = true;
}

static void watch_answered(tp_ctx *ctx, tpi_at at, const tp_tensor *t, bool truth)
{
    (void)ctx, (void)at, (void)t, (void)truth;
}

static void watch_before_error(tp_ctx *ctx, bool asks)
{
    (void)ctx, (void)asks;
}

static void watch_leave(tp_ctx *ctx)
{
    ctx->frame = watch_of(ctx)->around;
    if (ctx->frame)
        ctx->frame->rules->leave(ctx);
}

static const tpi_frame_rules watch_rules = {.apply = watch_apply,
                                            .scalar = tpi_scalar_now,
                                            .entered = watch_entered,
                                            .assign = watch_assign,
                                            .look = watch_look,
                                            .answered = watch_answered,
                                            .before_error = watch_before_error,
                                            .leave = watch_leave};

static int type_of_argument(const void *user, int i, int64_t *shape)
{
    const tpi_batch_cell *c = user;
    memcpy(shape, c->args[i].shape, sizeof c->args[i].shape);
    return c->args[i].rank;
}

/* Tensors like the arguments, which a cell does not keep: nothing of their tape is for others. */
static bool stand_in(const tpi_batch_cell *c, tp_tensor **in)
{
    bool ok = true;
    for (int i = 0; i < c->n_in && ok; i++) {
        const tpi_cell_port *p = &c->args[i];
        in[i] = tpi_tensor_new(c->ctx, c->at, (tp_dtype)p->dtype, p->rank, p->shape);
        ok = in[i]->status == TP_OK;
        if (ok && c->asks[i])
            in[i]->flags |= TPI_REQUIRES | TPI_LEAF;
        if (ok && in[i]->data)
            memset(in[i]->data, 0, tpi_bytes(in[i]));
    }
    return ok;
}

/* NULL, or why it is none. */
static const char *trace(tpi_batch_cell *c, const tpi_function_call *call)
{
    tp_ctx *ctx = c->ctx;
    watch *w =
        tpi_bump_take(&c->memory, 1, sizeof *w); /* which tp_close may find, after a longjmp */
    tp_tensor **in = tpi_bump_take(&c->memory, (size_t)c->n_in, sizeof *in);
    if (!in || !stand_in(c, in))
        return "";
    const tpi_one_call one = {call->name, call->at,    call->body, call->user,
                              call->n_in, call->n_out, in};
    *w = (watch){.head = {&watch_rules}, .around = ctx->frame};
    ctx->frame = &w->head;
    const tp_tensor *failed = tpi_one_open(&one, type_of_argument, c, &c->one);
    ctx->frame = w->around;
    if (c->one.own)
        tpi_object_remove(&c->one.own->owned); /* it goes when the cell goes */
    if (ctx->status == TP_E_MEMORY)
        return "";
    if (failed || ctx->status != TP_OK) /* it may have gone on with what a failed look gave */
        return "it does what has no place in a graph";
    return w->computes
               ? "it computes something of tensors that are none of its arguments, looks "
                 "at values, asks whether an argument is marked, named or symbolic, or "
                 "calls a function"
               : NULL;
}

/* ---- what such a body must be ----------------------------------------------------------------------------------------- */

/* Of constants memory that may change, or is not there yet, is none. */
static bool is_plain(const tp_tensor *t)
{
    const tpi_op *op = t->op;
    if (op->kind == TPI_SOURCE && t->n_in)
        return !(t->in[0]->flags & TPI_LAZY) && !tpi_is_wrapped(t->in[0]) &&
               !(t->in[0]->buf && t->in[0]->buf->exposed);
    return op->kind != TPI_EFFECT && op->kind != TPI_BLOCK && op->kind != TPI_PORT &&
           !op->awaits && !tpi_node_draws(t) && !op->own && !tpi_may_refuse(op) &&
           op->batch != TPI_BATCH_NONE && op->batch != TPI_BATCH_VALUE;
}

/* How a body reads its node p. `led`: an op on a [4] and a [1, 4] sums the gradient of the first over one place, and such a
 * sum leaves no -0; with many samples it is [n, 4], and made [n, 1, 4] without a sum. */
typedef struct uses {
    bool other;
    int multiplies; /* as the right matrix of a product whose rows a sweep joins: how often */
    bool
        led; /* beside what has more axes, of one place each: the gradient is summed over these, and has no -0 */
} uses;

static uses uses_of(const tpi_body *b, const tp_tensor *p)
{
    uses u = {false, 0, false};
    for (int i = 0; i < b->graph->n_nodes; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++) {
            const bool right = k == 1 && t->rank == 2 && tpi_is_product(t);
            const bool meets = t->op->kind == TPI_ELEMENT || t->op->contract;
            if (t->in[k] != p)
                continue;
            u.multiplies += right;
            u.other |= !right;
            u.led |=
                meets && p->rank < t->rank && (t->op->contract || tpi_count(p) == tpi_count(t));
        }
    }
    for (int i = 0; i < b->n_outputs; i++)
        u.other |= b->outputs[i] == p;
    return u;
}

static const char *find_role(const tpi_batch_cell *c, tpi_cell_shared *s)
{
    enum { MOST = 1 << 15 }; /* bytes of a gradient that each call has by itself */
    const uses u = uses_of(c->one.body, c->one.body->params[s->param]);
    if (!c->recording || !s->asks)
        return NULL;
    if (u.multiplies && u.other)
        return "a matrix is multiplied by, and read otherwise";
    s->role = u.multiplies ? TPI_CELL_RIGHT_MATRIX : TPI_CELL_EACH;
    s->led = u.led;
    return s->role == TPI_CELL_EACH && tpi_bytes(s->t) > MOST
               ? "a large tensor is read otherwise than as the right matrix of products"
               : NULL;
}

/* What it reads beside its arguments. NULL, or why it is no cell. */
static const char *find_shared(tpi_batch_cell *c)
{
    const tpi_body *b = c->one.body;
    c->shared = tpi_bump_take(&c->memory, (size_t)b->n_params, sizeof *c->shared);
    if (!c->shared)
        return "";
    for (int k = c->n_in; k < b->n_params; k++) {
        const tp_tensor *outer = b->outers[k];
        if (!outer || outer->op->kind != TPI_SOURCE || !outer->n_in)
            return "it reads what is no tensor from outside";
        tp_tensor *t = outer->in[0];
        if (t->flags & TPI_LAZY || tpi_is_wrapped(t) || !(t->flags & TPI_CONTIGUOUS))
            return "it reads a tensor that waits itself, is the caller's, or has gaps";
        if (c->n_in + c->n_shared == TPI_CELL_MOST)
            return "it reads too many tensors";
        tpi_cell_shared *s = &c->shared[c->n_shared++];
        *s = (tpi_cell_shared){.t = t, .param = k, .asks = (t->flags & TPI_REQUIRES) != 0};
        tpi_ref(t);
        const char *why = find_role(c, s);
        if (why)
            return why;
    }
    return NULL;
}

static const char *look_at_results(tpi_batch_cell *c)
{
    const tpi_body *b = c->one.body;
    tpi_mem *m = &c->ctx->mem;
    const size_t n_nodes = (size_t)b->graph->n_nodes, bytes = (size_t)b->n_params + n_nodes;
    bool *params = tpi_take(m, bytes), *depends = params + b->n_params;
    c->asked = tpi_bump_take(&c->memory, (size_t)c->n_out, sizeof *c->asked);
    const char *why = params && c->asked ? NULL : "";
    for (int i = 0; i < b->n_params && !why; i++)
        params[i] = c->recording && (i < c->n_in ? c->asks[i] : c->shared[i - c->n_in].asks);
    if (!why)
        tpi_body_depends(b, params, depends);
    for (int i = 0; i < c->n_out && !why; i++) {
        const tp_tensor *y = b->outputs[i];
        c->asked[i] = depends[y->index];
        if (y->op->kind == TPI_SOURCE || y->dtype < TP_F32)
            why = "a result is an argument, or no float";
        for (int k = 0; k < i && !why; k++)
            if (b->outputs[k] == y)
                why = "two results are one";
    }
    tpi_give_back(m, params, params ? bytes : 0);
    return why;
}

/* Is there a value of each call whose gradient is another with many samples? Products give their right matrices what they
 * give last, of one call or of all; but with many samples no such value is a matrix, and gets it in its turn. And what lacks axes
 * that others have gets them there without a sum. */
static bool differs_for_many(const tpi_batch_cell *c)
{
    const tpi_body *b = c->one.body;
    bool differs = false;
    for (int i = 0; i < b->graph->n_nodes && !differs; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        bool argument = false;
        for (int k = 0; k < c->n_in && !argument; k++)
            argument = b->params[k] == t;
        if (t->op->kind == TPI_SOURCE && !argument)
            continue;
        const uses u = uses_of(b, t);
        differs = u.led || (u.multiplies && (argument || u.other || u.multiplies > 1));
    }
    return differs;
}

static const char *look_at_body(tpi_batch_cell *c)
{
    const tpi_body *b = c->one.body;
    for (int i = 0; i < b->graph->n_nodes; i++)
        if (!is_plain(b->graph->nodes[i]))
            return "it draws, may fail, has an effect or a block, takes one sample after the "
                   "other, or "
                   "reads what waits or is the caller's memory";
    if (c->recording && differs_for_many(c))
        return "a value of each call is the right matrix of a product, or meets what has more "
               "axes";
    if (b->graph->n_nodes > TPI_CELL_OPS)
        return "it is too long";
    const char *why = find_shared(c);
    return why ? why : look_at_results(c);
}

/* ---- making one -------------------------------------------------------------------------------------------------------- */

static bool take_form(tpi_batch_cell *c, const tpi_function_call *call)
{
    c->args = tpi_bump_take(&c->memory, (size_t)call->n_in + 1, sizeof *c->args);
    c->asks = tpi_bump_take(&c->memory, (size_t)call->n_in + 1, sizeof *c->asks);
    c->name = tpi_bump_copy(&c->memory, call->name, strlen(call->name) + 1, 1);
    if (call->n_watched)
        c->watched = tpi_bump_copy(&c->memory, call->watched, call->n_watched, 1);
    for (int i = 0; i < call->n_in && c->asks; i++) {
        const tp_tensor *t = call->in[i];
        c->args[i] = (tpi_cell_port){.dtype = t->dtype, .rank = t->rank, .n = i};
        memcpy(c->args[i].shape, t->shape, sizeof t->shape);
        c->asks[i] = t->flags & TPI_REQUIRES;
    }
    return !c->memory.failed;
}

/* Tensors of a few bytes: more by the call than by what lies around it. */
static bool is_small(const tpi_function_call *call)
{
    enum { MOST = 1 << 16 };
    bool is = true;
    for (int i = 0; i < call->n_in && is; i++)
        is = tpi_bytes(call->in[i]) <= MOST && call->in[i]->rank < TP_MAX_RANK;
    return is;
}

static const char *make_parts(tpi_batch_cell *c, const tpi_function_call *call)
{
    if (call->n_in < 1 || call->n_in > TPI_CELL_MOST / 2 || call->n_out < 1 ||
        call->n_out > TPI_CELL_MOST / 2)
        return "it has no arguments or results, or too many";
    if (!is_small(call))
        return "its arguments are large, or have too many axes";
    const char *why = trace(c, call);
    why = why ? why : look_at_body(c);
    why = why ? why : tpi_cell_build(c);
    return why ? why : tpi_cell_compile(c);
}

/* What an attempt leaves behind in the context is taken back. */
static const char *make_aside(tpi_batch_cell *c, const tpi_function_call *call)
{
    tp_ctx *ctx = c->ctx;
    tpi_aside earlier;
    const bool has_symbols = ctx->has_symbols;
    const char *why = "";
    tpi_error_aside(ctx, &earlier);
    if (tp_scope_begin(ctx) == TP_OK) {
        why = make_parts(c, call);
        if (why && !*why && ctx->status != TP_E_MEMORY && ctx->status != TP_OK)
            why = "no graph of many calls can be made of it";
        tp_scope_end(ctx);
    }
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    ctx->has_symbols = has_symbols; /* C was given none of these */
    return why;
}

/* It lives as long as the holder does. NULL: no memory. */
static tpi_batch_cell *new_cell(tp_ctx *ctx, const tpi_function_call *call)
{
    tpi_batch_cell *c = tpi_take(&ctx->mem, sizeof *c);
    if (!c)
        return NULL;
    *c = (tpi_batch_cell){.ctx = ctx,
                          .memory = TPI_BUMP(&ctx->mem),
                          .at = call->at,
                          .engine = call->engine,
                          .recording = ctx->caller.recording,
                          .training = tp_trains(ctx),
                          .n_in = call->n_in,
                          .n_out = call->n_out,
                          .n_watched = call->n_watched};
    tp_tensor *holder = tpi_tensor(ctx, call->at, TP_U8, 0, NULL);
    tpi_buf *b = holder ? tpi_take(&ctx->mem, sizeof *b) : NULL;
    if (!b) {
        tpi_give_back(&ctx->mem, c, sizeof *c);
        return NULL;
    }
    *b = (tpi_buf){.refs = 1, .data = c, .release = free_cell, .user = c};
    holder->buf = b;
    holder->data = (char *)c;
    tpi_set_strides(holder);
    tpi_disown(holder);
    c->holder = holder;
    return c;
}

/* Out of the list; nodes of tapes, and what waits, may have it still. */
static void drop(kept *k, tpi_batch_cell *c)
{
    tpi_batch_cell **at = &k->cells;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    k->n--;
    tpi_unref(c->holder);
}

/* The first call like this one runs the body, so that it is seen whether C looks at values there. */
static void add(tp_ctx *ctx, kept *k, const tpi_function_call *call)
{
    tpi_batch_cell *oldest = k->cells;
    while (k->n == MOST_CELLS && oldest->next)
        oldest = oldest->next;
    if (k->n == MOST_CELLS)
        drop(k, oldest);
    tpi_batch_cell *c = new_cell(ctx, call);
    if (!c)
        return;
    c->next = k->cells;
    k->cells = c;
    k->n++;
    if (take_form(c, call))
        *call->looked = &c->looks;
    else
        drop(k, c);
}

/* False: no memory, and it is gone. */
static bool make(kept *k, tpi_batch_cell *c, const tpi_function_call *call)
{
    c->why = c->looks ? "C looks at values in it" : make_aside(c, call);
    c->made = true;
    if (c->why && !*c->why) { /* another time */
        drop(k, c);
        return false;
    }
    if (c->why)
        tpi_log(TPI_LOG_batch, "%s:%d: calls of \"%s\" wait op by op: %s",
                call->at.file ? call->at.file : "?", call->at.line, call->name, c->why);
    return true;
}

/* The cell of calls like this one, which is now the first of the list; NULL: there is none. */
static tpi_batch_cell *find(kept *k, const tpi_function_call *call)
{
    tpi_batch_cell **at = &k->cells, *c;
    while (*at && !fits(*at, call))
        at = &(*at)->next;
    c = *at;
    if (!c)
        return NULL;
    *at = c->next;
    c->next = k->cells;
    k->cells = c;
    return c;
}

tpi_batch_cell *tpi_cell_of(tp_ctx *ctx, const tpi_function_call *call)
{
    kept *k = kept_of(ctx, call);
    tpi_batch_cell *c = k ? find(k, call) : NULL;
    if (k && !c)
        add(ctx, k, call);
    if (!c || (!c->made && !make(k, c, call)))
        return NULL;
    return !c->why && !comes_twice(c, call) ? c : NULL;
}
