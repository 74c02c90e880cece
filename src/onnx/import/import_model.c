/* The importer: what a model takes and gives, and the options of the load. */
#include "onnx/import/import_inner.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------------- */

/* The text of a free dimension as a symbol: letters, digits, underscores; none twice. */
static int64_t symbol_for(tpi_import *im, tpi_span param, bool place)
{
    for (const tpi_onnx_symbol *s = im->symbols; s; s = s->next)
        if (s->place == place && tpi_span_same(s->param, param))
            return s->handle;
    char name[80];
    size_t len = 0;
    for (size_t i = 0; i < param.size && len < 60; i++) {
        const char c = param.at[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (i == 0 && !letter)
            name[len++] = '_';
        if (letter || (c >= '0' && c <= '9'))
            name[len++] = c;
        else if (i > 0)
            name[len++] = '_';
    }
    if (len == 0)
        name[len++] = '_';
    name[len] = 0;
    const int known = tpi_dim_n_symbols(im->g->dims);
    int64_t handle = tpi_dim_symbol(im->g->dims, name);
    for (int i = 2; handle != TPI_NO_DIM && tpi_dim_n_symbols(im->g->dims) == known; i++) {
        snprintf(name + len, sizeof name - len, "_%d", i);
        handle = tpi_dim_symbol(im->g->dims, name);
    }
    tpi_onnx_symbol *s = tpi_onnx_take(im->m, 1, sizeof *s);
    if (!s || handle == TPI_NO_DIM) {
        tpi_onnx_bad(im->m, TP_E_VALUE,
                     "the free dimension \"%.*s\" cannot be kept: there are too "
                     "many",
                     TPI_SPAN(param));
        return TPI_NO_DIM;
    }
    *s = (tpi_onnx_symbol){
        .next = im->symbols, .param = param, .place = place, .handle = handle};
    im->symbols = s;
    return handle;
}

/* The names of a free dimension: that of its input with the axis, and its text, or the same. */
typedef struct dim_names {
    tpi_span place, text; /* at NULL: memory is out */
} dim_names;

static dim_names names_of(tpi_import *im, const tpi_onnx_info *info, int axis)
{
    const size_t size = info->name.size + 24;
    char *own = tpi_onnx_take(im->m, size, 1);
    if (!own)
        return (dim_names){0};
    snprintf(own, size, "%.*s_%d", (int)info->name.size, info->name.size ? info->name.at : "",
             axis);
    const tpi_span place = {own, strlen(own)}, text = info->dims[axis].param;
    return (dim_names){place, text.size ? text : place};
}

/* The size that the options give to a name; -1: none. */
static int64_t fixed_size(const tpi_import *im, tpi_span name)
{
    for (int i = 0; im->opt && i < im->opt->n_dims; i++)
        if (tpi_span_is(name, im->opt->dims[i].name))
            return im->opt->dims[i].size;
    return -1;
}

/* "<input>_<axis>"? */
static bool is_place(tpi_span text, const tpi_onnx_info *in, int axis)
{
    char end[16];
    const size_t n = (size_t)snprintf(end, sizeof end, "_%d", axis), k = in->name.size;
    return text.size == k + n && (!k || memcmp(text.at, in->name.at, k) == 0) &&
           memcmp(text.at + k, end, n) == 0;
}

/* Is the text of a free dimension the name of an axis, too? An option of that name means the axis. */
static bool names_axis(const tpi_import *im, tpi_span text)
{
    const tpi_onnx_graph *g = &im->m->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        const tpi_onnx_info *in = &g->inputs[i];
        for (int a = 0; a < in->rank && in->rank <= TP_MAX_RANK; a++)
            if (in->dims[a].value < 0 && is_place(text, in, a))
                return true;
    }
    return false;
}

