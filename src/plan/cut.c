/* Bands and microbatches: how much of them is worth running together, and what lies where then. */
#include "plan/cut.h"

#include "base/log.h"
#include "ir/factors.h"
#include "op/contractions.h"
#include "op/window.h"
#include "plan/work.h"

#include <string.h>

/* ---- what members of a band take --------------------------------------------------------------------------- */

/* A band at the sizes of a run. */
typedef struct band {
    tpi_cuts *c;
    const tpi_plan *plan;
    const tpi_plan_step *step;
    tpi_run_sizes sizes;
    int64_t outer, rows;
    bool channels; /* rows are those of convolutions */
} band;

/* One of its kernels. A row is one row of the band's space. */
typedef struct member {
    double work;      /* multiply-adds, or other work that takes as long */
    double made;      /* bytes of its result, per row */
    double again;     /* bytes that every box reads again: weights */
    double per_outer; /* and that boxes of one outer place do: a right operand, an image */
    int64_t least;    /* how many rows a box should have at least */
    int64_t step;     /* and of which its rows are a multiple; a convolution has no fewer */
    int64_t grain;  /* the rows of a box have to be a multiple of this; 0: any number will do */
    bool under;     /* another result is written over its own, and has the memory */
    uint32_t reads; /* the members whose results it reads, as bits */
} member;

static const tp_tensor *root_of(const band *b, const tpi_kernel *k)
{
    return b->plan->values[k->root].node;
}

static double size_at(const band *b, int64_t dim)
{
    return (double)tpi_size_at(&b->sizes, dim);
}

static double element_bytes(const tp_tensor *t)
{
    return (double)tp_dtype_size((tp_dtype)t->dtype);
}

static const int64_t *shape_of(const tpi_plan *plan, const tpi_kernel *k)
{
    return k->kind == TPI_KERNEL_LOOP ? k->shape : plan->values[k->root].node->shape;
}

/* t without elements, at the sizes of the run. */
static tp_tensor view_at(const band *b, const tp_tensor *t)
{
    const tpi_layout *l = &b->plan->values[t->index].layout;
    tp_tensor view = {.dtype = t->dtype, .rank = t->rank};
    tpi_shape_at(&b->sizes, t, view.shape);
    for (int i = 0; i < t->rank; i++)
        view.stride[i] = tpi_dim_eval_stride(b->sizes.dims, l->stride[i], b->sizes.symbols);
    return view;
}

/* What a contraction is handed, at the sizes of the run. */
static tpi_contraction contraction_at(const band *b, const tpi_kernel *k)
{
    const tp_tensor *t = root_of(b, k);
    tp_tensor in[2] = {view_at(b, t->in[0]), view_at(b, t->in[1])}, out = view_at(b, t);
    const tpi_run run = {
        .op = t->op,
        .n_in = 2,
        .in = (tp_tensor *[]){&in[0], &in[1]},
        .attrs = t->attrs,
        .out = &out
    };
    const void *packed = tpi_packed_operand(b->plan, t) == 1 ? b : NULL; /* somewhere */
    tpi_contraction c;
    t->op->contract(&run, &c);
    if (!c.is_conv) {
        c.products.packed_b = packed;
    } else {
        c.conv.packed_w = packed;
        if (packed && c.conv.spec.winograd)
            c.conv.spec.winograd = TPK_WINOGRAD_PACKED;
    }
    return c;
}

/* Bytes of a row of the result. */
static double bytes_of_row(const band *b, const tpi_kernel *k)
{
    const tpi_value *v = &b->plan->values[k->root];
    double bytes = element_bytes(v->node);
    for (int i = 0; i < v->node->rank; i++) {
        const int a = tpi_space_axis(k, v, i);
        bytes *= a >= b->step->n_outer && a != k->row ? size_at(b, v->node->shape[i]) : 1;
    }
    return bytes;
}

/* Operand o of a call, if boxes have no part of it. */
static void note_again(const band *b, const tpi_kernel *k, int o, member *m)
{
    const tp_tensor *t = root_of(b, k), *x = t->in[o];
    const int64_t *stride = b->plan->values[x->index].layout.stride;
    tpi_factor f[TP_MAX_RANK];
    bool varies = false;
    double bytes = element_bytes(t);
    tpi_factors_of(t, o, f);
    for (int a = 0; a < x->rank; a++) {
        const bool cut = f[a].use == TPI_AXIS_PASSED || f[a].use == TPI_AXIS_WINDOWED;
        const bool outer = cut && f[a].id < b->step->n_outer;
        if (cut && f[a].id == k->row)
            return;
        varies |= outer && x->shape[a] != 1 && stride[a] != 0;
        bytes *= outer || stride[a] == 0 ? 1 : size_at(b, x->shape[a]);
    }
    *(varies ? &m->per_outer : &m->again) += bytes;
}

