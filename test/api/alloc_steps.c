/* The n-th allocation of the process fails, for every n, in an eager, a captured and a compiled step, those of
 * the C library and the loader among them: the step has the bits it has with all the memory, or it says that it
 * failed and works the next time; nothing crashes, and nothing is kept.
 *
 *     alloc_steps [--offsets K] [SCENARIO [N OFFSET]]      one of them, one n
 *
 * A context cuts its blocks from chunks of 256 KiB. So that other blocks meet the end of a chunk, each step runs
 * K times, with more of a chunk taken before it. */
#include "api/fail_malloc.h"
#include "tapir/tapir.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, CHUNK = 256 << 10, PIECE = 1 << 10 };

typedef struct result {
    float v[MOST];
    int n;
} result;

typedef struct scenario {
    const char *name;
    bool (*run)(tp_ctx *tp, result *r);
} scenario;

static char folder[] = "/tmp/alloc_steps_XXXXXX";

static tp_tensor *pattern(tp_ctx *tp, int rank, const int64_t *shape, float scale)
{
    int64_t n = 1;
    float v[512];
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n; i++)
        v[i] = scale * (float)(i * 37 % 23 - 11);
    return tp_tensor_new(tp, TP_F32, rank, shape, v);
}

static bool add(result *r, tp_tensor *t)
{
    const int64_t n = tp_failed(t) ? 0 : tp_count(t);
    if (n == 0 || r->n + n > MOST || tp_read(t, r->v + r->n, (size_t)n * sizeof *r->v) != TP_OK)
        return false;
    r->n += (int)n;
    return true;
}

/* ---- the steps --------------------------------------------------------------------------------- */

static tp_tensor *loss_of(tp_tensor *const *params, tp_tensor *x, tp_tensor *labels)
{
    tp_tensor *h = tp_relu(tp_conv(x, params[0], NULL));
    h = tp_max_pool(h, &(tp_window){
                           .kernel = {2, 2}
    });
    return tp_cross_entropy(tp_linear(tp_flatten(h, 1), params[1], params[2]), labels);
}

static void make_params(tp_ctx *tp, tp_tensor **params)
{
    params[0] = tp_param(pattern(tp, TP_DIMS(2, 1, 3, 3), 0.05f), "conv.w");
    params[1] = tp_param(pattern(tp, TP_DIMS(8, 3), 0.04f), "dense.w");
    params[2] = tp_param(pattern(tp, TP_DIMS(3), 0.1f), "dense.b");
}

static bool eager(tp_ctx *tp, result *r)
{
    tp_tensor *params[3];
    make_params(tp, params);
    tp_optimizer *adam = tp_adam_new(tp, 0.1, &(tp_adam_options){.decay = 0.01}, 3, params);
    bool ok = adam != NULL;
    for (int i = 0; i < 3 && ok; i++) {
        ok = tp_scope_begin(tp) == TP_OK;
        if (!ok)
            break;
        tp_tensor *x = pattern(tp, TP_DIMS(2, 1, 6, 6), 0.1f);
        tp_tensor *labels = tp_tensor_new(tp, TP_I64, TP_DIMS(2), (const int64_t[]){2, 0});
        tp_tensor *loss = loss_of(params, x, labels);
        ok = !tp_failed(tp_optimizer_step(adam, loss)) && add(r, loss);
        tp_scope_end(tp);
    }
    for (int i = 0; i < 3 && ok; i++)
        ok = add(r, params[i]);
    tp_optimizer_free(adam);
    return ok;
}

/* Larger than what blocks of the context are cut from. */
static bool large(tp_ctx *tp, result *r)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_tensor *x = tp_uniform(tp, TP_F32, TP_DIMS(150, 150), -1, 1);
    tp_tensor *w = tp_require_grad(tp_uniform(tp, TP_F32, TP_DIMS(150, 150), -1, 1));
    tp_tensor *y = tp_tanh(tp_matmul(tp_swap(x, 0, 1), w));
    tp_tensor *g = tp_grad(tp_mean(tp_mul(y, y), TP_ALL, false), w);
    tp_tensor *sorted = tp_sort(tp_reshape(g, TP_DIMS(-1)), 0, true);
    const bool ok = add(r, tp_mean(g, TP_ALL, false)) && add(r, tp_slice(sorted, 0, 0, 5, 1));
    tp_scope_end(tp);
    return ok;
}

