/* Reductions by the row and column kernels. A layout they cannot read is copied first, some
 * results at a time, so that the elements of each lie in their order. */
#include "kernel/reduce_int.h"
#include "op/reduction.h"

#include <string.h>

/* ---- integers and bool -------------------------------------------------------------------------- */

#define REDUCE(op, t)                                                                          \
    static void op##_rows_##t(int64_t rows, int64_t n, const void *x, int64_t stride, void *y) \
    {                                                                                          \
        for (int64_t i = 0; i < rows; i++)                                                     \
            ((tpk_##t *)y)[i] = tpk_reduce_##op##_##t((const tpk_##t *)x + i * stride, n);     \
    }                                                                                          \
    static void op##_columns_##t(int64_t rows, int64_t n, const void *x, int64_t stride,       \
                                 void *y)                                                      \
    {                                                                                          \
        tpk_reduce_##op##_columns_##t(rows, n, x, stride, y);                                  \
    }
#define REDUCE_INT(t) REDUCE(sum, t) REDUCE(prod, t) REDUCE(max, t) REDUCE(min, t)
REDUCE_INT(i8)
REDUCE_INT(i16)
REDUCE_INT(i32)
REDUCE_INT(i64)
REDUCE_INT(u8)
REDUCE_INT(u16)
REDUCE_INT(u32)
REDUCE_INT(u64)
#pragma push_macro("bool")
#undef bool
REDUCE(max, bool)
REDUCE(min, bool)
#pragma pop_macro("bool")

#define INTS(op, by)                                                                           \
    [TP_I8] = op##_##by##_i8, [TP_I16] = op##_##by##_i16, [TP_I32] = op##_##by##_i32,          \
    [TP_I64] = op##_##by##_i64, [TP_U8] = op##_##by##_u8, [TP_U16] = op##_##by##_u16,          \
    [TP_U32] = op##_##by##_u32, [TP_U64] = op##_##by##_u64
static const tpi_reduce int_rows[TPI_N_REDUCES][TP_N_DTYPES] = {
    [TPI_REDUCE_SUM] = {INTS(sum, rows)},
    [TPI_REDUCE_PROD] = {                         INTS(prod,   rows)     },
    [TPI_REDUCE_MAX] = { [TP_BOOL] = max_rows_bool,   INTS(max,        rows)},
    [TPI_REDUCE_MIN] = { [TP_BOOL] = min_rows_bool,   INTS(min,        rows)},
};
static const tpi_reduce int_columns[TPI_N_REDUCES][TP_N_DTYPES] = {
    [TPI_REDUCE_SUM] = {INTS(sum,  columns)},
    [TPI_REDUCE_PROD] = {                            INTS(prod, columns)        },
    [TPI_REDUCE_MAX] = { [TP_BOOL] = max_columns_bool, INTS(max,         columns)},
    [TPI_REDUCE_MIN] = { [TP_BOOL] = min_columns_bool, INTS(min,         columns)},
};

/* ---- layouts -------------------------------------------------------------------------------------- */

enum {
    GROUP = 16,        /* results whose elements are copied together, */
    MAX_COPY = 1 << 20 /* unless that takes more bytes for two of them */
};

typedef struct job {
    const tpi_reduction *d;
    tpi_reduce rows, columns;
    size_t size;
    int64_t n, stride; /* the innermost kept axis */
    char *copy;        /* NULL: the kernel reads x where it lies */
    int64_t n_group;   /* results at a time when there is a copy */
} job;

/* The elements of `n` results, `stride` apart, into `copy`: by lanes [n][count], by columns
 * [count][n]. */
static void copy_group(const job *w, const char *x, int64_t n)
{
    const tpi_reduction *d = w->d;
    const size_t size = w->size;
    const int last = d->reduced_rank - 1;
    const int64_t inner = d->reduced_n[last], inner_step = d->reduced_s[last] * (int64_t)size;
    const int64_t next = w->stride * (int64_t)size;
    int64_t at[TP_MAX_RANK] = {0};
    for (int64_t k = 0; k < d->count; k += inner) {
        if (d->by_lanes && inner_step == (int64_t)size)
            for (int64_t j = 0; j < n; j++)
                memcpy(w->copy + (size_t)(j * d->count + k) * size, x + j * next,
                       (size_t)inner * size);
        else
            for (int64_t i = 0; i < inner; i++) {
                const char *p = x + i * inner_step;
                const int64_t to = d->by_lanes ? k + i : (k + i) * n;
                const int64_t step = d->by_lanes ? d->count : 1;
                char *q = w->copy + (size_t)to * size;
                for (int64_t j = 0; j < n; j++, q += (size_t)step * size)
                    memcpy(q, p + j * next, size);
            }
        for (int i = last - 1; i >= 0; i--) {
            const int64_t step = d->reduced_s[i] * (int64_t)size;
            x += step;
            if (++at[i] < d->reduced_n[i])
                break;
            at[i] = 0;
            x -= step * d->reduced_n[i];
        }
    }
}

static void reduce_line(const job *w, const char *x, char *y)
{
    const tpi_reduction *d = w->d;
    if (!w->copy) {
        if (d->by_lanes)
            w->rows(w->n, d->count, x, w->stride, y);
        else
            w->columns(d->count, w->n, x, d->reduced_s[0], y);
        return;
    }
    for (int64_t j = 0; j < w->n; j += w->n_group) {
        const int64_t n = w->n - j < w->n_group ? w->n - j : w->n_group;
        copy_group(w, x + j * w->stride * (int64_t)w->size, n);
        char *to = y + (size_t)j * w->size;
        if (d->by_lanes)
            w->rows(n, d->count, w->copy, d->count, to);
        else
            w->columns(d->count, n, w->copy, n, to);
    }
}

/* May the kernel read the operand where it lies? */
static bool lies_well(const job *w)
{
    const tpi_reduction *d = w->d;
    if (d->count == 0)
        return true;
    return d->reduced_rank == 1 &&
           (d->by_lanes ? d->reduced_s[0] == 1 : w->n == 1 || w->stride == 1);
}

void tpi_reduce_fast(const tpi_reduction *d, tp_ctx *ctx, const char *x, char *y)
{
    if (d->n_out == 0)
        return;
    job w = {.d = d, .size = tp_dtype_size(d->dtype), .n = 1};
    const bool is_float = d->dtype >= TP_F32;
    const int f = d->dtype == TP_F64;
    w.rows = is_float ? ctx->kernels->reduce_rows[d->code][f] : int_rows[d->code][d->dtype];
    w.columns =
        is_float ? ctx->kernels->reduce_columns[d->code][f] : int_columns[d->code][d->dtype];
    const int outer = d->kept_rank > 0 ? d->kept_rank - 1 : 0;
    if (d->kept_rank > 0) {
        w.n = d->kept_n[outer];
        w.stride = d->kept_s[outer];
    }
    size_t bytes = 0;
    if (!lies_well(&w)) {
        const bool pieces = d->by_lanes && d->reduced_s[d->reduced_rank - 1] == 1;
        const int64_t room = MAX_COPY / (int64_t)w.size / d->count;
        w.n_group = pieces || room < 2 ? 1 : w.n < GROUP ? w.n : GROUP;
        bytes = (size_t)d->count * (size_t)w.n_group * w.size;
        w.copy = tpi_take(&ctx->mem, bytes);
        if (!w.copy) {
            tpi_reduce_reference(d, x, y);
            return;
        }
    }
    int64_t at[TP_MAX_RANK] = {0};
    for (int64_t k = 0; k < d->n_out; k += w.n, y += (size_t)w.n * w.size) {
        reduce_line(&w, x, y);
        for (int i = outer - 1; i >= 0; i--) {
            const int64_t step = d->kept_s[i] * (int64_t)w.size;
            x += step;
            if (++at[i] < d->kept_n[i])
                break;
            at[i] = 0;
            x -= step * d->kept_n[i];
        }
    }
    tpi_give_back(&ctx->mem, w.copy, bytes);
}
