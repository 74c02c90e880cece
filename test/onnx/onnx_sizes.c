/* Shapes that a model computes from a free dimension become sizes: one graph serves every batch, with
 * both executors. The idioms are those that exporters write. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

static void put_ints(bytes *g, const char *name, int n, const int64_t *v)
{
    const int64_t size = n;
    put_message(g, TPI_PB_GRAPH_INITIALIZER,
                tensor(name, TPI_PB_I64, 1, &size, v, (size_t)n * sizeof *v));
}

static void put_one(bytes *g, const char *name, int64_t v)
{
    put_message(g, TPI_PB_GRAPH_INITIALIZER, tensor(name, TPI_PB_I64, 0, NULL, &v, sizeof v));
}

static void put_node(bytes *g, const char *op, const char *const *in, const char *out)
{
    put_message(g, TPI_PB_GRAPH_NODE, node(op, in, NAMES(out)));
}

static void put_output(bytes *g, const char *name)
{
    put_message(g, TPI_PB_GRAPH_OUTPUT, value(name, TPI_PB_F32, 0, NULL, NULL));
}

static bytes sizes_model(void)
{
    static const float w[2] = {10, 20}, row[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t eight = 8;
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("x", TPI_PB_F32, 2, (const int64_t[]){-1, 4}, "batch size"));
    put_one(&g, "zero", 0);
    put_one(&g, "one", 1);
    put_ints(&g, "zeros", 1, (const int64_t[]){0});
    put_ints(&g, "2", 1, (const int64_t[]){2});
    put_ints(&g, "-1", 1, (const int64_t[]){-1});
    put_ints(&g, "2,2", 2, (const int64_t[]){2, 2});
    put_ints(&g, "-1,1,1", 3, (const int64_t[]){-1, 1, 1});
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("w", TPI_PB_F32, 2, (const int64_t[]){1, 2}, w, sizeof w));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("row", TPI_PB_F32, 1, &eight, row, sizeof row));
    put_node(&g, "Shape", NAMES("x"), "shape");
    put_node(&g, "Gather", NAMES("shape", "zero"), "n");
    put_node(&g, "Unsqueeze", NAMES("n", "zeros"), "n1");
    /* [batch, 2, 2] plus 0, 1, 2, ... along the batch */
    put_node(&g, "Concat", NAMES("n1", "2,2"), "target");
    put_node(&g, "Reshape", NAMES("x", "target"), "blocks");
    put_node(&g, "Range", NAMES("zero", "n", "one"), "places");
    bytes cast = node("Cast", NAMES("places"), NAMES("float places"));
    put_message(&cast, TPI_PB_NODE_ATTRIBUTE, attr_int("to", TPI_PB_F32));
    put_message(&g, TPI_PB_GRAPH_NODE, cast);
    put_node(&g, "Reshape", NAMES("float places", "-1,1,1"), "column");
    put_node(&g, "Add", NAMES("blocks", "column"), "a");
    /* w for each of the batch; -1 keeps a size */
    put_node(&g, "Concat", NAMES("n1", "-1"), "wish");
    put_node(&g, "Shape", NAMES("wish"), "rank");
    bytes ones = node("ConstantOfShape", NAMES("rank"), NAMES("ones"));
    bytes attr = {0};
    put_text(&attr, TPI_PB_ATTRIBUTE_NAME, "value");
    put_int(&attr, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_TENSOR);
    put_message(&attr, TPI_PB_ATTRIBUTE_T,
                tensor("", TPI_PB_I64, 1, &(int64_t){1}, &(int64_t){1}, sizeof(int64_t)));
    put_message(&ones, TPI_PB_NODE_ATTRIBUTE, attr);
    put_message(&g, TPI_PB_GRAPH_NODE, ones);
    put_node(&g, "Mul", NAMES("ones", "-1"), "minus");
    put_node(&g, "Equal", NAMES("wish", "minus"), "kept");
    put_node(&g, "Where", NAMES("kept", "ones", "wish"), "wide");
    put_node(&g, "Expand", NAMES("w", "wide"), "b");
    /* the first `batch` of a row */
    put_node(&g, "Slice", NAMES("row", "zeros", "n1", "zeros"), "c");
    /* [2 * batch, 2], and the number of elements as data */
    put_node(&g, "Mul", NAMES("n1", "2"), "twice");
    put_node(&g, "Concat", NAMES("twice", "2"), "tall");
    put_node(&g, "Reshape", NAMES("x", "tall"), "d");
    put_node(&g, "Size", NAMES("x"), "count");
    cast = node("Cast", NAMES("count"), NAMES("e"));
    put_message(&cast, TPI_PB_NODE_ATTRIBUTE, attr_int("to", TPI_PB_F32));
    put_message(&g, TPI_PB_GRAPH_NODE, cast);
    for (int i = 0; i < 5; i++)
        put_output(&g, (const char[]){(char)('a' + i), 0});
    return model(g);
}

