/* Graphs for the tests of texts, files and the verifier. */
#ifndef TAPIR_IR_SAMPLE_H
#define TAPIR_IR_SAMPLE_H

#include "common/unit.h"
#include "ir/body.h"
#include "op/add_rows.h"
#include "op/call.h"
#include "op/op.h"
#include "op/sizes.h"
#include "tapir/composites.h"
#include "tapir/control.h"
#include "tapir/indexing.h"
#include "tapir/kernel.h"
#include "tapir/linalg.h"
#include "tapir/random.h"

static inline tp_tensor *sample_must(tp_tensor *t, int line)
{
    if (tp_failed(t))
        fail_msg("line %d of the sample: %s", line, tp_error_text(t));
    return t;
}
#define MUST(t) sample_must((t), __LINE__)

static inline tp_tensor *sample_data(tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    tp_tensor *t = MUST(tp_arange(tp, dtype, n, 1, dtype == TP_F32 ? 0.37 : 1));
    return MUST(tp_reshape(t, rank, shape));
}

static inline bool sample_compute(void *user, int n_in, const tp_elements *in,
                                  const tp_elements *out)
{
    (void)user, (void)n_in, (void)in;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = (float)i;
    return true;
}

static inline void sample_elements(tp_ctx *tp, tp_tensor *x, tp_tensor *n)
{
    tp_tensor *pos = MUST(tp_add(tp_abs(x), tp_scalar(tp, TP_F32, 0.5)));
    MUST(tp_neg(x)), MUST(tp_sign(x)), MUST(tp_relu(x)), MUST(tp_exp(x)), MUST(tp_log(pos));
    MUST(tp_sqrt(pos)), MUST(tp_rsqrt(pos)), MUST(tp_sin(x)), MUST(tp_cos(x)), MUST(tp_tanh(x));
    MUST(tp_sigmoid(x)), MUST(tp_erf(x)), MUST(tp_floor(x)), MUST(tp_ceil(x));
    MUST(tp_exp2(x)), MUST(tp_log2(pos)), MUST(tp_log10(pos)), MUST(tp_erfinv(tp_sin(x)));
    MUST(tp_expm1(x)), MUST(tp_log1p(pos)), MUST(tp_straight_through(tp_round(x), x));
    MUST(tp_round(x)), MUST(tp_not(n)), MUST(tp_cast(x, TP_I16)), MUST(tp_detach(x));
    MUST(tp_sub(x, pos)), MUST(tp_mul(x, pos)), MUST(tp_div(x, pos)), MUST(tp_pow(pos, x));
    MUST(tp_min(x, pos)), MUST(tp_max(x, pos)), MUST(tp_mod(x, pos));
    tp_tensor *lt = MUST(tp_lt(x, pos)), *le = MUST(tp_le(x, pos));
    MUST(tp_eq(x, pos)), MUST(tp_ne(x, pos)), MUST(tp_gt(x, pos)), MUST(tp_ge(x, pos));
    static const tp_kernel own = {.name = "own", .compute = sample_compute};
    MUST(tp_kernel_apply(&own, NULL, 1, &x, TP_F32, TP_DIMS(tp_dim(x, 0), 2)));
    MUST(tp_and(lt, le)), MUST(tp_or(lt, le)), MUST(tp_xor(lt, le)), MUST(tp_where(lt, x, pos));
}

