#include "kernel/host/band_host.h"

#include <stdatomic.h>
#include <string.h>

/* ---- how it is cut ---------------------------------------------------------------------------- */

/* Sums over members of a band. */
typedef struct sums {
    double work, shared, per_outer;
    double row;    /* bytes made per row */
    double passed; /* and those of them that another member reads, once per reader, */
    double far;    /* where more is made in between than stays near */
    int64_t least, step, finest, grain;
} sums;

/* Adds member i to what was added up of those from `first` on. */
static void add_member(const tpi_team *t, const tpk_band *b, int first, int i, sums *s)
{
    const double near = 2 * (double)t->near_bytes / ((double)b->outer * (double)b->rows);
    const tpk_member *m = &b->v[i];
    const int64_t finest = m->step ? m->step : m->least;
    s->work += m->work;
    s->shared += m->shared;
    s->per_outer += m->per_outer;
    s->least = m->least > s->least ? m->least : s->least;
    s->step = m->step > s->step ? m->step : s->step;
    s->grain = m->grain > s->grain ? m->grain : s->grain;
    s->finest = finest > s->finest ? finest : s->finest;
    const double own = m->under ? 0 : m->made;
    s->row += own;
    double between = own; /* made from k to i */
    for (int k = i - 1; k >= first; k--) {
        const double passed = (m->reads >> k) & 1 ? b->v[k].made : 0;
        between += b->v[k].under ? 0 : b->v[k].made;
        s->passed += passed;
        s->far += between > near ? passed : 0;
    }
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Does what the members make of a part stay near? */
static bool stays_near(const tpi_team *t, const sums *s, const tpi_band_cut *c)
{
    return s->row * (double)(c->outer * c->rows) <= 2 * (double)t->near_bytes;
}

/* A part for each of so many threads. */
static tpi_band_cut cut_evenly(const tpk_band *b, const sums *s, int64_t threads)
{
    tpi_band_cut c = {.row_parts = 1, .rows = b->rows};
    c.outer = ceil_div(b->outer, threads);
    c.outers = ceil_div(b->outer, c.outer);
    if (c.outer == 1) {
        const int64_t left = threads / c.outers, most = b->rows / s->finest;
        const int64_t rows = ceil_div(b->rows, most < 1 ? 1 : left < most ? left : most);
        c.rows = c.step = ceil_div(rows, s->grain) * s->grain;
        c.row_parts = ceil_div(b->rows, c.step);
    }
    return c;
}

/* Parts of the wished size, but enough of them for the threads that the work is worth. */
static tpi_band_cut cut_small(const tpi_team *t, const tpk_band *b, const sums *s,
                              int64_t threads)
{
    const double all = (double)b->outer * (double)b->rows,
                 wish = (double)t->near_bytes / (s->row + 1);
    const double each = all / (double)threads;
    int64_t rows = (int64_t)(wish < each ? wish : each);
    rows = rows < s->least ? s->least : rows;
    tpi_band_cut c = {
        .folds = true, .outers = b->outer, .row_parts = 1, .outer = 1, .rows = b->rows};
    if (rows >= b->rows) {
        c.outer = rows / b->rows < b->outer ? rows / b->rows : b->outer;
        c.outers = ceil_div(b->outer, c.outer);
    } else {
        c.step = rows > s->step ? rows / s->step * s->step : rows;
        c.row_parts = b->rows / c.step;
        c.rows = b->rows - (c.row_parts - 1) * c.step;
    }
    return c;
}

/* Rows of an outer place in which threads can have their parts: all of the greatest part's size. */
static int64_t places_per_outer(const tpk_band *b, const tpi_band_cut *c)
{
    return c->row_parts > 1 ? b->rows / c->rows : 1;
}

/* Parts that can run side by side. */
static int64_t places(const tpk_band *b, const tpi_band_cut *c)
{
    return !c->folds          ? c->outers * c->row_parts
           : c->row_parts > 1 ? b->outer * places_per_outer(b, c)
                              : b->outer / c->outer;
}

/* Bytes that need not come from beyond the second cache when these members run together over the
 * parts c, less those that come from there again since every part reads them: 0 when fewer parts can
 * run side by side than threads could share the work. What a member leaves is written and read
 * again; what all parts read stays near beside a part when both fit. Where all of a thread stays near
 * anyway, what would else lie with another one is saved: it is waited for, and weights are fetched
 * ahead. */
static double saved(const tpi_team *t, const tpk_band *b, const sums *s, const tpi_band_cut *c)
{
    const double far = 2 * s->far, others = 12 * s->passed;
    const double near = (double)t->near_bytes, all = (double)b->outer * (double)b->rows;
    const int64_t parts = c->outers * c->row_parts, threads = tpi_team_parts(t, s->work);
    const double part = s->row * (double)(c->outer * c->rows);
    if (parts < 2 || places(b, c) < threads || !stays_near(t, s, c))
        return 0;
    const bool stays = part + s->shared + s->per_outer <= 2 * near;
    const double again = stays ? 0
                               : s->shared * (double)(parts - 1) +
                                     s->per_outer * (double)(b->outer * (c->row_parts - 1));
    return (c->folds ? far : others * (1 - 1 / (double)threads)) * all - again;
}

tpi_band_cut tpi_band_next(const tpi_team *t, const tpk_band *b, int first)
{
    tpi_band_cut best = {
        .n = 1, .outer = b->outer, .rows = b->rows, .outers = 1, .row_parts = 1};
    sums s = {.least = 1, .step = 1, .finest = 1, .grain = 1};
    double most = 0;
    add_member(t, b, first, first, &s);
    for (int n = 2; first + n <= b->n && b->outer > 0 && b->rows > 0; n++) {
        add_member(t, b, first, first + n - 1, &s);
        const int64_t threads = tpi_team_parts(t, s.work);
        tpi_band_cut c = cut_evenly(b, &s, threads);
        if (!stays_near(t, &s, &c))
            c = cut_small(t, b, &s, threads);
        c.n = n;
        const double gain = saved(t, b, &s, &c);
        if (gain > most) {
            most = gain;
            best = c;
            best.threads = threads;
        }
    }
    return best;
}

tpk_part tpi_band_part(const tpk_band *b, const tpi_band_cut *c, int64_t number)
{
    const int64_t o = number / c->row_parts * c->outer, r = number % c->row_parts;
    return (tpk_part){.o0 = o,
                      .o1 = o + c->outer < b->outer ? o + c->outer : b->outer,
                      .r0 = r * c->step,
                      .r1 = r + 1 < c->row_parts ? (r + 1) * c->step : b->rows,
                      .outer = b->outer};
}

/* ---- a run ------------------------------------------------------------------------------------ */

typedef struct band_run {
    const tpk_env *env;
    const tpk_band *b;
    int first;
    tpi_band_cut cut;
    atomic_llong next; /* part that nobody has taken */
    size_t each;       /* bytes of scratch memory of a thread */
} band_run;

static void tick(const tpk_library *l, const tpk_band *b, int member)
{
    if (l->tick && b->first >= 0)
        l->tick(l->watch, (int)b->first + member);
}

/* Do only members of the group see its result? */
static bool is_near(const band_run *r, const tpk_member *m)
{
    return m->until > 0 && m->since >= r->first && m->until < r->first + r->cut.n;
}

/* What is gone when a part is done has the same memory in all parts of a thread, so that it stays in
 * the cache and is never written back: that of the part which is `place` in a grid of parts. */
static void fold(const band_run *r, const tpk_part *part, size_t place, void **p)
{
    const int64_t per = places_per_outer(r->b, &r->cut), at = (int64_t)place;
    const int64_t o = part->o0 - at / per * r->cut.outer,
                  row = part->r0 - at % per * r->cut.rows;
    for (int k = r->first; k < r->first + r->cut.n && r->cut.folds; k++) {
        const tpk_member *m = &r->b->v[k];
        if (is_near(r, m))
            p[m->buffer] = (void *)((intptr_t)r->env->p[m->buffer] -
                                    (intptr_t)(o * m->outer_step + row * m->row_step));
    }
}

/* The parts that are left, one after the other. The first thread tells the profile. */
static void run_parts(void *env, size_t place)
{
    band_run *r = env;
    const int64_t parts = r->cut.outers * r->cut.row_parts;
    const size_t pointers = (size_t)r->b->buffers * sizeof(void *);
    int64_t o = -1;
    char *const ws = (char *)r->env->scratch + place * r->each, *const end =
                                                                    ws + r->each -
                                                                    pointers / 64 * 64 - 64;
    void **const p = (void **)(void *)end;
    memcpy(p, r->env->p, pointers);
    tpk_env own = *r->env;
    own.p = p;
    own.scratch = ws;
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (i >= parts)
            return;
        tpk_part part = tpi_band_part(r->b, &r->cut, i);
        part.keep = end;
        part.fresh = part.o0 != o;
        o = part.o0;
        fold(r, &part, place, p);
        for (int k = r->first; k < r->first + r->cut.n; k++) {
            const tpk_member *m = &r->b->v[k];
            if (place == 0)
                tick(own.library, r->b, k);
            m->kernel(&own, m->a, &part);
        }
    }
}

