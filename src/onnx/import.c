/* The importer: names, one node after the other, calls of functions, branches. */
#include "base/hash.h"
#include "onnx/import_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------- */

static tpi_onnx_value **slot_of(const tpi_onnx_frame *f, tpi_span name)
{
    size_t i = (size_t)tpi_hash64(name.at, name.size);
    for (;; i++) {
        tpi_onnx_value **s = &f->slots[i & (f->n_slots - 1)];
        if (!*s || tpi_span_same((*s)->name, name))
            return s;
    }
}

static bool open_frame(tpi_import *im, tpi_onnx_frame *f, size_t n_names)
{
    f->n_slots = 16;
    while (f->n_slots < 2 * n_names)
        f->n_slots *= 2;
    f->slots = tpi_onnx_take(im->m, f->n_slots, sizeof(tpi_onnx_value *));
    return f->slots;
}

tpi_onnx_value *tpi_onnx_find(const tpi_onnx_frame *f, tpi_span name)
{
    for (; f; f = f->outer) {
        tpi_onnx_value *v = *slot_of(f, name);
        if (v)
            return v;
    }
    return NULL;
}

tpi_onnx_value *tpi_onnx_define(tpi_import *im, tpi_onnx_frame *f, tpi_span name)
{
    tpi_onnx_value **s = slot_of(f, name);
    if (*s) {
        tpi_onnx_bad(im->m, TP_E_FORMAT, "the name \"%.*s\" is given to two values",
                     TPI_SPAN(name));
        return NULL;
    }
    tpi_onnx_value *v = tpi_onnx_take(im->m, 1, sizeof *v);
    if (v)
        v->name = name;
    return *s = v;
}

/* ---- one node ------------------------------------------------------------------------------------ */

typedef bool (*import_function)(tpi_onnx_op *o);

static const struct {
    const char *name;
    import_function function;
} map[] = {
#define MAP(op, fn) {#op, tpi_onnx_import_##fn},
#include "onnx/map.def"
#undef MAP
};

static int find_operator(const tpi_onnx_node *n)
{
    for (int i = 0; n->domain.size == 0 && i < (int)(sizeof map / sizeof *map); i++)
        if (tpi_span_is(n->op, map[i].name))
            return i;
    return -1;
}

static int compare_spans(tpi_span a, tpi_span b)
{
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return a.size ? memcmp(a.at, b.at, a.size) : 0;
}

static int compare_functions(const void *a, const void *b)
{
    const tpi_onnx_function *x = *(const tpi_onnx_function *const *)a,
                            *y = *(const tpi_onnx_function *const *)b;
    const int by_name = compare_spans(x->name, y->name);
    const int by_domain = by_name ? by_name : compare_spans(x->domain, y->domain);
    return by_domain ? by_domain : compare_spans(x->overload, y->overload);
}

static bool sort_functions(tpi_import *im)
{
    const tpi_onnx_model *m = im->m;
    const size_t n = (size_t)m->n_functions;
    im->functions = tpi_onnx_take(im->m, n, sizeof *im->functions);
    if (!im->functions)
        return false;
    for (size_t i = 0; i < n; i++)
        im->functions[i] = &m->functions[i];
    qsort(im->functions, n, sizeof *im->functions, compare_functions);
    for (size_t i = 1; i < n; i++)
        if (compare_functions(&im->functions[i - 1], &im->functions[i]) == 0)
            return tpi_onnx_bad(im->m, TP_E_FORMAT, "the function \"%.*s\" is there twice",
                                TPI_SPAN(im->functions[i]->name));
    return true;
}

static const tpi_onnx_function *find_function(const tpi_import *im, const tpi_onnx_node *n)
{
    const tpi_onnx_function like = {
        .name = n->op, .domain = n->domain, .overload = n->overload};
    const tpi_onnx_function *key = &like, **found;
    if (im->m->n_functions == 0)
        return NULL;
    found = bsearch(&key, im->functions, (size_t)im->m->n_functions, sizeof *im->functions,
                    compare_functions);
    return found ? *found : NULL;
}

/* A product of the operands' elements bounds the work and the result of every operator that has
 * no sizes of its own; Concat is bounded by the sum. */
