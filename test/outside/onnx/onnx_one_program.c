/* Loads a model without saying any size, makes one program of it per engine, and runs that with inputs
 * of many sizes, one set after the other.
 *
 *     onnx_one_program MODEL ENGINES FOLDER...    engines as "reference,tiles,c"
 *
 * A folder has <input>.npy for every input of the graph. It gets <engine>/<output>.npy, or
 * <engine>/error with the words of the run that failed. */
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 64 };

typedef struct model {
    tp_ctx *tp;
    int n_in, n_out;
    const char *in[MOST], *out[MOST];
} model;

static const char *path_in(const char *folder, const char *engine, const char *name)
{
    static char path[2048];
    snprintf(path, sizeof path, "%.1500s/%s%s%.300s", folder, engine, *engine ? "/" : "", name);
    return path;
}

static const char *npy(const char *name)
{
    static char file[300];
    snprintf(file, sizeof file, "%.290s.npy", name);
    return file;
}

static bool write_error(const model *m, const char *folder, const char *engine)
{
    FILE *f = fopen(path_in(folder, engine, "error"), "w");
    if (!f)
        return false;
    fprintf(f, "%s\n", tp_error_message(m->tp));
    tp_clear_error(m->tp);
    return fclose(f) == 0;
}

static bool run(const model *m, tp_program *p, const char *folder, const char *engine)
{
    tp_tensor *in[MOST], *out[MOST];
    if (mkdir(path_in(folder, "", engine), 0700) != 0)
        return false;
    for (int i = 0; i < m->n_in; i++) {
        in[i] = tp_npy_load(m->tp, path_in(folder, "", npy(m->in[i])));
        if (tp_failed(in[i]))
            return false;
    }
    if (tp_program_run(p, in, out) != TP_OK)
        return write_error(m, folder, engine);
    for (int i = 0; i < m->n_out; i++)
        if (tp_npy_save(out[i], path_in(folder, engine, npy(m->out[i]))) != TP_OK)
            return false;
    return true;
}

static bool run_all(const model *m, tp_graph *g, const char *name, int n, char **folders)
{
    static const struct {
        const char *name;
        tp_engine engine;
    } engines[] = {
        {"reference", TP_ENGINE_REFERENCE},
        {"tiles",     TP_ENGINE_TILES    },
        {"c",         TP_ENGINE_C        },
    };
    for (size_t k = 0; k < sizeof engines / sizeof *engines; k++) {
        if (strcmp(engines[k].name, name) != 0)
            continue;
        tp_program *p = tp_graph_compile(g, m->n_in, m->in, m->n_out, m->out,
                                         &(tp_compile_options){.engine = engines[k].engine});
        bool ok = p;
        for (int i = 0; i < n && ok; i++) {
            ok = tp_scope_begin(m->tp) == TP_OK && run(m, p, folders[i], name);
            tp_scope_end(m->tp);
        }
        return ok;
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    model m = {.tp = tp_open(NULL)};
    tp_graph *g = tp_onnx_load(m.tp, argv[1], NULL);
    bool ok = g && tp_graph_n_inputs(g) <= MOST && tp_graph_n_outputs(g) <= MOST;
    m.n_in = ok ? tp_graph_n_inputs(g) : 0;
    m.n_out = ok ? tp_graph_n_outputs(g) : 0;
    for (int i = 0; i < m.n_in; i++)
        m.in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < m.n_out; i++)
        m.out[i] = tp_name_of(tp_graph_output(g, i));
    for (char *e = strtok(argv[2], ","); e && ok; e = strtok(NULL, ","))
        ok = run_all(&m, g, e, argc - 3, argv + 3);
    if (!ok)
        printf("%s\n", tp_error_message(m.tp));
    tp_close(m.tp);
    return !ok;
}
