/* What a pass made computes what was there before.
 *
 * Before the first pass the graph is run on a few small inputs. After each pass that
 * changed something it is run again. When a root has other bits the passes before are done once more,
 * on a copy, and what they give is made smaller (validate_least.c). */
#include "check/validate.h"

#include "base/log.h"
#include "op/random_position.h"
#include "pass/prune.h"

#include <string.h>

enum { N_SAMPLES = 3, MOST_ELEMENTS = 1 << 16 };

typedef struct validation {
    tpi_witness witness; /* first: it is handed around as one */
    tp_ctx *ctx;
    const tpi_optimizing *how;
    tpi_trial_run run;
    int n_feeds, n_roots;
    tpi_bump memory;            /* of the lists below */
    tp_graph *first;            /* a copy of what the passes begin with */
    tp_tensor **feeds, **roots; /* its; then room for others */
    tpi_sample samples[N_SAMPLES];
    tp_tensor **values[N_SAMPLES]; /* of the roots; NULL: it cannot be run on this sample */
    tp_tensor **got;               /* room for values after a pass */
} validation;

/* ---- runs ------------------------------------------------------------------------------------- */

bool tpi_try(const tpi_trial *t, const tpi_sample *s, tp_tensor **values)
{
    tp_ctx *ctx = t->g->ctx;
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tpi_positions begins;
    const bool noted = tpi_positions_note(ctx, &begins);
    const bool trap = ctx->trap_nan;
    ctx->trap_nan = false;
    const bool ok = noted && t->run(t, s, values);
    ctx->trap_nan = trap;
    tpi_positions_back(ctx, &begins);
    tpi_positions_free(ctx, &begins);
    if (!ok)
        tpi_log(TPI_LOG_validate, "not run: %s",
                ctx->status != TP_OK ? ctx->error : "no memory");
    ctx->status = TP_OK;
    ctx->error[0] = 0;
    tpi_error_back(ctx, &earlier);
    return ok;
}

static bool is_nan(tp_dtype t, const char *p)
{
    const double v = t == TP_F32 || t == TP_F64 ? tpi_load_f64(t, p) : 0;
    return v != v;
}

int64_t tpi_first_other(const tp_tensor *a, const tp_tensor *b)
{
    const tp_dtype t = (tp_dtype)a->dtype;
    const size_t each = tp_dtype_size(t);
    const int64_t n = tpi_count(a);
    if (a->flags & b->flags & TPI_CONTIGUOUS && memcmp(a->data, b->data, each * (size_t)n) == 0)
        return -1;
    int64_t index[TP_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t at_a = 0, at_b = 0;
        for (int k = 0; k < a->rank; k++) {
            at_a += index[k] * a->stride[k];
            at_b += index[k] * b->stride[k];
        }
        const char *p = a->data + at_a * (int64_t)each, *q = b->data + at_b * (int64_t)each;
        if (memcmp(p, q, each) != 0 && !(is_nan(t, p) && is_nan(t, q)))
            return i;
        for (int k = a->rank - 1; k >= 0 && ++index[k] == a->shape[k]; k--)
            index[k] = 0;
    }
    return -1;
}

/* ---- samples ------------------------------------------------------------------------------------ */

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Small numbers; in the second sample ends of what there is among them; in the third zeros and ones
 * only. Whole numbers are below `whole`: they may be indices. */
static double number(uint64_t *state, bool is_float, int sample, int whole)
{
    static const double ends[] = {
        0.0, -0.0, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 1e-41, 3e38, -1};
    static const double few[] = {0.0, -0.0, 1, -1};
    const uint64_t r = draw(state);
    if (!is_float)
        return (double)(int)(r % (unsigned)whole);
    if (sample == 2)
        return few[r % 4];
    if (sample == 1 && (r >> 62) == 0)
        return ends[r % 8];
    return (double)(int)(r % 4001) / 999 - 2;
}

