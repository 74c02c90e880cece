/* Replays of pure functions: basic blocks, and what is done at the end. */
#include "base/float_mode.h"
#include "capture/replay/blocks.h"
#include "capture/replay/relaunch.h"
#include "capture/run/direct.h"
#include "op/call.h"
#include "op/random_position.h"

#include <string.h>

/* ---- one call ---------------------------------------------------------------------------- */

typedef struct replay {
    tpi_flow *w;
    tpi_basic_blocks *bs;
    tp_ctx *ctx;
    tpi_at at;
    tp_tensor *const *in;
    tpi_positions begins; /* of random numbers: back there when it is abandoned */
    uint64_t seq;         /* of the context, at the beginning */
    uint64_t way;         /* outcomes so far (flow.h) */
    int32_t entrance;     /* of the last merge */
    const char *why;      /* it was abandoned */
    tpi_at why_at;
    tpi_dry *dry; /* it is only to be looked at; or NULL */
} replay;

static bool give_up(replay *r, tpi_at at, const char *why)
{
    r->why = why;
    r->why_at = at;
    return false;
}

static void set_extern(replay *r, int i)
{
    const tpi_extern *e = &r->w->externs[i];
    tpi_reg *x = &r->bs->regs[i];
    x->header = e->from == TPI_FROM_ARG ? r->in[e->arg] : e->tensor;
    x->data = x->header->data;
    x->stamp = r->bs->call;
}

/* What the value of a register was computed from; an extern itself is noted as read. */
static tpi_unmarked origin_of(const replay *r, const tpi_reg *x)
{
    tp_tensor *t = x->header;
    if (x->ext < 0 || !r->ctx->caller.recording)
        return x->of;
    if (t->dtype < TP_F32 || t->flags & TPI_REQUIRES ||
        r->w->externs[x->ext].from == TPI_FROM_MADE)
        return (tpi_unmarked){0, 0};
    if (!t->read)
        t->read = r->seq << 6 | (r->ctx->n_read++ & 63);
    return (tpi_unmarked){t->from | tpi_from_bit(t), t->since};
}

/* What recordings had behind this edge stays open. */
static inline void take_merge(replay *r, const tpi_edge *e)
{
    if (e->merge < 0)
        return;
    const uint64_t *followed = tpi_flow_followed(r->w, e->merge);
    for (int i = 0; i < r->bs->n_words; i++)
        r->bs->open[i] &= followed[i];
    r->entrance = e->entrance;
}

static void begin(replay *r)
{
    tpi_basic_blocks *bs = r->bs;
    bs->call++;
    for (int i = 0; i < r->w->n_exits; i++) {
        tpi_basic_block *head = &bs->v[r->w->nodes[r->w->exits[i].head].block];
        head->turns = 0;
        head->way = 0;
    }
    memset(bs->open, 0xff, (size_t)bs->n_words * sizeof *bs->open);
    take_merge(r, &r->w->nodes[TPI_ENTRY_NODE].edges[0]);
    for (int i = 0; i < r->w->n_externs; i++)
        set_extern(r, i);
    for (int i = r->w->n_externs; i < r->w->n_externs + bs->n_phi_regs; i++) {
        tpi_reg *x = &bs->regs[i];
        if (x->init < 0)
            continue;
        const tp_tensor *t = bs->regs[x->init].header;
        t->buf->refs++;
        tpi_buf_unref(r->ctx, x->buf);
        x->buf = t->buf;
        x->data = t->data;
        x->stamp = bs->call;
        x->made = -1;
        x->of = origin_of(r, &bs->regs[x->init]);
    }
}

static inline tpi_at place_of(const replay *r, const tpi_basic_block *b)
{
    return r->w->nodes[b->nodes[0]].at;
}

/* Is what the block reads known in this run? */
static inline bool is_known(replay *r, const tpi_basic_block *b)
{
    for (int i = 0; i < b->n_in; i++)
        if (__builtin_expect(r->bs->regs[b->in[i]].stamp != r->bs->call, 0))
            return give_up(r, place_of(r, b),
                           "which tensor is used has not been seen on this way");
    return true;
}

