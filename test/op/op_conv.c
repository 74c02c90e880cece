/* Convolutions and pooling: eager kernels against the reference, bit by bit; pooling against its
 * definition; gradients against differences; shapes over symbols; errors. */
#include "op/op.h"
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/nn.h"

enum { ROUNDS = 200, MAX_ELEMENTS = 20000 };

static tp_tensor *random_float(tp_ctx *tp, uint64_t *s, tp_dtype t, int rank,
                               const int64_t *shape)
{
    return tp_contiguous(tp_cast(random_f64(tp, s, rank, shape), t));
}

static void random_window(uint64_t *s, tp_window *w, int n)
{
    *w = (tp_window){0};
    for (int i = 0; i < n; i++) {
        w->stride[i] = random_int(s, 0, 3);
        w->dilation[i] = random_int(s, 0, 2);
        w->pad_lo[i] = random_int(s, 0, 2);
        w->pad_hi[i] = random_int(s, 0, 2);
    }
}

/* y, what an op gave, against the reference on the same operands. */
static void check_reference(tp_ctx *tp, tp_tensor *y, uint64_t seed)
{
    if (tp_failed(y))
        fail_msg("seed %" PRIu64 ": %s", seed, tp_error_text(y));
    tp_tensor *want = tpi_tensor_new(tp, TPI_AT(NULL, 0), tp_dtype_of(y), tp_rank(y), y->shape);
    tpi_run r = {
        .op = y->op, .ctx = tp, .n_in = y->n_in, .in = y->in, .attrs = y->attrs, .out = want};
    assert_true(tpi_run_reference(&r));
    const size_t size = tp_dtype_size(tp_dtype_of(y));
    for (int64_t i = 0; i < tp_count(y); i++)
        if (memcmp(y->data + (size_t)i * size, want->data + (size_t)i * size, size) != 0)
            fail_msg("seed %" PRIu64 ": %s gives %s, differs at %" PRId64 ": operands %s, %s",
                     seed, y->op->name, SHAPE(y), i, SHAPE(y->in[0]), SHAPE(y->in[1]));
}

static void convolutions_have_the_bits_of_the_reference(void **state)
{
    tp_ctx *tp = *state;
    int done = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 911;
        tp_scope_begin(tp);
        const int n = (int)random_int(&s, 1, 3);
        const tp_dtype t = random_int(&s, 0, 1) ? TP_F64 : TP_F32;
        tp_window w;
        random_window(&s, &w, n);
        w.groups = random_int(&s, 0, 3);
        const int64_t groups = w.groups ? w.groups : 1;
        int64_t xs[5] = {random_int(&s, 1, 3), groups * random_int(&s, 1, 4)};
        int64_t ws[5] = {groups * random_int(&s, 1, 5), xs[1] / groups};
        for (int i = 0; i < n; i++) {
            xs[i + 2] = random_int(&s, 1, 9);
            ws[i + 2] = random_int(&s, 1, 3);
        }
        tp_tensor *x = tp_require_grad(random_float(tp, &s, t, n + 2, xs));
        tp_tensor *k = tp_require_grad(random_float(tp, &s, t, n + 2, ws));
        if (random_int(&s, 0, 1)) { /* operands with gaps and turned axes */
            x = tp_swap(tp_contiguous(tp_swap(x, 1, n + 1)), 1, n + 1);
            k = tp_swap(tp_contiguous(tp_swap(k, 0, 2)), 0, 2);
        }
        tp_tensor *y = tp_conv(x, k, &w);
        if (!tp_failed(y)) {
            check_reference(tp, y, seed);
            check_reference(tp, tp_conv_dx(y, k, n, xs + 2, &w), seed);
            check_reference(tp, tp_conv_dw(x, y, n, ws + 2, &w), seed);
            done++;
        }
        tp_clear_error(tp);
        tp_scope_end(tp);
    }
    assert_true(done > ROUNDS / 2);
}

/* ---- pooling -------------------------------------------------------------------------------------- */

typedef struct pooled {
    double max, mean, mean_pad;
    int64_t place;
} pooled;

