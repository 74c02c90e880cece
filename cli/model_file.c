/* Models: ONNX files, and graphs saved by tp_graph_save. Which one it is, its first bytes say. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

bool cli_is_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        cli_refuse(path, "%s", strerror(errno));
    else if (S_ISDIR(info.st_mode))
        cli_refuse(path, "it is a folder, not a file");
    else
        return true;
    return false;
}

/* A model is looked into first and then read, and a pipe gives what it has only once. */
static bool is_pipe(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
}

static bool is_saved_graph(const char *path)
{
    static const char magic[] = "tapir graph ";
    char head[sizeof magic - 1] = "";
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    const bool is =
        fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, magic, sizeof head) == 0;
    fclose(f);
    return is;
}

bool cli_dims(const texts *from, fixed_dims *d)
{
    *d = (fixed_dims){.v = calloc((size_t)from->n + 1, sizeof *d->v)};
    for (int i = 0; i < from->n && d->v; i++) {
        const char *text = from->v[i], *equals = strrchr(text, '=');
        char *end = NULL;
        errno = 0;
        const long long size = equals ? strtoll(equals + 1, &end, 10) : -1;
        if (!equals || equals == text || end == equals + 1 || *end || errno || size < 0) {
            cli_refuse(NULL, "--dim %s: it takes NAME=N, as in --dim batch=8", text);
            return false;
        }
        char *name = strndup(text, (size_t)(equals - text));
        if (!name)
            break;
        d->v[d->n++] = (tp_onnx_dim){.name = name, .size = size};
    }
    if (d->n < from->n || !d->v)
        cli_no_memory();
    return d->v && d->n == from->n;
}