static inline void sample_moves(tp_ctx *tp, tp_graph *g, tp_tensor *x)
{
    const int64_t batch = tp_dim(x, 0);
    MUST(tp_sum(x, TP_DIMS(0), true)), MUST(tp_prod(x, TP_DIMS(1), false));
    MUST(tp_reduce_max(x, TP_ALL, false)), MUST(tp_reduce_min(x, TP_DIMS(-1), false));
    MUST(tp_mean(x, TP_DIMS(0, 1), false)), MUST(tp_argmax(x, 1, true));
    MUST(tp_argtopk(x, 1, 2, true));
    MUST(tp_argmin(x, 0, false)), MUST(tp_cumsum(x, 1, true, true));
    MUST(tp_argcummax(x, 1)), MUST(tp_argcummin(x, 0));
    MUST(tp_cummax(x, 0)), MUST(tp_cummin(x, 1));
    MUST(tp_recur(tp_tanh(x), x, 1, true)), MUST(tp_extent(x, TP_DIMS(0), TP_F64));
    MUST(tp_reshape(x, TP_DIMS(tp_dim_mul(g, batch, 2), -1)));
    MUST(tp_transpose(x, TP_DIMS(1, 0)));
    MUST(tp_broadcast(x, TP_DIMS(3, batch, 6)));
    MUST(tp_slice(x, 1, -1, TP_END, -2)), MUST(tp_flip(x, TP_DIMS(0)));
    MUST(tp_pad(x, TP_DIMS(1, 0), (const int64_t[]){0, 2}, -0.1));
    tp_tensor *two[] = {x, x, MUST(tp_full(tp, TP_F32, TP_DIMS(1, 6), 3))};
    MUST(tp_concat(3, two, 0));
    MUST(tpi_apply(TPI_AT("copy.c", 1), &tpi_op_copy, TPI_IN(x), NULL)); /* passes make these */
    MUST(tpi_assume(TPI_AT("assume.c", 1), x, (const int64_t[]){tp_dim_mul(g, batch, 3), 6}));
    MUST(tpi_apply(TPI_AT("row.c", 1), &tpi_op_row, TPI_IN(x), &(tpi_index_attrs){3}));
    MUST(tpi_apply(TPI_AT("row.c", 2), &tpi_op_stack, TPI_IN(x, x), NULL));
    const int64_t places[] = {0, 2, 1};
    tp_tensor *index = MUST(tp_tensor_new(tp, TP_I64, TP_DIMS(3), places));
    tp_tensor *rows = MUST(tp_gather(x, index, 1));
    MUST(tp_scatter_add(x, index, rows, 1)), MUST(tp_scatter(x, index, rows, 1));
    MUST(tp_scatter_max(x, index, rows, 1)), MUST(tp_scatter_min(x, index, rows, 1));
    MUST(tp_scatter_mul(x, index, rows, 1));
    tp_tensor *along = MUST(tp_cast(rows, TP_I32));
    tp_tensor *taken = MUST(tp_take_along(x, along, 1));
    MUST(tp_put_along_add(x, along, taken, 1)), MUST(tp_one_hot(index, 4, TP_F32));
    MUST(tp_one_hot(along, 9, TP_BOOL));
    MUST(tp_uniform_like(x, -0.25, 1e-3)), MUST(tp_normal_like(x, 0, 2));
    tp_tensor *wide = MUST(tp_exp(tp_cast(x, TP_F64)));
    MUST(tp_grad(MUST(tp_gamma(wide)), wide));
    tp_tensor *sum =
        MUST(tpi_rows_none(TPI_AT("rows.c", 1), sample_data(tp, TP_F32, TP_DIMS(6, 6))));
    MUST(tpi_rows_add(TPI_AT("rows.c", 2), sum, x, x));
    tp_tensor *inside = MUST(tp_tanh(x)), *result;
    assert_true(tpi_call_tie(tp, TPI_AT("call.c", 1), 3, 1, &x, 1, &inside, &result));
}

static inline void sample_matrices(tp_graph *g)
{
    const int64_t batch = tp_symbol(g, "batch");
    tp_tensor *x = MUST(tp_placeholder(g, "matrices", TP_F32, TP_DIMS(batch, 4, 4)));
    tp_tensor *b = MUST(tp_placeholder(g, "sides", TP_F32, TP_DIMS(batch, 4, 2)));
    tp_tensor *one, *two, *three;
    MUST(tp_cholesky(x, true)), MUST(tp_solve_triangular(x, b, false, true, true));
    MUST(tp_solve(x, b)), MUST(tp_det(x)), MUST(tp_lstsq(x, b, 1e-6));
    assert_int_equal(tp_lu(x, &one, &two), TP_OK);
    assert_int_equal(tp_slogdet(x, &one, &two), TP_OK);
    assert_int_equal(tp_qr(x, &one, &two), TP_OK);
    assert_int_equal(tp_eigh(x, &one, &two), TP_OK);
    assert_int_equal(tp_svd(x, &one, &two, &three), TP_OK);
    MUST(tp_ifft(b, 1)), MUST(tp_irfft(tp_rfft(x, 2), 2, 4));
}

