/* Runs the conformance cases of the shared data: a folder is a model, its inputs, and the outputs
 * that the upstream project recorded.
 *
 *     onnx_cases --engine reference|tiles|c [--every N] [--part PART] [--skips FILE] [--list] [CASE...]
 *
 * CASE is a folder below onnx-backend-tests, such as node/test_add; none: all of them, or all of
 * PART (node, simple, pytorch-operator, light). The networks of light are run by the C executor
 * only, unless they are named: plain loops would take minutes. Every case
 * that does not pass has to be in FILE, with the beginning of its reason; and a case that is in
 * it and passes is an error too, so the list says what is true. */
#include "tapir/onnx.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 64, MAX_CASES = 4096, MAX_PATH = 1024, MAX_NAME = 200 };

typedef struct listed {
    char name[128], reason[200];
    bool used;
} listed;

typedef struct runner {
    tp_engine engine;
    int every;
    const char *part; /* NULL: all */
    bool list;
    listed *skips;
    int n_skips, passed, failed, skipped;
} runner;

/* ---- comparing --------------------------------------------------------------------------------- */

static double element(const tp_tensor *t, const char *p, int64_t i)
{
    switch (tp_dtype_of(t)) {
#define CASE(type, c)                                                                          \
    case type:                                                                                 \
        return (double)((const c *)(const void *)p)[i];
        CASE(TP_BOOL, uint8_t)
        CASE(TP_I8, int8_t)
        CASE(TP_I16, int16_t)
        CASE(TP_I32, int32_t)
        CASE(TP_I64, int64_t)
        CASE(TP_U8, uint8_t)
        CASE(TP_U16, uint16_t)
        CASE(TP_U32, uint32_t)
        CASE(TP_U64, uint64_t)
        CASE(TP_F32, float)
        CASE(TP_F64, double)
#undef CASE
    default:
        return NAN;
    }
}

static bool is_close(double got, double want, double rtol, double atol)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= atol + rtol * fabs(want);
}

/* What differs, or "". */
static void compare(tp_tensor *got, const tp_tensor *want, double rtol, double atol, char *why,
                    size_t size)
{
    why[0] = 0;
    if (tp_dtype_of(got) != tp_dtype_of(want)) {
        snprintf(why, size, "it is %s and has to be %s", tp_dtype_name(tp_dtype_of(got)),
                 tp_dtype_name(tp_dtype_of(want)));
        return;
    }
    bool same = tp_rank(got) == tp_rank(want);
    for (int i = 0; same && i < tp_rank(got); i++)
        same = tp_size(got, i) == tp_size(want, i);
    if (!same) {
        char a[200], b[200];
        tp_format(got, a, sizeof a);
        tp_format(want, b, sizeof b);
        snprintf(why, size, "shape: got %.60s, want %.60s", a, b);
        return;
    }
    const int64_t n = tp_count(want);
    const char *g = tp_data(tp_contiguous(got)), *w = tp_data(want);
    const bool exact = tp_dtype_of(want) < TP_F32;
    for (int64_t i = 0; i < n; i++) {
        const double a = element(got, g, i), b = element(want, w, i);
        if (!is_close(a, b, exact ? 0 : rtol, exact ? 0 : atol)) {
            snprintf(why, size, "element %lld: got %.9g, want %.9g", (long long)i, a, b);
            return;
        }
    }
}

/* ---- values ------------------------------------------------------------------------------------- */

/* Inputs or outputs as the model's summary tells them, and the tensors of the data set. */
typedef struct port {
    char name[MAX_NAME], type[80], sizes[MAX_NAME];
    bool list;    /* a sequence or an optional */
    int first, n; /* of the tensors; -1: no value */
} port;

typedef struct ports {
    int n, n_read, n_tensors;
    port v[MAX_VALUES];
    tp_tensor *tensors[MAX_VALUES];
} ports;

/* Lines such as: input "x" float "batch" 3. Names in the cases need no escapes. */
static void read_ports(ports *p, const char *summary, const char *kind)
{
    char format[60];
    snprintf(format, sizeof format, "%s \"%%%d[^\"]\" %%79s%%%d[^\n]", kind, MAX_NAME - 1,
             MAX_NAME - 1);
    *p = (ports){.n = 0};
    for (const char *line = summary; line && *line && p->n < MAX_VALUES;) {
        port *v = &p->v[p->n];
        p->n += sscanf(line, format, v->name, v->type, v->sizes) >= 2;
        v->list = strchr(v->type, '(') != NULL;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
}

/* False: one cannot be read. */
static bool load_values(tp_ctx *tp, const char *folder, const char *kind, ports *p)
{
    for (int i = 0; i < p->n; i++) {
        char path[2 * MAX_PATH];
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kind, i);
        FILE *f = fopen(path, "rb");
        if (!f)
            return true;
        fclose(f);
        p->v[i].first = p->n_tensors;
        if (tp_onnx_value_load(tp, path, p->v[i].type, MAX_VALUES - p->n_tensors,
                               p->tensors + p->n_tensors, &p->v[i].n) != TP_OK)
            return false;
        p->n_tensors += p->v[i].n > 0 ? p->v[i].n : 0;
        p->n_read++;
    }
    return true;
}

