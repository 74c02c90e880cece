#include "op/contractions.h"

#include "ir/body.h"
#include "kernel/conv/convspec.h"

static bool has_elements(const tpi_run *r)
{
    return tpi_count(r->in[0]) > 0 && tpi_count(r->in[1]) > 0 && tpi_count(r->out) > 0;
}

bool tpi_contraction_run(tpi_run *r)
{
    tpi_contraction c;
    if (!has_elements(r))
        return r->op->kernel(r);
    r->op->contract(r, &c);
    const tpi_team team = {.kernels = r->ctx->kernels, .pool = r->ctx->pool};
    const tpi_convolving *conv = r->op->convolving;
    const size_t bytes =
        c.is_conv ? conv->ws(&team, &c.conv) : tpi_team_products_ws(&team, &c.products);
    void *ws = tpi_take(&r->ctx->mem, bytes);
    if (!ws) {
        r->failed = tpi_no_memory(r->ctx, r->at, r->op->name);
        return false;
    }
    if (c.is_conv)
        conv->run(&team, &c.conv, ws);
    else
        tpi_team_products(&team, &c.products, ws);
    tpi_give_back(&r->ctx->mem, ws, bytes);
    return true;
}

const tpi_convolving *tpi_convolving_of(const tp_graph *g)
{
    const tpi_convolving *of = NULL;
    for (int i = 0; i < g->n_nodes && !of; i++) {
        tpi_body *bodies[2];
        const tp_tensor *t = g->nodes[i];
        of = t->op->convolving;
        for (int k = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0; k > 0 && !of; k--)
            of = tpi_convolving_of(bodies[k - 1]->graph);
    }
    return of;
}

/* Each element of y takes the taps of one of w's filters, whichever of x, w and y is the result. */
double tpi_contraction_multiply_adds(const tpi_contraction *c)
{
    const tpk_products *p = &c->products;
    const tpk_conv *s = &c->conv.spec;
    if (!c->is_conv)
        return tpi_elements_at(p->lead, p->batch) * (double)p->m * (double)p->n * (double)p->k;
    return (double)s->batch * (double)s->oc * (double)(s->ic / s->groups) *
           tpi_elements_at(s->nd, s->out) * tpi_elements_at(s->nd, s->ker);
}

bool tpi_contraction_may_be_tiled(const tp_tensor *node)
{
    tp_tensor out = *node;
    const tpi_run r = {
        .op = node->op, .n_in = node->n_in, .in = node->in, .attrs = node->attrs, .out = &out};
    tpi_contraction c;
    if (!node->op->contract)
        return false;
    node->op->contract(&r, &c);
    return c.is_conv && c.conv.spec.winograd;
}

bool tpi_contraction_may_be_apart(const tpk_convolution *c)
{
    const tpk_conv *s = &c->spec;
    bool sized = !tpi_dim_is_symbolic(s->batch) && !tpi_dim_is_symbolic(s->ic) &&
                 !tpi_dim_is_symbolic(s->oc);
    for (int i = 0; i < s->nd; i++)
        sized = sized && !tpi_dim_is_symbolic(s->in[i]) && !tpi_dim_is_symbolic(s->ker[i]);
    const tpk_conv all = tpk_conv_3d(s);
    return !c->f64 && (!sized || tpk_conv_is_apart(&all));
}
