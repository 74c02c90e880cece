/* Loops that go on while a counter is below a size: for i in range(n), as exporters write it for a Loop
 * that has a condition only. Their number of turns is known, and two of them have the same one. */
#include "onnx/import/import_inner.h"

enum { MOST_TERMS = 8 }; /* comparisons that are joined by "and" */

/* Another type, other axes, or it joins the loop. */
static bool is_same(const tp_tensor *t)
{
    return t->op->code == TPI_OP_cast || t->op->code == TPI_OP_reshape ||
           t->op->code == TPI_OP_enter;
}

/* What a value is but for its type and its axes. */
static const tp_tensor *bare(const tp_tensor *t)
{
    for (int i = 0; i < 64 && t->graph; i++) {
        tp_tensor *outer = t->op->code == TPI_OP_param ? tpi_onnx_outer_of(t) : NULL;
        if (is_same(t))
            t = t->in[0];
        else if (outer)
            t = outer;
        else
            break;
    }
    return t;
}

/* The whole number of a constant of one element, or of such a weight: exporters have the floats that they
 * count by as initializers, and nothing trains what is compared with a counter. */
static bool whole_in(const tp_tensor *t, int64_t *v)
{
    t = bare(t);
    const bool held =
        t->graph && (t->op->code == TPI_OP_const || t->op->code == TPI_OP_variable);
    const tp_tensor *c = held ? t->in[0] : t;
    if (c->graph || c->status != TP_OK || tpi_count(c) != 1) /* it may have failed */
        return false;
    const double number = tpi_load_f64((tp_dtype)c->dtype, c->data);
    if (!(number > -1e9 && number < 1e9) || number != (double)(int64_t)number)
        return false;
    *v = (int64_t)number;
    return true;
}

/* A size, or a whole number; TPI_NO_DIM: it is neither. */
static int64_t size_in(const tpi_import *im, const tp_tensor *t)
{
    int64_t v;
    t = bare(t);
    if (t->graph && t->op->code == TPI_OP_extent) {
        const tpi_list *axes =
            (const tpi_list *)(const void *)((const char *)t->attrs + t->op->attrs[0].offset);
        int64_t size = 1;
        for (int i = 0; i < axes->n; i++)
            size = tpi_dim_mul(im->root->dims, size, t->in[0]->shape[axes->v[i]]);
        return size;
    }
    return whole_in(t, &v) && v >= 0 ? v : TPI_NO_DIM;
}

/* A number of any type as base + offset: what a loop counts by, floats too. */
static tpi_onnx_place place_of(const tp_tensor *t)
{
    return tpi_onnx_place_of(t, is_same, whole_in);
}

/* Is it the turn's number, or a carried value that counts the turns? Then it is the turn's plus *more. */
static bool counts(const tpi_onnx_loop *l, const tp_tensor *t, tp_tensor *const *out,
                   int64_t *more)
{
    const tpi_onnx_place at = place_of(t);
    *more = at.offset;
    if (at.base == l->turn)
        return true;
    for (int k = 0; k < l->n_carried; k++) {
        if (at.base != l->carried[k])
            continue;
        const tpi_onnx_place after = place_of(out[k]), start = place_of(l->operands[k]);
        int64_t from;
        if (after.base != at.base || after.offset != 1 || !whole_in(start.base, &from))
            return false;
        *more += start.offset + from;
        return true;
    }
    return false;
}

/* A comparison as low < high: `high` is one greater where they may be equal. */
typedef struct comparison {
    const tp_tensor *low;
    int64_t high; /* a size; TPI_NO_DIM: none */
} comparison;

static comparison compare(const tpi_import *im, const tp_tensor *t, bool is)
{
    const int code = t->graph ? t->op->code : -1;
    if (code != TPI_OP_lt && code != TPI_OP_le && code != TPI_OP_gt && code != TPI_OP_ge)
        return (comparison){NULL, TPI_NO_DIM};
    const bool turned = (code == TPI_OP_gt || code == TPI_OP_ge) == is;
    const bool strict = (code == TPI_OP_lt || code == TPI_OP_gt) == is;
    const int64_t high = size_in(im, t->in[!turned]);
    return (comparison){t->in[turned], strict ? high : tpi_dim_add(im->root->dims, high, 1)};
}

/* As long as the comparison holds so many turns are taken: low is the turn's number and `more` at the end
 * of a turn, or before the first one (`l` NULL) a number. */
static int64_t turns_of(const tpi_import *im, comparison c, const tpi_onnx_loop *l,
                        tp_tensor *const *out)
{
    tpi_dims *dims = im->root->dims;
    int64_t more;
    if (c.high == TPI_NO_DIM || !(l ? counts(l, c.low, out, &more) : whole_in(c.low, &more)))
        return TPI_NO_DIM;
    more -= l != NULL;
    const int64_t turns =
        more < 0 ? tpi_dim_add(dims, c.high, -more) : tpi_dim_sub(dims, c.high, more);
    return tpi_dim_at_most(dims, 0, turns) ? turns : TPI_NO_DIM;
}

/* The least number of turns that one of the comparisons says that the condition is made of; TPI_NO_DIM: it
 * is made of something else. */
static int64_t least_turns(const tpi_import *im, const tp_tensor *pred, const tpi_onnx_loop *l,
                           tp_tensor *const *out)
{
    struct {
        const tp_tensor *t;
        bool is; /* as it has to come out */
    } terms[MOST_TERMS] = {
        {pred, true}
    };
    int64_t least = TPI_NO_DIM;
    for (int i = 0, n = 1; i < n; i++) {
        const tp_tensor *t = terms[i].t;
        bool is = terms[i].is;
        while (t->graph && (t->op->code == TPI_OP_reshape || t->op->code == TPI_OP_not)) {
            is ^= t->op->code == TPI_OP_not;
            t = t->in[0];
        }
        int64_t v;
        if (t->graph && t->op->code == (is ? TPI_OP_and : TPI_OP_or) && n < MOST_TERMS) {
            terms[n].t = t->in[0];
            terms[n++].is = is;
            terms[i].t = t->in[1];
            terms[i--].is = is;
            continue;
        }
        if (whole_in(t, &v) && (v != 0) == is)
            continue;
        const int64_t turns = turns_of(im, compare(im, t, is), l, out);
        least = least == TPI_NO_DIM ? turns : tpi_dim_min(im->root->dims, least, turns);
        if (turns == TPI_NO_DIM || least == TPI_NO_DIM)
            return TPI_NO_DIM;
    }
    return least;
}

int64_t tpi_onnx_turns(const tpi_import *im, const tpi_onnx_loop *l, const tp_tensor *first,
                       const tp_tensor *pred, tp_tensor *const *out)
{
    const int64_t turns = least_turns(im, pred, l, out);
    if (turns == TPI_NO_DIM)
        return TPI_NO_DIM;
    const bool begins = first->graph ? least_turns(im, first, NULL, NULL) == turns
                                     : turns >= 1 && first->status == TP_OK &&
                                           tpi_load_i64(TP_BOOL, first->data) != 0;
    return begins && (l->count == TPI_NO_DIM || l->count == turns) ? turns : TPI_NO_DIM;
}