/* What is said of the very axis goes before what is said of all of its text. */
static int64_t input_size(tpi_import *im, const tpi_onnx_info *info, int axis)
{
    if (info->dims[axis].value >= 0)
        return info->dims[axis].value;
    const dim_names names = names_of(im, info, axis);
    if (!names.place.at)
        return TPI_NO_DIM;
    const bool no_text = info->dims[axis].param.size == 0;
    int64_t size = fixed_size(im, names.place);
    if (size < 0 && !no_text) { /* options are few: they are asked first */
        size = fixed_size(im, names.text);
        size = size >= 0 && names_axis(im, names.text) ? -1 : size;
    }
    return size < 0 ? symbol_for(im, names.text, no_text) : size;
}

/* Is the input in that place, and of that name, the one a value of the options is for? */
static bool is_offer(const tpi_import *im, int i, int place, tpi_span name)
{
    const char *offered = im->opt->values[i].name;
    return offered ? tpi_span_is(name, offered) : i == place;
}

/* The value offered for an input, when it is to be a constant; or -1. */
static int fixed_value(tpi_import *im, tpi_span name)
{
    const int place = im->n_inputs++;
    for (int i = 0; im->opt && i < im->opt->n_values; i++)
        if (is_offer(im, i, place, name)) {
            im->offers[i] = name;
            return im->fixed[i] ? i : -1;
        }
    return -1;
}

/* ---- names in the options ------------------------------------------------------------------------- */

/* Names for a message, in quotes, as many as there is room for. */
typedef struct names {
    char text[120];
    size_t len;
    tpi_span last;
} names;

static void add_name(names *n, tpi_span name)
{
    if (n->len + 80 > sizeof n->text || (n->len && tpi_span_same(n->last, name)))
        return;
    n->len += (size_t)snprintf(n->text + n->len, sizeof n->text - n->len, "%s\"%.*s\"",
                               n->len ? ", " : "", TPI_SPAN(name));
    n->last = name;
}

static bool check_dim(tpi_import *im, const tpi_onnx_env *f, int which)
{
    const tpi_onnx_graph *g = &im->m->graph;
    const tp_onnx_dim *dims = im->opt->dims;
    names there = {.text = ""};
    for (int i = 0; i < which; i++)
        if (strcmp(dims[i].name, dims[which].name) == 0)
            return tpi_onnx_bad(im->m, TP_E_NAME,
                                "the options fix the dimension \"%.60s\" twice",
                                dims[which].name);
    for (int i = 0; i < g->n_inputs; i++)
        for (int a = 0; a < g->inputs[i].rank && !tpi_onnx_find(f, g->inputs[i].name); a++) {
            if (g->inputs[i].rank > TP_MAX_RANK || g->inputs[i].dims[a].value >= 0)
                continue;
            const dim_names own = names_of(im, &g->inputs[i], a);
            if (!own.place.at)
                return false;
            if (tpi_span_is(own.place, dims[which].name) ||
                tpi_span_is(own.text, dims[which].name))
                return true;
            add_name(&there, own.text);
        }
    return tpi_onnx_bad(im->m, TP_E_NAME,
                        "the options fix a dimension \"%.60s\" that is not free in the model: "
                        "%s%s",
                        dims[which].name, there.len ? "free are " : "no size is free",
                        there.text);
}

static bool check_value(tpi_import *im, const tpi_onnx_env *f, int which)
{
    const tpi_onnx_graph *g = &im->m->graph;
    const char *name = im->opt->values[which].name;
    names there = {.text = ""};
    int place = 0;
    for (int i = 0; i < g->n_inputs; i++) {
        const tpi_span input = g->inputs[i].name;
        if (tpi_onnx_find(f, input))
            continue;
        if (is_offer(im, which, place, input)) {
            for (int k = 0; k < which; k++)
                if (is_offer(im, k, place, input))
                    return tpi_onnx_bad(im->m, TP_E_NAME,
                                        "the options have two values for the input \"%.*s\"",
                                        TPI_SPAN(input));
            return true;
        }
        add_name(&there, input);
        place++;
    }
    if (!name)
        return tpi_onnx_bad(im->m, TP_E_NAME,
                            "value %d of the options is for no input: the model has %d", which,
                            place);
    return tpi_onnx_bad(im->m, TP_E_NAME,
                        "the options have a value for \"%.60s\", which is no input of the "
                        "model: %s%s",
                        name, there.len ? "inputs are " : "it has none", there.text);
}