static void branching(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *y = tp_matmul(in[0], in[1]), *sum = tp_sum(y, TP_ALL, false);
    tp_tensor *zero = tp_scalar_like(sum, 0);
    if (tp_truth(tp_lt(sum, zero)))
        y = tp_relu(y);
    while (tp_truth(tp_gt(sum, zero))) {
        y = tp_mul(y, tp_tanh(y));
        sum = tp_sub(sum, tp_scalar_like(sum, 3));
    }
    out[0] = y;
}

static bool call(tp_ctx *tp, result *r, const tp_function_options *how)
{
    tp_function *f = tp_function_new(tp, "branching", branching, NULL, how);
    bool ok = f != NULL;
    for (int i = 0; i < 9 && ok; i++) {
        ok = tp_scope_begin(tp) == TP_OK;
        if (!ok)
            break;
        tp_tensor *in[] = {pattern(tp, TP_DIMS(2, 4), 0.2f * (float)(i % 3 - 1)),
                           pattern(tp, TP_DIMS(4, 3), 0.1f)};
        ok = add(r, tp_function_apply(f, 2, in));
        tp_scope_end(tp);
    }
    tp_function_free(f);
    return ok;
}

static bool captured(tp_ctx *tp, result *r)
{
    return call(tp, r, &(tp_function_options){.engine = TP_ENGINE_TILES});
}

static bool pure(tp_ctx *tp, result *r)
{
    return call(tp, r, &(tp_function_options){.engine = TP_ENGINE_REFERENCE, .pure = true});
}

static bool compile(tp_ctx *tp, result *r, tp_engine engine)
{
    static const char *const feeds[] = {"x", "labels"}, *const fetches[] = {"loss", "step"};
    tp_tensor *params[3], *dx[3], *assigned[3], *out[2];
    make_params(tp, params);
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n");
    tp_tensor *loss = loss_of(params, tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 1, 6, 6)),
                              tp_placeholder(g, "labels", TP_I64, TP_DIMS(n)));
    tp_name(loss, "loss");
    bool ok = tp_grads(loss, NULL, 3, params, dx) == TP_OK;
    for (int i = 0; i < 3 && ok; i++)
        assigned[i] =
            tp_assign(params[i], tp_sub(params[i], tp_mul(dx[i], tp_scalar_like(dx[i], 0.1))));
    ok = ok && !tp_failed(tp_name(tp_group(3, assigned), "step"));
    tp_program *p =
        ok ? tp_graph_compile(g, 2, feeds, 2, fetches, &(tp_compile_options){.engine = engine})
           : NULL;
    ok = p && (engine != TP_ENGINE_C || tp_program_wait(p) == TP_OK);
    for (int i = 0; i < 3 && ok; i++) {
        tp_tensor *const in[] = {
            pattern(tp, TP_DIMS(2, 1, 6, 6), 0.1f),
            tp_tensor_new(tp, TP_I64, TP_DIMS(2), (const int64_t[]){2, 0})};
        ok = tp_program_run(p, in, out) == TP_OK && add(r, out[0]);
    }
    for (int i = 0; i < 3 && ok; i++)
        ok = add(r, params[i]);
    tp_program_free(p);
    tp_graph_free(g);
    return ok;
}

static bool by_reference(tp_ctx *tp, result *r)
{
    return compile(tp, r, TP_ENGINE_REFERENCE);
}

static bool by_tiles(tp_ctx *tp, result *r)
{
    return compile(tp, r, TP_ENGINE_TILES);
}

/* The first run fills the cache. */
static bool by_c(tp_ctx *tp, result *r)
{
    return compile(tp, r, TP_ENGINE_C);
}

static const scenario scenarios[] = {
    {"eager",     eager       },
    {"large",     large       },
    {"captured",  captured    },
    {"pure",      pure        },
    {"reference", by_reference},
    {"tiles",     by_tiles    },
    {"c",         by_c        },
};

/* ---- the sweep ----------------------------------------------------------------------------------- */

typedef struct place { /* where memory ends */
    const scenario *s;
    long n, offset;
} place;

