/* Calls of pure functions in a tp_batch: each is one unit, and the bits are those without the block. */
#include "common/caught.h"
#include "forest.h"

#include <inttypes.h>

enum { MANY = 80 };

/* ---- a Tree-LSTM --------------------------------------------------------------------------------------------------- */

typedef struct net {
    tp_ctx *tp;
    tp_tensor *words, *w, *b, *peep, *leaf, *constant, *many[MANY];
    tp_function *cell, *at_leaf; /* NULL: the bodies are called */
    tp_optimizer *o;
} net;

typedef struct state {
    tp_tensor *h, *c; /* [1, WIDTH] */
} state;

/* h, c of both children -> h, c. */
static void cell(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    tp_tensor *g[5]; /* i o fl fr u */
    (void)n_in;
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){in[0], in[2]}, 1);
    tp_split(tp_add(tp_matmul(both, m->w), m->b), 1, 5, NULL, g);
    tp_tensor *i = tp_sigmoid(tp_add(g[0], tp_mul(in[1], m->peep)));
    tp_tensor *kept = tp_add(tp_mul(tp_sigmoid(g[2]), in[1]), tp_mul(tp_sigmoid(g[3]), in[3]));
    tp_tensor *c = tp_add(tp_mul(i, tp_tanh(g[4])), kept);
    out[0] = tp_mul(tp_sigmoid(g[1]), tp_tanh(c));
    if (n_out > 1)
        out[1] = c;
}

/* A row of words -> h, c. */
static void at_leaf(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *z = tp_matmul(in[0], m->leaf);
    out[0] = tp_tanh(z);
    out[1] = tp_mul(tp_sigmoid(z), z);
}

static tp_tensor *row_of(tp_ctx *tp, uint64_t *seed)
{
    float v[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        v[i] = (float)(unit_random(seed) >> 40) * 0x1p-24f - 0.5f;
    return tp_require_grad(tp_tensor_new(tp, TP_F32, TP_DIMS(WIDTH), v));
}

static void net_make(net *m, tp_ctx *tp, bool functions)
{
    uint64_t s = 7;
    *m = (net){.tp = tp,
               .words = parameter(tp, &s, "words", TP_DIMS(WORDS, WIDTH)),
               .w = parameter(tp, &s, "w", TP_DIMS(2 * WIDTH, 5 * WIDTH)),
               .b = parameter(tp, &s, "b", TP_DIMS(5 * WIDTH)),
               .peep = parameter(tp, &s, "peep", TP_DIMS(WIDTH)),
               .leaf = parameter(tp, &s, "leaf", TP_DIMS(WIDTH, WIDTH))};
    for (int i = 0; i < MANY; i++)
        m->many[i] = row_of(tp, &s);
    m->constant = tp_tensor_new(tp, TP_F32, TP_DIMS(1), (const float[]){0.7f});
    m->o =
        tp_adam_new(tp, 0.05, NULL, 5, (tp_tensor *[]){m->words, m->w, m->b, m->peep, m->leaf});
    const tp_function_options pure = {.pure = true, .engine = TP_ENGINE_TILES};
    if (functions) {
        m->cell = tp_function_new(tp, "cell", cell, m, &pure);
        m->at_leaf = tp_function_new(tp, "at_leaf", at_leaf, m, &pure);
    }
}

static state state_of(const net *m, const tree *t)
{
    tp_tensor *out[2];
    if (!t->left) {
        tp_tensor *i = tp_tensor_new(m->tp, TP_I64, 1, (int64_t[]){1}, &t->word);
        tp_function_call(m->at_leaf, 1, (tp_tensor *[]){tp_gather(m->words, i, 0)}, 2, out);
    } else {
        const state l = state_of(m, t->left), r = state_of(m, t->right);
        tp_function_call(m->cell, 4, (tp_tensor *[]){l.h, l.c, r.h, r.c}, 2, out);
    }
    return (state){out[0], out[1]};
}

enum { TREES = 8, NODES = 4000 };

static tp_tensor *loss_of(const net *m, int n, tree *const *trees)
{
    tp_tensor *loss[TREES];
    for (int i = 0; i < n; i++)
        loss[i] = tp_mean(tp_square(state_of(m, trees[i]).h), TP_ALL, false);
    return tp_mean(tp_stack(n, loss, 0), TP_ALL, false);
}

static tp_tensor *step(const net *m, int n, tree *const *trees)
{
    tp_tensor *loss = loss_of(m, n, trees);
    tp_tensor *done = tp_optimizer_step(m->o, loss);
    return tp_failed(done) ? done : loss;
}

/* Losses and parameters of some steps, as bytes. */
static float *train(tp_ctx *tp, bool batched, int steps, size_t *n)
{
    net m;
    static tree nodes[NODES];
    float *v = malloc(10000 * sizeof *v);
    uint64_t seed = 99;
    assert_non_null(v);
    net_make(&m, tp, true);
    *n = 0;
    for (int i = 0; i < steps; i++) {
        tree *free_node = nodes, *trees[TREES];
        for (int k = 0; k < TREES; k++)
            trees[k] = grow(&seed, 6, &free_node);
        tp_scope_begin(tp);
        tp_tensor *loss = NULL;
        if (batched)
            tp_batch (tp) {
                loss = step(&m, TREES, trees);
            }
        else
            loss = step(&m, TREES, trees);
        if (tp_failed(loss))
            fail_msg("step %d: %s", i, tp_error_message(tp));
        v[(*n)++] = (float)tp_item(loss);
        tp_scope_end(tp);
    }
    tp_tensor *const all[] = {m.words, m.w, m.b, m.peep, m.leaf};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tp_read(all[i], v + *n, (size_t)tp_count(all[i]) * sizeof *v);
        *n += (size_t)tp_count(all[i]);
    }
    tp_optimizer_free(m.o);
    return v;
}

