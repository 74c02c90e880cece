/* Texts of symbolic sizes: what is read, is printed so that it reads back as the same size, here
 * and in a table of its own, and has the same value there. */
#include "core/dim.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* Value 7 for every symbol: the same in all tables. */
static int64_t value_of(tpi_dims *d, int64_t dim)
{
    const int n = tpi_dim_n_symbols(d);
    int64_t *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int i = 0; v && i < n; i++)
        v[i] = 7;
    const int64_t out = v ? tpi_dim_eval(d, dim, v) : TPI_NO_DIM;
    free(v);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tp_ctx *tp = tp_open(NULL);
    if (!tp)
        return 0;
    tpi_dims *a = tpi_dims_new(tp), *b = tpi_dims_new(tp);
    const char *text = (const char *)data, *end;
    const int64_t dim = tpi_dim_parse(a, text, text + size, &end);
    check(end >= text && end <= text + size);
    if (dim != TPI_NO_DIM) {
        tpi_str s = TPI_STR(&tp->mem), again = TPI_STR(&tp->mem);
        tpi_dim_print(a, dim, &s);
        check(!s.failed && tpi_dim_parse(a, s.text, s.text + s.len, &end) == dim);
        check(end == s.text + s.len);
        const int64_t there = tpi_dim_import(b, a, dim);
        check(tpi_dim_parse(b, s.text, s.text + s.len, NULL) == there);
        tpi_dim_print(b, there, &again);
        check(strcmp(s.text, again.text) == 0);
        check(value_of(a, dim) == value_of(b, there));
        tpi_str_free(&s);
        tpi_str_free(&again);
    }
    tpi_dims_free(a);
    tpi_dims_free(b);
    tp_close(tp);
    return 0;
}
