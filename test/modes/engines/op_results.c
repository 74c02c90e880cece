/* What the headers and docs/numerics.md say that an op gives, as values: eagerly and by each engine. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

enum { MOST = 4 };

/* An expression over a and b, of n elements each, and what comes out of it, as f64. */
typedef struct row {
    const char *text;
    tp_tensor *(*fn)(tp_tensor *a, tp_tensor *b);
    tp_dtype dtype;
    int n, n_out;
    double a[MOST], b[MOST], want[MOST];
} row;

/* clang-format off */
#define LIST(...) {__VA_ARGS__}
/* clang-format on */
#define NAMED(line) row_##line
#define NAME(line) NAMED(line)

#define FLOATS(n, fn, ...) ROW(F32, n, fn, __VA_ARGS__)
#define ROW(type, n, expression, in_a, in_b, n_out, want)                                      \
    static tp_tensor *NAME(__LINE__)(tp_tensor * a, tp_tensor * b)                             \
    {                                                                                          \
        (void)a;                                                                               \
        (void)b;                                                                               \
        return expression;                                                                     \
    }
#include "op_results.def"
#undef FLOATS
#undef ROW

#define FLOATS(...) ROW(F32, __VA_ARGS__) ROW(F64, __VA_ARGS__)
#define ROW(type, n, expression, in_a, in_b, n_out, want)                                      \
    {#expression, NAME(__LINE__), TP_##type, n, n_out, LIST in_a, LIST in_b, LIST want},
static const row rows[] = {
#include "op_results.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* How many results are not the row's, bit by bit; NaNs are one value. */
static int n_wrong(const row *r, const char *way, tp_tensor *y)
{
    double got[MOST];
    if (tp_count(y) != r->n_out || tp_read(y, got, sizeof *got * (size_t)r->n_out) != TP_OK)
        fail_msg("%s, %s: %d elements: %s", way, r->text, (int)tp_count(y), tp_error_text(y));
    int bad = 0;
    for (int i = 0; i < r->n_out; i++) {
        const double want = r->want[i];
        if (isnan(want) ? !isnan(got[i]) : memcmp(&got[i], &want, sizeof want) != 0) {
            print_error("%s, %s of %s: element %d is %.17g, not %.17g\n", way, r->text,
                        tp_dtype_name(r->dtype), i, got[i], want);
            bad++;
        }
    }
    return bad;
}

static void results(void **state)
{
    tp_ctx *tp = *state;
    static const char *const engines[] = {"auto", "reference", "C", "tiles"};
    static char name[N_ROWS][3][16];
    const char *in[2 * N_ROWS], *out[N_ROWS];
    tp_tensor *feeds[2 * N_ROWS], *y[N_ROWS];
    tp_graph *g = tp_graph_new(tp);
    int bad = 0;
    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];
        tp_tensor *symbolic[2];
        for (int k = 0; k < 2; k++) {
            tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(r->n), k ? r->b : r->a);
            snprintf(name[i][k], sizeof name[i][k], "%c%d", "ab"[k], i);
            in[2 * i + k] = name[i][k];
            feeds[2 * i + k] = tp_cast(x, r->dtype);
            symbolic[k] = tp_placeholder(g, name[i][k], r->dtype, TP_DIMS(r->n));
        }
        snprintf(name[i][2], sizeof name[i][2], "y%d", i);
        out[i] = name[i][2];
        tp_name(tp_cast(r->fn(symbolic[0], symbolic[1]), TP_F64), out[i]);
        bad += n_wrong(r, "eager", tp_cast(r->fn(feeds[2 * i], feeds[2 * i + 1]), TP_F64));
    }
    for (int e = TP_ENGINE_REFERENCE; e <= TP_ENGINE_TILES; e++) {
        tp_program *p = tp_graph_compile(g, 2 * N_ROWS, in, N_ROWS, out,
                                         &(tp_compile_options){.engine = (tp_engine)e});
        if (!p || tp_program_run(p, feeds, y) != TP_OK)
            fail_msg("%s: %s", engines[e], tp_error_message(tp));
        for (int i = 0; i < N_ROWS; i++)
            bad += n_wrong(&rows[i], engines[e], y[i]);
        tp_program_free(p);
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
