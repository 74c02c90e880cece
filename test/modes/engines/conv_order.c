/* The orders of f32 convolutions: by Winograd's tiles, and direct, all taps together or tap by tap. Each has the same bits in every
 * engine, on any number of threads, for weights that are fed and constant ones, in gradients, whatever
 * the batch; both are within the bounds of docs/numerics.md of a convolution in f64. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

typedef tp_tensor *(*net_fn)(tp_tensor *x, tp_tensor *w);

typedef struct net {
    const char *name;
    int64_t x[4], w[4];
    net_fn fn;
    bool tiled;   /* tiles pay */
    int channels; /* that a sum is over */
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

/* Most taps lie outside of a small image. */
static tp_tensor *apart(tp_tensor *x, tp_tensor *w)
{
    const tp_window wide = {
        .stride = {2,  1},
          .pad_lo = {12, 9},
          .pad_hi = {12, 9},
          .dilation = {12, 9}
    };
    return tp_conv(x, w, &wide);
}

/* Those of x and of w. */
static tp_tensor *apart_gradients(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *y = apart(x, w), *sum = tp_sum(tp_mul(y, y), TP_DIMS(0, 1, 2, 3), false);
    tp_tensor *of[] = {x, w}, *grads[2];
    tp_grads(sum, NULL, 2, of, grads);
    for (int i = 0; i < 2; i++)
        grads[i] = tp_reshape(grads[i], TP_DIMS(-1));
    return tp_concat(2, grads, 0);
}

/* Rows whose elements are not neighbours, going in and coming out. */
static tp_tensor *turned(tp_tensor *x, tp_tensor *w)
{
    return tp_transpose(tp_conv(tp_transpose(x, TP_DIMS(0, 1, 3, 2)), w, &same),
                        TP_DIMS(0, 1, 3, 2));
}

/* The gradient of x, which is another convolution by tiles. */
static tp_tensor *gradient(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *y = tp_conv(x, w, &same);
    return tp_grad(tp_sum(tp_mul(y, y), TP_DIMS(0, 1, 2, 3), false), x);
}

static const net nets[] = {
    {"conv",             {2, 32, 30, 26}, {40, 32, 3, 3},  conv,            true,  32 },
    {"conv, small",      {1, 160, 7, 7},  {96, 160, 3, 3}, conv,            true,  160},
    {"conv, few wide",   {1, 40, 5, 600}, {70, 40, 3, 3},  conv,            true,  40 },
    {"conv, turned",     {2, 32, 17, 26}, {40, 32, 3, 3},  turned,          true,  32 },
    {"conv_dx",          {6, 40, 20, 22}, {40, 32, 3, 3},  conv_dx,         true,  40 },
    {"gradient",         {2, 24, 20, 22}, {32, 24, 3, 3},  gradient,        true,  0  },
    {"conv, stride 2",   {2, 32, 30, 26}, {40, 32, 3, 3},  strided,         false, 32 },
    {"conv, apart",      {3, 32, 14, 11}, {40, 32, 3, 3},  apart,           false, 32 },
    {"gradients, apart", {3, 48, 14, 11}, {40, 48, 3, 3},  apart_gradients, false, 0  },
    {"conv, shallow",    {2, 3, 30, 26},  {40, 3, 3, 3},   conv,            false, 3  },
};
enum { N_NETS = sizeof nets / sizeof *nets };

static tp_tensor *drawn(tp_ctx *tp, const int64_t *shape)
{
    return tp_uniform(tp, TP_F32, 4, shape, -1, 1);
}

static tp_ctx *open_with(bool direct, int threads)
{
    return tp_open(&(tp_options){.direct_conv = direct, .threads = threads});
}

