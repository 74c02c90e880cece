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

/* ---- a form of a work in a context of its own --------------------------------------------- */

typedef struct runner {
    const work *w;
    form how;
    tp_engine engine;
    tp_ctx *tp;
    void *user;
    tp_function *f; /* or, of a graph: */
    tp_program *p;
} runner;

/* Its results are values and no more: one that a gradient may be asked of from outside would have to be
 * recorded, and a pure function is not replayed for that. */
static void call_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const runner *r = user;
    r->w->body(r->user, n_in, in, n_out, out);
    for (int i = 0; i < n_out; i++)
        out[i] = tp_detach(out[i]);
}

static tp_program *build(const runner *r)
{
    static const char *const x[FORMS_MOST] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    static const char *const y[FORMS_MOST] = {"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"};
    const work *w = r->w;
    tp_graph *g = tp_graph_new(r->tp);
    tp_tensor *in[FORMS_MOST], *places[FORMS_MOST], *out[FORMS_MOST];
    w->inputs(r->tp, 0, in);
    for (int i = 0; i < w->n_in; i++) {
        int64_t sizes[TP_MAX_RANK];
        for (int k = 0; k < tp_rank(in[i]); k++)
            sizes[k] = tp_size(in[i], k);
        if (w->varies && w->varies[i] != ' ')
            sizes[0] = tp_symbol(g, (const char[]){w->varies[i], 0});
        places[i] = tp_placeholder(g, x[i], tp_dtype_of(in[i]), tp_rank(in[i]), sizes);
    }
    w->body(r->user, w->n_in, places, w->n_out, out);
    for (int i = 0; i < w->n_out; i++)
        tp_name(tp_graph_read(g, out[i]), y[i]);
    return tp_graph_compile(g, w->n_in, x, w->n_out, y,
                            &(tp_compile_options){.engine = r->engine});
}

/* False: it was said why. It is closed in any case. */
static bool runner_open(runner *r, const work *w, form how, tp_engine engine)
{
    *r =
        (runner){.w = w, .how = how, .engine = engine, .tp = tp_open(&(tp_options){.seed = 7})};
    if (!r->tp) {
        fprintf(stderr, "%s: out of memory\n", w->name);
        return false;
    }
    r->user = w->make ? w->make(r->tp) : NULL;
    const tp_function_options opt = {
        .engine = engine, .eager = how == FORM_EAGER, .pure = how == FORM_PURE};
    if (how == FORM_GRAPH)
        r->p = build(r);
    else
        r->f = tp_function_new(r->tp, w->name, call_body, r, &opt);
    return tp_error(r->tp) == TP_OK;
}

static bool runner_call(const runner *r, tp_tensor *const *in, tp_tensor **out)
{
    const work *w = r->w;
    return (r->p ? tp_program_run(r->p, in, out)
                 : tp_function_call(r->f, w->n_in, in, w->n_out, out)) == TP_OK;
}

/* For the compiled programs. Where there is no compiler, what computes without goes on. */
static bool runner_wait(const runner *r)
{
    const tp_status waited = r->p ? tp_program_wait(r->p) : tp_function_wait(r->f);
    if (waited == TP_E_COMPILER)
        tp_clear_error(r->tp);
    return waited == TP_OK || waited == TP_E_COMPILER;
}

static bool runner_close(runner *r)
{
    const bool good = r->tp && tp_error(r->tp) == TP_OK;
    if (!good && r->tp)
        fprintf(stderr, "%s, %s: %s\n", r->w->name, form_name(r->how), tp_error_message(r->tp));
    tp_close(r->tp);
    return good;
}

/* ---- what all forms give ------------------------------------------------------------------ */

static bool call_once(const runner *r, int64_t i, outcome *o)
{
    tp_tensor *in[FORMS_MOST], *out[FORMS_MOST];
    tp_scope_begin(r->tp);
    r->w->inputs(r->tp, i, in);
    bool good = runner_call(r, in, out);
    for (int k = 0; good && k < r->w->n_out; k++)
        good = outcome_add(o, out[k]);
    tp_scope_end(r->tp);
    return good && tp_error(r->tp) == TP_OK;
}

/* What a graph is built and compiled for, in the terms of a function. */
static tp_function_stats stats_of_graph(const runner *r, outcome *o)
{
    const char *engine = tp_program_engine(r->p);
    const bool compiled = strcmp(engine, "c") == 0;
    const bool wanted = r->engine == TP_ENGINE_REFERENCE || strcmp(engine, "tiles") == 0 ||
                        (compiled && r->engine != TP_ENGINE_TILES);
    if (!wanted)
        fprintf(stderr, "%s: the program ran by %s\n", r->w->name, engine);
    o->good = o->good && wanted;
    return (tp_function_stats){.calls = r->w->calls,
                               .user_calls = 1,
                               .recordings = 1,
                               .segments = 1,
                               .compilations = compiled};
}