/* ---- the program of a block -------------------------------------------------------------- */

/* Memory for the outputs, that nobody else holds. */
static bool take_memory(replay *r, tpi_basic_block *b)
{
    for (int i = 0; i < b->n_out; i++) {
        tpi_output *o = &b->out[i];
        tpi_reg *x = &r->bs->regs[o->reg];
        o->fresh = !(x->buf && x->buf->refs == 1);
        o->buf = o->fresh ? tpi_buf_new(r->ctx, x->bytes) : x->buf;
        if (o->buf)
            continue;
        for (int k = 0; k < i; k++)
            if (b->out[k].fresh)
                tpi_buf_unref(r->ctx, b->out[k].buf);
        return give_up(r, place_of(r, b), "out of memory");
    }
    return true;
}

static bool fail_outputs(replay *r, tpi_basic_block *b, const char *why)
{
    for (int i = 0; i < b->n_out; i++)
        if (b->out[i].fresh)
            tpi_buf_unref(r->ctx, b->out[i].buf);
    return give_up(r, place_of(r, b), why);
}

static bool run_direct(replay *r, tpi_basic_block *b)
{
    if (!take_memory(r, b))
        return false;
    for (int i = 0; i < b->n_feeds; i++)
        tpi_direct_feed(b->program, i, r->bs->regs[b->in[i]].data);
    for (int i = 0; i < b->n_out; i++)
        tpi_direct_result(b->program, i, b->out[i].buf->data);
    return tpi_direct_enter(b->program) || fail_outputs(r, b, "an op fails");
}

/* Takes over the memory of a computed value. */
static bool take_value(replay *r, tpi_output *o, const tp_tensor *v)
{
    const tpi_reg *x = &r->bs->regs[o->reg];
    if (v->flags & TPI_CONTIGUOUS && v->data == v->buf->data && v->buf->refs == 1) {
        o->buf = v->buf;
        o->buf->refs++;
    } else {
        o->buf = tpi_buf_new(r->ctx, x->bytes);
        if (o->buf)
            tpi_copy_out(v, o->buf->data);
    }
    o->fresh = true;
    return o->buf;
}

static tp_tensor *feed_of(replay *r, tpi_reg *x)
{
    if (x->ext >= 0 && !x->buf)
        return x->header;
    tp_tensor *t = x->header;
    if (x->ext >= 0) { /* assigned in this call: not the variable itself */
        tp_tensor *copy = tpi_tensor(r->ctx, r->at, (tp_dtype)t->dtype, t->rank, t->shape);
        if (!copy)
            return NULL;
        tpi_set_strides(copy);
        copy->buf = x->buf;
        copy->buf->refs++;
        copy->data = x->data;
        return copy;
    }
    t->buf = x->buf;
    t->data = x->data;
    return t;
}

/* The random ops of a block draw: where (draws may be NULL). */
static void draw_all(const replay *r, const tpi_basic_block *b, struct tpi_draw *draws)
{
    for (int i = 0, d = 0; i < b->n_nodes; i++) {
        const tpi_node *node = &r->w->nodes[b->nodes[i]];
        if (!tpi_is_draw(node->op))
            continue;
        const tpi_random_attrs placed = tpi_random_position(node->attrs, r->ctx);
        if (draws)
            draws[d] = (struct tpi_draw){-1 - d, placed.seed, placed.at};
        d++;
    }
}

