#include "kernel/team_host.h"

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
    product_cut c = {.team = t, .p = p, .count = 1, .rows = 1, .columns = 1};
    for (int i = 0; i < p->lead; i++)
        c.count *= p->batch[i];
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
        int64_t count = 1;
        for (int i = 0; i < p->lead; i++)
            count *= p->batch[i];
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

/* ---- convolutions ------------------------------------------------------------------------------ */

enum {
    LEAST_ROWS = 4 /* of the output, in a part: neighbours read some rows of the input twice */
};

/* What is cut: images and output rows of conv and conv_dx, or output channels where winograd.h does them; of
 * conv_dw output channels, or groups. */
typedef struct conv_cut {
    const tpi_team *team;
    const tpk_convolution *c;
    int64_t images, rows, channels; /* parts */
    int way;                        /* of all of them, where the weights are packed; else 0 */
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

/* Makes c the convolution of these output channels, whole blocks of the packed weights. */
static void sub_channels(tpk_convolution *c, const conv_cut *cut_, int64_t part)
{
    tpk_conv *s = &c->spec;
    const tpk_tiles *t = &cut_->tiles;
    int64_t *channels = c->which ? &s->ic : &s->oc;
    const range q = cut(*channels, cut_->channels, t->channels, part);
    const int64_t size = sizeof(float);
    char **y = (char **)(c->which ? &c->x : &c->y);
    *channels = q.n;
    if (c->packed_w)
        c->packed_w = (const char *)c->packed_w + q.at / t->channels * t->bytes;
    if (c->w)
        c->w = (char *)c->w + q.at * s->ws[c->which] * size;
    if (*y)
        *y += q.at * (c->which ? s->xs : s->ys)[1] * size;
}

/* The part of the convolution that computes these images, or channels, and rows. */
static tpk_convolution sub_conv(const conv_cut *cut_, int64_t part)
{
    tpk_convolution c = *cut_->c;
    tpk_conv *s = &c.spec;
    const size_t size = c.f64 ? sizeof(double) : sizeof(float);
    int64_t x = 0, w = 0, y = 0;
    if (c.which == 2) {
        const bool grouped = s->groups > 1;
        const range q = cut(grouped ? s->groups : s->oc, cut_->images, 1, part);
        const int64_t oc = grouped ? s->oc / s->groups : 1, ic = s->ic / s->groups;
        w = q.at * oc * s->ws[0];
        y = q.at * oc * s->ys[1];
        x = grouped ? q.at * ic * s->xs[1] : 0;
        s->ic = grouped ? q.n * ic : s->ic;
        s->groups = grouped ? q.n : 1;
        s->oc = q.n * oc;
    } else {
        const tpk_tiles *t = &cut_->tiles;
        const range b = cut(s->batch, cut_->images, 1, part / (cut_->rows * cut_->channels));
        const range h = cut(c.which ? s->in[0] : s->out[0], cut_->rows, t->way ? t->size : 1,
                            part / cut_->channels % cut_->rows);
        if (cut_->channels > 1)
            sub_channels(&c, cut_, part % cut_->channels);
        s->way = cut_->way;
        s->fast = t->way ? s->fast : TPK_STRICT;
        s->batch = b.n;
        x = b.at * s->xs[0];
        y = b.at * s->ys[0];
        if (c.which == 0) {
            y += h.at * s->ys[2];
            s->out[0] = h.n;
            s->pad[0] -= h.at * s->stride[0];
        } else {
            x += h.at * s->xs[2];
            s->in[0] = h.n;
            s->pad[0] += h.at;
        }
    }
    c.x = c.x ? (char *)c.x + x * (int64_t)size : NULL;
    c.w = c.w ? (char *)c.w + w * (int64_t)size : NULL;
    c.y = c.y ? (char *)c.y + y * (int64_t)size : NULL;
    return c;
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

static conv_cut cut_conv(const tpi_team *t, const tpk_convolution *c)
{
    const tpk_library *l = t->kernels->library;
    const tpk_conv *s = &c->spec;
    conv_cut r = {.team = t, .c = c, .images = 1, .rows = 1, .channels = 1};
    const int64_t parts = tpi_team_parts(t, conv_work(s));
    if (s->fast && !c->f64 && c->which < 2)
        r.tiles = (c->which ? l->conv_dx_tiles : l->conv_tiles)(s);
    if (r.tiles.way) {
        cut_tiles(&r, parts);
        return r;
    }
    const int64_t most = c->which == 2 ? (s->groups > 1 ? s->groups : s->oc) : s->batch;
    r.images = full_parts(most, parts < most ? parts : most);
    if (c->which < 2 && s->nd > 1) {
        const int64_t rows = c->which ? s->in[0] : s->out[0], left = parts / r.images;
        r.rows = full_parts(rows, rows / LEAST_ROWS < left ? rows / LEAST_ROWS : left);
    }
    if (c->which == 0 && c->packed_w && r.images * r.rows > 1)
        r.way = (c->f64 ? l->conv_way_f64 : l->conv_way_f32)(s);
    return r;
}

static int64_t conv_parts(const conv_cut *r)
{
    return r->images * r->rows * r->channels;
}

/* The most that a part needs. */
static size_t conv_part_ws(const conv_cut *r)
{
    const tpk_library *l = r->team->kernels->library;
    size_t most = 0;
    for (int64_t i = 0; i < conv_parts(r); i++) {
        const tpk_convolution c = sub_conv(r, i);
        const size_t ws = round_up(conv_ws(l, &c));
        most = ws > most ? ws : most;
    }
    return most;
}

size_t tpi_team_convolution_ws(const tpi_team *t, const tpk_convolution *c)
{
    if (!t->pool)
        return conv_ws(t->kernels->library, c);
    const conv_cut r = cut_conv(t, c);
    return conv_part_ws(&r) * (size_t)conv_parts(&r);
}

static void conv_part(void *env, size_t part)
{
    const conv_cut *r = env;
    const tpk_convolution c = sub_conv(r, (int64_t)part);
    (c.f64 ? run_f64 : run_f32)(r->team->kernels->library, &c, r->ws + part * r->part_ws);
}

void tpi_team_convolution(const tpi_team *t, const tpk_convolution *c, void *ws)
{
    if (!t->pool) {
        (c->f64 ? run_f64 : run_f32)(t->kernels->library, c, ws);
        return;
    }
    conv_cut r = cut_conv(t, c);
    const int64_t parts = conv_parts(&r);
    r.ws = ws;
    r.part_ws = parts > 1 ? conv_part_ws(&r) : 0;
    tpi_pool_run(t->pool, conv_part, &r, (size_t)parts);
}

/* ---- loops ---------------------------------------------------------------------------------------- */

typedef struct loop {
    const tpk_library *library;
    tpk_kernel kernel;
    int64_t n, parts, step;
    void **p;
    int64_t *s;
    void *scratch;
    const int64_t *a;
} loop;

static void loop_part(void *env, size_t part)
{
    const loop *l = env;
    const range r = cut(l->n, l->parts, l->step, (int64_t)part);
    const int64_t places[] = {(int64_t)part, r.at, r.at + r.n};
    if (r.n > 0)
        l->kernel(l->p, l->s, NULL, NULL, l->scratch, NULL, l->a, l->library, places);
}

static void spread(const tpk_library *library, tpk_kernel kernel, double work, int64_t n,
                   int64_t step, void **p, int64_t *s, void *scratch, const int64_t *a)
{
    const tpi_team *t = library->team;
    loop l = {library, kernel, n, tpi_team_parts(t, work), step, p, s, scratch, a};
    tpi_pool_run(t->pool, loop_part, &l, (size_t)l.parts);
}

/* ---- for programs ----------------------------------------------------------------------------------- */

static size_t products_ws(const void *team, const tpk_products *p)
{
    return tpi_team_products_ws(team, p);
}

static void products(const void *team, const tpk_products *p, void *ws)
{
    tpi_team_products(team, p, ws);
}

static size_t convolution_ws(const void *team, const tpk_convolution *c)
{
    return tpi_team_convolution_ws(team, c);
}

static void convolution(const void *team, const tpk_convolution *c, void *ws)
{
    tpi_team_convolution(team, c, ws);
}

void tpi_team_library(const tpi_team *t, tpk_library *library)
{
    *library = *t->kernels->library;
    library->team = t;
    library->products_ws = products_ws;
    library->products = products;
    library->convolution_ws = convolution_ws;
    library->convolution = convolution;
    library->spread = spread;
    library->threads = tpi_pool_threads(t->pool);
}
