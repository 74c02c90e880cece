/* ONNX models from anyone: what loads keeps every rule of the IR, and is run by the reference
 * executor on ones, with every free size 2. Memory is limited, which bounds the time too. */
#include "ir/graph_def.h"
#include "op/op.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *alloc(void *user, size_t size)
{
    size_t *left = user;
    void *p = NULL;
    if (size > (size_t)1 << 18 || size > *left || posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    *left -= size;
    return p;
}

static void release(void *user, void *p, size_t size)
{
    size_t *left = user;
    *left += size;
    free(p);
}

enum { MOST = 8 };
static const int64_t twos[MOST] = {2, 2, 2, 2, 2, 2, 2, 2};

static double count_of(const tp_graph *g, const tp_tensor *t)
{
    double n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= (double)tpi_dim_eval(g->dims, t->shape[k], twos);
    return n;
}

/* The reference looks at each tap of a convolution for each output, in some 50 ns: where both are many that
 * takes longer than is waited for. */
static bool takes_long(const tp_graph *g)
{
    double taps = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        if (t->op == &tpi_op_conv || t->op == &tpi_op_conv_dx || t->op == &tpi_op_conv_dw)
            taps += count_of(g, t) * count_of(g, t->in[1]);
    }
    return taps > 1 << 26;
}

static void run(tp_ctx *tp, tp_graph *g)
{
    const char *feeds[MOST], *fetches[MOST];
    tp_tensor *in[MOST], *out[MOST];
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    if (n_in > MOST || n_out < 1 || n_out > MOST || tpi_dim_n_symbols(g->dims) > MOST ||
        takes_long(g))
        return;
    for (int i = 0; i < n_in; i++) {
        const tp_tensor *t = tp_graph_input(g, i);
        int64_t shape[TP_MAX_RANK];
        for (int k = 0; k < t->rank; k++)
            shape[k] = tpi_dim_eval(g->dims, t->shape[k], twos);
        feeds[i] = t->name;
        in[i] = tp_full(tp, (tp_dtype)t->dtype, t->rank, shape, 1);
        if (tp_failed(in[i]))
            return;
    }
    for (int i = 0; i < n_out; i++)
        fetches[i] = tp_name_of(tp_graph_output(g, i));
    const tp_compile_options reference = {.engine = TP_ENGINE_REFERENCE};
    tp_program *p = tp_graph_compile(g, n_in, feeds, n_out, fetches, &reference);
    if (p)
        tp_program_run(p, in, out);
    tp_program_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t left = (size_t)1 << 22;
    const tp_allocator a = {alloc, release, &left};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &a});
    if (!tp)
        return 0;
    const int64_t two[1] = {2};
    const tp_onnx_dim dims[] = {
        {"seq", 2}
    };
    tp_tensor *offered = tp_full(tp, TP_I64, 1, two, 1);
    const tp_feed values[] = {
        {"shape", offered}
    };
    const tp_onnx_load_options opt = {
        .n_dims = 1, .dims = dims, .n_values = !tp_failed(offered), .values = values};
    tp_graph *g = tp_onnx_load_bytes(tp, data, size, NULL, &opt);
    if (!g && tp_error(tp) == TP_E_NAME) { /* it has no such dimension, or no such input */
        tp_clear_error(tp);
        g = tp_onnx_load_bytes(tp, data, size, NULL, NULL);
    }
    if (g ? tp_graph_verify(g) != TP_OK : tp_error(tp) == TP_OK)
        abort();
    if (g)
        run(tp, g);
    if (tp_error(tp) == TP_E_BUG)
        abort();
    tp_close(tp);
    return 0;
}
