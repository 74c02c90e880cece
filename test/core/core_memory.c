/* Memory runs out at every place in turn: nothing crashes, nothing leaks, the error is told. */
#include "common/unit.h"
#include "core/dim.h"
#include "core/variable.h"

#include <unistd.h>

static char path[] = "core_memory-XXXXXX";

/* Uses everything once. True when nothing failed. */
static bool use_all(tp_ctx *tp)
{
    char text[4000];
    bool ok = true;
    ok &= tp_scope_begin(tp) == TP_OK;
    /* Larger than what is carved from chunks, so that most calls reach the allocator. */
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(200, 100), 1);
    tp_tensor *y = tp_arange(tp, TP_F32, 20000, 0, 1);
    tp_tensor *w = tp_param(x, "w");
    ok &= !tp_failed(w) && !tp_failed(y) && !tp_failed(tp_scalar_like(y, 3));
    tp_variable(y, "v");
    static float wrapped[4];
    tp_keep(tp_tensor_wrap(tp, TP_F32, TP_DIMS(4), wrapped, NULL, NULL));
    if (!tp_failed(w) && !tp_failed(x)) {
        tp_tensor *v = tpi_tensor(tp, TPI_AT(NULL, 0), TP_F32, 2, (int64_t[]){100, 200});
        if (v) { /* a transposed view: saved and assigned through a copy */
            tpi_tensor_share(v, w, 0);
            v->stride[0] = 1, v->stride[1] = 100;
            ok &= !tp_failed(tpi_assign_concrete(TPI_AT(NULL, 0), v, v));
            ok &= tp_npy_save(v, path) == TP_OK;
        }
    }
    ok &= !tp_failed(tp_npy_load(tp, path));
    ok &= tp_format(y, text, sizeof text) > 0;
    tp_name(x, "x");
    tpi_dims *d = tpi_dims_new(tp);
    if (d) {
        int64_t sum = 0;
        for (int i = 0; i < 40; i++) {
            char name[20];
            snprintf(name, sizeof name, "s%d", i);
            const int64_t s = tpi_dim_symbol(d, name);
            sum = tpi_dim_add(d, sum, tpi_dim_div(d, tpi_dim_mul(d, s, s), 3));
        }
        bool sized = sum != TPI_NO_DIM;
        tpi_str s = TPI_STR(&tp->mem);
        tpi_dim_print(d, sum, &s);
        sized &= !s.failed;
        tpi_str_free(&s);
        tpi_dims_free(d);
        if (!sized) /* whoever asks for sizes tells */
            tpi_no_memory(tp, TPI_AT(NULL, 0), "sizes");
    } else {
        tpi_no_memory(tp, TPI_AT(NULL, 0), "sizes");
    }
    tp_scope_end(tp);
    return ok && tp_error(tp) == TP_OK;
}

static void sweep(void **state)
{
    (void)state;
    long n = 1;
    for (bool done = false; !done; n++) {
        unit_memory m = {.fail_at = n};
        tp_ctx *tp = unit_open(&m);
        if (!tp) {
            assert_int_equal(m.bytes, 0);
            continue;
        }
        done = use_all(tp);
        if (!done && tp_error(tp) != TP_E_MEMORY && tp_error(tp) != TP_E_IO)
            fail_msg("allocation %ld failed, the error is %s: %s", n,
                     tp_status_name(tp_error(tp)), tp_error_message(tp));
        tp_close(tp);
        if (m.bytes)
            fail_msg("allocation %ld failed, %zu bytes leak", n, m.bytes);
        if (done)
            assert_true(m.calls < n);
    }
    print_message("%ld places\n", n - 1);
    assert_true(n > 5); /* hundreds in the stress build */
}

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    close(fd);
    const struct CMUnitTest tests[] = {cmocka_unit_test(sweep)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
