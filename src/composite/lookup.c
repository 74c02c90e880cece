/* The rows of an embedding. */
#include "composite/composite.h"

/* What is here is looked at before the rows are read: what is no word is told as such. */
static tp_tensor *refuse_words(tpi_at at, const tp_tensor *table, const tp_tensor *index)
{
    const int64_t words = table->shape[0];
    if (!tpi_is_here(index) || index->dtype == TP_U64 || tpi_dim_is_symbolic(words))
        return NULL;
    const int64_t n = tpi_count(index), bad = tpi_first_outside(index, 0, -words, words - 1);
    return bad == n ? NULL
                    : tpi_fail(index->ctx, at, "embedding", TP_E_VALUE,
                               "index %lld at position %lld is none of the %lld words",
                               (long long)tpi_whole_at(index, bad), (long long)bad,
                               (long long)words);
}

/* Rows of padding are zeros whatever the table has, so that no gradient comes to it. */
TPI_COMPOSITE(tp_embedding_apply, (const tp_embedding *l, tp_tensor *index), l, index)
{
    const char *what = "embedding";
    if (!l)
        return tpi_fail(tp_ctx_of(index), at, what, TP_E_NULL, "the layer is NULL");
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, l->table);
    if (failed || (failed = tpi_refuse_integer(at, what, l->table, "indices", 1, index)))
        return failed;
    if (l->table->rank > 0 && (failed = refuse_words(at, l->table, index)))
        return failed;
    tp_tensor *y = tp_gather(l->table, index, 0);
    if (l->padding < 0 || y->status != TP_OK)
        return y;
    return tp_where(tp_unsqueeze(tp_eq(index, l->padding), -1), 0, y);
}