static bool is_too_large(tpi_import *im, const tpi_onnx_op *o)
{
    int64_t product = 1, sum = 0;
    bool large = im->folded > TPI_ONNX_FOLD_TOTAL;
    for (int i = 0; i < o->n_in && !large; i++) {
        const tpi_onnx_value *v =
            tpi_onnx_has(o, i) ? tpi_onnx_find(o->frame, o->node->in[i]) : NULL;
        if (!v || (v->tensor && v->tensor->graph))
            continue;
        const int64_t n = v->tensor ? tpi_count(v->tensor) : v->data ? v->data->count : 1;
        large = __builtin_mul_overflow(product, n > 0 ? n : 1, &product) ||
                __builtin_add_overflow(sum, n, &sum);
    }
    const bool joins = tpi_span_is(o->node->op, "Concat");
    return large || (joins ? sum > TPI_ONNX_FOLD_RESULT : product > TPI_ONNX_FOLD_WORK);
}

static bool undefined(tpi_import *im, const tpi_onnx_node *n, int i, int n_later)
{
    for (int k = 1; k <= n_later; k++)
        for (int j = 0; j < n[k].n_out; j++)
            if (tpi_span_same(n[k].out[j], n->in[i]))
                return tpi_onnx_bad(
                    im->m, TP_E_FORMAT,
                    "%.*s (node \"%.*s\") reads \"%.*s\", which only a later node "
                    "gives: a cycle, or nodes that are not sorted",
                    TPI_SPAN(n->op), TPI_SPAN(n->name), TPI_SPAN(n->in[i]));
    return tpi_onnx_bad(im->m, TP_E_FORMAT,
                        "%.*s (node \"%.*s\") reads \"%.*s\", which nothing gives",
                        TPI_SPAN(n->op), TPI_SPAN(n->name), TPI_SPAN(n->in[i]));
}

static bool unsupported(tpi_import *im, const tpi_onnx_frame *f, const tpi_onnx_node *n)
{
    return tpi_onnx_bad(im->m, TP_E_VALUE,
                        "operator %.*s%s%.*s (node \"%.*s\", opset %d) is not supported",
                        TPI_SPAN(n->domain), n->domain.size ? "::" : "", TPI_SPAN(n->op),
                        TPI_SPAN(n->name), f->opset);
}

static bool run_nodes(tpi_import *im, tpi_onnx_frame *f, int n, const tpi_onnx_node *nodes);

static bool is_opset_known(tpi_import *im, int64_t opset)
{
    return (opset >= TPI_ONNX_OLDEST && opset <= TPI_ONNX_NEWEST) ||
           tpi_onnx_bad(im->m, TP_E_VALUE, "operator set %lld is not supported: %d to %d are",
                        (long long)opset, TPI_ONNX_OLDEST, TPI_ONNX_NEWEST);
}

/* A value of the frame that is another one by a new name. */
static bool alias(tpi_import *im, tpi_onnx_frame *f, tpi_span name, const tpi_onnx_value *is)
{
    tpi_onnx_value *v = tpi_onnx_define(im, f, name);
    if (!v)
        return false;
    *v = *is;
    v->name = name;
    return true;
}

static bool call_function(tpi_onnx_op *o, const tpi_onnx_function *fn)
{
    tpi_import *im = o->im;
    tpi_onnx_frame f = {.caller = o, .function = fn, .opset = o->opset};
    for (int i = 0; i < fn->n_opsets; i++)
        if (fn->opsets[i].domain.size == 0) {
            if (!is_opset_known(im, fn->opsets[i].version))
                return false;
            f.opset = (int)fn->opsets[i].version;
        }
    size_t n_names = (size_t)fn->n_in;
    for (int i = 0; i < fn->n_nodes; i++)
        n_names += (size_t)fn->nodes[i].n_out;
    if (!tpi_onnx_spend(o, (int64_t)n_names) || !open_frame(im, &f, n_names))
        return false;
    for (int i = 0; i < fn->n_in; i++)
        if (tpi_onnx_has(o, i)) {
            tpi_onnx_value *given = tpi_onnx_find(o->frame, o->node->in[i]);
            if (given->data && !given->tensor && tpi_onnx_dtype(given->data->type) >= TP_F32 &&
                !tpi_onnx_tensor_of(im, given, true))
                return false; /* a weight is one variable under all its names */
            if (!alias(im, &f, fn->in[i], given))
                return false;
        }
    if (!run_nodes(im, &f, fn->n_nodes, fn->nodes))
        return false;
    for (int i = 0; i < fn->n_out; i++) {
        const tpi_onnx_value *v = tpi_onnx_find(&f, fn->out[i]);
        if (!tpi_onnx_wants(o, i))
            continue;
        if (!v)
            return tpi_onnx_refuse(o, "its function gives no \"%.*s\"", TPI_SPAN(fn->out[i]));
        if (!alias(im, o->frame, o->node->out[i], v))
            return false;
    }
    return true;
}

