/* Basic blocks: which nodes make one, what goes in and out, and their programs. */
#include "capture/replay/blocks.h"

#include "capture/run/step_nodes.h"
#include "op/random_position.h"

#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static void free_block(tpi_mem *m, tpi_basic_block *b)
{
    tpi_give_back(m, b->nodes, (size_t)b->nodes_size * sizeof *b->nodes);
    tpi_give_back(m, b->in, (size_t)b->in_size * sizeof *b->in);
    tpi_give_back(m, b->out, (size_t)b->n_out * sizeof *b->out);
    tpi_give_back(m, b->moves, (size_t)b->moves_size * sizeof *b->moves);
    tpi_give_back(m, b->ends, (size_t)b->n_ends * sizeof *b->ends);
    tpi_give_back(m, b->edges, (size_t)b->n_edges * sizeof *b->edges);
    tpi_give_back(m, b->sets, (size_t)b->sets_size * sizeof *b->sets);
}

void tpi_basic_blocks_free(tpi_flow *w)
{
    tpi_basic_blocks *bs = w->blocks;
    tpi_mem *m = &w->ctx->mem;
    if (!bs)
        return;
    for (int i = 0; i < bs->n; i++)
        free_block(m, &bs->v[i]);
    for (int i = 0; i < bs->n_regs; i++) {
        tpi_reg *r = &bs->regs[i];
        tpi_buf_unref(w->ctx, r->buf);
        if (r->ext < 0 && r->header) {
            r->header->buf = NULL;
            tpi_unref(r->header);
        }
    }
    tpi_give_back(m, bs->held, (size_t)bs->most_sets * sizeof *bs->held);
    tpi_give_back(m, bs->v, (size_t)bs->n * sizeof *bs->v);
    tpi_give_back(m, bs->regs, (size_t)bs->n_regs * sizeof *bs->regs);
    tpi_give_back(m, bs->open, (size_t)bs->n_words * sizeof *bs->open);
    tpi_give_back(m, bs->node_reg, (size_t)bs->nodes_size * sizeof *bs->node_reg);
    tpi_give_back(m, bs, sizeof *bs);
    w->blocks = NULL;
}

/* ---- which nodes ------------------------------------------------------------------------- */

static bool add_to_block(tpi_mem *m, tpi_basic_block *b, int node)
{
    int32_t *v = tpi_grow(m, b->nodes, b->n_nodes, &b->nodes_size, sizeof *v);
    if (!v)
        return false;
    b->nodes = v;
    v[b->n_nodes++] = node;
    return true;
}

/* Cuts the nodes into blocks. */
static bool cut(tpi_flow *w, tpi_basic_blocks *bs)
{
    tpi_mem *m = &w->ctx->mem;
    int n = 0;
    for (int i = 1; i < w->n_nodes; i++)
        n += w->nodes[i].starts;
    bs->v = tpi_take(m, (size_t)n * sizeof *bs->v);
    if (!bs->v)
        return false;
    memset(bs->v, 0, (size_t)n * sizeof *bs->v);
    bs->n = n;
    n = 0;
    for (int i = 1; i < w->n_nodes; i++) {
        if (!w->nodes[i].starts)
            continue;
        tpi_basic_block *b = &bs->v[n];
        b->loops = w->nodes[i].loops;
        b->limit = w->nodes[i].limit;
        for (int at = i;;) {
            tpi_node *t = &w->nodes[at];
            t->block = n;
            t->place = b->n_nodes;
            if (!add_to_block(m, b, at))
                return false;
            if (t->kind == TPI_STEP_LOOK || t->kind == TPI_STEP_RETURN ||
                w->nodes[t->edges[0].to].starts)
                break;
            at = t->edges[0].to;
        }
        n++;
    }
    return true;
}

static bool find_blocks(tpi_flow *w, tpi_basic_blocks *bs)
{
    const bool ok = cut(w, bs);
    for (int i = 0; i < bs->n && ok; i++) {
        tpi_basic_block *b = &bs->v[i];
        const tpi_node *last = &w->nodes[b->nodes[b->n_nodes - 1]];
        b->edges = tpi_take(&w->ctx->mem, (size_t)last->n_edges * sizeof *b->edges);
        if (!b->edges)
            return false;
        b->n_edges = last->n_edges;
        for (int k = 0; k < b->n_edges; k++) {
            b->edges[k] = last->edges[k];
            b->edges[k].to = w->nodes[last->edges[k].to].block;
        }
    }
    return ok;
}