static inline void sample_windows(tp_ctx *tp, tp_graph *g)
{
    const int64_t batch = tp_symbol(g, "batch"), side = tp_symbol(g, "side");
    tp_tensor *im = MUST(tp_placeholder(g, "image", TP_F32, TP_DIMS(batch, 4, side, side)));
    tp_tensor *w = MUST(tp_param(sample_data(tp, TP_F32, TP_DIMS(6, 2, 3, 3)), "kernel"));
    const tp_window window = {
        .stride = {2, 1},
          .pad_lo = {1, 1},
          .pad_hi = {0, 1},
          .groups = 2
    };
    tp_tensor *y = MUST(tp_conv(im, w, &window));
    MUST(tp_conv_dx(y, w, TP_DIMS(side, side), &window));
    MUST(tp_conv_dw(im, y, TP_DIMS(3, 3), &window));
    const tp_window pool = {
        .kernel = {2, 2},
          .stride = {1, 2},
          .count_pad = true
    };
    tp_tensor *small = MUST(tp_placeholder(g, "small", TP_F32, TP_DIMS(batch, 2, 8, 8)));
    tp_tensor *a = MUST(tp_max_pool(small, &pool)), *b = MUST(tp_avg_pool(small, &pool));
    MUST(tp_grad(MUST(tp_add(a, b)), small)); /* max_pool_dx, avg_pool_dx */
    tp_tensor *dx;
    assert_int_equal(tp_grads(a, tp_square(b), 1, &small, &dx), TP_OK);
    MUST(tp_grad(dx, small)); /* max_pool_index */
}

/* Blocks in blocks: a loop over steps that stacks, with a branch inside and a loop on one of its
 * sides; a loop of unknown length, which is a size behind it; a loop backwards. */
static inline void sample_loops(tp_ctx *tp, tp_graph *g)
{
    const int64_t steps = tp_symbol(g, "steps"), batch = tp_symbol(g, "batch");
    tp_tensor *xs = MUST(tp_placeholder(g, "xs", TP_F32, TP_DIMS(steps, batch, 4)));
    tp_tensor *h = MUST(tp_placeholder(g, "h", TP_F32, TP_DIMS(batch, 4)));
    tp_tensor *tol = MUST(tp_scalar(tp, TP_F32, 0.125)), *ys = NULL, *trail = NULL;
    tp_tensor *w = MUST(tp_param(sample_data(tp, TP_F32, TP_DIMS(4, 4)), "cell"));
    tp_tensor *table = MUST(sample_data(tp, TP_F32, TP_DIMS(4, 5))); /* too long for the text */
    tp_for (steps, &h) {
        tp_tensor *x = tp_matmul(tp_each(xs), w);
        tp_if (tp_gt(tp_mean(x, TP_ALL, false), tol), &x) {
            x = tp_name(tp_relu(x), "positive");
        }
        tp_else
        {
            tp_while (tp_gt(tp_reduce_max(tp_abs(x), TP_ALL, false), tol), &x) {
                x = tp_mul(x, tp_scalar(tp, TP_F32, 0.5));
                if (ys == NULL)
                    x = tp_name(x, "half");
            }
        }
        tp_tensor *gate = tp_mean(tp_matmul(h, table), TP_DIMS(1), true);
        h = tp_name(tp_tanh(tp_add(x, tp_mul(h, gate))), "next");
        tp_emit(&ys, tp_sum(h, TP_DIMS(1), false));
    }
    MUST(tp_name(h, "last")), MUST(tp_name(ys, "all"));
    tp_tensor *z = MUST(tp_mean(h, TP_ALL, false));
    tp_while (tp_gt(z, tol), &z) {
        z = tp_mul(z, tp_scalar(tp, TP_F32, 0.75));
        tp_emit(&trail, z);
    }
    MUST(tp_name(tp_cumsum(trail, 0, false, false), "trail"));
    tp_tensor *k = MUST(tp_graph_read(g, tp_scalar(tp, TP_I64, 0)));
    tp_for_back (steps, &k) {
        tp_checkpoint(tp);
        tp_if (tp_gt(k, tp_turn(tp)), &k) {
            k = tp_turn(tp);
        }
    }
    MUST(tp_name(k, "count"));
    tp_tensor *const outputs[] = {h, ys, k};
    assert_int_equal(tp_graph_set_outputs(g, 3, outputs), TP_OK);
}

static inline tp_graph *sample_blocks(tp_ctx *tp)
{
    assert_int_equal(tp_scope_begin(tp), TP_OK);
    tp_graph *g = tp_graph_new(tp);
    assert_non_null(g);
    sample_loops(tp, g);
    assert_int_equal(tp_scope_end(tp), TP_OK);
    return g;
}