/* By whatever runs programs. */
static bool run_otherwise(replay *r, tpi_basic_block *b)
{
    enum { FEW = 32 };
    tp_ctx *ctx = r->ctx;
    tp_program *p = b->program->program;
    tp_tensor *few[FEW], **feeds = few;
    const size_t n = (size_t)(b->n_feeds + b->n_out);
    const size_t bytes = (size_t)b->n_random * sizeof(struct tpi_draw);
    struct tpi_draw *draws = tpi_take(&ctx->mem, bytes);
    if (n > FEW)
        feeds = tpi_take(&ctx->mem, n * sizeof *feeds);
    bool ok = feeds && draws && tp_scope_begin(ctx) == TP_OK;
    if (ok) {
        draw_all(r, b, draws);
        for (int i = 0; i < b->n_feeds && ok; i++)
            ok = (feeds[i] = feed_of(r, &r->bs->regs[b->in[i]])) != NULL;
        tp_tensor **values = feeds + b->n_feeds;
        ok = ok && tpi_program_run_sized(p, place_of(r, b), NULL, feeds,
                                         &(tpi_draws){b->n_random, draws}, values);
        const bool computed = ok;
        for (int i = 0; i < b->n_out; i++)
            b->out[i].buf = NULL;
        for (int i = 0; i < b->n_out && computed; i++) {
            ok = ok && take_value(r, &b->out[i], values[i]);
            tpi_unref(values[i]);
        }
        for (int i = 0; i < b->n_out && computed && !ok; i++)
            tpi_buf_unref(ctx, b->out[i].buf);
        tp_scope_end(ctx);
    }
    for (int i = 0; i < r->bs->n_regs; i++) /* a header holds nothing between runs */
        if (r->bs->regs[i].ext < 0 && r->bs->regs[i].header)
            r->bs->regs[i].header->buf = NULL;
    tpi_give_back(&ctx->mem, draws, bytes);
    if (feeds != few)
        tpi_give_back(&ctx->mem, feeds, n * sizeof *feeds);
    return ok || give_up(r, place_of(r, b), "an op fails");
}

static bool compute(replay *r, tpi_basic_block *b)
{
    if (b->program && b->n_random == 0 && tpi_is_direct(b->program))
        return run_direct(r, b);
    if (!b->program) { /* what is drawn there is not used */
        draw_all(r, b, NULL);
        return true;
    }
    const bool ready = tpi_shared_ready(r->w->f, b->program);
    if (!run_otherwise(r, b))
        return false;
    if (ready)
        tpi_direct_find(r->ctx, b->program, b->n_feeds, b->n_out);
    return true;
}

/* ---- what is left of it ------------------------------------------------------------------ */

/* Memory of a variable that is assigned later is copied: it will change. */
static bool hold_reg(replay *r, const tpi_reg *x, tpi_held *h)
{
    *h = (tpi_held){x->buf, x->data, x->stamp, x->made, origin_of(r, x)};
    if (x->stamp != r->bs->call) {
        h->buf = NULL;
        return true;
    }
    if (!x->buf && x->header->flags & TPI_VARIABLE) {
        h->buf = tpi_buf_new(r->ctx, x->bytes);
        if (!h->buf)
            return false;
        tpi_copy_out(x->header, h->buf->data);
        h->data = h->buf->data;
        return true;
    }
    h->buf = x->buf ? x->buf : x->header->buf;
    h->buf->refs++;
    return true;
}

static bool hold(replay *r, const tpi_basic_block *b, int32_t from, tpi_held *h)
{
    if (from >= 0)
        return hold_reg(r, &r->bs->regs[b->in[from]], h);
    h->buf = b->out[~from].buf;
    h->buf->refs++;
    h->data = h->buf->data;
    h->stamp = r->bs->call;
    h->made = b->nodes[b->out[~from].place];
    return true;
}

static void put_reg(replay *r, tpi_reg *x, tpi_held h)
{
    tpi_buf_unref(r->ctx, x->buf);
    x->buf = h.buf;
    x->data = h.data;
    x->stamp = h.stamp;
    x->made = h.made;
    x->of = h.of;
    x->dirty = x->ext >= 0;
}

