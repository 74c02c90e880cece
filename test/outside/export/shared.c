/* The models of the shared folder, read and written again, into DIR: NAME/model.onnx beside the
 * input and the output that came with it, which ONNX Runtime computed from the model as it was.
 *
 *     export_shared SOURCE DIR       SOURCE/NAME/model.onnx with its weights, input_0.npy, output_0.npy
 *
 * Exit code 77: SOURCE is not there; the test onnx_models makes it. */
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool save_npy(tp_ctx *tp, const char *source, const char *dir, const char *name,
                     const char *what)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s/%s_0.npy", source, name, what);
    tp_tensor *t = tp_npy_load(tp, path);
    snprintf(path, sizeof path, "%s/%s/test_data_set_0/%s_0.pb", dir, name, what);
    return tp_onnx_tensor_save(t, path) == TP_OK;
}

static bool again(tp_ctx *tp, const char *source, const char *dir, const char *name)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s/model.onnx", source, name);
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    if (!g || tp_graph_n_inputs(g) != 1 || tp_graph_n_outputs(g) != 1)
        return false;
    const char *const in = tp_name_of(tp_graph_input(g, 0));
    const char *const out = tp_name_of(tp_graph_output(g, 0));
    snprintf(path, sizeof path, "%s/%s", dir, name);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/test_data_set_0", dir, name);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/model.onnx", dir, name);
    return tp_onnx_save(g, path, 1, &in, 1, &out) == TP_OK &&
           save_npy(tp, source, dir, name, "input") &&
           save_npy(tp, source, dir, name, "output");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"mlp",          "lenet",   "resnet18",
                                        "mobilenet_v2", "lstm_lm", "gpt_mini"};
    int failed = 0;
    char path[1000];
    if (argc < 3)
        return 2;
    snprintf(path, sizeof path, "%s/%s/weights.bin", argv[1], names[5]);
    if (access(path, R_OK) != 0) {
        printf("skipped: there is no %s: the test onnx_models makes it\n", path);
        return 77;
    }
    for (int i = 0; i < 6; i++) {
        tp_ctx *tp = tp_open(NULL);
        tp_scope_begin(tp);
        if (!again(tp, argv[1], argv[2], names[i])) {
            printf("FAILED %s: %s\n", names[i], tp_error_message(tp));
            failed++;
        }
        tp_close(tp);
    }
    printf("%d of 6 models read and written\n", 6 - failed);
    return failed > 0;
}
