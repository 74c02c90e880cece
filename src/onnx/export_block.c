/* Blocks: cond leaves as If, loop as Loop. Bodies read what is around them by its name. Slices are
 * gathered, and the results of turns from the last to the first are turned around: Scan, which
 * could say both, is not run without turns, and knows no number of its turn. */
#include "core/dim.h"
#include "ir/body.h"
#include "onnx/emit.h"

#include <string.h>

/* ---- bodies ------------------------------------------------------------------------------------ */

/* What is kept of the graph around while its body is said. */
typedef struct around {
    tp_graph *g;
    tpi_val *value_of;
    int32_t *mark, *needed;
    int64_t *place;
    int32_t n_graph;
    const tp_tensor *node;
    int64_t drawn;
    tpi_val drawn_from;
} around;

static bool enter(tpi_export *x, const tpi_body *b, around *was)
{
    tpi_mem *mem = &x->ctx->mem;
    *was = (around){x->g,       x->value_of, x->mark,  x->needed,    x->place,
                    x->n_graph, x->node,     x->drawn, x->drawn_from};
    if (x->depth == TPI_EXPORT_DEEPEST) {
        tpi_export_refuse(x, "blocks lie in blocks more than %d deep, more than files can hold",
                          TPI_EXPORT_DEEPEST);
        return false;
    }
    const size_t n = (size_t)b->graph->n_nodes;
    tpi_val *value_of = tpi_take(mem, n * sizeof *value_of);
    int32_t *mark = tpi_take(mem, n * sizeof *mark),
            *needed = tpi_take(mem, n * sizeof *needed);
    int64_t *place = tpi_take(mem, n * sizeof *place);
    if (!value_of || !mark || !needed || !place) {
        tpi_give_back(mem, value_of, n * sizeof *value_of);
        tpi_give_back(mem, mark, n * sizeof *mark);
        tpi_give_back(mem, needed, n * sizeof *needed);
        tpi_give_back(mem, place, n * sizeof *place);
        tpi_export_no_memory(x);
        return false;
    }
    memset(value_of, 0, n * sizeof *value_of);
    for (size_t i = 0; i < n; i++)
        place[i] = -1;
    x->g = b->graph;
    x->value_of = value_of;
    x->mark = mark;
    x->needed = needed;
    x->place = place;
    x->n_graph = (int32_t)n;
    x->depth++;
    return true;
}

static void leave(tpi_export *x, const around *was)
{
    tpi_mem *mem = &x->ctx->mem;
    const size_t n = (size_t)x->n_graph;
    tpi_give_back(mem, x->value_of, n * sizeof *x->value_of);
    tpi_give_back(mem, x->mark, n * sizeof *x->mark);
    tpi_give_back(mem, x->needed, n * sizeof *x->needed);
    tpi_give_back(mem, x->place, n * sizeof *x->place);
    x->g = was->g;
    x->value_of = was->value_of;
    x->mark = was->mark;
    x->needed = was->needed;
    x->place = was->place;
    x->n_graph = was->n_graph;
    x->node = was->node;
    x->depth--;
}

/* A value that the open block gives as its next output: computed in it, and no other output. */
static tpi_val own_output(tpi_export *x, tpi_val v, int n, const tpi_val *before)
{
    const tpi_out_block *b = &x->blocks[x->block];
    bool own = v && x->values[v].block == x->block;
    for (int i = 0; i < b->n_inputs && own; i++)
        own = x->operands[b->inputs + i] != v;
    for (int i = 0; i < n && own; i++)
        own = before[i] != v;
    if (own)
        return v;
    const tpi_val y = tpi_put(x, "Identity", TPI_V(v));
    if (y)
        x->values[y].node = x->values[v].node;
    return y;
}

/* Are numbers drawn in it? */
static bool draws(const tpi_body *b)
{
    bool any = false;
    for (int i = 0; i < b->graph->n_nodes && !any; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        tpi_body *inner[2];
        any = t->op->code == TPI_OP_random;
        for (int k = tpi_is_block(t) ? tpi_bodies_of(t, inner) : 0; k-- > 0 && !any;)
            any = draws(inner[k]);
    }
    return any;
}

/* ---- outputs ------------------------------------------------------------------------------------- */

/* The outputs of a block, by index: which are asked for, and their values. */
typedef struct ports {
    int n;
    bool *used;
    tpi_val *value;
} ports;

