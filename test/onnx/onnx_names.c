/* Names of a model's values: kept when it is loaded, or the load says that memory is out; and models
 * that leave names out. */
#include "common/unit.h"
#include "ir/graph_def.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

enum { N_NODES = 3 };

/* As many bytes as no pool of small blocks gives: each name is an allocation of its own. */
static const char *long_name(int i)
{
    static char names[N_NODES][100001];
    memset(names[i], 'a' + i, sizeof names[i] - 1);
    return names[i];
}

static bytes chain(void)
{
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, (const int64_t[]){4}, NULL));
    for (int i = 0; i < N_NODES; i++)
        put_message(&g, TPI_PB_GRAPH_NODE,
                    node("Tanh", NAMES(i ? long_name(i - 1) : "x"), NAMES(long_name(i))));
    put_message(&g, TPI_PB_GRAPH_OUTPUT,
                value(long_name(N_NODES - 1), TPI_PB_F32, 1, (const int64_t[]){4}, NULL));
    return model(g);
}

static void kept_or_no_memory(void **unused)
{
    (void)unused;
    bytes m = chain();
    bool done = false;
    for (long n = 1; !done; n++) {
        unit_memory memory = {0};
        tp_ctx *tp = unit_open(&memory);
        memory.fail_once = memory.calls + n;
        tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
        done = memory.calls < memory.fail_once;
        if (!g && tp_error(tp) != TP_E_MEMORY)
            fail_msg("allocation %ld failed, and what is said is %s", n, tp_error_message(tp));
        for (int i = 0; i < N_NODES && g; i++)
            if (!tpi_graph_by_name(g, long_name(i), strlen(long_name(i))))
                fail_msg("allocation %ld failed, and node %d has no name", n, i);
        assert_true(g || !done);
        tp_close(tp);
        assert_int_equal(memory.bytes, 0);
    }
    free(m.at);
}

/* An input without a name, beside options that name things by the empty text. */
static void left_out(void **state)
{
    tp_ctx *tp = *state;
    bytes g = {0}, type = {0}, own = {0}, input = {0}, scalar = {0};
    put_int(&own, TPI_PB_TENSOR_TYPE_ELEM_TYPE, TPI_PB_F32);
    put_message(&own, TPI_PB_TENSOR_TYPE_SHAPE, scalar);
    put_message(&type, TPI_PB_TYPE_TENSOR, own);
    put_message(&input, TPI_PB_VALUE_INFO_TYPE, type);
    put_message(&g, TPI_PB_GRAPH_INPUT, input);
    bytes m = model(g);
    const tp_feed empty = {"", tp_scalar(tp, TP_F32, 1)};
    assert_null(tp_onnx_load_bytes(tp, m.at, m.size, NULL,
                                   &(tp_onnx_load_options){.n_values = 1, .values = &empty}));
    assert_int_equal(tp_error(tp), TP_E_NAME);
    free(m.at);
}

/* Of a layer with a bias the product has the layer's name too: it is what takes the time. */
static void products(void **state)
{
    static const float numbers[9] = {1, 2, 3};
    tp_ctx *tp = *state;
    const int64_t image[4] = {1, 1, 4, 4}, filter[4] = {1, 1, 3, 3}, one = 1, pair[2] = {2, 2};
    bytes g = {0};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 4, image, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("f", TPI_PB_F32, 4, filter, numbers, 36));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("b", TPI_PB_F32, 1, &one, numbers, 4));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER, tensor("w", TPI_PB_F32, 2, pair, numbers, 16));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Conv", NAMES("x", "f", "b"), NAMES("c")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("ReduceMax", NAMES("c"), NAMES("top")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Flatten", NAMES("top"), NAMES("flat")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Add", NAMES("w", "flat"), NAMES("sum")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Gemm", NAMES("sum", "w", "b"), NAMES("y")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 2, pair, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    if (!loaded)
        fail_msg("%s", tp_error_message(tp));
    const char *const names[] = {"c", "c.conv", "y", "y.matmul"},
                      *ops[] = {"add", "conv", "add", "matmul"};
    for (int i = 0; i < 4; i++) {
        const tp_tensor *t = tpi_graph_by_name(loaded, names[i], strlen(names[i]));
        if (!t)
            fail_msg("no node has the name %s", names[i]);
        assert_string_equal(t->op->name, ops[i]);
    }
}

/* A recurrent layer is loops, and products that they go over: profiles name them by the layer. */
static void recurrent(void **state)
{
    enum { STEPS = 3, IN = 2, HIDDEN = 2, GATES = 4, DIRS = 2 };
    static const float numbers[DIRS * GATES * HIDDEN * HIDDEN] = {1, 2, 3};
    tp_ctx *tp = *state;
    const int64_t x[3] = {STEPS, 1, IN}, w[3] = {DIRS, GATES * HIDDEN, IN},
                  b[2] = {DIRS, 2 * GATES * HIDDEN}, y[4] = {STEPS, DIRS, 1, HIDDEN};
    bytes g = {0}, layer = node("LSTM", NAMES("x", "w", "w", "b"), NAMES("y"));
    put_message(&layer, TPI_PB_NODE_ATTRIBUTE, attr_text("direction", "bidirectional"));
    put_message(&layer, TPI_PB_NODE_ATTRIBUTE, attr_int("hidden_size", HIDDEN));
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 3, x, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("w", TPI_PB_F32, 3, w, numbers, sizeof numbers));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("b", TPI_PB_F32, 2, b, numbers, sizeof numbers));
    put_message(&g, TPI_PB_GRAPH_NODE, layer);
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 4, y, NULL));
    bytes m = model(g);
    tp_graph *loaded = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
    free(m.at);
    tp_program *p = tp_graph_compile(loaded, TP_NAMES("x"), TP_NAMES("y"),
                                     &(tp_compile_options){.engine = TP_ENGINE_TILES});
    tp_tensor *in = tp_full(tp, TP_F32, 3, x, 1), *out;
    assert_int_equal(tp_program_profile(p, true), TP_OK);
    if (tp_program_run(p, &in, &out) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    static const char *const rows[] = {
        "matmul  \"y.matmul\"  onnx_names.c", "loop  \"y.loop\"  onnx_names.c",
        "matmul  \"y.matmul.2\"  onnx_names.c", "loop  \"y.loop.2\"  onnx_names.c"};
    char *text = tp_program_profile_text(p);
    for (int i = 0; i < 4; i++)
        if (!text || !strstr(text, rows[i]))
            fail_msg("no row ends with %s: %s", rows[i], text ? text : "");
    tp_free(tp, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_or_no_memory), CASE(left_out),
                                       CASE(products), CASE(recurrent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