static void training_has_the_bits_of_the_loop(void **ctx)
{
    size_t n, m;
    tp_ctx *tp = *ctx;
    float *want = train(tp, false, 20, &n);
    const tp_batch_counts before = tp_batch_counts_of(tp);
    float *got = train(tp, true, 20, &m);
    const tp_batch_counts after = tp_batch_counts_of(tp);
    assert_int_equal(n, m);
    expect_equal(got, want, n);
    if (after.kernels - before.kernels > (after.ops - before.ops) / 2)
        fail_msg("%" PRId64 " ops as %" PRId64 " kernels", after.ops - before.ops,
                 after.kernels - before.kernels);
    free(want);
    free(got);
}

static void ask(tp_tensor *loss, bool again, tp_tensor *const *xs, tp_tensor **dx)
{
    tp_ctx *tp = tp_ctx_of(loss);
    const bool was = tp_recording(tp, again);
    tp_grads(loss, NULL, 5, xs, dx);
    tp_recording(tp, was);
}

/* Gradients of all parameters, asked for in the block or behind it, of which gradients could be asked `again` or not. */
static float *gradients(tp_ctx *tp, int way, bool again, size_t *n)
{
    net m;
    static tree nodes[NODES];
    tree *free_node = nodes, *trees[TREES];
    uint64_t seed = 5;
    float *v = malloc(10000 * sizeof *v);
    assert_non_null(v);
    net_make(&m, tp, true);
    for (int k = 0; k < TREES; k++)
        trees[k] = grow(&seed, 4, &free_node);
    tp_tensor *const xs[] = {m.words, m.w, m.b, m.peep, m.leaf};
    tp_tensor *dx[5], *loss = NULL;
    if (way == 0) {
        loss = loss_of(&m, TREES, trees);
        ask(loss, again, xs, dx);
    } else {
        tp_batch (tp) {
            loss = loss_of(&m, TREES, trees);
            if (way == 1)
                ask(loss, again, xs, dx);
        }
        if (way == 2)
            ask(loss, again, xs, dx);
    }
    *n = 0;
    for (int i = 0; i < 5; i++) {
        if (tp_failed(dx[i]))
            fail_msg("way %d, gradient %d: %s", way, i, tp_error_message(tp));
        tp_read(dx[i], v + *n, (size_t)tp_count(dx[i]) * sizeof *v);
        *n += (size_t)tp_count(dx[i]);
    }
    tp_optimizer_free(m.o);
    return v;
}

static void gradients_in_the_block_and_behind_it(void **ctx)
{
    size_t n, k;
    float *want = gradients(*ctx, 0, false, &n);
    for (int way = 1; way < 5; way++) {
        float *got = gradients(*ctx, 1 + way % 2, way > 2, &k);
        expect_equal(got, want, n);
        free(got);
    }
    free(want);
}

