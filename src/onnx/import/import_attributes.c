/* What a node says beside its operands, as the table of operators has it: attributes, and those of them that later
 * operator sets made operands of. */
#include "ir/notation.h"
#include "onnx/import/import_inner.h"

#include <string.h>

static const tpi_onnx_attr *find_attr(int n, const tpi_onnx_attr *attrs, tpi_span name)
{
    for (int i = 0; i < n; i++)
        if (tpi_span_same(attrs[i].name, name))
            return &attrs[i];
    return NULL;
}

/* An attribute of a node in a function may stand for one of the call. */
static const tpi_onnx_attr *resolve(const tpi_onnx_env *f, const tpi_onnx_attr *a)
{
    for (int depth = 0; a && a->ref.size && depth <= TPI_ONNX_MAX_DEPTH; depth++) {
        while (f && !f->function)
            f = f->outer;
        if (!f)
            return NULL;
        const tpi_onnx_attr *given =
            find_attr(f->caller->node->n_attrs, f->caller->node->attrs, a->ref);
        a = given ? given : find_attr(f->function->n_attrs, f->function->attrs, a->ref);
        f = f->caller->env;
    }
    return a && a->ref.size ? NULL : a;
}

/* ---- checked before an operator is imported -------------------------------------------------------- */

/* Which of the words it is; -1: none of them. */
static int place_among(tpi_span words, tpi_span text)
{
    int i = 0;
    for (tpi_span word; tpi_onnx_next_word(&words, &word); i++)
        if (tpi_span_same(word, text))
            return i;
    return -1;
}

static bool has_type(const tpi_onnx_attr *a, tpi_span type)
{
    /* by the number that the format has for each; `axis` and `type` are ints */
    static const char names[] = "any|float|int|text|tensor|graph|floats|ints|texts";
    const int is = place_among((tpi_span){names, sizeof names - 1}, type);
    return is == 0 || a->type == (is < 0 ? TPI_PB_INT : is);
}

static bool check_attribute(tpi_onnx_op *o, const tpi_onnx_attr *named)
{
    tpi_onnx_attribute row;
    const tpi_onnx_attr *a = resolve(o->env, named);
    if (!a)
        return true;
    if (!tpi_onnx_attribute_of(o->attributes, o->opset, named->name, &row))
        return (named->name.size && named->name.at[0] == '_') || /* one of the writer's own */
               tpi_onnx_refuse(o, "attribute \"%.*s\" is not supported", TPI_SPAN(named->name));
    if (row.operand)
        return tpi_onnx_refuse(o, "attribute %.*s is operand %d in this operator set",
                               TPI_SPAN(row.name), row.operand);
    if (row.is_over)
        return true;
    if (!has_type(a, row.type))
        return tpi_onnx_refuse(o, "attribute %.*s is no %.*s", TPI_SPAN(row.name),
                               TPI_SPAN(row.type));
    if (a->type == TPI_PB_STRING && row.otherwise.size && place_among(row.otherwise, a->s) < 0)
        return tpi_onnx_refuse(o, "%.*s \"%.*s\" is not supported", TPI_SPAN(row.name),
                               TPI_SPAN(a->s));
    return !tpi_span_is(row.type, "type") || !a->i ||
           tpi_onnx_elem_type(o, a->i) != TP_N_DTYPES;
}

bool tpi_onnx_check_attributes(tpi_onnx_op *o)
{
    for (int i = 0; i < o->node->n_attrs; i++)
        if (!check_attribute(o, &o->node->attrs[i]))
            return false;
    return true;
}

/* ---- one by one ------------------------------------------------------------------------------------ */

/* What the table and the node say of a name. */
typedef struct setting {
    tpi_onnx_attribute row;
    const tpi_onnx_attr *given; /* NULL: it is not, or an operand is it */
} setting;

static setting setting_of(const tpi_onnx_op *o, const char *name)
{
    const tpi_span key = {name, strlen(name)};
    setting s = {0};
    if (!tpi_onnx_attribute_of(o->attributes, o->opset, key, &s.row))
        tpi_onnx_bad(o->im->m, TP_E_BUG, "%s has no attribute %s", o->name, name);
    else if (!s.row.is_over)
        s.given = resolve(o->env, find_attr(o->node->n_attrs, o->node->attrs, key));
    return s;
}

static int64_t default_int(const setting *s)
{
    int64_t v = 0;
    tpi_scan_i64(s->row.otherwise.at, s->row.otherwise.at + s->row.otherwise.size, &v);
    return v;
}

static double default_float(const setting *s)
{
    double v = 0;
    tpi_scan_f64(s->row.otherwise.at, s->row.otherwise.at + s->row.otherwise.size, &v);
    return (double)(float)v;
}

const tpi_onnx_attr *tpi_onnx_attr_of(const tpi_onnx_op *o, const char *name)
{
    return setting_of(o, name).given;
}

bool tpi_onnx_given(const tpi_onnx_op *o, const char *name)
{
    const setting s = setting_of(o, name);
    return s.row.operand ? tpi_onnx_has(o, s.row.operand) : s.given != NULL;
}

int64_t tpi_onnx_int(const tpi_onnx_op *o, const char *name)
{
    const setting s = setting_of(o, name);
    return s.given ? s.given->i : default_int(&s);
}

double tpi_onnx_float(const tpi_onnx_op *o, const char *name)
{
    const setting s = setting_of(o, name);
    return s.given ? (double)s.given->f : default_float(&s);
}

bool tpi_onnx_integer(tpi_onnx_op *o, const char *name, int64_t *out)
{
    const setting s = setting_of(o, name);
    if (s.row.operand)
        return tpi_onnx_int_of(o, s.row.operand, out);
    *out = tpi_onnx_int(o, name);
    return true;
}