static void run_group(band_run *r)
{
    const tpi_team *t = r->env->library->team;
    const int64_t threads = r->cut.threads, most = places(r->b, &r->cut);
    atomic_store_explicit(&r->next, 0, memory_order_relaxed);
    tpi_pool_run(t->pool, run_parts, r, (size_t)(threads < most ? threads : most));
}

void tpi_band_run(const tpk_env *env, const tpk_band *b, tpk_part *part)
{
    const tpk_library *library = env->library;
    band_run r = {
        .env = env, .b = b, .each = (size_t)(library->scratch / library->threads) / 64 * 64};
    for (; r.first < b->n; r.first += r.cut.n) {
        const tpk_member *m = &b->v[r.first];
        r.cut = tpi_band_next(library->team, b, r.first);
        if (r.cut.n > 1) {
            run_group(&r);
            continue;
        }
        tick(library, b, r.first);
        m->kernel(env, m->a, part);
    }
}

/* ---- scratch memory --------------------------------------------------------------------------- */

/* How the group that member i is in is cut. */
static tpi_band_cut cut_of(const tpi_team *t, const tpk_band *b, int i)
{
    tpi_band_cut c = {.n = 0};
    for (int first = 0; first <= i; first += c.n)
        c = tpi_band_next(t, b, first);
    return c;
}