/* ---- which functions are cells ---------------------------------------------------------------------------------------- */

typedef struct body {
    const char *name;
    tp_body run;
    bool is_cell;
} body;

static void no_float(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_tanh(in[0]);
    out[1] = tp_gt(in[0], in[1]);
}

static void looks(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    out[0] = tp_tanh(in[0]);
    out[1] = tp_mul(in[1], tp_item(tp_select(m->peep, 0, 0)));
}

static void draws(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    out[0] = tp_mul(in[0], tp_uniform(m->tp, TP_F32, TP_DIMS(1, WIDTH), 0, 1));
    out[1] = tp_tanh(in[1]);
}

static void may_fail(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *i = tp_cast(tp_clip(tp_select(tp_select(in[0], 0, 0), 0, 0), 0, 3), TP_I64);
    out[0] = tp_add(in[0], tp_gather(m->words, tp_reshape(i, TP_DIMS(1)), 0));
    out[1] = tp_tanh(in[1]);
}

/* A tensor computed of what is no argument would be that of the first call. */
static void computes(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *twice = tp_mul(m->constant, 2);
    out[0] = tp_mul(in[0], twice);
    out[1] = tp_tanh(in[1]);
}

static void returns_an_argument(void *user, int n_in, tp_tensor *const *in, int n_out,
                                tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_mul(in[0], in[1]);
    out[1] = in[1];
}

static void has_a_block(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *h = in[0];
    (void)user, (void)n_in, (void)n_out;
    tp_for (3, &h) {
        h = tp_tanh(tp_add(h, in[1]));
    }
    out[0] = h;
    out[1] = tp_mul(in[0], 2);
}

/* What is shared is read as a right matrix, by a sum over samples, as a scale of one element, and turned. */
static void reads_all_ways(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *z = tp_matmul(tp_mul(in[0], m->peep), m->leaf);
    tp_tensor *turned = tp_reshape(m->peep, TP_DIMS(WIDTH, 1));
    out[0] = tp_mul(tp_softmax(z, 1), tp_matmul(in[1], turned));
    out[1] = tp_layer_norm(tp_add(z, in[1]), m->peep, NULL, 1e-5);
}

static void rows_of_three(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    tp_tensor *x = tp_concat(3, (tp_tensor *[]){in[0], in[1], in[0]}, 0); /* [3, WIDTH] */
    tp_tensor *z = tp_matmul(tp_tanh(tp_matmul(x, m->leaf)), m->leaf);
    out[0] = tp_sum(z, 1, (int64_t[]){0}, true);
    out[1] = tp_mul(tp_reduce_max(z, 1, (int64_t[]){0}, true), tp_mean(z, TP_ALL, false));
}

/* There is a bit for each operand. */
static void reads_many(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    out[0] = in[0];
    for (int i = 0; i < MANY; i++)
        out[0] = tp_add(tp_mul(out[0], 0.5), m->many[i]);
    out[1] = tp_tanh(in[1]);
}

static void second_is_constant(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    const net *m = user;
    (void)n_in, (void)n_out;
    out[0] = tp_tanh(tp_add(in[0], m->peep));
    out[1] = tp_mul(tp_detach(in[1]), 3);
}

/* What a symbol answers otherwise than the tensor of a call. */
static void asks_for_marks(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = tp_detach(in[0]);
    out[0] = tp_requires_grad(x) ? tp_neg(in[0]) : tp_tanh(in[0]);
    out[1] = tp_tanh(in[1]);
}

static void asks_for_symbols(void *user, int n_in, tp_tensor *const *in, int n_out,
                             tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_is_symbolic(in[0]) ? tp_neg(in[0]) : tp_tanh(in[0]);
    out[1] = tp_tanh(in[1]);
}

static void asks_for_names(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_name_of(in[0]) ? tp_neg(in[0]) : tp_tanh(in[0]);
    out[1] = tp_tanh(in[1]);
}

static const body bodies[] = {
    {"reads_all_ways",      reads_all_ways,      true },
    {"rows_of_three",       rows_of_three,       true },
    {"second_is_constant",  second_is_constant,  true },
    {"no_float",            no_float,            false},
    {"reads_many",          reads_many,          false},
    {"looks",               looks,               false},
    {"draws",               draws,               false},
    {"may_fail",            may_fail,            false},
    {"computes",            computes,            false},
    {"returns_an_argument", returns_an_argument, false},
    {"has_a_block",         has_a_block,         false},
    {"asks_for_marks",      asks_for_marks,      false},
    {"asks_for_symbols",    asks_for_symbols,    false},
    {"asks_for_names",      asks_for_names,      false},
};
enum { BODIES = sizeof bodies / sizeof *bodies, SAMPLES = 5 };

