/* What may run in parts: which kernels together, which steps image by image.
 *
 * A band begins at a kernel and goes on for as long as the next one fits: it has the same space of
 * outer places and rows, and reads what the band makes at the place and row that it computes, along
 * other axes wherever it likes:
 *
 *     k0 = matmul q kt, k1 = softmax k0, k2 = matmul k1 v        rows are those of q
 *     k0 = conv x w, k1 = relu (k0 + b), k2 = conv1x1 k1 v       rows are output rows, of all channels
 *     k0 = conv x w, k1 = relu (k0 + b), k2 = depthwise k1 v     rows are channels
 *
 * How much of it is worth running together depends on sizes, which a run knows (plan/cut.h). */
#include "ir/factors.h"
#include "plan/plan.h"

#include <string.h>

/* A space: the first `outer` axes, and where the rows are, of a kernel's iteration space or result. */
typedef struct space {
    int n_outer;
    int64_t outer[TP_MAX_RANK], rows;
    bool images;   /* that of a microbatch: one outer axis, no rows */
    bool channels; /* of images: these are the rows */
} space;

static const tp_tensor *root_of(const tpi_plan *p, const tpi_kernel *k)
{
    return p->values[k->root].node;
}

/* Does it make images of images? Each axis behind their channels goes with the result's. */
static bool is_conv(const tp_tensor *t)
{
    tpi_factor f[TP_MAX_RANK];
    if (!t->op->contract || t->rank <= 3)
        return false;
    tpi_factors_of(t, 0, f);
    return f[t->rank - 1].id == t->rank - 1;
}

/* Can it compute some of its channels? They are the first axis of its filters. Gradients are computed whole. */
static bool has_channels(const tp_tensor *t)
{
    return t->op->code == TPI_OP_conv && t->rank > 3 && tpi_passed_from(t, 1, 1) == 0;
}

/* Is channel i of the result made of channel i of the operand? */
static bool keeps_channels(const tp_tensor *t)
{
    return has_channels(t) && tpi_passed_from(t, 0, 1) == 1;
}

static bool is_product(const tp_tensor *t)
{
    return t->dtype >= TP_F32 && tpi_is_product(t);
}

/* Axes over which a kernel computes. */
static int axes_of(const tpi_plan *p, const tpi_kernel *k, const int64_t **size)
{
    const tp_tensor *t = root_of(p, k);
    *size = k->kind == TPI_KERNEL_LOOP ? k->shape : t->shape;
    return k->kind == TPI_KERNEL_LOOP ? k->rank : t->rank;
}

/* Can it compute parts at all? A nest that adds up columns goes through all rows. */
static bool has_parts(const tpi_plan *p, const tpi_kernel *k)
{
    const tp_tensor *t = root_of(p, k);
    if (k->kind == TPI_KERNEL_LOOP)
        return k->rank > 1 && !(k->has_reduced && k->reduced && !tpi_reduces_last(k));
    return k->kind == TPI_KERNEL_CALL && (is_product(t) || is_conv(t));
}

/* Does k have this space, and along which axis are its rows? -1: it has none. */
static bool has_space(const tpi_plan *p, const tpi_kernel *k, const space *s, int *row)
{
    const int64_t *size;
    const tp_tensor *t = root_of(p, k);
    const bool call = k->kind == TPI_KERNEL_CALL, conv = is_conv(t);
    const int rank = axes_of(p, k, &size), fixed = s->channels ? 1 : conv ? 2 : rank - 2;
    *row = -1;
    if (!has_parts(p, k) || rank <= s->n_outer ||
        memcmp(size, s->outer, (size_t)s->n_outer * sizeof *size) != 0 ||
        k->reduced & ((1u << s->n_outer) - 1))
        return false;
    if (s->images)
        return !call || conv;
    const bool fits = s->channels ? has_channels(t)
                      : conv      ? s->n_outer == 1
                                  : s->n_outer <= fixed;
    if (call)
        *row = fits && size[fixed] == s->rows ? fixed : -1;
    for (int a = rank - 1; a >= s->n_outer && !call; a--)
        if (size[a] == s->rows && !((k->reduced >> a) & 1))
            *row = a;
    return *row >= 0;
}

/* ---- what is read ---------------------------------------------------------------------------------- */

