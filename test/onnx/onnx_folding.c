/* Small models whose constants would become large ones: what is computed from constants, when a model is
 * read and when it is compiled, takes at most its own bytes and 64 MiB. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

static const int64_t two = 2;

/* x + the sum of constants that are joined to themselves, or of many sums of a row and a column. */
static bytes folded_model(bool joins)
{
    enum { JOINS = 30, SUMS = 200, N = 1000 };
    static float row[N];
    bytes g = {0};
    const int64_t n = joins ? 4 : N, across[2] = {N, 1};
    put_message(&g, TPI_PB_GRAPH_INPUT, value("x", TPI_PB_F32, 1, &two, NULL));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("c", TPI_PB_F32, 1, &n, row, (size_t)n * sizeof *row));
    put_message(&g, TPI_PB_GRAPH_INITIALIZER,
                tensor("d", TPI_PB_F32, 2, across, row, sizeof row));
    put_message(&g, TPI_PB_GRAPH_NODE, node("Identity", NAMES("c"), NAMES("v0")));
    put_message(&g, TPI_PB_GRAPH_NODE, node("ReduceSum", NAMES("x"), NAMES("t0")));
    for (int i = 0; i < (joins ? JOINS : SUMS); i++) {
        char in[16], out[16], large[16], small[16], from[16], to[16];
        snprintf(in, sizeof in, "v%d", i);
        snprintf(out, sizeof out, "v%d", i + 1);
        snprintf(large, sizeof large, "l%d", i);
        snprintf(small, sizeof small, "s%d", i);
        snprintf(from, sizeof from, "t%d", i);
        snprintf(to, sizeof to, "t%d", i + 1);
        bytes join =
            node(joins ? "Concat" : "Exp", joins ? NAMES(in, in) : NAMES(in), NAMES(out));
        if (joins)
            put_message(&join, TPI_PB_NODE_ATTRIBUTE, attr_int("axis", 0));
        put_message(&g, TPI_PB_GRAPH_NODE, join);
        put_message(&g, TPI_PB_GRAPH_NODE,
                    node("Add", NAMES(out, joins ? out : "d"), NAMES(large)));
        put_message(&g, TPI_PB_GRAPH_NODE, node("ReduceMax", NAMES(large), NAMES(small)));
        put_message(&g, TPI_PB_GRAPH_NODE, node("Add", NAMES(from, small), NAMES(to)));
    }
    put_message(&g, TPI_PB_GRAPH_NODE,
                node("Add", NAMES("x", joins ? "t30" : "t200"), NAMES("y")));
    put_message(&g, TPI_PB_GRAPH_OUTPUT, value("y", TPI_PB_F32, 2, (int64_t[]){1, 2}, NULL));
    return model(g);
}

static void folding(void **state)
{
    (void)state;
    for (int joins = 0; joins < 2; joins++) {
        unit_memory own = {0};
        tp_ctx *tp = unit_open(&own);
        bytes m = folded_model(joins);
        const size_t most = m.size + ((size_t)66 << 20); /* nodes too */
        tp_graph *g = tp_onnx_load_bytes(tp, m.at, m.size, NULL, NULL);
        free(m.at);
        if (!g)
            fail_msg("%s", tp_error_message(tp));
        if (own.most > most)
            fail_msg("reading %s took %zu bytes", joins ? "joins" : "sums", own.most);
        const tp_compile_options c = {.engine = TP_ENGINE_TILES, .freeze = true};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y"), &c);
        if (!p)
            fail_msg("%s", tp_error_message(tp));
        if (own.most > most)
            fail_msg("compiling %s took %zu bytes", joins ? "joins" : "sums", own.most);
        tp_close(tp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
