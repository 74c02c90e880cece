/* Programs with fast numerics: convolutions large enough to be taken otherwise are within the bound of
 * docs/numerics.md of an f64 one, with the same bits by tiles and by C on any number of threads; all else,
 * strict programs and the reference engine keep their bits. */
#include "tapir/tapir.h"
#include "unit/unit.h"

#include <math.h>

typedef tp_tensor *(*net_fn)(tp_tensor *x, tp_tensor *w);

typedef struct net {
    const char *name;
    int64_t x[4], w[4];
    net_fn fn;
    bool differs[2]; /* from strict bits: w is fed; w is a constant */
    int channels;    /* that a sum is over */
} net;

static const tp_window same = {
    .pad_lo = {1, 1},
      .pad_hi = {1, 1}
};

static tp_tensor *conv(tp_tensor *x, tp_tensor *w)
{
    return tp_conv(x, w, &same);
}

static tp_tensor *conv_dx(tp_tensor *x, tp_tensor *w)
{
    const int64_t sizes[] = {tp_size(x, 2), tp_size(x, 3)};
    return tp_conv_dx(x, w, 2, sizes, &same);
}

static tp_tensor *strided(tp_tensor *x, tp_tensor *w)
{
    const tp_window two = {
        .stride = {2, 2},
          .pad_lo = {1, 1},
          .pad_hi = {1, 1}
    };
    return tp_conv(x, w, &two);
}

static tp_tensor *product(tp_tensor *x, tp_tensor *w)
{
    return tp_softmax(tp_matmul(x, tp_reshape(w, TP_DIMS(30, 90))), 3);
}

static const net nets[] = {
    {"conv",             {2, 32, 30, 26}, {40, 32, 3, 3},  conv,    {true, true},   32 },
    {"conv, 2 by 2",     {1, 160, 7, 7},  {96, 160, 3, 3}, conv,    {false, true},  160},
    {"conv, few wide",   {1, 24, 5, 600}, {70, 24, 3, 3},  conv,    {true, true},   24 },
    {"conv_dx",          {6, 40, 20, 22}, {40, 32, 3, 3},  conv_dx, {true, true},   40 },
    {"conv, stride 2",   {2, 32, 30, 26}, {40, 32, 3, 3},  strided, {false, false}, 32 },
    {"product, softmax", {1, 2, 57, 30},  {3, 10, 9, 10},  product, {false, false}, 30 },
};
enum { N_NETS = sizeof nets / sizeof *nets };

static tp_tensor *drawn(tp_ctx *tp, const int64_t *shape)
{
    return tp_uniform(tp, TP_F32, 4, shape, -1, 1);
}

/* With the batch a symbol; `frozen`: w is a constant. */
static tp_tensor *run(tp_ctx *tp, const net *n, tp_tensor *x, tp_tensor *w, bool frozen,
                      const tp_compile_options *opt)
{
    static const char *const feeds[] = {"x", "w"}, *const fetch[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *y = NULL, *in[] = {x, w};
    tp_tensor *px = tp_placeholder(g, "x", TP_F32,
                                   TP_DIMS(tp_symbol(g, "batch"), n->x[1], n->x[2], n->x[3]));
    tp_tensor *pw = frozen ? w : tp_placeholder(g, "w", TP_F32, 4, n->w);
    tp_name(n->fn(px, pw), "y");
    tp_program *p = tp_graph_compile(g, frozen ? 1 : 2, feeds, 1, fetch, opt);
    if (!p || tp_program_run(p, in, &y) != TP_OK)
        fail_msg("%s: %s", n->name, tp_error_message(tp));
    return y;
}

static bool equal(tp_tensor *a, tp_tensor *b)
{
    return memcmp(tp_data(a), tp_data(b), (size_t)tp_count(a) * sizeof(float)) == 0;
}

static void assert_equal(const net *n, const char *how, int threads, tp_tensor *got,
                         tp_tensor *want)
{
    const float *a = tp_data(got), *b = tp_data(want);
    for (int64_t i = 0; i < tp_count(want); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, %s, %d threads: element %lld is %a, not %a", n->name, how, threads,
                     (long long)i, (double)a[i], (double)b[i]);
}

/* Operands are in [-1, 1]: the bound of tiles of 4 by 4. */
static void assert_near(const net *n, tp_tensor *fast, tp_tensor *strict, tp_tensor *exact)
{
    const float *a = tp_data(fast), *s = tp_data(strict);
    const double *e = tp_data(exact);
    const double bound = 564.0 * n->channels * (n->channels + 12) * ldexp(1, -24);
    double squares = 0, strict_squares = 0;
    for (int64_t i = 0; i < tp_count(exact); i++) {
        const double off = (double)a[i] - e[i], strict_off = (double)s[i] - e[i];
        if (!(fabs(off) <= bound))
            fail_msg("%s: element %lld is %a, exactly %a", n->name, (long long)i, (double)a[i],
                     e[i]);
        squares += off * off;
        strict_squares += strict_off * strict_off;
    }
    if (!(squares <= 25 * strict_squares))
        fail_msg("%s: errors are %.2f times those of a strict program", n->name,
                 sqrt(squares / strict_squares));
}

static void fast_programs(void **unused)
{
    (void)unused;
    static const int threads[] = {1, 2, 7};
    for (int k = 0; k < 2 * N_NETS; k++) {
        const net *n = &nets[k / 2];
        const bool frozen = k % 2;
        tp_ctx *first = tp_open(NULL);
        tp_tensor *fast = NULL;
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            tp_ctx *tp = t ? tp_open(&(tp_options){.threads = threads[t]}) : first;
            tp_tensor *x = drawn(tp, n->x), *w = drawn(tp, n->w);
            for (int e = 0; e < 2; e++) {
                const tp_compile_options opt = {.engine = e ? TP_ENGINE_C : TP_ENGINE_TILES,
                                                .numerics = TP_FAST};
                tp_tensor *y = run(tp, n, x, w, frozen, &opt);
                fast = fast ? fast : y;
                assert_equal(n, e ? "C" : "tiles", threads[t], y, fast);
            }
            if (!t) {
                tp_tensor *strict = n->fn(x, w);
                tp_tensor *exact = n->fn(tp_cast(x, TP_F64), tp_cast(w, TP_F64));
                assert_int_equal(equal(fast, strict), !n->differs[frozen]);
                if (n->differs[frozen])
                    assert_near(n, fast, strict, exact);
                assert_equal(
                    n, "strict", 1,
                    run(tp, n, x, w, frozen, &(tp_compile_options){.engine = TP_ENGINE_C}),
                    strict);
                assert_equal(n, "reference", 1,
                             run(tp, n, x, w, frozen,
                                 &(tp_compile_options){.engine = TP_ENGINE_REFERENCE,
                                                       .numerics = TP_FAST}),
                             strict);
            } else {
                tp_close(tp);
            }
        }
        tp_close(first);
    }
}

