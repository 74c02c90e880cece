/* Sequences and optionals. How long a sequence is, and whether an optional has a value, is known
 * when the model is loaded, so both are gone then: what is left are their tensors. */
#include "ir/body.h"
#include "onnx/import/import_inner.h"

#include <string.h>

/* ---- values ------------------------------------------------------------------------------------ */

bool tpi_onnx_settle(tpi_import *im, tpi_onnx_value *v)
{
    const bool weight = v->data && !v->tensor && tpi_onnx_dtype(v->data->type) >= TP_F32;
    return !weight || tpi_onnx_tensor_of(im, v, true);
}

tpi_onnx_sequence *tpi_onnx_new_sequence(tpi_import *im, int n, tp_dtype dtype)
{
    tpi_onnx_sequence *s = tpi_onnx_take(im->m, 1, sizeof *s);
    tpi_onnx_value **v = tpi_onnx_take(im->m, (size_t)n, sizeof(tpi_onnx_value *));
    if (!v)
        return NULL;
    *s = (tpi_onnx_sequence){.n = n, .dtype = dtype, .v = v};
    return s;
}

static tpi_onnx_sequence *new_sequence(tpi_onnx_op *o, int n, tp_dtype dtype)
{
    return tpi_onnx_spend(o, n / 4) ? tpi_onnx_new_sequence(o->im, n, dtype) : NULL;
}

static bool out_sequence(tpi_onnx_op *o, int k, const tpi_onnx_sequence *s)
{
    const tpi_onnx_value v = {.graph = o->im->g, .list = s};
    return s && tpi_onnx_out_value(o, k, &v);
}

/* Operand i, whatever it is; NULL after an error. */
static tpi_onnx_value *value_in(tpi_onnx_op *o, int i)
{
    if (tpi_onnx_has(o, i)) {
        tpi_onnx_value *v = tpi_onnx_find(o->env, o->node->in[i]);
        return tpi_onnx_settle(o->im, v) ? v : NULL;
    }
    tpi_onnx_refuse(o, "input %d is missing", i);
    return NULL;
}

static const tpi_onnx_sequence *sequence_in(tpi_onnx_op *o, int i)
{
    const tpi_onnx_value *v = value_in(o, i);
    if (v && !v->list)
        tpi_onnx_refuse(o, "input %d (\"%.*s\") is no sequence", i, TPI_SPAN(v->name));
    return v ? v->list : NULL;
}

/* A place in a sequence of n, or, for an insertion, behind it; otherwise, when it is not said. */
static bool place_in(tpi_onnx_op *o, int i, int n, int otherwise, int *place)
{
    tpi_onnx_ints k;
    *place = otherwise;
    if (!tpi_onnx_has(o, i))
        return true;
    if (!tpi_onnx_plain_ints(o, i, &k))
        return false;
    const int64_t at = k.n == 1 && k.v[0] < 0 ? k.v[0] + n : k.v[0];
    if (k.n != 1 || at < 0 || at > otherwise || at > n)
        return tpi_onnx_refuse(o, "position %lld in a sequence of %d",
                               (long long)(k.n == 1 ? k.v[0] : -1), n);
    *place = (int)at;
    return true;
}

/* ---- blocks ---------------------------------------------------------------------------------------- */

bool tpi_onnx_same_form(const tpi_onnx_value *a, const tpi_onnx_value *b)
{
    return a->absent == b->absent && !a->list == !b->list &&
           (!a->list || a->list->n == b->list->n);
}

static bool give_tensor(tpi_onnx_op *o, tpi_body *b, tpi_onnx_value *v)
{
    tp_tensor *t = tpi_onnx_tensor_of(o->im, v, true);
    t = t ? tpi_onnx_lifted(o, b->graph, t) : NULL;
    return t && tpi_body_output(b, t);
}

bool tpi_onnx_give(tpi_onnx_op *o, tpi_body *b, tpi_onnx_value *v)
{
    bool ok = true;
    for (int i = 0; v->list && i < v->list->n && ok; i++)
        ok = give_tensor(o, b, v->list->v[i]);
    return ok && (!tpi_onnx_is_tensor(v) || give_tensor(o, b, v));
}

bool tpi_onnx_out_of(tpi_onnx_op *o, int k, const tpi_onnx_value *like, tp_tensor *block,
                     int *index)
{
    if (tpi_onnx_is_tensor(like))
        return tpi_onnx_out(o, k, tpi_output_node(o->g, o->at, block, (*index)++));
    if (!like->list)
        return tpi_onnx_out_value(o, k, like);
    tpi_onnx_sequence *s = new_sequence(o, like->list->n, like->list->dtype);
    for (int i = 0; s && i < s->n; i++) {
        tp_tensor *t = tpi_output_node(o->g, o->at, block, (*index)++);
        if (!tpi_onnx_good(o, t) || !(s->v[i] = tpi_onnx_new_value(o->im, t)))
            return false;
    }
    return out_sequence(o, k, s);
}

