/* ONNX models as C files that stand alone: folders with model.onnx, and test_data_set_0, ... whose
 * inputs they are run on. Only the library's own results count: others look at these.
 *
 *     standalone_models [--beside] FOLDER...      77: there are none
 *
 * --beside: weights are never in the source, else in that of four models out of five. */
#include "common/alone.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 64, SETS = 8 };

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static tp_tensor *load_tensor(tp_ctx *tp, const char *folder, int set, int i)
{
    char path[1300];
    snprintf(path, sizeof path, "%s/test_data_set_%d/input_%d.pb", folder, set, i);
    if (is_file(path))
        return tp_onnx_tensor_load(tp, path);
    snprintf(path, sizeof path, "%s/input_%d.npy", folder, i);
    return set == 0 && is_file(path) ? tp_npy_load(tp, path) : NULL;
}

/* 0 good, 1 bad, 2 not for us: the library does not take it. */
static int try_model(const char *folder, const char *name, int number, bool beside)
{
    char path[1300];
    const char *in[MOST], *out[MOST];
    tp_tensor *feeds[SETS * MOST];
    tp_ctx *tp = tp_open(NULL);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    tp_graph *g = tp_onnx_load(tp, path, NULL);
    if (!g) {
        printf("skipped %s: %s\n", name, tp_error_message(tp));
        tp_close(tp);
        return 2;
    }
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    for (int i = 0; i < n_in; i++)
        in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    int sets = 0;
    for (bool more = true; more && sets < SETS; sets += more)
        for (int i = 0; i < n_in && more; i++)
            more = (feeds[sets * n_in + i] = load_tensor(tp, folder, sets, i)) != NULL;
    tp_seed(tp, 7);
    alone a = {.dir = ".",
               .name = name,
               .tp = tp,
               .g = g,
               .n_in = n_in,
               .n_out = n_out,
               .in = in,
               .out = out,
               .n_sets = n_in ? sets : 1,
               .feeds = feeds,
               .options = {.beside = beside || number % 5 == 4}};
    int result = alone_write(&a) ? 0 : 1;
    int n = 0;
    while (alone_hosts[n].name)
        n++;
    for (int i = 0; i < 2 && result == 0; i++) {
        const alone_target *t = &alone_hosts[(number + 2 * i + i) % n];
        if (alone_has(t))
            result = !alone_try(".", name, t);
    }
    tp_close(tp);
    return result;
}

/* A folder's last name as an identifier. */
static void name_of(const char *folder, char *name, size_t size)
{
    const char *slash = strrchr(folder, '/');
    snprintf(name, size, "%.60s", slash ? slash + 1 : folder);
    for (char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
}

typedef struct tally {
    bool beside;
    int tried, bad, skipped;
} tally;

static void try_folder(tally *t, const char *folder)
{
    char name[64];
    name_of(folder, name, sizeof name);
    const int r = try_model(folder, name, t->tried++, t->beside);
    t->bad += r == 1;
    t->skipped += r == 2;
}

int main(int argc, char **argv)
{
    tally t = {.beside = argc > 1 && strcmp(argv[1], "--beside") == 0};
    for (int i = 1 + t.beside; i < argc; i++) {
        struct dirent **list;
        char path[1100];
        snprintf(path, sizeof path, "%s/model.onnx", argv[i]);
        if (is_file(path)) {
            try_folder(&t, argv[i]);
            continue;
        }
        const int count = scandir(argv[i], &list, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            snprintf(path, sizeof path, "%s/%s/model.onnx", argv[i], list[k]->d_name);
            path[strlen(path) - (is_file(path) ? strlen("/model.onnx") : 0)] = 0;
            if (!is_file(path) && strcmp(path + strlen(path) - 5, ".onnx") != 0)
                try_folder(&t, path);
            free(list[k]);
        }
        if (count >= 0)
            free(list);
    }
    printf("%d models, %d failed, %d skipped\n", t.tried, t.bad, t.skipped);
    return t.tried == 0 ? 77 : t.bad != 0;
}
