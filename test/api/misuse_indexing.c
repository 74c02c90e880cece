/* Misuse of indexing.h. */
#include "misuse_forms.h"

/* Each case's head looks like a call to it. */
/* clang-format off */

/* ---- ranges ---------------------------------------------------------------------------------- */

static void expect_text(bed *b, const char *text, const char *words)
{
    tp_tensor *y = tp_index(b->f, text);
    if (!tp_failed(y) || !strstr(tp_error_text(y), words))
        fail_msg("\"%s\": %s", text, tp_error_text(y));
    tp_clear_error(b->tp);
}

MISUSE(tp_index)
{
    OPERAND(b, b->f, tp_index(x, "1:, ::2"));
    BAD(b, TP_E_NULL, tp_index(b->f, NULL));
    BAD(b, TP_E_FORMAT, tp_index(b->f, ""));
    BAD(b, TP_E_FORMAT, tp_index(b->f, ",1"));
    BAD(b, TP_E_FORMAT, tp_index(b->f, "1:2:3:4"));
    BAD(b, TP_E_FORMAT, tp_index(b->f, "- 1"));
    BAD(b, TP_E_FORMAT, tp_index(b->f, "1.5"));
    BAD(b, TP_E_VALUE, tp_index(b->f, "2"));
    BAD(b, TP_E_VALUE, tp_index(b->f, "-3"));
    BAD(b, TP_E_VALUE, tp_index(b->f, "99999999999999999999"));
    BAD(b, TP_E_VALUE, tp_index(b->f, "::-0"));
    BAD(b, TP_E_AXIS, tp_index(b->f, ":, :, :"));
    BAD(b, TP_E_AXIS, tp_index(b->f, "None, None, None, None, None, None, None"));
    BAD(b, TP_E_AXIS, tp_index(b->f, "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"));
    expect_text(b, "0, x", "\"0, x\", column 4: expected a number");
    expect_text(b, "0 0", "\"0 0\", column 3: expected a comma or the end");
    expect_text(b, "..., 0, ...", "column 9: a second \"...\"");
    expect_text(b, "..., 3", "column 6: 3 is out of range for axis 1 of x [2, 3]");
    expect_text(b, "0, ::0", "column 4: the step is 0");
    expect_text(b, "0, 0, :", "column 7: x [2, 3] has 2 axes");
}

/* ---- putting --------------------------------------------------------------------------------- */

#define SCATTER(fn)                                                                            \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->i, b->f, 0));                                                \
        OPERAND(b, b->i, fn(b->f, x, b->f, 0));                                                \
        OPERAND(b, b->f, fn(b->f, b->i, x, 0));                                                \
        BAD(b, TP_E_DTYPE, fn(b->f, b->f, b->f, 0));                                           \
        BAD(b, TP_E_DTYPE, fn(b->f, b->i, b->along, 0));                                       \
        BAD(b, TP_E_AXIS, fn(b->f, b->i, b->f, 2));                                            \
        BAD(b, TP_E_SHAPE, fn(b->f, b->i, b->t, 0));                                           \
        BAD(b, TP_E_VALUE, fn(b->f, far(b, TP_DIMS(2)), b->f, 0));                             \
        BAD(b, TP_E_CTX, fn(b->f, b->i, b->foreign, 0));                                       \
    }
SCATTER(tp_scatter_max)
SCATTER(tp_scatter_min)
SCATTER(tp_scatter_mul)

#define PUT_ALONG(fn, name)                                                                    \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        OPERAND(b, b->f, fn(x, b->along, b->f, 0));                                            \
        OPERAND(b, b->along, fn(b->f, x, b->f, 0));                                            \
        OPERAND(b, b->f, fn(b->f, b->along, x, 0));                                            \
        BAD(b, TP_E_DTYPE, fn(b->f, b->f, b->f, 0));                                           \
        BAD(b, TP_E_DTYPE, fn(b->f, b->along, b->along, 0));                                   \
        BAD(b, TP_E_AXIS, fn(b->f, b->along, b->f, 2));                                        \
        BAD(b, TP_E_SHAPE, fn(b->f, b->i, b->c, 0));                                           \
        BAD(b, TP_E_SHAPE, fn(b->f, b->along, b->t, 0));                                       \
        BAD_AS(b, name "|gather", TP_E_VALUE, fn(b->f, far(b, TP_DIMS(2, 3)), b->f, 0));       \
        BAD(b, TP_E_CTX, fn(b->f, b->along, b->foreign, 0));                                   \
    }
PUT_ALONG(tp_put_along, "put_along")
PUT_ALONG(tp_put_along_max, "put_along_max")
PUT_ALONG(tp_put_along_min, "put_along_min")
PUT_ALONG(tp_put_along_mul, "put_along_mul")