static bool move_all(replay *r, tpi_basic_block *b)
{
    enum { FEW = 24 };
    tpi_held few[FEW], *all = few;
    if (b->n_moves > FEW)
        all = tpi_take(&r->ctx->mem, (size_t)b->n_moves * sizeof *all);
    bool ok = all;
    int n = 0;
    for (; n < b->n_moves && ok; n++)
        ok = hold(r, b, b->moves[n].from, &all[n]);
    if (!ok && all)
        for (int i = 0; i < n - 1; i++)
            tpi_buf_unref(r->ctx, all[i].buf);
    for (int i = 0; i < b->n_moves && ok; i++)
        put_reg(r, &r->bs->regs[b->moves[i].to], all[i]);
    if (all != few)
        tpi_give_back(&r->ctx->mem, all, (size_t)b->n_moves * sizeof *all);
    return ok;
}

static inline bool is_set(const replay *r, const tpi_edge_move *s, int32_t edge)
{
    return s->edge == edge && (s->after < 0 || r->bs->v[s->after].call == r->bs->call) &&
           (s->made == TPI_ANY_MAKER || s->made == r->bs->regs[s->to].made);
}

/* Phis become what they are behind the edge, all at once. */
static bool set_all(replay *r, const tpi_basic_block *b, int32_t edge)
{
    tpi_held *v = r->bs->held;
    int n = 0;
    for (int i = 0; i < b->n_sets; i++) {
        if (!is_set(r, &b->sets[i], edge))
            continue;
        v[n] = (tpi_held){.made = TPI_ANY_MAKER};
        if (b->sets[i].from >= 0 && !hold_reg(r, &r->bs->regs[b->sets[i].from], &v[n]))
            break;
        n++;
    }
    int done = 0;
    bool ok = true;
    for (int i = 0; i < b->n_sets && ok; i++)
        if (is_set(r, &b->sets[i], edge)) {
            ok = done < n;
            if (ok)
                put_reg(r, &r->bs->regs[b->sets[i].to], v[done++]);
        }
    return ok;
}

/* What an output was computed from. */
static tpi_unmarked join_origins(const replay *r, const tpi_basic_block *b, uint64_t reads)
{
    tpi_unmarked all = {0, 0};
    for (int i = 0; i < b->n_in && reads; i++) {
        if (!(reads >> (i < 63 ? i : 63) & 1))
            continue;
        const tpi_unmarked of = origin_of(r, &r->bs->regs[b->in[i]]);
        all.from |= of.from;
        if (of.since && (!all.since || of.since < all.since))
            all.since = of.since;
    }
    return all;
}

/* Outputs become their registers' values. */
static void keep_outputs(replay *r, tpi_basic_block *b)
{
    for (int i = 0; i < b->n_out; i++) {
        tpi_output *o = &b->out[i];
        tpi_reg *x = &r->bs->regs[o->reg];
        if (o->fresh) {
            tpi_buf_unref(r->ctx, x->buf);
            x->buf = o->buf;
        }
        x->data = x->buf->data;
        x->stamp = r->bs->call;
        x->made = b->nodes[o->place];
        if (r->ctx->caller.recording && b->n_edges)
            x->of = join_origins(r, b, o->reads);
    }
}

static const char *data_of(const replay *r, const tpi_basic_block *b, int32_t end)
{
    return end < 0 ? (const char *)b->out[~end].buf->data : r->bs->regs[b->in[end]].data;
}

static tpi_edge *edge_taken(const replay *r, const tpi_basic_block *b)
{
    const tpi_node *last = &r->w->nodes[b->nodes[b->n_nodes - 1]];
    if (last->kind != TPI_STEP_LOOK)
        return b->n_edges ? &b->edges[0] : NULL;
    const char *data = data_of(r, b, b->ends[0]);
    const bool truth =
        last->look == TPI_LOOK_TRUTH && tpi_load_f64((tp_dtype)last->dtype, data) != 0;
    for (int i = 0; i < b->n_edges; i++) {
        tpi_edge *e = &b->edges[i];
        if (last->look == TPI_LOOK_TRUTH ? e->seen[0] == truth
                                         : memcmp(e->seen, data, e->size) == 0)
            return e;
    }
    return NULL;
}

