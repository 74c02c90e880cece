/* Any node that the checks of a text let through can be computed: no operand, attribute or size
 * that a file may hold reads or writes out of bounds (run it under the sanitizers).
 *
 *     ir_any_node [SEED [COUNT]] */
#include "ir_any.h"
#include "op/call.h"
#include "op/op.h"
#include "tapir/composites.h"

enum { MOST_BYTES = 8 << 20 };
static long count = 130000;

static void *small_alloc(void *user, size_t size)
{
    return size > MOST_BYTES ? NULL : unit_alloc(user, size);
}

static tp_tensor *any_tensor(tp_ctx *tp, int like_rank)
{
    static const tp_dtype often[] = {TP_F32, TP_F32, TP_F32, TP_I64, TP_F64, TP_BOOL};
    tp_dtype dtype = below(8) ? often[below(6)] : (tp_dtype)below(TP_N_DTYPES);
    int rank = (int)(below(10) ? below(5) : below(TP_MAX_RANK + 1));
    if (like_rank >= 0 && below(2))
        rank = like_rank;
    if (spatial && below(8)) {
        dtype = below(4) ? TP_F32 : dtype;
        rank = (int)spatial + 2;
    }
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < rank; i++)
        shape[i] = below(6) ? 1 + below(spatial && i < 2 ? 2 : 3) : below(7);
    tp_tensor *t = tp_arange(tp, dtype, rank ? 6561 : 1, (double)below(3) - 1, 1);
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    if (rank)
        t = tp_slice(t, 0, 0, n < 6561 ? n : 6561, 1);
    tp_tensor *y = tp_reshape(t, rank, shape);
    return tp_failed(y) ? t : below(6) || rank < 2 ? y : tp_swap(y, 0, rank - 1);
}

/* For scatters: places, often inside, and a source of the right shape. */
static void fit_scatter(tp_ctx *tp, const tpi_op *op, const char *attrs, tp_tensor **in)
{
    const int64_t axis = *(const int64_t *)(const void *)(attrs + op->attrs->offset);
    const bool along = strstr(op->name, "along");
    tp_tensor *places = along ? tp_clip(tp_cast(in[0], TP_I64), 0, (double)below(3))
                              : tp_arange(tp, TP_I64, 1 + below(2), (double)below(2) - 1, 1);
    tp_tensor *source =
        along ? tp_take_along(in[0], places, (int)axis) : tp_gather(in[0], places, (int)axis);
    if (axis < 0 || axis > 8 || tp_failed(source))
        return;
    in[1] = places;
    in[2] = source;
}

/* For systems and determinants: [..., n, n], whose diagonal outweighs its rows so that it is not singular, the factors
 * that the op takes of it, and a right side [..., n, k]. */
static void fit_system(tp_ctx *tp, const tpi_op *op, tp_tensor **in)
{
    const tp_dtype dtype = below(2) ? TP_F32 : TP_F64;
    const int64_t n = below(5), stack = 1 + below(3);
    tp_tensor *all = tp_reshape(tp_arange(tp, dtype, n * n, 0, 0.125), TP_DIMS(n, n));
    tp_tensor *a = tp_add(all, tp_mul(tp_eye(tp, dtype, n, n, 0), tp_scalar(tp, dtype, 9)));
    a = below(2) ? tp_broadcast(a, TP_DIMS(stack, n, n)) : a;
    in[0] = below(2) ? tp_swap(a, -1, -2) : a;
    const tpi_op *factors = op == &tpi_op_lstsq ? &tpi_op_svd : &tpi_op_lu;
    in[1] = tpi_apply(TPI_AT(NULL, 0), factors, TPI_IN(in[0]), NULL);
    in[2] = op->n_in == 3 ? tp_slice(a, -1, 0, below(3), 1) : in[2];
}

