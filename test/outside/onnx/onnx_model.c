/* Loads a network, runs it on the recorded input by both executors, and compares with the
 * recorded output; says how long loading took, and the first result.
 *
 *     onnx_model FOLDER [NAME N]     with model.onnx, input_0.npy and output_0.npy; a free
 *                                    dimension that is to be fixed
 *
 * Where the batch is a free dimension, it is run on the input twice over too, by the C executor.
 *
 * A network of many operations is run by the C executor only: plain loops would take minutes. */
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* How many elements differ; prints the first. */
static int64_t compare(tp_tensor *got, tp_tensor *want)
{
    if (tp_count(got) != tp_count(want) || tp_dtype_of(got) != TP_F32 ||
        tp_dtype_of(want) != TP_F32) {
        printf("FAIL the output has another type or size\n");
        return 1;
    }
    const float *g = tp_data(tp_contiguous(got)), *w = tp_data(tp_contiguous(want));
    int64_t wrong = 0;
    for (int64_t i = 0; i < tp_count(want); i++)
        if (!(fabsf(g[i] - w[i]) <= 1e-4f + 1e-3f * fabsf(w[i])) && wrong++ == 0)
            printf("FAIL element %lld: got %.9g, want %.9g\n", (long long)i, (double)g[i],
                   (double)w[i]);
    return wrong;
}

int main(int argc, char **argv)
{
    char path[3][1024];
    static const char *const names[] = {"model.onnx", "input_0.npy", "output_0.npy"};
    if (argc != 2 && argc != 4)
        return 2;
    const tp_onnx_dim dim = {argc == 4 ? argv[2] : "", argc == 4 ? atoi(argv[3]) : 0};
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%.900s/%s", argv[1], names[i]);
    tp_ctx *tp = tp_open(NULL);
    const double start = now_ms();
    tp_graph *g =
        tp_onnx_load(tp, path[0], &(tp_onnx_load_options){.n_dims = argc == 4, .dims = &dim});
    const double loaded = now_ms();
    tp_tensor *in = tp_npy_load(tp, path[1]), *want = tp_npy_load(tp, path[2]), *out;
    if (!g || tp_failed(in) || tp_failed(want)) {
        printf("FAIL %s\n", tp_error_message(tp));
        return 1;
    }
    const char *const feed[] = {tp_name_of(tp_graph_input(g, 0))};
    const char *const fetch[] = {tp_name_of(tp_graph_output(g, 0))};
    int64_t wrong = 0;
    double took[2] = {0};
    const bool large = tp_count(in) > 10000;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int i = large; i < 2; i++) {
        const double before = now_ms();
        tp_program *p =
            tp_graph_compile(g, 1, feed, 1, fetch, &(tp_compile_options){.engine = engines[i]});
        if (!p || tp_program_run(p, &in, &out) != TP_OK) {
            printf("FAIL %s\n", tp_error_message(tp));
            return 1;
        }
        wrong += compare(out, want);
        took[i] = now_ms() - before;
        if (i == 0 || tp_dim(tp_graph_input(g, 0), 0) >= 0)
            continue;
        tp_tensor *twice = tp_concat(2, (tp_tensor *[]){in, in}, 0);
        if (tp_program_run(p, &twice, &out) != TP_OK) {
            printf("FAIL at twice the batch: %s\n", tp_error_message(tp));
            return 1;
        }
        wrong += compare(out, tp_concat(2, (tp_tensor *[]){want, want}, 0));
    }
    printf(
        "%s: load %.1f ms, first result of the reference %.1f ms, of the C program %.1f ms\n",
        argv[1], loaded - start, took[0], took[1]);
    tp_close(tp);
    return wrong != 0;
}
