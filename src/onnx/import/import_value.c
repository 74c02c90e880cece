/* Operands, attributes and results of one operator. */
#include "ir/body.h"
#include "onnx/import/import_inner.h"
#include "op/op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------ */

static bool report(tpi_onnx_op *o, tp_status status, const char *text)
{
    return tpi_onnx_bad(o->im->m, status, "%s (node \"%.*s\", opset %d): %s", o->name,
                        TPI_SPAN(o->node->name), o->opset, text);
}

tp_tensor *tpi_onnx_fail(tpi_onnx_op *o, tp_status status, const char *fmt, ...)
{
    char text[240];
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    report(o, status, text);
    return NULL;
}

const char *tpi_onnx_error_text(const tpi_import *im)
{
    char place[300];
    const char *text = im->ctx->error;
    if (im->at.file) {
        const int n = snprintf(place, sizeof place, "%s:%d: ", im->at.file, im->at.line);
        if (n > 0 && (size_t)n < sizeof place && strncmp(text, place, (size_t)n) == 0)
            text += n;
    }
    return text;
}

bool tpi_onnx_forget(tpi_import *im)
{
    const bool lacks = !tpi_onnx_had_memory(im->m);
    const tp_status s = im->m->status;
    if (lacks || im->again ||
        (s != TP_OK && s != TP_E_VALUE && s != TP_E_SHAPE && s != TP_E_DTYPE))
        return false;
    im->m->status = TP_OK;
    im->m->why[0] = 0;
    tpi_forget_error(im->ctx);
    return true;
}

tpi_onnx_model *tpi_onnx_model_of(const tpi_onnx_op *o)
{
    return o->im->m;
}

/* ---- tensors of values ---------------------------------------------------------------------------- */

const char *tpi_onnx_cstring(tpi_onnx_model *m, tpi_span s)
{
    char *copy = tpi_onnx_take(m, s.size + 1, 1);
    if (copy && s.size)
        memcpy(copy, s.at, s.size);
    return copy;
}

/* What was just read, with memory of its own, becomes a variable as it is. */
static tp_tensor *as_variable(tpi_import *im, tpi_onnx_value *v, tp_tensor *t, bool param)
{
    const char *name = tpi_onnx_cstring(im->m, v->name);
    t->name = name ? tpi_strdup(&im->ctx->mem, name) : NULL;
    t->flags |= TPI_VARIABLE | TPI_STATE | (param ? TPI_REQUIRES | TPI_LEAF : 0);
    return tpi_graph_lift(im->root, im->at, t); /* also from a body */
}

bool tpi_onnx_is_constant(const tpi_onnx_value *v)
{
    return v->data || v->constant || (v->tensor && !v->tensor->graph);
}

tp_tensor *tpi_onnx_constant_of(tpi_import *im, tpi_onnx_value *v)
{
    if (v->tensor && !v->tensor->graph)
        return v->tensor;
    if (!v->constant && v->data)
        v->constant = tpi_onnx_tensor_make(im->m, v->data, im->at);
    return v->constant;
}

/* Known integers as a tensor: the numbers, and what the sizes turn out to be. */
static tp_tensor *stack_ints(tpi_import *im, const tpi_onnx_ints *k)
{
    const tpi_at at = im->at;
    tp_tensor *parts[TPI_ONNX_INTS];
    if (k->n == 0)
        return tp_tensor_new_at(at.file, at.line, im->ctx, k->dtype, 1, &(int64_t){0}, NULL);
    tp_tensor *zero = tp_scalar_at(at.file, at.line, im->ctx, k->dtype, 0);
    parts[0] = zero = tp_graph_read_at(at.file, at.line, im->g, zero);
    for (int i = 0; i < k->n; i++) {
        if (tpi_dim_is_symbolic(k->v[i])) { /* the extent of an axis of that size */
            tp_tensor *axis = tp_broadcast_at(at.file, at.line, zero, 1, &k->v[i]);
            parts[i] = tp_extent_at(at.file, at.line, axis, 0, NULL, k->dtype);
        } else {
            parts[i] = tp_tensor_new_at(at.file, at.line, im->ctx, TP_I64, 0, NULL, &k->v[i]);
            if (k->dtype != TP_I64)
                parts[i] = tp_cast_at(at.file, at.line, parts[i], k->dtype);
        }
    }
    return k->rank == 0 ? parts[0] : tp_stack_at(at.file, at.line, k->n, parts, 0);
}

