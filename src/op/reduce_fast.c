/* Reductions by the row and column kernels. A layout they cannot read is copied first, some
 * results at a time, so that the elements of each lie in their order. */
#include "kernel/host/team_host.h"
#include "kernel/text/reduce_int.h"
#include "op/reduction.h"

#include <string.h>

/* ---- integers and bool -------------------------------------------------------------------------- */

/* Sums and products wrap: those of signed elements are those of unsigned ones. */
#define WRAPPING(op, t)                                                                        \
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

/* Extremes: elements with some bits flipped are unsigned numbers whose greatest is looked for, 0 where there are none; its
 * bits are flipped back. */
#define GREATEST(t)                                                                            \
    static void greatest_rows_##t(int64_t rows, int64_t n, const tpk_##t *x, int64_t stride,   \
                                  tpk_##t *y, tpk_##t flip)                                    \
    {                                                                                          \
        for (int64_t i = 0; i < rows; i++, x += stride) {                                      \
            tpk_##t r = 0;                                                                     \
            for (int64_t j = 0; j < n; j++)                                                    \
                r = tpk_max_##t(r, x[j] ^ flip);                                               \
            y[i] = r ^ flip;                                                                   \
        }                                                                                      \
    }                                                                                          \
    /* Four rows at a time. y may be the first row. */                                         \
    static void greatest_columns_##t(int64_t rows, int64_t n, const tpk_##t *x,                \
                                     int64_t stride, tpk_##t *y, tpk_##t flip)                 \
    {                                                                                          \
        tpk_##t r[TPK_COLUMNS];                                                                \
        for (int64_t m, at = 0; at < n; at += m, x += m, y += m) {                             \
            const tpk_##t *p = x;                                                              \
            int64_t i = 0;                                                                     \
            m = TPK_LEAST(n - at, TPK_COLUMNS);                                                \
            memset(r, 0, (size_t)m * sizeof *r);                                               \
            for (; i + 4 <= rows; i += 4, p += 4 * stride) {                                   \
                const tpk_##t *q = p + 2 * stride;                                             \
                for (int64_t j = 0; j < m; j++) {                                              \
                    const tpk_##t a = tpk_max_##t(p[j] ^ flip, p[j + stride] ^ flip);          \
                    const tpk_##t b = tpk_max_##t(q[j] ^ flip, q[j + stride] ^ flip);          \
                    r[j] = tpk_max_##t(r[j], tpk_max_##t(a, b));                               \
                }                                                                              \
            }                                                                                  \
            for (; i < rows; i++, p += stride)                                                 \
                for (int64_t j = 0; j < m; j++)                                                \
                    r[j] = tpk_max_##t(r[j], p[j] ^ flip);                                     \
            for (int64_t j = 0; j < m; j++)                                                    \
                y[j] = r[j] ^ flip;                                                            \
        }                                                                                      \
    }

#define EXTREME(op, t, as, flip)                                                               \
    static void op##_rows_##t(int64_t rows, int64_t n, const void *x, int64_t stride, void *y) \
    {                                                                                          \
        greatest_rows_##as(rows, n, x, stride, y, flip);                                       \
    }                                                                                          \
    static void op##_columns_##t(int64_t rows, int64_t n, const void *x, int64_t stride,       \
                                 void *y)                                                      \
    {                                                                                          \
        greatest_columns_##as(rows, n, x, stride, y, flip);                                    \
    }
