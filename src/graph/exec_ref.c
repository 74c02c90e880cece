/* The reference executor: node by node, in program order, by plain loops; or, while the C program
 * is not there, by the kernels of eager use. */
#include "graph/program.h"
#include "op/draw.h"

#include <string.h>

typedef struct walk {
    tpi_session *s;
    tp_tensor **value; /* by node, one reference each; NULL: not there, or no longer */
    int *uses;         /* reads to come */
} walk;

static tp_tensor *fed(const walk *w, const tp_tensor *node)
{
    const tp_program *p = w->s->p;
    for (int i = 0; i < p->n_feeds; i++)
        if (p->feeds[i] == node)
            return w->s->feeds[i];
    return NULL;
}

/* The value of a view, when strides can say it. */
static bool share(const tp_tensor *node, tp_tensor *x, const void *attrs, tp_tensor *out)
{
    tpi_view v = {.in = x, .out = out, .in_stride = x->stride, .attrs = attrs};
    if (!node->op->view(&v))
        return false;
    memcpy(out->stride, v.stride, sizeof v.stride);
    tpi_tensor_share(out, x, v.offset);
    tpi_note_contiguous(out);
    return true;
}

/* A tensor that no scope owns; NULL when out of memory. */
static tp_tensor *compute(walk *w, const tp_tensor *node)
{
    tp_program *p = w->s->p;
    const tpi_at at = TPI_AT(node->file, node->line);
    int64_t shape[TP_MAX_RANK];
    _Alignas(8) char attrs[1024];
    tp_tensor *few[16], **in = few;
    const size_t in_bytes = (size_t)node->n_in * sizeof *in;
    tpi_program_shape(p, node, shape);
    tpi_program_attrs(p, node, attrs);
    if (node->op == &tpi_op_random) {
        int64_t n = 1;
        for (int i = 0; i < node->rank; i++)
            n *= shape[i];
        const tpi_random_attrs placed = tpi_session_draw(w->s, node, n);
        tpi_random_attrs *own = (tpi_random_attrs *)(void *)attrs;
        own->seed = placed.seed;
        own->at = placed.at;
    }
    tp_tensor *out = tpi_tensor(p->ctx, at, (tp_dtype)node->dtype, node->rank, shape);
    if (node->n_in > 16)
        in = tpi_take(&p->ctx->mem, in_bytes);
    if (!out || !in) {
        if (in != few)
            tpi_give_back(&p->ctx->mem, in, in_bytes);
        tpi_no_memory(p->ctx, at, node->op->name);
        return NULL;
    }
    for (int i = 0; i < node->n_in; i++)
        in[i] = w->value[node->in[i]->index];
    bool ok = true;
    if (node->op->kind != TPI_VIEW || !share(node, in[0], attrs, out)) {
        tpi_run r = {.op = node->op,
                     .ctx = p->ctx,
                     .at = at,
                     .n_in = node->n_in,
                     .in = in,
                     .attrs = attrs,
                     .out = out};
        ok = tpi_tensor_alloc(out);
        if (!ok)
            tpi_no_memory(p->ctx, at, node->op->name);
        else
            ok = p->engine == TP_ENGINE_AUTO ? tpi_run_op(&r) : tpi_run_reference(&r);
    }
    if (in != few)
        tpi_give_back(&p->ctx->mem, in, in_bytes);
    if (!ok)
        return NULL;
    tpi_disown(out);
    return out;
}

static bool take_value(walk *w, int i)
{
    const tp_tensor *node = w->s->p->graph->nodes[i];
    tp_tensor *v;
    if (node->op == &tpi_op_placeholder)
        v = fed(w, node);
    else if (node->op->kind == TPI_SOURCE)
        v = node->in[0];
    else if (node->op == &tpi_op_assign)
        v = w->value[node->in[1]->index];
    else
        return (w->value[i] = compute(w, node)) != NULL;
    tpi_ref(v);
    w->value[i] = v;
    return true;
}

static void count_uses(walk *w)
{
    const tp_program *p = w->s->p;
    for (int i = 0; i < p->n_roots; i++)
        w->uses[p->roots[i]->index]++;
    for (int i = p->graph->n_nodes - 1; i >= 0; i--) {
        const tp_tensor *t = p->graph->nodes[i];
        for (int k = 0; w->uses[i] && t->op->kind != TPI_SOURCE && k < t->n_in; k++)
            w->uses[t->in[k]->index]++;
    }
}

static void release_operands(walk *w, const tp_tensor *t)
{
    for (int k = 0; t->op->kind != TPI_SOURCE && k < t->n_in; k++) {
        const int x = t->in[k]->index;
        if (--w->uses[x] == 0) {
            tpi_unref(w->value[x]);
            w->value[x] = NULL;
        }
    }
}

bool tpi_execute_reference(tpi_session *s)
{
    tp_program *p = s->p;
    const size_t n = (size_t)p->graph->n_nodes;
    walk w = {.s = s,
              .value = tpi_take(&p->ctx->mem, n * sizeof *w.value),
              .uses = tpi_take(&p->ctx->mem, n * sizeof *w.uses)};
    bool ok = w.value && w.uses;
    if (!ok)
        tpi_no_memory(p->ctx, s->at, "tp_program_run");
    if (w.value)
        memset(w.value, 0, n * sizeof *w.value);
    if (ok) {
        memset(w.uses, 0, n * sizeof *w.uses);
        count_uses(&w);
    }
    for (int i = 0; i < (int)n && ok; i++) {
        if (!w.uses[i])
            continue;
        ok = take_value(&w, i);
        if (ok)
            release_operands(&w, p->graph->nodes[i]);
    }
    for (int i = 0; i < p->n_roots && ok; i++) {
        s->values[i] = w.value[p->roots[i]->index];
        tpi_ref(s->values[i]);
    }
    for (int i = 0; i < (int)n && w.value; i++)
        tpi_unref(w.value[i]);
    tpi_give_back(&p->ctx->mem, w.value, n * sizeof *w.value);
    tpi_give_back(&p->ctx->mem, w.uses, n * sizeof *w.uses);
    return ok;
}
