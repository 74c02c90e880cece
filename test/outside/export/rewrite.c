/* Models read and written again, beside the values that came with them:
 *
 *     export_rewrite SOURCE DIR     SOURCE/NAME/model.onnx and test_data_set_0, to DIR/NAME
 *
 * Exit code 77: SOURCE is not there. */
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 64 };

static bool copy_file(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
    for (size_t n; out && (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        fwrite(bytes, 1, n, out);
    if (in)
        fclose(in);
    return out && fclose(out) == 0;
}

/* input_0.pb and so on, as many as there are. */
static int copy_values(const char *from, const char *to, const char *kind)
{
    int n = 0;
    for (bool there = true; there && n < MOST; n += there) {
        char source[1200], target[1200];
        snprintf(source, sizeof source, "%s/test_data_set_0/%s_%d.pb", from, kind, n);
        snprintf(target, sizeof target, "%s/test_data_set_0/%s_%d.pb", to, kind, n);
        there = copy_file(source, target);
    }
    return n;
}

static bool rewrite(tp_ctx *tp, const char *from, const char *to)
{
    char path[1200];
    const char *in[MOST], *out[MOST];
    snprintf(path, sizeof path, "%s/model.onnx", from);
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    if (!g)
        return false;
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    for (int i = 0; i < n_in && i < MOST; i++)
        in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out && i < MOST; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    mkdir(to, 0777);
    snprintf(path, sizeof path, "%s/test_data_set_0", to);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/model.onnx", to);
    return tp_onnx_save(g, path, n_in, in, n_out, out) == TP_OK &&
           copy_values(from, to, "input") == n_in && copy_values(from, to, "output") == n_out;
}

int main(int argc, char **argv)
{
    int written = 0, failed = 0;
    DIR *dir = argc == 3 ? opendir(argv[1]) : NULL;
    if (!dir) {
        printf("skipped: %s is not there\n", argc == 3 ? argv[1] : "the source");
        return 77;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char from[600], to[600];
        if (e->d_name[0] == '.')
            continue;
        snprintf(from, sizeof from, "%.300s/%.200s", argv[1], e->d_name);
        snprintf(to, sizeof to, "%.300s/%.200s", argv[2], e->d_name);
        tp_ctx *tp = tp_open(NULL);
        tp_scope_begin(tp);
        const bool ok = rewrite(tp, from, to);
        if (!ok)
            printf("FAILED %s: %s\n", e->d_name, tp_error_message(tp));
        written += ok;
        failed += !ok;
        tp_close(tp);
    }
    closedir(dir);
    printf("%d models read and written, %d failed\n", written, failed);
    return failed || !written;
}