/* With the batch a symbol; `frozen`: w is a constant. */
static tp_tensor *run(tp_ctx *tp, const net *n, tp_tensor *x, tp_tensor *w, bool frozen,
                      tp_engine engine)
{
    static const char *const feeds[] = {"x", "w"}, *const fetch[] = {"y"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *y = NULL, *in[] = {x, w};
    tp_tensor *px = tp_placeholder(g, "x", TP_F32,
                                   TP_DIMS(tp_symbol(g, "batch"), n->x[1], n->x[2], n->x[3]));
    tp_tensor *pw = frozen ? w : tp_placeholder(g, "w", TP_F32, 4, n->w);
    tp_name(n->fn(px, pw), "y");
    tp_program *p = tp_graph_compile(g, frozen ? 1 : 2, feeds, 1, fetch,
                                     &(tp_compile_options){.engine = engine});
    if (!p || tp_program_run(p, in, &y) != TP_OK)
        fail_msg("%s: %s", n->name, tp_error_message(tp));
    return y;
}

static tp_tensor *eagerly(const net *n, tp_tensor *x, tp_tensor *w)
{
    if (n->fn == gradient || n->fn == apart_gradients)
        x = tp_require_grad(x);
    if (n->fn == apart_gradients)
        w = tp_require_grad(w);
    return n->fn(x, w);
}

static bool equal(tp_tensor *a, tp_tensor *b)
{
    return memcmp(tp_data(tp_contiguous(a)), tp_data(tp_contiguous(b)),
                  (size_t)tp_count(a) * sizeof(float)) == 0;
}

static void assert_equal(const net *n, const char *how, int threads, tp_tensor *got,
                         tp_tensor *want)
{
    tp_tensor *of[] = {tp_contiguous(got), tp_contiguous(want)};
    const float *a = tp_data(of[0]), *b = tp_data(of[1]);
    for (int64_t i = 0; i < tp_count(want); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, %s, %d threads: element %lld is %a, eagerly %a", n->name, how,
                     threads, (long long)i, (double)a[i], (double)b[i]);
}

/* Operands are in [-1, 1]. */
static void assert_near(const net *n, tp_tensor *tiled, tp_tensor *direct, tp_tensor *exact)
{
    tp_tensor *of[] = {tp_contiguous(tiled), tp_contiguous(direct), tp_contiguous(exact)};
    const float *a = tp_data(of[0]), *s = tp_data(of[1]);
    const double *e = tp_data(of[2]);
    const double bound = 64.0 * n->channels * (n->channels + 8) * ldexp(1, -24);
    double squares = 0, direct_squares = 0;
    for (int64_t i = 0; i < tp_count(exact); i++) {
        const double off = (double)a[i] - e[i], direct_off = (double)s[i] - e[i];
        if (n->channels && !(fabs(off) <= bound))
            fail_msg("%s: element %lld is %a, exactly %a", n->name, (long long)i, (double)a[i],
                     e[i]);
        squares += off * off;
        direct_squares += direct_off * direct_off;
    }
    if (!(squares <= 4 * direct_squares))
        fail_msg("%s: errors are %.2f times those of the direct order", n->name,
                 sqrt(squares / direct_squares));
}

/* The eager result, with which all others are compared. */
static tp_tensor *one_order(tp_ctx *tp, const net *n, bool direct)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const int threads[] = {1, 7};
    static const char *const names[] = {"reference", "tiles", "C"};
    tp_seed(tp, 5);
    tp_tensor *first = drawn(tp, n->x), *known = eagerly(n, first, drawn(tp, n->w));
    for (int t = 0; t < 2; t++) {
        tp_ctx *own = open_with(direct, threads[t]);
        tp_seed(own, 5);
        tp_tensor *x = drawn(own, n->x), *w = drawn(own, n->w);
        assert_equal(n, "eager", threads[t], eagerly(n, x, w), known);
        for (int e = t ? 1 : 0; e < 3; e++)
            for (int frozen = 0; frozen < 2; frozen++)
                assert_equal(n, names[e], threads[t], run(own, n, x, w, frozen, engines[e]),
                             known);
        tp_close(own);
    }
    return known;
}