/* Of a use of the function: results and gradients, as bytes. */
typedef struct outcome {
    float v[4000];
    size_t n;
} outcome;

static void take(outcome *o, tp_tensor *t)
{
    if (tp_failed(t))
        fail_msg("%s", tp_error_message(tp_ctx_of(t)));
    t = tp_cast(t, TP_F32);
    assert_true(o->n + (size_t)tp_count(t) <= sizeof o->v / sizeof *o->v);
    tp_read(t, o->v + o->n, (size_t)tp_count(t) * sizeof *o->v);
    o->n += (size_t)tp_count(t);
}

/* Each sample's state goes through the function twice; what gradients reach differs from sample to sample. */
static tp_tensor *use(const net *m, tp_function *f, tp_tensor *const *x, tp_tensor **all)
{
    tp_tensor *loss[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        tp_tensor *y[2], *z[2];
        tp_function_call(f, 2, (tp_tensor *[]){x[i], x[(i + 1) % SAMPLES]}, 2, y);
        tp_function_call(f, 2, (tp_tensor *[]){tp_cast(y[1], TP_F32), y[0]}, 2, z);
        tp_tensor *seen = i == 1 ? z[0] : i == 2 ? z[1] : tp_mul(z[0], tp_cast(z[1], TP_F32));
        if (i == 3)
            seen = tp_add(seen, y[0]);
        loss[i] = tp_mean(tp_square(tp_mul(seen, m->peep)), TP_ALL, false);
        all[2 * i] = z[0];
        all[2 * i + 1] = z[1];
    }
    return tp_mean(tp_stack(SAMPLES, loss, 0), TP_ALL, false);
}

/* order 0: nothing is recorded; 1: gradients; 2: gradients of gradients. */
static void run_uses(net *m, tp_function *f, bool batched, int order, outcome *o)
{
    tp_ctx *tp = m->tp;
    tp_tensor *x[SAMPLES], *all[2 * SAMPLES], *xs[SAMPLES + 3], *dx[SAMPLES + 3], *loss = NULL;
    o->n = 0;
    const bool was = tp_recording(tp, order > 0);
    tp_scope_begin(tp);
    tp_seed(tp, 3);
    for (int i = 0; i < SAMPLES; i++) {
        float v[WIDTH];
        for (int k = 0; k < WIDTH; k++)
            v[k] = (float)((i * 5 + k * 3) % 7) * 0.3f - 0.8f;
        xs[i] = x[i] = tp_tensor_new(tp, TP_F32, TP_DIMS(1, WIDTH), v);
        if (i != 2)
            tp_require_grad(x[i]);
    }
    xs[2] = m->words;
    xs[SAMPLES] = m->leaf;
    xs[SAMPLES + 1] = m->peep;
    tp_batch_block b = batched ? tp_batch_begin(tp) : (tp_batch_block){0};
    loss = use(m, f, x, all);
    if (order > 0) {
        tp_recording(tp, order > 1);
        tp_grads(loss, NULL, SAMPLES + 2, xs, dx);
    }
    if (order > 1) {
        tp_tensor *norm = NULL;
        for (int i = 0; i < SAMPLES + 2; i++) {
            tp_tensor *q = tp_sum(tp_square(dx[i]), TP_ALL, false);
            norm = norm ? tp_add(norm, q) : q;
        }
        tp_recording(tp, false);
        tp_grads(norm, NULL, SAMPLES + 2, xs, dx);
    }
    if (batched)
        tp_batch_left(&b);
    for (int i = 0; i < 2 * SAMPLES; i++)
        take(o, all[i]);
    for (int i = 0; i < SAMPLES + 2 && order > 0; i++)
        take(o, dx[i]);
    tp_scope_end(tp);
    tp_recording(tp, was);
}

static void expect_same(const body *b, int order, const outcome *got, const outcome *want)
{
    assert_int_equal(got->n, want->n);
    for (size_t i = 0; i < want->n; i++)
        if (memcmp(&got->v[i], &want->v[i], sizeof *got->v) != 0)
            fail_msg("%s, order %d, element %zu of %zu: got %a, want %a", b->name, order, i,
                     want->n, (double)got->v[i], (double)want->v[i]);
}