/* ---- registers --------------------------------------------------------------------------- */

/* Of this type and sizes; it holds nothing between runs. */
static bool give_header(tpi_flow *w, tpi_reg *r, tpi_at at, tpi_value_form f)
{
    tp_tensor *t = tpi_tensor(w->ctx, at, (tp_dtype)f.dtype, f.rank, f.shape);
    if (!t)
        return false;
    tpi_set_strides(t);
    tpi_disown(t);
    r->header = t;
    r->bytes = tpi_bytes(t);
    return true;
}

/* What the phi is when a call begins: an extern; -1: none. */
static int32_t init_of(const tpi_phi *p)
{
    for (int i = 0; i < p->n_sets; i++)
        if (p->sets[i].node == TPI_ENTRY_NODE && p->sets[i].from.kind == TPI_SOURCE_EXTERN)
            return p->sets[i].from.n;
    return -1;
}

static bool make_regs(tpi_flow *w, tpi_basic_blocks *bs)
{
    tpi_mem *m = &w->ctx->mem;
    int ops = 0;
    for (int i = 0; i < w->n_nodes; i++)
        ops += w->nodes[i].kind == TPI_STEP_OP;
    const size_t all = (size_t)(w->n_externs + w->n_phis + ops), nodes = (size_t)w->n_nodes;
    bs->first_phi = w->n_externs;
    bs->n_phi_regs = w->n_phis;
    bs->regs = tpi_take(m, all * sizeof *bs->regs);
    bs->node_reg = tpi_take(m, nodes * sizeof *bs->node_reg);
    bs->nodes_size = bs->node_reg ? w->n_nodes : 0;
    bs->n_regs = bs->regs ? (int32_t)all : 0;
    for (int i = 0; i < bs->n_regs; i++)
        bs->regs[i] = (tpi_reg){.ext = -1, .init = -1, .made = -1};
    if (!bs->regs || !bs->node_reg)
        return false;
    for (int i = 0; i < w->n_externs; i++) {
        bs->regs[i].ext = i;
        bs->regs[i].header = w->externs[i].tensor;
        bs->regs[i].bytes = tpi_bytes(w->externs[i].tensor);
    }
    int at = w->n_externs;
    for (int i = 0; i < w->n_phis; i++, at++) {
        tpi_phi *p = &w->phis[i];
        const tpi_node *n = &w->nodes[p->node];
        p->reg = at;
        bs->regs[at].init = init_of(p);
        if (!give_header(w, &bs->regs[at], n->at, tpi_flow_operand_form(w, n, p->k)))
            return false;
    }
    for (int i = 0; i < w->n_nodes; i++) {
        bs->node_reg[i] = -1;
        if (w->nodes[i].kind == TPI_STEP_OP)
            bs->node_reg[i] = at++;
    }
    return true;
}

/* ---- one block --------------------------------------------------------------------------- */

/* While its nodes are gone through: what registers will hold. */
typedef struct making {
    tpi_flow *w;
    tpi_basic_blocks *bs;
    tpi_basic_block *b;
    int32_t *now; /* by register: itself (as it was before), another one, or ~place of a node */
    int32_t *touched; /* registers that changed */
    int32_t n_touched;
    int32_t *out_of; /* by place: the output; -1 */
    uint64_t *reads; /* by place: as of tpi_output */
} making;

static void touch(making *k, int reg, int32_t value)
{
    if (k->now[reg] == reg)
        k->touched[k->n_touched++] = reg;
    k->now[reg] = value;
}

/* What an operand is: a register as it was before the block, or ~place. */
static int32_t resolve(const making *k, tpi_source s)
{
    return k->now[tpi_block_reg(k->bs, k->w, s)];
}

/* A port for the register; -1: memory is out. */
static int32_t add_port(making *k, int reg)
{
    tpi_basic_block *b = k->b;
    for (int i = 0; i < b->n_in; i++)
        if (b->in[i] == reg)
            return i;
    int32_t *v = tpi_grow(&k->w->ctx->mem, b->in, b->n_in, &b->in_size, sizeof *v);
    if (!v)
        return -1;
    b->in = v;
    v[b->n_in] = reg;
    return b->n_in++;
}