outcome work_run(const work *w, form f, tp_engine engine)
{
    outcome o;
    runner r;
    if (!outcome_begin(&o, w)) {
        fprintf(stderr, "%s: out of memory\n", w->name);
        exit(1);
    }
    o.good = runner_open(&r, w, f, engine);
    for (int64_t i = 0; i < w->calls && o.good; i++) {
        o.good = call_once(&r, i, &o);
        if (i == w->calls / 2 && engine == TP_ENGINE_AUTO) /* the compiled programs at last */
            o.good = runner_wait(&r) && o.good;
    }
    if (o.good)
        o.stats = r.p ? stats_of_graph(&r, &o) : tp_function_stats_of(r.f);
    o.good = runner_close(&r) && o.good;
    return o;
}

/* ---- how long they take ------------------------------------------------------------------- */

enum { TIMED = 400, WARM = 800, ROUNDS = 7 };
#define ROUND_S 20e-3

static int64_t timed_calls(const work *w)
{
    return w->calls < TIMED ? w->calls : TIMED;
}

/* Seconds of a call, its arguments made before and all results read; < 0: it failed. */
static double time_call(const runner *r, int64_t i)
{
    tp_tensor *in[FORMS_MOST], *out[FORMS_MOST];
    tp_scope_begin(r->tp);
    r->w->inputs(r->tp, i, in);
    const double start = seconds_now();
    bool good = runner_call(r, in, out);
    for (int k = 0; good && k < r->w->n_out; k++)
        good = tp_data(out[k]) != NULL;
    const double seconds = seconds_now() - start;
    tp_scope_end(r->tp);
    return good ? seconds : -1;
}

/* Seconds of a call on average, over all the calls as often as takes at_least. */
static double time_round(const runner *r, double at_least)
{
    double sum = 0;
    int64_t times = 0;
    do {
        for (int64_t i = 0; i < timed_calls(r->w); i++) {
            const double seconds = time_call(r, i);
            if (seconds < 0)
                return -1;
            sum += seconds;
        }
        times++;
    } while (sum < at_least);
    return sum / (double)(times * timed_calls(r->w));
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Until all is recorded and compiled, and it is chosen what is faster. */
static bool warm_up(const runner *r)
{
    bool good = true;
    for (int64_t calls = 0; calls < WARM && good; calls += timed_calls(r->w))
        good = time_round(r, 0) >= 0 && runner_wait(r);
    return good;
}

/* The forms take turns; medians of the rounds. */
static bool show_times(const work *w, int n, const form *forms, tp_engine engine)
{
    runner r[FORMS_MOST];
    double seconds[FORMS_MOST][ROUNDS];
    bool good = true;
    for (int i = 0; i < n; i++)
        good = runner_open(&r[i], w, forms[i], engine) && good && warm_up(&r[i]);
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < n && good; i++) {
            seconds[i][k] = time_round(&r[i], ROUND_S);
            good = seconds[i][k] >= 0;
        }
    for (int i = 0; i < n; i++) {
        good = runner_close(&r[i]) && good;
        qsort(seconds[i], good ? ROUNDS : 0, sizeof **seconds, compare_doubles);
    }
    if (good)
        printf("%-50s %s %8.1f us", w->name, form_name(forms[0]), 1e6 * seconds[0][ROUNDS / 2]);
    for (int i = 1; i < n && good; i++)
        printf("   %s %5.2f", form_name(forms[i]),
               seconds[i][ROUNDS / 2] / seconds[0][ROUNDS / 2]);
    printf("\n");
    fflush(stdout);
    return good;
}

/* ---- all forms --------------------------------------------------------------------------- */

static bool show_stats(const work *w, int n_forms, const form *forms, tp_engine engine,
                       const outcome *oracle)
{
    bool good = true;
    for (int i = 0; i < n_forms; i++) {
        outcome o = work_run(w, forms[i], engine);
        const bool same = o.good && outcome_equal(oracle, &o);
        printf("%s, %s:\n", w->name, form_name(forms[i]));
        show_counts(&o.stats, same);
        good = good && same;
        outcome_free(&o);
    }
    return good;
}

bool work_show(const work *w, int n_forms, const form *forms, const options *how,
               outcome *eager)
{
    outcome oracle = work_run(w, FORM_EAGER, how->engine);
    form all[FORMS_MOST] = {FORM_EAGER};
    memcpy(all + 1, forms, (size_t)n_forms * sizeof *forms);
    const bool good = (how->times ? show_times(w, n_forms + 1, all, how->engine)
                                  : show_stats(w, n_forms, forms, how->engine, &oracle)) &&
                      oracle.good;
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

bool parse_options(int argc, char **argv, options *o)
{
    *o = (options){.engine = TP_ENGINE_AUTO};
    for (int i = 1; i < argc; i++) {
        const bool times = strcmp(argv[i], "--times") == 0;
        o->times = o->times || times;
        if (times || (strcmp(argv[i], "--engine") == 0 && i + 1 < argc &&
                      engine_named(argv[++i], &o->engine)))
            continue;
        fprintf(stderr, "usage: %s [--engine reference|tiles|auto|c] [--times]\n", argv[0]);
        return false;
    }
    return true;
}
