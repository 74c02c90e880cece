/* How every net compares results: type, sizes and bits, but all NaN are one value, whose sign and
 * payload are free (docs/numerics.md). */
#ifndef TAPIR_TEST_SAME_H
#define TAPIR_TEST_SAME_H

#include "core/core.h"
#include "tapir/ops.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef enum same_zeros {
    SAME_ZEROS_BITS,  /* +0 is not -0 */
    SAME_ZEROS_EQUAL, /* where a block gives no gradient, a graph adds zeros */
} same_zeros;

static inline bool same_value(tp_dtype t, const void *a, const void *b, same_zeros zeros)
{
    if (memcmp(a, b, tp_dtype_size(t)) == 0)
        return true;
    if (t != TP_F32 && t != TP_F64)
        return false;
    const double x = tpi_load_f64(t, a), y = tpi_load_f64(t, b);
    return (x != x && y != y) || (zeros == SAME_ZEROS_EQUAL && x == 0 && y == 0);
}

static inline uint64_t same_bits_of(tp_dtype t, const void *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, tp_dtype_size(t));
    return bits;
}

/* False: how they differ is in `why`. */
static inline bool same_tensors(tp_tensor *got, tp_tensor *want, same_zeros zeros, char *why,
                                size_t size)
{
    if (tp_failed(got) || tp_failed(want)) {
        snprintf(why, size, "%s", tp_error_text(tp_failed(got) ? got : want));
        return false;
    }
    const tp_dtype t = tp_dtype_of(want);
    if (tp_dtype_of(got) != t || !tpi_same_shape(got, want)) {
        snprintf(why, size, "%s %s, not %s %s", tp_dtype_name(tp_dtype_of(got)), SHAPE(got),
                 tp_dtype_name(t), SHAPE(want));
        return false;
    }
    const char *a = tp_data(tp_contiguous(tp_detach(got)));
    const char *b = tp_data(tp_contiguous(tp_detach(want)));
    if (!a || !b) {
        snprintf(why, size, "no data: %s", tp_error_message(tp_ctx_of(got)));
        return false;
    }
    const size_t each = tp_dtype_size(t);
    const int64_t n = tp_count(want);
    int64_t n_bad = 0, first = 0;
    for (int64_t i = 0; i < n; i++)
        if (!same_value(t, a + (size_t)i * each, b + (size_t)i * each, zeros) && n_bad++ == 0)
            first = i;
    if (n_bad == 0)
        return true;
    a += (size_t)first * each;
    b += (size_t)first * each;
    snprintf(why, size,
             "%s %s: %" PRId64 " of %" PRId64 " differ, first at %" PRId64 ": %.17g (0x%" PRIx64
             "), not %.17g (0x%" PRIx64 ")",
             tp_dtype_name(t), SHAPE(want), n_bad, n, first, tpi_load_f64(t, a),
             same_bits_of(t, a), tpi_load_f64(t, b), same_bits_of(t, b));
    return false;
}

#endif
