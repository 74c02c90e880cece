/* tp_onnx_load: from a file to a graph. */
#include "base/file.h"
#include "base/float_mode.h"
#include "onnx/import/import_inner.h"

#include <stdio.h>
#include <string.h>

typedef struct request {
    tp_ctx *ctx;
    tpi_at at;
    const char *what, *path; /* path: for messages; NULL: bytes */
    const tp_onnx_load_options *opt;
} request;

static tp_graph *refuse(const request *r, tp_status status, const char *why)
{
    char text[300];
    snprintf(text, sizeof text, "%s", why); /* it may be the context's own */
    tpi_fail_status(r->ctx, r->at, r->what, status, "%s%s%s",
                    r->path ? tpi_onnx_shown(r->path).text : "", r->path ? ": " : "", text);
    return NULL;
}

static bool is_concrete(const request *r, const tp_tensor *t)
{
    return tpi_is_live(t) && t->status == TP_OK && !t->graph && t->ctx == r->ctx;
}

/* Writes what is wrong with it. */
static void check_sequence(const request *r, const tp_onnx_sequence *s, int i, char *wrong,
                           size_t size)
{
    if (!s->name || s->n < -1 || (s->n > 0 && !s->like))
        snprintf(wrong, size, "sequence %d of the options has no %s", i,
                 s->name ? "tensors" : "name");
    for (int k = 0; k < s->n && !*wrong; k++)
        if (!is_concrete(r, s->like[k]))
            snprintf(
                wrong, size,
                "tensor %d of sequence %d of the options is no concrete one of this context", k,
                i);
}

/* False: refused. What of the model they name is looked for when it is read. */
static bool check_options(const request *r)
{
    const tp_onnx_load_options *opt = r->opt;
    char wrong[100] = "";
    if (!opt)
        return true;
    const bool lists = opt->n_dims >= 0 && (!opt->n_dims || opt->dims) && opt->n_values >= 0 &&
                       (!opt->n_values || opt->values) && opt->n_sequences >= 0 &&
                       (!opt->n_sequences || opt->sequences);
    if (!lists)
        snprintf(wrong, sizeof wrong, "the options have a list that is none");
    for (int i = 0; lists && i < opt->n_dims; i++)
        if (tpi_is_spoilt(opt->dims[i].size)) {
            tpi_fail_spoilt(r->ctx, r->at, r->what, TP_E_VALUE, opt->dims[i].size);
            return false;
        }
    for (int i = 0; lists && i < opt->n_dims && !*wrong; i++)
        if (!opt->dims[i].name || opt->dims[i].size < 0)
            snprintf(wrong, sizeof wrong, "dimension %d of the options has %s", i,
                     opt->dims[i].name ? "a negative size" : "no name");
    for (int i = 0; lists && i < opt->n_values && !*wrong; i++) {
        const tp_tensor *t = opt->values[i].value;
        if (!is_concrete(r, t))
            snprintf(wrong, sizeof wrong,
                     "value %d of the options is no concrete tensor of this context", i);
    }
    for (int i = 0; lists && i < opt->n_sequences && !*wrong; i++)
        check_sequence(r, &opt->sequences[i], i, wrong, sizeof wrong);
    if (*wrong)
        refuse(r, TP_E_VALUE, wrong);
    return !*wrong;
}

/* One attempt. NULL: why is in the model; or im->again. */
static tp_graph *attempt(tpi_import *im)
{
    bool ok = false;
    im->root = im->g = tp_graph_new(im->ctx);
    im->attempt++;
    if (im->root && tp_scope_begin(im->ctx) == TP_OK) {
        const bool recording = tp_recording(im->ctx, true);
        ok = tpi_onnx_import_model(im) || tpi_onnx_bad(im->m, TP_E_BUG, "no reason was given");
        tp_recording(im->ctx, recording);
        tp_scope_end_at(im->at.file, im->at.line, im->ctx);
    }
    if (tpi_onnx_had_memory(im->m) && ok && im->m->status == TP_OK)
        return im->root;
    tp_graph_free(im->root);
    return NULL;
}

