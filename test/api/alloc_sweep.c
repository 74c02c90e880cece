/* Memory runs out at the n-th allocation, for every n: no crash, nothing is kept after
 * tp_close, and the variables are all as they were or all as the whole step leaves them.
 *
 * In the stress build and under the address sanitizer every block is an allocation. Elsewhere blocks come
 * from chunks that are there already, and few are.
 *
 * ALLOC_SWEEP_STEP=k in the environment takes every k-th n only; ALLOC_SWEEP_AT=n that one. */
#include "common/unit.h"
#include "plan/cut.h"
#include "run/program.h"
#include "tapir/tapir.h"

#include <sys/stat.h>
#include <unistd.h>

enum { N_VARS = 3, MOST = 64 };

typedef struct state {
    float before[N_VARS][MOST], after[N_VARS][MOST];
    size_t size[N_VARS];
} state;

typedef struct job {
    const char *name;
    /* Builds what the step works on; returns the variables. Memory does not run out here. */
    void (*prepare)(tp_ctx *tp, struct job *j);
    /* The step. False when it failed. */
    bool (*step)(tp_ctx *tp, struct job *j);
    tp_tensor *vars[N_VARS];
    tp_graph *g;
    tp_program *program;
    tp_optimizer *optimizer;
    const char *cache;
    int64_t limit; /* of memory; 0: none, and the batch is a symbol */
    tp_function *f;
    bool pure;
} job;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static tp_tensor *pattern(tp_ctx *tp, int rank, const int64_t *shape, float scale)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    float v[512];
    assert_true(n <= 512);
    for (int64_t i = 0; i < n; i++)
        v[i] = scale * (float)(i * 37 % 23 - 11);
    return tp_tensor_new(tp, TP_F32, rank, shape, v);
}

static void make_vars(tp_ctx *tp, job *j)
{
    j->vars[0] = tp_param(pattern(tp, TP_DIMS(2, 1, 3, 3), 0.05f), "conv.w");
    j->vars[1] = tp_param(pattern(tp, TP_DIMS(8, 3), 0.04f), "dense.w");
    j->vars[2] = tp_param(pattern(tp, TP_DIMS(3), 0.1f), "dense.b");
}

static tp_tensor *loss_of(const job *j, tp_tensor *x, tp_tensor *labels)
{
    tp_tensor *h = tp_relu(tp_conv(x, j->vars[0], NULL));
    for (int i = 0; i < 3 && j->limit; i++) /* what a limit makes be computed twice */
        h = tp_mul(h, tp_tanh(h));
    h = tp_max_pool(h, &(tp_window){
                           .kernel = {2, 2}
    });
    return tp_cross_entropy(tp_linear(tp_flatten(h, 1), j->vars[1], j->vars[2]), labels);
}

/* ---- an eager training step -------------------------------------------------------------- */

static void prepare_eager(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->optimizer = tp_adam_new(tp, 0.1, &(tp_adam_options){.decay = 0.01}, N_VARS, j->vars);
}

static bool step_eager(tp_ctx *tp, job *j)
{
    const int64_t labels[] = {2, 0};
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_tensor *x = pattern(tp, TP_DIMS(2, 1, 6, 6), 0.1f);
    tp_tensor *loss = loss_of(j, x, tp_tensor_new(tp, TP_I64, TP_DIMS(2), labels));
    const bool ok = !tp_failed(tp_optimizer_step(j->optimizer, loss));
    tp_scope_end(tp);
    return ok;
}

/* By hand, through tp_backward and one run that assigns all. */
static bool step_backward(tp_ctx *tp, job *j)
{
    const int64_t labels[] = {2, 0};
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_tensor *x = pattern(tp, TP_DIMS(2, 1, 6, 6), 0.1f);
    tp_tensor *loss = loss_of(j, x, tp_tensor_new(tp, TP_I64, TP_DIMS(2), labels));
    bool ok = tp_backward(loss) == TP_OK;
    tp_tensor *now[N_VARS];
    const bool was = tp_recording(tp, false);
    for (int i = 0; i < N_VARS; i++) {
        tp_tensor *g = tp_grad_of(j->vars[i]);
        now[i] = tp_sub(j->vars[i], tp_mul(g, tp_scalar_like(g, 0.1)));
        ok = ok && !tp_failed(now[i]);
    }
    tp_recording(tp, was);
    for (int i = 0; i < N_VARS && ok; i++) /* contiguous to contiguous: takes no memory */
        ok = !tp_failed(tp_assign(j->vars[i], now[i]));
    for (int i = 0; i < N_VARS; i++)
        tp_zero_grad(j->vars[i]);
    tp_scope_end(tp);
    return ok;
}