static void orders(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_NETS; i++) {
        const net *n = &nets[i];
        tp_ctx *tp = open_with(false, 1), *plain = open_with(true, 1);
        tp_tensor *tiled = one_order(tp, n, false), *direct = one_order(plain, n, true);
        if (equal(tiled, direct) != !n->tiled)
            fail_msg("%s: the orders give %s bits", n->name, n->tiled ? "the same" : "other");
        tp_seed(tp, 5);
        tp_tensor *x = tp_cast(drawn(tp, n->x), TP_F64), *w = tp_cast(drawn(tp, n->w), TP_F64);
        assert_near(n, tiled, direct, eagerly(n, x, w));
        tp_close(plain);
        tp_close(tp);
    }
}

/* An image has the bits it has alone, in one program too. */
static void any_batch(void **unused)
{
    (void)unused;
    static const int64_t batches[] = {1, 6, 1};
    const net *n = &nets[1];
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *w = drawn(tp, n->w), *x = drawn(tp, (int64_t[]){6, n->x[1], n->x[2], n->x[3]});
    tp_tensor *all = n->fn(x, w);
    for (int i = 0; i < 3; i++) {
        tp_tensor *some = tp_slice(x, 0, 0, batches[i], 1),
                  *want = tp_slice(all, 0, 0, batches[i], 1);
        assert_equal(n, "a part of the batch", 1, n->fn(some, w), want);
        assert_equal(n, "a part of the batch, C", 1, run(tp, n, some, w, true, TP_ENGINE_C),
                     want);
    }
    tp_close(tp);
}

/* An infinity reaches the outputs whose window it is in, and no others, by both orders. */
static void infinity(void **unused)
{
    (void)unused;
    const net *n = &nets[0];
    for (int direct = 0; direct < 2; direct++) {
        tp_ctx *tp = open_with(direct, 1);
        tp_tensor *x = drawn(tp, n->x), *w = drawn(tp, n->w);
        ((float *)tp_data(x))[31 * 26 * 30 + 9 * 26 + 10] =
            INFINITY; /* channel 31, row 9, column 10 */
        tp_tensor *y = n->fn(x, w);
        const float *v = tp_data(y);
        for (int64_t i = 0; i < tp_count(y); i++) {
            const int64_t row = i / 26 % 30, column = i % 26;
            const bool inside =
                i < 40 * 26 * 30 && row >= 8 && row < 11 && column >= 9 && column < 12;
            if (!inside && !isfinite(v[i]))
                fail_msg("row %lld, column %lld is %g", (long long)row, (long long)column,
                         (double)v[i]);
        }
        const bool finite = isfinite(v[9 * 26 + 10]);
        assert_false(finite);
        tp_close(tp);
    }
}

/* A graph keeps the order that its nodes were made with, in a file too. */
static void kept(void **unused)
{
    (void)unused;
    static const char path[] = "conv_order.tapir";
    const net *n = &nets[0];
    for (int direct = 0; direct < 2; direct++) {
        tp_ctx *tp = open_with(direct, 1), *other = open_with(!direct, 1);
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = drawn(tp, n->x), *w = drawn(tp, n->w), *y = NULL;
        tp_name(n->fn(tp_placeholder(g, "x", TP_F32, 4, n->x), w), "y");
        assert_int_equal(tp_graph_save(g, path), TP_OK);
        tp_graph *read = tp_graph_load(other, path);
        tp_seed(other, 0);
        tp_tensor *again = tp_tensor_new(other, TP_F32, 4, n->x, tp_data(x));
        assert_int_equal(
            tp_graph_run(read, 1, &(tp_feed){"x", again}, 1, &(const char *){"y"}, &y), TP_OK);
        assert_equal(n, "loaded", 1, y, n->fn(x, w));
        tp_close(other);
        tp_close(tp);
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(orders), cmocka_unit_test(any_batch),
                                       cmocka_unit_test(infinity), cmocka_unit_test(kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
