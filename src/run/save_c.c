/* tp_graph_save_c: a graph as C files that stand alone. */
#include "base/file.h"
#include "base/float_mode.h"
#include "render/standalone/c_name.h"
#include "render/standalone/standalone.h"
#include "run/program.h"

#include <stdio.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------ */

enum { SOURCE, HEADER, WEIGHTS, N_FILES };

/* Names of the files: the path with other endings. */
typedef struct files {
    tpi_bump memory; /* of the names */
    char *path[N_FILES];
    tpi_str text[N_FILES];
} files;

static void files_begin(files *f, tpi_mem *m, const char *path)
{
    static const char *const endings[N_FILES] = {".c", ".h", ".weights"};
    const size_t stem = strlen(path) - 2, size = stem + sizeof ".weights";
    *f = (files){.memory = TPI_BUMP(m)};
    for (int i = 0; i < N_FILES; i++) {
        f->text[i] = TPI_STR(m);
        f->path[i] = tpi_bump_take(&f->memory, size, 1);
        if (f->path[i])
            snprintf(f->path[i], size, "%.*s%s", (int)stem, path, endings[i]);
    }
}

static void files_end(files *f)
{
    for (int i = 0; i < N_FILES; i++)
        tpi_str_free(&f->text[i]);
    tpi_bump_free(&f->memory);
}

/* None of them is new unless all could be written. */
static tp_status write_files(files *f, const tpi_saving *s)
{
    tpi_writer w[N_FILES];
    const int n = s->options.beside ? N_FILES : WEIGHTS;
    const tpi_file_error *error = NULL;
    for (int i = 0; i < n; i++) {
        tpi_file_begin(&w[i], f->memory.mem, &s->g->ctx->undone, f->path[i]);
        tpi_file_put(&w[i], f->text[i].text ? f->text[i].text : "", f->text[i].len);
        if (!error && w[i].error.status != TP_OK)
            error = &w[i].error;
    }
    for (int i = n - 1; i >= 0; i--)
        if (error)
            tpi_file_abandon(&w[i]);
        else if (!tpi_file_end(&w[i]))
            error = &w[i].error;
    return error ? tpi_fail_status(s->g->ctx, s->at, s->what, error->status, "%s", error->text)
                 : TP_OK;
}

/* ---- programs --------------------------------------------------------------------------------------- */

/* Variables that nothing assigns are constants, if the caller does not want them. */
static tp_program *make_program(const tpi_saving *s)
{
    tp_compile_options opt = {.engine = TP_ENGINE_REFERENCE,
                              .memory_limit = s->options.memory_limit};
    const tpi_purpose purpose = {.what = s->what, .all_writes = s->all_writes, .leaves = true};
    tp_program *p =
        tpi_program_new(s->g, s->at, &purpose, s->n_in, s->inputs, s->n_out, s->fetches, &opt);
    if (!p || p->n_commits || s->options.state)
        return p;
    tp_program_free(p);
    opt.freeze = true;
    return tpi_program_new(s->g, s->at, &purpose, s->n_in, s->inputs, s->n_out, s->fetches,
                           &opt);
}

