#include "core/raw.h"

#include "core/copy.h"

#include <string.h>

int64_t tpi_raw_bytes(const tpi_raw *r, int rank, const int64_t *shape)
{
    int64_t bytes = r->size;
    bool empty = false, huge = false;
    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        huge |= shape[i] && __builtin_mul_overflow(bytes, shape[i], &bytes);
    }
    return huge ? -1 : empty ? 0 : bytes;
}

bool tpi_raw_is_plain(const tpi_raw *r, int rank, const int64_t *shape)
{
    int long_axes = 0;
    for (int i = 0; i < rank; i++)
        long_axes += shape[i] > 1;
    return !r->half && !r->swapped && r->dtype != TP_BOOL && !(r->fortran && long_axes > 1);
}

char *tpi_raw_place(const tpi_raw *r, size_t n, void *to)
{
    return (char *)to + n * (tp_dtype_size(r->dtype) - r->size);
}

static void swap_bytes(char *p, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++, p += size) {
        for (size_t j = 0; j < size / 2; j++) {
            const char c = p[j];
            p[j] = p[size - 1 - j];
            p[size - 1 - j] = c;
        }
    }
}

void tpi_raw_settle(const tpi_raw *r, size_t n, void *to)
{
    char *at = tpi_raw_place(r, n, to), *all = to;
    if (r->swapped)
        swap_bytes(at, r->size, n);
    if (r->half)
        tpi_halves_to((tpi_half)(r->half - 1), n, at, to);
    for (size_t i = 0; r->dtype == TP_BOOL && i < n; i++)
        all[i] = all[i] != 0;
}

void tpi_raw_gather(const tpi_raw *r, int rank, const int64_t *shape, const char *from,
                    char *to)
{
    int64_t stride[TP_MAX_RANK], own[TP_MAX_RANK], step = 1;
    for (int i = 0; i < rank; i++) {
        stride[i] = step;
        step *= shape[i];
    }
    if (!r->fortran) {
        memcpy(to, from, (size_t)step * r->size);
        return;
    }
    step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        own[i] = step;
        step *= shape[i];
    }
    tpi_copy_strided(r->size, rank, shape, to, own, from, stride);
}