void cli_dims_free(fixed_dims *d)
{
    for (int i = 0; i < d->n; i++)
        free((char *)d->v[i].name);
    free(d->v);
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

/* Is it the name as it is, or as a symbol of the graph, where odd characters are '_'? */
static bool means(const char *given, const char *name)
{
    if (strlen(given) != strlen(name))
        return false;
    for (; *name; name++, given++) {
        const bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                           (*name >= '0' && *name <= '9');
        if (*given != *name && (plain || *given != '_'))
            return false;
    }
    return true;
}

/* Is it "<input>_<axis>"? */
static bool means_axis(const char *given, const char *input, int axis)
{
    const size_t n = strlen(input);
    char *end;
    return strncmp(given, input, n) == 0 && given[n] == '_' && given[n + 1] >= '0' &&
           given[n + 1] <= '9' && strtol(given + n + 1, &end, 10) == axis && !*end;
}

/* The free dimension of the model of which --dim speaks; NULL: refused. */
static const char *free_dim(const model *m, const char *given)
{
    const char *known[64] = {NULL};
    int n = 0;
    for (int i = 0; i < m->about.n_in; i++)
        for (int a = 0; a < m->about.in[i].rank; a++) {
            const char *name = m->about.in[i].free[a];
            if (name && means(given, name))
                return name;
            if (name && means_axis(given, m->about.in[i].name, a))
                return given;
            if (name && n < 64)
                known[n++] = name;
        }
    const char *near = cli_nearest(given, n, known);
    if (near)
        cli_refuse(m->path, "there is no free dimension \"%s\"; did you mean \"%s\"?", given,
                   near);
    else if (n)
        cli_refuse(m->path, "there is no free dimension \"%s\"; the first one is \"%s\"", given,
                   known[0]);
    else
        cli_refuse(m->path, "there is no free dimension \"%s\": all sizes are fixed", given);
    return NULL;
}

static bool is_fixed(int n, const tp_onnx_dim *all, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return true;
    return false;
}

/* Adds the sizes that given inputs have where the model leaves them free. */
static int add_sizes(const model *m, int n, tp_onnx_dim *all)
{
    for (int i = 0; i < m->n_given; i++)
        for (int k = 0; k < m->about.n_in; k++) {
            const declared *d = &m->about.in[k];
            const port *v = &m->given[i];
            if (strcmp(d->name, v->name) != 0 || !type_is_tensor(v->type) ||
                d->rank != tp_rank(v->v[0]))
                continue;
            for (int a = 0; a < d->rank; a++)
                if (d->free[a] && !is_fixed(n, all, d->free[a]))
                    all[n++] = (tp_onnx_dim){d->free[a], tp_size(v->v[0], a)};
        }
    return n;
}

static void hint_at_dims(const model *m)
{
    bool any = false;
    if (!strstr(tp_error_message(m->tp), "free dimension"))
        return;
    for (int i = 0; i < m->about.n_in; i++)
        for (int a = 0; a < m->about.in[i].rank; a++)
            if (m->about.in[i].free[a]) {
                fputs(any ? ", " : "tapir: free dimensions, for --dim NAME=N: ", stderr);
                put_plain_text(stderr, m->about.in[i].free[a]);
                any = true;
            }
    fputs(any ? "\n" : "", stderr);
}

/* --dim as the library takes it. */
static bool fix_dims(const model *m, const fixed_dims *d, tp_onnx_dim *all)
{
    for (int i = 0; d && i < d->n; i++) {
        all[i] = (tp_onnx_dim){free_dim(m, d->v[i].name), d->v[i].size};
        if (!all[i].name)
            return false;
    }
    return true;
}

/* What is given: tensors, and the rest. */
static void sort_given(const model *m, tp_onnx_load_options *opt, tp_feed *feeds,
                       tp_onnx_sequence *lists)
{
    for (int i = 0; i < m->n_given; i++) {
        const port *v = &m->given[i];
        if (type_is_tensor(v->type))
            feeds[opt->n_values++] = (tp_feed){v->name, v->v[0]};
        else
            lists[opt->n_sequences++] = (tp_onnx_sequence){v->name, v->n, v->v};
    }
    opt->values = feeds;
    opt->sequences = lists;
}

/* May the model be one that can be read when more of its sizes, or values, are known? */
static bool sizes_would_help(tp_ctx *tp)
{
    const tp_status s = tp_error(tp);
    return s == TP_E_VALUE || s == TP_E_SHAPE || s == TP_E_AXIS;
}

/* First without the values and sizes of inputs, so that one compiled program serves all; then,
 * when that is refused, with those there are. */
static bool load_onnx(model *m, const fixed_dims *d)
{
    const size_t n = (size_t)m->n_given;
    const int n_fixed = d ? d->n : 0;
    tp_onnx_dim *all = calloc((size_t)n_fixed + n * TP_MAX_RANK + 1, sizeof *all);
    tp_feed *feeds = calloc(n + 1, sizeof *feeds);
    tp_onnx_sequence *lists = calloc(n + 1, sizeof *lists);
    if (!all || !feeds || !lists) {
        cli_no_memory();
    } else if (fix_dims(m, d, all)) {
        tp_onnx_load_options opt = {.n_dims = n_fixed, .dims = all};
        sort_given(m, &opt, feeds, lists);
        const int n_values = opt.n_values;
        opt.n_values = 0;
        if (!m->sized)
            m->graph = tp_onnx_load(m->tp, m->path, &opt);
        if (!m->graph && n_values && (m->sized || sizes_would_help(m->tp))) {
            tp_clear_error(m->tp);
            m->sized = true;
            opt.n_dims = add_sizes(m, n_fixed, all);
            opt.n_values = n_values;
            m->graph = tp_onnx_load(m->tp, m->path, &opt);
        }
        if (!m->graph) {
            cli_refuse_error(m->path, m->tp);
            hint_at_dims(m);
            m->unread = m->n_given < m->about.n_in &&
                        strstr(tp_error_message(m->tp), "has to be known");
        }
    }
    free(all);
    free(feeds);
    free(lists);
    return m->graph;
}

/* How many tensors they have decides what graph it is. */
static bool lists_are_given(model *m)
{
    for (int k = 0; k < m->about.n_in && !m->unread; k++) {
        const declared *d = &m->about.in[k];
        bool is = type_is_tensor(d->type);
        for (int i = 0; i < m->n_given && !is; i++)
            is = strcmp(m->given[i].name, d->name) == 0;
        m->unread = !is;
        if (!is)
            cli_refuse(m->path,
                       "input \"%s\" is missing: it is a%s, and what is in it has to be known",
                       d->name, type_is_optional(d->type) ? "n optional" : " sequence");
    }
    return !m->unread;
}

static bool open_onnx(model *m, const fixed_dims *d, const texts *inputs)
{
    if (!about_read(&m->about, m->tp, m->path))
        return false;
    const int n = m->about.n_in;
    const char **names = calloc((size_t)n + 1, sizeof *names);
    const char **types = calloc((size_t)n + 1, sizeof *types);
    for (int i = 0; i < n && names && types; i++) {
        names[i] = m->about.in[i].name;
        types[i] = m->about.in[i].type;
    }
    if (!names || !types)
        cli_no_memory();
    const bool given =
        names && types && values_given(m, inputs, n, names, types) && lists_are_given(m);
    const bool ok = given && tp_scope_begin(m->tp) == TP_OK;
    if (given && !ok)
        cli_no_memory();
    if (ok) { /* what the graph does not hold is not needed */
        load_onnx(m, d);
        tp_scope_end(m->tp);
    }
    free(names);
    free(types);
    return ok && m->graph;
}

/* ---- either ---------------------------------------------------------------------------------- */

/* Names of the inputs or outputs, behind their pointers. */
static const char **names_of(const model *m, int n, bool inputs)
{
    size_t size = ((size_t)n + 1) * sizeof(char *);
    const size_t names_end = size;
    for (int i = 0; i < n; i++)
        size += 1 + strlen(tp_name_of(inputs ? tp_graph_input(m->graph, i)
                                             : tp_graph_output(m->graph, i)));
    const char **names = calloc(1, size);
    char *text = names ? (char *)names + names_end : NULL;
    for (int i = 0; i < n && names; i++) {
        const char *name =
            tp_name_of(inputs ? tp_graph_input(m->graph, i) : tp_graph_output(m->graph, i));
        names[i] = memcpy(text, name, strlen(name) + 1);
        text += strlen(name) + 1;
    }
    return names;
}

static bool find_ports(model *m)
{
    m->n_in = tp_graph_n_inputs(m->graph);
    m->n_out = tp_graph_n_outputs(m->graph);
    m->in = names_of(m, m->n_in, true);
    m->out = names_of(m, m->n_out, false);
    m->feeds = calloc((size_t)m->n_in + 1, sizeof *m->feeds);
    if (!m->in || !m->out || !m->feeds)
        cli_no_memory();
    else if (m->n_out == 0)
        cli_refuse(m->path, "the graph names no outputs (tp_graph_set_outputs)");
    else
        return true;
    return false;
}

/* The tensor that was given for an input of the graph; NULL: none. */
static tp_tensor *feed_for(const model *m, const char *name)
{
    for (int i = 0; i < m->n_given; i++) {
        const port *v = &m->given[i];
        const size_t n = strlen(v->name);
        if (strncmp(name, v->name, n) != 0)
            continue;
        if (!type_is_sequence(v->type) && !name[n] && v->n == 1)
            return v->v[0];
        if (type_is_sequence(v->type) && name[n] == '.') {
            char *end;
            const long k = strtol(name + n + 1, &end, 10);
            if (name[n + 1] && !*end && k >= 0 && k < v->n)
                return v->v[k];
        }
    }
    return NULL;
}

static bool open_with(model *m, const fixed_dims *d, const texts *inputs)
{
    if (!cli_is_file(m->path))
        return false;
    if (is_pipe(m->path)) {
        cli_refuse(m->path, "it is a pipe, and a model is read twice: keep it in a file");
        return false;
    }
    const bool saved = is_saved_graph(m->path);
    if (saved) {
        m->graph = tp_graph_load(m->tp, m->path);
        if (!m->graph)
            cli_refuse_error(m->path, m->tp);
    }
    if (saved ? !m->graph : !open_onnx(m, d, inputs))
        return false;
    if (!find_ports(m) || (saved && !values_given(m, inputs, m->n_in, m->in, NULL)))
        return false;
    for (int i = 0; i < m->n_in; i++)
        m->feeds[i] = feed_for(m, m->in[i]);
    return true;
}

static bool open_model(model *m, const fixed_dims *d, const texts *inputs)
{
    const texts none = {0};
    inputs = inputs ? inputs : &none;
    m->tp = cli_open(&(tp_options){.direct_conv = m->direct_conv});
    m->given = calloc((size_t)inputs->n + 1, sizeof *m->given);
    if (!m->tp || !m->given) {
        cli_no_memory();
        return false;
    }
    return open_with(m, d, inputs);
}

bool model_open(model *m, const char *path, const fixed_dims *d, const texts *inputs,
                bool direct_conv)
{
    *m = (model){.path = path, .direct_conv = direct_conv};
    return open_model(m, d, inputs);
}

bool model_open_sized(model *m, const fixed_dims *d, const texts *inputs)
{
    const model again = {.path = m->path, .direct_conv = m->direct_conv, .sized = true};
    model_close(m);
    *m = again;
    return open_model(m, d, inputs);
}

void model_close(model *m)
{
    free(m->in);
    free(m->out);
    free(m->feeds);
    for (int i = 0; i < m->n_given; i++)
        free(m->given[i].v);
    free(m->given);
    about_free(&m->about);
    cli_close(m->tp);
}

/* Do the outputs come about without input number i? */
static bool needs(const model *m, int i)
{
    const tp_compile_options opt = {.engine = TP_ENGINE_REFERENCE, .stop_after = "prune"};
    const char *last = m->in[m->n_in - 1], *own = m->in[i];
    m->in[i] = last; /* the others, in any order */
    tp_program *p = tp_graph_compile(m->graph, m->n_in - 1, m->in, m->n_out, m->out, &opt);
    m->in[i] = own;
    const bool needed = !p;
    tp_program_free(p);
    tp_clear_error(m->tp);
    return needed;
}

void model_drop_unneeded(model *m)
{
    for (int i = m->n_in - 1; i >= 0; i--)
        if (!m->feeds[i] && !needs(m, i)) {
            m->n_in--;
            memmove(m->in + i, m->in + i + 1, (size_t)(m->n_in - i) * sizeof *m->in);
            memmove(m->feeds + i, m->feeds + i + 1, (size_t)(m->n_in - i) * sizeof *m->feeds);
        }
}

tp_program *model_compile(model *m, const tp_compile_options *opt)
{
    tp_program *p = tp_graph_compile(m->graph, m->n_in, m->in, m->n_out, m->out, opt);
    if (!p)
        cli_refuse_error(m->path, m->tp);
    return p;
}

/* The sizes that a given input has where the model leaves them free; -1: it is none of the model's
 * inputs, or its other sizes are not the model's. */
static int free_sizes(const model *m, const port *given)
{
    for (int k = 0; k < m->about.n_in; k++) {
        const declared *d = &m->about.in[k];
        if (strcmp(d->name, given->name) != 0 || !type_is_tensor(d->type))
            continue;
        int n = d->rank == tp_rank(given->v[0]) ? 0 : -1;
        for (int a = 0; a < d->rank && n >= 0; a++)
            n = d->free[a] ? n + 1 : d->size[a] == tp_size(given->v[0], a) ? n : -1;
        return n;
    }
    return -1;
}

/* Would the sizes of the inputs settle what is free? */
static bool sizes_are_given(const model *m)
{
    int all = 0;
    for (int i = 0; i < m->n_given; i++) {
        const int n = free_sizes(m, &m->given[i]);
        if (n < 0 && type_is_tensor(m->given[i].type))
            return false;
        all += n > 0 ? n : 0;
    }
    return all > 0;
}

int model_run_failed(const model *m)
{
    if (!m->sized && tp_error(m->tp) == TP_E_SHAPE && sizes_are_given(m))
        return CLI_MISFIT;
    return cli_refuse_error(m->path, m->tp);
}

int model_run(model *m, tp_program *p, tp_tensor **out, double *ms)
{
    if (tp_scope_begin(m->tp) != TP_OK)
        return cli_no_memory();
    const double start = cli_now_ms();
    const bool ok = tp_program_run(p, m->feeds, out) == TP_OK;
    *ms = cli_now_ms() - start;
    tp_scope_end(m->tp);
    return ok ? CLI_GOOD : model_run_failed(m);
}

void model_drop_graph(model *m)
{
    tp_graph_free(m->graph);
    m->graph = NULL;
    tp_trim(m->tp);
}

void model_wait(model *m, tp_program *p)
{
    if (tp_program_wait(p) == TP_OK)
        return;
    cli_refuse_error(m->path, m->tp);
    fputs("tapir: it runs without one: slower, the same bits\n", stderr);
    tp_clear_error(m->tp);
}