static void each_body(void **ctx)
{
    tp_ctx *tp = *ctx;
    net m;
    net_make(&m, tp, false);
    for (int k = 0; k < BODIES; k++)
        for (int order = 0; order < 3; order++) {
            static outcome want, got;
            const tp_function_options pure = {.pure = true, .engine = TP_ENGINE_TILES};
            tp_function *f = tp_function_new(tp, bodies[k].name, bodies[k].run, &m, &pure);
            tp_function *plain = tp_function_new(tp, "plain", bodies[k].run, &m,
                                                 &(tp_function_options){.eager = true});
            run_uses(&m, plain, false, order, &want);
            const tp_function_stats before = tp_function_stats_of(f);
            for (int again = 0; again < 2; again++) {
                run_uses(&m, f, true, order, &got);
                expect_same(&bodies[k], order, &got, &want);
            }
            const tp_function_stats after = tp_function_stats_of(f);
            const int64_t ran = after.user_calls - before.user_calls;
            /* the first call of each kind (of what is asked, order) runs it */
            if (bodies[k].is_cell ? ran < 1 || ran > 5 : ran != 4 * SAMPLES)
                fail_msg("%s: its body ran in %" PRId64 " of %d calls", bodies[k].name, ran,
                         4 * SAMPLES);
            tp_function_free(f);
            tp_function_free(plain);
        }
    tp_optimizer_free(m.o);
}

/* ---- what lies around ----------------------------------------------------------------------------------------------- */

typedef struct scaled {
    tp_tensor *w; /* [WIDTH, WIDTH] */
    float factor;
} scaled;

static void scale(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const scaled *s = user;
    (void)n_in, (void)n_out;
    out[0] = tp_mul(tp_matmul(in[0], s->w), s->factor);
}

static tp_tensor *row(tp_ctx *tp, float first)
{
    float v[WIDTH];
    for (int k = 0; k < WIDTH; k++)
        v[k] = first + (float)k * 0.25f;
    return tp_tensor_new(tp, TP_F32, TP_DIMS(1, WIDTH), v);
}

static scaled scaled_of(tp_ctx *tp)
{
    uint64_t seed = 4;
    return (scaled){.w = parameter(tp, &seed, "w", TP_DIMS(WIDTH, WIDTH)), .factor = 2};
}

static double first_of(tp_tensor *y)
{
    return tp_item(tp_select(tp_select(y, 0, 0), 0, 0));
}

static void what_it_watches_and_reads_may_change(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    tp_function *f =
        tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
    tp_function_watch(f, &s.factor, sizeof s.factor);
    tp_tensor *x = row(tp, 1), *y[4] = {NULL};
    tp_batch (tp) {
        y[0] = tp_function_apply(f, 1, &x);
        s.factor = 4;
        y[1] = tp_function_apply(f, 1, &x);
        tp_assign(s.w, tp_mul(s.w, 2));
        y[2] = tp_function_apply(f, 1, &x);
        s.factor = 2;
        y[3] = tp_function_apply(f, 1, &x);
    }
    const double one = first_of(y[0]);
    assert_true(one != 0 && first_of(y[1]) == 2 * one && first_of(y[2]) == 4 * one);
    assert_true(first_of(y[3]) == 2 * one);
    tp_batch (tp) {
        tp_function_apply(f, 1, &x);
        const int64_t before = tp_function_stats_of(f).user_calls;
        for (int i = 0; i < 4; i++)
            y[i] = tp_function_apply(f, 1, &x);
        assert_int_equal(tp_function_stats_of(f).user_calls, before);
    }
    tp_function_free(f);
}

/* A function watches what those watch that it calls. */
typedef struct outer {
    tp_function *inner;
} outer;

static void calls_another(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    const outer *o = user;
    (void)n_out;
    out[0] = tp_function_apply(o->inner, n_in, in);
}

