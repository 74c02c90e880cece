#include "forms.h"

#include "dice.h"
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *form_name(form f)
{
    static const char *const names[] = {"eagerly", "matched", "pure", "as a graph"};
    return names[f];
}

/* ---- results ----------------------------------------------------------------------------- */

void outcome_free(outcome *o)
{
    free(o->bytes);
    free(o->results);
    *o = (outcome){.good = false};
}

static bool outcome_begin(outcome *o, const work *w)
{
    *o = (outcome){.n_out = w->n_out, .good = true};
    o->results = calloc((size_t)(w->calls * w->n_out + 1), sizeof *o->results);
    return o->results != NULL;
}

static bool outcome_add(outcome *o, const tp_tensor *t)
{
    if (tp_failed(t))
        return false;
    const result r = {o->n_bytes, tp_count(t), tp_dtype_of(t)};
    const size_t n = (size_t)r.n * tp_dtype_size(r.dtype);
    if (o->n_bytes + n > o->size) {
        const size_t size = (o->n_bytes + n) * 2;
        unsigned char *bytes = realloc(o->bytes, size);
        if (!bytes)
            return false;
        o->bytes = bytes;
        o->size = size;
    }
    if (n && tp_read(t, o->bytes + o->n_bytes, n) != TP_OK)
        return false;
    o->results[o->n_results++] = r;
    o->n_bytes += n;
    return true;
}

int64_t outcome_read(const outcome *o, int64_t call, int at, double *to, int64_t most)
{
    const int64_t i = call * o->n_out + at;
    if (call < 0 || at < 0 || at >= o->n_out || i >= o->n_results)
        return -1;
    const result r = o->results[i];
    for (int64_t k = 0; k < r.n && k < most; k++) {
        const unsigned char *p = o->bytes + r.at + (size_t)k * tp_dtype_size(r.dtype);
        float f;
        int32_t w;
        int64_t l;
        switch (r.dtype) {
        case TP_F64:
            memcpy(&to[k], p, sizeof to[k]);
            break;
        case TP_F32:
            memcpy(&f, p, sizeof f);
            to[k] = (double)f;
            break;
        case TP_I64:
            memcpy(&l, p, sizeof l);
            to[k] = (double)l;
            break;
        case TP_I32:
            memcpy(&w, p, sizeof w);
            to[k] = w;
            break;
        default:
            to[k] = *p;
        }
    }
    return r.n;
}

static bool outcome_equal(const outcome *a, const outcome *b)
{
    if (a->n_results != b->n_results || a->n_bytes != b->n_bytes)
        return false;
    for (int64_t i = 0; i < a->n_results; i++) {
        const result x = a->results[i], y = b->results[i];
        if (x.at != y.at || x.n != y.n || x.dtype != y.dtype)
            return false;
    }
    return a->n_bytes == 0 || memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

/* What a body is called through: its results are values and no more. A result that a gradient may be
 * asked of from outside would have to be recorded, and a pure function is not replayed for that. */
typedef struct caller {
    const work *w;
    void *user;
} caller;

static void call_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const caller *c = user;
    c->w->body(c->user, n_in, in, n_out, out);
    for (int i = 0; i < n_out; i++)
        out[i] = tp_detach(out[i]);
}

/* ---- a captured function, or an eager one ------------------------------------------------ */

static bool call_function(const work *w, tp_ctx *tp, tp_function *f, int64_t i, outcome *o)
{
    tp_tensor *in[FORMS_MOST], *out[FORMS_MOST];
    tp_scope_begin(tp);
    w->inputs(tp, i, in);
    bool good = tp_function_call(f, w->n_in, in, w->n_out, out) == TP_OK;
    for (int k = 0; good && k < w->n_out; k++)
        good = outcome_add(o, out[k]);
    tp_scope_end(tp);
    return good && tp_error(tp) == TP_OK;
}

/* Is all well after a wait for compilers? Where there is none, what computes without goes on. */
static bool went_well(tp_ctx *tp, tp_status waited)
{
    if (waited == TP_E_COMPILER)
        tp_clear_error(tp);
    return waited == TP_OK || waited == TP_E_COMPILER;
}

static void run_function(const work *w, form how, tp_engine engine, tp_ctx *tp, void *user,
                         outcome *o)
{
    const tp_function_options opt = {
        .engine = engine, .eager = how == FORM_EAGER, .pure = how == FORM_PURE};
    caller c = {w, user};
    tp_function *f = tp_function_new(tp, w->name, call_body, &c, &opt);
    for (int64_t i = 0; i < w->calls && o->good; i++) {
        o->good = call_function(w, tp, f, i, o);
        if (i == w->calls / 2 && engine == TP_ENGINE_AUTO) /* the compiled programs at last */
            o->good = went_well(tp, tp_function_wait(f)) && o->good;
    }
    o->stats = tp_function_stats_of(f);
    tp_function_free(f); /* it must not outlive `c` */
}

/* ---- a graph ----------------------------------------------------------------------------- */

static tp_program *build(const work *w, tp_engine engine, tp_ctx *tp, void *user, tp_graph *g)
{
    static const char *const x[FORMS_MOST] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    static const char *const y[FORMS_MOST] = {"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"};
    tp_tensor *in[FORMS_MOST], *places[FORMS_MOST], *out[FORMS_MOST];
    w->inputs(tp, 0, in);
    for (int i = 0; i < w->n_in; i++) {
        int64_t sizes[TP_MAX_RANK];
        for (int k = 0; k < tp_rank(in[i]); k++)
            sizes[k] = tp_size(in[i], k);
        if (w->varies && w->varies[i] != ' ')
            sizes[0] = tp_symbol(g, (const char[]){w->varies[i], 0});
        places[i] = tp_placeholder(g, x[i], tp_dtype_of(in[i]), tp_rank(in[i]), sizes);
    }
    w->body(user, w->n_in, places, w->n_out, out);
    for (int i = 0; i < w->n_out; i++)
        tp_name(tp_graph_read(g, out[i]), y[i]);
    return tp_graph_compile(g, w->n_in, x, w->n_out, y,
                            &(tp_compile_options){.engine = engine});
}

