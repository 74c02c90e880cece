/* Bytes that may be an ONNX model: the reader, and every tensor that it finds. */
#include "onnx/format/model.h"
#include "tapir/tapir.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *alloc(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    if (size > (size_t)1 << 24 || posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    return p;
}

static void release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    free(p);
}

static void read_lists(const tpi_onnx_attr *a)
{
    tpi_onnx_list l = tpi_onnx_list_open(a);
    int64_t i;
    float f;
    tpi_span s;
    while (tpi_onnx_next_int(&l, &i))
        continue;
    l = tpi_onnx_list_open(a);
    while (tpi_onnx_next_float(&l, &f))
        continue;
    l = tpi_onnx_list_open(a);
    while (tpi_onnx_next_text(&l, &s))
        continue;
}

static void read_graph(tpi_onnx_model *m, const tpi_onnx_graph *g, int depth)
{
    const tpi_at at = {0};
    for (int i = 0; i < g->n_inits; i++)
        tpi_onnx_tensor_make(m, &g->inits[i], at);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_attrs; k++) {
            const tpi_onnx_attr *a = &g->nodes[i].attrs[k];
            tpi_onnx_tensor t;
            tpi_onnx_graph branch;
            read_lists(a);
            if (a->type == TPI_PB_TENSOR && tpi_onnx_tensor_read(m, a->t, &t))
                tpi_onnx_tensor_make(m, &t, at);
            if (a->type == TPI_PB_GRAPH && depth < 8 && tpi_onnx_graph_read(m, a->g, &branch))
                read_graph(m, &branch, depth + 1);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const tp_allocator a = {alloc, release, NULL};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &a});
    tpi_onnx_model m;
    if (tpi_onnx_model_read(&m, tp, (tpi_span){(const char *)data, size}, NULL))
        read_graph(&m, &m.graph, 0);
    else if (m.status == TP_OK || m.status == TP_E_BUG)
        abort();
    tpi_onnx_model_free(&m);
    tp_close(tp);
    return 0;
}