tp_tensor *tpi_onnx_tensor_of(tpi_import *im, tpi_onnx_value *v, bool param)
{
    if (v->tensor)
        return v->tensor;
    if (v->ints) { /* in a body, what is outside of it is made anew */
        tp_tensor *t = stack_ints(im, v->ints);
        v->tensor = v->graph == im->g ? t : NULL;
        return t;
    }
    if (v->data && tpi_onnx_dtype(v->data->type) < TP_F32) {
        v->tensor = tpi_onnx_constant_of(im, v);
    } else if (v->data) {
        tp_tensor *t = tpi_onnx_tensor_make(im->m, v->data, im->at);
        v->tensor = t ? as_variable(im, v, t, param) : NULL;
    }
    return v->tensor;
}

/* ---- operands ------------------------------------------------------------------------------------- */

bool tpi_onnx_has(const tpi_onnx_op *o, int i)
{
    return i < o->n_in && o->node->in[i].size > 0;
}

static tpi_onnx_value *operand(tpi_onnx_op *o, int i)
{
    tpi_onnx_value *v = NULL;
    if (!tpi_onnx_has(o, i))
        tpi_onnx_refuse(o, "input %d is missing", i);
    else if ((v = tpi_onnx_find(o->env, o->node->in[i])) && !tpi_onnx_is_tensor(v))
        tpi_onnx_refuse(o, "input %d (\"%.*s\") is %s, not a tensor", i, TPI_SPAN(v->name),
                        v->list ? "a sequence" : "an optional without a value");
    else
        return v;
    return NULL;
}

static tp_tensor *failed(tpi_onnx_op *o)
{
    tpi_onnx_bad(o->im->m, TP_E_MEMORY, "out of memory"); /* when nothing else was noted */
    return tpi_fail(o->ctx, o->at, NULL, o->im->m->status, "%s", o->im->m->why);
}

static tp_tensor *tensor_in(tpi_onnx_op *o, int i, bool param)
{
    tpi_onnx_ints k;
    if (i < o->n_moved && tpi_onnx_try_ints(o, i, &k))
        return tp_tensor_new(o->ctx, TP_I64, k.rank, &(int64_t){k.n}, k.v);
    tpi_onnx_value *v = operand(o, i);
    tp_tensor *t = v ? tpi_onnx_tensor_of(o->im, v, param) : NULL;
    if (!t)
        return failed(o);
    return o->lift ? tp_graph_read(o->g, t) : t;
}

tp_tensor *tpi_onnx_in(tpi_onnx_op *o, int i)
{
    return tensor_in(o, i, true);
}

bool tpi_onnx_good(tpi_onnx_op *o, const tp_tensor *t)
{
    return (t && t->status == TP_OK) ||
           report(o, t ? (tp_status)t->status : TP_E_MEMORY,
                  t ? tpi_onnx_error_text(o->im) : "out of memory");
}

tp_tensor *tpi_onnx_good_in(tpi_onnx_op *o, int i)
{
    tp_tensor *t = tpi_onnx_in(o, i);
    return tpi_onnx_good(o, t) ? t : NULL;
}

/* An operand as the table asks for it; false after an error. */
static bool take_operand(tpi_onnx_op *o, int i, char what)
{
    const bool floats = what == 'f' || what == 'F', spared = what == 'T' || what == 'F';
    if (what == '-' || (spared && !tpi_onnx_has(o, i)))
        return spared || tpi_onnx_has(o, i) || tpi_onnx_refuse(o, "input %d is missing", i);
    const tp_tensor *t = o->x[i] = tensor_in(o, i, what != 's');
    return tpi_onnx_good(o, t) &&
           (!floats || t->dtype >= TP_F32 ||
            tpi_onnx_refuse(o, "input %d has elements of type %s, not float", i,
                            tp_dtype_name((tp_dtype)t->dtype)));
}

bool tpi_onnx_take_operands(tpi_onnx_op *o, const tpi_onnx_operator *row)
{
    bool ok = true;
    for (int i = 0; row->operands[i] && ok; i++)
        ok = take_operand(o, i, row->operands[i]);
    return ok;
}

