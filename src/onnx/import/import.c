/* The operators of ONNX: one node after the other, calls of functions. */
#include "onnx/import/import_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one node ------------------------------------------------------------------------------------ */

static tpi_onnx_operator find_operator(const tpi_onnx_node *n)
{
    const bool own = n->domain.size == 0 && n->op.size;
    return tpi_onnx_operator_of(own ? n->op.at : "", own ? n->op.size : 0);
}

/* What an operator makes whose operands are there; NULL: an error, or results are *given. */
static tp_tensor *result_of(tpi_onnx_op *o, bool *given)
{
    tp_tensor *const x = o->x[0];
    switch (o->row) {
#define OP(name, fn, ...)                                                                      \
    case TPI_OPERATOR_##name:                                                                  \
        return tpi_onnx_import_##fn(o, x);
#define SOURCE(name, fn, ...)                                                                  \
    case TPI_OPERATOR_##name:                                                                  \
        return tpi_onnx_import_##fn(o);
#define OPS(name, fn, ...)                                                                     \
    case TPI_OPERATOR_##name:                                                                  \
        *given = tpi_onnx_import_##fn(o);                                                      \
        return NULL;
#define ARITHMETIC(name, op, ...)                                                              \
    case TPI_OPERATOR_##name:                                                                  \
        *given = tpi_onnx_arithmetic(o, tpi_onnx_dim_##op, tp_##op##_at);                      \
        return NULL;
#define EXPRESSION(name, ...)                                                                  \
    case TPI_OPERATOR_##name:                                                                  \
        return tpi_onnx_expression(o, x);
#define BINARY(name, op)                                                                       \
    case TPI_OPERATOR_##name:                                                                  \
        tpi_onnx_agree_pair(o);                                                                \
        return tp_##op(o->x[0], o->x[1]);
#include "onnx/operators.def"
    }
    return NULL;
}

/* What the table asks for. */
static bool take_operands(tpi_onnx_op *o, const tpi_onnx_operator *row)
{
    const bool along = strstr(row->attributes, ":axis") != NULL;
    return tpi_onnx_take_operands(o, row) &&
           (!along || tpi_onnx_axis(o, "axis", o->x[0]->rank, &o->axis));
}

static bool run_operator(tpi_onnx_op *o, const tpi_onnx_operator *row)
{
    tp_dtype dtype = TP_I64;
    tp_tensor *y;
    bool given = false;
    const bool lift = o->lift;
    if (tpi_onnx_begin_moves(o, row, &dtype)) {
        o->lift = false;
        y = take_operands(o, row) ? result_of(o, &given) : NULL;
        if (tpi_onnx_end_moves(o, y, dtype))
            return true;
        o->lift = lift;
    }
    if (o->im->m->status != TP_OK || !take_operands(o, row))
        return false;
    y = result_of(o, &given);
    return y ? tpi_onnx_out(o, 0, y) : given;
}

static int compare_functions(const void *a, const void *b)
{
    const tpi_onnx_function *x = *(const tpi_onnx_function *const *)a,
                            *y = *(const tpi_onnx_function *const *)b;
    const int by_name = tpi_span_compare(x->name, y->name);
    const int by_domain = by_name ? by_name : tpi_span_compare(x->domain, y->domain);
    return by_domain ? by_domain : tpi_span_compare(x->overload, y->overload);
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
    bool large = tpi_onnx_folds_no_more(im);
    for (int i = 0; i < o->n_in && !large; i++) {
        const tpi_onnx_value *v =
            tpi_onnx_has(o, i) ? tpi_onnx_find(o->env, o->node->in[i]) : NULL;
        if (!v || (v->tensor && v->tensor->graph))
            continue;
        const int64_t n = v->tensor ? tpi_count(v->tensor) : v->data ? v->data->count : 1;
        large = __builtin_mul_overflow(product, n > 0 ? n : 1, &product) ||
                __builtin_add_overflow(sum, n, &sum);
    }
    const bool joins = o->row == TPI_OPERATOR_Concat;
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

/* `more`: what else is not, or "". */
static bool unsupported(tpi_import *im, int opset, const tpi_onnx_node *n, const char *more)
{
    return tpi_onnx_bad(im->m, TP_E_VALUE,
                        "operator %.*s%s%.*s (node \"%.*s\", opset %d) is not supported%s",
                        TPI_SPAN(n->domain), n->domain.size ? "::" : "", TPI_SPAN(n->op),
                        TPI_SPAN(n->name), opset, more);
}

static bool call_function(tpi_onnx_op *o, const tpi_onnx_function *fn)
{
    tpi_import *im = o->im;
    tpi_onnx_env f = {.caller = o, .function = fn, .opset = o->opset};
    for (int i = 0; i < fn->n_opsets; i++)
        if (fn->opsets[i].domain.size == 0) {
            if (!tpi_onnx_opset_known(im, fn->opsets[i].version))
                return false;
            f.opset = (int)fn->opsets[i].version;
        }
    size_t n_names = (size_t)fn->n_in;
    for (int i = 0; i < fn->n_nodes; i++)
        n_names += (size_t)fn->nodes[i].n_out;
    if (!tpi_onnx_spend(o, (int64_t)n_names) || !tpi_onnx_env_open(im, &f, n_names))
        return false;
    for (int i = 0; i < fn->n_in; i++)
        if (tpi_onnx_has(o, i)) {
            tpi_onnx_value *given = tpi_onnx_find(o->env, o->node->in[i]);
            if (given->data && !given->tensor && tpi_onnx_dtype(given->data->type) >= TP_F32 &&
                !tpi_onnx_tensor_of(im, given, true))
                return false; /* a weight is one variable under all its names */
            if (!tpi_onnx_alias(im, &f, fn->in[i], given))
                return false;
        }
    if (!tpi_onnx_run_nodes(im, &f, fn->n_nodes, fn->nodes))
        return false;
    for (int i = 0; i < fn->n_out; i++) {
        const tpi_onnx_value *v = tpi_onnx_find(&f, fn->out[i]);
        if (!tpi_onnx_wants(o, i))
            continue;
        if (!v)
            return tpi_onnx_refuse(o, "its function gives no \"%.*s\"", TPI_SPAN(fn->out[i]));
        if (!tpi_onnx_alias(im, o->env, o->node->out[i], v))
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

typedef struct memory {
    size_t in_use, read, folded;
} memory;

static memory memory_now(const tpi_import *im)
{
    return (memory){im->ctx->mem.in_use, im->m->read_bytes, im->folded};
}

/* Of a node with constants for results what it has taken counts, but for constants that it was the first
 * to read, and so does what it made on the way, which lives as long as the import. */
static void count_folded(tpi_import *im, const tpi_onnx_env *f, const tpi_onnx_node *n,
                         const memory *before)
{
    const memory now = memory_now(im);
    const size_t kept = before->in_use + (now.read - before->read);
    const size_t taken = now.in_use > kept ? now.in_use - kept : 0;
    for (int k = 0; k < n->n_out; k++) {
        const tpi_onnx_value *v = n->out[k].size ? tpi_onnx_find(f, n->out[k]) : NULL;
        const tp_tensor *t = v ? v->tensor : NULL;
        if (!t || t->graph || t->status != TP_OK)
            continue;
        if (before->folded + taken > im->folded) /* those of its blocks are among them */
            im->folded = before->folded + taken;
        if (t->buf->refs == 1 && tpi_bytes(t) <= taken) /* it is not an operand's */
            t->buf->folded = true;
    }
}

/* Inputs that the node names and the function does not are left alone by it. */
static bool run_node(tpi_import *im, tpi_onnx_env *f, const tpi_onnx_node *n, int n_later)
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
                     .env = f};
    const tpi_onnx_operator row = find_operator(n);
    if (!fn && row.row < 0)
        return unsupported(im, f->opset, n, "");
    o.name = fn ? tpi_onnx_cstring(im->m, fn->name) : row.name;
    o.row = row.row;
    o.attributes = row.attributes;
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
    const memory before = memory_now(im);
    if (!tpi_onnx_check_attributes(&o) || !run_operator(&o, &row))
        return tpi_onnx_bad(im->m, TP_E_BUG, "%s (node \"%.*s\") gave no reason", o.name,
                            TPI_SPAN(n->name));
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].size && !tpi_onnx_find(f, n->out[k]))
            return tpi_onnx_refuse(&o, "output %d is not supported", k);
    count_folded(im, f, n, &before);
    return true;
}

bool tpi_onnx_run_nodes(tpi_import *im, tpi_onnx_env *f, int n, const tpi_onnx_node *nodes)
{
    for (int i = 0; i < n; i++)
        if (!run_node(im, f, &nodes[i], n - 1 - i))
            return false;
    return true;
}

/* ---- a model's operators ---------------------------------------------------------------------------- */

bool tpi_onnx_check_operators(tpi_import *im, int opset)
{
    enum { MOST = 16 };
    const tpi_onnx_graph *g = &im->m->graph;
    const tpi_onnx_node *missing[MOST];
    int n_missing = 0;
    if (!sort_functions(im))
        return false;
    if (g->n_nodes > TPI_ONNX_MAX_OPS)
        return tpi_onnx_bad(im->m, TP_E_VALUE, "the model has more than %d nodes",
                            TPI_ONNX_MAX_OPS);
    for (int i = 0; i < g->n_nodes && n_missing < MOST; i++) {
        const tpi_onnx_node *n = &g->nodes[i];
        if (find_function(im, n) || find_operator(n).row >= 0)
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
    return unsupported(im, opset, missing[0], text);
}