/* ---- a graph: built, differentiated, compiled, run, saved, loaded ------------------------ */

static tp_graph *build(tp_ctx *tp, job *j)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = j->limit ? 2 : tp_symbol(g, "n");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 1, 6, 6));
    tp_tensor *labels = tp_placeholder(g, "labels", TP_I64, TP_DIMS(n));
    tp_tensor *loss = loss_of(j, x, labels), *dx[N_VARS], *assigned[N_VARS];
    tp_name(loss, "loss");
    if (tp_grads(loss, NULL, N_VARS, j->vars, dx) != TP_OK)
        return NULL;
    for (int i = 0; i < N_VARS; i++)
        assigned[i] = tp_assign(j->vars[i],
                                tp_sub(j->vars[i], tp_mul(dx[i], tp_scalar_like(dx[i], 0.1))));
    tp_tensor *step = tp_name(tp_group(N_VARS, assigned), "step");
    return tp_failed(step) || tp_failed(loss) || tp_error(tp) != TP_OK ? NULL : g;
}

static tp_program *compile_under(tp_graph *g, tp_engine engine, int64_t limit)
{
    static const char *const feeds[] = {"x", "labels"}, *const fetches[] = {"loss", "step"};
    const tp_compile_options opt = {.engine = engine, .memory_limit = limit};
    return g ? tp_graph_compile(g, 2, feeds, 2, fetches, &opt) : NULL;
}

static tp_program *compile(tp_graph *g, tp_engine engine)
{
    return compile_under(g, engine, 0);
}

static bool run(tp_ctx *tp, tp_program *p)
{
    const int64_t labels[] = {2, 0};
    tp_tensor *const in[] = {pattern(tp, TP_DIMS(2, 1, 6, 6), 0.1f),
                             tp_tensor_new(tp, TP_I64, TP_DIMS(2), labels)};
    tp_tensor *out[2];
    const tp_status status = p ? tp_program_run(p, in, out) : TP_E_MEMORY;
    if (p)
        assert_int_equal(status != TP_OK, tp_failed(out[0]) || tp_failed(out[1]));
    return status == TP_OK;
}

static void saved_path(const job *j, char *path, size_t size)
{
    snprintf(path, size, "%s/graph", j->cache);
}

/* A file that is there is a whole one. */
static void whole_or_none(const job *j)
{
    char path[300];
    saved_path(j, path, sizeof path);
    if (access(path, F_OK) != 0)
        return;
    tp_ctx *tp = tp_open(NULL);
    if (!tp_graph_load(tp, path))
        fail_msg("%s: a half-written file: %s", j->name, tp_error_message(tp));
    tp_close(tp);
    unlink(path);
}

static void prepare_graph(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
}

/* All of its files are there, or none. */
static bool save_c(tp_graph *g, const job *j)
{
    char path[2][310];
    snprintf(path[0], sizeof path[0], "%s/step.c", j->cache);
    snprintf(path[1], sizeof path[1], "%s/step.h", j->cache);
    const bool ok = tp_graph_save_c(g, path[0], TP_NAMES("x", "labels"),
                                    TP_NAMES("loss", "step"), NULL) == TP_OK;
    for (int i = 0; i < 2; i++)
        assert_int_equal(unlink(path[i]) == 0, ok);
    return ok;
}

static bool step_graph(tp_ctx *tp, job *j)
{
    char path[300];
    saved_path(j, path, sizeof path);
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_graph *g = build(tp, j);
    tp_program *p = compile(g, TP_ENGINE_REFERENCE);
    bool ok = p && tp_graph_save(g, path) == TP_OK && tp_graph_load(tp, path) && save_c(g, j) &&
              run(tp, p);
    tp_scope_end(tp);
    return ok;
}

