/* Models that were written are read again: the graph computes what was saved beside them, with the
 * same bits where every op left as one operator that means the same.
 *
 *     export_again LOOSE DIR [NAME]   DIR/NAME/model.onnx, test_data_set_k/input_i.pb, output_i.pb
 *
 * Prints what is not read, and why, and how many have the same bits. What has other bits is held to
 * 1e-5 |x| + 1e-6 of the largest element, but for models that LOOSE leaves open ("any"). */
#include "common/same.h"
#include "op/op.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 24, MOST_MODELS = 2000 };

typedef struct counts {
    int same, close, refused, open, failed;
} counts;

/* What the reader has no words for. */
static const struct {
    const char *text, *why;
} unread[] = {
    {"its condition depends on what is fed", "an If on what is fed, of other sizes"                   },
    {"not of the kernel's shape",            "the gradient of a convolution's weights over free sizes"},
};

static int load_all(tp_ctx *tp, const char *folder, int set, const char *kind, tp_tensor **t)
{
    for (int k = 0;; k++) {
        char path[1200];
        snprintf(path, sizeof path, "%s/test_data_set_%d/%s_%d.pb", folder, set, kind, k);
        if (k == MOST || access(path, R_OK) != 0)
            return k;
        t[k] = tp_onnx_tensor_load(tp, path);
    }
}

/* 0: equal bits, 1: close, 2: not. */
static int compare(const char *name, const tp_tensor *got, const tp_tensor *want)
{
    if (tp_failed(got) || got->dtype != want->dtype || !tpi_same_shape(got, want)) {
        printf("%s: %s, not %s %s: %s\n", name, SHAPE(got),
               tp_dtype_name((tp_dtype)want->dtype), SHAPE(want), tp_error_text(got));
        return 2;
    }
    const size_t each = tp_dtype_size((tp_dtype)want->dtype);
    tp_tensor *g = tp_contiguous((tp_tensor *)got), *w = tp_contiguous((tp_tensor *)want);
    const char *p = tp_data(g), *q = tp_data(w);
    double most = 0;
    int result = 0;
    for (int64_t i = 0; i < tp_count(want); i++) {
        const double v = fabs(tpi_load_f64((tp_dtype)want->dtype, q + (size_t)i * each));
        most = v > most && v <= 1e300 ? v : most;
    }
    for (int64_t i = 0; i < tp_count(want); i++) {
        const double a = tpi_load_f64((tp_dtype)want->dtype, p + (size_t)i * each);
        const double b = tpi_load_f64((tp_dtype)want->dtype, q + (size_t)i * each);
        if (same_value((tp_dtype)want->dtype, p + (size_t)i * each, q + (size_t)i * each,
                       SAME_ZEROS_BITS))
            continue;
        result = 1;
        const bool is_float = want->dtype >= TP_F32;
        if (is_float && (a == b || fabs(a - b) <= 1e-5 * fabs(b) + 1e-6 * most))
            continue;
        printf("%s: %s %s: element %lld is %.9g, not %.9g\n", name,
               tp_dtype_name((tp_dtype)want->dtype), SHAPE(want), (long long)i, a, b);
        return 2;
    }
    return result;
}

static int run(tp_ctx *tp, tp_graph *g, const char *name, const char *folder, int set)
{
    tp_tensor *in[MOST], *want[MOST], *out[MOST];
    const char *in_names[MOST], *out_names[MOST];
    const int n_in = load_all(tp, folder, set, "input", in);
    const int n_out = load_all(tp, folder, set, "output", want);
    if (n_out == 0)
        return -1;
    if (n_in != tp_graph_n_inputs(g) || n_out != tp_graph_n_outputs(g)) {
        printf("%s: %d inputs and %d outputs are not %d and %d\n", name, tp_graph_n_inputs(g),
               tp_graph_n_outputs(g), n_in, n_out);
        return 2;
    }
    for (int i = 0; i < n_in; i++)
        in_names[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out; i++)
        out_names[i] = tp_name_of(tp_graph_output(g, i));
    tp_program *p = tp_graph_compile(g, n_in, in_names, n_out, out_names,
                                     &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    int result = 0;
    if (!p || tp_program_run(p, in, out) != TP_OK) {
        printf("%s: %s\n", name, tp_error_message(tp));
        result = 2;
    }
    for (int i = 0; i < n_out && result < 2; i++) {
        const int one = compare(name, out[i], want[i]);
        result = one > result ? one : result;
    }
    return result;
}

/* Does the list leave its results open? */
static bool is_open(const char *loose, const char *name)
{
    char line[300], word[100], bound[20];
    bool found = false;
    FILE *f = fopen(loose, "r");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%99s %19s", word, bound) == 2 && strcmp(word, name) == 0 &&
                strcmp(bound, "any") == 0;
    if (f)
        fclose(f);
    return found;
}

static bool is_unread(const char *message)
{
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (strstr(message, unread[i].text))
            return true;
    return false;
}

static void check(const char *loose, const char *dir, const char *name, counts *c)
{
    char folder[1000], path[1100];
    snprintf(folder, sizeof folder, "%s/%s", dir, name);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (access(path, R_OK) != 0)
        return;
    tp_ctx *tp = tp_open(NULL);
    tp_scope_begin(tp);
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    int result = g ? -1 : 3, one;
    for (int set = 0; result < 2 && (one = run(tp, g, name, folder, set)) >= 0; set++)
        result = one > result ? one : result;
    if (!g)
        printf("%s: %s\n", name, tp_error_message(tp));
    if (!g && !is_unread(tp_error_message(tp)))
        result = 2;
    if (result == 2 && is_open(loose, name)) {
        printf("    left open by %s\n", loose);
        c->open++;
        result = 4;
    }
    c->same += result == 0;
    c->close += result == 1;
    if (result == 2 || result < 0)
        printf("FAILED %s\n", name);
    c->failed += result == 2 || result < 0;
    c->refused += result == 3;
    tp_close(tp);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(int argc, char **argv)
{
    static char *names[MOST_MODELS];
    counts c = {0};
    int n = 0;
    DIR *d = argc > 2 ? opendir(argv[2]) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) && n < MOST_MODELS;)
        if (*e->d_name != '.' && (argc < 4 || strcmp(e->d_name, argv[3]) == 0))
            names[n++] = strdup(e->d_name);
    if (d)
        closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++)
        check(argv[1], argv[2], names[i], &c);
    for (int i = 0; i < n; i++)
        free(names[i]);
    printf("%d with the same bits, %d close, %d not read, %d failed\n", c.same, c.close,
           c.refused, c.failed);
    return c.failed || c.same == 0;
}