static bool run_once(const work *w, tp_ctx *tp, tp_program *p, int64_t i, outcome *o)
{
    tp_tensor *in[FORMS_MOST], *out[FORMS_MOST];
    tp_scope_begin(tp);
    w->inputs(tp, i, in);
    bool good = tp_program_run(p, in, out) == TP_OK;
    for (int k = 0; good && k < w->n_out; k++)
        good = outcome_add(o, out[k]);
    tp_scope_end(tp);
    return good;
}

static void run_graph(const work *w, tp_engine engine, tp_ctx *tp, void *user, outcome *o)
{
    tp_graph *g = tp_graph_new(tp);
    tp_program *p = build(w, engine, tp, user, g);
    bool compiled = engine != TP_ENGINE_TILES;
    o->stats.user_calls = 1;
    o->stats.recordings = 1;
    o->stats.segments = p != NULL;
    o->good = p != NULL;
    for (int64_t i = 0; i < w->calls && o->good; i++) {
        o->good = run_once(w, tp, p, i, o);
        o->stats.calls++;
        if (i == w->calls / 2 && engine == TP_ENGINE_AUTO) {
            const tp_status waited = tp_program_wait(p);
            o->good = went_well(tp, waited) && o->good;
            compiled = waited == TP_OK;
        }
    }
    if (o->good && engine != TP_ENGINE_REFERENCE) {
        o->good = strcmp(tp_program_engine(p), compiled ? "c" : "tiles") == 0;
        o->stats.compilations = o->good && compiled;
        if (!o->good)
            fprintf(stderr, "%s: the program ran by %s\n", w->name, tp_program_engine(p));
    }
}

/* ---- all forms --------------------------------------------------------------------------- */

outcome work_run(const work *w, form f, tp_engine engine)
{
    outcome o;
    tp_ctx *tp = tp_open(&(tp_options){.seed = 7});
    if (!tp || !outcome_begin(&o, w)) {
        fprintf(stderr, "%s: out of memory\n", w->name);
        exit(1);
    }
    void *user = w->make ? w->make(tp) : NULL;
    const double start = seconds_now();
    if (f == FORM_GRAPH)
        run_graph(w, engine, tp, user, &o);
    else
        run_function(w, f, engine, tp, user, &o);
    o.seconds = seconds_now() - start;
    if (!o.good || tp_error(tp) != TP_OK)
        fprintf(stderr, "%s, %s: %s\n", w->name, form_name(f), tp_error_message(tp));
    o.good = o.good && tp_error(tp) == TP_OK;
    tp_close(tp);
    return o;
}

bool work_show(const work *w, int n_forms, const form *forms, tp_engine engine, outcome *eager)
{
    outcome oracle = work_run(w, FORM_EAGER, engine);
    bool good = oracle.good;
    for (int i = 0; i < n_forms; i++) {
        outcome o = work_run(w, forms[i], engine);
        const bool same = o.good && outcome_equal(&oracle, &o);
        printf("%s, %s:\n", w->name, form_name(forms[i]));
        show_counts(&o.stats, same);
        good = good && same;
        outcome_free(&o);
    }
    if (eager)
        *eager = oracle;
    else
        outcome_free(&oracle);
    return good;
}

tp_tensor *drawn(tp_ctx *tp, uint64_t seed, tp_dtype dtype, int rank, const int64_t *shape,
                 double lo, double hi)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    double *v = calloc((size_t)n + 1, sizeof *v);
    if (!v)
        exit(1);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++)
        dice(&state, 2);
    for (int64_t i = 0; i < n; i++)
        v[i] = dice_between(&state, lo, hi);
    tp_tensor *t = tp_cast(tp_tensor_new(tp, TP_F64, rank, shape, v), dtype);
    free(v);
    return t;
}

void show_counts(const tp_function_stats *s, bool bits_equal)
{
    printf("calls %lld user_calls %lld recordings %lld segments %lld compilations %lld "
           "bits_equal %s\n",
           (long long)s->calls, (long long)s->user_calls, (long long)s->recordings,
           (long long)s->segments, (long long)s->compilations, bits_equal ? "yes" : "no");
    fflush(stdout);
}

bool show_error(const char *what, double worst, double bound)
{
    const bool good = worst <= bound; /* false for NaN */
    printf("  %s: %.2g, %s %.0e\n", what, worst, good ? "at most" : "MORE THAN", bound);
    return good;
}

bool engine_named(const char *name, tp_engine *engine)
{
    static const char *const names[] = {"auto", "reference", "tiles", "c"};
    static const tp_engine engines[] = {TP_ENGINE_AUTO, TP_ENGINE_REFERENCE, TP_ENGINE_TILES,
                                        TP_ENGINE_C};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *engine = engines[i];
            return true;
        }
    return false;
}

bool parse_engine(int argc, char **argv, tp_engine *engine)
{
    *engine = TP_ENGINE_AUTO;
    const bool good = argc == 1 || (argc == 3 && strcmp(argv[1], "--engine") == 0 &&
                                    engine_named(argv[2], engine));
    if (!good)
        fprintf(stderr, "usage: %s [--engine reference|tiles|auto|c]\n", argv[0]);
    return good;
}
