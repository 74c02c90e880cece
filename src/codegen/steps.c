/* Which kernels run together: each is a step of its own. */
#include "codegen/plan.h"

bool tpi_plan_steps(tpi_plan *p)
{
    p->steps = tpi_take(&p->graph->ctx->mem, (size_t)p->n_kernels * sizeof *p->steps);
    if (!p->steps) {
        tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
        return false;
    }
    p->n_steps = p->n_kernels;
    for (int i = 0; i < p->n_steps; i++)
        p->steps[i] = (tpi_plan_step){.first = i, .n = 1};
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n; k++)
            p->kernels[p->steps[i].first + k].step = i;
    return true;
}

void tpi_plan_whole_steps(tpi_plan *p)
{
    for (int i = 0; i < p->n_buffers; i++) {
        tpi_buffer *b = &p->buffers[i];
        if (b->place == TPI_AT_SOURCE)
            continue;
        const tpi_plan_step *last = &p->steps[p->kernels[b->last].step];
        b->first = p->steps[p->kernels[b->first].step].first;
        b->last = last->first + last->n - 1;
    }
}
