#include "nn/layer.h"
#include "tapir/random.h"

static tp_tensor *first_rows(const char *file, int line, tp_ctx *tp, int64_t n, int64_t size,
                             int64_t padding)
{
    tp_tensor *rows = tp_normal(tp, TP_F32, TP_DIMS(n, size), 0, 1);
    if (padding < 0)
        return rows;
    tp_tensor *number = tp_unsqueeze(tp_arange(tp, TP_I64, n, 0, 1), 1);
    return tp_where(tp_eq(number, padding), 0, rows);
}

/* What is no size is told as such. */
static tp_tensor *refuse_padding(const char *file, int line, tp_ctx *tp, int64_t n,
                                 int64_t padding)
{
    tp_tensor *t = tp_full(tp, TP_F32, TP_DIMS(n, padding < 0 ? ~padding : padding, 0), 0);
    return tp_failed(t)
               ? t
               : tpi_layer_fail(file, line, tp, TP_E_VALUE,
                                "the padding %lld is neither -1 nor one of the %lld words",
                                (long long)padding, (long long)n);
}

TPI_LAYER(tp_embedding, tp_embedding_new,
          (tp_params * p, const char *name, int64_t n, int64_t size, int64_t padding), p, name,
          n, size, padding)
{
    tp_params *part = tpi_layer_part(file, line, p, name);
    tp_ctx *tp = tp_params_ctx(part);
    tp_embedding l = {.padding = padding};
    if (padding < -1 || padding >= n)
        l.table = refuse_padding(file, line, tp, n, padding);
    else
        l.table = tp_params_add(part, "table", first_rows(file, line, tp, n, size, padding));
    return l;
}

TPI_LAYER_OF(tp_layer_of_embedding, tp_embedding, "embedding", tp_embedding_apply(l, x))
