#include "cases.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- finding -------------------------------------------------------------------------------------- */

static bool exists(const char *path, mode_t kind)
{
    struct stat info;
    return stat(path, &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

/* A link to a folder is none: it may lead back to where it was found. */
static bool is_own_folder(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static char *join(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* Into a buffer: what is not there and what there is no memory for are not the same. Nothing has a path of
 * more bytes. */
static bool is_in(const char *folder, const char *name, mode_t kind, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && exists(path, kind);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return is_in(folder, name, S_IFREG, path);
}

static void out_of_memory(test_cases *cases)
{
    if (!cases->failed)
        cli_no_memory();
    cases->failed = true;
}

static void add_case(test_cases *cases, const char *path, size_t root)
{
    if (cases->n == cases->size) {
        const int size = cases->size ? cases->size * 2 : 64;
        test_case *v = realloc(cases->v, (size_t)size * sizeof *v);
        if (!v) {
            out_of_memory(cases);
            return;
        }
        cases->v = v;
        cases->size = size;
    }
    char *own = strdup(path);
    if (!own) {
        out_of_memory(cases);
        return;
    }
    const char *name = own + root;
    cases->v[cases->n++] = (test_case){.path = own, .name = *name ? name : own};
}

static int is_named(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* What lies deeper than any tree of cases is left alone. `root`: as many characters of the path are what was asked for. */
static void find_below(test_cases *cases, const char *path, size_t root, int depth)
{
    enum { DEEPEST = 16 };
    if (has_file(path, "model.onnx")) {
        add_case(cases, path, root);
        return;
    }
    struct dirent **entries;
    const int n = depth < DEEPEST ? scandir(path, &entries, is_named, alphasort) : 0;
    if (n < 0) {
        cli_refuse(path, "%s", strerror(errno));
        cases->failed = true;
        return;
    }
    for (int i = 0; i < n; i++) {
        char *below = join(path, entries[i]->d_name);
        if (!below)
            out_of_memory(cases);
        else if (is_own_folder(below))
            find_below(cases, below, root, depth + 1);
        free(below);
        free(entries[i]);
    }
    if (depth < DEEPEST)
        free(entries);
}

void cases_find(test_cases *cases, const char *path)
{
    char *bare = strdup(path);
    if (!bare) {
        out_of_memory(cases);
        return;
    }
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--)
        bare[n - 1] = 0;
    if (exists(bare, S_IFDIR)) {
        const bool is_case = has_file(bare, "model.onnx");
        const char *last = strrchr(bare, '/');
        find_below(cases, bare,
                   !is_case ? strlen(bare) + 1
                   : last   ? (size_t)(last + 1 - bare)
                            : 0,
                   0);
    } else {
        struct stat info;
        cli_refuse(path, "%s", stat(path, &info) == 0 ? "it is no folder" : strerror(errno));
        cases->failed = true;
    }
    free(bare);
}

void cases_free(test_cases *cases)
{
    for (int i = 0; i < cases->n; i++)
        free(cases->v[i].path);
    free(cases->v);
}

/* ---- running ---------------------------------------------------------------------------------------- */

enum { MOST_PORTS = 64 }; /* inputs or outputs of a case, and tensors in them */

typedef struct running {
    const test_case *c;
    const case_options *opt;
    case_result *result;
    tp_ctx *tp;
    tp_graph *graph;
    bool sized;  /* it was read with the sizes of the inputs */
    bool misfit; /* a run failed at sizes that were left free */
    about about;
    int n_in, n_out;
    const char *in[MOST_PORTS], *out[MOST_PORTS];
    tolerance tolerance;
    tp_tensor *const *given; /* inputs, before any of them becomes a constant */
    int n_given;
} running;

static bool stop(running *r, verdict v, const char *fmt, ...) CLI_PRINTF(3, 4);
static bool stop(running *r, verdict v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->result->reason, sizeof r->result->reason, fmt, ap);
    va_end(ap);
    for (char *p = r->result->reason; *p; p++) /* one line */
        if (*p == '\n')
            *p = ' ';
    r->result->verdict = v;
    return false;
}

/* What the library says: that something is not supported is no failure, nor are sizes that do not
 * fit before a number was computed. */
static bool stop_at_error(running *r, const char *where, const char *path)
{
    const tp_status status = tp_error(r->tp);
    const bool lacks = status == TP_E_VALUE || status == TP_E_DTYPE || status == TP_E_SHAPE ||
                       status == TP_E_AXIS;
    return stop(r, lacks ? CASE_SKIPPED : CASE_FAILED, "%s%s", where,
                cli_plain(tp_error_message(r->tp), path));
}

/* The path of input_3.pb or .npy of a data set. False: there is none. */
static bool tensor_path(const char *folder, const char *kind, int i, char path[PATH_MAX])
{
    for (int as_npy = 0; as_npy < 2; as_npy++) {
        char name[40];
        snprintf(name, sizeof name, "%s_%d.%s", kind, i, as_npy ? "npy" : "pb");
        if (is_in(folder, name, S_IFREG, path))
            return true;
    }
    return false;
}

/* Inputs or outputs of a data set. One is a tensor, or as many as a sequence or an optional has. */
typedef struct values {
    const char *kind; /* "input" */
    int n, n_tensors;
    int first[MOST_PORTS], count[MOST_PORTS]; /* of the tensors; count -1: no value */
    tp_tensor *tensors[MOST_PORTS];
} values;

/* The tensors of number v->n, whose type is as the model declares it. */
static bool load_value(running *r, values *v, const declared *d, const char *path)
{
    const bool as_npy = strcmp(path + strlen(path) - 4, ".npy") == 0;
    const int room = MOST_PORTS - v->n_tensors;
    tp_tensor **at = v->tensors + v->n_tensors;
    int n = 1;
    if (as_npy && room > 0)
        at[0] = tp_npy_load(r->tp, path);
    const bool ok = as_npy ? room > 0 && !tp_failed(at[0])
                           : tp_onnx_value_load(r->tp, path, d->type, room, at, &n) == TP_OK;
    if (ok) {
        v->first[v->n] = v->n_tensors;
        v->count[v->n++] = n;
        v->n_tensors += n > 0 ? n : 0;
    } else {
        char where[40];
        snprintf(where, sizeof where, "%s_%d: ", v->kind, v->n);
        stop_at_error(r, where, path);
        tp_clear_error(r->tp);
    }
    return ok;
}

/* As many as there are files for. False: the result says why. */
static bool load_values(running *r, const char *folder, values *v, int n, const declared *d)
{
    char file[PATH_MAX];
    bool ok = true;
    while (ok && v->n < n && v->n < MOST_PORTS && tensor_path(folder, v->kind, v->n, file))
        ok = load_value(r, v, &d[v->n], file);
    return ok;
}

/* The sizes that tensors have where the model leaves them free, each once. */
static int free_sizes(const running *r, const values *v, int most, tp_onnx_dim *all)
{
    int n = 0;
    for (int i = 0; i < v->n; i++) {
        const declared *d = &r->about.in[i];
        const tp_tensor *t = v->tensors[v->first[i]];
        for (int a = 0; type_is_tensor(d->type) && d->rank == tp_rank(t) && a < d->rank; a++) {
            bool known = !d->free[a] || n == most;
            for (int k = 0; k < n && !known; k++)
                known = strcmp(all[k].name, d->free[a]) == 0;
            if (!known)
                all[n++] = (tp_onnx_dim){d->free[a], tp_size(t, a)};
        }
    }
    return n;
}

/* Values are offered with the model, for those that decide about sizes; when that does not do, or a
 * run has failed at sizes, the sizes of the inputs too. */
static bool load_graph(running *r, const char *path, const values *v, bool *became_constant)
{
    tp_feed given[MOST_PORTS];
    tp_onnx_sequence lists[MOST_PORTS];
    tp_onnx_dim dims[MOST_PORTS];
    tp_onnx_load_options opt = {
        .values = given, .sequences = lists, .dims = dims, .became_constant = became_constant};
    for (int i = 0; i < v->n; i++) {
        const declared *d = &r->about.in[i];
        tp_tensor *const *t = v->tensors + v->first[i];
        if (!type_is_tensor(d->type))
            lists[opt.n_sequences++] = (tp_onnx_sequence){d->name, v->count[i], t};
        else
            given[opt.n_values++] = (tp_feed){d->name, t[0]};
    }
    if (!r->sized)
        r->graph = tp_onnx_load(r->tp, path, &opt);
    opt.n_dims = r->graph ? 0 : free_sizes(r, v, MOST_PORTS, dims);
    if (opt.n_dims || r->sized) {
        tp_clear_error(r->tp);
        r->sized = true;
        r->graph = tp_onnx_load(r->tp, path, &opt);
    }
    return r->graph || stop_at_error(r, "", path);
}

static bool load_model(running *r, const char *path, const values *v, bool *became_constant)
{
    bool constant[MOST_PORTS] = {false};
    if (!load_graph(r, path, v, constant))
        return false;
    for (int i = 0, k = 0; i < v->n; i++)
        became_constant[i] = type_is_tensor(r->about.in[i].type) && constant[k++];
    r->n_in = tp_graph_n_inputs(r->graph);
    r->n_out = tp_graph_n_outputs(r->graph);
    if (r->n_in > MOST_PORTS || r->n_out > MOST_PORTS)
        return stop(r, CASE_SKIPPED, "more than %d inputs or outputs are not supported",
                    MOST_PORTS);
    for (int i = 0; i < r->n_in; i++)
        r->in[i] = tp_name_of(tp_graph_input(r->graph, i));
    for (int i = 0; i < r->n_out; i++)
        r->out[i] = tp_name_of(tp_graph_output(r->graph, i));
    return true;
}

/* Has the output the type that the model declares? Only of tensors, each by itself. */
static bool is_declared(const running *r, int i, const tp_tensor *t)
{
    static const struct {
        const char *declared;
        tp_dtype dtype;
    } types[] = {
        {"float",    TP_F32 },
        {"float16",  TP_F32 },
        {"bfloat16", TP_F32 },
        {"double",   TP_F64 },
        {"bool",     TP_BOOL},
        {"int8",     TP_I8  },
        {"int16",    TP_I16 },
        {"int32",    TP_I32 },
        {"int64",    TP_I64 },
        {"uint8",    TP_U8  },
        {"uint16",   TP_U16 },
        {"uint32",   TP_U32 },
        {"uint64",   TP_U64 },
    };
    const char *type = r->n_out == r->about.n_out ? r->about.out[i].type : NULL;
    for (size_t k = 0; type && k < sizeof types / sizeof *types; k++)
        if (strcmp(types[k].declared, type) == 0)
            return types[k].dtype == tp_dtype_of(t);
    return true;
}

static bool compare_outputs(running *r, const char *called, tp_tensor *const *out,
                            tp_tensor *const *want)
{
    char why[300];
    for (int i = 0; i < r->n_out; i++) {
        if (!case_compare(out[i], want[i], &r->tolerance, why, sizeof why))
            return stop(r, CASE_FAILED, "%s: output %d \"%s\": %s", called, i, r->out[i], why);
        if (!is_declared(r, i, out[i]))
            return stop(r, CASE_FAILED, "%s: output %d \"%s\": it is %s, the model declares %s",
                        called, i, r->out[i], tp_dtype_name(tp_dtype_of(out[i])),
                        r->about.out[i].type);
    }
    return r->tolerance.rule == RULE_NEAR ||
           case_compare_random(r->tolerance.rule, r->n_given, r->given, r->n_out, out, why,
                               sizeof why) ||
           stop(r, CASE_FAILED, "%s: %s", called, why);
}

static bool run_engine(running *r, tp_engine engine, const char *called,
                       tp_tensor *const *feeds, tp_tensor *const *want)
{
    tp_tensor *out[MOST_PORTS] = {NULL};
    const tp_compile_options opt = {.engine = engine, .freeze = engine != TP_ENGINE_REFERENCE};
    tp_program *p = tp_graph_compile(r->graph, r->n_in, r->in, r->n_out, r->out, &opt);
    if (!p || tp_program_run(p, feeds, out) != TP_OK) {
        r->misfit = !r->sized && tp_error(r->tp) == TP_E_SHAPE;
        return stop(r, CASE_FAILED, "%s: %s", called, cli_plain(tp_error_message(r->tp), NULL));
    }
    const bool good = compare_outputs(r, called, out, want);
    tp_program_free(p);
    return good;
}

/* Loads inputs and model; feeds[] are the inputs of the graph. What the model itself is refused
 * for says more than an input of a kind that cannot be read. */
static bool load_inputs(running *r, const char *folder, const char *path, values *given,
                        tp_tensor **feeds)
{
    bool constant[MOST_PORTS] = {false};
    int k = 0;
    const bool ok = load_values(r, folder, given, r->about.n_in, r->about.in);
    const case_result unread = *r->result;
    if (!load_model(r, path, given, constant))
        return false;
    if (!ok) {
        *r->result = unread;
        return false;
    }
    for (int i = 0; i < given->n; i++)
        for (int t = 0; t < given->count[i] && !constant[i]; t++)
            feeds[k++] = given->tensors[given->first[i] + t];
    r->given = given->tensors;
    r->n_given = given->n_tensors;
    return k == r->n_in ||
           stop(r, CASE_FAILED, "%d inputs are given, the model takes %d", k, r->n_in);
}

/* The expected outputs, as many as the graph has. */
static bool load_outputs(running *r, const char *folder, values *out)
{
    if (!load_values(r, folder, out, r->about.n_out, r->about.out))
        return false;
    if (out->n < r->about.n_out)
        return stop(r, CASE_FAILED, "there is no output_%d.pb", out->n);
    char surplus[PATH_MAX];
    if (tensor_path(folder, out->kind, out->n, surplus))
        return stop(r, CASE_FAILED, "there is an output_%d, but the model has %d outputs",
                    out->n, r->about.n_out);
    return out->n_tensors == r->n_out ||
           stop(r, CASE_FAILED, "it gives %d tensors, expected %d", r->n_out, out->n_tensors);
}

static bool run_inputs(running *r, const char *folder, const char *path)
{
    tp_tensor *feeds[MOST_PORTS] = {NULL};
    values given = {.kind = "input"}, want = {.kind = "output"};
    const bool ok =
        load_inputs(r, folder, path, &given, feeds) && load_outputs(r, folder, &want) &&
        (!r->opt->reference ||
         run_engine(r, TP_ENGINE_REFERENCE, "reference", feeds, want.tensors)) &&
        (!r->opt->tiles || run_engine(r, TP_ENGINE_TILES, "tiles", feeds, want.tensors)) &&
        (!r->opt->c || run_engine(r, TP_ENGINE_C, "c", feeds, want.tensors));
    tp_graph_free(r->graph);
    r->graph = NULL;
    return ok;
}

static bool run_data_set(running *r, const char *folder, const char *path)
{
    r->sized = r->misfit = false;
    if (run_inputs(r, folder, path) || !r->misfit)
        return r->result->verdict == CASE_PASSED;
    *r->result = (case_result){.verdict = CASE_PASSED};
    tp_clear_error(r->tp);
    r->sized = true;
    return run_inputs(r, folder, path);
}

static bool run_data_sets(running *r, const char *path)
{
    bool ok = true;
    int n = 0;
    for (bool there = true; ok && there;) {
        char name[40], folder[PATH_MAX];
        snprintf(name, sizeof name, "test_data_set_%d", n);
        there = is_in(r->c->path, name, S_IFDIR, folder);
        ok = !there || run_data_set(r, folder, path);
        n += there;
    }
    if (n == 0 && (has_file(r->c->path, "output_0.npy") || has_file(r->c->path, "output_0.pb")))
        return run_data_set(r, r->c->path, path); /* one set, beside the model */
    return n ? ok : stop(r, CASE_SKIPPED, "there is no test_data_set_0 to compare with");
}

void case_run(const test_case *c, const case_options *opt, case_result *result)
{
    running r = {.c = c,
                 .opt = opt,
                 .result = result,
                 .tp = cli_open(NULL),
                 .tolerance = case_tolerance(c->name)};
    *result = (case_result){.verdict = CASE_PASSED};
    tp_threads(r.tp, opt->threads);
    if (opt->rtol >= 0)
        r.tolerance.rtol = opt->rtol;
    if (opt->atol >= 0)
        r.tolerance.atol = opt->atol;
    char *path = join(c->path, "model.onnx");
    char *summary = r.tp && path ? tp_onnx_summary(r.tp, path) : NULL;
    if (summary && about_parse(&r.about, summary))
        run_data_sets(&r, path);
    else if (r.tp && path && !summary)
        stop_at_error(&r, "", path);
    else
        stop(&r, CASE_FAILED, "out of memory");
    tp_free(r.tp, summary);
    about_free(&r.about);
    free(path);
    cli_close(r.tp);
}
