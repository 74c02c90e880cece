/* pad, concat, stack, split: against their definitions; gradients of these and of all moves
 * against differences. */
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/nn.h"

enum { ROUNDS = 300, MAX_ELEMENTS = 4000 };

static void unflat(int rank, const int64_t *shape, int64_t where, int64_t *at)
{
    for (int i = rank - 1; i >= 0; i--) {
        at[i] = where % shape[i];
        where /= shape[i];
    }
}

static void pad_puts_a_frame_around(void **state)
{
    tp_ctx *tp = *state;
    static double v[MAX_ELEMENTS];
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 41;
        tp_scope_begin(tp);
        int64_t shape[4], lo[4], hi[4], at[4];
        const int rank = (int)random_int(&s, 0, 4);
        for (int i = 0; i < rank; i++) {
            shape[i] = random_int(&s, 0, 9) ? random_int(&s, 1, 4) : 0;
            lo[i] = random_int(&s, 0, 2);
            hi[i] = random_int(&s, 0, 2);
        }
        tp_tensor *x = random_f64(tp, &s, rank, shape);
        assert_int_equal(tp_read(x, v, sizeof(double) * (size_t)tp_count(x)), TP_OK);
        tp_tensor *y = tp_pad(x, rank, lo, hi, -7.5);
        assert_false(tp_failed(y));
        for (int64_t i = 0; i < tp_count(y); i++) {
            int64_t from = 0;
            bool in = true;
            unflat(rank, y->shape, i, at);
            for (int k = 0; k < rank; k++) {
                at[k] -= lo[k];
                in = in && at[k] >= 0 && at[k] < shape[k];
                from = from * shape[k] + at[k];
            }
            const double got = ((const double *)tp_data(y))[i], want = in ? v[from] : -7.5;
            if (got != want)
                fail_msg("seed %" PRIu64 ": pad of %s to %s differs at %" PRId64, seed,
                         SHAPE(x), SHAPE(y), i);
        }
        tp_scope_end(tp);
    }
}

static void concat_puts_one_after_another(void **state)
{
    tp_ctx *tp = *state;
    static double v[3][MAX_ELEMENTS];
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        uint64_t s = seed * 43;
        tp_scope_begin(tp);
        int64_t shape[4], at[4], sizes[3];
        const int rank = (int)random_int(&s, 1, 4), axis = (int)random_int(&s, 0, rank - 1);
        const int n = (int)random_int(&s, 1, 3);
        tp_tensor *xs[3], *parts[3];
        for (int i = 0; i < rank; i++)
            shape[i] = random_int(&s, 1, 4);
        for (int k = 0; k < n; k++) {
            shape[axis] = sizes[k] = random_int(&s, 0, 4);
            xs[k] = random_f64(tp, &s, rank, shape);
            assert_int_equal(tp_read(xs[k], v[k], 8 * (size_t)tp_count(xs[k])), TP_OK);
        }
        tp_tensor *y = tp_concat(n, xs, axis - rank);
        assert_false(tp_failed(y));
        for (int64_t i = 0; i < tp_count(y); i++) {
            unflat(rank, y->shape, i, at);
            int k = 0;
            for (; at[axis] >= sizes[k]; k++)
                at[axis] -= sizes[k];
            int64_t from = 0;
            for (int j = 0; j < rank; j++)
                from = from * xs[k]->shape[j] + at[j];
            if (((const double *)tp_data(y))[i] != v[k][from])
                fail_msg("seed %" PRIu64 ": concat to %s differs at %" PRId64, seed, SHAPE(y),
                         i);
        }
        assert_int_equal(tp_split(y, axis, n, sizes, parts), TP_OK);
        for (int k = 0; k < n; k++) {
            const tp_tensor *part = tp_contiguous(parts[k]);
            assert_memory_equal(tp_data(part), v[k], 8 * (size_t)tp_count(xs[k]));
        }
        tp_scope_end(tp);
    }
}

static void types_meet_and_values_are_cast(void **state)
{
    tp_ctx *tp = *state;
    const int8_t a[] = {1, -2};
    const float b[] = {0.5f, 3};
    tp_tensor *x = tp_tensor_new(tp, TP_I8, TP_DIMS(2), a);
    tp_tensor *y = tp_tensor_new(tp, TP_F32, TP_DIMS(2), b);
    tp_tensor *z = tp_stack(2, (tp_tensor *[]){x, y}, -1);
    assert_string_equal(SHAPE(z), "[2, 2]");
    assert_memory_equal(tp_data(z), ((float[]){1, 0.5f, -2, 3}), 16);
    const int64_t one = 1;
    tp_tensor *p = tp_pad(x, 1, &one, &one, 1000);
    assert_memory_equal(tp_data(p), ((int8_t[]){127, 1, -2, 127}), 4);
    p = tp_pad(tp_cast(x, TP_BOOL), 1, &one, &one, 0.25);
    assert_memory_equal(tp_data(p), ((uint8_t[]){1, 1, 1, 1}), 4);
    tp_tensor *many[100];
    for (int i = 0; i < 100; i++)
        many[i] = tp_full(tp, TP_I32, TP_DIMS(1, 2), i);
    z = tp_concat(100, many, 0);
    assert_string_equal(SHAPE(z), "[100, 2]");
    assert_int_equal(((const int32_t *)tp_data(z))[199], 99);
}