static tp_tensor *random_feed(tp_ctx *ctx, const tp_tensor *like, const int64_t *shape,
                              uint64_t *state, int sample, int whole)
{
    const tp_dtype t = (tp_dtype)like->dtype;
    tp_tensor *x = tpi_tensor_new(ctx, TPI_AT(like->file, like->line), t, like->rank, shape);
    if (x->status != TP_OK)
        return NULL;
    for (int64_t i = 0; i < tpi_count(x); i++)
        tpi_store_f64(t, x->data + (size_t)i * tp_dtype_size(t),
                      number(state, t >= TP_F32, sample, t == TP_BOOL ? 2 : whole));
    tpi_ref(x);
    return x;
}

static void drop(tp_tensor **v, int n)
{
    for (int i = 0; i < n; i++) {
        tpi_unref(v[i]);
        v[i] = NULL;
    }
}

static bool fill_sample(validation *v, tpi_sample *s, tp_graph *g, tp_tensor *const *feeds,
                        int number_of, int64_t size, int whole)
{
    uint64_t state = (uint64_t)number_of;
    for (int i = 0; i < s->n_symbols; i++)
        s->symbols[i] = size + i % 3;
    for (int i = 0; i < s->n_feeds; i++) {
        int64_t shape[TP_MAX_RANK];
        double count = 1;
        for (int k = 0; k < feeds[i]->rank; k++) {
            shape[k] = tpi_dim_is_symbolic(feeds[i]->shape[k])
                           ? tpi_dim_eval(g->dims, feeds[i]->shape[k], s->symbols)
                           : feeds[i]->shape[k];
            count *= shape[k] < 0 ? (double)(MOST_ELEMENTS + 1) : (double)shape[k];
        }
        if (count > (double)MOST_ELEMENTS)
            tpi_log(TPI_LOG_validate, "not run: an input of more than %d elements",
                    MOST_ELEMENTS);
        s->feeds[i] = count > (double)MOST_ELEMENTS
                          ? NULL
                          : random_feed(v->ctx, feeds[i], shape, &state, number_of, whole);
        if (!s->feeds[i])
            return false;
    }
    return true;
}

/* Sizes and whole numbers that the graph takes: the first of a few. */
static bool find_sample(validation *v, int number_of, tp_graph *g, tp_tensor *const *feeds,
                        tp_tensor *const *roots)
{
    static const struct {
        int64_t size;
        int whole;
    } tries[] = {
        {3,  4},
        {3,  1},
        {2,  2},
        {5,  5},
        {8,  1},
        {16, 1},
        {32, 1}
    };
    const tpi_trial t = {v->run, g, v->n_feeds, v->n_roots, feeds, roots};
    tpi_sample *s = &v->samples[number_of];
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        if (fill_sample(v, s, g, feeds, number_of, tries[i].size, tries[i].whole) &&
            tpi_try(&t, s, v->values[number_of]))
            return true;
        drop(s->feeds, s->n_feeds);
    }
    return false;
}

/* ---- the witness ----------------------------------------------------------------------------------- */

static bool copy_graph(validation *v, tp_graph *g, tp_tensor *const *feeds,
                       tp_tensor *const *roots)
{
    memcpy(v->feeds, feeds, (size_t)v->n_feeds * sizeof *feeds);
    memcpy(v->roots, roots, (size_t)v->n_roots * sizeof *roots);
    v->first = tpi_prune(g, false, v->n_feeds, v->feeds, v->n_roots, v->roots);
    return v->first;
}