static bool ports_begin(tpi_export *x, const tp_tensor *t, ports *p)
{
    tpi_mem *mem = &x->ctx->mem;
    const size_t n = (size_t)tpi_n_outputs_of(t);
    *p = (ports){(int)n, tpi_take(mem, n * sizeof *p->used),
                 tpi_take(mem, n * sizeof *p->value)};
    if (!p->used || !p->value) {
        tpi_export_no_memory(x);
        return false;
    }
    memset(p->used, 0, n * sizeof *p->used);
    memset(p->value, 0, n * sizeof *p->value);
    for (int i = t->index + 1; i < x->n_graph; i++) {
        const tp_tensor *y = x->g->nodes[i];
        if (x->needed[i] && y->op == &tpi_op_output && y->in[0] == t)
            p->used[tpi_attr_int(y, "index")] = true;
    }
    return true;
}

/* The nodes that stand for them get their values. */
static void ports_end(tpi_export *x, const tp_tensor *t, ports *p)
{
    for (int i = t->index + 1; i < x->n_graph && x->status == TP_OK; i++) {
        const tp_tensor *y = x->g->nodes[i];
        if (x->needed[i] && y->op == &tpi_op_output && y->in[0] == t)
            tpi_set_value(x, y, p->value[tpi_attr_int(y, "index")]);
    }
    tpi_give_back(&x->ctx->mem, p->used, (size_t)p->n * sizeof *p->used);
    tpi_give_back(&x->ctx->mem, p->value, (size_t)p->n * sizeof *p->value);
}

static tp_dtype type_of(const tp_tensor *t, int index)
{
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(t, index, &dtype, &rank, shape);
    return dtype;
}

/* ---- cond ---------------------------------------------------------------------------------------- */

/* A side as a block; with `drawn` its last output is where the random numbers go on. */
static int32_t say_side(tpi_export *x, const tp_tensor *t, const tpi_body *b, const ports *p,
                        bool drawn)
{
    const size_t bytes = ((size_t)p->n + 1) * sizeof(void *);
    tp_tensor **asked = tpi_take(&x->ctx->mem, bytes);
    tpi_val *out = tpi_take(&x->ctx->mem, bytes);
    around was;
    const int32_t block = tpi_block_begin(x);
    int n = 0;
    if (!asked || !out)
        tpi_export_no_memory(x);
    if (x->status == TP_OK && enter(x, b, &was)) {
        for (int i = 0; i < b->n_params; i++)
            x->value_of[b->params[i]->index] = was.value_of[t->in[1 + i]->index];
        for (int i = 0; i < p->n; i++)
            if (p->used[i])
                asked[n++] = b->outputs[i];
        tpi_say_needed(x, n, asked);
        for (int i = 0; i < n && x->status == TP_OK; i++)
            out[i] = own_output(x, tpi_value_of(x, asked[i]), i, out);
        if (drawn && x->status == TP_OK)
            out[n] = own_output(x, tpi_random_at(x, x->drawn), n, out);
        if (x->status == TP_OK)
            tpi_block_end(x, n + drawn, out);
        leave(x, &was);
        x->drawn = was.drawn;
        x->drawn_from = was.drawn_from;
    }
    tpi_give_back(&x->ctx->mem, asked, bytes);
    tpi_give_back(&x->ctx->mem, out, bytes);
    return block;
}

static void say_cond(tpi_export *x, const tp_tensor *t, ports *p)
{
    const tpi_cond_attrs *a = t->attrs;
    const bool drawn = draws(a->then) || draws(a->other);
    const int32_t then = say_side(x, t, a->then, p, drawn);
    const int32_t other = x->status == TP_OK ? say_side(x, t, a->other, p, drawn) : 0;
    bool first = true;
    for (int i = 0; i < p->n + drawn && x->status == TP_OK; i++) {
        const tp_dtype type = i < p->n ? type_of(t, i) : TP_I64;
        if (i < p->n && !p->used[i])
            continue;
        const tpi_val v = first ? tpi_put_typed(x, "If", type, TPI_V(tpi_in(x, t, 0)))
                                : tpi_put_result(x, type);
        first = false;
        if (i < p->n) {
            p->value[i] = v;
        } else {
            x->drawn_from = v;
            x->drawn = 0;
        }
    }
    if (x->status == TP_OK) {
        tpi_put_body(x, 0, then);
        tpi_put_body(x, 1, other);
    }
}

/* ---- loop ---------------------------------------------------------------------------------------- */

typedef struct looping {
    const tp_tensor *t;
    const tpi_loop_attrs *a;
    ports *p;
    bool drawn;   /* where random numbers go on is carried, too */
    bool counts;  /* and the number of turns: only that tells `length` */
    tpi_val *out; /* of the body */
    int n_out;
} looping;

static tpi_val scalar_of(tpi_export *x, tpi_val v)
{
    return tpi_reshape(x, v, NULL, 0, NULL);
}

/* All that the body takes, before anything is computed in it; the params that are carried stand for
 * theirs. The first is the number of the iteration, the second the condition. */