/* What a node takes of the limit of a model: names are copied, and may be long. */
static int64_t cost_of(const tpi_onnx_node *n)
{
    size_t text = n->op.size;
    for (int k = 0; k < n->n_out; k++)
        text += n->out[k].size;
    return 1 + (int64_t)(text / 32);
}

/* Inputs that the node names and the function does not are left alone by it. */
static bool run_node(tpi_import *im, tpi_onnx_frame *f, const tpi_onnx_node *n, int n_later)
{
    const tpi_onnx_function *fn = find_function(im, n);
    for (int i = 0; i < n->n_in && (!fn || i < fn->n_in); i++)
        if (n->in[i].size && !tpi_onnx_find(f, n->in[i]))
            return undefined(im, n, i, n_later);
    tpi_onnx_op o = {.im = im,
                     .ctx = im->ctx,
                     .g = im->g,
                     .at = im->at,
                     .node = n,
                     .opset = f->opset,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .frame = f};
    const int row = fn ? -1 : find_operator(n);
    if (!fn && row < 0)
        return unsupported(im, f, n);
    o.name = fn ? tpi_onnx_cstring(im->m, fn->name) : map[row].name;
    if (!o.name || !tpi_onnx_spend(&o, cost_of(n)))
        return false;
    if (fn) {
        if (im->depth == TPI_ONNX_MAX_DEPTH)
            return tpi_onnx_refuse(&o, "functions call functions more than %d deep",
                                   TPI_ONNX_MAX_DEPTH);
        im->depth++;
        const bool ok = call_function(&o, fn);
        im->depth--;
        return ok;
    }
    o.lift = is_too_large(im, &o);
    if (!map[row].function(&o))
        return tpi_onnx_bad(im->m, TP_E_BUG, "%s (node \"%.*s\") gave no reason", o.name,
                            TPI_SPAN(n->name));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].size && !tpi_onnx_find(f, n->out[k]))
            return tpi_onnx_refuse(&o, "output %d is not supported", k);
    return true;
}

static bool run_nodes(tpi_import *im, tpi_onnx_frame *f, int n, const tpi_onnx_node *nodes)
{
    for (int i = 0; i < n; i++)
        if (!run_node(im, f, &nodes[i], n - 1 - i))
            return false;
    return true;
}

/* ---- graphs --------------------------------------------------------------------------------------- */

static bool begin_graph(tpi_import *im, tpi_onnx_frame *f, const tpi_onnx_graph *g)
{
    if (g->n_sparse)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "sparse initializers are not supported");
    size_t n_names = (size_t)g->n_inits + (size_t)g->n_inputs;
    for (int i = 0; i < g->n_nodes; i++)
        n_names += (size_t)g->nodes[i].n_out;
    if (!open_frame(im, f, n_names))
        return false;
    for (int i = 0; i < g->n_inits; i++) {
        tpi_onnx_value *v = tpi_onnx_define(im, f, g->inits[i].name);
        if (!v)
            return false;
        v->data = &g->inits[i];
    }
    return true;
}

/* What reading a branch takes of the limit: it is read anew each time. */
static int64_t cost_of_branch(const tpi_onnx_graph *g)
{
    int64_t cost = 4 * ((int64_t)g->n_inits + g->n_inputs + g->n_outputs); /* as large */
    for (int i = 0; i < g->n_nodes; i++)
        cost += (int64_t)g->nodes[i].n_in + g->nodes[i].n_out + g->nodes[i].n_attrs;
    return cost;
}