static void begin(tpi_witness *w, tp_graph *g, tp_tensor *const *feeds, tp_tensor *const *roots)
{
    validation *v = (validation *)w;
    tpi_bump *m = &v->memory;
    const size_t n_feeds = (size_t)v->n_feeds, n_roots = (size_t)v->n_roots;
    v->feeds = tpi_bump_take(m, n_feeds, sizeof *v->feeds);
    v->roots = tpi_bump_take(m, n_roots, sizeof *v->roots);
    v->got = tpi_bump_take(m, n_roots, sizeof *v->got);
    bool ok = v->got && copy_graph(v, g, feeds, roots);
    for (int i = 0; i < N_SAMPLES && ok; i++) {
        tpi_sample *s = &v->samples[i];
        *s = (tpi_sample){.n_symbols = tpi_dim_n_symbols(g->dims), .n_feeds = v->n_feeds};
        s->symbols = tpi_bump_take(m, (size_t)s->n_symbols, sizeof *s->symbols);
        s->feeds = tpi_bump_take(m, n_feeds, sizeof *s->feeds);
        v->values[i] = tpi_bump_take(m, n_roots, sizeof *v->values[i]);
        ok = v->values[i];
        if (ok && !find_sample(v, i, g, feeds, roots))
            v->values[i] = NULL;
    }
}

static void end(validation *v)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        tpi_sample *s = &v->samples[i];
        if (s->feeds)
            drop(s->feeds, s->n_feeds);
        if (v->values[i])
            drop(v->values[i], v->n_roots);
    }
    tp_graph_free(v->first);
    tpi_bump_free(&v->memory);
}

/* The graph that the pass found: what was done before is done again. */
static void report(validation *v, const tpi_pass *pass, int run, const tpi_sample *s)
{
    tpi_optimizing how = *v->how;
    how.witness = NULL;
    how.most_runs = run;
    tp_graph *g = v->first;
    v->first = NULL;
    if (run)
        g = tpi_optimize(g, &how, v->n_feeds, v->feeds, v->n_roots, v->roots);
    if (!g)
        return;
    const tpi_trial t = {v->run, g, v->n_feeds, v->n_roots, v->feeds, v->roots};
    tpi_report_wrong(&t, s, pass);
    tp_graph_free(g);
}

static bool is_other(const tpi_trial *t, const tpi_sample *s, tp_tensor *const *want,
                     tp_tensor **got)
{
    memset(got, 0, (size_t)t->n_roots * sizeof *got);
    bool other = false;
    if (!tpi_try(t, s, got)) /* by an error that was not there before, or without memory */
        return false;
    for (int i = 0; i < t->n_roots; i++)
        other |= tpi_first_other(want[i], got[i]) >= 0;
    drop(got, t->n_roots);
    return other;
}

static bool after(tpi_witness *w, const tpi_pass *pass, int run, tp_graph *g,
                  tp_tensor *const *feeds, tp_tensor *const *roots)
{
    validation *v = (validation *)w;
    const tpi_trial t = {v->run, g, v->n_feeds, v->n_roots, feeds, roots};
    int bad = -1;
    for (int i = 0; i < N_SAMPLES && bad < 0 && v->first; i++)
        if (v->values[i] && is_other(&t, &v->samples[i], v->values[i], v->got))
            bad = i;
    if (bad < 0)
        return true;
    report(v, pass, run, &v->samples[bad]);
    if (v->ctx->status == TP_OK)
        tpi_fail_status(v->ctx, TPI_AT(NULL, 0), pass->name, TP_E_BUG,
                        "the pass changes the bits of a result");
    return false;
}

tp_graph *tpi_optimize_validated(tp_graph *g, const tpi_optimizing *how, tpi_trial_run run,
                                 int n_feeds, tp_tensor **feeds, int n_roots, tp_tensor **roots)
{
    validation v = {
        .witness = {begin, after},
        .memory = TPI_BUMP(&g->ctx->mem),
        .ctx = g->ctx,
        .how = how,
        .run = run,
        .n_feeds = n_feeds,
        .n_roots = n_roots
    };
    tpi_optimizing own = *how;
    own.witness = &v.witness;
    if (tp_scope_begin(v.ctx) != TP_OK) {
        tp_graph_free(g);
        return NULL;
    }
    g = tpi_optimize(g, &own, n_feeds, feeds, n_roots, roots);
    end(&v);
    tp_scope_end(v.ctx);
    return g;
}
