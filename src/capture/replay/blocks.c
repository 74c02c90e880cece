/* Basic blocks: which nodes make one, what goes in and out, and their programs. */
#include "capture/replay/blocks.h"

#include "op/random_position.h"

#include <stdio.h>
#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

static void free_block(tpi_mem *m, tpi_basic_block *b)
{
    for (int i = 0; i < b->n_in; i++) {
        const tpi_port *p = &b->in[i];
        tpi_give_back(m, p->doubts, (size_t)p->n_doubts * sizeof *p->doubts);
        tpi_give_back(m, p->rivals, (size_t)p->n_rivals * sizeof *p->rivals);
    }
    tpi_give_back(m, b->nodes, (size_t)b->nodes_size * sizeof *b->nodes);
    tpi_give_back(m, b->in, (size_t)b->in_size * sizeof *b->in);
    tpi_give_back(m, b->pointers, (size_t)b->n_feeds * sizeof *b->pointers);
    tpi_give_back(m, b->out, (size_t)b->n_out * sizeof *b->out);
    tpi_give_back(m, b->moves, (size_t)b->n_moves * sizeof *b->moves);
    tpi_give_back(m, b->ends, (size_t)b->n_ends * sizeof *b->ends);
    tpi_give_back(m, b->edges, (size_t)b->n_edges * sizeof *b->edges);
    tpi_give_back(m, b->sets, (size_t)b->n_sets * sizeof *b->sets);
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
    tpi_give_back(m, bs->v, (size_t)bs->n * sizeof *bs->v);
    tpi_give_back(m, bs->regs, (size_t)bs->n_regs * sizeof *bs->regs);
    tpi_give_back(m, bs->node_reg, (size_t)bs->nodes_size * sizeof *bs->node_reg);
    tpi_give_back(m, bs, sizeof *bs);
    w->blocks = NULL;
}

/* ---- which nodes ------------------------------------------------------------------------- */

static bool starts_block(const tpi_flow *w, int node, const int32_t *entries)
{
    return entries[node] != 1 || w->nodes[node].loops;
}

static bool add_to_block(tpi_mem *m, tpi_basic_block *b, int node)
{
    int32_t *v = tpi_grow(m, b->nodes, b->n_nodes, &b->nodes_size, sizeof *v);
    if (!v)
        return false;
    b->nodes = v;
    v[b->n_nodes++] = node;
    return true;
}

/* Cuts the nodes into blocks. entries[node]: edges that lead there. */
static bool cut(tpi_flow *w, tpi_basic_blocks *bs, const int32_t *entries)
{
    tpi_mem *m = &w->ctx->mem;
    int n = 0;
    for (int i = 1; i < w->n_nodes; i++)
        n += w->nodes[i].mark;
    bs->v = tpi_take(m, (size_t)n * sizeof *bs->v);
    if (!bs->v)
        return false;
    memset(bs->v, 0, (size_t)n * sizeof *bs->v);
    bs->n = n;
    n = 0;
    for (int i = 1; i < w->n_nodes; i++) {
        if (!w->nodes[i].mark)
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
                starts_block(w, t->edges[0].to, entries))
                break;
            at = t->edges[0].to;
        }
        n++;
    }
    return true;
}