/* The window at `o` of one plane, by the definition: the sums of its columns first. */
static pooled pool_one(const double *plane, int n, const int64_t *size, const int64_t *o,
                       const tp_window *w)
{
    pooled p = {.place = -1};
    int64_t taps = 1, inside = 0;
    double sum = 0, column = 0;
    for (int i = 0; i < n; i++)
        taps *= w->kernel[i];
    const int64_t columns = w->kernel[n - 1], rows = taps / columns;
    for (int64_t t = 0; t < taps; t++) {
        int64_t at[3], left = t % rows * columns + t / rows, where = 0;
        bool in = true;
        for (int i = n - 1; i >= 0; i--) {
            const int64_t dilation = w->dilation[i] ? w->dilation[i] : 1;
            const int64_t stride = w->stride[i] ? w->stride[i] : w->kernel[i];
            at[i] = o[i] * stride + left % w->kernel[i] * dilation - w->pad_lo[i];
            in = in && at[i] >= 0 && at[i] < size[i];
            left /= w->kernel[i];
        }
        for (int i = 0; i < n; i++)
            where = where * size[i] + at[i];
        column = t % rows ? column : 0;
        if (in) {
            column += plane[where];
            inside++;
            if (p.place < 0 || plane[where] > p.max ||
                (plane[where] == p.max && where < p.place)) {
                p.max = plane[where];
                p.place = where;
            }
        }
        sum += t % rows == rows - 1 ? column : 0;
    }
    p.mean = sum / (double)inside;
    p.mean_pad = sum / (double)taps;
    return p;
}

static void check_pool(tp_tensor *y, uint64_t seed, int64_t i, double want, const char *what)
{
    const double got = ((const double *)tp_data(y))[i];
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("seed %" PRIu64 ": %s %s differs at %" PRId64 ": %.17g, not %.17g", seed, what,
                 SHAPE(y), i, got, want);
}

static void pooling_matches_the_definition(void **state)
{
    tp_ctx *tp = *state;
    static double v[MAX_ELEMENTS];
    int done = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 773;
        tp_scope_begin(tp);
        const int n = (int)random_int(&s, 1, 3);
        tp_window w;
        random_window(&s, &w, n);
        int64_t xs[5] = {2, 2}, o[3];
        for (int i = 0; i < n; i++) {
            const bool wide = n == 1 && seed % 8 == 0;
            xs[i + 2] = random_int(&s, 1, wide ? 1500 : 8);
            w.kernel[i] = random_int(&s, 1, wide && seed % 16 == 0 ? 700 : 3);
        }
        tp_tensor *x = random_f64(tp, &s, n + 2, xs);
        if (seed % 3 == 0)                                            /* equal ones */
            x = tp_add(tp_round(tp_add(x, x)), tp_scalar_like(x, 0)); /* no -0 */
        assert_int_equal(tp_read(x, v, sizeof(double) * (size_t)tp_count(x)), TP_OK);
        tp_tensor *max = tp_max_pool(tp_require_grad(tp_contiguous(x)), &w);
        if (tp_failed(max)) {
            assert_true(strstr(tp_error_text(max), "hold nothing else") ||
                        strstr(tp_error_text(max), "does not fit"));
            tp_clear_error(tp);
            tp_scope_end(tp);
            continue;
        }
        tp_tensor *place =
            tpi_apply(TPI_AT(NULL, 0), &tpi_op_max_pool_index, 1, &x, max->attrs);
        tp_tensor *mean = tp_avg_pool(x, &w);
        w.count_pad = true;
        tp_tensor *mean_pad = tp_avg_pool(x, &w);
        assert_int_equal(tp_error(tp), TP_OK);
        const int64_t plane = tp_count(x) / 4, places = tp_count(max) / 4;
        for (int64_t i = 0; i < tp_count(max); i++) {
            int64_t left = i % places;
            for (int k = n - 1; k >= 0; k--) {
                o[k] = left % max->shape[k + 2];
                left /= max->shape[k + 2];
            }
            const pooled p = pool_one(v + i / places * plane, n, xs + 2, o, &w);
            assert_true(p.place >= 0);
            check_pool(max, seed, i, p.max, "max_pool");
            check_pool(mean, seed, i, p.mean, "avg_pool");
            check_pool(mean_pad, seed, i, p.mean_pad, "avg_pool with padding");
            assert_int_equal(((const int64_t *)tp_data(place))[i], p.place);
        }
        done++;
        tp_scope_end(tp);
    }
    assert_true(done > ROUNDS / 4);
}

static void pooling_keeps_what_is_no_number(void **state)
{
    tp_ctx *tp = *state;
    const float nan = __builtin_nanf(""), inf = __builtin_inff();
    const float v[] = {1, nan, 2, -inf, -inf, -inf};
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(1, 1, 6), v);
    const float *y = tp_data(tp_max_pool(x, &(tp_window){.kernel = {3}, .stride = {3}}));
    assert_true(y[0] != y[0]);
    assert_true(y[1] == -inf);
}

/* ---- gradients ------------------------------------------------------------------------------------ */

typedef struct window_case {
    tp_window w;
    int64_t sizes[3];
    int n;
} window_case;

static tp_tensor *conv_of(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_conv(xs[0], xs[1], &((window_case *)user)->w));
}

static tp_tensor *conv_dx_of(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    const window_case *c = user;
    return tp_square(tp_conv_dx(xs[0], xs[1], c->n, c->sizes, &c->w));
}