tp_dtype tpi_onnx_in_dtype(tpi_onnx_op *o, int i)
{
    tpi_onnx_value *v = operand(o, i);
    if (!v)
        return TP_N_DTYPES;
    if (v->tensor)
        return (tp_dtype)v->tensor->dtype;
    return v->ints ? v->ints->dtype : tpi_onnx_elem_type(o, v->data->type);
}

bool tpi_onnx_is_known(tpi_onnx_op *o, int i)
{
    const tpi_onnx_value *v = tpi_onnx_has(o, i) ? tpi_onnx_find(o->env, o->node->in[i]) : NULL;
    return v && tpi_onnx_is_constant(v);
}

/* The placeholders among `past` for which values are offered become constants; what params of a
 * body stand for comes next. */
static void fix_offered(tpi_import *im, const tpi_nodes *past, tpi_nodes *next)
{
    for (int j = 0; j < past->n; j++) {
        const tp_tensor *t = past->v[j];
        const bool param = t->op == &tpi_op_param;
        tp_tensor *outer = param ? tpi_onnx_outer_of(t) : NULL;
        if (outer)
            tpi_nodes_push(next, outer);
        for (int k = 0; t->op == &tpi_op_placeholder && k < im->opt->n_values; k++)
            if (!im->fixed[k] && tpi_span_is(im->offers[k], t->name))
                im->fixed[k] = im->again = true;
    }
}

bool tpi_onnx_ask(tpi_onnx_op *o, int i)
{
    tpi_import *im = o->im;
    const tpi_onnx_value *v = tpi_onnx_has(o, i) ? tpi_onnx_find(o->env, o->node->in[i]) : NULL;
    tpi_nodes roots = {.ctx = im->ctx};
    if (im->opt && im->opt->n_values > 0 && v && v->tensor && v->tensor->graph)
        tpi_nodes_push(&roots, v->tensor);
    while (roots.n > 0) {
        tpi_nodes past = {.ctx = im->ctx}, next = {.ctx = im->ctx};
        if (tpi_collect(&past, roots.n, roots.v, NULL, NULL))
            fix_offered(im, &past, &next);
        tpi_nodes_free(&past);
        tpi_nodes_free(&roots);
        roots = next;
    }
    tpi_nodes_free(&roots);
    return im->again;
}

static bool is_size_of(void *user, const tp_tensor *t)
{
    (void)user;
    return t->op->kind == TPI_SHAPE;
}

/* What a value is made of that is not known at load. */
typedef struct unknowns {
    bool fed, sizes,
        run; /* an input's elements; sizes; what only a run makes, as turns of loops */
} unknowns;

static unknowns unknowns_of(const tpi_import *im, tp_tensor *t)
{
    tpi_nodes past = {.ctx = im->ctx};
    unknowns u = {.run = !tpi_collect(&past, 1, &t, is_size_of, NULL)};
    for (int k = 0; k < past.n; k++) {
        const tp_tensor *p = past.v[k];
        const bool param = p->op == &tpi_op_param;
        tp_tensor *outer = param ? tpi_onnx_outer_of(p) : NULL;
        const unknowns v = outer ? unknowns_of(im, outer) : (unknowns){.run = param};
        u.fed |= p->op == &tpi_op_placeholder || v.fed;
        u.sizes |= p->op->kind == TPI_SHAPE || v.sizes;
        u.run |= v.run;
    }
    tpi_nodes_free(&past);
    return u;
}

const char *tpi_onnx_depends(const tpi_import *im, tp_tensor *t)
{
    const unknowns u = t ? unknowns_of(im, t) : (unknowns){.run = true};
    return u.fed     ? "what is fed: offer that in values of tp_onnx_load_options"
           : u.run   ? "what a run computes"
           : u.sizes ? TPI_ONNX_FREE_DIM
                     : "constants that are too large to compute with then";
}