/* Runs a branch; its outputs get the names of the node's, or, where `values` is not NULL, go
 * there as tensors. */
static bool run_branch(tpi_onnx_op *o, tpi_span graph, tp_tensor **values)
{
    tpi_import *im = o->im;
    tpi_onnx_graph *g = tpi_onnx_take(im->m, 1, sizeof *g);
    tpi_onnx_frame f = {.outer = o->frame, .opset = o->opset};
    if (im->depth == TPI_ONNX_MAX_DEPTH)
        return tpi_onnx_refuse(o, "branches lie in branches more than %d deep",
                               TPI_ONNX_MAX_DEPTH);
    if (!g || !tpi_onnx_graph_read(im->m, graph, g) || !tpi_onnx_spend(o, cost_of_branch(g)) ||
        !begin_graph(im, &f, g))
        return false;
    if (g->n_inputs || g->n_outputs != o->n_out)
        return tpi_onnx_refuse(o, "its branch has %d inputs and %d outputs", g->n_inputs,
                               g->n_outputs);
    im->depth++;
    bool ok = run_nodes(im, &f, g->n_nodes, g->nodes);
    im->depth--;
    for (int k = 0; k < g->n_outputs && ok; k++) {
        tpi_onnx_value *v = tpi_onnx_find(&f, g->outputs[k].name);
        if (!v)
            ok = tpi_onnx_refuse(o, "its branch gives no \"%.*s\"",
                                 TPI_SPAN(g->outputs[k].name));
        else if (values)
            ok = (values[k] = tpi_onnx_tensor_of(im, v, true)) != NULL;
        else if (tpi_onnx_wants(o, k))
            ok = alias(im, o->frame, o->node->out[k], v);
    }
    return ok;
}

bool tpi_onnx_branch(tpi_onnx_op *o, tpi_span graph)
{
    return run_branch(o, graph, NULL);
}

static bool choose(tpi_onnx_op *o, tp_tensor *condition, tpi_span yes, tpi_span no)
{
    const size_t n = (size_t)o->n_out;
    tp_tensor **a = tpi_onnx_take(o->im->m, n, sizeof *a),
              **b = tpi_onnx_take(o->im->m, n, sizeof *b);
    if (!a || !b || !run_branch(o, yes, a) || !run_branch(o, no, b))
        return false;
    for (int k = 0; k < o->n_out; k++) {
        if (tp_dtype_of(a[k]) != tp_dtype_of(b[k]) || !tpi_same_shape(a[k], b[k]))
            return tpi_onnx_refuse(o,
                                   "its condition depends on what is fed, and output %d has "
                                   "not one size on both sides: offer what is fed in values of "
                                   "tp_onnx_load_options",
                                   k);
        if (!tpi_onnx_out(o, k, tp_where_at(o->at.file, o->at.line, condition, a[k], b[k])))
            return false;
    }
    return true;
}

/* When the condition can be known, no such choice has to be made. */
bool tpi_onnx_choose(tpi_onnx_op *o, tp_tensor *condition, tpi_span yes, tpi_span no)
{
    const bool ok = choose(o, condition, yes, no);
    if (!ok)
        tpi_onnx_ask(o, 0);
    return ok;
}