/* Rows that a box should have: some tiles of a product; of a convolution so many pixels that each channel
 * is a stream, and as many rows as are computed together where windows overlap. */
static void note_least(const band *b, const tpi_kernel *k, member *m)
{
    enum { ROWS = 32, PIXELS = 512, TOGETHER = 4 };
    const tp_tensor *t = root_of(b, k);
    const tpi_contraction c = contraction_at(b, k);
    if (!c.is_conv) {
        m->least = ROWS;
    } else if (!b->channels) {
        m->step = t->in[1]->shape[2] != 1 ? TOGETHER : 1;
        m->least = m->step + PIXELS / (1 + tpi_size_at(&b->sizes, t->shape[t->rank - 1]));
        m->grain = c.conv.spec.winograd ? TOGETHER : 0; /* whole tiles */
    } else if (tpi_passed_from(t, 0, 1) != 1) {         /* it reads all channels */
        m->step = t->op->convolving->channel_step(b->c->what.team->kernels, &c.conv);
        m->least = m->grain = m->step;
    }
}

static member member_at(const band *b, int i)
{
    const tpi_kernel *k = &b->plan->kernels[b->step->first + i];
    member m = {.made = bytes_of_row(b, k),
                .reads = k->reads,
                .under = tpi_lies_under(&b->plan->values[k->root])};
    if (k->kind == TPI_KERNEL_CALL) {
        m.work = tpi_node_flops(&b->sizes, root_of(b, k)) / 2;
        note_again(b, k, 0, &m);
        note_again(b, k, 1, &m);
        note_least(b, k, &m);
    } else {
        m.work = TPI_NEST_OP * k->n_nodes;
        for (int a = 0; a < k->rank; a++)
            m.work *= size_at(b, k->shape[a]);
    }
    return m;
}

/* ---- boxes of a band ------------------------------------------------------------------------------------------ */

/* Sums over members. */
typedef struct sums {
    double work, again, per_outer;
    double row;    /* bytes made per row */
    double passed; /* and those of them that another member reads, once per reader, */
    double far;    /* where more is made in between than stays near */
    int64_t least, step, finest, grain;
} sums;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double near_bytes(const band *b)
{
    return (double)b->c->what.ctx->near_bytes;
}

static double all_rows(const band *b)
{
    return (double)b->outer * (double)b->rows;
}

