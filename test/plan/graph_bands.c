/* Kernels that run together part by part, and steps that run image by image, give the bits of the
 * reference: contractions with what comes before and after them, attention, gradients. Parts are made small, so that there are many; sizes
 * are symbols, of one program for two sets, and divide by nothing; any number of threads. They do however they
 * are cut, and in any order. */
#include "common/unit.h"
#include "plan/cut.h"
#include "run/program.h"
#include "tapir/tapir.h"

typedef struct net {
    const char *name;
    tp_tensor *(*fn)(tp_tensor *x);
    int rank;
    int64_t sets[2][4]; /* shapes of x */
    unsigned symbols;   /* its axes that are symbols, as bits */
    int longest;        /* kernels of the longest band, at least, */
    int micro;          /* and steps of all microbatches */
} net;

#define WINDOW(...)                                                                            \
    &(tp_window)                                                                               \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

static tp_tensor *weights(tp_tensor *x, int rank, const int64_t *shape)
{
    return tp_normal(tp_ctx_of(x), TP_F32, rank, shape, 0, 0.3);
}

static tp_tensor *bias(tp_tensor *x, tp_tensor *like, int64_t channels)
{
    return tp_add(like, weights(x, 3, (int64_t[]){channels, 1, 1}));
}

static tp_tensor *number(tp_tensor *x, double v)
{
    return tp_scalar(tp_ctx_of(x), TP_F32, v);
}

/* ---- nets ------------------------------------------------------------------------------------ */

static tp_tensor *convs(tp_tensor *x)
{
    tp_tensor *h = tp_conv(x, weights(x, TP_DIMS(24, 5, 3, 3)),
                           WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1}, .stride = {2, 1}));
    h = tp_relu(bias(x, h, 24));
    tp_tensor *wide = bias(x, tp_conv(h, weights(x, TP_DIMS(40, 24, 1, 1)), NULL), 40);
    wide = tp_min(tp_max(wide, number(x, 0)), number(x, 6));
    wide = tp_conv(wide, weights(x, TP_DIMS(40, 1, 3, 3)),
                   WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1}, .groups = 40));
    wide = tp_min(tp_max(bias(x, wide, 40), number(x, -0.0)), number(x, 0.5));
    h = tp_add(h, bias(x, tp_conv(wide, weights(x, TP_DIMS(24, 40, 1, 1)), NULL), 24));
    return tp_conv(tp_relu(h), weights(x, TP_DIMS(7, 24, 1, 3)), WINDOW(.pad_lo = {0, 1}));
}

/* As many images as channels: a number for each image, for each channel, images that trade places with
 * channels, pooling, and a sum over images, which takes all of them. */
static tp_tensor *images(tp_tensor *x)
{
    const tp_window *same = WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1});
    tp_tensor *h = tp_relu(bias(x, tp_conv(x, weights(x, TP_DIMS(5, 5, 3, 3)), same), 5));
    h = tp_mul(tp_conv(h, weights(x, TP_DIMS(5, 5, 3, 3)), same),
               weights(x, 4, (int64_t[]){5, 1, 1, 1}));
    h = tp_tanh(tp_conv(h, weights(x, TP_DIMS(5, 5, 1, 1)), NULL));
    tp_tensor *turned = tp_conv(tp_add(h, tp_transpose(x, TP_DIMS(1, 0, 2, 3))),
                                weights(x, TP_DIMS(5, 5, 3, 3)), same);
    turned = tp_max_pool(tp_relu(turned), WINDOW(.kernel = {2, 2}, .stride = {2, 2}));
    tp_tensor *y = tp_sub(turned, tp_mean(turned, TP_DIMS(0), true));
    y = tp_conv(tp_relu(y), weights(x, TP_DIMS(5, 5, 3, 3)), same);
    return tp_conv(tp_add(y, tp_mean(y, TP_DIMS(2, 3), true)), weights(x, TP_DIMS(3, 5, 1, 1)),
                   NULL);
}