/* ---- the end ----------------------------------------------------------------------------- */

/* A result: the tensor from outside that it is, or a new one with the memory of the value. */
static tp_tensor *result_of(replay *r, const tpi_basic_block *b, int k)
{
    const int32_t end = b->ends[k];
    const tpi_reg *x = end < 0 ? &r->bs->regs[b->out[~end].reg] : &r->bs->regs[b->in[end]];
    if (x->ext >= 0 && r->w->externs[x->ext].from != TPI_FROM_MADE)
        return x->header;
    const tp_tensor *h = x->header;
    tp_tensor *t = tpi_tensor(r->ctx, r->at, (tp_dtype)h->dtype, h->rank, h->shape);
    if (!t)
        return NULL;
    tpi_set_strides(t);
    if (r->ctx->caller.recording && t->dtype >= TP_F32) {
        const tpi_unmarked of =
            end < 0 ? join_origins(r, b, b->out[~end].reads) : origin_of(r, x);
        t->from = of.from;
        t->since = of.since && of.since < t->seq ? of.since : t->seq;
    }
    if (end < 0)
        t->buf = b->out[~end].buf;
    else
        t->buf = x->buf ? x->buf : h->buf;
    if (t->buf->data != data_of(r, b, end)) { /* somebody else's */
        t->buf = NULL;
        if (!tpi_tensor_alloc(t))
            return NULL;
        memcpy(t->data, data_of(r, b, end), x->bytes);
        return t;
    }
    t->buf->refs++;
    t->data = t->buf->data;
    return t;
}

/* Over all floats from outside: of which of them a value was computed is not known. */
static tp_tensor *replayed_call(const tpi_flow *w, tpi_at at, tp_tensor *const *in)
{
    tpi_nodes operands = {.ctx = w->ctx};
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        if (e->from != TPI_FROM_MADE && e->tensor->dtype >= TP_F32)
            tpi_nodes_push(&operands, e->from == TPI_FROM_ARG ? in[e->arg] : e->tensor);
    }
    tp_tensor *call = operands.failed ? NULL
                                      : tpi_call_new(at, tpi_replayed_call_of(w->f->serial),
                                                     operands.n, operands.v);
    tpi_nodes_free(&operands);
    return call;
}

tp_tensor *tpi_flow_tape(const tpi_flow *w, tpi_at at, tp_tensor *const *in, tp_tensor *value,
                         tp_tensor **call)
{
    value->from = value->since = 0; /* the call tells */
    *call = *call ? *call : replayed_call(w, at, in);
    tp_tensor *t = *call ? tpi_call_result(at, value, *call) : NULL;
    return t && t->status == TP_OK ? t : NULL;
}

static bool make_results(replay *r, const tpi_basic_block *b, tp_tensor **out)
{
    const tpi_node *ret = &r->w->nodes[b->nodes[b->n_nodes - 1]];
    tp_tensor *call = NULL;
    for (int i = 0; i < b->n_ends; i++) {
        for (int k = 0; k < i && !out[i]; k++)
            out[i] = b->ends[k] == b->ends[i] ? out[k] : NULL;
        if (out[i])
            continue;
        out[i] = result_of(r, b, i);
        if (out[i] && ret->item->seen[i])
            out[i] = tpi_flow_tape(r->w, r->at, r->in, out[i], &call);
        if (!out[i])
            return give_up(r, r->at, "out of memory");
    }
    return true;
}

static bool may_commit(const replay *r)
{
    for (int i = 0; i < r->w->n_externs; i++) {
        const tpi_reg *x = &r->bs->regs[i];
        if (x->dirty && !tpi_may_write(x->header))
            return false;
    }
    return true;
}

void tpi_take_value(tp_tensor *var, tpi_buf *buf)
{
    tp_tensor value = *var;
    value.flags = TPI_CONTIGUOUS;
    tpi_set_strides(&value);
    value.buf = buf;
    value.data = buf->data;
    tpi_move_in(var, &value, buf->refs == 1);
    var->buf->version++;
    tpi_buf_unref(var->ctx, value.buf);
}