/* ---- a captured function that branches, as C ----------------------------------------------- */

static void branching(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const job *j = user;
    if (n_in != 1 || n_out != 1)
        return;
    tp_tensor *y = tp_matmul(in[0], j->vars[1]), *sum = tp_sum(y, TP_ALL, false);
    tp_tensor *zero = tp_scalar_like(sum, 0);
    if (tp_truth(tp_lt(sum, zero)))
        y = tp_relu(y);
    while (tp_truth(tp_gt(sum, zero))) {
        tp_assign(j->vars[2], tp_add(j->vars[2], sum));
        sum = tp_sub(sum, tp_uniform_like(sum, 3, 4));
    }
    out[0] = tp_add(y, j->vars[2]);
}

static void prepare_branches(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->f =
        tp_function_new(tp, "branching", branching, j,
                        &(tp_function_options){.engine = TP_ENGINE_REFERENCE, .pure = j->pure});
    for (int i = 0; i < 70; i++) {
        tp_tensor *x = pattern(tp, TP_DIMS(2, 8), 0.1f * (float)(i % 5 - 2));
        assert_false(tp_failed(tp_function_apply(j->f, 1, &x)));
    }
}

static bool step_branches(tp_ctx *tp, job *j)
{
    char path[2][310];
    snprintf(path[0], sizeof path[0], "%s/branch.c", j->cache);
    snprintf(path[1], sizeof path[1], "%s/branch.h", j->cache);
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    const bool ok =
        tp_function_save_c(j->f, path[0], TP_NAMES("x"), TP_NAMES("y"), NULL) == TP_OK;
    tp_scope_end(tp);
    for (int i = 0; i < 2; i++)
        assert_int_equal(unlink(path[i]) == 0, ok);
    return ok;
}

/* ---- random numbers from several streams ------------------------------------------------- */

static void drawing(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_ctx *tp = user;
    if (n_in != 1 || n_out != 1)
        return;
    tp_tensor *y = tp_add(in[0], tp_uniform_like(in[0], 0, 1));
    tp_random_stream(tp, 4);
    out[0] = tp_add(y, tp_uniform_like(y, 0, 1));
    tp_random_stream(tp, 0);
}

static void prepare_streams(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->f = tp_function_new(tp, "drawing", drawing, tp,
                           &(tp_function_options){.engine = TP_ENGINE_TILES, .pure = true});
    for (int i = 0; i < 6; i++)
        assert_false(tp_failed(tp_function_apply(j->f, TP_TENSORS(j->vars[2]))));
}

/* By a graph of three streams, in a loop too. */
static bool step_of_streams(tp_ctx *tp, const job *j)
{
    char path[310];
    snprintf(path, sizeof path, "%s/model.onnx", j->cache);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *h = g ? tp_graph_read(g, j->vars[2]) : NULL;
    tp_random_stream(tp, 3);
    h = tp_add(h, tp_uniform_like(h, 0, 1));
    tp_for (2, &h) {
        tp_random_stream(tp, 2);
        h = tp_add(h, tp_uniform_like(h, 0, 1));
    }
    tp_random_stream(tp, 0);
    h = tp_add(h, tp_uniform_like(h, 0, 1));
    if (tp_failed(tp_name(h, "drawn")) || tp_failed(tp_name(tp_assign(j->vars[2], h), "new")) ||
        tp_error(tp) != TP_OK)
        return false;
    const bool saved = tp_onnx_save(g, path, 0, NULL, TP_NAMES("drawn")) == TP_OK;
    if (saved)
        unlink(path);
    tp_tensor *out;
    tp_program *p = tp_graph_compile(g, 0, NULL, TP_NAMES("new"),
                                     &(tp_compile_options){.engine = TP_ENGINE_TILES});
    const bool ok = saved && p && tp_program_run(p, NULL, &out) == TP_OK;
    tp_program_free(p);
    return ok;
}

