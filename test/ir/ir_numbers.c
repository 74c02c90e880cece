/* Numbers of C as operands: the bits of tp_scalar_like in every way of use, no tensor made per call, and what does
 * not fit refused. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static tp_tensor *sample(tp_ctx *tp, tp_dtype dtype)
{
    const float v[4] = {-1.5f, 0, 2, 7};
    return tp_cast(tp_tensor_new(tp, TP_F32, TP_DIMS(4), v), dtype);
}

static void same(tp_tensor *a, tp_tensor *b)
{
    char x[64], y[64];
    assert_false(tp_failed(a));
    const size_t size = (size_t)tp_count(b) * tp_dtype_size(tp_dtype_of(b));
    assert_int_equal(tp_dtype_of(a), tp_dtype_of(b));
    assert_int_equal(tp_read(a, x, size), TP_OK);
    assert_int_equal(tp_read(b, y, size), TP_OK);
    assert_memory_equal(x, y, size);
}

#define SIDES(f, x, k)                                                                         \
    do {                                                                                       \
        same(f(x, k), f(x, tp_scalar_like(x, k)));                                             \
        same(f(k, x), f(tp_scalar_like(x, k), x));                                             \
    } while (0)

static void as_a_tensor_of_it(void **state)
{
    static const tp_dtype all[] = {TP_I8, TP_I32, TP_I64, TP_U8, TP_F32, TP_F64};
    for (int i = 0; i < 6; i++) {
        tp_tensor *x = sample(*state, all[i]);
        SIDES(tp_add, x, 3);
        SIDES(tp_sub, x, 1u);
        SIDES(tp_mul, x, 2.0);
        SIDES(tp_div, x, (signed char)5);
        SIDES(tp_pow, x, 2.0f);
        SIDES(tp_min, x, (short)1);
        SIDES(tp_max, x, 1L);
        SIDES(tp_mod, x, 4ULL);
        SIDES(tp_eq, x, true);
        SIDES(tp_ne, x, 0);
        SIDES(tp_lt, x, 2);
        SIDES(tp_le, x, 2);
        SIDES(tp_gt, x, 2);
        SIDES(tp_ge, x, 2);
        tp_tensor *c = tp_gt(x, 0);
        same(tp_where(c, x, 9), tp_where(c, x, tp_scalar_like(x, 9)));
        same(tp_where(c, 9, x), tp_where(c, tp_scalar_like(x, 9), x));
        if (all[i] < TP_F32) {
            SIDES(tp_and, x, 6);
            SIDES(tp_or, x, 6);
            SIDES(tp_xor, x, 6);
        }
    }
    tp_tensor *yes = tp_gt(sample(*state, TP_F32), 0);
    SIDES(tp_and, yes, 1);
    SIDES(tp_xor, yes, true);
}

static void rounded_as_its_type(void **state)
{
    tp_tensor *x = sample(*state, TP_F32);
    SIDES(tp_mul, x, 0.1);
    SIDES(tp_add, x, (double)INFINITY);
    SIDES(tp_add, x, -0.0);
    assert_true(isnan(tp_item(tp_sum(tp_mul(x, (double)NAN), TP_ALL, false))));
}

/* 64 bits that a double rounds. */
static void exact(void **state)
{
    tp_ctx *tp = *state;
    int64_t i[4];
    uint64_t u[4];
    tp_tensor *x = tp_tensor_new(tp, TP_I64, TP_DIMS(4), NULL);
    tp_tensor *y = tp_tensor_new(tp, TP_U64, TP_DIMS(4), NULL);
    assert_int_equal(tp_read(tp_add(x, INT64_MAX - 2), i, sizeof i), TP_OK);
    assert_true(i[3] == INT64_MAX - 2);
    assert_int_equal(tp_read(tp_add(x, INT64_MIN + 1), i, sizeof i), TP_OK);
    assert_true(i[3] == INT64_MIN + 1);
    assert_int_equal(tp_read(tp_add(y, UINT64_MAX - 2), u, sizeof u), TP_OK);
    assert_true(u[3] == UINT64_MAX - 2);
}