/* `bytes`: of its file. */
static tp_graph *import(const request *r, tpi_onnx_model *m, size_t bytes)
{
    tpi_import im = {
        .ctx = r->ctx, .at = r->at, .m = m, .opt = r->opt, .run_nodes = tpi_onnx_run_nodes};
    const size_t n_values = r->opt ? (size_t)r->opt->n_values : 0;
    tp_graph *g = NULL;
    im.fixed = tpi_onnx_take(m, n_values, sizeof *im.fixed);
    im.offers = tpi_onnx_take(m, n_values, sizeof *im.offers);
    if (!im.offers)
        return NULL;
    do {
        im.again = false;
        im.n_ops = 0;
        im.folded = 0;
        m->own_bytes = bytes;
        im.depth = im.n_inputs = 0;
        im.symbols = NULL;
        tpi_forget_error(r->ctx);
        m->status = TP_OK;
        g = attempt(&im);
    } while (!g && im.again); /* at most once per value that was offered */
    if (n_values && r->opt->became_constant)
        memcpy(r->opt->became_constant, im.fixed, n_values * sizeof *im.fixed);
    return g;
}

/* That of a file, with its slash; empty: it is where the program is. NULL: no memory. */
static const char *folder_of(tpi_onnx_model *m, const char *path)
{
    const char *slash = strrchr(path, '/');
    return tpi_onnx_cstring(m, (tpi_span){path, slash ? (size_t)(slash - path) + 1 : 0});
}

/* `map`: the file that the bytes are in; NULL: they are in none, and other files lie in the folder. */
static tp_graph *load(const request *r, tpi_span bytes, const char *folder,
                      const tpi_file_map *map)
{
    TPI_DEFAULT_FLOAT_MODE;
    tpi_onnx_model m;
    tpi_aside earlier;
    const tpi_paused around = tpi_pause(r->ctx, r->at); /* of capture */
    tpi_error_aside(r->ctx, &earlier);
    r->ctx->reads_file = true;
    tp_graph *g = NULL;
    if (tpi_onnx_model_read(&m, r->ctx, bytes, folder)) {
        m.map = map;
        if (map)
            m.external.folder = folder_of(&m, r->path);
        g = import(r, &m, bytes.size);
    }
    tpi_forget_error(r->ctx);
    if (!g) {
        tpi_onnx_had_memory(&m);
        refuse(r, m.status, m.why);
    }
    tpi_onnx_model_free(&m);
    r->ctx->reads_file = false;
    tpi_error_back(r->ctx, &earlier);
    tpi_resume(r->ctx, around);
    return g;
}

tp_graph *tp_onnx_load_bytes_at(const char *file, int line, tp_ctx *tp, const void *bytes,
                                size_t size_bytes, const char *folder,
                                const tp_onnx_load_options *opt)
{
    const request r = {tp, TPI_AT(file, line), "tp_onnx_load_bytes", NULL, opt};
    if (!tp)
        return NULL;
    if (!bytes)
        return refuse(&r, TP_E_NULL, "the bytes are NULL");
    if (!check_options(&r))
        return NULL;
    return load(&r, (tpi_span){bytes, size_bytes}, folder, NULL);
}

TPI_BARE(tp_graph *, tp_onnx_load_bytes,
         (tp_ctx * tp, const void *bytes, size_t size_bytes, const char *folder,
          const tp_onnx_load_options *opt),
         tp, bytes, size_bytes, folder, opt)

tp_graph *tp_onnx_load_at(const char *file, int line, tp_ctx *tp, const char *path,
                          const tp_onnx_load_options *opt)
{
    const request r = {tp, TPI_AT(file, line), "tp_onnx_load", path, opt};
    if (!tp)
        return NULL;
    if (!path)
        return refuse(&r, TP_E_NULL, "the path is NULL");
    if (!check_options(&r))
        return NULL;
    tpi_file_map map;
    tpi_file_error error;
    if (!tpi_file_map_open(&tp->mem, path, &map, &error)) {
        tpi_fail_status(tp, r.at, r.what, error.status, "%s", error.text);
        return NULL;
    }
    tp_graph *g = load(&r, (tpi_span){map.data, map.size}, NULL, &map);
    tpi_file_map_close(&tp->mem, &map);
    return g;
}

TPI_BARE(tp_graph *, tp_onnx_load,
         (tp_ctx * tp, const char *path, const tp_onnx_load_options *opt), tp, path, opt)
