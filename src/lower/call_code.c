#include "lower/call_code.h"

#include "op/sizes.h"

#include <string.h>

static void bind(tpi_call_operand *x, const tpi_run_sizes *sizes)
{
    tpi_shape_at(sizes, &x->view, x->view.shape);
    for (int a = 0; a < x->view.rank; a++)
        x->view.stride[a] = tpi_dim_eval_stride(sizes->dims, x->view.stride[a], sizes->symbols);
    x->offset = tpi_dim_eval_stride(sizes->dims, x->offset, sizes->symbols);
    tpi_note_contiguous(&x->view);
}

tpi_call_operand tpi_lower_operand(const tpi_plan *plan, int root, const tp_tensor *t,
                                   const tpi_run_sizes *sizes)
{
    const tpi_layout *l = &plan->values[t->index].layout;
    const int memory = plan->values[l->root].over == root ? root : l->root;
    const int buffer = plan->values[memory].buffer;
    tpi_call_operand x = {
        .view = {.ctx = plan->graph->ctx,
                 .refs = 1,
                 .dtype = t->dtype,
                 .rank = t->rank,
                 .owned_at = -1},
        .memory = memory,
        .buffer = buffer < 0 ? -1 : plan->first_buffer + buffer,
        .offset = l->offset
    };
    memcpy(x.view.shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    memcpy(x.view.stride, l->stride, (size_t)t->rank * sizeof *l->stride);
    if (sizes)
        bind(&x, sizes);
    return x;
}

static tpi_call_form form_of(const tpi_kernel *k, const tp_tensor *t)
{
    const tpi_op *op = t->op;
    if (k->kind == TPI_KERNEL_COPY)
        return TPI_CALL_COPY;
    if (op->kind != TPI_CALL)
        return TPI_CALL_SET;
    if (op->own)
        return TPI_CALL_OWN;
    const bool has_call = op->call && op->call[tpi_call_key(op, t->in, t)->dtype];
    return op->contract && !has_call ? TPI_CALL_CONTRACTION : TPI_CALL_VIEWS;
}

static void set_contraction(const tpi_plan *plan, tpi_call_code *c)
{
    const tpi_run r = {.op = c->node->op,
                       .n_in = c->n_in,
                       .in = c->in,
                       .attrs = c->attrs,
                       .out = &tpi_call_out(c)->view};
    tpi_contraction *to = &c->contraction;
    memset(to, 0, sizeof *to);
    r.op->contract(&r, to);
    c->packed = tpi_packed_operand(plan, c->node);
    if (to->is_conv && to->conv.spec.winograd && c->packed >= 0)
        to->conv.spec.winograd = TPK_WINOGRAD_PACKED;
}

void tpi_call_at(tpi_call_code *c, const tpi_plan *plan, const tpi_run_sizes *sizes)
{
    const tp_tensor *t = c->node;
    for (int i = 0; i <= c->n_in; i++) {
        c->operand[i] = tpi_lower_operand(plan, t->index, i < c->n_in ? t->in[i] : t, sizes);
        if (i < c->n_in)
            c->in[i] = &c->operand[i].view;
    }
    if (sizes)
        tpi_attrs_at(sizes, t, c->attrs);
    else if (t->op->attrs_size)
        memcpy(c->attrs, t->attrs, t->op->attrs_size);
    if (c->form == TPI_CALL_CONTRACTION)
        set_contraction(plan, c);
}

tpi_call_code *tpi_lower_call(tpi_bump *memory, const tpi_plan *plan, const tpi_kernel *k)
{
    const tp_tensor *t = plan->graph->nodes[k->root];
    const size_t n = (size_t)t->n_in;
    tpi_call_code *c = tpi_bump_take(memory, 1, sizeof *c);
    tpi_call_operand *operand = tpi_bump_take(memory, n + 1, sizeof *operand);
    tp_tensor **in = tpi_bump_take(memory, n, sizeof *in);
    void *attrs = tpi_bump_take(memory, 1, t->op->attrs_size);
    if (!attrs)
        return NULL;
    *c = (tpi_call_code){.node = t,
                         .form = form_of(k, t),
                         .n_in = t->n_in,
                         .operand = operand,
                         .in = in,
                         .attrs = attrs,
                         .draws_next = t->op->draws,
                         .packed = -1};
    tpi_call_at(c, plan, NULL);
    return c;
}