/* Variables get their new values: from here on nothing fails. */
static void commit(replay *r)
{
    for (int i = 0; i < r->w->n_externs; i++) {
        tpi_reg *x = &r->bs->regs[i];
        if (!x->dirty)
            continue;
        tpi_take_value(x->header, x->buf);
        x->buf = NULL;
        x->dirty = false;
    }
}

/* Registers of variables and of nodes are the same memory; those of other blocks let go of it, so that it
 * is free when it is written the next time. */
static void let_go(replay *r)
{
    const int first = r->w->n_externs, n = first + r->bs->n_phi_regs;
    for (int i = first; i < n; i++) {
        tpi_reg *x = &r->bs->regs[i];
        tpi_buf_unref(r->ctx, x->buf);
        x->buf = NULL;
        x->stamp = 0;
    }
}

/* What would have been assigned is not. */
static void forget_assigned(replay *r)
{
    for (int i = 0; i < r->w->n_externs; i++) {
        tpi_reg *x = &r->bs->regs[i];
        tpi_buf_unref(r->ctx, x->buf);
        x->buf = NULL;
        x->dirty = false;
    }
}

/* Behind all merges that were taken, has this outcome been seen? */
static bool is_open(replay *r, const tpi_basic_block *from, const tpi_edge *e)
{
    const int32_t outcome = e->outcome + r->entrance;
    return e->outcome < 0 || (r->bs->open[outcome / 64] >> (outcome % 64) & 1) ||
           give_up(r, place_of(r, from), "an outcome that has not been seen on this way");
}

/* Are loops left as C leaves them? */
static bool leave(replay *r, const tpi_basic_block *from, const tpi_edge *e)
{
    for (int i = e->exit; i >= 0; i = r->w->exits[i].next) {
        const tpi_loop_exit *x = &r->w->exits[i];
        const tpi_basic_block *head = &r->bs->v[r->w->nodes[x->head].block];
        if (!tpi_may_leave(x, head->way, head->turns))
            return give_up(r, place_of(r, from),
                           "a loop ends, and C may have counted its turns when it did before");
    }
    return true;
}

static bool enter(replay *r, const tpi_basic_block *from, tpi_edge *e, tpi_basic_block **to)
{
    tpi_basic_block *b = &r->bs->v[e->to];
    if (!is_open(r, from, e) || !leave(r, from, e))
        return false;
    take_merge(r, e);
    r->way =
        tpi_way_behind(r->w, r->way, from->nodes[from->n_nodes - 1], (int)(e - from->edges));
    if (b->loops) {
        b->way = e->back ? b->way : r->way;
        b->turns = e->back ? b->turns + 1 : 0;
        if (b->turns > b->limit)
            return give_up(r, place_of(r, from), "more turns of a loop than ever before");
    }
    e->taken++;
    *to = b;
    return true;
}

static void note_block(const replay *r, const tpi_basic_block *b)
{
    tpi_dry *d = r->dry;
    int32_t *v = tpi_grow(&r->ctx->mem, d->blocks, d->n_blocks, &d->blocks_size, sizeof *v);
    d->failed |= !v;
    if (!v)
        return;
    d->blocks = v;
    v[d->n_blocks++] = (int32_t)(b - r->bs->v);
}