/* Large enough for Winograd's tiles. */
static tp_tensor *windows(tp_tensor *x)
{
    const tp_window *same = WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1});
    tp_tensor *h = tp_relu(bias(x, tp_conv(x, weights(x, TP_DIMS(40, 32, 3, 3)), same), 40));
    return tp_tanh(bias(x, tp_conv(h, weights(x, TP_DIMS(32, 40, 3, 3)), same), 32));
}

static tp_tensor *conv_3d(tp_tensor *x)
{
    tp_tensor *v = tp_reshape(x, TP_DIMS(-1, 5, 6, 10, 23));
    tp_tensor *h = tp_conv(v, weights(x, TP_DIMS(9, 5, 2, 3, 3)), WINDOW(.pad_lo = {1, 1, 1}));
    h = tp_tanh(h);
    return tp_sigmoid(tp_conv(h, weights(x, TP_DIMS(11, 9, 1, 2, 2)), NULL));
}

static tp_tensor *conv_back(tp_tensor *x)
{
    tp_tensor *y = convs(x);
    return tp_grad(tp_sum(tp_mul(y, y), TP_DIMS(0, 1, 2, 3), false), x);
}

/* x [rows, 48] */
static tp_tensor *norm(tp_tensor *x)
{
    tp_tensor *mean = tp_mean(x, TP_DIMS(1), true), *d = tp_sub(x, mean);
    tp_tensor *var = tp_mean(tp_mul(d, d), TP_DIMS(1), true);
    return tp_mul(d, tp_rsqrt(tp_add(var, number(x, 1e-5))));
}

static tp_tensor *mlp(tp_tensor *x)
{
    tp_tensor *h = tp_matmul(norm(x), weights(x, TP_DIMS(48, 160)));
    h = tp_gelu(tp_add(h, weights(x, TP_DIMS(160))));
    h = tp_add(x, tp_matmul(h, weights(x, TP_DIMS(160, 48))));
    return tp_matmul(norm(h), weights(x, TP_DIMS(48, 33)));
}

/* x [batch, seq, 48] */
static tp_tensor *heads(tp_tensor *x)
{
    return tp_transpose(tp_reshape(x, TP_DIMS(tp_dim(x, 0), tp_dim(x, 1), 4, 12)),
                        TP_DIMS(0, 2, 1, 3));
}

static tp_tensor *attention(tp_tensor *x)
{
    tp_tensor *q = heads(tp_matmul(x, weights(x, TP_DIMS(48, 48))));
    tp_tensor *k = heads(tp_matmul(x, weights(x, TP_DIMS(48, 48))));
    tp_tensor *v = heads(tp_matmul(x, weights(x, TP_DIMS(48, 48))));
    tp_tensor *s = tp_mul(tp_matmul(q, tp_swap(k, 2, 3)), number(x, 0.3));
    tp_tensor *far = tp_lt(s, number(x, -1));
    s = tp_softmax(tp_where(far, number(x, -100), s), 3);
    return tp_matmul(s, v);
}

static tp_tensor *attention_back(tp_tensor *x)
{
    tp_tensor *y = attention(x);
    return tp_grad(tp_sum(tp_mul(y, y), TP_DIMS(0, 1, 2, 3), false), x);
}

/* A table of distances, which all rows of the result follow. */
static tp_tensor *alone(tp_tensor *x)
{
    tp_tensor *s = tp_exp(tp_neg(tp_matmul(x, tp_transpose(x, TP_DIMS(0, 2, 1)))));
    return tp_sum(tp_div(s, tp_sum(s, TP_DIMS(2), true)), TP_DIMS(2), false);
}

/* As many turns as the sum of x says: bands of a loop's body, and of the rows that its turns left. */
static tp_tensor *turns(tp_tensor *x)
{
    tp_tensor *ys = NULL, *h = x, *square = weights(x, TP_DIMS(48, 48));
    tp_tensor *left = tp_add(tp_abs(tp_sum(x, TP_DIMS(0, 1), false)), number(x, 40));
    tp_while (tp_gt(left, number(x, 0)), &left, &h) {
        h = tp_tanh(tp_matmul(tp_gelu(tp_matmul(norm(h), square)), square));
        left = tp_sub(left, number(x, 7));
        tp_emit(&ys, h);
    }
    return tp_add(mlp(tp_reshape(ys, TP_DIMS(-1, 48))), tp_sum(h, TP_DIMS(0, 1), false));
}