static void functions_in_it_watch(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    const tp_function_options pure = {.pure = true};
    outer o = {tp_function_new(tp, "scale", scale, &s, &pure)};
    tp_function_watch(o.inner, &s.factor, sizeof s.factor);
    tp_function *f = tp_function_new(tp, "outer", calls_another, &o, &pure);
    const bool was = tp_recording(tp, false);
    tp_tensor *x = row(tp, 1), *y[6] = {NULL};
    tp_batch (tp) {
        for (int i = 0; i < 6; i++) {
            s.factor = (float)(1 << i);
            y[i] = tp_function_apply(f, 1, &x);
        }
    }
    tp_recording(tp, was);
    for (int i = 1; i < 6; i++)
        assert_true(first_of(y[i]) == 2 * first_of(y[i - 1]));
    tp_function_free(f);
    tp_function_free(o.inner);
}

/* What it reads may wait itself, or be the caller's memory, or change. */
typedef struct reader {
    tp_tensor *t;
    bool turned;
} reader;

static void reads(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const reader *r = user;
    (void)n_in, (void)n_out;
    out[0] = tp_add(tp_tanh(in[0]), r->turned ? tp_neg(r->t) : r->t);
}

static void tensors_that_wait_or_are_wrapped(void **ctx)
{
    tp_ctx *tp = *ctx;
    tp_tensor *x = row(tp, 0), *base = tp_keep(row(tp, 1));
    const tp_function_options pure = {.pure = true};
    for (int turned = 0; turned < 2; turned++) {
        reader r = {.turned = turned};
        const double sign = turned ? -1 : 1;
        tp_function *f = tp_function_new(tp, "reads", reads, &r, &pure);
        tp_tensor *y[4] = {NULL};
        tp_batch (tp) {
            r.t = tp_mul(base, 2);
            for (int i = 0; i < 4; i++)
                y[i] = tp_function_apply(f, 1, &x);
        }
        for (int i = 0; i < 4; i++)
            assert_true(first_of(y[i]) == 2 * sign);
        tp_function_free(f);
        float mask[WIDTH] = {1};
        r.t = tp_tensor_wrap(tp, TP_F32, TP_DIMS(WIDTH), mask, NULL, NULL);
        f = tp_function_new(tp, "reads", reads, &r, &pure);
        tp_batch (tp) {
            for (int i = 0; i < 4; i++) {
                mask[0] = (float)i;
                y[i] = tp_function_apply(f, 1, &x);
            }
        }
        for (int i = 0; i < 4; i++)
            assert_true(first_of(y[i]) == i * sign);
        tp_function_free(f);
    }
}

/* C that cannot run on symbols: it would not end, or read what is not there. */
static void halves(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *h = in[0];
    (void)user, (void)n_in, (void)n_out;
    for (const float *v = tp_data(h); v[1] > 0.1F; v = tp_data(h))
        h = tp_mul(h, 0.5);
    while (!tp_truth(tp_lt(tp_reduce_max(h, TP_ALL, false), 0.2)))
        h = tp_mul(h, 0.5);
    out[0] = h;
}

static void bodies_that_look_run(void **ctx)
{
    tp_ctx *tp = *ctx;
    tp_function *f =
        tp_function_new(tp, "halves", halves, NULL, &(tp_function_options){.pure = true});
    tp_tensor *x = row(tp, 1), *y[3] = {NULL};
    tp_batch (tp) {
        for (int i = 0; i < 3; i++)
            y[i] = tp_function_apply(f, 1, &x);
    }
    for (int i = 0; i < 3; i++)
        assert_true(first_of(y[i]) == 0x1p-4);
    tp_function_free(f);
}

/* In its own body a function is not freed. */
typedef struct own {
    tp_function *f;
} own;

static void frees_itself(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const own *o = user;
    (void)n_in, (void)n_out;
    tp_function_free(o->f);
    out[0] = tp_tanh(in[0]);
}

static void a_body_frees_nothing(void **ctx)
{
    tp_ctx *tp = *ctx;
    own o;
    o.f = tp_function_new(tp, "own", frees_itself, &o, &(tp_function_options){.pure = true});
    tp_tensor *x = row(tp, 0), *y = NULL;
    tp_batch (tp) {
        for (int i = 0; i < 3; i++)
            y = tp_function_apply(o.f, 1, &x);
    }
    assert_true(!tp_failed(y) && first_of(y) == 0);
    assert_int_equal(tp_error(tp), TP_E_STATE);
    tp_clear_error(tp);
    tp_function_free(o.f);
}