static bool find_blocks(tpi_flow *w, tpi_basic_blocks *bs)
{
    const size_t bytes = (size_t)w->n_nodes * sizeof(int32_t);
    int32_t *entries = tpi_take(&w->ctx->mem, bytes);
    if (!entries)
        return false;
    memset(entries, 0, bytes);
    for (int i = 0; i < w->n_nodes; i++)
        for (int k = 0; k < w->nodes[i].n_edges; k++) {
            const bool look =
                w->nodes[i].kind == TPI_STEP_LOOK || w->nodes[i].kind == TPI_STEP_ENTRY;
            entries[w->nodes[i].edges[k].to] += look ? 2 : 1;
        }
    for (int i = 0; i < w->n_nodes; i++)
        w->nodes[i].mark = i > 0 && starts_block(w, i, entries);
    const bool ok = cut(w, bs, entries);
    tpi_give_back(&w->ctx->mem, entries, bytes);
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

static bool make_regs(tpi_flow *w, tpi_basic_blocks *bs)
{
    tpi_mem *m = &w->ctx->mem;
    int n = w->n_externs, ops = 0;
    for (int i = 0; i < w->n_vars; i++)
        n += 1 + w->vars[i].age;
    for (int i = 0; i < w->n_nodes; i++)
        ops += w->nodes[i].kind == TPI_STEP_OP;
    const size_t all = (size_t)(n + ops), nodes = (size_t)w->n_nodes;
    bs->regs = tpi_take(m, all * sizeof *bs->regs);
    bs->node_reg = tpi_take(m, nodes * sizeof *bs->node_reg);
    bs->nodes_size = bs->node_reg ? w->n_nodes : 0;
    if (!bs->regs || !bs->node_reg) {
        tpi_give_back(m, bs->regs, all * sizeof *bs->regs);
        bs->regs = NULL;
        return false;
    }
    bs->n_regs = (int32_t)all;
    for (int i = 0; i < bs->n_regs; i++)
        bs->regs[i] = (tpi_reg){.ext = -1, .init = -1, .node = -1, .made = -1};
    for (int i = 0; i < w->n_externs; i++) {
        bs->regs[i].ext = i;
        bs->regs[i].header = w->externs[i].tensor;
        bs->regs[i].bytes = tpi_bytes(w->externs[i].tensor);
    }
    int at = w->n_externs;
    for (int i = 0; i < w->n_vars; i++) {
        tpi_var *v = &w->vars[i];
        v->reg = at;
        for (int age = 0; age <= v->age; age++) { /* of age 1 the next one */
            bs->regs[at + age].node = v->makers[0];
            bs->regs[at + age].init = v->init[v->age - age];
        }
        at += 1 + v->age;
    }
    bs->n_var_regs = at - w->n_externs;
    for (int i = 0; i < w->n_nodes; i++) {
        bs->node_reg[i] = -1;
        if (w->nodes[i].kind != TPI_STEP_OP)
            continue;
        bs->regs[at].node = i;
        bs->node_reg[i] = at++;
    }
    return true;
}

/* Type and sizes, once it is known that a register is used. */
static bool give_header(tpi_flow *w, tpi_reg *r)
{
    if (r->header)
        return true;
    const tpi_node *n = &w->nodes[r->node];
    tp_tensor *t = tpi_tensor(w->ctx, n->at, (tp_dtype)n->dtype, n->rank, n->item->shape);
    if (!t)
        return false;
    tpi_set_strides(t);
    tpi_disown(t);
    r->header = t;
    r->bytes = tpi_bytes(t);
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
    bool final;      /* the second time: it is known which registers are used */
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
    const tpi_var *v;
    switch (s.kind) {
    case TPI_SOURCE_EXTERN:
        return k->now[s.n];
    case TPI_SOURCE_VAR:
        v = &k->w->vars[s.n];
        return k->now[v->reg + v->age];
    default:
        return k->now[k->bs->node_reg[s.n]];
    }
}

/* A node has run: it is the last one of its variables. */
static void ran(making *k, int node, int place)
{
    for (int i = 0; i < k->w->n_vars; i++) {
        const tpi_var *v = &k->w->vars[i];
        if (!tpi_var_follows(v, node))
            continue;
        if (v->age)
            touch(k, v->reg + 1, k->now[v->reg]);
        touch(k, v->reg, ~place);
    }
    touch(k, k->bs->node_reg[node], ~place);
}

/* A port for the register; hard when it has to have a value. */
static int32_t add_port(making *k, int reg, bool soft, int node, int operand)
{
    tpi_basic_block *b = k->b;
    k->bs->regs[reg].used = true;
    for (int i = 0; i < b->n_in; i++)
        if (b->in[i].reg == reg) {
            if (b->in[i].soft && !soft) {
                b->in[i].node = node;
                b->in[i].k = operand;
            }
            b->in[i].soft &= soft;
            return i;
        }
    tpi_port *v = tpi_grow(&k->w->ctx->mem, b->in, b->n_in, &b->in_size, sizeof *v);
    if (!v)
        return -1;
    b->in = v;
    v[b->n_in] = (tpi_port){.reg = reg, .alt = -1, .soft = soft, .node = node, .k = operand};
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
static bool end_of(making *k, int32_t value, bool soft, int node, int operand, int32_t *end)
{
    if (value < 0) {
        *end = ~want_output(k, ~value);
        return true;
    }
    *end = add_port(k, value, soft, node, operand);
    return *end >= 0;
}

static bool add_ends(making *k, int node)
{
    const tpi_node *n = &k->w->nodes[node];
    tpi_basic_block *b = k->b;
    if (n->kind != TPI_STEP_LOOK && n->kind != TPI_STEP_RETURN)
        return true;
    if (!b->ends)
        b->ends = tpi_take(&k->w->ctx->mem, (size_t)n->n_in * sizeof *b->ends);
    if (!b->ends)
        return false;
    b->n_ends = n->n_in;
    for (int i = 0; i < n->n_in; i++) {
        const tpi_source s = n->in[i].source;
        const bool itself = n->kind == TPI_STEP_RETURN && s.kind == TPI_SOURCE_EXTERN;
        if (!end_of(k, itself ? s.n : resolve(k, s), false, node, i, &b->ends[i]))
            return false;
    }
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
            if (value >= 0 && add_port(k, value, false, node, 1) < 0)
                return false;
            continue;
        }
        for (int i = 0; i < n->n_in && n->kind == TPI_STEP_OP; i++) {
            const int32_t value = resolve(k, n->in[i].source);
            if (value >= 0 && !is_constant(k, value) && add_port(k, value, false, node, i) < 0)
                return false;
        }
        if (n->kind == TPI_STEP_OP)
            ran(k, node, place);
    }
    k->b->n_feeds = k->b->n_in;
    return add_ends(k, b->nodes[b->n_nodes - 1]);
}

