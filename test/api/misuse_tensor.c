/* Misuse of tensor.h. */
#include "misuse.h"

#include <math.h>

/* Each case's head looks like a call to it. */
/* clang-format off */

static const int64_t ones[TP_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
static const tp_dtype no_dtype[] = {TP_N_DTYPES, (tp_dtype)-1, (tp_dtype)INT32_MAX,
                                    (tp_dtype)INT32_MIN};
enum { N_NO_DTYPE = 4 };

MISUSE(tp_dtype_name)
{
    (void)b, (void)what;
    for (int k = 0; k < N_NO_DTYPE; k++)
        assert_string_equal(tp_dtype_name(no_dtype[k]), "?");
}

MISUSE(tp_dtype_size)
{
    (void)b, (void)what;
    for (int k = 0; k < N_NO_DTYPE; k++)
        assert_int_equal(tp_dtype_size(no_dtype[k]), 0);
}

MISUSE(tp_promote)
{
    (void)b, (void)what;
    for (int k = 0; k < N_NO_DTYPE; k++) { /* no answer is right, none may crash */
        tp_promote(no_dtype[k], TP_F32);
        tp_promote(TP_F32, no_dtype[k]);
    }
}

/* What every maker refuses: f(dtype, rank, shape). */
#define MAKER(call)                                                                            \
    do {                                                                                       \
        tp_dtype dtype = TP_F32;                                                               \
        int rank = 1;                                                                          \
        const int64_t *shape = ones;                                                           \
        assert_false(tp_failed(call));                                                         \
        for (int k = 0; k < N_NO_DTYPE; k++) {                                                 \
            dtype = no_dtype[k];                                                               \
            BAD(b, TP_E_DTYPE, call);                                                          \
        }                                                                                      \
        dtype = TP_F32;                                                                        \
        rank = -1;                                                                             \
        BAD(b, TP_E_SHAPE, call);                                                              \
        rank = TP_MAX_RANK + 1;                                                                \
        BAD(b, TP_E_SHAPE, call);                                                              \
        rank = INT32_MAX;                                                                      \
        BAD(b, TP_E_SHAPE, call);                                                              \
        rank = 2;                                                                              \
        shape = NULL;                                                                          \
        BAD(b, TP_E_NULL, call);                                                               \
        shape = (const int64_t[]){2, -1};                                                      \
        BAD(b, TP_E_SHAPE, call);                                                              \
        shape = (const int64_t[]){INT64_MIN, 2};                                               \
        BAD(b, TP_E_SHAPE, call);                                                              \
        shape = (const int64_t[]){INT64_MAX, INT64_MAX};                                       \
        BAD(b, TP_E_SHAPE, call);                                                              \
        shape = (const int64_t[]){0, INT64_MAX};                                               \
        BAD(b, TP_E_SHAPE, call);                                                              \
        shape = (const int64_t[]){(int64_t)1 << 30, (int64_t)1 << 28};                                        \
        BAD(b, TP_E_MEMORY, call);                                                             \
        const int64_t n = tp_symbol(b->g, "n");                                                \
        shape = (const int64_t[]){n, 2};                                                       \
        BAD(b, TP_E_SHAPE, call);                                                              \
    } while (0)

MISUSE(tp_tensor_new)
{
    assert_true(tp_failed(tp_tensor_new(NULL, TP_F32, TP_SCALAR, NULL)));
    MAKER(tp_tensor_new(b->tp, dtype, rank, shape, NULL));
}

MISUSE(tp_full)
{
    assert_true(tp_failed(tp_full(NULL, TP_F32, TP_SCALAR, 1)));
    MAKER(tp_full(b->tp, dtype, rank, shape, 1));
    assert_int_equal(tp_item_i64(tp_full(b->tp, TP_I8, TP_SCALAR, 1e300)), 127);
    assert_int_equal(tp_item_i64(tp_full(b->tp, TP_U8, TP_SCALAR, (double)NAN)), 0);
}

static void count_release(void *user, void *data)
{
    (void)data;
    ++*(int *)user;
}

MISUSE(tp_tensor_wrap)
{
    float data[2] = {1, 2};
    int released = 0;
    assert_true(tp_failed(tp_tensor_wrap(NULL, TP_F32, TP_DIMS(2), data, NULL, NULL)));
    BAD(b, TP_E_NULL, tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(2), NULL, NULL, NULL));
    BAD(b, TP_E_NULL, tp_tensor_wrap(b->tp, TP_F32, 2, NULL, data, NULL, NULL));
    BAD(b, TP_E_VALUE,
        tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(1), (char *)data + 1, NULL, NULL));
    BAD(b, TP_E_DTYPE, tp_tensor_wrap(b->tp, TP_N_DTYPES, TP_DIMS(1), data, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(-1), data, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(INT64_MAX, 4), data, NULL, NULL));
    BAD(b, TP_E_SHAPE, tp_tensor_wrap(b->tp, TP_F32, TP_MAX_RANK + 1, ones, data, NULL, NULL));
    assert_false(tp_failed(tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(0), NULL, NULL, NULL)));
    tp_scope_begin(b->tp);
    tp_tensor_wrap(b->tp, TP_F32, TP_DIMS(2), data, count_release, &released);
    tp_scope_end(b->tp);
    assert_int_equal(released, 1);
}