/* Adds member i to what was added up of those from `first` on. */
static void add_member(const band *b, const member *v, int first, int i, sums *s)
{
    const double near = 2 * near_bytes(b) / all_rows(b);
    const member *m = &v[i];
    const double own = m->under ? 0 : m->made;
    double between = own; /* made from k to i */
    s->work += m->work;
    s->again += m->again;
    s->per_outer += m->per_outer;
    s->least = larger(m->least, s->least);
    s->step = larger(m->step, s->step);
    s->grain = larger(m->grain, s->grain);
    s->finest = larger(m->step ? m->step : m->least, s->finest);
    s->row += own;
    for (int k = i - 1; k >= first; k--) {
        const double passed = (m->reads >> k) & 1 ? v[k].made : 0;
        between += v[k].under ? 0 : v[k].made;
        s->passed += passed;
        s->far += between > near ? passed : 0;
    }
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Does what the members make of a box stay near? */
static bool stays_near(const band *b, const sums *s, const tpi_boxes *x)
{
    return s->row * (double)(x->outer * x->rows) <= 2 * near_bytes(b);
}

static tpi_boxes one_box(const band *b)
{
    return (tpi_boxes){.all_outer = b->outer,
                       .all_rows = b->rows,
                       .channels = b->channels,
                       .outers = 1,
                       .row_parts = 1,
                       .outer = b->outer,
                       .rows = b->rows};
}

static void set_outer(tpi_boxes *x, int64_t outer)
{
    x->outer = outer;
    x->outers = ceil_div(x->all_outer, outer);
}

/* A box for each of so many threads. */
static tpi_boxes cut_evenly(const band *b, const sums *s, int64_t threads)
{
    tpi_boxes x = one_box(b);
    set_outer(&x, ceil_div(b->outer, threads));
    if (x.outer == 1) {
        const int64_t left = threads / x.outers, most = b->rows / s->finest;
        const int64_t rows = ceil_div(b->rows, most < 1 ? 1 : left < most ? left : most);
        x.rows = x.step = ceil_div(rows, s->grain) * s->grain;
        x.row_parts = ceil_div(b->rows, x.step);
    }
    return x;
}

/* So many rows to a box, or outer places of as many rows. */
static tpi_boxes cut_by_rows(const band *b, const sums *s, int64_t rows)
{
    tpi_boxes x = one_box(b);
    x.folds = true;
    if (rows >= b->rows) {
        const int64_t outer = rows / b->rows;
        set_outer(&x, outer < b->outer ? outer : b->outer);
    } else {
        set_outer(&x, 1);
        x.step = rows > s->step ? rows / s->step * s->step : rows;
        x.row_parts = b->rows / x.step;
        x.rows = b->rows - (x.row_parts - 1) * x.step;
    }
    return x;
}

/* Boxes of the wished size, but enough of them for the threads that the work is worth. */
static tpi_boxes cut_small(const band *b, const sums *s, int64_t threads)
{
    const double wish = near_bytes(b) / (s->row + 1), each = all_rows(b) / (double)threads;
    return cut_by_rows(b, s, larger((int64_t)(wish < each ? wish : each), s->least));
}

/* Rows of an outer place in which threads can have their boxes: all of the greatest one's size. */
static int64_t homes_per_outer(const tpi_boxes *x)
{
    return x->row_parts > 1 ? x->all_rows / x->rows : 1;
}

/* Boxes that can run side by side. */
static int64_t homes(const tpi_boxes *x)
{
    return !x->folds          ? x->outers * x->row_parts
           : x->row_parts > 1 ? x->all_outer * homes_per_outer(x)
                              : x->all_outer / x->outer;
}

/* Bytes that need not come from beyond the second cache when these members run together over the
 * boxes x, less those that come from there again since every box reads them: 0 when fewer boxes can
 * run side by side than threads could share the work. What a member leaves is written and read
 * again; what all boxes read stays near beside a box when both fit. Where all of a thread stays near
 * anyway, what would else lie with another one is saved: it is waited for, and weights are fetched
 * ahead. */
static double saved_by_boxes(const band *b, const sums *s, const tpi_boxes *x, int64_t threads)
{
    const double far = 2 * s->far, others = 12 * s->passed;
    const int64_t parts = x->outers * x->row_parts;
    const double part = s->row * (double)(x->outer * x->rows);
    if (parts < 2 || homes(x) < threads || !stays_near(b, s, x))
        return 0;
    const bool stays = part + s->again + s->per_outer <= 2 * near_bytes(b);
    const double again = stays ? 0
                               : s->again * (double)(parts - 1) +
                                     s->per_outer * (double)(b->outer * (x->row_parts - 1));
    return (x->folds ? far : others * (1 - 1 / (double)threads)) * all_rows(b) - again;
}

/* Of the members from `first` on, those that save most together. */
static void cut_by_worth(const band *b, const member *v, int first, tpi_plan_cut *best)
{
    sums s = {.least = 1, .step = 1, .finest = 1, .grain = 1};
    double most = 0;
    add_member(b, v, first, first, &s);
    for (int n = 2; first + n <= b->step->n && b->outer > 0 && b->rows > 0; n++) {
        add_member(b, v, first, first + n - 1, &s);
        const int64_t threads = tpi_team_parts(b->c->what.team, s.work);
        tpi_boxes x = cut_evenly(b, &s, threads);
        if (!stays_near(b, &s, &x))
            x = cut_small(b, &s, threads);
        const double gain = saved_by_boxes(b, &s, &x, threads);
        if (gain > most) {
            most = gain;
            best->n = n;
            best->boxes = x;
            best->threads = (int)threads;
        }
    }
}

static int64_t draw(tpi_cuts *c, int64_t n)
{
    c->what.chance = c->what.chance * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((c->what.chance >> 33) % (uint64_t)n);
}

/* Some members, in boxes of any size that they can have. */
static void cut_by_chance(const band *b, const member *v, int first, tpi_plan_cut *drawn)
{
    tpi_cuts *c = b->c;
    sums s = {.least = 1, .step = 1, .finest = 1, .grain = 1};
    if (first + 1 >= b->step->n || b->outer <= 0 || b->rows <= 0)
        return;
    drawn->n = 2 + (int)draw(c, b->step->n - first - 1);
    for (int i = first; i < first + drawn->n; i++)
        add_member(b, v, first, i, &s);
    s.step = s.grain;
    const int64_t rows = s.grain * (1 + draw(c, 2 * ceil_div(b->rows, s.grain)));
    drawn->boxes = cut_by_rows(b, &s, rows);
    drawn->boxes.folds = draw(c, 2);
    drawn->threads = tpi_pool_threads(c->what.team->pool);
}

tpk_part tpi_box_part(const tpi_boxes *x, int64_t number)
{
    const int64_t o = number / x->row_parts * x->outer, r = number % x->row_parts;
    return (tpk_part){.o0 = o,
                      .o1 = o + x->outer < x->all_outer ? o + x->outer : x->all_outer,
                      .r0 = r * x->step,
                      .r1 = r + 1 < x->row_parts ? (r + 1) * x->step : x->all_rows,
                      .outer = x->all_outer,
                      .channels = x->channels};
}

/* ---- a band ----------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Scratch memory that a thread needs for boxes of kernel k; what it keeps from one to the next is added to *keeps. */
static size_t box_room(const band *b, const tpi_kernel *k, const tpi_boxes *x, size_t *keeps)
{
    const tpi_kernels *kernels = b->c->what.team->kernels;
    const tpk_library *l = kernels->library;
    size_t most = 0;
    if (k->kind == TPI_KERNEL_LOOP)
        return b->c->what.nest_room;
    const tpi_contraction c = contraction_at(b, k);
    if (!c.is_conv) {
        const tpk_products *p = &c.products;
        *keeps += tpi_products_kept(l, p, x->rows) * (size_t)(tpi_products_count(p) / b->outer);
        return (p->f64 ? l->gemm_ws_f64 : l->gemm_ws_f32)(x->rows, p->n, p->k);
    }
    for (int64_t i = 0; i < x->outers * x->row_parts; i++) {
        const tpk_part part = tpi_box_part(x, i);
        const size_t ws = root_of(b, k)->op->convolving->part_ws(kernels, &c.conv, &part);
        most = ws > most ? ws : most;
    }
    return most;
}

static size_t room_of(const band *b, int first, const tpi_plan_cut *cut)
{
    size_t each = 0, keeps = 0;
    for (int i = first; i < first + cut->n; i++) {
        const tpi_kernel *k = &b->plan->kernels[b->step->first + i];
        const size_t room = box_room(b, k, &cut->boxes, &keeps);
        each = room > each ? room : each;
    }
    return b->c->pointers + round_up(each) + keeps;
}

/* What only these kernels see of kernel k has the same memory in all boxes of a thread, so that it stays in the
 * cache and is never written back. */
static void add_moves(const tpi_plan *plan, const tpi_run_sizes *sizes, int n_outer, int k,
                      tpi_plan_cut *cut)
{
    const tpi_kernel *kernel = &plan->kernels[k];
    const int *nodes = kernel->n_nodes ? kernel->nodes : &kernel->root;
    const int first = cut->first - plan->first_kernel;
    for (int i = 0; i < (kernel->n_nodes ? kernel->n_nodes : 1); i++) {
        const tpi_value *v = &plan->values[nodes[i]];
        const int since = nodes[i] == kernel->root ? kernel->since : k;
        const int64_t size = (int64_t)element_bytes(v->node);
        if (v->storage != TPI_IN_ARENA || v->over >= 0 || since < first ||
            v->last >= first + cut->n)
            continue;
        tpi_buffer_move *m = &cut->moves[cut->n_moves++];
        *m = (tpi_buffer_move){plan->first_buffer + v->buffer, 0, 0};
        for (int a = 0; a < v->node->rank; a++) {
            const int axis = tpi_space_axis(kernel, v, a);
            const int64_t bytes = size * tpi_size_at(sizes, v->layout.stride[a]);
            m->outer = axis >= 0 && axis == n_outer - 1 ? bytes : m->outer;
            m->row = axis >= 0 && axis == kernel->row ? bytes : m->row;
        }
    }
}

int64_t tpi_cuts_stride(tpi_cuts *c, int64_t jobs)
{
    static const int64_t primes[] = {1, 7919, 15485863};
    const int64_t stride = c->what.chance ? primes[draw(c, 3)] : 1;
    return jobs % stride ? stride : 1;
}

/* Makes *cut the one of the members from `first` on; its moves are written to `moves`. */
static void cut_from(const band *b, const member *v, int first, tpi_plan_cut *cut,
                     tpi_buffer_move *moves)
{
    tpi_cuts *c = b->c;
    *cut = (tpi_plan_cut){.first = b->plan->first_kernel + b->step->first + first,
                          .n = 1,
                          .moves = moves,
                          .late = cut->late};
    (c->what.chance ? cut_by_chance : cut_by_worth)(b, v, first, cut);
    if (cut->n == 1)
        return;
    const int64_t most = homes(&cut->boxes);
    cut->jobs = cut->boxes.outers * cut->boxes.row_parts;
    cut->stride = tpi_cuts_stride(c, cut->jobs);
    cut->threads = most < cut->threads ? (int)most : cut->threads;
    for (int i = 0; i < cut->n && cut->boxes.folds; i++)
        add_moves(b->plan, &b->sizes, b->step->n_outer, b->step->first + first + i, cut);
    cut->room = room_of(b, first, cut);
}

/* The cuts of a band have their memory. One that needs more than there is now, when sizes are late, is not
 * cut; else `scratch` is what all need. */
static void cut_band(tpi_cuts *c, const tpi_plan *plan, const tpi_plan_step *step,
                     const int64_t *symbols, bool has_room)
{
    member v[TPI_MAX_BAND];
    const tpi_kernel *k = &plan->kernels[step->first];
    const int64_t *shape = shape_of(plan, k);
    band b = {
        .c = c, .plan = plan, .step = step, .sizes = {c->what.sizes.dims, symbols},
                   .outer = 1
    };
    tpi_plan_cut **cuts = c->band + plan->first_kernel + step->first;
    for (int a = 0; a < step->n_outer && !c->in[plan->first_kernel + step->first]; a++)
        b.outer *= tpi_size_at(&b.sizes, shape[a]);
    b.rows = tpi_size_at(&b.sizes, shape[k->row]);
    for (int i = step->first; i < step->first + step->n; i++)
        b.channels |= plan->kernels[i].kind == TPI_KERNEL_CALL && plan->kernels[i].row == 1 &&
                      contraction_at(&b, &plan->kernels[i]).is_conv;
    for (int i = 0; i < step->n; i++)
        v[i] = member_at(&b, i);
    tpi_buffer_move *moves = (tpi_buffer_move *)(cuts[0] + step->n);
    for (int i = 0; i < step->n; i += cuts[i]->n) {
        cut_from(&b, v, i, cuts[i], moves);
        const size_t need = cuts[i]->room * (size_t)cuts[i]->threads;
        moves += cuts[i]->n_moves;
        if (need > c->scratch && has_room)
            cuts[i]->n = 1;
        else
            c->scratch = need > c->scratch ? need : c->scratch;
    }
}

/* Cuts, and room for all moves that they can have. */
static tpi_plan_cut *take_cuts(tpi_cuts *c, const tpi_plan *plan, int first, int n, size_t cuts)
{
    size_t moves = 0;
    for (int k = first; k < first + n; k++)
        moves += plan->kernels[k].n_nodes ? (size_t)plan->kernels[k].n_nodes : 1;
    return tpi_bump_take(&c->mem, 1,
                         cuts * sizeof(tpi_plan_cut) + moves * sizeof(tpi_buffer_move));
}

static size_t symbol_bytes(const tpi_cuts *c)
{
    return (size_t)tpi_dim_n_symbols(c->what.sizes.dims) * sizeof(int64_t);
}

/* The bands of a plan and of its bodies. */
static bool cut_bands(tpi_cuts *c, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const tpi_plan_step *step = &plan->steps[i];
        if (!tpi_is_band(step))
            continue;
        tpi_plan_cut *v = take_cuts(c, plan, step->first, step->n, (size_t)step->n);
        int64_t *late = c->what.late ? tpi_bump_take(&c->mem, 1, symbol_bytes(c)) : NULL;
        if (c->mem.failed)
            return false;
        for (int k = 0; k < step->n; k++)
            c->band[plan->first_kernel + step->first + k] = v + k;
        v->late = late ? memcpy(late, c->what.sizes.symbols, symbol_bytes(c)) : NULL;
        cut_band(c, plan, step, c->what.sizes.symbols, false);
    }
    bool ok = true;
    for (int i = 0; i < plan->n_values && plan->sections && ok; i++)
        for (int k = 0; plan->sections[i] && k < plan->sections[i]->n_bodies && ok; k++)
            ok = cut_bands(c, plan->sections[i]->plan[k]);
    return ok;
}

