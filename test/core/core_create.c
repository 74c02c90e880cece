/* Makers: what they make, and what they refuse. */
#include "common/unit.h"

#include <math.h>

static void from_memory(void **state)
{
    tp_ctx *tp = *state;
    const float data[] = {1, 2, 3, 4, 5, 6};
    const tp_tensor *t = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), data);
    assert_false(tp_failed(t));
    assert_int_equal(tp_rank(t), 2);
    assert_int_equal(tp_size(t, 0), 2);
    assert_int_equal(tp_size(t, -1), 3);
    assert_int_equal(tp_dim(t, 1), 3);
    assert_int_equal(tp_count(t), 6);
    assert_int_equal(tp_dtype_of(t), TP_F32);
    assert_ptr_equal(tp_ctx_of(t), tp);
    assert_false(tp_is_symbolic(t));
    assert_memory_equal(tp_data(t), data, sizeof data);
    assert_ptr_not_equal(tp_data(t), data);
    assert_int_equal((uintptr_t)tp_data(t) % 64, 0);

    const int64_t zeros[4] = {0};
    assert_memory_equal(tp_data(tp_tensor_new(tp, TP_I64, TP_DIMS(4), NULL)), zeros, 32);
    const uint8_t bytes[] = {0, 1, 2, 255};
    assert_memory_equal(tp_data(tp_tensor_new(tp, TP_BOOL, TP_DIMS(4), bytes)), "\0\1\1\1", 4);
    const tp_tensor *empty = tp_tensor_new(tp, TP_F64, TP_DIMS(3, 0), NULL);
    assert_int_equal(tp_count(empty), 0);
    assert_int_equal(tp_read(empty, NULL, 0), TP_OK);
    assert_int_equal(tp_error(tp), TP_OK);
}

static int released;
static void on_release(void *user, void *data)
{
    assert_string_equal(user, "user");
    assert_non_null(data);
    released++;
}

