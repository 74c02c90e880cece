/* What capture costs: op calls that are only compared with the record, a call of a function, a
 * small model with a branch. A captured training step is beside the others, in figures_lenet.c. */
#include "bench.h"

enum { OPS = 200, WARM_UP = 64 };

typedef struct captured {
    tp_ctx *tp;
    tp_function *f;
    tp_tensor *x, *w;
    double body_s; /* of the op calls, until the last one has returned */
} captured;

static captured *captured_new(tp_ctx *tp, const char *name, tp_body body, bool pure)
{
    captured *c = tp_alloc(tp, sizeof *c);
    if (!c)
        return NULL;
    *c = (captured){.tp = tp,
                    .x = tp_uniform(tp, TP_F32, TP_DIMS(8), 0, 1),
                    .w = tp_uniform(tp, TP_F32, TP_DIMS(8), 0, 1)};
    c->f = tp_function_new(tp, name, body, c, &(tp_function_options){.pure = pure});
    return c;
}

static void call(void *arg, int64_t n)
{
    const captured *c = arg;
    for (; n > 0 && c->f; n--) {
        tp_scope_begin(c->tp);
        tp_function_apply(c->f, TP_TENSORS(c->x));
        tp_scope_end(c->tp);
    }
}

/* Until its programs are there. */
static void warm_up(captured *c)
{
    for (int i = 0; i < 2; i++) {
        call(c, WARM_UP);
        tp_function_wait(c->f);
    }
}

/* ---- op calls --------------------------------------------------------------------------------- */

static void ops_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    captured *c = user;
    tp_tensor *h = in[0];
    const double start =
        bench_wall_now(); /* asking how long a thread has run takes far longer */
    for (int i = 0; i < OPS; i++)
        h = tp_add(h, c->w);
    c->body_s += bench_wall_now() - start;
    out[0] = h;
}

/* The op calls alone. */
static double matched_ops(void *arg, int64_t n)
{
    captured *c = arg;
    c->body_s = 0;
    call(c, n);
    return c->body_s;
}

/* ---- a function that does nothing ---------------------------------------------------------------- */

static void nothing_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = in[0];
}

/* ---- replayed ---------------------------------------------------------------------------------------- */

/* One segment of one small op. */
static void one_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    captured *c = user;
    out[0] = tp_add(in[0], c->w);
}

/* The same with watched flags: each is one guard more. */
enum { GUARDS = 100 };

static captured *guarded_new(tp_ctx *tp)
{
    static bool flags[GUARDS][64];
    captured *c = captured_new(tp, "guarded", one_body, true);
    for (int i = 0; i < GUARDS && c && c->f; i++)
        tp_function_watch(c->f, flags[i], 1);
    return c;
}

/* ---- a branch on a value -------------------------------------------------------------------------- */

typedef struct branching {
    tp_ctx *tp;
    tp_function *f;
    tp_dense linear1, linear2;
    tp_tensor *x[2]; /* one for each way */
} branching;

/* x [n, 10] -> [n, 1], as in examples/dynamic_model.c */
static void branching_body(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    (void)n_in, (void)n_out;
    const branching *m = user;
    tp_tensor *x = in[0], *h = tp_dense_apply(&m->linear1, x);
    if (!tp_truth(tp_gt(tp_mean(x, TP_ALL, false), tp_scalar_like(x, 0.5))))
        h = tp_relu(h);
    out[0] = tp_dense_apply(&m->linear2, h);
}

static void branch(void *arg, int64_t n)
{
    const branching *m = arg;
    tp_recording(m->tp, false);
    for (; n > 0 && m->f; n--) {
        tp_scope_begin(m->tp);
        tp_function_apply(m->f, TP_TENSORS(m->x[n & 1]));
        tp_scope_end(m->tp);
    }
    tp_recording(m->tp, true);
}

static branching *branching_new(tp_ctx *tp, bool eager, bool pure)
{
    branching *m = tp_alloc(tp, sizeof *m);
    if (!m)
        return NULL;
    *m = (branching){.tp = tp,
                     .linear1 = tp_dense_new(tp_params_new(tp), "linear1", 10, 5, NULL),
                     .linear2 = tp_dense_new(tp_params_new(tp), "linear2", 5, 1, NULL)};
    for (int i = 0; i < 2; i++)
        m->x[i] = tp_uniform(tp, TP_F32, TP_DIMS(1, 10), 0.6 * i, 0.6 * i + 0.3);
    m->f = tp_function_new(tp, "model", branching_body, m,
                           &(tp_function_options){.eager = eager, .pure = pure});
    for (int i = 0; i < 2; i++) {
        branch(m, WARM_UP);
        if (!eager)
            tp_function_wait(m->f);
    }
    return m;
}

/* ---- the figures ------------------------------------------------------------------------------------ */

static void add_calls(bench *b)
{
    captured *ops = captured_new(b->tp, "ops", ops_body, false);
    captured *nothing = captured_new(b->tp, "nothing", nothing_body, false);
    if (!ops || !nothing)
        return;
    warm_up(ops);
    warm_up(nothing);
    figure f = {.unit = "ns", .scale = 1e9 / OPS, .arg = ops};
    f.name = "op call, matched", f.timed = matched_ops;
    bench_add(b, f);
    f.name = "op call, matched and settled", f.timed = NULL, f.run = call;
    bench_add(b, f);
    f = (figure){.unit = "ns", .scale = 1e9, .arg = nothing};
    f.name = "captured call that does nothing", f.run = call;
    bench_add(b, f);
}

static void add_branch(bench *b)
{
    figure f = {.unit = "us",
                .scale = 1e6,
                .run = branch,
                .peer_workload = "branch/10-5-1/b1",
                .peer_metric = "infer_call"};
    f.name = "branch on a value, 10-5-1, eager";
    f.peer_system = "torch-eager";
    f.arg = branching_new(b->tp, true, false);
    bench_add(b, f);
    f.name = "branch on a value, captured";
    f.peer_system = "torch-compile";
    f.arg = branching_new(b->tp, false, false);
    bench_add(b, f);
    f.name = "branch on a value, replayed";
    f.arg = branching_new(b->tp, false, true);
    bench_add(b, f);
}

static void add_replays(bench *b)
{
    captured *one = captured_new(b->tp, "one", one_body, true), *more = guarded_new(b->tp);
    if (!one || !more)
        return;
    warm_up(one);
    warm_up(more);
    figure f = {.unit = "ns", .scale = 1e9, .run = call};
    f.name = "replay of one segment", f.arg = one;
    bench_add(b, f);
    f.name = "replay of one segment, 100 guards more", f.arg = more;
    bench_add(b, f);
}

void bench_add_capture(bench *b)
{
    if (bench_wants(b, "op call, matched and settled") ||
        bench_wants(b, "captured call that does nothing"))
        add_calls(b);
    if (bench_wants(b, "branch on a value, 10-5-1, eager") ||
        bench_wants(b, "branch on a value, captured") ||
        bench_wants(b, "branch on a value, replayed"))
        add_branch(b);
    if (bench_wants(b, "replay of one segment") ||
        bench_wants(b, "replay of one segment, 100 guards more"))
        add_replays(b);
}
