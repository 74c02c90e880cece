/* What a model's run takes, in milliseconds of this thread: eagerly (node by node, by the kernels
 * of eager use), by tiles, and as C.
 *
 *     onnx_ops MODEL FEED.npy ..    prints the three medians; feeds in the order of the inputs */
#include "limits.h"
#include "run/program.h"
#include <tapir/tapir.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST_RUNS = 200, LEAST_RUNS = 5, MOST_FEEDS = 4, MOST_OUT = 2 };
static const double enough_s = 0.2;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run(tp_ctx *tp, tp_program *p, tp_tensor *const *feeds)
{
    tp_tensor *out[MOST_OUT];
    const double start = limit_now();
    tp_scope_begin(tp);
    tp_program_run(p, feeds, out);
    tp_scope_end(tp);
    return limit_now() - start;
}

static double median_ms(tp_ctx *tp, tp_program *p, tp_tensor *const *feeds)
{
    double took[MOST_RUNS], spent = 0;
    int n = 0;
    run(tp, p, feeds);
    for (; n < MOST_RUNS && (n < LEAST_RUNS || spent < enough_s); n++)
        spent += took[n] = run(tp, p, feeds);
    qsort(took, (size_t)n, sizeof *took, by_value);
    return 1e3 * took[n / 2];
}

int main(int argc, char **argv)
{
    static const tp_engine engine[] = {TP_ENGINE_TILES, TP_ENGINE_TILES, TP_ENGINE_C};
    const char *in[MOST_FEEDS], *out[MOST_OUT];
    tp_tensor *feeds[MOST_FEEDS];
    tp_ctx *tp = tp_open(&(tp_options){.threads = 1});
    tp_graph *g = argc > 1 ? tp_onnx_load(tp, argv[1], NULL) : NULL;
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    if (!g || n_in != argc - 2 || n_in > MOST_FEEDS || n_out > MOST_OUT) {
        fprintf(stderr, "usage: onnx_ops MODEL FEED.npy ..  %s\n", tp_error_message(tp));
        return 2;
    }
    for (int i = 0; i < n_in; i++) {
        in[i] = tp_name_of(tp_graph_input(g, i));
        feeds[i] = tp_npy_load(tp, argv[2 + i]);
    }
    for (int i = 0; i < n_out; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    for (int i = 0; i < 3 && tp_error(tp) == TP_OK; i++) {
        const tp_compile_options opt = {.engine = engine[i], .freeze = true};
        tp_program *p = tp_graph_compile(g, n_in, in, n_out, out, &opt);
        if (!p)
            break;
        struct tpi_tiles *tiles = p->tiles;
        if (i == 0)
            p->tiles = NULL;
        printf("%.4f\n", median_ms(tp, p, feeds));
        p->tiles = tiles;
    }
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "%s\n", tp_error_message(tp));
    const int status = tp_error(tp) != TP_OK;
    tp_close(tp);
    return status;
}