/* For Fourier transforms: n numbers [..., n, 2], roots for at least as many, and factors. Returns how many operands. */
static int fit_transform(tp_ctx *tp, const tpi_op *op, char *attrs, tp_tensor **in)
{
    const tp_dtype dtype = below(2) ? TP_F32 : TP_F64;
    const bool any = op == &tpi_op_fft;
    const int64_t n = any ? 1 + below(6) : 2 + 2 * below(4), m = any ? n + below(3) : n;
    const int64_t stack = 1 + below(3);
    in[0] = tp_full(tp, dtype, TP_DIMS(stack, any ? n : n / 2 + 1, 2), 0.5);
    if (op == &tpi_op_rfft)
        in[0] = tp_full(tp, dtype, TP_DIMS(stack, n), 0.5);
    in[1] = tp_full(tp, dtype, TP_DIMS(m, 2), 1);
    if (!any)
        return 2;
    const int64_t factors = below(4);
    memcpy(attrs + op->attrs[1].offset, &factors, sizeof factors);
    int n_in = 2;
    if (factors & 1)
        in[n_in++] = tp_full(tp, dtype, TP_DIMS(n, 2), 1);
    if (factors & 2)
        in[n_in++] = in[1];
    return n_in;
}

/* For results of calls, which are nodes only where a gradient may be asked. */
static void fit_result(tp_ctx *tp, tp_tensor **in)
{
    tp_tensor *p = tp_param(tp_scalar(tp, TP_F32, 1), "p");
    in[1] = tpi_call_new(TPI_AT(NULL, 0), 1, 1, &p);
}

/* Operands that fit each other, for ops that any ones hardly ever do. Returns how many. */
static int fit(tp_ctx *tp, const tpi_op *op, char *attrs, int n_in, tp_tensor **in)
{
    if (below(3) == 0)
        return n_in;
    if (op == &tpi_op_fft || op == &tpi_op_rfft || op == &tpi_op_irfft)
        return fit_transform(tp, op, attrs, in);
    if (op == &tpi_op_solve || op == &tpi_op_det || op == &tpi_op_lstsq)
        fit_system(tp, op, in);
    else if (op == &tpi_op_result)
        fit_result(tp, in);
    else if (op->n_in == 3 && op->kind == TPI_CALL && op->attrs)
        fit_scatter(tp, op, attrs, in);
    return n_in;
}

static void any_node(void **state)
{
    (void)state;
    unit_memory memory = {0};
    const tp_allocator a = {small_alloc, unit_release, &memory};
    tp_ctx *tp = NULL;
    long computed[TPI_N_OPS] = {0};
    for (long n = 0; n < count; n++) {
        const uint64_t at = seed;
        if (n % 500 == 0) { /* builds that keep what is dead must not keep all of it */
            tp_close(tp);
            assert_int_equal(memory.bytes, 0);
            tp = tp_open(&(tp_options){.allocator = &a});
        }
        const tpi_op *op = tpi_ops[below(TPI_N_OPS)];
        spatial = below(2) ? 1 + below(2) : 0;
        tp_scope_begin(tp);
        tp_tensor *in[4] = {NULL};
        int n_in = op->n_in < 0 ? 1 + (int)below(3) : op->n_in;
        for (int i = 0; i < n_in && i < 4; i++)
            in[i] = i && below(3) ? in[below(i)] : any_tensor(tp, i ? in[0]->rank : -1);
        _Alignas(8) char attrs[512] = {0};
        assert_true(op->attrs_size <= sizeof attrs);
        fill_attrs(op, attrs);
        n_in = fit(tp, op, attrs, n_in, in);
        if (is_plain(op)) {
            if (getenv("TAPIR_TEST_TRACE"))
                fprintf(stderr, "%s: ir_any_node %llu 1\n", op->name, (unsigned long long)at);
            const tp_tensor *y =
                tpi_apply(TPI_AT(NULL, 0), op, n_in, in, op->attrs_size ? attrs : NULL);
            computed[op->code] += y->status == TP_OK;
            if (y->status == TP_E_BUG)
                fail_msg("ir_any_node %llu 1: %s", (unsigned long long)at, tp_error_text(y));
        }
        tp_clear_error(tp);
        tp_scope_end(tp);
    }
    tp_close(tp);
    assert_int_equal(memory.bytes, 0);
    if (count < 20000)
        return;
    int rare = 0;
    for (int i = 0; i < TPI_N_OPS; i++) {
        if (!is_plain(tpi_ops[i]) || computed[i] >= 3)
            continue;
        print_message("%s was computed %ld times only\n", tpi_ops[i]->name, computed[i]);
        rare++;
    }
    assert_true(rare <= 3);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        count = strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