static void refused_where_none(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *i = sample(tp, TP_I32), *u = sample(tp, TP_U8), *f = sample(tp, TP_F32);
    tp_tensor *b = tp_gt(f, 0);
#define REFUSED(call, text)                                                                    \
    do {                                                                                       \
        assert_int_equal(tp_status_of(call), TP_E_DTYPE);                                      \
        EXPECT_ERROR(tp, TP_E_DTYPE,                                                           \
                     text ", the other operand's element type; tp_cast that one first");       \
    } while (0)
    REFUSED(tp_add(i, 0.5), "0.5 is no i32");
    REFUSED(tp_sub(-1, u), "-1 is no u8");
    REFUSED(tp_mul(u, 256), "256 is no u8");
    REFUSED(tp_mul(i, 1u << 31), "2147483648 is no i32");
    REFUSED(tp_add(i, 1e10), "1e+10 is no i32");
    REFUSED(tp_max(i, (double)NAN), "nan is no i32");
    REFUSED(tp_add(f, 1e39), "1e+39 is no f32");
    REFUSED(tp_and(b, 2), "2 is no bool");
    REFUSED(tp_add(sample(tp, TP_I64), UINT64_MAX), "18446744073709551615 is no i64");
    same(tp_add(i, INT32_MIN), tp_add(i, tp_scalar_like(i, INT32_MIN)));
    same(tp_mul(u, 255), tp_mul(u, tp_scalar_like(u, 255)));
    assert_int_equal(tp_status_of(tp_sub(1, NULL)), TP_E_NULL);
}

static void none_made_per_call(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = sample(tp, TP_F32);
    tp_number(x, 0.25);
    const int32_t before = tp->caller.n_owned;
    for (int i = 0; i < 100; i++)
        tp_mul(x, 0.25);
    assert_int_equal(tp->caller.n_owned - before, 100);
    assert_ptr_equal(tp_number(x, 0.25), tp_number(x, 0.25));
    assert_int_equal(tp_status_of(tp_require_grad(tp_number(x, 0.25))), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE,
                 "the number is the context's; tp_scalar_like makes a tensor of one's own");
    assert_int_equal(tp_status_of(tp_name(tp_number(x, 0.25), "quarter")), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE,
                 "the number is the context's; tp_scalar_like makes a tensor of one's own");
    /* More of them than are kept. */
    for (int i = 0; i < 1000; i++)
        assert_true(tp_item(tp_integer(x, i % 300)) == i % 300);
}

static tp_tensor *cubic(tp_tensor *x)
{
    return tp_add(1, tp_mul(x, tp_sub(tp_mul(tp_div(x, 3), 0.5), tp_pow(2, tp_neg(x)))));
}

/* Its value and gradient in a graph, and captured, are the eager ones. */
static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = cubic(in[0]);
}

static void in_every_mode(void **state)
{
    tp_ctx *tp = *state;
    static const char *const feed[] = {"x"}, *const fetch[] = {"y", "dx"};
    tp_tensor *x = tp_require_grad(sample(tp, TP_F32)), *y = cubic(x);
    tp_tensor *dx = tp_grad(tp_sum(y, TP_ALL, false), x);
    for (int engine = 0; engine < 3; engine++) {
        static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *s = tp_placeholder(g, "x", TP_F32, TP_DIMS(4)), *r = tp_name(cubic(s), "y");
        tp_name(tp_grad(tp_sum(r, TP_ALL, false), s), "dx");
        tp_program *p = tp_graph_compile(g, 1, feed, 2, fetch,
                                         &(tp_compile_options){.engine = engines[engine]});
        tp_tensor *got[2], *in[] = {tp_detach(x)};
        assert_int_equal(tp_program_run(p, in, got), TP_OK);
        same(got[0], y);
        same(got[1], dx);
    }
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f =
            tp_function_new(tp, "cubic", body, NULL,
                            &(tp_function_options){.engine = TP_ENGINE_TILES, .pure = pure});
        for (int i = 0; i < 4; i++)
            same(tp_function_apply(f, TP_TENSORS(x)), y);
        assert_int_equal(tp_function_stats_of(f).recordings, 1);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(as_a_tensor_of_it),  CASE(rounded_as_its_type), CASE(exact),
        CASE(refused_where_none), CASE(none_made_per_call),  CASE(in_every_mode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