MISUSE(tp_scalar)
{
    assert_true(tp_failed(tp_scalar(NULL, TP_F32, 1)));
    for (int k = 0; k < N_NO_DTYPE; k++)
        BAD(b, TP_E_DTYPE, tp_scalar(b->tp, no_dtype[k], 1));
}

MISUSE(tp_scalar_like)
{
    OPERAND(b, b->f, tp_scalar_like(x, 3));
}

MISUSE(tp_number)
{
    BAD(b, TP_E_DTYPE, tp_number(b->i, 0.5));
    what = "add"; /* refuses an x that has ended */
    OPERAND(b, b->f, tp_add(x, tp_number(x, 3)));
}

MISUSE(tp_integer)
{
    BAD(b, TP_E_DTYPE, tp_integer(tp_cast(b->i, TP_I8), 128));
    what = "add"; /* refuses an x that has ended */
    OPERAND(b, b->f, tp_add(x, tp_integer(x, -3)));
}

MISUSE(tp_natural)
{
    BAD(b, TP_E_DTYPE, tp_natural(tp_cast(b->i, TP_I8), 128));
    what = "add"; /* refuses an x that has ended */
    OPERAND(b, b->f, tp_add(x, tp_natural(x, 3)));
}

MISUSE(tp_arange)
{
    assert_true(tp_failed(tp_arange(NULL, TP_F32, 3, 0, 1)));
    BAD(b, TP_E_DTYPE, tp_arange(b->tp, TP_N_DTYPES, 3, 0, 1));
    BAD(b, TP_E_SHAPE, tp_arange(b->tp, TP_F32, -1, 0, 1));
    BAD(b, TP_E_SHAPE, tp_arange(b->tp, TP_F32, INT64_MAX, 0, 1));
    BAD(b, TP_E_SHAPE, tp_arange(b->tp, TP_F32, (int64_t)1 << 58, 0, 1));
    BAD(b, TP_E_SHAPE, tp_arange(b->tp, TP_F32, tp_symbol(b->g, "n"), 0, 1));
    assert_false(tp_failed(tp_arange(b->tp, TP_I8, 3, (double)NAN, (double)INFINITY)));
}

MISUSE(tp_variable)
{
    OPERAND(b, b->f, tp_variable(x, "w"));
    BAD(b, TP_E_SYMBOLIC, tp_variable(b->node, "w"));
    BAD(b, TP_E_NULL, tp_variable(b->f, NULL));
    BAD(b, TP_E_NAME, tp_variable(b->f, ""));
}

MISUSE(tp_param)
{
    OPERAND(b, b->f, tp_param(x, "w"));
    BAD(b, TP_E_SYMBOLIC, tp_param(b->node, "w"));
    BAD(b, TP_E_NULL, tp_param(b->f, NULL));
    BAD(b, TP_E_NAME, tp_param(b->f, ""));
    BAD(b, TP_E_DTYPE, tp_param(b->i, "w"));
}

MISUSE(tp_assign)
{
    what = "assign";
    OPERAND(b, b->var, tp_assign(x, b->f));
    OPERAND(b, b->f, tp_assign(b->var, x));
    OPERAND(b, b->node, tp_assign(b->var, x));
    BAD(b, TP_E_NULL, tp_assign(b->var, NULL));
    BAD(b, TP_E_NULL, tp_assign(NULL, b->f));
    BAD(b, TP_E_STATE, tp_assign(b->f, b->f));
    BAD(b, TP_E_SHAPE, tp_assign(b->var, b->t));
    BAD(b, TP_E_DTYPE, tp_assign(b->var, b->along));
    BAD(b, TP_E_CTX, tp_assign(b->var, b->foreign));
    BAD(b, TP_E_SHAPE, tp_assign(tp_variable(b->f, "w"), tp_sum(b->node, TP_ALL, false)));
    BAD(b, TP_E_STATE, tp_assign(b->f, b->node));
    BAD(b, TP_E_STATE, tp_assign(b->node, b->f));
    BAD(b, TP_E_STATE, tp_assign(tp_broadcast(tp_variable(b->c, "w"), TP_DIMS(2, 3)), b->f));
}