/* What is marked after a call has no gradient through it; what else is asked has. */
static void late_marks(void **ctx)
{
    tp_ctx *tp = *ctx;
    for (int batched = 0; batched < 2; batched++) {
        reader r = {.t = tp_keep(row(tp, 1))};
        tp_function *f =
            tp_function_new(tp, "reads", reads, &r, &(tp_function_options){.pure = true});
        tp_tensor *x = tp_require_grad(row(tp, 0)), *y = NULL;
        tp_batch_block b = batched ? tp_batch_begin(tp) : (tp_batch_block){0};
        for (int i = 0; i < 3; i++)
            y = tp_sum(tp_function_apply(f, 1, &x), TP_ALL, false);
        if (batched)
            tp_batch_left(&b);
        tp_require_grad(r.t);
        assert_int_equal(tp_backward(y), TP_OK);
        assert_true(first_of(tp_grad_of(x)) == 1);
        tp_function_free(f);
    }
}

static void functions_end_before_what_waits(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    tp_tensor *x = row(tp, 1), *y = NULL, *want = NULL, *dx = NULL;
    tp_require_grad(x);
    for (int i = 0; i < 2; i++) {
        tp_function *f =
            tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
        tp_batch (tp) {
            tp_function_apply(f, 1, &x);
            y = tp_function_apply(f, 1, &x);
            tp_function_free(f);
        }
        dx = tp_grad(tp_sum(y, TP_ALL, false), x);
    }
    want = tp_grad(tp_sum(tp_mul(tp_matmul(x, s.w), 2), TP_ALL, false), x);
    assert_true(!tp_failed(dx) && first_of(dx) == first_of(want));
}

static void operands_that_failed(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    tp_function *f =
        tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
    tp_tensor *x = row(tp, 1), *good = NULL, *bad = NULL, *wrong = NULL,
              *table = tp_keep(row(tp, 0));
    tp_batch (tp) {
        tp_tensor *i = tp_cast(tp_mul(tp_select(tp_select(x, 0, 0), 0, 0), 7), TP_I64);
        bad = tp_function_apply(
            f, 1, (tp_tensor *[]){tp_gather(table, tp_reshape(i, TP_DIMS(1)), 0)});
        tp_function_apply(f, 1, &x); /* the first call runs the body */
        good = tp_function_apply(f, 1, &x);
        wrong = tp_function_apply(f, 1, (tp_tensor *[]){tp_transpose(x, 2, (int64_t[]){1, 0})});
        assert_true(tp_failed(wrong)); /* at the call, with the line of the product */
    }
    assert_true(tp_failed(bad) && !tp_failed(good));
    tp_clear_error(tp);
    assert_true(first_of(good) == first_of(tp_mul(tp_matmul(x, s.w), 2)));
    tp_function_free(f);
}

/* Whether the gradient is recorded or not, and (a matrix) without the block, too. */
static void what_was_assigned_since_is_refused(void **ctx)
{
    tp_ctx *tp = *ctx;
    for (int way = 0; way < 4; way++) {
        const bool batched = way % 2;
        scaled s = scaled_of(tp);
        tp_function *f =
            tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
        tp_tensor *x = row(tp, 1), *y = NULL;
        tp_require_grad(x);
        tp_batch_block b = batched ? tp_batch_begin(tp) : (tp_batch_block){0};
        for (int i = 0; i < 2; i++)
            y = tp_sum(tp_function_apply(f, 1, &x), TP_ALL, false);
        if (batched)
            tp_batch_left(&b);
        tp_assign(s.w, tp_mul(s.w, 2));
        const bool was = tp_recording(tp, way > 1);
        assert_true(tp_failed(tp_grad(y, x)));
        tp_recording(tp, was);
        assert_int_equal(tp_error(tp), TP_E_STATE);
        tp_clear_error(tp);
        tp_function_free(f);
    }
}

/* Texts, graphs and hooks see the ops. */
static tp_tensor *twice(void *user, tp_tensor *dy)
{
    (void)user;
    return tp_mul(dy, 2);
}