static const net nets[] = {
    {"convs",              convs,          4, {{3, 5, 61, 23}, {1, 5, 40, 9}},    0xd, 4, 3},
    {"convs, fixed sizes", convs,          4, {{2, 5, 61, 23}, {2, 5, 61, 23}},   0,   4, 3},
    {"images",             images,         4, {{5, 5, 40, 24}, {5, 5, 31, 18}},   0xc, 2, 7},
    {"windows",            windows,        4, {{3, 32, 30, 26}, {1, 32, 41, 57}}, 0xd, 2, 2},
    {"conv, three axes",   conv_3d,        4, {{3, 5, 60, 23}, {2, 5, 60, 23}},   1,   2, 0},
    {"convs, backwards",   conv_back,      4, {{3, 5, 61, 23}, {1, 5, 40, 9}},    0xd, 2, 5},
    {"mlp",                mlp,            2, {{342, 48}, {111, 48}},             1,   5, 0},
    {"mlp, fixed sizes",   mlp,            2, {{342, 48}, {342, 48}},             0,   5, 0},
    {"turns",              turns,          2, {{342, 48}, {111, 48}},             1,   5, 0},
    {"attention",          attention,      3, {{2, 171, 48}, {3, 37, 48}},        3,   3, 0},
    {"attention, back",    attention_back, 3, {{2, 171, 48}, {3, 37, 48}},        3,   2, 0},
    {"alone",              alone,          3, {{2, 171, 48}, {3, 37, 48}},        3,   2, 0},
};
enum { N_NETS = sizeof nets / sizeof *nets };

/* ---- runs ------------------------------------------------------------------------------------ */

static int longest_band(const tp_program *p)
{
    int most = 1;
    for (int i = 0; p->plan && i < p->plan->n_steps; i++)
        most = p->plan->steps[i].n > most ? p->plan->steps[i].n : most;
    return most;
}

static int placed_steps(const tp_program *p)
{
    return p->cuts ? p->cuts->n_images : 0;
}

static tp_program *program(tp_ctx *tp, const net *n, tp_engine engine, const char *skip)
{
    static const char *const fed[] = {"x"}, *const fetched[] = {"y"};
    static const char *const names[] = {"n", "c", "h", "w"};
    int64_t shape[4];
    tp_graph *g = tp_graph_new(tp);
    tp_seed(tp, 3);
    for (int i = 0; i < n->rank; i++)
        shape[i] = (n->symbols >> i) & 1 ? tp_symbol(g, names[i]) : n->sets[0][i];
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, n->rank, shape);
    tp_name(n->fn(x), "y");
    tp_program *p = tp_graph_compile(
        g, 1, fed, 1, fetched, &(tp_compile_options){.engine = engine, .skip_passes = skip});
    if (!p)
        fail_msg("%s: %s", n->name, tp_error_message(tp));
    return p;
}

typedef struct results {
    tp_ctx *tp;
    tp_tensor *y[2];
} results;

static results run(const net *n, tp_engine engine, const char *skip, int threads, int64_t near,
                   uint64_t chance)
{
    results r = {.tp = tp_open(&(tp_options){.threads = threads})};
    if (near)
        r.tp->near_bytes = r.tp->far_bytes = near;
    r.tp->chance = chance;
    tp_program *p = program(r.tp, n, engine, skip);
    if (engine != TP_ENGINE_REFERENCE && (longest_band(p) >= n->longest) != !skip)
        fail_msg("%s: the longest band has %d kernels", n->name, longest_band(p));
    for (int run = 0; run < 3; run++) { /* the last one with a profile */
        const int i = run > 0;
        tp_seed(r.tp, (uint64_t)i + 11);
        if (run == 2 && engine == TP_ENGINE_C)
            assert_int_equal(tp_program_profile(p, true), TP_OK);
        tp_tensor *x = tp_normal(r.tp, TP_F32, n->rank, n->sets[i], 0, 1);
        if (tp_program_run(p, &x, &r.y[i]) != TP_OK)
            fail_msg("%s: %s", n->name, tp_error_message(r.tp));
        if (engine == TP_ENGINE_C && run == 0 && near == 7000 && !chance &&
            placed_steps(p) != (skip ? 0 : n->micro))
            fail_msg("%s: %d steps run image by image", n->name, placed_steps(p));
    }
    return r;
}