static tp_tensor *conv_dw_of(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    const window_case *c = user;
    return tp_square(tp_conv_dw(xs[0], xs[1], c->n, c->sizes, &c->w));
}

static tp_tensor *max_of(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_max_pool(xs[0], &((window_case *)user)->w));
}

static tp_tensor *mean_of(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    return tp_square(tp_avg_pool(xs[0], &((window_case *)user)->w));
}

static void gradients_match_differences(void **state)
{
    tp_ctx *tp = *state;
    uint64_t s = 17;
    window_case line = {
        .w = {.stride = {2}, .pad_lo = {1}, .pad_hi = {2}, .groups = 2},
          .n = 1
    };
    tp_tensor *x = random_f64(tp, &s, TP_DIMS(2, 4, 5)),
              *w = random_f64(tp, &s, TP_DIMS(4, 2, 3));
    tp_tensor *y = random_f64(tp, &s, TP_DIMS(2, 4, 3));
    check_gradients(tp, "conv", conv_of, &line, 2, (tp_tensor *[]){x, w});
    line.sizes[0] = 5;
    check_gradients(tp, "conv_dx", conv_dx_of, &line, 2, (tp_tensor *[]){y, w});
    line.sizes[0] = 3;
    check_gradients(tp, "conv_dw", conv_dw_of, &line, 2, (tp_tensor *[]){x, y});
    window_case plane = {
        .w = {.kernel = {2, 3},
              .stride = {2, 1},
              .dilation = {1, 2},
              .pad_lo = {1, 1},
              .pad_hi = {0, 2}},
        .n = 2
    };
    x = random_f64(tp, &s, TP_DIMS(1, 2, 4, 5));
    w = random_f64(tp, &s, TP_DIMS(2, 2, 2, 3));
    check_gradients(tp, "conv in a plane", conv_of, &plane, 2, (tp_tensor *[]){x, w});
    check_gradients(tp, "max_pool", max_of, &plane, 1, &x);
    check_gradients(tp, "avg_pool", mean_of, &plane, 1, &x);
    plane.w.count_pad = true;
    check_gradients(tp, "avg_pool with padding", mean_of, &plane, 1, &x);
    window_case space = {
        .w = {.kernel = {2, 2, 2}, .pad_lo = {0, 1, 0}},
          .n = 3
    };
    x = random_f64(tp, &s, TP_DIMS(1, 1, 2, 3, 4));
    check_gradients(tp, "max_pool in space", max_of, &space, 1, &x);
    check_gradients(tp, "avg_pool in space", mean_of, &space, 1, &x);
}

/* ---- engines ---------------------------------------------------------------------------------------- */

/* Images are taken by tiles, volumes are not, be they one plane deep: by nobody. */
static void a_volume_of_one_plane_is_no_image(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_ctx *tp = *state;
    uint64_t s = 7;
    tp_tensor *in[] = {random_float(tp, &s, TP_F32, TP_DIMS(1, 32, 1, 10, 10)),
                       random_float(tp, &s, TP_F32, TP_DIMS(32, 32, 1, 3, 3))};
    const float *want = tp_data(tp_conv(in[0], in[1], NULL));
    for (int e = 0; e < 3; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, 5, in[0]->shape);
        tp_name(tp_conv(x, tp_placeholder(g, "w", TP_F32, 5, in[1]->shape), NULL), "y");
        tp_program *p = tp_graph_compile(g, TP_NAMES("x", "w"), TP_NAMES("y"), &options);
        tp_tensor *y;
        assert_int_equal(tp_program_run(p, in, &y), TP_OK);
        assert_memory_equal(tp_data(y), want, 32 * 64 * sizeof *want);
        tp_program_free(p);
        tp_graph_free(g);
    }
}

/* ---- shapes and errors ------------------------------------------------------------------------------ */

static void symbols_stay_symbols(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n"), h = tp_symbol(g, "h");
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 3, h, 28));
    tp_tensor *w = tp_tensor_new(tp, TP_F32, TP_DIMS(8, 3, 5, 5), NULL);
    const tp_window same =
                        {
                            .pad_lo = {2, 2},
                              .pad_hi = {2, 2}
    },
                    half = {.kernel = {2, 2}};
    const tp_window strided = {
        .stride = {2, 2}
    };
    tp_tensor *y = tp_conv(x, w, &same);
    assert_string_equal(SHAPE(y), "[n, 8, h, 28]");
    assert_string_equal(SHAPE(tp_conv(x, w, NULL)), "[n, 8, h-4, 24]");
    assert_string_equal(SHAPE(tp_conv(x, w, &strided)), "[n, 8, (h+1)/2-2, 12]");
    tp_tensor *p = tp_max_pool(y, &half);
    assert_string_equal(SHAPE(p), "[n, 8, h/2, 14]");
    assert_string_equal(SHAPE(tp_avg_pool(y, &half)), "[n, 8, h/2, 14]");
    assert_string_equal(SHAPE(tp_grad(p, x)), "[n, 3, h, 28]");
    assert_string_equal(SHAPE(tp_grad(tp_conv(x, w, &strided), x)), "[n, 3, h, 28]");
    assert_string_equal(SHAPE(tp_grad(tp_grad(tp_avg_pool(y, &half), x), x)), "[n, 3, h, 28]");
    assert_int_equal(tp_error(tp), TP_OK);
}