static bool is_constant(const making *k, int32_t value)
{
    return value >= 0 && value < k->w->n_externs && k->w->externs[value].from == TPI_FROM_MADE;
}

static int32_t want_output(making *k, int place)
{
    if (k->out_of[place] < 0)
        k->out_of[place] = k->b->n_out++;
    return k->out_of[place];
}

/* A port or ~output for something that is read when the program has run. */
static bool end_of(making *k, int32_t value, int32_t *end)
{
    if (value < 0) {
        *end = ~want_output(k, ~value);
        return true;
    }
    *end = add_port(k, value);
    return *end >= 0;
}

static bool add_ends(making *k, int node)
{
    const tpi_node *n = &k->w->nodes[node];
    tpi_basic_block *b = k->b;
    if (n->kind != TPI_STEP_LOOK && n->kind != TPI_STEP_RETURN)
        return true;
    b->ends = tpi_take(&k->w->ctx->mem, (size_t)n->n_in * sizeof *b->ends);
    if (!b->ends)
        return false;
    b->n_ends = n->n_in;
    for (int i = 0; i < n->n_in; i++) {
        const tpi_source s = n->in[i].source;
        const bool itself = n->kind == TPI_STEP_RETURN && s.kind == TPI_SOURCE_EXTERN;
        if (!end_of(k, itself ? s.n : resolve(k, s), &b->ends[i]))
            return false;
    }
    return true;
}

/* The ports of an op's operands, and what its gradient would be asked of. */
static bool read_operands(making *k, const tpi_node *n, int place)
{
    uint64_t reads = 0;
    for (int i = 0; i < n->n_in; i++) {
        const int32_t value = resolve(k, n->in[i].source);
        if (value < 0)
            reads |= k->reads[~value];
        if (value < 0 || is_constant(k, value))
            continue;
        const int port = add_port(k, value);
        if (port < 0)
            return false;
        reads |= UINT64_C(1) << (port < 63 ? port : 63);
    }
    k->reads[place] = n->op->grad && n->dtype >= TP_F32 && !n->item->requires ? reads : 0;
    return true;
}

static bool go_through(making *k)
{
    const tpi_basic_block *b = k->b;
    for (int place = 0; place < b->n_nodes; place++) {
        const int node = b->nodes[place];
        const tpi_node *n = &k->w->nodes[node];
        if (n->kind == TPI_STEP_ASSIGN) {
            const int32_t value = resolve(k, n->in[1].source);
            touch(k, n->in[0].source.n, value);
            if (value >= 0 && add_port(k, value) < 0)
                return false;
            continue;
        }
        if (n->kind == TPI_STEP_OP && !read_operands(k, n, place))
            return false;
        if (n->kind == TPI_STEP_OP)
            touch(k, k->bs->node_reg[node], ~place);
        if (n->crosses)
            want_output(k, place);
    }
    k->b->n_feeds = k->b->n_in;
    return add_ends(k, b->nodes[b->n_nodes - 1]);
}

/* Externs that are assigned. */
static bool add_moves(making *k)
{
    tpi_basic_block *b = k->b;
    b->moves = tpi_take(&k->w->ctx->mem, (size_t)k->n_touched * sizeof *b->moves);
    b->moves_size = b->moves ? k->n_touched : 0;
    for (int i = 0; i < k->n_touched && b->moves; i++) {
        tpi_move *x = &b->moves[b->n_moves];
        x->to = k->touched[i];
        if (k->bs->regs[x->to].ext < 0)
            continue;
        b->n_moves++;
        if (!end_of(k, k->now[x->to], &x->from))
            return false;
    }
    return b->moves;
}

static bool add_outputs(making *k)
{
    tpi_basic_block *b = k->b;
    b->out = tpi_take(&k->w->ctx->mem, (size_t)b->n_out * sizeof *b->out);
    if (!b->out) {
        b->n_out = 0;
        return false;
    }
    for (int place = 0; place < b->n_nodes; place++) {
        const int i = k->out_of[place];
        if (i < 0)
            continue;
        const int reg = k->bs->node_reg[b->nodes[place]];
        const tpi_node *n = &k->w->nodes[b->nodes[place]];
        b->out[i] = (tpi_output){.place = place, .reg = reg, .reads = k->reads[place]};
        if (!give_header(k->w, &k->bs->regs[reg], n->at,
                         (tpi_value_form){n->dtype, n->rank, n->item->shape}))
            return false;
    }
    return true;
}