MISUSE(tp_name)
{
    assert_true(tp_failed(tp_name(NULL, "n")));
    STICKS(b, tp_name(b->failed, "n"));
    BAD_BARE(b, TP_E_STATE, tp_name(b->gone, "n"));
    BAD_BARE(b, TP_E_STATE, tp_name(b->dead, "n"));
    BAD_BARE(b, TP_E_NULL, tp_name(b->f, NULL));
    BAD_BARE(b, TP_E_NAME, tp_name(b->f, ""));
    BAD_BARE(b, TP_E_NAME, tp_name(tp_neg(b->node), "x"));
}

MISUSE(tp_name_of)
{
    (void)what;
    assert_null(tp_name_of(NULL));
    assert_null(tp_name_of(b->failed));
    assert_null(tp_name_of(b->dead));
}

/* Answers that cannot fail. */
#define ASK(fn, nothing)                                                                       \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        (void)what;                                                                            \
        assert_true(fn(NULL) == (nothing));                                                    \
        assert_true(fn(b->dead) == (nothing));                                                 \
        fn(b->failed);                                                                         \
        fn(b->gone);                                                                           \
        fn(b->foreign);                                                                        \
    }
ASK(tp_failed, true)
ASK(tp_is_symbolic, false)
ASK(tp_dtype_of, TP_F32)
ASK(tp_rank, 0)
ASK(tp_count, -1)

MISUSE(tp_ctx_of)
{
    (void)what;
    assert_null(tp_ctx_of(NULL));
    assert_null(tp_ctx_of(b->dead));
    assert_ptr_equal(tp_ctx_of(b->failed), b->tp);
}

MISUSE(tp_status_of)
{
    (void)what;
    assert_int_equal(tp_status_of(NULL), TP_E_NULL);
    assert_int_equal(tp_status_of(b->failed), TP_E_SHAPE);
    assert_int_equal(tp_status_of(b->gone), TP_E_STATE);
    assert_int_equal(tp_status_of(tp_neg(NULL)), TP_E_NULL);
}

MISUSE(tp_error_text)
{
    (void)what;
    assert_string_equal(tp_error_text(NULL), "the tensor is NULL");
    assert_non_null(strstr(tp_error_text(b->failed), "broadcast"));
    assert_non_null(strstr(tp_error_text(b->gone), "graph"));
    assert_string_equal(tp_error_text(b->f), "");
}

MISUSE(tp_size)
{
    assert_int_equal(tp_size(NULL, 0), -1);
    STICKS(b, SAYS(tp_size(b->failed, 0) < 0));
    BAD(b, TP_E_STATE, SAYS(tp_size(b->gone, 0) < 0));
    BAD(b, TP_E_AXIS, SAYS(tp_size(b->f, 2) < 0));
    BAD(b, TP_E_AXIS, SAYS(tp_size(b->f, INT32_MIN) < 0));
    BAD(b, TP_E_SYMBOLIC, SAYS(tp_size(b->batch, 0) < 0));
    assert_int_equal(tp_size(b->batch, 1), 3);
}

MISUSE(tp_dim)
{
    tp_dim(NULL, 0);
    BAD_BARE(b, TP_E_AXIS, SAYS(tp_dim(b->f, 2) < 0));
    BAD_BARE(b, TP_E_STATE, SAYS(tp_dim(b->gone, 0) < 0));
    /* arithmetic in C on a handle is noticed */
    const int64_t n = tp_dim(b->batch, 0);
    BAD_AS(b, "placeholder", TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(n + 1)));
    BAD_AS(b, "placeholder", TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(n / 2)));
    BAD_AS(b, "placeholder", TP_E_SHAPE, tp_placeholder(b->g, "w", TP_F32, TP_DIMS(n - 1)));
}

/* Functions that take values out. */
#define OUT(call)                                                                          \
    do {                                                                                       \
        tp_tensor *x = NULL;                                                                   \
        assert_true(call);                                                                     \
        x = b->failed;                                                                         \
        assert_true(call);                                                                     \
        tp_clear_error(b->tp);                                                                 \
        x = b->gone;                                                                           \
        BAD(b, TP_E_STATE, SAYS(call));                                       \
        x = b->dead;                                                                           \
        if (x)                                                                                 \
            BAD(b, TP_E_STATE, SAYS(call));                                   \
        x = b->node;                                                                           \
        BAD(b, TP_E_SYMBOLIC, SAYS(call));                                    \
    } while (0)

MISUSE(tp_read)
{
    float out[6];
    OUT(tp_read(x, out, sizeof out) != TP_OK);
    BAD(b, TP_E_NULL, tp_read(b->f, NULL, sizeof out));
    BAD(b, TP_E_SHAPE, tp_read(b->f, out, 5));
    BAD(b, TP_E_SHAPE, tp_read(b->f, out, SIZE_MAX));
}

MISUSE(tp_data)
{
    OUT(!tp_data(x));
    BAD(b, TP_E_STATE, tp_data(tp_transpose(b->f, TP_ALL)));
}

