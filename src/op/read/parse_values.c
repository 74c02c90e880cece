/* Memory of variables, and constants. */
#include "op/read/parser.h"

#include <string.h>

/* Of variables and constants whose values are not in the text; a short text must not take all
 * memory. */
static const int64_t zero_bytes_max = (int64_t)1 << 30;

static bool copy_stored(tpi_reader *P, tp_tensor *x, const tpi_blob *b, size_t bytes)
{
    memcpy(x->data, b->bytes, bytes);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        tpi_swap_bytes(x->data, bytes, tp_dtype_size(b->dtype));
    for (size_t i = 0; b->dtype == TP_BOOL && i < bytes; i++)
        if (x->data[i] != 0 && x->data[i] != 1)
            return tpi_read_bad(P, "a bool that is stored is neither 0 nor 1");
    return true;
}

/* A tensor with the values of blob `k`, or zeros when the text stands alone. */
tp_tensor *tpi_read_value(tpi_reader *P, const tpi_text_type *t, int k)
{
    size_t bytes = tp_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes *= (size_t)t->shape[i];
    const tpi_blob *b = P->blobs ? &P->blobs[k] : NULL;
    if (P->blobs && (k >= P->n_blobs || b->dtype != t->dtype || b->rank != t->rank ||
                     memcmp(b->shape, t->shape, sizeof(int64_t) * (size_t)t->rank) != 0)) {
        tpi_read_bad(P, "the value that is stored for this line has another type or shape");
        return NULL;
    }
    if (!b && (bytes > (size_t)zero_bytes_max ||
               (P->zero_bytes += (int64_t)bytes) > zero_bytes_max)) {
        tpi_read_bad(P, "values that are not in the text take more than 1 GiB");
        return NULL;
    }
    tp_tensor *x = tpi_tensor_new(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (x->status != TP_OK) {
        tpi_read_no_memory(P);
        return NULL;
    }
    if (!b)
        memset(x->data, 0, bytes);
    return !b || copy_stored(P, x, b, bytes) ? x : NULL;
}

static tp_tensor *view(tpi_reader *P, int64_t offset, const tpi_list *strides, tp_tensor *of,
                       const tpi_text_type *t)
{
    int64_t low = offset, high = offset, count = 1;
    bool ok = strides->n == t->rank && (int)t->dtype == of->dtype;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i] ? 1 : 0;
    for (int i = 0; i < t->rank && ok && count; i++) {
        int64_t span, *end = strides->v[i] < 0 ? &low : &high;
        ok = !__builtin_mul_overflow(t->shape[i] - 1, strides->v[i], &span) &&
             !__builtin_add_overflow(*end, span, end);
    }
    const int64_t room = tpi_count(of);
    if (!ok || low < 0 || high < 0 || (count ? high >= room : offset != 0)) {
        tpi_read_bad(P, "the view reaches outside of the memory it is of");
        return NULL;
    }
    tp_tensor *x = tpi_tensor(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (!x) {
        tpi_read_no_memory(P);
        return NULL;
    }
    memcpy(x->stride, strides->v, sizeof(int64_t) * (size_t)t->rank);
    tpi_tensor_share(x, of, offset);
    tpi_note_contiguous(x);
    return x;
}

/* `@2 "w" = state : f32[3]` */
bool tpi_read_cell(tpi_reader *P)
{
    int64_t k = 0;
    tpi_text_name name;
    P->p++;
    if (!tpi_read_number(P, &k))
        return false;
    if (k != P->cells.n)
        return tpi_read_bad(P, "the next of these lines is @%d", P->cells.n);
    if (!tpi_read_maybe_name(P, &name))
        return false;
    tp_tensor *x = NULL;
    tpi_text_type t;
    if (!tpi_read_expect(P, '=')) {
    } else if (tpi_read_eat_word(P, "view")) {
        int of = 0;
        int64_t offset = 0;
        tpi_list strides = {0};
        if (tpi_read_reference(P, '@', P->cells.n, "memory", &of) && tpi_read_expect(P, '{') &&
            (tpi_read_eat_word(P, "offset") || tpi_read_bad(P, "offset is missing")) &&
            tpi_read_expect(P, '=') && tpi_read_number(P, &offset) && tpi_read_expect(P, ',') &&
            (tpi_read_eat_word(P, "strides") || tpi_read_bad(P, "strides is missing")) &&
            tpi_read_expect(P, '=') && tpi_read_list(P, false, false, &strides.n, strides.v) &&
            tpi_read_expect(P, '}') && tpi_read_expect(P, ':') && tpi_read_type(P, false, &t))
            x = view(P, offset, &strides, P->cells.v[of], &t);
    } else {
        const bool param = tpi_read_eat_word(P, "param");
        if (!param && !tpi_read_eat_word(P, "state"))
            tpi_read_bad(P, "state, param or view is missing");
        else if (tpi_read_expect(P, ':') && tpi_read_type(P, false, &t))
            x = tpi_read_value(P, &t, P->n_memory++);
        if (x && param && t.dtype != TP_F32 && t.dtype != TP_F64) {
            tpi_read_bad(P, "a param is f32 or f64");
            x = NULL;
        }
        if (x)
            x->flags |=
                (uint8_t)(TPI_VARIABLE | TPI_STATE | (param ? TPI_LEAF | TPI_REQUIRES : 0));
    }
    if (!x) {
        tpi_strfree(&P->ctx->mem, name.text);
        return false;
    }
    x->name = name.text;
    tpi_nodes_push(&P->cells, x);
    return P->cells.failed ? tpi_read_no_memory(P) : tpi_read_end_of_line(P);
}

/* The elements between `p` and `limit`. */
tp_tensor *tpi_read_constant(tpi_reader *P, const char *p, const char *limit,
                             const tpi_text_type *t)
{
    const size_t elem = tp_dtype_size(t->dtype);
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i];
    if (count > limit - p) {
        tpi_read_bad(P, "the type has more elements than there are values");
        return NULL;
    }
    tp_tensor *x = tpi_tensor_new(P->ctx, TPI_AT(NULL, 0), t->dtype, t->rank, t->shape);
    if (x->status != TP_OK) {
        tpi_read_no_memory(P);
        return NULL;
    }
    bool ok = t->rank == 0 || (p < limit && *p++ == '[');
    for (int64_t i = 0; i < count && ok; i++) {
        ok = i == 0 || (p < limit && *p++ == ',');
        while (p < limit && *p == ' ')
            p++;
        p = ok ? tpi_scan_element(p, limit, t->dtype, x->data + (size_t)i * elem) : NULL;
        ok = p != NULL;
    }
    ok = ok && (t->rank == 0 || (p < limit && *p++ == ']'));
    while (ok && p < limit && *p == ' ')
        p++;
    if (!ok || p != limit) {
        tpi_read_bad(P, "the values do not fit the type");
        return NULL;
    }
    return x;
}