static bool refuses(const tpi_saving *s, const tp_program *p)
{
    if (p->memory_limit && !tpi_program_knows_sizes(p)) {
        tpi_fail_status(p->ctx, s->at, s->what, TP_E_SHAPE,
                        "a memory limit takes sizes that are numbers");
        return true;
    }
    if (tpi_has_late_equations(p)) {
        tpi_fail_status(p->ctx, s->at, s->what, TP_E_COMPILER,
                        "sizes that have to be equal are told by a loop's run alone: no C "
                        "program checks them");
        return true;
    }
    const tp_tensor *t = tpi_late_refuser(p);
    if (t)
        tpi_fail_status(p->ctx, TPI_AT(t->file, t->line), t->op->name, TP_E_COMPILER,
                        "it may refuse sizes that only a loop's run tells: no C program does");
    return t;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void prefix_of(const tpi_saving *s, tpi_c_name *prefix)
{
    char name[TPI_C_NAME];
    const char *base = base_of(s->path);
    snprintf(name, sizeof name, "%.*s", (int)strlen(base) - 2, base);
    tpi_c_name_of(prefix, s->options.name ? s->options.name : name, "net");
}

static tp_status save_program(const tpi_saving *s, tp_program *p)
{
    tp_ctx *ctx = p->ctx;
    files f;
    tpi_c_name prefix;
    tp_status status = TP_E_MEMORY;
    prefix_of(s, &prefix);
    files_begin(&f, &ctx->mem, s->path);
    tp_tensor **written = tpi_bump_take(&f.memory, (size_t)p->n_commits, sizeof *written);
    const bool ok = written;
    for (int i = 0; i < p->n_commits && ok; i++)
        written[i] = p->commits[i].variable;
    const tpi_standalone q = {.ctx = ctx,
                              .at = s->at,
                              .what = s->what,
                              .prefix = prefix.text,
                              .header = ok ? base_of(f.path[HEADER]) : "",
                              .graph = p->graph,
                              .n_in = p->n_feeds,
                              .n_out = p->n_fetches,
                              .n_writes = p->n_commits,
                              .in = p->feeds,
                              .in_names = s->inputs,
                              .roots = p->roots,
                              .out_names = s->outputs,
                              .written = written,
                              .late = p->late,
                              .seed = (int64_t)ctx->seed,
                              .beside = s->options.beside};
    if (!ok)
        tpi_no_memory(ctx, s->at, s->what);
    else if (tpi_standalone_write(&q, &f.text[HEADER], &f.text[SOURCE], &f.text[WEIGHTS]))
        status = write_files(&f, s);
    else if (ctx->status != TP_OK)
        status = ctx->status;
    files_end(&f);
    return status;
}

/* ---- the function ----------------------------------------------------------------------------------- */

static bool ends_in_c(const char *path)
{
    const size_t n = strlen(path);
    return n > 2 && strcmp(path + n - 2, ".c") == 0 && path[n - 3] != '/';
}

tp_status tpi_save_c(const tpi_saving *s)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_ctx *ctx = s->g->ctx;
    if (!s->path)
        return tpi_fail_status(ctx, s->at, s->what, TP_E_NULL, "the path is NULL");
    if (!ends_in_c(s->path))
        return tpi_fail_status(ctx, s->at, s->what, TP_E_VALUE,
                               "the path does not end in \".c\": %s", s->path);
    const tpi_paused around = tpi_pause(ctx, s->at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    tp_program *p = make_program(s);
    tp_status status = ctx->status;
    if (p)
        status = refuses(s, p) ? ctx->status : save_program(s, p);
    tp_program_free(p);
    tpi_error_back(ctx, &earlier);
    tpi_resume(ctx, around);
    return status;
}

tp_status tp_graph_save_c_at(const char *file, int line, tp_graph *g, const char *path,
                             int n_in, const char *const *inputs, int n_out,
                             const char *const *outputs, const tp_c_options *opt)
{
    return g ? tpi_save_c(&(tpi_saving){.what = "tp_graph_save_c",
                                        .at = TPI_AT(file, line),
                                        .path = path,
                                        .g = g,
                                        .n_in = n_in,
                                        .n_out = n_out,
                                        .inputs = inputs,
                                        .outputs = outputs,
                                        .fetches = outputs,
                                        .options = opt ? *opt : (tp_c_options){0}})
             : TP_E_NULL;
}

TPI_BARE(tp_status, tp_graph_save_c,
         (tp_graph * g, const char *path, int n_in, const char *const *inputs, int n_out,
          const char *const *outputs, const tp_c_options *opt),
         g, path, n_in, inputs, n_out, outputs, opt)
