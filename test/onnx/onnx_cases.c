/* Runs the conformance cases of the shared data: a folder is a model, its inputs, and the outputs
 * that the upstream project recorded.
 *
 *     onnx_cases --engine reference|c [--every N] [--part PART] [--skips FILE] [--list] [CASE...]
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

enum { MAX_VALUES = 32, MAX_CASES = 4096, MAX_PATH = 1024 };

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

/* ---- one case ----------------------------------------------------------------------------------- */

static int load_values(tp_ctx *tp, const char *folder, const char *kind, tp_tensor **out)
{
    int n = 0;
    for (; n < MAX_VALUES; n++) {
        char path[2 * MAX_PATH];
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kind, n);
        FILE *f = fopen(path, "rb");
        if (!f)
            break;
        fclose(f);
        out[n] = tp_onnx_tensor_load(tp, path);
    }
    return n;
}

static const char *plain_error(tp_ctx *tp)
{
    const char *text = tp_error_message(tp), *last = strstr(text, "model.onnx: ");
    return last ? last + 12 : text;
}

static void run_case(const runner *r, const char *name, const char *folder, char *why,
                     size_t size)
{
    tp_tensor *in[MAX_VALUES], *want[MAX_VALUES], *got[MAX_VALUES];
    tp_feed offered[MAX_VALUES];
    const char *feeds[MAX_VALUES], *fetches[MAX_VALUES];
    bool became_constant[MAX_VALUES] = {false};
    char path[2 * MAX_PATH];
    why[0] = 0;
    tp_ctx *tp = tp_open(NULL);
    const int n_in = load_values(tp, folder, "input", in);
    const int n_out = load_values(tp, folder, "output", want);
    for (int i = 0; i < n_in + n_out; i++) {
        const tp_tensor *t = i < n_in ? in[i] : want[i - n_in];
        if (!tp_failed(t))
            continue;
        /* What the model itself is refused for says more than values of a kind we do not read. */
        tp_clear_error(tp);
        snprintf(path, sizeof path, "%s/model.onnx", folder);
        if (tp_onnx_load(tp, path, NULL))
            snprintf(why, size, "%s", tp_error_text(t));
        else
            snprintf(why, size, "%s", plain_error(tp));
        tp_close(tp);
        return;
    }
    for (int i = 0; i < n_in; i++)
        offered[i] = (tp_feed){NULL, in[i]};
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    tp_graph *g = tp_onnx_load(tp, path,
                               &(tp_onnx_load_options){.n_values = n_in,
                                                       .values = offered,
                                                       .became_constant = became_constant});
    tp_program *p = NULL;
    int n_feeds = 0;
    if (g) {
        for (int i = 0; i < n_in; i++)
            if (!became_constant[i])
                in[n_feeds++] = in[i];
        for (int i = 0; i < tp_graph_n_inputs(g) && i < MAX_VALUES; i++)
            feeds[i] = tp_name_of(tp_graph_input(g, i));
        for (int i = 0; i < tp_graph_n_outputs(g) && i < MAX_VALUES; i++)
            fetches[i] = tp_name_of(tp_graph_output(g, i));
        if (tp_graph_verify(g) != TP_OK)
            snprintf(why, size, "%s", tp_error_message(tp));
        else if (tp_graph_n_inputs(g) != n_feeds || tp_graph_n_outputs(g) != n_out)
            snprintf(why, size, "%d inputs and %d outputs instead of %d and %d",
                     tp_graph_n_inputs(g), tp_graph_n_outputs(g), n_feeds, n_out);
        else
            p = tp_graph_compile(g, n_feeds, feeds, n_out, fetches,
                                 &(tp_compile_options){.engine = r->engine});
    }
    const double rtol = strcmp(name, "light/light_densenet121") == 0 ? 2e-3 : 1e-3;
    const double atol = strstr(name, "test_dft") ? 1e-6 : 1e-7;
    if (p && tp_program_run(p, in, got) == TP_OK)
        for (int i = 0; i < n_out && !why[0]; i++)
            compare(got[i], want[i], rtol, atol, why, size);
    else if (!why[0])
        snprintf(why, size, "%s", plain_error(tp));
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
    const size_t n_parts = r->engine == TP_ENGINE_C ? 4 : 3;
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
            r.engine = strcmp(argv[++i], "c") == 0 ? TP_ENGINE_C : TP_ENGINE_REFERENCE;
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
