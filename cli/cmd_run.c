/* tapir run: computes a model's outputs. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct settings {
    texts inputs, dims;
    const char *output;
    int64_t threads, limit;
    int format, engine;
    bool direct_conv;
} settings;

enum { AS_NPY, AS_PB };

static const option options[] = {
    CLI_OPTION(OPTION_TEXTS, inputs, "input", "NAME=FILE",
               "the value of an input, .npy or .pb; once for each input;\n"
               "of a sequence a folder of 0.npy, 1.npy and so on, or a .pb\n"
               "of them all; of an optional without a value NAME= alone"),
    CLI_OPTION(OPTION_TEXT, output, "output", "DIR",
               "write each output to DIR/NAME.npy instead of printing it, the\n"
               "tensors of a sequence to DIR/NAME/0.npy and so on; DIR is\n"
               "made when it is not there"),
    CLI_CHOICE(format, "format", "npy|pb", "npy,pb", "of the files written (npy)"),
    CLI_OPTION(OPTION_TEXTS, dims, "dim", "NAME=N",
               "fix the size of a free dimension; x_2=N: of axis 2 of x"),
    CLI_CHOICE(engine, "engine", "auto|reference|tiles|c", CLI_ENGINES,
               "what computes: the model compiled to C; plain loops; vector\n"
               "code without a compiler; auto: C if it was compiled before, or\n"
               "tiles, so that no compiler is waited for (auto)"),
    CLI_DIRECT_CONV,
    CLI_LIMIT,
    CLI_THREADS("; the bits are the same"),
    CLI_OPTIONS_END,
};

/* ---- what is needed ---------------------------------------------------------------------------- */

static void put_option_for(const char *name, const char *type)
{
    fputs("    --input ", stderr);
    put_plain_text(stderr, name);
    fputs(type_is_sequence(type) ? "=FOLDER, or a .pb of all" : "=FILE", stderr);
    if (type_is_optional(type)) {
        fputs("; without a value, --input ", stderr);
        put_plain_text(stderr, name);
        fputs("=", stderr);
    }
    fputs("\n", stderr);
}

static void put_port(const model *m, const char *name, bool input)
{
    ir_node n;
    fputs("  ", stderr);
    put_plain_text(stderr, name);
    if (ir_port(&n, m->tp, m->graph, name))
        fprintf(stderr, "  %s[%s]", tp_dtype_name(n.is.dtype), n.dims);
    if (input)
        put_option_for(name, NULL);
    else
        fputc('\n', stderr);
}

static const char takes[] =
    "It takes (FILE is a .npy or .pb; a name among the sizes is one that is free):\n";

/* Of a model that cannot be read without its inputs, as its file says. */
static void report_declared(const model *m)
{
    fputs(takes, stderr);
    for (int i = 0; i < m->about.n_in; i++) {
        const declared *d = &m->about.in[i];
        fputs("  ", stderr);
        put_plain_text(stderr, d->name);
        fprintf(stderr, type_is_tensor(d->type) ? "  %s[" : "  %s", d->type);
        for (int a = 0; a < d->rank; a++) {
            fputs(a ? "," : "", stderr);
            if (d->free[a])
                put_plain_text(stderr, d->free[a]);
            else
                fprintf(stderr, "%lld", (long long)d->size[a]);
        }
        if (type_is_tensor(d->type))
            fputs(d->rank < 0 ? "?]" : "]", stderr);
        put_option_for(d->name, d->type);
    }
}

/* Of a sequence or an optional, which is given as a whole. */
static bool is_element(const model *m, const tp_tensor *t)
{
    bool is = false;
    for (int i = 0; i < m->n_given && t; i++)
        for (int k = 0; k < m->given[i].n && !type_is_tensor(m->given[i].type); k++)
            is |= m->given[i].v[k] == t;
    return is;
}

static int report_needs(const model *m)
{
    int first = 0;
    while (m->feeds[first])
        first++;
    cli_refuse(m->path, "input \"%s\" is missing", m->in[first]);
    fputs(takes, stderr);
    for (int i = 0; i < m->n_in; i++)
        if (!is_element(m, m->feeds[i]))
            put_port(m, m->in[i], true);
    fputs("It gives:\n", stderr);
    for (int i = 0; i < m->n_out; i++)
        put_port(m, m->out[i], false);
    return CLI_BAD;
}

/* ---- results -------------------------------------------------------------------------------------- */

/* The results as the model declares them, of the tensors in `out`: into all[], which has room for
 * those that are declared and for n_out. How many there are. */