/* Is it the name of an input that is a sequence or an optional, and said once? */
static bool check_sequence(tpi_import *im, int which)
{
    const tpi_onnx_graph *g = &im->m->graph;
    const tp_onnx_sequence *all = im->opt->sequences;
    for (int i = 0; i < which; i++)
        if (strcmp(all[i].name, all[which].name) == 0)
            return tpi_onnx_bad(im->m, TP_E_NAME,
                                "the options say twice what the input \"%.60s\" has",
                                all[which].name);
    for (int i = 0; i < g->n_inputs; i++)
        if (tpi_span_is(g->inputs[i].name, all[which].name) &&
            (g->inputs[i].optional || g->inputs[i].sequence))
            return true;
    return tpi_onnx_bad(im->m, TP_E_NAME,
                        "the options have a sequence for \"%.60s\", and the model no input of "
                        "that name that is one, or an optional",
                        all[which].name);
}

/* Before the inputs are there: only initializers have names. */
static bool check_options(tpi_import *im, const tpi_onnx_env *f)
{
    for (int i = 0; im->opt && i < im->opt->n_dims; i++)
        if (!check_dim(im, f, i))
            return false;
    for (int i = 0; im->opt && i < im->opt->n_values; i++)
        if (!check_value(im, f, i))
            return false;
    for (int i = 0; im->opt && i < im->opt->n_sequences; i++)
        if (!check_sequence(im, i))
            return false;
    return true;
}

/* ---- inputs, made ---------------------------------------------------------------------------------- */

/* A name as it is, or with the number of an element. */
static const char *element_name(tpi_import *im, tpi_span name, int i)
{
    char *text = tpi_onnx_take(im->m, name.size + 16, 1);
    if (text && i < 0)
        snprintf(text, name.size + 16, "%.*s", (int)name.size, name.size ? name.at : "");
    else if (text)
        snprintf(text, name.size + 16, "%.*s.%d", (int)name.size, name.size ? name.at : "", i);
    return text;
}

#define REFUSE_INPUT(im, info, text, ...)                                                      \
    tpi_onnx_bad((im)->m, TP_E_VALUE, "input \"%.*s\" " text, TPI_SPAN((info)->name),          \
                 __VA_ARGS__)

static bool add_placeholder(tpi_import *im, const char *name, tp_dtype dtype, int rank,
                            const int64_t *shape, tpi_onnx_value *v)
{
    if (!name)
        return false;
    v->graph = im->g;
    v->tensor = tp_placeholder_at(im->at.file, im->at.line, im->g, name, dtype, rank, shape);
    return v->tensor->status == TP_OK ||
           tpi_onnx_bad(im->m, (tp_status)v->tensor->status, "%s", tpi_onnx_error_text(im));
}

/* An input that is a tensor of a sequence or an optional, of like's sizes. */
static bool add_element(tpi_import *im, const tpi_onnx_info *info, int i, const tp_tensor *like,
                        tpi_onnx_value *v)
{
    const tp_dtype dtype = tpi_onnx_dtype(info->type);
    if (dtype == TP_N_DTYPES || (tp_dtype)like->dtype != dtype)
        return REFUSE_INPUT(
            im, info, "has elements of type %s, its tensors in the options are %s",
            tpi_onnx_type_name(info->type), tp_dtype_name((tp_dtype)like->dtype));
    return add_placeholder(im, element_name(im, info->name, i), dtype, like->rank, like->shape,
                           v);
}

