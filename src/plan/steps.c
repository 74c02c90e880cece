/* Which kernels run together.
 *
 * A band begins at a kernel and goes on for as long as the next one fits: it has the same space of
 * outer places and rows, and reads what the band makes at the place and row that it computes, along
 * other axes wherever it likes:
 *
 *     k0 = matmul q kt, k1 = softmax k0, k2 = matmul k1 v        rows are those of q
 *     k0 = conv x w, k1 = relu (k0 + b), k2 = conv1x1 k1 v       rows are output rows, of all channels
 *     k0 = conv x w, k1 = relu (k0 + b), k2 = depthwise k1 v     rows are channels
 *
 * How much of a band is worth running together depends on sizes, which a run knows
 * (kernel/host/band_host.c). */
#include "ir/factors.h"
#include "plan/plan.h"

#include <string.h>

/* A space: the first `outer` axes, and where the rows are, of a kernel's iteration space or result. */
typedef struct space {
    int n_outer;
    int64_t outer[TP_MAX_RANK], rows;
    bool whole;    /* outer places have no rows: that of a microbatch, of one axis */
    bool channels; /* of images: these are the rows */
} space;

/* How memory is reached over axes of which the first are outer ones. */
typedef struct access {
    int rank, row; /* -1: there is none */
    int64_t offset, size[TP_MAX_RANK], stride[TP_MAX_RANK];
} access;

static const tp_tensor *root_of(const tpi_plan *p, const tpi_kernel *k)
{
    return p->values[k->root].node;
}

static bool is_conv(const tp_tensor *t)
{
    return (t->op == &tpi_op_conv || t->op == &tpi_op_conv_dx) && t->rank > 3;
}

/* Is channel i of the result made of channel i of the operand? */
static bool keeps_channels(const tp_tensor *t)
{
    return t->op == &tpi_op_conv && tpi_passed_from(t, 0, 1) == 1;
}

/* Can it compute some of its channels? */
static bool has_channels(const tp_tensor *t)
{
    return t->op == &tpi_op_conv && t->rank > 3 &&
           (tpi_attr_int(t, "groups") == 1 || keeps_channels(t));
}