/* The sizes of tensors where the model leaves them free: "batch" in " \"batch\" 3". */
static int free_sizes(const ports *in, tp_onnx_dim *dims, char (*names)[MAX_NAME])
{
    int n = 0;
    for (int i = 0; i < in->n_read; i++) {
        int axis = 0;
        char sizes[MAX_NAME];
        snprintf(sizes, sizeof sizes, "%s", in->v[i].sizes);
        for (char *s = strtok(sizes, " "); s && !in->v[i].list; s = strtok(NULL, " "), axis++) {
            bool known = s[0] != '"' || n == MAX_VALUES;
            snprintf(names[n], MAX_NAME, "%.*s", (int)strcspn(s + !known, "\""), s + !known);
            for (int k = 0; k < n && !known; k++)
                known = strcmp(names[k], names[n]) == 0;
            if (known)
                continue;
            dims[n] = (tp_onnx_dim){names[n], tp_size(in->tensors[in->v[i].first], axis)};
            n++;
        }
    }
    return n;
}

/* ---- one case ----------------------------------------------------------------------------------- */

static const char *plain_error(tp_ctx *tp)
{
    const char *text = tp_error_message(tp), *last = strstr(text, "model.onnx: ");
    return last ? last + 12 : text;
}

/* Values are offered; when that does not do, free sizes are fixed, too. feeds[] are the inputs of the
 * graph, *n of them. */
static tp_graph *load_model(tp_ctx *tp, const char *path, const ports *in, tp_tensor **feeds,
                            int *n)
{
    tp_feed offered[MAX_VALUES];
    tp_onnx_sequence lists[MAX_VALUES];
    tp_onnx_dim dims[MAX_VALUES + 1];
    char names[MAX_VALUES + 1][MAX_NAME];
    bool constant[MAX_VALUES] = {false};
    tp_onnx_load_options opt = {
        .values = offered, .sequences = lists, .dims = dims, .became_constant = constant};
    for (int i = 0; i < in->n_read; i++) {
        const port *v = &in->v[i];
        tp_tensor *const *t = in->tensors + v->first;
        if (v->list)
            lists[opt.n_sequences++] = (tp_onnx_sequence){v->name, v->n, t};
        else
            offered[opt.n_values++] = (tp_feed){v->name, t[0]};
    }
    tp_graph *g = tp_onnx_load(tp, path, &opt);
    opt.n_dims = g ? 0 : free_sizes(in, dims, names);
    if (opt.n_dims) {
        tp_clear_error(tp);
        g = tp_onnx_load(tp, path, &opt);
    }
    for (int i = 0, k = 0; i < in->n_read; i++) {
        const port *v = &in->v[i];
        const bool fed = v->list || !constant[k];
        for (int t = 0; t < v->n && fed; t++)
            feeds[(*n)++] = in->tensors[v->first + t];
        k += !v->list;
    }
    return g;
}

static void run_graph(const runner *r, tp_ctx *tp, const char *name, tp_graph *g, int n_feeds,
                      tp_tensor *const *feeds, const ports *want, char *why, size_t size)
{
    tp_tensor *got[MAX_VALUES];
    const char *in[MAX_VALUES], *out[MAX_VALUES];
    const int n_in = tp_graph_n_inputs(g), n_out = tp_graph_n_outputs(g);
    if (tp_graph_verify(g) != TP_OK)
        snprintf(why, size, "%s", tp_error_message(tp));
    else if (n_in != n_feeds || n_out != want->n_tensors)
        snprintf(why, size, "%d inputs and %d outputs instead of %d and %d", n_in, n_out,
                 n_feeds, want->n_tensors);
    if (why[0])
        return;
    for (int i = 0; i < n_in; i++)
        in[i] = tp_name_of(tp_graph_input(g, i));
    for (int i = 0; i < n_out; i++)
        out[i] = tp_name_of(tp_graph_output(g, i));
    const tp_compile_options opt = {.engine = r->engine};
    tp_program *p = tp_graph_compile(g, n_in, in, n_out, out, &opt);
    const double rtol = strcmp(name, "light/light_densenet121") == 0 ? 2e-3 : 1e-3;
    const double atol = strstr(name, "test_dft") ? 1e-6 : 1e-7;
    if (!p || tp_program_run(p, feeds, got) != TP_OK)
        snprintf(why, size, "%s", plain_error(tp));
    for (int i = 0; i < n_out && !why[0]; i++)
        compare(got[i], want->tensors[i], rtol, atol, why, size);
}