/* ---- sequences --------------------------------------------------------------------------------------- */

bool tpi_onnx_import_sequence_empty(tpi_onnx_op *o)
{
    return out_sequence(o, 0, new_sequence(o, 0, tpi_onnx_type_or(o, "dtype", TP_F32)));
}

bool tpi_onnx_import_sequence_construct(tpi_onnx_op *o)
{
    tpi_onnx_sequence *s = new_sequence(o, o->n_in, TP_N_DTYPES);
    for (int i = 0; s && i < o->n_in; i++) {
        if (!(s->v[i] = value_in(o, i)))
            return false;
        if (!tpi_onnx_is_tensor(s->v[i]))
            return tpi_onnx_refuse(o, "input %d is no tensor", i);
        s->dtype = tpi_onnx_in_dtype(o, i);
    }
    return out_sequence(o, 0, s);
}

bool tpi_onnx_import_sequence_insert(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *was = sequence_in(o, 0);
    tpi_onnx_value *x = was ? value_in(o, 1) : NULL;
    int at;
    if (!x || !place_in(o, 2, was->n, was->n, &at))
        return false;
    if (!tpi_onnx_is_tensor(x))
        return tpi_onnx_refuse(o, "input 1 is no tensor");
    tpi_onnx_sequence *s = new_sequence(o, was->n + 1, tpi_onnx_in_dtype(o, 1));
    for (int i = 0; s && i < s->n; i++)
        s->v[i] = i == at ? x : was->v[i - (i > at)];
    return out_sequence(o, 0, s);
}

bool tpi_onnx_import_sequence_erase(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *was = sequence_in(o, 0);
    int at;
    if (!was || !place_in(o, 1, was->n, was->n - 1, &at))
        return false;
    if (was->n == 0)
        return tpi_onnx_refuse(o, "the sequence is empty");
    tpi_onnx_sequence *s = new_sequence(o, was->n - 1, was->dtype);
    for (int i = 0; s && i < s->n; i++)
        s->v[i] = was->v[i + (i >= at)];
    return out_sequence(o, 0, s);
}

bool tpi_onnx_import_sequence_at(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *s = sequence_in(o, 0);
    int at;
    if (!s || !place_in(o, 1, s->n, s->n - 1, &at))
        return false;
    return (s->n || tpi_onnx_refuse(o, "the sequence is empty")) &&
           tpi_onnx_out_value(o, 0, s->v[at]);
}

bool tpi_onnx_import_sequence_length(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *s = sequence_in(o, 0);
    const tpi_onnx_ints n = {.n = 1, .dtype = TP_I64, .v = {s ? s->n : 0}};
    return s && tpi_onnx_out_ints(o, 0, &n);
}

bool tpi_onnx_import_concat_from_sequence(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *s = sequence_in(o, 0);
    if (!s)
        return false;
    if (s->n == 0)
        return tpi_onnx_refuse(o, "the sequence is empty");
    tp_tensor **x = tpi_onnx_take(o->im->m, (size_t)s->n, sizeof *x);
    for (int i = 0; x && i < s->n; i++)
        if (!(x[i] = tpi_onnx_tensor_of(o->im, s->v[i], true)))
            return false;
    const bool stacks = tpi_onnx_int(o, "new_axis") != 0;
    int axis;
    return x && tpi_onnx_axis(o, "axis", tp_rank(x[0]) + stacks, &axis) &&
           tpi_onnx_out(o, 0, stacks ? tp_stack(s->n, x, axis) : tp_concat(s->n, x, axis));
}

/* The ends of the parts of an axis of so many elements; NULL after an error. */
static int64_t *ends_of(tpi_onnx_op *o, int64_t size, int *n)
{
    tpi_onnx_ints k = {.n = 1, .v = {1}};
    if (tpi_onnx_has(o, 1) && !tpi_onnx_plain_ints(o, 1, &k))
        return NULL;
    const bool listed = k.rank == 1;
    const int64_t each = k.n ? k.v[0] : 0;
    const int64_t parts = listed ? k.n : each > 0 ? (size + each - 1) / each : -1;
    if (parts < 0 || parts > 1 << 16) {
        tpi_onnx_refuse(o, "parts of %lld of %lld elements", (long long)each, (long long)size);
        return NULL;
    }
    int64_t *ends = tpi_onnx_take(o->im->m, (size_t)parts, sizeof *ends), end = 0;
    for (int i = 0; ends && i < parts; i++) {
        const int64_t part = listed ? k.v[i] : size - end < each ? size - end : each;
        if (part < 0 || part > size - end) {
            tpi_onnx_refuse(o, "the parts do not add up to %lld elements", (long long)size);
            return NULL;
        }
        ends[i] = end += part;
    }
    if (ends && end != size) {
        tpi_onnx_refuse(o, "the parts do not add up to %lld elements", (long long)size);
        return NULL;
    }
    *n = (int)parts;
    return ends;
}