void tpi_cuts_again(tpi_cuts *c, int kernel, const int64_t *symbols)
{
    const tpi_plan *plan = tpi_plan_of_kernel(c->what.plan, kernel);
    const int step = plan->kernels[kernel - plan->first_kernel].step;
    if (memcmp(c->band[kernel]->late, symbols, symbol_bytes(c)) == 0)
        return;
    memcpy(c->band[kernel]->late, symbols, symbol_bytes(c));
    cut_band(c, plan, &plan->steps[step], symbols, true);
}

/* ---- images ------------------------------------------------------------------------------------------------------- */

/* Adds the bytes of a buffer; `look` tells by buffer the last step that counted it. */
static void add_bytes(const tpi_cuts *c, int root, int step, int *look, double *to)
{
    const int buffer = c->what.plan->values[root].buffer;
    if (buffer < 0 || look[buffer] == step + 1)
        return;
    *to += tpi_node_bytes(&c->what.sizes, c->what.plan->buffers[buffer].like);
    look[buffer] = step + 1;
}

/* What kernel k of a step reads and writes: of all images, and what each image reads again. */
static void add_traffic(const tpi_cuts *c, const tpi_kernel *k, int step, int *look,
                        double *own, double *again)
{
    const tpi_plan *plan = c->what.plan;
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    for (int i = 0; i < (k->n_nodes ? k->n_nodes : 1); i++) {
        const tpi_value *v = &plan->values[nodes[i]];
        add_bytes(c, nodes[i], step, look, own);
        for (int o = 0; o < v->node->n_in; o++)
            add_bytes(c, plan->values[v->node->in[o]->index].layout.root, step, look,
                      tpi_axis_read(plan, k, v, o, 0) < 0 ? again : own);
    }
}