MISUSE(tp_index_by)
{
    OPERAND(b, b->f, tp_index_by(x, 2, ((tp_tensor *[]){b->i, b->i})));
    OPERAND(b, b->i, tp_index_by(b->f, 2, ((tp_tensor *[]){b->i, x})));
    BAD(b, TP_E_AXIS, tp_index_by(b->f, 0, NULL));
    BAD(b, TP_E_AXIS, tp_index_by(b->f, -1, &b->i));
    BAD(b, TP_E_AXIS, tp_index_by(b->f, 1, NULL));
    BAD(b, TP_E_AXIS, tp_index_by(b->c, 2, ((tp_tensor *[]){b->i, b->i})));
    BAD(b, TP_E_DTYPE, tp_index_by(b->f, 1, &b->c));
    BAD(b, TP_E_CTX, tp_index_by(b->f, 1, &b->foreign));
    tp_tensor *out = far(b, TP_DIMS(2));
    BAD_AS(b, "index_by|gather", TP_E_VALUE, tp_index_by(b->f, 1, &out));
    BAD_AS(b, "index_by|gather", TP_E_VALUE, tp_index_by(b->f, 2, ((tp_tensor *[]){b->i, out})));
}

MISUSE(tp_gather_nd)
{
    what = "gather_nd|gather";
    tp_tensor *pair = tp_full(b->tp, TP_I64, TP_DIMS(4, 2), 0);
    OPERAND(b, b->f, tp_gather_nd(x, pair, 0));
    OPERAND(b, pair, tp_gather_nd(b->f, x, 0));
    BAD(b, TP_E_DTYPE, tp_gather_nd(b->f, b->t, 0));
    BAD(b, TP_E_SHAPE, tp_gather_nd(b->f, tp_scalar(b->tp, TP_I64, 0), 0));
    BAD(b, TP_E_SHAPE, tp_gather_nd(b->f, b->along, 0));
    BAD(b, TP_E_SHAPE, tp_gather_nd(b->f, pair, -1));
    BAD(b, TP_E_SHAPE, tp_gather_nd(b->f, pair, 1));
    BAD(b, TP_E_SHAPE, tp_gather_nd(b->f, pair, 3));
    BAD(b, TP_E_VALUE, tp_gather_nd(b->f, far(b, TP_DIMS(4, 2)), 0));
    BAD(b, TP_E_CTX, tp_gather_nd(b->f, b->foreign, 0));
}

#define SCATTER_ND(fn, name)                                                                   \
    MISUSE(fn)                                                                                 \
    {                                                                                          \
        tp_tensor *pair = tp_full(b->tp, TP_I64, TP_DIMS(3, 2), 0);                            \
        OPERAND(b, b->f, fn(x, pair, b->c));                                                   \
        OPERAND(b, pair, fn(b->f, x, b->c));                                                   \
        OPERAND(b, b->c, fn(b->f, pair, x));                                                   \
        BAD(b, TP_E_DTYPE, fn(b->f, b->t, b->c));                                              \
        BAD(b, TP_E_DTYPE, fn(b->f, pair, b->i));                                              \
        BAD(b, TP_E_SHAPE, fn(b->f, b->along, b->c));                                          \
        BAD(b, TP_E_SHAPE, fn(b->f, pair, b->f));                                              \
        BAD_AS(b, name "|gather", TP_E_VALUE, fn(b->f, far(b, TP_DIMS(3, 2)), b->c));          \
        BAD(b, TP_E_CTX, fn(b->f, pair, b->foreign));                                          \
    }
SCATTER_ND(tp_scatter_nd, "scatter_nd")
SCATTER_ND(tp_scatter_nd_add, "scatter_nd_add")
SCATTER_ND(tp_scatter_nd_max, "scatter_nd_max")
SCATTER_ND(tp_scatter_nd_min, "scatter_nd_min")
SCATTER_ND(tp_scatter_nd_mul, "scatter_nd_mul")

/* ---- sizes that values decide ------------------------------------------------------------------ */

MISUSE(tp_nonzero)
{
    OPERAND(b, b->f, tp_nonzero(x));
}

MISUSE(tp_masked_select)
{
    OPERAND(b, b->f, tp_masked_select(x, b->flag));
    OPERAND(b, b->flag, tp_masked_select(b->f, x));
    BAD(b, TP_E_DTYPE, tp_masked_select(b->f, b->f));
    BAD(b, TP_E_SHAPE, tp_masked_select(b->t, b->flag));
    BAD(b, TP_E_CTX, tp_masked_select(b->f, b->foreign));
}