/* Replayed, saved and loaded, and run. */
static bool step_streams(tp_ctx *tp, job *j)
{
    char path[310];
    snprintf(path, sizeof path, "%s/state.safetensors", j->cache);
    tp_seed(tp, 3);
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_random_stream(tp, 7);
    tp_random_stream(tp, 0);
    bool ok = tp_error(tp) == TP_OK;
    ok = ok && !tp_failed(tp_function_apply(j->f, TP_TENSORS(j->vars[2])));
    tp_state *s = tp_state_new(tp);
    ok = ok && s && tp_state_add_random(s) == TP_OK && tp_state_save(s, path) == TP_OK &&
         tp_state_load(s, path, NULL) == TP_OK;
    tp_state_free(s);
    unlink(path);
    ok = ok && step_of_streams(tp, j);
    tp_random_stream(tp, 0);
    tp_scope_end(tp);
    return ok;
}

/* ---- the C engine, its object in the cache ----------------------------------------------- */

static void prepare_c(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->g = build(tp, j);
    tp_program *p = compile(j->g, TP_ENGINE_C); /* fills the cache */
    if (p && tp_program_wait(p) != TP_OK)
        tp_clear_error(tp);
    tp_program_free(p);
}

static bool step_c(tp_ctx *tp, job *j)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_program *p = compile(j->g, TP_ENGINE_C);
    const bool ok = run(tp, p);
    tp_scope_end(tp);
    return ok;
}

/* ---- tiles, two threads, whatever can be side by side ------------------------------------ */

static void prepare_waves(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->g = build(tp, j);
    tp_threads(tp, 2);
}

static bool step_waves(tp_ctx *tp, job *j)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_program *p = compile(j->g, TP_ENGINE_TILES);
    if (p)
        p->wave_ns = 0;
    const bool ok = run(tp, p);
    assert_true(!ok || (p->cuts && p->cuts->n_waves) || !tp->pool);
    tp_scope_end(tp);
    return ok;
}

/* ---- the least memory that it can be done in ---------------------------------------------- */

static void prepare_limit(tp_ctx *tp, job *j)
{
    make_vars(tp, j);
    j->g = build(tp, j);
}

static bool step_limit(tp_ctx *tp, job *j)
{
    if (tp_scope_begin(tp) != TP_OK)
        return false;
    tp_program *p = compile_under(j->g, TP_ENGINE_TILES, j->limit);
    const bool ok = run(tp, p);
    assert_true(!ok || tp_program_stats_of(p).arena_bytes <= j->limit);
    tp_scope_end(tp);
    return ok;
}

/* As a limit of one byte is refused. */
static int64_t least_limit(void)
{
    tp_ctx *tp = tp_open(NULL);
    job j = {.limit = 1};
    make_vars(tp, &j);
    tp_graph *g = build(tp, &j);
    assert_null(compile_under(g, TP_ENGINE_TILES, j.limit));
    const char *is = strstr(tp_error_message(tp), "between kernels is ");
    const int64_t least = is ? strtoll(is + strlen("between kernels is "), NULL, 10) : 0;
    tp_clear_error(tp);
    tp_program *p = compile(g, TP_ENGINE_TILES);
    assert_true(run(tp, p));
    assert_in_range(least, 1, tp_program_stats_of(p).arena_bytes - 1);
    tp_close(tp);
    return least;
}

/* ---- the sweep --------------------------------------------------------------------------- */

static void read_all(const job *j, float to[N_VARS][MOST], size_t size[N_VARS])
{
    for (int i = 0; i < N_VARS; i++) {
        size[i] = (size_t)tp_count(j->vars[i]) * sizeof(float);
        assert_true(size[i] <= sizeof to[i]);
        assert_int_equal(tp_read(j->vars[i], to[i], size[i]), TP_OK);
    }
}

