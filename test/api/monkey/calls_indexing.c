/* Calls of indexing.h. */
#include "monkey.h"

#define ONE(f, ...) /* x, and what follows */                                                  \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m);                                                              \
        return put(m, BOTH(m, f, x __VA_ARGS__));                                              \
    }
#define TWO(f, ...) /* x, another like it, and what follows */                                 \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *y = fellow(m, x);                                           \
        return put(m, BOTH(m, f, x, y __VA_ARGS__));                                           \
    }
/* f32 [2, 3], an index of the given sizes and sources, or whatever there is. */
#define PUT(f, src_shape, ...)                                                                 \
    CALL(f)                                                                                    \
    {                                                                                          \
        tp_tensor *x = tensor(m), *i = integers(m), *s = fellow(m, x);                         \
        if (below(m, 3) == 0) {                                                                \
            x = fresh(m, TP_F32, TP_DIMS(2, 2));                                               \
            i = fresh(m, TP_I64, TP_DIMS(2, 2));                                               \
            s = fresh(m, TP_F32, src_shape);                                                   \
        }                                                                                      \
        const int a = axis(m);                                                                 \
        (void)a;                                                                               \
        return put(m, BOTH(m, f, x, i, s __VA_ARGS__));                                        \
    }

CALL(tp_index)
{
    static const char *const good[] = {
        "...",  "0",         "-1, ...",    ":",
        "::-1", "1:, ::2",   "None, ...",  "..., 0, newaxis",
        "9",    "0:99, :",   "..., -1:-9", "::0",
        "1 2",  "..., ...,", "x",          "0, 0, 0, 0, 0, 0, 0, 0, 0"};
    tp_tensor *x = tensor(m);
    const char *text = rarely(m) ? name(m) : good[below(m, (int)(sizeof good / sizeof *good))];
    return put(m, BOTH(m, tp_index, x, text));
}

PUT(tp_scatter_max, TP_DIMS(2, 2, 2), , a)
PUT(tp_scatter_min, TP_DIMS(2, 2, 2), , a)
PUT(tp_scatter_mul, TP_DIMS(2, 2, 2), , a)
PUT(tp_put_along, TP_DIMS(2, 2), , a)
PUT(tp_put_along_max, TP_DIMS(2, 2), , a)
PUT(tp_put_along_min, TP_DIMS(2, 2), , a)
PUT(tp_put_along_mul, TP_DIMS(2, 2), , a)
PUT(tp_scatter_nd, TP_DIMS(2))
PUT(tp_scatter_nd_add, TP_DIMS(2))
PUT(tp_scatter_nd_max, TP_DIMS(2))
PUT(tp_scatter_nd_min, TP_DIMS(2))
PUT(tp_scatter_nd_mul, TP_DIMS(2))

CALL(tp_index_by)
{
    tp_tensor *x = tensor(m), *index[3];
    const int n = rarely(m) ? below(m, 9) - 4 : 1 + below(m, 3);
    for (int i = 0; i < 3; i++)
        index[i] = integers(m);
    return put(m, tp_index_by(x, n > 3 ? 3 : n, rarely(m) ? NULL : index));
}

CALL(tp_gather_nd)
{
    tp_tensor *x = tensor(m), *i = below(m, 3) ? integers(m) : fresh(m, TP_I64, TP_DIMS(2, 1));
    const int batch = below(m, 3) ? 0 : axis(m);
    return put(m, BOTH(m, tp_gather_nd, x, i, batch));
}

ONE(tp_nonzero)
CALL(tp_masked_select)
{
    tp_tensor *x = tensor(m), *y = fellow(m, x), *mask = below(m, 4) ? tp_ne(y, y) : tensor(m);
    return put(m, BOTH(m, tp_masked_select, x, mask));
}

/* Which of what is found, if any, is kept. */
static int put_kinds(monkey *m, tp_tensor *y, tp_tensor *const *of)
{
    tp_tensor *other = of[below(m, 3)];
    if (other)
        put(m, other);
    return put(m, y);
}

CALL(tp_unique)
{
    tp_tensor *x = tensor(m), *of[3] = {0}, **at = below(m, 2) ? of : NULL;
    tp_tensor *y = tp_unique(x, at, at ? at + 1 : NULL, below(m, 2) ? of + 2 : NULL);
    return put_kinds(m, y, of);
}

CALL(tp_unique_along)
{
    tp_tensor *x = tensor(m), *of[3] = {0}, **at = below(m, 2) ? of : NULL;
    const int a = axis(m);
    tp_tensor *y = tp_unique_along(x, a, at, at ? at + 1 : NULL, below(m, 2) ? of + 2 : NULL);
    return put_kinds(m, y, of);
}

TWO(tp_searchsorted, , false)
TWO(tp_isin)

CALL(tp_bincount)
{
    tp_tensor *x = integers(m), *w = below(m, 2) ? fellow(m, x) : NULL;
    const int64_t n = size(m);
    return put(m, BOTH(m, tp_bincount, x, w, n));
}

CALL(tp_histogram)
{
    tp_tensor *x = tensor(m);
    const int64_t n = size(m);
    const double lo = number(m), hi = number(m);
    return put(m, BOTH(m, tp_histogram, x, n, lo, hi));
}