/* Operators of the model that are missing, in one message: the first few. */
static bool check_operators(tpi_import *im, int opset)
{
    enum { MOST = 16 };
    const tpi_onnx_graph *g = &im->m->graph;
    const tpi_onnx_node *missing[MOST];
    int n_missing = 0;
    if (g->n_nodes > TPI_ONNX_MAX_OPS)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "the model has more than %d nodes",
                            TPI_ONNX_MAX_OPS);
    for (int i = 0; i < g->n_nodes && n_missing < MOST; i++) {
        const tpi_onnx_node *n = &g->nodes[i];
        if (find_function(im, n) || find_operator(n) >= 0)
            continue;
        int k = 0;
        while (k < n_missing && !(tpi_span_same(missing[k]->op, n->op) &&
                                  tpi_span_same(missing[k]->domain, n->domain)))
            k++;
        if (k == n_missing)
            missing[n_missing++] = n;
    }
    if (n_missing == 0)
        return true;
    char text[200] = "";
    size_t len = 0;
    for (int k = 1; k < n_missing && len < sizeof text - 70; k++) {
        const tpi_onnx_node *n = missing[k];
        const int wrote = snprintf(text + len, sizeof text - len, "%s%.*s%s%.*s",
                                   k > 1 ? ", " : ", nor are: ", TPI_SPAN(n->domain),
                                   n->domain.size ? "::" : "", TPI_SPAN(n->op));
        len += wrote > 0 ? (size_t)wrote : 0;
    }
    return tpi_onnx_bad(im->m, TP_E_VALUE,
                        "operator %.*s%s%.*s (node \"%.*s\", opset %d) is not supported%s",
                        TPI_SPAN(missing[0]->domain), missing[0]->domain.size ? "::" : "",
                        TPI_SPAN(missing[0]->op), TPI_SPAN(missing[0]->name), opset, text);
}

/* ---- inputs ---------------------------------------------------------------------------------------- */

/* The text of a free dimension as a symbol: letters, digits, underscores; none twice. */
static int64_t symbol_for(tpi_import *im, tpi_span param)
{
    for (const tpi_onnx_symbol *s = im->symbols; s; s = s->next)
        if (tpi_span_same(s->param, param))
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
    *s = (tpi_onnx_symbol){.next = im->symbols, .param = param, .handle = handle};
    im->symbols = s;
    return handle;
}

/* The name of a free dimension; at NULL: memory is out. */
static tpi_span param_of(tpi_import *im, const tpi_onnx_info *info, int axis)
{
    const tpi_span param = info->dims[axis].param;
    if (param.size)
        return param;
    char *own = tpi_onnx_take(im->m, info->name.size + 24, 1); /* one of its own */
    if (!own)
        return (tpi_span){0};
    snprintf(own, info->name.size + 24, "%.*s_%d", (int)info->name.size,
             info->name.size ? info->name.at : "", axis);
    return (tpi_span){own, strlen(own)};
}

static int64_t input_size(tpi_import *im, const tpi_onnx_info *info, int axis)
{
    if (info->dims[axis].value >= 0)
        return info->dims[axis].value;
    const tpi_span param = param_of(im, info, axis);
    if (!param.at)
        return TPI_NO_DIM;
    for (int i = 0; im->opt && i < im->opt->n_dims; i++)
        if (tpi_span_is(param, im->opt->dims[i].name))
            return im->opt->dims[i].size;
    return symbol_for(im, param);
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

static bool check_dim(tpi_import *im, const tpi_onnx_frame *f, int which)
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
            const tpi_span param = param_of(im, &g->inputs[i], a);
            if (!param.at)
                return false;
            if (tpi_span_is(param, dims[which].name))
                return true;
            add_name(&there, param);
        }
    return tpi_onnx_bad(im->m, TP_E_NAME,
                        "the options fix a dimension \"%.60s\" that is not free in the model: "
                        "%s%s",
                        dims[which].name, there.len ? "free are " : "no size is free",
                        there.text);
}

static bool check_value(tpi_import *im, const tpi_onnx_frame *f, int which)
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

/* Before the inputs are there: only initializers have names. */
static bool check_options(tpi_import *im, const tpi_onnx_frame *f)
{
    for (int i = 0; im->opt && i < im->opt->n_dims; i++)
        if (!check_dim(im, f, i))
            return false;
    for (int i = 0; im->opt && i < im->opt->n_values; i++)
        if (!check_value(im, f, i))
            return false;
    return true;
}

/* ---- inputs, made ---------------------------------------------------------------------------------- */