static void run_case(const runner *r, const char *name, const char *folder, char *why,
                     size_t size)
{
    ports in, want;
    char path[2 * MAX_PATH], unread[400] = "";
    tp_tensor *feeds[MAX_VALUES];
    int n_feeds = 0;
    why[0] = 0;
    tp_ctx *tp = tp_open(NULL);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    char *summary = tp_onnx_summary(tp, path);
    read_ports(&in, summary, "input");
    read_ports(&want, summary, "output");
    tp_free(tp, summary);
    if (!load_values(tp, folder, "input", &in) || !load_values(tp, folder, "output", &want))
        snprintf(unread, sizeof unread, "%s", tp_error_message(tp));
    tp_clear_error(tp);
    tp_graph *g = load_model(tp, path, &in, feeds, &n_feeds);
    if (!g) /* says more than values of a kind that cannot be read */
        snprintf(why, size, "%s", plain_error(tp));
    else if (unread[0])
        snprintf(why, size, "%s", unread);
    else
        run_graph(r, tp, name, g, n_feeds, feeds, &want, why, size);
    tp_close(tp);
}

/* ---- all of them ------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_cases(const runner *r, const char *root, char **cases)
{
    static const char *const parts[] = {"node", "simple", "pytorch-operator", "light"};
    const size_t n_parts = r->engine == TP_ENGINE_REFERENCE ? 3 : 4;
    int n = 0;
    for (size_t k = 0; k < n_parts; k++) {
        if (r->part && strcmp(r->part, parts[k]) != 0)
            continue;
        char path[2 * MAX_PATH];
        snprintf(path, sizeof path, "%s/%s", root, parts[k]);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir)) != NULL && n < MAX_CASES;)
            if (e->d_name[0] != '.') {
                snprintf(path, sizeof path, "%s/%s", parts[k], e->d_name);
                cases[n++] = strdup(path);
            }
        if (dir)
            closedir(dir);
    }
    qsort(cases, (size_t)n, sizeof *cases, by_name);
    return n;
}

static bool read_skips(runner *r, const char *path)
{
    FILE *f = fopen(path, "r");
    char line[512];
    if (!f)
        return false;
    while (fgets(line, sizeof line, f) && r->n_skips < MAX_CASES) {
        listed *s = &r->skips[r->n_skips];
        if (line[0] != '#' && sscanf(line, "%127s %199[^\n]", s->name, s->reason) == 2)
            r->n_skips++;
    }
    fclose(f);
    return true;
}

static listed *find_skip(const runner *r, const char *name)
{
    for (int i = 0; i < r->n_skips; i++)
        if (strcmp(r->skips[i].name, name) == 0)
            return &r->skips[i];
    return NULL;
}

static void judge(runner *r, const char *name, const char *why)
{
    listed *skip = find_skip(r, name);
    if (skip)
        skip->used = true;
    if (!why[0] && !skip) {
        r->passed++;
        if (r->list)
            printf("pass %s\n", name);
    } else if (!why[0]) {
        r->failed++;
        printf("FAIL %s: it passes, and skips.txt says it does not\n", name);
    } else if (skip && strncmp(why, skip->reason, strlen(skip->reason)) == 0) {
        r->skipped++;
        if (r->list)
            printf("skip %s %s\n", name, why);
    } else {
        r->failed++;
        printf("FAIL %s %s\n", name, why);
    }
    fflush(stdout);
}

static tp_engine engine_named(const char *name)
{
    return strcmp(name, "c") == 0       ? TP_ENGINE_C
           : strcmp(name, "tiles") == 0 ? TP_ENGINE_TILES
                                        : TP_ENGINE_REFERENCE;
}

int main(int argc, char **argv)
{
    static char *cases[MAX_CASES];
    static listed skips[MAX_CASES];
    runner r = {.engine = TP_ENGINE_REFERENCE, .every = 1, .skips = skips};
    const char *shared = getenv("TAPIR_SHARED");
    char root[MAX_PATH];
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--engine") == 0 && i + 1 < argc)
            r.engine = engine_named(argv[++i]);
        else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc)
            r.every = atoi(argv[++i]);
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc)
            r.part = argv[++i];
        else if (strcmp(argv[i], "--list") == 0)
            r.list = true;
        else if (strcmp(argv[i], "--skips") == 0 && i + 1 < argc && read_skips(&r, argv[++i]))
            continue;
        else
            cases[n++] = strdup(argv[i]);
    }
    snprintf(root, sizeof root, "%s/onnx-backend-tests", shared ? shared : ".");
    const bool all = n == 0;
    if (all)
        n = find_cases(&r, root, cases);
    if (n == 0) {
        printf("%s is not there\n", root);
        return 77;
    }
    for (int i = 0; i < n; i++) {
        char folder[MAX_PATH], why[400];
        if (i % r.every != 0)
            continue;
        if (snprintf(folder, sizeof folder, "%s/%s", root, cases[i]) >= (int)sizeof folder)
            continue;
        run_case(&r, cases[i], folder, why, sizeof why);
        judge(&r, cases[i], why);
    }
    for (int i = 0; i < r.n_skips && all && r.every == 1 && !r.part; i++)
        if (!r.skips[i].used) {
            printf("FAIL %s is in skips.txt and there is no such case\n", r.skips[i].name);
            r.failed++;
        }
    for (int i = 0; i < n; i++)
        free(cases[i]);
    printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped);
    return r.failed != 0;
}