/* Has it changed for others, who read it, or as a variable? */
static bool moves(const making *k, int reg)
{
    return k->bs->regs[reg].used || k->bs->regs[reg].ext >= 0;
}

/* Registers that have changed and are read by others, or are assigned. */
static bool add_moves(making *k)
{
    tpi_basic_block *b = k->b;
    int n = 0;
    for (int i = 0; i < k->n_touched; i++)
        n += moves(k, k->touched[i]);
    b->moves = tpi_take(&k->w->ctx->mem, (size_t)n * sizeof *b->moves);
    if (!b->moves)
        return false;
    b->n_moves = n;
    n = 0;
    for (int i = 0; i < k->n_touched; i++) {
        const int reg = k->touched[i];
        if (!moves(k, reg))
            continue;
        b->moves[n].to = reg;
        if (!end_of(k, k->now[reg], k->bs->regs[reg].ext < 0, -1, 0, &b->moves[n++].from))
            return false;
    }
    return true;
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
        b->out[i] = (tpi_output){.place = place, .reg = reg, .reuse = true};
        for (int p = 0; p < b->n_in; p++)
            b->out[i].reuse &= b->in[p].reg != reg;
        if (!give_header(k->w, &k->bs->regs[reg]))
            return false;
    }
    return true;
}

static bool make_block(making *k)
{
    tpi_basic_block *b = k->b;
    b->n_in = b->n_feeds = b->n_out = 0;
    for (int i = 0; i < b->n_nodes; i++)
        k->out_of[i] = -1;
    bool ok = go_through(k);
    if (ok && k->final)
        ok = add_moves(k) && add_outputs(k);
    for (int i = 0; i < b->n_in && ok; i++)
        ok = give_header(k->w, &k->bs->regs[b->in[i].reg]);
    for (int i = 0; i < k->n_touched; i++)
        k->now[k->touched[i]] = k->touched[i];
    k->n_touched = 0;
    return ok;
}