/* Every op of ops.def, the newest ones of a training step last. */
static inline tp_graph *sample_every_op(tp_ctx *tp)
{
    assert_int_equal(tp_scope_begin(tp), TP_OK);
    tp_graph *g = tp_graph_new(tp);
    assert_non_null(g);
    const int64_t seq = tp_symbol(g, "seq"), batch = tp_symbol(g, "batch");
    tp_tensor *x = MUST(tp_placeholder(g, "x", TP_F32, TP_DIMS(batch, 6)));
    tp_tensor *n = MUST(
        tp_placeholder(g, "n", TP_I32, TP_DIMS(tp_dim_add(g, tp_dim_mul(g, seq, 2), 1), 3)));
    sample_elements(tp, x, n);
    sample_moves(tp, g, x);
    sample_matrices(g);
    sample_windows(tp, g);
    sample_loops(tp, g);
    tp_tensor *w = MUST(tp_param(sample_data(tp, TP_F32, TP_DIMS(6, 3)), "w"));
    tp_tensor *count = MUST(tp_variable(tp_scalar(tp, TP_I64, 7), "count"));
    tp_tensor *twice = MUST(tp_mul(w, tp_scalar(tp, TP_F32, 2))); /* recorded, then met */
    tp_tensor *y = MUST(tp_name(tp_matmul(x, tp_add(w, twice)), "y"));
    tp_tensor *loss = MUST(tp_name(tp_mean(tp_square(y), TP_ALL, false), "loss"));
    const bool was = tp_recording(tp, false);
    tp_tensor *rate = tp_scalar(tp, TP_F32, 0.1);
    tp_tensor *step = MUST(tp_sub(w, tp_mul(rate, MUST(tp_grad(loss, w)))));
    tp_tensor *done[] = {
        MUST(tp_assign(w, step)),
        MUST(tp_assign(count, tp_add(count, tp_extent(x, TP_DIMS(0), TP_I64)))),
        MUST(tp_assign(count,
                       tp_add(count, tp_scalar(tp, TP_I64, 1)))), /* reads the new value */
    };
    MUST(tp_name(tp_group(3, done), "train"));
    tp_recording(tp, was);
    assert_int_equal(tp_scope_end(tp), TP_OK);
    return g;
}

/* Odd things: every byte in names and places, constants of all types, views of variables. */
static inline tp_graph *sample_odd(tp_ctx *tp)
{
    assert_int_equal(tp_scope_begin(tp), TP_OK);
    tp_graph *g = tp_graph_new(tp);
    assert_non_null(g);
    char name[256];
    for (int i = 0; i < 255; i++)
        name[i] = (char)(i + 1);
    name[255] = 0;
    tp_tensor *x = MUST(tp_placeholder_at("folder with \"quotes\"/\n\xff.c", 2147483647, g,
                                          name, TP_F32, TP_DIMS(tp_symbol(g, "_a.b"), 0)));
    MUST(tp_neg_at("", -5, x));
    MUST(tp_neg_at("\xc3\xa4rger.c", 3, x));
    MUST((tp_neg)(x));
    MUST(tp_name(tp_abs(x), "\xe2\x82\xac \xed\xa0\x80 \xc0\x80"));

    for (int t = 0; t < TP_N_DTYPES; t++) {
        const tp_dtype dtype = (tp_dtype)t;
        const int64_t sizes[] = {0, 1, 5, 16, 17, 40};
        tp_tensor *rank0 = MUST(tp_scalar(tp, dtype, -1));
        MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), rank0));
        for (int i = 0; i < 6; i++)
            MUST(tpi_graph_lift(g, TPI_AT("odd.c", i), sample_data(tp, dtype, 1, &sizes[i])));
    }
    tp_tensor *wide = sample_data(tp, TP_F64, TP_DIMS(5, 8));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), MUST(tp_transpose(wide, TP_DIMS(1, 0)))));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0),
                        MUST(tp_broadcast(tp_scalar(tp, TP_U8, 9), TP_DIMS(30)))));

    /* A view first, the variable after it; views alone; two variables of one name; an empty one. */
    tp_tensor *v = MUST(tp_variable(sample_data(tp, TP_F32, TP_DIMS(4, 6)), "v"));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0),
                        MUST(tp_name(tp_slice(v, 1, TP_END, 0, -2), "part"))));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), v));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), MUST(tp_transpose(v, TP_DIMS(1, 0)))));
    tp_tensor *hidden = MUST(tp_variable(sample_data(tp, TP_I16, TP_DIMS(4, 6)), "hidden"));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), MUST(tp_slice(hidden, 0, 1, 3, 1))));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0), MUST(tp_slice(hidden, 1, 3, 3, 1)))); /* empty */
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0),
                        MUST(tp_variable(sample_data(tp, TP_F64, TP_DIMS(2, 0)), "empty"))));
    MUST(tpi_graph_lift(g, TPI_AT(NULL, 0),
                        MUST(tp_param(sample_data(tp, TP_F64, TP_DIMS(3)), "v"))));
    assert_int_equal(tp_scope_end(tp), TP_OK);
    return g;
}

#endif