MISUSE(tp_item)
{
    OUT(isnan(tp_item(x)));
    BAD(b, TP_E_SHAPE, SAYS(isnan(tp_item(b->f))));
}

MISUSE(tp_item_i64)
{
    OUT(tp_item_i64(x) == 0);
    BAD(b, TP_E_SHAPE, SAYS(!tp_item_i64(b->f)));
}

MISUSE(tp_truth)
{
    OUT(!tp_truth(x));
    BAD(b, TP_E_SHAPE, SAYS(!tp_truth(b->f)));
}

MISUSE(tp_print)
{
    (void)what;
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_not_equal(tp_print(b->f, NULL), TP_OK);
    tp_clear_error(b->tp);
    tp_print(NULL, out);
    tp_print(b->failed, out);
    tp_print(b->gone, out);
    tp_print(b->dead, out);
    tp_print(b->batch, out);
    tp_clear_error(b->tp);
    fclose(out);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        BAD_BARE(b, TP_E_IO, tp_print(b->f, full));
        fclose(full);
    }
}

MISUSE(tp_format)
{
    (void)what;
    char out[8];
    const size_t need = tp_format(b->f, NULL, 0);
    assert_true(need > 8);
    assert_int_equal(tp_format(b->f, out, sizeof out), need);
    assert_int_equal(strlen(out), 7);
    tp_format(NULL, out, sizeof out);
    tp_format(b->failed, out, sizeof out);
    tp_format(b->gone, out, 1);
    tp_format(b->dead, out, sizeof out);
    tp_clear_error(b->tp);
}

MISUSE(tp_npy_load)
{
    assert_true(tp_failed(tp_npy_load(NULL, "x.npy")));
    BAD(b, TP_E_NULL, tp_npy_load(b->tp, NULL));
    BAD(b, TP_E_IO, tp_npy_load(b->tp, "/nowhere/x.npy"));
    BAD(b, TP_E_IO, tp_npy_load(b->tp, ""));
    BAD(b, TP_E_IO, tp_npy_load(b->tp, "/"));
    BAD(b, TP_E_IO, tp_npy_load(b->tp, "/dev/null"));
}

MISUSE(tp_npy_parse)
{
    assert_true(tp_failed(tp_npy_parse(NULL, "x", 1)));
    BAD(b, TP_E_NULL, tp_npy_parse(b->tp, NULL, 3));
    BAD(b, TP_E_FORMAT, tp_npy_parse(b->tp, "", 0));
    BAD(b, TP_E_FORMAT, tp_npy_parse(b->tp, "\x93NUMPY\1\0", 8));
}

#define NPY_SAVE(fn)                                                                           \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OUT(fn(x, "/nowhere/x.npy") != TP_OK);                                                 \
        BAD(b, TP_E_NULL, fn(b->f, NULL));                                                     \
        BAD(b, TP_E_IO, fn(b->f, ""));                                                         \
        BAD(b, TP_E_IO, fn(b->f, "/nowhere/x.npy"));                                           \
        BAD(b, TP_E_IO, fn(b->f, "/"));                                                        \
        if (!strcmp(#fn, "tp_npy_save_f16"))                                                   \
            BAD(b, TP_E_DTYPE, fn(b->i, "/nowhere/x.npy"));                                    \
    }
NPY_SAVE(tp_npy_save)
NPY_SAVE(tp_npy_save_f16)

const misuse misuse_tensor[] = {
    LISTED(tp_dtype_name),
    LISTED(tp_dtype_size),
    LISTED(tp_promote),
    LISTED(tp_tensor_new),
    LISTED(tp_full),
    LISTED(tp_tensor_wrap),
    LISTED(tp_scalar),
    LISTED(tp_scalar_like),
    LISTED(tp_number),
    LISTED(tp_integer),
    LISTED(tp_natural),
    LISTED(tp_arange),
    LISTED(tp_variable),
    LISTED(tp_param),
    LISTED(tp_assign),
    LISTED(tp_name),
    LISTED(tp_name_of),
    LISTED(tp_failed),
    LISTED(tp_is_symbolic),
    LISTED(tp_dtype_of),
    LISTED(tp_rank),
    LISTED(tp_count),
    LISTED(tp_ctx_of),
    LISTED(tp_status_of),
    LISTED(tp_error_text),
    LISTED(tp_size),
    LISTED(tp_dim),
    LISTED(tp_read),
    LISTED(tp_data),
    LISTED(tp_item),
    LISTED(tp_item_i64),
    LISTED(tp_truth),
    LISTED(tp_print),
    LISTED(tp_format),
    LISTED(tp_npy_load),
    LISTED(tp_npy_parse),
    LISTED(tp_npy_save),
    LISTED(tp_npy_save_f16),
    {0},
};
