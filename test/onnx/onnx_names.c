/* Names of a model's values: kept when it is loaded, or the load says that memory is out; and models
 * that leave names out. */
#include "ir/graph_def.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"
#include "unit/unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_or_no_memory), CASE(left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
