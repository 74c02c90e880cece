/* Tensors as text: what is printed, to the letter. */
#include "common/unit.h"
#include "core/dim.h"

#include <math.h>

static char text[100000];

static const char *format(const tp_tensor *t)
{
    const size_t n = tp_format(t, text, sizeof text);
    assert_int_equal(n, strlen(text));
    return text;
}

static void numbers(void **state)
{
    tp_ctx *tp = *state;
    const float a[] = {1, 2.5f, -3, 10, NAN, 0};
    assert_string_equal(format(tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), a)),
                        "f32 [2, 3]\n"
                        "[[ 1.0,  2.5, -3.0],\n"
                        " [10.0,  nan,  0.0]]");
    const float b[] = {0.1f, 1e-5f, 3e8f, -INFINITY};
    assert_string_equal(format(tp_tensor_new(tp, TP_F32, TP_DIMS(4), b)),
                        "f32 [4]\n[1.0e-01, 1.0e-05, 3.0e+08,    -inf]");
    const double c[] = {0.1, 0.123456789, 1e7};
    assert_string_equal(format(tp_tensor_new(tp, TP_F64, TP_DIMS(3), c)),
                        "f64 [3]\n[       0.100000,        0.123457, 10000000.000000]");
    const int8_t d[] = {-128, 0, 127};
    assert_string_equal(format(tp_tensor_new(tp, TP_I8, TP_DIMS(3, 1), d)),
                        "i8 [3, 1]\n[[-128],\n [   0],\n [ 127]]");
    const uint64_t e[] = {UINT64_MAX, 0};
    assert_string_equal(format(tp_tensor_new(tp, TP_U64, TP_DIMS(2), e)),
                        "u64 [2]\n[18446744073709551615,                    0]");
    const int64_t f[] = {INT64_MIN, INT64_MAX};
    assert_string_equal(format(tp_tensor_new(tp, TP_I64, TP_DIMS(2), f)),
                        "i64 [2]\n[-9223372036854775808,  9223372036854775807]");
    const bool g[] = {true, false};
    assert_string_equal(format(tp_tensor_new(tp, TP_BOOL, TP_DIMS(2), g)),
                        "bool [2]\n[ true, false]");
    assert_string_equal(format(tp_scalar(tp, TP_F32, 2.5)), "f32 2.5");
    assert_string_equal(format(tp_scalar(tp, TP_F64, 1e300)), "f64 1.0e+300");
    assert_string_equal(format(tp_scalar(tp, TP_I32, -7)), "i32 -7");
    assert_string_equal(format(tp_full(tp, TP_F32, TP_DIMS(2, 0, 3), 1)), "f32 [2, 0, 3] []");
}

static void long_axes(void **state)
{
    tp_ctx *tp = *state;
    assert_string_equal(format(tp_arange(tp, TP_I32, 1001, 0, 1)),
                        "i32 [1001]\n[   0,    1,    2, ...,  998,  999, 1000]");
    /* An axis that is not long stays whole. */
    tp_tensor *t = tp_arange(tp, TP_F32, 2 * 1000, 0, 1);
    t->rank = 2, t->shape[0] = 2, t->shape[1] = 1000;
    tpi_set_strides(t);
    assert_string_equal(format(t), "f32 [2, 1000]\n"
                                   "[[   0.0,    1.0,    2.0, ...,  997.0,  998.0,  999.0],\n"
                                   " [1000.0, 1001.0, 1002.0, ..., 1997.0, 1998.0, 1999.0]]");
    t->shape[0] = 1000, t->shape[1] = 2;
    tpi_set_strides(t);
    assert_string_equal(format(t), "f32 [1000, 2]\n"
                                   "[[   0.0,    1.0],\n"
                                   " [   2.0,    3.0],\n"
                                   " [   4.0,    5.0],\n"
                                   " ...,\n"
                                   " [1994.0, 1995.0],\n"
                                   " [1996.0, 1997.0],\n"
                                   " [1998.0, 1999.0]]");
}

static void many_axes(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *t = tp_arange(tp, TP_I64, 8, 0, 1);
    t->rank = 3, t->shape[0] = t->shape[1] = t->shape[2] = 2;
    tpi_set_strides(t);
    assert_string_equal(format(t), "i64 [2, 2, 2]\n"
                                   "[[[0, 1],\n"
                                   "  [2, 3]],\n"
                                   "\n"
                                   " [[4, 5],\n"
                                   "  [6, 7]]]");
    /* A view: the last axis backwards, the first two swapped. */
    t->stride[0] = 2, t->stride[1] = 4, t->stride[2] = -1;
    t->data += sizeof(int64_t);
    tpi_note_contiguous(t);
    assert_string_equal(format(t), "i64 [2, 2, 2]\n"
                                   "[[[1, 0],\n"
                                   "  [5, 4]],\n"
                                   "\n"
                                   " [[3, 2],\n"
                                   "  [7, 6]]]");
}

static void long_rows(void **state)
{
    tp_ctx *tp = *state;
    const char *s = format(tp_arange(tp, TP_I32, 1000, 0, 1));
    const char *line = strchr(s, '\n') + 1;
    assert_memory_equal(line, "[  0,   1,   2,", 15);
    int lines = 0;
    for (const char *end; line; line = end ? end + 1 : NULL, lines++) {
        end = strchr(line, '\n');
        const size_t n = end ? (size_t)(end - line) : strlen(line);
        assert_true(n <= 92);
        assert_true(n >= 80 || !end);
        if (lines)
            assert_true(line[0] == ' ');
    }
    assert_int_equal(lines, 56); /* 18 numbers of five columns each */
}

static void what_has_no_values(void **state)
{
    tp_ctx *tp = *state;
    assert_string_equal(format(NULL), "failed: the tensor is NULL");
    tp_tensor *bad = (tp_full_at)("a.c", 3, tp, TP_F32, TP_DIMS(2, -1), 0);
    assert_string_equal(format(bad), "failed: a.c:3: tp_full: size -1 of axis 1 is negative");
    assert_int_equal(tp_print(bad, stderr), TP_E_SHAPE);
    assert_int_equal(tp_print(bad, NULL), TP_E_NULL);
    assert_int_equal(tp_print(NULL, NULL), TP_E_NULL);
    assert_string_equal(format(&tpi_nil), "failed: an operand is NULL, or has no context");
    tp_clear_error(tp);
}

static void little_room(void **state)
{
    tp_ctx *tp = *state;
    const tp_tensor *t = tp_full(tp, TP_I32, TP_DIMS(2), 5); /* "i32 [2]\n[5, 5]" */
    char small[6] = "......";
    assert_int_equal(tp_format(t, small, 5), 14);
    assert_memory_equal(small, "i32 \0.", 6);
    assert_int_equal(tp_format(t, NULL, 0), 14);
    assert_int_equal(tp_format(t, small, 0), 14);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        assert_int_equal(tp_print(t, full), TP_E_IO);
        EXPECT_ERROR(tp, TP_E_IO, "tp_print: the stream does not take the text");
        fclose(full);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(numbers),   CASE(long_axes),          CASE(many_axes),
        CASE(long_rows), CASE(what_has_no_values), CASE(little_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