bool tpi_onnx_import_split_to_sequence(tpi_onnx_op *o)
{
    tp_tensor *x = o->x[0];
    const int axis = o->axis;
    int n = 0;
    if (x->shape[axis] < 0)
        return tpi_onnx_refuse(o, "axis %d of %s is " TPI_ONNX_FREE_DIM, axis, SHAPE(x));
    const int64_t *ends = ends_of(o, x->shape[axis], &n);
    tpi_onnx_sequence *s = ends ? new_sequence(o, n, (tp_dtype)x->dtype) : NULL;
    const bool drops = !tpi_onnx_has(o, 1) && !tpi_onnx_int(o, "keepdims");
    for (int i = 0; s && i < n; i++) {
        const int64_t from = i ? ends[i - 1] : 0;
        tp_tensor *t = drops ? tp_select(x, axis, from) : tp_slice(x, axis, from, ends[i], 1);
        if (!tpi_onnx_good(o, t) || !(s->v[i] = tpi_onnx_new_value(o->im, t)))
            return false;
    }
    return out_sequence(o, 0, s);
}

/* ---- SequenceMap --------------------------------------------------------------------------------------- */

/* The body once for element i of the sequences. */
static bool map_one(tpi_onnx_op *o, tpi_onnx_sub *sub, int i, tpi_onnx_sequence *const *out)
{
    tpi_onnx_env f;
    tpi_onnx_value **in = tpi_onnx_take(o->im->m, (size_t)o->n_in, sizeof(tpi_onnx_value *));
    for (int k = 0; k < o->n_in && in; k++) {
        tpi_onnx_value *v = value_in(o, k);
        if (v && v->list && i >= v->list->n)
            return tpi_onnx_refuse(o, "sequence %d is shorter than the first one", k);
        in[k] = v && v->list ? v->list->v[i] : v;
    }
    bool ok = in && tpi_onnx_sub_run(o, sub, &f, o->n_in, in);
    for (int k = 0; k < o->n_out && ok; k++) {
        tpi_onnx_value *v = tpi_onnx_sub_output(o, sub, &f, k);
        ok = v && tpi_onnx_settle(o->im, v);
        if (ok && !tpi_onnx_is_tensor(v))
            return tpi_onnx_refuse(o, "its body gives no tensor");
        out[k]->v[i] = v;
    }
    return ok;
}

bool tpi_onnx_import_sequence_map(tpi_onnx_op *o)
{
    const tpi_onnx_sequence *first = sequence_in(o, 0);
    tpi_onnx_sub *sub = first ? tpi_onnx_sub_of(o, "body") : NULL;
    if (!sub)
        return false;
    if (sub->g.n_inputs != o->n_in || sub->g.n_outputs != o->n_out)
        return tpi_onnx_refuse(o, "its body takes %d and gives %d", sub->g.n_inputs,
                               sub->g.n_outputs);
    tpi_onnx_sequence **out = tpi_onnx_take(o->im->m, (size_t)o->n_out, sizeof *out);
    bool ok = out;
    for (int k = 0; k < o->n_out && ok; k++)
        ok = (out[k] = new_sequence(o, first->n, TP_N_DTYPES)) != NULL;
    for (int i = 0; i < first->n && ok; i++)
        ok = map_one(o, sub, i, out);
    for (int k = 0; k < o->n_out && ok; k++)
        ok = out_sequence(o, k, out[k]);
    return ok;
}

/* ---- Identity, optionals ------------------------------------------------------------------------------------------- */

bool tpi_onnx_import_identity(tpi_onnx_op *o)
{
    const tpi_onnx_value *v = value_in(o, 0);
    if (v && (v->ints || !tpi_onnx_is_tensor(v)))
        return tpi_onnx_out_value(o, 0, v);
    return v && tpi_onnx_out(o, 0, tpi_onnx_in(o, 0));
}

bool tpi_onnx_import_optional(tpi_onnx_op *o)
{
    const tpi_onnx_value *v =
        tpi_onnx_has(o, 0) ? value_in(o, 0) : tpi_onnx_new_value(o->im, NULL);
    if (!v)
        return false;
    tpi_onnx_value none = *v;
    none.absent = !tpi_onnx_has(o, 0);
    return tpi_onnx_out_value(o, 0, &none);
}

bool tpi_onnx_import_optional_has_element(tpi_onnx_op *o)
{
    const tpi_onnx_value *v = tpi_onnx_has(o, 0) ? value_in(o, 0) : NULL;
    if (!v && tpi_onnx_has(o, 0))
        return false;
    return tpi_onnx_out(o, 0, tp_scalar(o->ctx, TP_BOOL, v && !v->absent));
}

bool tpi_onnx_import_optional_get_element(tpi_onnx_op *o)
{
    const tpi_onnx_value *v = value_in(o, 0);
    if (v && v->absent)
        return tpi_onnx_refuse(o, "the optional \"%.*s\" has no value", TPI_SPAN(v->name));
    return v && tpi_onnx_out_value(o, 0, v);
}