int tpi_axis_read(const tpi_plan *p, const tpi_kernel *k, const tpi_value *v, int o, int axis)
{
    const tp_tensor *x = v->node->in[o];
    int a = axis; /* a reduction's operand has the axes of the space */
    if (k->kind == TPI_KERNEL_LOOP && v->node->op->kind != TPI_REDUCE) {
        a = v->node->rank - 1;
        while (a >= 0 && v->axis_of[a] != axis)
            a--;
    }
    if (k->kind != TPI_KERNEL_LOOP || v->node->op->kind != TPI_REDUCE)
        a = a < 0 ? -1 : tpi_passed_from(v->node, o, a);
    for (; a >= 0 && p->values[x->index].storage == TPI_IN_ALIAS; x = x->in[0])
        a = x->op->kind == TPI_VIEW ? tpi_passed_from(x, 0, a) : -1;
    return a;
}

/* Does v read, of what another member made, no more than the places and rows that it computes? */
static bool reads_box(const tpi_plan *p, const space *s, const tpi_kernel *k,
                      const tpi_value *v, int o, const tpi_value *made)
{
    const tpi_kernel *maker = &p->kernels[made->kernel];
    bool same = true;
    for (int i = 0; i < s->n_outer + !s->images && same; i++) {
        const bool row = i == s->n_outer;
        const int a = tpi_axis_read(p, k, v, o, row ? k->row : i);
        same = (row ? s->rows : s->outer[i]) == 1 ||
               (a >= 0 && tpi_space_axis(maker, made, a) == (row ? maker->row : i));
    }
    return same;
}

/* Can k be computed after what the kernels from `first` on have made of a box? */
static bool reads_boxes(tpi_plan *p, const space *s, int first, tpi_kernel *k)
{
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    bool fits = true;
    for (int i = 0; i < (k->n_nodes ? k->n_nodes : 1); i++) {
        const tpi_value *v = &p->values[nodes[i]];
        for (int o = 0; o < v->node->n_in && fits; o++) {
            const tpi_value *made = &p->values[p->values[v->node->in[o]->index].layout.root];
            if (made->kernel < first || made->kernel == v->kernel)
                continue;
            k->reads |= s->images ? 0 : 1u << (made->kernel - first);
            fits = reads_box(p, s, k, v, o, made);
        }
    }
    return fits;
}

/* ---- bands ----------------------------------------------------------------------------------------- */

/* Makes kernel `at` a part of the band or microbatch from `first` on; false: it cannot be, or reads nothing of the
 * band, and may run beside it. */
static bool joins(tpi_plan *p, const space *s, int first, int at)
{
    tpi_kernel *k = &p->kernels[at];
    int row;
    const bool fits = has_space(p, k, s, &row);
    if (!s->images) {
        k->row = row;
        k->reads = 0;
    }
    return fits && (s->images || at - first < TPI_MAX_BAND) && reads_boxes(p, s, first, k) &&
           (s->images || at == first || k->reads);
}

static int length(tpi_plan *p, const space *s, int first)
{
    int n = 0;
    while (first + n < p->n_kernels && joins(p, s, first, first + n))
        n++;
    return n;
}

/* Spaces that kernel k has: those of convolutions, with the space of channels last, or that of matrices. */
enum { MOST_SPACES = 2 };
static int spaces_of(const tpi_plan *p, const tpi_kernel *k, space s[MOST_SPACES])
{
    const int64_t *size;
    const int rank = axes_of(p, k, &size);
    const bool conv = is_conv(root_of(p, k));
    int n = 0;
    if (!has_parts(p, k))
        return 0;
    if (rank > 3 && (conv || k->kind == TPI_KERNEL_LOOP))
        s[n++] = (space){.n_outer = 1, .outer = {size[0]}, .rows = size[2]};
    if (conv) {
        s[n] = (space){.n_outer = 1, .outer = {size[0]}, .rows = size[1], .channels = true};
        return has_channels(root_of(p, k)) ? n + 1 : n;
    }
    s[n] = (space){.n_outer = rank - 2, .rows = size[rank - 2]};
    memcpy(s[n].outer, size, (size_t)(rank - 2) * sizeof *size);
    return n + 1;
}

/* Is x larger, where all sizes that only a run knows are alike? */
static bool is_larger(const tp_tensor *x, const tp_tensor *y)
{
    double elements[2] = {1, 1};
    for (int i = 0; i < 2; i++)
        for (int a = 0; a < (i ? y : x)->rank; a++) {
            const int64_t size = (i ? y : x)->shape[a];
            elements[i] *= tpi_dim_is_symbolic(size) ? 1 : (double)size;
        }
    return elements[0] > elements[1];
}

/* Of a band that ends before a depthwise convolution: how much of it should run, that the rest is with that
 * one in a band over channels. It is if more goes on there than where the band is cut. */
