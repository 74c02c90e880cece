/* What a shape rule says of symbolic sizes is what it says of their values, or it refuses those (a
 * run asks again when the sizes are known: whether a window fits may depend on them).
 *
 *     ir_symbolic [SEED [COUNT]] */
#include "ir/notation.h"
#include "ir_any.h"
#include "op/op.h"

static long count = 100000, refused;

static tp_tensor *any_placeholder(tp_graph *g, int like_rank)
{
    static const tp_dtype often[] = {TP_F32, TP_F32, TP_F32, TP_I64, TP_F64, TP_BOOL};
    int64_t shape[TP_MAX_RANK];
    int rank = (int)below(5);
    if (like_rank >= 0 && below(2))
        rank = like_rank;
    if (spatial && below(8))
        rank = (int)spatial + 2;
    for (int i = 0; i < rank; i++)
        do
            shape[i] = any_size();
        while (shape[i] == TPI_NO_DIM);
    char name[24];
    snprintf(name, sizeof name, "x%d", g->n_nodes);
    return tp_placeholder(g, name, spatial ? TP_F32 : often[below(6)], rank, shape);
}

/* Attributes that the op's operand makes sense of, now and then. */
static void fit_attrs(const tpi_op *op, const tpi_dims *dims, const tp_tensor *x, char *attrs)
{
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        tpi_list *l = (tpi_list *)(void *)(attrs + a->offset);
        if (a->type != TPI_ATTR_DIMS || spatial || below(3) == 0)
            continue;
        l->n = 0;
        for (int i = 0; i < x->rank && l->n < TP_MAX_RANK; i++) {
            const int64_t with_next =
                i + 1 < x->rank && below(2)
                    ? tpi_dim_mul((tpi_dims *)(uintptr_t)dims, x->shape[i], x->shape[i + 1])
                    : TPI_NO_DIM;
            l->v[l->n++] = with_next == TPI_NO_DIM ? x->shape[i] : with_next;
            i += with_next != TPI_NO_DIM;
        }
    }
}

/* False when a size has no value there: a run checks that. */
static bool attrs_at(const tpi_dims *dims, const tpi_op *op, char *attrs,
                     const int64_t *symbols)
{
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        int64_t n = a->type == TPI_ATTR_DIM, *v = (int64_t *)(void *)(attrs + a->offset);
        if (a->type == TPI_ATTR_DIMS)
            n = *v++;
        for (int64_t i = 0; i < n; i++) {
            v[i] = tpi_dim_eval(dims, v[i], symbols);
            if (v[i] < 0)
                return false;
        }
    }
    return true;
}

static bool shape_at(const tpi_dims *dims, int rank, const int64_t *shape,
                     const int64_t *symbols, int64_t *out)
{
    for (int i = 0; i < rank; i++) {
        out[i] = tpi_dim_eval(dims, shape[i], symbols);
        if (out[i] < 0)
            return false;
    }
    return true;
}

static void check_at(const tpi_infer *q, int64_t a, int64_t b, uint64_t at, long *compared)
{
    const tpi_dims *dims = q->dims;
    int64_t symbols[2], shape[TP_MAX_RANK], sizes[TP_MAX_RANK];
    _Alignas(8) char attrs[512];
    for (int i = 0; i < 2; i++) /* in the order of the table */
        symbols[i] =
            i < tpi_dim_n_symbols(dims) && *tpi_dim_symbol_name(dims, i) == 'b' ? b : a;
    if (q->op->attrs_size)
        memcpy(attrs, q->attrs, q->op->attrs_size);
    if (!shape_at(dims, q->rank, q->shape, symbols, shape) ||
        !attrs_at(dims, q->op, attrs, symbols))
        return;
    tp_tensor *in[4];
    for (int i = 0; i < q->n_in; i++) {
        const tp_tensor *x = q->in[i];
        if (!shape_at(dims, x->rank, x->shape, symbols, sizes))
            return;
        in[i] = tpi_tensor(q->ctx, TPI_AT(NULL, 0), (tp_dtype)x->dtype, x->rank, sizes);
        assert_non_null(in[i]);
    }
    tpi_infer known = {.op = q->op,
                       .ctx = q->ctx,
                       .n_in = q->n_in,
                       .in = in,
                       .attrs = q->op->attrs_size ? attrs : NULL};
    tpi_rule_error why;
    const tp_status s = tpi_infer_again(&known, &why);
    if (s == TP_OK && tpi_check_answer(&known, q->dtype, q->rank, shape, &why)) {
        ++*compared;
        return;
    }
    if (s != TP_OK) {
        refused++;
        return;
    }
    tpi_str text = TPI_STR(&q->ctx->mem);
    for (int i = 0; i < q->n_in; i++) {
        tpi_str_put(&text, i ? ", [" : "[");
        for (int k = 0; k < q->in[i]->rank; k++) {
            tpi_str_put(&text, k ? "," : "");
            tpi_dim_print(dims, q->in[i]->shape[k], &text);
        }
        tpi_str_put(&text, "]");
    }
    tpi_put_attrs(&text, dims, q->op, q->attrs, 0);
    tpi_str_put(&text, " : ");
    tpi_put_type(&text, dims, q->dtype, q->rank, q->shape);
    fail_msg("ir_symbolic %llu 1: %s of %s is accepted; with a = %d, b = %d: %s",
             (unsigned long long)at, q->op->name, text.text, (int)a, (int)b, why.text);
}

static void symbolic(void **state)
{
    tp_ctx *tp = *state;
    long compared[TPI_N_OPS] = {0}, all = 0;
    for (long n = 0; n < count; n++) {
        const uint64_t at = seed;
        tp_scope_begin(tp);
        tp_graph *g = sizes_of = tp_graph_new(tp);
        const tpi_op *op = tpi_ops[below(TPI_N_OPS)];
        spatial = below(2) ? 1 + below(2) : 0;
        tp_tensor *in[4];
        const int n_in = op->n_in < 0 ? 1 + (int)below(3) : op->n_in;
        for (int i = 0; i < n_in && i < 4; i++)
            in[i] = i && below(3) ? in[below(i)] : any_placeholder(g, i ? in[0]->rank : -1);
        _Alignas(8) char attrs[512] = {0};
        assert_true(op->attrs_size <= sizeof attrs);
        fill_attrs(op, attrs);
        if (n_in)
            fit_attrs(op, g->dims, in[0], attrs);
        tpi_rule_error why;
        if (is_plain(op) && op->infer && tpi_check_attrs(g->dims, op, attrs, &why)) {
            tpi_infer q = {.op = op,
                           .ctx = tp,
                           .dims = g->dims,
                           .n_in = n_in,
                           .in = in,
                           .attrs = op->attrs_size ? attrs : NULL};
            if (tpi_infer_again(&q, &why) == TP_OK)
                for (int64_t k = 0; k < 16; k++)
                    check_at(&q, k % 4, k / 4, at, &compared[op->code]);
        }
        tp_scope_end(tp);
        tp_graph_free(g);
    }
    sizes_of = NULL;
    for (int i = 0; i < TPI_N_OPS; i++) {
        all += compared[i];
        if (count >= 100000 && is_plain(tpi_ops[i]) && !compared[i])
            print_message("%s was never accepted\n", tpi_ops[i]->name);
    }
    print_message("%ld shapes were compared, %ld refused\n", all, refused);
    assert_true(all >= count / 10);
    assert_true(refused <= all / 20);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        count = strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {CASE(symbolic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
