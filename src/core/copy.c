#include "core/copy.h"

#include "core/core.h"

#include <string.h>

typedef struct axis {
    int64_t n, dst, src;
} axis;

/* Drops axes of size 1 and joins those that are one run in both memories. */
static int simplify(int rank, const int64_t *shape, const int64_t *dst_stride,
                    const int64_t *src_stride, axis *out)
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        const axis a = {shape[i], dst_stride[i], src_stride[i]};
        if (a.n == 1)
            continue;
        if (n > 0 && out[n - 1].dst == a.n * a.dst && out[n - 1].src == a.n * a.src)
            out[n - 1] = (axis){out[n - 1].n * a.n, a.dst, a.src};
        else
            out[n++] = a;
    }
    if (n == 0)
        out[n++] = (axis){1, 1, 1};
    return n;
}

/* ---- rows -------------------------------------------------------------------------------------- */

typedef uint32_t words __attribute__((vector_size(16)));

#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#if __has_builtin(__builtin_shufflevector)
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (words){__VA_ARGS__})
#endif

static words load(const char *p)
{
    words v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* How many of n elements of four bytes are copied, of a row of which every other one is; what lies behind the last is
 * not read. */
static int64_t every_other(int64_t n, char *dst, const char *src)
{
    int64_t i = 0;
    for (; i + 4 < n; i += 4) {
        const words a = load(src + 8 * i), b = load(src + 8 * i + sizeof a);
        const words y = PICK(a, b, 0, 2, 4, 6);
        memcpy(dst + 4 * i, &y, sizeof y);
    }
    return i;
}

/* memcpy of a constant size is one move, and asks for no alignment. */
#define COPY_ROW(size)                                                                         \
    for (int64_t i = first; i < a->n; i++)                                                     \
        memcpy(dst + i * a->dst * (size), src + i * a->src * (size), (size));                  \
    break;

static void copy_row(size_t size, const axis *a, char *dst, const char *src)
{
    if (a->dst == 1 && a->src == 1) {
        memcpy(dst, src, (size_t)a->n * size);
        return;
    }
    const int64_t first =
        size == 4 && a->dst == 1 && a->src == 2 ? every_other(a->n, dst, src) : 0;
    switch (size) {
    case 1:
        COPY_ROW(1)
    case 2:
        COPY_ROW(2)
    case 4:
        COPY_ROW(4)
    default:
        COPY_ROW(8)
    }
}

/* ---- transposing ------------------------------------------------------------------------------- */

/* Four by four elements of four bytes: rows are `to` and `from` bytes apart. */
static inline void turn_four(char *dst, int64_t to, const char *src, int64_t from)
{
    const words a = load(src), b = load(src + from), c = load(src + 2 * from),
                d = load(src + 3 * from);
    const words ac = PICK(a, c, 0, 4, 1, 5), bd = PICK(b, d, 0, 4, 1, 5);
    const words ca = PICK(a, c, 2, 6, 3, 7), db = PICK(b, d, 2, 6, 3, 7);
    const words y[4] = {PICK(ac, bd, 0, 4, 1, 5), PICK(ac, bd, 2, 6, 3, 7),
                        PICK(ca, db, 0, 4, 1, 5), PICK(ca, db, 2, 6, 3, 7)};
    for (int k = 0; k < 4; k++)
        memcpy(dst + k * to, &y[k], sizeof y[k]);
}

enum { TILE = 16 }; /* elements of four bytes: a cache line */

static void turn_tile(char *dst, int64_t to, const char *src, int64_t from)
{
    for (int i = 0; i < TILE; i += 4)
        for (int j = 0; j < TILE; j += 4)
            turn_four(dst + i * to + 4 * j, to, src + j * from + 4 * i, from);
}

/* Two axes, each of which runs through one of the memories: in tiles, so that both are touched
 * by whole cache lines. */
static void copy_tiles(size_t size, const axis *a, const axis *b, char *dst, const char *src)
{
    const bool turns = size == 4 && a->src == 1 && b->dst == 1;
    for (int64_t i = 0; i < a->n; i += TILE) {
        const int64_t high = a->n - i < TILE ? a->n - i : TILE;
        for (int64_t j = 0; j < b->n; j += TILE) {
            axis row = *b;
            row.n = b->n - j < TILE ? b->n - j : TILE;
            char *to = dst + (i * a->dst + j * b->dst) * (int64_t)size;
            const char *from = src + (i * a->src + j * b->src) * (int64_t)size;
            if (turns && high == TILE && row.n == TILE) {
                turn_tile(to, 4 * a->dst, from, 4 * b->src);
                continue;
            }
            for (int64_t k = 0; k < high; k++)
                copy_row(size, &row, to + k * a->dst * (int64_t)size,
                         from + k * a->src * (int64_t)size);
        }
    }
}

/* ---- repeating --------------------------------------------------------------------------------- */

/* Each element `times` times, one after the other. */
#define REPEAT(type)                                                                           \
    for (int64_t i = first; i < n; i++) {                                                      \
        type v;                                                                                \
        memcpy(&v, src + i * step * (int64_t)sizeof v, sizeof v);                              \
        for (int64_t k = 0; k < times; k++)                                                    \
            memcpy(dst + (i * times + k) * (int64_t)sizeof v, &v, sizeof v);                   \
    }                                                                                          \
    break;

static int64_t repeat_words(int64_t n, int64_t times, char *dst, const char *src)
{
    int64_t i = 0;
    for (; times == 2 && i + 4 <= n; i += 4) {
        const words a = load(src + 4 * i);
        const words y[2] = {PICK(a, a, 0, 0, 1, 1), PICK(a, a, 2, 2, 3, 3)};
        memcpy(dst + 8 * i, y, sizeof y);
    }
    for (; times == 4 && i + 4 <= n; i += 4) {
        const words a = load(src + 4 * i);
        const words y[4] = {PICK(a, a, 0, 0, 0, 0), PICK(a, a, 1, 1, 1, 1),
                            PICK(a, a, 2, 2, 2, 2), PICK(a, a, 3, 3, 3, 3)};
        memcpy(dst + 16 * i, y, sizeof y);
    }
    return i;
}

static void repeat_row(size_t size, const axis *a, int64_t times, char *dst, const char *src)
{
    const int64_t n = a->n, step = a->src;
    const int64_t first = size == 4 && step == 1 ? repeat_words(n, times, dst, src) : 0;
    switch (size) {
    case 1:
        REPEAT(uint8_t)
    case 2:
        REPEAT(uint16_t)
    case 4:
        REPEAT(uint32_t)
    default:
        REPEAT(uint64_t)
    }
}

/* Is the last axis that of repetitions, of elements that follow one another in dst? */
static bool repeats(int n, const axis *axes)
{
    const axis *row = &axes[n - 1];
    return n > 1 && row->src == 0 && row->dst == 1 && row[-1].dst == row->n;
}

/* Which axis before the last has the smallest step through src, when the last has a large one
 * there: it goes second to last. */
static bool pair_for_tiles(int n, axis *axes)
{
    const int64_t step = axes[n - 1].src < 0 ? -axes[n - 1].src : axes[n - 1].src;
    if (n < 2 || step < 8 || axes[n - 1].n < 8)
        return false;
    for (int i = n - 2; i >= 0; i--) {
        if (axes[i].src != 1 && axes[i].src != -1)
            continue;
        const axis a = axes[i];
        memmove(&axes[i], &axes[i + 1], (size_t)(n - 2 - i) * sizeof a);
        axes[n - 2] = a;
        return true;
    }
    return false;
}

void tpi_copy_strided(size_t size, int rank, const int64_t *shape, void *dst,
                      const int64_t *dst_stride, const void *src, const int64_t *src_stride)
{
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 0)
            return;
    }
    axis axes[TP_MAX_RANK];
    int n = simplify(rank, shape, dst_stride, src_stride, axes);
    const axis *row = &axes[n - 1];
    const bool repeated = repeats(n, axes), tiles = !repeated && pair_for_tiles(n, axes);
    n -= repeated || tiles ? 2 : 1; /* the outer axes */
    int64_t at[TP_MAX_RANK] = {0};
    char *d = dst;
    const char *s = src;
    for (;;) {
        if (tiles)
            copy_tiles(size, row - 1, row, d, s);
        else if (repeated)
            repeat_row(size, row - 1, row->n, d, s);
        else
            copy_row(size, row, d, s);
        int i = n - 1;
        for (; i >= 0; i--) {
            d += axes[i].dst * (int64_t)size;
            s += axes[i].src * (int64_t)size;
            if (++at[i] < axes[i].n)
                break;
            d -= axes[i].dst * axes[i].n * (int64_t)size;
            s -= axes[i].src * axes[i].n * (int64_t)size;
            at[i] = 0;
        }
        if (i < 0)
            return;
    }
}

/* Of shape's row-major order; sizes of 0 have been dealt with. */
static void row_major(int rank, const int64_t *shape, int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape[i];
    }
}

void tpi_copy_out(const tp_tensor *t, void *out)
{
    if (tpi_count(t) == 0)
        return;
    if (t->flags & TPI_CONTIGUOUS) {
        memcpy(out, t->data, tpi_bytes(t));
        return;
    }
    int64_t stride[TP_MAX_RANK];
    row_major(t->rank, t->shape, stride);
    tpi_copy_strided(tp_dtype_size((tp_dtype)t->dtype), t->rank, t->shape, out, stride, t->data,
                     t->stride);
}

void tpi_copy_in(tp_tensor *t, const void *in)
{
    if (tpi_count(t) == 0)
        return;
    if (t->flags & TPI_CONTIGUOUS) {
        memcpy(t->data, in, tpi_bytes(t));
        return;
    }
    int64_t stride[TP_MAX_RANK];
    row_major(t->rank, t->shape, stride);
    tpi_copy_strided(tp_dtype_size((tp_dtype)t->dtype), t->rank, t->shape, t->data, t->stride,
                     in, stride);
}