static void expect(tp_tensor *t, int rank, const int64_t *shape, const float *want)
{
    assert_int_equal(tp_rank(t), rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(tp_size(t, i), shape[i]);
    const float *got = tp_data(tp_contiguous(t));
    for (int64_t i = 0; i < tp_count(t); i++)
        if (got[i] != want[i])
            fail_msg("element %lld: got %g, want %g", (long long)i, (double)got[i],
                     (double)want[i]);
}

static void every_batch(void **state)
{
    tp_ctx *tp = *state;
    bytes m = sizes_model();
    tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    if (!g)
        fail_msg("%s", tp_error_message(tp));
    const char *const feed[] = {"x"}, *const fetch[] = {"a", "b", "c", "d", "e"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int k = 0; k < 2; k++) {
        tp_program *p =
            tp_graph_compile(g, 1, feed, 5, fetch, &(tp_compile_options){.engine = engines[k]});
        for (int64_t n = 1; n <= 5; n += 2) {
            float x[20], a[20], b[10], c[5];
            for (int i = 0; i < 4 * n; i++) {
                x[i] = (float)(i * i);
                a[i] = x[i] + (float)(i / 4);
            }
            for (int i = 0; i < n; i++) {
                b[2 * i] = 10;
                b[2 * i + 1] = 20;
                c[i] = (float)i;
            }
            tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(n, 4), x), *out[5];
            if (tp_program_run(p, &in, out) != TP_OK)
                fail_msg("%s", tp_error_message(tp));
            expect(out[0], 3, (const int64_t[]){n, 2, 2}, a);
            expect(out[1], 2, (const int64_t[]){n, 2}, b);
            expect(out[2], 1, &n, c);
            expect(out[3], 2, (const int64_t[]){2 * n, 2}, x);
            expect(out[4], 0, NULL, &(float){(float)(4 * n)});
        }
    }
}

/* What is imported can be trained further. */
static void fine_tuning(void **state)
{
    tp_ctx *tp = *state;
    static const float w[2] = {3, 5}, x[4] = {1, 2, 3, 4};
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT,
                value("x", TPI_PB_F32, 2, (const int64_t[]){-1, 2}, "n"));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("w", TPI_PB_F32, 1, &(int64_t){2}, w, sizeof w));
    put_node(&g, "Mul", NAMES("x", "w"), "y");
    put_output(&g, "y");
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    if (!loaded)
        fail_msg("%s", tp_error_message(tp));
    tp_tensor *variable = tp_graph_variable(loaded, "w");
    tp_tensor *dw = tp_grad(tp_graph_output(loaded, 0), tp_graph_read(loaded, variable));
    assert_false(tp_failed(tp_name(dw, "dw")));
    tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), x), *out;
    assert_int_equal(tp_graph_run(loaded, TP_FEEDS({"x", in}), TP_NAMES("dw"), &out), TP_OK);
    expect(out, 1, (const int64_t[]){2}, (const float[]){4, 6});
    tp_assign(variable, tp_full(tp, TP_F32, TP_DIMS(2), 2));
    assert_int_equal(tp_graph_run(loaded, TP_FEEDS({"x", in}), TP_NAMES("y"), &out), TP_OK);
    expect(out, 2, (const int64_t[]){2, 2}, (const float[]){2, 4, 6, 8});
}

/* What is inside of a free axis is to be as long as what it adds. */
static void short_padding(void **state)
{
    tp_ctx *tp = *state;
    static const char *const modes[] = {"reflect", "wrap", "edge"};
    static const float x[4] =
        {
            1, 2, 3, 4
    },
                       want[3][6] = {
                           {3, 2, 1, 2, 3, 2}, {2, 3, 1, 2, 3, 1}, {1, 1, 1, 2, 3, 3}};
    for (int k = 0; k < 3; k++) {
        bytes g = {0}, n = node("Pad", NAMES("x", "pads"), NAMES("y"));
        put_message(&g, TPI_PB_GRAPH_INPUT,
                    value("x", TPI_PB_F32, 1, (const int64_t[]){-1}, "n"));
        put_ints(&g, "pads", 2, (const int64_t[]){2, 1});
        put_message(&n, TPI_PB_NODE_ATTRIBUTE, attr_text("mode", modes[k]));
        put_message(&g, TPI_PB_GRAPH_NODE, n);
        put_output(&g, "y");
        bytes m = model(g);
        tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
        free(m.at);
        if (!loaded)
            fail_msg("%s", tp_error_message(tp));
        for (int e = TP_ENGINE_REFERENCE; e <= TP_ENGINE_TILES; e++) {
            tp_program *p = tp_graph_compile(loaded, TP_NAMES("x"), TP_NAMES("y"),
                                             &(tp_compile_options){.engine = (tp_engine)e});
            for (int size = 3; size >= 0; size--) {
                tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(size), x), *out;
                const tp_status status = tp_program_run(p, &in, &out);
                if ((status == TP_OK) != (size > 0))
                    fail_msg("%s, engine %d, %d elements: %s", modes[k], e, size,
                             tp_status_name(status));
                if (size == 3)
                    expect(out, 1, &(int64_t){6}, want[k]);
                tp_clear_error(tp);
            }
            tp_program_free(p);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(every_batch), CASE(fine_tuning),
                                              CASE(short_padding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
