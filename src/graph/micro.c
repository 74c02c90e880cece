/* Microbatches: which steps are worth it, and what lies where. */
#include "graph/waves.h"

#include <string.h>

int64_t tpi_micro_places(const tp_program *p, const tpi_microbatch *m)
{
    return tpi_program_size(p, m->places);
}

static int64_t bytes_of(const tp_program *p, const tpi_buffer *b)
{
    int64_t shape[TP_MAX_RANK],
        n = b->like ? (int64_t)tp_dtype_size((tp_dtype)b->like->dtype) : 0;
    if (b->like)
        tpi_program_shape(p, b->like, shape);
    for (int a = 0; b->like && a < b->like->rank; a++)
        n *= shape[a];
    return n;
}

/* Bytes that a step reads and writes: places of all buffers, and what every place reads. */
typedef struct traffic {
    double own, shared;
} traffic;

static void add(const tp_program *p, int root, int step, int64_t *mark, traffic *t)
{
    const int number = p->plan->values[root].buffer;
    if (number < 0 || mark[number] == step + 1)
        return;
    const tpi_buffer *b = &p->plan->buffers[number];
    *(b->seen == TPI_OWN_PLACE ? &t->own : &t->shared) += (double)bytes_of(p, b);
    mark[number] = step + 1;
}

static traffic traffic_of(const tp_program *p, int step, int64_t *mark)
{
    const tpi_plan *plan = p->plan;
    const tpi_plan_step *s = &plan->steps[step];
    traffic t = {0, 0};
    for (int i = s->first; i < s->first + s->n; i++) {
        const tpi_kernel *k = &plan->kernels[i];
        const int *nodes = k->n_nodes ? k->nodes : &k->root;
        for (int n = 0; n < (k->n_nodes ? k->n_nodes : 1); n++) {
            const tp_tensor *node = plan->values[nodes[n]].node;
            add(p, nodes[n], step, mark, &t);
            for (int o = 0; o < node->n_in; o++)
                add(p, plan->values[node->in[o]->index].layout.root, step, mark, &t);
        }
    }
    return t;
}

/* Bytes that need not come from beyond the third cache, less what weights cost that every place reads again
 * from that cache, and what kernels cost that are called once for each. */
static double saved(const tp_program *p, int step, double places, int64_t *mark)
{
    const double near = (double)p->ctx->near_bytes, call = near / 256;
    const traffic t = traffic_of(p, step, mark);
    const bool far = t.own > (double)p->ctx->far_bytes, small = t.own < places * near / 4;
    return (far && !small ? t.own : 0) - t.shared * (places - 1) / 4 - call * places;
}

/* Of the steps of m those that save most together, from `from` on. */
static tpi_microbatch best_of(const tp_program *p, const tpi_microbatch *m, int from,
                              int64_t *mark)
{
    const double places = (double)tpi_micro_places(p, m);
    tpi_microbatch best = {.first = from, .places = m->places}, now = best;
    double sum = 0, most = 0;
    for (int i = from; i < m->first + m->n && places > 1; i++) {
        sum += saved(p, i, places, mark);
        now.n++;
        if (sum <= 0) {
            if (best.n)
                break;
            sum = 0;
            now.first = i + 1;
            now.n = 0;
        } else if (sum > most) {
            most = sum;
            best = now;
        }
    }
    return best;
}

int tpi_micro_find(const tp_program *p, tpi_microbatch *found, int64_t *mark)
{
    const tpi_plan *plan = p->plan;
    int n = 0;
    memset(mark, 0, (size_t)plan->n_buffers * sizeof *mark);
    for (int i = 0; i < plan->n_micro && p->entry; i++)
        for (int at = plan->micro[i].first;;) {
            const tpi_microbatch m = best_of(p, &plan->micro[i], at, mark);
            if (m.n == 0)
                break;
            at = m.first + m.n;
            if (m.n > 1)
                found[n++] = m;
        }
    return n;
}

bool tpi_micro_keeps(const tpi_plan *plan, const tpi_microbatch *m, const tpi_buffer *b)
{
    const tpi_plan_step *first = &plan->steps[m->first], *last = first + m->n - 1;
    return b->place == TPI_AT_ARENA && b->seen == TPI_OWN_PLACE && b->first >= first->first &&
           b->last < last->first + last->n;
}

void tpi_micro_shifts(tpi_waves *w)
{
    const tpi_plan *plan = w->p->plan;
    memset(w->shift, 0, (size_t)plan->all_buffers * sizeof *w->shift);
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        bool kept = false;
        for (int k = 0; k < w->n_micro; k++)
            kept |= tpi_micro_keeps(plan, &w->micro[k], b);
        const int64_t places =
            b->seen == TPI_OWN_PLACE ? tpi_program_size(w->p, b->like->shape[0]) : 0;
        if (!kept && places > 0)
            w->shift[i] = bytes_of(w->p, b) / places;
    }
}