static void others_see_the_ops(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    tp_function *f =
        tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
    tp_tensor *x = row(tp, 1), *y = NULL, *hooked = NULL;
    tp_require_grad(x);
    tp_batch (tp) {
        tp_function_apply(f, 1, &x);
        y = tp_function_apply(f, 1, &x);
        hooked = tp_function_apply(f, 1, (tp_tensor *[]){tp_mul(x, 1)});
        char *text = tp_tape_text(y);
        assert_non_null(strstr(text, "matmul"));
        assert_null(strstr(text, " cell %"));
        tp_free(tp, text);
    }
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *z = tp_name(
        tp_sum(tp_mul(y, tp_placeholder(g, "p", TP_F32, TP_SCALAR)), TP_ALL, false), "z");
    tp_tensor *dz = tp_name(tp_grad(z, s.w), "dz");
    assert_true(!tp_failed(dz));
    tp_graph_free(g);
    tp_hook *h = tp_hook_new(tp, twice, NULL);
    tp_tensor *dx = NULL;
    hooked = tp_hooked(hooked, h);
    tp_batch (tp) {
        dx = tp_grad(tp_sum(hooked, TP_ALL, false), x);
    }
    tp_tensor *want = tp_grad(tp_sum(tp_mul(tp_matmul(x, s.w), 2), TP_ALL, false), x);
    assert_true(first_of(dx) == 2 * first_of(want));
    tp_hook_free(h);
    tp_function_free(f);
}

/* The log tells how many kernels it took, and how few it could have been: no fewer than each signature's longest chain. */
static void the_log_tells_how_well(void **ctx)
{
    tp_ctx *tp = *ctx;
    scaled s = scaled_of(tp);
    tp_function *f =
        tp_function_new(tp, "scale", scale, &s, &(tp_function_options){.pure = true});
    tp_tensor *y[4];
    for (int i = 0; i < 4; i++)
        y[i] = row(tp, (float)i);
    tp_batch (
        tp) { /* the first call of a kind runs the body: of what asks for no gradient, and of what does */
        tp_tensor *first = tp_function_apply(f, 1, y);
        tp_function_apply(f, 1, &first);
    }
    char text[4000];
    const caught c = catch_begin();
    setenv("TAPIR_LOG", "batch", 1);
    tp_batch (tp) {
        for (int i = 0; i < 4; i++) /* chains of 1 to 4 calls, each behind a product */
            for (int k = 0; k <= i; k++)
                y[i] = tp_function_apply(f, 1, (tp_tensor *[]){tp_mul(y[i], 2)});
    }
    unsetenv("TAPIR_LOG");
    catch_end(c, text, sizeof text);
    if (!strstr(text, "tapir: batch: 20 ops and calls by 8 kernels, of at least 8\n"))
        fail_msg("the log is %s", text);
    if (!strstr(text, ": scale, as one for 4\n") || !strstr(text, ": scale, as one for 3\n"))
        fail_msg("the log is %s", text);
    tp_function_free(f);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static long calls_with(long fail_at, bool once)
{
    enum { FEW = 2 };
    unit_memory memory = {0};
    tp_ctx *tp = unit_open(&memory);
    assert_non_null(tp);
    net m;
    net_make(&m, tp, true);
    static tree nodes[NODES];
    tree *free_node = nodes, *trees[FEW];
    uint64_t seed = 6;
    for (int k = 0; k < FEW; k++)
        trees[k] = grow(&seed, 1, &free_node);
    const long before = memory.calls;
    unit_fail(&memory, fail_at, once);
    tp_tensor *loss = NULL;
    tp_batch (tp) {
        loss = step(&m, FEW, trees);
    }
    const long calls = memory.calls - before;
    unit_fail(&memory, 0, false);
    if (tp_failed(loss) && tp_error(tp) != TP_E_MEMORY)
        fail_msg("allocation %ld%s: %s", fail_at, once ? " alone" : "", tp_error_message(tp));
    tp_optimizer_free(m.o);
    unit_close(tp, &memory);
    return calls;
}

static void memory_runs_out(void **ctx)
{
    (void)ctx;
    unit_fail_each(calls_with, 400);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(gradients_in_the_block_and_behind_it),
        CASE(training_has_the_bits_of_the_loop),
        CASE(each_body),
        CASE(what_it_watches_and_reads_may_change),
        CASE(functions_end_before_what_waits),
        CASE(operands_that_failed),
        CASE(functions_in_it_watch),
        CASE(tensors_that_wait_or_are_wrapped),
        CASE(bodies_that_look_run),
        CASE(a_body_frees_nothing),
        CASE(late_marks),
        CASE(what_was_assigned_since_is_refused),
        CASE(others_see_the_ops),
        CASE(the_log_tells_how_well),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