static bool make_block(making *k)
{
    tpi_basic_block *b = k->b;
    for (int i = 0; i < b->n_nodes; i++)
        k->out_of[i] = -1;
    const bool ok = go_through(k) && add_moves(k) && add_outputs(k);
    for (int i = 0; i < k->n_touched; i++)
        k->now[k->touched[i]] = k->touched[i];
    k->n_touched = 0;
    return ok;
}

/* ---- their programs ---------------------------------------------------------------------- */

typedef struct graphing {
    making *k;
    const tpi_node *node; /* whose operands are looked for */
    tp_graph *g;
    tp_tensor **feeds, **nodes;
} graphing;

static tp_tensor *operand_node(const graphing *q, int32_t value)
{
    const making *k = q->k;
    if (value < 0)
        return q->nodes[~value];
    if (is_constant(k, value))
        return tpi_graph_lift(q->g, TPI_AT(NULL, 0), k->w->externs[value].tensor);
    for (int i = 0; i < k->b->n_feeds; i++)
        if (k->b->in[i] == value)
            return q->feeds[i];
    return NULL;
}

static tp_tensor *operand_of(void *user, int i)
{
    const graphing *q = user;
    return operand_node(q, resolve(q->k, q->node->in[i].source));
}

static bool add_graph(graphing *q)
{
    making *k = q->k;
    tpi_basic_block *b = k->b;
    b->n_random = 0;
    for (int i = 0; i < b->n_feeds; i++) {
        const tp_tensor *h = k->bs->regs[b->in[i]].header;
        q->feeds[i] = tpi_program_input(q->g, i, (tp_dtype)h->dtype, h->rank, h->shape);
        if (q->feeds[i]->status != TP_OK)
            return false;
    }
    for (int place = 0; place < b->n_nodes; place++) {
        const int node = b->nodes[place];
        const tpi_node *n = &k->w->nodes[node];
        if (n->kind == TPI_STEP_ASSIGN)
            touch(k, n->in[0].source.n, resolve(k, n->in[1].source));
        if (n->kind != TPI_STEP_OP)
            continue;
        q->node = n;
        const tp_tensor *y = q->nodes[place] =
            tpi_step_node(q->g, n->at, n->op, n->attrs, n->n_in, operand_of, q, b->n_random);
        b->n_random += tpi_is_draw(n->op);
        if (!y || y->status != TP_OK || y->dtype != n->dtype || y->rank != n->rank ||
            memcmp(y->shape, n->item->shape, sizeof(int64_t) * n->rank) != 0)
            return false;
        touch(k, k->bs->node_reg[node], ~place);
    }
    bool ok = true;
    for (int i = 0; i < b->n_out && ok; i++)
        ok = tpi_program_output(q->g, i, q->nodes[b->out[i].place]);
    for (int i = 0; i < k->n_touched; i++)
        k->now[k->touched[i]] = k->touched[i];
    k->n_touched = 0;
    return ok;
}

static bool make_program(making *k)
{
    tpi_basic_block *b = k->b;
    tp_ctx *ctx = k->w->ctx;
    if (b->n_out == 0)
        return true;
    const size_t feeds = (size_t)b->n_feeds * sizeof(tp_tensor *),
                 nodes = (size_t)b->n_nodes * sizeof(tp_tensor *);
    graphing q = {.k = k, .g = tp_graph_new(ctx)};
    q.feeds = tpi_take(&ctx->mem, feeds);
    q.nodes = tpi_take(&ctx->mem, nodes);
    if (q.g && q.feeds && q.nodes && tp_scope_begin(ctx) == TP_OK) {
        if (add_graph(&q))
            b->program = tpi_shared_for(k->w->f, q.g, k->w->nodes[b->nodes[0]].at, b->n_feeds,
                                        b->n_out, true);
        tp_scope_end(ctx);
    }
    tpi_give_back(&ctx->mem, q.feeds, feeds);
    tpi_give_back(&ctx->mem, q.nodes, nodes);
    tp_graph_free(q.g);
    return b->program && b->program->program;
}