static const tp_onnx_sequence *sequence_for(const tpi_import *im, tpi_span name)
{
    for (int i = 0; im->opt && i < im->opt->n_sequences; i++)
        if (tpi_span_is(name, im->opt->sequences[i].name))
            return &im->opt->sequences[i];
    return NULL;
}

/* An input that is a sequence or an optional is as the options say. */
static bool add_list(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_info *info)
{
    const tp_onnx_sequence *said = sequence_for(im, info->name);
    if (!said)
        return REFUSE_INPUT(
            im, info,
            "is a%s: say in sequences of tp_onnx_load_options how many tensors it has",
            info->optional ? "n optional" : " sequence");
    const bool fits = info->optional && said->n < 0 ? true
                      : info->sequence              ? said->n >= 0
                                                    : said->n == 1;
    tpi_onnx_value *v = tpi_onnx_define(im, f, info->name);
    if (!v)
        return false;
    if (!fits)
        return REFUSE_INPUT(im, info, "cannot have %d tensors", said->n);
    v->absent = said->n < 0;
    if (v->absent)
        return true;
    if (!info->sequence)
        return add_element(im, info, -1, said->like[0], v);
    tpi_onnx_sequence *s = tpi_onnx_new_sequence(im, said->n, tpi_onnx_dtype(info->type));
    v->list = s;
    bool ok = s;
    for (int i = 0; ok && i < said->n; i++) {
        s->v[i] = tpi_onnx_take(im->m, 1, sizeof(tpi_onnx_value));
        ok = s->v[i] && add_element(im, info, i, said->like[i], s->v[i]);
    }
    return ok;
}

static bool add_input(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_info *info)
{
    if (tpi_onnx_find(f, info->name))
        return true; /* it has an initializer, as files of IR version 3 list them */
    if (info->kind != TPI_PB_TYPE_TENSOR)
        return REFUSE_INPUT(im, info, "is no %s: that is not supported", "tensor");
    if (info->optional || info->sequence) {
        im->n_inputs++; /* it has its place */
        return add_list(im, f, info);
    }
    const tp_dtype dtype = tpi_onnx_dtype(info->type);
    if (dtype == TP_N_DTYPES)
        return REFUSE_INPUT(im, info, "has elements of type %s, which is not supported",
                            tpi_onnx_type_name(info->type));
    if (!info->has_shape)
        return REFUSE_INPUT(im, info, "has no declared %s", "rank");
    if (info->rank > TP_MAX_RANK)
        return REFUSE_INPUT(im, info, "has more than %d axes", TP_MAX_RANK);
    const int fixed = fixed_value(im, info->name);
    tpi_onnx_value *v = tpi_onnx_define(im, f, info->name);
    if (!v)
        return false;
    if (fixed >= 0) {
        tp_tensor *t = im->opt->values[fixed].value;
        if (t->dtype != dtype || t->rank != info->rank)
            return tpi_onnx_bad(im->m, TP_E_VALUE,
                                "the value of input \"%.*s\" does not fit it",
                                TPI_SPAN(info->name));
        v->tensor = t;
        return true;
    }
    int64_t shape[TP_MAX_RANK];
    for (int i = 0; i < info->rank; i++) {
        shape[i] = input_size(im, info, i);
        if (shape[i] == TPI_NO_DIM)
            return false;
    }
    return add_placeholder(im, tpi_onnx_cstring(im->m, info->name), dtype, info->rank, shape,
                           v);
}

/* ---- outputs --------------------------------------------------------------------------------------- */