bool tpi_onnx_number(tpi_onnx_op *o, const char *name, double *out)
{
    const setting s = setting_of(o, name);
    if (s.row.operand && tpi_onnx_has(o, s.row.operand))
        return tpi_onnx_number_of(o, s.row.operand, out);
    *out = tpi_onnx_float(o, name);
    return true;
}

tpi_span tpi_onnx_text(const tpi_onnx_op *o, const char *name)
{
    const setting s = setting_of(o, name);
    return s.given ? s.given->s : (tpi_span){0};
}

int tpi_onnx_choice(const tpi_onnx_op *o, const char *name)
{
    const setting s = setting_of(o, name);
    return s.given ? place_among(s.row.otherwise, s.given->s) : 0;
}

tp_dtype tpi_onnx_type_or(const tpi_onnx_op *o, const char *name, tp_dtype otherwise)
{
    const int type = (int)tpi_onnx_int(o, name);
    return type ? tpi_onnx_dtype(type) : otherwise;
}

/* ---- lists ----------------------------------------------------------------------------------------- */

static bool read_ints(tpi_onnx_op *o, const char *name, const setting *s, tpi_onnx_ints *out)
{
    *out = (tpi_onnx_ints){.rank = 1, .dtype = TP_I64};
    if (s->row.operand && tpi_onnx_has(o, s->row.operand))
        return tpi_onnx_ints_of(o, s->row.operand, out);
    if (!s->given)
        return true;
    tpi_onnx_list l = tpi_onnx_list_open(s->given);
    int64_t v;
    while (tpi_onnx_next_int(&l, &v)) {
        if (out->n == TPI_ONNX_INTS || tpi_dim_is_symbolic(v))
            return tpi_onnx_refuse(o,
                                   "attribute %s has more than %d numbers, or too large ones",
                                   name, TPI_ONNX_INTS);
        out->v[out->n++] = v;
    }
    return true;
}

bool tpi_onnx_read_list(tpi_onnx_op *o, const char *name, tpi_onnx_ints *out)
{
    const setting s = setting_of(o, name);
    return read_ints(o, name, &s, out);
}

bool tpi_onnx_read_plain_list(tpi_onnx_op *o, const char *name, tpi_onnx_ints *out)
{
    const setting s = setting_of(o, name);
    return s.row.operand && tpi_onnx_has(o, s.row.operand)
               ? tpi_onnx_plain_ints(o, s.row.operand, out)
               : read_ints(o, name, &s, out);
}

bool tpi_onnx_read_list_of(tpi_onnx_op *o, const char *name, int n, int64_t *v)
{
    const setting s = setting_of(o, name);
    const int64_t least = default_int(&s);
    tpi_onnx_ints l;
    if (!read_ints(o, name, &s, &l))
        return false;
    if (l.n != 0 && l.n != n)
        return tpi_onnx_refuse(o, "attribute %s has %d numbers where %d are needed", name, l.n,
                               n);
    for (int i = 0; i < n; i++) {
        v[i] = l.n ? l.v[i] : least;
        if (v[i] < least || v[i] > INT32_MAX)
            return tpi_onnx_refuse(o, "%lld in attribute %s is not at least %d",
                                   (long long)v[i], name, (int)least);
    }
    return true;
}

bool tpi_onnx_floats(tpi_onnx_op *o, const char *name, int most, int *n, double *v)
{
    const setting s = setting_of(o, name);
    *n = 0;
    if (s.row.operand && tpi_onnx_has(o, s.row.operand))
        return tpi_onnx_known_floats(o, s.row.operand, most, n, v);
    if (!s.given)
        return true;
    tpi_onnx_list l = tpi_onnx_list_open(s.given);
    for (float f; tpi_onnx_next_float(&l, &f);) {
        if (*n == most)
            return tpi_onnx_refuse(o, "attribute %s has more than %d numbers", name, most);
        v[(*n)++] = (double)f;
    }
    return true;
}

/* ---- axes ---------------------------------------------------------------------------------------- */

bool tpi_onnx_axes(tpi_onnx_op *o, int rank, tpi_onnx_ints *out)
{
    if (!tpi_onnx_read_plain_list(o, "axes", out))
        return false;
    for (int k = 0; k < out->n; k++) {
        int axis, at = k;
        if (!tpi_onnx_positive(o, out->v[k], rank, &axis))
            return false;
        for (; at > 0 && out->v[at - 1] >= axis; at--) {
            if (out->v[at - 1] == axis)
                return tpi_onnx_refuse(o, "axis %d is named twice", axis);
            out->v[at] = out->v[at - 1];
        }
        out->v[at] = axis;
    }
    return true;
}

bool tpi_onnx_positive(tpi_onnx_op *o, int64_t axis, int rank, int *out)
{
    *out = tpi_axis(axis, rank);
    return *out >= 0 ||
           tpi_onnx_refuse(o, "axis %lld is out of range for rank %d", (long long)axis, rank);
}

bool tpi_onnx_axis(tpi_onnx_op *o, const char *name, int rank, int *out)
{
    int64_t axis;
    return tpi_onnx_integer(o, name, &axis) && tpi_onnx_positive(o, axis, rank, out);
}

tp_tensor *tpi_onnx_tensor_in(tpi_onnx_op *o, const char *name)
{
    tpi_onnx_tensor t;
    const tpi_onnx_attr *a = tpi_onnx_attr_of(o, name);
    return tpi_onnx_tensor_read(o->im->m, a->t, &t) ? tpi_onnx_tensor_make(o->im->m, &t, o->at)
                                                    : NULL;
}