static int find_results(const model *m, tp_tensor **out, port *all)
{
    int n = 0, at = 0;
    for (int i = 0; i < m->about.n_out; i++) {
        const declared *d = &m->about.out[i];
        const size_t len = strlen(d->name);
        port *v = &all[n++];
        *v = (port){.name = d->name, .type = d->type, .v = out + at};
        if (type_is_sequence(d->type)) {
            for (char number[16] = ".0"; at + v->n < m->n_out;) {
                const char *name = m->out[at + v->n];
                if (strncmp(name, d->name, len) != 0 || strcmp(name + len, number) != 0)
                    break;
                snprintf(number, sizeof number, ".%d", ++v->n);
            }
        } else {
            v->n = at < m->n_out && strcmp(m->out[at], d->name) == 0;
        }
        at += v->n;
        if (v->n == 0 && type_is_optional(d->type))
            v->n = -1;
    }
    if (at == m->n_out && n)
        return n;
    for (n = 0; n < m->n_out; n++) /* a saved graph */
        all[n] = (port){.name = m->out[n], .n = 1, .v = out + n};
    return n;
}

static void put_type(const tp_tensor *t)
{
    printf("%s[", tp_dtype_name(tp_dtype_of(t)));
    for (int i = 0; i < tp_rank(t); i++)
        printf("%s%lld", i ? "," : "", (long long)tp_size(t, i));
    printf("]");
}

static int make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0)
        return CLI_GOOD;
    if (errno != EEXIST)
        return cli_refuse(path, "%s", strerror(errno));
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return cli_refuse(path, "it is not a folder");
    return CLI_GOOD;
}

/* A file name of an output's name: what is odd becomes '_', and a number is added to the name
 * when that has made two alike. */
static char *file_name(const settings *s, const char *name, const char *ending, int n_earlier,
                       char *const *earlier)
{
    const size_t size = strlen(s->output) + strlen(name) + 32;
    char *path = malloc(size), *bare = strdup(name);
    for (char *p = bare; p && *p; p++) {
        const char c = *p;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                           (c == '.' && p != bare);
        if (!plain)
            *p = '_';
    }
    if (bare && strlen(bare) > 200)
        bare[200] = 0;
    bool taken = path && bare;
    for (int n = 1; taken; n++) {
        char number[16] = "";
        if (n > 1)
            snprintf(number, sizeof number, "_%d", n);
        snprintf(path, size, "%s/%s%s%s", s->output, *bare ? bare : "_", number, ending);
        taken = false;
        for (int i = 0; i < n_earlier; i++)
            taken |= strcmp(earlier[i], path) == 0;
    }
    if (!bare) {
        free(path);
        path = NULL;
    }
    free(bare);
    return path;
}

/* A line of what was written: "y.1  f32[2,3]  out/y/1.npy". `k` -1: of no sequence. `path` NULL: to
 * no file. */
static void put_written(const port *v, int k, const char *path)
{
    put_plain_text(stdout, v->name);
    if (k >= 0)
        printf(".%d", k);
    printf("  ");
    if (v->n < 0)
        printf("no value");
    else if (k < 0 && type_is_sequence(v->type))
        printf("%d tensors", v->n);
    else
        put_type(v->v[k < 0 ? 0 : k]);
    printf(path ? "  " : "\n");
    if (path) {
        put_plain_text(stdout, path);
        printf("\n");
    }
}

/* What an earlier run left behind the last one of n tensors would be read as part of the sequence. */
static int remove_rest(const char *folder, char *path, size_t size, int n)
{
    for (;; n++) {
        snprintf(path, size, "%s/%d.npy", folder, n);
        if (unlink(path) != 0)
            return errno == ENOENT ? CLI_GOOD : cli_refuse(path, "%s", strerror(errno));
    }
}

/* As the model declares it: what it computes in 32 bits may be declared as 16. */
static tp_status save_npy(const port *v, int k, const char *path)
{
    const char *type = v->type ? v->type : "";
    const char *end = strstr(type, "float16");
    const bool half = tp_dtype_of(v->v[k]) >= TP_F32 && end && (end == type || end[-1] != 'b');
    return half ? tp_npy_save_f16(v->v[k], path) : tp_npy_save(v->v[k], path);
}

static int write_folder(tp_ctx *tp, const port *v, const char *folder)
{
    const size_t size = strlen(folder) + 32;
    char *path = malloc(size);
    int status = path ? make_folder(folder) : cli_no_memory();
    for (int k = 0; k < v->n && status == CLI_GOOD; k++) {
        snprintf(path, size, "%s/%d.npy", folder, k);
        if (save_npy(v, k, path) == TP_OK)
            put_written(v, k, path);
        else
            status = cli_refuse_error(path, tp);
    }
    if (status == CLI_GOOD)
        status = remove_rest(folder, path, size, v->n);
    if (status == CLI_GOOD && v->n == 0)
        put_written(v, -1, folder);
    free(path);
    return status;
}

