/* Graphs in attributes: branches and bodies. */
#include "onnx/import/import_inner.h"

/* The operator's own cost is counted besides: names are copied, and may be long. */
static int64_t cost_of(const tpi_onnx_graph *g)
{
    int64_t cost = 4 * ((int64_t)g->n_inits + g->n_inputs + g->n_outputs); /* as large */
    for (int i = 0; i < g->n_nodes; i++)
        cost += (int64_t)g->nodes[i].n_in + g->nodes[i].n_out + g->nodes[i].n_attrs;
    return cost;
}

tpi_onnx_sub *tpi_onnx_sub_of(tpi_onnx_op *o, const char *attr)
{
    const tpi_onnx_attr *a = tpi_onnx_attr_of(o, attr);
    if (!a || !a->sub) {
        tpi_onnx_refuse(o, "it has no %s", attr);
        return NULL;
    }
    if (*a->sub)
        return *a->sub;
    tpi_onnx_sub *s = tpi_onnx_take(o->im->m, 1, sizeof *s);
    if (!s || !tpi_onnx_graph_read(o->im->m, a->g, &s->g))
        return NULL;
    s->cost = cost_of(&s->g);
    return *a->sub = s;
}

static size_t n_names(const tpi_onnx_graph *g)
{
    size_t n = (size_t)g->n_inits + (size_t)g->n_inputs;
    for (int i = 0; i < g->n_nodes; i++)
        n += (size_t)g->nodes[i].n_out;
    return n;
}

bool tpi_onnx_begin_graph(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_graph *g)
{
    if (g->n_sparse)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "sparse initializers are not supported");
    if (!tpi_onnx_env_open(im, f, n_names(g)))
        return false;
    for (int i = 0; i < g->n_inits; i++) {
        tpi_onnx_value *v = tpi_onnx_define(im, f, g->inits[i].name);
        if (!v)
            return false;
        v->data = &g->inits[i];
    }
    return true;
}

/* Notes the weights, so that the next run has the very same. */
static bool keep_weights(tpi_import *im, tpi_onnx_sub *s, const tpi_onnx_env *f)
{
    const size_t n = (size_t)s->g.n_inits;
    s->weights = tpi_onnx_take(im->m, n, sizeof(tpi_onnx_value *));
    for (size_t i = 0; s->weights && i < n; i++)
        s->weights[i] = tpi_onnx_find(f, s->g.inits[i].name);
    s->attempt = im->attempt;
    return s->weights;
}

static bool begin(tpi_onnx_op *o, tpi_onnx_sub *s, tpi_onnx_env *f)
{
    tpi_import *im = o->im;
    *f = (tpi_onnx_env){.outer = o->env, .opset = o->opset};
    if (im->depth == TPI_ONNX_MAX_DEPTH)
        return tpi_onnx_refuse(o, "branches lie in branches more than %d deep",
                               TPI_ONNX_MAX_DEPTH);
    if (!tpi_onnx_spend(o, s->cost))
        return false;
    if (s->attempt != im->attempt)
        return tpi_onnx_begin_graph(im, f, &s->g) && keep_weights(im, s, f);
    if (!tpi_onnx_env_open(im, f, n_names(&s->g)))
        return false;
    for (int i = 0; i < s->g.n_inits; i++)
        if (!tpi_onnx_adopt(im, f, s->weights[i]))
            return false;
    return true;
}

bool tpi_onnx_sub_run(tpi_onnx_op *o, tpi_onnx_sub *s, tpi_onnx_env *f, int n,
                      tpi_onnx_value *const *in)
{
    bool ok = begin(o, s, f);
    for (int k = 0; k < n && ok; k++)
        ok = in[k] && tpi_onnx_alias(o->im, f, s->g.inputs[k].name, in[k]);
    o->im->depth++;
    ok = ok && o->im->run_nodes(o->im, f, s->g.n_nodes, s->g.nodes);
    o->im->depth--;
    return ok;
}

tpi_onnx_value *tpi_onnx_sub_output(tpi_onnx_op *o, const tpi_onnx_sub *s,
                                    const tpi_onnx_env *f, int k)
{
    tpi_onnx_value *v = tpi_onnx_find(f, s->g.outputs[k].name);
    if (!v)
        tpi_onnx_refuse(o, "its body gives no \"%.*s\"", TPI_SPAN(s->g.outputs[k].name));
    return v;
}