static void refuse_unknown(tpi_onnx_op *o, int i, const tpi_onnx_value *v)
{
    static const char what[] =
        "input %d (\"%.*s\") has to be known when the model is loaded, and depends on %s";
    if (v->ints) {
        tpi_onnx_refuse(o, "input %d has to be a number, and depends on " TPI_ONNX_FREE_DIM, i);
    } else if (tpi_onnx_ask(o, i)) {
        tpi_onnx_bad(o->im->m, TP_E_STATE, "begin again");
    } else {
        tpi_onnx_refuse(o, what, i, TPI_SPAN(v->name), tpi_onnx_depends(o->im, v->tensor));
    }
}

tp_tensor *tpi_onnx_known(tpi_onnx_op *o, int i)
{
    tpi_onnx_value *v = operand(o, i);
    if (!v)
        return NULL;
    tp_tensor *t = tpi_onnx_constant_of(o->im, v);
    if (t && t->status == TP_OK)
        return t;
    if (o->im->m->status == TP_OK)
        refuse_unknown(o, i, v);
    return NULL;
}

/* The elements of a tensor of at most TPI_ONNX_INTS integers in one axis at most. */
static tpi_onnx_ints ints_in(const tp_tensor *t)
{
    tpi_onnx_ints k = {.n = (int)tpi_count(t), .rank = t->rank, .dtype = (tp_dtype)t->dtype};
    for (int i = 0; i < k.n; i++)
        k.v[i] = tpi_load_i64(k.dtype, tpi_onnx_element(t, i));
    return k;
}

static bool take_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *out, bool quiet)
{
    *out = (tpi_onnx_ints){.dtype = TP_I64};
    tpi_onnx_value *v =
        quiet && tpi_onnx_has(o, i) ? tpi_onnx_find(o->env, o->node->in[i]) : NULL;
    if (quiet && (!v || !tpi_onnx_is_tensor(v)))
        return false;
    v = v ? v : operand(o, i);
    if (!v)
        return false;
    if (v->ints) {
        *out = *v->ints;
        return quiet || out->dtype < TP_F32 ||
               tpi_onnx_refuse(o, "input %d has to be integers, and is %s", i,
                               tp_dtype_name(out->dtype));
    }
    if (quiet && !tpi_onnx_is_known(o, i))
        return false;
    if (quiet && v->data &&
        (v->data->count > TPI_ONNX_INTS || v->data->rank > 1 ||
         tpi_onnx_dtype(v->data->type) > TP_U64))
        return false;
    const tp_tensor *t = tpi_onnx_known(o, i);
    if (!t)
        return false;
    if (t->rank > 1 || t->dtype > TP_U64 || tpi_count(t) > TPI_ONNX_INTS)
        return quiet
                   ? false
                   : tpi_onnx_refuse(o, "input %d has to be at most %d integers, and is %s %s",
                                     i, TPI_ONNX_INTS, tp_dtype_name((tp_dtype)t->dtype),
                                     SHAPE(t));
    *out = ints_in(t);
    for (int k = 0; k < out->n; k++)
        if (tpi_dim_is_symbolic(out->v[k])) /* a number that looks like a size's handle */
            return quiet ? false
                         : tpi_onnx_refuse(o, "input %d has the number %lld in it", i,
                                           (long long)out->v[k]);
    return true;
}

bool tpi_onnx_begin_moves(tpi_onnx_op *o, const tpi_onnx_operator *row, tp_dtype *dtype)
{
    tpi_onnx_ints k;
    const bool all = row->operands[0] == 'M';
    if (row->operands[0] != 'm' && !all)
        return false;
    for (int i = 0; i < o->n_in; i++) {
        if (i > 0 && !all
                ? tpi_onnx_has(o, i) && !tpi_onnx_is_known(o, i)
                : !tpi_onnx_try_ints(o, i, &k) || (k.dtype != TP_I64 && k.dtype != TP_I32))
            return false;
        *dtype = i == 0 || all ? k.dtype : *dtype;
    }
    o->n_moved = all ? o->n_in : 1;
    return o->n_in > 0;
}

bool tpi_onnx_end_moves(tpi_onnx_op *o, const tp_tensor *y, tp_dtype dtype)
{
    o->n_moved = 0;
    if (!y || y->status != TP_OK || y->graph || y->rank > 1 || tpi_count(y) > TPI_ONNX_INTS)
        return tpi_onnx_forget(o->im) && false;
    tpi_onnx_ints k = ints_in(y);
    k.dtype = dtype;
    return tpi_onnx_out_ints(o, 0, &k);
}