static void take_inputs(tpi_export *x, const looping *l, tpi_val in[2])
{
    const tpi_body *b = l->a->body;
    in[0] = tpi_block_scalar(x, TP_I64);
    in[1] = tpi_block_scalar(x, TP_BOOL);
    for (int k = 0; k < l->a->n_carried; k++)
        x->value_of[b->params[1 + k]->index] =
            tpi_block_input(x, (tp_dtype)b->params[1 + k]->dtype, b->params[1 + k]);
    if (l->drawn) {
        x->drawn_from = tpi_block_input(x, TP_I64, NULL);
        x->drawn = 0;
    }
    if (l->counts)
        tpi_block_input(x, TP_I64, NULL);
}

/* What the other params stand for in a turn; operands are values of the graph around. */
static void set_params(tpi_export *x, const looping *l, const around *was, tpi_val iter)
{
    const tpi_body *b = l->a->body;
    const int first = (int)l->a->has_pred, carried = (int)l->a->n_carried;
    tpi_val turn = iter;
    if (l->a->back) {
        const tpi_val last = tpi_put(x, "Sub", TPI_V(tpi_size(x, l->a->count), tpi_int(x, 1)));
        turn = tpi_put(x, "Sub", TPI_V(scalar_of(x, last), iter));
    }
    x->value_of[b->params[0]->index] = turn;
    for (int k = carried; k < b->n_params - 1; k++) {
        const tpi_val outer = was->value_of[l->t->in[first + k]->index];
        const bool slice = k < carried + l->a->n_slices;
        x->value_of[b->params[1 + k]->index] =
            slice ? tpi_put(x, "Gather", TPI_V(outer, turn)) : outer;
    }
}

static void add_output(tpi_export *x, looping *l, tpi_val v)
{
    if (x->status != TP_OK)
        return;
    l->out[l->n_out] = own_output(x, v, l->n_out, l->out);
    l->n_out++;
}

/* The condition, all that is carried, and what is stacked and asked for. */
static void say_outputs(tpi_export *x, looping *l, const tpi_val in[2])
{
    const tpi_body *b = l->a->body;
    const int first = (int)l->a->has_pred, stacked = first + (int)l->a->n_carried;
    const size_t bytes = (size_t)b->n_outputs * sizeof(tp_tensor *);
    tp_tensor **asked = tpi_take(&x->ctx->mem, bytes);
    if (!asked) {
        tpi_export_no_memory(x);
        return;
    }
    int n = 0;
    for (int i = 0; i < b->n_outputs; i++)
        if (i < stacked || l->p->used[i - first])
            asked[n++] = b->outputs[i];
    tpi_say_needed(x, n, asked);
    add_output(x, l, first ? tpi_value_of(x, asked[0]) : in[1]);
    for (int i = first; i < stacked; i++)
        add_output(x, l, tpi_value_of(x, asked[i]));
    if (l->drawn)
        add_output(x, l, tpi_random_at(x, x->drawn));
    if (l->counts) {
        const int64_t one = 1;
        const tpi_val turns =
            tpi_put(x, "Add", TPI_V(in[0], tpi_constant(x, TP_I64, 0, 1, &one)));
        add_output(x, l, tpi_reshape(x, turns, NULL, 1, &one));
    }
    for (int i = stacked; i < n; i++)
        add_output(x, l, tpi_value_of(x, asked[i]));
    tpi_give_back(&x->ctx->mem, asked, bytes);
}

/* The body as a block. */
static int32_t say_body(tpi_export *x, looping *l)
{
    const tpi_body *b = l->a->body;
    const size_t bytes = ((size_t)b->n_outputs + 3) * sizeof *l->out;
    around was;
    l->out = tpi_take(&x->ctx->mem, bytes);
    const int32_t block = tpi_block_begin(x);
    if (!l->out)
        tpi_export_no_memory(x);
    if (x->status == TP_OK && enter(x, b, &was)) {
        tpi_val in[2];
        take_inputs(x, l, in);
        set_params(x, l, &was, in[0]);
        say_outputs(x, l, in);
        if (x->status == TP_OK)
            tpi_block_end(x, l->n_out, l->out);
        leave(x, &was);
        x->drawn = was.drawn;
        x->drawn_from = was.drawn_from;
    }
    tpi_give_back(&x->ctx->mem, l->out, bytes);
    return block;
}

