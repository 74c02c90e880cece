#include "grad/body_copy.h"

#include <string.h>

/* ---- sizes -------------------------------------------------------------------------------------- */

enum { MAX_STEPS = 2000 };

/* An expression taken apart: a size made while one is walked would move the table. */
typedef struct step {
    char what; /* n: a number, s: a symbol, else the operation */
    int64_t n;
    int a, b;
} step;

typedef struct steps {
    int n;
    bool full;
    step v[MAX_STEPS];
} steps;

static int keep(steps *s, step x)
{
    s->full |= s->n == MAX_STEPS;
    if (s->full)
        return 0;
    s->v[s->n] = x;
    return s->n++;
}

static int keep_number(void *user, int64_t n)
{
    return keep(user, (step){.what = 'n', .n = n});
}

static int keep_symbol(void *user, int i)
{
    return keep(user, (step){.what = 's', .n = i});
}

static int keep_apply(void *user, char op, int a, int b)
{
    return keep(user, (step){.what = op, .a = a, .b = b});
}

static const tpi_dim_steps take_apart = {keep_number, keep_symbol, keep_apply};

static int64_t symbol_for(const tpi_renaming *c, tpi_dims *dims, int64_t i)
{
    if (i < c->n_sizes && c->sizes[i] != TPI_NO_DIM)
        return c->sizes[i];
    return tpi_dim_symbol(dims, tpi_dim_symbol_name(dims, (int)i));
}

static int64_t size_of(const tpi_renaming *c, tpi_dims *dims, int64_t d)
{
    if (!c->sizes || !tpi_dim_is_symbolic(d))
        return d;
    steps s = {0};
    int64_t v[MAX_STEPS];
    const int last = tpi_dim_build(dims, d, &take_apart, &s);
    for (int i = 0; i < s.n && !s.full; i++) {
        const step *x = &s.v[i];
        switch (x->what) {
        case 'n':
            v[i] = x->n;
            break;
        case 's':
            v[i] = symbol_for(c, dims, x->n);
            break;
        case '+':
            v[i] = tpi_dim_add(dims, v[x->a], v[x->b]);
            break;
        case '-':
            v[i] = tpi_dim_sub(dims, v[x->a], v[x->b]);
            break;
        case '*':
            v[i] = tpi_dim_mul(dims, v[x->a], v[x->b]);
            break;
        default:
            v[i] = tpi_dim_div(dims, v[x->a], v[x->b]);
        }
    }
    return s.full ? TPI_NO_DIM : v[last];
}

static bool mentions(tpi_dims *dims, int64_t d, const bool *in, int n)
{
    if (!tpi_dim_is_symbolic(d))
        return false;
    steps s = {0};
    tpi_dim_build(dims, d, &take_apart, &s);
    bool found = s.full;
    for (int i = 0; i < s.n && !found; i++)
        found = s.v[i].what == 's' && s.v[i].n < n && in[s.v[i].n];
    return found;
}

bool tpi_is_sized_by(const tp_tensor *t, const bool *in, int n)
{
    bool is = false;
    for (int i = 0; i < t->rank && !is; i++)
        is = mentions(t->graph->dims, t->shape[i], in, n);
    return is;
}

void tpi_mark_lengths(const tp_graph *g, int n_nodes, bool *in, int n)
{
    for (int i = 0; i < n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        if (!tpi_is_block(t))
            continue;
        tpi_body *bodies[2];
        const int n_bodies = tpi_bodies_of(t, bodies);
        for (int k = 0; k < n_bodies; k++)
            tpi_mark_lengths(bodies[k]->graph, bodies[k]->graph->n_nodes, in, n);
        int symbol;
        if (t->op == &tpi_op_loop && tpi_loop_of(t)->has_pred &&
            tpi_dim_as_symbol(g->dims, tpi_loop_of(t)->length, &symbol) && symbol < n)
            in[symbol] = true;
    }
}

/* ---- copies ------------------------------------------------------------------------------------- */

tpi_loop_attrs *tpi_loop_of(const tp_tensor *loop)
{
    tpi_loop_attrs *a;
    memcpy(&a, &loop->attrs, sizeof a);
    return a;
}

static bool copy_bodies(const tpi_renaming *c, tp_graph *to, const tp_tensor *block,
                        void *attrs)
{
    for (const tpi_attr *a = block->op->attrs; a && a->name; a++) {
        if (a->type != TPI_ATTR_BODY)
            continue;
        tpi_body *from, *made;
        memcpy(&from, (char *)attrs + a->offset, sizeof from);
        made = tpi_body_new(to, from->at);
        if (!made || !tpi_copy_body(c, from, made))
            return false;
        memcpy((char *)attrs + a->offset, &made, sizeof made);
    }
    return true;
}

static bool copy_sizes(const tpi_renaming *c, tpi_dims *dims, int64_t n, const int64_t *from,
                       int64_t *to)
{
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++) {
        to[i] = size_of(c, dims, from[i]);
        ok = to[i] != TPI_NO_DIM;
    }
    return ok;
}