/* One program, another batch: other tiles, for which the weights are prepared anew. */
static void other_batch(void **unused)
{
    (void)unused;
    static const char *const feeds[] = {"x"}, *const fetch[] = {"y"};
    static const int64_t batches[] = {1, 6, 1};
    const net *n = &nets[1];
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *w = drawn(tp, n->w);
    tp_tensor *px = tp_placeholder(g, "x", TP_F32,
                                   TP_DIMS(tp_symbol(g, "batch"), n->x[1], n->x[2], n->x[3]));
    tp_name(n->fn(px, w), "y");
    tp_program *p[2];
    for (int e = 0; e < 2; e++)
        p[e] =
            tp_graph_compile(g, 1, feeds, 1, fetch,
                             &(tp_compile_options){.engine = e ? TP_ENGINE_C : TP_ENGINE_TILES,
                                                   .numerics = TP_FAST});
    for (int i = 0; i < 3; i++) {
        tp_tensor *x = drawn(tp, (const int64_t[]){batches[i], n->x[1], n->x[2], n->x[3]});
        tp_tensor *y[2] = {NULL, NULL};
        for (int e = 0; e < 2; e++)
            assert_int_equal(tp_program_run(p[e], &x, &y[e]), TP_OK);
        assert_equal(n, "another batch", 1, y[1], y[0]);
        assert_near(n, y[0], n->fn(x, w), n->fn(tp_cast(x, TP_F64), tp_cast(w, TP_F64)));
    }
    tp_close(tp);
}

/* An infinity reaches the outputs of its tile, and no others. */
static void infinity(void **unused)
{
    (void)unused;
    const net *n = &nets[0];
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *x = drawn(tp, n->x), *w = drawn(tp, n->w);
    ((float *)tp_data(x))[31 * 26 * 30 + 9 * 26 + 10] =
        INFINITY; /* channel 31, row 9, column 10 */
    tp_tensor *y = run(tp, n, x, w, true, &(tp_compile_options){.numerics = TP_FAST});
    const float *v = tp_data(y);
    for (int64_t i = 0; i < tp_count(y); i++) {
        const int64_t row = i / 26 % 30, column = i % 26;
        const bool inside =
            i < 40 * 26 * 30 && row >= 8 && row < 12 && column >= 8 && column < 12;
        if (!inside && !isfinite(v[i]))
            fail_msg("row %lld, column %lld is %g", (long long)row, (long long)column,
                     (double)v[i]);
    }
    const bool finite = isfinite(v[9 * 26 + 10]);
    assert_false(finite);
    tp_close(tp);
}

static void says_so(void **unused)
{
    (void)unused;
    static const char *const feeds[] = {"x"}, *const fetch[] = {"y"};
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_name(tp_neg(tp_placeholder(g, "x", TP_F32, TP_DIMS(4))), "y");
    for (int fast = 0; fast < 2; fast++) {
        tp_program *p =
            tp_graph_compile(g, 1, feeds, 1, fetch,
                             &(tp_compile_options){.numerics = fast ? TP_FAST : TP_STRICT});
        char *text = tp_program_text(p);
        assert_non_null(text);
        assert_int_equal(strstr(text, "numerics: fast") != NULL, fast);
        assert_int_equal(strstr(tp_program_source(p), "fast numerics") != NULL, fast);
        tp_free(tp, text);
    }
    tp_close(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fast_programs),
                                       cmocka_unit_test(other_batch),
                                       cmocka_unit_test(infinity), cmocka_unit_test(says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