static void what_does_not_fit_is_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(1, 4, 5, 5), NULL);
    tp_tensor *w = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3, 3, 3), NULL);
    tp_conv(x, w, NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv: x [1, 4, 5, 5] and w [2, 3, 3, 3] do not fit in 1 groups");
    tp_conv(x, tp_slice(w, 1, 0, 2, 1), &(tp_window){.groups = 3});
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv: x [1, 4, 5, 5] and w [2, 2, 3, 3] do not fit in 3 groups");
    tp_conv(x, w,
            &(tp_window){
                .stride = {1, -1}
    });
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": conv: stride [1, -1]: 2 entries from 1 to 2147483647 are needed");
    tp_conv(x, w, &(tp_window){.pad_lo = {-1}});
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": conv: pad_lo [-1, 0]: 2 entries from 0 to 2147483647 are needed");
    tp_conv(x, w,
            &(tp_window){
                .stride = {INT64_MAX, 1},
                  .pad_lo = {INT64_MAX - 8        }
    });
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": conv: stride [9223372036854775807, 1]: 2 entries from 1 to "
                 "2147483647 are needed");
    tp_conv(x, w,
            &(tp_window){
                .stride = {INT32_MAX, INT32_MAX},
                  .pad_lo = {INT32_MAX, 9        }
    });
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": conv: padding [2147483647, 9] and [0, 0] is more than 2^22 elements");
    tp_conv(x, w, &(tp_window){.groups = -1});
    EXPECT_ERROR(tp, TP_E_VALUE, ": conv: -1 groups");
    tp_conv(x, tp_tensor_new(tp, TP_F32, TP_DIMS(2, 4, 3, 6), NULL), NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv: w [2, 4, 3, 6] does not fit into x [1, 4, 5, 5] along axis 3");
    tp_conv(x, tp_tensor_new(tp, TP_F64, TP_DIMS(2, 4, 3, 3), NULL), NULL);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": conv: x is f32, w is f64");
    tp_conv(tp_tensor_new(tp, TP_F32, TP_DIMS(5, 5), NULL), w, NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv: [5, 5] is not [n, channels, ...] with 1 to 3 spatial axes");
    tp_tensor *ints = tp_cast(x, TP_I32);
    tp_conv(ints, ints, NULL);
    EXPECT_ERROR(tp, TP_E_DTYPE, ": conv: elements of type i32 are not float");
    tp_conv_dx(x, tp_tensor_new(tp, TP_F32, TP_DIMS(4, 4, 3, 3), NULL), TP_DIMS(7, 8), NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv_dx: sizes [7, 8] of x and w [4, 4, 3, 3] do not give dy [1, 4, 5, 5]");
    tp_conv_dw(x, x, TP_DIMS(2), NULL);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": conv_dw: sizes [2] of w and x [1, 4, 5, 5] do not give dy [1, 4, 5, 5]");
    tp_max_pool(x, &(tp_window){.kernel = {2}});
    EXPECT_ERROR(tp, TP_E_VALUE, ": max_pool: kernel [2, 0] for [1, 4, 5, 5]");
    tp_max_pool(x, &(tp_window){
                       .kernel = {6, 2}
    });
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": max_pool: kernel [6, 2] does not fit along axis 2, of size 5");
    tp_avg_pool(x, &(tp_window){
                       .kernel = {2, 2},
                         .pad_lo = {2}
    });
    EXPECT_ERROR(tp, TP_E_VALUE,
                 ": avg_pool: with 2 and 0 of padding along axis 2, of size 5, a "
                 "window may hold nothing else");
    tp_avg_pool(x, NULL);
    EXPECT_ERROR(tp, TP_E_NULL, ": avg_pool: the window is NULL");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(convolutions_have_the_bits_of_the_reference),
        CASE(pooling_matches_the_definition),
        CASE(pooling_keeps_what_is_no_number),
        CASE(gradients_match_differences),
        CASE(a_volume_of_one_plane_is_no_image),
        CASE(symbols_stay_symbols),
        CASE(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