static bool copy_attrs(const tpi_renaming *c, tp_graph *to, const tp_tensor *t, void *attrs)
{
    if (t->op->attrs_size)
        memcpy(attrs, t->attrs, t->op->attrs_size);
    bool ok = true;
    for (const tpi_attr *a = t->op->attrs; a && a->name && ok; a++) {
        int64_t *v = (int64_t *)(void *)((char *)attrs + a->offset);
        if (a->type == TPI_ATTR_DIM)
            ok = copy_sizes(c, to->dims, 1, v, v);
        else if (a->type == TPI_ATTR_DIMS)
            ok = copy_sizes(c, to->dims, v[0], v + 1, v + 1);
    }
    return ok && copy_bodies(c, to, t, attrs);
}

tp_tensor *tpi_copy_node(const tpi_renaming *c, tp_graph *to, const tp_tensor *t,
                         tp_tensor *const *in)
{
    const tpi_at at = TPI_AT(t->file, t->line);
    _Alignas(8) char attrs[1024];
    int64_t shape[TP_MAX_RANK];
    if (t->op->attrs_size > sizeof attrs)
        return tpi_fail(c->ctx, at, t->op->name, TP_E_BUG, "attributes of %zu bytes",
                        t->op->attrs_size);
    if (!copy_sizes(c, to->dims, t->rank, t->shape, shape) || !copy_attrs(c, to, t, attrs))
        return tpi_no_memory(c->ctx, at, t->op->name);
    tp_tensor *made =
        t->op == &tpi_op_param
            ? tpi_body_param(to->body, at, (tp_dtype)t->dtype, t->rank, shape, NULL)
            : tpi_graph_node(to, at, t->op, t->n_in, t->op->kind == TPI_SOURCE ? t->in : in,
                             attrs, (tp_dtype)t->dtype, t->rank, shape);
    if (made->status == TP_OK) {
        const uint8_t kept = TPI_REQUIRES | TPI_CONSTANT;
        made->flags = (uint8_t)((made->flags & ~kept) | (t->flags & kept));
    }
    return made;
}

/* Nodes first.. of one body to another, whose node i is the copy of node i. */
static bool copy_nodes(const tpi_renaming *c, const tp_graph *from, int first, tp_graph *to)
{
    tpi_nodes in = {.ctx = c->ctx};
    bool ok = true;
    for (int i = first; i < from->n_nodes && ok; i++) {
        const tp_tensor *t = from->nodes[i];
        in.n = 0;
        for (int k = 0; k < t->n_in && t->op->kind != TPI_SOURCE; k++)
            tpi_nodes_push(&in, to->nodes[t->in[k]->index]);
        ok = !in.failed;
        if (!ok)
            tpi_no_memory(c->ctx, TPI_AT(t->file, t->line), t->op->name);
        ok = ok && tpi_copy_node(c, to, t, in.v)->status == TP_OK;
    }
    tpi_nodes_free(&in);
    return ok;
}

static bool copy_outputs(const tpi_body *from, tpi_body *to)
{
    bool ok = true;
    for (int i = to->n_outputs; i < from->n_outputs && ok; i++)
        ok = tpi_body_output(to, to->graph->nodes[from->outputs[i]->index]);
    return ok;
}

bool tpi_copy_body(const tpi_renaming *c, const tpi_body *from, tpi_body *to)
{
    if (!copy_nodes(c, from->graph, 0, to->graph))
        return false;
    tpi_nodes params = {.ctx = c->ctx};
    for (int i = 0; i < from->n_params; i++)
        tpi_nodes_push(&params, to->graph->nodes[from->params[i]->index]);
    if (!params.failed)
        tpi_body_order(to, params.v);
    else
        tpi_no_memory(c->ctx, to->at, "block");
    const bool ok = !params.failed && copy_outputs(from, to);
    tpi_nodes_free(&params);
    to->closed = true;
    return ok;
}

static bool mirror_body(const tpi_body *copy, tpi_body *original)
{
    const tpi_renaming c = {.ctx = copy->graph->ctx};
    const int n = original->graph->n_nodes;
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        if (tpi_is_block(original->graph->nodes[i]))
            ok = tpi_mirror_block(copy->graph->nodes[i], original->graph->nodes[i]);
    return ok && copy_nodes(&c, copy->graph, n, original->graph) &&
           copy_outputs(copy, original);
}

bool tpi_mirror_block(const tp_tensor *copy, tp_tensor *original)
{
    tpi_body *from[2], *to[2];
    const int n = tpi_bodies_of(copy, from);
    tpi_bodies_of(original, to);
    bool ok = true;
    for (int i = 0; i < n && ok; i++)
        ok = mirror_body(from[i], to[i]);
    if (copy->op == &tpi_op_loop) {
        tpi_loop_of(original)->n_stacked = tpi_loop_of(copy)->n_stacked;
        tpi_loop_of(original)->length = tpi_loop_of(copy)->length;
    }
    return ok;
}