#define REDUCE_INTS(i, u, most)                                                                \
    WRAPPING(sum, u)                                                                           \
    WRAPPING(prod, u)                                                                          \
    GREATEST(u)                                                                                \
    EXTREME(max, u, u, 0)                                                                      \
    EXTREME(min, u, u, (tpk_##u) - 1)                                                          \
    EXTREME(max, i, u, (tpk_##u) ~(tpk_##u)most)                                               \
    EXTREME(min, i, u, most)
REDUCE_INTS(i8, u8, INT8_MAX)
REDUCE_INTS(i16, u16, INT16_MAX)
REDUCE_INTS(i32, u32, INT32_MAX)
REDUCE_INTS(i64, u64, INT64_MAX)
#pragma push_macro("bool")
#undef bool
EXTREME(max, bool, u8, 0)
EXTREME(min, bool, u8, 1)
#pragma pop_macro("bool")

#define SAME(op, by)                                                                           \
    [TP_I8] = op##_##by##_u8, [TP_I16] = op##_##by##_u16, [TP_I32] = op##_##by##_u32,          \
    [TP_I64] = op##_##by##_u64, UNSIGNED(op, by)
#define UNSIGNED(op, by)                                                                       \
    [TP_U8] = op##_##by##_u8, [TP_U16] = op##_##by##_u16, [TP_U32] = op##_##by##_u32,          \
    [TP_U64] = op##_##by##_u64
#define EACH(op, by)                                                                           \
    [TP_I8] = op##_##by##_i8, [TP_I16] = op##_##by##_i16, [TP_I32] = op##_##by##_i32,          \
    [TP_I64] = op##_##by##_i64, UNSIGNED(op, by)
/* clang-format off */
static const tpi_reduce int_rows[TPI_N_REDUCES][TP_N_DTYPES] = {
    [TPI_REDUCE_SUM] = {SAME(sum, rows)},
    [TPI_REDUCE_PROD] = {SAME(prod, rows)},
    [TPI_REDUCE_MAX] = {[TP_BOOL] = max_rows_bool, EACH(max, rows)},
    [TPI_REDUCE_MIN] = {[TP_BOOL] = min_rows_bool, EACH(min, rows)},
};
static const tpi_reduce int_columns[TPI_N_REDUCES][TP_N_DTYPES] = {
    [TPI_REDUCE_SUM] = {SAME(sum, columns)},
    [TPI_REDUCE_PROD] = {SAME(prod, columns)},
    [TPI_REDUCE_MAX] = {[TP_BOOL] = max_columns_bool, EACH(max, columns)},
    [TPI_REDUCE_MIN] = {[TP_BOOL] = min_columns_bool, EACH(min, columns)},
};
/* clang-format on */

tpi_reducers tpi_reducers_of(const tp_ctx *ctx, int code, tp_dtype dtype)
{
    const int f = dtype == TP_F64;
    if (dtype < TP_F32)
        return (tpi_reducers){int_rows[code][dtype], int_columns[code][dtype], NULL};
    return (tpi_reducers){ctx->kernels->reduce_rows[code][f],
                          ctx->kernels->reduce_columns[code][f],
                          ctx->kernels->reduce_more[code][f]};
}

/* ---- layouts -------------------------------------------------------------------------------------- */

enum {
    GROUP = 16,         /* results whose elements are copied together, */
    MAX_COPY = 1 << 20, /* unless that takes more bytes for two of them */
    TILE = 512,         /* results whose lanes are kept together */
    BLOCK = TPK_BLOCK
};

typedef struct job {
    const tpi_reduction *d;
    tpi_team team;
    tpi_reducers by;
    size_t size;
    int64_t n, stride; /* the innermost kept axis */
    char *room;        /* of copies or lanes; NULL: the kernel reads x where it lies */
    int64_t n_group;   /* results at a time when there is room */
    bool lanes;        /* room is for lanes */
} job;

/* Piece by piece, so that reads run along one operand while writes stay in cache. */
#define COPY(bytes)                                                                            \
    for (int64_t i0 = 0; i0 < ni; i0 += 64)                                                    \
        for (int64_t j = 0; j < nj; j++)                                                       \
            for (int64_t i = i0; i < ni && i < i0 + 64; i++)                                   \
    memcpy(to + (i * to_i + j * to_j) * (bytes), from + (i * from_i + j * from_j) * (bytes),   \
           bytes)
static void copy_plane(size_t size, int64_t ni, int64_t nj, char *to, int64_t to_i,
                       int64_t to_j, const char *from, int64_t from_i, int64_t from_j)
{
    if (size == 4)
        COPY(4);
    else if (size == 8)
        COPY(8);
    else if (size == 1)
        COPY(1);
    else
        COPY(2);
}

/* The elements of `n` results, `stride` apart, into the room: by lanes [n][count], by columns
 * [count][n]. */
static void copy_group(const job *w, const char *x, int64_t n)
{
    const tpi_reduction *d = w->d;
    const int last = d->reduced_rank - 1;
    const int64_t inner = d->reduced_n[last], size = (int64_t)w->size;
    const int64_t to_i = d->by_lanes ? 1 : n, to_j = d->by_lanes ? d->count : 1;
    int64_t at[TP_MAX_RANK] = {0};
    for (int64_t k = 0; k < d->count; k += inner) {
        char *to = w->room + k * to_i * size;
        if (n == 1 && d->reduced_s[last] == 1)
            memcpy(to, x, (size_t)(inner * size));
        else
            copy_plane(w->size, inner, n, to, to_i, to_j, x, d->reduced_s[last], w->stride);
        for (int i = last - 1; i >= 0; i--) {
            const int64_t step = d->reduced_s[i] * size;
            x += step;
            if (++at[i] < d->reduced_n[i])
                break;
            at[i] = 0;
            x -= step * d->reduced_n[i];
        }
    }
}

/* Results side by side, whose elements are `s` apart: the lanes of all of them are columns, and
 * two rows of columns join as two lanes or two blocks do. */
static void reduce_by_lanes(const job *w, const char *x, int64_t n, char *y)
{
    const tpi_reduction *d = w->d;
    const int64_t size = (int64_t)w->size, s = d->reduced_s[0], row = n * size;
    const int64_t lanes = TPK_LANES(d->count), n_blocks = (d->count + BLOCK - 1) / BLOCK;
    char *lane = w->room, *block = w->room + lanes * row;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t first = b * BLOCK, left = d->count - first;
        const int64_t count = left < BLOCK ? left : BLOCK;
        for (int64_t l = 0; l < lanes; l++)
            w->by.columns(l < count ? (count - l - 1) / lanes + 1 : 0, n,
                          x + (first + l) * s * size, lanes * s, lane + l * row);
        for (int64_t half = lanes / 2; half > 0; half /= 2)
            w->by.columns(2, half * n, lane, half * n, lane);
        memcpy(block + b * row, lane, (size_t)row);
    }
    for (int64_t left = n_blocks; left > 1; left = (left + 1) / 2) {
        for (int64_t i = 0; i + 1 < left; i += 2)
            w->by.columns(2, n, block + i * row, n, block + i / 2 * row);
        if (left % 2)
            memmove(block + left / 2 * row, block + (left - 1) * row, (size_t)row);
    }
    memcpy(y, block, (size_t)row);
}

/* Results of one line whose elements the kernel reads where they lie, a part of them per thread. */
typedef struct line {
    const job *w;
    const char *x;
    char *y;
    int64_t each;
} line;

static void line_part(void *env, size_t part)
{
    const line *l = env;
    const job *w = l->w;
    const tpi_reduction *d = w->d;
    const int64_t from = (int64_t)part * l->each;
    const int64_t n = w->n - from < l->each ? w->n - from : l->each;
    const char *x = l->x + from * w->stride * (int64_t)w->size;
    char *y = l->y + (size_t)from * w->size;
    if (n > 0 && d->by_lanes)
        w->by.rows(n, d->count, x, w->stride, y);
    else if (n > 0)
        w->by.columns(d->count, n, x, d->reduced_s[0], y);
}

static void reduce_line(const job *w, const char *x, char *y)
{
    const tpi_reduction *d = w->d;
    if (!w->room) {
        const int64_t parts = tpi_team_parts(&w->team, (double)d->count * (double)w->n);
        line l = {w, x, y, (w->n + parts - 1) / parts};
        tpi_pool_run(w->team.pool, line_part, &l, (size_t)parts);
        return;
    }
    for (int64_t j = 0; j < w->n; j += w->n_group) {
        const int64_t n = w->n - j < w->n_group ? w->n - j : w->n_group;
        const char *from = x + j * w->stride * (int64_t)w->size;
        char *to = y + (size_t)j * w->size;
        if (w->lanes) {
            reduce_by_lanes(w, from, n, to);
            continue;
        }
        copy_group(w, from, n);
        if (d->by_lanes)
            w->by.rows(n, d->count, w->room, d->count, to);
        else
            w->by.columns(d->count, n, w->room, n, to);
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

/* How many bytes of room to take. */
static size_t plan_room(job *w)
{
    const tpi_reduction *d = w->d;
    const size_t one = (size_t)d->count * w->size;
    w->lanes = d->by_lanes && d->reduced_rank == 1 && w->stride == 1 && w->n >= GROUP;
    if (w->lanes) {
        w->n_group = w->n < TILE ? w->n : TILE;
        const int64_t blocks = (d->count + BLOCK - 1) / BLOCK;
        return (size_t)((TPK_LANES(d->count) + blocks) * w->n_group) * w->size;
    }
    const bool runs = d->by_lanes && d->reduced_s[d->reduced_rank - 1] == 1;
    w->n_group = runs || one * 2 > MAX_COPY ? 1 : w->n < GROUP ? w->n : GROUP;
    return one * (size_t)w->n_group;
}

void tpi_reduce_fast(const tpi_reduction *d, tp_ctx *ctx, const char *x, char *y)
{
    if (d->n_out == 0)
        return;
    job w = {
        .d = d,
        .team = {.kernels = ctx->kernels, .pool = ctx->pool},
        .size = tp_dtype_size(d->dtype),
        .n = 1
    };
    w.by = tpi_reducers_of(ctx, d->code, d->dtype);
    const int outer = d->kept_rank > 0 ? d->kept_rank - 1 : 0;
    if (d->kept_rank > 0) {
        w.n = d->kept_n[outer];
        w.stride = d->kept_s[outer];
    }
    size_t bytes = 0;
    if (!lies_well(&w)) {
        bytes = plan_room(&w);
        w.room = tpi_take(&ctx->mem, bytes);
        if (!w.room) {
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
    tpi_give_back(&ctx->mem, w.room, bytes);
}
