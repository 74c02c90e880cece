/* Programs by tiles at sizes that do not fit one tile: rows and columns in groups and in parts, sums
 * that are folded, axes that do not join, operands that are gathered. The oracle is the eager run. */
#include "common/unit.h"
#include <tapir/control.h>
#include <tapir/tapir.h>

typedef tp_tensor *function(tp_tensor *x);

static tp_tensor *number(tp_tensor *x, double v)
{
    return tp_scalar_like(x, v);
}

static tp_tensor *part(tp_tensor *x, int axis)
{
    return tp_slice(x, axis, 0, 1, 1);
}

/* ---- matrices ------------------------------------------------------------------------------------- */

static tp_tensor *rows(tp_tensor *x)
{
    tp_tensor *d = tp_sub(x, tp_mean(x, 1, (int64_t[]){-1}, true));
    return tp_div(d, tp_add(tp_sum(tp_mul(d, d), 1, (int64_t[]){-1}, true), number(x, 1)));
}

static tp_tensor *columns(tp_tensor *x)
{
    tp_tensor *m = tp_mean(tp_mul(x, x), 1, (int64_t[]){0}, true);
    tp_tensor *s = tp_sum(tp_abs(tp_sub(x, m)), 1, (int64_t[]){0}, false);
    return tp_add(s, tp_reduce_max(x, 1, (int64_t[]){0}, false));
}

static tp_tensor *product_of_columns(tp_tensor *x)
{
    return tp_prod(tp_add(tp_mul(x, number(x, 0.001)), number(x, 1)), 1, (int64_t[]){0}, false);
}

static tp_tensor *all(tp_tensor *x)
{
    return tp_sum(tp_mul(x, tp_tanh(x)), TP_ALL, false);
}

static tp_tensor *softmax(tp_tensor *x)
{
    return tp_softmax(x, -1);
}

static tp_tensor *softmax_of_columns(tp_tensor *x)
{
    return tp_softmax(x, 0);
}

static tp_tensor *turned(tp_tensor *x)
{
    tp_tensor *y = tp_swap(x, 0, 1);
    return tp_sum(tp_mul(y, tp_add(y, number(x, 1))), 1, (int64_t[]){-1}, false);
}

static tp_tensor *columns_of_turned(tp_tensor *x)
{
    return tp_sum(tp_neg(tp_swap(x, 0, 1)), 1, (int64_t[]){0}, false);
}

static tp_tensor *turned_elements(tp_tensor *x)
{
    tp_tensor *y = tp_flip(x, 1, (int64_t[]){1});
    return tp_where(tp_gt(x, y), tp_mul(x, number(x, 0.5)), number(x, 0));
}

static tp_tensor *beside_row_and_column(tp_tensor *x)
{
    return tp_relu(tp_add(tp_mul(x, part(x, 1)), part(x, 0)));
}

static tp_tensor *whole_numbers(tp_tensor *x)
{
    tp_tensor *i = tp_cast(tp_mul(x, number(x, 100)), TP_I32);
    tp_tensor *s = tp_sum(tp_mul(i, i), 1, (int64_t[]){0}, true);
    tp_tensor *small = tp_cast(tp_add(i, s), TP_I8);
    return tp_add(tp_cast(tp_sum(small, 1, (int64_t[]){-1}, true), TP_I32), i);
}

static tp_tensor *wide_numbers(tp_tensor *x)
{
    tp_tensor *y = tp_cast(x, TP_F64);
    y = tp_mul(y, tp_exp(y));
    return tp_add(tp_sum(y, 1, (int64_t[]){0}, false),
                  tp_mean(tp_sum(y, 1, (int64_t[]){1}, false), TP_ALL, false));
}

/* The largest tile of a row, the longest one that is grouped, more rows than are added up at once. */
static const int64_t sizes[][2] = {
    {1,    1   },
    {3,    5   },
    {0,    4   },
    {4,    0   },
    {511,  3   },
    {70,   513 },
    {2,    9000},
    {9000, 70  },
    {4096, 33  },
    {4097, 33  },
    {8193, 2   },
    {40,   2050},
    {300,  1030}
};

/* Some zeros of either sign among them. */
static tp_tensor *draw(tp_ctx *tp, int rank, const int64_t *shape)
{
    tp_tensor *x = tp_normal(tp, TP_F32, rank, shape, 0, 1);
    return tp_where(tp_gt(tp_abs(x), number(x, 0.1)), x, tp_mul(x, number(x, 0)));
}

static void compare(function *f, tp_program *p, tp_tensor *x, int number_of)
{
    static const int threads[] = {1, 2, 7};
    tp_tensor *want = f(x), *got = NULL;
    for (int i = 0; i < 3; i++) {
        tp_threads(x->ctx, threads[i]); /* or 1, where there is no library for it */
        if (tp_program_run(p, &x, &got) != TP_OK)
            fail_msg("function %d: %s", number_of, tp_error_text(got));
        assert_string_equal(tp_program_engine(p), "tiles");
        assert_int_equal(tp_count(want), tp_count(got));
        if (memcmp(tp_data(want), tp_data(got), tpi_bytes(want)) != 0)
            fail_msg("function %d of %s differs by %d threads", number_of, SHAPE(x),
                     threads[i]);
    }
    tp_threads(x->ctx, 1);
}