static bool run(replay *r, int n_out, tp_tensor **out)
{
    tpi_basic_blocks *bs = r->bs;
    tpi_basic_block *b = &bs->v[r->w->nodes[r->w->nodes[TPI_ENTRY_NODE].edges[0].to].block];
    (void)n_out;
    for (;;) {
        if (tpi_is_interrupted(r->ctx))
            return give_up(r, place_of(r, b), "stopped by tp_interrupt");
        if (!is_known(r, b) || !compute(r, b))
            return false;
        b->runs++;
        b->call = bs->call;
        if (r->dry)
            note_block(r, b);
        if (!b->n_edges) {
            const bool ok = make_results(r, b, out);
            const bool moved = ok && move_all(r, b);
            keep_outputs(r, b);
            return moved || (ok && give_up(r, r->at, "out of memory"));
        }
        tpi_edge *e = edge_taken(r, b);
        const bool moved = e && move_all(r, b);
        keep_outputs(r, b);
        if (!e)
            return give_up(r, r->w->nodes[b->nodes[b->n_nodes - 1]].at,
                           "an outcome that has not been seen");
        if (!moved || !set_all(r, b, (int32_t)(e - b->edges)))
            return give_up(r, place_of(r, b), "out of memory");
        if (!enter(r, b, e, &b))
            return false;
    }
}

void tpi_drop_results(tp_ctx *ctx, int32_t mark, int n_out, tp_tensor **out)
{
    tpi_drop_owned(&ctx->caller, mark);
    for (int i = 0; i < n_out; i++)
        out[i] = NULL;
}

static replay replay_of(tpi_flow *w, tpi_at at, tp_tensor *const *in)
{
    return (replay){
        .w = w, .bs = w->blocks, .ctx = w->ctx, .at = at, .in = in, .seq = w->ctx->caller.seq};
}

static bool replay_in(tpi_flow *w, tpi_at at, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_ctx *ctx = w->ctx;
    replay r = replay_of(w, at, in);
    const int32_t mark = ctx->caller.n_owned;
    begin(&r);
    const bool ok = (tpi_positions_note(ctx, &r.begins) || give_up(&r, at, "out of memory")) &&
                    run(&r, n_out, out) && (may_commit(&r) || give_up(&r, at, "out of memory"));
    if (!ok)
        tpi_positions_back(ctx, &r.begins);
    tpi_positions_free(ctx, &r.begins);
    if (ok) {
        commit(&r);
        w->f->pure.combined = w->f->pure.combined || !tpi_flow_recorded(w, r.way);
    }
    if (w->blocks->n_phi_regs)
        let_go(&r);
    if (ok)
        return true;
    forget_assigned(&r);
    if (ctx->status != TP_OK)
        tpi_forget_error(ctx);
    tpi_drop_results(ctx, mark, n_out, out);
    w->f->pure.abandoned++;
    tpi_capture_log(w->f, r.why_at, "replay abandoned: %s", r.why);
    return false;
}

static tpi_flow *flow_to_run(tp_function *f, int n_in, tp_tensor *const *in, int n_out)
{
    tpi_flow *w = tpi_flow_find(f, n_in, in);
    return w && w->blocks && w->n_out == n_out && tpi_flow_same_tensors(w, in) ? w : NULL;
}

bool tpi_replay(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out,
                tp_tensor **out)
{
    tp_ctx *ctx = f->ctx;
    tpi_flow *w = flow_to_run(f, n_in, in, n_out);
    tpi_relaunch *k = w ? NULL : tpi_relaunch_find(f, n_in, in, n_out);
    if (!w && !k)
        return false;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    const bool ok =
        w ? replay_in(w, at, in, n_out, out) : tpi_relaunch_call(k, at, in, n_out, out);
    tpi_error_back(ctx, &earlier);
    f->pure.replays += ok;
    if (!w)
        return ok;
    if (ok && w->replays++ == 0)
        tpi_capture_log(f, at, "replay begins: %d blocks, %d joins, %d loops", w->blocks->n,
                        w->n_joins, w->n_loops);
    w->calm += ok;
    return ok;
}

/* ---- a replay to be compared ------------------------------------------------------------- */