MISUSE(tp_unique)
{
    tp_tensor *first = NULL, *kind = NULL, *count = NULL;
    OPERAND(b, b->f, tp_unique(x, NULL, NULL, NULL));
    STICKS(b, tp_unique(b->failed, &first, &kind, &count));
    assert_true(tp_failed(first) && tp_failed(kind) && tp_failed(count));
}

MISUSE(tp_unique_along)
{
    tp_tensor *first = NULL, *kind = NULL, *count = NULL;
    OPERAND(b, b->f, tp_unique_along(x, 0, NULL, NULL, NULL));
    BAD(b, TP_E_AXIS, tp_unique_along(b->f, 2, &first, &kind, &count));
    assert_true(tp_failed(first) && tp_failed(kind) && tp_failed(count));
    BAD(b, TP_E_SHAPE, tp_unique_along(b->batch, 1, NULL, NULL, NULL));
}

/* ---- searching and counting ------------------------------------------------------------------- */

MISUSE(tp_searchsorted)
{
    OPERAND(b, b->c, tp_searchsorted(x, b->f, false));
    OPERAND(b, b->f, tp_searchsorted(b->c, x, true));
    BAD(b, TP_E_SHAPE, tp_searchsorted(b->f, b->t, true));
    BAD(b, TP_E_SHAPE, tp_searchsorted(b->f, b->c, true));
    BAD(b, TP_E_SHAPE, tp_searchsorted(tp_scalar(b->tp, TP_F32, 1), b->c, true));
    BAD(b, TP_E_CTX, tp_searchsorted(b->c, b->foreign, true));
}

MISUSE(tp_isin)
{
    OPERAND(b, b->f, tp_isin(x, b->c));
    OPERAND(b, b->c, tp_isin(b->f, x));
    BAD(b, TP_E_CTX, tp_isin(b->f, b->foreign));
}

MISUSE(tp_bincount)
{
    OPERAND(b, b->along, tp_bincount(x, NULL, 3));
    STICKS(b, tp_bincount(b->along, b->failed, 3));
    STICKS(b, tp_bincount(b->along, b->gone, 3));
    BAD(b, TP_E_DTYPE, tp_bincount(b->f, NULL, 3));
    BAD(b, TP_E_DTYPE, tp_bincount(b->flag, NULL, 3));
    BAD(b, TP_E_SHAPE, tp_bincount(b->i, b->f, 3));
    BAD(b, TP_E_SHAPE, tp_bincount(b->i, NULL, -1));
    BAD(b, TP_E_CTX, tp_bincount(b->along, b->foreign, 3));
    what = "bincount|scatter_add";
    BAD(b, TP_E_VALUE, tp_bincount(far(b, TP_DIMS(2)), NULL, 3));
    BAD(b, TP_E_VALUE, tp_bincount(tp_full(b->tp, TP_I8, TP_DIMS(2), -1), NULL, 3));
    BAD(b, TP_E_VALUE, tp_bincount(b->i, NULL, 0));
}

MISUSE(tp_histogram)
{
    OPERAND(b, b->f, tp_histogram(x, 4, 0, 1));
    BAD(b, TP_E_DTYPE, tp_histogram(b->i, 4, 0, 1));
    BAD(b, TP_E_SHAPE, tp_histogram(b->f, 0, 0, 1));
    BAD(b, TP_E_SHAPE, tp_histogram(b->f, -1, 0, 1));
    BAD(b, TP_E_VALUE, tp_histogram(b->f, 4, 1, 1));
    BAD(b, TP_E_VALUE, tp_histogram(b->f, 4, 0.0 / 0.0, 1));
    BAD(b, TP_E_VALUE, tp_histogram(b->f, 4, 0, 1.0 / 0.0));
}

const misuse misuse_indexing[] = {
    LISTED(tp_index),
    LISTED(tp_scatter_max),
    LISTED(tp_scatter_min),
    LISTED(tp_scatter_mul),
    LISTED(tp_put_along),
    LISTED(tp_put_along_max),
    LISTED(tp_put_along_min),
    LISTED(tp_put_along_mul),
    LISTED(tp_index_by),
    LISTED(tp_gather_nd),
    LISTED(tp_scatter_nd),
    LISTED(tp_scatter_nd_add),
    LISTED(tp_scatter_nd_max),
    LISTED(tp_scatter_nd_min),
    LISTED(tp_scatter_nd_mul),
    LISTED(tp_nonzero),
    LISTED(tp_masked_select),
    LISTED(tp_unique),
    LISTED(tp_unique_along),
    LISTED(tp_searchsorted),
    LISTED(tp_isin),
    LISTED(tp_bincount),
    LISTED(tp_histogram),
    {0},
};