static int fail(place at, const char *what, const char *text)
{
    printf("%s: allocation %ld failed: %s%s\n    repeat: alloc_steps %s %ld %ld\n", at.s->name,
           at.n, what, text, at.s->name, at.n, at.offset);
    return 1;
}

static bool take(tp_ctx *tp, long offset)
{
    for (; offset > 0; offset -= PIECE)
        if (!tp_alloc(tp, PIECE))
            return false;
    return true;
}

static tp_ctx *open_context(void)
{
    return tp_open(&(tp_options){.seed = 5, .cache_dir = folder});
}

static bool is_same(const result *a, const result *b)
{
    return a->n == b->n && memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v) == 0;
}

/* Once, and again in the same context when it failed. */
static int attempt(place at, const result *want, bool *reached)
{
    result got = {.n = 0};
    fail_malloc_at(at.n);
    tp_ctx *tp = open_context();
    const bool ok = tp && take(tp, at.offset) && at.s->run(tp, &got) && tp_error(tp) == TP_OK;
    *reached = fail_malloc_reached();
    fail_malloc_at(0);
    int bad = 0;
    if (ok && !is_same(&got, want))
        bad = fail(at, "other results", "");
    if (tp && !ok) {
        const tp_status status = tp_error(tp);
        if (status != TP_E_MEMORY && status != TP_E_COMPILER && status != TP_E_IO)
            bad = fail(at, "what is said is ", tp_error_message(tp));
        tp_clear_error(tp);
        tp_seed(tp, 5);
        got.n = 0;
        if (!bad && !at.s->run(tp, &got))
            bad = fail(at, "it does not work afterwards: ", tp_error_message(tp));
        else if (!bad && !is_same(&got, want))
            bad = fail(at, "it has other results afterwards", "");
    }
    tp_close(tp);
    return bad;
}

/* What the C library keeps once does not grow again. */
static int leak(place at, const result *want)
{
    bool reached;
    long live = fail_malloc_live();
    for (int i = 0; i < 3; i++) {
        attempt(at, want, &reached);
        const long now = fail_malloc_live();
        if (now <= live)
            return 0;
        live = now;
    }
    return fail(at, "each time blocks stay out after tp_close", "");
}

static int one(place at, const result *want, bool *reached)
{
    fflush(stdout);
    const long live = fail_malloc_live();
    const int bad = attempt(at, want, reached);
    return bad || fail_malloc_live() <= live ? bad : leak(at, want);
}

static bool run_well(const scenario *s, result *r)
{
    tp_ctx *tp = open_context();
    const bool ok = s->run(tp, r);
    if (!ok)
        printf("%s: fails with all the memory: %s\n", s->name, tp_error_message(tp));
    tp_close(tp);
    return ok;
}

static int sweep(const scenario *s, int n_offsets)
{
    result want = {.n = 0};
    int n_bad = 0;
    long n_all = 0;
    if (!run_well(s, &want))
        return 1;
    for (int i = 0; i < n_offsets; i++) {
        bool reached = true;
        place at = {s, 1, (long)i * CHUNK / n_offsets};
        for (; reached && n_bad < 5; at.n++)
            n_bad += one(at, &want, &reached);
        n_all += at.n - 2;
    }
    printf("%s: each of %ld allocations failed, in %d runs\n", s->name, n_all, n_offsets);
    if (n_all < 2 * n_offsets) {
        printf("%s: there are too few\n", s->name);
        n_bad++;
    }
    return n_bad;
}

static int only(const scenario *s, long n, long offset)
{
    result want = {.n = 0};
    bool reached;
    return !run_well(s, &want) || one((place){s, n, offset}, &want, &reached);
}

int main(int argc, char **argv)
{
    int n_bad = 0, n_offsets = 2, at = 1;
    setenv("TAPIR_THREADS", "1", 1);
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    if (argc > 2 && strcmp(argv[1], "--offsets") == 0) {
        n_offsets = atoi(argv[2]);
        at = 3;
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const scenario *s = &scenarios[i];
        if (at < argc && strcmp(argv[at], s->name) != 0)
            continue;
        n_bad += at + 2 < argc ? only(s, atol(argv[at + 1]), atol(argv[at + 2]))
                               : sweep(s, n_offsets);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || n_bad != 0;
}