static bool add_input(tpi_import *im, tpi_onnx_frame *f, const tpi_onnx_info *info)
{
    if (tpi_onnx_find(f, info->name))
        return true; /* it has an initializer, as files of IR version 3 list them */
    if (info->kind != TPI_PB_TYPE_TENSOR)
        return tpi_onnx_bad(im->m, TP_E_VALUE,
                            "input \"%.*s\" is no tensor: that is not supported",
                            TPI_SPAN(info->name));
    const tp_dtype dtype = tpi_onnx_dtype(info->type);
    if (dtype == TP_N_DTYPES)
        return tpi_onnx_bad(im->m, TP_E_VALUE,
                            "input \"%.*s\" has elements of type %s, which is not supported",
                            TPI_SPAN(info->name), tpi_onnx_type_name(info->type));
    if (!info->has_shape)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "input \"%.*s\" has no declared rank",
                            TPI_SPAN(info->name));
    if (info->rank > TP_MAX_RANK)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "input \"%.*s\" has more than %d axes",
                            TPI_SPAN(info->name), TP_MAX_RANK);
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
            return tpi_onnx_bad(im->m, TP_E_MEMORY, "out of memory");
    }
    const char *name = tpi_onnx_cstring(im->m, info->name);
    if (!name)
        return false;
    v->tensor =
        tp_placeholder_at(im->at.file, im->at.line, im->g, name, dtype, info->rank, shape);
    return v->tensor->status == TP_OK ||
           tpi_onnx_bad(im->m, (tp_status)v->tensor->status, "%s", tpi_onnx_error_text(im));
}

/* ---- outputs --------------------------------------------------------------------------------------- */

/* The node of that very name: a copy where the value's node has another one. */
static tp_tensor *named_output(tpi_import *im, tpi_onnx_value *v)
{
    const int line = im->at.line;
    const char *file = im->at.file, *name = tpi_onnx_cstring(im->m, v->name);
    tp_tensor *t = tpi_onnx_tensor_of(im, v, true);
    if (!t || !name)
        return NULL;
    t = tp_graph_read_at(file, line, im->g, t);
    if (t->status != TP_OK || (t->name && strcmp(t->name, name) == 0))
        return t;
    if (t->name)
        t = tp_reshape_at(file, line, t, t->rank, t->shape);
    if (t->status == TP_OK && !tpi_graph_name(im->g, t, name))
        tpi_onnx_bad(im->m, TP_E_NAME,
                     "output \"%s\" cannot be named: another value has the name", name);
    return t;
}

static bool set_outputs(tpi_import *im, tpi_onnx_frame *f, const tpi_onnx_graph *g)
{
    tp_tensor **outputs = tpi_onnx_take(im->m, (size_t)g->n_outputs, sizeof *outputs);
    if (!outputs)
        return false;
    for (int i = 0; i < g->n_outputs; i++) {
        tpi_onnx_value *v = tpi_onnx_find(f, g->outputs[i].name);
        if (!v)
            return tpi_onnx_bad(im->m, TP_E_FORMAT, "nothing gives the output \"%.*s\"",
                                TPI_SPAN(g->outputs[i].name));
        outputs[i] = named_output(im, v);
        if (!outputs[i] || outputs[i]->status != TP_OK)
            return tpi_onnx_bad(im->m, outputs[i] ? (tp_status)outputs[i]->status : TP_E_MEMORY,
                                "%s", outputs[i] ? tpi_onnx_error_text(im) : "out of memory");
        if (im->m->status != TP_OK)
            return false;
    }
    const tp_status s =
        tp_graph_set_outputs_at(im->at.file, im->at.line, im->g, g->n_outputs, outputs);
    return s == TP_OK || tpi_onnx_bad(im->m, s, "%s", tpi_onnx_error_text(im));
}

bool tpi_onnx_import_model(tpi_import *im)
{
    const tpi_onnx_graph *g = &im->m->graph;
    tpi_onnx_frame f = {0};
    for (int i = 0; i < im->m->n_opsets; i++)
        if (im->m->opsets[i].domain.size == 0) {
            if (!is_opset_known(im, im->m->opsets[i].version))
                return false;
            f.opset = (int)im->m->opsets[i].version;
        }
    if (!sort_functions(im) || !check_operators(im, f.opset) || !begin_graph(im, &f, g))
        return false;
    if (!check_options(im, &f))
        return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (!add_input(im, &f, &g->inputs[i]))
            return false;
    return run_nodes(im, &f, g->n_nodes, g->nodes) && set_outputs(im, &f, g);
}
