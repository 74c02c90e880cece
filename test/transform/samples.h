/* What tests of tp_vmap share: numbers, one sample after the other, and their bits. */
#ifndef TAPIR_TEST_SAMPLES_H
#define TAPIR_TEST_SAMPLES_H

#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

static inline tp_tensor *numbers(tp_ctx *tp, int rank, const int64_t *shape, double from)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    float *v = malloc((size_t)n * sizeof *v + 1);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(from + sin((double)i * 1.7));
    tp_tensor *t = tp_tensor_new(tp, TP_F32, rank, shape, v);
    free(v);
    return t;
}

static inline void expect_same(tp_tensor *got, tp_tensor *want)
{
    tp_ctx *tp = tp_ctx_of(tp_failed(got) ? want : got);
    if (tp_failed(got) || tp_failed(want))
        fail_msg("failed: %s", tp_error_message(tp));
    got = tp_contiguous(got);
    want = tp_contiguous(want);
    assert_int_equal(tp_dtype_of(got), tp_dtype_of(want));
    assert_int_equal(tp_count(got), tp_count(want));
    for (int64_t i = 0; i < tp_count(got); i++)
        if (memcmp((const char *)tp_data(got) + i * (int64_t)tp_dtype_size(tp_dtype_of(got)),
                   (const char *)tp_data(want) + i * (int64_t)tp_dtype_size(tp_dtype_of(got)),
                   tp_dtype_size(tp_dtype_of(got))) != 0)
            fail_msg("element %d differs: %g, %g", (int)i,
                     (double)((const float *)tp_data(got))[i],
                     (double)((const float *)tp_data(want))[i]);
}

/* f of each sample of x alone, one after the other. */
static inline tp_tensor *each(tp_body f, void *user, tp_tensor *x)
{
    tp_tensor *y[64];
    const int n = (int)tp_dim(x, 0);
    for (int i = 0; i < n; i++) {
        tp_tensor *one = tp_select(x, 0, i);
        f(user, 1, &one, 1, &y[i]);
    }
    return tp_stack(n, y, 0);
}

#endif
