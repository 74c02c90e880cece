/* Reductions, element by element: the oracle. It shares no code with src/kernel/text/reduce.h. */
#include "op/elementwise.h"
#include "op/reduction.h"

#include <string.h>

enum { BLOCK = 4096, MAX_LANES = 64, MAX_BYTES = 8 };

typedef struct oracle {
    const tpi_reduction *d;
    size_t size; /* of an element */
    tpi_scalar_fn step;
    _Alignas(MAX_BYTES) char empty[MAX_BYTES]; /* what no element at all gives */
    int lanes;
    /* the walk over the elements of one result, in order */
    const char *p;
    int64_t at[TP_MAX_RANK], left;
} oracle;

static void next_element(oracle *o)
{
    const tpi_reduction *d = o->d;
    for (int i = d->reduced_rank - 1; i >= 0; i--) {
        const int64_t step = d->reduced_s[i] * (int64_t)o->size;
        o->p += step;
        if (++o->at[i] < d->reduced_n[i])
            return;
        o->at[i] = 0;
        o->p -= step * d->reduced_n[i];
    }
}

/* The next block: element k joins lane k mod `lanes`, then half of the lanes joins the other. */
static void take_block(oracle *o, char *result)
{
    _Alignas(MAX_BYTES) char lane[MAX_LANES][MAX_BYTES];
    const int64_t n = o->left < BLOCK ? o->left : BLOCK;
    for (int l = 0; l < o->lanes; l++)
        memcpy(lane[l], o->empty, o->size);
    for (int64_t k = 0; k < n; k++, next_element(o)) {
        char *mine = lane[k % o->lanes];
        o->step(mine, mine, o->p, NULL);
    }
    for (int half = o->lanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            o->step(lane[l], lane[l], lane[l + half], NULL);
    memcpy(result, lane[0], o->size);
    o->left -= n;
}

/* Neighbours are joined, then the joined ones, and so on: the left part is the largest power of
 * two below n. */
static void take_tree(oracle *o, int64_t n, char *result)
{
    if (n == 1) {
        take_block(o, result);
        return;
    }
    int64_t left = 1;
    while (left * 2 < n)
        left *= 2;
    _Alignas(MAX_BYTES) char a[MAX_BYTES], b[MAX_BYTES];
    take_tree(o, left, a);
    take_tree(o, n - left, b);
    o->step(result, a, b, NULL);
}

/* One lane; blocks from the left. */
static void take_column(oracle *o, char *result)
{
    take_block(o, result);
    while (o->left > 0) {
        _Alignas(MAX_BYTES) char b[MAX_BYTES];
        take_block(o, b);
        o->step(result, result, b, NULL);
    }
}

static tpi_elem step_of(int code, tp_dtype t)
{
    switch (code) {
    case TPI_REDUCE_SUM:
        return TPI_ELEM_add;
    case TPI_REDUCE_PROD:
        return TPI_ELEM_mul;
    case TPI_REDUCE_MAX:
        return t == TP_BOOL ? TPI_ELEM_or : TPI_ELEM_max;
    default:
        return t == TP_BOOL ? TPI_ELEM_and : TPI_ELEM_min;
    }
}

/* The least value for a maximum, the greatest for a minimum. */
static void set_empty(oracle *o, int code, tp_dtype t)
{
    const double inf = (double)__builtin_inff();
    if (code == TPI_REDUCE_SUM || code == TPI_REDUCE_PROD)
        tpi_store_f64(t, o->empty, code == TPI_REDUCE_PROD);
    else if (t == TP_BOOL)
        o->empty[0] = code == TPI_REDUCE_MIN;
    else
        tpi_store_f64(t, o->empty, code == TPI_REDUCE_MAX ? -inf : inf);
}

void tpi_reduce_reference(const tpi_reduction *d, const char *x, char *y)
{
    oracle o = {.d = d, .size = tp_dtype_size(d->dtype)};
    o.step = tpi_elem_scalar(step_of(d->code, d->dtype), d->dtype);
    o.lanes = !d->by_lanes ? 1 : d->count < 256 ? 16 : 64;
    set_empty(&o, d->code, d->dtype);
    int64_t at[TP_MAX_RANK] = {0};
    for (int64_t k = 0; k < d->n_out; k++, y += o.size) {
        o.p = x;
        o.left = d->count;
        if (d->by_lanes)
            take_tree(&o, d->count <= BLOCK ? 1 : (d->count + BLOCK - 1) / BLOCK, y);
        else
            take_column(&o, y);
        for (int i = d->kept_rank - 1; i >= 0; i--) {
            const int64_t step = d->kept_s[i] * (int64_t)o.size;
            x += step;
            if (++at[i] < d->kept_n[i])
                break;
            at[i] = 0;
            x -= step * d->kept_n[i];
        }
    }
}
