#include "kernel/host/team_host.h"

int64_t tpi_team_parts(const tpi_team *t, double work)
{
    const int threads = tpi_pool_threads(t->pool);
    if (threads == 1 || work < 2 * TPI_PART_WORK)
        return 1;
    return work > threads * TPI_PART_WORK ? threads : (int64_t)(work / TPI_PART_WORK);
}

/* The range of part i when n is cut into `parts`, all but the last a multiple of `step`. */
typedef struct range {
    int64_t at, n;
} range;

static range cut(int64_t n, int64_t parts, int64_t step, int64_t i)
{
    const int64_t each = ((n + parts - 1) / parts + step - 1) / step * step;
    const int64_t at = i * each < n ? i * each : n;
    return (range){at, n - at < each ? n - at : each};
}

/* So many parts of n that none is empty: at most `parts`. */
static int64_t full_parts(int64_t n, int64_t parts)
{
    if (n <= 1 || parts <= 1)
        return 1;
    const int64_t each = (n + parts - 1) / parts;
    return (n + each - 1) / each;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- products --------------------------------------------------------------------------------- */

enum {
    ROW_STEP = 2,
    COLUMN_STEP = 64 /* columns: whole tiles for every instruction set */
};

/* How a batch of products is cut: each product into rows x columns parts. */
typedef struct product_cut {
    const tpi_team *team;
    const tpk_products *p;
    int64_t count, rows, columns; /* products, and parts of one */
    int64_t per_part;             /* products that a part computes, when they are not cut */
    size_t part_ws;
    char *ws;
} product_cut;

/* Every part reads its rows of A and its columns of B: the grid of least traffic. */
static void cut_one(product_cut *c, int64_t parts)
{
    const tpk_products *p = c->p;
    double best = -1;
    for (int64_t rows = 1; rows <= parts; rows++) {
        const int64_t columns = parts / rows;
        if (rows * ROW_STEP > p->m && rows > 1)
            break;
        const range r = cut(p->m, rows, ROW_STEP, 0), q = cut(p->n, columns, COLUMN_STEP, 0);
        const double longest = (double)r.n * (double)q.n * (double)p->k;
        const double cost = longest + 16.0 * (double)(r.n + q.n) * (double)p->k;
        if (best < 0 || cost < best) {
            best = cost;
            c->rows = rows;
            c->columns = columns;
        }
    }
}

static product_cut cut_products(const tpi_team *t, const tpk_products *p)
{
    product_cut c = {
        .team = t, .p = p, .count = tpi_products_count(p), .rows = 1, .columns = 1};
    const double work = (double)p->m * (double)p->n * (double)p->k;
    const int64_t parts = tpi_team_parts(t, work * (double)c.count);
    if (parts > 1 && c.count < parts)
        cut_one(&c, parts);
    const bool whole = c.rows * c.columns == 1;
    c.per_part = whole ? (c.count + parts - 1) / parts : 1;
    return c;
}

static size_t part_ws(const product_cut *c)
{
    const tpk_products *p = c->p;
    const tpk_library *l = c->team->kernels->library;
    return round_up((p->f64 ? l->gemm_ws_f64 : l->gemm_ws_f32)(
        cut(p->m, c->rows, ROW_STEP, 0).n, cut(p->n, c->columns, COLUMN_STEP, 0).n, p->k));
}

static int64_t parts_of(const product_cut *c)
{
    return c->per_part ? (c->count + c->per_part - 1) / c->per_part * c->rows * c->columns : 0;
}

/* Parts run on at most so many threads at a time, but each has a workspace of its own. */
size_t tpi_team_products_ws(const tpi_team *t, const tpk_products *p)
{
    const tpk_library *l = t->kernels->library;
    if (!t->pool)
        return (p->f64 ? l->gemm_ws_f64 : l->gemm_ws_f32)(p->m, p->n, p->k);
    const product_cut c = cut_products(t, p);
    return part_ws(&c) * (size_t)parts_of(&c);
}

/* Where the product with this number begins, in elements. */
static int64_t batch_offset(const tpk_products *p, int64_t number, const int64_t *stride)
{
    int64_t at = 0;
    for (int i = p->lead - 1; i >= 0; i--) {
        at += number % p->batch[i] * stride[i];
        number /= p->batch[i];
    }
    return at;
}

static void multiply(const tpk_library *l, const tpk_products *p, int64_t number, range r,
                     range q, void *ws)
{
    const int64_t a = batch_offset(p, number, p->a_bs) + r.at * p->a_rs;
    const int64_t b = batch_offset(p, number, p->b_bs) + q.at * p->b_cs;
    const int64_t to = batch_offset(p, number, p->c_bs) + r.at * p->c_rs + q.at;
    const int64_t panels = q.at * p->k; /* packed columns, whole panels of them */
    if (p->packed_b && p->f64)
        l->gemm_packed_b_f64(r.n, q.n, p->k, (const double *)p->a + a, p->a_rs, p->a_cs,
                             (const double *)p->packed_b + panels, (double *)p->c + to, p->c_rs,
                             ws);
    else if (p->packed_b)
        l->gemm_packed_b_f32(r.n, q.n, p->k, (const float *)p->a + a, p->a_rs, p->a_cs,
                             (const float *)p->packed_b + panels, (float *)p->c + to, p->c_rs,
                             ws);
    else if (p->f64)
        l->gemm_f64(r.n, q.n, p->k, (const double *)p->a + a, p->a_rs, p->a_cs,
                    (const double *)p->b + b, p->b_rs, p->b_cs, (double *)p->c + to, p->c_rs,
                    ws);
    else
        l->gemm_f32(r.n, q.n, p->k, (const float *)p->a + a, p->a_rs, p->a_cs,
                    (const float *)p->b + b, p->b_rs, p->b_cs, (float *)p->c + to, p->c_rs, ws);
}

static void pack_b(const tpk_library *l, const tpk_products *p, int64_t at, void *to)
{
    if (p->f64)
        l->gemm_pack_b_f64(p->n, p->k, (const double *)p->b + at, p->b_rs, p->b_cs, to);
    else
        l->gemm_pack_b_f32(p->n, p->k, (const float *)p->b + at, p->b_rs, p->b_cs, to);
}

int64_t tpi_products_count(const tpk_products *p)
{
    int64_t count = 1;
    for (int i = 0; i < p->lead; i++)
        count *= p->batch[i];
    return count;
}

size_t tpi_products_kept(const tpk_library *l, const tpk_products *p, int64_t rows)
{
    if (p->packed_b || rows >= p->m)
        return 0;
    return round_up(
        (p->f64 ? l->gemm_packed_b_size_f64 : l->gemm_packed_b_size_f32)(p->n, p->k));
}

static void product_part(void *env, size_t part)
{
    const product_cut *c = env;
    const int64_t i = (int64_t)part, grid = c->rows * c->columns;
    const int64_t first = i / grid * c->per_part;
    const range r = cut(c->p->m, c->rows, ROW_STEP, i % grid / c->columns),
                q = cut(c->p->n, c->columns, COLUMN_STEP, i % c->columns);
    for (int64_t b = first; b < c->count && b < first + c->per_part; b++)
        if (r.n > 0 && q.n > 0)
            multiply(c->team->kernels->library, c->p, b, r, q, c->ws + part * c->part_ws);
}

void tpi_team_products(const tpi_team *t, const tpk_products *p, void *ws)
{
    if (!t->pool) { /* small ones cost little more than their kernel */
        const int64_t count = tpi_products_count(p);
        for (int64_t b = 0; b < count; b++)
            multiply(t->kernels->library, p, b, (range){0, p->m}, (range){0, p->n}, ws);
        return;
    }
    product_cut c = cut_products(t, p);
    const int64_t parts = parts_of(&c);
    c.ws = ws;
    c.part_ws = parts > 1 ? part_ws(&c) : 0;
    tpi_pool_run(t->pool, product_part, &c, (size_t)parts);
}

/* Products of some outer places and rows, by this thread. A B that parts of the same place read is packed
 * for the first of them. */
static void products_part(const tpk_library *l, const tpk_products *p, void *ws, tpk_part *part)
{
    const int64_t inner = part->outer > 0 ? tpi_products_count(p) / part->outer : 0;
    const range r = {part->r0, part->r1 - part->r0}, q = {0, p->n};
    const size_t kept = tpi_products_kept(l, p, r.n);
    part->keep -= kept * (size_t)inner;
    for (int64_t i = part->o0 * inner; i < part->o1 * inner; i++) {
        tpk_products one = *p;
        char *const to = part->keep + (size_t)(i - part->o0 * inner) * kept;
        if (kept && part->fresh)
            pack_b(l, p, batch_offset(p, i, p->b_bs), to);
        one.packed_b = kept ? to : p->packed_b;
        multiply(l, &one, i, r, q, ws);
    }
}

/* ---- convolutions ------------------------------------------------------------------------------ */

enum {
    LEAST_ROWS = 4, /* of the output, in a part: neighbours read some rows of the input twice */
    CHANNEL_STEP = 32 /* whole blocks of packed weights for every instruction set */
};

static const tpk_library *conv_library(const tpi_kernels *k)
{
    static const tpk_library *const by_set[TPI_N_SETS] = {
        [TPI_SET_base] = &tpi_isa_conv_library_base,
#if defined(__x86_64__)
        [TPI_SET_avx2] = &tpi_isa_conv_library_avx2,
        [TPI_SET_avx512] = &tpi_isa_conv_library_avx512,
#endif
    };
    return by_set[k->set];
}

/* What is cut: images and output rows of conv and conv_dx, or output channels, or groups, where rows are few;
 * of conv_dw output channels, or groups. */
typedef struct conv_cut {
    const tpi_team *team;
    const tpk_convolution *c;
    int64_t images, rows, channels; /* parts */
    int way;                        /* of all of them, where the weights are packed; else 0 */
    int taps;                       /* together or apart, as those of the whole */
    tpk_tiles tiles; /* which are not cut; none: every part is strict, as the whole is */
    size_t part_ws;
    char *ws;
} conv_cut;

static double conv_work(const tpk_conv *s)
{
    double work = (double)s->batch * (double)s->oc * (double)s->ic / (double)s->groups;
    for (int i = 0; i < s->nd; i++)
        work *= (double)s->out[i] * (double)s->ker[i];
    return work;
}

static void move(tpk_convolution *c, int64_t x, int64_t w, int64_t y)
{
    const int64_t size = (int64_t)(c->f64 ? sizeof(double) : sizeof(float));
    c->x = c->x ? (char *)c->x + x * size : NULL;
    c->w = c->w ? (char *)c->w + w * size : NULL;
    c->y = c->y ? (char *)c->y + y * size : NULL;
}

/* Makes c the convolution of these groups. */
static void sub_groups(const tpk_library *l, tpk_convolution *c, range q)
{
    tpk_conv *s = &c->spec;
    const int64_t oc = s->oc / s->groups, ic = s->ic / s->groups;
    if (c->which == 0 && c->packed_w)
        c->packed_w =
            (const char *)c->packed_w +
            (int64_t)(c->f64 ? l->conv_packed_w_size_f64 : l->conv_packed_w_size_f32)(s) /
                s->groups * q.at;
    move(c, q.at * ic * s->xs[1], q.at * oc * s->ws[0], q.at * oc * s->ys[1]);
    s->ic = q.n * ic;
    s->oc = q.n * oc;
    s->groups = q.n;
}

/* Makes c the convolution of these output channels, whole blocks of the packed weights. */
static void sub_channels(tpk_convolution *c, const tpk_tiles *t, range q)
{
    tpk_conv *s = &c->spec;
    int64_t *channels = c->which ? &s->ic : &s->oc;
    const int64_t size = (int64_t)(c->f64 ? sizeof(double) : sizeof(float));
    char **y = (char **)(c->which ? &c->x : &c->y);
    if (c->packed_w && t->way) {
        c->packed_w = (const char *)c->packed_w + q.at / t->channels * t->bytes;
    } else if (c->packed_w) {
        s->first = q.at;
        s->whole = *channels;
    }
    *channels = q.n;
    if (c->w)
        c->w = (char *)c->w + q.at * s->ws[c->which] * size;
    if (*y)
        *y += q.at * (c->which ? s->xs : s->ys)[1] * size;
}

/* The part of conv or conv_dx that computes these images and rows. */
static tpk_convolution conv_box(const tpk_convolution *all, int way, range b, range h)
{
    tpk_convolution c = *all;
    tpk_conv *s = &c.spec;
    int64_t x = b.at * s->xs[0], y = b.at * s->ys[0];
    s->way = way;
    s->batch = b.n;
    if (c.which == 0) {
        /* Of the image no more than the rows that are read: it may have to be copied. */
        const int64_t first = h.at * s->stride[0] - s->pad[0];
        const int64_t reach = (h.n - 1) * s->stride[0] + (s->ker[0] - 1) * s->dil[0] + 1;
        const int64_t from = first > 0 ? first : 0;
        const int64_t end = first + reach < s->in[0] ? first + reach : s->in[0];
        const bool reads = end > from && !s->winograd; /* of tiles all rows count */
        y += h.at * s->ys[2];
        s->out[0] = h.n;
        s->pad[0] = reads ? from - first : -first;
        s->in[0] = reads ? end - from : s->in[0];
        x += reads ? from * s->xs[2] : 0;
    } else {
        x += h.at * s->xs[2];
        s->in[0] = h.n;
        s->pad[0] += h.at;
    }
    move(&c, x, 0, y);
    return c;
}

/* The part of the convolution that computes these images, or channels, and rows. */
static tpk_convolution sub_conv(const conv_cut *cut_, int64_t part)
{
    tpk_convolution c = *cut_->c;
    tpk_conv *s = &c.spec;
    s->taps = cut_->taps;
    if (c.which < 2) {
        const tpk_tiles *t = &cut_->tiles;
        if (cut_->channels > 1 && s->groups > 1)
            sub_groups(conv_library(cut_->team->kernels), &c,
                       cut(s->groups, cut_->channels, 1, part % cut_->channels));
        else if (cut_->channels > 1)
            sub_channels(&c, t,
                         cut(c.which ? s->ic : s->oc, cut_->channels,
                             t->way ? t->channels : CHANNEL_STEP, part % cut_->channels));
        s->winograd = t->way ? s->winograd : TPK_DIRECT;
        return conv_box(&c, cut_->way,
                        cut(s->batch, cut_->images, 1, part / (cut_->rows * cut_->channels)),
                        cut(c.which ? s->in[0] : s->out[0], cut_->rows, t->way ? t->size : 1,
                            part / cut_->channels % cut_->rows));
    }
    const range q = cut(s->groups > 1 ? s->groups : s->oc, cut_->images, 1, part);
    if (s->groups > 1) {
        sub_groups(conv_library(cut_->team->kernels), &c, q);
        return c;
    }
    move(&c, 0, q.at * s->ws[0], q.at * s->ys[1]);
    s->oc = q.n;
    return c;
}

/* Of parts of a convolution: how its packed weights lie, if they are packed. */
static int way_of(const tpk_library *l, const tpk_convolution *c)
{
    const bool packed = c->which == 0 && c->packed_w;
    return packed ? (c->f64 ? l->conv_way_f64 : l->conv_way_f32)(&c->spec) : 0;
}

static size_t conv_ws(const tpk_library *l, const tpk_convolution *c)
{
    return c->which == 0   ? (c->f64 ? l->conv_ws_f64 : l->conv_ws_f32)(&c->spec)
           : c->which == 1 ? (c->f64 ? l->conv_dx_ws_f64 : l->conv_dx_ws_f32)(&c->spec)
                           : (c->f64 ? l->conv_dw_ws_f64 : l->conv_dw_ws_f32)(&c->spec);
}

#define RUN_CONV(t)                                                                            \
    static void run_##t(const tpk_library *l, const tpk_convolution *c, void *ws)              \
    {                                                                                          \
        if (c->which == 0 && c->packed_w)                                                      \
            l->conv_packed_w_##t(&c->spec, c->x, c->packed_w, c->y, ws);                       \
        else if (c->which == 0)                                                                \
            l->conv_##t(&c->spec, c->x, c->w, c->y, ws);                                       \
        else if (c->which == 1)                                                                \
            l->conv_dx_##t(&c->spec, c->y, c->w, c->x, ws);                                    \
        else                                                                                   \
            l->conv_dw_##t(&c->spec, c->x, c->y, c->w, ws);                                    \
    }
RUN_CONV(f32)
RUN_CONV(f64)

static int64_t conv_parts(const conv_cut *r)
{
    return r->images * r->rows * r->channels;
}

/* Between tiles; where these are few, by output channels: then no filter is read twice. */
static void cut_tiles(conv_cut *r, int64_t parts)
{
    enum { FEW = 64 };
    const tpk_conv *s = &r->c->spec;
    const tpk_tiles *t = &r->tiles;
    const int64_t *size = r->c->which ? s->in : s->out;
    const int64_t rows = (size[0] + t->size - 1) / t->size;
    const int64_t blocks = ((r->c->which ? s->ic : s->oc) + t->channels - 1) / t->channels;
    r->way = t->way;
    if (s->batch * rows * ((size[1] + t->size - 1) / t->size) <= FEW) {
        r->channels = full_parts(blocks, parts < blocks ? parts : blocks);
        return;
    }
    r->images = full_parts(s->batch, parts < s->batch ? parts : s->batch);
    const int64_t left = parts / r->images;
    r->rows = full_parts(rows, rows < left ? rows : left);
}

/* By output rows, or by output channels where that gives more parts. */
static void cut_rows(conv_cut *r, int64_t parts)
{
    const tpk_conv *s = &r->c->spec;
    const int64_t rows = r->c->which ? s->in[0] : s->out[0], left = parts / r->images;
    const int64_t channels = r->c->which ? s->ic : s->oc;
    const int64_t blocks =
        s->groups > 1 ? s->groups : (channels + CHANNEL_STEP - 1) / CHANNEL_STEP;
    const int way = way_of(conv_library(r->team->kernels), r->c);
    if (s->nd > 1)
        r->rows = full_parts(rows, rows / LEAST_ROWS < left ? rows / LEAST_ROWS : left);
    const int64_t parts_of_blocks = full_parts(blocks, left);
    if (parts_of_blocks > r->rows &&
        (s->groups > 1 || way == 0 || way == TPK_WAY_ACROSS || way == TPK_WAY_TAPS)) {
        r->channels = parts_of_blocks;
        r->rows = 1;
    }
    if (conv_parts(r) > 1)
        r->way = way;
}

/* How winograd.h takes it, if it does. */
static tpk_tiles tiles_of(const tpk_library *l, const tpk_convolution *c)
{
    return c->spec.winograd && !c->f64 && c->which < 2
               ? (c->which ? l->conv_dx_tiles : l->conv_tiles)(&c->spec)
               : (tpk_tiles){0};
}

static conv_cut cut_conv(const tpi_team *t, const tpk_convolution *c)
{
    const tpk_library *l = conv_library(t->kernels);
    const tpk_conv *s = &c->spec;
    conv_cut r = {
        .team = t, .c = c, .images = 1, .rows = 1, .channels = 1, .taps = l->conv_taps(s)};
    const int64_t parts = tpi_team_parts(t, conv_work(s));
    r.tiles = tiles_of(l, c);
    if (r.tiles.way) {
        cut_tiles(&r, parts);
        return r;
    }
    const int64_t most = c->which == 2 ? (s->groups > 1 ? s->groups : s->oc) : s->batch;
    r.images = full_parts(most, parts < most ? parts : most);
    if (c->which < 2)
        cut_rows(&r, parts);
    return r;
}

/* The most that a part needs. */
static size_t conv_part_ws(const conv_cut *r)
{
    const tpk_library *l = conv_library(r->team->kernels);
    size_t most = 0;
    for (int64_t i = 0; i < conv_parts(r); i++) {
        const tpk_convolution c = sub_conv(r, i);
        const size_t ws = round_up(conv_ws(l, &c));
        most = ws > most ? ws : most;
    }
    return most;
}

static size_t team_conv_ws(const tpi_team *t, const tpk_convolution *c)
{
    if (!t->pool)
        return conv_ws(conv_library(t->kernels), c);
    const conv_cut r = cut_conv(t, c);
    return conv_part_ws(&r) * (size_t)conv_parts(&r);
}

static void conv_part(void *env, size_t part)
{
    const conv_cut *r = env;
    const tpk_convolution c = sub_conv(r, (int64_t)part);
    (c.f64 ? run_f64 : run_f32)(conv_library(r->team->kernels), &c, r->ws + part * r->part_ws);
}

static void team_conv(const tpi_team *t, const tpk_convolution *c, void *ws)
{
    if (!t->pool) {
        (c->f64 ? run_f64 : run_f32)(conv_library(t->kernels), c, ws);
        return;
    }
    conv_cut r = cut_conv(t, c);
    const int64_t parts = conv_parts(&r);
    r.ws = ws;
    r.part_ws = parts > 1 ? conv_part_ws(&r) : 0;
    tpi_pool_run(t->pool, conv_part, &r, (size_t)parts);
}

static range part_images(const tpk_part *p)
{
    return (range){p->o0, p->o1 - p->o0};
}

static range part_rows(const tpk_part *p)
{
    return (range){p->r0, p->r1 - p->r0};
}

static tpk_convolution conv_part_of(const tpk_library *l, const tpk_convolution *whole,
                                    const tpk_part *p)
{
    const tpk_tiles t = tiles_of(l, whole);
    tpk_convolution c = *whole;
    c.spec.winograd = t.way ? c.spec.winograd : TPK_DIRECT;
    c.spec.taps = l->conv_taps(&whole->spec);
    const int way = t.way ? t.way : way_of(l, &c);
    if (!p->channels)
        return conv_box(&c, way, part_images(p), part_rows(p));
    if (c.spec.groups > 1)
        sub_groups(l, &c, part_rows(p));
    else
        sub_channels(&c, &t, part_rows(p));
    return conv_box(&c, way, part_images(p), (range){0, c.spec.out[0]});
}

static int64_t channel_step(const tpi_kernels *k, const tpk_convolution *c)
{
    enum { FEW = 6 }; /* are computed together */
    const tpk_library *l = conv_library(k);
    const int way = tiles_of(l, c).way ? TPK_WAY_DENSE : way_of(l, c);
    return way == TPK_WAY_DENSE                           ? c->spec.oc
           : way == TPK_WAY_ACROSS || way == TPK_WAY_TAPS ? CHANNEL_STEP
                                                          : FEW;
}

static size_t conv_room(const tpi_kernels *k, const tpk_convolution *c, const tpk_part *p)
{
    const tpk_library *l = conv_library(k);
    const tpk_convolution part = conv_part_of(l, c, p);
    return round_up(conv_ws(l, &part));
}

static tpk_convolution conv_places(const tpk_library *l, const tpk_convolution *c, int64_t o0,
                                   int64_t o1)
{
    const int64_t rows = c->which ? c->spec.in[0] : c->spec.out[0];
    return conv_part_of(l, c, &(tpk_part){.o0 = o0, .o1 = o1, .r1 = rows});
}

/* By this thread. */
static void convolution_part(const tpk_library *l, const tpk_convolution *c, void *ws,
                             const tpk_part *p)
{
    const tpk_convolution part = conv_part_of(l, c, p);
    (c->f64 ? run_f64 : run_f32)(l, &part, ws);
}

/* Of all places, or of one as in a microbatch. */
static size_t program_conv_ws(const void *team, const tpk_convolution *c)
{
    const tpi_team *t = team;
    const size_t all = t ? team_conv_ws(t, c) : 0;
    if (!t || c->which == 2 || c->spec.batch < 2)
        return all;
    const tpk_convolution one = conv_places(conv_library(t->kernels), c, 0, 1);
    const size_t each = team_conv_ws(t, &one);
    return all > each ? all : each;
}

static void program_conv(const void *team, const tpk_convolution *c, void *ws,
                         const tpk_part *part)
{
    const tpi_team *t = team;
    if (!part) {
        team_conv(t, c, ws);
    } else if (part->shared) {
        const tpk_convolution some =
            conv_places(conv_library(t->kernels), c, part->o0, part->o1);
        team_conv(t, &some, ws);
    } else {
        convolution_part(conv_library(t->kernels), c, ws, part);
    }
}

const tpi_convolving tpi_team_convolving = {.ws = team_conv_ws,
                                            .run = team_conv,
                                            .part_ws = conv_room,
                                            .channel_step = channel_step,
                                            .library = conv_library,
                                            .program_ws = program_conv_ws,
                                            .run_program = program_conv};

/* ---- planes --------------------------------------------------------------------------------------- */

enum { MOST_PLANES = 2 }; /* operands */

typedef struct plane_cut {
    tpi_isa_call call;
    int n_in;
    const tpk_view *in, *out;
    const int64_t *attr;
    int64_t size, images, channels; /* bytes of an element; parts */
} plane_cut;

static tpk_view sub_view(const tpk_view *v, int64_t size, range b, range c)
{
    tpk_view part = *v;
    part.p = (char *)v->p + (b.at * v->s[0] + c.at * v->s[1]) * size;
    part.n[0] = b.n;
    part.n[1] = c.n;
    return part;
}

static void planes_of(void *env, size_t part)
{
    const plane_cut *p = env;
    const range b = cut(p->out->n[0], p->images, 1, (int64_t)part / p->channels),
                c = cut(p->out->n[1], p->channels, 1, (int64_t)part % p->channels);
    const tpk_view out = sub_view(p->out, p->size, b, c);
    tpk_view in[MOST_PLANES];
    for (int i = 0; i < p->n_in; i++)
        in[i] = sub_view(&p->in[i], p->size, b, c);
    p->call(in, &out, p->attr);
}

/* Results have no gaps: channels are cut where a part has one image. */
void tpi_team_planes(const tpi_team *t, tpi_isa_call call, int n_in, const tpk_view *in,
                     const tpk_view *out, const int64_t *attr, int64_t size)
{
    const double taps = 8; /* that an element is part of, or that it takes */
    double larger = 1, result = 1;
    for (int64_t i = 0; i < out->rank; i++) {
        larger *= (double)in->n[i];
        result *= (double)out->n[i];
    }
    const int64_t parts = tpi_team_parts(t, taps * (larger + result));
    plane_cut p = {call, n_in, in, out, attr, size, full_parts(out->n[0], parts), 1};
    if (p.images == out->n[0])
        p.channels = full_parts(out->n[1], parts / p.images);
    tpi_pool_run(t->pool, planes_of, &p, (size_t)(p.images * p.channels));
}

/* ---- loops ---------------------------------------------------------------------------------------- */

typedef struct loop {
    const tpk_env *env;
    tpk_kernel kernel;
    int64_t o0, o1, rows, parts, row_parts, step;
    const int64_t *a;
} loop;

static void loop_part(void *env, size_t part)
{
    const loop *l = env;
    const range o = cut(l->o1 - l->o0, l->parts, l->step, (int64_t)part / l->row_parts),
                r = cut(l->rows, l->row_parts, 1, (int64_t)part % l->row_parts);
    tpk_part box = {.place = (int64_t)part,
                    .o0 = l->o0 + o.at,
                    .o1 = l->o0 + o.at + o.n,
                    .r0 = r.at,
                    .r1 = r.at + r.n};
    if (o.n > 0 && r.n > 0)
        l->kernel(l->env, l->a, &box);
}

static void spread(const tpk_env *env, tpk_kernel kernel, double work, int64_t o0, int64_t o1,
                   int64_t rows, int64_t step, const int64_t *a)
{
    const int64_t outer = o1 - o0;
    const tpi_team *t = env->library->team;
    const int64_t parts = tpi_team_parts(t, TPI_NEST_OP * work);
    loop l = {env, kernel, o0, o1, rows, parts, 1, step, a};
    if (outer < parts && rows > 1) {
        l.parts = full_parts(outer, parts);
        l.row_parts = full_parts(rows, parts / l.parts);
    }
    tpi_pool_run(t->pool, loop_part, &l, (size_t)(l.parts * l.row_parts));
}

/* ---- for programs ----------------------------------------------------------------------------------- */

static size_t products_ws(const void *team, const tpk_products *p)
{
    return team ? tpi_team_products_ws(team, p) : 0;
}

static void products(const void *team, const tpk_products *p, void *ws, tpk_part *part)
{
    const tpi_team *t = team;
    if (part)
        products_part(t->kernels->library, p, ws, part);
    else
        tpi_team_products(t, p, ws);
}

static void planes(const void *team, tpi_isa_call call, int n_in, const tpk_view *in,
                   const tpk_view *out, const int64_t *attr, int64_t size)
{
    tpi_team_planes(team, call, n_in, in, out, attr, size);
}

void tpi_team_library(const tpi_team *t, const tpi_convolving *conv, tpk_library *library)
{
    *library = conv ? *conv->library(t->kernels) : *t->kernels->library;
    library->team = t;
    library->products_ws = products_ws;
    library->products = products;
    library->convolution_ws = conv ? conv->program_ws : NULL;
    library->convolution = conv ? conv->run_program : NULL;
    library->planes = planes;
    library->spread = spread;
    library->threads = tpi_pool_threads(t->pool);
}