/* ---- their programs ---------------------------------------------------------------------- */

typedef struct graphing {
    making *k;
    tp_graph *g;
    tp_tensor **feeds, **nodes;
} graphing;

static tp_tensor *operand_node(graphing *q, int32_t value)
{
    const making *k = q->k;
    if (value < 0)
        return q->nodes[~value];
    if (is_constant(k, value))
        return tpi_graph_lift(q->g, TPI_AT(NULL, 0), k->w->externs[value].tensor);
    for (int i = 0; i < k->b->n_feeds; i++)
        if (k->b->in[i].reg == value)
            return q->feeds[i];
    return NULL;
}

static tp_tensor *op_node(graphing *q, int place)
{
    enum { FEW = 32 };
    making *k = q->k;
    tp_ctx *ctx = k->w->ctx;
    const tpi_node *n = &k->w->nodes[k->b->nodes[place]];
    tp_tensor *few[FEW], **in = few, *y = NULL;
    if (tpi_is_draw(n->op)) {
        tpi_random_attrs r = *(const tpi_random_attrs *)n->attrs;
        r.seed = 0;
        r.at = -1 - k->b->n_random++;
        return tpi_graph_node(q->g, n->at, n->op, 0, NULL, &r, (tp_dtype)r.dtype,
                              (int)r.shape.n, r.shape.v);
    }
    if (n->n_in > FEW)
        in = tpi_take(&ctx->mem, (size_t)n->n_in * sizeof *in);
    bool ok = in;
    for (int i = 0; i < n->n_in && ok; i++) {
        in[i] = operand_node(q, resolve(k, n->in[i].source));
        ok = in[i];
    }
    if (ok)
        y = tpi_apply(n->at, n->op, n->n_in, in, n->attrs);
    if (in != few)
        tpi_give_back(&ctx->mem, in, (size_t)n->n_in * sizeof *in);
    return y;
}

static bool name_output(graphing *q, int i)
{
    char name[24];
    tp_tensor *y = q->nodes[q->k->b->out[i].place];
    snprintf(name, sizeof name, "o%d", i);
    if (y->name)
        y = tpi_apply(TPI_AT(y->file, y->line), &tpi_op_copy, 1, &y, NULL);
    return y->status == TP_OK && tpi_graph_name(q->g, y, name) == TP_OK;
}