static int write_output(const settings *s, tp_ctx *tp, const port *v, const char *path)
{
    if (s->format == AS_NPY && type_is_sequence(v->type) && v->n >= 0)
        return write_folder(tp, v, path);
    const bool none = s->format == AS_NPY && v->n < 0;
    if (none && unlink(path) != 0 && errno != ENOENT)
        return cli_refuse(path, "%s", strerror(errno));
    const tp_status status = none                  ? TP_OK
                             : s->format == AS_NPY ? save_npy(v, 0, path)
                             : v->type ? tp_onnx_value_save(tp, path, v->type, v->n, v->v)
                                       : tp_onnx_tensor_save(v->v[0], path);
    if (status != TP_OK)
        return cli_refuse_error(path, tp);
    put_written(v, -1, none ? NULL : path);
    return CLI_GOOD;
}

static int write_outputs(const settings *s, const model *m, int n, const port *all)
{
    char **paths = calloc((size_t)n + 1, sizeof *paths);
    int status = paths ? make_folder(s->output) : cli_no_memory();
    for (int i = 0; i < n && status == CLI_GOOD; i++) {
        const char *ending = s->format == AS_PB              ? ".pb"
                             : type_is_sequence(all[i].type) ? ""
                                                             : ".npy";
        paths[i] = file_name(s, all[i].name, ending, i, paths);
        status = paths[i] ? write_output(s, m->tp, &all[i], paths[i]) : cli_no_memory();
    }
    for (int i = 0; i < n && paths; i++)
        free(paths[i]);
    free(paths);
    return status;
}

static int print_outputs(int n, const port *all)
{
    for (int i = 0; i < n; i++) {
        const port *v = &all[i];
        if (v->n <= 0)
            put_written(v, -1, NULL);
        for (int k = 0; k < v->n; k++) {
            put_plain_text(stdout, v->name);
            if (type_is_sequence(v->type))
                printf(".%d", k);
            printf("  ");
            tp_print(v->v[k], stdout);
        }
    }
    return CLI_GOOD;
}

/* ---- running ----------------------------------------------------------------------------------------- */

static int run_model(const settings *s, model *m, tp_engine engine)
{
    model_drop_unneeded(m);
    for (int i = 0; i < m->n_in; i++)
        if (!m->feeds[i])
            return report_needs(m);
    cli_threads(m->tp, s->threads);
    const tp_compile_options opt = {.engine = engine, .freeze = true, .memory_limit = s->limit};
    tp_program *p = model_compile(m, &opt);
    model_drop_graph(m);
    tp_tensor **out = calloc((size_t)m->n_out + 1, sizeof *out);
    port *all = calloc((size_t)m->n_out + (size_t)m->about.n_out + 1, sizeof *all);
    int status = !p ? CLI_BAD : !out || !all ? cli_no_memory() : CLI_GOOD;
    if (status == CLI_GOOD && tp_program_run(p, m->feeds, out) != TP_OK)
        status = model_run_failed(m);
    if (status == CLI_GOOD) {
        const int n = find_results(m, out, all);
        status = s->output ? write_outputs(s, m, n, all) : print_outputs(n, all);
    }
    free(out);
    free(all);
    return status;
}

static int run_file(const settings *s, const char *path, const fixed_dims *d)
{
    const tp_engine engine = cli_engine_of(s->engine);
    model m;
    int status = CLI_BAD;
    if (model_open(&m, path, d, &s->inputs, s->direct_conv))
        status = run_model(s, &m, engine);
    else if (m.unread)
        report_declared(&m);
    if (status == CLI_MISFIT)
        status = model_open_sized(&m, d, &s->inputs) ? run_model(s, &m, engine) : CLI_BAD;
    model_close(&m);
    return status;
}

static int run(int argc, char **argv)
{
    settings s = {0};
    texts operands;
    int status;
    fixed_dims d = {0};
    if (cli_parse(&cli_run, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        if (cli_dims(&s.dims, &d))
            status = run_file(&s, operands.v[0], &d);
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_run, &s, &operands);
    return status;
}

const command cli_run = {
    .name = "run",
    .operands = "MODEL",
    .about = "Computes the outputs of a model.",
    .text = "Without its inputs it says which ones the model needs: name, type and sizes.\n"
            "\n"
            "examples:\n"
            "  tapir run model.onnx                        what does it need?\n"
            "  tapir run model.onnx --input x=x.npy        print the outputs\n"
            "  tapir run model.onnx --input x=x.npy --input mask=mask.pb --output results\n"
            "\n"
            "With --output a line is printed for each file: name, type and sizes, path. Odd\n"
            "characters of a name become _ in the file's name.\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