/* The node of that very name: a copy where the value's node has another one. */
static tp_tensor *named_output(tpi_import *im, tpi_onnx_value *v, const char *name)
{
    const int line = im->at.line;
    const char *file = im->at.file;
    tp_tensor *t = name ? tpi_onnx_tensor_of(im, v, true) : NULL;
    if (!t)
        return NULL;
    t = tp_graph_read_at(file, line, im->g, t);
    if (t->status != TP_OK || (t->name && strcmp(t->name, name) == 0))
        return t;
    if (t->name)
        t = tp_reshape_at(file, line, t, t->rank, t->shape);
    const tp_status named = t->status == TP_OK ? tpi_graph_name(im->g, t, name) : TP_OK;
    if (named == TP_E_NAME)
        tpi_onnx_bad(im->m, named, "output \"%s\" cannot be named: another value has the name",
                     name);
    return t;
}

static bool add_output(tpi_import *im, tpi_onnx_value *v, const char *name, tp_tensor **out)
{
    *out = named_output(im, v, name);
    if (*out && (*out)->status != TP_OK)
        tpi_onnx_bad(im->m, (tp_status)(*out)->status, "%s", tpi_onnx_error_text(im));
    return *out && im->m->status == TP_OK;
}

/* The tensors that outputs consist of; NULL after an error. */
static tpi_onnx_value **find_outputs(tpi_import *im, const tpi_onnx_env *f,
                                     const tpi_onnx_graph *g, int *n)
{
    tpi_onnx_value **v = tpi_onnx_take(im->m, (size_t)g->n_outputs, sizeof(tpi_onnx_value *));
    int64_t count = 0;
    for (int i = 0; v && i < g->n_outputs; i++) {
        v[i] = tpi_onnx_find(f, g->outputs[i].name);
        if (!v[i]) {
            tpi_onnx_bad(im->m, TP_E_FORMAT, "nothing gives the output \"%.*s\"",
                         TPI_SPAN(g->outputs[i].name));
            return NULL;
        }
        count += v[i]->list ? v[i]->list->n : !v[i]->absent;
    }
    if (count > TPI_ONNX_MAX_OPS) {
        tpi_onnx_bad(im->m, TP_E_VALUE, "the outputs are more than %d tensors",
                     TPI_ONNX_MAX_OPS);
        return NULL;
    }
    *n = (int)count;
    return v;
}

/* An output that is a sequence is an output for each element, an optional what is in it. */
static bool set_outputs(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_graph *g)
{
    int n = 0, at = 0;
    tpi_onnx_value **v = find_outputs(im, f, g, &n);
    tp_tensor **outputs = v ? tpi_onnx_take(im->m, (size_t)n, sizeof *outputs) : NULL;
    bool ok = outputs;
    for (int i = 0; i < g->n_outputs && ok; i++) {
        const tpi_span name = g->outputs[i].name;
        for (int k = 0; v[i]->list && k < v[i]->list->n && ok; k++)
            ok = add_output(im, v[i]->list->v[k], element_name(im, name, k), &outputs[at++]);
        if (ok && tpi_onnx_is_tensor(v[i]))
            ok = add_output(im, v[i], element_name(im, name, -1), &outputs[at++]);
    }
    if (!ok)
        return false;
    const tp_status s = tp_graph_set_outputs_at(im->at.file, im->at.line, im->g, n, outputs);
    return s == TP_OK || tpi_onnx_bad(im->m, s, "%s", tpi_onnx_error_text(im));
}

bool tpi_onnx_import_model(tpi_import *im)
{
    const tpi_onnx_graph *g = &im->m->graph;
    tpi_onnx_env f = {0};
    for (int i = 0; i < im->m->n_opsets; i++)
        if (im->m->opsets[i].domain.size == 0) {
            if (!tpi_onnx_opset_known(im, im->m->opsets[i].version))
                return false;
            f.opset = (int)im->m->opsets[i].version;
        }
    if (!tpi_onnx_check_operators(im, f.opset) || !tpi_onnx_begin_graph(im, &f, g))
        return false;
    if (!check_options(im, &f))
        return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (!add_input(im, &f, &g->inputs[i]))
            return false;
    return tpi_onnx_run_nodes(im, &f, g->n_nodes, g->nodes) && set_outputs(im, &f, g);
}