/* Bytes of a step that need not come from beyond the third cache, less what weights cost that every image reads again
 * from that cache, and what kernels cost that are called once for each. */
static double saved_by_images(const tpi_cuts *c, int step, double images, int *look)
{
    const tpi_plan_step *s = &c->what.plan->steps[step];
    const double near = (double)c->what.ctx->near_bytes, call = near / 256;
    double own = 0, again = 0;
    for (int k = s->first; k < s->first + s->n; k++)
        add_traffic(c, &c->what.plan->kernels[k], step, look, &own, &again);
    const bool far = own > (double)c->what.ctx->far_bytes, small = own < images * near / 4;
    return (far && !small ? own : 0) - again * (images - 1) / 4 - call * images;
}

/* Of the steps from `first` on that can run image by image, how many save most together; 1: they run one after the
 * other. */
static int count_images(tpi_cuts *c, int first, int64_t images, int *look)
{
    const tpi_plan_step *s = c->what.plan->steps;
    double sum = 0, most = 0;
    int n = 0, best = 1;
    while (first + n < c->what.plan->n_steps && s[first + n].images == s[first].images) {
        sum += saved_by_images(c, first + n++, (double)images, look);
        if (sum <= 0 && !c->what.chance)
            break;
        best = sum > most ? n : best;
        most = sum > most ? sum : most;
    }
    return c->what.chance ? 1 + (int)draw(c, n) : best;
}