static tp_program *by_tiles(tp_ctx *tp, function *f, int rank)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    int64_t shape[4];
    tp_graph *g = tp_graph_new(tp);
    for (int i = 0; i < rank; i++)
        shape[i] = tp_symbol(g, names[i]);
    tp_name(f(tp_placeholder(g, "x", TP_F32, rank, shape)), "y");
    const tp_compile_options opt = {.engine = TP_ENGINE_TILES};
    tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &opt);
    assert_string_equal(tp_error_message(tp), "");
    return p;
}

static void matrices(void **state)
{
    tp_ctx *tp = *state;
    static function *const functions[] = {rows,
                                          columns,
                                          product_of_columns,
                                          all,
                                          softmax,
                                          softmax_of_columns,
                                          turned,
                                          columns_of_turned,
                                          turned_elements,
                                          beside_row_and_column,
                                          whole_numbers,
                                          wide_numbers};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        tp_program *p = by_tiles(tp, functions[f], 2);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const bool slices = functions[f] == beside_row_and_column;
            if (slices && (sizes[i][0] == 0 || sizes[i][1] == 0))
                continue;
            tp_scope_begin(tp);
            compare(functions[f], p, draw(tp, 2, sizes[i]), (int)f);
            tp_scope_end(tp);
        }
        tp_program_free(p);
    }
}

/* ---- four axes ------------------------------------------------------------------------------------ */

static unsigned axes_now; /* that are reduced, as bits */

static tp_tensor *normed(tp_tensor *x)
{
    int64_t axes[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (axes_now >> i & 1)
            axes[n++] = i;
    tp_tensor *y = tp_mul(x, tp_sigmoid(part(x, 1)));
    tp_tensor *d = tp_sub(y, tp_mean(y, n, axes, true));
    tp_tensor *v = tp_mean(tp_mul(d, d), n, axes, true);
    return tp_mul(d, tp_rsqrt(tp_add(v, number(x, 1e-5))));
}

static tp_tensor *axes_elsewhere(tp_tensor *x)
{
    const int64_t order[] = {2, 0, 3, 1};
    tp_tensor *y = tp_transpose(x, 4, order);
    return tp_add(tp_mul(y, y), tp_sum(tp_exp(y), 2, (int64_t[]){1, 3}, true));
}

static void four_axes(void **state)
{
    tp_ctx *tp = *state;
    static const int64_t shapes[][4] = {
        {2,  3,    4,  5  },
        {5,  6,    7,  41 },
        {32, 4,    12, 12 },
        {3,  1100, 2,  5  },
        {1,  3,    1,  700}
    };
    for (axes_now = 1; axes_now < 17; axes_now++) {
        function *f = axes_now < 16 ? normed : axes_elsewhere;
        tp_program *p = by_tiles(tp, f, 4);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            tp_scope_begin(tp);
            compare(f, p, draw(tp, 4, shapes[i]), (int)axes_now);
            tp_scope_end(tp);
        }
        tp_program_free(p);
    }
}

/* ---- the steady state ------------------------------------------------------------------------------- */

static tp_tensor *some_of_all(tp_tensor *x)
{
    tp_tensor *y = tp_matmul(x, tp_swap(x, 0, 1));
    tp_tensor *h = tp_softmax(tp_add(columns(x), tp_slice(rows(x), 0, 0, 1, 1)), -1);
    tp_for (5, &y) {
        tp_if (tp_gt(tp_mean(y, TP_ALL, false), number(x, 0)), &y) {
            y = tp_tanh(tp_matmul(y, y));
        }
    }
    return tp_add(tp_sum(tp_gather(y, tp_argmax(x, 0, false), 0), TP_ALL, false),
                  tp_sum(h, TP_ALL, false));
}

/* Once it has run at a size no memory is asked for. */
static void takes_no_memory(void **state)
{
    tp_ctx *tp = *state;
    const unit_memory *m = tp->mem.user.user;
    const int64_t shape[] = {120, 100};
    tp_program *p = by_tiles(tp, some_of_all, 2);
    tp_tensor *x = draw(tp, 2, shape);
    long calls = 0;
    for (int i = 0; i < 6; i++) {
        if (i == 3)
            calls = m->calls;
        tp_scope_begin(tp);
        tp_tensor *y;
        assert_int_equal(tp_program_run(p, &x, &y), TP_OK);
        tp_scope_end(tp);
    }
#ifdef TPI_OWN_BLOCKS /* every block comes from the allocator */
    assert_true(m->calls >= calls);
#else
    assert_int_equal(m->calls, calls);
#endif
    compare(some_of_all, p, x, 0);
    assert_true(tp_program_stats_of(p).arena_bytes > 0);
    assert_int_equal(tp_program_wait(p), TP_E_COMPILER);
    assert_non_null(strstr(tp_error_message(tp), "tile engine"));
    tp_clear_error(tp);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(matrices),
        CASE(four_axes),
        CASE(takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
