#include "op/sizes.h"

#include <stdio.h>

const char *tpi_sizes_format(tpi_sizes_text *buf, tp_ctx *ctx, const tpi_dims *dims, int64_t n,
                             const int64_t *v)
{
    tpi_str s = TPI_STR(&ctx->mem);
    tpi_str_put(&s, n < 0 ? "" : "[");
    for (int64_t i = 0; i < (n < 0 ? 1 : n); i++) {
        tpi_str_put(&s, i ? ", " : "");
        if (v[i] < 0 && !tpi_dim_is_size(dims, v[i]))
            tpi_str_printf(&s, v[i] == TPI_NO_DIM ? "?" : "%lld", (long long)v[i]);
        else
            tpi_dim_print(dims, v[i], &s);
    }
    tpi_str_put(&s, n < 0 ? "" : "]");
    snprintf(buf->text, sizeof buf->text, "%s", s.failed ? "[...]" : s.text);
    tpi_str_free(&s);
    return buf->text;
}

int64_t tpi_sizes_product(tpi_dims *dims, int64_t n, const int64_t *v)
{
    int64_t product = 1;
    for (int64_t i = 0; i < n; i++)
        product = tpi_dim_mul(dims, product, v[i]);
    return product;
}

bool tpi_sizes_strides(tpi_dims *dims, int64_t n, const int64_t *v, int64_t *stride)
{
    int64_t step = 1;
    for (int64_t i = n - 1; i >= 0; i--) {
        stride[i] = step;
        step = tpi_dim_mul(dims, step, v[i]);
    }
    return step != TPI_NO_DIM;
}

void tpi_attrs_at(const tpi_run_sizes *r, const tp_tensor *node, void *out)
{
    if (node->op->attrs_size)
        memcpy(out, node->attrs, node->op->attrs_size);
    for (const tpi_attr *a = node->op->attrs; a && a->name; a++) {
        int64_t n = 1, *v = (int64_t *)(void *)((char *)out + a->offset);
        if (a->type == TPI_ATTR_DIMS)
            n = *v++;
        else if (a->type != TPI_ATTR_DIM)
            continue;
        for (int64_t i = 0; i < n; i++)
            v[i] = tpi_size_at(r, v[i]);
    }
}

bool tpi_takes_any_size(const tp_tensor *t)
{
    const tpi_kind kind = t->op->kind;
    return t->op->any_size || kind == TPI_SOURCE || kind == TPI_ELEMENT || kind == TPI_REDUCE ||
           kind == TPI_SHAPE || kind == TPI_EFFECT || kind == TPI_BLOCK || kind == TPI_PORT;
}

bool tpi_sizes_may_agree(tpi_dims *dims, int64_t a, int64_t b)
{
    return dims && tpi_dim_is_symbolic(tpi_dim_sub(dims, a, b)) &&
           tpi_dim_is_symbolic(tpi_dim_sub(dims, b, a));
}

tp_tensor *tpi_refuse_operands(tpi_at at, const char *what, int n, tp_tensor *const *in)
{
    tp_ctx *ctx = NULL; /* of the first that has one, so that the error has a place */
    for (int i = 0; i < n && !ctx; i++)
        ctx = in[i] ? in[i]->ctx : NULL;
    for (int i = 0; i < n; i++) {
        tp_tensor *failed = tpi_refuse_operand(ctx, at, what, i, in[i]);
        if (failed)
            return failed;
    }
    return NULL;
}

bool tpi_refuse_axis(tpi_infer *q, int64_t axis)
{
    const tp_tensor *x = q->in[0];
    if (axis >= 0 && axis < x->rank)
        return true;
    return tpi_refuse(q, TP_E_AXIS, "axis %lld is out of range for %s", (long long)axis,
                      SHAPE(x));
}

tp_tensor *tpi_zeros(tpi_at at, tp_tensor *like, int rank, const int64_t *shape)
{
    tp_tensor *zero = tp_scalar_like_at(at.file, at.line, like, 0);
    return tp_broadcast_at(at.file, at.line, zero, rank, shape);
}
