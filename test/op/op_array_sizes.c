/* Composites of arrays that take a number which may be a size of the graph: every engine gives the bits of the
 * eager call with the number. What does not fit fails the run. */
#include "common/unit.h"
#include "tapir/tapir.h"

typedef tp_tensor *(*of_size)(tp_tensor *x, int64_t k); /* x [n, 5] */

#define OF(name, e)                                                                            \
    static tp_tensor *name(tp_tensor *x, int64_t k)                                            \
    {                                                                                          \
        return e;                                                                              \
    }
OF(kth, tp_kth(x, k, 0, false))
OF(kth_of_5, tp_kth(x, k, 1, true))
OF(median, tp_add(tp_median(x, 0, true), tp_scalar_like(x, (double)((void)k, 0))))
OF(quantile, tp_mul(tp_quantile(x, 0.3, 0, false), tp_scalar_like(x, (double)((void)k, 2))))
OF(diagonal, tp_diagonal(x, k))
OF(diag, tp_diag(x, k))
OF(tril, tp_tril(x, k))
OF(triu, tp_triu(x, k))
OF(tile, tp_tile(x, TP_DIMS(k, 1, k)))
OF(repeat_each, tp_repeat_each(x, k, 0))
OF(roll, tp_roll(x, k, 0))
OF(roll_of_5, tp_roll(x, k, 1))

static const struct {
    const char *name;
    of_size f;
} cases[] = {
    {"kth",         kth        },
    {"kth_of_5",    kth_of_5   },
    {"median",      median     },
    {"quantile",    quantile   },
    {"diagonal",    diagonal   },
    {"diag",        diag       },
    {"tril",        tril       },
    {"triu",        triu       },
    {"tile",        tile       },
    {"repeat_each", repeat_each},
    {"roll",        roll       },
    {"roll_of_5",   roll_of_5  },
};

static const char *const feeds[] = {"x", "z"}, *const fetch[] = {"y"};

/* f of x [n, 5] and the size k of z [k]. */
static tp_program *program_of(tp_ctx *tp, of_size f, tp_engine engine)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 5));
    tp_tensor *z = tp_placeholder(g, "z", TP_BOOL, TP_DIMS(tp_symbol(g, "k")));
    tp_name(f(x, tp_dim(z, 0)), "y");
    assert_string_equal(tp_error_message(tp), "");
    tp_program *p =
        tp_graph_compile(g, 2, feeds, 1, fetch, &(tp_compile_options){.engine = engine});
    assert_non_null(p);
    if (engine == TP_ENGINE_C)
        assert_int_equal(tp_program_wait(p), TP_OK);
    return p;
}

/* [n, 5] of different numbers in no order. */
static tp_tensor *numbers(tp_ctx *tp, int64_t n)
{
    tp_tensor *x = tp_arange(tp, TP_F32, 5 * n, 1, 7);
    return tp_reshape(tp_mod(x, tp_scalar_like(x, 31)), TP_DIMS(n, 5));
}

static tp_status run_of(tp_program *p, tp_ctx *tp, int64_t n, int64_t k, tp_tensor **y)
{
    tp_tensor *const in[] = {numbers(tp, n), tp_full(tp, TP_BOOL, TP_DIMS(k), 1)};
    return tp_program_run(p, in, y);
}

static void expect_same(tp_tensor *y, tp_tensor *want)
{
    y = tp_contiguous(y), want = tp_contiguous(want);
    assert_int_equal(tp_rank(y), tp_rank(want));
    for (int i = 0; i < tp_rank(y); i++)
        assert_int_equal(tp_size(y, i), tp_size(want, i));
    assert_memory_equal(tp_data(y), tp_data(want), (size_t)tp_count(y) * sizeof(float));
}

static void sizes_are_numbers(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const int64_t sizes[][2] = {
        {4, 3},
        {5, 1},
        {3, 2}
    };
    tp_ctx *tp = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t e = 0; e < 3; e++) {
            tp_program *p = program_of(tp, cases[i].f, engines[e]);
            for (size_t s = 0; s < 3; s++) {
                tp_tensor *y;
                assert_int_equal(run_of(p, tp, sizes[s][0], sizes[s][1], &y), TP_OK);
                expect_same(y, cases[i].f(numbers(tp, sizes[s][0]), sizes[s][1]));
            }
            tp_program_free(p);
        }
}

/* The run says so: k is greater than the axis, there is no row, the diagonal lies outside. */
static void what_does_not_fit(void **state)
{
    static const struct {
        of_size f;
        int64_t n, k;
    } rows[] = {
        {kth,      3, 4},
        {median,   0, 1},
        {quantile, 0, 1},
        {diagonal, 3, 6},
    };
    tp_ctx *tp = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tp_program *p = program_of(tp, rows[i].f, TP_ENGINE_REFERENCE);
        tp_tensor *y;
        assert_int_not_equal(run_of(p, tp, rows[i].n, rows[i].k, &y), TP_OK);
        tp_clear_error(tp);
        tp_program_free(p);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(sizes_are_numbers), CASE(what_does_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