static int before_channels(tpi_plan *p, const tpi_plan_step *step)
{
    const int end = step->first + step->n;
    const tp_tensor *t = end < p->n_kernels ? root_of(p, &p->kernels[end]) : NULL;
    if (!t || p->kernels[end].kind != TPI_KERNEL_CALL || !keeps_channels(t))
        return step->n;
    for (int at = end - 1; at > step->first; at--) {
        const tpi_kernel *k = &p->kernels[at];
        space s[MOST_SPACES];
        const int n = spaces_of(p, k, s);
        if (k->kind == TPI_KERNEL_CALL && n > 0 && s[n - 1].channels &&
            at + length(p, &s[n - 1], at) > end && is_larger(t->in[0], root_of(p, k)->in[0]))
            return at - step->first;
    }
    return step->n;
}

/* A band over channels is for the depthwise convolutions behind its first kernel. */
static bool is_worth_it(const tpi_plan *p, const space *s, int first, int n)
{
    bool is = !s->channels;
    for (int i = first + 1; i < first + n; i++)
        is |=
            p->kernels[i].kind == TPI_KERNEL_CALL && keeps_channels(root_of(p, &p->kernels[i]));
    return is;
}

/* The longest band from kernel `first` on, or that kernel. */
static tpi_plan_step step_at(tpi_plan *p, int first)
{
    space s[MOST_SPACES];
    tpi_plan_step best = {.first = first, .n = 1};
    const int n = spaces_of(p, &p->kernels[first], s);
    int chosen = -1;
    for (int i = 0; i < n; i++) {
        const int len = length(p, &s[i], first);
        if (len > best.n && is_worth_it(p, &s[i], first, len)) {
            best = (tpi_plan_step){.first = first, .n = len, .n_outer = s[i].n_outer};
            chosen = i;
        }
    }
    if (chosen < 0)
        return best;
    if (!s[chosen].channels)
        best.n = before_channels(p, &best);
    length(p, &s[chosen], first); /* what the others left there */
    best.n_outer = best.n > 1 ? best.n_outer : 0;
    return best;
}

bool tpi_plan_steps(tpi_plan *p, bool bands)
{
    p->steps = tpi_bump_take(&p->whole->memory, (size_t)p->n_kernels, sizeof *p->steps);
    if (!p->steps)
        return false;
    for (int at = 0; at < p->n_kernels; at += p->steps[p->n_steps++].n) {
        p->steps[p->n_steps] = bands ? step_at(p, at) : (tpi_plan_step){.first = at, .n = 1};
        for (int k = 0; k < p->steps[p->n_steps].n; k++)
            p->kernels[at + k].step = p->n_steps;
    }
    return true;
}

void tpi_plan_whole_steps(tpi_plan *p)
{
    for (int i = 0; i < p->n_buffers; i++) {
        tpi_buffer *b = &p->buffers[i];
        if (b->storage == TPI_IN_SOURCE)
            continue;
        const tpi_plan_step *last = &p->steps[p->kernels[b->last].step];
        b->first = p->steps[p->kernels[b->first].step].first;
        b->last = last->first + last->n - 1;
    }
}

/* ---- microbatches ---------------------------------------------------------------------------------- */

static bool step_joins(tpi_plan *p, const space *s, int first, const tpi_plan_step *step)
{
    bool fits = !tpi_is_band(step) || step->n_outer == 1;
    for (int i = step->first; i < step->first + step->n && fits; i++)
        fits = joins(p, s, first, i);
    return fits;
}

/* How many steps from step `at` on. */
static int images_from(tpi_plan *p, int at)
{
    const int64_t *size;
    const int first = p->steps[at].first;
    int n = 0;
    if (!has_parts(p, &p->kernels[first]))
        return 0;
    axes_of(p, &p->kernels[first], &size);
    const space s = {.n_outer = 1, .outer = {size[0]}, .images = true};
    while (at + n < p->n_steps && size[0] != 1 && step_joins(p, &s, first, &p->steps[at + n]))
        n++;
    return n;
}

static bool has_conv(const tpi_plan *p, const tpi_plan_step *s)
{
    bool any = false;
    for (int k = s->first; k < s->first + s->n; k++)
        any |= is_conv(root_of(p, &p->kernels[k]));
    return any;
}

/* Only with a convolution it is worth looking at. */
void tpi_plan_microbatches(tpi_plan *p)
{
    int end = 0;
    for (int first = 0; first < p->n_steps; first = end) {
        const int n = images_from(p, first);
        bool worth = false;
        end = first + (n > 1 ? n : 1);
        for (int i = first; i < end && n > 1; i++)
            worth |= has_conv(p, &p->steps[i]);
        for (int i = first; i < end && worth; i++)
            p->steps[i].images = first + 1;
    }
}
