/* Microbatches: which steps are worth it, and what lies where. */
#include "plan/waves.h"
#include "plan/work.h"

#include <string.h>

static int64_t bytes_of(const tpi_waves *w, const tpi_buffer *b)
{
    return b->like ? (int64_t)tpi_node_bytes(&w->sizes, b->like) : 0;
}

/* Looks at steps, some of them more than once. */
typedef struct search {
    const tpi_waves *w;
    int64_t looks, *look; /* by buffer: the last one that counted it */
} search;

/* Bytes that a step reads and writes: places of all buffers, and what every place reads. */
typedef struct traffic {
    double own, shared;
} traffic;

static void add(const search *f, int root, traffic *t)
{
    const int number = f->w->plan->values[root].buffer;
    if (number < 0 || f->look[number] == f->looks)
        return;
    const tpi_buffer *b = &f->w->plan->buffers[number];
    *(b->seen == TPI_OWN_PLACE ? &t->own : &t->shared) += (double)bytes_of(f->w, b);
    f->look[number] = f->looks;
}

static traffic traffic_of(search *f, int step)
{
    const tpi_plan *plan = f->w->plan;
    const tpi_plan_step *s = &plan->steps[step];
    traffic t = {0, 0};
    f->looks++;
    for (int i = s->first; i < s->first + s->n; i++) {
        const tpi_kernel *k = &plan->kernels[i];
        const int *nodes = k->n_nodes ? k->nodes : &k->root;
        for (int n = 0; n < (k->n_nodes ? k->n_nodes : 1); n++) {
            const tp_tensor *node = plan->values[nodes[n]].node;
            add(f, nodes[n], &t);
            for (int o = 0; o < node->n_in; o++)
                add(f, plan->values[node->in[o]->index].layout.root, &t);
        }
    }
    return t;
}

/* Bytes that need not come from beyond the third cache, less what weights cost that every place reads again
 * from that cache, and what kernels cost that are called once for each. */
static double saved(search *f, int step, double places)
{
    const tp_ctx *ctx = f->w->ctx;
    const double near = (double)ctx->near_bytes, call = near / 256;
    const traffic t = traffic_of(f, step);
    const bool far = t.own > (double)ctx->far_bytes, small = t.own < places * near / 4;
    return (far && !small ? t.own : 0) - t.shared * (places - 1) / 4 - call * places;
}

/* Of the steps of m those that save most together, from `from` on. */
static tpi_microbatch best_of(search *f, const tpi_microbatch *m, int from)
{
    const double places = (double)tpi_size_at(&f->w->sizes, m->places);
    tpi_microbatch best = {.first = from, .places = m->places}, now = best;
    double sum = 0, most = 0;
    for (int i = from; i < m->first + m->n && places > 1; i++) {
        sum += saved(f, i, places);
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

static void find(tpi_waves *w)
{
    const tpi_plan *plan = w->plan;
    search f = {.w = w, .look = w->shift};
    for (int i = 0; i < plan->n_micro; i++)
        for (int at = plan->micro[i].first;;) {
            const tpi_microbatch m = best_of(&f, &plan->micro[i], at);
            if (m.n == 0)
                break;
            at = m.first + m.n;
            if (m.n > 1)
                w->micro[w->n_micro++] = m;
        }
}

bool tpi_micro_keeps(const tpi_plan *plan, const tpi_microbatch *m, const tpi_buffer *b)
{
    const tpi_plan_step *first = &plan->steps[m->first], *last = first + m->n - 1;
    return b->storage == TPI_IN_ARENA && b->seen == TPI_OWN_PLACE && b->first >= first->first &&
           b->last < last->first + last->n;
}

void tpi_micro_find(tpi_waves *w)
{
    const tpi_plan *plan = w->plan;
    memset(w->shift, 0, (size_t)plan->all_buffers * sizeof *w->shift);
    find(w);
    memset(w->shift, 0, (size_t)plan->all_buffers * sizeof *w->shift);
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        bool kept = false;
        for (int k = 0; k < w->n_micro; k++)
            kept |= tpi_micro_keeps(plan, &w->micro[k], b);
        const int64_t places =
            b->seen == TPI_OWN_PLACE ? tpi_size_at(&w->sizes, b->like->shape[0]) : 0;
        if (!kept && places > 0)
            w->shift[i] = bytes_of(w, b) / places;
    }
}