static bool add_images(tpi_cuts *c, int step, int steps, int64_t images)
{
    const tpi_plan *plan = c->what.plan;
    const tpi_plan_step *first = &plan->steps[step], *last = first + steps - 1;
    const int n = last->first + last->n - first->first;
    tpi_plan_cut *cut = take_cuts(c, plan, first->first, n, 1);
    if (!cut)
        return false;
    *cut = (tpi_plan_cut){
        .first = first->first,
        .n = n,
        .jobs = images,
        .stride = tpi_cuts_stride(c, images),
        .threads = 1,
        .boxes = {.all_outer = images, .outers = images, .row_parts = 1, .outer = 1},
        .images = true,
        .moves = (tpi_buffer_move *)(cut + 1)
    };
    for (int k = cut->first; k < cut->first + n; k++) {
        c->in[k] = cut;
        add_moves(plan, &c->what.sizes, 1, k, cut);
    }
    for (int i = 0; i < cut->n_moves; i++)
        c->kept[cut->moves[i].buffer] = true;
    c->n_images += steps;
    tpi_log(TPI_LOG_program, "steps %d to %d run place by place", step, step + steps - 1);
    return true;
}

static bool cut_images(tpi_cuts *c)
{
    const tpi_plan *plan = c->what.plan;
    int *look = tpi_bump_take(&c->mem, (size_t)plan->n_buffers, sizeof *look);
    bool ok = look;
    for (int at = 0, n; at < plan->n_steps && ok; at += n) {
        const tpi_kernel *k = &plan->kernels[plan->steps[at].first];
        const int64_t images =
            plan->steps[at].images ? tpi_size_at(&c->what.sizes, shape_of(plan, k)[0]) : 0;
        n = images > 1 ? count_images(c, at, images, look) : 1;
        ok = n == 1 || add_images(c, at, n, images);
    }
    return ok;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static void live_through(const tpi_plan_cut *cut, tpi_buffer *b)
{
    if (!cut)
        return;
    const int last = cut->first + cut->n - 1;
    if (b->first >= cut->first && b->first <= last)
        b->first = cut->first;
    if (b->last >= cut->first && b->last <= last)
        b->last = last;
}

/* Buffers live as long as the jobs that they are part of, or as the images that do not keep them. */
static bool place(tpi_cuts *c)
{
    const tpi_plan *plan = c->what.plan;
    tpi_buffer *to = tpi_bump_take(&c->mem, (size_t)plan->n_buffers, sizeof *to);
    for (int i = 0; i < plan->n_buffers && to; i++) {
        to[i] = plan->buffers[i];
        if (to[i].storage == TPI_IN_SOURCE || c->kept[i])
            continue;
        live_through(c->in[to[i].last], &to[i]);
        live_through(c->in[to[i].first], &to[i]);
    }
    c->arena = to ? tpi_arena_new(&c->mem, plan, to) : NULL;
    return c->arena;
}

/* The cuts of one thread, in which no kernel is shared. */
static bool cut_alone(tpi_cuts *c)
{
    tpi_cuts_for what = c->what;
    c->team = (tpi_team){.kernels = what.ctx->kernels};
    tpi_team_library(&c->team, tpi_convolving_of(what.plan->graph), &c->library);
    what.team = &c->team;
    what.images = what.waves = false;
    c->alone = tpi_cuts_new(&what);
    c->library.cuts = c->alone;
    return c->alone;
}

static bool cut_all(tpi_cuts *c)
{
    const tpi_plan *plan = c->what.plan;
    const size_t kernels = (size_t)plan->all_kernels;
    c->pointers = round_up((size_t)plan->all_buffers * sizeof(void *));
    c->band = tpi_bump_take(&c->mem, kernels, sizeof *c->band);
    c->in = tpi_bump_take(&c->mem, kernels, sizeof *c->in);
    c->kept = tpi_bump_take(&c->mem, (size_t)plan->n_buffers, sizeof *c->kept);
    if (!c->band || !c->in || !c->kept || (c->what.images && !cut_images(c)) ||
        (c->what.bands && !cut_bands(c, plan)) || (c->what.waves && !tpi_cuts_waves(c)) ||
        (c->n_waves && !cut_alone(c)))
        return false;
    return (!c->n_images && !c->n_waves) || place(c);
}

tpi_cuts *tpi_cuts_new(const tpi_cuts_for *what)
{
    tpi_bump memory = TPI_BUMP(&what->ctx->mem);
    tpi_cuts *c = tpi_bump_take(&memory, 1, sizeof *c);
    if (!c)
        return NULL;
    *c = (tpi_cuts){.what = *what, .mem = memory};
    if (cut_all(c))
        return c;
    tpi_cuts_free(c);
    return NULL;
}

void tpi_cuts_free(tpi_cuts *c)
{
    if (!c)
        return;
    tpi_cuts_free(c->alone);
    tpi_bump memory = c->mem; /* c is in it */
    tpi_bump_free(&memory);
}
