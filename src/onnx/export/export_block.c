/* Blocks: cond leaves as If, loop as Scan or Loop (export_loop.c). Bodies read what is around them by
 * its name. */
#include "core/dim.h"
#include "onnx/export/export_inner.h"

#include <string.h>

/* ---- bodies ------------------------------------------------------------------------------------ */

bool tpi_export_enter(tpi_export *x, const tpi_body *b, tpi_exported *was)
{
    *was = x->now;
    tpi_random_copy(x);
    if (x->depth >= TPI_EXPORT_DEEPEST)
        tpi_export_refuse(x, "blocks lie in blocks more than %d deep, more than files can hold",
                          TPI_EXPORT_DEEPEST);
    if (x->status != TP_OK || !tpi_export_begin_graph(x, b->graph))
        return false;
    x->depth++;
    return true;
}

void tpi_export_leave(tpi_export *x, const tpi_exported *was)
{
    x->now = *was;
    x->depth--;
}

tpi_val tpi_own_output(tpi_export *x, tpi_val v, int n, const tpi_val *before)
{
    const tpi_out_block *b = &x->blocks[x->block];
    bool own = v && x->values[v].block == x->block;
    for (int i = 0; i < b->n_inputs && own; i++)
        own = x->operands[b->inputs + i] != v;
    for (int i = 0; i < n && own; i++)
        own = before[i] != v;
    for (int i = 0; i < x->n_weights && own; i++)
        own = x->weights[i].value != v;
    for (int i = 0; i < x->m->n_in && own; i++)
        own = x->inputs[i] != v || strcmp(x->m->in_names[i], x->m->out_names[n]) == 0;
    if (own)
        return v;
    const tpi_val y = tpi_put(x, "Identity", TPI_V(v));
    if (y)
        x->values[y].node = x->values[v].node;
    return y;
}

/* ---- outputs ------------------------------------------------------------------------------------- */

static bool ports_begin(tpi_export *x, const tp_tensor *t, tpi_ports *p)
{
    const size_t n = (size_t)tpi_n_outputs_of(t);
    *p = (tpi_ports){(int)n, tpi_export_take(x, n, sizeof *p->used),
                     tpi_export_take(x, n, sizeof *p->value)};
    if (!p->value)
        return false;
    for (int i = t->index + 1; i < x->now.n_graph; i++) {
        const tp_tensor *y = x->now.g->nodes[i];
        if (x->now.needed[i] && y->op == &tpi_op_output && y->in[0] == t)
            p->used[tpi_attr_int(y, "index")] = true;
    }
    return true;
}

/* The nodes that stand for them get their values. */
static void ports_end(tpi_export *x, const tp_tensor *t, tpi_ports *p)
{
    for (int i = t->index + 1; i < x->now.n_graph && x->status == TP_OK; i++) {
        const tp_tensor *y = x->now.g->nodes[i];
        if (x->now.needed[i] && y->op == &tpi_op_output && y->in[0] == t)
            tpi_set_value(x, y, p->value[tpi_attr_int(y, "index")]);
    }
}

tp_dtype tpi_port_type(const tp_tensor *t, int index)
{
    tp_dtype dtype;
    int rank;
    int64_t shape[TP_MAX_RANK + 1];
    tpi_output_type(t, index, &dtype, &rank, shape);
    return dtype;
}

tpi_val tpi_next_result(tpi_export *x, tpi_results *r, tp_dtype type)
{
    return r->n++ ? tpi_put_result(x, type) : tpi_put_typed(x, r->op, type, r->n_in, r->in);
}

/* ---- cond ---------------------------------------------------------------------------------------- */

/* A side as a block; with `drawn` its last outputs are where the random numbers go on. */
static int32_t export_side(tpi_export *x, const tp_tensor *t, const tpi_body *b,
                           const tpi_ports *p, bool drawn)
{
    tp_tensor **asked = tpi_export_take(x, (size_t)p->n, sizeof *asked);
    tpi_val *out = tpi_export_take(x, (size_t)(p->n + x->n_streams), sizeof *out);
    tpi_exported was;
    const int32_t block = tpi_block_begin(x);
    int n = 0;
    if (x->status == TP_OK && tpi_export_enter(x, b, &was)) {
        for (int i = 0; i < b->n_params; i++)
            x->now.value_of[b->params[i]->index] = was.value_of[t->in[1 + i]->index];
        for (int i = 0; i < p->n; i++)
            if (p->used[i])
                asked[n++] = b->outputs[i];
        tpi_export_needed(x, n, asked);
        for (int i = 0; i < n && x->status == TP_OK; i++)
            out[i] = tpi_own_output(x, tpi_value_of(x, asked[i]), i, out);
        for (int i = 0; i < x->n_streams && drawn && x->status == TP_OK; i++) {
            out[n] = tpi_own_output(x, tpi_random_now(x, i), n, out);
            n++;
        }
        tpi_block_end(x, n, out);
        tpi_export_leave(x, &was);
    }
    return block;
}

void tpi_export_if(tpi_export *x, tpi_val condition, int32_t then, int32_t other,
                   const tp_tensor *block, tpi_ports *p, bool drawn)
{
    tpi_results r = {"If", 0, 1, &condition};
    for (int i = 0; i < p->n; i++)
        if (p->used[i])
            p->value[i] = tpi_next_result(x, &r, tpi_port_type(block, i));
    for (int i = 0; i < x->n_streams && drawn; i++)
        tpi_random_from(x, i, tpi_next_result(x, &r, TP_I64));
    tpi_put_body(x, 0, then);
    tpi_put_body(x, 1, other);
}

static void export_cond(tpi_export *x, const tp_tensor *t, tpi_ports *p)
{
    const tpi_cond_attrs *a = t->attrs;
    const bool drawn = tpi_node_draws(t);
    const int32_t then = export_side(x, t, a->then, p, drawn);
    const int32_t other = x->status == TP_OK ? export_side(x, t, a->other, p, drawn) : 0;
    if (x->status == TP_OK)
        tpi_export_if(x, tpi_in(x, t, 0), then, other, t, p, drawn);
}

void tpi_export_block(tpi_export *x, const tp_tensor *t)
{
    tpi_ports p;
    if (ports_begin(x, t, &p)) {
        if (t->op == &tpi_op_cond)
            export_cond(x, t, &p);
        else
            tpi_export_loop(x, t, &p);
        ports_end(x, t, &p);
    }
}