static void compare(const net *n, const results *is, const results *be, const char *how)
{
    for (int i = 0; i < 2; i++) {
        const float *a = tp_data(is->y[i]), *b = tp_data(be->y[i]);
        assert_int_equal(tp_count(is->y[i]), tp_count(be->y[i]));
        for (int64_t e = 0; e < tp_count(is->y[i]); e++)
            if (memcmp(&a[e], &b[e], sizeof *a) != 0)
                fail_msg("%s, %s, set %d: element %lld is %a, of the reference %a", n->name,
                         how, i, (long long)e, (double)a[e], (double)b[e]);
    }
}

static void check(const net *n, const results *be, tp_engine engine, const char *skip,
                  int threads, int64_t near)
{
    char how[100];
    snprintf(how, sizeof how, "engine %d, %s, %d threads, %lld bytes", (int)engine,
             skip ? skip : "all passes", threads, (long long)near);
    const results is = run(n, engine, skip, threads, near, 0);
    compare(n, &is, be, how);
    tp_close(is.tp);
}

static bool has_threads(void)
{
    tp_ctx *probe = tp_open(NULL);
    const bool more = tp_threads(probe, 2) && probe->pool;
    tp_close(probe);
    return more;
}

/* Kernels in boxes of any size, runs of any steps image by image, all in any order. */
static void check_chance(const net *n, const results *be, int threads)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        char how[100];
        snprintf(how, sizeof how, "cut by chance %d, %d threads", (int)seed, threads);
        const results is = run(n, TP_ENGINE_C, NULL, threads, 0, seed);
        compare(n, &is, be, how);
        tp_close(is.tp);
    }
}

static void same_bits_by_chance(void **unused)
{
    (void)unused;
    const bool more = has_threads();
    for (int i = 0; i < N_NETS; i++) {
        const results be = run(&nets[i], TP_ENGINE_REFERENCE, NULL, 1, 0, 0);
        check_chance(&nets[i], &be, 1);
        if (more)
            check_chance(&nets[i], &be, 7);
        tp_close(be.tp);
    }
}

static void same_bits(void **unused)
{
    (void)unused;
    static const int64_t nears[] = {1, 7000, 60000, 0};
    for (int i = 0; i < N_NETS; i++) {
        const net *n = &nets[i];
        const results be = run(n, TP_ENGINE_REFERENCE, NULL, 1, 0, 0);
        for (size_t k = 0; k < sizeof nears / sizeof *nears; k++)
            check(n, &be, TP_ENGINE_C, NULL, 1, nears[k]);
        check(n, &be, TP_ENGINE_C, "bands", 1, 7000);
        check(n, &be, TP_ENGINE_TILES, NULL, 1, 7000);
        tp_close(be.tp);
    }
}

static void same_bits_on_threads(void **unused)
{
    (void)unused;
    static const int threads[] = {2, 7, 64};
    if (!has_threads()) {
        print_message("skipped: libpthreadpool is not installed\n");
        skip();
    }
    for (int i = 0; i < N_NETS; i++) {
        const net *n = &nets[i];
        const results be = run(n, TP_ENGINE_REFERENCE, NULL, 1, 0, 0);
        for (size_t k = 0; k < sizeof threads / sizeof *threads; k++)
            for (int near = 0; near < 2; near++) /* many parts, and one for each thread */
                check(n, &be, TP_ENGINE_C, NULL, threads[k], near ? 7000 : 0);
        tp_close(be.tp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(same_bits_on_threads),
        cmocka_unit_test(same_bits_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