bool tpi_onnx_try_sizes(tpi_onnx_op *o, int i, tpi_onnx_ints *out)
{
    return take_ints(o, i, out, true);
}

bool tpi_onnx_try_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *out)
{
    return take_ints(o, i, out, true) && out->dtype < TP_F32;
}

bool tpi_onnx_ints_of(tpi_onnx_op *o, int i, tpi_onnx_ints *out)
{
    return take_ints(o, i, out, false);
}

bool tpi_onnx_plain_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *out)
{
    if (!tpi_onnx_ints_of(o, i, out))
        return false;
    for (int k = 0; k < out->n; k++)
        if (tpi_dim_is_symbolic(out->v[k])) {
            refuse_unknown(o, i, operand(o, i));
            return false;
        }
    return true;
}

bool tpi_onnx_int_of(tpi_onnx_op *o, int i, int64_t *out)
{
    tpi_onnx_ints k;
    if (!tpi_onnx_ints_of(o, i, &k))
        return false;
    *out = k.v[0];
    return k.n == 1 || tpi_onnx_refuse(o, "input %d has to be one integer, and is %d", i, k.n);
}

bool tpi_onnx_number_of(tpi_onnx_op *o, int i, double *out)
{
    const tp_tensor *t = tpi_onnx_known(o, i);
    if (!t)
        return false;
    if (tpi_count(t) != 1)
        return tpi_onnx_refuse(o, "input %d has to be one number, and is %s", i, SHAPE(t));
    *out = tpi_load_f64((tp_dtype)t->dtype, t->data);
    return true;
}

/* ---- results --------------------------------------------------------------------------------------- */

bool tpi_onnx_wants(const tpi_onnx_op *o, int k)
{
    return k < o->n_out && o->node->out[k].size > 0;
}

/* An output of the model that is said to be of 16-bit floats is rounded to such. */
static tp_tensor *as_declared(tpi_onnx_op *o, int k, tp_tensor *t)
{
    const tpi_onnx_graph *g = &o->im->m->graph;
    if (tp_dtype_of(t) != TP_F32 || o->env->outer || o->env->function)
        return t;
    for (int i = 0; i < g->n_outputs; i++)
        if (tpi_span_same(g->outputs[i].name, o->node->out[k]))
            return tpi_onnx_round(o, t, g->outputs[i].type);
    return t;
}

enum { FAR = 4 }; /* nodes between a result and what it was made of */

/* Names a node "y.conv", or "y.conv.2" where another one has that name. */
static void name_part(tpi_onnx_op *o, tp_tensor *x, const char *name, const char *what)
{
    const size_t size = strlen(name) + strlen(what) + 4;
    char *own = tpi_onnx_take(o->im->m, size, 1);
    if (!own)
        return;
    snprintf(own, size, "%s.%s", name, what);
    if (tpi_graph_name(x->graph, x, own) == TP_E_NAME) {
        snprintf(own, size, "%s.%s.2", name, what);
        tpi_graph_name(x->graph, x, own);
    }
}

/* The product, convolution or loop that an operator's result x was made of, of which only a bias or a
 * change of form has the name. It is what takes the time, and profiles are to say whose it is. A loop of
 * an operator with two directions, and the product that it goes over, are named too. */
static void name_parts(tpi_onnx_op *o, const tp_tensor *x, const char *name, int far)
{
    const int n = x->op == &tpi_op_concat ? x->n_in : x->n_in > 0;
    for (int i = 0; i < n && far > 0; i++) {
        tp_tensor *part = x->in[i];
        const bool is_block = part->op == &tpi_op_output;
        if (part->graph != x->graph || part->name || part->op->kind == TPI_SOURCE ||
            !part->n_in)
            continue;
        if (!is_block && part->op != &tpi_op_conv && part->op != &tpi_op_matmul) {
            name_parts(o, part, name, far - 1);
            continue;
        }
        const tp_tensor *block = part->in[0];
        name_part(o, part, name, is_block ? block->op->name : part->op->name);
        const tpi_loop_attrs *a = block->op == &tpi_op_loop ? block->attrs : NULL;
        if (is_block && a && a->n_slices > 0)
            name_parts(o, block->in[a->n_carried], name, FAR);
    }
}