/* Is it a new context's step that succeeds? Then allocation n was one too many. */
static bool sweep_one(job *j, long n, state *s)
{
    unit_memory memory = {0};
    const tp_allocator a = {unit_alloc, unit_release, &memory};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &a, .cache_dir = j->cache});
    assert_non_null(tp);
    j->prepare(tp, j);
    assert_int_equal(tp_error(tp), TP_OK);
    float now[N_VARS][MOST];
    read_all(j, s->before, s->size);
    if (n)
        memory.fail_at = memory.calls + n;
    const bool ok = j->step(tp, j);
    const bool reached = n && memory.calls >= memory.fail_at;
    memory.fail_at = 0;
    if (!n && !ok)
        fail_msg("%s: fails with all the memory: %s", j->name, tp_error_message(tp));
    if (!ok && tp_error(tp) == TP_OK)
        fail_msg("%s: allocation %ld failed, and nothing is said", j->name, n);
    if (!ok && tp_error(tp) != TP_E_MEMORY && tp_error(tp) != TP_E_COMPILER)
        fail_msg("%s: allocation %ld failed, and what is said is %s", j->name, n,
                 tp_error_message(tp));
    tp_clear_error(tp);
    read_all(j, n ? now : s->after, s->size);
    for (int i = 0; i < N_VARS && n; i++)
        if (memcmp(now[i], ok ? s->after[i] : s->before[i], s->size[i]) != 0)
            fail_msg("%s: allocation %ld failed, the step %s, and variable %d is not as it "
                     "was %s it",
                     j->name, n, ok ? "went on" : "failed", i, ok ? "after" : "before");
    if (reached && !ok) { /* and once more, with memory */
        if (!j->step(tp, j))
            fail_msg("%s: after allocation %ld had failed the step never works again: %s",
                     j->name, n, tp_error_message(tp));
    }
    tp_close(tp);
    if (memory.bytes)
        fail_msg("%s: allocation %ld failed: %zu bytes are still out after tp_close", j->name,
                 n, memory.bytes);
    whole_or_none(j);
    return !n || !reached;
}

static void sweep(job j)
{
    char cache[] = "/tmp/alloc_sweep_XXXXXX";
    assert_non_null(mkdtemp(cache));
    j.cache = cache;
    state s;
    sweep_one(&j, 0, &s);
    const long only = number("ALLOC_SWEEP_AT", 0), step = number("ALLOC_SWEEP_STEP", 1);
    long n = only ? only : 1;
    while (!sweep_one(&j, n, &s) && !only)
        n += step;
    printf("%s: memory ran out at each of %ld allocations (every %ld)\n", j.name, n, step);
#ifdef TPI_OWN_BLOCKS
    assert_true(only || n > 60); /* there were some */
#endif
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    assert_int_equal(system(command), 0);
}

static void eager(void **unused)
{
    (void)unused;
    sweep((job){.name = "eager", .prepare = prepare_eager, .step = step_eager});
}

static void backward(void **unused)
{
    (void)unused;
    sweep((job){.name = "backward", .prepare = prepare_graph, .step = step_backward});
}

static void graph(void **unused)
{
    (void)unused;
    sweep((job){.name = "graph", .prepare = prepare_graph, .step = step_graph});
}

static void branches(void **unused)
{
    (void)unused;
    for (int pure = 0; pure < 2; pure++)
        sweep((job){.name = pure ? "flow" : "branches",
                    .prepare = prepare_branches,
                    .step = step_branches,
                    .pure = pure});
}

static void streams(void **unused)
{
    (void)unused;
    sweep((job){.name = "streams", .prepare = prepare_streams, .step = step_streams});
}

static void engine_c(void **unused)
{
    (void)unused;
    if (system("cc --version > /dev/null 2>&1") != 0) {
        printf("engine_c: skipped: there is no compiler\n");
        return;
    }
    sweep((job){.name = "engine_c", .prepare = prepare_c, .step = step_c});
}

static void waves(void **unused)
{
    (void)unused;
    sweep((job){.name = "waves", .prepare = prepare_waves, .step = step_waves});
}

static void limit(void **unused)
{
    (void)unused;
    sweep((job){
        .name = "limit", .prepare = prepare_limit, .step = step_limit, .limit = least_limit()});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(eager),    cmocka_unit_test(backward),
                                       cmocka_unit_test(graph),    cmocka_unit_test(branches),
                                       cmocka_unit_test(engine_c), cmocka_unit_test(waves),
                                       cmocka_unit_test(limit),    cmocka_unit_test(streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