int64_t tpi_band_products_ws(const tpk_library *library, const tpk_band *b, int i,
                             const tpk_products *p, int64_t *keeps)
{
    const tpi_team *t = library->team;
    const tpk_library *l = t->kernels->library;
    const tpi_band_cut c = cut_of(t, b, i);
    const int64_t inner = b->outer > 0 ? tpi_products_count(p) / b->outer : 0;
    if (c.n == 1)
        return 0;
    *keeps += (int64_t)tpi_products_kept(l, p, c.rows) * inner;
    return (int64_t)(p->f64 ? l->gemm_ws_f64 : l->gemm_ws_f32)(c.rows, p->n, p->k);
}

static int64_t convolution_ws(const tpi_team *t, const tpk_band *b, int i,
                              const tpk_convolution *c)
{
    const tpi_band_cut cut = cut_of(t, b, i);
    int64_t most = 0;
    for (int64_t k = 0; k < cut.outers * cut.row_parts && cut.n > 1; k++) {
        const tpk_part part = tpi_band_part(b, &cut, k);
        const int64_t ws = (int64_t)tpi_convolution_part_ws(t->kernels->library, c, &part);
        most = ws > most ? ws : most;
    }
    return most;
}

int64_t tpi_band_convolution_ws(const tpk_library *library, const tpk_band *b, int i,
                                const tpk_convolution *c)
{
    tpk_band one = *b; /* as in a microbatch */
    one.outer = 1;
    const int64_t all = convolution_ws(library->team, b, i, c),
                  each = b->outer > 1 ? convolution_ws(library->team, &one, i, c) : 0;
    return all > each ? all : each;
}