static void wrapped(void **state)
{
    tp_ctx *tp = *state;
    static double data[] = {1, 2, 3};
    released = 0;
    tp_scope_begin(tp);
    tp_tensor *t = tp_tensor_wrap(tp, TP_F64, TP_DIMS(3), data, on_release, (void *)"user");
    assert_ptr_equal(tp_data(t), data);
    tp_keep(t);
    tp_scope_begin(tp);
    tp_scope_end(tp);
    assert_int_equal(released, 0);
    tp_scope_end(tp);
    assert_int_equal(released, 0);
    tp_scope_begin(tp);
    tp_tensor_wrap(tp, TP_F64, TP_DIMS(1, 3), data, on_release, (void *)"user");
    tp_scope_end(tp);
    assert_int_equal(released, 1);
    assert_false(tp_failed(tp_tensor_wrap(tp, TP_F64, TP_DIMS(0), NULL, NULL, NULL)));

    tp_tensor_wrap(tp, TP_F64, TP_DIMS(2), NULL, NULL, NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_tensor_wrap: data of [2] elements is NULL");
    assert_true(
        tp_failed(tp_tensor_wrap(tp, TP_F64, TP_DIMS(2), (char *)data + 4, NULL, NULL)));
    assert_int_equal(tp_error(tp), TP_E_VALUE);
    tp_clear_error(tp);
}

static void from_numbers(void **state)
{
    tp_ctx *tp = *state;
    for (int n = 0; n < 70; n++) {
        const tp_tensor *t = tp_full(tp, TP_I16, TP_DIMS(n), -7.9);
        const int16_t *v = tp_data(t);
        for (int i = 0; i < n; i++)
            assert_int_equal(v[i], -7);
    }
    assert_true(tp_item(tp_scalar(tp, TP_F32, 0.1)) == (double)0.1f);
    assert_int_equal(tp_item_i64(tp_scalar(tp, TP_U8, 1000)), 255);
    assert_int_equal(tp_rank(tp_scalar(tp, TP_U8, 0)), 0);
    assert_true(tp_truth(tp_scalar(tp, TP_BOOL, 5)));

    tp_tensor *x = tp_full(tp, TP_F64, TP_DIMS(2, 2), 1);
    const tp_tensor *like = tp_scalar_like(x, 0.1);
    assert_int_equal(tp_dtype_of(like), TP_F64);
    assert_int_equal(tp_rank(like), 0);
    assert_true(tp_item(like) == 0.1);

    const float want[] = {1, 1.25f, 1.5f, 1.75f};
    assert_memory_equal(tp_data(tp_arange(tp, TP_F32, 4, 1, 0.25)), want, sizeof want);
    const uint8_t down[] = {2, 1, 0, 0};
    assert_memory_equal(tp_data(tp_arange(tp, TP_U8, 4, 2, -1)), down, sizeof down);
    assert_int_equal(tp_count(tp_arange(tp, TP_U8, 0, 2, -1)), 0);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void refused(void **state)
{
    tp_ctx *tp = *state;
    const int64_t big[] = {INT64_C(1) << 31, INT64_C(1) << 31, 2}, hidden[] = {0, INT64_MAX, 2};
    const float one = 1;
    tp_tensor *x = tp_scalar(tp, TP_F32, 1), *t;

    t = (tp_tensor_new_at)("user.c", 7, tp, TP_F32, TP_DIMS(2, -3), NULL);
    assert_string_equal(tp_error_text(t),
                        "user.c:7: tp_tensor_new: size -3 of axis 1 is negative");
    assert_int_equal(tp_status_of(t), TP_E_SHAPE);
    EXPECT_ERROR(tp, TP_E_SHAPE, "user.c:7: tp_tensor_new: size -3 of axis 1 is negative");
    assert_true(tp_failed(tp_tensor_new(tp, TP_F32, 9, big, &one)));
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_tensor_new: rank 9 is not in 0..8");
    tp_full(tp, TP_F32, -1, NULL, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_full: rank -1 is not in 0..8");
    tp_full(tp, TP_F32, 2, NULL, 0);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_full: the shape is NULL");
    tp_full(tp, TP_F32, 3, big, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_full: the sizes multiply beyond 2^63 bytes");
    tp_full(tp, TP_F32, 3, hidden, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_full: the sizes multiply beyond 2^63 bytes");
    tp_full(tp, TP_F32, 2, (int64_t[]){INT64_C(1) << 30, INT64_C(1) << 29}, 0);
    EXPECT_ERROR(tp, TP_E_MEMORY, "tp_full: out of memory");
    tp_scalar(tp, (tp_dtype)11, 0);
    EXPECT_ERROR(tp, TP_E_DTYPE, "tp_scalar: 11 is no element type");
    tp_arange(tp, (tp_dtype)-1, 3, 0, 0);
    EXPECT_ERROR(tp, TP_E_DTYPE, "tp_arange: -1 is no element type");
    tp_arange(tp, TP_F32, -3, 0, 0);
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_arange: size -3 of axis 0 is negative");
    /* The line is this file's. */
    tp_scalar_like(tp_full(tp, TP_F32, TP_DIMS(-2), 0), 1);
    assert_non_null(strstr(tp_error_message(tp), "core_create.c:"));
    EXPECT_ERROR(tp, TP_E_SHAPE, "tp_full: size -2 of axis 0 is negative");
    (void)x;

    assert_true(tp_failed(tp_scalar_like(NULL, 1)));
    assert_true(tp_failed(tp_tensor_new(NULL, TP_F32, TP_SCALAR, NULL)));
    assert_true(tp_failed(tp_tensor_wrap(NULL, TP_F32, TP_SCALAR, NULL, NULL, NULL)));
    assert_true(tp_failed(tp_full(NULL, TP_F32, TP_SCALAR, 0)));
    assert_true(tp_failed(tp_scalar(NULL, TP_F32, 0)));
    assert_true(tp_failed(tp_arange(NULL, TP_F32, 1, 0, 0)));
    assert_int_equal(tp_status_of(tp_scalar(NULL, TP_F32, 0)), TP_E_NULL);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* What bindings call. */
static void bare(void **state)
{
    tp_ctx *tp = *state;
    static float data[1] = {3};
    assert_true(tp_item((tp_tensor_new)(tp, TP_F32, 1, (int64_t[]){1}, data)) == 3);
    assert_true(tp_item((tp_tensor_wrap)(tp, TP_F32, 1, (int64_t[]){1}, data, NULL, NULL)) ==
                3);
    assert_true(tp_item((tp_full)(tp, TP_F32, 0, NULL, 4)) == 4);
    assert_true(tp_item((tp_scalar_like)((tp_scalar)(tp, TP_F32, 1), 5)) == 5);
    assert_true(tp_item((tp_arange)(tp, TP_F32, 1, 6, 1)) == 6);
    (tp_full)(tp, TP_F32, 1, NULL, 4);
    assert_string_equal(tp_error_message(tp), "tp_full: the shape is NULL");
    tp_clear_error(tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(from_memory), CASE(wrapped), CASE(from_numbers), CASE(refused), CASE(bare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