/* ---- all of them ------------------------------------------------------------------------- */

/* What phis become on the edges of blocks. */
static bool add_sets(tpi_flow *w, tpi_basic_blocks *bs)
{
    for (int i = 0; i < w->n_phis; i++)
        for (int k = 0; k < w->phis[i].n_sets; k++) {
            const tpi_set *s = &w->phis[i].sets[k];
            if (s->node == TPI_ENTRY_NODE)
                continue;
            tpi_basic_block *b = &bs->v[w->nodes[s->node].block];
            tpi_edge_move *v =
                tpi_grow(&w->ctx->mem, b->sets, b->n_sets, &b->sets_size, sizeof *v);
            if (!v)
                return false;
            b->sets = v;
            v[b->n_sets++] =
                (tpi_edge_move){s->edge, w->phis[i].reg, tpi_block_reg(bs, w, s->from),
                                s->after < 0 ? -1 : w->nodes[s->after].block, s->made};
            bs->most_sets = b->n_sets > bs->most_sets ? b->n_sets : bs->most_sets;
        }
    bs->held = tpi_take(&w->ctx->mem, (size_t)bs->most_sets * sizeof *bs->held);
    bs->open = tpi_take(&w->ctx->mem, (size_t)w->n_words * sizeof *bs->open);
    bs->n_words = bs->open ? w->n_words : 0;
    return bs->held && bs->open;
}

static bool make_all(making *k)
{
    for (int i = 0; i < k->bs->n; i++) {
        k->b = &k->bs->v[i];
        if (!make_block(k))
            return false;
    }
    return add_sets(k->w, k->bs);
}

static bool give_up(tpi_flow *w, const tpi_basic_block *b, tpi_why why)
{
    w->why = why;
    w->why_at = w->nodes[b->nodes[0]].at;
    return false;
}

static bool make(tpi_flow *w, tpi_basic_blocks *bs)
{
    tpi_mem *m = &w->ctx->mem;
    if (!find_blocks(w, bs) || !make_regs(w, bs))
        return false;
    int longest = 0;
    for (int i = 0; i < bs->n; i++)
        longest = bs->v[i].n_nodes > longest ? bs->v[i].n_nodes : longest;
    const size_t regs = (size_t)bs->n_regs * sizeof(int32_t),
                 places = (size_t)longest * sizeof(int32_t);
    making k = {.w = w, .bs = bs};
    k.now = tpi_take(m, regs);
    k.touched = tpi_take(m, regs);
    k.out_of = tpi_take(m, places);
    k.reads = tpi_take(m, 2 * places);
    bool ok = k.now && k.touched && k.out_of && k.reads;
    for (int i = 0; i < bs->n_regs && ok; i++)
        k.now[i] = i;
    ok = ok && make_all(&k);
    for (int i = 0; i < bs->n && ok; i++) {
        k.b = &bs->v[i];
        ok = make_program(&k) || give_up(w, k.b, TPI_WHY_program);
    }
    tpi_give_back(m, k.now, regs);
    tpi_give_back(m, k.touched, regs);
    tpi_give_back(m, k.out_of, places);
    tpi_give_back(m, k.reads, 2 * places);
    return ok;
}

void tpi_basic_blocks_limit(tpi_flow *w)
{
    for (int i = 0; i < w->blocks->n; i++)
        w->blocks->v[i].limit = w->nodes[w->blocks->v[i].nodes[0]].limit;
}

void tpi_basic_blocks_make(tpi_flow *w)
{
    tp_ctx *ctx = w->ctx;
    tpi_basic_blocks_free(w);
    w->why = TPI_WHY_memory;
    w->why_at = w->f->at;
    tpi_basic_blocks *bs = tpi_take(&ctx->mem, sizeof *bs);
    if (!bs)
        return;
    memset(bs, 0, sizeof *bs);
    w->blocks = bs;
    const bool recording = ctx->caller.recording;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    ctx->caller.recording = true;
    const bool ok = make(w, bs);
    ctx->caller.recording = recording;
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    if (!ok) {
        tpi_basic_blocks_free(w);
        return;
    }
    w->why = TPI_WHY_none;
    w->why_at = TPI_AT(NULL, 0);
}
