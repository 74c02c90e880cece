/* Indices of ONNX are in [-size, size - 1] of their axis: each coordinate is held to its own, by every
 * engine, and where one out of range is not refused (OneHot) it is nowhere. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
enum { N_ENGINES = 3 };

/* y = op(x f32 [2, 3], index i64 [n, k], updates [2, 1] if it has them). */
static tp_graph *load(tp_ctx *tp, const char *op, int k, const char *attr, const char *third)
{
    bytes g = {0}, n = node(op, NAMES("x", "index", third), NAMES("y"));
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("x", TPI_PB_F32, 2, (const int64_t[]){2, 3}, NULL));
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("index", TPI_PB_I64, 2, (const int64_t[]){2, k}, NULL));
    static const float updates[2] = {10, 20};
    if (third && strcmp(op, "ScatterND") == 0)
        put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                    tensor("u", TPI_PB_F32, 1, &(int64_t){2}, updates, sizeof updates));
    else if (third)
        put_message(
            &g, TPI_PB_GRAPH_INITIALIZER,
            tensor("u", TPI_PB_F32, 2, (const int64_t[]){2, 1}, updates, sizeof updates));
    if (attr)
        put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_int(attr, 1));
    put_message(&g, TPI_PB_GRAPH_NODE, n);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 0, NULL, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    if (!loaded)
        fail_msg("%s: %s", op, tp_error_message(tp));
    return loaded;
}

static const float numbers[6] = {0, 1, 2, 3, 4, 5};

static void try_index(tp_ctx *tp, tp_graph *g, const char *op, int k, const int64_t *index,
                      const float *want, int n)
{
    tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(2, 3), numbers),
                       tp_tensor_new(tp, TP_I64, TP_DIMS(2, k), index)};
    for (int e = 0; e < N_ENGINES; e++) {
        tp_tensor *out;
        tp_program *p =
            tp_graph_compile(g, 2, (const char *[]){"x", "index"}, 1, (const char *[]){"y"},
                             &(tp_compile_options){.engine = engines[e]});
        const tp_status status = tp_program_run(p, in, &out);
        if (status != (want ? TP_OK : TP_E_VALUE))
            fail_msg("%s by engine %d at %lld, %lld: %s", op, e, (long long)index[0],
                     (long long)index[1], status == TP_OK ? "taken" : tp_error_message(tp));
        if (want)
            assert_memory_equal(tp_data(out), want, (size_t)n * sizeof *want);
        else
            assert_non_null(strstr(tp_error_message(tp), "out of range"));
        tp_clear_error(tp);
        tp_program_free(p);
    }
}

/* [row, column]: (0, 3) would be (1, 0) in one number, (1, -4) be (0, 2). */
static void gather_nd(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = load(tp, "GatherND", 2, NULL, NULL);
    const int64_t good[4] = {-1, 0, 0, -3}, wide[4] = {0, 3, 0, 0}, low[4] = {1, -4, 0, 0},
                  rows[4] = {0, 0, 2, -3}, far[4] = {0, INT64_MIN, 0, 0};
    try_index(tp, g, "GatherND", 2, good, (const float[]){3, 0}, 2);
    try_index(tp, g, "GatherND", 2, wide, NULL, 0);
    try_index(tp, g, "GatherND", 2, low, NULL, 0);
    try_index(tp, g, "GatherND", 2, rows, NULL, 0);
    try_index(tp, g, "GatherND", 2, far, NULL, 0);
}

static void scatter_nd(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = load(tp, "ScatterND", 2, NULL, "u");
    const int64_t good[4] = {-1, 0, 0, -3}, wide[4] = {0, 3, 0, 0}, low[4] = {1, -4, 0, 0};
    try_index(tp, g, "ScatterND", 2, good, (const float[]){20, 1, 2, 10, 4, 5}, 6);
    try_index(tp, g, "ScatterND", 2, wide, NULL, 0);
    try_index(tp, g, "ScatterND", 2, low, NULL, 0);
}

static void scatter_elements(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = load(tp, "ScatterElements", 1, "axis", "u");
    const int64_t good[2] = {-1, 0}, wide[2] = {3, 0}, low[2] = {0, -4};
    try_index(tp, g, "ScatterElements", 1, good, (const float[]){0, 1, 10, 20, 4, 5}, 6);
    try_index(tp, g, "ScatterElements", 1, wide, NULL, 0);
    try_index(tp, g, "ScatterElements", 1, low, NULL, 0);
}