bool tpi_onnx_out(tpi_onnx_op *o, int k, tp_tensor *t)
{
    if (!tpi_onnx_good(o, t))
        return false;
    if (!tpi_onnx_wants(o, k))
        return true;
    t = as_declared(o, k, t);
    if (t->status != TP_OK)
        return tpi_onnx_bad(o->im->m, (tp_status)t->status, "%s", tpi_onnx_error_text(o->im));
    tpi_onnx_value *v = tpi_onnx_define(o->im, o->env, o->node->out[k]);
    if (!v)
        return false;
    v->tensor = t;
    if (!t->graph || t->name)
        return true;
    const char *name = tpi_onnx_cstring(o->im->m, v->name);
    if (!name)
        return false;
    tpi_graph_name(t->graph, t, name); /* when the name is taken the node goes without */
    name_parts(o, t, name, FAR);
    return true;
}

bool tpi_onnx_out_ints(tpi_onnx_op *o, int k, const tpi_onnx_ints *known)
{
    if (!tpi_onnx_wants(o, k))
        return true;
    bool plain = true;
    for (int i = 0; i < known->n; i++)
        plain &= !tpi_dim_is_symbolic(known->v[i]);
    if (plain)
        return tpi_onnx_out(o, k, stack_ints(o->im, known));
    tpi_onnx_value *v = tpi_onnx_define(o->im, o->env, o->node->out[k]);
    tpi_onnx_ints *copy = tpi_onnx_take(o->im->m, 1, sizeof *copy);
    if (!v || !copy)
        return false;
    *copy = *known;
    v->ints = copy;
    return true;
}

/* ---- making ---------------------------------------------------------------------------------------- */

tp_tensor *tpi_onnx_size_of(tpi_onnx_op *o, int64_t size, tp_dtype dtype)
{
    const tpi_onnx_ints one = {.n = 1, .dtype = dtype == TP_I32 ? TP_I32 : TP_I64, .v = {size}};
    tp_tensor *t = stack_ints(o->im, &one);
    return one.dtype == dtype ? t : tp_cast(t, dtype);
}

tp_tensor *tpi_onnx_times(tpi_onnx_op *o, tp_tensor *x, double k)
{
    return k == 1 ? x : tp_mul(x, tp_scalar_like(x, k));
}

tp_tensor *tpi_onnx_plus(tpi_onnx_op *o, tp_tensor *x, double k)
{
    return tp_add(x, tp_scalar_like(x, k));
}

tp_tensor *tpi_onnx_iota(tpi_onnx_op *o, int64_t size, tp_dtype dtype)
{
    if (size >= 0 && size <= TPI_ONNX_FOLD_RESULT)
        return tp_arange(o->ctx, dtype, size, 0, 1);
    tp_tensor *one = tp_graph_read(o->g, tp_scalar(o->ctx, dtype, 1));
    return tp_cumsum(tp_broadcast(one, 1, &size), 0, true, false);
}

tp_tensor *tpi_onnx_for_shape(tpi_onnx_op *o, tp_tensor *x, int rank, const int64_t *shape)
{
    int64_t count = 1;
    bool large = tpi_onnx_folds_no_more(o->im);
    for (int i = 0; i < rank; i++)
        large |= shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count);
    return large || count > TPI_ONNX_FOLD_RESULT ? tp_graph_read(o->g, x) : x;
}

bool tpi_onnx_spend(tpi_onnx_op *o, int64_t n)
{
    if (n <= TPI_ONNX_MAX_OPS - o->im->n_ops) {
        o->im->n_ops += n > 0 ? n : 0;
        return true;
    }
    return tpi_onnx_refuse(o, "the model becomes more than %d nodes", TPI_ONNX_MAX_OPS);
}

tp_dtype tpi_onnx_elem_type(tpi_onnx_op *o, int64_t onnx_type)
{
    const int known = onnx_type < 0 || onnx_type > 1000 ? 1000 : (int)onnx_type;
    const tp_dtype dtype = tpi_onnx_dtype(known);
    if (dtype == TP_N_DTYPES)
        tpi_onnx_refuse(o, "element type %s is not supported", tpi_onnx_type_name(known));
    return dtype;
}