static bool is_product(const tp_tensor *t)
{
    return t->op == &tpi_op_matmul && t->dtype >= TP_F32;
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

/* The axis of rows of k in this space; -1: it does not have it. */
static int row_axis(const tpi_plan *p, const tpi_kernel *k, const space *s)
{
    const int64_t *size;
    const tp_tensor *t = root_of(p, k);
    const int rank = axes_of(p, k, &size), fixed = s->channels ? 1 : is_conv(t) ? 2 : rank - 2;
    if (!has_parts(p, k) || rank <= s->n_outer ||
        memcmp(size, s->outer, (size_t)s->n_outer * sizeof *size) != 0)
        return -1;
    if (k->reduced & ((1u << s->n_outer) - 1))
        return -1;
    if (k->kind == TPI_KERNEL_CALL) {
        const bool fits = s->channels  ? has_channels(t)
                          : is_conv(t) ? s->n_outer == 1
                                       : s->n_outer <= fixed;
        return fits && size[fixed] == s->rows ? fixed : -1;
    }
    for (int a = s->n_outer; a < rank; a++)
        if (size[a] == s->rows && !((k->reduced >> a) & 1))
            return a;
    return -1;
}

/* ---- what is read ---------------------------------------------------------------------------------- */

/* How a result of a kernel lies over the axes of its iteration space. */
static void made_by(const tpi_plan *p, const space *s, const tpi_kernel *k, int result,
                    access *a)
{
    const tpi_value *v = &p->values[result];
    const int64_t *size;
    a->row = s->whole ? -1 : k->row;
    a->rank = axes_of(p, k, &size);
    a->offset = 0;
    memcpy(a->size, size, (size_t)a->rank * sizeof *size);
    if (k->kind == TPI_KERNEL_LOOP)
        tpi_domain_strides(k, v, v->layout.stride, a->stride);
    else
        memcpy(a->stride, v->layout.stride, sizeof a->stride);
}

static bool same_place(const access *made, const access *read, int m, int r)
{
    return made->stride[m] == read->stride[r] || made->size[m] == 1;
}

/* Every axis but the space's is one of the result's, or broadcast, or of size 1. */
static bool reads_whole_axes(const space *s, const access *made, const access *read)
{
    unsigned taken = 0;
    for (int r = s->n_outer; r < read->rank; r++) {
        if (r == read->row || read->stride[r] == 0 || read->size[r] == 1)
            continue;
        int m = s->n_outer;
        while (m < made->rank &&
               (m == made->row || (taken >> m) & 1 || made->stride[m] != read->stride[r] ||
                made->size[m] != read->size[r]))
            m++;
        if (m == made->rank)
            return false;
        taken |= 1u << m;
    }
    return read->offset == 0;
}

/* Rows, or whole places, lie one after the other, and what is read of one is within it. */
static bool reads_in_row(const space *s, const access *made, const access *read)
{
    int64_t end = read->offset;
    const int64_t step = made->stride[s->whole ? 0 : made->row];
    bool known = (s->whole || made->row == s->n_outer) && !tpi_dim_is_symbolic(step) &&
                 step > 0 && !tpi_dim_is_symbolic(end) && end >= 0;
    for (int r = s->n_outer; r < read->rank && known; r++) {
        if (r == read->row || read->stride[r] == 0)
            continue;
        known = !tpi_dim_is_symbolic(read->stride[r]) && read->stride[r] > 0 &&
                !tpi_dim_is_symbolic(read->size[r]) && read->size[r] > 0;
        end += known ? read->stride[r] * (read->size[r] - 1) : 0;
    }
    return known && end < step;
}

static bool reads_its_place(const space *s, const access *made, const access *read)
{
    bool same = s->whole || same_place(made, read, made->row, read->row);
    for (int a = 0; a < s->n_outer; a++)
        same &= same_place(made, read, a, a);
    return same && (reads_whole_axes(s, made, read) || reads_in_row(s, made, read));
}

/* The member of the band from kernel `first` on that makes the memory; -1: it is older. */
static int member_of(const tpi_plan *p, int first, int root)
{
    const int kernel = p->values[root].kernel;
    return kernel >= first ? kernel - first : -1;
}

/* All places of a microbatch see a buffer as a whole, or each its own place. */
static bool sees(tpi_plan *p, const space *s, int root, int64_t stride)
{
    const tpi_value *v = &p->values[root];
    if (v->buffer < 0)
        return true;
    tpi_buffer *b = &p->buffers[v->buffer];
    const bool own =
        stride != 0 && v->node->shape[0] == s->outer[0] && v->layout.stride[0] == stride;
    if (b->seen == TPI_UNSEEN)
        b->seen = own ? TPI_OWN_PLACE : TPI_ALL_PLACES;
    return (own || stride == 0) && own == (b->seen == TPI_OWN_PLACE);
}

/* An operand of k, reached as `read` says, over k's axes. */
static bool takes(tpi_plan *p, const space *s, int first, tpi_kernel *k, int root,
                  const access *read)
{
    const int member = member_of(p, first, root);
    access made;
    if (s->whole && !sees(p, s, root, read->stride[0]))
        return false;
    if (member < 0)
        return true;
    made_by(p, s, &p->kernels[first + member], root, &made);
    if (!s->whole)
        k->reads |= 1u << member;
    return reads_its_place(s, &made, read);
}

static bool takes_nodes(tpi_plan *p, const space *s, int first, tpi_kernel *k)
{
    bool fits = true;
    for (int i = 0; i < k->n_nodes && fits; i++) {
        const tpi_value *v = &p->values[k->nodes[i]];
        for (int o = 0; o < v->node->n_in && fits; o++) {
            tpi_layout l;
            access read = {.rank = k->rank, .row = s->whole ? -1 : k->row};
            tpi_operand_layout(p, v->node, o, &l);
            if (p->values[l.root].kernel == v->kernel ||
                p->values[l.root].storage == TPI_IN_LITERAL)
                continue;
            read.offset = l.offset;
            memcpy(read.size, k->shape, sizeof read.size);
            if (v->node->op->kind == TPI_REDUCE)
                memcpy(read.stride, l.stride, sizeof read.stride);
            else
                tpi_domain_strides(k, v, l.stride, read.stride);
            fits = takes(p, s, first, k, l.root, &read);
        }
    }
    return fits;
}

/* Is row i of the result made of row i of the operand? */
static bool keeps_rows(const tp_tensor *conv)
{
    return tpi_passed_from(conv, 0, 2) == 2;
}

/* The left operand may be of the band, the right one is read whole. */
static bool takes_operands(tpi_plan *p, const space *s, int first, tpi_kernel *k)
{
    const tp_tensor *t = root_of(p, k), *x = t->in[0];
    const tpi_layout *l = &p->values[x->index].layout;
    access read = {.rank = x->rank, .row = s->whole ? -1 : k->row, .offset = l->offset};
    memcpy(read.size, x->shape, sizeof read.size);
    memcpy(read.stride, l->stride, sizeof read.stride);
    if (member_of(p, first, p->values[t->in[1]->index].layout.root) >= 0)
        return false;
    if (s->whole)
        return x->shape[0] == t->shape[0] &&
               sees(p, s, p->values[t->in[1]->index].layout.root, 0) &&
               takes(p, s, first, k, l->root, &read);
    if (member_of(p, first, l->root) < 0)
        return true;
    bool same = x->rank == t->rank && x->shape[k->row] == t->shape[k->row];
    for (int a = 0; a < s->n_outer && same; a++)
        same = x->shape[a] == t->shape[a];
    same &= !is_conv(t) || (s->channels ? keeps_channels(t) : keeps_rows(t));
    return same && takes(p, s, first, k, l->root, &read);
}

/* ---- bands ----------------------------------------------------------------------------------------- */

/* Makes kernel `at` a part of the band from `first` on; false: it cannot be, or reads nothing of the band, and
 * may run beside it. */
static bool joins(tpi_plan *p, const space *s, int first, int at)
{
    tpi_kernel *k = &p->kernels[at];
    k->row = row_axis(p, k, s);
    k->reads = 0;
    if (k->row < 0 || at - first >= TPI_MAX_BAND)
        return false;
    const bool takes = k->kind == TPI_KERNEL_LOOP ? takes_nodes(p, s, first, k)
                                                  : takes_operands(p, s, first, k);
    return takes && (at == first || k->reads);
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
    p->steps_size = p->n_kernels;
    p->steps = tpi_take(&p->graph->ctx->mem, (size_t)p->steps_size * sizeof *p->steps);
    if (!p->steps) {
        p->steps_size = 0;
        tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
        return false;
    }
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

/* Does the kernel leave a place of each result for each place that it computes? */
static bool leaves_places(tpi_plan *p, const space *s, const tpi_kernel *k)
{
    bool fits = true;
    for (int i = 0; i < (k->n_nodes ? k->n_nodes : 1) && fits; i++) {
        const int node = k->n_nodes ? k->nodes[i] : k->root;
        access made;
        if (p->values[node].buffer < 0)
            continue;
        made_by(p, s, k, node, &made);
        fits = made.stride[0] != 0 && sees(p, s, node, made.stride[0]);
    }
    return fits;
}

static bool joins_microbatch(tpi_plan *p, const space *s, int first, tpi_kernel *k)
{
    const int64_t *size;
    const bool call = k->kind == TPI_KERNEL_CALL;
    if (!has_parts(p, k) || (call && !is_conv(root_of(p, k))))
        return false;
    axes_of(p, k, &size);
    return size[0] == s->outer[0] && !(k->reduced & 1) && leaves_places(p, s, k) &&
           (call ? takes_operands(p, s, first, k) : takes_nodes(p, s, first, k));
}

static bool step_joins_microbatch(tpi_plan *p, const space *s, int first, int at)
{
    const tpi_plan_step *step = &p->steps[at];
    bool fits = !tpi_is_band(step) || step->n_outer == 1;
    for (int i = 0; i < step->n && fits; i++)
        fits = joins_microbatch(p, s, first, &p->kernels[step->first + i]);
    return fits;
}

/* Steps from step `at` on. Only with a convolution it is worth looking at. */
static tpi_microbatch microbatch_at(tpi_plan *p, int at)
{
    const int64_t *size;
    const int first = p->steps[at].first;
    tpi_microbatch m = {.first = at, .n = 0};
    if (!has_parts(p, &p->kernels[first]))
        return m;
    axes_of(p, &p->kernels[first], &size);
    m.places = size[0];
    const space s = {.n_outer = 1, .outer = {size[0]}, .whole = true};
    while (at + m.n < p->n_steps && m.places != 1 &&
           step_joins_microbatch(p, &s, first, at + m.n))
        m.n++;
    return m;
}

static bool has_conv(const tpi_plan *p, const tpi_microbatch *m)
{
    bool any = false;
    const tpi_plan_step *last = &p->steps[m->first + m->n - 1];
    for (int i = p->steps[m->first].first; i < last->first + last->n && !any; i++)
        any = is_conv(root_of(p, &p->kernels[i]));
    return any;
}

static bool add_microbatch(tpi_plan *p, tpi_microbatch m)
{
    if (!p->micro) {
        p->micro_size = p->n_steps / 2;
        p->micro = tpi_take(&p->graph->ctx->mem, (size_t)p->micro_size * sizeof *p->micro);
        if (!p->micro) {
            p->micro_size = 0;
            tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
            return false;
        }
    }
    p->micro[p->n_micro++] = m;
    const tpi_plan_step *last = &p->steps[m.first + m.n - 1];
    for (int i = p->steps[m.first].first; i < last->first + last->n; i++)
        p->kernels[i].by_place = true;
    return true;
}

bool tpi_plan_microbatches(tpi_plan *p)
{
    bool ok = true;
    for (int at = 0; at < p->n_steps && ok;) {
        const tpi_microbatch m = microbatch_at(p, at);
        if (m.n > 1 && has_conv(p, &m))
            ok = add_microbatch(p, m);
        at += m.n > 1 ? m.n : 1;
    }
    return ok;
}