static void one_hot(void **state)
{
    tp_ctx *tp = *state;
    const int64_t five = 5, index[6] = {-6, -5, -1, 0, 4, 5}, at[6] = {-1, 0, 4, 0, 4, -1};
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("index", TPI_PB_I64, 1, &(int64_t){6}, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("depth", TPI_PB_I64, 0, NULL, &five, sizeof five));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("values", TPI_PB_F32, 1, &(int64_t){2}, (const float[]){0, 1}, 8));
    put_message(&g, TPI_PB_GRAPH_NODE,
                node("OneHot", NAMES("index", "depth", "values"), NAMES("y")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 0, NULL, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    assert_non_null(loaded);
    tp_tensor *in = tp_tensor_new(tp, TP_I64, TP_DIMS(6), index), *out;
    for (int e = 0; e < N_ENGINES; e++) {
        tp_program *p =
            tp_graph_compile(loaded, 1, (const char *[]){"index"}, 1, (const char *[]){"y"},
                             &(tp_compile_options){.engine = engines[e]});
        assert_int_equal(tp_program_run(p, &in, &out), TP_OK);
        const float *y = tp_data(out);
        for (int i = 0; i < 30; i++)
            if (y[i] != (i % 5 == at[i / 5]))
                fail_msg("engine %d: index %lld, class %d: %g", e, (long long)index[i / 5],
                         i % 5, (double)y[i]);
    }
}

/* ---- results as large as values that a run has say ------------------------------------------------ */

enum { N_FED = 5, MOST_OUT = 4 };

/* Of x f32 [n], or of x and c bool [n]. */
static tp_graph *load_of_free(tp_ctx *tp, const char *op, bool has_c, int n_out, bool unsorted)
{
    static const char *const names[] = {"y0", "y1", "y2", "y3"};
    const int64_t free_size = -1;
    const char *out[MOST_OUT + 1] = {0};
    bytes g = {0};
    memcpy(out, names, (size_t)n_out * sizeof *out);
    bytes n = node(op, has_c ? NAMES("x", "c") : NAMES("x"), out);
    if (unsorted)
        put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_int("sorted", 0));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &free_size, "n"));
    if (has_c)
        put_message(&g, TPI_PB_GRAPH_INPUT, value("c", TPI_PB_BOOL, 1, &free_size, "n"));
    put_message(&g, TPI_PB_GRAPH_NODE, n);
    for (int i = 0; i < n_out; i++)
        put_message(&g, TPI_PB_GRAPH_OUTPUT, value(out[i], TPI_PB_F32, 0, NULL, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    if (!loaded)
        fail_msg("%s: %s", op, tp_error_message(tp));
    return loaded;
}

/* Results of n elements each, as numbers. */
static void try_found(tp_ctx *tp, tp_graph *g, bool has_c, int n_out, const float *x,
                      const double *want, int n)
{
    static const char *const names[] = {"y0", "y1", "y2", "y3"};
    const bool c[N_FED] = {false, true, true, false, true};
    tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(N_FED), x),
                       tp_tensor_new(tp, TP_BOOL, TP_DIMS(N_FED), c)};
    for (int e = 0; e < N_ENGINES; e++) {
        tp_tensor *out[MOST_OUT];
        tp_program *p = tp_graph_compile(g, 1 + has_c, (const char *[]){"x", "c"}, n_out, names,
                                         &(tp_compile_options){.engine = engines[e]});
        if (!p || tp_program_run(p, in, out) != TP_OK)
            fail_msg("engine %d: %s", e, tp_error_message(tp));
        for (int k = 0; k < n_out; k++) {
            const double *y = tp_data(tp_contiguous(tp_cast(out[k], TP_F64)));
            const int size = k == 2 ? N_FED : n; /* the kinds of all */
            assert_int_equal(tp_count(out[k]), size);
            for (int i = 0; i < size; i++)
                if (y[i] != want[i])
                    fail_msg("engine %d, result %d, element %d: %g, not %g", e, k, i, y[i],
                             want[i]);
            want += size;
        }
        for (int k = 0; k < n_out; k++)
            want -= k == 2 ? N_FED : n;
        tp_program_free(p);
    }
}

static void sizes_that_values_decide(void **state)
{
    tp_ctx *tp = *state;
    const float some[N_FED] = {0, 3, -1, 0, 3}, none[N_FED] = {0};
    tp_graph *g = load_of_free(tp, "NonZero", false, 1, false);
    try_found(tp, g, false, 1, some, (const double[]){1, 2, 4}, 3);
    try_found(tp, g, false, 1, none, (const double[]){0}, 0);
    g = load_of_free(tp, "Compress", true, 1, false);
    try_found(tp, g, true, 1, some, (const double[]){3, -1, 3}, 3);
    g = load_of_free(tp, "Unique", false, 4, false);
    try_found(tp, g, false, 4, some,
              (const double[]){-1, 0, 3, 2, 0, 1, 1, 2, 0, 1, 2, 1, 2, 2}, 3);
    try_found(tp, g, false, 4, none, (const double[]){0, 0, 0, 0, 0, 0, 0, 5}, 1);
    g = load_of_free(tp, "Unique", false, 4, true);
    try_found(tp, g, false, 4, some,
              (const double[]){0, 3, -1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 2, 1}, 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(gather_nd), CASE(scatter_nd),
                                              CASE(scatter_elements), CASE(one_hot),
                                              CASE(sizes_that_values_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