/* Its operands: count, condition, what is carried; "" where there is none. */
static tpi_val *operands_of(tpi_export *x, const looping *l, int *n)
{
    const tpi_loop_attrs *a = l->a;
    const int first = (int)a->has_pred;
    tpi_val *in = tpi_take(&x->ctx->mem, ((size_t)a->n_carried + 4) * sizeof *in);
    *n = 0;
    if (!in) {
        tpi_export_no_memory(x);
        return NULL;
    }
    in[(*n)++] = a->counted ? scalar_of(x, tpi_size(x, a->count)) : 0;
    in[(*n)++] = first ? tpi_in(x, l->t, 0) : 0;
    for (int k = 0; k < a->n_carried; k++)
        in[(*n)++] = tpi_in(x, l->t, first + k);
    if (l->drawn)
        in[(*n)++] = tpi_random_at(x, x->drawn);
    if (l->counts)
        in[(*n)++] = tpi_int(x, 0);
    return in;
}

/* What is stacked, in the order of numbers. Runtimes that take no turn know the rank of it only. */
static tpi_val stacked_result(tpi_export *x, const looping *l, int index, tpi_val v)
{
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1], all = INT64_MIN;
    tpi_output_type(l->t, index, &dtype, &rank, shape);
    if (l->a->back) {
        const tpi_val end = tpi_ints(x, 1, &all), minus = tpi_int(x, -1);
        v = tpi_put(x, "Slice", TPI_V(v, minus, end, tpi_int(x, 0), minus));
    }
    bool free = false;
    for (int i = 1; i < rank; i++)
        free |= tpi_dim_is_symbolic(shape[i]);
    if (!free)
        return v;
    v = tpi_put(x, "Reshape", TPI_V(v, tpi_sizes(x, rank, shape)));
    tpi_put_int(x, "allowzero", 1);
    return v;
}

/* The number of turns taken, when it is a size of its own. */
static void note_length(tpi_export *x, const looping *l, const tpi_val *stacked,
                        tpi_val counted)
{
    tpi_val v = counted;
    if (l->a->length == l->a->count && l->a->counted)
        return;
    if (!v) {
        v = tpi_put_typed(x, "Shape", TP_I64, TPI_V(*stacked));
        tpi_put_int(x, "start", 0);
        tpi_put_int(x, "end", 1);
    }
    tpi_note_size(x, l->a->length, v);
}

/* The results of the operator just put, in its order; values of those that are stacked are what the
 * operator gives: they are turned around when all have been named. */
static void put_results(tpi_export *x, looping *l, int32_t body)
{
    ports *p = l->p;
    const int carried = (int)l->a->n_carried;
    tpi_val drawn = 0, counted = 0, stacked = 0;
    bool first = true;
    int n_in;
    tpi_val *in = operands_of(x, l, &n_in);
    for (int i = 0; i < p->n + 2 && x->status == TP_OK; i++) {
        /* carried, drawn, counted, stacked */
        const int own = i < carried ? i : i < carried + 2 ? -1 : i - 2;
        const bool is = own < 0         ? (i == carried ? l->drawn : l->counts)
                        : own < carried ? true
                                        : p->used[own];
        if (!is)
            continue;
        const tp_dtype type = own < 0 ? TP_I64 : type_of(l->t, own);
        const tpi_val v =
            first ? tpi_put_typed(x, "Loop", type, n_in, in) : tpi_put_result(x, type);
        first = false;
        if (own >= 0)
            p->value[own] = v;
        else if (i == carried)
            drawn = v;
        else
            counted = v;
        stacked = own >= carried ? v : stacked;
    }
    if (x->status == TP_OK)
        tpi_put_body(x, 0, body);
    tpi_give_back(&x->ctx->mem, in, ((size_t)l->a->n_carried + 4) * sizeof *in);
    if (drawn) {
        x->drawn_from = drawn;
        x->drawn = 0;
    }
    if (x->status == TP_OK && l->a->length && (stacked || counted))
        note_length(x, l, &stacked, counted);
    for (int i = carried; i < p->n && x->status == TP_OK; i++)
        if (p->used[i])
            p->value[i] = stacked_result(x, l, i, p->value[i]);
}

static void say_loop(tpi_export *x, const tp_tensor *t, ports *p)
{
    looping l = {.t = t, .a = t->attrs, .p = p};
    bool stacks = false;
    for (int i = (int)l.a->n_carried; i < p->n; i++)
        stacks |= p->used[i];
    l.drawn = draws(l.a->body);
    l.counts = tpi_dim_is_symbolic(l.a->length) && l.a->has_pred && !stacks;
    const int32_t body = say_body(x, &l);
    if (x->status == TP_OK)
        put_results(x, &l, body);
}

void tpi_say_block(tpi_export *x, const tp_tensor *t)
{
    ports p;
    if (ports_begin(x, t, &p)) {
        if (t->op == &tpi_op_cond)
            say_cond(x, t, &p);
        else
            say_loop(x, t, &p);
    }
    ports_end(x, t, &p);
}