static bool add_graph(graphing *q)
{
    making *k = q->k;
    tpi_basic_block *b = k->b;
    char name[24];
    b->n_random = 0;
    for (int i = 0; i < b->n_feeds; i++) {
        const tp_tensor *h = k->bs->regs[b->in[i].reg].header;
        snprintf(name, sizeof name, "i%d", i);
        q->feeds[i] = tp_placeholder(q->g, name, (tp_dtype)h->dtype, h->rank, h->shape);
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
        const tp_tensor *y = q->nodes[place] = op_node(q, place);
        if (!y || y->status != TP_OK || y->dtype != n->dtype || y->rank != n->rank ||
            memcmp(y->shape, n->item->shape, sizeof(int64_t) * n->rank) != 0)
            return false;
        ran(k, node, place);
    }
    bool ok = true;
    for (int i = 0; i < b->n_out && ok; i++)
        ok = name_output(q, i);
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
    b->pointers = tpi_take(&ctx->mem, (size_t)b->n_feeds * sizeof *b->pointers);
    if (q.g && q.feeds && q.nodes && b->pointers && tp_scope_begin(ctx) == TP_OK) {
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

static int32_t reg_of(const tpi_flow *w, const tpi_basic_blocks *bs, tpi_source s)
{
    return s.kind == TPI_SOURCE_EXTERN ? s.n
           : s.kind == TPI_SOURCE_NODE ? bs->node_reg[s.n]
                                       : w->vars[s.n].reg;
}

/* What a variable is set to on the edges of looks. */
static bool add_sets(tpi_flow *w, tpi_basic_blocks *bs)
{
    for (int i = 0; i < w->n_vars; i++)
        for (int k = 0; k < w->vars[i].n_sets && bs->regs[w->vars[i].reg].used; k++) {
            const tpi_set *s = &w->vars[i].sets[k];
            tpi_basic_block *b = &bs->v[w->nodes[s->node].block];
            tpi_edge_move *v = tpi_resize(&w->ctx->mem, b->sets, (size_t)b->n_sets * sizeof *v,
                                          (size_t)(b->n_sets + 1) * sizeof *v);
            if (!v)
                return false;
            b->sets = v;
            const int32_t from = reg_of(w, bs, s->from);
            v[b->n_sets++] = (tpi_edge_move){s->edge, w->vars[i].reg, from};
            bs->regs[from].used = true;
            if (!give_header(w, &bs->regs[from]))
                return false;
        }
    return true;
}

/* What stands in for a port is used too, and so is what a variable of age 1 gets its value from. */
static bool use_others(making *k)
{
    for (int i = 0; i < k->bs->n; i++) {
        const tpi_basic_block *b = &k->bs->v[i];
        for (int p = 0; p < b->n_in; p++) {
            if (!tpi_may_doubt(k->w, k->bs, &b->in[p]))
                continue;
            for (int v = 0; v < k->w->n_vars; v++)
                if (tpi_is_rival(k->w, &b->in[p], v)) {
                    tpi_reg *r = &k->bs->regs[k->w->vars[v].reg];
                    r->used = true;
                    if (!give_header(k->w, r))
                        return false;
                }
            const int alt = tpi_find_alt(k->w, b->in[p].node, b->in[p].k);
            if (alt < 0)
                continue;
            k->bs->regs[alt].used = true;
            if (!give_header(k->w, &k->bs->regs[alt]))
                return false;
        }
    }
    for (int i = 0; i < k->w->n_vars; i++) {
        const tpi_var *v = &k->w->vars[i];
        if (v->age && k->bs->regs[v->reg + 1].used)
            k->bs->regs[v->reg].used = true;
    }
    return add_sets(k->w, k->bs);
}

static bool make_all(making *k)
{
    tpi_basic_blocks *bs = k->bs;
    for (int pass = 0; pass < 2; pass++) {
        k->final = pass == 1;
        for (int i = 0; i < bs->n; i++) {
            k->b = &bs->v[i];
            if (!make_block(k))
                return false;
        }
        if (pass == 0 && !use_others(k))
            return false;
    }
    for (int i = 0; i < bs->n; i++)
        for (int p = 0; p < bs->v[i].n_in; p++)
            if (!tpi_doubt_port(k->w, bs, &bs->v[i].in[p]))
                return false;
    return true;
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
    if (!find_blocks(w, bs))
        return false;
    if (bs->n > TPI_MAX_BLOCKS)
        return give_up(w, &bs->v[TPI_MAX_BLOCKS], TPI_WHY_length);
    if (!make_regs(w, bs))
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
    bool ok = k.now && k.touched && k.out_of;
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
    const bool recording = ctx->recording;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    ctx->recording = true;
    const bool ok = make(w, bs);
    ctx->recording = recording;
    tpi_forget_error(ctx);
    tpi_error_back(ctx, &earlier);
    if (!ok) {
        tpi_basic_blocks_free(w);
        return;
    }
    w->why = TPI_WHY_none;
    w->why_at = TPI_AT(NULL, 0);
}