/* ---- gradients ------------------------------------------------------------------------------------ */

static tp_tensor *joined(void *user, int n, tp_tensor *const *xs)
{
    (void)user;
    return tp_square(tp_concat(n, xs, 1));
}

static tp_tensor *padded(void *user, int n, tp_tensor *const *xs)
{
    (void)user;
    (void)n;
    return tp_square(tp_pad(xs[0], 3, (int64_t[]){0, 2, 1}, (int64_t[]){1, 0, 0}, 3));
}

static tp_tensor *moved(void *user, int n, tp_tensor *const *xs)
{
    (void)n;
    tp_tensor *x = tp_square(xs[0]), *parts[2]; /* [2, 3, 4] */
    switch (*(const int *)user) {
    case 0:
        return tp_reshape(tp_transpose(x, TP_DIMS(2, 0, 1)), TP_DIMS(3, 8));
    case 1:
        return tp_mul(tp_broadcast(tp_slice(x, 1, 1, 2, 1), TP_DIMS(5, 2, 3, 4)), x);
    case 2:
        return tp_slice(tp_slice(x, 2, 3, TP_END, -2), 1, 0, 3, 2);
    case 3:
        return tp_flip(tp_select(x, 0, -1), TP_DIMS(1));
    case 4:
        return tp_contiguous(tp_swap(tp_unsqueeze(x, 1), 0, 3));
    case 5:
        return tp_slice(x, 1, 2, 1, 1);
    case 6:
        tp_split(x, 2, 2, (const int64_t[]){1, 3}, parts);
        return tp_mul(parts[1], parts[0]);
    default:
        return tp_stack(2, (tp_tensor *[]){x, xs[0]}, 1);
    }
}

static void gradients_match_differences(void **state)
{
    tp_ctx *tp = *state;
    uint64_t s = 12;
    tp_tensor *x = random_f64(tp, &s, TP_DIMS(2, 3, 4));
    check_gradients(tp, "concat", joined, NULL, 2,
                    (tp_tensor *[]){x, random_f64(tp, &s, TP_DIMS(2, 1, 4))});
    check_gradients(tp, "pad", padded, NULL, 1, &x);
    for (int i = 0; i < 8; i++) {
        char what[20];
        snprintf(what, sizeof what, "move %d", i);
        check_gradients(tp, what, moved, &i, 1, &x);
    }
}

/* ---- shapes and errors ------------------------------------------------------------------------------ */

static void symbols_stay_symbols(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const int64_t n = tp_symbol(g, "n"), zero[] = {0, 0}, one[] = {1, 2};
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 3));
    tp_tensor *y = tp_placeholder(g, "y", TP_F32, TP_DIMS(tp_symbol(g, "m"), 3));
    assert_string_equal(SHAPE(tp_pad(x, 2, zero, one, 0)), "[n+1, 5]");
    tp_tensor *both = tp_concat(2, (tp_tensor *[]){x, y}, 0);
    assert_string_equal(SHAPE(tp_grad(tp_square(both), x)), "[n, 3]");
    assert_string_equal(SHAPE(tp_grad(tp_square(both), y)), SHAPE(y));
    assert_string_equal(SHAPE(tp_grad(tp_square(tp_slice(x, 0, 1, TP_END, 2)), x)), "[n, 3]");
    tp_tensor *dx = tp_grad(tp_square(tp_slice(x, 0, 2, -1, 1)), x);
    assert_string_equal(SHAPE(dx), "[n, 3]");
    assert_string_equal(SHAPE(tp_grad(dx, x)), "[n, 3]");
    assert_int_equal(tp_error(tp), TP_OK);
}

static void what_does_not_fit_is_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), NULL);
    tp_tensor *y = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 4), NULL);
    const int64_t less[] = {0, -1}, huge[] = {0, INT64_MAX}, zero[2] = {0};
    tp_pad(x, 2, zero, less, 0);
    EXPECT_ERROR(tp, TP_E_VALUE, ": pad: axis 1 gets 0 elements in front and -1 behind");
    tp_pad(x, 1, zero, zero, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": pad: [0] in front, [0] behind: one size for each axis of [2, 3]");
    tp_pad(x, 2, zero, huge, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, ": pad: axis 1 of [2, 3] becomes too large");
    tp_concat(2, (tp_tensor *[]){x, y}, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": concat: operand 0 is [2, 3], operand 1 is [2, 4]: they differ off axis 0");
    tp_concat(2, (tp_tensor *[]){x, y}, 2);
    EXPECT_ERROR(tp, TP_E_AXIS, ": concat: axis 2 is out of range for [2, 3]");
    tp_stack(2, (tp_tensor *[]){x, y}, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE,
                 ": concat: operand 0 is [1, 2, 3], operand 1 is [1, 2, 4]: they "
                 "differ off axis 0");
    tp_concat(2, (tp_tensor *[]){x, NULL}, 0);
    EXPECT_ERROR(tp, TP_E_NULL, ": concat: operand 1 is NULL");
    assert_true(tp_failed(tp_concat(0, NULL, 0)));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(pad_puts_a_frame_around),        CASE(concat_puts_one_after_another),
        CASE(types_meet_and_values_are_cast), CASE(gradients_match_differences),
        CASE(symbols_stay_symbols),           CASE(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