void tpi_dry_free(tp_ctx *ctx, tpi_dry *d)
{
    if (!d)
        return;
    tpi_mem *m = &ctx->mem;
    for (int i = 0; i < d->n_out && d->results; i++)
        tpi_give_back(m, d->results[i], d->results[i] ? d->bytes[i] : 0);
    const size_t n = (size_t)d->w->n_externs;
    for (size_t i = 0; i < n && d->assigned; i++)
        tpi_give_back(m, d->assigned[i],
                      d->assigned[i] ? tpi_bytes(d->w->externs[i].tensor) : 0);
    tpi_give_back(m, d->results, (size_t)d->n_out * sizeof *d->results);
    tpi_give_back(m, d->bytes, (size_t)d->n_out * sizeof *d->bytes);
    tpi_give_back(m, d->assigned, n * sizeof *d->assigned);
    tpi_give_back(m, d->blocks, (size_t)d->blocks_size * sizeof *d->blocks);
    tpi_give_back(m, d, sizeof *d);
}

static char *copy_bytes(const replay *r, const void *from, size_t bytes)
{
    char *v = tpi_take(&r->ctx->mem, bytes);
    r->dry->failed |= !v;
    return v ? memcpy(v, from, bytes) : NULL;
}

/* What the call would give, and write. */
static void note_results(const replay *r, tp_tensor *const *out)
{
    tpi_dry *d = r->dry;
    for (int i = 0; i < d->n_out && !d->failed; i++) {
        d->bytes[i] = tpi_bytes(out[i]);
        for (int k = 0; k < r->w->n_externs; k++)
            if (r->bs->regs[k].header == out[i])
                d->bytes[i] = 0;
        if (d->bytes[i])
            d->results[i] = copy_bytes(r, out[i]->data, d->bytes[i]);
    }
    for (int i = 0; i < r->w->n_externs && !d->failed; i++)
        if (r->bs->regs[i].dirty)
            d->assigned[i] = copy_bytes(r, r->bs->regs[i].data, r->bs->regs[i].bytes);
}

static tpi_dry *new_dry(tpi_flow *w, int n_out)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_dry *d = tpi_take(m, sizeof *d);
    if (!d)
        return NULL;
    *d = (tpi_dry){.w = w, .n_out = n_out};
    const size_t n = (size_t)n_out, k = (size_t)w->n_externs;
    d->results = tpi_take(m, n * sizeof *d->results);
    d->bytes = tpi_take(m, n * sizeof *d->bytes);
    d->assigned = tpi_take(m, k * sizeof *d->assigned);
    if (d->results)
        memset(d->results, 0, n * sizeof *d->results);
    if (d->assigned)
        memset(d->assigned, 0, k * sizeof *d->assigned);
    if (d->results && d->bytes && d->assigned)
        return d;
    tpi_dry_free(w->ctx, d);
    return NULL;
}

tpi_dry *tpi_replay_dry(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in, int n_out)
{
    tp_ctx *ctx = f->ctx;
    tpi_flow *w = flow_to_run(f, n_in, in, n_out);
    const size_t bytes = (size_t)n_out * sizeof(tp_tensor *);
    tp_tensor **out = w ? tpi_take(&ctx->mem, bytes) : NULL;
    tpi_dry *d = out ? new_dry(w, n_out) : NULL;
    if (d) {
        tpi_aside earlier;
        tpi_error_aside(ctx, &earlier);
        replay r = replay_of(w, at, in);
        r.dry = d;
        const int32_t mark = ctx->caller.n_owned;
        memset(out, 0, bytes);
        begin(&r);
        d->failed |= !tpi_positions_note(ctx, &r.begins) || !run(&r, n_out, out);
        tpi_positions_back(ctx, &r.begins);
        tpi_positions_free(ctx, &r.begins);
        if (!d->failed)
            note_results(&r, out);
        forget_assigned(&r);
        if (w->blocks->n_phi_regs)
            let_go(&r);
        tpi_drop_results(ctx, mark, n_out, out);
        tpi_forget_error(ctx);
        tpi_error_back(ctx, &earlier);
    }
    tpi_give_back(&ctx->mem, out, out ? bytes : 0);
    if (!d || !d->failed)
        return d;
    tpi_dry_free(ctx, d);
    return NULL;
}
